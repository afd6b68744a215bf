/* SPDX-License-Identifier: MIT
 *
 * gemm_stream_mma: what it can do, how it is launched, and how long it should take. */
#include <limits.h>
#include <string.h>

#include "ops/gemm/gpu/any/gpu.h"
#include "stream_layout.h"

enum { P_TILE_M, P_FRAGS_N, P_K_WAVES, P_UNROLL, P_SPLIT_K };
#define MAX_RING_32  112
#define MAX_CODES_32 80     /* the same of codes that are decoded beside: on RDNA 4, and on RDNA 3 of blocks */
#define MAX_LOADS    63     /* that a wave counts (s_waitcnt vmcnt) */
#define MAX_OWN      8      /* quads whose parts a wave adds: the compiler keeps a mask for each */
#define OUTSIDE      120    /* instructions of a wave beside its loads and matrix instructions */
#define ISSUE_US     0.0025 /* one of them, on a SIMD that other waves use as well: a guess, 5 cycles at 2 GHz */

static const struct rfg_param params[] = {
    [P_TILE_M] = { "tile_m", 3, { 16, 32, 64 } },
    [P_FRAGS_N] = { "frags_n", 3, { 1, 2, 4 } },
    [P_K_WAVES] = { "k_waves", 4, { 1, 2, 4, 8 } },
    [P_UNROLL] = { "unroll", 7, { 1, 2, 4, 7, 8, 14, 16 } }, /* 1: of steps of 4-bit W, which are four of others */
    [P_SPLIT_K] = { "split_k", 8, { 1, 2, 4, 7, 8, 14, 16, 28 } },
};

/* What stream.hip derives from its macros. */
struct shape {
    int threads, tile_n, frags_m;
    int loads; /* of a step */
    int more;  /* registers of a step beside those of 16-byte loads: scales, zero points */
    int scale_loads;
    int groups;      /* of a W of 4 bits: of its fragments in a step, */
    int per_group;   /* each with so many registers */
    int sums;        /* registers */
    bool twice;      /* both halves of a wave load the same */
    bool epilogue;   /* a residual or an activation; of codes, sums are in VGPRs too */
    int scales;      /* of blocks, that a lane has of a step */
    int decoded;     /* registers of codes as fp16, and of the sums of a step */
    int most_ring;   /* registers of loads under way, of 32 lanes */
    int lds;         /* bytes */
    int block_steps; /* a wave's are a multiple of it */
    int64_t tiles_m, tiles_n, steps;
    int64_t longest; /* steps of the wave that has most */
};

/* An estimate; without sums. */
static int registers_of(const struct shape *s, int unroll)
{
    /* Of 4-bit W as clang has it: decoded fragments, sums of groups, and scales as floats. */
    return unroll * (s->loads * 4 + s->scales + s->more) + s->loads + s->decoded +
           (s->groups ? 48 + s->per_group * s->groups : 24);
}

