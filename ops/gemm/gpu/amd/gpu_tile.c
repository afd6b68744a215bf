/* SPDX-License-Identifier: MIT
 *
 * gemm_tile: products of many rows on AMD's matrix cores (tile.hip). */
#include <limits.h>
#include <string.h>

#include "ops/gemm/gpu/any/gpu.h"
#include "tile_layout.h"

enum { TILE_M, TILE_N, TILE_K, WAVES_M, WAVES_N, BUFFERS, SPLIT_K };
#define LEAST_M    16
#define ISSUE_US   0.002 /* an instruction of a wave, on a SIMD; guesses, both: nothing was timed on a GPU */
#define BARRIER_US 0.05

/* The grid carries split_k, so that it costs no compile. */
static const struct rfg_param params[] = {
    [TILE_M] = { "tile_m", 3, { 64, 128, 256 } },     [TILE_N] = { "tile_n", 3, { 64, 128, 256 } },
    [TILE_K] = { "tile_k", 4, { 32, 64, 128, 256 } }, /* 64 or 128 bytes of X */
    [WAVES_M] = { "waves_m", 3, { 1, 2, 4 } },        [WAVES_N] = { "waves_n", 3, { 1, 2, 4 } },
    [BUFFERS] = { "buffers", 2, { 1, 2 } },           [SPLIT_K] = { "split_k", 7, { 1, 2, 3, 4, 6, 8, 16 } },
};

/* What tile.hip derives from its macros. */
struct shape {
    int waves, threads;
    int width, w_width;   /* bytes of a row of a step, in LDS */
    int frags_m, frags_n; /* of a wave */
    int copies, w_copies; /* chunks of LDS that a thread copies a step, all and W's */
    int groups, parts;    /* of a step, of a W that is decoded, else 0; parts: whose sums are scaled by themselves */
    int mx_parts;         /* of mx formats: of 128 columns, else 0 */
    int step, lds;        /* bytes */
    int sums, registers;  /* of a lane; registers: an estimate, without sums */
    int64_t tiles_m, tiles_n, steps;
};

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .waves = p[WAVES_M] * p[WAVES_N],
                       .width = (int)(p[TILE_K] * x_bytes(prob)),
                       .frags_m = p[TILE_M] / p[WAVES_M] / 16,
                       .frags_n = p[TILE_N] / p[WAVES_N] / 16 };
    bool mx = gemm_is_mx(prob);
    s.threads = s.waves * dev->wave_size;
    s.w_width = mx ? (int)rfg_format_bytes(prob->dtype[1], p[TILE_K]) : s.width;
    s.w_copies = p[TILE_N] * s.w_width / 16 / s.threads;
    s.copies = p[TILE_M] * s.width / 16 / s.threads + s.w_copies;
    s.groups = gemm_w_is_4_bits(prob) && !mx ? (int)TILE_GROUPS(p[TILE_K], gemm_w_group(prob)) : 0;
    s.parts = gemm_w_is_nvfp4(prob) ? 0 : s.groups && dev->hw->mma == RFG_MMA_RDNA3 ? p[TILE_K] / FRAG_K : s.groups;
    s.mx_parts = mx ? p[TILE_K] / 128 : 0;
    s.step = p[TILE_M] * s.width + p[TILE_N] * s.w_width + TILE_GROUP_BYTES(s.parts ? s.groups : 0, p[TILE_N]) +
             TILE_MX_BYTES(s.frags_m, s.frags_n, p[WAVES_M], p[WAVES_N], s.mx_parts);
    s.lds = MAX(p[BUFFERS] * s.step, TILE_SUM_BYTES(s.waves, p[TILE_N] / p[WAVES_N]));
    s.sums = s.frags_m * s.frags_n * (is_cdna(dev) ? 4 : 8);
    /* As compiled: RDNA 3's fragments are loaded by halves, of others one step of fragments is loaded while another is
     * multiplied, if there is room. */
    int frag = is_cdna(dev) ? 4 : 8, frags = s.frags_m + s.frags_n;
    s.registers = 5 * s.copies + frags * frag * (decodes(dev, prob) ? 3 : 1) +
                  (is_cdna(dev) && dev->hw->mma != RFG_MMA_CDNA4 ? 32 : 24);
    if (x_is_far(prob)) /* addresses of 64 bits */
        s.registers += s.copies - s.w_copies;
    if (gemm_scales(prob) == GEMM_SCALES_BLOCKS)
        s.registers += 3 * s.frags_m + s.frags_n * frag + 4 * frag;
    if (s.parts) /* words rather than chunks, each with a zero point; a part's scales; sums of a few fragments */
        s.registers += s.w_copies * (prob->v[GEMM_W_ZERO] ? -1 : -3) + s.frags_n * frag + 4 * frag;
    if (gemm_w_is_nvfp4(prob)) /* words, each with a scale, and what decodes one */
        s.registers += 16 - s.w_copies;
    if (gemm_w_is_8_bits(prob)) /* halves of chunks, and what decodes one */
        s.registers += 24 - 2 * s.w_copies;
    if (mx) /* a byte's register and where it comes from; words and scales of a part */
        s.registers += 2 * s.mx_parts * (p[TILE_M] + p[TILE_N]) * 4 / s.threads + frags + frags / 4;
    s.tiles_m = gemm_most_tiles(prob, p[TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], p[TILE_N]);
    s.steps = ceil_div(prob->v[GEMM_K], p[TILE_K]);
    return s;
}

