/* SPDX-License-Identifier: MIT
 *
 * gemm_tile_wgmma and gemm_tile64_wgmma: many rows of X on Hopper, and some, tiles copied by TMA (tile_wgmma.hip). */
#include <limits.h>

#include "ops/gemm/gpu/any/gpu.h"
#include "tile_wgmma_layout.h"

enum { TILE_N, CLUSTER };
#define LIST_US        2.0  /* a guess: experts' tiles, before the first copy */
#define EXPERTS_MEMORY 1.04 /* with few rows an expert gemm_thin_mma and gemm_skinny read W a little faster */

static const struct rfg_param params[] = {
    [TILE_N] = { "tile_n", 12, { 64, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256 } },
    [CLUSTER] = { "cluster", 2, { 1, 2 } },
};
static const struct rfg_param params_64[] = {
    [TILE_N] = { "tile_n", 8, { 64, 96, 112, 128, 160, 192, 224, 256 } },
};

/* Of m rows: 128, or 64. */
struct tile {
    int m, n, cluster;
};

/* What tile_wgmma.hip derives from its macros. */
struct shape {
    int group_n;                /* columns of a warpgroup, */
    int piece_n;                /* and of them those of an instruction, */
    int sets;                   /* whose sums are kept so many times */
    int stages, lds, registers; /* lds: bytes; registers: an estimate */
    int64_t clusters;           /* tiles, so many neighbours one */
    int64_t steps;
};

/* Are sums of a step kept apart, and added in fp32? */
static bool has_parts(const struct rfg_problem *prob)
{
    return gemm_is_fp8(prob) || gemm_scales(prob) == GEMM_SCALES_BLOCKS;
}

/* How a step's sums are kept beside the tile's: in two sets, so that one is added while the other is multiplied, of two
 * steps or of halves of one; or if there is no room for that, one half after the other. */
static void parts_of(struct shape *s)
{
    s->piece_n = s->group_n > 128 ? s->group_n / 2 : s->group_n;
    s->sets = s->group_n > TILE_MOST_SUMS(0) ? 1 : 2;
}

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, struct tile t)
{
    struct shape s = { .group_n = t.n * t.m / 128 };
    bool blocks = gemm_scales(prob) == GEMM_SCALES_BLOCKS, rows = gemm_scales(prob) == GEMM_SCALES_ROWS;
    int experts = (int)prob->v[GEMM_EXPERTS];
    s.piece_n = s.group_n;
    s.sets = 1;
    if (has_parts(prob))
        parts_of(&s);
    s.registers = (experts ? 32 : 40) + s.group_n / 2 + (has_parts(prob) ? s.sets * s.piece_n / 2 : 0);
    if (experts && blocks && gemm_halves(prob) && s.sets == 1 && t.n % 32) /* two scales of each for 16 columns */
        s.registers += 40;
    while (s.stages < TILE_MAX_STAGES &&
           TILE_LDS_BYTES(t.m, t.n, s.stages + 1, blocks, rows, experts, gemm_w_is_4_bits(prob)) <= dev->lds_bytes)
        s.stages++;
    s.lds = TILE_LDS_BYTES(t.m, t.n, s.stages, blocks, rows, experts, gemm_w_is_4_bits(prob));
    s.clusters = ceil_div(prob->v[GEMM_M], t.m * t.cluster) * ceil_div(prob->v[GEMM_N], t.n);
    if (experts) /* and where an odd one is left, side by side */
        s.clusters = gemm_most_tiles(prob, t.m) * ceil_div(prob->v[GEMM_N], t.n * t.cluster);
    s.steps = ceil_div(prob->v[GEMM_K], TILE_WIDTH / (int)x_bytes(prob));
    return s;
}

/* Are rows of Y, and what lies between them, whole pieces of 16 bytes? TMA writes no less (an H200 does, whatever
 * elements a map is said to have). */
