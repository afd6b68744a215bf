/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of quantize: quantize_rows, and quantize_portable, which is rows with the one set of parameters that
 * any problem takes. */
#include <inttypes.h>

#include "ops/gpu_rows.h"
#include "ops/quant.h"
#include "quantize.h"

enum { P_THREADS, P_ROWS, P_CHUNKS, P_KEEP, P_SPLIT };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 7, { 16, 32, 64, 128, 256, 512, 1024 } }, /* of a row */
    [P_ROWS] = { "rows", 4, { 1, 2, 4, 8 } },                            /* of a workgroup */
    [P_CHUNKS] = { "chunks", 4, { 1, 2, 4, 8 } },                        /* of 16 bytes, a thread and step */
    [P_KEEP] = { "keep", 2, { KEEP_REGISTERS, KEEP_NOTHING } },          /* between a row's largest and its codes */
    [P_SPLIT] = { "split", 4, { 1, 2, 4, 8 } },                          /* workgroups that share a row */
};

static int64_t row_chunks(const struct rfg_problem *prob)
{
    return ceil_div(prob->v[QUANTIZE_N], rfg_format_elements(prob->dtype[0], 16));
}

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    (void)prob;
    p[P_THREADS] = 256;
    p[P_ROWS] = 1;
    p[P_CHUNKS] = 1;
    p[P_KEEP] = KEEP_NOTHING;
    p[P_SPLIT] = 1;
}

static int64_t steps_of(const struct rfg_problem *prob, const int *p)
{
    return ceil_div(row_chunks(prob), (int64_t)p[P_THREADS] * p[P_CHUNKS]);
}

static int64_t row_groups(const struct rfg_problem *prob, const int *p)
{
    return ceil_div(prob->v[QUANTIZE_M], p[P_ROWS]);
}

static int64_t groups_of(const struct rfg_problem *prob, const int *p)
{
    return MIN(row_groups(prob, p), MAX_GROUPS / p[P_SPLIT]) * p[P_SPLIT];
}

