/* SPDX-License-Identifier: MIT
 *
 * rfg_op_gemm of 8-bit X and W with their scales, on the cpu and on the devices of $RFG_TEST_DEVICES; what fast=1
 * changes; and what it refuses. */
#include <inttypes.h>

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/gpu.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R      RFG_DATA_RANDOM
#define S      RFG_DATA_SPECIAL
#define ROWS   " w_scale=f32 x_scale=f32 x_per=row w_per=row"
#define BLOCKS " w_scale=f32 x_scale=f32 x_per=block w_per=block"
#define MX     " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group"

static const struct op_case scales[] = {
    { "gemm e4m3,e4m3->bf16 M=8 N=256 K=512" },
    { "gemm e4m3,e4m3->bf16 M=8 N=96 K=1024 w_scale=f32 x_scale=f32" },
    { "gemm e4m3,e4m3->f32 M=5 N=70 K=528" ROWS },
    { "gemm e4m3,e4m3->f32 M=5 N=70 K=512 w_scale=f32 x_scale=f32 w_per=row bias=1 btype=f32" },
    { "gemm e4m3,e4m3->bf16 M=1 N=300 K=2048" BLOCKS },
    { "gemm e4m3,e4m3->f32 M=17 N=140 K=400" BLOCKS " x_columns=1", R, false },
    { "gemm e4m3,e4m3->bf16 M=33 N=260 K=384" BLOCKS " w_columns=1 bias=1 btype=bf16", R, false },
    { "gemm e4m3,e4m3->f32 M=6 N=64 K=512 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block" },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=3 N=70 K=640" ROWS },
    { "gemm e4m3fnuz,e4m3fnuz->bf16 M=40 N=130 K=256" BLOCKS },
    { "gemm e5m2,e5m2->f16 M=4 N=48 K=320 x_scale=f32" },
    { "gemm e5m2,e5m2->f32 M=12 N=33 K=272" BLOCKS },
    { "gemm i8,i8->f32 M=4 N=48 K=1024 w_scale=f32" },
    { "gemm i8,i8->bf16 M=21 N=64 K=336" ROWS " bias=1 btype=bf16", R, false },
    { "gemm i8,i8->f32 M=2 N=300 K=528" BLOCKS },
    { "gemm e4m3,e4m3->bf16 M=64 N=256 K=1024" BLOCKS " x_columns=1 fast=1", R, false },
    { "gemm e4m3,e4m3->f32 M=100 N=90 K=656" BLOCKS " fast=1", R, false },
    { "gemm e5m2,e5m2->bf16 M=16 N=130 K=1168" ROWS " fast=1", R, false },
    { "gemm e4m3,e4m3->f32 M=33 N=70 K=528 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block fast=1" },
};

static const struct op_case layouts[] = {
    { "gemm e4m3,e4m3->f32 M=7 N=37 K=333" BLOCKS },
    { "gemm e4m3,e4m3->bf16 M=9 N=40 K=129 ldx=131 ldw=133 ldy=43" ROWS, R, true },
    { "gemm i8,i8->bf16 M=3 N=17 K=50 ldx=51" ROWS },
    { "gemm e5m2,e5m2->bf16 M=70 N=40 K=192 ldx=208 ldw=224 ldy=44" BLOCKS },
    { "gemm e4m3,e4m3->f32 M=70 N=10 K=0 w_scale=f32 x_scale=f32 bias=1 btype=f32" },
    { "gemm e4m3,e4m3->f32 M=2 N=10 K=0" BLOCKS },
    { "gemm e4m3,e4m3->bf16 M=0 N=10 K=16" ROWS },
    { "gemm e4m3,e4m3->f32 M=6 N=48 K=256 act=silu gates=interleaved" ROWS },
    { "gemm e4m3,e4m3->f32 M=6 N=48 K=256 act=gelu gates=interleaved bias=1 btype=f32" BLOCKS },
    { "gemm i8,i8->bf16 M=20 N=70 K=256 residual=1 inplace=1" ROWS },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=19 N=41 K=160 residual=1" BLOCKS },
    { "gemm e4m3,e4m3->f32 M=12 N=48 K=256" ROWS, S },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=12 N=140 K=256" BLOCKS, S },
    { "gemm e5m2,e5m2->f32 M=12 N=140 K=256" BLOCKS, S },
    { "gemm i8,i8->f32 M=12 N=48 K=256" ROWS, S },
    { "gemm i8,i8->f32 M=12 N=140 K=256" BLOCKS, S },
    { "gemm e4m3,e4m3->f32 M=12 N=140 K=256 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block", S },
    { "gemm e4m3,e4m3->f32 M=16 N=40 K=64 experts=3 w_scale=f32", S },
    { "gemm e4m3,e4m3->f32 M=24 N=140 K=400" BLOCKS " fast=1", S, false },
    { "gemm e5m2,e5m2->f32 M=24 N=70 K=400 fast=1", S },
    { "gemm e4m3,e4m3->bf16 M=40 N=64 K=304 act=silu gates=interleaved bias=1 btype=f32" BLOCKS " fast=1", R, false },
    { "gemm e4m3,e4m3->f32 M=40 N=66 K=304 residual=1 ldx=320 ldw=336 ldy=68" ROWS " fast=1", R, false },
};

