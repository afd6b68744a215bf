/* SPDX-License-Identifier: MIT
 *
 * Of prefill_wgmma.hip: the forms of Hopper's matrix instruction that it takes (rfg_wgmma.h has tiles' layout and the
 * rest). Sums are rfg_frag_c in a row, of 16 columns each: rows l / 4 and l / 4 + 8 of the wave's 16, columns 2 (l % 4)
 * and one more, 8 further on in the second half: as rfg_attention.h has it. */

#define WG_F2(c, i)   "+f"((c)[(i) / 8].v[(i) % 8]), "+f"((c)[(i) / 8].v[(i) % 8 + 1])
#define WG_F4(c, i)   WG_F2(c, i), WG_F2(c, (i) + 2)
#define WG_F16(c, i)  WG_F4(c, i), WG_F4(c, (i) + 4), WG_F4(c, (i) + 8), WG_F4(c, (i) + 12)
#define WG_F32(c, i)  WG_F16(c, i), WG_F16(c, (i) + 16)
#define WG_F8(c, i)   WG_F4(c, i), WG_F4(c, (i) + 4)
#define WG_F40(c, i)  WG_F32(c, i), WG_F8(c, (i) + 32)
#define WG_F48(c, i)  WG_F32(c, i), WG_F16(c, (i) + 32)
#define WG_F56(c, i)  WG_F48(c, i), WG_F8(c, (i) + 48)
#define WG_F64(c, i)  WG_F32(c, i), WG_F32(c, (i) + 32)
#define WG_F80(c, i)  WG_F64(c, i), WG_F16(c, (i) + 64)
#define WG_F96(c, i)  WG_F64(c, i), WG_F32(c, (i) + 64)
#define WG_F128(c, i) WG_F64(c, i), WG_F64(c, (i) + 64)

#define WG_R40 RFG_WG_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WG_R48 WG_R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WG_R56 WG_R48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WG_R80 RFG_WG_R64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define WG_R96 WG_R80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WG_R128                                                                                                        \
    WG_R96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "      \
           "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WG_R32 RFG_WG_R32
#define WG_R64 RFG_WG_R64

#if DTYPE == RFG_F16
#define WG_TYPE "f16"
#else
#define WG_TYPE "bf16"
#endif

/* c = (add ? c : 0) + A B^T, A's 64 rows and B's in LDS. a, b, p: numbers of the operands after c's. turn: "1" if A's rows
 * in LDS are those of the product's k, else "0". */
#define WG_BOTH(width, registers, a, b, p, turn)                                                                       \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" p ", 0;\n"                                                   \
                 "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." WG_TYPE "." WG_TYPE " {" WG_R##registers         \
                 "}, %" a ", %" b ", add, 1, 1, " turn ", 0;\n}"                                                       \
                 : WG_F##registers(c, 0)                                                                               \
                 : "l"(rows_a), "l"(rows_b), "r"(add))
/* c += A B, A's rows in registers, B's rows in LDS are those of the product's k. a0 ... b: as above. */
#define WG_TRANSPOSED(width, registers, a0, a1, a2, a3, b)                                                             \
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." WG_TYPE "." WG_TYPE " {" WG_R##registers         \
                 "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b ", add, 1, 1, 1;\n}"                                   \
                 : WG_F##registers(c, 0)                                                                               \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(rows_b))

/* Scores of TILE_KV keys. */
RFG_DEVICE void wg_scores(rfg_frag_c *c, rfg_u64 rows_a, rfg_u64 rows_b, int add)
{
#if TILE_KV == 64
    WG_BOTH("64", 32, "32", "33", "34", "0");
#elif TILE_KV == 128
    WG_BOTH("128", 64, "64", "65", "66", "0");
#else
#error "TILE_KV"
#endif
}

#ifdef WG_COLUMNS
/* Output of WG_COLUMNS columns. */
RFG_DEVICE void wg_values(rfg_frag_c *c, rfg_u32x4 a, rfg_u64 rows_b)
{
#if WG_COLUMNS == 64
    WG_TRANSPOSED("64", 32, "32", "33", "34", "35", "36");
#elif WG_COLUMNS == 80
    WG_TRANSPOSED("80", 40, "40", "41", "42", "43", "44");
#elif WG_COLUMNS == 96
    WG_TRANSPOSED("96", 48, "48", "49", "50", "51", "52");
#elif WG_COLUMNS == 112
    WG_TRANSPOSED("112", 56, "56", "57", "58", "59", "60");
#elif WG_COLUMNS == 128
    WG_TRANSPOSED("128", 64, "64", "65", "66", "67", "68");
#elif WG_COLUMNS == 160
    WG_TRANSPOSED("160", 80, "80", "81", "82", "83", "84");
#elif WG_COLUMNS == 192
    WG_TRANSPOSED("192", 96, "96", "97", "98", "99", "100");
#elif WG_COLUMNS == 256
    WG_TRANSPOSED("256", 128, "128", "129", "130", "131", "132");
#else
#error "WG_COLUMNS"
#endif
}
#endif

/* c is read after this, not before. */
RFG_DEVICE void wg_settle(rfg_frag_c *c, int blocks)
{
#pragma unroll
    for (int i = 0; i < blocks; i++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            asm volatile("" : "+f"(c[i].v[e])::"memory");
}

/* rfg_wg_rows() for rows that are the product's k: blocks of 64 columns begin `block` bytes from each other. */
RFG_DEVICE rfg_u64 wg_rows_transposed(const void *p, int block)
{
    rfg_u32 at = rfg_lds_address(p);
    return (rfg_u64)((at & 0x3ffffu) >> 4) | (rfg_u64)(rfg_u32)(block >> 4) << 16 | (rfg_u64)(1024 >> 4) << 32 |
           (rfg_u64)1 << 62;
}
