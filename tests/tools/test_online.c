/* SPDX-License-Identifier: MIT
 *
 * Online tuning: this program run by another name is an engine that calls one product again and again, and has an
 * rfg-tune beside it: the real one, or a script that leaves a mark. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "rfg/rfg.h"
#include "tune_case.h"
#include "tuner/tune/pace.h"

/* ---- the engine ----------------------------------------------------------------------------------------------------
 */

#define M   1
#define N   16
#define K   32
#define P   "gemm bf16,bf16->bf16 M=1 N=16 K=32" /* small: the emulator tunes it, too */
#define ONE 0x3f80
#define SUM 0x4200 /* K */

/* Check's own are for the process that runs the test. */
#define must(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "engine: line %d: must be: %s: %s\n", __LINE__, #what, rfg_last_error());                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct engine {
    rfg_context *ctx;
    rfg_stream stream;
    void *x, *w, *y;
    uint64_t calls;
};

static void *put(struct engine *e, int n, uint16_t value)
{
    uint16_t host[N * K];
    void *mem;
    for (int i = 0; i < n; i++)
        host[i] = value;
    must(rfg_device_alloc(e->ctx, &mem, 2 * (size_t)n) == RFG_OK);
    must(rfg_device_copy(e->ctx, mem, host, 2 * (size_t)n, RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
    return mem;
}

static void call(struct engine *e, rfg_stream stream)
{
    rfg_tensor x = rfg_tensor_2d(e->x, RFG_BF16, M, K, K), w = rfg_tensor_2d(e->w, RFG_BF16, N, K, K),
               y = rfg_tensor_2d(e->y, RFG_BF16, M, N, N);
    must(rfg_op_gemm(e->ctx, &y, &x, &w, NULL, stream) == RFG_OK);
    e->calls++;
}

/* y holds the product's values; then it doesn't any more. */
static void check_result(struct engine *e, rfg_stream stream)
{
    uint16_t y[M * N];
    must(rfg_stream_sync(e->ctx, stream) == RFG_OK);
    must(rfg_device_copy(e->ctx, y, e->y, sizeof(y), RFG_DEVICE_TO_HOST, NULL) == RFG_OK);
    for (int i = 0; i < M * N; i++)
        must(y[i] == SUM);
    memset(y, 0x42, sizeof(y));
    must(rfg_device_copy(e->ctx, e->y, y, sizeof(y), RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
}

static rfg_stats stats(struct engine *e)
{
    rfg_stats s;
    rfg_context_stats(e->ctx, &s);
    return s;
}

static void run_for(struct engine *e, rfg_stream stream, double seconds)
{
    for (double until = rfg_now() + seconds; rfg_now() < until;) {
        call(e, stream);
        check_result(e, stream);
        nap(0.01);
    }
}

static void run_until_started(struct engine *e, const char *log)
{
    for (double until = rfg_now() + 40; access(log, F_OK) && rfg_now() < until;)
        run_for(e, e->stream, 0.01);
    must(access(log, F_OK) == 0);
}

/* Until a row was taken up; the graph of before it stays. */
static void run_until_tuned(struct engine *e)
{
    rfg_graph *graph;
    must(rfg_prepare_stream(e->ctx, e->stream) == RFG_OK);
    run_for(e, e->stream, 0);
    call(e, e->stream);
    must(rfg_stream_begin_capture(e->ctx, e->stream) == RFG_OK);
    call(e, e->stream);
    must(rfg_stream_end_capture(e->ctx, e->stream, &graph) == RFG_OK);
    for (double until = rfg_now() + 100; !stats(e).tuned && rfg_now() < until;) {
        call(e, e->stream);
        check_result(e, e->stream);
        nap(0.05);
    }
    uint64_t misses = stats(e).misses;
    run_for(e, e->stream, 0.3);
    must(stats(e).tuned == 1);
    must(stats(e).misses == misses); /* those before */
    must(stats(e).calls > misses);
    must(stats(e).calls == e->calls); /* the old kernel's, too */
    must(stats(e).plans == 1);
    must(rfg_graph_replay(e->ctx, graph, e->stream) == RFG_OK);
    check_result(e, e->stream);
    char text[4096];
    must(rfg_explain(e->ctx, P, text, sizeof(text)) == RFG_OK);
    must(strstr(text, "rung 1: row") != NULL);
    must(rfg_graph_destroy(e->ctx, &graph) == RFG_OK);
}

/* Calls only in captures; says when it is through with them. */
static void run_captured(struct engine *e, const char *log)
{
    rfg_graph *graph;
    char aligned[RFG_PROBLEM_MAX];
    must(rfg_describe_begin(e->ctx, aligned, sizeof(aligned)) == RFG_OK);
    call(e, NULL);
    rfg_describe_end(e->ctx);
    must(rfg_prepare(e->ctx, aligned) == RFG_OK);
    must(rfg_prepare_stream(e->ctx, NULL) == RFG_OK);
    must(rfg_stream_begin_capture(e->ctx, e->stream) == RFG_OK);
    for (int i = 0; i < 60; i++) {
        call(e, e->stream);
        if (strcmp(rfg_context_device(e->ctx), "cpu") != 0)
            call(e, NULL); /* beside the capture */
        nap(0.01);
    }
    must(access(log, F_OK) == -1);
    must(stats(e).tuned == 0);
    must(rfg_stream_end_capture(e->ctx, e->stream, &graph) == RFG_OK);
    must(rfg_graph_destroy(e->ctx, &graph) == RFG_OK);
    run_until_started(e, log);
}

#define SPLIT "gemm_skinny{m_tile=1,rows=2,waves=1,unroll=4,split_k=2}"

/* A tuner's row, as if one had run. */
static void write_row(struct engine *e, const char *db_file, const char *config)
{
    const struct rfg_device *d = rfg_context_info(e->ctx);
    struct rfg_row row = {
        .cu_count = d->cu_count, .median_us = 1, .samples = 1, .error_bound = 1, .how = RFG_SOURCE_MEASURED
    };
    const struct rfg_variant *var;
    struct rfg_reason why;
    struct rfg_db *db;
    int p[RFG_MAX_PARAMS];
    must(rfg_problem_parse(&row.problem, P, &why));
    must(rfg_config_parse(row.problem.op, config, &var, p, &why));
    rfg_row_set_config(&row, var, p, false);
    strcpy(row.arch, d->arch);
    must(rfg_db_open(&db, db_file, RFG_DB_WRITE) == RFG_OK);
    must(rfg_db_put(db, &row) == RFG_OK);
    rfg_db_close(&db);
}

static void write_line(const char *log)
{
    FILE *f = fopen(log, "a");
    must(f && fputs("a line\n", f) > 0 && fclose(f) == 0);
}

/* The database is locked when the engine is told of a row: it looks again, though it is told once. */
static void run_locked(struct engine *e, const char *db_file, const char *log)
{
    sqlite3 *h;
    run_until_started(e, log);
    run_for(e, NULL, 0.2);
    write_row(e, db_file, "gemm_cpu_portable{rows=1,cols=1,k_block=0,prefetch=0}");
    must(sqlite3_open(db_file, &h) == SQLITE_OK);
    must(sqlite3_exec(h, "pragma journal_mode=delete; begin exclusive", NULL, NULL, NULL) == SQLITE_OK);
    write_line(log);
    run_for(e, NULL, 0.5);
    must(stats(e).tuned == 0);
    must(sqlite3_exec(h, "rollback", NULL, NULL, NULL) == SQLITE_OK && sqlite3_close(h) == SQLITE_OK);
    for (double until = rfg_now() + 20; !stats(e).tuned && rfg_now() < until; nap(0.01))
        call(e, NULL);
    must(stats(e).tuned == 1);
}

/* A row comes whose kernel needs a workspace: on a stream of the program's own that has none, captured by the program,
 * the old one serves. */
static void run_unready(struct engine *e, const char *db_file, const char *log)
{
    const struct rfg_hip *hip = rfg_context_hip(e->ctx);
    hipStream_t s;
    hipGraph_t graph;
    run_for(e, NULL, 0.2);
    write_row(e, db_file, SPLIT);
    write_line(log);
    for (double until = rfg_now() + 20; !stats(e).tuned && rfg_now() < until; nap(0.01))
        call(e, NULL);
    run_for(e, NULL, 0);
    call(e, NULL);
    check_result(e, NULL);
    must(stats(e).tuned == 1);
    must(hip->hipStreamCreateWithFlags(&s, hipStreamNonBlocking) == hipSuccess);
    must(hip->hipStreamBeginCapture(s, hipStreamCaptureModeThreadLocal) == hipSuccess);
    call(e, (rfg_stream)s);
    must(hip->hipStreamEndCapture(s, &graph) == hipSuccess);
    must(hip->hipGraphDestroy(graph) == hipSuccess);
    must(hip->hipStreamDestroy(s) == hipSuccess);
}

/* In the child of a fork; the parent calls nothing. */
static void run_forked(struct engine *e)
{
    char problem_text[RFG_PROBLEM_MAX];
    int status;
    must(rfg_describe_begin(e->ctx, problem_text, sizeof(problem_text)) == RFG_OK);
    call(e, NULL);
    rfg_describe_end(e->ctx);
    must(rfg_prepare(e->ctx, problem_text) == RFG_OK);
    pid_t pid = fork();
    if (!pid) {
        run_for(e, NULL, 0.4);
        rfg_context_destroy(&e->ctx);
        _exit(0);
    }
    must(waitpid(pid, &status, 0) == pid && status == 0);
}

/* engine DEVICE DB WHAT SECONDS [PACK]: SECONDS are those after what it waits for. */
static int engine_main(char **argv)
{
    struct engine e = { 0 };
    const char *db = argv[2], *what = argv[3];
    char log[400];
    rfg_context_params p = { .device = argv[1], .user_db = db, .system_db = "", .tune = "online" };
    p.no_misses = !strcmp(what, "no-misses");
    p.pack = !strcmp(what, "pack") ? argv[5] : NULL;
    if (!strcmp(what, "off"))
        p.tune = "off";
    snprintf(log, sizeof(log), "%s.tuning", db);
    rfg_online_override_pace(0.05);
    pid_t own = fork(); /* a child of the engine's, whose end is its own business */
    if (!own)
        _exit(7);
    if (!strcmp(what, "ignores-children"))
        signal(SIGCHLD, SIG_IGN);
    must(rfg_context_create(&e.ctx, &p) == RFG_OK);
    must(rfg_stream_create(e.ctx, &e.stream) == RFG_OK);
    e.x = put(&e, M * K, ONE);
    e.w = put(&e, N * K, ONE);
    e.y = put(&e, M * N, 0);
    if (!strcmp(what, "until-tuned"))
        run_until_tuned(&e);
    else if (!strcmp(what, "captured"))
        run_captured(&e, log);
    else if (!strcmp(what, "unready"))
        run_unready(&e, db, log);
    else if (!strcmp(what, "locked"))
        run_locked(&e, db, log);
    else if (!strcmp(what, "forked"))
        run_forked(&e);
    else if (!strcmp(what, "run") || !strcmp(what, "ignores-children"))
        run_until_started(&e, log);
    if (*argv[4])
        run_for(&e, e.stream, atof(argv[4]));
    int status;
    must((waitpid(own, &status, 0) == own && WEXITSTATUS(status) == 7) || !strcmp(what, "ignores-children"));
    siginfo_t info;
    bool child = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
    printf("calls %d, child %d\n", stats(&e).calls > 0, child);
    void *memory[] = { e.x, e.w, e.y };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        must(rfg_device_free(e.ctx, memory[i]) == RFG_OK);
    must(rfg_stream_destroy(e.ctx, &e.stream) == RFG_OK);
    rfg_context_destroy(&e.ctx);
    child = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
    printf("child at the end %d\n", child);
    return 0;
}

/* ---- starting it ---------------------------------------------------------------------------------------------------
 */

static char mark[300], engine_path[300], tune_path[300], log_path[320];

static void setup_online(void)
{
    setup();
    snprintf(mark, sizeof(mark), "%s/mark", dir);
    snprintf(engine_path, sizeof(engine_path), "%s/engine", dir);
    snprintf(tune_path, sizeof(tune_path), "%s/rfg-tune", dir);
    snprintf(log_path, sizeof(log_path), "%s.tuning", db_path);
    char *cmd = rfg_asprintf("cp /proc/%d/exe %s && chmod go-w %s", (int)getpid(), engine_path, dir);
    ck_assert_int_eq(system(cmd), 0);
    free(cmd);
    setenv("RFG_TUNE_BUDGET_MS", "60000", 1);
    setenv("RFG_VARIANTS", "gemm_portable", 1);
    unsetenv("RFG_TUNE");
    unsetenv("RFG_PACK");
    struct rfg_db *db = open_db(RFG_DB_WRITE);
    rfg_db_close(&db);
}

/* An rfg-tune beside the engine, of these lines of shell. */
static void plant(const char *lines, mode_t mode)
{
    char *text = rfg_asprintf("#!/bin/sh\n%s\n", lines);
    write_file(tune_path, text);
    free(text);
    ck_assert_int_eq(chmod(tune_path, mode), 0);
}

static void plant_real(const char *more)
{
    char *line = rfg_asprintf("exec %s/rfg-tune \"$@\" --candidates 3 %s", rfg_env("RFG_BINDIR"), more);
    plant(line, 0755);
    free(line);
}

static void plant_marker(const char *then)
{
    char *line = rfg_asprintf("echo \"$@\" >> %s\n%s", mark, then);
    plant(line, 0755);
    free(line);
}

static pid_t start_engine(const char *device, const char *db, const char *what, const char *seconds, const char *more)
{
    char out_path[300], err_path[300];
    snprintf(out_path, sizeof(out_path), "%s/out", dir);
    snprintf(err_path, sizeof(err_path), "%s/err", dir);
    pid_t pid = fork();
    if (pid == 0) {
        int o = open(out_path, O_CREAT | O_TRUNC | O_WRONLY, 0600),
            r = open(err_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        setenv("CK_FORK", "no", 1);
        if (dup2(o, 1) >= 0 && dup2(r, 2) >= 0)
            execl(engine_path, "rfg-test-engine", device, db, what, seconds, more, (char *)NULL);
        _exit(99);
    }
    return pid;
}

#define engine(device, what, seconds) finish(start_engine(device, db_path, what, seconds, NULL))

/* Lines that the planted script left: how often it was started. */
static int starts(void)
{
    char *text = rfg_read_file(mark, NULL);
    int n = 0;
    for (const char *s = text; s && (s = strchr(s, '\n')); s++)
        n++;
    free(text);
    return n;
}

/* Has no process the log's lock, within 20 s? */
static bool tuner_is_gone(void)
{
    bool free = false;
    int fd = open(log_path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 400 && !free; i++) {
        nap(0.05);
        free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    }
    close(fd);
    return free;
}

/* Until the tuner has said it; 60 s. */
static bool log_says(const char *text)
{
    bool found = false;
    for (int i = 0; i < 1200 && !found; i++) {
        char *log = rfg_read_file(log_path, NULL);
        found = log && strstr(log, text);
        free(log);
        nap(found ? 0 : 0.05);
    }
    return found;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------
 */

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

/* ---- the budget ----------------------------------------------------------------------------------------------------
 */

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

/* ---- when nothing is started ---------------------------------------------------------------------------------------
 */

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
    rfg_context_params p = { .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "" };
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

/* ---- its end -------------------------------------------------------------------------------------------------------
 */

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

static void add_case(Suite *s, const char *name, TCase **tc)
{
    *tc = tcase_create(name);
    tcase_add_checked_fixture(*tc, setup_online, teardown);
    tcase_set_timeout(*tc, 150);
    suite_add_tcase(s, *tc);
}

int main(int argc, char **argv)
{
    if (argc > 4 && !strcmp(argv[0], "rfg-test-engine"))
        return engine_main(argv);
    Suite *s = suite_create("online");
    TCase *tc;
    add_case(s, "rows", &tc);
    tcase_add_loop_test(tc, tunes_while_the_engine_goes_on, 0, 2);
    tcase_add_test(tc, a_miss_that_has_a_row_is_done);
    tcase_add_test(tc, a_later_miss_is_tuned_too);
    add_case(s, "budget", &tc);
    tcase_add_test(tc, no_minute_has_more_than_the_budget);
    tcase_add_test(tc, stays_within_the_budget);
    add_case(s, "capture", &tc);
    tcase_add_loop_test(tc, starts_nothing_under_capture, 0, 2);
    tcase_add_test(tc, a_stream_that_is_not_ready_keeps_the_old_kernel);
    add_case(s, "starts", &tc);
    tcase_add_test(tc, a_locked_database_is_read_again);
    tcase_add_test(tc, the_tuner_traces_nothing);
    tcase_add_test(tc, starts_nothing_where_it_may_not);
    tcase_add_test(tc, does_not_start_a_program_of_others);
    tcase_add_test(tc, two_engines_start_one_tuner);
    tcase_add_test(tc, says_how_the_tuner_ended_and_leaves_no_zombie);
    tcase_add_test(tc, what_is_written_must_be_right);
    add_case(s, "end", &tc);
    tcase_add_loop_test(tc, ends_with_the_engine, 0, 2);
    return run_suite(s);
}
