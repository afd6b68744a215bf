/* SPDX-License-Identifier: MIT
 *
 * NVIDIA as a HIP platform: libcuda by dlopen, behind adapters with HIP's signatures. The declarations are our own (the
 * driver's ABI is stable and documented), so that building needs no CUDA toolkit. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_platform.h"
#include "base/util.h"

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext; /* and streams, events, modules, functions, graphs: opaque pointers, as in HIP */

/* CUlaunchConfig and CUlaunchAttribute. */
struct launch_attribute {
    int id;
    union {
        uint64_t words[8];
        int value;
    } of;
};
struct launch_config {
    unsigned grid[3], block[3], lds;
    void *stream;
    struct launch_attribute *attributes;
    unsigned n_attributes;
};

/* X(name of the symbol, parameters); all return CUresult. */
#define CUDA_ENTRIES(X)                                                                                                \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDriverGetVersion, (int *))                                                                                     \
    X(cuGetErrorName, (CUresult, const char **))                                                                       \
    X(cuDeviceGetCount, (int *))                                                                                       \
    X(cuDeviceGet, (CUdevice *, int))                                                                                  \
    X(cuDeviceGetName, (char *, int, CUdevice))                                                                        \
    X(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                                       \
    X(cuDeviceGetAttribute, (int *, int, CUdevice))                                                                    \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                               \
    X(cuCtxSetCurrent, (CUcontext))                                                                                    \
    X(cuCtxGetCurrent, (CUcontext *))                                                                                  \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                          \
    X(cuMemFree_v2, (CUdeviceptr))                                                                                     \
    X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                            \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                                  \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, void *))                                               \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, void *))                                                     \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, void *))                                                \
    X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, void *))                                                   \
    X(cuStreamCreate, (void **, unsigned))                                                                             \
    X(cuStreamDestroy_v2, (void *))                                                                                    \
    X(cuStreamSynchronize, (void *))                                                                                   \
    X(cuStreamIsCapturing, (void *, int *))                                                                            \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    X(cuStreamEndCapture, (void *, void **))                                                                           \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    X(cuGraphLaunch, (void *, void *))                                                                                 \
    X(cuGraphExecDestroy, (void *))                                                                                    \
    X(cuGraphDestroy, (void *))                                                                                        \
    X(cuEventCreate, (void **, unsigned))                                                                              \
    X(cuEventDestroy_v2, (void *))                                                                                     \
    X(cuEventRecord, (void *, void *))                                                                                 \
    X(cuEventSynchronize, (void *))                                                                                    \
    X(cuEventElapsedTime, (float *, void *, void *))                                                                   \
    X(cuModuleLoadData, (void **, const void *))                                                                       \
    X(cuModuleUnload, (void *))                                                                                        \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuFuncSetAttribute, (void *, int, int))                                                                          \
    X(cuFuncGetAttribute, (int *, int, void *))                                                                        \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(cuLaunchKernelEx, (const struct launch_config *, void *, void **, void **))

/* hipIpcMemHandle_t is as CUipcMemHandle: a struct of 64 bytes. */

