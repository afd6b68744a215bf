/* SPDX-License-Identifier: MIT
 *
 * rfg-tune when something goes wrong: failing candidates, failing machines, doubtful winners, another tuner, a budget,
 * kills. */
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "tune_case.h"

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

START_TEST(skips_and_remembers_faulty_candidates)
{
    char json_path[300];
    struct rfg_row row;
    json_t *j, *s;
    misbehave("hang:" HANGS ";crash:" CRASHES ";wrong:" WRONG);
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
    misbehave("");
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

/* Attention's candidates are asked for lse, though the problem is without: out alone would not give this one away. */
START_TEST(looks_at_lse)
{
    char cmd[1200], kernels[300];
    const char *root = getenv("RFG_SOURCE_ROOT");
    snprintf(kernels, sizeof(kernels), "%s/kernels", dir);
    snprintf(cmd, sizeof(cmd),
             "cp -r '%s/ops' '%s' && sed -i 's/(top + rfg_log2(l)) \\* LN_2/(top + rfg_log2(l)) * 0.69f/' "
             "'%s/mha/portable.hip'",
             root ? root : ".", kernels, kernels);
    ck_assert_msg(system(cmd) == 0, "%s", cmd);
    setenv("RFG_KERNEL_DIR", kernels, 1);
    setenv("RFG_VARIANTS", "mha_decode_portable", 1);
    int code = run("--device", "emu:gfx942:4", "--problem", "mha_decode bf16->bf16 B=2 Hq=2 Hkv=1 D=64 S=40 page=16");
    unsetenv("RFG_KERNEL_DIR");
    unsetenv("RFG_VARIANTS");
    ck_assert_msg(code != 0, "a wrong lse was tuned: %s", out);
    assert_in(err, "lse[");
}
END_TEST

/* What the machine did to candidates is no verdict about them: a kill from outside, a full disk, a fault or a hang that
 * doesn't come again. A winner that was found without some of them is provisional. */
/* A kernel that its compiler refuses loses; the others go on, by the same compilers. */
START_TEST(tunes_what_compiles)
{
    char cmd[1200], kernels[300];
    const char *root = getenv("RFG_SOURCE_ROOT");
    snprintf(kernels, sizeof(kernels), "%s/kernels", dir);
    snprintf(cmd, sizeof(cmd), "cp -r '%s/ops' '%s' && echo '#error broken' >'%s/gemm/gpu/any/skinny.hip'",
             root ? root : ".", kernels, kernels);
    ck_assert_msg(system(cmd) == 0, "%s", cmd);
    setenv("RFG_KERNEL_DIR", kernels, 1);
    setenv("RFG_VARIANTS", "gemm_portable,gemm_skinny", 1);
    setenv("RFG_TEST_MEASURE_TIMEOUT", "50", 1);
    int code = run("--device", "emu:gfx942:4", "--problem", "gemm bf16,bf16->bf16 M=1 N=64 K=64", "--candidates", "4",
                   "--per-shape", "0.1");
    unsetenv("RFG_KERNEL_DIR");
    unsetenv("RFG_VARIANTS");
    ck_assert_msg(code == 0, "%d: %s", code, err);
    assert_in(err, "gemm_skinny{");
    assert_in(err, "broken");
    assert_in(out, "gemm_portable{");
    assert_in(out, "1 tuned");
    ck_assert_int_gt(count_failures(), 0);
}
END_TEST

START_TEST(forgets_what_was_not_the_candidates_doing)
{
    static const struct {
        const char *how;
        bool lost; /* in that run */
    } v[] = {
        { "end:" HANGS, true },         { "fail:" HANGS, true },         { "once-end:gemm", false },
        { "once-crash:" HANGS, false }, { "once-hang:" CRASHES, false },
    };
    struct rfg_row row;
    setenv("RFG_TEST_MEASURE_ONCE", dir, 1);
    setenv("RFG_TEST_MEASURE_TIMEOUT", "1", 1);
    misbehave(v[_i].how);
    assert_exit(run("--problem", P1, "--candidates", "1000"), 0);
    ck_assert_int_eq(count_failures(), 0);
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert_int_eq(row.how, v[_i].lost ? RFG_SOURCE_PROVISIONAL : RFG_SOURCE_MEASURED);
    if (v[_i].lost) {
        static const char lost[] = "provisional, tuned again in the next run: 1 candidates could not be tried: ";
        assert_in(err, lost);
        ck_assert_msg(strstr(err, lost)[strlen(lost)] > ' ', "%s", err); /* and why */
    }
    misbehave("");
    assert_exit(run("--problem", P1, "--candidates", "1000"), 0);
    assert_in(out, v[_i].lost ? "1 tuned, 0 up to date" : "0 tuned, 1 up to date");
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert_int_eq(row.how, RFG_SOURCE_MEASURED);
}
END_TEST

/* A winner whose times say little, or that had no competitor, is tuned again, and takes no better row's place. */
START_TEST(doubtful_winners_are_provisional)
{
    struct rfg_row row;
    misbehave("noisy:gemm");
    assert_exit(run("--problem", P1, "--seed", "1", "--per-shape", "0.3"), 0);
    assert_in(err, "the spread of ");
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert(row.how == RFG_SOURCE_PROVISIONAL && row.seed == 1);
    misbehave("");
    assert_exit(run("--problem", P1, "--seed", "2", "--candidates", "1"), 0);
    assert_in(err, "candidates was measured");
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert(row.how == RFG_SOURCE_PROVISIONAL && row.seed == 2);
    misbehave("lag:gemm");
    assert_exit(run("--problem", P1, "--seed", "3", "--per-shape", "0.01"), 0); /* two are measured whatever it takes */
    assert_in(out, "1 tuned");
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert(row.how == RFG_SOURCE_MEASURED && row.seed == 3);
    misbehave("noisy:gemm");
    assert_exit(run("--problem", P1, "--seed", "4", "--force", "--per-shape", "0.3"), 0);
    assert_in(err, "provisional and not stored: a row that ranks higher is there");
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert(row.how == RFG_SOURCE_MEASURED && row.seed == 3);
}
END_TEST

/* Rows that nobody measured here are not taken as up to date, true though they are. */
START_TEST(tunes_what_was_only_predicted)
{
    struct rfg_row row;
    assert_exit(run("--problem", P1, "--seed", "1", "--per-shape", "0.3"), 0);
    ck_assert_int_eq(get_row(P1, &row), 1);
    ck_assert_int_eq(unlink(db_path), 0);
    for (row.how = RFG_SOURCE_PREDICTED; row.how < RFG_SOURCE_MEASURED; row.how++) {
        struct rfg_db *db = open_db(RFG_DB_WRITE);
        struct rfg_row got;
        ck_assert_int_eq(rfg_db_put(db, &row), RFG_OK);
        rfg_db_close(&db);
        assert_exit(run("--problem", P1, "--seed", "2", "--per-shape", "0.3"), 0);
        assert_in(out, "1 tuned, 0 up to date");
        ck_assert(get_row(P1, &got) == 1 && got.seed == 2);
        ck_assert_int_eq(unlink(db_path), 0);
    }
}
END_TEST

/* A first look that finds something wrong is believed on renewed inputs only. */
START_TEST(looks_twice_before_it_calls_a_result_wrong)
{
    misbehave("slips:gemm");
    assert_exit(run("--problem", P1, "--per-shape", "0.3"), 0);
    assert_not_in(err, ": wrong: ");
    ck_assert_int_eq(count_failures(), 0);
}
END_TEST

START_TEST(writes_nothing_unless_something_is_right)
{
    struct rfg_row row;
    misbehave("wrong:gemm_cpu");
    assert_exit(run("--problem", P1), 1);
    assert_in(out, P1 " failed: no candidate passed");
    ck_assert_int_eq(get_row(P1, &row), 0);
    misbehave("");
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
        misbehave(wears[i]);
        assert_exit(run("--problem", P1, "--force"), 0);
        found += strstr(err, ": wrong: ") != NULL;
        ck_assert_int_eq(get_row(P1, &row), 1);
        ck_assert_msg(!strstr(row.params, "\"rows\":1") == !i, "%s: %s", wears[i], row.params);
    }
    ck_assert_msg(found, "neither run found a wrong winner: %s", err);
}
END_TEST

