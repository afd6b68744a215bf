/* SPDX-License-Identifier: MIT
 *
 * The operators quantize and quantize_scale: their public functions, argument rules and tables. Variants are in
 * quantize_gpu.c, quantize_scale_gpu.c and quantize_cpu.c. */
#include "quantize.h"

#include <inttypes.h>

#include "dequantize.h"
#include "ops/params.h"
#include "ops/quant.h"

#define FN         "rfg_op_quantize"
#define FN_SCALE   "rfg_op_quantize_scale"
#define MAX_CHUNKS (INT32_MAX - 4096) /* what a kernel counts in 32 bits, and more than a grid's last step */
#define MAX_N      (RFG_MAX_SIZE / 2) /* of which 32 bits count the bytes */
#define MAX_FLOOR  30                 /* powers of ten that fp32 has */

static const char *const none[] = { "none" };

#define CODES (1u << RFG_E4M3 | 1u << RFG_E4M3FNUZ | 1u << RFG_E5M2 | 1u << RFG_I8 | 1u << RFG_E2M1 | 1u << RFG_I4)

#define FLOATS (1u << RFG_F32 | 1u << RFG_F16 | 1u << RFG_BF16)

#define KEY_ROUNDING RFG_KEY_ROUNDING("how a scale follows from the largest")
#define KEY_RECIPROCAL                                                                                                 \
    {                                                                                                                  \
        "reciprocal", RFG_KEY_ATTR, 0, 0, 3, NULL, "products in place of quotients: 1: by max, 2: by scale, 3: both"   \
    }
#define KEY_MAX                                                                                                        \
    {                                                                                                                  \
        "max", RFG_KEY_LAYOUT, 0, 0, 57344, NULL, "what the largest becomes, and is clamped to; 0: the dtype's"        \
    }
#define KEY_FLOOR(name, help)                                                                                          \
    {                                                                                                                  \
        name, RFG_KEY_LAYOUT, 0, 0, MAX_FLOOR, NULL, help                                                              \
    }

