/* SPDX-License-Identifier: MIT
 *
 * The collectives' kernels: comm.hip. */
#include "ops/comm.h"
#include "ops/gpu.h"

static const struct rfg_param params[COMM_NPARAMS] = {
    [COMM_P_TWO] = { "two", 2, { 0, 1 } },
    [COMM_P_BULK] = { "bulk", 3, { COMM_BY_PACKETS, COMM_BY_TILES, COMM_BY_LINES } },
    [COMM_P_THREADS] = { "threads", 4, { 128, 256, 512, 1024 } },
    [COMM_P_UNROLL] = { "unroll", 3, { 1, 2, 4 } },
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    if (p[COMM_P_BULK] == COMM_BY_LINES && !(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "bulk=2: needs NVIDIA's Hopper or later, not %s", dev->arch);
    if (p[COMM_P_TWO] && prob->op != comm_ops[COMM_OP_REDUCE])
        return rfg_refuse(why, "two=1: must be 0 but for all_reduce");
    if (p[COMM_P_BULK] == COMM_BY_TILES && !p[COMM_P_TWO] && prob->op == comm_ops[COMM_OP_REDUCE] &&
        prob->v[COMM_RANKS] > 2)
        return rfg_refuse(why, "bulk=1 two=0: must be of at most 2 ranks");
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)prob, (void)p;
    return dev->latency_us;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    int op = prob->op == comm_ops[COMM_OP_SCATTER]  ? COMM_REDUCE_SCATTER
             : prob->op == comm_ops[COMM_OP_GATHER] ? COMM_ALL_GATHER
             : p[COMM_P_TWO]                        ? COMM_ALL_REDUCE_TWO
                                                    : COMM_ALL_REDUCE;
    k->source = "comm/comm.hip";
    k->entry = "comm";
    rfg_kernel_macro(k, "OP", op);
    rfg_kernel_macro(k, "BULK", p[COMM_P_BULK]);
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "RANKS", (int)prob->v[COMM_RANKS]);
    rfg_kernel_macro(k, "THREADS", p[COMM_P_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[COMM_P_UNROLL]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev, (void)prob;
    *l = (struct rfg_launch){ { 1, 1, 1 },
                              { (uint32_t)p[COMM_P_THREADS], 1, 1 },
                              p[COMM_P_BULK] == COMM_BY_TILES ? 16 : 0 };
}

const struct rfg_variant comm_push = { .name = "comm_push",
                                       .kind = RFG_VARIANT_KERNEL,
                                       .n_params = COMM_NPARAMS,
                                       .params = params,
                                       .supports = supports,
                                       .valid = valid,
                                       .predict = predict,
                                       .kernel = kernel,
                                       .launch = launch };
