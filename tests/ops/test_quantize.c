/* SPDX-License-Identifier: MIT
 *
 * rfg_op_dequantize on the cpu and on the devices of $RFG_TEST_DEVICES: formats, forms of scales, strides, alignment,
 * special values; each code by hand. (What it refuses: test_args.c.) */
#include <check.h>
#include <math.h>

#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define S RFG_DATA_SPECIAL

static const struct op_case dequantized[] = {
    { "dequantize e4m3,f32->bf16 M=17 N=512", R, false },
    { "dequantize e4m3fnuz,f32->f16 M=9 N=520 group_rows=1", R, false },
    { "dequantize e5m2,f32->f32 M=5 N=384 group_rows=1 group_cols=128", R, false },
    { "dequantize i8,f32->bf16 M=5 N=520 group_rows=1 group_cols=128 scale_columns=1", R, false },
    { "dequantize e4m3,f32->bf16 M=259 N=392 group_rows=128 group_cols=128", R, false },
    { "dequantize e4m3,e8m0->f32 M=130 N=264 group_rows=128 group_cols=128 scale_columns=1", R, false },
    { "dequantize e4m3,e8m0->bf16 M=7 N=160 group_rows=1 group_cols=32", R, false },
    { "dequantize i8,f32->f16 M=40 N=24 group_cols=8", R, false },
    { "dequantize e4m3fnuz,e8m0->f32 M=37 N=8 group_rows=4", R, false },
    { "dequantize i8,f32->f32 M=300 N=1", R, false },
    { "dequantize e4m3,f32->f32 M=0 N=8", R, false },
    { "dequantize e4m3,f32->f32 M=4 N=0 group_rows=1 group_cols=128", R, false },
};

static const struct op_case layouts[] = {
    { "dequantize e4m3,f32->bf16 M=9 N=512 ldq=520 ldy=528 group_rows=1", R, false },
    { "dequantize e5m2,f32->f16 M=9 N=509 ldq=511 ldy=510 group_rows=1 group_cols=128", R, false },
    { "dequantize i8,f32->f32 M=9 N=7 ldy=9", R, false },
    { "dequantize e4m3,f32->bf16 M=9 N=254 group_rows=1 group_cols=128", R, false },
    { "dequantize e4m3,f32->bf16 M=9 N=256 align=4 align_y=8", R, false },
    { "dequantize e4m3fnuz,e8m0->f32 M=9 N=256 align=1 align_y=4 group_rows=1 group_cols=32", R, false },
    { "dequantize e4m3,f32->f16 M=9 N=300", R, true },
};

static const struct op_case values[] = {
    { "dequantize e4m3,f32->bf16 M=40 N=128 group_rows=1 group_cols=8", S, false },
    { "dequantize e5m2,f32->f16 M=40 N=128 group_rows=1 group_cols=8", S, false },
    { "dequantize e5m2,e8m0->f32 M=40 N=256 group_rows=1 group_cols=32", S, false },
    { "dequantize e4m3fnuz,e8m0->bf16 M=40 N=256 group_rows=1 group_cols=32", S, false },
    { "dequantize i8,e8m0->f16 M=40 N=256 group_rows=1 group_cols=32", S, false },
};

OP_CASES(right_values_of_codes, dequantized, "dequantised")
OP_CASES(right_layouts, layouts, "strides and alignment of codes")
OP_CASES(right_specials, values, "scales of NaN, inf, denormals")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "dequantize e4m3,f32->bf16 M=50 N=1000 group_rows=1 group_cols=128",
                  "dequantize_rows{threads=64,unroll=2}", 3);
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

int main(void)
{
    return op_main("quantize", OP_TESTS(right_values_of_codes, right_layouts, right_specials, rows_by_turns),
                   OP_TESTS(by_hand));
}
