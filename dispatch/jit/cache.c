/* SPDX-License-Identifier: MIT
 *
 * The cache of code objects: a table in memory over one file a code object (cache_disk.c).
 *
 * A file is written under a temporary name and renamed, so that readers see all of it or nothing; what they see is
 * checked all the same (disks fill up, copies are cut short), and a file that fails the check is deleted and counts
 * as a miss. Between threads, an entry that is being made holds the others up; between processes, a lock does, and
 * whoever gets it looks on the disk again before it compiles. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache_disk.h"
#include "base/log.h"
#include "jit_internal.h"
#include "base/trust.h"
#include "base/util.h"

#define N_BUCKETS 1024
#define KEY_LEN   RFG_CACHE_KEY_LEN
/* How long a lock's holder may give no sign of life; once one did not, not as long again. */
#define PATIENCE       3.0
#define PATIENCE_AFTER 1.0

enum state {
    BUSY,    /* a thread is looking on the disk or compiling */
    READY,   /* code is there, for good */
    FAILED,  /* for those that waited; the next caller tries again */
    REFUSED, /* by the device, twice: nobody tries again */
};

/* Those that were dropped stay: somebody may be reading them. */
struct made {
    struct rfg_blob code;
    struct made *older;
};

struct entry {
    struct entry *next;
    char key[KEY_LEN + 1];
    enum state state;
    uint64_t attempt;
    struct made *made; /* the one that counts, and before it those that were dropped */
    rfg_status status;
    char error[1024];
};

struct rfg_cache {
    char *dir; /* NULL: memory only */
    uint64_t max_bytes;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct entry *buckets[N_BUCKETS];
    struct rfg_cache_stats stats;
    bool counted, warned;
    _Atomic bool lost_patience;
    uint64_t disk_bytes; /* as of the last count, plus what this process stored since */
};

/* ---- opening ------------------------------------------------------------------------------------------------- */

static uint64_t size_bound(uint64_t max_bytes)
{
    const char *env = rfg_env("RFG_CACHE_MAX_MIB");
    if (max_bytes)
        return max_bytes;
    if (env) {
        char *end;
        errno = 0;
        unsigned long long mib = strtoull(env, &end, 10);
        if (!errno && !*end && *env != '-' && mib > 0 && mib <= 1ull << 40)
            return mib << 20;
        rfg_warn("RFG_CACHE_MAX_MIB=%.40s: must be a whole number of MiB, at least 1; 1024 is used", env);
    }
    return 1ull << 30;
}

char *rfg_cache_default_dir(void)
{
    const char *env = rfg_env("RFG_CACHE_DIR");
    return env ? strdup(env) : rfg_xdg_dir("XDG_CACHE_HOME", ".cache");
}

bool rfg_cache_usable(const char *dir, bool make, struct rfg_reason *why)
{
    int fd = rfg_open_own_dir(dir, make, why);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

struct rfg_cache *rfg_cache_open(const char *dir, uint64_t max_bytes)
{
    struct rfg_cache *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->cond, NULL);
    c->max_bytes = size_bound(max_bytes);
    char *path = dir ? (*dir ? rfg_absolute(dir) : NULL) : rfg_cache_default_dir();
    struct rfg_reason why = { "" };
    if (path && rfg_cache_usable(path, true, &why)) {
        c->dir = path;
    } else {
        if (path)
            rfg_warn("code cache %s: %s; compiled kernels are kept in memory only", path, why.text);
        else if (!dir)
            rfg_warn("code cache: neither RFG_CACHE_DIR, XDG_CACHE_HOME nor HOME is set; compiled kernels are kept "
                     "in memory only");
        free(path);
    }
    return c;
}

void rfg_cache_close(struct rfg_cache **cache)
{
    struct rfg_cache *c = cache ? *cache : NULL;
    if (!c)
        return;
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct entry *e = c->buckets[i], *next; e; e = next) {
            next = e->next;
            for (struct made *m = e->made, *older; m; m = older) {
                older = m->older;
                rfg_blob_free(&m->code);
                free(m);
            }
            free(e);
        }
    pthread_cond_destroy(&c->cond);
    pthread_mutex_destroy(&c->mutex);
    free(c->dir);
    free(c);
    *cache = NULL;
}

