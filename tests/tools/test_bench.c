/* SPDX-License-Identifier: MIT
 *
 * The programs rfg-bench, rfg-info and rfg-compile: their output and exit codes. */
#include <jansson.h>

#include "base/util.h"
#include "tests/program.h"
#include "tests/suite.h"

#define SMALL      "\"gemm bf16,bf16->bf16 M=2 N=64 K=256\""
#define BENCH(...) run_program("rfg-bench", "--device cpu --db none.db --rounds 5 " __VA_ARGS__)

static json_t *parsed(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, 0, &e);
    ck_assert_msg(j != NULL, "not JSON: %s: %s", e.text, text);
    return j;
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

START_TEST(times_a_problem)
{
    ck_assert_msg(BENCH("--json --problem " SMALL) == 0, "%s", err);
    json_t *j = parsed(out);
    ck_assert_str_eq(json_string_value(json_object_get(j, "problem")), "gemm bf16,bf16->bf16 M=2 N=64 K=256");
    double p50 = json_number_value(json_object_get(j, "p50_us")), p99 = json_number_value(json_object_get(j, "p99_us"));
    ck_assert(p50 > 0 && p99 >= p50);
    ck_assert(json_number_value(json_object_get(j, "bytes")) == 2.0 * (2 * 256 + 64 * 256 + 2 * 64));
    ck_assert(json_number_value(json_object_get(j, "flops")) == 2.0 * 2 * 64 * 256);
    ck_assert_int_eq(json_integer_value(json_object_get(j, "rung")), 4);
    double ratio = json_number_value(json_object_get(j, "error_ratio"));
    ck_assert(ratio > 0 && ratio <= 1);
    json_decref(j);
}
END_TEST

START_TEST(times_every_variant)
{
    ck_assert_msg(BENCH("--max-seconds 0.01 --all-variants --problem \"gemm f32,f32->f32 M=1 N=32 K=64\"") == 0, "%s",
                  err);
    PRINTS(out, "gemm_cpu_portable{");
}
END_TEST

START_TEST(beside_copies)
{
    ck_assert_msg(BENCH("--json --copy --max-seconds 0.01 --problem " SMALL) == 0, "%s", err);
    json_t *j = parsed(out);
    ck_assert(json_number_value(json_object_get(j, "copy_gb_per_s")) > 0.1);
    ck_assert(json_number_value(json_object_get(j, "p50_us")) > 0);
    json_decref(j);
}
END_TEST

START_TEST(a_shapes_file)
{
    write_text("s.csv", "op,dtype,M,N,K\ngemm,bf16,1,16,64\ngemm,bf16,x,16,64\ngemm,f16,2,16,64\n");
    ck_assert_int_eq(BENCH("--shapes s.csv"), 2); /* a bad line: said, and the others are timed */
    PRINTS(err, "s.csv:3");
    PRINTS(err, "'x'");
    PRINTS(out, "gemm bf16,bf16->bf16 M=1 N=16 K=64");
    PRINTS(out, "gemm f16,f16->f16 M=2 N=16 K=64");
}
END_TEST

START_TEST(compares_with_a_baseline)
{
    ck_assert_msg(BENCH("--save-baseline b.json --problem " SMALL) == 0, "%s", err);
    json_t *j = json_load_file("b.json", 0, NULL);
    ck_assert_ptr_nonnull(j);
    json_t *times = json_object_get(j, "p50_us");
    const char *name = "gemm bf16,bf16->bf16 M=2 N=64 K=256";
    double us = json_number_value(json_object_get(times, name));
    ck_assert(us > 0);
    json_object_set_new(times, name, json_real(us * 1000)); /* it was slow */
    ck_assert_int_eq(json_dump_file(j, "slow.json", 0), 0);
    json_object_set_new(times, name, json_real(us / 1000)); /* it was fast */
    ck_assert_int_eq(json_dump_file(j, "fast.json", 0), 0);
    json_decref(j);
    ck_assert_msg(BENCH("--baseline slow.json --problem " SMALL) == 0, "%s", err);
    ck_assert_int_eq(BENCH("--baseline fast.json --problem " SMALL), 1);
    ck_assert_msg(strstr(out, name) || strstr(err, name), "the regression isn't named: %s%s", out, err);
}
END_TEST

