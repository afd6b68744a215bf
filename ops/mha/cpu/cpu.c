/* SPDX-License-Identifier: MIT
 *
 * The portable cpu variants of attention. Plain C: a task is one query of one head, which goes through its keys in
 * blocks with an online softmax. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/pool.h"
#include "ops/mha/mha.h"

#define BLOCK 64 /* keys between two looks at the maximum */

struct job {
    const struct mha_args *a;
    int q_dtype, kv_dtype, sink_dtype, d, dv;
    int page;
    bool older_vllm, token_scales;
    int64_t queries, each; /* queries of heads in all, and of a task */
    float code[256];       /* what an 8-bit element stands for */
};

static float load(const struct job *j, int dtype, const void *base, long long at)
{
    return rfg_dtype_is_float(dtype) ? rfg_float_get(base, dtype, at) : j->code[((const uint8_t *)base)[at]];
}

/* Of a token and head. Codes of i4 are numbers from 0 to 15, and *zero is the one that stands for 0 (rfg/rope.h). */
static float scale_of(const struct job *j, const float *scale, int *zero)
{
    uint32_t bits;
    float f;
    memcpy(&bits, scale, sizeof(bits));
    *zero = j->kv_dtype == RFG_I4 ? (int)(bits & 15) : 0;
    bits -= (uint32_t)*zero;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Key (or value) `key` of a head: n elements. Returns what they are to be multiplied by, if that is a token's own. */
static float load_row(const struct job *j, const struct mha_cache *c, int b, int head, long long key, int n, bool is_k,
                      float *row)
{
    const struct mha_args *a = j->a;
    long long block = b, t = key;
    if (a->block_table) {
        block = a->block_table[b * a->table_stride + key / j->page];
        t = key % j->page;
    } else if (a->kv_begin) {
        block = 0;
        t = mha_sequence_of(a, b).kv_first + key;
    }
    long long at = block * c->block + t * c->token + head * c->head;
    int x = !j->older_vllm ? n : !is_k ? 1 : (int)rfg_format_elements(j->kv_dtype, 16);
    float scale = 1;
    int zero = 0;
    if (j->token_scales)
        scale = scale_of(j,
                         (is_k ? a->k_scale : a->v_scale) + block * c->scale_stride[0] + t * c->scale_stride[1] +
                             (long long)head * (is_k ? a->k_scale_stride : a->v_scale_stride),
                         &zero);
    for (int i = 0; i < n; i++)
        row[i] = j->kv_dtype == RFG_I4 ? (float)((((const uint8_t *)c->data)[at + i / 2] >> i % 2 * 4 & 15) - zero)
                 : j->older_vllm       ? load(j, j->kv_dtype, c->data, at + i / x * c->chunk + i % x)
                                       : load(j, j->kv_dtype, c->data, at + i);
    return scale;
}

struct state {
    float max, sum, acc[MHA_MAX_D];
};

/* A softmax step: adds the keys from `first`, whose scores are s[0..n-1], to the state. */
static void softmax_step(const struct job *j, struct state *st, const float *s, int n, int b, int kv_head,
                         long long first)
{
    float max = st->max, row[MHA_MAX_D];
    bool any = false;
    for (int i = 0; i < n; i++) {
        max = fmaxf(max, s[i]);
        any |= s[i] != -INFINITY; /* a NaN counts: the result is one, too */
    }
    if (!any)
        return;
    float shrink = expf(st->max - max);
    st->sum *= shrink;
    for (int d = 0; d < j->dv; d++)
        st->acc[d] *= shrink;
    for (int i = 0; i < n; i++) {
        float p = expf(s[i] - max);
        float scaled = p * load_row(j, &j->a->v, b, kv_head, first + i, j->dv, false, row);
        st->sum += p;
        for (int d = 0; d < j->dv; d++)
            st->acc[d] += scaled * row[d];
    }
    st->max = max;
}

static void run_query(const struct job *j, int b, int head, int i)
{
    const struct mha_args *a = j->a;
    struct mha_sequence seq = mha_sequence_of(a, b);
    int kv_head = head / (a->hq / a->hkv);
    float q[MHA_MAX_D], key[MHA_MAX_D], s[BLOCK];
    float k_scale = a->k_scale && !j->token_scales ? a->k_scale[kv_head * a->k_scale_stride] : 1;
    float v_scale = a->v_scale && !j->token_scales ? a->v_scale[kv_head * a->v_scale_stride] : 1;
    struct state st = { .max = a->sinks ? load(j, j->sink_dtype, a->sinks, head) : -INFINITY, .sum = a->sinks ? 1 : 0 };
    long long token = (long long)seq.q_first + i, batch = a->q_begin ? 0 : b;
    long long from_q = batch * a->q.batch + token * a->q.token + head * a->q.head;
    for (int d = 0; d < j->d; d++)
        q[d] = load(j, j->q_dtype, a->q.data, from_q + d);

    long long at = (long long)i + seq.skv - seq.sq, first = at - a->window_left, end = at + a->window_right + 1;
    first = first < 0 ? 0 : first;
    end = end > seq.skv ? seq.skv : end;
    for (long long block = first; block < end; block += BLOCK) {
        int n = end - block < BLOCK ? (int)(end - block) : BLOCK;
        for (int c = 0; c < n; c++) {
            float dot = 0;
            float scale = load_row(j, &a->k, b, kv_head, block + c, j->d, true, key);
            for (int d = 0; d < j->d; d++)
                dot += q[d] * key[d];
            s[c] = dot * scale * (a->scale * k_scale);
            if (a->soft_cap > 0)
                s[c] = a->soft_cap * tanhf(s[c] / a->soft_cap);
            if (a->alibi)
                s[c] -= a->alibi[head] * (float)llabs(at - (block + c));
        }
        softmax_step(j, &st, s, n, b, kv_head, block);
    }

    float inverse = st.sum == 0 ? 0 : v_scale / st.sum;
    long long to = batch * a->out.batch + token * a->out.token + head * a->out.head;
    for (int d = 0; d < j->dv; d++)
        rfg_float_put(a->out.data, j->q_dtype, to + d, st.acc[d] * inverse);
    if (a->lse)
        a->lse[batch * a->lse_batch + head * a->lse_head + token * a->lse_token] = st.max + logf(st.sum);
}

static void run_task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    const struct mha_args *a = j->a;
    int64_t first = task * j->each, end = first + j->each < j->queries ? first + j->each : j->queries;
    (void)worker;
    for (int64_t n = first; n < end; n++) {
        int i = (int)(n % a->sq), head = (int)(n / a->sq % a->hq), b = (int)(n / a->sq / a->hq);
        if (i < mha_sequence_of(a, b).sq)
            run_query(j, b, head, i);
    }
}

