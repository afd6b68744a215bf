/* SPDX-License-Identifier: MIT
 *
 * Tuned databases: what goes in comes out, whatever happens to the file, the process or the neighbours. */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../dispatch/context.h"
#include "../dispatch/db_internal.h"
#include "../dispatch/util.h"
#include "../ops/gemm/gemm.h"
#include "suite.h"

static char dir[24], path[64];

static void setup(void)
{
    strcpy(dir, "/tmp/rfg-db-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/t.db", dir);
}

static void teardown(void)
{
    char cmd[128];
    snprintf(cmd, sizeof(cmd), "chmod -R u+w %s; rm -rf %s", dir, dir);
    ck_assert_int_eq(system(cmd), 0);
}

#define OK(call) ck_assert_msg((call) == RFG_OK, "%s: %s", #call, rfg_last_error())
#define SAYS(text)                                                                                                     \
    ck_assert_msg(strstr(rfg_last_error(), text) != NULL, "'%s' does not say '%s'", rfg_last_error(), text)

__attribute__((format(printf, 1, 2))) static int shell(const char *fmt, ...)
{
    char cmd[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cmd, sizeof(cmd), fmt, ap);
    va_end(ap);
    int rc = system(cmd);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static struct rfg_problem problem(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s: %s", text, why.text);
    return p;
}

static struct rfg_problem gemm(int m, int n)
{
    char text[100];
    snprintf(text, sizeof(text), "gemm bf16,bf16->bf16 M=%d N=%d K=64", m, n);
    return problem(text);
}

/* A row with something in every field; us tells rows apart. */
static struct rfg_row make(struct rfg_problem prob, const char *arch, int cus, double us, enum rfg_source how)
{
    struct rfg_row r;
    int p[RFG_MAX_PARAMS];
    memset(&r, 0, sizeof(r));
    r = (struct rfg_row){ .cu_count = cus,
                          .variant = "gemm_cpu_portable",
                          .median_us = us,
                          .spread_us = us / 3,
                          .samples = 11,
                          .error = 0.1,
                          .error_bound = 1,
                          .default_us = us * 2,
                          .vendor_us = us * 0.7,
                          .source_hash = "abc",
                          .compiler = "gcc 12, \"quoted\", #1",
                          .driver = " x ",
                          .version = RFG_VERSION,
                          .date = "2026-11-21T03:40:00Z",
                          .device = "cpu",
                          .seed = UINT64_MAX - 3,
                          .how = how };
    snprintf(r.arch, sizeof(r.arch), "%s", arch);
    r.problem = prob;
    for (int i = 0; i < gemm_cpu_portable.n_params; i++)
        p[i] = gemm_cpu_portable.params[i].values[i % gemm_cpu_portable.params[i].n];
    rfg_params_json(&gemm_cpu_portable, p, r.params, sizeof(r.params));
    return r;
}

static void assert_same(const struct rfg_row *a, const struct rfg_row *b)
{
    char ta[512], tb[512];
    struct rfg_flat fa, fb;
    ck_assert(rfg_problem_equal(&a->problem, &b->problem));
    rfg_flatten(a, &fa);
    rfg_flatten(b, &fb);
    for (int i = 0; i < RFG_N_COLUMNS; i++)
        ck_assert_msg(!strcmp(rfg_column_format(&fa, i, ta, sizeof(ta)), rfg_column_format(&fb, i, tb, sizeof(tb))),
                      "column %s: '%s' is not '%s'", rfg_columns[i].name, ta, tb);
    ck_assert_mem_eq(&a->median_us, &b->median_us, sizeof(double));
    ck_assert_uint_eq(a->seed, b->seed);
}

static struct rfg_db *open_db(const char *p, enum rfg_db_mode mode)
{
    struct rfg_db *db;
    OK(rfg_db_open(&db, p, mode));
    return db;
}

static void put(const char *p, struct rfg_row r)
{
    struct rfg_db *db = open_db(p, RFG_DB_WRITE);
    OK(rfg_db_put(db, &r));
    rfg_db_close(&db);
}

static size_t count(const char *p)
{
    struct rfg_db *db = open_db(p, RFG_DB_READ);
    struct rfg_row *rows;
    size_t n;
    OK(rfg_db_all(db, NULL, &rows, &n, NULL, NULL));
    free(rows);
    rfg_db_close(&db);
    return n;
}

static void sql(const char *p, const char *text)
{
    sqlite3 *h;
    char *error = NULL;
    ck_assert_int_eq(sqlite3_open(p, &h), SQLITE_OK);
    sqlite3_busy_timeout(h, 5000);
    sqlite3_exec(h, text, NULL, NULL, &error);
    ck_assert_msg(!error, "%s: %s", text, error);
    sqlite3_close(h);
}

static void print_finding(void *ctx, const char *finding)
{
    (void)ctx;
    printf("%s\n", finding);
}

static void ignore_finding(void *ctx, const char *finding)
{
    (void)ctx;
    (void)finding;
}

static void assert_sound(const char *p)
{
    struct rfg_db *db = open_db(p, RFG_DB_READ);
    ck_assert_int_eq(rfg_db_integrity(db, print_finding, NULL), 0);
    rfg_db_close(&db);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

START_TEST(rows_come_back)
{
    struct rfg_row r =
        make(problem("gemm bf16,bf16->f32 M=8 N=2112 K=7168 bias=1"), "gfx942", 304, 5.25, RFG_SOURCE_MEASURED);
    struct rfg_row got;
    r.median_us = 0.1 + 0.2; /* needs 17 digits */
    put(path, r);
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    ck_assert_str_eq(rfg_db_path(db), path);
    ck_assert_int_eq(rfg_db_get(db, &r.problem, "gfx942", 304, &got), 1);
    assert_same(&r, &got);
    /* strides and alignment are no part of the key; everything else is */
    struct rfg_problem layout = problem("gemm bf16,bf16->f32 M=8 N=2112 K=7168 bias=1 ldx=8000 align=2");
    struct rfg_problem other = problem("gemm bf16,bf16->f32 M=8 N=2112 K=7168");
    ck_assert_int_eq(rfg_db_get(db, &layout, "gfx942", 304, &got), 1);
    ck_assert_int_eq(rfg_db_get(db, &other, "gfx942", 304, &got), 0);
    ck_assert_int_eq(rfg_db_get(db, &r.problem, "gfx942", 303, &got), 0);
    ck_assert_int_eq(rfg_db_get(db, &r.problem, "gfx950", 304, &got), 0);
    ck_assert_int_eq(rfg_db_put(db, &r), RFG_ERROR_DATABASE); /* read-only */
    rfg_db_close(&db);
    ck_assert_ptr_null(db);
    r.problem = layout;
    r.median_us = 4;
    put(path, r); /* the same row */
    ck_assert_uint_eq(count(path), 1);
}
END_TEST

START_TEST(better_evidence_stays)
{
    static const struct {
        enum rfg_source first, second;
        double expect;
    } t[] = { { RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 2 },  { RFG_SOURCE_MEASURED, RFG_SOURCE_IMPORTED, 1 },
              { RFG_SOURCE_MEASURED, RFG_SOURCE_PREDICTED, 1 }, { RFG_SOURCE_IMPORTED, RFG_SOURCE_PREDICTED, 1 },
              { RFG_SOURCE_IMPORTED, RFG_SOURCE_MEASURED, 2 },  { RFG_SOURCE_PREDICTED, RFG_SOURCE_IMPORTED, 2 } };
    struct rfg_row got;
    put(path, make(gemm(1, 2), "a", 1, 1, t[_i].first));
    put(path, make(gemm(1, 2), "a", 1, 2, t[_i].second));
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    struct rfg_problem p = gemm(1, 2);
    ck_assert_int_eq(rfg_db_get(db, &p, "a", 1, &got), 1);
    ck_assert_double_eq(got.median_us, t[_i].expect);
    rfg_db_close(&db);
}
END_TEST

START_TEST(implausible_rows_are_refused)
{
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    static const char *const says[] = { "median_us: nan", "median_us: 0",  "spread_us: -1", "error: 2: must be at most",
                                        "arch: ''",       "variant: ''",   "cu_count: 0",   "samples: -1",
                                        "0x0a",           "vendor_us: inf" };
    for (int i = 0; i < 10; i++) {
        struct rfg_row r = make(gemm(1, 2), i == 4 ? "" : "a", i != 6, 1, RFG_SOURCE_MEASURED);
        if (i == 0)
            r.median_us = NAN;
        if (i == 1)
            r.median_us = 0;
        if (i == 2)
            r.spread_us = -1;
        if (i == 3)
            r.error = 2;
        if (i == 5)
            r.variant[0] = 0;
        if (i == 7)
            r.samples = -1;
        if (i == 8)
            strcpy(r.driver, "two\nlines");
        if (i == 9)
            r.vendor_us = INFINITY;
        ck_assert_int_eq(rfg_db_put(db, &r), RFG_ERROR_INVALID_ARGUMENT);
        SAYS(says[i]);
    }
    rfg_db_close(&db);
    ck_assert_uint_eq(count(path), 0);
}
END_TEST

struct seen {
    int n, bad, limit;
    double us[8];
    char why[8][200];
};

static bool see(void *ctx, const struct rfg_row *row, const char *bad)
{
    struct seen *s = ctx;
    ck_assert(s->n + s->bad < 8);
    if (bad) {
        ck_assert_ptr_null(row->problem.op);
        snprintf(s->why[s->bad++], sizeof(s->why[0]), "%s", bad);
    } else {
        s->us[s->n++] = row->median_us;
    }
    return s->n < s->limit;
}

START_TEST(each_is_ordered_and_tells_bad_rows)
{
    struct seen s = { .limit = 8 };
    put(path, make(gemm(2, 32), "b", 2, 4, RFG_SOURCE_MEASURED));
    put(path, make(gemm(2, 32), "a", 9, 3, RFG_SOURCE_MEASURED));
    put(path, make(gemm(2, 32), "a", 1, 2, RFG_SOURCE_MEASURED));
    put(path, make(gemm(16, 32), "a", 1, 5, RFG_SOURCE_MEASURED));
    put(path, make(gemm(64, 8), "a", 1, 1, RFG_SOURCE_MEASURED));
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    OK(rfg_db_each(db, NULL, see, &s));
    ck_assert_int_eq(s.n, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_double_eq(s.us[i], i + 1); /* by N, M, arch, CUs */
    s = (struct seen){ .limit = 8 };
    OK(rfg_db_each(db, "b", see, &s));
    ck_assert_int_eq(s.n, 1);
    s = (struct seen){ .limit = 2 };
    OK(rfg_db_each(db, NULL, see, &s));
    ck_assert_int_eq(s.n, 2);
    rfg_db_close(&db);

    sql(path, "update tuned set op='conv' where M=64; update tuned set dtypes='bf16->x' where M=16;"
              "update tuned set how='guessed' where arch='b'; update tuned set attrs='ldx=7' where cu_count=9;"
              "update tuned set M='many' where cu_count=1 and M=2");
    db = open_db(path, RFG_DB_READ);
    s = (struct seen){ .limit = 8 };
    OK(rfg_db_each(db, NULL, see, &s));
    ck_assert_int_eq(s.n, 0);
    ck_assert_int_eq(s.bad, 5);
    const char *const says[] = { "'conv': no such operator", "'bf16->x'", "guessed", "strides and alignment",
                                 "M: 'many'" };
    for (int i = 0; i < 5; i++) {
        bool said = false;
        for (int k = 0; k < 5; k++)
            said |= strstr(s.why[k], says[i]) != NULL;
        ck_assert_msg(said, "%s", says[i]);
    }
    rfg_db_close(&db);
}
END_TEST

START_TEST(parameters)
{
    static const struct rfg_param params[] = { { "waves", 2, { 2, 4 } }, { "rows", 1, { 2 } } };
    static const struct rfg_variant var = { .name = "v", .n_params = 2, .params = params };
    static const char *const bad[][2] = {
        { "{\"waves\":4}", "rows is missing" },
        { "{\"waves\":4,\"rows\":2,\"x\":1}", "no parameter 'x'" },
        { "{\"waves\":4.5,\"rows\":2}", "waves must be a whole number" },
        { "{\"waves\":\"4\",\"rows\":2}", "waves must be a whole number" },
        { "{\"waves\":4294967296,\"rows\":2}", "waves must be a whole number" },
        { "{\"waves\":4,\"waves\":2,\"rows\":2}", "must be a JSON object" },
        { "[4,2]", "must be a JSON object" },
        { "waves=4", "must be a JSON object" },
        { "", "must be a JSON object" },
    };
    struct rfg_row r = { 0 };
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS] = { 4, 2 };
    ck_assert_str_eq(rfg_params_json(&var, p, r.params, sizeof(r.params)), "{\"waves\":4,\"rows\":2}");
    p[0] = p[1] = 0;
    ck_assert(rfg_row_params(&r, &var, p, &why) && p[0] == 4 && p[1] == 2);
    strcpy(r.params, "{ \"rows\": 2, \"waves\": 4 }"); /* by name, not by position */
    ck_assert(rfg_row_params(&r, &var, p, &why) && p[0] == 4 && p[1] == 2);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(r.params, bad[i][0]);
        ck_assert(!rfg_row_params(&r, &var, p, &why));
        ck_assert_msg(strstr(why.text, bad[i][1]) != NULL, "%s: %s", bad[i][0], why.text);
    }
}
END_TEST

static bool see_miss(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                     uint64_t calls, const char *last)
{
    char *at = ctx;
    sprintf(at + strlen(at), "M%d %s %d r%d x%d;", (int)prob->v[GEMM_M], arch, cu_count, rung, (int)calls);
    return *last == '2';
}

START_TEST(misses_and_failures)
{
    char text[200] = "", what[40];
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    struct rfg_problem a = gemm(1, 2), b = gemm(2, 2);
    OK(rfg_db_add_misses(db, &a, "x", 4, 4, 10));
    OK(rfg_db_add_misses(db, &b, "x", 4, 2, 12));
    OK(rfg_db_add_misses(db, &a, "x", 4, 2, 5));
    OK(rfg_db_each_miss(db, see_miss, text));
    ck_assert_str_eq(text, "M1 x 4 r2 x15;M2 x 4 r2 x12;"); /* the most called first */
    OK(rfg_db_clear_miss(db, &a, "x", 4));
    *text = 0;
    OK(rfg_db_each_miss(db, see_miss, text));
    ck_assert_str_eq(text, "M2 x 4 r2 x12;");

    ck_assert_int_eq(rfg_db_failed(db, &a, "x", 4, "v{a=1}", "h1", what, sizeof(what)), 0);
    OK(rfg_db_put_failure(db, &a, "x", 4, "v{a=1}", "h1", "hung", "10 s"));
    ck_assert_int_eq(rfg_db_failed(db, &a, "x", 4, "v{a=1}", "h1", what, sizeof(what)), 1);
    ck_assert_str_eq(what, "hung");
    ck_assert_int_eq(rfg_db_failed(db, &a, "x", 4, "v{a=1}", "h2", what, sizeof(what)), 0); /* the source changed */
    ck_assert_int_eq(rfg_db_failed(db, &a, "x", 4, "v{a=2}", "h1", what, sizeof(what)), 0);
    ck_assert_int_eq(rfg_db_failed(db, &b, "x", 4, "v{a=1}", "h1", what, sizeof(what)), 0);
    rfg_db_close(&db);
}
END_TEST

/* ---- files ------------------------------------------------------------------------------------------------------- */

START_TEST(odd_names)
{
    static const char *const names[] = { "a b?c%41#d&.db", ":memory:", "file:x.db", "deep/er/\xc3\xa9.db", "-x.db" };
    char p[200];
    ck_assert_int_eq(chdir(dir), 0);
    for (int absolute = 0; absolute < 2; absolute++) {
        snprintf(p, sizeof(p), "%s%s%s", absolute ? dir : "", absolute ? "/" : "", names[_i]);
        put(p, make(gemm(1, 2 + absolute), "a", 1, 1, RFG_SOURCE_MEASURED));
        ck_assert_int_eq(access(p, F_OK), 0);
        ck_assert_uint_eq(count(p), (size_t)(1 + absolute));
    }
}
END_TEST

START_TEST(older_schemas_are_migrated)
{
    char text[100];
    if (_i == 1) { /* ours, but nothing in it */
        snprintf(text, sizeof(text), "pragma application_id=%d; create table x(y); drop table x",
                 RFG_DB_APPLICATION_ID);
        sql(path, text);
    } else {
        fclose(fopen(path, "w"));
    }
    ck_assert_uint_eq(count(path), 0); /* readable as it is */
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    struct rfg_row got;
    struct rfg_problem p = gemm(1, 2);
    ck_assert_int_eq(rfg_db_schema(db), 0);
    ck_assert_int_eq(rfg_db_get(db, &p, "a", 1, &got), 0);
    rfg_db_close(&db);
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    ck_assert_uint_eq(count(path), 1);
    db = open_db(path, RFG_DB_READ);
    ck_assert_int_eq(rfg_db_schema(db), RFG_DB_SCHEMA);
    rfg_db_close(&db);
}
END_TEST

static const struct {
    const char *sql, *says, *says_too;
} foreign[] = {
    { "pragma user_version=7", "schema 7", "at most 1" },
    { "pragma user_version=-1", "schema -1", "at most 1" },
    { "pragma application_id=1196444487", "application_id 0x47504b47", "must be 0x52464731" },
    { "pragma application_id=0", "application_id 0x00000000", "another application" },
};

START_TEST(strangers_files_are_refused)
{
    struct rfg_db *db;
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    sql(path, "pragma journal_mode=delete");
    sql(path, foreign[_i].sql);
    ck_assert_int_eq(shell("cp %s %s.before", path, path), 0);
    for (enum rfg_db_mode mode = RFG_DB_READ; mode <= RFG_DB_WRITE; mode++) {
        ck_assert_int_eq(rfg_db_open(&db, path, mode), RFG_ERROR_DATABASE);
        ck_assert_ptr_null(db);
        SAYS(foreign[_i].says);
        SAYS(foreign[_i].says_too);
        SAYS(path);
    }
    ck_assert_int_eq(shell("cmp %s %s.before && test $(ls %s | wc -l) = 2", path, path, dir), 0); /* untouched */
}
END_TEST

START_TEST(someones_text_is_not_moved)
{
    struct rfg_db *db;
    ck_assert_int_eq(shell("printf 'op,dtype,M,N,K\\ngemm,bf16,1,2,3\\n' > %s", path), 0);
    for (enum rfg_db_mode mode = RFG_DB_READ; mode <= RFG_DB_WRITE; mode++) {
        ck_assert_int_eq(rfg_db_open(&db, path, mode), RFG_ERROR_DATABASE);
        SAYS("a text file");
    }
    ck_assert_int_eq(shell("grep -q gemm,bf16 %s && test $(ls %s | wc -l) = 1", path, dir), 0);
}
END_TEST

/* %s is the file of 200 rows. */
static const char *const damages[] = {
    "truncate -s 5000 %s",
    "head -c 9000 /dev/urandom > %s",
    "head -c 4096 /dev/urandom | dd of=%s bs=4096 seek=4 conv=notrunc status=none",
    "head -c 40 /dev/zero | dd of=%s bs=1 seek=4096 conv=notrunc status=none",
    "printf 'SQLite format 3' > %s",
    "truncate -s 16384 %s && truncate -s 200000 %s",
};
#define N_DAMAGES (int)(sizeof(damages) / sizeof(damages[0]))

static void make_damaged(int kind)
{
    struct rfg_row rows[200];
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    for (int i = 0; i < 200; i++)
        rows[i] = make(gemm(1 + i, 2), "a", 1, 1, RFG_SOURCE_MEASURED);
    OK(rfg_db_put_all(db, rows, 200, NULL));
    OK(rfg_db_seal(db));
    rfg_db_close(&db);
    ck_assert_int_eq(shell(damages[kind], path, path), 0);
    ck_assert_int_eq(shell("cp %s %s/damaged", path, dir), 0);
}

START_TEST(damaged_files_are_set_aside)
{
    struct rfg_db *db;
    int findings = -1;
    make_damaged(_i);
    /* Reading: an error or findings, at the latest when it is verified; the file stays as it is. */
    if (rfg_db_open(&db, path, RFG_DB_READ) == RFG_OK)
        findings = rfg_db_integrity(db, ignore_finding, NULL);
    else
        SAYS("damaged");
    rfg_db_close(&db);
    ck_assert_int_ne(findings, 0);
    ck_assert_int_eq(shell("cmp %s %s/damaged", path, dir), 0);
    /* Writing: moved, whole, and a new one begun; a second time to another name. */
    for (int i = 1; i <= 2; i++) {
        put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
        ck_assert_uint_eq(count(path), 1);
        assert_sound(path);
        ck_assert_int_eq(shell("cmp %s.corrupt-%d %s/damaged", path, i, dir), 0);
        ck_assert_int_eq(shell("cp %s/damaged %s", dir, path), 0);
    }
}
END_TEST

START_TEST(logs_move_with_their_file)
{
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    ck_assert_int_eq(shell("head -c 5000 /dev/urandom > %s; echo log > %s-wal; echo log > %s-shm", path, path, path),
                     0);
    put(path, make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED));
    ck_assert_int_eq(shell("test \"$(cat %s.corrupt-1-wal)\" = log", path), 0);
    assert_sound(path);
}
END_TEST

