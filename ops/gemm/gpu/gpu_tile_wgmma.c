/* SPDX-License-Identifier: MIT
 *
 * gemm_tile_wgmma: many rows of X on Hopper, tiles copied by TMA (tile_wgmma.hip). */
#include "gpu.h"
#include "tile_wgmma_layout.h"

enum { TILE_N, CLUSTER };
#define LIST_US        2.0  /* a guess: experts' tiles, before the first copy */
#define EXPERTS_MEMORY 1.04 /* with few rows an expert gemm_thin_mma and gemm_skinny read W a little faster */

static const struct rfg_param params[] = {
    [TILE_N] = { "tile_n", 12, { 64, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256 } },
    [CLUSTER] = { "cluster", 2, { 1, 2 } },
};

/* What tile_wgmma.hip derives from its macros. */
struct shape {
    int stages, lds, registers; /* lds: bytes; registers: an estimate */
    int64_t clusters;           /* of tiles, CLUSTER of them one below the other */
    int64_t steps;
};

/* Are sums of a step kept apart, and added in fp32? */
static bool has_parts(const struct rfg_problem *prob)
{
    return gemm_is_fp8(prob) || gemm_scales(prob) == GEMM_SCALES_BLOCKS;
}

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .registers = 48 + p[TILE_N] / 2 * (has_parts(prob) ? 2 : 1) };
    bool blocks = gemm_scales(prob) == GEMM_SCALES_BLOCKS;
    int experts = (int)prob->v[GEMM_EXPERTS];
    while (s.stages < TILE_MAX_STAGES && TILE_LDS_BYTES(p[TILE_N], s.stages + 1, blocks, experts) <= dev->lds_bytes)
        s.stages++;
    s.lds = TILE_LDS_BYTES(p[TILE_N], s.stages, blocks, experts);
    s.clusters = ceil_div(prob->v[GEMM_M], TILE_ROWS * p[CLUSTER]) * ceil_div(prob->v[GEMM_N], p[TILE_N]);
    if (experts) /* and where an odd one is left, side by side */
        s.clusters = gemm_most_tiles(prob, TILE_ROWS) * ceil_div(prob->v[GEMM_N], p[TILE_N] * p[CLUSTER]);
    s.steps = ceil_div(prob->v[GEMM_K], TILE_WIDTH / (int)x_bytes(prob));
    return s;
}

/* Are rows of Y aligned to 16 bytes? */
static bool y_tiles(const struct rfg_problem *prob)
{
    int64_t ldy = prob->v[GEMM_LDY] ? prob->v[GEMM_LDY] : gemm_y_cols(prob);
    return prob->v[GEMM_ALIGN_Y] == 16 && rfg_format_bytes(prob->dtype[2], ldy) % 16 == 0;
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!takes_wgmma(dev, prob, why) || !halves_in_blocks(prob, why))
        return false;
    if (prob->v[GEMM_EXPERTS] > TILE_MOST_EXPERTS)
        return rfg_refuse(why, "experts=%" PRId64 ": must be at most %d", prob->v[GEMM_EXPERTS], TILE_MOST_EXPERTS);
    if (prob->v[GEMM_M] <= TILE_ROWS / 2 && !prob->v[GEMM_EXPERTS] &&
        !prob->v[GEMM_INVARIANT]) /* nor then, but there its order must have any M */
        return rfg_refuse(why, "M=%" PRId64 ": must be more than %d, half of a tile's rows", prob->v[GEMM_M],
                          TILE_ROWS / 2);
    if (!(dev->features & RFG_FEATURE_TMA))
        return rfg_refuse(why, "the driver is too old: must be of CUDA 12, which encodes matrices for TMA");
    if (prob->dtype[0] == RFG_I8 && gemm_scales(prob) != GEMM_SCALES_BLOCKS && prob->v[GEMM_K] > MOST_K_I8)
        return rfg_refuse(why, "K=%" PRId64 ": must be at most %d, or sums of i8 leave 32 bits", prob->v[GEMM_K],
                          MOST_K_I8);
    return true;
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    if (s.registers > TILE_REGISTERS)
        return rfg_refuse(why, "tile_n=%d: about %d registers: must be at most %d", p[TILE_N], s.registers,
                          TILE_REGISTERS);
    if (s.stages < 2)
        return rfg_refuse(why, "tile_n=%d: LDS has room for %d steps: must be at least 2", p[TILE_N], s.stages);
    if (s.clusters > INT32_MAX / 2)
        return rfg_refuse(why, "%" PRId64 " tiles: must be at most %d", s.clusters, INT32_MAX / 2);
    return true;
}

