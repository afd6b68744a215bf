/* SPDX-License-Identifier: MIT
 *
 * The cache of code objects: a table in memory over one file a code object, <dir>/<target>/<key>.rfgco.
 *
 * A file is written under a temporary name and renamed, so that readers see all of it or nothing; what they see is
 * checked all the same (disks fill up, copies are cut short), and a file that fails the check is deleted and counts
 * as a miss. Between threads, an entry that is being made holds the others up; between processes, a lock on
 * <key>.lock does, and whoever gets it looks on the disk again before it compiles. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "jit_internal.h"
#include "util.h"

#define SUFFIX        ".rfgco"
#define N_BUCKETS     1024
#define KEY_LEN       64
#define TOUCH_SECONDS 60   /* recency is kept to the minute: a hit writes nothing most of the time */
#define STALE_SECONDS 3600 /* temporary and lock files older than this belong to nobody */

/* The file: this header, then the code object. Written by and for the same machine: native byte order. */
struct header {
    char magic[8];
    uint32_t format, header_size;
    uint64_t size;
    char key[KEY_LEN];
    char checksum[KEY_LEN]; /* hex SHA-256 of the fields above and of the code object */
};
static const char magic[8] = "RFGCODE";
#define FORMAT 1

enum state {
    BUSY,   /* a thread is looking on the disk or compiling */
    READY,  /* code is there, for good */
    FAILED, /* for those that waited; the next caller tries again */
};

