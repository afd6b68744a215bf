/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm of a W of 8-bit codes beside an X of 16 bits (W8A16), on the cpu and on the devices of $RFG_TEST_DEVICES:
 * each format and each kind of scale, plain and prepacked, dense and grouped; and what is refused. */
#include <inttypes.h>
#include <stdalign.h>

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R     RFG_DATA_RANDOM
#define I     RFG_DATA_INTS
#define C     RFG_DATA_CANCEL
#define S     RFG_DATA_SPECIAL
#define ROW   " w_scale=f32 w_per=row"
#define BLOCK " w_scale=f32 w_per=block"
#define GROUP " w_scale=f32 w_per=group w_group="

/* fp16 to fp32 of many rows with enough terms: MI200's matrix instructions take x's subnormals for 0, which a short sum
 * would show. */
static const struct op_case scales[] = {
    { "gemm bf16,e4m3->bf16 M=8 N=256 K=512" },
    { "gemm bf16,e4m3->bf16 M=8 N=96 K=1024 w_scale=f32" },
    { "gemm f16,e4m3->f32 M=5 N=70 K=528" ROW },
    { "gemm bf16,e4m3->f32 M=1 N=300 K=2048" BLOCK },
    { "gemm f16,e4m3->f32 M=17 N=140 K=400" BLOCK " w_columns=1 bias=1", R, false },
    { "gemm bf16,e4m3->bf16 M=3 N=40 K=1024" GROUP "128" },
    { "gemm f16,e4m3->f32 M=12 N=33 K=384" GROUP "32 w_columns=1" },
    { "gemm bf16,e4m3fnuz->f32 M=2 N=70 K=640" ROW },
    { "gemm f16,e4m3fnuz->f32 M=40 N=130 K=528" BLOCK, R, false },
    { "gemm bf16,e5m2->f16 M=4 N=48 K=320 w_scale=f16" },
    { "gemm f16,e5m2->f32 M=12 N=33 K=272 w_scale=e8m0 w_per=block" },
    { "gemm bf16,i8->bf16 M=4 N=48 K=1024 w_scale=bf16 w_per=row" },
    { "gemm f16,i8->f32 M=21 N=64 K=512 w_scale=f16 w_per=group w_group=64 bias=1 btype=f32", R, false },
    { "gemm bf16,i8->f32 M=1 N=300 K=528" BLOCK },
    { "gemm bf16,i8->e4m3 M=6 N=64 K=256" ROW },
};

static const struct op_case layouts[] = {
    { "gemm bf16,e4m3->f32 M=7 N=37 K=333" BLOCK },
    { "gemm f16,e4m3->bf16 M=9 N=40 K=129 ldx=131 ldw=133 ldy=43" ROW, R, true },
    { "gemm bf16,i8->bf16 M=3 N=17 K=50 ldx=51 w_scale=f32" },
    { "gemm bf16,e5m2->bf16 M=70 N=40 K=192 ldx=208 ldw=224 ldy=44" BLOCK, R, false },
    { "gemm bf16,e4m3->f32 M=70 N=10 K=0 w_scale=f32 bias=1", R, false },
    { "gemm bf16,e4m3->f32 M=2 N=10 K=0" BLOCK },
    { "gemm bf16,e4m3->f32 M=2 N=10 K=0" GROUP "32" },
    { "gemm bf16,e4m3->bf16 M=0 N=10 K=16" ROW },
    { "gemm bf16,e4m3->f32 M=6 N=48 K=256 act=silu gates=interleaved" ROW },
    { "gemm f16,e4m3->f32 M=6 N=264 K=256 act=gelu bias=1" BLOCK },
    { "gemm bf16,i8->bf16 M=20 N=70 K=256 residual=1 inplace=1" ROW, R, false },
    { "gemm bf16,e4m3fnuz->f32 M=9 N=41 K=160 residual=1" BLOCK },
    { "gemm bf16,e4m3->f32 M=12 N=48 K=256" ROW, S },
    { "gemm f16,e4m3fnuz->f32 M=12 N=140 K=256" BLOCK, S, false },
    { "gemm bf16,e4m3fnuz->f32 M=3 N=48 K=256" ROW, S },
    { "gemm bf16,e5m2->f32 M=12 N=140 K=256" BLOCK, S, false },
    { "gemm f16,e5m2->f32 M=4 N=48 K=256" GROUP "64", S },
    { "gemm bf16,i8->f32 M=12 N=48 K=256" ROW, S },
};