static const struct rfg_key quantize_keys[QUANTIZE_NKEYS] = {
    [QUANTIZE_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [QUANTIZE_N] = { "N", RFG_KEY_SIZE, 0, 0, MAX_N, NULL, "columns" },
    [QUANTIZE_GROUP_ROWS] = { "group_rows", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a row's scales; 0: one, which is read" },
    [QUANTIZE_GROUP_COLS] = { "group_cols", RFG_KEY_ATTR, 0, 0, 128, NULL, "columns that share a scale; 0: all" },
    [QUANTIZE_SMOOTH] = { "smooth", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                          "dtype of columns' factors, x's or f32, of an x that is multiplied with them", FLOATS },
    [QUANTIZE_ROUNDING] = KEY_ROUNDING,
    [QUANTIZE_RECIPROCAL] = KEY_RECIPROCAL,
    [QUANTIZE_MAX] = KEY_MAX,
    [QUANTIZE_FLOOR_AMAX] = KEY_FLOOR("floor_amax", "n: the largest is at least 1e-n"),
    [QUANTIZE_FLOOR_SCALE] = KEY_FLOOR("floor_scale", "n: a scale is at least 1e-n"),
    [QUANTIZE_ZERO_SCALE] = KEY_FLOOR("zero_scale", "n: a scale of 0 becomes 1e-n"),
    [QUANTIZE_SCALE_COLUMNS] = { "scale_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: scales are column-major" },
    [QUANTIZE_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                       "elements from a row of x to the next; 0: they follow one another" },
    [QUANTIZE_LDQ] = { "ldq", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                       "elements from a row of q to the next; 0: they follow one another" },
    [QUANTIZE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                         "bytes, up to 16, of which x's pointer and row stride, and smooth's pointer, are multiples" },
    [QUANTIZE_ALIGN_Q] = { "align_q", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                           "bytes, up to 16, of which q's pointer and row stride are multiples" },
    [QUANTIZE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_key scale_keys[QSCALE_NKEYS] = {
    [QSCALE_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [QSCALE_N] = { "N", RFG_KEY_SIZE, 0, 0, MAX_N, NULL, "columns" },
    [QSCALE_CODES] = { "codes", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none, "what is to be made of x", CODES },
    [QSCALE_ROUNDING] = KEY_ROUNDING,
    [QSCALE_RECIPROCAL] = KEY_RECIPROCAL,
    [QSCALE_MAX] = KEY_MAX,
    [QSCALE_FLOOR_AMAX] = KEY_FLOOR("floor_amax", "n: the largest is at least 1e-n"),
    [QSCALE_FLOOR_SCALE] = KEY_FLOOR("floor_scale", "n: the scale is at least 1e-n"),
    [QSCALE_ZERO_SCALE] = KEY_FLOOR("zero_scale", "n: a scale of 0 becomes 1e-n"),
    [QSCALE_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                     "elements from a row of x to the next; 0: they follow one another" },
    [QSCALE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which x's pointer and row stride are multiples" },
    [QSCALE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand quantize_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "q", true, RFG_FORMAT_LISTED, 1, 0 },
    { "scale", true, RFG_FORMAT_LISTED, 2, 0 }, /* read if it is the tensor's */
    { "smooth", false, RFG_FORMAT_KEYED, QUANTIZE_SMOOTH, 0 },
};
static const struct rfg_op_operand scale_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "scale", true, RFG_FORMAT_LISTED, 1, 0 },
};

/* ---- rules: what the public functions refuse, too ---------------------------------------------------------------- */

static bool dtypes_valid(int x, int q, int scale, struct rfg_reason *why)
{
    if (!rfg_dtype_is_float(x))
        return rfg_refuse(why, "x is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)x));
    if (!dequantize_is_code(q))
        return rfg_refuse(why, "codes are %s, q's dtype: must be e4m3, e4m3fnuz, e5m2, i8, e2m1 or i4",
                          rfg_dtype_name((rfg_dtype)q));
    if (scale != RFG_F32 && scale != RFG_E8M0)
        return rfg_refuse(why, "scale is %s: must be f32 or e8m0", rfg_dtype_name((rfg_dtype)scale));
    return true;
}

/* Of scales that are written. */
static bool rule_valid(int64_t rounding, int64_t reciprocal, int scale, struct rfg_reason *why)
{
    if (rounding < RFG_SCALE_EXACT || rounding > RFG_SCALE_CEIL)
        return rfg_refuse(why, "rounding is %" PRId64 ": must be an rfg_scale_rounding, 0 to %d", rounding,
                          (int)RFG_SCALE_CEIL);
    if (rounding == RFG_SCALE_EXACT && scale == RFG_E8M0)
        return rfg_refuse(why, "scale is e8m0, powers of two, and rounding is exact: must be up, down, even or ceil");
    if (reciprocal < 0 || reciprocal > (RFG_RECIPROCAL_OF_MAX | RFG_RECIPROCAL_OF_SCALE))
        return rfg_refuse(why, "reciprocal is %" PRId64 ": must be flags of rfg_reciprocal, 0 to 3", reciprocal);
    return true;
}

static bool groups_valid(int64_t rows, int64_t cols, struct rfg_reason *why)
{
    if (rows != 0 && rows != 1)
        return rfg_refuse(why, "group_rows is %" PRId64 ": must be 0 or 1", rows);
    if (cols != 0 && cols != 32 && cols != 64 && cols != 128)
        return rfg_refuse(why, "group_cols is %" PRId64 ": must be 0, 32, 64 or 128", cols);
    return !cols || rows || rfg_refuse(why, "group_cols is %" PRId64 ": must be 0 where group_rows is", cols);
}

static bool smooth_valid(int smooth, int x, int64_t group_rows, struct rfg_reason *why)
{
    if (smooth != x && smooth != RFG_F32)
        return rfg_refuse(why, "smooth is %s: must be x's dtype, %s, or f32", rfg_dtype_name((rfg_dtype)smooth),
                          rfg_dtype_name((rfg_dtype)x));
    return group_rows || rfg_refuse(why, "smooth: must be absent where group_rows is 0, one scale for the tensor");
}

/* Keys from the rounding on: max, and the floors behind it. */
static bool numbers_valid(const struct rfg_problem *prob, int rounding, int codes, struct rfg_reason *why)
{
    const int64_t *v = prob->v + rounding;
    enum { ROUNDING, RECIPROCAL, MAX, FLOOR_AMAX, FLOOR_SCALE, ZERO_SCALE };
    const struct rfg_format *f = rfg_format(codes);
    if ((double)v[MAX] > f->largest)
        return rfg_refuse(why, "max=%" PRId64 ": must be at most %s's largest, %g", v[MAX], f->name, f->largest);
    if (v[ROUNDING] > RFG_SCALE_UP && (v[MAX] || v[FLOOR_SCALE]))
        return rfg_refuse(why, "rounding=%s: takes neither max nor floor_scale", RFG_ROUNDING_NAMES[v[ROUNDING]]);
    if (v[ROUNDING] != RFG_SCALE_EXACT && v[ZERO_SCALE])
        return rfg_refuse(why, "zero_scale=%" PRId64 ": must be of rounding=exact", v[ZERO_SCALE]);
    return true;
}

static bool quantize_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    bool given = quantize_kind(prob) == RFG_SCALE_STATIC;
    if (!dtypes_valid(prob->dtype[0], prob->dtype[1], prob->dtype[2], why) ||
        !groups_valid(v[QUANTIZE_GROUP_ROWS], v[QUANTIZE_GROUP_COLS], why) ||
        (v[QUANTIZE_SMOOTH] && !smooth_valid((int)v[QUANTIZE_SMOOTH], prob->dtype[0], v[QUANTIZE_GROUP_ROWS], why)) ||
        !rule_valid(v[QUANTIZE_ROUNDING], v[QUANTIZE_RECIPROCAL], given ? RFG_F32 : prob->dtype[2], why) ||
        !numbers_valid(prob, QUANTIZE_ROUNDING, prob->dtype[1], why) ||
        !dequantize_blocks_valid(prob->dtype[1], v[QUANTIZE_N], v[QUANTIZE_LDQ], why))
        return false;
    if (given && (v[QUANTIZE_ROUNDING] || v[QUANTIZE_RECIPROCAL] & RFG_RECIPROCAL_OF_MAX || v[QUANTIZE_FLOOR_AMAX] ||
                  v[QUANTIZE_FLOOR_SCALE] || v[QUANTIZE_ZERO_SCALE]))
        return rfg_refuse(why, "group_rows=0: the scale is read, only reciprocal=2 and max go with it");
    return dequantize_layout_valid(prob, QUANTIZE_LDX, QUANTIZE_ALIGN, why);
}

static bool chunks_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    int64_t vec = rfg_format_elements(prob->dtype[0], 16);
    return prob->v[QSCALE_M] * ceil_div(prob->v[QSCALE_N], vec) < MAX_CHUNKS ||
           rfg_refuse(why,
                      "x is %" PRId64 " x %" PRId64 ": must be fewer than 2^31 - 4096 chunks of %" PRId64 " columns",
                      prob->v[QSCALE_M], prob->v[QSCALE_N], vec);
}

static bool scale_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    return dtypes_valid(prob->dtype[0], (int)v[QSCALE_CODES], prob->dtype[1], why) &&
           rule_valid(v[QSCALE_ROUNDING], v[QSCALE_RECIPROCAL], prob->dtype[1], why) &&
           numbers_valid(prob, QSCALE_ROUNDING, (int)v[QSCALE_CODES], why) && chunks_valid(prob, why) &&
           dequantize_layout_valid(prob, QSCALE_LDX, QSCALE_ALIGN, why);
}

static void quantize_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double scales = (double)dequantize_scales(v[QUANTIZE_M], v[QUANTIZE_GROUP_ROWS]) *
                    (double)dequantize_scales(v[QUANTIZE_N], v[QUANTIZE_GROUP_COLS]);
    double row =
        (double)(rfg_format_bytes(prob->dtype[0], v[QUANTIZE_N]) + rfg_format_bytes(prob->dtype[1], v[QUANTIZE_N]));
    *bytes = (double)v[QUANTIZE_M] * row + scales * (double)rfg_format_bytes(prob->dtype[2], 1);
    if (v[QUANTIZE_SMOOTH])
        *bytes += (double)rfg_format_bytes((int)v[QUANTIZE_SMOOTH], v[QUANTIZE_N]);
    *flops = (v[QUANTIZE_SMOOTH] ? 3 : 2) * (double)v[QUANTIZE_M] * (double)v[QUANTIZE_N];
}

static void scale_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    *bytes = (double)prob->v[QSCALE_M] * (double)rfg_format_bytes(prob->dtype[0], prob->v[QSCALE_N]);
    *flops = (double)prob->v[QSCALE_M] * (double)prob->v[QSCALE_N];
}

