/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of moe_route: moe_route_wave, a wave a token; moe_route_group, a workgroup, for more experts; and
 * moe_route_table, a wave, where a table says the experts. */
#include <inttypes.h>

#include "ops/gpu.h"
#include "route.h"

enum { P_CHUNKS, P_WAVES };

#define GROUP_THREADS (1 << ROUTE_GROUP_BITS)

static const struct rfg_param wave_params[] = {
    [P_CHUNKS] = { "chunks", 6, { 1, 2, 4, 8, 16, 32 } }, /* experts of a lane, at most */
    [P_WAVES] = { "waves", 4, { 1, 2, 4, 8 } },           /* of a workgroup, each with a token of its own */
};
static const struct rfg_param group_params[] = {
    [P_CHUNKS] = { "chunks", 3, { 4, 8, 16 } }, /* experts of a thread, at most */
};
static const struct rfg_param table_params[] = {
    { "waves", 4, { 1, 2, 4, 8 } },
};

int route_experts_each(const struct rfg_problem *prob, int threads)
{
    struct route_args a = route_args_of(prob);
    return (int)ceil_div(a.size, threads >> a.group_bits);
}

/* A table is read by the variant that needs one. */
static bool has_table(const struct rfg_problem *prob, bool wanted, struct rfg_reason *why)
{
    if ((prob->v[ROUTE_TABLE] != 0) == wanted)
        return true;
    return wanted ? rfg_refuse(why, "table=0: the experts must be chosen")
                  : rfg_refuse(why, "table=%" PRId64 ": nothing is chosen", prob->v[ROUTE_TABLE]);
}

void route_macros(const struct rfg_problem *prob, struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "SCORE", (int)v[ROUTE_SCORE]);
    rfg_kernel_macro(k, "BIAS", (int)v[ROUTE_BIAS]);
    rfg_kernel_macro(k, "BIAS_DTYPE", v[ROUTE_BIAS] ? route_bias_dtype(prob) : prob->dtype[0]);
    rfg_kernel_macro(k, "GROUPED", v[ROUTE_GROUPS] > 1);
}

/* Microseconds of what one after the other waits for: loads, picks, instructions. A lane's experts are loaded, perhaps
 * scored, and gone through for each pick, 4 instructions each; a CU issues one of a wave in four clocks, of 2 GHz, on
 * each of four parts. What waits for another lane, or for memory, other waves hide. */
static double choosing_us(const struct rfg_device *dev, const struct rfg_problem *prob, double chunks, double waves)
{
    const int64_t *v = prob->v;
    double bytes, flops, top = (double)v[ROUTE_TOP];
    prob->op->cost(prob, &bytes, &flops);
    bool apart = v[ROUTE_BIAS] && v[ROUTE_SCORE] != RFG_MOE_TOPK_SOFTMAX;
    double loads = 1.0 + (double)v[ROUTE_TOKENS] + (apart ? 0.5 : 0);
    double picks = top * 0.1 + (v[ROUTE_GROUPS] > 1 ? 0.3 : 0) + 0.2;
    double issued = 0.002 * chunks * ((apart ? 40 : 10) + 4 * top);
    double turns = MAX((double)v[ROUTE_T] * waves / (4.0 * dev->cu_count), 1), hidden = MIN(turns, 4);
    return dev->latency_us + loads * dev->load_us + turns * (issued + picks / hidden) +
           bytes / MAX(1e3 * dev->mem_gbps, 1);
}

/* ---- a wave a token --------------------------------------------------------------------------------------------- */

static bool wave_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why) || !has_table(prob, false, why))
        return false;
    return prob->v[ROUTE_E] <= ROUTE_WAVE_E ||
           rfg_refuse(why, "E=%" PRId64 ": must be at most %d, which a wave holds", prob->v[ROUTE_E], ROUTE_WAVE_E);
}

static bool wave_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int needed = route_experts_each(prob, dev->wave_size), most = ROUTE_WAVE_E / dev->wave_size;
    if (p[P_CHUNKS] < needed)
        return rfg_refuse(why, "chunks=%d: a lane has %d experts", p[P_CHUNKS], needed);
    return p[P_CHUNKS] <= most || rfg_refuse(why, "chunks=%d: must be at most %d, what a lane of %d ever has",
                                             p[P_CHUNKS], most, dev->wave_size);
}

static bool wave_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t t = prob->v[ROUTE_T];
    if (p[P_CHUNKS] / 2 >= route_experts_each(prob, dev->wave_size))
        return rfg_refuse(why, "chunks=%d: half as many hold a row", p[P_CHUNKS]);
    if (p[P_WAVES] > 1 && t < (int64_t)p[P_WAVES] * dev->cu_count)
        return rfg_refuse(why, "waves=%d: leaves CUs idle", p[P_WAVES]);
    return p[P_WAVES] > 2 || t <= 32 * (int64_t)dev->cu_count ||
           rfg_refuse(why, "waves=%d: more workgroups than need be", p[P_WAVES]);
}

static double wave_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    return choosing_us(dev, prob, p[P_CHUNKS], 1) + 0.01 * (p[P_WAVES] - 1);
}

static void wave_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    (void)dev;
    k->source = "moe/route.hip";
    k->entry = "moe_route_wave";
    route_macros(prob, k);
    rfg_kernel_macro(k, "CHUNKS", p[P_CHUNKS]);
    rfg_kernel_macro(k, "WAVES", p[P_WAVES]);
}

