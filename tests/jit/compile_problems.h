/* SPDX-License-Identifier: MIT
 *
 * What test_compile.c compiles for: problems of one family of code objects each. */
/* Problems of operators whose variants are one family of code objects: between them each value of each macro. */
static const char *const act_problems[] = {
    "act_and_mul bf16->bf16 M=4096 N=4096",
    "act_and_mul bf16->bf16 M=64 N=14336 act=gelu_tanh",
    "act_and_mul f16->f16 M=64 N=14336 act=gelu",
    "act_and_mul f32->f32 M=4096 N=1000 act=relu2",
    "act_and_mul f16->f16 M=7 N=1001 act=relu",
    "act_and_mul bf16->bf16 M=64 N=2880 act=swigluoai gates=interleaved",
    "act_and_mul bf16->bf16 M=64 N=3072 act=situ",
    "act_and_mul f16->f16 M=64 N=2048 limit=10",
    "act_and_mul bf16->e4m3 M=64 N=2048 scale=token act=swiglustep",
    "act_and_mul f32->f32 M=3 N=333 act=gelu gates=interleaved",
    "act_and_mul bf16->e4m3 M=4096 N=14336 scale=token",
    "act_and_mul bf16->e4m3fnuz M=16 N=4096 scale=token plain=1 act=gelu_tanh",
    "act_and_mul f16->i8 M=16 N=28672 scale=token",
    "act_and_mul f32->e5m2 M=5 N=2001 scale=token act=gelu",
    "act_and_mul bf16->e4m3 M=64 N=2048 scale=group act=swigluoai gates=interleaved plain=1",
    "act_and_mul f32->e4m3fnuz M=64 N=2048 scale=group act=gelu",
    "act_and_mul f16->i8 M=4096 N=1001 scale=group act=gelu_tanh",
    "act_and_mul bf16->e5m2 M=64 N=4096 scale=static act=relu",
    "act_and_mul f32->e4m3 M=64 N=100 scale=static act=none",
    "act bf16->bf16 M=64 N=4096 act=relu2",
    "act f32->e4m3 M=64 N=4096 act=none scale=token",
    "act f16->e4m3fnuz M=64 N=4097 act=gelu scale=group plain=1",
    "act_and_mul bf16->e4m3 M=64 N=14336 scale=mx rounding=up",
    "act_and_mul f32->e2m1 M=64 N=2048 act=gelu scale=mx rounding=even plain=1",
    "act_and_mul bf16->e2m1 M=64 N=2880 act=swigluoai gates=interleaved scale=mx rounding=down",
    "act f16->e4m3 M=4096 N=4096 act=gelu_tanh scale=mx rounding=ceil",
};
static const char *const norm_problems[] = {
    "add_rmsnorm bf16->bf16 M=4096 N=8192",
    "add_rmsnorm bf16->bf16 M=1 N=7168",
    "add_rmsnorm f16->f16 M=64 N=4096 weight=1+w",
    "add_rmsnorm f32->f32 M=64 N=16384 weight=none",
    "add_rmsnorm bf16->bf16 M=64 N=4096 residual=f32 wtype=f32",
    "add_layernorm f16->i8 M=4 N=4097 bias=1 scale=token residual=f32",
    "add_rmsnorm bf16->bf16 M=4 N=65536",
    "add_rmsnorm f16->f16 M=4 N=4097",
    "rmsnorm bf16->bf16 M=4096 N=128 heads=32 ldx=6144",
    "rmsnorm f32->f32 M=4096 N=64",
    "rmsnorm f16->f16 M=64 N=2880",
    "rmsnorm bf16->e4m3 M=4096 N=7168 scale=token",
    "add_rmsnorm bf16->e4m3fnuz M=64 N=8192 scale=token plain=1",
    "add_rmsnorm f16->i8 M=16 N=5120 scale=group",
    "rmsnorm f32->e5m2 M=16 N=1001 scale=static weight=1+w",
    "rmsnorm bf16->e4m3 M=512 N=128 heads=4 ldx=640 scale=group plain=1",
    "layernorm bf16->bf16 M=64 N=4096 bias=1",
    "layernorm f32->f32 M=64 N=16384 bias=1 weight=none",
    "add_layernorm f16->f16 M=4096 N=1024 bias=1 weight=1+w",
    "add_layernorm bf16->e4m3 M=64 N=6144 bias=1 scale=token",
    "layernorm f32->i8 M=3 N=333 scale=group bias=1",
    "add_layernorm f32->e4m3fnuz M=16 N=65536 scale=token plain=1",
    "add_rmsnorm bf16->e2m1 M=64 N=7168 scale=mx rounding=up plain=1",
    "rmsnorm f32->e4m3 M=16 N=2048 scale=mx rounding=down weight=1+w",
    "rmsnorm f16->e4m3 M=512 N=128 heads=4 ldx=640 scale=mx rounding=ceil",
    "add_layernorm bf16->e2m1 M=64 N=4096 bias=1 scale=mx rounding=even residual=f32 wtype=f32",
};
static const char *const prepack_problems[] = {
    "gemm_prepack bf16->bf16 N=8192 K=7168",
    "gemm_prepack e2m1->e2m1 N=8192 K=7168",
    "gemm_prepack i8->i8 N=8192 K=56 groups=1",
    "gemm_prepack e4m3->e4m3 N=8192 K=7168",
    "gemm bf16,bf16->bf16 M=8 N=1024 K=7168 packed=1",
    "gemm f16,f16->f32 M=16 N=384 K=512 bias=1 btype=f32 packed=1",
    "gemm f16,f16->bf16 M=4096 N=1024 K=1024 ldx=1032 packed=1",
};
static const char *const blocks_problems[] = {
    "gemm bf16,q4_0->bf16 M=1 N=4096 K=4096 fast=1",
    "gemm f16,q8_0->f32 M=2 N=4096 K=4096 fast=1 bias=1",
    "gemm f32,q4_k->bf16 M=4 N=4096 K=4096 fast=1 act=silu",
    "gemm bf16,q6_k->bf16 M=8 N=1024 K=14336 fast=1 residual=1",
    "gemm bf16,q5_0->bf16 M=8 N=4096 K=4096 fast=1",
    "gemm bf16,q2_k->bf16 M=8 N=4096 K=4096 fast=1",
    "gemm bf16,q3_k->bf16 M=8 N=4096 K=4096 fast=1",
    "gemm bf16,q5_k->bf16 M=8 N=4096 K=4096 fast=1",
    "gemm bf16,iq4_xs->bf16 M=8 N=4096 K=4096 fast=1",
    "gemm bf16,mxfp4->bf16 M=8 N=4096 K=4096 fast=1",
    "gemm bf16,nvfp4->bf16 M=8 N=4096 K=4096 fast=1",
};

