/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of the norms: what each can do, how it is launched, and how long it should take. */
#include <inttypes.h>
#include <stdio.h>

#include "ops/gpu_rows.h"
#include "norm.h"

enum { P_THREADS, P_ROWS, P_CHUNKS, P_KEEP, P_AHEAD, P_WIDTH, P_STREAM, P_PERSIST, P_SPLIT };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 7, { 16, 32, 64, 128, 256, 512, 1024 } }, /* of a row */
    [P_ROWS] = { "rows", 5, { 1, 2, 4, 8, 16 } },                        /* of a workgroup */
    [P_CHUNKS] = { "chunks", 4, { 1, 2, 4, 8 } },                        /* of 16 bytes, a thread and step */
    [P_KEEP] = { "keep", 3, { KEEP_REGISTERS, KEEP_LDS, KEEP_NOTHING } },
    [P_AHEAD] = { "ahead", 2, { 0, 1 } }, /* weights are loaded first and kept */
    [P_WIDTH] = { "width", 4, { 16, 8, 4, 2 } },
    [P_STREAM] = { "stream", 3, { 0, 1, 2 } },
    /* Thousands of threads a CU that go through all rows; 3: a workgroup a CU, which reads the weights the fewest
     * times; 0: all at once. */
    [P_PERSIST] = { "persist", 4, { 0, 1, 2, 3 } },
    [P_SPLIT] = { "split", 4, { 1, 2, 4, 8 } }, /* workgroups that share a row */
};

static int size_of(const struct rfg_problem *prob)
{
    return (int)rfg_format_bytes(prob->dtype[0], 1);
}

/* Chunks of 16 bytes in a row. */
static int64_t row_chunks(const struct rfg_problem *prob)
{
    int64_t vec = 16 / size_of(prob);
    return (prob->v[NORM_N] + vec - 1) / vec;
}

static int width_of(const struct rfg_problem *prob)
{
    int width = rfg_chunk_width(prob, prob->v[NORM_N], prob->v[NORM_ALIGN], prob->v[NORM_ALIGN_Y], norm_is_plain(prob),
                                prob->v[NORM_SCALE] != 0);
    while (norm_adds(prob) && width > size_of(prob) && prob->v[NORM_ALIGN_Y] < width) /* residual_out */
        width /= 2;
    return width;
}

static int64_t steps_of(const struct rfg_problem *prob, const int *p)
{
    int64_t step = (int64_t)p[P_THREADS] * p[P_CHUNKS] * p[P_SPLIT];
    return (row_chunks(prob) + step - 1) / step;
}

/* f32 residuals: bytes of what is kept of a row, by those of x. */
static int widening(const struct rfg_problem *prob)
{
    return prob->v[NORM_RESIDUAL] ? 4 / size_of(prob) : 1;
}

/* 16 bytes each: what a thread keeps of a step's chunks, whichever takes more. */
static int words_of(const struct rfg_problem *prob, const int *p)
{
    return p[P_CHUNKS] * (prob->v[NORM_RESIDUAL] || prob->v[NORM_WTYPE] ? 4 / size_of(prob) : 1);
}

static int64_t lds_of(const struct rfg_problem *prob, const int *p)
{
    return p[P_KEEP] == KEEP_LDS ? steps_of(prob, p) * p[P_THREADS] * p[P_CHUNKS] * p[P_ROWS] * 16 * widening(prob) : 0;
}

