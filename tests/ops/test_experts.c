/* SPDX-License-Identifier: MIT
 *
 * Grouped products of rfg_op_gemm, those of a mixture of experts, and what only activations of experts have (limits,
 * halves), on the cpu and on the devices of $RFG_TEST_DEVICES; rows that the same launch sums by token; offsets and
 * rows that are wrong; and what it refuses. */
#include <math.h>

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/gpu.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R      RFG_DATA_RANDOM
#define I      RFG_DATA_INTS /* of which the first and the last row are nobody's */
#define S      RFG_DATA_SPECIAL
#define ROWS   " w_scale=f32 x_scale=f32 x_per=row w_per=row"
#define BLOCKS " w_scale=f32 x_scale=f32 x_per=block w_per=block"

static const struct op_case activations[] = {
    { "gemm bf16,bf16->bf16 M=5 N=64 K=256 act=swigluoai gates=interleaved" },
    { "gemm f16,f16->f32 M=20 N=70 K=256 act=swigluoai limit=2 gates=interleaved bias=1" },
    { "gemm f32,f32->f32 M=3 N=20 K=40 act=silu limit=1 gates=interleaved" },
    { "gemm bf16,bf16->f32 M=70 N=132 K=128 act=silu limit=3" },
    { "gemm bf16,bf16->bf16 M=4 N=96 K=264 act=swigluoai bias=1 btype=f32" },
    { "gemm bf16,bf16->f32 M=9 N=2 K=64 act=gelu" },
    { "gemm bf16,bf16->f32 M=20 N=70 K=256 act=situ gates=interleaved bias=1" },
    { "gemm f16,f16->f16 M=70 N=132 K=128 act=situ limit=1" },
    { "gemm f16,f16->f32 M=20 N=132 K=128 act=swiglustep limit=1" },
    { "gemm e4m3,e4m3->f32 M=20 N=96 K=384 act=situ gates=interleaved" ROWS },
    { "gemm e4m3,e4m3->f32 M=20 N=512 K=400 act=silu" BLOCKS },
    { "gemm e4m3,e4m3->f32 M=20 N=300 K=400 act=silu" BLOCKS },
    { "gemm i8,i8->f32 M=70 N=132 K=256 act=silu bias=1 btype=f32" ROWS },
    { "gemm bf16,e2m1->bf16 M=4 N=64 K=256 act=swigluoai bias=1 w_scale=e8m0 w_group=32" },
    { "gemm bf16,bf16->f32 M=5 N=64 K=256 act=swigluoai gates=interleaved", S },
    { "gemm bf16,bf16->f32 M=5 N=64 K=256 act=silu limit=10 gates=interleaved ldy=40 ldx=272 ldw=280", R, true },
};

static const struct op_case groups[] = {
    { "gemm bf16,bf16->bf16 M=40 N=64 K=256 experts=5" },
    { "gemm bf16,bf16->bf16 M=40 N=64 K=256 experts=5", I },
    { "gemm bf16,bf16->f32 M=24 N=96 K=128 experts=8 top=4 act=silu" },
    { "gemm bf16,bf16->f32 M=24 N=40 K=264 experts=70 top=3 weights=1 bias=1" },
    { "gemm bf16,bf16->f32 M=24 N=64 K=256 experts=5 top=3 act=situ weights=1" },
    { "gemm bf16,bf16->f32 M=40 N=16 K=64 experts=1536 top=2 act=silu limit=10" },
    { "gemm bf16,bf16->bf16 M=40 N=16 K=32 experts=4096 weights=1" },
    { "gemm f16,f16->f32 M=60 N=72 K=192 experts=3 top=2 act=swigluoai gates=interleaved bias=1 btype=f32 routing=zipf",
      R, false },
    { "gemm bf16,bf16->bf16 M=90 N=48 K=256 experts=4 top=2 weights=1 routing=one" },
    { "gemm f32,f32->f32 M=7 N=20 K=36 experts=3 top=1 weights=1 bias=1" },
    { "gemm bf16,bf16->f32 M=1 N=64 K=256 experts=1" },
    { "gemm bf16,bf16->f32 M=8 N=32 K=0 experts=4 bias=1 weights=1" },
    { "gemm bf16,bf16->f32 M=0 N=32 K=64 experts=4" },
    { "gemm bf16,bf16->f32 M=16 N=48 K=256 experts=6 top=2 weights=1", S },
    { "gemm bf16,bf16->f32 M=70 N=48 K=256 experts=3 top=2", S },
    { "gemm bf16,bf16->f32 M=30 N=96 K=192 experts=5 top=2 ldx=200 ldy=104" },
    { "gemm bf16,bf16->f32 M=9 N=33 K=37 experts=5 top=3 ldx=41 bias=1", R, true },
    { "gemm bf16,bf16->f32 M=40 N=64 K=256 experts=5 top=2 packed=1 act=silu gates=interleaved" },
};