/* Tiles that one CU works through, times their columns and what X's rows take. */
static double columns_of(const struct rfg_device *dev, const struct shape *s, const int *p)
{
    return (double)ceil_div(s->clusters * p[CLUSTER], dev->cu_count) * (p[TILE_N] + 32);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p, struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    int q[2] = { 0, p[CLUSTER] };
    struct shape s = shape_of(dev, prob, p);
    double least = INFINITY, own = columns_of(dev, &s, p);
    if (p[CLUSTER] > 1 && prob->v[GEMM_M] <= TILE_ROWS)
        return rfg_refuse(why, "cluster=%d: M=%" PRId64 " is one tile's", p[CLUSTER], prob->v[GEMM_M]);
    for (int i = 0; i < params[TILE_N].n; i++) {
        q[TILE_N] = params[TILE_N].values[i];
        if (!valid(dev, prob, q, NULL))
            continue;
        struct shape other = shape_of(dev, prob, q);
        least = fmin(least, columns_of(dev, &other, q));
    }
    if (own > 1.1 * least)
        return rfg_refuse(why, "tile_n=%d: a CU's tiles take as long as %.0f columns, with another tile_n %.0f",
                          p[TILE_N], own, least);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double per_cu = 1e-6 / dev->cu_count, rate = dev->mma_tflops * 1e12 * per_cu * (gemm_is_codes(prob) ? 2 : 1);
    double step = 2.0 * TILE_ROWS * p[TILE_N] * (TILE_WIDTH / x_bytes(prob)) / rate * c->tile_mma;
    if (has_parts(prob) && p[TILE_N] > 128) /* each is waited for: registers have room for one */
        step *= 1.1;
    double store = p[TILE_N] * c->tile_store, of_y = m * n * rfg_format((int)prob->dtype[2])->bytes;
    if (!grouped->v[GEMM_EXPERTS]) {
        if (gemm_scales(prob) == GEMM_SCALES_BLOCKS)
            step *= 1.25; /* which its sums are multiplied by */
        /* The caches send all CUs less than what one can take; rows that X doesn't have take as long. */
        double cus = (double)MIN(s.clusters * p[CLUSTER], dev->cu_count), share = MIN(2, dev->cu_count / cus);
        double bytes =
            (TILE_ROWS + (double)p[TILE_N] / p[CLUSTER]) * TILE_WIDTH / (share * dev->cache_gbps * 1e9 * per_cu);
        double rounds = (double)ceil_div(s.clusters * p[CLUSTER], dev->cu_count);
        double busy = rounds * ((double)s.steps * fmax(step, bytes) + store);
        double memory = ((m + n) * k * x_bytes(prob) + of_y) / gemm_memory(dev);
        return dev->latency_us + c->wgmma_fill + pow(pow(busy, c->blend) + pow(memory, c->blend), 1 / c->blend);
    }
    /* Tiles end with their expert: of rows half a tile is left, on average, and of columns what TILE_N doesn't divide,
     * for which the next expert's rows are read. A tile of few rows is one warpgroup's. */
    double experts = n / (double)grouped->v[GEMM_N], along = (double)ceil_div(grouped->v[GEMM_N], p[TILE_N]);
    double down = fmax(1, m / TILE_ROWS + 0.5), rows = fmin(m, TILE_ROWS);
    step *= 0.78 * (1 + 38.0 / p[TILE_N]); /* of a step, beside its columns */
    if (rows <= TILE_ROWS / 2)
        step /= 2;
    double rounds = ceil(experts * down * along / dev->cu_count);
    double bytes = (rows + (double)p[TILE_N] / p[CLUSTER]) * TILE_WIDTH / (dev->cache_gbps * 1e9 * per_cu);
    double busy = rounds * ((double)s.steps * fmax(step, bytes) + store);
    /* Tiles of the same columns that don't share W read it again if that takes longer than caches keep it. (As counted:
     * 2.1 times with tiles of 2 MB, 1.3 with 0.8.) */
    double reads = p[CLUSTER] == 1 || down == 1 ? down : down / 2 + 0.25;
    double kept = p[TILE_N] * k * x_bytes(prob) * dev->cu_count / (double)dev->cache_bytes;
    double again = 1 + (reads - 1) * fmin(fmax(0.14 * (kept - 0.5), 0), 1);
    double memory = ((m + experts * along * p[TILE_N] * again) * k * x_bytes(prob) + of_y) / dev->mem_gbps * 1e-3;
    memory *= EXPERTS_MEMORY;
    return dev->latency_us + c->wgmma_fill + LIST_US + fmax(busy, memory) + 0.05 * fmin(busy, memory);
}

static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_tile_wgmma n=%d", p[TILE_N]);
    return true;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    k->source = "gemm/gpu/tile_wgmma.hip";
    k->entry = "gemm_tile_wgmma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_N", p[TILE_N]);
    rfg_kernel_macro(k, "CLUSTER", p[CLUSTER]);
    rfg_kernel_macro(k, "STAGES", shape_of(dev, prob, p).stages);
    rfg_kernel_macro(k, "Y_TILES", y_tiles(prob));
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    int64_t groups = MIN(s.clusters, dev->cu_count / p[CLUSTER]) * p[CLUSTER];
    *l = (struct rfg_launch){ { (uint32_t)groups, 1, 1 }, { TILE_THREADS, 1, 1 }, (uint32_t)s.lds };
}

static int tile_maps(const struct rfg_problem *prob, const int *p, const void *kargs, struct rfg_tile_map *maps)
{
    const struct gemm_args *a = kargs;
    int bytes = (int)x_bytes(prob), y_bytes = (int)rfg_format((int)prob->dtype[2])->bytes;
    int64_t half = prob->v[GEMM_HALVES] ? a->n / 2 : 0;
    struct rfg_tile_map *map = maps;
    if (!prob->v[GEMM_EXPERTS]) /* whose X is copied otherwise */
        *map++ = (struct rfg_tile_map){ a->x, a->m, (int64_t)a->k * bytes, a->ldx * bytes, TILE_ROWS, 0 };
    *map++ = (struct rfg_tile_map){ a->w,           gemm_w_rows(prob) - half, (int64_t)a->k * bytes,
                                    a->ldw * bytes, p[TILE_N] / p[CLUSTER],   half * a->ldw * bytes };
    if (y_tiles(prob))
        *map++ = (struct rfg_tile_map){ a->y, a->m, gemm_y_cols(prob) * y_bytes, a->ldy * y_bytes, TILE_Y_ROWS, 0 };
    return (int)(map - maps);
}

const struct rfg_variant gemm_tile_wgmma = {
    .name = "gemm_tile_wgmma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .valid = valid,
    .tile_maps = tile_maps,
    .worth = worth,
    .predict = predict,
    .order = order_of,
    .kernel = kernel,
    .launch = launch,
};
