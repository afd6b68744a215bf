/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of moe_route, and what may be wrong with its params. */
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
