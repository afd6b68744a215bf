/* SPDX-License-Identifier: MIT
 *
 * The GPU variants: <op>_rows, whose lanes have WIDTH bytes of a row at a time and a row at most two a lane, and
 * <op>_portable, which goes by elements and takes everything. */
#include <inttypes.h>

#include "ops/gpu.h"
#include "rope.h"

#define MAX_LANES        32 /* of a row */
#define PORTABLE_THREADS 64
#define MAX_SHARES       65535 /* workgroups of a token: a grid's second dimension */

enum { P_THREADS, P_UNROLL, P_AHEAD, P_STREAM };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 7, { 32, 64, 96, 128, 192, 256, 384 } },
    [P_UNROLL] = { "unroll", 6, { 1, 2, 3, 4, 6, 8 } }, /* heads of one kind that a lane has */
    [P_AHEAD] = { "ahead", 2, { 0, 1 } },               /* norms' weights are read before the launch before has ended */
    [P_STREAM] = { "stream", 3, { 0, 1, 2 } },          /* 1: reads are not worth caching; 2: nor are writes */
};

/* Bytes of an element of q. */
static int size_of(const struct rfg_problem *prob)
{
    return (int)rfg_format_bytes(rope_dtype(prob), 1);
}

/* Bytes of the widest access of q's dtype: what pointers and strides allow, and what whole chunks make up each part of
 * a row (either half of what is rotated, what is before and behind it). */
static int width_of(const struct rfg_problem *prob)
{
    int64_t r = rope_r(prob), d = prob->v[ROPE_D], dv = rope_appends(prob) ? rope_dv(prob) : 0;
    int size = size_of(prob), width = (int)MAX(prob->v[ROPE_ALIGN], size); /* less: of 8-bit caches */
    int64_t parts = r / 2 | rope_first(prob) | (d - r) | dv; /* powers of two that divide each divide this */
    while (width > size && parts % (width / size))
        width /= 2;
    return width;
}

/* Lanes of a row: a power of two. */
static int lanes_of(const struct rfg_problem *prob)
{
    int64_t e = width_of(prob) / size_of(prob), r = rope_r(prob);
    int64_t d = r / (2 * e) + ceil_div((prob->v[ROPE_D] - r) / e, 2);
    int64_t dv = rope_appends(prob) ? ceil_div(rope_dv(prob) / e, 2) : 0;
    int lanes = 4;
    while (lanes < MAX(d, dv))
        lanes *= 2;
    return lanes;
}

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why))
        return false;
    if (rope_cache_dtype(prob) == RFG_I4 && width_of(prob) < 4)
        return rfg_refuse(why, "accesses of %d bytes: must be of 4 at least, two codes of i4 are a byte",
                          width_of(prob));
    return lanes_of(prob) <= MAX_LANES || rfg_refuse(why, "a row is %d accesses of %d bytes: must be at most %d",
                                                     2 * lanes_of(prob), width_of(prob), 2 * MAX_LANES);
}

/* Blocks of a token: `unroll` heads of a kind at most. */
static int64_t blocks_of(const struct rfg_problem *prob, const int *p)
{
    return ceil_div(prob->v[ROPE_HQ], p[P_UNROLL]) +
           ceil_div(prob->v[ROPE_HKV], p[P_UNROLL]) * (rope_appends(prob) ? 2 : 1);
}

/* Workgroups of a token; one if it has no heads. */
static int64_t shares_of(const struct rfg_problem *prob, const int *p)
{
    return MAX(ceil_div(blocks_of(prob, p), p[P_THREADS] / lanes_of(prob)), 1);
}

static int64_t rows_groups(const struct rfg_problem *prob, const int *p)
{
    return prob->v[ROPE_T] * shares_of(prob, p);
}

/* Of the lanes' rows those that are there. */
static double used_of(const struct rfg_problem *prob, const int *p)
{
    return (double)(rope_heads_of_token(prob) * lanes_of(prob)) /
           (double)(shares_of(prob, p) * p[P_THREADS] * p[P_UNROLL]);
}