static const struct op_case formats[] = {
    { "gemm e4m3,e4m3->bf16 M=24 N=96 K=384 experts=7 top=4 act=silu gates=interleaved" ROWS },
    { "gemm e4m3,e4m3->f32 M=40 N=70 K=256 experts=3 x_scale=f32 w_scale=f32 weights=1" },
    { "gemm e4m3,e4m3->f32 M=40 N=256 K=272 experts=4 top=2 act=silu" BLOCKS },
    { "gemm e4m3,e4m3->f32 M=40 N=200 K=400 experts=4 weights=1 x_columns=1" BLOCKS },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=12 N=140 K=256 experts=5 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block", R,
      false },
    { "gemm i8,i8->f32 M=24 N=64 K=256 experts=6 top=3 bias=1 btype=f32" ROWS },
    { "gemm e5m2,e5m2->f32 M=10 N=48 K=128 experts=3" BLOCKS },
    { "gemm bf16,e2m1->bf16 M=12 N=64 K=256 experts=6 top=4 act=swigluoai gates=interleaved bias=1 w_scale=e8m0 "
      "w_group=32",
      R, false },
    { "gemm bf16,e2m1->bf16 M=40 N=96 K=256 experts=6 top=2 weights=1 w_scale=e8m0 w_group=32 packed=1" },
    { "gemm bf16,i4->bf16 M=20 N=64 K=256 experts=5 top=2 w_scale=f16 w_zero=i8 w_group=128" },
    { "gemm f16,i4->f32 M=20 N=64 K=512 experts=5 top=2 w_scale=f16 w_zero=i8 w_group=64 packed=1 act=silu "
      "gates=interleaved",
      R, false },
    { "gemm f16,i4->f32 M=6 N=32 K=128 experts=4 weights=1 w_scale=f32 w_group=32", I },
    { "gemm bf16,e4m3->bf16 M=24 N=136 K=256 experts=600 weights=1 w_scale=f32 w_per=block" },
    { "gemm e4m3,e4m3->f32 M=30 N=256 K=192 experts=130 top=3 act=silu" BLOCKS, R, false },
};

/* Kernels of matrix cores and their splits of k, by name. */
static const struct op_case kernels[] = {
    { "gemm bf16,bf16->f32 M=30 N=40 K=1032 experts=3 top=2 bias=1 weights=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm bf16,bf16->f32 M=60 N=40 K=520 experts=3 act=silu", I, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=1,unroll=2,split_k=2}" },
    { "gemm e4m3,e4m3->f32 M=20 N=256 K=528 experts=2 top=2 act=silu" BLOCKS, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm bf16,e2m1->f32 M=30 N=48 K=512 experts=6 top=2 weights=1 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=2}" },
    { "gemm bf16,bf16->f32 M=150 N=70 K=136 experts=3 top=3 bias=1 weights=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=2}" },
    { "gemm bf16,bf16->f32 M=100 N=68 K=72 experts=2 act=silu", I, false,
      "gemm_tile{tile_m=64,tile_n=128,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=70 N=256 K=144 experts=2 top=2 act=silu" BLOCKS, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm i8,i8->f32 M=90 N=70 K=144 experts=2 top=2 weights=1" ROWS, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,e2m1->f32 M=70 N=68 K=96 experts=2 top=2 act=silu w_scale=e8m0 w_group=32", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm bf16,i4->f32 M=90 N=80 K=256 experts=3 top=2 weights=1 bias=1 w_scale=f16 w_zero=i8 w_group=128 packed=1",
      R, false, "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=2}" },
    { "gemm bf16,bf16->f32 M=20 N=30 K=1032 experts=9 top=3 bias=1 weights=1", R, false,
      "gemm_skinny{m_tile=4,rows=2,waves=2,unroll=4,split_k=4}" },
    { "gemm bf16,bf16->f32 M=70 N=80 K=30 experts=4 top=2 weights=1", R, false, "gemm_portable{tile_m=64}" },
    { "gemm e4m3,e4m3->f32 M=20 N=512 K=656 experts=3 top=2 act=silu" BLOCKS, R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=4,unroll=2,split_k=1}" },
    { "gemm i8,i8->bf16 M=50 N=768 K=1024 experts=2 top=2 act=silu x_columns=1" BLOCKS, R, false,
      "gemm_thin_mma{tile_m=16,frags_n=1,k_waves=4,unroll=4,split_k=2}" },
    { "gemm e4m3,e4m3->bf16 M=20 N=256 K=1040 act=silu" BLOCKS, R, false,
      "gemm_thin_mma{tile_m=32,frags_n=4,k_waves=4,unroll=1,split_k=1}" },
    { "gemm bf16,bf16->f32 M=900 N=40 K=64 experts=700 top=3 weights=1", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=1,split_k=1}" },
    /* A short k: tiles beyond N, waves that have none, every format of x and w. */
    { "gemm e4m3,e4m3->f32 M=20 N=300 K=256 experts=3 weights=1" BLOCKS, R, false,
      "gemm_short_mma{tile_m=8,frags_n=2,waves=2,steps=4,along=2}" },
    { "gemm e4m3,e4m3->f32 M=300 N=1030 K=256 experts=257 weights=1" BLOCKS, R, false,
      "gemm_short_mma{tile_m=8,frags_n=4,waves=4,steps=4,along=7}" },
    { "gemm bf16,e4m3->bf16 M=150 N=1030 K=256 experts=257 top=3 weights=1 w_scale=f32 w_per=block", R, false,
      "gemm_short_mma{tile_m=8,frags_n=2,waves=4,steps=4,along=7}" },
    { "gemm f16,e4m3->f32 M=50 N=512 K=128 experts=3 act=silu w_scale=f32 w_per=block", R, false,
      "gemm_short_mma{tile_m=16,frags_n=1,waves=8,steps=2,along=4}" },
    { "gemm bf16,i8->f32 M=50 N=48 K=512 w_scale=f32 w_per=group w_group=64", R, false,
      "gemm_short_mma{tile_m=8,frags_n=1,waves=2,steps=8,along=2}" },
    { "gemm i8,i8->f32 M=40 N=200 K=448 bias=1 btype=f32 residual=1" ROWS, R, false,
      "gemm_short_mma{tile_m=16,frags_n=2,waves=2,steps=7,along=28}" },
    { "gemm bf16,bf16->f32 M=70 N=92 K=96 act=silu bias=1", R, false,
      "gemm_short_mma{tile_m=32,frags_n=4,waves=2,steps=3,along=2}" },
    { "gemm f16,f16->f32 M=9 N=64 K=32 packed=1", S, false,
      "gemm_short_mma{tile_m=8,frags_n=1,waves=2,steps=1,along=2}" },
};

