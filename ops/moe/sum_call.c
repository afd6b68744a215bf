/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_sum: what it refuses, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/operand.h"
#include "ops/params.h"
#include "sum.h"

#define FN       "rfg_op_moe_sum"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_moe_sum_params, tokens);

enum { X, PLACES, WEIGHTS, RESIDUAL, TOKENS, INPUTS };

static rfg_status check_shape(const struct rfg_operand *o, int64_t rows, int64_t cols)
{
    return o->rows == rows && o->cols == cols
               ? RFG_OK
               : BAD("%s is %" PRId64 " x %" PRId64 ": must be %" PRId64 " x %" PRId64 " with this y and places",
                     o->name, o->rows, o->cols, rows, cols);
}

/* Its row stride; 0: packed. */
static int64_t ld_of(const struct rfg_operand *o)
{
    return o->ld == o->cols ? 0 : o->ld;
}

static rfg_status check_inputs(const rfg_moe_sum_params *p, const rfg_tensor *x, const rfg_tensor *places,
                               const struct rfg_operand *y, struct rfg_operand *in)
{
    rfg_status st;
    if ((st = rfg_check_float_operand(&in[X], FN, "x", x, 2, 2)) || (st = check_shape(&in[X], in[X].rows, y->cols)) ||
        (st = rfg_check_operand(&in[PLACES], FN, "places", places, 2, 2)) ||
        (st = rfg_check_operand_dtype(&in[PLACES], FN, RFG_I32, "")) ||
        (st = check_shape(&in[PLACES], y->rows, in[PLACES].cols)))
        return st;
    int64_t top = in[PLACES].cols;
    if (top < 1 || top > SUM_MAX_TOP)
        return BAD("places has %" PRId64 " columns: must be from 1 to %d", top, SUM_MAX_TOP);
    if (p->weights && ((st = rfg_check_operand(&in[WEIGHTS], FN, "weights", p->weights, 2, 2)) ||
                       (st = rfg_check_operand_dtype(&in[WEIGHTS], FN, RFG_F32, "")) ||
                       (st = check_shape(&in[WEIGHTS], y->rows, top))))
        return st;
    if (p->residual && ((st = rfg_check_operand(&in[RESIDUAL], FN, "residual", p->residual, 2, 2)) ||
                        (st = rfg_check_operand_dtype(&in[RESIDUAL], FN, y->t->dtype, "y's dtype, ")) ||
                        (st = check_shape(&in[RESIDUAL], y->rows, y->cols))))
        return st;
    if (p->tokens &&
        ((st = rfg_check_operand(&in[TOKENS], FN, "tokens", p->tokens, 1, 1)) ||
         (st = rfg_check_operand_dtype(&in[TOKENS], FN, RFG_I32, "")) || (st = check_shape(&in[TOKENS], 1, 1))))
        return st;
    return RFG_OK;
}

rfg_status rfg_op_moe_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *places,
                          const rfg_moe_sum_params *given, rfg_stream stream)
{
    rfg_moe_sum_params p = RFG_MOE_SUM_PARAMS_INIT;
    struct rfg_operand oy, in[INPUTS] = { { 0 } };
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_sum_params, &p, given)) ||
        (st = rfg_check_float_operand(&in[X], FN, "x", x, 2, 2)) ||
        (st = rfg_check_float_operand(&oy, FN, "y", y, 2, 2)) || (st = check_inputs(&p, x, places, &oy, in)))
        return st;
    if (oy.rows == 0 || oy.cols == 0)
        return RFG_OK;
    for (int i = 0; i < INPUTS; i++)
        if (in[i].t && (st = rfg_check_overlap(FN, &oy, &in[i], i == RESIDUAL)))
            return st;

    const struct rfg_operand *r = &in[RESIDUAL];
    struct rfg_problem prob = { .op = &rfg_op_moe_sum_desc, .dtype = { (uint8_t)x->dtype, (uint8_t)y->dtype } };
    prob.v[SUM_T] = oy.rows;
    prob.v[SUM_N] = oy.cols;
    prob.v[SUM_TOP] = in[PLACES].cols;
    prob.v[SUM_WEIGHTS] = p.weights != NULL;
    prob.v[SUM_RESIDUAL] = p.residual != NULL;
    prob.v[SUM_TOKENS] = p.tokens != NULL;
    prob.v[SUM_INPLACE] = p.residual && rfg_operand_same(&oy, r);
    prob.v[SUM_R] = in[X].rows == oy.rows * in[PLACES].cols ? 0 : in[X].rows ? in[X].rows : -1;
    prob.v[SUM_LDX] = ld_of(&in[X]);
    prob.v[SUM_LDY] = ld_of(&oy);
    prob.v[SUM_LDR] = p.residual ? ld_of(r) : 0;
    prob.v[SUM_LDP] = ld_of(&in[PLACES]);
    prob.v[SUM_LDW] = p.weights ? ld_of(&in[WEIGHTS]) : 0;
    prob.v[SUM_ALIGN] = rfg_alignment(in[X].bits);
    prob.v[SUM_ALIGN_Y] = rfg_alignment(oy.bits | r->bits);
    if ((st = rfg_check_problem(FN, &prob)))
        return st;
    struct moe_sum_args a = { .x = x->data,
                              .residual = p.residual ? p.residual->data : NULL,
                              .y = y->data,
                              .places = places->data,
                              .tokens = p.tokens ? p.tokens->data : NULL,
                              .weights = p.weights ? p.weights->data : NULL,
                              .ldx = in[X].ld,
                              .ldy = oy.ld,
                              .ldr = r->ld,
                              .ldp = in[PLACES].ld,
                              .ldw = in[WEIGHTS].ld };
    sum_set_sizes(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
