/* SPDX-License-Identifier: MIT
 *
 * dequantize on the cpu: rows shared out among threads, codes looked up in a table of the format's. */
#include "dequantize.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "ops/gpu.h"

struct job {
    const struct dequantize_args *a;
    const struct rfg_problem *prob;
    float value[256];
};

static float scale_at(const struct job *j, int64_t row, int64_t col)
{
    const struct dequantize_args *a = j->a;
    int64_t at = (row >> a->row_shift) * a->scale_row + (col >> a->col_shift) * a->scale_col;
    if (j->prob->dtype[1] == RFG_F32)
        return ((const float *)a->scale)[at];
    double scale;
    const struct rfg_format *f = rfg_format(RFG_E8M0);
    f->decode(f, (const uint8_t *)a->scale + at, &scale);
    return (float)scale;
}

/* Of blocks that hold their scales. */
static void run_blocks(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct dequantize_args *a = j->a;
    const struct rfg_format *f = rfg_format(j->prob->dtype[0]);
    const char *q = (const char *)a->q + rfg_format_bytes(j->prob->dtype[0], row * a->ldq);
    char *y = (char *)a->y + rfg_format_bytes(j->prob->dtype[2], 1) * row * a->ldy;
    double v[RFG_FORMAT_MAX_ELEMENTS];
    (void)place, (void)scratch;
    for (int64_t first = 0; first < a->n; first += f->elements, q += f->bytes) {
        f->decode(f, q, v);
        for (int i = 0; i < f->elements; i++)
            rfg_float_put(y, j->prob->dtype[2], first + i, (float)v[i] * scale_at(j, row, first + i));
    }
}

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct dequantize_args *a = j->a;
    const uint8_t *q = (const uint8_t *)a->q + rfg_format_bytes(j->prob->dtype[0], row * a->ldq);
    bool two = rfg_format(j->prob->dtype[0])->elements == 2; /* in a byte */
    char *y = (char *)a->y + rfg_format_bytes(j->prob->dtype[2], 1) * row * a->ldy;
    (void)place, (void)scratch;
    for (int64_t first = 0, end; first < a->n; first = end) {
        float scale = scale_at(j, row, first);
        end = MIN(first + ((int64_t)1 << a->col_shift), a->n);
        for (int64_t i = first; i < end; i++)
            rfg_float_put(y, j->prob->dtype[2], i, j->value[two ? q[i / 2] >> (i % 2 * 4) & 15 : q[i]] * scale);
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    struct job j = { .a = kargs, .prob = prob };
    const struct rfg_format *f = rfg_format(prob->dtype[0]);
    double bytes, flops, v[RFG_FORMAT_MAX_ELEMENTS];
    bool blocks = f->kind == RFG_FORMAT_BLOCK;
    (void)p;
    for (int c = 0; c < 256 && !blocks; c++) {
        uint8_t code = (uint8_t)c;
        f->decode(f, &code, v);
        j.value[c] = (float)v[0];
    }
    prob->op->cost(prob, &bytes, &flops);
    if (j.a->m && j.a->n)
        rfg_cpu_rows_run(dev, pool, j.a->m, bytes / j.a->m, NULL, 0, blocks ? run_blocks : run_row, &j);
}

const struct rfg_variant dequantize_cpu = {
    .name = "dequantize_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
