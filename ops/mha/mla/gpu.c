/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of mla_decode: mla_decode_tile_mma and mla_decode_portable, which share an algorithm (mla_tile.h). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "mla.h"
#include "mla_layout.h"
#include "ops/gpu.h"

enum { P_PARTS, P_STAGES };

static const struct rfg_param params[] = {
    [P_PARTS] = { "parts", 5, { 1, 2, 4, 8, 16 } }, /* workgroups that share an item's segments */
    [P_STAGES] = { "stages", 3, { 0, 2, 3 } },      /* tiles of keys in LDS; 0: one, and the next in registers */
};

struct shape {
    bool scalar;
    int rows, keys, waves, threads, parts_of_d, q_rows, acc, lds;
    int64_t tiles, items; /* tiles: of a sequence */
};

#define LARGE_LDS (200 << 10) /* Hopper's: for steps of 64 keys; a kv of 8 bits is decoded out of it */

static bool is_nvidia(const struct rfg_device *dev)
{
    return dev->platform == RFG_PLATFORM_NVIDIA;
}

/* Keys, waves and parts of D decide the order of sums: they follow from the device and kv's format alone. */
static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, bool scalar)
{
    int d = (int)prob->v[MLA_D], dv = mla_dv(prob), wave = dev->wave_size;
    struct shape s = { .scalar = scalar, .rows = MLA_TILE, .keys = 32 };
    if (scalar) {
        s.waves = 256 / wave;
        s.parts_of_d = 1;
        s.q_rows = s.rows;
        int owners = 1;
        while (owners * 2 * (dv / 2) <= 256 && owners < s.rows)
            owners *= 2;
        s.acc = 2 * s.rows / owners;
    } else {
        bool mfma = wave == 64;
        s.waves = mfma ? 4 : 8;
        s.parts_of_d = 2;
        if (p[P_STAGES] && is_nvidia(dev) && dev->lds_bytes >= LARGE_LDS)
            s.keys = 64;
        /* Else registers spill. */
        s.q_rows = mfma || (is_nvidia(dev) && p[P_STAGES] == 3 && !prob->v[MLA_KV]) ? 0 : s.rows;
        int elements = is_nvidia(dev)           ? 8
                       : wave == 32 || dv % 128 ? 4
                                                : 8,
            group = (is_nvidia(dev) ? 8 : 16) * elements;
        s.acc = (int)ceil_div(dv / group, s.waves) * group * s.rows / wave;
    }
    s.threads = s.waves * wave;
    int raw = prob->v[MLA_KV] ? p[P_STAGES] * s.keys * MLA_RAW_PIECES(prob->v[MLA_FORMAT], d) : 0;
    int tiles = MLA_TILES(p[P_STAGES], raw);
    s.lds = 4 * MLA_LDS_FLOATS(tiles, s.keys, d, s.q_rows, s.parts_of_d, s.rows, scalar, raw);
    s.tiles = ceil_div(prob->v[MLA_SQ] * prob->v[MLA_HQ], s.rows);
    s.items = prob->v[MLA_B] * s.tiles;
    return s;
}

static bool portable_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool mma_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (!(dev->features & RFG_FEATURE_MMA) || dev->hw->mma == RFG_MMA_CDNA1)
        return rfg_refuse(why, "arch is %s: must have matrix instructions of 16 by 16 by 16", dev->arch);
    return prob->v[MLA_ALIGN] >= 16 || rfg_refuse(why, "align=%" PRId64 ": must be 16", prob->v[MLA_ALIGN]);
}

static bool fits(const struct rfg_device *dev, const struct shape *s, int parts, struct rfg_reason *why)
{
    if (s->threads > dev->max_threads)
        return rfg_refuse(why, "%d threads: must be at most %d", s->threads, dev->max_threads);
    if (s->lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s->lds, dev->lds_bytes);
    if (parts > 1 && s->items > RFG_COUNTERS)
        return rfg_refuse(why, "parts=%d: %" PRId64 " work items, must be at most %d, the number of counters", parts,
                          s->items, RFG_COUNTERS);
    return s->items <= INT32_MAX || rfg_refuse(why, "%" PRId64 " work items: must be below 2^31", s->items);
}

/* Hopper decodes a kv of 8 bits out of LDS, but for two forms, of which that spills registers. */
static bool decodes_from_lds(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return dev->lds_bytes >= LARGE_LDS && prob->v[MLA_KV] != RFG_E4M3FNUZ &&
           !(prob->v[MLA_FORMAT] == MLA_V4 && prob->v[MLA_POSITIONS]);
}

