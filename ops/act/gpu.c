/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of act_and_mul and act: what each can do, how it is launched, and how long it should take. */
#include <inttypes.h>

#include "ops/gates.h"
#include "ops/gpu_rows.h"
#include "act.h"

static int vec_of(const struct rfg_problem *prob)
{
    return (int)rfg_format_elements(prob->dtype[0], 16);
}

/* Chunks of 16 bytes of x in a row of the output, as in struct act_args. */
static int64_t row_chunks(const struct rfg_problem *prob)
{
    int64_t vec = vec_of(prob), n = (prob->v[ACT_N] + vec - 1) / vec, group = RFG_SCALE_COLUMNS / vec;
    return prob->v[ACT_SCALE] == RFG_SCALE_GROUP ? (n + group - 1) / group * group : n;
}

static int width_of(const struct rfg_problem *prob)
{
    return rfg_chunk_width(prob, prob->v[ACT_N], prob->v[ACT_ALIGN], prob->v[ACT_ALIGN_Y], act_is_plain(prob),
                           prob->v[ACT_SCALE] != 0);
}

static bool width_valid(const struct rfg_problem *prob, int width, struct rfg_reason *why)
{
    int size = (int)rfg_format_bytes(prob->dtype[0], 1);
    if (width < size)
        return rfg_refuse(why, "width=%d: must be at least an element, %d bytes", width, size);
    return width <= width_of(prob) ||
           rfg_refuse(why, "width=%d: N=%" PRId64 " and the alignment allow %d", width, prob->v[ACT_N], width_of(prob));
}

static bool width_worth(const struct rfg_problem *prob, int width, struct rfg_reason *why)
{
    return width == width_of(prob) || rfg_refuse(why, "width=%d: %d is possible", width, width_of(prob));
}

static void common_macros(const struct rfg_problem *prob, struct rfg_kernel *k)
{
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "ACT", (int)prob->v[ACT_ACT]);
    rfg_kernel_macro(k, "MUL", act_multiplies(prob));
    if (rfg_gate_is_limited((rfg_act)prob->v[ACT_ACT], prob->v[ACT_LIMIT])) /* others' kernels need not know of it */
        rfg_kernel_macro(k, "LIMITED", 1);
    rfg_kernel_macro(k, "INTERLEAVED", (int)prob->v[ACT_GATES]);
    rfg_kernel_macro(k, "PACKED", !prob->v[ACT_LDX] && !prob->v[ACT_LDY]);
    rfg_kernel_macro(k, "SCALE", (int)prob->v[ACT_SCALE]);
    if (prob->v[ACT_SCALE] == RFG_SCALE_MX)
        rfg_kernel_macro(k, "ROUNDING", (int)prob->v[ACT_ROUNDING]);
    rfg_kernel_macro(k, "PLAIN", act_is_plain(prob));
}

/* Microseconds for `groups` workgroups that each keep `in_flight` bytes under way, `at_once` of them on a CU. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, double groups, double per_cu,
                      double in_flight, double steps)
{
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    double at_once = MIN(groups, per_cu * dev->cu_count);
    double full = 1e3 * dev->mem_gbps, rate = MIN(full, at_once * in_flight / LOAD_US);
    /* A few CUs can't use the whole bandwidth; two thirds of them can. */
    rate = MIN(rate, full * 1.5 * MIN(at_once, dev->cu_count) / dev->cu_count);
    double lanes = flops / (0.15e6 * dev->fma_tflops * MIN(1, at_once / dev->cu_count));
    double us = MAX(bytes / MAX(rate, 1), lanes);
    double rounds = groups / MAX(at_once, 1);
    return dev->latency_us + LOAD_US + MAX(us, (rounds - 1) * steps * LOAD_US) + 0.002 * MIN(groups, 4096) / per_cu / 8;
}

/* ---- flat ------------------------------------------------------------------------------------------------------- */

enum { FLAT_THREADS, FLAT_UNROLL, FLAT_WIDTH, FLAT_STREAM, FLAT_PERSIST };

