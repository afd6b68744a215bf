/* SPDX-License-Identifier: MIT
 *
 * The emulated libamdhip64's calls that neither rfg nor a HIP program of these tests makes, each by what it does: on late
 * streams (RFG_EMU_LATE=1), so that one that waits is told from one that doesn't. */
#include <fcntl.h>

#include "emu_compile.h"
#include "rocm_library.h"
#include "tests/suite.h"

static const char *const source =
    "#define I (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())\n"
    "extern \"C\" __global__ void __attribute__((amdgpu_flat_work_group_size(1, 128))) put(unsigned *y, unsigned v)"
    " { y[I] = v; }\n";

enum { N = 256, BYTES = 4 * N };
#define GUARD 0xa5a5a5a5u

static char *code;
static size_t code_size;
static hipModule_t module;
static hipFunction_t kernel;
static unsigned *y, *pinned; /* one more word than N, which nothing touches */
static hipStream_t stream;

static void compile(void)
{
    code = emu_compile(source, "gfx942", "", &code_size);
}

static void start_on(const char *gpus)
{
    setenv("RFG_EMU_LATE", "1", 1);
    rocm_open(gpus);
    OK(CALL(hipModuleLoadData, hipModule_t *, const void *)(&module, code));
    OK(CALL(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)(&kernel, module, "put"));
    OK(CALL(hipMalloc, void **, size_t)((void **)&y, BYTES + 4));
    OK(CALL(hipHostMalloc, void **, size_t, unsigned)((void **)&pinned, BYTES + 4, 0));
    OK(CALL(hipStreamCreateWithFlags, hipStream_t *, unsigned)(&stream, hipStreamNonBlocking));
    for (int i = 0; i <= N; i++)
        y[i] = pinned[i] = GUARD;
}
static void start(void)
{
    start_on("MI300X:4");
}

static void put(unsigned *p, unsigned v)
{
    void *args[] = { &p, &v };
    OK(CALL(hipModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
            hipStream_t, void **, void **)(kernel, N / 64, 1, 1, 64, 1, 1, 0, stream, args, NULL));
}
static void finish(void)
{
    OK(CALL(hipStreamSynchronize, hipStream_t)(stream));
}
static void are(const unsigned *p, int n, unsigned v)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(p[i] == v, "%d is %08x, not %08x", i, p[i], v);
    ck_assert_msg(p[n] == GUARD, "the word after %d is %08x", n, p[n]);
}
static int current(void)
{
    int d = -1;
    OK(CALL(hipGetDevice, int *)(&d));
    return d;
}

START_TEST(devices_by_ordinal_and_by_bus)
{
    char id[32], uuid[2][17] = { "", "" };
    int d = -1, major = -1, minor = -1, can = -1;
    start_on("MI300X:4,MI210:4");
    for (int i = 0; i < 2; i++) {
        OK(CALL(hipDeviceGet, int *, int)(&d, i));
        ck_assert_int_eq(d, i);
        OK(CALL(hipDeviceGetPCIBusId, char *, int, int)(id, sizeof(id), i));
        ck_assert_str_eq(id, i ? "0000:1c:00.0" : "0000:0c:00.0");
        OK(CALL(hipDeviceGetByPCIBusId, int *, const char *)(&d, id));
        ck_assert_int_eq(d, i);
        OK(CALL(hipDeviceComputeCapability, int *, int *, int)(&major, &minor, i));
        ck_assert_int_eq(major, 9);
        ck_assert_int_eq(minor, i ? 0 : 4);
        OK(CALL(hipDeviceGetUuid, char *, int)(uuid[i], i));
        OK(CALL(hipDeviceCanAccessPeer, int *, int, int)(&can, i, !i));
        ck_assert_int_eq(can, 0);
    }
    ck_assert_str_eq(uuid[0], "emulated00000000");
    ck_assert_str_eq(uuid[1], "emulated00000001");
    OK(CALL(hipDeviceGetPCIBusId, char *, int, int)(id, 5, 0));
    ck_assert_str_eq(id, "0000");
    for (int bad = -1; bad <= 2; bad += 3) {
        IS(CALL(hipDeviceGet, int *, int)(&d, bad), hipErrorInvalidDevice);
        IS(CALL(hipDeviceGetPCIBusId, char *, int, int)(id, sizeof(id), bad), hipErrorInvalidDevice);
        IS(CALL(hipDeviceGetUuid, char *, int)(uuid[0], bad), hipErrorInvalidDevice);
        IS(CALL(hipDeviceCanAccessPeer, int *, int, int)(&can, bad, 0), hipErrorInvalidDevice);
        IS(CALL(hipDeviceCanAccessPeer, int *, int, int)(&can, 0, bad), hipErrorInvalidDevice);
    }
    IS(CALL(hipDeviceGet, int *, int)(NULL, 0), hipErrorInvalidValue);
    IS(CALL(hipDeviceGetPCIBusId, char *, int, int)(NULL, 9, 0), hipErrorInvalidValue);
    IS(CALL(hipDeviceGetPCIBusId, char *, int, int)(id, 0, 0), hipErrorInvalidValue);
    IS(CALL(hipDeviceGetUuid, char *, int)(NULL, 0), hipErrorInvalidValue);
    IS(CALL(hipDeviceCanAccessPeer, int *, int, int)(NULL, 0, 0), hipErrorInvalidValue);
    static const char *const buses[] = { "0000:2c:00.0", "0001:0c:00.0", "0000", "" };
    for (size_t i = 0; i < sizeof(buses) / sizeof(buses[0]); i++)
        IS(CALL(hipDeviceGetByPCIBusId, int *, const char *)(&d, buses[i]), hipErrorInvalidValue);
    IS(CALL(hipDeviceGetByPCIBusId, int *, const char *)(NULL, "0000:0c:00.0"), hipErrorInvalidValue);
    IS(CALL(hipDeviceGetByPCIBusId, int *, const char *)(&d, NULL), hipErrorInvalidValue);
}
END_TEST

