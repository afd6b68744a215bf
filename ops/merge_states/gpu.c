/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of merge_states: merge_states_rows, and merge_states_portable, which is rows with the one set of
 * parameters that any problem takes. */
#include "merge.h"
#include "ops/gpu_rows.h"

enum { P_THREADS, P_STATES, P_STREAM };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 3, { 64, 128, 256 } },
    [P_STATES] = { "states", 4, { 2, 4, 8, 16 } }, /* of which a thread has the chunks in flight */
    [P_STREAM] = { "stream", 2, { 0, 1 } },
};

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    (void)prob;
    p[P_THREADS] = 256;
    p[P_STATES] = 4;
    p[P_STREAM] = 0;
}

static int64_t rows_groups(const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    int64_t row_chunks = ceil_div(v[MERGE_D], rfg_format_elements(prob->dtype[0], 16));
    return MIN(ceil_div(v[MERGE_T] * v[MERGE_H] * row_chunks, p[P_THREADS]), MAX_GROUPS);
}

VALID_IF_THREADS_FIT(rows, P_THREADS)

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int states = p[P_STATES], n = (int)prob->v[MERGE_N];
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    if (states > 2 && states / 2 >= n)
        return rfg_refuse(why, "states=%d: half as many are all there are", states);
    if (states < 4 && states < n)
        return rfg_refuse(why, "states=%d: of %d, one after the other", states, n);
    if (p[P_STREAM] && bytes < (double)dev->cache_bytes / 4)
        return rfg_refuse(why, "stream=1: the cache holds it all");
    return p[P_THREADS] == 64 || rows_groups(prob, p) * 2 >= dev->cu_count ||
           rfg_refuse(why, "threads=%d: leaves CUs idle", p[P_THREADS]);
}

/* States, `states` of them at a time, for which a thread has some four registers each; a CU begins a workgroup every
 * 0.15 us at best (ops/embedding/gpu.c). */
static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)rows_groups(prob, p), n = (double)prob->v[MERGE_N];
    prob->op->cost(prob, &bytes, &flops);
    double turns = (double)ceil_div(prob->v[MERGE_N], p[P_STATES]), busy = n / (turns * p[P_STATES]);
    double threads = 65536.0 / (64 + 4 * p[P_STATES]);
    double at_once = MIN(groups, MIN(threads / p[P_THREADS], 32) * dev->cu_count);
    double rate = MIN(1e3 * dev->mem_gbps, at_once * p[P_THREADS] * p[P_STATES] * busy * 16 / LOAD_US);
    double us = MAX(bytes / MAX(rate, 1), 0.15 * groups / dev->cu_count);
    return dev->latency_us + turns * (dev->load_us + LOAD_US) + us + 0.00003 * groups - (p[P_STREAM] ? 0.01 : 0);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    (void)dev;
    k->source = "merge_states/rows.hip";
    k->entry = "merge_states_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "WIDTH", access_width(prob->dtype[0], v[MERGE_D], v[MERGE_ALIGN], 16));
    rfg_kernel_macro(k, "WIDTH_Y", store_width(prob->dtype[0], prob->dtype[1], v[MERGE_D], v[MERGE_ALIGN_Y]));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "STATES", p[P_STATES]);
    rfg_kernel_macro(k, "STREAM", p[P_STREAM]);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(prob, p), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

KERNEL_VARIANT(merge_states, rows);
PORTABLE_VARIANT(merge_states);
