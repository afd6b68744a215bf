/* SPDX-License-Identifier: MIT
 *
 * The page of rfg-tune --report: of a run, and of results made up to be hard to show. report_page.py reads it.
 *   test-report FILE.json > page.html    shows what --json wrote */
#include <jansson.h>

#include "base/util.h"
#include "tuner/tune/tune.h"
#include "tests/program.h"
#include "tests/suite.h"

static bool write_page(const char *json, FILE *f)
{
    json_error_t e;
    json_t *run = json_load_file(json, 0, &e);
    size_t i;
    const json_t *shape;
    if (!run)
        fprintf(stderr, "%s:%d: %s\n", json, e.line, e.text);
    if (run) {
        tune_html_begin(f, run, json_object_get(run, "summary"));
        json_array_foreach(json_object_get(run, "shapes"), i, shape) tune_html_shape(f, shape, (int)i);
        tune_html_end(f);
    }
    json_decref(run);
    return run && !ferror(f);
}

/* Problems and candidates on it. */
static void read_page(const char *html, const char *json, int *problems, int *candidates)
{
    char cmd[600];
    const char *python = rfg_env("RFG_PYTHON"), *root = rfg_env("RFG_SOURCE_ROOT");
    ck_assert(python && root);
    snprintf(cmd, sizeof(cmd), "%s %s/tests/tools/report_page.py %s %s > said 2>&1", python, root, html, json);
    int rc = system(cmd);
    char *said = rfg_read_file("said", NULL);
    ck_assert_msg(rc == 0 && said && sscanf(said, "%d %d", problems, candidates) == 2, "%s", said ? said : cmd);
    free(said);
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

START_TEST(of_a_run)
{
    int problems, candidates;
    setenv("RFG_CPU_ISA", "portable", 1);
    setenv("RFG_THREADS", "2", 1);
    setenv("RFG_CACHE_DIR", "cache", 1);
    setenv("RFG_TEST_MEASURE", "wrong:cols=2;crash:rows=2,cols=4,k_block=0,prefetch=2", 1);
    ck_assert_msg(run_program("rfg-tune", "--device cpu --db t.db --per-shape 8 --seed 3 --json r.json --report r.html "
                                          "--problem 'gemm f32,f32->f32 M=5 N=17 K=33' "
                                          "--problem 'gemm bf16,bf16->f32 M=3 N=20 K=128 bias=1'") == 0,
                  "%s", err);
    read_page("r.html", "r.json", &problems, &candidates);
    ck_assert_int_eq(problems, 2);
    char *page = rfg_read_file("r.html", NULL);
    ck_assert(page && strstr(page, ", default ") && !strstr(page, ", vendor ")); /* there is none on cpu */
    free(page);
    json_t *run = json_load_file("r.json", 0, NULL), *shape;
    size_t i, k;
    static const char *const texts[] = { "gemm f32,f32->f32 M=5 N=17 K=33",
                                         "gemm bf16,bf16->f32 M=3 N=20 K=128 bias=1" };
    int timed = 0;
    json_array_foreach(json_object_get(run, "shapes"), i, shape)
    {
        const json_t *tries = json_object_get(shape, "tries"), *untimed = json_object_get(shape, "untimed"), *c;
        int failed = 0, winners = 0, raced = 0;
        ck_assert_str_eq(text_of(shape, "problem"), texts[i]);
        json_array_foreach(untimed, k, c)
        {
            const char *config = text_of(c, "config");
            if (strcmp(text_of(c, "state"), "failed"))
                continue;
            failed++;
            ck_assert_str_eq(text_of(c, "what"), strstr(config, "cols=2") ? "wrong" : "fault");
        }
        json_array_foreach(tries, k, c)
        {
            const json_t *won = json_object_get(c, "winner");
            winners += json_is_true(won);
            raced += json_is_true(json_object_get(c, "raced"));
            if (won)
                ck_assert_str_eq(text_of(c, "config"), text_of(shape, "config"));
        }
        timed += (int)json_array_size(tries);
        ck_assert_int_eq(failed, json_integer_value(json_object_get(shape, "failed")));
        ck_assert_int_ge(failed, 2); /* of both kinds */
        ck_assert_int_eq(winners, 1);
        ck_assert(raced >= 1 && raced <= 7);
        /* Every candidate is somewhere. */
        ck_assert_int_eq((int)(json_array_size(tries) + json_array_size(untimed)) +
                             (int)json_integer_value(json_object_get(shape, "pruned")),
                         json_integer_value(json_object_get(shape, "candidates")));
    }
    ck_assert(timed == candidates && timed > 2);
    json_decref(run);
    /* The rows are there now: a page without candidates. (A busy machine makes them provisional: tuned once more.) */
    for (int i = 0; i == 0 || (i < 5 && candidates > 0); i++) {
        ck_assert_int_eq(run_program("rfg-tune", "--device cpu --db t.db --json r.json --report r.html "
                                                 "--problem 'gemm f32,f32->f32 M=5 N=17 K=33'"),
                         0);
        read_page("r.html", "r.json", &problems, &candidates);
    }
    ck_assert(problems == 1 && candidates == 0);
}
END_TEST

/* The time is up after the first candidate: the others are named. */
START_TEST(of_a_run_cut_short)
{
    int problems, candidates;
    setenv("RFG_CPU_ISA", "portable", 1);
    setenv("RFG_CACHE_DIR", "cache", 1);
    ck_assert_msg(run_program("rfg-tune", "--device cpu --db t.db --per-shape 0.01 --json r.json --report r.html "
                                          "--problem 'gemm bf16,bf16->bf16 M=256 N=512 K=2048'") == 0,
                  "%s", err);
    read_page("r.html", "r.json", &problems, &candidates);
    json_t *run = json_load_file("r.json", 0, NULL), *s = json_array_get(json_object_get(run, "shapes"), 0);
    int not_reached = 0;
    size_t i;
    const json_t *c;
    json_array_foreach(json_object_get(s, "untimed"), i, c) not_reached += !strcmp(text_of(c, "state"), "not reached");
    ck_assert_int_gt(not_reached, 3);
    ck_assert_int_eq(json_integer_value(json_object_get(s, "not_reached")), not_reached);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(run, "summary"), "cut_short")), 1);
    json_decref(run);
}
END_TEST