/* Of communicators; NULL: the driver has no such function. */
#define CUDA_PEER_ENTRIES(X)                                                                                           \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                     \
    X(cuMemFreeHost, (void *))                                                                                         \
    X(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                                              \
    X(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                                    \
    X(cuIpcGetMemHandle, (hipIpcMemHandle_t *, CUdeviceptr))                                                           \
    X(cuIpcOpenMemHandle_v2, (CUdeviceptr *, hipIpcMemHandle_t, unsigned))                                             \
    X(cuIpcCloseMemHandle, (CUdeviceptr))

static struct {
#define X(name, params) CUresult(*name) params;
    CUDA_ENTRIES(X)
    CUDA_PEER_ENTRIES(X)
#undef X
    /* Of CUDA 12; NULL: the driver is older. Matrix, type of elements, dimensions; data, sizes, strides in bytes of all
     * but the first, sizes of a tile, steps in it; interleaving, swizzle, L2 promotion, what lies beyond. */
    CUresult (*cuTensorMapEncodeTiled)(struct rfg_encoded_tile_map *, int, uint32_t, const void *, const uint64_t *,
                                       const uint64_t *, const uint32_t *, const uint32_t *, int, int, int, int);
} cu;

#define MAX_DEVICES 64
static int n_devices;
static _Atomic(CUcontext) contexts[MAX_DEVICES]; /* primary contexts, retained for ever once asked for */
static pthread_mutex_t retain_lock = PTHREAD_MUTEX_INITIALIZER;

/* CUresult values that callers tell apart; HIP kept CUDA's numbers for these, but not for all. */
static hipError_t from_cuda(CUresult r)
{
    switch (r) {
    case 0:
        return hipSuccess;
    case 1:
        return hipErrorInvalidValue;
    case 2:
        return hipErrorOutOfMemory;
    case 3:
        return hipErrorNotInitialized;
    case 4:
        return hipErrorDeinitialized;
    case 100:
        return hipErrorNoDevice;
    case 101:
        return hipErrorInvalidDevice;
    case 200:
        return hipErrorInvalidImage;
    case 201:
        return hipErrorInvalidContext;
    case 209: /* no binary for this GPU */
        return hipErrorNoBinaryForGpu;
    case 400:
        return hipErrorInvalidHandle;
    case 500:
        return hipErrorNotFound;
    case 217:
        return hipErrorPeerAccessUnsupported;
    case 600:
        return hipErrorNotReady;
    case 700:
        return hipErrorIllegalAddress;
    case 704:
        return hipErrorPeerAccessAlreadyEnabled;
    case 701:
        return hipErrorLaunchOutOfResources;
    case 702:
        return hipErrorLaunchTimeOut;
    case 719:
        return hipErrorLaunchFailure;
    case 801:
        return hipErrorNotSupported;
    case 900:
        return hipErrorStreamCaptureUnsupported;
    case 901:
        return hipErrorStreamCaptureInvalidated;
    case 906:
        return hipErrorStreamCaptureImplicit;
    default:
        return hipErrorUnknown;
    }
}

/* The last result that has no HIP name of its own, so that error_name() can still tell CUDA's. */
static _Thread_local CUresult last_unknown;

static hipError_t check(CUresult r)
{
    hipError_t e = from_cuda(r);
    if (e == hipErrorUnknown)
        last_unknown = r;
    return e;
}

static const char *nv_error_name(hipError_t e)
{
    const char *name = NULL;
    if (e == hipErrorUnknown && last_unknown && cu.cuGetErrorName && cu.cuGetErrorName(last_unknown, &name) == 0 &&
        name)
        return name;
    return rfg_hip_error_name(e);
}

/* ---- adapters ---------------------------------------------------------------------------------------------------- */

static hipError_t nv_Init(unsigned flags)
{
    return check(cu.cuInit(flags));
}

static hipError_t nv_DriverGetVersion(int *version)
{
    return check(cu.cuDriverGetVersion(version));
}

static hipError_t nv_GetDeviceCount(int *count)
{
    return check(cu.cuDeviceGetCount(count));
}

/* The device's primary context. */
static hipError_t context_of(int device, CUcontext *out)
{
    if (device < 0 || device >= n_devices)
        return hipErrorInvalidDevice;
    CUcontext ctx = atomic_load_explicit(&contexts[device], memory_order_acquire);
    if (!ctx) {
        CUdevice d;
        pthread_mutex_lock(&retain_lock);
        CUresult r = 0;
        if (!(ctx = atomic_load(&contexts[device])) && (r = cu.cuDeviceGet(&d, device)) == 0 &&
            (r = cu.cuDevicePrimaryCtxRetain(&ctx, d)) == 0)
            atomic_store_explicit(&contexts[device], ctx, memory_order_release);
        pthread_mutex_unlock(&retain_lock);
        if (r)
            return check(r);
    }
    *out = ctx;
    return hipSuccess;
}

static hipError_t nv_SetDevice(int device)
{
    CUcontext ctx;
    hipError_t e = context_of(device, &ctx);
    return e == hipSuccess ? check(cu.cuCtxSetCurrent(ctx)) : e;
}

/* On every op call: one driver query and a comparison. */
static hipError_t nv_GetDevice(int *device)
{
    CUcontext ctx = NULL;
    CUresult r = cu.cuCtxGetCurrent(&ctx);
    *device = -1;
    if (r)
        return check(r);
    for (int i = 0; ctx && i < n_devices; i++)
        if (atomic_load_explicit(&contexts[i], memory_order_acquire) == ctx) {
            *device = i;
            return hipSuccess;
        }
    return hipErrorInvalidContext;
}

/* HIP's attribute -> CUDA's number. */
static hipError_t nv_DeviceGetAttribute(int *value, hipDeviceAttribute_t attr, int device)
{
    static const struct {
        hipDeviceAttribute_t hip;
        int cuda;
    } map[] = { { hipDeviceAttributeMultiprocessorCount, 16 },
                { hipDeviceAttributeWarpSize, 10 },
                { hipDeviceAttributeMaxThreadsPerBlock, 1 },
                { hipDeviceAttributeMaxSharedMemoryPerBlock, 8 },
                { hipDeviceAttributeClockRate, 13 },
                { hipDeviceAttributeMemoryClockRate, 36 },
                { hipDeviceAttributeMemoryBusWidth, 37 },
                { hipDeviceAttributeL2CacheSize, 38 },
                { hipDeviceAttributeComputeCapabilityMajor, 75 },
                { hipDeviceAttributeComputeCapabilityMinor, 76 } };
    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
        if (map[i].hip == attr)
            return check(cu.cuDeviceGetAttribute(value, map[i].cuda, device));
    return hipErrorInvalidValue;
}

static hipError_t nv_DeviceGetName(char *name, int len, hipDevice_t device)
{
    return check(cu.cuDeviceGetName(name, len, device));
}

static hipError_t nv_DeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    return check(cu.cuDeviceTotalMem_v2(bytes, device));
}

static hipError_t nv_DeviceSynchronize(void)
{
    return check(cu.cuCtxSynchronize());
}

static hipError_t nv_Malloc(void **ptr, size_t size)
{
    CUdeviceptr p = 0;
    CUresult r = size ? cu.cuMemAlloc_v2(&p, size) : 0; /* HIP: nothing of nothing is NULL and no error */
    *ptr = (void *)(uintptr_t)p;
    return check(r);
}

static hipError_t nv_Free(void *ptr)
{
    return ptr ? check(cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)ptr)) : hipSuccess;
}

