/* SPDX-License-Identifier: MIT
 *
 * What reading a paged cache takes in each way that decode attention could: kernels that load keys and values, add the
 * words up and store one number a thread. Microseconds of a call in a replayed graph, cold inputs.
 *
 *   nvcc -O3 -std=c++17 -arch=sm_90a -o decode_loads bench/peers/decode_loads.cu && ./decode_loads [B]
 *
 * lanes  mha_decode_stream_mma's: of keys 8 rows of 64 bytes an instruction, of values 4 rows of 128, to registers
 * l1     the same, kept by L1
 * flat   a wave's neighbouring lanes copy neighbouring 16 bytes to LDS, two steps ahead
 * bulk   a bulk copy a row, two steps ahead
 * pages  a workgroup has all heads: a bulk copy of a page's keys and one of its values, as many ahead as LDS holds
 * "by head": pages have the rows of a head side by side. */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t e = (call);                                                                                        \
        if (e != cudaSuccess) {                                                                                        \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { PAGE = 16, HEADS = 8, KEYS = 4096, PAGES = KEYS / PAGE, WAVES = 12, AHEAD = 3 };

/* Bytes from a token, a head and a page to the next. */
struct cache {
    const char *k, *v;
    const int *table;
    float *out;
    int token, head;
    long long page;
    int splits;
};

struct place {
    int b, head, first, by, lane;
};
__device__ static place place_of(const cache &c)
{
    int item = blockIdx.x / c.splits, wave = threadIdx.x / 32;
    return { item / HEADS, item % HEADS, (int)(blockIdx.x % c.splits) * WAVES + wave, c.splits * WAVES,
             (int)threadIdx.x % 32 };
}
__device__ static uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
__device__ static uint32_t sum_of(uint4 v)
{
    return v.x + v.y + v.z + v.w;
}
template <bool L1> __device__ static void load(uint4 &v, const char *p, bool on)
{
#define LOAD(how)                                                                                                      \
    asm volatile("{.reg .pred p; setp.ne.s32 p, %5, 0;\n@p ld.global.nc" how ".L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];}"  \
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)                                                          \
                 : "l"(p), "r"((int)on))
    if (L1)
        LOAD("");
    else
        LOAD(".L1::no_allocate");
}

template <int D, bool L1> __global__ void __launch_bounds__(WAVES * 32, 1) lanes(cache c)
{
    constexpr int CHUNKS = D / 8, KN = (CHUNKS + 3) / 4, VN = (CHUNKS + 7) / 8;
    place p = place_of(c);
    const int *table = c.table + p.b * PAGES;
    uint4 k[2][KN] = {}, v[4][VN] = {};
    uint32_t sum = 0;
    auto keys = [&](int page, bool on) {
        const char *at = c.k + page * c.page + p.head * c.head + p.lane / 4 * c.token + p.lane % 4 * 16;
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < KN; j++)
                load<L1>(k[i][j], at + i * 8 * c.token + j * 64, on && p.lane % 4 + 4 * j < CHUNKS);
    };
    auto values = [&](int page, bool on) {
        const char *at = c.v + page * c.page + p.head * c.head + p.lane % 4 * 2 * c.token + p.lane / 4 * 16;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < VN; j++)
                load<L1>(v[i][j], at + (i % 2 + i / 2 * 8) * c.token + j * 128, on && p.lane / 4 + 8 * j < CHUNKS);
    };
    int page = table[min(p.first, PAGES - 1)], next = table[min(p.first + p.by, PAGES - 1)];
    keys(page, p.first < PAGES);
    values(page, p.first < PAGES);
    for (int s = p.first; s < PAGES; s += p.by) {
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < KN; j++)
                sum += sum_of(k[i][j]);
        asm volatile("" : "+r"(sum));
        keys(next, s + p.by < PAGES);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < VN; j++)
                sum += sum_of(v[i][j]);
        asm volatile("" : "+r"(sum));
        values(next, s + p.by < PAGES);
        next = table[min(s + 2 * p.by, PAGES - 1)];
    }
    c.out[blockIdx.x * blockDim.x + threadIdx.x] = (float)sum;
}

