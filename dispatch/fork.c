/* SPDX-License-Identifier: MIT
 *
 * Contexts after fork(). Only the forking thread exists in the child, with every lock as it was. So fork() waits until
 * no thread is inside a cpu context or has a database open. The child's copy begins without workers; the pool starts
 * new ones when it is next used. A GPU's runtime does not survive fork(): in the child, calls that need the device are
 * refused. */
#include "context_impl.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rfg_context *first; /* the cpu contexts; under lock */

static void before_fork(void)
{
    rfg_capture_before_fork();
    pthread_mutex_lock(&lock);
    for (rfg_context *c = first; c; c = c->next) {
        pthread_mutex_lock(&c->scratch_lock);
        pthread_mutex_lock(&c->lock);
        pthread_mutex_lock(&c->cpu_lock);
        pthread_mutex_lock(&c->warn_lock);
        pthread_mutex_lock(&c->streams_lock);
    }
    rfg_db_before_fork();
}

static void unlock(bool child)
{
    rfg_db_after_fork(child);
    for (rfg_context *c = first; c; c = c->next) {
        pthread_mutex_unlock(&c->streams_lock);
        pthread_mutex_unlock(&c->warn_lock);
        pthread_mutex_unlock(&c->cpu_lock);
        pthread_mutex_unlock(&c->lock);
        pthread_mutex_unlock(&c->scratch_lock);
    }
    pthread_mutex_unlock(&lock);
    rfg_capture_after_fork(child);
}

static void in_parent(void)
{
    unlock(false);
}

static void in_child(void)
{
    atomic_fetch_add(&rfg_forks, 1);
    for (rfg_context *c = first; c; c = c->next) {
        rfg_cpu_pool_forked(c->pool);
        c->save_misses = false; /* SQLite may be in any state; and the parent counts what was before */
        c->forks = atomic_load(&rfg_forks);
        rfg_online_forked(c);
    }
    unlock(true);
}

static void install(void)
{
    rfg_log_watch_forks(); /* first: contexts log under their locks */
    (void)pthread_atfork(before_fork, in_parent, in_child);
}

unsigned rfg_fork_count(void)
{
    pthread_once(&once, install);
    return atomic_load(&rfg_forks);
}

void rfg_fork_watch(rfg_context *ctx)
{
    pthread_mutex_lock(&lock);
    ctx->next = first;
    first = ctx;
    pthread_mutex_unlock(&lock);
}

void rfg_fork_unwatch(rfg_context *ctx)
{
    pthread_mutex_lock(&lock);
    for (rfg_context **at = &first; *at; at = &(*at)->next)
        if (*at == ctx) {
            *at = ctx->next;
            break;
        }
    pthread_mutex_unlock(&lock);
}