START_TEST(bench_refusals)
{
    static const struct {
        const char *args, *says;
    } bad[] = {
        { "--problem \"gemm bf17,bf16->bf16 M=1 N=64 K=256\"", "'bf17'" },
        { "--problem \"gemm bf16,bf16->bf16 M=1 N=64\"", "K" },
        { "--problem \"gemm bf16,bf16->bf16 M=-1 N=64 K=4\"", "-1" },
        { "--problem \"conv bf16,bf16->bf16 M=1 N=64 K=4\"", "conv" },
        { "--variant \"gemm_quick{a=1}\" --problem " SMALL, "gemm_quick" },
        { "--variant \"gemm_cpu_portable{rows=99}\" --problem " SMALL, "rows" },
        { "--rounds 0 --problem " SMALL, "0" },
        { "--rounds many --problem " SMALL, "many" },
        { "--threshold 1e9 --problem " SMALL, "1e9" },
        { "--baseline missing.json --problem " SMALL, "missing.json" },
        { "--baseline junk.json --problem " SMALL, "junk.json" },
        { "--shapes missing.csv", "missing.csv" },
        { "--device cuda --problem " SMALL, "'cuda'" },
        { "", "--problem" },
        { "--what", "--what" },
    };
    write_text("junk.json", "{\"p50_us\": [1, 2");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(run_program("rfg-bench", "--device cpu --db none.db %s", bad[i].args) == 2,
                      "'%s' exits otherwise: %s", bad[i].args, err);
        PRINTS(err, bad[i].says);
    }
}
END_TEST

START_TEST(info)
{
    RUNS(run_program("rfg-info", " "), 0, out, "AMD: ");
    PRINTS(out, "NVIDIA: ");
    PRINTS(out, "cpu: cpu");
    ck_assert_int_eq(run_program("rfg-info", "--json"), 0);
    json_t *j = parsed(out);
    ck_assert(json_is_object(j));
    json_decref(j);
    /* The models' numbers: the table's, until the device was measured. */
    setenv("RFG_DB", "info.db", 1);
    RUNS(run_program("rfg-info", " "), 0, out, "by the built-in table");
    ck_assert_int_eq(run_program("rfg-tune", "--calibrate --device cpu"), 0);
    RUNS(run_program("rfg-info", " "), 0, out, "by rfg-tune --calibrate, 20");
    ck_assert_int_eq(run_program("rfg-info", "--json"), 0);
    j = parsed(out);
    const json_t *numbers = json_object_get(json_object_get(j, "cpu"), "numbers");
    ck_assert_str_eq(json_string_value(json_object_get(numbers, "from")), "rfg-tune --calibrate");
    ck_assert(json_number_value(json_object_get(numbers, "mem_gbps")) > 0);
    json_decref(j);
    unsetenv("RFG_DB");
    RUNS(run_program("rfg-info", "--jsn"), 2, err, "--jsn");
}
END_TEST

/* All variants that are kernels, or all sets of one. */
START_TEST(compile)
{
#define EMBEDDING "--source --arch gfx942 --problem \"embedding i64,bf16->bf16 M=8 N=512 V=1000\""
    RUNS(run_program("rfg-compile", EMBEDDING), 0, out, "embedding");
    ck_assert_str_eq(err, "");
    RUNS(run_program("rfg-compile", EMBEDDING " --variant embedding_cpu"), 2, err,
         "not a kernel variant of this operator");
    RUNS(run_program("rfg-compile", EMBEDDING " --variant embedding"), 2, err, "not a kernel variant of this operator");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bench");
    TCase *tc = test_case(s, "bench", program_setup, program_teardown);
    ADD_TESTS(tc, times_a_problem, times_every_variant, beside_copies, a_shapes_file, compares_with_a_baseline,
              bench_refusals, info, compile);
    return run_suite(s);
}
