/* SPDX-License-Identifier: MIT
 *
 * Recorded loads of experts (routing=recorded): the file of --loads, the distribution of rows, rfg-tune and rfg-bench
 * with it, and the rows that serve a call. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/op_case.h"
#include "tests/tools/tune_case.h"
#include "tuner/harness/loads.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))
#define SMALL    "gemm bf16,bf16->bf16 M=24 N=16 K=32 experts=4 top=2"

static char loads_path[300];

static void set_up_loads(void)
{
    setup();
    snprintf(loads_path, sizeof(loads_path), "%s/loads", dir);
}

static void tear_down_loads(void)
{
    ck_assert(gemm_loads_set(NULL, 0));
    teardown();
}

static void set_loads(const int64_t *tokens, int n)
{
    ck_assert(gemm_loads_set(tokens, n));
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

START_TEST(reads_files)
{
    static const char *const good[] = {
        "7\n0\n12\n1000000000000\n",
        "# layer 3\r\n\r\n7\r\n0\r\n12\r\n1000000000000",
        "expert,tokens\n2,12\n0,7\n3,1000000000000\n1,0\n",
    };
    char name[RFG_RECORDING_NAME] = "";
    for (int i = 0; i < COUNT(good); i++) {
        const int64_t *tokens;
        set_loads((const int64_t[]){ 1 }, 1);
        write_file(loads_path, good[i]);
        ck_assert_msg(rfg_loads_read(loads_path) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(gemm_loads(&tokens), 4);
        ck_assert(tokens[0] == 7 && tokens[1] == 0 && tokens[2] == 12 && tokens[3] == 1000000000000);
        ck_assert(!*name || !strcmp(name, gemm_loads_name()));
        snprintf(name, sizeof(name), "%s", gemm_loads_name());
    }
    ck_assert_uint_eq(strspn(name, "0123456789abcdef"), 16);
    set_loads((const int64_t[]){ 7, 0, 13, 1000000000000 }, 4);
    ck_assert_str_ne(name, gemm_loads_name());
}
END_TEST

START_TEST(refuses_files)
{
    static const char *const bad[][2] = {
        { "3\n-3\n", "loads:2: tokens '-3': must be a whole number from 0 to 1000000000000" },
        { "3\n4.5\n", "loads:2: tokens '4.5': must be a whole number" },
        { "1000000000001\n", "loads:1: tokens '1000000000001': must be" },
        { "99999999999999999999\n", "loads:1: tokens '99999999999999999999': must be" },
        { "3\n\n\nmany\n", "loads:4: tokens 'many': must be" },
        { "3\n4,5\n", "loads:2: 2 fields: must be one, an expert's tokens (or two under the header expert,tokens)" },
        { "0,5\n", "loads:1: 2 fields: must be one" },
        { "expert,tokens\n5\n", "loads:2: 1 fields: must be two, expert,tokens" },
        { "expert,tokens\n0,1\n0,1\n", "loads:3: expert 0: line 2 has it already" },
        { "expert,tokens\n0,1\n2,1\n", "loads: expert 1 is missing: must have each from 0 to 2" },
        { "expert,tokens\n65536,1\n", "loads:2: expert '65536': must be a whole number from 0 to 65535" },
        { "expert,tokens\nx,1\n", "loads:2: expert 'x': must be" },
        { "expert,tokens\n", "loads: 0 experts, 0 tokens: must have at least one" },
        { "0\n0\n", "loads: 2 experts, 0 tokens: must have at least one" },
        { "\"3\n", "loads:1: the quotes" },
        { "", "0 experts" },
    };
    set_loads((const int64_t[]){ 1, 2 }, 2);
    for (int i = 0; i < COUNT(bad); i++) {
        write_file(loads_path, bad[i][0]);
        ck_assert_msg(rfg_loads_read(loads_path) == RFG_ERROR_INVALID_ARGUMENT, "%s is taken", bad[i][0]);
        assert_in(rfg_last_error(), bad[i][1]);
        ck_assert_int_eq(gemm_loads(NULL), 2);
    }
    FILE *f = fopen(loads_path, "w");
    for (int i = 0; i <= GEMM_MAX_EXPERTS; i++)
        fputs("1\n", f);
    fclose(f);
    ck_assert_int_eq(rfg_loads_read(loads_path), RFG_ERROR_INVALID_ARGUMENT);
    assert_in(rfg_last_error(), "loads:65537: must have at most 65536 experts");
    ck_assert_int_eq(rfg_loads_read("/nonexistent/loads"), RFG_ERROR_IO);
    assert_in(rfg_last_error(), "/nonexistent/loads");
}
END_TEST

/* ---- shares ------------------------------------------------------------------------------------------------------ */

