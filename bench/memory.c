/* SPDX-License-Identifier: MIT
 *
 * The bandwidth of the cpu's memory for all threads together. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/util.h"
#include "ops/cpu/pool.h"
#include "bench.h"

#define TASKS     64
#define HUGE_PAGE ((size_t)2 << 20)

struct bench_memory {
    struct rfg_cpu_pool *pool;
    size_t part; /* bytes of a task */
    char *from, *to;
    _Atomic uint64_t sum;
};

/* In large pages, where the system has them: small ones take as long to come as the reads. NULL: no memory. */
static char *pages(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

struct bench_memory *bench_memory_create(const struct rfg_device *dev, bool copies)
{
    size_t bytes = (size_t)dev->cache_bytes * 4 < (256u << 20) ? 256u << 20 : (size_t)dev->cache_bytes * 4;
    struct bench_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->part = bytes / TASKS & ~(HUGE_PAGE - 1);
    m->from = pages(m->part * TASKS);
    m->to = copies ? pages(m->part * TASKS) : NULL;
    m->pool = rfg_cpu_pool_create(dev->cu_count);
    if (!m->from || (copies && !m->to) || !m->pool)
        bench_memory_destroy(&m);
    else {
        memset(m->from, 1, m->part * TASKS); /* pages of their own, not all the one of zeroes */
        if (copies)
            memset(m->to, 2, m->part * TASKS);
    }
    return m;
}

void bench_memory_destroy(struct bench_memory **m)
{
    if (!*m)
        return;
    rfg_cpu_pool_destroy(&(*m)->pool);
    if ((*m)->from)
        munmap((*m)->from, (*m)->part * TASKS);
    if ((*m)->to)
        munmap((*m)->to, (*m)->part * TASKS);
    free(*m);
    *m = NULL;
}

static void read_task(void *ctx, int task, int worker)
{
    struct bench_memory *m = ctx;
    typedef uint64_t v8 __attribute__((vector_size(64), aligned(64)));
    v8 a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    const v8 *v = (const v8 *)(const void *)(m->from + (size_t)task * m->part);
    (void)worker;
    for (size_t i = 0; i < m->part / sizeof(v8); i += 4) {
        a ^= v[i];
        b ^= v[i + 1];
        c ^= v[i + 2];
        d ^= v[i + 3];
    }
    a ^= b ^ c ^ d;
    m->sum ^= a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}

/* Past the caches: lines that are overwritten whole needn't be read. */
static void copy_task(void *ctx, int task, int worker)
{
    struct bench_memory *m = ctx;
    const char *from = m->from + (size_t)task * m->part;
    char *to = m->to + (size_t)task * m->part;
    (void)worker;
#if defined(__SSE2__)
    for (size_t i = 0; i < m->part; i += 16)
        _mm_stream_si128((__m128i *)(void *)(to + i), _mm_load_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
#else
    memcpy(to, from, m->part);
#endif
}

static double rate(struct bench_memory *m, void (*task)(void *, int, int), int times)
{
    double t = rfg_now();
    rfg_cpu_pool_run(m->pool, TASKS, task, m);
    return (double)times * (double)m->part * TASKS / (rfg_now() - t) * 1e-9;
}

/* The best of up to 12 reads, until three were no better. */
double bench_memory_read(struct bench_memory *m)
{
    double best = 0;
    for (int i = 0, idle = 0; i < 12 && idle < 3; i++) {
        double r = rate(m, read_task, 1);
        idle = r > 1.01 * best ? 0 : idle + 1;
        best = r > best ? r : best;
    }
    return best;
}

double bench_memory_copy(struct bench_memory *m)
{
    return rate(m, copy_task, 2);
}
