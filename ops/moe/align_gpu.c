/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of moe_align: moe_align_experts, a workgroup an expert, and moe_align_chunks, a workgroup a chunk of
 * pairs. Both take any problem. */
#include <inttypes.h>
#include <math.h>

#include "align.h"
#include "ops/gpu.h"

enum { P_THREADS, P_CHUNK, P_KEEP = P_CHUNK };

static const struct rfg_param experts_params[] = {
    [P_THREADS] = { "threads", 4, { 64, 128, 256, 512 } },
    [P_KEEP] = { "keep", 4, { 1, 2, 4, 8 } }, /* pairs that a lane looks at at a time */
};
static const struct rfg_param chunks_params[] = {
    [P_THREADS] = { "threads", 4, { 256, 512, 128, 64 } },
    [P_CHUNK] = { "chunk", 4, { 1024, 2048, 4096, 8192 } }, /* pairs of a workgroup */
};

static int64_t pairs_of(const struct rfg_problem *prob)
{
    return prob->v[ALIGN_T] * prob->v[ALIGN_TOP];
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static bool threads_fit(const struct rfg_device *dev, const int *p, struct rfg_reason *why)
{
    return p[P_THREADS] <= dev->max_threads ||
           rfg_refuse(why, "threads=%d: must be at most %d", p[P_THREADS], dev->max_threads);
}

static void kernel_of(const struct rfg_problem *prob, const int *p, const char *source, const char *entry,
                      struct rfg_kernel *k)
{
    k->source = source;
    k->entry = entry;
    rfg_kernel_macro(k, "FORMAT", (int)prob->v[ALIGN_FORMAT]);
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    if (prob->v[ALIGN_IDENTITIES]) /* others' kernels need not know of it */
        rfg_kernel_macro(k, "IDENTITY", 1);
}

/* The tail that is filled in, an id, its place in the map and a weight, one after the other. */
static double common_us(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    double bytes, flops, loads = 1.0 + (prob->v[ALIGN_MAP] > 0) + prob->v[ALIGN_TOKENS] + prob->v[ALIGN_WEIGHTS];
    prob->op->cost(prob, &bytes, &flops);
    return dev->latency_us + loads * dev->load_us + bytes / MAX(1e3 * dev->mem_gbps, 1);
}

/* ---- a workgroup an expert -------------------------------------------------------------------------------------- */

static bool experts_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_reason *why)
{
    (void)prob;
    return threads_fit(dev, p, why);
}

static bool experts_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_reason *why)
{
    (void)dev;
    if (pairs_of(prob) > 8192 && prob->v[ALIGN_E] <= 1024) /* more may not fit into the LDS of the others */
        return rfg_refuse(why, "%" PRId64 " ids: too many for each workgroup to read", pairs_of(prob));
    /* What one look takes is read once. */
    int64_t at_once = (int64_t)p[P_THREADS] * p[P_KEEP];
    if (at_once / 2 >= MAX(pairs_of(prob), 64))
        return rfg_refuse(why, "threads=%d, keep=%d: half of either takes all ids", p[P_THREADS], p[P_KEEP]);
    return at_once >= MIN(pairs_of(prob), 512) ||
           rfg_refuse(why, "threads=%d, keep=%d: ids are read twice", p[P_THREADS], p[P_KEEP]);
}

/* A wave has some 150 instructions to begin with and to end, and 45 for each pair of a lane; it issues one in five
 * clocks, and a CU four in one, at 1.7 GHz. */
static double experts_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double pairs = (double)pairs_of(prob), groups = (double)prob->v[ALIGN_E] + 1, at_once = p[P_THREADS] * p[P_KEEP];
    double looks = ceil(MAX(pairs, 1) / at_once), again = looks > 1 ? 2 : 1;
    double on_a_cu = MAX(groups / dev->cu_count, 1) * p[P_THREADS] / dev->wave_size;
    double instructions = 150 + (ALIGN_PADS(prob->v[ALIGN_FORMAT]) ? 150 : 0) + 45 * again * looks * p[P_KEEP];
    return common_us(dev, prob) + instructions * (0.003 + 0.00015 * on_a_cu) + (again * looks - 1) * LOAD_US;
}

