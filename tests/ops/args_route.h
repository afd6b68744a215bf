/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of moe_gate and moe_route, and what may be wrong with their params. */
/* ---- moe_gate: ids, weights, x, w, normed, norm, rows, offsets, sorted, places, w_bias, bias, tokens --------------- */

static rfg_status moe_gate(const struct call *c)
{
    rfg_moe_gate_params p = c->moe_gate;
    p.normed = c->t[4];
    p.norm = c->t[5];
    p.rows = c->t[6];
    p.offsets = c->t[7];
    p.sorted = c->t[8];
    p.places = c->t[9];
    p.w_bias = c->t[10];
    p.bias = c->t[11];
    p.tokens = c->t[12];
    return rfg_op_moe_gate(c->ctx, c->t[0], c->t[1], c->t[2], c->t[3], PARAMS(p), c->stream);
}
#define SPOIL_GATE(name, member, value)                                                                                \
    static void name(struct call *c)                                                                                   \
    {                                                                                                                  \
        c->moe_gate.member = value;                                                                                    \
    }
SPOIL_GATE(gate_scoring_unknown, scoring, 4)
SPOIL_GATE(gate_groups_negative, groups, -1)
SPOIL_GATE(gate_groups_three, groups, 3)
SPOIL_GATE(gate_kept_many, topk_groups, 5)
SPOIL_GATE(gate_renormalise_two, renormalise, 2)
SPOIL_GATE(gate_shared_negative, shared, -1)
SPOIL_GATE(gate_shared_many, shared, 33)
SPOIL_GATE(gate_shared_all, shared, 3)
SPOIL_GATE(gate_scale_nan, scale, NAN)
SPOIL_GATE(gate_shared_weight_inf, shared_weight, INFINITY)
SPOIL_GATE(gate_eps_negative, eps, -1)
SPOIL_GATE(gate_eps_nan, eps, NAN)
SPOIL_GATE(gate_one_plus_two, one_plus_weight, 2)
static const struct wrong gate_wrongs[] = { { "scoring", gate_scoring_unknown },
                                            { "groups", gate_groups_negative },
                                            { "groups", gate_groups_three },
                                            { "topk_groups", gate_kept_many },
                                            { "renormalise", gate_renormalise_two },
                                            { "shared", gate_shared_negative },
                                            { "shared", gate_shared_many },
                                            { "shared", gate_shared_all },
                                            { "scale", gate_scale_nan },
                                            { "shared_weight", gate_shared_weight_inf },
                                            { "eps", gate_eps_negative },
                                            { "eps", gate_eps_nan },
                                            { "one_plus_weight", gate_one_plus_two },
                                            { NULL, NULL } };

/* ---- moe_route: ids, weights, x, bias, tokens; or with a table, token_ids instead -------------------------------- */

static rfg_status moe_route(const struct call *c)
{
    rfg_moe_route_params p = c->moe_route;
    p.bias = c->t[3];
    p.tokens = c->t[4];
    return rfg_op_moe_route(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
static rfg_status moe_route_table(const struct call *c)
{
    rfg_moe_route_params p = c->moe_route;
    p.table = c->t[3];
    p.token_ids = c->t[4];
    return rfg_op_moe_route(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
#define SPOIL_ROUTE(name, member, value)                                                                               \
    static void name(struct call *c)                                                                                   \
    {                                                                                                                  \
        c->moe_route.member = value;                                                                                   \
    }
SPOIL_ROUTE(route_scoring_negative, scoring, -1)
SPOIL_ROUTE(route_scoring_unknown, scoring, 4)
SPOIL_ROUTE(route_groups_negative, groups, -1)
SPOIL_ROUTE(route_groups_many, groups, (int64_t)1 << 32)
SPOIL_ROUTE(route_groups_three, groups, 3)
SPOIL_ROUTE(route_groups_undivided, groups, 16)
SPOIL_ROUTE(route_kept_negative, topk_groups, -1)
SPOIL_ROUTE(route_kept_many, topk_groups, 5)
SPOIL_ROUTE(route_kept_huge, topk_groups, INT64_MAX)
SPOIL_ROUTE(route_kept_small, topk_groups, 1)
SPOIL_ROUTE(route_renormalise_two, renormalise, 2)
SPOIL_ROUTE(route_renormalise_negative, renormalise, -1)
SPOIL_ROUTE(route_shared_negative, shared, -1)
SPOIL_ROUTE(route_shared_many, shared, 33)
SPOIL_ROUTE(route_shared_all, shared, 7)
SPOIL_ROUTE(route_scale_nan, scale, NAN)
SPOIL_ROUTE(route_scale_inf, scale, INFINITY)
SPOIL_ROUTE(route_shared_weight_nan, shared_weight, NAN)
SPOIL_ROUTE(route_groups_two, groups, 2)
static rfg_tensor choice_bias = { &choice_bias, RFG_F32, 1, { 20 }, { 1 } };
SPOIL_ROUTE(route_bias_given, bias, &choice_bias)
static const struct wrong route_table_wrongs[] = { { "groups", route_groups_two },
                                                   { "bias", route_bias_given },
                                                   { NULL, NULL } };
static const struct wrong route_wrongs[] = { { "scoring", route_scoring_negative },
                                             { "scoring", route_scoring_unknown },
                                             { "groups", route_groups_negative },
                                             { "groups", route_groups_many },
                                             { "groups", route_groups_three },
                                             { "groups", route_groups_undivided },
                                             { "topk_groups", route_kept_negative },
                                             { "topk_groups", route_kept_many },
                                             { "topk_groups", route_kept_huge },
                                             { "topk_groups", route_kept_small },
                                             { "renormalise", route_renormalise_two },
                                             { "renormalise", route_renormalise_negative },
                                             { "shared", route_shared_negative },
                                             { "shared", route_shared_many },
                                             { "shared", route_shared_all },
                                             { "scale", route_scale_nan },
                                             { "scale", route_scale_inf },
                                             { "shared_weight", route_shared_weight_nan },
                                             { NULL, NULL } };
