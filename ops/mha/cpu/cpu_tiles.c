/* SPDX-License-Identifier: MIT
 *
 * The vectorised cpu variants of attention. A task is a sequence, a kv head, up to TILE rows (queries of its q heads)
 * and a part of their keys; where there are few, the parts' results are combined by tasks of their own. How many parts
 * there are depends on the problem alone, so results do not depend on the number of threads. With invariant=1 there is
 * one, and blocks of keys begin where they do for any tile of rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/cpu/pool.h"
#include "ops/format.h"
#include "ops/mha/mha.h"

#if defined(__x86_64__)
#include "cpu_kernels.h"

#define BLOCK      MHA_CPU_BLOCK
#define TILE       64 /* rows */
#define MAX_D      MHA_MAX_D
#define WIDEST     32  /* of any isa's group */
#define TASKS      128 /* enough to keep any number of threads busy */
#define LEAST_KEYS 512 /* of a part */
#define LOG2E      1.44269504f
#define LN2        0.693147181f

struct job {
    const struct mha_args *a;
    struct rfg_cpu_pool *pool;
    const struct mha_cpu_isa *isa;
    int q_dtype, kv_dtype, sink_dtype, size, d, dv; /* size: bytes of an element of k and v */
    int d_pad, dv_pad;                              /* as the isa has them: multiples of its group */
    int page;
    bool older_vllm, gathers; /* gathers: keys and values go to memory of the worker's, padded by zeroes */
    int heads, tiles, parts;  /* kv heads of a work item; tiles of a head; parts of its keys */
    int64_t items, each;      /* of an unsplit task */
    bool invariant;
};

/* The division of a problem into work items and their parts. */
static void divide(const struct rfg_problem *prob, struct job *j)
{
    const int64_t *v = prob->v;
    int64_t rows = v[MHA_SQ] * (v[MHA_HQ] / v[MHA_HKV]), heads = TILE / (rows < 1 ? 1 : rows);
    heads = heads < 1 ? 1 : heads < v[MHA_HKV] ? heads : v[MHA_HKV];
    j->invariant = v[MHA_INVARIANT];
    if (j->invariant && heads > v[MHA_B] * v[MHA_HKV] / TASKS) /* heads, in place of parts, keep threads busy */
        heads = v[MHA_B] * v[MHA_HKV] / TASKS > 1 ? v[MHA_B] * v[MHA_HKV] / TASKS : 1;
    j->heads = (int)heads;
    j->tiles = (int)((rows + TILE - 1) / TILE);
    j->items = v[MHA_B] * ((v[MHA_HKV] + heads - 1) / heads) * j->tiles;
    int64_t parts = j->items < 1 ? 1 : TASKS / j->items, keys = v[MHA_S] / LEAST_KEYS;
    parts = parts < keys ? parts : keys;
    j->parts = parts > 1 && !j->invariant ? (int)parts : 1;
}

/* A part's results, in floats: largest scores, sums of weights, O. */
static size_t partial(int dv)
{
    return (size_t)TILE * (size_t)(mha_padded(dv, WIDEST) + 2);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct job j;
    (void)dev, (void)p;
    divide(prob, &j);
    return j.parts > 1 ? (size_t)(j.items * j.parts) * partial(mha_dv(prob)) * sizeof(float) : 0;
}

/* ---- a work item: a sequence, kv heads, a tile ------------------------------------------------------------------- */

struct work_item {
    int b, head0, heads; /* kv heads */
    int row0, rows;      /* the tile's, of each head */
    int group, sq, skv, q_first, kv_first;
    int64_t first, end; /* keys that some row sees */
};

static int64_t place_of(const struct work_item *u, int row)
{
    return (int64_t)((u->row0 + row) / u->group) + u->skv - u->sq;
}