static const struct op_case packed[] = {
    { "gemm bf16,e4m3->bf16 M=8 N=96 K=1024 packed=1" },
    { "gemm f16,e4m3->f32 M=5 N=80 K=576 packed=1" ROW },
    { "gemm bf16,e4m3->f32 M=1 N=304 K=2048 packed=1" BLOCK },
    { "gemm bf16,e4m3->bf16 M=16 N=144 K=448 packed=1" BLOCK " w_columns=1" },
    { "gemm f16,e4m3fnuz->f32 M=3 N=48 K=640 packed=1" GROUP "64" },
    { "gemm bf16,e5m2->f32 M=33 N=48 K=320 packed=1 w_scale=f32", R, false },
    { "gemm bf16,i8->bf16 M=4 N=48 K=1024 packed=1" GROUP "128" },
    { "gemm f16,i8->f32 M=6 N=64 K=256 packed=1 act=silu gates=interleaved" ROW },
    { "gemm bf16,e4m3->f32 M=8 N=208 K=256 packed=1" ROW, S },
    { "gemm bf16,i8->f32 M=3 N=16 K=0 packed=1 bias=1" ROW },
};

static const struct op_case experts[] = {
    { "gemm bf16,e4m3->bf16 M=24 N=48 K=256 experts=4 top=2" ROW },
    { "gemm f16,e4m3->f32 M=16 N=144 K=384 experts=3 weights=1" BLOCK },
    { "gemm bf16,i8->f32 M=16 N=40 K=128 experts=3" GROUP "64" },
    { "gemm bf16,e5m2->f32 M=16 N=40 K=64 experts=3 w_scale=f32", S },
    { "gemm bf16,e4m3->bf16 M=20 N=48 K=256 experts=4 act=silu gates=interleaved packed=1" ROW },
    { "gemm bf16,e4m3fnuz->f32 M=20 N=32 K=256 experts=4 slots=2 top=2 packed=1 w_scale=f32", R, false },
};

