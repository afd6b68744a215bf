/* SPDX-License-Identifier: MIT
 *
 * The operators quantize and quantize_scale: their keys, rules and tables. The public functions are in
 * quantize_call.c. */
#include "quantize.h"

#include <inttypes.h>

#include "dequantize.h"
#include "ops/params.h"
#include "ops/quant.h"

#define MAX_CHUNKS (INT32_MAX - 4096) /* what a kernel counts in 32 bits, and more than a grid's last step */
#define MAX_FLOOR  30                 /* powers of ten that fp32 has */

static const char *const none[] = { "none" };

#define CODES DEQUANTIZE_CODES

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
    [QUANTIZE_N] = { "N", RFG_KEY_SIZE, 0, 0, QUANTIZE_MAX_N, NULL, "columns" },
    [QUANTIZE_GROUP_ROWS] = { "group_rows", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a row's scales; 0: one, which is read" },
    [QUANTIZE_GROUP_COLS] = { "group_cols", RFG_KEY_ATTR, 0, 0, 128, NULL, "columns that share a scale; 0: all" },
    [QUANTIZE_SMOOTH] = { "smooth", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                          "dtype of columns' factors, x's or f32, of an x that is multiplied with them",
                          RFG_FLOAT_FORMATS },
    [QUANTIZE_GLOBAL] = { "global", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: nvfp4's scales are divided by one of the tensor" },
    [QUANTIZE_ROUNDING] = KEY_ROUNDING,
    [QUANTIZE_RECIPROCAL] = KEY_RECIPROCAL,
    [QUANTIZE_MAX] = KEY_MAX,
    [QUANTIZE_FLOOR_AMAX] = KEY_FLOOR("floor_amax", "n: the largest is at least 1e-n"),
    [QUANTIZE_FLOOR_SCALE] = KEY_FLOOR("floor_scale", "n: a scale is at least 1e-n"),
    [QUANTIZE_ZERO_SCALE] = KEY_FLOOR("zero_scale", "n: a scale of 0 becomes 1e-n"),
    [QUANTIZE_SCALE_COLUMNS] = { "scale_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: scales are column-major" },
    [QUANTIZE_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of x in elements; 0: packed" },
    [QUANTIZE_LDQ] = { "ldq", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of q in elements; 0: packed" },
    [QUANTIZE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                         "bytes, up to 16, of which x's pointer and row stride, and smooth's pointer, are multiples" },
    [QUANTIZE_ALIGN_Q] = { "align_q", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                           "bytes, up to 16, of which q's pointer and row stride are multiples" },
    [QUANTIZE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_key scale_keys[QSCALE_NKEYS] = {
    [QSCALE_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [QSCALE_N] = { "N", RFG_KEY_SIZE, 0, 0, QUANTIZE_MAX_N, NULL, "columns" },
    [QSCALE_CODES] = { "codes", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none, "what is to be made of x", CODES },
    [QSCALE_ROUNDING] = KEY_ROUNDING,
    [QSCALE_RECIPROCAL] = KEY_RECIPROCAL,
    [QSCALE_MAX] = KEY_MAX,
    [QSCALE_FLOOR_AMAX] = KEY_FLOOR("floor_amax", "n: the largest is at least 1e-n"),
    [QSCALE_FLOOR_SCALE] = KEY_FLOOR("floor_scale", "n: the scale is at least 1e-n"),
    [QSCALE_ZERO_SCALE] = KEY_FLOOR("zero_scale", "n: a scale of 0 becomes 1e-n"),
    [QSCALE_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of x in elements; 0: packed" },
    [QSCALE_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which x's pointer and row stride are multiples" },
    [QSCALE_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand quantize_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "q", true, RFG_FORMAT_LISTED, 1, 0 },
    { "scale", true, RFG_FORMAT_LISTED, 2, 0 }, /* read if it is the tensor's */
    { "smooth", false, RFG_FORMAT_KEYED, QUANTIZE_SMOOTH, 0 },
    { "global", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};
static const struct rfg_op_operand scale_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "scale", true, RFG_FORMAT_LISTED, 1, 0 },
};

static bool dtypes_valid(int x, int q, int scale, struct rfg_reason *why)
{
    if (!rfg_dtype_is_float(x))
        return rfg_refuse(why, "x is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)x));
    if (!dequantize_is_code(q))
        return rfg_refuse(why, "codes are %s, q's dtype: must be e4m3, e4m3fnuz, e5m2, i8, e2m1 or i4",
                          rfg_dtype_name((rfg_dtype)q));
    if (scale == RFG_E4M3)
        return q == RFG_E2M1 ||
               rfg_refuse(why, "q is %s, scale e4m3: must be e2m1 and e4m3 (nvfp4), or scale f32 or e8m0",
                          rfg_dtype_name((rfg_dtype)q));
    if (scale != RFG_F32 && scale != RFG_E8M0)
        return rfg_refuse(why, "scale is %s: must be f32 or e8m0", rfg_dtype_name((rfg_dtype)scale));
    return true;
}

bool quantize_rule_valid(int64_t rounding, int64_t reciprocal, int scale, struct rfg_reason *why)
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

static bool groups_valid(int64_t rows, int64_t cols, bool nvfp4, struct rfg_reason *why)
{
    if (rows != 0 && rows != 1)
        return rfg_refuse(why, "group_rows is %" PRId64 ": must be 0 or 1", rows);
    if (cols != (nvfp4 ? 16 : 0) && cols != 32 && cols != 64 && cols != 128)
        return rfg_refuse(why, "group_cols is %" PRId64 ": must be %d, 32, 64 or 128%s", cols, nvfp4 ? 16 : 0,
                          cols == 16 ? ", or scale e4m3" : "");
    return !cols || rows || rfg_refuse(why, "group_cols is %" PRId64 ": must be 0 where group_rows is", cols);
}

static bool smooth_valid(int smooth, int x, int64_t group_rows, struct rfg_reason *why)
{
    if (smooth != x && smooth != RFG_F32)
        return rfg_refuse(why, "smooth is %s: must be x's dtype, %s, or f32", rfg_dtype_name((rfg_dtype)smooth),
                          rfg_dtype_name((rfg_dtype)x));
    return group_rows || rfg_refuse(why, "smooth: must be absent where group_rows is 0, one scale for the tensor");
}

/* Scales of e4m3, and what goes with them alone. */
static bool nvfp4_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (prob->dtype[2] != RFG_E4M3)
        return !v[QUANTIZE_GLOBAL] || rfg_refuse(why, "global=1: must be 0, scale is %s: is of nvfp4, e4m3",
                                                 rfg_dtype_name((rfg_dtype)prob->dtype[2]));
    if (v[QUANTIZE_SMOOTH])
        return rfg_refuse(why, "smooth: must be absent, scale is e4m3");
    return !(v[QUANTIZE_ROUNDING] || v[QUANTIZE_MAX] || v[QUANTIZE_FLOOR_AMAX] || v[QUANTIZE_FLOOR_SCALE] ||
             v[QUANTIZE_ZERO_SCALE]) ||
           rfg_refuse(why, "scale is e4m3: rounding, max, floor_amax, floor_scale and zero_scale must be 0");
}

/* Keys from the rounding on: max, and the floors behind it. */
static bool numbers_valid(const struct rfg_problem *prob, int rounding, int codes, struct rfg_reason *why)
{
    const int64_t *v = prob->v + rounding;
    enum { ROUNDING, RECIPROCAL, MAX, FLOOR_AMAX, FLOOR_SCALE, ZERO_SCALE };
    const struct rfg_format *f = rfg_format(codes);
    double most = prob->op == &rfg_op_quantize_scale_desc && codes == RFG_E2M1 ? NVFP4_MOST : f->largest;
    if ((double)v[MAX] > most)
        return rfg_refuse(why, "max=%" PRId64 ": must be at most %s's largest, %g", v[MAX], f->name, most);
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
        !groups_valid(v[QUANTIZE_GROUP_ROWS], v[QUANTIZE_GROUP_COLS], prob->dtype[2] == RFG_E4M3, why) ||
        !nvfp4_valid(prob, why) ||
        (v[QUANTIZE_SMOOTH] && !smooth_valid((int)v[QUANTIZE_SMOOTH], prob->dtype[0], v[QUANTIZE_GROUP_ROWS], why)) ||
        !quantize_rule_valid(v[QUANTIZE_ROUNDING], v[QUANTIZE_RECIPROCAL], given ? RFG_F32 : prob->dtype[2], why) ||
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
    if (prob->dtype[1] == RFG_E4M3)
        return rfg_refuse(why, "scale is e4m3: must be f32 or e8m0");
    return dtypes_valid(prob->dtype[0], (int)v[QSCALE_CODES], prob->dtype[1], why) &&
           quantize_rule_valid(v[QSCALE_ROUNDING], v[QSCALE_RECIPROCAL], prob->dtype[1], why) &&
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

struct quantize_rule quantize_rule_of(const rfg_quantize_params *p, int codes, int scale)
{
    struct quantize_rule r = { .max = p->max > 0 ? p->max : (float)rfg_format(codes)->largest,
                               .floor_amax = p->floor_amax,
                               .floor_scale = p->floor_scale,
                               .zero_scale = p->zero_scale };
    r.inverse_max = 1.0f / r.max;
    if (scale == RFG_E4M3) /* whose range begins where its global says */
        return r;
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

/* ---- the tables -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_quantize_desc = {
    .name = "quantize",
    .id = 18,
    .n_in = 1,
    .n_out = 2,
    RFG_OPERANDS(quantize_operands),
    .n_keys = QUANTIZE_NKEYS,
    .keys = quantize_keys,
    .column_key = { "M", "N", NULL },
    RFG_KARGS(struct quantize_args),
    .valid = quantize_valid,
    .cost = quantize_cost,
};

const struct rfg_op rfg_op_quantize_scale_desc = {
    .name = "quantize_scale",
    .id = 19,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(scale_operands),
    .n_keys = QSCALE_NKEYS,
    .keys = scale_keys,
    .column_key = { "M", "N", NULL },
    RFG_KARGS(struct quantize_scale_args),
    .valid = scale_valid,
    .cost = scale_cost,
};
