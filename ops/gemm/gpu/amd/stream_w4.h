/* SPDX-License-Identifier: MIT
 *
 * stream.hip's multiply() of a 4-bit W and a 16-bit X: W becomes X's format, exactly. A group's sums are multiplied by
 * its scale. Of groups of 16 columns a fragment has two: it is multiplied twice, each time by the half of X that is the
 * group's, and by zeros. That takes matrix instructions, which there are enough of, and no other order of W or X. */
#define FINE          (W_GROUP < 32)
#define GROUP_FRAGS   (FINE ? 1 : W_GROUP_STEPS)
#define GROUP_FRAG(g) (FINE ? (g) / 2 : (g)*W_GROUP_STEPS) /* the first fragment of a step's group */

/* The fragment's pieces of one half of its columns. */
RFG_DEVICE rfg_frag_x half_of(rfg_frag_x x, int half)
{
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++) {
        bool in = rfg_frag_chunk(i) / 2 == half;
        x.v[i].x = in ? x.v[i].x : 0;
        x.v[i].y = in ? x.v[i].y : 0;
        x.v[i].z = in ? x.v[i].z : 0;
        x.v[i].w = in ? x.v[i].w : 0;
    }
    return x;
}

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
            for (int h = 0; h < GROUP_FRAGS; h++) {
                int frag = GROUP_FRAG(g) + h;
                rfg_frag_ab w;
#pragma unroll
                for (int i = 0; i < RFG_FRAG_AB; i++)
                    w.v[i] = w_decode(w_word(s->w[j].v[i], frag), offset);
#pragma unroll
                for (int i = 0; i < FRAGS_M; i++) {
                    rfg_frag_x x = FINE ? half_of(s->x[frag][i], g % 2) : s->x[frag][i];
#pragma unroll
                    for (int e = 0; e < RFG_FRAG_WX && h == 0; e++)
                        sum[i].v[e] = 0.0f;
                    rfg_stream_mma(&sum[i], &w, &x, IN_DTYPE);
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