struct quantize_rule quantize_rule_of(const rfg_quantize_params *p, int dtype)
{
    struct quantize_rule r = { .max = p->max > 0 ? p->max : (float)rfg_format(dtype)->largest,
                               .floor_amax = p->floor_amax,
                               .floor_scale = p->floor_scale,
                               .zero_scale = p->zero_scale };
    r.inverse_max = 1.0f / r.max;
    if (p->rounding == RFG_SCALE_EXACT && !(p->floor_amax > 0) && !(p->floor_scale > 0) && !(p->zero_scale > 0))
        r.floor_scale = 1.0f / (512.0f * r.max);
    r.near = r.floor_scale <= 0x1p125f ? 0x1p125f : 0;
    if (r.floor_scale >= 0x1p-59f && r.floor_amax < 0x1p-60f)
        r.floor_amax = 0x1p-60f; /* what is less has the floor's scale, too, and is near it */
    return r;
}

void quantize_scale_set_chunks(struct quantize_scale_args *a, const struct rfg_problem *prob)
{
    a->row_chunks = (unsigned)ceil_div(prob->v[QSCALE_N], rfg_format_elements(prob->dtype[0], 16));
    rfg_divisor(a->row_chunks, &a->mul, &a->shift);
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_quantize_params, smooth);

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

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
    if (ox.cols > MAX_N)
        return BAD(FN_SCALE ": x has %" PRId64 " columns: must be at most %d", ox.cols, MAX_N);
    if (p.group_rows || p.group_cols || p.scale_given)
        return BAD(FN_SCALE ": group_rows, group_cols, scale_given are %" PRId64 ", %" PRId64 ", %d: must be 0",
                   p.group_rows, p.group_cols, (int)p.scale_given);
    if (p.smooth)
        return BAD(FN_SCALE ": smooth is given: must be NULL, the scale of a tensor takes none");
    if (!dtypes_valid(x->dtype, p.codes, scale->dtype, &why) ||
        !rule_valid(p.rounding, p.reciprocal, scale->dtype, &why))
        return BAD(FN_SCALE ": %s", why.text);
    if ((st = check_numbers(FN_SCALE, &p, p.codes)))
        return st;
    scale_problem(&prob, &ox, p.codes, scale->dtype, &p);
    if (!chunks_valid(&prob, &why))
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
    if (ox.cols > MAX_N)
        return BAD(FN ": x has %" PRId64 " columns: must be at most %d", ox.cols, MAX_N);
    if (!dtypes_valid(x->dtype, q->dtype, scale->dtype, &why) || !groups_valid(p.group_rows, p.group_cols, &why) ||
        (p.smooth && !smooth_valid(p.smooth->dtype, x->dtype, p.group_rows, &why)))
        return BAD(FN ": %s", why.text);
    if (p.smooth && os.cols != ox.cols)
        return BAD(FN ": smooth has %" PRId64 " elements: must have x's columns, %" PRId64, os.cols, ox.cols);
    if (p.scale_given != 0 && (p.scale_given != 1 || p.group_rows))
        return BAD(FN ": scale_given is %d: must be 0, or 1 where group_rows is 0", (int)p.scale_given);
    if (p.codes)
        return BAD(FN ": codes is %d: must be 0, q says it", (int)p.codes);
    if (!rule_valid(p.rounding, p.reciprocal, p.scale_given ? RFG_F32 : scale->dtype, &why))
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
        if (!chunks_valid(&prob, &why))
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

