/* SPDX-License-Identifier: MIT
 *
 * What rfg_op_gemm refuses, and in which words. */
#include <stdint.h>

#include "rfg/rfg.h"
#include "tests/op_cases.h"

static struct {
    rfg_context *ctx;
    _Alignas(64) uint16_t x[64 * 64], w[64 * 64], y[64 * 64], bias[64];
    rfg_tensor tx, tw, ty, tb;
} g;

static void fresh(void)
{
    for (int i = 0; i < 64 * 64; i++)
        g.x[i] = g.w[i] = 0x3f80, g.y[i] = 0x7777;
    g.tx = rfg_tensor_2d(g.x, RFG_BF16, 4, 32, 32);
    g.tw = rfg_tensor_2d(g.w, RFG_BF16, 8, 32, 32);
    g.ty = rfg_tensor_2d(g.y, RFG_BF16, 4, 8, 8);
    g.tb = rfg_tensor_1d(g.bias, RFG_BF16, 8);
}

/* The call must fail with st, say each of the words, and write nothing. */
static void refused(rfg_status st, const rfg_tensor *bias, const char *const *words)
{
    rfg_gemm_params p = { .size = sizeof(p), .bias = bias };
    rfg_status got = rfg_op_gemm(g.ctx, &g.ty, &g.tx, &g.tw, &p, NULL);
    ck_assert_msg(got == st, "%s, not %s: %s", rfg_status_name(got), rfg_status_name(st), rfg_last_error());
    for (; *words; words++)
        ck_assert_msg(strstr(rfg_last_error(), *words) != NULL, "no '%s' in: %s", *words, rfg_last_error());
    for (int i = 0; i < 64 * 64; i++)
        ck_assert_msg(g.y[i] == 0x7777, "refused, but wrote y[%d]", i);
    fresh();
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

START_TEST(refusals)
{
    const rfg_status bad = RFG_ERROR_INVALID_ARGUMENT;
    rfg_gemm_params p = { .size = sizeof(p), .bias = &g.tb };
    g.ctx = op_context("cpu");
    fresh();
    ck_assert_msg(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &g.tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_ne(g.y[0], 0x7777);
    fresh();

    g.tx.data = NULL;
    refused(bad, NULL, WORDS("x's data is NULL", "4 x 32"));
    g.tx.dtype = (rfg_dtype)77;
    refused(bad, NULL, WORDS("x has dtype 77", "must be bf16, f16, f32, e4m3"));
    g.tw.dtype = RFG_F16;
    refused(bad, NULL, WORDS("dtype of w is f16: must be x's, bf16"));
    g.tw.dtype = RFG_I32;
    refused(bad, NULL, WORDS("dtype of w is i32: must be bf16, f16 or f32"));
    g.tb.dtype = RFG_F16;
    refused(bad, &g.tb, WORDS("bias is f16", "must be x's dtype, bf16, or f32"));
    g.tb.dtype = RFG_I8;
    refused(bad, &g.tb, WORDS("bias is i8"));
    g.tb.data = (char *)g.bias + 2;
    g.tb.dtype = RFG_F32;
    refused(bad, &g.tb, WORDS("bias's data is", "aligned to its element, 4 bytes"));
    g.tx.ndim = 1;
    refused(bad, NULL, WORDS("x has 1 dimensions", "must have 2"));
    g.tb.ndim = 2;
    refused(bad, &g.tb, WORDS("bias has 2 dimensions", "must have 1"));
    g.tw.shape[1] = 31;
    refused(bad, NULL, WORDS("w has 31 columns", "must be x's columns, 32"));
    g.tw.shape[0] = 9;
    refused(bad, NULL, WORDS("w has 9 rows", "must be y's columns, 8"));
    g.tb.shape[0] = 7;
    refused(bad, &g.tb, WORDS("bias has 7 elements", "must be y's columns, 8"));
    g.ty.shape[0] = -1;
    refused(bad, NULL, WORDS("y is -1 x 8", "0 to 2147483647"));
    g.tx.shape[0] = g.ty.shape[0] = INT64_C(1) << 31;
    refused(bad, NULL, WORDS("2147483648", "0 to 2147483647"));
    g.tx.strides[1] = 2;
    refused(bad, NULL, WORDS("x has stride 2 in its last dimension", "must be 1"));
    g.tx.strides[0] = 31;
    refused(bad, NULL, WORDS("x has row stride 31", "at least its 32 columns"));
    g.tw.strides[0] = -32;
    refused(bad, NULL, WORDS("w has row stride -32"));
    g.ty.strides[0] = INT64_MAX / 2;
    refused(bad, NULL, WORDS("y has row stride 4611686018427387903", "at most"));
    g.tx.data = (char *)g.x + 1;
    refused(bad, NULL, WORDS("x's data is", "aligned to its element, 2 bytes"));
    g.tx.data = (void *)(UINTPTR_MAX - 15);
    refused(bad, NULL, WORDS("x at", "wraps around"));
    g.ty.data = g.x + 127;
    refused(bad, NULL, WORDS("overlaps x", "may not alias"));
    g.ty.data = g.w + 8;
    refused(bad, NULL, WORDS("overlaps w"));
    g.ty.data = g.bias;
    refused(bad, &g.tb, WORDS("overlaps bias"));
    rfg_tensor scales = rfg_tensor_2d(g.bias, RFG_F32, 8, 1, 1);
    p = (rfg_gemm_params){ .size = sizeof(p), .w_scale = &scales };
    ck_assert_int_eq(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &g.tw, &p, NULL), bad);
    ck_assert_str_eq(rfg_last_error(), "rfg_op_gemm: w_scale=f32: must be none, w is bf16");
    rfg_tensor other = g.ty, half = rfg_tensor_2d(g.y, g.ty.dtype, g.ty.shape[0], 4, 4);
    other.dtype = RFG_F32;
    other.data = g.bias;
    static const char *const ends[] = { "residual is f32: must be y's dtype, bf16",
                                        "w has 8 rows: must be twice y's columns, 16",
                                        "act is 8: must be an rfg_act from 0 to 7", "act=silu: has no residual" };
    for (int i = 0; i < 4; i++) {
        p = (rfg_gemm_params){ .size = sizeof(p), .residual = i == 0 ? &other : i == 3 ? &half : NULL, .gated = i > 0 };
        p.act = i == 2 ? RFG_ACT_NONE : RFG_ACT_SILU;
        ck_assert_int_eq(rfg_op_gemm(g.ctx, i > 1 ? &half : &g.ty, &g.tx, &g.tw, &p, NULL), bad);
        ck_assert_msg(strstr(rfg_last_error(), ends[i]) != NULL, "%d: %s", i, rfg_last_error());
    }
    p = (rfg_gemm_params){ .size = sizeof(p), .act = RFG_ACT_RELU };
    op_refused(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &g.tw, &p, NULL),
               "act is 3, gates 0, limit 0, alpha 0: must be 0, it is not gated");
    ck_assert_int_eq(g.y[0], 0x7777);
    g.tx = g.tw;
    g.tx.shape[0] = 4; /* inputs may overlap each other */
    ck_assert_int_eq(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &g.tw, NULL, NULL), RFG_OK);
    fresh();
    op_refused(rfg_op_gemm(NULL, &g.ty, &g.tx, &g.tw, NULL, NULL), "ctx is NULL");
    op_refused(rfg_op_gemm(g.ctx, NULL, &g.tx, &g.tw, NULL, NULL), "y is NULL");
    op_refused(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &g.tw, NULL, (rfg_stream)&g), "stream");
    rfg_context_destroy(&g.ctx);
}
END_TEST

