/* SPDX-License-Identifier: MIT
 *
 * quantize and quantize_scale as the harness has them. */
#include "quantize_case.h"

#include <math.h>

#include "base/util.h"
#include "dequantize.h"
#include "ops/oracle.h"

static float ten_to_minus(int64_t n)
{
    return n ? (float)pow(10, -(double)n) : 0;
}

rfg_quantize_params quantize_case_params(const struct rfg_problem *prob)
{
    bool one = prob->op == &rfg_op_quantize_scale_desc;
    const int64_t *v = prob->v, *rule = v + (one ? QSCALE_ROUNDING : QUANTIZE_ROUNDING);
    _Static_assert(QSCALE_ZERO_SCALE - QSCALE_ROUNDING == 5 && QUANTIZE_ZERO_SCALE - QUANTIZE_ROUNDING == 5, "alike");
    return (rfg_quantize_params){ .size = sizeof(rfg_quantize_params),
                                  .group_rows = one ? 0 : v[QUANTIZE_GROUP_ROWS],
                                  .group_cols = one ? 0 : v[QUANTIZE_GROUP_COLS],
                                  .scale_given = !one && !v[QUANTIZE_GROUP_ROWS],
                                  .codes = one ? (rfg_dtype)v[QSCALE_CODES] : RFG_DTYPE_NONE,
                                  .rounding = (rfg_scale_rounding)rule[0],
                                  .reciprocal = (int32_t)rule[1],
                                  .max = (float)rule[2],
                                  .floor_amax = ten_to_minus(rule[3]),
                                  .floor_scale = ten_to_minus(rule[4]),
                                  .zero_scale = ten_to_minus(rule[5]) };
}

/* Each 32 columns of a row have a magnitude of their own, now and then one at the end of fp32's range. Some are zeros.
 * Some begin with the dtype's largest code (times a power of two), so that what follows may be ties; some with three
 * times that and go on with three times what is half-way between codes: quotients that are ties, where products with a
 * reciprocal are not; some have a scale between e8m0's least and fp32's least normal number. */
static void fill_x(const rfg_tensor *t, int codes, uint64_t seed)
{
    int e = 0, kind = 0;
    for (int64_t r = 0; r < t->shape[0]; r++)
        for (int64_t c = 0; c < t->shape[1]; c++) {
            if (c % 32 == 0) {
                uint64_t bits = rfg_random(&seed);
                kind = r % 7 == 3 ? 0 : (int)(bits >> 20) % 8;
                e = (int)((bits >> 30) % 17) - 12;
                if (t->dtype != RFG_F16 && (bits >> 40) % 16 == 0)
                    e = bits >> 50 & 1 ? 110 : -135;
                if (t->dtype != RFG_F16 && kind == 3)
                    e = -127;
            }
            double v = rfg_load(t->data, t->dtype, r * t->strides[0] + c);
            if (!isfinite(v)) /* special data keep all that they have */
                continue;
            if (kind == 0)
                v = 0;
            else if (kind == 3 && e == -127)
                v = c % 32 ? v * 64 : 1.25 * rfg_largest((rfg_dtype)codes);
            else if (kind <= 2 && c % 32 == 0)
                v = (codes == RFG_E5M2 ? 7 * 64 : rfg_largest((rfg_dtype)codes)) * (kind == 1 ? 1 : 3);
            else if (kind == 1)
                v *= rfg_format(codes)->elements == 2 ? 8 : 64;
            else if (kind == 2)
                v = 3 * (codes == RFG_I8     ? trunc(v * 60) + 0.5
                         : codes == RFG_I4   ? trunc(v * 6) + 0.5
                         : codes == RFG_E2M1 ? (2 * trunc(v * 6) + 1) * (1 << c % 3) / 4
                         : codes == RFG_E5M2 ? 2 * trunc(v * 4) + 9
                                             : 2 * trunc(v * 8) + 17);
            rfg_store(t->data, t->dtype, r * t->strides[0] + c, ldexp(v, e));
        }
}