__device__ static void expect(uint64_t *arrival, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(arrival)), "r"(bytes)
                 : "memory");
}
__device__ static void copy(void *to, const char *from, int bytes, uint64_t *arrival)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(arrival))
                 : "memory");
}
__device__ static void await(uint64_t *arrival, int phase)
{
    asm volatile("{.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra AGAIN;}" ::"r"(
                     shared_address(arrival)),
                 "r"(phase)
                 : "memory");
}
__device__ static void begin(uint64_t *arrival)
{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.proxy.async;" ::"r"(shared_address(arrival)) : "memory");
}

/* Rows are an odd number of 16 bytes apart. */
#define ROW_BYTES(d) (((d) / 8 | 1) * 16)
template <int D, bool BULK> __global__ void __launch_bounds__(WAVES * 32, 1) rows(cache c)
{
    constexpr int CHUNKS = D / 8, ROW = ROW_BYTES(D), STEP = 32 * ROW;
    extern __shared__ __align__(128) char lds[];
    place p = place_of(c);
    const int *table = c.table + p.b * PAGES;
    char *mine = lds + threadIdx.x / 32 * (AHEAD * STEP);
    uint64_t *arrivals = (uint64_t *)(lds + WAVES * AHEAD * STEP) + threadIdx.x / 32 * AHEAD;
    uint32_t sum = 0;
    if (BULK && p.lane < AHEAD)
        begin(arrivals + p.lane);
    __syncwarp();
    auto ask = [&](int at, int s) {
        if (s < PAGES) {
            long long page = table[s] * c.page + p.head * c.head;
            char *to = mine + at * STEP;
            if (BULK) {
                if (p.lane == 0)
                    expect(arrivals + at, 32 * D * 2);
                __syncwarp();
                copy(to + p.lane * ROW, (p.lane < 16 ? c.k : c.v) + page + p.lane % 16 * c.token, D * 2, arrivals + at);
            } else {
                for (int n = 0; n < CHUNKS; n++) {
                    int i = n * 32 + p.lane, row = i / CHUNKS;
                    const char *from = (row < 16 ? c.k : c.v) + page + row % 16 * c.token + i % CHUNKS * 16;
                    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(
                                     shared_address(to + row * ROW + i % CHUNKS * 16)),
                                 "l"(from)
                                 : "memory");
                }
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int i = 0; i < AHEAD - 1; i++)
        ask(i, p.first + i * p.by);
    int at = 0, phase = 0;
    for (int s = p.first; s < PAGES; s += p.by) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 2) : "memory");
        __syncwarp();
        ask(at ? at - 1 : AHEAD - 1, s + (AHEAD - 1) * p.by);
        if (BULK)
            await(arrivals + at, phase);
        for (int i = 0; i < CHUNKS; i++)
            sum += sum_of(*(const uint4 *)(mine + at * STEP + p.lane * ROW + i * 16));
        if (++at == AHEAD)
            at = 0, phase ^= 1;
    }
    c.out[blockIdx.x * blockDim.x + threadIdx.x] = (float)sum;
}

/* What lies together of a page's keys, and its values, in as many places as there are. */
template <int D> __global__ void __launch_bounds__(WAVES * 32, 1) pages(cache c, int places)
{
    constexpr int BYTES = PAGE * HEADS * D * 2;
    extern __shared__ __align__(128) char lds[];
    uint64_t *arrivals = (uint64_t *)(lds + places * 2 * BYTES);
    int splits = c.splits * HEADS, b = blockIdx.x / splits, first = blockIdx.x % splits;
    const int *table = c.table + b * PAGES;
    uint32_t sum = 0;
    if (threadIdx.x == 0)
        for (int i = 0; i < places; i++)
            begin(arrivals + i);
    __syncthreads();
    auto ask = [&](int at, int s) {
        if (threadIdx.x == 0 && s < PAGES) {
            expect(arrivals + at, 2 * BYTES);
            copy(lds + at * 2 * BYTES, c.k + table[s] * c.page, BYTES, arrivals + at);
            copy(lds + at * 2 * BYTES + BYTES, c.v + table[s] * c.page, BYTES, arrivals + at);
        }
    };
    for (int i = 0; i < places; i++)
        ask(i, first + i * splits);
    int at = 0, phase = 0;
    for (int s = first; s < PAGES; s += splits) {
        await(arrivals + at, phase);
        for (int i = threadIdx.x; i < 2 * BYTES / 16; i += blockDim.x)
            sum += sum_of(*(const uint4 *)(lds + at * 2 * BYTES + i * 16));
        __syncthreads();
        ask(at, s + places * splits);
        if (++at == places)
            at = 0, phase ^= 1;
    }
    c.out[blockIdx.x * blockDim.x + threadIdx.x] = (float)sum;
}

