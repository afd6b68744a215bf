/* SPDX-License-Identifier: MIT
 *
 * What the GPU variants of gemm share: rules and launch limits. What their models share is in model.h. */
#ifndef RFG_OPS_GEMM_GPU_H
#define RFG_OPS_GEMM_GPU_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops/gpu.h"
#include "ops/gemm/gemm.h"
#include "ops/model/model.h"

#define MAX_GRID_Y 65535
#define MOST_K_I8  131071 /* products of 128 and 128 that 31 bits take */
#define FRAG_K     32     /* as in rfg_frag.h */

#define FEW_EXPERTS 128 /* among which a kernel looks for its own in rounds of a wave's lanes */

/* A guess, since no dot-product kernel has been timed on CDNA: the arithmetic that follows the last load, and reads of
 * X from the caches, take a microsecond. The model has neither. */
#define CDNA_DOT_US(dev) ((dev)->platform != RFG_PLATFORM_NVIDIA && (dev)->wave_size == 64 ? 1.0 : 0.0)

/* A guess for AMD: time in microseconds of cache traffic that doesn't overlap with reading the weights once. x_traffic:
 * bytes of X read by all workgroups; half of them delay the first weights, by one load's latency at most. w_again:
 * bytes of W read more than once, by workgroups that share an L2 (rfg_xcd_tile()). */
static inline double amd_again_us(const struct rfg_device *dev, double x_traffic, double w_again)
{
    double cache = 3e3 * dev->mem_gbps;
    return dev->platform == RFG_PLATFORM_NVIDIA ? 0 : MIN(0.5 * x_traffic / cache, dev->load_us) + w_again / cache;
}

/* 1, 2, 4, ... */
static inline int64_t next_pow2(int64_t v)
{
    int64_t p = 1;
    while (p < v)
        p *= 2;
    return p;
}

/* What it takes to sum rows in the same launch, in microseconds: the last to arrive reads them out of a cache. */
static inline double slots_us(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return prob->v[GEMM_SLOTS] ? dev->sync_us + dev->load_us + 2 * (double)gemm_slot_bytes(prob) / (3e3 * dev->mem_gbps)
                               : 0;
}

/* Does a kernel for few rows take this many? Of an invariant=1 problem any, if it does any: there is nothing better. */
static inline bool few_rows(const struct rfg_problem *prob, int most, struct rfg_reason *why)
{
    return prob->v[GEMM_M] <= most || prob->v[GEMM_PREPACKED] || prob->v[GEMM_INVARIANT] ||
           rfg_refuse(why, "M=%" PRId64 ": must be at most %d, or W is read too often", prob->v[GEMM_M], most);
}

static inline int64_t row_of_x(const struct rfg_problem *prob)
{
    return MAX(prob->v[GEMM_LDX], prob->v[GEMM_K]);
}

/* Is X, whose rows are gathered, more than one buffer has? */
static inline bool x_is_far(const struct rfg_problem *prob)
{
    return prob->v[GEMM_TOP] && gemm_far_rows(gemm_all_x_rows(prob), row_of_x(prob)) != 0;
}

/* Do tiles of X and W suit buffer loads? A lane's offsets have 31 bits, and the first beyond them stands for what isn't
 * there. tile_m 0: X is loaded in another way. */
static inline bool tiles_span(const struct rfg_problem *prob, int64_t tile_m, int64_t tile_n, struct rfg_reason *why)
{
    int64_t ldx = row_of_x(prob), ldw = MAX(prob->v[GEMM_LDW], prob->v[GEMM_K]);
    if (prob->v[GEMM_TOP] && tile_m) /* all of X, or of an expert's W */
        tile_m = gemm_all_x_rows(prob);
    if (gemm_halves(prob))
        tile_n = prob->v[GEMM_N];
    return (tile_m * ldx * 2 <= INT32_MAX && tile_n * ldw * 2 <= INT32_MAX) ||
           rfg_refuse(why, "rows of %" PRId64 " and %" PRId64 " elements: tiles must span less than 2 GiB", ldx, ldw);
}

/* Of tiles of scales of blocks whose rows are gates and ups by turns, from two halves of W: is each half's in one
 * block? */