/* Kernels of matrix cores, with their splits of k, by name. */
static const struct op_case kernels[] = {
    { "gemm e4m3,e4m3->f32 M=20 N=72 K=1040" ROWS, R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm e4m3,e4m3->f32 M=20 N=70 K=1040" BLOCKS, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm i8,i8->f32 M=20 N=70 K=1040" BLOCKS, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=2,split_k=4}" },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=20 N=150 K=1056" BLOCKS, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=1}" },
    { "gemm e5m2,e5m2->f32 M=20 N=72 K=1024" ROWS " bias=1 btype=f32", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm i8,i8->f32 M=20 N=150 K=1024" BLOCKS, R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=2,split_k=1}" },
    { "gemm i8,i8->f32 M=20 N=72 K=1040" ROWS " residual=1", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm e4m3,e4m3->f32 M=20 N=140 K=256" BLOCKS, S, false,
      "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=2,unroll=2,split_k=1}" },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=20 N=72 K=256" ROWS, S, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=70 N=90 K=528" ROWS, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=70 N=132 K=272" BLOCKS, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=2}" },
    { "gemm e4m3,e4m3->f32 M=70 N=132 K=272" BLOCKS, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=40 N=150 K=400" BLOCKS " x_columns=1 w_columns=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm e5m2,e5m2->f32 M=70 N=90 K=336" ROWS " bias=1 btype=f32", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}" },
    { "gemm e4m3fnuz,e4m3fnuz->bf16 M=40 N=72 K=400" ROWS " act=silu gates=interleaved", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm i8,i8->f32 M=40 N=150 K=400" BLOCKS, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm i8,i8->f32 M=70 N=72 K=528" ROWS " residual=1", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=3}" },
    { "gemm e4m3,e4m3->f32 M=20 N=140 K=256" BLOCKS, S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=20 N=72 K=256" ROWS, S, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=30 N=70 K=2064" ROWS, R, false,
      "gemm_thin_mma{tile_m=32,frags_n=4,k_waves=4,unroll=2,split_k=1}" },
    { "gemm e4m3,e4m3->f32 M=7 N=150 K=7168" BLOCKS, R, false,
      "gemm_thin_mma{tile_m=8,frags_n=2,k_waves=7,unroll=2,split_k=8}" },
    { "gemm e4m3,e4m3->f32 M=30 N=150 K=2064" BLOCKS, R, false,
      "gemm_thin_mma{tile_m=16,frags_n=2,k_waves=4,unroll=2,split_k=4}" },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=9 N=72 K=2048" ROWS, R, false,
      "gemm_thin_mma{tile_m=16,frags_n=1,k_waves=4,unroll=2,split_k=8}" },
    { "gemm e5m2,e5m2->f32 M=30 N=150 K=1040" BLOCKS, R, false,
      "gemm_thin_mma{tile_m=32,frags_n=1,k_waves=4,unroll=2,split_k=4}" },
    { "gemm i8,i8->f32 M=30 N=150 K=1040" BLOCKS, R, false,
      "gemm_thin_mma{tile_m=32,frags_n=2,k_waves=4,unroll=2,split_k=4}" },
    { "gemm i8,i8->f32 M=7 N=72 K=7168" ROWS " act=silu gates=interleaved", R, false,
      "gemm_thin_mma{tile_m=8,frags_n=1,k_waves=7,unroll=4,split_k=4}" },
    /* One set of sums and two; each operand as A; rows, columns and blocks that don't exist; k in shares. */
    { "gemm e4m3,e4m3->f32 M=60 N=200 K=2064" BLOCKS " fast=1", R, false,
      "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=128,stages=3,split=4}" },
    { "gemm e4m3,e4m3->f32 M=60 N=200 K=2064" BLOCKS " x_columns=1 w_columns=1 fast=1", R, false,
      "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=256,stages=2,split=3}" },
    { "gemm e4m3,e4m3->f32 M=13 N=200 K=1024" BLOCKS " fast=1", R, false,
      "gemm_wgmma{swap=1,tile_m=16,tile_n=128,tile_k=256,stages=2,split=1}" },
    { "gemm e5m2,e5m2->f32 M=120 N=150 K=1168" BLOCKS " fast=1", R, false,
      "gemm_wgmma{swap=0,tile_m=128,tile_n=32,tile_k=256,stages=2,split=2}" },
    { "gemm e4m3,e4m3->f32 M=20 N=70 K=1168" BLOCKS " fast=1", R, false,
      "gemm_wgmma{swap=0,tile_m=32,tile_n=64,tile_k=256,stages=2,split=2}" },
    { "gemm e4m3,e4m3->f32 M=130 N=150 K=656" BLOCKS " fast=1", R, false,
      "gemm_wgmma{swap=1,tile_m=128,tile_n=64,tile_k=256,stages=2,split=1}" },
    { "gemm e4m3,e4m3->bf16 M=33 N=200 K=2048" ROWS " bias=1 btype=f32 fast=1", R, false,
      "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=256,stages=4,split=4}" },
    { "gemm e5m2,e5m2->f32 M=64 N=128 K=1024 act=silu gates=interleaved fast=1", R, false,
      "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=256,stages=2,split=2}" },
    { "gemm i8,i8->f32 M=60 N=200 K=2064" BLOCKS, R, false,
      "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=256,stages=2,split=3}" },
    { "gemm i8,i8->f32 M=60 N=200 K=2064" ROWS " residual=1", R, false,
      "gemm_wgmma{swap=0,tile_m=64,tile_n=128,tile_k=128,stages=3,split=2}" },
};

