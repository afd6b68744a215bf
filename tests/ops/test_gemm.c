/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm on the cpu and on the devices of $RFG_TEST_DEVICES: shapes, strides, alignment, special values,
 * repeatable bits, many threads. */
#include <inttypes.h>
#include <pthread.h>

#include "base/util.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define C RFG_DATA_CANCEL
#define S RFG_DATA_SPECIAL
#define E RFG_DATA_EXACT

static const struct op_case shapes[] = {
    { "gemm bf16,bf16->bf16 M=1 N=2112 K=7168" },   { "gemm bf16,bf16->bf16 M=8 N=512 K=7168" },
    { "gemm bf16,bf16->bf16 M=16 N=384 K=2048" },   { "gemm bf16,bf16->bf16 M=33 N=256 K=1024 bias=1" },
    { "gemm bf16,bf16->f32 M=64 N=192 K=512" },     { "gemm bf16,bf16->f16 M=5 N=96 K=256 bias=1" },
    { "gemm f16,f16->f16 M=4 N=1000 K=1000" },      { "gemm f16,f16->f16 M=128 N=128 K=512 bias=1" },
    { "gemm f16,f16->f32 M=9 N=64 K=1536" },        { "gemm f16,f16->bf16 M=2 N=2048 K=128" },
    { "gemm f32,f32->f32 M=7 N=130 K=512 bias=1" }, { "gemm f32,f32->bf16 M=16 N=64 K=320" },
    { "gemm f32,f32->f16 M=3 N=40 K=64" },          { "gemm bf16,bf16->bf16 M=1 N=1 K=1" },
    { "gemm bf16,bf16->f32 M=1 N=1 K=8192" },       { "gemm f16,f16->f16 M=1 N=7 K=9" },
    { "gemm bf16,bf16->bf16 M=2 N=3 K=7 bias=1" },  { "gemm bf16,bf16->bf16 M=3 N=17 K=33" },
    { "gemm bf16,bf16->bf16 M=15 N=65 K=72" },      { "gemm bf16,bf16->bf16 M=17 N=63 K=136 bias=1" },
    { "gemm f16,f16->f32 M=31 N=129 K=264" },       { "gemm bf16,bf16->bf16 M=65 N=100 K=200" },
    { "gemm f16,f16->bf16 M=130 N=30 K=520" },      { "gemm bf16,bf16->bf16 M=257 N=48 K=96" },
    { "gemm f32,f32->f32 M=19 N=23 K=29" },
};

static const struct op_case zeroes[] = {
    { "gemm bf16,bf16->bf16 M=0 N=64 K=64" },     { "gemm f16,f16->f32 M=8 N=0 K=64 bias=1" },
    { "gemm bf16,bf16->bf16 M=8 N=64 K=0" },      { "gemm bf16,bf16->bf16 M=8 N=64 K=0 bias=1" },
    { "gemm f32,f32->f16 M=33 N=17 K=0 bias=1" }, { "gemm f16,f16->f16 M=1 N=9 K=0 ldy=11" },
    { "gemm bf16,bf16->bf16 M=0 N=0 K=0" },
};

static const struct op_case layouts[] = {
    { "gemm bf16,bf16->bf16 M=8 N=96 K=512 ldx=520 ldw=528 ldy=104" },
    { "gemm bf16,bf16->bf16 M=8 N=96 K=512 ldx=516 ldw=520 ldy=100 bias=1" },
    { "gemm bf16,bf16->bf16 M=8 N=96 K=512 ldx=513 ldw=512" },
    { "gemm f16,f16->f16 M=20 N=72 K=256 ldw=257 ldy=73" },
    { "gemm f16,f16->f32 M=3 N=40 K=128 ldx=1000 ldw=136 ldy=41 bias=1" },
    { "gemm f32,f32->f32 M=6 N=33 K=64 ldx=65 ldw=67 ldy=35" },
    { "gemm bf16,bf16->bf16 M=8 N=96 K=512", R, true },
    { "gemm f16,f16->f32 M=17 N=65 K=264 bias=1", R, true },
    { "gemm f32,f32->bf16 M=4 N=31 K=100 bias=1", R, true },
    { "gemm bf16,bf16->bf16 M=8 N=96 K=512 align=4" },
    /* Columns beyond the last quad. */
    { "gemm bf16,bf16->bf16 M=20 N=70 K=256 ldy=72", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm bf16,bf16->bf16 M=20 N=71 K=256 ldy=72 bias=1", R, false,
      "gemm_splitk_mma{tile_m=32,tile_n=64,tile_k=64,k_waves=1,stages=2,split_k=1}" },
    /* More tiles along m than a die takes before the next ones: rfg_xcd_tile(). */
    { "gemm bf16,bf16->bf16 M=600 N=40 K=136", R, false,
      "gemm_splitk_mma{tile_m=16,tile_n=16,tile_k=64,k_waves=1,stages=2,split_k=2}" },
    { "gemm bf16,bf16->bf16 M=200 N=70 K=256", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=2}" },
    { "gemm bf16,bf16->bf16 M=40 N=96 K=512 align=8 align_y=2 bias=1" },
    /* Rows of X and of W, and columns, that don't exist; with each swizzle and each number of buffers. */
    { "gemm bf16,bf16->bf16 M=70 N=90 K=200 ldx=208 ldw=216 ldy=101", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm f16,f16->f32 M=70 N=90 K=264 ldy=92 bias=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,bf16->bf16 M=130 N=72 K=8", R, false,
      "gemm_tile{tile_m=128,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,bf16->bf16 M=530 N=70 K=72", R, false,
      "gemm_tile{tile_m=64,tile_n=128,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm bf16,bf16->bf16 M=70 N=80 K=160 packed=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm f16,f16->f16 M=33 N=144 K=224 packed=1", R, false,
      "gemm_tile{tile_m=64,tile_n=128,tile_k=32,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm f16,f16->f16 M=16 N=128 K=1024 align=2 align_y=8" },
};

