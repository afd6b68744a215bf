/* SPDX-License-Identifier: MIT
 *
 * rfg_op_argmax on the cpu and on the devices of $RFG_TEST_DEVICES: dtypes, ties, strides, alignment, special values.
 * (What it refuses: test_args.c.) */
#include <math.h>

#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case shapes[] = {
    { "argmax f32->i32 M=5 V=4096" },    { "argmax f32->i64 M=1 V=128256" },    { "argmax bf16->i64 M=9 V=32000" },
    { "argmax f16->i32 M=7 V=5003" },    { "argmax bf16->i32 M=300 V=7" },      { "argmax f32->i64 M=3 V=1" },
    { "argmax f16->i64 M=6 V=1001", I }, { "argmax f32->i32 M=33 V=9000", I },  { "argmax bf16->i32 M=2 V=65552", I },
    { "argmax f32->i32 M=0 V=8" },       { "argmax f32->i32 M=65 V=33000", I },
};

static const struct op_case layouts[] = {
    { "argmax f32->i32 M=9 V=500 ldx=512" },      { "argmax bf16->i64 M=9 V=2000 ldx=2001" },
    { "argmax f16->i32 M=9 V=8200 ldx=8204", I }, { "argmax f32->i64 M=9 V=515", R, true },
    { "argmax bf16->i32 M=9 V=4096 align=4" },    { "argmax f16->i64 M=9 V=3000", R, true },
    { "argmax f32->i32 M=4 V=600 align=8", I },
};

static const struct op_case values[] = {
    { "argmax f32->i32 M=40 V=300", S },   { "argmax bf16->i64 M=40 V=301", S }, { "argmax f16->i64 M=40 V=1000", S },
    { "argmax f32->i64 M=12 V=20001", S }, { "argmax bf16->i32 M=16 V=5", S },
};

/* Rows shared by workgroups, down to parts without an element. */
static const struct op_case parts[] = {
    { "argmax f32->i32 M=3 V=4099", I, false, "argmax_rows{threads=128,unroll=2,split=32}" },
    { "argmax f32->i64 M=3 V=4096", R, false, "argmax_rows{threads=256,unroll=4,split=4}" },
    { "argmax bf16->i32 M=5 V=131", S, false, "argmax_rows{threads=128,unroll=8,split=32}" },
    { "argmax f16->i64 M=4 V=6", I, false, "argmax_rows{threads=512,unroll=2,split=2}" },
    { "argmax f32->i32 M=4 V=40000", S, false, "argmax_rows{threads=1024,unroll=2,split=2}" },
    { "argmax f32->i32 M=4 V=40000", I, false, "argmax_cluster{threads=256,unroll=4,split=8}" },
    { "argmax bf16->i64 M=7 V=13", S, false, "argmax_cluster{threads=128,unroll=2,split=8}" },
};

OP_CASES(right_shapes, shapes, "argmax")
OP_CASES(right_layouts, layouts, "strides and alignment of argmax")
OP_CASES(right_values, values, "argmax of NaN, inf, zeros")
OP_CASES(right_parts, parts, "argmax in parts")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "argmax f32->i32 M=50 V=1000", "argmax_rows{threads=256,unroll=2,split=1}", 3);
    op_few_groups(op_device(_i), "argmax bf16->i64 M=50 V=1000", "argmax_portable{}", 2);
}
END_TEST

/* By hand. */
START_TEST(rules)
{
    rfg_context *ctx = op_context("cpu");
    static const struct {
        float x[6];
        int64_t y;
    } rows[] = {
        { { 1, 5, 2, 5, 5, 0 }, 1 },
        { { -0.0f, 0, -0.0f, -1, 0, -2 }, 0 },
        { { -3, 0x1p-149f, 0, 0x1p-149f, 0, 0 }, 1 },
        { { NAN, -INFINITY, NAN, -INFINITY, NAN, NAN }, 0 },
        { { -INFINITY, NAN, NAN, -3e38f, NAN, -INFINITY }, 3 },
        { { 3e38f, NAN, INFINITY, INFINITY, -NAN, 1 }, 2 },
        { { NAN, -7, -7, NAN, -7, -8 }, 1 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t wide = -1;
        int32_t narrow = -1;
        float x[6];
        memcpy(x, rows[i].x, sizeof(x));
        rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 1, 6, 6), tw = rfg_tensor_1d(&wide, RFG_I64, 1),
                   tn = rfg_tensor_1d(&narrow, RFG_I32, 1);
        ck_assert_msg(rfg_op_argmax(ctx, &tw, &tx, NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_op_argmax(ctx, &tn, &tx, NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(wide == rows[i].y && narrow == rows[i].y, "row %zu: %d, %d", i, (int)wide, (int)narrow);
    }
    float none[1];
    int32_t y = -1;
    rfg_tensor ty = rfg_tensor_1d(&y, RFG_I32, 1), tn = rfg_tensor_2d(none, RFG_F32, 1, 0, 1);
    op_refused(rfg_op_argmax(ctx, &ty, &tn, NULL), "x has 0 columns");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("argmax", OP_TESTS(right_shapes, right_layouts, right_values, right_parts), OP_TESTS(rules),
                        OP_TESTS(rows_by_turns));
}
