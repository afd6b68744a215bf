/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm: its params; tensors by tables, each of which says how large the next one's are; the problem, whose
 * rules are gemm.c's; the kernel's arguments. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/gates.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "gemm.h"
#include "loads.h"
#include "prepack_layout.h"

#define FN       "rfg_op_gemm"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_gemm_params, w_group);

enum {
    Y,
    X,
    W,
    BIAS,
    W_SCALE,
    X_SCALE,
    W_ZERO,
    RESIDUAL,
    OFFSETS,
    ROWS,
    WEIGHTS,
    Y_SCALE,
    PLACES,
    TOKENS,
    W_GLOBAL,
    IDS,
    TENSORS
};

struct call {
    rfg_gemm_params p;
    const struct rfg_gemm_sum *sum; /* NULL: no rows are summed */
    struct rfg_tensors t;
    rfg_tensor flat[W_ZERO + 1]; /* what tensors are checked as, where that isn't as they were given */
    struct rfg_problem prob;
};

static bool there(const struct call *c, int slot)
{
    return c->t.o[slot].t != NULL;
}

/* Are experts of rows said, in any order? */
static bool by_id(const struct call *c)
{
    return c->sum && c->sum->ids;
}

static bool is_empty(const struct call *c)
{
    return c->t.o[Y].rows == 0 || c->t.o[Y].cols == 0;
}

/* Scales that lie by columns. */
static bool by_columns(const struct call *c, int slot)
{
    return c->t.turned >> slot & 1;
}

/* ---- params ------------------------------------------------------------------------------------------------------ */

static struct rfg_gate_options options_of(const rfg_gemm_params *p)
{
    return (struct rfg_gate_options){ p->act, p->alpha, p->limit, p->situ_beta, p->situ_linear_beta };
}

