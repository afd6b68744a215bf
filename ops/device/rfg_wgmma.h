/* SPDX-License-Identifier: MIT
 *
 * Hopper's asynchronous matrix instructions: D[64, width] += A[64, 16] * B[width, 16]^T by a warpgroup (4 waves, the
 * first a multiple of 4), A and B of 16-bit elements read from LDS, D of floats in registers.
 *
 * In LDS a tile is blocks of 64 elements along k; a block is rows of 128 bytes, chunk c (16 bytes) of row r at
 * r * 128 + (c ^ r % 8) * 16, and begins at a multiple of 1024 bytes: the instruction's 128-byte swizzle, free of bank
 * conflicts. A's 64 rows and B's are 8-row groups 1024 bytes apart; a step of 16 elements along k is 32 bytes further.
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
#define RFG_WG_D4(d)  "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define RFG_WG_D8(d)  RFG_WG_D4(d), RFG_WG_D4((d) + 4)
#define RFG_WG_D16(d) RFG_WG_D8(d), RFG_WG_D8((d) + 8)
#define RFG_WG_D32(d) RFG_WG_D16(d), RFG_WG_D16((d) + 16)
#define RFG_WG_D64(d) RFG_WG_D32(d), RFG_WG_D32((d) + 32)
/* a, b: the numbers of their operands, the two after D's. */
#define RFG_WG_MMA(width, type, registers, a, b)                                                                       \
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." type "." type " {" RFG_WG_R##registers           \
                 "}, %" a ", %" b ", add, 1, 1, 0, 0;\n}"                                                              \
                 : RFG_WG_D##registers(d)                                                                              \
                 : "l"(rows_a), "l"(rows_b))
#define RFG_WG_DEFINE(name, width, registers, a, b)                                                                    \
    RFG_DEVICE void name(float *d, rfg_u64 rows_a, rfg_u64 rows_b, int dtype)                                          \
    {                                                                                                                  \
        if (dtype == RFG_F16)                                                                                          \
            RFG_WG_MMA(width, "f16", registers, a, b);                                                                 \
        else                                                                                                           \
            RFG_WG_MMA(width, "bf16", registers, a, b);                                                                \
    }
RFG_WG_DEFINE(rfg_wg_mma_8, "8", 4, "4", "5")
RFG_WG_DEFINE(rfg_wg_mma_16, "16", 8, "8", "9")
RFG_WG_DEFINE(rfg_wg_mma_32, "32", 16, "16", "17")
RFG_WG_DEFINE(rfg_wg_mma_64, "64", 32, "32", "33")
RFG_WG_DEFINE(rfg_wg_mma_128, "128", 64, "64", "65")

/* Under way until rfg_wg_wait(): nobody touches the width / 2 elements of d until then. width: a literal 8, 16, 32, 64
 * or 128; dtype: a constant. */
#define RFG_WG_NAME(width)                          rfg_wg_mma_##width
#define rfg_wg_mma(width, d, rows_a, rows_b, dtype) RFG_WG_NAME(width)(d, rows_a, rows_b, dtype)

/* d is read after this, not before. */
RFG_DEVICE void rfg_wg_settle(float *d, int n)
{
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i])::"memory");
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
