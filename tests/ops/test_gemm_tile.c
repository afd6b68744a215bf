/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm on its kernels for many rows of X, by their tiles, on the cpu and on the devices of $RFG_TEST_DEVICES (a
 * device that lacks a kernel serves the problem with its others); and what they refuse. */
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/gpu.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R      RFG_DATA_RANDOM
#define I      RFG_DATA_INTS
#define S      RFG_DATA_SPECIAL
#define ROWS   " w_scale=f32 x_scale=f32 x_per=row w_per=row"
#define BLOCKS " w_scale=f32 x_scale=f32 x_per=block w_per=block"

/* Tiles of each kind; rows, columns and k that no tile fills; rings that go round, and those that are not filled. */
static const struct op_case tiles[] = {
    { "gemm bf16,bf16->bf16 M=150 N=300 K=1096", R, false, "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm bf16,bf16->f32 M=300 N=270 K=520", R, false, "gemm_tile_wgmma{tile_n=256,cluster=2}" },
    { "gemm f16,f16->f16 M=129 N=100 K=72", R, false, "gemm_tile_wgmma{tile_n=64,cluster=2}" },
    { "gemm f16,f16->f32 M=70 N=90 K=1032", R, false, "gemm_tile_wgmma{tile_n=96,cluster=1}" },
    { "gemm bf16,bf16->f32 M=257 N=160 K=704", I, false, "gemm_tile_wgmma{tile_n=144,cluster=2}" },
    { "gemm bf16,bf16->bf16 M=140 N=230 K=264", S, false, "gemm_tile_wgmma{tile_n=208,cluster=1}" },
    { "gemm e4m3,e4m3->bf16 M=140 N=300 K=1168 fast=1", R, false, "gemm_tile_wgmma{tile_n=128,cluster=2}" },
    { "gemm e5m2,e5m2->f32 M=130 N=200 K=2064 fast=1" ROWS, R, false, "gemm_tile_wgmma{tile_n=160,cluster=1}" },
    { "gemm e4m3,e4m3->f32 M=200 N=140 K=1040 fast=1" BLOCKS, R, false, "gemm_tile_wgmma{tile_n=112,cluster=2}" },
    { "gemm e4m3,e4m3->bf16 M=129 N=390 K=656 fast=1" BLOCKS, R, false, "gemm_tile_wgmma{tile_n=176,cluster=1}" },
    { "gemm i8,i8->f32 M=260 N=150 K=1040" ROWS, R, false, "gemm_tile_wgmma{tile_n=256,cluster=2}" },
    { "gemm i8,i8->bf16 M=140 N=300 K=528" BLOCKS, R, false, "gemm_tile_wgmma{tile_n=160,cluster=1}" },
    { "gemm e4m3,e4m3->f32 M=70 N=130 K=528 fast=1" BLOCKS, S, false, "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm e4m3,e4m3->bf16 M=257 N=520 K=1168 fast=1" BLOCKS, R, false, "gemm_tile_wgmma{tile_n=256,cluster=2}" },
    { "gemm e4m3,e4m3->f32 M=140 N=700 K=656 fast=1" BLOCKS, R, false, "gemm_tile_wgmma{tile_n=208,cluster=1}" },
    { "gemm e5m2,e5m2->bf16 M=140 N=490 K=528 fast=1" ROWS, R, false, "gemm_tile_wgmma{tile_n=240,cluster=1}" },
    { "gemm e4m3,e4m3->bf16 M=140 N=300 K=1040 fast=1" ROWS, R, false, "gemm_tile_wgmma{tile_n=192,cluster=2}" },
    { "gemm e4m3,e4m3->f32 M=140 N=300 K=112 fast=1" BLOCKS, R, false, "gemm_tile_wgmma{tile_n=64,cluster=2}" },
    { "gemm bf16,bf16->bf16 M=64 N=300 K=1096", R, false, "gemm_tile64_wgmma{tile_n=128}" },
    { "gemm f16,f16->f32 M=17 N=1000 K=520", R, false, "gemm_tile64_wgmma{tile_n=256}" },
    { "gemm e4m3,e4m3->bf16 M=50 N=700 K=1168 fast=1" BLOCKS, R, false, "gemm_tile64_wgmma{tile_n=192}" },
    { "gemm e4m3,e4m3->f32 M=128 N=330 K=1040 fast=1" BLOCKS, R, false, "gemm_tile64_wgmma{tile_n=112}" },
    { "gemm e4m3,e4m3->bf16 M=64 N=300 K=2064 fast=1" ROWS, R, false, "gemm_tile64_wgmma{tile_n=64}" },
    { "gemm e5m2,e5m2->bf16 M=100 N=600 K=112 fast=1", R, false, "gemm_tile64_wgmma{tile_n=160}" },
    { "gemm i8,i8->f32 M=33 N=300 K=528" BLOCKS, R, false, "gemm_tile64_wgmma{tile_n=96}" },
    { "gemm e4m3,e4m3->f32 M=64 N=900 K=528 fast=1" BLOCKS, S, false, "gemm_tile64_wgmma{tile_n=224}" },
};

