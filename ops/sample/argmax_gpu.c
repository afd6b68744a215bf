/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of argmax: argmax_rows, argmax_cluster, in which a row's workgroups are a cluster, and
 * argmax_portable, which is rows with the one set of parameters that any problem takes. */
#include <inttypes.h>

#include "argmax.h"
#include "ops/gpu.h"

enum { P_THREADS, P_UNROLL, P_SPLIT };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 4, { 128, 256, 512, 1024 } },
    [P_UNROLL] = { "unroll", 3, { 2, 4, 8 } },          /* chunks of 16 bytes that a thread has in flight */
    [P_SPLIT] = { "split", 6, { 1, 2, 4, 8, 16, 32 } }, /* workgroups that share a row */
};
static const struct rfg_param cluster_params[] = {
    [P_THREADS] = { "threads", 4, { 128, 256, 512, 1024 } },
    [P_UNROLL] = { "unroll", 3, { 2, 4, 8 } },
    [P_SPLIT] = { "split", 3, { 2, 4, 8 } },
};
static const int portable_params[] = { [P_THREADS] = 256, [P_UNROLL] = 4, [P_SPLIT] = 1 };

/* Bytes of the widest load that the alignment allows. */
static int width_of(const struct rfg_problem *prob)
{
    int width = 16;
    while (width > rfg_format_bytes(prob->dtype[0], 1) && prob->v[ARGMAX_ALIGN] < width)
        width /= 2;
    return width;
}

/* Whole chunks of 16 bytes in a row. */
static int64_t row_chunks(const struct rfg_problem *prob)
{
    return prob->v[ARGMAX_V] / rfg_format_elements(prob->dtype[0], 16);
}

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool cluster_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (!(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "%s has no clusters of workgroups", dev->arch);
    return prob->v[ARGMAX_M] <= MAX_GROUPS ||
           rfg_refuse(why, "M=%" PRId64 ": must be at most %d", prob->v[ARGMAX_M], MAX_GROUPS);
}

static bool fits(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    if (p[P_THREADS] > dev->max_threads)
        return rfg_refuse(why, "threads=%d: must be at most %d", p[P_THREADS], dev->max_threads);
    return width_of(prob) == 16 || p[P_THREADS] * p[P_UNROLL] <= 4096 ||
           rfg_refuse(why, "threads=%d, unroll=%d: more registers than there are, for loads of %d bytes", p[P_THREADS],
                      p[P_UNROLL], width_of(prob));
}

static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    if (!fits(dev, prob, p, why))
        return false;
    return p[P_SPLIT] == 1 || prob->v[ARGMAX_M] <= RFG_COUNTERS ||
           rfg_refuse(why, "split=%d: M=%" PRId64 " must be at most %d, the number of counters", p[P_SPLIT],
                      prob->v[ARGMAX_M], RFG_COUNTERS);
}

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t chunks = row_chunks(prob), m = prob->v[ARGMAX_M], threads = p[P_THREADS];
    if (p[P_SPLIT] > 1 && chunks < threads * p[P_SPLIT])
        return rfg_refuse(why, "split=%d: the row is short", p[P_SPLIT]);
    if (p[P_SPLIT] > 1 && m * (p[P_SPLIT] / 2) * threads >= 2048 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "split=%d: half as many keep all CUs busy", p[P_SPLIT]);
    if (threads > 128 && chunks < threads / 2 * p[P_SPLIT])
        return rfg_refuse(why, "threads=%d: half as many hold a row", p[P_THREADS]);
    if (p[P_UNROLL] > 2 && chunks < threads * p[P_SPLIT] * (p[P_UNROLL] / 2))
        return rfg_refuse(why, "unroll=%d: half as many hold a row", p[P_UNROLL]);
    if (m * p[P_SPLIT] * 8 < dev->cu_count && chunks >= 16 * threads * p[P_SPLIT])
        return rfg_refuse(why, "threads=%d, split=%d: leaves CUs idle", p[P_THREADS], p[P_SPLIT]);
    return true;
}

/* sync_us: what the meeting of a row's workgroups takes. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, double sync_us)
{
    double bytes, flops, threads = p[P_THREADS], groups = (double)prob->v[ARGMAX_M] * p[P_SPLIT];
    prob->op->cost(prob, &bytes, &flops);
    double at_once = MIN(groups, MIN(2048.0 / threads, 32) * dev->cu_count), turns = groups / at_once;
    double in_flight = MIN(threads * p[P_UNROLL] * 16, bytes / groups);
    double rate = MIN(1e3 * dev->mem_gbps, at_once * in_flight / LOAD_US);
    rate = MIN(rate, 1.5e3 * dev->mem_gbps * MIN(at_once, dev->cu_count) / dev->cu_count);
    double chain = 0.1 + 0.01 * threads / dev->wave_size + sync_us;
    return dev->latency_us + LOAD_US + chain + bytes / MAX(rate, 1) + (MAX(turns, 1) - 1) * chain * 0.5;
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return predict(dev, prob, p, p[P_SPLIT] > 1 ? dev->sync_us : 0);
}

static double cluster_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return predict(dev, prob, p, 0.1 + 0.02 * p[P_SPLIT]);
}

static size_t rows_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    return p[P_SPLIT] > 1 ? (size_t)prob->v[ARGMAX_M] * (size_t)p[P_SPLIT] * ARGMAX_PART : 0;
}

static void kernel_of(const struct rfg_problem *prob, const int *p, bool cluster, struct rfg_kernel *k)
{
    k->source = "sample/argmax.hip";
    k->entry = cluster ? "argmax_cluster" : "argmax_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "ID_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "PACKED", !prob->v[ARGMAX_LDX]);
    rfg_kernel_macro(k, "WIDTH", width_of(prob));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT]);
    rfg_kernel_macro(k, "CLUSTER", cluster);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    (void)dev;
    kernel_of(prob, p, false, k);
}

static void cluster_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_kernel *k)
{
    (void)dev;
    kernel_of(prob, p, true, k);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    int64_t rows = p[P_SPLIT] > 1 ? prob->v[ARGMAX_M] : MIN(prob->v[ARGMAX_M], MAX_GROUPS);
    *l = (struct rfg_launch){ { (uint32_t)(rows * p[P_SPLIT]), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

const struct rfg_variant argmax_rows = {
    .name = "argmax_rows",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(rows_params),
    .params = rows_params,
    .supports = rows_supports,
    .valid = rows_valid,
    .worth = rows_worth,
    .predict = rows_predict,
    .workspace = rows_workspace,
    .kernel = rows_kernel,
    .launch = rows_launch,
};

const struct rfg_variant argmax_cluster = {
    .name = "argmax_cluster",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(cluster_params),
    .params = cluster_params,
    .supports = cluster_supports,
    .valid = fits,
    .worth = rows_worth,
    .predict = cluster_predict,
    .kernel = cluster_kernel,
    .launch = rows_launch,
};

static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_kernel *k)
{
    (void)dev, (void)none;
    kernel_of(prob, portable_params, false, k);
}

static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_launch *l)
{
    (void)none;
    rows_launch(dev, prob, portable_params, l);
}

static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    (void)none;
    return 4 * rows_predict(dev, prob, portable_params);
}

const struct rfg_variant argmax_portable = {
    .name = "argmax_portable",
    .kind = RFG_VARIANT_KERNEL,
    .supports = rows_supports,
    .predict = portable_predict,
    .kernel = portable_kernel,
    .launch = portable_launch,
};