/* Y of codes, from every epilogue: by variants' names where only some devices have them. */
static const struct op_case outputs[] = {
    { "gemm bf16,bf16->e4m3 M=8 N=256 K=512" },
    { "gemm bf16,bf16->e4m3fnuz M=33 N=70 K=136 bias=1" },
    { "gemm f16,f16->i8 M=5 N=37 K=70 bias=1 btype=f32 ldy=41" },
    { "gemm f32,f32->e5m2 M=9 N=40 K=129", R, true },
    { "gemm e4m3,e4m3->e4m3 M=17 N=96 K=1024 w_scale=f32 x_scale=f32 bias=1 btype=f32" },
    { "gemm e4m3fnuz,e4m3fnuz->e4m3fnuz M=40 N=130 K=256" BLOCKS },
    { "gemm i8,i8->i8 M=70 N=66 K=336" ROWS },
    { "gemm bf16,bf16->e4m3 M=12 N=96 K=256 act=silu gates=interleaved" },
    { "gemm bf16,bf16->i8 M=6 N=48 K=128 act=gelu ldy=31" },
    { "gemm bf16,i4->e4m3 M=8 N=64 K=256 w_scale=f16 w_group=128 packed=1" },
    { "gemm bf16,bf16->e4m3 M=20 N=64 K=128 experts=4 top=2 weights=1" },
    { "gemm bf16,bf16->e5m2 M=24 N=72 K=256", S },
    { "gemm f16,f16->e4m3 M=24 N=72 K=256", S },
    { "gemm bf16,bf16->e4m3fnuz M=24 N=72 K=256", S },
    { "gemm bf16,bf16->i8 M=24 N=72 K=256", S },
    { "gemm e4m3,e4m3->e4m3 M=2 N=12 K=0 w_scale=f32 x_scale=f32 bias=1 btype=f32" },
    { "gemm bf16,bf16->e4m3 M=20 N=72 K=1024", R, false,
      "gemm_stream_mma{tile_m=32,frags_n=1,k_waves=2,unroll=2,split_k=4}" },
    { "gemm bf16,bf16->i8 M=20 N=70 K=1024 ldy=71", R, false,
      "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=2,unroll=2,split_k=1}" },
    { "gemm bf16,bf16->e4m3fnuz M=70 N=132 K=272", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=2}" },
    { "gemm e4m3,e4m3->e4m3 M=70 N=90 K=528" ROWS, R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=128,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm bf16,bf16->e4m3 M=70 N=132 K=272 act=silu gates=interleaved", R, false,
      "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}" },
    { "gemm bf16,bf16->e4m3 M=30 N=70 K=2048", R, false,
      "gemm_thin_mma{tile_m=32,frags_n=4,k_waves=4,unroll=2,split_k=1}" },
    { "gemm e5m2,e5m2->e5m2 M=33 N=73 K=2048" ROWS " fast=1", R, false,
      "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=256,stages=4,split=4}" },
    /* gemm_tile_wgmma: rows aligned and not, pieces that begin within 16 bytes, clusters, experts. */
    { "gemm bf16,bf16->e4m3 M=300 N=208 K=264 bias=1", R, false, "gemm_tile_wgmma{tile_n=112,cluster=1}" },
    { "gemm bf16,bf16->i8 M=130 N=272 K=136 act=silu gates=interleaved ldy=139", R, false,
      "gemm_tile_wgmma{tile_n=128,cluster=1}" },
    { "gemm bf16,bf16->e4m3 M=300 N=224 K=256 act=silu gates=interleaved", R, false,
      "gemm_tile_wgmma{tile_n=112,cluster=2}" },
    { "gemm e4m3,e4m3->e4m3 M=300 N=300 K=528" ROWS " fast=1", R, false, "gemm_tile_wgmma{tile_n=176,cluster=2}" },
    { "gemm e5m2,e5m2->e5m2 M=140 N=256 K=528" BLOCKS " fast=1", R, false, "gemm_tile_wgmma{tile_n=96,cluster=1}" },
    { "gemm f16,f16->e4m3 M=40 N=256 K=512", S, false, "gemm_tile64_wgmma{tile_n=96}" },
    { "gemm bf16,bf16->e4m3 M=300 N=96 K=256 experts=3 top=2 weights=1", R, false,
      "gemm_tile_wgmma{tile_n=64,cluster=1}" },
    { "gemm bf16,e2m1->i8 M=100 N=208 K=512 w_scale=e8m0 w_group=32 packed=1", R, false,
      "gemm_tile_wgmma{tile_n=96,cluster=1}" },
    { "gemm bf16,bf16->e4m3 M=60 N=72 K=1024", R, false,
      "gemm_wgmma{swap=0,tile_m=64,tile_n=128,tile_k=64,stages=3,split=2}" },
};