static bool mma_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                      struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p, false);
    bool copies = dev->features & RFG_FEATURE_ASYNC;
    if (!copies && p[P_STAGES])
        return rfg_refuse(why, "stages=%d: must be 0 without asynchronous copies", p[P_STAGES]);
    if (copies && !p[P_STAGES] && (!prob->v[MLA_KV] || decodes_from_lds(dev, prob)))
        return rfg_refuse(why, "stages=0: must be 2 or 3 with asynchronous copies");
    if (p[P_STAGES] && prob->v[MLA_KV] && dev->lds_bytes >= LARGE_LDS && !decodes_from_lds(dev, prob))
        return rfg_refuse(why, "stages=%d: decoding kv out of LDS takes registers that then spill", p[P_STAGES]);
    return fits(dev, &s, p[P_PARTS], why);
}

static bool portable_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_reason *why)
{
    int own[2] = { p[0], 0 };
    struct shape s = shape_of(dev, prob, own, true);
    return fits(dev, &s, p[0], why);
}

/* Workgroups of a CU at once, by LDS. */
static double resident(const struct rfg_device *dev, const struct shape *s)
{
    double cu_lds = is_nvidia(dev) ? dev->lds_bytes + 1024.0 : 65536.0;
    return MAX(1, MIN(2, floor(cu_lds / (s->lds + 1024.0))));
}

static bool mma_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                      struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p, false);
    int64_t steps = ceil_div(prob->v[MLA_S], s.keys), segments = steps ? ceil_div(steps, MLA_EACH(steps, s.keys)) : 1;
    if (p[P_PARTS] > 1 && p[P_PARTS] / 2 >= segments)
        return rfg_refuse(why, "parts=%d: %" PRId64 " segments", p[P_PARTS], segments);
    double at_once = resident(dev, &s) * dev->cu_count;
    return p[P_PARTS] == 1 || (double)(s.items * p[P_PARTS]) <= 2 * at_once ||
           rfg_refuse(why, "parts=%d: %" PRId64 " workgroups", p[P_PARTS], s.items * p[P_PARTS]);
}

/* As an H200 should have it: a CU takes in 60 bytes a ns at most, and a step has three barriers and a softmax between
 * its products, about 0.5 us beside a product's time. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, bool scalar)
{
    struct shape s = shape_of(dev, prob, p, scalar);
    double bytes, flops, parts = p[P_PARTS], keys = (double)MAX(prob->v[MLA_S], 1), groups = (double)s.items * parts;
    prob->op->cost(prob, &bytes, &flops);
    double at_once = resident(dev, &s) * dev->cu_count, rounds = ceil(MAX(groups, 1) / at_once);
    double steps = ceil(keys / s.keys), segments = ceil(steps / (double)MLA_EACH((int64_t)steps, s.keys));
    double mine = ceil(steps / segments) * ceil(segments / parts); /* steps of a workgroup */
    double step_bytes = s.keys * mla_row_bytes(prob);
    double step_flops = 2.0 * s.rows * s.keys * (double)(prob->v[MLA_D] + mla_dv(prob));
    double rate = scalar ? dev->fma_tflops / 4 : dev->mma_tflops / 3;
    double step = step_flops / MAX(1e6 * rate / dev->cu_count, 1) + (scalar ? 2 : 0.5);
    double crowd = MAX(1, MIN(groups, at_once) / dev->cu_count);
    step = MAX(step * crowd, step_bytes * crowd / 60e3);
    double traffic = MAX(bytes / (1e3 * dev->mem_gbps), (double)s.tiles * bytes / (1e3 * MAX(dev->cache_gbps, 1)));
    double us = MAX(traffic, rounds * mine * step);
    if (parts > 1) /* segments' sums to the workspace and back, the latter by one workgroup */
        us += dev->sync_us + 1 + segments * s.rows * mla_dv(prob) * 4.0 / 60e3;
    return dev->latency_us + 3 * dev->load_us + us + rounds;
}
static double mma_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return predict(dev, prob, p, false) - (p[P_STAGES] == 3 ? 0.01 : 0);
}
static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    int own[2] = { p[0], 0 };
    return predict(dev, prob, own, true);
}