/* False: no rows. */
static bool open_item(const struct job *j, int64_t n, struct work_item *u)
{
    const struct mha_args *a = j->a;
    int spans = (a->hkv + j->heads - 1) / j->heads;
    u->row0 = (int)(n % j->tiles) * TILE;
    u->head0 = (int)(n / j->tiles % spans) * j->heads;
    u->heads = a->hkv - u->head0 < j->heads ? a->hkv - u->head0 : j->heads;
    u->b = (int)(n / j->tiles / spans);
    u->group = a->hq / a->hkv;
    struct mha_sequence seq = mha_sequence_of(a, u->b);
    u->sq = seq.sq;
    u->skv = seq.skv;
    u->q_first = seq.q_first;
    u->kv_first = seq.kv_first;
    u->rows = (u->sq < a->sq ? u->sq : a->sq) * u->group - u->row0;
    u->rows = u->rows < TILE ? u->rows : TILE;
    if (u->rows <= 0)
        return false;
    u->first = place_of(u, 0) - a->window_left;
    u->first = u->first > 0 ? u->first : 0;
    if (j->invariant)
        u->first = u->first / BLOCK * BLOCK;
    u->end = place_of(u, u->rows - 1) + a->window_right + 1;
    u->end = u->end < u->skv ? u->end : u->skv;
    return true;
}

/* The q head of a row of kv head h. */
static int q_head(const struct work_item *u, int h, int row)
{
    return (u->head0 + h) * u->group + (u->row0 + row) % u->group;
}

static long long row_at(const struct job *j, const struct work_item *u, const struct mha_rows *t, int h, int row)
{
    const struct mha_args *a = j->a;
    int query = (u->row0 + row) / u->group;
    return (a->q_begin ? 0 : u->b * t->batch) + ((long long)u->q_first + query) * t->token +
           q_head(u, h, row) * t->head;
}

