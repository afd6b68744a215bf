/* SPDX-License-Identifier: MIT
 *
 * rfg_op_rope, rfg_op_kv_append and rfg_op_rope_append on the cpu and on the devices of $RFG_TEST_DEVICES: dtypes,
 * pairs, partial rotation, axes, layouts, special values; and rfg_rope_table(). (What they refuse: test_args.c.) */
#include <math.h>

#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define I RFG_DATA_INTS
#define S RFG_DATA_SPECIAL

static const struct op_case rotations[] = {
    { "rope bf16,i64->bf16 T=7 D=128 Hq=8 Hkv=2" },
    { "rope f16,i32->f16 T=5 D=64 Hq=9 Hkv=3 table=f32" },
    { "rope bf16,i32->bf16 T=6 D=64 Hq=4 Hkv=2 pairs=gptj table=f32" },
    { "rope f16,i64->f16 T=3 D=256 Hq=4 Hkv=1 R=64 qkv=gaps" },
    { "rope bf16,i64->bf16 T=4 D=192 Hq=3 Hkv=1 R=64 last=1 pairs=gptj qkv=fused" },
    { "rope bf16,i64->bf16 T=5 D=128 Hq=5 Hkv=2 qkv=fused inplace=1 backward=1" },
    { "rope f16,i32->f16 T=5 D=128 Hq=5 Hkv=2 R=32 last=1 inplace=1 table=f32" },
    { "rope bf16,i64->bf16 T=6 D=96 Hq=4 Hkv=2 R=48 inplace=1 qkv=gaps" },
    { "rope bf16,i64->bf16 T=9 D=128 Hq=6 Hkv=2 axes=3" },
    { "rope f16,i32->f16 T=9 D=128 Hq=6 Hkv=2 axes=3 mrope=interleaved table=f32 pairs=gptj" },
    { "rope bf16,i32->bf16 T=4 D=80 Hq=3 Hkv=1 axes=4 R=40" },
    { "rope bf16,i32->bf16 T=4 D=64 Hq=3 Hkv=1 axes=2 qkv=fused inplace=1" },
    { "rope bf16,i64->bf16 T=11 D=64 Hq=8 Hkv=0" },
    { "rope f16,i64->f16 T=11 D=64 Hq=0 Hkv=3 table=f32" },
    { "rope bf16,i64->bf16 T=3 D=100 Hq=3 Hkv=2 R=60" },
    { "rope f16,i32->f16 T=3 D=7 Hq=3 Hkv=2 R=6 last=1" },
    { "rope bf16,i64->bf16 T=3 D=65 Hq=3 Hkv=2 R=64" }, /* a lane for the last element alone */
    { "rope bf16,i32->bf16 T=2 D=1026 Hq=2 Hkv=1 pairs=gptj R=1022" },
    { "rope bf16,i32->bf16 T=0 D=64 Hq=2 Hkv=1" },
    /* The rotated part begins within the head: chunks of 16 bytes, of 8, of an element; either kind of pairs; in
     * place, what lies before and behind is not touched. */
    { "rope bf16,i64->bf16 T=4 D=128 Hq=3 Hkv=2 R=32 offset=64" },
    { "rope f16,i32->f16 T=4 D=96 Hq=3 Hkv=1 R=48 offset=12 table=f32 inplace=1 qkv=fused" },
    { "rope bf16,i64->bf16 T=3 D=41 Hq=2 Hkv=1 R=6 offset=33 pairs=gptj" },
    { "rope bf16,i32->bf16 T=4 D=192 Hq=3 Hkv=1 R=64 offset=1 backward=1" },
    { "rope bf16,i32->bf16 T=4 D=256 Hq=2 Hkv=1 R=128 offset=64 axes=3 qkv=gaps" },
    { "rope f32,i64->f32 T=5 D=128 Hq=4 Hkv=2" },
    { "rope f32,i32->f32 T=4 D=80 Hq=3 Hkv=2 R=32 qkv=fused inplace=1" },
    { "rope f32,i32->f32 T=4 D=64 Hq=3 Hkv=1 R=20 last=1 pairs=gptj qkv=gaps" },
    { "rope f32,i64->f32 T=3 D=49 Hq=2 Hkv=0 R=10 offset=7 backward=1" },
    { "rope f32,i64->f32 T=4 D=96 Hq=2 Hkv=1 R=48 offset=24 axes=3 mrope=interleaved" },
    { "rope f32,i64->f32 T=2 D=1100 Hq=2 Hkv=1 R=500 pairs=gptj" },
};

