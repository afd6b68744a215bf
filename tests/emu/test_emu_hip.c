/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU as a HIP runtime: names, memory, streams, events, capture, modules, launches and their errors, with
 * kernels compiled for each architecture. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/context.h"
#include "emu/run/front.h"
#include "emu/hip/hip_emu.h"
#include "emu_compile.h"
#include "tests/suite.h"

static const struct rfg_hip *hip;
#define OK(call) ck_assert_msg((call) == hipSuccess, "%s", #call)
#define IS(call, error)                                                                                                \
    do {                                                                                                               \
        hipError_t e_ = (call);                                                                                        \
        ck_assert_msg(e_ == (error), "%s is %s, not %s", #call, hip->error_name(e_), #error);                          \
    } while (0)

static void open_device(const char *name)
{
    char error[256];
    int d = rfg_emu_open(name, error, sizeof(error));
    ck_assert_msg(d >= 0, "%s", error);
    hip = rfg_hip_emu(NULL);
    OK(hip->hipSetDevice(d));
}

/* ---- devices --------------------------------------------------------------------------------------------------------
 */

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
    rfg_context_params p = { .user_db = "", .system_db = "", .cache_dir = "" };
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

/* ---- kernels
 * ------------------------------------------------------------------------------------------------------------- */

static const char *const source =
    "typedef unsigned u32;\n"
    "#define BX __builtin_amdgcn_workgroup_id_x()\n"
    "#define TX __builtin_amdgcn_workitem_id_x()\n"
    "#define SX __builtin_amdgcn_workgroup_size_x()\n"
    "__device__ u32 counter = 7;\n"
    "__device__ u32 *where = &counter;\n"
    "__constant__ float lut[4] = { 1, 2, 3, 4 };\n"
    "extern __shared__ float dyn[];\n"
    "extern \"C\" __global__ void vadd(float *y, const float *x, int n, float a)\n"
    "{\n"
    "    int i = BX * SX + TX;\n"
    "    if (i < n) y[i] += a * x[i] + lut[i & 3];\n"
    "}\n"
    "extern \"C\" __global__ void reduce(float *y, const float *x)\n"
    "{\n"
    "    dyn[TX] = x[BX * SX + TX];\n"
    "    for (u32 n = SX / 2; n; n /= 2) {\n"
    "        __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
    "        __builtin_amdgcn_s_barrier();\n"
    "        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
    "        if (TX < n) dyn[TX] += dyn[TX + n];\n"
    "    }\n"
    "    if (TX == 0) { y[BX] = dyn[0]; __atomic_fetch_add(where, 1, __ATOMIC_RELAXED); }\n"
    "}\n"
    "extern \"C\" __global__ void ids(u32 *out)\n"
    "{\n"
    "    u32 sx = SX, sy = __builtin_amdgcn_workgroup_size_y(), sz = __builtin_amdgcn_workgroup_size_z();\n"
    "    u32 gx = __builtin_amdgcn_grid_size_x() / sx, gy = __builtin_amdgcn_grid_size_y() / sy;\n"
    "    u32 x = TX, y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();\n"
    "    u32 a = BX, b = __builtin_amdgcn_workgroup_id_y(), c = __builtin_amdgcn_workgroup_id_z();\n"
    "    u32 g = (c * gy + b) * gx + a, t = (z * sy + y) * sx + x;\n"
    "    out[g * sx * sy * sz + t] = a | b << 4 | c << 8 | x << 12 | y << 18 | z << 24;\n"
    "}\n"
    "__device__ __attribute__((noinline)) int pick(const int *a, int i)\n"
    "{\n"
    "    int b[20];\n"
    "    for (int j = 0; j < 20; j++) b[j] = a[j] * 3;\n"
    "    return b[i % 20];\n"
    "}\n"
    "extern \"C\" __global__ void calls(int *y, const int *x) { y[TX] = pick(x, TX) + pick(x, TX + 1); }\n"
    "extern \"C\" __global__ void read_counter(u32 *y) { *y = counter; }\n"
    "extern \"C\" __global__ void chain(u32 *flags, u32 *y)\n"
    "{\n"
    "    if (BX + 1 < __builtin_amdgcn_grid_size_x() / SX)\n"
    "        while (!__atomic_load_n(&flags[BX + 1], __ATOMIC_ACQUIRE)) __builtin_amdgcn_s_sleep(1);\n"
    "    if (TX == 0) {\n"
    "        y[BX] = (BX + 1 < __builtin_amdgcn_grid_size_x() / SX ? y[BX + 1] : 0) + 1;\n"
    "        __atomic_store_n(&flags[BX], 1, __ATOMIC_RELEASE);\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void forever(volatile u32 *flag) { while (!*flag) ; }\n"
    "extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size(1, 128))) void bounded(u32 *y) { y[TX] = TX; "
    "}\n";

static const struct {
    const char *name, *arch;
} archs[] = { { "gfx90a:4", "gfx90a" }, { "gfx942:4", "gfx942" },   { "gfx1100:4", "gfx1100" },
              { "gfx908:4", "gfx908" }, { "gfx1030:4", "gfx1030" }, { "gfx1201:4", "gfx1201" } };
#define N_ARCHS (int)(sizeof(archs) / sizeof(archs[0]))

static hipModule_t module;
static hipStream_t stream;

static bool load_kernels(int i)
{
    size_t size;
    if (!emu_can_compile())
        return false;
    open_device(archs[i].name);
    char *code = emu_compile(source, archs[i].arch, "", &size); /* v5, in a bundle */
    OK(hip->hipModuleLoadData(&module, code));
    free(code);
    OK(hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    return true;
}

static hipFunction_t kernel(const char *name)
{
    hipFunction_t f;
    OK(hip->hipModuleGetFunction(&f, module, name));
    return f;
}

static void *device_copy(const void *data, size_t size)
{
    void *p;
    OK(hip->hipMalloc(&p, size));
    if (data)
        OK(hip->hipMemcpyHtoD(p, (void *)(uintptr_t)data, size));
    else
        OK(hip->hipMemsetD8Async(p, 0, size, NULL));
    return p;
}

START_TEST(adds_vectors)
{
    enum { N = 1000 };
    float x[N], y[N], a = 0.5f;
    int n = N;
    if (!load_kernels(_i))
        return;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - 500);
        y[i] = (float)i * 0.25f;
    }
    void *px = device_copy(x, sizeof(x)), *py = device_copy(y, sizeof(y));
    void *params[] = { &py, &px, &n, &a };
    OK(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL));
    float back[N];
    OK(hip->hipMemcpyDtoH(back, py, sizeof(back)));
    for (int i = 0; i < N; i++)
        ck_assert_msg(back[i] == y[i] + (a * x[i] + (float)(1 + (i & 3))), "%d: %g", i, (double)back[i]);

    /* The same through a packed buffer, captured, replayed twice. */
    struct {
        void *y, *x;
        int n;
        float a;
    } packed = { py, px, n, a };
    size_t size = sizeof(packed);
    void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      HIP_LAUNCH_PARAM_END };
    hipGraph_t g;
    hipGraphExec_t exec;
    OK(hip->hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, NULL, extra));
    packed.n = 0; /* its values were taken at the call */
    OK(hip->hipStreamEndCapture(stream, &g));
    OK(hip->hipGraphInstantiate(&exec, g, NULL, NULL, 0));
    OK(hip->hipGraphDestroy(g));
    OK(hip->hipGraphLaunch(exec, stream));
    OK(hip->hipGraphLaunch(exec, stream));
    OK(hip->hipMemcpyDtoH(back, py, sizeof(back)));
    for (int i = 0; i < N; i++)
        ck_assert_msg(back[i] == y[i] + 3 * (a * x[i] + (float)(1 + (i & 3))), "%d: %g", i, (double)back[i]);
    ck_assert_int_eq(emu_reports(NULL), 0);
}
END_TEST

