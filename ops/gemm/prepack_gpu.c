/* SPDX-License-Identifier: MIT
 *
 * gemm_prepack on GPUs: moves whole chunks. */
#include "ops/gpu.h"
#include "ops/model/model.h"
#include "gemm.h"
#include "prepack_args.h"

enum { P_THREADS, P_UNROLL };

static const struct rfg_param params[] = {
    [P_THREADS] = { "threads", 1, { 256 } },
    [P_UNROLL] = { "unroll", 2, { 1, 4 } },
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static int64_t groups(const struct rfg_problem *prob, const int *p)
{
    int in_chunk = prob->v[PREPACK_GROUPS] ? 1 : prepack_chunk(prob->dtype[0]);
    int64_t chunks = prob->v[PREPACK_N] * (prepack_dst_cols(prob) / in_chunk);
    return MIN(ceil_div(chunks, (int64_t)p[P_THREADS] * p[P_UNROLL]), MAX_GROUPS);
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double chunk = prob->v[PREPACK_GROUPS] ? (double)rfg_format_bytes(prob->dtype[0], 1) : 16;
    double bytes, flops, in_flight = chunk * p[P_THREADS] * p[P_UNROLL];
    prepack_cost(prob, &bytes, &flops);
    struct gemm_flow f = { .groups = (double)groups(prob, p),
                           .per_cu = gemm_resident(dev, p[P_THREADS], 40, 0),
                           .cluster = 1,
                           .memory = bytes };
    f.bytes = bytes / f.groups;
    f.in_flight = MIN(in_flight, f.bytes);
    return gemm_flow_us(dev, &f);
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/prepack.hip";
    k->entry = "gemm_prepack";
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "BITS", 4 * (int)rfg_format_bytes(prob->dtype[0], 2));
    rfg_kernel_macro(k, "GROUPS", (int)prob->v[PREPACK_GROUPS]);
    if (prepack_dst_cols(prob) > prob->v[PREPACK_K]) /* others' kernels need not know that there is such a macro */
        rfg_kernel_macro(k, "PAD", prob->v[PREPACK_GROUPS] ? (int)prob->v[PREPACK_PAD] : 1);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)groups(prob, p), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

const struct rfg_variant gemm_prepack_portable = {
    .name = "gemm_prepack_portable",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = sizeof(params) / sizeof(params[0]),
    .params = params,
    .supports = supports,
    .predict = predict,
    .kernel = kernel,
    .launch = launch,
};