void rfg_cache_get_stats(struct rfg_cache *c, struct rfg_cache_stats *stats)
{
    pthread_mutex_lock(&c->mutex);
    *stats = c->stats;
    pthread_mutex_unlock(&c->mutex);
}

static void count(struct rfg_cache *c, uint64_t *counter)
{
    pthread_mutex_lock(&c->mutex);
    (*counter)++;
    pthread_mutex_unlock(&c->mutex);
}

void rfg_cache_key(const struct rfg_jit_request *req, const struct rfg_jit_provider *prov, char hex[65])
{
    const char *parts[32] = { req->assembly ? "rfg code object of assembly" : "rfg code object", req->source,
                              req->target, prov->name };
    size_t sizes[32];
    char version[128] = "";
    int n = 4;
    prov->available(version, sizeof(version), NULL);
    parts[n++] = version;
    const char *const *options = req->assembly ? prov->assembler_options : prov->options;
    for (int i = 0; options && options[i] && n < 32; i++)
        parts[n++] = options[i];
    for (int i = 0; i < n; i++)
        sizes[i] = strlen(parts[i]);
    rfg_sha256_hex(hex, parts, sizes, n);
}

/* ---- the disk --------------------------------------------------------------------------------------------------- */

static enum rfg_disk_read disk_read(struct rfg_cache *c, int dir, const struct rfg_jit_request *req, const char *key,
                                    struct rfg_blob *code)
{
    struct rfg_reason why;
    enum rfg_disk_read r = rfg_disk_read(dir, key, code, &why);
    if (r == RFG_DISK_HIT && !rfg_code_check(req, code, &why)) { /* older versions stored whatever a compiler left */
        rfg_blob_free(code);
        rfg_disk_delete(dir, key);
        r = RFG_DISK_DAMAGED;
    }
    if (r == RFG_DISK_DAMAGED) {
        rfg_log(RFG_LOG_JIT, "code cache %s/%s: %s: %s: deleted", c->dir, req->target, key, why.text);
        count(c, &c->stats.corrupt);
    } else if (r == RFG_DISK_REFUSED) {
        rfg_warn("code cache %s/%s: %s; the kernel is compiled anew", c->dir, req->target, why.text);
    }
    return r;
}

/* A failure is a warning (once) and no more: the code object is in memory. */
static void disk_write(struct rfg_cache *c, int dir, const struct rfg_jit_request *req, const char *key,
                       const struct rfg_blob *code)
{
    uint64_t size = rfg_disk_write(dir, key, code);
    int err = errno;
    pthread_mutex_lock(&c->mutex);
    bool warn = !size && !c->warned;
    c->warned = c->warned || !size;
    c->disk_bytes += size;
    pthread_mutex_unlock(&c->mutex);
    if (warn)
        rfg_warn("code cache %s/%s: can't be written (%s); compiled kernels are kept in memory", c->dir, req->target,
                 strerror(err));
}

/* Counts the directory before the first store and whenever the bound seems to be passed. */
static void evict(struct rfg_cache *c)
{
    pthread_mutex_lock(&c->mutex);
    bool due = !c->counted || c->disk_bytes > c->max_bytes;
    c->counted = true;
    pthread_mutex_unlock(&c->mutex);
    if (!due)
        return;
    uint64_t gone, left = rfg_disk_evict(c->dir, c->max_bytes, &gone);
    pthread_mutex_lock(&c->mutex);
    c->stats.evicted += gone;
    c->disk_bytes = left;
    pthread_mutex_unlock(&c->mutex);
}

