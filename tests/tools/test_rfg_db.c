/* SPDX-License-Identifier: MIT
 *
 * The program rfg-db: each command's output and exit code. */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/jit/jit.h"
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/program.h"
#include "tests/suite.h"

#define run(...) run_program("rfg-db", __VA_ARGS__)

static struct rfg_row make(int m, double us, enum rfg_source how, const char *date)
{
    struct rfg_row r = { .arch = "cpu-x",
                         .cu_count = 2,
                         .variant = "gemm_cpu_portable",
                         .median_us = us,
                         .spread_us = 0.5,
                         .samples = 9,
                         .error = 0.1,
                         .error_bound = 1,
                         .default_us = 2 * us,
                         .source_hash = "rfg-" RFG_VERSION,
                         .version = RFG_VERSION,
                         .device = "cpu",
                         .seed = 1,
                         .how = how };
    struct rfg_reason why;
    char text[100];
    int p[RFG_MAX_PARAMS];
    snprintf(text, sizeof(text), "gemm bf16,bf16->bf16 M=%d N=2 K=64", m);
    snprintf(r.date, sizeof(r.date), "%s", date);
    ck_assert(rfg_problem_parse(&r.problem, text, &why));
    for (int i = 0; i < gemm_cpu_portable.n_params; i++)
        p[i] = gemm_cpu_portable.params[i].values[0];
    rfg_params_json(&gemm_cpu_portable, p, r.params, sizeof(r.params));
    return r;
}

static void put(const char *path, struct rfg_row r)
{
    struct rfg_db *db;
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_put(db, &r) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

static double median(const char *path, int m)
{
    struct rfg_row r = make(m, 1, RFG_SOURCE_MEASURED, ""), got;
    struct rfg_db *db;
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_READ) == RFG_OK, "%s", rfg_last_error());
    int found = rfg_db_get(db, &r.problem, r.arch, r.cu_count, NULL, &got);
    rfg_db_close(&db);
    return found == 1 ? got.median_us : -found;
}

#define DAY1 "2026-11-01T00:00:00Z"
#define DAY2 "2026-11-02T00:00:00Z"

START_TEST(list_and_show)
{
    put("a.db", make(8, 5, RFG_SOURCE_MEASURED, DAY1));
    struct rfg_row clocked = make(16, 6, RFG_SOURCE_PREDICTED, DAY1);
    snprintf(clocked.driver, sizeof(clocked.driver), "clock 7");
    put("a.db", clocked);
    RUNS(run("list a.db"), 0, out, "gemm bf16,bf16->bf16 M=8 N=2 K=64");
    PRINTS(out, "gemm_cpu_portable{rows=");
    PRINTS(out, "2.00x");
    PRINTS(out, "  predicted by clock 7  ");
    ck_assert_ptr_null(strstr(out, "measured by"));
    PRINTS(out, "2 rows");
    RUNS(run("list --arch gfx942 a.db"), 0, out, "0 rows");
    ck_assert_int_eq(run("list --json a.db"), 0);
    json_t *all = json_loads(out, 0, NULL);
    ck_assert_uint_eq(json_array_size(all), 2);
    json_t *row = json_array_get(all, 0);
    ck_assert_str_eq(json_string_value(json_object_get(row, "problem")), "gemm bf16,bf16->bf16 M=8 N=2 K=64");
    ck_assert_double_eq(json_real_value(json_object_get(row, "median_us")), 5);
    ck_assert_int_eq(json_integer_value(json_object_get(row, "cu_count")), 2);
    ck_assert(json_is_object(json_object_get(row, "params")));
    json_decref(all);
    RUNS(run("show a.db 'gemm bf16,bf16->bf16 K=64 M=16 N=2'"), 0, out, "median_us    6\n");
    PRINTS(out, "how          predicted\n");
    RUNS(run("show a.db 'gemm bf16,bf16->bf16 K=64 M=17 N=2'"), 1, err, "no row for");
    RUNS(run("show a.db nonsense"), 2, err, "op 'nonsense'");
}
END_TEST

