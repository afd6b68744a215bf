/* SPDX-License-Identifier: MIT
 *
 * The GPU variant of mla_append: a workgroup a row, others for the heads of q. */
#include "append.h"
#include "ops/gpu.h"

#define THREADS 64

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

/* Workgroups of a token: one for its row, and for 64 threads' heads of q, a thread having 8 elements. */
static int64_t shares_of(const struct rfg_problem *prob)
{
    return 1 + ceil_div(prob->v[APPEND_HQ] * (prob->v[APPEND_R] / 8), THREADS);
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    double bytes, flops, groups = (double)(prob->v[APPEND_T] * shares_of(prob));
    (void)none;
    prob->op->cost(prob, &bytes, &flops);
    return dev->latency_us + 2 * dev->load_us + LOAD_US +
           MAX(bytes / (1e3 * dev->mem_gbps), 0.15 * groups / dev->cu_count);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    (void)dev, (void)none;
    k->source = "mha/mla_append/append.hip";
    k->entry = "mla_append_rows";
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "KV_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "FORMAT", (int)v[APPEND_FORMAT]);
    rfg_kernel_macro(k, "LATENT", append_latent(prob));
    rfg_kernel_macro(k, "ROTATED", (int)v[APPEND_R]);
    rfg_kernel_macro(k, "NORM", (int)v[APPEND_NORM]);
    rfg_kernel_macro(k, "W_DTYPE", append_weight_dtype(prob));
    rfg_kernel_macro(k, "ROPE", (int)v[APPEND_ROPE]);
    rfg_kernel_macro(k, "TABLE_DTYPE", append_table_dtype(prob));
    rfg_kernel_macro(k, "POS_DTYPE", append_position_dtype(prob));
    rfg_kernel_macro(k, "WIDTH", (int)MAX(v[APPEND_ALIGN], 2)); /* 1: of 8-bit caches */
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                        struct rfg_launch *l)
{
    (void)dev, (void)none;
    *l = (struct rfg_launch){ { (uint32_t)MIN(prob->v[APPEND_T], MAX_GROUPS), (uint32_t)shares_of(prob), 1 },
                              { THREADS, 1, 1 },
                              0 };
}

const struct rfg_variant mla_append_rows = {
    .name = "mla_append_rows",
    .kind = RFG_VARIANT_KERNEL,
    .supports = rows_supports,
    .predict = rows_predict,
    .kernel = rows_kernel,
    .launch = rows_launch,
};
