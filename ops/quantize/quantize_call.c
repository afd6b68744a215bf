/* SPDX-License-Identifier: MIT
 *
 * rfg_op_quantize_scale and rfg_op_quantize: what their tensors must be, and the problems of calls, whose rules
 * are quantize.c's. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/quant.h"
#include "dequantize.h"
#include "quantize.h"

#define FN       "rfg_op_quantize"
#define FN_SCALE "rfg_op_quantize_scale"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

RFG_PARAMS_END(rfg_quantize_params, global);

enum { Q, SCALE, X, SMOOTH, GLOBAL, TENSORS };

enum { M = 1, N, ONE };
static const struct rfg_axis axes[] = {
    [M] = { "rows", 0, 0 },
    [N] = { "columns", 0, QUANTIZE_MAX_N },
    [ONE] = { "elements", 1, 1 },
};

enum { READS_SCALE = 1, MAKES_CODES = 2 };
#define MADE             (RFG_EITHER_WAY | RFG_OUT)
#define SCALES_OF_GROUPS (DEQUANTIZE_SCALES | RFG_DTYPE(E4M3))

static const struct rfg_tensor_rule rules[] = {
    { "x", X, 0, 2, { M, N }, RFG_FLOAT_FORMATS },
    { "q", Q, RFG_OUT, 2, { M, N }, DEQUANTIZE_CODES, .if_set = MAKES_CODES },
    { "smooth", SMOOTH, RFG_OPTIONAL, 1, { N }, RFG_DTYPE(F32), X + 1 },
    { "global", GLOBAL, RFG_OPTIONAL, 1, { ONE }, RFG_DTYPE(F32), .if_set = MAKES_CODES },
    { "scale", SCALE, MADE, 2, { 0 }, DEQUANTIZE_SCALES, .if_clear = READS_SCALE | MAKES_CODES },
    { "scale", SCALE, MADE, 2, { 0 }, SCALES_OF_GROUPS, .if_set = MAKES_CODES, .if_clear = READS_SCALE },
    { "scale", SCALE, RFG_EITHER_WAY, 2, { 0 }, DEQUANTIZE_SCALES, .if_set = READS_SCALE },
};

static rfg_status check_number(const char *fn, const char *name, float v)
{
    if (v >= 0 && v <= 0x1.fffffep127f)
        return RFG_OK;
    return BAD("%s: %s is %g: must be 0 or a finite number above", fn, name, (double)v);
}

/* What of the params a problem doesn't say. */
static rfg_status check_numbers(const char *fn, const rfg_quantize_params *p, int codes)
{
    const struct rfg_format *f = rfg_format(codes);
    rfg_status st;
    double most = p->codes == RFG_E2M1 ? NVFP4_MOST : f->largest; /* codes: of rfg_op_quantize_scale() alone */
    if (p->max != 0 && !(p->max >= 1 && (double)p->max <= most))
        return BAD("%s: max is %g: must be 0, or from 1 to %s's largest, %g", fn, (double)p->max, f->name, most);
    if ((st = check_number(fn, "floor_amax", p->floor_amax)) ||
        (st = check_number(fn, "floor_scale", p->floor_scale)) || (st = check_number(fn, "zero_scale", p->zero_scale)))
        return st;
    if (p->scale_given) {
        if (p->rounding || p->floor_amax > 0 || p->floor_scale > 0 || p->zero_scale > 0)
            return BAD("%s: scale_given is 1: rounding, floor_amax, floor_scale and zero_scale must be 0", fn);
        return RFG_OK;
    }
    if (p->rounding > RFG_SCALE_UP && (p->max > 0 || p->floor_scale > 0))
        return BAD("%s: rounding is %s: max and floor_scale must be 0", fn, RFG_ROUNDING_NAMES[p->rounding]);
    if (p->rounding != RFG_SCALE_EXACT && p->zero_scale > 0)
        return BAD("%s: zero_scale is %g: must be 0 where rounding is %s", fn, (double)p->zero_scale,
                   RFG_ROUNDING_NAMES[p->rounding]);
    return RFG_OK;
}