/* By hand: the largest remainders get what is left, of equal ones the first. */
START_TEST(shares_rows_out)
{
    static const struct {
        int64_t tokens[4], rows, want[4];
    } cases[] = {
        { { 1, 1, 1, 1 }, 6, { 2, 2, 1, 1 } },
        { { 5, 3, 0, 2 }, 10, { 5, 3, 0, 2 } },
        { { 5, 3, 0, 2 }, 7, { 4, 2, 0, 1 } }, /* 3.5, 2.1, 0, 1.4 */
        { { 5, 3, 0, 2 }, 4, { 2, 1, 0, 1 } }, /* 2, 1.2, 0, 0.8 */
        { { 5, 3, 0, 2 }, 1, { 1, 0, 0, 0 } },
        { { 0, 0, 9, 0 }, 5, { 0, 0, 5, 0 } },
        { { 1, 0, 0, 1 }, 0, { 0, 0, 0, 0 } },
        { { 1, 0, 0, 1000000000000 }, 2147483647, { 0, 0, 0, 2147483647 } },
        { { 1000000000000, 1000000000000, 0, 1 }, 2147483647, { 1073741824, 1073741823, 0, 0 } },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        set_loads(cases[i].tokens, 4);
        int64_t *share = gemm_loads_share(cases[i].rows);
        ck_assert_ptr_nonnull(share);
        for (int e = 0; e < 4; e++)
            ck_assert_msg(share[e] == cases[i].want[e], "case %d, expert %d: %lld", i, e, (long long)share[e]);
        free(share);
    }
}
END_TEST

/* What is timed has the loads' rows, of each token different experts. */
START_TEST(deals_rows)
{
    static const char *const texts[] = { SMALL, "gemm bf16,bf16->bf16 M=23 N=16 K=32 experts=4 top=2",
                                         "gemm bf16,bf16->bf16 M=24 N=16 K=32 experts=4" };
    static const int64_t want[][4] = { { 12, 7, 0, 5 },
                                       { 11, 7, 0, 5 },
                                       { 12, 7, 0, 5 } }; /* 24: 12, 7.2, 0, 4.8; 23: 11.5, 6.9, 0, 4.6 */
    set_loads((const int64_t[]){ 500, 300, 0, 200 }, 4);
    for (int i = 0; i < COUNT(texts); i++) {
        struct rfg_problem read = problem(texts[i]), p = rfg_loads_applied(&read);
        struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
        int32_t offsets[5] = { 0 }, rows[24];
        ck_assert_int_eq(p.v[GEMM_ROUTING], GEMM_RECORDED);
        const struct rfg_op_case *of = rfg_op_case_of(p.op);
        of->tensors(&p, spec);
        rfg_tensor to = rfg_tensor_1d(offsets, RFG_I32, 5), tr = rfg_tensor_1d(rows, RFG_I32, p.v[GEMM_M]);
        ck_assert_str_eq(spec[8].name, "offsets");
        of->fill(&p, 8, &to, RFG_DATA_RANDOM, 1);
        if (p.v[GEMM_TOP])
            of->fill(&p, 9, &tr, RFG_DATA_RANDOM, 1);
        for (int e = 0; e < 4; e++) {
            ck_assert_msg(offsets[e + 1] - offsets[e] == want[i][e], "%s, expert %d: %d rows", texts[i], e,
                          offsets[e + 1] - offsets[e]);
            for (int r = offsets[e] + 1; r < offsets[e + 1] && p.v[GEMM_TOP]; r++)
                ck_assert_msg(rows[r] > rows[r - 1] && rows[r] < gemm_x_rows(&p), "%s: row %d", texts[i], r);
        }
    }
}
END_TEST