START_TEST(contexts_are_devices)
{
    hipCtx_t c[2], got = NULL;
    unsigned flags = 7;
    int active = -1, d = -1;
    start_on("MI300X:4,MI210:4");
    OK(CALL(hipCtxCreate, hipCtx_t *, unsigned, int)(&c[1], 0, 1));
    ck_assert_int_eq(current(), 1);
    OK(CALL(hipCtxGetDevice, int *)(&d));
    ck_assert_int_eq(d, 1);
    OK(CALL(hipDevicePrimaryCtxRetain, hipCtx_t *, int)(&c[0], 0));
    ck_assert_int_eq(current(), 1);
    ck_assert_ptr_ne(c[0], c[1]);
    OK(CALL(hipDevicePrimaryCtxGetState, int, unsigned *, int *)(1, &flags, &active));
    ck_assert_uint_eq(flags, 0);
    ck_assert_int_eq(active, 1);
    OK(CALL(hipDevicePrimaryCtxGetState, int, unsigned *, int *)(0, NULL, &active));
    ck_assert_int_eq(active, 0);
    OK(CALL(hipDevicePrimaryCtxGetState, int, unsigned *, int *)(0, &flags, NULL));
    OK(CALL(hipCtxSetCurrent, hipCtx_t)(c[0]));
    ck_assert_int_eq(current(), 0);
    OK(CALL(hipCtxGetCurrent, hipCtx_t *)(&got));
    ck_assert_ptr_eq(got, c[0]);
    OK(CALL(hipCtxSetCurrent, hipCtx_t)(NULL));
    ck_assert_int_eq(current(), 0);
    IS(CALL(hipCtxPopCurrent, hipCtx_t *)(&got), hipErrorInvalidContext);
    for (int i = 0; i < 16; i++) /* 1 0 1 0 ... */
        OK(CALL(hipCtxPushCurrent, hipCtx_t)(c[!(i & 1)]));
    IS(CALL(hipCtxPushCurrent, hipCtx_t)(c[0]), hipErrorOutOfMemory);
    for (int i = 15; i >= 0; i--) {
        OK(CALL(hipCtxPopCurrent, hipCtx_t *)(i == 7 ? NULL : &got));
        if (i != 7)
            ck_assert_ptr_eq(got, c[!(i & 1)]);
        ck_assert_int_eq(current(), i & 1);
    }
    IS(CALL(hipCtxPopCurrent, hipCtx_t *)(NULL), hipErrorInvalidContext);
    IS(CALL(hipCtxPushCurrent, hipCtx_t)((hipCtx_t)&d), hipErrorInvalidDevice);
    IS(CALL(hipCtxPopCurrent, hipCtx_t *)(NULL), hipErrorInvalidContext);
    IS(CALL(hipCtxCreate, hipCtx_t *, unsigned, int)(NULL, 0, 0), hipErrorInvalidValue);
    IS(CALL(hipCtxCreate, hipCtx_t *, unsigned, int)(&got, 0, 2), hipErrorInvalidDevice);
    IS(CALL(hipCtxGetCurrent, hipCtx_t *)(NULL), hipErrorInvalidValue);
    OK(CALL(hipCtxDestroy, hipCtx_t)(c[1]));
    IS(CALL(hipCtxDestroy, hipCtx_t)((hipCtx_t)&d), hipErrorInvalidValue);
    OK(CALL(hipDevicePrimaryCtxRelease, int)(1));
    IS(CALL(hipDevicePrimaryCtxRelease, int)(2), hipErrorInvalidDevice);
    IS(CALL(hipDevicePrimaryCtxRelease, int)(-1), hipErrorInvalidDevice);
    IS(CALL(hipDevicePrimaryCtxRetain, hipCtx_t *, int)(&got, 2), hipErrorInvalidDevice);
    IS(CALL(hipDevicePrimaryCtxRetain, hipCtx_t *, int)(NULL, 0), hipErrorInvalidValue);
}
END_TEST

