/* SPDX-License-Identifier: MIT
 *
 * NVIDIA as a HIP platform: the function table over the driver API of libcuda, which is loaded at run time. The
 * driver's ABI is declared here, so that neither building nor running rfg needs the CUDA toolkit. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip.h"
#include "util.h"

/* ---- the driver API, as far as it is used ------------------------------------------------------------------- */

typedef int cu_result; /* CUresult; the codes that HIP has too have HIP's numbers */
typedef int cu_device;
typedef unsigned long long cu_ptr; /* CUdeviceptr */
typedef struct cu_context *cu_context;
typedef struct cu_stream *cu_stream;
typedef struct cu_event *cu_event;
typedef struct cu_graph *cu_graph;
typedef struct cu_graph_exec *cu_graph_exec;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;

enum { /* CUdevice_attribute */
       CU_MAX_THREADS_PER_BLOCK = 1,
       CU_SHARED_PER_BLOCK = 8,
       CU_WARP_SIZE = 10,
       CU_CLOCK_RATE = 13,
       CU_MULTIPROCESSORS = 16,
       CU_MEMORY_CLOCK_RATE = 36,
       CU_MEMORY_BUS_WIDTH = 37,
       CU_L2_CACHE_SIZE = 38,
       CU_COMPUTE_MAJOR = 75,
       CU_COMPUTE_MINOR = 76,
       CU_SHARED_PER_BLOCK_OPTIN = 97,
};
enum { CU_FUNC_MAX_DYNAMIC_SHARED = 8, CU_FUNC_SHARED_CARVEOUT = 9 }; /* CUfunction_attribute */
enum { CU_SUCCESS = 0, CU_ERROR_STUB_LIBRARY = 34, CU_ERROR_NO_DEVICE = 100 };

/* X(name in the table, exported symbol, parameters) */
#define CU_ENTRIES(X)                                                                                                  \
    X(Init, "cuInit", (unsigned flags))                                                                                \
    X(DriverGetVersion, "cuDriverGetVersion", (int *version))                                                          \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                                                \
    X(DeviceGet, "cuDeviceGet", (cu_device * device, int ordinal))                                                     \
    X(DeviceGetName, "cuDeviceGetName", (char *name, int len, cu_device device))                                       \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, cu_device device))                                       \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attr, cu_device device))                            \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (cu_context * ctx, cu_device device))                        \
    X(CtxSetCurrent, "cuCtxSetCurrent", (cu_context ctx))                                                              \
    X(CtxGetCurrent, "cuCtxGetCurrent", (cu_context * ctx))                                                            \
    X(CtxSynchronize, "cuCtxSynchronize", (void))                                                                      \
    X(MemAlloc, "cuMemAlloc_v2", (cu_ptr * ptr, size_t size))                                                          \
    X(MemFree, "cuMemFree_v2", (cu_ptr ptr))                                                                           \
    X(MemcpyHtoD, "cuMemcpyHtoD_v2", (cu_ptr dst, const void *src, size_t size))                                       \
    X(MemcpyDtoH, "cuMemcpyDtoH_v2", (void *dst, cu_ptr src, size_t size))                                             \
    X(MemsetD8Async, "cuMemsetD8Async", (cu_ptr dst, unsigned char value, size_t n, cu_stream stream))                 \
    X(StreamCreate, "cuStreamCreate", (cu_stream * stream, unsigned flags))                                            \
    X(StreamDestroy, "cuStreamDestroy_v2", (cu_stream stream))                                                         \
    X(StreamSynchronize, "cuStreamSynchronize", (cu_stream stream))                                                    \
    X(StreamIsCapturing, "cuStreamIsCapturing", (cu_stream stream, int *status))                                       \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2", (cu_stream stream, int mode))                                     \
    X(StreamEndCapture, "cuStreamEndCapture", (cu_stream stream, cu_graph * graph))                                    \
    X(GraphLaunch, "cuGraphLaunch", (cu_graph_exec exec, cu_stream stream))                                            \
    X(GraphExecDestroy, "cuGraphExecDestroy", (cu_graph_exec exec))                                                    \
    X(GraphDestroy, "cuGraphDestroy", (cu_graph graph))                                                                \
    X(EventCreate, "cuEventCreate", (cu_event * event, unsigned flags))                                                \
    X(EventDestroy, "cuEventDestroy_v2", (cu_event event))                                                             \
    X(EventRecord, "cuEventRecord", (cu_event event, cu_stream stream))                                                \
    X(EventSynchronize, "cuEventSynchronize", (cu_event event))                                                        \
    X(EventElapsedTime, "cuEventElapsedTime", (float *ms, cu_event start, cu_event stop))                              \
    X(ModuleLoadData, "cuModuleLoadData", (cu_module * module, const void *image))                                     \
    X(ModuleUnload, "cuModuleUnload", (cu_module module))                                                              \
    X(ModuleGetFunction, "cuModuleGetFunction", (cu_function * fn, cu_module module, const char *name))                \
    X(FuncSetAttribute, "cuFuncSetAttribute", (cu_function fn, int attr, int value))                                   \
    X(FuncGetAttribute, "cuFuncGetAttribute", (int *value, int attr, cu_function fn))                                  \
    X(LaunchKernel, "cuLaunchKernel",                                                                                  \
      (cu_function fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,  \
       cu_stream stream, void **params, void **extra))                                                                 \
    X(GetErrorName, "cuGetErrorName", (cu_result error, const char **name))

