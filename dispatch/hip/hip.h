/* SPDX-License-Identifier: MIT
 *
 * The HIP function table: everything rfg asks of a GPU runtime, under HIP's own names and types. Implementers: AMD
 * (dlopen of libamdhip64 + libhiprtc), NVIDIA (dlopen of libcuda, adapters), the emulator; tests wrap one to make
 * calls fail. Nothing GPU is linked. Run-time compilation is behind jit.h. */
#ifndef RFG_DISPATCH_HIP_H
#define RFG_DISPATCH_HIP_H

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <hip/hip_runtime_api.h>

#include "ops/op.h"

/* X(return type, name, (parameters), (arguments)) */
#define RFG_HIP_ENTRIES(X)                                                                                             \
    X(hipError_t, hipInit, (unsigned flags), (flags))                                                                  \
    X(hipError_t, hipDriverGetVersion, (int *version), (version))                                                      \
    X(hipError_t, hipGetDeviceCount, (int *count), (count))                                                            \
    X(hipError_t, hipSetDevice, (int device), (device))                                                                \
    X(hipError_t, hipGetDevice, (int *device), (device))                                                               \
    X(hipError_t, hipDeviceGetAttribute, (int *value, hipDeviceAttribute_t attr, int device), (value, attr, device))   \
    X(hipError_t, hipDeviceGetName, (char *name, int len, hipDevice_t device), (name, len, device))                    \
    X(hipError_t, hipDeviceTotalMem, (size_t * bytes, hipDevice_t device), (bytes, device))                            \
    X(hipError_t, hipDeviceSynchronize, (void), ())                                                                    \
    X(hipError_t, hipMalloc, (void **ptr, size_t size), (ptr, size))                                                   \
    X(hipError_t, hipFree, (void *ptr), (ptr))                                                                         \
    X(hipError_t, hipMemcpyHtoD, (hipDeviceptr_t dst, void *src, size_t size), (dst, src, size))                       \
    X(hipError_t, hipMemcpyDtoH, (void *dst, hipDeviceptr_t src, size_t size), (dst, src, size))                       \
    X(hipError_t, hipMemcpyAsync, (void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream),   \
      (dst, src, size, kind, stream))                                                                                  \
    X(hipError_t, hipMemsetD8Async, (hipDeviceptr_t dst, unsigned char value, size_t n, hipStream_t stream),           \
      (dst, value, n, stream))                                                                                         \
    X(hipError_t, hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags), (stream, flags))                   \
    X(hipError_t, hipStreamDestroy, (hipStream_t stream), (stream))                                                    \
    X(hipError_t, hipStreamSynchronize, (hipStream_t stream), (stream))                                                \
    X(hipError_t, hipStreamIsCapturing, (hipStream_t stream, hipStreamCaptureStatus * status), (stream, status))       \
    X(hipError_t, hipStreamBeginCapture, (hipStream_t stream, hipStreamCaptureMode mode), (stream, mode))              \
    X(hipError_t, hipStreamEndCapture, (hipStream_t stream, hipGraph_t * graph), (stream, graph))                      \
    X(hipError_t, hipGraphInstantiate,                                                                                 \
      (hipGraphExec_t * exec, hipGraph_t graph, hipGraphNode_t * error_node, char *log, size_t log_size),              \
      (exec, graph, error_node, log, log_size))                                                                        \
    X(hipError_t, hipGraphLaunch, (hipGraphExec_t exec, hipStream_t stream), (exec, stream))                           \
    X(hipError_t, hipGraphExecDestroy, (hipGraphExec_t exec), (exec))                                                  \
    X(hipError_t, hipGraphDestroy, (hipGraph_t graph), (graph))                                                        \
    X(hipError_t, hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags), (event, flags))                       \
    X(hipError_t, hipEventDestroy, (hipEvent_t event), (event))                                                        \
    X(hipError_t, hipEventRecord, (hipEvent_t event, hipStream_t stream), (event, stream))                             \
    X(hipError_t, hipEventSynchronize, (hipEvent_t event), (event))                                                    \
    X(hipError_t, hipEventElapsedTime, (float *ms, hipEvent_t start, hipEvent_t stop), (ms, start, stop))              \
    X(hipError_t, hipModuleLoadData, (hipModule_t * module, const void *image), (module, image))                       \
    X(hipError_t, hipModuleUnload, (hipModule_t module), (module))                                                     \
    X(hipError_t, hipModuleGetFunction, (hipFunction_t * fn, hipModule_t module, const char *name),                    \
      (fn, module, name))                                                                                              \
    X(hipError_t, hipFuncSetAttribute, (const void *fn, hipFuncAttribute attr, int value), (fn, attr, value))          \
    X(hipError_t, hipFuncGetAttribute, (int *value, hipFunction_attribute attr, hipFunction_t fn), (value, attr, fn))  \
    X(hipError_t, hipModuleLaunchKernel,                                                                               \
      (hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds,   \
       hipStream_t stream, void **params, void **extra),                                                               \
      (fn, gx, gy, gz, bx, by, bz, lds, stream, params, extra))

