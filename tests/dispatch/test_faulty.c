/* SPDX-License-Identifier: MIT
 *
 * Every call of the HIP table fails once, at every place where it is made, alone and with all that follow: the public
 * function returns an error that names the entry and its error, nothing leaks, nothing is half-written, the caller's
 * device stays current, and the same call works the second time. It runs on a mock gfx90a; the kernels are really
 * compiled. */
#include <pthread.h>

#include "dispatch/context.h"
#include "base/util.h"
#include "tuner/harness/harness.h"
#include "fakehip.h"
#include "faulty.h"
#include "tests/program.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

enum { M = 3, N = 40, K = 64, LONG_K = 4096, LONGER_K = 16384 };
#define PROBLEM "gemm bf16,bf16->f32 M=3 N=40 K=64"
/* The device that is current in the caller's thread: not the context's, amd:0. */
#define CALLERS_DEVICE 1

static const struct rfg_hip *fake, *hip;

/* ---- one scenario, with at most one failure in it ---------------------------------------------------------------- */

struct scene {
    const char *name;
    void (*run)(struct scene *s);
    const char *variants;
    bool by_env; /* the variants by $RFG_VARIANTS */
    int k;       /* 0: K; else enough to be split */
    char where[160];
    int seen;          /* failures that a public function told */
    bool in_destroy;   /* the failure was where there is no status to tell it with */
    bool not_restored; /* it was in going back to the caller's device, with all done */
    bool any_device;   /* the calls are no public functions, and need not go back */
    rfg_context *ctx;
    void *mem;
    rfg_tensor x, w, y;
    double expected[M * N];
};

/* A public call that may be hit by the failure: it then says so, and works when it is called again. */
#define MUST_RECOVER(s, call)                                                                                          \
    do {                                                                                                               \
        rfg_status st_ = (call);                                                                                       \
        returned(s);                                                                                                   \
        if (st_ != RFG_OK) {                                                                                           \
            told(s, st_, #call);                                                                                       \
            st_ = (call);                                                                                              \
            returned(s);                                                                                               \
        }                                                                                                              \
        ck_assert_msg(st_ == RFG_OK, "%s: %s the second time: %s", (s)->where, #call, rfg_last_error());               \
    } while (0)

#define ERROR      hipErrorLaunchFailure
#define ERROR_NAME "hipErrorLaunchFailure"

/* hipMalloc runs out of memory, everything else is a fault. */
static hipError_t error_of(enum faulty_entry e)
{
    return e == FAULTY_hipMalloc ? hipErrorOutOfMemory : ERROR;
}

/* After a public call the caller's device is current, unless going back to it is what failed. */
static void returned(struct scene *s)
{
    int device;
    ck_assert_int_eq(fake->hipGetDevice(&device), hipSuccess);
    if (s->any_device || device == CALLERS_DEVICE)
        return;
    ck_assert_msg(faulty_fired_in(FAULTY_hipSetDevice), "%s: device %d is current", s->where, device);
    s->not_restored = true;
    ck_assert_int_eq(fake->hipSetDevice(CALLERS_DEVICE), hipSuccess);
}

/* Does the message name an entry that failed? */
static bool names_entry(const char *message)
{
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        if (faulty_fired_in(e) && strstr(message, faulty_name(e)))
            return true;
    return false;
}

static void told(struct scene *s, rfg_status st, const char *call)
{
    const char *message = rfg_last_error();
    bool memory = st == RFG_ERROR_OUT_OF_MEMORY && faulty_fired_in(FAULTY_hipMalloc);
    ck_assert_msg(faulty_fired(), "%s: %s fails by itself: %s", s->where, call, message);
    ck_assert_msg(memory || st == RFG_ERROR_DEVICE, "%s: %s: %s: %s", s->where, call, rfg_status_name(st), message);
    ck_assert_msg(names_entry(message), "%s: %s: the message does not name what failed: %s", s->where, call, message);
    ck_assert_msg(strstr(message, memory ? "hipErrorOutOfMemory" : ERROR_NAME) != NULL,
                  "%s: %s: the message does not name the error: %s", s->where, call, message);
    ck_assert_msg(s->seen++ == 0, "%s: %s: one failure is told twice", s->where, call);
    faulty_repair();
}

/* Is all that failed the end of something? The objects are gone, and nothing is left to do. */
static bool only_ends(void)
{
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        if (faulty_fired_in(e) && !strstr(faulty_name(e), "Destroy") && e != FAULTY_hipFree &&
            e != FAULTY_hipModuleUnload)
            return false;
    return true;
}

static void destroy_context(struct scene *s)
{
    bool before = !only_ends();
    rfg_context_destroy(&s->ctx);
    s->in_destroy |= !before && !only_ends();
    faulty_repair();
    returned(s);
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
    int len = s->k ? s->k : K;
    size_t xs = (size_t)M * len * 2, ws = (size_t)N * len * 2, ys = M * N * 4;
    ck_assert_int_eq(fake->hipMalloc(&s->mem, xs + ws + ys), hipSuccess);
    s->x = rfg_tensor_2d(s->mem, RFG_BF16, M, len, len);
    s->w = rfg_tensor_2d((char *)s->mem + xs, RFG_BF16, N, len, len);
    s->y = rfg_tensor_2d((char *)s->mem + xs + ws, RFG_F32, M, N, N);
    for (int i = 0; i < M * len; i++)
        rfg_store(s->x.data, RFG_BF16, i, i % 7 - 3);
    for (int i = 0; i < N * len; i++)
        rfg_store(s->w.data, RFG_BF16, i, i % 5 - 2);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < len; k++)
                sum += ((m * len + k) % 7 - 3) * ((n * len + k) % 5 - 2);
            s->expected[m * N + n] = sum;
        }
    poison(s);
}