static const char *const w8_problems[] = {
    "gemm bf16,e4m3->bf16 M=1 N=4096 K=4096 w_scale=f32 w_per=row",
    "gemm bf16,e4m3->bf16 M=16 N=7168 K=4096 w_scale=f32 w_per=row packed=1",
    "gemm bf16,e4m3->f32 M=64 N=4096 K=4112 w_scale=f32 w_per=block bias=1",
    "gemm f16,e4m3->f16 M=8 N=4096 K=4096 w_scale=bf16 w_per=group w_group=128 packed=1",
    "gemm f16,e4m3->bf16 M=200 N=4096 K=4096 w_scale=f32 w_per=block act=silu",
    "gemm bf16,e4m3fnuz->f16 M=16 N=4096 K=4096 w_scale=f32 residual=1",
    "gemm f16,e4m3fnuz->f32 M=4096 N=4096 K=4096 w_scale=f32 w_per=row packed=1",
    "gemm bf16,e5m2->bf16 M=32 N=1024 K=7168 w_scale=e8m0 w_per=block packed=1",
    "gemm f16,e5m2->f16 M=4 N=1024 K=7168",
    "gemm bf16,i8->bf16 M=4096 N=4096 K=7168 w_scale=bf16 w_per=row",
    "gemm bf16,i8->bf16 M=16 N=4096 K=7168 w_scale=f16 w_per=group w_group=64 act=silu gates=interleaved",
    "gemm f16,i8->f16 M=2 N=384 K=512 w_scale=f32 w_per=group w_group=32",
    "gemm bf16,e4m3->bf16 M=64 N=4096 K=2048 experts=32 top=4 w_scale=f32 w_per=block act=silu",
    "gemm bf16,i8->bf16 M=64 N=2048 K=2048 experts=32 weights=1 w_scale=f32 w_per=row packed=1",
    "gemm bf16,e4m3->bf16 M=288 N=7168 K=256 experts=257 weights=1 w_scale=f32 w_per=block",
    "gemm f16,i8->f32 M=64 N=512 K=448 residual=1 w_scale=f32 w_per=group w_group=64 packed=1",
};
static const char *const batch_problems[] = {
    "gemm bf16,bf16->bf16 M=1 N=512 K=128 batch=16",   "gemm bf16,bf16->bf16 M=32 N=128 K=512 batch=16",
    "gemm f16,f16->f16 M=128 N=512 K=128 batch=128",   "gemm f16,f16->f32 M=8 N=128 K=512 batch=128",
    "gemm bf16,bf16->f16 M=1024 N=512 K=128 batch=16", "gemm f32,f32->f32 M=4 N=128 K=512 batch=16",
    "gemm bf16,bf16->f32 M=16 N=130 K=520 batch=4",
};
static const char *const four_bit_problems[] = {
    "gemm bf16,i4->bf16 M=8 N=2112 K=7168 w_scale=f16 w_group=128",
    "gemm f16,i4->f16 M=16 N=4096 K=4096 w_scale=bf16 w_zero=i8 w_group=32 bias=1",
    "gemm bf16,i4->f32 M=1 N=4096 K=4096 w_scale=f32 w_zero=i8 w_group=64 residual=1",
    "gemm f16,i4->f16 M=2 N=4096 K=4096 w_scale=f16 w_group=64 act=silu gates=interleaved ldx=4104",
    "gemm bf16,e2m1->bf16 M=8 N=2112 K=7168 w_scale=e8m0 w_group=32",
    "gemm f16,e2m1->f16 M=16 N=4096 K=4096 w_scale=e8m0 w_group=32 act=silu gates=interleaved",
    "gemm bf16,i4->bf16 M=8 N=2112 K=7168 w_scale=f16 w_group=128 packed=1",
    "gemm f16,i4->f16 M=16 N=4096 K=4096 w_scale=bf16 w_zero=i8 w_group=32 bias=1 packed=1",
    "gemm bf16,i4->f32 M=64 N=4096 K=4096 w_scale=f32 w_zero=i8 w_group=64 residual=1 packed=1",
    "gemm bf16,e2m1->bf16 M=32 N=2112 K=7168 w_scale=e8m0 w_group=32 packed=1",
    "gemm f16,e2m1->f16 M=1 N=4096 K=4096 w_scale=e8m0 w_group=32 act=silu gates=interleaved packed=1",
};
static const char *const group_problems[] = {
    "gemm bf16,e2m1->bf16 M=1 N=4096 K=4096 w_scale=e4m3 w_group=16 w_global=1 packed=1",
    "gemm bf16,e2m1->bf16 M=16 N=2112 K=7168 w_scale=e4m3 w_group=16 w_global=1 packed=1",
    "gemm f16,e2m1->f16 M=64 N=4096 K=4096 w_scale=e4m3 w_group=16 w_global=1 act=silu gates=interleaved packed=1",
    "gemm f16,e2m1->f32 M=256 N=4096 K=2880 w_scale=e4m3 w_group=16 w_global=1 bias=1 packed=1",
    "gemm bf16,e2m1->bf16 M=64 N=2048 K=2048 experts=32 weights=1 w_scale=e4m3 w_group=16 w_global=1 packed=1",
    "gemm f16,e2m1->f16 M=16 N=4096 K=4096 w_scale=e4m3 w_group=32 residual=1 packed=1",
    "gemm bf16,e2m1->bf16 M=4 N=4096 K=4096 w_scale=e4m3 w_group=16 w_global=1",
    "gemm f16,e2m1->f16 M=16 N=4096 K=4096 w_scale=e4m3 w_group=16 act=silu gates=interleaved",
    "gemm bf16,i4->bf16 M=8 N=2112 K=7168 w_scale=f16 w_group=16",
    "gemm f16,i4->f16 M=16 N=4096 K=4096 w_scale=bf16 w_zero=i8 w_group=48 bias=1",
    "gemm bf16,i4->f32 M=2 N=4096 K=4096 w_scale=f32 w_zero=i8 w_group=4096 residual=1",
    "gemm f16,i4->f16 M=1 N=4096 K=2880 w_scale=f16 w_group=128 act=silu gates=interleaved",
    "gemm bf16,i4->bf16 M=64 N=2112 K=1000 w_scale=f16 w_group=1000",
    "gemm bf16,i4->bf16 M=16 N=2112 K=7168 w_scale=f16 w_zero=i8 w_group=16 packed=1",
    "gemm f16,i4->f16 M=256 N=4096 K=4096 w_scale=bf16 w_zero=i8 w_group=16 packed=1",
    "gemm bf16,i4->f32 M=64 N=4096 K=4096 w_scale=f32 w_group=16 packed=1",
    "gemm bf16,e2m1->bf16 M=8 N=4096 K=4096 w_scale=bf16 w_group=128 packed=1",
};
/* For gemm_tile: each format with each kind of groups, by rows and prepacked. */
static const char *const four_bit_tile_problems[] = {
    "gemm bf16,i4->bf16 M=4096 N=4096 K=7168 w_scale=f16 w_group=128 packed=1",
    "gemm bf16,i4->f32 M=1024 N=4096 K=4128 w_scale=f32 w_zero=i8 w_group=32 residual=1",
    "gemm f16,i4->f16 M=4096 N=4096 K=4096 w_scale=bf16 w_zero=i8 w_group=64 bias=1",
    "gemm bf16,e2m1->bf16 M=256 N=5760 K=2880 w_scale=e8m0 w_group=32 act=swigluoai gates=interleaved bias=1 packed=1",
    "gemm f16,e2m1->f16 M=64 N=4096 K=4096 w_scale=e8m0 w_group=32 act=silu",
    "gemm bf16,e2m1->bf16 M=4096 N=5760 K=2880 experts=32 top=4 act=swigluoai bias=1 w_scale=e8m0 w_group=32",
    "gemm bf16,i4->bf16 M=8192 N=4096 K=7168 experts=64 weights=1 w_scale=f16 w_zero=i8 w_group=128 packed=1",
};
static const char *const epilogue_problems[] = {
    "gemm bf16,bf16->bf16 M=1 N=28672 K=4096 act=silu gates=interleaved",
    "gemm bf16,bf16->bf16 M=8 N=4096 K=14336 residual=1",
    "gemm f16,f16->f32 M=32 N=1024 K=7168 act=gelu gates=interleaved bias=1",
    "gemm f16,f16->f16 M=128 N=4096 K=4096 residual=1 bias=1",
    "gemm bf16,bf16->bf16 M=4096 N=1024 K=1024 act=gelu_tanh gates=interleaved packed=1",
};
/* Y of codes. */
static const char *const output_problems[] = {
    "gemm bf16,bf16->e4m3 M=8 N=4096 K=4096",
    "gemm bf16,bf16->e4m3 M=32 N=28672 K=4096 act=silu gates=interleaved",
    "gemm f16,f16->i8 M=128 N=1024 K=7168 bias=1",
    "gemm e4m3,e4m3->e4m3 M=64 N=4096 K=7168 x_scale=f32 w_scale=f32 fast=1",
    ("gemm e4m3fnuz,e4m3fnuz->e4m3fnuz M=4096 N=4096 K=7168 x_scale=f32 w_scale=f32 x_per=row w_per=row act=silu "
     "gates=interleaved"),
    "gemm i8,i8->i8 M=4096 N=1024 K=2048 x_scale=f32 w_scale=f32",
    "gemm f32,f32->e5m2 M=8 N=256 K=256",
    "gemm bf16,i4->e4m3 M=8 N=4096 K=4096 w_scale=f16 w_group=128 packed=1",
    "gemm bf16,bf16->e4m3 M=64 N=4096 K=2048 experts=128 top=8 act=silu",
};
/* Grouped products, and what only their activations have. */
/* Of few tokens, experts by their ids. */
static const char *const id_problems[] = {
    "gemm bf16,bf16->bf16 M=8 N=1536 K=2048 experts=128 top=8 act=silu ids=1",
    "gemm bf16,e4m3->bf16 M=9 N=512 K=7168 experts=257 top=9 act=silu w_scale=f32 w_per=block ids=1",
    "gemm bf16,bf16->bf16 M=8 N=2048 K=768 experts=128 weights=1 slots=8 ids=1 residual=1 tokens=1",
    "gemm f16,f16->f32 M=16 N=2048 K=512 experts=9 slots=2 ids=1 bias=1",
    "gemm bf16,e4m3->bf16 M=9 N=7168 K=256 experts=257 weights=1 slots=9 ids=1 w_scale=f32 w_per=block",
    "gemm f16,i8->f16 M=12 N=512 K=2048 experts=9 slots=4 ids=1 w_scale=f32 w_per=group w_group=64",
    "gemm bf16,e2m1->bf16 M=4 N=2880 K=2880 experts=32 bias=1 weights=1 slots=4 ids=1 w_scale=e8m0 w_group=32",
    "gemm bf16,i4->bf16 M=8 N=4096 K=2048 experts=64 weights=1 slots=8 ids=1 w_scale=f16 w_zero=i8 w_group=128",
    "gemm f32,f32->bf16 M=8 N=512 K=512 experts=9 weights=1 slots=4 ids=1",
};

