/* SPDX-License-Identifier: MIT
 *
 * fork() with contexts: the child uses, destroys or ignores the parent's, whatever other threads were doing. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "dispatch/db/db.h"
#include "ops/cpu/pool.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

#define ROWS 64
#define COLS 96

static rfg_context *open_context(const char *device)
{
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = device, .user_db = "", .system_db = "", .cache_dir = "", .threads = 4
    };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", device, rfg_last_error());
    return ctx;
}

/* A product of ones: is each element K? */
static bool works(rfg_context *ctx)
{
    static _Thread_local _Alignas(16) float x[ROWS * COLS], w[COLS * COLS], y[ROWS * COLS]; /* one plan */
    for (int i = 0; i < COLS * COLS; i++)
        w[i] = 1;
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = 1, y[i] = -1;
    rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, ROWS, COLS, COLS), tw = rfg_tensor_2d(w, RFG_F32, COLS, COLS, COLS),
               ty = rfg_tensor_2d(y, RFG_F32, ROWS, COLS, COLS);
    if (rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, NULL) != RFG_OK)
        return false;
    for (int i = 0; i < ROWS * COLS; i++)
        if (y[i] != COLS)
            return false;
    return true;
}

static int wait_for(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* fork(). The ASan of gcc 12 holds its allocator's locks over none: a thread that is just beginning, in ASan's own
 * code, may have one, which nobody releases in the child. */
static pid_t fork_quietly(void)
{
#ifdef __SANITIZE_ADDRESS__
    usleep(100000);
#endif
    return fork();
}

/* Runs fn in a child, which has ten seconds. */
static void in_child(int (*fn)(rfg_context *), rfg_context *ctx)
{
    pid_t pid = fork_quietly();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        alarm(10);
        int code = fn(ctx);
        alarm(0);
        _exit(code);
    }
    int status = wait_for(pid);
    ck_assert_msg(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    ck_assert_msg(WEXITSTATUS(status) == 0, "the child failed at step %d", WEXITSTATUS(status));
}

static int ignore(rfg_context *ctx)
{
    (void)ctx;
    return 0;
}

static int destroy(rfg_context *ctx)
{
    rfg_context_destroy(&ctx);
    return ctx != NULL;
}

static int use(rfg_context *ctx)
{
    for (int i = 0; i < 3; i++)
        if (!works(ctx))
            return 1;
    return 0;
}

static int use_and_destroy(rfg_context *ctx)
{
    rfg_stats stats = RFG_STATS_INIT;
    char text[2000];
    if (!works(ctx))
        return 1;
    rfg_context_stats(ctx, &stats);
    if (stats.plans != 1)
        return 2;
    if (rfg_prepare(ctx, "rmsnorm f32->f32 M=3 N=17") != RFG_OK)
        return 3;
    if (rfg_explain(ctx, "rmsnorm f32->f32 M=3 N=17", text, sizeof(text)) != RFG_OK)
        return 4;
    rfg_context *other = open_context("cpu"); /* beside a new one */
    if (!works(other) || !works(ctx))
        return 5;
    rfg_context_destroy(&other);
    return destroy(ctx) ? 6 : 0;
}

static int fork_again(rfg_context *ctx)
{
    pid_t pid = fork_quietly();
    if (!pid) {
        alarm(10);
        _exit(use_and_destroy(ctx));
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return 10 + WEXITSTATUS(status);
    return use_and_destroy(ctx);
}

static int (*const fates[])(rfg_context *) = { ignore, destroy, use, use_and_destroy, fork_again };
#define N_FATES (int)(sizeof(fates) / sizeof(fates[0]))

/* Before its first call and after. */
START_TEST(child)
{
    rfg_context *ctx = open_context("cpu");
    if (_i % 2)
        ck_assert(works(ctx));
    else if (fates[_i / 2] == use_and_destroy || fates[_i / 2] == fork_again)
        ck_assert_int_eq(rfg_prepare(ctx, "gemm f32,f32->f32 M=64 N=96 K=96"), RFG_OK);
    in_child(fates[_i / 2], ctx);
    ck_assert(works(ctx)); /* the parent's is as it was */
    rfg_context_destroy(&ctx);
}
END_TEST

struct busy {
    rfg_context *ctx;
    atomic_bool stop, wrong;
    atomic_int calls;
};

static void *keep_busy(void *arg)
{
    struct busy *b = arg;
    char problem[100];
    for (int i = 0; !atomic_load(&b->stop); i++) {
        rfg_stats stats = RFG_STATS_INIT;
        snprintf(problem, sizeof(problem), "gemm f32,f32->f32 M=%d N=5 K=7", i % 1000);
        if (!works(b->ctx) || rfg_prepare(b->ctx, problem) != RFG_OK)
            atomic_store(&b->wrong, true);
        rfg_context_stats(b->ctx, &stats);
        atomic_fetch_add(&b->calls, 1);
    }
    return NULL;
}

static int use_plainly(rfg_context *ctx)
{
    rfg_stats stats = RFG_STATS_INIT;
    if (!works(ctx))
        return 1;
    if (rfg_prepare(ctx, "gemm f32,f32->f32 M=5000 N=5 K=7") != RFG_OK)
        return 2;
    rfg_context_stats(ctx, &stats);
    return destroy(ctx) ? 3 : 0;
}

/* Threads are in the midst of calls, plans, regions. */
START_TEST(child_of_a_busy_parent)
{
    struct busy b = { .ctx = open_context("cpu") };
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, keep_busy, &b), 0);
    while (atomic_load(&b.calls) < 3)
        usleep(100);
    for (int i = 0; i < 40; i++)
        in_child(use_plainly, b.ctx);
    atomic_store(&b.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    ck_assert(!atomic_load(&b.wrong));
    rfg_context_destroy(&b.ctx);
}
END_TEST

static struct rfg_tempdir tmp;
static char user_db[300];

static void make_database(void)
{
    struct rfg_db *db;
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    snprintf(user_db, sizeof(user_db), "%s/user.db", tmp.path);
    ck_assert_int_eq(rfg_db_open(&db, user_db, RFG_DB_WRITE), RFG_OK);
    rfg_db_close(&db);
}

/* As a thread that makes contexts. */
static void *keep_opening(void *arg)
{
    struct busy *b = arg;
    while (!atomic_load(&b->stop)) {
        struct rfg_db *db;
        if (rfg_db_open(&db, user_db, RFG_DB_READ) == RFG_OK)
            rfg_db_close(&db);
        else
            atomic_store(&b->wrong, true);
        atomic_fetch_add(&b->calls, 1);
    }
    return NULL;
}

static int make_context(rfg_context *parents)
{
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .misses = 1, .device = "cpu", .user_db = user_db, .cache_dir = "", .threads = 1
    };
    (void)parents;
    if (rfg_context_create(&ctx, &p) != RFG_OK)
        return 1;
    return destroy(ctx) ? 2 : 0;
}

