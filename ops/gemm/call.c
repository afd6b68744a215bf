/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm. A call is taken in steps: its params, each tensor alone, the problem that they make, whose rules are
 * gemm.c's, then sizes and overlaps; what is left is packed and dispatched. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/gates.h"
#include "ops/operand.h"
#include "ops/params.h"
#include "gemm.h"
#include "loads.h"

#define FN       "rfg_op_gemm"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_gemm_params, y_scale);

enum { X, W, BIAS, W_SCALE, X_SCALE, W_ZERO, RESIDUAL, OFFSETS, ROWS, WEIGHTS, Y_SCALE, PLACES, TOKENS, INPUTS };

struct call {
    rfg_gemm_params p;
    const struct rfg_gemm_sum *sum;       /* NULL: no rows are summed */
    struct rfg_operand y, in[INPUTS];     /* t NULL: it isn't there */
    rfg_tensor flat[INPUTS];              /* what `in` was checked as, where that isn't as it was given */
    bool prepacked, x_columns, w_columns; /* columns: scales are column-major */
    struct rfg_problem prob;
};

static bool there(const struct call *c, int i)
{
    return c->in[i].t != NULL;
}

static void *data_of(const struct call *c, int i)
{
    return there(c, i) ? c->in[i].t->data : NULL;
}

static uintptr_t bits_of(const struct call *c, int i)
{
    return there(c, i) ? c->in[i].bits : 0;
}

/* ---- params ------------------------------------------------------------------------------------------------------ */

static rfg_status check_params(const rfg_gemm_params *p)
{
    if (p->gated && ((int)p->act < 0 || (int)p->act > RFG_ACT_SWIGLUOAI))
        return BAD("act is %d: must be silu, gelu, gelu_tanh, relu, relu2 or swigluoai", (int)p->act);
    if ((unsigned)p->gates > RFG_GATES_INTERLEAVED)
        return BAD("gates is %d: " RFG_GATES_RULE, (int)p->gates);
    if (!p->gated && (p->act || p->gates || p->limit != 0 || p->alpha != 0))
        return BAD("act is %d, gates %d, limit %g, alpha %g: must be 0, it is not gated", (int)p->act, (int)p->gates,
                   (double)p->limit, (double)p->alpha);
    if (!(p->limit >= 0 && p->limit <= GEMM_MAX_LIMIT))
        return BAD("limit is %g: must be from 0 to %d", (double)p->limit, GEMM_MAX_LIMIT);
    if (p->alpha != 0 && p->act != RFG_ACT_SWIGLUOAI)
        return BAD("alpha is %g: must be 0, act is not swigluoai", (double)p->alpha);
    if ((unsigned)p->x_per > RFG_GEMM_SCALE_GROUP || (unsigned)p->w_per > RFG_GEMM_SCALE_GROUP)
        return BAD("x_per is %d, w_per %d: must be RFG_GEMM_SCALE_TENSOR, ROW, BLOCK or GROUP", (int)p->x_per,
                   (int)p->w_per);
    if (!p->offsets && (p->rows || p->weights))
        return BAD("%s is given: must be NULL, offsets is NULL", p->rows ? "rows" : "weights");
    return RFG_OK;
}

/* ---- tensors, each alone ----------------------------------------------------------------------------------------- */

static rfg_status check_list(struct call *c, int i, const char *name, const rfg_tensor *t, rfg_dtype dtype)
{
    rfg_status st = rfg_check_operand(&c->in[i], FN, name, t, 1, 1);
    return st ? st : rfg_check_operand_dtype(&c->in[i], FN, dtype, "");
}

/* [E,N,K] as [E N,K], [E,N] as [E N], where they follow one another. */
static const rfg_tensor *stacked(struct call *c, int i, const rfg_tensor *t, int dims)
{
    if (!t || t->ndim != dims + 1 || t->shape[0] < 1 || t->shape[1] < 1 || t->shape[0] > RFG_MAX_SIZE / t->shape[1] ||
        t->strides[1] < 0 || t->strides[1] > RFG_MAX_STRIDE ||
        (t->shape[0] > 1 && t->strides[0] != t->shape[1] * t->strides[1]))
        return t;
    rfg_tensor *flat = &c->flat[i];
    *flat = *t;
    flat->ndim = dims;
    flat->shape[0] = t->shape[0] * t->shape[1];
    flat->strides[0] = t->strides[1];
    flat->shape[1] = t->shape[2];
    flat->strides[1] = t->strides[2];
    return flat;
}

