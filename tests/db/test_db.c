/* SPDX-License-Identifier: MIT
 *
 * Tuned databases return what was stored, whatever happens to the file, the process or other processes. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "db_case.h"

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
    ck_assert_int_eq(rfg_db_get(db, &r.problem, "gfx942", 304, NULL, &got), 1);
    assert_same(&r, &got);
    /* strides and alignment are no part of the key; everything else is */
    struct rfg_problem layout = problem("gemm bf16,bf16->f32 M=8 N=2112 K=7168 bias=1 ldx=8000 align=2");
    struct rfg_problem other = problem("gemm bf16,bf16->f32 M=8 N=2112 K=7168");
    ck_assert_int_eq(rfg_db_get(db, &layout, "gfx942", 304, NULL, &got), 1);
    ck_assert_int_eq(rfg_db_get(db, &other, "gfx942", 304, NULL, &got), 0);
    ck_assert_int_eq(rfg_db_get(db, &r.problem, "gfx942", 303, NULL, &got), 0);
    ck_assert_int_eq(rfg_db_get(db, &r.problem, "gfx950", 304, NULL, &got), 0);
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
    } t[] = {
        { RFG_SOURCE_MEASURED, RFG_SOURCE_MEASURED, 2 },     { RFG_SOURCE_MEASURED, RFG_SOURCE_IMPORTED, 1 },
        { RFG_SOURCE_MEASURED, RFG_SOURCE_PREDICTED, 1 },    { RFG_SOURCE_IMPORTED, RFG_SOURCE_PREDICTED, 1 },
        { RFG_SOURCE_IMPORTED, RFG_SOURCE_MEASURED, 2 },     { RFG_SOURCE_PREDICTED, RFG_SOURCE_IMPORTED, 2 },
        { RFG_SOURCE_PROVISIONAL, RFG_SOURCE_PREDICTED, 1 }, { RFG_SOURCE_PREDICTED, RFG_SOURCE_PROVISIONAL, 2 },
        { RFG_SOURCE_PROVISIONAL, RFG_SOURCE_IMPORTED, 2 },  { RFG_SOURCE_MEASURED, RFG_SOURCE_PROVISIONAL, 1 },
        { RFG_SOURCE_IMPORTED, RFG_SOURCE_PROVISIONAL, 1 },  { RFG_SOURCE_PROVISIONAL, RFG_SOURCE_PROVISIONAL, 2 }
    };
    struct rfg_row got;
    put(path, make(gemm(1, 2), "a", 1, 1, t[_i].first));
    put(path, make(gemm(1, 2), "a", 1, 2, t[_i].second));
    struct rfg_db *db = open_db(path, RFG_DB_READ);
    struct rfg_problem p = gemm(1, 2);
    ck_assert_int_eq(rfg_db_get(db, &p, "a", 1, NULL, &got), 1);
    ck_assert_double_eq(got.median_us, t[_i].expect);
    rfg_db_close(&db);
}
END_TEST

