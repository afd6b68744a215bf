/* SPDX-License-Identifier: MIT
 *
 * The host side of mha_prefill_wgmma and of mha_decode_wgmma, which is the same kernel for few queries of many heads
 * each. */
#include <math.h>
#include <string.h>

#include "ops/model/model.h"
#include "gpu_prefill.h"

enum { P_GROUPS, P_TILE_KV, P_STAGES, P_PACK, P_PARTS };

static const struct rfg_param params[] = {
    [P_GROUPS] = { "groups", 3, { 1, 2, 3 } }, /* warpgroups of 64 queries */
    [P_TILE_KV] = { "tile_kv", 2, { 64, 128 } },
    [P_STAGES] = { "stages", 4, { 1, 2, 3, 4 } },
    [P_PACK] = { "pack", 2, { 0, 1 } },
    [P_PARTS] = { "parts", 7, { 1, 2, 3, 4, 6, 8, 16 } }, /* of the keys, a workgroup of a cluster each */
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (mha_dv(prob) > 256)
        return rfg_refuse(why, "Dv=%d: must be at most 256, which an instruction has", mha_dv(prob));
    return has_wgmma(dev, why) && reads_tiles(prob, why);
}

/* Elements of a head as the kernel pads them: k's to the instruction's 16, v's to one of the widths that it has. */
static int padded_d(const struct rfg_problem *prob)
{
    return mha_padded(prob->v[MHA_D], 16);
}
static int padded_dv(const struct rfg_problem *prob)
{
    static const int widths[] = { 64, 80, 96, 112, 128, 160, 192, 256 };
    int i = 0;
    while (i + 1 < COUNT(widths) && widths[i] < mha_dv(prob))
        i++;
    return widths[i];
}

/* What prefill_wgmma.hip derives from its macros. */
struct shape {
    int threads, tile_q, q_stages;
    int lds;       /* bytes */
    int registers; /* of a thread that multiplies, for data */
    int limit;     /* of them */
    int64_t tiles; /* of queries, of all heads and sequences */
    int64_t groups;
};

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    int d = padded_d(prob), dv = padded_dv(prob), kv = p[P_TILE_KV];
    struct shape s = { .threads = 128 * (p[P_GROUPS] + 1), .tile_q = 64 * p[P_GROUPS] };
    int q = MHA_WGMMA_Q_BYTES(p[P_GROUPS], d);
    int ring = MHA_WGMMA_RING_BYTES(p[P_STAGES], kv, d) + MHA_WGMMA_RING_BYTES(p[P_STAGES], kv, dv);
    /* The next tile's queries come ahead, where there is room. */
    s.q_stages = p[P_PARTS] == 1 && MHA_WGMMA_Q_BEGIN + 2 * q + ring <= dev->lds_bytes ? 2 : 1;
    int combine = p[P_PARTS] > 1 ? MHA_WGMMA_COMBINE_BYTES(p[P_GROUPS], dv) : 0; /* in place of queries and tiles */
    s.lds = MHA_WGMMA_Q_BEGIN + MAX(s.q_stages * q + ring, combine);
    /* Output, scores, weights. Compiled by CUDA 13, what this makes more than the limit spills, or its products wait
     * for each other. */
    s.registers = dv / 2 + kv / 2 + kv / 4 + (d > 128 && (v[MHA_CAP] || v[MHA_ALIBI]) ? 4 : 0);
    s.limit = p[P_GROUPS] == 3 ? 112 : p[P_GROUPS] == 2 ? 160 : 208;
    s.tiles = all_tiles(prob, p[P_PACK], s.tile_q);
    s.groups = p[P_PARTS] > 1 ? s.tiles * p[P_PARTS] : MIN(s.tiles, dev->cu_count);
    return s;
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    if (!tile_is_valid(dev, prob, p[P_PACK], s.lds, s.registers, s.limit, why))
        return false;
    if (p[P_GROUPS] == 3 && (prob->v[MHA_CAUSAL] || mha_left(prob) >= 0 || prob->v[MHA_RIGHT] >= 0 ||
                             prob->v[MHA_CAP] || prob->v[MHA_ALIBI]))
        return rfg_refuse(why, "groups=3: must have no mask, soft cap or slopes, or registers spill");
    if (s.tiles > INT32_MAX / 16)
        return rfg_refuse(why, "%" PRId64 " tiles: must be at most %d", s.tiles, INT32_MAX / 16);
    return true;
}