/* From the sums o of weights times values, relative to the largest score m, and the sum l of weights. */
static void finish(const struct job *j, const struct work_item *u, int h, int row, const float *o, float m, float l)
{
    const struct mha_args *a = j->a;
    int query = (u->row0 + row) / u->group, head = q_head(u, h, row);
    float factor = mha_cpu_code_scale(j->kv_dtype) * (a->v_scale ? a->v_scale[(u->head0 + h) * a->v_scale_stride] : 1);
    if (a->sinks) {
        float sink = rfg_float_get(a->sinks, j->sink_dtype, head) * LOG2E, top = fmaxf(m, sink),
              base = top == -INFINITY ? 0 : top;
        float down = exp2f(m - base);
        l = l * down + exp2f(sink - base);
        factor *= down;
        m = top;
    }
    factor = l == 0 ? 0 : factor / l;
    uint16_t *to = (uint16_t *)a->out.data + row_at(j, u, &a->out, h, row), padded[MAX_D];
    j->isa->store(j->dv == j->dv_pad ? to : padded, o, factor, j->dv_pad, j->q_dtype, j->kv_dtype);
    if (j->dv != j->dv_pad)
        memcpy(to, padded, (size_t)j->dv * sizeof(*to));
    if (a->lse) {
        long long token = (long long)u->q_first + query;
        a->lse[(a->q_begin ? 0 : u->b * a->lse_batch) + head * a->lse_head + token * a->lse_token] =
            l == 0 ? -INFINITY : (m + log2f(l)) * LN2;
    }
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

static const char *key_row(const struct job *j, const struct work_item *u, const struct mha_cache *c, int64_t key)
{
    const struct mha_args *a = j->a;
    long long block = u->b, t = key;
    if (a->block_table) {
        block = a->block_table[u->b * a->table_stride + key / j->page];
        t = key % j->page;
    } else if (a->kv_begin) {
        block = 0;
        t = u->kv_first + key;
    }
    return (const char *)c->data + (block * c->block + t * c->token + u->head0 * c->head) * j->size;
}

/* Where up to BLOCK keys' rows of the first head are. Returns how many. */
struct rows {
    const char *k[BLOCK], *v[BLOCK];
};
static int find_rows(const struct job *j, const struct work_item *u, int64_t first, int64_t end, struct rows *r)
{
    int n = end - first < BLOCK ? (int)(end - first) : BLOCK;
    for (int i = 0; i < n; i++) {
        r->k[i] = key_row(j, u, &j->a->k, first + i);
        r->v[i] = key_row(j, u, &j->a->v, first + i);
    }
    return n > 0 ? n : 0;
}

/* The rows' elements brought together, and padded. */
struct dense {
    const char *k_rows[BLOCK], *v_rows[BLOCK];
    char k[BLOCK][MAX_D * 2], v[BLOCK][MAX_D * 2];
};
static void gather(const struct job *j, int n, struct mha_cpu_rows *r, struct dense *to)
{
    size_t piece = 16, size = (size_t)j->size;
    size_t chunk_k = (size_t)j->a->k.chunk * size, chunk_v = (size_t)j->a->v.chunk * size;
    if (!j->older_vllm) {
        piece = chunk_k = (size_t)j->d * size;
        chunk_v = size;
    }
    for (int i = 0; i < n; i++) {
        for (size_t p = 0; p < (size_t)j->d * size / piece; p++)
            memcpy(to->k[i] + p * piece, r->k[i] + r->k_offset + p * chunk_k, piece);
        if (chunk_v == size)
            memcpy(to->v[i], r->v[i] + r->v_offset, (size_t)j->dv * size);
        for (size_t d = 0; d < (size_t)j->dv && chunk_v != size; d++)
            memcpy(to->v[i] + d * size, r->v[i] + r->v_offset + d * chunk_v, size);
        memset(to->k[i] + (size_t)j->d * size, 0, (size_t)(j->d_pad - j->d) * size);
        memset(to->v[i] + (size_t)j->dv * size, 0, (size_t)(j->dv_pad - j->dv) * size);
        to->k_rows[i] = to->k[i];
        to->v_rows[i] = to->v[i];
    }
    *r = (struct mha_cpu_rows){ to->k_rows, to->v_rows, 0, 0 };
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

/* The rows of kv head h against the block at key `first`. blk: what does not depend on rows. */
static void one_block(const struct job *j, const struct work_item *u, int h, int64_t first, struct mha_cpu_block *blk,
                      const float *q, float *o, float *m, float *l)
{
    const struct mha_args *a = j->a;
    blk->scale = a->scale * LOG2E * mha_cpu_code_scale(j->kv_dtype) *
                 (a->k_scale ? a->k_scale[(u->head0 + h) * a->k_scale_stride] : 1);
    for (int r = 0; r < u->rows; r += blk->rows) {
        bool any = false;
        int row = h * u->rows + r;
        blk->rows = j->isa->rows;
        while (blk->rows > u->rows - r)
            blk->rows /= 2;
        for (int i = 0; i < blk->rows; i++) {
            int64_t at = place_of(u, r + i) - first, from = at - a->window_left, to = at + a->window_right + 1;
            blk->from[i] = from < 0 ? 0 : from > BLOCK ? BLOCK : (int)from;
            blk->to[i] = to < 0 ? 0 : to > BLOCK ? BLOCK : (int)to;
            any |= blk->from[i] < blk->to[i] && blk->from[i] < blk->n;
            blk->slope[i] = a->alibi ? a->alibi[q_head(u, h, r + i)] * LOG2E : 0;
            blk->place[i] = (float)at;
        }
        if (!any)
            continue;
        blk->q = q + row * j->d_pad;
        blk->o = o + row * j->dv_pad;
        blk->m = m + row;
        blk->l = l + row;
        j->isa->block(blk);
        blk->n_ahead = 0; /* asked for */
    }
}

/* A worker's, in the pool. */
struct scratch {
    float q[TILE * MAX_D], o[TILE * MAX_D];
    struct dense dense;
};
_Static_assert(sizeof(struct scratch) <= RFG_CPU_SCRATCH, "the pool's memory of a worker");

/* All rows of a work item and the keys from `first` to end - 1. A block is in the first-level cache for all rows but
 * the first few, and then, too, if it was fetched while the one before it was worked on. */
static void attend(const struct job *j, const struct work_item *u, int64_t first, int64_t end, struct scratch *s,
                   float *o, float *m, float *l)
{
    const struct mha_args *a = j->a;
    float *q = s->q;
    struct rows rows[2];
    int now = 0, n = find_rows(j, u, first, end, &rows[0]);
    struct mha_cpu_block blk = { .kv_dtype = j->kv_dtype, .d = j->d_pad, .dv = j->dv_pad, .cap = a->soft_cap * LOG2E };
    memset(o, 0, (size_t)(u->heads * u->rows * j->dv_pad) * sizeof(*o));
    for (int row = 0; row < u->heads * u->rows; row++) {
        m[row] = -INFINITY;
        l[row] = 0;
        const uint16_t *from = (const uint16_t *)a->q.data + row_at(j, u, &a->q, row / u->rows, row % u->rows);
        uint16_t padded[MAX_D];
        if (j->d != j->d_pad) {
            memcpy(padded, from, (size_t)j->d * sizeof(*from));
            memset(padded + j->d, 0, (size_t)(j->d_pad - j->d) * sizeof(*from));
            from = padded;
        }
        j->isa->pack(q + row * j->d_pad, from, j->d_pad, j->q_dtype, j->kv_dtype);
    }
    for (; n; first += BLOCK) {
        struct rows *here = &rows[now], *next = &rows[now ^= 1];
        int n_next = find_rows(j, u, first + BLOCK, end, next);
        for (int h = 0; h < u->heads; h++) {
            bool last = h + 1 == u->heads;
            int64_t k = a->k.head * j->size, v = a->v.head * j->size;
            blk.n = n;
            blk.at = (struct mha_cpu_rows){ here->k, here->v, h * k, h * v };
            blk.n_ahead = j->gathers ? 0 : last ? n_next : n;
            blk.ahead = last ? (struct mha_cpu_rows){ next->k, next->v, 0, 0 }
                             : (struct mha_cpu_rows){ here->k, here->v, (h + 1) * k, (h + 1) * v };
            if (j->gathers)
                gather(j, n, &blk.at, &s->dense);
            one_block(j, u, h, first, &blk, q, o, m, l);
        }
        n = n_next;
    }
}

static void run_unit(const struct job *j, int64_t n, struct scratch *s)
{
    float *o = s->o, m[TILE], l[TILE];
    struct work_item u;
    if (!open_item(j, n, &u))
        return;
    attend(j, &u, u.first, u.end, s, o, m, l);
    for (int row = 0; row < u.heads * u.rows; row++)
        finish(j, &u, row / u.rows, row % u.rows, o + row * j->dv_pad, m[row], l[row]);
}

static void item_task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    int64_t first = task * j->each, end = first + j->each < j->items ? first + j->each : j->items;
    for (int64_t n = first; n < end; n++)
        run_unit(j, n, rfg_cpu_pool_scratch(j->pool, worker));
}

/* The keys of a part: whole blocks. */
static void part_task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    float *to = (float *)j->a->workspace + (size_t)task * partial(j->dv);
    struct work_item u;
    if (!open_item(j, task / j->parts, &u))
        return;
    int64_t part = task % j->parts, blocks = u.end > u.first ? (u.end - u.first + BLOCK - 1) / BLOCK : 0;
    int64_t first = u.first + blocks * part / j->parts * BLOCK, end = u.first + blocks * (part + 1) / j->parts * BLOCK;
    attend(j, &u, first, end < u.end ? end : u.end, rfg_cpu_pool_scratch(j->pool, worker), to + 2 * TILE, to,
           to + TILE);
}