static inline bool halves_in_blocks(const struct rfg_problem *prob, struct rfg_reason *why)
{
    return !gemm_halves(prob) || gemm_scales(prob) != GEMM_SCALES_BLOCKS || prob->v[GEMM_W_GROUP] ||
           prob->v[GEMM_N] % (2 * GEMM_SCALE_BLOCK) == 0 ||
           rfg_refuse(why, "N=%" PRId64 ": must be a multiple of %d with gates=halves, w_per=block", prob->v[GEMM_N],
                      2 * GEMM_SCALE_BLOCK);
}

static inline bool counters_fit(int64_t counters, struct rfg_reason *why)
{
    return counters <= RFG_COUNTERS ||
           rfg_refuse(why, "%" PRId64 " counters: must be at most %d", counters, RFG_COUNTERS);
}

/* A workspace and counters are those of one product. */
static inline bool split_fits_batch(const struct rfg_problem *prob, int split, struct rfg_reason *why)
{
    return split == 1 || !prob->v[GEMM_BATCH] ||
           rfg_refuse(why, "split_k=%d: must be 1 with batch=%" PRId64, split, prob->v[GEMM_BATCH]);
}

/* Launch limits of a grid (x, y) of workgroups that share fp32 partials if y > 1. */
static inline bool grid_fits(int64_t x, int y, int threads, struct rfg_reason *why)
{
    if (x * threads > UINT32_MAX || y > MAX_GRID_Y)
        return rfg_refuse(why, "%" PRId64 " x %d workgroups of %d threads: more than a launch takes", x, y, threads);
    if (y > 1 && x > RFG_COUNTERS)
        return rfg_refuse(why, "%" PRId64 " tiles split: must be at most %d, the number of counters", x, RFG_COUNTERS);
    return true;
}

/* A group that is a row's is as long as one can be where loaders don't know its length. */
static inline int group_macro(const struct rfg_problem *prob)
{
    return gemm_w_is_4_bits(prob) && gemm_w_group(prob) % 16 ? INT32_MAX / 32 * 32 : (int)gemm_w_group(prob);
}

static inline void common_macros(const struct rfg_problem *prob, struct rfg_kernel *k)
{
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "W_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "W_SCALE_DTYPE", (int)prob->v[GEMM_W_SCALE]);
    rfg_kernel_macro(k, "W_GROUP", group_macro(prob));
    if (gemm_w_is_4_bits(prob) && gemm_w_cols(prob) % group_macro(prob)) /* nor of these */
        rfg_kernel_macro(k, "W_SHORTER", 1);
    if (prob->v[GEMM_W_GLOBAL])
        rfg_kernel_macro(k, "W_GLOBAL", 1);
    if (prob->v[GEMM_W_ZERO]) /* others' kernels need not know that there is such a macro */
        rfg_kernel_macro(k, "W_ZERO", (int)prob->v[GEMM_W_ZERO]);
    if (gemm_w_is_padded(prob)) /* nor of this */
        rfg_kernel_macro(k, "W_PADDED", 1);
    rfg_kernel_macro(k, "SCALES", gemm_scales(prob));
    if (gemm_scales(prob))
        rfg_kernel_macro(k, "SCALE_DTYPE", gemm_scale_dtype(prob));
    rfg_kernel_macro(k, "BIAS_DTYPE", gemm_bias_dtype(prob));
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[2]);
    if (gemm_is_limited(prob)) /* nor of these */
        rfg_kernel_macro(k, "LIMITED", 1);
    if (gemm_halves(prob))
        rfg_kernel_macro(k, "HALVES", 1);
    if (prob->v[GEMM_EXPERTS]) {
        rfg_kernel_macro(k, "EXPERTS", 1);
        if (prob->v[GEMM_IDS])
            rfg_kernel_macro(k, "EXPERT_IDS", 1);
        else if (prob->v[GEMM_EXPERTS] > FEW_EXPERTS)
            rfg_kernel_macro(k, "MANY_EXPERTS", 1);
        rfg_kernel_macro(k, "GATHER", prob->v[GEMM_TOP] && !prob->v[GEMM_IDS]);
        rfg_kernel_macro(k, "WEIGHTED", (int)prob->v[GEMM_WEIGHTS]);
    }
    if (prob->v[GEMM_BATCH])
        rfg_kernel_macro(k, "BATCH", 1);
    if (prob->v[GEMM_SLOTS]) { /* the residual is the sum's */
        rfg_kernel_macro(k, "SLOTS", 1);
        rfg_kernel_macro(k, "WIDTH_Y", access_width(prob->dtype[2], prob->v[GEMM_N], prob->v[GEMM_ALIGN_Y], 16));
    }
    rfg_kernel_macro(k, "RESIDUAL", prob->v[GEMM_RESIDUAL] && !prob->v[GEMM_SLOTS]);
    for (const struct gemm_end_row *e = gemm_ends; e->end; e++)
        if (e->macro && prob->v[e->key])
            rfg_kernel_macro(k, e->macro, (int)prob->v[e->key]);
    rfg_kernel_macro(k, "PACKED",
                     !prob->v[GEMM_LDX] && !prob->v[GEMM_LDW] && !prob->v[GEMM_LDY] && !prob->v[GEMM_BATCH]);
}