static const struct op_case appends[] = {
    { "kv_append bf16->bf16 T=5 D=64 Dv=72 Hkv=2 page=8" }, /* 5 lanes of v, 4 of k. First: it is one of few */
    { "kv_append bf16->bf16 T=9 D=128 Hkv=3 page=4" },
    { "kv_append f16->f16 T=9 D=64 Hkv=2 page=16 form=hnd qkv=gaps" },
    { "kv_append bf16->bf16 T=5 D=64 Hkv=2 page=8 form=packed qkv=fused" },
    { "kv_append bf16->bf16 T=6 D=64 Hkv=2 page=16 form=vllm" },
    { "kv_append f16->f16 T=6 D=192 Dv=128 Hkv=2 page=4 form=gaps" },
    { "kv_append bf16->e4m3 T=9 D=128 Hkv=3 page=4 scales=head" },
    { "kv_append f16->e4m3fnuz T=9 D=64 Dv=32 Hkv=3 page=2 scales=tensor form=packed" },
    { "kv_append bf16->e5m2 T=9 D=96 Hkv=2 page=1" },
    { "kv_append bf16->bf16 T=9 D=80 Hkv=2 page=3" },
    { "kv_append f16->e4m3 T=9 D=64 Hkv=2 page=48 form=hnd scales=tensor" },
    { "kv_append bf16->e4m3 T=9 D=64 Hkv=2 page=16 form=vllm scales=head qkv=fused" },
    { "kv_append f16->e5m2 T=7 D=33 Dv=18 Hkv=2 page=8 form=hnd scales=head" },
    { "kv_append bf16->bf16 T=3 D=2050 Dv=16 Hkv=1 page=8" },
    { "kv_append bf16->bf16 T=0 D=64 Hkv=1 page=8" },
};

static const struct op_case fused[] = {
    { "rope_append bf16,i64->bf16 T=7 D=128 Hq=8 Hkv=2 page=16 norm=w table=f32" },
    { "rope_append bf16,i64->bf16 T=6 D=128 Hq=6 Hkv=2 page=4 qkv=fused inplace=1 norm=w wtype=f32" },
    { "rope_append f16,i32->f16 T=5 D=256 Hq=4 Hkv=2 page=8 norm=1+w form=hnd qkv=gaps" },
    { "rope_append bf16,i64->bf16 T=5 D=64 Hq=4 Hkv=1 page=16 form=packed qkv=fused inplace=1 pairs=gptj" },
    { "rope_append bf16,i32->e4m3 T=5 D=128 Hq=4 Hkv=2 page=16 norm=w scales=head qkv=fused" },
    { "rope_append f16,i64->e4m3fnuz T=5 D=64 Hq=5 Hkv=2 page=8 scales=tensor table=f32 R=32" },
    { "rope_append bf16,i64->e5m2 T=5 D=128 Hq=4 Hkv=2 page=16 form=vllm norm=1+w wtype=f32 scales=head" },
    { "rope_append f16,i64->f16 T=5 D=128 Hq=4 Hkv=2 page=32 form=vllm qkv=fused inplace=1 R=64 last=1" },
    { "rope_append bf16,i32->bf16 T=4 D=192 Dv=128 Hq=3 Hkv=3 page=2 R=64 last=1 norm=w" },
    { "rope_append bf16,i32->bf16 T=4 D=64 Dv=256 Hq=3 Hkv=1 page=2 norm=w inplace=1" },
    { "rope_append bf16,i64->bf16 T=6 D=128 Hq=4 Hkv=2 page=4 axes=3 mrope=interleaved norm=w inplace=1" },
    { "rope_append f16,i64->e4m3 T=4 D=50 Hq=3 Hkv=2 page=4 R=22 norm=w scales=head" },
    { "rope_append f16,i32->f16 T=2 D=1100 Hq=2 Hkv=1 page=4 R=500 norm=1+w" },
    { "rope_append bf16,i64->bf16 T=1 D=128 Hq=32 Hkv=8 page=16 norm=w qkv=fused inplace=1" },
    { "rope_append bf16,i64->bf16 T=7 D=64 Hq=4 Hkv=2 page=6 norm=w" },
    { "rope_append bf16,i32->bf16 T=5 D=128 Hq=4 Hkv=2 page=784 form=vllm" },
    { "rope_append bf16,i64->bf16 T=5 D=192 Hq=3 Hkv=2 page=8 R=64 offset=64 norm=w qkv=fused inplace=1" },
    { "rope_append f16,i32->e4m3 T=5 D=80 Dv=64 Hq=4 Hkv=1 page=4 R=20 offset=50 pairs=gptj scales=tensor" },
    { "rope_append bf16,i64->bf16 T=4 D=128 Hq=2 Hkv=2 page=16 R=32 offset=8 form=vllm" },
};

