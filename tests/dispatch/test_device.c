/* SPDX-License-Identifier: MIT
 *
 * rfg/device.h and what an engine sets: memory, copies, streams, captures and graphs, workspaces, the log. The same
 * program on the cpu, on an emulated GPU and on an imagined one that keeps account of every object; with
 * RFG_TEST_DEVICES=nvidia:0 on a GPU too. (Every call of the runtime fails once in test_faulty.c.) */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "fakehip.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

/* A product that is split along K on the GPUs, so that it needs a workspace. */
enum { M = 2, N = 16, K = 4096 };
#define PROBLEM  "gemm bf16,bf16->f32 M=2 N=16 K=4096"
#define VARIANTS "gemm_splitk_mma" /* of the GPUs */

static const char *devices[8] = { "cpu", "emu:gfx942:304", "amd:0" };
static int n_devices = 3;

static rfg_context *ctx;
static rfg_stream stream;
static char *x, *w, *y; /* device memory */

#define OK(call)        ck_assert_msg((call) == RFG_OK, "%s: %s: %s", rfg_context_device(ctx), #call, rfg_last_error())
#define REFUSED(call)   refused(call, #call, "")
#define NAMED(call, of) refused(call, #call, of)

static void refused(rfg_status st, const char *call, const char *of)
{
    ck_assert_msg(st == RFG_ERROR_INVALID_ARGUMENT, "%s: %s: %s", rfg_context_device(ctx), call, rfg_status_name(st));
    char fn[60];
    snprintf(fn, sizeof(fn), "%.*s", (int)strcspn(call, "("), call);
    PRINTS(rfg_last_error(), fn);
    PRINTS(rfg_last_error(), of);
}

static bool on_cpu(void)
{
    return !rfg_context_hip(ctx);
}

static bool on_fake(void)
{
    return !strcmp(rfg_context_device(ctx), "amd:0");
}

static void open_device(const char *device)
{
    rfg_context_params p = { .device = device, .user_db = "", .system_db = "", .cache_dir = "cache", .threads = 2 };
    if (strcmp(device, "cpu") != 0)
        p.variants = VARIANTS;
    if (!strcmp(device, "amd:0")) {
        rfg_hip_override(RFG_PLATFORM_AMD, fakehip());
        fakehip_gemm_dtypes(RFG_BF16, RFG_F32);
    }
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", device, rfg_last_error());
    OK(rfg_stream_create(ctx, &stream));
    OK(rfg_device_alloc(ctx, (void **)&x, M * K * 2));
    OK(rfg_device_alloc(ctx, (void **)&w, N * K * 2));
    OK(rfg_device_alloc(ctx, (void **)&y, M * N * 4));
}

/* Nothing is left, and nothing that HIP forbids was done. */
static void close_device(void)
{
    char live[200];
    bool fake = on_fake();
    OK(rfg_device_free(ctx, x));
    OK(rfg_device_free(ctx, w));
    OK(rfg_device_free(ctx, y));
    if (stream)
        OK(rfg_stream_destroy(ctx, &stream));
    ck_assert_ptr_null(stream);
    rfg_context_destroy(&ctx);
    if (!fake)
        return;
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
    ck_assert_str_eq(fakehip_live(live, sizeof(live)), "");
}

/* x is value, w is 1: y = value K. 0x4040 is 3, 0x3f80 1 in bf16. */
static void set_x(int byte)
{
    OK(rfg_device_memset(ctx, x, byte, M * K * 2, stream));
}
static const float of_40 = 3.0f * K, of_0 = 0;

static void set_w(void)
{
    uint16_t *ones = malloc(N * K * 2);
    for (int i = 0; ones && i < N * K; i++)
        ones[i] = 0x3f80;
    OK(rfg_device_copy(ctx, w, ones, N * K * 2, RFG_HOST_TO_DEVICE, stream));
    OK(rfg_stream_sync(ctx, stream));
    free(ones);
}

static rfg_status gemm(rfg_stream in)
{
    rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, M, K, K), tw = rfg_tensor_2d(w, RFG_BF16, N, K, K),
               ty = rfg_tensor_2d(y, RFG_F32, M, N, N);
    return rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, in);
}

