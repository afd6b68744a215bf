/* SPDX-License-Identifier: MIT
 *
 * The rules in which ROCm releases differ, on the emulated libamdhip64 of one ($EMULATED_ROCM): captures, streams, code
 * objects, launches, graphs. What is expected stands here, apart from emu/rocm/versions.def. */
#include <pthread.h>

#include "emu_compile.h"
#include "rocm_library.h"
#include "tests/suite.h"

#define SINCE(n) (release->number >= (n))

static hipStream_t new_stream(unsigned flags)
{
    hipStream_t s;
    OK(CALL(hipStreamCreateWithFlags, hipStream_t *, unsigned)(&s, flags));
    return s;
}

static void begin(hipStream_t s, hipStreamCaptureMode mode)
{
    OK(CALL(hipStreamBeginCapture, hipStream_t, hipStreamCaptureMode)(s, mode));
}

/* Ends it, and expects what a capture that a call broke, or didn't, gives. */
static void end(hipStream_t s, bool broken)
{
    hipGraph_t g = NULL;
    IS(CALL(hipStreamEndCapture, hipStream_t, hipGraph_t *)(s, &g),
       broken ? hipErrorStreamCaptureInvalidated : hipSuccess);
    ck_assert((g == NULL) == broken);
    if (g)
        OK(CALL(hipGraphDestroy, hipGraph_t)(g));
}

/* ---- captures --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    hipError_t error;
    int since;    /* refused since that release */
    bool relaxed; /* in relaxed mode too */
} during[] = {
    { "hipMalloc", hipErrorStreamCaptureUnsupported, 0, false },
    { "hipFree", hipErrorStreamCaptureUnsupported, 0, false },
    { "hipHostMalloc", hipErrorStreamCaptureUnsupported, 0, false },
    { "hipDeviceSynchronize", hipErrorStreamCaptureUnsupported, 60200, false },
    { "hipMemcpy", hipErrorStreamCaptureImplicit, 0, true },
    { "hipMemset", hipErrorStreamCaptureImplicit, 0, true },
};

static hipError_t run(const char *what, void *memory)
{
    void *p;
    int n = 0;
    if (!strcmp(what, "hipMalloc"))
        return CALL(hipMalloc, void **, size_t)(&p, 16);
    if (!strcmp(what, "hipFree"))
        return CALL(hipFree, void *)(memory);
    if (!strcmp(what, "hipHostMalloc"))
        return CALL(hipHostMalloc, void **, size_t, unsigned)(&p, 16, 0);
    if (!strcmp(what, "hipDeviceSynchronize"))
        return CALL(hipDeviceSynchronize, void)();
    if (!strcmp(what, "hipMemcpy"))
        return CALL(hipMemcpy, void *, const void *, size_t, int)(memory, &n, 4, hipMemcpyHostToDevice);
    return CALL(hipMemset, void *, int, size_t)(memory, 1, 4);
}

START_TEST(calls_during_a_capture)
{
    void *memory;
    rocm_open("MI300X:4");
    OK(CALL(hipMalloc, void **, size_t)(&memory, 16));
    hipStream_t s = new_stream(hipStreamNonBlocking);
    begin(s, hipStreamCaptureModeGlobal);
    hipError_t e = run(during[_i].what, memory);
    bool refused = SINCE(during[_i].since);
    ck_assert_msg(e == (refused ? during[_i].error : hipSuccess), "%s: %d", during[_i].what, e);
    end(s, refused && SINCE(60200)); /* before, the capture went on */
    if (strcmp(during[_i].what, "hipFree") == 0)
        return;
    begin(s, hipStreamCaptureModeRelaxed);
    e = run(during[_i].what, memory);
    refused = during[_i].relaxed && SINCE(60200); /* before, captures of global mode alone were looked for */
    ck_assert_msg(e == (refused ? during[_i].error : hipSuccess), "%s, relaxed: %d", during[_i].what, e);
    end(s, refused);
}
END_TEST

