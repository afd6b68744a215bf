/* SPDX-License-Identifier: MIT
 *
 * Compiling in child processes: the program rfg-compile --worker at the other end of a socket. Compilers hold global
 * locks, so this is how several cores compile; and a compiler that crashes or hangs costs one candidate.
 *
 * Protocol, both ways: first a greeting that says whose version this is (text, NUL-padded; its size and its beginning
 * never change), then struct frames, each followed by its fields' bytes. The request's fields are provider, name,
 * entry, target, source and language; the reply's are the code object, the log and the error message. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "jit_internal.h"
#include "base/rocm.h"
#include "base/tempdir.h"
#include "base/trust.h"
#include "base/util.h"

#define PROTOCOL    3 /* of what follows the greeting: versions of the same number may differ while they are made */
#define GREETING    64
#define FRAME_MAGIC 0x32676672u /* "rfg2" */
#define MAX_FIELDS  6

struct frame {
    uint32_t magic;
    int32_t status; /* of a reply */
    uint64_t size[MAX_FIELDS];
};
enum { REQ_PROVIDER, REQ_NAME, REQ_ENTRY, REQ_TARGET, REQ_SOURCE, REQ_LANGUAGE };
enum { REP_CODE, REP_LOG, REP_ERROR };

/* ---- framed messages -------------------------------------------------------------------------------------------- */

enum io { IO_OK, IO_CLOSED, IO_TIMEOUT };

/* Waits for fd until the deadline (0: for ever). */
static enum io wait_for(int fd, short events, double deadline)
{
    for (;;) {
        double left = deadline - rfg_now();
        if (deadline > 0 && left <= 0)
            return IO_TIMEOUT;
        struct pollfd p = { .fd = fd, .events = events };
        int n = poll(&p, 1, deadline > 0 ? (int)(left * 1e3) + 1 : -1);
        if (n > 0)
            return IO_OK;
        if (n < 0 && errno != EINTR)
            return IO_CLOSED;
    }
}

/* Receives (POLLIN) or sends (POLLOUT) all of data. */
static enum io move_bytes(int fd, short events, char *data, size_t size, double deadline)
{
    while (size) {
        enum io io = wait_for(fd, events, deadline);
        if (io != IO_OK)
            return io;
        /* Not write(): a peer that died must be an error, not a SIGPIPE in a host that never asked for one. */
        ssize_t n = events == POLLIN ? read(fd, data, size) : send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return IO_CLOSED;
        data += n;
        size -= (size_t)n;
    }
    return IO_OK;
}

static enum io get_bytes(int fd, void *data, size_t size, double deadline)
{
    return move_bytes(fd, POLLIN, data, size, deadline);
}

static enum io put_bytes(int fd, const void *data, size_t size, double deadline)
{
    return move_bytes(fd, POLLOUT, (char *)data, size, deadline);
}

static enum io put_frame(int fd, rfg_status status, const void *const *fields, const size_t *sizes, int n,
                         double deadline)
{
    struct frame f = { .magic = FRAME_MAGIC, .status = (int32_t)status };
    for (int i = 0; i < n; i++)
        f.size[i] = sizes[i];
    enum io io = put_bytes(fd, &f, sizeof(f), deadline);
    for (int i = 0; io == IO_OK && i < n; i++)
        io = put_bytes(fd, fields[i], sizes[i], deadline);
    return io;
}

/* Fields are malloc'ed and NUL-terminated, also on failure (then some are NULL): the caller frees them. */
static enum io get_frame(int fd, struct frame *f, char *fields[MAX_FIELDS], double deadline)
{
    memset(fields, 0, MAX_FIELDS * sizeof(*fields));
    enum io io = get_bytes(fd, f, sizeof(*f), deadline);
    if (io == IO_OK && f->magic != FRAME_MAGIC)
        return IO_CLOSED;
    for (int i = 0; io == IO_OK && i < MAX_FIELDS; i++) {
        fields[i] = f->size[i] <= RFG_MAX_CODE ? malloc(f->size[i] + 1) : NULL;
        if (!fields[i])
            return IO_CLOSED;
        io = get_bytes(fd, fields[i], f->size[i], deadline);
        fields[i][f->size[i]] = 0;
    }
    return io;
}

