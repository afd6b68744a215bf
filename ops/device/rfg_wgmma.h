/* SPDX-License-Identifier: MIT
 *
 * Hopper's asynchronous matrix instructions: D[64, width] += A[64, K] * B[width, K]^T by a warpgroup (4 waves, the
 * first a multiple of 4), A and B read from LDS, K their elements in 32 bytes: 16 of fp16 or bf16, 32 codes of 8 bits.
 * D is in registers, floats; of i8 ints, exact. Of e4m3 and e5m2 sums are exact to 14 bits or so.
 *
 * In LDS a tile is blocks of 128 bytes along k, chunk c (16 bytes) of row r at r * 128 + (c ^ r % 8) * 16, and begins
 * at a multiple of 1024 bytes: the instruction's 128-byte swizzle, free of bank conflicts. A's 64 rows and B's are
 * 8-row groups 1024 bytes apart; the next K elements are 32 bytes further.
 *
 * Lane l of wave w of the warpgroup holds of D, in d[4 j] to d[4 j + 3]: row 16 w + l / 4, columns 8 j + 2 (l % 4) and
 * one more; row 16 w + 8 + l / 4, the same columns. */
#if RFG_NVIDIA && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RFG_HAS_WGMMA 1

/* All dynamic LDS, as rfg_lds, aligned for the swizzle (as long as a kernel has no other LDS). */
extern RFG_SHARED __align__(1024) rfg_u32x4 rfg_wg_lds[];

/* Where chunk c of row r lies in its block. */
RFG_DEVICE rfg_u32 rfg_wg_at(int row, int c)
{
    return (rfg_u32)(row * 128 + ((c ^ (row & 7)) << 4));
}

/* Before the first of a row of rfg_wg_mma(): what this thread did to D is done. */
RFG_DEVICE void rfg_wg_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/* Closes a group of rfg_wg_mma(). */
RFG_DEVICE void rfg_wg_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most n (a constant) of the newest groups are under way. */
#define rfg_wg_wait(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

