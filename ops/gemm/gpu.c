/* SPDX-License-Identifier: MIT
 *
 * The JIT-compiled gemm variants: what they can do, which parameters are worth a try, and the model that ranks them. */
#include <math.h>

#include "gemm.h"

#define WORKSPACE ((int64_t)32 << 20) /* what a stream has */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int dt(uint8_t dtype)
{
    return dtype == RFG_BF16 ? 0 : dtype == RFG_F16 ? 1 : 2; /* DT_BF16, DT_F16, DT_F32 of rfg_device.h */
}

static void kernel(struct rfg_kernel *k, const char *source, const char *entry, const struct rfg_problem *prob)
{
    k->source = source;
    k->entry = entry;
    rfg_kernel_macro(k, "DT_IN", dt(prob->dtype[0]));
    rfg_kernel_macro(k, "DT_OUT", dt(prob->dtype[2]));
}

static void launch(struct rfg_launch *l, int64_t x, int64_t y, int64_t z, int threads, int lds)
{
    *l = (struct rfg_launch){ { (uint32_t)x, (uint32_t)y, (uint32_t)z }, { (uint32_t)threads, 1, 1 }, (uint32_t)lds };
}

static bool on_gpu(const struct rfg_device *dev, struct rfg_reason *why)
{
    return dev->platform != RFG_PLATFORM_CPU || rfg_refuse(why, "needs a GPU, this is %s", dev->name);
}

/* What the 16-byte-at-a-time kernels need. */
static bool is_wide(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (prob->dtype[0] == RFG_F32)
        return rfg_refuse(why, "x is f32: must be bf16 or f16");
    if (prob->v[GEMM_K] % 8 || prob->v[GEMM_K] == 0)
        return rfg_refuse(why, "K=%lld: must be a positive multiple of 8", (long long)prob->v[GEMM_K]);
    if (prob->v[GEMM_ALIGN] < 16)
        return rfg_refuse(why, "align=%lld: rows of x and w must be 16-byte aligned", (long long)prob->v[GEMM_ALIGN]);
    return true;
}

/* Microseconds to bring `bytes` from memory when `groups` workgroups, of which a CU holds `resident`, each keep
 * `flight` bytes on their way: Little's law, a latency of 0.7 us, and whole rounds of workgroups. */
static double stream_us(const struct rfg_device *dev, double bytes, double groups, double resident, double flight)
{
    double slots = dev->cu_count * resident, rounds = ceil(groups / slots);
    double busy = groups / rounds; /* on average, resident at a time */
    double rate = fmin(dev->mem_gbps * 1e3, busy * flight / 0.7);
    double per_cu = fmin(resident, ceil(groups / dev->cu_count)) * flight / 0.7; /* a CU's own limit: ~1.6x its share */
    rate = fmin(rate, fmin(groups, dev->cu_count) * fmin(per_cu, 1.6 * dev->mem_gbps * 1e3 / dev->cu_count));
    return bytes / rate + 0.5;
}

/* The last arriver reads `split` partials of a tile; the others write one each. */
static double reduce_us(const struct rfg_device *dev, int split, double partial_bytes)
{
    return split == 1 ? 0 : dev->sync_us + 0.03 * split + split * partial_bytes * 2 / (dev->mem_gbps * 1e3);
}

/* ---- portable -------------------------------------------------------------------------------------------------------
 */

static const struct rfg_param portable_params[] = { { "tile", 3, { 32, 16, 64 } } };

static bool portable_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!on_gpu(dev, why))
        return false;
    int64_t groups = ceil_div(prob->v[GEMM_M], 64);
    return groups <= 65535 || rfg_refuse(why, "M=%lld: more than 65535 tiles of 64", (long long)prob->v[GEMM_M]);
}

static bool portable_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_reason *why)
{
    (void)dev;
    return ceil_div(prob->v[GEMM_M], p[0]) <= 65535 || rfg_refuse(why, "tile=%d: M has more than 65535 of them", p[0]);
}

static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double groups = (double)(ceil_div(prob->v[GEMM_N], p[0]) * ceil_div(prob->v[GEMM_M], p[0]));
    double steps = (double)ceil_div(prob->v[GEMM_K], 16);
    double step_us = 0.9 + p[0] * p[0] * 16e-6 * 2; /* load, barrier, load latency: nothing overlaps within a group */
    return dev->latency_us + ceil(groups / (dev->cu_count * 4.0)) * steps * step_us;
}

