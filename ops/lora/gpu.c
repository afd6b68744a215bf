/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of lora: lora_rows, and lora_portable, which is rows with the one set of parameters that any problem
 * takes. */
#include "lora.h"
#include "ops/gpu_rows.h"

enum { P_WAVES, P_ROWS, P_PARTS, P_SLOTS, P_CLUSTER, P_EACH, P_RANKS, P_FETCH, P_SHARE };

static const struct rfg_param rows_params[] = {
    [P_WAVES] = { "waves", 2, { 4, 8 } },
    [P_ROWS] = { "rows", 4, { 8, 16, 32, 64 } },
    [P_PARTS] = { "parts", 6, { 1, 2, 4, 8, 16, 32 } },
    [P_SLOTS] = { "slots", 7, { 1, 2, 4, 8, 16, 32, 64 } },
    [P_CLUSTER] = { "cluster", 4, { 1, 2, 4, 8 } },
    [P_EACH] = { "each", 2, { 4, 8 } },
    [P_RANKS] = { "ranks", 2, { 16, 32 } },
    [P_FETCH] = { "fetch", 2, { 0, 1 } },
    [P_SHARE] = { "share", 2, { 0, 1 } }, /* a cluster shares out 0: k, 1: ranks */
};
#define CHAINS 32 /* lora.hip's */

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    (void)prob;
    p[P_WAVES] = 8;
    p[P_ROWS] = 16;
    p[P_PARTS] = 8;
    p[P_SLOTS] = 8;
    p[P_CLUSTER] = 1;
    p[P_EACH] = 4;
    p[P_RANKS] = 16;
    p[P_FETCH] = 0;
    p[P_SHARE] = 0;
}

/* Rows of x that a fragment has: lora.hip's X_ROWS. */
static int fragment_rows(const struct rfg_device *dev)
{
    bool mma = dev->features & RFG_FEATURE_MMA;
    return dev->platform == RFG_PLATFORM_NVIDIA ? 8 : mma ? 16 : dev->wave_size / 4;
}

/* Ranks of a pass of the shrink, and workgroups of a cluster that share out k. */
static int pass_of(const int *p)
{
    return p[P_SHARE] ? p[P_CLUSTER] * p[P_RANKS] : p[P_RANKS];
}
static int k_shares(const int *p)
{
    return p[P_SHARE] ? 1 : p[P_CLUSTER];
}

static int64_t lds_of(const struct rfg_problem *prob, const int *p)
{
    int64_t ranks = ceil_div(prob->v[LORA_RANK], pass_of(p)) * pass_of(p);
    int nodes = p[P_WAVES] + (k_shares(p) > 1 ? p[P_CLUSTER] : 0);
    return LORA_WINDOW * 4 + (p[P_CLUSTER] > 1 ? 16 : 0) + 4 * (int64_t)p[P_ROWS] * (nodes * p[P_RANKS] + ranks);
}

/* Of a lane: a wave's sums, at each level of its tree. */
static int sum_registers(const struct rfg_device *dev, const int *p, int depth)
{
    int levels = 1;
    for (; depth > 1; depth /= 2)
        levels++;
    return levels * p[P_RANKS] * p[P_ROWS] / dev->wave_size;
}

/* Of a lane: a block of a and x in flight, lora.hip's HELD. */
static int held_registers(const struct rfg_device *dev, const int *p)
{
    bool nvidia = dev->platform == RFG_PLATFORM_NVIDIA;
    int w = MAX(dev->hw->frag_registers / 4, 1), x = nvidia ? 1 : w;
    return 8 * (p[P_RANKS] / 16 * w + p[P_ROWS] / fragment_rows(dev) * x);
}

/* Elements of a tensor are loaded one by one: much code, of which compilers unroll less, and more scalar registers. */
static bool loads_singly(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    int in = prob->dtype[0];
    return access_width(in, v[LORA_K], v[LORA_ALIGN], 16) == 2 ||
           access_width(in, v[LORA_K], v[LORA_ALIGN_A], 16) == 2 ||
           access_width(in, v[LORA_RANK], v[LORA_ALIGN_B], 16) == 2;
}