/* Rows that are summed by token (ops/gemm_sum.h): experts without rows and one with all, N that no tile and no chunk
 * divides, places beside the rows, fewer tokens than there are, a residual that is y or is none. */
static const struct op_case sums[] = {
    { "gemm bf16,bf16->bf16 M=16 N=64 K=256 experts=5 slots=2" },
    { "gemm bf16,bf16->bf16 M=40 N=70 K=256 experts=4 weights=1 bias=1 slots=8 residual=1" },
    { "gemm bf16,bf16->bf16 M=40 N=72 K=264 experts=9 weights=1 slots=8 residual=1 inplace=1 tokens=1" },
    { "gemm bf16,bf16->bf16 M=6 N=33 K=256 experts=70 slots=1 residual=1 ldr=40 ldy=41" },
    { "gemm f16,f16->f32 M=64 N=100 K=128 experts=3 weights=1 slots=8 routing=one" },
    { "gemm f16,f16->f16 M=30 N=30 K=136 experts=6 top=2 slots=3 tokens=1" },
    { "gemm f32,f32->bf16 M=9 N=20 K=36 experts=3 slots=9 residual=1" },
    { "gemm bf16,bf16->f32 M=64 N=20 K=64 experts=2 slots=32" },
    { "gemm bf16,bf16->bf16 M=24 N=40 K=256 experts=5 slots=4 weights=1 residual=1", I },
    { "gemm bf16,bf16->bf16 M=24 N=40 K=256 experts=5 slots=4 weights=1 residual=1", S },
    { "gemm bf16,bf16->f32 M=0 N=40 K=256 experts=5 slots=4" },
    { "gemm bf16,bf16->bf16 M=10 N=32 K=0 experts=5 slots=2 bias=1" },
    { "gemm bf16,bf16->bf16 M=20 N=37 K=65 experts=5 slots=2 bias=1 residual=1 ldy=45", R, true },
    { "gemm e4m3,e4m3->bf16 M=32 N=96 K=384 experts=7 weights=1 slots=8" ROWS },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=16 N=136 K=272 experts=4 weights=1 slots=2 residual=1" BLOCKS },
    { "gemm i8,i8->bf16 M=24 N=64 K=256 experts=6 slots=3 bias=1 btype=f32" ROWS },
    { "gemm bf16,e2m1->bf16 M=32 N=64 K=256 experts=6 weights=1 w_scale=e8m0 w_group=32 packed=1 slots=4" },
    { "gemm f16,i4->f32 M=12 N=64 K=512 experts=5 w_scale=f16 w_zero=i8 w_group=64 packed=1 slots=2 residual=1", R,
      false },
    { "gemm e4m3,e2m1->bf16 M=16 N=48 K=256 experts=3 slots=8 x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group "
      "packed=1",
      R, false },
    /* k split, tiles of several rows, several waves that store, tiles that no expert has. */
    { "gemm bf16,bf16->bf16 M=48 N=40 K=1032 experts=20 bias=1 weights=1 slots=8 residual=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm bf16,bf16->f32 M=64 N=136 K=520 experts=2 weights=1 slots=2 tokens=1", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=8,unroll=2,split_k=2}" },
    { "gemm f16,f16->f16 M=90 N=34 K=256 experts=40 slots=3 residual=1 inplace=1", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=4,unroll=2,split_k=1}" },
    { "gemm bf16,bf16->bf16 M=40 N=40 K=520 experts=3 slots=2 weights=1", I, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=1,unroll=2,split_k=2}" },
    { "gemm bf16,e2m1->f32 M=32 N=48 K=512 experts=6 weights=1 w_scale=e8m0 w_group=32 packed=1 slots=8", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=2}" },
    { "gemm bf16,bf16->f32 M=70 N=80 K=30 experts=4 weights=1 slots=7 residual=1", R, false,
      "gemm_portable{tile_m=64}" },
    { "gemm e4m3,e4m3->bf16 M=36 N=130 K=144 experts=9 slots=6 residual=1" ROWS, R, false, "gemm_portable{tile_m=16}" },
};

/* Rows whose experts are said, in any order, some by no expert (I, S): by kernels that sum them or don't; two rows of a
 * token with one expert, N that ROWS doesn't divide, parts of a lane that begin in the middle of an expert's. */
