/* SPDX-License-Identifier: MIT
 *
 * What mla_decode_wgmma_few and mla_decode_wgmma_codes share: S^T and O^T in registers, keys as the instruction's rows
 * and ROWS queries as its columns, and how scores become weights. A team is the warpgroup that multiplies a tile. Macros:
 * ROWS; FRAGS of 16 of them, HEADS, WAVES, V_BLOCKS; KEY_OF(row): which of a tile's keys the instruction's row is. */

/* A thread has rows head_of(0 ... HEADS - 1) of the output, of each V_BLOCK two columns. Each row's m, the maximum that is subtracted, is the same in all threads; l is the sum of its own keys'
 * weights. */
struct state {
    rfg_frag_c o[V_BLOCKS][FRAGS];
    float m[HEADS], l[HEADS];
};

/* Of elements of rfg_frag_c, in which rows are columns: the row, numbered in the thread; whether the key, or the
 * output's column, is the one 8 further. */
RFG_DEVICE int own_head(int frag, int e)
{
    return frag * 4 + e / 4 * 2 + e % 2;
}
RFG_DEVICE int is_further(int e)
{
    return e / 2 % 2;
}
/* Of the item's ROWS. */
RFG_DEVICE int head_of(int own)
{
    return own / 2 * 8 + 2 * (rfg_lane() % 4) + own % 2;
}

/* This workgroup's item, of a sequence's items. */
RFG_DEVICE int own_item(void)
{
    return rfg_group_x() / (PARTS * CLUSTERS);
}
RFG_DEVICE int items_each(const struct mla_args *a)
{
    return (a->sq * a->hq + ROWS - 1) / ROWS;
}

/* No keys yet. end: of those that each row sees, by the first threads. */
RFG_DEVICE void begin_rows(const struct mla_args *a, const struct work_item *it, struct state *w, int *end)
{
    int own = rfg_thread();
#pragma unroll
    for (int n = 0; n < HEADS; n++) {
        w->m[n] = LOWEST;
        w->l[n] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < V_BLOCKS; d++)
#pragma unroll
        for (int j = 0; j < FRAGS; j++)
            rfg_frag_zero(&w->o[d][j]);
    if (own < ROWS)
        end[own] = a->causal ? keys_seen(a, it, row_of(it, own) / a->hq) : it->len;
}
RFG_DEVICE void settle_sums(struct state *w)
{
#pragma unroll
    for (int d = 0; d < V_BLOCKS; d++)
        wg_settle(w->o[d], FRAGS);
}

RFG_DEVICE void mask_scores(const int *end, rfg_frag_c *s, int key0)
{
    int row = rfg_wave() % WAVES * 16 + rfg_lane() / 4;
#pragma unroll
    for (int j = 0; j < FRAGS; j++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (key0 + KEY_OF(row + 8 * is_further(e)) >= end[head_of(own_head(j, e))])
                s[j].v[e] = MINUS_INFINITY;
}

/* Whether b is true in any thread of the team. */
RFG_DEVICE bool any_thread(bool b)
{
    int any;
    asm volatile(
        "{\n.reg .pred p, any;\nsetp.ne.s32 p, %1, 0;\nbar.red.or.pred any, %2, %3, p;\nselp.s32 %0, 1, 0, any;\n}"
        : "=r"(any)
        : "r"((int)b), "r"(4 + 2 * TEAM), "n"(MULTIPLIERS)
        : "memory");
    return any != 0;
}
/* w->m is raised where it must be: by the row's own scores alone. Older sums follow. */
RFG_DEVICE void raise(struct state *w, const rfg_frag_c *s, float scale, float (*of_wave)[ROWS])
{
#pragma unroll
    for (int n = 0; n < HEADS; n++) {
        const float *v = s[n / 4].v + n % 4 / 2 * 4 + n % 2;
        float most = rfg_frag_wx_reduce(rfg_max(v[0], v[2]), true);
        if (rfg_lane() < 4)
            of_wave[rfg_wave() % WAVES][head_of(n)] = most * scale;
    }
    meet();
    float down[HEADS];
#pragma unroll
    for (int n = 0; n < HEADS; n++) {
        float top = MINUS_INFINITY;
#pragma unroll
        for (int i = 0; i < WAVES; i++)
            top = rfg_max(top, of_wave[i][head_of(n)]);
        float m = top > w->m[n] + SLACK ? top : w->m[n];
        down[n] = rfg_exp2(w->m[n] - m);
        w->m[n] = m;
        w->l[n] *= down[n];
    }
#pragma unroll
    for (int d = 0; d < V_BLOCKS; d++)
#pragma unroll
        for (int j = 0; j < FRAGS; j++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                w->o[d][j].v[e] *= down[own_head(j, e)];
}

/* Scores become weights. end: of the keys that each row sees; all see `unmasked`. */
RFG_DEVICE void weigh_scores(const struct mla_args *a, const struct work_item *it, const int *end,
                             float (*of_wave)[ROWS], struct state *w, rfg_frag_c *s, int key0, int unmasked)
{
    float scale = change_scores(a, it, s, FRAGS);
    bool above = false;
    if (key0 > unmasked - TILE_KV)
        mask_scores(end, s, key0);
#pragma unroll
    for (int j = 0; j < FRAGS; j++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            above = above || s[j].v[e] * scale > w->m[own_head(j, e)] + SLACK;
    if (any_thread(above))
        raise(w, s, scale, of_wave);
#pragma unroll
    for (int j = 0; j < FRAGS; j++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            int n = own_head(j, e);
            s[j].v[e] = rfg_exp2(rfg_fma(s[j].v[e], scale, -w->m[n]));
            w->l[n] += s[j].v[e];
        }
}
/* Weights, times by[is_further()], to LDS as the product's other operand, by rows. */
RFG_DEVICE void store_weights(rfg_u32 weights, const rfg_frag_c *s, const float *by)
{
#pragma unroll
    for (int j = 0; j < FRAGS; j++) {
        rfg_u32 two[4];
        const float *v = s[j].v;
#pragma unroll
        for (int i = 0; i < 4; i++)
            two[i] = rfg_floats_to_16(v[2 * i] * by[i % 2], v[2 * i + 1] * by[i % 2], DTYPE);
        /* Four squares of 8 keys by 8 rows: keys 8 further, then rows 8 further. A lane says where a row of 8 keys goes. */
        int lane = rfg_lane(), row = j * 16 + lane / 16 * 8 + lane % 8, c = rfg_wave() % WAVES * 2 + lane / 8 % 2;
        rfg_u32 to = weights + rfg_wg_at(row, c);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(two[0]),
                     "r"(two[1]), "r"(two[2]), "r"(two[3])
                     : "memory");
    }
}