static size_t slots(const struct shape *s, int parts)
{
    return parts == 1 ? 0
                      : (size_t)s->items * MLA_SEGMENTS *
                            MLA_SLOT_FLOATS((size_t)s->threads, (size_t)s->acc, (size_t)s->rows) * sizeof(float);
}
static size_t mma_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p, false);
    return slots(&s, p[P_PARTS]);
}
static size_t portable_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    int own[2] = { p[0], 0 };
    struct shape s = shape_of(dev, prob, own, true);
    return slots(&s, p[0]);
}

/* A row's segments, steps and sums are the same in any tile, shared by any number of workgroups. */
static bool mma_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                      struct rfg_order *order, struct rfg_reason *why)
{
    (void)why;
    snprintf(order->words, sizeof(order->words), "mla_decode_tile_mma keys=%d", shape_of(dev, prob, p, false).keys);
    return true;
}
static bool portable_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)p, (void)why;
    snprintf(order->words, sizeof(order->words), "mla_decode_portable");
    return true;
}

static void macros(const struct rfg_problem *prob, const struct shape *s, int stages, struct rfg_kernel *k)
{
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "KV_DTYPE", mla_kv_dtype(prob));
    rfg_kernel_macro(k, "FORMAT", (int)prob->v[MLA_FORMAT]);
    rfg_kernel_macro(k, "D", (int)prob->v[MLA_D]);
    rfg_kernel_macro(k, "DV", mla_dv(prob));
    rfg_kernel_macro(k, "ROWS", s->rows);
    rfg_kernel_macro(k, "KEYS", s->keys);
    rfg_kernel_macro(k, "WAVES", s->waves);
    rfg_kernel_macro(k, "STAGES", stages);
    rfg_kernel_macro(k, "PARTS_OF_D", s->parts_of_d);
    rfg_kernel_macro(k, "Q_ROWS", s->q_rows);
    rfg_kernel_macro(k, "WIDE", prob->v[MLA_ALIGN] >= 16);
    rfg_kernel_macro(k, "CAP", prob->v[MLA_CAP] != 0);
    rfg_kernel_macro(k, "POSITIONS", (int)prob->v[MLA_POSITIONS]);
    if (prob->v[MLA_STYPE])
        rfg_kernel_macro(k, "SINK_DTYPE", mla_sink_dtype(prob));
    rfg_kernel_macro(k, "ACC", s->acc);
    rfg_kernel_macro(k, "LDS_BYTES", s->lds);
}
static void mma_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(dev, prob, p, false);
    k->source = "mha/mla/tile_mma.hip";
    k->entry = "mla_decode_tile_mma";
    macros(prob, &s, p[P_STAGES], k);
}
static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                            struct rfg_kernel *k)
{
    int own[2] = { p[0], 0 };
    struct shape s = shape_of(dev, prob, own, true);
    k->source = "mha/mla/portable.hip";
    k->entry = "mla_decode_portable";
    macros(prob, &s, 0, k);
}

static void launch_of(const struct shape *s, int parts, struct rfg_launch *l)
{
    uint32_t groups = (uint32_t)MIN(MAX(s->items, 1), MAX_GROUPS);
    *l = (struct rfg_launch){ { groups, (uint32_t)parts, 1 }, { (uint32_t)s->threads, 1, 1 }, (uint32_t)s->lds };
}
static void mma_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p, false);
    launch_of(&s, p[P_PARTS], l);
}
static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                            struct rfg_launch *l)
{
    int own[2] = { p[0], 0 };
    struct shape s = shape_of(dev, prob, own, true);
    launch_of(&s, p[0], l);
}

#define MLA_VARIANT(variant, of, n, list, ...)                                                                         \
    const struct rfg_variant variant = { .name = #variant,                                                             \
                                         .kind = RFG_VARIANT_KERNEL,                                                   \
                                         .n_params = n,                                                                \
                                         .params = list,                                                               \
                                         .order = of##_order,                                                          \
                                         .supports = of##_supports,                                                    \
                                         .valid = of##_valid,                                                          \
                                         .workspace = of##_workspace,                                                  \
                                         .predict = of##_predict,                                                      \
                                         .launch = of##_launch,                                                        \
                                         .kernel = of##_kernel,                                                        \
                                         __VA_ARGS__ }
MLA_VARIANT(mla_decode_tile_mma, mma, COUNT(params), params, .worth = mma_worth);
MLA_VARIANT(mla_decode_portable, portable, 1, params + P_PARTS, .worth = NULL);
