/* SPDX-License-Identifier: MIT
 *
 * thin.hip's multiply() of mx formats: X and W become fp16, exactly. A group's sums are multiplied by both scales. */

RFG_DEVICE void multiply(float (*d)[4], const struct step *s)
{
#pragma unroll
    for (int g = 0; g < W_GROUPS; g++) {
        rfg_u32x4 x[PIECES_X];
        float x_scale[PIECES_X];
#pragma unroll
        for (int i = 0; i < PIECES_X; i++) {
            x[i] = x_decode(s->x[g][i]);
            x_scale[i] = w_power_of_two(s->x_scale[i] >> 8 * g & 255u);
        }
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) {
            rfg_u32x4 w = w_decode(w_word(s->w[j], g), W_OFFSET_OF(0));
            float scale[2] = { w_group_scale(s->g[j].scale[g], 0), w_group_scale(s->g[j].scale[g], 1) };
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++) {
                float sum[4] = { 0, 0, 0, 0 };
                multiply_16x8(sum, x, i, w);
#pragma unroll
                for (int e = 0; e < FLOATS; e++)
                    d[j * FRAGS_M + i][e] =
                        rfg_fma(sum[e], scale[e % 2] * x_scale[2 * i + e / 2 % PIECES_X], d[j * FRAGS_M + i][e]);
            }
        }
    }
}