/* A dispatch counts its threads in 32 bits; these kernels don't go through the rest in turn. */
static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    if (p[P_THREADS] % dev->wave_size)
        return rfg_refuse(why, "threads=%d: must make whole waves of %d", p[P_THREADS], dev->wave_size);
    if (p[P_AHEAD] && !prob->v[ROPE_NORM])
        return rfg_refuse(why, "ahead=1: there is no norm");
    if (shares_of(prob, p) > MAX_SHARES)
        return rfg_refuse(why, "%" PRId64 " workgroups of a token: must be at most %d", shares_of(prob, p), MAX_SHARES);
    return prob->v[ROPE_T] * p[P_THREADS] <= UINT32_MAX ||
           rfg_refuse(why, "%" PRId64 " tokens by %d: must be fewer than 2^32 threads", prob->v[ROPE_T], p[P_THREADS]);
}

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t groups = rows_groups(prob, p), heads = rope_heads_of_token(prob);
    int at_once = p[P_THREADS] / lanes_of(prob);
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    if (p[P_UNROLL] > 1 && groups < dev->cu_count)
        return rfg_refuse(why, "unroll=%d: leaves CUs idle", p[P_UNROLL]);
    if (p[P_THREADS] > 64 && at_once >= 2 * heads)
        return rfg_refuse(why, "threads=%d: leaves lanes idle", p[P_THREADS]);
    if (p[P_THREADS] * p[P_UNROLL] > 64 && used_of(prob, p) < 0.6)
        return rfg_refuse(why, "threads=%d, unroll=%d: a token has fewer rows", p[P_THREADS], p[P_UNROLL]);
    if (p[P_AHEAD] && !prob->v[ROPE_OVERLAP])
        return rfg_refuse(why, "ahead=1: launches don't overlap");
    if (p[P_STREAM] && bytes < (double)dev->cache_bytes / 2)
        return rfg_refuse(why, "stream=%d: the caches hold all of it", p[P_STREAM]);
    return true;
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)rows_groups(prob, p);
    prob->op->cost(prob, &bytes, &flops);
    /* A lane has some 60 registers and 12 a row of 64K; its instructions are 200 and 130 a row. */
    double threads = p[P_THREADS], fit = MIN(2048, 65536 / (60.0 + 12 * p[P_UNROLL]));
    double at_once = MIN(groups, MIN(fit / threads, 32) * dev->cu_count);
    double used = MIN(used_of(prob, p), 1), width = 2.0 * width_of(prob);
    double rate = MIN(1e3 * dev->mem_gbps, at_once * threads * p[P_UNROLL] * used * width / LOAD_US);
    double issue = groups * threads * (200 + 130.0 * p[P_UNROLL]) / (dev->cu_count * 128e3);
    double us = MAX(MAX(bytes / MAX(rate, 1), issue), 0.15 * groups / dev->cu_count); /* as embedding_rows */
    if (p[P_AHEAD])
        us -= 0.1;
    /* The first waves' instructions, one after the other: 64 heads at 64 tokens took an H200 0.8 us longer by 8 rows a
     * lane than by one. */
    us += 0.8e-3 * (200 + 130.0 * p[P_UNROLL]) * at_once / groups;
    /* A position, then its angles; a dependent load more than a copy has. */
    return dev->latency_us + dev->load_us + (rope_rotates(prob) ? LOAD_US : 0) + us + 0.02 * groups / dev->cu_count +
           0.0005 * threads;
}

/* Are heads exactly what their lanes have, and rotated from end to end, if at all? */
static bool is_whole(const struct rfg_problem *prob, int width, int lanes)
{
    int64_t d = prob->v[ROPE_D];
    return d * size_of(prob) == 2 * (int64_t)lanes * width && (!rope_rotates(prob) || rope_r(prob) == d) &&
           (!rope_appends(prob) || rope_dv(prob) == d);
}