static void open_context(struct scene *s)
{
    rfg_context_params p = { .size = sizeof(p),
                             .device = "amd:0",
                             .user_db = "",
                             .system_db = "",
                             .cache_dir = "cache",
                             .variants = s->by_env ? NULL : s->variants };
    unsetenv("RFG_VARIANTS");
    if (s->by_env)
        setenv("RFG_VARIANTS", s->variants, 1);
    MUST_RECOVER(s, rfg_context_create(&s->ctx, &p));
}

/* Where the op fails, the output is as it was, unless a kernel was launched. */
static void call_op(struct scene *s, rfg_stream stream)
{
    int before = fakehip_launches();
    poison(s);
    rfg_status st = rfg_op_gemm(s->ctx, &s->y, &s->x, &s->w, NULL, stream);
    returned(s);
    if (st != RFG_OK) {
        told(s, st, "rfg_op_gemm");
        ck_assert_msg(fakehip_launches() == before && untouched(s), "%s: an error, but something was launched",
                      s->where);
        st = rfg_op_gemm(s->ctx, &s->y, &s->x, &s->w, NULL, stream);
        returned(s);
    }
    ck_assert_msg(st == RFG_OK, "%s: the second time: %s", s->where, rfg_last_error());
}

/* On the context's device, from a thread whose current one is another: a stream, or a replay. */
static hipStream_t make_stream(void)
{
    hipStream_t stream;
    ck_assert_int_eq(fake->hipSetDevice(0), hipSuccess);
    ck_assert_int_eq(fake->hipStreamCreateWithFlags(&stream, 0), hipSuccess);
    ck_assert_int_eq(fake->hipSetDevice(CALLERS_DEVICE), hipSuccess);
    return stream;
}

static void replay(hipGraphExec_t exec, hipStream_t stream)
{
    ck_assert_int_eq(fake->hipSetDevice(0), hipSuccess);
    ck_assert_int_eq(fake->hipGraphLaunch(exec, stream), hipSuccess);
    ck_assert_int_eq(fake->hipSetDevice(CALLERS_DEVICE), hipSuccess);
}

static void calls(struct scene *s)
{
    hipStream_t stream = make_stream();
    int splits = fakehip_splits();
    open_context(s);
    call_op(s, NULL);
    expect_right(s);
    call_op(s, stream); /* another workspace */
    expect_right(s);
    call_op(s, stream);
    expect_right(s);
    ck_assert_msg((fakehip_splits() > splits) == (s->k != 0), "%s: split or not, as not meant", s->where);
    destroy_context(s);
    ck_assert_int_eq(fake->hipStreamDestroy(stream), hipSuccess);
}

