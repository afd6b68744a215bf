/* SPDX-License-Identifier: MIT
 *
 * quantize: THREADS threads a row, ROWS rows side by side in a workgroup, which goes on to further rows in strides of
 * the grid. A thread has chunks of 16 bytes, THREADS apart, CHUNKS of them in a step: all are loaded before the first
 * is used. Where a row shares a scale it is kept in registers until that is known (KEEP = 1: it has one step), or read
 * again from the caches. Rows of other scales may be shared by SPLIT workgroups, which take steps by turns.
 *
 * Macros: those of scale_device.h, IN_DTYPE, KIND (RFG_SCALE_STATIC: the tensor's scale, which is read; _TOKEN,
 * _GROUP), GROUP (columns that share a scale), CLAMP (to the rule's max), WIDTH (bytes of a load), THREADS (16, 32 or
 * whole waves), ROWS, CHUNKS, KEEP, SPLIT. */
#include "rfg_device.h"
#include "quantize/quantize_args.h"
#include "quantize/scale_device.h"

#define VEC       RFG_DTYPE_VEC(IN_DTYPE)
#define SIZE      RFG_DTYPE_BYTES(IN_DTYPE)
#define BLOCK     (THREADS * ROWS)
#define ROW_WAVES (THREADS > RFG_WAVE ? THREADS / RFG_WAVE : 1)
#define STEP      (CHUNKS * THREADS)
#define LANES     (GROUP / VEC) /* that share a group, with a chunk each */
/* A product is as exact as the quotient, or what is asked for. */
#define MULTIPLY (SCALE_DTYPE == RFG_E8M0 || ROUNDING != EXACT || (RECIPROCAL & OF_SCALE) != 0)

struct row {
    const char *x;
    char *q;
    int n; /* elements; 0: there is no such row */
};

RFG_DEVICE void load_step(rfg_u32x4 *raw, struct row r, int first)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int chunk = first + c * THREADS, left = r.n - chunk * VEC;
        raw[c].x = raw[c].y = raw[c].z = raw[c].w = 0u;
        if (left > 0)
            raw[c] = rfg_load_chunk(r.x, (rfg_u32)chunk * 16u, left, IN_DTYPE, WIDTH, false);
    }
}

RFG_DEVICE float largest_of(rfg_u32x4 raw)
{
    float f[VEC];
    rfg_unpack(f, raw, IN_DTYPE);
    return rfg_chunk_max(f, IN_DTYPE);
}

/* The largest of `lanes` neighbours (a constant: a power of two up to the wave), in all of them. */
RFG_DEVICE float reduce_group(float v, int lanes)
{
    if (lanes >= 16)
        return rfg_reduce_lanes(v, lanes, true);
#pragma unroll
    for (int mask = 1; mask < lanes; mask *= 2)
        v = rfg_max(v, rfg_shuffle_xor(v, mask));
    return v;
}

/* What values are multiplied with, or divided by. */
RFG_DEVICE float factor_of(float scale)
{
    return MULTIPLY ? 1.0f / scale : scale;
}

RFG_DEVICE void store_chunk_codes(struct row r, int chunk, rfg_u32x4 raw, float factor, float max)
{
    float f[VEC];
    rfg_unpack(f, raw, IN_DTYPE);
#pragma unroll
    for (int i = 0; i < VEC; i++) {
        f[i] = MULTIPLY ? f[i] * factor : f[i] / factor;
        if (CLAMP)
            f[i] = rfg_clamp_keep_nan(f[i], max);
    }
    rfg_store_codes(r.q, (rfg_u32)(chunk * VEC), r.n - chunk * VEC, f, 1.0f, Q_DTYPE, IN_DTYPE, WIDTH, false);
}

RFG_KERNEL(BLOCK) quantize_rows(struct quantize_args args)
{
    RFG_SHARED float part[2][ROWS * ROW_WAVES];
    int sub = ROWS == 1 ? 0 : THREADS >= RFG_WAVE ? rfg_wave() / ROW_WAVES : rfg_thread() / THREADS;
    int t = rfg_thread() - sub * THREADS, slot = 0;
    int chunks = (args.n + VEC - 1) / VEC, end = KEEP ? 1 : chunks; /* of steps' beginnings */
    int first = rfg_group_x() % SPLIT * STEP;
    float factor = 1.0f;
    rfg_start_next();
    rfg_await_previous();
    if (KIND == RFG_SCALE_STATIC)
        factor = factor_of(rfg_load_scale(args.scale, 0, SCALE_DTYPE));
    for (rfg_u32 base = (rfg_u32)(rfg_group_x() / SPLIT) * ROWS; base < (rfg_u32)args.m;
         base += (rfg_u32)(rfg_groups_x(BLOCK) / SPLIT) * ROWS) {
        rfg_u32 row = base + (rfg_u32)sub;
        struct row r;
        rfg_u32x4 raw[CHUNKS];
        r.x = (const char *)args.x + row * args.ldx * SIZE;
        r.q = (char *)args.q + row * args.ldq;
        r.n = row < (rfg_u32)args.m ? args.n : 0;
        if (KIND == RFG_SCALE_TOKEN) {
            float largest = 0.0f;
            for (int step = 0; step < end; step += STEP) {
                load_step(raw, r, step + t);
#pragma unroll
                for (int c = 0; c < CHUNKS; c++)
                    largest = rfg_max(largest, largest_of(raw[c]));
            }
            if (THREADS <= RFG_WAVE)
                largest = rfg_reduce_lanes(largest, THREADS, true);
            else
                largest = rfg_group_reduce(largest, part[slot] + sub * ROW_WAVES, ROW_WAVES,
                                           rfg_wave() - sub * ROW_WAVES, true);
            slot ^= 1;
            rfg_u32 s = scale_of(largest, args.rule);
            factor = factor_of(scale_value(s));
            if (r.n > 0 && t == 0)
                store_scale(args.scale, row * args.scale_row, s);
        }
        for (int step = first; step < end; step += SPLIT * STEP) {
            if (!KEEP || KIND != RFG_SCALE_TOKEN)
                load_step(raw, r, step + t);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                int chunk = step + t + c * THREADS;
                if (KIND == RFG_SCALE_GROUP) {
                    rfg_u32 s = scale_of(reduce_group(largest_of(raw[c]), LANES), args.rule);
                    factor = factor_of(scale_value(s));
                    if (r.n > chunk * VEC && chunk % LANES == 0)
                        store_scale(args.scale, row * args.scale_row + chunk / LANES * args.scale_col, s);
                }
                if (r.n > chunk * VEC)
                    store_chunk_codes(r, chunk, raw[c], factor, args.rule.max);
            }
        }
    }
}