#define SHARED 12

/* Two on one database tune each problem once. What is forced is what had its row before the run began to tune: both
 * begin when the database is let go of, however long each takes to start. */
START_TEST(two_share_out_the_problems)
{
    char text[4096] = "op,dtype,M,N,K\n", cmd[1600], path[300];
    int tuned[2] = { 0, 0 }, current = 0;
    for (int i = 1; i <= SHARED; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "gemm,bf16,%d,%d,128\n", i, 16 * i);
    write_file(csv_path, text);
    const char *bin = rfg_env("RFG_BINDIR"), *more = _i ? "--force" : "";
    if (_i)
        assert_exit(run("--shapes", csv_path, "--per-shape", "0.05"), 0);
    snprintf(cmd, sizeof(cmd),
             "cd '%s'; tune() { '%s/rfg-tune' --db t.db --shapes shapes.csv --per-shape 0.4 %s --json j$1 > out$1 2> "
             "err$1; }; tune 0 & p=$!; tune 1 && wait $p",
             dir, bin ? bin : "build/bin", more);
    sqlite3 *held;
    snprintf(path, sizeof(path), "%s/t.db", dir);
    ck_assert_int_eq(sqlite3_open(path, &held), SQLITE_OK);
    sqlite3_busy_timeout(held, 10000); /* of readers, where there is no WAL */
    ck_assert_int_eq(sqlite3_exec(held, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    FILE *both = popen(cmd, "r");
    ck_assert_ptr_nonnull(both);
    sleep(2);
    ck_assert_int_eq(sqlite3_exec(held, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(held);
    ck_assert_int_eq(pclose(both), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/j%d", dir, i);
        json_t *j = json_load_file(path, 0, NULL), *s;
        size_t k;
        ck_assert_ptr_nonnull(j);
        json_array_foreach(json_object_get(j, "shapes"), k, s)
        {
            const char *state = json_string_value(json_object_get(s, "state"));
            tuned[i] += !strcmp(state, "tuned");
            current += strcmp(state, "tuned") != 0;
        }
        json_decref(j);
    }
    ck_assert_msg(tuned[0] && tuned[1] && tuned[0] + tuned[1] == SHARED && current == SHARED, "%d and %d tuned, %d not",
                  tuned[0], tuned[1], current);
    check_integrity();
}
END_TEST

/* The budget holds, and memory is bounded, however many problems there are. */
START_TEST(a_budget_for_very_many_problems)
{
    FILE *f = fopen(csv_path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("op,dtype,M,N,K\n", f);
    for (int i = 0; i < 200000; i++)
        fprintf(f, "gemm,bf16,%d,48,%d\n", 1 + i % 1000, 64 + i / 1000);
    for (int i = 0; i < 100000; i++)
        fputs("gemm,bf16,x,48,64\n", f);
    fclose(f);
    double before = rfg_now();
    assert_exit(run("--shapes", csv_path, "--time-budget", "1", "--per-shape", "0.1"), 3);
    ck_assert_double_lt(rfg_now() - before, 20);
    assert_in(err, ":65538: the rest of the file is left out");
    assert_in(out, "left out, the time budget was up:");
    struct rusage used;
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &used), 0);
    ck_assert_int_lt(used.ru_maxrss, 700 << 10);
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
    misbehave("hang:gemm_cpu");
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

static TCase *add_case(Suite *s, const char *name)
{
    TCase *tc = test_case(s, name, setup, teardown);
    tcase_set_timeout(tc, 120);
    return tc;
}

int main(void)
{
    Suite *s = suite_create("tune_faults");
    TCase *tc = add_case(s, "verdicts");
    ADD_TESTS(tc, skips_and_remembers_faulty_candidates, writes_nothing_unless_something_is_right,
              checks_the_winner_again, looks_twice_before_it_calls_a_result_wrong);
    ADD_LOOPS(tc, 5, forgets_what_was_not_the_candidates_doing);
    tc = add_case(s, "doubts");
    ADD_TESTS(tc, doubtful_winners_are_provisional, tunes_what_was_only_predicted);
    tc = add_case(s, "share");
    ADD_LOOPS(tc, 2, two_share_out_the_problems);
    tc = add_case(s, "budget");
    ADD_TESTS(tc, keeps_to_the_time_budget, a_budget_for_very_many_problems);
    tc = add_case(s, "kills");
    ADD_TESTS(tc, stops_at_an_interrupt, loses_nothing_when_it_is_killed);
    tc = add_case(s, "lse");
    ADD_TESTS(tc, looks_at_lse, tunes_what_compiles);
    return run_suite(s);
}