/* p: of rows; NULL: portable. */
static void kernel(const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    int width = p ? width_of(prob) : size_of(prob), lanes = p ? lanes_of(prob) : 0;
    const int64_t *v = prob->v;
    bool rotate = rope_rotates(prob), append = rope_appends(prob);
    k->source = "rope/rows.hip";
    k->entry = lanes ? "rope_rows" : "rope_portable";
    rfg_kernel_macro(k, "IN_DTYPE", rope_dtype(prob));
    rfg_kernel_macro(k, "ROPE", rotate);
    rfg_kernel_macro(k, "APPEND", append);
    page_macro(k, v[ROPE_PAGE]);
    int cache = rope_cache_dtype(prob);
    if (append)
        rfg_kernel_macro(k, cache == RFG_I8 || cache == RFG_I4 ? "KV_CODES" : "KV_DTYPE", cache);
    if (append && rope_token_scales(prob))
        rfg_kernel_macro(k, "TOKEN_SCALES", 1);
    rfg_kernel_macro(k, "POS_DTYPE", rope_position_dtype(prob));
    rfg_kernel_macro(k, "TABLE_DTYPE", rope_table_dtype(prob));
    rfg_kernel_macro(k, "W_DTYPE", rope_weight_dtype(prob));
    rfg_kernel_macro(k, "NORM", v[ROPE_NORM] != ROPE_NORM_NONE);
    rfg_kernel_macro(k, "GPTJ", (int)v[ROPE_PAIRS]);
    rfg_kernel_macro(k, "MROPE", !v[ROPE_AXES] ? 0 : v[ROPE_MROPE] == ROPE_MROPE_INTERLEAVED ? 2 : 1);
    rfg_kernel_macro(k, "VLLM", v[ROPE_FORM] == ROPE_FORM_VLLM);
    rfg_kernel_macro(k, "BACKWARD", v[ROPE_BACKWARD] != 0);
    rfg_kernel_macro(k, "WIDTH", width);
    rfg_kernel_macro(k, "LANES", lanes);
    rfg_kernel_macro(k, "WHOLE", p && is_whole(prob, width, lanes));
    rfg_kernel_macro(k, "THREADS", p ? p[P_THREADS] : PORTABLE_THREADS);
    rfg_kernel_macro(k, "UNROLL", p ? p[P_UNROLL] : 1);
    rfg_kernel_macro(k, "AHEAD", p && p[P_AHEAD]);
    rfg_kernel_macro(k, "STREAM", p ? p[P_STREAM] : 0);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    (void)dev;
    kernel(prob, p, k);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)prob->v[ROPE_T], (uint32_t)shares_of(prob, p), 1 },
                              { (uint32_t)p[P_THREADS], 1, 1 },
                              0 };
}

static bool portable_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static int64_t portable_groups(const struct rfg_problem *prob)
{
    return MIN(prob->v[ROPE_T] * rope_heads_of_token(prob), MAX_GROUPS);
}

static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    double bytes, flops;
    (void)none;
    prob->op->cost(prob, &bytes, &flops);
    return 2 * (dev->latency_us + dev->load_us + 2 * LOAD_US) + 8 * bytes / (1e3 * dev->mem_gbps) +
           0.15 * (double)portable_groups(prob) / dev->cu_count;
}

static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_kernel *k)
{
    (void)dev, (void)none;
    kernel(prob, NULL, k);
}

static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_launch *l)
{
    (void)dev, (void)none;
    int64_t row = rope_appends(prob) && rope_token_scales(prob) ? MAX(prob->v[ROPE_D], rope_dv(prob)) : 0; /* in LDS */
    *l = (struct rfg_launch){ { (uint32_t)portable_groups(prob), 1, 1 },
                              { PORTABLE_THREADS, 1, 1 },
                              (uint32_t)row * sizeof(float) };
}

#define VARIANTS(op)                                                                                                   \
    const struct rfg_variant op##_rows = {                                                                             \
        .name = #op "_rows",                                                                                           \
        .kind = RFG_VARIANT_KERNEL,                                                                                    \
        .n_params = COUNT(rows_params),                                                                                \
        .params = rows_params,                                                                                         \
        .supports = rows_supports,                                                                                     \
        .valid = rows_valid,                                                                                           \
        .worth = rows_worth,                                                                                           \
        .predict = rows_predict,                                                                                       \
        .kernel = rows_kernel,                                                                                         \
        .launch = rows_launch,                                                                                         \
    };                                                                                                                 \
    const struct rfg_variant op##_portable = {                                                                         \
        .name = #op "_portable",                                                                                       \
        .kind = RFG_VARIANT_KERNEL,                                                                                    \
        .supports = portable_supports,                                                                                 \
        .predict = portable_predict,                                                                                   \
        .kernel = portable_kernel,                                                                                     \
        .launch = portable_launch,                                                                                     \
    }
VARIANTS(rope);
VARIANTS(kv_append);
VARIANTS(rope_append);