static const struct op_case by_id[] = {
    { "gemm bf16,bf16->bf16 M=8 N=64 K=256 experts=128 top=8 act=silu ids=1" },
    { "gemm bf16,bf16->bf16 M=18 N=66 K=264 experts=5 top=9 act=silu gates=interleaved ids=1 bias=1" },
    { "gemm bf16,e4m3->bf16 M=9 N=256 K=256 experts=257 top=9 act=silu w_scale=f32 w_per=block ids=1" },
    { "gemm f16,f16->f32 M=6 N=40 K=128 experts=9 ids=1 weights=1 ldx=136 ldy=48" },
    { "gemm bf16,bf16->bf16 M=24 N=40 K=256 experts=5 top=4 ids=1", I },
    { "gemm bf16,bf16->bf16 M=24 N=40 K=256 experts=5 top=4 act=silu ids=1", S },
    { "gemm bf16,bf16->bf16 M=8 N=64 K=96 experts=128 weights=1 slots=8 ids=1 residual=1" },
    { "gemm bf16,bf16->bf16 M=40 N=70 K=264 experts=3 bias=1 weights=1 slots=8 ids=1 residual=1 inplace=1 tokens=1" },
    { "gemm bf16,e4m3->bf16 M=9 N=130 K=256 experts=257 weights=1 slots=9 ids=1 residual=1 w_scale=f32 w_per=block" },
    { "gemm f16,f16->f32 M=6 N=33 K=136 experts=70 slots=2 ids=1 ldx=144 ldy=41" },
    { "gemm bf16,bf16->f32 M=24 N=40 K=256 experts=5 slots=4 ids=1 weights=1 residual=1", I },
    { "gemm bf16,bf16->bf16 M=24 N=40 K=256 experts=5 slots=4 ids=1 weights=1 residual=1", S },
    { "gemm bf16,bf16->bf16 M=21 N=40 K=256 experts=5 slots=3 ids=1 weights=1 bias=1", S, false,
      "gemm_portable{tile_m=16}" },
    { "gemm bf16,bf16->bf16 M=15 N=66 K=264 experts=4 top=3 act=silu ids=1", R, false, "gemm_portable{tile_m=16}" },
    { "gemm bf16,bf16->bf16 M=9 N=101 K=512 experts=30 slots=9 ids=1 weights=1 residual=1", R, false,
      "gemm_slots{rows=4,waves=8,unroll=2}" },
    { "gemm bf16,e4m3->f32 M=27 N=101 K=128 experts=9 slots=9 ids=1 weights=1 w_scale=f32 w_per=block", R, false,
      "gemm_slots{rows=2,waves=1,unroll=4}" },
    { "gemm bf16,i8->bf16 M=12 N=30 K=192 experts=9 slots=4 ids=1 bias=1 w_scale=f32 w_per=group w_group=64", R, false,
      "gemm_slots{rows=1,waves=2,unroll=1}" },
    { "gemm f32,f32->f32 M=8 N=35 K=68 experts=9 slots=4 ids=1 weights=1 residual=1", R, false,
      "gemm_slots{rows=2,waves=2,unroll=8}" },
    { "gemm bf16,e2m1->bf16 M=8 N=64 K=256 experts=6 slots=4 ids=1 weights=1 bias=1 w_scale=e8m0 w_group=32", R, false,
      "gemm_slots{rows=4,waves=4,unroll=1}" },
    { "gemm bf16,e4m3->bf16 M=16 N=256 K=512 experts=30 top=4 act=silu ids=1 w_scale=f32 w_per=block", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=4,unroll=2,split_k=1}" },
};

/* gemm_tile_wgmma: tiles of several rows of tiles of an expert, of a few rows, of none; clusters of which one workgroup
 * has no rows; halves, each with its own scales of blocks; rows and offsets of nobody. */