OP_CASES(right_scales, scales, "8-bit codes and their scales")
OP_CASES(right_layouts, layouts, "8-bit codes: layouts, epilogues, NaN")
OP_CASES(right_kernels, kernels, "8-bit codes: splits of k")
OP_CASES(right_outputs, outputs, "8-bit outputs")

#define N_RANDOM 40
START_TEST(right_random)
{
    static char text[N_RANDOM][220];
    static const char *const codes[] = { "e4m3", "e4m3fnuz", "e5m2", "i8" }, *const ys[] = { "bf16", "f16", "f32" };
    static const char *const per[] = { "",
                                       " w_scale=f32",
                                       " x_scale=e8m0",
                                       " w_scale=f32 x_scale=f32",
                                       " w_scale=f32 x_scale=f32 x_per=row",
                                       " w_scale=e8m0 w_per=row",
                                       ROWS,
                                       BLOCKS,
                                       BLOCKS " x_columns=1 w_columns=1",
                                       " w_scale=e8m0 x_scale=e8m0 x_per=block w_per=block" };
    struct op_case cases[N_RANDOM];
    uint64_t s = op_seed() ^ 0x8b17;
    for (int i = 0; i < N_RANDOM; i++) {
        const char *x = codes[rfg_random(&s) % 4], *y = ys[rfg_random(&s) % 3];
        int m = 1 + (int)(rfg_random(&s) % 40), n = 1 + (int)(rfg_random(&s) % 300),
            k = 1 + (int)(rfg_random(&s) % 900);
        if (rfg_random(&s) % 4)
            k = (k + 15) / 16 * 16;
        int at = snprintf(text[i], sizeof(text[i]), "gemm %s,%s->%s M=%d N=%d K=%d%s", x, x, y, m, n, k,
                          per[rfg_random(&s) % 10]);
        if (rfg_random(&s) % 3 == 0)
            at += snprintf(text[i] + at, sizeof(text[i]) - (size_t)at, " bias=1 btype=%s",
                           rfg_random(&s) % 2 ? "f32" : y);
        if (rfg_random(&s) % 3 == 0)
            at += snprintf(text[i] + at, sizeof(text[i]) - (size_t)at, " ldx=%d ldw=%d ldy=%d",
                           k + 16 * (int)(rfg_random(&s) % 3), k + (int)(rfg_random(&s) % 3),
                           n + (int)(rfg_random(&s) % 5));
        if (x[0] == 'e' && rfg_random(&s) % 2)
            snprintf(text[i] + at, sizeof(text[i]) - (size_t)at, " fast=1");
        cases[i] =
            (struct op_case){ text[i], m > 6 && n > 20 && rfg_random(&s) % 4 == 0 ? S : R, rfg_random(&s) % 4 == 0 };
    }
    op_cases_run(op_device(_i), "drawn from the seed", cases, N_RANDOM);
}
END_TEST

/* ---- fast=1 ------------------------------------------------------------------------------------------------------ */

struct first_set {
    int p[RFG_MAX_PARAMS];
    int n, n_params;
};
static bool first_offered(void *ctx, const int *p)
{
    struct first_set *f = ctx;
    if (f->n++ == 0)
        memcpy(f->p, p, (size_t)f->n_params * sizeof(int));
    return false;
}

/* What a variant gives of a problem, malloc'ed. */
static void *outputs_of(rfg_context *ctx, const char *text, const struct rfg_variant *v, const int *p, size_t *size)
{
    struct rfg_problem prob = op_problem(text);
    struct rfg_case_params params = { .seed = op_seed() };
    struct rfg_case *c;
    struct rfg_plan *plan;
    void *bytes;
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s: %s", text, rfg_last_error());
    ck_assert_msg(rfg_plan_create(ctx, rfg_case_problem(c), v, p, &plan) == RFG_OK, "%s: %s: %s", text, v->name,
                  rfg_last_error());
    ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
    ck_assert_msg(rfg_case_run_checked(c, 0, plan, NULL) == RFG_OK, "%s: %s", text, rfg_last_error());
    ck_assert_int_eq(rfg_case_outputs(c, 0, &bytes, size), RFG_OK);
    rfg_plan_destroy(ctx, &plan);
    rfg_case_destroy(&c);
    return bytes;
}

