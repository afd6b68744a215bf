/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of sample: sample_split, several workgroups a row with top-k, sample_rows, a workgroup a row, and
 * sample_portable, which is rows with the one set of parameters that any problem takes. */
#include <inttypes.h>

#include "ops/gpu.h"
#include "sample.h"

enum { P_THREADS, P_SPLIT, P_UNROLL, P_CLUSTER };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 2, { 512, 1024 } },
};
/* split: workgroups that share a row; unroll: chunks of 16 bytes that a thread has in flight; cluster: a row's
 * workgroups are one */
static const struct rfg_param split_params[] = {
    [P_THREADS] = { "threads", 2, { 256, 512 } },
    [P_SPLIT] = { "split", 3, { 4, 8, 16 } },
    [P_UNROLL] = { "unroll", 3, { 4, 8, 16 } },
    [P_CLUSTER] = { "cluster", 2, { 0, 1 } },
};
static const int portable_params[] = { [P_THREADS] = 256 };

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    (void)prob;
    /* 1024 threads leave a lane of AMD's GPUs too few registers. */
    int most = dev->platform == RFG_PLATFORM_NVIDIA ? dev->max_threads : 512;
    return p[P_THREADS] <= most || rfg_refuse(why, "threads=%d: must be at most %d", p[P_THREADS], most);
}

static bool has_extras(const struct rfg_problem *prob)
{
    return prob->v[SAMPLE_BIAS] || prob->v[SAMPLE_COUNTS] || prob->v[SAMPLE_PROMPT];
}

/* Bytes of the widest load that the alignment allows. */
static int width_of(const struct rfg_problem *prob)
{
    int width = 16;
    while (!has_extras(prob) && width > rfg_format_bytes(prob->dtype[0], 1) && prob->v[SAMPLE_ALIGN] < width)
        width /= 2;
    return width;
}

static size_t orders_bytes(const struct rfg_problem *prob)
{
    return has_extras(prob) ? (size_t)SAMPLE_ORDERS(prob->v[SAMPLE_V]) * 4 : 0;
}

/* Each workgroup has its row's orders in the workspace. */
static int64_t rows_groups(const struct rfg_problem *prob)
{
    int64_t most = has_extras(prob) ? (int64_t)(RFG_WORKSPACE_BYTES / orders_bytes(prob)) : MAX_GROUPS;
    return MIN(prob->v[SAMPLE_B], most);
}

static size_t rows_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev, (void)p;
    return (size_t)rows_groups(prob) * orders_bytes(prob);
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
    (void)dev;
    k->source = "sample/sample.hip";
    k->entry = "sample_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "ID_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "WIDTH", width_of(prob));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "EXTRAS", has_extras(prob));
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(prob), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

const struct rfg_variant sample_rows = {
    .name = "sample_rows",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(rows_params),
    .params = rows_params,
    .supports = rows_supports,
    .valid = rows_valid,
    .predict = rows_predict,
    .workspace = rows_workspace,
    .kernel = rows_kernel,
    .launch = rows_launch,
};

/* ---- split ------------------------------------------------------------------------------------------------------ */

static bool split_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    return prob->v[SAMPLE_B] <= RFG_COUNTERS ||
           rfg_refuse(why, "B=%" PRId64 ": must be at most %d, the number of counters", prob->v[SAMPLE_B],
                      RFG_COUNTERS);
}

static bool split_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    if (p[P_CLUSTER] && !(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "cluster=1: %s has no clusters of workgroups", dev->arch);
    if (p[P_CLUSTER] && p[P_SPLIT] > 8)
        return rfg_refuse(why, "cluster=1: split=%d must be at most 8", p[P_SPLIT]);
    if (width_of(prob) < 16 && p[P_UNROLL] > 4)
        return rfg_refuse(why, "unroll=%d: more registers than there are, for loads of %d bytes", p[P_UNROLL],
                          width_of(prob));
    return p[P_THREADS] * p[P_UNROLL] <= 4096 ||
           rfg_refuse(why, "threads=%d, unroll=%d: more registers than there are", p[P_THREADS], p[P_UNROLL]);
}