/* Kernels of matrix cores: each part of theirs. */
static const struct op_case kernels[] = {
    { "gemm bf16,e4m3->f32 M=3 N=10 K=4096" ROW, R, false, "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=8}" },
    { "gemm f16,i8->f32 M=7 N=10 K=2048 act=silu gates=interleaved" GROUP "32", R, false,
      "gemm_skinny{m_tile=8,rows=4,waves=2,unroll=2,split_k=2}" },
    /* Each format to each of X's, by rows and prepacked: uneven steps and tiles, rings that come round. */
    { "gemm bf16,e4m3->f32 M=7 N=200 K=1424" ROW, S, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=96,frags_n=2,k_waves=2,split=5,per_cu=1}" },
    { "gemm f16,e4m3->f32 M=14 N=208 K=7168 packed=1" ROW, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=2}" },
    { "gemm bf16,e4m3fnuz->f32 M=5 N=64 K=576 packed=1 w_scale=bf16", S, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=2,split=2,per_cu=1}" },
    { "gemm f16,e4m3fnuz->f32 M=5 N=71 K=400" ROW, S, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,e5m2->f32 M=30 N=272 K=1024" ROW, S, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=128,frags_n=2,k_waves=1,split=1,per_cu=1}" },
    { "gemm f16,e5m2->f32 M=9 N=48 K=512 packed=1", S, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,i8->bf16 M=3 N=48 K=3072 packed=1 w_scale=f16 w_per=row", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=4,split=2,per_cu=1}" },
    { "gemm f16,i8->f32 M=20 N=80 K=1024 bias=1" ROW, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=32,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=1}" },
    /* Straight to registers: uneven shares, tails of K, rings of one turn and of more, pieces of x. */
    { "gemm bf16,e4m3->f32 M=7 N=200 K=1424" ROW, S, false,
      "gemm_direct_mma{tile_m=8,frags_n=1,n_waves=2,k_waves=4,split=3,ahead=2,fetch=0}" },
    { "gemm f16,e4m3->f32 M=14 N=208 K=7168 packed=1" ROW, R, false,
      "gemm_direct_mma{tile_m=16,frags_n=1,n_waves=7,k_waves=2,split=2,ahead=4,fetch=0}" },
    { "gemm bf16,e4m3fnuz->f32 M=5 N=64 K=576 packed=1 w_scale=bf16", S, false,
      "gemm_direct_mma{tile_m=8,frags_n=2,n_waves=1,k_waves=4,split=1,ahead=3,fetch=0}" },
    { "gemm bf16,e5m2->f32 M=30 N=272 K=1040" ROW, S, false,
      "gemm_direct_mma{tile_m=16,frags_n=2,n_waves=4,k_waves=1,split=1,ahead=4,fetch=0}" },
    { "gemm bf16,i8->bf16 M=3 N=48 K=3072 packed=1 w_scale=f16 w_per=row bias=1", R, false,
      "gemm_direct_mma{tile_m=8,frags_n=1,n_waves=3,k_waves=4,split=4,ahead=3,fetch=0}" },
    { "gemm bf16,e4m3->bf16 M=16 N=272 K=1984 packed=1" BLOCK " w_columns=1", R, false,
      "gemm_direct_mma{tile_m=16,frags_n=1,n_waves=8,k_waves=1,split=2,ahead=4,fetch=0}" },
    { "gemm f16,i8->f32 M=7 N=70 K=704" GROUP "64", R, false,
      "gemm_direct_mma{tile_m=8,frags_n=2,n_waves=1,k_waves=8,split=1,ahead=2,fetch=0}" },
    { "gemm bf16,e4m3->bf16 M=6 N=544 K=512 act=silu bias=1" BLOCK, R, false,
      "gemm_direct_mma{tile_m=8,frags_n=1,n_waves=4,k_waves=2,split=2,ahead=2,fetch=0}" },
    { "gemm f16,e4m3->f32 M=20 N=64 K=768 packed=1 act=silu gates=interleaved" GROUP "128", R, false,
      "gemm_direct_mma{tile_m=16,frags_n=1,n_waves=1,k_waves=16,split=1,ahead=2,fetch=0}" },
    { "gemm bf16,e4m3->f32 M=7 N=200 K=3600" ROW, R, false,
      "gemm_direct_mma{tile_m=8,frags_n=1,n_waves=1,k_waves=4,split=1,ahead=2,fetch=4}" },
    { "gemm f16,i8->f32 M=16 N=96 K=4096 packed=1" ROW, R, false,
      "gemm_direct_mma{tile_m=16,frags_n=1,n_waves=3,k_waves=2,split=1,ahead=4,fetch=16}" },
    /* Scales of blocks and groups. */
    { "gemm bf16,e4m3->f32 M=7 N=270 K=2000" BLOCK, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=96,frags_n=2,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,e4m3->bf16 M=16 N=272 K=1984 packed=1" BLOCK " w_columns=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=64,frags_n=1,k_waves=2,split=2,per_cu=1}" },
    { "gemm f16,i8->f32 M=7 N=70 K=704" GROUP "64", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=64,frags_n=2,k_waves=1,split=3,per_cu=1}" },
    { "gemm bf16,e4m3->f32 M=7 N=64 K=1536 packed=1" GROUP "256", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,e4m3->bf16 M=6 N=544 K=512 act=silu bias=1" BLOCK, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=64,frags_n=1,k_waves=1,split=2,per_cu=1}" },
    { "gemm bf16,e4m3->f32 M=7 N=49 K=7168 bias=1" ROW, R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=7,unroll=2,split_k=4}" },
    { "gemm f16,e4m3fnuz->f32 M=30 N=48 K=2048 packed=1" ROW, R, false,
      "gemm_thin_mma{tile_m=32,frags_n=4,k_waves=4,unroll=1,split_k=2}" },
    { "gemm bf16,i8->f32 M=20 N=40 K=1040 bias=1" BLOCK, R, false,
      "gemm_thin_mma{tile_m=16,frags_n=2,k_waves=5,unroll=2,split_k=1}" },
    { "gemm bf16,e5m2->f32 M=6 N=46 K=2048" GROUP "64", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=4,split_k=2}" },
    { "gemm bf16,e5m2->f32 M=6 N=512 K=1024 act=silu" BLOCK, R, false,
      "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=2,split_k=1}" },
    { "gemm bf16,e4m3->bf16 M=24 N=48 K=640 experts=4 top=2 packed=1" GROUP "128", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=4,unroll=2,split_k=1}" },
    /* AMD's: rings of one turn and of more, uneven parts, splits. */
    { "gemm bf16,e4m3->f32 M=8 N=40 K=1808" ROW, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=2}" },
    { "gemm f16,e4m3->f32 M=20 N=80 K=1024 packed=1" ROW " bias=1", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=2,k_waves=1,unroll=4,split_k=1}" },
    { "gemm bf16,e4m3fnuz->f32 M=7 N=48 K=512 packed=1 w_scale=bf16", S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=4,unroll=2,split_k=1}" },
    { "gemm bf16,e5m2->f32 M=5 N=33 K=272" ROW, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm f16,e5m2->f32 M=5 N=33 K=272" ROW, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm bf16,i8->bf16 M=7 N=48 K=2048 packed=1 act=silu gates=interleaved" ROW, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=4,split_k=1}" },
    { "gemm f16,i8->f32 M=33 N=40 K=336" ROW, R, false,
      "gemm_stream_mma{tile_m=64,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm bf16,e4m3->f32 M=8 N=150 K=1424" BLOCK, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=4,split_k=2}" },
    { "gemm bf16,e4m3->f32 M=8 N=512 K=400 act=silu" BLOCK, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm bf16,i8->f32 M=5 N=48 K=768 packed=1" GROUP "256 w_columns=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=1}" },
    { "gemm f16,e4m3->f32 M=5 N=44 K=704" GROUP "64", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=1,unroll=2,split_k=2}" },
    { "gemm bf16,e4m3->bf16 M=24 N=48 K=640 experts=4 top=2 weights=1" ROW, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=2}" },
    { "gemm bf16,e4m3->f32 M=70 N=90 K=336 ldx=344 ldw=352 ldy=101" ROW, S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm f16,i8->f32 M=20 N=80 K=448 packed=1 bias=1" ROW, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=3}" },
    { "gemm bf16,e5m2->bf16 M=33 N=512 K=272 act=silu" BLOCK, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,e4m3fnuz->f32 M=33 N=144 K=256 packed=1" BLOCK, R, false,
      "gemm_tile{tile_m=64,tile_n=128,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm bf16,e4m3->bf16 M=96 N=48 K=128 experts=3 top=2" ROW, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    /* wgmma. */
    { "gemm bf16,e4m3->bf16 M=60 N=200 K=3600" ROW, R, false,
      "gemm_w4_mma{wgmma=1,tile_m=64,tile_n=128,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm f16,e4m3->f32 M=20 N=64 K=768 packed=1 act=silu gates=interleaved" GROUP "64", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=32,tile_n=128,frags_n=2,k_waves=2,split=1,per_cu=1}" },
    { "gemm bf16,i8->f32 M=130 N=272 K=1856 packed=1" BLOCK, R, false,
      "gemm_w4_mma{wgmma=1,tile_m=128,tile_n=64,frags_n=1,k_waves=1,split=2,per_cu=1}" },
    { "gemm f16,e5m2->f32 M=33 N=48 K=512" GROUP "128 residual=1", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=1}" },
    { "gemm bf16,e4m3->bf16 M=96 N=144 K=384 experts=4 top=2 weights=1" BLOCK, R, false,
      "gemm_w4_mma{wgmma=1,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=1}" },
    { "gemm bf16,i8->f32 M=24 N=48 K=640 experts=4 top=2 packed=1" ROW, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=1,split=2,per_cu=1}" },
};

OP_CASES(right_scales, scales, "scales of 8-bit W")

OP_CASES(right_layouts, layouts, "layouts of 8-bit W")

OP_CASES(right_packed, packed, "prepacked 8-bit W")

OP_CASES(right_experts, experts, "experts of 8-bit W")

OP_CASES(right_kernels, kernels, "kernels of 8-bit W")

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

START_TEST(bad_problems)
{
    static const char *const bad[][2] = {
        { "f32,e4m3->f32 M=1 N=8 K=8", "dtype of w is e4m3" },
        { "e4m3,i8->bf16 M=1 N=8 K=8", "dtype of w is i8: must be x's, e4m3" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 w_scale=f32 w_group=64", "w_per=tensor, w_group=64: w_group must be said" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 w_scale=f32 w_per=group", "w_per=group, w_group=0: w_group must be said" },
        { "bf16,i8->bf16 M=1 N=8 K=96 w_scale=f32 w_per=group w_group=64",
          "w_group=64: must be a multiple of 32 that" },
        { "bf16,i8->bf16 M=1 N=8 K=96 w_scale=f32 w_per=group w_group=48",
          "w_group=48: must be a multiple of 32 that" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 w_per=row", "w_per=row: must be tensor, w_scale is none" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 w_scale=f32 w_per=row w_columns=1", "x_per and w_per must be block or group" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 w_scale=f32 w_per=block x_columns=1", "x_columns=1: must be 0" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 w_scale=f32 x_scale=f32", "x_scale=f32" },
        { "bf16,i8->bf16 M=1 N=8 K=64 w_scale=f32 w_zero=i8", "w_zero=i8: must be none, w is i8" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 fast=1", "fast=1: must be 0, x is bf16" },
        { "bf16,e4m3->bf16 M=1 N=16 K=96 packed=1", "K=96: must be a multiple of 64 to be prepacked" },
        { "bf16,e4m3->bf16 M=1 N=24 K=64 packed=1", "N=24: must be a multiple of 16 to be prepacked" },
        { "e4m3,e4m3->bf16 M=1 N=16 K=64 packed=1", "packed=1: must be 0, x and w are e4m3" },
        { "bf16,e4m3->bf16 M=4 N=8 K=64 experts=2 w_scale=f32 w_per=block w_columns=1", "w_columns=1: must be 0" },
    };
    OP_PROBLEMS_REFUSED("gemm ", bad);
}
END_TEST

static void refused(rfg_context *ctx, const rfg_tensor *w, const rfg_tensor *scale, rfg_gemm_scale per,
                    const char *words)
{
    static uint16_t x[4 * 256], y[4 * 144];
    rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, 4, 256, 256), ty = rfg_tensor_2d(y, RFG_BF16, 4, 144, 144);
    rfg_gemm_params p = { .size = sizeof(p), .w_scale = scale, .w_per = per };
    rfg_status st = rfg_op_gemm(ctx, &ty, &tx, w, &p, NULL);
    if (words)
        op_refused(st, words);
    else
        ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
}

START_TEST(refusals)
{
    static uint8_t w[144 * 256];
    static float s[144 * 8];
    rfg_context *ctx = op_context("cpu");
    rfg_tensor plain = rfg_tensor_2d(w, RFG_E4M3, 144, 256, 256), t = rfg_tensor_1d(s, RFG_F32, 1);
    rfg_tensor pre = rfg_tensor_prepacked(w, RFG_I8, 144, 256);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_TENSOR, NULL);
    refused(ctx, &pre, &t, RFG_GEMM_SCALE_TENSOR, NULL);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_ROW, "must be 144 x 1 (per row)");
    t = rfg_tensor_1d(s, RFG_F32, 144);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_ROW, NULL);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_TENSOR, "must be 1 x 1 (per tensor)");
    refused(ctx, &plain, NULL, RFG_GEMM_SCALE_ROW, "w_per=row: must be tensor, w_scale is none");
    t = rfg_tensor_2d(s, RFG_F32, 2, 2, 3);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_BLOCK, NULL);
    refused(ctx, &pre, &t, RFG_GEMM_SCALE_BLOCK, NULL);
    t.strides[0] = 1;
    t.strides[1] = 2;
    refused(ctx, &pre, &t, RFG_GEMM_SCALE_BLOCK, NULL);
    t = rfg_tensor_2d(s, RFG_F32, 144, 2, 2);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_BLOCK, "must be 2 x 2 (per block)");
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_GROUP, NULL);
    refused(ctx, &pre, &t, RFG_GEMM_SCALE_GROUP, NULL);
    t = rfg_tensor_2d(s, RFG_F32, 144, 3, 3);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_GROUP, "w_group=85: must be a multiple of 32 that divides K=256");
    t = rfg_tensor_2d(s, RFG_F32, 140, 2, 2);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_GROUP, "must be 144 x 2 (per group)");
    t = rfg_tensor_1d(s, RFG_I8, 144);
    refused(ctx, &plain, &t, RFG_GEMM_SCALE_ROW, "w_scale=i8: must be");
    rfg_context_destroy(&ctx);
}
END_TEST

