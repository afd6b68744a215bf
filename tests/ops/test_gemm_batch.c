/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm of a batch: a product for each of y's second dimension, with a w of its own, on the cpu and on the devices
 * of $RFG_TEST_DEVICES. All products' rows side by side, and their matrices one below the other; w with gaps between
 * matrices; and what is refused. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R        RFG_DATA_RANDOM
#define I        RFG_DATA_INTS
#define C        RFG_DATA_CANCEL
#define S        RFG_DATA_SPECIAL
#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

/* The first two are DeepSeek's absorption of a few heads. fp16 to fp32 has many terms: MI200's matrix instructions take
 * subnormals for 0, which a short sum would show. */
static const struct op_case shapes[] = {
    { "gemm bf16,bf16->bf16 M=1 N=512 K=128 batch=3" },
    { "gemm bf16,bf16->bf16 M=8 N=128 K=512 batch=2" },
    { "gemm f16,f16->f32 M=17 N=70 K=1032 batch=3", R, false },
    { "gemm bf16,bf16->f32 M=5 N=33 K=64 batch=4", I },
    { "gemm f16,f16->f16 M=4 N=24 K=200 batch=2", C },
    { "gemm f32,f32->f32 M=3 N=19 K=40 batch=5" },
    { "gemm bf16,bf16->f32 M=9 N=37 K=75 batch=3", R, false },
    { "gemm bf16,bf16->bf16 M=40 N=48 K=64 batch=2", S, false },
    { "gemm bf16,bf16->f32 M=130 N=20 K=64 batch=2", R, false },
    { "gemm bf16,bf16->bf16 M=2 N=16 K=32 batch=1" },
};

static const struct op_case layouts[] = {
    { "gemm bf16,bf16->bf16 M=6 N=40 K=64 batch=3 ldx=72" },
    { "gemm bf16,bf16->bf16 M=6 N=40 K=64 batch=3 ldy=40", R, false },
    { "gemm bf16,bf16->f32 M=6 N=40 K=64 batch=3 ldx=64 ldy=44" },
    { "gemm bf16,bf16->f32 M=6 N=40 K=64 batch=3 ldx=256 ldw=80 ldy=136", R, false },
    { "gemm f16,f16->f16 M=3 N=21 K=33 batch=4 ldx=35 ldw=37 ldy=90", R, false },
    { "gemm bf16,bf16->f32 M=0 N=8 K=16 batch=3" },
    { "gemm bf16,bf16->f32 M=4 N=0 K=16 batch=3" },
    { "gemm bf16,bf16->f32 M=4 N=8 K=0 batch=3" },
};

/* On Hopper alone: of a short k. */
static const struct op_case kernels[] = {
    { "gemm bf16,bf16->bf16 M=1 N=512 K=128 batch=3", R, false,
      "gemm_short_mma{tile_m=8,frags_n=2,waves=4,steps=4,along=2}" },
    { "gemm f16,f16->f32 M=40 N=120 K=256 batch=5 ldx=264 ldy=640", R, false,
      "gemm_short_mma{tile_m=16,frags_n=1,waves=2,steps=8,along=4}" },
};

OP_CASES(right_shapes, shapes, "batch")
OP_CASES(right_layouts, layouts, "batch_layouts")
OP_CASES(right_kernels, kernels, "batch_kernels")

