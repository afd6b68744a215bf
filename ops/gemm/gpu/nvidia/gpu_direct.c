/* SPDX-License-Identifier: MIT
 *
 * gemm_direct_mma: a W of 8 bits and few rows of X on Hopper, W straight to registers (direct.hip). */
#include "ops/gemm/gpu/any/gpu.h"
#include "direct_layout.h"

enum { TILE_M, FRAGS_N, N_WAVES, K_WAVES, SPLIT, AHEAD, FETCH };

static const struct rfg_param params[] = {
    [TILE_M] = { "tile_m", 2, { 8, 16 } },
    [FRAGS_N] = { "frags_n", 2, { 1, 2 } },
    [N_WAVES] = { "n_waves", 8, { 1, 2, 3, 4, 6, 7, 8, 14 } },
    [K_WAVES] = { "k_waves", 5, { 1, 2, 4, 8, 16 } },
    [SPLIT] = { "split", 6, { 1, 2, 3, 4, 6, 8 } },
    [AHEAD] = { "ahead", 4, { 2, 3, 4, 6 } },
    [FETCH] = { "fetch", 4, { 0, 4, 16, 64 } },
};

/* What direct.hip derives from its macros. */
struct shape {
    int threads, tile_n, lds, registers;                          /* registers: an estimate */
    int64_t tiles_m, tiles_n, groups, steps, longest, waves_most; /* longest: steps of a workgroup; of a wave */
};

static struct shape shape_of(const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .threads = 32 * p[N_WAVES] * p[K_WAVES], .tile_n = 16 * p[N_WAVES] * p[FRAGS_N] };
    int frags_m = p[TILE_M] / 8, blocks = p[N_WAVES] * p[FRAGS_N] * frags_m;
    bool scaled = gemm_scales(prob) == GEMM_SCALES_BLOCKS;
    s.tiles_m = ceil_div(prob->v[GEMM_M], p[TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], s.tile_n);
    s.groups = s.tiles_m * s.tiles_n * p[SPLIT];
    s.steps = ceil_div(prob->v[GEMM_K], DIRECT_STEP);
    s.longest = ceil_div(s.steps, p[SPLIT]);
    s.waves_most = ceil_div(s.longest, p[K_WAVES]);
    s.lds = (int)MIN(DIRECT_LDS_BYTES(blocks, p[K_WAVES], p[SPLIT], p[TILE_M], s.longest), INT32_MAX);
    s.registers = (scaled ? 56 : 44) +
                  p[FRAGS_N] * ((8 + (scaled ? 2 : 0)) * p[AHEAD] + 8 + (scaled ? 8 : 4) * frags_m) + 8 * frags_m;
    return s;
}

static const struct gemm_takes takes = {
    .rows = GEMM_READ_W8,
    .prepacked = GEMM_READ_W8,
    .chunks = true,
    .ends = GEMM_ENDS_EPILOGUE & ~GEMM_END_EXPERTS,
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return has_wgmma(dev, why) && takes_mma(dev, prob, &takes, why) && few_rows(prob, 64, why) &&
           scales_steps(prob, why);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(prob, p);
    if (s.threads > dev->max_threads)
        return rfg_refuse(why, "n_waves=%d, k_waves=%d: must be at most %d waves", p[N_WAVES], p[K_WAVES],
                          dev->max_threads / 32);
    if (s.registers > register_limit(dev, s.threads))
        return rfg_refuse(why, "about %d registers: must be at most %d", s.registers, register_limit(dev, s.threads));
    if (p[K_WAVES] * DIRECT_SET_PIECES(s.longest, p[K_WAVES]) > DIRECT_PIECES || s.lds > dev->lds_bytes)
        return rfg_refuse(why, "split=%d: x has %" PRId64 " columns of a workgroup: LDS has no room", p[SPLIT],
                          s.longest * DIRECT_STEP);
    if (p[SPLIT] > s.steps)
        return rfg_refuse(why, "split=%d: K=%" PRId64 " has %" PRId64 " steps of %d", p[SPLIT], prob->v[GEMM_K],
                          s.steps, DIRECT_STEP);
    return grid_fits(s.groups, 1, s.threads, why);
}

