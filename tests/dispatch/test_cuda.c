/* SPDX-License-Identifier: MIT
 *
 * NVIDIA's platform on a mock libcuda (mock_cuda.c): each entry calls the driver's function with the right arguments,
 * and returns its status. */
#include <dlfcn.h>

#include "dispatch/hip/hip.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

static const struct rfg_hip *hip;
static char *said, *only;
static int *result;

static void setup(void)
{
    struct rfg_platform_report r;
    unsetenv("RFG_HIP_DISABLE");
    setenv("RFG_LIBCUDA", "mock-cuda.so", 1);
    hip = rfg_platform_nvidia.load(&r);
    ck_assert_msg(hip != NULL, "%s", r.problem);
    ck_assert_int_eq(r.devices, 3);
    ck_assert_str_eq(r.version, "CUDA 13.2");
    ck_assert_str_eq(r.problem, "");
    void *lib = dlopen("mock-cuda.so", RTLD_NOW);
    ck_assert_ptr_nonnull(lib);
    said = dlsym(lib, "mock_cuda_said");
    result = dlsym(lib, "mock_cuda_result");
    only = dlsym(lib, "mock_cuda_only");
    ck_assert(said && result && only);
}

/* CUDA's results that have a name in HIP; what has none is unknown. */
static const struct {
    int cuda;
    hipError_t hip;
} results[] = {
    { 0, hipSuccess },
    { 1, hipErrorInvalidValue },
    { 2, hipErrorOutOfMemory },
    { 3, hipErrorNotInitialized },
    { 4, hipErrorDeinitialized },
    { 100, hipErrorNoDevice },
    { 101, hipErrorInvalidDevice },
    { 200, hipErrorInvalidImage },
    { 201, hipErrorInvalidContext },
    { 209, hipErrorNoBinaryForGpu },
    { 400, hipErrorInvalidHandle },
    { 500, hipErrorNotFound },
    { 600, hipErrorNotReady },
    { 700, hipErrorIllegalAddress },
    { 701, hipErrorLaunchOutOfResources },
    { 702, hipErrorLaunchTimeOut },
    { 719, hipErrorLaunchFailure },
    { 801, hipErrorNotSupported },
    { 900, hipErrorStreamCaptureUnsupported },
    { 901, hipErrorStreamCaptureInvalidated },
    { 906, hipErrorStreamCaptureImplicit },
    { 5, hipErrorUnknown },
    { 999, hipErrorUnknown },
};
enum { N_RESULTS = sizeof(results) / sizeof(results[0]) };

