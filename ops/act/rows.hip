/* SPDX-License-Identifier: MIT
 *
 * act_and_mul and act, a workgroup a row: what a scale of the whole row takes. A thread has chunks THREADS apart,
 * CHUNKS of them in a step. While the largest is looked for, results are kept
 *   KEEP = 1  in registers: a row has one step
 *   KEEP = 2  in LDS, of any length that fits
 *   KEEP = 0  not at all: computed twice, the second time from the caches
 * The grid may be smaller than the number of rows.
 *
 * Macros: those of act_device.h, THREADS, CHUNKS, KEEP. */
#define UNIFORM true
#include "act/act_device.h"

#define STEP (CHUNKS * THREADS)

RFG_DEVICE void compute_chunks(float (*f)[VEC], struct act_args args, rfg_u32 row, int first)
{
    struct raw raw[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int chunk = first + c * THREADS, left = args.n - chunk * VEC;
        if (left > 0)
            raw[c] = load(args, row, chunk, left);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int left = args.n - (first + c * THREADS) * VEC;
        compute(f[c], raw[c], args);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            f[c][i] = THERE(i, left) ? f[c][i] : 0.0f;
    }
}

RFG_DEVICE void store_chunks(float (*f)[VEC], struct act_args args, rfg_u32 row, int first, float inverse)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int chunk = first + c * THREADS, left = args.n - chunk * VEC;
        if (RFG_IS_GROUPED(SCALE))
            inverse = group_inverse(args, row, chunk, f[c], left > 0);
        if (left > 0)
            store(args, row, chunk, left, f[c], inverse);
    }
}

/* LDS holds a row's results in planes of 4 floats of each chunk, so that neighbouring lanes have neighbouring 16 bytes.
 * A thread reads only what it wrote. */
RFG_DEVICE void put_chunks(float (*f)[VEC], int first, int plane)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int i = 0; i < VEC; i += 4) {
            rfg_u32x4 v;
            v.x = rfg_as_u32(f[c][i]);
            v.y = rfg_as_u32(f[c][i + 1]);
            v.z = rfg_as_u32(f[c][i + 2]);
            v.w = rfg_as_u32(f[c][i + 3]);
            rfg_lds[i / 4 * plane + first + c * THREADS] = v;
        }
}

RFG_DEVICE void get_chunks(float (*f)[VEC], int first, int plane)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int i = 0; i < VEC; i += 4) {
            rfg_u32x4 v = rfg_lds[i / 4 * plane + first + c * THREADS];
            f[c][i] = rfg_as_float(v.x);
            f[c][i + 1] = rfg_as_float(v.y);
            f[c][i + 2] = rfg_as_float(v.z);
            f[c][i + 3] = rfg_as_float(v.w);
        }
}

RFG_KERNEL(THREADS) act_rows(struct act_args args)
{
    RFG_SHARED float part[2][THREADS / RFG_WAVE];
    int chunks = (int)args.row_chunks, slot = 0;
    int end = KEEP == 1 ? 1 : chunks; /* of steps' beginnings */
    int plane = (chunks + STEP - 1) / STEP * STEP;
    float inverse = 1.0f;
    rfg_start_next();
    rfg_await_previous();
    if (SCALE == RFG_SCALE_STATIC)
        inverse = 1.0f / rfg_load_float(args.scale, 0, RFG_F32);
    for (rfg_u32 row = (rfg_u32)rfg_group_x(); row < (rfg_u32)args.m; row += (rfg_u32)rfg_groups_x(THREADS)) {
        float largest = 0.0f;
        float f[CHUNKS][VEC];
        if (SCALE == RFG_SCALE_TOKEN) {
            /* The loop runs on for all threads alike: left is small beyond the row, and never below INT_MIN. */
            for (int base = 0; base < end; base += STEP) {
                compute_chunks(f, args, row, base + rfg_thread());
#pragma unroll
                for (int c = 0; c < CHUNKS; c++)
                    largest = rfg_max(largest, rfg_chunk_max(f[c], IN_DTYPE));
                if (KEEP == 2)
                    put_chunks(f, base + rfg_thread(), plane);
            }
            largest = rfg_group_reduce(largest, part[slot], THREADS / RFG_WAVE, rfg_wave(), true);
            slot ^= 1;
            float scale = rfg_scale_of(largest, OUT_DTYPE);
            if (rfg_thread() == 0)
                rfg_store_float(args.scale, row * args.scale_row, scale, RFG_F32);
            inverse = 1.0f / scale;
        }
        for (int base = 0; base < end; base += STEP) {
            if (SCALE == RFG_SCALE_TOKEN && KEEP == 2)
                get_chunks(f, base + rfg_thread(), plane);
            else if (SCALE != RFG_SCALE_TOKEN || KEEP == 0)
                compute_chunks(f, args, row, base + rfg_thread());
            store_chunks(f, args, row, base + rfg_thread(), inverse);
        }
    }
}