static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                            struct rfg_kernel *k)
{
    (void)dev;
    kernel(k, "gemm/portable.hip", "gemm_portable", prob);
    rfg_kernel_macro(k, "TILE", p[0]);
}

static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                            struct rfg_launch *l)
{
    (void)dev;
    launch(l, ceil_div(prob->v[GEMM_N], p[0]), ceil_div(prob->v[GEMM_M], p[0]), 1, 256, 2 * 16 * (p[0] + 1) * 4);
}

const struct rfg_variant gemm_portable = {
    .name = "gemm_portable",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = 1,
    .params = portable_params,
    .supports = portable_supports,
    .valid = portable_valid,
    .predict = portable_predict,
    .kernel = portable_kernel,
    .launch = portable_launch,
};

/* ---- skinny ---------------------------------------------------------------------------------------------------------
 */

enum { SK_M_TILE, SK_ROWS, SK_WAVES, SK_UNROLL, SK_SPLIT };
static const struct rfg_param skinny_params[] = {
    { "m_tile", 5, { 1, 2, 4, 8, 16 } }, { "rows", 4, { 1, 2, 4, 8 } },    { "waves", 4, { 1, 2, 4, 8 } },
    { "unroll", 3, { 1, 2, 4 } },        { "split_k", 4, { 1, 2, 4, 8 } },
};

static bool skinny_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!on_gpu(dev, why) || !is_wide(prob, why))
        return false;
    return prob->v[GEMM_M] <= 16 || rfg_refuse(why, "M=%lld: must be at most 16", (long long)prob->v[GEMM_M]);
}

static int64_t skinny_groups(const struct rfg_problem *prob, const int *p)
{
    return ceil_div(prob->v[GEMM_N], p[SK_ROWS]);
}

static bool skinny_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_reason *why)
{
    int64_t groups = skinny_groups(prob, p);
    if (prob->v[GEMM_M] > p[SK_M_TILE])
        return rfg_refuse(why, "m_tile=%d: must be at least M=%d", p[SK_M_TILE], (int)prob->v[GEMM_M]);
    if (p[SK_M_TILE] * p[SK_ROWS] > 32)
        return rfg_refuse(why, "m_tile*rows=%d: more than 32 sums a lane", p[SK_M_TILE] * p[SK_ROWS]);
    if (p[SK_ROWS] * p[SK_UNROLL] > 8)
        return rfg_refuse(why, "rows*unroll=%d: more than 8 loads in flight a lane", p[SK_ROWS] * p[SK_UNROLL]);
    if (p[SK_WAVES] * dev->wave_size > dev->max_threads)
        return rfg_refuse(why, "waves=%d: more than %d threads", p[SK_WAVES], dev->max_threads);
    if (p[SK_SPLIT] > 1 && groups > RFG_COUNTERS)
        return rfg_refuse(why, "split_k=%d: more than %d tiles", p[SK_SPLIT], RFG_COUNTERS);
    if (p[SK_SPLIT] > 1 && groups * p[SK_SPLIT] * p[SK_M_TILE] * p[SK_ROWS] * 4 > WORKSPACE)
        return rfg_refuse(why, "split_k=%d: partial sums need more than the workspace", p[SK_SPLIT]);
    return true;
}

static bool skinny_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_reason *why)
{
    int64_t m = prob->v[GEMM_M], step = 8 * (int64_t)dev->wave_size * p[SK_WAVES] * p[SK_SPLIT];
    if (2 * m <= p[SK_M_TILE])
        return rfg_refuse(why, "m_tile=%d: half of it is enough for M=%d", p[SK_M_TILE], (int)m);
    if (p[SK_WAVES] * p[SK_SPLIT] > 1 && step > prob->v[GEMM_K])
        return rfg_refuse(why, "waves*split_k=%d: more than there is of K", p[SK_WAVES] * p[SK_SPLIT]);
    if (p[SK_SPLIT] > 1 && skinny_groups(prob, p) * p[SK_SPLIT] > 8 * dev->cu_count)
        return rfg_refuse(why, "split_k=%d: there are enough workgroups without", p[SK_SPLIT]);
    return true;
}

