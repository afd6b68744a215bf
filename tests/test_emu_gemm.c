/* SPDX-License-Identifier: MIT
 *
 * gemm's GPU variants on emulated AMD GPUs, against the harness's oracle: every value of every parameter at least once
 * for each architecture, shapes that don't fill tiles, all dtypes, special values; through the public function too; and
 * the same bits under any schedule. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/util.h"
#include "../emu/front.h"
#include "../ops/gemm/gemm.h"
#include "../tuner/harness.h"

static const char *const devices[] = { "emu:gfx90a:8", "emu:gfx942:8", "emu:gfx1100:8" };
static const struct rfg_variant *const variants[] = { &gemm_skinny, &gemm_splitk_mma, &gemm_portable };
enum { N_DEVICES = 3, N_VARIANTS = 3, MAX_CONFIGS = 64 };

/* Ragged, and small: it is an emulator. */
static const char *const problems[] = {
    "gemm bf16,bf16->bf16 M=3 N=70 K=328",
    "gemm f16,f16->f32 M=17 N=130 K=264 bias=1",
    "gemm bf16,bf16->f32 M=1 N=33 K=1032",
    "gemm f16,f16->f16 M=33 N=50 K=136",
    "gemm f32,f32->f32 M=5 N=70 K=67 bias=1",
    "gemm bf16,bf16->f16 M=66 N=65 K=24",
    "gemm bf16,bf16->bf16 M=4 N=40 K=520 ldx=528 ldw=536 ldy=44",
};
enum { N_PROBLEMS = sizeof(problems) / sizeof(problems[0]) };

static rfg_context *ctx;

static struct rfg_problem parse(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s: %s", text, why.text);
    return p;
}

/* False, with a line, where nothing here compiles for the device. */
static bool open_device(const char *name, const char *only)
{
    const char *bin = rfg_env("RFG_BINDIR");
    char *dir = rfg_asprintf("%s/../emu-cache", bin ? bin : "."); /* compiled kernels: for the next run */
    rfg_context_params p = { .device = name, .user_db = "", .system_db = "", .cache_dir = dir, .variants = only };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    free(dir);
    if (rfg_jit_provider_for(rfg_context_info(ctx)->target))
        return true;
    printf("skipped: %s\n", rfg_last_error());
    rfg_context_destroy(&ctx);
    return false;
}

/* ---- configurations
 * --------------------------------------------------------------------------------------------------- */

struct picker {
    const struct rfg_variant *var;
    const struct rfg_device *dev;
    bool seen[RFG_MAX_PARAMS][RFG_MAX_VALUES];
    int config[MAX_CONFIGS][RFG_MAX_PARAMS], n;
    int skip; /* passes over the list take from different places */
};

/* Takes a configuration if it shows a value for the first time. */
static bool take_if_new(void *arg, const int *p)
{
    struct picker *k = arg;
    bool fresh = false;
    if (k->skip-- > 0)
        return true;
    for (int i = 0; i < k->var->n_params; i++)
        for (int v = 0; v < k->var->params[i].n; v++)
            fresh |= p[i] == k->var->params[i].values[v] && !k->seen[i][v];
    if (!fresh || k->n == MAX_CONFIGS)
        return k->n < MAX_CONFIGS;
    for (int i = 0; i < k->var->n_params; i++)
        for (int v = 0; v < k->var->params[i].n; v++)
            k->seen[i][v] |= p[i] == k->var->params[i].values[v];
    memcpy(k->config[k->n++], p, (size_t)k->var->n_params * sizeof(int));
    return true;
}

/* ---- one run
 * ------------------------------------------------------------------------------------------------------------ */