#define MOST_FETCHED (32 << 20) /* bytes: L2 keeps them until they are read */

/* Of all adapters, used or not. */
static int64_t fetched_bytes(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    int64_t most = MOST_FETCHED, y = rfg_format_bytes(prob->dtype[1], 1);
    if (v[LORA_ADAPTERS] > most || v[LORA_M] > most || v[LORA_N] > most || v[LORA_K] > most)
        return INT64_MAX;
    int64_t each = 2 * v[LORA_RANK] * (v[LORA_N] + v[LORA_K]), row = 2 * v[LORA_K] + y * v[LORA_N];
    return v[LORA_ADAPTERS] * MIN(each, most + 1) + v[LORA_M] * MIN(row, most + 1);
}

/* Registers of a lane, of those that we count: found by compiling. */
static bool fits_registers(const struct rfg_device *dev, const int *p)
{
    int depth = CHAINS / p[P_WAVES] / k_shares(p), sums = sum_registers(dev, p, depth), held = held_registers(dev, p);
    if (dev->platform != RFG_PLATFORM_NVIDIA)
        return sums <= 96 && held <= 64;
    return sums <= 96 && held <= 96 && sums + held <= 170 && depth <= 4;
}

static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int threads = p[P_WAVES] * dev->wave_size, least = fragment_rows(dev), depth = CHAINS / p[P_WAVES] / k_shares(p);
    if (threads > dev->max_threads)
        return rfg_refuse(why, "waves=%d: must be at most %d", p[P_WAVES], dev->max_threads / dev->wave_size);
    if (p[P_ROWS] % least)
        return rfg_refuse(why, "rows=%d: must be a multiple of %d", p[P_ROWS], least);
    if (p[P_EACH] > p[P_ROWS])
        return rfg_refuse(why, "each=%d: must be at most rows=%d", p[P_EACH], p[P_ROWS]);
    if (p[P_CLUSTER] > 1 && !(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "cluster=%d: %s has no clusters of workgroups", p[P_CLUSTER], dev->arch);
    if (p[P_SHARE] && p[P_CLUSTER] == 1)
        return rfg_refuse(why, "share=1: must be 0 with cluster=1");
    if (p[P_PARTS] % p[P_CLUSTER])
        return rfg_refuse(why, "cluster=%d: must divide parts=%d", p[P_CLUSTER], p[P_PARTS]);
    if (depth < 1)
        return rfg_refuse(why, "waves=%d, cluster=%d: must be %d at most, together", p[P_WAVES], p[P_CLUSTER], CHAINS);
    if (p[P_FETCH] && !(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "fetch=1: %s has no instruction for it", dev->arch);
    if (p[P_FETCH] && fetched_bytes(prob) > MOST_FETCHED)
        return rfg_refuse(why, "fetch=1: rows and adapters have more than %d bytes", MOST_FETCHED);
    if (!fits_registers(dev, p))
        return rfg_refuse(why, "waves=%d, rows=%d, ranks=%d: more sums than there are registers", p[P_WAVES], p[P_ROWS],
                          p[P_RANKS]);
    if ((p[P_WAVES] < 8 || p[P_RANKS] > 16 || p[P_SHARE]) && p[P_CLUSTER] > 1 && loads_singly(prob))
        return rfg_refuse(
            why,
            "waves=%d, ranks=%d, share=%d: must be 8, 16 and 0 on clusters where elements are loaded one by "
            "one",
            p[P_WAVES], p[P_RANKS], p[P_SHARE]);
    if ((p[P_WAVES] < 8 || p[P_EACH] > 4) && dev->platform == RFG_PLATFORM_AMD && dev->wave_size == 32 &&
        loads_singly(prob))
        return rfg_refuse(why, "waves=%d, each=%d: must be 8 and 4 where elements are loaded one by one", p[P_WAVES],
                          p[P_EACH]);
    return lds_of(prob, p) <= dev->lds_bytes || rfg_refuse(why, "rows=%d: %lld bytes of LDS: must be at most %d",
                                                           p[P_ROWS], (long long)lds_of(prob, p), dev->lds_bytes);
}

static int64_t windows_of(const struct rfg_problem *prob)
{
    return ceil_div(prob->v[LORA_M], LORA_WINDOW);
}

/* Tiles of a window, if its rows are spread evenly: with ids over all adapters, with segments over those that fit. */
static int64_t tiles_of(const struct rfg_problem *prob, const int *p)
{
    int64_t rows = MIN(prob->v[LORA_M], LORA_WINDOW), adapters = prob->v[LORA_ADAPTERS];
    if (prob->v[LORA_SEGMENTS])
        adapters = MIN(adapters, 1 + prob->v[LORA_SEGMENTS] * LORA_WINDOW / MAX(prob->v[LORA_M], LORA_WINDOW));
    adapters = MAX(MIN(adapters, rows), 1);
    return adapters * ceil_div(ceil_div(rows, adapters), p[P_ROWS]);
}

static int64_t rows_groups(const struct rfg_problem *prob, const int *p)
{
    int64_t windows = windows_of(prob), most = MAX_GROUPS / p[P_PARTS];
    return p[P_PARTS] * (windows < most ? windows * MIN(p[P_SLOTS], most / MAX(windows, 1)) : most);
}

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t rows = MIN(prob->v[LORA_M], LORA_WINDOW), tiles = tiles_of(prob, p), rank = prob->v[LORA_RANK];
    int least = MAX(fragment_rows(dev), 8);
    if (p[P_ROWS] > least && p[P_ROWS] / 2 >= rows)
        return rfg_refuse(why, "rows=%d: half as many are all there are", p[P_ROWS]);
    if (p[P_SLOTS] > 1 && p[P_SLOTS] / 2 >= 2 * tiles)
        return rfg_refuse(why, "slots=%d: more than there are tiles", p[P_SLOTS]);
    if (p[P_SLOTS] * 2 < tiles && windows_of(prob) * p[P_SLOTS] * p[P_PARTS] < 2 * dev->cu_count)
        return rfg_refuse(why, "slots=%d: leaves CUs idle", p[P_SLOTS]);
    if (p[P_PARTS] > 1 && (p[P_PARTS] / 2) * 128 >= prob->v[LORA_N])
        return rfg_refuse(why, "parts=%d: half as many have 128 columns each", p[P_PARTS]);
    if (p[P_PARTS] > 1 && windows_of(prob) * tiles * p[P_PARTS] > 8ll * dev->cu_count)
        return rfg_refuse(why, "parts=%d: fewer keep all CUs busy", p[P_PARTS]);
    if (p[P_RANKS] > 16 && p[P_RANKS] / 2 >= rank)
        return rfg_refuse(why, "ranks=%d: half as many are all there are", p[P_RANKS]);
    if (p[P_SHARE] && pass_of(p) / 2 >= rank)
        return rfg_refuse(why, "share=1: half of the cluster has all ranks");
    if (p[P_FETCH] && windows_of(prob) > 1)
        return rfg_refuse(why, "fetch=1: more rows than are found at once");
    return p[P_EACH] >= MIN(8, p[P_ROWS]) || p[P_PARTS] > 1 ||
           rfg_refuse(why, "each=%d: for few columns only", p[P_EACH]);
}