/* Scales and zero points of a w of 4 bits. */
START_TEST(refusals_4_bits)
{
    static const struct {
        const char *what, *says;
        rfg_dtype x, w, scale, zero; /* NONE: not given */
        int scale_rows, scale_cols, zero_cols, ld;
    } bad[] = {
        { "no scales", "w_scale=none: must be f32, f16 or bf16, w is i4", RFG_BF16, RFG_I4, 0, 0, 0, 0, 0, 0 },
        { "e8m0 in groups of 16", "w_group=16: must be a multiple of 32", RFG_F16, RFG_E2M1, RFG_E8M0, 0, 8, 4, 0, 4 },
        { "e8m0 with i4", "w_scale=e8m0: must be f32, f16 or bf16", RFG_F16, RFG_I4, RFG_E8M0, 0, 8, 2, 0, 2 },
        { "x of fp32", "dtype of w is i4: must be bf16, f16 or f32", RFG_F32, RFG_I4, RFG_F16, 0, 8, 2, 0, 2 },
        { "a small group", "w_group=8: must be a multiple of 16, or K=64", RFG_BF16, RFG_I4, RFG_F16, 0, 8, 8, 0, 8 },
        { "too few rows", "w_scale is 7 x 2: must be [N,K/group]", RFG_BF16, RFG_I4, RFG_F16, 0, 7, 2, 0, 2 },
        { "rows apart", "w_scale has row stride 3: must be its columns, 2", RFG_BF16, RFG_I4, RFG_F16, 0, 8, 2, 0, 3 },
        { "another group's zeros", "w_zero is 8 x 1", RFG_BF16, RFG_I4, RFG_F16, RFG_I8, 8, 2, 1, 2 },
        { "zeros of i4", "w_zero is i4: must be i8", RFG_BF16, RFG_I4, RFG_F16, RFG_I4, 8, 2, 2, 2 },
        { "zeros of mxfp4", "w_zero=i8: must be none, w is e2m1", RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_I8, 8, 2, 2, 2 },
        { "zeros of bf16", "w_zero=i8: must be none, w is bf16", RFG_BF16, RFG_BF16, 0, RFG_I8, 0, 0, 2, 0 },
        { "zeros, no scales", "w_scale=none: must be", RFG_BF16, RFG_I4, 0, RFG_I8, 0, 0, 2, 0 },
    };
    g.ctx = op_context("cpu");
    fresh();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        rfg_tensor x = rfg_tensor_2d(g.x, bad[i].x, 4, 64, 64), w = rfg_tensor_2d(g.w, bad[i].w, 8, 64, 64);
        rfg_tensor s = rfg_tensor_2d(g.bias, bad[i].scale, bad[i].scale_rows, bad[i].scale_cols, bad[i].ld);
        rfg_tensor z = rfg_tensor_2d(g.bias, bad[i].zero, 8, bad[i].zero_cols, bad[i].zero_cols);
        rfg_gemm_params p = { .size = sizeof(p),
                              .w_scale = bad[i].scale ? &s : NULL,
                              .w_zero = bad[i].zero ? &z : NULL };
        ck_assert_msg(rfg_op_gemm(g.ctx, &g.ty, &x, &w, &p, NULL) == RFG_ERROR_INVALID_ARGUMENT, "%s", bad[i].what);
        ck_assert_msg(strstr(rfg_last_error(), bad[i].says) != NULL, "%s: %s", bad[i].what, rfg_last_error());
        ck_assert_int_eq(g.y[0], 0x7777);
    }
    rfg_tensor w = rfg_tensor_2d(g.w, RFG_I4, 8, 32, 32), s = rfg_tensor_2d(g.y, RFG_F16, 8, 1, 1);
    rfg_gemm_params p = { .size = sizeof(p), .w_scale = &s };
    op_refused(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &w, &p, NULL), "overlaps w_scale");
    rfg_tensor s2 = rfg_tensor_2d(g.bias, RFG_F16, 8, 1, 1), z = rfg_tensor_2d(g.y, RFG_I8, 8, 1, 1);
    p.w_scale = &s2;
    p.w_zero = &z;
    op_refused(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &w, &p, NULL), "overlaps w_zero");
    p.w_zero = NULL;
    for (int n = 0; n < 8; n++) { /* row n of w: n - 4, times 0.5 */
        memset((uint8_t *)g.w + n * 16, ((n - 4) & 15) * 17, 16);
        rfg_store(g.bias, RFG_F16, n, 0.5);
    }
    ck_assert_msg(rfg_op_gemm(g.ctx, &g.ty, &g.tx, &w, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < 4 * 8; i++)
        ck_assert_msg(rfg_load(g.y, RFG_BF16, i) == 16 * (i % 8 - 4), "y[%d] is %g", i, rfg_load(g.y, RFG_BF16, i));
    rfg_context_destroy(&g.ctx);
}
END_TEST