static bool rows_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int threads = p[P_THREADS], block = threads * p[P_ROWS];
    if (block > dev->max_threads || block % dev->wave_size)
        return rfg_refuse(why, "threads=%d, rows=%d: must make whole waves, at most %d threads", threads, p[P_ROWS],
                          dev->max_threads);
    if (p[P_SPLIT] > 1 && !(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "split=%d: %s has no clusters of workgroups", p[P_SPLIT], dev->arch);
    if (p[P_SPLIT] > 1 && (p[P_KEEP] != KEEP_REGISTERS || p[P_ROWS] > 1 || p[P_PERSIST] || threads < dev->wave_size ||
                           prob->v[NORM_M] > MAX_GROUPS))
        return rfg_refuse(why, "split=%d: needs keep=1, rows=1, persist=0, threads >= %d and M <= %d", p[P_SPLIT],
                          dev->wave_size, MAX_GROUPS);
    if (p[P_KEEP] == KEEP_REGISTERS && steps_of(prob, p) > 1)
        return rfg_refuse(why, "threads=%d, chunks=%d: a row has %" PRId64 " chunks", threads, p[P_CHUNKS],
                          row_chunks(prob));
    if (p[P_AHEAD] && (p[P_KEEP] != KEEP_REGISTERS || prob->v[NORM_WEIGHT] == NORM_WEIGHT_NONE))
        return rfg_refuse(why, "ahead=1: needs keep=1 and a weight");
    if (words_of(prob, p) >= 8 && block * words_of(prob, p) > (p[P_AHEAD] ? 2048 : 4096))
        return rfg_refuse(why, "ahead=%d, chunks=%d: more registers than %d threads have", p[P_AHEAD], p[P_CHUNKS],
                          block);
    if (p[P_KEEP] == KEEP_REGISTERS &&
        (words_of(prob, p) * 16 / p[P_WIDTH] > 16 || (words_of(prob, p) >= 8 && p[P_ROWS] > 1)))
        return rfg_refuse(why, "chunks=%d, width=%d, rows=%d: more masks than there are scalar registers", p[P_CHUNKS],
                          p[P_WIDTH], p[P_ROWS]);
    if (lds_of(prob, p) > dev->lds_bytes - 2048)
        return rfg_refuse(why, "keep=2: %" PRId64 " bytes of LDS: must be at most %d", lds_of(prob, p),
                          dev->lds_bytes - 2048);
    if (threads * 16 / size_of(prob) < rfg_scale_columns(prob->v[NORM_SCALE]))
        return rfg_refuse(why, "threads=%d: a group of scales takes %d", threads,
                          (int)rfg_scale_columns(prob->v[NORM_SCALE]) * size_of(prob) / 16);
    if (p[P_WIDTH] < size_of(prob) || p[P_WIDTH] > width_of(prob))
        return rfg_refuse(why, "width=%d: must be from %d, an element, to %d, what N and the alignment allow",
                          p[P_WIDTH], size_of(prob), width_of(prob));
    return true;
}

static int64_t row_groups(const struct rfg_problem *prob, const int *p)
{
    return (prob->v[NORM_M] + p[P_ROWS] - 1) / p[P_ROWS];
}

static int64_t groups_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    int64_t groups = row_groups(prob, p), most = MAX_GROUPS;
    int block = p[P_THREADS] * p[P_ROWS];
    if (p[P_PERSIST])
        most = (int64_t)dev->cu_count * (p[P_PERSIST] == 3 ? 1 : MAX(p[P_PERSIST] * 1024 / block, 1));
    return MIN(groups, most);
}

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t chunks = row_chunks(prob), groups = row_groups(prob, p);
    int threads = p[P_THREADS], block = threads * p[P_ROWS];
    bool holds = chunks <= 4 * 1024; /* registers can hold a row */
    if (p[P_WIDTH] != width_of(prob))
        return rfg_refuse(why, "width=%d: %d is possible", p[P_WIDTH], width_of(prob));
    if (p[P_KEEP] == KEEP_REGISTERS) {
        if (p[P_CHUNKS] > 1 && (int64_t)threads * (p[P_CHUNKS] / 2) * p[P_SPLIT] >= chunks)
            return rfg_refuse(why, "chunks=%d: half as many hold a row", p[P_CHUNKS]);
        if (p[P_CHUNKS] == 1 && threads > 16 && threads / 2 * p[P_SPLIT] >= chunks && block > dev->wave_size)
            return rfg_refuse(why, "threads=%d: half as many hold a row", threads);
    } else {
        /* One or two of each that keep less, to be seen beside the others. */
        if (holds && chunks < 1024)
            return rfg_refuse(why, "keep=%d: registers hold %" PRId64 " chunks", p[P_KEEP], chunks);
        if (p[P_CHUNKS] * widening(prob) != 4 || threads < 512 || p[P_ROWS] > 1 || p[P_STREAM] == 2)
            return rfg_refuse(why, "keep=%d: chunks=%d, threads >= 512, rows=1 are enough", p[P_KEEP],
                              4 / widening(prob));
    }
    if (p[P_SPLIT] > 1 && groups * p[P_SPLIT] > 2 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "split=%d: %" PRId64 " rows keep all CUs busy", p[P_SPLIT], groups);
    if (p[P_SPLIT] > 1 && (chunks < 128 * p[P_SPLIT] || p[P_CHUNKS] > 4))
        return rfg_refuse(why, "split=%d: the row is short", p[P_SPLIT]);
    if (p[P_ROWS] > 1 && (block > 256 || groups < 2 * (int64_t)dev->cu_count) && block > dev->wave_size)
        return rfg_refuse(why, "rows=%d: too few workgroups, or too large ones", p[P_ROWS]);
    if (p[P_ROWS] == 1 && block < 128 && groups > 64 * (int64_t)dev->cu_count && threads <= 128)
        return rfg_refuse(why, "rows=1: %" PRId64 " small workgroups", groups);
    if (p[P_PERSIST] == 3 && (dev->platform == RFG_PLATFORM_NVIDIA || !p[P_AHEAD] || block < 256))
        return rfg_refuse(why, "persist=3: for weights that are kept, and caches that are slow beside the memory");
    if (p[P_PERSIST] && groups < 2 * groups_of(dev, prob, p))
        return rfg_refuse(why, "persist=%d: only %" PRId64 " workgroups", p[P_PERSIST], groups);
    if (threads < 256 && chunks >= 8 * threads * p[P_SPLIT] && groups * 2 < dev->cu_count)
        return rfg_refuse(why, "threads=%d: few rows, and each waits for its threads", threads);
    if (p[P_STREAM] && groups < dev->cu_count / 4)
        return rfg_refuse(why, "stream=%d: few rows fit into the caches", p[P_STREAM]);
    return true;
}

