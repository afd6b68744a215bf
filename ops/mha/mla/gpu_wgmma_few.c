/* SPDX-License-Identifier: MIT
 *
 * The host side of mla_decode_wgmma_few (wgmma_few.hip). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "mla.h"
#include "mla_layout.h"
#include "ops/gpu.h"
#include "ops/model/model.h"

enum { P_ROWS, P_PARTS, P_CLUSTERS };

static const struct rfg_param params[] = {
    [P_ROWS] = { "rows", 2, { 16, 32 } },                 /* of a workgroup */
    [P_PARTS] = { "parts", 5, { 1, 2, 4, 8, 16 } },       /* of a cluster's keys, a workgroup each */
    [P_CLUSTERS] = { "clusters", 5, { 1, 2, 4, 8, 16 } }, /* that share a sequence's keys */
};

static struct mla_few few_of(const struct rfg_problem *prob, const int *p)
{
    return mla_few_of(prob, p[P_ROWS], p[P_PARTS], p[P_CLUSTERS]);
}
static int lds_bytes(const struct rfg_problem *prob, const int *p)
{
    return MLA_FEW_LDS_BYTES((int)prob->v[MLA_D], mla_dv(prob), p[P_ROWS], p[P_PARTS]);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    return mla_wgmma_valid(dev, lds_bytes(prob, p), few_of(prob, p).items, p[P_PARTS], p[P_CLUSTERS], why);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    int64_t rows = prob->v[MLA_SQ] * prob->v[MLA_HQ], n = few_of(prob, p).items;
    if (rows > 64 && !prob->v[MLA_KV] && n > dev->cu_count)
        return rfg_refuse(why, "rows=%d: %" PRId64 " workgroups for sequences of %" PRId64 " rows", p[P_ROWS], n, rows);
    return mla_few_worth(dev, prob, few_of(prob, p), why);
}

bool mla_few_worth(const struct rfg_device *dev, const struct rfg_problem *prob, struct mla_few f,
                   struct rfg_reason *why)
{
    int64_t rows = prob->v[MLA_SQ] * prob->v[MLA_HQ];
    if (f.rows > 16 && rows <= f.rows / 2)
        return rfg_refuse(why, "rows=%d: a sequence has %" PRId64, f.rows, rows);
    return mla_wgmma_worth(dev, prob, f.items, f.parts, f.clusters, why);
}
struct mla_few mla_few_of(const struct rfg_problem *prob, int rows, int parts, int clusters)
{
    int64_t items = prob->v[MLA_B] * ceil_div(prob->v[MLA_SQ] * prob->v[MLA_HQ], rows);
    return (struct mla_few){ items, MAX(items, 1) * parts * clusters, rows, parts, clusters };
}
double mla_few_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const struct mla_few *f,
                       double tile, double tail)
{
    double bytes, flops, each = f->parts * f->clusters;
    prob->op->cost(prob, &bytes, &flops);
    double at_once = gemm_at_once(dev, f->parts, 1), rounds = MAX(1, ceil((double)f->items * each / at_once));
    double tiles = ceil(ceil((double)MAX(prob->v[MLA_S], 1) / MLA_WG_KEYS) / each);
    double us = MAX(rounds * tiles * tile, bytes / (1e3 * dev->mem_gbps));
    us += rounds * (4 * dev->load_us + tail + (f->parts > 1 ? 1.5 : 0.5));
    if (f->clusters > 1) /* sums to the workspace, and all clusters' back */
        us += dev->sync_us + 1 + (f->clusters + 1) * f->rows * mla_dv(prob) * 4.0 / f->parts / 100e3;
    return dev->latency_us + us;
}
/* (Its limit keeps items below RFG_COUNTERS / parts.) */
size_t mla_few_workspace(const struct rfg_problem *prob, struct mla_few f)
{
    return f.clusters == 1 ? 0
                           : (size_t)(f.items * f.parts * f.clusters) * sizeof(float) *
                                 (size_t)MLA_FEW_SLOT_FLOATS(mla_dv(prob), f.rows, f.parts);
}

/* As an H200 has it: a tile of codes is decoded in 2.3 us; one of elements should be multiplied in 0.7, of 32 rows in
 * 1.1, at 33 bytes a ns. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct mla_few f = few_of(prob, p);
    double tile = MAX(p[P_ROWS] > 16 ? 1.3 : 0.8, MLA_WG_KEYS * mla_row_bytes(prob) / 45e3);
    return mla_few_predict(dev, prob, &f, prob->v[MLA_KV] ? 2.3 : tile, 0);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    return mla_few_workspace(prob, few_of(prob, p));
}

/* What keys are divided into depends on the sequence's length, on parts and clusters. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "mla_decode_wgmma_few parts=%d clusters=%d", p[P_PARTS],
             p[P_CLUSTERS]);
    return true;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "mha/mla/wgmma_few.hip";
    k->entry = "mla_decode_wgmma_few";
    mla_wgmma_macros(prob, p[P_PARTS], p[P_CLUSTERS], lds_bytes(prob, p), k);
    rfg_kernel_macro(k, "KV_DTYPE", mla_kv_dtype(prob));
    rfg_kernel_macro(k, "FORMAT", (int)prob->v[MLA_FORMAT]);
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev;
    mla_wgmma_launch(few_of(prob, p).groups, lds_bytes(prob, p), l);
}

const struct rfg_variant mla_decode_wgmma_few = { .name = "mla_decode_wgmma_few",
                                                  .kind = RFG_VARIANT_KERNEL,
                                                  .kernel = kernel,
                                                  .launch = launch,
                                                  .tile_maps = mla_wgmma_maps,
                                                  .n_params = COUNT(params),
                                                  .params = params,
                                                  .supports = mla_wgmma_supports,
                                                  .valid = valid,
                                                  .worth = worth,
                                                  .predict = predict,
                                                  .workspace = workspace,
                                                  .order = order_of };
