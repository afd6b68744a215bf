/* SPDX-License-Identifier: MIT */
#include "cache_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/trust.h"
#include "base/util.h"

#define SUFFIX        ".rfgco"
#define LOCK_SUFFIX   ".lock"
#define TMP_SUFFIX    SUFFIX ".tmp-"
#define TMP_RANDOM    6
#define KEY_LEN       RFG_CACHE_KEY_LEN
#define NAME_SIZE     (KEY_LEN + sizeof(TMP_SUFFIX) + TMP_RANDOM)
#define TOUCH_SECONDS 60    /* recency is kept to the minute: a hit writes nothing most of the time */
#define STALE_SECONDS 3600  /* temporary files older than this belong to nobody */
#define BEAT_SECONDS  0.25  /* signs of life of a lock's holder */
#define WAIT_SECONDS  120.0 /* a compile that takes longer isn't waited for, whatever signs there are */

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

static char *name_of(char name[NAME_SIZE], const char *key, const char *suffix)
{
    snprintf(name, NAME_SIZE, "%.*s%s", KEY_LEN, key, suffix);
    return name;
}

int rfg_disk_open(const char *cache_dir, const char *target, struct rfg_reason *why)
{
    int dir = rfg_open_own_dir(cache_dir, true, why);
    if (dir < 0)
        return -1;
    int fd = rfg_open_own_subdir(dir, target, true, why), err = errno;
    close(dir);
    errno = err;
    return fd;
}

/* ---- code objects ---------------------------------------------------------------------------------------------- */

static void checksum(const struct header *h, const void *code, char hex[65])
{
    rfg_sha256_hex(hex, (const char *const[]){ (const char *)h, code },
                   (const size_t[]){ offsetof(struct header, checksum), h->size }, 2);
}

/* NULL, or what is wrong with the header of a file of that size. */
static const char *check_header(const struct header *h, uint64_t file_size)
{
    return memcmp(h->magic, magic, sizeof(magic))                ? "wrong magic"
           : h->format != FORMAT || h->header_size != sizeof(*h) ? "another format version"
           : h->size != file_size - sizeof(*h)                   ? "truncated"
                                                                 : NULL;
}

const char *rfg_cache_unwrap(char *bytes, size_t *size)
{
    struct header h;
    char hex[65];
    if (*size < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)))
        return NULL;
    if (*size < sizeof(h))
        return "shorter than its header";
    memcpy(&h, bytes, sizeof(h));
    const char *wrong = check_header(&h, *size);
    if (wrong)
        return wrong;
    checksum(&h, bytes + sizeof(h), hex);
    if (memcmp(h.checksum, hex, KEY_LEN))
        return "wrong checksum";
    memmove(bytes, bytes + sizeof(h), h.size);
    *size = h.size;
    return NULL;
}

static const char no_memory[] = "no memory for its code object"; /* which is not the file's fault */

/* The code object of an open file, or what is wrong with it. */
static const char *read_code(int fd, const struct stat *st, const char *key, struct rfg_blob *code)
{
    struct header h;
    char hex[65];
    if (st->st_size < (off_t)sizeof(h) || rfg_read_at(fd, &h, sizeof(h), 0) < sizeof(h))
        return "shorter than its header";
    const char *bad = check_header(&h, (uint64_t)st->st_size);
    if (bad)
        return bad;
    if (memcmp(h.key, key, KEY_LEN))
        return "another key's file";
    if (h.size > RFG_MAX_CODE)
        return "too large";
    void *data = malloc(h.size + 1);
    if (!data)
        return no_memory;
    const char *wrong = rfg_read_at(fd, data, h.size, sizeof(h)) == h.size ? NULL : "truncated";
    if (!wrong) {
        checksum(&h, data, hex);
        wrong = !*hex ? no_memory : memcmp(h.checksum, hex, KEY_LEN) ? "wrong checksum" : NULL;
    }
    if (wrong)
        free(data);
    else
        *code = (struct rfg_blob){ data, h.size };
    return wrong;
}

enum rfg_disk_read rfg_disk_read(int dir, const char *key, struct rfg_blob *code, struct rfg_reason *why)
{
    char name[NAME_SIZE];
    struct stat st;
    int fd = rfg_open_own_file(dir, name_of(name, key, SUFFIX), O_RDONLY, why);
    if (fd < 0)
        return errno == ENOENT ? RFG_DISK_MISS : RFG_DISK_REFUSED;
    const char *wrong = fstat(fd, &st) ? "can't be looked at" : read_code(fd, &st, key, code);
    if (!wrong && time(NULL) - st.st_mtime >= TOUCH_SECONDS)
        futimens(fd, NULL);
    close(fd);
    if (!wrong)
        return RFG_DISK_HIT;
    rfg_refuse(why, "%s", wrong);
    if (wrong == no_memory)
        return RFG_DISK_REFUSED;
    unlinkat(dir, name, 0);
    return RFG_DISK_DAMAGED;
}