static const struct op_case layouts[] = {
    { "rope bf16,i64->bf16 T=5 D=128 Hq=3 Hkv=2 align=8" },
    { "rope f16,i64->f16 T=5 D=64 Hq=3 Hkv=2 align=4 table=f32 qkv=fused inplace=1" },
    { "rope bf16,i32->bf16 T=5 D=32 Hq=3 Hkv=2 R=16 table=f32", R, true },
    { "rope f32,i32->f32 T=5 D=64 Hq=3 Hkv=2 R=32 offset=16 align=8" },
    { "rope f32,i64->f32 T=5 D=64 Hq=3 Hkv=2 align=4" },
    { "kv_append bf16->e4m3 T=5 D=128 Hkv=2 page=4 align=8" },
    { "kv_append bf16->e4m3 T=5 D=64 Hkv=2 page=4 scales=tensor", R, true },
    { "kv_append f16->f16 T=5 D=16 Hkv=2 page=16 form=vllm", R, true },
    { "rope_append bf16,i64->bf16 T=5 D=64 Hq=3 Hkv=2 page=4 align=8 norm=w wtype=f32" },
    { "rope_append f16,i64->e4m3 T=5 D=32 Hq=3 Hkv=2 page=4 norm=w table=f32 form=hnd", R, true },
};

static const struct op_case values[] = {
    { "rope bf16,i64->bf16 T=24 D=64 Hq=3 Hkv=1 R=32", S },
    { "rope f16,i32->f16 T=24 D=64 Hq=3 Hkv=1 table=f32 inplace=1", S },
    { "rope bf16,i64->bf16 T=9 D=64 Hq=3 Hkv=1 pairs=gptj", I },
    { "rope f32,i64->f32 T=24 D=64 Hq=3 Hkv=1 R=32 offset=8", S },
    { "rope f32,i64->f32 T=9 D=64 Hq=3 Hkv=1 inplace=1", I },
    { "kv_append bf16->bf16 T=24 D=64 Hkv=3 page=4", S },
    { "kv_append f16->e4m3 T=24 D=64 Hkv=3 page=4 scales=tensor", S },
    { "kv_append bf16->e4m3fnuz T=24 D=64 Hkv=3 page=4 form=vllm", S },
    { "kv_append f16->e5m2 T=24 D=64 Hkv=3 page=4 scales=head form=hnd", S },
    { "rope_append bf16,i64->e4m3 T=24 D=64 Hq=4 Hkv=2 page=4 norm=w", S },
    { "rope_append f16,i64->f16 T=24 D=64 Hq=4 Hkv=2 page=4 norm=1+w wtype=f32 R=32 qkv=fused inplace=1", S },
    { "rope_append bf16,i64->bf16 T=9 D=128 Hq=4 Hkv=2 page=4 norm=w", I },
};

/* A scale of each token and head. */
static const struct op_case token_scales[] = {
    { "kv_append bf16->i8 T=9 D=128 Hkv=3 page=4 scales=token" },
    { "kv_append f16->i4 T=9 D=128 Hkv=3 page=16 scales=token form=hnd" },
    { "kv_append bf16->i4 T=9 D=64 Hkv=2 page=4 scales=token form=packed qkv=fused" },
    { "kv_append f16->e4m3 T=9 D=96 Dv=64 Hkv=2 page=6 scales=token form=gaps" },
    { "kv_append bf16->e4m3fnuz T=9 D=64 Hkv=2 page=4 scales=token" },
    { "kv_append bf16->i8 T=7 D=33 Dv=18 Hkv=2 page=8 scales=token" },
    { "kv_append f16->i4 T=7 D=34 Dv=18 Hkv=2 page=8 scales=token form=hnd align=2" },
    { "kv_append bf16->i4 T=7 D=80 Dv=72 Hkv=2 page=48 scales=token align=8" },
    { "kv_append bf16->i4 T=5 D=2048 Hkv=1 page=8 scales=token" },
    { "kv_append bf16->i8 T=5 D=64 Hkv=2 page=4 scales=token", R, true },
    { "kv_append f16->i8 T=24 D=64 Hkv=3 page=4 scales=token", S },
    { "kv_append bf16->i4 T=24 D=64 Hkv=3 page=4 scales=token", S },
    { "kv_append f16->e5m2 T=24 D=64 Hkv=3 page=4 scales=token", S },
    { "rope_append bf16,i64->i8 T=7 D=128 Hq=8 Hkv=2 page=16 norm=w scales=token" },
    { "rope_append f16,i32->i4 T=5 D=128 Hq=4 Hkv=2 page=8 R=64 scales=token form=hnd qkv=fused inplace=1" },
    { "rope_append bf16,i64->i4 T=5 D=64 Hq=4 Hkv=1 page=16 pairs=gptj norm=1+w scales=token" },
    { "rope_append bf16,i64->e4m3 T=5 D=50 Dv=32 Hq=3 Hkv=2 page=4 R=22 norm=w scales=token" },
    { "rope_append bf16,i64->i8 T=24 D=64 Hq=4 Hkv=2 page=4 scales=token", S },
    { "rope_append bf16,i32->i4 T=5 D=128 Hq=5 Hkv=3 page=16 norm=w scales=token", R, false,
      "rope_append_rows{threads=64,unroll=2,ahead=1,stream=2}" },
    { "kv_append f16->i8 T=9 D=256 Hkv=5 page=4 scales=token", R, false,
      "kv_append_rows{threads=128,unroll=3,ahead=0,stream=2}" },
};

