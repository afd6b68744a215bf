/* SPDX-License-Identifier: MIT
 *
 * The operator moe_route: its keys, rules and table. The public function is in route_call.c. */
#include "route.h"

#include <inttypes.h>
#include <math.h>

#include "ops/operand.h"
#include "ops/params.h"

const char *const route_score_names[] = { "softmax", "topk_softmax", "sigmoid", "sqrt_softplus" };
const char *const route_btype_names[] = { "x" };
static const char *const no_ids[] = { "none" };

#define STRIDE(name, of)                                                                                               \
    {                                                                                                                  \
        name, RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of " of " in elements; 0: packed"                \
    }
static const struct rfg_key route_keys[ROUTE_NKEYS] = {
    [ROUTE_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens: rows of x" },
    [ROUTE_E] = { "E", RFG_KEY_SIZE, 0, 1, ROUTE_MAX_E, NULL, "experts: columns of x" },
    [ROUTE_TOP] = { "top", RFG_KEY_SIZE, 0, 1, ROUTE_MAX_TOP, NULL, "experts that a token gets" },
    [ROUTE_SCORE] = { "score", RFG_KEY_ATTR, RFG_MOE_SOFTMAX, RFG_MOE_SOFTMAX, RFG_MOE_SQRT_SOFTPLUS, route_score_names,
                      "what scores are of logits" },
    [ROUTE_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a bias is added where experts are chosen" },
    [ROUTE_BTYPE] = { "btype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, route_btype_names,
                      "dtype of the bias: x's, or f32 with a 16-bit x", 1u << RFG_F32 },
    [ROUTE_GROUPS] = { "groups", RFG_KEY_ATTR, 1, 1, ROUTE_MAX_GROUPS, NULL, "groups that experts are in" },
    [ROUTE_TOP_GROUPS] = { "top_groups", RFG_KEY_ATTR, 1, 1, ROUTE_MAX_GROUPS, NULL,
                           "groups whose experts may be chosen" },
    [ROUTE_RENORM] = { "renorm", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: weights are divided by their sum" },
    [ROUTE_SHARED] = { "shared", RFG_KEY_ATTR, 0, 0, ROUTE_MAX_SHARED, NULL, "experts that all tokens get besides" },
    [ROUTE_TOKENS] = { "tokens", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: how many rows count is in device memory" },
    [ROUTE_TABLE] = { "table", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL,
                      "rows of a table that says the experts; 0: they are chosen" },
    [ROUTE_TOKEN_IDS] = { "token_ids", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, no_ids,
                          "with a table, dtype of the numbers of tokens' rows; none: row t is token t's",
                          1u << RFG_I32 | 1u << RFG_I64 },
    [ROUTE_LDX] = STRIDE("ldx", "x"),
    [ROUTE_LDI] = STRIDE("ldi", "ids"),
    [ROUTE_LDW] = STRIDE("ldw", "weights"),
    [ROUTE_LDT] = STRIDE("ldt", "the table"),
    [ROUTE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand route_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "weights", true, RFG_FORMAT_LISTED, 1, 0 },
    { "ids", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "bias", false, RFG_FORMAT_KEYED, ROUTE_BTYPE, 1 },
    { "tokens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "table", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "token_ids", false, RFG_FORMAT_KEYED, ROUTE_TOKEN_IDS, 0 },
};

static bool groups_valid(const int64_t *v, struct rfg_reason *why)
{
    int64_t groups = v[ROUTE_GROUPS], kept = v[ROUTE_TOP_GROUPS];
    if (groups & (groups - 1))
        return rfg_refuse(why, "groups=%" PRId64 ": must be a power of two, from 1 to 32", groups);
    if (v[ROUTE_E] % groups)
        return rfg_refuse(why, "groups=%" PRId64 ": must divide E=%" PRId64 ", x's columns", groups, v[ROUTE_E]);
    if (kept > groups)
        return rfg_refuse(why, "top_groups=%" PRId64 " (topk_groups): must be at most groups=%" PRId64, kept, groups);
    return v[ROUTE_TOP] <= v[ROUTE_E] / groups * kept ||
           rfg_refuse(why,
                      "top=%" PRId64 ", ids' columns without shared: must be at most %" PRId64
                      ", the experts of top_groups=%" PRId64 " (topk_groups)",
                      v[ROUTE_TOP], v[ROUTE_E] / groups * kept, kept);
}

/* Experts that a table says: nothing is chosen. */
static bool table_valid(const int64_t *v, struct rfg_reason *why)
{
    if (!v[ROUTE_TABLE] && (v[ROUTE_TOKEN_IDS] || v[ROUTE_LDT]))
        return rfg_refuse(why, "token_ids=%s, ldt=%" PRId64 ": must be left out without a table",
                          rfg_dtype_name((rfg_dtype)v[ROUTE_TOKEN_IDS]), v[ROUTE_LDT]);
    if (!v[ROUTE_TABLE])
        return true;
    if (v[ROUTE_BIAS] || v[ROUTE_GROUPS] > 1)
        return rfg_refuse(why, "bias=%" PRId64 ", groups=%" PRId64 ": must be left out with a table, which chooses",
                          v[ROUTE_BIAS], v[ROUTE_GROUPS]);
    if (!v[ROUTE_TOKEN_IDS] && v[ROUTE_TABLE] != v[ROUTE_T])
        return rfg_refuse(why, "table=%" PRId64 ": must be T=%" PRId64 " without token_ids", v[ROUTE_TABLE],
                          v[ROUTE_T]);
    return !v[ROUTE_LDT] || v[ROUTE_LDT] >= v[ROUTE_TOP] ||
           rfg_refuse(why, "ldt=%" PRId64 ": must be at least top=%" PRId64, v[ROUTE_LDT], v[ROUTE_TOP]);
}

static bool route_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!rfg_dtype_is_float(prob->dtype[0]))
        return rfg_refuse(why, "dtype of x is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if (prob->dtype[1] != RFG_F32)
        return rfg_refuse(why, "dtype of weights is %s: must be f32", rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    if (v[ROUTE_BTYPE] && (!v[ROUTE_BIAS] || prob->dtype[0] == RFG_F32))
        return rfg_refuse(why,
                          v[ROUTE_BIAS] ? "btype=f32: is what it is without, x is f32" : "btype=f32: there is no bias");
    if (!groups_valid(v, why) || !table_valid(v, why))
        return false;
    if (v[ROUTE_LDX] && v[ROUTE_LDX] < v[ROUTE_E])
        return rfg_refuse(why, "ldx=%" PRId64 ": must be at least E=%" PRId64, v[ROUTE_LDX], v[ROUTE_E]);
    int64_t slots = v[ROUTE_TOP] + v[ROUTE_SHARED];
    for (int i = ROUTE_LDI; i <= ROUTE_LDW; i++)
        if (v[i] && v[i] < slots)
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least top + shared, %" PRId64, route_keys[i].name, v[i],
                              slots);
    return true;
}

static void route_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    bool few = v[ROUTE_TABLE] && (v[ROUTE_SCORE] != RFG_MOE_SOFTMAX || v[ROUTE_RENORM]); /* of the logits */
    double n = (double)v[ROUTE_T] * (double)(few ? v[ROUTE_TOP] : v[ROUTE_E]);
    *bytes = n * (double)rfg_format_bytes(prob->dtype[0], 1) +
             (double)(v[ROUTE_BIAS] * rfg_format_bytes(route_bias_dtype(prob), v[ROUTE_E]) + 4 * v[ROUTE_TOKENS]) +
             8.0 * (double)v[ROUTE_T] * (double)(v[ROUTE_TOP] + v[ROUTE_SHARED]) +
             (v[ROUTE_TABLE] ? (double)v[ROUTE_T] * (double)(4 * v[ROUTE_TOP] + 8) : 0);
    *flops = n * 10;
}

struct route_args route_args_of(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    struct route_args a = { .t = (int)v[ROUTE_T],
                            .e = (int)v[ROUTE_E],
                            .top = (int)v[ROUTE_TOP],
                            .shared = (int)v[ROUTE_SHARED],
                            .groups = (int)v[ROUTE_GROUPS],
                            .size = (int)(v[ROUTE_E] / v[ROUTE_GROUPS]),
                            .top_groups = (int)v[ROUTE_TOP_GROUPS],
                            .renormalise = (int)v[ROUTE_RENORM],
                            .table_rows = v[ROUTE_TABLE] };
    while (1 << a.group_bits < a.groups)
        a.group_bits++;
    return a;
}

const struct rfg_op rfg_op_moe_route_desc = {
    .name = "moe_route",
    .id = 31,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(route_operands),
    .n_keys = ROUTE_NKEYS,
    .keys = route_keys,
    .column_key = { "T", "E", "top" },
    RFG_KARGS(struct route_args),
    .valid = route_valid,
    .cost = route_cost,
};