#define IT(x) (void *)(uintptr_t)(x)
/* What `call` returns when the driver answers each of the results, and what it asks of the driver. */
#define CALLS(call, wanted)                                                                                            \
    for (int k = 0; k < N_RESULTS; k++) {                                                                              \
        *said = 0;                                                                                                     \
        *result = results[k].cuda;                                                                                     \
        hipError_t got = hip->call;                                                                                    \
        ck_assert_msg(got == results[k].hip, "%s: %d for CUDA's %d", #call, (int)got, *result);                        \
        ck_assert_msg(!strcmp(said, wanted), "%s: %s", #call, said);                                                   \
    }

START_TEST(memory_and_devices)
{
    int n;
    size_t bytes;
    char name[8];
    void *p;
    CALLS(hipInit(7), "cuInit(7)");
    CALLS(hipDriverGetVersion(&n), "cuDriverGetVersion(0)");
    ck_assert_int_eq(n, 13020);
    CALLS(hipGetDeviceCount(&n), "cuDeviceGetCount(0)");
    CALLS(hipDeviceGetName(name, 8, 2), "cuDeviceGetName(8,2)");
    CALLS(hipDeviceTotalMem(&bytes, 2), "cuDeviceTotalMem_v2(2)");
    ck_assert_uint_eq(bytes, 0x5000);
    CALLS(hipDeviceSynchronize(), "cuCtxSynchronize(0)");
    CALLS(hipMalloc(&p, 0x300), "cuMemAlloc_v2(300)");
    ck_assert_ptr_eq(p, IT(0xabc0));
    CALLS(hipFree(IT(0x10)), "cuMemFree_v2(10)");
    CALLS(hipMemcpyHtoD(IT(0x10), IT(0x20), 0x30), "cuMemcpyHtoD_v2(10,20,30)");
    CALLS(hipMemcpyDtoH(IT(0x10), IT(0x20), 0x30), "cuMemcpyDtoH_v2(10,20,30)");
    CALLS(hipMemcpyAsync(IT(0x10), IT(0x20), 0x30, hipMemcpyHostToDevice, IT(0x40)),
          "cuMemcpyHtoDAsync_v2(10,20,30,40)");
    CALLS(hipMemcpyAsync(IT(0x10), IT(0x20), 0x30, hipMemcpyDeviceToHost, IT(0x40)),
          "cuMemcpyDtoHAsync_v2(10,20,30,40)");
    CALLS(hipMemcpyAsync(IT(0x10), IT(0x20), 0x30, hipMemcpyDeviceToDevice, IT(0x40)),
          "cuMemcpyDtoDAsync_v2(10,20,30,40)");
    CALLS(hipMemsetD8Async(IT(0x10), 0x22, 0x30, IT(0x40)), "cuMemsetD8Async(10,22,30,40)");

    /* What needs no driver. */
    *result = 700;
    *said = 0;
    ck_assert_int_eq(hip->hipMalloc(&p, 0), hipSuccess);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(hip->hipFree(NULL), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyAsync(IT(0x10), IT(0x20), 0x30, hipMemcpyHostToHost, NULL), hipErrorInvalidValue);
    ck_assert_str_eq(said, "");
}
END_TEST

#define ATTRIBUTE(name, wanted, cuda)                                                                                  \
    CALLS(hipDeviceGetAttribute(&value, hipDeviceAttribute##name, 1), "cuDeviceGetAttribute(" wanted ",1)");           \
    ck_assert_int_eq(value, 100 + cuda)

START_TEST(attributes)
{
    int value;
    ATTRIBUTE(MultiprocessorCount, "10", 16);
    ATTRIBUTE(WarpSize, "a", 10);
    ATTRIBUTE(MaxThreadsPerBlock, "1", 1);
    ATTRIBUTE(MaxSharedMemoryPerBlock, "8", 8);
    ATTRIBUTE(ClockRate, "d", 13);
    ATTRIBUTE(MemoryClockRate, "24", 36);
    ATTRIBUTE(MemoryBusWidth, "25", 37);
    ATTRIBUTE(L2CacheSize, "26", 38);
    ATTRIBUTE(ComputeCapabilityMajor, "4b", 75);
    ATTRIBUTE(ComputeCapabilityMinor, "4c", 76);
    ck_assert_int_eq(hip->hipDeviceGetAttribute(&value, hipDeviceAttributeEccEnabled, 1), hipErrorInvalidValue);

    struct rfg_device d = { 0 };
    *result = 0;
    ck_assert_int_eq(hip->describe(1, &d), hipSuccess);
    ck_assert_str_eq(d.arch, "sm_175176");
    ck_assert(d.platform == RFG_PLATFORM_NVIDIA && d.cu_count == 116 && d.wave_size == 110 && d.max_threads == 101 &&
              d.lds_bytes == 197 && d.cache_bytes == 138);
    *result = 101;
    ck_assert_int_eq(hip->describe(3, &d), hipErrorInvalidDevice);
}
END_TEST

/* A device's context is retained once, and known again. */
START_TEST(current_device)
{
    int device = 5;
    ck_assert_int_eq(hip->hipGetDevice(&device), hipErrorInvalidContext);
    ck_assert_int_eq(device, -1);
    ck_assert_int_eq(hip->hipSetDevice(-1), hipErrorInvalidDevice);
    ck_assert_int_eq(hip->hipSetDevice(3), hipErrorInvalidDevice);
    for (int again = 0; again < 2; again++) {
        *said = 0;
        ck_assert_int_eq(hip->hipSetDevice(2), hipSuccess);
        ck_assert_str_eq(said, again ? "cuCtxSetCurrent(c22)"
                                     : "cuDeviceGet(2) cuDevicePrimaryCtxRetain(22) cuCtxSetCurrent(c22)");
        ck_assert_int_eq(hip->hipGetDevice(&device), hipSuccess);
        ck_assert_int_eq(device, 2);
    }
    *result = 201;
    ck_assert_int_eq(hip->hipSetDevice(1), hipErrorInvalidContext); /* not retained, nor taken for it later */
    ck_assert_int_eq(hip->hipGetDevice(&device), hipErrorInvalidContext);
    ck_assert_int_eq(hip->hipSetDevice(2), hipErrorInvalidContext);
    *result = 0;
    *said = 0;
    ck_assert_int_eq(hip->hipSetDevice(1), hipSuccess);
    ck_assert_str_eq(said, "cuDeviceGet(1) cuDevicePrimaryCtxRetain(21) cuCtxSetCurrent(c21)");
}
END_TEST

START_TEST(streams_graphs_events)
{
    hipStream_t s;
    hipStreamCaptureStatus status;
    hipGraph_t g;
    hipGraphExec_t x;
    hipGraphNode_t node = IT(1);
    hipEvent_t e;
    float ms;
    char log[4] = "abc";
    CALLS(hipStreamCreateWithFlags(&s, hipStreamNonBlocking), "cuStreamCreate(1)");
    CALLS(hipStreamDestroy(IT(0x10)), "cuStreamDestroy_v2(10)");
    CALLS(hipStreamSynchronize(IT(0x10)), "cuStreamSynchronize(10)");
    CALLS(hipStreamIsCapturing(IT(0x10), &status), "cuStreamIsCapturing(10)");
    ck_assert_int_eq(status, hipStreamCaptureStatusInvalidated);
    CALLS(hipStreamBeginCapture(IT(0x10), hipStreamCaptureModeRelaxed), "cuStreamBeginCapture_v2(10,2)");
    CALLS(hipStreamEndCapture(IT(0x10), &g), "cuStreamEndCapture(10)");
    CALLS(hipGraphInstantiate(&x, IT(0x10), &node, log, sizeof(log)), "cuGraphInstantiateWithFlags(10,0)");
    ck_assert(!node && !*log);
    CALLS(hipGraphInstantiate(&x, IT(0x10), NULL, NULL, 0), "cuGraphInstantiateWithFlags(10,0)");
    CALLS(hipGraphLaunch(IT(0x10), IT(0x20)), "cuGraphLaunch(10,20)");
    CALLS(hipGraphExecDestroy(IT(0x10)), "cuGraphExecDestroy(10)");
    CALLS(hipGraphDestroy(IT(0x10)), "cuGraphDestroy(10)");
    CALLS(hipEventCreateWithFlags(&e, hipEventDisableTiming), "cuEventCreate(2)");
    CALLS(hipEventDestroy(IT(0x10)), "cuEventDestroy_v2(10)");
    CALLS(hipEventRecord(IT(0x10), IT(0x20)), "cuEventRecord(10,20)");
    CALLS(hipEventSynchronize(IT(0x10)), "cuEventSynchronize(10)");
    CALLS(hipEventElapsedTime(&ms, IT(0x10), IT(0x20)), "cuEventElapsedTime(10,20)");
    ck_assert(s == IT(0x51) && g == IT(0x61) && x == IT(0x62) && e == IT(0x71) && ms == 1.5f);
}
END_TEST

START_TEST(modules_and_launches)
{
    hipModule_t m;
    hipFunction_t f;
    int value;
    CALLS(hipModuleLoadData(&m, IT(0x10)), "cuModuleLoadData(10)");
    CALLS(hipModuleUnload(IT(0x10)), "cuModuleUnload(10)");
    CALLS(hipModuleGetFunction(&f, IT(0x10), IT(0x20)),
          *result ? "cuModuleGetFunction(10,20)" : "cuModuleGetFunction(10,20) cuFuncSetAttribute(82,e,1)");
    ck_assert(m == IT(0x81) && f == IT(0x82));
    CALLS(hipFuncSetAttribute(IT(0x10), hipFuncAttributeMaxDynamicSharedMemorySize, 0x2000),
          "cuFuncSetAttribute(10,8,2000)");
    CALLS(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_NUM_REGS, IT(0x10)), "cuFuncGetAttribute(4,10)");
    ck_assert_int_eq(value, 104);
    CALLS(hipModuleLaunchKernel(IT(0x10), 1, 2, 3, 4, 5, 6, 7, IT(0x20), IT(0x30), IT(0x40)),
          "cuLaunchKernel(10,1,2,3,4,5,6,7,20,30,40)");
    struct rfg_launch l = { .grid = { 1, 2, 3 }, .block = { 4, 5, 6 }, .lds = 7 };
    CALLS(launch_overlapped(IT(0x10), &l, IT(0x20), IT(0x30)), "cuLaunchKernelEx(1,2,3,4,5,6,7,20,1,6,1,10,30,0)");

    *said = 0;
    ck_assert_int_eq(hip->hipFuncSetAttribute(IT(0x10), hipFuncAttributePreferredSharedMemoryCarveout, 1),
                     hipErrorInvalidValue);
    ck_assert_int_eq(hip->hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_PTX_VERSION, IT(0x10)), hipErrorInvalidValue);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(tile_maps)
{
    struct rfg_tile_map map = {
        .data = IT(0x10), .rows = 0x50, .row_bytes = 0x400, .stride = 0x800, .tile_rows = 0x40
    };
    struct rfg_encoded_tile_map *out = IT(0x20);
    CALLS(encode_tile_map(&map, out), "cuTensorMapEncodeTiled(20,0,2,10,400,50,0,800,0,80,40,0,1,1,0,0,3,3,0)");
    map.turns = 0x1000;
    CALLS(encode_tile_map(&map, out), "cuTensorMapEncodeTiled(20,0,3,10,400,2,50,1000,800,80,2,20,1,1,1,0,3,3,0)");
}
END_TEST

/* A stream that is destroyed has ended; the first of several errors is told, and nothing is left. */
START_TEST(streams_end)
{
    rfg_context *ctx;
    ck_assert_msg(rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params),
                                                                  .device = "nvidia:1",
                                                                  .user_db = "",
                                                                  .system_db = "" }) == RFG_OK,
                  "%s", rfg_last_error());
    for (int bad = 0; bad < 2; bad++) {
        rfg_stream stream;
        ck_assert_msg(rfg_stream_create(ctx, &stream) == RFG_OK, "%s", rfg_last_error());
        *said = 0;
        *result = 700;
        strcpy(only, bad ? "cuStreamSynchronize" : "none");
        rfg_status st = rfg_stream_destroy(ctx, &stream);
        *only = 0;
        *result = 0;
        ck_assert_int_eq(st, bad ? RFG_ERROR_DEVICE : RFG_OK);
        ck_assert_msg(!bad || strstr(rfg_last_error(), "hipStreamSynchronize"), "%s", rfg_last_error());
        const char *end = strstr(said, "cuStreamSynchronize(51) ");
        ck_assert_msg(end && strstr(end, "cuStreamDestroy_v2(51)"), "%s", said);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* What HIP has no name for is told by CUDA's; what it has one for, never. */
START_TEST(names_of_errors)
{
    ck_assert_str_eq(hip->error_name(hipErrorUnknown), "hipErrorUnknown");
    *result = 999;
    ck_assert_int_eq(hip->hipDeviceSynchronize(), hipErrorUnknown);
    *said = 0;
    ck_assert_str_eq(hip->error_name(hipErrorUnknown), "hipErrorUnknown"); /* the driver doesn't know it either */
    ck_assert_str_eq(said, "cuGetErrorName(3e7)");
    *result = 0;
    ck_assert_str_eq(hip->error_name(hipErrorUnknown), "CUDA_ERROR_MOCK");
    ck_assert_str_eq(hip->error_name(hipErrorOutOfMemory), "hipErrorOutOfMemory");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda");
    TCase *tc = test_case(s, "adapters", setup, NULL);
    ADD_TESTS(tc, memory_and_devices, attributes, current_device, streams_graphs_events, modules_and_launches,
              tile_maps, names_of_errors, streams_end);
    return run_suite(s);
}
