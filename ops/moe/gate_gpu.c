/* SPDX-License-Identifier: MIT
 *
 * The GPU variant of moe_gate, moe_gate_arrive: one launch, whose last workgroup to arrive chooses. */
#include <inttypes.h>

#include "gate.h"
#include "ops/gpu.h"

enum { P_ROWS, P_TOKENS, P_STEPS, P_CHUNKS };

static const struct rfg_param params[] = {
    [P_ROWS] = { "rows", 3, { 1, 2, 4 } },                /* experts of a workgroup */
    [P_TOKENS] = { "tokens", 3, { 1, 2, 4 } },            /* that it multiplies at a time */
    [P_STEPS] = { "steps", 4, { 1, 2, 4, 8 } },           /* chunks of 8 columns that a thread holds, at most */
    [P_CHUNKS] = { "chunks", 6, { 1, 2, 4, 8, 16, 32 } }, /* experts of a lane that chooses, at most */
};

static bool gate_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static int64_t steps_of(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return ceil_div(prob->v[GATE_K], (int64_t)8 * GATE_WAVES * dev->wave_size);
}

static int chunks_of(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    struct rfg_problem route = gate_route(prob);
    return route_experts_each(&route, dev->wave_size);
}

static bool gate_params_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                              struct rfg_reason *why)
{
    int needed = chunks_of(dev, prob), held = (p[P_ROWS] + p[P_TOKENS] + (prob->v[GATE_NORM] != 0)) * p[P_STEPS];
    if (p[P_STEPS] < steps_of(dev, prob))
        return rfg_refuse(why, "steps=%d: a thread has %" PRId64, p[P_STEPS], steps_of(dev, prob));
    if (held > 28)
        return rfg_refuse(why, "rows=%d, tokens=%d, steps=%d: a thread holds %d pieces of 16 bytes, must be at most 28",
                          p[P_ROWS], p[P_TOKENS], p[P_STEPS], held);
    if (p[P_CHUNKS] < needed)
        return rfg_refuse(why, "chunks=%d: a lane has %d experts", p[P_CHUNKS], needed);
    return p[P_CHUNKS] <= ROUTE_WAVE_E / dev->wave_size ||
           rfg_refuse(why, "chunks=%d: must be at most %d, what a lane of %d ever has", p[P_CHUNKS],
                      ROUTE_WAVE_E / dev->wave_size, dev->wave_size);
}

static bool gate_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    if (p[P_STEPS] / 2 >= steps_of(dev, prob))
        return rfg_refuse(why, "steps=%d: half as many hold a row", p[P_STEPS]);
    if (p[P_CHUNKS] / 2 >= chunks_of(dev, prob))
        return rfg_refuse(why, "chunks=%d: half as many hold a row", p[P_CHUNKS]);
    return p[P_TOKENS] / 2 < prob->v[GATE_T] || p[P_TOKENS] == 1 ||
           rfg_refuse(why, "tokens=%d: half of it takes all", p[P_TOKENS]);
}

/* W, while it arrives X; a reduction; the arrival; the logits, the picks; the pairs, each of which looks at all. */
static double gate_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    double groups = (double)ceil_div(v[GATE_E], p[P_ROWS]), t = (double)v[GATE_T], k = (double)v[GATE_K];
    double w = 2.0 * (double)v[GATE_E] * k / MAX(1e3 * dev->mem_gbps, 1);
    double x = 2.0 * groups * t * k / MAX(1e3 * dev->cache_gbps, 1);
    double batches = (double)ceil_div(v[GATE_T], p[P_TOKENS]), on_a_cu = MAX(groups / dev->cu_count, 1);
    double pairs = t * (double)(v[GATE_TOP] + v[GATE_SHARED]);
    double threads = GATE_WAVES * dev->wave_size, turns = pairs / threads + (double)v[GATE_E] / threads + 1;
    double picks = (double)ceil_div(v[GATE_T], GATE_WAVES) * (0.3 + 0.1 * (double)v[GATE_TOP]);
    return dev->latency_us + dev->sync_us + 2 * dev->load_us + w + x + 0.2 * batches * on_a_cu * p[P_TOKENS] + picks +
           0.01 * turns * pairs + 0.01 * p[P_CHUNKS];
}

static void gate_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    struct rfg_problem route = gate_route(prob);
    (void)dev;
    k->source = "moe/gate.hip";
    k->entry = "moe_gate";
    route_macros(&route, k);
    rfg_kernel_macro(k, "CHUNKS", p[P_CHUNKS]);
    rfg_kernel_macro(k, "X_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "NORM", (int)prob->v[GATE_NORM]);
    rfg_kernel_macro(k, "W_BIAS", (int)prob->v[GATE_W_BIAS]);
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
    rfg_kernel_macro(k, "TOKENS", p[P_TOKENS]);
    rfg_kernel_macro(k, "STEPS", p[P_STEPS]);
}

static void gate_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)ceil_div(prob->v[GATE_E], p[P_ROWS]), 1, 1 },
                              { (uint32_t)(GATE_WAVES * dev->wave_size), 1, 1 },
                              0 };
}

const struct rfg_variant moe_gate_arrive = {
    .name = "moe_gate_arrive",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = gate_supports,
    .valid = gate_params_valid,
    .worth = gate_worth,
    .predict = gate_predict,
    .workspace = gate_workspace,
    .kernel = gate_kernel,
    .launch = gate_launch,
};
