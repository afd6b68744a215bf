/* SPDX-License-Identifier: MIT
 *
 * The host side of mla_decode_wgmma (wgmma.hip). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "mla.h"
#include "mla_layout.h"
#include "ops/gpu.h"
#include "ops/model/model.h"

enum { P_PARTS, P_CLUSTERS };

static const struct rfg_param params[] = {
    [P_PARTS] = { "parts", 5, { 1, 2, 4, 8, 16 } },       /* of a cluster's keys, a workgroup each */
    [P_CLUSTERS] = { "clusters", 5, { 1, 2, 4, 8, 16 } }, /* that share a sequence's keys */
};

#define STEP        (2 * MLA_WG_KEYS)
#define MOST_GROUPS 128 /* for a sequence */

static int parts_of(const int *p)
{
    return p[P_PARTS] * p[P_CLUSTERS];
}

static int64_t items(const struct rfg_problem *prob)
{
    return prob->v[MLA_B] * ceil_div(prob->v[MLA_SQ] * prob->v[MLA_HQ], MLA_WG_ROWS);
}
static int lds_bytes(const struct rfg_problem *prob)
{
    return MLA_WG_LDS_BYTES((int)prob->v[MLA_D], mla_dv(prob));
}

bool mla_wgmma_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    int d = (int)prob->v[MLA_D];
    if (!has_wgmma(dev, why))
        return false;
    if (!(dev->features & RFG_FEATURE_TMA))
        return rfg_refuse(why, "the driver is too old: must be of CUDA 12, which encodes matrices for TMA");
    if (d % 64)
        return rfg_refuse(why, "D=%d: must be a multiple of 64", d);
    return prob->v[MLA_ALIGN] >= 16 || rfg_refuse(why, "align=%" PRId64 ": must be 16", prob->v[MLA_ALIGN]);
}
static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    int dv = mla_dv(prob);
    if (!mla_wgmma_supports(dev, prob, why))
        return false;
    if (prob->v[MLA_KV])
        return rfg_refuse(why, "kv=%s: must be q's type", rfg_dtype_name((rfg_dtype)prob->v[MLA_KV]));
    return dv == 128 || dv == 256 || dv == 512 || rfg_refuse(why, "Dv=%d: must be 128, 256 or 512", dv);
}

bool mla_wgmma_valid(const struct rfg_device *dev, int lds, int64_t n, int parts, int clusters, struct rfg_reason *why)
{
    int64_t groups = n * parts * clusters;
    if (lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", lds, dev->lds_bytes);
    if (clusters > 1 && (parts == 1 || parts * clusters > MOST_GROUPS))
        return rfg_refuse(why, "parts=%d clusters=%d: must be 2 parts at least, of at most %d in all", parts, clusters,
                          MOST_GROUPS);
    return groups <= INT32_MAX || rfg_refuse(why, "%" PRId64 " workgroups: must be below 2^31", groups);
}
static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    return mla_wgmma_valid(dev, lds_bytes(prob), items(prob), p[P_PARTS], p[P_CLUSTERS], why);
}

bool mla_wgmma_worth(const struct rfg_device *dev, const struct rfg_problem *prob, int64_t n, int parts, int clusters,
                     struct rfg_reason *why)
{
    int64_t groups = n * parts * clusters;
    if (parts * clusters == 1)
        return true;
    if (groups > (clusters > 1 ? 1 : 8) * dev->cu_count)
        return rfg_refuse(why, "parts=%d clusters=%d: %" PRId64 " workgroups", parts, clusters, groups);
    return prob->v[MLA_S] > MLA_WG_KEYS * (int64_t)parts * clusters / 2 ||
           rfg_refuse(why, "parts=%d clusters=%d: S=%" PRId64 " are tiles of %d", parts, clusters, prob->v[MLA_S],
                      MLA_WG_KEYS);
}
static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    return mla_wgmma_worth(dev, prob, items(prob), p[P_PARTS], p[P_CLUSTERS], why);
}