static rfg_status check_params(const rfg_gemm_params *p, bool ids)
{
    struct rfg_gate_options gate = options_of(p);
    if (p->gated && ((int)p->act < 0 || (int)p->act > RFG_LAST_GATE))
        return BAD("act is %d: must be an rfg_act from 0 to %d", (int)p->act, RFG_LAST_GATE);
    if ((unsigned)p->gates > RFG_GATES_INTERLEAVED)
        return BAD("gates is %d: " RFG_GATES_RULE, (int)p->gates);
    if (!p->gated && (p->act || p->gates || p->limit != 0 || p->alpha != 0))
        return BAD("act is %d, gates %d, limit %g, alpha %g: must be 0, it is not gated", (int)p->act, (int)p->gates,
                   (double)p->limit, (double)p->alpha);
    rfg_status st = rfg_check_gate(FN, &gate);
    if (st)
        return st;
    if ((unsigned)p->x_per > RFG_GEMM_SCALE_GROUP || (unsigned)p->w_per > RFG_GEMM_SCALE_GROUP)
        return BAD("x_per is %d, w_per %d: must be RFG_GEMM_SCALE_TENSOR, ROW, BLOCK or GROUP", (int)p->x_per,
                   (int)p->w_per);
    if (p->w_group < 0 || p->w_group > RFG_MAX_SIZE)
        return BAD("w_group is %" PRId64 ": must be from 0 to %d", p->w_group, RFG_MAX_SIZE);
    if (!p->offsets && !ids && (p->rows || p->weights))
        return BAD("%s is given: must be NULL, offsets is NULL", p->rows ? "rows" : "weights");
    return RFG_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum { T = 1, COLS, M, K, N, COLS_W, E, SLOTS, ONE, LANES, B };
static const struct rfg_axis axes[] = {
    [T] = { "rows", 0, 0 },
    [COLS] = { "columns", 0, 0 },
    [M] = { "rows", 0, 0 },
    [K] = { "columns", 0, 0 },
    [N] = { "columns", 0, 0 },
    [COLS_W] = { "columns", 0, 0 },
    [E] = { "experts", 1, GEMM_MAX_EXPERTS },
    [SLOTS] = { "columns", 1, GEMM_MAX_SLOTS },
    [ONE] = { "", 1, 1 },
    [LANES] = { "", PREPACK_ROWS, PREPACK_ROWS },
    [B] = { "batch", 0, GEMM_MAX_BATCH },
};

/* Whose columns N is: grouped, gated. */
static const char *const n_of[2][2] = {
    { "y", "twice y" },
    { "offsets' experts times y", "offsets' experts times twice y" },
};

/* CODES: x is; PREPACKED: w is, and then its scales, which of 8 bits are as by rows; PER: w_per says what shares one. */
enum { GROUPED = 1, SUMMED = 2, GATHERED = 4, CODES = 8, PREPACKED = 16, X_TENSOR = 32, W_TENSOR = 64, PER = 128 };
#define ANY       ((1u << RFG_DTYPE_COUNT) - 2)
#define X_FORMATS (RFG_FLOAT_FORMATS | RFG_8_BIT_FLOATS | RFG_DTYPE(I8) | RFG_DTYPE(E2M1))
#define X_SCALES  (RFG_DTYPE(F32) | RFG_DTYPE(E8M0))

/* Each table says how large the next one's tensors are. */
static const struct rfg_tensor_rule of_y[] = {
    { "y", Y, RFG_OUT, 2, { T, COLS }, ANY, .same = RESIDUAL + 1 },
    { "offsets", OFFSETS, RFG_OPTIONAL, 1, { E | RFG_PLUS_ONE }, RFG_DTYPE(I32) },
    { "places", PLACES, RFG_PACKED, 2, { T, SLOTS }, RFG_DTYPE(I32), .if_set = SUMMED },
    { "tokens", TOKENS, RFG_OPTIONAL, 1, { ONE }, RFG_DTYPE(I32) },
}, of_x[] = {
    { "rows", ROWS, RFG_OPTIONAL, 1, { M }, RFG_DTYPE(I32) },
    { "weights", WEIGHTS, RFG_OPTIONAL, 1, { M }, RFG_DTYPE(F32) },
    { "ids", IDS, RFG_OPTIONAL, 1, { M }, RFG_DTYPE(I32) },
    { "x", X, 0, 2, { M, K }, X_FORMATS, .if_clear = GATHERED },
    { "x", X, 0, 2, { 0, K }, X_FORMATS, .if_set = GATHERED },
}, of_w[] = {
    { "w", W, 0, 2, { N, COLS_W }, ANY },
    { "bias", BIAS, RFG_OPTIONAL, 1, { N }, RFG_FLOAT_FORMATS },
    { "residual", RESIDUAL, RFG_OPTIONAL, 2, { T, COLS }, 0, Y + 1 },
    { "y_scale", Y_SCALE, RFG_OPTIONAL, 1, { ONE }, RFG_DTYPE(F32) },
    { "w_global", W_GLOBAL, RFG_OPTIONAL, 1, { ONE }, RFG_DTYPE(F32), .if_clear = GROUPED },
    { "w_global", W_GLOBAL, RFG_OPTIONAL | RFG_PACKED, 1, { E }, RFG_DTYPE(F32), .if_set = GROUPED },
}, of_batch[] = {
    { "y", Y, RFG_OUT | RFG_VIEW, 3, { M, B, N }, RFG_FLOAT_FORMATS },
    { "x", X, RFG_VIEW, 3, { M, B, K }, RFG_FLOAT_FORMATS },
    { "w", W, RFG_VIEW, 3, { B, N, K }, 0, X + 1 },
}, of_scales[] = { /* rules come before their sizes, which follow from them */
    { "x_scale of x_per=tensor", X_SCALE, RFG_OPTIONAL, 1, { ONE }, X_SCALES, .if_set = CODES | X_TENSOR },
    { "x_scale", X_SCALE, RFG_OPTIONAL | RFG_EITHER_WAY, 2, { 0 }, X_SCALES, .if_set = CODES, .if_clear = X_TENSOR },
    { "w_scale of w_per=tensor", W_SCALE, RFG_OPTIONAL, 1, { 0 }, ANY,
      .if_set = PER | W_TENSOR, .if_clear = PREPACKED },
    { "w_scale", W_SCALE, RFG_OPTIONAL | RFG_EITHER_WAY, 2, { 0 }, ANY,
      .if_set = PER, .if_clear = W_TENSOR | PREPACKED },
    { "w_scale", W_SCALE, RFG_OPTIONAL | RFG_PACKED, 2, { 0 }, ANY, .if_clear = PER | PREPACKED },
    { "w_scale", W_SCALE, RFG_OPTIONAL | RFG_PACKED, 3, { 0, LANES }, ANY, .if_set = PREPACKED },
    { "w_zero", W_ZERO, RFG_OPTIONAL | RFG_PACKED, 2, { 0 }, RFG_DTYPE(I8), .if_clear = PREPACKED },
    { "w_zero", W_ZERO, RFG_OPTIONAL | RFG_PACKED, 3, { 0, LANES }, RFG_DTYPE(I8), .if_set = PREPACKED },
};

/* [E,N,K] as [E N,K], [E,N] as [E N]. */
static rfg_status stack(struct call *c, int slot, const char *name, int dims)
{
    const rfg_tensor *t = c->t.o[slot].t;
    if (!t || t->ndim != dims + 1 || t->shape[0] < 1 || t->shape[1] < 1 || t->shape[0] > RFG_MAX_SIZE / t->shape[1] ||
        t->strides[1] < 0 || t->strides[1] > RFG_MAX_STRIDE)
        return RFG_OK;
    if (t->shape[0] > 1 && t->strides[0] != t->shape[1] * t->strides[1])
        return BAD("%s has stride %" PRId64 " in dimension 0: must be %" PRId64 ", experts follow one another", name,
                   t->strides[0], t->shape[1] * t->strides[1]);
    rfg_tensor *flat = &c->flat[slot];
    *flat = *t;
    flat->ndim = dims;
    flat->shape[0] = t->shape[0] * t->shape[1];
    flat->strides[0] = t->strides[1];
    flat->shape[1] = t->shape[2];
    flat->strides[1] = t->strides[2];
    c->t.o[slot].t = flat;
    return RFG_OK;
}

/* Weights of all experts become those of one w. A prepacked w is as many rows. */
static rfg_status flatten(struct call *c)
{
    const rfg_tensor *w = c->t.o[W].t, *scale = c->t.o[W_SCALE].t;
    int scale_dims = c->p.w_per == RFG_GEMM_SCALE_ROW && scale && scale->ndim == 2 ? 1 : 2;
    rfg_status st;
    if (c->t.facts & GROUPED && (st = stack(c, BIAS, "bias", 1)))
        return st;
    if (c->t.facts & PREPACKED) {
        c->t.o[W].t = &c->flat[W];
        st = prepack_rows(&c->flat[W], FN, "w", w);
        bool scales = c->t.facts & GROUPED && rfg_dtype_is_code(w->dtype);
        return st || !scales ? st : stack(c, W_SCALE, "w_scale", scale_dims);
    }
    if (!(c->t.facts & GROUPED))
        return RFG_OK;
    if ((st = stack(c, W, "w", 2)) || (st = stack(c, W_ZERO, "w_zero", 2)))
        return st;
    return stack(c, W_SCALE, "w_scale", scale_dims);
}

/* A scale a row, as a column. */
static void as_column(struct call *c, int slot, int per)
{
    const rfg_tensor *t = c->t.o[slot].t;
    if (!t || t->ndim != 1 || per != RFG_GEMM_SCALE_ROW)
        return;
    rfg_tensor column = *t;
    column.ndim = 2;
    column.shape[1] = column.strides[1] = 1;
    c->flat[slot] = column;
    c->t.o[slot].t = &c->flat[slot];
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

static int64_t dtype_of(const struct call *c, int slot)
{
    return there(c, slot) ? c->t.o[slot].t->dtype : RFG_DTYPE_NONE;
}

static void set_dtypes(struct call *c)
{
    struct rfg_problem *prob = &c->prob;
    prob->op = &rfg_op_gemm_desc;
    prob->dtype[0] = (uint8_t)dtype_of(c, X);
    prob->dtype[1] = (uint8_t)dtype_of(c, W);
    prob->dtype[2] = (uint8_t)dtype_of(c, Y);
}

/* Of y and x, what w follows from. */
static void set_sizes(struct call *c)
{
    const struct rfg_tensors *t = &c->t;
    int64_t *v = c->prob.v;
    set_dtypes(c);
    v[GEMM_SLOTS] = rfg_size(t, SLOTS);
    v[GEMM_M] = rfg_size(t, M);
    v[GEMM_N] = rfg_size(t, COLS) * (c->p.gated ? 2 : 1);
    v[GEMM_K] = rfg_size(t, K);
    v[GEMM_EXPERTS] = rfg_size(t, E);
    v[GEMM_IDS] = by_id(c);
    v[GEMM_PREPACKED] = (t->facts & PREPACKED) != 0;
}

static void set_scales(struct call *c)
{
    int64_t *v = c->prob.v;
    v[GEMM_X_SCALE] = dtype_of(c, X_SCALE);
    v[GEMM_W_SCALE] = dtype_of(c, W_SCALE);
    v[GEMM_W_ZERO] = dtype_of(c, W_ZERO);
    v[GEMM_W_GLOBAL] = there(c, W_GLOBAL);
    v[GEMM_X_PER] = c->p.x_per;
    v[GEMM_W_PER] = c->p.w_per;
}

/* What w's scales say of its groups. */
static int64_t group_of(const struct call *c)
{
    const struct gemm_w_format *f = gemm_w_format(&c->prob);
    const struct rfg_operand *o = &c->t.o[W_SCALE];
    if (!o->t || c->t.facts & CODES || (gemm_format_has_per(f) && c->p.w_per != RFG_GEMM_SCALE_GROUP))
        return 0;
    if (c->p.w_group)
        return c->p.w_group;
    int64_t groups = !(c->t.facts & PER) ? o->t->shape[1] : by_columns(c, W_SCALE) ? o->rows : o->cols;
    return groups ? c->t.o[W].cols / groups : f ? f->group : 0;
}

static void set_options(struct call *c)
{
    const rfg_gemm_params *p = &c->p;
    const struct rfg_operand *o = c->t.o, *x = &o[X];
    struct rfg_problem *prob = &c->prob;
    int64_t *v = prob->v;
    v[GEMM_BIAS] = there(c, BIAS);
    v[GEMM_RESIDUAL] = there(c, RESIDUAL);
    v[GEMM_GATED] = p->gated ? (int)p->act + 1 : 0;
    struct rfg_gate_options gate = options_of(p);
    v[GEMM_LIMIT] = rfg_gate_limit_key(&gate);
    v[GEMM_GATES] = p->gates;
    v[GEMM_TOP] =
        (there(c, ROWS) || (by_id(c) && !c->sum->summed)) && v[GEMM_M] && x->rows ? ceil_div(v[GEMM_M], x->rows) : 0;
    v[GEMM_WEIGHTS] = there(c, WEIGHTS);
    v[GEMM_W_GROUP] = group_of(c);
    v[GEMM_FAST] = p->fast_accum != 0;
    bool says = there(c, BIAS) && (gemm_is_codes(prob) || o[BIAS].t->dtype != gemm_bias_like(prob));
    v[GEMM_BTYPE] = says ? o[BIAS].t->dtype : RFG_DTYPE_NONE;
    v[GEMM_LDX] = rfg_ld_key(x);
    v[GEMM_LDW] = rfg_ld_key(&o[W]);
    v[GEMM_LDY] = rfg_ld_key(&o[Y]);
    v[GEMM_LDR] = rfg_ld_key(&o[RESIDUAL]);
    v[GEMM_X_COLUMNS] = by_columns(c, X_SCALE);
    v[GEMM_W_COLUMNS] = by_columns(c, W_SCALE);
    v[GEMM_INPLACE] = there(c, RESIDUAL) && o[RESIDUAL].begin == o[Y].begin;
    v[GEMM_TOKENS] = there(c, TOKENS);
    v[GEMM_X_ROWS] = v[GEMM_TOP] ? gemm_far_rows(x->rows, x->ld) : 0;
    uintptr_t of_scales = c->t.facts & PREPACKED ? o[W_SCALE].bits | o[W_ZERO].bits : 0;
    v[GEMM_ALIGN] = rfg_alignment(x->bits | o[W].bits | of_scales);
    v[GEMM_ALIGN_Y] = rfg_alignment(o[Y].bits | o[BIAS].bits | (c->sum ? o[RESIDUAL].bits : 0));
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

/* The rows of its matrices, which dimension `rows` counts. packed: what a row stride is without gaps. */
static rfg_status set_matrix(struct rfg_operand *o, int rows, int64_t packed)
{
    const rfg_tensor *t = o->t;
    o->rows = t->shape[rows];
    o->cols = t->shape[2];
    o->ld = o->rows > 1 && o->begin != o->end ? t->strides[rows] : packed;
    return o->ld >= o->cols && o->ld <= RFG_MAX_STRIDE
               ? RFG_OK
               : BAD("%s has stride %" PRId64 " in dimension %d: must be at least its %" PRId64
                     " columns and at most %d",
                     o->name, o->ld, rows, o->cols, RFG_MAX_STRIDE);
}

/* What a batch may not have. */
static rfg_status check_alone(const struct call *c)
{
    static const char *const names[TENSORS] = {
        [BIAS] = "bias",         [W_SCALE] = "w_scale", [X_SCALE] = "x_scale", [W_ZERO] = "w_zero",
        [RESIDUAL] = "residual", [OFFSETS] = "offsets", [ROWS] = "rows",       [WEIGHTS] = "weights",
        [Y_SCALE] = "y_scale",   [PLACES] = "places",   [TOKENS] = "tokens",   [W_GLOBAL] = "w_global",
        [IDS] = "ids",
    };
    for (int i = BIAS; i < TENSORS; i++)
        if (there(c, i))
            return BAD("%s is given: must be NULL, y has 3 dimensions", names[i]);
    if (c->p.gated || c->p.fast_accum || c->p.x_per || c->p.w_per)
        return BAD("gated is %d, fast_accum %d, x_per %d, w_per %d: must be 0, y has 3 dimensions", c->p.gated,
                   c->p.fast_accum, (int)c->p.x_per, (int)c->p.w_per);
    return !c->p.w_group ? RFG_OK : BAD("w_group is %" PRId64 ": must be 0, y has 3 dimensions", c->p.w_group);
}

static rfg_status check_batch(struct call *c)
{
    struct rfg_operand *o = c->t.o;
    rfg_status st;
    if ((st = check_alone(c)) || (st = rfg_check_tensors(&c->t, of_batch, RFG_RULES(of_batch))))
        return st;
    int64_t batch = rfg_size(&c->t, B), many = batch ? batch : 1, *v = c->prob.v;
    if ((st = set_matrix(&o[Y], 0, many * rfg_size(&c->t, N))) ||
        (st = set_matrix(&o[X], 0, many * rfg_size(&c->t, K))) || (st = set_matrix(&o[W], 1, rfg_size(&c->t, K))))
        return st;
    if (batch == 0)
        o[Y].rows = 0;
    set_dtypes(c);
    v[GEMM_M] = rfg_size(&c->t, M);
    v[GEMM_N] = rfg_size(&c->t, N);
    v[GEMM_K] = rfg_size(&c->t, K);
    v[GEMM_BATCH] = batch;
    v[GEMM_LDX] = o[X].ld == batch * v[GEMM_K] ? 0 : o[X].ld;
    v[GEMM_LDW] = rfg_ld_key(&o[W]);
    v[GEMM_LDY] = o[Y].ld == batch * v[GEMM_N] ? 0 : o[Y].ld;
    v[GEMM_ALIGN] = rfg_alignment(o[X].bits | o[W].bits);
    v[GEMM_ALIGN_Y] = rfg_alignment(o[Y].bits);
    return RFG_OK;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* What w and the bias are judged by. */
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
    if (codes != there(c, Y_SCALE))
        return BAD("y is %s, y_scale %s: must be %s", rfg_dtype_name((rfg_dtype)prob->dtype[2]),
                   codes ? "NULL" : "given", codes ? "given" : "NULL");
    const struct gemm_w_format *f = gemm_w_format(prob);
    bool groups = there(c, W_SCALE) && f && (!gemm_format_has_per(f) || c->p.w_per == RFG_GEMM_SCALE_GROUP);
    if (c->p.w_group && !groups)
        return BAD("w_group is %" PRId64 ": must be 0, w has no groups", c->p.w_group);
    if (there(c, ROWS) && c->t.o[X].rows == 0 && prob->v[GEMM_M])
        return BAD("x has no rows: must have those that rows says, %" PRId64, prob->v[GEMM_M]);
    if (c->p.fast_accum && !gemm_is_fp8(prob) && !gemm_w_is_blocks(prob))
        return BAD("fast_accum is %d: must be 0, x is %s, no fp8", c->p.fast_accum,
                   rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    return RFG_OK;
}

/* Scales, or zero points, of W: one for each group of a row. */
static rfg_status check_groups(const struct call *c, int slot, int64_t group)
{
    const struct rfg_operand *o = &c->t.o[slot], *w = &c->t.o[W];
    if (!o->t)
        return RFG_OK;
    const int64_t *s = o->t->shape, groups = group ? ceil_div(w->cols, group) : 0;
    if (c->t.facts & PREPACKED)
        return s[0] == w->rows / PREPACK_ROWS && s[1] == groups
                   ? RFG_OK
                   : BAD("%s is %" PRId64 " x %" PRId64 " x %" PRId64
                         ": must be [N/16,K/group,16], w is prepacked, %" PRId64 " x %" PRId64,
                         o->name, s[0], s[1], s[2], w->rows, w->cols);
    return s[0] == w->rows && s[1] == groups
               ? RFG_OK
               : BAD("%s is %" PRId64 " x %" PRId64 ": must be [N,K/group], w is %" PRId64 " x %" PRId64, o->name, s[0],
                     s[1], w->rows, w->cols);
}

/* Scales of codes, of which there must be `rows` by `cols`. */
static rfg_status check_scale(const struct call *c, int slot, rfg_gemm_scale per, int64_t rows, int64_t cols)
{
    const struct rfg_operand *o = &c->t.o[slot];
    bool turned = by_columns(c, slot);
    int64_t is_rows = turned ? o->cols : o->rows, is_cols = turned ? o->rows : o->cols;
    return !o->t || (is_rows == rows && is_cols == cols)
               ? RFG_OK
               : BAD("%s is %" PRId64 " x %" PRId64 ": must be %" PRId64 " x %" PRId64 " (per %s)", o->name, is_rows,
                     is_cols, rows, cols, gemm_per_name(per));
}

static rfg_status check_codes(const struct call *c)
{
    const struct rfg_problem *prob = &c->prob;
    const rfg_gemm_params *p = &c->p;
    const struct rfg_operand *x_scale = &c->t.o[X_SCALE];
    struct gemm_scale_shape of_x = gemm_x_scales(prob), of_w = gemm_w_scales(prob);
    rfg_status st;
    if (p->x_per != RFG_GEMM_SCALE_TENSOR)
        of_x.rows = c->t.o[X].rows;
    if (prob->v[GEMM_EXPERTS])
        *(p->w_per == RFG_GEMM_SCALE_TENSOR ? &of_w.cols : &of_w.rows) *= prob->v[GEMM_EXPERTS];
    if ((st = check_scale(c, X_SCALE, p->x_per, of_x.rows, of_x.cols)))
        return st;
    if (!(c->t.facts & PREPACKED))
        return check_scale(c, W_SCALE, p->w_per, of_w.rows, of_w.cols);
    if (x_scale->bits % 4) /* kernels read four at once */
        return BAD("x_scale is at %p, rows of %" PRId64 " elements: both must be multiples of 4, w is prepacked",
                   p->x_scale->data, x_scale->ld);
    return check_groups(c, W_SCALE, GEMM_SCALE_GROUP);
}

/* Are scales judged by the rules, or a variant asked? Else they are left to rfg_dispatch(), which looks at them once a
 * problem. */
static bool wants_rules(const struct call *c)
{
    return c->sum || c->t.facts & CODES || there(c, X_SCALE) || there(c, W_GLOBAL) || there(c, W_SCALE) ||
           there(c, W_ZERO);
}

static rfg_status check_scales(struct call *c)
{
    bool codes = c->t.facts & CODES;
    rfg_status st;
    if (c->t.facts & PER && !(c->t.facts & PREPACKED))
        as_column(c, W_SCALE, c->p.w_per);
    if (codes)
        as_column(c, X_SCALE, c->p.x_per);
    if ((st = rfg_check_tensors(&c->t, of_scales, RFG_RULES(of_scales))))
        return st;
    set_options(c);
    if ((is_empty(c) || wants_rules(c)) && (st = rfg_check_problem(FN, &c->prob)))
        return st;
    if (c->t.facts & PER)
        return check_codes(c);
    st = check_groups(c, W_SCALE, c->prob.v[GEMM_W_GROUP]);
    return st ? st : check_groups(c, W_ZERO, c->prob.v[GEMM_W_GROUP]);
}

static rfg_status check_tensors(struct call *c)
{
    struct rfg_tensors *t = &c->t;
    const rfg_tensor *y = t->o[Y].t, *w = t->o[W].t;
    rfg_status st;
    if (y && y->ndim == 3)
        return check_batch(c);
    bool ids = by_id(c), summed = c->sum && (!ids || c->sum->summed);
    t->facts = (c->p.offsets || ids ? GROUPED : 0) | (c->sum && !ids ? SUMMED : 0) |
               (c->p.rows || (ids && !summed) ? GATHERED : 0) | (w && w->ndim == 5 ? PREPACKED : 0) |
               (c->p.x_per == RFG_GEMM_SCALE_TENSOR ? X_TENSOR : 0) |
               (c->p.w_per == RFG_GEMM_SCALE_TENSOR ? W_TENSOR : 0);
    if ((st = rfg_check_tensors(t, of_y, RFG_RULES(of_y))))
        return st;
    if (ids)
        rfg_set_axis(t, E, c->sum->experts);
    if (ids && summed)
        rfg_set_axis(t, SLOTS, c->sum->top);
    if (summed)
        rfg_set_axis_of(t, M, "the product", rfg_size(t, T) * rfg_size(t, SLOTS));
    else
        rfg_set_axis_of(t, M, "y", rfg_size(t, T));
    if ((st = rfg_check_tensors(t, of_x, RFG_RULES(of_x))) || (st = flatten(c)))
        return st;
    if (ids && !summed && t->o[X].rows * c->sum->top != rfg_size(t, M))
        return BAD("x has %" PRId64 " rows, y %" PRId64 ": must have top=%" PRId64 " times as many", t->o[X].rows,
                   rfg_size(t, M), c->sum->top);
    set_sizes(c);
    rfg_set_axis_of(t, N, n_of[(t->facts & GROUPED) != 0][c->p.gated != 0], gemm_w_rows(&c->prob));
    rfg_set_axis_of(t, COLS_W, gemm_w_is_padded(&c->prob) ? "padded x" : "x", gemm_w_cols(&c->prob));
    if ((st = rfg_check_tensors(t, of_w, RFG_RULES(of_w))) || (st = check_formats(c)))
        return st;
    t->facts |= (gemm_is_codes(&c->prob) ? CODES : 0) | (gemm_w_has_per(&c->prob) ? PER : 0);
    if (gemm_w_is_8_bits(&c->prob))
        t->facts &= ~(unsigned)PREPACKED;
    set_scales(c);
    return (st = check_arguments(c)) ? st : check_scales(c);
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
    const struct rfg_operand *o = c->t.o;
    const rfg_gemm_params *p = &c->p;
    struct rfg_gate_options options = options_of(p);
    struct rfg_gate gate = rfg_gate_of(&options);
    struct gemm_args a = { .y = rfg_data(&o[Y]),
                           .x = rfg_data(&o[X]),
                           .w = rfg_data(&o[W]),
                           .bias = rfg_data(&o[BIAS]),
                           .ldx = o[X].ld,
                           .ldw = o[W].ld,
                           .ldy = o[Y].ld,
                           .m = (int32_t)prob->v[GEMM_M],
                           .n = (int32_t)prob->v[GEMM_N],
                           .k = (int32_t)prob->v[GEMM_K],
                           .w_scale = rfg_data(&o[W_SCALE]),
                           .residual = rfg_data(&o[RESIDUAL]),
                           .ldr = o[RESIDUAL].ld,
                           .x_scale = rfg_data(&o[X_SCALE]),
                           .w_zero = rfg_data(&o[prob->v[GEMM_W_GLOBAL] ? W_GLOBAL : W_ZERO]),
                           .linear_beta = gate.linear_beta,
                           .alpha = gate.alpha,
                           .limit = gate.limit,
                           .offsets = rfg_data(&o[prob->v[GEMM_IDS] ? IDS : OFFSETS]),
                           .rows = rfg_data(&o[ROWS]),
                           .weights = rfg_data(&o[WEIGHTS]),
                           .experts = (int32_t)prob->v[GEMM_EXPERTS],
                           .x_rows = (int32_t)o[X].rows,
                           .x_each = (int32_t)(prob->v[GEMM_TOP] ? prob->v[GEMM_TOP] : 1),
                           .y_scale = rfg_data(&o[Y_SCALE]),
                           .places = rfg_data(&o[PLACES]),
                           .tokens = rfg_data(&o[TOKENS]),
                           .top = (int32_t)prob->v[GEMM_SLOTS] };
    if (c->t.facts & PER) {
        scale_strides(&o[X_SCALE], by_columns(c, X_SCALE), p->x_per, &a.x_scale_row, &a.x_scale_col);
        scale_strides(&o[W_SCALE], by_columns(c, W_SCALE), p->w_per, &a.w_scale_row, &a.w_scale_col);
        if (c->t.facts & PREPACKED) /* as it was before */
            a.w_scale_row = (int)(gemm_w_cols(prob) / GEMM_SCALE_GROUP);
    }
    if (prob->v[GEMM_BATCH]) {
        a.y_batch = o[Y].t->strides[1];
        a.x_batch = o[X].t->strides[1];
        a.w_batch = o[W].t->strides[0];
    }
    a.w_expert_scales = (int32_t)gemm_expert_scales(prob, a.w_scale_row);
    return a;
}

/* Kernels count in 32 bits: scales of groups from the first row to the last, and an expert's. */
static rfg_status check_spans(const struct call *c, const struct gemm_args *a)
{
    const struct rfg_problem *prob = &c->prob;
    bool mx = gemm_is_mx(prob), experts = prob->v[GEMM_EXPERTS] != 0;
    int64_t of_w = gemm_expert_scales(prob, a->w_scale_row), of_x = mx ? c->t.o[X_SCALE].rows * a->x_scale_row : 0;
    if (mx && of_x > INT32_MAX)
        return BAD("x_scale has %" PRId64 " rows, %d apart: must span at most %d scales", c->t.o[X_SCALE].rows,
                   a->x_scale_row, INT32_MAX);
    if ((mx || experts) && of_w > INT32_MAX)
        return BAD("w_scale has %" PRId64 " rows%s, %d apart: must span at most %d scales", gemm_w_scales(prob).rows,
                   experts ? " of an expert" : "", a->w_scale_row, INT32_MAX);
    return RFG_OK;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* Which kernel rows are summed by, or found by their ids, in few instructions. */
static const struct rfg_variant *fit(const struct rfg_gemm_sum *sum)
{
    return !sum->ids ? &gemm_stream_mma : sum->summed ? &gemm_slots : &gemm_skinny;
}

/* asks: nothing is launched, *taken is said. */
static rfg_status gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                       const rfg_gemm_params *params, const struct rfg_gemm_sum *sum, bool *taken, bool asks,
                       rfg_stream stream)
{
    struct call c;
    rfg_gemm_params *p = &c.p;
    rfg_status st;
    c.p = (rfg_gemm_params)RFG_GEMM_PARAMS_INIT;
    c.sum = sum;
    memset(&c.prob, 0, sizeof(c.prob));
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_gemm_params, p, params)) || (st = check_params(p, sum && sum->ids)))
        return st;
    if (sum)
        p->residual = sum->residual;
    const rfg_tensor *const all[] = { y,
                                      x,
                                      w,
                                      p->bias,
                                      p->w_scale,
                                      p->x_scale,
                                      p->w_zero,
                                      p->residual,
                                      p->offsets,
                                      p->rows,
                                      p->weights,
                                      p->y_scale,
                                      sum ? sum->places : NULL,
                                      sum ? sum->tokens : NULL,
                                      p->w_global,
                                      sum ? sum->ids : NULL };
    rfg_tensors_begin(&c.t, FN, axes, all, TENSORS);
    if ((st = check_tensors(&c)))
        return st;
    if (is_empty(&c) || (st = rfg_check_overlaps(&c.t)))
        return st;
    if (taken && (!(*taken = rfg_dispatch_offers(ctx, &c.prob, fit(sum))) || asks))
        return RFG_OK;
    struct gemm_args a = args_of(&c);
    if (c.t.facts & PER && (st = check_spans(&c, &a)))
        return st;
    return rfg_dispatch(ctx, &c.prob, &a, stream);
}

rfg_status rfg_gemm_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                        const rfg_gemm_params *params, const struct rfg_gemm_sum *sum, bool *taken, rfg_stream stream)
{
    return gemm(ctx, y, x, w, params, sum, taken, false, stream);
}

rfg_status rfg_gemm_sum_takes(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                              const rfg_gemm_params *params, const struct rfg_gemm_sum *sum, bool *taken)
{
    *taken = false;
    return gemm(ctx, y, x, w, params, sum, taken, true, NULL);
}

rfg_status rfg_op_gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                       const rfg_gemm_params *params, rfg_stream stream)
{
    return gemm(ctx, y, x, w, params, NULL, NULL, false, stream);
}
