/* SPDX-License-Identifier: MIT
 *
 * Worker processes that compile: their answers, and what remains when one crashes, hangs or is of another version. */
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "jit_case.h"
#include "tests/suite.h"

static rfg_status pool_compile(struct rfg_jit_pool *pool, const struct rfg_jit_request *req, struct rfg_blob *code)
{
    char *log = NULL;
    rfg_status st = rfg_jit_pool_compile(pool, rfg_jit_provider_for(req->target), req, code, &log);
    free(log);
    return st;
}

static void expect_good(struct rfg_jit_pool *pool, const char *name)
{
    struct rfg_jit_request req = request(name, KERNEL "}\n");
    struct rfg_blob code;
    rfg_status st = pool_compile(pool, &req, &code);
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
    ck_assert_ptr_nonnull(memmem(code.data, code.size, "\0scale", 7));
    rfg_blob_free(&code);
}

/* st: RFG_ERROR_COMPILE, the source's fault; RFG_ERROR_IO, the machine's. */
static void expect_error(struct rfg_jit_pool *pool, const char *name, const char *source, rfg_status st,
                         const char *error)
{
    struct rfg_jit_request req = request(name, source);
    struct rfg_blob code;
    ck_assert_int_eq(pool_compile(pool, &req, &code), st);
    ck_assert_ptr_null(code.data);
    ck_assert_msg(strstr(rfg_last_error(), error) && strstr(rfg_last_error(), name), "%s", rfg_last_error());
}

START_TEST(worker_compiles_the_same)
{
    struct rfg_jit_request req = request("scale{}", KERNEL "}\n");
    if (!req.target)
        return;
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 60);
    const struct rfg_jit_provider *prov = rfg_jit_provider_for(req.target);
    struct rfg_blob here, there;
    char *log = NULL;
    ck_assert_int_eq(prov->compile(&req, &here, &log), RFG_OK);
    ck_assert_int_eq(pool_compile(pool, &req, &there), RFG_OK);
    ck_assert_uint_eq(here.size, there.size);
    ck_assert_int_eq(memcmp(here.data, there.data, here.size), 0);
    expect_error(pool, "scale{}", KERNEL "nonsense;\n}\n", RFG_ERROR_COMPILE, "nonsense");
    rfg_jit_pool_destroy(&pool);
    ck_assert_ptr_null(pool);
    ck_assert_int_eq(entries_in(root), 0);
    rfg_blob_free(&here);
    rfg_blob_free(&there);
    free(log);
}
END_TEST

START_TEST(worker_crash_costs_one)
{
    if (!request("", "").target)
        return;
    setenv("RFG_TEST_WORKER_CRASH", "crashes", 1);
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 60);
    expect_good(pool, "first");
    expect_error(pool, "crashes{}", KERNEL "}\n", RFG_ERROR_COMPILE, "SIGABRT");
    expect_good(pool, "next");
    rfg_jit_pool_destroy(&pool);
    ck_assert_int_eq(entries_in(root), 0);
}
END_TEST

START_TEST(worker_hang_costs_one)
{
    if (!request("", "").target)
        return;
    setenv("RFG_TEST_WORKER_HANG", "hangs", 1);
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 2);
    double start = rfg_now();
    expect_error(pool, "hangs{}", KERNEL "}\n", RFG_ERROR_COMPILE, "after 2.0 s");
    ck_assert_double_lt(rfg_now() - start, 10);
    expect_good(pool, "next");
    rfg_jit_pool_destroy(&pool);
    ck_assert_int_eq(entries_in(root), 0);
}
END_TEST

/* A worker that ends at once, with or without an error, one that can't be started: an error, and no SIGPIPE. */
START_TEST(worker_that_is_none)
{
    static const char *const programs[] = { "/bin/true", "/bin/false", "/etc" };
    if (!request("", "").target)
        return;
    setenv("RFG_COMPILE_WORKER", programs[_i], 1);
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 2);
    expect_error(pool, "scale{}", KERNEL "}\n", RFG_ERROR_IO, "");
    char *large = rfg_asprintf("%4000000s%s", "", KERNEL "}\n"); /* more than the socket holds: sent to a dead peer */
    expect_error(pool, "scale{}", large, RFG_ERROR_IO, "");
    free(large);
    rfg_jit_pool_destroy(&pool);
}
END_TEST

/* A worker of another version says which; one from before there was a greeting breaks off at it. */
START_TEST(worker_of_another_version)
{
    char *name = rfg_asprintf("%0200d/rfg-compile", 0); /* a long path is said whole */
    char *old = rfg_asprintf("%s/%s", root, name), *ours = strdup(getenv("RFG_COMPILE_WORKER"));
    if (!request("", "").target)
        return;
    put_file(name, "#!/bin/sh\nhead -c 56 >/dev/null\nkill -KILL $$\n");
    ck_assert_int_eq(chmod(old, 0755), 0);
    struct rfg_jit_pool *pool;
    for (int known = 0; known < 2; known++) {
        if (known)
            setenv("RFG_TEST_WORKER_VERSION", "99.7.1", 1);
        else
            setenv("RFG_COMPILE_WORKER", old, 1);
        pool = rfg_jit_pool_create(1, 30);
        double start = rfg_now();
        expect_error(pool, "scale{}", KERNEL "}\n", RFG_ERROR_IO,
                     known ? "version mismatch" : "SIGKILL before it said its version");
        expect_error(pool, "scale{}", KERNEL "}\n", RFG_ERROR_IO, known ? "the compiler is rfg 99.7.1, protocol" : old);
        expect_error(pool, "scale{}", KERNEL "}\n", RFG_ERROR_IO, "rfg " RFG_VERSION ", protocol");
        ck_assert_double_lt(rfg_now() - start, 10);
        rfg_jit_pool_destroy(&pool);
        setenv("RFG_COMPILE_WORKER", ours, 1);
    }
    free(ours);
    unsetenv("RFG_TEST_WORKER_VERSION");
    pool = rfg_jit_pool_create(1, 60);
    expect_good(pool, "same");
    expect_good(pool, "again"); /* one greeting a worker */
    rfg_jit_pool_destroy(&pool);
    free(old);
    free(name);
}
END_TEST

