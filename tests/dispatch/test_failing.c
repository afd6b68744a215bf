/* SPDX-License-Identifier: MIT
 *
 * Calls of the C library fail, at each place of the library that makes them, alone and with all that follow. What the
 * library was asked to do is done or is an error that says why; files are as before or as they should be; nothing
 * leaks, and the next time it works. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "failing.h"
#include "failing_scenes.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

static char where[200], warned[1000];

static void hear(void *user, rfg_log_topic topic, const char *line)
{
    (void)user;
    if (topic == RFG_LOG_WARNING)
        snprintf(warned, sizeof(warned), "%s", line);
}

/* ---- what a play leaves ------------------------------------------------------------------------------------------ */

/* The names in a directory and below, but what a database that wasn't closed well has beside it; -1: there is none. */
static int names_in(const char *path, char *names, size_t size)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char below[600];
        struct stat st;
        if (e->d_name[0] == '.' || strstr(e->d_name, "-wal") || strstr(e->d_name, "-shm"))
            continue;
        snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
        snprintf(names + strlen(names), size - strlen(names), " %s", below);
        n++;
        if (lstat(below, &st) == 0 && S_ISDIR(st.st_mode))
            n += names_in(below, names, size);
    }
    if (d)
        closedir(d);
    return n;
}

static int descriptors(void)
{
    char names[8192] = "";
    return names_in("/proc/self/fd", names, sizeof(names));
}

/* Does a file hold one of two texts? */
static void expect_one_of(const char *path, const char *before, size_t n_before, const char *after, size_t n_after)
{
    size_t n = 0;
    char *now = rfg_read_file(path, &n);
    ck_assert_msg(now && ((n == n_before && !memcmp(now, before, n)) || (n == n_after && !memcmp(now, after, n))),
                  "%s: %s is neither what it was nor what it should be: %s", where, path, now ? now : "not there");
    free(now);
}

/* ---- a play ------------------------------------------------------------------------------------------------------ */

static struct {
    char *text[3];
    size_t size[3];
    char names[16384];
} whole; /* what a play without a failure leaves */

static bool says_why(const char *message)
{
    /* In words of ours, or of SQLite. */
    static const char *const words[] = { "no memory",       "out of memory",           "no such memory",
                                         "cannot read",     "disk I/O error",          "disk is full",
                                         "malformed",       "unable to open database", "locking protocol",
                                         "attempt to write" };
    bool says = failing_is_told(message);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        says |= strstr(message, words[i]) != NULL;
    return says;
}

/* Blocks that it left behind. */
static long play(const struct scene *s, enum failing_how how, long n)
{
    char *before[3] = { NULL }, names[sizeof(whole.names)] = "";
    size_t size[3] = { 0 };
    snprintf(where, sizeof(where), "%s, call %ld%s", s->name, n, how == FAILING_LATER ? " and all later" : "");
    if (s->before)
        s->before();
    for (int i = 0; i < 3 && s->files[i]; i++)
        before[i] = rfg_read_file(s->files[i], &size[i]);
    int open = descriptors();
    long blocks = failing_blocks();
    wrong = NULL;
    failing_begin(how, n);
    rfg_status st = s->run();
    failing_end();
    blocks = failing_blocks() - blocks;
    const char *name = failing_name() ? failing_name() : "";
    snprintf(where + strlen(where), sizeof(where) - strlen(where), " (%s)", name);
    ck_assert_msg(st == RFG_OK || *name, "%s fails by itself: %s", where, rfg_last_error());
    ck_assert_msg(st == RFG_OK || says_why(rfg_last_error()), "%s: %s does not say why: %s", where, rfg_status_name(st),
                  rfg_last_error());
    ck_assert_msg(!wrong, "%s: %s", where, wrong);
    ck_assert_msg(descriptors() == open, "%s: %d descriptors leak", where, descriptors() - open);
    ck_assert_msg(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "%s: a child is left", where);
    (void)names_in(".", names, sizeof(names));
    for (char *rest = names, *one; *whole.names && (one = strtok_r(rest, " ", &rest));)
        if (!strstr(whole.names, one)) {
            ck_assert_msg(strstr(one, ".lock") || strstr(one, ".corrupt-") || failing_harmless(), "%s: %s is left",
                          where, one);
            rfg_remove_tree(one);
        }
    for (int i = 0; i < 3 && s->files[i]; i++) {
        if (how == FAILING_NONE) {
            free(whole.text[i]);
            whole.text[i] = rfg_read_file(s->files[i], &whole.size[i]);
        }
        expect_one_of(s->files[i], st ? before[i] : whole.text[i], st ? size[i] : whole.size[i], whole.text[i],
                      whole.size[i]);
        free(before[i]);
    }
    const char *bad = s->after ? s->after(st) : NULL;
    ck_assert_msg(!bad, "%s: %s", where, bad);
    if (st) {
        if (s->before)
            s->before();
        st = s->run();
        ck_assert_msg(st == RFG_OK && !wrong, "%s: the second time: %s", where, wrong ? wrong : rfg_last_error());
    }
    return blocks;
}

START_TEST(each_call_fails)
{
    const struct scene *s = &scenes[_i];
    int played = 0;
    long n;
    *whole.names = 0;
    for (int warm = 0; warm < 3; warm++)
        (void)play(s, FAILING_NONE, 0);
    (void)names_in(".", whole.names, sizeof(whole.names));
    ck_assert_msg(!strstr(whole.names, ".tmp") && !strstr(whole.names, ".lock"), "left: %s", whole.names);
    ck_assert_int_eq(play(s, FAILING_NONE, 0), 0);
    long all = failing_end();
    for (; (n = failing_place(played)); played++)
        for (int how = FAILING_ONE; how <= FAILING_LATER;
             how++) /* what is made once, when an error is first told, is no leak */
            ck_assert_msg(play(s, how, n) <= 0 || play(s, how, n) <= 0, "%s: %ld blocks leak", where, play(s, how, n));
    printf("%s: %d of %ld calls\n", s->name, played, all);
}
END_TEST

/* Parts, and interruptions, are no failures. */
START_TEST(interrupted_calls_go_on)
{
    const struct scene *s = &scenes[_i];
    (void)play(s, FAILING_NONE, 0);
    *warned = 0;
    ck_assert_int_eq(play(s, FAILING_INTERRUPTED, 0), 0);
    ck_assert_msg(!*warned || s->warns, "%s: %s", s->name, warned);
}
END_TEST

static void setup(void)
{
    program_setup();
    rfg_set_log_callback(hear, NULL, RFG_LOG_DISPATCH | RFG_LOG_JIT);
    scenes_setup();
}

int main(void)
{
    failing_sqlite();
    Suite *su = suite_create("failing");
    TCase *tc = test_case(su, "failing", setup, program_teardown);
    tcase_set_timeout(tc, 240);
    ADD_LOOPS(tc, n_scenes, each_call_fails);
    tc = test_case(su, "interrupted", setup, program_teardown);
    ADD_LOOPS(tc, n_scenes, interrupted_calls_go_on);
    return run_suite(su);
}
