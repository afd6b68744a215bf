/* SPDX-License-Identifier: MIT
 *
 * rfg-tune: its options, rows and messages. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "dispatch/jit/jit.h"
#include "tune_case.h"

START_TEST(writes_checked_rows_and_does_not_tune_twice)
{
    const char *const texts[] = { P1, P2, P3 };
    struct rfg_row row[3], again;
    write_file(csv_path, "op,dtype,M,N,K,attrs\ngemm,bf16,1,48,256,\ngemm,\"bf16,bf16->f32\",3,20,128,bias=1\n");
    assert_exit(run("--shapes", csv_path, "--problem", P3, "--seed", "7", "--per-shape", "0.3"), 0);
    assert_in(err, "3 of 3 shapes to tune; seed 7");
    assert_in(err, "[3/3] " P3);
    assert_in(out, "geomean: ");
    assert_in(out, "3 tuned, 0 up to date, 0 failed, 0 left out");
    for (int i = 0; i < 3; i++) {
        int p[RFG_MAX_PARAMS];
        struct rfg_reason why;
        struct rfg_problem prob = problem(texts[i]);
        assert_in(out, texts[i]);
        ck_assert_int_eq(get_row(texts[i], &row[i]), 1);
        const struct rfg_variant *var = rfg_variant_find(prob.op, row[i].variant);
        ck_assert_ptr_nonnull(var);
        ck_assert_msg(rfg_row_params(&row[i], var, p, &why), "%s", why.text);
        ck_assert_msg(rfg_variant_check(var, &dev, &prob, p, &why), "%s", why.text);
        ck_assert_double_gt(row[i].median_us, 0);
        ck_assert_double_ge(row[i].spread_us, 0);
        ck_assert_double_ge(row[i].default_us, row[i].median_us);
        ck_assert_double_eq(row[i].vendor_us, 0);
        ck_assert_int_ge(row[i].samples, 3);
        ck_assert(row[i].error <= row[i].error_bound && row[i].error_bound > 0);
        ck_assert_int_eq(row[i].how, RFG_SOURCE_MEASURED);
        ck_assert_uint_eq(row[i].seed, 7);
        ck_assert_str_ne(row[i].source_hash, "");
        ck_assert_str_ne(row[i].compiler, "");
        ck_assert_str_eq(row[i].version, rfg_version());
        ck_assert_str_eq(row[i].device, dev.arch); /* which has no product's name */
        ck_assert_uint_eq(strlen(row[i].date), 20);
    }
    assert_exit(run("--shapes", csv_path, "--problem", P3, "--seed", "8"), 0);
    assert_in(err, "0 of 3 shapes to tune");
    assert_in(out, "0 tuned, 3 up to date");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(get_row(texts[i], &again), 1);
        ck_assert_mem_eq(&again.median_us, &row[i].median_us, sizeof(again.median_us));
        ck_assert_uint_eq(again.seed, 7);
    }
    /* A row of another kernel source is tuned again, and so is any with --force. */
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    snprintf(row[0].source_hash, sizeof(row[0].source_hash), "of old");
    ck_assert_int_eq(rfg_db_put(db, &row[0]), RFG_OK);
    rfg_db_close(&db);
    assert_exit(run("--shapes", csv_path, "--problem", P3, "--seed", "9", "--per-shape", "0.3"), 0);
    assert_in(out, "1 tuned, 2 up to date");
    ck_assert(get_row(P1, &again) == 1 && again.seed == 9 && strcmp(again.source_hash, "of old"));
    assert_exit(run("--problem", P3, "--force", "--seed", "10", "--per-shape", "0.3"), 0);
    ck_assert(get_row(P3, &again) == 1 && again.seed == 10);
}
END_TEST

/* The hash of the code object that a row of emu:gfx90a names, as the cache has it. */
static void hash_of_code(const struct rfg_row *row, char hex[65])
{
    const struct rfg_variant *var = rfg_variant_find(row->problem.op, row->variant);
    struct rfg_cache *cache = rfg_cache_open(dir, 0);
    struct rfg_device gpu;
    struct rfg_jit_request req;
    struct rfg_kernel k;
    struct rfg_reason why;
    const struct rfg_blob *code;
    char name[RFG_CONFIG_STRLEN];
    int p[RFG_MAX_PARAMS];
    ck_assert(rfg_device_imagine(&gpu, "gfx90a:4") && var && rfg_row_params(row, var, p, &why));
    ck_assert_int_eq(rfg_variant_request(&gpu, &row->problem, var, p, &req, name, &k), RFG_OK);
    ck_assert_int_eq(rfg_cache_get(cache, &req, NULL, NULL, &code), RFG_OK);
    rfg_sha256_hex(hex, (const char *const[]){ code->data }, &code->size, 1);
    free((char *)req.source);
    rfg_cache_close(&cache);
}

