/* SPDX-License-Identifier: MIT
 *
 * First calls of several threads: a compile doesn't delay calls of other problems, and calls of the same problem wait
 * for it. On a mock gfx90a; a compile lasts until the test lets it continue. */
#include <pthread.h>
#include <time.h>

#include "base/tempdir.h"
#include "dispatch/context.h"
#include "dispatch/jit/jit_internal.h"
#include "fakehip.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

#define FIRST  "gemm bf16,bf16->f32 M=3 N=40 K=64"
#define LIKE   "gemm bf16,bf16->f32 M=5 N=80 K=64" /* of the same code */
#define SECOND "gemm f16,f16->f32 M=3 N=40 K=64"
#define SOON   10 /* seconds */

static struct rfg_tempdir tmp;
static struct rfg_jit_provider slow; /* hipRTC, which compiles while the gate is open */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool open_gate;
static int inside, refusals; /* compiles that wait at the gate; so many fail when it is opened */

static rfg_status compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    pthread_mutex_lock(&lock);
    inside++;
    pthread_cond_broadcast(&changed);
    while (!open_gate)
        pthread_cond_wait(&changed, &lock);
    inside--;
    bool refuse = refusals > 0 && refusals--;
    pthread_mutex_unlock(&lock);
    return refuse ? rfg_fail(RFG_ERROR_COMPILE, "refused") : rfg_jit_hiprtc.compile(req, code, log);
}

static struct timespec in_seconds(double s)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)s;
    t.tv_nsec += (long)((s - (double)(time_t)s) * 1e9);
    return (struct timespec){ t.tv_sec + t.tv_nsec / 1000000000, t.tv_nsec % 1000000000 };
}

/* Have so many compiles come to the gate, within that time? */
static bool come(int n, double seconds)
{
    struct timespec until = in_seconds(seconds);
    int e = 0;
    pthread_mutex_lock(&lock);
    while (inside < n && !e)
        e = pthread_cond_timedwait(&changed, &lock, &until);
    bool ok = inside >= n;
    pthread_mutex_unlock(&lock);
    return ok;
}

static void set_gate(bool open)
{
    pthread_mutex_lock(&lock);
    open_gate = open;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void setup(void)
{
    program_setup();
    rfg_hip_override(RFG_PLATFORM_AMD, fakehip());
    slow = rfg_jit_hiprtc;
    slow.compile = compile;
    rfg_jit_extra_provider = &slow;
    setenv("RFG_VENDOR", "0", 1);
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    open_gate = true;
    inside = refusals = 0;
}

static void teardown(void)
{
    rfg_jit_extra_provider = NULL;
    rfg_tempdir_remove(&tmp);
    program_teardown();
}

static rfg_context *open_ctx(void)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p),
                             .device = "amd:0",
                             .user_db = "",
                             .system_db = "",
                             .cache_dir = tmp.path,
                             .variants = "gemm_portable" };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    return ctx;
}

/* A thread that prepares a problem. */
struct call {
    rfg_context *ctx;
    const char *problem;
    pthread_t thread;
    rfg_status st;
    char error[300];
};

static void *prepare(void *arg)
{
    struct call *c = arg;
    c->st = rfg_prepare(c->ctx, c->problem);
    strncat(c->error, c->st ? rfg_last_error() : "", sizeof(c->error) - 1);
    return NULL;
}

static struct call *begin(struct call *c)
{
    ck_assert_int_eq(pthread_create(&c->thread, NULL, prepare, c), 0);
    return c;
}

static bool ends_within(struct call *c, double seconds)
{
    struct timespec until = in_seconds(seconds);
    return pthread_timedjoin_np(c->thread, NULL, &until) == 0;
}

static rfg_stats stats(rfg_context *ctx)
{
    rfg_stats s = RFG_STATS_INIT;
    rfg_context_stats(ctx, &s);
    return s;
}