static const struct op_case hopper[] = {
    { "gemm bf16,bf16->bf16 M=300 N=200 K=1032 experts=5 top=2 act=silu", R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm bf16,bf16->bf16 M=700 N=296 K=520 experts=3 weights=1 bias=1 routing=zipf", R, false,
      "gemm_tile_wgmma{tile_n=256,cluster=2}" },
    { "gemm f16,f16->f32 M=600 N=301 K=136 experts=2 top=2 bias=1 btype=f32", R, false,
      "gemm_tile_wgmma{tile_n=96,cluster=2}" },
    { "gemm bf16,bf16->bf16 M=40 N=130 K=264 experts=70 top=4 act=swigluoai bias=1", R, false,
      "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    { "gemm bf16,bf16->f32 M=2300 N=72 K=72 experts=1000 top=3 weights=1", R, false,
      "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    { "gemm bf16,bf16->bf16 M=2200 N=140 K=72 experts=4 weights=1 routing=one", R, false,
      "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    { "gemm f16,f16->f16 M=400 N=96 K=256 experts=33 top=2 act=gelu gates=interleaved ldx=272 ldy=50", R, false,
      "gemm_tile_wgmma{tile_n=176,cluster=2}" },
    { "gemm bf16,bf16->f32 M=300 N=96 K=328 experts=6 top=2 weights=1", I, false,
      "gemm_tile_wgmma{tile_n=112,cluster=1}" },
    { "gemm bf16,bf16->f32 M=300 N=96 K=256 experts=3 top=2 weights=1", S, false,
      "gemm_tile_wgmma{tile_n=96,cluster=2}" },
    { "gemm bf16,e2m1->bf16 M=700 N=208 K=1056 experts=6 top=2 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_tile_wgmma{tile_n=176,cluster=1}" },
    { "gemm bf16,e2m1->f32 M=300 N=160 K=2880 experts=5 top=4 act=swigluoai gates=interleaved bias=1 w_scale=e8m0 "
      "w_group=32 "
      "packed=1",
      R, false, "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    { "gemm bf16,e2m1->bf16 M=90 N=96 K=512 experts=40 weights=1 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_tile_wgmma{tile_n=96,cluster=1}" },
    { "gemm bf16,bf16->bf16 M=1 N=64 K=256 experts=1", R, false, "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    { "gemm e4m3,e4m3->bf16 M=150 N=160 K=272 experts=257 top=3 weights=1 fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    { "gemm e4m3,e4m3->f32 M=300 N=512 K=656 experts=3 top=2 act=silu fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm e4m3,e4m3->bf16 M=500 N=768 K=528 experts=4 top=2 act=silu limit=3 fast=1 x_columns=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=96,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=500 N=768 K=112 experts=4 top=2 act=silu fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=500 N=768 K=656 experts=4 top=2 act=silu fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=224,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=500 N=600 K=656 experts=4 weights=1 fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=256,cluster=1}" },
    { "gemm e4m3,e4m3->bf16 M=500 N=200 K=400 experts=4 weights=1 fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=176,cluster=1}" },
    { "gemm e5m2,e5m2->f32 M=90 N=300 K=528 experts=7 top=3 fast=1 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block",
      R, false, "gemm_tile_wgmma{tile_n=144,cluster=1}" },
    { "gemm i8,i8->f32 M=300 N=256 K=272 experts=3 top=2 act=silu" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=160,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=400 N=150 K=272 experts=4 top=2 act=silu bias=1 btype=f32 fast=1" ROWS, R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm e4m3,e4m3->f32 M=400 N=150 K=272 experts=4 weights=1 fast=1 x_scale=f32 w_scale=f32", R, false,
      "gemm_tile_wgmma{tile_n=160,cluster=2}" },
    { "gemm i8,i8->f32 M=390 N=170 K=1040 experts=5 top=2 weights=1" ROWS, R, false,
      "gemm_tile_wgmma{tile_n=256,cluster=1}" },
    /* Plain products with limits and halves. */
    { "gemm bf16,bf16->f32 M=140 N=300 K=264 act=silu limit=1 gates=interleaved bias=1", R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm bf16,bf16->bf16 M=300 N=150 K=264 act=swigluoai bias=1", R, false,
      "gemm_tile_wgmma{tile_n=144,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=140 N=768 K=528 act=silu fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=112,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=300 N=768 K=528 act=silu fast=1" BLOCKS, R, false,
      "gemm_tile_wgmma{tile_n=208,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=64 N=768 K=528 act=silu fast=1" BLOCKS, R, false, "gemm_tile64_wgmma{tile_n=192}" },
};

OP_CASES(right_activations, activations, "gemm with limits and halves")
OP_CASES(right_groups, groups, "grouped gemm")
OP_CASES(right_formats, formats, "grouped gemm")
OP_CASES(right_kernels, kernels, "grouped gemm")
OP_CASES(right_sums, sums, "grouped gemm, rows summed")
OP_CASES(right_hopper, hopper, "grouped gemm")
OP_CASES(right_by_id, by_id, "grouped gemm, experts by id")

/* Bytes in device memory. */
static void *device_bytes(rfg_context *ctx, size_t bytes)
{
    void *p;
    ck_assert_msg(rfg_device_alloc(ctx, &p, bytes) == RFG_OK, "%s", rfg_last_error());
    return p;
}

/* The product by itself with the same parameters, to `rows`, and rfg_op_moe_sum() of them to y. */
static void sum_apart(struct rfg_case *c, const struct rfg_variant *var, const int *params, void *rows,
                      const rfg_tensor *y)
{
    rfg_context *ctx = rfg_case_context(c);
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    struct rfg_problem plain = *rfg_case_problem(c);
    rfg_tensor of[RFG_MAX_TENSORS];
    struct gemm_args a;
    struct rfg_plan *plan;
    rfg_moe_sum_params p = RFG_MOE_SUM_PARAMS_INIT;
    p.residual = plain.v[GEMM_RESIDUAL] ? &t[5] : NULL;
    plain.v[GEMM_SLOTS] = plain.v[GEMM_RESIDUAL] = 0;
    memcpy(of, t, sizeof(of));
    of[0] = rfg_tensor_2d(rows, y->dtype, plain.v[GEMM_M], plain.v[GEMM_N], plain.v[GEMM_N]);
    rfg_op_case_of(plain.op)->pack(&plain, of, &a);
    ck_assert_msg(rfg_plan_create(ctx, &plain, var, params, &plan) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_plan_launch(ctx, plan, &a, NULL) == RFG_OK &&
                      rfg_op_moe_sum(ctx, y, &of[0], &t[12], &p, NULL) == RFG_OK &&
                      rfg_stream_sync(ctx, NULL) == RFG_OK,
                  "%s", rfg_last_error());
    rfg_plan_destroy(ctx, &plan);
}

static void same_bits(rfg_context *ctx, const char *text, const char *config)
{
    struct rfg_problem prob = op_problem(text);
    const struct rfg_variant *var;
    struct rfg_case *c;
    struct rfg_plan *plan;
    struct rfg_reason why;
    int params[RFG_MAX_PARAMS];
    size_t size, bytes = rfg_dtype_bytes((rfg_dtype)prob.dtype[2], gemm_y_rows(&prob) * prob.v[GEMM_N]);
    void *got, *rows = device_bytes(ctx, bytes * (size_t)prob.v[GEMM_SLOTS]), *sum = device_bytes(ctx, bytes),
               *apart = malloc(bytes);
    ck_assert(apart != NULL && rfg_config_parse(prob.op, config, &var, params, &why));
    ck_assert_msg(rfg_case_create(ctx, &prob, &(struct rfg_case_params){ .seed = op_seed() }, &c) == RFG_OK &&
                      rfg_plan_create(ctx, &prob, var, params, &plan) == RFG_OK &&
                      rfg_case_run(c, 0, plan, NULL) == RFG_OK && rfg_stream_sync(ctx, NULL) == RFG_OK &&
                      rfg_case_outputs(c, 0, &got, &size) == RFG_OK,
                  "%s: %s", text, rfg_last_error());
    rfg_tensor y = rfg_tensor_2d(sum, (rfg_dtype)prob.dtype[2], gemm_y_rows(&prob), prob.v[GEMM_N], prob.v[GEMM_N]);
    sum_apart(c, var, params, rows, &y);
    ck_assert(rfg_device_copy(ctx, apart, sum, bytes, RFG_DEVICE_TO_HOST, NULL) == RFG_OK &&
              rfg_stream_sync(ctx, NULL) == RFG_OK);
    ck_assert_msg(size == bytes && !memcmp(got, apart, bytes), "%s by %s: other bits than apart", text, config);
    rfg_plan_destroy(ctx, &plan);
    rfg_case_destroy(&c);
    free(got);
    free(apart);
    ck_assert(rfg_device_free(ctx, rows) == RFG_OK && rfg_device_free(ctx, sum) == RFG_OK);
}

/* Rows that are summed in the same launch give the bits of those that moe_sum sums. */
START_TEST(sums_as_apart)
{
    static const char *const cases[][2] = {
        { "gemm bf16,bf16->bf16 M=48 N=72 K=1024 experts=20 weights=1 slots=8 residual=1",
          "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
        { "gemm bf16,bf16->f32 M=64 N=45 K=512 experts=6 bias=1 slots=4 align_y=4",
          "gemm_stream_mma{tile_m=32,frags_n=2,k_waves=4,unroll=2,split_k=1}" },
        { "gemm bf16,bf16->bf16 M=33 N=70 K=104 experts=6 bias=1 slots=11 residual=1 align_y=4",
          "gemm_portable{tile_m=16}" },
        { "gemm bf16,bf16->bf16 M=33 N=70 K=104 experts=6 bias=1 slots=11 residual=1 align_y=4",
          "gemm_cpu_portable{rows=2,cols=2,k_block=0,prefetch=0}" },
    };
    rfg_context *ctx = op_context(op_device(_i));
    int ran = 0;
    for (int i = 0; i < COUNT(cases); i++) {
        struct rfg_problem prob = op_problem(cases[i][0]);
        const struct rfg_variant *var;
        int params[RFG_MAX_PARAMS];
        ck_assert(rfg_config_parse(prob.op, cases[i][1], &var, params, NULL));
        if (!rfg_variant_check(var, rfg_context_info(ctx), &prob, params, NULL))
            continue;
        same_bits(ctx, cases[i][0], cases[i][1]);
        ran++;
    }
    ck_assert_int_gt(ran, 0);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Workgroups that go from tile to tile of several experts. */
START_TEST(tiles_by_turns)
{
    static const char *const cases[][2] = {
        { "gemm bf16,bf16->f32 M=700 N=300 K=328 experts=9 top=2 bias=1", "gemm_tile_wgmma{tile_n=64,cluster=1}" },
        { "gemm bf16,bf16->bf16 M=900 N=304 K=72 experts=3 weights=1 routing=zipf",
          "gemm_tile_wgmma{tile_n=96,cluster=2}" },
        { "gemm e4m3,e4m3->bf16 M=700 N=512 K=656 experts=40 top=4 fast=1 act=silu" BLOCKS,
          "gemm_tile_wgmma{tile_n=112,cluster=2}" },
    };
    for (int i = 0; i < COUNT(cases); i++)
        op_few_groups(op_device(_i), cases[i][0], cases[i][1], 4);
}
END_TEST

/* Problems that a string may not say. */
START_TEST(bad_problems)
{
    static const char *const bad[][2] = {
        { "M=4 N=8 K=8 limit=2", "limit=2, gates=halves: must be left out without an act" },
        { "M=4 N=8 K=8 gates=interleaved", "limit=0, gates=interleaved: must be left out without an act" },
        { "M=4 N=8 K=8 act=silu limit=10001", "limit=10001" },
        { "M=4 N=32 K=64 act=silu packed=1", "gates=halves: must be interleaved, w is prepacked" },
        { "M=4 N=8 K=8 top=2", "top=2, weights=0, routing=uniform: experts is 0" },
        { "M=4 N=8 K=8 routing=zipf", "routing=zipf: experts is 0" },
        { "M=4 N=8 K=8 ids=1", "ids=1: experts is 0" },
        { "M=4 N=8 K=8 experts=2 top=3 ids=1", "M=4: must be a multiple of top=3 with ids" },
        { "M=4 N=8 K=8 experts=2 residual=1", "residual=1: must be 0 with experts=2" },
        { "M=4 N=8 K=8 experts=2 ldw=9", "ldw=9, w_columns=0: must be 0 with experts=2" },
        { "M=4 N=24 K=64 experts=2 packed=1", "N=24: must be a multiple of 16" },
        { "M=4 N=1048576 K=8 experts=4096", "experts=4096, N=1048576: must be at most" },
        { "M=4 N=8 K=8 experts=65537", "experts=65537" },
        { "M=4 N=8 K=8 slots=2", "slots=2: experts is 0" },
        { "M=4 N=8 K=8 experts=2 tokens=1", "tokens=1: slots is 0" },
        { "M=4 N=8 K=8 experts=2 slots=3", "M=4: must be a multiple of slots=3, at most 1024" },
        { "M=1026 N=8 K=8 experts=2 slots=2", "M=1026: must be a multiple of slots=2, at most 1024" },
        { "M=4 N=8 K=8 experts=2 slots=2 act=silu", "slots=2: must be 0 with an act" },
        { "M=4 N=8 K=8 experts=2 slots=33", "slots=33" },
    };
    OP_PROBLEMS_REFUSED("gemm bf16,bf16->bf16 ", bad);
}
END_TEST

/* Kernels that store all rows say so. */
START_TEST(sums_refused)
{
    static const char *const configs[][2] = {
        { "gfx942:304", "gemm_skinny{m_tile=4,rows=2,waves=2,unroll=4,split_k=1}" },
        { "gfx942:304", "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
        { "sm_90", "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=4,unroll=2,split_k=1}" },
        { "sm_90", "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    };
    for (int i = 0; i < COUNT(configs); i++)
        op_config_taken(configs[i][0], "gemm bf16,bf16->bf16 M=512 N=256 K=256 experts=4 slots=2", configs[i][1],
                        "slots=2: must be 0, it sums no rows");
    op_config_taken("gfx942:304", "gemm bf16,bf16->bf16 M=16 N=256 K=256 experts=4 slots=2",
                    "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=1}", NULL);
    op_config_taken("gfx1100:96", "gemm bf16,bf16->bf16 M=2 N=524272 K=256 experts=1 slots=2",
                    "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=2}",
                    "98301 counters: must be at most");
}
END_TEST

/* With invariant=1 they are summed along k as rows are that stay: few tokens by this kernel, many by another launch. */
START_TEST(sums_in_order)
{
    static const char *const archs[] = { "gfx942:304", "gfx1100:96" };
    for (int i = 0; i < COUNT(archs); i++) {
        struct rfg_device dev;
        struct rfg_order of_rows, of_sums;
        struct rfg_reason why = { "" };
        struct rfg_problem rows = op_problem("gemm bf16,bf16->bf16 M=64 N=512 K=512 experts=32 weights=1 invariant=1");
        struct rfg_problem sums_too = rows;
        sums_too.v[GEMM_SLOTS] = 8;
        ck_assert(rfg_device_imagine(&dev, archs[i]));
        ck_assert_msg(rfg_order_find(&dev, &rows, NULL, &of_rows, &why) &&
                          rfg_order_find(&dev, &sums_too, NULL, &of_sums, &why),
                      "%s: %s", archs[i], why.text);
        ck_assert_str_eq(of_rows.words, of_sums.words);
    }
}
END_TEST

#define E 3
#define M 5
#define N 4
#define K 8
static float x[M * K], w[E * N * K], bias[E * N], y[(M + 2) * N];
static int32_t offsets[E + 1] = { 0, 2, 2, M }, rows[M] = { 4, 0, 1, 2, 3 };
static float weights[M] = { 1, 2, 3, 4, 5 };

/* Sets x[m][k] = m + 1, w of expert e = e + 1, and everything in and around y to -1. */
static void set_values(void)
{
    for (int i = 0; i < M * K; i++)
        x[i] = (float)(i / K + 1);
    for (int i = 0; i < E * N * K; i++)
        w[i] = (float)(i / (N * K) + 1);
    for (int i = 0; i < E * N; i++)
        bias[i] = (float)(100 * (i / N));
    for (int i = 0; i < COUNT(y); i++)
        y[i] = -1;
}

static rfg_status multiply(rfg_context *ctx, rfg_gemm_params *p)
{
    rfg_tensor ty = rfg_tensor_2d(y + N, RFG_F32, M, N, N), tx = rfg_tensor_2d(x, RFG_F32, M, K, K);
    rfg_tensor tw = rfg_tensor_nd(w, RFG_F32, 3, (const int64_t[]){ E, N, K });
    return rfg_op_gemm(ctx, &ty, &tx, &tw, p, NULL);
}

/* All of y, by what offsets and rows say: a row of x beside it counts as its last; rows of no expert stay
 * as they were. */
static void expect_products(void)
{
    for (int i = -1; i <= M; i++) {
        int of = -1, from = i < 0 || i >= M ? 0 : rows[i] < 0 || rows[i] >= M ? M - 1 : rows[i];
        for (int e = E - 1; e >= 0 && i >= 0 && i < M; e--)
            of = i >= offsets[e] && i < offsets[e + 1] ? e : of;
        float want = of < 0 ? -1 : weights[i] * (float)((from + 1) * (of + 1) * K + 100 * of);
        for (int n = 0; n < N; n++)
            ck_assert_msg(y[(i + 1) * N + n] == want, "offsets %d %d %d %d, row %d (of %d): %g, not %g", offsets[0],
                          offsets[1], offsets[2], offsets[3], i, from, (double)y[(i + 1) * N + n], (double)want);
    }
}

/* Three dimensions, two of bias; values by hand; offsets and rows that are wrong reach nothing that isn't there. */
START_TEST(by_hand)
{
    rfg_context *ctx = op_context("cpu");
    rfg_tensor to = rfg_tensor_1d(offsets, RFG_I32, E + 1), tr = rfg_tensor_1d(rows, RFG_I32, M);
    rfg_tensor tw = rfg_tensor_1d(weights, RFG_F32, M), tb = rfg_tensor_2d(bias, RFG_F32, E, N, N);
    rfg_gemm_params p = { .size = sizeof(p), .bias = &tb, .offsets = &to, .rows = &tr, .weights = &tw };
    static const float want[M] = { 5 * K, 2 * 1 * K, 3 * (6 * K + 200), 4 * (9 * K + 200), 5 * (12 * K + 200) };
    set_values();
    ck_assert_msg(multiply(ctx, &p) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < M * N; i++)
        ck_assert_float_eq(y[N + i], want[i / N]);
    ck_assert(y[0] == -1 && y[N + M * N] == -1);

    static const int32_t wrong[][E + 1] = {
        { -7, 2, 2, M },
        { 0, 2, 2, 1000 },
        { 4, 2, 1, 3 },
        { INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN },
    };
    for (int i = 0; i < COUNT(wrong); i++) {
        memcpy(offsets, wrong[i], sizeof(offsets));
        set_values();
        ck_assert_msg(multiply(ctx, &p) == RFG_OK, "%s", rfg_last_error());
        expect_products();
    }
    for (int i = 0; i < COUNT(wrong); i++) { /* and rows that x doesn't have */
        memcpy(offsets, wrong[i], sizeof(offsets));
        set_values();
        rows[0] = -1;
        rows[1] = INT32_MAX;
        rows[2] = M;
        rows[3] = INT32_MIN;
        ck_assert_msg(multiply(ctx, &p) == RFG_OK, "%s", rfg_last_error());
        expect_products();
    }
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(refusals)
{
    rfg_context *ctx = op_context("cpu");
    rfg_tensor to = rfg_tensor_1d(offsets, RFG_I32, E + 1), tr = rfg_tensor_1d(rows, RFG_I32, M);
    rfg_tensor tw = rfg_tensor_1d(weights, RFG_F32, M), short_list = rfg_tensor_1d(offsets, RFG_I32, 1);
    rfg_tensor more = rfg_tensor_1d(offsets, RFG_I32, E), residual = rfg_tensor_2d(w, RFG_F32, M, N, N);
    const struct {
        rfg_gemm_params p;
        const char *words;
    } cases[] = {
        { { .rows = &tr }, "rows is given: must be NULL, offsets is NULL" },
        { { .weights = &tw }, "weights is given: must be NULL, offsets is NULL" },
        { { .offsets = &tw }, "offsets is f32: must be i32" },
        { { .offsets = &to, .weights = &tr }, "weights is i32: must be f32" },
        { { .offsets = &short_list }, "offsets has 1 elements, experts + 1: must be from 2 to 65537" },
        { { .offsets = &more }, "w has 12 rows: must be offsets' experts times y's columns, 8" },
        { { .offsets = &to, .rows = &to }, "rows has 4 elements: must be y's rows, 5" },
        { { .offsets = &to, .residual = &residual }, "residual=1: must be 0 with experts=3" },
        { { .offsets = &to, .gates = RFG_GATES_INTERLEAVED }, "gates 1, limit 0, alpha 0: must be 0, it is not gated" },
        { { .gates = (rfg_gates)2 }, "gates is 2: must be RFG_GATES_HALVES or RFG_GATES_INTERLEAVED" },
        { { .gated = 1, .gates = (rfg_gates)-1 }, "gates is -1: must be RFG_GATES_HALVES or" },
        { { .limit = 2 }, "limit 2, alpha 0: must be 0, it is not gated" },
        { { .gated = 1, .limit = -1 }, "limit is -1: must be from 0 to 10000" },
        { { .gated = 1, .limit = NAN }, "limit is nan: must be" },
        { { .gated = 1, .alpha = 1 }, "alpha is 1: must be 0, act is not swigluoai" },
        { { .gated = 1, .act = RFG_ACT_NONE }, "act is 8: must be an rfg_act from 0 to 7" },
        { { .gated = 1, .situ_beta = 2 }, "situ_beta is 2, situ_linear_beta 0: must be 0, act is not situ" },
        { { .situ_linear_beta = 2 }, "situ_linear_beta 2: must be 0" },
    };
    set_values();
    for (int i = 0; i < COUNT(cases); i++) {
        rfg_gemm_params p = cases[i].p;
        p.size = sizeof(p);
        rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, M, p.gated ? N / 2 : N, N), tx = rfg_tensor_2d(x, RFG_F32, M, K, K);
        rfg_tensor all = rfg_tensor_2d(w, RFG_F32, p.offsets ? E * N : N, K, K);
        ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &all, &p, NULL) == RFG_ERROR_INVALID_ARGUMENT, "%s: taken",
                      cases[i].words);
        ck_assert_msg(strstr(rfg_last_error(), cases[i].words) != NULL, "no '%s' in: %s", cases[i].words,
                      rfg_last_error());
        ck_assert(y[0] == -1);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Bytes that must be read: of 128 experts, of which each of 16 rows of x asks for 8, so many as are met. */
START_TEST(experts_met)
{
    static const struct {
        const char *routing;
        int from, to; /* experts */
    } cases[] = { { "uniform", 82, 83 }, { "zipf", 52, 64 }, { "one", 1, 1 } };
    for (int i = 0; i < COUNT(cases); i++) {
        char text[200];
        double bytes, flops;
        snprintf(text, sizeof(text), "gemm bf16,bf16->bf16 M=128 N=1024 K=512 experts=128 top=8 routing=%s",
                 cases[i].routing);
        struct rfg_problem p = op_problem(text);
        p.op->cost(&p, &bytes, &flops);
        double met = (bytes - 16 * 512 * 2 - 128 * 1024 * 2) / (1024 * 512 * 2);
        ck_assert_msg(met > cases[i].from - 0.1 && met < cases[i].to + 0.1, "%s: %g experts", text, met);
    }
}
END_TEST

int main(void)
{
    return op_main_gpus("experts",
                        OP_TESTS(right_activations, right_groups, right_formats, right_kernels, right_sums,
                                 sums_as_apart, right_hopper, right_by_id),
                        OP_TESTS(bad_problems, sums_refused, sums_in_order, by_hand, refusals, experts_met),
                        OP_TESTS(tiles_by_turns));
}