/* The last, partly filled turn counts in full if there are few. */
static double ceil_turns(double turns)
{
    return turns > 1 && turns < 8 ? (double)(int64_t)(turns + 0.999) : MAX(turns, 1);
}

static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, chunks = (double)row_chunks(prob);
    prob->op->cost(prob, &bytes, &flops);
    int block = p[P_THREADS] * p[P_ROWS];
    double groups = (double)groups_of(dev, prob, p), rounds = (double)row_groups(prob, p) / groups;
    int words = words_of(prob, p), registers = 32 + words * (norm_adds(prob) ? 12 : 8) + (p[P_AHEAD] ? 4 * words : 0);
    double per_cu = MAX(MIN(MIN(2048.0, 65536.0 / registers) / block, 32), 1);
    double split = p[P_SPLIT], at_once = MIN(groups * split, per_cu * dev->cu_count);
    double turns = ceil_turns(groups * split / at_once) * rounds;
    double loads = norm_adds(prob) ? 2 : 1;
    double in_flight = MIN((double)block * p[P_CHUNKS], chunks * p[P_ROWS] / split) * 16 * loads;
    double rate = MIN(1e3 * dev->mem_gbps, at_once * in_flight / LOAD_US);
    rate = MIN(rate, 1.5e3 * dev->mem_gbps * MIN(at_once, dev->cu_count) / dev->cu_count);
    double steps = (double)steps_of(prob, p), again = p[P_KEEP] == KEEP_NOTHING ? 1.3
                                                      : p[P_KEEP] == KEEP_LDS   ? 1.05
                                                                                : 1;
    double move = bytes * again / MAX(rate, 1);
    /* Weights again, from the caches, for each workgroup or row. (On NVIDIA the caches are never what limits.) */
    if (dev->platform != RFG_PLATFORM_NVIDIA && prob->v[NORM_WEIGHT] != NORM_WEIGHT_NONE)
        move += (p[P_AHEAD] ? groups * p[P_ROWS] : (double)prob->v[NORM_M]) * (double)prob->v[NORM_N] * size_of(prob) /
                (3e3 * dev->mem_gbps);
    /* A row in one workgroup: loads, a reduction across its waves for each pass, the weights if they come late. */
    double passes = 1 + norm_is_layer(prob) + (prob->v[NORM_SCALE] == RFG_SCALE_TOKEN);
    double waves = MAX((double)p[P_THREADS] / dev->wave_size, 1);
    double chain = steps * 0.25 + passes * (0.08 + 0.01 * waves + (split > 1 ? 0.1 + 0.02 * split : 0)) +
                   (p[P_AHEAD] ? 0 : 0.25) + 0.06 * p[P_CHUNKS] * MAX(block / 1024.0, 0.25) * passes;
    double lanes = flops * 3 / (0.5e6 * dev->fma_tflops * MIN(1, at_once * block / (512.0 * dev->cu_count)));
    double idle = 1 - chunks / (double)(steps * p[P_THREADS] * p[P_CHUNKS] * split);
    double us = MAX(MAX(move, lanes), (turns - 1) * (LOAD_US + chain) * 0.5);
    return dev->latency_us + LOAD_US + chain + us * (1 + 0.2 * idle) +
           (p[P_PERSIST] ? 0.02 + (dev->platform == RFG_PLATFORM_NVIDIA ? 0.03 * us : 0) : 0) +
           (p[P_STREAM] && bytes < (double)dev->cache_bytes ? 0.05 : 0);
}

/* A thread has chunks `threads` apart. Chunks that a row doesn't have add zeros; a step's sum is made before it is
 * added to those of other steps, if there are some. The largest of a row that is kept comes with the sum, before the
 * multiplication by 1 / rms: that is rounded otherwise. */