START_TEST(memory_by_every_name)
{
    unsigned *p[6] = { NULL };
    start();
    OK(CALL(hipHostAlloc, void **, size_t, unsigned)((void **)&p[0], BYTES, 0));
    OK(CALL(hipMallocHost, void **, size_t)((void **)&p[1], BYTES));
    OK(CALL(hipMemAllocHost, void **, size_t)((void **)&p[2], BYTES));
    OK(CALL(hipMallocManaged, void **, size_t, unsigned)((void **)&p[3], BYTES, 1));
    OK(CALL(hipExtMallocWithFlags, void **, size_t, unsigned)((void **)&p[4], BYTES, 0));
    OK(CALL(hipMallocAsync, void **, size_t, hipStream_t)((void **)&p[5], BYTES, stream));
    for (unsigned i = 0; i < 6; i++) {
        void *base = NULL, *mapped = NULL;
        size_t size = 0;
        put(p[i], i);
        OK(CALL(hipMemGetAddressRange, void **, size_t *, void *)(&base, &size, p[i] + 3));
        ck_assert_ptr_eq(base, p[i]);
        ck_assert_uint_eq(size, BYTES);
        OK(CALL(hipHostGetDevicePointer, void **, void *, unsigned)(&mapped, p[i] + 1, 0));
        ck_assert_ptr_eq(mapped, p[i] + 1);
    }
    finish();
    for (unsigned i = 0; i < 6; i++)
        ck_assert_uint_eq(p[i][N - 1], i);
    OK(CALL(hipFreeHost, void *)(p[0]));
    OK(CALL(hipHostFree, void *)(p[1]));
    OK(CALL(hipFreeAsync, void *, hipStream_t)(p[5], stream));
    for (int i = 0; i < 6; i += i ? 4 : 1)
        IS(CALL(hipMemGetAddressRange, void **, size_t *, void *)(NULL, NULL, p[i]), hipErrorNotFound);
    OK(CALL(hipMemGetAddressRange, void **, size_t *, void *)(NULL, NULL, p[2]));
    void *mapped = NULL;
    IS(CALL(hipHostGetDevicePointer, void **, void *, unsigned)(&mapped, p[2], 1), hipErrorInvalidValue);
    IS(CALL(hipHostGetDevicePointer, void **, void *, unsigned)(NULL, p[2], 0), hipErrorInvalidValue);
    IS(CALL(hipHostGetDevicePointer, void **, void *, unsigned)(&mapped, &mapped, 0), hipErrorInvalidValue);
    IS(CALL(hipHostAlloc, void **, size_t, unsigned)(NULL, BYTES, 0), hipErrorInvalidValue);
    OK(CALL(hipMallocHost, void **, size_t)(&mapped, 0));
    ck_assert_ptr_null(mapped);
}
END_TEST