/* Columns of a step. */
static int step_k(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return has_wide_mma(dev, prob) ? 128 : gemm_step_k(prob);
}

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .threads = p[P_K_WAVES] * dev->wave_size,
                       .tile_n = p[P_FRAGS_N] * 16,
                       .frags_m = p[P_TILE_M] / 16 };
    bool rdna3 = dev->hw->mma == RFG_MMA_RDNA3;
    int pieces = dev->hw->frag_registers / 4; /* 16-byte loads of a fragment */
    s.twice = rdna3;
    bool codes = gemm_is_codes(prob), blocks = gemm_scales(prob) == GEMM_SCALES_BLOCKS, w8 = gemm_w_is_8_bits(prob);
    s.epilogue = (gemm_ends_asked(prob) & ~GEMM_END_CODES) || codes || w8 || prob->v[GEMM_W_GLOBAL];
    s.scales = blocks ? (gemm_halves(prob) && !rdna3 ? 2 : 1) + (w8 ? 0 : s.frags_m) : 0;
    if (prob->v[GEMM_W_GROUP] && w8)
        s.scales = s.scale_loads = p[P_FRAGS_N] * (dev->wave_size == 64 ? 4 : 8);
    s.loads = pieces * (p[P_FRAGS_N] + step_frags(prob) * s.frags_m);
    if (has_wide_mma(dev, prob)) {
        s.loads = p[P_FRAGS_N] * (gemm_w_is_4_bits(prob) ? 1 : 2) + s.frags_m * (x_words(prob) == 1 ? 1 : 2);
        s.scale_loads = s.more = gemm_is_mx(prob) ? p[P_FRAGS_N] + s.frags_m : 0;
    } else if (gemm_w_is_nvfp4(prob)) { /* stream_nvfp4.h */
        s.scale_loads = s.more = p[P_FRAGS_N] * step_frags(prob) * (pieces > 1 && gemm_w_group(prob) < 32 ? 2 : 1);
    } else if (gemm_w_is_4_bits(prob)) {
        int bytes = (int)rfg_format_bytes((int)prob->v[GEMM_W_SCALE], 1);
        /* Words of a group's scales that 16 lanes share: stream.hip's SCALE_WORDS. */
        int words = MIN(bytes * pieces, 8);
        s.groups = p[P_FRAGS_N] * step_groups(prob);
        s.per_group = gemm_w_group(prob) < 32 ? 4 : 12;
        s.scale_loads = s.more = (int)ceil_div(s.groups * words, 16) + (prob->v[GEMM_W_ZERO] ? s.groups : 0);
        if (gemm_is_mx(prob)) { /* pieces of X are smaller, and have scales */
            s.more += s.frags_m * (1 - pieces * step_frags(prob) * (4 - x_words(prob)));
            s.scale_loads += s.frags_m;
        }
    }
    s.sums = (dev->wave_size == 64 ? 4 : 8) * p[P_FRAGS_N] * s.frags_m;
    int a_load = 16 / pieces, more = rdna3 ? 0 : 16; /* as compiled without spills */
    if (has_wide_mma(dev, prob))
        s.decoded = blocks ? s.sums + more : 8 + more / 2;
    else if (gemm_w_is_nvfp4(prob))
        s.decoded = 4 * pieces + 24;
    else if (gemm_w_is_4_bits(prob))
        s.decoded = codes                                                    ? (5 * pieces + 12) * s.frags_m
                    : prob->dtype[0] == RFG_BF16 && prob->dtype[1] == RFG_I4 ? 16
                                                                             : 0;
    else if (w8) /* two fragments, and what makes them */
        s.decoded = 8 * pieces + 32 + (blocks ? s.sums : 0);
    else
        s.decoded = codes ? a_load * s.loads + (blocks ? s.sums + more : 8 + more / 2) : 0;
    if (codes && s.groups && dev->hw->mma == RFG_MMA_CDNA4) /* LLVM 22 decodes more of them ahead */
        s.decoded += 64;
    if (codes && dev->hw->mma == RFG_MMA_CDNA1) /* a few more, and of two waves a SIMD each has half of 256 */
        s.decoded += s.threads > 256 ? 128 : 16;
    s.most_ring = s.decoded && (!rdna3 || (blocks && decodes(dev, prob))) ? MAX_CODES_32 : MAX_RING_32;
    s.lds = STREAM_LDS_BYTES(p[P_TILE_M], s.tile_n, p[P_K_WAVES]);
    s.tiles_m = gemm_most_tiles(prob, p[P_TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], s.tile_n);
    s.block_steps = blocks ? (gemm_w_group(prob) == 64 ? 64 : GEMM_SCALE_BLOCK) / step_k(dev, prob) : 1;
    int64_t units = ceil_div(prob->v[GEMM_K], step_k(dev, prob) * s.block_steps);
    s.steps = units * s.block_steps;
    s.longest = ceil_div(units, p[P_SPLIT_K] * p[P_K_WAVES]) * s.block_steps;
    return s;
}