static bool rows_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_order *order, struct rfg_reason *why)
{
    bool kept = p[P_KEEP] == KEEP_REGISTERS;
    bool fused = kept && prob->v[NORM_SCALE] == RFG_SCALE_TOKEN && !norm_is_layer(prob) && !prob->v[NORM_BIAS] &&
                 (p[P_AHEAD] || prob->v[NORM_WEIGHT] == NORM_WEIGHT_NONE);
    (void)dev;
    snprintf(order->words, sizeof(order->words), "norm_rows threads=%d chunks=%d keep=%d fused=%d", p[P_THREADS],
             p[P_CHUNKS], kept, fused);
    return p[P_SPLIT] == 1 || rfg_refuse(why, "split=%d: takes M <= %d", p[P_SPLIT], MAX_GROUPS);
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    (void)dev;
    int vec = 16 / size_of(prob);
    k->source = "norm/rows.hip";
    k->entry = "norm_rows";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "ADD", norm_adds(prob));
    rfg_kernel_macro(k, "LAYER", norm_is_layer(prob));
    rfg_kernel_macro(k, "WEIGHT", (int)prob->v[NORM_WEIGHT]);
    rfg_kernel_macro(k, "BIAS", (int)prob->v[NORM_BIAS]);
    if (prob->v[NORM_RESIDUAL])
        rfg_kernel_macro(k, "RESIDUAL_F32", 1);
    if (prob->v[NORM_WTYPE])
        rfg_kernel_macro(k, "WEIGHT_F32", 1);
    rfg_kernel_macro(k, "SCALE", (int)prob->v[NORM_SCALE]);
    if (prob->v[NORM_SCALE] == RFG_SCALE_MX)
        rfg_kernel_macro(k, "ROUNDING", (int)prob->v[NORM_ROUNDING]);
    rfg_kernel_macro(k, "PLAIN", norm_is_plain(prob));
    rfg_kernel_macro(k, "HEADS", prob->v[NORM_HEADS] > 1);
    rfg_kernel_macro(k, "PACKED",
                     prob->v[NORM_HEADS] <= 1 && !prob->v[NORM_LDX] && !prob->v[NORM_LDR] && !prob->v[NORM_LDY]);
    rfg_kernel_macro(k, "ONCE", p[P_ROWS] == 1 && !p[P_PERSIST] && prob->v[NORM_M] <= MAX_GROUPS);
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
    rfg_kernel_macro(k, "CHUNKS", p[P_CHUNKS]);
    rfg_kernel_macro(k, "KEEP", p[P_KEEP]);
    rfg_kernel_macro(k, "AHEAD", p[P_AHEAD]);
    rfg_kernel_macro(k, "WIDTH", p[P_WIDTH]);
    rfg_kernel_macro(k, "STREAM", p[P_STREAM]);
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT]);
    /* Not of N but of how the threads divide it: no test of a chunk's being there is needed. */
    rfg_kernel_macro(k, "EXACT",
                     p[P_KEEP] == KEEP_REGISTERS &&
                         (int64_t)p[P_THREADS] * p[P_CHUNKS] * p[P_SPLIT] * vec == prob->v[NORM_N]);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)(groups_of(dev, prob, p) * p[P_SPLIT]), 1, 1 },
                              { (uint32_t)(p[P_THREADS] * p[P_ROWS]), 1, 1 },
                              (uint32_t)lds_of(prob, p) };
}

/* ---- portable: the one set of parameters that any problem takes -------------------------------------------------- */

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    p[P_THREADS] = 256;
    p[P_ROWS] = 1;
    p[P_CHUNKS] = 2;
    p[P_KEEP] = KEEP_NOTHING;
    p[P_AHEAD] = 0;
    p[P_WIDTH] = size_of(prob);
    p[P_STREAM] = 0;
    p[P_PERSIST] = 0;
    p[P_SPLIT] = 1;
}

static bool portable_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                           struct rfg_order *order, struct rfg_reason *why)
{
    int p[RFG_MAX_PARAMS];
    (void)none;
    portable_params_of(prob, p);
    return rows_order(dev, prob, p, order, why);
}

/* ---- several ranks ----------------------------------------------------------------------------------------------- */

static const struct rfg_param joint_params[JOINT_NPARAMS] = {
    [JOINT_RANKS] = { "ranks", 7, { 2, 3, 4, 5, 6, 7, 8 } },
    [JOINT_THREADS] = { "threads", 5, { 64, 128, 256, 512, 1024 } },
    [JOINT_CHUNKS] = { "chunks", 4, { 1, 2, 4, 8 } },
    [JOINT_SPLIT] = { "split", 4, { 1, 2, 4, 8 } },
};