static const char *const expert_problems[] = {
    "gemm bf16,bf16->bf16 M=64 N=4096 K=2048 experts=128 top=8 act=silu",
    "gemm bf16,bf16->bf16 M=64 N=2048 K=768 experts=128 weights=1",
    "gemm f16,f16->f32 M=4096 N=4096 K=2880 experts=8 top=4 act=swigluoai bias=1",
    ("gemm e4m3,e4m3->bf16 M=64 N=4096 K=7168 experts=256 top=8 x_scale=f32 w_scale=f32 x_per=block w_per=block "
     "act=silu"),
    ("gemm e4m3,e4m3->bf16 M=4096 N=4096 K=7168 experts=8 top=8 x_scale=f32 w_scale=f32 x_per=block w_per=block "
     "act=silu"),
    ("gemm e4m3,e4m3->bf16 M=64 N=4096 K=7168 experts=256 top=8 x_scale=f32 w_scale=f32 x_per=block w_per=block "
     "act=silu gates=interleaved"),
    "gemm i8,i8->bf16 M=4096 N=1024 K=2048 experts=8 weights=1 x_scale=f32 w_scale=f32 x_per=row w_per=row",
    ("gemm bf16,e2m1->bf16 M=32 N=5760 K=2880 experts=32 top=4 act=swigluoai gates=interleaved bias=1 w_scale=e8m0 "
     "w_group=32"),
    ("gemm bf16,e2m1->bf16 M=128 N=5760 K=2816 experts=32 top=4 act=swigluoai gates=interleaved bias=1 w_scale=e8m0 "
     "w_group=32 packed=1"),
    "gemm bf16,i4->bf16 M=32 N=4096 K=7168 experts=64 weights=1 w_scale=f16 w_zero=i8 w_group=128 packed=1",
    "gemm f32,f32->f32 M=7 N=100 K=33 experts=3 top=2 weights=1",
    "gemm e4m3,e4m3->bf16 M=288 N=7168 K=256 experts=257 weights=1 x_scale=f32 w_scale=f32 x_per=block w_per=block",
    "gemm i8,i8->bf16 M=288 N=512 K=512 experts=385 top=9 x_scale=f32 w_scale=f32 x_per=row w_per=row act=silu",
    "gemm bf16,bf16->bf16 M=64 N=2048 K=768 experts=128 weights=1 slots=8 residual=1",
    "gemm bf16,e2m1->bf16 M=32 N=2880 K=2816 experts=32 weights=1 w_scale=e8m0 w_group=32 packed=1 slots=4",
    "gemm bf16,bf16->bf16 M=4096 N=3072 K=4096 experts=128 top=8 act=silu gates=interleaved",
    ("gemm e4m3,e4m3->bf16 M=8192 N=4096 K=7168 experts=32 top=8 x_scale=f32 w_scale=f32 x_per=block w_per=block "
     "act=silu fast=1"),
    ("gemm e4m3,e4m3->bf16 M=512 N=7168 K=2048 experts=256 x_scale=f32 w_scale=f32 x_per=block w_per=block weights=1 "
     "fast=1"),
    ("gemm e5m2,e5m2->f32 M=4096 N=4096 K=2048 experts=8 top=2 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block "
     "act=swigluoai gates=interleaved bias=1 btype=f32 fast=1"),
    ("gemm e4m3,e4m3->f16 M=4096 N=1024 K=2048 experts=8 weights=1 x_scale=f32 w_scale=f32 x_per=row w_per=row fast=1 "
     "align_y=2"),
    "gemm bf16,bf16->bf16 M=512 N=4096 K=2048 act=swigluoai limit=7 gates=interleaved bias=1",
    "gemm bf16,bf16->bf16 M=512 N=4096 K=2048 act=situ gates=interleaved",
    "gemm e4m3,e4m3->bf16 M=512 N=4096 K=2048 act=silu x_scale=f32 w_scale=f32 x_per=block w_per=block fast=1",
};
/* For gemm_wgmma and gemm_tile: each code, and each kind of scales with the largest tiles and with epilogues. */
static const char *const code_problems[] = {
    "gemm e4m3,e4m3->bf16 M=16 N=4096 K=7168 x_scale=f32 w_scale=f32 x_per=block w_per=block fast=1",
    "gemm e4m3,e4m3->bf16 M=128 N=4096 K=7168 x_scale=f32 w_scale=f32 x_per=block w_per=block fast=1 residual=1",
    ("gemm e4m3,e4m3->bf16 M=64 N=4096 K=7168 x_scale=f32 w_scale=f32 x_per=row w_per=row fast=1 act=silu "
     "gates=interleaved"),
    ("gemm e5m2,e5m2->f32 M=4096 N=4096 K=7168 x_scale=f32 w_scale=f32 x_per=block w_per=block fast=1 act=gelu "
     "gates=interleaved"),
    "gemm e5m2,e5m2->f16 M=128 N=1024 K=7168 fast=1",
    "gemm i8,i8->bf16 M=128 N=4096 K=7168 x_scale=f32 w_scale=f32 x_per=row w_per=row bias=1 btype=bf16",
    "gemm i8,i8->f32 M=64 N=384 K=1024 x_scale=f32 w_scale=f32 x_per=block w_per=block residual=1",
    "gemm i8,i8->bf16 M=4096 N=4096 K=7184 x_scale=f32 w_scale=f32 x_per=row w_per=row act=silu gates=interleaved",
    ("gemm e4m3fnuz,e4m3fnuz->bf16 M=4096 N=4096 K=7168 x_scale=e8m0 w_scale=e8m0 x_per=block w_per=block act=gelu "
     "gates=interleaved"),
    "gemm e4m3fnuz,e4m3fnuz->f32 M=1024 N=4096 K=7168 x_scale=f32 w_scale=f32 x_per=row w_per=row residual=1",
    "gemm f16,f16->f32 M=4096 N=4096 K=4104 act=gelu gates=interleaved bias=1",
    "gemm f16,f16->f32 M=4096 N=4096 K=4096 residual=1 packed=1",
};
/* For mha_portable: each head size, dtype, cache and way to read it. */
static const char *const mha_problems[] = {
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1",
    "mha f16->f16 B=1 Hq=32 Hkv=8 D=64 S=2048 Sq=2048 kv=e5m2",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=96 S=2048 Sq=2048 align=2",
    "mha f16->f16 B=1 Hq=16 Hkv=16 D=192 S=2048 Sq=2048 Dv=128 align=4",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=192 S=4096 page=16 kv=e4m3",
    "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=256 S=4096 page=16 kv=e4m3fnuz",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=72 S=4096 page=48 kv=e4m3",
    "mha bf16->bf16 B=1 Hq=8 Hkv=4 D=512 S=2048 Sq=2048 causal=1",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=256 S=4096 page=16 form=vllm",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=96 S=4096 page=16 form=vllm kv=e4m3 align=1",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 page=16 kv=i8 scales=token",
    "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=80 S=4096 page=48 kv=i4 scales=token align=2",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=256 S=4096 page=16 kv=i4 scales=token",
    "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=64 S=4096 page=16 kv=e4m3 scales=token",
};
/* For mha_decode_stream_mma, mha_decode_tile_mma and mha_decode_wgmma: each head size, cache, number of rows, and
 * feature. */
