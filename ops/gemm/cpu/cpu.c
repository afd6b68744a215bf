/* SPDX-License-Identifier: MIT
 *
 * The gemm variants of the cpu device: what they can do and what they cost. cpu_tiling.c cuts a problem,
 * cpu_run.c runs it.
 *
 * A prepacked W is unpacked strip by strip into the thread's workspace, as rows: the same bits as from a plain one. So
 * is a W of another format than X's, as fp32; of codes of 8 bits X is, too, a panel at a time, each with its scales.
 * int8 by int8 with dot=1 is neither: sums are exact, of int32, and scales multiply them. */
#include <stdio.h>

#include "cpu_run.h"

#define MAX_I8_K 131071 /* (-128)^2 times it fits an int32 */

static double max_d(double a, double b)
{
    return a > b ? a : b;
}

static size_t workspace(const struct cpu_isa *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                        const int *p, bool dot)
{
    if (prob->v[GEMM_M] == 0 || prob->v[GEMM_N] == 0)
        return 0;
    struct tiling t = gemm_cpu_tiling(isa, dev->cu_count, prob, p, dot);
    return gemm_slot_bytes(prob) + round_256((size_t)dev->cu_count * sizeof(struct packed)) +
           (size_t)dev->cu_count * worker_bytes(&t);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static bool shape_ok(const struct cpu_isa *isa, const int *p, struct rfg_reason *why)
{
    return p[P_ROWS] * p[P_COLS] <= isa->max_regs ||
           rfg_refuse(why, "rows=%d, cols=%d: more than %d accumulators", p[P_ROWS], p[P_COLS], isa->max_regs);
}

/* Register blocks that are worth a try. X's rows should fill whole panels; accumulators are what hides latency. */
static bool shape_worth(const struct cpu_isa *isa, const struct rfg_param *params, const struct rfg_problem *prob,
                        const int *p, bool dot, struct rfg_reason *why)
{
    int64_t m = prob->v[GEMM_M], k = prob->v[GEMM_K];
    int rows = p[P_ROWS], cols = p[P_COLS];
    if (2 * rows * cols < isa->max_regs && m >= 4)
        return rfg_refuse(why, "rows=%d, cols=%d: fewer than %d accumulators", rows, cols, (isa->max_regs + 1) / 2);
    const struct rfg_param *c = &params[P_COLS];
    for (int i = 0; i < c->n; i++)
        if (c->values[i] < cols && ceil_div(m, c->values[i]) == ceil_div(m, cols))
            return rfg_refuse(why, "cols=%d: cols=%d makes as few panels of M=%lld", cols, c->values[i], (long long)m);
    if (cols < 4 && cols < m && rows * 2 * cols <= isa->max_regs)
        return rfg_refuse(why, "cols=%d: too few for M=%lld", cols, (long long)m);
    if (p[P_KBLOCK] && (m < 4 || k <= p[P_KBLOCK]))
        return rfg_refuse(why, "k_block=%d: needs M >= 4 and K > k_block", p[P_KBLOCK]);
    if (p[P_KBLOCK] && p[P_PREFETCH] == CPU_PREFETCH_NEXT && m > 16)
        return rfg_refuse(why, "k_block=%d: for M > 16 needs prefetch=1", p[P_KBLOCK]);
    if (!p[P_KBLOCK] && p[P_PREFETCH] == CPU_PREFETCH_ROWS && m > 16)
        return rfg_refuse(why, "prefetch=1: for M > 16 needs a k_block");
    if (prob->v[GEMM_PREPACKED] || gemm_halves(prob) || is_decoded(prob, dot))
        return p[P_PREFETCH] == CPU_PREFETCH_NONE || rfg_refuse(why, "prefetch=%d: does nothing with %s", p[P_PREFETCH],
                                                                prob->v[GEMM_PREPACKED] ? "packed=1"
                                                                : gemm_halves(prob)     ? "gates=halves"
                                                                                    : "a w that is not of x's dtype");
    if (p[P_PREFETCH] == CPU_PREFETCH_NONE && m >= 4)
        return rfg_refuse(why, "prefetch=0: only for M < 4");
    return true;
}

/* Microseconds. What one step of the inner kernel costs a core, in cycles, against what it takes to bring W to it. The
 * constants are fitted to measurements on Zen 5 and only have to rank. */
static double predict(const struct cpu_isa *isa, const struct rfg_device *dev, const struct rfg_problem *grouped,
                      const int *p, bool dot)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    if (m == 0 || n == 0)
        return 0;
    struct tiling t = gemm_cpu_tiling(isa, dev->cu_count, prob, p, dot);
    double threads = dev->cu_count > 0 ? dev->cu_count : 1;
    int lanes = isa->lanes;
    int dev_lanes = dev->features & RFG_FEATURE_AVX512 ? 16 : dev->features & RFG_FEATURE_AVX2 ? 8 : 4;
    double hertz = max_d(dev->fma_tflops, 1e-3) * 1e12 / (4.0 * dev_lanes); /* of all cores; two FMA pipes each */

    /* Arithmetic: two a cycle, a chain of one or two for each accumulator. */
    int64_t panels = ceil_div(t.m_tile, p[P_COLS]);
    double rows = p[P_ROWS], cols = (double)t.m_tile / (double)panels;
    double cycles = dot ? max_d(rows * cols / 2 + 0.5 * rows, 6) : max_d(max_d(rows * cols, 2 * rows + cols), 8);
    if (lanes == 4)
        cycles = 2 * rows * cols + (t.kind == CPU_F16 ? 8 : 2) * rows;
    /* Lines of X and W that come from the L2 cache. */
    double part = t.k_block ? (double)min64(t.k_block, t.padded_k) / (double)max_d((double)t.padded_k, 1) : 1;
    double x_lines = cols * isa->group *
                     (is_i8_dot(prob, dot) ? 1
                      : dot                ? 2
                                           : 4) /
                     64,
           w_lines = rows * isa->group * t.w_element / 64;
    bool x_in_l1 = cols * (double)t.row_bytes * part <= 32 << 10;
    double lines = 1.2 * w_lines + (x_in_l1 ? 0 : x_lines * (panels == 1 ? 4 : 2));
    cycles = max_d(cycles, lines);
    if (p[P_KBLOCK]) /* accumulators go to memory and back */
        cycles += 2 * rows * cols / (p[P_KBLOCK] / isa->group);
    double steps = (double)(t.padded_k / isa->group) * n / rows * (double)(panels * t.m_tiles);
    double compute = (steps * cycles + 10 * m * n) / hertz * 1e6;

    double bytes = n * (double)gemm_w_row_bytes(prob), rate = max_d(dev->mem_gbps, 1) * 1e3;
    double stream = p[P_KBLOCK]                          ? 1.1
                    : p[P_PREFETCH] == CPU_PREFETCH_NEXT ? 1.02 + 0.02 * rows
                    : p[P_PREFETCH] == CPU_PREFETCH_ROWS ? (rows == 1 ? 1.1 : 1.2)
                                                         : (rows == 1 ? 1.1 : 1.3);
    if (p[P_PREFETCH] == CPU_PREFETCH_NEXT) /* the first strip of a task was not prefetched */
        stream += 0.3 * (double)t.strip / (double)t.n_chunk;
    double memory = bytes * stream / rate + m * (k + n) * t.element / rate;
    if (t.prepacked) /* unpacking, by each tile of X */
        compute += 2 * bytes * (double)t.m_tiles / (threads * 10e3);
    if (t.decoded) /* by each tile of X; plain C takes a nanosecond an element, vectors a tenth */
        compute += (lanes == 4 ? 1e-3 : 1e-4) * n * k * (double)t.m_tiles / threads;
    if (t.m_tiles > 1) /* again from the last-level cache for each further tile */
        memory += bytes * (double)(t.m_tiles - 1) / (threads * 25e3);
    return max_d(compute, memory) + 0.2 * (compute < memory ? compute : memory) + (threads > 1 ? 4 : 1);
}