static const struct gemm_takes takes = { .rows = GEMM_READ_FRAGMENTS | GEMM_READ_MX | GEMM_READ_W8,
                                         .prepacked = GEMM_READ_HALF | GEMM_READ_GROUPS | GEMM_READ_MX4 | GEMM_READ_W8 |
                                                      GEMM_READ_NVFP4 | GEMM_READ_FINE,
                                         .chunks = true,
                                         .steps = true,
                                         .ends = GEMM_ENDS_ALL };

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(prob);
    return few_rows(&plain, 256, why) && halves_in_blocks(prob, why) && sums_fit(dev, prob, why) &&
           takes_mma_amd(dev, prob, &takes, why) && scales_steps(prob, why);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    size_t rows = gemm_slot_bytes(prob);
    if (p[P_SPLIT_K] == 1)
        return rows;
    return rows + (size_t)(s.tiles_m * s.tiles_n * p[P_SPLIT_K] * STREAM_PARTIAL_BYTES(p[P_TILE_M], s.tile_n));
}

/* Do registers and the count of loads under way suffice? */
static bool unroll_fits(const struct rfg_device *dev, const struct shape *s, int unroll, struct rfg_reason *why)
{
    if (unroll % s->block_steps)
        return rfg_refuse(why, "unroll=%d: must be a multiple of %d, a block's steps", unroll, s->block_steps);
    /* CDNA's accumulators have registers of their own. */
    int ring = unroll * (s->loads * 4 + s->more), most = register_limit(dev, s->threads);
    int registers = registers_of(s, unroll) + (is_cdna(dev) && !s->epilogue && !s->groups ? 0 : s->sums);
    if (s->epilogue) /* takes the sums to VGPRs, and needs some more of those */
        registers += 24;
    if (dev->wave_size == 32 && ring > s->most_ring)
        return rfg_refuse(why, "unroll=%d: %d registers of loads under way: must be at most %d, or some spill", unroll,
                          ring, s->most_ring);
    if (registers > most)
        return rfg_refuse(why, "unroll=%d: about %d registers: must be at most %d", unroll, registers, most);
    int loads = unroll * (s->loads + s->scale_loads);
    return loads <= MAX_LOADS ||
           rfg_refuse(why, "unroll=%d: %d loads in flight: must be at most %d", unroll, loads, MAX_LOADS);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int64_t k = prob->v[GEMM_K];
    if (!unroll_fits(dev, &s, p[P_UNROLL], why))
        return false;
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    if (p[P_SPLIT_K] > s.steps / s.block_steps)
        return rfg_refuse(why, "split_k=%d: K=%" PRId64 " has %" PRId64 " steps of %d", p[P_SPLIT_K], k,
                          s.steps / s.block_steps, step_k(dev, prob) * s.block_steps);
    if (!tiles_span(prob, p[P_TILE_M], s.tile_n, why))
        return false;
    if (s.tiles_n * p[P_SPLIT_K] > MAX_GRID_Y)
        return rfg_refuse(why, "%" PRId64 " workgroups along y: must be at most %d", s.tiles_n * p[P_SPLIT_K],
                          MAX_GRID_Y);
    /* Waves that end up with sums, four at a time: each has a counter. */
    int quads = p[P_FRAGS_N] * s.frags_m * (dev->wave_size == 64 ? 1 : 2),
        finishers = STREAM_FINISHERS(quads, p[P_K_WAVES]);
    if (p[P_SPLIT_K] > 1 && quads / finishers > MAX_OWN)
        return rfg_refuse(why, "k_waves=%d: %d quads of sums a wave: must be at most %d if split, or masks spill",
                          p[P_K_WAVES], quads / finishers, MAX_OWN);
    if (p[P_SPLIT_K] > 1 && s.tiles_m * s.tiles_n * finishers > RFG_COUNTERS)
        return rfg_refuse(why, "%" PRId64 " tiles of %d waves split: must be at most %d, the number of counters",
                          s.tiles_m * s.tiles_n, finishers, RFG_COUNTERS);
    /* Rows that are summed: columns of tiles have counters, too. */
    if (prob->v[GEMM_SLOTS] &&
        !counters_fit(s.tiles_n + (p[P_SPLIT_K] > 1 ? s.tiles_m * s.tiles_n * finishers : 0), why))
        return false;
    return split_fits_batch(prob, p[P_SPLIT_K], why) && grid_fits(s.tiles_m * s.tiles_n, p[P_SPLIT_K], s.threads, why);
}

