/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm of mx formats: e4m3 or e2m1 by e2m1, e4m3 by e4m3, each 32 columns of a row with a scale of e8m0, on both
 * sides. On the cpu and on the devices of $RFG_TEST_DEVICES; what rfg_op_quantize() makes of activations, multiplied;
 * and what is refused. */
#include <inttypes.h>
#include <math.h>

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/gpu.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R  RFG_DATA_RANDOM
#define S  RFG_DATA_SPECIAL
#define MX " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group"

static const struct op_case shapes[] = {
    { "gemm e4m3,e2m1->bf16 M=1 N=48 K=256" MX },           { "gemm e4m3,e2m1->f32 M=5 N=70 K=96" MX, R, true },
    { "gemm e4m3,e2m1->f16 M=9 N=64 K=384 packed=1" MX },   { "gemm e2m1,e2m1->f32 M=3 N=33 K=160" MX, R, true },
    { "gemm e2m1,e2m1->bf16 M=20 N=96 K=512 packed=1" MX }, { "gemm e4m3,e4m3->f32 M=6 N=50 K=224" MX, R, true },
    { "gemm e4m3,e4m3->bf16 M=18 N=40 K=288" MX },
};

static const struct op_case layouts[] = {
    { "gemm e4m3,e2m1->f32 M=7 N=37 K=128 ldx=131 ldw=134 ldy=43" MX },
    { "gemm e2m1,e2m1->f32 M=7 N=38 K=128 ldx=160 ldw=192 x_columns=1 w_columns=1" MX },
    { "gemm e4m3,e4m3->f32 M=5 N=21 K=64 x_columns=1 w_columns=1" MX },
    { "gemm e4m3,e2m1->f32 M=70 N=10 K=0 bias=1 btype=f32" MX },
    { "gemm e4m3,e2m1->f32 M=6 N=48 K=256 act=silu bias=1 btype=f32" MX },
    { "gemm e4m3,e2m1->bf16 M=6 N=48 K=256 act=swigluoai gates=interleaved packed=1" MX },
    { "gemm e2m1,e2m1->bf16 M=20 N=70 K=256 residual=1 inplace=1" MX },
    { "gemm e4m3,e2m1->f32 M=12 N=48 K=256" MX, S },
    { "gemm e4m3,e2m1->f32 M=12 N=48 K=256 packed=1" MX, S },
    { "gemm e2m1,e2m1->f32 M=12 N=48 K=256 packed=1" MX, S },
    { "gemm e4m3,e4m3->f32 M=12 N=48 K=256" MX, S },
    { "gemm e4m3,e2m1->f32 M=24 N=48 K=128 experts=3 top=2 weights=1 packed=1" MX },
    { "gemm e4m3,e2m1->f32 M=24 N=48 K=128 experts=3 act=silu bias=1 btype=f32" MX },
    { "gemm e2m1,e2m1->f32 M=24 N=32 K=128 experts=5 top=2 packed=1 bias=1 btype=f32" MX },
    { "gemm e4m3,e4m3->f32 M=24 N=40 K=96 experts=3 top=3" MX },
    { "gemm e4m3,e2m1->f32 M=5 N=32 K=96 packed=1" MX },
    { "gemm e2m1,e2m1->f32 M=9 N=48 K=224 packed=1" MX, S },
    { "gemm e2m1,e2m1->f32 M=24 N=32 K=160 experts=5 top=2 packed=1" MX },
};