static struct {
#define X(name, symbol, params) cu_result(*name) params;
    CU_ENTRIES(X)
#undef X
    /* One of the two: the newer call first, for drivers before 11.4 the older one. */
    cu_result (*GraphInstantiateWithFlags)(cu_graph_exec *exec, cu_graph graph, unsigned long long flags);
    cu_result (*GraphInstantiate_v2)(cu_graph_exec *exec, cu_graph graph, void **node, char *log, size_t size);
} cu;

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* The driver's code behind this thread's last hipErrorUnknown, so that its name isn't lost. */
static _Thread_local cu_result unmapped;

static hipError_t err(cu_result r)
{
    switch (r) {
    case 0:
    case hipErrorInvalidValue:
    case hipErrorOutOfMemory:
    case hipErrorNotInitialized:
    case hipErrorDeinitialized:
    case hipErrorNoDevice:
    case hipErrorInvalidDevice:
    case hipErrorInvalidImage:
    case hipErrorInvalidContext:
    case hipErrorNoBinaryForGpu:
    case hipErrorECCNotCorrectable:
    case hipErrorInvalidKernelFile:
    case hipErrorInvalidSource:
    case hipErrorFileNotFound:
    case hipErrorInvalidHandle:
    case hipErrorIllegalState:
    case hipErrorNotFound:
    case hipErrorNotReady:
    case hipErrorIllegalAddress:
    case hipErrorLaunchOutOfResources:
    case hipErrorLaunchTimeOut:
    case hipErrorContextIsDestroyed:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
    case hipErrorNotSupported:
    case hipErrorStreamCaptureUnsupported:
    case hipErrorStreamCaptureInvalidated:
    case hipErrorStreamCaptureMerge:
    case hipErrorStreamCaptureUnmatched:
    case hipErrorStreamCaptureUnjoined:
    case hipErrorStreamCaptureIsolation:
    case hipErrorStreamCaptureImplicit:
    case hipErrorCapturedEvent:
    case hipErrorStreamCaptureWrongThread:
        return (hipError_t)r;
    default:
        unmapped = r;
        return hipErrorUnknown;
    }
}

static const char *cu_name(cu_result r)
{
    const char *name = NULL;
    if (cu.GetErrorName(r, &name) != CU_SUCCESS || !name)
        return "unknown CUDA error";
    return name;
}

static const char *nv_error_name(hipError_t e)
{
    return cu_name(e == hipErrorUnknown && unmapped ? unmapped : (cu_result)e);
}

/* ---- devices and contexts ----------------------------------------------------------------------------------- */

#define MAX_DEVICES 64
static pthread_mutex_t retain_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(cu_context) retained[MAX_DEVICES]; /* the primary contexts; kept until the process ends */
static atomic_int n_retained;                     /* 1 + the highest index in use */

static hipError_t nv_Init(unsigned flags)
{
    return err(cu.Init(flags));
}

static hipError_t nv_DriverGetVersion(int *version)
{
    return err(cu.DriverGetVersion(version));
}

static hipError_t nv_GetDeviceCount(int *count)
{
    *count = 0;
    return err(cu.DeviceGetCount(count));
}

