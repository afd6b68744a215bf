/* SPDX-License-Identifier: MIT
 *
 * lora on the cpu: rows are distributed among threads. */
#include "lora.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"

struct job {
    const struct lora_args *a;
    int in, out;
};

/* The row's adapter, or -1. */
static int adapter_of(const struct lora_args *a, int64_t row)
{
    int64_t from = 0, to = a->segments;
    if (!a->indptr)
        return a->ids[row] < a->adapters ? a->ids[row] : -1;
    while (from < to) { /* the first segment that ends behind it */
        int64_t mid = (from + to) / 2;
        if (a->indptr[mid + 1] <= row)
            from = mid + 1;
        else
            to = mid;
    }
    if (from == a->segments || a->indptr[from] > row)
        return -1;
    return a->ids[from] < a->adapters ? a->ids[from] : -1;
}

static float dot(const void *x, const void *w, int dtype, int n)
{
    float sum[8] = { 0 };
    for (int i = 0; i < n; i++)
        sum[i % 8] += rfg_float_get(x, dtype, i) * rfg_float_get(w, dtype, i);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct lora_args *a = j->a;
    int adapter = adapter_of(a, row);
    float h[RFG_LORA_MAX_RANK];
    (void)place, (void)scratch;
    if (adapter < 0)
        return;
    int rank = a->ranks && a->ranks[adapter] < a->rank ? a->ranks[adapter] : a->rank;
    float scale = a->scales ? a->scale * a->scales[adapter] : a->scale;
    int64_t size = rfg_format_bytes(j->in, 1);
    const char *x = (const char *)a->x + row * a->ldx * size;
    const char *wa = (const char *)a->a + adapter * a->a_adapter * size;
    const char *wb = (const char *)a->b + adapter * a->b_adapter * size;
    char *y = (char *)a->y + row * a->ldy * rfg_format_bytes(j->out, 1);
    for (int r = 0; r < rank; r++)
        h[r] = scale * dot(x, wa + r * a->a_row * size, j->in, a->k);
    for (int n = 0; n < a->n && rank > 0; n++) {
        float sum = 0;
        for (int r = 0; r < rank; r++)
            sum += h[r] * rfg_float_get(wb + n * a->b_row * size, j->in, r);
        rfg_float_put(y, j->out, n, rfg_float_get(y, j->out, n) + sum);
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct lora_args *a = kargs;
    struct job j = { a, prob->dtype[0], prob->dtype[1] };
    (void)p;
    if (a->m && a->n && a->adapters)
        rfg_cpu_rows_run(dev, pool, a->m, 2.0 * a->rank * (a->n + a->k), NULL, 0, run_row, &j);
}

const struct rfg_variant lora_cpu = {
    .name = "lora_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
