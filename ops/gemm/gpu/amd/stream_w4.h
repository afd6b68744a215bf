/* SPDX-License-Identifier: MIT
 *
 * stream.hip's multiply() of a 4-bit W and a 16-bit X: W becomes X's format, exactly. A group's sums are multiplied by
 * its scale. */

RFG_DEVICE void multiply(rfg_frag_wx (*acc)[FRAGS_M], const struct step *s, int u)
{
    (void)u;
    float scale[SCALE_LOADS][SCALE_VALUES];
    scales_of(scale, s->scale);
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
        rfg_keep_order(); /* or all of W is decoded first, into registers that there aren't */
#pragma unroll
        for (int g = 0; g < W_GROUPS; g++) {
            rfg_frag_wx sum[FRAGS_M];
            w_offset offset = W_OFFSET_OF(s->zero[j][g]);
#pragma unroll
            for (int h = 0; h < W_GROUP_STEPS; h++) {
                rfg_frag_ab w;
#pragma unroll
                for (int i = 0; i < RFG_FRAG_AB; i++)
                    w.v[i] = w_decode(w_word(s->w[j].v[i], g * W_GROUP_STEPS + h), offset);
#pragma unroll
                for (int i = 0; i < FRAGS_M; i++) {
#pragma unroll
                    for (int e = 0; e < RFG_FRAG_WX && h == 0; e++)
                        sum[i].v[e] = 0.0f;
                    rfg_stream_mma(&sum[i], &w, &s->x[g * W_GROUP_STEPS + h][i], IN_DTYPE);
                }
            }
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++) {
                float f = scale_of(scale, j, g, e);
#pragma unroll
                for (int i = 0; i < FRAGS_M; i++)
                    acc[j][i].v[e] = rfg_fma(sum[i].v[e], f, acc[j][i].v[e]);
            }
        }
    }
    settle_sums(acc);
}