static char *memory;
static int *table;
static float *out;

template <class F> static void timed(const char *what, int d, int b, bool by_head, size_t lds, const void *f, F launch)
{
    enum { CALLS = 24, ROUNDS = 11 };
    size_t each = (size_t)b * KEYS * HEADS * d * 2; /* of keys, of values */
    int sets = (int)(260000000 / (2 * each)) + 2;
    std::vector<float> us;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    CHECK(cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)lds));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < CALLS; i++) {
        const char *k = memory + i % sets * 2 * each;
        cache c = { k, k + each, table, out, by_head ? d * 2 : HEADS * d * 2, by_head ? PAGE * d * 2 : d * 2,
                    (long long)PAGE * HEADS * d * 2, b < 16 ? 16 / b : 1 };
        launch(c, b * HEADS * c.splits, stream);
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < ROUNDS + 3; i++) {
        float ms;
        CHECK(cudaEventRecord(from, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaEventRecord(to, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, from, to));
        if (i >= 3)
            us.push_back(ms * 1000 / CALLS);
    }
    std::sort(us.begin(), us.end());
    printf("D=%-3d B=%-2d %-6s%-8s %7.2f us, %.3f of the floor\n", d, b, what, by_head ? " by head" : "", us[ROUNDS / 2],
           us[ROUNDS / 2] / (2.0 * each / 4.3e6 + 1.25));
    fflush(stdout);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}
template <int D> static void all_of(int b)
{
    size_t lds = (size_t)WAVES * AHEAD * (32 * ROW_BYTES(D) + 8), page = 2 * PAGE * HEADS * D * 2 + 8;
    auto with = [&](const char *what, bool by_head, size_t bytes, void (*f)(cache)) {
        if (bytes <= 227 << 10)
            timed(what, D, b, by_head, bytes, (const void *)f,
                  [=](cache c, int grid, cudaStream_t s) { f<<<grid, WAVES * 32, bytes, s>>>(c); });
    };
    for (bool by_head : { false, true }) {
        with("lanes", by_head, 0, lanes<D, false>);
        with("l1", by_head, 0, lanes<D, true>);
        with("flat", by_head, lds, rows<D, false>);
        with("bulk", by_head, lds, rows<D, true>);
    }
    int places = (int)((227 << 10) / page);
    timed("pages", D, b, false, places * page, (const void *)pages<D>, [=](cache c, int grid, cudaStream_t s) {
        pages<D><<<grid, WAVES * 32, places * page, s>>>(c, places);
    });
}

int main(int argc, char **argv)
{
    int b = argc > 1 ? atoi(argv[1]) : 8;
    if (b < 1 || b > 64) {
        fprintf(stderr, "decode_loads: B %d: must be 1 to 64\n", b);
        return 2;
    }
    std::vector<int> order(b * PAGES);
    for (int i = 0; i < b * PAGES; i++)
        order[i] = i;
    srand(1);
    for (int i = b * PAGES - 1; i > 0; i--)
        std::swap(order[i], order[rand() % (i + 1)]);
    size_t bytes = (size_t)1 << 30;
    bytes += (size_t)4 * b * KEYS * HEADS * 128 * 2;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 1, bytes));
    CHECK(cudaMalloc(&table, order.size() * 4));
    CHECK(cudaMemcpy(table, order.data(), order.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&out, 64 << 20));
    all_of<64>(b);
    all_of<72>(b);
    all_of<80>(b);
    all_of<128>(b);
    return 0;
}