/* As an H200 has it: a step is bound by matrix instructions at about three quarters of their peak, or by the bytes that a
 * CU takes in. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, d = (double)prob->v[MLA_D], dv = mla_dv(prob), parts = parts_of(p);
    prob->op->cost(prob, &bytes, &flops);
    double at_once = gemm_at_once(dev, p[P_PARTS], 1), rounds = MAX(1, ceil((double)items(prob) * parts / at_once));
    double steps = ceil(ceil((double)MAX(prob->v[MLA_S], 1) / MLA_WG_KEYS) / parts) / 2;
    double step_flops = 2.0 * MLA_WG_ROWS * STEP * (d + dv), step_bytes = 2 * STEP * d;
    double step = MAX(step_flops * dev->cu_count / (0.75e6 * dev->mma_tflops), step_bytes / 60e3);
    double us = MAX(rounds * steps * step, bytes / (1e3 * dev->mem_gbps));
    us += rounds * (4 * dev->load_us + (p[P_PARTS] > 1 ? 3 : 1));
    if (p[P_CLUSTERS] > 1) /* sums to the workspace, and all clusters' back */
        us += dev->sync_us + 1 + (p[P_CLUSTERS] + 1) * MLA_WG_ROWS * dv * 4 / p[P_PARTS] / 100e3;
    return dev->latency_us + us;
}

/* (Which has an end, of 32 MB: long before the counters, one for each part of an item, have theirs.) */
static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    return p[P_CLUSTERS] == 1 ? 0
                              : (size_t)(items(prob) * parts_of(p)) *
                                    MLA_WG_SLOT_FLOATS((size_t)mla_dv(prob), (size_t)p[P_PARTS]) * sizeof(float);
}

/* What keys are divided into depends on the sequence's length, on parts and clusters. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "mla_decode_wgmma parts=%d clusters=%d", p[P_PARTS], p[P_CLUSTERS]);
    return true;
}

void mla_wgmma_macros(const struct rfg_problem *prob, int parts, int clusters, int lds, struct rfg_kernel *k)
{
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "D", (int)prob->v[MLA_D]);
    rfg_kernel_macro(k, "DV", mla_dv(prob));
    rfg_kernel_macro(k, "CAP", prob->v[MLA_CAP] != 0);
    rfg_kernel_macro(k, "POSITIONS", (int)prob->v[MLA_POSITIONS]);
    if (prob->v[MLA_STYPE])
        rfg_kernel_macro(k, "SINK_DTYPE", mla_sink_dtype(prob));
    rfg_kernel_macro(k, "PARTS", parts);
    rfg_kernel_macro(k, "CLUSTERS", clusters);
    rfg_kernel_macro(k, "LDS_BYTES", lds);
}
static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "mha/mla/wgmma.hip";
    k->entry = "mla_decode_wgmma";
    mla_wgmma_macros(prob, p[P_PARTS], p[P_CLUSTERS], lds_bytes(prob), k);
}

void mla_wgmma_launch(int64_t groups, int lds, struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)groups, 1, 1 }, { 384, 1, 1 }, (uint32_t)lds };
}
static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev;
    mla_wgmma_launch(MAX(items(prob), 1) * parts_of(p), lds_bytes(prob), l);
}

/* Keys as rows of one matrix. Where they aren't, or are codes, the kernel copies them otherwise, and the map is of one row. */
int mla_wgmma_maps(const struct rfg_problem *prob, const int *p, const void *kargs, struct rfg_tile_map *maps)
{
    (void)p;
    const struct mla_args *a = kargs;
    int64_t rows = prob->v[MLA_KV] ? 1 : a->table ? (int64_t)a->blocks << a->page_shift : (int64_t)a->batch * a->skv;
    maps[0] = (struct rfg_tile_map){ a->kv,
                                     MAX(rows, 1),
                                     2 * prob->v[MLA_D],
                                     MAX(a->kv_row, prob->v[MLA_D]) * 2,
                                     MLA_WG_TMA_ROWS(a->table != NULL, a->page_shift),
                                     0 };
    return 1;
}

const struct rfg_variant mla_decode_wgmma = { .name = "mla_decode_wgmma",
                                              .kind = RFG_VARIANT_KERNEL,
                                              .n_params = COUNT(params),
                                              .params = params,
                                              .order = order_of,
                                              .supports = supports,
                                              .valid = valid,
                                              .workspace = workspace,
                                              .worth = worth,
                                              .predict = predict,
                                              .launch = launch,
                                              .tile_maps = mla_wgmma_maps,
                                              .kernel = kernel };
