/* SPDX-License-Identifier: MIT
 *
 * rfg_op_act_and_mul and rfg_op_act: what their tensors must be, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/gates.h"
#include "ops/params.h"
#include "act.h"

RFG_PARAMS_END(rfg_act_params, situ_linear_beta);

static struct rfg_gate_options options_of(const rfg_act_params *p)
{
    return (struct rfg_gate_options){ p->act, p->alpha, p->limit, p->situ_beta, p->situ_linear_beta };
}

static rfg_status check_params(const char *fn, const rfg_act_params *p, bool mul)
{
    struct rfg_gate_options gate = options_of(p);
    if ((unsigned)p->act > RFG_ACT_NONE)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: act is %d: must be an rfg_act, from 0 to %d", fn, (int)p->act,
                        (int)RFG_ACT_NONE);
    if ((unsigned)p->gates > RFG_GATES_INTERLEAVED)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: gates is %d: " RFG_GATES_RULE, fn, (int)p->gates);
    if (!mul && (rfg_act_is_of_gates(p->act) || p->gates || p->limit != 0))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: act is %d, gates %d, limit %g: only rfg_op_act_and_mul has %s",
                        fn, (int)p->act, (int)p->gates, (double)p->limit,
                        p->gates        ? "gates"
                        : p->limit != 0 ? "a limit"
                                        : "this act");
    return rfg_check_gate(fn, &gate);
}

static const struct rfg_axis axes[RFG_OUTPUT_AXES] = { RFG_NAMES_OF_OUTPUTS(0) };
static const struct rfg_tensor_rule rules[] = { RFG_X_RULE };

static rfg_status run(const char *fn, const struct rfg_op *op, rfg_context *ctx, const rfg_tensor *y,
                      const rfg_tensor *x, const rfg_act_params *given, rfg_stream stream)
{
    rfg_act_params params = RFG_ACT_PARAMS_INIT;
    const rfg_tensor *const all[RFG_OUTPUTS] = { x, y };
    struct rfg_tensors t;
    const struct rfg_operand *ox = &t.o[RFG_X], *oy = &t.o[RFG_Y], *oq = &t.o[RFG_Q];
    struct rfg_outputs o;
    bool mul = op == &rfg_op_act_and_mul_desc;
    rfg_status st;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: ctx is NULL: must be a context", fn);
    rfg_tensors_begin(&t, fn, axes, all, RFG_OUTPUTS);
    t.facts = mul ? 0 : RFG_IN_PLACE;
    if ((st = RFG_TAKE_PARAMS(fn, rfg_act_params, &params, given)) ||
        (st = rfg_check_tensors(&t, rules, RFG_RULES(rules))))
        return st;
    if (ox->inner != 1)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: x has strides %" PRId64 " and %" PRId64 " over %" PRId64 " x %" PRId64
                        " rows: must be rows of one stride",
                        fn, x->strides[0], x->strides[1], x->shape[0], x->shape[1]);
    if (mul && ox->cols % 2)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: x has %" PRId64 " columns: must be 2N, an even number", fn,
                        ox->cols);
    if ((st = check_params(fn, &params, mul)))
        return st;
    int64_t n = mul ? ox->cols / 2 : ox->cols;
    if (n > RFG_MAX_SIZE / 2)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: x has %" PRId64 " columns: must be at most %d", fn, ox->cols,
                        RFG_MAX_SIZE / 2);
    rfg_set_axis(&t, RFG_OUT_COLS, n);
    if ((st = rfg_check_outputs(&o, &t, params.quant)))
        return st;
    if ((o.plain && oy->inner != 1) || (o.quantised && oq->inner != 1))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s's first two dimensions must fold into one: rows of one stride", fn,
                        o.plain && oy->inner != 1 ? "y" : "q");
    if (ox->rows == 0 || n == 0)
        return RFG_OK;
    if ((st = rfg_check_overlaps(&t)))
        return st;

    struct rfg_problem prob = { .op = op,
                                .dtype = { (uint8_t)x->dtype, (uint8_t)(o.quantised ? o.quant.q->dtype : x->dtype) } };
    int64_t ldy = o.plain ? oy->ld : oq->ld;
    prob.v[ACT_M] = ox->rows;
    prob.v[ACT_N] = n;
    prob.v[ACT_ACT] = params.act;
    struct rfg_gate_options options = options_of(&params);
    struct rfg_gate gate = rfg_gate_of(&options);
    prob.v[ACT_LIMIT] = rfg_gate_limit_key(&options);
    prob.v[ACT_GATES] = params.gates;
    prob.v[ACT_SCALE] = o.quantised ? o.quant.kind : 0;
    prob.v[ACT_ROUNDING] = o.quant.rounding;
    prob.v[ACT_PLAIN] = o.quantised && y;
    prob.v[ACT_LDX] = rfg_ld_key(ox);
    prob.v[ACT_LDY] = ldy == n ? 0 : ldy;
    prob.v[ACT_SCALE_COLUMNS] = o.scale_columns;
    prob.v[ACT_INPLACE] = o.plain && oy->begin == ox->begin;
    prob.v[ACT_ALIGN] = rfg_alignment(ox->bits);
    prob.v[ACT_ALIGN_Y] = rfg_alignment(oy->bits | oq->bits);

    struct act_args a = { .x = x->data,
                          .y = o.plain ? y->data : NULL,
                          .q = o.quantised ? o.quant.q->data : NULL,
                          .scale = o.quantised ? o.quant.scale->data : NULL,
                          .ldx = ox->ld,
                          .ldy = oy->ld,
                          .ldq = oq->ld,
                          .scale_row = o.scale_row,
                          .scale_col = o.scale_col,
                          .alpha = gate.alpha,
                          .limit = gate.limit,
                          .linear_beta = gate.linear_beta,
                          .m = (int)ox->rows,
                          .n = (int)n };
    act_set_chunks(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

rfg_status rfg_op_act_and_mul(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_act_params *params,
                              rfg_stream stream)
{
    return run("rfg_op_act_and_mul", &rfg_op_act_and_mul_desc, ctx, y, x, params, stream);
}

rfg_status rfg_op_act(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_act_params *params,
                      rfg_stream stream)
{
    return run("rfg_op_act", &rfg_op_act_desc, ctx, y, x, params, stream);
}