/* The largest unroll up to `most` whose loads a wave can have under way, and that takes its steps at once or evenly. */
static int even_unroll(const struct rfg_device *dev, const struct shape *s, int most)
{
    const struct rfg_param *unroll = &params[P_UNROLL];
    int least = s->groups ? 0 : 1, best = unroll->values[least];
    for (int i = least; i < unroll->n && unroll->values[i] <= most; i++) {
        int u = unroll->values[i];
        if (u % s->block_steps)
            continue;
        if (!unroll_fits(dev, s, u, NULL))
            break;
        if (s->longest % u == 0 || s->longest >= 4 * u || u > s->longest)
            best = u;
        if (u >= s->longest)
            break;
    }
    return best;
}

/* A SIMD has 512 registers for each of 64 lanes, or 1536 for each of 32. */
static double waves_a_cu(const struct rfg_device *dev, const struct shape *s, int unroll)
{
    return 4 * MIN(8, (dev->wave_size == 64 ? 512 : 1536) / (registers_of(s, unroll) + s->sums));
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p, struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    struct shape s = shape_of(dev, prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], groups = s.tiles_m * s.tiles_n * p[P_SPLIT_K];
    int64_t waves = groups * p[P_K_WAVES];
    if (p[P_TILE_M] > 16 && p[P_TILE_M] / 2 >= m)
        return rfg_refuse(why, "tile_m=%d: less is enough for M=%" PRId64, p[P_TILE_M], m);
    if (p[P_TILE_M] * 2 < MIN(m, 64))
        return rfg_refuse(why, "tile_m=%d: reads W %" PRId64 " times", p[P_TILE_M], s.tiles_m);
    if (s.tile_n > 16 && s.tile_n / 2 >= n)
        return rfg_refuse(why, "tile of %d columns: N=%" PRId64, s.tile_n, n);
    /* Steps shared out evenly, and as many at once as there are, or a share of them. */
    if (s.longest * p[P_K_WAVES] * p[P_SPLIT_K] * 85 > s.steps * 100 && s.longest > 1)
        return rfg_refuse(why, "split_k=%d, k_waves=%d: uneven for %" PRId64 " steps", p[P_SPLIT_K], p[P_K_WAVES],
                          s.steps);
    /* A wave takes OUTSIDE instructions however few steps it has; CUs without a workgroup take none. */
    if (s.longest < 4 && (p[P_SPLIT_K] > 1 || p[P_K_WAVES] > 1))
        return rfg_refuse(why, "split_k=%d, k_waves=%d: leave a wave %" PRId64 " of %" PRId64 " steps", p[P_SPLIT_K],
                          p[P_K_WAVES], s.longest, s.steps);
    if (groups * 2 < dev->cu_count && s.longest > 8 && p[P_SPLIT_K] < params[P_SPLIT_K].values[params[P_SPLIT_K].n - 1])
        return rfg_refuse(why, "split_k=%d: only %" PRId64 " workgroups on %d CUs", p[P_SPLIT_K], groups,
                          dev->cu_count);
    /* All of a wave's steps at once or the largest even share of them; half of that, if not all waves run
     * at once then. */
    int best = even_unroll(dev, &s, INT_MAX), half = even_unroll(dev, &s, best / 2);
    bool crowded = (double)waves > waves_a_cu(dev, &s, best) * dev->cu_count;
    if (p[P_UNROLL] != best && !(crowded && p[P_UNROLL] == half))
        return rfg_refuse(why, "unroll=%d: %d is better for %" PRId64 " steps", p[P_UNROLL], best, s.longest);
    if ((p[P_SPLIT_K] > 1 || p[P_K_WAVES] > 1) && waves > 8 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "split_k=%d: %" PRId64 " waves on %d CUs", p[P_SPLIT_K], waves, dev->cu_count);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    struct shape s = shape_of(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double tiles = (double)(s.tiles_m * s.tiles_n), groups = tiles * p[P_SPLIT_K], split = p[P_SPLIT_K];
    double rows_n = MIN(n, s.tile_n), rows_m = MIN(m, p[P_TILE_M]), at_once = (double)MIN(p[P_UNROLL], s.longest);
    double twice = s.twice ? 2 : 1, w_row = (double)gemm_w_row_bytes(prob);
    double step = p[P_K_WAVES] * (rows_n * w_row / k + rows_m * x_bytes(prob)) * step_k(dev, prob);
    struct gemm_flow f = { .groups = groups, .cluster = 1, .memory = m * k * x_bytes(prob) + n * w_row };
    f.per_cu = MAX(floor(MIN(waves_a_cu(dev, &s, p[P_UNROLL]) / p[P_K_WAVES], (double)(dev->lds_bytes / s.lds))), 1);
    f.bytes = step * (double)s.longest * twice;
    f.in_flight = step * at_once * twice;
    double waves = p[P_K_WAVES] * MIN(f.per_cu, ceil(groups / dev->cu_count));
    f.issue = 2.0 * p[P_TILE_M] * s.tile_n * k / split / (0.4e6 * dev->mma_tflops / dev->cu_count) * MAX(1, 4 / waves);
    double sums = rows_m * s.tile_n / 4 / s.threads; /* quads a thread adds up */
    f.latency = 0.15 + 0.005 * p[P_K_WAVES] * (1 + sums) + ISSUE_US * OUTSIDE * MAX(waves / 4 - 1, 0);
    /* Partials come after the flow. The last trip is part of sync_us; what it brings beyond 16 KiB comes at a third of a
     * CU's share of memory, by the clock of emu/time: a wave or two ask for it. */
    double share = (double)(s.longest * p[P_K_WAVES] * p[P_SPLIT_K]) / (double)s.steps, reduce = 0;
    double again = amd_again_us(dev, m * (double)s.tiles_n * k * x_bytes(prob) * share * twice,
                                (double)(s.tiles_m - 1) * n * w_row);
    if (split > 1)
        reduce = dev->sync_us + split * m * n * 4 / (3e3 * dev->mem_gbps) +
                 MAX(0, split * rows_m * s.tile_n * 4 - 16384) / (0.9e3 * dev->mem_gbps / dev->cu_count);
    return gemm_flow_us(dev, &f) + again + reduce + slots_us(dev, grouped);
}

/* A wave's steps follow one another. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob;
    snprintf(order->words, sizeof(order->words), "gemm_stream_mma k_waves=%d", p[P_K_WAVES]);
    return p[P_SPLIT_K] == 1 || rfg_refuse(why, "split_k=%d: has a workspace for few rows only", p[P_SPLIT_K]);
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(dev, prob, p);
    k->source = "gemm/gpu/amd/stream.hip";
    k->entry = "gemm_stream_mma";
    common_macros(prob, k);
    xcd_macro(dev, k);
    rfg_kernel_macro(k, "TILE_M", p[P_TILE_M]);
    rfg_kernel_macro(k, "FRAGS_N", p[P_FRAGS_N]);
    rfg_kernel_macro(k, "K_WAVES", p[P_K_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT_K]);
    /* Not of K but of how the waves divide it: fewer tests. */
    rfg_kernel_macro(k, "EXACT", s.steps % ((int64_t)p[P_SPLIT_K] * p[P_K_WAVES] * p[P_UNROLL]) == 0);
    rfg_kernel_macro(k, "ONCE", s.longest <= p[P_UNROLL]);
    rfg_kernel_macro(k, "TAIL", prob->v[GEMM_K] % (step_k(dev, prob) * s.block_steps) != 0);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)s.tiles_m, (uint32_t)(s.tiles_n * p[P_SPLIT_K]),
                                (uint32_t)gemm_products(prob) },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant gemm_stream_mma = {
    .name = "gemm_stream_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .valid = valid,
    .worth = worth,
    .predict = predict,
    .workspace = workspace,
    .order = order_of,
    .kernel = kernel,
    .launch = launch,
};
