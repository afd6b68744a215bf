/* SPDX-License-Identifier: MIT
 *
 * gemm_stream_mma's step of a W of 8 bits beside X of 16: a fragment of 64 columns becomes two, whose sums are scaled
 * where a block ends. */
#include "rfg_decode8.h"

#if ROW_SCALES
#define W_SCALE(s, j, i, e) (s)->w_scale[j][e]
#elif SCALES == GEMM_SCALES_BLOCKS
#define W_SCALE(s, j, i, e) ((s)->w_scale[W_SCALE_OF(e)] * (s)->x_scale[i])
#else
#define W_SCALE(s, j, i, e) 1.0f
#endif
RFG_DEVICE void multiply(rfg_frag_wx (*acc)[FRAGS_M], const struct step *s, int u)
{
    bool blocks = SCALES == GEMM_SCALES_BLOCKS, ends = ENDS_BLOCK(u);
    (void)s;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
        rfg_keep_order(); /* or all of W is decoded first, into registers that there aren't */
        rfg_frag_ab w[W_STEPS];
#pragma unroll
        for (int i = 0; i < W_STEPS * RFG_FRAG_AB; i++)
            w[i % W_STEPS].v[i / W_STEPS] = w_decode8(s->w[j].v[i / W_STEPS], i % W_STEPS);
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++) {
            rfg_frag_wx *sums = &acc[blocks ? FRAGS_N + j : j][i];
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++)
                sums->v[e] = blocks && u % BLOCK_STEPS == 0 ? 0.0f : sums->v[e];
#pragma unroll
            for (int h = 0; h < W_STEPS; h++)
                rfg_stream_mma(sums, &w[h], &s->x[h][i], IN_DTYPE);
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++)
                if (blocks && ends)
                    acc[j][i].v[e] = rfg_fma(sums->v[e], W_SCALE(s, j, i, e), acc[j][i].v[e]);
        }
    }
    if (blocks && ends)
        settle_sums(acc);
}