/* The row kernel's parameters: registers keep a row, and each row has its workgroups. */
static void joint_rows_of(const struct rfg_problem *prob, const int *joint, int *p)
{
    portable_params_of(prob, p);
    p[P_THREADS] = joint[JOINT_THREADS];
    p[P_CHUNKS] = joint[JOINT_CHUNKS];
    p[P_SPLIT] = joint[JOINT_SPLIT];
    p[P_KEEP] = KEEP_REGISTERS;
    p[P_AHEAD] = prob->v[NORM_WEIGHT] != NORM_WEIGHT_NONE;
    p[P_WIDTH] = width_of(prob);
}

/* A thread waits for a chunk of each rank at once: their packets are in its registers. */
static int joint_most_threads(int ranks)
{
    return ranks <= 2 ? 1024 : ranks <= 4 ? 512 : 256;
}

/* A thread a chunk, if there can be. Where there are clusters, a row's threads are on as many CUs as can be: each has a
 * few packets to look for. */
void norm_joint_choose(const struct rfg_device *dev, const struct rfg_problem *prob, int ranks, int *joint)
{
    const int64_t chunks = row_chunks(prob);
    const int most = dev->features & RFG_FEATURE_CLUSTER ? 8 : 1;
    int *threads = &joint[JOINT_THREADS], *each = &joint[JOINT_CHUNKS], *split = &joint[JOINT_SPLIT];
    joint[JOINT_RANKS] = ranks;
    for (*threads = 64, *each = *split = 1; *split < most && *threads * *split < chunks;)
        *split *= 2;
    while (*threads < joint_most_threads(ranks) && *threads * *split < chunks)
        *threads *= 2;
    while (*each < 8 && *threads * *split * *each < chunks)
        *each *= 2;
}

static bool joint_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *joint,
                        struct rfg_reason *why)
{
    int p[RFG_MAX_PARAMS];
    joint_rows_of(prob, joint, p);
    if (prob->v[NORM_M] * joint[JOINT_SPLIT] > 1 << COMM_TICKET_BITS)
        return rfg_refuse(why, "M=%" PRId64 ", split=%d: must make at most %d workgroups", prob->v[NORM_M],
                          joint[JOINT_SPLIT], 1 << COMM_TICKET_BITS);
    if (joint[JOINT_THREADS] > joint_most_threads(joint[JOINT_RANKS]))
        return rfg_refuse(why, "threads=%d: must be at most %d of %d ranks", joint[JOINT_THREADS],
                          joint_most_threads(joint[JOINT_RANKS]), joint[JOINT_RANKS]);
    return rows_valid(dev, prob, p, why);
}

static void joint_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *joint,
                         struct rfg_kernel *k)
{
    int p[RFG_MAX_PARAMS];
    joint_rows_of(prob, joint, p);
    rows_kernel(dev, prob, p, k);
    rfg_kernel_macro(k, "RANKS", joint[JOINT_RANKS]);
}

static void joint_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *joint,
                         struct rfg_launch *l)
{
    int p[RFG_MAX_PARAMS];
    joint_rows_of(prob, joint, p);
    rows_launch(dev, prob, p, l);
}

static double joint_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *joint)
{
    int p[RFG_MAX_PARAMS];
    joint_rows_of(prob, joint, p);
    return rows_predict(dev, prob, p);
}

const struct rfg_variant add_rmsnorm_joint = { .name = "add_rmsnorm_joint",
                                               .kind = RFG_VARIANT_KERNEL,
                                               .n_params = JOINT_NPARAMS,
                                               .params = joint_params,
                                               .joint_args = sizeof(struct comm_args),
                                               .supports = rows_supports,
                                               .valid = joint_valid,
                                               .predict = joint_predict,
                                               .kernel = joint_kernel,
                                               .launch = joint_launch };

/* ---- the variants ----------------------------------------------------------------------------------------------- */

KERNEL_VARIANT(rmsnorm, rows, .order = rows_order);
PORTABLE_VARIANT(rmsnorm, .order = portable_order);
KERNEL_VARIANT(add_rmsnorm, rows, .order = rows_order);
PORTABLE_VARIANT(add_rmsnorm, .order = portable_order);
KERNEL_VARIANT(layernorm, rows, .order = rows_order);
PORTABLE_VARIANT(layernorm, .order = portable_order);
KERNEL_VARIANT(add_layernorm, rows, .order = rows_order);
PORTABLE_VARIANT(add_layernorm, .order = portable_order);
