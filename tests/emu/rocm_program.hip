// SPDX-License-Identifier: MIT
//
// A HIP program as any other, compiled by clang without ROCm: tests/emu/test_rocm_program.c links it with the emulated
// libamdhip64 and runs it. It ends with 0 if all of it was right, else with the number of the line that wasn't.
#include <hip/hip_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define __global__   __attribute__((global))
#define __device__   __attribute__((device))
#define __constant__ __attribute__((constant))
#define __shared__   __attribute__((shared))
// What HIP's own headers declare for the compiler's launches.
extern "C" hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream);

#define N     1000
#define GROUP 64
__device__ int launches = 40;
__constant__ int weight[4];

__global__ void scale(int *y, const int *x, int n)
{
    int i = __builtin_amdgcn_workgroup_id_x() * GROUP + __builtin_amdgcn_workitem_id_x();
    if (i < n)
        y[i] = x[i] * weight[i & 3];
    if (i == 0)
        launches += 1;
}

template <typename T>
__global__ void sum_of_group(T *y, const T *x)
{
    extern __shared__ int lds[];
    int t = __builtin_amdgcn_workitem_id_x(), g = __builtin_amdgcn_workgroup_id_x();
    lds[t] = (int)x[g * GROUP + t];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    if (t == 0) {
        T s = 0;
        for (int i = 0; i < GROUP; i++)
            s += (T)lds[i];
        y[g] = s;
    }
}

#define IS(condition)                                                                                                  \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("line %d: %s; %s\n", __LINE__, #condition, hipGetErrorName(hipGetLastError()));                     \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static int memory(int *x, int *y)
{
    static const int w[4] = { 1, 10, 100, 1000 };
    int host[N], n = 0;
    hipPointerAttribute_t about;
    for (int i = 0; i < N; i++)
        host[i] = i;
    IS(hipMemcpy(x, host, sizeof(host), hipMemcpyHostToDevice) == hipSuccess);
    IS(hipMemset(y, 0xFF, sizeof(host)) == hipSuccess);
    IS(hipMemcpyToSymbol((const void *)weight, w, sizeof(w), 0, hipMemcpyHostToDevice) == hipSuccess);
    IS(hipPointerGetAttributes(&about, x + 1) == hipSuccess && about.device == 0 && about.devicePointer == x + 1);
    scale<<<dim3((N + GROUP - 1) / GROUP), dim3(GROUP)>>>(y, x, N);
    IS(hipGetLastError() == hipSuccess);
    IS(hipDeviceSynchronize() == hipSuccess);
    memset(host, 0, sizeof(host));
    IS(hipMemcpy(host, y, sizeof(host), hipMemcpyDefault) == hipSuccess);
    for (int i = 0; i < N; i++)
        IS(host[i] == i * w[i & 3]);
    IS(hipMemcpyFromSymbol(&n, (const void *)&launches, sizeof(n), 0, hipMemcpyDeviceToHost) == hipSuccess && n == 41);
    return 0;
}

static int streams(int *x, int *y)
{
    hipStream_t s;
    hipEvent_t a, b;
    hipGraph_t graph;
    hipGraphExec_t exec;
    float ms = -1;
    int *host;
    IS(hipHostMalloc((void **)&host, N * sizeof(int), 0) == hipSuccess);
    IS(hipStreamCreate(&s) == hipSuccess && hipEventCreate(&a) == hipSuccess && hipEventCreate(&b) == hipSuccess);
    for (int i = 0; i < N; i++)
        host[i] = i;
    IS(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal) == hipSuccess);
    IS(hipMemcpyAsync(x, host, N * sizeof(int), hipMemcpyHostToDevice, s) == hipSuccess);
    sum_of_group<int><<<dim3(N / GROUP), dim3(GROUP), GROUP * sizeof(int), s>>>(y, x);
    IS(hipMemcpyAsync(host, y, N / GROUP * sizeof(int), hipMemcpyDeviceToHost, s) == hipSuccess);
    IS(hipStreamEndCapture(s, &graph) == hipSuccess);
    IS(hipGraphInstantiate(&exec, graph, NULL, NULL, 0) == hipSuccess);
    IS(hipEventRecord(a, s) == hipSuccess && hipGraphLaunch(exec, s) == hipSuccess &&
       hipEventRecord(b, s) == hipSuccess);
    IS(hipStreamSynchronize(s) == hipSuccess && hipStreamQuery(s) == hipSuccess && hipEventQuery(b) == hipSuccess);
    IS(hipEventElapsedTime(&ms, a, b) == hipSuccess && ms > 0);
    for (int g = 0; g < N / GROUP; g++)
        IS(host[g] == GROUP * (GROUP * g) + GROUP * (GROUP - 1) / 2);
    IS(hipGraphExecDestroy(exec) == hipSuccess && hipGraphDestroy(graph) == hipSuccess);
    IS(hipEventDestroy(a) == hipSuccess && hipEventDestroy(b) == hipSuccess && hipStreamDestroy(s) == hipSuccess);
    IS(hipHostFree(host) == hipSuccess);
    return 0;
}

static int questions(void)
{
    hipFuncAttributes f;
    int n = 0, block = 0;
    hipCtx_t ctx;
    size_t left, total;
    IS(hipFuncGetAttributes(&f, (const void *)scale) == hipSuccess && f.maxThreadsPerBlock == 1024 && f.numRegs > 0);
    IS(hipOccupancyMaxActiveBlocksPerMultiprocessor(&n, (const void *)scale, GROUP, 0) == hipSuccess && n > 0);
    IS(hipOccupancyMaxPotentialBlockSize(&n, &block, (const void *)scale, 0, 256) == hipSuccess && block == 256 &&
       n > 0);
    IS(hipOccupancyMaxPotentialBlockSize(&n, &block, (const void *)scale, 0, 0) == hipSuccess && block == 1024 &&
       n > 0); /* 0: no limit */
    IS(hipFuncGetAttributes(&f, &n) == hipErrorInvalidDeviceFunction);
    IS(hipCtxGetCurrent(&ctx) == hipSuccess && ctx && hipCtxSetCurrent(ctx) == hipSuccess);
    IS(hipMemGetInfo(&left, &total) == hipSuccess && left <= total && left > 0);
    scale<<<dim3(1), dim3(2048)>>>(NULL, NULL, 0);
    IS(hipGetLastError() != hipSuccess);
    return 0;
}

int main(void)
{
    int *x, *y, n = 0;
    IS(hipGetDeviceCount(&n) == hipSuccess && n >= 1);
    IS(hipMalloc((void **)&x, N * sizeof(int)) == hipSuccess && hipMalloc((void **)&y, N * sizeof(int)) == hipSuccess);
    if (memory(x, y) || streams(x, y) || questions())
        return 1;
    IS(hipFree(x) == hipSuccess && hipFree(y) == hipSuccess);
    puts("right");
    return 0;
}