static void put_row_spec(struct rfg_tensor_spec *s, bool output, bool exact)
{
    s->output = output;
    s->exact = output && exact;
}

/* Some columns' factors are powers of two, which leave ties what they are, and one in a while 0. */
static void fill_smooth(const rfg_tensor *t)
{
    for (int64_t c = 0; c < t->shape[0]; c++)
        if (c / 32 % 2 == 0)
            rfg_store(t->data, t->dtype, c, ldexp(c / 32 % 4 ? -1 : 1, (int)(c / 32 % 9) - 4));
        else if (c % 32 == 17)
            rfg_store(t->data, t->dtype, c, 0);
}

/* ---- quantize: q, scale, x, smooth, global ------------------------------------------------------------------------------- */

static int quantize_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t m = v[QUANTIZE_M], n = v[QUANTIZE_N];
    spec[0] = rfg_rows_spec("q", (rfg_dtype)prob->dtype[1], m, n, 1, v[QUANTIZE_LDQ], QUANTIZE_ALIGN_Q);
    put_row_spec(&spec[0], true, true);
    spec[1] = rfg_rows_spec("scale", (rfg_dtype)prob->dtype[2], dequantize_scales(m, v[QUANTIZE_GROUP_ROWS]),
                            dequantize_scales(n, v[QUANTIZE_GROUP_COLS]), 1, 0, -1);
    spec[1].column_major = v[QUANTIZE_SCALE_COLUMNS] && spec[1].shape[0] > 1 && spec[1].shape[1] > 1;
    put_row_spec(&spec[1], quantize_kind(prob) != RFG_SCALE_STATIC, true);
    spec[2] = rfg_rows_spec("x", (rfg_dtype)prob->dtype[0], m, n, 1, v[QUANTIZE_LDX], QUANTIZE_ALIGN);
    spec[3] = (struct rfg_tensor_spec){ .name = "smooth",
                                        .dtype = (rfg_dtype)v[QUANTIZE_SMOOTH],
                                        .ndim = 1,
                                        .shape = { n },
                                        .absent = !v[QUANTIZE_SMOOTH],
                                        .align_key = QUANTIZE_ALIGN };
    spec[4] = (struct rfg_tensor_spec){
        .name = "global", .dtype = RFG_F32, .ndim = 1, .shape = { 1 }, .absent = !v[QUANTIZE_GLOBAL], .align_key = -1
    };
    return 5;
}

static void quantize_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                          uint64_t seed)
{
    if (tensor == 3 && data == RFG_DATA_RANDOM)
        fill_smooth(t);
    if (tensor == 4) /* scales from 0 to what saturates */
        rfg_store(t->data, RFG_F32, 0, 0x1.23p-9);
    if (tensor >= 3 || !t->shape[0] || !t->shape[1])
        return;
    if (tensor == 2)
        fill_x(t, prob->dtype[1], seed);
    else if (tensor == 1) /* a given one, of which some of x's values saturate */
        rfg_store(t->data, t->dtype, 0,
                  prob->dtype[1] == RFG_E5M2                  ? 0x1.23p-15
                  : rfg_format(prob->dtype[1])->elements == 2 ? 0x1.23p-2
                                                              : 0x1.23p-7);
}

static rfg_status quantize_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t,
                                rfg_stream stream)
{
    rfg_quantize_params p = quantize_case_params(prob);
    p.smooth = prob->v[QUANTIZE_SMOOTH] ? &t[3] : NULL;
    p.global = prob->v[QUANTIZE_GLOBAL] ? &t[4] : NULL;
    return rfg_op_quantize(ctx, &t[0], &t[1], &t[2], &p, stream);
}