/* What communicators need (dispatch/comm.c). NULL where the runtime has no such function. */
#define RFG_HIP_PEER_ENTRIES(X)                                                                                        \
    X(hipError_t, hipHostMalloc, (void **ptr, size_t size, unsigned flags), (ptr, size, flags))                        \
    X(hipError_t, hipHostFree, (void *ptr), (ptr))                                                                     \
    X(hipError_t, hipExtMallocWithFlags, (void **ptr, size_t size, unsigned flags), (ptr, size, flags))                \
    X(hipError_t, hipDeviceCanAccessPeer, (int *can, int device, int peer), (can, device, peer))                       \
    X(hipError_t, hipDeviceEnablePeerAccess, (int peer, unsigned flags), (peer, flags))                                \
    X(hipError_t, hipIpcGetMemHandle, (hipIpcMemHandle_t * handle, void *ptr), (handle, ptr))                          \
    X(hipError_t, hipIpcOpenMemHandle, (void **ptr, hipIpcMemHandle_t handle, unsigned flags), (ptr, handle, flags))   \
    X(hipError_t, hipIpcCloseMemHandle, (void *ptr), (ptr))

/* As the GPU reads it: CUtensorMap. */
struct rfg_encoded_tile_map {
    _Alignas(64) uint64_t words[16];
};

/* A kernel that others wait for. */
struct rfg_joint {
    const void *group; /* tells which belong together */
    int rank, ranks;
    double seconds; /* it waits for the others to be launched; then it runs without them */
};

struct rfg_hip {
#define X(ret, name, params, args) ret(*name) params;
    RFG_HIP_ENTRIES(X)
    RFG_HIP_PEER_ENTRIES(X)
#undef X
    /* A static string for any error; never NULL. */
    const char *(*error_name)(hipError_t error);
    /* Fills what the platform knows of a device (all of struct rfg_device but peak figures that have to be looked
     * up by arch: see rfg_device_peaks()). */
    hipError_t (*describe)(int device, struct rfg_device *out);
    /* As hipModuleLaunchKernel, of kernels that begin with the prelude's rfg_start_next() and rfg_await_previous(): the
     * launch need not wait for the end of the one before it in the stream. NULL where there is no such thing. */
    hipError_t (*launch_overlapped)(hipFunction_t fn, const struct rfg_launch *l, hipStream_t stream, void **params);
    /* Launches one rank's kernel of several that wait for each other, and run at the same time. NULL where streams'
     * kernels do so anyway. */
    hipError_t (*launch_joint)(hipFunction_t fn, const struct rfg_launch *l, hipStream_t stream, void **params,
                               const struct rfg_joint *who);
    /* A matrix as a kernel's parameter. NULL where no device has RFG_FEATURE_TMA. */
    hipError_t (*encode_tile_map)(const struct rfg_tile_map *map, struct rfg_encoded_tile_map *out);
    enum rfg_platform platform;
    /* For who takes times: a replayed graph ends with work of the runtime's own, within events around it; and work of
     * so many milliseconds brings the clocks up. */
    bool graph_tail;
    int warm_up_ms;
};

/* What a platform's loader looked for and found; for rfg-info and error messages. */
struct rfg_platform_report {
    const char *platform; /* "AMD", "NVIDIA" */
    bool found;           /* the runtime library */
    char library[512];    /* path or soname that was loaded, or what was looked for */
    char version[64];     /* "5.2.21153", "13.0 (driver 580.126)"; "" if unknown */
    int devices;
    char problem[320]; /* why there is no usable device; "" if there is one */
    char advice[256];  /* what to install or check */
};