static void expect(const void *memory, float value)
{
    float got[M * N] = { -1 };
    OK(rfg_device_copy(ctx, got, memory, sizeof(got), RFG_DEVICE_TO_HOST, stream));
    OK(rfg_stream_sync(ctx, stream));
    for (int i = 0; i < M * N; i++)
        ck_assert_msg(got[i] == value, "%s: [%d] is %g, not %g", rfg_context_device(ctx), i, got[i], value);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

START_TEST(memory)
{
    unsigned char host[1000], back[1000];
    void *a, *b, *none = host;
    open_device(devices[_i]);
    OK(rfg_device_alloc(ctx, &a, sizeof(host)));
    OK(rfg_device_alloc(ctx, &b, sizeof(host)));
    ck_assert(a && b && a != b && (uintptr_t)a % 256 == 0 && (uintptr_t)b % 256 == 0);
    for (size_t i = 0; i < sizeof(host); i++)
        host[i] = (unsigned char)(i * 7);
    OK(rfg_device_copy(ctx, a, host, sizeof(host), RFG_HOST_TO_DEVICE, stream));
    OK(rfg_device_memset(ctx, b, 255, sizeof(host), stream));
    OK(rfg_device_copy(ctx, (char *)b + 10, (char *)a + 100, 500, RFG_DEVICE_TO_DEVICE, stream));
    OK(rfg_device_copy(ctx, back, b, sizeof(back), RFG_DEVICE_TO_HOST, stream));
    OK(rfg_stream_sync(ctx, stream));
    for (size_t i = 0; i < sizeof(back); i++)
        ck_assert_uint_eq(back[i], i < 10 || i >= 510 ? 255 : host[i + 90]);
    /* The default stream does the same. */
    OK(rfg_device_memset(ctx, b, 3, 10, NULL));
    OK(rfg_device_copy(ctx, back, b, 20, RFG_DEVICE_TO_HOST, NULL));
    OK(rfg_stream_sync(ctx, NULL));
    ck_assert(back[9] == 3 && back[10] == host[100]);
    /* Nothing. */
    OK(rfg_device_alloc(ctx, &none, 0));
    ck_assert_ptr_null(none);
    OK(rfg_device_free(ctx, none));
    OK(rfg_device_copy(ctx, NULL, NULL, 0, RFG_DEVICE_TO_DEVICE, stream));
    OK(rfg_device_memset(ctx, NULL, 0, 0, stream));
    /* Neighbours don't overlap; by a byte they do. */
    OK(rfg_device_copy(ctx, (char *)a + 10, a, 10, RFG_DEVICE_TO_DEVICE, stream));
    NAMED(rfg_device_copy(ctx, (char *)a + 9, a, 10, RFG_DEVICE_TO_DEVICE, stream), "overlap");
    NAMED(rfg_device_copy(ctx, a, (char *)a + 9, 10, RFG_DEVICE_TO_DEVICE, stream), "overlap");
    NAMED(rfg_device_copy(ctx, NULL, a, 1, RFG_DEVICE_TO_DEVICE, stream), "to is NULL");
    NAMED(rfg_device_copy(ctx, a, NULL, 1, RFG_DEVICE_TO_DEVICE, stream), "from is NULL");
    NAMED(rfg_device_copy(ctx, a, b, 1, (rfg_copy_kind)3, stream), "kind is 3");
    NAMED(rfg_device_memset(ctx, a, 256, 1, stream), "value is 256");
    NAMED(rfg_device_memset(ctx, a, -1, 1, stream), "value is -1");
    NAMED(rfg_device_memset(ctx, NULL, 0, 1, stream), "memory is NULL");
    /* More than there is. */
    none = host;
    ck_assert_int_eq(rfg_device_alloc(ctx, &none, SIZE_MAX), RFG_ERROR_OUT_OF_MEMORY);
    ck_assert_ptr_null(none);
    if (!on_fake()) {
        none = host;
        ck_assert_int_eq(rfg_device_alloc(ctx, &none, (size_t)1 << 60), RFG_ERROR_OUT_OF_MEMORY);
        ck_assert_ptr_null(none);
    }
    OK(rfg_device_free(ctx, a));
    OK(rfg_device_free(ctx, b));
    close_device();
}
END_TEST

/* ---- streams and graphs -------------------------------------------------------------------------------------- */

START_TEST(replays)
{
    void *copy;
    rfg_graph *graph;
    open_device(devices[_i]);
    OK(rfg_device_alloc(ctx, &copy, M * N * 4));
    set_w();
    set_x(0x40);
    OK(gemm(stream));
    expect(y, of_40);
    OK(rfg_device_memset(ctx, y, 0, M * N * 4, stream));
    OK(rfg_device_memset(ctx, copy, 0, M * N * 4, stream));
    OK(rfg_stream_begin_capture(ctx, stream));
    set_x(0x40);
    OK(gemm(stream));
    OK(rfg_device_copy(ctx, copy, y, M * N * 4, RFG_DEVICE_TO_DEVICE, stream));
    OK(rfg_device_memset(ctx, y, 0, M * N * 4, stream));
    OK(rfg_stream_end_capture(ctx, stream, &graph));
    ck_assert_ptr_nonnull(graph);
    expect(copy, of_0); /* captured, not run */
    expect(y, of_0);
    for (int i = 0; i < 3; i++) {
        set_x(0);
        OK(rfg_device_memset(ctx, y, 255, M * N * 4, stream));
        OK(rfg_device_memset(ctx, copy, 255, M * N * 4, stream));
        OK(rfg_stream_sync(ctx, stream));
        OK(rfg_graph_replay(ctx, graph, i == 2 ? NULL : stream));
        OK(rfg_stream_sync(ctx, i == 2 ? NULL : stream));
        expect(copy, of_40);
        expect(y, of_0);
    }
    /* Calls on the stream run as before. */
    set_x(0x40);
    OK(gemm(stream));
    expect(y, of_40);
    OK(rfg_graph_destroy(ctx, &graph));
    ck_assert_ptr_null(graph);
    OK(rfg_graph_destroy(ctx, &graph));
    OK(rfg_graph_destroy(ctx, NULL));
    OK(rfg_device_free(ctx, copy));
    close_device();
}
END_TEST

/* Two streams are captured at once, by two threads; each graph has its own calls. */
struct capturing {
    rfg_stream stream;
    void *memory;
    rfg_graph *graph;
    rfg_status st;
};

static void *captures_too(void *arg)
{
    struct capturing *c = arg;
    c->st = rfg_stream_begin_capture(ctx, c->stream);
    if (c->st == RFG_OK)
        c->st = rfg_device_memset(ctx, c->memory, 7, 10, c->stream);
    if (c->st == RFG_OK)
        c->st = rfg_stream_end_capture(ctx, c->stream, &c->graph);
    return NULL;
}

static void *ends(void *arg)
{
    rfg_graph *graph = (rfg_graph *)arg;
    rfg_status st = rfg_stream_end_capture(ctx, stream, &graph);
    return st == RFG_ERROR_INVALID_ARGUMENT && !graph && strstr(rfg_last_error(), "another thread") ? NULL : "taken";
}

START_TEST(capture_rules)
{
    rfg_graph *graph = (rfg_graph *)&graph, *other;
    rfg_stream more;
    void *memory;
    char host[8];
    pthread_t thread;
    void *wrong;
    open_device(devices[_i]);
    set_w();
    set_x(0x40);
    /* Beginnings and ends that don't fit. */
    NAMED(rfg_stream_end_capture(ctx, stream, &graph), "not being captured");
    ck_assert_ptr_null(graph);
    NAMED(rfg_stream_begin_capture(ctx, NULL), "rfg_stream_create()");
    OK(rfg_stream_create(ctx, &more));
    OK(rfg_stream_begin_capture(ctx, stream));
    NAMED(rfg_stream_begin_capture(ctx, stream), "captures");
    NAMED(rfg_stream_begin_capture(ctx, more), "captures");
    NAMED(rfg_stream_end_capture(ctx, more, &graph), "not being captured");
    NAMED(rfg_stream_end_capture(ctx, stream, NULL), "graph is NULL");
    /* What a capture forbids this thread does not break it. */
    memory = host;
    NAMED(rfg_device_alloc(ctx, &memory, 100), "captures");
    ck_assert_ptr_null(memory);
    NAMED(rfg_device_free(ctx, y), "captures");
    NAMED(rfg_stream_create(ctx, (rfg_stream *)&memory), "captures");
    NAMED(rfg_stream_sync(ctx, stream), "captures");
    NAMED(rfg_stream_sync(ctx, more), "captures");
    NAMED(rfg_stream_destroy(ctx, &more), "captures");
    NAMED(rfg_stream_set_workspace(ctx, stream, NULL, 0), "captured");
    NAMED(rfg_device_copy(ctx, x, host, 8, RFG_HOST_TO_DEVICE, stream), "RFG_DEVICE_TO_DEVICE");
    NAMED(rfg_device_copy(ctx, host, x, 8, RFG_DEVICE_TO_HOST, stream), "RFG_DEVICE_TO_DEVICE");
    /* A first call neither. */
    ck_assert_int_eq(gemm(stream), RFG_ERROR_NOT_READY);
    PRINTS(rfg_last_error(), PROBLEM);
    /* Another thread captures another stream meanwhile, and can't end ours. */
    struct capturing c = { .stream = more, .memory = y };
    pthread_create(&thread, NULL, captures_too, &c);
    pthread_join(thread, NULL);
    ck_assert_msg(c.st == RFG_OK && c.graph, "%s", rfg_status_name(c.st));
    pthread_create(&thread, NULL, ends, &c);
    pthread_join(thread, &wrong);
    ck_assert_ptr_null(wrong);
    OK(rfg_device_memset(ctx, y, 0, M * N * 4, stream));
    OK(rfg_stream_end_capture(ctx, stream, &graph));
    NAMED(rfg_stream_end_capture(ctx, stream, &other), "not being captured");

    OK(gemm(stream));
    expect(y, of_40);
    OK(rfg_graph_replay(ctx, graph, stream));
    expect(y, of_0);
    OK(rfg_graph_replay(ctx, c.graph, more));
    OK(rfg_stream_sync(ctx, more));
    OK(rfg_device_copy(ctx, host, y, 8, RFG_DEVICE_TO_HOST, stream));
    OK(rfg_stream_sync(ctx, stream));
    ck_assert(host[0] == 7 && host[7] == 7);
    /* A replay is no part of a capture. */
    OK(rfg_stream_begin_capture(ctx, more));
    NAMED(rfg_graph_replay(ctx, graph, stream), "captures");
    OK(rfg_stream_end_capture(ctx, more, &other));
    OK(rfg_graph_replay(ctx, other, stream)); /* of nothing */
    NAMED(rfg_graph_replay(ctx, NULL, stream), "graph is NULL");
    /* A stream outlives its graphs. */
    NAMED(rfg_stream_destroy(ctx, &stream), "1 graphs");
    NAMED(rfg_stream_destroy(ctx, &more), "2 graphs");
    ck_assert_ptr_nonnull(more);
    OK(rfg_graph_destroy(ctx, &graph));
    OK(rfg_graph_destroy(ctx, &other));
    NAMED(rfg_stream_destroy(ctx, &more), "1 graphs");
    OK(rfg_graph_destroy(ctx, &c.graph));
    OK(rfg_stream_destroy(ctx, &more));
    ck_assert_ptr_null(more);
    OK(rfg_stream_destroy(ctx, &more));
    OK(rfg_stream_destroy(ctx, NULL));
    close_device();
}
END_TEST

/* What is no stream of the context is refused where the context can tell: everywhere on cpu. */
START_TEST(foreign_streams)
{
    rfg_context *first, *second;
    rfg_graph *graph;
    rfg_stream theirs;
    open_device("cpu");
    first = ctx;
    rfg_context_params p = { .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "" };
    OK(rfg_context_create(&second, &p));
    OK(rfg_stream_create(second, &theirs));
    REFUSED(rfg_stream_sync(ctx, theirs));
    REFUSED(rfg_stream_begin_capture(ctx, theirs));
    REFUSED(rfg_stream_end_capture(ctx, theirs, &graph));
    REFUSED(rfg_stream_destroy(ctx, &theirs));
    REFUSED(rfg_stream_set_workspace(ctx, theirs, NULL, 0));
    REFUSED(rfg_device_memset(ctx, y, 0, 1, theirs));
    REFUSED(rfg_device_copy(ctx, y, x, 1, RFG_DEVICE_TO_DEVICE, theirs));
    REFUSED(rfg_prepare_stream(ctx, theirs));
    ck_assert_int_eq(gemm(theirs), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), "gemm: stream is");
    OK(rfg_prepare_stream(ctx, stream));
    OK(rfg_stream_destroy(second, &theirs));
    rfg_context_destroy(&second);
    ck_assert_ptr_eq(first, ctx);
    close_device();
}
END_TEST