static void quantize_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    rfg_quantize_params p = quantize_case_params(prob);
    *(struct quantize_args *)kargs =
        (struct quantize_args){ .x = t[2].data,
                                .q = t[0].data,
                                .scale = t[1].data,
                                .smooth = prob->v[QUANTIZE_SMOOTH]   ? t[3].data
                                          : prob->v[QUANTIZE_GLOBAL] ? t[4].data
                                                                     : NULL,
                                .m = (int)prob->v[QUANTIZE_M],
                                .n = (int)prob->v[QUANTIZE_N],
                                .rule = quantize_rule_of(&p, prob->dtype[1], prob->dtype[2]),
                                .ldx = t[2].strides[0],
                                .ldq = t[0].strides[0],
                                .scale_row = t[1].strides[0],
                                .scale_col = t[1].strides[1] };
}

/* One scale in a row or a column has no order, and a call's floors are no part of its problem. */
static void quantize_as_called(struct rfg_problem *prob)
{
    int64_t *v = prob->v;
    v[QUANTIZE_FLOOR_AMAX] = v[QUANTIZE_FLOOR_SCALE] = v[QUANTIZE_ZERO_SCALE] = 0;
    if (dequantize_scales(v[QUANTIZE_M], v[QUANTIZE_GROUP_ROWS]) < 2 ||
        dequantize_scales(v[QUANTIZE_N], v[QUANTIZE_GROUP_COLS]) < 2)
        v[QUANTIZE_SCALE_COLUMNS] = 0;
}

static const char *const quantize_compiled[] = {
    "quantize bf16->e4m3,f32 M=64 N=7168 group_rows=1 group_cols=128",
    "quantize f16->e4m3fnuz,f32 M=64 N=7168 group_rows=1 group_cols=64 rounding=up reciprocal=3",
    "quantize f32->e5m2,e8m0 M=64 N=7168 group_rows=1 group_cols=32 rounding=up",
    "quantize bf16->e4m3,e8m0 M=64 N=7168 group_rows=1 group_cols=32 rounding=even",
    "quantize f16->e4m3,e8m0 M=64 N=7170 group_rows=1 group_cols=32 rounding=down",
    "quantize f32->i8,f32 M=64 N=7171 group_rows=1 group_cols=128 rounding=ceil",
    "quantize bf16->e4m3fnuz,f32 M=64 N=7168 group_rows=1 reciprocal=3 max=224",
    "quantize f16->i8,f32 M=4096 N=1001 group_rows=1 reciprocal=2",
    "quantize f32->e4m3,f32 M=3 N=40000 group_rows=1 reciprocal=1",
    "quantize bf16->e4m3,f32 M=4096 N=128 group_rows=1",
    "quantize bf16->e4m3,f32 M=1 N=16384 group_rows=1 group_cols=128",
    "quantize bf16->e4m3,f32 M=64 N=7168",
    "quantize f16->i8,e8m0 M=64 N=7170 max=127",
    "quantize f32->e5m2,f32 M=2 N=7168 reciprocal=2",
    "quantize bf16->e2m1,e8m0 M=64 N=7168 group_rows=1 group_cols=32 rounding=up",
    "quantize f32->e2m1,f32 M=64 N=7170 group_rows=1",
    "quantize bf16->i4,f32 M=64 N=7168 group_rows=1 group_cols=128",
    "quantize f16->i4,f32 M=64 N=7170 group_rows=1 group_cols=32",
    "quantize bf16->i8,f32 M=64 N=7168 group_rows=1 smooth=f32 reciprocal=3",
    "quantize f16->e2m1,e8m0 M=64 N=7170 group_rows=1 group_cols=32 smooth=f16 rounding=even",
    "quantize bf16->e2m1,e4m3 M=64 N=7168 group_rows=1 group_cols=16 global=1",
    "quantize f32->e2m1,e4m3 M=64 N=7170 group_rows=1 group_cols=16 reciprocal=3",
    NULL,
};

