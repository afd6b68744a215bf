/* SPDX-License-Identifier: MIT
 *
 * The harness' special data: inputs of cases that ask for NaN and infinities. */
#include <math.h>

#include "ops/op_case.h"
#include "tests/op_cases.h"

/* Inputs of special data have a NaN and an infinity, where their formats have them; a fourth of the outputs stay
 * numbers. Problems are small: large ones have it by chance. */
static const struct {
    const char *problem;
    const char *finite; /* inputs without infinities, by their names between spaces */
} special_problems[] = {
    { "gemm bf16,bf16->f32 M=6 N=20 K=64 bias=1" },
    { "gemm f16,f16->f16 M=6 N=20 K=64 residual=1" },
    { "gemm e4m3,e4m3->f32 M=5 N=20 K=256 w_scale=f32 x_scale=f32 x_per=row w_per=row", " w_scale x_scale " },
    { "gemm e4m3fnuz,e4m3fnuz->f32 M=5 N=140 K=256 w_scale=f32 x_scale=f32 x_per=block w_per=block",
      " w_scale x_scale " },
    { "gemm e5m2,e5m2->f32 M=7 N=140 K=64 w_scale=e8m0 x_scale=e8m0 x_per=block w_per=block" },
    { "gemm e5m2,e5m2->f32 M=7 N=20 K=64 experts=3 w_scale=f32", " w_scale " },
    { "gemm i8,i8->f32 M=5 N=20 K=256 w_scale=f32 x_scale=f32 x_per=row w_per=row", " w_scale x_scale " },
    { "gemm e4m3,e4m3->f32 M=5 N=20 K=64 w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group" },
    { "gemm e4m3,e2m1->f32 M=12 N=32 K=160 w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group packed=1" },
    { "gemm e2m1,e2m1->f32 M=12 N=20 K=160 w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group" },
    { "gemm bf16,e2m1->f32 M=8 N=32 K=160 w_scale=e8m0 w_group=32 packed=1" },
    { "gemm f16,i4->f32 M=8 N=32 K=160 w_scale=f16 w_group=32 packed=1", " w_scale " },
    { "gemm bf16,i4->f32 M=8 N=20 K=96 w_scale=bf16 w_zero=i8 w_group=32", " w_scale " },
    { "gemm bf16,bf16->f32 M=8 N=20 K=96 experts=3 top=2 weights=1", " weights " },
    { "add_rmsnorm bf16->bf16 M=5 N=64" },
    { "add_layernorm f32->i8 M=6 N=64 bias=1 scale=token" },
    { "act_and_mul f16->f16 M=6 N=64" },
    { "quantize bf16->e4m3,f32 M=6 N=128 group_rows=1 group_cols=32" },
    { "quantize f32->i8,e8m0 M=6 N=128 group_rows=1 group_cols=32 rounding=up smooth=f32" },
    { "quantize_scale f16->f32 M=4 N=30 codes=e4m3" },
    { "dequantize e4m3,f32->bf16 M=4 N=128 group_rows=1 group_cols=32" },
    { "dequantize e5m2,e8m0->f32 M=4 N=64 group_rows=1 group_cols=32" },
    { "dequantize e4m3fnuz,e8m0->f32 M=4 N=64 group_rows=1 group_cols=32" },
    { "embedding i32,bf16->bf16 M=9 N=16 V=12" },
    { "rope bf16,i64->bf16 T=9 D=32 Hq=2 Hkv=1" },
    { "rope f32,i64->f32 T=9 D=32 Hq=2 Hkv=1 R=16 offset=8" },
    { "kv_append f16->e5m2 T=9 D=32 Hkv=4 page=4 scales=head", " k_scale v_scale " },
    { "rope_append bf16,i64->bf16 T=9 D=32 Hq=2 Hkv=1 page=4 norm=w" },
    { "mha bf16->bf16 B=4 Hq=4 Hkv=2 D=64 S=20 Sq=5" },
    { "mha_decode f16->f16 B=5 Hq=4 Hkv=2 D=64 S=20 page=16" },
    { "moe_sum bf16->bf16 T=9 N=16 top=2 weights=1 residual=1" },
    { "moe_route f32->f32 T=8 E=16 top=2 bias=1" },
    { "argmax bf16->i32 M=8 V=20" },
    { "sample f32->i32 B=8 V=20" },
};

