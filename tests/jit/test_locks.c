/* SPDX-License-Identifier: MIT
 *
 * Locks of the code cache that others hold, or leave behind. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trust_case.h"
#include "cache_case.h"

/* The lock of "kernel", in a directory that is there. */
static const char *lock_path(void)
{
    static char path[700];
    snprintf(path, sizeof(path), "%.*s.lock", (int)(strlen(file) - strlen(".rfgco")), file);
    get_fresh("another");
    return path;
}

static double seconds;

static void timed_get(void)
{
    double start = rfg_now();
    use_cache();
    seconds = rfg_now() - start;
}

/* Somebody else's flock, or our own process that was stopped: it compiles nothing, so it is not waited for. */
START_TEST(silent_holder_is_not_waited_for)
{
    const char *path = lock_path();
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    ck_assert_int_eq(warnings_of(timed_get, "code cache"), 1);
    ck_assert_ptr_nonnull(strstr(warned, "holds the lock"));
    ck_assert_msg(seconds > 2 && seconds < 6, "%g s", seconds);
    ck_assert_uint_eq(compiles(), 2);
    ck_assert_uint_eq(get_fresh("kernel").disk_hits, 1); /* it was stored all the same */
    /* The same cache is not as patient again. */
    struct rfg_cache *c = rfg_cache_open(dir, 0);
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(get(c, "kernel"), RFG_OK);
    ck_assert_int_eq(link(path, "/dev/null/x"), -1);
    struct rfg_jit_request req = request("more");
    char key[65], second[800];
    rfg_cache_key(&req, cache_provider, key);
    snprintf(second, sizeof(second), "%s/%s.lock", target, key);
    ck_assert_int_eq(link(path, second), 0);
    double start = rfg_now();
    ck_assert_int_eq(get(c, "more"), RFG_OK);
    ck_assert_double_lt(rfg_now() - start, 2.5);
    rfg_cache_close(&c);
    close(fd);
}
END_TEST

START_TEST(stopped_compiler_is_not_waited_for)
{
    pid_t pid = fork();
    if (pid == 0) {
        cache_hang = true;
        get_fresh("forever");
        _exit(0);
    }
    while (compiles() == 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    double start = rfg_now();
    ck_assert_uint_eq(get_fresh("forever").compiles, 1);
    ck_assert_double_lt(rfg_now() - start, 6);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
END_TEST

/* One that takes long is waited for: it gives signs of life. */
START_TEST(slow_compiler_is_waited_for)
{
    pid_t pid = fork();
    if (pid == 0) {
        get_fresh("long");
        _exit(0);
    }
    while (compiles() == 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    ck_assert_uint_eq(get_fresh("long").disk_hits, 1);
    ck_assert_uint_eq(compiles(), 1);
    waitpid(pid, NULL, 0);
}
END_TEST

/* Whoever waited for a compile that failed compiles at once, rather than after all the others. */
START_TEST(failed_compile_frees_those_that_wait)
{
    const char *path = lock_path();
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        timed_get();
        _exit(seconds < 1 ? 0 : 1);
    }
    nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    ck_assert_int_eq(unlink(path), 0); /* as a holder does that is through, and left nothing */
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(compiles(), 2);
    close(fd);
}
END_TEST

/* A holder that was killed between storing and unlocking leaves its lock behind: who gets it looks on the disk first.
 */
START_TEST(killed_after_storing)
{
    const char *path = lock_path();
    char aside[800];
    get_fresh("kernel");
    snprintf(aside, sizeof(aside), "%s.aside", file);
    ck_assert_int_eq(rename(file, aside), 0);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        _exit(get_fresh("kernel").disk_hits == 1 ? 0 : 1);
    }
    nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    ck_assert_int_eq(rename(aside, file), 0);
    close(fd);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(compiles(), 2); /* "another" and "kernel", once each */
}
END_TEST

START_TEST(odd_locks_do_not_hang)
{
    const char *path = lock_path();
    if (_i == 0)
        ck_assert_int_eq(mkfifo(path, 0600), 0);
    else if (_i == 1)
        ck_assert_int_eq(mkdir(path, 0700), 0);
    else
        ck_assert_int_eq(symlink(root, path), 0);
    timed_get();
    ck_assert_double_lt(seconds, 1);
    ck_assert_uint_eq(compiles(), 2);
    ck_assert_uint_eq(get_fresh("kernel").disk_hits, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("locks");
    TCase *tc = test_case(s, "locks", setup, cache_teardown);
    tcase_set_timeout(tc, 30);
    ADD_TESTS(tc, silent_holder_is_not_waited_for, stopped_compiler_is_not_waited_for, slow_compiler_is_waited_for,
              failed_compile_frees_those_that_wait, killed_after_storing);
    ADD_LOOPS(tc, 3, odd_locks_do_not_hang);
    return run_suite(s);
}
