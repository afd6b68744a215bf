/* SPDX-License-Identifier: MIT
 *
 * mla_decode on the cpu. A task is up to HEADS heads of a query: a row of the cache is converted once for all of them.
 * Keys are taken in blocks, with an online softmax. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mla.h"
#include "mla_layout.h"
#include "ops/cpu/pool.h"
#include "rows.h"

#define HEADS 8
#define BLOCK 32 /* keys between two looks at the maximum */

struct job {
    const struct mla_args *a;
    int q_dtype, kv_dtype, sink_dtype, d, dv;
    int groups; /* of heads */
    struct mla_reader reader;
};

/* In a worker's scratch. */
struct state {
    float q[HEADS][MLA_MAX_D], rows[BLOCK][MLA_MAX_D], out[HEADS][MLA_MAX_D];
    float s[BLOCK], max[HEADS], sum[HEADS];
};

static int within(int64_t n, int64_t least, int64_t most)
{
    return (int)(n > most ? most : n < least ? least : n);
}

/* A sequence's blocks, and its keys. */
struct sequence {
    const int *table;
    int block, len;
};
static struct sequence sequence_of(const struct mla_args *a, int b)
{
    struct sequence s = { a->table ? a->table + b * a->table_stride : NULL, b, a->skv };
    if (a->indptr) {
        int first = within(a->indptr[b], 0, a->entries), end = within(a->indptr[b + 1], first, a->entries);
        s.table = a->table + first;
        s.len = (end - first) << a->page_shift;
    }
    if (a->kv_lens)
        s.len = within(a->kv_lens[b], 0, s.len);
    return s;
}

static void load_row(const struct job *j, const struct sequence *s, int64_t key, float *row)
{
    const struct mla_args *a = j->a;
    int64_t block = s->block, t = key;
    if (s->table) {
        block = within(s->table[key >> a->page_shift], 0, a->blocks - 1);
        t = key & (((int64_t)1 << a->page_shift) - 1);
    }
    mla_read_row(&j->reader, (const char *)a->kv + block * a->kv_block * rfg_format_bytes(j->kv_dtype, 1), t, row);
}

/* Keys that query i of a causal call sees. */
static int keys_seen(const struct mla_args *a, const struct sequence *s, int b, int i)
{
    if (!a->positions)
        return s->len - a->sq + i + 1;
    int64_t before = (int64_t)within(a->positions[b], -1 - a->sq, MLA_MAX_POSITION) + i + 1;
    int64_t more = before - before / a->cp_period * a->cp_period - a->cp_first;
    return within(before / a->cp_period * a->cp_run + within(more, 0, a->cp_run), -1, s->len);
}