START_TEST(what_cannot_be_opened)
{
    struct rfg_db *db;
    ck_assert_int_eq(rfg_db_open(&db, path, RFG_DB_READ), RFG_ERROR_DATABASE);
    SAYS("No such file");
    SAYS(path);
    ck_assert_int_eq(access(path, F_OK), -1); /* nothing is made by reading */
    ck_assert_int_eq(rfg_db_open(&db, dir, RFG_DB_READ), RFG_ERROR_DATABASE);
    SAYS("not a file");
    ck_assert_int_eq(rfg_db_open(&db, dir, RFG_DB_WRITE), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_open(&db, "", RFG_DB_WRITE), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_open(&db, "/dev/null/x/y.db", RFG_DB_WRITE), RFG_ERROR_DATABASE);
    SAYS("/dev/null/x/y.db");
}
END_TEST

START_TEST(read_only_directories)
{
    struct rfg_db *db;
    struct rfg_row r = make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED);
    put(path, r); /* in WAL mode: its index would have to be made beside it */
    ck_assert_int_eq(shell("chmod 644 %s; chmod 555 %s", path, dir), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_uint_eq(count(path), 1);
    ck_assert_int_eq(rfg_db_open(&db, path, RFG_DB_WRITE), RFG_ERROR_DATABASE);
    SAYS(path);
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(shell("test $(ls %s | wc -l) = 1", dir), 0);
}
END_TEST

