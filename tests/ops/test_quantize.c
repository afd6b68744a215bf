/* SPDX-License-Identifier: MIT
 *
 * rfg_op_dequantize, rfg_op_quantize and rfg_op_quantize_scale on the cpu and on the devices of $RFG_TEST_DEVICES:
 * formats, forms of scales, rules, strides, alignment, special values; codes and scales by hand. (What they refuse:
 * test_args.c.) */
#include <math.h>

#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define S RFG_DATA_SPECIAL

static const struct op_case dequantized[] = {
    { "dequantize e4m3,f32->bf16 M=17 N=512" },
    { "dequantize e4m3fnuz,f32->f16 M=9 N=520 group_rows=1" },
    { "dequantize e5m2,f32->f32 M=5 N=384 group_rows=1 group_cols=128" },
    { "dequantize i8,f32->bf16 M=5 N=520 group_rows=1 group_cols=128 scale_columns=1" },
    { "dequantize e4m3,f32->bf16 M=259 N=392 group_rows=128 group_cols=128" },
    { "dequantize e4m3,e8m0->f32 M=130 N=264 group_rows=128 group_cols=128 scale_columns=1" },
    { "dequantize e4m3,e8m0->bf16 M=7 N=160 group_rows=1 group_cols=32" },
    { "dequantize i8,f32->f16 M=40 N=24 group_cols=8" },
    { "dequantize e4m3fnuz,e8m0->f32 M=37 N=8 group_rows=4" },
    { "dequantize i8,f32->f32 M=300 N=1" },
    { "dequantize e2m1,e8m0->bf16 M=17 N=512 group_rows=1 group_cols=32" },
    { "dequantize e2m1,f32->f32 M=40 N=24 group_cols=8" },
    { "dequantize e2m1,f32->f16 M=9 N=256 group_rows=1" },
    { "dequantize i4,f32->bf16 M=17 N=512 group_rows=1 group_cols=32" },
    { "dequantize i4,f32->f32 M=40 N=24 group_cols=8" },
    { "dequantize i4,e8m0->f16 M=9 N=256 group_rows=1" },
    { "dequantize e4m3,f32->f32 M=0 N=8" },
    { "dequantize e4m3,f32->f32 M=4 N=0 group_rows=1 group_cols=128" },
};

static const struct op_case layouts[] = {
    { "dequantize e4m3,f32->bf16 M=9 N=512 ldq=520 ldy=528 group_rows=1" },
    { "dequantize e5m2,f32->f16 M=9 N=509 ldq=511 ldy=510 group_rows=1 group_cols=128" },
    { "dequantize i8,f32->f32 M=9 N=7 ldy=9" },
    { "dequantize e4m3,f32->bf16 M=9 N=254 group_rows=1 group_cols=128" },
    { "dequantize e4m3,f32->bf16 M=9 N=256 align=4 align_y=8" },
    { "dequantize e4m3fnuz,e8m0->f32 M=9 N=256 align=1 align_y=4 group_rows=1 group_cols=32" },
    { "dequantize e4m3,f32->f16 M=9 N=300", R, true },
    { "dequantize e2m1,e8m0->bf16 M=9 N=510 ldq=516 ldy=511 group_rows=1 group_cols=32" },
    { "dequantize e2m1,e8m0->f32 M=9 N=256 align=2 group_rows=1 group_cols=32" },
    { "dequantize e2m1,f32->f16 M=9 N=300", R, true },
    { "dequantize i4,f32->bf16 M=9 N=510 ldq=516 ldy=511 group_rows=1 group_cols=32", R, true },
};

static const struct op_case values[] = {
    { "dequantize e4m3,f32->bf16 M=40 N=128 group_rows=1 group_cols=8", S },
    { "dequantize e5m2,f32->f16 M=40 N=128 group_rows=1 group_cols=8", S },
    { "dequantize e5m2,e8m0->f32 M=40 N=256 group_rows=1 group_cols=32", S },
    { "dequantize e4m3fnuz,e8m0->bf16 M=40 N=256 group_rows=1 group_cols=32", S },
    { "dequantize i8,e8m0->f16 M=40 N=256 group_rows=1 group_cols=32", S },
    { "dequantize e2m1,e8m0->bf16 M=40 N=256 group_rows=1 group_cols=32", S },
};