/* Variants that take fp8 without fast=1 give the same bits with it. */
START_TEST(fast_changes_nothing)
{
    static const char *const exact[] = { "gemm e4m3,e4m3->f32 M=16 N=96 K=1024" BLOCKS,
                                         "gemm e5m2,e5m2->f32 M=5 N=70 K=528" ROWS,
                                         "gemm e4m3fnuz,e4m3fnuz->bf16 M=8 N=64 K=512" };
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_device *dev = rfg_context_info(ctx);
    int same = 0;
    for (int i = 0; i < COUNT(exact); i++) {
        struct rfg_problem prob = op_problem(exact[i]), fast;
        char text[200];
        snprintf(text, sizeof(text), "%s fast=1", exact[i]);
        fast = op_problem(text);
        for (int k = 0; k < rfg_op_variants(prob.op)->n; k++) {
            const struct rfg_variant *v = rfg_op_variants(prob.op)->list[k];
            struct first_set f = { .n_params = v->n_params };
            if (!v->supports(dev, &prob, NULL))
                continue;
            ck_assert_msg(v->supports(dev, &fast, NULL), "%s refuses %s", v->name, text);
            rfg_variant_each(v, dev, &prob, first_offered, &f);
            if (!f.n)
                continue;
            size_t size, size_fast;
            void *want = outputs_of(ctx, exact[i], v, f.p, &size), *got = outputs_of(ctx, text, v, f.p, &size_fast);
            ck_assert_uint_eq(size, size_fast);
            ck_assert_msg(!memcmp(want, got, size), "%s: %s: fast=1 gives other bits", exact[i], v->name);
            free(want);
            free(got);
            same++;
        }
    }
    ck_assert_int_ge(same, COUNT(exact));
    rfg_context_destroy(&ctx);
}
END_TEST

