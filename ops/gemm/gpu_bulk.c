/* SPDX-License-Identifier: MIT
 *
 * gemm_bulk_mma: what it can do, how it is launched, and how long it should take. */
#include "gpu.h"

enum { P_TILE_M, P_FRAGS_N, P_N_WAVES, P_K_WAVES, P_PIECE, P_PER_CU, P_SPLIT_K, P_PERSIST };
#define FRAG_K     32 /* as in rfg_frag.h */
#define MAX_STAGES 16

static const struct rfg_param params[] = {
    [P_TILE_M] = { "tile_m", 5, { 8, 16, 32, 64, 128 } },
    [P_FRAGS_N] = { "frags_n", 3, { 1, 2, 4 } },
    [P_N_WAVES] = { "n_waves", 4, { 1, 2, 4, 8 } },
    [P_K_WAVES] = { "k_waves", 4, { 1, 2, 4, 8 } },
    [P_PIECE] = { "piece", 4, { 64, 128, 256, 512 } }, /* elements along k of a copy */
    [P_PER_CU] = { "per_cu", 2, { 1, 2 } },            /* workgroups that share a CU's LDS */
    [P_SPLIT_K] = { "split_k", 7, { 1, 2, 3, 4, 6, 7, 8 } },
    [P_PERSIST] = { "persist", 2, { 0, 1 } },
};

/* What bulk.hip derives from its macros. */
struct shape {
    int threads, tile_n, stages;
    int lds; /* bytes */
    int64_t tiles_m, tiles_n;
    int64_t steps, pieces; /* of a workgroup's tile */
};

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .threads = p[P_N_WAVES] * p[P_K_WAVES] * 32 + 32, .tile_n = p[P_N_WAVES] * p[P_FRAGS_N] * 16 };
    int split = p[P_SPLIT_K], quads = p[P_TILE_M] * s.tile_n / 4;
    int slot = (s.tile_n + p[P_TILE_M]) * (p[P_PIECE] * 2 + 16), sums = p[P_K_WAVES] * p[P_TILE_M] * (s.tile_n + 4) * 4;
    int own = split > 1 ? (quads / 4 + split - 1) / split * 4 * split * 16 : 0;
    int room = dev->lds_bytes / p[P_PER_CU] - 1024 - own - (p[P_PERSIST] ? sums : 0);
    s.steps = ceil_div(prob->v[GEMM_K] / FRAG_K, split);
    s.pieces = ceil_div(s.steps * FRAG_K, p[P_PIECE]);
    s.stages = (int)MIN(MIN(room / slot, MAX_STAGES), p[P_PERSIST] ? MAX_STAGES : s.pieces);
    s.lds = (p[P_PERSIST] ? s.stages * slot + sums : MAX(s.stages * slot, sums)) + own;
    s.tiles_m = ceil_div(prob->v[GEMM_M], p[P_TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], s.tile_n);
    return s;
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!takes_mma(dev, prob, why))
        return false;
    if (!(dev->features & RFG_FEATURE_BULK))
        return rfg_refuse(why, "arch is %s: must have bulk copies", dev->arch);
    return prob->v[GEMM_K] % FRAG_K == 0 ||
           rfg_refuse(why, "K=%" PRId64 ": must be a multiple of %d", prob->v[GEMM_K], FRAG_K);
}

