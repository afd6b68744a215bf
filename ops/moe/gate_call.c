/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_gate: what its tensors must be, and the problem of a call, whose rules are gate.c's. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "gate.h"
#include "ops/params.h"
#include "ops/tensors.h"

#define FN       "rfg_op_moe_gate"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_moe_gate_params, places);

enum { X, W, IDS, WEIGHTS, NORMED, ROWS, OFFSETS, SORTED, PLACES, NORM, W_BIAS, BIAS, TOKENS, TENSORS };

enum { T = 1, K, E, SLOTS, PAIRS, ALL, ONE };
static const struct rfg_axis axes[] = {
    [T] = { "tokens", 0, GATE_MAX_T },
    [K] = { "columns", 1, GATE_MAX_K },
    [E] = { "experts", 1, ROUTE_WAVE_E },
    [SLOTS] = { "experts of a token", 1, 0 },
    [PAIRS] = { "pairs of token and expert", 0, 0 },
    [ALL] = { "experts, shared ones too, and 1", 0, 0 },
    [ONE] = { "", 1, 1 },
};

#define OUT RFG_OUT | RFG_PACKED
static const struct rfg_tensor_rule rules[] = {
    { "x", X, RFG_PACKED, 2, { T, K }, RFG_HALF_FORMATS },
    { "w", W, RFG_PACKED, 2, { E, K }, 0, X + 1 },
    { "ids", IDS, OUT, 2, { T, SLOTS }, RFG_DTYPE(I32) },
    { "weights", WEIGHTS, OUT, 2, { T, SLOTS }, RFG_DTYPE(F32) },
    { "norm", NORM, RFG_OPTIONAL, 1, { K }, 0, X + 1 },
    { "normed", NORMED, OUT | RFG_OPTIONAL, 2, { T, K }, 0, X + 1, .with = NORM + 1 },
    { "w_bias", W_BIAS, RFG_OPTIONAL, 1, { E }, 0, X + 1 },
    { "bias", BIAS, RFG_OPTIONAL, 1, { E }, RFG_DTYPE(F32), X + 1 },
    { "tokens", TOKENS, RFG_OPTIONAL, 1, { ONE }, RFG_DTYPE(I32) },
}, of_pairs[] = {
    { "rows", ROWS, OUT, 1, { PAIRS }, RFG_DTYPE(I32) },
    { "offsets", OFFSETS, OUT, 1, { ALL }, RFG_DTYPE(I32) },
    { "sorted", SORTED, OUT, 1, { PAIRS }, RFG_DTYPE(F32) },
    { "places", PLACES, OUT, 2, { T, SLOTS }, RFG_DTYPE(I32) },
};

static rfg_status check_params(const rfg_moe_gate_params *p)
{
    rfg_moe_route_params route = { .size = sizeof(route),
                                   .scoring = p->scoring,
                                   .renormalise = p->renormalise,
                                   .groups = p->groups,
                                   .topk_groups = p->topk_groups,
                                   .shared = p->shared,
                                   .scale = p->scale,
                                   .shared_weight = p->shared_weight };
    rfg_status st = route_check_params(FN, &route);
    if (st)
        return st;
    if (!(p->eps >= 0) || isinf(p->eps) || (!p->norm && p->eps != 0))
        return BAD("eps is %g: must be finite, at least 0, and 0 without a norm", (double)p->eps);
    if (p->one_plus_weight < 0 || p->one_plus_weight > (p->norm != NULL))
        return BAD("one_plus_weight is %" PRId32 ": must be 0 or 1, and 0 without a norm", p->one_plus_weight);
    return RFG_OK;
}

static rfg_status check_tensors(struct rfg_tensors *t, const rfg_moe_gate_params *p)
{
    static const int vectors[] = { X, W, NORM, NORMED };
    rfg_status st = rfg_check_tensors(t, rules, RFG_RULES(rules));
    if (st)
        return st;
    if ((st = route_check_slots(FN, rfg_size(t, SLOTS), p->shared)))
        return st;
    rfg_set_axis(t, PAIRS, rfg_size(t, T) * rfg_size(t, SLOTS));
    rfg_set_axis(t, ALL, rfg_size(t, E) + p->shared + 1);
    if ((st = rfg_check_tensors(t, of_pairs, RFG_RULES(of_pairs))))
        return st;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        if ((uintptr_t)rfg_data(&t->o[vectors[i]]) % 16)
            return BAD("%s is at %p: must be aligned to 16 bytes", t->o[vectors[i]].name, rfg_data(&t->o[vectors[i]]));
    return RFG_OK;
}

rfg_status rfg_op_moe_gate(rfg_context *ctx, const rfg_tensor *ids, const rfg_tensor *weights, const rfg_tensor *x,
                           const rfg_tensor *w, const rfg_moe_gate_params *given, rfg_stream stream)
{
    rfg_moe_gate_params p = RFG_MOE_GATE_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_gate_params, &p, given)) || (st = check_params(&p)))
        return st;
    const rfg_tensor *const all[] = { x,        w,        ids,    weights,  p.normed, p.rows,  p.offsets,
                                      p.sorted, p.places, p.norm, p.w_bias, p.bias,   p.tokens };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = check_tensors(&t, &p)))
        return st;

    struct rfg_problem prob = { .op = &rfg_op_moe_gate_desc, .dtype = { (uint8_t)x->dtype, RFG_F32 } };
    prob.v[GATE_T] = rfg_size(&t, T);
    prob.v[GATE_E] = rfg_size(&t, E);
    prob.v[GATE_K] = rfg_size(&t, K);
    prob.v[GATE_TOP] = rfg_size(&t, SLOTS) - p.shared;
    prob.v[GATE_NORM] = !p.norm ? GATE_NORM_NONE : p.one_plus_weight ? GATE_NORM_1W : GATE_NORM_W;
    prob.v[GATE_W_BIAS] = p.w_bias != NULL;
    prob.v[GATE_SCORE] = p.scoring;
    prob.v[GATE_BIAS] = p.bias != NULL;
    prob.v[GATE_BTYPE] = p.bias && p.bias->dtype != x->dtype ? RFG_F32 : RFG_DTYPE_NONE;
    prob.v[GATE_GROUPS] = p.groups ? p.groups : 1;
    prob.v[GATE_TOP_GROUPS] = p.topk_groups ? p.topk_groups : prob.v[GATE_GROUPS];
    prob.v[GATE_RENORM] = p.renormalise;
    prob.v[GATE_SHARED] = p.shared;
    prob.v[GATE_TOKENS] = p.tokens != NULL;
    if ((st = rfg_check_problem(FN, &prob)) || rfg_size(&t, T) == 0)
        return st;
    if ((st = rfg_check_overlaps(&t)))
        return st;

    struct gate_args a = gate_args_of(&prob);
    a.route.bias = rfg_data(&o[BIAS]);
    a.route.tokens = rfg_data(&o[TOKENS]);
    a.route.ids = ids->data;
    a.route.weights = weights->data;
    a.route.scale = p.scale != 0 ? p.scale : 1;
    a.route.shared_weight = p.shared_weight != 0 ? p.shared_weight : 1;
    a.x = x->data;
    a.w = w->data;
    a.norm = rfg_data(&o[NORM]);
    a.w_bias = rfg_data(&o[W_BIAS]);
    a.y = rfg_data(&o[NORMED]);
    a.eps = p.eps;
    a.rows = p.rows->data;
    a.offsets = p.offsets->data;
    a.sorted = p.sorted->data;
    a.places = p.places->data;
    return rfg_dispatch(ctx, &prob, &a, stream);
}