static hipError_t nv_SetDevice(int device)
{
    if (device < 0 || device >= MAX_DEVICES)
        return hipErrorInvalidDevice;
    cu_context ctx = atomic_load_explicit(&retained[device], memory_order_acquire);
    if (!ctx) {
        pthread_mutex_lock(&retain_lock);
        ctx = atomic_load(&retained[device]);
        if (!ctx) {
            cu_device dev;
            cu_result r = cu.DeviceGet(&dev, device);
            if (r == CU_SUCCESS)
                r = cu.DevicePrimaryCtxRetain(&ctx, dev);
            if (r != CU_SUCCESS) {
                pthread_mutex_unlock(&retain_lock);
                return err(r);
            }
            atomic_store_explicit(&retained[device], ctx, memory_order_release);
            if (device >= atomic_load(&n_retained))
                atomic_store(&n_retained, device + 1);
        }
        pthread_mutex_unlock(&retain_lock);
    }
    return err(cu.CtxSetCurrent(ctx));
}

/* On every call's path. A context that isn't one of ours counts as none: our modules don't live in it. */
static hipError_t nv_GetDevice(int *device)
{
    *device = -1;
    cu_context ctx = NULL;
    cu_result r = cu.CtxGetCurrent(&ctx);
    if (r != CU_SUCCESS)
        return err(r);
    if (!ctx)
        return hipErrorInvalidContext;
    int n = atomic_load_explicit(&n_retained, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        if (atomic_load_explicit(&retained[i], memory_order_relaxed) == ctx) {
            *device = i;
            return hipSuccess;
        }
    }
    return hipErrorInvalidContext;
}

static cu_result get_attr(int *value, int attr, int ordinal)
{
    cu_device dev;
    cu_result r = cu.DeviceGet(&dev, ordinal);
    return r == CU_SUCCESS ? cu.DeviceGetAttribute(value, attr, dev) : r;
}

static hipError_t nv_DeviceGetAttribute(int *value, hipDeviceAttribute_t attr, int device)
{
    int a;
    switch ((int)attr) {
    case hipDeviceAttributeMaxThreadsPerBlock:
        a = CU_MAX_THREADS_PER_BLOCK;
        break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
        a = CU_SHARED_PER_BLOCK;
        break;
    case hipDeviceAttributeWarpSize:
        a = CU_WARP_SIZE;
        break;
    case hipDeviceAttributeClockRate:
        a = CU_CLOCK_RATE;
        break;
    case hipDeviceAttributeMultiprocessorCount:
        a = CU_MULTIPROCESSORS;
        break;
    case hipDeviceAttributeMemoryClockRate:
        a = CU_MEMORY_CLOCK_RATE;
        break;
    case hipDeviceAttributeMemoryBusWidth:
        a = CU_MEMORY_BUS_WIDTH;
        break;
    case hipDeviceAttributeL2CacheSize:
        a = CU_L2_CACHE_SIZE;
        break;
    case hipDeviceAttributeComputeCapabilityMajor:
        a = CU_COMPUTE_MAJOR;
        break;
    case hipDeviceAttributeComputeCapabilityMinor:
        a = CU_COMPUTE_MINOR;
        break;
    default:
        return hipErrorInvalidValue;
    }
    return err(get_attr(value, a, device));
}

static hipError_t nv_DeviceGetName(char *name, int len, hipDevice_t device)
{
    cu_device dev;
    cu_result r = cu.DeviceGet(&dev, device);
    return err(r == CU_SUCCESS ? cu.DeviceGetName(name, len, dev) : r);
}

static hipError_t nv_DeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    cu_device dev;
    cu_result r = cu.DeviceGet(&dev, device);
    return err(r == CU_SUCCESS ? cu.DeviceTotalMem(bytes, dev) : r);
}

static hipError_t nv_DeviceSynchronize(void)
{
    return err(cu.CtxSynchronize());
}

static hipError_t nv_describe(int device, struct rfg_device *out)
{
    *out = (struct rfg_device){ .platform = RFG_PLATFORM_NVIDIA };
    int major, minor, l2, mem_khz = 0, bus_bits = 0;
    const struct {
        int attr, *value;
    } wanted[] = {
        { CU_COMPUTE_MAJOR, &major },
        { CU_COMPUTE_MINOR, &minor },
        { CU_MULTIPROCESSORS, &out->cu_count },
        { CU_WARP_SIZE, &out->wave_size },
        { CU_SHARED_PER_BLOCK_OPTIN, &out->lds_bytes },
        { CU_MAX_THREADS_PER_BLOCK, &out->max_threads },
        { CU_L2_CACHE_SIZE, &l2 },
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        cu_result r = get_attr(wanted[i].value, wanted[i].attr, device);
        if (r != CU_SUCCESS)
            return err(r);
    }
    snprintf(out->name, sizeof(out->name), "nvidia:%d", device);
    snprintf(out->arch, sizeof(out->arch), "sm_%d%d", major, minor);
    /* The "a" targets have the instructions that only this very generation has. */
    bool exact = (major == 9 || major == 10) && minor == 0;
    snprintf(out->target, sizeof(out->target), "sm_%d%d%s", major, minor, exact ? "a" : "");
    if (major >= 8)
        out->features = RFG_FEATURE_MMA | RFG_FEATURE_ASYNC;
    if (get_attr(&mem_khz, CU_MEMORY_CLOCK_RATE, device) == CU_SUCCESS &&
        get_attr(&bus_bits, CU_MEMORY_BUS_WIDTH, device) == CU_SUCCESS)
        out->mem_gbps = mem_khz * 1e3 * 2 * (bus_bits / 8.0) / 1e9;
    rfg_device_peaks(out); /* keeps this bandwidth for an arch that it doesn't know */
    if (l2 > 0)
        out->cache_bytes = l2;
    return hipSuccess;
}

