/* SPDX-License-Identifier: MIT
 *
 * The cpu variants of act_and_mul and act: rows are distributed among threads. */
#include "ops/cpu/rows_variants.h"
#include "ops/gates.h"
#include "act.h"

struct job {
    const struct rfg_cpu_rows *isa;
    const struct act_args *a;
    const struct rfg_problem *prob;
    bool stream;
};

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct act_args *a = j->a;
    int dtype = j->prob->dtype[0], q_dtype = j->prob->dtype[1];
    int64_t size = rfg_format_bytes(dtype, 1);
    const char *x = (const char *)a->x + row * a->ldx * size;
    bool turns = j->prob->v[ACT_GATES];
    struct rfg_cpu_act r = { .out = { .n = a->n,
                                      .dtype = dtype,
                                      .y = a->y ? (char *)a->y + row * a->ldy * size : NULL,
                                      .q = a->q ? (uint8_t *)a->q + rfg_format_bytes(q_dtype, row * a->ldq) : NULL,
                                      .q_dtype = q_dtype,
                                      .scale_kind = (int)j->prob->v[ACT_SCALE],
                                      .rounding = (int)j->prob->v[ACT_ROUNDING],
                                      .scale = rfg_row_scale(a->scale, j->prob->v[ACT_SCALE], row, a->scale_row),
                                      .scale_col = a->scale_col,
                                      .row = scratch,
                                      .stream = j->stream },
                             .a = x,
                             .b = act_multiplies(j->prob) ? x + (turns ? 1 : a->n) * size : NULL,
                             .interleaved = turns,
                             .act = (int)j->prob->v[ACT_ACT],
                             .alpha = a->alpha,
                             .limit = a->limit,
                             .linear_beta = rfg_gate_linear_beta(a->linear_beta) };
    (void)place;
    j->isa->act(&r);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)p;
    return prob->v[ACT_SCALE] ? (size_t)dev->cu_count * rfg_cpu_row_bytes(prob->v[ACT_N]) : 0;
}

static void run(const struct rfg_cpu_rows *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                const int *p, const void *kargs, struct rfg_cpu_pool *pool)
{
    const struct act_args *a = kargs;
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    struct job j = { isa, a, prob, p[P_STREAM] };
    if (a->m && a->n)
        rfg_cpu_rows_run(dev, pool, a->m, bytes / a->m, prob->v[ACT_SCALE] ? a->workspace : NULL,
                         rfg_cpu_row_bytes(a->n), run_row, &j);
}

ROWS_VARIANTS(act_and_mul);
ROWS_VARIANTS(act);