static void captures(struct scene *s)
{
    hipStream_t stream = make_stream();
    hipGraph_t graph;
    hipGraphExec_t exec;
    char problem[RFG_PROBLEM_STRLEN];
    snprintf(problem, sizeof(problem), "gemm bf16,bf16->f32 M=%d N=%d K=%d", M, N, s->k ? s->k : K);
    open_context(s);
    MUST_RECOVER(s, rfg_prepare_stream(s->ctx, stream));
    MUST_RECOVER(s, rfg_prepare(s->ctx, problem));
    ck_assert_int_eq(fake->hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipSuccess);
    call_op(s, stream);
    ck_assert_msg(untouched(s), "%s: a captured call ran", s->where);
    ck_assert_int_eq(fake->hipStreamEndCapture(stream, &graph), hipSuccess);
    ck_assert_int_eq(fake->hipGraphInstantiate(&exec, graph, NULL, NULL, 0), hipSuccess);
    for (int i = 0; i < 3; i++) {
        poison(s);
        replay(exec, stream);
        expect_right(s);
    }
    destroy_context(s);
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
    destroy_context(s);
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
    s->any_device = true;
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
    bool before = !only_ends();
    rfg_case_destroy(&c);
    s->in_destroy |= !before && !only_ends();
    destroy_context(s);
}

/* hipFree that fails has freed: it is not to be called again. */
static void free_memory(struct scene *s, void *memory)
{
    rfg_status st = rfg_device_free(s->ctx, memory);
    bool freed = faulty_fired_in(FAULTY_hipFree);
    returned(s);
    if (st == RFG_OK)
        return;
    told(s, st, "rfg_device_free");
    if (!freed)
        MUST_RECOVER(s, rfg_device_free(s->ctx, memory));
}

/* rfg/device.h: what a program does that has no runtime of its own. */
static void whole_program(struct scene *s)
{
    rfg_stream stream, left;
    rfg_graph *graph;
    void *copy, *workspace;
    size_t bytes = M * N * 4;
    open_context(s);
    MUST_RECOVER(s, rfg_stream_create(s->ctx, &stream));
    MUST_RECOVER(s, rfg_stream_create(s->ctx, &left)); /* to the context */
    MUST_RECOVER(s, rfg_device_alloc(s->ctx, &copy, bytes));
    MUST_RECOVER(s, rfg_device_alloc(s->ctx, &workspace, rfg_workspace_size(s->ctx)));
    MUST_RECOVER(s, rfg_stream_set_workspace(s->ctx, stream, workspace, rfg_workspace_size(s->ctx)));
    call_op(s, stream);
    expect_right(s);
    for (;;) {
        MUST_RECOVER(s, rfg_stream_begin_capture(s->ctx, stream));
        call_op(s, stream);
        MUST_RECOVER(s, rfg_device_copy(s->ctx, copy, s->y.data, bytes, RFG_DEVICE_TO_DEVICE, stream));
        MUST_RECOVER(s, rfg_device_memset(s->ctx, s->y.data, 0, bytes, stream));
        graph = (rfg_graph *)&graph;
        rfg_status st = rfg_stream_end_capture(s->ctx, stream, &graph);
        returned(s);
        if (st == RFG_OK)
            break;
        told(s, st, "rfg_stream_end_capture");
        ck_assert_ptr_null(graph);
        if (faulty_calls(FAULTY_hipStreamEndCapture) == 0) /* it is going on */
            MUST_RECOVER(s, rfg_stream_end_capture(s->ctx, stream, &graph));
        if (graph)
            break;
    }
    MUST_RECOVER(s, rfg_graph_replay(s->ctx, graph, stream));
    MUST_RECOVER(s, rfg_device_copy(s->ctx, s->y.data, copy, bytes, RFG_DEVICE_TO_DEVICE, stream));
    MUST_RECOVER(s, rfg_stream_sync(s->ctx, stream));
    expect_right(s);
    MUST_RECOVER(s, rfg_graph_destroy(s->ctx, &graph));
    /* The given workspace goes, one is allocated, and goes with the stream. */
    MUST_RECOVER(s, rfg_stream_set_workspace(s->ctx, stream, NULL, 0));
    call_op(s, stream);
    expect_right(s);
    MUST_RECOVER(s, rfg_stream_destroy(s->ctx, &stream));
    free_memory(s, copy);
    free_memory(s, workspace);
    call_op(s, left);
    destroy_context(s);
}

