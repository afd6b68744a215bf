/* SPDX-License-Identifier: MIT
 *
 * Problems in databases of schema 3: what windows and gates were called then. */
#include <stdio.h>

#include "db_case.h"

#define MHA    "mha bf16->bf16 B=1 S=4096 Hq=64 "
#define DECODE "mha_decode bf16->bf16 B=8 S=4096 Hq=64 "
#define GEMM   "gemm bf16,bf16->bf16 M=8 N=64 K=128 "

/* What attributes of schema 3 were, one of them the name that another's has today. */
static const struct {
    const char *problem, *attrs, *attrs_of_3;
} renamed[] = {
    { MHA, "Hkv=8 D=64 Sq=4096 causal=1 window=128 sink=1", "Hkv=8 D=64 Sq=4096 causal=1 window=127 sink=1" },
    { MHA, "Hkv=8 D=64 Sq=4096 causal=1 window=129 sink=1", "Hkv=8 D=64 Sq=4096 causal=1 window=128 sink=1" },
    { MHA, "Hkv=8 D=64 Sq=64 window_left=5 window_right=3", "Hkv=8 D=64 Sq=64 window=5 window_right=3" },
    { MHA, "Hkv=8 D=64 Sq=64 causal=1 page=16", "Hkv=8 D=64 Sq=64 causal=1 page=16" },
    { DECODE, "Hkv=8 D=64 window=1 page=16", "Hkv=8 D=64 window=0 page=16" },
    { DECODE, "Hkv=8 D=64 Sq=2 causal=1 window=9", "Hkv=8 D=64 Sq=2 causal=1 window=8" },
    { DECODE, "Hkv=8 D=64 Sq=2 window_left=8", "Hkv=8 D=64 Sq=2 window=8" },
    { GEMM, "act=silu", "act=silu halves=1" },
    { GEMM, "act=silu gates=interleaved", "act=silu" },
    { GEMM, "bias=1 act=swigluoai limit=3 gates=interleaved experts=8", "bias=1 act=swigluoai limit=3 experts=8" },
    { GEMM, "bias=1 act=swigluoai limit=3 experts=8", "bias=1 act=swigluoai limit=3 halves=1 experts=8" },
    { GEMM, "bias=1", "bias=1" },
    { "act_and_mul bf16->bf16 M=8 N=64 ", "act=swigluoai gates=interleaved", "act=swigluoai interleaved=1" },
};
enum { RENAMED = sizeof(renamed) / sizeof(renamed[0]) };

static struct rfg_problem renamed_problem(int i)
{
    char text[RFG_PROBLEM_STRLEN];
    snprintf(text, sizeof(text), "%s%s", renamed[i].problem, renamed[i].attrs);
    return problem(text);
}

static bool count_renamed(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                          uint64_t calls, const char *last)
{
    struct rfg_problem is = renamed_problem((int)calls - 1);
    (void)arch, (void)cu_count, (void)rung, (void)last;
    ck_assert_msg(rfg_problem_equal(prob, &is), "%d", (int)calls - 1);
    ++*(int *)ctx;
    return true;
}

static void assert_renamed(enum rfg_db_mode mode)
{
    struct rfg_db *db = open_db(path, mode);
    char what[20];
    int misses = 0;
    ck_assert_int_eq(rfg_db_schema(db), mode == RFG_DB_READ ? 3 : RFG_DB_SCHEMA);
    ck_assert_uint_eq(count_all(db), RENAMED);
    for (int i = 0; i < RENAMED; i++) {
        struct rfg_problem p = renamed_problem(i);
        struct rfg_row row;
        ck_assert_msg(rfg_db_get(db, &p, "a", 1, NULL, &row) == 1, "%s: %s", renamed[i].attrs, rfg_last_error());
        ck_assert_msg(row.median_us == i + 1 && rfg_problem_equal(&row.problem, &p), "%s", renamed[i].attrs);
        ck_assert_msg(rfg_db_failed(db, &p, "a", 1, "c", "h", what, sizeof(what)) == 1, "%s", renamed[i].attrs);
    }
    OK(rfg_db_each_miss(db, count_renamed, &misses));
    ck_assert_int_eq(misses, RENAMED);
    rfg_db_close(&db);
}

/* Windows and gates: rows, misses and failures keep their meaning, read or migrated. */
START_TEST(problems_of_schema_3)
{
    static const char *const tables[] = { "tuned", "misses", "failures" };
    struct rfg_db *db = open_db(path, RFG_DB_WRITE);
    for (int i = 0; i < RENAMED; i++) {
        struct rfg_row row = make(renamed_problem(i), "a", 1, i + 1, RFG_SOURCE_MEASURED);
        OK(rfg_db_put(db, &row));
        OK(rfg_db_add_misses(db, &row.problem, "a", 1, 4, (uint64_t)i + 1));
        OK(rfg_db_put_failure(db, &row.problem, "a", 1, "c", "h", "hung", "d"));
    }
    rfg_db_close(&db);
    for (int i = 0; i < RENAMED; i++)
        for (int t = 0; t < 3; t++) {
            char text[400];
            snprintf(text, sizeof(text), "UPDATE %s SET attrs = '- %s' WHERE attrs = '%s' AND op = '%.*s'", tables[t],
                     renamed[i].attrs_of_3, renamed[i].attrs, (int)strcspn(renamed[i].problem, " "),
                     renamed[i].problem);
            sql(path, text);
        }
    for (int t = 0; t < 3; t++) {
        char text[100];
        snprintf(text, sizeof(text), "UPDATE %s SET attrs = substr(attrs, 3)", tables[t]);
        sql(path, text);
    }
    sql(path, "PRAGMA user_version=3");
    assert_renamed(RFG_DB_READ);
    assert_renamed(RFG_DB_WRITE);
    assert_renamed(RFG_DB_WRITE);
    assert_sound(path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("db_older");
    TCase *tc = test_case(s, "older", setup, teardown);
    ADD_TESTS(tc, problems_of_schema_3);
    return run_suite(s);
}
