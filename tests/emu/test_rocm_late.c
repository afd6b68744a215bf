/* SPDX-License-Identifier: MIT
 *
 * Late streams (RFG_EMU_LATE=1) on the emulated libamdhip64 ($EMULATED_ROCM): what has run after which wait. */
#include "emu_compile.h"
#include "rocm_library.h"
#include "tests/suite.h"

static const char *const source =
    "#define I (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())\n"
    "extern \"C\" __global__ void put(unsigned *y, unsigned v) { y[I] = v; }\n";

enum { N = 256, BYTES = 4 * N };

static char *code;
static hipModule_t module;
static unsigned *y, *pinned, pageable[N];
static hipStream_t a, b, free_a, free_b; /* free: hipStreamNonBlocking */
static hipEvent_t event, later;

/* Once, before tests fork. */
static void compile(void)
{
    size_t size;
    code = emu_compile(source, "gfx942", "", &size);
}

static void start(void)
{
    setenv("RFG_EMU_LATE", "1", 1);
    rocm_open("MI300X:4");
    OK(CALL(hipModuleLoadData, hipModule_t *, const void *)(&module, code));
    OK(CALL(hipMalloc, void **, size_t)((void **)&y, BYTES));
    OK(CALL(hipHostMalloc, void **, size_t, unsigned)((void **)&pinned, BYTES, 0));
    OK(CALL(hipMemset, void *, int, size_t)(y, 0, BYTES));
    memset(pinned, 0, BYTES);
    OK(CALL(hipStreamCreate, hipStream_t *)(&a));
    OK(CALL(hipStreamCreate, hipStream_t *)(&b));
    OK(CALL(hipStreamCreateWithFlags, hipStream_t *, unsigned)(&free_a, hipStreamNonBlocking));
    OK(CALL(hipStreamCreateWithFlags, hipStream_t *, unsigned)(&free_b, hipStreamNonBlocking));
    OK(CALL(hipEventCreate, hipEvent_t *)(&event));
    OK(CALL(hipEventCreate, hipEvent_t *)(&later));
}

static void put(unsigned *p, unsigned v, hipStream_t s)
{
    hipFunction_t f;
    void *args[] = { &p, &v };
    OK(CALL(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)(&f, module, "put"));
    OK(CALL(hipModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
            hipStream_t, void **, void **)(f, N / 64, 1, 1, 64, 1, 1, 0, s, args, NULL));
}
static void copy(void *to, const void *from, hipStream_t s)
{
    OK(CALL(hipMemcpyAsync, void *, const void *, size_t, int, hipStream_t)(to, from, BYTES, hipMemcpyDefault, s));
}
static void record(hipEvent_t e, hipStream_t s)
{
    OK(CALL(hipEventRecord, hipEvent_t, hipStream_t)(e, s));
}
static void wait(hipStream_t s)
{
    OK(CALL(hipStreamWaitEvent, hipStream_t, hipEvent_t, unsigned)(s, event, 0));
}
static void finish(hipStream_t s)
{
    OK(CALL(hipStreamSynchronize, hipStream_t)(s));
}
static void all_are(const unsigned *p, unsigned v)
{
    for (int i = 0; i < N; i++)
        ck_assert_msg(p[i] == v, "%d is %u, not %u", i, p[i], v);
}

START_TEST(runs_when_it_is_waited_for)
{
    start();
    put(y, 1, free_a);
    copy(pinned, y, free_a);
    finish(free_b);
    all_are(pinned, 0);
    finish(free_a);
    all_are(pinned, 1);
    put(y, 2, free_a);
    copy(pinned, y, free_a);
    OK(CALL(hipDeviceSynchronize, void)());
    all_are(pinned, 2);
    put(y, 3, free_a);
    copy(pinned, y, free_a);
    OK(CALL(hipCtxSynchronize, void)());
    all_are(pinned, 3);
}
END_TEST

START_TEST(other_streams_wait_by_events)
{
    start();
    put(y, 1, free_a);
    copy(pinned, y, free_b);
    finish(free_b);
    all_are(pinned, 0); /* nothing said that the kernel comes first */
    record(event, free_a);
    put(y, 2, free_a);
    wait(free_b);
    copy(pinned, y, free_b);
    finish(free_b);
    all_are(pinned, 1); /* as far as the event, and no further */
    finish(free_a);
    record(event, free_a);
    put(y, 3, free_b);
    wait(free_b);          /* of what is over */
    record(event, free_b); /* a later record does not move that wait */
    finish(free_b);
    copy(pinned, y, free_a);
    finish(free_a);
    all_are(pinned, 3);
}
END_TEST

