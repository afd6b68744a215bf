/* SPDX-License-Identifier: MIT
 *
 * The engine that tests of online tuning start, and its starting. */
#include "online_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the engine -------------------------------------------------------------------------------------------------- */

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
    rfg_stats s = RFG_STATS_INIT;
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
int engine_main(char **argv)
{
    struct engine e = { 0 };
    const char *db = argv[2], *what = argv[3];
    char log[400];
    rfg_context_params p = { .size = sizeof(p), .device = argv[1], .user_db = db, .system_db = "", .tune = "online" };
    p.misses = strcmp(what, "no-misses") ? 0 : -1;
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

/* ---- starting it ------------------------------------------------------------------------------------------------- */

char mark[300], engine_path[300], tune_path[300], log_path[320];

void setup_online(void)
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
void plant(const char *lines, mode_t mode)
{
    char *text = rfg_asprintf("#!/bin/sh\n%s\n", lines);
    write_file(tune_path, text);
    free(text);
    ck_assert_int_eq(chmod(tune_path, mode), 0);
}

void plant_real(const char *more)
{
    char *line = rfg_asprintf("exec %s/rfg-tune \"$@\" --candidates 3 %s", rfg_env("RFG_BINDIR"), more);
    plant(line, 0755);
    free(line);
}

void plant_marker(const char *then)
{
    char *line = rfg_asprintf("echo \"$@\" >> %s\n%s", mark, then);
    plant(line, 0755);
    free(line);
}

pid_t start_engine(const char *device, const char *db, const char *what, const char *seconds, const char *more)
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

/* Lines that the planted script left: how often it was started. */
int starts(void)
{
    char *text = rfg_read_file(mark, NULL);
    int n = 0;
    for (const char *s = text; s && (s = strchr(s, '\n')); s++)
        n++;
    free(text);
    return n;
}

/* Has no process the log's lock, within 20 s? */
bool tuner_is_gone(void)
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
bool log_says(const char *text)
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