START_TEST(default_paths)
{
    char expect[300];
    setenv("RFG_DB", "/x/y.db", 1);
    char *p = rfg_db_user_path();
    ck_assert_str_eq(p, "/x/y.db");
    free(p);
    unsetenv("RFG_DB");
    setenv("XDG_DATA_HOME", dir, 1);
    p = rfg_db_user_path();
    snprintf(expect, sizeof(expect), "%s/rfg/user-v%d.db", dir, RFG_DB_SCHEMA);
    ck_assert_str_eq(p, expect);
    free(p);

    unsetenv("RFG_SYSTEM_DB");
    const char *built = rfg_db_system_dir(1); /* tests run from the build tree */
    ck_assert_ptr_nonnull(built);
    p = rfg_db_system_path("zz7", 64);
    ck_assert_str_eq(p, "");
    free(p);
    ck_assert_int_eq(shell("mkdir -p %s; cd %s; touch zz7_60-v1.db zz7_80-v1.db zz7_x_64-v1.db zz77_64-v1.db "
                           "zz7_64-v9.db",
                           built, built),
                     0);
    static const int cus[][2] = { { 60, 60 }, { 64, 60 }, { 70, 60 }, { 71, 80 }, { 500, 80 } };
    for (int i = 0; i < 5; i++) {
        p = rfg_db_system_path("zz7", cus[i][0]);
        snprintf(expect, sizeof(expect), "%s/zz7_%d-v1.db", built, cus[i][1]);
        ck_assert_str_eq(p, expect);
        free(p);
    }
    ck_assert_int_eq(shell("cd %s; rm zz7*.db", built), 0);
    setenv("RFG_SYSTEM_DB", "/s.db", 1);
    p = rfg_db_system_path("zz7", 64);
    ck_assert_str_eq(p, "/s.db");
    free(p);
}
END_TEST

