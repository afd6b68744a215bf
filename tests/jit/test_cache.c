/* SPDX-License-Identifier: MIT
 *
 * The code cache, with a compiler of the test's own that counts how often it is called, across processes too. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "cache_case.h"
#include "tests/suite.h"

static int files_in(const char *path, const char *suffix, uint64_t *bytes)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        size_t len = strlen(e->d_name), tail = strlen(suffix);
        if (e->d_name[0] == '.' || len < tail || strcmp(e->d_name + len - tail, suffix))
            continue;
        fstatat(dirfd(d), e->d_name, &st, 0);
        n++;
        if (bytes)
            *bytes += (uint64_t)st.st_size;
    }
    if (d)
        closedir(d);
    return n;
}

/* ---- hits and keys ------------------------------------------------------------------------------------------ */

START_TEST(memory_then_disk)
{
    struct rfg_cache *c = rfg_cache_open(dir, 0);
    struct rfg_cache_stats s;
    const struct rfg_blob *first, *second;
    struct rfg_jit_request req = request("kernel");
    ck_assert_int_eq(rfg_cache_get(c, &req, NULL, NULL, &first), RFG_OK);
    ck_assert_int_eq(rfg_cache_get(c, &req, NULL, NULL, &second), RFG_OK);
    ck_assert_ptr_eq(first, second);
    rfg_cache_get_stats(c, &s);
    ck_assert_uint_eq(s.misses, 1);
    ck_assert_uint_eq(s.compiles, 1);
    ck_assert_uint_eq(s.memory_hits, 1);
    rfg_cache_close(&c);
    s = get_fresh("kernel"); /* a second run: no compiler call */
    ck_assert_uint_eq(s.disk_hits, 1);
    ck_assert_uint_eq(s.misses, 0);
    ck_assert_uint_eq(s.compiles, 0);
    ck_assert_uint_eq(compiles(), 1);
    char path[600];
    snprintf(path, sizeof(path), "%s/test1", dir);
    ck_assert_int_eq(files_in(path, "", NULL), 1); /* no lock and no temporary file is left */
}
END_TEST

START_TEST(memory_only)
{
    for (int i = 0; i < 2; i++) {
        struct rfg_cache *c = rfg_cache_open("", 0);
        ck_assert_int_eq(get(c, "kernel"), RFG_OK);
        ck_assert_int_eq(get(c, "kernel"), RFG_OK);
        rfg_cache_close(&c);
    }
    ck_assert_uint_eq(compiles(), 2);
    ck_assert_int_ne(access(dir, F_OK), 0);
}
END_TEST

START_TEST(default_directories)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/xdg", root);
    unsetenv("RFG_CACHE_DIR");
    setenv("XDG_CACHE_HOME", path, 1);
    struct rfg_cache *c = rfg_cache_open(NULL, 0);
    ck_assert_int_eq(get(c, "kernel"), RFG_OK);
    rfg_cache_close(&c);
    strcat(path, "/rfg/test1");
    ck_assert_int_eq(files_in(path, ".rfgco", NULL), 1);
    setenv("RFG_CACHE_DIR", dir, 1);
    c = rfg_cache_open(NULL, 0);
    ck_assert_int_eq(get(c, "kernel"), RFG_OK);
    rfg_cache_close(&c);
    snprintf(path, sizeof(path), "%s/test1", dir);
    ck_assert_int_eq(files_in(path, ".rfgco", NULL), 1);
}
END_TEST

/* Everything that decides the code object changes the key; what doesn't, doesn't. */
START_TEST(key_parts)
{
    struct rfg_jit_request req = request("kernel");
    char key[65], other[65];
    rfg_cache_key(&req, cache_provider, key);
    ck_assert_uint_eq(strlen(key), 64);
    struct rfg_jit_request named = req;
    named.name = "another{a=2}";
    rfg_cache_key(&named, cache_provider, other);
    ck_assert_str_eq(key, other);
    struct rfg_jit_request source = req, target = req;
    source.source = "kerne1";
    rfg_cache_key(&source, cache_provider, other);
    ck_assert_str_ne(key, other);
    target.target = "test2";
    rfg_cache_key(&target, cache_provider, other);
    ck_assert_str_ne(key, other);
    cache_version = "fake 1.1";
    rfg_cache_key(&req, cache_provider, other);
    ck_assert_str_ne(key, other);
    cache_version = "fake 1.0";
    cache_options[0] = "-O2";
    rfg_cache_key(&req, cache_provider, other);
    ck_assert_str_ne(key, other);
    cache_options[0] = "-O3";
    struct rfg_jit_provider renamed = *cache_provider;
    renamed.name = "faker";
    rfg_cache_key(&req, &renamed, other);
    ck_assert_str_ne(key, other);
}
END_TEST