static bool y_tiles(const struct rfg_problem *prob)
{
    int64_t n = gemm_y_cols(prob), ldy = prob->v[GEMM_LDY] ? prob->v[GEMM_LDY] : n;
    return prob->v[GEMM_ALIGN_Y] == 16 && rfg_format_bytes(prob->dtype[2], ldy) % 16 == 0 &&
           rfg_format_bytes(prob->dtype[2], n) % 16 == 0;
}

/* It has an epilogue of its own (tile_wgmma_store.h). */
#define ENDS (GEMM_END_RESIDUAL | GEMM_END_ACT | GEMM_END_HALVES | GEMM_END_CODES)
#define TAKES(...)                                                                                                     \
    {                                                                                                                  \
        .rows = GEMM_READ_FRAGMENTS, .prepacked = GEMM_READ_GROUPS, .chunks = true, .steps = true,                     \
        .ends = ENDS __VA_ARGS__                                                                                       \
    }
static const struct gemm_takes takes = TAKES(| GEMM_END_EXPERTS), takes_64 = TAKES();

/* least, most: rows; beyond them it has to do with invariant=1 all the same, there its order must have any M, and so
 * have experts. */
static bool supports_of(const struct rfg_device *dev, const struct rfg_problem *prob, int tile_m, int least, int most,
                        struct rfg_reason *why)
{
    int64_t m = prob->v[GEMM_M], experts = prob->v[GEMM_EXPERTS];
    if (has_wgmma(dev, why) && gemm_read_asked(prob) == GEMM_READ_GROUPS &&
        (prob->dtype[0] != RFG_BF16 || !gemm_w_is_mxfp4(prob)))
        return rfg_refuse(
            why,
            "x is %s, w %s, w_scale=%s: w of 4 bits must be e2m1, with e8m0, and x bf16, which has its scaled values",
            rfg_dtype_name((rfg_dtype)prob->dtype[0]), rfg_dtype_name((rfg_dtype)prob->dtype[1]),
            rfg_dtype_name((rfg_dtype)prob->v[GEMM_W_SCALE]));
    if (!takes_wgmma(dev, prob, tile_m < 128 ? &takes_64 : &takes, why) || !halves_in_blocks(prob, why))
        return false;
    if (experts > TILE_MOST_EXPERTS)
        return rfg_refuse(why, "experts=%" PRId64 ": must be at most %d", experts, TILE_MOST_EXPERTS);
    if ((m < least || m > most) && !prob->v[GEMM_INVARIANT] && !experts)
        return rfg_refuse(why, "M=%" PRId64 ": must be %s %d", m, m < least ? "at least" : "at most",
                          m < least ? least : most);
    if (!(dev->features & RFG_FEATURE_TMA))
        return rfg_refuse(why, "the driver is too old: must be of CUDA 12, which encodes matrices for TMA");
    if (prob->dtype[0] == RFG_I8 && gemm_scales(prob) != GEMM_SCALES_BLOCKS && prob->v[GEMM_K] > MOST_K_I8)
        return rfg_refuse(why, "K=%" PRId64 ": must be at most %d, or sums of i8 leave 32 bits", prob->v[GEMM_K],
                          MOST_K_I8);
    return true;
}

static bool valid_of(const struct rfg_device *dev, const struct rfg_problem *prob, struct tile t,
                     struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, t);
    int most = TILE_REGISTERS(prob->v[GEMM_EXPERTS], gemm_w_is_4_bits(prob));
    if (gemm_w_is_4_bits(prob) && s.group_n > TILE_MOST_COLUMNS_W4)
        return rfg_refuse(why, "tile_n=%d: a warpgroup has %d columns: must be at most %d beside waves that decode",
                          t.n, s.group_n, TILE_MOST_COLUMNS_W4);
    if (gemm_w_is_4_bits(prob) && t.cluster > 1)
        return rfg_refuse(why, "cluster=%d: must be 1, each workgroup decodes W for itself", t.cluster);
    if (prob->dtype[0] == RFG_I8 && s.piece_n > 32 && s.piece_n % 16)
        return rfg_refuse(why, "tile_n=%d: instructions of %d columns: of i8 must be a multiple of 16 beyond 32", t.n,
                          s.piece_n);
    if (s.registers > most)
        return rfg_refuse(why, "tile_n=%d: about %d registers: must be at most %d", t.n, s.registers, most);
    if (s.stages < 2)
        return rfg_refuse(why, "tile_n=%d: LDS has room for %d steps: must be at least 2", t.n, s.stages);
    if (s.clusters > INT32_MAX / 4)
        return rfg_refuse(why, "%" PRId64 " tiles: must be at most %d", s.clusters, INT32_MAX / 4);
    return true;
}

