/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm of a W of 4 bits in groups of 16 columns, in groups that don't divide K, and of whole rows: i4, and nvfp4
 * (e2m1 with scales of e4m3, and one of the tensor); of e2m1 with scales of floats; on the cpu and on the devices of $RFG_TEST_DEVICES, by rows and
 * prepacked, dense and grouped; and what is refused. */
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R     RFG_DATA_RANDOM
#define I     RFG_DATA_INTS
#define C     RFG_DATA_CANCEL
#define S     RFG_DATA_SPECIAL
#define NVFP4 " w_scale=e4m3 w_group=16"
#define ONE   NVFP4 " w_global=1"

static const struct op_case nvfp4[] = {
    { "gemm bf16,e2m1->bf16 M=8 N=48 K=1024" ONE },
    { "gemm f16,e2m1->f16 M=1 N=70 K=512" NVFP4 },
    { "gemm bf16,e2m1->f32 M=3 N=33 K=96" ONE " bias=1" },
    { "gemm f16,e2m1->f32 M=33 N=20 K=176 ldx=200 ldw=256 ldy=21" ONE, R, false },
    { "gemm bf16,e2m1->f32 M=2 N=65 K=100 ldw=102 align=1" ONE " residual=1" },
    { "gemm bf16,e2m1->f32 M=5 N=40 K=256 w_scale=e4m3 w_group=48 w_global=1" },
    { "gemm f16,e2m1->f16 M=6 N=32 K=160 act=silu gates=interleaved" ONE, R, true },
    { "gemm bf16,e2m1->bf16 M=4 N=32 K=320 act=gelu bias=1" ONE },
    { "gemm bf16,e2m1->e4m3 M=6 N=64 K=256" ONE },
    { "gemm bf16,e2m1->f32 M=3 N=8 K=0 bias=1 w_scale=e4m3 w_group=16 w_global=1" },
    { "gemm f16,e2m1->f32 M=9 N=32 K=256" NVFP4, I },
    { "gemm bf16,e2m1->f32 M=8 N=200 K=256" ONE, S },
    { "gemm f16,e2m1->f32 M=4 N=48 K=224" ONE, S },
    { "gemm bf16,e2m1->f32 M=3 N=10 K=4096" ONE, R, false, "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=8}" },
    { "gemm f16,e2m1->f32 M=7 N=10 K=2048 act=silu gates=interleaved" ONE, S, false,
      "gemm_skinny{m_tile=8,rows=4,waves=2,unroll=2,split_k=2}" },
};

