// SPDX-License-Identifier: MIT
//
// Times ggml's CUDA kernels for few rows (quantize_q8_1 and mul_mat_vec_q) alone: one type, that of -DONLY_TYPE, so
// that a build takes seconds. ggml_mmvq.sh builds it beside ggml's sources, none of which are here.
//
// Prints "TYPE M N K both_us kernel_us" a line: medians over replays of a graph of many calls, whose weights rotate past
// the L2 cache; both: with X's quantisation, as llama.cpp runs them.
#include "mmvq_one.cu"
#include "quantize.cu"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

static ggml_cuda_device_info info;
const ggml_cuda_device_info &ggml_cuda_info()
{
    return info;
}
int ggml_cuda_get_device()
{
    return 0;
}
void ggml_cuda_error(const char *stmt, const char *, const char *, int, const char *msg)
{
    fprintf(stderr, "%s: %s\n", stmt, msg);
    exit(1);
}
extern "C" void ggml_abort(const char *file, int line, const char *, ...)
{
    fprintf(stderr, "%s:%d: an assertion failed\n", file, line);
    exit(1);
}

// Linked, never called: what only whole graphs need.
void ggml_cuda_set_device(int)
{
}
std::unique_ptr<ggml_cuda_pool> ggml_backend_cuda_context::new_pool_for_device(int, int)
{
    return nullptr;
}
extern "C" {
size_t ggml_type_size(enum ggml_type)
{
    return BYTES;
}
int64_t ggml_blck_size(enum ggml_type)
{
    return BLOCK;
}
bool ggml_is_quantized(enum ggml_type)
{
    return true;
}
bool ggml_is_contiguous(const struct ggml_tensor *)
{
    return true;
}
bool ggml_is_contiguously_allocated(const struct ggml_tensor *)
{
    return true;
}
bool ggml_are_same_stride(const struct ggml_tensor *, const struct ggml_tensor *)
{
    return true;
}
size_t ggml_nbytes(const struct ggml_tensor *)
{
    return 0;
}
int64_t ggml_nelements(const struct ggml_tensor *)
{
    return 0;
}
size_t ggml_backend_buffer_get_alloc_size(ggml_backend_buffer_t, const struct ggml_tensor *)
{
    return 0;
}
enum ggml_backend_buffer_usage ggml_backend_buffer_get_usage(ggml_backend_buffer_t)
{
    return GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}
}

#define OK(x)                                                                                                          \
    do {                                                                                                               \
        cudaError_t e_ = (x);                                                                                          \
        if (e_ != cudaSuccess) {                                                                                       \
            fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e_));                                                   \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// Median of a call's time in microseconds, of a graph of `calls` of them.
template <class F> static double time_of(cudaStream_t s, int calls, F call)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t a, b;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < calls; i++)
        call(i);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    std::vector<float> times;
    for (int i = 0; i < 12; i++) {
        float ms;
        OK(cudaEventRecord(a, s));
        OK(cudaGraphLaunch(exec, s));
        OK(cudaEventRecord(b, s));
        OK(cudaEventSynchronize(b));
        OK(cudaEventElapsedTime(&ms, a, b));
        if (i > 1)
            times.push_back(ms * 1000 / calls);
    }
    std::sort(times.begin(), times.end());
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    return times[times.size() / 2];
}

int main(int argc, char **argv)
{
    int sm;
    cudaDeviceProp prop;
    OK(cudaGetDeviceProperties(&prop, 0));
    sm = prop.multiProcessorCount;
    info.device_count = info.physical_device_count = 1;
    info.devices[0].cc = prop.major * 100 + prop.minor * 10;
    info.devices[0].nsm = sm;
    info.devices[0].smpb = prop.sharedMemPerBlock;
    info.devices[0].smpbo = prop.sharedMemPerBlockOptin;
    info.devices[0].warp_size = 32;
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    for (int arg = 1; arg + 2 < argc; arg += 3) {
        int64_t m = atoi(argv[arg]), n = atoi(argv[arg + 1]), k = atoi(argv[arg + 2]);
        int64_t row = k / BLOCK * BYTES, w_bytes = n * row, padded = (k + 511) / 512 * 512;
        int copies = (int)std::max<int64_t>(2, 200000000 / w_bytes), calls = std::max(copies, 20);
        char *w, *q;
        float *x, *y;
        OK(cudaMalloc(&w, w_bytes * copies + 4096));
        OK(cudaMemset(w, 0x2c, w_bytes * copies)); // small positive scales
        OK(cudaMalloc(&x, m * k * 4));
        OK(cudaMemset(x, 0, m * k * 4));
        OK(cudaMalloc(&q, m * padded / 32 * 36 + 4096));
        OK(cudaMalloc(&y, m * n * 4));
        auto quantise = [&]() {
            quantize_row_q8_1_cuda(x, nullptr, q, ONLY_TYPE, k, k, k * m, k * m, padded, m, 1, 1, s);
        };
        auto product = [&](int i) {
            ggml_cuda_mm_fusion_args_device none{};
            mul_mat_vec_q_switch_type(w + i % copies * w_bytes, ONLY_TYPE, q, nullptr, none, y, k, n, m, k / BLOCK,
                                      padded / 32, n, 1, 1, 1, n * (k / BLOCK), m * padded / 32, m * n, 1, 1,
                                      n * (k / BLOCK), m * padded / 32, m * n, 0, s);
        };
        double both = time_of(s, calls, [&](int i) {
            quantise();
            product(i);
        });
        double alone = time_of(s, calls, product);
        printf("%s %d %d %d %.3f %.3f\n", NAME, (int)m, (int)n, (int)k, both, alone);
        fflush(stdout);
        OK(cudaFree(w));
        OK(cudaFree(x));
        OK(cudaFree(q));
        OK(cudaFree(y));
    }
    return 0;
}
