/* SPDX-License-Identifier: MIT
 *
 * Measures a device's launches, memory, caches and cross-workgroup reductions: the inputs of the analytical models. It
 * takes a second or two, with the kernels of ops/calibrate; on cpu, with the threads that its variants use. */
#include "calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "ops/calibrate/calibrate_args.h"
#include "ops/cpu/pool.h"
#include "tuner/harness/replay.h"

#define THREADS  CALIBRATE_THREADS
#define STEP     (CALIBRATE_UNROLL * THREADS) /* chunks of 16 bytes that a workgroup reads at once */
#define LAUNCHES 20                           /* of a graph */
#define SAMPLES  15
#define SHARERS  8 /* workgroups that share a reduction */
#define COUNTERS CALIBRATE_COUNTERS
#define OUT      (1u << 20) /* bytes */
#define CHASE    256        /* loads, and as many more */

struct bench {
    struct rfg_stopwatch watch;
    const struct rfg_device *dev;
    hipModule_t module;
    hipFunction_t fn; /* that is timed */
    char *mem;        /* data, then out, then counters */
    size_t bytes;     /* of data; a power of two */
    struct calibrate_args args;
};

#define TRY(b, st, entry, ...)                                                                                         \
    do {                                                                                                               \
        hipError_t e_ = *(st) == RFG_OK ? (b)->watch.hip->entry(__VA_ARGS__) : hipSuccess;                             \
        if (e_ != hipSuccess)                                                                                          \
            *(st) = rfg_hip_fail((b)->watch.ctx, "calibration: " #entry, e_);                                          \
    } while (0)

static rfg_status load(struct bench *b)
{
    struct rfg_kernel kernel = { .source = "calibrate/calibrate.hip", .entry = "calibrate_empty" };
    const struct rfg_blob *code = NULL;
    struct rfg_jit_request req = { .name = "calibrate", .entry = kernel.entry, .target = b->dev->target };
    char *source = rfg_jit_expand(&kernel);
    if (!source)
        return RFG_ERROR_IO;
    req.source = source;
    rfg_status st = rfg_cache_get(rfg_context_cache(b->watch.ctx), &req, NULL, NULL, &code);
    free(source);
    hipModule_t module = NULL;
    TRY(b, &st, hipModuleLoadData, &module, code->data);
    b->module = module;
    return st;
}

static rfg_status launch(void *arg, const struct rfg_stopwatch *w, int i)
{
    struct bench *b = arg;
    void *params[] = { &b->args };
    rfg_status st = RFG_OK;
    (void)i;
    TRY(b, &st, hipModuleLaunchKernel, b->fn, (unsigned)b->args.groups, 1, 1, THREADS, 1, 1, 0, w->stream, params,
        NULL);
    return st;
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

/* Median microseconds of one of `launches` dependent launches in a replayed graph. */
static rfg_status time_kernel(struct bench *b, const char *name, int launches, double *us)
{
    struct rfg_replay replay = { 0 };
    double sample[SAMPLES], warm_up;
    rfg_status st = RFG_OK;
    TRY(b, &st, hipModuleGetFunction, &b->fn, b->module, name);
    st = st == RFG_OK ? launch(b, &b->watch, 0) : st;
    TRY(b, &st, hipStreamSynchronize, b->watch.stream);
    if (st == RFG_OK)
        st = rfg_replay_capture(&b->watch, launch, b, 1, launches, &replay);
    double until = rfg_now() + 1e-3 * b->watch.hip->warm_up_ms;
    for (int i = 0; st == RFG_OK && (i < 2 || rfg_now() < until); i++)
        st = rfg_replay_time(&b->watch, &replay, &warm_up);
    for (int i = 0; st == RFG_OK && i < SAMPLES; i++)
        st = rfg_replay_time(&b->watch, &replay, &sample[i]);
    rfg_replay_free(&b->watch, &replay);
    if (st == RFG_OK) {
        qsort(sample, SAMPLES, sizeof(*sample), by_value);
        *us = sample[SAMPLES / 2];
    }
    return st;
}

static rfg_status open_bench(struct bench *b)
{
    size_t total = 0;
    void *mem = NULL;
    rfg_status st = rfg_stopwatch_open(&b->watch);
    TRY(b, &st, hipDeviceTotalMem, &total, rfg_context_ordinal(b->watch.ctx));
    /* Four times the cache, so that nothing of the last launch is left; at most a quarter of the memory. */
    b->bytes = (size_t)64 << 20;
    while (b->bytes < 4 * (size_t)b->dev->cache_bytes && b->bytes < (size_t)2 << 30 && b->bytes * 8 <= total)
        b->bytes *= 2;
    if (st == RFG_OK && b->bytes < 2 * (size_t)b->dev->cache_bytes)
        rfg_warn(
            "calibration: %s: a quarter of its %zu MiB of memory is less than twice its cache of %zu MiB: the memory's "
            "bandwidth will be in part the cache's",
            b->dev->name, total >> 20, (size_t)b->dev->cache_bytes >> 20);
    TRY(b, &st, hipMalloc, &mem, b->bytes + OUT + COUNTERS * 4);
    b->mem = mem;
    TRY(b, &st, hipMemsetD8Async, (hipDeviceptr_t)mem, 0, b->bytes + OUT + COUNTERS * 4, b->watch.stream);
    b->args = (struct calibrate_args){ .data = b->mem,
                                       .out = (uint32_t *)(b->mem + b->bytes),
                                       .counters = (uint32_t *)(b->mem + b->bytes + OUT),
                                       .mask = (uint32_t)(b->bytes - 1) };
    return st == RFG_OK ? load(b) : st;
}

static void close_bench(struct bench *b)
{
    const struct rfg_hip *hip = b->watch.hip;
    if (b->watch.stream)
        (void)hip->hipStreamSynchronize(b->watch.stream);
    if (b->module)
        (void)hip->hipModuleUnload(b->module);
    if (b->mem)
        (void)hip->hipFree(b->mem);
    rfg_stopwatch_close(&b->watch);
}

static rfg_status measure_gpu(rfg_context *ctx, struct rfg_calibration *c)
{
    struct bench b = { .watch = { .ctx = ctx, .what = "calibration" }, .dev = rfg_context_info(ctx) };
    int cus = b.dev->cu_count;
    double empty = 0, full = 0, once = 0, twice = 0;
    rfg_status st = open_bench(&b);

    /* One workgroup per CU: the cost of an edge between two launches that load and store. */
    b.args.groups = cus;
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_empty", 10 * LAUNCHES, &empty);
    c->latency_us = empty;

    /* All memory in one launch, four workgroups a CU. */
    b.args.groups = 4 * cus;
    b.args.n = (int)(b.bytes / 16 / (size_t)b.args.groups / STEP * STEP);
    b.args.times = 1;
    if (st == RFG_OK && !b.args.n)
        st = rfg_fail(RFG_ERROR_UNSUPPORTED, "calibration: %s: %zu bytes are too little for %d CUs", b.dev->name,
                      b.bytes, cus);
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_read", LAUNCHES, &full);
    c->mem_gbps = 16e-3 * b.args.n * b.args.groups / (full - empty);

    /* Reads half of the cache's size many times. The difference of two lengths cancels the launch. */
    b.args.groups = 4 * cus;
    b.args.n = STEP;
    while (b.args.groups > cus && 16ll * b.args.n * b.args.groups > b.dev->cache_bytes / 2)
        b.args.groups -= cus;
    b.args.times = 8;
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_read", LAUNCHES, &once);
    b.args.times = 24;
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_read", LAUNCHES, &twice);
    c->cache_gbps = 16e-3 * b.args.n * b.args.groups * 16 / (twice - once);

    b.args.groups = 1;
    b.args.n = CHASE;
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_chase", 1, &once);
    b.args.n = 2 * CHASE;
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_chase", 1, &twice);
    c->load_us = (twice - once) / CHASE;

    /* Tiles of SHARERS workgroups, one a CU, within what OUT and COUNTERS have room for. */
    int tiles = cus / SHARERS < 1 ? 1 : cus / SHARERS > 64 ? 64 : cus / SHARERS;
    b.args.groups = tiles * SHARERS;
    b.args.times = SHARERS;
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_empty", 10 * LAUNCHES, &once);
    if (st == RFG_OK)
        st = time_kernel(&b, "calibrate_reduce", 10 * LAUNCHES, &twice);
    c->sync_us = twice - once;
    close_bench(&b);
    return st;
}

/* ---- cpu --------------------------------------------------------------------------------------------------------- */

struct shares {
    const uint64_t *data;
    size_t words; /* of a task */
    int times;
    uint64_t *sums;
};

static void read_share(void *ctx, int task, int worker)
{
    const struct shares *s = ctx;
    const uint64_t *p = s->data + (size_t)task * s->words;
    uint64_t sum[8] = { 0 };
    (void)worker;
    for (int t = 0; t < s->times; t++)
        for (size_t i = 0; i + 8 <= s->words; i += 8)
            for (int k = 0; k < 8; k++)
                sum[k] += p[i + (size_t)k] ^ (uint64_t)t;
    for (int k = 1; k < 8; k++)
        sum[0] += sum[k];
    s->sums[8 * task] = sum[0];
}

/* The median of a few; times: calls of a sample. */
static double time_pool(struct rfg_cpu_pool *pool, int tasks, struct shares *s, int calls)
{
    double sample[SAMPLES];
    for (int i = -2; i < SAMPLES; i++) {
        double start = rfg_now();
        for (int k = 0; k < calls; k++)
            rfg_cpu_pool_run(pool, tasks, read_share, s);
        if (i >= 0)
            sample[i] = 1e6 * (rfg_now() - start) / calls;
    }
    qsort(sample, SAMPLES, sizeof(*sample), by_value);
    return sample[SAMPLES / 2];
}

static rfg_status measure_cpu(rfg_context *ctx, struct rfg_calibration *c)
{
    const struct rfg_device *dev = rfg_context_info(ctx);
    int threads = dev->cu_count;
    size_t bytes = (size_t)64 << 20, words;
    while (bytes < 2 * (size_t)dev->cache_bytes && bytes < (size_t)512 << 20)
        bytes *= 2;
    words = bytes / 8 / (size_t)threads / 8 * 8;
    struct rfg_cpu_pool *pool = rfg_cpu_pool_create(threads);
    uint64_t *data = aligned_alloc(4096, bytes), *sums = calloc((size_t)threads, 64);
    struct shares s = { .data = data, .sums = sums };
    rfg_status st = RFG_OK;
    if (!pool || !data || !sums) {
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "calibration: no memory for %zu bytes, or no threads", bytes);
    } else {
        memset(data, 0, bytes);
        c->latency_us = time_pool(pool, threads, &s, 100);
        c->sync_us = c->latency_us; /* a region more */
        s.words = words;
        s.times = 1;
        c->mem_gbps = 8e-3 * (double)words * threads / time_pool(pool, threads, &s, 1);
        s.words = words < 4096 ? words : 4096; /* 32 KiB: what a core keeps close */
        s.times = 64;
        c->cache_gbps = 8e-3 * (double)s.words * 64 * threads / time_pool(pool, threads, &s, 1);
        uint64_t at = 12345, mask = bytes / 8 - 1;
        double start = rfg_now();
        for (int i = 0; i < 100000; i++)
            at = at * 6364136223846793005u + 1442695040888963407u + data[at >> 20 & mask & ~(uint64_t)7];
        c->load_us = 1e6 * (rfg_now() - start) / 100000;
        sums[0] = at; /* so that nobody leaves the loop out */
    }
    rfg_cpu_pool_destroy(&pool);
    free(data);
    free(sums);
    return st;
}

rfg_status rfg_calibrate(rfg_context *ctx, struct rfg_calibration *out)
{
    const struct rfg_device *dev = rfg_context_info(ctx);
    *out = (struct rfg_calibration){ 0 };
    if (dev->platform == RFG_PLATFORM_EMU)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: can't be calibrated: time means nothing on the emulator",
                        dev->name);
    snprintf(out->device, sizeof(out->device), "%s", rfg_context_product(ctx));
    snprintf(out->driver, sizeof(out->driver), "%s", rfg_context_driver(ctx));
    rfg_date(out->date);
    return dev->platform == RFG_PLATFORM_CPU ? measure_cpu(ctx, out) : measure_gpu(ctx, out);
}
