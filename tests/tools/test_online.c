/* SPDX-License-Identifier: MIT
 *
 * Online tuning: this program run by another name is an engine that calls one product again and again, and has an
 * rfg-tune beside it: the real one, or a script that leaves a mark. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "online_engine.h"
#include "tune_case.h"

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool count_miss(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                       uint64_t calls, const char *last)
{
    int *n = ctx;
    (void)prob, (void)arch, (void)cu_count, (void)rung, (void)calls, (void)last;
    ++*n;
    return true;
}

static const char *const devices[] = { "cpu", "emu:gfx90a:4" };

static bool skip_device(int i)
{
    bool emulated = i == 1;
    setenv("RFG_VARIANTS", emulated ? "gemm_portable" : "gemm_cpu_portable", 1);
    if (!emulated || rfg_jit_provider_for("gfx90a"))
        return false;
    printf("SKIPPED: tuning: %s\n", rfg_last_error());
    return true;
}

START_TEST(tunes_while_the_engine_goes_on)
{
    struct rfg_row row;
    if (skip_device(_i))
        return;
    if (_i) {
        strcpy(dev.arch, "emu-gfx90a");
        dev.cu_count = 4;
    }
    plant_real("");
    assert_exit(engine(devices[_i], "until-tuned", ""), 0);
    assert_in(out, "calls 1");
    assert_in(out, "child at the end 0");
    ck_assert_int_eq(get_row(P, &row), 1);
    ck_assert_int_eq(row.how, RFG_SOURCE_PROVISIONAL); /* it was measured beside others' work */
    ck_assert_double_le(row.error, row.error_bound);
    char *log = rfg_read_file(log_path, NULL);
    assert_in(log, P);
    free(log);
    check_integrity();
    /* The next context begins with the row: nothing is missed, nothing is started. */
    ck_assert_int_eq(unlink(log_path), 0);
    assert_exit(engine(devices[_i], "idle", "0.5"), 0);
    ck_assert_int_eq(access(log_path, F_OK), -1);
}
END_TEST

/* What the engine counted until it took the row up is no reason to tune it again. */
START_TEST(a_miss_that_has_a_row_is_done)
{
    int misses = 0;
    struct rfg_row row, again;
    struct rfg_problem p = problem(P);
    skip_device(0);
    for (int i = 0; i < 2; i++) {
        struct rfg_db *db = open_db(RFG_DB_WRITE);
        ck_assert_int_eq(rfg_db_add_misses(db, &p, dev.arch, dev.cu_count, 4, 7), RFG_OK);
        rfg_db_close(&db);
        assert_exit(run("--from-misses", "--online", "60000", "--candidates", "3", "--seed", i ? "2" : "1"), 0);
        assert_in(out, i ? "0 tuned, 1 up to date" : "1 tuned");
        ck_assert_int_eq(get_row(P, i ? &again : &row), 1);
    }
    ck_assert_uint_eq(again.seed, 1);
    struct rfg_db *db = open_db(RFG_DB_READ);
    ck_assert_int_eq(rfg_db_each_miss(db, count_miss, &misses), RFG_OK);
    rfg_db_close(&db);
    ck_assert_int_eq(misses, 0);
}
END_TEST

START_TEST(a_later_miss_is_tuned_too)
{
    struct rfg_problem p = problem(P), q = problem(P3);
    struct rfg_row row;
    skip_device(0);
    misbehave("lag:gemm");
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    ck_assert_int_eq(rfg_db_add_misses(db, &p, dev.arch, dev.cu_count, 4, 7), RFG_OK);
    pid_t pid = start((const char *const[]){ "--db", db_path, "--from-misses", "--online", "5000", NULL });
    for (int i = 0; i < 1200 && access(log_path, F_OK); i++)
        nap(0.05);
    nap(1); /* it has read its list */
    ck_assert_int_eq(rfg_db_add_misses(db, &q, dev.arch, dev.cu_count, 4, 7), RFG_OK);
    rfg_db_close(&db);
    assert_exit(finish(pid), 0);
    ck_assert_int_eq(get_row(P, &row), 1);
    ck_assert_int_eq(get_row(P3, &row), 1);
}
END_TEST

/* ---- the budget -------------------------------------------------------------------------------------------------- */

