/* SPDX-License-Identifier: MIT
 *
 * mha_portable and mha_decode_portable, one kernel: how it is launched, and how long it should take. */
#include <math.h>
#include <stdio.h>

#include "ops/gpu.h"
#include "mha.h"

enum { P_ROWS };

static const struct rfg_param params[] = {
    [P_ROWS] = { "rows", 2, { 1, 4 } }, /* queries times q heads of a group, of a work item */
};
#define WAVES 4 /* as in portable.hip */

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static int64_t items_of(const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    return v[MHA_B] * v[MHA_HKV] * ((v[MHA_SQ] * (v[MHA_HQ] / v[MHA_HKV]) + p[P_ROWS] - 1) / p[P_ROWS]);
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, rows = p[P_ROWS], of_group = (double)(prob->v[MHA_SQ] * prob->v[MHA_HQ] / prob->v[MHA_HKV]);
    double items = (double)items_of(prob, p), cus = dev->cu_count;
    prob->op->cost(prob, &bytes, &flops);
    /* Keys and values come, and are unpacked, for each work item; a tile's rows beyond the last one are work, too. */
    double waste = of_group > 0 ? ceil(of_group / rows) * rows / of_group : 1;
    double work = flops * waste * (1 + 3 / rows) / (0.25e6 * dev->fma_tflops);
    work *= MAX(1, 2 * cus / MAX(items, 1)); /* fewer than two workgroups a CU */
    double rounds = ceil((double)prob->v[MHA_S] / (WAVES * dev->wave_size)), at_once = ceil(items / (4 * cus));
    double chain = at_once * (rounds * 4 + 4) * dev->load_us;
    return dev->latency_us + 2 * dev->load_us + MAX(MAX(work, chain), bytes / (0.5e3 * dev->mem_gbps));
}

/* Waves take turns with chunks of keys, from the first that the work item's rows see on. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev;
    snprintf(order->words, sizeof(order->words), "mha_portable");
    return p[P_ROWS] == 1 || mha_left(prob) < 0 ||
           rfg_refuse(why, "rows=%d: begin with the window of the first", p[P_ROWS]);
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    int64_t row = rfg_format_bytes(mha_kv_dtype(prob), prob->v[MHA_D]), align = prob->v[MHA_ALIGN];
    (void)dev;
    k->source = "mha/portable.hip";
    k->entry = "mha_portable";
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    mha_kv_macros(prob, k);
    mha_sink_macro(prob, k);
    mha_head_macros(prob, k, (int)prob->v[MHA_D], mha_dv(prob));
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
    rfg_kernel_macro(k, "WIDE", mha_kv_dtype(prob) == RFG_I4 ? align >= 4 : align >= 16 && row % 16 == 0);
    rfg_kernel_macro(k, "VLLM", prob->v[MHA_FORM] == MHA_FORM_VLLM);
    page_macro(k, prob->v[MHA_PAGE]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    uint32_t groups = (uint32_t)MIN(MAX(items_of(prob, p), 1), MAX_GROUPS);
    *l = (struct rfg_launch){ { groups, 1, 1 }, { (uint32_t)(WAVES * dev->wave_size), 1, 1 }, 0 };
}

#define VARIANT(op)                                                                                                    \
    const struct rfg_variant op##_portable = {                                                                         \
        .name = #op "_portable",                                                                                       \
        .kind = RFG_VARIANT_KERNEL,                                                                                    \
        .n_params = COUNT(params),                                                                                     \
        .params = params,                                                                                              \
        .supports = supports,                                                                                          \
        .predict = predict,                                                                                            \
        .order = order_of,                                                                                             \
        .kernel = kernel,                                                                                              \
        .launch = launch,                                                                                              \
    }
VARIANT(mha);
VARIANT(mha_decode);
