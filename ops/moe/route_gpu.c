/* SPDX-License-Identifier: MIT
 *
 * The GPU variant of moe_route, moe_route_wave: a wave a token. */
#include "ops/gpu.h"
#include "route.h"

enum { P_CHUNKS, P_WAVES };

static const struct rfg_param wave_params[] = {
    [P_CHUNKS] = { "chunks", 6, { 1, 2, 4, 8, 16, 32 } }, /* experts of a lane, at most */
    [P_WAVES] = { "waves", 4, { 1, 2, 4, 8 } },           /* of a workgroup, each with a token of its own */
};

/* Experts of a lane: groups share the lanes out. */
static int experts_a_lane(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    struct route_args a = route_args_of(prob);
    return (int)ceil_div(a.size, dev->wave_size >> a.group_bits);
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool wave_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int needed = experts_a_lane(dev, prob), most = ROUTE_MAX_E / dev->wave_size;
    if (p[P_CHUNKS] < needed)
        return rfg_refuse(why, "chunks=%d: a lane has %d experts", p[P_CHUNKS], needed);
    return p[P_CHUNKS] <= most || rfg_refuse(why, "chunks=%d: must be at most %d, what a lane of %d ever has",
                                             p[P_CHUNKS], most, dev->wave_size);
}

static bool wave_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t t = prob->v[ROUTE_T];
    if (p[P_CHUNKS] / 2 >= experts_a_lane(dev, prob))
        return rfg_refuse(why, "chunks=%d: half as many hold a row", p[P_CHUNKS]);
    if (p[P_WAVES] > 1 && t < (int64_t)p[P_WAVES] * dev->cu_count)
        return rfg_refuse(why, "waves=%d: leaves CUs idle", p[P_WAVES]);
    return p[P_WAVES] > 2 || t <= 32 * (int64_t)dev->cu_count ||
           rfg_refuse(why, "waves=%d: more workgroups than need be", p[P_WAVES]);
}

/* A lane's experts are loaded, perhaps scored, and gone through for each pick, 4 instructions each; a CU issues one of
 * a wave in four clocks, of 2 GHz, on each of four parts. What waits for another lane, or for memory,
 * other waves hide. */
static double wave_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    double bytes, flops, top = (double)v[ROUTE_TOP], chunks = p[P_CHUNKS];
    prob->op->cost(prob, &bytes, &flops);
    bool apart = v[ROUTE_BIAS] && v[ROUTE_SCORE] != RFG_MOE_TOPK_SOFTMAX;
    double loads = 1.0 + (double)v[ROUTE_TOKENS] + (apart ? 0.5 : 0);
    double picks = top * 0.1 + (v[ROUTE_GROUPS] > 1 ? 0.3 : 0) + 0.2;
    double issued = 0.002 * chunks * ((apart ? 40 : 10) + 4 * top);
    double turns = MAX((double)v[ROUTE_T] / (4.0 * dev->cu_count), 1), hidden = MIN(turns, 4);
    return dev->latency_us + loads * dev->load_us + turns * (issued + picks / hidden) + 0.01 * (p[P_WAVES] - 1) +
           bytes / MAX(1e3 * dev->mem_gbps, 1);
}

static void wave_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    (void)dev;
    k->source = "moe/route.hip";
    k->entry = "moe_route_wave";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "SCORE", (int)v[ROUTE_SCORE]);
    rfg_kernel_macro(k, "BIAS", (int)v[ROUTE_BIAS]);
    rfg_kernel_macro(k, "BIAS_DTYPE", v[ROUTE_BIAS] ? route_bias_dtype(prob) : prob->dtype[0]);
    rfg_kernel_macro(k, "GROUPED", v[ROUTE_GROUPS] > 1);
    rfg_kernel_macro(k, "CHUNKS", p[P_CHUNKS]);
    rfg_kernel_macro(k, "WAVES", p[P_WAVES]);
}

static void wave_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    int64_t groups = MIN(ceil_div(prob->v[ROUTE_T], p[P_WAVES]), MAX_GROUPS);
    *l = (struct rfg_launch){ { (uint32_t)groups, 1, 1 }, { (uint32_t)(p[P_WAVES] * dev->wave_size), 1, 1 }, 0 };
}

const struct rfg_variant moe_route_wave = {
    .name = "moe_route_wave",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(wave_params),
    .params = wave_params,
    .supports = supports,
    .valid = wave_valid,
    .worth = wave_worth,
    .predict = wave_predict,
    .kernel = wave_kernel,
    .launch = wave_launch,
};
