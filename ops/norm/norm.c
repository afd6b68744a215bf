/* SPDX-License-Identifier: MIT
 *
 * The operators rmsnorm, add_rmsnorm, layernorm and add_layernorm: their public functions, argument rules and tables.
 * Variants are in gpu.c and cpu.c. */
#include "norm.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/params.h"

#define MAX_N (RFG_MAX_SIZE / 2)

static const char *const weight_names[] = { "w", "1+w", "none" };
static const char *const type_names[] = { "x", "f32" };

static const struct rfg_key norm_keys[NORM_NKEYS] = {
    [NORM_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [NORM_N] = { "N", RFG_KEY_SIZE, 0, 0, MAX_N, NULL, "columns" },
    [NORM_WEIGHT] = { "weight", RFG_KEY_ATTR, NORM_WEIGHT_W, NORM_WEIGHT_W, NORM_WEIGHT_NONE, weight_names,
                      "what the weight is" },
    [NORM_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: layernorms' bias" },
    [NORM_RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, 1, type_names,
                        "dtype of the residuals: x's, or f32 with a 16-bit x" },
    [NORM_WTYPE] = { "wtype", RFG_KEY_ATTR, 0, 0, 1, type_names,
                     "dtype of weight and bias: x's, or f32 with a 16-bit x" },
    [NORM_SCALE] = { "scale", RFG_KEY_ATTR, 0, 0, RFG_SCALE_MX, RFG_SCALE_NAMES, "the quantised output's scales" },
    [NORM_ROUNDING] = RFG_KEY_ROUNDING("with scale=mx, how a scale follows from the largest"),
    [NORM_PLAIN] = { "plain", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: with a scale, the plain output too" },
    [NORM_HEADS] = { "heads", RFG_KEY_LAYOUT, 1, 1, RFG_MAX_SIZE, NULL,
                     "H of tensors [T,H,N] that don't fold into two dimensions" },
    [NORM_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of x to the next; 0: they follow one another (of heads: from T to T)" },
    [NORM_LDR] = { "ldr", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of the residuals to the next; 0: they follow one another" },
    [NORM_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of y and q to the next; 0: they follow one another" },
    [NORM_SCALE_COLUMNS] = { "scale_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: scales of groups are column-major" },
    [NORM_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 3, NULL, "1: y is x; 2: residual_out is residual; 3: both" },
    [NORM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                     "bytes, up to 16, of which pointers and row strides of the inputs are multiples" },
    [NORM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and row strides of the outputs are multiples" },
    [NORM_INVARIANT] = RFG_KEY_INVARIANT,
    [NORM_OVERLAP] = RFG_KEY_OVERLAP,
};

static bool norm_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t heads = v[NORM_HEADS] < 1 ? 1 : v[NORM_HEADS];
    struct rfg_outputs_keys outputs = { v[NORM_N],        v[NORM_LDY],   v[NORM_SCALE],
                                        v[NORM_ROUNDING], v[NORM_PLAIN], v[NORM_SCALE_COLUMNS] };
    if (!rfg_outputs_valid(prob, &outputs, why))
        return false;
    if (v[NORM_BIAS] && !norm_is_layer(prob))
        return rfg_refuse(why, "bias=1: %s has none", prob->op->name);
    if (v[NORM_RESIDUAL] && !norm_adds(prob))
        return rfg_refuse(why, "residual=f32: %s has none", prob->op->name);
    if (v[NORM_WTYPE] && v[NORM_WEIGHT] == NORM_WEIGHT_NONE && !v[NORM_BIAS])
        return rfg_refuse(why, "wtype=f32: there is neither weight nor bias");
    if ((v[NORM_RESIDUAL] || v[NORM_WTYPE]) && prob->dtype[0] == RFG_F32)
        return rfg_refuse(why, "%s=f32: is what it is without, x is f32", v[NORM_WTYPE] ? "wtype" : "residual");
    if (v[NORM_M] % heads)
        return rfg_refuse(why, "heads=%" PRId64 ": must divide M=%" PRId64, heads, v[NORM_M]);
    for (int i = NORM_LDX; i <= NORM_LDY; i++)
        if (v[i] && v[i] / heads < v[NORM_N])
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least %" PRId64 " x N=%" PRId64, norm_keys[i].name, v[i],
                              heads, v[NORM_N]);
    if (v[NORM_LDR] && !norm_adds(prob))
        return rfg_refuse(why, "ldr=%" PRId64 ": %s has no residual", v[NORM_LDR], prob->op->name);
    if (v[NORM_INPLACE] & 1 && (!norm_is_plain(prob) || v[NORM_LDX] != v[NORM_LDY]))
        return rfg_refuse(why, "inplace=%" PRId64 ": needs a plain output and ldy=ldx", v[NORM_INPLACE]);
    if (v[NORM_INPLACE] & 2 && !norm_adds(prob))
        return rfg_refuse(why, "inplace=%" PRId64 ": %s has no residual", v[NORM_INPLACE], prob->op->name);
    for (int i = NORM_ALIGN; i <= NORM_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", norm_keys[i].name, v[i]);
    return true;
}

static void norm_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double m = (double)v[NORM_M], elements = m * (double)v[NORM_N];
    double row = (double)rfg_format_bytes(prob->dtype[0], v[NORM_N]);
    double residual = (double)rfg_format_bytes(norm_residual_dtype(prob), v[NORM_N]);
    double weight = (double)rfg_format_bytes(norm_weight_dtype(prob), v[NORM_N]);
    *bytes = m * row + (norm_adds(prob) ? 2 * m * residual : 0) +
             weight * ((v[NORM_WEIGHT] != NORM_WEIGHT_NONE) + (v[NORM_BIAS] != 0)) +
             rfg_outputs_bytes(prob, v[NORM_M], v[NORM_N], v[NORM_SCALE], v[NORM_PLAIN]);
    *flops = elements * (norm_is_layer(prob) ? 8 : 5);
}

/* A batch of decode, and a chunk of prefill. */
static void norm_at_size(struct rfg_problem *prob, bool large)
{
    prob->v[NORM_M] = large ? 4096 : 16;
}

void norm_fill_packed(struct norm_args *a)
{
    a->packed.x = a->x.data;
    a->packed.residual = a->residual.data;
    a->packed.residual_out = a->residual_out.data;
    a->packed.y = a->y.data;
    a->packed.weight = a->weight;
    a->packed.n = a->n;
    a->packed.eps = a->eps;
}

/* ---- the public functions --------------------------------------------------------------------------------------- */

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
    if (ox.cols > MAX_N)
        return BAD("%s: x has %" PRId64 " columns: must be at most %d", c->fn, ox.cols, MAX_N);
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

/* ---- the tables ------------------------------------------------------------------------------------------------- */

/* The list's output is q's; without q it says y's, which is x's. */
static const struct rfg_op_operand norm_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },    { "q", true, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_AS, 0, 0 },         { "scale", true, RFG_FORMAT_OF_SCALE, NORM_SCALE, 0 },
    { "residual", false, RFG_FORMAT_AS, 0, 0 }, { "residual_out", true, RFG_FORMAT_AS, 0, 0 },
    { "weight", false, RFG_FORMAT_AS, 0, 0 },   { "bias", false, RFG_FORMAT_AS, 0, 0 },
};

/* Ties in the model go to the earlier one; the portable ones come last. */
#define DESC(op_name, op_id)                                                                                           \
    static const struct rfg_variant *const op_name##_variants[] = {                                                    \
        &op_name##_rows, &op_name##_portable, &op_name##_cpu_avx512, &op_name##_cpu_avx2, &op_name##_cpu_portable,     \
    };                                                                                                                 \
    const struct rfg_op rfg_op_##op_name##_desc = {                                                                    \
        .name = #op_name,                                                                                              \
        .id = op_id,                                                                                                   \
        .n_in = 1,                                                                                                     \
        .n_out = 1,                                                                                                    \
        .n_operands = sizeof(norm_operands) / sizeof(norm_operands[0]),                                                \
        .operands = norm_operands,                                                                                     \
        .n_keys = NORM_NKEYS,                                                                                          \
        .keys = norm_keys,                                                                                             \
        .column_key = { "M", "N", NULL },                                                                              \
        .n_variants = sizeof(op_name##_variants) / sizeof(op_name##_variants[0]),                                      \
        .variants = op_name##_variants,                                                                                \
        .kargs_size = sizeof(struct norm_args),                                                                        \
        .head = offsetof(struct norm_args, workspace),                                                                 \
        .at_size = norm_at_size,                                                                                       \
        .valid = norm_valid,                                                                                           \
        .cost = norm_cost,                                                                                             \
    }
DESC(rmsnorm, 4);
DESC(add_rmsnorm, 5);
DESC(layernorm, 6);
DESC(add_layernorm, 7);
