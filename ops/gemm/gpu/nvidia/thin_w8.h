/* SPDX-License-Identifier: MIT
 *
 * gemm_thin_mma's step of a W of 8 bits beside X of 16: a fragment of 64 columns becomes two. */
#include "rfg_decode8.h"

#if ROW_SCALES
#define W_SCALE(s, j, e) (s)->w_scale[j][(e) % 2]
#elif SCALES == GEMM_SCALES_BLOCKS
#define W_SCALE(s, j, e) (s)->w_scale[HALVES ? (e) % 2 : 0]
#else
#define W_SCALE(s, j, e) 1.0f
#endif
RFG_DEVICE void multiply(float (*d)[4], const struct step *s)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
        rfg_u32x4 codes = s->w[j]; /* decoded here: nvcc would do it for all steps as soon as they are loaded */
        asm volatile("" : "+r"(codes.x), "+r"(codes.y), "+r"(codes.z), "+r"(codes.w));
        rfg_u32x4 w[W_STEPS] = { w_decode8(codes, 0), w_decode8(codes, 1) };
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++) {
            float *sums = d[j * FRAGS_M + i], part[4] = { 0, 0, 0, 0 };
#pragma unroll
            for (int h = 0; h < W_STEPS; h++)
                multiply_16x8(SCALES == GEMM_SCALES_BLOCKS ? part : sums, s->x[h], i, w[h]);
#pragma unroll
            for (int e = 0; e < FLOATS && SCALES == GEMM_SCALES_BLOCKS; e++)
                sums[e] = rfg_fma(part[e], W_SCALE(s, j, e), sums[e]);
        }
    }
}