/* Two products of one arch and CU count have a row each; one that isn't known stands in for either. */
START_TEST(rows_of_siblings)
{
    struct rfg_row a = make(gemm(1, 2), "gfx942", 304, 1, RFG_SOURCE_MEASURED), b = a, unknown = a, got;
    struct rfg_stamp stamp = { &b, "s", "c", "clang" };
    size_t written;
    strcpy(a.device, "AMD Instinct MI300X");
    a.mem_gbps = 4101.5;
    strcpy(b.device, "AMD Instinct MI325X");
    b.median_us = 2;
    strcpy(unknown.device, "");
    unknown.median_us = 3;
    put(path, a);
    put(path, b);
    ck_assert_uint_eq(count(path), 2);
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    ck_assert_int_eq(rfg_db_get(db, &a.problem, "gfx942", 304, a.device, &got), 1);
    assert_same(&got, &a);
    ck_assert_int_eq(rfg_db_get(db, &a.problem, "gfx942", 304, b.device, &got), 1);
    assert_same(&got, &b);
    ck_assert_int_eq(rfg_db_get(db, &a.problem, "gfx942", 304, "AMD Instinct MI308X", &got), 0);
    OK(rfg_db_restamp(db, &stamp, 1, &written));
    ck_assert_uint_eq(written, 1);
    ck_assert_int_eq(rfg_db_get(db, &a.problem, "gfx942", 304, a.device, &got), 1);
    assert_same(&got, &a);
    OK(rfg_db_put(db, &unknown));
    ck_assert_int_eq(rfg_db_get(db, &a.problem, "gfx942", 304, "AMD Instinct MI308X", &got), 1);
    assert_same(&got, &unknown);
    ck_assert_int_eq(rfg_db_get(db, &a.problem, "gfx942", 304, a.device, &got), 1);
    assert_same(&got, &a);
    unknown.how = RFG_SOURCE_PREDICTED; /* a better one of its own device is there; the siblings' are none of its */
    OK(rfg_db_put(db, &unknown));
    ck_assert_int_eq(rfg_db_get(db, &a.problem, "gfx942", 304, "", &got), 1);
    ck_assert_int_eq(got.how, RFG_SOURCE_MEASURED);
    ck_assert_uint_eq(count_all(db), 3);
    rfg_db_close(&db);
}
END_TEST

START_TEST(implausible_rows_are_refused)
{
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    static const char *const says[] = {
        "median_us: nan", "median_us: 0", "spread_us: -1", "error: 2: must be at most",  "arch: ''",
        "variant: ''",    "cu_count: 0",  "samples: -1",   "one line of printable text", "vendor_us: inf"
    };
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

/* Whoever asked for a change is told that it wasn't made, whatever it was. */
START_TEST(changes_of_what_is_only_read_are_refused)
{
    const struct rfg_problem p = gemm(1, 2);
    const struct rfg_calibration c = { 1234, 5678, 1.5, 0.75, 1.25, "imagined gfx90a", "HIP 5", "today" };
    struct rfg_row r = make(p, "x", 4, 5, RFG_SOURCE_PREDICTED);
    *r.device = 0;
    int rows;
    size_t n;
    put(path, r);
    char csv[160];
    snprintf(csv, sizeof(csv), "%s/a.csv", dir);
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    OK(rfg_db_add_misses(db, &p, "x", 4, 4, 10));
    OK(rfg_db_export_csv(db, NULL, csv));
    rfg_db_close(&db);
    db = open_db(path, RFG_DB_READ);
    struct rfg_stamp stamp = { .row = &r, "a", "b", "c" };
    ck_assert_int_eq(rfg_db_put(db, &r), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_drop_predicted(db, &p, "x", 4), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_restamp(db, &stamp, 1, &n), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_add_misses(db, &p, "x", 4, 4, 10), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_clear_miss(db, &p, "x", 4), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_put_failure(db, &p, "x", 4, "v{a=1}", "h1", "hung", "10 s"), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_put_calibration(db, "x", 4, &c), RFG_ERROR_DATABASE);
    ck_assert_int_eq(rfg_db_import_csv(db, csv, true, &rows), RFG_ERROR_DATABASE);
    rfg_db_close(&db);
    /* Text of a row that nobody understands isn't written. */
    sql(path, "update tuned set op='conv'");
    db = open_db(path, RFG_DB_READ);
    ck_assert_int_eq(rfg_db_export_csv(db, NULL, csv), RFG_ERROR_DATABASE);
    SAYS("row not understood: ");
    rfg_db_close(&db);
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
        ck_assert_int_eq(rfg_db_get(db, &p, i % 2 ? "a" : "b_1", 1 + i, NULL, &x), 1);
        ck_assert_int_eq(rfg_db_get(copy, &p, i % 2 ? "a" : "b_1", 1 + i, NULL, &y), 1);
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
    ck_assert_int_eq(rfg_db_get(copy, &p, "b_1", 3, NULL, &r), 1);
    ck_assert_int_eq(r.how, RFG_SOURCE_IMPORTED);
    rfg_db_close(&copy);
    rfg_db_close(&db);
}
END_TEST

/* A text file of rfg 0.1 has no code_hash and no mem_gbps, and its device names no product; every other column must be
 * there. */
START_TEST(csv_of_0_1)
{
    char a[160];
    int rows;
    struct rfg_row r = make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED), got;
    snprintf(a, sizeof(a), "%s/a.csv", dir);
    ck_assert_int_eq(rfg_db_write_csv(&r, 1, a), RFG_OK);
    ck_assert_int_eq(shell("sed -i 's/,code_hash//; s/,mem_gbps//; s/,def,/,/; s/,cpu,0,/,nvidia:0,/' %s && grep -q "
                           "nvidia:0 %s && ! grep -qE 'code_hash|mem_gbps' %s",
                           a, a, a),
                     0);
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    OK(rfg_db_import_csv(db, a, true, &rows));
    ck_assert_int_eq(rfg_db_get(db, &r.problem, "a", 1, NULL, &got), 1);
    rfg_db_close(&db);
    ck_assert_str_eq(got.code_hash, "");
    strcpy(r.code_hash, "");
    strcpy(r.device, "");
    assert_same(&r, &got);
}
END_TEST

