/* SPDX-License-Identifier: MIT
 *
 * The oracles of attention, norms and activations against values and tolerances worked out by hand: an oracle that
 * allows more than it should lets every wrong kernel pass. (gemm's: test_harness.c.) */
#include <math.h>

#include "ops/moe/route_case.h"
#include "tuner/harness/harness.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

#define EPS 0x1p-24

/* What the oracle says of row 0 of a problem, to value[] and allow[] of each output. */
static double value[RFG_MAX_TENSORS][256], allow[RFG_MAX_TENSORS][256];

static void ask(const char *problem, const rfg_tensor t[RFG_MAX_TENSORS], unsigned outputs)
{
    struct rfg_problem p;
    struct rfg_reason why;
    struct rfg_expected want[RFG_MAX_TENSORS] = { { 0 } };
    int64_t row = 0;
    ck_assert_msg(rfg_problem_parse(&p, problem, &why), "%s: %s", problem, why.text);
    for (int i = 0; i < RFG_MAX_TENSORS; i++)
        if (outputs >> i & 1)
            want[i] = (struct rfg_expected){ &row, 1, value[i], allow[i] };
    ck_assert_msg(rfg_op_case_of(p.op)->oracle(&p, t, want) == RFG_OK, "%s", rfg_last_error());
}

static void is(const char *what, double got, double want)
{
    ck_assert_msg(fabs(got - want) <= 1e-11 * fabs(want), "%s is %.17g, by hand %.17g", what, got, want);
}