/* ---- damage ------------------------------------------------------------------------------------------------- */

static const struct damage {
    const char *name;
    long cut;  /* >= 0: truncate to that many bytes */
    long flip; /* >= 0: invert the byte there; < -1: counted from the end */
    bool append, swap;
} damages[] = {
    { "empty", 0, -1 },
    { "half a header", 40, -1 },
    { "no payload", 152, -1 },
    { "truncated", 200, -1 },
    { "wrong magic", -1, 0 },
    { "another format", -1, 8 },
    { "size", -1, 16 },
    { "key", -1, 30 },
    { "checksum", -1, 100 },
    { "payload", -1, -2 },
    { "first payload byte", -1, 152 },
    { "trailing bytes", -1, -1, .append = true },
    { "another key's file", -1, -1, .swap = true },
};

START_TEST(damaged_file_is_a_miss)
{
    const struct damage *d = &damages[_i];
    get_fresh("kernel");
    get_fresh("other0");
    char *path = file_of("kernel"), *other = file_of("other0");
    size_t size;
    char *bytes = rfg_read_file(path, &size);
    ck_assert_ptr_nonnull(bytes);
    if (d->flip != -1)
        bytes[d->flip >= 0 ? (size_t)d->flip : size + 1 - (size_t)-d->flip] ^= 0xff;
    FILE *f = fopen(path, "wb");
    fwrite(bytes, 1, d->cut >= 0 ? (size_t)d->cut : size, f);
    if (d->append)
        fputs("more", f);
    fclose(f);
    free(bytes);
    if (d->swap)
        ck_assert_int_eq(rename(other, path), 0);
    struct rfg_cache_stats s = get_fresh("kernel"); /* its content is compared */
    ck_assert_msg(s.corrupt == 1 && s.misses == 1 && s.compiles == 1 && s.disk_hits == 0, "%s: %d %d %d", d->name,
                  (int)s.corrupt, (int)s.misses, (int)s.disk_hits);
    s = get_fresh("kernel"); /* and it was put right */
    ck_assert_msg(s.disk_hits == 1 && s.corrupt == 0, "%s", d->name);
    free(path);
    free(other);
}
END_TEST

static void use_three(void)
{
    struct rfg_cache *c = rfg_cache_open(dir, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(get(c, "a"), RFG_OK);
        ck_assert_int_eq(get(c, "b"), RFG_OK);
    }
    rfg_cache_close(&c);
}

START_TEST(directory_cannot_be_made)
{
    FILE *f = fopen(dir, "w"); /* a file in its place: root can't write there either */
    fclose(f);
    ck_assert_int_eq(warnings_of(use_three, "code cache"), 1);
    ck_assert_uint_eq(compiles(), 2);
    strcpy(dir, "/proc/rfg/cache");
    ck_assert_int_eq(warnings_of(use_three, "code cache"), 1);
    ck_assert_uint_eq(compiles(), 4);
}
END_TEST

START_TEST(target_directory_cannot_be_made)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/test1", dir);
    ck_assert(rfg_mkdirs(dir));
    fclose(fopen(path, "w"));
    ck_assert_int_eq(warnings_of(use_three, "code cache"), 1);
    ck_assert_uint_eq(compiles(), 2);
}
END_TEST

static void lose_directory(void)
{
    struct rfg_cache *c = rfg_cache_open(dir, 0);
    ck_assert_int_eq(get(c, "a"), RFG_OK);
    rfg_remove_tree(dir);
    ck_assert_int_eq(get(c, "a"), RFG_OK);
    ck_assert_int_eq(get(c, "b"), RFG_OK);
    rfg_cache_close(&c);
}

/* Deleting the directory under a running program is a way to clear the cache. */
START_TEST(directory_deleted_meanwhile)
{
    ck_assert_int_eq(warnings_of(lose_directory, "code cache"), 0);
    ck_assert_uint_eq(compiles(), 2);
    ck_assert_uint_eq(get_fresh("b").disk_hits, 1);
}
END_TEST

/* ---- the size bound ----------------------------------------------------------------------------------------- */

