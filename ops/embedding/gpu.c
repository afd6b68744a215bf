/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of embedding: embedding_rows, and embedding_portable, which is rows with the one set of parameters
 * that any problem takes. */
#include <inttypes.h>

#include "embedding.h"
#include "ops/gpu.h"

enum { P_THREADS, P_UNROLL };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 3, { 64, 128, 256 } },
    [P_UNROLL] = { "unroll", 3, { 1, 2, 4 } },
};
static const int portable_params[] = { [P_THREADS] = 256, [P_UNROLL] = 1 };

static int64_t row_chunks(const struct rfg_problem *prob)
{
    return ceil_div(prob->v[EMBEDDING_N], rfg_format_elements(prob->dtype[1], 16));
}

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (row_chunks(prob) * prob->v[EMBEDDING_M] > INT32_MAX - 4096)
        return rfg_refuse(why, "%" PRId64 " x %" PRId64 " chunks: must be fewer than 2^31", prob->v[EMBEDDING_M],
                          row_chunks(prob));
    return true;
}

static int64_t rows_groups(const struct rfg_problem *prob, const int *p)
{
    return MIN(ceil_div(prob->v[EMBEDDING_M] * row_chunks(prob), (int64_t)p[P_THREADS] * p[P_UNROLL]), MAX_GROUPS);
}

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t groups = rows_groups(prob, p);
    if (p[P_UNROLL] > 1 && groups < dev->cu_count)
        return rfg_refuse(why, "unroll=%d: leaves CUs idle", p[P_UNROLL]);
    if (p[P_THREADS] > 64 && groups * 2 < dev->cu_count)
        return rfg_refuse(why, "threads=%d: leaves CUs idle", p[P_THREADS]);
    return true;
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)rows_groups(prob, p);
    prob->op->cost(prob, &bytes, &flops);
    double at_once = MIN(groups, MIN(2048.0 / p[P_THREADS], 32) * dev->cu_count);
    double rate = MIN(1e3 * dev->mem_gbps, at_once * p[P_THREADS] * p[P_UNROLL] * 16 / LOAD_US);
    /* A CU begins a workgroup every 0.15 us at best: what 65536 of them took on an H200. An id, then its row. */
    double us = MAX(bytes / MAX(rate, 1), 0.15 * groups / dev->cu_count);
    return dev->latency_us + dev->load_us + LOAD_US + us + 0.002 * MIN(groups, 4096) / 64;
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    (void)dev;
    k->source = "embedding/rows.hip";
    k->entry = "embedding_rows";
    rfg_kernel_macro(k, "ID_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[2]);
    rfg_kernel_macro(k, "SCALED", (int)v[EMBEDDING_SCALED]);
    rfg_kernel_macro(k, "PACKED", !v[EMBEDDING_LDT] && !v[EMBEDDING_LDY]);
    rfg_kernel_macro(k, "WIDTH", access_width(prob->dtype[1], v[EMBEDDING_N], v[EMBEDDING_ALIGN], 16));
    rfg_kernel_macro(k, "WIDTH_Y", access_width(prob->dtype[2], v[EMBEDDING_N], v[EMBEDDING_ALIGN_Y], 16));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(prob, p), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

const struct rfg_variant embedding_rows = {
    .name = "embedding_rows",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(rows_params),
    .params = rows_params,
    .supports = rows_supports,
    .worth = rows_worth,
    .predict = rows_predict,
    .kernel = rows_kernel,
    .launch = rows_launch,
};

static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    (void)none;
    return 4 * rows_predict(dev, prob, portable_params);
}

static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_kernel *k)
{
    (void)none;
    rows_kernel(dev, prob, portable_params, k);
}

static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_launch *l)
{
    (void)none;
    rows_launch(dev, prob, portable_params, l);
}

const struct rfg_variant embedding_portable = {
    .name = "embedding_portable",
    .kind = RFG_VARIANT_KERNEL,
    .supports = rows_supports,
    .predict = portable_predict,
    .kernel = portable_kernel,
    .launch = portable_launch,
};