START_TEST(dynamic_lds_and_globals)
{
    enum { N = 256, GROUPS = 37 };
    static float x[N * GROUPS];
    float y[GROUPS];
    uint32_t counter;
    if (!load_kernels(_i))
        return;
    for (int i = 0; i < N * GROUPS; i++)
        x[i] = (float)(i % 101);
    void *px = device_copy(x, sizeof(x)), *py = device_copy(NULL, sizeof(y)), *pc = device_copy(NULL, 4);
    void *params[] = { &py, &px };
    OK(hip->hipModuleLaunchKernel(kernel("reduce"), GROUPS, 1, 1, N, 1, 1, N * 4, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(y, py, sizeof(y)));
    for (int g = 0; g < GROUPS; g++) {
        float sum = 0;
        for (int i = 0; i < N; i++)
            sum += x[g * N + i];
        ck_assert_msg(y[g] == sum, "%d: %g, not %g", g, (double)y[g], (double)sum);
    }
    void *p2[] = { &pc };
    OK(hip->hipModuleLaunchKernel(kernel("read_counter"), 1, 1, 1, 1, 1, 1, 0, stream, p2, NULL));
    OK(hip->hipMemcpyDtoH(&counter, pc, 4));
    ck_assert_uint_eq(counter, 7 + GROUPS);
    ck_assert_int_eq(emu_reports(NULL), 0);
    /* With too little LDS it strays. */
    IS(hip->hipModuleLaunchKernel(kernel("reduce"), 1, 1, 1, N, 1, 1, N * 4 - 4, stream, params, NULL),
       hipErrorIllegalAddress);
    ck_assert_int_ge(emu_reports("lds-out-of-bounds"), 1);
}
END_TEST

START_TEST(ids_in_three_dimensions)
{
    const uint32_t g[3] = { 3, 4, 2 }, b[3] = { 5, 6, 3 };
    static uint32_t back[24 * 90];
    if (!load_kernels(_i))
        return;
    void *p = device_copy(NULL, sizeof(back)), *params[] = { &p };
    OK(hip->hipModuleLaunchKernel(kernel("ids"), g[0], g[1], g[2], b[0], b[1], b[2], 0, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(back, p, sizeof(back)));
    uint32_t at = 0;
    for (uint32_t i = 0; i < 24; i++)
        for (uint32_t t = 0; t < 90; t++, at++)
            ck_assert_uint_eq(back[at], i % 3 | (i / 3 % 4) << 4 | (i / 12) << 8 | (t % 5) << 12 | (t / 5 % 6) << 18 |
                                            (t / 30) << 24);
}
END_TEST

START_TEST(calls_and_scratch)
{
    int x[20], back[200];
    if (!load_kernels(_i))
        return;
    for (int i = 0; i < 20; i++)
        x[i] = i * i + 1;
    void *px = device_copy(x, sizeof(x)), *py = device_copy(NULL, sizeof(back)), *params[] = { &py, &px };
    OK(hip->hipModuleLaunchKernel(kernel("calls"), 1, 1, 1, 200, 1, 1, 0, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(back, py, sizeof(back)));
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(back[i], 3 * (x[i % 20] + x[(i + 1) % 20]));
    ck_assert_int_eq(emu_reports(NULL), 0);
}
END_TEST

START_TEST(groups_wait_for_each_other)
{
    enum { N = 60 };
    uint32_t y[N];
    if (!load_kernels(_i % N_ARCHS))
        return;
    if (_i >= N_ARCHS)
        setenv("RFG_EMU_SCHEDULE", "5", 1);
    void *pf = device_copy(NULL, N * 4), *py = device_copy(NULL, sizeof(y)), *params[] = { &pf, &py };
    OK(hip->hipModuleLaunchKernel(kernel("chain"), N, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    OK(hip->hipMemcpyDtoH(y, py, sizeof(y)));
    for (uint32_t i = 0; i < N; i++)
        ck_assert_uint_eq(y[i], N - i);
}
END_TEST

START_TEST(faults_and_deadlocks)
{
    float a = 1;
    int n = 1000;
    char text[1200];
    if (!load_kernels(_i))
        return;
    setenv("RFG_EMU_MAX_SPIN", "100000", 1);
    void *px = device_copy(NULL, 4000), *py = device_copy(NULL, 3996), *params[] = { &py, &px, &n, &a };
    IS(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL), hipErrorIllegalAddress);
    ck_assert_int_eq(emu_reports("global-out-of-bounds"), 1);
    emu_reports_last(text, sizeof(text));
    ck_assert_msg(strstr(text, "0 bytes past the end of allocation") && strstr(text, "(3996 bytes") &&
                      strstr(text, ", argument 0)") && strstr(text, "kernel vadd, 'global_load_") &&
                      strstr(text, "vadd+0x") && strstr(text, "workgroup (7,0,0)"),
                  "%s", text);
    n = 999;
    OK(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL)); /* still usable */
    OK(hip->hipFree(px));
    IS(hip->hipModuleLaunchKernel(kernel("vadd"), 8, 1, 1, 128, 1, 1, 0, stream, params, NULL), hipErrorIllegalAddress);
    ck_assert_int_ge(emu_reports("use-after-free"), 1);
    void *p2[] = { &py };
    OK(hip->hipMemsetD8Async(py, 0, 3996, stream));
    IS(hip->hipModuleLaunchKernel(kernel("forever"), 2, 1, 1, 64, 1, 1, 0, stream, p2, NULL), hipErrorLaunchFailure);
    ck_assert_int_eq(emu_reports("deadlock"), 1);
}
END_TEST

START_TEST(launches_are_checked)
{
    uint32_t y[128];
    hipFunction_t f;
    if (!load_kernels(_i))
        return;
    f = kernel("bounded");
    void *p = device_copy(NULL, sizeof(y)), *params[] = { &p }, *null[] = { NULL };
#define LAUNCH(gx, gy, bx, by, lds, params)                                                                            \
    hip->hipModuleLaunchKernel(f, gx, gy, 1, bx, by, 1, lds, stream, params, NULL)
    OK(LAUNCH(1, 1, 128, 1, 0, params));
    IS(LAUNCH(0, 1, 64, 1, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(1, 1, 64, 0, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(1, 1, 129, 1, 0, params), hipErrorLaunchFailure); /* more than its launch bounds */
    IS(LAUNCH(1, 1, 64, 32, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(0x10000000, 1, 64, 1, 0, params), hipErrorInvalidConfiguration);
    IS(LAUNCH(1, 1, 64, 1, 65537, params), hipErrorInvalidValue);
    IS(LAUNCH(1, 1, 64, 1, 0, NULL), hipErrorInvalidValue);
    IS(LAUNCH(1, 1, 64, 1, 0, null), hipErrorInvalidValue);
    IS(hip->hipModuleLaunchKernel((hipFunction_t)stream, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
       hipErrorInvalidHandle);
    IS(hip->hipModuleLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, (hipStream_t)f, params, NULL), hipErrorInvalidHandle);
    int v;
    OK(hip->hipFuncGetAttribute(&v, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    ck_assert_int_eq(v, 128);
    OK(hip->hipFuncGetAttribute(&v, HIP_FUNC_ATTRIBUTE_NUM_REGS, f));
    ck_assert_int_ge(v, 1);
    OK(hip->hipFuncSetAttribute(f, hipFuncAttributeMaxDynamicSharedMemorySize, 65536));
    IS(hip->hipFuncSetAttribute(f, hipFuncAttributeMaxDynamicSharedMemorySize, 65537), hipErrorInvalidValue);
    IS(hip->hipModuleGetFunction(&f, module, "pick"), hipErrorNotFound);
    f = kernel("bounded");
    OK(hip->hipModuleUnload(module));
    IS(LAUNCH(1, 1, 64, 1, 0, params), hipErrorInvalidHandle);
    IS(hip->hipModuleUnload(module), hipErrorInvalidHandle);
}
END_TEST

/* Engines call from many threads. */
static void *launch_many(void *arg)
{
    float *y = arg, a = 1;
    int n = 256;
    char *ok = NULL;
    hipStream_t s;
    if (hip->hipSetDevice(0) != hipSuccess || hip->hipStreamCreateWithFlags(&s, hipStreamNonBlocking) != hipSuccess)
        return NULL;
    for (int i = 0; i < 20; i++) {
        void *px, *params[] = { &y, &px, &n, &a };
        if (hip->hipMalloc(&px, 1024) != hipSuccess || hip->hipMemsetD8Async(px, 0, 1024, s) != hipSuccess ||
            hip->hipModuleLaunchKernel(kernel("vadd"), 2, 1, 1, 128, 1, 1, 0, s, params, NULL) != hipSuccess ||
            hip->hipStreamSynchronize(s) != hipSuccess || hip->hipFree(px) != hipSuccess)
            return NULL;
    }
    ok = (char *)arg;
    return hip->hipStreamDestroy(s) == hipSuccess ? ok : NULL;
}

START_TEST(many_threads)
{
    pthread_t t[4];
    void *y[4], *result;
    float back[256];
    if (!load_kernels(1))
        return;
    for (int i = 0; i < 4; i++) {
        y[i] = device_copy(NULL, sizeof(back));
        ck_assert_int_eq(pthread_create(&t[i], NULL, launch_many, y[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &result);
        ck_assert_ptr_eq(result, y[i]);
        OK(hip->hipMemcpyDtoH(back, y[i], sizeof(back)));
        for (int j = 0; j < 256; j++)
            ck_assert(back[j] == 20.0f * (float)(1 + (j & 3)));
    }
}
END_TEST

START_TEST(modules_are_checked)
{
    size_t size;
    hipModule_t m = (hipModule_t)&m;
    if (!emu_can_compile())
        return;
    open_device("gfx942:4");
    IS(hip->hipModuleLoadData(&m, "this is not a code object, and it is longer than a header"), hipErrorInvalidImage);
    ck_assert_ptr_null(m);
    IS(hip->hipModuleLoadData(&m, NULL), hipErrorInvalidValue);
    char *bundle = emu_compile(source, "gfx90a", "", &size),
         *elf = emu_compile(source, "gfx90a", "--no-gpu-bundle-output", &size);
    IS(hip->hipModuleLoadData(&m, bundle), hipErrorNoBinaryForGpu);
    IS(hip->hipModuleLoadData(&m, elf), hipErrorNoBinaryForGpu);
    open_device("gfx90a:4");
    OK(hip->hipModuleLoadData(&m, bundle));
    OK(hip->hipModuleUnload(m));
    OK(hip->hipModuleLoadData(&m, elf));
    OK(hip->hipModuleUnload(m));
    elf[20] = 99;
    IS(hip->hipModuleLoadData(&m, elf), hipSuccess); /* e_version is nobody's business */
    elf[16] = 1;
    IS(hip->hipModuleLoadData(&m, elf), hipErrorInvalidImage);
    free(bundle);
    free(elf);
}
END_TEST

/* ---- the program ----------------------------------------------------------------------------------------------------
 */

static char dir[] = "/tmp/rfg-emu-XXXXXX";

static void write_file(const char *name, const void *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

/* The exit code of rfg-emu ARGS in dir; its output in text. */
static int program(const char *args, char *text, size_t size)
{
    const char *bin = rfg_env("RFG_BINDIR");
    char *cmd = rfg_asprintf("cd %s && RFG_EMU_THREADS=2 %s/rfg-emu %s 2>&1", dir, bin ? bin : ".", args);
    FILE *p = popen(cmd, "r");
    ck_assert_ptr_nonnull(p);
    text[fread(text, 1, size - 1, p)] = 0;
    free(cmd);
    int code = pclose(p);
    return code < 0 ? code : code >> 8;
}

START_TEST(program_runs_code_objects)
{
    static const struct {
        const char *args;
        int code;
        const char *word;
    } cases[] = {
        { "--help", 0, "usage" },
        { "dance", 2, "'dance'" },
        { "list", 2, "must have a file" },
        { "list none.co", 1, "none.co" },
        { "list x.bin", 1, "not an ELF" },
        { "list k.co", 0, "vadd: wave64" },
        { "list k.co", 0, "16: value, 4 bytes" },
        { "--coverage k.co", 0, "s_endpgm" },
        { "--coverage k.co k.co", 0, "2 files, 2 wholly implemented, 0 not readable or not decodable" },
        { "--coverage k.co x.bin", 1, "2 files, 1 wholly implemented, 1 not readable" },
        { "run k.co --kernel vadd --grid 3 --block 64 --args inout:y.bin:z.bin in:x.bin i32:150 f32:0.5", 0,
          "wave-instructions" },
        { "run k.co --grid 3", 1, "--kernel must name one of vadd reduce" },
        { "run k.co --kernel vadd --grid 3", 2, "0 are given: vadd has 4" },
        { "run k.co --kernel vadd --grid 3,0 --args zero:4 zero:4 i32:1 f32:1", 2, "'0' must be a number from 1" },
        { "run k.co --kernel vadd --block 1,2,3,4 --args zero:4 zero:4 i32:1 f32:1", 2, "must be X[,Y[,Z]]" },
        { "run k.co --kernel vadd --block 2000 --args zero:4 zero:4 i32:1 f32:1", 2, "1 to 1024" },
        { "run k.co --kernel vadd --args zero:4 zero:4 i32:1x f32:1", 2, "'1x' must be a number" },
        { "run k.co --kernel vadd --args zero:4 zero:4 i32:3000000000 f32:1", 2, "fits in 4 bytes" },
        { "run k.co --kernel vadd --args zero:4 zero:4 i64:1 f32:1", 2, "argument 2 has 8 bytes" },
        { "run k.co --kernel vadd --args zero:4 in:none i32:1 f32:1", 1, "none: No such file" },
        { "run k.co --kernel vadd --args zero:x zero:4 i32:1 f32:1", 2, "must be zero:BYTES" },
        { "run k.co --kernel vadd --args here zero:4 i32:1 f32:1", 2, "--args here: must be" },
        { "run k.co --kernel vadd --device gfx1100 --args zero:4 zero:4 i32:1 f32:1", 1, "must be for gfx1100" },
        { "run k.co --kernel vadd --device gfx942:x --args zero:4 zero:4 i32:1 f32:1", 2, "'x' is not a number" },
        { "run k.co --kernel vadd --block 64 --args zero:100 zero:256 i32:64 f32:1", 1, "global-out-of-bounds" },
    };
    char text[8000], *code;
    float x[150], y[150], z[150];
    size_t size;
    if (!emu_can_compile())
        return;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    code = emu_compile(source, "gfx942", "--no-gpu-bundle-output", &size);
    write_file("k.co", code, size);
    free(code);
    for (int i = 0; i < 150; i++) {
        x[i] = (float)i;
        y[i] = (float)(2 * i);
    }
    write_file("x.bin", x, sizeof(x));
    write_file("y.bin", y, sizeof(y));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int got = program(cases[i].args, text, sizeof(text));
        ck_assert_msg(got == cases[i].code && strstr(text, cases[i].word), "rfg-emu %s: %d, '%s'", cases[i].args, got,
                      text);
    }
    snprintf(text, sizeof(text), "%s/z.bin", dir);
    char *back = rfg_read_file(text, &size);
    ck_assert(back && size == sizeof(z));
    memcpy(z, back, sizeof(z));
    free(back);
    for (int i = 0; i < 150; i++)
        ck_assert(z[i] == y[i] + (0.5f * x[i] + (float)(1 + (i & 3))));
    snprintf(text, sizeof(text), "rm -r %s", dir);
    ck_assert_int_eq(system(text), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_hip");
    TCase *tc = tcase_create("runtime");
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, names);
    tcase_add_test(tc, contexts);
    tcase_add_test(tc, copies);
    tcase_add_test(tc, capture_and_replay);
    tcase_add_loop_test(tc, illegal_calls_break_a_capture, 0, N_ILLEGAL);
    tcase_add_test(tc, default_stream_during_capture);
    tcase_add_test(tc, events);
    tc = tcase_create("kernels");
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, adds_vectors, 0, N_ARCHS);
    tcase_add_loop_test(tc, dynamic_lds_and_globals, 0, N_ARCHS);
    tcase_add_loop_test(tc, ids_in_three_dimensions, 0, N_ARCHS);
    tcase_add_loop_test(tc, calls_and_scratch, 0, N_ARCHS);
    tcase_add_loop_test(tc, groups_wait_for_each_other, 0, 2 * N_ARCHS);
    tcase_add_loop_test(tc, faults_and_deadlocks, 0, N_ARCHS);
    tcase_add_loop_test(tc, launches_are_checked, 0, N_ARCHS);
    tcase_add_test(tc, many_threads);
    tcase_add_test(tc, modules_are_checked);
    tcase_add_test(tc, program_runs_code_objects);
    return run_suite(s);
}
