/* SPDX-License-Identifier: MIT
 *
 * The thread pool: every task once, no worker twice at a time, callers serialised, sleeping workers woken. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "ops/cpu/pool.h"
#include "tests/suite.h"

#define MAX_TASKS 2000

struct region {
    atomic_int done[MAX_TASKS];
    atomic_int busy[16];
    atomic_int bad;
    int plain[MAX_TASKS]; /* written by tasks, read by the caller: a race unless run() orders them */
    int threads;
};

static void task(void *ctx, int i, int worker)
{
    struct region *r = ctx;
    if (worker < 0 || worker >= r->threads || atomic_fetch_add(&r->busy[worker], 1) != 0)
        atomic_fetch_add(&r->bad, 1);
    atomic_fetch_add(&r->done[i], 1);
    r->plain[i] = i + 1;
    if (worker >= 0 && worker < r->threads)
        atomic_fetch_sub(&r->busy[worker], 1);
}

static void check_region(struct rfg_cpu_pool *pool, struct region *r, int n)
{
    memset(r, 0, sizeof(*r));
    r->threads = rfg_cpu_pool_threads(pool);
    rfg_cpu_pool_run(pool, n, task, r);
    for (int i = 0; i < MAX_TASKS; i++)
        if (atomic_load(&r->done[i]) != (i < n) || r->plain[i] != (i < n ? i + 1 : 0))
            ck_abort_msg("%d threads, %d tasks: task %d ran %d times", r->threads, n, i, atomic_load(&r->done[i]));
    if (atomic_load(&r->bad))
        ck_abort_msg("%d threads, %d tasks: a worker was out of range or ran two tasks at a time", r->threads, n);
}

START_TEST(each_task_once)
{
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(_i);
    ck_assert_ptr_nonnull(pool);
    ck_assert_int_eq(rfg_cpu_pool_threads(pool), _i);
    struct region *r = malloc(sizeof(*r));
    static const int sizes[] = { 0, 1, 2, 3, 5, 17, 100, MAX_TASKS };
    for (int repeat = 0; repeat < 50; repeat++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            check_region(pool, r, sizes[s]);
    free(r);
    rfg_cpu_pool_destroy(&pool);
    ck_assert_ptr_null(pool);
    rfg_cpu_pool_destroy(&pool);
}
END_TEST

/* Long enough between regions for the workers to fall asleep, and then regions back to back. */
START_TEST(sleepers_wake)
{
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(3);
    ck_assert_ptr_nonnull(pool);
    struct region *r = malloc(sizeof(*r));
    for (int i = 0; i < 60; i++) {
        if (i % 3 == 0)
            nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
        check_region(pool, r, 1 + i * 7 % 50);
    }
    free(r);
    rfg_cpu_pool_destroy(&pool);
}
END_TEST

/* Two tasks that wait for each other can only end if two threads run them at the same time. */
static void wait_for_other(void *ctx, int i, int worker)
{
    atomic_int *arrived = ctx;
    (void)i;
    (void)worker;
    atomic_fetch_add(arrived, 1);
    for (time_t end = time(NULL) + 20; atomic_load(arrived) < 2 && time(NULL) < end;)
        ;
}

START_TEST(runs_in_parallel)
{
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(2);
    ck_assert_ptr_nonnull(pool);
    for (int i = 0; i < 5; i++) {
        atomic_int arrived = 0;
        time_t start = time(NULL);
        rfg_cpu_pool_run(pool, 2, wait_for_other, &arrived);
        ck_assert_int_lt((int)(time(NULL) - start), 15);
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    rfg_cpu_pool_destroy(&pool);
}
END_TEST

struct caller {
    struct rfg_cpu_pool *pool;
    pthread_t thread;
    int id;
    int ok;
};

static void count(void *ctx, int i, int worker)
{
    int *sum = ctx; /* one slot a worker */
    sum[worker] += i;
}

static void *call_often(void *arg)
{
    struct caller *c = arg;
    c->ok = 1;
    for (int i = 0; i < 200; i++) {
        int sum[3] = { 0 }, n = 1 + (i + c->id) % 40;
        rfg_cpu_pool_run(c->pool, n, count, sum);
        if (sum[0] + sum[1] + sum[2] != n * (n - 1) / 2)
            c->ok = 0;
    }
    return NULL;
}

START_TEST(callers_take_turns)
{
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(3);
    ck_assert_ptr_nonnull(pool);
    struct caller c[4];
    for (int i = 0; i < 4; i++) {
        c[i] = (struct caller){ .pool = pool, .id = i * 11 };
        ck_assert_int_eq(pthread_create(&c[i].thread, NULL, call_often, &c[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(c[i].thread, NULL);
        ck_assert_int_eq(c[i].ok, 1);
    }
    rfg_cpu_pool_destroy(&pool);
}
END_TEST

START_TEST(create_and_destroy)
{
    ck_assert_ptr_null(rfg_cpu_pool_create(0));
    ck_assert_ptr_null(rfg_cpu_pool_create(-1));
    for (int i = 0; i < 50; i++) { /* destroyed while the workers still spin */
        struct rfg_cpu_pool *pool = rfg_cpu_pool_create(1 + i % 4);
        ck_assert_ptr_nonnull(pool);
        if (i % 2) {
            int sum[4] = { 0 };
            rfg_cpu_pool_run(pool, 10, count, sum);
            ck_assert_int_eq(sum[0] + sum[1] + sum[2] + sum[3], 45);
        }
        rfg_cpu_pool_destroy(&pool);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, each_task_once, 1, 6);
    ADD_TESTS(t, sleepers_wake, runs_in_parallel, callers_take_turns, create_and_destroy);
    suite_add_tcase(s, t);
    return run_suite(s);
}
