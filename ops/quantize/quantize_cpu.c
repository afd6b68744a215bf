/* SPDX-License-Identifier: MIT
 *
 * quantize and quantize_scale on the cpu: rows shared out among threads. */
#include <math.h>
#include <string.h>

#include "dequantize.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "ops/gpu.h"
#include "quantize.h"

/* ---- scales ------------------------------------------------------------------------------------------------------ */

/* How scales are made. */
struct maker {
    const struct quantize_rule *rule;
    int codes, dtype; /* of the codes, of the scales */
    int rounding, reciprocal;
    float global; /* of nvfp4 */
};

static float scale_of(const struct maker *k, float amax)
{
    const struct quantize_rule *r = k->rule;
    amax = MAX(amax, r->floor_amax);
    float s = k->reciprocal & RFG_RECIPROCAL_OF_MAX ? amax * r->inverse_max : amax / r->max;
    s = MAX(s, r->floor_scale);
    if (k->rounding == RFG_SCALE_EXACT)
        return s != 0 ? s : r->zero_scale;
    return rfg_cpu_power_scale(k->rounding == RFG_SCALE_UP ? s : amax, k->rounding, k->codes);
}

/* What codes are made with. */
static float put_scale(const struct maker *k, void *scale, int64_t at, float s)
{
    if (k->dtype == RFG_F32) {
        ((float *)scale)[at] = s;
        return s;
    }
    if (k->dtype == RFG_E4M3) { /* of nvfp4 */
        const struct rfg_format *f = rfg_format(RFG_E4M3);
        double v = (double)MIN(s / k->global, 448);
        f->encode(f, (uint8_t *)scale + at, &v);
        f->decode(f, (uint8_t *)scale + at, &v);
        return v > 0 ? (float)v * k->global : INFINITY; /* what is divided by it is 0 */
    }
    return rfg_cpu_store_e8m0((uint8_t *)scale + at, s);
}

/* What of a row is quantised: x, or its products with the columns' factors. */
struct values {
    const void *x, *smooth; /* smooth may be NULL */
    int dtype, smooth_dtype;
};

static float value_at(const struct values *v, int64_t i)
{
    float x = rfg_float_get(v->x, v->dtype, i);
    return v->smooth ? x * rfg_float_get(v->smooth, v->smooth_dtype, i) : x;
}

static float largest_of(const struct values *values, int64_t from, int64_t to)
{
    float largest = 0;
    for (int64_t i = from; i < to; i++) {
        float v = fabsf(value_at(values, i));
        largest = v > largest ? v : largest; /* not if it is a NaN */
    }
    return largest;
}

/* ---- quantize ---------------------------------------------------------------------------------------------------- */