/* ---- the tables -------------------------------------------------------------------------------------------------- */

static const struct rfg_variant *const quantize_variants[] = { &quantize_rows, &quantize_portable, &quantize_cpu };
static const struct rfg_variant *const scale_variants[] = { &quantize_scale_rows, &quantize_scale_portable,
                                                            &quantize_scale_cpu };

const struct rfg_op rfg_op_quantize_desc = {
    .name = "quantize",
    .id = 18,
    .n_in = 1,
    .n_out = 2,
    .n_operands = sizeof(quantize_operands) / sizeof(quantize_operands[0]),
    .operands = quantize_operands,
    .n_keys = QUANTIZE_NKEYS,
    .keys = quantize_keys,
    .column_key = { "M", "N", NULL },
    .n_variants = sizeof(quantize_variants) / sizeof(quantize_variants[0]),
    .variants = quantize_variants,
    .kargs_size = sizeof(struct quantize_args),
    .head = offsetof(struct quantize_args, workspace),
    .valid = quantize_valid,
    .cost = quantize_cost,
};

const struct rfg_op rfg_op_quantize_scale_desc = {
    .name = "quantize_scale",
    .id = 19,
    .n_in = 1,
    .n_out = 1,
    .n_operands = sizeof(scale_operands) / sizeof(scale_operands[0]),
    .operands = scale_operands,
    .n_keys = QSCALE_NKEYS,
    .keys = scale_keys,
    .column_key = { "M", "N", NULL },
    .n_variants = sizeof(scale_variants) / sizeof(scale_variants[0]),
    .variants = scale_variants,
    .kargs_size = sizeof(struct quantize_scale_args),
    .head = offsetof(struct quantize_scale_args, workspace),
    .valid = scale_valid,
    .cost = scale_cost,
};