static void run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                struct rfg_cpu_pool *pool)
{
    const struct mha_args *a = kargs;
    struct job j = { .a = a,
                     .q_dtype = prob->dtype[0],
                     .kv_dtype = mha_kv_dtype(prob),
                     .sink_dtype = mha_sink_dtype(prob),
                     .d = (int)prob->v[MHA_D],
                     .dv = mha_dv(prob),
                     .page = (int)prob->v[MHA_PAGE],
                     .older_vllm = prob->v[MHA_FORM] == MHA_FORM_VLLM,
                     .token_scales = mha_token_scales(prob) };
    (void)dev, (void)p;
    if (j.kv_dtype != j.q_dtype && j.kv_dtype != RFG_I4)
        for (int i = 0; i < 256; i++) {
            const struct rfg_format *f = rfg_format(j.kv_dtype);
            uint8_t code = (uint8_t)i;
            double value;
            f->decode(f, &code, &value);
            j.code[i] = (float)value;
        }
    j.queries = (int64_t)a->batch * a->hq * a->sq;
    j.each = 1 + j.queries / (1 << 20);
    rfg_cpu_pool_run(pool, (int)((j.queries + j.each - 1) / j.each), run_task, &j);
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops;
    (void)p;
    prob->op->cost(prob, &bytes, &flops);
    return 1 + flops / ((dev->cu_count < 1 ? 1 : dev->cu_count) * 0.5e3);
}

static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)p, (void)why;
    snprintf(order->words, sizeof(order->words), "mha_cpu_portable");
    return true;
}

#define VARIANT(op)                                                                                                    \
    const struct rfg_variant op##_cpu_portable = {                                                                     \
        .name = #op "_cpu_portable",                                                                                   \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .supports = rfg_cpu_only,                                                                                      \
        .predict = predict,                                                                                            \
        .order = order_of,                                                                                             \
        .run = run,                                                                                                    \
    }
VARIANT(mha);
VARIANT(mha_decode);