START_TEST(legacy_stream_beside_a_capture)
{
    void *memory;
    hipStreamCaptureStatus status;
    rocm_open("MI300X:4");
    OK(CALL(hipMalloc, void **, size_t)(&memory, 16));
    hipStream_t blocking = new_stream(hipStreamDefault), other = new_stream(hipStreamNonBlocking);
    begin(other, hipStreamCaptureModeRelaxed);
    OK(CALL(hipMemsetAsync, void *, int, size_t, hipStream_t)(memory, 1, 4, NULL)); /* it doesn't wait for that one */
    end(other, false);
    begin(blocking, hipStreamCaptureModeRelaxed);
    IS(CALL(hipStreamIsCapturing, hipStream_t, hipStreamCaptureStatus *)(NULL, &status), hipErrorStreamCaptureImplicit);
    IS(CALL(hipMemsetAsync, void *, int, size_t, hipStream_t)(memory, 1, 4, NULL), hipErrorStreamCaptureImplicit);
    end(blocking, SINCE(60200));
}
END_TEST

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* What doesn't fit, or was freed, is an error, not a crash, and nothing is copied. */
START_TEST(copies_that_do_not_fit)
{
    enum { SIZE = 5000, PITCH = 500, ROWS = 10, WIDTH = 400 };
    static unsigned char host[SIZE], back[2 * SIZE];
    unsigned char *x, *gone;
    const int h2d = hipMemcpyHostToDevice, d2h = hipMemcpyDeviceToHost, any = hipMemcpyDefault;
    rocm_open("MI300X:4");
    OK(CALL(hipMalloc, void **, size_t)((void **)&x, SIZE));
    OK(CALL(hipMalloc, void **, size_t)((void **)&gone, SIZE));
    OK(CALL(hipMemset, void *, int, size_t)(x, 1, SIZE));
    OK(CALL(hipFree, void *)(gone));
#define COPY(...)       CALL(hipMemcpy, void *, const void *, size_t, int)(__VA_ARGS__)
#define COPY_2D(...)    CALL(hipMemcpy2D, void *, size_t, const void *, size_t, size_t, size_t, int)(__VA_ARGS__)
#define COPY_LATER(...) CALL(hipMemcpyAsync, void *, const void *, size_t, int, hipStream_t)(__VA_ARGS__)
    OK(COPY_2D(x, PITCH, back, PITCH, WIDTH, 0, h2d));
    OK(COPY_2D(back, WIDTH, x, PITCH, WIDTH, ROWS, d2h));
    ck_assert(back[0] == 1 && back[ROWS * WIDTH - 1] == 1 && back[ROWS * WIDTH] == 0);
    IS(COPY_2D(x, PITCH, host, WIDTH, WIDTH, ROWS + 1, h2d), hipErrorInvalidValue);
    IS(COPY_2D(x + PITCH, PITCH, host, WIDTH, WIDTH, ROWS, any), hipErrorInvalidValue);
    IS(COPY_2D(x, PITCH + 20, host, WIDTH, WIDTH, ROWS, h2d), hipErrorInvalidValue);
    IS(COPY_2D(x, SIZE_MAX / 2, host, WIDTH, WIDTH, ROWS, h2d), hipErrorInvalidValue);
    IS(COPY_2D(back, WIDTH, x, PITCH, WIDTH, ROWS + 1, d2h), hipErrorInvalidValue);
    IS(COPY_2D(back, WIDTH, gone, PITCH, WIDTH, ROWS, d2h), hipErrorInvalidValue);
    IS(COPY_2D(NULL, WIDTH, x, PITCH, WIDTH, ROWS, d2h), hipErrorInvalidValue);
    IS(COPY(back, gone, 16, d2h), hipErrorInvalidValue);
    IS(COPY(back, gone + 100, 16, any), hipErrorInvalidValue);
    IS(COPY(gone, host, 16, h2d), hipErrorInvalidValue);
    IS(COPY(x, gone, 16, hipMemcpyDeviceToDevice), hipErrorInvalidValue);
    IS(COPY(x + SIZE, host, 16, h2d), hipErrorInvalidValue);
    IS(COPY(x - 16, host, 16, h2d), hipErrorInvalidValue);
    IS(COPY(back, x + SIZE + 64, 16, d2h), hipErrorInvalidValue);
    IS(COPY_LATER(gone, x, 16, d2h, NULL), hipErrorInvalidValue); /* "the host's" */
    IS(COPY_LATER(x, gone, 16, h2d, NULL), hipErrorInvalidValue);
    IS(CALL(hipMemcpyHtoD, void *, void *, size_t)(x, gone, 16), hipErrorInvalidValue);
    IS(CALL(hipMemcpyDtoH, void *, void *, size_t)(gone, x, 16), hipErrorInvalidValue);
    IS(CALL(hipMemset, void *, int, size_t)(gone, 1, 16), hipErrorInvalidValue);
    IS(CALL(hipFree, void *)(gone), hipErrorInvalidValue);
    for (int i = 0; i < SIZE; i++)
        if (x[i] != 1)
            ck_abort_msg("byte %d was written", i);
    OK(CALL(hipFree, void *)(x));
}
END_TEST

