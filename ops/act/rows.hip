/* SPDX-License-Identifier: MIT
 *
 * act_and_mul and act, a workgroup a row: what a scale of the whole row takes. Results stay in registers while the
 * largest is looked for, CHUNKS chunks a thread; with KEEP = 0 rows of any length are computed twice, the second time
 * from the caches. The grid may be smaller than the number of rows.
 *
 * Macros: those of act_device.h, THREADS, CHUNKS, KEEP. */
#include "act/act_device.h"

#define STEP (CHUNKS * THREADS)

RFG_DEVICE void compute_chunks(float (*f)[VEC], struct act_args args, long long row, int first)
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

RFG_DEVICE void store_chunks(float (*f)[VEC], struct act_args args, long long row, int first, float inverse)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int chunk = first + c * THREADS, left = args.n - chunk * VEC;
        if (SCALE == RFG_SCALE_GROUP)
            inverse = group_inverse(args, row, chunk, f[c], left > 0);
        if (left > 0)
            store(args, row, chunk, left, f[c], inverse);
    }
}

RFG_KERNEL(THREADS) act_rows(struct act_args args)
{
    RFG_SHARED float part[2][THREADS / RFG_WAVE];
    int chunks = (int)args.row_chunks, slot = 0;
    for (long long row = rfg_group_x(); row < args.m; row += rfg_groups_x(THREADS)) {
        float inverse = 1.0f, largest = 0.0f;
        float f[CHUNKS][VEC];
        if (SCALE == RFG_SCALE_STATIC)
            inverse = 1.0f / rfg_load_float(args.scale, 0, RFG_F32);
        if (KEEP)
            compute_chunks(f, args, row, rfg_thread());
        if (SCALE == RFG_SCALE_TOKEN) {
            /* The loop runs on for all threads alike: left is small beyond the row, and never below INT_MIN. */
            for (int base = 0; base < (KEEP ? 1 : chunks); base += STEP) {
                if (!KEEP)
                    compute_chunks(f, args, row, base + rfg_thread());
#pragma unroll
                for (int c = 0; c < CHUNKS; c++)
                    largest = rfg_max(largest, rfg_chunk_max(f[c], IN_DTYPE));
            }
            largest = rfg_group_reduce(largest, part[slot], THREADS / RFG_WAVE, rfg_wave(), true);
            slot ^= 1;
            float scale = rfg_scale_of(largest, OUT_DTYPE);
            if (rfg_thread() == 0)
                rfg_store_float(args.scale, row * args.scale_row, scale, RFG_F32);
            inverse = 1.0f / scale;
        }
        if (KEEP)
            store_chunks(f, args, row, rfg_thread(), inverse);
        for (int base = 0; !KEEP && base < chunks; base += STEP) {
            compute_chunks(f, args, row, base + rfg_thread());
            store_chunks(f, args, row, base + rfg_thread(), inverse);
        }
    }
}