static double skinny_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double groups = (double)skinny_groups(prob, p) * p[SK_SPLIT];
    double threads = (double)p[SK_WAVES] * dev->wave_size, resident = fmin(16, 1024 / threads);
    double flight = threads * p[SK_ROWS] * p[SK_UNROLL] * 16;
    double bytes = n * k * 2;
    /* Four fp32 operations (two conversions, two FMAs' worth) a weight and row of X, and X again from the cache. */
    double alu = n * k * p[SK_M_TILE] * 4 / (dev->fma_tflops * 0.5e6);
    double x_us = groups * p[SK_M_TILE] * k / p[SK_SPLIT] * 2 / (dev->cu_count * 60e3);
    double us = stream_us(dev, bytes, groups, resident, flight);
    double tail = 0.15 * log2(p[SK_M_TILE] * p[SK_ROWS] + 1);
    return dev->latency_us + fmax(us, fmax(alu, x_us)) + 0.3 * fmin(us, fmax(alu, x_us)) + tail +
           reduce_us(dev, p[SK_SPLIT], p[SK_M_TILE] * n * 4);
}

static size_t skinny_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    return p[SK_SPLIT] == 1 ? 0
                            : (size_t)skinny_groups(prob, p) * (size_t)(p[SK_SPLIT] * p[SK_M_TILE] * p[SK_ROWS]) * 4;
}

static void skinny_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_kernel *k)
{
    (void)dev;
    kernel(k, "gemm/skinny.hip", "gemm_skinny", prob);
    rfg_kernel_macro(k, "M_TILE", p[SK_M_TILE]);
    rfg_kernel_macro(k, "ROWS", p[SK_ROWS]);
    rfg_kernel_macro(k, "WAVES", p[SK_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[SK_UNROLL]);
}

static void skinny_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_launch *l)
{
    launch(l, skinny_groups(prob, p), 1, p[SK_SPLIT], p[SK_WAVES] * dev->wave_size,
           p[SK_WAVES] * p[SK_M_TILE] * p[SK_ROWS] * 4 + 16);
}

const struct rfg_variant gemm_skinny = {
    .name = "gemm_skinny",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = sizeof(skinny_params) / sizeof(skinny_params[0]),
    .params = skinny_params,
    .supports = skinny_supports,
    .valid = skinny_valid,
    .worth = skinny_worth,
    .predict = skinny_predict,
    .workspace = skinny_workspace,
    .kernel = skinny_kernel,
    .launch = skinny_launch,
};

/* ---- split-K on the matrix cores ------------------------------------------------------------------------------------
 */

enum { MM_TILE_M, MM_TILE_N, MM_TILE_K, MM_N_WAVES, MM_K_WAVES, MM_STAGES, MM_SPLIT };
static const struct rfg_param mma_params[] = {
    { "tile_m", 4, { 16, 32, 64, 128 } },
    { "tile_n", 4, { 16, 32, 64, 128 } },
    { "tile_k", 3, { 64, 128, 256 } },
    { "n_waves", 3, { 1, 2, 4 } },
    { "k_waves", 4, { 1, 2, 4, 8 } },
    { "stages", 5, { 2, 3, 4, 6, 8 } },
    { "split_k", 12, { 1, 2, 3, 4, 6, 7, 8, 10, 14, 16, 20, 28 } },
};

/* The prelude's RFG_KSTEP and LDS row padding. */
static int mma_kstep(const struct rfg_device *dev)
{
    return dev->platform == RFG_PLATFORM_NVIDIA || dev->wave_size == 64 ? 32 : 16;
}

static int mma_row(const struct rfg_device *dev, int tile_k)
{
    int row = tile_k * 2;
    return dev->platform == RFG_PLATFORM_NVIDIA ? row + (row % 128 ? 0 : 64) : row + 16;
}

static int mma_sums(const struct rfg_device *dev, const int *p)
{
    return p[MM_TILE_M] / 16 * (p[MM_TILE_N] / p[MM_N_WAVES] / 16) * (256 / dev->wave_size);
}

static int mma_lds(const struct rfg_device *dev, const int *p)
{
    int ring = p[MM_STAGES] * (p[MM_TILE_M] + p[MM_TILE_N]) * mma_row(dev, p[MM_TILE_K]);
    int reduction = (p[MM_K_WAVES] - 1) * p[MM_N_WAVES] * mma_sums(dev, p) * dev->wave_size * 4;
    return ring > reduction ? ring : reduction;
}

