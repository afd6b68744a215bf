/* SPDX-License-Identifier: MIT
 *
 * What the GPU variants of gemm share: rules, launch limits, and the common parts of their models. */
#ifndef RFG_OPS_GEMM_GPU_H
#define RFG_OPS_GEMM_GPU_H

#include <inttypes.h>

#include "gemm.h"

#define MAX_WORKSPACE (32ull << 20)
#define MAX_GRID_Y    65535
/* From a load's issue to its data, with the memory system busy. What keeps bytes in flight is judged by it. */
#define LOAD_US      0.8
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* What dot products of few rows issue on CDNA after their data has come, and ask of the caches for X, is not in the
 * model, and no kernel has been timed there: taken for a microsecond. */
#define CDNA_DOT_US(dev) ((dev)->platform != RFG_PLATFORM_NVIDIA && (dev)->wave_size == 64 ? 1.0 : 0.0)

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* 1, 2, 4, ... */
static inline int64_t next_pow2(int64_t v)
{
    int64_t p = 1;
    while (p < v)
        p *= 2;
    return p;
}

static inline bool is_gpu(const struct rfg_device *dev, struct rfg_reason *why)
{
    return dev->platform != RFG_PLATFORM_CPU || rfg_refuse(why, "device is %s: must be a GPU", dev->name);
}

/* What reading X and W in chunks of 16 bytes takes. */
static inline bool reads_chunks(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (prob->v[GEMM_K] < 8 || prob->v[GEMM_K] % 8)
        return rfg_refuse(why, "K=%" PRId64 ": must be a positive multiple of 8", prob->v[GEMM_K]);
    if (prob->v[GEMM_ALIGN] < 16)
        return rfg_refuse(why, "align=%" PRId64 ": must be 16", prob->v[GEMM_ALIGN]);
    return true;
}

/* Launch limits of a grid (x, y) of workgroups that share fp32 partials if y > 1. */
static inline bool grid_fits(int64_t x, int y, int threads, uint64_t workspace, struct rfg_reason *why)
{
    if (x * threads > UINT32_MAX || y > MAX_GRID_Y)
        return rfg_refuse(why, "%" PRId64 " x %d workgroups of %d threads: more than a launch takes", x, y, threads);
    if (y > 1 && x > RFG_COUNTERS)
        return rfg_refuse(why, "%" PRId64 " tiles split: must be at most %d, the number of counters", x, RFG_COUNTERS);
    if (workspace > MAX_WORKSPACE)
        return rfg_refuse(why, "partials of %" PRIu64 " bytes: must be at most %llu", workspace, MAX_WORKSPACE);
    return true;
}

static inline void common_macros(const struct rfg_problem *prob, struct rfg_kernel *k)
{
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[2]);
    rfg_kernel_macro(k, "PACKED", !prob->v[GEMM_LDX] && !prob->v[GEMM_LDW] && !prob->v[GEMM_LDY]);
}

/* ---- the model's common parts --------------------------------------------------------------------------------- */

/* How a grid loads the device: workgroups that run at once, how many rounds that takes. */
struct load {
    double groups, at_once, rounds;
};

static inline struct load load_of(const struct rfg_device *dev, double groups, double per_cu)
{
    struct load l = { .groups = groups, .at_once = MIN(groups, dev->cu_count * MAX(per_cu, 1)) };
    l.rounds = groups / l.at_once;
    /* With few rounds the last, partly filled one counts in full; with many, workgroups drift apart. */
    if (l.rounds > 1 && l.rounds < 8)
        l.rounds = (double)ceil_div((int64_t)groups, (int64_t)l.at_once);
    return l;
}

/* Microseconds to move `unique` bytes of memory and `traffic` bytes of cache to workgroups that each keep `in_flight`
 * bytes under way (Little's law), and that can take no more than a share of the caches' bandwidth. */
static inline double move_us(const struct rfg_device *dev, const struct load *l, double unique, double traffic,
                             double in_flight)
{
    double cus = MIN(l->at_once, dev->cu_count);
    double cache_rate = 3e3 * dev->mem_gbps; /* bytes per us */
    double rate = MIN(l->at_once * in_flight / LOAD_US, cache_rate * cus / dev->cu_count);
    double full = l->groups / (l->rounds * l->at_once); /* idle slots in the last round */
    return MAX(unique / (1e3 * dev->mem_gbps), traffic / MAX(rate * full, 1));
}

/* The last workgroup to arrive reads its tile's partials alone. */
static inline double reduce_us(const struct rfg_device *dev, int split, double partial_bytes)
{
    double cu_rate = 3e3 * dev->mem_gbps / dev->cu_count;
    return split > 1 ? dev->sync_us + (split + 1) * partial_bytes / MAX(cu_rate, 1) : 0;
}

/* Registers a lane may have when `waves` waves must be resident together. */
static inline int register_limit(const struct rfg_device *dev, int threads)
{
    if (dev->platform == RFG_PLATFORM_NVIDIA)
        return MIN(255, 65536 / threads);
    return dev->wave_size == 64 && threads > 512 ? 128 : 256;
}

/* What the prelude's matrix fragments take. */
static inline bool takes_mma(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (!(dev->features & RFG_FEATURE_MMA))
        return rfg_refuse(why, "arch is %s: must have matrix instructions", dev->arch);
    if (prob->dtype[0] != RFG_BF16 && prob->dtype[0] != RFG_F16)
        return rfg_refuse(why, "x is %s: must be bf16 or f16", rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    return reads_chunks(prob, why);
}

#endif