static void both_are(const char *what, int tensor, int i, double y, double a)
{
    char name[200];
    snprintf(name, sizeof(name), "%s: element %d", what, i);
    is(name, value[tensor][i], y);
    snprintf(name, sizeof(name), "%s: tolerance of element %d", what, i);
    is(name, allow[tensor][i], a);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { OUT, LSE, Q, K, V, D = 64 };

/* Two keys of scores 0 and 1, with values 4 and -2 in column 0, 1 and 1 in column 1. half_ulp: of a weight of 1. */
static void mha_of(rfg_dtype dtype, double half_ulp)
{
    static uint16_t q[D], k[2 * D], v[2 * D], out[D];
    char problem[100];
    memset(k, 0, sizeof(k));
    memset(q, 0, sizeof(q));
    memset(v, 0, sizeof(v));
    rfg_store(q, dtype, 0, 8); /* scale: 1/8 */
    rfg_store(k, dtype, D, 1);
    rfg_store(v, dtype, 0, 4);
    rfg_store(v, dtype, D, -2);
    rfg_store(v, dtype, 1, 1);
    rfg_store(v, dtype, D + 1, 1);
    rfg_tensor t[RFG_MAX_TENSORS] = { { 0 } };
    float lse;
    t[OUT] = rfg_tensor_2d(out, dtype, 1, D, D);
    t[LSE] = rfg_tensor_2d(&lse, RFG_F32, 1, 1, 1);
    t[Q] = (rfg_tensor){ q, dtype, 3, { 1, 1, D }, { D, D, 1 } };
    t[K] = (rfg_tensor){ k, dtype, 3, { 2, 1, D }, { D, D, 1 } };
    t[V] = (rfg_tensor){ v, dtype, 3, { 2, 1, D }, { D, D, 1 } };
    snprintf(problem, sizeof(problem), "mha_decode %s->%s B=1 Hq=1 Hkv=1 D=64 S=2 lse=1", rfg_dtype_name(dtype),
             rfg_dtype_name(dtype));
    ask(problem, t, 1 << OUT | 1 << LSE);

    double w0 = 1 / (1 + exp(1)), w1 = exp(1) / (1 + exp(1)), e0 = 4 * EPS, e1 = 8 * EPS;
    double sums = w0 * e0 + w1 * e1 + (sqrt(2) + 8) * EPS;
    is("lse", value[LSE][0], log(1 + exp(1)));
    is("tolerance of lse", allow[LSE][0], sums + 8 * EPS * (log(1 + exp(1)) + 1) + 4 * EPS);
    const double values[2][2] = { { 4, -2 }, { 1, 1 } };
    for (int i = 0; i < 2; i++) {
        double x0 = w0 * values[i][0], x1 = w1 * values[i][1], y = x0 + x1, norm = sqrt(x0 * x0 + x1 * x1);
        double all = fabs(x0) + fabs(x1), rounding = fmin(half_ulp * all, half_ulp * (fabs(y) + 2.3 * norm));
        double adding = (2 / 16.0 + 8) * 2 * EPS * (fabs(y) + 3 * norm) + 8 * EPS * all;
        both_are(problem, OUT, i, y, rounding + adding + fabs(x0) * e0 + fabs(x1) * e1 + fabs(y) * sums);
    }
}

START_TEST(attention_by_hand)
{
    mha_of(RFG_BF16, 0x1p-8);
    mha_of(RFG_F16, 0x1p-11);
}
END_TEST

/* ---- norms ------------------------------------------------------------------------------------------------------- */

enum { NORM_Y, NORM_RESIDUAL_OUT = 3, NORM_X, NORM_RES, NORM_W, NORM_B };
#define NORM_EPS ((double)1e-6f)

START_TEST(rmsnorm_by_hand)
{
    float x[] = { 3, -4 }, w[] = { 2, .5f };
    rfg_tensor t[RFG_MAX_TENSORS] = { { 0 } };
    t[NORM_X] = rfg_tensor_2d(x, RFG_F32, 1, 2, 2);
    t[NORM_W] = rfg_tensor_1d(w, RFG_F32, 2);
    ask("rmsnorm f32->f32 M=1 N=2", t, 1 << NORM_Y);
    double variance = 12.5, rstd = 1 / sqrt(variance + NORM_EPS);
    double relative = (sqrt(2) + 8) * EPS * variance / (variance + NORM_EPS);
    for (int i = 0; i < 2; i++) {
        double v = (double)x[i] * (double)w[i] * rstd, h = fabs((double)x[i]);
        both_are("rmsnorm", NORM_Y, i, v,
                 fabs(v) * (relative + 8 * EPS) + EPS * h * rstd * (double)w[i] + EPS * fabs(v) + 0x1p-126);
    }
}
END_TEST

START_TEST(layernorm_by_hand)
{
    float x[] = { 0.5f, 1, 7 }, r[] = { 0.5f, 2, 1 }, w[] = { 1, -2, 3 }, b[] = { 10, 0, -1 };
    const double h[] = { 1, 3, 8 };
    rfg_tensor t[RFG_MAX_TENSORS] = { { 0 } };
    t[NORM_X] = rfg_tensor_2d(x, RFG_F32, 1, 3, 3);
    t[NORM_RES] = rfg_tensor_2d(r, RFG_F32, 1, 3, 3);
    t[NORM_W] = rfg_tensor_1d(w, RFG_F32, 3);
    t[NORM_B] = rfg_tensor_1d(b, RFG_F32, 3);
    ask("add_layernorm f32->f32 M=1 N=3 bias=1", t, 1 << NORM_Y | 1 << NORM_RESIDUAL_OUT);
    double mean = 4, variance = 26 / 3.0, terms = sqrt(3) + 8, mean_error = terms * EPS * 4;
    double rstd = 1 / sqrt(variance + NORM_EPS);
    double relative =
        (terms * EPS * variance + mean_error * mean_error + 2 * EPS * sqrt(variance) * 4) / (variance + NORM_EPS);
    for (int i = 0; i < 3; i++) {
        double v = (h[i] - mean) * rstd * (double)w[i], y = v + (double)b[i];
        both_are("add_layernorm", NORM_Y, i, y,
                 fabs(v) * (relative + 8 * EPS) + (mean_error + EPS * h[i]) * rstd * fabs((double)w[i]) +
                     EPS * fabs(y) + 0x1p-126);
        both_are("add_layernorm's sum", NORM_RESIDUAL_OUT, i, h[i], 0);
    }
}
END_TEST

/* ---- activations ------------------------------------------------------------------------------------------------- */

enum { ACT_Y, ACT_X = 3 };

/* act(2) times 3, and act(-1) times -0.5. exponent: of the argument of its exponential at 2 and -1. */
START_TEST(activations_by_hand)
{
    static const struct {
        const char *name;
        double at[2], exponent[2];
    } acts[] = {
        { "silu", { 1.7615941559557649, -0.26894142136999510 }, { 2, 1 } },
        { "gelu", { 1.9544997361036416, -0.15865525393145705 }, { 2, 0.5 } },
        { "gelu_tanh", { 1.9545976940877752, -0.15880800939172324 }, { 3.7623767733922637, 1.6671239378783311 } },
        { "relu", { 2, 0 }, { 0, 0 } },
        { "relu2", { 4, 0 }, { 0, 0 } },
    };
    float x[] = { 2, -1, 3, -.5f };
    rfg_tensor t[RFG_MAX_TENSORS] = { { 0 } };
    t[ACT_X] = rfg_tensor_2d(x, RFG_F32, 1, 4, 4);
    for (size_t n = 0; n < sizeof(acts) / sizeof(acts[0]); n++) {
        char problem[100];
        snprintf(problem, sizeof(problem), "act_and_mul f32->f32 M=1 N=2 act=%s", acts[n].name);
        ask(strstr(problem, "silu") ? "act_and_mul f32->f32 M=1 N=2" : problem, t, 1 << ACT_Y);
        for (int i = 0; i < 2; i++) {
            double y = acts[n].at[i] * (double)x[2 + i];
            both_are(problem, ACT_Y, i, y,
                     fabs(y) * EPS * (16 + 4 * acts[n].exponent[i]) + 0x1p-116 * fmax(1, fabs((double)x[2 + i])));
        }
    }
    ask("act_and_mul f32->f32 M=1 N=2 act=none", t, 1 << ACT_Y);
    both_are("none", ACT_Y, 0, 6, 6 * EPS + 0x1p-126);
}
END_TEST

/* ---- codes ------------------------------------------------------------------------------------------------------- */

/* An infinity makes its row's scale infinite: its own code is NaN, the others are 0, and nothing else will do. */
START_TEST(codes_under_an_infinite_scale)
{
    static const struct {
        const char *problem;
        uint8_t nan, one;
    } cases[] = { { "act_and_mul bf16->e4m3 M=40 N=64 act=relu scale=token", 0x7f, 0x38 },
                  { "act_and_mul bf16->i8 M=40 N=64 act=relu scale=token", 0, 1 } };
    enum { QUANT = 1, SCALES = 2 };
    for (int n = 0; n < 2; n++) {
        rfg_context *ctx;
        struct rfg_problem p;
        struct rfg_case *c;
        struct rfg_check check;
        struct rfg_case_params params = { .seed = 7, .data = RFG_DATA_SPECIAL };
        rfg_context_params cp = {
            .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
        };
        int codes = 0, nans = 0;
        ck_assert_int_eq(rfg_context_create(&ctx, &cp), RFG_OK);
        ck_assert(rfg_problem_parse(&p, cases[n].problem, NULL));
        ck_assert_int_eq(rfg_case_create(ctx, &p, &params, &c), RFG_OK);
        ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
        ck_assert(rfg_case_check(c, 0, &check) == RFG_OK && check.ok);
        const rfg_tensor *t = rfg_case_tensors(c, 0);
        const float *scales = t[SCALES].data;
        for (int i = 0; i < 40 * 64; i++) {
            uint8_t *code = (uint8_t *)t[QUANT].data + i, was = *code;
            bool nan = isnan(rfg_load(code, t[QUANT].dtype, 0));
            if (!isinf(scales[i / 64]))
                continue;
            *code = nan ? 0 : cases[n].one;
            nans += nan;
            codes += !nan;
            ck_assert_int_eq(rfg_case_check(c, 0, &check), RFG_OK);
            ck_assert_msg(check.wrong == 1, "%s: code 0x%02x for 0x%02x of a row with an infinity passes",
                          cases[n].problem, *code, was);
            if (!nan) {
                *code = 0x80; /* the largest negative one of i8, and -0 */
                ck_assert(rfg_case_check(c, 0, &check) == RFG_OK && check.wrong == (n == 1));
            }
            *code = was;
        }
        ck_assert_msg(codes > 0 && (nans > 0 || n == 1), "%d codes, %d NaNs: proves nothing", codes, nans);
        rfg_case_destroy(&c);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* ---- more than one right answer ---------------------------------------------------------------------------------- */

/* Expert ids that no routing gives: none, one too many, the same twice, another than the best; and a weight. */
START_TEST(wrong_experts)
{
    const char *problem = "moe_route f32->f32 T=20 E=8 top=2";
    rfg_context *ctx;
    struct rfg_problem p;
    struct rfg_case *c;
    struct rfg_check check;
    struct rfg_case_params params = { .seed = 7 };
    rfg_context_params cp = {
        .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_int_eq(rfg_context_create(&ctx, &cp), RFG_OK);
    ck_assert(rfg_problem_parse(&p, problem, NULL));
    ck_assert_int_eq(rfg_case_create(ctx, &p, &params, &c), RFG_OK);
    ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
    ck_assert(rfg_case_check(c, 0, &check) == RFG_OK && check.ok);
    const rfg_tensor *t = rfg_case_tensors(c, 0);
    for (int row = 0; row < 20; row++) {
        int32_t *ids = (int32_t *)t[ROUTE_IDS].data + row * 2, was[2] = { ids[0], ids[1] };
        float *weight = (float *)t[ROUTE_WEIGHTS].data + row * 2, weighed[2] = { weight[0], weight[1] };
        int32_t other = 0;
        while (other == was[0] || other == was[1])
            other++;
        const int32_t wrong[][2] = { { -1, was[1] },     { was[0], 8 },     { was[0], was[0] },
                                     { was[1], was[0] }, { was[0], other }, { other, was[1] } };
        for (int i = 0; i < 6; i++) {
            memcpy(ids, wrong[i], sizeof(was));
            for (int k = 0; k < 2; k++) /* an expert's weight goes with it, and is right */
                weight[k] = weighed[ids[k] == was[1]];
            ck_assert(rfg_case_check(c, 0, &check) == RFG_OK);
            ck_assert_msg(check.wrong > 0, "row %d: %d, %d for %d, %d passes", row, ids[0], ids[1], was[0], was[1]);
        }
        memcpy(ids, was, sizeof(was));
        memcpy(weight, weighed, sizeof(weighed));
        *weight *= 1.001f;
        ck_assert(rfg_case_check(c, 0, &check) == RFG_OK && check.wrong == 1);
        *weight = weighed[0];
    }
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("oracles");
    TCase *tc = test_case(s, "oracles", NULL, NULL);
    ADD_TESTS(tc, attention_by_hand, rmsnorm_by_hand, layernorm_by_hand, activations_by_hand,
              codes_under_an_infinite_scale, wrong_experts);
    return run_suite(s);
}