static int64_t mma_tiles(const struct rfg_problem *prob, const int *p)
{
    return ceil_div(prob->v[GEMM_N], p[MM_TILE_N]) * ceil_div(prob->v[GEMM_M], p[MM_TILE_M]);
}

static size_t mma_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    return p[MM_SPLIT] == 1
               ? 0
               : (size_t)mma_tiles(prob, p) * (size_t)p[MM_SPLIT] * (size_t)(p[MM_TILE_M] * p[MM_TILE_N]) * 4;
}

static bool mma_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!on_gpu(dev, why) || !is_wide(prob, why))
        return false;
    if (!(dev->features & RFG_FEATURE_MMA))
        return rfg_refuse(why, "needs matrix cores, %s has none", dev->arch);
    return prob->v[GEMM_M] <= 16 * 65535 ||
           rfg_refuse(why, "M=%lld: more than 65535 tiles of 16", (long long)prob->v[GEMM_M]);
}

static bool mma_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                      struct rfg_reason *why)
{
    int64_t m = prob->v[GEMM_M], tiles = mma_tiles(prob, p);
    int waves = p[MM_N_WAVES] * p[MM_K_WAVES], threads = waves * dev->wave_size;
    bool amd_wave32 = dev->wave_size == 32 && dev->platform != RFG_PLATFORM_NVIDIA;
    if (threads < 64 || threads > 256)
        return rfg_refuse(why, "n_waves*k_waves=%d: must make 64 to 256 threads", waves);
    if (p[MM_TILE_N] % (16 * p[MM_N_WAVES]))
        return rfg_refuse(why, "tile_n=%d: must be a multiple of 16*n_waves", p[MM_TILE_N]);
    if (p[MM_TILE_K] % (mma_kstep(dev) * p[MM_K_WAVES]))
        return rfg_refuse(why, "tile_k=%d: must be a multiple of %d*k_waves", p[MM_TILE_K], mma_kstep(dev));
    if (threads % (p[MM_TILE_K] / 8))
        return rfg_refuse(why, "tile_k=%d: %d threads can't copy whole rows", p[MM_TILE_K], threads);
    if (mma_sums(dev, p) > (amd_wave32 ? 32 : 64))
        return rfg_refuse(why, "tile_m=%d, tile_n=%d: too many accumulators a lane", p[MM_TILE_M], p[MM_TILE_N]);
    /* Registers that hold a tile between issue and landing, on AMD. */
    if (dev->platform != RFG_PLATFORM_NVIDIA &&
        (p[MM_TILE_M] + p[MM_TILE_N]) * p[MM_TILE_K] / 8 / threads > (amd_wave32 ? 8 : 16))
        return rfg_refuse(why, "tile_k=%d: too many registers to copy a tile", p[MM_TILE_K]);
    if (mma_lds(dev, p) > dev->lds_bytes)
        return rfg_refuse(why, "LDS of %d bytes: the device has %d", mma_lds(dev, p), dev->lds_bytes);
    if (ceil_div(m, p[MM_TILE_M]) > 65535)
        return rfg_refuse(why, "tile_m=%d: more than 65535 tiles", p[MM_TILE_M]);
    if (p[MM_SPLIT] > 1 && (tiles > RFG_COUNTERS || (int64_t)mma_workspace(dev, prob, p) > WORKSPACE))
        return rfg_refuse(why, "split_k=%d: partial sums need more than the workspace", p[MM_SPLIT]);
    return true;
}

static bool mma_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                      struct rfg_reason *why)
{
    int64_t m = prob->v[GEMM_M], tiles = mma_tiles(prob, p), k_tiles = ceil_div(prob->v[GEMM_K], p[MM_TILE_K]);
    /* Copies wait in registers there, one tile ahead: a deeper ring gains nothing. */
    if (!(dev->features & RFG_FEATURE_ASYNC) && p[MM_STAGES] > 3)
        return rfg_refuse(why, "stages=%d: more than 3 need asynchronous copies", p[MM_STAGES]);
    if (p[MM_TILE_M] >= 2 * m && p[MM_TILE_M] > 16)
        return rfg_refuse(why, "tile_m=%d: half of it is enough for M=%d", p[MM_TILE_M], (int)m);
    if (p[MM_TILE_M] * 4 < m && p[MM_TILE_M] < 64)
        return rfg_refuse(why, "tile_m=%d: W would be read %d times", p[MM_TILE_M], (int)ceil_div(m, p[MM_TILE_M]));
    if (p[MM_SPLIT] > 1 && p[MM_SPLIT] * 2 > k_tiles)
        return rfg_refuse(why, "split_k=%d: fewer than 2 tiles of k each", p[MM_SPLIT]);
    if (p[MM_SPLIT] > 1 && tiles * p[MM_SPLIT] > 3 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "split_k=%d: more than 3 workgroups a CU", p[MM_SPLIT]);
    if (p[MM_STAGES] > 2 && ceil_div(k_tiles, p[MM_SPLIT]) < p[MM_STAGES] - 1)
        return rfg_refuse(why, "stages=%d: more than there are tiles of k", p[MM_STAGES]);
    return true;
}