static void experts_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_kernel *k)
{
    (void)dev;
    kernel_of(prob, p, "moe/align_experts.hip", "moe_align_experts", k);
    rfg_kernel_macro(k, "KEEP", p[P_KEEP]);
    if (prob->v[ALIGN_E] > 1024)
        rfg_kernel_macro(k, "ROOM", ALIGN_MAX_EXPERTS);
}

static void experts_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)prob->v[ALIGN_E] + 1, 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

const struct rfg_variant moe_align_experts = {
    .name = "moe_align_experts",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(experts_params),
    .params = experts_params,
    .supports = supports,
    .valid = experts_valid,
    .worth = experts_worth,
    .predict = experts_predict,
    .kernel = experts_kernel,
    .launch = experts_launch,
};

/* ---- a workgroup a chunk ---------------------------------------------------------------------------------------- */

static uint32_t chunks_lds(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    unsigned waves = (unsigned)(p[P_THREADS] / dev->wave_size);
    return 4 * ALIGN_CHUNKS_WORDS((unsigned)prob->v[ALIGN_E], waves);
}

static int64_t chunks_groups(const struct rfg_problem *prob, const int *p)
{
    return MAX(ceil_div(pairs_of(prob), p[P_CHUNK]), 1);
}

static bool chunks_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_reason *why)
{
    uint32_t lds = chunks_lds(dev, prob, p), most = (uint32_t)dev->lds_bytes - 1024;
    if (!threads_fit(dev, p, why))
        return false;
    return lds <= most || rfg_refuse(why, "threads=%d: E=%" PRId64 " takes %u bytes of LDS: must be at most %u",
                                     p[P_THREADS], prob->v[ALIGN_E], lds, most);
}

static bool chunks_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_reason *why)
{
    if (p[P_THREADS] < 256 && chunks_valid(dev, prob, (int[]){ 2 * p[P_THREADS], p[P_CHUNK] }, NULL))
        return rfg_refuse(why, "threads=%d: LDS has room for twice as many", p[P_THREADS]);
    if (p[P_CHUNK] > 1024 && pairs_of(prob) <= p[P_CHUNK] / 2)
        return rfg_refuse(why, "chunk=%d: half of it takes all ids", p[P_CHUNK]);
    return p[P_CHUNK] == 8192 || chunks_groups(prob, p) <= 2 * (int64_t)dev->cu_count ||
           rfg_refuse(why, "chunk=%d: more workgroups than go at a time", p[P_CHUNK]);
}

/* Counting is an addition in LDS for each pair, a wave's in about 32 clocks; placing a wave of pairs takes some 200. */
static double chunks_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double pairs = (double)pairs_of(prob), threads = p[P_THREADS], groups = (double)chunks_groups(prob, p);
    double turns = MAX(groups / dev->cu_count, 1), experts = (double)prob->v[ALIGN_E];
    double own = MIN(pairs, p[P_CHUNK]);
    double counting = 0.016 * pairs / dev->wave_size + 0.05 * pairs / threads;
    double sums = 0.5 + 0.0003 * experts * threads / dev->wave_size / 8;
    return common_us(dev, prob) + turns * (counting + sums + 0.25 * MAX(own / threads, 1) + dev->load_us);
}

static void chunks_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_kernel *k)
{
    (void)dev;
    kernel_of(prob, p, "moe/align_chunks.hip", "moe_align_chunks", k);
    rfg_kernel_macro(k, "CHUNK", p[P_CHUNK]);
}

static void chunks_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)chunks_groups(prob, p), 1, 1 },
                              { (uint32_t)p[P_THREADS], 1, 1 },
                              chunks_lds(dev, prob, p) };
}

const struct rfg_variant moe_align_chunks = {
    .name = "moe_align_chunks",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(chunks_params),
    .params = chunks_params,
    .supports = supports,
    .valid = chunks_valid,
    .worth = chunks_worth,
    .predict = chunks_predict,
    .kernel = chunks_kernel,
    .launch = chunks_launch,
};
