/* SPDX-License-Identifier: MIT
 *
 * The cpu variants of the norms: rows shared out among threads. */
#include "../cpu/pool.h"
#include "../cpu/rows.h"
#include "norm.h"

enum { P_STREAM };

static const struct rfg_param cpu_params[] = {
    [P_STREAM] = { "stream", 2, { 0, 1 } }, /* results past the caches */
};

struct job {
    const struct rfg_cpu_rows *isa;
    const struct norm_args *a;
    const struct rfg_problem *prob;
    bool stream;
};

static char *row_of(const struct norm_rows *r, const struct norm_args *a, int64_t row, int64_t size)
{
    return r->data ? (char *)r->data + (row / a->heads * r->ld + row % a->heads * r->ld_inner) * size : NULL;
}

static struct rfg_cpu_input input(const struct job *j, int64_t row, char *scratch)
{
    const struct norm_args *a = j->a;
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)j->prob->dtype[0]);
    return (struct rfg_cpu_input){ row_of(&a->x, a, row, size), row_of(&a->residual, a, row, size),
                                   row_of(&a->residual_out, a, row, size),
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
                                  .y = row_of(&a->y, a, row, (int64_t)rfg_dtype_size((rfg_dtype)dtype)),
                                  .q = (uint8_t *)row_of(&a->q, a, row, 1),
                                  .q_dtype = j->prob->dtype[1],
                                  .scale_kind = (int)j->prob->v[NORM_SCALE],
                                  .scale = a->scale ? a->scale + row * a->scale_row : NULL,
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
                const int *p, const struct norm_args *a, struct rfg_cpu_pool *pool)
{
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    struct job j = { isa, a, prob, p[P_STREAM] };
    if (a->m && a->n)
        rfg_cpu_rows_run(dev, pool, a->m, bytes / a->m, a->workspace, scratch_bytes(a->n), run_row, &j);
}

#define VARIANT(op, isa_name)                                                                                          \
    const struct rfg_variant op##_cpu_##isa_name = {                                                                   \
        .name = #op "_cpu_" #isa_name,                                                                                 \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .n_params = 1,                                                                                                 \
        .params = cpu_params,                                                                                          \
        .supports = isa_name##_supports,                                                                               \
        .predict = isa_name##_predict,                                                                                 \
        .workspace = workspace,                                                                                        \
        .run = isa_name##_run,                                                                                         \
    }
#define VARIANTS(isa_name)                                                                                             \
    static bool isa_name##_supports(const struct rfg_device *dev, const struct rfg_problem *prob,                      \
                                    struct rfg_reason *why)                                                            \
    {                                                                                                                  \
        (void)prob;                                                                                                    \
        return rfg_cpu_supports(dev, &rfg_cpu_rows_##isa_name, why);                                                   \
    }                                                                                                                  \
    static double isa_name##_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)       \
    {                                                                                                                  \
        return rfg_cpu_predict(dev, prob, &rfg_cpu_rows_##isa_name, p[P_STREAM]);                                      \
    }                                                                                                                  \
    static void isa_name##_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,             \
                               const void *kargs, struct rfg_cpu_pool *pool)                                           \
    {                                                                                                                  \
        run(&rfg_cpu_rows_##isa_name, dev, prob, p, kargs, pool);                                                      \
    }                                                                                                                  \
    VARIANT(rmsnorm, isa_name);                                                                                        \
    VARIANT(add_rmsnorm, isa_name);                                                                                    \
    VARIANT(layernorm, isa_name);                                                                                      \
    VARIANT(add_layernorm, isa_name)

VARIANTS(portable);
#if defined(__x86_64__)
VARIANTS(avx2);
VARIANTS(avx512);
#else
static bool no_x86(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)dev, (void)prob;
    return rfg_refuse(why, "built for another processor than x86-64");
}
#define ABSENT(name_) const struct rfg_variant name_ = { .name = #name_, .kind = RFG_VARIANT_HOST, .supports = no_x86 }
#define ABSENT_ISA(isa_name)                                                                                           \
    ABSENT(rmsnorm_cpu_##isa_name);                                                                                    \
    ABSENT(add_rmsnorm_cpu_##isa_name);                                                                                \
    ABSENT(layernorm_cpu_##isa_name);                                                                                  \
    ABSENT(add_layernorm_cpu_##isa_name)
ABSENT_ISA(avx2);
ABSENT_ISA(avx512);
#endif