/* ---- the variants ------------------------------------------------------------------------------------------------ */

/* Sums of int8 have kernels of their own. */
static const struct cpu_isa *isa_of(const struct cpu_isa *isa, const struct rfg_problem *prob, bool dot)
{
#if defined(__x86_64__)
    if (is_i8_dot(prob, dot))
        return &rfg_cpu_isa_avx512vnni;
#endif
    (void)prob;
    (void)dot;
    return isa;
}

/* Can pairs of bf16, or fours of int8, be multiplied at once? */
static bool dot_valid(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    int64_t k = prob->v[GEMM_K];
    bool i8 = prob->dtype[0] == RFG_I8;
    if ((!i8 && prob->dtype[0] != RFG_BF16) || prob->dtype[1] != prob->dtype[0])
        return rfg_refuse(why, "dot=1: needs bf16, or i8 by i8");
    if (i8 && gemm_scales(prob) == GEMM_SCALES_BLOCKS)
        return rfg_refuse(why, "dot=1: needs scales of tensors or rows, these are of blocks");
    if (i8 && k > MAX_I8_K)
        return rfg_refuse(why, "dot=1: K=%lld: must be at most %d, sums are int32", (long long)k, MAX_I8_K);
    if (i8)
        return (dev->features & RFG_FEATURE_AVX512VNNI) ||
               rfg_refuse(why, "dot=1: needs AVX512_VNNI, which this cpu does not have");
    return (dev->features & RFG_FEATURE_AVX512BF16) ||
           rfg_refuse(why, "dot=1: needs AVX512_BF16, which this cpu does not have");
}