enum { DONE = 3 };

START_TEST(no_worker_program)
{
    if (!request("", "").target)
        _exit(DONE);
    setenv("RFG_COMPILE_WORKER", "/nowhere/rfg-compile", 1);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* it warns */
    struct rfg_jit_pool *pool = rfg_jit_pool_create(2, 60);
    expect_good(pool, "here");
    rfg_jit_pool_destroy(&pool);
    /* LeakSanitizer looks at each thread's storage and crashes on that of comgr, which ran in a thread
     * that has ended. */
    teardown();
    _exit(DONE);
}
END_TEST

static int seen[6];
static char errors[6][400];

static void note(void *ctx, int i, rfg_status st, const char *error)
{
    ck_assert_ptr_eq(ctx, seen);
    seen[i]++;
    snprintf(errors[i], sizeof(errors[i]), "%s", st ? error : "");
}

START_TEST(prefetch_survives_crash_and_hang)
{
    static const char *const names[6] = { "a", "b", "crashes", "c", "hangs", "d" };
    if (!request("", "").target)
        return;
    setenv("RFG_TEST_WORKER_CRASH", "crashes", 1);
    setenv("RFG_TEST_WORKER_HANG", "hangs", 1);
    char sources[6][1000];
    struct rfg_jit_request reqs[6];
    for (int i = 0; i < 6; i++) {
        snprintf(sources[i], sizeof(sources[i]), KERNEL "    y[%d] = 1;\n}\n", i);
        reqs[i] = request(names[i], sources[i]);
    }
    struct rfg_cache *cache = rfg_cache_open("", 0);
    struct rfg_jit_pool *pool = rfg_jit_pool_create(2, 8);
    ck_assert_int_eq(rfg_jit_prefetch(cache, pool, 2, reqs, 6, note, seen), 2);
    for (int i = 0; i < 6; i++) {
        bool bad = i == 2 || i == 4;
        ck_assert_int_eq(seen[i], 1);
        ck_assert_msg((errors[i][0] != 0) == bad, "%s: '%s'", names[i], errors[i]);
    }
    ck_assert_ptr_nonnull(strstr(errors[2], "SIGABRT"));
    ck_assert_ptr_nonnull(strstr(errors[4], "8.0 s"));
    struct rfg_cache_stats s;
    ck_assert_int_eq(rfg_jit_prefetch(cache, pool, 2, reqs, 2, NULL, NULL), 0);
    rfg_cache_get_stats(cache, &s);
    ck_assert_uint_eq(s.memory_hits, 2);
    ck_assert_uint_eq(s.compiles, 6);
    ck_assert_int_eq(rfg_jit_prefetch(cache, NULL, 2, reqs, 6, NULL, NULL), 0); /* without a pool: in this process */
    rfg_jit_pool_destroy(&pool);
    rfg_cache_close(&cache);
    ck_assert_int_eq(entries_in(root), 0);
}
END_TEST

/* A program that is killed leaves neither workers nor temporary files. */
START_TEST(workers_end_with_their_program)
{
    if (!request("", "").target)
        return;
    int ready[2];
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("RFG_TEST_WORKER_HANG", "hangs", 1);
        struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 60);
        expect_good(pool, "first");
        ck_assert_int_eq(write(ready[1], "x", 1), 1);
        expect_good(pool, "hangs");
        _exit(0);
    }
    char c;
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    ck_assert_int_gt(entries_in(root), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 500 && entries_in(root) > 0; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    ck_assert_int_eq(entries_in(root), 0);
}
END_TEST

static void *compile_beside_others(void *pool)
{
    struct rfg_jit_request req = request("beside", KERNEL "}\n");
    struct rfg_blob code;
    bool ok = pool_compile(pool, &req, &code) == RFG_OK;
    if (ok)
        rfg_blob_free(&code);
    return ok ? pool : NULL;
}

/* Who finds no worker free waits for one. */
START_TEST(more_threads_than_workers)
{
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 60);
    pthread_t threads[4];
    void *ok;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_beside_others, pool), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &ok), 0);
        ck_assert_ptr_nonnull(ok);
    }
    rfg_jit_pool_destroy(&pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("jit_workers");
    TCase *tc = tcase_create("workers");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    ADD_TESTS(tc, worker_compiles_the_same, worker_crash_costs_one, worker_hang_costs_one, worker_of_another_version);
    ADD_LOOPS(tc, 3, worker_that_is_none);
    tcase_add_exit_test(tc, no_worker_program, DONE);
    ADD_TESTS(tc, prefetch_survives_crash_and_hang, workers_end_with_their_program, more_threads_than_workers);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