/* ---- streams ---------------------------------------------------------------------------------------------------- */

START_TEST(streams_of_another_runtime)
{
    char other[64] = { 0 };
    hipStream_t foreign = (hipStream_t)(void *)other;
    hipStreamCaptureStatus status;
    rocm_open("MI300X:4");
    IS(CALL(hipStreamSynchronize, hipStream_t)(foreign), hipErrorContextIsDestroyed);
    IS(CALL(hipStreamDestroy, hipStream_t)(foreign), hipErrorContextIsDestroyed);
    IS(CALL(hipStreamBeginCapture, hipStream_t, int)(foreign, 0), hipErrorContextIsDestroyed);
    IS(CALL(hipStreamIsCapturing, hipStream_t, hipStreamCaptureStatus *)(foreign, &status), hipErrorContextIsDestroyed);
    /* hipStreamLegacy */
    IS(CALL(hipStreamSynchronize, hipStream_t)((hipStream_t)1), SINCE(60200) ? hipSuccess : hipErrorContextIsDestroyed);
}
END_TEST

static void *captures_its_own(void *ready)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
    OK(CALL(hipStreamIsCapturing, hipStream_t, hipStreamCaptureStatus *)(hipStreamPerThread, &status));
    ck_assert_int_eq(status, hipStreamCaptureStatusNone);
    begin(hipStreamPerThread, hipStreamCaptureModeThreadLocal);
    end(hipStreamPerThread, false);
    return ready;
}

START_TEST(stream_per_thread)
{
    pthread_t t;
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    rocm_open("MI300X:4");
    OK(CALL(hipStreamSynchronize, hipStream_t)(hipStreamPerThread));
    begin(hipStreamPerThread, hipStreamCaptureModeThreadLocal);
    OK(CALL(hipStreamIsCapturing, hipStream_t, hipStreamCaptureStatus *)(hipStreamPerThread, &status));
    ck_assert_int_eq(status, hipStreamCaptureStatusActive);
    ck_assert_int_eq(pthread_create(&t, NULL, captures_its_own, NULL), 0);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    end(hipStreamPerThread, false);
    IS(CALL(hipStreamDestroy, hipStream_t)(hipStreamPerThread), hipErrorInvalidHandle);
}
END_TEST

/* ---- modules and launches --------------------------------------------------------------------------------------- */

static const char *const source = "extern \"C\" __global__ void one(unsigned *y, unsigned x)\n"
                                  "{\n"
                                  "    y[__builtin_amdgcn_workitem_id_x()] = x;\n"
                                  "}\n";

static hipError_t load(const char *arch, const char *options, hipModule_t *m)
{
    size_t size;
    char *code = emu_compile(source, arch, options, &size);
    hipError_t e = CALL(hipModuleLoadData, hipModule_t *, const void *)(m, code);
    free(code);
    return e;
}

START_TEST(code_object_versions)
{
    hipModule_t m;
    rocm_open("MI300X:4");
    OK(load("gfx942", "-mcode-object-version=4 --no-gpu-bundle-output", &m));
    OK(load("gfx942", "-mcode-object-version=5", &m));
    IS(load("gfx942", "-mcode-object-version=6 --no-gpu-bundle-output", &m),
       SINCE(60300) ? hipSuccess : hipErrorNoBinaryForGpu);
    IS(load("gfx90a", "", &m), hipErrorNoBinaryForGpu);
    OK(load("gfx942:sramecc+:xnack-", "--no-gpu-bundle-output", &m));
    IS(load("gfx942:xnack+", "--no-gpu-bundle-output", &m), hipErrorNoBinaryForGpu);
    IS(load("gfx942:sramecc-", "--no-gpu-bundle-output", &m), hipErrorNoBinaryForGpu);
}
END_TEST