static const struct gemm_takes takes = {
    .rows = GEMM_READ_FRAGMENTS | GEMM_READ_MX | GEMM_READ_GROUPS | GEMM_READ_W8 | GEMM_READ_NVFP4,
    .prepacked = GEMM_READ_HALF | GEMM_READ_GROUPS | GEMM_READ_W8 | GEMM_READ_NVFP4,
    .chunks = true,
    .ends = GEMM_ENDS_EPILOGUE
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    int64_t rows = gemm_as_plain(prob).v[GEMM_M];
    if (rows < LEAST_M && !prob->v[GEMM_INVARIANT])
        return rfg_refuse(why, "M=%" PRId64 ": must be at least %d, others read W in fewer instructions", rows,
                          LEAST_M);
    if (gemm_w_is_8_bits(prob) && prob->v[GEMM_W_GROUP])
        return rfg_refuse(why, "w_group=%" PRId64 ": must be 0, w is %s", prob->v[GEMM_W_GROUP],
                          rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    if (!takes_mma_amd(dev, prob, &takes, why))
        return false;
    int64_t group = prob->v[GEMM_W_GROUP];
    if (gemm_w_is_nvfp4(prob) && gemm_w_cols(prob) % group)
        return rfg_refuse(why, "w_group=%" PRId64 ": must divide K=%" PRId64, group, gemm_w_cols(prob));
    return halves_in_blocks(prob, why) && sums_fit(dev, prob, why);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    if (p[SPLIT_K] == 1)
        return 0;
    return (size_t)(s.tiles_m * s.tiles_n * p[SPLIT_K] * TILE_PARTIALS(p[TILE_M], p[TILE_N])) * sizeof(float);
}

/* Do sums, and all else, have registers enough? By what compiles without spills. */
static bool registers_fit(const struct rfg_device *dev, const struct rfg_problem *prob, const struct shape *s,
                          struct rfg_reason *why)
{
    bool crowded = s->waves > 4, apart = is_cdna(dev) && !crowded; /* accumulators have 256 registers of their own */
    int most = crowded ? 240 : 248;
    if (dev->hw->mma == RFG_MMA_CDNA1) { /* they always have some, as many as there are others */
        apart = s->sums <= 128;
        most = crowded ? 96 : 232;
    } else if (apart && s->sums <= 128) { /* tile.hip: WAVES_A_SIMD */
        apart = false;
    } else if (apart) {
        apart = gemm_scales(prob) != GEMM_SCALES_BLOCKS; /* which add in others */
        most = dev->hw->mma == RFG_MMA_CDNA4   ? 210     /* LLVM 22's */
               : dev->hw->mma == RFG_MMA_CDNA2 ? 96      /* LLVM 15 moves the sums there and back at each step */
                                               : 144;
    }
    int registers = s->registers + (apart ? 0 : s->sums);
    return registers <= most || rfg_refuse(why, "about %d registers: must be at most %d", registers, most);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int64_t k = prob->v[GEMM_K];
    if ((s.width != 64 && s.width != 128) || (s.w_width != 64 && s.w_width != 128))
        return rfg_refuse(why, "tile_k=%d: must be 64 or 128 bytes, these are %d of x, %d of w", p[TILE_K], s.width,
                          s.w_width);
    if (gemm_is_mx(prob) && !s.mx_parts)
        return rfg_refuse(why, "tile_k=%d: must be a multiple of 128 with x_per=group", p[TILE_K]);
    if (s.waves != 4 && s.waves != 8)
        return rfg_refuse(why, "%d waves: must be 4 or 8", s.waves);
    if (s.threads * 16 > MIN(p[TILE_M] * s.width, p[TILE_N] * s.w_width))
        return rfg_refuse(why, "tile_m=%d, tile_n=%d: %d threads must copy each in whole passes", p[TILE_M], p[TILE_N],
                          s.threads);
    if (gemm_scales(prob) == GEMM_SCALES_BLOCKS && s.frags_n * 16 > GEMM_SCALE_BLOCK)
        return rfg_refuse(why, "tile_n=%d, waves_n=%d: a wave's columns must be at most %d, which share a scale",
                          p[TILE_N], p[WAVES_N], GEMM_SCALE_BLOCK);
    int64_t group = gemm_w_group(prob);
    if (s.groups && p[TILE_K] % group && group % p[TILE_K])
        return rfg_refuse(why, "tile_k=%d: must divide w_group=%" PRId64 " or be a multiple of it", p[TILE_K], group);
    if (!registers_fit(dev, prob, &s, why))
        return false;
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    if (p[SPLIT_K] > s.steps)
        return rfg_refuse(why, "split_k=%d: K=%" PRId64 " has %" PRId64 " steps of tile_k=%d", p[SPLIT_K], k, s.steps,
                          p[TILE_K]);
    if (!tiles_span(prob, x_is_far(prob) ? 0 : p[TILE_M], p[TILE_N], why))
        return false;
    return grid_fits(s.tiles_m * s.tiles_n, p[SPLIT_K], s.threads, why);
}

/* Workgroups on a CU. */
static double resident(const struct rfg_device *dev, const struct shape *s, int lds)
{
    return gemm_resident(dev, s->threads, s->registers + s->sums, MAX(lds - 1024, 0));
}

/* One way to share each tile among waves, so that a wave's part is about square, and large. */
static bool waves_fit(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    bool large = p[TILE_M] * p[TILE_N] >= 256 * 256, two = p[WAVES_M] == 2 && p[WAVES_N] == 2;
    /* Of W of 4 bits a code is decoded once for 256 rows, and scales leave no LDS for as many columns. */
    if (is_cdna(dev) && gemm_w_is_4_bits(prob) && p[TILE_M] == 256 && p[TILE_N] == 128)
        return p[WAVES_M] == 4 && p[WAVES_N] == 2;
    if (is_cdna(dev))
        return two || (large && p[WAVES_M] == 2 && p[WAVES_N] == 4);
    if (p[TILE_M] * p[TILE_N] < 128 * 128)
        return two;
    return p[TILE_M] >= p[TILE_N] ? p[WAVES_M] == 4 && p[WAVES_N] == 2 : p[WAVES_M] == 2 && p[WAVES_N] == 4;
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p, struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    struct shape s = shape_of(dev, prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], tiles = s.tiles_m * s.tiles_n, cus = dev->cu_count;
    int step = s.step;
    if (!waves_fit(dev, prob, p))
        return rfg_refuse(why, "waves_m=%d, waves_n=%d: others are better for tiles of %d x %d", p[WAVES_M], p[WAVES_N],
                          p[TILE_M], p[TILE_N]);
    /* Tiles that exist, are about square if there are rows for that, and neither leave CUs idle nor read too often. */
    if ((p[TILE_M] > 64 && p[TILE_M] >= 2 * m) || (p[TILE_N] > 64 && p[TILE_N] >= 2 * n))
        return rfg_refuse(why, "tile of %d x %d: M=%" PRId64 ", N=%" PRId64, p[TILE_M], p[TILE_N], m, n);
    if (p[TILE_M] * 2 < MIN(p[TILE_N], m) || p[TILE_N] * 2 < MIN(p[TILE_M], n))
        return rfg_refuse(why, "tile of %d x %d: far from square", p[TILE_M], p[TILE_N]);
    if (tiles > 4 * cus && (p[TILE_M] < MIN(128, m) || p[TILE_N] < MIN(128, n)))
        return rfg_refuse(why, "tile of %d x %d: %" PRId64 " of them read X and W too often", p[TILE_M], p[TILE_N],
                          tiles);
    if (tiles * 2 < cus && ((p[TILE_M] > 64 && m > 64) || (p[TILE_N] > 64 && n > 64)))
        return rfg_refuse(why, "tile of %d x %d: %" PRId64 " of them leave %" PRId64 " CUs idle", p[TILE_M], p[TILE_N],
                          tiles, cus);
    if (has_wide_mma(dev, prob) && p[TILE_K] < 128)
        return rfg_refuse(why, "tile_k=%d: steps of 128 have instructions of twice the rate", p[TILE_K]);
    /* The second buffer costs LDS: another workgroup hides as much. Narrow steps are for two buffers. */
    bool more = p[BUFFERS] == 1 ? resident(dev, &s, s.lds) > resident(dev, &s, 2 * step) || 2 * step > dev->lds_bytes
                                : resident(dev, &s, s.lds) < resident(dev, &s, step);
    if (p[BUFFERS] == 1 ? !more || s.width == 64 : more && s.width == 128)
        return rfg_refuse(why, "buffers=%d: %d is better with tile_k=%d", p[BUFFERS], 3 - p[BUFFERS], p[TILE_K]);
    /* Parts of k: as many as the CUs take, each of enough steps to be worth its sums' way through memory. */
    if (p[SPLIT_K] > 1 && (tiles * p[SPLIT_K] > 2 * cus || s.steps * s.width < p[SPLIT_K] * 1024))
        return rfg_refuse(why, "split_k=%d: too many for %" PRId64 " tiles on %" PRId64 " CUs, or too short",
                          p[SPLIT_K], tiles, cus);
    if (p[SPLIT_K] > 1 && ceil_div(s.steps, p[SPLIT_K]) * p[SPLIT_K] * 85 > s.steps * 100)
        return rfg_refuse(why, "split_k=%d: uneven for %" PRId64 " steps", p[SPLIT_K], s.steps);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    struct shape s = shape_of(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double steps = (double)ceil_div(s.steps, p[SPLIT_K]), split = p[SPLIT_K];
    struct gemm_flow f = { .groups = (double)(s.tiles_m * s.tiles_n) * split, .cluster = 1 };
    f.per_cu = resident(dev, &s, s.lds);
    double w_row = (double)gemm_w_row_bytes(prob);
    f.memory = m * k * x_bytes(prob) + n * w_row + m * n * 2;
    f.bytes = (MIN(m, p[TILE_M]) * s.width + MIN(n, p[TILE_N]) * w_row * p[TILE_K] / k) * steps;
    f.in_flight = f.bytes / steps;
    /* Matrix instructions, and those beside them, of which the other half is issued meanwhile. */
    bool narrow = has_wide_mma(dev, prob) && p[TILE_K] < 128;
    double rate = (gemm_is_codes(prob) && !decodes(dev, prob) && !narrow ? 2e6 : 1e6) * dev->mma_tflops / dev->cu_count;
    if (prob->dtype[0] == RFG_E2M1 && s.mx_parts) /* and e2m1 by e2m1 twice that of fp8 */
        rate *= 2;
    double mma = 2.0 * p[TILE_M] * p[TILE_N] * p[TILE_K] / rate;
    double beside = 2 * s.copies + (s.frags_m + s.frags_n) * s.width / 64 + 20 + 5 * p[BUFFERS];
    if (decodes(dev, prob))
        beside += (s.frags_m + s.frags_n) * s.width / 2;
    if (gemm_scales(prob) == GEMM_SCALES_BLOCKS)
        beside += s.sums;
    beside += s.mx_parts * ((p[TILE_M] + p[TILE_N]) * 8 / s.threads + 2 * (s.frags_m + s.frags_n));
    if (gemm_w_is_8_bits(prob)) /* eight codes take about 36 instructions */
        beside += 36 * s.w_copies;
    if (s.groups) /* a word is decoded in about 16 */
        beside += (16 + (prob->v[GEMM_W_ZERO] || !s.parts ? 8 : 0)) * s.w_copies + s.parts * s.sums;
    f.issue = steps * (mma + 0.5 * ISSUE_US * beside * s.waves / 4);
    f.chain = steps * (mma + (p[BUFFERS] == 1 ? 2 : 1) * BARRIER_US);
    f.latency = ISSUE_US * 12 * s.sums; /* sums to LDS and to Y */
    double reduce = p[SPLIT_K] == 1 ? 0
                                    : gemm_reduce_us(dev, p[SPLIT_K], MIN(m, p[TILE_M]) * p[TILE_N] * 4.0) +
                                          split * m * n * 4 / (3e3 * dev->mem_gbps);
    return gemm_flow_us(dev, &f) + reduce;
}

/* As gemm_stream_mma's of one wave of k: tile.hip says why. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int part = s.parts ? p[TILE_K] / s.parts : 0; /* gemm_stream_mma's: a group, but of 128 columns at most */
    if (gemm_scales(prob) == GEMM_SCALES_BLOCKS)
        snprintf(order->words, sizeof(order->words), "gemm_tile tile_k=%d", p[TILE_K]);
    else if (part && part < MIN(gemm_w_group(prob), PREPACK4_COLS))
        snprintf(order->words, sizeof(order->words), "gemm_tile part=%d", part);
    else if (gemm_w_is_8_bits(prob) && p[TILE_K] == 32) /* gemm_stream_mma's are of 64 columns */
        snprintf(order->words, sizeof(order->words), "gemm_tile short");
    else if (has_wide_mma(dev, prob) && p[TILE_K] == 64) /* gemm_stream_mma's have 128 columns */
        snprintf(order->words, sizeof(order->words), "gemm_tile narrow");
    else
        snprintf(order->words, sizeof(order->words), "gemm_stream_mma k_waves=1");
    return p[SPLIT_K] == 1 || rfg_refuse(why, "split_k=%d: has a workspace for few rows only", p[SPLIT_K]);
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(dev, prob, p);
    k->source = "gemm/gpu/amd/tile.hip";
    k->entry = "gemm_tile";
    common_macros(prob, k);
    xcd_macro(dev, k);
    rfg_kernel_macro(k, "TILE_M", p[TILE_M]);
    rfg_kernel_macro(k, "TILE_N", p[TILE_N]);
    rfg_kernel_macro(k, "WAVES_M", p[WAVES_M]);
    rfg_kernel_macro(k, "WAVES_N", p[WAVES_N]);
    rfg_kernel_macro(k, "WIDTH", s.width);
    rfg_kernel_macro(k, "BUFFERS", p[BUFFERS]);
    rfg_kernel_macro(k, "TAIL", prob->v[GEMM_K] % p[TILE_K] != 0);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
    if (x_is_far(prob)) /* others need not know it */
        rfg_kernel_macro(k, "FAR", 1);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)(s.tiles_m * s.tiles_n), (uint32_t)p[SPLIT_K], 1 },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant gemm_tile = {
    .name = "gemm_tile",
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