struct job {
    const struct quantize_args *a;
    const struct rfg_problem *prob;
    const struct rfg_format *format;
    struct maker maker;
    int64_t span; /* columns that share a scale */
    float given;
};

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct quantize_args *a = j->a;
    int dtype = j->prob->dtype[0];
    struct values x = { (const char *)a->x + rfg_format_bytes(dtype, 1) * row * a->ldx,
                        j->prob->v[QUANTIZE_SMOOTH] ? a->smooth : NULL, dtype, (int)j->prob->v[QUANTIZE_SMOOTH] };
    uint8_t *q = (uint8_t *)a->q + rfg_format_bytes(j->prob->dtype[1], row * a->ldq);
    int elements = j->format->elements;
    double block[RFG_FORMAT_MAX_ELEMENTS];
    bool times = j->prob->v[QUANTIZE_RECIPROCAL] & RFG_RECIPROCAL_OF_SCALE, clamps = j->prob->v[QUANTIZE_MAX];
    (void)place, (void)scratch;
    for (int64_t from = 0, to; from < a->n; from = to) {
        float scale = j->given;
        to = MIN(from + j->span, a->n);
        if (quantize_kind(j->prob) != RFG_SCALE_STATIC)
            scale = put_scale(&j->maker, a->scale, row * a->scale_row + from / j->span * a->scale_col,
                              scale_of(&j->maker, largest_of(&x, from, to)));
        float inverse = 1 / scale;
        for (int64_t i = from; i < to; i++) {
            float v = value_at(&x, i);
            v = times ? v * inverse : v / scale;
            if (j->maker.dtype == RFG_E4M3 && isinf(scale))
                v = 0;
            if (clamps)
                v = v > a->rule.max ? a->rule.max : v < -a->rule.max ? -a->rule.max : v;
            block[i % elements] = (double)v;
            if (i % elements == elements - 1)
                j->format->encode(j->format, q + i / elements, block);
        }
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct quantize_args *a = kargs;
    const int64_t *v = prob->v;
    struct job j = { .a = a,
                     .prob = prob,
                     .format = rfg_format(prob->dtype[1]),
                     .maker = { &a->rule, prob->dtype[1], prob->dtype[2], (int)v[QUANTIZE_ROUNDING],
                                (int)v[QUANTIZE_RECIPROCAL], v[QUANTIZE_GLOBAL] ? *a->global : 1 },
                     .span = v[QUANTIZE_GROUP_COLS] ? v[QUANTIZE_GROUP_COLS] : a->n };
    double bytes, flops, given;
    (void)p;
    if (!a->m || !a->n)
        return;
    if (quantize_kind(prob) == RFG_SCALE_STATIC) {
        const struct rfg_format *f = rfg_format(prob->dtype[2]);
        f->decode(f, a->scale, &given);
        j.given = (float)given;
    }
    prob->op->cost(prob, &bytes, &flops);
    rfg_cpu_rows_run(dev, pool, a->m, bytes / a->m, NULL, 0, run_row, &j);
}

const struct rfg_variant quantize_cpu = {
    .name = "quantize_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};

/* ---- quantize_scale ---------------------------------------------------------------------------------------------- */

#define PARTS 256

struct scale_job {
    const struct quantize_scale_args *a;
    int dtype, parts;
    float largest[PARTS];
};

/* Rows, a part of them each; of one row, columns. */
static void run_part(void *ctx, int part, int worker)
{
    struct scale_job *j = ctx;
    const struct quantize_scale_args *a = j->a;
    (void)worker;
    bool rows = a->m >= j->parts;
    int64_t n = rows ? a->m : a->n, from = n * part / j->parts, to = n * (part + 1) / j->parts;
    float largest = 0;
    for (int64_t r = rows ? from : 0; r < (rows ? to : a->m); r++) {
        struct values x = { (const char *)a->x + rfg_format_bytes(j->dtype, 1) * r * a->ldx, NULL, j->dtype, 0 };
        float v = largest_of(&x, rows ? 0 : from, rows ? a->n : to);
        largest = MAX(largest, v);
    }
    j->largest[part] = largest;
}

static void scale_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                      struct rfg_cpu_pool *pool)
{
    const struct quantize_scale_args *a = kargs;
    const int64_t *v = prob->v;
    struct scale_job j = { .a = a, .dtype = prob->dtype[0], .parts = MIN(MAX(dev->cu_count, 1), PARTS) };
    struct maker maker = {
        &a->rule, (int)v[QSCALE_CODES], prob->dtype[1], (int)v[QSCALE_ROUNDING], (int)v[QSCALE_RECIPROCAL], 1
    };
    float largest = 0;
    (void)p;
    if (!a->m || !a->n)
        return;
    rfg_cpu_pool_run(pool, j.parts, run_part, &j);
    for (int i = 0; i < j.parts; i++)
        largest = MAX(largest, j.largest[i]);
    (void)put_scale(&maker, a->scale, 0, scale_of(&maker, largest));
}

const struct rfg_variant quantize_scale_cpu = {
    .name = "quantize_scale_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = scale_run,
};