/* ---- workspaces ---------------------------------------------------------------------------------------------- */

START_TEST(workspace_given)
{
    open_device(devices[_i]);
    size_t size = rfg_workspace_size(ctx), counters = RFG_COUNTERS * 4;
    ck_assert_uint_eq(size, on_cpu() ? 0 : RFG_WORKSPACE_BYTES + counters);
    ck_assert_uint_eq(rfg_workspace_size(NULL), 0);
    void *memory = NULL;
    unsigned char *host = calloc(1, size + 1);
    rfg_graph *graph;
    OK(rfg_device_alloc(ctx, &memory, size));
    OK(rfg_device_memset(ctx, memory, 255, size, stream));
    set_w();
    set_x(0x40);
    OK(rfg_stream_set_workspace(ctx, stream, memory, size));
    if (on_fake()) { /* the streams's own: x, w, y and the given one are all there is */
        char live[200];
        OK(gemm(stream));
        ck_assert_int_gt(fakehip_splits(), 0);
        PRINTS(fakehip_live(live, sizeof(live)), "4 allocations");
    }
    for (int i = 0; i < 2; i++) {
        OK(rfg_device_memset(ctx, y, 255, M * N * 4, stream));
        OK(gemm(stream));
        expect(y, of_40);
    }
    if (size) {
        OK(rfg_device_copy(ctx, host, memory, size, RFG_DEVICE_TO_HOST, stream));
        OK(rfg_stream_sync(ctx, stream));
        bool used = false;
        for (size_t i = 0; i < 65536 && !used; i++)
            used = host[i] != 255;
        ck_assert_msg(used, "%s: it worked elsewhere", devices[_i]);
        for (size_t i = size - counters; i < size; i++)
            ck_assert_uint_eq(host[i], 0);
        NAMED(rfg_stream_set_workspace(ctx, stream, memory, size - 1), "bytes is");
        NAMED(rfg_stream_set_workspace(ctx, stream, (char *)memory + 128, size), "256");
    }
    NAMED(rfg_stream_set_workspace(ctx, stream, NULL, 1), "memory is NULL");
    OK(rfg_stream_begin_capture(ctx, stream));
    OK(rfg_stream_end_capture(ctx, stream, &graph));
    NAMED(rfg_stream_set_workspace(ctx, stream, memory, size), "1 graphs");
    OK(rfg_graph_destroy(ctx, &graph));
    /* Taken back: the next call has one allocated; and that one is freed for the next that is given. */
    OK(rfg_stream_set_workspace(ctx, stream, NULL, 0));
    OK(gemm(stream));
    expect(y, of_40);
    OK(rfg_stream_set_workspace(ctx, stream, memory, size));
    set_x(0);
    OK(gemm(stream));
    expect(y, of_0);
    OK(rfg_stream_destroy(ctx, &stream));
    OK(rfg_device_free(ctx, memory)); /* still the caller's */
    free(host);
    close_device();
}
END_TEST

