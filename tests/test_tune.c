/* SPDX-License-Identifier: MIT
 *
 * rfg-tune, driven as a person does: what it writes, what it says, and what survives when it is killed. All on the cpu
 * device with tiny problems. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../dispatch/context.h"
#include "../dispatch/util.h"
#include "suite.h"

static char dir[256], db_path[300], csv_path[300];
static struct rfg_device dev;

/* Everything in a directory of its own; two threads and no instruction sets, so that candidates are the same
 * everywhere. */
static void setup(void)
{
    snprintf(dir, sizeof(dir), "%s/rfg-test-tune-XXXXXX", rfg_env("TMPDIR") ? rfg_env("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db_path, sizeof(db_path), "%s/t.db", dir);
    snprintf(csv_path, sizeof(csv_path), "%s/shapes.csv", dir);
    setenv("HOME", dir, 1);
    setenv("XDG_DATA_HOME", dir, 1);
    setenv("RFG_CACHE_DIR", dir, 1);
    setenv("RFG_CPU_ISA", "portable", 1);
    setenv("RFG_THREADS", "2", 1);
    setenv("RFG_DEVICE", "cpu", 1);
    unsetenv("RFG_DB");
    unsetenv("RFG_VARIANTS");
    unsetenv("RFG_LOG");
    unsetenv("RFG_TEST_MEASURE");
    unsetenv("RFG_TEST_MEASURE_TIMEOUT");
    rfg_device_cpu(&dev, 2);
}

static void teardown(void)
{
    char cmd[300];
    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* ---- running it ------------------------------------------------------------------------------------------------- */

static char *out, *err; /* of the last run */

static pid_t start(const char *const *args)
{
    char path[512], out_path[300], err_path[300];
    const char *bin = rfg_env("RFG_BINDIR"), *argv[32] = { "rfg-tune" };
    int n = 1;
    snprintf(path, sizeof(path), "%s/rfg-tune", bin ? bin : "build/bin");
    snprintf(out_path, sizeof(out_path), "%s/out", dir);
    snprintf(err_path, sizeof(err_path), "%s/err", dir);
    while (*args && n < 31)
        argv[n++] = *args++;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int o = open(out_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        int e = open(err_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (dup2(o, 1) < 0 || dup2(e, 2) < 0)
            _exit(99);
        execv(path, (char *const *)(uintptr_t)argv);
        fprintf(stderr, "can't run %s\n", path);
        _exit(99);
    }
    return pid;
}

/* The exit status, or -signal. */
static int finish(pid_t pid)
{
    char path[300];
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    free(out);
    free(err);
    snprintf(path, sizeof(path), "%s/out", dir);
    out = rfg_read_file(path, NULL);
    snprintf(path, sizeof(path), "%s/err", dir);
    err = rfg_read_file(path, NULL);
    ck_assert(out && err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#define run(...) finish(start((const char *const[]){ "--db", db_path, __VA_ARGS__, NULL }))

#define assert_exit(code, wanted)                                                                                      \
    do {                                                                                                               \
        int got = (code);                                                                                              \
        ck_assert_msg(got == (wanted), "exit code %d, not %d\nstdout:\n%s\nstderr:\n%s", got, (wanted), out, err);     \
    } while (0)
#define assert_in(text, part)     ck_assert_msg(strstr(text, part) != NULL, "no '%s' in:\n%s", part, text)
#define assert_not_in(text, part) ck_assert_msg(strstr(text, part) == NULL, "'%s' in:\n%s", part, text)

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void nap(double s)
{
    nanosleep(&(struct timespec){ (time_t)s, (long)((s - (double)(time_t)s) * 1e9) }, NULL);
}

/* ---- the database --------------------------------------------------------------------------------------------------
 */

static struct rfg_problem problem(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s", why.text);
    return p;
}

static struct rfg_db *open_db(enum rfg_db_mode mode)
{
    struct rfg_db *db;
    ck_assert_msg(rfg_db_open(&db, db_path, mode) == RFG_OK, "%s", rfg_last_error());
    return db;
}

static int get_row(const char *text, struct rfg_row *row)
{
    struct rfg_problem p = problem(text);
    struct rfg_db *db = open_db(RFG_DB_READ);
    int found = rfg_db_get(db, &p, dev.arch, dev.cu_count, row);
    rfg_db_close(&db);
    return found;
}

static bool collect(void *ctx, const struct rfg_row *row, const char *bad)
{
    char text[RFG_PROBLEM_STRLEN], *keys = ctx;
    ck_assert_msg(!bad, "%s", bad);
    rfg_problem_format(&row->problem, text, sizeof(text));
    ck_assert_uint_lt(strlen(keys) + strlen(text) + 2, 8192);
    strcat(strcat(keys, text), "\n");
    return true;
}

/* All problem strings, in the database's stable order. */
static char *all_keys(char keys[8192])
{
    struct rfg_db *db = open_db(RFG_DB_READ);
    keys[0] = 0;
    ck_assert_int_eq(rfg_db_each(db, NULL, collect, keys), RFG_OK);
    rfg_db_close(&db);
    return keys;
}

static void check_integrity(void)
{
    sqlite3 *s;
    sqlite3_stmt *q;
    ck_assert_int_eq(sqlite3_open_v2(db_path, &s, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(s, "PRAGMA integrity_check", -1, &q, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(s);
}

#define P1 "gemm bf16,bf16->bf16 M=1 N=48 K=256"
#define P2 "gemm bf16,bf16->f32 M=3 N=20 K=128 bias=1"
#define P3 "gemm f32,f32->f32 M=5 N=17 K=33"

/* ---- tests
 * ------------------------------------------------------------------------------------------------------------ */

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
        ck_assert_str_eq(row[i].device, "cpu");
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

/* The model's first choice, as a row that says so; nothing takes the place of a measured one. */
START_TEST(predicts_for_a_device_that_is_not_there)
{
    static const char text[] = "gemm bf16,bf16->bf16 M=8 N=384 K=7168";
    struct rfg_problem prob = problem(text);
    struct rfg_row row, measured;
    struct rfg_reason why;
    struct rfg_db *db;
    struct rfg_device gpu;
    int p[RFG_MAX_PARAMS];
    ck_assert(rfg_device_imagine(&gpu, "gfx942:304"));
    write_file(csv_path, "op,dtype,M,N,K\ngemm,bf16,8,384,7168\ngemm,bf16,512,384,7168\n");
    assert_exit(run("--shapes", csv_path, "--predict", "--max-m", "256", "--device", "gfx942:304"), 0);
    ck_assert_int_eq(rfg_db_open(&db, db_path, RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(rfg_db_get(db, &prob, "gfx942", 304, &row), 1);
    ck_assert_int_eq(row.how, RFG_SOURCE_PREDICTED);
    ck_assert_int_eq(row.samples, 0);
    const struct rfg_variant *var = rfg_variant_find(prob.op, row.variant);
    ck_assert(var && rfg_row_params(&row, var, p, &why) && rfg_variant_check(var, &gpu, &prob, p, &why));
    ck_assert_double_eq_tol(row.median_us, var->predict(&gpu, &prob, p), 1e-9);
    prob = problem("gemm bf16,bf16->bf16 M=512 N=384 K=7168");
    ck_assert_int_eq(rfg_db_get(db, &prob, "gfx942", 304, &measured), 0);

    measured = row;
    measured.how = RFG_SOURCE_MEASURED;
    measured.samples = 3;
    measured.median_us = 1.5;
    strcpy(measured.source_hash, "of other sources");
    ck_assert_int_eq(rfg_db_put(db, &measured), RFG_OK);
    assert_exit(run("--problem", text, "--predict", "--device", "gfx942:304"), 0);
    assert_in(out, "0 tuned, 1 up to date");
    prob = problem(text);
    ck_assert_int_eq(rfg_db_get(db, &prob, "gfx942", 304, &row), 1);
    ck_assert_int_eq(row.how, RFG_SOURCE_MEASURED);
    ck_assert_double_eq(row.median_us, 1.5);
    rfg_db_close(&db);

    assert_exit(run("--problem", text, "--predict", "--dry-run", "--device", "gfx942:304"), 2);
    assert_in(err, "--predict");
}
END_TEST

#define HANGS   "gemm_cpu_portable{rows=1,cols=1,k_block=0,prefetch=0}"
#define CRASHES "gemm_cpu_portable{rows=2,cols=1,k_block=0,prefetch=1}"
#define WRONG   "gemm_cpu_portable{rows=4,cols=1,k_block=0,prefetch=2}"

static void check_failed(struct rfg_db *db, const struct rfg_row *row, const char *config, const char *what)
{
    char got[64] = "";
    struct rfg_problem prob = problem(P1);
    ck_assert_msg(rfg_db_failed(db, &prob, dev.arch, dev.cu_count, config, row->source_hash, got, sizeof(got)) == 1,
                  "%s is not remembered", config);
    assert_in(got, what);
}

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

START_TEST(skips_and_remembers_faulty_candidates)
{
    char json_path[300];
    struct rfg_row row;
    json_t *j, *s;
    setenv("RFG_TEST_MEASURE", "hang:" HANGS ";crash:" CRASHES ";wrong:" WRONG, 1);
    setenv("RFG_TEST_MEASURE_TIMEOUT", "1", 1);
    assert_exit(run("--problem", P1, "--candidates", "1000"), 0);
    assert_in(err, HANGS ": hung: no answer after");
    assert_in(err, CRASHES ": fault: ");
    assert_in(err, WRONG ": wrong: ");
    assert_in(err, "seed"); /* the harness' message of what was wrong */
    ck_assert_int_eq(get_row(P1, &row), 1);
    assert_not_in(out, HANGS);
    assert_not_in(out, CRASHES);
    assert_not_in(out, WRONG);
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    check_failed(db, &row, HANGS, "hung");
    check_failed(db, &row, CRASHES, "fault");
    check_failed(db, &row, WRONG, "wrong");

    /* The next sweep leaves them out, though nothing would go wrong now; --force does not. */
    unsetenv("RFG_TEST_MEASURE");
    snprintf(json_path, sizeof(json_path), "%s/j.json", dir);
    snprintf(row.source_hash, sizeof(row.source_hash), "of old"); /* tuned again */
    ck_assert_int_eq(rfg_db_put(db, &row), RFG_OK);
    rfg_db_close(&db);
    assert_exit(run("--problem", P1, "--json", json_path), 0);
    ck_assert_ptr_nonnull(j = json_load_file(json_path, 0, NULL));
    s = json_array_get(json_object_get(j, "shapes"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(s, "remembered")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(s, "failed")), 0);
    json_decref(j);
    assert_exit(run("--problem", P1, "--force", "--json", json_path), 0);
    ck_assert_ptr_nonnull(j = json_load_file(json_path, 0, NULL));
    s = json_array_get(json_object_get(j, "shapes"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(s, "remembered")), 0);
    json_decref(j);
}
END_TEST

START_TEST(writes_nothing_unless_something_is_right)
{
    struct rfg_row row;
    setenv("RFG_TEST_MEASURE", "wrong:gemm_cpu", 1);
    assert_exit(run("--problem", P1), 1);
    assert_in(out, P1 " failed: no candidate passed");
    ck_assert_int_eq(get_row(P1, &row), 0);
    unsetenv("RFG_TEST_MEASURE");
    assert_exit(run("--problem", P1), 1);
    assert_in(out, "every candidate failed in an earlier run");
    assert_exit(run("--problem", P1, "--force"), 0);
    ck_assert_int_eq(get_row(P1, &row), 1);
}
END_TEST

/* Right at first, wrong after many launches: no such candidate may win. Whoever is the fastest, in one of the two runs
 * it is such a candidate, and found out. */
START_TEST(checks_the_winner_again)
{
    static const char *const wears[] = { "wears:rows=1", "wears:rows=2;wears:rows=4" };
    struct rfg_row row;
    int found = 0;
    for (int i = 0; i < 2; i++) {
        setenv("RFG_TEST_MEASURE", wears[i], 1);
        assert_exit(run("--problem", P1, "--force"), 0);
        found += strstr(err, ": wrong: ") != NULL;
        ck_assert_int_eq(get_row(P1, &row), 1);
        ck_assert_msg(!strstr(row.params, "\"rows\":1") == !i, "%s: %s", wears[i], row.params);
    }
    ck_assert_msg(found, "neither run found a wrong winner: %s", err);
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
    assert_not_in(page, "http");
    free(page);
    assert_exit(run("--problem", P1, "--report", "/nonexistent/r.html"), 1);
    assert_in(err, "/nonexistent/r.html");
}
END_TEST

START_TEST(keeps_to_the_time_budget)
{
    struct rfg_row row;
    assert_exit(run("--problem", P1, "--problem", P3, "--time-budget", "0.0001"), 4);
    assert_in(out, "left out, the time budget was up:\n  " P1 "\n  " P3);
    ck_assert_int_eq(get_row(P1, &row), 0);
}
END_TEST

/* Is there still a measuring process of that parent? */
static bool has_child(pid_t parent)
{
    char path[300], want[64];
    int len = snprintf(want, sizeof(want), "--measure-worker%c%d", 0, (int)parent) + 1;
    bool found = false;
    DIR *proc = opendir("/proc");
    ck_assert_ptr_nonnull(proc);
    for (struct dirent *e; !found && (e = readdir(proc));) {
        size_t size = 0;
        snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
        char *text = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? rfg_read_file(path, &size) : NULL;
        found = text && memmem(text, size, want, (size_t)len);
        free(text);
    }
    closedir(proc);
    return found;
}

static void check_no_child(pid_t parent)
{
    for (int i = 0; i < 100 && has_child(parent); i++)
        nap(0.05);
    ck_assert(!has_child(parent));
}

START_TEST(stops_at_an_interrupt)
{
    struct rfg_row row;
    setenv("RFG_TEST_MEASURE", "hang:gemm_cpu", 1);
    assert_exit(run("--problem", P3, "--dry-run"), 0);
    pid_t pid = start((const char *const[]){ "--db", db_path, "--problem", P1, "--problem", P3, NULL });
    nap(0.7);
    double before = rfg_now();
    kill(pid, SIGINT);
    assert_exit(finish(pid), 130);
    ck_assert_double_lt(rfg_now() - before, 5);
    assert_in(out, "left out:\n  " P1 "\n  " P3);
    ck_assert_int_eq(get_row(P1, &row), 0);
    check_no_child(pid);

    /* A measuring process in the midst of a hang ends with its parent, too. */
    pid = start((const char *const[]){ "--db", db_path, "--problem", P1, NULL });
    for (int i = 0; i < 100 && !has_child(pid); i++)
        nap(0.05);
    nap(0.2);
    kill(pid, SIGKILL);
    assert_exit(finish(pid), -SIGKILL);
    check_no_child(pid);
}
END_TEST

#define KILLS 10

START_TEST(loses_nothing_when_it_is_killed)
{
    char whole[8192], keys[8192], text[4096] = "op,dtype,M,N,K\n";
    unsigned seed = (unsigned)time(NULL);
    double started;
    for (int i = 1; i <= 16; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "gemm,bf16,%d,%d,512\n", i, 16 * i);
    write_file(csv_path, text);
    started = rfg_now();
    assert_exit(run("--shapes", csv_path, "--per-shape", "0.1"), 0);
    double took = rfg_now() - started;
    all_keys(whole);
    ck_assert_int_eq(unlink(db_path), 0);

    char previous[8192] = "";
    srand(seed);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = start((const char *const[]){ "--db", db_path, "--shapes", csv_path, "--per-shape", "0.1", NULL });
        nap(0.3 * took * rand() / RAND_MAX);
        kill(pid, SIGKILL);
        finish(pid);
        check_no_child(pid);
        if (access(db_path, F_OK))
            continue; /* it didn't come that far */
        check_integrity();
        /* What was written stays: each line of before is still there. */
        all_keys(keys);
        for (char *line = strtok(previous, "\n"); line; line = strtok(NULL, "\n"))
            ck_assert_msg(strstr(keys, line), "'%s' is lost (seed %u)", line, seed);
        strcpy(previous, keys);
    }
    assert_exit(run("--shapes", csv_path, "--per-shape", "0.1"), 0);
    check_integrity();
    all_keys(keys);
    ck_assert_msg(!strcmp(keys, whole), "seed %u: undisturbed:\n%skilled:\n%s", seed, whole, keys);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tune");
    TCase *tc = tcase_create("tune");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, writes_checked_rows_and_does_not_tune_twice);
    tcase_add_test(tc, names_bad_lines_and_tunes_the_others);
    tcase_add_test(tc, refuses_wrong_usage);
    tcase_add_test(tc, dry_run_lists_candidates_and_reasons);
    tcase_add_test(tc, calibrates);
    tcase_add_test(tc, predicts_for_a_device_that_is_not_there);
    tcase_add_test(tc, skips_and_remembers_faulty_candidates);
    tcase_add_test(tc, writes_nothing_unless_something_is_right);
    tcase_add_test(tc, checks_the_winner_again);
    tcase_add_test(tc, tunes_the_misses_most_called_first);
    tcase_add_test(tc, writes_json_and_a_page);
    tcase_add_test(tc, keeps_to_the_time_budget);
    tcase_add_test(tc, stops_at_an_interrupt);
    tcase_add_test(tc, loses_nothing_when_it_is_killed);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