static const struct op_case fine[] = {
    { "gemm bf16,i4->bf16 M=8 N=48 K=512 w_scale=f16 w_group=16" },
    { "gemm f16,i4->f32 M=3 N=33 K=96 w_scale=bf16 w_zero=i8 w_group=16 bias=1" },
    { "gemm bf16,i4->f32 M=5 N=40 K=240 w_scale=f32 w_zero=i8 w_group=48 residual=1" },
    { "gemm f16,i4->f32 M=40 N=20 K=176 w_scale=f16 w_group=16 ldx=184 ldw=256", R, false },
    /* The last group is shorter. */
    { "gemm bf16,i4->bf16 M=4 N=48 K=2880 w_scale=f16 w_group=128" },
    { "gemm f16,i4->f32 M=3 N=17 K=100 w_scale=f32 w_zero=i8 w_group=32" },
    { "gemm bf16,i4->f32 M=2 N=40 K=74 w_scale=bf16 w_group=64 ldw=76 align=1" },
    { "gemm f16,i4->f32 M=6 N=9 K=352 w_scale=f16 w_zero=i8 w_group=80" },
    { "gemm bf16,i4->f32 M=2 N=9 K=40 w_scale=f16 w_zero=i8 w_group=128" },
    { "gemm bf16,e2m1->f32 M=3 N=24 K=160 w_scale=e8m0 w_group=64" },
    /* One scale a row. */
    { "gemm bf16,i4->bf16 M=4 N=48 K=1000 w_scale=f32 w_group=1000" },
    { "gemm f16,i4->f32 M=5 N=33 K=50 w_scale=f16 w_zero=i8 w_group=50" },
    { "gemm bf16,i4->f32 M=1 N=33 K=2 w_scale=f16 w_zero=i8 w_group=2" },
    { "gemm bf16,i4->f32 M=7 N=40 K=416 w_scale=f32 w_group=416 act=silu gates=interleaved" },
    { "gemm f16,e2m1->f32 M=2 N=20 K=90 w_scale=e8m0 w_group=90" },
    { "gemm bf16,i4->f32 M=8 N=64 K=304 w_scale=f16 w_zero=i8 w_group=128", I },
    { "gemm bf16,i4->f32 M=4 N=32 K=208 w_scale=bf16 w_zero=i8 w_group=16", C },
    { "gemm f16,i4->f32 M=8 N=200 K=272 w_scale=f16 w_group=16", S },
    { "gemm bf16,i4->f32 M=8 N=200 K=288 w_scale=f16 w_group=128", S },
    { "gemm bf16,i4->f32 M=3 N=10 K=2048 w_scale=f16 w_zero=i8 w_group=48", R, false,
      "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=4}" },
    { "gemm f16,i4->f32 M=7 N=10 K=1056 w_scale=f32 w_zero=i8 w_group=1056", R, false,
      "gemm_skinny{m_tile=8,rows=4,waves=2,unroll=2,split_k=2}" },
    { "gemm f16,i4->f32 M=2 N=10 K=1120 w_scale=f32 w_group=64", R, false,
      "gemm_skinny{m_tile=2,rows=2,waves=1,unroll=4,split_k=2}" },
};

static const struct op_case packed[] = {
    { "gemm bf16,e2m1->bf16 M=8 N=48 K=1024 packed=1" ONE },
    { "gemm f16,e2m1->f32 M=2 N=64 K=256 bias=1 packed=1" NVFP4 },
    { "gemm bf16,e2m1->f32 M=40 N=16 K=128 residual=1 packed=1 w_scale=e4m3 w_group=64 w_global=1", R, false },
    { "gemm bf16,e2m1->f32 M=3 N=16 K=384 packed=1 w_scale=e4m3 w_group=48 w_global=1" },
    { "gemm f16,e2m1->f16 M=6 N=32 K=256 act=silu gates=interleaved packed=1" ONE },
    { "gemm bf16,e2m1->bf16 M=8 N=48 K=2880 bias=1 packed=1" ONE },
    { "gemm f16,e2m1->f32 M=20 N=32 K=32 packed=1" ONE, R, false },
    { "gemm bf16,e2m1->f32 M=3 N=16 K=0 bias=1 packed=1" ONE },
    { "gemm f16,e2m1->f32 M=9 N=32 K=352 packed=1" NVFP4, I },
    { "gemm bf16,e2m1->f32 M=8 N=208 K=256 packed=1" ONE, S },
    { "gemm bf16,i4->f32 M=5 N=32 K=256 w_scale=f16 w_zero=i8 w_group=16 packed=1" },
    { "gemm f16,i4->f32 M=5 N=32 K=224 w_scale=f32 w_zero=i8 w_group=16 packed=1" },
    { "gemm bf16,i4->f32 M=5 N=16 K=384 w_scale=f16 w_group=256 packed=1" },
    { "gemm bf16,i4->bf16 M=8 N=48 K=2880 w_scale=f16 w_zero=i8 w_group=128 packed=1" },
    { "gemm f16,i4->f32 M=3 N=32 K=160 w_scale=f32 w_group=64 packed=1", S },
};

