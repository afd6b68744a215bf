/* SPDX-License-Identifier: MIT
 *
 * A mock libcuda with three GPUs. It records calls in mock_cuda_said, which the test empties, and returns
 * mock_cuda_result (only from the function mock_cuda_only, if that is set). Numbers and pointers are recorded in
 * hexadecimal. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long CUdeviceptr;

__attribute__((visibility("default"))) char mock_cuda_said[1000];
__attribute__((visibility("default"))) int mock_cuda_result;
__attribute__((visibility("default"))) char mock_cuda_only[64];
static void *current;

static int said(const char *name, int n, const uint64_t *args)
{
    size_t at = strlen(mock_cuda_said), size = sizeof(mock_cuda_said);
    at += (size_t)snprintf(mock_cuda_said + at, size - at, "%s%s(", at ? " " : "", name);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(mock_cuda_said + at, size - at, "%s%llx", i ? "," : "", (unsigned long long)args[i]);
    snprintf(mock_cuda_said + at, size - at, ")");
    return *mock_cuda_only && strcmp(mock_cuda_only, name) ? 0 : mock_cuda_result;
}

#define N(x) (uint64_t)(x)
#define P(x) (uint64_t)(uintptr_t)(x)
#define CU(name, params, ...)                                                                                          \
    __attribute__((visibility("default"))) int name params;                                                            \
    int name params                                                                                                    \
    {                                                                                                                  \
        const uint64_t args[] = { __VA_ARGS__ };                                                                       \
        return said(#name, (int)(sizeof(args) / sizeof(args[0])), args);                                               \
    }
/* The same of functions that fill in *out, whatever they return. */
#define CU_OUT(name, params, out, value, ...)                                                                          \
    __attribute__((visibility("default"))) int name params;                                                            \
    int name params                                                                                                    \
    {                                                                                                                  \
        const uint64_t args[] = { __VA_ARGS__ };                                                                       \
        *out = value;                                                                                                  \
        return said(#name, (int)(sizeof(args) / sizeof(args[0])), args);                                               \
    }
#define IT(x) (void *)(uintptr_t)(x)

CU(cuInit, (unsigned flags), N(flags))
CU_OUT(cuDriverGetVersion, (int *version), version, 13020, 0)
CU_OUT(cuGetErrorName, (int result, const char **name), name, "CUDA_ERROR_MOCK", N(result))
CU_OUT(cuDeviceGetCount, (int *count), count, 3, 0)
CU_OUT(cuDeviceGet, (int *device, int ordinal), device, ordinal + 0x20, N(ordinal))
CU_OUT(cuDeviceGetName, (char *name, int size, int device), name, 'H', N(size), N(device))
CU_OUT(cuDeviceTotalMem_v2, (size_t * bytes, int device), bytes, 0x5000, N(device))
CU_OUT(cuDeviceGetAttribute, (int *value, int attribute, int device), value, 100 + attribute, N(attribute), N(device))
CU_OUT(cuDevicePrimaryCtxRetain, (void **context, int device), context, IT(0xc00 + device), N(device))
CU(cuCtxSynchronize, (void), 0)
CU_OUT(cuMemAlloc_v2, (CUdeviceptr * memory, size_t size), memory, 0xabc0, N(size))
CU(cuMemFree_v2, (CUdeviceptr memory), N(memory))
CU(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size), N(to), P(from), N(size))
CU(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size), P(to), N(from), N(size))
CU(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, void *stream), N(to), P(from), N(size),
   P(stream))
CU(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, void *stream), P(to), N(from), N(size), P(stream))
CU(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, void *stream), N(to), N(from), N(size),
   P(stream))
CU(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t size, void *stream), N(to), N(value), N(size),
   P(stream))
CU_OUT(cuStreamCreate, (void **stream, unsigned flags), stream, IT(0x51), N(flags))
CU(cuStreamDestroy_v2, (void *stream), P(stream))
CU(cuStreamSynchronize, (void *stream), P(stream))
CU_OUT(cuStreamIsCapturing, (void *stream, int *status), status, 2, P(stream))
CU(cuStreamBeginCapture_v2, (void *stream, int mode), P(stream), N(mode))
CU_OUT(cuStreamEndCapture, (void *stream, void **graph), graph, IT(0x61), P(stream))
CU_OUT(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags), exec, IT(0x62), P(graph),
       N(flags))
CU(cuGraphLaunch, (void *exec, void *stream), P(exec), P(stream))
CU(cuGraphExecDestroy, (void *exec), P(exec))
CU(cuGraphDestroy, (void *graph), P(graph))
CU_OUT(cuEventCreate, (void **event, unsigned flags), event, IT(0x71), N(flags))
CU(cuEventDestroy_v2, (void *event), P(event))
CU(cuEventRecord, (void *event, void *stream), P(event), P(stream))
CU(cuEventSynchronize, (void *event), P(event))
CU_OUT(cuEventElapsedTime, (float *ms, void *start, void *stop), ms, 1.5f, P(start), P(stop))
CU_OUT(cuModuleLoadData, (void **module, const void *image), module, IT(0x81), P(image))
CU(cuModuleUnload, (void *module), P(module))
CU_OUT(cuModuleGetFunction, (void **function, void *module, const char *name), function, IT(0x82), P(module), P(name))
CU(cuFuncSetAttribute, (void *function, int attribute, int value), P(function), N(attribute), N(value))
CU_OUT(cuFuncGetAttribute, (int *value, int attribute, void *function), value, 100 + attribute, N(attribute),
       P(function))
CU(cuLaunchKernel,
   (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    void *stream, void **params, void **extra),
   P(function), N(gx), N(gy), N(gz), N(bx), N(by), N(bz), N(shared), P(stream), P(params), P(extra))

/* A thread's context, which the driver would hold. */
__attribute__((visibility("default"))) int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context)
{
    current = context;
    return said("cuCtxSetCurrent", 1, (const uint64_t[]){ P(context) });
}
CU_OUT(cuCtxGetCurrent, (void **context), context, current, 0)

struct config { /* CUlaunchConfig, with one attribute */
    unsigned grid[3], block[3], shared;
    void *stream;
    struct {
        int id;
        union {
            uint64_t words[8];
            int value;
        } of;
    } * attributes;
    unsigned n_attributes;
};
CU(cuLaunchKernelEx, (const struct config *c, void *function, void **params, void **extra), N(c->grid[0]),
   N(c->grid[1]), N(c->grid[2]), N(c->block[0]), N(c->block[1]), N(c->block[2]), N(c->shared), P(c->stream),
   N(c->n_attributes), N(c->attributes->id), N(c->attributes->of.value), P(function), P(params), P(extra))

CU(cuTensorMapEncodeTiled,
   (void *map, int type, unsigned n, const void *data, const uint64_t *size, const uint64_t *stride,
    const uint32_t *tile, const uint32_t *step, int interleave, int swizzle, int promotion, int beyond),
   P(map), N(type), N(n), P(data), size[0], size[1], n > 2 ? size[2] : 0, stride[0], n > 2 ? stride[1] : 0, tile[0],
   tile[1], n > 2 ? tile[2] : 0, step[0], step[1], n > 2 ? step[2] : 0, N(interleave), N(swizzle), N(promotion),
   N(beyond))
