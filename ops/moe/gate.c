/* SPDX-License-Identifier: MIT
 *
 * The operator moe_gate: its keys, rules and table. The public function is in gate_call.c. */
#include "gate.h"

#include <inttypes.h>

#include "ops/operand.h"
#include "ops/params.h"

static const char *const norm_names[] = { "none", "w", "1+w" };

static const struct rfg_key gate_keys[GATE_NKEYS] = {
    [GATE_T] = { "T", RFG_KEY_SIZE, 0, 0, GATE_MAX_T, NULL, "tokens: rows of x" },
    [GATE_E] = { "E", RFG_KEY_SIZE, 0, 1, ROUTE_WAVE_E, NULL, "experts: rows of w" },
    [GATE_K] = { "K", RFG_KEY_SIZE, 0, 8, GATE_MAX_K, NULL, "columns of x and w, a multiple of 8" },
    [GATE_TOP] = { "top", RFG_KEY_SIZE, 0, 1, ROUTE_MAX_TOP, NULL, "experts that a token gets" },
    [GATE_NORM] = { "norm", RFG_KEY_ATTR, GATE_NORM_NONE, GATE_NORM_NONE, GATE_NORM_1W, norm_names,
                    "what rows of x are normed by before" },
    [GATE_W_BIAS] = { "wbias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a bias is added to the logits" },
    [GATE_SCORE] = { "score", RFG_KEY_ATTR, RFG_MOE_SOFTMAX, RFG_MOE_SOFTMAX, RFG_MOE_SQRT_SOFTPLUS, route_score_names,
                     "what scores are of logits" },
    [GATE_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a bias is added where experts are chosen" },
    [GATE_BTYPE] = { "btype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, route_btype_names,
                     "dtype of that bias: x's, or f32", 1u << RFG_F32 },
    [GATE_GROUPS] = { "groups", RFG_KEY_ATTR, 1, 1, ROUTE_MAX_GROUPS, NULL, "groups that experts are in" },
    [GATE_TOP_GROUPS] = { "top_groups", RFG_KEY_ATTR, 1, 1, ROUTE_MAX_GROUPS, NULL,
                          "groups whose experts may be chosen" },
    [GATE_RENORM] = { "renorm", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: weights are divided by their sum" },
    [GATE_SHARED] = { "shared", RFG_KEY_ATTR, 0, 0, ROUTE_MAX_SHARED, NULL, "experts that all tokens get besides" },
    [GATE_TOKENS] = { "tokens", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: how many rows count is in device memory" },
    [GATE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand gate_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "weights", true, RFG_FORMAT_LISTED, 1, 0 },
    { "ids", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "rows", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "offsets", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "sorted", true, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "places", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "normed", true, RFG_FORMAT_AS, 0, 0 },
    { "w", false, RFG_FORMAT_AS, 0, 0 },
    { "norm", false, RFG_FORMAT_AS, 0, 0 },
    { "w_bias", false, RFG_FORMAT_AS, 0, 0 },
    { "bias", false, RFG_FORMAT_KEYED, GATE_BTYPE, 1 },
    { "tokens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

struct rfg_problem gate_route(const struct rfg_problem *prob)
{
    static const struct {
        int route, gate;
    } same[] = { { ROUTE_T, GATE_T },           { ROUTE_E, GATE_E },           { ROUTE_TOP, GATE_TOP },
                 { ROUTE_SCORE, GATE_SCORE },   { ROUTE_BIAS, GATE_BIAS },     { ROUTE_GROUPS, GATE_GROUPS },
                 { ROUTE_RENORM, GATE_RENORM }, { ROUTE_SHARED, GATE_SHARED }, { ROUTE_TOP_GROUPS, GATE_TOP_GROUPS },
                 { ROUTE_TOKENS, GATE_TOKENS } };
    struct rfg_problem r = { .op = &rfg_op_moe_route_desc, .dtype = { RFG_F32, RFG_F32 } };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        r.v[same[i].route] = prob->v[same[i].gate];
    r.v[ROUTE_BTYPE] = prob->v[GATE_BIAS] && !prob->v[GATE_BTYPE] ? prob->dtype[0] : RFG_DTYPE_NONE;
    return r;
}

static bool gate_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t pairs = v[GATE_T] * (v[GATE_TOP] + v[GATE_SHARED]);
    if (!(RFG_HALF_FORMATS >> prob->dtype[0] & 1))
        return rfg_refuse(why, "dtype of x is %s: must be bf16 or f16", rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if (prob->dtype[1] != RFG_F32)
        return rfg_refuse(why, "dtype of weights is %s: must be f32", rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    if (v[GATE_K] % 8)
        return rfg_refuse(why, "K=%" PRId64 ", x's columns: must be a multiple of 8", v[GATE_K]);
    if (pairs > GATE_MAX_SORT)
        return rfg_refuse(why, "T=%" PRId64 " top=%" PRId64 " shared=%" PRId64 ": ids must be at most %d", v[GATE_T],
                          v[GATE_TOP], v[GATE_SHARED], GATE_MAX_SORT);
    if (v[GATE_BTYPE] && !v[GATE_BIAS])
        return rfg_refuse(why, "btype=f32: there is no bias");
    struct rfg_problem route = gate_route(prob);
    route.v[ROUTE_BTYPE] = 0; /* what it takes of logits of f32 isn't this one's rule */
    return route.op->valid(&route, why);
}

static void gate_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    struct rfg_problem route = gate_route(prob);
    double t = (double)v[GATE_T], k = (double)v[GATE_K], e = (double)v[GATE_E], more;
    route.op->cost(&route, bytes, &more);
    *bytes += 2 * (e * k + t * k * (v[GATE_NORM] ? 2 : 1)) - 4 * t * e; /* its logits stay in the caches */
    *flops = 2 * t * e * k + more;
}

size_t gate_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev, (void)p;
    return (size_t)(prob->v[GATE_T] * prob->v[GATE_E]) * sizeof(float);
}

struct gate_args gate_args_of(const struct rfg_problem *prob)
{
    struct rfg_problem route = gate_route(prob);
    struct gate_args a = { .route = route_args_of(&route), .k = (int)prob->v[GATE_K] };
    a.route.ldx = a.route.e;
    a.route.ldi = a.route.ldw = a.route.top + a.route.shared;
    return a;
}

const struct rfg_op rfg_op_moe_gate_desc = {
    .name = "moe_gate",
    .id = 43,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(gate_operands),
    .n_keys = GATE_NKEYS,
    .keys = gate_keys,
    .column_key = { "T", "E", "K" },
    RFG_KARGS(struct gate_args),
    .valid = gate_valid,
    .cost = gate_cost,
};
