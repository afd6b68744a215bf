/* SPDX-License-Identifier: MIT
 *
 * The harness: timing, and the floor that no kernel can beat. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_case.h"

/* Sizes whose bytes don't fit 64 bits. */
START_TEST(too_large_for_any_memory)
{
    static const char *const problems[] = {
        "gemm f32,f32->f32 M=2147483647 N=2147483647 K=1", /* 2^64 bytes and a few */
        "gemm f32,f32->f32 M=2147483647 N=2147483647 K=2147483647",
        "gemm f32,f32->f32 M=2147483647 N=1 K=1 ldx=2147483647 ldy=2147483647",
        "rmsnorm f32->f32 M=2147483647 N=1073741823",
    };
    rfg_context_params cp = {
        .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_int_eq(rfg_context_create(&ctx, &cp), RFG_OK);
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
        struct rfg_problem p;
        struct rfg_reason why;
        struct rfg_case_params params = { .seed = 1 };
        ck_assert_msg(rfg_problem_parse(&p, problems[i], &why), "%s: %s", problems[i], why.text);
        ck_assert_msg(rfg_case_create(ctx, &p, &params, &c) == RFG_ERROR_OUT_OF_MEMORY, "%s", problems[i]);
        ck_assert_ptr_null(c);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(times_are_sane)
{
    begin("gemm bf16,bf16->bf16 M=1 N=64 K=4096", RFG_DATA_RANDOM);
    const struct rfg_plan *plan = rfg_plan_find(ctx, rfg_case_problem(c));
    ck_assert_ptr_nonnull(plan);
    struct rfg_times one, race[2];
    ck_assert_int_eq(rfg_case_time(c, plan, 11, 5, &one), RFG_OK);
    ck_assert_int_eq(one.n, 11);
    for (int i = 0; i < 11; i++)
        ck_assert(one.us[i] > 0 && (i == 0 || one.us[i] >= one.us[i - 1]));
    ck_assert(rfg_times_at(&one, 0) == one.us[0] && rfg_times_at(&one, 1) == one.us[10] &&
              rfg_times_at(&one, .5) == one.us[5]);
    const struct rfg_plan *plans[] = { plan, plan };
    ck_assert_int_eq(rfg_case_race(c, plans, 2, 7, 5, race), RFG_OK);
    ck_assert(race[0].n == 7 && race[1].n == 7);
    rfg_times_free(&one);
    rfg_times_free(&race[0]);
    rfg_times_free(&race[1]);
    end();
}
END_TEST

/* Nothing is faster than what is called the floor: not a call that is over in less than a launch takes, nor data that
 * caches hold. */
START_TEST(cpu_floor_is_one)
{
    static const char *const problems[] = {
        "gemm bf16,bf16->bf16 M=1 N=16 K=64",   "act bf16->bf16 M=1 N=8",
        "gemm bf16,bf16->bf16 M=1 N=512 K=512", "act bf16->bf16 M=64 N=4096",
        "add_rmsnorm bf16->bf16 M=16 N=4096",   "gemm f32,f32->f32 M=64 N=128 K=256"
    };
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
        struct rfg_times t;
        const char *which;
        begin(problems[i], RFG_DATA_RANDOM);
        double floor = rfg_floor_us(rfg_context_info(ctx), rfg_case_problem(c), &which);
        ck_assert_int_eq(rfg_case_time(c, rfg_plan_find(ctx, rfg_case_as_called(c)), 41, 1, &t), RFG_OK);
        ck_assert_msg(floor > 0 && floor <= rfg_times_at(&t, 0), "%s: %g us by %s is no floor: it took %g", problems[i],
                      floor, which, rfg_times_at(&t, 0));
        rfg_times_free(&t);
        end();
    }
}
END_TEST

/* What doesn't fit the caches comes from memory, whose rate a calibration knows. */
START_TEST(cpu_floor_by_memory)
{
    struct rfg_problem p;
    struct rfg_device dev;
    const char *which;
    rfg_device_cpu(&dev, 2);
    dev.cache_bytes = 1 << 20;
    ck_assert(rfg_problem_parse(&p, "act bf16->bf16 M=1024 N=1024", NULL)); /* 4 MiB */
    double guessed = rfg_floor_us(&dev, &p, &which);
    struct rfg_calibration cal = { .mem_gbps = 10, .cache_gbps = 100, .latency_us = 3, .load_us = 1, .sync_us = 1 };
    rfg_device_calibrate(&dev, &cal);
    double known = rfg_floor_us(&dev, &p, &which);
    ck_assert_str_eq(which, "bytes");
    ck_assert_double_eq_tol(known, 4.0 * 1024 * 1024 / 10e3, 1e-9);
    ck_assert_double_lt(guessed, known / 10);
    dev.cache_bytes = 8 << 20;
    ck_assert_double_eq(rfg_floor_us(&dev, &p, &which), guessed);
}
END_TEST

/* Products of codes: twice as many in a cycle as of 16 bits; of e2m1 by e2m1 four times, where there is an instruction.
 */
START_TEST(floor_by_products)
{
    static const struct {
        const char *dtypes, *keys, *target;
        double faster;
    } rows[] = {
        { "bf16,bf16", "", "gfx950", 1 },
        { "bf16,e2m1", " w_scale=e8m0 w_group=32", "gfx950", 1 },
        { "e4m3,e4m3", "", "gfx950", 2 },
        { "i8,i8", "", "sm_90a", 2 },
        { "e4m3,e2m1", " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group", "gfx950", 2 },
        { "e2m1,e2m1", " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group", "gfx950", 4 },
        { "e2m1,e2m1", " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group", "gfx942", 2 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rfg_device dev = { .platform = RFG_PLATFORM_AMD, .mem_gbps = 1e9, .mma_tflops = 100, .fma_tflops = 1 };
        struct rfg_problem p;
        const char *which;
        char text[200];
        dev.hw = rfg_arch_of(rows[i].target);
        snprintf(text, sizeof(text), "gemm %s->bf16 M=1024 N=1024 K=1024%s", rows[i].dtypes, rows[i].keys);
        ck_assert_msg(rfg_problem_parse(&p, text, NULL), "%s", text);
        double us = rfg_floor_us(&dev, &p, &which);
        ck_assert_str_eq(which, "flops");
        ck_assert_double_eq_tol(us, 2.0 * 1024 * 1024 * 1024 / 100e6 / rows[i].faster, 1e-9);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("timing");
    ADD_TESTS(test_case(s, "timing", NULL, NULL), too_large_for_any_memory, times_are_sane, cpu_floor_is_one,
              cpu_floor_by_memory, floor_by_products);
    return run_suite(s);
}
