/* SPDX-License-Identifier: MIT
 *
 * gemm_wgmma: Hopper's asynchronous matrix instructions, k split across a cluster (wgmma.hip). */
#include <string.h>

#include "ops/gemm/gpu/any/gpu.h"
#include "wgmma_layout.h"

enum { SWAP, TILE_M, TILE_N, TILE_K, STAGES, SPLIT };

/* A launch's LDS carries stages, so that it costs no compile. */
static const struct rfg_param params[] = {
    [SWAP] = { "swap", 2, { 0, 1 } },
    [TILE_M] = { "tile_m", 5, { 8, 16, 32, 64, 128 } },
    [TILE_N] = { "tile_n", 5, { 8, 16, 32, 64, 128 } },
    [TILE_K] = { "tile_k", 3, { 64, 128, 256 } }, /* 128 or 256 bytes */
    [STAGES] = { "stages", 11, { 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16 } },
    [SPLIT] = { "split", 12, { 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16 } },
};

/* What wgmma.hip derives from its macros. */
struct shape {
    int rows_a, rows_b;     /* of an instruction's operands */
    int width;              /* bytes of a row of a step */
    int threads, step, lds; /* bytes; step: with its scales */
    int registers;          /* an estimate */
    int64_t tiles_m, tiles_n, groups, steps;
};

static struct shape shape_of(const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .rows_a = p[SWAP] ? p[TILE_N] : p[TILE_M], .rows_b = p[SWAP] ? p[TILE_M] : p[TILE_N] };
    bool codes = gemm_is_codes(prob);
    s.width = p[TILE_K] * (int)x_bytes(prob);
    s.threads = WGMMA_THREADS(s.rows_a, p[TILE_M], p[TILE_N], s.width);
    s.step = WGMMA_STEP_BYTES(p[TILE_M], p[TILE_N], s.width) +
             (gemm_scales(prob) == GEMM_SCALES_BLOCKS ? WGMMA_SCALE_BYTES(p[TILE_M], s.width) : 0);
    s.registers = (codes ? 40 : 32) + s.rows_b / 2 * (codes ? 1 + WGMMA_PARTS(s.rows_a, s.rows_b, s.width) : 1) +
                  (gemm_y_is_codes(prob) ? 8 : 0);
    s.lds = WGMMA_RING_AT(s.rows_a, s.rows_b, p[SPLIT]) + p[STAGES] * s.step + WGMMA_BEYOND(s.rows_a);
    s.tiles_m = ceil_div(prob->v[GEMM_M], p[TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], p[TILE_N]);
    s.groups = s.tiles_m * s.tiles_n * p[SPLIT];
    s.steps = ceil_div(prob->v[GEMM_K], p[TILE_K]);
    return s;
}

static const struct gemm_takes takes = { .rows = GEMM_READ_FRAGMENTS,
                                         .chunks = true,
                                         .ends = GEMM_ENDS_EPILOGUE & ~(GEMM_END_EXPERTS | GEMM_END_HALVES) };

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (gemm_scales(prob) == GEMM_SCALES_BLOCKS && prob->v[GEMM_X_SCALE] != RFG_F32)
        return rfg_refuse(why, "x_scale=%s: must be f32 with x_per=block, it copies 4 bytes",
                          rfg_dtype_name((rfg_dtype)prob->v[GEMM_X_SCALE]));
    return takes_wgmma(dev, prob, &takes, why);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(prob, p);
    if (s.width != 128 && s.width != 256)
        return rfg_refuse(why, "tile_k=%d: must be 128 or 256 bytes, these are %d", p[TILE_K], s.width);
    if (s.registers > register_limit(dev, s.threads))
        return rfg_refuse(why, "about %d registers: must be at most %d", s.registers, register_limit(dev, s.threads));
    if (p[SWAP] && p[TILE_N] < 64)
        return rfg_refuse(why, "swap=1, tile_n=%d: must be at least 64", p[TILE_N]);
    if (!p[SWAP] && p[TILE_M] < 64 && p[TILE_M] < prob->v[GEMM_M])
        return rfg_refuse(why, "swap=0, tile_m=%d: must be at least 64 or M=%" PRId64, p[TILE_M], prob->v[GEMM_M]);
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    if (p[SPLIT] > s.steps)
        return rfg_refuse(why, "split=%d: K=%" PRId64 " has %" PRId64 " steps of tile_k=%d", p[SPLIT], prob->v[GEMM_K],
                          s.steps, p[TILE_K]);
    if (s.groups > INT32_MAX)
        return rfg_refuse(why, "%" PRId64 " workgroups: must be at most %d", s.groups, INT32_MAX);
    return true;
}