/* Clusters of so many workgroups, one to a CU, that run at once. */
static int64_t clusters_at_once(const struct rfg_device *dev, int parts)
{
    return (int64_t)gemm_at_once(dev, parts, 1) / parts;
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int64_t rows = prob->v[MHA_SQ] * (prob->v[MHA_HQ] / prob->v[MHA_HKV]);
    if (!pack_is_worth(prob, p[P_PACK], mha_is_decode(prob) || prob->v[MHA_SQ] <= 64, why))
        return false;
    if (mha_is_decode(prob) && rows <= 16)
        return rfg_refuse(why, "%" PRId64 " rows: too few for tiles", rows);
    int64_t of_tile = rows_of_tiles(prob, p[P_PACK]);
    if (p[P_GROUPS] > 1 && s.tile_q - 64 >= of_tile)
        return rfg_refuse(why, "groups=%d: %d queries a tile, there are %" PRId64, p[P_GROUPS], s.tile_q, of_tile);
    if (p[P_PARTS] > 1 &&
        (s.tiles > clusters_at_once(dev, p[P_PARTS]) || prob->v[MHA_S] < (int64_t)p[P_PARTS] * p[P_TILE_KV] * 2))
        return rfg_refuse(why, "parts=%d: %" PRId64 " tiles on %d CUs, S=%" PRId64, p[P_PARTS], s.tiles, dev->cu_count,
                          prob->v[MHA_S]);
    int more[COUNT(params)];
    memcpy(more, p, sizeof(more));
    more[P_STAGES]++;
    if (p[P_STAGES] < 2 && valid(dev, prob, more, NULL))
        return rfg_refuse(why, "stages=%d: %d fit as well", p[P_STAGES], more[P_STAGES]);
    if (p[P_STAGES] > 2 && p[P_TILE_KV] > 64)
        return rfg_refuse(why, "stages=%d: two tiles of %d keys are enough", p[P_STAGES], p[P_TILE_KV]);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    /* Of the matrix cores' peak; one warpgroup alone multiplies or computes its softmax. */
    double efficiency = p[P_GROUPS] == 1 ? 0.4 : p[P_GROUPS] == 3 ? 0.62 : p[P_TILE_KV] == 128 ? 0.65 : 0.55;
    if (p[P_STAGES] == 1)
        efficiency *= 0.7;
    double rows = (double)prob->v[MHA_SQ] * (double)prob->v[MHA_B] * (double)prob->v[MHA_HQ];
    double waste = wasted_work(prob, rows, (double)s.tiles * s.tile_q, s.tile_q, p[P_TILE_KV]);
    /* All of a tile's keys at a CU, tile after tile. */
    double at_once = (double)clusters_at_once(dev, p[P_PARTS]), rounds = MAX(ceil((double)s.tiles / at_once), 1);
    double busy = (double)s.tiles * p[P_PARTS] / (rounds * dev->cu_count);
    if (rounds > 2) /* heavy ones first, the rest fills up */
        busy = (double)s.tiles / ((double)s.tiles + 0.5 * at_once);
    double compute = flops * waste / (1e6 * dev->mma_tflops * efficiency * MAX(busy, 1e-3));
    /* Queries, then keys, then the products of a first tile and of a last one; parts are combined. */
    double chain = rounds * (2 * dev->load_us + 1.5) + (p[P_PARTS] > 1 ? 2 + 0.1 * p[P_PARTS] : 0);
    double fill = MIN((double)s.tiles * p[P_PARTS] / dev->cu_count * 1.3, 1); /* of memory's bandwidth */
    return dev->latency_us + MAX(compute, bytes / (1e3 * dev->mem_gbps * MAX(fill, 1e-3))) + chain;
}

/* A row goes through tiles that begin at multiples of tile_kv. What keys are divided into depends on the other rows of
 * its tile. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob;
    snprintf(order->words, sizeof(order->words), "mha_prefill_wgmma tile_kv=%d", p[P_TILE_KV]);
    return p[P_PARTS] == 1 || rfg_refuse(why, "parts=%d: are of a tile's keys, not of a row's", p[P_PARTS]);
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    k->source = "mha/prefill/prefill_wgmma.hip";
    k->entry = "mha_prefill_wgmma";
    tile_macros(k, prob, padded_d(prob), padded_dv(prob));
    rfg_kernel_macro(k, "GROUPS", p[P_GROUPS]);
    rfg_kernel_macro(k, "TILE_KV", p[P_TILE_KV]);
    rfg_kernel_macro(k, "STAGES", p[P_STAGES]);
    rfg_kernel_macro(k, "Q_STAGES", shape_of(dev, prob, p).q_stages);
    rfg_kernel_macro(k, "PACK", p[P_PACK]);
    rfg_kernel_macro(k, "PARTS", p[P_PARTS]);
    mask_macros(k, prob);
    rfg_kernel_macro(k, "LDS_BYTES", shape_of(dev, prob, p).lds);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)s.groups, 1, 1 }, { (uint32_t)s.threads, 1, 1 }, (uint32_t)s.lds };
}

TILE_VARIANT(mha_prefill_wgmma, NULL);
TILE_VARIANT(mha_decode_wgmma, NULL);
