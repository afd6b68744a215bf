/* SPDX-License-Identifier: MIT
 *
 * The pool: workers are made once, spin briefly for the next region, then sleep. A region is published in one atomic
 * word, so that a worker that wakes late cannot join a region that is over, and the caller waits only for workers that
 * did join. */
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* How long an idle thread polls before it sleeps: longer than the gap between the operators of a layer, but short
 * enough for other programs on the core. */
#define SPIN_NS 30000

/* The state word: a counter of regions, whether one is open, and how many workers have joined it. */
#define JOINED(s) ((uint32_t)((s)&0xffff))
#define OPEN      ((uint64_t)1 << 16)
#define REGION    ((uint64_t)1 << 17)

struct rfg_cpu_pool {
    char *scratch; /* of all workers; pages that nobody writes to are no memory */
    int threads;
    int started;            /* workers; fewer than threads - 1 only after a fork; under `caller` */
    pthread_mutex_t caller; /* held during a region: a second caller waits here */

    /* The region. Plain fields are written before it opens and read only by those who joined it. */
    void (*fn)(void *ctx, int task, int worker);
    void *ctx;
    int n;
    _Atomic uint64_t state;
    _Atomic int next;      /* the next task to hand out */
    _Atomic uint32_t left; /* workers that joined and are done */

    pthread_mutex_t lock; /* for the two condition variables; taken only by those who sleep or wake sleepers */
    pthread_cond_t opened, done;
    _Atomic int sleepers;
    _Atomic bool caller_sleeps;
    _Atomic bool quit;

    struct worker {
        struct rfg_cpu_pool *pool;
        pthread_t thread;
        int id;
    } worker[];
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(struct rfg_cpu_pool *pool, int id)
{
    for (;;) {
        int task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= pool->n)
            return;
        pool->fn(pool->ctx, task, id);
    }
}

/* Joins the open region, if there is one that is not the one done last. */
static bool join(struct rfg_cpu_pool *pool, uint64_t *last)
{
    uint64_t s = atomic_load(&pool->state);
    while ((s & OPEN) && s / REGION != *last)
        if (atomic_compare_exchange_weak(&pool->state, &s, s + 1)) {
            *last = s / REGION;
            return true;
        }
    return false;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct rfg_cpu_pool *pool = w->pool;
    uint64_t last = 0;
    for (;;) {
        bool joined = false;
        for (int64_t end = now_ns() + SPIN_NS; !joined && now_ns() < end;)
            for (int i = 0; i < 16 && !(joined = join(pool, &last)); i++)
                relax();
        if (!joined) {
            pthread_mutex_lock(&pool->lock);
            /* The worker announces its sleep, then reads the state again. The caller does the reverse, so one of them
             * sees the other. */
            atomic_fetch_add(&pool->sleepers, 1);
            while (!(joined = join(pool, &last)) && !atomic_load(&pool->quit))
                pthread_cond_wait(&pool->opened, &pool->lock);
            atomic_fetch_sub(&pool->sleepers, 1);
            pthread_mutex_unlock(&pool->lock);
            if (!joined)
                return NULL;
        }
        work(pool, w->id);
        atomic_fetch_add(&pool->left, 1);
        if (atomic_load(&pool->caller_sleeps)) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->lock);
        }
    }
}

/* Are all workers there? */
static bool start(struct rfg_cpu_pool *pool)
{
    for (; pool->started < pool->threads - 1; pool->started++) {
        struct worker *w = &pool->worker[pool->started];
        w->pool = pool;
        w->id = pool->started + 1;
        int err = pthread_create(&w->thread, NULL, worker_main, w);
        if (err) {
            errno = err;
            return false;
        }
    }
    return true;
}

static void stop(struct rfg_cpu_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->quit, true);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->opened);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->caller);
    free(pool->scratch);
    free(pool);
}

static void make_locks(struct rfg_cpu_pool *pool)
{
    pthread_mutex_init(&pool->caller, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->opened, NULL);
    pthread_cond_init(&pool->done, NULL);
}

struct rfg_cpu_pool *rfg_cpu_pool_create(int threads)
{
    if (threads < 1 || threads > 0xffff)
        return NULL;
    struct rfg_cpu_pool *pool = calloc(1, sizeof(*pool) + (size_t)(threads - 1) * sizeof(pool->worker[0]));
    if (!pool || !(pool->scratch = aligned_alloc(64, (size_t)threads * RFG_CPU_SCRATCH))) {
        free(pool);
        return NULL;
    }
    pool->threads = threads;
    make_locks(pool);
    if (!start(pool)) {
        int err = errno;
        stop(pool);
        errno = err;
        return NULL;
    }
    return pool;
}

void rfg_cpu_pool_forked(struct rfg_cpu_pool *pool)
{
    make_locks(pool); /* made anew: workers wait on the old ones, in the parent */
    pool->started = 0;
    atomic_store(&pool->state, 0);
    atomic_store(&pool->sleepers, 0);
}

void rfg_cpu_pool_destroy(struct rfg_cpu_pool **pool)
{
    if (!pool || !*pool)
        return;
    stop(*pool);
    *pool = NULL;
}

void *rfg_cpu_pool_scratch(const struct rfg_cpu_pool *pool, int worker)
{
    return pool->scratch + (size_t)worker * RFG_CPU_SCRATCH;
}

int rfg_cpu_pool_threads(const struct rfg_cpu_pool *pool)
{
    return pool->threads;
}

static void wake(struct rfg_cpu_pool *pool, int wanted)
{
    int sleepers = atomic_load(&pool->sleepers);
    if (sleepers == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    if (wanted >= sleepers)
        pthread_cond_broadcast(&pool->opened);
    else
        for (int i = 0; i < wanted; i++)
            pthread_cond_signal(&pool->opened);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for(struct rfg_cpu_pool *pool, uint32_t joined)
{
    for (int64_t end = now_ns() + SPIN_NS; now_ns() < end;)
        for (int i = 0; i < 16; i++) {
            if (atomic_load(&pool->left) == joined)
                return;
            relax();
        }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->left) != joined)
        pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

void rfg_cpu_pool_run(struct rfg_cpu_pool *pool, int n, void (*fn)(void *ctx, int task, int worker), void *ctx)
{
    if (n <= 0)
        return;
    pthread_mutex_lock(&pool->caller);
    if (pool->threads == 1 || n == 1) {
        for (int i = 0; i < n; i++)
            fn(ctx, i, 0);
        pthread_mutex_unlock(&pool->caller);
        return;
    }
    (void)start(pool); /* those that can't be started aren't missed */
    pool->fn = fn;
    pool->ctx = ctx;
    pool->n = n;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->left, 0);
    uint64_t region = atomic_load(&pool->state) / REGION + 1;
    atomic_store(&pool->state, region * REGION | OPEN);
    wake(pool, n - 1);
    work(pool, 0);
    /* Closed: nobody else can join, and those who did are counted in what the word held. */
    wait_for(pool, JOINED(atomic_fetch_and(&pool->state, ~OPEN)));
    pthread_mutex_unlock(&pool->caller);
}
