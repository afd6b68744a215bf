/* SPDX-License-Identifier: MIT
 *
 * The harness' case of act_and_mul and act. */
#include <string.h>

#include "ops/gates.h"
#include "ops/oracle.h"
#include "act.h"

static int act_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    struct rfg_outputs_shape s = { .rows = v[ACT_M],
                                   .cols = v[ACT_N],
                                   .heads = 1,
                                   .ld = v[ACT_LDY],
                                   .scale = v[ACT_SCALE],
                                   .plain = v[ACT_PLAIN],
                                   .scale_columns = v[ACT_SCALE_COLUMNS],
                                   .align_key = ACT_ALIGN_Y };
    rfg_outputs_specs(prob, &s, spec);
    spec[0].same_as = v[ACT_INPLACE] ? 4 : 0;
    spec[3] = rfg_rows_spec("x", (rfg_dtype)prob->dtype[0], v[ACT_M], act_x_cols(prob), 1, v[ACT_LDX], ACT_ALIGN);
    return 4;
}

static rfg_status act_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    rfg_quant quant = { sizeof(rfg_quant), (rfg_scale_kind)prob->v[ACT_SCALE],
                        (rfg_scale_rounding)prob->v[ACT_ROUNDING], &t[1], &t[2] };
    rfg_act_params params = { .size = sizeof(params),
                              .act = (rfg_act)prob->v[ACT_ACT],
                              .limit = (float)prob->v[ACT_LIMIT],
                              .gates = (rfg_gates)prob->v[ACT_GATES],
                              .quant = prob->v[ACT_SCALE] ? &quant : NULL };
    return (act_multiplies(prob) ? rfg_op_act_and_mul : rfg_op_act)(ctx, act_is_plain(prob) ? &t[0] : NULL, &t[3],
                                                                    &params, stream);
}

static void act_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    const int64_t *v = prob->v;
    struct act_args *a = kargs;
    bool columns = v[ACT_SCALE_COLUMNS];
    memset(a, 0, sizeof(*a));
    a->x = t[3].data;
    a->ldx = t[3].strides[0];
    if (act_is_plain(prob)) {
        a->y = t[0].data;
        a->ldy = t[0].strides[0];
    }
    if (v[ACT_SCALE]) {
        a->q = t[1].data;
        a->ldq = t[1].strides[0];
        a->scale = t[2].data;
        a->scale_row = v[ACT_SCALE] == RFG_SCALE_STATIC ? 0 : t[2].strides[0];
        a->scale_col = columns ? t[2].strides[1] : 1;
    }
    struct rfg_gate gate = rfg_gate_in((rfg_act)v[ACT_ACT], v[ACT_LIMIT]);
    a->alpha = gate.alpha;
    a->limit = gate.limit;
    a->linear_beta = gate.linear_beta;
    a->m = (int)v[ACT_M];
    a->n = (int)v[ACT_N];
    act_set_chunks(a, prob);
}

/* A limit that is the default isn't said. */
static void act_as_called(struct rfg_problem *prob)
{
    struct rfg_gate_options o = { .act = (rfg_act)prob->v[ACT_ACT], .limit = (float)prob->v[ACT_LIMIT] };
    prob->v[ACT_LIMIT] = rfg_gate_limit_key(&o);
}

#define CASE(op)                                                                                                       \
    const struct rfg_op_case rfg_op_case_##op = { .tensors = act_tensors,                                              \
                                                  .call = act_call,                                                    \
                                                  .pack = act_pack,                                                    \
                                                  .oracle = rfg_oracle_act,                                            \
                                                  .as_called = act_as_called }
CASE(act_and_mul);
CASE(act);