static double resident(const struct rfg_device *dev, const struct shape *s)
{
    return gemm_resident(dev, s->threads, s->registers, s->lds);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(prob, p);
    int64_t m = prob->v[GEMM_M], cus = dev->cu_count;
    int waves = p[N_WAVES] * p[K_WAVES];
    if (m > p[TILE_M] || (p[TILE_M] > 8 && p[TILE_M] / 2 >= m))
        return rfg_refuse(why, "tile_m=%d: M=%" PRId64, p[TILE_M], m);
    if (waves < 7 || waves > 16)
        return rfg_refuse(why, "%d waves: 7 to 16 are better", waves);
    if (p[AHEAD] * p[FRAGS_N] > 6)
        return rfg_refuse(why, "ahead=%d, frags_n=%d: at most 6 blocks of W in flight are faster", p[AHEAD],
                          p[FRAGS_N]);
    if (p[AHEAD] > 2 && p[AHEAD] > s.waves_most)
        return rfg_refuse(why, "ahead=%d: a wave has %" PRId64 " steps", p[AHEAD], s.waves_most);
    if (p[FETCH] && p[AHEAD] + p[FETCH] / 4 >= s.waves_most)
        return rfg_refuse(why, "fetch=%d: a wave has %" PRId64 " steps", p[FETCH], s.waves_most);
    if (p[FETCH] && (double)s.groups * waves * p[FRAGS_N] * p[FETCH] * 1024 > 40e6 && p[FETCH] < s.waves_most)
        return rfg_refuse(why, "fetch=%d: more than L2 keeps", p[FETCH]);
    if (p[K_WAVES] * 2 > s.longest)
        return rfg_refuse(why, "k_waves=%d: a workgroup has %" PRId64 " steps", p[K_WAVES], s.longest);
    if (s.longest * p[SPLIT] * 90 > s.steps * 100 && p[SPLIT] > 1)
        return rfg_refuse(why, "split=%d: uneven for %" PRId64 " steps", p[SPLIT], s.steps);
    if (p[SPLIT] > 1 && (double)s.groups > gemm_at_once(dev, p[SPLIT], resident(dev, &s)))
        return rfg_refuse(why, "split=%d: %" PRId64 " workgroups on %d CUs", p[SPLIT], s.groups, dev->cu_count);
    if (s.groups * 3 < cus * 2 && s.steps >= 4 * p[SPLIT])
        return rfg_refuse(why, "split=%d: only %" PRId64 " workgroups on %d CUs", p[SPLIT], s.groups, dev->cu_count);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double longest = (double)s.longest, frags_m = p[TILE_M] / 8, waves = p[N_WAVES] * p[K_WAVES];
    struct gemm_flow f = { .groups = (double)s.groups, .cluster = p[SPLIT], .per_cu = resident(dev, &s) };
    /* By rows gemm_thin_mma is faster, of which the model thinks too little (H200). */
    f.memory = m * k * x_bytes(prob) + n * (double)gemm_w_row_bytes(prob) * (prob->v[GEMM_PREPACKED] ? 1 : 1.4);
    f.bytes = (MIN(n, s.tile_n) + MIN(m, p[TILE_M]) * x_bytes(prob)) * DIRECT_STEP * longest;
    f.in_flight = MIN(f.bytes, waves * p[FRAGS_N] * p[AHEAD] * 1024);
    double step = 80 + 6 * frags_m + 4 * frags_m / p[FRAGS_N]; /* instructions, of 16 rows of W */
    f.issue = longest * p[N_WAVES] * p[FRAGS_N] * step / 4 / 1700;
    f.chain = (double)s.waves_most * p[FRAGS_N] * step * 4 / 1700; /* a wave does an instruction in four clocks or so */
    f.overlaps = rfg_problem_overlaps(prob);
    f.early = c->wgmma_fill / 2;
    f.latency = c->wgmma_fill + 1 + 0.4 * MAX(p[FRAGS_N] * p[AHEAD] - 4, 0); /* x waits behind w */
    if (p[SPLIT] > 1)
        f.latency += s.tile_n * p[TILE_M] * 4 / 1024.0 * c->wgmma_sent;
    return gemm_flow_us(dev, &f);
}

/* Steps follow one another in each set of waves, then come the sets and the workgroups. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_direct_mma k_waves=%d split=%d", p[K_WAVES], p[SPLIT]);
    return true;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(prob, p);
    (void)dev;
    k->source = "gemm/gpu/nvidia/direct.hip";
    k->entry = "gemm_direct_mma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_M", p[TILE_M]);
    rfg_kernel_macro(k, "FRAGS_N", p[FRAGS_N]);
    rfg_kernel_macro(k, "N_WAVES", p[N_WAVES]);
    rfg_kernel_macro(k, "K_WAVES", p[K_WAVES]);
    rfg_kernel_macro(k, "SPLIT", p[SPLIT]);
    rfg_kernel_macro(k, "AHEAD", p[AHEAD]);
    rfg_kernel_macro(k, "FETCH", p[FETCH]);
    rfg_kernel_macro(k, "X_FIRST", !rfg_problem_overlaps(prob));
    rfg_kernel_macro(k, "EXACT", s.steps % ((int64_t)p[SPLIT] * p[K_WAVES] * p[AHEAD]) == 0);
    rfg_kernel_macro(k, "TAIL", prob->v[GEMM_K] % DIRECT_STEP != 0);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(prob, p);
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)s.groups, 1, 1 }, { (uint32_t)s.threads, 1, 1 }, (uint32_t)s.lds };
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
    .order = order_of,
    .kernel = kernel,
    .launch = launch,
};