START_TEST(what_a_pointer_is)
{
    int type = -1, device = -1;
    void *at = NULL;
    size_t size = 0;
#define ASK(out, attr, p) CALL(hipPointerGetAttribute, void *, int, void *)(out, attr, p)
    start();
    OK(ASK(&type, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, y));
    ck_assert_int_eq(type, release->so >= 6 ? 2 : 1);
    OK(ASK(&device, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, y));
    ck_assert_int_eq(device, 0);
    OK(ASK(&at, HIP_POINTER_ATTRIBUTE_DEVICE_POINTER, y + 5));
    ck_assert_ptr_eq(at, y + 5);
    OK(ASK(&at, HIP_POINTER_ATTRIBUTE_HOST_POINTER, y + 6));
    ck_assert_ptr_eq(at, y + 6);
    OK(ASK(&at, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, y + 7));
    ck_assert_ptr_eq(at, y);
    OK(ASK(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, y + 7));
    ck_assert_uint_eq(size, BYTES + 4);
    IS(ASK(&size, 1000, y), hipErrorNotSupported);
    IS(ASK(NULL, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, y), hipErrorInvalidValue);
    IS(ASK(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, &size), hipErrorInvalidValue);
#undef ASK
}
END_TEST

/* Copies of y, which a kernel on the stream makes v, to pinned: does the call wait for the stream? */
START_TEST(copies_that_wait_and_copies_that_do_not)
{
    start();
    put(y, 1);
    OK(CALL(hipMemcpyDtoHAsync, void *, void *, size_t, hipStream_t)(pinned, y, BYTES, stream));
    are(pinned, 0 * N, GUARD);
    finish();
    are(pinned, N, 1);
    put(y, 2);
    OK(CALL(hipMemcpyWithStream, void *, const void *, size_t, int, hipStream_t)(pinned, y, BYTES, hipMemcpyDefault,
                                                                                 stream));
    are(pinned, N, 2);
    put(y, 3);
    OK(CALL(hipMemcpyDtoDAsync, void *, void *, size_t, hipStream_t)(pinned, y, BYTES, stream));
    are(pinned, N, 2);
    finish();
    are(pinned, N, 3);
    put(y, 4);
    OK(CALL(hipMemcpyPeerAsync, void *, int, const void *, int, size_t, hipStream_t)(pinned, 0, y, 0, BYTES, stream));
    are(pinned, N, 3);
    finish();
    are(pinned, N, 4);
    for (int i = 0; i < N; i++)
        pinned[i] = 5;
    OK(CALL(hipMemcpyHtoDAsync, void *, void *, size_t, hipStream_t)(y, pinned, BYTES, stream));
    are(y, N, 4);
    finish();
    are(y, N, 5);
    put(y, 6);
    finish();
    OK(CALL(hipMemcpyDtoD, void *, void *, size_t)(pinned, y, BYTES)); /* on the default stream, and waited for */
    are(pinned, N, 6);
    put(y, 7);
    finish();
    OK(CALL(hipMemcpyPeer, void *, int, const void *, int, size_t)(pinned, 0, y, 0, BYTES));
    are(pinned, N, 7);
    IS(CALL(hipMemcpy, void *, const void *, size_t, int)(pinned, y, BYTES, 5), hipErrorInvalidMemcpyDirection);
    OK(CALL(hipMemcpy, void *, const void *, size_t, int)(pinned, y, BYTES, 4));
}
END_TEST

START_TEST(rows_are_copied)
{
    start();
#define ROWS(to, w, h)                                                                                                 \
    CALL(hipMemcpy2DAsync, void *, size_t, const void *, size_t, size_t, size_t, int, hipStream_t)                     \
    (pinned, to, y, 40, w, h, hipMemcpyDefault, stream)
    for (int i = 0; i < N; i++)
        y[i] = (unsigned)i;
    OK(ROWS(24, 12, 3)); /* 3 words of each 10 to 3 of each 6 */
    ck_assert_uint_eq(pinned[0], GUARD);
    finish();
    for (int i = 0; i < 20; i++)
        ck_assert_uint_eq(pinned[i], i < 18 && i % 6 < 3 ? (unsigned)(i / 6 * 10 + i % 6) : GUARD);
    IS(ROWS(8, 12, 3), hipErrorInvalidPitchValue);
    IS(ROWS(48, 44, 3), hipErrorInvalidPitchValue);
    OK(ROWS(40, 40, 25));
    OK(ROWS(40, 28, 26)); /* ends where y does */
    IS(ROWS(40, 32, 26), hipErrorInvalidValue);
    IS(ROWS(60, 4, 19), hipErrorInvalidValue); /* pinned ends before */
    IS(ROWS(40, 4, SIZE_MAX / 8), hipErrorInvalidValue);
    OK(ROWS(40, 0, SIZE_MAX / 8));
    OK(CALL(hipMemcpy2D, void *, size_t, const void *, size_t, size_t, size_t, int)(pinned, 4, y, 40, 4, 26,
                                                                                    hipMemcpyDefault));
    ck_assert_uint_eq(pinned[25], 250);
#undef ROWS
}
END_TEST

