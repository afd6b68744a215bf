/* SPDX-License-Identifier: MIT
 *
 * Refusals of operators that are made of others, or gather: sizes that don't fit one another or a machine. (test_args.c
 * makes each argument wrong in turn.) */
#include <inttypes.h>

#include "ops/problem.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

/* What mx formats have to be. */
START_TEST(wrong_mx)
{
    enum { T = 4, TOP = 2, E = 4 };
    static const struct {
        int64_t hidden, inner;
        rfg_dtype x, w, scale;
        int32_t codes, rounding;
        const char *words; /* NULL: it is right */
    } cases[] = {
        { 64, 96, RFG_BF16, RFG_E2M1, RFG_E8M0, 0, 0, NULL },
        { 64, 96, RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_E4M3, RFG_SCALE_CEIL, NULL },
        { 48, 96, RFG_BF16, RFG_E2M1, RFG_E8M0, 0, 0, "H is 48, I 96: must be multiples of 32 with x_per group" },
        { 64, 80, RFG_BF16, RFG_E2M1, RFG_E8M0, 0, 0, "H is 64, I 80: must be multiples of 32 with x_per group" },
        { 64, 96, RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_I8, 0, "x_codes i8: must be of e2m1 or e4m3" },
        { 64, 96, RFG_BF16, RFG_E4M3, RFG_E8M0, RFG_E2M1, 0, "x_codes e2m1: must be of e2m1 or e4m3" },
        { 64, 96, RFG_E2M1, RFG_E4M3, RFG_E8M0, 0, 0, "w1 is e4m3, x e2m1, x_codes none: must be" },
        { 64, 96, RFG_BF16, RFG_I4, RFG_E8M0, 0, 0, "w1 is i4, x bf16, x_codes none: must be of e2m1 or e4m3" },
        { 64, 96, RFG_BF16, RFG_E2M1, RFG_F32, 0, 0, "w1_scale is f32: must be e8m0 with x_per group" },
        { 64, 96, RFG_BF16, RFG_E2M1, RFG_F32, 0, RFG_SCALE_UP, "rounding is 1: must be 0" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        int64_t h = cases[i].hidden, n = cases[i].inner;
        rfg_tensor x = rfg_tensor_2d(NULL, cases[i].x, T, h, h), y = rfg_tensor_2d(NULL, RFG_BF16, T, h, h);
        rfg_tensor ids = rfg_tensor_2d(NULL, RFG_I32, T, TOP, TOP);
        rfg_tensor weights = rfg_tensor_2d(NULL, RFG_F32, T, TOP, TOP);
        rfg_tensor w1 = rfg_tensor_2d(NULL, cases[i].w, E * 2 * n, h, h),
                   w2 = rfg_tensor_2d(NULL, cases[i].w, E * h, n, n);
        rfg_tensor s1 = rfg_tensor_2d(NULL, cases[i].scale, E * 2 * n, h / 32, h / 32), xs = s1;
        rfg_moe_params p = RFG_MOE_PARAMS_INIT;
        size_t bytes = 0;
        p.experts = E;
        p.x_per = p.w_per = RFG_GEMM_SCALE_GROUP;
        p.w1_scale = p.w2_scale = &s1;
        p.x_scale = rfg_dtype_is_float(cases[i].x) ? NULL : &xs;
        p.x_codes = cases[i].codes;
        p.rounding = cases[i].rounding;
        rfg_status st = rfg_moe_workspace_bytes(&y, &x, &w1, &w2, &ids, &weights, &p, &bytes);
        ck_assert_msg(st == (cases[i].words ? RFG_ERROR_INVALID_ARGUMENT : RFG_OK), "%d: %s", i, rfg_last_error());
        ck_assert_msg(!cases[i].words || strstr(rfg_last_error(), cases[i].words), "%d: %s", i, rfg_last_error());
    }
}
END_TEST

/* An x that stays as it is beside a w of 8 bits has no scales. */
START_TEST(wrong_w8a16)
{
    enum { T = 4, TOP = 2, E = 4, H = 128, N = 128 };
    static const struct {
        rfg_dtype x, w;
        int32_t codes;
        rfg_gemm_scale per;
        int scale;         /* 1: x_scale is given, 2: h_scale */
        const char *words; /* NULL: it is right */
    } cases[] = {
        { RFG_BF16, RFG_E4M3, RFG_BF16, 0, 0, NULL },
        { RFG_F16, RFG_I8, RFG_F16, 0, 0, NULL },
        { RFG_BF16, RFG_E4M3, RFG_F16, 0, 0, "x_codes is f16: must be 0" },
        { RFG_F32, RFG_E4M3, RFG_F32, 0, 0, "x_codes is f32: must be 0" },
        { RFG_BF16, RFG_BF16, RFG_BF16, 0, 0, "x_codes is bf16: must be 0" },
        { RFG_BF16, RFG_E4M3, RFG_BF16, RFG_GEMM_SCALE_BLOCK, 0, "x_per is 2: must be RFG_GEMM_SCALE_TENSOR" },
        { RFG_BF16, RFG_E4M3, RFG_BF16, 0, 1, "x_scale is given: must be NULL, x_codes is bf16" },
        { RFG_BF16, RFG_E4M3, RFG_BF16, 0, 2, "h_scale is given: must be NULL, x_codes is bf16" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        rfg_tensor x = rfg_tensor_2d(NULL, cases[i].x, T, H, H), y = rfg_tensor_2d(NULL, RFG_BF16, T, H, H);
        rfg_tensor ids = rfg_tensor_2d(NULL, RFG_I32, T, TOP, TOP), weights = ids;
        rfg_tensor w1 = rfg_tensor_2d(NULL, cases[i].w, E * 2 * N, H, H),
                   w2 = rfg_tensor_2d(NULL, cases[i].w, E * H, N, N);
        rfg_tensor s = rfg_tensor_2d(NULL, RFG_F32, E * 2, 1, 1), one = rfg_tensor_1d(NULL, RFG_F32, 1);
        rfg_moe_params p = RFG_MOE_PARAMS_INIT;
        size_t bytes = 0;
        weights.dtype = RFG_F32;
        p.experts = E;
        p.w_per = RFG_GEMM_SCALE_BLOCK;
        p.x_per = cases[i].per;
        p.w1_scale = p.w2_scale = &s;
        p.x_scale = cases[i].scale == 1 ? &one : NULL;
        p.h_scale = cases[i].scale == 2 ? &one : NULL;
        p.x_codes = cases[i].codes;
        rfg_status st = rfg_moe_workspace_bytes(&y, &x, &w1, &w2, &ids, &weights, &p, &bytes);
        ck_assert_msg(st == (cases[i].words ? RFG_ERROR_INVALID_ARGUMENT : RFG_OK), "%d: %s", i, rfg_last_error());
        ck_assert_msg(!cases[i].words || strstr(rfg_last_error(), cases[i].words), "%d: %s", i, rfg_last_error());
    }
}
END_TEST

/* Prepacked weights of 4 bits are whole blocks of 128 columns, whatever hidden and intermediate size are. */
START_TEST(workspace_of_padded)
{
    enum { T = 4, TOP = 2, E = 4, H = 96, I = 160 };
    static const struct {
        int64_t w1_cols, w2_cols;
        bool fits;
    } sizes[] = { { 128, 256, true }, { 256, 256, false }, { 128, 128, false } };
    rfg_tensor x = rfg_tensor_2d(NULL, RFG_BF16, T, H, H), ids = rfg_tensor_2d(NULL, RFG_I32, T, TOP, TOP);
    rfg_tensor weights = rfg_tensor_2d(NULL, RFG_F32, T, TOP, TOP);
    rfg_moe_params p = RFG_MOE_PARAMS_INIT;
    p.experts = E;
    for (int i = 0; i < COUNT(sizes); i++) {
        rfg_tensor w1 = rfg_tensor_prepacked(NULL, RFG_E2M1, E * 2 * I, sizes[i].w1_cols);
        rfg_tensor w2 = rfg_tensor_prepacked(NULL, RFG_E2M1, E * H, sizes[i].w2_cols);
        size_t bytes = 0;
        rfg_status st = rfg_moe_workspace_bytes(&x, &x, &w1, &w2, &ids, &weights, &p, &bytes);
        ck_assert_msg(st == (sizes[i].fits ? RFG_OK : RFG_ERROR_INVALID_ARGUMENT), "%d: %s", i, rfg_last_error());
        ck_assert_int_eq(bytes > 0, sizes[i].fits);
    }
}
END_TEST

/* Rows are gathered from an x that has none: there is no last one that they could count as. */
START_TEST(gather_from_no_rows)
{
    rfg_context *ctx = op_context("cpu");
    float y[4 * 8], w[2 * 8 * 8] = { 0 };
    int32_t offsets[] = { 0, 2, 4 }, rows[] = { 0, 1, -1, INT32_MAX };
    rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, 4, 8, 8), tx = rfg_tensor_2d(w, RFG_F32, 0, 8, 8);
    rfg_tensor tw = rfg_tensor_2d(w, RFG_F32, 16, 8, 8), to = rfg_tensor_1d(offsets, RFG_I32, 3);
    rfg_tensor tr = rfg_tensor_1d(rows, RFG_I32, 4);
    rfg_gemm_params p = { .size = sizeof(p), .offsets = &to, .rows = &tr };
    op_refused(rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL), "x has no rows: must have those that rows says, 4");
    tx.shape[0] = 1;
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    tx.shape[0] = ty.shape[0] = tr.shape[0] = 0; /* nothing is gathered */
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
}
END_TEST