/* Waits while another process compiles the same. */
static enum rfg_disk_lock_result lock_key(struct rfg_cache *c, int dir, const char *key, struct rfg_disk_lock *lock)
{
    struct rfg_reason why;
    double patience = atomic_load(&c->lost_patience) ? PATIENCE_AFTER : PATIENCE;
    enum rfg_disk_lock_result r = rfg_disk_lock(lock, dir, key, patience, &why);
    if (r == RFG_DISK_SILENT) {
        atomic_store(&c->lost_patience, true);
        rfg_warn("code cache %s: a process holds the lock of %s without compiling; going on without it", c->dir, key);
    } else if (r == RFG_DISK_NO_LOCK) {
        rfg_log(RFG_LOG_JIT, "code cache %s: no lock: %s", c->dir, why.text);
    }
    return r;
}

/* ---- getting --------------------------------------------------------------------------------------------------- */

static void log_lines(const char *log)
{
    for (size_t len; log && rfg_log_on(RFG_LOG_JIT) && *log; log += len + (log[len] == '\n')) {
        len = strcspn(log, "\n");
        if (len)
            rfg_log(RFG_LOG_JIT, "  | %.*s", (int)len, log);
    }
}

static rfg_status run_compiler(struct rfg_cache *c, const struct rfg_jit_request *req,
                               const struct rfg_jit_provider *prov, rfg_compile_fn compile, void *ctx,
                               struct rfg_blob *code)
{
    char *log = NULL;
    double start = rfg_now();
    count(c, &c->stats.compiles);
    rfg_status st = rfg_jit_compile(prov, req, compile, ctx, code, &log);
    rfg_log(RFG_LOG_JIT, "%s %s for %s by %s in %.1f ms, %zu bytes", st ? "FAILED" : "compiled", req->name, req->target,
            prov->name, 1e3 * (rfg_now() - start), st ? 0 : code->size);
    log_lines(log);
    free(log);
    return st;
}

/* From the disk or the compiler; called by the one thread that makes the entry. */
static rfg_status make(struct rfg_cache *c, const struct rfg_jit_request *req, const struct rfg_jit_provider *prov,
                       const char *key, rfg_compile_fn compile, void *ctx, struct rfg_blob *code)
{
    if (!c->dir) {
        count(c, &c->stats.misses);
        return run_compiler(c, req, prov, compile, ctx, code);
    }
    double start = rfg_now();
    struct rfg_reason why = { "" };
    int dir = rfg_disk_open(c->dir, req->target, &why);
    if (dir < 0) {
        pthread_mutex_lock(&c->mutex);
        bool warn = !c->warned;
        c->warned = true;
        pthread_mutex_unlock(&c->mutex);
        if (warn)
            rfg_warn("code cache %s: %s; compiled kernels are kept in memory", c->dir, why.text);
        count(c, &c->stats.misses);
        return run_compiler(c, req, prov, compile, ctx, code);
    }
    rfg_status st = RFG_OK;
    struct rfg_disk_lock lock = { .fd = -1 };
    enum rfg_disk_read found = disk_read(c, dir, req, key, code);
    if (found == RFG_DISK_MISS || found == RFG_DISK_DAMAGED) {
        enum rfg_disk_lock_result r = lock_key(c, dir, key, &lock);
        if (r == RFG_DISK_LOCKED || r == RFG_DISK_FREED)
            found = disk_read(c, dir, req, key, code);
    }
    bool hit = found == RFG_DISK_HIT;
    if (hit) {
        count(c, &c->stats.disk_hits);
        rfg_log(RFG_LOG_JIT, "from disk %s for %s in %.2f ms, %zu bytes", req->name, req->target,
                1e3 * (rfg_now() - start), code->size);
    } else {
        count(c, &c->stats.misses);
        st = run_compiler(c, req, prov, compile, ctx, code);
        if (st == RFG_OK)
            disk_write(c, dir, req, key, code);
    }
    rfg_disk_unlock(&lock, dir, key);
    close(dir);
    if (!hit && st == RFG_OK)
        evict(c);
    return st;
}

/* Under the mutex. NULL: no memory. */
static struct entry *find_or_add(struct rfg_cache *c, const char *key, bool *added)
{
    unsigned bucket;
    sscanf(key, "%4x", &bucket);
    struct entry **head = &c->buckets[bucket % N_BUCKETS];
    for (struct entry *e = *head; e; e = e->next)
        if (!strcmp(e->key, key))
            return e;
    struct entry *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    memcpy(e->key, key, sizeof(e->key));
    e->next = *head;
    *head = e;
    *added = true;
    return e;
}