/* Something outside of the runtime that decides which GPUs a process sees, and as what: a variable, a device node. */
struct rfg_platform_fact {
    char what[80];  /* "HIP_VISIBLE_DEVICES=0,2", "/dev/kfd" */
    char says[320]; /* its effect; where something is wrong, what to do */
    bool misleads;  /* a row tuned under it is another GPU's: whoever tunes must be told */
};
#define RFG_PLATFORM_FACTS 32

/* A platform, as platforms.def lists it. Nobody else needs to know which there are. */
struct rfg_hip_platform {
    enum rfg_platform id;
    const char *name;    /* its devices are "name:..." */
    const char *devices; /* how they are written: "amd:N" */
    bool hardware;       /* a default device may be one of its; $RFG_HIP_DISABLE knows it; times are worth measuring */
    /* The table; loaded once per process (thread-safe), lives for ever. NULL: the runtime is missing or unusable.
     * report may be NULL. */
    const struct rfg_hip *(*load)(struct rfg_platform_report *report);
    /* The ordinal of the device that is written "name:" spec, whether there is such a device or not; -1 with the reason
     * in error, "" if that is no way to write one. */
    int (*find)(const char *spec, char *error, size_t size);
    /* What hipDriverGetVersion() means: "CUDA 13.0", "HIP 6.2.41134". */
    void (*driver_name)(int version, char *buf, size_t size);
    /* What there is of such things: fills at most max and returns how many; NULL: the platform knows of none. root: the
     * root directory, "" but in tests. */
    int (*facts)(const char *root, struct rfg_platform_fact *facts, int max);
};
#define RFG_PLATFORM(name) extern const struct rfg_hip_platform rfg_platform_##name;
#include "platforms.def"
#undef RFG_PLATFORM
extern const struct rfg_hip_platform *const rfg_platforms[]; /* NULL-terminated */

/* "hipErrorOutOfMemory"; without asking any library. */
const char *rfg_hip_error_name(hipError_t error);

/* What a runtime says of a device's memory; 0 and "": nothing. */
struct rfg_memory {
    char product[128];       /* "AMD Instinct MI300X" */
    int clock_khz, bus_bits; /* as AMD's count them, of the whole GPU */
    int xcds;                /* of this device, which may be a partition */
};

/* Ranking estimates by arch, product and CU count (bandwidth, rates, latencies) for what describe() can't know: sets
 * all rates and times and the XCDs, adds features, raises cache_bytes to what the product has. A mem_gbps that is set
 * already stands where the arch is unknown. memory may be NULL. */
void rfg_device_peaks(struct rfg_device *dev, const struct rfg_memory *memory);
/* Is HIP in WGP mode, in which a gfx10 to gfx12 calls two CUs one processor, and hipRTC compiles for that? As HIP reads
 * $GPU_ENABLE_WGP_MODE, when its library is loaded: yes unless that says otherwise. */
bool rfg_wgp_mode(void);

/* What the kernel's driver knows of an AMD GPU and HIP doesn't tell. */
struct rfg_kfd {
    int64_t cache_bytes; /* of level 3, the Infinity Cache; 0: none */
    int xcds;            /* of the device or partition; 0: not said */
};
/* By its place on the bus (domain, bus, device), or with NULL the first of that arch. False: not found. */
bool rfg_kfd_find(struct rfg_kfd *out, const char *arch, const int pci[3]);
/* Tests: another topology than the kernel's; NULL: that again. Stays the caller's. */
void rfg_kfd_override(const char *topology);

/* The cpu device with that many threads (0: online cores), by cpuid and $RFG_CPU_ISA (portable, avx2, avx512). */
void rfg_device_cpu(struct rfg_device *dev, int threads);
/* Is there a GPU of that arch (or one whose name begins so) with as many CUs, whole or as a partition? True of an arch
 * that this version doesn't know. */
bool rfg_device_has_cus(const char *arch, int cus);
/* Of an emulated GPU's tuned rows: "emu-gfx942". A time measured there says nothing about the GPU. */
#define RFG_EMU_PREFIX "emu-"
/* An imagined device for compile tests and --dry-run: "gfx942", "gfx942:304", "sm_90", "gfx90a:104". False if the
 * arch is unknown. Fills features, wave size, LDS, CU count (the arch's usual one unless given). */
bool rfg_device_imagine(struct rfg_device *dev, const char *arch);

/* Tests: the next contexts use this table for platform p instead of the real one; NULL: back to it. */
void rfg_hip_override(enum rfg_platform p, const struct rfg_hip *hip);

#endif