/* Kernels of matrix cores, with their splits of k, by name: of a prepacked w, and by rows. */
static const struct op_case kernels[] = {
    { "gemm e4m3,e2m1->f32 M=20 N=80 K=1152 packed=1" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=4}" },
    { "gemm e4m3,e2m1->f32 M=7 N=48 K=512 packed=1" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=2}" },
    { "gemm e2m1,e2m1->f32 M=20 N=80 K=1152 packed=1" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=20 N=48 K=256 packed=1" MX, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=40 N=48 K=256 packed=1 experts=3 top=2" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=20 N=80 K=1184 packed=1" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=4}" },
    { "gemm e2m1,e2m1->f32 M=40 N=48 K=352 packed=1 experts=3 top=2" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=20 N=70 K=1184" MX, R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm e2m1,e2m1->f32 M=20 N=70 K=1184" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=2,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=20 N=70 K=1184" MX " act=silu gates=interleaved", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=1,unroll=2,split_k=2}" },
    { "gemm e4m3,e2m1->f32 M=20 N=48 K=224" MX, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=20 N=48 K=224" MX, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=40 N=48 K=160 experts=3 top=2 act=silu" MX, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=7 N=160 K=1024" MX, R, false, "gemm_skinny{m_tile=8,rows=2,waves=2,unroll=2,split_k=2}" },
    { "gemm e2m1,e2m1->f32 M=3 N=81 K=608" MX, S, false, "gemm_skinny{m_tile=4,rows=4,waves=1,unroll=2,split_k=2}" },
    { "gemm e4m3,e2m1->f32 M=7 N=160 K=7168 packed=1" MX, R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=7,unroll=2,split_k=8}" },
    { "gemm e4m3,e2m1->f32 M=30 N=160 K=2048 packed=1" MX, R, false,
      "gemm_thin_mma{tile_m=16,frags_n=2,k_waves=4,unroll=1,split_k=2}" },
    { "gemm e2m1,e2m1->f32 M=30 N=160 K=2048 packed=1" MX " bias=1 btype=f32", R, false,
      "gemm_thin_mma{tile_m=32,frags_n=1,k_waves=4,unroll=1,split_k=4}" },
    { "gemm e4m3,e2m1->f32 M=20 N=48 K=512 packed=1" MX, S, false,
      "gemm_thin_mma{tile_m=16,frags_n=1,k_waves=4,unroll=1,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=40 N=48 K=512 packed=1 experts=3 top=2" MX, R, false,
      "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=1,split_k=1}" },
};

/* Tiles of gfx950: steps that K doesn't fill, waves with less than 64 rows and with more, experts' rows, NaN. */
static const struct op_case tiles[] = {
    { "gemm e2m1,e2m1->f32 M=66 N=50 K=736" MX, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=2,split_k=3}" },
    { "gemm e2m1,e2m1->bf16 M=130 N=70 K=288" MX " bias=1 btype=f32", R, true,
      "gemm_tile{tile_m=128,tile_n=128,tile_k=256,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e2m1,e2m1->f32 M=70 N=81 K=288" MX, S, false,
      "gemm_tile{tile_m=128,tile_n=128,tile_k=256,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm e2m1,e2m1->f32 M=4000 N=16 K=32" MX, S, false, /* most of what a step could read is other rows' */
      "gemm_tile{tile_m=64,tile_n=64,tile_k=256,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e4m3,e2m1->f16 M=70 N=90 K=480" MX " ldx=512 ldw=576", R, false,
      "gemm_tile{tile_m=64,tile_n=128,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=2}" },
    { "gemm e4m3,e2m1->f32 M=40 N=81 K=352" MX, S, false,
      "gemm_tile{tile_m=128,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e4m3,e4m3->bf16 M=130 N=70 K=352" MX " residual=1", R, false,
      "gemm_tile{tile_m=256,tile_n=128,tile_k=128,waves_m=4,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=33 N=70 K=96" MX, S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e2m1,e2m1->bf16 M=70 N=130 K=320" MX, R, false,
      "gemm_tile{tile_m=256,tile_n=256,tile_k=128,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e2m1,e2m1->bf16 M=80 N=64 K=352 experts=3 top=2 act=silu" MX, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=256,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e4m3,e2m1->f32 M=80 N=66 K=416 experts=3 weights=1 bias=1 btype=f32" MX, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=2}" },
    { "gemm e4m3,e4m3->f32 M=140 N=50 K=160 experts=4 top=4 act=swigluoai gates=interleaved" MX, R, false,
      "gemm_tile{tile_m=128,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
};

OP_CASES(right_shapes, shapes, "mx formats")
OP_CASES(right_layouts, layouts, "mx formats: layouts, epilogues, experts, NaN")
OP_CASES(right_kernels, kernels, "mx formats: splits of k")
OP_CASES(right_tiles, tiles, "mx formats: tiles")

#define N_RANDOM 30
START_TEST(right_random)
{
    static char text[N_RANDOM][220];
    static const char *const pairs[] = { "e4m3,e2m1", "e2m1,e2m1", "e4m3,e4m3" }, *const ys[] = { "bf16", "f16",
                                                                                                  "f32" };
    struct op_case cases[N_RANDOM];
    uint64_t s = op_seed() ^ 0x4a11;
    for (int i = 0; i < N_RANDOM; i++) {
        const char *pair = pairs[rfg_random(&s) % 3], *y = ys[rfg_random(&s) % 3];
        bool packed = pair[5] == '2' && rfg_random(&s) % 2;
        int m = 1 + (int)(rfg_random(&s) % 40), n = 1 + (int)(rfg_random(&s) % 200),
            k = 32 * (1 + (int)(rfg_random(&s) % 24));
        if (packed) {
            n = (n + 15) / 16 * 16;
            k = (k + 127) / 128 * 128;
        }
        int at = snprintf(text[i], sizeof(text[i]), "gemm %s->%s M=%d N=%d K=%d%s%s", pair, y, m, n, k, MX,
                          packed ? " packed=1" : "");
        if (rfg_random(&s) % 3 == 0)
            at += snprintf(text[i] + at, sizeof(text[i]) - (size_t)at, " bias=1 btype=%s",
                           rfg_random(&s) % 2 ? "f32" : y);
        if (!packed && rfg_random(&s) % 3 == 0)
            snprintf(text[i] + at, sizeof(text[i]) - (size_t)at, " ldx=%d ldw=%d x_columns=%d",
                     k + 32 * (int)(rfg_random(&s) % 3), k + 2 * (int)(rfg_random(&s) % 3), (int)(rfg_random(&s) % 2));
        cases[i] =
            (struct op_case){ text[i], m > 6 && n > 20 && rfg_random(&s) % 4 == 0 ? S : R, rfg_random(&s) % 4 == 0 };
    }
    op_cases_run(op_device(_i), "drawn from the seed", cases, N_RANDOM);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

START_TEST(bad_problems)
{
    static const char *const bad[][2] = {
        { "e4m3,e2m1->bf16 M=1 N=8 K=32", "x_per=tensor, w_per=tensor: must both be group, x is e4m3, w e2m1" },
        { "e2m1,e2m1->bf16 M=1 N=8 K=32 x_scale=e8m0 w_scale=e8m0 x_per=group",
          "x_per=group, w_per=tensor: must both be group, x is e2m1, w e2m1" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=32 x_scale=e8m0 w_scale=e8m0 w_per=group",
          "x_per=tensor, w_per=group: must both be group, or neither, x is e4m3, w e4m3" },
        { "e2m1,e4m3->bf16 M=1 N=8 K=32" MX, "dtype of w is e4m3: must be x's, e2m1" },
        { "e5m2,e2m1->bf16 M=1 N=8 K=32" MX, "dtype of w is e2m1: must be x's, e5m2" },
        { "i8,i8->bf16 M=1 N=8 K=32" MX, "x_per=group: x is i8: must be e4m3 or e2m1" },
        { "e4m3,e2m1->bf16 M=1 N=8 K=48" MX, "K=48: must be a multiple of 32 with x_per=group" },
        { "e4m3,e2m1->bf16 M=1 N=8 K=32 x_scale=f32 w_scale=f32 x_per=group w_per=group",
          "x_scale=f32, w_scale=f32: must be e8m0 with x_per=group" },
        { "e4m3,e2m1->bf16 M=1 N=8 K=32 fast=1" MX, "fast=1: must be 0 with x_per=group" },
        { "e4m3,e2m1->bf16 M=1 N=8 K=32 ldw=33" MX, "ldx=0, ldw=33: must be even, of e2m1" },
        { "e4m3,e2m1->bf16 M=1 N=16 K=128 packed=1 x_columns=1" MX, "x_columns=1, w_columns=0: must be 0, w is pre" },
        { "e4m3,e2m1->bf16 M=1 N=24 K=64 packed=1" MX, "16" },
        { "e4m3,e4m3->bf16 M=1 N=16 K=128 packed=1" MX, "packed" },
        { "e4m3,e2m1->bf16 M=1 N=8 K=32 w_group=32" MX, "w_group=32: must be 0, w is e2m1" },
        { "bf16,e2m1->bf16 M=1 N=8 K=32 w_scale=e8m0 w_group=32 w_per=group", "x is bf16: has none" },
    };
    OP_PROBLEMS_REFUSED("gemm ", bad);
}
END_TEST

enum { M = 4, N = 32, K = 256, G = K / 32 };
static _Alignas(16) uint8_t x[M * K], w[N * K / 2], x_scale[2 * M * G], w_scale[N * G + 16];
static float y[M * N], y_before[M * N];

/* The call must fail, say `word`, and write nothing. */
static void refused(rfg_context *ctx, const rfg_gemm_params *p, const rfg_tensor *tx, const rfg_tensor *tw,
                    const char *word)
{
    rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, M, N, N);
    memcpy(y_before, y, sizeof(y));
    op_refused(rfg_op_gemm(ctx, &ty, tx, tw, p, NULL), word);
    ck_assert(!memcmp(y, y_before, sizeof(y)));
}

START_TEST(refusals)
{
    rfg_context *ctx = op_context("cpu");
    rfg_tensor tx = rfg_tensor_2d(x, RFG_E4M3, M, K, K), tw = rfg_tensor_2d(w, RFG_E2M1, N, K, K);
    rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, M, N, N), packed = rfg_tensor_prepacked(w, RFG_E2M1, N, K), t;
    rfg_tensor xs = rfg_tensor_2d(x_scale, RFG_E8M0, M, G, G), ws = rfg_tensor_2d(w_scale, RFG_E8M0, N, G, G);
    rfg_tensor packed_ws = rfg_tensor_prepacked_groups(w_scale, RFG_E8M0, N, G);
    const rfg_gemm_params good = { .size = sizeof(good),
                                   .x_scale = &xs,
                                   .w_scale = &ws,
                                   .x_per = RFG_GEMM_SCALE_GROUP,
                                   .w_per = RFG_GEMM_SCALE_GROUP };
    /* ones: 0x38 of e4m3, 2 of e2m1, 127 of e8m0 */
    memset(x, 0x38, sizeof(x));
    memset(w, 0x22, sizeof(w));
    memset(x_scale, 128, sizeof(x_scale));
    memset(w_scale, 126, sizeof(w_scale));
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, &good, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < M * N; i++)
        ck_assert_msg(y[i] == K, "%d: %g", i, (double)y[i]);
    rfg_gemm_params p = good;
    p.w_scale = &packed_ws;
    memset(y, 0, sizeof(y));
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &packed, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < M * N; i++)
        ck_assert_msg(y[i] == K, "prepacked, %d: %g", i, (double)y[i]);
    refused(ctx, &p, &tx, &tw, "w_scale");
    refused(ctx, &good, &tx, &packed, "w_scale");
    t = rfg_tensor_2d(x_scale + 2, RFG_E8M0, M, G, G);
    p.x_scale = &t;
    refused(ctx, &p, &tx, &packed, "both must be multiples of 4, w is prepacked");
    t = rfg_tensor_2d(x_scale, RFG_E8M0, M, G, G + 2);
    refused(ctx, &p, &tx, &packed, "rows of 10 elements: both must be multiples of 4");
    t = rfg_tensor_2d(x_scale, RFG_E8M0, M, G, 1);
    t.strides[1] = M;
    refused(ctx, &p, &tx, &packed, "x_columns=1, w_columns=0: must be 0, w is prepacked");
    p = good;
    p.x_scale = NULL;
    refused(ctx, &p, &tx, &tw, "x_scale=none, w_scale=e8m0: without scales must be tensor");
    p = good;
    t = rfg_tensor_2d(x_scale, RFG_E8M0, M, G - 1, G);
    p.x_scale = &t;
    refused(ctx, &p, &tx, &tw, "x_scale is 4 x 7: must be 4 x 8 (per group)");
    p = good;
    t = rfg_tensor_2d(w_scale, RFG_E8M0, N / 2, G, G);
    p.w_scale = &t;
    refused(ctx, &p, &tx, &tw, "w_scale is 16 x 8: must be 32 x 8 (per group)");
    p = good;
    p.w_per = RFG_GEMM_SCALE_BLOCK;
    refused(ctx, &p, &tx, &tw, "x_per=group, w_per=block: must both be group");
    p.w_per = (rfg_gemm_scale)4;
    refused(ctx, &p, &tx, &tw, "x_per is 3, w_per 4: must be RFG_GEMM_SCALE_TENSOR, ROW, BLOCK or GROUP");
    p = good;
    p.fast_accum = 1;
    refused(ctx, &p, &tx, &tw, "fast=1: must be 0 with x_per=group");
    p = good;
    t = rfg_tensor_2d(x_scale, RFG_F32, M, 1, 1);
    p.x_scale = &t;
    refused(ctx, &p, &tx, &tw, "x_scale=f32, w_scale=e8m0: must be of one dtype");
    t = rfg_tensor_2d(x, RFG_E2M1, M, K, K);
    rfg_tensor w8 = rfg_tensor_2d(w, RFG_E4M3, N, K, K);
    refused(ctx, &good, &t, &w8, "dtype of w is e4m3: must be x's, e2m1");
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- with activations quantised by rfg_op_quantize() ------------------------------------------------------------- */