/* ---- memory, streams, graphs, events ------------------------------------------------------------------------ */

/* CUDA refuses what HIP allows: allocating nothing. */
static hipError_t nv_Malloc(void **ptr, size_t size)
{
    *ptr = NULL;
    if (size == 0)
        return hipSuccess;
    cu_ptr p = 0;
    cu_result r = cu.MemAlloc(&p, size);
    if (r == CU_SUCCESS)
        *ptr = (void *)(uintptr_t)p;
    return err(r);
}

static hipError_t nv_Free(void *ptr)
{
    return ptr ? err(cu.MemFree((uintptr_t)ptr)) : hipSuccess;
}

static hipError_t nv_MemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    return err(cu.MemcpyHtoD((uintptr_t)dst, src, size));
}

static hipError_t nv_MemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    return err(cu.MemcpyDtoH(dst, (uintptr_t)src, size));
}

static hipError_t nv_MemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t n, hipStream_t stream)
{
    return err(cu.MemsetD8Async((uintptr_t)dst, value, n, (cu_stream)stream));
}

/* Flags of streams and events and the capture modes and states have CUDA's numbers in HIP. */
static hipError_t nv_StreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    return err(cu.StreamCreate((cu_stream *)stream, flags));
}

static hipError_t nv_StreamDestroy(hipStream_t stream)
{
    return err(cu.StreamDestroy((cu_stream)stream));
}

static hipError_t nv_StreamSynchronize(hipStream_t stream)
{
    return err(cu.StreamSynchronize((cu_stream)stream));
}

static hipError_t nv_StreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    int s = 0;
    cu_result r = cu.StreamIsCapturing((cu_stream)stream, &s);
    *status = (hipStreamCaptureStatus)s;
    return err(r);
}

static hipError_t nv_StreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    return err(cu.StreamBeginCapture((cu_stream)stream, (int)mode));
}

static hipError_t nv_StreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    return err(cu.StreamEndCapture((cu_stream)stream, (cu_graph *)graph));
}

static hipError_t nv_GraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *error_node, char *log,
                                      size_t log_size)
{
    if (error_node)
        *error_node = NULL;
    if (log && log_size > 0)
        log[0] = 0;
    if (cu.GraphInstantiateWithFlags)
        return err(cu.GraphInstantiateWithFlags((cu_graph_exec *)exec, (cu_graph)graph, 0));
    return err(cu.GraphInstantiate_v2((cu_graph_exec *)exec, (cu_graph)graph, (void **)error_node, log, log_size));
}

static hipError_t nv_GraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    return err(cu.GraphLaunch((cu_graph_exec)exec, (cu_stream)stream));
}

static hipError_t nv_GraphExecDestroy(hipGraphExec_t exec)
{
    return err(cu.GraphExecDestroy((cu_graph_exec)exec));
}

static hipError_t nv_GraphDestroy(hipGraph_t graph)
{
    return err(cu.GraphDestroy((cu_graph)graph));
}

static hipError_t nv_EventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    return err(cu.EventCreate((cu_event *)event, flags));
}

static hipError_t nv_EventDestroy(hipEvent_t event)
{
    return err(cu.EventDestroy((cu_event)event));
}

static hipError_t nv_EventRecord(hipEvent_t event, hipStream_t stream)
{
    return err(cu.EventRecord((cu_event)event, (cu_stream)stream));
}

static hipError_t nv_EventSynchronize(hipEvent_t event)
{
    return err(cu.EventSynchronize((cu_event)event));
}