static hipError_t nv_MemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
    return check(cu.cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)dst, src, size));
}

static hipError_t nv_MemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
    return check(cu.cuMemcpyDtoH_v2(dst, (CUdeviceptr)(uintptr_t)src, size));
}

static hipError_t nv_MemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)dst, from = (CUdeviceptr)(uintptr_t)src;
    switch (kind) {
    case hipMemcpyHostToDevice:
        return check(cu.cuMemcpyHtoDAsync_v2(to, src, size, stream));
    case hipMemcpyDeviceToHost:
        return check(cu.cuMemcpyDtoHAsync_v2(dst, from, size, stream));
    case hipMemcpyDeviceToDevice:
        return check(cu.cuMemcpyDtoDAsync_v2(to, from, size, stream));
    default:
        return hipErrorInvalidValue;
    }
}

static hipError_t nv_MemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t n, hipStream_t stream)
{
    return check(cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)dst, value, n, stream));
}

static hipError_t nv_StreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    return check(cu.cuStreamCreate((void **)stream, flags)); /* hipStreamNonBlocking is 1 in both */
}

static hipError_t nv_StreamDestroy(hipStream_t stream)
{
    return check(cu.cuStreamDestroy_v2(stream));
}

static hipError_t nv_StreamSynchronize(hipStream_t stream)
{
    return check(cu.cuStreamSynchronize(stream));
}

static hipError_t nv_StreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    int s = 0; /* 0 none, 1 active, 2 invalidated in both */
    CUresult r = cu.cuStreamIsCapturing(stream, &s);
    *status = (hipStreamCaptureStatus)s;
    return check(r);
}

static hipError_t nv_StreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    return check(cu.cuStreamBeginCapture_v2(stream, (int)mode)); /* global, thread local, relaxed in both */
}