/* A step of a tile: of matrix cores, or of waves that decode it: 0.11 us for each lane's eight columns (H100). */
static double step_us(const struct rfg_problem *prob, struct tile t, double mma)
{
    double columns = TILE_WIDTH / x_bytes(prob), words = t.n * columns / 8;
    return gemm_w_is_4_bits(prob) ? fmax(mma, words / TILE_COPIERS(1) * 0.11) : mma;
}

/* Tiles that one CU works through. */
static double rounds_of(const struct rfg_device *dev, const struct shape *s, struct tile t)
{
    return (double)ceil_div(s->clusters * t.cluster, dev->cu_count);
}

/* Tiles that one CU works through, times their columns and what X's rows take. */
static double columns_of(const struct rfg_device *dev, const struct shape *s, struct tile t)
{
    return rounds_of(dev, s, t) * (t.n + 32);
}

static bool worth_of(const struct rfg_device *dev, const struct rfg_problem *grouped, struct tile t,
                     const struct rfg_param *widths, struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    struct shape s = shape_of(dev, prob, t);
    double least = INFINITY, own = columns_of(dev, &s, t);
    if (t.cluster > 1 && prob->v[GEMM_M] <= t.m)
        return rfg_refuse(why, "cluster=%d: M=%" PRId64 " is one tile's", t.cluster, prob->v[GEMM_M]);
    for (int i = 0; i < widths->n; i++) {
        struct tile other = { t.m, widths->values[i], t.cluster };
        if (!valid_of(dev, prob, other, NULL))
            continue;
        struct shape o = shape_of(dev, prob, other);
        least = fmin(least, columns_of(dev, &o, other));
    }
    if (own > 1.1 * least)
        return rfg_refuse(why, "tile_n=%d: a CU's tiles take as long as %.0f columns, with another tile_n %.0f", t.n,
                          own, least);
    return true;
}

/* Of a grouped product; plain: gemm_as_plain()'s. */
static double predict_experts(const struct rfg_device *dev, const struct rfg_problem *grouped,
                              const struct rfg_problem *plain, struct tile t)
{
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(dev, plain, t);
    double m = (double)plain->v[GEMM_M], n = (double)plain->v[GEMM_N], k = (double)plain->v[GEMM_K];
    double per_cu = 1e-6 / dev->cu_count, rate = dev->mma_tflops * 1e12 * per_cu * (gemm_is_codes(plain) ? 2 : 1);
    double step = 2.0 * t.m * t.n * (TILE_WIDTH / x_bytes(plain)) / rate * c->tile_mma;
    if (has_parts(plain) && t.n > 128) /* as it was measured: each was waited for */
        step *= 1.1;
    step *= 0.87 * (1 + 38.0 / t.n); /* of a step, beside its columns */
    /* Tiles end with their expert: of rows half a tile is left, on average, and of columns what TILE_N doesn't divide,
     * for which the next expert's rows are read. A tile of few rows is one warpgroup's. */
    double experts = n / (double)grouped->v[GEMM_N], along = (double)ceil_div(grouped->v[GEMM_N], t.n);
    double down = fmax(1, m / t.m + 0.5), rows = fmin(m, t.m);
    if (rows <= t.m / 2)
        step /= 2;
    double rounds = ceil(experts * down * along / dev->cu_count);
    double w_row = (double)gemm_w_row_bytes(plain), of_w = t.n * w_row / (k * x_bytes(plain)); /* as rows of X */
    double bytes = (rows + of_w / t.cluster) * TILE_WIDTH / (dev->cache_gbps * 1e9 * per_cu);
    step = step_us(plain, t, step);
    double busy = rounds * ((double)s.steps * fmax(step, bytes) + t.n * c->tile_store);
    /* Tiles of the same columns that don't share W read it again if that takes longer than caches keep it. (As counted:
     * 2.1 times with tiles of 2 MB, 1.3 with 0.8.) */
    double reads = t.cluster == 1 || down == 1 ? down : down / 2 + 0.25;
    double kept = t.n * w_row * dev->cu_count / (double)dev->cache_bytes;
    double again = 1 + (reads - 1) * fmin(fmax(0.14 * (kept - 0.5), 0), 1);
    double of_y = m * n * rfg_format((int)plain->dtype[2])->bytes;
    double memory = m * k * x_bytes(plain) + experts * along * t.n * again * w_row + of_y;
    memory /= dev->mem_gbps * 1e3;
    memory *= EXPERTS_MEMORY;
    return dev->latency_us + c->wgmma_fill + LIST_US + fmax(busy, memory) + 0.05 * fmin(busy, memory);
}