static hipError_t nv_EventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
    return err(cu.EventElapsedTime(ms, (cu_event)start, (cu_event)stop));
}

/* ---- modules and kernels ------------------------------------------------------------------------------------ */

static hipError_t nv_ModuleLoadData(hipModule_t *module, const void *image)
{
    return err(cu.ModuleLoadData((cu_module *)module, image));
}

static hipError_t nv_ModuleUnload(hipModule_t module)
{
    return err(cu.ModuleUnload((cu_module)module));
}

static hipError_t nv_ModuleGetFunction(hipFunction_t *fn, hipModule_t module, const char *name)
{
    return err(cu.ModuleGetFunction((cu_function *)fn, (cu_module)module, name));
}

static hipError_t nv_FuncSetAttribute(const void *fn, hipFuncAttribute attr, int value)
{
    int a;
    switch (attr) {
    case hipFuncAttributeMaxDynamicSharedMemorySize:
        a = CU_FUNC_MAX_DYNAMIC_SHARED;
        break;
    case hipFuncAttributePreferredSharedMemoryCarveout:
        a = CU_FUNC_SHARED_CARVEOUT;
        break;
    default:
        return hipErrorInvalidValue;
    }
    return err(cu.FuncSetAttribute((cu_function)(uintptr_t)fn, a, value));
}