START_TEST(export_and_import)
{
    put("a.db", make(8, 5, RFG_SOURCE_MEASURED, DAY1));
    ck_assert_int_eq(run("export -o a.csv a.db"), 0);
    ck_assert_int_eq(run("export a.db"), 0);
    ck_assert_int_eq(system("cmp -s a.csv out"), 0);
    RUNS(run("import --how keep --db b.db a.csv"), 0, out, "b.db: 1 rows imported");
    ck_assert_int_eq(run("export b.db"), 0);
    ck_assert_int_eq(system("cmp -s a.csv out"), 0);
    ck_assert_int_eq(run("import --db b.db a.csv"), 0); /* as imported: the measurement stays */
    PRINTS(out, "0 rows imported, 1 not");
    /* two files: all or nothing */
    ck_assert_int_eq(system("sed 's/,8,2,64,/,9,2,64,/' a.csv > good.csv; sed 's/measured/guessed/' a.csv > bad.csv"),
                     0);
    ck_assert_int_eq(run("import --db c.db good.csv bad.csv"), 2);
    PRINTS(err, "bad.csv:2: column how: 'guessed': must be measured, imported, provisional or predicted");
    ck_assert_int_ne(access("c.db", F_OK), 0);
    /* a system database: one file, complete or not there */
    ck_assert_int_eq(run("import --system --db sys.db a.csv good.csv"), 0);
    ck_assert_double_eq(median("sys.db", 9), 5);
    ck_assert_int_eq(run("import --system --db sys.db a.csv bad.csv"), 2);
    ck_assert_double_eq(median("sys.db", 9), 5);
    ck_assert_int_eq(system("test $(ls sys.db* | wc -l) = 1"), 0);
}
END_TEST

/* What is written lies in a directory of its own beside the target until it is whole: planted links are not followed,
 * what isn't ours is not replaced, and what a kill left goes. */
START_TEST(leaves_and_follows_nothing)
{
    put("a.db", make(8, 5, RFG_SOURCE_MEASURED, DAY1));
    ck_assert_int_eq(run("export -o a.csv a.db"), 0);
    ck_assert_int_eq(system("mkdir a.csv.tmp-AbC123 sys.db.tmp-AbC123 && echo x > sys.db.tmp-AbC123/db-wal"), 0);
    ck_assert_int_eq(system("echo mine > photo; for i in $(seq 1 50); do ln -sf photo a.csv.tmp-$i; done"), 0);
    ck_assert_int_eq(run("export -o a.csv a.db"), 0);
    ck_assert_int_eq(run("import --system --db sys.db a.csv"), 0);
    ck_assert_int_eq(
        system("test $(ls -d a.csv* | wc -l) = 51 && test $(ls -d sys.db* | wc -l) = 1 && grep -q mine photo"), 0);
    RUNS(run("import --system --db photo a.csv"), 2, err, "photo: not an SQLite file");
    ck_assert_int_eq(run("import --db photo a.csv"), 2);
    ck_assert_int_eq(run("merge --db photo a.db"), 2);
    ck_assert_int_eq(run("export -o photo photo"), 2);
    ck_assert_int_eq(system("test \"$(cat photo)\" = mine && test $(ls -d photo* | wc -l) = 1"), 0);
    RUNS(run("export -o /dev/full a.db"), 2, err, "/dev/full: cannot write: No space left");
    ck_assert_int_eq(system("test -c /dev/full"), 0);
}
END_TEST