/* What this thread sees in LDS is seen by its rfg_wg_mma(). Best by threads that have no copies under way. */
RFG_DEVICE void rfg_wg_see(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The descriptor of the rows that begin at p: bits 0 to 13 are the address / 16, so that n more is 16 n bytes further;
 * 32 to 45 the distance of 8-row groups / 16; 62 to 63 the swizzle, 1: 128 bytes. (Another distance, bits 16 to 29, is
 * not used with it.) */
RFG_DEVICE rfg_u64 rfg_wg_rows(const void *p)
{
    rfg_u32 at = (rfg_u32)__cvta_generic_to_shared(p);
    return (rfg_u64)((at & 0x3ffffu) >> 4) | (rfg_u64)1 << 16 | (rfg_u64)(1024 >> 4) << 32 | (rfg_u64)1 << 62;
}

#define RFG_WG_R4  "%0, %1, %2, %3"
#define RFG_WG_R8  RFG_WG_R4 ", %4, %5, %6, %7"
#define RFG_WG_R16 RFG_WG_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define RFG_WG_R32 RFG_WG_R16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RFG_WG_R64                                                                                                     \
    RFG_WG_R32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "     \
               "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define RFG_WG_D4(c, d)  "+" c((d)[0]), "+" c((d)[1]), "+" c((d)[2]), "+" c((d)[3])
#define RFG_WG_D8(c, d)  RFG_WG_D4(c, d), RFG_WG_D4(c, (d) + 4)
#define RFG_WG_D16(c, d) RFG_WG_D8(c, d), RFG_WG_D8(c, (d) + 8)
#define RFG_WG_D32(c, d) RFG_WG_D16(c, d), RFG_WG_D16(c, (d) + 16)
#define RFG_WG_D64(c, d) RFG_WG_D32(c, d), RFG_WG_D32(c, (d) + 32)
/* set: of the predicate `add`; types: K, and what D, A and B are of; c: the constraint of D's; a, b: the numbers of
 * operands, the two after D's; rest: immediate operands of the instruction; then asm's further operands. */
#define RFG_WG_MMA(set, width, types, c, registers, a, b, rest, ...)                                                   \
    asm volatile("{\n.reg .pred add;\n" set ";\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" width types " {" RFG_WG_R##registers "}, %" a ", %" b             \
                                                                                          ", add" rest ";\n}"          \
                 : RFG_WG_D##registers(c, d)                                                                           \
                 : "l"(rows_a), "l"(rows_b)__VA_ARGS__)
#define RFG_WG_COMMA ,
#define RFG_WG_DEFINE(width, registers, a, b, p)                                                                       \
    RFG_DEVICE void rfg_wg_mma_##width(float *d, rfg_u64 rows_a, rfg_u64 rows_b, int add, int dtype)                   \
    {                                                                                                                  \
        if (dtype == RFG_F16)                                                                                          \
            RFG_WG_MMA("setp.eq.u32 add, 0, 0", #width, "k16.f32.f16.f16", "f", registers, a, b, ", 1, 1, 0, 0");      \
        else if (dtype == RFG_BF16)                                                                                    \
            RFG_WG_MMA("setp.eq.u32 add, 0, 0", #width, "k16.f32.bf16.bf16", "f", registers, a, b, ", 1, 1, 0, 0");    \
        else if (dtype == RFG_E4M3)                                                                                    \
            RFG_WG_MMA("setp.ne.b32 add, %" p ", 0", #width, "k32.f32.e4m3.e4m3", "f", registers, a, b, ", 1, 1",      \
                       RFG_WG_COMMA "r"(add));                                                                         \
        else                                                                                                           \
            RFG_WG_MMA("setp.ne.b32 add, %" p ", 0", #width, "k32.f32.e5m2.e5m2", "f", registers, a, b, ", 1, 1",      \
                       RFG_WG_COMMA "r"(add));                                                                         \
    }                                                                                                                  \
    RFG_DEVICE void rfg_wg_mma_i8_##width(int *d, rfg_u64 rows_a, rfg_u64 rows_b, int add)                             \
    {                                                                                                                  \
        RFG_WG_MMA("setp.ne.b32 add, %" p ", 0", #width, "k32.s32.s8.s8", "r", registers, a, b, "",                    \
                   RFG_WG_COMMA "r"(add));                                                                             \
    }
RFG_WG_DEFINE(8, 4, "4", "5", "6")
RFG_WG_DEFINE(16, 8, "8", "9", "10")
RFG_WG_DEFINE(32, 16, "16", "17", "18")
RFG_WG_DEFINE(64, 32, "32", "33", "34")
RFG_WG_DEFINE(128, 64, "64", "65", "66")

/* Of codes D's old value counts only if add; else always. Under way until rfg_wg_wait(): nobody touches the width / 2
 * elements of d until then. width: a literal 8, 16, 32, 64 or 128; dtype: a constant. The second is of i8. */
#define RFG_WG_NAME(width)                               rfg_wg_mma_##width
#define RFG_WG_NAME_I8(width)                            rfg_wg_mma_i8_##width
#define rfg_wg_mma(width, d, rows_a, rows_b, add, dtype) RFG_WG_NAME(width)(d, rows_a, rows_b, add, dtype)
#define rfg_wg_mma_i8(width, d, rows_a, rows_b, add)     RFG_WG_NAME_I8(width)(d, rows_a, rows_b, add)

/* d is read after this, not before. */
RFG_DEVICE void rfg_wg_settle(float *d, int n)
{
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
/* d of ints or floats as it is now, after what was waited for, where others are under way: d itself isn't touched. */
RFG_DEVICE float rfg_wg_read(float d)
{
    float f;
    asm volatile("mov.b32 %0, %1;" : "=f"(f) : "f"(d) : "memory");
    return f;
}
RFG_DEVICE float rfg_wg_read_i8(int d)
{
    int i;
    asm volatile("mov.b32 %0, %1;" : "=r"(i) : "r"(d) : "memory");
    return (float)i;
}

/* A stage of a ring in LDS, one step after the other. */
struct rfg_stage {
    int at, odd; /* odd: in its second, fourth, ... round */
};
RFG_DEVICE void rfg_next_stage(struct rfg_stage *s, int stages)
{
    if (++s->at == stages) {
        s->at = 0;
        s->odd ^= 1;
    }
}
#else
#define RFG_HAS_WGMMA 0
#endif