static const struct op_case quantised[] = {
    { "quantize bf16->e4m3,f32 M=17 N=512 group_rows=1" },
    { "quantize f16->e4m3fnuz,f32 M=9 N=520 group_rows=1 max=224" },
    { "quantize f32->e5m2,f32 M=9 N=520 group_rows=1" },
    { "quantize bf16->i8,f32 M=33 N=264 group_rows=1 reciprocal=2" },
    { "quantize bf16->e4m3,f32 M=3 N=9000 group_rows=1 reciprocal=3 floor_amax=10" },
    { "quantize f32->e4m3,f32 M=130 N=136 group_rows=1 reciprocal=1 zero_scale=1" },
    { "quantize bf16->e4m3,f32 M=17 N=512 group_rows=1 group_cols=128" },
    { "quantize bf16->e4m3,f32 M=17 N=1280 group_rows=1 group_cols=128 scale_columns=1 floor_amax=10" },
    { "quantize f32->e4m3fnuz,f32 M=9 N=520 group_rows=1 group_cols=128 reciprocal=3" },
    { "quantize f16->e5m2,f32 M=9 N=544 group_rows=1 group_cols=64" },
    { "quantize f32->i8,f32 M=9 N=232 group_rows=1 group_cols=32 floor_scale=5 floor_amax=3" },
    { "quantize f16->i8,f32 M=40 N=72 group_rows=1 group_cols=32 max=127" },
    { "quantize bf16->e4m3,f32 M=1 N=20000 group_rows=1 group_cols=128" },
    { "quantize f32->e4m3,f32 M=40 N=256 group_rows=1 group_cols=32 zero_scale=1" },
    { "quantize bf16->e2m1,e4m3 M=17 N=512 group_rows=1 group_cols=16 global=1" },
    { "quantize f32->e2m1,e4m3 M=9 N=530 group_rows=1 group_cols=16 global=1 reciprocal=2" },
    { "quantize f16->e2m1,e4m3 M=33 N=264 group_rows=1 group_cols=16 scale_columns=1 reciprocal=1" },
    { "quantize bf16->e2m1,e4m3 M=5 N=384 group_rows=1 group_cols=32 global=1 ldx=390 ldq=388", R, true },
    { "quantize f32->e2m1,e4m3 M=40 N=256 group_rows=1 group_cols=16", S },
    { "quantize bf16->e4m3,f32 M=17 N=512" },
    { "quantize f16->e4m3fnuz,f32 M=9 N=520 max=200 reciprocal=2" },
    { "quantize f32->e5m2,f32 M=9 N=1032" },
    { "quantize bf16->i8,f32 M=9 N=520" },
    { "quantize bf16->i8,f32 M=9 N=520 max=127" },
    { "quantize f16->e4m3,e8m0 M=9 N=520" },
    { "quantize bf16->e2m1,f32 M=17 N=512 group_rows=1" },
    { "quantize f32->e2m1,f32 M=9 N=520 group_rows=1 group_cols=32 max=4" },
    { "quantize f16->e2m1,f32 M=9 N=520" },
    { "quantize bf16->i4,f32 M=17 N=512 group_rows=1 group_cols=32" },
    { "quantize f16->i4,f32 M=9 N=544 group_rows=1 group_cols=64" },
    { "quantize f32->i4,f32 M=9 N=1280 group_rows=1 group_cols=128 reciprocal=3 scale_columns=1" },
    { "quantize bf16->i4,f32 M=9 N=520 group_rows=1" },
    { "quantize f16->i4,f32 M=9 N=520 group_rows=1 group_cols=128 smooth=f32" },
    { "quantize bf16->i4,f32 M=9 N=520" },
    { "quantize bf16->i8,f32 M=17 N=520 group_rows=1 smooth=f32 reciprocal=3 floor_amax=10" },
    { "quantize f16->e4m3,f32 M=9 N=520 group_rows=1 smooth=f16" },
    { "quantize f32->e5m2,f32 M=9 N=520 group_rows=1 smooth=f32" },
    { "quantize bf16->e4m3,f32 M=3 N=9000 group_rows=1 smooth=f32" },
    { "quantize bf16->e4m3fnuz,f32 M=17 N=1280 group_rows=1 group_cols=128 smooth=bf16 max=224" },
    { "quantize f32->i8,f32 M=9 N=232 group_rows=1 group_cols=32 smooth=f32" },
    { "quantize f16->e2m1,f32 M=9 N=544 group_rows=1 group_cols=64 smooth=f32" },
    { "quantize f32->e4m3,f32 M=0 N=8 group_rows=1 smooth=f32" },
    { "quantize f32->e4m3,f32 M=0 N=8 group_rows=1" },
    { "quantize f32->e4m3,f32 M=4 N=0 group_rows=1 group_cols=128" },
    { "quantize f32->e4m3,f32 M=4 N=0" },
};

static const struct op_case powers_of_two[] = {
    { "quantize bf16->e4m3,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=up" },
    { "quantize bf16->e4m3,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=down" },
    { "quantize bf16->e4m3,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=even" },
    { "quantize bf16->e4m3,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=ceil" },
    { "quantize f32->e5m2,e8m0 M=19 N=516 group_rows=1 group_cols=32 rounding=even scale_columns=1" },
    { "quantize f32->e5m2,e8m0 M=19 N=516 group_rows=1 group_cols=32 rounding=up reciprocal=3" },
    { "quantize f16->e4m3fnuz,e8m0 M=9 N=264 group_rows=1 group_cols=64 rounding=down" },
    { "quantize f32->e4m3fnuz,f32 M=9 N=264 group_rows=1 group_cols=128 rounding=ceil" },
    { "quantize f32->i8,e8m0 M=9 N=264 group_rows=1 rounding=even" },
    { "quantize bf16->e2m1,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=up" },
    { "quantize bf16->e2m1,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=down" },
    { "quantize f16->e2m1,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=even" },
    { "quantize f32->e2m1,e8m0 M=19 N=516 group_rows=1 group_cols=32 rounding=ceil scale_columns=1" },
    { "quantize bf16->e2m1,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=even smooth=f32" },
    { "quantize bf16->i4,e8m0 M=19 N=512 group_rows=1 group_cols=32 rounding=even" },
    { "quantize f32->i4,e8m0 M=19 N=516 group_rows=1 group_cols=32 rounding=down" },
    { "quantize f32->e4m3,e8m0 M=19 N=516 group_rows=1 group_cols=32 rounding=up smooth=f32" },
    { "quantize bf16->e4m3,f32 M=9 N=1032 group_rows=1 group_cols=128 rounding=up floor_amax=10" },
    { "quantize bf16->e4m3,f32 M=9 N=1032 group_rows=1 group_cols=128 rounding=up floor_amax=4 floor_scale=4", R,
      false },
};