/* ---- many at once, and sudden death ------------------------------------------------------------------------------ */

#define WRITERS 8
#define EACH    20

static void write_rows(struct rfg_db *db, int who)
{
    for (int i = 0; i < EACH; i++) {
        struct rfg_row r = make(gemm(1 + i, 1 + who), "a", 1, 1, RFG_SOURCE_MEASURED);
        struct rfg_problem miss = gemm(1, 1);
        if (rfg_db_put(db, &r) != RFG_OK || rfg_db_add_misses(db, &miss, "a", 1, 4, 1) != RFG_OK) {
            fprintf(stderr, "writer %d: %s\n", who, rfg_last_error());
            _exit(1);
        }
    }
}

static void assert_all_written(void)
{
    char text[100] = "";
    assert_sound(path);
    ck_assert_uint_eq(count(path), WRITERS * EACH);
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    OK(rfg_db_each_miss(db, see_miss, text));
    ck_assert_str_eq(text, "M1 a 1 r4 x160;"); /* no count was lost either */
    rfg_db_close(&db);
}

static struct rfg_db *shared;

static void *thread(void *arg)
{
    struct rfg_db *db = shared;
    if (!db && rfg_db_open(&db, path, RFG_DB_WRITE) != RFG_OK) {
        fprintf(stderr, "%s\n", rfg_last_error());
        _exit(1);
    }
    write_rows(db, (int)(intptr_t)arg);
    if (!shared)
        rfg_db_close(&db);
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t t[WRITERS];
    shared = _i ? open_db(path, RFG_DB_WRITE) : NULL; /* each with a connection of its own, and all on one */
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&t[i], NULL, thread, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
    rfg_db_close(&shared);
    assert_all_written();
}
END_TEST

