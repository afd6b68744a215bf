/* SPDX-License-Identifier: MIT
 *
 * Compiles the sweep's candidates in the background, in worker processes. The code objects reach the measuring process
 * through the cache on disk. */
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "tune.h"

#define MAX_THREADS     256
#define COMPILE_TIMEOUT 60.0

struct tune_job {
    const struct tune_shape *shape; /* any of those that need it: code objects don't depend on sizes */
    const struct tune_candidate *candidate;
    char *key; /* source, entry, macros */
    enum tune_job_state state;
    rfg_status status;
    char *error;
};

struct tune_compiler {
    struct tune *t;
    struct tune_job **jobs; /* in the order of need */
    int n, room, next, ended, failed;
    bool stop;
    struct rfg_jit_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[MAX_THREADS];
    int n_threads;
};

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static char *job_key(const struct tune *t, const struct tune_shape *s, const struct tune_candidate *c)
{
    struct rfg_kernel k = { 0 };
    char text[RFG_MAX_MACROS * 48 + 256];
    c->var->kernel(&t->dev, &s->call, c->p, &k);
    size_t at = (size_t)snprintf(text, sizeof(text), "%s|%s", k.source, k.entry);
    for (int i = 0; i < k.n_macros && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "|%s=%d", k.macros[i].name, k.macros[i].value);
    return strdup(text);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct tune_job *)a)->key, ((const struct tune_job *)b)->key);
}

static void keep_node(void *node)
{
    (void)node; /* the jobs array owns it */
}

/* False: no memory. */
static bool add_job(struct tune_compiler *c, void **root, const struct tune_shape *s, struct tune_candidate *cand)
{
    struct tune_job *job = calloc(1, sizeof(*job));
    if (!job || !(job->key = job_key(c->t, s, cand))) {
        free(job);
        return false;
    }
    job->shape = s;
    job->candidate = cand;
    if (c->n == c->room) {
        int room = c->room ? 2 * c->room : 256;
        struct tune_job **more = realloc(c->jobs, (size_t)room * sizeof(*more));
        if (!more) {
            free(job->key);
            free(job);
            return false;
        }
        c->jobs = more;
        c->room = room;
    }
    struct tune_job **found = tsearch(job, root, compare_keys);
    if (found && *found == job)
        c->jobs[c->n++] = job;
    cand->job = found ? *found : NULL;
    if (!found || *found != job) {
        free(job->key);
        free(job);
    }
    return found != NULL;
}

/* ---- the threads ------------------------------------------------------------------------------------------------- */

static rfg_status compile(struct tune_compiler *c, const struct tune_job *job)
{
    struct rfg_jit_request req;
    struct rfg_kernel kernel;
    const struct rfg_blob *code;
    char name[RFG_CONFIG_STRLEN];
    rfg_status st =
        rfg_variant_request(&c->t->dev, &job->shape->call, job->candidate->var, job->candidate->p, &req, name, &kernel);
    if (st != RFG_OK)
        return st;
    /* Twice: a failure that doesn't repeat is not the kernel's fault. */
    for (int i = 0; i < 2 && (i == 0 || st != RFG_OK); i++)
        st = rfg_cache_get(rfg_context_cache(c->t->ctx), &req, c->pool ? rfg_jit_pool_compile : NULL, c->pool, &code);
    free((char *)req.source);
    return st;
}

static void *compile_thread(void *arg)
{
    struct tune_compiler *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->stop && c->next < c->n) {
        struct tune_job *job = c->jobs[c->next++];
        job->state = JOB_RUNNING;
        pthread_mutex_unlock(&c->lock);
        rfg_status st = compile(c, job);
        char *error = st == RFG_OK ? NULL : strdup(rfg_last_error());
        pthread_mutex_lock(&c->lock);
        job->status = st;
        job->error = error;
        job->state = st == RFG_OK ? JOB_DONE : JOB_FAILED;
        c->failed += st != RFG_OK;
        c->ended++;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct tune_compiler *tune_compiler_start(struct tune *t)
{
    struct tune_compiler *c = calloc(1, sizeof(*c));
    void *root = NULL;
    bool ok = c != NULL;
    if (!c)
        return NULL;
    c->t = t;
    for (int i = 0; ok && i < t->n_shapes; i++)
        for (int k = 0; ok && t->shapes[i].state == SHAPE_WAITING && k < t->shapes[i].n; k++)
            if (t->shapes[i].c[k].var->kind == RFG_VARIANT_KERNEL)
                ok = add_job(c, &root, &t->shapes[i], &t->shapes[i].c[k]);
    tdestroy(root, keep_node);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, &attr);
    pthread_condattr_destroy(&attr);

    struct rfg_device cpu;
    rfg_device_cpu(&cpu, 0);
    int workers = t->opt.jobs > 0 ? t->opt.jobs : cpu.cu_count;
    workers = workers > c->n ? c->n : workers > MAX_THREADS ? MAX_THREADS : workers;
    if (ok && c->n)
        c->pool = rfg_jit_pool_create(workers, COMPILE_TIMEOUT);
    while (ok && c->n_threads < workers && pthread_create(&c->threads[c->n_threads], NULL, compile_thread, c) == 0)
        c->n_threads++;
    if (!ok || (c->n && !c->n_threads))
        tune_compiler_stop(&c);
    return c;
}

void tune_compiler_stop(struct tune_compiler **pc)
{
    struct tune_compiler *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->n_threads; i++)
        pthread_join(c->threads[i], NULL);
    if (c->pool)
        rfg_jit_pool_destroy(&c->pool);
    for (int i = 0; i < c->n; i++) {
        free(c->jobs[i]->key);
        free(c->jobs[i]->error);
        free(c->jobs[i]);
    }
    free(c->jobs);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c);
}

/* ---- the sweep's questions --------------------------------------------------------------------------------------- */

enum tune_job_state tune_job_state(struct tune_compiler *c, struct tune_job *job)
{
    pthread_mutex_lock(&c->lock);
    enum tune_job_state state = job->state;
    pthread_mutex_unlock(&c->lock);
    return state;
}

const char *tune_job_error(struct tune_compiler *c, struct tune_job *job, rfg_status *status)
{
    pthread_mutex_lock(&c->lock);
    *status = job->status;
    const char *error = job->error ? job->error : "no memory";
    pthread_mutex_unlock(&c->lock);
    return error; /* doesn't change any more */
}

void tune_compiler_wait(struct tune_compiler *c, int *seen)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 100 * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&c->lock);
    if (c->ended == *seen)
        pthread_cond_timedwait(&c->changed, &c->lock, &until);
    *seen = c->ended;
    pthread_mutex_unlock(&c->lock);
}

void tune_compiler_count(struct tune_compiler *c, int *done, int *failed, int *all)
{
    pthread_mutex_lock(&c->lock);
    *done = c->ended;
    *failed = c->failed;
    *all = c->n;
    pthread_mutex_unlock(&c->lock);
}
