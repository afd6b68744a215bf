/* SPDX-License-Identifier: MIT
 *
 * The floor under a decode GEMM for gemm_peers.py: a kernel that reads the weights' bytes, adds them up and stores one
 * number a block. Built by build.sh. */
#include <cstdint>

#include <cuda_runtime.h>

#define PEER extern "C" __attribute__((visibility("default"))) int

__device__ static inline uint4 load_stream(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* UNROLL loads of 16 bytes in flight a thread. OVERLAP: the first are asked for before the kernel before has ended;
 * what depends on it, here x, after. */
template <int UNROLL, bool OVERLAP>
__global__ void __launch_bounds__(512) read_kernel(const uint4 *w, size_t n, const float *x, float *y)
{
    __shared__ float sums[16];
    const size_t step = (size_t)gridDim.x * blockDim.x;
    size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    float sum = 0, scale = 0;
    if (OVERLAP)
        asm volatile("griddepcontrol.launch_dependents;");
    for (bool first = true; first || at < n; first = false, at += UNROLL * step) {
        uint4 v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            v[u] = at + u * step < n ? load_stream(w + at + u * step) : make_uint4(0, 0, 0, 0);
        if (first) {
            if (OVERLAP)
                asm volatile("griddepcontrol.wait;" ::: "memory");
            scale = *(const volatile float *)(x + threadIdx.x);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            sum += __uint_as_float(v[u].x) * scale + __uint_as_float(v[u].y) + __uint_as_float(v[u].z) +
                   __uint_as_float(v[u].w);
    }
    for (int lane = 16; lane; lane >>= 1)
        sum += __shfl_xor_sync(~0u, sum, lane);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        for (int lane = 8; lane; lane >>= 1)
            sum += __shfl_xor_sync(~0u, sum, lane);
        if (threadIdx.x == 0)
            y[blockIdx.x] = sum;
    }
}

/* bytes: a multiple of 16; block: of 32, at most 512; unroll: 4 or 8. x: block floats; y: grid floats. Returns a
 * cudaError_t. */
PEER peer_floor_read(const void *w, uint64_t bytes, int grid, int block, int unroll, int overlap, const void *x,
                     void *y, void *stream)
{
    cudaLaunchAttribute serialization = {};
    serialization.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    serialization.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(block);
    config.stream = (cudaStream_t)stream;
    config.attrs = &serialization;
    config.numAttrs = overlap ? 1 : 0;
    auto *kernel = unroll == 8 ? (overlap ? read_kernel<8, true> : read_kernel<8, false>)
                               : (overlap ? read_kernel<4, true> : read_kernel<4, false>);
    return cudaLaunchKernelEx(&config, kernel, (const uint4 *)w, (size_t)(bytes / 16), (const float *)x, (float *)y);
}
