/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include <math.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "ops/quant.h"
#include "pool.h"

/* For variants in plain C: the speed of compiled code on any x86-64. */
static const struct rfg_cpu_rows plain = { .lanes = 4 };

float rfg_cpu_scale(float largest, int dtype)
{
    float max = dtype == RFG_E4M3 ? 448.0f : dtype == RFG_E4M3FNUZ ? 240.0f : dtype == RFG_E5M2 ? 57344.0f : 127.0f;
    float scale = largest / max, least = 1.0f / (512.0f * max);
    return scale > least ? scale : least;
}

/* 2^k from 2^-127 to 2^127. */
static float power(int k)
{
    return ldexpf(1, k < -127 ? -127 : k > 127 ? 127 : k);
}

/* k: 2^k is the least that is not below v > 0. */
static int up(float v)
{
    int k;
    return frexpf(v, &k) == 0.5f ? k - 1 : k;
}

float rfg_cpu_power_scale(float v, int rounding, int dtype)
{
    const struct rfg_format *f = rfg_format(dtype);
    int exponent = ilogb(f->largest), mantissa = f->kind == RFG_FORMAT_FLOAT ? f->fp.mantissa : exponent;
    if (isinf(v))
        return v;
    if (v == 0)
        return power(-127);
    switch (rounding) {
    case RFG_SCALE_UP:
        return power(up(v));
    case RFG_SCALE_DOWN:
        return power(ilogbf(v) - exponent);
    case RFG_SCALE_EVEN: { /* what is a half, or less, of a place below the next power of two goes up to it */
        int e = ilogbf(v);
        float places = ldexpf(v, mantissa + 1 - e) + 1, next = ldexpf(2, mantissa + 1);
        return power((places >= next ? e + 1 : e) - exponent);
    }
    default:
        return power(up(v) - exponent);
    }
}

float rfg_cpu_store_e8m0(uint8_t *to, float scale)
{
    const struct rfg_format *f = rfg_format(RFG_E8M0);
    double v = isinf(scale) ? NAN : (double)scale;
    f->encode(f, to, &v);
    return (float)v;
}

size_t rfg_cpu_row_bytes(int64_t n)
{
    return (size_t)(n + RFG_CPU_CHUNK - 1) / RFG_CPU_CHUNK * RFG_CPU_CHUNK * sizeof(float);
}

struct job {
    void (*fn)(void *ctx, int64_t row, int place, void *scratch);
    void *ctx;
    char *scratch;
    size_t scratch_bytes;
    int64_t rows, each;
};

static void run_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    int64_t first = task * j->each, end = first + j->each < j->rows ? first + j->each : j->rows;
    for (int64_t row = first; row < end; row++)
        j->fn(j->ctx, row, (row == first ? RFG_CPU_FIRST : 0) | (row + 1 == end ? RFG_CPU_LAST : 0),
              j->scratch ? j->scratch + (size_t)worker * j->scratch_bytes : NULL);
#if defined(__SSE2__)
    _mm_sfence(); /* stores past the caches come before what tells that the task is done */
#endif
}

void rfg_cpu_rows_run(const struct rfg_device *dev, struct rfg_cpu_pool *pool, int64_t rows, double row_bytes,
                      void *scratch, size_t scratch_bytes, void (*fn)(void *ctx, int64_t row, int place, void *scratch),
                      void *ctx)
{
    /* Tasks of about 64 KiB at least, so that handing them out costs nothing; several a thread, to even out what else
     * the machine does. A pool of more threads than there is scratch for does all on one. */
    int64_t threads = rfg_cpu_pool_threads(pool) > dev->cu_count ? 1 : dev->cu_count;
    int64_t each = (rows + 8 * threads - 1) / (8 * threads);
    double least = 65536 / (row_bytes + 1) + 1;
    if (threads == 1)
        each = rows;
    else if ((double)each < least)
        each = least < (double)rows ? (int64_t)least : rows;
    struct job j = { fn, ctx, scratch, scratch_bytes, rows, each };
    rfg_cpu_pool_run(pool, (int)((rows + each - 1) / each), run_task, &j);
}

bool rfg_cpu_supports(const struct rfg_device *dev, const struct rfg_cpu_rows *isa, struct rfg_reason *why)
{
    return rfg_cpu_only(dev, NULL, why) && (!isa->feature || dev->features & isa->feature ||
                                            rfg_refuse(why, "needs %s, which this cpu does not have", isa->needs));
}

double rfg_cpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const struct rfg_cpu_rows *isa,
                       bool stream)
{
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    double threads = dev->cu_count < 1 ? 1 : dev->cu_count;
    double memory = bytes / ((dev->mem_gbps > 1 ? dev->mem_gbps : 1) * 1e3);
    /* Results that fit the cache are cheaper there. Larger ones are stored past the cache, so that their lines needn't
     * be read first. */
    bool fits = bytes < (double)dev->cache_bytes / 2;
    memory *= fits == stream ? 1.4 : 1;
    double compute = flops / (threads * isa->lanes * 1.5e3);
    return 1 + (memory > compute ? memory : compute) + 0.1 * compute;
}

bool rfg_cpu_plain_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return rfg_cpu_supports(dev, &plain, why);
}

double rfg_cpu_plain_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)p;
    return rfg_cpu_predict(dev, prob, &plain, false);
}