#define VARIANT(isa_name, has_dot)                                                                                     \
    static bool isa_name##_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,           \
                                 struct rfg_reason *why)                                                               \
    {                                                                                                                  \
        if (has_dot && p[P_DOT] && !dot_valid(dev, prob, why))                                                         \
            return false;                                                                                              \
        return shape_ok(&rfg_cpu_isa_##isa_name, p, why);                                                              \
    }                                                                                                                  \
    static bool isa_name##_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,           \
                                 struct rfg_reason *why)                                                               \
    {                                                                                                                  \
        (void)dev;                                                                                                     \
        return shape_worth(&rfg_cpu_isa_##isa_name, isa_name##_params, prob, p, has_dot && p[P_DOT], why);             \
    }                                                                                                                  \
    static double isa_name##_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)       \
    {                                                                                                                  \
        return predict(isa_of(&rfg_cpu_isa_##isa_name, prob, has_dot && p[P_DOT]), dev, prob, p, has_dot && p[P_DOT]); \
    }                                                                                                                  \
    static size_t isa_name##_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)     \
    {                                                                                                                  \
        return workspace(isa_of(&rfg_cpu_isa_##isa_name, prob, has_dot && p[P_DOT]), dev, prob, p,                     \
                         has_dot && p[P_DOT]);                                                                         \
    }                                                                                                                  \
    static bool isa_name##_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,           \
                                 struct rfg_order *order, struct rfg_reason *why)                                      \
    {                                                                                                                  \
        (void)dev;                                                                                                     \
        bool integers = is_i8_dot(prob, has_dot && p[P_DOT]);                                                          \
        snprintf(order->words, sizeof(order->words), "gemm_cpu_" #isa_name "%s", integers ? ", integers" : "");        \
        return !has_dot || !p[P_DOT] || integers ||                                                                    \
               rfg_refuse(why, "dot=1: rows with tiny elements have all rows of their tile summed otherwise");         \
    }                                                                                                                  \
    static void isa_name##_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,             \
                               const void *kargs, struct rfg_cpu_pool *pool)                                           \
    {                                                                                                                  \
        gemm_cpu_run(isa_of(&rfg_cpu_isa_##isa_name, prob, has_dot &&p[P_DOT]), dev, prob, p, has_dot &&p[P_DOT],      \
                     kargs, pool);                                                                                     \
    }                                                                                                                  \
    const struct rfg_variant gemm_cpu_##isa_name = {                                                                   \
        .name = "gemm_cpu_" #isa_name,                                                                                 \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .n_params = (int)(sizeof(isa_name##_params) / sizeof(isa_name##_params[0])),                                   \
        .params = isa_name##_params,                                                                                   \
        .supports = isa_name##_supports,                                                                               \
        .valid = isa_name##_valid,                                                                                     \
        .worth = isa_name##_worth,                                                                                     \
        .predict = isa_name##_predict,                                                                                 \
        .workspace = isa_name##_workspace,                                                                             \
        .order = isa_name##_order,                                                                                     \
        .run = isa_name##_run,                                                                                         \
    }

static const struct gemm_takes takes = { .rows = GEMM_READ_ALL,
                                         .prepacked = GEMM_READ_ALL,
                                         .ends = GEMM_ENDS_ALL | GEMM_END_IDS };

static const struct rfg_param portable_params[] = {
    [P_ROWS] = { "rows", 3, { 1, 2, 4 } },      /* of W in a register block */
    [P_COLS] = { "cols", 4, { 1, 2, 4, 8 } },   /* of X in a register block */
    [P_KBLOCK] = { "k_block", 2, { 0, 1024 } }, /* elements of k that a block of W stays in L1 for; 0: all of K */
    [P_PREFETCH] = { "prefetch", 3, { CPU_PREFETCH_NONE, CPU_PREFETCH_ROWS, CPU_PREFETCH_NEXT } },
};

static bool portable_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return rfg_cpu_only(dev, NULL, why) && gemm_takes(prob, &takes, why);
}

VARIANT(portable, false);

#if defined(__x86_64__)

static const struct rfg_param avx2_params[] = {
    [P_ROWS] = { "rows", 4, { 1, 2, 4, 8 } },
    [P_COLS] = { "cols", 4, { 1, 2, 4, 8 } },
    [P_KBLOCK] = { "k_block", 3, { 0, 512, 1024 } },
    [P_PREFETCH] = { "prefetch", 3, { CPU_PREFETCH_NONE, CPU_PREFETCH_ROWS, CPU_PREFETCH_NEXT } },
};

static bool avx2_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!rfg_cpu_only(dev, NULL, why) || !gemm_takes(prob, &takes, why))
        return false;
    return (dev->features & RFG_FEATURE_AVX2) ||
           rfg_refuse(why, "needs AVX2, FMA and F16C, which this cpu does not have");
}