static const struct op_case values[] = {
    { "gemm bf16,bf16->f32 M=8 N=128 K=1024", I },
    { "gemm f16,f16->f32 M=33 N=96 K=2048 bias=1", I },
    { "gemm bf16,bf16->bf16 M=1 N=256 K=4096", I },
    { "gemm f32,f32->f32 M=5 N=64 K=768", I },
    { "gemm bf16,bf16->bf16 M=12 N=100 K=520 bias=1", I, true },
    { "gemm bf16,bf16->f32 M=8 N=128 K=2048", C },
    { "gemm f16,f16->f32 M=16 N=128 K=1024", C },
    { "gemm f16,f16->f16 M=64 N=64 K=512", C },
    { "gemm f32,f32->f32 M=4 N=64 K=512", C },
    { "gemm bf16,bf16->bf16 M=40 N=128 K=256", S },
    { "gemm bf16,bf16->f32 M=8 N=200 K=512 bias=1", S },
    { "gemm f16,f16->f16 M=17 N=129 K=264", S },
    { "gemm f16,f16->f32 M=6 N=500 K=128 bias=1", S },
    { "gemm f32,f32->f16 M=9 N=70 K=100", S },
};

/* At least three partials of each sum, in fp32, so that another order is another result; and the K of today's models.
 */