void rfg_disk_delete(int dir, const char *key)
{
    char name[NAME_SIZE];
    unlinkat(dir, name_of(name, key, SUFFIX), 0);
}

uint64_t rfg_disk_write(int dir, const char *key, const struct rfg_blob *code)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static _Atomic uint64_t counter;
    struct header h = { .format = FORMAT, .header_size = sizeof(h), .size = code->size };
    char hex[65], name[NAME_SIZE], tmp[NAME_SIZE];
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(h.key, key, KEY_LEN);
    checksum(&h, code->data, hex);
    if (!*hex) {
        errno = ENOMEM;
        return 0;
    }
    memcpy(h.checksum, hex, KEY_LEN);
    name_of(name, key, SUFFIX);

    /* Names that differ are enough, in a directory where nobody else can put any. */
    uint64_t seed = (uint64_t)getpid() << 32 ^ (uint64_t)(rfg_now() * 1e9) ^ atomic_fetch_add(&counter, 1) << 20;
    int fd = -1;
    for (int tries = 0; fd < 0 && tries < 100 && (!tries || errno == EEXIST); tries++) {
        size_t len = strlen(name_of(tmp, key, TMP_SUFFIX));
        uint64_t r = rfg_random(&seed);
        for (int i = 0; i < TMP_RANDOM; i++, r /= 62)
            tmp[len++] = letters[r % 62];
        tmp[len] = 0;
        fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (fd < 0)
        return 0;
    bool ok = rfg_write_all(fd, &h, sizeof(h)) && rfg_write_all(fd, code->data, code->size);
    ok = close(fd) == 0 && ok;
    ok = ok && renameat(dir, tmp, dir, name) == 0;
    int err = errno;
    if (!ok)
        unlinkat(dir, tmp, 0);
    errno = err;
    return ok ? sizeof(h) + code->size : 0;
}

/* ---- one compile a key among processes ------------------------------------------------------------------------- */

/* The holder of a lock touches its file while it compiles: who waits can tell it from one that was stopped, and from
 * another program's lock. */
static void *beat(void *arg)
{
    struct rfg_disk_lock *lock = arg;
    pthread_mutex_lock(&lock->mutex);
    while (!lock->done) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(BEAT_SECONDS * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&lock->cond, &lock->mutex, &until) == ETIMEDOUT)
            futimens(lock->fd, NULL);
    }
    pthread_mutex_unlock(&lock->mutex);
    return NULL;
}

static void start_beating(struct rfg_disk_lock *lock)
{
    sigset_t all, before;
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->cond, NULL);
    sigfillset(&all); /* the host's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    lock->done = false;
    lock->beating = pthread_create(&lock->thread, NULL, beat, lock) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* flock() of an open file, by asking again and again: a wait in the kernel could not be ended. */
static enum rfg_disk_lock_result wait_for(int fd, double patience)
{
    double start = rfg_now(), alive = start, nap = 1e-3;
    struct timespec seen = { 0 };
    for (;;) {
        struct stat st;
        bool got = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if ((!got && errno != EWOULDBLOCK && errno != EINTR) || fstat(fd, &st))
            return RFG_DISK_NO_LOCK;
        if (!st.st_nlink) /* its holder deleted it when it was through */
            return RFG_DISK_FREED;
        if (got)
            return RFG_DISK_LOCKED;
        double now = rfg_now();
        if (st.st_mtim.tv_sec != seen.tv_sec || st.st_mtim.tv_nsec != seen.tv_nsec)
            alive = now;
        seen = st.st_mtim;
        if (now - alive > patience || now - start > WAIT_SECONDS)
            return RFG_DISK_SILENT;
        nanosleep(&(struct timespec){ .tv_nsec = (long)(nap * 1e9) }, NULL);
        nap = nap < 0.03 ? 2 * nap : nap;
    }
}

enum rfg_disk_lock_result rfg_disk_lock(struct rfg_disk_lock *lock, int dir, const char *key, double patience,
                                        struct rfg_reason *why)
{
    char name[NAME_SIZE];
    *lock = (struct rfg_disk_lock){ .fd = -1 };
    int fd = rfg_open_own_file(dir, name_of(name, key, LOCK_SUFFIX), O_RDWR | O_CREAT, why);
    if (fd < 0)
        return RFG_DISK_NO_LOCK;
    enum rfg_disk_lock_result r = wait_for(fd, patience);
    if (r != RFG_DISK_LOCKED) {
        if (r == RFG_DISK_NO_LOCK)
            rfg_refuse(why, "flock: %s", strerror(errno));
        close(fd);
        return r;
    }
    lock->fd = fd;
    start_beating(lock);
    return r;
}

