/* SPDX-License-Identifier: MIT
 *
 * Hopper's asynchronous matrix instructions (rfg_wgmma.h) with A in registers, of fp16 or bf16: D[64, width] += A[64,
 * 16] * B[width, 16]^T. Lane l of wave w of the warpgroup holds of A in a[0] row 16 w + l / 4, columns 2 (l % 4) and
 * one more; in a[1] the same of the row 8 further on; in a[2] and a[3] the columns 8 further on. Nobody touches a or d
 * until rfg_wg_wait(). Not part of rfg_device.h, whose text all tuned rows' source hashes cover. */
#if RFG_HAS_WGMMA
#define RFG_WG_MMA_A(width, type, registers, a, b, c, e, rows, p)                                                      \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" p ", 0;\n"                                                   \
                 "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." type "." type " {" RFG_WG_R##registers           \
                 "}, {%" a ", %" b ", %" c ", %" e "}, %" rows ", add, 1, 1, 0;\n}"                                    \
                 : RFG_WG_D##registers("f", d)                                                                         \
                 : "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "l"(rows_b), "r"(add))
#define RFG_WG_DEFINE_A(width, registers, ...)                                                                         \
    RFG_DEVICE void rfg_wg_mma_a_##width(float *d, const rfg_u32 *v, rfg_u64 rows_b, int add, int dtype)               \
    {                                                                                                                  \
        if (dtype == RFG_F16)                                                                                          \
            RFG_WG_MMA_A(#width, "f16", registers, __VA_ARGS__);                                                       \
        else                                                                                                           \
            RFG_WG_MMA_A(#width, "bf16", registers, __VA_ARGS__);                                                      \
    }
RFG_WG_DEFINE_A(16, 8, "8", "9", "10", "11", "12", "13")
RFG_WG_DEFINE_A(32, 16, "16", "17", "18", "19", "20", "21")
RFG_WG_DEFINE_A(64, 32, "32", "33", "34", "35", "36", "37")
RFG_WG_DEFINE_A(128, 64, "64", "65", "66", "67", "68", "69")

/* D's old value counts only if add. width: a literal 16, 32, 64 or 128; dtype: a constant. */
#define RFG_WG_NAME_A(width)                          rfg_wg_mma_a_##width
#define rfg_wg_mma_a(width, d, v, rows_b, add, dtype) RFG_WG_NAME_A(width)(d, v, rows_b, add, dtype)
#endif