static const struct op_case quantised_layouts[] = {
    { "quantize bf16->e4m3,f32 M=9 N=512 ldx=520 ldq=528 group_rows=1" },
    { "quantize f16->e5m2,f32 M=9 N=509 ldx=511 ldq=510 group_rows=1 group_cols=128" },
    { "quantize f32->i8,f32 M=9 N=7 ldx=9 group_rows=1" },
    { "quantize bf16->e4m3,f32 M=300 N=1 group_rows=1 group_cols=32" },
    { "quantize bf16->e4m3,f32 M=9 N=250 group_rows=1 group_cols=64" },
    { "quantize bf16->e4m3,f32 M=9 N=252 align=4 align_q=8 group_rows=1" },
    { "quantize f32->e4m3fnuz,e8m0 M=9 N=256 align=4 align_q=1 group_rows=1 group_cols=32 rounding=up" },
    { "quantize f16->e4m3,f32 M=9 N=300 group_rows=1", R, true },
    { "quantize bf16->i8,f32 M=9 N=301 ldx=303 align=2", R, true },
    { "quantize bf16->e2m1,e8m0 M=9 N=510 ldx=511 ldq=512 group_rows=1 group_cols=32 rounding=up" },
    { "quantize f32->e2m1,e8m0 M=9 N=130 ldq=132 group_rows=1 group_cols=32 rounding=even" },
    { "quantize f16->e2m1,f32 M=9 N=250 align=4 align_q=1 group_rows=1", R, true },
    { "quantize f32->i4,f32 M=9 N=130 ldq=132 group_rows=1 group_cols=32" },
    { "quantize f16->i4,f32 M=9 N=250 align=4 align_q=1 group_rows=1 group_cols=32", R, true },
    { "quantize bf16->e4m3,f32 M=9 N=509 ldx=511 ldq=510 align=2 group_rows=1 smooth=f32" },
    { "quantize f16->i8,f32 M=9 N=252 align=8 group_rows=1 group_cols=128 smooth=f32", R, true },
    { "quantize bf16->i8,f32 M=9 N=301 align=2 group_rows=1 smooth=bf16", R, true },
    { "quantize f32->e4m3,f32 M=9 N=254 align=4 group_rows=1 group_cols=32 smooth=f32" },
};

static const struct op_case quantised_specials[] = {
    { "quantize bf16->e4m3,f32 M=40 N=128 group_rows=1", S },
    { "quantize f16->e5m2,f32 M=40 N=128 group_rows=1 group_cols=64", S },
    { "quantize f32->e4m3fnuz,f32 M=40 N=128 group_rows=1 group_cols=32 reciprocal=3 floor_amax=10", S },
    { "quantize bf16->e4m3,e8m0 M=40 N=128 group_rows=1 group_cols=32 rounding=up", S },
    { "quantize f16->i8,e8m0 M=40 N=128 group_rows=1 group_cols=32 rounding=down", S },
    { "quantize f32->e5m2,e8m0 M=40 N=128 group_rows=1 rounding=even", S },
    { "quantize f32->e4m3,f32 M=40 N=128 group_rows=1 group_cols=32 rounding=ceil", S },
    { "quantize bf16->e2m1,e8m0 M=40 N=128 group_rows=1 group_cols=32 rounding=up", S },
    { "quantize f32->e2m1,f32 M=40 N=128 group_rows=1 group_cols=32", S },
    { "quantize f16->e4m3,f32 M=40 N=128 group_rows=1 group_cols=32 smooth=f32", S },
    { "quantize bf16->i4,f32 M=40 N=128 group_rows=1 group_cols=32", S },
    { "quantize f32->i8,e8m0 M=40 N=128 group_rows=1 group_cols=32 rounding=up smooth=f32", S },
    { "quantize bf16->i8,f32 M=40 N=128 max=127", S },
    { "quantize f32->e5m2,f32 M=40 N=128", S },
};