/* Lists of a grouped product; the rest becomes that of a product with one w, of all experts' rows. */
static rfg_status check_experts(struct call *c, const rfg_tensor **w)
{
    rfg_gemm_params *p = &c->p;
    rfg_status st;
    if ((st = check_list(c, OFFSETS, "offsets", p->offsets, RFG_I32)) ||
        (p->rows && (st = check_list(c, ROWS, "rows", p->rows, RFG_I32))) ||
        (p->weights && (st = check_list(c, WEIGHTS, "weights", p->weights, RFG_F32))))
        return st;
    if (c->in[OFFSETS].cols < 2 || c->in[OFFSETS].cols > GEMM_MAX_EXPERTS + 1)
        return BAD("offsets has %" PRId64 " elements: must have one more than there are experts, 1 to %d",
                   c->in[OFFSETS].cols, GEMM_MAX_EXPERTS);
    *w = stacked(c, W, *w, 2);
    p->bias = stacked(c, BIAS, p->bias, 1);
    if (*w && (*w)->ndim != 5) {
        p->w_zero = stacked(c, W_ZERO, p->w_zero, 2);
        p->w_scale = stacked(c, W_SCALE, p->w_scale,
                             p->w_per == RFG_GEMM_SCALE_ROW && p->w_scale && p->w_scale->ndim == 2 ? 1 : 2);
    }
    return RFG_OK;
}

/* Places and tokens of rows that are summed. */
static rfg_status check_sum(struct call *c)
{
    const struct rfg_operand *places = &c->in[PLACES];
    rfg_status st;
    if ((st = rfg_check_operand(&c->in[PLACES], FN, "places", c->sum->places, 2, 2)) ||
        (st = rfg_check_operand_dtype(places, FN, RFG_I32, "")) ||
        (c->sum->tokens && (st = check_list(c, TOKENS, "tokens", c->sum->tokens, RFG_I32))))
        return st;
    if (places->cols < 1 || places->cols > GEMM_MAX_SLOTS || places->ld != places->cols)
        return BAD("places is %" PRId64 " x %" PRId64 ", rows %" PRId64 " apart: must be [T,k], packed, k at most %d",
                   places->rows, places->cols, places->ld, GEMM_MAX_SLOTS);
    if (there(c, TOKENS) && c->in[TOKENS].cols != 1)
        return BAD("tokens has %" PRId64 " elements: must be [1]", c->in[TOKENS].cols);
    c->p.residual = c->sum->residual;
    return RFG_OK;
}

/* Scales of codes: as a matrix in the order in which they lie; *columns: that is by columns. */
static rfg_status check_scale(struct call *c, int i, const char *name, const rfg_tensor *t, int64_t per, bool *columns)
{
    rfg_tensor turned;
    *columns = rfg_turn_columns(&turned, t);
    if (t->ndim == 1 && per == RFG_GEMM_SCALE_ROW) { /* as a column */
        turned.ndim = 2;
        turned.shape[1] = turned.strides[1] = 1;
    }
    c->flat[i] = turned;
    rfg_status st = rfg_check_operand(&c->in[i], FN, name, &c->flat[i], 1, 2);
    if (st == RFG_OK && t->dtype != RFG_F32 && t->dtype != RFG_E8M0 && i == X_SCALE)
        return BAD("x_scale is %s: must be f32 or e8m0", rfg_dtype_name(t->dtype));
    return st;
}

static rfg_status check_x(const rfg_tensor *x)
{
    return rfg_dtype_is_float(x->dtype) || rfg_dtype_is_code(x->dtype) || x->dtype == RFG_E2M1
               ? RFG_OK
               : BAD("x is %s: must be bf16, f16 or f32, or e4m3, e4m3fnuz, e5m2, i8 or e2m1",
                     rfg_dtype_name(x->dtype));
}

