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
    struct rfg_operand ox, in, out, ow, ob; /* in, out: the residuals. t NULL: it isn't there */
    struct rfg_outputs o;
    struct rfg_problem prob;
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

static rfg_status check_params(struct call *c, const rfg_norm_params *params)
{
    rfg_norm_params *p = &c->p;
    *p = (rfg_norm_params)RFG_NORM_PARAMS_INIT;
    rfg_status st = RFG_TAKE_PARAMS(c->fn, rfg_norm_params, p, params);
    if (st != RFG_OK)
        return st;
    if (!isfinite(p->eps) || (p->eps != 0 && p->eps < FLT_MIN)) /* GPUs' reciprocal roots take less for 0 */
        return BAD("%s: eps is %g: must be finite and at least 2^-126, or 0: %g", c->fn, (double)p->eps,
                   (double)NORM_DEFAULT_EPS);
    p->eps = p->eps > 0 ? p->eps : NORM_DEFAULT_EPS;
    if (p->one_plus_weight && !c->weight)
        return BAD("%s: one_plus_weight is %d: must be 0, weight is NULL", c->fn, p->one_plus_weight);
    if (p->bias && !norm_is_layer(&c->prob))
        return BAD("%s: bias is given: must be NULL, only layernorms have one", c->fn);
    return RFG_OK;
}

static rfg_status check_tensors(struct call *c)
{
    rfg_status st;
    if ((st = rfg_check_float_operand(&c->ox, c->fn, "x", c->x, 1, 3)))
        return st;
    if (c->ox.cols > NORM_MAX_N)
        return BAD("%s: x has %" PRId64 " columns: must be at most %d", c->fn, c->ox.cols, NORM_MAX_N);
    if (norm_adds(&c->prob) && ((st = check_residual(&c->in, c, "residual", c->residual, &c->ox)) ||
                                (st = check_residual(&c->out, c, "residual_out", c->residual_out, &c->ox))))
        return st;
    if ((c->weight && (st = check_vector(&c->ow, c, "weight", c->weight, c->ox.cols))) ||
        (c->p.bias && (st = check_vector(&c->ob, c, "bias", c->p.bias, c->ox.cols))))
        return st;
    return rfg_check_outputs(&c->o, c->fn, c->y, c->p.quant, &c->ox, c->ox.cols);
}

/* Outputs against inputs, then against each other. */
static rfg_status check_apart(const struct call *c)
{
    const struct rfg_operand *in[] = { &c->ox, &c->in, &c->ow, &c->ob };
    rfg_status st;
    for (int i = 0; i < 4; i++)
        if (in[i]->t && ((st = rfg_check_outputs_apart(&c->o, c->fn, in[i], in[i] == &c->ox)) ||
                         (c->out.t && (st = rfg_check_overlap(c->fn, &c->out, in[i], in[i] == &c->in)))))
            return st;
    if (c->out.t && (st = rfg_check_outputs_apart(&c->o, c->fn, &c->out, false)))
        return st;
    return rfg_check_outputs_distinct(&c->o, c->fn);
}

/* H of tensors that don't fold into two dimensions, whose strides must do for all. */
static rfg_status check_heads(const struct call *c, int64_t *heads)
{
    const struct rfg_operand *all[] = { &c->ox, &c->in, &c->out, &c->o.y, &c->o.q };
    *heads = 1;
    for (int i = 0; i < 5; i++)
        if (all[i]->t && all[i]->inner > 1)
            *heads = all[i]->inner;
    for (int i = 0; i < 5; i++)
        if (all[i]->t && stride_key(all[i], *heads) > RFG_MAX_STRIDE)
            return BAD("%s: %s has %" PRId64 " rows in each first dimension, %" PRId64
                       " apart: must be at most %d elements in all",
                       c->fn, all[i]->name, *heads, all[i]->ld, RFG_MAX_STRIDE);
    return RFG_OK;
}

