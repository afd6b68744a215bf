/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_route: what it refuses, and the problem of a call. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/operand.h"
#include "ops/params.h"
#include "route.h"

#define FN       "rfg_op_moe_route"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

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
    if ((int)p->scoring < RFG_MOE_SOFTMAX || (int)p->scoring > RFG_MOE_SQRT_SOFTPLUS)
        return BAD("scoring is %d: must be one of enum rfg_moe_scoring", (int)p->scoring);
    if (p->groups < 0 || p->groups > ROUTE_MAX_GROUPS)
        return BAD("groups is %" PRId64 ": must be from 0 to %d", p->groups, ROUTE_MAX_GROUPS);
    if (p->topk_groups < 0 || p->topk_groups > ROUTE_MAX_GROUPS)
        return BAD("topk_groups is %" PRId64 ": must be from 0 to groups", p->topk_groups);
    if (p->renormalise < 0 || p->renormalise > 1)
        return BAD("renormalise is %" PRId32 ": must be 0 or 1", p->renormalise);
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
    if (!route_groups_valid(prob.v, true, &why))
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