static double predict_of(const struct rfg_device *dev, const struct rfg_problem *grouped, struct tile t)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    if (grouped->v[GEMM_EXPERTS])
        return predict_experts(dev, grouped, prob, t);
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(dev, prob, t);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double per_cu = 1e-6 / dev->cu_count, rate = dev->mma_tflops * 1e12 * per_cu * (gemm_is_codes(prob) ? 2 : 1);
    double step = 2.0 * t.m * t.n * (TILE_WIDTH / x_bytes(prob)) / rate * c->tile_mma;
    if (!has_parts(prob)) /* tile_mma is of fp8, whose steps are added */
        step *= 0.85;
    /* By TMA L2 gives a fifth more than by loads. */
    double w_row = (double)gemm_w_row_bytes(prob), of_w = t.n * w_row / (k * x_bytes(prob));
    double bytes = (t.m + of_w / t.cluster) * TILE_WIDTH / (1.2 * dev->cache_gbps * 1e9 * per_cu);
    step = step_us(prob, t, step);
    double store = t.n * t.m / 128.0 * c->tile_store;
    double busy = rounds_of(dev, &s, t) * ((double)s.steps * fmax(step, bytes) + store);
    double of_y = m * n * rfg_format((int)prob->dtype[2])->bytes;
    double memory = (m * k * x_bytes(prob) + n * w_row + of_y) / gemm_memory(dev);
    double meet = t.cluster > 1 ? 1.2 : 0; /* a cluster's workgroups, twice */
    return dev->latency_us + c->wgmma_fill + 1.5 + meet + fmax(busy, memory / 0.85);
}

static void kernel_of(const struct rfg_device *dev, const struct rfg_problem *prob, struct tile t, struct rfg_kernel *k)
{
    struct shape s = shape_of(dev, prob, t);
    k->source = "gemm/gpu/nvidia/tile_wgmma.hip";
    k->entry = "gemm_tile_wgmma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_M", t.m);
    rfg_kernel_macro(k, "TILE_N", t.n);
    rfg_kernel_macro(k, "PIECE_N", s.piece_n);
    rfg_kernel_macro(k, "SETS", s.sets);
    rfg_kernel_macro(k, "CLUSTER", t.cluster);
    rfg_kernel_macro(k, "STAGES", s.stages);
    rfg_kernel_macro(k, "Y_TILES", y_tiles(prob));
    if (gemm_w_is_4_bits(prob))
        rfg_kernel_macro(k, "PREPACKED", 1);
}

static void launch_of(const struct rfg_device *dev, const struct rfg_problem *prob, struct tile t, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, t);
    int64_t groups = MIN(s.clusters, dev->cu_count / t.cluster) * t.cluster;
    *l = (struct rfg_launch){ { (uint32_t)groups, 1, 1 },
                              { TILE_THREADS(gemm_w_is_4_bits(prob)), 1, 1 },
                              (uint32_t)s.lds };
}