START_TEST(many_processes)
{
    pid_t pid[WRITERS];
    int go[2], status;
    if (_i)
        make_damaged(1); /* all find it damaged at once: it is moved once, and none loses what another wrote */
    ck_assert_int_eq(pipe(go), 0);
    for (int i = 0; i < WRITERS; i++)
        if (!(pid[i] = fork())) {
            char c;
            close(go[1]);
            if (read(go[0], &c, 1) == 0)
                thread((void *)(intptr_t)i);
            _exit(0);
        }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_int_eq(status, 0);
    }
    assert_all_written();
    ck_assert_int_eq(shell("test $(ls %s | grep -c corrupt-) = %d", dir, _i), 0);
}
END_TEST

START_TEST(killed_writers_lose_nothing)
{
    uint64_t seed = (uint64_t)getpid();
    int next = 1;
    printf("killed_writers_lose_nothing: seed %llu\n", (unsigned long long)seed);
    srand((unsigned)seed);
    for (int round = 0; round < 20; round++) {
        int told[2], got;
        ck_assert_int_eq(pipe(told), 0);
        pid_t pid = fork();
        if (!pid) {
            struct rfg_db *db;
            if (rfg_db_open(&db, path, RFG_DB_WRITE) != RFG_OK)
                _exit(1);
            for (int i = next;; i++) {
                struct rfg_row r = make(gemm(i, 2), "a", 1, i, RFG_SOURCE_MEASURED);
                if (rfg_db_put(db, &r) != RFG_OK || write(told[1], &i, sizeof(i)) != sizeof(i))
                    _exit(1);
            }
        }
        close(told[1]);
        usleep((useconds_t)(rand() % 40000));
        kill(pid, SIGKILL);
        waitpid(pid, &got, 0);
        ck_assert(WIFSIGNALED(got));
        while (read(told[0], &got, sizeof(got)) == sizeof(got))
            next = got + 1;
        close(told[0]);
        if (access(path, F_OK))
            continue; /* killed before it made the file */
        assert_sound(path);
        ck_assert_uint_ge(count(path), (size_t)next - 1); /* what was reported is there; one more may be */
        ck_assert_uint_le(count(path), (size_t)next + (size_t)round);
    }
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    for (int i = 1; i < next; i++) {
        struct rfg_problem p = gemm(i, 2);
        struct rfg_row r;
        ck_assert_int_eq(rfg_db_get(db, &p, "a", 1, &r), 1);
        ck_assert_double_eq(r.median_us, i);
    }
    rfg_db_close(&db);
    ck_assert_int_gt(next, 1);
    ck_assert_int_eq(shell("test $(ls %s | grep -c corrupt) = 0", dir), 0);
}
END_TEST