/* What Hopper's kernel takes, and why not the rest. */
START_TEST(wgmma_takes)
{
    static const char *const texts[][2] = {
        { "gemm e4m3,e4m3->bf16 M=64 N=256 K=512" BLOCKS " fast=1", NULL },
        { "gemm e5m2,e5m2->bf16 M=64 N=256 K=512 fast=1", NULL },
        { "gemm i8,i8->bf16 M=64 N=256 K=512" ROWS, NULL },
        { "gemm e4m3,e4m3->bf16 M=64 N=256 K=512" BLOCKS, "fast=0: must be 1, its sums of e4m3 have about 14 bits" },
        { "gemm e4m3fnuz,e4m3fnuz->bf16 M=64 N=256 K=512 fast=1", "x is e4m3fnuz: must be bf16, f16, e4m3, e5m2 or" },
        { "gemm e4m3,e4m3->bf16 M=64 N=256 K=512 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block fast=1",
          "x_scale=e8m0: must be f32 with x_per=block" },
        { "gemm e4m3,e4m3->bf16 M=64 N=256 K=520 fast=1", "K=520: must be a positive multiple of 16" },
    };
    static const struct {
        const char *problem, *config, *why;
    } sets[] = {
        { "gemm e4m3,e4m3->bf16 M=64 N=256 K=512 fast=1",
          "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=256,stages=2,split=1}", NULL },
        { "gemm e4m3,e4m3->bf16 M=64 N=256 K=512 fast=1",
          "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=64,stages=2,split=1}",
          "tile_k=64: must be 128 or 256 bytes, these are 64" },
        { "gemm bf16,bf16->bf16 M=64 N=256 K=512", "gemm_wgmma{swap=1,tile_m=64,tile_n=64,tile_k=256,stages=2,split=1}",
          "tile_k=256: must be 128 or 256 bytes, these are 512" },
        { "gemm e4m3,e4m3->bf16 M=128 N=256 K=512 fast=1",
          "gemm_wgmma{swap=1,tile_m=128,tile_n=128,tile_k=128,stages=2,split=1}",
          "about 168 registers: must be at most" },
        { "gemm i8,i8->bf16 M=128 N=1024 K=2048", "gemm_wgmma{swap=1,tile_m=128,tile_n=64,tile_k=256,stages=2,split=1}",
          NULL },
        { "gemm i8,i8->i8 M=128 N=1024 K=2048", "gemm_wgmma{swap=1,tile_m=128,tile_n=64,tile_k=256,stages=2,split=1}",
          "about 176 registers" },
    };
    struct rfg_device dev;
    struct rfg_reason why;
    ck_assert(rfg_device_imagine(&dev, "sm_90"));
    for (int i = 0; i < COUNT(texts); i++) {
        struct rfg_problem prob = op_problem(texts[i][0]);
        bool taken = gemm_wgmma.supports(&dev, &prob, &why);
        ck_assert_msg(taken == !texts[i][1], "%s: %s", texts[i][0], taken ? "is taken" : why.text);
        ck_assert_msg(taken || strstr(why.text, texts[i][1]), "%s: %s", texts[i][0], why.text);
    }
    for (int i = 0; i < COUNT(sets); i++)
        op_config_taken("sm_90", sets[i].problem, sets[i].config, sets[i].why);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* What gemm_tile refuses, and what it must not. */
START_TEST(tile_takes)
{
    static const struct {
        const char *arch, *problem, *words; /* NULL: it does */
    } cases[] = {
        { "gfx942", "gemm i8,i8->f32 M=64 N=64 K=131056", NULL },
        { "gfx942", "gemm i8,i8->f32 M=64 N=64 K=131072", "K=131072: must be at most 131071 of i8" },
        { "gfx942", "gemm i8,i8->f32 M=64 N=64 K=131072" BLOCKS, NULL },
        { "gfx1201", "gemm i8,i8->f32 M=64 N=64 K=131072", NULL },
        { "gfx942", "gemm e4m3,e4m3->f32 M=64 N=64 K=131072", NULL },
        { "gfx90a", "gemm e5m2,e5m2->f32 M=64 N=64 K=128", "x is e5m2" },
        { "gfx942", "gemm e5m2,e5m2->f32 M=64 N=64 K=128", NULL },
        { "gfx942", "gemm bf16,bf16->bf16 M=16 N=64 K=128", NULL },
        { "gfx942", "gemm bf16,bf16->bf16 M=15 N=64 K=128", "M=15: must be at least 16" },
        { "gfx942", "gemm bf16,bf16->bf16 M=1 N=64 K=128 invariant=1", NULL },
        { "gfx1030", "gemm bf16,bf16->bf16 M=64 N=64 K=128", "must have matrix instructions" },
        { "sm_90", "gemm bf16,bf16->bf16 M=64 N=64 K=128", "must be an AMD GPU" },
        { "gfx942", "gemm bf16,i4->f32 M=64 N=64 K=96 w_scale=f16 w_group=96", NULL },
        { "gfx1100", "gemm f16,e2m1->f32 M=64 N=64 K=96 w_scale=e8m0 w_group=32 packed=1", NULL },
        { "gfx942", "gemm bf16,i4->f32 M=64 N=64 K=96 w_scale=f16 w_group=32 align=8", "align=8: must be 16" },
        { "gfx942", "gemm e4m3,e2m1->f32 M=64 N=64 K=128" MX, "target is gfx942: must be gfx950" },
        { "gfx950", "gemm e4m3,e2m1->f32 M=64 N=64 K=128" MX, NULL },
        { "gfx950", "gemm e4m3,e2m1->f32 M=64 N=64 K=128 packed=1" MX, "packed=1: must be 0" },
        { "gfx950", "gemm e4m3,e2m1->f32 M=64 N=64 K=128 w_columns=1" MX, "w_columns=1: must be 0" },
        { "gfx1030", "gemm bf16,i4->f32 M=64 N=64 K=96 w_scale=f16 w_group=32", "must have matrix instructions" },
        { "sm_90", "gemm bf16,i4->f32 M=64 N=64 K=96 w_scale=f16 w_group=32", "must be an AMD GPU" },
    };
    op_config_taken("gfx950", "gemm e4m3,e4m3->f32 M=64 N=64 K=256" MX,
                    "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}",
                    "tile_k=64: must be a multiple of 128 with x_per=group");
    op_config_taken("gfx942", "gemm bf16,i4->f32 M=64 N=64 K=192 w_scale=f16 w_group=96",
                    "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}",
                    "tile_k=64: must divide w_group=96 or be a multiple of it");
    for (int i = 0; i < COUNT(cases); i++) {
        struct rfg_device dev;
        struct rfg_problem prob = op_problem(cases[i].problem);
        struct rfg_reason why = { 0 };
        ck_assert(rfg_device_imagine(&dev, cases[i].arch));
        bool taken = gemm_tile.supports(&dev, &prob, &why);
        ck_assert_msg(taken == !cases[i].words && (taken || strstr(why.text, cases[i].words)), "%s on %s: %s",
                      cases[i].problem, cases[i].arch, taken ? "taken" : why.text);
    }
}
END_TEST

START_TEST(bad_problems)
{
    static const char *const bad[][2] = {
        { "e4m3,e5m2->bf16 M=1 N=8 K=8", "dtype of w is e5m2: must be x's, e4m3" },
        { "e4m3,e4m3->i32 M=1 N=8 K=8", "dtype of y is i32: must be bf16, f16 or f32, or e4m3, e4m3fnuz, e5m2 or i8" },
        { "bf16,bf16->e2m1 M=1 N=8 K=8", "dtype of y is e2m1: must be bf16" },
        { "bf16,bf16->e4m3 M=1 N=8 K=8 residual=1", "residual=1: must be 0, y is e4m3" },
        { "i8,i8->i8 M=1 N=8 K=8 bias=1 btype=bf16", "btype=bf16: must be f32 or y's dtype, x is i8" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=8 w_scale=bf16", "w_scale=bf16: must be f32 or e8m0, w is e4m3" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=8 x_scale=bf16", "x_scale=bf16: must be one of none, f32, e8m0" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=8 x_scale=f32 w_scale=e8m0", "x_scale=f32, w_scale=e8m0: must be of one dtype" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=8 w_scale=f32 x_per=row",
          "x_per=row, w_per=tensor: x_scale=none, w_scale=f32: without" },
        { "i8,i8->bf16 M=1 N=8 K=8 w_scale=f32 x_scale=f32 x_per=row w_per=block",
          "x_per=row, w_per=block: must both be" },
        { "i8,i8->bf16 M=1 N=8 K=8 w_scale=f32 w_group=8", "w_group=8: must be 0, w is i8" },
        { "i8,i8->bf16 M=1 N=8 K=8 bias=1", "btype=x: must be f32 or y's dtype, x is i8" },
        { "i8,i8->bf16 M=1 N=8 K=8 bias=1 btype=f16", "btype=f16: must be f32 or y's dtype, x is i8" },
        { "i8,i8->bf16 M=1 N=8 K=8 x_scale=f32 x_columns=1",
          "x_columns=1, w_columns=0: x_per and w_per must be block" },
        { "i8,i8->bf16 M=1 N=16 K=32 packed=1", "packed" },
        { "bf16,bf16->bf16 M=1 N=8 K=8 x_scale=f32", "x_scale=f32, x_per=tensor, w_per=tensor: x is bf16: has none" },
        { "bf16,bf16->bf16 M=1 N=8 K=8 w_per=row", "x is bf16: has none" },
        { "bf16,bf16->bf16 M=1 N=8 K=8 fast=1", "fast=1: must be 0, x is bf16, no fp8" },
        { "i8,i8->bf16 M=1 N=8 K=8 fast=1", "fast=1: must be 0, x is i8, no fp8" },
        { "e4m3,e4m3->bf16 M=1 N=8 K=8 fast=2", "fast=2" },
    };
    OP_PROBLEMS_REFUSED("gemm ", bad);
}
END_TEST

static uint8_t x[4 * 256], w[130 * 256];
static float x_scale[4 * 2], w_scale[130 * 2];
static uint16_t y[4 * 130], y_before[4 * 130];

/* The call must fail, say `word`, and write nothing. */
static void refused(rfg_context *ctx, const rfg_gemm_params *p, rfg_dtype dtype, const char *word)
{
    rfg_tensor tx = rfg_tensor_2d(x, dtype, 4, 256, 256), tw = rfg_tensor_2d(w, dtype, 130, 256, 256);
    rfg_tensor ty = rfg_tensor_2d(y, RFG_BF16, 4, 130, 130);
    memcpy(y_before, y, sizeof(y));
    op_refused(rfg_op_gemm(ctx, &ty, &tx, &tw, p, NULL), word);
    ck_assert(!memcmp(y, y_before, sizeof(y)));
}

START_TEST(refusals)
{
    rfg_context *ctx = op_context("cpu");
    rfg_tensor xs = rfg_tensor_2d(x_scale, RFG_F32, 4, 2, 2), ws = rfg_tensor_2d(w_scale, RFG_F32, 2, 2, 2);
    const rfg_gemm_params good = { .size = sizeof(good),
                                   .x_scale = &xs,
                                   .w_scale = &ws,
                                   .x_per = RFG_GEMM_SCALE_BLOCK,
                                   .w_per = RFG_GEMM_SCALE_BLOCK };
    rfg_tensor tx = rfg_tensor_2d(x, RFG_E4M3, 4, 256, 256), tw = rfg_tensor_2d(w, RFG_E4M3, 130, 256, 256);
    rfg_tensor ty = rfg_tensor_2d(y, RFG_BF16, 4, 130, 130), half = rfg_tensor_2d(y, RFG_BF16, 4, 130, 130);
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, &good, NULL) == RFG_OK, "%s", rfg_last_error());

    rfg_gemm_params p = good;
    rfg_tensor t = rfg_tensor_2d(x_scale, RFG_F32, 4, 1, 1);
    p.x_scale = &t;
    refused(ctx, &p, RFG_E4M3, "x_scale is 4 x 1: must be 4 x 2 (per block)");
    t = rfg_tensor_2d(x_scale, RFG_BF16, 4, 2, 2);
    refused(ctx, &p, RFG_E4M3, "x_scale is bf16: must be f32 or e8m0");
    t = rfg_tensor_2d(x_scale, RFG_E8M0, 4, 2, 2);
    refused(ctx, &p, RFG_E4M3, "x_scale=e8m0, w_scale=f32: must be of one dtype");
    p = good;
    t = rfg_tensor_2d(w_scale, RFG_F32, 130, 2, 2);
    p.w_scale = &t;
    refused(ctx, &p, RFG_E4M3, "w_scale is 130 x 2: must be 2 x 2 (per block)");
    p = good;
    p.w_per = RFG_GEMM_SCALE_ROW;
    refused(ctx, &p, RFG_E4M3, "x_per=block, w_per=row: must both be block, or neither");
    p.x_per = (rfg_gemm_scale)4;
    refused(ctx, &p, RFG_E4M3, "x_per is 4, w_per 1: must be RFG_GEMM_SCALE_TENSOR, ROW, BLOCK or GROUP");
    p = (rfg_gemm_params){ .size = sizeof(p), .x_scale = &xs };
    refused(ctx, &p, RFG_E4M3, "x_scale of x_per=tensor has 2 dimensions: must have 1");
    p = (rfg_gemm_params){ .size = sizeof(p), .x_scale = &xs };
    refused(ctx, &p, RFG_I4, "x is i4: must be bf16, f16, f32, e4m3, e4m3fnuz, e5m2, i8 or e2m1");
    p = (rfg_gemm_params){ .size = sizeof(p), .fast_accum = 1 };
    refused(ctx, &p, RFG_I8, "fast_accum is 1: must be 0, x is i8, no fp8");
    p = (rfg_gemm_params){ .size = sizeof(p), .gates = RFG_GATES_INTERLEAVED };
    refused(ctx, &p, RFG_E4M3, "gates 1, limit 0, alpha 0: must be 0, it is not gated");
    p = (rfg_gemm_params){ .size = sizeof(p), .bias = &half };
    t = rfg_tensor_1d(w_scale, RFG_F16, 130);
    p.bias = &t;
    refused(ctx, &p, RFG_E4M3, "bias is f16: must be y's dtype, bf16, or f32");
    p = good;
    t = rfg_tensor_2d(y, RFG_F32, 4, 2, 2);
    p.x_scale = &t;
    refused(ctx, &p, RFG_E4M3, "overlaps x_scale");

    p = good;
    t = rfg_tensor_1d(w_scale, RFG_F32, 1);
    p.y_scale = &t;
    refused(ctx, &p, RFG_E4M3, "y is bf16, y_scale given: must be NULL");
    rfg_tensor q = rfg_tensor_2d(y, RFG_E4M3, 4, 130, 130);
    op_refused(rfg_op_gemm(ctx, &q, &tx, &tw, &good, NULL), "y is e4m3, y_scale NULL: must be given");
    t.shape[0] = 2;
    op_refused(rfg_op_gemm(ctx, &q, &tx, &tw, &p, NULL), "y_scale has 2 elements: must be 1");
    t = rfg_tensor_1d(x_scale, RFG_BF16, 130);
    p = good;
    p.bias = &t;
    rfg_tensor one = rfg_tensor_1d(w_scale, RFG_F32, 1);
    p.y_scale = &one;
    op_refused(rfg_op_gemm(ctx, &q, &tx, &tw, &p, NULL), "bias is bf16: must be f32");

    rfg_tensor bx = rfg_tensor_2d(w, RFG_BF16, 4, 64, 64), bw = rfg_tensor_2d(w + 1024, RFG_BF16, 130, 64, 64);
    op_refused(rfg_op_gemm(ctx, &ty, &bx, &bw, &good, NULL),
               "x_scale=f32, x_per=block, w_per=block: x is bf16: has none");

    /* One scale a row, as vectors and as columns of a matrix with other things: the same bits. */
    uint16_t want[4 * 130];
    for (int i = 0; i < 8; i++)
        x_scale[i] = i % 2 ? 77.0f : (float)(i + 1);
    for (int i = 0; i < 260; i++)
        w_scale[i] = i % 2 ? 99.0f : (float)(i % 7 + 1);
    memset(x, 0x38, sizeof(x)); /* 1 */
    memset(w, 0x38, sizeof(w));
    xs = rfg_tensor_2d(x_scale, RFG_F32, 4, 1, 2);
    ws = rfg_tensor_2d(w_scale, RFG_F32, 130, 1, 2);
    p = (rfg_gemm_params){
        .size = sizeof(p), .x_scale = &xs, .w_scale = &ws, .x_per = RFG_GEMM_SCALE_ROW, .w_per = RFG_GEMM_SCALE_ROW
    };
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    memcpy(want, y, sizeof(y));
    ck_assert_int_eq(want[131], 0x4510); /* 256 * 3 * 3 */
    xs.ndim = ws.ndim = 1;
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert(!memcmp(want, y, sizeof(y)));
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main(
        "gemm_codes",
        OP_TESTS(right_scales, right_layouts, right_kernels, right_outputs, right_random, fast_changes_nothing),
        OP_TESTS(refusals, bad_problems, wgmma_takes, tile_takes));
}