VARIANT(avx2, false);

static const struct rfg_param avx512_params[] = {
    [P_ROWS] = { "rows", 4, { 1, 2, 4, 8 } },
    [P_COLS] = { "cols", 5, { 1, 2, 4, 6, 8 } },
    [P_KBLOCK] = { "k_block", 3, { 0, 512, 1024 } },
    [P_PREFETCH] = { "prefetch", 3, { CPU_PREFETCH_NONE, CPU_PREFETCH_ROWS, CPU_PREFETCH_NEXT } },
    /* bf16 pairs by vdpbf16ps, exact for denormals all the same; fours of int8 by vpdpbusd, scaled afterwards */
    [P_DOT] = { "dot", 2, { 0, 1 } },
};

static bool avx512_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!rfg_cpu_only(dev, NULL, why) || !gemm_takes(prob, &takes, why))
        return false;
    return (dev->features & RFG_FEATURE_AVX512) ||
           rfg_refuse(why, "needs AVX-512 F, BW, VL and DQ, this cpu has %s",
                      dev->features & RFG_FEATURE_AVX2 ? "AVX2" : "less than AVX2");
}

VARIANT(avx512, true);

#else

static bool no_x86(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)dev;
    (void)prob;
    return rfg_refuse(why, "built for another processor than x86-64");
}

const struct rfg_variant gemm_cpu_avx2 = { .name = "gemm_cpu_avx2", .kind = RFG_VARIANT_HOST, .supports = no_x86 };
const struct rfg_variant gemm_cpu_avx512 = { .name = "gemm_cpu_avx512", .kind = RFG_VARIANT_HOST, .supports = no_x86 };

#endif