/* A file of nothing but bad rows makes a few messages. */
START_TEST(a_few_messages_of_a_kind)
{
    struct rfg_row r = make(8, 5, RFG_SOURCE_MEASURED, DAY1);
    struct rfg_row *rows = calloc(200, sizeof(*rows));
    struct rfg_db *db;
    for (int i = 0; i < 200; i++)
        rows[i] = make(i + 1, 5, RFG_SOURCE_MEASURED, DAY1);
    ck_assert_int_eq(rfg_db_open(&db, "a.db", RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(rfg_db_put_all(db, rows, 200, NULL), RFG_OK);
    rfg_db_close(&db);
    free(rows);
    put("b.db", r);
    ck_assert_int_eq(system("python3 -c 'import sqlite3; d = sqlite3.connect(\"a.db\"); d.execute(\"update tuned set "
                            "dtypes=1\"); d.commit()'"),
                     0);
    RUNS(run("list a.db"), 0, err, "a.db: 200 rows not understood in all");
    ck_assert_int_eq(system("test $(wc -l < err) = 11"), 0);
    ck_assert_int_eq(run("merge --db b.db a.db"), 0);
    ck_assert_int_eq(system("test $(wc -l < err) = 11"), 0);
}
END_TEST

START_TEST(merging)
{
    put("a.db", make(8, 5, RFG_SOURCE_MEASURED, DAY1));
    put("b.db", make(8, 6, RFG_SOURCE_MEASURED, DAY2));
    put("c.db", make(8, 1, RFG_SOURCE_PREDICTED, DAY2));
    put("c.db", make(9, 7, RFG_SOURCE_PREDICTED, DAY2));
    ck_assert_int_eq(run("merge --db fast.db a.db b.db c.db"), 0);
    PRINTS(out, "M=8 N=2 K=64, cpu-x, 2 CUs: a.db (5.00 us, measured, " DAY1 ") over b.db (6.00 us, measured, " DAY2
                "): fastest");
    PRINTS(out, "over c.db (1.00 us, predicted, " DAY2 "): better evidence");
    PRINTS(out, "fast.db: 2 rows, 2 conflicts settled");
    ck_assert_double_eq(median("fast.db", 8), 5);
    ck_assert_double_eq(median("fast.db", 9), 7);
    ck_assert_int_eq(run("merge --db new.db --prefer newest a.db b.db"), 0);
    PRINTS(out, "b.db (6.00 us, measured, " DAY2 ") over a.db (5.00 us, measured, " DAY1 "): newest");
    ck_assert_double_eq(median("new.db", 8), 6);
    ck_assert_int_eq(run("merge --db new.db a.db"), 0); /* OUT's own rows take part */
    PRINTS(out, "a.db (5.00 us, measured, " DAY1 ") over new.db");
    ck_assert_double_eq(median("new.db", 8), 5);
    RUNS(run("merge --db new.db a.db a.db"), 0, out, "new.db: 1 rows, 0 conflicts");
    RUNS(run("merge --db new.db a.db missing.db"), 2, err, "missing.db: cannot open: No such file");
}
END_TEST

START_TEST(verifying)
{
    struct rfg_row r = make(8, 5, RFG_SOURCE_MEASURED, DAY1);
    put("a.db", r);
    RUNS(run("verify a.db"), 0, out, "a.db: schema 4, 1 rows, 0 problems, 0 stale");
    strcpy(r.source_hash, "rfg-0.0.1");
    put("stale.db", r);
    ck_assert_int_eq(run("verify stale.db"), 0);
    PRINTS(out, "stale: gemm_cpu_portable: it is part of the library, and that is another version now (source_hash "
                "'rfg-0.0.1')");
    strcpy(r.params, "{\"rows\":1}");
    put("b.db", r);
    r = make(9, 5, RFG_SOURCE_MEASURED, DAY1);
    strcpy(r.variant, "gemm_gone");
    put("b.db", r);
    r = make(10, 5, RFG_SOURCE_MEASURED, "yesterday");
    put("b.db", r);
    r = make(11, 5, RFG_SOURCE_MEASURED, DAY1);
    char *rows = strstr(r.params, "\"rows\":");
    ck_assert_ptr_nonnull(rows);
    rows[7] = '9';
    put("b.db", r);
    RUNS(run("verify b.db"), 1, out, "M=8 N=2 K=64, cpu-x, 2 CUs: params '{\"rows\":1}'");
    PRINTS(out, "M=9 N=2 K=64, cpu-x, 2 CUs: variant 'gemm_gone': gemm has no such variant");
    PRINTS(out, "M=10 N=2 K=64, cpu-x, 2 CUs: date 'yesterday'");
    PRINTS(out, "M=11 N=2 K=64, cpu-x, 2 CUs: rows=9: not a value");
    PRINTS(out, "b.db: schema 4, 4 rows, 4 problems");
    ck_assert_int_eq(system("cp a.db c.db && truncate -s 5000 c.db"), 0);
    RUNS(run("verify c.db"), 1, err, "c.db: damaged");
    RUNS(run("verify d.db"), 2, err, "d.db: cannot read: No such file");
}
END_TEST

/* ---- restamp --------------------------------------------------------------------------------------------------- */

#define ACT   "act_and_mul bf16->bf16 M=1 N=1536"
#define TITLE ACT ", gfx90a, 104 CUs: "

/* A row of an act_and_mul kernel on gfx90a, as it would have been measured with this library and its compiler. False:
 * no compiler is here. */
static bool make_kernel_row(struct rfg_row *r)
{
    struct rfg_reason why;
    struct rfg_device dev;
    struct rfg_kernel k = { 0 };
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    const struct rfg_jit_provider *prov = rfg_jit_provider_for("gfx90a");
    *r = make(8, 5, RFG_SOURCE_MEASURED, DAY1);
    if (!prov) {
        printf("SKIPPED: restamping: %s\n", rfg_last_error());
        return false;
    }
    r->cu_count = 104;
    strcpy(r->arch, "gfx90a");
    ck_assert(rfg_device_imagine(&dev, "gfx90a:104"));
    ck_assert(rfg_problem_parse(&r->problem, ACT, &why));
    ck_assert_msg(rfg_config_parse(r->problem.op, "act_and_mul_flat{threads=64,unroll=1,width=16,stream=1,persist=0}",
                                   &var, p, &why),
                  "%s", why.text);
    rfg_row_set_config(r, var, p, false);
    var->kernel(&dev, &r->problem, p, &k);
    rfg_jit_source_hash(k.source, r->source_hash);
    prov->available(r->compiler, sizeof(r->compiler), &why);
    setenv("RFG_CACHE_DIR", "cache", 1);
    unsetenv("RFG_KERNEL_DIR");
    return true;
}

static struct rfg_row get(const char *path)
{
    struct rfg_row *rows, row;
    struct rfg_db *db;
    size_t n;
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_READ) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_db_all(db, NULL, &rows, &n, NULL, NULL), RFG_OK);
    rfg_db_close(&db);
    ck_assert_uint_eq(n, 1);
    row = rows[0];
    free(rows);
    return row;
}