/* Registers a lane may have when `waves` waves must be resident together. */
static inline int register_limit(const struct rfg_device *dev, int threads)
{
    if (dev->platform == RFG_PLATFORM_NVIDIA)
        return MIN(255, 65536 / threads);
    return dev->wave_size == 64 && threads > 512 ? 128 : 256;
}

/* What a kernel of matrix instructions reads: fragments, and tiles that become some. */
#define GEMM_READ_FRAGMENTS (GEMM_READ_HALF | GEMM_READ_CODES | GEMM_READ_BLOCKS)
#define GEMM_READ_MX        (GEMM_READ_MX8 | GEMM_READ_MX4)

static inline bool takes_mma(const struct rfg_device *dev, const struct rfg_problem *prob,
                             const struct gemm_takes *takes, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (!(dev->features & RFG_FEATURE_MMA))
        return rfg_refuse(why, "arch is %s: must have matrix instructions", dev->arch);
    return gemm_takes(prob, takes, why);
}

/* Does a kernel that scales sums of half a step of 128 columns, or of whole ones, take w's groups of 8 bits? */
static inline bool scales_steps(const struct rfg_problem *prob, struct rfg_reason *why)
{
    int64_t group = gemm_w_is_8_bits(prob) ? prob->v[GEMM_W_GROUP] : 0;
    return group == 64 || group % 128 == 0 ||
           rfg_refuse(why, "w_group=%" PRId64 ": must be 64 or a multiple of 128", group);
}

static inline bool is_amd(const struct rfg_device *dev, struct rfg_reason *why)
{
    return dev->platform != RFG_PLATFORM_NVIDIA || rfg_refuse(why, "device is %s: must be an AMD GPU", dev->name);
}

static inline bool is_cdna(const struct rfg_device *dev)
{
    return dev->wave_size == 64;
}

/* Are codes multiplied as fp16? */
static inline bool decodes(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return gemm_is_codes(prob) && !(dev->hw->codes & RFG_ARCH_CODE(prob->dtype[0]));
}

/* Sums of i8 are whole numbers, but of blocks. */
static inline bool sums_fit(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    bool whole = prob->dtype[0] == RFG_I8 && !decodes(dev, prob) && gemm_scales(prob) != GEMM_SCALES_BLOCKS;
    return !whole || prob->v[GEMM_K] <= MOST_K_I8 ||
           rfg_refuse(why, "K=%" PRId64 ": must be at most %d of i8, whose sums have 32 bits", prob->v[GEMM_K],
                      MOST_K_I8);
}

/* Are there instructions of 128 columns for codes of this format? */
static inline bool has_wide_mma(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return dev->hw->wide & RFG_ARCH_CODE(prob->dtype[0]) && !prob->v[GEMM_PREPACKED];
}

