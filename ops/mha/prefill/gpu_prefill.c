/* SPDX-License-Identifier: MIT
 *
 * The host side of mha_prefill_mma and of mha_decode_tile_mma, which is the same kernel for few queries of many heads
 * each. */
#include <math.h>
#include <string.h>

#include "gpu_prefill.h"

enum { P_WAVES, P_FRAGS_Q, P_TILE_KV, P_STAGES, P_Q_LDS, P_PACK, P_PARTS };

static const struct rfg_param params[] = {
    [P_WAVES] = { "waves", 3, { 2, 4, 8 } },
    [P_FRAGS_Q] = { "frags_q", 2, { 1, 2 } }, /* 16 queries each, of a wave */
    [P_TILE_KV] = { "tile_kv", 3, { 32, 64, 128 } },
    [P_STAGES] = { "stages", 3, { 1, 2, 3 } },
    [P_Q_LDS] = { "q_lds", 2, { 0, 1 } },
    [P_PACK] = { "pack", 2, { 0, 1 } },
    [P_PARTS] = { "parts", 8, { 1, 2, 3, 4, 6, 8, 16, 32 } }, /* of the keys */
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (!(dev->features & RFG_FEATURE_MMA))
        return rfg_refuse(why, "arch is %s: must have matrix instructions", dev->arch);
    return reads_tiles(prob, why);
}

/* Elements of a head as the kernel pads them. */
static int padded_d(const struct rfg_problem *prob)
{
    return mha_padded(prob->v[MHA_D], 32);
}
static int padded_dv(const struct rfg_problem *prob)
{
    return mha_padded(mha_dv(prob), mha_dv(prob) > 384 ? 128 : 32);
}
/* Waves that share the output's columns, where one's registers don't hold them (NVIDIA: LDS has no room for such heads
 * on the others). */
static int split_of(const struct rfg_problem *prob)
{
    return padded_dv(prob) > 384 ? 2 : 1;
}

/* What the kernel derives from its macros. */
struct shape {
    int threads, tile_q;
    int bases;             /* rows at constant distances that a thread copies from */
    int lds;               /* bytes */
    int registers;         /* of a lane, for data: a count, see below */
    int limit;             /* of them */
    int64_t tiles, groups; /* groups: of each part */
    uint64_t part_bytes;   /* of a workgroup's partials in the workspace */
};

/* How many times all threads go over `rows` rows, or blocks of 4 of them, of so many chunks: neighbours have
 * neighbouring chunks, as many as a power of two allows, so that a row may take several goes. */