START_TEST(launches)
{
    hipModule_t m;
    hipFunction_t f;
    void *y, *args[2];
    unsigned x = 7, back[4];
    char other[64] = { 0 };
    rocm_open("MI300X:4");
    OK(CALL(hipMalloc, void **, size_t)(&y, 4096));
    OK(load("gfx942", "", &m));
    OK(CALL(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)(&f, m, "one"));
    args[0] = &y;
    args[1] = &x;
#define LAUNCH(gx, bx, lds, stream)                                                                                    \
    CALL(hipModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,   \
         hipStream_t, void **, void **)                                                                                \
    (f, gx, 1, 1, bx, 1, 1, lds, stream, args, NULL)
    OK(LAUNCH(1, 4, 0, NULL));
    OK(CALL(hipMemcpy, void *, const void *, size_t, int)(back, y, sizeof(back), hipMemcpyDefault));
    ck_assert(back[0] == 7 && back[3] == 7);
    IS(LAUNCH(0, 4, 0, NULL), hipErrorInvalidValue);
    IS(LAUNCH(1, 0, 0, NULL), SINCE(60200) ? hipErrorInvalidConfiguration : hipErrorInvalidValue);
    IS(LAUNCH(1, 1025, 0, NULL), SINCE(70000) ? hipErrorInvalidConfiguration : hipErrorInvalidValue);
    IS(LAUNCH(1u << 23, 1024, 0, NULL), hipErrorInvalidConfiguration);
    IS(LAUNCH(1, 4, 65537, NULL), hipErrorInvalidValue);
    IS(LAUNCH(1, 4, 0, (hipStream_t)(void *)other), SINCE(70000) ? hipErrorContextIsDestroyed : hipErrorInvalidValue);
    /* From 6.3 it takes functions of the host's alone. */
    IS(CALL(hipFuncSetAttribute, const void *, int, int)((void *)f, hipFuncAttributeMaxDynamicSharedMemorySize, 1024),
       SINCE(60300) ? hipErrorInvalidSymbol : hipSuccess);
}
END_TEST

/* What graphs add to the time between two events. */
START_TEST(graph_ends)
{
    enum { NODES = 50 };
    hipGraph_t g;
    hipGraphExec_t exec;
    hipEvent_t a, b;
    void *y;
    double least[2] = { 1e9, 1e9 };
    rocm_open("MI300X:4");
    hipStream_t s = new_stream(hipStreamNonBlocking);
    OK(CALL(hipMalloc, void **, size_t)(&y, 4096));
    OK(CALL(hipEventCreate, hipEvent_t *)(&a));
    OK(CALL(hipEventCreate, hipEvent_t *)(&b));
    for (int empty = 0; empty < 2; empty++) {
        begin(s, hipStreamCaptureModeGlobal);
        for (int i = 0; i < (empty ? 1 : NODES); i++)
            OK(CALL(hipMemsetAsync, void *, int, size_t, hipStream_t)(y, 1, 4, s));
        OK(CALL(hipStreamEndCapture, hipStream_t, hipGraph_t *)(s, &g));
        OK(CALL(hipGraphInstantiate, hipGraphExec_t *, hipGraph_t, void *, char *, size_t)(&exec, g, NULL, NULL, 0));
        for (int i = 0; i < 20; i++) {
            float ms;
            OK(CALL(hipEventRecord, hipEvent_t, hipStream_t)(a, s));
            OK(CALL(hipGraphLaunch, hipGraphExec_t, hipStream_t)(exec, s));
            OK(CALL(hipEventRecord, hipEvent_t, hipStream_t)(b, s));
            OK(CALL(hipEventElapsedTime, float *, hipEvent_t, hipEvent_t)(&ms, a, b));
            least[empty] = ms * 1e3 < least[empty] ? ms * 1e3 : least[empty];
        }
    }
    if (SINCE(60300)) /* once a graph */
        ck_assert_msg(least[1] >= 29, "%g us", least[1]);
    else /* each node is submitted */
        ck_assert_msg(least[0] - least[1] >= 3.9 * (NODES - 1), "%g and %g us", least[0], least[1]);
}
END_TEST

int main(void)
{
    if (!rocm_is_there())
        return 77;
    Suite *s = suite_create("rocm_rules");
    TCase *tc = test_case(s, "streams", NULL, NULL);
    ADD_TESTS(tc, legacy_stream_beside_a_capture, streams_of_another_runtime, stream_per_thread, graph_ends,
              copies_that_do_not_fit);
    ADD_LOOPS(tc, sizeof(during) / sizeof(during[0]), calls_during_a_capture);
    tc = tcase_create("kernels");
    if (emu_can_compile()) {
        ADD_TESTS(tc, code_object_versions, launches);
    }
    suite_add_tcase(s, tc);
    return run_suite(s);
}