static const struct op_case partials[] = {
    { "gemm bf16,bf16->f32 M=3 N=10 K=4096", R, false, "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=8}" },
    { "gemm f32,f32->f32 M=1 N=7 K=7168 bias=1", R, false, "gemm_skinny{m_tile=1,rows=1,waves=4,unroll=4,split_k=4}" },
    { "gemm bf16,bf16->f32 M=20 N=40 K=2048 bias=1", R, false,
      "gemm_splitk_mma{tile_m=32,tile_n=64,tile_k=64,k_waves=1,stages=2,split_k=8}" },
    { "gemm f16,f16->f32 M=8 N=32 K=7168", R, false,
      "gemm_splitk_mma{tile_m=16,tile_n=16,tile_k=64,k_waves=2,stages=2,split_k=28}" },
    { "gemm bf16,bf16->f32 M=8 N=32 K=7168", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=28}" },
    { "gemm f16,f16->f32 M=20 N=72 K=1024 bias=1", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm bf16,bf16->bf16 M=2 N=16 K=7168", R, false, "gemm_portable{tile_m=16}" },
    { "gemm bf16,bf16->f32 M=7 N=49 K=7168 bias=1", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=7,unroll=2,split_k=16}" },
    { "gemm f16,f16->f32 M=30 N=45 K=2048", R, false,
      "gemm_thin_mma{tile_m=32,frags_n=4,k_waves=4,unroll=2,split_k=8}" },
    { "gemm bf16,bf16->f32 M=20 N=40 K=520 bias=1", R, false,
      "gemm_thin_mma{tile_m=16,frags_n=2,k_waves=5,unroll=2,split_k=1}" },
    { "gemm bf16,bf16->f32 M=70 N=48 K=1024", R, false,
      "gemm_wgmma{swap=0,tile_m=64,tile_n=32,tile_k=64,stages=2,split=16}" },
    { "gemm bf16,bf16->f32 M=6 N=150 K=2048 bias=1", R, false,
      "gemm_wgmma{swap=1,tile_m=8,tile_n=64,tile_k=128,stages=2,split=16}" },
    { "gemm bf16,bf16->f32 M=6 N=150 K=2048 bias=1", R, false,
      "gemm_wgmma{swap=1,tile_m=8,tile_n=64,tile_k=64,stages=4,split=1}" },
    { "gemm bf16,bf16->f32 M=20 N=90 K=1032 bias=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=4}" },
    { "gemm f16,f16->f32 M=90 N=70 K=520", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=3}" },
    { "gemm bf16,bf16->f32 M=6 N=32 K=7168", I, false,
      "gemm_splitk_mma{tile_m=16,tile_n=32,tile_k=128,k_waves=4,stages=2,split_k=20}" },
};

/* A bias of fp32 in each kernel's epilogue. */
static const struct op_case fp32_bias[] = {
    { "gemm bf16,bf16->f32 M=7 N=130 K=512 bias=1 btype=f32" },
    { "gemm f16,f16->f16 M=33 N=72 K=136 bias=1 btype=f32", E },
    { "gemm bf16,bf16->bf16 M=2 N=9 K=33 bias=1 btype=f32", R, true },
    { "gemm f16,f16->f32 M=3 N=17 K=0 bias=1 btype=f32 ldy=19" },
    { "gemm bf16,bf16->bf16 M=12 N=48 K=256 bias=1 btype=f32 packed=1", E },
    { "gemm bf16,bf16->f16 M=40 N=24 K=96 bias=1 btype=f32 align=8 align_y=4", S },
    { "gemm bf16,bf16->f32 M=3 N=10 K=1024 bias=1 btype=f32", R, false,
      "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=4}" },
    { "gemm f16,f16->f32 M=20 N=41 K=1024 bias=1 btype=f32", R, false,
      "gemm_splitk_mma{tile_m=32,tile_n=64,tile_k=64,k_waves=1,stages=2,split_k=4}" },
    { "gemm bf16,bf16->f32 M=20 N=70 K=256 bias=1 btype=f32", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm bf16,bf16->f32 M=20 N=71 K=256 bias=1 btype=f32", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm f16,f16->f32 M=20 N=45 K=1024 bias=1 btype=f32", R, false,
      "gemm_thin_mma{tile_m=32,frags_n=4,k_waves=4,unroll=2,split_k=8}" },
    { "gemm bf16,bf16->f32 M=70 N=48 K=1024 bias=1 btype=f32", R, false,
      "gemm_wgmma{swap=0,tile_m=64,tile_n=32,tile_k=64,stages=2,split=16}" },
    { "gemm f16,f16->f32 M=6 N=150 K=2048 bias=1 btype=f32", R, false,
      "gemm_wgmma{swap=1,tile_m=8,tile_n=64,tile_k=128,stages=2,split=16}" },
};

/* A residual or a gated activation in each kernel's epilogue. */
static const struct op_case epilogues[] = {
    { "gemm bf16,bf16->bf16 M=3 N=70 K=256 residual=1" },
    { "gemm f16,f16->f32 M=33 N=41 K=136 residual=1 bias=1 ldr=43 ldy=45" },
    { "gemm bf16,bf16->bf16 M=9 N=64 K=512 residual=1 inplace=1 ldr=66 ldy=66" },
    { "gemm f32,f32->bf16 M=5 N=31 K=67 residual=1", R, true },
    { "gemm bf16,bf16->bf16 M=17 N=32 K=96 residual=1 packed=1 align_y=2", S },
    { "gemm f16,f16->f16 M=4 N=24 K=0 residual=1 inplace=1" },
    { "gemm bf16,bf16->bf16 M=2 N=64 K=256 act=silu gates=interleaved" },
    { "gemm f16,f16->f16 M=33 N=70 K=136 act=gelu gates=interleaved bias=1 ldy=37" },
    { "gemm bf16,bf16->f32 M=17 N=30 K=67 act=gelu_tanh gates=interleaved", R, true },
    { "gemm f32,f32->f32 M=7 N=50 K=64 act=relu2 gates=interleaved bias=1" },
    { "gemm bf16,bf16->bf16 M=70 N=96 K=128 act=relu gates=interleaved packed=1" },
    { "gemm bf16,bf16->bf16 M=6 N=96 K=128 act=silu gates=interleaved", S },
    { "gemm f16,f16->f32 M=3 N=10 K=0 act=silu gates=interleaved bias=1" },
    { "gemm bf16,bf16->f32 M=3 N=10 K=4096 act=silu gates=interleaved", R, false,
      "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=8}" },
    { "gemm bf16,bf16->f32 M=3 N=10 K=4096 residual=1", R, false,
      "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=8}" },
    { "gemm bf16,bf16->f32 M=7 N=10 K=1024 act=silu gates=interleaved", R, false,
      "gemm_skinny{m_tile=8,rows=4,waves=2,unroll=2,split_k=2}" },
    { "gemm bf16,bf16->f32 M=20 N=42 K=2048 bias=1 act=gelu gates=interleaved", R, false,
      "gemm_splitk_mma{tile_m=32,tile_n=64,tile_k=64,k_waves=1,stages=2,split_k=8}" },
    { "gemm bf16,bf16->f32 M=20 N=41 K=2048 bias=1 residual=1", R, false,
      "gemm_splitk_mma{tile_m=32,tile_n=64,tile_k=64,k_waves=1,stages=2,split_k=8}" },
    { "gemm f16,f16->f32 M=20 N=72 K=1024 bias=1 act=silu gates=interleaved", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm bf16,bf16->bf16 M=20 N=70 K=256 act=silu gates=interleaved", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm f16,f16->f32 M=20 N=72 K=1024 bias=1 residual=1", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm bf16,bf16->bf16 M=20 N=70 K=256 residual=1 inplace=1", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm f16,f16->f32 M=20 N=72 K=1024 bias=1 act=silu gates=interleaved", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=4}" },
    { "gemm bf16,bf16->bf16 M=70 N=70 K=256 act=gelu gates=interleaved", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm f16,f16->f32 M=20 N=71 K=1024 bias=1 residual=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=2}" },
    { "gemm bf16,bf16->bf16 M=70 N=72 K=256 residual=1 inplace=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm bf16,bf16->f32 M=7 N=50 K=7168 bias=1 act=silu gates=interleaved", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=7,unroll=2,split_k=16}" },
    { "gemm bf16,bf16->f32 M=7 N=49 K=7168 bias=1 residual=1", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=7,unroll=2,split_k=16}" },
    { "gemm f16,f16->f16 M=30 N=46 K=2048 act=gelu_tanh gates=interleaved", R, false,
      "gemm_thin_mma{tile_m=32,frags_n=4,k_waves=4,unroll=2,split_k=1}" },
    { "gemm bf16,bf16->f32 M=70 N=48 K=1024 act=silu gates=interleaved", R, false,
      "gemm_wgmma{swap=0,tile_m=64,tile_n=32,tile_k=64,stages=2,split=16}" },
    { "gemm bf16,bf16->f32 M=6 N=150 K=2048 bias=1 act=silu gates=interleaved", R, false,
      "gemm_wgmma{swap=1,tile_m=8,tile_n=64,tile_k=128,stages=2,split=16}" },
    { "gemm bf16,bf16->bf16 M=6 N=150 K=2048 act=silu gates=interleaved", R, false,
      "gemm_wgmma{swap=1,tile_m=8,tile_n=64,tile_k=64,stages=4,split=1}" },
    { "gemm bf16,bf16->f32 M=6 N=150 K=2048 residual=1", R, false,
      "gemm_wgmma{swap=1,tile_m=8,tile_n=64,tile_k=128,stages=2,split=16}" },
};

/* Weights of 4 bits: each format, scale and group, with all that goes with others. */
static const struct op_case four_bits[] = {
    { "gemm bf16,i4->bf16 M=8 N=48 K=1024 w_scale=f16 w_group=128" },
    { "gemm f16,i4->f16 M=1 N=70 K=512 w_scale=f16 w_group=64" },
    { "gemm bf16,i4->f32 M=3 N=33 K=96 w_scale=bf16 w_group=32 bias=1" },
    { "gemm f16,i4->f32 M=33 N=20 K=192 w_scale=f32 w_group=96 ldx=200 ldw=256 ldy=21" },
    { "gemm bf16,i4->f32 M=5 N=40 K=512 w_scale=f16 w_zero=i8 w_group=128" },
    { "gemm f16,i4->f32 M=16 N=31 K=256 w_scale=f32 w_zero=i8 w_group=32 residual=1" },
    { "gemm bf16,i4->f16 M=70 N=24 K=128 w_scale=bf16 w_zero=i8 w_group=64 bias=1 btype=f32" },
    { "gemm bf16,i4->bf16 M=3 N=1 K=64 w_scale=f16 w_group=64" },
    { "gemm bf16,e2m1->bf16 M=8 N=48 K=1024 w_scale=e8m0 w_group=32" },
    { "gemm f16,e2m1->f32 M=2 N=65 K=224 w_scale=e8m0 w_group=32 bias=1 ldw=288" },
    { "gemm bf16,e2m1->f32 M=40 N=17 K=64 w_scale=e8m0 w_group=64 residual=1" },
    { "gemm f16,e2m1->f16 M=6 N=32 K=160 w_scale=e8m0 w_group=32 act=silu gates=interleaved", R, true },
    { "gemm bf16,i4->bf16 M=4 N=32 K=320 w_scale=f16 w_zero=i8 w_group=64 act=gelu gates=interleaved bias=1", R, true },
    { "gemm bf16,i4->f32 M=4 N=16 K=64 w_scale=f16 w_group=32 ldw=66 align=2" },
    { "gemm bf16,i4->f32 M=3 N=8 K=0 w_scale=f16 w_group=32 bias=1" },
    { "gemm bf16,i4->f32 M=8 N=64 K=512 w_scale=f16 w_zero=i8 w_group=128", I },
    { "gemm f16,e2m1->f32 M=9 N=32 K=256 w_scale=e8m0 w_group=32", I },
    { "gemm bf16,i4->f32 M=4 N=32 K=256 w_scale=bf16 w_zero=i8 w_group=32", C },
    { "gemm f16,i4->f32 M=8 N=200 K=256 w_scale=f16 w_group=64", S },
    { "gemm bf16,e2m1->f32 M=8 N=200 K=256 w_scale=e8m0 w_group=32", S },
    { "gemm bf16,i4->f32 M=3 N=10 K=4096 w_scale=f32 w_zero=i8 w_group=128", R, false,
      "gemm_skinny{m_tile=4,rows=2,waves=1,unroll=4,split_k=8}" },
    { "gemm f16,e2m1->f32 M=7 N=10 K=2048 w_scale=e8m0 w_group=32 act=silu gates=interleaved", R, false,
      "gemm_skinny{m_tile=8,rows=4,waves=2,unroll=2,split_k=2}" },
};

/* The same prepacked, on matrix cores. */
static const struct op_case four_bits_packed[] = {
    { "gemm bf16,i4->bf16 M=8 N=48 K=1024 w_scale=f16 w_group=128 packed=1" },
    { "gemm f16,i4->f16 M=1 N=80 K=512 w_scale=f16 w_group=64 packed=1" },
    { "gemm bf16,i4->f32 M=3 N=32 K=384 w_scale=bf16 w_group=32 bias=1 packed=1" },
    { "gemm f16,i4->f32 M=33 N=16 K=256 w_scale=f32 w_group=32 ldx=264 ldy=21 packed=1" },
    { "gemm bf16,i4->f32 M=5 N=48 K=512 w_scale=f16 w_zero=i8 w_group=128 packed=1" },
    { "gemm f16,i4->f32 M=16 N=32 K=768 w_scale=f32 w_zero=i8 w_group=384 residual=1 packed=1" },
    { "gemm bf16,i4->f16 M=70 N=32 K=256 w_scale=bf16 w_zero=i8 w_group=64 bias=1 btype=f32 packed=1" },
    { "gemm f16,i4->f32 M=4 N=32 K=384 w_scale=f16 w_zero=i8 w_group=96 packed=1" },
    { "gemm bf16,e2m1->bf16 M=8 N=48 K=1024 w_scale=e8m0 w_group=32 packed=1" },
    { "gemm f16,e2m1->f32 M=2 N=64 K=256 w_scale=e8m0 w_group=32 bias=1 packed=1" },
    { "gemm bf16,e2m1->f32 M=40 N=16 K=128 w_scale=e8m0 w_group=64 residual=1 packed=1" },
    { "gemm f16,e2m1->f16 M=6 N=32 K=256 w_scale=e8m0 w_group=32 act=silu gates=interleaved packed=1" },
    { "gemm f16,i4->f16 M=6 N=32 K=256 w_scale=f16 w_group=32 act=silu gates=interleaved packed=1", R, true },
    { "gemm bf16,i4->f32 M=3 N=16 K=0 w_scale=f16 w_group=32 bias=1 packed=1" },
    { "gemm bf16,i4->f32 M=8 N=64 K=512 w_scale=f16 w_zero=i8 w_group=128 packed=1", I },
    { "gemm f16,e2m1->f32 M=9 N=32 K=256 w_scale=e8m0 w_group=32 packed=1", I },
    { "gemm bf16,i4->f32 M=4 N=32 K=256 w_scale=bf16 w_zero=i8 w_group=32 packed=1", C },
    { "gemm f16,i4->f32 M=8 N=208 K=256 w_scale=f16 w_group=64 packed=1", S },
    { "gemm bf16,e2m1->f32 M=8 N=208 K=256 w_scale=e8m0 w_group=32 packed=1", S },
    /* K padded up to whole blocks. */
    { "gemm bf16,e2m1->bf16 M=8 N=48 K=2880 w_scale=e8m0 w_group=32 bias=1 packed=1" },
    { "gemm f16,e2m1->f32 M=20 N=32 K=32 w_scale=e8m0 w_group=32 packed=1" },
    { "gemm f16,i4->f32 M=3 N=48 K=320 w_scale=f16 w_zero=i8 w_group=32 ldx=328 packed=1" },
    { "gemm bf16,i4->f32 M=70 N=16 K=224 w_scale=f32 w_zero=i8 w_group=32 packed=1 act=silu gates=interleaved", R,
      false },
    { "gemm f16,e2m1->f32 M=9 N=32 K=352 w_scale=e8m0 w_group=32 packed=1", I },
    { "gemm bf16,i4->f32 M=8 N=64 K=160 w_scale=bf16 w_group=32 packed=1", S },
    { "gemm bf16,e2m1->f32 M=7 N=80 K=1120 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=2}" },
    { "gemm bf16,e2m1->bf16 M=20 N=80 K=2880 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_thin_mma{tile_m=16,frags_n=2,k_waves=4,unroll=1,split_k=4}" },
    { "gemm bf16,e2m1->bf16 M=20 N=80 K=2880 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=32,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    /* Partial sums of each kind: rings of one turn and of more, uneven parts, splits. */
    { "gemm bf16,i4->f32 M=8 N=32 K=3584 w_scale=f16 w_group=128 packed=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=7}" },
    { "gemm f16,e2m1->f32 M=20 N=80 K=1152 w_scale=e8m0 w_group=32 bias=1 packed=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=1,split_k=2}" },
    { "gemm bf16,i4->f32 M=7 N=48 K=2048 w_scale=bf16 w_zero=i8 w_group=256 packed=1 act=silu gates=interleaved", R,
      false, "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=1}" },
    { "gemm bf16,i4->f32 M=7 N=48 K=7168 w_scale=f16 w_group=128 bias=1 packed=1", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=4,unroll=2,split_k=8}" },
    { "gemm f16,e2m1->f32 M=30 N=48 K=1152 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_thin_mma{tile_m=32,frags_n=2,k_waves=4,unroll=1,split_k=1}" },
    { "gemm bf16,i4->f32 M=20 N=48 K=2048 w_scale=f32 w_zero=i8 w_group=256 packed=1 act=silu gates=interleaved", R,
      false, "gemm_thin_mma{tile_m=16,frags_n=2,k_waves=5,unroll=1,split_k=2}" },
    { "gemm bf16,i4->f32 M=7 N=208 K=3584 w_scale=bf16 w_group=128 bias=1 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=96,frags_n=2,k_waves=2,split=5,per_cu=1}" },
    { "gemm bf16,e2m1->bf16 M=30 N=272 K=1024 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=128,frags_n=2,k_waves=1,split=1,per_cu=2}" },
    { "gemm f16,i4->f32 M=70 N=80 K=768 w_scale=f32 w_zero=i8 w_group=32 packed=1 act=silu gates=interleaved", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=32,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=2}" },
    { "gemm f16,e2m1->f32 M=65 N=64 K=1152 w_scale=e8m0 w_group=64 residual=1 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=64,tile_n=64,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,i4->bf16 M=3 N=48 K=3072 w_scale=f16 w_zero=i8 w_group=256 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=2,split=16,per_cu=1}" },
    { "gemm bf16,i4->f32 M=60 N=208 K=3584 w_scale=bf16 w_group=128 bias=1 packed=1", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=64,tile_n=128,frags_n=1,k_waves=1,split=4,per_cu=1}" },
    { "gemm bf16,e2m1->bf16 M=130 N=144 K=2880 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=128,tile_n=64,frags_n=1,k_waves=1,split=2,per_cu=1}" },
    { "gemm f16,i4->f32 M=20 N=64 K=768 w_scale=f32 w_zero=i8 w_group=64 packed=1 act=silu gates=interleaved", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=32,tile_n=128,frags_n=2,k_waves=2,split=1,per_cu=1}" },
    { "gemm f16,e2m1->f32 M=33 N=48 K=512 w_scale=e8m0 w_group=128 residual=1 packed=1", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=16,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=1}" },
    /* Decoded on its way to gemm_tile_wgmma: uneven tiles of both kinds, groups of each size, rows of Y not aligned. */
    { "gemm bf16,e2m1->bf16 M=130 N=144 K=2880 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm bf16,e2m1->f32 M=300 N=400 K=1024 w_scale=e8m0 w_group=64 bias=1 residual=1 packed=1", R, false,
      "gemm_tile_wgmma{tile_n=176,cluster=1}" },
    { "gemm bf16,e2m1->f16 M=70 N=400 K=512 w_scale=e8m0 w_group=128 act=silu gates=interleaved packed=1", R, false,
      "gemm_tile_wgmma{tile_n=192,cluster=1}" },
    { "gemm bf16,e2m1->bf16 M=100 N=208 K=4096 w_scale=e8m0 w_group=256 packed=1", R, false,
      "gemm_tile64_wgmma{tile_n=192}" },
    { "gemm bf16,e2m1->bf16 M=20 N=80 K=288 w_scale=e8m0 w_group=32 ldy=84 packed=1", R, false,
      "gemm_tile64_wgmma{tile_n=112}" },
    { "gemm bf16,e2m1->bf16 M=80 N=400 K=2016 w_scale=e8m0 w_group=32 packed=1", S, false,
      "gemm_tile_wgmma{tile_n=144,cluster=1}" },
    /* Rings that come round, of stages that begin at odd multiples of 64 bytes, of several sets of waves. */
    { "gemm bf16,i4->bf16 M=5 N=96 K=7168 w_scale=bf16 w_group=128 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=96,frags_n=1,k_waves=1,split=1,per_cu=2}" },
    { "gemm bf16,i4->bf16 M=14 N=160 K=7168 w_scale=bf16 w_group=128 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=16,tile_n=160,frags_n=2,k_waves=2,split=2,per_cu=2}" },
    { "gemm bf16,e2m1->bf16 M=8 N=128 K=7168 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=32,frags_n=1,k_waves=4,split=1,per_cu=2}" },
    { "gemm bf16,i4->f32 M=40 N=160 K=7168 w_scale=bf16 w_group=128 packed=1", R, false,
      "gemm_w4_mma{wgmma=0,tile_m=64,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=1}" },
    { "gemm bf16,i4->bf16 M=128 N=128 K=7168 w_scale=bf16 w_group=128 packed=1", R, false,
      "gemm_w4_mma{wgmma=1,tile_m=128,tile_n=128,frags_n=1,k_waves=1,split=1,per_cu=1}" },
};

/* The same on gemm_tile, by rows and prepacked: groups that are parts of a step, a step, and several; K and tiles that
 * aren't whole, zero points, splits of k. fp16 with whole numbers, as MI200 takes subnormal ones for 0. */
static const struct op_case four_bits_tiles[] = {
    { "gemm bf16,i4->f32 M=70 N=90 K=288 w_scale=f16 w_zero=i8 w_group=32 ldw=352", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,i4->f32 M=20 N=72 K=384 w_scale=bf16 w_group=128 bias=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=3}" },
    { "gemm f16,i4->f32 M=70 N=70 K=192 w_scale=f32 w_zero=i8 w_group=96", I, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=2}" },
    { "gemm bf16,e2m1->f32 M=70 N=134 K=96 w_scale=e8m0 w_group=32 act=silu", R, false,
      "gemm_tile{tile_m=64,tile_n=128,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm f16,e2m1->f32 M=20 N=90 K=128 w_scale=e8m0 w_group=64 residual=1", I, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm bf16,i4->f32 M=70 N=80 K=224 w_scale=f16 w_zero=i8 w_group=32 packed=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=2}" },
    { "gemm bf16,i4->f32 M=20 N=144 K=512 w_scale=f32 w_zero=i8 w_group=256 packed=1 act=gelu gates=interleaved", R,
      false, "gemm_tile{tile_m=64,tile_n=128,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm f16,i4->f32 M=20 N=48 K=256 w_scale=f16 w_group=64 packed=1 bias=1 btype=f32", I, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,e2m1->bf16 M=130 N=80 K=352 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_tile{tile_m=128,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm bf16,e2m1->f32 M=20 N=112 K=96 w_scale=e8m0 w_group=32 packed=1", S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=32,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,i4->f32 M=20 N=130 K=96 w_scale=f16 w_zero=i8 w_group=32", S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
};

OP_CASES(right_shapes, shapes, "shapes")
OP_CASES(right_4_bits_packed, four_bits_packed, "4-bit weights, prepacked")
OP_CASES(right_4_bits, four_bits, "4-bit weights")
OP_CASES(right_4_bits_tiles, four_bits_tiles, "4-bit weights of many rows")
OP_CASES(right_partials, partials, "partial sums, large K")
OP_CASES(right_zero_sizes, zeroes, "zero sizes")
OP_CASES(right_layouts, layouts, "strides and alignment")
OP_CASES(right_fp32_bias, fp32_bias, "fp32 bias")
OP_CASES(right_epilogues, epilogues, "residual and gated activation")
OP_CASES(right_values, values, "exact, cancelling, NaN and inf")

START_TEST(tiles_by_turns)
{
    op_few_groups(op_device(_i), "gemm bf16,bf16->f32 M=40 N=150 K=40 bias=1", "gemm_portable{tile_m=16}", 2);
}
END_TEST

static size_t workspace_wanted;
static size_t wants_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev, (void)prob, (void)p;
    return workspace_wanted;
}

/* A plan that wants more workspace than a stream has is refused, whatever its variant thinks of it. */
START_TEST(workspace_limit)
{
    rfg_context *ctx = op_context(op_device(_i));
    struct rfg_problem prob = op_problem("gemm bf16,bf16->bf16 M=3 N=5 K=7");
    struct rfg_plan *plan;
    int p[RFG_MAX_PARAMS] = { 16 };
    struct rfg_variant wants = *rfg_variant_find(prob.op, "gemm_portable");
    wants.workspace = wants_workspace;
    for (int more = 0; rfg_context_hip(ctx) && more < 2; more++) {
        workspace_wanted = RFG_WORKSPACE_BYTES + (size_t)more;
        rfg_status st = rfg_plan_create(ctx, &prob, &wants, p, &plan);
        ck_assert_msg(st == (more ? RFG_ERROR_UNSUPPORTED : RFG_OK), "%zu bytes: %s", workspace_wanted,
                      rfg_status_name(st));
        ck_assert(!more || strstr(rfg_last_error(), "needs a workspace of 33554433 bytes: a stream has 33554432"));
        rfg_plan_destroy(ctx, &plan);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Sizes, dtypes, strides and data drawn from the seed. */
#define N_RANDOM 40
START_TEST(right_random)
{
    static char text[N_RANDOM][160];
    static const char *const in[] = { "bf16", "f16", "f32" };
    static const int ms[] = { 1, 2, 3, 4, 6, 8, 11, 16, 24, 32, 48, 64, 100 };
    struct op_case cases[N_RANDOM];
    uint64_t s = op_seed() ^ 0xabcdef;
    for (int i = 0; i < N_RANDOM; i++) {
        const char *x = in[rfg_random(&s) % 3], *y = in[rfg_random(&s) % 3];
        int m = ms[rfg_random(&s) % 13], n = 1 + (int)(rfg_random(&s) % 200), k = 1 + (int)(rfg_random(&s) % 600);
        if (rfg_random(&s) % 2)
            k = (k + 15) / 16 * 16;
        int at = snprintf(text[i], sizeof(text[i]), "gemm %s,%s->%s M=%d N=%d K=%d", x, x, y, m, n, k);
        if (rfg_random(&s) % 3 == 0)
            at += snprintf(text[i] + at, sizeof(text[i]) - (size_t)at, " bias=1");
        if (rfg_random(&s) % 3 == 0)
            snprintf(text[i] + at, sizeof(text[i]) - (size_t)at, " ldx=%d ldw=%d ldy=%d", k + (int)(rfg_random(&s) % 9),
                     k + 8 * (int)(rfg_random(&s) % 3), n + (int)(rfg_random(&s) % 5));
        cases[i] = (struct op_case){ text[i], (enum rfg_data)(rfg_random(&s) % 4), rfg_random(&s) % 4 == 0 };
        /* Too few terms to cancel; too few rows or columns for one to stay free of NaN. */
        if ((cases[i].data == RFG_DATA_CANCEL && k < 64) || (cases[i].data == RFG_DATA_SPECIAL && (m < 6 || n < 6)))
            cases[i].data = RFG_DATA_RANDOM;
    }
    op_cases_run(op_device(_i), "drawn from the seed", cases, N_RANDOM);
}
END_TEST

/* One rounding, whoever serves it: dtypes x layouts x bias, with sums that show every rounding. What cuBLASLt rounded
 * twice on an H200 is among them. */
static const struct {
    const char *sizes;
    bool unaligned;
} roundings[] = {
    { "M=8 N=48 K=256", false },
    { "M=1 N=72 K=512", false },
    { "M=33 N=40 K=128 ldw=131", false },
    { "M=65 N=16 K=13", false },
    { "M=12 N=16 K=264 ldx=267", false },
    { "M=5 N=7 K=72", false },
    { "M=20 N=24 K=64 ldx=72 ldw=80 ldy=27", false },
    { "M=9 N=32 K=96", true },
    { "M=17 N=64 K=128 align=4", false },
    { "M=16 N=32 K=160 align_y=2", false },
    { "M=6 N=32 K=128 packed=1", false },
};
#define N_ROUNDINGS (int)(sizeof(roundings) / sizeof(roundings[0]))

static const struct op_case rounded_twice[] = {
    { "gemm bf16,bf16->bf16 M=33 N=1000 K=128 ldw=131 bias=1", E },
    { "gemm bf16,bf16->bf16 M=65 N=16 K=13 bias=1", E },
    { "gemm f16,f16->f16 M=64 N=16 K=4096 ldw=4099 bias=1", E },
    { "gemm f16,f16->f16 M=128 N=7 K=8200 bias=1", E },
    { "gemm f16,f16->f16 M=128 N=7 K=8200 ldy=8 bias=1", E },
    { "gemm f16,f16->f16 M=7 N=128 K=8200 bias=1", E },
    { "gemm f16,f16->f16 M=128 N=7 K=8200 ldw=8203 ldy=8 bias=1", E },
    { "gemm bf16,bf16->bf16 M=256 N=1024 K=1024 bias=1", E },
};
OP_CASES(one_rounding_where_there_were_two, rounded_twice, "one rounding, vendors'")

START_TEST(one_rounding)
{
    static const char *const dtypes[] = { "bf16", "f16", "f32" };
    static char text[9 * 2 * N_ROUNDINGS][100];
    struct op_case cases[9 * 2 * N_ROUNDINGS];
    int n = 0,
        every = strncmp(op_device(_i), "emu:", 4) ? 1 : 11; /* the emulator has each kind, not each of all others */
    for (int i = 0; i < 9 * 2 * N_ROUNDINGS; i += every) {
        int d = i % 9, bias = i / 9 % 2, r = i / 18;
        bool packed = strstr(roundings[r].sizes, "packed");
        if (packed && d / 3 == 2)
            continue; /* of 16 bits only */
        snprintf(text[n], sizeof(text[n]), "gemm %s,%s->%s %s%s", dtypes[d / 3], dtypes[d / 3], dtypes[d % 3],
                 roundings[r].sizes, bias ? " bias=1" : "");
        cases[n] = (struct op_case){ text[n], E, roundings[r].unaligned };
        n++;
    }
    op_cases_run(op_device(_i), "one rounding", cases, n);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------------------------------- */

struct caller {
    pthread_t thread;
    struct rfg_case *c;
    rfg_stream stream;
    int calls;
    char error[sizeof(((struct rfg_check *)0)->message)];
};

static void *call_often(void *arg)
{
    struct caller *me = arg;
    for (int i = 0; i < me->calls; i++) {
        struct rfg_check check;
        if (rfg_case_run(me->c, 0, NULL, me->stream) != RFG_OK || rfg_case_check(me->c, 0, &check) != RFG_OK) {
            snprintf(me->error, sizeof(me->error), "%s", rfg_last_error());
            return NULL;
        }
        if (!check.ok) {
            snprintf(me->error, sizeof(me->error), "%s", check.message);
            return NULL;
        }
    }
    return NULL;
}

START_TEST(many_threads_one_context)
{
    static const char *const problems[] = { "gemm bf16,bf16->bf16 M=4 N=128 K=1024",
                                            "gemm bf16,bf16->bf16 M=24 N=96 K=512 bias=1",
                                            "gemm f16,f16->f32 M=1 N=300 K=2048", "gemm f32,f32->f32 M=3 N=50 K=70" };
    struct caller callers[8] = { 0 };
    int calls = strncmp(op_device(_i), "emu:", 4) ? 20 : 2;
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    for (int i = 0; i < 8; i++) {
        struct rfg_problem prob;
        struct rfg_case_params params = { .seed = op_seed() + (uint64_t)i };
        callers[i].calls = calls;
        ck_assert(rfg_problem_parse(&prob, problems[i % 4], NULL));
        ck_assert_msg(rfg_case_create(ctx, &prob, &params, &callers[i].c) == RFG_OK, "%s", rfg_last_error());
        if (hip)
            ck_assert_int_eq(hip->hipStreamCreateWithFlags((hipStream_t *)&callers[i].stream, hipStreamNonBlocking),
                             hipSuccess);
        /* The harness reads back with a device-wide wait: all must have been uploaded before. */
    }
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < 8; i++) {
        ck_assert_msg(!*callers[i].error, "%s: thread %d: %s", op_device(_i), i, callers[i].error);
        rfg_case_destroy(&callers[i].c);
        if (hip)
            ck_assert_int_eq(hip->hipStreamDestroy((hipStream_t)callers[i].stream), hipSuccess);
    }
    rfg_stats stats = RFG_STATS_INIT;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.calls, 8 * calls);
    ck_assert_uint_eq(stats.plans, 4);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("gemm",
                        OP_TESTS(right_shapes, right_4_bits, right_4_bits_packed, right_4_bits_tiles, right_partials,
                                 right_zero_sizes, right_layouts, right_fp32_bias, right_epilogues, right_values,
                                 workspace_limit, right_random, one_rounding_where_there_were_two, one_rounding,
                                 many_threads_one_context),
                        OP_TESTS(NULL), OP_TESTS(tiles_by_turns));
}