static const struct op_case experts[] = {
    { "gemm bf16,e2m1->bf16 M=24 N=48 K=256 experts=4 top=2" ONE },
    { "gemm f16,e2m1->f32 M=16 N=40 K=96 experts=3 weights=1" NVFP4 },
    { "gemm bf16,i4->f32 M=16 N=40 K=112 experts=3 w_scale=f16 w_zero=i8 w_group=16" },
    { "gemm bf16,i4->f32 M=16 N=40 K=160 experts=3 w_scale=f16 w_zero=i8 w_group=128" },
    { "gemm bf16,i4->f32 M=12 N=24 K=90 experts=3 w_scale=f16 w_zero=i8 w_group=90" },
    { "gemm bf16,e2m1->bf16 M=20 N=48 K=256 experts=4 act=silu gates=interleaved packed=1" ONE },
    { "gemm bf16,e2m1->f32 M=20 N=32 K=256 experts=4 slots=2 top=2 packed=1" ONE, R, false },
    { "gemm f16,e2m1->f32 M=20 N=32 K=384 experts=4" ONE, S, false },
};

/* Kernels of matrix cores: rings of one turn and of more, uneven parts, splits. */
static const struct op_case kernels[] = {
    { "gemm bf16,e2m1->f32 M=7 N=208 K=3584 bias=1 packed=1" ONE, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=96,frags_n=2,k_waves=2,split=5,per_cu=1}" },
    { "gemm f16,e2m1->f32 M=14 N=208 K=7168 packed=1" ONE, S, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=2}" },
    { "gemm bf16,e2m1->bf16 M=20 N=80 K=2880 packed=1" ONE, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=32,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm f16,e2m1->f32 M=65 N=64 K=1152 residual=1 packed=1 w_scale=e4m3 w_group=128 w_global=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=64,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,e2m1->f32 M=9 N=64 K=768 packed=1 w_scale=e4m3 w_group=32", S, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=2,split=2,per_cu=1}" },
    { "gemm bf16,e2m1->bf16 M=24 N=48 K=640 experts=4 top=2 packed=1" ONE, R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=1,split=2,per_cu=1}" },
    { "gemm bf16,e2m1->f32 M=60 N=208 K=3584 bias=1 packed=1" ONE, S, false,
      "gemm_w4_mma{wgmma=1,tile_m=64,tile_n=128,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm f16,e2m1->f32 M=130 N=144 K=2880 packed=1" ONE, R, false,
      "gemm_w4_mma{wgmma=1,tile_m=128,tile_n=64,frags_n=1,k_waves=1,split=2,per_cu=1}" },
    { "gemm f16,e2m1->f32 M=20 N=64 K=768 packed=1 act=silu gates=interleaved w_scale=e4m3 w_group=64", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=32,tile_n=128,frags_n=2,k_waves=2,split=1,per_cu=1}" },
    { "gemm bf16,e2m1->f32 M=8 N=32 K=3584 packed=1" ONE, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=7}" },
    { "gemm f16,e2m1->f32 M=20 N=80 K=1152 bias=1 packed=1" ONE, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=2}" },
    { "gemm bf16,e2m1->f32 M=7 N=80 K=1120 packed=1" ONE, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=1,split_k=2}" },
    { "gemm f16,e2m1->f32 M=30 N=48 K=2048 packed=1 w_scale=e4m3 w_group=256 w_global=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=1}" },
    { "gemm bf16,e2m1->bf16 M=24 N=48 K=640 experts=4 top=2 weights=1 packed=1" ONE, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=2}" },
    { "gemm bf16,e2m1->f32 M=70 N=144 K=352" ONE, S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm f16,e2m1->f32 M=40 N=80 K=1120 bias=1 packed=1" ONE, S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=2}" },
    { "gemm bf16,e2m1->bf16 M=60 N=64 K=320 experts=2 top=2 packed=1" ONE, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm f16,e2m1->f32 M=20 N=64 K=256 act=silu w_scale=e4m3 w_group=128 w_global=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
};

/* e2m1 with scales of floats: as i4 without zero points. */
static const struct op_case floats[] = {
    { "gemm bf16,e2m1->bf16 M=8 N=48 K=512 w_scale=bf16 w_group=128" },
    { "gemm f16,e2m1->f32 M=3 N=33 K=96 w_scale=f32 w_group=16 bias=1", S },
    { "gemm bf16,e2m1->f32 M=5 N=40 K=2880 w_scale=f16 w_group=128 residual=1" },
    { "gemm f16,e2m1->f16 M=2 N=20 K=90 w_scale=bf16 w_group=90" },
    { "gemm bf16,e2m1->f32 M=16 N=40 K=160 experts=3 w_scale=f32 w_group=128" },
    { "gemm bf16,e2m1->f32 M=8 N=48 K=2880 w_scale=f16 w_group=64 packed=1", C },
    { "gemm f16,e2m1->f32 M=5 N=32 K=224 w_scale=f32 w_group=16 packed=1", S },
    { "gemm bf16,e2m1->bf16 M=20 N=48 K=256 experts=4 act=silu gates=interleaved packed=1 w_scale=bf16 w_group=32" },
    /* A loop that skips its last loads: LLVM 19 puts too few wait states before the sums are read. */
    { "gemm f16,e2m1->f32 M=8 N=32 K=1152 packed=1 w_scale=f16 w_group=128", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=2}" },
    { "gemm bf16,e2m1->f32 M=7 N=80 K=1120 packed=1 w_scale=f32 w_group=32", S, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=1,split_k=2}" },
    { "gemm bf16,e2m1->f32 M=70 N=144 K=384 w_scale=bf16 w_group=64", S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm f16,e2m1->f32 M=14 N=208 K=2880 packed=1 w_scale=bf16 w_group=128", S, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=2}" },
    { "gemm bf16,e2m1->f32 M=60 N=208 K=3584 bias=1 packed=1 w_scale=f32 w_group=32", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=64,tile_n=128,frags_n=1,k_waves=1,split=4,per_cu=1}" },
};

/* Groups of 16, prepacked, by kernels of matrix cores that scale sums of each. */
static const struct op_case halves[] = {
    { "gemm bf16,i4->f32 M=7 N=208 K=3584 bias=1 packed=1 w_scale=f16 w_group=16", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=96,frags_n=2,k_waves=2,split=5,per_cu=1}" },
    { "gemm f16,i4->f32 M=14 N=208 K=7168 packed=1 w_scale=bf16 w_zero=i8 w_group=16", S, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=2}" },
    { "gemm bf16,i4->bf16 M=20 N=80 K=2912 packed=1 w_scale=f32 w_zero=i8 w_group=16", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=32,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm f16,e2m1->f32 M=65 N=64 K=1152 residual=1 packed=1 w_scale=bf16 w_group=16", S, false,
      "gemm_w4_mma{wgmma=0,tile_m=32,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,i4->bf16 M=24 N=48 K=640 experts=4 top=2 packed=1 w_scale=f16 w_zero=i8 w_group=16", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=1,split=2,per_cu=1}" },
    { "gemm bf16,i4->f32 M=60 N=208 K=3584 bias=1 packed=1 w_scale=bf16 w_zero=i8 w_group=16", S, false,
      "gemm_w4_mma{wgmma=1,tile_m=64,tile_n=128,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm f16,i4->f32 M=130 N=144 K=2880 packed=1 w_scale=f16 w_group=16", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=128,tile_n=64,frags_n=1,k_waves=1,split=2,per_cu=1}" },
    { "gemm f16,i4->f32 M=20 N=64 K=768 packed=1 act=silu gates=interleaved w_scale=f32 w_group=16", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=32,tile_n=128,frags_n=2,k_waves=2,split=1,per_cu=1}" },
    { "gemm bf16,i4->f32 M=8 N=32 K=2048 packed=1 w_scale=f16 w_zero=i8 w_group=16", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=4}" },
    { "gemm f16,i4->f32 M=20 N=80 K=1152 bias=1 packed=1 w_scale=bf16 w_zero=i8 w_group=16", S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=2}" },
    { "gemm bf16,e2m1->f32 M=7 N=80 K=1120 packed=1 w_scale=f32 w_group=16", S, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=1,split_k=2}" },
    { "gemm bf16,i4->bf16 M=24 N=48 K=640 experts=4 top=2 weights=1 packed=1 w_scale=f16 w_group=16", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=2}" },
};

OP_CASES(right_nvfp4, nvfp4, "nvfp4")

OP_CASES(right_groups, fine, "4-bit weights, any groups")

OP_CASES(right_packed, packed, "4-bit weights, any groups, prepacked")

OP_CASES(right_experts, experts, "4-bit weights, any groups, grouped")

OP_CASES(right_floats, floats, "e2m1, scales of floats")

OP_CASES(right_halves, halves, "4-bit weights, groups of 16, prepacked")

OP_CASES(right_kernels, kernels, "nvfp4, prepacked")

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

START_TEST(bad_problems)
{
    static const char *const bad[][2] = {
        { "f32,e2m1->f32 M=1 N=8 K=64" NVFP4, "dtype of w is e2m1" },
        { "bf16,i4->bf16 M=1 N=8 K=64 w_scale=e4m3 w_group=16", "w_scale=e4m3: must be f32, f16 or bf16, w is i4" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_scale=f32 w_group=8", "w_group=8: must be a multiple of 16, or K=64" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_group=16", "w_scale=none: must be f32, f16, bf16, e4m3 or e8m0, w is e2m1" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_scale=f32 w_group=16 w_zero=i8", "w_zero=i8: must be none, w is e2m1" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_scale=f16 w_group=16 w_global=1", "w_global=1: must be 0, x is bf16" },
        { "bf16,e4m3->bf16 M=1 N=8 K=64 w_scale=e4m3", "w_scale=e4m3: must be" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=64 w_scale=e4m3", "w_scale=e4m3: must be f32 or e8m0, w is e4m3" },
        { "e2m1,e2m1->bf16 M=1 N=8 K=64 w_scale=e4m3 x_scale=e4m3 x_per=group w_per=group", "x_scale=e4m3: must be" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_scale=e4m3", "w_group=0: must be a multiple of 16, or K=64, w is e2m1" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_scale=e4m3 w_group=8", "w_group=8: must be a multiple of 16, or K=64" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_scale=e8m0 w_group=16", "w_group=16: must be a multiple of 32, or K=64" },
        { "bf16,i4->bf16 M=1 N=8 K=60 w_scale=f16 w_group=24", "w_group=24: must be a multiple of 16, or K=60" },
        { "bf16,i4->bf16 M=1 N=8 K=63 w_scale=f16 w_group=16", "K=63, ldw=0: must be whole blocks of i4" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64" NVFP4 " w_zero=i8", "w_zero=i8: must be none, w is e2m1" },
        { "bf16,i4->bf16 M=1 N=8 K=64 w_scale=f16 w_group=16 w_global=1", "w_global=1: must be 0, x is bf16, w i4" },
        { "bf16,e2m1->bf16 M=1 N=8 K=64 w_scale=e8m0 w_group=32 w_global=1", "w_global=1: must be 0, x is bf16" },
        { "e4m3,e2m1->bf16 M=1 N=8 K=64 w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group w_global=1",
          "w_global=1: must be 0, x is e4m3" },
        { "bf16,bf16->bf16 M=1 N=8 K=64 w_global=1", "w_global=1: must be 0, x is bf16, w bf16, w_scale=none: is of" },
        { "bf16,i4->bf16 M=1 N=16 K=96 w_scale=f16 w_group=96 packed=1", "the group divide the next one, 128, packed" },
        { "bf16,e2m1->bf16 M=1 N=16 K=48 packed=1" NVFP4, "K=48: must be a multiple of 32 to be prepacked" },
    };
    OP_PROBLEMS_REFUSED("gemm ", bad);
}
END_TEST

static void refused(rfg_context *ctx, const rfg_tensor *w, const rfg_tensor *scale, const rfg_tensor *global,
                    int64_t group, const char *words)
{
    static uint16_t x[4 * 352], y[4 * 32];
    rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, 4, 352, 352), ty = rfg_tensor_2d(y, RFG_BF16, 4, 32, 32);
    rfg_gemm_params p = { .size = sizeof(p), .w_scale = scale, .w_global = global, .w_group = group };
    rfg_status st = rfg_op_gemm(ctx, &ty, &tx, w, &p, NULL);
    ck_assert_msg(words || st == RFG_OK, "%s", rfg_last_error());
    if (words)
        op_refused(st, words);
}

START_TEST(refusals)
{
    static uint8_t w[32 * 384 / 2], s[32 * 24 * 4];
    static float global[2];
    rfg_context *ctx = op_context("cpu");
    rfg_tensor plain = rfg_tensor_2d(w, RFG_E2M1, 32, 352, 352), i4 = rfg_tensor_2d(w, RFG_I4, 32, 352, 352);
    rfg_tensor pre = rfg_tensor_prepacked(w, RFG_E2M1, 32, 352), one = rfg_tensor_1d(global, RFG_F32, 1);
    rfg_tensor t = rfg_tensor_2d(s, RFG_E4M3, 32, 22, 22), g = rfg_tensor_prepacked_groups(s, RFG_E4M3, 32, 24);
    refused(ctx, &plain, &t, NULL, 0, NULL);
    refused(ctx, &plain, &t, &one, 16, NULL);
    refused(ctx, &pre, &g, &one, 0, NULL);
    refused(ctx, &plain, &t, &one, 32, "w_scale is 32 x 22: must be [N,K/group], w is 32 x 352");
    refused(ctx, &plain, &t, &one, -16, "w_group is -16: must be from 0 to");
    refused(ctx, &plain, &t, &one, (int64_t)1 << 31, "w_group is 2147483648: must be from 0 to");
    rfg_tensor two = rfg_tensor_1d(global, RFG_F32, 2), i = rfg_tensor_1d(global, RFG_I32, 1);
    refused(ctx, &plain, &t, &two, 0, "w_global");
    refused(ctx, &plain, &t, &i, 0, "w_global is i32: must be f32");
    /* Of i4: groups that don't divide K are said. */
    t = rfg_tensor_2d(s, RFG_F16, 32, 3, 3);
    refused(ctx, &i4, &t, NULL, 128, NULL);
    refused(ctx, &i4, &t, NULL, 0, "w_group=117: must be a multiple of 16");
    refused(ctx, &i4, &t, &one, 128, "w_global=1: must be 0");
    t = rfg_tensor_2d(s, RFG_F16, 32, 1, 1);
    refused(ctx, &i4, &t, NULL, 0, NULL);
    refused(ctx, &i4, &t, NULL, 512, NULL);
    refused(ctx, &i4, NULL, NULL, 128, "w_group is 128: must be 0, w has no groups");
    rfg_tensor bf16 = rfg_tensor_2d(w, RFG_BF16, 8, 352, 352), y8 = rfg_tensor_2d(s, RFG_BF16, 4, 8, 8);
    rfg_gemm_params p = { .size = sizeof(p), .w_group = 16 };
    rfg_tensor x = rfg_tensor_2d(s, RFG_BF16, 4, 352, 352);
    op_refused(rfg_op_gemm(ctx, &y8, &x, &bf16, &p, NULL), "w_group is 16: must be 0, w has no groups");
    rfg_tensor yb = rfg_tensor_nd(s, RFG_BF16, 3, (int64_t[]){ 1, 2, 2 });
    rfg_tensor xb = rfg_tensor_nd(w, RFG_BF16, 3, (int64_t[]){ 1, 2, 8 });
    rfg_tensor wb = rfg_tensor_nd(w, RFG_BF16, 3, (int64_t[]){ 2, 2, 8 });
    op_refused(rfg_op_gemm(ctx, &yb, &xb, &wb, &p, NULL), "w_group is 16: must be 0, y has 3 dimensions");
    p = (rfg_gemm_params){ .size = sizeof(p), .w_global = &one };
    op_refused(rfg_op_gemm(ctx, &yb, &xb, &wb, &p, NULL), "w_global is given: must be NULL, y has 3 dimensions");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main(
        "gemm_groups",
        OP_TESTS(right_nvfp4, right_groups, right_packed, right_experts, right_floats, right_halves, right_kernels),
        OP_TESTS(bad_problems, refusals));
}
