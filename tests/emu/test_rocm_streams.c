/* SPDX-License-Identifier: MIT
 *
 * Races between streams, and between the host and copies, on the emulated libamdhip64 ($EMULATED_ROCM) with
 * RFG_EMU_CHECKS=+streams: programs that break each rule and, beside each, one that just doesn't. */
#include <fcntl.h>
#include <unistd.h>

#include "emu_compile.h"
#include "rocm_library.h"
#include "tests/suite.h"

static const char *const source =
    "#define I (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())\n"
    "extern \"C\" __global__ void put(unsigned *y, unsigned n) { if (I < n) y[I] = I; }\n"
    "extern \"C\" __global__ void evens(unsigned *y, unsigned n) { if (2 * I < n) y[2 * I] = I; }\n"
    "extern \"C\" __global__ void odds(unsigned *y, unsigned n) { if (2 * I + 1 < n) y[2 * I + 1] = I; }\n"
    "extern \"C\" __global__ void get(unsigned *y, unsigned n) { if (I < n) y[n + I] = y[I]; }\n"
    "extern \"C\" __global__ void count(unsigned *y, unsigned n) { __hip_atomic_fetch_add(y, n, __ATOMIC_RELAXED,"
    " __HIP_MEMORY_SCOPE_AGENT); }\n";

enum { N = 256, BYTES = 4 * N };

static hipModule_t module;
static unsigned *y, *z, *pinned, pageable[N];
static hipStream_t a, b, free_a, free_b; /* free: hipStreamNonBlocking */
static hipEvent_t event;

static char *code;

/* Once, before tests fork. */
static void compile(void)
{
    size_t size;
    code = emu_compile(source, "gfx942", "", &size);
}

static void start(void)
{
    setenv("RFG_EMU_CHECKS", "+streams", 1);
    rocm_open("MI300X:4");
    OK(CALL(hipModuleLoadData, hipModule_t *, const void *)(&module, code));
    OK(CALL(hipMalloc, void **, size_t)((void **)&y, 4 * BYTES));
    OK(CALL(hipMalloc, void **, size_t)((void **)&z, 4 * BYTES));
    OK(CALL(hipHostMalloc, void **, size_t, unsigned)((void **)&pinned, BYTES, 0));
    OK(CALL(hipMemset, void *, int, size_t)(y, 0, 4 * BYTES));
    OK(CALL(hipMemset, void *, int, size_t)(z, 0, 4 * BYTES));
    hipStream_t *blocking[] = { &a, &b }, *others[] = { &free_a, &free_b };
    for (int i = 0; i < 2; i++) {
        OK(CALL(hipStreamCreate, hipStream_t *)(blocking[i]));
        OK(CALL(hipStreamCreateWithFlags, hipStream_t *, unsigned)(others[i], hipStreamNonBlocking));
    }
    OK(CALL(hipEventCreate, hipEvent_t *)(&event));
}

static void kernel(const char *name, unsigned *p, hipStream_t s)
{
    hipFunction_t f;
    unsigned n = N;
    void *args[] = { &p, &n };
    OK(CALL(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)(&f, module, name));
    (void)CALL(hipModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
               unsigned, hipStream_t, void **, void **)(f, N / 64, 1, 1, 64, 1, 1, 0, s, args, NULL);
}
static void copy(void *to, const void *from, hipStream_t s)
{
    (void)CALL(hipMemcpyAsync, void *, const void *, size_t, int, hipStream_t)(to, from, BYTES, hipMemcpyDefault, s);
}
static void clear(void *p, hipStream_t s)
{
    (void)CALL(hipMemsetAsync, void *, int, size_t, hipStream_t)(p, 0, BYTES, s);
}
static void record(hipStream_t s)
{
    OK(CALL(hipEventRecord, hipEvent_t, hipStream_t)(event, s));
}
static void wait(hipStream_t s)
{
    OK(CALL(hipStreamWaitEvent, hipStream_t, hipEvent_t, unsigned)(s, event, 0));
}
static void finish(hipStream_t s)
{
    OK(CALL(hipStreamSynchronize, hipStream_t)(s));
}
static void finish_all(void)
{
    OK(CALL(hipDeviceSynchronize, void)());
}

/* ---- between streams --------------------------------------------------------------------------------------------- */