static hipError_t nv_StreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    return check(cu.cuStreamEndCapture(stream, (void **)graph));
}

static hipError_t nv_GraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *error_node, char *log,
                                      size_t log_size)
{
    if (error_node)
        *error_node = NULL;
    if (log && log_size)
        log[0] = 0;
    return check(cu.cuGraphInstantiateWithFlags((void **)exec, graph, 0));
}

static hipError_t nv_GraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    return check(cu.cuGraphLaunch(exec, stream));
}

static hipError_t nv_GraphExecDestroy(hipGraphExec_t exec)
{
    return check(cu.cuGraphExecDestroy(exec));
}

static hipError_t nv_GraphDestroy(hipGraph_t graph)
{
    return check(cu.cuGraphDestroy(graph));
}

static hipError_t nv_EventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    return check(cu.cuEventCreate((void **)event, flags)); /* default 0, blocking sync 1, no timing 2 in both */
}

static hipError_t nv_EventDestroy(hipEvent_t event)
{
    return check(cu.cuEventDestroy_v2(event));
}

static hipError_t nv_EventRecord(hipEvent_t event, hipStream_t stream)
{
    return check(cu.cuEventRecord(event, stream));
}

static hipError_t nv_EventSynchronize(hipEvent_t event)
{
    return check(cu.cuEventSynchronize(event));
}

static hipError_t nv_EventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
    return check(cu.cuEventElapsedTime(ms, start, stop));
}

static hipError_t nv_ModuleLoadData(hipModule_t *module, const void *image)
{
    return check(cu.cuModuleLoadData((void **)module, image));
}

static hipError_t nv_ModuleUnload(hipModule_t module)
{
    return check(cu.cuModuleUnload(module));
}

static hipError_t nv_ModuleGetFunction(hipFunction_t *fn, hipModule_t module, const char *name)
{
    CUresult r = cu.cuModuleGetFunction((void **)fn, module, name);
    if (r == 0) /* CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, for clusters of 16; before sm_90 nobody asks */
        (void)cu.cuFuncSetAttribute(*fn, 14, 1);
    return check(r);
}

static hipError_t nv_FuncSetAttribute(const void *fn, hipFuncAttribute attr, int value)
{
    if (attr != hipFuncAttributeMaxDynamicSharedMemorySize)
        return hipErrorInvalidValue;
    return check(cu.cuFuncSetAttribute((void *)fn, 8, value)); /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
}

static hipError_t nv_FuncGetAttribute(int *value, hipFunction_attribute attr, hipFunction_t fn)
{
    /* HIP_FUNC_ATTRIBUTE_* have CUDA's numbers: 0 max threads, 1 shared, 2 const, 3 local, 4 registers. */
    return attr <= HIP_FUNC_ATTRIBUTE_NUM_REGS ? check(cu.cuFuncGetAttribute(value, (int)attr, fn))
                                               : hipErrorInvalidValue;
}

static hipError_t nv_ModuleLaunchKernel(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                        unsigned by, unsigned bz, unsigned lds, hipStream_t stream, void **params,
                                        void **extra)
{
    CUresult r = cu.cuLaunchKernel(fn, gx, gy, gz, bx, by, bz, lds, stream, params, extra);
    return __builtin_expect(r == 0, 1) ? hipSuccess : check(r);
}

static hipError_t nv_launch_overlapped(hipFunction_t fn, const struct rfg_launch *l, hipStream_t stream, void **params)
{
    /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
    struct launch_attribute serialization = { .id = 6, .of.value = 1 };
    struct launch_config config = { { l->grid[0], l->grid[1], l->grid[2] },
                                    { l->block[0], l->block[1], l->block[2] },
                                    l->lds,
                                    stream,
                                    &serialization,
                                    1 };
    CUresult r = cu.cuLaunchKernelEx(&config, fn, params, NULL);
    return __builtin_expect(r == 0, 1) ? hipSuccess : check(r);
}

/* ---- peers ------------------------------------------------------------------------------------------------------- */

static hipError_t nv_hipHostMalloc(void **ptr, size_t size, unsigned flags)
{
    return check(cu.cuMemHostAlloc(ptr, size, flags)); /* portable 1, mapped 2 in both */
}