const struct rfg_op_case rfg_op_case_quantize = {
    .tensors = quantize_tensors,
    .fill = quantize_fill,
    .call = quantize_call,
    .pack = quantize_pack,
    .oracle = rfg_oracle_quantize,
    .as_called = quantize_as_called,
    .compiled = quantize_compiled,
};

/* ---- quantize_scale: scale, x ------------------------------------------------------------------------------------ */

static int scale_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    spec[0] = rfg_rows_spec("scale", (rfg_dtype)prob->dtype[1], 1, 1, 1, 0, -1);
    put_row_spec(&spec[0], v[QSCALE_M] && v[QSCALE_N], true);
    spec[1] = rfg_rows_spec("x", (rfg_dtype)prob->dtype[0], v[QSCALE_M], v[QSCALE_N], 1, v[QSCALE_LDX], QSCALE_ALIGN);
    return 2;
}

/* What decides is somewhere, the last element among them. */
static void scale_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                       uint64_t seed)
{
    int64_t m = t->shape[0], n = t->shape[1];
    if (tensor != 1 || !m || !n || data == RFG_DATA_SPECIAL)
        return;
    uint64_t bits = rfg_random(&seed), at = rfg_random(&seed);
    int64_t r = bits % 3 ? (int64_t)(at % (uint64_t)m) : m - 1,
            c = bits % 3 ? (int64_t)((at >> 32) % (uint64_t)n) : n - 1;
    if (data == RFG_DATA_INTS) /* nothing else */
        for (int64_t i = 0; i < m * n; i++)
            rfg_store(t->data, t->dtype, i / n * t->strides[0] + i % n, 0);
    else
        rfg_store(t->data, t->dtype, r * t->strides[0] + c, -(1.5 + (double)(bits >> 40 & 255) / 16));
    (void)prob;
}

static rfg_status scale_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    rfg_quantize_params p = quantize_case_params(prob);
    return rfg_op_quantize_scale(ctx, &t[0], &t[1], &p, stream);
}

static void scale_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    rfg_quantize_params p = quantize_case_params(prob);
    struct quantize_scale_args *a = kargs;
    *a = (struct quantize_scale_args){ .x = t[1].data,
                                       .scale = t[0].data,
                                       .m = (int)prob->v[QSCALE_M],
                                       .n = (int)prob->v[QSCALE_N],
                                       .rule = quantize_rule_of(&p, (int)prob->v[QSCALE_CODES], prob->dtype[1]),
                                       .ldx = t[1].strides[0] };
    quantize_scale_set_chunks(a, prob);
}

static void scale_as_called(struct rfg_problem *prob)
{
    prob->v[QSCALE_FLOOR_AMAX] = prob->v[QSCALE_FLOOR_SCALE] = prob->v[QSCALE_ZERO_SCALE] = 0;
    prob->v[QSCALE_RECIPROCAL] &= RFG_RECIPROCAL_OF_MAX;
}

static const char *const scale_compiled[] = {
    "quantize_scale bf16->f32 M=64 N=7168 codes=e4m3",
    "quantize_scale f16->f32 M=4096 N=7170 codes=e4m3fnuz reciprocal=1",
    "quantize_scale f32->e8m0 M=64 N=7171 codes=i8 rounding=up",
    "quantize_scale bf16->e8m0 M=1 N=7169 codes=e4m3 rounding=down",
    "quantize_scale f16->e8m0 M=1 N=7168 codes=e4m3 rounding=even",
    "quantize_scale f32->f32 M=4096 N=7168 codes=e5m2 rounding=ceil",
    "quantize_scale f32->f32 M=3 N=1024 codes=e5m2", /* so few that rows takes smaller workgroups than portable */
    NULL,
};

const struct rfg_op_case rfg_op_case_quantize_scale = {
    .tensors = scale_tensors,
    .fill = scale_fill,
    .call = scale_call,
    .pack = scale_pack,
    .oracle = rfg_oracle_quantize_scale,
    .as_called = scale_as_called,
    .compiled = scale_compiled,
};