static void scale_problem(struct rfg_problem *prob, const struct rfg_operand *x, int codes, int scale,
                          const rfg_quantize_params *p)
{
    *prob = (struct rfg_problem){ .op = &rfg_op_quantize_scale_desc,
                                  .dtype = { (uint8_t)x->t->dtype, (uint8_t)scale },
                                  .v = { [QSCALE_M] = x->rows,
                                         [QSCALE_N] = x->cols,
                                         [QSCALE_CODES] = codes,
                                         [QSCALE_ROUNDING] = p->rounding,
                                         [QSCALE_RECIPROCAL] = p->reciprocal & RFG_RECIPROCAL_OF_MAX,
                                         [QSCALE_MAX] = (int64_t)p->max,
                                         [QSCALE_LDX] = rfg_ld_key(x),
                                         [QSCALE_ALIGN] = rfg_alignment(x->bits) } };
}

static rfg_status run_scale(rfg_context *ctx, const struct rfg_operand *x, void *scale, const struct rfg_problem *prob,
                            const rfg_quantize_params *p, rfg_stream stream)
{
    struct quantize_scale_args a = { .x = x->t->data,
                                     .scale = scale,
                                     .m = (int)x->rows,
                                     .n = (int)x->cols,
                                     .rule = quantize_rule_of(p, (int)prob->v[QSCALE_CODES], prob->dtype[1]),
                                     .ldx = x->ld };
    quantize_scale_set_chunks(&a, prob);
    return rfg_dispatch(ctx, prob, &a, stream);
}

rfg_status rfg_op_quantize_scale(rfg_context *ctx, const rfg_tensor *scale, const rfg_tensor *x,
                                 const rfg_quantize_params *given, rfg_stream stream)
{
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    const rfg_tensor *const all[] = { NULL, scale, x, NULL, NULL };
    struct rfg_tensors t;
    struct rfg_reason why;
    struct rfg_problem prob;
    rfg_status st;
    if (!ctx)
        return BAD(FN_SCALE ": ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN_SCALE, rfg_quantize_params, &p, given)))
        return st;
    if (p.group_rows || p.group_cols || p.scale_given)
        return BAD(FN_SCALE ": group_rows, group_cols, scale_given are %" PRId64 ", %" PRId64 ", %d: must be 0",
                   p.group_rows, p.group_cols, (int)p.scale_given);
    if (p.smooth)
        return BAD(FN_SCALE ": smooth is given: must be NULL, the scale of a tensor takes none");
    if (p.global)
        return BAD(FN_SCALE ": global is given: must be NULL, it is what this makes");
    rfg_tensors_begin(&t, FN_SCALE, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))))
        return st;
    if (!quantize_rule_valid((int)p.rounding, p.reciprocal, scale->dtype, &why))
        return BAD(FN_SCALE ": %s", why.text);
    if (!dequantize_is_code((int)p.codes))
        return BAD(FN_SCALE ": codes is %d: must be e4m3, e4m3fnuz, e5m2, i8, e2m1 or i4", (int)p.codes);
    if ((st = check_numbers(FN_SCALE, &p, p.codes)))
        return st;
    scale_problem(&prob, &t.o[X], p.codes, scale->dtype, &p);
    if ((st = dequantize_check_scales(&t, SCALE, &prob, rfg_size(&t, M), rfg_size(&t, N), 0, 0)))
        return st;
    if (rfg_size(&t, M) == 0 || rfg_size(&t, N) == 0)
        return rfg_check_problem(FN_SCALE, &prob);
    if ((st = rfg_check_overlaps(&t)))
        return st;
    return run_scale(ctx, &t.o[X], scale->data, &prob, &p, stream);
}

static void quantize_problem(struct rfg_problem *prob, const struct rfg_tensors *t, const rfg_quantize_params *p)
{
    const struct rfg_operand *o = t->o;
    bool tensor = !p->group_rows;
    *prob =
        (struct rfg_problem){ .op = &rfg_op_quantize_desc,
                              .dtype = { (uint8_t)o[X].t->dtype, (uint8_t)o[Q].t->dtype, (uint8_t)o[SCALE].t->dtype },
                              .v = { [QUANTIZE_M] = rfg_size(t, M),
                                     [QUANTIZE_N] = rfg_size(t, N),
                                     [QUANTIZE_GROUP_ROWS] = p->group_rows,
                                     [QUANTIZE_GROUP_COLS] = p->group_cols,
                                     [QUANTIZE_SMOOTH] = p->smooth ? p->smooth->dtype : RFG_DTYPE_NONE,
                                     [QUANTIZE_GLOBAL] = p->global != NULL,
                                     [QUANTIZE_ROUNDING] = tensor ? 0 : p->rounding,
                                     [QUANTIZE_RECIPROCAL] = p->reciprocal & (tensor ? RFG_RECIPROCAL_OF_SCALE : 3),
                                     [QUANTIZE_MAX] = (int64_t)p->max,
                                     [QUANTIZE_SCALE_COLUMNS] = t->turned != 0,
                                     [QUANTIZE_LDX] = rfg_ld_key(&o[X]),
                                     [QUANTIZE_LDQ] = rfg_ld_key(&o[Q]),
                                     [QUANTIZE_ALIGN] = rfg_alignment(o[X].bits | o[SMOOTH].bits),
                                     [QUANTIZE_ALIGN_Q] = rfg_alignment(o[Q].bits) } };
}

