/* SPDX-License-Identifier: MIT
 *
 * rfg/device.h: memory, copies, streams, captures and graphs, forks. (Workspaces: test_workspace.c. Every call of the
 * runtime fails once in test_faulty.c.) */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_case.h"
#include "dispatch/context.h"
#include "fakehip.h"
#include "tests/program.h"
#include "tests/suite.h"

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

static void *only_begins(void *arg)
{
    struct capturing *c = arg;
    c->st = rfg_stream_begin_capture(ctx, c->stream);
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

/* The stream goes while its capture, which another thread began, goes on: later ones don't wait for that. */
START_TEST(capture_goes_with_its_stream)
{
    struct capturing c = { 0 };
    pthread_t thread;
    rfg_graph *graph;
    open_device(devices[_i]);
    OK(rfg_stream_create(ctx, &c.stream));
    pthread_create(&thread, NULL, only_begins, &c);
    pthread_join(thread, NULL);
    ck_assert_int_eq(c.st, RFG_OK);
    (void)rfg_stream_destroy(ctx, &c.stream);
    OK(rfg_stream_begin_capture(ctx, stream));
    OK(rfg_stream_end_capture(ctx, stream, &graph));
    OK(rfg_graph_destroy(ctx, &graph));
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
    rfg_context_params p = { .size = sizeof(p), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "" };
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

int main(void)
{
    Suite *su = suite_create("device");
    TCase *tc = tcase_create("device");
    more_devices();
    tcase_add_unchecked_fixture(tc, program_setup, program_teardown); /* one cache for all */
    tcase_set_timeout(tc, 60);
    ADD_TESTS(tc, foreign_streams);
    ADD_LOOPS(tc, n_devices, memory, replays, capture_rules, forks);
    ADD_LOOPS(tc, 2, capture_goes_with_its_stream); /* not FAKE: its runtime lets nobody wait for such a stream */
    suite_add_tcase(su, tc);
    return run_suite(su);
}