static int passes_of(int rows, int chunks, int threads, int *goes)
{
    int lanes = chunks & -chunks;
    *goes = chunks / lanes;
    return (int)ceil_div(rows, MAX(threads / lanes, 1));
}

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    bool async = dev->features & RFG_FEATURE_ASYNC, wide = dev->wave_size == 64;
    int split = async ? split_of(prob) : 1;
    int d = padded_d(prob), dv = padded_dv(prob), kv = p[P_TILE_KV], frags = p[P_FRAGS_Q];
    struct shape s = { .threads = p[P_WAVES] * dev->wave_size, .tile_q = p[P_WAVES] / split * frags * 16 };
    int c = wide ? 4 : 8, ab = dev->hw->frag_registers; /* of 16x16 sums, of 16x32 that are multiplied */
    int out = frags * (dv / split / 16) * c, scores = frags * (kv / 16) * c, q = frags * (d / 32) * ab;
    s.lds = p[P_STAGES] * MHA_PREFILL_TILE_BYTES(kv, d, dv, !async) + (p[P_Q_LDS] ? q * 4 * s.threads : 0);
    int k_goes, v_goes, k_passes = passes_of(kv, d / 8, s.threads, &k_goes);
    int v_passes = 4 * passes_of(kv / 4, dv / 8, s.threads, &v_goes);
    int copies = k_passes * k_goes + v_passes * v_goes; /* of a thread and tile, without asynchronous ones */
    s.bases = k_passes + v_passes;
    int features = (v[MHA_ALIBI] ? 4 * frags : 0) + (v[MHA_CAP] ? (async ? 4 : 8 * frags) : 0);
    if (async) {
        /* Compiled by ptxas of CUDA 13, what this makes more than 232 spills; scores, which are in their places
         * twice while they become weights, count more than they are. */
        features += (p[P_PARTS] > 1 ? 8 : 0) + (mha_left(prob) >= 0 && v[MHA_PAGE] && p[P_STAGES] > 1) + (d > dv) +
                    (d > 128 && !p[P_Q_LDS] ? 48 : 0) + (d < dv ? 12 : 0) + (dv > 256 ? 24 : 0) +
                    (d != v[MHA_D] || dv != mha_dv(prob) ? 12 : 0);
        s.registers = out + scores * 3 / 2 + (p[P_Q_LDS] ? frags * 4 : q) + features;
        s.limit = 232;
    } else {
        /* The next tile is in registers. By clang 19: MI100 and later with two waves a SIMD; RDNA with 256. */
        s.registers = out + scores + (p[P_Q_LDS] ? frags * ab : q) + 4 * copies + features + (v[MHA_PAGE] ? 2 : 0) +
                      (d > 128 ? 8 : 0);
        s.limit = wide ? 163 : 199;
    }
    s.tiles = tiles_of(prob, p[P_PACK], s.tile_q);
    s.groups = all_tiles(prob, p[P_PACK], s.tile_q);
    s.part_bytes = (uint64_t)MHA_PREFILL_PART_FLOATS(s.tile_q, dv, split) * 4;
    return s;
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    bool async = dev->features & RFG_FEATURE_ASYNC;
    if (!async && p[P_TILE_KV] < 64)
        return rfg_refuse(why, "tile_kv=%d: must be at least 64 on %s", p[P_TILE_KV], dev->arch);
    if (!async && p[P_STAGES] > 2)
        return rfg_refuse(why, "stages=%d: must be at most 2 on %s", p[P_STAGES], dev->arch);
    if (!async && dev->wave_size == 32 && p[P_TILE_KV] > 64)
        return rfg_refuse(why, "tile_kv=%d: must be 64 on %s, or registers spill", p[P_TILE_KV], dev->arch);
    if (!async && p[P_TILE_KV] > 64 && (prob->v[MHA_PAGE] || prob->v[MHA_CAP] || prob->v[MHA_ALIBI]))
        return rfg_refuse(why, "tile_kv=%d: must be 64 with pages, a soft cap or slopes, or scalar registers spill",
                          p[P_TILE_KV]);
    if (dev->hw->mma == RFG_MMA_CDNA1 && p[P_WAVES] > 4) /* vector and accumulation registers apart */
        return rfg_refuse(why, "waves=%d: must be at most 4 on %s, or registers spill", p[P_WAVES], dev->arch);
    if (async && p[P_FRAGS_Q] == 2 && p[P_TILE_KV] == 64 && p[P_STAGES] == 2 && p[P_Q_LDS])
        return rfg_refuse(why,
                          "q_lds=1: must be 0 with frags_q=2, tile_kv=64, stages=2, or registers spill (NVRTC 13.0)");
    if (!tile_is_valid(dev, prob, p[P_PACK], s.lds, s.registers, s.limit, why))
        return false;
    if (!async && p[P_PARTS] > 1 && prob->v[MHA_PAGE] && (prob->v[MHA_CAP] || prob->v[MHA_ALIBI]))
        return rfg_refuse(why, "parts=%d: must be 1 with pages and a soft cap or slopes, or scalar registers spill",
                          p[P_PARTS]);
    if (!async && s.bases > 12) /* two scalar registers each */
        return rfg_refuse(why, "%d rows a thread and tile: must be at most 12, or their addresses spill", s.bases);
    if (p[P_PARTS] > 1 && s.groups > RFG_COUNTERS)
        return rfg_refuse(why, "parts=%d: %" PRId64 " workgroups each, must be at most %d, the number of counters",
                          p[P_PARTS], s.groups, RFG_COUNTERS);
    if (s.groups * s.threads > UINT32_MAX)
        return rfg_refuse(why, "%" PRId64 " workgroups of %d threads: more than a launch takes", s.groups, s.threads);
    return true;
}