static const struct rfg_param flat_params[] = {
    [FLAT_THREADS] = { "threads", 4, { 64, 128, 256, 512 } }, [FLAT_UNROLL] = { "unroll", 3, { 1, 2, 4 } },
    [FLAT_WIDTH] = { "width", 4, { 16, 8, 4, 2 } },           [FLAT_STREAM] = { "stream", 3, { 0, 1, 2 } },
    [FLAT_PERSIST] = { "persist", 3, { 0, 4, 8 } }, /* workgroups a CU that go through all; 0: as many as it takes */
};

static bool flat_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (prob->v[ACT_SCALE] == RFG_SCALE_TOKEN)
        return rfg_refuse(why, "scale=token: needs whole rows");
    if (row_chunks(prob) * prob->v[ACT_M] > INT32_MAX - 4096)
        return rfg_refuse(why, "%" PRId64 " x %" PRId64 " chunks: must be fewer than 2^31", prob->v[ACT_M],
                          row_chunks(prob));
    return true;
}

static int64_t flat_tiles(const struct rfg_problem *prob, const int *p)
{
    int64_t tile = p[FLAT_THREADS] * p[FLAT_UNROLL];
    return (prob->v[ACT_M] * row_chunks(prob) + tile - 1) / tile;
}

static int64_t flat_groups(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    int64_t tiles = flat_tiles(prob, p);
    return p[FLAT_PERSIST] ? MIN(tiles, (int64_t)p[FLAT_PERSIST] * dev->cu_count) : tiles;
}

static bool flat_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    (void)dev;
    return width_valid(prob, p[FLAT_WIDTH], why);
}

static bool flat_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t tiles = flat_tiles(prob, p);
    if (!width_worth(prob, p[FLAT_WIDTH], why))
        return false;
    if (p[FLAT_PERSIST] && tiles <= 2 * (int64_t)p[FLAT_PERSIST] * dev->cu_count)
        return rfg_refuse(why, "persist=%d: only %" PRId64 " workgroups without", p[FLAT_PERSIST], tiles);
    if (p[FLAT_UNROLL] > 1 && tiles < dev->cu_count)
        return rfg_refuse(why, "unroll=%d: leaves CUs idle", p[FLAT_UNROLL]);
    if (p[FLAT_THREADS] > 128 && tiles * 2 < dev->cu_count)
        return rfg_refuse(why, "threads=%d: leaves CUs idle", p[FLAT_THREADS]);
    if (p[FLAT_THREADS] == 64 && tiles > 16 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "threads=64: %" PRId64 " workgroups", tiles);
    return true;
}

static double flat_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double groups = (double)flat_groups(dev, prob, p), steps = (double)flat_tiles(prob, p) / groups;
    double in_flight = (double)p[FLAT_THREADS] * p[FLAT_UNROLL] * 16 * (act_multiplies(prob) ? 2 : 1);
    double per_cu = MIN(2048.0 / p[FLAT_THREADS], 32);
    if (p[FLAT_UNROLL] == 4) /* registers */
        per_cu = MIN(per_cu, 1024.0 / p[FLAT_THREADS]);
    double stream = p[FLAT_STREAM] == 0 ? 0.01 : p[FLAT_STREAM] == 2 ? 0.005 : 0;
    /* Going through tiles in turn keeps less in flight than workgroups that come and go: a tenth, on the H200. */
    return predict(dev, prob, groups, per_cu, in_flight, steps) * (p[FLAT_PERSIST] ? 1.1 : 1) + stream;
}

static void flat_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    k->source = "act/flat.hip";
    k->entry = "act_flat";
    common_macros(prob, k);
    rfg_kernel_macro(k, "THREADS", p[FLAT_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[FLAT_UNROLL]);
    rfg_kernel_macro(k, "ONCE", !p[FLAT_PERSIST]);
    rfg_kernel_macro(k, "WHOLE_WAVES", prob->v[ACT_N] % (dev->wave_size * vec_of(prob)) == 0);
    rfg_kernel_macro(k, "WIDTH", p[FLAT_WIDTH]);
    rfg_kernel_macro(k, "STREAM", p[FLAT_STREAM]);
}

