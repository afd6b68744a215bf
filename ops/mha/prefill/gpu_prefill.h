/* SPDX-License-Identifier: MIT
 *
 * What gpu_prefill.c and gpu_wgmma.c share: the host sides of two kernels that take tiles of queries. */
#ifndef RFG_OPS_MHA_GPU_PREFILL_H
#define RFG_OPS_MHA_GPU_PREFILL_H

#include <inttypes.h>

#include "ops/gpu.h"
#include "ops/mha/mha.h"

/* Rows of keys and values as both copy them: whole, of q's dtype, 16 bytes at a time. */
static inline bool reads_tiles(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (prob->v[MHA_KV])
        return rfg_refuse(why, "k and v are of 8 bits: must be q's dtype");
    if (prob->v[MHA_FORM] == MHA_FORM_VLLM)
        return rfg_refuse(why, "form=vllm: must have rows of D elements");
    if (prob->v[MHA_ALIGN] < 16)
        return rfg_refuse(why, "align=%" PRId64 ": must be 16", prob->v[MHA_ALIGN]);
    return true;
}

/* The macros that follow from the problem alone: the first, and the last. */
static inline void tile_macros(struct rfg_kernel *k, const struct rfg_problem *prob)
{
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "D", (int)prob->v[MHA_D]);
    rfg_kernel_macro(k, "DV", mha_dv(prob));
}
static inline void mask_macros(struct rfg_kernel *k, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    rfg_kernel_macro(k, "MASK", v[MHA_LEFT] >= 0 ? 3 : v[MHA_CAUSAL] || v[MHA_RIGHT] >= 0);
    rfg_kernel_macro(k, "CAP", v[MHA_CAP] != 0);
    rfg_kernel_macro(k, "ALIBI", (int)v[MHA_ALIBI]);
    rfg_kernel_macro(k, "PAGED", v[MHA_PAGE] != 0);
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
        .workspace = bytes,                                                                                            \
        .kernel = kernel,                                                                                              \
        .launch = launch,                                                                                              \
    }

#endif
