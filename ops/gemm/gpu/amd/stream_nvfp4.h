/* SPDX-License-Identifier: MIT
 *
 * stream.hip's step of nvfp4: codes are multiplied by their scales as they become fragments, exactly, and fragments add
 * up to sums that need no scale. A lane loads those of its row of W, a byte for each word that has one of its own. */

/* Pieces of a fragment that have a group of their own, and offsets of them; numbers of a row in a step. */
#define SCALE_LOADS  (RFG_FRAG_AB > 1 && W_GROUP < 32 ? 2 : 1)
#define SCALES_A_ROW (W_STEPS * SCALE_LOADS)
#define GROUP_BYTES  PREPACK_ROWS

RFG_DEVICE rfg_u32 scale_offset(int i)
{
    int chunk = rfg_frag_chunk(i * RFG_FRAG_AB / SCALE_LOADS);
    return (rfg_u32)(W_GROUP_OF_CHUNK(chunk) * PREPACK_ROWS + rfg_frag_row(0));
}

/* Of step `step + u`. at: of the lane; groups: of a row. */
RFG_DEVICE void load_scales(rfg_u32 (*scale)[SCALES_A_ROW], rfg_buffer from, const rfg_u32 *at, int groups, int step,
                            int u)
{
    int first = W_GROUP > PREPACK4_COLS ? W_GROUP_OF(step + u) : W_GROUP_OF(step);
    int more = W_GROUP > PREPACK4_COLS ? 0 : u * W_GROUPS;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < SCALES_A_ROW; i++)
            scale[j][i] = (rfg_u32)rfg_llvm_buffer_load1(
                from, (int)at[i % SCALE_LOADS] + (more + W_GROUP_IN(i / SCALE_LOADS)) * PREPACK_ROWS,
                (j * groups + first) * PREPACK_ROWS, 0);
}

/* Fragment h of a step. */
RFG_DEVICE void decode_fragment(rfg_frag_ab *w, const rfg_frag_ab *codes, const rfg_u32 *scale, int h)
{
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++)
        w->v[i] = w_decode_by(w_word(codes->v[i], h), w_e4m3(scale[h * SCALE_LOADS + i * SCALE_LOADS / RFG_FRAG_AB]));
}