/* What becomes of sums, and how Y lies. */
static const struct op_case ends[] = {
    { "gemm bf16,bf16->bf16 M=140 N=150 K=264 bias=1", R, false, "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm bf16,bf16->bf16 M=140 N=301 K=264 bias=1 btype=f32", R, false, "gemm_tile_wgmma{tile_n=176,cluster=2}" },
    { "gemm f16,f16->f32 M=150 N=270 K=264 residual=1 ldr=272", R, false, "gemm_tile_wgmma{tile_n=224,cluster=1}" },
    { "gemm bf16,bf16->bf16 M=260 N=131 K=136 residual=1 bias=1 inplace=1", R, false,
      "gemm_tile_wgmma{tile_n=112,cluster=2}" },
    { "gemm bf16,bf16->bf16 M=140 N=300 K=264 act=silu gates=interleaved", R, false,
      "gemm_tile_wgmma{tile_n=256,cluster=1}" },
    { "gemm f16,f16->f32 M=140 N=298 K=264 act=gelu gates=interleaved bias=1", R, false,
      "gemm_tile_wgmma{tile_n=160,cluster=2}" },
    { "gemm bf16,bf16->f16 M=140 N=150 K=256 ldx=272 ldw=264 ldy=153", R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=2}" },
    { "gemm bf16,bf16->bf16 M=140 N=150 K=264 bias=1 ldy=152", R, false, "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm bf16,bf16->f32 M=140 N=150 K=264 ldy=152", R, false, "gemm_tile_wgmma{tile_n=128,cluster=2}" },
    { "gemm bf16,bf16->bf16 M=140 N=152 K=256 align_y=2 ldy=154", R, false, "gemm_tile_wgmma{tile_n=192,cluster=1}" },
    { "gemm e4m3,e4m3->bf16 M=140 N=150 K=272 fast=1 bias=1 btype=f32" ROWS, R, false,
      "gemm_tile_wgmma{tile_n=144,cluster=1}" },
    { "gemm e4m3,e4m3->f16 M=140 N=200 K=272 fast=1 act=silu gates=interleaved x_columns=1 w_columns=1" BLOCKS, R,
      false, "gemm_tile_wgmma{tile_n=176,cluster=2}" },
    { "gemm i8,i8->f32 M=140 N=150 K=272 residual=1 w_scale=f32 w_per=row", R, false,
      "gemm_tile_wgmma{tile_n=240,cluster=1}" },
    { "gemm e4m3,e4m3->f32 M=140 N=300 K=528 fast=1 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block", R, false,
      "gemm_tile_wgmma{tile_n=144,cluster=2}" },
};