/* Kernels are those of ops/ with an edit of act/act_device.h. */
static void edit_kernels(const char *sed)
{
    char cmd[1000];
    const char *root = rfg_env("RFG_SOURCE_ROOT");
    snprintf(cmd, sizeof(cmd), "mkdir -p %s/k/act && sed '%s' %s/ops/act/act_device.h > %s/k/act/act_device.h", dir,
             sed, root ? root : ".", dir);
    ck_assert_int_eq(system(cmd), 0);
    snprintf(cmd, sizeof(cmd), "%s/k", dir);
    setenv("RFG_KERNEL_DIR", cmd, 1);
}

/* A row is up to date while its kernel makes the code that was measured, whatever became of the text. */
START_TEST(rows_outlive_edits)
{
#define EMULATED "--device", "emu:gfx90a:4", "--problem", "act_and_mul bf16->bf16 M=1 N=64", "--candidates", "4"
    struct rfg_row row, again;
    char code[65];
    if (!rfg_jit_provider_for("gfx90a")) {
        printf("SKIPPED: rows that outlive edits: %s\n", rfg_last_error());
        return;
    }
    strcpy(dev.arch, "emu-gfx90a");
    dev.cu_count = 4;
    setenv("RFG_TEST_MEASURE", "steady:act", 1);
    setenv("RFG_VARIANTS", "act_and_mul_flat", 1);
    assert_exit(run(EMULATED, "--seed", "1"), 0);
    assert_in(out, "1 tuned, 0 up to date");
    ck_assert_int_eq(get_row("act_and_mul bf16->bf16 M=1 N=64", &row), 1);
    ck_assert_int_eq(row.how, RFG_SOURCE_MEASURED);
    hash_of_code(&row, code);
    ck_assert_str_eq(row.code_hash, code);

    edit_kernels("$ a #if RFG_NVIDIA\\n#error other\\n#endif");
    assert_exit(run(EMULATED, "--seed", "2", "--dry-run"), 0);
    assert_in(out, "up to date: act_and_mul_flat");
    assert_exit(run(EMULATED, "--seed", "2"), 0);
    assert_in(err, "the kernels of 1 rows have another text than was measured");
    assert_in(out, "0 tuned, 1 up to date");
    ck_assert_int_eq(get_row("act_and_mul bf16->bf16 M=1 N=64", &again), 1);
    ck_assert_str_ne(again.source_hash, row.source_hash);
    ck_assert_str_eq(again.code_hash, code);
    ck_assert_uint_eq(again.seed, 1);
    assert_exit(run(EMULATED, "--seed", "2"), 0); /* restamped: no compile tells it again */
    assert_not_in(err, "another text");
    assert_in(out, "0 tuned, 1 up to date");

    edit_kernels("s/    struct raw raw;/    struct raw raw; asm volatile(\"s_nop 1\");/");
    assert_exit(run(EMULATED, "--seed", "3"), 0);
    assert_in(out, "1 tuned, 0 up to date");
    ck_assert_int_eq(get_row("act_and_mul bf16->bf16 M=1 N=64", &again), 1);
    ck_assert_uint_eq(again.seed, 3);
    hash_of_code(&again, code);
    ck_assert_str_eq(again.code_hash, code);

    /* Of a compiler that isn't here nothing can be told: the row stays, and that is said. */
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    strcpy(again.compiler, "hiprtc of old");
    strcpy(again.source_hash, "of old");
    ck_assert_int_eq(rfg_db_put(db, &again), RFG_OK);
    rfg_db_close(&db);
    assert_exit(run(EMULATED, "--seed", "4"), 0);
    assert_in(out, "0 tuned, 1 up to date");
    assert_in(out, "1 of those up to date were measured with code of a compiler that is not here (--force");
    unsetenv("RFG_VARIANTS");
    unsetenv("RFG_KERNEL_DIR");
}
END_TEST

