/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of quantize_scale: quantize_scale_rows, and quantize_scale_portable, which is rows with the one set
 * of parameters that any problem takes. */
#include "ops/gpu_rows.h"
#include "quantize.h"

enum { P_THREADS, P_UNROLL, P_GROUPS };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 4, { 128, 256, 512, 1024 } },
    [P_UNROLL] = { "unroll", 3, { 1, 2, 4 } },    /* chunks of 16 bytes that a thread has in flight */
    [P_GROUPS] = { "groups", 4, { 1, 2, 4, 8 } }, /* workgroups a CU, at most */
};

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    (void)prob;
    p[P_THREADS] = 256;
    p[P_UNROLL] = 1;
    p[P_GROUPS] = 1;
}

static int64_t chunks_of(const struct rfg_problem *prob)
{
    return prob->v[QSCALE_M] * ceil_div(prob->v[QSCALE_N], rfg_format_elements(prob->dtype[0], 16));
}

static int64_t rows_groups(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return MIN(ceil_div(chunks_of(prob), (int64_t)p[P_THREADS] * p[P_UNROLL]), (int64_t)dev->cu_count * p[P_GROUPS]);
}

VALID_IF_THREADS_FIT(rows, P_THREADS)

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t all = ceil_div(chunks_of(prob), (int64_t)p[P_THREADS] * p[P_UNROLL]);
    if (p[P_GROUPS] * p[P_THREADS] > 2048)
        return rfg_refuse(why, "threads=%d, groups=%d: more than a CU has at once", p[P_THREADS], p[P_GROUPS]);
    if (p[P_GROUPS] > 1 && all <= (int64_t)dev->cu_count * (p[P_GROUPS] / 2))
        return rfg_refuse(why, "groups=%d: half as many do", p[P_GROUPS]);
    if (p[P_THREADS] > 128 && all * 2 < dev->cu_count)
        return rfg_refuse(why, "threads=%d: leaves CUs idle", p[P_THREADS]);
    return true;
}

/* Loads, two reductions over a workgroup and the meeting of all of them. */
static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)rows_groups(dev, prob, p);
    prob->op->cost(prob, &bytes, &flops);
    double at_once = MIN(groups, MIN(2048.0 / p[P_THREADS], 32) * dev->cu_count);
    double rate = MIN(1e3 * dev->mem_gbps, at_once * p[P_THREADS] * p[P_UNROLL] * 16 / LOAD_US);
    rate = MIN(rate, 1.5e3 * dev->mem_gbps * MIN(at_once, dev->cu_count) / dev->cu_count);
    double chain = 2 * (0.08 + 0.01 * p[P_THREADS] / dev->wave_size) + 0.0005 * groups;
    return dev->latency_us + LOAD_US + dev->sync_us + chain + bytes / MAX(rate, 1);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return (size_t)rows_groups(dev, prob, p) * sizeof(float);
}

static size_t portable_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    int p[RFG_MAX_PARAMS];
    (void)none;
    portable_params_of(prob, p);
    return workspace(dev, prob, p);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(dev, prob, p), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    (void)dev;
    k->source = "quantize/quantize_scale.hip";
    k->entry = "quantize_scale_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "Q_DTYPE", (int)v[QSCALE_CODES]);
    rfg_kernel_macro(k, "SCALE_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "ROUNDING", (int)v[QSCALE_ROUNDING]);
    rfg_kernel_macro(k, "RECIPROCAL", (int)v[QSCALE_RECIPROCAL]);
    rfg_kernel_macro(k, "WIDTH", access_width(prob->dtype[0], v[QSCALE_N], v[QSCALE_ALIGN], 16));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
}

KERNEL_VARIANT(quantize_scale, rows, .workspace = workspace);
PORTABLE_VARIANT(quantize_scale, .workspace = portable_workspace);
