/* SPDX-License-Identifier: MIT
 *
 * The floor under a collective of two GPUs of one host: the way of a packet to the other and back, of data behind a
 * fence and a flag, and what a launch costs inside a graph. A program of its own:
 *   nvcc -O3 -arch=sm_90a -o link_floor bench/peers/link_floor.cu && ./link_floor */
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define TURNS 10000
#define NODES 50
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t e_ = (call);                                                                                       \
        if (e_ != cudaSuccess) {                                                                                       \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_));                                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* KIND 0: the flag alone; 1: 16 bytes whose words are the flag; 2: 16 bytes a thread, a fence, and a flag. */
template <int KIND> __global__ void ping(char *own, char *peer, int first)
{
    __shared__ unsigned sink;
    for (unsigned i = 1; i <= TURNS; i++)
        for (int half = 0; half < 2; half++) {
            if ((half == 0) == (first == 1)) {
                if (KIND == 1)
                    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(peer + threadIdx.x * 16), "r"(i));
                if (KIND == 2) {
                    asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(peer + 256 + threadIdx.x * 16), "r"(i));
                    __syncthreads();
                    if (threadIdx.x == 0)
                        asm volatile("fence.acq_rel.sys;" ::: "memory");
                }
                if (KIND != 1 && threadIdx.x == 0)
                    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(peer), "r"(i) : "memory");
            } else {
                unsigned a = 0, b = 0, c, d = 0;
                if (KIND == 1)
                    do
                        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                                     : "l"(own + threadIdx.x * 16)
                                     : "memory");
                    while (a != i || d != i);
                else {
                    if (threadIdx.x == 0) {
                        do
                            asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(a) : "l"(own) : "memory");
                        while (a != i);
                        if (KIND == 2)
                            asm volatile("fence.acq_rel.sys;" ::: "memory");
                    }
                    __syncthreads();
                    if (KIND == 2) {
                        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                                     : "l"(own + 256 + threadIdx.x * 16));
                        if (a != i)
                            sink = a;
                    }
                }
            }
        }
}

__global__ void nothing(void)
{
}
__global__ void load_store(const uint4 *x, uint4 *y)
{
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
}

static char *memory[2];
static cudaStream_t stream[2];

template <int KIND> static void time_ping(const char *what, int threads)
{
    cudaEvent_t event[2];
    float best = 1e9f;
    CHECK(cudaSetDevice(0));
    CHECK(cudaEventCreate(&event[0]));
    CHECK(cudaEventCreate(&event[1]));
    for (int run = 0; run < 5; run++) {
        for (int d = 0; d < 2; d++) {
            CHECK(cudaSetDevice(d));
            CHECK(cudaMemset(memory[d], 0, 1 << 20));
            CHECK(cudaDeviceSynchronize());
        }
        for (int d = 1; d >= 0; d--) {
            CHECK(cudaSetDevice(d));
            if (d == 0)
                CHECK(cudaEventRecord(event[0], stream[0]));
            ping<KIND><<<1, threads, 0, stream[d]>>>(memory[d], memory[1 - d], d == 0);
            if (d == 0)
                CHECK(cudaEventRecord(event[1], stream[0]));
        }
        float ms;
        CHECK(cudaStreamSynchronize(stream[0]));
        CHECK(cudaStreamSynchronize(stream[1]));
        CHECK(cudaEventElapsedTime(&ms, event[0], event[1]));
        best = ms < best ? ms : best;
    }
    printf("%-44s there and back %6.0f ns, one way %6.0f ns\n", what, best * 1e6 / TURNS, best * 1e6 / TURNS / 2);
}

static void time_graph(const char *what, int kind, int blocks, int threads)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t event[2];
    float best = 1e9f, ms;
    CHECK(cudaSetDevice(0));
    CHECK(cudaEventCreate(&event[0]));
    CHECK(cudaEventCreate(&event[1]));
    CHECK(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++)
        if (kind == 0)
            nothing<<<blocks, threads, 0, stream[0]>>>();
        else
            load_store<<<blocks, threads, 0, stream[0]>>>((uint4 *)memory[0], (uint4 *)(memory[0] + (8 << 20)));
    CHECK(cudaStreamEndCapture(stream[0], &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int run = 0; run < 10; run++) {
        CHECK(cudaGraphLaunch(exec, stream[0]));
        CHECK(cudaEventRecord(event[0], stream[0]));
        CHECK(cudaGraphLaunch(exec, stream[0]));
        CHECK(cudaEventRecord(event[1], stream[0]));
        CHECK(cudaStreamSynchronize(stream[0]));
        CHECK(cudaEventElapsedTime(&ms, event[0], event[1]));
        best = ms < best ? ms : best;
    }
    printf("%-44s %6.2f us a launch in a graph\n", what, best * 1e3 / NODES);
}

int main(void)
{
    for (int d = 0; d < 2; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
        CHECK(cudaMalloc(&memory[d], 16 << 20));
        CHECK(cudaStreamCreate(&stream[d]));
    }
    time_ping<0>("a flag", 32);
    time_ping<1>("a packet of 16 bytes a thread, 128 threads", 128);
    time_ping<2>("16 bytes a thread, fence, flag, 128 threads", 128);
    time_graph("nothing, 1 workgroup of 128", 0, 1, 128);
    time_graph("nothing, 64 workgroups of 128", 0, 64, 128);
    time_graph("load and store of 8 KB, 4 workgroups of 128", 1, 4, 128);
    time_graph("load and store of 16 KB, 1 workgroup of 1024", 1, 1, 1024);
    return 0;
}