/* ---- text -------------------------------------------------------------------------------------------------------- */

START_TEST(csv_round_trip)
{
    char a[160], b[160], other[160];
    int rows;
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    static const double us[] = { 0.1, 1.0 / 3, 1e-300, 123456789.123456789, 5e-324, 1.7976931348623157e308 };
    for (int i = 0; i < 6; i++) {
        struct rfg_row r = make(gemm(1 + i, 2), i % 2 ? "a" : "b_1", 1 + i, us[i], (enum rfg_source)(i % 3));
        r.spread_us = r.default_us = r.vendor_us = us[5 - i];
        OK(rfg_db_put(db, &r));
    }
    snprintf(a, sizeof(a), "%s/a.csv", dir);
    snprintf(b, sizeof(b), "%s/b.csv", dir);
    snprintf(other, sizeof(other), "%s/other.db", dir);
    OK(rfg_db_export_csv(db, NULL, a));
    struct rfg_db *copy = open_db(other, RFG_DB_WRITE);
    OK(rfg_db_import_csv(copy, a, true, &rows));
    ck_assert_int_eq(rows, 6);
    OK(rfg_db_export_csv(copy, NULL, b));
    ck_assert_int_eq(shell("cmp %s %s && test $(wc -l < %s) = 7", a, b, a), 0);
    for (int i = 0; i < 6; i++) {
        struct rfg_row x, y;
        struct rfg_problem p = gemm(1 + i, 2);
        ck_assert_int_eq(rfg_db_get(db, &p, i % 2 ? "a" : "b_1", 1 + i, &x), 1);
        ck_assert_int_eq(rfg_db_get(copy, &p, i % 2 ? "a" : "b_1", 1 + i, &y), 1);
        assert_same(&x, &y);
        ck_assert_mem_eq(&x.spread_us, &y.spread_us, sizeof(double));
    }
    OK(rfg_db_export_csv(db, "b_1", b));
    ck_assert_int_eq(shell("test $(wc -l < %s) = 4", b), 0);
    ck_assert_int_eq(rfg_db_export_csv(db, NULL, "/nonexistent/x.csv"), RFG_ERROR_IO);
    rfg_db_close(&copy);

    /* without keep_how a measurement of elsewhere ranks below one's own */
    ck_assert_int_eq(shell("rm %s", other), 0);
    copy = open_db(other, RFG_DB_WRITE);
    OK(rfg_db_import_csv(copy, a, false, &rows));
    struct rfg_row r;
    struct rfg_problem p = gemm(3, 2);
    ck_assert_int_eq(rfg_db_get(copy, &p, "b_1", 3, &r), 1);
    ck_assert_int_eq(r.how, RFG_SOURCE_IMPORTED);
    rfg_db_close(&copy);
    rfg_db_close(&db);
}
END_TEST