START_TEST(quantised_activations)
{
    static const rfg_dtype dtypes[] = { RFG_E4M3, RFG_E2M1 };
    rfg_context *ctx = op_context("cpu");
    static float from[M * K];
    uint64_t s = op_seed() ^ 0x77;
    for (int i = 0; i < M * K; i++)
        from[i] = (float)((int)(rfg_random(&s) % 2001) - 1000) * (i / 32 % 3 ? 0.01f : 3.0f);
    for (int i = 0; i < N * K / 2; i++)
        w[i] = (uint8_t)rfg_random(&s);
    for (int i = 0; i < N * G; i++)
        w_scale[i] = (uint8_t)(120 + rfg_random(&s) % 12);
    for (int d = 0; d < COUNT(dtypes); d++) {
        rfg_tensor f = rfg_tensor_2d(from, RFG_F32, M, K, K), q = rfg_tensor_2d(x, dtypes[d], M, K, K);
        rfg_tensor xs = rfg_tensor_2d(x_scale, RFG_E8M0, M, G, G), ws = rfg_tensor_2d(w_scale, RFG_E8M0, N, G, G);
        rfg_tensor tw = rfg_tensor_2d(w, RFG_E2M1, N, K, K), ty = rfg_tensor_2d(y, RFG_F32, M, N, N);
        rfg_quantize_params qp = { .size = sizeof(qp), .group_rows = 1, .group_cols = 32, .rounding = RFG_SCALE_UP };
        ck_assert_msg(rfg_op_quantize(ctx, &q, &xs, &f, &qp, NULL) == RFG_OK, "%s", rfg_last_error());
        rfg_gemm_params p = { .size = sizeof(p),
                              .x_scale = &xs,
                              .w_scale = &ws,
                              .x_per = RFG_GEMM_SCALE_GROUP,
                              .w_per = RFG_GEMM_SCALE_GROUP };
        ck_assert_msg(rfg_op_gemm(ctx, &ty, &q, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) {
                double sum = 0, allow = 0;
                for (int k = 0; k < K; k++) {
                    double wv = rfg_load(w, RFG_E2M1, n * K + k) * rfg_load(w_scale, RFG_E8M0, n * G + k / 32);
                    double xv = (double)from[m * K + k], scale = rfg_load(x_scale, RFG_E8M0, m * G + k / 32);
                    sum += wv * xv; /* half a place: of normal values, and of the least ones */
                    allow += fabs(wv) * fmax(fabs(xv) * (d ? 0.25 : 0x1p-4), scale * (d ? 0.25 : 0x1p-10));
                }
                ck_assert_msg(fabs(sum - (double)y[m * N + n]) <= allow * 1.0001, "%d, %d: %g, not %g", m, n,
                              (double)y[m * N + n], sum);
            }
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* What kernels don't take. */
START_TEST(kernels_refuse)
{
    static const struct {
        const char *arch, *problem, *config, *words; /* words NULL: it is taken */
    } cases[] = {
        { "gfx942", "gemm e2m1,e2m1->bf16 M=7 N=162 K=352" MX,
          "gemm_skinny{m_tile=8,rows=2,waves=2,unroll=2,split_k=1}", NULL },
        { "gfx942", "gemm e2m1,e2m1->bf16 M=7 N=162 K=352" MX,
          "gemm_skinny{m_tile=16,rows=2,waves=2,unroll=2,split_k=1}", "m_tile=16: must be at most 8" },
        { "sm_90", "gemm e4m3,e2m1->bf16 M=7 N=160 K=256 packed=1" MX,
          "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=1,split_k=1}", NULL },
        { "sm_90", "gemm e4m3,e2m1->bf16 M=7 N=160 K=2880 packed=1" MX,
          "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=1,split_k=1}", "K=2880: must be a multiple of 128" },
    };
    for (int i = 0; i < COUNT(cases); i++)
        op_config_taken(cases[i].arch, cases[i].problem, cases[i].config, cases[i].words);
}
END_TEST

/* ---- a NaN in a row's first scale -------------------------------------------------------------------------------- */

static struct {
    const char *tensor;
    int64_t row; /* of W, or of X */
} spoilt;

static int spec_of(const struct rfg_problem *prob, struct rfg_tensor_spec *found)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS] = { { 0 } };
    int n = rfg_op_case_gemm.tensors(prob, spec), i = 0;
    while (i < n && (spec[i].absent || strcmp(spec[i].name, spoilt.tensor) != 0))
        i++;
    ck_assert_msg(i < n, "no %s", spoilt.tensor);
    *found = spec[i];
    return i;
}

static void spoil_first(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                        uint64_t seed)
{
    struct rfg_tensor_spec spec;
    rfg_op_case_gemm.fill(prob, tensor, t, data, seed);
    if (tensor != spec_of(prob, &spec))
        return;
    bool packed = prob->v[GEMM_PREPACKED] && !strcmp(spoilt.tensor, "w_scale");
    int64_t apart = packed ? t->strides[0] / 16 : t->strides[0], r = spoilt.row;
    rfg_store(t->data, t->dtype, packed ? r / 16 * (16 * apart) + r % 16 : r * apart, NAN);
}

static void run_spoilt(void *c, const struct rfg_plan *plan, const char *name)
{
    struct rfg_check check;
    ck_assert(rfg_case_poison(c, 0) == RFG_OK);
    rfg_status st = rfg_case_run(c, 0, plan, NULL);
    ck_assert_msg(st == RFG_OK && rfg_case_check(c, 0, &check) == RFG_OK, "%s: %s", name, rfg_last_error());
    ck_assert_msg(check.ok, "%s %" PRId64 ": %s: %s", spoilt.tensor, spoilt.row, name, check.message);
}

/* Row by row of both tensors of scales: it spoils its row or column of y, all of it, and nothing else. */
START_TEST(nan_in_each_first_scale)
{
    static const struct {
        const char *problem;
        int64_t x_rows, w_rows;
    } cases[] = {
        { "gemm e4m3,e4m3->f32 M=3 N=16 K=64" MX, 3, 16 },
        { "gemm e4m3,e2m1->f32 M=3 N=16 K=64" MX, 3, 16 },
        { "gemm e4m3,e2m1->f32 M=3 N=16 K=128 packed=1" MX, 3, 16 },
        { "gemm e2m1,e2m1->f32 M=3 N=16 K=64" MX, 3, 16 },
        { "gemm e2m1,e2m1->f32 M=3 N=16 K=128 packed=1" MX, 3, 16 },
        { "gemm e4m3,e2m1->f32 M=17 N=16 K=64" MX, 17, 16 },
        { "gemm bf16,e2m1->f32 M=3 N=16 K=64 w_scale=e8m0 w_group=32", 0, 16 },
        { "gemm bf16,e2m1->f32 M=3 N=16 K=128 w_scale=e8m0 w_group=32 packed=1", 0, 16 },
    };
    rfg_context *ctx = op_context(op_device(_i));
    struct rfg_op_case changed = rfg_op_case_gemm;
    struct rfg_case_params params = { .seed = op_seed(), .of = &changed };
    changed.fill = spoil_first;
    for (int k = 0; k < (int)(sizeof(cases) / sizeof(cases[0])); k++)
        for (int64_t r = 0; r < cases[k].x_rows + cases[k].w_rows; r++) {
            struct rfg_problem prob = op_problem(cases[k].problem);
            struct rfg_case *c;
            spoilt.tensor = r < cases[k].x_rows ? "x_scale" : "w_scale";
            spoilt.row = r < cases[k].x_rows ? r : r - cases[k].x_rows;
            ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
            run_spoilt(c, NULL, "the public function");
            if (!getenv("RFG_TEST_FEW") && spoilt.row % 15 == 0)
                op_each_plan(ctx, &prob, 1, run_spoilt, c);
            rfg_case_destroy(&c);
        }
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main(
        "gemm_mx",
        OP_TESTS(right_shapes, right_layouts, right_kernels, right_tiles, right_random, nan_in_each_first_scale),
        OP_TESTS(kernels_refuse, refusals, bad_problems, quantised_activations));
}