static void check_case(const struct rfg_problem *prob, const struct rfg_plan *plan, enum rfg_data data, bool unaligned,
                       const char *what)
{
    struct rfg_case_params params = { .seed = 4242, .data = data, .unaligned = unaligned };
    struct rfg_case *c;
    struct rfg_check check;
    ck_assert_msg(rfg_case_create(ctx, prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_case_poison(c, 0) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_case_run(c, 0, plan, NULL) == RFG_OK, "%s: %s: %s", rfg_context_device(ctx), what,
                  rfg_last_error());
    ck_assert_msg(rfg_case_check(c, 0, &check) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(check.ok && !check.guard_broken, "%s: %s: data %d: %s", rfg_context_device(ctx), what, (int)data,
                  check.message);
    if (data == RFG_DATA_INTS && prob->dtype[2] == RFG_F32)
        ck_assert_msg(check.max_abs == 0, "%s: %s: integers are off by %g", rfg_context_device(ctx), what,
                      check.max_abs);
    rfg_case_destroy(&c);
}

START_TEST(every_parameter_value)
{
    const struct rfg_variant *var = variants[_i % N_VARIANTS];
    if (!open_device(devices[_i / N_VARIANTS], NULL))
        return;
    const struct rfg_device *dev = rfg_context_info(ctx);
    struct picker k = { .var = var, .dev = dev };
    /* What is worth it depends on the problem: wide and long ones, to see all values. */
    static const char *const wide[] = { "gemm bf16,bf16->bf16 M=8 N=512 K=7168",
                                        "gemm bf16,bf16->bf16 M=128 N=4096 K=7168",
                                        "gemm bf16,bf16->bf16 M=1 N=64 K=16384",
                                        "gemm bf16,bf16->bf16 M=2 N=20000 K=512",
                                        "gemm bf16,bf16->bf16 M=32 N=1024 K=2048" };
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        struct rfg_problem prob = parse(wide[i]);
        int n = rfg_variant_each(var, dev, &prob, take_if_new, &k);
        k.skip = n / 3;
        rfg_variant_each(var, dev, &prob, take_if_new, &k);
        k.skip = 0;
    }
    ck_assert_int_gt(k.n, 0);
    int ran = 0;
    for (int c = 0; c < k.n; c++) {
        int on_this = 0;
        for (int i = 0; i < N_PROBLEMS && on_this < 2; i++) {
            struct rfg_problem prob = parse(problems[(i + c) % N_PROBLEMS]);
            struct rfg_plan *plan;
            char name[RFG_CONFIG_STRLEN];
            if (!rfg_variant_check(var, dev, &prob, k.config[c], NULL))
                continue;
            rfg_config_format(var, k.config[c], name, sizeof(name));
            ck_assert_msg(rfg_plan_create(ctx, &prob, var, k.config[c], &plan) == RFG_OK, "%s", rfg_last_error());
            check_case(&prob, plan, on_this ? RFG_DATA_RANDOM : RFG_DATA_INTS, false, name);
            rfg_plan_destroy(ctx, &plan);
            on_this++;
        }
        ran += on_this;
    }
    ck_assert_int_gt(ran, k.n / 2);
    printf("%s: %s: %d configurations, %d runs\n", dev->name, var->name, k.n, ran);
    ck_assert_int_eq(emu_reports(NULL), 0);
    rfg_context_destroy(&ctx);
}
END_TEST

/* As an engine calls it, with all that data can be. */
START_TEST(public_op)
{
    static const enum rfg_data data[] = { RFG_DATA_RANDOM, RFG_DATA_INTS, RFG_DATA_CANCEL };
    if (!open_device(devices[_i], NULL))
        return;
    for (int i = 0; i < N_PROBLEMS; i++) {
        struct rfg_problem prob = parse(problems[i]);
        for (int d = 0; d < 3; d++)
            check_case(&prob, NULL, data[d], false, problems[i]);
    }
    struct rfg_problem prob = parse("gemm bf16,bf16->bf16 M=3 N=70 K=328 align=2");
    check_case(&prob, NULL, RFG_DATA_RANDOM, true, "unaligned");
    ck_assert_int_eq(emu_reports(NULL), 0);
    rfg_context_destroy(&ctx);
}
END_TEST

/* NaN, infinity, subnormals. MI200's matrix instructions take subnormal 16-bit inputs for 0, and infinity times one for
 * NaN: no error of ours, so there only the other variants are asked. */
START_TEST(special_values)
{
    if (!open_device(devices[_i], _i == 0 ? "gemm_skinny,gemm_portable" : NULL))
        return;
    for (int i = 0; i < N_PROBLEMS; i++) {
        struct rfg_problem prob = parse(problems[i]);
        check_case(&prob, NULL, RFG_DATA_SPECIAL, false, problems[i]);
    }
    ck_assert_int_eq(emu_reports(NULL), 0);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Split-K: whoever comes last adds the partials in one order. */
START_TEST(same_bits_under_any_schedule)
{
    static const char *const config[] = { "gemm_splitk_mma{tile_m=16,tile_n=32,tile_k=64,split_k=4,k_waves=2,stages=2}",
                                          "gemm_skinny{m_tile=4,rows=2,waves=4,unroll=2,split_k=4}" };
    if (!open_device(devices[_i / 2], NULL))
        return;
    struct rfg_problem prob = parse("gemm bf16,bf16->f32 M=4 N=100 K=2056");
    const struct rfg_variant *var;
    struct rfg_reason why;
    struct rfg_plan *plan;
    struct rfg_case *c;
    int p[RFG_MAX_PARAMS];
    void *first = NULL;
    size_t size;
    ck_assert_msg(rfg_config_parse(prob.op, config[_i % 2], &var, p, &why), "%s", why.text);
    ck_assert_msg(rfg_plan_create(ctx, &prob, var, p, &plan) == RFG_OK, "%s", rfg_last_error());
    struct rfg_case_params params = { .seed = 99 };
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
    for (int seed = -1; seed < 20; seed++) {
        char text[16];
        struct rfg_check check;
        void *bytes;
        snprintf(text, sizeof(text), "%d", seed);
        if (seed >= 0)
            setenv("RFG_EMU_SCHEDULE", text, 1);
        ck_assert(rfg_case_poison(c, 0) == RFG_OK);
        ck_assert_msg(rfg_case_run(c, 0, plan, NULL) == RFG_OK, "seed %d: %s", seed, rfg_last_error());
        ck_assert(rfg_case_check(c, 0, &check) == RFG_OK);
        ck_assert_msg(check.ok, "seed %d: %s", seed, check.message);
        ck_assert(rfg_case_outputs(c, 0, &bytes, &size) == RFG_OK);
        ck_assert_msg(!first || !memcmp(first, bytes, size), "seed %d: other bits", seed);
        free(first);
        first = bytes;
    }
    free(first);
    rfg_case_destroy(&c);
    rfg_plan_destroy(ctx, &plan);
    ck_assert_int_eq(emu_reports(NULL), 0);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_gemm");
    TCase *tc = tcase_create("gemm");
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 500);
    tcase_add_loop_test(tc, every_parameter_value, 0, N_DEVICES * N_VARIANTS);
    tcase_add_loop_test(tc, public_op, 0, N_DEVICES);
    tcase_add_loop_test(tc, special_values, 0, N_DEVICES);
    tcase_add_loop_test(tc, same_bits_under_any_schedule, 0, 2 * N_DEVICES);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