/* Bytes: of the experts that have rows. */
START_TEST(counts_bytes)
{
    static const struct {
        int m, experts;
    } cases[] = { { 1000, 3 }, { 10, 3 }, { 4, 3 }, { 1, 1 } };
    double bytes[2], flops;
    set_loads((const int64_t[]){ 500, 300, 0, 200 }, 4);
    for (int i = 0; i < COUNT(cases); i++) {
        for (int wide = 0; wide < 2; wide++) { /* 64 rows more of each expert that is read */
            char text[200];
            snprintf(text, sizeof(text), "gemm bf16,bf16->f32 M=%d N=%d K=128 experts=4 routing=recorded", cases[i].m,
                     wide ? 128 : 64);
            struct rfg_problem p = problem(text);
            p.op->cost(&p, &bytes[wide], &flops);
        }
        double read = (bytes[1] - bytes[0] - cases[i].m * 64.0 * 4) / (64 * 128 * 2);
        ck_assert_msg(read == cases[i].experts, "M=%d: %g experts", cases[i].m, read);
    }
}
END_TEST

/* ---- whose rows serve a call ------------------------------------------------------------------------------------- */

static const char *const routings[] = { " routing=one", "", " routing=zipf", " routing=recorded" };

static struct rfg_row row_of(const char *base, const char *routing)
{
    char text[200];
    snprintf(text, sizeof(text), "%s%s", base, routing);
    struct rfg_row row = { .problem = problem(text), .cu_count = 2, .median_us = 10, .how = RFG_SOURCE_MEASURED };
    snprintf(row.date, sizeof(row.date), "2026-11-21T00:00:00Z");
    snprintf(row.version, sizeof(row.version), "%s", RFG_VERSION);
    snprintf(row.arch, sizeof(row.arch), "%s", dev.arch);
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_reason why;
    ck_assert_msg(
        rfg_config_parse(row.problem.op, "gemm_cpu_portable{rows=4,cols=2,k_block=0,prefetch=0}", &var, p, &why), "%s",
        why.text);
    rfg_row_set_config(&row, var, p, false);
    if (rfg_problem_is_recorded(&row.problem))
        rfg_row_set_loads(&row, "0123456789abcdef");
    return row;
}

static void explained(const char *text, const char *says, const char * not )
{
    char buf[4000];
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = "cpu", .user_db = db_path };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_explain(ctx, text, buf, sizeof(buf)) == RFG_OK, "%s", rfg_last_error());
    assert_in(buf, says);
    assert_not_in(buf, not );
    rfg_context_destroy(&ctx);
}

/* A call doesn't tell its routing: recorded rows come before Zipf's, those before uniform ones; those of one expert
 * serve none. The same of rows with another M. */
START_TEST(rows_serve_calls)
{
    static const char *const far = "gemm bf16,bf16->bf16 M=32 N=16 K=32 experts=4 top=2";
    static const char *const says[][2] = {
        { "rung 1: no row for " SMALL "\n", "rung 2: no usable row with another M\n" },
        { "rung 1: row " SMALL " on 2 CUs -> ", "rung 2: row " SMALL " on 2 CUs -> " },
        { "rung 1: row " SMALL " routing=zipf on 2 CUs -> ", "rung 2: row " SMALL " routing=zipf on 2 CUs -> " },
        { "rung 1: row " SMALL " routing=recorded on 2 CUs -> ",
          "rung 2: row " SMALL " routing=recorded on 2 CUs -> " },
    };
    for (int i = 0; i < COUNT(routings); i++) {
        struct rfg_row row = row_of(SMALL, routings[i]);
        struct rfg_db *db = open_db(RFG_DB_WRITE);
        ck_assert_msg(rfg_db_put(db, &row) == RFG_OK, "%s", rfg_last_error());
        rfg_db_close(&db);
        explained(SMALL, says[i][0], "routing=one");
        explained(SMALL " routing=zipf", says[i][0], "routing=one"); /* what it stands for is the same call */
        explained(far, says[i][1], "routing=one");
    }
    explained(far, " for loads 0123456789abcdef", "routing=zipf");
}
END_TEST