START_TEST(names_bad_lines_and_tunes_the_others)
{
    char where[400];
    struct rfg_row row;
    write_file(csv_path, "op,dtype,M,N,K\ngemm,bf16,one,48,256\ngemm,bf16,1,48,256\ngemm,int3,1,48,256\n");
    assert_exit(run("--shapes", csv_path, "--per-shape", "0.3"), 3);
    snprintf(where, sizeof(where), "%s:2: column M: 'one': must be ", csv_path);
    assert_in(err, where);
    snprintf(where, sizeof(where), "%s:4: column dtype: 'int3': must be ", csv_path);
    assert_in(err, where);
    assert_in(out, "1 tuned");
    ck_assert_int_eq(get_row(P1, &row), 1);

    write_file(csv_path, "op,dtype,M,N,K\ngemm,bf16,1,48,-256\n");
    assert_exit(run("--shapes", csv_path), 3);
    assert_in(err, "-256");
    assert_exit(run("--shapes", "/nonexistent/shapes.csv"), 3);
    assert_in(err, "/nonexistent/shapes.csv");
}
END_TEST

START_TEST(refuses_wrong_usage)
{
    static const struct {
        const char *args[4];
        int code;
        const char *says;
    } v[] = {
        { { "--problem", "gemm bf16 M=1" }, 2, "gemm bf16 M=1" },
        { { "--problem", P1 " ldx=512" }, 2, "strides" },
        { { "--problem", P1, "--per-shape", "soon" }, 2, "--per-shape 'soon': must be a number" },
        { { "--problem", P1, "--seed", "-1" }, 2, "--seed '-1': must be a whole number" },
        { { "--problem", P1, "--variants", "gemm_magic" }, 2, "'gemm_magic': no variant" },
        { { "--problem", P1, "--device", "tpu:0" }, 1, "tpu:0" },
        { { "--problem", P1, "--db", "/proc/nowhere/t.db" }, 1, "/proc/nowhere" },
        { { "--seed", "1" }, 2, "nothing to tune" },
        { { "shapes.csv" }, 2, "'shapes.csv': not an option" },
        { { "--fast" }, 2, "fast" },
    };
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        const char *args[8] = { "--db", db_path };
        memcpy(args + 2, v[i].args, sizeof(v[i].args));
        assert_exit(finish(start(args)), v[i].code);
        assert_in(err, v[i].says);
    }
    assert_exit(run("--help"), 0);
    assert_in(out, "exit code:");
}
END_TEST

/* Of all ranks; what is wrong on one of them counts. */
START_TEST(tunes_collectives)
{
    static const char *const ops[] = { "all_reduce", "reduce_scatter", "all_gather" };
    struct rfg_row row;
    char text[80];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "%s bf16->bf16 bytes=4096 ranks=3", ops[i]);
        assert_exit(run("--problem", text), 0);
        ck_assert_int_eq(get_row(text, &row), 1);
        ck_assert_str_eq(row.variant, "comm_cpu");
        ck_assert(row.median_us > 0 && row.samples >= 3);
        assert_exit(run("--problem", text), 0);
        assert_in(out, "1 up to date");
    }
    assert_exit(run("--problem", "all_reduce f32->f32 bytes=4096 ranks=2"), 2);
    assert_in(err, "must be bf16->bf16, which stands for all");
}
END_TEST

START_TEST(dry_run_lists_candidates_and_reasons)
{
    assert_exit(run("--problem", P1, "--dry-run"), 0);
    assert_in(out, P1);
    assert_in(out, "(default)");
    assert_in(out, "gemm_cpu_portable{rows=");
    assert_in(out, "sets of parameters refused");
    assert_in(out, "gemm_skinny: refused: ");
    ck_assert_int_ne(access(db_path, F_OK), 0);

    assert_exit(run("--problem", "gemm bf16,bf16->bf16 M=8 N=384 K=7168", "--dry-run", "--device", "gfx942:304"), 0);
    assert_in(out, "gemm_splitk_mma{");
    assert_in(out, "gemm_cpu_portable: refused: ");
    assert_exit(run("--problem", P1, "--dry-run", "--device", "gfx942:304", "--variants", "gemm_portable"), 0);
    assert_in(out, "gemm_portable{");
    assert_in(out, "gemm_splitk_mma: not listed");
    assert_not_in(out, "gemm_splitk_mma{");
    /* Imagined devices are for dry runs only. */
    assert_exit(run("--problem", P1, "--device", "gfx942:304"), 1);
    assert_in(err, "gfx942:304");
}
END_TEST

#define ROWS8 "rmsnorm bf16->bf16 M=8 N=512"
#define BY_TIME                                                                                                        \
    run("--problem", ROWS8, "--by-time", "--candidates", "3", "--device", "emu:gfx942:304", "--seed", "7", "--force")

