/* SPDX-License-Identifier: MIT
 *
 * rfg_op_rmsnorm, rfg_op_add_rmsnorm, rfg_op_layernorm and rfg_op_add_layernorm: what they refuse, and the problem of
 * a call. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "norm.h"

struct call {
    const char *fn;
    const struct rfg_op *op;
    const rfg_tensor *y, *residual_out, *x, *residual, *weight;
    rfg_norm_params p;
};
RFG_PARAMS_END(rfg_norm_params, bias);

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

/* x's dtype, or f32; and the other tensor's of its kind, if there is one. */
static rfg_status check_type(const struct call *c, const char *name, const rfg_tensor *t, const char *other_name,
                             const rfg_tensor *other)
{
    if (t->dtype != c->x->dtype && t->dtype != RFG_F32)
        return BAD("%s: %s is %s: must be x's dtype, %s, or f32", c->fn, name, rfg_dtype_name(t->dtype),
                   rfg_dtype_name(c->x->dtype));
    if (other && other->dtype != t->dtype)
        return BAD("%s: %s is %s, %s %s: must be of one dtype", c->fn, name, rfg_dtype_name(t->dtype), other_name,
                   rfg_dtype_name(other->dtype));
    return RFG_OK;
}

static rfg_status check_vector(struct rfg_operand *o, const struct call *c, const char *name, const rfg_tensor *t,
                               int64_t n)
{
    rfg_status st = rfg_check_operand(o, c->fn, name, t, 1, 1);
    if (st != RFG_OK)
        return st;
    if (o->cols != n)
        return BAD("%s: %s has %" PRId64 " elements: must have x's columns, %" PRId64, c->fn, name, o->cols, n);
    return check_type(c, name, t, "weight", c->weight);
}

static rfg_status check_residual(struct rfg_operand *o, const struct call *c, const char *name, const rfg_tensor *t,
                                 const struct rfg_operand *x)
{
    rfg_status st = rfg_check_operand(o, c->fn, name, t, 1, 3);
    if (st != RFG_OK)
        return st;
    if ((st = check_type(c, name, t, "residual", c->residual)))
        return st;
    if (o->rows != x->rows || o->cols != x->cols || (t->ndim == 3 && c->x->ndim == 3 && t->shape[1] != c->x->shape[1]))
        return BAD("%s: %s is %" PRId64 " x %" PRId64 ": must have x's shape, %" PRId64 " x %" PRId64, c->fn, name,
                   o->rows, o->cols, x->rows, x->cols);
    return RFG_OK;
}

/* A folded operand's strides if the others have `heads` rows of rows. */
static struct norm_rows rows_of(const struct rfg_operand *o, int64_t heads)
{
    struct norm_rows r = { o->t->data, o->ld, o->ld_inner };
    if (o->inner == 1 && heads > 1) {
        r.ld_inner = o->ld;
        r.ld = heads * o->ld;
    }
    return r;
}

/* The key's value for a stride: 0 if packed. */
static int64_t stride_key(const struct rfg_operand *o, int64_t heads)
{
    int64_t ld = o->inner == 1 ? heads * o->ld : o->ld;
    return ld == heads * o->cols ? 0 : ld;
}