static rfg_status check_tensors(struct call *c, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w)
{
    const rfg_gemm_params *p = &c->p;
    struct rfg_operand *in = c->in;
    rfg_status st;
    c->prepacked = w && w->ndim == 5;
    if ((st = rfg_check_operand(&in[X], FN, "x", x, 2, 2)) || (st = check_x(x)) ||
        (st = rfg_check_operand(&c->y, FN, "y", y, 2, 2)) ||
        (st = c->prepacked ? prepack_operand(&in[W], FN, "w", w) : rfg_check_operand(&in[W], FN, "w", w, 2, 2)) ||
        (p->bias && (st = rfg_check_float_operand(&in[BIAS], FN, "bias", p->bias, 1, 1))) ||
        (p->residual && (st = rfg_check_float_operand(&in[RESIDUAL], FN, "residual", p->residual, 2, 2))) ||
        (p->y_scale && (st = check_list(c, Y_SCALE, "y_scale", p->y_scale, RFG_F32))) ||
        (p->x_scale && (st = check_scale(c, X_SCALE, "x_scale", p->x_scale, p->x_per, &c->x_columns))))
        return st;
    bool codes = rfg_dtype_is_code(x->dtype) || x->dtype == RFG_E2M1;
    int dims = c->prepacked ? 3 : 2; /* of a scale, or a zero point, for each group of a row */
    if (p->w_scale &&
        (st = codes && !c->prepacked ? check_scale(c, W_SCALE, "w_scale", p->w_scale, p->w_per, &c->w_columns)
                                     : rfg_check_operand(&in[W_SCALE], FN, "w_scale", p->w_scale, dims, dims)))
        return st;
    if (p->w_zero && (st = rfg_check_operand(&in[W_ZERO], FN, "w_zero", p->w_zero, dims, dims)))
        return st;
    if (p->w_zero && p->w_zero->dtype != RFG_I8)
        return BAD("w_zero is %s: must be i8", rfg_dtype_name(p->w_zero->dtype));
    return RFG_OK;
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

/* The row stride as a key says it. */
static int64_t ld_of(const struct rfg_operand *o)
{
    return o->ld == o->cols ? 0 : o->ld;
}

static int64_t dtype_of(const struct call *c, int i)
{
    return there(c, i) ? c->in[i].t->dtype : RFG_DTYPE_NONE;
}

/* What w's scales say of its groups. */
static int64_t group_of(const struct call *c)
{
    const struct gemm_w_format *f = gemm_w_format(&c->prob);
    if (!there(c, W_SCALE) || gemm_is_codes(&c->prob))
        return 0;
    int64_t groups = c->in[W_SCALE].t->shape[1];
    return groups ? c->in[W].cols / groups : f ? f->group : 0;
}

static void problem_of(struct call *c)
{
    const rfg_gemm_params *p = &c->p;
    const struct rfg_operand *in = c->in, *y = &c->y;
    struct rfg_problem *prob = &c->prob;
    int64_t *v = prob->v;
    prob->op = &rfg_op_gemm_desc;
    prob->dtype[0] = (uint8_t)in[X].t->dtype;
    prob->dtype[1] = (uint8_t)in[W].t->dtype;
    prob->dtype[2] = (uint8_t)y->t->dtype;
    v[GEMM_SLOTS] = c->sum ? in[PLACES].cols : 0;
    v[GEMM_M] = c->sum ? y->rows * v[GEMM_SLOTS] : y->rows;
    v[GEMM_N] = y->cols * (p->gated ? 2 : 1);
    v[GEMM_K] = in[X].cols;
    v[GEMM_BIAS] = there(c, BIAS);
    v[GEMM_RESIDUAL] = there(c, RESIDUAL);
    v[GEMM_GATED] = p->gated ? (int)p->act + 1 : 0;
    bool limited = p->limit != 0 && !(p->act == RFG_ACT_SWIGLUOAI && p->limit == GEMM_DEFAULT_LIMIT);
    v[GEMM_LIMIT] = limited ? (int64_t)ceilf(p->limit) : 0;
    v[GEMM_GATES] = p->gates;
    v[GEMM_EXPERTS] = there(c, OFFSETS) ? in[OFFSETS].cols - 1 : 0;
    v[GEMM_TOP] = there(c, ROWS) && v[GEMM_M] && in[X].rows ? ceil_div(v[GEMM_M], in[X].rows) : 0;
    v[GEMM_WEIGHTS] = there(c, WEIGHTS);
    v[GEMM_W_SCALE] = dtype_of(c, W_SCALE);
    v[GEMM_W_ZERO] = dtype_of(c, W_ZERO);
    v[GEMM_W_GROUP] = group_of(c);
    v[GEMM_X_SCALE] = dtype_of(c, X_SCALE);
    v[GEMM_X_PER] = p->x_per;
    v[GEMM_W_PER] = p->w_per;
    v[GEMM_FAST] = p->fast_accum != 0;
    v[GEMM_PREPACKED] = c->prepacked;
    bool says = there(c, BIAS) && (gemm_is_codes(prob) || in[BIAS].t->dtype != gemm_bias_like(prob));
    v[GEMM_BTYPE] = says ? in[BIAS].t->dtype : RFG_DTYPE_NONE;
    v[GEMM_LDX] = ld_of(&in[X]);
    v[GEMM_LDW] = ld_of(&in[W]);
    v[GEMM_LDY] = ld_of(y);
    v[GEMM_LDR] = there(c, RESIDUAL) ? ld_of(&in[RESIDUAL]) : 0;
    v[GEMM_X_COLUMNS] = c->x_columns;
    v[GEMM_W_COLUMNS] = c->w_columns;
    v[GEMM_INPLACE] = there(c, RESIDUAL) && in[RESIDUAL].begin == y->begin;
    v[GEMM_TOKENS] = there(c, TOKENS);
    v[GEMM_X_ROWS] = v[GEMM_TOP] ? gemm_far_rows(in[X].rows, in[X].ld) : 0;
    v[GEMM_ALIGN] =
        rfg_alignment(in[X].bits | in[W].bits | (c->prepacked ? bits_of(c, W_SCALE) | bits_of(c, W_ZERO) : 0));
    v[GEMM_ALIGN_Y] = rfg_alignment(y->bits | bits_of(c, BIAS) | (c->sum ? bits_of(c, RESIDUAL) : 0));
}

/* What the sizes and the bias are judged by. */
static rfg_status check_formats(const struct call *c)
{
    struct rfg_reason why;
    return c->prob.dtype[0] == c->prob.dtype[1] || gemm_has_loader(&c->prob, &why) ? RFG_OK : BAD("%s", why.text);
}

/* Rules of arguments that the problem says nothing of, or by another name. */
static rfg_status check_arguments(const struct call *c)
{
    const struct rfg_problem *prob = &c->prob;
    rfg_dtype like = gemm_bias_like(prob), bias = (rfg_dtype)dtype_of(c, BIAS);
    bool codes = gemm_y_is_codes(prob);
    if (bias && bias != like && bias != RFG_F32)
        return like == RFG_F32 ? BAD("bias is %s: must be f32", rfg_dtype_name(bias))
                               : BAD("bias is %s: must be %s dtype, %s, or f32", rfg_dtype_name(bias),
                                     gemm_is_codes(prob) ? "y's" : "x's", rfg_dtype_name(like));
    if (codes ? !there(c, Y_SCALE) || c->in[Y_SCALE].cols != 1 : there(c, Y_SCALE))
        return BAD("y is %s, y_scale %s: must be %s", rfg_dtype_name((rfg_dtype)prob->dtype[2]),
                   !there(c, Y_SCALE)         ? "NULL"
                   : c->in[Y_SCALE].cols == 1 ? "[1]"
                                              : "longer than [1]",
                   codes ? "[1]" : "NULL");
    if (there(c, ROWS) && c->in[X].rows == 0 && prob->v[GEMM_M])
        return BAD("x has no rows: must have those that rows says, %" PRId64, prob->v[GEMM_M]);
    if (c->p.fast_accum && !gemm_is_fp8(prob))
        return BAD("fast_accum is %d: must be 0, x is %s, no fp8", c->p.fast_accum,
                   rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    return RFG_OK;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static rfg_status check_matrices(const struct call *c)
{
    const struct rfg_operand *in = c->in, *x = &in[X], *w = &in[W], *y = &c->y;
    int64_t m = c->prob.v[GEMM_M], experts = c->prob.v[GEMM_EXPERTS];
    int64_t w_cols = gemm_w_cols(&c->prob);
    bool fit = (there(c, ROWS) ? in[ROWS].cols : x->rows) == m && (!c->sum || in[PLACES].rows == y->rows) &&
               w->rows == gemm_w_rows(&c->prob) && w->cols == w_cols && (!there(c, BIAS) || in[BIAS].cols == w->rows) &&
               (!there(c, WEIGHTS) || in[WEIGHTS].cols == m);
    if (!fit) {
        struct rfg_sizes_said said = { "", "" };
        rfg_say_size(&said, "bias", there(c, BIAS) ? &in[BIAS] : NULL, experts ? "[E N]" : "[N]");
        rfg_say_size(&said, "rows", there(c, ROWS) ? &in[ROWS] : NULL, "[M]");
        rfg_say_size(&said, "weights", there(c, WEIGHTS) ? &in[WEIGHTS] : NULL, "[M]");
        rfg_say_size(&said, "offsets", experts ? &in[OFFSETS] : NULL, "[E+1]");
        return BAD("y is %" PRId64 " x %" PRId64 ", x %" PRId64 " x %" PRId64 ", w %" PRId64 " x %" PRId64
                   "%s: must be %s, [M,K]%s, %s%s%s",
                   y->rows, y->cols, x->rows, x->cols, w->rows, w->cols, said.sizes,
                   c->sum       ? "[M/k,N] (places [M/k,k])"
                   : c->p.gated ? "[M,N/2] (gated)"
                                : "[M,N]",
                   experts ? " (with rows any)" : "", experts ? "[E N,K]" : "[N,K]",
                   w_cols > x->cols ? " (K padded to a multiple of 128)" : "", said.rules);
    }
    const struct rfg_operand *r = &in[RESIDUAL];
    if (there(c, RESIDUAL) && (r->rows != y->rows || r->cols != y->cols || r->t->dtype != y->t->dtype))
        return BAD("residual is %s, %" PRId64 " x %" PRId64 ": must be as y, %s, %" PRId64 " x %" PRId64,
                   rfg_dtype_name(r->t->dtype), r->rows, r->cols, rfg_dtype_name(y->t->dtype), y->rows, y->cols);
    return RFG_OK;
}

/* Scales, or zero points, of W: one for each group. A prepacked W's have three dimensions. */
static rfg_status check_groups(const struct call *c, int i, int64_t group)
{
    const struct rfg_operand *o = &c->in[i], *w = &c->in[W];
    const int64_t *s = o->t->shape;
    if (c->prepacked)
        return s[0] == w->rows / PREPACK_ROWS && s[1] * group == w->cols && s[2] == PREPACK_ROWS &&
                       (o->rows == 0 || (o->ld == o->cols && o->inner == 1))
                   ? RFG_OK
                   : BAD("%s is %" PRId64 " x %" PRId64 " x %" PRId64
                         ": must be [N/16,K/group,16], packed, w is prepacked, %" PRId64 " x %" PRId64,
                         o->name, s[0], s[1], s[2], w->rows, w->cols);
    return o->rows == w->rows && o->cols * group == w->cols && o->ld == o->cols
               ? RFG_OK
               : BAD("%s is %" PRId64 " x %" PRId64 ", rows %" PRId64
                     " apart: must be [N,K/group], packed, w is %" PRId64 " x %" PRId64,
                     o->name, o->rows, o->cols, o->ld, w->rows, w->cols);
}

/* Scales of codes, of which there are s. */
static rfg_status check_scales(const struct call *c, int i, const rfg_tensor *given, int64_t per, bool columns,
                               struct gemm_scale_shape s)
{
    const struct rfg_operand *o = &c->in[i];
    int64_t rows = columns ? o->cols : o->rows, cols = columns ? o->rows : o->cols;
    bool one = given->ndim == 1, blocks = per >= RFG_GEMM_SCALE_BLOCK;
    if (rows != s.rows || cols != s.cols || (one && blocks) || (!one && per == RFG_GEMM_SCALE_TENSOR))
        return BAD("%s has %d dimensions, %" PRId64 " x %" PRId64 ": must be %s%" PRId64 " x %" PRId64 "%s (per %s)",
                   o->name, given->ndim, rows, cols, per == RFG_GEMM_SCALE_TENSOR ? "[1], " : "", s.rows, s.cols,
                   blocks ? ", of two dimensions" : "", gemm_per_name(per));
    return RFG_OK;
}

static rfg_status check_codes(const struct call *c)
{
    const struct rfg_problem *prob = &c->prob;
    const rfg_gemm_params *p = &c->p;
    const struct rfg_operand *x_scale = &c->in[X_SCALE];
    struct gemm_scale_shape of_x = gemm_x_scales(prob), of_w = gemm_w_scales(prob);
    rfg_status st;
    if (p->x_per != RFG_GEMM_SCALE_TENSOR)
        of_x.rows = c->in[X].rows;
    if (prob->v[GEMM_EXPERTS])
        *(p->w_per == RFG_GEMM_SCALE_TENSOR ? &of_w.cols : &of_w.rows) *= prob->v[GEMM_EXPERTS];
    if (there(c, X_SCALE) && (st = check_scales(c, X_SCALE, p->x_scale, p->x_per, c->x_columns, of_x)))
        return st;
    if (!c->prepacked)
        return there(c, W_SCALE) ? check_scales(c, W_SCALE, p->w_scale, p->w_per, c->w_columns, of_w) : RFG_OK;
    /* W's scales are prepacked, too, and kernels read four of x's at once. */
    if (x_scale->bits % 4)
        return BAD("x_scale is at %p, rows of %" PRId64 " elements: both must be multiples of 4, w is prepacked",
                   p->x_scale->data, x_scale->ld);
    return check_groups(c, W_SCALE, GEMM_SCALE_GROUP);
}

static rfg_status check_scale_sizes(const struct call *c)
{
    int64_t group = c->prob.v[GEMM_W_GROUP];
    if (gemm_is_codes(&c->prob))
        return check_codes(c);
    rfg_status st = there(c, W_SCALE) ? check_groups(c, W_SCALE, group) : RFG_OK;
    return st == RFG_OK && there(c, W_ZERO) ? check_groups(c, W_ZERO, group) : st;
}

/* Are scales judged by the rules, or a variant asked? Else they are left to rfg_dispatch(), which looks at them once a
 * problem. */
static bool wants_rules(const struct call *c)
{
    return c->sum || gemm_is_codes(&c->prob) || there(c, X_SCALE) || there(c, W_SCALE) || there(c, W_ZERO);
}

/* ---- arguments of kernels ---------------------------------------------------------------------------------------- */

/* Elements from a scale to the next row's and the next column's. */
static void scale_strides(const struct rfg_operand *o, bool columns, int64_t per, int *row, int *col)
{
    *row = per == RFG_GEMM_SCALE_TENSOR ? 0 : columns ? 1 : (int)o->ld;
    *col = per >= RFG_GEMM_SCALE_BLOCK ? columns ? (int)o->ld : 1 : 0;
}

static struct gemm_args args_of(const struct call *c)
{
    const struct rfg_problem *prob = &c->prob;
    const rfg_gemm_params *p = &c->p;
    struct gemm_args a = { .y = c->y.t->data,
                           .x = data_of(c, X),
                           .w = data_of(c, W),
                           .bias = data_of(c, BIAS),
                           .ldx = c->in[X].ld,
                           .ldw = c->in[W].ld,
                           .ldy = c->y.ld,
                           .m = (int32_t)prob->v[GEMM_M],
                           .n = (int32_t)prob->v[GEMM_N],
                           .k = (int32_t)prob->v[GEMM_K],
                           .w_scale = data_of(c, W_SCALE),
                           .residual = data_of(c, RESIDUAL),
                           .ldr = there(c, RESIDUAL) ? c->in[RESIDUAL].ld : 0,
                           .x_scale = data_of(c, X_SCALE),
                           .w_zero = data_of(c, W_ZERO),
                           .alpha = p->alpha != 0 ? p->alpha : GEMM_DEFAULT_ALPHA,
                           .limit = p->limit != 0 ? p->limit : GEMM_DEFAULT_LIMIT,
                           .offsets = data_of(c, OFFSETS),
                           .rows = data_of(c, ROWS),
                           .weights = data_of(c, WEIGHTS),
                           .experts = (int32_t)prob->v[GEMM_EXPERTS],
                           .x_rows = (int32_t)c->in[X].rows,
                           .y_scale = data_of(c, Y_SCALE),
                           .places = data_of(c, PLACES),
                           .tokens = data_of(c, TOKENS),
                           .top = (int32_t)prob->v[GEMM_SLOTS] };
    if (gemm_is_codes(prob)) {
        scale_strides(&c->in[X_SCALE], c->x_columns, p->x_per, &a.x_scale_row, &a.x_scale_col);
        scale_strides(&c->in[W_SCALE], c->w_columns, p->w_per, &a.w_scale_row, &a.w_scale_col);
        if (c->prepacked) /* as it was before */
            a.w_scale_row = (int)(gemm_w_cols(prob) / GEMM_SCALE_GROUP);
    }
    a.w_expert_scales = (int32_t)gemm_expert_scales(prob, a.w_scale_row);
    return a;
}

/* Kernels count in 32 bits: scales of groups from the first row to the last, and an expert's. */
static rfg_status check_spans(const struct call *c, const struct gemm_args *a)
{
    const struct rfg_problem *prob = &c->prob;
    bool mx = gemm_is_mx(prob), experts = prob->v[GEMM_EXPERTS] != 0;
    int64_t of_w = gemm_expert_scales(prob, a->w_scale_row), of_x = mx ? c->in[X_SCALE].rows * a->x_scale_row : 0;
    if (mx && of_x > INT32_MAX)
        return BAD("x_scale has %" PRId64 " rows, %d apart: must span at most %d scales", c->in[X_SCALE].rows,
                   a->x_scale_row, INT32_MAX);
    if ((mx || experts) && of_w > INT32_MAX)
        return BAD("w_scale has %" PRId64 " rows%s, %d apart: must span at most %d scales", gemm_w_scales(prob).rows,
                   experts ? " of an expert" : "", a->w_scale_row, INT32_MAX);
    return RFG_OK;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

rfg_status rfg_gemm_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                        const rfg_gemm_params *params, const struct rfg_gemm_sum *sum, bool *taken, rfg_stream stream)
{
    struct call c;
    c.p = (rfg_gemm_params)RFG_GEMM_PARAMS_INIT;
    c.sum = sum;
    c.x_columns = c.w_columns = false;
    for (int i = 0; i < INPUTS; i++) /* the rest of one that isn't there isn't read */
        c.in[i].t = NULL;
    memset(&c.prob, 0, sizeof(c.prob));
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_gemm_params, &c.p, params)) || (st = check_params(&c.p)) ||
        (c.p.offsets && (st = check_experts(&c, &w))) || (sum && (st = check_sum(&c))) ||
        (st = check_tensors(&c, y, x, w)))
        return st;
    problem_of(&c);
    bool empty = c.y.rows == 0 || c.y.cols == 0;
    if ((st = check_formats(&c)) || (st = check_matrices(&c)) || (st = check_arguments(&c)) ||
        ((empty || wants_rules(&c)) && (st = rfg_check_problem(FN, &c.prob))) || (st = check_scale_sizes(&c)))
        return st;
    if (empty)
        return RFG_OK;
    for (int i = 0; i < INPUTS; i++)
        if (there(&c, i) && (st = rfg_check_overlap(FN, &c.y, &c.in[i], i == RESIDUAL)))
            return st;
    if (taken && !(*taken = rfg_dispatch_offers(ctx, &c.prob, &gemm_stream_mma)))
        return RFG_OK;
    struct gemm_args a = args_of(&c);
    if (gemm_is_codes(&c.prob) && (st = check_spans(&c, &a)))
        return st;
    return rfg_dispatch(ctx, &c.prob, &a, stream);
}

rfg_status rfg_op_gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                       const rfg_gemm_params *params, rfg_stream stream)
{
    return rfg_gemm_sum(ctx, y, x, w, params, NULL, NULL, stream);
}