static void set_age(const char *source, int seconds)
{
    char *path = file_of(source);
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= seconds;
    times[0] = times[1] = now;
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

static bool on_disk(const char *source)
{
    char *path = file_of(source);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

START_TEST(least_recently_used_goes)
{
    static char sources[20][1001];
    char path[600];
    snprintf(path, sizeof(path), "%s/test1", dir);
    for (int i = 0; i < 20; i++)
        snprintf(sources[i], sizeof(sources[i]), "%01000d", i);
    for (int i = 0; i < 10; i++) { /* 16 KB each; the first is the oldest */
        get_fresh(sources[i]);
        set_age(sources[i], 1000 - i);
    }
    get_fresh(sources[0]); /* used again: the youngest now */
    uint64_t bound = 10 * 16500, bytes = 0;
    struct rfg_cache *c = rfg_cache_open(dir, bound);
    ck_assert_int_eq(get(c, sources[10]), RFG_OK);
    ck_assert_int_eq(get(c, sources[11]), RFG_OK);
    struct rfg_cache_stats s;
    rfg_cache_get_stats(c, &s);
    files_in(path, ".rfgco", &bytes);
    ck_assert_uint_le(bytes, bound);
    ck_assert_uint_ge(bytes, bound / 2);
    ck_assert_uint_ge(s.evicted, 2);
    ck_assert(on_disk(sources[0]));
    ck_assert(!on_disk(sources[1]));
    ck_assert(!on_disk(sources[2]));
    ck_assert(on_disk(sources[9]));
    ck_assert(on_disk(sources[11]));
    ck_assert_int_eq(get(c, sources[10]), RFG_OK); /* memory has it all the same */
    for (int i = 12; i < 20; i++) {
        ck_assert_int_eq(get(c, sources[i]), RFG_OK);
        bytes = 0;
        files_in(path, ".rfgco", &bytes);
        ck_assert_uint_le(bytes, bound);
    }
    rfg_cache_close(&c);
}
END_TEST

START_TEST(what_crashed_processes_left_goes)
{
    char stale[700], fresh[700];
    get_fresh("a");
    snprintf(stale, sizeof(stale), "%s/test1/%064d.rfgco.tmp-abcdef", dir, 0);
    snprintf(fresh, sizeof(fresh), "%s/test1/%064d.rfgco.tmp-abcdef", dir, 1);
    fclose(fopen(stale, "w"));
    fclose(fopen(fresh, "w"));
    struct timespec old[2] = { { time(NULL) - 7200, 0 }, { time(NULL) - 7200, 0 } };
    utimensat(AT_FDCWD, stale, old, 0);
    get_fresh("b");
    ck_assert_int_ne(access(stale, F_OK), 0);
    ck_assert_int_eq(access(fresh, F_OK), 0);
}
END_TEST

/* ---- threads and processes ---------------------------------------------------------------------------------- */

#define N 8

struct thread {
    pthread_t id;
    struct rfg_cache *cache;
    pthread_barrier_t *barrier;
    const char *const *sources; /* NULL-terminated */
    int start;
    rfg_status status;
    char error[200];
};

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    int n = 0;
    while (t->sources[n])
        n++;
    pthread_barrier_wait(t->barrier);
    for (int i = 0; i < n && t->status == RFG_OK; i++)
        t->status = get(t->cache, t->sources[(t->start + i) % n]);
    if (t->status)
        snprintf(t->error, sizeof(t->error), "%s", rfg_last_error());
    return NULL;
}

static void run_threads(struct rfg_cache *c, const char *const *sources, struct thread threads[N])
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, N);
    for (int i = 0; i < N; i++) {
        threads[i] = (struct thread){ .cache = c, .barrier = &barrier, .sources = sources, .start = i };
        ck_assert_int_eq(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
    }
    for (int i = 0; i < N; i++)
        pthread_join(threads[i].id, NULL);
    pthread_barrier_destroy(&barrier);
}

static const char *const one_key[] = { "slow", NULL };
static const char *const four_keys[] = { "slow1", "slow2", "slow3", "slow4", NULL };
static const char *const bad_key[] = { "slow bad", NULL };

START_TEST(threads_compile_once)
{
    struct thread threads[N];
    struct rfg_cache *c = rfg_cache_open(_i ? dir : "", 0);
    run_threads(c, one_key, threads);
    ck_assert_uint_eq(compiles(), 1);
    run_threads(c, four_keys, threads);
    ck_assert_uint_eq(compiles(), 5);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(threads[i].status, RFG_OK);
    struct rfg_cache_stats s;
    rfg_cache_get_stats(c, &s);
    ck_assert_uint_eq(s.memory_hits, 5 * (N - 1));
    rfg_cache_close(&c);
}
END_TEST

