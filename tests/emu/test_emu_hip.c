/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU as a HIP runtime: names, memory, streams, events, capture. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "emu_hip_case.h"

/* ---- devices ----------------------------------------------------------------------------------------------------- */

START_TEST(names)
{
    static const struct {
        const char *name, *word;
    } bad[] = { { "gfx906", "'gfx906' is not emulated" },
                { "gfx942x", "gfx942x" },
                { "", "''" },
                { "gfx90a:", "''" },
                { "gfx90a:0", "'0'" },
                { "gfx90a:-3", "'-3'" },
                { "gfx90a:12x", "12x" },
                { "gfx90a:70000", "from 1 to 65535" },
                { "sm_90", "sm_90" } };
    char error[256];
    int count = -1;
    hip = rfg_hip_emu(NULL);
    IS(hip->hipGetDeviceCount(&count), hipErrorNoDevice);
    ck_assert_int_eq(count, 0);
    IS(hip->hipSetDevice(0), hipErrorInvalidDevice);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(rfg_emu_open(bad[i].name, error, sizeof(error)), -1);
        ck_assert_msg(strstr(error, bad[i].word) != NULL, "%s", error);
    }
    int a = rfg_emu_open("gfx942", error, sizeof(error)), b = rfg_emu_open("gfx942:304", error, sizeof(error)),
        c = rfg_emu_open("gfx942:8", error, sizeof(error)), d = rfg_emu_open("gfx1100:6", error, sizeof(error));
    ck_assert_int_eq(a, b);
    ck_assert(a != c && c != d && a >= 0 && c >= 0 && d >= 0);
    OK(hip->hipGetDeviceCount(&count));
    ck_assert_int_eq(count, 3);
    struct rfg_device dev;
    OK(hip->describe(d, &dev));
    ck_assert_str_eq(dev.name, "emu:gfx1100:6");
    ck_assert_str_eq(dev.arch, "emu-gfx1100"); /* no GPU's tuned row is taken for one of ours, or the other way */
    ck_assert_str_eq(dev.target, "gfx1100");
    ck_assert_int_eq(dev.platform, RFG_PLATFORM_EMU);
    ck_assert_int_eq(dev.cu_count, 6);
    ck_assert_int_eq(dev.wave_size, 32);
    ck_assert(dev.features & RFG_FEATURE_MMA);
    ck_assert(dev.mem_gbps > 0 && dev.mma_tflops > 0);
    OK(hip->describe(rfg_emu_open("gfx940:6", error, sizeof(error)), &dev)); /* its code isn't the sold gfx942's */
    ck_assert_str_eq(dev.name, "emu:gfx940:6");
    ck_assert_str_eq(dev.target, "gfx940");
    int v;
    OK(hip->hipDeviceGetAttribute(&v, hipDeviceAttributeWarpSize, c));
    ck_assert_int_eq(v, 64);
    IS(hip->hipDeviceGetAttribute(&v, hipDeviceAttributeWarpSize, 9), hipErrorInvalidDevice);
}
END_TEST

START_TEST(contexts)
{
    static const struct {
        const char *device, *word;
    } bad[] = { { "emu:gfx942:0", "device 'emu:gfx942:0': '0'" },
                { "emu:gfx906", "not emulated" },
                { "emu:", "''" },
                { "emu", "emu:ARCH[:CUS]" } };
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .user_db = "", .system_db = "", .cache_dir = "" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        p.device = bad[i].device;
        ck_assert_int_eq(rfg_context_create(&ctx, &p), RFG_ERROR_INVALID_ARGUMENT);
        ck_assert_msg(strstr(rfg_last_error(), bad[i].word) != NULL, "%s", rfg_last_error());
    }
    p.device = "emu:gfx90a:8";
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    ck_assert_str_eq(rfg_context_device(ctx), "emu:gfx90a:8");
    ck_assert_str_eq(rfg_context_info(ctx)->arch, "emu-gfx90a");
    ck_assert_msg(strncmp(rfg_context_driver(ctx), "emulator ", 9) == 0, "%s", rfg_context_driver(ctx));
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- memory
 * ---------------------------------------------------------------------------------------------------------- */