static void flat_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)flat_groups(dev, prob, p), 1, 1 }, { (uint32_t)p[FLAT_THREADS], 1, 1 }, 0 };
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

enum { ROWS_THREADS, ROWS_CHUNKS, ROWS_KEEP, ROWS_WIDTH, ROWS_STREAM };

static const struct rfg_param rows_params[] = {
    [ROWS_THREADS] = { "threads", 5, { 64, 128, 256, 512, 1024 } },
    [ROWS_CHUNKS] = { "chunks", 4, { 1, 2, 4, 8 } },
    [ROWS_KEEP] = { "keep", 3, { KEEP_REGISTERS, KEEP_LDS, KEEP_NOTHING } },
    [ROWS_WIDTH] = { "width", 4, { 16, 8, 4, 2 } },
    [ROWS_STREAM] = { "stream", 2, { 0, 1 } },
};

static int64_t rows_lds(const struct rfg_problem *prob, const int *p)
{
    int64_t step = (int64_t)p[ROWS_THREADS] * p[ROWS_CHUNKS];
    return p[ROWS_KEEP] == KEEP_LDS ? (row_chunks(prob) + step - 1) / step * step * vec_of(prob) * 4 : 0;
}

static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    if (p[ROWS_THREADS] > dev->max_threads)
        return rfg_refuse(why, "threads=%d: must be at most %d", p[ROWS_THREADS], dev->max_threads);
    /* Results are fp32: 8 registers a chunk, and as many while it is computed. */
    int most = dev->platform == RFG_PLATFORM_NVIDIA ? 2048 : 4096;
    if (p[ROWS_CHUNKS] * p[ROWS_THREADS] > most || (p[ROWS_CHUNKS] == 8 && p[ROWS_KEEP] != KEEP_REGISTERS))
        return rfg_refuse(why, "threads=%d, chunks=%d: must hold at most %d chunks, 8 a thread with keep=1",
                          p[ROWS_THREADS], p[ROWS_CHUNKS], most);
    if (p[ROWS_CHUNKS] == 4 && p[ROWS_THREADS] == 1024 && dev->wave_size == 32)
        return rfg_refuse(why, "chunks=4: more registers than 1024 threads have");
    if (p[ROWS_CHUNKS] > 2 && p[ROWS_WIDTH] < 16)
        return rfg_refuse(why, "chunks=%d, width=%d: more masks than there are scalar registers", p[ROWS_CHUNKS],
                          p[ROWS_WIDTH]);
    if (p[ROWS_KEEP] == KEEP_REGISTERS && (int64_t)p[ROWS_THREADS] * p[ROWS_CHUNKS] < row_chunks(prob))
        return rfg_refuse(why, "threads=%d, chunks=%d: a row has %" PRId64, p[ROWS_THREADS], p[ROWS_CHUNKS],
                          row_chunks(prob));
    if (p[ROWS_KEEP] == KEEP_LDS && prob->v[ACT_SCALE] != RFG_SCALE_TOKEN)
        return rfg_refuse(why, "keep=2: only with scale=token");
    if (rows_lds(prob, p) > dev->lds_bytes - 2048)
        return rfg_refuse(why, "keep=2: %" PRId64 " bytes of LDS: must be at most %d", rows_lds(prob, p),
                          dev->lds_bytes - 2048);
    return width_valid(prob, p[ROWS_WIDTH], why);
}

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    (void)dev;
    int64_t chunks = row_chunks(prob), held = (int64_t)p[ROWS_THREADS] * p[ROWS_CHUNKS];
    if (!width_worth(prob, p[ROWS_WIDTH], why))
        return false;
    if (prob->v[ACT_SCALE] != RFG_SCALE_TOKEN)
        return rfg_refuse(why, "scale=%s: needs no whole rows", RFG_SCALE_NAMES[prob->v[ACT_SCALE]]);
    if (p[ROWS_KEEP] == KEEP_REGISTERS && p[ROWS_CHUNKS] > 1 && held / 2 >= chunks)
        return rfg_refuse(why, "chunks=%d: half as many hold a row", p[ROWS_CHUNKS]);
    if (p[ROWS_THREADS] > 64 && p[ROWS_CHUNKS] == 1 && held / 2 >= chunks)
        return rfg_refuse(why, "threads=%d: half as many hold a row", p[ROWS_THREADS]);
    if (p[ROWS_KEEP] == KEEP_LDS && (p[ROWS_CHUNKS] > 2 || p[ROWS_THREADS] < 256 || held * 2 > chunks))
        return rfg_refuse(why, "keep=2: chunks<=2, threads>=256 and a row of two steps");
    if (!p[ROWS_KEEP] && (p[ROWS_CHUNKS] != 2 || p[ROWS_THREADS] < 256 || p[ROWS_STREAM]) && chunks > 256)
        return rfg_refuse(why, "keep=0: chunks=2, threads>=256, stream=0 are enough");
    return p[ROWS_KEEP] || chunks > 256 || rfg_refuse(why, "keep=0: the row is short");
}