START_TEST(processes_compile_once)
{
    const char *const *sources = _i ? four_keys : one_key;
    for (int i = 0; i < N; i++)
        if (fork() == 0) {
            struct thread threads[N];
            struct rfg_cache *c = rfg_cache_open(dir, 0);
            bool ok = true;
            if (_i == 0) {
                ok = get(c, sources[0]) == RFG_OK;
            } else {
                run_threads(c, sources, threads);
                for (int t = 0; t < N; t++)
                    ok = ok && threads[t].status == RFG_OK;
            }
            rfg_cache_close(&c);
            _exit(!ok);
        }
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_uint_eq(compiles(), _i ? 4 : 1);
}
END_TEST

/* Many processes that begin at one moment, a few kernels: as the ranks of a job on a fresh machine. The bar is 512:
 * RFG_TEST_CONTENDERS=512 CK_RUN_CASE=contenders build/tests/test-cache */
START_TEST(many_contenders_one_compile)
{
    const char *wanted = rfg_env("RFG_TEST_CONTENDERS");
    int n = wanted ? atoi(wanted) : 64, bad = 0, go[2];
    char path[600];
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(pipe(go), 0);
    double start = rfg_now();
    for (int i = 0; i < n; i++)
        if (fork() == 0) {
            char c;
            close(go[1]);
            (void)!read(go[0], &c, 1); /* until the parent closes its end */
            struct rfg_cache *cache = rfg_cache_open(dir, 0);
            bool ok = true;
            for (int k = 0; k < 4; k++)
                ok = ok && get(cache, four_keys[(i + k) % 4]) == RFG_OK;
            _exit(!ok);
        }
    close(go[1]);
    for (int i = 0; i < n; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        bad += status != 0;
    }
    if (wanted)
        printf("%d contenders, 4 keys: %zu compiles in %.2f s, %d failed\n", n, compiles(), rfg_now() - start, bad);
    ck_assert_int_eq(bad, 0);
    ck_assert_uint_eq(compiles(), 4);
    snprintf(path, sizeof(path), "%s/test1", dir);
    ck_assert_int_eq(files_in(path, "", NULL), 4);
}
END_TEST

START_TEST(failures_are_told_to_all_and_not_kept)
{
    struct thread threads[N];
    struct rfg_cache *c = rfg_cache_open(dir, 0);
    run_threads(c, bad_key, threads);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(threads[i].status, RFG_ERROR_COMPILE);
        ck_assert_str_eq(threads[i].error, "v{a=1}: error: bad");
    }
    ck_assert_uint_eq(compiles(), 1); /* those that waited share the answer */
    ck_assert_int_eq(get(c, bad_key[0]), RFG_ERROR_COMPILE);
    ck_assert_uint_eq(compiles(), 2);
    char path[600];
    snprintf(path, sizeof(path), "%s/test1", dir);
    ck_assert_int_eq(files_in(path, "", NULL), 0);
    rfg_cache_close(&c);
}
END_TEST

/* A process that dies in the midst of a compile takes its lock along. */
START_TEST(killed_while_compiling)
{
    pid_t pid = fork();
    if (pid == 0) {
        cache_hang = true;
        struct rfg_cache *c = rfg_cache_open(dir, 0);
        (void)!get(c, "forever");
        _exit(0);
    }
    while (compiles() == 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert_uint_eq(get_fresh("forever").compiles, 1);
    ck_assert_uint_eq(get_fresh("forever").disk_hits, 1);
    char path[600];
    snprintf(path, sizeof(path), "%s/test1", dir);
    ck_assert_int_eq(files_in(path, "", NULL), 1);
}
END_TEST

START_TEST(no_compiler)
{
    struct rfg_cache *c = rfg_cache_open(dir, 0);
    struct rfg_jit_request req = request("kernel");
    const struct rfg_blob *code;
    req.target = "gfx0000";
    ck_assert_int_eq(rfg_cache_get(c, &req, NULL, NULL, &code), RFG_ERROR_COMPILE);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "gfx0000"));
    rfg_cache_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cache");
    TCase *tc = test_case(s, "cache", cache_setup, cache_teardown);
    tcase_set_timeout(tc, 30);
    ADD_TESTS(tc, memory_then_disk, memory_only, default_directories, key_parts, directory_cannot_be_made,
              target_directory_cannot_be_made, directory_deleted_meanwhile, least_recently_used_goes,
              what_crashed_processes_left_goes, failures_are_told_to_all_and_not_kept, killed_while_compiling,
              no_compiler);
    ADD_LOOPS(tc, sizeof(damages) / sizeof(damages[0]), damaged_file_is_a_miss);
    ADD_LOOPS(tc, 2, threads_compile_once, processes_compile_once);
    tc = test_case(s, "contenders", cache_setup, cache_teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, many_contenders_one_compile);
    return run_suite(s);
}