/* Products of sizes that are more than numbers hold. */
START_TEST(sizes_that_overflow)
{
    static const char *const problems[] = {
        "gemm bf16,bf16->bf16 M=4 N=2147483647 K=8 experts=2147483647",
        "gemm bf16,bf16->bf16 M=4 N=65536 K=8 experts=65536",
        "gemm bf16,bf16->bf16 M=4 N=2097152 K=8 experts=1024 top=2",
    };
    for (int i = 0; i < COUNT(problems); i++)
        op_problem_refused(problems[i], "experts=");
    rfg_context *ctx = op_context("cpu");
    static _Alignas(256) char memory[256];
    const int64_t most = INT32_MAX;
    rfg_tensor y = rfg_tensor_2d(memory, RFG_BF16, 1, most, most), x = rfg_tensor_2d(memory, RFG_BF16, 1, 1, 1);
    rfg_tensor offsets = rfg_tensor_1d(memory, RFG_I32, most), w = rfg_tensor_2d(memory, RFG_BF16, most, 1, 1);
    rfg_gemm_params p = { .size = sizeof(p), .offsets = &offsets, .gated = 1 };
    ck_assert_int_eq(rfg_op_gemm(ctx, &y, &x, &w, &p, NULL), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(rfg_last_error(), "w 2147483647 x 1") || strstr(rfg_last_error(), "experts"), "%s",
                  rfg_last_error());
    rfg_context_destroy(&ctx);

    /* Its rows of results would be more bytes than 64 bits say. */
    enum { TOP = 31 };
    int64_t t = INT64_C(1) << 26;
    rfg_tensor of_x = rfg_tensor_2d(NULL, RFG_F32, t, most, most), ids = rfg_tensor_2d(NULL, RFG_I32, t, TOP, TOP);
    rfg_tensor weights = rfg_tensor_2d(NULL, RFG_F32, t, TOP, TOP);
    rfg_tensor w1 = rfg_tensor_2d(NULL, RFG_F32, 2, most, most), w2 = rfg_tensor_2d(NULL, RFG_F32, most, 1, 1);
    rfg_moe_params moe = { .size = sizeof(moe), .experts = 1 };
    size_t bytes = 0;
    op_refused(rfg_moe_workspace_bytes(&of_x, &of_x, &w1, &w2, &ids, &weights, &moe, &bytes),
               "T k (H + I) must be at most 2^56");
    ids.shape[0] = weights.shape[0] = of_x.shape[0] = 1 << 20;
    ck_assert_msg(rfg_moe_workspace_bytes(&of_x, &of_x, &w1, &w2, &ids, &weights, &moe, &bytes) == RFG_OK, "%s",
                  rfg_last_error());
    ck_assert_uint_gt(bytes, UINT64_C(1) << 56);
}
END_TEST

int main(void)
{
    return op_main("composed", OP_TESTS(NULL),
                   OP_TESTS(wrong_mx, wrong_w8a16, workspace_of_padded, gather_from_no_rows, sizes_that_overflow));
}