static double mma_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double m_tiles = ceil(m / p[MM_TILE_M]), n_tiles = ceil(n / p[MM_TILE_N]), groups = m_tiles * n_tiles * p[MM_SPLIT];
    double threads = (double)p[MM_N_WAVES] * p[MM_K_WAVES] * dev->wave_size;
    double resident = fmax(1, fmin(fmin(8, 1024 / threads), floor(dev->lds_bytes / (double)mma_lds(dev, p))));
    double tile_bytes = (p[MM_TILE_M] + p[MM_TILE_N]) * p[MM_TILE_K] * 2.0;
    double flight = tile_bytes * (dev->features & RFG_FEATURE_ASYNC ? p[MM_STAGES] - 1 : 1);
    /* X comes from memory once and from the L2 for each further column of tiles; the same for W and rows of tiles. */
    double bytes = (n + m) * k * 2, again = (groups / p[MM_SPLIT] * tile_bytes / p[MM_TILE_K]) * k - bytes;
    double traffic = bytes + 0.4 * fmax(again, 0);
    double us = stream_us(dev, traffic, groups, resident, flight);
    double flops = 2 * m_tiles * p[MM_TILE_M] * n_tiles * p[MM_TILE_N] * k;
    double math = flops / (dev->mma_tflops * 0.45e6) * fmax(1, dev->cu_count / groups);
    /* Each tile of k costs a barrier and the fragments' way through LDS. */
    double rounds = ceil(groups / (dev->cu_count * resident));
    double per_tile = 0.05 + p[MM_TILE_K] * (p[MM_TILE_M] + p[MM_TILE_N]) * 2.0 / p[MM_K_WAVES] * 4e-7;
    double steps = rounds * ceil(ceil(k / p[MM_TILE_K]) / p[MM_SPLIT]) * per_tile;
    return dev->latency_us + fmax(fmax(us, math), steps) + 0.2 * (us + math + steps - fmax(fmax(us, math), steps)) +
           (p[MM_K_WAVES] > 1 ? 0.2 : 0) + reduce_us(dev, p[MM_SPLIT], m_tiles * p[MM_TILE_M] * n * 4);
}

static void mma_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    kernel(k, "gemm/splitk_mma.hip", "gemm_splitk_mma", prob);
    rfg_kernel_macro(k, "TILE_M", p[MM_TILE_M]);
    rfg_kernel_macro(k, "TILE_N", p[MM_TILE_N]);
    rfg_kernel_macro(k, "TILE_K", p[MM_TILE_K]);
    rfg_kernel_macro(k, "N_WAVES", p[MM_N_WAVES]);
    rfg_kernel_macro(k, "K_WAVES", p[MM_K_WAVES]);
    rfg_kernel_macro(k, "STAGES", p[MM_STAGES]);
}

static void mma_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    launch(l, ceil_div(prob->v[GEMM_N], p[MM_TILE_N]), ceil_div(prob->v[GEMM_M], p[MM_TILE_M]), p[MM_SPLIT],
           p[MM_N_WAVES] * p[MM_K_WAVES] * dev->wave_size, mma_lds(dev, p));
}

const struct rfg_variant gemm_splitk_mma = {
    .name = "gemm_splitk_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = sizeof(mma_params) / sizeof(mma_params[0]),
    .params = mma_params,
    .supports = mma_supports,
    .valid = mma_valid,
    .worth = mma_worth,
    .predict = mma_predict,
    .workspace = mma_workspace,
    .kernel = mma_kernel,
    .launch = mma_launch,
};