static const struct op_case scales[] = {
    { "quantize_scale bf16->f32 M=17 N=520 codes=e2m1 max=2688" },
    { "quantize_scale bf16->f32 M=2 N=9 codes=e4m3" }, /* fewer chunks than threads. First: it is one of few */
    { "quantize_scale bf16->f32 M=17 N=512 codes=e4m3" },
    { "quantize_scale bf16->f32 M=300 N=1000 codes=e4m3fnuz max=224 ldx=1008" },
    { "quantize_scale f16->f32 M=1 N=20001 codes=i8 reciprocal=1 align=2" },
    { "quantize_scale f32->f32 M=3000 N=3 codes=e5m2 floor_amax=4" },
    { "quantize_scale f32->f32 M=5 N=1001 codes=e4m3 zero_scale=1", R, true },
    { "quantize_scale bf16->e8m0 M=17 N=512 codes=e4m3 rounding=up" },
    { "quantize_scale f32->e8m0 M=17 N=500 codes=e5m2 rounding=down" },
    { "quantize_scale f16->e8m0 M=17 N=500 codes=e4m3fnuz rounding=even" },
    { "quantize_scale f32->f32 M=17 N=500 codes=i8 rounding=ceil" },
    { "quantize_scale f32->f32 M=17 N=500 codes=e4m3", RFG_DATA_INTS, false },
    { "quantize_scale bf16->e8m0 M=17 N=500 codes=e4m3 rounding=up", RFG_DATA_INTS, false },
    { "quantize_scale f32->e8m0 M=40 N=100 codes=e4m3 rounding=up", S },
    { "quantize_scale bf16->f32 M=17 N=512 codes=e2m1" },
    { "quantize_scale bf16->e8m0 M=17 N=512 codes=e2m1 rounding=even" },
    { "quantize_scale bf16->f32 M=17 N=512 codes=i4" },
    { "quantize_scale f32->f32 M=0 N=8 codes=e4m3" },
};

OP_CASES(right_codes, quantised, "quantised")
OP_CASES(right_powers_of_two, powers_of_two, "scales of powers of two")
OP_CASES(right_layouts_of_codes, quantised_layouts, "strides and alignment, quantised")
OP_CASES(right_special_codes, quantised_specials, "NaN, inf, denormals, quantised")
OP_CASES(right_scales, scales, "a tensor's scale")
OP_CASES(right_values_of_codes, dequantized, "dequantised")
OP_CASES(right_layouts, layouts, "strides and alignment of codes")
OP_CASES(right_specials, values, "scales of NaN, inf, denormals")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "dequantize e4m3,f32->bf16 M=50 N=1000 group_rows=1 group_cols=128",
                  "dequantize_rows{threads=64,unroll=2}", 3);
    /* A row's largest value is that of two waves of 64 lanes, which both have something. */
    op_few_groups(op_device(_i), "quantize bf16->e4m3,f32 M=50 N=2000 group_rows=1",
                  "quantize_rows{threads=128,rows=2,chunks=2,keep=1,split=1}", 3);
    op_few_groups(op_device(_i), "quantize bf16->e4m3,f32 M=50 N=3000 group_rows=1",
                  "quantize_rows{threads=128,rows=2,chunks=1,keep=0,split=1}", 3);
    op_few_groups(op_device(_i), "quantize bf16->e4m3,f32 M=50 N=2000 group_rows=1 group_cols=128",
                  "quantize_rows{threads=64,rows=1,chunks=1,keep=0,split=2}", 6);
    op_few_groups(op_device(_i), "quantize f16->e4m3,f32 M=50 N=2000 group_rows=1 group_cols=128 smooth=f32",
                  "quantize_rows{threads=64,rows=1,chunks=2,keep=0,split=2}", 6);
    op_few_groups(op_device(_i), "dequantize i8,f32->f32 M=50 N=1001", "dequantize_portable{}", 2);
}
END_TEST