/* An imagined clock: whatever the slices, no minute has more work than the budget and the slice that it ends in. */
START_TEST(no_minute_has_more_than_the_budget)
{
    static const double budgets[] = { 1, 500, 30000, 60000 };
    for (int b = 0; b < 4; b++) {
        struct tune_pace p;
        double at[400], took[400], now = 0;
        uint64_t seed = 7;
        tune_pace_begin(&p, budgets[b]);
        for (int i = 0; i < 400; i++) {
            double rest = p.owed_s * (i % 3 ? 1 : 0.5); /* in parts, too */
            while (p.owed_s > 1e-12) {
                tune_pace_rested(&p, rest);
                now += rest;
                rest = p.owed_s;
            }
            at[i] = now;
            took[i] = 1e-3 * budgets[b] * (double)(rfg_random(&seed) % 1000) / 2000;
            now += took[i];
            tune_pace_worked(&p, took[i]);
        }
        ck_assert_int_gt(p.slices, 390);
        double busy = 0, most = 0;
        for (int i = 0; i < 400; i++)
            busy += took[i];
        ck_assert_double_eq_tol(p.busy_s, busy, 1e-9);
        for (int i = 0; i < 400; i++) {
            double in_minute = 0;
            for (int k = i; k < 400 && at[k] < at[i] + 60; k++)
                in_minute += took[k];
            most = in_minute > most ? in_minute : most;
        }
        ck_assert_double_le(most, 1e-3 * budgets[b] + p.longest_s + 1e-9);
        ck_assert_double_ge(now, (busy - took[399]) * 60e3 / budgets[b] * 0.4);
    }
}
END_TEST

START_TEST(stays_within_the_budget)
{
    char json_path[300];
    struct rfg_problem p = problem(P);
    skip_device(0);
    snprintf(json_path, sizeof(json_path), "%s/j.json", dir);
    misbehave("lag:gemm"); /* 20 ms each */
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    ck_assert_int_eq(rfg_db_add_misses(db, &p, dev.arch, dev.cu_count, 4, 7), RFG_OK);
    rfg_db_close(&db);
    assert_exit(run("--from-misses", "--online", "6000", "--candidates", "3", "--json", json_path), 0);
    json_t *j = json_load_file(json_path, 0, NULL);
    const json_t *o = json_object_get(json_object_get(j, "summary"), "online");
    double busy = json_number_value(json_object_get(o, "busy_s")),
           paused = json_number_value(json_object_get(o, "paused_s"));
    ck_assert_int_eq(json_integer_value(json_object_get(o, "budget_ms")), 6000);
    ck_assert_int_ge(json_integer_value(json_object_get(o, "slices")),
                     6); /* the data, 3 candidates, race, verification */
    ck_assert_double_ge(busy, 0.06);
    ck_assert_double_ge(paused, 9 * busy - 1e-6);
    /* Between the slices, not all of it in the end. */
    ck_assert_double_le(json_number_value(json_object_get(o, "most_owed_s")),
                        9 * json_number_value(json_object_get(o, "longest_s")) + 1e-6);
    json_decref(j);
}
END_TEST

/* ---- when nothing is started ------------------------------------------------------------------------------------- */

START_TEST(starts_nothing_under_capture)
{
    if (skip_device(_i))
        return;
    plant_marker("sleep 1");
    assert_exit(engine(devices[_i], "captured", ""), 0);
    ck_assert_int_eq(starts(), 1);
}
END_TEST

START_TEST(a_stream_that_is_not_ready_keeps_the_old_kernel)
{
    if (skip_device(1))
        return;
    setenv("RFG_VARIANTS", "gemm_portable,gemm_skinny", 1);
    plant_marker("exec sleep 20");
    assert_exit(engine(devices[1], "unready", ""), 0);
}
END_TEST

START_TEST(a_locked_database_is_read_again)
{
    skip_device(0);
    plant_marker("");
    assert_exit(engine("cpu", "locked", ""), 0);
}
END_TEST

/* What is this process' business alone the tuner doesn't inherit: it would write the engine's trace, and tune online.
 */