START_TEST(of_what_is_hard_to_show)
{
    char json[400];
    int problems, candidates;
    snprintf(json, sizeof(json), "%s/tests/tools/report_cases.json", rfg_env("RFG_SOURCE_ROOT"));
    FILE *f = fopen("r.html", "w");
    ck_assert(f && write_page(json, f) && fclose(f) == 0);
    read_page("r.html", json, &problems, &candidates);
    ck_assert(problems == 10 && candidates == 13);
    char *page = rfg_read_file("r.html", NULL);
    ck_assert(page && strstr(page, "&lt;script&gt;alert(&#39;2&#39;)&lt;/script&gt;") &&
              !strstr(page, "<script>alert"));
    ck_assert(!strchr(page, 1) && !strchr(page, 27));
    free(page);
}
END_TEST

START_TEST(of_nothing)
{
    int problems, candidates;
    FILE *f = fopen("none.json", "w");
    ck_assert(f &&
              fputs("{\"product\":\"\",\"device\":\"cpu\",\"arch\":\"\",\"driver\":\"\",\"shapes\":[],\"summary\":{}}",
                    f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
    f = fopen("none.html", "w");
    ck_assert(f && write_page("none.json", f) && fclose(f) == 0);
    read_page("none.html", "none.json", &problems, &candidates);
    ck_assert(problems == 0 && candidates == 0);
}
END_TEST

/* What the spread is compared with. */
START_TEST(when_the_spread_swamps)
{
    static const struct {
        double median, spread, def, vendor;
        const char *swamps;
    } rows[] = {
        { 10, 10, 20, 0, "time" },     { 10, 9.99, 20, 0, "half" },  { 10, 1, 11, 0, "default" },
        { 10, 0.9, 11, 0, NULL },      { 10, 1, 0, 0, NULL },        { 10, 1, 10, 0, NULL },
        { 10, 1, 20, 10.5, "vendor" }, { 10, 1, 20, 9.5, "vendor" }, { 10, 1, 20, 10, NULL },
        { 10, 1, 20, 11.5, NULL },     { 10, 5, 10, 0, "half" },     { 10, 4.9, 10, 0, NULL },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rfg_row r = { .median_us = rows[i].median,
                             .spread_us = rows[i].spread,
                             .default_us = rows[i].def,
                             .vendor_us = rows[i].vendor };
        const char *got = tune_spread_swamps(&r);
        ck_assert_msg(rows[i].swamps ? got && !strcmp(got, rows[i].swamps) : !got, "row %zu: %s", i,
                      got ? got : "none");
    }
}
END_TEST

/* The last table says so in place of a ratio. */
START_TEST(table_says_what_the_spread_swamps)
{
    static const struct {
        double spread, def, vendor;
        const char *said;
    } rows[] = {
        { 1, 12, 0, "    1.20x        -" },  { 1, 11, 12, "  no diff    1.20x" },  { 1, 10, 9.5, "    1.00x  no diff" },
        { 1, 9.5, 0, "  no diff        -" }, { 30, 39, 42, "  no diff    4.20x" },
    };
    struct tune_shape shapes[5] = { 0 };
    struct tune t = { .shapes = shapes, .n_shapes = 5 };
    char *text, *at;
    size_t size;
    for (int i = 0; i < t.n_shapes; i++) {
        snprintf(shapes[i].text, sizeof(shapes[i].text), "problem %d", i);
        shapes[i].state = SHAPE_CURRENT;
        shapes[i].row.problem.op = rfg_ops[0];
        shapes[i].row.median_us = 10;
        shapes[i].row.spread_us = rows[i].spread;
        shapes[i].row.default_us = rows[i].def;
        shapes[i].row.vendor_us = rows[i].vendor;
    }
    FILE *f = open_memstream(&text, &size);
    tune_print_table(&t, f);
    fclose(f);
    at = text;
    for (int i = 0; i < t.n_shapes; i++) {
        at = strchr(at, '\n') + 1;
        ck_assert_msg(strstr(at, rows[i].said) && strstr(at, rows[i].said) < strchr(at, '\n'),
                      "row %d: no '%s' in:\n%s", i, rows[i].said, text);
    }
    free(text);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return !write_page(argv[1], stdout);
    Suite *s = suite_create("report");
    TCase *tc = test_case(s, "report", program_setup, program_teardown);
    ADD_TESTS(tc, of_a_run, of_a_run_cut_short, of_what_is_hard_to_show, of_nothing, when_the_spread_swamps,
              table_says_what_the_spread_swamps);
    return run_suite(s);
}
