/* SPDX-License-Identifier: MIT
 *
 * The GPU variant of advance: one workgroup, any problem. */
#include "advance.h"
#include "ops/gpu.h"

enum { P_THREADS };

static const struct rfg_param params[] = {
    [P_THREADS] = { "threads", 2, { 64, 256 } },
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    (void)dev;
    return p[P_THREADS] == 64 || prob->v[ADVANCE_B] > p[P_THREADS] / 4 ||
           rfg_refuse(why, "threads=%d: a quarter of it has a thread for each sequence", p[P_THREADS]);
}

/* A round: a length, its blocks, the list's; then stores, one for each token. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    double rounds = (double)ceil_div(v[ADVANCE_B], p[P_THREADS]), waves = p[P_THREADS] / (double)dev->wave_size;
    double loads = 1 + (v[ADVANCE_PAGE] > 0) + (v[ADVANCE_SPARE] > 0);
    return dev->latency_us + dev->load_us +
           rounds * (loads * dev->load_us + 0.1 * (double)v[ADVANCE_SQ] + 0.02 * waves);
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "advance/advance.hip";
    k->entry = "advance_group";
    rfg_kernel_macro(k, "POSITION_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    page_macro(k, prob->v[ADVANCE_PAGE]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev, (void)prob;
    *l = (struct rfg_launch){ { 1, 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

const struct rfg_variant advance_group = {
    .name = "advance_group",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .worth = worth,
    .predict = predict,
    .kernel = kernel,
    .launch = launch,
};
