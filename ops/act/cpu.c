/* SPDX-License-Identifier: MIT
 *
 * The cpu variants of act_and_mul and act: rows shared out among threads, block after block of a row. */
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
    struct rfg_cpu_split split;
    bool stream;
};

/* n results of a row from column col on. */
static void compute(const struct job *j, const char *x, int64_t col, int n, float *f)
{
    const struct rfg_problem *prob = j->prob;
    int dtype = prob->dtype[0];
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)dtype);
    bool mul = act_multiplies(prob);
    rfg_block a, b, turns;
    if (prob->v[ACT_INTERLEAVED]) {
        for (int at = 0; at < n; at += RFG_BLOCK / 2) {
            int part = n - at < RFG_BLOCK / 2 ? n - at : RFG_BLOCK / 2;
            j->isa->load(turns, x + 2 * (col + at) * size, dtype, 2 * part);
            for (int i = 0; i < part; i++) {
                a[at + i] = turns[2 * i];
                b[at + i] = turns[2 * i + 1];
            }
        }
        for (int i = n; i < RFG_BLOCK && i % 16; i++)
            a[i] = b[i] = 0;
    } else {
        j->isa->load(a, x + col * size, dtype, n);
        if (mul)
            j->isa->load(b, x + (col + j->a->n) * size, dtype, n);
    }
    j->isa->act(f, a, mul ? b : NULL, (int)prob->v[ACT_ACT], j->a->alpha, j->a->limit, n);
}

static void run_task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    const struct act_args *a = j->a;
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)j->prob->dtype[0]), kind = j->prob->v[ACT_SCALE];
    int64_t row = task * j->split.each, end = row + j->split.each < a->m ? row + j->split.each : a->m;
    struct rfg_cpu_out out = { .isa = j->isa,
                               .scale_col = a->scale_col,
                               .inverse = kind == RFG_SCALE_STATIC ? 1.0f / *a->scale : 1,
                               .in_dtype = j->prob->dtype[0],
                               .out_dtype = j->prob->dtype[1],
                               .groups = kind == RFG_SCALE_GROUP,
                               .stream = j->stream };
    rfg_block f;
    (void)worker;
    for (; row < end; row++) {
        const char *x = (const char *)a->x + row * a->ldx * size;
        out.y = a->y ? (char *)a->y + row * a->ldy * size : NULL;
        out.q = a->q ? (uint8_t *)a->q + row * a->ldq : NULL;
        out.scale = a->scale ? a->scale + row * a->scale_row : NULL;
        if (kind == RFG_SCALE_TOKEN) {
            float largest = 0;
            for (int64_t col = 0; col < a->n; col += RFG_BLOCK) {
                int n = a->n - col < RFG_BLOCK ? (int)(a->n - col) : RFG_BLOCK;
                compute(j, x, col, n, f);
                float m = j->isa->largest(f, n);
                largest = m > largest ? m : largest;
            }
            *out.scale = rfg_cpu_scale(largest, out.out_dtype);
            out.inverse = 1.0f / *out.scale;
        }
        for (int64_t col = 0; col < a->n; col += RFG_BLOCK) {
            int n = a->n - col < RFG_BLOCK ? (int)(a->n - col) : RFG_BLOCK;
            compute(j, x, col, n, f);
            rfg_cpu_write(&out, col, f, n);
        }
    }
}

static void run(const struct rfg_cpu_rows *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                const int *p, const struct act_args *a, struct rfg_cpu_pool *pool)
{
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    struct job j = { .isa = isa, .a = a, .prob = prob, .stream = p[P_STREAM] };
    if (a->m == 0 || a->n == 0)
        return;
    j.split = rfg_cpu_rows_split(a->m, bytes / a->m, dev->cu_count);
    rfg_cpu_pool_run(pool, j.split.tasks, run_task, &j);
}

#define VARIANT(op, isa_name)                                                                                          \
    const struct rfg_variant op##_cpu_##isa_name = {                                                                   \
        .name = #op "_cpu_" #isa_name,                                                                                 \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .n_params = 1,                                                                                                 \
        .params = cpu_params,                                                                                          \
        .supports = isa_name##_supports,                                                                               \
        .predict = isa_name##_predict,                                                                                 \
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