static struct scene scenes[] = {
    { .name = "calls", .run = calls },
    { .name = "calls of split-K, matrix cores", .run = calls, .variants = "gemm_splitk_mma", .k = LONG_K },
    { .name = "calls of split-K, dot", .run = calls, .variants = "gemm_skinny", .by_env = true, .k = LONGER_K },
    { .name = "a captured call", .run = captures },
    { .name = "a captured call of split-K", .run = captures, .variants = "gemm_splitk_mma", .k = LONG_K },
    { .name = "preparing a file", .run = prepares_a_file },
    { .name = "the harness", .run = harness },
    { .name = "a program of rfg/device.h", .run = whole_program },
    { .name = "a program of rfg/device.h, split-K", .run = whole_program, .variants = "gemm_splitk_mma", .k = LONG_K },
};

static void play(struct scene *s)
{
    char live[200];
    s->seen = 0;
    s->in_destroy = s->not_restored = s->any_device = false;
    ck_assert_int_eq(fake->hipSetDevice(CALLERS_DEVICE), hipSuccess);
    make_tensors(s);
    s->run(s);
    ck_assert_int_eq(fake->hipFree(s->mem), hipSuccess);
    ck_assert_msg(!fakehip_misuse(), "%s: %s", s->where, fakehip_misuse());
    fakehip_live(live, sizeof(live));
    ck_assert_msg(!*live, "%s: left behind: %s", s->where, live);
    /* Told by the call that it hits, but for what has no status to tell it with. */
    ck_assert_msg(!faulty_fired() || s->seen || s->in_destroy || s->not_restored || only_ends(), "%s: nobody said so",
                  s->where);
}

START_TEST(every_call_fails_once)
{
    struct scene *s = &scenes[_i];
    int total[FAULTY_ENTRIES], failures = 0, silent = 0;
    faulty_arm(0, 0, hipSuccess);
    snprintf(s->where, sizeof(s->where), "%s, nothing fails", s->name);
    play(s);
    faulty_arm(0, 0, hipSuccess); /* all is compiled: the same calls from here on */
    play(s);
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        total[e] = faulty_calls(e);
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        for (int n = 1; n <= total[e]; n++) {
            snprintf(s->where, sizeof(s->where), "%s, call %d of %d of %s fails", s->name, n, total[e], faulty_name(e));
            faulty_arm(e, n, error_of(e));
            play(s);
            failures += faulty_fired();
            silent += faulty_fired() && !s->seen;
        }
    printf("%s: %d failures, %d of them where nothing can be told\n", s->name, failures, silent);
    ck_assert_int_gt(failures, 8);
}
END_TEST

/* A faulted device answers every call with an error until somebody repairs it. */
START_TEST(every_call_fails_from_one_on)
{
    struct scene *s = &scenes[_i];
    faulty_arm(0, 0, hipSuccess);
    snprintf(s->where, sizeof(s->where), "%s, nothing fails", s->name);
    play(s);
    faulty_arm(0, 0, hipSuccess);
    play(s);
    int total = faulty_calls(FAULTY_ENTRIES);
    for (int n = 1; n <= total; n++) {
        snprintf(s->where, sizeof(s->where), "%s, call %d of %d and all later ones fail", s->name, n, total);
        faulty_break(n, ERROR);
        play(s);
        ck_assert_msg(faulty_fired(), "%s: it was never made", s->where);
    }
}
END_TEST

/* ---- what else the table's user must keep to --------------------------------------------------------------------- */

START_TEST(not_ready_under_capture)
{
    struct scene s = { .where = "capture" };
    hipGraph_t graph;
    make_tensors(&s);
    ck_assert_int_eq(fake->hipSetDevice(CALLERS_DEVICE), hipSuccess);
    hipStream_t stream = make_stream();
    open_context(&s);
    ck_assert_int_eq(fake->hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipSuccess);
    ck_assert_int_eq(rfg_op_gemm(s.ctx, &s.y, &s.x, &s.w, NULL, stream), RFG_ERROR_NOT_READY);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "rfg_prepare()"));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), PROBLEM));
    ck_assert_int_eq(rfg_prepare_stream(s.ctx, stream), RFG_ERROR_NOT_READY);
    ck_assert_int_eq(rfg_stream_sync(s.ctx, stream), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "which is being captured: must not be"));
    /* The capture goes on as if nothing had been asked. */
    ck_assert_int_eq(fake->hipStreamEndCapture(stream, &graph), hipSuccess);
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
    ck_assert_int_eq(rfg_op_gemm(s.ctx, &s.y, &s.x, &s.w, NULL, stream), RFG_OK);
    expect_right(&s);
    rfg_context_destroy(&s.ctx);
}
END_TEST