/* What an entry failed with; unlocks. */
static rfg_status fail_as(struct rfg_cache *c, const struct entry *e)
{
    rfg_status st = rfg_fail(e->status, "%s", e->error);
    pthread_mutex_unlock(&c->mutex);
    return st;
}

rfg_status rfg_cache_get(struct rfg_cache *c, const struct rfg_jit_request *req, rfg_compile_fn compile, void *ctx,
                         const struct rfg_blob **code)
{
    *code = NULL;
    const struct rfg_jit_provider *prov = req->provider ? req->provider : rfg_jit_provider_for(req->target);
    if (!prov)
        return RFG_ERROR_COMPILE;
    char key[65];
    rfg_cache_key(req, prov, key);
    if (!*key)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its key", req->name);

    pthread_mutex_lock(&c->mutex);
    bool added = false;
    struct entry *e = find_or_add(c, key, &added);
    if (!e) {
        pthread_mutex_unlock(&c->mutex);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a cache entry", req->name);
    }
    if (!added && e->state == BUSY) {
        uint64_t attempt = e->attempt;
        while (e->state == BUSY && e->attempt == attempt)
            pthread_cond_wait(&c->cond, &c->mutex);
        if (e->state != READY) /* the attempt that we waited for failed: so did we */
            return fail_as(c, e);
    }
    if (!added && e->state == REFUSED)
        return fail_as(c, e);
    if (!added && e->state == READY) {
        c->stats.memory_hits++;
        *code = &e->made->code;
        pthread_mutex_unlock(&c->mutex);
        rfg_log(RFG_LOG_JIT, "from memory %s for %s", req->name, req->target);
        return RFG_OK;
    }
    e->state = BUSY;
    e->attempt++;
    pthread_mutex_unlock(&c->mutex);

    struct made *made = calloc(1, sizeof(*made));
    rfg_status st = made ? make(c, req, prov, key, compile, ctx, &made->code)
                         : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a cache entry", req->name);

    pthread_mutex_lock(&c->mutex);
    e->state = st == RFG_OK ? READY : FAILED;
    e->status = st;
    if (st == RFG_OK) {
        made->older = e->made;
        e->made = made;
        *code = &made->code;
    } else {
        free(made);
        snprintf(e->error, sizeof(e->error), "%s", rfg_last_error());
    }
    pthread_cond_broadcast(&c->cond);
    pthread_mutex_unlock(&c->mutex);
    return st;
}

static struct entry *entry_of(struct rfg_cache *c, const struct rfg_blob *code)
{
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct entry *e = c->buckets[i]; e; e = e->next)
            if (e->made && &e->made->code == code)
                return e;
    return NULL;
}

rfg_status rfg_cache_refuse(struct rfg_cache *c, const struct rfg_jit_request *req, const struct rfg_blob *code,
                            const char *why)
{
    struct rfg_reason none;
    rfg_status st = RFG_OK;
    pthread_mutex_lock(&c->mutex);
    struct entry *e = entry_of(c, code);
    bool first = e && e->state == READY; /* no other thread was here before */
    if (first) {
        e->state = e->made->older ? REFUSED : FAILED;
        e->status = RFG_ERROR_COMPILE;
        snprintf(e->error, sizeof(e->error), "%s for %s: the device refuses kernel %s%s%s/%s/%s.rfgco: %s", req->name,
                 req->target, req->entry, c->dir ? " of " : ", kept as ", c->dir ? c->dir : "memory", req->target,
                 e->key, why);
    }
    if (e && e->state == REFUSED)
        st = rfg_fail(e->status, "%s", e->error);
    pthread_mutex_unlock(&c->mutex);
    int dir = first && c->dir ? rfg_disk_open(c->dir, req->target, &none) : -1;
    if (dir >= 0) {
        rfg_disk_delete(dir, e->key);
        close(dir);
    }
    if (first && st == RFG_OK)
        rfg_warn("%s; it is deleted and compiled once more", e->error);
    return st;
}
