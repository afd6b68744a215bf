/* SPDX-License-Identifier: MIT
 *
 * rfg_op_moe_sum on the cpu and on the devices of $RFG_TEST_DEVICES: dtypes, places beside x, strides, alignment,
 * special values. (What it refuses: test_args.c.) */
#include <math.h>

#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case shapes[] = {
    { "moe_sum bf16->bf16 T=8 N=1024 top=8 weights=1" },
    { "moe_sum bf16->bf16 T=5 N=512 top=8", I },
    { "moe_sum f16->f16 T=3 N=1032 top=9 weights=1 residual=1" },
    { "moe_sum f32->f32 T=7 N=260 top=2 residual=1" },
    { "moe_sum bf16->f32 T=6 N=640 top=4 weights=1 residual=1" },
    { "moe_sum f32->bf16 T=6 N=516 top=6 weights=1 residual=1" },
    { "moe_sum f32->f16 T=4 N=129 top=3 residual=1", I },
    { "moe_sum f16->bf16 T=2 N=72 top=1 weights=1" },
    { "moe_sum bf16->bf16 T=9 N=136 top=32 weights=1" },
    { "moe_sum f16->f32 T=33 N=1 top=17" },
    { "moe_sum bf16->bf16 T=20 N=264 top=8 weights=1 tokens=1" },
    { "moe_sum f32->f32 T=12 N=40 top=5 residual=1 inplace=1 tokens=1" },
    { "moe_sum bf16->bf16 T=7 N=256 top=4 residual=1 inplace=1" },
    { "moe_sum bf16->bf16 T=6 N=64 top=2 R=-1 residual=1" },
    { "moe_sum bf16->bf16 T=6 N=64 top=2 R=1 weights=1" },
    { "moe_sum f16->f16 T=6 N=64 top=8 R=500 weights=1" },
    { "moe_sum f16->f16 T=0 N=64 top=8" },
    { "moe_sum f16->f16 T=4 N=0 top=8" },
};

static const struct op_case identities[] = {
    { "moe_sum bf16->bf16 T=8 N=1024 top=12 identity=1" },
    { "moe_sum f16->f32 T=5 N=129 top=9 weights=1 identity=1 residual=1 tokens=1" },
    { "moe_sum f32->f32 T=7 N=260 top=3 identity=1 residual=1 inplace=1", I },
    { "moe_sum bf16->bf16 T=6 N=64 top=2 R=-1 identity=1" },
    { "moe_sum bf16->bf16 T=6 N=72 top=32 identity=1 ldi=80 ldiw=33" },
    { "moe_sum bf16->f32 T=5 N=300 top=8 identity=1", R, true },
    { "moe_sum f32->bf16 T=20 N=64 top=4 identity=1", S },
};

static const struct op_case layouts[] = {
    { "moe_sum bf16->bf16 T=5 N=512 top=8 ldx=520 ldy=528 ldr=536 residual=1" },
    { "moe_sum bf16->f32 T=5 N=514 top=3 ldx=515 ldy=518 weights=1 ldp=4 ldw=7" },
    { "moe_sum f32->bf16 T=5 N=510 top=3 ldy=511 residual=1" },
    { "moe_sum f32->f16 T=5 N=512 top=4 align=8 align_y=4 residual=1 ldr=514" },
    { "moe_sum f16->f16 T=5 N=256 top=8 align=4 align_y=8 weights=1" },
    { "moe_sum bf16->bf16 T=5 N=300 top=8 weights=1", R, true },
    { "moe_sum f16->f32 T=5 N=301 top=8 residual=1", R, true },
    { "moe_sum f32->f32 T=5 N=301 top=8 residual=1 inplace=1 ldy=303 ldr=303", R, true },
};

static const struct op_case values[] = {
    { "moe_sum bf16->bf16 T=20 N=128 top=8 weights=1", S },
    { "moe_sum f16->f16 T=20 N=72 top=3 residual=1", S },
    { "moe_sum f32->f32 T=20 N=64 top=4 weights=1 residual=1", S },
    { "moe_sum f32->bf16 T=20 N=64 top=8 R=3", S },
    { "moe_sum bf16->f32 T=20 N=64 top=9", I },
    { "moe_sum f32->bf16 T=20 N=200 top=8", RFG_DATA_CANCEL, false },
};

OP_CASES(right_shapes, shapes, "sums of experts")
OP_CASES(right_identities, identities, "sums of experts and identities")
OP_CASES(right_layouts, layouts, "strides and alignment of sums of experts")
OP_CASES(right_values, values, "sums of experts of NaN, inf, integers")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "moe_sum bf16->bf16 T=50 N=1000 top=8 weights=1", "moe_sum_rows{threads=64,slots=8}",
                  3);
    op_few_groups(op_device(_i), "moe_sum f32->f32 T=50 N=1000 top=2", "moe_sum_portable{}", 2);
}
END_TEST

/* By hand: the order of slots, one rounding, places that are no rows, whose weights don't matter. */
START_TEST(rules)
{
    rfg_context *ctx = op_context("cpu");
    float x[] = { 1, 0x1p-12f, 0x1p24f, -0x1p24f, 1, 3 };
    int32_t places[] = { 2, 0, 3, 5, 6, -1, -2147483647 - 1, 2147483647, 1, 0, -1, 7 };
    float weights[] = { 1, 1, 1, 1, NAN, INFINITY, NAN, NAN, 2, 1, NAN, NAN }, y[3];
    uint16_t half[3];
    rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 6, 1, 1), tp = rfg_tensor_2d(places, RFG_I32, 3, 4, 4),
               tw = rfg_tensor_2d(weights, RFG_F32, 3, 4, 4), ty = rfg_tensor_2d(y, RFG_F32, 3, 1, 1),
               th = rfg_tensor_2d(half, RFG_BF16, 3, 1, 1);
    rfg_moe_sum_params p = { .size = sizeof(p), .weights = &tw };
    ck_assert_msg(rfg_op_moe_sum(ctx, &ty, &tx, &tp, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert(y[0] == 3 && y[1] == 0 && y[2] == 1 + 0x1p-11f); /* 2^24 + 1 is 2^24 */
    ck_assert_msg(rfg_op_moe_sum(ctx, &th, &tx, &tp, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert(half[0] == 0x4040 && half[1] == 0 && half[2] == 0x3f80);
    /* Rows that don't count are not written. */
    int32_t tokens[] = { 1, 0, -5 };
    for (int i = 0; i < 3; i++) {
        rfg_tensor tt = rfg_tensor_1d(&tokens[i], RFG_I32, 1);
        p.tokens = &tt;
        y[0] = y[1] = y[2] = 77;
        ck_assert_msg(rfg_op_moe_sum(ctx, &ty, &tx, &tp, &p, NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert(y[0] == (i ? 77 : 3) && y[1] == 77 && y[2] == 77);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("moe_sum", OP_TESTS(right_shapes, right_identities, right_layouts, right_values),
                        OP_TESTS(rules), OP_TESTS(rows_by_turns));
}
