/* SPDX-License-Identifier: MIT
 *
 * The collectives' kernels: comm.hip. */
#include <math.h>

#include "ops/comm.h"
#include "ops/gpu.h"

#define LINK_NVIDIA 370.0 /* GB/s, of all of a GPU's NVLinks */
#define LINK_AMD    48.0  /* of a link to one peer */
#define WAY_US      1.2
#define FENCE_US    2.0

static const struct rfg_param params[COMM_NPARAMS] = {
    [COMM_P_TWO] = { "two", 2, { 0, 1 } },
    [COMM_P_BULK] = { "bulk", 3, { COMM_BY_PACKETS, COMM_BY_TILES, COMM_BY_LINES } },
    [COMM_P_THREADS] = { "threads", 4, { 128, 256, 512, 1024 } },
    [COMM_P_UNROLL] = { "unroll", 3, { 1, 2, 4 } },
};

/* NVIDIA's from Hopper on. There tiles aren't used: their data lie where lines do, and might look like an epoch. */
static bool has_lines(const struct rfg_device *dev)
{
    return dev->features & RFG_FEATURE_CLUSTER;
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    if (p[COMM_P_BULK] == (has_lines(dev) ? COMM_BY_TILES : COMM_BY_LINES))
        return rfg_refuse(why, "bulk=%d: must be %d on %s", p[COMM_P_BULK], 3 - p[COMM_P_BULK], dev->arch);
    if (p[COMM_P_TWO] && prob->op != comm_ops[COMM_OP_REDUCE])
        return rfg_refuse(why, "two=1: must be 0 but for all_reduce");
    if (p[COMM_P_BULK] == COMM_BY_TILES && !p[COMM_P_TWO] && prob->op == comm_ops[COMM_OP_REDUCE] &&
        prob->v[COMM_RANKS] > 2)
        return rfg_refuse(why, "bulk=1 two=0: must be of at most 2 ranks");
    return true;
}

/* One-shot sends everything to each peer, so of more ranks it is for what is short. Tiles cost a fence: they are for what
 * is long, where there are no lines. */
static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    const int64_t bytes = prob->v[COMM_BYTES], ranks = prob->v[COMM_RANKS];
    (void)dev;
    if (p[COMM_P_TWO] && ranks <= 2)
        return rfg_refuse(why, "two=1: two ranks send as much in one shot");
    if (p[COMM_P_BULK] == COMM_BY_PACKETS && (p[COMM_P_UNROLL] > 1 || p[COMM_P_THREADS] > 512 || bytes > 1 << 20))
        return rfg_refuse(why, "bulk=0: for short messages, with unroll=1 and threads <= 512");
    if (p[COMM_P_BULK] == COMM_BY_TILES && (bytes < 1 << 18 || p[COMM_P_THREADS] < 256))
        return rfg_refuse(why, "bulk=1: for long messages, with threads >= 256");
    if (p[COMM_P_BULK] == COMM_BY_LINES && bytes < 1 << 14)
        return rfg_refuse(why, "bulk=2: %d bytes are few", (int)bytes);
    if (p[COMM_P_BULK] == COMM_BY_LINES && p[COMM_P_TWO] && p[COMM_P_THREADS] > 512)
        return rfg_refuse(why, "two=1 threads=%d: leaves a thread 64 registers, which are too few", p[COMM_P_THREADS]);
    if (p[COMM_P_BULK] && (ranks * p[COMM_P_UNROLL] > 8 || ranks * p[COMM_P_UNROLL] * p[COMM_P_THREADS] > 4096))
        return rfg_refuse(why, "threads=%d unroll=%d: %d ranks' chunks are more than there are registers",
                          p[COMM_P_THREADS], p[COMM_P_UNROLL], (int)ranks);
    return true;
}

/* us of a message: what a launch and a packet's way take, what the link carries, and how often a thread goes round.
 * Measured on two H200 (docs/perf/comm.md); of more, and of AMD's, estimated. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    static const double carries[] = { [COMM_BY_PACKETS] = 2, [COMM_BY_TILES] = 1, [COMM_BY_LINES] = 16.0 / 15 };
    const double ranks = (double)prob->v[COMM_RANKS], bytes = (double)prob->v[COMM_BYTES], peers = ranks - 1;
    const int by = p[COMM_P_BULK], two = p[COMM_P_TWO];
    const double link = dev->platform == RFG_PLATFORM_NVIDIA ? LINK_NVIDIA : LINK_AMD * peers;
    const double sent = two ? 2 * bytes * peers / ranks : bytes * peers;
    const double part = (two ? bytes / ranks : bytes) / 16;
    const double tile = p[COMM_P_THREADS] * (by == COMM_BY_TILES   ? p[COMM_P_UNROLL]
                                             : by == COMM_BY_LINES ? 15.0 / 16
                                                                   : 1);
    const double groups = MAX(part / tile, 1), at_once = by == COMM_BY_PACKETS ? 4 * dev->cu_count : dev->cu_count;
    const double turns = ceil(groups / at_once);
    double us = dev->latency_us + WAY_US * (1 + two) + sent * carries[by] / link * 1e-3;
    if (by == COMM_BY_TILES)
        us += FENCE_US * (1 + two) * turns;
    else
        us += 0.1 * (by == COMM_BY_LINES) + 0.15 * (turns - 1) + 0.05 * p[COMM_P_UNROLL];
    return us + 0.0002 * p[COMM_P_THREADS];
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
                                       .worth = worth,
                                       .predict = predict,
                                       .kernel = kernel,
                                       .launch = launch };
