/* SPDX-License-Identifier: MIT
 *
 * sample on the cpu, a row a task. A row's tokens are put in order only as far as it takes to find where a count or a
 * sum of weights is reached: by quickselect, which leaves all that are before that place before it. */
#include <math.h>
#include <string.h>

#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "sample.h"

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}
static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}
#define SAMPLE_FN           static inline
#define SAMPLE_FMA(a, b, c) fmaf(a, b, c)
#define SAMPLE_MUL(a, b)    ((a) * (b))
#define SAMPLE_BITS(f)      bits_of(f)
#define SAMPLE_FLOAT(u)     float_of(u)
#include "sample_math.h"

struct token {
    uint64_t rank;   /* the larger, the earlier: order of the logit, then ~id */
    uint64_t weight; /* or what else is summed */
};

struct job {
    const struct sample_args *a;
    const struct rfg_problem *prob;
    struct token *scratch; /* V for each worker */
};

static uint32_t order_of(const struct token *t)
{
    return (uint32_t)(t->rank >> 32);
}

/* Of t[0..n), which have weights of at least `sum` together: puts the fewest of the highest ranks that reach it first,
 * the last of them at the end, and returns how many they are. *sum: what of it is left for the last one. */
static int64_t select_first(struct token *t, int64_t n, uint64_t *sum)
{
    int64_t from = 0;
    uint64_t seed = 1;
    for (;;) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t pivot = t[from + (int64_t)((seed >> 33) % (uint64_t)(n - from))].rank, before = 0;
        int64_t to = from;
        for (int64_t i = from; i < n; i++)
            if (t[i].rank > pivot) {
                struct token other = t[to];
                before += t[i].weight;
                t[to++] = t[i];
                t[i] = other;
            }
        if (before >= *sum) {
            n = to;
            continue;
        }
        *sum -= before;
        int64_t at = to;
        while (t[at].rank != pivot)
            at++;
        struct token last = t[at];
        t[at] = t[to];
        t[to] = last;
        if (last.weight >= *sum)
            return to + 1;
        *sum -= last.weight;
        from = to + 1;
    }
}

static struct sample_row row_of(const struct job *j, int64_t r)
{
    const struct sample_args *a = j->a;
    const int64_t *v = j->prob->v;
    struct sample_row row;
    sample_defaults(&row);
    if (v[SAMPLE_TEMPERATURE])
        sample_temperature(&row, a->temperature[r]);
    if (v[SAMPLE_TOP_P])
        sample_top_p(&row, a->top_p[r]);
    if (v[SAMPLE_MIN_P])
        sample_min_p(&row, a->min_p[r]);
    if (v[SAMPLE_TOP_K])
        row.k = a->top_k[r];
    if (v[SAMPLE_REPETITION])
        sample_repetition(&row, a->repetition[r]);
    if (v[SAMPLE_FREQUENCY])
        row.frequency = a->frequency[r];
    if (v[SAMPLE_PRESENCE])
        row.presence = a->presence[r];
    return row;
}

/* The row's tokens, and the highest rank. */
static uint64_t fill(const struct job *j, int64_t r, const struct sample_row *row, struct token *t)
{
    const struct sample_args *a = j->a;
    const int64_t *v = j->prob->v;
    int dtype = j->prob->dtype[0];
    const char *logits = (const char *)a->logits + rfg_format_bytes(dtype, 1) * r * a->ldx;
    uint64_t best = 0;
    for (int64_t i = 0; i < a->v; i++) {
        float l = rfg_float_get(logits, dtype, i);
        if (v[SAMPLE_BIAS])
            l += a->bias[r * a->ld_bias + i];
        int count = v[SAMPLE_COUNTS] ? a->counts[r * a->ld_counts + i] : 0;
        bool in_prompt = v[SAMPLE_PROMPT] && a->prompt[r * a->ld_prompt + i];
        l = sample_penalised(row, l, count, in_prompt);
        t[i].rank = (uint64_t)sample_order(l) << 32 | (uint32_t)~i;
        best = t[i].rank > best ? t[i].rank : best;
    }
    return best;
}

static uint64_t weigh(const struct sample_row *row, struct token *t, int64_t n, uint32_t largest, bool filtered)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += t[i].weight = sample_weight(row, order_of(&t[i]), largest, filtered);
    return sum;
}

static int64_t draw(const struct job *j, int64_t r, struct token *t)
{
    const struct sample_args *a = j->a;
    struct sample_row row = row_of(j, r);
    int64_t n = a->v;
    uint64_t best = fill(j, r, &row, t);
    uint32_t largest = (uint32_t)(best >> 32);
    if (largest == SAMPLE_NO_LOGITS)
        return 0;
    if (row.greedy)
        return (int64_t)(uint32_t)~best;
    bool joint = j->prob->v[SAMPLE_JOINT] && row.p_on;
    if (joint) {
        uint64_t left = sample_share(&row, weigh(&row, t, n, largest, false));
        n = select_first(t, n, &left);
    }
    if (row.k > 0 && row.k < n) {
        for (int64_t i = 0; i < n; i++)
            t[i].weight = 1;
        uint64_t left = (uint64_t)row.k;
        n = select_first(t, n, &left);
    }
    uint64_t total = weigh(&row, t, n, largest, true);
    if (row.p_on && !joint) {
        uint64_t share = sample_share(&row, total), left = share;
        n = select_first(t, n, &left);
        total = share - left + t[n - 1].weight;
    }
    uint64_t at = sample_mul_high(sample_random((uint64_t)a->seed[r], (uint64_t)a->offset[r]), total) + 1;
    n = select_first(t, n, &at);
    return (int64_t)(uint32_t)~t[n - 1].rank;
}

static void run_row(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    int64_t y = draw(j, task, j->scratch + (int64_t)worker * j->a->v);
    if (j->prob->dtype[1] == RFG_I64)
        ((int64_t *)j->a->y)[task] = y;
    else
        ((int32_t *)j->a->y)[task] = (int32_t)y;
}

static double cpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return 20 * rfg_cpu_plain_predict(dev, prob, p);
}

static size_t cpu_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)p;
    return (size_t)dev->cu_count * (size_t)prob->v[SAMPLE_V] * sizeof(struct token);
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct sample_args *a = kargs;
    struct job j = { a, prob, a->workspace };
    (void)p;
    if (rfg_cpu_pool_threads(pool) <= dev->cu_count)
        rfg_cpu_pool_run(pool, a->b, run_row, &j);
    else /* more workers than the workspace was made for */
        for (int r = 0; r < a->b; r++)
            run_row(&j, r, 0);
}

const struct rfg_variant sample_cpu = {
    .name = "sample_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = cpu_predict,
    .workspace = cpu_workspace,
    .run = cpu_run,
};
