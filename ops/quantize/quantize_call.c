/* SPDX-License-Identifier: MIT
 *
 * rfg_op_quantize_scale and rfg_op_quantize: what they refuse, and the problem of a call. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/quant.h"
#include "dequantize.h"
#include "quantize.h"

#define FN       "rfg_op_quantize"
#define FN_SCALE "rfg_op_quantize_scale"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

RFG_PARAMS_END(rfg_quantize_params, smooth);

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
    if (p->max != 0 && !(p->max >= 1 && (double)p->max <= f->largest))
        return BAD("%s: max is %g: must be 0, or from 1 to %s's largest, %g", fn, (double)p->max, f->name, f->largest);
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
                                         [QSCALE_LDX] = x->ld == x->cols ? 0 : x->ld,
                                         [QSCALE_ALIGN] = rfg_alignment(x->bits) } };
}

static rfg_status run_scale(rfg_context *ctx, const struct rfg_operand *x, void *scale, const struct rfg_problem *prob,
                            const rfg_quantize_params *p, rfg_stream stream)
{
    struct quantize_scale_args a = { .x = x->t->data,
                                     .scale = scale,
                                     .m = (int)x->rows,
                                     .n = (int)x->cols,
                                     .rule = quantize_rule_of(p, (int)prob->v[QSCALE_CODES]),
                                     .ldx = x->ld };
    quantize_scale_set_chunks(&a, prob);
    return rfg_dispatch(ctx, prob, &a, stream);
}

rfg_status rfg_op_quantize_scale(rfg_context *ctx, const rfg_tensor *scale, const rfg_tensor *x,
                                 const rfg_quantize_params *given, rfg_stream stream)
{
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    struct rfg_operand ox;
    struct dequantize_scale s;
    struct rfg_reason why;
    struct rfg_problem prob;
    rfg_status st;
    if (!ctx)
        return BAD(FN_SCALE ": ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN_SCALE, rfg_quantize_params, &p, given)) ||
        (st = dequantize_check_scale(&s, FN_SCALE, scale)) ||
        (st = rfg_check_float_operand(&ox, FN_SCALE, "x", x, 2, 2)))
        return st;
    if (ox.cols > QUANTIZE_MAX_N)
        return BAD(FN_SCALE ": x has %" PRId64 " columns: must be at most %d", ox.cols, QUANTIZE_MAX_N);
    if (p.group_rows || p.group_cols || p.scale_given)
        return BAD(FN_SCALE ": group_rows, group_cols, scale_given are %" PRId64 ", %" PRId64 ", %d: must be 0",
                   p.group_rows, p.group_cols, (int)p.scale_given);
    if (p.smooth)
        return BAD(FN_SCALE ": smooth is given: must be NULL, the scale of a tensor takes none");
    if (!quantize_dtypes_valid(x->dtype, p.codes, scale->dtype, &why) ||
        !quantize_rule_valid((int)p.rounding, p.reciprocal, scale->dtype, &why))
        return BAD(FN_SCALE ": %s", why.text);
    if ((st = check_numbers(FN_SCALE, &p, p.codes)))
        return st;
    scale_problem(&prob, &ox, p.codes, scale->dtype, &p);
    if (!quantize_chunks_valid(&prob, &why))
        return BAD(FN_SCALE ": %s", why.text);
    if ((st = dequantize_check_scales(&s, FN_SCALE, &ox, 0, 0)))
        return st;
    if (ox.rows == 0 || ox.cols == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN_SCALE, &s.o, &ox, false)))
        return st;
    return run_scale(ctx, &ox, scale->data, &prob, &p, stream);
}

rfg_status rfg_op_quantize(rfg_context *ctx, const rfg_tensor *q, const rfg_tensor *scale, const rfg_tensor *x,
                           const rfg_quantize_params *given, rfg_stream stream)
{
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    struct rfg_operand ox, oq, os = { 0 };
    struct dequantize_scale s;
    struct rfg_reason why;
    struct rfg_problem prob;
    rfg_status st;
    if (!ctx)
        return BAD(FN ": ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_quantize_params, &p, given)) || (st = rfg_check_operand(&oq, FN, "q", q, 2, 2)) ||
        (st = dequantize_check_scale(&s, FN, scale)) || (st = rfg_check_float_operand(&ox, FN, "x", x, 2, 2)) ||
        (p.smooth && (st = rfg_check_float_operand(&os, FN, "smooth", p.smooth, 1, 1))))
        return st;
    if (ox.cols > QUANTIZE_MAX_N)
        return BAD(FN ": x has %" PRId64 " columns: must be at most %d", ox.cols, QUANTIZE_MAX_N);
    if (!quantize_dtypes_valid(x->dtype, q->dtype, scale->dtype, &why) ||
        !quantize_groups_valid(p.group_rows, p.group_cols, &why) ||
        (p.smooth && !quantize_smooth_valid(p.smooth->dtype, x->dtype, p.group_rows, &why)))
        return BAD(FN ": %s", why.text);
    if (p.smooth && os.cols != ox.cols)
        return BAD(FN ": smooth has %" PRId64 " elements: must have x's columns, %" PRId64, os.cols, ox.cols);
    if (p.scale_given != 0 && (p.scale_given != 1 || p.group_rows))
        return BAD(FN ": scale_given is %d: must be 0, or 1 where group_rows is 0", (int)p.scale_given);
    if (p.codes)
        return BAD(FN ": codes is %d: must be 0, q says it", (int)p.codes);
    if (!quantize_rule_valid((int)p.rounding, p.reciprocal, p.scale_given ? RFG_F32 : scale->dtype, &why))
        return BAD(FN ": %s", why.text);
    if ((st = check_numbers(FN, &p, q->dtype)))
        return st;
    if (oq.rows != ox.rows || oq.cols != ox.cols)
        return BAD(FN ": q is %" PRId64 " x %" PRId64 ": must be x's, %" PRId64 " x %" PRId64, oq.rows, oq.cols,
                   ox.rows, ox.cols);
    if ((st = dequantize_check_scales(&s, FN, &ox, p.group_rows, p.group_cols)))
        return st;
    if (ox.rows == 0 || ox.cols == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN, &oq, &ox, false)) || (st = rfg_check_operands_distinct(FN, &oq, &s.o)) ||
        (!p.scale_given && (st = rfg_check_overlap(FN, &s.o, &ox, false))) ||
        (p.smooth && ((st = rfg_check_overlap(FN, &oq, &os, false)) || (st = rfg_check_overlap(FN, &s.o, &os, false)))))
        return st;

    bool tensor = !p.group_rows;
    if (tensor && !p.scale_given) {
        scale_problem(&prob, &ox, q->dtype, scale->dtype, &p);
        if (!quantize_chunks_valid(&prob, &why))
            return BAD(FN ": %s", why.text);
        if ((st = run_scale(ctx, &ox, scale->data, &prob, &p, stream)))
            return st;
    }
    prob = (struct rfg_problem){ .op = &rfg_op_quantize_desc,
                                 .dtype = { (uint8_t)x->dtype, (uint8_t)q->dtype, (uint8_t)scale->dtype },
                                 .v = { [QUANTIZE_M] = ox.rows,
                                        [QUANTIZE_N] = ox.cols,
                                        [QUANTIZE_GROUP_ROWS] = p.group_rows,
                                        [QUANTIZE_GROUP_COLS] = p.group_cols,
                                        [QUANTIZE_SMOOTH] = p.smooth ? p.smooth->dtype : RFG_DTYPE_NONE,
                                        [QUANTIZE_ROUNDING] = tensor ? 0 : p.rounding,
                                        [QUANTIZE_RECIPROCAL] = p.reciprocal & (tensor ? RFG_RECIPROCAL_OF_SCALE : 3),
                                        [QUANTIZE_MAX] = (int64_t)p.max,
                                        [QUANTIZE_SCALE_COLUMNS] = s.columns,
                                        [QUANTIZE_LDX] = ox.ld == ox.cols ? 0 : ox.ld,
                                        [QUANTIZE_LDQ] = oq.ld == oq.cols ? 0 : oq.ld,
                                        [QUANTIZE_ALIGN] = rfg_alignment(ox.bits | os.bits),
                                        [QUANTIZE_ALIGN_Q] = rfg_alignment(oq.bits) } };
    struct quantize_args a = { .x = x->data,
                               .q = q->data,
                               .scale = scale->data,
                               .smooth = p.smooth ? p.smooth->data : NULL,
                               .m = (int)ox.rows,
                               .n = (int)ox.cols,
                               .rule = quantize_rule_of(&p, q->dtype),
                               .ldx = ox.ld,
                               .ldq = oq.ld,
                               .scale_row = s.row,
                               .scale_col = s.col };
    return rfg_dispatch(ctx, &prob, &a, stream);
}