/* The problem of the call, and (made) of the scale that it makes first. */
static rfg_status check_call(struct rfg_tensors *t, const rfg_quantize_params *p, struct rfg_problem *prob,
                             struct rfg_problem *made)
{
    struct rfg_reason why;
    rfg_status st;
    t->facts = (p->scale_given ? READS_SCALE : 0) | MAKES_CODES;
    if ((st = rfg_check_tensors(t, rules, RFG_RULES(rules))))
        return st;
    const struct rfg_operand *o = t->o;
    int codes = o[Q].t->dtype, scale = o[SCALE].t->dtype;
    if (p->scale_given != 0 && (p->scale_given != 1 || p->group_rows))
        return BAD(FN ": scale_given is %d: must be 0, or 1 where group_rows is 0", (int)p->scale_given);
    if (p->codes)
        return BAD(FN ": codes is %d: must be 0, q says it", (int)p->codes);
    if (!quantize_rule_valid((int)p->rounding, p->reciprocal, p->scale_given ? RFG_F32 : scale, &why))
        return BAD(FN ": %s", why.text);
    if ((st = check_numbers(FN, p, codes)))
        return st;
    if (scale == RFG_E4M3 && (p->floor_amax > 0 || p->floor_scale > 0 || p->zero_scale > 0 || p->max > 0))
        return BAD(FN ": scale is e4m3: max, floor_amax, floor_scale and zero_scale must be 0");
    quantize_problem(prob, t, p);
    if ((st = dequantize_check_scales(t, SCALE, prob, o[X].rows, o[X].cols, p->group_rows, p->group_cols)))
        return st;
    bool makes_scale = !p->group_rows && !p->scale_given, empty = o[X].rows == 0 || o[X].cols == 0;
    if ((makes_scale || empty) && (st = rfg_check_problem(FN, prob))) /* before one of two is launched */
        return st;
    if (!makes_scale)
        return RFG_OK;
    scale_problem(made, &o[X], codes, scale, p);
    return rfg_check_problem(FN, made);
}

rfg_status rfg_op_quantize(rfg_context *ctx, const rfg_tensor *q, const rfg_tensor *scale, const rfg_tensor *x,
                           const rfg_quantize_params *given, rfg_stream stream)
{
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    struct rfg_problem prob, made;
    rfg_status st;
    if (!ctx)
        return BAD(FN ": ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_quantize_params, &p, given)))
        return st;
    const rfg_tensor *const all[] = { q, scale, x, p.smooth, p.global };
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = check_call(&t, &p, &prob, &made)) || rfg_size(&t, M) == 0 || rfg_size(&t, N) == 0 ||
        (st = rfg_check_overlaps(&t)))
        return st;
    if (!p.group_rows && !p.scale_given && (st = run_scale(ctx, &o[X], scale->data, &made, &p, stream)))
        return st;
    struct quantize_args a = { .x = x->data,
                               .q = q->data,
                               .scale = scale->data,
                               .smooth = rfg_data(&o[p.global ? GLOBAL : SMOOTH]),
                               .m = (int)o[X].rows,
                               .n = (int)o[X].cols,
                               .rule = quantize_rule_of(&p, q->dtype, scale->dtype),
                               .ldx = o[X].ld,
                               .ldq = o[Q].ld,
                               .scale_row = rfg_row_stride(&t, SCALE),
                               .scale_col = rfg_col_stride(&t, SCALE) };
    return rfg_dispatch(ctx, &prob, &a, stream);
}
