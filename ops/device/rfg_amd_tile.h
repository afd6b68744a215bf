/* SPDX-License-Identifier: MIT
 *
 * AMD only, after rfg_amd_stream.h: what a kernel of large tiles needs. */

/* Before the name of a kernel that is declared ahead of its definition: waves of a SIMD, and with them registers. Of
 * two waves each has 256, in which the compiler leaves sums where matrix instructions take them; of 512 half are
 * accumulators, and some compilers move sums to and fro. gfx908's are always apart, and RDNA has no more than 256. */
#if RFG_MFMA && !defined(__gfx908__)
#define RFG_WAVES_A_SIMD(n) __attribute__((amdgpu_waves_per_eu(n, n)))
#else
#define RFG_WAVES_A_SIMD(n)
#endif

/* As rfg_stream_mma(), but sums of i8 stay whole numbers, in the floats' registers, for rfg_tile_sum(). */
RFG_DEVICE void rfg_tile_mma(rfg_frag_wx *c, const rfg_frag_ab *w, const rfg_frag_x *x, int dtype)
{
#if RFG_MMA_I8(RFG_I8)
    typedef int i32_piece __attribute__((ext_vector_type(4)));
    typedef int i32_sums __attribute__((ext_vector_type(RFG_FRAG_WX)));
    if (RFG_MMA_I8(dtype)) {
        i32_sums d;
#pragma unroll
        for (int e = 0; e < RFG_FRAG_WX; e++)
            d[e] = (int)rfg_as_u32(c->v[e]);
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++) {
            i32_piece a = __builtin_bit_cast(i32_piece, w->v[i]), b = __builtin_bit_cast(i32_piece, x->v[i]);
#if defined(__gfx950__)
            d = __builtin_amdgcn_mfma_i32_16x16x64_i8(a, b, d, 0, 0, 0);
#elif RFG_HAS_MMA_FP8
            typedef long i64_halves __attribute__((ext_vector_type(2)));
            i64_halves ah = __builtin_bit_cast(i64_halves, a), bh = __builtin_bit_cast(i64_halves, b);
            d = __builtin_amdgcn_mfma_i32_16x16x32_i8(ah.x, bh.x, d, 0, 0, 0);
            d = __builtin_amdgcn_mfma_i32_16x16x32_i8(ah.y, bh.y, d, 0, 0, 0);
#elif RFG_MFMA
#pragma unroll
            for (int word = 0; word < 4; word++)
                d = __builtin_amdgcn_mfma_i32_16x16x16i8(a[word], b[word], d, 0, 0, 0);
#else
            d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, d, false);
#endif
        }
#pragma unroll
        for (int e = 0; e < RFG_FRAG_WX; e++)
            c->v[e] = rfg_as_float((rfg_u32)d[e]);
        return;
    }
#endif
    rfg_stream_mma(c, w, x, dtype);
}
RFG_DEVICE float rfg_tile_sum(float sum, int dtype)
{
    return RFG_MMA_I8(dtype) ? (float)(int)rfg_as_u32(sum) : sum;
}
