/* SPDX-License-Identifier: MIT
 *
 * The operator moe_route: its public function, argument rules and tables. Variants are in route_gpu.c and route_cpu.c.
 */
#include "route.h"

#include <inttypes.h>
#include <math.h>

#include "ops/operand.h"
#include "ops/params.h"

#define FN       "rfg_op_moe_route"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

static const char *const score_names[] = { "softmax", "topk_softmax", "sigmoid", "sqrt_softplus" };
static const char *const btype_names[] = { "x" };

#define STRIDE(name, of)                                                                                               \
    {                                                                                                                  \
        name, RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,                                                              \
            "elements from a row of " of " to the next; 0: they follow one another"                                    \
    }
static const struct rfg_key route_keys[ROUTE_NKEYS] = {
    [ROUTE_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens: rows of x" },
    [ROUTE_E] = { "E", RFG_KEY_SIZE, 0, 1, ROUTE_MAX_E, NULL, "experts: columns of x" },
    [ROUTE_TOP] = { "top", RFG_KEY_SIZE, 0, 1, ROUTE_MAX_TOP, NULL, "experts that a token gets" },
    [ROUTE_SCORE] = { "score", RFG_KEY_ATTR, RFG_MOE_SOFTMAX, RFG_MOE_SOFTMAX, RFG_MOE_SQRT_SOFTPLUS, score_names,
                      "what scores are of logits" },
    [ROUTE_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a bias is added where experts are chosen" },
    [ROUTE_BTYPE] = { "btype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, btype_names,
                      "dtype of the bias: x's, or f32 with a 16-bit x", 1u << RFG_F32 },
    [ROUTE_GROUPS] = { "groups", RFG_KEY_ATTR, 1, 1, ROUTE_MAX_GROUPS, NULL, "groups that experts are in" },
    [ROUTE_TOP_GROUPS] = { "top_groups", RFG_KEY_ATTR, 1, 1, ROUTE_MAX_GROUPS, NULL,
                           "groups whose experts may be chosen" },
    [ROUTE_RENORM] = { "renorm", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: weights are divided by their sum" },
    [ROUTE_SHARED] = { "shared", RFG_KEY_ATTR, 0, 0, ROUTE_MAX_SHARED, NULL, "experts that all tokens get besides" },
    [ROUTE_TOKENS] = { "tokens", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: how many rows count is in device memory" },
    [ROUTE_LDX] = STRIDE("ldx", "x"),
    [ROUTE_LDI] = STRIDE("ldi", "ids"),
    [ROUTE_LDW] = STRIDE("ldw", "weights"),
    [ROUTE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand route_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "weights", true, RFG_FORMAT_LISTED, 1, 0 },
    { "ids", true, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "bias", false, RFG_FORMAT_KEYED, ROUTE_BTYPE, 1 },
    { "tokens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

/* What groups, and the experts chosen of them, must be. Names the values as the problem does, or (`call`) as the public
 * function. */
static bool groups_valid(const int64_t *v, bool call, struct rfg_reason *why)
{
    int64_t groups = v[ROUTE_GROUPS], kept = v[ROUTE_TOP_GROUPS];
    const char *is = call ? " is " : "=", *topk = call ? "topk_groups" : "top_groups";
    if (groups & (groups - 1))
        return rfg_refuse(why, "groups%s%" PRId64 ": must be a power of two, from 1 to 32", is, groups);
    if (v[ROUTE_E] % groups)
        return rfg_refuse(why, "groups%s%" PRId64 ": must divide E=%" PRId64, is, groups, v[ROUTE_E]);
    if (kept > groups)
        return rfg_refuse(why, "%s%s%" PRId64 ": must be at most groups=%" PRId64, topk, is, kept, groups);
    return v[ROUTE_TOP] <= v[ROUTE_E] / groups * kept ||
           rfg_refuse(why, "top=%" PRId64 ": must be at most %" PRId64 ", the experts of %s=%" PRId64, v[ROUTE_TOP],
                      v[ROUTE_E] / groups * kept, topk, kept);
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
    if (!groups_valid(v, false, why))
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
    double n = (double)v[ROUTE_T] * (double)v[ROUTE_E];
    *bytes = n * (double)rfg_format_bytes(prob->dtype[0], 1) +
             (double)(v[ROUTE_BIAS] * rfg_format_bytes(route_bias_dtype(prob), v[ROUTE_E]) + 4 * v[ROUTE_TOKENS]) +
             8.0 * (double)v[ROUTE_T] * (double)(v[ROUTE_TOP] + v[ROUTE_SHARED]);
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
                            .renormalise = (int)v[ROUTE_RENORM] };
    while (1 << a.group_bits < a.groups)
        a.group_bits++;
    return a;
}

/* ---- the public function ---------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_moe_route_params, shared_weight);

/* One of the outputs: beside x. */
static rfg_status check_output(struct rfg_operand *o, const char *name, const rfg_tensor *t, rfg_dtype dtype,
                               const struct rfg_operand *x)
{
    rfg_status st;
    if ((st = rfg_check_operand(o, FN, name, t, 2, 2)))
        return st;
    if (t->dtype != dtype)
        return BAD("dtype of %s is %s: must be %s", name, rfg_dtype_name(t->dtype), rfg_dtype_name(dtype));
    return o->rows == x->rows ? RFG_OK
                              : BAD("%s is %" PRId64 " x %" PRId64 ", x %" PRId64 " x %" PRId64 ": must have x's rows",
                                    name, o->rows, o->cols, x->rows, x->cols);
}

static rfg_status check_params(const rfg_moe_route_params *p)
{
    if (p->scoring < RFG_MOE_SOFTMAX || p->scoring > RFG_MOE_SQRT_SOFTPLUS)
        return BAD("scoring is %" PRId64 ": must be one of enum rfg_moe_scoring", p->scoring);
    if (p->groups < 0 || p->groups > ROUTE_MAX_GROUPS)
        return BAD("groups is %" PRId64 ": must be from 0 to %d", p->groups, ROUTE_MAX_GROUPS);
    if (p->topk_groups < 0 || p->topk_groups > ROUTE_MAX_GROUPS)
        return BAD("topk_groups is %" PRId64 ": must be from 0 to groups", p->topk_groups);
    if (p->renormalise < 0 || p->renormalise > 1)
        return BAD("renormalise is %" PRId64 ": must be 0 or 1", p->renormalise);
    if (p->shared < 0 || p->shared > ROUTE_MAX_SHARED)
        return BAD("shared is %" PRId64 ": must be from 0 to %d", p->shared, ROUTE_MAX_SHARED);
    if (!isfinite(p->scale))
        return BAD("scale is %g: must be finite", (double)p->scale);
    if (!p->shared && p->shared_weight != 0)
        return BAD("shared_weight is %g: must be 0, shared is 0", (double)p->shared_weight);
    return isfinite(p->shared_weight) ? RFG_OK : BAD("shared_weight is %g: must be finite", (double)p->shared_weight);
}

/* A vector of params: o has it if it is there. */
static rfg_status check_vector(struct rfg_operand *o, const char *name, const rfg_tensor *t, int64_t n,
                               const char *what)
{
    rfg_status st = rfg_check_operand(o, FN, name, t, 1, 1);
    if (st || o->cols == n)
        return st;
    return BAD("%s has %" PRId64 " elements: must have %" PRId64 "%s", name, o->cols, n, what);
}

rfg_status rfg_op_moe_route(rfg_context *ctx, const rfg_tensor *ids, const rfg_tensor *weights, const rfg_tensor *x,
                            const rfg_moe_route_params *given, rfg_stream stream)
{
    rfg_moe_route_params p = RFG_MOE_ROUTE_PARAMS_INIT;
    struct rfg_operand oi, ow, ox, ob = { 0 }, ot = { 0 };
    struct rfg_reason why;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_route_params, &p, given)) || (st = check_params(&p)))
        return st;
    if ((st = rfg_check_float_operand(&ox, FN, "x", x, 2, 2)) || (st = check_output(&oi, "ids", ids, RFG_I32, &ox)) ||
        (st = check_output(&ow, "weights", weights, RFG_F32, &ox)))
        return st;
    if (ox.cols < 1 || ox.cols > ROUTE_MAX_E)
        return BAD("x is %" PRId64 " x %" PRId64 ": E must be from 1 to %d", ox.rows, ox.cols, ROUTE_MAX_E);
    int64_t top = oi.cols - p.shared;
    if (ow.cols != oi.cols)
        return BAD("weights is %" PRId64 " x %" PRId64 ": must have ids' columns, %" PRId64, ow.rows, ow.cols, oi.cols);
    if (top < 1 || top > ROUTE_MAX_TOP)
        return BAD("ids is %" PRId64 " x %" PRId64 ": must have from 1 to %d columns besides shared=%" PRId64, oi.rows,
                   oi.cols, ROUTE_MAX_TOP, p.shared);
    if (p.bias && (st = check_vector(&ob, "bias", p.bias, ox.cols, ", x's columns")))
        return st;
    if (p.bias && p.bias->dtype != x->dtype && p.bias->dtype != RFG_F32)
        return BAD("bias is %s: must be x's dtype, %s, or f32", rfg_dtype_name(p.bias->dtype),
                   rfg_dtype_name(x->dtype));
    if (p.tokens && (st = check_vector(&ot, "tokens", p.tokens, 1, "")))
        return st;
    if (p.tokens && p.tokens->dtype != RFG_I32)
        return BAD("dtype of tokens is %s: must be i32", rfg_dtype_name(p.tokens->dtype));

    struct rfg_problem prob = { .op = &rfg_op_moe_route_desc, .dtype = { (uint8_t)x->dtype, RFG_F32 } };
    prob.v[ROUTE_T] = ox.rows;
    prob.v[ROUTE_E] = ox.cols;
    prob.v[ROUTE_TOP] = top;
    prob.v[ROUTE_SCORE] = p.scoring;
    prob.v[ROUTE_BIAS] = p.bias != NULL;
    prob.v[ROUTE_BTYPE] = p.bias && p.bias->dtype != x->dtype ? RFG_F32 : RFG_DTYPE_NONE;
    prob.v[ROUTE_GROUPS] = p.groups ? p.groups : 1;
    prob.v[ROUTE_TOP_GROUPS] = p.topk_groups ? p.topk_groups : prob.v[ROUTE_GROUPS];
    prob.v[ROUTE_RENORM] = p.renormalise;
    prob.v[ROUTE_SHARED] = p.shared;
    prob.v[ROUTE_TOKENS] = p.tokens != NULL;
    prob.v[ROUTE_LDX] = ox.ld == ox.cols ? 0 : ox.ld;
    prob.v[ROUTE_LDI] = oi.ld == oi.cols ? 0 : oi.ld;
    prob.v[ROUTE_LDW] = ow.ld == ow.cols ? 0 : ow.ld;
    if (!groups_valid(prob.v, true, &why))
        return BAD("%s", why.text);
    if (ox.rows == 0)
        return RFG_OK;
    const struct rfg_operand *outs[] = { &oi, &ow }, *ins[] = { &ox, &ob, &ot };
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < 3; i++)
            if (ins[i]->t && (st = rfg_check_overlap(FN, outs[o], ins[i], false)))
                return st;
    if ((st = rfg_check_overlap(FN, &oi, &ow, false)))
        return st;

    struct route_args a = route_args_of(&prob);
    a.x = x->data;
    a.bias = p.bias ? p.bias->data : NULL;
    a.tokens = p.tokens ? p.tokens->data : NULL;
    a.ids = ids->data;
    a.weights = weights->data;
    a.scale = p.scale != 0 ? p.scale : 1;
    a.shared_weight = p.shared_weight != 0 ? p.shared_weight : 1;
    a.ldx = ox.ld;
    a.ldi = oi.ld;
    a.ldw = ow.ld;
    return rfg_dispatch(ctx, &prob, &a, stream);
}

static const struct rfg_variant *const route_variants[] = { &moe_route_wave, &moe_route_cpu };

const struct rfg_op rfg_op_moe_route_desc = {
    .name = "moe_route",
    .id = 31,
    .n_in = 1,
    .n_out = 1,
    .n_operands = sizeof(route_operands) / sizeof(route_operands[0]),
    .operands = route_operands,
    .n_keys = ROUTE_NKEYS,
    .keys = route_keys,
    .column_key = { "T", "E", "top" },
    .n_variants = sizeof(route_variants) / sizeof(route_variants[0]),
    .variants = route_variants,
    .kargs_size = sizeof(struct route_args),
    .head = offsetof(struct route_args, workspace),
    .valid = route_valid,
    .cost = route_cost,
};