START_TEST(the_host_waits_by_events)
{
    float ms;
    start();
    record(event, free_a);
    put(y, 1, free_a);
    copy(pinned, y, free_a);
    record(later, free_a);
    put(y, 2, free_a);
    IS(CALL(hipEventElapsedTime, float *, hipEvent_t, hipEvent_t)(&ms, event, later), hipErrorNotReady);
    OK(CALL(hipEventSynchronize, hipEvent_t)(event));
    all_are(pinned, 0);
    OK(CALL(hipEventSynchronize, hipEvent_t)(later));
    all_are(pinned, 1);
    OK(CALL(hipEventElapsedTime, float *, hipEvent_t, hipEvent_t)(&ms, event, later));
    ck_assert(ms >= 0);
    copy(pinned, y, free_b);
    finish(free_b);
    all_are(pinned, 1); /* the second kernel has not run */
}
END_TEST

START_TEST(the_default_stream_waits_for_blocking_ones)
{
    start();
    put(y, 1, free_a);
    OK(CALL(hipMemcpy, void *, const void *, size_t, int)(pageable, y, BYTES, hipMemcpyDefault));
    all_are(pageable, 0);
    finish(free_a);
    put(y, 2, a);
    OK(CALL(hipMemcpy, void *, const void *, size_t, int)(pageable, y, BYTES, hipMemcpyDefault));
    all_are(pageable, 2);
    put(y, 3, a);
    put(y, 4, NULL);
    copy(pinned, y, b);
    finish(b); /* after the default stream's kernel, which comes after a's */
    all_are(pinned, 4);
    put(y, 5, a);
    finish(NULL);
    copy(pinned, y, free_a);
    finish(free_a);
    all_are(pinned, 5);
}
END_TEST

START_TEST(pageable_memory_is_copied_at_once)
{
    start();
    put(y, 1, free_a);
    copy(pageable, y, free_a);
    all_are(pageable, 1);
    for (int i = 0; i < N; i++)
        pageable[i] = 2;
    copy(y, pageable, free_a);
    memset(pageable, 0, BYTES);
    copy(pinned, y, free_a);
    finish(free_a);
    all_are(pinned, 2);
}
END_TEST

START_TEST(graphs_run_late)
{
    hipGraph_t graph;
    hipGraphExec_t exec;
    start();
    OK(CALL(hipStreamBeginCapture, hipStream_t, int)(free_a, hipStreamCaptureModeGlobal));
    put(y, 1, free_a);
    copy(pinned, y, free_a);
    OK(CALL(hipStreamEndCapture, hipStream_t, hipGraph_t *)(free_a, &graph));
    OK(CALL(hipGraphInstantiate, hipGraphExec_t *, hipGraph_t, void *, char *, size_t)(&exec, graph, NULL, NULL, 0));
    OK(CALL(hipGraphLaunch, hipGraphExec_t, hipStream_t)(exec, free_b));
    OK(CALL(hipGraphDestroy, hipGraph_t)(graph));
    OK(CALL(hipGraphExecDestroy, hipGraphExec_t)(exec));
    all_are(pinned, 0);
    finish(free_b);
    all_are(pinned, 1);
}
END_TEST

static void store_one(void *p)
{
    *(unsigned *)p = 1;
}

START_TEST(what_goes_away_while_work_is_left)
{
    unsigned called = 0, *z;
    start();
    OK(CALL(hipLaunchHostFunc, hipStream_t, void (*)(void *), void *)(free_b, store_one, &called));
    record(event, free_b);
    wait(free_a); /* for a stream that is then destroyed, by an event that is */
    copy(pinned, y, free_a);
    record(later, free_a);
    ck_assert_uint_eq(called, 0);
    OK(CALL(hipEventDestroy, hipEvent_t)(event));
    OK(CALL(hipEventDestroy, hipEvent_t)(later));
    OK(CALL(hipStreamDestroy, hipStream_t)(free_b));
    ck_assert_uint_eq(called, 1);
    finish(free_a);
    OK(CALL(hipMalloc, void **, size_t)((void **)&z, BYTES));
    put(z, 1, free_a);
    OK(CALL(hipFree, void *)(z)); /* waits for the device */
    put(y, 1, free_a);
    copy(pinned, y, free_a);
    OK(CALL(hipModuleUnload, hipModule_t)(module));
    all_are(pinned, 1);
}
END_TEST

START_TEST(a_fault_is_told_by_who_waits)
{
    setenv("EMULATED_ROCM_ON_FAULT", "sticky", 1);
    start();
    put(y + N - 1, 1, free_a); /* beyond the allocation's end */
    finish(free_b);
    IS(CALL(hipStreamSynchronize, hipStream_t)(free_a), hipErrorIllegalAddress);
}
END_TEST

int main(void)
{
    if (!rocm_is_there() || !emu_can_compile())
        return 77;
    Suite *s = suite_create("rocm_late");
    TCase *tc = tcase_create("late");
    tcase_add_unchecked_fixture(tc, compile, NULL);
    ADD_TESTS(tc, runs_when_it_is_waited_for, other_streams_wait_by_events, the_host_waits_by_events,
              the_default_stream_waits_for_blocking_ones, pageable_memory_is_copied_at_once, graphs_run_late,
              what_goes_away_while_work_is_left, a_fault_is_told_by_who_waits);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