static int64_t rows_groups(const struct rfg_problem *prob)
{
    return MIN(prob->v[ACT_M], MAX_GROUPS);
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double chunks = (double)row_chunks(prob), threads = p[ROWS_THREADS], mine = p[ROWS_CHUNKS];
    bool registers = p[ROWS_KEEP] == KEEP_REGISTERS;
    double in_flight = MIN(threads * mine, chunks) * 16 * (act_multiplies(prob) ? 2 : 1);
    double per_cu = MAX((double)(int)MIN(MIN(65536 / (threads * (28 + 18 * mine)), 2048 / threads), 32), 1);
    if (p[ROWS_KEEP] == KEEP_LDS)
        per_cu = MIN(per_cu, MAX((double)(dev->lds_bytes / (rows_lds(prob, p) + 1024)), 1));
    double steps = registers ? 1 : (p[ROWS_KEEP] == KEEP_LDS ? 1 : 2) * MAX(chunks / (threads * mine), 1);
    double idle = registers ? threads * mine / chunks : 1;
    /* A row is loaded, computed, searched and stored, one step after the other: only other workgroups fill the gaps. */
    double chain = (LOAD_US + 0.35 * mine) * (registers ? 1 : 0.6 * steps) + 0.8;
    double rounds = MAX((double)rows_groups(prob) / (per_cu * dev->cu_count), 1);
    return MAX(predict(dev, prob, (double)rows_groups(prob), per_cu, in_flight, steps) + (registers ? 0.3 : 0.5) +
                   steps * 0.3 + 0.1 * idle,
               dev->latency_us + rounds * chain) +
           (p[ROWS_STREAM] ? 0 : 0.01);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    (void)dev;
    k->source = "act/rows.hip";
    k->entry = "act_rows";
    common_macros(prob, k);
    rfg_kernel_macro(k, "THREADS", p[ROWS_THREADS]);
    rfg_kernel_macro(k, "CHUNKS", p[ROWS_CHUNKS]);
    rfg_kernel_macro(k, "KEEP", p[ROWS_KEEP]);
    rfg_kernel_macro(k, "WIDTH", p[ROWS_WIDTH]);
    rfg_kernel_macro(k, "STREAM", p[ROWS_STREAM]);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(prob), 1, 1 },
                              { (uint32_t)p[ROWS_THREADS], 1, 1 },
                              (uint32_t)rows_lds(prob, p) };
}

/* ---- portable: rows with the one set of parameters that any problem takes ---------------------------------------- */

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    p[ROWS_THREADS] = 256;
    p[ROWS_CHUNKS] = 2;
    p[ROWS_KEEP] = 0;
    p[ROWS_WIDTH] = (int)rfg_format_bytes(prob->dtype[0], 1);
    p[ROWS_STREAM] = 0;
}

/* ---- the variants ----------------------------------------------------------------------------------------------- */

KERNEL_VARIANT(act_and_mul, flat);
KERNEL_VARIANT(act_and_mul, rows);
PORTABLE_VARIANT(act_and_mul);
KERNEL_VARIANT(act, flat);
KERNEL_VARIANT(act, rows);
PORTABLE_VARIANT(act);