static float dot(const float *x, const float *y, int n)
{
    float sum[8] = { 0 };
    for (int d = 0; d < n; d += 8)
        for (int i = 0; i < 8; i++)
            sum[i] += x[d + i] * y[d + i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Adds n keys, whose scores are st->s, to head h. */
static void softmax_step(const struct job *j, struct state *st, int h, int n)
{
    float max = st->max[h];
    bool any = false;
    for (int i = 0; i < n; i++) {
        max = fmaxf(max, st->s[i]);
        any |= st->s[i] != -INFINITY; /* a NaN counts: the result is one, too */
    }
    if (!any)
        return;
    float shrink = expf(st->max[h] - max), *out = st->out[h];
    st->sum[h] *= shrink;
    for (int d = 0; d < j->dv; d++)
        out[d] *= shrink;
    for (int i = 0; i < n; i++) {
        float p = expf(st->s[i] - max);
        const float *row = st->rows[i];
        st->sum[h] += p;
        for (int d = 0; d < j->dv; d++)
            out[d] += p * row[d];
    }
    st->max[h] = max;
}

static void attend(const struct job *j, struct state *st, const struct sequence *s, int heads, int end)
{
    const struct mla_args *a = j->a;
    float scale = a->scale * (a->kv_scale ? *a->kv_scale : 1);
    for (int first = 0; first < end; first += BLOCK) {
        int n = end - first < BLOCK ? end - first : BLOCK;
        for (int i = 0; i < n; i++)
            load_row(j, s, first + i, st->rows[i]);
        for (int h = 0; h < heads; h++) {
            for (int i = 0; i < n; i++) {
                float score = dot(st->q[h], st->rows[i], j->d) * scale;
                st->s[i] = a->soft_cap > 0 ? a->soft_cap * tanhf(score / a->soft_cap) : score;
            }
            softmax_step(j, st, h, n);
        }
    }
}

static void store(const struct job *j, const struct state *st, int b, int i, int head, int h)
{
    const struct mla_args *a = j->a;
    float lse = st->max[h] + logf(st->sum[h]), factor = st->sum[h] == 0 ? 0 : 1 / st->sum[h];
    if (a->kv_scale)
        factor *= *a->kv_scale;
    if (a->sinks && st->sum[h] != 0)
        factor /= 1 + expf(rfg_float_get(a->sinks, j->sink_dtype, head) - lse);
    int64_t to = b * a->out.batch + i * a->out.token + head * a->out.head;
    for (int d = 0; d < j->dv; d++)
        rfg_float_put(a->out.data, j->q_dtype, to + d, st->sum[h] == 0 ? 0 : st->out[h][d] * factor);
    if (a->lse)
        a->lse[b * a->lse_batch + head * a->lse_head + i * a->lse_token] = lse;
}

static void run_task(void *ctx, int b, int i, int group, void *scratch)
{
    const struct job *j = ctx;
    const struct mla_args *a = j->a;
    struct state *st = scratch;
    struct sequence s = sequence_of(a, b);
    int head0 = group * HEADS, heads = a->hq - head0 < HEADS ? a->hq - head0 : HEADS;
    int end = a->causal ? keys_seen(a, &s, b, i) : s.len;
    for (int h = 0; h < heads; h++) {
        int64_t at = b * a->q.batch + i * a->q.token + (head0 + h) * a->q.head;
        int64_t rope = b * a->q_rope.batch + i * a->q_rope.token + (head0 + h) * a->q_rope.head;
        for (int d = 0; d < j->d; d++)
            st->q[h][d] = d < j->dv ? rfg_float_get(a->q.data, j->q_dtype, at + d)
                                    : rfg_float_get(a->q_rope.data, j->q_dtype, rope + d - j->dv);
        st->max[h] = -INFINITY;
        st->sum[h] = 0;
        memset(st->out[h], 0, sizeof(st->out[h]));
    }
    attend(j, st, &s, heads, end);
    for (int h = 0; h < heads; h++)
        store(j, st, b, i, head0 + h, h);
}

struct tasks {
    struct job job;
    struct rfg_cpu_pool *pool;
    int64_t n, each;
};

static void run_tasks(void *ctx, int task, int worker)
{
    struct tasks *t = ctx;
    int64_t first = task * t->each, end = first + t->each < t->n ? first + t->each : t->n;
    for (int64_t n = first; n < end; n++) {
        int64_t query = n / t->job.groups;
        run_task(&t->job, (int)(query / t->job.a->sq), (int)(query % t->job.a->sq), (int)(n % t->job.groups),
                 rfg_cpu_pool_scratch(t->pool, worker));
    }
}

static void run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                struct rfg_cpu_pool *pool)
{
    const struct mla_args *a = kargs;
    struct tasks t = { .job = { .a = a,
                                .q_dtype = prob->dtype[0],
                                .kv_dtype = mla_kv_dtype(prob),
                                .sink_dtype = mla_sink_dtype(prob),
                                .d = (int)prob->v[MLA_D],
                                .dv = mla_dv(prob),
                                .groups = (a->hq + HEADS - 1) / HEADS },
                       .pool = pool };
    _Static_assert(sizeof(struct state) <= RFG_CPU_SCRATCH, "a worker's scratch holds a task's state");
    (void)dev, (void)p;
    t.job.reader = mla_reader_of((int)prob->v[MLA_FORMAT], t.job.kv_dtype, t.job.d, a->kv_row, a->scales_at);
    t.n = (int64_t)a->batch * a->sq * t.job.groups;
    t.each = 1 + t.n / (1 << 20);
    rfg_cpu_pool_run(pool, (int)((t.n + t.each - 1) / t.each), run_tasks, &t);
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops;
    (void)p;
    prob->op->cost(prob, &bytes, &flops);
    return 1 + flops / ((dev->cu_count < 1 ? 1 : dev->cu_count) * 2e3);
}

static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)p, (void)why;
    snprintf(order->words, sizeof(order->words), "mla_decode_cpu");
    return true;
}

const struct rfg_variant mla_decode_cpu = {
    .name = "mla_decode_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_only,
    .predict = predict,
    .order = order_of,
    .run = run,
};