static bool has_name(const char *names, const char *name)
{
    char spaced[40];
    snprintf(spaced, sizeof(spaced), " %s ", name);
    return names && strstr(names, spaced);
}

static void count_special(const rfg_tensor *t, int64_t *all, int64_t *nans, int64_t *infinities)
{
    int64_t rows = t->shape[0], cols = t->ndim == 2 ? t->shape[1] : t->ndim == 3 ? t->shape[1] * t->shape[2] : 1;
    *all = rows * cols;
    *nans = *infinities = 0;
    for (int64_t i = 0; i < *all; i++) {
        int64_t at = i / cols * t->strides[0] + i % cols * (t->ndim == 2 ? t->strides[1] : 1);
        double v = rfg_load(t->data, t->dtype, at);
        *nans += isnan(v) != 0;
        *infinities += isinf(v) != 0;
    }
}

static void special_tensor(const char *problem, const struct rfg_tensor_spec *s, const rfg_tensor *t,
                           const char *finite)
{
    int64_t all, nans, infinities;
    char nan[8], infinity[8];
    count_special(t, &all, &nans, &infinities);
    if (s->output) {
        ck_assert_msg(nans * 4 <= all * 3, "%s: %s has %lld NaNs among %lld: the rest proves little", problem, s->name,
                      (long long)nans, (long long)all);
        return;
    }
    if (all == 1) /* a tensor's only scale: a NaN would be in all results */
        return;
    rfg_store(nan, s->dtype, 0, NAN);
    rfg_store(infinity, s->dtype, 0, INFINITY);
    if (isnan(rfg_load(nan, s->dtype, 0)))
        ck_assert_msg(nans, "%s: %s has no NaN among %lld", problem, s->name, (long long)all);
    if (isinf(rfg_load(infinity, s->dtype, 0)) && !has_name(finite, s->name))
        ck_assert_msg(infinities, "%s: %s has no infinity among %lld", problem, s->name, (long long)all);
}

static void special_problem(rfg_context *ctx, const char *problem, const char *finite)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct rfg_tensor_spec spec[RFG_MAX_TENSORS] = { 0 };
        struct rfg_problem p = op_problem(problem);
        struct rfg_case_params params = { .seed = seed, .data = RFG_DATA_SPECIAL };
        struct rfg_case *c;
        struct rfg_check check;
        ck_assert_msg(rfg_case_create(ctx, &p, &params, &c) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_case_run(c, 0, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
        int n = rfg_op_case_of(rfg_case_problem(c)->op)->tensors(rfg_case_problem(c), spec);
        const rfg_tensor *t = rfg_case_tensors(c, 0);
        for (int k = 0; k < n; k++)
            if (t[k].data && spec[k].constant == 0 && spec[k].dtype != RFG_I32 && spec[k].dtype != RFG_I64 &&
                !spec[k].by_predicate)
                special_tensor(problem, &spec[k], &t[k], finite);
        ck_assert(rfg_case_check(c, 0, &check) == RFG_OK);
        ck_assert_msg(check.ok, "%s", check.message);
        rfg_case_destroy(&c);
    }
}

START_TEST(special_data_are_special)
{
    rfg_context *ctx = op_context("cpu");
    for (size_t i = 0; i < sizeof(special_problems) / sizeof(special_problems[0]); i++)
        special_problem(ctx, special_problems[i].problem, special_problems[i].finite);
    for (int i = 0; rfg_small_problem(i); i++)
        special_problem(ctx, rfg_small_problem(i), NULL);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("special_data");
    TCase *tc = test_case(s, "special_data", NULL, NULL);
    ADD_TESTS(tc, special_data_are_special);
    return run_suite(s);
}