START_TEST(copies)
{
    char host[300], back[300];
    void *p, *none = &none;
    open_device("gfx90a:4");
    OK(hip->hipMalloc(&none, 0));
    ck_assert_ptr_null(none);
    OK(hip->hipFree(NULL));
    IS(hip->hipMalloc(&p, (size_t)1 << 60), hipErrorOutOfMemory);
    IS(hip->hipMalloc(NULL, 4), hipErrorInvalidValue);
    OK(hip->hipMalloc(&p, 300));
    for (int i = 0; i < 300; i++)
        host[i] = (char)i;
    OK(hip->hipMemcpyHtoD(p, host, 300));
    OK(hip->hipMemsetD8Async((char *)p + 10, 77, 5, NULL));
    memset(host + 10, 77, 5);
    OK(hip->hipMemcpyDtoH(back, p, 300));
    ck_assert_mem_eq(host, back, 300);
    ck_assert_int_eq(emu_reports(NULL), 0);
    IS(hip->hipMemcpyHtoD((char *)p + 1, host, 300), hipErrorInvalidValue);
    IS(hip->hipMemcpyDtoH(back, (char *)p - 1, 2), hipErrorInvalidValue);
    IS(hip->hipMemsetD8Async(p, 0, 301, NULL), hipErrorInvalidValue);
    IS(hip->hipMemcpyDtoH(back, host, 4), hipErrorInvalidValue);
    ck_assert_int_eq(emu_reports("host-copy-out-of-bounds"), 4);
    IS(hip->hipFree((char *)p + 8), hipErrorInvalidValue);
    OK(hip->hipFree(p));
    ck_assert_int_eq(emu_reports("double-free"), 0);
    IS(hip->hipFree(p), hipErrorInvalidValue);
    ck_assert_int_eq(emu_reports("double-free"), 1);
    IS(hip->hipMemcpyDtoH(back, p, 4), hipErrorInvalidValue);
}
END_TEST

/* ---- streams, events, capture
 * ------------------------------------------------------------------------------------------- */