/* What sed does to a good file's third line (or to the header), and what is said. */
static const struct {
    const char *sed, *says;
} bad_lines[] = {
    { "3s/^gemm/conv/", "x.csv:3: column op: 'conv': no such operator" },
    { "3s/bf16->bf16/int4->bf16/", "x.csv:3: column dtypes: dtype 'int4'" },
    { "3s/bf16,bf16->bf16/bf16,f32->bf16/", "x.csv:3: column dtypes: dtype of w" },
    { "3s/,,2,2,64/,ldx=4,2,2,64/", "x.csv:3: column attrs: 'ldx'" },
    { "3s/,,2,2,64/,bias=7,2,2,64/", "x.csv:3: column attrs: bias=7" },
    { "3s/,,2,2,64/,M=3,2,2,64/", "x.csv:3: column attrs: 'M'" },
    { "3s/,,2,2,64/,,two,2,64/", "x.csv:3: column M: 'two': must be a whole number" },
    { "3s/,,2,2,64/,,2,-2,64/", "x.csv:3: column N: '-2': must be a whole number" },
    { "3s/,,2,2,64/,,2,2,99999999999/", "x.csv:3: column K: K=99999999999" },
    { "3s/,a,1,/,,1,/", "x.csv:3: column arch: ''" },
    { "3s/,a,1,/,a,0,/", "x.csv:3: column cu_count: 0" },
    { "3s/gemm_cpu_portable/gemm_gone/", "x.csv:3: column variant: 'gemm_gone'" },
    { "3s/\"\"rows\"\":[0-9]*/\"\"rows\"\":77/", "x.csv:3: column params: rows=77" },
    { "3s/\"\"rows\"\"/\"\"rowz\"\"/", "x.csv:3: column params: " },
    { "3s/,2026-/,0,2026-/", "x.csv:3: 26 fields: must be 25" },
    { "3s/measured/guessed/", "x.csv:3: column how: 'guessed'" },
    { "3s/,11,/,many,/", "x.csv:3: column samples: 'many'" },
    { "3s/,0.1,1,/,nan,1,/", "x.csv:3: column error: 'nan'" },
    { "3s/,0.1,1,/,1.5,1,/", "x.csv:3: column error: 1.5: must be at most" },
    { "3s/1844674407370955161[0-9]/99999999999999999999/", "x.csv:3: column seed: '9999" },
    { "3s/measured/\"measured/", "x.csv:3: the quotes" },
    { "3s/gemm_cpu_portable/gemm_cpu_portable_with_a_name_that_is_longer_than_any/", "x.csv:3: column variant: 'gemm" },
    { "3p", "x.csv:4: 'gemm bf16,bf16->bf16 M=2 N=2 K=64', a, 1 CUs: must be there once" },
    { "1s/dtypes/types/", "x.csv:1: column 'types'" },
    { "1s/dtypes/op/", "x.csv:1: column 'op': is there twice" },
    { "1s/,how//", "x.csv:1: column how is missing" },
    { "d", "x.csv: empty" },
};