/* Each workgroup reads what its rows and a have from the shared cache, then its part of b and y. What a CU takes of
 * that is its share of the cache's rate, or a few loads in flight for each of its waves. */
static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    double bytes, flops, y = (double)rfg_format_bytes(prob->dtype[1], 1);
    double tiles = (double)(windows_of(prob) * tiles_of(prob, p)), rank = (double)v[LORA_RANK];
    double rows = MIN((double)v[LORA_M] / MAX(tiles, 1), p[P_ROWS]), n = (double)v[LORA_N] / p[P_PARTS];
    double passes = (double)ceil_div(v[LORA_RANK], pass_of(p)), k = (double)v[LORA_K] / k_shares(p);
    double turns = (double)ceil_div(tiles_of(prob, p), p[P_SLOTS]);
    prob->op->cost(prob, &bytes, &flops);
    double groups = (double)windows_of(prob) * MIN(p[P_SLOTS], (double)tiles_of(prob, p)) * p[P_PARTS];
    double waves = (double)(p[P_WAVES]) * dev->wave_size / 32;
    double per_cu = MAX(MIN(2048.0 / (waves * 32), 4), 1), at_once = dev->cu_count * per_cu;
    double rate = MIN(1e3 * dev->cache_gbps / dev->cu_count, waves * 512 * 8 / dev->load_us); /* bytes a us */
    double shrink = 2 * k * passes * (p[P_RANKS] + p[P_ROWS]), expand = n * (2 * rank + 2 * y * rows);
    double sent = 4.0 * p[P_ROWS] * p[P_RANKS] * p[P_CLUSTER]; /* bytes to the cluster's others, 25 a ns */
    double exchange = p[P_CLUSTER] > 1 ? passes * (0.3 + sent / 25e3) : 0;
    double fmas = n * rank * p[P_ROWS] / (1e6 * dev->fma_tflops / 2 / dev->cu_count / 2);
    double each = (shrink + expand) / rate + fmas + (passes - 1) * dev->load_us + exchange;
    double busy = turns * each * MAX(groups / at_once, 1) * MIN(per_cu, MAX(groups / dev->cu_count, 1));
    double idle = (double)windows_of(prob) * p[P_SLOTS] * p[P_PARTS];
    bytes = p[P_FETCH] ? (double)fetched_bytes(prob) : bytes;
    return dev->latency_us + (turns * 3 - 0.5 * p[P_FETCH]) * dev->load_us + MAX(busy, bytes / (1e3 * dev->mem_gbps)) +
           0.5 * idle / (16.0 * dev->cu_count) * dev->load_us;
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    int in = prob->dtype[0], out = prob->dtype[1];
    k->source = "lora/lora.hip";
    k->entry = "lora_rows";
    rfg_kernel_macro(k, "IN_DTYPE", in);
    rfg_kernel_macro(k, "OUT_DTYPE", out);
    rfg_kernel_macro(k, "WIDTH", access_width(in, v[LORA_K], v[LORA_ALIGN], 16));
    rfg_kernel_macro(k, "WIDTH_A", access_width(in, v[LORA_K], v[LORA_ALIGN_A], 16));
    rfg_kernel_macro(k, "WIDTH_B", access_width(in, v[LORA_RANK], v[LORA_ALIGN_B], 16));
    rfg_kernel_macro(k, "WIDTH_Y", access_width(out, v[LORA_N], v[LORA_ALIGN_Y], out == RFG_F32 ? 8 : 4));
    rfg_kernel_macro(k, "WAVES", p[P_WAVES]);
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
    rfg_kernel_macro(k, "PARTS", p[P_PARTS]);
    rfg_kernel_macro(k, "CLUSTER", p[P_CLUSTER]);
    rfg_kernel_macro(k, "EACH", p[P_EACH]);
    rfg_kernel_macro(k, "RANKS", p[P_RANKS]);
    rfg_kernel_macro(k, "FETCH", p[P_FETCH]);
    rfg_kernel_macro(k, "SHARE", p[P_SHARE]);
    rfg_kernel_macro(k, "HOPPER", (dev->features & RFG_FEATURE_CLUSTER) != 0);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(prob, p), 1, 1 },
                              { (uint32_t)(p[P_WAVES] * dev->wave_size), 1, 1 },
                              (uint32_t)lds_of(prob, p) };
}

/* Without matrix instructions, sums of more rows and ranks don't fit into registers as compilers use them. */
static bool mma_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return rows_supports(dev, prob, why) &&
           (dev->features & RFG_FEATURE_MMA || rfg_refuse(why, "%s has no matrix instructions", dev->arch));
}
const struct rfg_variant lora_rows = {
    .name = "lora_rows",
    .kind = RFG_VARIANT_KERNEL,
    .params = rows_params,
    .n_params = COUNT(rows_params),
    .supports = mma_supports,
    .worth = rows_worth,
    .valid = rows_valid,
    .predict = rows_predict,
    .launch = rows_launch,
    .kernel = rows_kernel,
};
PORTABLE_VARIANT(lora);