/* With fewer queries a tile. */
static bool smaller_is_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    int smaller[COUNT(params)];
    memcpy(smaller, p, sizeof(smaller));
    if (p[P_FRAGS_Q] > 1) {
        smaller[P_FRAGS_Q] = 1;
        return valid(dev, prob, smaller, NULL);
    }
    smaller[P_WAVES] /= 2;
    return smaller[P_WAVES] > 1 && valid(dev, prob, smaller, NULL);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    bool async = dev->features & RFG_FEATURE_ASYNC;
    if (p[P_PARTS] > 1 &&
        (s.groups * p[P_PARTS] > 2 * (int64_t)dev->cu_count || prob->v[MHA_S] < (int64_t)p[P_PARTS] * p[P_TILE_KV] * 2))
        return rfg_refuse(why, "parts=%d: %" PRId64 " workgroups each for %d CUs, S=%" PRId64, p[P_PARTS], s.groups,
                          dev->cu_count, prob->v[MHA_S]);
    bool rdna = !async && dev->wave_size == 32; /* where the other kernel has too few registers for most */
    if (mha_is_decode(prob) && !rdna && prob->v[MHA_SQ] * (prob->v[MHA_HQ] / prob->v[MHA_HKV]) <= 16)
        return rfg_refuse(why, "%" PRId64 " rows: too few for tiles",
                          prob->v[MHA_SQ] * (prob->v[MHA_HQ] / prob->v[MHA_HKV]));
    int64_t of_tile = rows_of_tiles(prob, p[P_PACK]);
    if (!pack_is_worth(prob, p[P_PACK], prob->v[MHA_SQ] <= 64, why))
        return false;
    if (s.tile_q > 32 && s.tile_q >= 2 * of_tile && smaller_is_valid(dev, prob, p))
        return rfg_refuse(why, "waves=%d, frags_q=%d: %d queries a tile, there are %" PRId64, p[P_WAVES], p[P_FRAGS_Q],
                          s.tile_q, of_tile);
    if (p[P_WAVES] == 2 && of_tile > 32 && s.groups > 2 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "waves=2: %" PRId64 " workgroups are enough for %d CUs", s.groups, dev->cu_count);
    if (p[P_TILE_KV] > 64 && prob->v[MHA_D] > 128)
        return rfg_refuse(why, "tile_kv=%d: 64 is enough for D=%" PRId64, p[P_TILE_KV], prob->v[MHA_D]);
    if (p[P_TILE_KV] == 32 && prob->v[MHA_D] < 192 && !(p[P_FRAGS_Q] == 2 && p[P_STAGES] == 3))
        return rfg_refuse(why, "tile_kv=32: 64 is better");
    if (p[P_Q_LDS] && p[P_FRAGS_Q] == 1 && prob->v[MHA_D] < 192)
        return rfg_refuse(why, "q_lds=1: frags_q=1 leaves room in registers");
    if (p[P_STAGES] > 2 && p[P_TILE_KV] > 32)
        return rfg_refuse(why, "stages=%d: two tiles of %d keys are enough", p[P_STAGES], p[P_TILE_KV]);
    if (async && p[P_STAGES] == 1 && p[P_TILE_KV] > 64)
        return rfg_refuse(why, "tile_kv=%d, stages=1: 64 is better", p[P_TILE_KV]);
    if (!async && p[P_Q_LDS])
        return rfg_refuse(why, "q_lds=1: LDS is what is short on %s", dev->arch);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    /* Of the matrix cores' peak: more queries a wave read less out of LDS; masked corners of tiles are
     * multiplied, too. */
    double efficiency = p[P_FRAGS_Q] == 2 ? 0.42 : 0.33;
    if (p[P_WAVES] == 2)
        efficiency *= 0.9;
    if (p[P_WAVES] == 8) /* all wait for each other twice a tile */
        efficiency *= 0.93;
    if (mha_is_decode(prob) && prob->v[MHA_D] > 256) /* as an H200 has it: two waves a CU, one tile after the other */
        efficiency *= 0.15;
    if (p[P_STAGES] == 3)
        efficiency *= 0.99;
    if (p[P_TILE_KV] != 64)
        efficiency *= 0.97;
    double waste =
        wasted_work(prob, (double)rows_of_tiles(prob, p[P_PACK]), (double)s.tiles * s.tile_q, s.tile_q, p[P_TILE_KV]);
    double resident = MAX(1, MIN(dev->lds_bytes / MAX(s.lds, 1), 512 / s.threads));
    /* One workgroup a CU multiplies or computes its softmax, two do both at a time. */
    if (s.groups * p[P_PARTS] < 2 * (int64_t)dev->cu_count || resident < 2)
        efficiency *= p[P_WAVES] == 8 ? 0.8 : 0.6;
    double slots = dev->cu_count * resident, rounds = (double)s.groups * p[P_PARTS] / slots;
    double tail = rounds > 0 ? (rounds < 1 ? 1 : (rounds + 0.5) / rounds) / MIN(rounds, 1) : 1;
    double compute = flops * waste * tail / (1e6 * dev->mma_tflops * efficiency);
    double steps = (double)ceil_div(ceil_div(prob->v[MHA_S], p[P_TILE_KV]), p[P_PARTS]);
    double chain = dev->load_us * (1 + 0.1 * steps) * ceil(rounds);
    /* The last to arrive reads all parts of its tile alone. */
    double combine = p[P_PARTS] > 1 ? dev->sync_us + p[P_PARTS] * (double)s.part_bytes / 60e3 : 0;
    return dev->latency_us + MAX(MAX(compute, bytes / (1e3 * dev->mem_gbps)), chain) + combine;
}

