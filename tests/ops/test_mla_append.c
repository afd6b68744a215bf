/* SPDX-License-Identifier: MIT
 *
 * rfg_op_mla_append on the cpu and on the devices of $RFG_TEST_DEVICES: sizes, norms, rotations, every format. */
#include "rfg/mla.h"
#include "tests/op_cases.h"

#define R RFG_DATA_RANDOM
#define S RFG_DATA_SPECIAL
#define I RFG_DATA_INTS
#define P "mla_append "

static const struct op_case plain[] = {
    { P "bf16->bf16 T=9 D=576 R=64 Hq=16 page=64 norm=latent rope=gptj table=f32" },
    { P "bf16->bf16 T=9 D=576 R=64 Hq=16 page=64 norm=latent rope=gptj table=f32 inplace=1", R, true },
    { P "f16->f16 T=7 D=576 R=64 Hq=3 page=1 norm=latent wtype=f32 rope=neox pos=i32", R, true },
    { P "bf16->bf16 T=6 D=576 R=64 page=16 rope=neox" },
    { P "bf16->bf16 T=6 D=576 R=64 page=16", S },
    { P "bf16->bf16 T=6 D=576 R=64 Hq=2 page=16 norm=latent rope=gptj", S },
    { P "bf16->bf16 T=6 D=512 R=0 page=16 norm=latent", R, true },
    { P "f16->f16 T=6 D=512 R=64 Hq=9 page=4 norm=all rope=neox", R, true },
    { P "f16->f16 T=6 D=288 R=32 Hq=17 page=4 norm=all rope=gptj table=f32" },
    { P "bf16->bf16 T=20 D=96 R=32 Hq=5 page=4 norm=latent rope=neox form=gaps", R, true },
    { P "bf16->bf16 T=5 D=64 R=0 page=1" },
    { P "bf16->bf16 T=0 D=64 R=0 page=1" },
    { P "bf16->bf16 T=300 D=96 R=32 Hq=1 page=64 norm=latent rope=gptj pos=i32" },
    { P "f16->f16 T=7 D=128 R=64 Hq=3 page=2 norm=all rope=neox align=8" },
    { P "f16->f16 T=7 D=128 R=64 Hq=3 page=2 norm=all wtype=f32 rope=neox table=f32 align=2" },
    { P "bf16->bf16 T=7 D=128 R=64 Hq=3 page=2 norm=latent rope=gptj align=4" },
};

static const struct op_case codes[] = {
    { P "bf16->e4m3 T=9 D=576 R=64 Hq=16 page=64 norm=latent rope=gptj scale=1", R, true },
    { P "f16->e4m3fnuz T=9 D=576 R=64 page=16 rope=neox scale=1", R, true },
    { P "bf16->e5m2 T=9 D=512 R=64 page=8 norm=all rope=neox" },
    { P "bf16->e4m3 T=6 D=96 R=32 page=8 scale=1 form=gaps", I },
    { P "bf16->e4m3 T=6 D=576 R=64 page=8 rope=gptj scale=1", S },
    { P "f16->e4m3 T=6 D=128 R=64 page=8 norm=latent rope=neox align=4" },
    { P "f16->e5m2 T=6 D=128 R=64 page=8 norm=latent rope=neox scale=1 align=2" },
    { P "bf16->e4m3 T=9 D=576 R=64 Hq=16 page=64 format=v32 norm=latent rope=gptj" },
    { P "bf16->e4m3 T=40 D=576 R=64 page=1 format=v32 norm=latent rope=neox table=f32" },
    { P "bf16->e4m3 T=40 D=576 R=64 page=16 format=v32 form=gaps" },
    { P "bf16->e4m3 T=9 D=576 R=64 page=4 format=v32", S },
    { P "bf16->e4m3 T=9 D=576 R=64 page=4 format=v32 rope=neox", I },
    { P "bf16->e4m3 T=9 D=512 R=64 Hq=8 page=64 format=v4 norm=all rope=gptj" },
    { P "bf16->e4m3 T=40 D=512 R=64 page=1 format=v4 norm=latent wtype=f32 rope=neox table=f32" },
    { P "bf16->e4m3 T=40 D=512 R=64 page=16 format=v4 form=gaps" },
    { P "bf16->e4m3 T=9 D=512 R=64 page=4 format=v4", S },
};

OP_CASES(right_plain, plain, "MLA append")
OP_CASES(right_codes, codes, "MLA append, 8-bit caches")