/* Only the stamp changes; and not if the row was written anew since it was read. */
START_TEST(restamping)
{
    struct rfg_row rows[2] = { make(gemm(1, 2), "a", 1, 1, RFG_SOURCE_MEASURED),
                               make(gemm(2, 2), "a", 1, 1, RFG_SOURCE_MEASURED) },
                   newer = rows[1], got;
    struct rfg_stamp stamps[2] = { { &rows[0], "s", "c", "clang" }, { &rows[1], "s", "c", "clang" } };
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    size_t written;
    OK(rfg_db_put_all(db, rows, 2, NULL));
    strcpy(newer.date, "2026-11-23T00:00:00Z");
    OK(rfg_db_put(db, &newer));
    OK(rfg_db_restamp(db, stamps, 2, &written));
    ck_assert_uint_eq(written, 1);
    ck_assert_int_eq(rfg_db_get(db, &rows[1].problem, "a", 1, NULL, &got), 1);
    assert_same(&got, &newer);
    ck_assert_int_eq(rfg_db_get(db, &rows[0].problem, "a", 1, NULL, &got), 1);
    ck_assert_str_eq(got.source_hash, "s");
    strcpy(rows[0].source_hash, "s");
    strcpy(rows[0].code_hash, "c");
    strcpy(rows[0].compiler, "clang");
    assert_same(&got, &rows[0]);
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
    { "3s/\"\"rows\"\"/\"\"rowz\"\"/", "rows is missing" },
    { "3s/\"\"rows\"\":[0-9]*,//", "rows is missing" },
    { "3s/\"\"rows\"\"/\"\"rowz\"\":1,\"\"rows\"\"/", "gemm_cpu_portable has no parameter 'rowz'" },
    { "3s/\"\"rows\"\":/\"\"rows\"\":0/", "x.csv:3: column params: params" },
    { "3s/\"\"rows\"\":[0-9]*/\"\"rows\"\":\"\"4\"\"/", "rows must be a whole number" },
    { "3s/,2026-/,0,2026-/", "x.csv:3: 28 fields: must be 27" },
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
    TCase *tc = test_case(s, "rows", setup, teardown);
    ADD_TESTS(tc, rows_come_back, rows_of_siblings, implausible_rows_are_refused, each_is_ordered_and_tells_bad_rows,
              parameters, misses_and_failures, changes_of_what_is_only_read_are_refused);
    ADD_LOOPS(tc, 12, better_evidence_stays);

    tc = test_case(s, "csv", setup, teardown);
    ADD_TESTS(tc, csv_round_trip, csv_of_0_1, restamping);
    ADD_LOOPS(tc, (sizeof(bad_lines) / sizeof(bad_lines[0])), bad_lines_import_nothing);

    return run_suite(s);
}
