/* SPDX-License-Identifier: MIT
 *
 * The norms as the harness has them. */
#include <string.h>

#include "ops/oracle.h"
#include "norm.h"

/* The tensors' places in the lists of call() and pack(). */
enum { T_Y, T_Q, T_SCALE, T_RESIDUAL_OUT, T_X, T_RESIDUAL, T_WEIGHT, T_BIAS, T_COUNT };

static struct rfg_tensor_spec vector_spec(const char *name, const struct rfg_problem *prob, bool absent)
{
    struct rfg_tensor_spec s = { .name = name,
                                 .dtype = norm_weight_dtype(prob),
                                 .ndim = 1,
                                 .shape = { prob->v[NORM_N] },
                                 .absent = absent,
                                 .align_key = NORM_ALIGN };
    return s;
}

static int norm_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    rfg_dtype in = (rfg_dtype)prob->dtype[0];
    struct rfg_outputs_shape s = { .rows = v[NORM_M],
                                   .cols = v[NORM_N],
                                   .heads = v[NORM_HEADS],
                                   .ld = v[NORM_LDY],
                                   .scale = v[NORM_SCALE],
                                   .plain = v[NORM_PLAIN],
                                   .scale_columns = v[NORM_SCALE_COLUMNS],
                                   .align_key = NORM_ALIGN_Y };
    _Static_assert(T_COUNT <= RFG_MAX_TENSORS, "room for all");
    rfg_outputs_specs(prob, &s, spec);
    spec[T_X] = rfg_rows_spec("x", in, v[NORM_M], v[NORM_N], v[NORM_HEADS], v[NORM_LDX], NORM_ALIGN);
    spec[T_RESIDUAL] = rfg_rows_spec("residual", norm_residual_dtype(prob), v[NORM_M], v[NORM_N], v[NORM_HEADS],
                                     v[NORM_LDR], NORM_ALIGN);
    spec[T_RESIDUAL_OUT] = spec[T_RESIDUAL];
    spec[T_RESIDUAL_OUT].name = "residual_out";
    spec[T_RESIDUAL_OUT].output = true;
    spec[T_RESIDUAL_OUT].align_key = NORM_ALIGN_Y;
    spec[T_RESIDUAL].absent = spec[T_RESIDUAL_OUT].absent = !norm_adds(prob);
    spec[T_WEIGHT] = vector_spec("weight", prob, v[NORM_WEIGHT] == NORM_WEIGHT_NONE);
    spec[T_BIAS] = vector_spec("bias", prob, !v[NORM_BIAS]);
    spec[T_Y].same_as = v[NORM_INPLACE] & 1 ? 1 + T_X : 0;
    spec[T_RESIDUAL_OUT].same_as = v[NORM_INPLACE] & 2 ? 1 + T_RESIDUAL : 0;
    return T_COUNT;
}

static rfg_status norm_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    rfg_quant q = { sizeof(rfg_quant), (rfg_scale_kind)prob->v[NORM_SCALE], (rfg_scale_rounding)prob->v[NORM_ROUNDING],
                    &t[T_Q], &t[T_SCALE] };
    rfg_norm_params p = { .size = sizeof(p),
                          .eps = NORM_DEFAULT_EPS,
                          .one_plus_weight = prob->v[NORM_WEIGHT] == NORM_WEIGHT_1W,
                          .quant = prob->v[NORM_SCALE] ? &q : NULL,
                          .bias = prob->v[NORM_BIAS] ? &t[T_BIAS] : NULL };
    const rfg_tensor *y = norm_is_plain(prob) ? &t[T_Y] : NULL;
    const rfg_tensor *w = prob->v[NORM_WEIGHT] != NORM_WEIGHT_NONE ? &t[T_WEIGHT] : NULL;
    if (prob->op == &rfg_op_rmsnorm_desc)
        return rfg_op_rmsnorm(ctx, y, &t[T_X], w, &p, stream);
    if (prob->op == &rfg_op_layernorm_desc)
        return rfg_op_layernorm(ctx, y, &t[T_X], w, &p, stream);
    return (prob->op == &rfg_op_add_rmsnorm_desc ? rfg_op_add_rmsnorm : rfg_op_add_layernorm)(
        ctx, y, &t[T_RESIDUAL_OUT], &t[T_X], &t[T_RESIDUAL], w, &p, stream);
}

static struct norm_rows rows_of_tensor(const rfg_tensor *t)
{
    return (struct norm_rows){ t->data, t->strides[0], t->ndim == 3 ? t->strides[1] : t->shape[1] };
}

static void norm_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    const int64_t *v = prob->v;
    struct norm_args *a = kargs;
    memset(a, 0, sizeof(*a));
    a->x = rows_of_tensor(&t[T_X]);
    if (norm_adds(prob)) {
        a->residual = rows_of_tensor(&t[T_RESIDUAL]);
        a->residual_out = rows_of_tensor(&t[T_RESIDUAL_OUT]);
    }
    if (norm_is_plain(prob))
        a->y = rows_of_tensor(&t[T_Y]);
    if (v[NORM_SCALE]) {
        a->q = rows_of_tensor(&t[T_Q]);
        a->scale = t[T_SCALE].data;
        a->scale_row = v[NORM_SCALE] == RFG_SCALE_STATIC ? 0 : t[T_SCALE].strides[0];
        a->scale_col = v[NORM_SCALE_COLUMNS] ? t[T_SCALE].strides[1] : 1;
    }
    a->weight = v[NORM_WEIGHT] != NORM_WEIGHT_NONE ? t[T_WEIGHT].data : NULL;
    a->bias = v[NORM_BIAS] ? t[T_BIAS].data : NULL;
    a->m = (int)v[NORM_M];
    a->n = (int)v[NORM_N];
    a->heads = (int)v[NORM_HEADS];
    a->eps = NORM_DEFAULT_EPS;
    a->inverse_n = 1.0f / (float)a->n;
    norm_fill_packed(a);
}

#define CASE(op)                                                                                                       \
    const struct rfg_op_case rfg_op_case_##op = {                                                                      \
        .tensors = norm_tensors, .call = norm_call, .pack = norm_pack, .oracle = rfg_oracle_rmsnorm                    \
    }
CASE(rmsnorm);
CASE(add_rmsnorm);
CASE(layernorm);
CASE(add_layernorm);
