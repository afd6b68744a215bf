/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm of a W whose blocks hold their scales (GGUF's), on the cpu and on the devices of $RFG_TEST_DEVICES: each
 * format, exactly and with X rounded to q8_1; and what is refused. */
#include <stdalign.h>

#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define S RFG_DATA_SPECIAL

static const struct op_case exact[] = {
    { "gemm bf16,q4_0->bf16 M=5 N=70 K=96" },
    { "gemm f16,q4_1->f32 M=2 N=33 K=64" },
    { "gemm f32,q5_0->f32 M=3 N=40 K=160" },
    { "gemm bf16,q5_1->f32 M=1 N=17 K=32" },
    { "gemm bf16,q8_0->bf16 M=4 N=48 K=64 bias=1" },
    { "gemm f16,q2_k->f32 M=2 N=20 K=512" },
    { "gemm bf16,q3_k->f32 M=2 N=20 K=256" },
    { "gemm bf16,q4_k->bf16 M=3 N=36 K=512 residual=1" },
    { "gemm f32,q5_k->bf16 M=2 N=20 K=256" },
    { "gemm bf16,q6_k->f32 M=2 N=20 K=512" },
    { "gemm bf16,iq4_nl->f32 M=2 N=20 K=64" },
    { "gemm f16,iq4_xs->f32 M=2 N=20 K=256" },
    { "gemm bf16,mxfp4->f32 M=2 N=20 K=96" },
    { "gemm bf16,nvfp4->f32 M=2 N=20 K=192" },
    { "gemm bf16,q6_k->f32 M=20 N=70 K=256 ldw=512 ldx=264 ldy=71", R, false },
    { "gemm bf16,q4_0->bf16 M=6 N=48 K=96 act=silu" },
    { "gemm bf16,q4_k->bf16 M=6 N=48 K=256 act=silu gates=interleaved" },
    { "gemm bf16,q8_0->bf16 M=12 N=24 K=64 experts=3 top=2" },
    { "gemm bf16,q4_0->f32 M=2 N=10 K=0 bias=1" },
    { "gemm bf16,q4_k->f32 M=3 N=40 K=512", S },
    { "gemm f16,q4_1->f32 M=3 N=40 K=128", S },
    { "gemm f32,q6_k->f32 M=3 N=40 K=256", S },
    { "gemm bf16,nvfp4->f32 M=3 N=40 K=128", S },
};

static const struct op_case rounded[] = {
    { "gemm bf16,q4_0->bf16 M=1 N=75 K=512 fast=1" },
    { "gemm f16,q4_0->f32 M=8 N=33 K=2304 fast=1" },
    { "gemm bf16,q8_0->bf16 M=2 N=64 K=2048 fast=1 bias=1" },
    { "gemm f32,q8_0->f32 M=4 N=20 K=512 fast=1" },
    { "gemm bf16,q4_k->bf16 M=1 N=300 K=4096 fast=1" },
    { "gemm bf16,q4_k->f32 M=3 N=41 K=2560 fast=1 ldx=2568 ldw=2816 ldy=43" },
    { "gemm bf16,q4_k->bf16 M=20 N=40 K=256 fast=1", R, false },
    { "gemm f16,q6_k->f32 M=1 N=70 K=2048 fast=1" },
    { "gemm bf16,q6_k->bf16 M=8 N=40 K=4096 fast=1 residual=1 inplace=1" },
    { "gemm bf16,q4_k->bf16 M=2 N=96 K=512 fast=1 act=silu" },
    { "gemm bf16,q4_0->bf16 M=5 N=40 K=512 fast=1 act=gelu gates=interleaved bias=1" },
    { "gemm bf16,q4_0->bf16 M=3 N=40 K=96 fast=1" },
    { "gemm bf16,q4_1->bf16 M=1 N=40 K=2048 fast=1" },
    { "gemm bf16,q5_0->f32 M=2 N=40 K=1024 fast=1" },
    { "gemm f16,q5_1->f32 M=1 N=40 K=1024 fast=1" },
    { "gemm bf16,q2_k->f32 M=2 N=40 K=2048 fast=1" },
    { "gemm bf16,q3_k->f32 M=1 N=40 K=2048 fast=1" },
    { "gemm bf16,q5_k->bf16 M=4 N=40 K=1024 fast=1" },
    { "gemm f16,iq4_nl->f32 M=1 N=40 K=2048 fast=1" },
    { "gemm bf16,iq4_xs->bf16 M=2 N=40 K=2048 fast=1" },
    { "gemm bf16,mxfp4->f32 M=1 N=40 K=2048 fast=1" },
    { "gemm bf16,nvfp4->f32 M=3 N=40 K=2048 fast=1" },
    { "gemm bf16,q6_k->f32 M=2 N=40 K=2048 fast=1", S },
};

OP_CASES(exact_cases, exact, "exact")
OP_CASES(rounded_cases, rounded, "rounded")

#define REFUSED(y, x, w, p, words)                                                                                     \
    do {                                                                                                               \
        ck_assert_int_eq(rfg_op_gemm(ctx, y, x, w, p, NULL), RFG_ERROR_INVALID_ARGUMENT);                              \
        ck_assert_msg(strstr(rfg_last_error(), words) != NULL, "%s", rfg_last_error());                                \
    } while (0)

START_TEST(refused)
{
    rfg_context *ctx = op_context("cpu");
    static alignas(16) uint8_t w[4096], x[4096], y[4096];
    rfg_tensor ty = rfg_tensor_2d(y, RFG_BF16, 2, 4, 4), tx = rfg_tensor_2d(x, RFG_BF16, 2, 256, 256);
    rfg_tensor tw = rfg_tensor_2d(w, RFG_Q4_K, 4, 256, 256), scale = rfg_tensor_2d(y, RFG_F32, 4, 8, 8), t = tw;
    rfg_gemm_params p = { .size = sizeof(p) };
    ck_assert_int_eq(rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL), RFG_OK);
    t.shape[1] = 192;
    REFUSED(&ty, &tx, &t, &p, "w has 192 columns of q4_k: must be whole blocks of 256");
    t = tw;
    t.strides[0] = 320;
    REFUSED(&ty, &tx, &t, &p, "w has row stride 320 of q4_k: must be whole blocks of 256");
    t = tw;
    t.data = w + 8;
    REFUSED(&ty, &tx, &t, &p, "must be aligned to its element, 16 bytes");
    p.w_scale = &scale;
    REFUSED(&ty, &tx, &tw, &p, "w_scale=f32: must be none, w is q4_k");
    p = (rfg_gemm_params){ .size = sizeof(p) };
    t = rfg_tensor_2d(x, RFG_E4M3, 2, 256, 256);
    REFUSED(&ty, &t, &tw, &p, "dtype of w is q4_k");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main("gemm_blocks", OP_TESTS(exact_cases, rounded_cases), OP_TESTS(refused));
}
