/* SPDX-License-Identifier: MIT
 *
 * For args_ops.c: calls of dequantize, quantize and quantize_scale, and what may be wrong with their params. */
/* ---- dequantize: y, q, scale ------------------------------------------------------------------------------------- */

static rfg_status dequantize(const struct call *c)
{
    rfg_dequantize_params p = c->dequantize;
    return rfg_op_dequantize(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
static void group_rows_odd(struct call *c)
{
    c->dequantize.group_rows = 3;
}
static void group_rows_negative(struct call *c)
{
    c->dequantize.group_rows = INT64_MIN;
}
static void group_cols_small(struct call *c)
{
    c->dequantize.group_cols = 4;
}
static void group_cols_large(struct call *c)
{
    c->dequantize.group_cols = (int64_t)1 << 31;
}
static const struct wrong dequantize_wrongs[] = { { "group_rows", group_rows_odd },
                                                  { "group_rows", group_rows_negative },
                                                  { "group_cols", group_cols_small },
                                                  { "group_cols", group_cols_large },
                                                  { NULL, NULL } };

/* ---- quantize: q, scale, x; quantize_scale: scale, x ------------------------------------------------------------ */

static rfg_status quantize(const struct call *c)
{
    rfg_quantize_params p = c->quantize;
    if (c->t[3])
        p.smooth = c->t[3];
    return rfg_op_quantize(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
static rfg_status quantize_nvfp4(const struct call *c)
{
    rfg_quantize_params p = c->quantize;
    p.global = c->t[3];
    return rfg_op_quantize(c->ctx, c->t[0], c->t[1], c->t[2], PARAMS(p), c->stream);
}
static rfg_status quantize_scale(const struct call *c)
{
    rfg_quantize_params p = c->quantize;
    return rfg_op_quantize_scale(c->ctx, c->t[0], c->t[1], PARAMS(p), c->stream);
}
#define SPOIL(name, member, value)                                                                                     \
    static void name(struct call *c)                                                                                   \
    {                                                                                                                  \
        c->quantize.member = value;                                                                                    \
    }
SPOIL(quantize_rows_two, group_rows, 2)
SPOIL(quantize_cols_odd, group_cols, 48)
SPOIL(quantize_cols_large, group_cols, (int64_t)1 << 32 | 32)
SPOIL(quantize_rows_one, group_rows, 1)
SPOIL(quantize_cols_fine, group_cols, 32)
SPOIL(floor_amax_small, floor_amax, 1e-4f)
SPOIL(scale_given_two, scale_given, 2)
SPOIL(scale_given_one, scale_given, 1)
SPOIL(rounding_unknown, rounding, 5)
SPOIL(rounding_negative, rounding, -1)
SPOIL(reciprocal_unknown, reciprocal, 4)
SPOIL(codes_given, codes, RFG_E4M3)
SPOIL(codes_wide, codes, RFG_BF16)
SPOIL(codes_none, codes, 0)
SPOIL(codes_beyond, codes, RFG_DTYPE_COUNT)
SPOIL(max_large, max, 449)
SPOIL(max_small, max, 0.5f)
SPOIL(max_nan, max, NAN)
SPOIL(floor_amax_negative, floor_amax, -1)
SPOIL(floor_amax_inf, floor_amax, INFINITY)
SPOIL(floor_scale_nan, floor_scale, NAN)
SPOIL(zero_scale_negative, zero_scale, -1e-9f)
static rfg_tensor some_factors = { &some_factors, RFG_F32, 1, { 40 }, { 1 } };
SPOIL(smooth_given, smooth, &some_factors)
static void max_of_down(struct call *c)
{
    c->quantize.rounding = RFG_SCALE_DOWN;
    c->quantize.max = 100;
}
static void zero_scale_of_up(struct call *c)
{
    c->quantize.rounding = RFG_SCALE_UP;
    c->quantize.zero_scale = 1;
}
#define RULE_WRONGS                                                                                                    \
    { "rounding", rounding_unknown }, { "rounding", rounding_negative }, { "reciprocal", reciprocal_unknown },         \
        { "max", max_large }, { "max", max_small }, { "max", max_nan }, { "floor_amax", floor_amax_negative },         \
        { "floor_amax", floor_amax_inf }, { "floor_scale", floor_scale_nan }, { "zero_scale", zero_scale_negative },   \
        { "max", max_of_down }, { "zero_scale", zero_scale_of_up },                                                    \
    {                                                                                                                  \
        NULL, NULL                                                                                                     \
    }
static const struct wrong quantize_wrongs[] = { { "group_rows", quantize_rows_two },
                                                { "group_cols", quantize_cols_odd },
                                                { "group_cols", quantize_cols_large },
                                                { "scale_given", scale_given_two },
                                                { "scale_given", scale_given_one },
                                                { "codes", codes_given },
                                                RULE_WRONGS };
static const struct wrong quantize_given_wrongs[] = { { "rounding", rounding_unknown },
                                                      { "max", max_large },
                                                      { "scale_given", floor_amax_small },
                                                      { "smooth", smooth_given },
                                                      { NULL, NULL } };
static const struct wrong quantize_tensor_wrongs[] = { { "smooth", smooth_given }, { NULL, NULL } };
static const struct wrong quantize_scale_wrongs[] = { { "group_rows", quantize_rows_one },
                                                      { "group_cols", quantize_cols_fine },
                                                      { "scale_given", scale_given_one },
                                                      { "smooth", smooth_given },
                                                      { "codes", codes_wide },
                                                      { "codes", codes_none },
                                                      { "codes", codes_beyond },
                                                      RULE_WRONGS };
