/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of sample: sample_rows, a workgroup a row, and sample_portable, which is rows with the one set of
 * parameters that any problem takes. */
#include "ops/gpu.h"
#include "sample.h"

enum { P_THREADS };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 3, { 256, 512, 1024 } },
};
static const int portable_params[] = { [P_THREADS] = 512 };

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    (void)prob;
    return p[P_THREADS] <= dev->max_threads ||
           rfg_refuse(why, "threads=%d: must be at most %d", p[P_THREADS], dev->max_threads);
}

/* Passes over a row: for its largest, a digit of each place, a digit of the id. */
static double passes_of(const struct rfg_problem *prob)
{
    return 1 + 4 * (double)(1 + prob->v[SAMPLE_TOP_K] + prob->v[SAMPLE_TOP_P]) + 3;
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, rows = (double)prob->v[SAMPLE_B];
    prob->op->cost(prob, &bytes, &flops);
    double at_once = MIN(rows, MAX(2048 / p[P_THREADS], 1) * (double)dev->cu_count);
    double rate = at_once * MIN(p[P_THREADS] * 16, bytes / MAX(rows, 1)) / LOAD_US;
    rate = MIN(rate, 1.5e3 * dev->mem_gbps * MIN(at_once, dev->cu_count) / dev->cu_count);
    return dev->latency_us + passes_of(prob) * (LOAD_US + 1 + bytes / MAX(rate, 1));
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    int width = 16;
    (void)dev;
    while (width > rfg_format_bytes(prob->dtype[0], 1) && prob->v[SAMPLE_ALIGN] < width)
        width /= 2;
    k->source = "sample/sample.hip";
    k->entry = "sample_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "ID_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "WIDTH", width);
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "EXTRAS", prob->v[SAMPLE_BIAS] || prob->v[SAMPLE_COUNTS] || prob->v[SAMPLE_PROMPT]);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)MIN(prob->v[SAMPLE_B], MAX_GROUPS), 1, 1 },
                              { (uint32_t)p[P_THREADS], 1, 1 },
                              0 };
}

const struct rfg_variant sample_rows = {
    .name = "sample_rows",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(rows_params),
    .params = rows_params,
    .supports = rows_supports,
    .valid = rows_valid,
    .predict = rows_predict,
    .kernel = rows_kernel,
    .launch = rows_launch,
};

static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_kernel *k)
{
    (void)none;
    rows_kernel(dev, prob, portable_params, k);
}

static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    (void)none;
    return 4 * rows_predict(dev, prob, portable_params);
}

static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_launch *l)
{
    (void)none;
    rows_launch(dev, prob, portable_params, l);
}

const struct rfg_variant sample_portable = {
    .name = "sample_portable",
    .kind = RFG_VARIANT_KERNEL,
    .supports = rows_supports,
    .predict = portable_predict,
    .kernel = portable_kernel,
    .launch = portable_launch,
};