static void free_fields(char *fields[MAX_FIELDS])
{
    for (int i = 0; i < MAX_FIELDS; i++)
        free(fields[i]);
}

/* Says hello and hears it; theirs is "" if that was none. */
static enum io greet(int fd, const char *version, char mine[GREETING], char theirs[GREETING], double deadline)
{
    memset(mine, 0, GREETING);
    memset(theirs, 0, GREETING);
    snprintf(mine, GREETING, "rfg %.32s, protocol %d", version, PROTOCOL);
    enum io io = put_bytes(fd, mine, GREETING, deadline);
    if (io == IO_OK)
        io = get_bytes(fd, theirs, GREETING, deadline);
    if (io != IO_OK || memcmp(theirs, "rfg ", 4) || theirs[GREETING - 1])
        theirs[0] = 0;
    return io;
}

/* ---- the pool --------------------------------------------------------------------------------------------------- */

struct worker {
    pid_t pid; /* 0: not running */
    int fd;
    bool busy;
    bool greeted;
};

struct rfg_jit_pool {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    double timeout_s;
    char *program;             /* NULL: compile in this process */
    struct rfg_tempdir tmpdir; /* the workers' $TMPDIR: what a killed compiler leaves goes with the pool */
    int n;
    struct worker workers[];
};

char *rfg_jit_worker_program(void)
{
    const char *env = rfg_env("RFG_COMPILE_WORKER");
    if (env) {
        char *path = rfg_access(env, X_OK) ? strdup(env) : NULL; /* the user's own word: no more is asked */
        if (!path)
            rfg_warn("RFG_COMPILE_WORKER=%s: not an executable; kernels are compiled in this process", env);
        return path;
    }
    char *path = rfg_program_path("rfg-compile");
    if (!path)
        rfg_log(RFG_LOG_JIT, "no rfg-compile beside rfg or in its bin directory: kernels are compiled in this process");
    return path;
}

struct rfg_jit_pool *rfg_jit_pool_create(int workers, double timeout_s)
{
    if (workers < 1)
        workers = 1;
    struct rfg_jit_pool *p = calloc(1, sizeof(*p) + (size_t)workers * sizeof(p->workers[0]));
    if (!p)
        return NULL;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->cond, NULL);
    p->timeout_s = timeout_s > 0 ? timeout_s : 120;
    p->n = workers;
    p->program = rfg_jit_worker_program();
    if (p->program)
        rfg_tempdir_make(&p->tmpdir, NULL); /* without it theirs is ours */
    return p;
}

static void kill_worker(struct worker *w)
{
    kill(-w->pid, SIGKILL); /* it leads a process group: its compilers too */
}

/* Reaps a worker that was killed or that broke off the conversation; one that won't die of itself is helped. Returns
 * its wait status. */