static hipError_t nv_FuncGetAttribute(int *value, hipFunction_attribute attr, hipFunction_t fn)
{
    static const int map[] = {
        [HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 0,
        [HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = 1,
        [HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = 2,
        [HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = 3,
        [HIP_FUNC_ATTRIBUTE_NUM_REGS] = 4,
        [HIP_FUNC_ATTRIBUTE_PTX_VERSION] = 5,
        [HIP_FUNC_ATTRIBUTE_BINARY_VERSION] = 6,
        [HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA] = 7,
        [HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = CU_FUNC_MAX_DYNAMIC_SHARED,
        [HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = CU_FUNC_SHARED_CARVEOUT,
    };
    if ((size_t)attr >= sizeof(map) / sizeof(map[0]))
        return hipErrorInvalidValue;
    return err(cu.FuncGetAttribute(value, map[attr], (cu_function)fn));
}

static hipError_t nv_ModuleLaunchKernel(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                        unsigned by, unsigned bz, unsigned lds, hipStream_t stream, void **params,
                                        void **extra)
{
    void *list[5]; /* CUDA's list of packed arguments ends with another mark than HIP's */
    if (extra) {
        int n = 0;
        while (n < 4 && extra[n] != HIP_LAUNCH_PARAM_END) {
            list[n] = extra[n];
            list[n + 1] = extra[n + 1];
            n += 2;
        }
        list[n] = NULL;
        extra = list;
    }
    return err(cu.LaunchKernel((cu_function)fn, gx, gy, gz, bx, by, bz, lds, (cu_stream)stream, params, extra));
}

/* ---- loading ------------------------------------------------------------------------------------------------ */

static const struct rfg_hip nv_hip = {
    .hipInit = nv_Init,
    .hipDriverGetVersion = nv_DriverGetVersion,
    .hipGetDeviceCount = nv_GetDeviceCount,
    .hipSetDevice = nv_SetDevice,
    .hipGetDevice = nv_GetDevice,
    .hipDeviceGetAttribute = nv_DeviceGetAttribute,
    .hipDeviceGetName = nv_DeviceGetName,
    .hipDeviceTotalMem = nv_DeviceTotalMem,
    .hipDeviceSynchronize = nv_DeviceSynchronize,
    .hipMalloc = nv_Malloc,
    .hipFree = nv_Free,
    .hipMemcpyHtoD = nv_MemcpyHtoD,
    .hipMemcpyDtoH = nv_MemcpyDtoH,
    .hipMemsetD8Async = nv_MemsetD8Async,
    .hipStreamCreateWithFlags = nv_StreamCreateWithFlags,
    .hipStreamDestroy = nv_StreamDestroy,
    .hipStreamSynchronize = nv_StreamSynchronize,
    .hipStreamIsCapturing = nv_StreamIsCapturing,
    .hipStreamBeginCapture = nv_StreamBeginCapture,
    .hipStreamEndCapture = nv_StreamEndCapture,
    .hipGraphInstantiate = nv_GraphInstantiate,
    .hipGraphLaunch = nv_GraphLaunch,
    .hipGraphExecDestroy = nv_GraphExecDestroy,
    .hipGraphDestroy = nv_GraphDestroy,
    .hipEventCreateWithFlags = nv_EventCreateWithFlags,
    .hipEventDestroy = nv_EventDestroy,
    .hipEventRecord = nv_EventRecord,
    .hipEventSynchronize = nv_EventSynchronize,
    .hipEventElapsedTime = nv_EventElapsedTime,
    .hipModuleLoadData = nv_ModuleLoadData,
    .hipModuleUnload = nv_ModuleUnload,
    .hipModuleGetFunction = nv_ModuleGetFunction,
    .hipFuncSetAttribute = nv_FuncSetAttribute,
    .hipFuncGetAttribute = nv_FuncGetAttribute,
    .hipModuleLaunchKernel = nv_ModuleLaunchKernel,
    .error_name = nv_error_name,
    .describe = nv_describe,
    .platform = RFG_PLATFORM_NVIDIA,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rfg_platform_report found;
static const struct rfg_hip *loaded;

static void say_version(void)
{
    int v = 0;
    if (cu.DriverGetVersion(&v) != CU_SUCCESS)
        return;
    char driver[32] = "";
    FILE *f = fopen("/sys/module/nvidia/version", "r");
    if (f) {
        if (fscanf(f, "%31s", driver) != 1)
            driver[0] = 0;
        fclose(f);
    }
    snprintf(found.version, sizeof(found.version), driver[0] ? "%d.%d (driver %s)" : "%d.%d", v / 1000, v % 1000 / 10,
             driver);
}

static void *symbol(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    if (!p && !found.problem[0])
        snprintf(found.problem, sizeof(found.problem), "%s has no %s", found.library, name);
    return p;
}

static void load(void)
{
    const char *path = rfg_env("RFG_LIBCUDA"), *off = rfg_env("RFG_HIP_DISABLE");
    found.platform = "NVIDIA";
    snprintf(found.library, sizeof(found.library), "%s", path ? path : "libcuda.so.1");
    if (off && strstr(off, "nvidia")) {
        snprintf(found.problem, sizeof(found.problem), "switched off by RFG_HIP_DISABLE=%s", off);
        snprintf(found.advice, sizeof(found.advice), "unset RFG_HIP_DISABLE to use it");
        return;
    }
    void *lib = dlopen(found.library, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(found.problem, sizeof(found.problem), "%s", dlerror());
        snprintf(found.advice, sizeof(found.advice), "install NVIDIA's driver, or set RFG_LIBCUDA to its libcuda.so.1");
        return;
    }
    found.found = true;
#define X(name, sym, params) cu.name = (cu_result(*) params)symbol(lib, sym);
    CU_ENTRIES(X)
#undef X
    *(void **)&cu.GraphInstantiateWithFlags = dlsym(lib, "cuGraphInstantiateWithFlags");
    if (!cu.GraphInstantiateWithFlags)
        *(void **)&cu.GraphInstantiate_v2 = symbol(lib, "cuGraphInstantiate_v2");
    if (found.problem[0]) {
        snprintf(found.advice, sizeof(found.advice), "update NVIDIA's driver: rfg needs 11.0 or newer");
        return;
    }
    say_version();
    cu_result r = cu.Init(0);
    if (r == CU_SUCCESS)
        r = cu.DeviceGetCount(&found.devices);
    if (r == CU_ERROR_NO_DEVICE || (r == CU_SUCCESS && found.devices == 0)) {
        found.devices = 0;
        snprintf(found.problem, sizeof(found.problem), "%s sees no device", found.library);
        snprintf(found.advice, sizeof(found.advice), "check nvidia-smi, /dev/nvidia* and CUDA_VISIBLE_DEVICES");
    } else if (r == CU_ERROR_STUB_LIBRARY) {
        snprintf(found.problem, sizeof(found.problem), "%s is the toolkit's stub, not the driver", found.library);
        snprintf(found.advice, sizeof(found.advice), "take the stubs directory out of LD_LIBRARY_PATH");
    } else if (r != CU_SUCCESS) {
        snprintf(found.problem, sizeof(found.problem), "cuInit: %s (%d)", cu_name(r), r);
        snprintf(found.advice, sizeof(found.advice), "check nvidia-smi: the driver and its library must match");
    } else {
        loaded = &nv_hip;
    }
}

const struct rfg_hip *rfg_hip_nvidia(struct rfg_platform_report *report)
{
    const struct rfg_hip *hip = rfg_hip_overridden(RFG_PLATFORM_NVIDIA, report);
    if (hip)
        return hip;
    pthread_once(&once, load);
    if (report)
        *report = found;
    return loaded;
}
