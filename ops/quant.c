/* SPDX-License-Identifier: MIT */
#include "quant.h"

#include <inttypes.h>
#include <stddef.h>

#include "params.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

static const struct rfg_tensor_rule outputs[] = {
    { "y", RFG_Y, RFG_FOLDED | RFG_OUT | RFG_OPTIONAL, 3, { RFG_ROWS, RFG_OUT_COLS, RFG_HEADS | RFG_IF_KNOWN }, 0,
      RFG_X + 1, .same = RFG_X + 1, .if_set = RFG_IN_PLACE },
    { "y", RFG_Y, RFG_FOLDED | RFG_OUT | RFG_OPTIONAL, 3, { RFG_ROWS, RFG_OUT_COLS, RFG_HEADS | RFG_IF_KNOWN }, 0,
      RFG_X + 1, .if_clear = RFG_IN_PLACE },
}, codes = { "q", RFG_Q, RFG_FOLDED | RFG_OUT, 3, { RFG_ROWS, RFG_OUT_COLS, RFG_HEADS | RFG_IF_KNOWN },
             (1u << RFG_DTYPE_COUNT) - 2 }, scales = { "scale", RFG_SCALE, RFG_OUT, 2 };

static rfg_status check_scale(struct rfg_outputs *o, struct rfg_operand *s, const char *fn, const rfg_tensor *t,
                              rfg_scale_kind kind, int64_t rows, int64_t cols)
{
    int64_t group = rfg_scale_columns(kind), groups = group ? (cols + group - 1) / group : 1;
    if (!t)
        return BAD("%s: scale is NULL: must be a tensor", fn);
    if (t->dtype != rfg_scale_dtype(kind))
        return BAD("%s: scale is %s: must be %s (%s)", fn, rfg_dtype_name(t->dtype),
                   rfg_dtype_name(rfg_scale_dtype(kind)), RFG_SCALE_NAMES[kind]);
    rfg_tensor turned = *t;
    o->scale_columns = groups > 1 && rows > 1 && rfg_turn_columns(&turned, t);
    rfg_status st = rfg_check_operand(s, fn, "scale", &turned, 1, 2);
    s->t = t;
    if (st != RFG_OK)
        return st;
    int64_t have_rows = t->ndim == 1 && kind == RFG_SCALE_TOKEN ? s->cols : o->scale_columns ? s->cols : s->rows;
    int64_t have_cols = t->ndim == 1 && kind == RFG_SCALE_TOKEN ? 1 : o->scale_columns ? s->rows : s->cols;
    int64_t want_rows = kind == RFG_SCALE_STATIC ? 1 : rows;
    if (have_rows != want_rows || have_cols != groups)
        return BAD("%s: scale is %" PRId64 " x %" PRId64 ": must be %" PRId64 " x %" PRId64 " (%s)", fn, have_rows,
                   have_cols, want_rows, groups,
                   kind == RFG_SCALE_STATIC  ? "static: one"
                   : kind == RFG_SCALE_TOKEN ? "one a row"
                   : kind == RFG_SCALE_GROUP ? "one for each 128 columns"
                                             : "mx: one for each 32 columns");
    if (kind == RFG_SCALE_TOKEN && t->ndim == 2 && rows > 1 && t->strides[0] != 1)
        return BAD("%s: scale has row stride %" PRId64 ": must be 1 (one a row, packed)", fn, t->strides[0]);
    o->scale_row = kind == RFG_SCALE_STATIC ? 0 : kind == RFG_SCALE_TOKEN || o->scale_columns ? 1 : s->ld;
    o->scale_col = o->scale_columns ? s->ld : 1;
    return RFG_OK;
}

RFG_PARAMS_END(rfg_quant, scale);

/* What a kind of scales asks of the codes and the rounding. */
static bool kind_valid(int64_t kind, int64_t rounding, int codes, int64_t cols, struct rfg_reason *why)
{
    const char *name = rfg_dtype_name((rfg_dtype)codes);
    if (kind != RFG_SCALE_MX) {
        if (!rfg_dtype_is_code(codes))
            return rfg_refuse(why, "q is %s: must be e4m3, e4m3fnuz, e5m2 or i8 (scale %s)", name,
                              RFG_SCALE_NAMES[kind]);
        return !rounding ||
               rfg_refuse(why, "rounding is %" PRId64 ": must be 0, only scales of mx are rounded (scale %s)", rounding,
                          RFG_SCALE_NAMES[kind]);
    }
    if (codes != RFG_E4M3 && codes != RFG_E2M1)
        return rfg_refuse(why, "q is %s: must be e4m3 or e2m1 (scale mx)", name);
    if (cols % RFG_MX_COLUMNS)
        return rfg_refuse(why, "q has %" PRId64 " columns: must be a multiple of %d (scale mx)", cols, RFG_MX_COLUMNS);
    return (rounding >= RFG_SCALE_UP && rounding <= RFG_SCALE_CEIL) ||
           rfg_refuse(why, "rounding is %" PRId64 ": must be RFG_SCALE_UP, DOWN, EVEN or CEIL, 1 to 4 (scale mx)",
                      rounding);
}