static hipError_t nv_hipHostFree(void *ptr)
{
    return ptr ? check(cu.cuMemFreeHost(ptr)) : hipSuccess;
}

/* Peers' stores arrive in the owner's L2: there is only one kind of memory. */
static hipError_t nv_hipExtMallocWithFlags(void **ptr, size_t size, unsigned flags)
{
    (void)flags;
    return nv_Malloc(ptr, size);
}

static hipError_t nv_hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    return check(cu.cuDeviceCanAccessPeer(can, device, peer)); /* a CUdevice is its number */
}

static hipError_t nv_hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    CUcontext ctx;
    hipError_t e = context_of(peer, &ctx);
    return e == hipSuccess ? check(cu.cuCtxEnablePeerAccess(ctx, flags)) : e;
}

static hipError_t nv_hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
    return check(cu.cuIpcGetMemHandle(handle, (CUdeviceptr)(uintptr_t)ptr));
}

static hipError_t nv_hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags)
{
    return check(cu.cuIpcOpenMemHandle_v2((CUdeviceptr *)ptr, handle, flags)); /* 1: lazy peer access, in both */
}

static hipError_t nv_hipIpcCloseMemHandle(void *ptr)
{
    return check(cu.cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)ptr));
}

static hipError_t nv_describe(int device, struct rfg_device *out)
{
    /* SMs, lanes, threads, opt-in shared memory, L2, major, minor, memory clock in kHz, bus width in bits */
    static const int attr[] = { 16, 10, 1, 97, 38, 75, 76, 36, 37 };
    int v[9];
    for (int i = 0; i < 9; i++) {
        CUresult r = cu.cuDeviceGetAttribute(&v[i], attr[i], device);
        if (r)
            return check(r);
    }
    out->platform = RFG_PLATFORM_NVIDIA;
    snprintf(out->arch, sizeof(out->arch), "sm_%d%d", v[5], v[6]);
    /* wgmma and its kin exist only in the arch-specific targets */
    snprintf(out->target, sizeof(out->target), "sm_%d%d%s", v[5], v[6],
             v[5] >= 9 && v[5] <= 10 && v[6] == 0 ? "a" : "");
    out->cu_count = v[0];
    out->wave_size = v[1];
    out->max_threads = v[2];
    out->lds_bytes = v[3];
    out->cache_bytes = v[4];
    out->mem_gbps = 2.0 * v[7] * v[8] / 8 * 1e-6;
    struct rfg_memory memory = { .product = "" };
    if (cu.cuDeviceGetName(memory.product, sizeof(memory.product), device))
        memory.product[0] = 0;
    rfg_device_peaks(out, &memory);
    if (!cu.cuTensorMapEncodeTiled)
        out->features &= ~(unsigned)RFG_FEATURE_TMA;
    return hipSuccess;
}

/* In bytes: columns and rows. */
static hipError_t nv_encode_tile_map(const struct rfg_tile_map *map, struct rfg_encoded_tile_map *out)
{
    enum { UINT8 = 0, NO_INTERLEAVE = 0, SWIZZLE_128 = 3, L2_256 = 3, ZEROES = 0 };
    const uint64_t rows = (uint64_t)map->rows, apart = (uint64_t)map->stride, turns = (uint64_t)map->turns;
    const uint64_t size[] = { (uint64_t)map->row_bytes, turns ? 2 : rows, rows };
    const uint64_t stride[] = { turns ? turns : apart, apart };
    const uint32_t tile[] = { 128, turns ? 2 : (uint32_t)map->tile_rows, (uint32_t)map->tile_rows / 2 };
    const uint32_t step[] = { 1, 1, 1 };
    return check(cu.cuTensorMapEncodeTiled(out, UINT8, turns ? 3 : 2, map->data, size, stride, tile, step,
                                           NO_INTERLEAVE, SWIZZLE_128, L2_256, ZEROES));
}