/* Threads are inside SQLite, whose locks nobody would release. */
START_TEST(child_of_a_parent_with_databases)
{
    make_database();
    struct busy b = { .ctx = open_context("cpu") };
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, keep_opening, &b), 0);
    while (atomic_load(&b.calls) < 3)
        usleep(100);
    for (int i = 0; i < 100; i++)
        in_child(make_context, b.ctx);
    atomic_store(&b.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    ck_assert(!atomic_load(&b.wrong));
    rfg_context_destroy(&b.ctx);
    rfg_tempdir_remove(&tmp);
}
END_TEST

static void *fork_and_note(void *done)
{
    pid_t pid = fork_quietly();
    if (!pid)
        _exit(0);
    atomic_store((atomic_bool *)done, true);
    (void)wait_for(pid);
    return NULL;
}

/* A fork of another thread waits for the database to be closed, one of the thread that has it open doesn't. */
START_TEST(fork_waits_for_databases)
{
    rfg_context *ctx = open_context("cpu");
    struct rfg_db *db;
    pthread_t thread;
    atomic_bool done = false;
    make_database();
    ck_assert_int_eq(rfg_db_open(&db, user_db, RFG_DB_WRITE), RFG_OK);
    (void)fork_and_note(&done);
    ck_assert(atomic_exchange(&done, false));
    ck_assert_int_eq(pthread_create(&thread, NULL, fork_and_note, &done), 0);
    usleep(200000);
    ck_assert(!atomic_load(&done));
    rfg_db_close(&db);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&done));
    rfg_context_destroy(&ctx);
    rfg_tempdir_remove(&tmp);
}
END_TEST

