/* SPDX-License-Identifier: MIT
 *
 * The cpu variants of the norms: rows shared out among threads, block after block of a row; what is normalised is read
 * again for each pass, from the L1 or L2 cache. */
#include <math.h>

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
    struct rfg_cpu_split split;
    bool stream;
};

static char *row_of(const struct norm_rows *r, const struct norm_args *a, int64_t row, int64_t size)
{
    return r->data ? (char *)r->data + (row / a->heads * r->ld + row % a->heads * r->ld_inner) * size : NULL;
}

static int block_at(const struct norm_args *a, int64_t col)
{
    return a->n - col < RFG_BLOCK ? (int)(a->n - col) : RFG_BLOCK;
}

struct stats {
    float mean, rstd;
};

/* n results from column col on; h: the row of what is normalised. */
static void results(const struct job *j, const char *h, struct stats st, int64_t col, int n, float *y)
{
    const struct norm_args *a = j->a;
    int dtype = j->prob->dtype[0];
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)dtype);
    rfg_block hf, w, b;
    j->isa->load(hf, h + col * size, dtype, n);
    if (a->weight)
        j->isa->load(w, (const char *)a->weight + col * size, dtype, n);
    if (a->bias)
        j->isa->load(b, (const char *)a->bias + col * size, dtype, n);
    j->isa->normalise(y, hf, st.mean, st.rstd, a->weight ? w : NULL,
                      j->prob->v[NORM_WEIGHT] == NORM_WEIGHT_1W ? 1.0f : 0.0f, a->bias ? b : NULL, n);
}

/* The sums of a row, and with a residual its sum, which is then what is normalised. */
static struct stats first_passes(const struct job *j, const char *x, const char *residual, char *sum_out)
{
    const struct norm_args *a = j->a;
    bool layer = norm_is_layer(j->prob);
    int dtype = j->prob->dtype[0];
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)dtype);
    struct stats st = { 0, 0 };
    rfg_block h, r;
    float sum = 0;
    for (int64_t col = 0; col < a->n; col += RFG_BLOCK) {
        int n = block_at(a, col);
        j->isa->load(h, x + col * size, dtype, n);
        if (residual) {
            j->isa->load(r, residual + col * size, dtype, n);
            j->isa->add(h, h, r, dtype, n);
            j->isa->store(sum_out + col * size, h, dtype, n, false);
        }
        sum += layer ? j->isa->sum(h, n) : j->isa->sum_squares(h, 0, n);
    }
    if (layer) {
        st.mean = sum * a->inverse_n;
        sum = 0;
        for (int64_t col = 0; col < a->n; col += RFG_BLOCK) {
            int n = block_at(a, col);
            j->isa->load(h, (residual ? sum_out : x) + col * size, dtype, n);
            sum += j->isa->sum_squares(h, st.mean, n);
        }
    }
    st.rstd = 1.0f / sqrtf(sum * a->inverse_n + a->eps);
    return st;
}

static void run_task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    const struct norm_args *a = j->a;
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)j->prob->dtype[0]), kind = j->prob->v[NORM_SCALE];
    int64_t row = task * j->split.each, end = row + j->split.each < a->m ? row + j->split.each : a->m;
    struct rfg_cpu_out out = { .isa = j->isa,
                               .scale_col = a->scale_col,
                               .inverse = kind == RFG_SCALE_STATIC ? 1.0f / *a->scale : 1,
                               .in_dtype = j->prob->dtype[0],
                               .out_dtype = j->prob->dtype[1],
                               .groups = kind == RFG_SCALE_GROUP,
                               .stream = j->stream };
    rfg_block y;
    (void)worker;
    for (; row < end; row++) {
        const char *x = row_of(&a->x, a, row, size), *h = x;
        if (norm_adds(j->prob))
            h = row_of(&a->residual_out, a, row, size);
        out.y = row_of(&a->y, a, row, size);
        out.q = (uint8_t *)row_of(&a->q, a, row, 1);
        out.scale = a->scale ? a->scale + row * a->scale_row : NULL;
        struct stats st =
            first_passes(j, x, row_of(&a->residual, a, row, size), row_of(&a->residual_out, a, row, size));
        if (kind == RFG_SCALE_TOKEN) {
            float largest = 0;
            for (int64_t col = 0; col < a->n; col += RFG_BLOCK) {
                int n = block_at(a, col);
                results(j, h, st, col, n, y);
                float m = j->isa->largest(y, n);
                largest = m > largest ? m : largest;
            }
            *out.scale = rfg_cpu_scale(largest, out.out_dtype);
            out.inverse = 1.0f / *out.scale;
        }
        for (int64_t col = 0; col < a->n; col += RFG_BLOCK) {
            int n = block_at(a, col);
            results(j, h, st, col, n, y);
            rfg_cpu_write(&out, col, y, n);
        }
    }
}

static void run(const struct rfg_cpu_rows *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                const int *p, const struct norm_args *a, struct rfg_cpu_pool *pool)
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