START_TEST(memsets_of_every_width)
{
    start();
    OK(CALL(hipMemsetD8, void *, unsigned char, size_t)(y, 1, BYTES));
    are(y, N, 0x01010101);
    OK(CALL(hipMemsetD16, void *, unsigned short, size_t)(y, 0x203, 2 * N));
    are(y, N, 0x02030203);
    OK(CALL(hipMemsetD32, void *, int, size_t)(y, 0x4050607, N));
    are(y, N, 0x04050607);
    OK(CALL(hipMemset, void *, int, size_t)(y, 0x108, BYTES));
    are(y, N, 0x08080808);
    OK(CALL(hipMemsetD16Async, void *, unsigned short, size_t, hipStream_t)(y, 0x90a, 2 * N, stream));
    are(y, N, 0x08080808);
    finish();
    are(y, N, 0x090a090a);
    OK(CALL(hipMemsetD32Async, void *, int, size_t, hipStream_t)(y, -2, N, stream));
    are(y, N, 0x090a090a);
    finish();
    are(y, N, 0xfffffffe);
    OK(CALL(hipMemsetAsync, void *, int, size_t, hipStream_t)(y, 3, BYTES, stream));
    are(y, N, 0xfffffffe);
    finish();
    are(y, N, 0x03030303);
}
END_TEST

static void store(hipStream_t s, hipError_t e, void *p)
{
    *(unsigned *)p = s == stream && e == hipSuccess ? pinned[N - 1] : 99;
}

START_TEST(streams_are_asked)
{
    hipStream_t s = NULL;
    unsigned flags = 9, got = 0;
    int priority = 9, device = 9, least = 0, greatest = 0;
    start();
    OK(CALL(hipDeviceGetStreamPriorityRange, int *, int *)(&least, &greatest));
    ck_assert(least == 1 && greatest == -1);
    OK(CALL(hipDeviceGetStreamPriorityRange, int *, int *)(NULL, NULL));
    OK(CALL(hipStreamCreateWithPriority, hipStream_t *, unsigned, int)(&s, hipStreamNonBlocking, -1));
    OK(CALL(hipStreamGetFlags, hipStream_t, unsigned *)(s, &flags));
    ck_assert_uint_eq(flags, hipStreamNonBlocking);
    OK(CALL(hipStreamGetPriority, hipStream_t, int *)(s, &priority));
    ck_assert_int_eq(priority, 0);
    OK(CALL(hipStreamGetDevice, hipStream_t, int *)(s, &device));
    ck_assert_int_eq(device, 0);
    device = 9;
    OK(CALL(hipStreamGetDevice, hipStream_t, int *)(NULL, &device));
    ck_assert_int_eq(device, 0);
    OK(CALL(hipStreamDestroy, hipStream_t)(s));
    IS(CALL(hipStreamGetFlags, hipStream_t, unsigned *)(NULL, &flags), hipErrorInvalidValue);
    IS(CALL(hipStreamGetFlags, hipStream_t, unsigned *)(stream, NULL), hipErrorInvalidValue);
    IS(CALL(hipStreamGetPriority, hipStream_t, int *)(stream, NULL), hipErrorInvalidValue);
    IS(CALL(hipStreamGetDevice, hipStream_t, int *)(stream, NULL), hipErrorInvalidValue);
    ck_assert(CALL(hipStreamGetPriority, hipStream_t, int *)((hipStream_t)&got, &priority) != hipSuccess);
    /* Work is over once anyone asks whether it is. */
    put(pinned, 1);
    OK(CALL(hipStreamQuery, hipStream_t)(stream));
    are(pinned, N, 1);
    hipEvent_t e;
    OK(CALL(hipEventCreate, hipEvent_t *)(&e));
    put(pinned, 2);
    OK(CALL(hipEventRecord, hipEvent_t, hipStream_t)(e, stream));
    are(pinned, N, 1);
    OK(CALL(hipEventQuery, hipEvent_t)(e));
    are(pinned, N, 2);
    put(pinned, 3);
    OK(CALL(hipStreamAddCallback, hipStream_t, hipStreamCallback_t, void *, unsigned)(stream, store, &got, 0));
    ck_assert_uint_eq(got, 3);
    IS(CALL(hipStreamAddCallback, hipStream_t, hipStreamCallback_t, void *, unsigned)(stream, NULL, &got, 0),
       hipErrorInvalidValue);
    IS(CALL(hipStreamAddCallback, hipStream_t, hipStreamCallback_t, void *, unsigned)(stream, store, &got, 1),
       hipErrorInvalidValue);
}
END_TEST

