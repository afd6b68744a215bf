/* SPDX-License-Identifier: MIT
 *
 * What mla_decode_wgmma and mla_decode_wgmma_few share: a workgroup's share of a sequence's keys, where their rows lie,
 * and how parts of a sum are weighed. Macros: TILE_KV, PARTS, CLUSTERS; MULTIPLIERS, the threads that multiply, the
 * first of the workgroup. */

/* A barrier of the threads that multiply together. */
#ifndef TEAM
#define TEAM 0
#endif
RFG_DEVICE void meet(void)
{
    asm volatile("bar.sync %0, %1;" ::"r"(3 + 2 * TEAM), "n"(MULTIPLIERS) : "memory");
}

/* The keys of this workgroup: a share of the tiles. */
struct span {
    int begin, end;
};
RFG_DEVICE struct span span_of(const struct work_item *it)
{
    const int n = PARTS * CLUSTERS;
    int tiles = it->len > 0 ? (it->len - 1) / TILE_KV + 1 : 0, part = rfg_group_x() % n;
    struct span s = { rfg_share_begin(tiles, part, n), rfg_share_begin(tiles, part + 1, n) };
    return s;
}

/* Whether TMA copies whole tiles, MLA_WG_TMA_ROWS() at a time: blocks are rows of one matrix. */
RFG_DEVICE bool has_tiles(const struct mla_args *a)
{
    long long of_block = a->table ? 1ll << a->page_shift : (long long)a->skv;
    return a->kv_block == a->kv_row * of_block && (a->table ? a->blocks : a->batch) * of_block < 1ll << 31 &&
           MLA_WG_TMA_ROWS(a->table != 0, a->page_shift) >= 8;
}
RFG_DEVICE bool is_tiled(const struct work_item *it, bool tiles, int key0)
{
    return tiles && key0 <= it->len - TILE_KV; /* or keys past the end might be no numbers */
}

/* The block of a key, which becomes its row there. One past the end is as the last one: masked, and a number if
 * that's. */
RFG_DEVICE int block_of(const struct mla_args *a, const struct work_item *it, int *key)
{
    int k = *key < it->len ? *key : it->len - 1;
    *key = a->table ? k & ((1 << a->page_shift) - 1) : k;
    return a->table ? within_i32((int)rfg_load4(it->table + (k >> a->page_shift)), 0, a->blocks - 1) : it->b;
}

/* The matrix' row of this thread's part of the tile at key0. */
RFG_DEVICE int tiled_row(const struct mla_args *a, const struct work_item *it, int key0, int rows, int thread)
{
    int key = key0 + thread * rows, block = block_of(a, it, &key);
    return block * (a->table ? 1 << a->page_shift : a->skv) + key;
}

/* The sequence's part of the table to L2, before its length is known. */
RFG_DEVICE void expect_table(const struct mla_args *a, int b, int thread)
{
    if (a->table && !a->indptr && thread * 32 <= (a->skv - 1) >> a->page_shift)
        rfg_prefetch(a->table + b * a->table_stride + thread * 32);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Returns what scores are to be multiplied by, which is above 0, to be exponents of two. */
RFG_DEVICE float change_scores(const struct mla_args *a, const struct work_item *it, rfg_frag_c *s, int frags)
{
    if (!CAP && it->scale > 0.0f)
        return it->scale;
#pragma unroll
    for (int j = 0; j < frags; j++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float v = s[j].v[e] * it->scale;
            if (CAP) /* by tanh x = 1 - 2 / (1 + exp 2x) */
                v = a->soft_cap * LOG2_E * (1.0f - 2.0f * rfg_rcp(1.0f + rfg_exp2(v / a->soft_cap * (2 * LOG2_E))));
            s[j].v[e] = v;
        }
    return 1.0f;
}

/* ---- sums of several workgroups ---------------------------------------------------------------------------------- */

#if PARTS > 1
/* Weights of n sums, whose maxima and sums of weights are e, beside the largest maximum; m and l of all. */
RFG_DEVICE void weigh_ends(const rfg_f32x4 *e, int n, float (*by)[2], float *m, float *l)
{
    m[0] = m[1] = LOWEST;
    l[0] = l[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < n; i++) {
        m[0] = rfg_max(m[0], e[i].x);
        m[1] = rfg_max(m[1], e[i].y);
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        by[i][0] = rfg_exp2(e[i].x - m[0]);
        by[i][1] = rfg_exp2(e[i].y - m[1]);
        l[0] = rfg_fma(e[i].z, by[i][0], l[0]);
        l[1] = rfg_fma(e[i].w, by[i][1], l[1]);
    }
}
#endif