/* Streams come and go: no more than 256 at a time, each time with a workspace of its own. */
START_TEST(many_streams)
{
    rfg_stream s[256];
    open_device("amd:0");
    set_w();
    set_x(0x40);
    for (int i = 0; i < 600; i++) {
        OK(rfg_stream_create(ctx, &s[0]));
        OK(gemm(s[0]));
        OK(rfg_stream_destroy(ctx, &s[0]));
    }
    for (int i = 0; i < 256; i++) {
        OK(rfg_stream_create(ctx, &s[i]));
        OK(rfg_prepare_stream(ctx, s[i]));
    }
    ck_assert_int_eq(rfg_prepare_stream(ctx, stream), RFG_ERROR_OUT_OF_MEMORY);
    PRINTS(rfg_last_error(), "at most 256");
    OK(rfg_stream_destroy(ctx, &s[100]));
    OK(rfg_prepare_stream(ctx, stream));
    OK(gemm(stream));
    expect(y, of_40);
    /* The others are left to the context. */
    close_device();
}
END_TEST

/* ---- preparing ----------------------------------------------------------------------------------------------- */

static rfg_stats stats(void)
{
    rfg_stats st;
    rfg_context_stats(ctx, &st);
    return st;
}

/* Every M of a range has its plan, however few kernels they share, which workers compile: no call needs another. */
START_TEST(ranges)
{
    enum { MOST = 40 };
    static uint16_t sw[N * 64], sx[MOST * 64];
    static float sy[MOST * N];
    struct rfg_problem prob;
    void *dx, *dw, *dy;
    open_device(devices[_i]);
    FILE *f = fopen("worker", "w");
    ck_assert(f && fprintf(f, "#!/bin/sh\necho >> workers\nexec %s \"$@\"\n", getenv("RFG_COMPILE_WORKER")) > 0 &&
              !fclose(f) && !system("chmod 755 worker; rm -rf workers cache"));
    setenv("RFG_COMPILE_WORKER", "./worker", 1);
    OK(rfg_prepare(ctx, "gemm bf16,bf16->f32 M=1..40 N=16 K=64"));
    ck_assert_uint_eq(stats().plans, MOST);
    uint64_t compiles = stats().compiles;
    ck_assert_msg(on_cpu() ? !compiles : compiles > 1 && compiles < MOST / 2, "%s: %d compiles", devices[_i],
                  (int)compiles);
    ck_assert_int_eq(access("workers", F_OK) == 0, !on_cpu());
    for (int i = 0; i < MOST; i++) {
        char text[100];
        snprintf(text, sizeof(text), "gemm bf16,bf16->f32 M=%d N=16 K=64", i + 1);
        ck_assert(rfg_problem_parse(&prob, text, NULL));
        ck_assert_msg(rfg_plan_find(ctx, &prob), "%s: no plan for M=%d", devices[_i], i + 1);
    }
    ck_assert(rfg_problem_parse(&prob, "gemm bf16,bf16->f32 M=41 N=16 K=64", NULL) && !rfg_plan_find(ctx, &prob));
    OK(rfg_device_alloc(ctx, &dx, sizeof(sx)));
    OK(rfg_device_alloc(ctx, &dw, sizeof(sw)));
    OK(rfg_device_alloc(ctx, &dy, sizeof(sy)));
    for (int m = 1; m <= MOST; m += 13) {
        rfg_tensor tx = rfg_tensor_2d(dx, RFG_BF16, m, 64, 64), tw = rfg_tensor_2d(dw, RFG_BF16, N, 64, 64),
                   ty = rfg_tensor_2d(dy, RFG_F32, m, N, N);
        OK(rfg_device_memset(ctx, dx, 0, sizeof(sx), stream));
        OK(rfg_device_memset(ctx, dw, 0, sizeof(sw), stream));
        OK(rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, stream));
    }
    ck_assert_uint_eq(stats().plans, MOST);
    /* Any key may have it; what is prepared already costs nothing. */
    OK(rfg_prepare(ctx, "gemm bf16,bf16->f32 M=1..41 N=16 K=64"));
    OK(rfg_prepare(ctx, "gemm bf16,bf16->f32 M=7 N=16..16 K=64"));
    ck_assert_uint_eq(stats().plans, MOST + 1);
    OK(rfg_device_free(ctx, dx));
    OK(rfg_device_free(ctx, dw));
    OK(rfg_device_free(ctx, dy));
    close_device();
}
END_TEST

