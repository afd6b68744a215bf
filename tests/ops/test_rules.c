/* SPDX-License-Identifier: MIT
 *
 * What a problem string may say: each rule of an operator's keys and dtypes, at its bound and one beyond. */
#include "ops/op.h"
#include "tests/suite.h"

/* The second text is what the refusal says; NULL: there is none. */
static const struct rule {
    const char *problem, *says;
} rules[] = {
    { "gemm_prepack bf16->bf16 N=1048576 K=2097120", NULL }, /* 65536 by 65535 blocks */
    { "gemm_prepack bf16->bf16 N=1048576 K=2097152", "N=1048576, K=2097152: more than 4294967295 blocks of 16 x 32" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1", NULL },
    { "rope f32,i64->f32 T=8 D=64 Hq=2 Hkv=1", NULL },
    { "rope e4m3,i64->e4m3 T=8 D=64 Hq=2 Hkv=1", "dtype e4m3: must be bf16, f16 or f32" },
    { "rope f32,i64->f32 T=8 D=64 Hq=2 Hkv=1 table=f32", "table=f32: is q's dtype: leave it out" },
    { "rope f32,i64->bf16 T=8 D=64 Hq=2 Hkv=1", "dtype of q_out is bf16: must be q's, f32" },
    { "rope_append f32,i64->f32 T=8 D=64 Hq=2 Hkv=1 page=4", "dtype f32: must be bf16 or f16" },
    { "kv_append f32->f32 T=8 D=64 Hkv=1 page=4", "dtype f32: must be bf16 or f16" },
    { "rope bf16,f32->bf16 T=8 D=64 Hq=2 Hkv=1", "dtype of positions is f32: must be i32 or i64" },
    { "rope bf16,i64->f16 T=8 D=64 Hq=2 Hkv=1", "dtype of q_out is f16: must be q's, bf16" },
    { "rope_append bf16,i64->f16 T=8 D=64 Hq=2 Hkv=1 page=4", "dtype of k_cache is f16: must be k's, bf16, or e4m3" },
    { "rope_append bf16,i64->e5m2 T=8 D=64 Hq=2 Hkv=1 page=4", NULL },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 page=4", "page: rope has no cache and no norm" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 norm=w", "norm: rope has no cache and no norm" },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 R=32", "R: kv_append rotates nothing" },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 inplace=1", "inplace: kv_append rotates nothing" },
    { "rope bf16,i64->bf16 T=8 D=0 Hq=2 Hkv=1", "D=0: must be" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=62", NULL },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=61", "R=61, cos_sin's columns: must be even" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=66", "must be even, and at most D=64" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=64", "R=64: is D: leave it out" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=32 last=1", NULL },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 last=1", "last=1: all of a head is rotated" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=32 offset=31", NULL },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=32 offset=32", "offset=32: must be below D - R=32, which is last=1" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 offset=1", "offset=1: must be below D - R=0" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 R=32 last=1 offset=16", "offset=16: last=1 says where" },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 offset=8", "offset: kv_append rotates nothing" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 axes=1", "axes=1: must be 2 to 4" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 axes=2", NULL },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 axes=2 mrope=interleaved", "mrope=interleaved: must be with axes=3" },
    { "rope_append bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 page=4 wtype=f32", "wtype=f32: there is no norm" },
    { "rope_append bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 page=4 norm=w wtype=f32", NULL },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 align=12", "align=12: must be a power of two" },
    { "rope bf16,i64->bf16 T=8 D=64 Hq=2 Hkv=1 align=8", NULL },
    { "rope bf16,i64->bf16 T=715827882 D=64 Hq=2 Hkv=1", NULL },
    { "rope bf16,i64->bf16 T=715827883 D=64 Hq=2 Hkv=1", "tokens times heads, and heads times elements of a head" },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=0", "page=0, k_cache's: must be from 1 to 1048576" },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=12", NULL },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=1", NULL },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 Dv=64", "Dv=64: is D: leave it out" },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 Dv=32", NULL },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 scales=tensor",
      "scales=tensor (k_scale, v_scale): must be with an 8-bit" },
    { "kv_append bf16->e4m3 T=8 D=64 Hkv=1 page=4 scales=head", "scales=head: is scales=tensor with Hkv=1" },
    { "kv_append bf16->e4m3 T=8 D=64 Hkv=2 page=4 scales=head", NULL },
    { "kv_append bf16->i8 T=8 D=64 Hkv=2 page=4 scales=head", "dtype of k_cache is i8: must be with scales=token" },
    { "kv_append bf16->i8 T=8 D=63 Hkv=1 page=4 scales=token", NULL },
    { "kv_append bf16->i4 T=8 D=64 Dv=63 Hkv=2 page=4 scales=token", "D=64 Dv=63: must be even with a k_cache of i4" },
    { "kv_append bf16->bf16 T=8 D=64 Hkv=2 page=4 scales=token",
      "scales=token (k_scale, v_scale): must be with an 8-bit" },
    { "kv_append bf16->e4m3 T=8 D=64 Hkv=2 page=16 scales=token form=vllm", "scales=token: must be with rows of D" },
    { "kv_append bf16->bf16 T=8 D=68 Hkv=2 page=16 form=vllm", "form=vllm: D=68, of q and k: must be a multiple of 8" },

    { "quantize i8->e4m3,f32 M=3 N=64 group_rows=1", "x is i8: must be bf16, f16 or f32" },
    { "quantize bf16->f16,f32 M=3 N=64 group_rows=1", "codes are f16, q's dtype: must be e4m3" },
    { "quantize bf16->e4m3,f16 M=3 N=64 group_rows=1", "scale is f16: must be f32 or e8m0" },
    { "quantize bf16->e4m3,e8m0 M=3 N=64 group_rows=1", "scale is e8m0, powers of two, and rounding is exact" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 group_cols=48", "group_cols is 48: must be 0, 32, 64 or 128" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_cols=32", "group_cols is 32: must be 0 where group_rows is" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 smooth=f16", "smooth is f16: must be x's dtype, bf16, or f32" },
    { "quantize bf16->e4m3,f32 M=3 N=64 smooth=f32", "smooth: must be absent where group_rows is 0" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 max=448", NULL },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 max=449", "max=449: must be at most e4m3's largest, 448" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 max=400 rounding=up", NULL },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 max=400 rounding=down",
      "rounding=down: takes neither max nor floor_scale" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 floor_scale=9 rounding=even",
      "rounding=even: takes neither max nor floor_scale" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 zero_scale=9 rounding=up",
      "zero_scale=9: must be of rounding=exact" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 zero_scale=9", NULL },
    { "quantize bf16->e4m3,f32 M=3 N=64 reciprocal=2 max=200", NULL },
    { "quantize bf16->e4m3,f32 M=3 N=64 reciprocal=1", "group_rows=0: the scale is read, only reciprocal=2" },
    { "quantize bf16->e4m3,f32 M=3 N=64 floor_amax=9", "group_rows=0: the scale is read" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 ldx=63", "ldx=63: less than N=64" },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 ldx=64", NULL },
    { "quantize bf16->e4m3,f32 M=3 N=64 group_rows=1 align=6", "align=6: must be a power of two" },
    { "quantize_scale bf16->f32 M=3 N=64 codes=e4m3", NULL },
    { "quantize_scale bf16->f32 M=2000000000 N=64 codes=e4m3", "must be fewer than 2^31 - 4096 chunks of 8 columns" },
    { "quantize_scale bf16->f32 M=1100000000 N=8 codes=e4m3", NULL },
    { "quantize_scale bf16->f32 M=1100000000 N=9 codes=e4m3", "must be fewer than 2^31 - 4096 chunks of 8 columns" },
    { "dequantize e4m3,f32->bf16 M=1100000000 N=8 group_rows=1", NULL },
    { "dequantize e4m3,f32->bf16 M=1100000000 N=9 group_rows=1", "must be fewer than 2^31 - 4096 chunks of" },
    { "dequantize bf16,f32->bf16 M=3 N=64 group_rows=1",
      "q is bf16: must be e4m3, e4m3fnuz, e5m2, i8, e2m1, i4 or of blocks" },
    { "dequantize e4m3,bf16->bf16 M=3 N=64 group_rows=1", "scale is bf16: must be f32 or e8m0" },
    { "dequantize e4m3,f32->i8 M=3 N=64 group_rows=1", "y is i8: must be bf16, f16 or f32" },
    { "dequantize e4m3,f32->bf16 M=2000000000 N=64 group_rows=1", "must be fewer than 2^31 - 4096 chunks of" },

    { "moe_sum i8->bf16 T=7 N=16 top=3", "dtype of x is i8: must be bf16, f16 or f32" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 inplace=1", "inplace=1: there must be a residual" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 inplace=1 residual=1 ldr=32", "ldr=32: must be ldy=" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 inplace=1 residual=1 ldr=32 ldy=32", NULL },
    { "moe_sum bf16->bf16 T=2000000000 N=16 top=3", "places must be at most" },
    { "moe_sum bf16->bf16 T=1100000000 N=8 top=1", NULL },
    { "moe_sum bf16->bf16 T=1100000000 N=9 top=1", "16 bytes of x at a time are 2200000000, must be at most" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 ldx=15", "ldx=15: must be at least N=16" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 ldx=16", NULL },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 identity=1 ldi=15", "ldi=15: must be at least N=16" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 identity=1 ldi=16 ldiw=3", NULL },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 identity=1 ldiw=2", "ldiw=2: must be at least top=3" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 ldiw=4", "ldi=0, ldiw=4: must be left out without identity" },
    { "moe_align i32->i32 T=4 top=2 E=8192 places=1 identity=65536", NULL },
    { "act_and_mul bf16->bf16 M=1 N=8 limit=10000", NULL },
    { "act_and_mul bf16->bf16 M=1 N=8 limit=10001", "limit=10001: must be from 0 to 10000" },
    { "moe_sum bf16->bf16 T=7 N=16 top=3 align=6", "align=6: must be a power of two" },

    { "embedding bf16,bf16->bf16 M=3 N=64 V=10", "dtype of ids is bf16: must be i32 or i64" },
    { "embedding i32,i8->bf16 M=3 N=64 V=10", "dtype of table is i8: must be bf16, f16 or f32" },
    { "embedding i32,bf16->f16 M=3 N=64 V=10", "dtype of y is f16: must be the table's, bf16, or f32" },
    { "embedding i32,bf16->f32 M=3 N=64 V=10", NULL },
    { "embedding i32,bf16->bf16 M=3 N=64 V=10 ldy=63", "ldy=63: must be at least N=64" },
    { "embedding i32,bf16->bf16 M=3 N=64 V=10 align=6", "align=6: must be a power of two" },
    { "argmax i8->i32 M=3 V=64", "dtype of x is i8: must be bf16, f16 or f32" },
    { "argmax bf16->bf16 M=3 V=64", "dtype of y is bf16: must be i32 or i64" },
    { "argmax bf16->i64 M=3 V=64 ldx=64", NULL },
    { "argmax bf16->i64 M=3 V=64 ldx=63", "ldx=63: must be at least V=64" },
    { "argmax bf16->i64 M=3 V=64 align=3", "align=3: must be a power of two" },
    { "sample i8->i32 B=3 V=64", "dtype of logits is i8: must be bf16, f16 or f32" },
    { "sample bf16->bf16 B=3 V=64", "dtype of y is bf16: must be i32 or i64" },
    { "sample bf16->i64 B=3 V=64 ldx=64", NULL },
    { "sample bf16->i64 B=3 V=64 ldx=63", "ldx=63: must be at least V=64" },
    { "sample bf16->i64 B=3 V=64 align=3", "align=3: must be a power of two" },

    { "rmsnorm bf16->bf16 M=3 N=64 ldx=63", "ldx=63: must be at least 1 x N=64" },
    { "rmsnorm bf16->bf16 M=3 N=64 ldx=64", NULL },
    { "rmsnorm bf16->bf16 M=3 N=64 align=6", "align=6: must be a power of two" },
    { "rmsnorm bf16->bf16 M=3 N=64 inplace=1 ldy=72", "inplace=1: needs a plain output and ldy=ldx" },
    { "rmsnorm bf16->bf16 M=3 N=64 inplace=1 ldx=72 ldy=72", NULL },
    { "act_and_mul bf16->bf16 M=3 N=64 act=silu align=6", "align=6: must be a power of two" },
    { "act bf16->bf16 M=3 N=64 act=silu inplace=1 ldy=72", "inplace=1: only of act with a plain output and ldy=ldx" },
    { "act bf16->bf16 M=3 N=64 act=silu inplace=1", NULL },
    { "act_and_mul bf16->bf16 M=3 N=64 act=silu inplace=1", "inplace=1: only of act" },

    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=32 page=16 Sq=8", NULL },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=32 page=16 Sq=9", "Sq=9: must be from 1 to 8" },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=32 page=16 align=6", "align=6: must be a power of two" },
    { "gemm bf16,bf16->bf16 M=8 N=64 K=64 x_rows=4", "x_rows=4, top=0: must be 0 without top, else at least M / top" },
    { "gemm bf16,bf16->bf16 M=8 N=64 K=64 experts=4 top=2 x_rows=4", NULL },
    { "gemm bf16,bf16->bf16 M=8 N=64 K=64 experts=4 top=2 x_rows=3",
      "x_rows=3, top=2: must be 0 without top, else at least" },
};

START_TEST(a_rule)
{
    const struct rule *r = &rules[_i];
    struct rfg_problem p;
    struct rfg_reason why = { "" };
    bool taken = rfg_problem_parse(&p, r->problem, &why);
    ck_assert_msg(taken == !r->says, "'%s': %s: must %s", r->problem, taken ? "taken" : why.text,
                  r->says ? r->says : "be taken");
    ck_assert_msg(taken || strstr(why.text, r->says), "'%s': '%s' does not say '%s'", r->problem, why.text, r->says);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rules");
    TCase *tc = test_case(s, "rules", NULL, NULL);
    ADD_LOOPS(tc, sizeof(rules) / sizeof(rules[0]), a_rule);
    return run_suite(s);
}