START_TEST(bad_problems)
{
    static const char *const bad[][2] = {
        { "gemm e2m1,e2m1->bf16 M=1 N=8 K=8", "must both be group, x is e2m1" },
        { "gemm bf16,bf16->i32 M=1 N=8 K=8", "dtype of y is i32" },
        { "gemm bf16,f16->bf16 M=1 N=8 K=8", "dtype of w is f16: must be x's, bf16" },
        { "gemm bf16,i32->bf16 M=1 N=8 K=8", "dtype of w is i32" },
        { "gemm bf16,bf16->bf16 M=1 N=8 K=8 w_scale=f32 w_group=8", "w_scale=f32: must be none, w is bf16" },
        { "gemm bf16,bf16->bf16 M=1 N=8 K=8 w_scale=i8",
          "w_scale=i8: must be one of none, f32, f16, bf16, e4m3, e8m0" },
        { "gemm bf16,bf16->bf16 M=1 N=8 K=8 w_group=8", "w_group=8: must be 0, w has no scales" },
        { "gemm bf16,i4->bf16 M=1 N=8 K=64 w_group=32", "w_scale=none: must be f32, f16 or bf16, w is i4" },
        { "gemm bf16,i4->bf16 M=1 N=8 K=64 w_scale=f16 w_group=24", "w_group=24: must be a multiple of 16, or K=64" },
        { "gemm bf16,i4->bf16 M=1 N=8 K=64 w_scale=f16 w_group=32 ldw=65", "whole blocks of i4, 2 elements" },
        { "gemm bf16,i4->bf16 M=1 N=8 K=64 w_scale=f16 w_zero=f16 w_group=32", "w_zero=f16: must be one of none, i8" },
        { "gemm f32,i4->f32 M=1 N=8 K=64 w_scale=f32 w_group=32", "dtype of w is i4" },
        { "gemm bf16,bf16->bf16 M=1 N=8 K=8 btype=f32", "btype=f32: there is no bias" },
        { "gemm f32,f32->bf16 M=1 N=8 K=8 bias=1 btype=f32", "btype=f32: is what it is without, x is f32" },
        { "gemm bf16,bf16->bf16 M=1 N=8 K=8 bias=1 btype=f16", "btype=f16: must be f32, or not said" },
        { "gemm bf16,bf16->bf16 M=1 N=8 K=8 act=swish", "act=swish" },
        { "gemm bf16,bf16->bf16 M=1 N=7 K=8 act=silu gates=interleaved", "N=7: must be even with act=silu" },
        { "gemm bf16,bf16->bf16 M=1 N=8 K=8 act=silu gates=interleaved residual=1", "act=silu: has no residual" },
        { "gemm bf16,bf16->bf16 M=2 N=8 K=8 act=silu gates=interleaved ldy=3",
          "ldy=3, ldr=0: must be at least y's columns, 4" },
        { "gemm bf16,bf16->bf16 M=2 N=8 K=8 ldr=9", "ldr=9, inplace=0: there is no residual" },
        { "gemm bf16,bf16->bf16 M=2 N=8 K=8 residual=1 inplace=1 ldr=9", "inplace=1: needs ldr=ldy" },
    };
    OP_PROBLEMS_REFUSED("", bad);
}
END_TEST

int main(void)
{
    return op_main("gemm_refused", OP_TESTS(NULL), OP_TESTS(refusals, refusals_4_bits, bad_problems));
}
