/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_route: what its tensors must be, and the problem of a call, whose rules are route.c's. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "route.h"

#define FN       "rfg_op_moe_route"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_moe_route_params, token_ids);

enum { X, IDS, WEIGHTS, BIAS, TOKENS, TABLE, TOKEN_IDS, TENSORS };

enum { T = 1, E, SLOTS, ONE, V, TOP };
static const struct rfg_axis axes[] = {
    [T] = { "tokens", 0, 0 },
    [E] = { "experts", 1, ROUTE_MAX_E },
    [SLOTS] = { "experts of a token", 0, 0 },
    [ONE] = { "", 1, 1 },
    [V] = { "rows", 1, 0 },
    [TOP] = { "ids' columns without shared", 0, 0 },
};

static const struct rfg_tensor_rule rules[] = {
    { "x", X, 0, 2, { T, E }, RFG_FLOAT_FORMATS },
    { "ids", IDS, RFG_OUT, 2, { T, SLOTS }, RFG_DTYPE(I32) },
    { "weights", WEIGHTS, RFG_OUT, 2, { T, SLOTS }, RFG_DTYPE(F32) },
    { "bias", BIAS, RFG_OPTIONAL, 1, { E }, RFG_DTYPE(F32), X + 1 },
    { "tokens", TOKENS, RFG_OPTIONAL, 1, { ONE }, RFG_DTYPE(I32) },
}, of_table[] = {
    { "table", TABLE, RFG_OPTIONAL, 2, { V, TOP }, RFG_DTYPE(I32) },
    { "token_ids", TOKEN_IDS, RFG_OPTIONAL, 1, { T }, RFG_INDEX_FORMATS },
};

rfg_status route_check_params(const char *fn, const rfg_moe_route_params *p)
{
#define WRONG(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: " __VA_ARGS__)
    if ((int)p->scoring < RFG_MOE_SOFTMAX || (int)p->scoring > RFG_MOE_SQRT_SOFTPLUS)
        return WRONG("scoring is %d: must be one of enum rfg_moe_scoring", fn, (int)p->scoring);
    if (p->groups < 0 || p->groups > ROUTE_MAX_GROUPS)
        return WRONG("groups is %" PRId64 ": must be from 0 to %d", fn, p->groups, ROUTE_MAX_GROUPS);
    if (p->topk_groups < 0 || p->topk_groups > ROUTE_MAX_GROUPS)
        return WRONG("topk_groups is %" PRId64 ": must be from 0 to groups", fn, p->topk_groups);
    if (p->renormalise < 0 || p->renormalise > 1)
        return WRONG("renormalise is %" PRId32 ": must be 0 or 1", fn, p->renormalise);
    if (p->shared < 0 || p->shared > ROUTE_MAX_SHARED)
        return WRONG("shared is %" PRId64 ": must be from 0 to %d", fn, p->shared, ROUTE_MAX_SHARED);
    if (!isfinite(p->scale))
        return WRONG("scale is %g: must be finite", fn, (double)p->scale);
    if (!p->shared && p->shared_weight != 0)
        return WRONG("shared_weight is %g: must be 0, shared is 0", fn, (double)p->shared_weight);
    return isfinite(p->shared_weight) ? RFG_OK
                                      : WRONG("shared_weight is %g: must be finite", fn, (double)p->shared_weight);
#undef WRONG
}

rfg_status route_check_slots(const char *fn, int64_t slots, int64_t shared)
{
    int64_t top = slots - shared;
    return top >= 1 && top <= ROUTE_MAX_TOP
               ? RFG_OK
               : rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                          "%s: ids has %" PRId64 " columns: must have from 1 to %d besides shared=%" PRId64, fn, slots,
                          ROUTE_MAX_TOP, shared);
}

rfg_status rfg_op_moe_route(rfg_context *ctx, const rfg_tensor *ids, const rfg_tensor *weights, const rfg_tensor *x,
                            const rfg_moe_route_params *given, rfg_stream stream)
{
    rfg_moe_route_params p = RFG_MOE_ROUTE_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_route_params, &p, given)) || (st = route_check_params(FN, &p)))
        return st;
    const rfg_tensor *const all[] = { x, ids, weights, p.bias, p.tokens, p.table, p.token_ids };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))) ||
        (st = route_check_slots(FN, rfg_size(&t, SLOTS), p.shared)))
        return st;
    int64_t top = rfg_size(&t, SLOTS) - p.shared;
    rfg_set_axis(&t, TOP, top);
    if ((st = rfg_check_tensors(&t, of_table, RFG_RULES(of_table))))
        return st;

    struct rfg_problem prob = { .op = &rfg_op_moe_route_desc, .dtype = { (uint8_t)x->dtype, RFG_F32 } };
    prob.v[ROUTE_T] = rfg_size(&t, T);
    prob.v[ROUTE_E] = rfg_size(&t, E);
    prob.v[ROUTE_TOP] = top;
    prob.v[ROUTE_SCORE] = p.scoring;
    prob.v[ROUTE_BIAS] = p.bias != NULL;
    prob.v[ROUTE_BTYPE] = p.bias && p.bias->dtype != x->dtype ? RFG_F32 : RFG_DTYPE_NONE;
    prob.v[ROUTE_GROUPS] = p.groups ? p.groups : 1;
    prob.v[ROUTE_TOP_GROUPS] = p.topk_groups ? p.topk_groups : prob.v[ROUTE_GROUPS];
    prob.v[ROUTE_RENORM] = p.renormalise;
    prob.v[ROUTE_SHARED] = p.shared;
    prob.v[ROUTE_TOKENS] = p.tokens != NULL;
    prob.v[ROUTE_TABLE] = p.table ? rfg_size(&t, V) : 0;
    prob.v[ROUTE_TOKEN_IDS] = p.token_ids ? p.token_ids->dtype : RFG_DTYPE_NONE;
    prob.v[ROUTE_LDX] = rfg_ld_key(&o[X]);
    prob.v[ROUTE_LDI] = rfg_ld_key(&o[IDS]);
    prob.v[ROUTE_LDW] = rfg_ld_key(&o[WEIGHTS]);
    prob.v[ROUTE_LDT] = p.table ? rfg_ld_key(&o[TABLE]) : 0;
    if (rfg_size(&t, T) == 0)
        return rfg_check_problem(FN, &prob);
    if ((st = rfg_check_overlaps(&t)))
        return st;

    struct route_args a = route_args_of(&prob);
    a.x = x->data;
    a.bias = rfg_data(&o[BIAS]);
    a.tokens = rfg_data(&o[TOKENS]);
    a.table = rfg_data(&o[TABLE]);
    a.token_ids = rfg_data(&o[TOKEN_IDS]);
    a.ldt = o[TABLE].ld;
    a.ids = ids->data;
    a.weights = weights->data;
    a.scale = p.scale != 0 ? p.scale : 1;
    a.shared_weight = p.shared_weight != 0 ? p.shared_weight : 1;
    a.ldx = o[X].ld;
    a.ldi = o[IDS].ld;
    a.ldw = o[WEIGHTS].ld;
    return rfg_dispatch(ctx, &prob, &a, stream);
}