static const struct {
    const char *problem, *says;
} bad_ranges[] = {
    { "gemm bf16,bf16->f32 M=2..1 N=16 K=64", "M=2..1: low must not be above high" },
    { "gemm bf16,bf16->f32 M=1..4097 N=16 K=64", "M=1..4097: 4097 problems: must be at most 4096" },
    { "gemm bf16,bf16->f32 M=1..9999999999 N=16 K=64", "must be at most 4096" },
    { "gemm bf16,bf16->f32 M=1..99999999999 N=16 K=64", "two whole numbers" },
    { "gemm bf16,bf16->f32 M=1.. N=16 K=64", "'M=1..': a range must be" },
    { "gemm bf16,bf16->f32 M=..4 N=16 K=64", "'M=..4': a range must be" },
    { "gemm bf16,bf16->f32 M=1...4 N=16 K=64", "a range must be" },
    { "gemm bf16,bf16->f32 M=1..4x N=16 K=64", "a range must be" },
    { "gemm bf16,bf16->f32 M=-1..4 N=16 K=64", "a range must be" },
    { "gemm bf16,bf16->f32 1..4 M=1 N=16 K=64", "'1..4': a range must be" },
    { "gemm bf16,bf16->f32 M=1..2 N=1..2 K=64", "second range" },
    { "gemm bf16,bf16->f32 M=1..2 N=16 K=64 bias=0..2", "second range" },
    { "gemm bf16,bf16->f32 M=1 N=16 K=64 bias=0..2", "bias=2: must be from 0 to 1" }, /* and neither 0 nor 1 */
    { "gemm bf16,bf16->f32 M=1..2 N=16", "K= is missing" },
    { "..", "a range must be" },
};

