/* SPDX-License-Identifier: MIT
 *
 * moe_sum on the cpu: rows shared out among threads, a stretch of columns at a time, so that its sums stay in the
 * nearest cache. */
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "sum.h"

#define STRETCH 512

struct job {
    const struct moe_sum_args *a;
    const struct rfg_problem *prob;
    int64_t tokens;
};

static void add_row(float *sum, const void *x, int dtype, int64_t at, int n, float weight)
{
    for (int i = 0; i < n; i++)
        sum[i] += weight * rfg_float_get(x, dtype, at + i);
}

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct moe_sum_args *a = j->a;
    const uint8_t *d = j->prob->dtype;
    (void)place, (void)scratch;
    for (int64_t from = 0; from < a->n; from += STRETCH) {
        int n = a->n - from < STRETCH ? (int)(a->n - from) : STRETCH;
        float sum[STRETCH] = { 0 };
        for (int slot = 0; slot < a->top; slot++) {
            int at = a->places[row * a->ldp + slot];
            if (at >= 0 && at < a->x_rows)
                add_row(sum, a->x, d[0], at * a->ldx + from, n, a->weights ? a->weights[row * a->ldw + slot] : 1);
        }
        if (a->residual)
            add_row(sum, a->residual, d[1], row * a->ldr + from, n, 1);
        for (int i = 0; i < n; i++)
            rfg_float_put(a->y, d[1], row * a->ldy + from + i, sum[i]);
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    struct job j = { kargs, prob, prob->v[SUM_T] };
    double bytes, flops;
    (void)p;
    if (j.a->tokens && *j.a->tokens < j.tokens)
        j.tokens = *j.a->tokens > 0 ? *j.a->tokens : 0;
    prob->op->cost(prob, &bytes, &flops);
    if (j.tokens && j.a->n)
        rfg_cpu_rows_run(dev, pool, j.tokens, bytes / (double)j.a->t, NULL, 0, run_row, &j);
}

const struct rfg_variant moe_sum_cpu = {
    .name = "moe_sum_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