struct entry {
    struct entry *next;
    char key[KEY_LEN + 1];
    enum state state;
    uint64_t attempt;
    struct rfg_blob code;
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

/* As root access(2) tells little: a file is made. */
static bool writable(const char *dir)
{
    char *path = rfg_asprintf("%s/.probe-XXXXXX", dir);
    int fd = path ? mkostemp(path, O_CLOEXEC) : -1, err = errno;
    if (fd >= 0) {
        unlink(path);
        close(fd);
    }
    free(path);
    errno = err;
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
    const char *env = rfg_env("RFG_CACHE_DIR");
    char *path = dir ? (*dir ? strdup(dir) : NULL) : env ? strdup(env) : rfg_xdg_dir("XDG_CACHE_HOME", ".cache");
    if (path && rfg_mkdirs(path) && writable(path)) {
        c->dir = path;
    } else {
        if (path)
            rfg_warn("code cache %s: can't be written (%s); compiled kernels are kept in memory only", path,
                     strerror(errno));
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
            rfg_blob_free(&e->code);
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

/* ---- files ---------------------------------------------------------------------------------------------------- */

static void checksum(const struct header *h, const void *code, char hex[65])
{
    rfg_sha256_hex(hex, (const char *const[]){ (const char *)h, code },
                   (const size_t[]){ offsetof(struct header, checksum), h->size }, 2);
}

/* The code object of a file's bytes, or NULL: says what is wrong with them. */
static const char *check_file(const char *bytes, size_t size, const char *key, struct header *h)
{
    char hex[65];
    if (size < sizeof(*h))
        return "shorter than its header";
    memcpy(h, bytes, sizeof(*h));
    if (memcmp(h->magic, magic, sizeof(magic)))
        return "wrong magic";
    if (h->format != FORMAT || h->header_size != sizeof(*h))
        return "another format version";
    if (h->size != size - sizeof(*h))
        return "truncated";
    if (memcmp(h->key, key, KEY_LEN))
        return "another key's file";
    checksum(h, bytes + sizeof(*h), hex);
    return memcmp(h->checksum, hex, KEY_LEN) ? "wrong checksum" : NULL;
}

static bool disk_read(struct rfg_cache *c, const char *path, const char *key, struct rfg_blob *code)
{
    size_t size;
    struct header h;
    char *bytes = rfg_read_file(path, &size);
    if (!bytes)
        return false;
    const char *wrong = check_file(bytes, size, key, &h);
    if (wrong) {
        rfg_log(RFG_LOG_JIT, "%s: %s: deleted", path, wrong);
        unlink(path);
        free(bytes);
        count(c, &c->stats.corrupt);
        return false;
    }
    struct stat st;
    if (stat(path, &st) == 0 && time(NULL) - st.st_mtime >= TOUCH_SECONDS)
        utimensat(AT_FDCWD, path, NULL, 0);
    memmove(bytes, bytes + sizeof(h), h.size);
    *code = (struct rfg_blob){ bytes, h.size };
    return true;
}

static bool write_all(int fd, const void *data, size_t size)
{
    for (const char *s = data; size;) {
        ssize_t n = write(fd, s, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        s += n;
        size -= (size_t)n;
    }
    return true;
}

/* A failure is a warning (once) and no more: the code object is in memory. */
static void disk_write(struct rfg_cache *c, const char *path, const char *key, const struct rfg_blob *code)
{
    struct header h = { .format = FORMAT, .header_size = sizeof(h), .size = code->size };
    char hex[65], *tmp = rfg_asprintf("%s.tmp-XXXXXX", path);
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(h.key, key, KEY_LEN);
    checksum(&h, code->data, hex);
    memcpy(h.checksum, hex, KEY_LEN);
    int fd = tmp ? mkostemp(tmp, O_CLOEXEC) : -1;
    bool ok = fd >= 0 && write_all(fd, &h, sizeof(h)) && write_all(fd, code->data, code->size) && fchmod(fd, 0644) == 0;
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    ok = ok && rename(tmp, path) == 0;
    int err = errno;
    if (!ok && fd >= 0)
        unlink(tmp);
    free(tmp);
    pthread_mutex_lock(&c->mutex);
    bool warn = !ok && !c->warned;
    c->warned = c->warned || !ok;
    if (ok)
        c->disk_bytes += sizeof(h) + code->size;
    pthread_mutex_unlock(&c->mutex);
    if (warn)
        rfg_warn("code cache %s: can't be written (%s); compiled kernels are kept in memory", path, strerror(err));
}

/* ---- the size bound -------------------------------------------------------------------------------------------- */

struct file {
    char *path;
    uint64_t size;
    struct timespec used;
};

static int by_age(const void *a, const void *b)
{
    const struct timespec *x = &((const struct file *)a)->used, *y = &((const struct file *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Adds the code objects of one target's directory to the list; clears away what crashed processes left. */
static void list_dir(const char *dir, struct file **files, size_t *n, uint64_t *total)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        size_t len = strlen(e->d_name);
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        if (len != KEY_LEN + strlen(SUFFIX) || strcmp(e->d_name + KEY_LEN, SUFFIX)) {
            if ((strstr(e->d_name, SUFFIX ".tmp-") || strstr(e->d_name, ".lock")) &&
                time(NULL) - st.st_mtime > STALE_SECONDS)
                unlinkat(dirfd(d), e->d_name, 0);
            continue;
        }
        if ((*n & (*n - 1)) == 0) { /* full at every power of two */
            struct file *more = realloc(*files, (*n ? *n * 2 : 1) * sizeof(*more));
            if (!more)
                break;
            *files = more;
        }
        char *path = rfg_asprintf("%s/%s", dir, e->d_name);
        if (!path)
            break;
        (*files)[(*n)++] = (struct file){ path, (uint64_t)st.st_size, st.st_mtim };
        *total += (uint64_t)st.st_size;
    }
    if (d)
        closedir(d);
}

/* Counts the directory before the first store and whenever the bound seems to be passed; if it is, deletes the least
 * recently used down to nine tenths of it. Several processes at once do no harm: a file deleted twice is deleted. */
static void evict(struct rfg_cache *c)
{
    pthread_mutex_lock(&c->mutex);
    bool due = !c->counted || c->disk_bytes > c->max_bytes;
    c->counted = true;
    pthread_mutex_unlock(&c->mutex);
    if (!due)
        return;

    struct file *files = NULL;
    size_t n = 0, gone = 0;
    uint64_t total = 0;
    DIR *d = opendir(c->dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *dir = e->d_name[0] == '.' ? NULL : rfg_asprintf("%s/%s", c->dir, e->d_name);
        if (dir)
            list_dir(dir, &files, &n, &total);
        free(dir);
    }
    if (d)
        closedir(d);
    if (total > c->max_bytes) {
        qsort(files, n, sizeof(*files), by_age);
        for (size_t i = 0; i < n && total > c->max_bytes / 10 * 9; i++) {
            gone += unlink(files[i].path) == 0;
            total -= files[i].size;
        }
        rfg_log(RFG_LOG_JIT, "cache over %llu MiB: %zu least recently used of %zu files deleted",
                (unsigned long long)(c->max_bytes >> 20), gone, n);
    }
    for (size_t i = 0; i < n; i++)
        free(files[i].path);
    free(files);
    pthread_mutex_lock(&c->mutex);
    c->stats.evicted += gone;
    c->disk_bytes = total;
    pthread_mutex_unlock(&c->mutex);
}

/* ---- one compile per key across processes ---------------------------------------------------------------------- */

/* The descriptor of the locked file, or -1 if there is none to be had (then we compile without it). */
static int lock_key(const char *path)
{
    for (;;) {
        struct stat held, there;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644), err;
        if (fd < 0)
            return -1;
        while ((err = flock(fd, LOCK_EX)) && errno == EINTR)
            ;
        if (!err && fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino)
            return fd;
        close(fd); /* its holder deleted it meanwhile: the name is another file's, or nobody's */
        if (err)
            return -1;
    }
}

static void unlock_key(int fd, const char *path)
{
    if (fd < 0)
        return;
    unlink(path); /* while we hold it: see lock_key() */
    close(fd);
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
    rfg_status st = compile ? compile(ctx, prov, req, code, &log) : prov->compile(req, code, &log);
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
    char *dir = rfg_asprintf("%s/%s", c->dir, req->target);
    char *path = rfg_asprintf("%s/%s/%s" SUFFIX, c->dir, req->target, key);
    char *lock = rfg_asprintf("%s/%s/%s.lock", c->dir, req->target, key);
    rfg_status st = RFG_ERROR_OUT_OF_MEMORY;
    if (!dir || !path || !lock) {
        rfg_fail(st, "%s: no memory for the cache's paths", req->name);
    } else if (disk_read(c, path, key, code)) {
        st = RFG_OK;
    } else {
        rfg_mkdirs(dir); /* if it can't be made, the write says so */
        int fd = lock_key(lock);
        if (fd >= 0 && disk_read(c, path, key, code)) {
            st = RFG_OK;
        } else {
            count(c, &c->stats.misses);
            st = run_compiler(c, req, prov, compile, ctx, code);
            if (st == RFG_OK)
                disk_write(c, path, key, code);
            unlock_key(fd, lock);
            if (st == RFG_OK)
                evict(c);
            goto out;
        }
        unlock_key(fd, lock);
    }
    if (st == RFG_OK) {
        count(c, &c->stats.disk_hits);
        rfg_log(RFG_LOG_JIT, "from disk %s for %s in %.2f ms, %zu bytes", req->name, req->target,
                1e3 * (rfg_now() - start), code->size);
    }
out:
    free(dir);
    free(path);
    free(lock);
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

rfg_status rfg_cache_get(struct rfg_cache *c, const struct rfg_jit_request *req, rfg_compile_fn compile, void *ctx,
                         const struct rfg_blob **code)
{
    *code = NULL;
    const struct rfg_jit_provider *prov = rfg_jit_provider_for(req->target);
    if (!prov)
        return RFG_ERROR_COMPILE;
    char key[65];
    rfg_cache_key(req, prov, key);

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
        if (e->state != READY) { /* the attempt that we waited for failed: so did we */
            rfg_status st = rfg_fail(e->status, "%s", e->error);
            pthread_mutex_unlock(&c->mutex);
            return st;
        }
    }
    if (!added && e->state == READY) {
        c->stats.memory_hits++;
        *code = &e->code;
        pthread_mutex_unlock(&c->mutex);
        rfg_log(RFG_LOG_JIT, "from memory %s for %s", req->name, req->target);
        return RFG_OK;
    }
    e->state = BUSY;
    e->attempt++;
    pthread_mutex_unlock(&c->mutex);

    struct rfg_blob made = { 0 };
    rfg_status st = make(c, req, prov, key, compile, ctx, &made);

    pthread_mutex_lock(&c->mutex);
    e->state = st == RFG_OK ? READY : FAILED;
    e->status = st;
    e->code = made;
    if (st == RFG_OK)
        *code = &e->code;
    else
        snprintf(e->error, sizeof(e->error), "%s", rfg_last_error());
    pthread_cond_broadcast(&c->cond);
    pthread_mutex_unlock(&c->mutex);
    return st;
}
