/* SPDX-License-Identifier: MIT
 *
 * The cpu variants of act_and_mul and act: rows shared out among threads. */
#include "../cpu/pool.h"
#include "../cpu/rows.h"
#include "act.h"

enum { P_STREAM };

static const struct rfg_param cpu_params[] = {
    [P_STREAM] = { "stream", 2, { 0, 1 } }, /* results past the caches */
};

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
    int dtype = j->prob->dtype[0];
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)dtype);
    const char *x = (const char *)a->x + row * a->ldx * size;
    bool turns = j->prob->v[ACT_INTERLEAVED];
    struct rfg_cpu_act r = { .out = { .n = a->n,
                                      .dtype = dtype,
                                      .y = a->y ? (char *)a->y + row * a->ldy * size : NULL,
                                      .q = a->q ? (uint8_t *)a->q + row * a->ldq : NULL,
                                      .q_dtype = j->prob->dtype[1],
                                      .scale_kind = (int)j->prob->v[ACT_SCALE],
                                      .scale = a->scale ? a->scale + row * a->scale_row : NULL,
                                      .scale_col = a->scale_col,
                                      .row = scratch,
                                      .stream = j->stream },
                             .a = x,
                             .b = act_multiplies(j->prob) ? x + (turns ? 1 : a->n) * size : NULL,
                             .interleaved = turns,
                             .act = (int)j->prob->v[ACT_ACT],
                             .alpha = a->alpha,
                             .limit = a->limit };
    (void)place;
    j->isa->act(&r);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)p;
    return prob->v[ACT_SCALE] ? (size_t)dev->cu_count * rfg_cpu_row_bytes(prob->v[ACT_N]) : 0;
}

static void run(const struct rfg_cpu_rows *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                const int *p, const struct act_args *a, struct rfg_cpu_pool *pool)
{
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    struct job j = { isa, a, prob, p[P_STREAM] };
    if (a->m && a->n)
        rfg_cpu_rows_run(dev, pool, a->m, bytes / a->m, prob->v[ACT_SCALE] ? a->workspace : NULL,
                         rfg_cpu_row_bytes(a->n), run_row, &j);
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
    VARIANT(act_and_mul, isa_name);                                                                                    \
    VARIANT(act, isa_name)

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
ABSENT(act_and_mul_cpu_avx2);
ABSENT(act_and_mul_cpu_avx512);
ABSENT(act_cpu_avx2);
ABSENT(act_cpu_avx512);
#endif
