/* SPDX-License-Identifier: MIT
 *
 * rfg_op_rmsnorm, rfg_op_add_rmsnorm, rfg_op_layernorm, rfg_op_add_layernorm and rfg_op_all_reduce_add_rmsnorm: what
 * their tensors must be, and the problem of a call. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "norm.h"

struct call {
    const char *fn;
    const struct rfg_op *op;
    rfg_comm *comm; /* x is summed over its ranks first; or NULL */
    const rfg_tensor *y, *residual_out, *x, *residual, *weight;
    rfg_norm_params p;
    struct rfg_tensors *t;
    struct rfg_outputs o;
    struct rfg_problem prob;
};
RFG_PARAMS_END(rfg_norm_params, bias);

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

enum { IN = RFG_OUTPUTS, OUT, WEIGHT, BIAS, TENSORS }; /* IN, OUT: the residuals */
enum { ADDS = 1, HAS_WEIGHT = 2 };

static const struct rfg_axis axes[RFG_OUTPUT_AXES] = { RFG_NAMES_OF_OUTPUTS(NORM_MAX_N) };
#define SHAPE                                                                                                          \
    {                                                                                                                  \
        RFG_ROWS, RFG_COLS, RFG_HEADS | RFG_IF_KNOWN                                                                   \
    }

static const struct rfg_tensor_rule rules[] = {
    RFG_X_RULE,
    { "residual", IN, RFG_FOLDED, 3, SHAPE, RFG_DTYPE(F32), RFG_X + 1, .if_set = ADDS },
    { "residual_out", OUT, RFG_FOLDED | RFG_OUT, 3, SHAPE, 0, IN + 1, .same = IN + 1, .if_set = ADDS },
    { "weight", WEIGHT, RFG_OPTIONAL, 1, { RFG_COLS }, RFG_DTYPE(F32), RFG_X + 1 },
    { "bias", BIAS, RFG_OPTIONAL, 1, { RFG_COLS }, 0, WEIGHT + 1, .if_set = HAS_WEIGHT },
    { "bias", BIAS, RFG_OPTIONAL, 1, { RFG_COLS }, RFG_DTYPE(F32), RFG_X + 1, .if_clear = HAS_WEIGHT },
};

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
    const rfg_tensor *const all[TENSORS] = {
        c->x, c->y, NULL, NULL, c->residual, c->residual_out, c->weight, c->p.bias
    };
    struct rfg_tensors *t = c->t;
    rfg_tensors_begin(t, c->fn, axes, all, TENSORS);
    t->facts = (norm_adds(&c->prob) ? ADDS : 0) | (c->weight ? HAS_WEIGHT : 0) | RFG_IN_PLACE;
    rfg_status st = rfg_check_tensors(t, rules, RFG_RULES(rules));
    if (st)
        return st;
    rfg_set_axis(t, RFG_OUT_COLS, rfg_size(t, RFG_COLS));
    return rfg_check_outputs(&c->o, t, c->p.quant);
}

/* H of tensors that don't fold into two dimensions, whose strides must do for all. */
static rfg_status check_heads(const struct call *c, int64_t *heads)
{
    const struct rfg_operand *o = c->t->o, *all[] = { &o[RFG_X], &o[IN], &o[OUT], &o[RFG_Y], &o[RFG_Q] };
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
    const struct rfg_operand *x = &c->t->o[RFG_X], *in = &c->t->o[IN], *out = &c->t->o[OUT], *y = &c->t->o[RFG_Y],
                             *q = &c->t->o[RFG_Q];
    struct rfg_problem *prob = &c->prob;
    rfg_dtype dtype = c->x->dtype;
    int64_t *v = prob->v, ldr = in->t ? stride_key(in, heads) : 0;
    prob->dtype[0] = (uint8_t)dtype;
    prob->dtype[1] = (uint8_t)(o->quantised ? o->quant.q->dtype : dtype);
    v[NORM_M] = x->rows;
    v[NORM_N] = x->cols;
    v[NORM_WEIGHT] = !c->weight ? NORM_WEIGHT_NONE : c->p.one_plus_weight ? NORM_WEIGHT_1W : NORM_WEIGHT_W;
    v[NORM_BIAS] = c->p.bias != NULL;
    v[NORM_RESIDUAL] = in->t && c->residual->dtype != dtype;
    v[NORM_WTYPE] = (c->weight && c->weight->dtype != dtype) || (c->p.bias && c->p.bias->dtype != dtype);
    v[NORM_SCALE] = o->quantised ? o->quant.kind : 0;
    v[NORM_ROUNDING] = o->quant.rounding;
    v[NORM_PLAIN] = o->quantised && c->y;
    v[NORM_HEADS] = heads;
    v[NORM_LDX] = stride_key(x, heads);
    v[NORM_LDR] = ldr || !out->t ? ldr : stride_key(out, heads);
    v[NORM_LDY] = stride_key(o->plain ? y : q, heads);
    v[NORM_SCALE_COLUMNS] = o->scale_columns;
    v[NORM_INPLACE] = (o->plain && y->begin == x->begin) | (out->t && out->begin == in->begin) << 1;
    v[NORM_ALIGN] = rfg_alignment(x->bits | in->bits | c->t->o[WEIGHT].bits | c->t->o[BIAS].bits);
    v[NORM_ALIGN_Y] = rfg_alignment(y->bits | q->bits | out->bits);
}