static void combine_task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    const float *from = (const float *)j->a->workspace + (size_t)task * (size_t)j->parts * partial(j->dv);
    struct work_item u;
    (void)worker;
    if (!open_item(j, task, &u))
        return;
    for (int r = 0; r < u.heads * u.rows; r++) {
        float top = -INFINITY, l = 0, o[MAX_D] = { 0 };
        for (int part = 0; part < j->parts; part++)
            top = fmaxf(top, from[(size_t)part * partial(j->dv) + (size_t)r]);
        for (int part = 0; part < j->parts; part++) {
            const float *p = from + (size_t)part * partial(j->dv), *its = p + 2 * TILE + r * j->dv_pad;
            float down = exp2f(p[r] - (top == -INFINITY ? 0 : top));
            l += p[TILE + r] * down;
            for (int d = 0; d < j->dv_pad; d++)
                o[d] += its[d] * down;
        }
        finish(j, &u, r / u.rows, r % u.rows, o, top, l);
    }
}

static void run(const struct mha_cpu_isa *isa, const struct rfg_problem *prob, const void *kargs,
                struct rfg_cpu_pool *pool)
{
    const struct mha_args *a = kargs;
    struct job j = { .a = a,
                     .pool = pool,
                     .isa = isa,
                     .q_dtype = prob->dtype[0],
                     .kv_dtype = mha_kv_dtype(prob),
                     .sink_dtype = mha_sink_dtype(prob),
                     .size = mha_kv_dtype(prob) == prob->dtype[0] ? 2 : 1,
                     .d = (int)prob->v[MHA_D],
                     .dv = mha_dv(prob),
                     .d_pad = mha_padded(prob->v[MHA_D], isa->group),
                     .dv_pad = mha_padded(mha_dv(prob), isa->group),
                     .page = (int)prob->v[MHA_PAGE],
                     .older_vllm = prob->v[MHA_FORM] == MHA_FORM_VLLM };
    j.gathers = j.older_vllm || j.d != j.d_pad || j.dv != j.dv_pad;
    divide(prob, &j);
    j.each = 1 + j.items / (1 << 20);
    if (j.parts == 1) {
        rfg_cpu_pool_run(pool, (int)((j.items + j.each - 1) / j.each), item_task, &j);
    } else {
        rfg_cpu_pool_run(pool, (int)j.items * j.parts, part_task, &j);
        rfg_cpu_pool_run(pool, (int)j.items, combine_task, &j);
    }
}