START_TEST(capture_and_replay)
{
    unsigned char host[64];
    void *p;
    hipStream_t s, other;
    hipGraph_t g;
    hipGraphExec_t x;
    hipStreamCaptureStatus status;
    open_device("gfx90a:4");
    OK(hip->hipMalloc(&p, 64));
    OK(hip->hipMemsetD8Async(p, 1, 64, NULL));
    OK(hip->hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
    OK(hip->hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    IS(hip->hipStreamBeginCapture(NULL, hipStreamCaptureModeGlobal), hipErrorStreamCaptureUnsupported);
    IS(hip->hipStreamEndCapture(s, &g), hipErrorIllegalState);
    OK(hip->hipStreamBeginCapture(s, hipStreamCaptureModeThreadLocal));
    IS(hip->hipStreamBeginCapture(s, hipStreamCaptureModeThreadLocal), hipErrorIllegalState);
    OK(hip->hipStreamIsCapturing(s, &status));
    ck_assert_int_eq(status, hipStreamCaptureStatusActive);
    OK(hip->hipStreamIsCapturing(other, &status));
    ck_assert_int_eq(status, hipStreamCaptureStatusNone);
    OK(hip->hipMemsetD8Async(p, 7, 32, s));
    OK(hip->hipMemsetD8Async(p, 8, 16, s));
    OK(hip->hipMemsetD8Async((char *)p + 40, 9, 1, other)); /* not captured */
    OK(hip->hipStreamEndCapture(s, &g));
    OK(hip->hipGraphInstantiate(&x, g, NULL, NULL, 0));
    OK(hip->hipGraphDestroy(g));
    OK(hip->hipMemcpyDtoH(host, p, 64));
    ck_assert_int_eq(host[0], 1);
    ck_assert_int_eq(host[40], 9);
    for (int i = 0; i < 3; i++) {
        OK(hip->hipMemsetD8Async(p, 1, 64, other));
        OK(hip->hipGraphLaunch(x, s));
        OK(hip->hipStreamSynchronize(s));
        OK(hip->hipMemcpyDtoH(host, p, 64));
        ck_assert_int_eq(host[0], 8);
        ck_assert_int_eq(host[16], 7);
        ck_assert_int_eq(host[32], 1);
    }
    OK(hip->hipGraphExecDestroy(x));
    IS(hip->hipGraphExecDestroy(x), hipErrorInvalidValue);
    IS(hip->hipGraphLaunch(x, s), hipErrorInvalidValue);
    OK(hip->hipStreamDestroy(s));
    IS(hip->hipStreamDestroy(s), hipErrorInvalidHandle);
    IS(hip->hipStreamSynchronize(s), hipErrorInvalidHandle);
}
END_TEST

static hipError_t illegal_malloc(hipStream_t s)
{
    void *p;
    (void)s;
    return hip->hipMalloc(&p, 16);
}
static hipError_t illegal_sync(hipStream_t s)
{
    return hip->hipStreamSynchronize(s);
}
static hipError_t illegal_device_sync(hipStream_t s)
{
    (void)s;
    return hip->hipDeviceSynchronize();
}
static void *some_memory;
static hipError_t illegal_copy(hipStream_t s)
{
    char c;
    (void)s;
    return hip->hipMemcpyDtoH(&c, some_memory, 1);
}
static hipError_t illegal_free(hipStream_t s)
{
    (void)s;
    return hip->hipFree(some_memory);
}
static hipError_t (*const illegal[])(hipStream_t) = { illegal_malloc, illegal_sync, illegal_device_sync, illegal_copy,
                                                      illegal_free };
#define N_ILLEGAL ((int)(sizeof(illegal) / sizeof(illegal[0])))

struct call {
    hipError_t (*fn)(hipStream_t);
    hipStream_t s;
    hipError_t e;
};
static void *call(void *arg)
{
    struct call *c = arg;
    if (hip->hipSetDevice(0) == hipSuccess)
        c->e = c->fn(c->s);
    return NULL;
}

START_TEST(illegal_calls_break_a_capture)
{
    static const hipStreamCaptureMode modes[] = { hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal,
                                                  hipStreamCaptureModeRelaxed };
    hipStream_t s;
    hipGraph_t g;
    open_device("gfx90a:4");
    OK(hip->hipMalloc(&some_memory, 16));
    OK(hip->hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
    bool sync = illegal[_i] == illegal_sync;
    for (int mode = 0; mode < 3; mode++)
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            struct call c = { illegal[_i], s, hipErrorUnknown };
            bool allowed = !sync && (mode == 2 || (mode == 1 && elsewhere));
            if (allowed && illegal[_i] == illegal_free)
                OK(hip->hipMalloc(&some_memory, 16));
            OK(hip->hipStreamBeginCapture(s, modes[mode]));
            if (elsewhere) {
                pthread_t t;
                ck_assert_int_eq(pthread_create(&t, NULL, call, &c), 0);
                pthread_join(t, NULL);
            } else
                call(&c);
            ck_assert_msg(c.e == (allowed ? hipSuccess : hipErrorStreamCaptureUnsupported), "mode %d, %d: %s", mode,
                          elsewhere, hip->error_name(c.e));
            if (!allowed)
                IS(hip->hipMemsetD8Async(some_memory, 0, 1, s), hipErrorStreamCaptureInvalidated);
            IS(hip->hipStreamEndCapture(s, &g), allowed ? hipSuccess : hipErrorStreamCaptureInvalidated);
            ck_assert(allowed == (g != NULL));
            if (g)
                OK(hip->hipGraphDestroy(g));
        }
}
END_TEST

START_TEST(default_stream_during_capture)
{
    hipStream_t s;
    hipGraph_t g;
    void *p;
    open_device("gfx90a:4");
    OK(hip->hipMalloc(&p, 16));
    OK(hip->hipStreamCreateWithFlags(&s, hipStreamDefault)); /* it waits for the default stream, and is waited for */
    OK(hip->hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    IS(hip->hipMemsetD8Async(p, 0, 16, NULL), hipErrorStreamCaptureImplicit);
    IS(hip->hipStreamEndCapture(s, &g), hipErrorStreamCaptureInvalidated);
}
END_TEST

START_TEST(events)
{
    hipEvent_t a, b, untimed;
    hipStream_t s;
    hipGraph_t g;
    float ms = -1;
    open_device("gfx942:4");
    OK(hip->hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
    OK(hip->hipEventCreateWithFlags(&a, hipEventDefault));
    OK(hip->hipEventCreateWithFlags(&b, hipEventBlockingSync));
    OK(hip->hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
    IS(hip->hipEventCreateWithFlags(&a, 0x100), hipErrorInvalidValue);
    IS(hip->hipEventElapsedTime(&ms, a, b), hipErrorInvalidHandle);
    OK(hip->hipEventRecord(a, s));
    usleep(20000);
    OK(hip->hipEventRecord(b, s));
    OK(hip->hipEventRecord(untimed, s));
    OK(hip->hipEventSynchronize(b));
    OK(hip->hipEventElapsedTime(&ms, a, b));
    ck_assert(ms >= 20 && ms < 20000);
    IS(hip->hipEventElapsedTime(&ms, a, untimed), hipErrorInvalidHandle);
    OK(hip->hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    OK(hip->hipEventRecord(b, s));
    IS(hip->hipEventSynchronize(b), hipErrorCapturedEvent);
    IS(hip->hipEventElapsedTime(&ms, a, b), hipErrorInvalidHandle);
    OK(hip->hipStreamEndCapture(s, &g));
    OK(hip->hipEventDestroy(a));
    IS(hip->hipEventRecord(a, s), hipErrorInvalidHandle);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_hip");
    TCase *tc = test_case(s, "runtime", NULL, NULL);
    ADD_TESTS(tc, names, contexts, copies, capture_and_replay, default_stream_during_capture, events);
    ADD_LOOPS(tc, N_ILLEGAL, illegal_calls_break_a_capture);
    return run_suite(s);
}