START_TEST(ranges_refused)
{
    open_device("cpu");
    NAMED(rfg_prepare(ctx, bad_ranges[_i].problem), bad_ranges[_i].says);
    ck_assert_uint_eq(stats().plans, 0);
    close_device();
}
END_TEST

/* ---- fork ---------------------------------------------------------------------------------------------------- */

static int child(rfg_graph *graph)
{
    float host[M * N];
    rfg_stream s = NULL;
    if (on_cpu())
        return rfg_graph_replay(ctx, graph, stream) != RFG_OK || ((float *)y)[0] != of_40 ||
               rfg_stream_create(ctx, &s) != RFG_OK || gemm(s) != RFG_OK || rfg_stream_destroy(ctx, &s) != RFG_OK;
    rfg_status st[] = {
        rfg_device_alloc(ctx, (void **)&s, 10),
        rfg_device_free(ctx, y),
        rfg_device_copy(ctx, host, y, sizeof(host), RFG_DEVICE_TO_HOST, stream),
        rfg_device_memset(ctx, y, 0, 1, stream),
        rfg_stream_create(ctx, &s),
        rfg_stream_sync(ctx, stream),
        rfg_stream_set_workspace(ctx, stream, NULL, 0),
        rfg_stream_begin_capture(ctx, stream),
        rfg_stream_end_capture(ctx, stream, &(rfg_graph *){ NULL }),
        rfg_graph_replay(ctx, graph, stream),
        rfg_graph_destroy(ctx, &graph),
        rfg_stream_destroy(ctx, &stream),
    };
    for (size_t i = 0; i < sizeof(st) / sizeof(st[0]); i++)
        if (st[i] != RFG_ERROR_DEVICE)
            return 10 + (int)i;
    return strstr(rfg_last_error(), "fork()") == NULL;
}