/* ---- the variants ----------------------------------------------------------------------------------------------- */

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, unsigned feature, const char *what,
                     struct rfg_reason *why)
{
    if (!rfg_cpu_only(dev, NULL, why) || !mha_is_half(prob, why))
        return false;
    if (mha_token_scales(prob))
        return rfg_refuse(why, "scales=token: must be tensor, head, or none");
    return (dev->features & feature) || rfg_refuse(why, "needs %s, which this cpu does not have", what);
}

/* Microseconds; the constants are fitted to measurements on Zen 5 and only have to rank. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, int lanes)
{
    double bytes, flops, threads = dev->cu_count < 1 ? 1 : dev->cu_count;
    prob->op->cost(prob, &bytes, &flops);
    double memory = bytes / ((dev->mem_gbps > 1 ? dev->mem_gbps : 1) * 1e3);
    double compute = flops / (threads * lanes * 3e3);
    return 2 + (memory > compute ? memory : compute) + 0.2 * (memory > compute ? compute : memory);
}

#define ISA(isa_name, feature, what, lanes)                                                                            \
    static bool isa_name##_supports(const struct rfg_device *dev, const struct rfg_problem *prob,                      \
                                    struct rfg_reason *why)                                                            \
    {                                                                                                                  \
        return supports(dev, prob, feature, what, why);                                                                \
    }                                                                                                                  \
    static double isa_name##_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)       \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return predict(dev, prob, lanes);                                                                              \
    }                                                                                                                  \
    static bool isa_name##_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,           \
                                 struct rfg_order *order, struct rfg_reason *why)                                      \
    {                                                                                                                  \
        (void)dev, (void)prob, (void)p, (void)why;                                                                     \
        snprintf(order->words, sizeof(order->words), "mha_cpu_" #isa_name);                                            \
        return true;                                                                                                   \
    }                                                                                                                  \
    static void isa_name##_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,             \
                               const void *kargs, struct rfg_cpu_pool *pool)                                           \
    {                                                                                                                  \
        (void)dev, (void)p;                                                                                            \
        run(&mha_cpu_isa_##isa_name, prob, kargs, pool);                                                               \
    }
ISA(avx2, RFG_FEATURE_AVX2, "AVX2, FMA and F16C", 8)
ISA(avx512, RFG_FEATURE_AVX512, "AVX-512 F, BW, VL and DQ", 16)

#define VARIANT(op, isa_name)                                                                                          \
    const struct rfg_variant op##_cpu_##isa_name = {                                                                   \
        .name = #op "_cpu_" #isa_name,                                                                                 \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .supports = isa_name##_supports,                                                                               \
        .predict = isa_name##_predict,                                                                                 \
        .workspace = workspace,                                                                                        \
        .order = isa_name##_order,                                                                                     \
        .run = isa_name##_run,                                                                                         \
    }

#else

static bool no_x86(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)dev, (void)prob;
    return rfg_refuse(why, "built for another processor than x86-64");
}
#define VARIANT(op, isa_name)                                                                                          \
    const struct rfg_variant op##_cpu_##isa_name = {                                                                   \
        .name = #op "_cpu_" #isa_name,                                                                                 \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .supports = no_x86,                                                                                            \
    }

#endif

VARIANT(mha, avx2);
VARIANT(mha, avx512);
VARIANT(mha_decode, avx2);
VARIANT(mha_decode, avx512);