/* Each code times 1 and times e8m0's least and NaN, by the formats' own definitions. */
START_TEST(by_hand)
{
    rfg_context *ctx = op_context("cpu");
    uint8_t q[] = { 0x00, 0x80, 0x01, 0x07, 0x08, 0x7e, 0x7f, 0xff };
    static const float want[3][8] = {
        { 0, -0.0f, 0x1p-9f, 0x1.cp-7f, 0x1p-6f, 448, NAN, NAN },
        { 0, NAN, 0x1p-10f, 0x1.cp-8f, 0x1p-7f, 224, 240, -240 },
        { 0, -0.0f, 0x1p-16f, 0x1.cp-14f, 0x1p-13f, NAN, NAN, NAN },
    };
    static const rfg_dtype dtypes[] = { RFG_E4M3, RFG_E4M3FNUZ, RFG_E5M2 };
    static const uint8_t scales[] = { 127, 128, 0, 255 };
    for (int d = 0; d < 3; d++)
        for (int s = 0; s < 4; s++) {
            float y[8], scale = s == 3 ? NAN : s == 2 ? 0x1p-127f : (float)(s + 1);
            uint8_t b = scales[s];
            rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, 1, 8, 8), tq = rfg_tensor_2d(q, dtypes[d], 1, 8, 8),
                       ts = rfg_tensor_2d(&b, RFG_E8M0, 1, 1, 1);
            ck_assert_msg(rfg_op_dequantize(ctx, &ty, &tq, &ts, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
            for (int i = 0; i < 8; i++) {
                float v = want[d][i] * scale;
                ck_assert_msg(v != v ? y[i] != y[i] : y[i] == v && signbit(y[i]) == signbit(v),
                              "%s 0x%02x, scale %d: %a, should be %a", rfg_dtype_name(dtypes[d]), q[i], b, (double)y[i],
                              (double)v);
            }
        }
    rfg_context_destroy(&ctx);
}
END_TEST

/* The scale of a row with one value, by another arithmetic than the oracle's: what each project's documents say, worked
 * out by hand or in integers. */
START_TEST(scales_by_hand)
{
    rfg_context *ctx = op_context("cpu");
    static const float tiny = 0x1p-130f;
    static const struct {
        rfg_quantize_params p;
        rfg_dtype q, scale;
        float x, want; /* want 0: b */
        int b;
    } rules[] = {
        /* rfg/quant.h */
        { { .max = 0 }, RFG_E4M3, RFG_F32, 448, 1, 0 },
        { { .max = 0 }, RFG_E4M3, RFG_F32, 0, 1.0f / (512 * 448), 0 },
        { { .max = 224 }, RFG_E4M3FNUZ, RFG_F32, -448, 2, 0 },
        { { .max = 224 }, RFG_E4M3FNUZ, RFG_F32, 0, 1.0f / (512 * 224), 0 },
        { { .max = 0 }, RFG_I8, RFG_F32, -63.5f, 0.5f, 0 },
        /* floors, and a scale of 0 */
        { { .floor_amax = 1e-10f }, RFG_E4M3, RFG_F32, 0, 1e-10f / 448, 0 },
        { { .floor_amax = 1e-4f }, RFG_E4M3, RFG_F32, 0, 1e-4f / 448, 0 },
        { { .floor_scale = 0.25f }, RFG_E4M3, RFG_F32, 1, 0.25f, 0 },
        { { .zero_scale = 1 }, RFG_E4M3, RFG_F32, 0, 1, 0 },
        { { .zero_scale = 1 }, RFG_E4M3, RFG_F32, 0x1p-149f, 1, 0 }, /* the quotient is 0 */
        { { .zero_scale = 1 }, RFG_E4M3, RFG_F32, 896, 2, 0 },
        /* 3 (1 / 448) is a last place above 3 / 448 */
        { { .max = 0 }, RFG_E4M3, RFG_F32, 3, 3.0f / 448, 0 },
        { { .reciprocal = RFG_RECIPROCAL_OF_MAX }, RFG_E4M3, RFG_F32, 3, 3 * (1.0f / 448), 0 },
        /* DeepGEMM: the exponent, and 1 if there is a bit of mantissa */
        { { .rounding = RFG_SCALE_UP, .floor_amax = 1e-4f }, RFG_E4M3, RFG_F32, 448, 1, 0 },
        { { .rounding = RFG_SCALE_UP, .floor_amax = 1e-4f }, RFG_E4M3, RFG_F32, 449, 2, 0 },
        { { .rounding = RFG_SCALE_UP, .floor_amax = 1e-4f }, RFG_E4M3, RFG_F32, 0, 0x1p-22f, 0 },
        /* mx: of 5 = 1.25 x 2^2, of 7.5 = 1.875 x 2^2, of 7.75 */
        { { .rounding = RFG_SCALE_UP }, RFG_E4M3, RFG_E8M0, 5, 0, 127 - 6 },
        { { .rounding = RFG_SCALE_DOWN }, RFG_E4M3, RFG_E8M0, 5, 0, 127 - 6 },
        { { .rounding = RFG_SCALE_DOWN }, RFG_E4M3, RFG_E8M0, 7.999f, 0, 127 - 6 },
        { { .rounding = RFG_SCALE_EVEN }, RFG_E4M3, RFG_E8M0, 7.5f, 0, 127 - 6 },
        { { .rounding = RFG_SCALE_EVEN }, RFG_E4M3, RFG_E8M0, 7.75f, 0, 127 - 5 },
        { { .rounding = RFG_SCALE_EVEN }, RFG_E5M2, RFG_E8M0, 7.5f, 0, 127 - 12 },
        { { .rounding = RFG_SCALE_CEIL }, RFG_E4M3, RFG_E8M0, 5, 0, 127 - 5 },
        { { .rounding = RFG_SCALE_CEIL }, RFG_E4M3FNUZ, RFG_E8M0, 4, 0, 127 - 5 },
        { { .rounding = RFG_SCALE_DOWN }, RFG_E5M2, RFG_E8M0, 4, 0, 127 - 13 },
        { { .rounding = RFG_SCALE_DOWN }, RFG_I8, RFG_E8M0, 127, 0, 127 },
        /* of 6 = 1.5 x 2^2; 0x200000, half a place of e2m1's one bit, is 0.25 */
        { { .rounding = RFG_SCALE_UP }, RFG_E2M1, RFG_E8M0, 6, 0, 127 },
        { { .rounding = RFG_SCALE_UP }, RFG_E2M1, RFG_E8M0, 6.01f, 0, 128 },
        { { .rounding = RFG_SCALE_DOWN }, RFG_E2M1, RFG_E8M0, 7.99f, 0, 127 },
        { { .rounding = RFG_SCALE_EVEN }, RFG_E2M1, RFG_E8M0, 6.99f, 0, 127 },
        { { .rounding = RFG_SCALE_EVEN }, RFG_E2M1, RFG_E8M0, 7, 0, 128 },
        { { .rounding = RFG_SCALE_CEIL }, RFG_E2M1, RFG_E8M0, 4.01f, 0, 128 },
        { { .max = 0 }, RFG_E2M1, RFG_F32, 3, 0.5f, 0 },
        { { .max = 0 }, RFG_E2M1, RFG_F32, 0, 1.0f / (512 * 6), 0 },
        { { .rounding = RFG_SCALE_UP }, RFG_E4M3, RFG_E8M0, 0, 0, 0 },
        { { .rounding = RFG_SCALE_CEIL }, RFG_E4M3, RFG_E8M0, tiny, 0, 0 },
        { { .rounding = RFG_SCALE_UP }, RFG_E4M3, RFG_E8M0, INFINITY, 0, 255 },
        { { .rounding = RFG_SCALE_EVEN }, RFG_E4M3, RFG_E8M0, -INFINITY, 0, 255 },
        { { .rounding = RFG_SCALE_EVEN }, RFG_E4M3, RFG_E8M0, 0x1.fffffep127f, 0, 255 - 8 },
        { { .rounding = RFG_SCALE_UP }, RFG_E4M3, RFG_F32, INFINITY, INFINITY, 0 },
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        for (int kind = 0; kind < 3; kind++) {
            rfg_quantize_params p = rules[i].p;
            float x[34] = { NAN, rules[i].x, 0, -0.0f }, scale[2] = { -1, -1 };
            uint8_t q[34];
            rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 1, 34, 34), tq = rfg_tensor_2d(q, rules[i].q, 1, 34, 34),
                       ts = rfg_tensor_2d(scale, rules[i].scale, 1, kind == 2 ? 2 : 1, kind == 2 ? 2 : 1);
            p.size = sizeof(p);
            p.group_rows = kind > 0;
            p.group_cols = kind == 2 ? 32 : 0;
            ck_assert_msg(rfg_op_quantize(ctx, &tq, &ts, &tx, &p, NULL) == RFG_OK, "%zu: %s", i, rfg_last_error());
            if (rules[i].scale == RFG_E8M0)
                ck_assert_msg(*(uint8_t *)scale == rules[i].b, "%zu: scale %d, should be %d", i, *(uint8_t *)scale,
                              rules[i].b);
            else
                ck_assert_msg(scale[0] == rules[i].want, "%zu: scale %a, should be %a", i, (double)scale[0],
                              (double)rules[i].want);
        }
    rfg_context_destroy(&ctx);
}
END_TEST

/* What a given scale makes of ties, of what is beyond the range, and of values that a quotient and a product with the
 * reciprocal tell apart. */
/* Two codes in a byte, the first in the low bits: all that there are, what is halfway, what is beyond. */
START_TEST(nibbles_by_hand)
{
    rfg_context *ctx = op_context("cpu");
    float x[32] = { 0,     -0.0f, 0.5f,  -0.5f, 1,     1.5f,  2,    -3,    4,        6,        -6,
                    0.25f, 0.26f, 0.75f, 1.25f, 1.75f, 2.5f,  3.5f, 5,     -5.01f,   0.7f,     0.8f,
                    1.2f,  1e30f, -100,  -0.2f, 2.49f, 2.51f, 7,    -4.9f, INFINITY, -INFINITY };
    static const uint8_t want[16] = { 0x80, 0x91, 0x32, 0xd4, 0x76, 0x0f, 0x21, 0x42,
                                      0x64, 0xf6, 0x21, 0x72, 0x8f, 0x54, 0xe7, 0xf7 };
    float one = 1, back[32];
    uint8_t q[16];
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 1, 32, 32), tq = rfg_tensor_2d(q, RFG_E2M1, 1, 32, 32),
               ts = rfg_tensor_2d(&one, RFG_F32, 1, 1, 1), tb = rfg_tensor_2d(back, RFG_F32, 1, 32, 32);
    p.scale_given = 1;
    ck_assert_msg(rfg_op_quantize(ctx, &tq, &ts, &tx, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 16; i++)
        ck_assert_msg(q[i] == want[i], "byte %d is %02x, should be %02x", i, q[i], want[i]);
    static const float values[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    one = 3;
    ck_assert_msg(rfg_op_dequantize(ctx, &tb, &tq, &ts, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 32; i++) {
        int code = want[i / 2] >> (i % 2 * 4) & 15;
        float v = values[code & 7] * (code & 8 ? -3.0f : 3.0f);
        ck_assert_msg(back[i] == v && !signbit(back[i]) == !signbit(v), "%d: %g, should be %g", i, (double)back[i],
                      (double)v);
    }
    tq = rfg_tensor_2d(q, RFG_E2M1, 1, 31, 32);
    tx = rfg_tensor_2d(x, RFG_F32, 1, 31, 32);
    op_refused(rfg_op_quantize(ctx, &tq, &ts, &tx, &p, NULL), "31 columns of e2m1: must be whole blocks of 2");
    static const char *const odd[] = { "quantize bf16->e2m1,f32 M=2 N=7", "quantize bf16->e2m1,f32 M=2 N=6 ldq=9",
                                       "dequantize e2m1,f32->f32 M=2 N=7", "dequantize e2m1,f32->f32 M=2 N=6 ldq=9" };
    for (int i = 0; i < 4; i++)
        op_problem_refused(odd[i], "of e2m1: must be whole blocks of 2");
    rfg_context_destroy(&ctx);
}
END_TEST

/* i4: two in a byte, -8 where a given scale makes more of x, 0 of a NaN; then groups of 32, which rfg_op_gemm() takes
 * as they are: its product with each row of the identity is what rfg_op_dequantize() says. */
START_TEST(i4_by_hand)
{
    enum { N = 5, K = 64 };
    rfg_context *ctx = op_context("cpu");
    float v[8] = { 0.5f, 1.5f, -2.5f, 7.4f, 7.6f, -8.4f, -9, NAN }, one = 1;
    static const uint8_t want[4] = { 0x20, 0x7e, 0x87, 0x08 };
    uint8_t q[N * K / 2];
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    rfg_tensor tv = rfg_tensor_2d(v, RFG_F32, 1, 8, 8), tq = rfg_tensor_2d(q, RFG_I4, 1, 8, 8),
               ts = rfg_tensor_2d(&one, RFG_F32, 1, 1, 1);
    p.scale_given = 1;
    ck_assert_msg(rfg_op_quantize(ctx, &tq, &ts, &tv, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_mem_eq(q, want, 4);

    float w[N * K], scale[N * K / 32], back[N * K], y[K * N];
    uint16_t x[K * K] = { 0 };
    for (int i = 0; i < N * K; i++)
        w[i] = (float)(i * 37 % 101 - 50) * ldexpf(1, i / 32 % 5);
    for (int i = 0; i < K; i++)
        x[i * K + i] = 0x3f80; /* 1 */
    rfg_quantize_params groups = RFG_QUANTIZE_PARAMS_INIT;
    rfg_dequantize_params d = RFG_DEQUANTIZE_PARAMS_INIT;
    rfg_gemm_params g = RFG_GEMM_PARAMS_INIT;
    rfg_tensor tw = rfg_tensor_2d(w, RFG_F32, N, K, K), tx = rfg_tensor_2d(x, RFG_BF16, K, K, K),
               ty = rfg_tensor_2d(y, RFG_F32, K, N, N), tb = rfg_tensor_2d(back, RFG_F32, N, K, K);
    tq = rfg_tensor_2d(q, RFG_I4, N, K, K);
    ts = rfg_tensor_2d(scale, RFG_F32, N, K / 32, K / 32);
    groups.group_rows = d.group_rows = 1;
    groups.group_cols = d.group_cols = 32;
    g.w_scale = &ts;
    ck_assert_msg(rfg_op_quantize(ctx, &tq, &ts, &tw, &groups, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_op_dequantize(ctx, &tb, &tq, &ts, &d, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tq, &g, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < N * K; i++) {
        float s = scale[i / 32];
        ck_assert_msg(fabsf(back[i] - w[i]) <= 0.501f * s, "%d: %g of %g, scale %g", i, (double)back[i], (double)w[i],
                      (double)s);
        ck_assert_msg(y[i % K * N + i / K] == back[i], "%d: %g, is %g dequantised", i, (double)y[i % K * N + i / K],
                      (double)back[i]);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Blocks that hold their scales, on the cpu: their format's values, times the scale. */
START_TEST(blocks_by_hand)
{
    enum { M = 3, N = 512, LD = 768 };
    static uint8_t q[M * LD * 2] __attribute__((aligned(16)));
    static float y[M * N];
    float two = 2;
    double v[RFG_FORMAT_MAX_ELEMENTS];
    rfg_context *ctx = op_context("cpu");
    for (size_t i = 0; i < sizeof(q); i++)
        q[i] = (uint8_t)((uint32_t)i * 2654435761u >> 13) & 0xbb; /* no fp16 that isn't finite */
    for (rfg_dtype d = RFG_Q4_0; d <= RFG_NVFP4; d++) {
        const struct rfg_format *f = rfg_format(d);
        rfg_tensor tq = rfg_tensor_2d(q, d, M, N, LD), ty = rfg_tensor_2d(y, RFG_F32, M, N, N),
                   ts = rfg_tensor_2d(&two, RFG_F32, 1, 1, 1);
        ck_assert_msg(rfg_op_dequantize(ctx, &ty, &tq, &ts, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
        for (int i = 0; i < M * N; i++) {
            int at = i / N * LD + i % N;
            f->decode(f, q + at / f->elements * f->bytes, v);
            float want = (float)v[at % f->elements] * two;
            ck_assert_msg(y[i] == want || (y[i] != y[i] && want != want), "%s: element %d is %g, not %g", f->name, i,
                          (double)y[i], (double)want);
        }
        tq.shape[1] = ty.shape[1] = N - 8;
        ck_assert_int_eq(rfg_op_dequantize(ctx, &ty, &tq, &ts, NULL, NULL), RFG_ERROR_INVALID_ARGUMENT);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Columns' factors, which a row's scale is found with: the largest of x are not those of the products. */
START_TEST(smooth_by_hand)
{
    rfg_context *ctx = op_context("cpu");
    float x[2][4] = { { 254, 1, -5, 0 }, { 0, 3, 100, -63.5f } }, s[4] = { 0.5f, 2.5f, 0.5f, -2 }, scale[2];
    static const int8_t want[2][4] = { { 127, 2, -2, 0 }, { 0, 8, 50, 127 } };
    int8_t q[2][4];
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 2, 4, 4), tq = rfg_tensor_2d(q, RFG_I8, 2, 4, 4),
               tc = rfg_tensor_2d(scale, RFG_F32, 2, 1, 1), ts = rfg_tensor_1d(s, RFG_F32, 4);
    p.group_rows = 1;
    p.smooth = &ts;
    ck_assert_msg(rfg_op_quantize(ctx, &tq, &tc, &tx, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 8; i++)
        ck_assert_msg(q[i / 4][i % 4] == want[i / 4][i % 4], "%d: %d, should be %d", i, q[i / 4][i % 4],
                      want[i / 4][i % 4]);
    ck_assert(scale[0] == 1 && scale[1] == 1);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(codes_by_hand)
{
    rfg_context *ctx = op_context("cpu");
    float x[] = { 17, 19, -17, 449, 460, -1e30f, 0x1p-10f, 0x1.8p-9f, -0.0f, NAN, INFINITY };
    static const uint8_t e4m3[] = { 0x58, 0x5a, 0xd8, 0x7e, 0x7e, 0xfe, 0x00, 0x02, 0x80, 0x7f, 0x7e };
    static const uint8_t clamped[] = { 0x58, 0x5a, 0xd8, 0x69, 0x69, 0xe9, 0x00, 0x02, 0x80, 0x7f, 0x69 };
    static const int8_t i8[] = { 17, 19, -17, 127, 127, -128, 0, 0, 0, 0, 127 };
    enum { N = sizeof(x) / sizeof(x[0]) };
    uint8_t q[N];
    float one = 1, seventh = 0x1.f00002p-1f;
    rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 1, N, N), tq = rfg_tensor_2d(q, RFG_E4M3, 1, N, N),
               ts = rfg_tensor_2d(&one, RFG_F32, 1, 1, 1);
    rfg_quantize_params p = { .size = sizeof(p), .scale_given = 1 };
    ck_assert_int_eq(rfg_op_quantize(ctx, &tq, &ts, &tx, &p, NULL), RFG_OK);
    ck_assert_mem_eq(q, e4m3, N);
    p.max = 72;
    ck_assert_int_eq(rfg_op_quantize(ctx, &tq, &ts, &tx, &p, NULL), RFG_OK);
    ck_assert_mem_eq(q, clamped, N);
    p.max = 0;
    tq.dtype = RFG_I8;
    ck_assert_int_eq(rfg_op_quantize(ctx, &tq, &ts, &tx, &p, NULL), RFG_OK);
    ck_assert_mem_eq(q, i8, N);
    p.max = 127;
    ck_assert_int_eq(rfg_op_quantize(ctx, &tq, &ts, &tx, &p, NULL), RFG_OK);
    ck_assert_int_eq((int8_t)q[5], -127);

    /* A quotient that is a tie, where the product is not: from a search. */
    int found = 0;
    p.max = 0;
    ts.data = &seventh;
    for (int i = 0; i < 127; i++) {
        float v = (float)(i + 0.5) * seventh;
        rfg_tensor tv = rfg_tensor_2d(&v, RFG_F32, 1, 1, 1), tc = rfg_tensor_2d(q, RFG_I8, 1, 1, 1);
        for (int r = 0; r < 2; r++) {
            p.reciprocal = r ? RFG_RECIPROCAL_OF_SCALE : 0;
            ck_assert_int_eq(rfg_op_quantize(ctx, &tc, &ts, &tv, &p, NULL), RFG_OK);
            volatile float inverse = 1 / seventh, product = v * inverse, quotient = v / seventh;
            ck_assert_int_eq((int8_t)q[0], (int)rintf(r ? product : quotient));
            found += r && rintf(product) != rintf(quotient);
        }
    }
    ck_assert_int_gt(found, 0);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus(
        "quantize",
        OP_TESTS(right_codes, right_powers_of_two, right_layouts_of_codes, right_special_codes, right_scales,
                 right_values_of_codes, right_layouts, right_specials),
        OP_TESTS(by_hand, scales_by_hand, codes_by_hand, smooth_by_hand, nibbles_by_hand, i4_by_hand, blocks_by_hand),
        OP_TESTS(rows_by_turns));
}