/* A row goes through tiles that begin at multiples of tile_kv. What keys are divided into depends on the other rows of
 * its tile. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob;
    snprintf(order->words, sizeof(order->words), "mha_prefill_mma tile_kv=%d", p[P_TILE_KV]);
    return p[P_PARTS] == 1 || rfg_refuse(why, "parts=%d: are of a tile's keys, not of a row's", p[P_PARTS]);
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    k->source = dev->platform == RFG_PLATFORM_NVIDIA ? "mha/prefill/prefill_nvidia.hip" : "mha/prefill/prefill_amd.hip";
    k->entry = "mha_prefill_mma";
    tile_macros(k, prob, padded_d(prob), padded_dv(prob));
    xcd_macro(dev, k);
    rfg_kernel_macro(k, "WAVES", p[P_WAVES]);
    rfg_kernel_macro(k, "FRAGS_Q", p[P_FRAGS_Q]);
    rfg_kernel_macro(k, "TILE_KV", p[P_TILE_KV]);
    rfg_kernel_macro(k, "STAGES", p[P_STAGES]);
    rfg_kernel_macro(k, "Q_LDS", p[P_Q_LDS]);
    rfg_kernel_macro(k, "PACK", p[P_PACK]);
    mask_macros(k, prob);
    rfg_kernel_macro(k, "DIVIDED", p[P_PARTS] > 1);
    if (split_of(prob) > 1)
        rfg_kernel_macro(k, "D_SPLIT", split_of(prob));
    rfg_kernel_macro(k, "LDS_BYTES", shape_of(dev, prob, p).lds);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    return p[P_PARTS] > 1 ? (size_t)(s.part_bytes * (uint64_t)s.groups * (uint64_t)p[P_PARTS]) : 0;
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)s.groups, (uint32_t)p[P_PARTS], 1 },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

TILE_VARIANT(mha_prefill_mma, workspace);
TILE_VARIANT(mha_decode_tile_mma, workspace);