/* From here on, kernels are those of ops/ with an edit of act/act_device.h. */
static void edit_kernels(const char *sed)
{
    char cmd[500];
    snprintf(cmd, sizeof(cmd), "mkdir -p k/act && sed '%s' %s/ops/act/act_device.h > k/act/act_device.h", sed,
             rfg_env("RFG_SOURCE_ROOT"));
    ck_assert_int_eq(system(cmd), 0);
    setenv("RFG_KERNEL_DIR", "k", 1);
}

#define OTHER_BRANCH "$ a #if RFG_NVIDIA\\n#error other\\n#endif"
#define OTHER_CODE   "s/    struct raw raw;/    struct raw raw; asm volatile(\"s_nop 1\");/"
#define OTHER_WORDS  "$ a /* a comment */"

/* An edit that leaves the code as it was costs no row, one that changes it makes the row stale; text files too. */
START_TEST(restamp_compares_code)
{
    struct rfg_row r, stamped, got;
    if (!make_kernel_row(&r))
        return;
    put("a.db", r);
    ck_assert_int_eq(run("export -o a.csv a.db"), 0);
    ck_assert_int_eq(system("sed -i 's/,code_hash//; s/\\([0-9a-f]\\{64\\}\\),,/\\1,/' a.csv && cp a.csv old.csv"), 0);
    /* Rows of before: the text is the one that was measured. */
    RUNS(run("restamp a.db"), 0, out, "a.db: 1 rows, 1 current, 0 stale, 0 unknown, 0 problems; 1 restamped\n");
    stamped = get("a.db");
    ck_assert_uint_eq(strlen(stamped.code_hash), 64);
    RUNS(run("restamp a.db"), 0, out, "1 current, 0 stale, 0 unknown, 0 problems; 0 restamped\n");
    /* Words are no text. */
    edit_kernels(OTHER_WORDS);
    RUNS(run("restamp a.db"), 0, out, "1 current, 0 stale, 0 unknown, 0 problems; 0 restamped\n");
    /* Another text with the same code. */
    edit_kernels(OTHER_BRANCH);
    RUNS(run("verify a.db"), 0, out, "0 stale\n");
    PRINTS(out, "a.db: 1 rows' kernels have another text than was measured: rfg-db restamp a.db tells");
    RUNS(run("restamp a.db"), 0, out, "a.db: 1 rows, 1 current, 0 stale, 0 unknown, 0 problems; 1 restamped\n");
    got = get("a.db");
    ck_assert_str_eq(got.code_hash, stamped.code_hash);
    ck_assert_str_ne(got.source_hash, stamped.source_hash);
    ck_assert_int_eq(run("verify a.db"), 0);
    ck_assert_ptr_null(strstr(out, "another text"));
    /* Another code: the row stays as it is, for the tuner to replace. */
    edit_kernels(OTHER_CODE);
    ck_assert_int_eq(run("restamp a.db"), 0);
    PRINTS(out, "a.db: " TITLE "stale: act_and_mul_flat: it makes other code than was measured\n");
    PRINTS(out, "a.db: 1 rows, 0 current, 1 stale, 0 unknown, 0 problems; 0 restamped\n");
    r = get("a.db");
    ck_assert_str_eq(r.source_hash, got.source_hash);
    ck_assert_str_eq(r.code_hash, got.code_hash);
    /* Nothing to compare with. */
    ck_assert_int_eq(run("restamp a.csv"), 0);
    PRINTS(out, "stale: act_and_mul_flat: its text has changed, and the row has no code_hash to compare with");
    ck_assert_int_eq(system("cmp -s a.csv old.csv"), 0);
    /* And text files, of 0.1 at that. */
    unsetenv("RFG_KERNEL_DIR");
    ck_assert_int_eq(run("restamp a.csv a.db"), 0);
    PRINTS(out, "a.csv: 1 rows, 1 current, 0 stale, 0 unknown, 0 problems; 1 restamped\n");
    PRINTS(out, "a.db: 1 rows, 1 current, 0 stale, 0 unknown, 0 problems; 1 restamped\n");
    ck_assert_int_eq(run("export -o b.csv a.db"), 0);
    ck_assert_int_eq(system("cmp a.csv b.csv"), 0);
}
END_TEST

