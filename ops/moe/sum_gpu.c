/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of moe_sum: moe_sum_rows, and moe_sum_portable, which is rows with the one set of parameters that
 * any problem takes. */
#include <inttypes.h>

#include "ops/gpu_rows.h"
#include "sum.h"

enum { P_THREADS, P_SLOTS };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 3, { 64, 128, 256 } },
    [P_SLOTS] = { "slots", 4, { 2, 4, 8, 16 } }, /* of which a thread has the chunks in flight */
};

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    (void)prob;
    p[P_THREADS] = 256;
    p[P_SLOTS] = 4;
}

static int64_t chunks_of(const struct rfg_problem *prob)
{
    return prob->v[SUM_T] * ceil_div(prob->v[SUM_N], rfg_format_elements(prob->dtype[0], 16));
}

static int64_t rows_groups(const struct rfg_problem *prob, const int *p)
{
    return MIN(ceil_div(chunks_of(prob), p[P_THREADS]), MAX_GROUPS);
}

VALID_IF_THREADS_FIT(rows, P_THREADS)

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int slots = p[P_SLOTS], top = (int)prob->v[SUM_TOP];
    if (slots > 2 && slots / 2 >= top)
        return rfg_refuse(why, "slots=%d: half as many are all there are", slots);
    if (slots < 8 && slots < top)
        return rfg_refuse(why, "slots=%d: of %d, one after the other", slots, top);
    return p[P_THREADS] == 64 || rows_groups(prob, p) * 2 >= dev->cu_count ||
           rfg_refuse(why, "threads=%d: leaves CUs idle", p[P_THREADS]);
}

/* Places, then x, slots of them at a time; a CU begins a workgroup every 0.15 us at best (ops/embedding/gpu.c). */
static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)rows_groups(prob, p), top = (double)prob->v[SUM_TOP];
    prob->op->cost(prob, &bytes, &flops);
    double turns = (double)ceil_div(prob->v[SUM_TOP], p[P_SLOTS]), busy = top / (turns * p[P_SLOTS]);
    double at_once = MIN(groups, MIN(2048.0 / p[P_THREADS], 32) * dev->cu_count);
    double rate = MIN(1e3 * dev->mem_gbps, at_once * p[P_THREADS] * p[P_SLOTS] * busy * 16 / LOAD_US);
    double us = MAX(bytes / MAX(rate, 1), 0.15 * groups / dev->cu_count);
    return dev->latency_us + turns * (dev->load_us + LOAD_US) + us + 0.002 * MIN(groups, 4096) / 64;
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    (void)dev;
    k->source = "moe/sum.hip";
    k->entry = "moe_sum_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "WEIGHTS", (int)v[SUM_WEIGHTS]);
    rfg_kernel_macro(k, "RESIDUAL", (int)v[SUM_RESIDUAL]);
    if (v[SUM_IDENTITY]) /* others' kernels need not know of it */
        rfg_kernel_macro(k, "IDENTITY", 1);
    rfg_kernel_macro(k, "WIDTH", access_width(prob->dtype[0], v[SUM_N], v[SUM_ALIGN], 16));
    rfg_kernel_macro(k, "WIDTH_Y", store_width(prob->dtype[0], prob->dtype[1], v[SUM_N], v[SUM_ALIGN_Y]));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "SLOTS", p[P_SLOTS]);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(prob, p), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

KERNEL_VARIANT(moe_sum, rows);
PORTABLE_VARIANT(moe_sum);
