/* SPDX-License-Identifier: MIT
 *
 * gemm_direct_mma: what it can do, how it is launched, and how long it should take. */
#include "gpu.h"

enum { P_TILE_M, P_FRAGS_N, P_N_WAVES, P_K_WAVES, P_UNROLL, P_SPLIT_K };

static const struct rfg_param params[] = {
    [P_TILE_M] = { "tile_m", 4, { 8, 16, 32, 64 } },
    [P_FRAGS_N] = { "frags_n", 2, { 1, 2 } },
    [P_N_WAVES] = { "n_waves", 4, { 1, 2, 4, 8 } },
    [P_K_WAVES] = { "k_waves", 6, { 1, 2, 4, 7, 8, 16 } },
    [P_UNROLL] = { "unroll", 8, { 2, 3, 4, 5, 6, 7, 8, 10 } },
    [P_SPLIT_K] = { "split_k", 5, { 1, 2, 4, 7, 8 } },
};

/* What direct.hip derives from its macros. */
struct shape {
    bool cluster;
    int threads, tile_n, frags_m;
    int registers; /* an estimate */
    int lds;       /* bytes */
    int64_t tiles_m, tiles_n, steps;
    int64_t longest; /* steps of the wave that has most */
};

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    bool nvidia = dev->platform == RFG_PLATFORM_NVIDIA, rdna = !nvidia && dev->wave_size == 32;
    int x_rows = nvidia ? 8 : 16, frags_m = (p[P_TILE_M] + x_rows - 1) / x_rows;
    struct shape s = { .cluster = p[P_SPLIT_K] > 1 && dev->features & RFG_FEATURE_CLUSTER,
                       .threads = p[P_N_WAVES] * p[P_K_WAVES] * dev->wave_size,
                       .tile_n = p[P_N_WAVES] * p[P_FRAGS_N] * 16,
                       .frags_m = frags_m };
    int w = nvidia ? 8 : rdna ? 16 : 4, x = nvidia ? 4 : w, c = nvidia || !rdna ? 4 : 8; /* registers of a fragment */
    s.registers =
        p[P_UNROLL] * (w * p[P_FRAGS_N] + x * frags_m) + c * p[P_FRAGS_N] * frags_m + 4 * (p[P_FRAGS_N] + frags_m) + 32;
    int quads = p[P_TILE_M] * s.tile_n / 4;
    s.lds = p[P_K_WAVES] * p[P_TILE_M] * (s.tile_n + 4) * 4;
    if (s.cluster)
        s.lds += (quads / 4 + p[P_SPLIT_K] - 1) / p[P_SPLIT_K] * 4 * p[P_SPLIT_K] * 16;
    s.tiles_m = ceil_div(prob->v[GEMM_M], p[P_TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], s.tile_n);
    s.steps = ceil_div(prob->v[GEMM_K], FRAG_K);
    s.longest = ceil_div(ceil_div(s.steps, p[P_SPLIT_K]), p[P_K_WAVES]);
    return s;
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (dev->platform != RFG_PLATFORM_NVIDIA) /* there gemm_stream_mma does the same in fewer instructions */
        return rfg_refuse(why, "device is %s: must be an NVIDIA GPU", dev->name);
    return takes_mma(dev, prob, why) &&
           (prob->v[GEMM_M] <= 128 || prob->v[GEMM_PREPACKED] || /* there is nothing better for more */
            rfg_refuse(why, "M=%" PRId64 ": must be at most 128, or W is read too often", prob->v[GEMM_M]));
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    if (p[P_SPLIT_K] == 1 || s.cluster)
        return 0;
    return (size_t)(s.tiles_m * s.tiles_n * p[P_SPLIT_K] * p[P_TILE_M] * s.tile_n) * sizeof(float);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    if (s.threads > dev->max_threads)
        return rfg_refuse(why, "n_waves=%d, k_waves=%d: must make at most %d threads", p[P_N_WAVES], p[P_K_WAVES],
                          dev->max_threads);
    if (s.registers > register_limit(dev, s.threads))
        return rfg_refuse(why, "about %d registers: must be at most %d", s.registers, register_limit(dev, s.threads));
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    if (p[P_SPLIT_K] > s.steps)
        return rfg_refuse(why, "split_k=%d: K=%" PRId64 " has %" PRId64 " steps of %d", p[P_SPLIT_K], prob->v[GEMM_K],
                          s.steps, FRAG_K);
    if (s.cluster)
        return grid_fits(s.tiles_m * s.tiles_n * p[P_SPLIT_K], 1, s.threads, 0, why);
    return grid_fits(s.tiles_m * s.tiles_n, p[P_SPLIT_K], s.threads * p[P_SPLIT_K], workspace(dev, prob, p), why);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], groups = s.tiles_m * s.tiles_n * p[P_SPLIT_K];
    int waves = p[P_N_WAVES] * p[P_K_WAVES], least = dev->platform == RFG_PLATFORM_NVIDIA ? 8 : 16;
    if (p[P_TILE_M] < least || (p[P_TILE_M] > least && p[P_TILE_M] / 2 >= m))
        return rfg_refuse(why, "tile_m=%d: less is enough for M=%" PRId64, p[P_TILE_M], m);
    if (p[P_TILE_M] < m && p[P_TILE_M] < 16)
        return rfg_refuse(why, "tile_m=%d: reads W %" PRId64 " times", p[P_TILE_M], s.tiles_m);
    if (s.tile_n > 16 && s.tile_n / 2 >= n)
        return rfg_refuse(why, "tile of %d columns: N=%" PRId64, s.tile_n, n);
    if (waves < 4 || waves > 16 || p[P_N_WAVES] > 4)
        return rfg_refuse(why, "%d waves, %d side by side: must be 4 to 16, at most 4", waves, p[P_N_WAVES]);
    /* Steps shared out evenly, unless CUs are idle anyway, and all of a wave's in flight if registers allow. */
    int64_t all = s.longest * p[P_K_WAVES] * p[P_SPLIT_K], wanted = p[P_UNROLL];
    bool idle = groups * 2 < dev->cu_count;
    if (all * 85 > s.steps * 100 && s.longest > 1 && !idle)
        return rfg_refuse(why, "split_k=%d, k_waves=%d: uneven for %" PRId64 " steps", p[P_SPLIT_K], p[P_K_WAVES],
                          s.steps);
    int best = (int)MIN(MAX(s.longest, 2), 8); /* all of a wave's steps at once, or an even share of them */
    if (wanted != best && (wanted * 2 != best || best < 8) && (s.longest <= 8 || wanted < 4 || s.longest % wanted))
        return rfg_refuse(why, "unroll=%d: %d is better for %" PRId64 " steps", p[P_UNROLL], best, s.longest);
    if (p[P_FRAGS_N] > 1 && (p[P_TILE_M] > 16 || p[P_N_WAVES] > 1))
        return rfg_refuse(why, "frags_n=%d: waves side by side do the same", p[P_FRAGS_N]);
    if (p[P_SPLIT_K] > 1 && groups > 2 * (int64_t)dev->cu_count + 8)
        return rfg_refuse(why, "split_k=%d: %" PRId64 " workgroups on %d CUs", p[P_SPLIT_K], groups, dev->cu_count);
    if (idle && p[P_SPLIT_K] < 8 && s.steps >= 16 * p[P_SPLIT_K])
        return rfg_refuse(why, "split_k=%d: only %" PRId64 " workgroups on %d CUs", p[P_SPLIT_K], groups,
                          dev->cu_count);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    int waves = p[P_N_WAVES] * p[P_K_WAVES], split = p[P_SPLIT_K], frags_m = s.frags_m;
    struct gemm_flow f = { .groups = (double)(s.tiles_m * s.tiles_n) * split, .cluster = s.cluster ? split : 1 };
    f.per_cu =
        gemm_resident(dev, s.threads, MIN(s.registers + 20 - 4 * s.frags_m, register_limit(dev, s.threads)), s.lds);
    f.memory = (m + n) * k * 2;
    /* Waves side by side read the same X, from their CU's cache. */
    double step = (MIN(n, s.tile_n) + MIN(m, p[P_TILE_M])) * FRAG_K * 2 * p[P_K_WAVES];
    f.bytes = step * (double)s.longest;
    f.in_flight = step * (double)MIN(p[P_UNROLL], s.longest);
    f.issue = (double)s.longest * waves * (2 * p[P_FRAGS_N] + frags_m) * c->direct_load;
    f.chain = (double)s.longest * c->direct_step * p[P_FRAGS_N] * (1 + frags_m);
    double quads = ceil((double)p[P_TILE_M] * s.tile_n / 4 / s.threads);
    f.latency = quads * p[P_K_WAVES] * c->direct_quad;
    if (s.cluster)
        f.latency += c->cluster;
    return gemm_flow_us(dev, &f) + (s.cluster ? 0 : gemm_reduce_us(dev, split, MIN(m, p[P_TILE_M]) * s.tile_n * 4.0));
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(dev, prob, p);
    k->source = "gemm/direct.hip";
    k->entry = "gemm_direct_mma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_M", p[P_TILE_M]);
    rfg_kernel_macro(k, "FRAGS_N", p[P_FRAGS_N]);
    rfg_kernel_macro(k, "N_WAVES", p[P_N_WAVES]);
    rfg_kernel_macro(k, "K_WAVES", p[P_K_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT_K]);
    rfg_kernel_macro(k, "CLUSTER", s.cluster);
    /* Not of K but of how the waves divide it: fewer tests. */
    rfg_kernel_macro(k, "EXACT", s.steps % ((int64_t)p[P_SPLIT_K] * p[P_K_WAVES] * p[P_UNROLL]) == 0);
    rfg_kernel_macro(k, "TAIL", prob->v[GEMM_K] % FRAG_K != 0);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)(s.tiles_m * s.tiles_n * p[P_SPLIT_K]), 1, 1 },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant gemm_direct_mma = {
    .name = "gemm_direct_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .valid = valid,
    .worth = worth,
    .predict = predict,
    .workspace = workspace,
    .kernel = kernel,
    .launch = launch,
};