rfg_status rfg_check_outputs(struct rfg_outputs *o, struct rfg_tensors *t, const rfg_quant *given)
{
    const rfg_quant *quant = &o->quant;
    const char *fn = t->fn;
    int64_t rows = rfg_size(t, RFG_ROWS), cols = rfg_size(t, RFG_OUT_COLS);
    struct rfg_reason why;
    rfg_status st;
    *o = (struct rfg_outputs){ .plain = t->o[RFG_Y].t != NULL, .quantised = given != NULL };
    if (!o->plain && !given)
        return BAD("%s: y and quant are NULL: one must be given", fn);
    if ((st = rfg_check_tensors(t, outputs, RFG_RULES(outputs))) || !given)
        return st;
    if ((st = RFG_TAKE_STRUCT(fn, "quant", rfg_quant, &o->quant, given)))
        return st;
    if (quant->kind < RFG_SCALE_STATIC || quant->kind > RFG_SCALE_MX)
        return BAD("%s: quant's kind is %d: must be RFG_SCALE_STATIC, _TOKEN, _GROUP or _MX", fn, (int)quant->kind);
    t->o[RFG_Q].t = quant->q;
    if ((st = rfg_check_tensors(t, &codes, 1)))
        return st;
    if (!kind_valid(quant->kind, (int)quant->rounding, quant->q->dtype, cols, &why))
        return BAD("%s: %s", fn, why.text);
    if ((st = check_scale(o, &t->o[RFG_SCALE], fn, quant->scale, quant->kind, rows, cols)))
        return st;
    rfg_tensors_add(t, &scales);
    return RFG_OK;
}

bool rfg_outputs_valid(const struct rfg_problem *prob, const struct rfg_outputs_keys *k, struct rfg_reason *why)
{
    int in = prob->dtype[0], out = prob->dtype[1];
    if (!rfg_dtype_is_float(in))
        return rfg_refuse(why, "dtype of x is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)in));
    if (!k->scale && out != in)
        return rfg_refuse(why, "dtype of the output is %s: must be x's, %s, or with scale= one of codes",
                          rfg_dtype_name((rfg_dtype)out), rfg_dtype_name((rfg_dtype)in));
    if (!k->scale && k->rounding)
        return rfg_refuse(why, "rounding=%s: only with scale=mx", RFG_ROUNDING_NAMES[k->rounding]);
    if (k->scale && !kind_valid(k->scale, k->rounding, out, k->cols, why))
        return false;
    if (rfg_dtype_is_4_bits(out) && !k->plain && k->ld % 2)
        return rfg_refuse(why, "ldy=%" PRId64 ": must be even, q is %s, two in a byte", k->ld,
                          rfg_dtype_name((rfg_dtype)out));
    if (k->scale_columns && !rfg_scale_columns(k->scale))
        return rfg_refuse(why, "scale_columns=1: only with scale=group or mx");
    return !k->plain || k->scale || rfg_refuse(why, "plain=1: is only for quantised outputs, with scale=");
}

double rfg_outputs_bytes(const struct rfg_problem *prob, int64_t rows, int64_t cols, int64_t scale, int64_t plain)
{
    double m = (double)rows, y = m * (double)rfg_format_bytes(prob->dtype[0], cols);
    int64_t group = rfg_scale_columns(scale);
    double scales = group ? m * (double)((cols + group - 1) / group) : scale == RFG_SCALE_TOKEN ? m : 1;
    return (!scale || plain ? y : 0) + (scale ? m * (double)rfg_format_bytes(prob->dtype[1], cols) +
                                                    scales * (double)rfg_format_bytes(rfg_scale_dtype(scale), 1)
                                              : 0);
}

int rfg_chunk_width(const struct rfg_problem *prob, int64_t cols, int64_t align, int64_t align_out, bool plain,
                    bool quantised)
{
    int size = (int)rfg_format_bytes(prob->dtype[0], 1), width = 16;
    while (width > size && (cols * size % width || align < width || (plain && align_out < width) ||
                            (quantised && align_out < width / size)))
        width /= 2;
    return width;
}
