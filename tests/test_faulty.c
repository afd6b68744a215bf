/* SPDX-License-Identifier: MIT
 *
 * Every call of the HIP table fails once, at every place where it is made: the public function returns an error that
 * names what failed, nothing leaks, nothing is half-written, and the same call works the second time. On an imagined
 * gfx90a; the kernels are really compiled. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/context.h"
#include "../dispatch/util.h"
#include "../tuner/harness.h"
#include "fakehip.h"
#include "faulty.h"
#include "program.h"
#include "rfg/rfg.h"

enum { M = 3, N = 40, K = 64 };
#define PROBLEM "gemm bf16,bf16->f32 M=3 N=40 K=64"

static const struct rfg_hip *fake, *hip;

/* ---- one scenario, with at most one failure in it -----------------------------------------------------------------
 */

struct scene {
    const char *name;
    void (*run)(struct scene *s);
    const char *variants;
    char where[100];
    int seen; /* failures that a public function told */
    rfg_context *ctx;
    void *mem;
    rfg_tensor x, w, y;
    double expected[M * N];
};

/* A public call that may be hit by the failure: it then says so, and works when it is called again. */
#define MUST_RECOVER(s, call)                                                                                          \
    do {                                                                                                               \
        rfg_status st_ = (call);                                                                                       \
        if (st_ != RFG_OK) {                                                                                           \
            told(s, st_, #call);                                                                                       \
            st_ = (call);                                                                                              \
        }                                                                                                              \
        ck_assert_msg(st_ == RFG_OK, "%s: %s the second time: %s", (s)->where, #call, rfg_last_error());               \
    } while (0)

static void told(struct scene *s, rfg_status st, const char *call)
{
    ck_assert_msg(faulty_fired(), "%s: %s fails by itself: %s", s->where, call, rfg_last_error());
    ck_assert_msg(st == RFG_ERROR_DEVICE || st == RFG_ERROR_OUT_OF_MEMORY, "%s: %s: %s", s->where, call,
                  rfg_status_name(st));
    ck_assert_msg(strstr(rfg_last_error(), "fake error 719") != NULL, "%s: %s: the message does not name the error: %s",
                  s->where, call, rfg_last_error());
    ck_assert_msg(s->seen++ == 0, "%s: %s: one failure is told twice", s->where, call);
}

static void poison(struct scene *s)
{
    memset(s->y.data, 0x77, M * N * 4);
}

static bool untouched(const struct scene *s)
{
    const unsigned char *b = s->y.data;
    for (int i = 0; i < M * N * 4; i++)
        if (b[i] != 0x77)
            return false;
    return true;
}

static void expect_right(struct scene *s)
{
    for (int i = 0; i < M * N; i++)
        ck_assert_msg(((float *)s->y.data)[i] == (float)s->expected[i], "%s: y[%d] is wrong", s->where, i);
}

/* The tensors: exact small integers, in memory of the fake device. */
static void make_tensors(struct scene *s)
{
    size_t xs = M * K * 2, ws = N * K * 2, ys = M * N * 4;
    ck_assert_int_eq(fake->hipMalloc(&s->mem, xs + ws + ys), hipSuccess);
    s->x = rfg_tensor_2d(s->mem, RFG_BF16, M, K, K);
    s->w = rfg_tensor_2d((char *)s->mem + xs, RFG_BF16, N, K, K);
    s->y = rfg_tensor_2d((char *)s->mem + xs + ws, RFG_F32, M, N, N);
    for (int i = 0; i < M * K; i++)
        rfg_store(s->x.data, RFG_BF16, i, i % 7 - 3);
    for (int i = 0; i < N * K; i++)
        rfg_store(s->w.data, RFG_BF16, i, i % 5 - 2);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += ((m * K + k) % 7 - 3) * ((n * K + k) % 5 - 2);
            s->expected[m * N + n] = sum;
        }
    poison(s);
}

static void open_context(struct scene *s)
{
    rfg_context_params p = {
        .device = "amd:0", .user_db = "", .system_db = "", .cache_dir = "cache", .variants = s->variants
    };
    MUST_RECOVER(s, rfg_context_create(&s->ctx, &p));
}

/* Where the op fails, the output is as it was, unless a kernel was launched. */
static void call_op(struct scene *s, rfg_stream stream)
{
    int before = fakehip_launches();
    poison(s);
    rfg_status st = rfg_op_gemm(s->ctx, &s->y, &s->x, &s->w, NULL, stream);
    if (st != RFG_OK) {
        told(s, st, "rfg_op_gemm");
        ck_assert_msg(fakehip_launches() == before && untouched(s), "%s: an error, but something was launched",
                      s->where);
        st = rfg_op_gemm(s->ctx, &s->y, &s->x, &s->w, NULL, stream);
    }
    ck_assert_msg(st == RFG_OK, "%s: the second time: %s", s->where, rfg_last_error());
}

static void calls(struct scene *s)
{
    hipStream_t stream;
    ck_assert_int_eq(fake->hipStreamCreateWithFlags(&stream, 0), hipSuccess);
    open_context(s);
    call_op(s, NULL);
    expect_right(s);
    call_op(s, stream); /* another workspace */
    expect_right(s);
    call_op(s, stream);
    expect_right(s);
    rfg_context_destroy(&s->ctx);
    ck_assert_int_eq(fake->hipStreamDestroy(stream), hipSuccess);
}

static void captures(struct scene *s)
{
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    ck_assert_int_eq(fake->hipStreamCreateWithFlags(&stream, 0), hipSuccess);
    open_context(s);
    MUST_RECOVER(s, rfg_prepare_stream(s->ctx, stream));
    MUST_RECOVER(s, rfg_prepare(s->ctx, PROBLEM));
    ck_assert_int_eq(fake->hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipSuccess);
    call_op(s, stream);
    ck_assert_msg(untouched(s), "%s: a captured call ran", s->where);
    ck_assert_int_eq(fake->hipStreamEndCapture(stream, &graph), hipSuccess);
    ck_assert_int_eq(fake->hipGraphInstantiate(&exec, graph, NULL, NULL, 0), hipSuccess);
    for (int i = 0; i < 3; i++) {
        poison(s);
        ck_assert_int_eq(fake->hipGraphLaunch(exec, stream), hipSuccess);
        expect_right(s);
    }
    rfg_context_destroy(&s->ctx);
    ck_assert_int_eq(fake->hipGraphExecDestroy(exec), hipSuccess);
    ck_assert_int_eq(fake->hipGraphDestroy(graph), hipSuccess);
    ck_assert_int_eq(fake->hipStreamDestroy(stream), hipSuccess);
}

static void prepares_a_file(struct scene *s)
{
    FILE *f = fopen("shapes.csv", "w");
    ck_assert(f &&
              fputs("op,dtype,M,N,K\ngemm,\"bf16,bf16->f32\",3,40,64\ngemm,\"bf16,bf16->f32\",9,40,64\n", f) >= 0 &&
              !fclose(f));
    open_context(s);
    MUST_RECOVER(s, rfg_prepare_from_csv(s->ctx, "shapes.csv"));
    int loads = faulty_calls(FAULTY_hipModuleLoadData);
    call_op(s, NULL);
    expect_right(s);
    ck_assert_int_eq(faulty_calls(FAULTY_hipModuleLoadData), loads); /* all was ready */
    rfg_context_destroy(&s->ctx);
}

/* What the tuner and rfg-bench do. */
static void harness(struct scene *s)
{
    struct rfg_problem prob;
    struct rfg_case *c;
    struct rfg_check check;
    struct rfg_times times;
    void *bytes;
    size_t size;
    struct rfg_case_params params = { .seed = 1, .rotate_bytes = 20000 };
    ck_assert(rfg_problem_parse(&prob, PROBLEM, NULL));
    open_context(s);
    MUST_RECOVER(s, rfg_case_create(s->ctx, &prob, &params, &c));
    MUST_RECOVER(s, rfg_case_poison(c, 0));
    MUST_RECOVER(s, rfg_case_run(c, 0, NULL, NULL));
    MUST_RECOVER(s, rfg_case_check(c, 0, &check));
    ck_assert_msg(check.ok, "%s: %s", s->where, check.message);
    MUST_RECOVER(s, rfg_case_outputs(c, 0, &bytes, &size));
    free(bytes);
    const struct rfg_plan *plan = rfg_plan_find(s->ctx, rfg_case_problem(c));
    ck_assert_ptr_nonnull(plan);
    MUST_RECOVER(s, rfg_case_time(c, plan, 3, 1, &times));
    ck_assert_int_eq(times.n, 3);
    rfg_times_free(&times);
    rfg_case_destroy(&c);
    rfg_context_destroy(&s->ctx);
}

static struct scene scenes[] = {
    { .name = "calls", .run = calls },
    { .name = "calls of split-K", .run = calls, .variants = "gemm_splitk_mma" },
    { .name = "a captured call", .run = captures },
    { .name = "preparing a file", .run = prepares_a_file },
    { .name = "the harness", .run = harness },
};

static void play(struct scene *s)
{
    char live[200];
    s->seen = 0;
    make_tensors(s);
    s->run(s);
    ck_assert_int_eq(fake->hipFree(s->mem), hipSuccess);
    ck_assert_msg(!fakehip_misuse(), "%s: %s", s->where, fakehip_misuse());
    fakehip_live(live, sizeof(live));
    /* The harness keeps one stream for all its timing. */
    ck_assert_msg(!*live || (s->run == harness && !strcmp(live, "1 stream")), "%s: left behind: %s", s->where, live);
}

START_TEST(every_call_fails_once)
{
    struct scene *s = &scenes[_i];
    int total[FAULTY_ENTRIES], failures = 0, silent = 0;
    faulty_arm(0, 0, hipSuccess);
    snprintf(s->where, sizeof(s->where), "%s, nothing fails", s->name);
    play(s);
    play(s); /* all is compiled: the same calls from here on */
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        total[e] = faulty_calls(e);
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        for (int n = 1; n <= total[e]; n++) {
            snprintf(s->where, sizeof(s->where), "%s, call %d of %d of %s fails", s->name, n, total[e], faulty_name(e));
            faulty_arm(e, n, (hipError_t)719);
            play(s);
            failures += faulty_fired();
            silent += faulty_fired() && !s->seen;
            /* Told by the call that it hits, but for what has no status to tell it with: freeing, and going back to the
             * caller's device. */
            bool may_be_silent = strstr(faulty_name(e), "Destroy") || e == FAULTY_hipFree ||
                                 e == FAULTY_hipModuleUnload || e == FAULTY_hipGetDevice || e == FAULTY_hipSetDevice;
            ck_assert_msg(!faulty_fired() || s->seen || may_be_silent, "%s: nobody said so", s->where);
        }
    printf("%s: %d failures, %d of them where nothing can be told\n", s->name, failures, silent);
    ck_assert_int_gt(failures, 8);
}
END_TEST

/* ---- what else the table's user must keep to -----------------------------------------------------------------------
 */

START_TEST(not_ready_under_capture)
{
    struct scene s = { .where = "capture" };
    hipStream_t stream;
    hipGraph_t graph;
    make_tensors(&s);
    open_context(&s);
    ck_assert_int_eq(fake->hipStreamCreateWithFlags(&stream, 0), hipSuccess);
    ck_assert_int_eq(fake->hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipSuccess);
    ck_assert_int_eq(rfg_op_gemm(s.ctx, &s.y, &s.x, &s.w, NULL, stream), RFG_ERROR_NOT_READY);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "rfg_prepare()"));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), PROBLEM));
    ck_assert_int_eq(rfg_prepare_stream(s.ctx, stream), RFG_ERROR_NOT_READY);
    /* The capture goes on as if nothing had been asked. */
    ck_assert_int_eq(fake->hipStreamEndCapture(stream, &graph), hipSuccess);
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
    ck_assert_int_eq(rfg_op_gemm(s.ctx, &s.y, &s.x, &s.w, NULL, stream), RFG_OK);
    expect_right(&s);
    rfg_context_destroy(&s.ctx);
}
END_TEST