static int64_t groups_of(const struct rfg_device *dev, const struct shape *s, const int *p)
{
    int64_t tiles = s->tiles_m * s->tiles_n * p[P_SPLIT_K];
    return p[P_PERSIST] ? MIN(tiles, (int64_t)p[P_PER_CU] * dev->cu_count) : tiles;
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int frags_m = p[P_TILE_M] / 8, registers = p[P_FRAGS_N] * frags_m * 4 + frags_m * 4 + p[P_FRAGS_N] * 8 + 40;
    if (s.threads > dev->max_threads)
        return rfg_refuse(why, "n_waves=%d, k_waves=%d: must make at most %d threads", p[P_N_WAVES], p[P_K_WAVES],
                          dev->max_threads);
    if (p[P_PIECE] < FRAG_K * p[P_K_WAVES])
        return rfg_refuse(why, "k_waves=%d: piece=%d must give each at least %d", p[P_K_WAVES], p[P_PIECE], FRAG_K);
    if (registers > register_limit(dev, s.threads))
        return rfg_refuse(why, "about %d registers: must be at most %d", registers, register_limit(dev, s.threads));
    if (s.stages < (s.pieces > 1 || p[P_PERSIST] ? 2 : 1) || s.lds > dev->lds_bytes - 1024)
        return rfg_refuse(why, "%d stages, %d bytes of LDS: two must fit in %d", s.stages, s.lds,
                          dev->lds_bytes / p[P_PER_CU]);
    if (p[P_PERSIST] && p[P_SPLIT_K] > 1)
        return rfg_refuse(why, "persist=1: needs split_k=1");
    if (p[P_SPLIT_K] > prob->v[GEMM_K] / FRAG_K)
        return rfg_refuse(why, "split_k=%d: K=%" PRId64 " has %" PRId64 " steps of %d", p[P_SPLIT_K], prob->v[GEMM_K],
                          prob->v[GEMM_K] / FRAG_K, FRAG_K);
    return grid_fits(s.tiles_m * s.tiles_n * p[P_SPLIT_K], 1, s.threads, 0, why);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], tiles = s.tiles_m * s.tiles_n, groups = tiles * p[P_SPLIT_K];
    int waves = p[P_N_WAVES] * p[P_K_WAVES];
    if (m > 256)
        return rfg_refuse(why, "M=%" PRId64 ": would read W or X too often", m);
    if (p[P_TILE_M] > 8 && p[P_TILE_M] / 2 >= m)
        return rfg_refuse(why, "tile_m=%d: less is enough for M=%" PRId64, p[P_TILE_M], m);
    if (p[P_TILE_M] < m && (p[P_TILE_M] < 16 || p[P_TILE_M] * 4 < m))
        return rfg_refuse(why, "tile_m=%d: reads W %" PRId64 " times", p[P_TILE_M], s.tiles_m);
    if (s.tile_n > 16 && s.tile_n / 2 >= n)
        return rfg_refuse(why, "tile of %d columns: N=%" PRId64, s.tile_n, n);
    if (waves != 4 && waves != 8 && s.tile_n > 16)
        return rfg_refuse(why, "%d waves: 4 or 8 are enough", waves);
    if (waves < 4)
        return rfg_refuse(why, "%d waves: must be at least 4", waves);
    if ((p[P_FRAGS_N] > 1 && p[P_TILE_M] == 8 && p[P_N_WAVES] == 1) || (p[P_FRAGS_N] == 4 && p[P_TILE_M] > 64))
        return rfg_refuse(why, "frags_n=%d: waves side by side do the same", p[P_FRAGS_N]);
    /* A few pieces a tile, so that work begins before all is there. */
    if (s.pieces < 3 && p[P_PIECE] > 64 && p[P_PIECE] > FRAG_K * p[P_K_WAVES])
        return rfg_refuse(why, "piece=%d: only %" PRId64 " of them", p[P_PIECE], s.pieces);
    if (s.pieces > 16 && p[P_PIECE] < 256)
        return rfg_refuse(why, "piece=%d: %" PRId64 " of them", p[P_PIECE], s.pieces);
    if (p[P_SPLIT_K] > 1 && groups > (int64_t)p[P_PER_CU] * dev->cu_count)
        return rfg_refuse(why, "split_k=%d: %" PRId64 " workgroups on %d CUs", p[P_SPLIT_K], groups, dev->cu_count);
    if (p[P_PER_CU] > 1 && groups <= dev->cu_count)
        return rfg_refuse(why, "per_cu=%d: %" PRId64 " workgroups on %d CUs", p[P_PER_CU], groups, dev->cu_count);
    if (p[P_PERSIST] && tiles <= (int64_t)p[P_PER_CU] * dev->cu_count)
        return rfg_refuse(why, "persist=1: %" PRId64 " workgroups on %d CUs", groups, dev->cu_count);
    if (!p[P_PERSIST] && p[P_SPLIT_K] == 1 && tiles > 4 * (int64_t)p[P_PER_CU] * dev->cu_count)
        return rfg_refuse(why, "persist=0: %" PRId64 " workgroups on %d CUs", tiles, dev->cu_count);
    if (groups * 2 < dev->cu_count && p[P_SPLIT_K] < 8 && s.steps >= 16)
        return rfg_refuse(why, "split_k=%d: only %" PRId64 " workgroups on %d CUs", p[P_SPLIT_K], groups,
                          dev->cu_count);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double rows_n = MIN(n, s.tile_n), rows_m = MIN(m, p[P_TILE_M]), split = p[P_SPLIT_K];
    struct load l = load_of(dev, (double)(s.tiles_m * s.tiles_n) * split, p[P_PER_CU]);
    double in_flight = (rows_n + rows_m) * 2 * (double)MIN(s.stages * p[P_PIECE], s.steps * FRAG_K);
    double share = (double)s.steps * split / (k / FRAG_K);
    double traffic = (n * (double)s.tiles_m + m * (double)s.tiles_n) * k * 2 * share;
    double move = move_us(dev, &l, (m + n) * k * 2, traffic, in_flight);
    /* LDS: a wave reads its rows of W, and all of X. */
    double lds = (double)s.steps * FRAG_K * 2 * (s.tile_n + (double)p[P_TILE_M] * p[P_N_WAVES]) / 128 / 1700;
    double sums = (double)p[P_TILE_M] * s.tile_n / s.threads;
    double fixed = 0.2 + 0.01 * p[P_K_WAVES] + 0.02 * sums + lds / (double)MAX(s.pieces, 1);
    double reduce = split > 1 ? 0.3 + 0.01 * split * (1 + sums / 4) : 0;
    return dev->latency_us + LOAD_US * 0.5 + MAX(move, MAX(lds * l.rounds, LOAD_US)) + fixed + reduce;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(dev, prob, p);
    k->source = "gemm/bulk.hip";
    k->entry = "gemm_bulk_mma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_M", p[P_TILE_M]);
    rfg_kernel_macro(k, "FRAGS_N", p[P_FRAGS_N]);
    rfg_kernel_macro(k, "N_WAVES", p[P_N_WAVES]);
    rfg_kernel_macro(k, "K_WAVES", p[P_K_WAVES]);
    rfg_kernel_macro(k, "PIECE", p[P_PIECE]);
    rfg_kernel_macro(k, "STAGES", s.stages);
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT_K]);
    rfg_kernel_macro(k, "CLUSTER", p[P_SPLIT_K] > 1);
    rfg_kernel_macro(k, "PERSIST", p[P_PERSIST]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)groups_of(dev, &s, p), 1, 1 },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant gemm_bulk_mma = {
    .name = "gemm_bulk_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .valid = valid,
    .worth = worth,
    .predict = predict,
    .kernel = kernel,
    .launch = launch,
};
