/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include "../quant.h"

float rfg_cpu_scale(float largest, int dtype)
{
    float max = dtype == RFG_E4M3 ? 448.0f : dtype == RFG_E4M3FNUZ ? 240.0f : dtype == RFG_E5M2 ? 57344.0f : 127.0f;
    float scale = largest / max, least = 1.0f / (512.0f * max);
    return scale > least ? scale : least;
}

void rfg_cpu_write(const struct rfg_cpu_out *o, int64_t col, const float *f, int n)
{
    int64_t size = (int64_t)rfg_dtype_size((rfg_dtype)o->in_dtype);
    if (o->y)
        o->isa->store(o->y + col * size, f, o->in_dtype, n, o->stream);
    if (!o->q)
        return;
    if (!o->groups) {
        o->isa->codes(o->q + col, f, o->inverse, o->out_dtype, n, o->stream);
        return;
    }
    for (int at = 0; at < n; at += RFG_SCALE_COLUMNS) {
        int left = n - at < RFG_SCALE_COLUMNS ? n - at : RFG_SCALE_COLUMNS;
        float scale = rfg_cpu_scale(o->isa->largest(f + at, left), o->out_dtype);
        o->scale[(col + at) / RFG_SCALE_COLUMNS * o->scale_col] = scale;
        o->isa->codes(o->q + col + at, f + at, 1.0f / scale, o->out_dtype, left, o->stream);
    }
}

/* Tasks of about 64 KiB at least, so that handing them out costs nothing; several a thread, to even out what else the
 * machine does. */
struct rfg_cpu_split rfg_cpu_rows_split(int64_t rows, double row_bytes, int threads)
{
    struct rfg_cpu_split s;
    double least = 65536 / (row_bytes + 1) + 1;
    s.each = (rows + 8 * (int64_t)threads - 1) / (8 * (int64_t)threads);
    if (threads == 1)
        s.each = rows;
    else if ((double)s.each < least)
        s.each = least < (double)rows ? (int64_t)least : rows;
    s.tasks = (int)((rows + s.each - 1) / s.each);
    return s;
}

bool rfg_cpu_supports(const struct rfg_device *dev, const struct rfg_cpu_rows *isa, struct rfg_reason *why)
{
    if (dev->platform != RFG_PLATFORM_CPU)
        return rfg_refuse(why, "needs the cpu device, this is %s", dev->name);
#if defined(__x86_64__)
    if (isa == &rfg_cpu_rows_avx2 && !(dev->features & RFG_FEATURE_AVX2))
        return rfg_refuse(why, "needs AVX2, FMA and F16C, which this cpu does not have");
    if (isa == &rfg_cpu_rows_avx512 && !(dev->features & RFG_FEATURE_AVX512))
        return rfg_refuse(why, "needs AVX-512 F, BW, VL and DQ, which this cpu does not have");
#else
    if (isa != &rfg_cpu_rows_portable)
        return rfg_refuse(why, "built for another processor than x86-64");
#endif
    return true;
}

double rfg_cpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const struct rfg_cpu_rows *isa,
                       bool stream)
{
    double bytes, flops, lanes = 4;
    prob->op->cost(prob, &bytes, &flops);
#if defined(__x86_64__)
    lanes = isa == &rfg_cpu_rows_avx512 ? 16 : isa == &rfg_cpu_rows_avx2 ? 8 : 4;
#else
    (void)isa;
#endif
    double threads = dev->cu_count < 1 ? 1 : dev->cu_count;
    double memory = bytes / ((dev->mem_gbps > 1 ? dev->mem_gbps : 1) * 1e3);
    /* Results that the cache holds are cheaper there; those that it can't hold needn't be read first. */
    bool fits = bytes < (double)dev->cache_bytes / 2;
    memory *= fits == stream ? 1.4 : 1;
    double compute = flops / (threads * lanes * 1.5e3);
    return 1 + (memory > compute ? memory : compute) + 0.1 * compute;
}