START_TEST(bad_lines_import_nothing)
{
    char good[160], bad[160];
    int rows = 99;
    snprintf(good, sizeof(good), "%s/good.csv", dir);
    snprintf(bad, sizeof(bad), "%s/x.csv", dir);
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    for (int i = 1; i <= 3; i++) {
        struct rfg_row r = make(gemm(i, 2), "a", 1, i, RFG_SOURCE_MEASURED);
        OK(rfg_db_put(db, &r));
    }
    OK(rfg_db_export_csv(db, NULL, good));
    sql(path, "delete from tuned");
    ck_assert_int_eq(shell("sed '%s' %s > %s && ! cmp -s %s %s", bad_lines[_i].sed, good, bad, good, bad), 0);
    ck_assert_int_eq(rfg_db_import_csv(db, bad, true, &rows), RFG_ERROR_INVALID_ARGUMENT);
    SAYS(bad_lines[_i].says);
    ck_assert_int_eq(rows, 0);
    ck_assert_uint_eq(count(path), 0);
    /* comments, blank lines, CRLF and a byte order mark are no errors */
    ck_assert_int_eq(
        shell("(printf '\\357\\273\\277'; sed 's/$/\\r/; 1i# comment' %s; echo; echo '# end') > %s", good, bad), 0);
    OK(rfg_db_import_csv(db, bad, true, &rows));
    ck_assert_int_eq(rows, 3);
    rfg_db_close(&db);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("db");
    TCase *tc = tcase_create("rows");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, rows_come_back);
    tcase_add_loop_test(tc, better_evidence_stays, 0, 6);
    tcase_add_test(tc, implausible_rows_are_refused);
    tcase_add_test(tc, each_is_ordered_and_tells_bad_rows);
    tcase_add_test(tc, parameters);
    tcase_add_test(tc, misses_and_failures);
    suite_add_tcase(s, tc);

    tc = tcase_create("files");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, odd_names, 0, 5);
    tcase_add_loop_test(tc, older_schemas_are_migrated, 0, 2);
    tcase_add_loop_test(tc, strangers_files_are_refused, 0, 4);
    tcase_add_test(tc, someones_text_is_not_moved);
    tcase_add_loop_test(tc, damaged_files_are_set_aside, 0, N_DAMAGES);
    tcase_add_test(tc, logs_move_with_their_file);
    tcase_add_test(tc, what_cannot_be_opened);
    tcase_add_test(tc, read_only_directories);
    tcase_add_test(tc, default_paths);
    suite_add_tcase(s, tc);

    tc = tcase_create("many");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, many_threads, 0, 2);
    tcase_add_loop_test(tc, many_processes, 0, 2);
    tcase_add_test(tc, killed_writers_lose_nothing);
    suite_add_tcase(s, tc);

    tc = tcase_create("csv");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, csv_round_trip);
    tcase_add_loop_test(tc, bad_lines_import_nothing, 0, (int)(sizeof(bad_lines) / sizeof(bad_lines[0])));
    suite_add_tcase(s, tc);

    return run_suite(s);
}