static void wave_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    int64_t groups = MIN(ceil_div(prob->v[ROUTE_T], p[P_WAVES]), MAX_GROUPS);
    *l = (struct rfg_launch){ { (uint32_t)groups, 1, 1 }, { (uint32_t)(p[P_WAVES] * dev->wave_size), 1, 1 }, 0 };
}

const struct rfg_variant moe_route_wave = {
    .name = "moe_route_wave",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(wave_params),
    .params = wave_params,
    .supports = wave_supports,
    .valid = wave_valid,
    .worth = wave_worth,
    .predict = wave_predict,
    .kernel = wave_kernel,
    .launch = wave_launch,
};

/* ---- a workgroup a token ---------------------------------------------------------------------------------------- */

static bool group_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why) || !has_table(prob, false, why))
        return false;
    return prob->v[ROUTE_E] > ROUTE_WAVE_E || rfg_refuse(why, "E=%" PRId64 ": a wave holds them", prob->v[ROUTE_E]);
}

static bool group_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    int needed = route_experts_each(prob, GROUP_THREADS);
    (void)dev;
    return p[P_CHUNKS] >= needed || rfg_refuse(why, "chunks=%d: a thread has %d experts", p[P_CHUNKS], needed);
}

static bool group_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    (void)dev;
    return p[P_CHUNKS] == 4 || p[P_CHUNKS] / 2 < route_experts_each(prob, GROUP_THREADS) ||
           rfg_refuse(why, "chunks=%d: half as many hold a row", p[P_CHUNKS]);
}

/* Waves pick side by side, then one of them merges; two barriers and a softmax' more. */
static double group_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double waves = (double)GROUP_THREADS / dev->wave_size;
    double groups = MAX((double)prob->v[ROUTE_T] * waves / (16.0 * dev->cu_count), 1);
    return choosing_us(dev, prob, p[P_CHUNKS], waves) + groups * (0.5 + 0.1 * (double)prob->v[ROUTE_TOP]);
}

static void group_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_kernel *k)
{
    k->source = "moe/route_group.hip";
    k->entry = "moe_route_group";
    route_macros(prob, k);
    rfg_kernel_macro(k, "CHUNKS", p[P_CHUNKS]);
    rfg_kernel_macro(k, "WAVES", GROUP_THREADS / dev->wave_size);
}

static void group_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_launch *l)
{
    (void)dev, (void)p;
    *l = (struct rfg_launch){ { (uint32_t)MIN(prob->v[ROUTE_T], MAX_GROUPS), 1, 1 }, { GROUP_THREADS, 1, 1 }, 0 };
}

const struct rfg_variant moe_route_group = {
    .name = "moe_route_group",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(group_params),
    .params = group_params,
    .supports = group_supports,
    .valid = group_valid,
    .worth = group_worth,
    .predict = group_predict,
    .kernel = group_kernel,
    .launch = group_launch,
};

/* ---- experts of a table ----------------------------------------------------------------------------------------- */

static bool table_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return is_gpu(dev, why) && has_table(prob, true, why);
}

static bool table_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    return p[0] == 1 || prob->v[ROUTE_T] >= (int64_t)p[0] * dev->cu_count ||
           rfg_refuse(why, "waves=%d: leaves CUs idle", p[0]);
}

/* A token id, a row of the table, logits: one after the other; or the row of logits, a few lines in flight. */
static double table_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const int64_t *v = prob->v;
    double bytes, flops, loads = 2.0 + (v[ROUTE_TOKEN_IDS] != 0) + (double)v[ROUTE_TOKENS];
    double turns = MAX((double)v[ROUTE_T] / (16.0 * dev->cu_count), 1);
    prob->op->cost(prob, &bytes, &flops);
    bool whole = v[ROUTE_SCORE] == RFG_MOE_SOFTMAX && !v[ROUTE_RENORM];
    return dev->latency_us + loads * dev->load_us + turns * (0.3 + (whole ? 0.01 * (double)v[ROUTE_E] : 0)) +
           0.01 * (p[0] - 1) + bytes / MAX(1e3 * dev->mem_gbps, 1);
}

static void table_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_kernel *k)
{
    (void)dev;
    k->source = "moe/route_table.hip";
    k->entry = "moe_route_table";
    rfg_kernel_macro(k, "IN_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "SCORE", (int)prob->v[ROUTE_SCORE]);
    rfg_kernel_macro(k, "ID_DTYPE", (int)prob->v[ROUTE_TOKEN_IDS]);
    rfg_kernel_macro(k, "WAVES", p[0]);
}

static void table_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_launch *l)
{
    int64_t groups = MIN(ceil_div(prob->v[ROUTE_T], p[0]), MAX_GROUPS);
    *l = (struct rfg_launch){ { (uint32_t)groups, 1, 1 }, { (uint32_t)(p[0] * dev->wave_size), 1, 1 }, 0 };
}

const struct rfg_variant moe_route_table = {
    .name = "moe_route_table",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(table_params),
    .params = table_params,
    .supports = table_supports,
    .worth = table_worth,
    .predict = table_predict,
    .kernel = table_kernel,
    .launch = table_launch,
};
