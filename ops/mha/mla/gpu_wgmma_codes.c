/* SPDX-License-Identifier: MIT
 *
 * The host side of mla_decode_wgmma_codes (wgmma_codes.hip). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "mla.h"
#include "mla_layout.h"
#include "ops/gpu.h"
#include "ops/model/model.h"

enum { P_ROWS, P_TEAMS, P_PARTS, P_CLUSTERS };

static const struct rfg_param params[] = {
    [P_ROWS] = { "rows", 2, { 16, 32 } },                 /* of a workgroup */
    [P_TEAMS] = { "teams", 2, { 2, 3 } },                 /* warpgroups, of which each multiplies its own keys */
    [P_PARTS] = { "parts", 5, { 1, 2, 4, 8, 16 } },       /* of a cluster's keys, a workgroup each */
    [P_CLUSTERS] = { "clusters", 5, { 1, 2, 4, 8, 16 } }, /* that share a sequence's keys */
};

static struct mla_few few_of(const struct rfg_problem *prob, const int *p)
{
    return mla_few_of(prob, p[P_ROWS], p[P_PARTS], p[P_CLUSTERS]);
}
static int lds_bytes(const struct rfg_problem *prob, const int *p)
{
    return MLA_CODES_LDS_BYTES((int)prob->v[MLA_D], p[P_ROWS], p[P_TEAMS]);
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    int dv = mla_dv(prob);
    int64_t format = prob->v[MLA_FORMAT];
    if (!mla_wgmma_supports(dev, prob, why))
        return false;
    /* V32's scales would multiply sums, and its elements be left unrounded, which the header doesn't allow. */
    if (prob->v[MLA_KV] != RFG_E4M3 || format != MLA_PLAIN)
        return rfg_refuse(why, "kv=%s format=%s: must be e4m3, plain", rfg_dtype_name((rfg_dtype)mla_kv_dtype(prob)),
                          mla_format_names[format]);
    return dv % 256 == 0 || rfg_refuse(why, "Dv=%d: must be 256 or 512", dv);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    if (p[P_ROWS] > 16 && p[P_TEAMS] > 2)
        return rfg_refuse(why, "rows=%d teams=%d: sums of 32 rows leave registers for 2", p[P_ROWS], p[P_TEAMS]);
    return mla_wgmma_valid(dev, lds_bytes(prob, p), few_of(prob, p).items, p[P_PARTS], p[P_CLUSTERS], why);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    return mla_few_worth(dev, prob, few_of(prob, p), why);
}

/* As an H200 has it: a tile takes 1.7 us, whoever multiplies it; of 32 rows it should take a third more. */
static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct mla_few f = few_of(prob, p);
    double tile = p[P_TEAMS] > 2 ? 1.65 : 1.75;
    return mla_few_predict(dev, prob, &f, p[P_ROWS] > 16 ? tile * 4 / 3 : tile, 1.0);
}

/* What keys are divided into depends on the sequence's length, on teams, parts and clusters. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "mla_decode_wgmma_codes teams=%d parts=%d clusters=%d", p[P_TEAMS],
             p[P_PARTS], p[P_CLUSTERS]);
    return true;
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    return mla_few_workspace(prob, few_of(prob, p));
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "mha/mla/wgmma_codes.hip";
    k->entry = "mla_decode_wgmma_codes";
    mla_wgmma_macros(prob, p[P_PARTS], p[P_CLUSTERS], lds_bytes(prob, p), k);
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
    rfg_kernel_macro(k, "TEAMS", p[P_TEAMS]);
    rfg_kernel_macro(k, "STAGES", MLA_CODES_STAGES((int)prob->v[MLA_D], p[P_ROWS], p[P_TEAMS]));
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev;
    mla_wgmma_launch(few_of(prob, p).groups, lds_bytes(prob, p), l);
    l->block[0] = (uint32_t)(128 * (p[P_TEAMS] + 1));
}

const struct rfg_variant mla_decode_wgmma_codes = {
    .name = "mla_decode_wgmma_codes",
    .kind = RFG_VARIANT_KERNEL,
    .predict = predict,
    .worth = worth,
    .valid = valid,
    .supports = supports,
    .params = params,
    .n_params = COUNT(params),
    .launch = launch,
    .kernel = kernel,
    .order = order_of,
    .workspace = workspace,
};
