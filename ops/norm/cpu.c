/* SPDX-License-Identifier: MIT
 *
 * The cpu variants of the norms: rows are distributed among threads. */
#include "ops/cpu/rows_variants.h"
#include "norm.h"

struct job {
    const struct rfg_cpu_rows *isa;
    const struct norm_args *a;
    const struct rfg_problem *prob;
    bool stream;
};

static char *row_of(const struct norm_rows *r, const struct norm_args *a, int64_t row, int dtype)
{
    int64_t at = row / a->heads * r->ld + row % a->heads * r->ld_inner;
    return r->data ? (char *)r->data + rfg_format_bytes(dtype, at) : NULL;
}

static struct rfg_cpu_input input(const struct job *j, int64_t row, char *scratch)
{
    const struct norm_args *a = j->a;
    int residual = (int)norm_residual_dtype(j->prob);
    return (struct rfg_cpu_input){ row_of(&a->x, a, row, j->prob->dtype[0]), row_of(&a->residual, a, row, residual),
                                   row_of(&a->residual_out, a, row, residual),
                                   (float *)(void *)(scratch + (size_t)(row % 2) * rfg_cpu_row_bytes(a->n)) };
}

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct norm_args *a = j->a;
    int dtype = j->prob->dtype[0];
    struct rfg_cpu_norm r = { .in = input(j, row, scratch),
                              .arrived = !(place & RFG_CPU_FIRST),
                              .sums = (float *)(void *)((char *)scratch + 2 * rfg_cpu_row_bytes(a->n)),
                              .residual_dtype = (int)norm_residual_dtype(j->prob),
                              .weight_dtype = (int)norm_weight_dtype(j->prob),
                              .weight = a->weight,
                              .bias = a->bias,
                              .layer = norm_is_layer(j->prob),
                              .one_plus = j->prob->v[NORM_WEIGHT] == NORM_WEIGHT_1W,
                              .eps = a->eps,
                              .inverse_n = a->inverse_n };
    if (!(place & RFG_CPU_LAST))
        r.next = input(j, row + 1, scratch);
    r.out = (struct rfg_cpu_out){ .n = a->n,
                                  .dtype = dtype,
                                  .y = row_of(&a->y, a, row, dtype),
                                  .q = (uint8_t *)row_of(&a->q, a, row, j->prob->dtype[1]),
                                  .q_dtype = j->prob->dtype[1],
                                  .scale_kind = (int)j->prob->v[NORM_SCALE],
                                  .rounding = (int)j->prob->v[NORM_ROUNDING],
                                  .scale = rfg_row_scale(a->scale, j->prob->v[NORM_SCALE], row, a->scale_row),
                                  .scale_col = a->scale_col,
                                  .row = r.in.row,
                                  .stream = j->stream };
    j->isa->norm(&r);
}

/* This row, the next one, sums. */
static size_t scratch_bytes(int64_t n)
{
    return 2 * rfg_cpu_row_bytes(n) + rfg_cpu_row_bytes(1);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)p;
    return (size_t)dev->cu_count * scratch_bytes(prob->v[NORM_N]);
}

static void run(const struct rfg_cpu_rows *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                const int *p, const void *kargs, struct rfg_cpu_pool *pool)
{
    const struct norm_args *a = kargs;
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    struct job j = { isa, a, prob, p[P_STREAM] };
    if (a->m && a->n)
        rfg_cpu_rows_run(dev, pool, a->m, bytes / a->m, a->workspace, scratch_bytes(a->n), run_row, &j);
}

ROWS_VARIANTS(rmsnorm);
ROWS_VARIANTS(add_rmsnorm);
ROWS_VARIANTS(layernorm);
ROWS_VARIANTS(add_layernorm);