static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    bool token = quantize_kind(prob) == RFG_SCALE_TOKEN;
    int block = p[P_THREADS] * p[P_ROWS];
    int64_t group = prob->v[QUANTIZE_GROUP_COLS] / rfg_format_elements(prob->dtype[0], 16);
    if (block > dev->max_threads || block % dev->wave_size)
        return rfg_refuse(why, "threads=%d, rows=%d: must be whole waves of %d, up to %d threads", p[P_THREADS],
                          p[P_ROWS], dev->wave_size, dev->max_threads);
    if (p[P_THREADS] < group)
        return rfg_refuse(why, "threads=%d: a group of scales takes %" PRId64, p[P_THREADS], group);
    if (token && p[P_SPLIT] > 1)
        return rfg_refuse(why, "split=%d: the row has one scale", p[P_SPLIT]);
    if (p[P_KEEP] == KEEP_REGISTERS && (!token || steps_of(prob, p) > 1))
        return rfg_refuse(why, "keep=%d: must be a row of one scale and one step", p[P_KEEP]);
    return true;
}

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t chunks = row_chunks(prob), groups = row_groups(prob, p);
    int threads = p[P_THREADS], block = threads * p[P_ROWS];
    int held = prob->v[QUANTIZE_SMOOTH] ? 2 : 4; /* chunks a thread, of 1024: products take twice their registers */
    if (quantize_kind(prob) == RFG_SCALE_TOKEN && p[P_KEEP] == KEEP_NOTHING && chunks <= held * 1024)
        return rfg_refuse(why, "keep=%d: registers hold %" PRId64 " chunks", p[P_KEEP], chunks);
    if (p[P_CHUNKS] > 1 && (int64_t)threads * (p[P_CHUNKS] / 2) * p[P_SPLIT] >= chunks)
        return rfg_refuse(why, "chunks=%d: half as many hold a row", p[P_CHUNKS]);
    if (dev->wave_size == 64 && p[P_CHUNKS] == 8) /* as LLVM 15 compiles it */
        return rfg_refuse(why, "chunks=8: masks of what exists spill on waves of 64");
    if (p[P_SPLIT] > 1 && (steps_of(prob, p) < p[P_SPLIT] || groups * p[P_SPLIT] / 2 > 8 * (int64_t)dev->cu_count))
        return rfg_refuse(why, "split=%d: half as many keep all CUs busy, or go through the row", p[P_SPLIT]);
    if (threads > 16 && threads / 2 * p[P_CHUNKS] >= chunks && block > dev->wave_size)
        return rfg_refuse(why, "threads=%d: half as many hold a row", threads);
    if (p[P_ROWS] > 1 && (block > 256 || groups < 2 * (int64_t)dev->cu_count) && block > dev->wave_size)
        return rfg_refuse(why, "rows=%d: too few workgroups, or too large ones", p[P_ROWS]);
    if (p[P_ROWS] == 1 && block < 128 && groups > 64 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "rows=1: %" PRId64 " small workgroups", groups);
    return true;
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)groups_of(prob, p), chunks = (double)row_chunks(prob);
    int block = p[P_THREADS] * p[P_ROWS];
    bool token = quantize_kind(prob) == RFG_SCALE_TOKEN;
    prob->op->cost(prob, &bytes, &flops);
    double registers = 32 + (prob->v[QUANTIZE_SMOOTH] ? 16 : 8) * p[P_CHUNKS];
    double at_once = MIN(groups, MAX(MIN(MIN(2048.0, 65536 / registers) / block, 32), 1) * dev->cu_count);
    double turns = MAX(groups / at_once, 1) * (double)row_groups(prob, p) * p[P_SPLIT] / groups;
    double in_flight = MIN((double)block * p[P_CHUNKS], chunks * p[P_ROWS] / p[P_SPLIT]) * 16;
    double rate = MIN(1e3 * dev->mem_gbps, at_once * in_flight / LOAD_US);
    rate = MIN(rate, 1.5e3 * dev->mem_gbps * MIN(at_once, dev->cu_count) / dev->cu_count);
    double move = bytes * (token && p[P_KEEP] == KEEP_NOTHING ? 1.3 : 1) / MAX(rate, 1);
    double steps = (double)ceil_div(steps_of(prob, p), p[P_SPLIT]);
    double chain = steps * 0.25 + 0.06 * p[P_CHUNKS] * MAX(block / 1024.0, 0.25) +
                   (token ? 0.08 + 0.01 * MAX((double)p[P_THREADS] / dev->wave_size, 1) : 0.02);
    double idle = 1 - chunks / (double)(steps * p[P_THREADS] * p[P_CHUNKS] * p[P_SPLIT]);
    return dev->latency_us + LOAD_US + chain + MAX(move, (turns - 1) * (LOAD_US + chain) * 0.5) * (1 + 0.2 * idle);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    (void)dev;
    k->source = "quantize/quantize.hip";
    k->entry = "quantize_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "Q_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "SCALE_DTYPE", prob->dtype[2]);
    rfg_kernel_macro(k, "KIND", (int)quantize_kind(prob));
    rfg_kernel_macro(k, "GROUP", (int)v[QUANTIZE_GROUP_COLS]);
    rfg_kernel_macro(k, "SMOOTH", (int)v[QUANTIZE_SMOOTH]);
    if (v[QUANTIZE_GLOBAL])
        rfg_kernel_macro(k, "GLOBAL", 1);
    rfg_kernel_macro(k, "ROUNDING", (int)v[QUANTIZE_ROUNDING]);
    rfg_kernel_macro(k, "RECIPROCAL", (int)v[QUANTIZE_RECIPROCAL]);
    rfg_kernel_macro(k, "CLAMP", v[QUANTIZE_MAX] != 0);
    rfg_kernel_macro(k, "WIDTH",
                     rfg_chunk_width(prob, v[QUANTIZE_N], v[QUANTIZE_ALIGN], v[QUANTIZE_ALIGN_Q], false, true));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
    rfg_kernel_macro(k, "CHUNKS", p[P_CHUNKS]);
    rfg_kernel_macro(k, "KEEP", p[P_KEEP] == KEEP_REGISTERS);
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT]);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)groups_of(prob, p), 1, 1 },
                              { (uint32_t)(p[P_THREADS] * p[P_ROWS]), 1, 1 },
                              0 };
}

KERNEL_VARIANT(quantize, rows);
PORTABLE_VARIANT(quantize);