static void nothing_between(void)
{
    kernel("put", y, a);
    kernel("get", y, b);
}
static void an_event_between(void)
{
    kernel("put", y, a);
    record(a);
    wait(b);
    kernel("get", y, b);
}
static void an_event_too_early(void)
{
    record(a);
    kernel("put", y, a);
    wait(b);
    kernel("get", y, b);
}
static void a_wait_of_another_stream(void)
{
    kernel("put", y, a);
    record(a);
    wait(free_a);
    kernel("get", y, b);
}
static void events_in_a_chain(void)
{
    kernel("put", y, a);
    record(a);
    wait(free_a);
    record(free_a);
    wait(b);
    kernel("get", y, b);
}
static void the_host_waits(void)
{
    kernel("put", y, a);
    finish(a);
    kernel("get", y, b);
}
static void the_host_waits_for_the_event(void)
{
    kernel("put", y, a);
    record(a);
    OK(CALL(hipEventSynchronize, hipEvent_t)(event));
    kernel("get", y, b);
}
static void the_host_waits_for_another(void)
{
    kernel("put", y, a);
    finish(free_b);
    kernel("get", y, b);
}
static void the_device_waits(void)
{
    kernel("put", y, free_a);
    finish_all();
    kernel("get", y, free_b);
}
static void by_the_default_stream(void)
{
    kernel("put", y, a);
    kernel("get", y, NULL);
    kernel("put", y, b);
}
static void not_blocking(void)
{
    kernel("put", y, free_a);
    kernel("get", y, NULL);
}
static void a_copy_blocks(void)
{
    kernel("put", y, free_a);
    OK(CALL(hipMemcpy, void *, const void *, size_t, int)(pageable, z, BYTES, hipMemcpyDefault));
    kernel("get", y, free_b);
}
static void copies_too(void)
{
    copy(z, y, a);
    copy(y, z + N, b);
}
static void memsets_too(void)
{
    kernel("put", y, a);
    clear(y, b);
}
static void both_read(void)
{
    copy(z, y, a);
    copy(z + N, y, b);
}
static void other_words(void)
{
    kernel("evens", y, a);
    kernel("odds", y, b);
}
static void the_same_words(void)
{
    kernel("evens", y, a);
    kernel("evens", y, b);
}
static void other_ends(void)
{
    kernel("put", y, a);
    kernel("put", y + N, b);
}
static void by_one_word(void)
{
    kernel("put", y, a);
    kernel("put", y + N - 1, b);
}
static void atomics(void)
{
    kernel("count", y, a);
    kernel("count", y, b);
}
static void an_atomic_and_a_read(void)
{
    kernel("count", y, a);
    copy(z, y, b);
}
static void one_stream(void)
{
    for (int i = 0; i < 3; i++) {
        kernel("put", y, a);
        kernel("get", y, a);
        copy(z, y, a);
    }
}
static void graphs(bool ordered)
{
    hipGraph_t graph;
    hipGraphExec_t exec;
    OK(CALL(hipStreamBeginCapture, hipStream_t, int)(a, hipStreamCaptureModeGlobal));
    kernel("put", y, a);
    kernel("get", y, a);
    OK(CALL(hipStreamEndCapture, hipStream_t, hipGraph_t *)(a, &graph));
    OK(CALL(hipGraphInstantiate, hipGraphExec_t *, hipGraph_t, hipGraphNode_t *, char *, size_t)(&exec, graph, NULL,
                                                                                                 NULL, 0));
    (void)CALL(hipGraphLaunch, hipGraphExec_t, hipStream_t)(exec, a);
    (void)CALL(hipGraphLaunch, hipGraphExec_t, hipStream_t)(exec, a);
    if (ordered) {
        record(a);
        wait(b);
    }
    (void)CALL(hipGraphLaunch, hipGraphExec_t, hipStream_t)(exec, b);
}
static void graphs_in_order(void)
{
    graphs(true);
}
static void graphs_at_once(void)
{
    graphs(false);
}
static void freed_in_order(void)
{
    kernel("put", y, a);
    OK(CALL(hipFreeAsync, void *, hipStream_t)(y, a));
}
static void freed_by_another(void)
{
    kernel("put", y, a);
    (void)CALL(hipFreeAsync, void *, hipStream_t)(y, b);
}
static void freed_after_waiting(void)
{
    kernel("put", y, free_a);
    OK(CALL(hipFree, void *)(y));
    kernel("get", z, free_b);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static void changed_at_once(void)
{
    copy(y, pinned, a);
    pinned[N - 1]++;
    finish(a);
}
static void changed_after_waiting(void)
{
    copy(y, pinned, a);
    finish(a);
    pinned[N - 1]++;
    finish(a);
}
static void changed_after_another(void)
{
    copy(y, pinned, a);
    finish(free_a);
    pinned[N - 1]++;
    finish_all();
}
static void a_result_changed(void)
{
    copy(pinned, y, a);
    pinned[0]++;
    finish_all();
}
static void changed_by_the_stream(void)
{
    copy(pinned, y, a);
    kernel("put", pinned, a);
    copy(z, pinned, a);
    finish(a);
}
static void add(void *p)
{
    ++*(unsigned *)p;
}
static void changed_by_a_function(void)
{
    copy(pinned, y, a);
    OK(CALL(hipLaunchHostFunc, hipStream_t, void (*)(void *), void *)(a, add, pinned));
    copy(z, pinned, a);
    finish(a);
}
static void pageable_is_copied_at_once(void)
{
    copy(y, pageable, a);
    pageable[0]++;
    finish(a);
}
static void unregistered(bool waits)
{
    unsigned *p = aligned_alloc(4096, 4096);
    memset(p, 0, 4096);
    OK(CALL(hipHostRegister, void *, size_t, unsigned)(p, 4096, 0));
    copy(y, p, a);
    if (waits)
        finish(a);
    OK(CALL(hipHostUnregister, void *)(p));
    free(p);
}
static void unregistered_at_once(void)
{
    unregistered(false);
}
static void unregistered_after_waiting(void)
{
    unregistered(true);
}

static const struct {
    void (*program)(void);
    const char *report; /* NULL: none */
} cases[] = {
    { nothing_between, "stream-race: kernel get on stream" },
    { an_event_between, NULL },
    { an_event_too_early, "stream-race: kernel get on stream" },
    { a_wait_of_another_stream, "stream-race: kernel get on stream" },
    { events_in_a_chain, NULL },
    { the_host_waits, NULL },
    { the_host_waits_for_the_event, NULL },
    { the_host_waits_for_another, "stream-race: kernel get on stream" },
    { the_device_waits, NULL },
    { by_the_default_stream, NULL },
    { not_blocking, "stream-race: kernel get on the default stream" },
    { a_copy_blocks, "stream-race: kernel get on stream" },
    { copies_too, "stream-race: hipMemcpyAsync of 1024 bytes on stream" },
    { memsets_too, "stream-race: hipMemsetAsync of 1024 bytes on stream" },
    { both_read, NULL },
    { other_words, NULL },
    { the_same_words, "stream-race: kernel evens on stream" },
    { other_ends, NULL },
    { by_one_word, "bytes 1020 to 1023 of allocation" },
    { atomics, NULL },
    { an_atomic_and_a_read, "which kernel count on stream" },
    { one_stream, NULL },
    { graphs_in_order, NULL },
    { graphs_at_once, "stream-race: kernel put on stream" },
    { freed_in_order, NULL },
    { freed_by_another, "stream-race: hipFreeAsync on stream" },
    { freed_after_waiting, NULL },
    { changed_at_once, "host-race: the host changed bytes of the 1024" },
    { changed_after_waiting, NULL },
    { changed_after_another, "host-race: the host changed bytes of the 1024" },
    { a_result_changed, "host-race: the host changed bytes of the 1024" },
    { changed_by_the_stream, NULL },
    { changed_by_a_function, NULL },
    { pageable_is_copied_at_once, NULL },
    { unregistered_at_once, "host-race: hipHostUnregister of 4096 bytes" },
    { unregistered_after_waiting, NULL },
};
#define N_CASES (int)(sizeof(cases) / sizeof(cases[0]))

START_TEST(reported_or_not)
{
    static char said[1 << 16];
    char path[] = "/tmp/rfg-streams-XXXXXX";
    int fd = mkstemp(path), err = dup(2);
    ck_assert(fd >= 0 && err >= 0);
    unlink(path);
    start();
    dup2(fd, 2);
    cases[_i].program();
    finish_all();
    dup2(err, 2);
    ssize_t n = pread(fd, said, sizeof(said) - 1, 0);
    said[n > 0 ? n : 0] = 0;
    if (cases[_i].report)
        ck_assert_msg(strstr(said, cases[_i].report) != NULL, "case %d: '%s' isn't in: %s", _i, cases[_i].report, said);
    else
        ck_assert_msg(!*said, "case %d: %s", _i, said);
}
END_TEST

/* Without the check nothing of it is said. */
START_TEST(only_on_request)
{
    start();
    setenv("RFG_EMU_CHECKS", "+nan", 1);
    kernel("put", y, a);
    kernel("get", y, b);
    copy(y, pinned, a);
    pinned[0]++;
    finish_all();
    OK(CALL(hipGetLastError, void)());
}
END_TEST

int main(void)
{
    if (!rocm_is_there() || !emu_can_compile())
        return 77;
    Suite *s = suite_create("rocm_streams");
    TCase *tc = tcase_create("programs");
    tcase_add_unchecked_fixture(tc, compile, NULL);
    ADD_TESTS(tc, only_on_request);
    ADD_LOOPS(tc, N_CASES, reported_or_not);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