/* Blocks of heads: of several heads the last one has fewer, workgroups and lanes are left over; weights read ahead and
 * what isn't worth caching, which no sample of such small problems has. Heads that lanes hold wholly, and others. */
static const struct op_case blocks[] = {
    { "rope bf16,i64->bf16 T=5 D=128 Hq=7 Hkv=3", R, false, "rope_rows{threads=64,unroll=4,ahead=0,stream=2}" },
    { "rope f16,i32->f16 T=3 D=64 Hq=9 Hkv=0 pairs=gptj inplace=1", R, false,
      "rope_rows{threads=64,unroll=6,ahead=0,stream=1}" },
    { "rope bf16,i64->bf16 T=3 D=96 Hq=0 Hkv=3 R=32 backward=1", R, false,
      "rope_rows{threads=64,unroll=2,ahead=0,stream=2}" },
    { "rope f32,i64->f32 T=5 D=128 Hq=7 Hkv=3", R, false, "rope_rows{threads=64,unroll=4,ahead=0,stream=2}" },
    { "rope bf16,i32->bf16 T=3 D=96 Hq=5 Hkv=3 R=32 offset=32", R, false,
      "rope_rows{threads=64,unroll=2,ahead=0,stream=1}" },
    { "kv_append bf16->bf16 T=9 D=128 Hkv=5 page=4", S, false, "kv_append_rows{threads=64,unroll=3,ahead=0,stream=2}" },
    { "kv_append f16->e4m3 T=9 D=64 Hkv=5 page=4 scales=head", R, false,
      "kv_append_rows{threads=128,unroll=2,ahead=0,stream=2}" },
    { "rope_append bf16,i64->bf16 T=7 D=128 Hq=9 Hkv=3 page=16 norm=w table=f32", R, false,
      "rope_append_rows{threads=64,unroll=4,ahead=1,stream=2}" },
    { "rope_append bf16,i64->bf16 T=5 D=128 Hq=32 Hkv=8 page=16 norm=w table=f32", R, false,
      "rope_append_rows{threads=128,unroll=3,ahead=0,stream=1}" },
    { "rope_append f16,i32->f16 T=4 D=256 Hq=5 Hkv=5 page=8 norm=1+w wtype=f32 form=hnd qkv=fused inplace=1", R, false,
      "rope_append_rows{threads=256,unroll=8,ahead=1,stream=2}" },
    { "rope_append bf16,i32->e4m3 T=5 D=128 Hq=5 Hkv=3 page=16 norm=w scales=head pairs=gptj backward=1", R, false,
      "rope_append_rows{threads=64,unroll=2,ahead=1,stream=2}" },
    { "rope_append bf16,i32->bf16 T=4 D=192 Dv=128 Hq=3 Hkv=3 page=2 R=64 last=1 norm=w", R, false,
      "rope_append_rows{threads=64,unroll=2,ahead=1,stream=1}" },
    { "rope_append f16,i64->e5m2 T=6 D=64 Hq=5 Hkv=3 page=4 form=vllm norm=w scales=tensor", S, false,
      "rope_append_rows{threads=128,unroll=2,ahead=0,stream=2}" },
    { "rope_append bf16,i64->bf16 T=6 D=128 Hq=5 Hkv=2 page=4 axes=3 norm=w", R, false,
      "rope_append_rows{threads=64,unroll=3,ahead=1,stream=0}" },
};

OP_CASES(right_rotations, rotations, "rotary embeddings")
OP_CASES(right_appends, appends, "writes to caches")
OP_CASES(right_fused, fused, "norm, rotation and write in one launch")
OP_CASES(right_layouts, layouts, "alignment of heads and caches")
OP_CASES(right_blocks, blocks, "blocks of heads")
OP_CASES(right_token_scales, token_scales, "caches with a scale a token and head")
OP_CASES(right_values, values, "rotations and writes of NaN, inf, integers")

START_TEST(rows_by_turns)
{
    op_few_groups(op_device(_i), "rope bf16,i64->bf16 T=5 D=128 Hq=6 Hkv=2", "rope_portable{}", 4);
    op_few_groups(op_device(_i), "rope f32,i64->f32 T=5 D=128 Hq=6 Hkv=2 R=32 offset=32", "rope_portable{}", 4);
    op_few_groups(op_device(_i), "rope_append bf16,i64->bf16 T=5 D=128 Hq=8 Hkv=2 page=16 norm=w",
                  "rope_append_portable{}", 3);
}
END_TEST

static void ok(rfg_status st)
{
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
}