START_TEST(graphs_are_asked)
{
    hipGraph_t g;
    hipGraphExec_t x;
    size_t count = 9;
    void *node = NULL;
    start();
    OK(CALL(hipStreamBeginCapture, hipStream_t, int)(stream, hipStreamCaptureModeThreadLocal));
    put(y, 1);
    put(y, 2);
    void *p = NULL;
    IS(CALL(hipMallocAsync, void **, size_t, hipStream_t)(&p, BYTES, stream), hipErrorNotSupported);
    IS(CALL(hipFreeAsync, void *, hipStream_t)(y, stream), hipErrorNotSupported);
    OK(CALL(hipStreamEndCapture, hipStream_t, hipGraph_t *)(stream, &g));
    OK(CALL(hipGraphGetNodes, hipGraph_t, void **, size_t *)(g, NULL, &count));
    ck_assert_uint_eq(count, 2);
    IS(CALL(hipGraphGetNodes, hipGraph_t, void **, size_t *)(g, &node, &count), hipErrorNotSupported);
    IS(CALL(hipGraphGetNodes, hipGraph_t, void **, size_t *)(g, NULL, NULL), hipErrorInvalidValue);
    IS(CALL(hipGraphGetNodes, hipGraph_t, void **, size_t *)((hipGraph_t)stream, NULL, &count), hipErrorInvalidValue);
    OK(CALL(hipGraphInstantiateWithFlags, hipGraphExec_t *, hipGraph_t, unsigned long long)(&x, g, 0));
    OK(CALL(hipGraphUpload, hipGraphExec_t, hipStream_t)(x, stream));
    IS(CALL(hipGraphUpload, hipGraphExec_t, hipStream_t)((hipGraphExec_t)g, stream), hipErrorInvalidValue);
    ck_assert(CALL(hipGraphUpload, hipGraphExec_t, hipStream_t)(x, (hipStream_t)g) != hipSuccess);
    OK(CALL(hipGraphLaunch, hipGraphExec_t, hipStream_t)(x, stream));
    finish();
    are(y, N, 2);
}
END_TEST