static void problem_of(struct call *c, int64_t heads)
{
    const struct rfg_outputs *o = &c->o;
    struct rfg_problem *prob = &c->prob;
    rfg_dtype x = c->x->dtype;
    int64_t *v = prob->v, ldr = c->in.t ? stride_key(&c->in, heads) : 0;
    prob->dtype[0] = (uint8_t)x;
    prob->dtype[1] = (uint8_t)(o->quantised ? o->quant.q->dtype : x);
    v[NORM_M] = c->ox.rows;
    v[NORM_N] = c->ox.cols;
    v[NORM_WEIGHT] = !c->weight ? NORM_WEIGHT_NONE : c->p.one_plus_weight ? NORM_WEIGHT_1W : NORM_WEIGHT_W;
    v[NORM_BIAS] = c->p.bias != NULL;
    v[NORM_RESIDUAL] = c->in.t && c->residual->dtype != x;
    v[NORM_WTYPE] = (c->weight && c->weight->dtype != x) || (c->p.bias && c->p.bias->dtype != x);
    v[NORM_SCALE] = o->quantised ? o->quant.kind : 0;
    v[NORM_ROUNDING] = o->quant.rounding;
    v[NORM_PLAIN] = o->quantised && c->y;
    v[NORM_HEADS] = heads;
    v[NORM_LDX] = stride_key(&c->ox, heads);
    v[NORM_LDR] = ldr || !c->out.t ? ldr : stride_key(&c->out, heads);
    v[NORM_LDY] = stride_key(o->plain ? &o->y : &o->q, heads);
    v[NORM_SCALE_COLUMNS] = o->scale_columns;
    v[NORM_INPLACE] = (o->plain && o->y.begin == c->ox.begin) | (c->out.t && c->out.begin == c->in.begin) << 1;
    v[NORM_ALIGN] = rfg_alignment(c->ox.bits | c->in.bits | c->ow.bits | c->ob.bits);
    v[NORM_ALIGN_Y] = rfg_alignment(o->y.bits | o->q.bits | c->out.bits);
}

static rfg_status run(rfg_context *ctx, struct call *c, const rfg_norm_params *params, rfg_stream stream)
{
    int64_t heads;
    rfg_status st;
    c->prob.op = c->op;
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", c->fn);
    if ((st = check_params(c, params)) || (st = check_tensors(c)))
        return st;
    if (c->ox.rows == 0 || c->ox.cols == 0)
        return RFG_OK;
    if ((st = check_apart(c)) || (st = check_heads(c, &heads)))
        return st;
    problem_of(c, heads);
    const struct rfg_outputs *o = &c->o;
    struct norm_args a = { .x = rows_of(&c->ox, heads),
                           .weight = c->weight ? c->weight->data : NULL,
                           .bias = c->p.bias ? c->p.bias->data : NULL,
                           .scale = o->quantised ? o->quant.scale->data : NULL,
                           .scale_row = o->scale_row,
                           .scale_col = o->scale_col,
                           .m = (int)c->ox.rows,
                           .n = (int)c->ox.cols,
                           .heads = (int)heads,
                           .eps = c->p.eps,
                           .inverse_n = 1.0f / (float)c->ox.cols };
    if (c->out.t) {
        a.residual = rows_of(&c->in, heads);
        a.residual_out = rows_of(&c->out, heads);
    }
    if (o->plain)
        a.y = rows_of(&o->y, heads);
    if (o->quantised)
        a.q = rows_of(&o->q, heads);
    norm_fill_packed(&a);
    return rfg_dispatch(ctx, &c->prob, &a, stream);
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
    struct call c = { "rfg_op_add_rmsnorm", &rfg_op_add_rmsnorm_desc, y, residual_out, x, residual, weight };
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
    struct call c = { "rfg_op_add_layernorm", &rfg_op_add_layernorm_desc, y, residual_out, x, residual, weight };
    return run(ctx, &c, params, stream);
}