static void *open_and_close(void *path)
{
    struct rfg_db *db;
    rfg_status st = rfg_db_open(&db, path, RFG_DB_WRITE);
    if (st == RFG_OK)
        rfg_db_close(&db);
    return st == RFG_OK ? path : NULL;
}

/* Threads that come with a database while another waits to fork wait for that, and go on after it. */
START_TEST(databases_wait_for_forks)
{
    enum { N = 16 };
    struct rfg_db *db;
    pthread_t forks, opens[N];
    atomic_bool done = false;
    make_database();
    ck_assert_int_eq(rfg_db_open(&db, user_db, RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(pthread_create(&forks, NULL, fork_and_note, &done), 0);
    usleep(100000);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(pthread_create(&opens[i], NULL, open_and_close, user_db), 0);
    usleep(100000);
    rfg_db_close(&db);
    pthread_join(forks, NULL);
    for (int i = 0; i < N; i++) {
        void *opened = NULL;
        pthread_join(opens[i], &opened);
        ck_assert_ptr_eq(opened, user_db);
    }
    rfg_tempdir_remove(&tmp);
}
END_TEST

static atomic_int seen;

static void note_worker(void *ctx, int task, int worker)
{
    (void)ctx, (void)task;
    atomic_fetch_or(&seen, 1 << worker);
    usleep(2000);
}

/* The child's pool has workers, not the caller alone. */
START_TEST(workers_are_started_anew)
{
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(3);
    rfg_cpu_pool_run(pool, 3, note_worker, NULL);
    pid_t pid = fork();
    if (!pid) {
        alarm(10);
        atomic_store(&seen, 0);
        rfg_cpu_pool_forked(pool);
        for (int i = 0; i < 100 && atomic_load(&seen) != 7; i++)
            rfg_cpu_pool_run(pool, 12, note_worker, NULL);
        rfg_cpu_pool_destroy(&pool);
        _exit(atomic_load(&seen));
    }
    ck_assert_int_eq(WEXITSTATUS(wait_for(pid)), 7);
    rfg_cpu_pool_destroy(&pool);
}
END_TEST

/* A device that the child has not: all that would need it is refused by name, the rest does nothing. */
static int refused(rfg_context *ctx)
{
    rfg_stats stats = { .size = sizeof(stats), .calls = 99 };
    char text[100];
    if (works(ctx) || !strstr(rfg_last_error(), "fork()"))
        return 1;
    if (rfg_prepare(ctx, "gemm f32,f32->f32 M=64 N=96 K=96") != RFG_ERROR_DEVICE)
        return 2;
    if (rfg_prepare_from_csv(ctx, "/dev/null") != RFG_ERROR_DEVICE)
        return 3;
    if (rfg_prepare_stream(ctx, NULL) != RFG_ERROR_DEVICE)
        return 4;
    if (rfg_explain(ctx, "gemm f32,f32->f32 M=64 N=96 K=96", text, sizeof(text)) != RFG_ERROR_DEVICE)
        return 5;
    rfg_context_stats(ctx, &stats);
    if (stats.calls)
        return 6;
    if (strcmp(rfg_context_device(ctx), "emu:gfx942:1") != 0)
        return 7;
    return destroy(ctx) ? 8 : 0;
}

START_TEST(child_without_the_device)
{
    rfg_context *ctx = open_context("emu:gfx942:1");
    in_child(ignore, ctx);
    in_child(refused, ctx);
    ck_assert_int_eq(rfg_prepare_stream(ctx, NULL), RFG_OK); /* the parent has it still */
    in_child(refused, ctx);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fork");
    TCase *tc = test_case(s, "fork", NULL, NULL);
    ADD_TESTS(tc, child_of_a_busy_parent, child_of_a_parent_with_databases, fork_waits_for_databases,
              databases_wait_for_forks, workers_are_started_anew, child_without_the_device);
    ADD_LOOPS(tc, 2 * N_FATES, child);
    return run_suite(s);
}