void rfg_disk_unlock(struct rfg_disk_lock *lock, int dir, const char *key)
{
    char name[NAME_SIZE];
    if (lock->fd < 0)
        return;
    if (lock->beating) {
        pthread_mutex_lock(&lock->mutex);
        lock->done = true;
        pthread_cond_signal(&lock->cond);
        pthread_mutex_unlock(&lock->mutex);
        pthread_join(lock->thread, NULL);
    }
    pthread_cond_destroy(&lock->cond);
    pthread_mutex_destroy(&lock->mutex);
    unlinkat(dir, name_of(name, key, LOCK_SUFFIX), 0); /* while we hold it: see wait_for() */
    close(lock->fd);
    lock->fd = -1;
}

/* ---- the size bound -------------------------------------------------------------------------------------------- */

struct file {
    char *target, name[NAME_SIZE];
    uint64_t size;
    struct timespec used;
};

struct listing {
    struct file *files;
    size_t n;
    uint64_t total;
};

static int by_age(const void *a, const void *b)
{
    const struct timespec *x = &((const struct file *)a)->used, *y = &((const struct file *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* What follows the key in a name that begins with one; "" else, which is no suffix of ours. */
static const char *suffix_of(const char *name)
{
    return strspn(name, "0123456789abcdef") == KEY_LEN ? name + KEY_LEN : "";
}

static bool is_temporary(const char *suffix)
{
    size_t len = strlen(TMP_SUFFIX);
    if (strncmp(suffix, TMP_SUFFIX, len) || strlen(suffix) != len + TMP_RANDOM)
        return false;
    for (suffix += len; *suffix; suffix++)
        if (!(*suffix >= '0' && *suffix <= '9') && !(*suffix >= 'a' && *suffix <= 'z') &&
            !(*suffix >= 'A' && *suffix <= 'Z'))
            return false;
    return true;
}

/* A lock that nobody holds. */
static void remove_lock(int dir, const char *name)
{
    int fd = rfg_open_own_file(dir, name, O_RDWR, NULL);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dir, name, 0);
    if (fd >= 0)
        close(fd);
}

/* Adds the code objects of one target's directory; clears away what crashed processes left. */
static void list_target(struct listing *l, int cache, const char *target)
{
    int fd = rfg_open_own_subdir(cache, target, false, NULL);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !d)
        close(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        const char *suffix = suffix_of(e->d_name);
        if (!*suffix || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
            st.st_uid != geteuid())
            continue;
        if (strcmp(suffix, SUFFIX)) {
            bool stale = time(NULL) - st.st_mtime > STALE_SECONDS;
            if (stale && is_temporary(suffix))
                unlinkat(fd, e->d_name, 0);
            else if (stale && !strcmp(suffix, LOCK_SUFFIX))
                remove_lock(fd, e->d_name);
            continue;
        }
        if ((l->n & (l->n - 1)) == 0) { /* full at every power of two */
            struct file *more = realloc(l->files, (l->n ? l->n * 2 : 1) * sizeof(*more));
            if (!more)
                break;
            l->files = more;
        }
        struct file *f = &l->files[l->n];
        *f = (struct file){ .target = strdup(target), .size = (uint64_t)st.st_size, .used = st.st_mtim };
        if (!f->target)
            break;
        memcpy(f->name, e->d_name, strlen(e->d_name) + 1);
        l->n++;
        l->total += f->size;
    }
    if (d)
        closedir(d);
}

static bool delete_file(int cache, const struct file *f)
{
    int dir = rfg_open_own_subdir(cache, f->target, false, NULL);
    bool ok = dir >= 0 && unlinkat(dir, f->name, 0) == 0;
    if (dir >= 0)
        close(dir);
    return ok;
}

/* Several processes at once do no harm: a file deleted twice is deleted. */
uint64_t rfg_disk_evict(const char *cache_dir, uint64_t max_bytes, uint64_t *evicted)
{
    struct listing l = { 0 };
    size_t gone = 0;
    int cache = rfg_open_own_dir(cache_dir, false, NULL), fd = cache >= 0 ? dup(cache) : -1;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !d)
        close(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            list_target(&l, cache, e->d_name);
    if (d)
        closedir(d);
    if (l.total > max_bytes) {
        qsort(l.files, l.n, sizeof(*l.files), by_age);
        for (size_t i = 0; i < l.n && l.total > max_bytes / 10 * 9; i++) {
            gone += delete_file(cache, &l.files[i]);
            l.total -= l.files[i].size;
        }
        rfg_log(RFG_LOG_JIT, "cache over %llu MiB: %zu least recently used of %zu files deleted",
                (unsigned long long)(max_bytes >> 20), gone, l.n);
    }
    for (size_t i = 0; i < l.n; i++)
        free(l.files[i].target);
    free(l.files);
    if (cache >= 0)
        close(cache);
    *evicted = gone;
    return l.total;
}