static int get_predicted(struct rfg_row *row)
{
    struct rfg_problem prob = problem(ROWS8);
    struct rfg_db *db = open_db(RFG_DB_READ);
    int found = rfg_db_get(db, &prob, "gfx942", 304, NULL, row);
    rfg_db_close(&db);
    return found;
}

/* Rows for a GPU that isn't there: where the clock finds another candidate than the model's first, which is right, and
 * faster by more than it errs. */
START_TEST(by_time)
{
    struct rfg_row row, again;
    misbehave("lag:threads=64");
    assert_exit(BY_TIME, 0);
    assert_in(out, "1 tuned, 0 up to date, 0 failed");
    ck_assert_int_eq(get_predicted(&row), 1);
    ck_assert_int_eq(row.how, RFG_SOURCE_PREDICTED);
    ck_assert_ptr_nonnull(strstr(row.params, "\"threads\":32,"));
    ck_assert_str_eq(row.driver, "clock 2");
    ck_assert_double_eq_tol(row.spread_us, 0.15 * row.median_us, 1e-9);
    ck_assert_double_gt(row.default_us, row.median_us + row.spread_us);
    ck_assert(row.median_us > 2.4 && row.median_us < 20); /* which an idle launch takes, and none of these */
    ck_assert(row.error_bound == 1 && row.error < 1 && row.samples == 0 && row.seed == 7);
    ck_assert_str_eq(row.device, "");
    ck_assert(*row.source_hash && *row.code_hash && *row.compiler);
    assert_exit(run("--problem", ROWS8, "--by-time", "--device", "emu:gfx942:304"), 0);
    assert_in(out, "0 tuned, 1 up to date");
    assert_exit(BY_TIME, 0); /* in another process, whose memory lies elsewhere */
    ck_assert(get_predicted(&again) == 1 && again.median_us == row.median_us && again.default_us == row.default_us);

    misbehave("lag:threads=64;wrong:threads=32");
    assert_exit(BY_TIME, 0);
    ck_assert_int_eq(get_predicted(&again), 1);
    ck_assert_ptr_nonnull(strstr(again.params, "\"threads\":16,"));

    misbehave("");
    assert_exit(BY_TIME, 0);
    assert_in(out, "no row: ");
    assert_in(out, "1 need no row");
    ck_assert_int_eq(get_predicted(&again), 0);
    assert_exit(run("--problem", ROWS8, "--by-time", "--candidates", "3", "--device", "emu:gfx942:304", "--json", "-"),
                0);
    assert_in(out, "\"state\": \"no row\"");
    assert_in(out, "\"predicted_us\": "); /* of each candidate, beside the clock's */
    assert_in(out, "\"us\": ");

    struct rfg_db *db = open_db(RFG_DB_WRITE);
    row.how = RFG_SOURCE_MEASURED;
    row.samples = 3;
    ck_assert_int_eq(rfg_db_put(db, &row), RFG_OK);
    rfg_db_close(&db);
    assert_exit(BY_TIME, 0);
    assert_in(out, "0 tuned, 1 up to date");
    ck_assert(get_predicted(&again) == 1 && again.how == RFG_SOURCE_MEASURED);
}
END_TEST