/* Does it share out the steps evenly, without crowding the CUs? (A cluster of 16 needs a GPC to itself: more than 7 may
 * not fit at once.) */
static bool split_fits(const struct rfg_device *dev, const struct shape *s, int split, int64_t tiles)
{
    return split == 1 || (split <= s->steps && s->steps * 100 >= ceil_div(s->steps, split) * split * 85 &&
                          tiles * split <= (split == 16 ? 112 : 2 * (int64_t)dev->cu_count + dev->cu_count / 8));
}

static double resident(const struct rfg_device *dev, const struct shape *s)
{
    return gemm_resident(dev, s->threads, s->registers, s->lds);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], tiles = s.tiles_m * s.tiles_n;
    int64_t b = p[SWAP] ? m : n; /* rows of B that there are */
    /* Tiles: most of the rows of W are real; X is covered at once, or by the largest tiles. */
    if (s.rows_b > 8 && s.rows_b >= 2 * b)
        return rfg_refuse(why, "%s=%d: less is enough", p[SWAP] ? "tile_m" : "tile_n", s.rows_b);
    if (p[TILE_M] < 128 && p[TILE_M] < m && (p[SWAP] || m > 256))
        return rfg_refuse(why, "tile_m=%d: W would be read again for M=%" PRId64, p[TILE_M], m);
    if ((s.rows_a == 128 || !p[SWAP]) && s.rows_a > 8 && s.rows_a >= 2 * (p[SWAP] ? n : m))
        return rfg_refuse(why, "%s=%d: less is enough", p[SWAP] ? "tile_n" : "tile_m", s.rows_a);
    if (!p[SWAP] && tiles * 8 > 3 * (int64_t)dev->cu_count && p[TILE_N] < 64 && p[TILE_N] < n)
        return rfg_refuse(why, "tile_n=%d: reads X again and again for N=%" PRId64, p[TILE_N], n);
    /* Narrow tiles read X too often, and for M <= 8 gemm_thin_mma is better. */
    if (p[TILE_N] < 32 && p[TILE_N] < n)
        return rfg_refuse(why, "tile_n=%d: more is better for N=%" PRId64, p[TILE_N], n);
    if (!p[SWAP] && p[TILE_M] == 8 && n >= 64)
        return rfg_refuse(why, "swap=0, tile_m=8: swap=1 is better for N=%" PRId64, n);
    if (s.width > 128 && p[TILE_K] >= 2 * prob->v[GEMM_K])
        return rfg_refuse(why, "tile_k=%d: too far from K=%" PRId64, p[TILE_K], prob->v[GEMM_K]);
    /* Splits: as many workgroups as there are CUs, about. */
    if (!split_fits(dev, &s, p[SPLIT], tiles))
        return rfg_refuse(why, "split=%d: uneven for %" PRId64 " steps, or too much for %" PRId64 " tiles on %d CUs",
                          p[SPLIT], s.steps, tiles, dev->cu_count);
    for (int i = 0; tiles * p[SPLIT] * 2 <= dev->cu_count && i < params[SPLIT].n; i++)
        if (params[SPLIT].values[i] > p[SPLIT] && split_fits(dev, &s, params[SPLIT].values[i], tiles))
            return rfg_refuse(why, "split=%d: only %" PRId64 " workgroups on %d CUs", p[SPLIT], s.groups,
                              dev->cu_count);
    if (p[SPLIT] > 1 && (double)s.groups > gemm_at_once(dev, p[SPLIT], resident(dev, &s)))
        return rfg_refuse(why, "split=%d: %" PRId64 " clusters don't run at once on %d CUs", p[SPLIT], tiles,
                          dev->cu_count);
    /* Stages: the most that a CU holds, of one workgroup or of two, and no more than there are steps. */
    int64_t longest = ceil_div(s.steps, p[SPLIT]);
    int next = p[STAGES];
    for (int i = params[STAGES].n; i-- > 0 && params[STAGES].values[i] > p[STAGES];)
        next = params[STAGES].values[i];
    int more = s.lds + (next - p[STAGES]) * s.step, half = dev->lds_bytes / 2 - 1024;
    bool enough = p[STAGES] >= longest, last = next == p[STAGES];
    if (p[STAGES] > 2 && enough && params[STAGES].values[0] < longest) {
        int before = 0;
        for (int i = 0; params[STAGES].values[i] < p[STAGES]; i++)
            before = params[STAGES].values[i];
        if (before >= longest)
            return rfg_refuse(why, "stages=%d: %" PRId64 " steps need no more than %d", p[STAGES], longest, before);
    } else if (p[STAGES] > 2 && enough) {
        return rfg_refuse(why, "stages=%d: %" PRId64 " steps need no more than 2", p[STAGES], longest);
    }
    bool fills_one = last || more > dev->lds_bytes, fills_half = s.lds <= half && (last || more > half);
    if (!enough && !fills_one && !fills_half)
        return rfg_refuse(why, "stages=%d: %d fit as well", p[STAGES], next);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double longest = (double)ceil_div(s.steps, p[SPLIT]), rows = MIN(m, p[TILE_M]) + MIN(n, p[TILE_N]);
    int warpgroups = WGMMA_GROUPS(s.rows_a);
    struct gemm_flow f = { .groups = (double)s.groups, .cluster = p[SPLIT] };
    f.per_cu = resident(dev, &s);
    f.memory = (m + n * (1 + (double)(s.tiles_m - 1) * c->wgmma_again)) * k * x_bytes(prob);
    if (s.width == 128)
        f.memory *= 1 + c->narrow;
    f.bytes = rows * s.width * longest;
    /* A stage is only copied to again after the next one was begun with. */
    f.in_flight = f.bytes * (p[STAGES] >= longest ? 1 : (p[STAGES] - c->wgmma_held) / longest);
    /* LDS takes in the tiles; A is read in blocks of 64 rows, B by each warpgroup. */
    double lds = (rows + warpgroups * (64 + s.rows_b)) * s.width / 1024 * c->wgmma_lds;
    /* Of codes sums of 128 columns are added by all lanes (a guess: an instruction a column of B, one a clock), which
     * wait for them. */
    double parts = gemm_is_codes(prob) ? s.width / 128 : 0, part = parts * s.rows_b * 0.0006;
    f.issue = longest * (lds + warpgroups * part);
    f.chain = longest * (c->wgmma_step + parts * s.rows_b * c->wgmma_add);
    f.overlaps = rfg_problem_overlaps(prob);
    f.early = c->wgmma_fill / 2;
    f.latency = c->wgmma_fill;
    /* A wave stores its values one after the other: of W's rows in A, Y's columns lie in different lanes. */
    int own = (int)ceil_div(WGMMA_OWNED(s.rows_a, s.rows_b, p[SPLIT]),
                            p[SPLIT] > 1 ? s.threads / 32 : WGMMA_A_WAVES(s.rows_a));
    f.latency +=
        own * (p[SWAP] ? 4 : 2) * (c->wgmma_store + (prob->v[GEMM_X_PER] == RFG_GEMM_SCALE_ROW ? c->wgmma_scale : 0));
    if (p[SPLIT] > 1)
        f.latency += s.rows_a * s.rows_b * 4 / 1024.0 * c->wgmma_sent;
    return gemm_flow_us(dev, &f);
}

/* Whether the instruction's order depends on its shape isn't written anywhere: what it is made for counts. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_wgmma swap=%d n=%d split=%d tile_k=%d", p[SWAP],
             shape_of(prob, p).rows_b, p[SPLIT], p[SPLIT] > 1 ? p[TILE_K] : 0);
    return true;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/gpu/nvidia/wgmma.hip";
    k->entry = "gemm_wgmma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "SWAP", p[SWAP]);
    rfg_kernel_macro(k, "TILE_M", p[TILE_M]);
    rfg_kernel_macro(k, "TILE_N", p[TILE_N]);
    rfg_kernel_macro(k, "TILE_K", p[TILE_K]);
    rfg_kernel_macro(k, "SPLIT", p[SPLIT]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev;
    struct shape s = shape_of(prob, p);
    *l = (struct rfg_launch){ { (uint32_t)s.groups, 1, 1 }, { (uint32_t)s.threads, 1, 1 }, (uint32_t)s.lds };
}

const struct rfg_variant gemm_wgmma = {
    .name = "gemm_wgmma",
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