static rfg_status run(rfg_context *ctx, struct call *c, const rfg_norm_params *params, rfg_stream stream)
{
    struct rfg_operand ox, or = { 0 }, oo = { 0 }, ow = { 0 }, ob = { 0 };
    struct rfg_outputs o;
    struct rfg_problem prob = { .op = c->op };
    rfg_status st;
    bool adds = norm_adds(&prob);
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", c->fn);
    c->p = (rfg_norm_params)RFG_NORM_PARAMS_INIT;
    if ((st = RFG_TAKE_PARAMS(c->fn, rfg_norm_params, &c->p, params)))
        return st;
    if ((st = rfg_check_float_operand(&ox, c->fn, "x", c->x, 1, 3)))
        return st;
    if (ox.cols > NORM_MAX_N)
        return BAD("%s: x has %" PRId64 " columns: must be at most %d", c->fn, ox.cols, NORM_MAX_N);
    if (!isfinite(c->p.eps) || (c->p.eps != 0 && c->p.eps < FLT_MIN)) /* GPUs' reciprocal roots take less for 0 */
        return BAD("%s: eps is %g: must be finite and at least 2^-126, or 0: %g", c->fn, (double)c->p.eps,
                   (double)NORM_DEFAULT_EPS);
    c->p.eps = c->p.eps > 0 ? c->p.eps : NORM_DEFAULT_EPS;
    if (c->p.one_plus_weight && !c->weight)
        return BAD("%s: one_plus_weight is %d: must be 0, weight is NULL", c->fn, c->p.one_plus_weight);
    if (c->p.bias && !norm_is_layer(&prob))
        return BAD("%s: bias is given: must be NULL, only layernorms have one", c->fn);
    if ((adds && ((st = check_residual(& or, c, "residual", c->residual, &ox)) ||
                  (st = check_residual(&oo, c, "residual_out", c->residual_out, &ox)))) ||
        (c->weight && (st = check_vector(&ow, c, "weight", c->weight, ox.cols))) ||
        (c->p.bias && (st = check_vector(&ob, c, "bias", c->p.bias, ox.cols))) ||
        (st = rfg_check_outputs(&o, c->fn, c->y, c->p.quant, &ox, ox.cols)))
        return st;
    if (ox.rows == 0 || ox.cols == 0)
        return RFG_OK;
    /* Outputs against inputs, then against each other. */
    if ((st = rfg_check_outputs_apart(&o, c->fn, &ox, true)) ||
        (adds &&
         ((st = rfg_check_outputs_apart(&o, c->fn, & or, false)) ||
          (st = rfg_check_outputs_apart(&o, c->fn, &oo, false)) || (st = rfg_check_overlap(c->fn, &oo, &ox, false)) ||
          (st = rfg_check_overlap(c->fn, &oo, & or, true)) ||
          (c->weight && (st = rfg_check_overlap(c->fn, &oo, &ow, false))) ||
          (c->p.bias && (st = rfg_check_overlap(c->fn, &oo, &ob, false))))) ||
        (c->weight && (st = rfg_check_outputs_apart(&o, c->fn, &ow, false))) ||
        (c->p.bias && (st = rfg_check_outputs_apart(&o, c->fn, &ob, false))) ||
        (st = rfg_check_outputs_distinct(&o, c->fn)))
        return st;

    int64_t heads = 1;
    const struct rfg_operand *all[] = { &ox, & or, &oo, &o.y, &o.q };
    for (int i = 0; i < 5; i++)
        if (all[i]->t && all[i]->inner > 1)
            heads = all[i]->inner;
    for (int i = 0; i < 5; i++)
        if (all[i]->t && stride_key(all[i], heads) > RFG_MAX_STRIDE)
            return BAD("%s: %s has %" PRId64 " rows in each first dimension, %" PRId64
                       " apart: must be at most %d elements in all",
                       c->fn, all[i]->name, heads, all[i]->ld, RFG_MAX_STRIDE);
    prob.dtype[0] = (uint8_t)c->x->dtype;
    prob.dtype[1] = (uint8_t)(o.quantised ? o.quant.q->dtype : c->x->dtype);
    prob.v[NORM_M] = ox.rows;
    prob.v[NORM_N] = ox.cols;
    prob.v[NORM_WEIGHT] = !c->weight ? NORM_WEIGHT_NONE : c->p.one_plus_weight ? NORM_WEIGHT_1W : NORM_WEIGHT_W;
    prob.v[NORM_BIAS] = c->p.bias != NULL;
    prob.v[NORM_RESIDUAL] = adds && c->residual->dtype != c->x->dtype;
    prob.v[NORM_WTYPE] =
        (c->weight && c->weight->dtype != c->x->dtype) || (c->p.bias && c->p.bias->dtype != c->x->dtype);
    prob.v[NORM_SCALE] = o.quantised ? o.quant.kind : 0;
    prob.v[NORM_ROUNDING] = o.quant.rounding;
    prob.v[NORM_PLAIN] = o.quantised && c->y;
    prob.v[NORM_HEADS] = heads;
    prob.v[NORM_LDX] = stride_key(&ox, heads);
    prob.v[NORM_LDR] = !adds ? 0 : stride_key(& or, heads) ? stride_key(& or, heads) : stride_key(&oo, heads);
    prob.v[NORM_LDY] = stride_key(o.plain ? &o.y : &o.q, heads);
    prob.v[NORM_SCALE_COLUMNS] = o.scale_columns;
    prob.v[NORM_INPLACE] = (o.plain && o.y.begin == ox.begin) | (adds && oo.begin == or.begin) << 1;
    prob.v[NORM_ALIGN] = rfg_alignment(ox.bits | or.bits | ow.bits | ob.bits);
    prob.v[NORM_ALIGN_Y] = rfg_alignment(o.y.bits | o.q.bits | oo.bits);

    struct norm_args a = { .x = rows_of(&ox, heads),
                           .weight = c->weight ? c->weight->data : NULL,
                           .bias = c->p.bias ? c->p.bias->data : NULL,
                           .scale = o.quantised ? o.quant.scale->data : NULL,
                           .scale_row = o.scale_row,
                           .scale_col = o.scale_col,
                           .m = (int)ox.rows,
                           .n = (int)ox.cols,
                           .heads = (int)heads,
                           .eps = c->p.eps,
                           .inverse_n = 1.0f / (float)ox.cols };
    if (adds) {
        a.residual = rows_of(& or, heads);
        a.residual_out = rows_of(&oo, heads);
    }
    if (o.plain)
        a.y = rows_of(&o.y, heads);
    if (o.quantised)
        a.q = rows_of(&o.q, heads);
    norm_fill_packed(&a);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

rfg_status rfg_op_rmsnorm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *weight,
                          const rfg_norm_params *params, rfg_stream stream)
{
    struct call c = { .fn = "rfg_op_rmsnorm", .op = &rfg_op_rmsnorm_desc, .y = y, .x = x, .weight = weight };
    return run(ctx, &c, params, stream);
}

rfg_status rfg_op_add_rmsnorm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *residual_out,
                              const rfg_tensor *x, const rfg_tensor *residual, const rfg_tensor *weight,
                              const rfg_norm_params *params, rfg_stream stream)
{
    struct call c = { "rfg_op_add_rmsnorm", &rfg_op_add_rmsnorm_desc, y, residual_out, x, residual, weight, { 0 } };
    return run(ctx, &c, params, stream);
}

rfg_status rfg_op_layernorm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *weight,
                            const rfg_norm_params *params, rfg_stream stream)
{
    struct call c = { .fn = "rfg_op_layernorm", .op = &rfg_op_layernorm_desc, .y = y, .x = x, .weight = weight };
    return run(ctx, &c, params, stream);
}

rfg_status rfg_op_add_layernorm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *residual_out,
                                const rfg_tensor *x, const rfg_tensor *residual, const rfg_tensor *weight,
                                const rfg_norm_params *params, rfg_stream stream)
{
    struct call c = { "rfg_op_add_layernorm", &rfg_op_add_layernorm_desc, y, residual_out, x, residual, weight, { 0 } };
    return run(ctx, &c, params, stream);
}
