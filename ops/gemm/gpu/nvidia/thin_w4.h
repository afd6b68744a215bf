/* SPDX-License-Identifier: MIT
 *
 * thin.hip's multiply() of a 4-bit W and a 16-bit X: W becomes X's format, exactly. A group's sums are multiplied by
 * its scale. */

RFG_DEVICE void multiply(float (*d)[4], const struct step *s)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int g = 0; g < W_GROUPS; g++) {
            float sum[FRAGS_M][4];
            w_offset offset = W_OFFSET_OF(s->g[j].zero[g]);
#pragma unroll
            for (int h = 0; h < W_GROUP_STEPS; h++) {
                int step = g * W_GROUP_STEPS + h;
                rfg_u32x4 w = w_decode(w_word(s->w[j], step), offset);
#pragma unroll
                for (int i = 0; i < FRAGS_M; i++) {
                    if (h == 0)
                        sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.0f;
                    multiply_16x8(sum[i], s->x[step], i, w);
                }
            }
            float scale[2] = { w_group_scale(s->g[j].scale[g], 0), w_group_scale(s->g[j].scale[g], 1) };
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
                for (int e = 0; e < FLOATS; e++)
                    d[j * FRAGS_M + i][e] = rfg_fma(sum[i][e], scale[e % 2], d[j * FRAGS_M + i][e]);
        }
}