START_TEST(refusals)
{
    static const char *const bad[][2] = {
        { "bf16->bf16 T=2 D=576 R=48 page=16", "R must be" },
        { "bf16->bf16 T=2 D=160 R=64 page=16", "D - R" },
        { "bf16->bf16 T=2 D=576 R=64 page=48", "page=48" },
        { "bf16->bf16 T=2 D=576 R=64", "page=0" },
        { "f32->f32 T=2 D=576 R=64 page=16", "bf16 or f16" },
        { "bf16->f16 T=2 D=576 R=64 page=16", "dtype of kv" },
        { "bf16->i8 T=2 D=576 R=64 page=16", "dtype of kv" },
        { "bf16->bf16 T=2 D=576 R=64 page=16 scale=1", "kv_scale" },
        { "bf16->bf16 T=2 D=576 R=64 page=16 wtype=f32", "no norm" },
        { "bf16->bf16 T=2 D=576 R=64 page=16 table=f32", "no rope" },
        { "bf16->bf16 T=2 D=576 R=64 page=16 pos=i32", "no rope" },
        { "bf16->bf16 T=2 D=512 R=0 page=16 rope=neox", "k_rope" },
        { "bf16->bf16 T=2 D=512 R=0 page=16 norm=all", "k_rope" },
        { "bf16->bf16 T=2 D=576 R=64 Hq=2 page=16", "Hq=2" },
        { "bf16->bf16 T=2 D=576 R=64 page=16 inplace=1", "inplace" },
        { "f16->e4m3 T=2 D=576 R=64 page=16 format=v32", "must be with bf16" },
        { "bf16->e5m2 T=2 D=576 R=64 page=16 format=v32", "must be e4m3" },
        { "bf16->e4m3 T=2 D=512 R=64 page=16 format=v32", "must be 576" },
        { "bf16->e4m3 T=2 D=576 R=64 page=16 format=v4", "must be 512" },
        { "bf16->e4m3 T=2 D=512 R=0 page=16 format=v4", "R=64" },
        { "bf16->e4m3 T=2 D=512 R=64 page=16 scale=1 format=v4", "kv_scale" },
    };
    OP_PROBLEMS_REFUSED("mla_append ", bad);
    rfg_context *ctx = op_context("cpu");
    static _Alignas(16) uint8_t kv[4 * 672];
    static uint16_t x[2 * 576];
    int64_t slot[2] = { 0 };
    rfg_tensor tl = rfg_tensor_2d(x, RFG_BF16, 2, 512, 512), tr = rfg_tensor_2d(x + 1024, RFG_BF16, 2, 64, 64);
    rfg_tensor ts = rfg_tensor_1d(slot, RFG_I64, 2);
    rfg_tensor tk = rfg_tensor_nd(kv, RFG_E4M3, 3, (const int64_t[]){ 2, 2, 656 });
    rfg_mla_append_params p = { .size = sizeof(p), .format = (rfg_mla_format)3 };
    op_refused(rfg_op_mla_append(ctx, &tk, &tl, &tr, &ts, &p, NULL), "format is 3: must be an rfg_mla_format, 0 to 2");
    tk.strides[0] = 1344;
    p.format = RFG_MLA_V32;
    tk.strides[1] = 664;
    op_refused(rfg_op_mla_append(ctx, &tk, &tl, &tr, &ts, &p, NULL), "row stride of 664: must be a multiple of 16");
    tk.strides[1] = 656;
    tk.strides[0] = 1320;
    op_refused(rfg_op_mla_append(ctx, &tk, &tl, &tr, &ts, &p, NULL), "between blocks: must be a multiple of 16");
    tk.strides[0] = 1312;
    tk.data = kv + 8;
    op_refused(rfg_op_mla_append(ctx, &tk, &tl, &tr, &ts, &p, NULL), "must be a multiple of 16");
    tk.data = kv;
    p.format = RFG_MLA_V4;
    op_refused(rfg_op_mla_append(ctx, &tk, &tl, &tr, &ts, &p, NULL),
               "kv has 656 in dimension 2: must be bytes of a row, 584");
    tl.shape[1] = 448;
    tk.shape[2] = 584;
    op_refused(rfg_op_mla_append(ctx, &tk, &tl, &tr, &ts, &p, NULL), "row stride of 656: must be 584");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main("mla_append", OP_TESTS(right_plain, right_codes), OP_TESTS(refusals));
}
