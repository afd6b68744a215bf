/* SPDX-License-Identifier: MIT
 *
 * The log: topics, the callback that takes its lines, threads and forks beside it. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_case.h"
#include "dispatch/context.h"
#include "tests/program.h"
#include "tests/suite.h"

struct said {
    int n[RFG_LOG_WARNING + 1], inside, most;
    char last[RFG_LOG_WARNING + 1][1200];
};

/* Counts as what is not atomic does: two calls at once would be seen. */
static void listen(void *user, rfg_log_topic topic, const char *line)
{
    struct said *s = user;
    s->inside++;
    s->most = s->inside > s->most ? s->inside : s->most;
    s->n[topic]++;
    snprintf(s->last[topic], sizeof(s->last[topic]), "%s", line);
    s->inside--;
}

static const char *said_to_stderr(void)
{
    static char text[5000];
    fflush(stderr);
    FILE *f = fopen("said", "r");
    text[f ? fread(text, 1, sizeof(text) - 1, f) : 0] = 0;
    if (f)
        fclose(f);
    return text;
}

START_TEST(log_callback)
{
    static struct said s, other;
    unsetenv("RFG_LOG");
    ck_assert_ptr_nonnull(freopen("said", "w", stderr));
    rfg_set_log_callback(listen, &s, RFG_LOG_DISPATCH | RFG_LOG_CALLS);
    open_device("cpu");
    set_w();
    set_x(0x40);
    OK(gemm(stream));
    ck_assert_int_gt(s.n[RFG_LOG_DISPATCH], 0);
    ck_assert_int_eq(s.n[RFG_LOG_CALLS], 1);
    ck_assert_str_eq(s.last[RFG_LOG_CALLS], PROBLEM);
    ck_assert_int_eq(s.n[RFG_LOG_JIT] + s.n[RFG_LOG_WARNING], 0);
    rfg_warn("a %s\n\x1b of %d", "warning", 7);
    ck_assert_int_eq(s.n[RFG_LOG_WARNING], 1);
    ck_assert_str_eq(s.last[RFG_LOG_WARNING], "a warning\\n\\x1b of 7");
    ck_assert_str_eq(said_to_stderr(), "");
    /* Another one, who wants less. */
    rfg_set_log_callback(listen, &other, 0);
    OK(gemm(stream));
    rfg_warn("to the other");
    ck_assert_int_eq(other.n[RFG_LOG_DISPATCH] + other.n[RFG_LOG_CALLS], 0);
    ck_assert_int_eq(other.n[RFG_LOG_WARNING], 1);
    ck_assert_int_eq(s.n[RFG_LOG_WARNING], 1);
    /* None. */
    rfg_set_log_callback(NULL, NULL, RFG_LOG_CALLS);
    OK(gemm(stream));
    rfg_warn("to stderr");
    ck_assert_int_eq(other.n[RFG_LOG_WARNING], 1);
    ck_assert_str_eq(said_to_stderr(), "rfg: warning: to stderr\n");
    close_device();
}
END_TEST

/* $RFG_LOG names topics besides those that are asked for; a word of it that is none is a warning as others are. */
START_TEST(log_topics_of_both)
{
    static struct said s;
    setenv("RFG_LOG", "calls,nonsense", 1);
    rfg_set_log_callback(listen, &s, RFG_LOG_DISPATCH);
    PRINTS(s.last[RFG_LOG_WARNING], "'nonsense'");
    open_device("cpu");
    OK(gemm(stream));
    ck_assert_int_gt(s.n[RFG_LOG_DISPATCH], 0);
    ck_assert_int_eq(s.n[RFG_LOG_CALLS], 1);
    rfg_set_log_callback(NULL, NULL, 0);
    close_device();
}
END_TEST

static atomic_bool enough;

static void *chatters(void *arg)
{
    char problem[100];
    for (int m = 1; !atomic_load(&enough); m++)
        if (arg) {
            rfg_log(RFG_LOG_JIT, "a line");
        } else { /* the ladder's, said under a context's lock */
            snprintf(problem, sizeof(problem), "gemm f32,f32->f32 M=%d N=4 K=4", m % 3000 + 1);
            (void)!rfg_prepare(ctx, problem);
        }
    return NULL;
}

/* Many threads have something to say while one listener takes the place of another, and the process forks. */
START_TEST(log_threads)
{
    static struct said s[2];
    pthread_t thread[3];
    open_device("cpu");
    rfg_set_log_callback(listen, &s[0], RFG_LOG_JIT | RFG_LOG_DISPATCH);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, chatters, i ? &thread : NULL);
    for (int i = 1; i < 200; i++) {
        rfg_set_log_callback(listen, &s[i & 1], RFG_LOG_JIT | RFG_LOG_DISPATCH);
        int n = s[~i & 1].n[RFG_LOG_JIT]; /* nobody calls it now */
        usleep(100);
        ck_assert_int_eq(s[~i & 1].n[RFG_LOG_JIT], n);
    }
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        if (!pid) {
            alarm(10);
            rfg_log(RFG_LOG_JIT, "the child's");
            rfg_set_log_callback(NULL, NULL, 0);
            _exit(0);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status), "a child hangs");
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    rfg_set_log_callback(NULL, NULL, 0);
    ck_assert(s[0].n[RFG_LOG_JIT] > 0 && s[1].n[RFG_LOG_JIT] > 0);
    ck_assert(s[0].most == 1 && s[1].most == 1 && !s[0].inside && !s[1].inside);
    close_device();
}
END_TEST

static sem_t say, said;
static atomic_int logged = -1;

static void *says_once(void *arg)
{
    (void)arg;
    sem_wait(&say);
    rfg_warn("while another thread forks");
    sem_post(&said);
    return NULL;
}

/* fork() calls first what was registered last: this after the contexts', before the log's. */
static void before_fork(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    sem_post(&say);
    logged = !sem_timedwait(&said, &until);
}

/* Threads log under the contexts' locks, so a fork that waits for those must not hold the log's yet. */
START_TEST(log_lock_is_the_last_of_a_fork)
{
    static struct said s;
    pthread_t thread;
    sem_init(&say, 0, 0);
    sem_init(&said, 0, 0);
    open_device("cpu");
    ck_assert_int_eq(pthread_atfork(before_fork, NULL, NULL), 0);
    rfg_set_log_callback(listen, &s, 0);
    pthread_create(&thread, NULL, says_once, NULL);
    pid_t pid = fork();
    if (!pid)
        _exit(0);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(logged, 1);
    pthread_join(thread, NULL);
    rfg_set_log_callback(NULL, NULL, 0);
    ck_assert_int_eq(s.n[RFG_LOG_WARNING], 1);
    close_device();
}
END_TEST

int main(void)
{
    Suite *su = suite_create("log");
    TCase *tc = tcase_create("log");
    tcase_add_unchecked_fixture(tc, program_setup, program_teardown); /* one cache for all */
    tcase_set_timeout(tc, 60);
    ADD_TESTS(tc, log_callback, log_topics_of_both, log_threads);
    suite_add_tcase(su, tc);
    tc = tcase_create("fork");
    tcase_add_unchecked_fixture(tc, program_setup, program_teardown);
    ADD_TESTS(tc, log_lock_is_the_last_of_a_fork);
    tcase_set_timeout(tc, 30);
    suite_add_tcase(su, tc);
    return run_suite(su);
}
