/* SPDX-License-Identifier: MIT
 *
 * A work item of mla_decode's kernels: a sequence, and ROWS rows of it, a row being a query and a head. Macros: ROWS, CAP,
 * POSITIONS, SINK_DTYPE as mla_tile.h has them. */
#define LOG2_E         1.44269504f
#define LN_2           0.69314718f
#define MINUS_INFINITY rfg_as_float(0xff800000u)
#define LOWEST         -1e30f /* the maximum over no keys: below any score, but finite, so that differences are */
#define SLACK          8.0f   /* powers of two by which scores may exceed what was subtracted */

struct work_item {
    int b, row0, rows; /* rows: of the sequence */
    int len;
    int steps, each, segments; /* divide_item(): mla_tile.h */
    const int *table;
    int position; /* of the first query, with POSITIONS */
    float scale;  /* of scores as powers of two; CAP: of scores */
};

RFG_DEVICE int within_i32(int n, int least, int most)
{
    n = n < most ? n : most;
    return n > least ? n : least;
}

/* What is known of an item before anything is loaded. */
RFG_DEVICE void place_item(const struct mla_args *a, struct work_item *it, int item, int tiles)
{
    it->b = item / tiles;
    it->row0 = (item - it->b * tiles) * ROWS;
    it->rows = a->sq * a->hq;
}
RFG_DEVICE void open_item(const struct mla_args *a, struct work_item *it, int item, int tiles)
{
    place_item(a, it, item, tiles);
    it->len = a->skv;
    it->table = a->table;
    if (a->indptr) {
        int first = within_i32((int)rfg_load4_uniform(a->indptr + it->b), 0, a->entries);
        int end = within_i32((int)rfg_load4_uniform(a->indptr + it->b + 1), first, a->entries);
        it->table += first;
        it->len = (end - first) << a->page_shift;
    } else if (a->table) {
        it->table += it->b * a->table_stride;
    }
    if (a->kv_lens)
        it->len = within_i32((int)rfg_load4_uniform(a->kv_lens + it->b), 0, it->len);
    it->len = rfg_uniform_int(it->len);
    it->position =
        POSITIONS ? within_i32((int)rfg_load4_uniform(a->positions + it->b), -1 - a->sq, MLA_MAX_POSITION) : 0;
    float scale = a->scale;
    if (a->kv_scale)
        scale *= rfg_as_float(rfg_load4_uniform((const int *)a->kv_scale));
    it->scale = CAP ? scale : scale * LOG2_E;
}

/* A row of the item, or the last one where there is none. */
RFG_DEVICE int row_of(const struct work_item *it, int r)
{
    return it->row0 + r < it->rows ? it->row0 + r : it->rows - 1;
}
RFG_DEVICE long long row_at(const struct mla_args *a, const struct work_item *it, const struct mla_rows *t, int r)
{
    int row = row_of(it, r), query = row / a->hq;
    return it->b * t->batch + query * t->token + (row - query * a->hq) * t->head;
}

/* Keys that a query of a causal call sees: with POSITIONS those at or before its own, of which this rank has runs. */
RFG_DEVICE int keys_seen(const struct mla_args *a, const struct work_item *it, int query)
{
    if (!POSITIONS)
        return it->len + query + 1 - a->sq;
    int before = it->position + query + 1, periods = before / a->cp_period;
    int more = before - periods * a->cp_period - a->cp_first;
    int n = periods * a->cp_run + within_i32(more, 0, a->cp_run);
    return n < it->len ? n : it->len;
}

/* What a row's sums are multiplied by to be the output, from the maximum that was subtracted and the sum of weights. say:
 * its lse is stored. */
RFG_DEVICE float finish_row(const struct mla_args *a, const struct work_item *it, int r, float m, float l, bool say)
{
    float scale = a->kv_scale ? rfg_as_float(rfg_load4_uniform((const int *)a->kv_scale)) : 1.0f;
    int row = row_of(it, r), query = row / a->hq, head = row - query * a->hq;
    float lse = m + rfg_log2(l), factor = scale / l;
    if (a->sinks) {
#ifdef SINK_DTYPE
        float sink = rfg_load_float(a->sinks, head, SINK_DTYPE);
#else
        float sink = rfg_as_float(rfg_load4((const float *)a->sinks + head));
#endif
        factor /= 1.0f + rfg_exp2(sink * LOG2_E - lse);
    }
    if (say && a->lse && it->row0 + r < it->rows)
        rfg_store4(a->lse + it->b * a->lse_batch + head * a->lse_head + query * a->lse_token,
                   rfg_as_u32(l == 0.0f ? MINUS_INFINITY : lse * LN_2));
    return l == 0.0f ? 0.0f : factor;
}