/* The fake itself: what HIP forbids must not go unnoticed here. */
START_TEST(fake_is_strict)
{
    hipStream_t stream, other;
    hipStreamCaptureStatus status;
    hipGraph_t graph;
    void *mem, *more;
    char live[100];
    ck_assert_int_eq(fake->hipMalloc(&mem, 100), hipSuccess);
    ck_assert_int_eq(fake->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
    /* A capture that something forbidden was done in is lost, but the stream isn't. */
    ck_assert_int_eq(fake->hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), hipSuccess);
    ck_assert_int_eq(fake->hipMalloc(&more, 100), hipErrorStreamCaptureUnsupported);
    ck_assert_ptr_nonnull(fakehip_misuse());
    ck_assert_int_eq(fake->hipStreamIsCapturing(stream, &status), hipSuccess);
    ck_assert_int_eq(status, hipStreamCaptureStatusInvalidated);
    ck_assert_int_eq(fake->hipMemsetD8Async(mem, 0, 100, stream), hipErrorStreamCaptureInvalidated);
    ck_assert_int_eq(fake->hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(fake->hipMemsetD8Async(mem, 0, 100, stream), hipSuccess);
    /* A relaxed one minds nothing. */
    fakehip_forgive();
    ck_assert_int_eq(fake->hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed), hipSuccess);
    ck_assert_int_eq(fake->hipMalloc(&more, 100), hipSuccess);
    ck_assert_int_eq(fake->hipStreamEndCapture(stream, &graph), hipSuccess);
    ck_assert_int_eq(fake->hipGraphDestroy(graph), hipSuccess);
    ck_assert_ptr_null(fakehip_misuse());
    /* Strangers. */
    ck_assert_int_eq(fake->hipFree(more), hipSuccess);
    ck_assert_int_ne(fake->hipFree(more), hipSuccess);
    ck_assert_ptr_nonnull(fakehip_misuse());
    fakehip_forgive();
    ck_assert_int_ne(fake->hipMemsetD8Async((char *)mem + 50, 0, 51, stream), hipSuccess);
    ck_assert_ptr_nonnull(fakehip_misuse());
    fakehip_forgive();
    ck_assert_int_eq(fake->hipSetDevice(1), hipSuccess);
    ck_assert_int_ne(fake->hipMemsetD8Async(mem, 0, 1, stream), hipSuccess);
    ck_assert_int_eq(fake->hipStreamCreateWithFlags(&other, 0), hipSuccess);
    ck_assert_int_eq(fake->hipSetDevice(2), hipErrorInvalidDevice);
    ck_assert_str_eq(fakehip_live(live, sizeof(live)), "1 allocation, 2 streams");
}
END_TEST

static void *call_cold(void *arg)
{
    struct scene *s = arg;
    for (int i = 0; i < 50; i++)
        if (rfg_op_gemm(s->ctx, &s->y, &s->x, &s->w, NULL, NULL) != RFG_OK) {
            snprintf(s->where, sizeof(s->where), "%.150s", rfg_last_error());
            return arg;
        }
    return NULL;
}

/* With _i failures in the module's loading: each costs one call, and the next caller tries again. */
START_TEST(threads_load_a_module_once)
{
    struct scene s[8];
    pthread_t threads[8];
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = "amd:0", .user_db = "", .system_db = "", .cache_dir = "cache"
    };
    int failed = 0;
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    faulty_arm(FAULTY_hipModuleLoadData, _i, ERROR);
    for (int i = 0; i < 8; i++) {
        s[i] = (struct scene){ .where = "threads", .ctx = ctx };
        make_tensors(&s[i]);
    }
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_cold, &s[i]), 0);
    for (int i = 0; i < 8; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        if (bad) {
            PRINTS(s[i].where, "hipModuleLoadData");
            failed++;
        } else
            expect_right(&s[i]);
        ck_assert_int_eq(fake->hipFree(s[i].mem), hipSuccess);
    }
    ck_assert_int_eq(failed, _i);
    ck_assert_int_eq(faulty_calls(FAULTY_hipModuleLoadData), 1 + _i);
    ck_assert_int_eq(faulty_calls(FAULTY_hipModuleLaunchKernel), 50 * (8 - _i));
    rfg_context_destroy(&ctx);
    char live[100];
    ck_assert_str_eq(fakehip_live(live, sizeof(live)), "");
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
}
END_TEST