static const char *const decode_problems[] = {
    "mha_decode bf16->bf16 B=32 Hq=128 Hkv=1 D=128 S=4096 page=16",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 Sq=4 causal=1 page=1 window=512 sink=1 stype=bf16",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=e4m3 scales=head",
    "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=64 S=4096 cap=30 alibi=1 kv=e5m2",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=96 S=4096 page=16 lens=log",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=192 Dv=128 S=4096 page=64",
    "mha_decode bf16->bf16 B=32 Hq=16 Hkv=8 D=256 S=4096 cap=50 page=16",
    "mha_decode bf16->bf16 B=4 Hq=32 Hkv=8 D=128 S=4096 page=16 invariant=1",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=80 S=4096 page=16",
    "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=72 S=4096 Dv=120 page=24",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=112 S=4096 page=48 kv=e4m3",
    "mha_decode bf16->bf16 B=32 Hq=16 Hkv=8 D=320 S=4096 page=16",
    "mha_decode bf16->bf16 B=32 Hq=16 Hkv=2 D=512 S=4096 page=16",
    "mha_decode bf16->bf16 B=4 Hq=16 Hkv=8 D=256 S=4096 cap=50 page=1 window=512 invariant=1",
    "mha_decode f16->f16 B=4 Hq=32 Hkv=8 D=64 S=4096 Sq=4 causal=1 kv=e5m2 invariant=1",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=i8 scales=token",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=i4 scales=token",
    "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=64 S=4096 page=24 cap=30 alibi=1 kv=i4 scales=token",
    "mha_decode bf16->bf16 B=4 Hq=32 Hkv=8 D=80 Dv=112 S=4096 Sq=4 causal=1 page=16 kv=i8 scales=token invariant=1",
    "mha_decode bf16->bf16 B=32 Hq=16 Hkv=8 D=256 S=4096 page=16 kv=i4 scales=token lens=log",
    "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=128 S=4096 kv=e4m3 scales=token",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=i8 scales=token align=4",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=112 S=4096 page=16 kv=i4 scales=token align=8",
};
/* For mha_prefill_mma and mha_prefill_wgmma: each head size, and each feature with the largest tiles. */
static const char *const prefill_problems[] = {
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1 window=512 sink=1 stype=bf16 page=16",
    "mha bf16->bf16 B=8 Hq=32 Hkv=8 D=128 S=2048 Sq=32 causal=1 page=64",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1 cap=30",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=64 S=2048 Sq=2048 causal=1",
    "mha f16->f16 B=1 Hq=32 Hkv=8 D=64 S=2048 Sq=2048 causal=1 window=512 alibi=1 cap=30 page=16",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=96 S=2048 Sq=2048 page=16",
    "mha bf16->bf16 B=1 Hq=16 Hkv=16 D=192 S=2048 Sq=2048 Dv=128 causal=1",
    "mha f16->f16 B=1 Hq=16 Hkv=16 D=192 S=2048 Sq=2048 causal=1",
    "mha bf16->bf16 B=1 Hq=8 Hkv=4 D=256 S=2048 Sq=2048 causal=1 cap=50",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1 page=16 invariant=1",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=80 S=2048 Sq=2048 causal=1",
    "mha f16->f16 B=1 Hq=32 Hkv=8 D=72 S=2048 Sq=2048 Dv=120 causal=1 page=48",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=160 S=2048 Sq=2048 Dv=112",
    "mha bf16->bf16 B=1 Hq=8 Hkv=4 D=320 S=2048 Sq=2048 causal=1",
    "mha bf16->bf16 B=1 Hq=8 Hkv=4 D=512 S=2048 Sq=2048 causal=1",
};