/* In one launch where all_reduce would send packets, else in two, through scratch memory. */
static rfg_status run_joint(rfg_context *ctx, struct call *c, struct norm_args *a, rfg_stream stream)
{
    struct rfg_problem *prob = &c->prob;
    const int64_t n = prob->v[NORM_M] * prob->v[NORM_N];
    const int *forced = rfg_comm_forced(c->comm, &add_rmsnorm_joint);
    int joint[JOINT_NPARAMS];
    struct rfg_reason why;
    void *sum;
    if (prob->v[NORM_HEADS] > 1 || prob->v[NORM_LDX])
        return BAD("%s: x has gaps between its rows: must be packed", c->fn);
    if (rfg_comm_describes(c->comm))
        return RFG_OK;
    norm_joint_choose(rfg_context_info(ctx), prob, rfg_comm_ranks(c->comm), joint);
    if (forced)
        memcpy(joint, forced, sizeof(joint));
    if (rfg_comm_takes_packets(c->comm, prob->dtype[0], n) &&
        rfg_variant_check(&add_rmsnorm_joint, rfg_context_info(ctx), prob, joint, &why))
        return rfg_comm_launch(c->comm, c->fn, prob, &add_rmsnorm_joint, joint, a, stream);
    const int64_t bytes = rfg_format_bytes(prob->dtype[0], n);
    rfg_status st = rfg_scratch_begin(ctx, c->fn, stream, (size_t)bytes, &sum);
    if (st != RFG_OK)
        return st;
    struct comm_args all = { .x = a->x.data, .y = sum, .n = n, .stride = n, .wide = (uintptr_t)a->x.data % 16 == 0 };
    st = rfg_comm_run(c->comm, c->fn, COMM_OP_REDUCE, prob->dtype[0], &all, stream);
    a->x.data = sum;
    prob->v[NORM_INPLACE] &= 2;
    norm_fill_packed(a);
    if (st == RFG_OK)
        st = rfg_dispatch(ctx, prob, a, stream);
    rfg_scratch_end(ctx);
    return st;
}

static rfg_status run(rfg_context *ctx, struct call *c, const rfg_norm_params *params, rfg_stream stream)
{
    int64_t heads;
    struct rfg_tensors t;
    rfg_status st;
    c->t = &t;
    c->prob.op = c->op;
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", c->fn);
    if ((st = check_params(c, params)) || (st = check_tensors(c)))
        return st;
    if (rfg_size(c->t, RFG_ROWS) == 0 || rfg_size(c->t, RFG_COLS) == 0)
        return RFG_OK;
    if ((st = rfg_check_overlaps(c->t)) || (st = check_heads(c, &heads)))
        return st;
    problem_of(c, heads);
    const struct rfg_outputs *o = &c->o;
    const struct rfg_operand *x = &c->t->o[RFG_X], *in = &c->t->o[IN], *out = &c->t->o[OUT], *y = &c->t->o[RFG_Y],
                             *q = &c->t->o[RFG_Q];
    struct norm_args a = { .x = rows_of(x, heads),
                           .weight = c->weight ? c->weight->data : NULL,
                           .bias = c->p.bias ? c->p.bias->data : NULL,
                           .scale = o->quantised ? o->quant.scale->data : NULL,
                           .scale_row = o->scale_row,
                           .scale_col = o->scale_col,
                           .m = (int)x->rows,
                           .n = (int)x->cols,
                           .heads = (int)heads,
                           .eps = c->p.eps,
                           .inverse_n = 1.0f / (float)x->cols };
    if (out->t) {
        a.residual = rows_of(in, heads);
        a.residual_out = rows_of(out, heads);
    }
    if (o->plain)
        a.y = rows_of(y, heads);
    if (o->quantised)
        a.q = rows_of(q, heads);
    norm_fill_packed(&a);
    return c->comm ? run_joint(ctx, c, &a, stream) : rfg_dispatch(ctx, &c->prob, &a, stream);
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
    struct call c = { "rfg_op_add_rmsnorm", &rfg_op_add_rmsnorm_desc, NULL, y, residual_out, x, residual, weight };
    return run(ctx, &c, params, stream);
}

rfg_status rfg_op_all_reduce_add_rmsnorm(rfg_comm *comm, const rfg_tensor *y, const rfg_tensor *residual_out,
                                         const rfg_tensor *x, const rfg_tensor *residual, const rfg_tensor *weight,
                                         const rfg_norm_params *params, rfg_stream stream)
{
    struct call c = {
        "rfg_op_all_reduce_add_rmsnorm", &rfg_op_add_rmsnorm_desc, comm, y, residual_out, x, residual, weight
    };
    rfg_status st = rfg_comm_ready(comm, c.fn);
    return st == RFG_OK ? run(rfg_comm_context(comm), &c, params, stream) : st;
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
    struct call c = { "rfg_op_add_layernorm", &rfg_op_add_layernorm_desc, NULL, y, residual_out, x, residual, weight };
    return run(ctx, &c, params, stream);
}