START_TEST(bad_problems)
{
    static const char *const bad[][2] = {
        { "bf16,bf16->bf16 M=1 N=8 K=8 batch=2 bias=1", "bias=1: must be 0 with batch=2" },
        { "bf16,bf16->bf16 M=1 N=8 K=8 batch=2 residual=1", "residual=1: must be 0 with batch=2" },
        { "bf16,bf16->bf16 M=1 N=8 K=8 batch=2 act=silu", "act=1: must be 0 with batch=2" },
        { "bf16,bf16->bf16 M=4 N=8 K=8 batch=2 experts=2", "experts=2: must be 0 with batch=2" },
        { "bf16,bf16->bf16 M=1 N=16 K=32 batch=2 packed=1", "packed=1: must be 0 with batch=2" },
        { "bf16,bf16->e4m3 M=1 N=8 K=8 batch=2", "x is bf16, w bf16, y e4m3: must be" },
        { "bf16,e4m3->bf16 M=1 N=8 K=8 batch=2", "x is bf16, w e4m3, y bf16: must be" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=8 batch=2", "x is e4m3, w e4m3, y bf16: must be" },
        { "bf16,bf16->bf16 M=1 N=8 K=8 batch=65536", "batch" },
    };
    OP_PROBLEMS_REFUSED("gemm ", bad);
}
END_TEST

/* One product alone has no split through memory; clusters have none of that. */
START_TEST(splits)
{
#define DECODE "gemm bf16,bf16->bf16 M=4 N=512 K=2048 batch=16"
    op_config_taken("gfx942", DECODE, "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=4,unroll=4,split_k=2}",
                    "split_k=2: must be 1 with batch=16");
    op_config_taken("gfx942", DECODE, "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=4,unroll=4,split_k=1}", NULL);
    op_config_taken("gfx942", DECODE, "gemm_skinny{m_tile=4,rows=4,waves=1,unroll=2,split_k=2}",
                    "split_k=2: must be 1 with batch=16");
    op_config_taken("gfx942", DECODE, "gemm_splitk_mma{tile_m=16,tile_n=32,tile_k=128,k_waves=4,stages=3,split_k=2}",
                    "split_k=2: must be 1 with batch=16");
    op_config_taken("sm_90", DECODE, "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=4,split_k=4}", NULL);
    op_config_taken("sm_90", DECODE, "gemm_wgmma{swap=1,tile_m=64,tile_n=8,tile_k=64,stages=4,split=1}",
                    "batch=16: must be 0");
    op_config_taken("sm_90", DECODE, "gemm_short_mma{tile_m=8,frags_n=1,waves=4,steps=8,along=2}",
                    "K=2048: must be a multiple of 32, at most 8 of them");
    op_config_taken("sm_90", "gemm bf16,bf16->bf16 M=4 N=512 K=128 batch=16",
                    "gemm_short_mma{tile_m=8,frags_n=1,waves=4,steps=3,along=2}", "steps=3: must be 4, K=128");
#undef DECODE
}
END_TEST

/* x [M,B,K] and w [B,N,K] with gaps everywhere: y[m][b][n] is exact, of small integers. */
enum { M = 5, B = 3, N = 20, K = 24 };
static struct strided {
    uint16_t x[M * B * 100], w[B * N * 100];
    float y[M * B * 100];
} host;

static void strided(const char *device, const int64_t sx[2], const int64_t sw[2], const int64_t sy[2])
{
    static struct strided was;
    rfg_context *ctx = op_context(device);
    void *on;
    for (int i = 0; i < COUNT(host.x); i++)
        rfg_store(host.x, RFG_BF16, i, i * 7 % 13 - 6);
    for (int i = 0; i < COUNT(host.w); i++)
        rfg_store(host.w, RFG_BF16, i, i * 5 % 11 - 5);
    for (int i = 0; i < COUNT(host.y); i++)
        host.y[i] = -1e6f;
    was = host;
    ck_assert(rfg_device_alloc(ctx, &on, sizeof(host)) == RFG_OK);
    ck_assert(rfg_device_copy(ctx, on, &host, sizeof(host), RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
    struct strided *d = on;
    rfg_tensor x = { d->x, RFG_BF16, 3, { M, B, K }, { sx[0], sx[1], 1 } };
    rfg_tensor w = { d->w, RFG_BF16, 3, { B, N, K }, { sw[0], sw[1], 1 } };
    rfg_tensor y = { d->y, RFG_F32, 3, { M, B, N }, { sy[0], sy[1], 1 } };
    ck_assert_msg(rfg_op_gemm(ctx, &y, &x, &w, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert(rfg_device_copy(ctx, &host, on, sizeof(host), RFG_DEVICE_TO_HOST, NULL) == RFG_OK);
    ck_assert(rfg_stream_sync(ctx, NULL) == RFG_OK);
    for (int64_t m = 0; m < M; m++)
        for (int64_t b = 0; b < B; b++)
            for (int64_t n = 0; n < N; n++) {
                double sum = 0;
                for (int64_t k = 0; k < K; k++)
                    sum += rfg_load(was.x, RFG_BF16, m * sx[0] + b * sx[1] + k) *
                           rfg_load(was.w, RFG_BF16, b * sw[0] + n * sw[1] + k);
                was.y[m * sy[0] + b * sy[1] + n] = (float)sum;
            }
    for (int i = 0; i < COUNT(host.y); i++)
        ck_assert_msg(host.y[i] == was.y[i], "y[%d] is %g: must be %g", i, (double)host.y[i], (double)was.y[i]);
    ck_assert(rfg_device_free(ctx, on) == RFG_OK);
    rfg_context_destroy(&ctx);
}

START_TEST(strides)
{
    const char *device = op_device(_i);
    const int64_t rows_x[] = { B * K, K }, rows_y[] = { B * N, N }, gaps_x[] = { 90, 28 }, gaps_y[] = { 70, 22 };
    const int64_t matrix_x[] = { 30, 170 }, matrix_y[] = { 25, 140 }, w[] = { N * K, K }, gaps_w[] = { 30 * 32, 32 },
                  turns_w[] = { K, B * K };
    strided(device, rows_x, w, rows_y);
    strided(device, gaps_x, gaps_w, gaps_y);
    strided(device, matrix_x, turns_w, matrix_y);
    strided(device, rows_x, gaps_w, matrix_y);
}
END_TEST

START_TEST(refusals)
{
    static uint16_t x[4 * 3 * 16], w[3 * 8 * 16], y[4 * 3 * 8];
    static float list[16];
    rfg_context *ctx = op_context("cpu");
    const rfg_tensor tx = { x, RFG_BF16, 3, { 4, 3, 16 }, { 48, 16, 1 } },
                     tw = { w, RFG_BF16, 3, { 3, 8, 16 }, { 128, 16, 1 } },
                     ty = { y, RFG_BF16, 3, { 4, 3, 8 }, { 24, 8, 1 } }, bias = rfg_tensor_1d(list, RFG_F32, 8);
    rfg_gemm_params p = RFG_GEMM_PARAMS_INIT;
    rfg_tensor t = tx;
#define REFUSED(y, x, w, p, words) op_refused(rfg_op_gemm(ctx, y, x, w, p, NULL), words)
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    t.ndim = 2;
    REFUSED(&ty, &t, &tw, NULL, "x has 2 dimensions: must have 3");
    t = tw;
    t.ndim = 2;
    REFUSED(&ty, &tx, &t, NULL, "w has 2 dimensions: must have 3");
    t = tx;
    t.shape[1] = 2;
    REFUSED(&ty, &t, &tw, NULL, "x has 2 in dimension 1: must be y's batch, 3");
    t = tw;
    t.shape[0] = 2;
    REFUSED(&ty, &tx, &t, NULL, "w has 2 in dimension 0: must be y's batch, 3");
    t = tw;
    t.shape[2] = 8;
    REFUSED(&ty, &tx, &t, NULL, "w has 8 in dimension 2: must be x's columns, 16");
    t = tw;
    t.dtype = RFG_F16;
    REFUSED(&ty, &tx, &t, NULL, "w is f16: must be x's dtype, bf16");
    t = tw;
    t.dtype = RFG_E4M3;
    REFUSED(&ty, &tx, &t, NULL, "w is e4m3: must be x's dtype, bf16");
    t = tx;
    t.strides[0] = 8;
    REFUSED(&ty, &t, &tw, NULL, "x has stride 8 in dimension 0: must be at least its 16 columns");
    t = tw;
    t.strides[1] = (int64_t)1 << 31;
    REFUSED(&ty, &tx, &t, NULL, "w has stride 2147483648 in dimension 1: must be at least its 16 columns and at most");
    t = ty;
    t.strides[1] = 4;
    REFUSED(&t, &tx, &tw, NULL, "y has stride 4 in dimension 1: its elements would overlap");
    t = ty;
    t.data = x;
    REFUSED(&t, &tx, &tw, NULL, "y [");
    p.bias = &bias;
    REFUSED(&ty, &tx, &tw, &p, "bias is given: must be NULL, y has 3 dimensions");
    p.bias = NULL;
    p.residual = &ty;
    REFUSED(&ty, &tx, &tw, &p, "residual is given: must be NULL, y has 3 dimensions");
    p.residual = NULL;
    p.gated = 1;
    REFUSED(&ty, &tx, &tw, &p, "gated is 1, fast_accum 0, x_per 0, w_per 0: must be 0, y has 3 dimensions");
    p.gated = 0;
    p.w_per = RFG_GEMM_SCALE_ROW;
    REFUSED(&ty, &tx, &tw, &p, "w_per 1: must be 0, y has 3 dimensions");
#undef REFUSED
    rfg_tensor none_y = ty, none_x = tx, none_w = tw; /* a batch of none */
    none_y.shape[1] = none_x.shape[1] = none_w.shape[0] = 0;
    none_y.data = none_x.data = none_w.data = NULL;
    ck_assert_msg(rfg_op_gemm(ctx, &none_y, &none_x, &none_w, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main("gemm_batch", OP_TESTS(right_shapes, right_layouts, right_kernels, strides),
                   OP_TESTS(bad_problems, splits, refusals));
}