START_TEST(modules_and_launches)
{
    char path[] = "/tmp/rfg-module-XXXXXX";
    int blocks = 0, fd;
    hipModule_t m;
    hipFunction_t f;
    hipEvent_t first, last;
    float ms = -1;
    unsigned v = 1;
    void *args[] = { &y, &v };
    start();
    OK(CALL(hipModuleLoadDataEx, hipModule_t *, const void *, unsigned, void *, void **)(&m, code, 0, NULL, NULL));
    OK(CALL(hipModuleUnload, hipModule_t)(m));
    ck_assert((fd = mkstemp(path)) >= 0 && write(fd, code, code_size) == (ssize_t)code_size && close(fd) == 0);
    OK(CALL(hipModuleLoad, hipModule_t *, const char *)(&m, path));
    OK(CALL(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)(&f, m, "put"));
    OK(CALL(hipEventCreate, hipEvent_t *)(&first));
    OK(CALL(hipEventCreate, hipEvent_t *)(&last));
#define EXT(x, t)                                                                                                      \
    CALL(hipExtModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t,  \
         hipStream_t, void **, void **, hipEvent_t, hipEvent_t, unsigned)                                              \
    (f, x, 1, 1, t, 1, 1, 0, stream, args, NULL, first, last, 0)
    OK(EXT(N, 64)); /* a grid of work-items */
    are(y, 0, GUARD);
    OK(CALL(hipEventSynchronize, hipEvent_t)(last));
    are(y, N, 1);
    OK(CALL(hipEventElapsedTime, float *, hipEvent_t, hipEvent_t)(&ms, first, last));
    ck_assert(ms >= 0);
    IS(EXT(N - 1, 64), hipErrorInvalidValue);
    IS(EXT(N, 0), hipErrorInvalidValue);
#undef EXT
#define RESIDENT(t, lds)                                                                                               \
    CALL(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, int *, hipFunction_t, int, size_t)(&blocks, f, t, lds)
    OK(RESIDENT(64, 0));
    ck_assert_int_eq(blocks, 32); /* 4 SIMDs of 8 waves */
    OK(RESIDENT(128, 0));
    ck_assert_int_eq(blocks, 16);
    OK(RESIDENT(128, 32768));
    ck_assert_int_eq(blocks, 2);
    OK(RESIDENT(129, 0)); /* more than the kernel is made for */
    ck_assert_int_eq(blocks, 0);
    IS(RESIDENT(0, 0), hipErrorInvalidValue);
#undef RESIDENT
    IS(CALL(hipModuleLoad, hipModule_t *, const char *)(&m, NULL), hipErrorInvalidValue);
    ck_assert(truncate(path, 63) == 0);
    IS(CALL(hipModuleLoad, hipModule_t *, const char *)(&m, path), hipErrorInvalidImage);
    unlink(path);
    IS(CALL(hipModuleLoad, hipModule_t *, const char *)(&m, path), hipErrorFileNotFound);
}
END_TEST

/* What a program's constructors and destructors do; one that a library brings goes before the others. */
START_TEST(fat_binaries_come_and_go)
{
    const struct {
        unsigned magic, version;
        const void *image, *unused;
    } wrapper = { 0x48495046, 1, code, NULL };
    start();
    void **(*come)(const void *) = rocm_symbol("__hipRegisterFatBinary");
    void (*go)(void **) = rocm_symbol("__hipUnregisterFatBinary");
    void **first = come(&wrapper), **second = come(&wrapper);
    ck_assert(first && second && first != second);
    go(second);
    go(first);
    ck_assert_ptr_nonnull(first = come(&wrapper));
    go(first);
}
END_TEST

START_TEST(errors_by_the_drivers_names)
{
    const char *text = NULL;
    start();
    OK(CALL(hipDrvGetErrorName, hipError_t, const char **)(hipErrorInvalidValue, &text));
    ck_assert_str_eq(text, "hipErrorInvalidValue");
    OK(CALL(hipDrvGetErrorString, hipError_t, const char **)(hipErrorInvalidValue, &text));
    ck_assert_str_eq(text, ((const char *(*)(hipError_t))rocm_symbol("hipGetErrorString"))(hipErrorInvalidValue));
    IS(CALL(hipDrvGetErrorName, hipError_t, const char **)(hipErrorInvalidValue, NULL), hipErrorInvalidValue);
    OK(CALL(hipSetDeviceFlags, unsigned)(0));
    OK(CALL(hipDeviceSetCacheConfig, int)(0));
    OK(CALL(hipFuncSetCacheConfig, const void *, int)(NULL, 0));
    ck_assert_str_eq(((const char *(*)(unsigned))rocm_symbol("hipApiName"))(1), "unknown");
    ck_assert_int_eq(((int (*)(hipStream_t))rocm_symbol("hipGetStreamDeviceId"))(NULL), -1);
}
END_TEST

int main(void)
{
    if (!rocm_is_there() || !emu_can_compile())
        return 77;
    Suite *s = suite_create("rocm_calls");
    TCase *tc = tcase_create("calls");
    tcase_add_unchecked_fixture(tc, compile, NULL);
    ADD_TESTS(tc, devices_by_ordinal_and_by_bus, contexts_are_devices, memory_by_every_name, what_a_pointer_is,
              copies_that_wait_and_copies_that_do_not, rows_are_copied, memsets_of_every_width, streams_are_asked,
              graphs_are_asked, modules_and_launches, fat_binaries_come_and_go, errors_by_the_drivers_names);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