/* Their plans are those of the calls. */
START_TEST(prepares_calls)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = "cpu", .user_db = "" };
    struct rfg_problem call = problem(SMALL);
    for (int file = 0; file < 2; file++) {
        ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
        write_file(csv_path, "op,dtype,M,N,K,attrs\ngemm,bf16,24,16,32,experts=4 top=2 routing=recorded\n");
        rfg_status st = file ? rfg_prepare_from_csv(ctx, csv_path) : rfg_prepare(ctx, SMALL " routing=zipf");
        ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
        ck_assert_ptr_nonnull(rfg_plan_find(ctx, &call));
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* A row says which loads it is of, and one of other problems doesn't. */
START_TEST(rows_name_their_loads)
{
    struct rfg_row row = row_of(SMALL, " routing=recorded"), other = row_of(SMALL, " routing=zipf");
    const struct rfg_variant *var = rfg_variant_find(row.problem.op, row.variant);
    int p[RFG_MAX_PARAMS];
    char name[RFG_RECORDING_NAME];
    struct rfg_reason why;
    ck_assert_msg(rfg_row_params(&row, var, p, &why), "%s", why.text);
    ck_assert_str_eq(row.params, "{\"rows\":4,\"cols\":2,\"k_block\":0,\"prefetch\":0,\"loads\":\"0123456789abcdef\"}");
    ck_assert_str_eq(rfg_row_loads(&row, name, sizeof(name)), "0123456789abcdef");
    ck_assert_str_eq(rfg_row_loads(&other, name, sizeof(name)), "");
    rfg_row_set_loads(&other, "0123456789abcdef");
    ck_assert(!rfg_row_params(&other, var, p, &why));
    assert_in(why.text, "has no parameter 'loads'");
    static const char *const bad[] = {
        "{\"rows\":4,\"cols\":2,\"k_block\":0,\"prefetch\":0}",
        "{\"rows\":4,\"cols\":2,\"k_block\":0,\"prefetch\":0,\"loads\":5}",
        "{\"rows\":4,\"cols\":2,\"k_block\":0,\"prefetch\":0,\"loads\":\"0123456789abcde\"}",
        "{\"rows\":4,\"cols\":2,\"k_block\":0,\"prefetch\":0,\"loads\":\"0123456789abcdeg\"}",
        "{\"rows\":4,\"cols\":2,\"k_block\":0,\"prefetch\":0,\"loads\":\"0123456789abcdef0\"}"
    };
    for (int i = 0; i < COUNT(bad); i++) {
        snprintf(row.params, sizeof(row.params), "%s", bad[i]);
        ck_assert_msg(!rfg_row_params(&row, var, p, &why), "%s is taken", bad[i]);
        assert_in(why.text, "loads must be 16 hexadecimal digits");
    }
}
END_TEST

/* ---- rfg-tune ---------------------------------------------------------------------------------------------------- */

#define ASKED    "--per-shape", "0.2", "--variants", "gemm_cpu_portable"
#define RECORDED SMALL " routing=recorded"

START_TEST(tunes_recorded)
{
    struct rfg_row row;
    char name[RFG_RECORDING_NAME], before[RFG_RECORDING_NAME];
    struct rfg_problem missed = problem(SMALL);
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    ck_assert_int_eq(rfg_db_add_misses(db, &missed, dev.arch, dev.cu_count, 4, 5), RFG_OK);
    rfg_db_close(&db);

    assert_exit(run("--problem", RECORDED), 2);
    assert_in(err, RECORDED ": routing=recorded: must have the tokens of each expert: --loads FILE");
    write_file(loads_path, "5\n3\n0\n");
    assert_exit(run("--problem", RECORDED, "--loads", loads_path), 2);
    assert_in(err, "experts=4: must be 3 with routing=recorded, as many as --loads has");
    write_file(loads_path, "5\n3\n0\nno\n");
    assert_exit(run("--problem", RECORDED, "--loads", loads_path), 2);
    assert_in(err, "rfg-tune: --loads: ");
    assert_in(err, "loads:4: tokens 'no': must be");
    assert_exit(run("--from-misses", "--online", "100", "--loads", loads_path), 2);

    /* What says no routing becomes recorded; what says one, or has no experts, stays. */
    write_file(loads_path, "5\n3\n0\n2\n");
    assert_exit(run("--online", "100", "--from-misses", "--loads", loads_path), 2);
    assert_in(err, "--loads");
    assert_exit(run("--from-misses", "--problem", SMALL " routing=zipf", "--problem", P1, "--loads", loads_path, ASKED),
                0);
    ck_assert_int_eq(get_row(SMALL, &row), 0);
    ck_assert_int_eq(get_row(SMALL " routing=zipf", &row), 1);
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert_int_eq(get_row(RECORDED, &row), 1);
    ck_assert_int_eq(row.how, RFG_SOURCE_MEASURED);
    set_loads((const int64_t[]){ 5, 3, 0, 2 }, 4);
    ck_assert_str_eq(rfg_row_loads(&row, before, sizeof(before)), gemm_loads_name());
    assert_in(out, " for loads ");
    assert_exit(run("--from-misses"), 0);
    assert_in(err, "no misses recorded for "); /* the call has a row now */

    /* The same loads: up to date. Others: tuned anew. */
    assert_exit(run("--problem", SMALL, "--loads", loads_path, ASKED), 0);
    assert_in(out, "0 tuned, 1 up to date");
    write_file(loads_path, "5\n3\n1\n2\n");
    assert_exit(run("--problem", RECORDED, "--loads", loads_path, ASKED), 0);
    assert_in(out, "1 tuned, 0 up to date");
    ck_assert_int_eq(get_row(RECORDED, &row), 1);
    ck_assert_str_ne(rfg_row_loads(&row, name, sizeof(name)), before);
}
END_TEST

START_TEST(benches_recorded)
{
    char cmd[1200];
    const char *bin = rfg_env("RFG_BINDIR");
    for (int loads = 0; loads < 2; loads++) {
        write_file(loads_path, "5\n3\n0\n2\n");
        snprintf(cmd, sizeof(cmd),
                 "%s/rfg-bench --device cpu --db '' --rounds 3 --max-seconds 0.1 --problem '%s' %s%s >'%s/out' 2>&1",
                 bin ? bin : "build/bin", loads ? SMALL : RECORDED, loads ? "--loads " : "", loads ? loads_path : "",
                 dir);
        int code = system(cmd);
        snprintf(cmd, sizeof(cmd), "%s/out", dir);
        char *text = rfg_read_file(cmd, NULL);
        ck_assert_ptr_nonnull(text);
        ck_assert_msg(WEXITSTATUS(code) == (loads ? 0 : 2), "%s", text);
        assert_in(text, loads ? RECORDED : "routing=recorded: must have the tokens of each expert");
        free(text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loads");
    TCase *tc = test_case(s, "loads", set_up_loads, tear_down_loads);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, reads_files, refuses_files, shares_rows_out, deals_rows, counts_bytes, rows_serve_calls,
              prepares_calls, rows_name_their_loads);
    tc = test_case(s, "programs", set_up_loads, tear_down_loads);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, tunes_recorded, benches_recorded);
    return run_suite(s);
}