START_TEST(by_time_of_what)
{
    static const struct {
        const char *option, *value, *device;
        int code;
        const char *says;
    } bad[] = {
        { NULL, NULL, "gfx942:304", 1, "--by-time: --device 'gfx942:304': must be an emulated GPU, as emu:gfx950:256" },
        { NULL, NULL, "emu:gfx9", 1, "--device 'emu:gfx9': must be an emulated GPU" },
        { NULL, NULL, "emu:gfx1100:4", 1, "--device 'emu:gfx1100:4': must be of gfx942 or gfx950" },
        { "--dry-run", NULL, "emu:gfx942:304", 2, "--by-time: can't be combined with --dry-run" },
        { "--calibrate", NULL, "emu:gfx942:304", 2, "--by-time: can't be combined with --calibrate" },
        { "--per-shape", "1", "emu:gfx942:304", 2, "--by-time: can't be combined with --per-shape" },
        { "--jobs", "2", "emu:gfx942:304", 2, "--by-time: can't be combined with --jobs" },
        { "--report", "x.html", "emu:gfx942:304", 2,
          "--report: is about measurements of problems: --by-time makes none" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_exit(run("--problem", ROWS8, "--by-time", "--device", bad[i].device, bad[i].option, bad[i].value),
                    bad[i].code);
        assert_in(err, bad[i].says);
    }
}
END_TEST

START_TEST(calibrates)
{
    char model[80], was[80];
    assert_exit(run("--problem", P1, "--dry-run"), 0);
    const char *line = strstr(out, " us  gemm_cpu");
    ck_assert_ptr_nonnull(line);
    snprintf(was, sizeof(was), "%.30s", line - 12);
    assert_exit(run("--calibrate"), 0);
    assert_in(out, "cpu: ");
    assert_in(out, "memory ");
    assert_in(out, "launch ");
    /* Numbers that no cpu has: a run that goes by them says so. */
    struct rfg_calibration c = { 0.5, 100, 900, 1, 1, "", "", "today" };
    struct rfg_db *db;
    snprintf(c.device, sizeof(c.device), "%s", dev.arch);
    ck_assert_int_eq(rfg_db_open(&db, db_path, RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(rfg_db_put_calibration(db, dev.arch, dev.cu_count, &c), RFG_OK);
    rfg_db_close(&db);
    assert_exit(run("--problem", P1, "--dry-run"), 0);
    line = strstr(out, " us  gemm_cpu");
    ck_assert_ptr_nonnull(line);
    snprintf(model, sizeof(model), "%.30s", line - 12);
    ck_assert_msg(strcmp(was, model), "%s, both times", model);
    assert_exit(run("--calibrate", "--dry-run"), 1);
    assert_in(err, "--calibrate");
    assert_exit(run("--calibrate", "--device", "emu:gfx90a:4"), 1);
    assert_in(err, "emulator");
}
END_TEST

START_TEST(tunes_the_misses_most_called_first)
{
    struct rfg_problem p1 = problem(P1), p2 = problem(P2), p3 = problem(P3);
    struct rfg_row row;
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    ck_assert_int_eq(rfg_db_add_misses(db, &p1, dev.arch, dev.cu_count, 4, 5), RFG_OK);
    ck_assert_int_eq(rfg_db_add_misses(db, &p2, dev.arch, dev.cu_count, 4, 9), RFG_OK);
    ck_assert_int_eq(rfg_db_add_misses(db, &p3, "gfx942", 304, 4, 100), RFG_OK);
    rfg_db_close(&db);
    assert_exit(run("--from-misses", "--per-shape", "0.3"), 0);
    assert_in(err, "[1/2] " P2);
    assert_in(err, "[2/2] " P1);
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert_int_eq(get_row(P2, &row), 1);
    ck_assert_int_eq(get_row(P3, &row), 0);
    assert_exit(run("--from-misses"), 0);
    assert_in(err, "no misses recorded for ");
    assert_exit(run("--from-misses", "--dry-run", "--device", "gfx942:304"), 0);
    assert_in(out, P3);
}
END_TEST

START_TEST(writes_json_and_a_page)
{
    char html[300];
    snprintf(html, sizeof(html), "%s/r.html", dir);
    assert_exit(run("--problem", P1, "--problem", P3, "--json", "-", "--report", html, "--per-shape", "0.3"), 0);
    json_t *j = json_loads(out, 0, NULL);
    ck_assert_msg(j != NULL, "not JSON:\n%s", out);
    json_t *shapes = json_object_get(j, "shapes"), *s = json_array_get(shapes, 1);
    ck_assert_uint_eq(json_array_size(shapes), 2);
    ck_assert_str_eq(json_string_value(json_object_get(s, "problem")), P3);
    ck_assert_str_eq(json_string_value(json_object_get(s, "state")), "tuned");
    ck_assert_double_gt(json_number_value(json_object_get(s, "median_us")), 0);
    ck_assert(json_is_object(json_object_get(s, "params")));
    ck_assert_str_eq(json_string_value(json_object_get(j, "arch")), dev.arch);
    json_decref(j);
    assert_in(err, "2 tuned"); /* the table makes way */
    char *page = rfg_read_file(html, NULL);
    ck_assert_ptr_nonnull(page);
    assert_in(page, "<svg");
    assert_in(page, "bf16,bf16-&gt;bf16 M=1 N=48 K=256");
    assert_in(page, "</html>");
    assert_not_in(page, "://");
    free(page);
    assert_exit(run("--problem", P1, "--report", "/nonexistent/r.html"), 1);
    assert_in(err, "/nonexistent/r.html");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tune");
    TCase *tc = test_case(s, "tune", setup, teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, writes_checked_rows_and_does_not_tune_twice, rows_outlive_edits, names_bad_lines_and_tunes_the_others,
              refuses_wrong_usage, tunes_collectives, dry_run_lists_candidates_and_reasons, calibrates, by_time,
              by_time_of_what, tunes_the_misses_most_called_first, writes_json_and_a_page);
    return run_suite(s);
}