static const char *const codes_problems[] = {
    "gemm e4m3,e4m3->bf16 M=8 N=2112 K=7168 w_scale=f32 x_scale=f32 x_per=block w_per=block",
    "gemm i8,i8->bf16 M=64 N=1024 K=7168 w_scale=f32 x_scale=f32 x_per=row w_per=row",
    "gemm e5m2,e5m2->f32 M=16 N=384 K=1040 x_scale=e8m0 w_scale=e8m0 bias=1 btype=f32",
    "gemm e4m3fnuz,e4m3fnuz->f16 M=32 N=4096 K=4096 w_scale=e8m0 x_scale=e8m0 x_per=block w_per=block",
    "gemm e4m3,e4m3->bf16 M=128 N=1024 K=1024 w_scale=f32 w_per=row act=silu gates=interleaved",
    "gemm i8,i8->f32 M=3 N=100 K=333",
};

#define MX_SCALES " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group"
static const char *const mx_problems[] = {
    "gemm e4m3,e2m1->bf16 M=8 N=2112 K=7168 packed=1" MX_SCALES,
    "gemm e4m3,e2m1->bf16 M=64 N=4096 K=7168 packed=1" MX_SCALES,
    "gemm e2m1,e2m1->f16 M=16 N=1024 K=2048 packed=1 bias=1 btype=f32" MX_SCALES,
    "gemm e4m3,e2m1->bf16 M=256 N=4096 K=2048 act=swigluoai gates=interleaved experts=32 top=4 packed=1" MX_SCALES,
    "gemm e4m3,e2m1->bf16 M=32 N=2112 K=7168" MX_SCALES,
    "gemm e2m1,e2m1->bf16 M=64 N=2880 K=2880 act=silu" MX_SCALES,
    "gemm e4m3,e4m3->f32 M=3 N=100 K=352" MX_SCALES,
    "gemm e2m1,e2m1->bf16 M=12 N=162 K=2880" MX_SCALES,
    "gemm e4m3,e2m1->bf16 M=7 N=162 K=2880 experts=4 top=2" MX_SCALES,
    "gemm e2m1,e2m1->bf16 M=4096 N=4096 K=7168" MX_SCALES,
    "gemm e4m3,e2m1->bf16 M=1024 N=5760 K=2880 bias=1 btype=f32" MX_SCALES,
    "gemm e4m3,e4m3->bf16 M=4096 N=4096 K=512 residual=1" MX_SCALES,
    "gemm e2m1,e2m1->bf16 M=8192 N=4096 K=7168 experts=16 top=8 act=silu" MX_SCALES,
};
