/* SPDX-License-Identifier: MIT
 *
 * moe_sum on the cpu: rows are distributed among threads. */
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/slots.h"
#include "sum.h"

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    (void)place, (void)scratch;
    rfg_cpu_sum_slots(ctx, row);
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct moe_sum_args *a = kargs;
    struct rfg_cpu_slots s = { .x = a->x,
                               .residual = a->residual,
                               .y = a->y,
                               .places = a->places,
                               .weights = a->weights,
                               .n = a->n,
                               .top = a->top,
                               .x_rows = a->x_rows,
                               .in = prob->dtype[0],
                               .out = prob->dtype[1],
                               .ldx = a->ldx,
                               .ldy = a->ldy,
                               .ldr = a->ldr,
                               .ldp = a->ldp,
                               .ldw = a->ldw,
                               .identity = a->identity,
                               .identity_weights = a->identity_weights,
                               .ld_identity = a->ld_identity,
                               .ld_identity_weights = a->ld_identity_weights };
    int64_t tokens = prob->v[SUM_T];
    double bytes, flops;
    (void)p;
    if (a->tokens && *a->tokens < tokens)
        tokens = *a->tokens > 0 ? *a->tokens : 0;
    prob->op->cost(prob, &bytes, &flops);
    if (tokens && a->n)
        rfg_cpu_rows_run(dev, pool, tokens, bytes / (double)a->t, NULL, 0, run_row, &s);
}

const struct rfg_variant moe_sum_cpu = {
    .name = "moe_sum_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