/* A row whose compiler isn't here is neither current nor stale; one that doesn't compile is a problem; --all believes
 * no text; a predicted row, for which nothing was measured, takes the compiler that is here. */
START_TEST(restamp_knows_what_it_does_not_know)
{
    struct rfg_row r, got;
    if (!make_kernel_row(&r))
        return;
    strcpy(r.compiler, "hiprtc of old");
    put("none.db", r); /* no code_hash yet, and none can be had: the text is the same all the same */
    RUNS(run("restamp none.db"), 0, out, "none.db: 1 rows have no code_hash yet: their compilers are not here\n");
    PRINTS(out, "1 current, 0 stale, 0 unknown, 0 problems; 0 restamped\n");
    strcpy(r.code_hash, "c0de");
    put("a.db", r);
    edit_kernels(OTHER_BRANCH);
    ck_assert_int_eq(run("restamp a.db"), 0);
    PRINTS(out, "a.db: 1 rows unknown: its text has changed, and its compiler, 'hiprtc of old', is not here");
    PRINTS(out, "a.db: 1 rows, 0 current, 0 stale, 1 unknown, 0 problems; 0 restamped\n");
    got = get("a.db");
    ck_assert_str_eq(got.source_hash, r.source_hash);
    unsetenv("RFG_KERNEL_DIR");
    ck_assert(make_kernel_row(&r));
    strcpy(r.code_hash, "c0de");
    put("a.db", r);
    RUNS(run("restamp a.db"), 0, out, "1 current, 0 stale");
    RUNS(run("restamp --all --arch gfx942 a.db"), 0, out, "a.db: 0 rows, ");
    ck_assert_int_eq(run("restamp --all a.db"), 0); /* found once, its text doesn't pass for current any more */
    PRINTS(out, "0 current, 1 stale, 0 unknown, 0 problems; 1 restamped\n");
    RUNS(run("verify a.db"), 0, out, "1 rows' kernels have another text");
    RUNS(run("restamp a.db"), 0, out, "0 current, 1 stale, 0 unknown, 0 problems; 0 restamped\n");
    got = get("a.db");
    ck_assert_str_eq(got.code_hash, "c0de");
    edit_kernels("$ a #error no");
    RUNS(run("restamp a.db"), 1, out, TITLE "problem: act_and_mul_flat: ");
    PRINTS(out, "0 stale, 0 unknown, 1 problem; 0 restamped\n");
    got = get("a.db");
    ck_assert_str_eq(got.code_hash, "c0de");
    unsetenv("RFG_KERNEL_DIR");
    struct rfg_row predicted = r;
    predicted.how = RFG_SOURCE_PREDICTED;
    predicted.compiler[0] = predicted.code_hash[0] = 0;
    put("p.db", predicted);
    RUNS(run("restamp p.db"), 0, out, "1 current, 0 stale, 0 unknown, 0 problems; 1 restamped\n");
    got = get("p.db");
    ck_assert_str_eq(got.compiler, r.compiler);
    ck_assert_uint_eq(strlen(got.code_hash), 64);
    strcpy(r.variant, "act_gone");
    put("gone.db", r);
    ck_assert_int_eq(run("restamp gone.db"), 1);
    PRINTS(out, TITLE "problem: act_gone: variant 'act_gone': act_and_mul has no such variant");
}
END_TEST

