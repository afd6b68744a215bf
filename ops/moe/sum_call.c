/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_sum: what its tensors must be, and the problem of a call, whose rules are sum.c's. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "sum.h"

#define FN       "rfg_op_moe_sum"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_moe_sum_params, identity_weights);

enum { Y, X, PLACES, WEIGHTS, RESIDUAL, TOKENS, IDENTITY, IDENTITY_WEIGHTS, TENSORS };

enum { T = 1, N, R, TOP, ONE };
static const struct rfg_axis axes[] = {
    [T] = { "tokens", 0, 0 }, [N] = { "columns", 0, 0 },
    [R] = { "rows", 0, 0 },   [TOP] = { "places of a token", 1, SUM_MAX_TOP },
    [ONE] = { "", 1, 1 },
};

static const struct rfg_tensor_rule rules[] = {
    { "y", Y, RFG_OUT, 2, { T, N }, RFG_FLOAT_FORMATS, .same = RESIDUAL + 1 },
    { "x", X, 0, 2, { R, N }, RFG_FLOAT_FORMATS },
    { "places", PLACES, 0, 2, { T, TOP }, RFG_DTYPE(I32) },
    { "weights", WEIGHTS, RFG_OPTIONAL, 2, { T, TOP }, RFG_DTYPE(F32) },
    { "residual", RESIDUAL, RFG_OPTIONAL, 2, { T, N }, 0, Y + 1 },
    { "tokens", TOKENS, RFG_OPTIONAL, 1, { ONE }, RFG_DTYPE(I32) },
    { "identity", IDENTITY, RFG_OPTIONAL, 2, { T, N }, 0, X + 1, .with = IDENTITY_WEIGHTS + 1 },
    { "identity_weights", IDENTITY_WEIGHTS, RFG_OPTIONAL, 2, { T, TOP }, RFG_DTYPE(F32), .with = IDENTITY + 1 },
};

rfg_status rfg_op_moe_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *places,
                          const rfg_moe_sum_params *given, rfg_stream stream)
{
    rfg_moe_sum_params p = RFG_MOE_SUM_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_sum_params, &p, given)))
        return st;
    const rfg_tensor *const all[] = { y, x, places, p.weights, p.residual, p.tokens, p.identity, p.identity_weights };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))))
        return st;
    if (rfg_size(&t, T) == 0 || rfg_size(&t, N) == 0)
        return RFG_OK;
    if ((st = rfg_check_overlaps(&t)))
        return st;

    struct rfg_problem prob = { .op = &rfg_op_moe_sum_desc, .dtype = { (uint8_t)x->dtype, (uint8_t)y->dtype } };
    prob.v[SUM_T] = rfg_size(&t, T);
    prob.v[SUM_N] = rfg_size(&t, N);
    prob.v[SUM_TOP] = rfg_size(&t, TOP);
    prob.v[SUM_WEIGHTS] = p.weights != NULL;
    prob.v[SUM_RESIDUAL] = p.residual != NULL;
    prob.v[SUM_TOKENS] = p.tokens != NULL;
    prob.v[SUM_INPLACE] = p.residual && o[RESIDUAL].begin == o[Y].begin;
    prob.v[SUM_R] = rfg_size(&t, R) == rfg_size(&t, T) * rfg_size(&t, TOP) ? 0 : rfg_size(&t, R) ? rfg_size(&t, R) : -1;
    prob.v[SUM_LDX] = rfg_ld_key(&o[X]);
    prob.v[SUM_LDY] = rfg_ld_key(&o[Y]);
    prob.v[SUM_LDR] = rfg_ld_key(&o[RESIDUAL]);
    prob.v[SUM_LDP] = rfg_ld_key(&o[PLACES]);
    prob.v[SUM_LDW] = rfg_ld_key(&o[WEIGHTS]);
    if (p.identity) {
        prob.v[SUM_IDENTITY] = 1;
        prob.v[SUM_LDI] = rfg_ld_key(&o[IDENTITY]);
        prob.v[SUM_LDIW] = rfg_ld_key(&o[IDENTITY_WEIGHTS]);
    }
    prob.v[SUM_ALIGN] = rfg_alignment(o[X].bits | o[IDENTITY].bits);
    prob.v[SUM_ALIGN_Y] = rfg_alignment(o[Y].bits | o[RESIDUAL].bits);
    struct moe_sum_args a = { .x = x->data,
                              .residual = rfg_data(&o[RESIDUAL]),
                              .y = y->data,
                              .places = places->data,
                              .tokens = rfg_data(&o[TOKENS]),
                              .weights = rfg_data(&o[WEIGHTS]),
                              .ldx = o[X].ld,
                              .ldy = o[Y].ld,
                              .ldr = o[RESIDUAL].ld,
                              .ldp = o[PLACES].ld,
                              .ldw = o[WEIGHTS].ld,
                              .identity = rfg_data(&o[IDENTITY]),
                              .identity_weights = rfg_data(&o[IDENTITY_WEIGHTS]),
                              .ld_identity = o[IDENTITY].ld,
                              .ld_identity_weights = o[IDENTITY_WEIGHTS].ld };
    sum_set_sizes(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