/* The second warpgroup's columns. */
static const struct op_case ends_64[] = {
    { "gemm bf16,bf16->bf16 M=40 N=301 K=264 bias=1 btype=f32", R, false, "gemm_tile64_wgmma{tile_n=112}" },
    { "gemm bf16,bf16->bf16 M=60 N=131 K=136 residual=1 bias=1 inplace=1", R, false, "gemm_tile64_wgmma{tile_n=64}" },
    { "gemm bf16,bf16->bf16 M=60 N=131 K=136 ldy=136", R, false, "gemm_tile64_wgmma{tile_n=64}" },
    { "gemm bf16,bf16->bf16 M=64 N=600 K=264 act=silu gates=interleaved bias=1", R, false,
      "gemm_tile64_wgmma{tile_n=256}" },
    { "gemm e4m3,e4m3->bf16 M=64 N=150 K=272 fast=1 bias=1 btype=f32" ROWS, R, false, "gemm_tile64_wgmma{tile_n=128}" },
    { "gemm e4m3,e4m3->f16 M=64 N=400 K=272 fast=1 act=silu gates=interleaved x_columns=1 w_columns=1" BLOCKS, R, false,
      "gemm_tile64_wgmma{tile_n=224}" },
    { "gemm e4m3,e4m3->bf16 M=70 N=400 K=272 fast=1 bias=1 btype=f32" BLOCKS, R, false,
      "gemm_tile64_wgmma{tile_n=192}" },
};

OP_CASES(right_tiles, tiles, "tiles of many rows")
OP_CASES(right_ends, ends, "tiles of many rows: epilogues, layouts")
OP_CASES(right_ends_64, ends_64, "tiles of 64 rows: epilogues, layouts")