/* What is compiled already, here or by an earlier context, doesn't wait for another problem's compile. */
START_TEST(a_compile_keeps_nobody)
{
    rfg_context *ctx = open_ctx();
    ck_assert_msg(rfg_prepare(ctx, SECOND) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);

    ctx = open_ctx();
    struct call first = { ctx, FIRST }, other = { ctx, SECOND };
    set_gate(false);
    begin(&first);
    ck_assert(come(1, SOON));
    bool ended = ends_within(begin(&other), SOON);
    set_gate(!ended);
    ck_assert_msg(ended, "it waited for the compile");
    ck_assert_msg(other.st == RFG_OK, "%s", other.error);
    ck_assert_int_eq(rfg_prepare_stream(ctx, NULL), RFG_OK); /* as little does what else takes the lock */
    ck_assert_int_eq(stats(ctx).plans, 1);
    set_gate(true);
    ck_assert(ends_within(&first, SOON));
    ck_assert_msg(first.st == RFG_OK, "%s", first.error);
    ck_assert_int_eq(rfg_prepare(ctx, LIKE), RFG_OK);
    rfg_stats s = stats(ctx);
    ck_assert_int_eq(s.plans, 3);
    ck_assert_int_eq(s.compiles, 1);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(problems_compile_side_by_side)
{
    rfg_context *ctx = open_ctx();
    struct call calls[] = { { ctx, FIRST }, { ctx, SECOND } };
    set_gate(false);
    begin(&calls[0]);
    begin(&calls[1]);
    bool both = come(2, SOON);
    set_gate(true);
    for (int i = 0; i < 2; i++) {
        ck_assert(ends_within(&calls[i], SOON));
        ck_assert_msg(calls[i].st == RFG_OK, "%s", calls[i].error);
    }
    ck_assert(both);
    ck_assert_int_eq(stats(ctx).plans, 2);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Both get the plan of the one that was there first. */
START_TEST(one_problem_compiles_once)
{
    rfg_context *ctx = open_ctx();
    struct call calls[] = { { ctx, FIRST }, { ctx, FIRST }, { ctx, FIRST } };
    set_gate(false);
    for (int i = 0; i < 3; i++)
        begin(&calls[i]);
    ck_assert(come(1, SOON));
    ck_assert(!come(2, 0.2));
    set_gate(true);
    for (int i = 0; i < 3; i++) {
        ck_assert(ends_within(&calls[i], SOON));
        ck_assert_msg(calls[i].st == RFG_OK, "%s", calls[i].error);
    }
    rfg_stats s = stats(ctx);
    ck_assert_int_eq(s.plans, 1);
    ck_assert_int_eq(s.compiles, 1);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Who waited for a compile that failed tries it himself. */
START_TEST(a_failure_is_tried_again)
{
    rfg_context *ctx = open_ctx();
    struct call calls[] = { { ctx, FIRST }, { ctx, FIRST } };
    set_gate(false);
    begin(&calls[0]);
    ck_assert(come(1, SOON));
    begin(&calls[1]);
    ck_assert(!come(2, 0.2));
    refusals = 1;
    set_gate(true);
    for (int i = 0; i < 2; i++)
        ck_assert(ends_within(&calls[i], SOON));
    ck_assert_int_eq(calls[0].st, RFG_ERROR_COMPILE);
    ck_assert_msg(strstr(calls[0].error, FIRST) && strstr(calls[0].error, "refused"), "%s", calls[0].error);
    ck_assert_msg(calls[1].st == RFG_OK, "%s", calls[1].error);
    rfg_stats s = stats(ctx);
    ck_assert_int_eq(s.plans, 1);
    ck_assert_int_eq(s.compiles, 2);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *su = suite_create("first_calls");
    ADD_TESTS(test_case(su, "first_calls", setup, teardown), a_compile_keeps_nobody, problems_compile_side_by_side,
              one_problem_compiles_once, a_failure_is_tried_again);
    return run_suite(su);
}