static void *call_cold(void *arg)
{
    struct scene *s = arg;
    for (int i = 0; i < 50; i++)
        if (rfg_op_gemm(s->ctx, &s->y, &s->x, &s->w, NULL, NULL) != RFG_OK) {
            snprintf(s->where, sizeof(s->where), "%.90s", rfg_last_error());
            return arg;
        }
    return NULL;
}

START_TEST(threads_load_a_module_once)
{
    struct scene s[8];
    pthread_t threads[8];
    rfg_context *ctx;
    rfg_context_params p = { .device = "amd:0", .user_db = "", .system_db = "", .cache_dir = "cache" };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    faulty_arm(0, 0, hipSuccess);
    for (int i = 0; i < 8; i++) {
        s[i] = (struct scene){ .where = "threads", .ctx = ctx };
        make_tensors(&s[i]);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_cold, &s[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        ck_assert_msg(!bad, "%s", s[i].where);
        expect_right(&s[i]);
    }
    ck_assert_int_eq(faulty_calls(FAULTY_hipModuleLoadData), 1);
    ck_assert_int_eq(faulty_calls(FAULTY_hipModuleLaunchKernel), 400);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(device_names)
{
    static const struct {
        const char *name, *says;
        rfg_status st;
    } bad[] = {
        { "amd:1", "device 'amd:1': there is 1 of its kind, counted from 0", RFG_ERROR_DEVICE },
        { "amd:", "device 'amd:': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "amd:-1", "device 'amd:-1': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "amd:0x", "device 'amd:0x': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "AMD:0", "device 'AMD:0': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "", "device '': must be", RFG_ERROR_INVALID_ARGUMENT },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        rfg_context *ctx = (rfg_context *)&ctx;
        rfg_context_params p = { .device = bad[i].name, .user_db = "", .system_db = "" };
        ck_assert_int_eq(rfg_context_create(&ctx, &p), bad[i].st);
        ck_assert_ptr_null(ctx);
        PRINTS(rfg_last_error(), bad[i].says);
    }
}
END_TEST

static void setup(void)
{
    program_setup();
    fake = fakehip();
    fakehip_gemm_dtypes(RFG_BF16, RFG_F32);
    hip = faulty(fake);
    rfg_hip_override(RFG_PLATFORM_AMD, hip);
    setenv("RFG_VENDOR", "0", 1);
}

int main(void)
{
    Suite *su = suite_create("faulty");
    TCase *tc = tcase_create("faulty");
    tcase_add_checked_fixture(tc, setup, program_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_call_fails_once, 0, (int)(sizeof(scenes) / sizeof(scenes[0])));
    tcase_add_test(tc, not_ready_under_capture);
    tcase_add_test(tc, threads_load_a_module_once);
    tcase_add_test(tc, device_names);
    suite_add_tcase(su, tc);
    SRunner *sr = srunner_create(su);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