START_TEST(device_names)
{
    static const struct {
        const char *name, *says;
        rfg_status st;
    } bad[] = {
        { "amd:2", "device 'amd:2': there are 2 of its kind, counted from 0", RFG_ERROR_DEVICE },
        { "amd:7", "device 'amd:7': there are 2 of its kind, counted from 0", RFG_ERROR_DEVICE },
        { "amd:", "device 'amd:': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "amd:-1", "device 'amd:-1': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "amd:0x", "device 'amd:0x': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "AMD:0", "device 'AMD:0': must be", RFG_ERROR_INVALID_ARGUMENT },
        { "", "device '': must be", RFG_ERROR_INVALID_ARGUMENT },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        rfg_context *ctx = (rfg_context *)&ctx;
        rfg_context_params p = { .size = sizeof(p), .device = bad[i].name, .user_db = "", .system_db = "" };
        ck_assert_int_eq(rfg_context_create(&ctx, &p), bad[i].st);
        ck_assert_ptr_null(ctx);
        PRINTS(rfg_last_error(), bad[i].says);
    }
    for (int i = 0; i < 2; i++) {
        char name[] = { 'a', 'm', 'd', ':', (char)('0' + i), 0 };
        rfg_context *ctx;
        rfg_context_params p = { .size = sizeof(p), .device = name, .user_db = "", .system_db = "", .cache_dir = "" };
        ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
        ck_assert_str_eq(rfg_context_device(ctx), name);
        ck_assert_int_eq(rfg_context_ordinal(ctx), i);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* Two cases on two devices in one thread: each is run, timed and read on its own. */
START_TEST(cases_on_two_devices)
{
    struct rfg_problem prob;
    struct rfg_case_params params = { .seed = 1 };
    rfg_context *ctx[2];
    struct rfg_case *c[2];
    char live[100];
    ck_assert(rfg_problem_parse(&prob, PROBLEM, NULL));
    for (int i = 0; i < 2; i++) {
        rfg_context_params p = {
            .size = sizeof(p), .device = i ? "amd:1" : "amd:0", .user_db = "", .system_db = "", .cache_dir = "cache"
        };
        ck_assert_msg(rfg_context_create(&ctx[i], &p) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_case_create(ctx[i], &prob, &params, &c[i]) == RFG_OK, "%s", rfg_last_error());
    }
    for (int i = 0; i < 4; i++) {
        struct rfg_check check;
        struct rfg_times times;
        ck_assert_msg(rfg_case_run(c[i % 2], 0, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
        const struct rfg_plan *plan = rfg_plan_find(ctx[i % 2], rfg_case_problem(c[i % 2]));
        ck_assert_msg(rfg_case_time(c[i % 2], plan, 3, 1, &times) == RFG_OK, "%s", rfg_last_error());
        rfg_times_free(&times);
        ck_assert_msg(rfg_case_check(c[i % 2], 0, &check) == RFG_OK && check.ok, "%s", check.message);
    }
    for (int i = 0; i < 2; i++) {
        rfg_case_destroy(&c[i]);
        rfg_context_destroy(&ctx[i]);
    }
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
    ck_assert_str_eq(fakehip_live(live, sizeof(live)), "");
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
    ADD_LOOPS(tc, (sizeof(scenes) / sizeof(scenes[0])), every_call_fails_once);
    tcase_add_loop_test(slow_case(su, "faulty", "every_call_fails_from_one_on", setup, program_teardown),
                        every_call_fails_from_one_on, 0, (int)(sizeof(scenes) / sizeof(scenes[0])));
    ADD_TESTS(tc, fake_is_strict, not_ready_under_capture, cases_on_two_devices, device_names);
    suite_add_tcase(su, tc);
    tc = test_case(su, "threads", setup, program_teardown);
    tcase_set_timeout(tc, 120);
    ADD_LOOPS(tc, 2, threads_load_a_module_once);
    return run_suite(su);
}
