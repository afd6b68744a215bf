/* SPDX-License-Identifier: MIT
 *
 * thin.hip's multiply() of two operands of 8-bit codes. i8 has instructions of its own. Of fp8 each 16 bytes become two
 * fragments of fp16, exactly. With scales of blocks a step's sums are scaled before they are added. */

/* A block's sums of a step. */
RFG_DEVICE void multiply_block(float *d, const rfg_u32x4 (*x)[2], const rfg_u32x4 *w)
{
#pragma unroll
    for (int part = 0; part < 2; part++) {
        rfg_u32x4 a[2];
        a[0] = x[0][part];
        a[1] = TILE_M == 8 ? zero16() : x[TILE_M == 8 ? 0 : 1][part];
        rfg_mma_16x8(d, a, w[part], RFG_F16);
    }
}

RFG_DEVICE void multiply(float (*d)[4], const struct step *s)
{
#if IN_DTYPE != RFG_I8
    rfg_u32x4 w[FRAGS_N][2], x[PIECES_X][2];
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        rfg_frag_parts(w[j], s->w[j], IN_DTYPE);
#pragma unroll
    for (int i = 0; i < PIECES_X; i++)
        rfg_frag_parts(x[i], s->x[0][i], IN_DTYPE);
#endif
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++) {
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) {
            float *sums = d[j * FRAGS_M + i], part[4] = { 0, 0, 0, 0 };
            float *to = SCALES == GEMM_SCALES_BLOCKS ? part : sums;
#if IN_DTYPE == RFG_I8
            rfg_u32x4 x[2];
            x[0] = s->x[0][2 * i];
            x[1] = TILE_M == 8 ? zero16() : s->x[0][TILE_M == 8 ? 0 : 2 * i + 1];
            rfg_mma_16x8_i8(to, x, s->w[j]);
#else
            multiply_block(to, &x[2 * i], w[j]);
#endif
#if SCALES == GEMM_SCALES_BLOCKS
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (e / 2 < PIECES_X)
                    sums[e] = rfg_fma(part[e], s->w_scale[HALVES ? e % 2 : 0] * s->x_scale[2 * i + e / 2 % PIECES_X],
                                      sums[e]);
#endif
        }
    }
}