/* Workgroups that go from tile to tile, as many more than they are. */
START_TEST(tiles_by_turns)
{
    static const char *const cases[][2] = {
        { "gemm bf16,bf16->f32 M=700 N=300 K=328 bias=1", "gemm_tile_wgmma{tile_n=64,cluster=1}" },
        { "gemm bf16,bf16->bf16 M=900 N=300 K=72", "gemm_tile_wgmma{tile_n=96,cluster=2}" },
        { "gemm e4m3,e4m3->bf16 M=700 N=300 K=656 fast=1" BLOCKS, "gemm_tile_wgmma{tile_n=112,cluster=2}" },
        { "gemm bf16,bf16->bf16 M=4500 N=200 K=16", "gemm_tile_wgmma{tile_n=64,cluster=2}" },
        { "gemm e4m3,e4m3->bf16 M=700 N=1300 K=656 fast=1" BLOCKS, "gemm_tile_wgmma{tile_n=256,cluster=2}" },
        { "gemm e4m3,e4m3->bf16 M=700 N=700 K=400 fast=1 bias=1 btype=f32" ROWS,
          "gemm_tile_wgmma{tile_n=144,cluster=1}" },
        { "gemm e4m3,e4m3->f32 M=700 N=1300 K=272 fast=1" ROWS, "gemm_tile_wgmma{tile_n=224,cluster=2}" },
        { "gemm e4m3,e4m3->bf16 M=900 N=300 K=112 fast=1" BLOCKS, "gemm_tile_wgmma{tile_n=64,cluster=1}" },
        { "gemm bf16,bf16->bf16 M=700 N=1300 K=328 bias=1", "gemm_tile_wgmma{tile_n=256,cluster=2}" },
        { "gemm e4m3,e4m3->bf16 M=60 N=2000 K=656 fast=1" BLOCKS, "gemm_tile64_wgmma{tile_n=96}" },
        { "gemm e4m3,e4m3->bf16 M=100 N=1500 K=400 fast=1 bias=1 btype=f32" ROWS, "gemm_tile64_wgmma{tile_n=64}" },
        { "gemm bf16,bf16->f32 M=64 N=1500 K=72", "gemm_tile64_wgmma{tile_n=64}" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        op_few_groups(op_device(_i), cases[i][0], cases[i][1], 4);
}
END_TEST

#define MXFP4    " w_scale=e8m0 w_group=32 packed=1"
#define MXFP4_MX " w_scale=e8m0 packed=1"

START_TEST(refusals)
{
    static const char *const cases[][3] = {
        { "gemm bf16,bf16->bf16 M=300 N=256 K=512", "gemm_tile_wgmma{tile_n=256,cluster=2}", NULL },
        { "gemm e4m3,e4m3->bf16 M=300 N=256 K=512 fast=1", "gemm_tile_wgmma{tile_n=256,cluster=2}", NULL },
        { "gemm e4m3,e4m3->bf16 M=300 N=256 K=512", "gemm_tile_wgmma{tile_n=128,cluster=2}", "fast=0: must be 1" },
        { "gemm i8,i8->bf16 M=300 N=256 K=131088", "gemm_tile_wgmma{tile_n=128,cluster=2}",
          "K=131088: must be at most 131071, or sums of i8 leave 32 bits" },
        { "gemm i8,i8->bf16 M=300 N=256 K=131088" BLOCKS, "gemm_tile_wgmma{tile_n=128,cluster=2}", NULL },
        { "gemm bf16,bf16->bf16 M=300 N=256 K=500", "gemm_tile_wgmma{tile_n=128,cluster=2}", "K=500: must be" },
        { "gemm bf16,bf16->bf16 M=300 N=256 K=512 packed=1", "gemm_tile_wgmma{tile_n=128,cluster=2}", "packed=1" },
        { "gemm bf16,bf16->bf16 M=64 N=256 K=512", "gemm_tile_wgmma{tile_n=128,cluster=1}",
          "M=64: must be at least 65" },
        { "gemm bf16,bf16->bf16 M=16 N=256 K=512", "gemm_tile64_wgmma{tile_n=128}", "M=16: must be at least 17" },
        { "gemm bf16,bf16->bf16 M=129 N=256 K=512", "gemm_tile64_wgmma{tile_n=128}", "M=129: must be at most 128" },
        { "gemm f32,f32->f32 M=300 N=256 K=512", "gemm_tile_wgmma{tile_n=128,cluster=2}", "x is f32" },
        { "gemm bf16,bf16->bf16 M=3 N=256 K=512 experts=1024", "gemm_tile_wgmma{tile_n=128,cluster=1}", NULL },
        { "gemm bf16,bf16->bf16 M=3 N=256 K=512 experts=1025", "gemm_tile_wgmma{tile_n=128,cluster=1}",
          "experts=1025: must be at most 1024" },
        { "gemm e4m3,e4m3->bf16 M=300 N=256 K=512 fast=1 act=silu" BLOCKS, "gemm_tile_wgmma{tile_n=128,cluster=1}",
          NULL },
        { "gemm e4m3,e4m3->bf16 M=300 N=384 K=512 fast=1 act=silu" BLOCKS, "gemm_tile_wgmma{tile_n=128,cluster=1}",
          "N=384: must be a multiple of 256 with gates=halves, w_per=block" },
        { "gemm e4m3,e4m3->bf16 M=16 N=384 K=512 act=silu" BLOCKS,
          "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=4,unroll=2,split_k=1}",
          "N=384: must be a multiple of 256 with gates=halves, w_per=block" },
        { "gemm bf16,e2m1->bf16 M=300 N=256 K=512" MXFP4, "gemm_tile_wgmma{tile_n=192,cluster=1}", NULL },
        { "gemm bf16,e2m1->bf16 M=300 N=256 K=512" MXFP4, "gemm_tile_wgmma{tile_n=192,cluster=2}",
          "cluster=2: must be 1" },
        { "gemm bf16,e2m1->bf16 M=300 N=256 K=512" MXFP4, "gemm_tile_wgmma{tile_n=208,cluster=1}",
          "a warpgroup has 208 columns: must be at most 192" },
        { "gemm bf16,e2m1->bf16 M=300 N=256 K=512 w_scale=e8m0 w_group=32", "gemm_tile_wgmma{tile_n=192,cluster=1}",
          "packed=0" },
        { "gemm f16,e2m1->bf16 M=300 N=256 K=512" MXFP4, "gemm_tile_wgmma{tile_n=192,cluster=1}", "x is f16" },
        { "gemm bf16,i4->bf16 M=300 N=256 K=512 w_scale=f16 w_group=128 packed=1",
          "gemm_tile_wgmma{tile_n=192,cluster=1}", "w i4" },
        /* gemm_w4_mma: a ring that is used more than once has 4 stages or more. */
        { "gemm bf16,e2m1->bf16 M=128 N=256 K=4096" MXFP4,
          "gemm_w4_mma{wgmma=1,tile_m=128,tile_n=128,frags_n=1,k_waves=1,split=2,per_cu=1}",
          "LDS has room for 3 steps: must be at least 4, or all 16" },
        { "gemm bf16,e2m1->bf16 M=128 N=256 K=768" MXFP4,
          "gemm_w4_mma{wgmma=1,tile_m=128,tile_n=128,frags_n=1,k_waves=1,split=2,per_cu=1}", NULL },
        { "gemm bf16,e2m1->bf16 M=64 N=256 K=4096" MXFP4,
          "gemm_w4_mma{wgmma=1,tile_m=64,tile_n=128,frags_n=2,k_waves=1,split=1,per_cu=1}", "frags_n=2" },
        { "gemm bf16,i4->bf16 M=8 N=256 K=384 w_scale=f16 w_group=96 packed=1",
          "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=1}",
          "w_group=96: must be 32, 64, or a multiple of 128" },
        { "gemm e4m3,e2m1->bf16 M=8 N=256 K=512 x_scale=e8m0 x_per=group w_per=group" MXFP4_MX,
          "gemm_w4_mma{wgmma=0,tile_m=8,tile_n=64,frags_n=1,k_waves=1,split=1,per_cu=1}",
          "x is e4m3: must be bf16 or f16" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        op_config_taken("sm_90", cases[i][0], cases[i][1], cases[i][2]);
    struct rfg_device dev;
    ck_assert(rfg_device_imagine(&dev, "sm_90"));
    struct rfg_problem prob = op_problem("gemm bf16,bf16->bf16 M=300 N=256 K=512");
    struct rfg_reason why;
    dev.features &= ~(unsigned)RFG_FEATURE_TMA;
    ck_assert(!gemm_tile_wgmma.supports(&dev, &prob, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "the driver is too old: must be of CUDA 12"));
}
END_TEST

/* What TMA is told of W: of all experts' rows; with halves, that each of up's is so far behind one of gate's. Of Y:
 * where its rows, and what lies between them, are whole pieces of 16 bytes. */
START_TEST(maps_of_experts)
{
    static const struct {
        const char *problem;
        int n, w;
        struct rfg_tile_map want;
    } cases[] = {
        { "gemm bf16,bf16->bf16 M=300 N=200 K=72 act=silu gates=interleaved", 2, 1, { NULL, 200, 144, 144, 64, 0 } },
        { "gemm bf16,bf16->bf16 M=300 N=200 K=72 act=silu", 2, 1, { NULL, 100, 144, 144, 64, 100 * 144 } },
        { "gemm bf16,bf16->bf16 M=300 N=152 K=72 ldy=160", 3, 1, { NULL, 152, 144, 144, 64, 0 } },
        { "gemm bf16,bf16->bf16 M=300 N=150 K=72 ldy=152", 2, 1, { NULL, 150, 144, 144, 64, 0 } },
        { "gemm bf16,bf16->f32 M=300 N=150 K=72 ldy=152", 2, 1, { NULL, 150, 144, 144, 64, 0 } },
        { "gemm bf16,bf16->bf16 M=300 N=200 K=72 experts=7", 2, 0, { NULL, 1400, 144, 144, 64, 0 } },
        { "gemm bf16,bf16->bf16 M=300 N=202 K=72 experts=7 top=2 act=silu",
          1,
          0,
          { NULL, 1313, 144, 144, 64, 101 * 144 } },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rfg_problem prob = op_problem(cases[i].problem);
        const struct rfg_tile_map *want = &cases[i].want;
        struct gemm_args a = { .m = 300, .n = (int)prob.v[GEMM_N], .k = 72, .ldx = 72, .ldw = 72, .ldy = 200 };
        struct rfg_tile_map maps[RFG_MAX_TILE_MAPS], *w = &maps[cases[i].w];
        int p[] = { 128, 2 }, n = gemm_tile_wgmma.tile_maps(&prob, p, &a, maps);
        ck_assert_msg(n == cases[i].n && w->rows == want->rows && w->row_bytes == want->row_bytes &&
                          w->stride == want->stride && w->tile_rows == want->tile_rows && w->turns == want->turns,
                      "%s: %d maps, W's of %lld rows %lld bytes apart, %d in a tile, turns with %lld", cases[i].problem,
                      n, (long long)w->rows, (long long)w->stride, w->tile_rows, (long long)w->turns);
    }
}
END_TEST

int main(void)
{
    return op_main_gpus("gemm_tile", OP_TESTS(right_tiles, right_ends, right_ends_64),
                        OP_TESTS(refusals, maps_of_experts), OP_TESTS(tiles_by_turns));
}
