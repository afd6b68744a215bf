/* SPDX-License-Identifier: MIT
 *
 * An engine's preparation before its calls: workspaces of streams, prepared plans and kernels. */
#include <unistd.h>

#include "device_case.h"
#include "dispatch/context.h"
#include "fakehip.h"
#include "tests/program.h"
#include "tests/suite.h"

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
        /* Where there are clusters, these splits are reduced in LDS. */
        ck_assert_msg(used || !strncmp(devices[_i], "nvidia:", 7), "%s: it worked elsewhere", devices[_i]);
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

/* A graph of one stream's launches runs on another, which knows nothing of the memset of the first one's counters. */
START_TEST(counters_for_other_streams)
{
    rfg_stream other;
    hipGraph_t captured;
    hipGraphExec_t exec;
    void *memory = NULL;
    const struct rfg_hip *hip = fakehip();
    open_device(FAKE);
    OK(rfg_stream_create(ctx, &other));
    OK(rfg_device_alloc(ctx, &memory, rfg_workspace_size(ctx)));
    OK(gemm(other)); /* plan and kernel are there */
    OK(rfg_stream_sync(ctx, other));
    if (_i == 0) {
        rfg_graph *graph;
        OK(rfg_stream_begin_capture(ctx, stream));
        OK(gemm(stream));
        OK(rfg_stream_end_capture(ctx, stream, &graph));
        OK(rfg_graph_replay(ctx, graph, other));
        OK(rfg_graph_destroy(ctx, &graph));
    } else {
        if (_i == 1)
            OK(rfg_prepare_stream(ctx, stream));
        else
            OK(rfg_stream_set_workspace(ctx, stream, memory, rfg_workspace_size(ctx)));
        ck_assert_int_eq(hip->hipStreamBeginCapture((hipStream_t)stream, hipStreamCaptureModeGlobal), hipSuccess);
        OK(gemm(stream));
        OK(rfg_prepare_stream(ctx, stream)); /* nothing any more */
        ck_assert_int_eq(hip->hipStreamEndCapture((hipStream_t)stream, &captured), hipSuccess);
        ck_assert_int_eq(hip->hipGraphInstantiate(&exec, captured, NULL, NULL, 0), hipSuccess);
        ck_assert_int_eq(hip->hipGraphLaunch(exec, (hipStream_t)other), hipSuccess);
        ck_assert_int_eq(hip->hipGraphExecDestroy(exec), hipSuccess);
        ck_assert_int_eq(hip->hipGraphDestroy(captured), hipSuccess);
    }
    OK(rfg_stream_destroy(ctx, &other));
    OK(rfg_device_free(ctx, memory));
    close_device();
}
END_TEST

/* One value for all threads' streams, one more for NULL's. */
START_TEST(streams_of_no_one)
{
    open_device(FAKE);
    for (uintptr_t k = 1; k <= 2; k++) {
        rfg_stream special = (rfg_stream)k;
        const char *why = k == 1 ? "must be NULL" : "another stream in each thread";
        NAMED(gemm(special), why);
        NAMED(rfg_prepare_stream(ctx, special), why);
        NAMED(rfg_stream_set_workspace(ctx, special, NULL, 0), why);
        NAMED(rfg_stream_sync(ctx, special), why);
        NAMED(rfg_device_memset(ctx, y, 0, 4, special), why);
    }
    close_device();
}
END_TEST

/* Streams come and go: no more than 256 at a time, each time with a workspace of its own. */
START_TEST(many_streams)
{
    rfg_stream s[256];
    open_device(FAKE);
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
    rfg_stats st = RFG_STATS_INIT;
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

int main(void)
{
    Suite *su = suite_create("workspace");
    TCase *tc = tcase_create("workspace");
    more_devices();
    tcase_add_unchecked_fixture(tc, program_setup, program_teardown); /* one cache for all */
    tcase_set_timeout(tc, 60);
    ADD_TESTS(tc, streams_of_no_one, many_streams);
    ADD_LOOPS(tc, n_devices, workspace_given, ranges);
    ADD_LOOPS(tc, 3, counters_for_other_streams);
    ADD_LOOPS(tc, sizeof(bad_ranges) / sizeof(bad_ranges[0]), ranges_refused);
    suite_add_tcase(su, tc);
    return run_suite(su);
}
