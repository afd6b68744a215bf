/* SPDX-License-Identifier: MIT
 *
 * What gpu_prefill.c and gpu_wgmma.c share: the host sides of two kernels that take tiles of queries. */
#ifndef RFG_OPS_MHA_GPU_PREFILL_H
#define RFG_OPS_MHA_GPU_PREFILL_H

#include <inttypes.h>
#include <stdio.h>

#include "ops/gpu.h"
#include "ops/mha/mha.h"
#include "prefill_layout.h"

/* Rows of keys and values as both copy them: whole, of q's dtype, 16 bytes at a time. */
static inline bool reads_tiles(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!mha_is_half(prob, why))
        return false;
    if (prob->v[MHA_KV])
        return rfg_refuse(why, "k and v are of 8 bits: must be q's dtype");
    if (prob->v[MHA_FORM] == MHA_FORM_VLLM)
        return rfg_refuse(why, "form=vllm: must have rows of D elements");
    if (prob->v[MHA_ALIGN] < 16)
        return rfg_refuse(why, "align=%" PRId64 ": must be 16", prob->v[MHA_ALIGN]);
    return true;
}

/* What either kernel must be true of: pack, LDS, and registers of a lane for data, which are counted and
 * not measured. */
static inline bool tile_is_valid(const struct rfg_device *dev, const struct rfg_problem *prob, int pack, int lds,
                                 int registers, int limit, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (pack && v[MHA_HQ] == v[MHA_HKV])
        return rfg_refuse(why, "pack=1: Hq=Hkv=%" PRId64 " has no heads to pack", v[MHA_HQ]);
    if (mha_is_decode(prob) && !pack && v[MHA_HQ] != v[MHA_HKV])
        return rfg_refuse(why, "pack=0: a kv head's %" PRId64 " heads belong together", v[MHA_HQ] / v[MHA_HKV]);
    if (lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", lds, dev->lds_bytes);
    if (registers > limit)
        return rfg_refuse(why, "%d registers for data: must be at most %d", registers, limit);
    return true;
}

/* Heads are packed (into a tile's rows) where there are some and a head's queries are too few for a tile. */
static inline bool pack_is_worth(const struct rfg_problem *prob, int pack, bool few_queries, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (pack != (v[MHA_HQ] / v[MHA_HKV] > 1 && few_queries))
        return rfg_refuse(why, "pack=%d: Sq=%" PRId64 " is %s", pack, v[MHA_SQ],
                          pack ? "enough for tiles of one head" : "too few for tiles of one head");
    return true;
}

/* Query heads that a tile has side by side; rows that tiles have of a sequence and one of these groups of heads, tiles
 * of them. */
static inline int64_t heads_of_tile(const struct rfg_problem *prob, int pack)
{
    return pack ? prob->v[MHA_HQ] / prob->v[MHA_HKV] : 1;
}
static inline int64_t rows_of_tiles(const struct rfg_problem *prob, int pack)
{
    return prob->v[MHA_SQ] * heads_of_tile(prob, pack);
}
static inline int64_t tiles_of(const struct rfg_problem *prob, int pack, int tile_q)
{
    return ceil_div(rows_of_tiles(prob, pack), tile_q);
}
/* Of all sequences and heads. */
static inline int64_t all_tiles(const struct rfg_problem *prob, int pack, int tile_q)
{
    return tiles_of(prob, pack, tile_q) * prob->v[MHA_B] * (prob->v[MHA_HQ] / heads_of_tile(prob, pack));
}

/* Work over what it would be without padding rows and, if causal, without masked corners of tiles. */
static inline double wasted_work(const struct rfg_problem *prob, double rows, double padded_rows, int tile_q,
                                 int tile_kv)
{
    double waste = rows > 0 ? padded_rows / rows : 1;
    if (prob->v[MHA_CAUSAL])
        waste += 0.5 * (tile_q + tile_kv) / MAX((double)prob->v[MHA_S], 1);
    return waste;
}

/* The macros that follow from the problem alone: the first, with heads as the kernel pads them, and the last. */
static inline void tile_macros(struct rfg_kernel *k, const struct rfg_problem *prob, int d, int dv)
{
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    mha_sink_macro(prob, k);
    mha_head_macros(prob, k, d, dv);
}
static inline void mask_macros(struct rfg_kernel *k, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    rfg_kernel_macro(k, "MASK", mha_left(prob) >= 0 ? 3 : v[MHA_CAUSAL] || v[MHA_RIGHT] >= 0);
    rfg_kernel_macro(k, "CAP", v[MHA_CAP] != 0);
    rfg_kernel_macro(k, "ALIBI", (int)v[MHA_ALIBI]);
    rfg_kernel_macro(k, "PAGED", v[MHA_PAGE] != 0);
    page_macro(k, prob->v[MHA_PAGE]);
    if (v[MHA_INVARIANT])
        rfg_kernel_macro(k, "INVARIANT", 1);
}

/* A variant of what a file has under these names; bytes: its workspace, or NULL. */
#define TILE_VARIANT(variant, bytes)                                                                                   \
    const struct rfg_variant variant = {                                                                               \
        .name = #variant,                                                                                              \
        .kind = RFG_VARIANT_KERNEL,                                                                                    \
        .n_params = COUNT(params),                                                                                     \
        .params = params,                                                                                              \
        .supports = supports,                                                                                          \
        .valid = valid,                                                                                                \
        .worth = worth,                                                                                                \
        .predict = predict,                                                                                            \
        .order = order_of,                                                                                             \
        .workspace = bytes,                                                                                            \
        .kernel = kernel,                                                                                              \
        .launch = launch,                                                                                              \
    }

#endif