START_TEST(the_tuner_traces_nothing)
{
    char *show = rfg_asprintf("env | grep -E '^RFG_(TRACE|TUNE)=' | sort > %s", mark),
         *trace = rfg_asprintf("%s/trace-%%p.json", dir),
         *count = rfg_asprintf("test $(ls %s | grep -c trace-) = 1", dir);
    skip_device(0);
    plant(show, 0755);
    setenv("RFG_TRACE", trace, 1);
    setenv("RFG_TUNE", "online", 1);
    assert_exit(engine("cpu", "run", "0.3"), 0);
    unsetenv("RFG_TRACE");
    unsetenv("RFG_TUNE");
    ck_assert(tuner_is_gone());
    char *text = rfg_read_file(mark, NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_str_eq(text, "RFG_TRACE=\nRFG_TUNE=\n");
    ck_assert_int_eq(system(count), 0); /* the engine's own */
    free(text), free(show), free(trace), free(count);
}
END_TEST

START_TEST(starts_nothing_where_it_may_not)
{
    skip_device(0);
    plant_marker("sleep 1");
    assert_exit(engine("cpu", "off", "0.4"), 0);
    assert_exit(engine("cpu", "no-misses", "0.4"), 0);
    assert_exit(finish(start_engine("cpu", "/proc/none/t.db", "idle", "0.4", NULL)), 0);
    assert_in(out, "calls 1");
    assert_in(err, "misses are not recorded");
    assert_not_in(err, "nothing is tuned");
    char *newer = rfg_asprintf("%s/newer.db", dir);
    sqlite3 *h;
    ck_assert_int_eq(sqlite3_open(newer, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "PRAGMA application_id=1380337457; PRAGMA user_version=99", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(h);
    assert_exit(finish(start_engine("cpu", newer, "idle", "0.4", NULL)), 0);
    assert_in(err, "schema 99");
    free(newer);
    assert_exit(engine("cpu", "forked", ""), 0);
    char *pack = rfg_asprintf("%s/p.rfgpack", dir);
    char *cmd =
        rfg_asprintf("%s/rfg-db pack --arch emu:gfx90a:4 --shapes %s -o %s", rfg_env("RFG_BINDIR"), csv_path, pack);
    write_file(csv_path, "op,dtype,M,N,K\ngemm,bf16,1,16,32\n");
    if (!skip_device(1)) {
        ck_assert_int_eq(system(cmd), 0);
        assert_exit(finish(start_engine(devices[1], db_path, "pack", "0.4", pack)), 0);
        assert_in(out, "calls 1");
    }
    skip_device(0);
    free(pack);
    free(cmd);
    ck_assert_int_eq(starts(), 0);
    assert_exit(engine("cpu", "run", "0.4"), 0); /* but for these it does */
    ck_assert_int_eq(starts(), 1);
}
END_TEST

START_TEST(does_not_start_a_program_of_others)
{
    skip_device(0);
    plant_marker("");
    ck_assert_int_eq(chmod(tune_path, 0757), 0);
    assert_exit(engine("cpu", "idle", "0.5"), 0);
    assert_in(out, "calls 1");
    assert_in(err, "can be written by others");
    assert_in(err, "nothing is tuned online");
    ck_assert_ptr_null(strstr(strstr(err, "nothing is tuned online") + 1, "nothing is tuned online")); /* once */
    ck_assert_int_eq(starts(), 0);
}
END_TEST

START_TEST(two_engines_start_one_tuner)
{
    skip_device(0);
    plant_marker("exec sleep 20"); /* nor again while it works */
    pid_t a = start_engine("cpu", db_path, "run", "60", NULL);
    for (int i = 0; i < 400 && !starts(); i++)
        nap(0.05);
    pid_t b = start_engine("cpu", db_path, "run", "60", NULL); /* now: their misses don't meet a lock of the other's */
    nap(3);
    kill(a, SIGKILL); /* the tuner, a script, doesn't notice: it goes on */
    kill(b, SIGKILL);
    assert_exit(finish(b), -SIGKILL);
    assert_exit(finish(a), -SIGKILL);
    ck_assert_int_eq(starts(), 1);
    /* And by hand it isn't started beside it. */
    assert_exit(run("--from-misses", "--online", "100"), 1);
    assert_in(err, "another online tuner");
}
END_TEST

START_TEST(says_how_the_tuner_ended_and_leaves_no_zombie)
{
    skip_device(0);
    plant_marker("exit 3");
    assert_exit(engine("cpu", "run", "0.6"), 0);
    assert_in(err, "the online tuner ended with status 3");
    assert_in(out, "child 0");
    ck_assert_int_eq(starts(), 1); /* not again for what it was asked */
    plant_marker("exit 0");
    assert_exit(engine("cpu", "ignores-children", "0.6"), 0);
    assert_in(out, "calls 1, child 0");
}
END_TEST

START_TEST(what_is_written_must_be_right)
{
    static const char *const wrong[][2] = { { "RFG_TUNE", "yes" },
                                            { "RFG_TUNE_BUDGET_MS", "0" },
                                            { "RFG_TUNE_BUDGET_MS", "60001" },
                                            { "RFG_TUNE_BUDGET_MS", "5x" } };
    rfg_context_params p = { .size = sizeof(p), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "" };
    rfg_context *ctx;
    for (int i = 0; i < 4; i++) {
        setenv("RFG_TUNE", "online", 1);
        setenv("RFG_TUNE_BUDGET_MS", "500", 1);
        ck_assert_int_eq(rfg_context_create(&ctx, &p), RFG_OK);
        rfg_context_destroy(&ctx);
        setenv(wrong[i][0], wrong[i][1], 1);
        ck_assert_int_eq(rfg_context_create(&ctx, &p), RFG_ERROR_INVALID_ARGUMENT);
        assert_in(rfg_last_error(), wrong[i][0]);
        assert_in(rfg_last_error(), wrong[i][1]);
    }
    p.tune = "now";
    ck_assert_int_eq(rfg_context_create(&ctx, &p), RFG_ERROR_INVALID_ARGUMENT);
    assert_in(rfg_last_error(), "tune='now'");
    assert_exit(run("--online", "500"), 2);
    assert_exit(run("--from-misses", "--online", "0"), 2);
    assert_exit(run("--from-misses", "--online", "500", "--problem", P1), 2);
}
END_TEST

/* ---- its end ----------------------------------------------------------------------------------------------------- */

START_TEST(ends_with_the_engine)
{
    bool killed = _i == 0;
    skip_device(0);
    misbehave("hang:gemm");
    setenv("RFG_TEST_MEASURE_TIMEOUT", "300", 1);
    plant_real("");
    pid_t pid = start_engine("cpu", db_path, "run", killed ? "60" : "2.5", NULL);
    ck_assert(log_says("1 of 1 shapes to tune"));
    nap(0.5);
    if (killed)
        kill(pid, SIGKILL);
    assert_exit(finish(pid), killed ? -SIGKILL : 0);
    if (!killed)
        assert_in(out, "child at the end 0");
    ck_assert(tuner_is_gone());
    check_integrity();
    char keys[8192];
    ck_assert_str_eq(all_keys(keys), "");
}
END_TEST

static TCase *add_case(Suite *s, const char *name)
{
    TCase *tc = test_case(s, name, setup_online, teardown);
    tcase_set_timeout(tc, 150);
    return tc;
}

int main(int argc, char **argv)
{
    if (argc > 4 && !strcmp(argv[0], "rfg-test-engine"))
        return engine_main(argv);
    Suite *s = suite_create("online");
    TCase *tc = add_case(s, "rows");
    ADD_TESTS(tc, a_miss_that_has_a_row_is_done, a_later_miss_is_tuned_too);
    ADD_LOOPS(tc, 2, tunes_while_the_engine_goes_on);
    tc = add_case(s, "budget");
    ADD_TESTS(tc, no_minute_has_more_than_the_budget, stays_within_the_budget);
    tc = add_case(s, "capture");
    ADD_TESTS(tc, a_stream_that_is_not_ready_keeps_the_old_kernel);
    ADD_LOOPS(tc, 2, starts_nothing_under_capture);
    tc = add_case(s, "starts");
    ADD_TESTS(tc, a_locked_database_is_read_again, the_tuner_traces_nothing, starts_nothing_where_it_may_not,
              does_not_start_a_program_of_others, two_engines_start_one_tuner,
              says_how_the_tuner_ended_and_leaves_no_zombie, what_is_written_must_be_right);
    tc = add_case(s, "end");
    ADD_LOOPS(tc, 2, ends_with_the_engine);
    return run_suite(s);
}