static int maps_of(const struct rfg_problem *prob, struct tile t, const void *kargs, struct rfg_tile_map *maps)
{
    const struct gemm_args *a = kargs;
    int bytes = (int)x_bytes(prob), y_bytes = (int)rfg_format((int)prob->dtype[2])->bytes;
    int64_t half = gemm_halves(prob) ? a->n / 2 : 0;
    struct rfg_tile_map *map = maps;
    if (!prob->v[GEMM_EXPERTS]) /* whose X is copied otherwise */
        *map++ = (struct rfg_tile_map){ a->x, a->m, (int64_t)a->k * bytes, a->ldx * bytes, t.m, 0 };
    if (!gemm_w_is_4_bits(prob))
        *map++ = (struct rfg_tile_map){ a->w,           gemm_w_rows(prob) - half, (int64_t)a->k * bytes,
                                        a->ldw * bytes, t.n / t.cluster,          half * a->ldw * bytes };
    if (y_tiles(prob))
        *map++ = (struct rfg_tile_map){ a->y, a->m, gemm_y_cols(prob) * y_bytes, a->ldy * y_bytes, TILE_Y_ROWS, 0 };
    return (int)(map - maps);
}

/* A variant's functions, which know their tiles' rows, and the variant. */
#define TILE(rows) ((struct tile){ rows, p[TILE_N], (rows) == 128 ? p[CLUSTER] : 1 })
#define VARIANT(variant, rows, least, most, list)                                                                      \
    static bool supports_##rows(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)  \
    {                                                                                                                  \
        return supports_of(dev, prob, rows, least, most, why);                                                         \
    }                                                                                                                  \
    static bool valid_##rows(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,               \
                             struct rfg_reason *why)                                                                   \
    {                                                                                                                  \
        return valid_of(dev, prob, TILE(rows), why);                                                                   \
    }                                                                                                                  \
    static bool worth_##rows(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,               \
                             struct rfg_reason *why)                                                                   \
    {                                                                                                                  \
        return worth_of(dev, prob, TILE(rows), &(list)[TILE_N], why);                                                  \
    }                                                                                                                  \
    static double predict_##rows(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)           \
    {                                                                                                                  \
        return predict_of(dev, prob, TILE(rows));                                                                      \
    }                                                                                                                  \
    static bool order_##rows(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,               \
                             struct rfg_order *order, struct rfg_reason *why)                                          \
    {                                                                                                                  \
        (void)dev, (void)prob, (void)why;                                                                              \
        snprintf(order->words, sizeof(order->words), #variant " n=%d", p[TILE_N]);                                     \
        return true;                                                                                                   \
    }                                                                                                                  \
    static void kernel_##rows(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,              \
                              struct rfg_kernel *k)                                                                    \
    {                                                                                                                  \
        kernel_of(dev, prob, TILE(rows), k);                                                                           \
    }                                                                                                                  \
    static void launch_##rows(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,              \
                              struct rfg_launch *l)                                                                    \
    {                                                                                                                  \
        launch_of(dev, prob, TILE(rows), l);                                                                           \
    }                                                                                                                  \
    static int maps_##rows(const struct rfg_problem *prob, const int *p, const void *kargs, struct rfg_tile_map *maps) \
    {                                                                                                                  \
        return maps_of(prob, TILE(rows), kargs, maps);                                                                 \
    }                                                                                                                  \
    const struct rfg_variant variant = { .name = #variant,                                                             \
                                         .kind = RFG_VARIANT_KERNEL,                                                   \
                                         .n_params = COUNT(list),                                                      \
                                         .params = list,                                                               \
                                         .supports = supports_##rows,                                                  \
                                         .valid = valid_##rows,                                                        \
                                         .tile_maps = maps_##rows,                                                     \
                                         .worth = worth_##rows,                                                        \
                                         .predict = predict_##rows,                                                    \
                                         .order = order_##rows,                                                        \
                                         .kernel = kernel_##rows,                                                      \
                                         .launch = launch_##rows }

VARIANT(gemm_tile_wgmma, 128, 65, INT_MAX, params);
VARIANT(gemm_tile64_wgmma, 64, 17, 128, params_64);
