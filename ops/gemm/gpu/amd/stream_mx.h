/* SPDX-License-Identifier: MIT
 *
 * stream.hip's multiply() of mx formats, where no instruction takes them: X and W become fp16, exactly. A group's sums
 * are multiplied by both scales. */

RFG_DEVICE void multiply(rfg_frag_wx (*acc)[FRAGS_M], const struct step *s, int u)
{
    (void)u;
    float scale[SCALE_LOADS][SCALE_VALUES];
    scales_of(scale, s->scale);
#pragma unroll
    for (int g = 0; g < W_GROUPS; g++) {
        rfg_frag_x x[FRAGS_M];
        float x_scale[FRAGS_M];
        rfg_keep_order(); /* or all is decoded first, into registers that there aren't */
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++) {
            x_scale[i] = w_power_of_two(s->x_scale[i] >> 8 * g & 255u);
#pragma unroll
            for (int piece = 0; piece < RFG_FRAG_X; piece++)
                x[i].v[piece] = x_decode(s->x[g][i][piece]);
        }
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) {
            rfg_frag_ab w;
#pragma unroll
            for (int piece = 0; piece < RFG_FRAG_AB; piece++)
                w.v[piece] = w_decode(w_word(s->w[j].v[piece], g), W_OFFSET_OF(0));
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++) {
                rfg_frag_wx sum;
                rfg_frag_zero(&sum);
                rfg_stream_mma(&sum, &w, &x[i], X_AS);
#pragma unroll
                for (int e = 0; e < RFG_FRAG_WX; e++)
                    acc[j][i].v[e] = rfg_fma(sum.v[e], scale_of(scale, j, g, e) * x_scale[i], acc[j][i].v[e]);
            }
        }
    }
    settle_sums(acc);
}