static bool split_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    int64_t chunks = prob->v[SAMPLE_V] / rfg_format_elements(prob->dtype[0], 16);
    if (chunks < (int64_t)p[P_THREADS] * p[P_SPLIT])
        return rfg_refuse(why, "split=%d: the row is short", p[P_SPLIT]);
    int most = dev->hw->mma == RFG_MMA_CDNA2 ? 4 : dev->hw->mma == RFG_MMA_CDNA1 ? 8 : 16; /* hipRTC 5.2 */
    if (p[P_UNROLL] > most)
        return rfg_refuse(why, "unroll=%d: must be at most %d, or scalar registers spill", p[P_UNROLL], most);
    if (p[P_UNROLL] > 4 && (has_extras(prob) || chunks <= (int64_t)p[P_THREADS] * p[P_SPLIT] * (p[P_UNROLL] / 2)))
        return rfg_refuse(why, "unroll=%d: half as many hold a part", p[P_UNROLL]);
    return p[P_SPLIT] == 4 || prob->v[SAMPLE_B] * (p[P_SPLIT] / 2) * p[P_THREADS] < 4096 * (int64_t)dev->cu_count ||
           rfg_refuse(why, "split=%d: half as many keep all CUs busy", p[P_SPLIT]);
}

static double split_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)prob->v[SAMPLE_B] * p[P_SPLIT];
    prob->op->cost(prob, &bytes, &flops);
    double at_once = MIN(groups, MAX(2048 / p[P_THREADS], 1) * (double)dev->cu_count);
    double rate = MIN(1e3 * dev->mem_gbps, at_once * MIN(p[P_THREADS] * p[P_UNROLL] * 16.0, bytes / groups) / LOAD_US);
    rate = MIN(rate, 1.5e3 * dev->mem_gbps * MIN(at_once, dev->cu_count) / dev->cu_count);
    double first = dev->latency_us + 2 * LOAD_US + dev->sync_us + bytes / MAX(rate, 1);
    /* The bound is a comparison of each thread with each; then few are sorted. */
    if (prob->v[SAMPLE_TOP_K])
        return first + 0.002 * p[P_THREADS] * MAX(groups / at_once, 1) + 4;
    /* Weights; the largest, of which all who aren't told read the whole row; the last one's reading; digits in LDS. */
    double row = bytes / MAX((double)prob->v[SAMPLE_B], 1), held = p[P_THREADS] * p[P_UNROLL] * 16.0;
    double alone = row / (held / LOAD_US), largest = p[P_CLUSTER] ? 1 : alone;
    return first + 0.3e-6 * flops / MAX(at_once, 1) * 16 + largest + alone + 8;
}

static size_t split_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    return (size_t)SAMPLE_PARTS(prob->v[SAMPLE_B], p[P_SPLIT]) + (size_t)prob->v[SAMPLE_B] * orders_bytes(prob);
}

static void split_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_kernel *k)
{
    rows_kernel(dev, prob, p, k);
    k->source = "sample/sample_split.hip";
    k->entry = "sample_split";
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "CLUSTER", p[P_CLUSTER]);
    /* On NVIDIA two workgroups of 256 threads are to share an SM; AMD's compiler wants the size that is launched. */
    /* AMD has too few scalar registers for the masks of more. */
    rfg_kernel_macro(k, "PICK", dev->platform == RFG_PLATFORM_NVIDIA ? p[P_UNROLL] : 1);
    rfg_kernel_macro(k, "BOUND", dev->platform == RFG_PLATFORM_NVIDIA ? 512 : p[P_THREADS]);
}

static void split_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)(prob->v[SAMPLE_B] * p[P_SPLIT]), 1, 1 },
                              { (uint32_t)p[P_THREADS], 1, 1 },
                              0 };
}

const struct rfg_variant sample_split = {
    .name = "sample_split",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(split_params),
    .params = split_params,
    .supports = split_supports,
    .valid = split_valid,
    .worth = split_worth,
    .predict = split_predict,
    .workspace = split_workspace,
    .kernel = split_kernel,
    .launch = split_launch,
};

/* ---- portable --------------------------------------------------------------------------------------------------- */

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
    .workspace = rows_workspace,
    .kernel = portable_kernel,
    .launch = portable_launch,
};