static int reap(struct worker *w)
{
    int status = 0;
    pid_t got = 0;
    close(w->fd);
    for (int i = 0; i < 100 && (got = waitpid(w->pid, &status, WNOHANG)) == 0; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    if (got == 0) {
        kill_worker(w);
        while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    w->pid = 0;
    return status;
}

void rfg_jit_pool_destroy(struct rfg_jit_pool **pool)
{
    struct rfg_jit_pool *p = pool ? *pool : NULL;
    if (!p)
        return;
    for (int i = 0; i < p->n; i++)
        if (p->workers[i].pid) {
            kill_worker(&p->workers[i]); /* it is idle: nothing to lose */
            reap(&p->workers[i]);
        }
    rfg_tempdir_remove(&p->tmpdir);
    pthread_cond_destroy(&p->cond);
    pthread_mutex_destroy(&p->mutex);
    free(p->program);
    free(p);
    *pool = NULL;
}

static bool start(struct rfg_jit_pool *p, struct worker *w, struct rfg_reason *why)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return rfg_refuse(why, "socketpair: %s", strerror(errno));
    /* $TMPDIR, and the same under our own name, by which the worker knows that it may delete it. */
    char *tmp = p->tmpdir.path ? rfg_asprintf("TMPDIR=%s", p->tmpdir.path) : NULL;
    char *own = p->tmpdir.path ? rfg_asprintf("RFG_WORKER_TMPDIR=%s", p->tmpdir.path) : NULL;
    char *rocm[RFG_ROCM_COUNT], *set[RFG_ROCM_COUNT + 3] = { 0 };
    int n = rfg_rocm_settings(rocm);
    memcpy(set, rocm, sizeof(rocm));
    if (own && tmp) {
        set[n++] = tmp;
        set[n] = own;
    }
    char **env = rfg_program_env(set);

    const struct rfg_start how = { .fd = { ends[1], ends[1], 2 }, .own_group = true };
    const char *const argv[] = { p->program, "--worker", NULL };
    int err = env ? rfg_spawn(&w->pid, p->program, &how, argv, env) : ENOMEM;
    free(env);
    free(tmp);
    free(own);
    for (int i = 0; i < RFG_ROCM_COUNT; i++)
        free(rocm[i]);
    close(ends[1]);
    if (err) {
        close(ends[0]);
        w->pid = 0;
        return rfg_refuse(why, "the compiler could not be started: %s", strerror(err));
    }
    w->fd = ends[0];
    w->greeted = false;
    return true;
}

static struct worker *take(struct rfg_jit_pool *p)
{
    struct worker *w = NULL;
    pthread_mutex_lock(&p->mutex);
    while (!w) {
        for (int i = 0; i < p->n; i++) /* one that is running already, if there is one */
            if (!p->workers[i].busy && (!w || (!w->pid && p->workers[i].pid)))
                w = &p->workers[i];
        if (!w)
            pthread_cond_wait(&p->cond, &p->mutex);
    }
    w->busy = true;
    pthread_mutex_unlock(&p->mutex);
    return w;
}

static void put_back(struct rfg_jit_pool *p, struct worker *w)
{
    pthread_mutex_lock(&p->mutex);
    w->busy = false;
    pthread_cond_signal(&p->cond);
    pthread_mutex_unlock(&p->mutex);
}

/* Did an idle worker end (killed for memory, by hand)? It has nothing to say now, so anything but silence means so. */
static bool gone(const struct worker *w)
{
    struct pollfd p = { .fd = w->fd, .events = POLLIN | POLLRDHUP };
    return poll(&p, 1, 0) > 0;
}

/* One request on a running worker. On anything but a whole reply the worker is ended: why says what happened. */
static bool exchange(struct rfg_jit_pool *p, struct worker *w, const struct rfg_jit_provider *prov,
                     const struct rfg_jit_request *req, struct frame *reply, char *fields[MAX_FIELDS],
                     struct rfg_reason *why)
{
    const char *out[] = { prov->name,  req->name,   req->entry ? req->entry : "",
                          req->target, req->source, req->assembly ? "asm" : "hip" };
    size_t sizes[MAX_FIELDS];
    for (int i = 0; i < MAX_FIELDS; i++)
        sizes[i] = strlen(out[i]);
    double deadline = rfg_now() + p->timeout_s;
    char mine[GREETING], theirs[GREETING];
    enum io io = w->greeted ? IO_OK : greet(w->fd, rfg_version(), mine, theirs, deadline);
    if (!w->greeted && io == IO_OK && strcmp(mine, theirs)) {
        kill_worker(w);
        reap(w);
        return rfg_refuse(why, "version mismatch: the compiler is %s, this program %s",
                          *theirs ? theirs : "no rfg that says its version", mine);
    }
    w->greeted |= io == IO_OK;
    if (io == IO_OK)
        io = put_frame(w->fd, RFG_OK, (const void *const *)out, sizes, MAX_FIELDS, deadline);
    memset(fields, 0, MAX_FIELDS * sizeof(*fields));
    if (io == IO_OK)
        io = get_frame(w->fd, reply, fields, deadline);
    if (io == IO_OK)
        return true;
    free_fields(fields);
    if (io == IO_TIMEOUT) {
        kill_worker(w);
        reap(w);
        return rfg_refuse(why, "the compiler was still running after %.1f s and was killed", p->timeout_s);
    }
    int status = reap(w);
    char end[40];
    if (WIFSIGNALED(status))
        snprintf(end, sizeof(end), "SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(end, sizeof(end), "%d", WEXITSTATUS(status));
    if (!w->greeted) /* those that know no greeting break off */
        return rfg_refuse(why, "the compiler ended with %s before it said its version, which must be %s", end, mine);
    if (WIFSIGNALED(status))
        return rfg_refuse(why, "the compiler crashed: %s", end);
    return rfg_refuse(why, "the compiler process ended with %s before it answered", end);
}

rfg_status rfg_jit_pool_compile(void *pool, const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                                struct rfg_blob *code, char **log)
{
    struct rfg_jit_pool *p = pool;
    *code = (struct rfg_blob){ 0 };
    *log = NULL;
    if (!p->program)
        return prov->compile(req, code, log);
    struct rfg_reason why = { "" };
    struct frame reply;
    char *fields[MAX_FIELDS];
    struct worker *w = take(p);
    if (w->pid && gone(w))
        reap(w);
    bool ok = (w->pid || start(p, w, &why)) && exchange(p, w, prov, req, &reply, fields, &why);
    put_back(p, w);
    if (!ok) { /* a reason has no room for a path */
        char *text = rfg_asprintf("%s: %s", why.text, p->program);
        rfg_status st = rfg_jit_failed(prov, req, NULL, text ? text : why.text);
        free(text);
        return st;
    }

    rfg_status st = (rfg_status)reply.status;
    if (reply.size[REP_LOG]) {
        *log = fields[REP_LOG];
        fields[REP_LOG] = NULL;
    }
    if (st == RFG_OK) {
        *code = (struct rfg_blob){ fields[REP_CODE], reply.size[REP_CODE] };
        fields[REP_CODE] = NULL;
    } else {
        rfg_fail(st, "%s", fields[REP_ERROR]);
    }
    free_fields(fields);
    return st;
}

/* ---- many at once ------------------------------------------------------------------------------------------------ */

struct prefetch {
    struct rfg_cache *cache;
    struct rfg_jit_pool *pool;
    const struct rfg_jit_request *reqs;
    int n, next, failed;
    pthread_mutex_t mutex;
    void (*done)(void *ctx, int i, rfg_status st, const char *error);
    void *ctx;
};

static void *prefetch_thread(void *arg)
{
    struct prefetch *p = arg;
    pthread_mutex_lock(&p->mutex);
    while (p->next < p->n) {
        int i = p->next++;
        pthread_mutex_unlock(&p->mutex);
        const struct rfg_blob *code;
        rfg_status st = rfg_cache_get(p->cache, &p->reqs[i], p->pool ? rfg_jit_pool_compile : NULL, p->pool, &code);
        pthread_mutex_lock(&p->mutex);
        p->failed += st != RFG_OK;
        if (p->done)
            p->done(p->ctx, i, st, st ? rfg_last_error() : "");
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

int rfg_jit_prefetch(struct rfg_cache *cache, struct rfg_jit_pool *pool, int workers,
                     const struct rfg_jit_request *reqs, int n,
                     void (*done)(void *ctx, int i, rfg_status st, const char *error), void *ctx)
{
    struct prefetch p = { .cache = cache, .pool = pool, .reqs = reqs, .n = n, .done = done, .ctx = ctx };
    pthread_t threads[64];
    int started = 0;
    pthread_mutex_init(&p.mutex, NULL);
    workers = workers > 64 ? 64 : workers;
    workers = workers > n ? n : workers;
    while (started < workers - 1 && pthread_create(&threads[started], NULL, prefetch_thread, &p) == 0)
        started++;
    prefetch_thread(&p); /* the caller's thread is one of them */
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&p.mutex);
    return p.failed;
}

/* ---- the worker's side ------------------------------------------------------------------------------------------- */

static int worker_fd;
static struct rfg_tempdir worker_tmpdir;

/* Ends the worker when the program that it serves is gone, even in the midst of a compile: nobody wants the result. */
static void *watch(void *arg)
{
    struct pollfd p = { .fd = worker_fd, .events = POLLRDHUP };
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    bool leader = getpgrp() == getpid();
    signal(SIGTERM, SIG_IGN);
    if (leader)
        kill(0, SIGTERM); /* the compilers that we started */
    rfg_tempdir_remove(&worker_tmpdir);
    const char *pool_dir = rfg_env("RFG_WORKER_TMPDIR");
    if (pool_dir)
        rmdir(pool_dir); /* the last worker of a pool that was killed does it */
    if (leader)
        kill(0, SIGKILL);
    _exit(0);
    return arg;
}

static enum io serve(int fd, char *fields[MAX_FIELDS], void (*before)(const char *name))
{
    struct rfg_jit_request req = {
        .name = fields[REQ_NAME],
        .entry = fields[REQ_ENTRY],
        .target = fields[REQ_TARGET],
        .source = fields[REQ_SOURCE],
        .assembly = !strcmp(fields[REQ_LANGUAGE], "asm"),
    };
    if (before)
        before(req.name);
    const struct rfg_jit_provider *prov = rfg_jit_provider_find(fields[REQ_PROVIDER]);
    struct rfg_blob code = { 0 };
    char *log = NULL;
    rfg_status st = prov ? prov->compile(&req, &code, &log)
                         : rfg_fail(RFG_ERROR_INTERNAL, "%s: not a compiler of this worker", fields[REQ_PROVIDER]);
    const char *error = st ? rfg_last_error() : "";
    const void *out[] = { code.data, log, error };
    size_t sizes[] = { code.size, log ? strlen(log) : 0, strlen(error) };
    enum io io = put_frame(fd, st, out, sizes, 3, 0);
    rfg_blob_free(&code);
    free(log);
    return io;
}

int rfg_jit_worker_main(void (*before)(const char *name))
{
    /* Compilers print what they like: from here on, fd 1 is stderr and the socket is ours alone. */
    worker_fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (worker_fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0) {
        fprintf(stderr, "rfg-compile --worker: %s\n", strerror(errno));
        return 1;
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }); /* a crash is expected now and then */
    if (rfg_tempdir_make(&worker_tmpdir, NULL))
        setenv("TMPDIR", worker_tmpdir.path, 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL) == 0)
        pthread_detach(thread);
    const char *version = rfg_env("RFG_TEST_WORKER_VERSION");
    char mine[GREETING], theirs[GREETING];
    enum io io = greet(worker_fd, version ? version : rfg_version(), mine, theirs, 0);
    if (strcmp(mine, theirs))
        io = IO_CLOSED; /* another version: the other side says so */
    while (io == IO_OK) {
        struct frame f;
        char *fields[MAX_FIELDS];
        io = get_frame(worker_fd, &f, fields, 0);
        if (io == IO_OK)
            io = serve(worker_fd, fields, before);
        free_fields(fields);
    }
    shutdown(worker_fd, SHUT_RDWR);
    watch(NULL);
    return 0;
}