static int times(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

/* Of many problems ten are told, and all are counted. */
START_TEST(restamp_tells_ten_problems)
{
    struct rfg_row r;
    sqlite3 *h;
    if (!make_kernel_row(&r))
        return;
    strcpy(r.variant, "act_gone");
    for (r.problem.v[0] = 1; r.problem.v[0] <= 12; r.problem.v[0]++)
        put("many.db", r);
    ck_assert_int_eq(run("restamp many.db"), 1);
    ck_assert_int_eq(times(out, ": problem: act_gone: "), 10);
    PRINTS(out, "many.db: 12 rows, 0 current, 0 stale, 0 unknown, 12 problems; 0 restamped\n");
    ck_assert_int_eq(sqlite3_open("many.db", &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "UPDATE tuned SET op = 'gone'", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
    ck_assert_int_eq(run("restamp many.db"), 1);
    ck_assert_int_eq(times(out, "many.db: row not understood: "), 10);
    PRINTS(out, "many.db: 12 rows, 0 current, 0 stale, 0 unknown, 12 problems; 0 restamped\n");
}
END_TEST

/* Killed while it compiles, it has written nothing. */
START_TEST(restamp_killed)
{
    struct rfg_row r;
    if (!make_kernel_row(&r))
        return;
    put("a.db", r);
    ck_assert_int_eq(run("export -o a.csv a.db"), 0);
    ck_assert_int_eq(system("cp a.db b.db; cp a.csv b.csv"), 0);
    setenv("RFG_TEST_WORKER_HANG", "act_and_mul_flat", 1);
    char cmd[300];
    snprintf(cmd, sizeof(cmd), "timeout -s KILL 1 %s/rfg-db restamp a.csv a.db > out 2> err", rfg_env("RFG_BINDIR"));
    ck_assert_int_ne(system(cmd), 0);
    unsetenv("RFG_TEST_WORKER_HANG");
    ck_assert_int_eq(system("cmp a.db b.db && cmp a.csv b.csv && test ! -s out"), 0);
    RUNS(run("restamp a.csv nothere.db"), 2, err, "nothere.db: cannot open: No such file");
    ck_assert_int_eq(system("cmp a.csv b.csv"), 0);
}
END_TEST

START_TEST(misses_and_path)
{
    struct rfg_row r = make(8, 5, RFG_SOURCE_MEASURED, DAY1);
    struct rfg_db *db;
    ck_assert_int_eq(rfg_db_open(&db, "a.db", RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(rfg_db_add_misses(db, &r.problem, "cpu-x", 2, 4, 123), RFG_OK);
    rfg_db_close(&db);
    RUNS(run("misses a.db"), 0, out, "123 calls  rung 4  gemm bf16,bf16->bf16 M=8 N=2 K=64  cpu-x, 2 CUs");
    setenv("RFG_DB", "a.db", 1);
    setenv("RFG_SYSTEM_DB", "s.db", 1);
    RUNS(run("path"), 0, out, "user    a.db\n");
    PRINTS(out, "system  s.db (RFG_SYSTEM_DB) (missing)\n");
    ck_assert_int_eq(mkdir("empty", 0700), 0);
    setenv("RFG_SYSTEM_DB", "empty", 1);
    RUNS(run("path"), 0, out, "system  none in empty\n");
}
END_TEST

/* What another hand wrote into a database doesn't reach the terminal as it is. */
START_TEST(hostile_text)
{
    static const char *const columns[] = { "date", "device", "compiler", "driver", "source_hash", "variant", "params" };
    static const char *const commands[] = { "list", "verify", "show", "misses" };
    struct rfg_row r = make(8, 5, RFG_SOURCE_MEASURED, DAY1);
    struct rfg_db *db;
    sqlite3 *h;
    char sql[200];
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        unlink("h.db");
        put("h.db", r);
        ck_assert_int_eq(rfg_db_open(&db, "h.db", RFG_DB_WRITE), RFG_OK);
        ck_assert_int_eq(rfg_db_add_misses(db, &r.problem, "cpu-x", 2, 4, 123), RFG_OK);
        rfg_db_close(&db);
        ck_assert_int_eq(sqlite3_open("h.db", &h), SQLITE_OK);
        snprintf(sql, sizeof(sql),
                 "UPDATE tuned SET %s = char(27) || '[2J' || char(10) || 'b'; UPDATE misses SET last = char(27)",
                 columns[i]);
        ck_assert_msg(sqlite3_exec(h, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(h));
        sqlite3_close(h);
        for (size_t k = 0; k < sizeof(commands) / sizeof(commands[0]); k++) {
            (void)run("%s h.db%s", commands[k], k == 2 ? " 'gemm bf16,bf16->bf16 M=8 N=2 K=64'" : "");
            ck_assert_msg(!strchr(out, 27) && !strchr(err, 27), "%s after %s", commands[k], columns[i]);
            if (k < 2)
                ck_assert_msg(strstr(k ? out : err, columns[i]) && strstr(k ? out : err, "must be one line"), "%s%s",
                              out, err);
            if (k == 3)
                PRINTS(out, "\\x1b\n");
        }
    }
}
END_TEST

static const struct {
    const char *args, *says;
} wrong[] = {
    { "", "usage:" },
    { "lst x.db", "command 'lst'" },
    { "list", "list: 0 arguments: must be 1" },
    { "list a.db b.db", "list: 2 arguments: must be 1" },
    { "list nothere.db", "nothere.db: cannot open: No such file" },
    { "list --prefer newest a.db", "list does not take --prefer" },
    { "list --colour a.db", "--colour" },
    { "import a.csv", "--db is missing" },
    { "import --how measured --db x.db a.csv", "--how 'measured': must be keep or imported" },
    { "import --db x.db nothere.csv", "nothere.csv: cannot read: No such file" },
    { "merge --db x.db --prefer best a.db", "--prefer 'best': must be fastest or newest" },
    { "merge a.db", "--db is missing" },
    { "restamp", "restamp: 0 arguments: must be 1 or more" },
    { "verify --all a.db", "verify does not take --all" },
};

START_TEST(wrong_usage)
{
    RUNS(run("%s", wrong[_i].args), 2, err, wrong[_i].says);
    ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(help)
{
    RUNS(run("--help"), 0, out, "usage: rfg-db COMMAND");
    RUNS(run("list --help"), 0, out, "usage: rfg-db COMMAND");
    RUNS(run("--version"), 0, out, "rfg-db " RFG_VERSION);
}
END_TEST

/* What the build makes of tuned_configs/ must be what this library looks for and can read. */
START_TEST(system_databases_verify)
{
    char cmd[400];
    const char *root = rfg_env("RFG_SOURCE_ROOT"), *bin = rfg_env("RFG_BINDIR");
    ck_assert(root && bin);
    snprintf(cmd, sizeof(cmd),
             "for d in %s/tuned_configs/*_*/; do ls \"$d\"*.csv > /dev/null 2>&1 || continue; "
             "%s/rfg-db verify %s/../tuned_configs/$(basename \"$d\")-v%d.db || exit 1; done",
             root, bin, bin, RFG_DB_SCHEMA);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

/* Through each form and back: the same problems with the same weights. */
START_TEST(shapes_go_round)
{
    static const char csv[] = "op,dtype,M,N,K,attrs,weight\n"
                              "gemm,\"bf16,bf16->bf16\",8,2112,7168,,3\n"
                              "gemm,\"f16,f16->f16\",16,64,128,bias=1,0.10000000000000001\n"
                              "rmsnorm,bf16->bf16,8,7168,,,1\n"
                              "gemm,\"bf16,bf16->f32\",8,64,128,packed=1,1\n";
    write_text("a.csv", csv);
    ck_assert_int_eq(run("shapes a.csv"), 0);
    ck_assert_str_eq(out, csv);
    ck_assert_int_eq(run("shapes -o b.csv a.csv a.csv"), 0);
    RUNS(run("shapes b.csv"), 0, out, "8,2112,7168,,6\n"); /* twice the weight */
    /* PyTorch can be told of two of them */
    ck_assert_int_eq(run("shapes --form tunableop -o t.csv a.csv"), 1);
    PRINTS(err, "left out: rmsnorm bf16->bf16 M=8 N=7168: must be a gemm");
    PRINTS(err, "left out: gemm bf16,bf16->f32 M=8 N=64 K=128 packed=1: TunableOp can't say all of it");
    PRINTS(err, "2 problems of 4 can't be said");
    ck_assert_int_eq(run("shapes --form tunableop t.csv"), 0);
    ck_assert_str_eq(out, "GemmTunableOp_BFloat16_TN,tn_2112_8_7168_ld_7168_7168_2112\n"
                          "GemmAndBiasTunableOp_Half_TN,tn_64_16_128_ld_128_128_64\n");
    RUNS(run("shapes t.csv"), 0, out, "gemm,\"f16,f16->f16\",16,64,128,bias=1,1\n");
    /* strides are TunableOp's, not a shapes file's */
    write_text("log", "rfg: calls: gemm bf16,bf16->bf16 M=8 N=64 K=128 ldx=256\n"
                      "rfg: calls: gemm bf16,bf16->bf16 M=8 N=64 K=128\n");
    RUNS(run("shapes --form tunableop log"), 0, out, "tn_64_8_128_ld_128_256_64\n");
    RUNS(run("shapes log"), 0, out, "gemm,\"bf16,bf16->bf16\",8,64,128,,2\n");
    PRINTS(err, "1 problems have strides");
    /* and a database's rows */
    put("a.db", make(8, 5, RFG_SOURCE_MEASURED, DAY1));
    RUNS(run("shapes a.db"), 0, out, "gemm,\"bf16,bf16->bf16\",8,2,64,,1\n");
    RUNS(run("shapes --form aiter a.db"), 2, err, "--form 'aiter': must be csv or tunableop");
    RUNS(run("shapes nowhere.csv"), 2, err, "nowhere.csv: cannot read");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rfg-db");
    TCase *tc = tcase_create("rfg-db");
    tcase_add_checked_fixture(tc, program_setup, program_teardown);
    tcase_set_timeout(tc, 150);
    ADD_TESTS(tc, list_and_show, export_and_import, shapes_go_round, leaves_and_follows_nothing,
              a_few_messages_of_a_kind, merging, verifying, restamp_compares_code, restamp_knows_what_it_does_not_know,
              restamp_tells_ten_problems, restamp_killed, misses_and_path, hostile_text, help);
    ADD_LOOPS(tc, (sizeof(wrong) / sizeof(wrong[0])), wrong_usage);
    tcase_add_test(slow_case(s, "rfg-db", "system_databases_verify", program_setup, program_teardown),
                   system_databases_verify);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