/* And what AMD's instructions take: mx formats by rows are for wide ones. */
static inline bool takes_mma_amd(const struct rfg_device *dev, const struct rfg_problem *prob,
                                 const struct gemm_takes *takes, struct rfg_reason *why)
{
    if (!is_amd(dev, why))
        return false;
    if ((prob->dtype[0] == RFG_E5M2 || (prob->dtype[0] == RFG_F16 && prob->dtype[1] == RFG_E5M2)) &&
        dev->hw->flushes_f16)
        return rfg_refuse(why, "%s is e5m2: %s's matrix instructions take its least numbers, as fp16, for 0",
                          prob->dtype[0] == RFG_E5M2 ? "x" : "w", dev->target);
    if (!takes_mma(dev, prob, takes, why))
        return false;
    if (!gemm_is_mx(prob) || prob->v[GEMM_PREPACKED])
        return true;
    if (!has_wide_mma(dev, prob))
        return rfg_refuse(why, "x_per=group: target is %s: must be gfx950, or packed=1 with w of e2m1", dev->target);
    return (!prob->v[GEMM_X_COLUMNS] && !prob->v[GEMM_W_COLUMNS]) ||
           rfg_refuse(why, "x_columns=%" PRId64 ", w_columns=%" PRId64 ": must be 0, it reads scales by rows",
                      prob->v[GEMM_X_COLUMNS], prob->v[GEMM_W_COLUMNS]);
}

/* And what Hopper's take. */
static inline bool takes_wgmma(const struct rfg_device *dev, const struct rfg_problem *prob,
                               const struct gemm_takes *takes, struct rfg_reason *why)
{
    if (!has_wgmma(dev, why) || !takes_mma(dev, prob, takes, why))
        return false;
    if (prob->dtype[0] == RFG_E4M3FNUZ)
        return rfg_refuse(why, "x is e4m3fnuz: must be bf16, f16, e4m3, e5m2 or i8");
    return !gemm_is_fp8(prob) || prob->v[GEMM_FAST] ||
           rfg_refuse(why, "fast=0: must be 1, its sums of %s have about 14 bits",
                      rfg_dtype_name((rfg_dtype)prob->dtype[0]));
}

/* How many tiles of tile_m rows a problem has one below the other, and how often W is read for them, about. */
struct down {
    double tiles, reads;
};
/* plain: gemm_as_plain()'s, which has `tiles`. Experts' rows differ: of each half a tile is left, and W is read once
 * more. */
static inline struct down tiles_down(const struct rfg_problem *grouped, const struct rfg_problem *plain, int tile_m,
                                     int64_t tiles)
{
    if (!grouped->v[GEMM_EXPERTS])
        return (struct down){ (double)tiles, 1 };
    double down = fmax(1, (double)plain->v[GEMM_M] / tile_m + 0.5);
    return (struct down){ down, 1 + 0.7 * (down - 1) };
}

/* Until a workgroup knows which of many experts it has, and where its rows of X are: two answers of a cache and the scan
 * between them. (By two problems on an H200; of few experts other constants were fitted with it.) */
static inline double find_us(const struct rfg_problem *grouped)
{
    int64_t experts = grouped->v[GEMM_EXPERTS];
    return grouped->v[GEMM_IDS] ? 0.5 : experts > FEW_EXPERTS ? 3.0 * (double)ceil_div(experts, 512) + 0.6 : 0;
}

/* Of a step of their main loops: fragments of X for one of W, */
static inline int step_frags(const struct rfg_problem *prob)
{
    return gemm_w_is_4_bits(prob) ? PREPACK4_COLS / FRAG_K : gemm_w_is_8_bits(prob) ? PREPACK8_COLS / FRAG_K : 1;
}

/* and, of a W of 4 bits, groups. */
static inline int step_groups(const struct rfg_problem *prob)
{
    return (int)MAX(PREPACK4_COLS / gemm_w_group(prob), 1);
}

/* Registers of eight elements of X, whose products with a W of 4 bits are a fragment's. */
static inline int x_words(const struct rfg_problem *prob)
{
    return prob->dtype[0] == RFG_E2M1 ? 1 : gemm_is_codes(prob) ? 2 : 4;
}

/* Bytes of an element of X, and of W where it is of X's format. */
static inline double x_bytes(const struct rfg_problem *prob)
{
    const struct rfg_format *x = rfg_format((int)prob->dtype[0]);
    return (double)x->bytes / x->elements;
}

#endif
