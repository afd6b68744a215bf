/* SPDX-License-Identifier: MIT
 *
 * merge_states on the cpu: rows are distributed among threads. */
#include <math.h>

#include "merge.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"

#define STRETCH 512 /* elements, whose sums stay in the nearest cache */

struct job {
    const struct merge_args *a;
    int in, out;
};

/* The states' shares of a row, 0 of those without keys; returns lse_out. */
static float shares_of(const struct merge_args *a, const float *lse, float *share)
{
    float top = -INFINITY, sum = 0;
    for (int i = 0; i < a->n; i++) {
        float f = lse[i * a->by_lse.state];
        share[i] = f == INFINITY ? -INFINITY : f;
        top = share[i] > top ? share[i] : top;
    }
    if (top == -INFINITY)
        top = 0;
    for (int i = 0; i < a->n; i++) {
        float d = (share[i] - top) * a->to_log2;
        share[i] = d < -126 ? 0 : exp2f(d);
        sum += share[i];
    }
    for (int i = 0; i < a->n; i++)
        share[i] = sum == 0 ? 0 : share[i] / sum;
    return sum == 0 ? -INFINITY : top + log2f(sum) * a->from_log2;
}

static void add_state(float *sum, const void *o, int dtype, int n, float share)
{
    for (int i = 0; i < n; i++)
        sum[i] += share * rfg_float_get(o, dtype, i);
}

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct merge_args *a = j->a;
    int64_t token = row / a->heads, head = row % a->heads, size = rfg_format_bytes(j->in, 1);
    float share[RFG_MERGE_MAX_STATES], sum[STRETCH];
    (void)place, (void)scratch;
    float lse = shares_of(a, a->lse + token * a->by_lse.token + head * a->by_lse.head, share);
    const char *o = (const char *)a->o + (token * a->by_o.token + head * a->by_o.head) * size;
    char *out = (char *)a->out + (token * a->by_out.token + head * a->by_out.head) * rfg_format_bytes(j->out, 1);
    for (int64_t from = 0; from < a->d; from += STRETCH) {
        int n = a->d - from < STRETCH ? (int)(a->d - from) : STRETCH;
        for (int i = 0; i < n; i++)
            sum[i] = 0;
        for (int i = 0; i < a->n; i++)
            if (share[i] != 0)
                add_state(sum, o + (i * a->by_o.state + from) * size, j->in, n, share[i]);
        for (int i = 0; i < n; i++)
            rfg_float_put(out, j->out, from + i, sum[i]);
    }
    if (a->lse_out)
        a->lse_out[token * a->by_lse_out.token + head * a->by_lse_out.head] = lse;
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    struct job j = { kargs, prob->dtype[0], prob->dtype[1] };
    double bytes, flops;
    (void)p;
    prob->op->cost(prob, &bytes, &flops);
    if (j.a->rows && j.a->d)
        rfg_cpu_rows_run(dev, pool, j.a->rows, bytes / j.a->rows, NULL, 0, run_row, &j);
}

const struct rfg_variant merge_states_cpu = {
    .name = "merge_states_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