/* By hand: pairs of either kind, forward and back; a position that the table doesn't have; a NaN's bits. */
START_TEST(by_hand)
{
    rfg_context *ctx = op_context("cpu");
    float table[] = { 1, 1, 0, 0, 0, 0.5f, 1, 0.5f };
    int32_t positions[] = { 1, 2 };
    uint16_t x[10], y[10];
    static const double in[] = { 1, 2, 3, 4 };
    static const double want[2][2][4] = { { { -3, -1, 1, 3 }, { 3, 3, -1, 1 } },
                                          { { -2, 1, -0.5, 3.5 }, { 2, -1, 3.5, 0.5 } } };
    rfg_tensor tt = rfg_tensor_2d(table, RFG_F32, 2, 4, 4), tp = rfg_tensor_1d(positions, RFG_I32, 2);
    rfg_tensor tx = { x, RFG_F16, 3, { 2, 1, 5 }, { 5, 5, 1 } }, ty = tx;
    ty.data = y;
    for (int gptj = 0; gptj < 2; gptj++)
        for (int back = 0; back < 2; back++) {
            rfg_rope_params p = { .size = sizeof(p), .gptj = gptj, .backward = back };
            for (int i = 0; i < 10; i++)
                rfg_store(x, RFG_F16, i, in[i % 5 % 4]);
            x[4] = 0x7d01; /* a signalling NaN */
            memset(y, 0x55, sizeof(y));
            ok(rfg_op_rope(ctx, &ty, NULL, &tx, NULL, &tt, &tp, &p, NULL));
            for (int i = 0; i < 4; i++) {
                ck_assert_double_eq(rfg_load(y, RFG_F16, i), want[gptj][back][i]);
                ck_assert(isnan(rfg_load(y, RFG_F16, 5 + i)));
            }
            ck_assert_uint_eq(y[4], 0x7d01);
            ck_assert_uint_eq(y[9], x[9]);
        }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Codes by hand, and rows that nobody writes: 3 tokens, one without a slot, one behind the cache. */
START_TEST(codes)
{
    rfg_context *ctx = op_context("cpu");
    uint16_t k[6], v[6];
    uint8_t cache[2][8];
    int64_t slots[] = { 3, -1, 4 };
    float scales[] = { 0.5f, 0.001f };
    static const double in[] = { 1, NAN };
    rfg_tensor tk = { k, RFG_BF16, 3, { 3, 1, 2 }, { 2, 2, 1 } }, tv = tk, ts = rfg_tensor_1d(slots, RFG_I64, 3);
    rfg_tensor kc = { cache[0], RFG_E4M3, 4, { 2, 2, 1, 2 }, { 4, 2, 2, 1 } }, vc = kc;
    rfg_tensor k_scale = rfg_tensor_1d(&scales[0], RFG_F32, 1), v_scale = rfg_tensor_1d(&scales[1], RFG_F32, 1);
    rfg_kv_append_params p = { .size = sizeof(p), .k_scale = &k_scale, .v_scale = &v_scale };
    tv.data = v;
    vc.data = cache[1];
    for (int i = 0; i < 6; i++) {
        rfg_store(k, RFG_BF16, i, in[i % 2]);
        rfg_store(v, RFG_BF16, i, i % 2 ? -INFINITY : 3);
    }
    memset(cache, 0x11, sizeof(cache));
    ok(rfg_op_kv_append(ctx, &kc, &vc, &tk, &tv, &ts, &p, NULL));
    for (int i = 0; i < 6; i++)
        ck_assert(cache[0][i] == 0x11 && cache[1][i] == 0x11);
    ck_assert_double_eq(rfg_load(cache[0], RFG_E4M3, 6), 2);
    ck_assert(isnan(rfg_load(cache[0], RFG_E4M3, 7)));
    ck_assert_double_eq(rfg_load(cache[1], RFG_E4M3, 6), 448); /* 3000 */
    ck_assert_double_eq(rfg_load(cache[1], RFG_E4M3, 7), -448);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Of a table with these parameters, pair i at position `at`: its frequency and the factor of cosine and sine. */
static void pair_is(rfg_rope_table_params p, int64_t r, int i, double f, double m, const char *what)
{
    float row[2][128];
    rfg_tensor t = rfg_tensor_2d(row, RFG_F32, 2, r, 128);
    const double at = 5;
    p.size = sizeof(p);
    p.first = (int64_t)at - 1;
    memset(row, 0x55, sizeof(row));
    ck_assert_msg(rfg_rope_table(&t, &p) == RFG_OK, "%s: %s", what, rfg_last_error());
    ck_assert_msg(fabs((double)row[1][i] - m * cos(at * f)) < 1e-7 * m &&
                      fabs((double)row[1][r / 2 + i] - m * sin(at * f)) < 1e-7 * m,
                  "%s: pair %d: %.9g, %.9g: must be %.9g, %.9g", what, i, (double)row[1][i], (double)row[1][r / 2 + i],
                  m * cos(at * f), m * sin(at * f));
    for (int64_t c = r; c < 128; c++)
        ck_assert_msg(((uint32_t *)row[0])[c] == 0x55555555, "%s: wrote between the rows", what);
}

static float of_short[] = { 1, 1.05f, 1.1f, 1.5f }, of_long[] = { 1.2f, 2, 8, 64 };
static const rfg_tensor short_factor = { of_short, RFG_F32, 1, { 4 }, { 1 } },
                        long_factor = { of_long, RFG_F32, 1, { 4 }, { 1 } };
#define LONGROPE                                                                                                       \
    .scaling = RFG_ROPE_LONGROPE, .original = 4096, .factor = 32, .short_factor = &short_factor,                       \
    .long_factor = &long_factor
#define SHORT                                                                                                          \
    {                                                                                                                  \
        { 0, 1 }, { 1, 0.09523809956314902 }, { 2, 0.009090908893868948 },                                             \
        {                                                                                                              \
            3, 0.0006666666666666666                                                                                   \
        }                                                                                                              \
    }
#define LONG                                                                                                           \
    {                                                                                                                  \
        { 0, 0.8333333002196431 }, { 1, 0.05 }, { 2, 0.00125 },                                                        \
        {                                                                                                              \
            3, 1.5625e-05                                                                                              \
        }                                                                                                              \
    }

static const struct {
    const char *what;
    rfg_rope_table_params p;
    int64_t r;
    double m;
    struct {
        int i;
        double f;
    } pair[4];
} models[] = {
    { "default", { .theta = 10000 }, 4, 1, { { 0, 1 }, { 1, 0.01 }, { 0, 1 }, { 1, 0.01 } } },
    { "linear",
      { .scaling = RFG_ROPE_LINEAR, .factor = 4 },
      4,
      1,
      { { 0, .25 }, { 1, .0025 }, { 0, .25 }, { 1, .0025 } } },
    { "Llama 3.1",
      { .scaling = RFG_ROPE_LLAMA3, .theta = 500000, .factor = 8, .original = 8192 },
      128,
      1,
      { { 0, 1 }, { 20, 0.016560440080994446 }, { 31, 0.0008567514129196321 }, { 63, 3.068925988914511e-07 } } },
    { "DeepSeek V3",
      { .scaling = RFG_ROPE_YARN, .factor = 40, .original = 4096, .mscale = 1, .mscale_all_dim = 1 },
      64,
      1,
      { { 0, 1 }, { 12, 0.026879360111431223 }, { 17, 0.0035619974943291656 }, { 31, 3.33380358040831e-06 } } },
    { "DeepSeek V2's other mscale",
      { .scaling = RFG_ROPE_YARN, .factor = 40, .original = 4096, .mscale = 1, .mscale_all_dim = 0.707 },
      64,
      1.0857263992561355,
      { { 0, 1 }, { 12, 0.026879360111431223 }, { 0, 1 }, { 31, 3.33380358040831e-06 } } },
    { "gpt-oss",
      { .scaling = RFG_ROPE_YARN, .theta = 150000, .factor = 32, .original = 4096, .untruncated = 1 },
      64,
      1.3465735902799727,
      { { 0, 1 }, { 9, 0.03170569618466377 }, { 13, 0.0038603593171920685 }, { 31, 3.0235114281192144e-07 } } },
    { "Llama 3.1, either side of both wavelengths",
      { .scaling = RFG_ROPE_LLAMA3, .theta = 500000, .factor = 8, .original = 8192 },
      128,
      1,
      { { 28, 0.003211445994752591 },
        { 29, 0.002166570763503359 },
        { 34, 0.0001785078127679964 },
        { 35, 9.556212353964683e-05 } } },
    { "llama3, all is stretched",
      { .scaling = RFG_ROPE_LLAMA3, .factor = 8, .original = 4 },
      32,
      1,
      { { 0, 0.125 }, { 1, 0.07029266564879363 }, { 0, 0.125 }, { 15, 2.2228492625486534e-05 } } },
    { "llama3, factor 1",
      { .scaling = RFG_ROPE_LLAMA3, .theta = 500000, .original = 8192 },
      128,
      1,
      { { 0, 1 }, { 30, 0.0021311195369119653 }, { 0, 1 }, { 63, 2.455140791131609e-06 } } },
    { "yarn, the lower end is below 0",
      { .scaling = RFG_ROPE_YARN, .factor = 4, .original = 64 },
      32,
      1.1386294361119891,
      { { 0, 1 }, { 1, 0.4779901264117967 }, { 7, 0.004445698525097307 }, { 15, 4.445698525097307e-05 } } },
    { "yarn, the upper end is beyond R - 1",
      { .scaling = RFG_ROPE_YARN, .theta = 3, .factor = 4, .original = 4096, .beta_fast = 400 },
      32,
      1.1386294361119891,
      { { 7, 0.6183857184745556 },
        { 8, 0.5593080732774499 },
        { 14, 0.2987507006353846 },
        { 15, 0.26776887076822864 } } },
    { "yarn, both are below 0",
      { .scaling = RFG_ROPE_YARN, .factor = 4, .original = 64, .beta_fast = 1000, .beta_slow = 900 },
      32,
      1.1386294361119891,
      { { 0, 1 }, { 1, 0.5623413251903491 }, { 0, 1 }, { 15, 0.00017782794100389227 } } },
    { "yarn, both are beyond R - 1",
      { .scaling = RFG_ROPE_YARN, .theta = 1.5, .factor = 4, .original = 4096, .beta_fast = 3, .beta_slow = 2 },
      32,
      1.1386294361119891,
      { { 0, 0.25 }, { 14, 0.1753315842514407 }, { 0, 0.25 }, { 15, 0.1709442327444054 } } },
    { "yarn, both are one",
      { .scaling = RFG_ROPE_YARN, .factor = 4, .original = 4096, .beta_fast = 32, .beta_slow = 32, .untruncated = 1 },
      32,
      1.1386294361119891,
      { { 0, 1 }, { 5, 0.05623413251903491 }, { 6, 0.007905694150420948 }, { 15, 4.445698525097307e-05 } } },
    { "dynamic, 8192 of 2048",
      { .scaling = RFG_ROPE_DYNAMIC, .factor = 2, .original = 2048, .length = 8192 },
      128,
      1,
      { { 0, 1 }, { 1, 0.8396257425643113 }, { 31, 0.0044325955619802185 }, { 63, 1.649688549556369e-05 } } },
    { "dynamic, a length below the original",
      { .scaling = RFG_ROPE_DYNAMIC, .factor = 2, .original = 2048, .length = 100 },
      128,
      1,
      { { 0, 1 }, { 1, 0.8659643233600653 }, { 31, 0.011547819846894583 }, { 63, 0.00011547819846894582 } } },
    { "dynamic, the table's rows are the length",
      { .scaling = RFG_ROPE_DYNAMIC, .factor = 2, .original = 4 },
      32,
      1,
      { { 0, 1 }, { 1, 0.5369468928898621 }, { 7, 0.012868245428614786 }, { 15, 8.891397050194613e-05 } } },
    { "dynamic, R = 4",
      { .scaling = RFG_ROPE_DYNAMIC, .factor = 4, .original = 8, .length = 9 },
      4,
      1,
      { { 0, 1 }, { 1, 0.006666666666666667 }, { 0, 1 }, { 1, 0.006666666666666667 } } },
    { "longrope, short", { LONGROPE, .length = 4096 }, 8, 1.1902380714238083, SHORT },
    { "longrope, long", { LONGROPE, .length = 4097 }, 8, 1.1902380714238083, LONG },
    { "longrope, the table's rows are the length",
      { .scaling = RFG_ROPE_LONGROPE,
        .original = 4,
        .factor = 32,
        .short_factor = &short_factor,
        .long_factor = &long_factor },
      8,
      1.8708286933869707,
      LONG },
    { "longrope, attention_factor", { LONGROPE, .length = 9999, .attention_factor = 1.25 }, 8, 1.25, LONG },
    { "longrope, mscales: the long one",
      { LONGROPE, .length = 9999, .attention_factor = 1.25, .short_mscale = 3, .long_mscale = 2 },
      8,
      2,
      LONG },
    { "longrope, mscales: the short one", { LONGROPE, .short_mscale = 3, .long_mscale = 2 }, 8, 3, SHORT },
    { "longrope, the other's mscale", { LONGROPE, .long_mscale = 2 }, 8, 1.1902380714238083, SHORT },
    { "Gemma 4, heads of 128",
      { .scaling = RFG_ROPE_PROPORTIONAL, .theta = 1e6, .partial_rotary_factor = .25 },
      128,
      1,
      { { 0, 1 }, { 15, 0.03924189758484536 }, { 16, 0 }, { 63, 0 } } },
    { "proportional, 9.6 pairs, factor 8",
      { .scaling = RFG_ROPE_PROPORTIONAL, .theta = 1e6, .factor = 8, .partial_rotary_factor = .3 },
      64,
      1,
      { { 0, 0.125 }, { 8, 0.003952847075210474 }, { 9, 0 }, { 31, 0 } } },
    { "proportional, all pairs",
      { .scaling = RFG_ROPE_PROPORTIONAL },
      32,
      1,
      { { 0, 1 }, { 1, 0.5623413251903491 }, { 14, 0.00031622776601683794 }, { 15, 0.00017782794100389227 } } },
};

/* Frequencies as the models' reference code has them, worked out apart from this library's. (The later ones beside
 * transformers' functions: bindings/python/tests/test_torch_rope.py.) */
START_TEST(tables)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        for (int k = 0; k < 4; k++)
            pair_is(models[i].p, models[i].r, models[i].pair[k].i, models[i].pair[k].f, models[i].m, models[i].what);
    uint16_t half[2];
    rfg_tensor t = rfg_tensor_2d(half, RFG_BF16, 1, 2, 2);
    rfg_rope_table_params p = { .size = sizeof(p), .first = 1 };
    ok(rfg_rope_table(&t, &p));
    rfg_rope_table_params init = RFG_ROPE_TABLE_PARAMS_INIT;
    float by_init[2][4], by_null[2][4];
    rfg_tensor ti = rfg_tensor_2d(by_init, RFG_F32, 2, 4, 4), tn = rfg_tensor_2d(by_null, RFG_F32, 2, 4, 4);
    ok(rfg_rope_table(&ti, &init));
    ok(rfg_rope_table(&tn, NULL));
    ck_assert(!memcmp(by_init, by_null, sizeof(by_init)));
    ck_assert(half[0] == 0x3f0a && half[1] == 0x3f57); /* cos 1 = 0.5403, sin 1 = 0.8415 */
}
END_TEST

/* What lies interleaved in one buffer is apart or not, element by element: a fused QKV of 2 tokens, 2 heads of q and 1
 * of k and v; caches of K beside V. */
START_TEST(interleaved)
{
    enum { D = 8, W = 4 * D };
    rfg_context *ctx = op_context("cpu");
    uint16_t qkv[2 * W + D], before[2 * W + D], cache[4 * 2 * D];
    float table[2 * D] = { 0 };
    int32_t positions[2] = { 0, 1 };
    int64_t slots[2] = { 2, 0 };
    rfg_tensor q = { qkv, RFG_BF16, 3, { 2, 2, D }, { W, D, 1 } }, k = q, v = q, q_out = q;
    rfg_tensor kc = { cache, RFG_BF16, 4, { 2, 2, 1, D }, { 4 * D, 2 * D, 2 * D, 1 } }, vc = kc;
    rfg_tensor tt = rfg_tensor_2d(table, RFG_F32, 2, D, D), tp = rfg_tensor_1d(positions, RFG_I32, 2),
               ts = rfg_tensor_1d(slots, RFG_I64, 2);
    k.shape[1] = v.shape[1] = 1;
    k.data = qkv + 2 * D;
    v.data = qkv + 3 * D;
    vc.data = cache + D;
    for (int i = 0; i < D; i++)
        table[i / (D / 2) * D + i % (D / 2)] = 1; /* cosines: angles of 0 */
    for (int i = 0; i < 2 * W + D; i++)
        qkv[i] = before[i] = (uint16_t)(0x3f80 + i);
    ok(rfg_op_rope_append(ctx, &q_out, &kc, &vc, &q, &k, &v, &tt, &tp, &ts, NULL, NULL));
    for (int i = 0; i < 2 * 2 * D; i++) /* token 0's k and v are in slot 2, token 1's in slot 0 */
        ck_assert_uint_eq(cache[(i < 2 * D ? 2 : 0) * 2 * D + i % (2 * D)],
                          before[i / (2 * D) * W + 2 * D + i % (2 * D)]);
    ok(rfg_op_rope(ctx, &q, &k, &q, &k, &tt, &tp, NULL, NULL));
    ck_assert_mem_eq(qkv, before, sizeof(qkv));
    for (int shift = -1; shift <= W + 1; shift++) { /* of q_out: over q, k, v, and q of the next token */
        q_out.data = (char *)qkv + shift * (int)sizeof(*qkv);
        bool one = shift == 0, apart = shift >= 2 * D && shift <= W - 2 * D;
        memcpy(qkv, before, sizeof(qkv));
        ck_assert_msg((rfg_op_rope(ctx, &q_out, NULL, &q, NULL, &tt, &tp, NULL, NULL) == RFG_OK) == (one || apart),
                      "q_out %d behind q: %s", shift, rfg_last_error());
        for (int i = 0; i < 2 * W + D; i++) { /* taken: q's values are there, too; else nothing is written */
            bool copy = apart && i >= shift && (i - shift) % W < 2 * D && i - shift < 2 * W;
            ck_assert_msg(qkv[i] == before[copy ? i - shift : i], "q_out %d behind q: [%d] is %04x", shift, i, qkv[i]);
        }
        ck_assert_msg((rfg_op_rope_append(ctx, &q_out, &kc, &vc, &q, &k, &v, &tt, &tp, &ts, NULL, NULL) == RFG_OK) ==
                          one,
                      "q_out %d behind q, of three: %s", shift, rfg_last_error());
    }
    for (int shift = 0; shift <= 2 * D; shift++) {
        vc.data = cache + shift;
        vc.shape[0] = kc.shape[0] = 1; /* room for the shift */
        ck_assert_msg((rfg_op_kv_append(ctx, &kc, &vc, &k, &v, &ts, NULL, NULL) == RFG_OK) == (shift == D),
                      "v_cache %d behind k_cache: %s", shift, rfg_last_error());
    }
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main_gpus("rope",
                        OP_TESTS(right_rotations, right_appends, right_fused, right_layouts, right_blocks,
                                 right_token_scales, right_values),
                        OP_TESTS(by_hand, codes, tables, interleaved), OP_TESTS(rows_by_turns));
}