START_TEST(forks)
{
    rfg_graph *graph;
    open_device(devices[_i]);
    set_w();
    set_x(0x40);
    OK(gemm(stream));
    OK(rfg_stream_begin_capture(ctx, stream));
    OK(gemm(stream));
    OK(rfg_stream_end_capture(ctx, stream, &graph));
    OK(rfg_device_memset(ctx, y, 0, M * N * 4, stream));
    OK(rfg_stream_sync(ctx, stream));
    pid_t pid = fork();
    if (!pid)
        _exit(child(graph));
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "%s: the child: %x", devices[_i], status);
    OK(rfg_graph_replay(ctx, graph, stream));
    expect(y, of_40);
    OK(rfg_graph_destroy(ctx, &graph));
    close_device();
}
END_TEST

/* ---- the log ------------------------------------------------------------------------------------------------- */

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

int main(void)
{
    Suite *su = suite_create("device");
    TCase *tc = tcase_create("device");
    char *more = getenv("RFG_TEST_DEVICES") ? strdup(getenv("RFG_TEST_DEVICES")) : NULL;
    for (char *d = more ? strtok(more, ",") : NULL; d && n_devices < 8; d = strtok(NULL, ","))
        if (!strncmp(d, "nvidia:", 7) || !strncmp(d, "emu:", 4))
            devices[n_devices++] = d;
    tcase_add_unchecked_fixture(tc, program_setup, program_teardown); /* one cache for all */
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, memory, 0, n_devices);
    tcase_add_loop_test(tc, replays, 0, n_devices);
    tcase_add_loop_test(tc, capture_rules, 0, n_devices);
    tcase_add_test(tc, foreign_streams);
    tcase_add_loop_test(tc, workspace_given, 0, n_devices);
    tcase_add_test(tc, many_streams);
    tcase_add_loop_test(tc, ranges, 0, n_devices);
    tcase_add_loop_test(tc, ranges_refused, 0, sizeof(bad_ranges) / sizeof(bad_ranges[0]));
    tcase_add_loop_test(tc, forks, 0, n_devices);
    tcase_add_test(tc, log_callback);
    tcase_add_test(tc, log_topics_of_both);
    tcase_add_test(tc, log_threads);
    suite_add_tcase(su, tc);
    return run_suite(su);
}