/* The string of a call of which x and w begin so many bytes behind a multiple of 64, and w_scale's rows have ld_scale
 * elements. */
static void described(rfg_context *ctx, bool packed, int behind_x, int behind_w, int64_t ld_scale, const char *want)
{
    static alignas(64) char x[4 * 256 * 2 + 64], w[32 * 256 + 64];
    static float s[32 * 8];
    static uint16_t y[4 * 32];
    char text[RFG_DESCRIBE_MAX];
    rfg_tensor tx = rfg_tensor_2d(x + behind_x, RFG_BF16, 4, 256, 256), ty = rfg_tensor_2d(y, RFG_BF16, 4, 32, 32);
    rfg_tensor tw = packed ? rfg_tensor_prepacked(w + behind_w, RFG_E4M3, 32, 256)
                           : rfg_tensor_2d(w + behind_w, RFG_E4M3, 32, 256, 256);
    rfg_tensor ts = rfg_tensor_2d(s, RFG_F32, 32, 4, ld_scale);
    rfg_gemm_params p = { .size = sizeof(p), .w_scale = &ts, .w_per = RFG_GEMM_SCALE_GROUP };
    ck_assert_msg(rfg_describe_begin(ctx, text, sizeof(text)) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    rfg_describe_end(ctx);
    const char *align = strstr(text, "align=");
    ck_assert_msg(want ? align && !strncmp(align, want, strlen(want)) : !align, "%s: must have %s", text,
                  want ? want : "no align");
}

/* What kernels load in pieces of 16 bytes is x and w. Scales are loaded one by one: their strides say nothing of it. */
START_TEST(alignments)
{
    rfg_context *ctx = op_context("cpu");
    for (int packed = 0; packed < 2; packed++) {
        described(ctx, packed, 0, 0, 4, NULL);
        described(ctx, packed, 0, 0, 5, NULL);
        described(ctx, packed, 4, 0, 5, "align=4");
        described(ctx, packed, 0, 8, 5, "align=8");
    }
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main("gemm_w8", OP_TESTS(right_scales, right_layouts, right_packed, right_experts, right_kernels),
                   OP_TESTS(bad_problems, refusals, alignments));
}
