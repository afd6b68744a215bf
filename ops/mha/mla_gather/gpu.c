/* SPDX-License-Identifier: MIT
 *
 * The GPU variant of mla_gather: eight threads a row. */
#include "gather.h"
#include "ops/gpu.h"

#define THREADS 256
#define AT_ONCE (THREADS / 8) /* rows of a workgroup */

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    double bytes, flops;
    (void)none;
    prob->op->cost(prob, &bytes, &flops);
    return dev->latency_us + 2 * dev->load_us + 2 * LOAD_US + bytes / (1e3 * dev->mem_gbps);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                        struct rfg_kernel *k)
{
    (void)dev, (void)none;
    k->source = "mha/mla_gather/gather.hip";
    k->entry = "mla_gather_rows";
    rfg_kernel_macro(k, "DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "KV_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "FORMAT", (int)prob->v[GATHER_FORMAT]);
    rfg_kernel_macro(k, "D", (int)prob->v[GATHER_D]);
    rfg_kernel_macro(k, "SCALED", (int)prob->v[GATHER_SCALE]);
    rfg_kernel_macro(k, "WIDE", prob->v[GATHER_ALIGN] >= 16);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                        struct rfg_launch *l)
{
    (void)dev, (void)none;
    *l = (struct rfg_launch){ { (uint32_t)MIN(ceil_div(prob->v[GATHER_N], AT_ONCE), MAX_GROUPS), 1, 1 },
                              { THREADS, 1, 1 },
                              0 };
}

const struct rfg_variant mla_gather_rows = {
    .name = "mla_gather_rows",
    .kind = RFG_VARIANT_KERNEL,
    .supports = rows_supports,
    .predict = rows_predict,
    .kernel = rows_kernel,
    .launch = rows_launch,
};