static struct rfg_hip table = {
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
    .hipMemcpyAsync = nv_MemcpyAsync,
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
    .launch_overlapped = nv_launch_overlapped,
    .encode_tile_map = nv_encode_tile_map,
    .error_name = nv_error_name,
    .describe = nv_describe,
    .platform = RFG_PLATFORM_NVIDIA,
};

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rfg_platform_report loaded;
static bool usable;

static void driver_name(int version, char *buf, size_t size)
{
    snprintf(buf, size, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

static void *open_driver(struct rfg_platform_report *r)
{
    const char *path = rfg_env("RFG_LIBCUDA"), *const names[] = { path ? path : "libcuda.so.1",
                                                                  path ? NULL : "libcuda.so" };
    void *lib = NULL;
    for (size_t i = 0; i < 2 && names[i] && !lib; i++) {
        snprintf(r->library, sizeof(r->library), "%s", names[i]);
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    r->found = lib;
    if (!lib) {
        const char *error = dlerror();
        snprintf(r->library, sizeof(r->library), "%s", names[0]);
        snprintf(r->problem, sizeof(r->problem), "%.100s not found%s%.100s", names[0], path && error ? ": " : "",
                 path && error ? error : "");
        snprintf(r->advice, sizeof(r->advice), "for an NVIDIA GPU: install NVIDIA's driver, which brings libcuda.so.1");
    }
    return lib;
}

static void load(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } entries[] = {
#define X(name, params) { #name, offsetof(__typeof__(cu), name) },
        CUDA_ENTRIES(X)
#undef X
    };
    struct rfg_platform_report *r = &loaded;
    int version = 0;
    r->platform = "NVIDIA";
    snprintf(r->library, sizeof(r->library), "libcuda.so.1");
    void *lib = rfg_platform_switched_off(r, "nvidia") ? NULL : open_driver(r);
    if (!lib)
        return;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *symbol = dlsym(lib, entries[i].name);
        if (!symbol) {
            snprintf(r->problem, sizeof(r->problem), "%.100s lacks %s: it is too old", r->library, entries[i].name);
            snprintf(r->advice, sizeof(r->advice), "install an NVIDIA driver for CUDA 11.4 or newer");
            return;
        }
        memcpy((char *)&cu + entries[i].offset, &symbol, sizeof(symbol));
    }
    bool peers = true;
#define X(name, params) *(void **)&cu.name = dlsym(lib, #name), peers &= cu.name != NULL;
    CUDA_PEER_ENTRIES(X)
#undef X
#define X(ret, name, params, args) table.name = peers ? nv_##name : NULL;
    RFG_HIP_PEER_ENTRIES(X)
#undef X
    void *encode = dlsym(lib, "cuTensorMapEncodeTiled");
    memcpy(&cu.cuTensorMapEncodeTiled, &encode, sizeof(encode));
    CUresult e = cu.cuInit(0);
    if (cu.cuDriverGetVersion(&version) == 0)
        driver_name(version, r->version, sizeof(r->version));
    if (e == 0)
        e = cu.cuDeviceGetCount(&n_devices);
    if (n_devices > MAX_DEVICES)
        n_devices = MAX_DEVICES;
    r->devices = e ? 0 : n_devices;
    usable = e == 0 && n_devices > 0;
    if (!usable) {
        const char *name = "no device";
        if (e)
            cu.cuGetErrorName(e, &name);
        snprintf(r->problem, sizeof(r->problem), "%.100s found (%.60s), but %.60s", r->library, r->version,
                 e && e != 100 ? name : "no device");
        snprintf(r->advice, sizeof(r->advice), "check nvidia-smi and $CUDA_VISIBLE_DEVICES");
    }
}

static const struct rfg_hip *get(struct rfg_platform_report *report)
{
    const struct rfg_hip *override = rfg_hip_overridden(RFG_PLATFORM_NVIDIA, report);
    if (override)
        return override;
    pthread_once(&once, load);
    if (report)
        *report = loaded;
    return usable ? &table : NULL;
}

const struct rfg_hip_platform rfg_platform_nvidia = {
    .id = RFG_PLATFORM_NVIDIA,
    .name = "nvidia",
    .devices = "nvidia:N",
    .hardware = true,
    .load = get,
    .find = rfg_platform_ordinal,
    .driver_name = driver_name,
};
