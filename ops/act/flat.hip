/* SPDX-License-Identifier: MIT
 *
 * act_and_mul and act, all chunks of all rows as one list: each thread takes UNROLL of them, THREADS apart, loads them
 * all and then computes. The grid may be smaller than the list: it is gone through in strides of the grid. Not for
 * scales of whole rows.
 *
 * Macros: those of act_device.h, THREADS, UNROLL, ONCE (the grid is not smaller), WHOLE_WAVES (rows are whole waves of
 * whole chunks). */
#define UNIFORM (RFG_AMD && WHOLE_WAVES)
#include "act/act_device.h"

RFG_KERNEL(THREADS) act_flat(struct act_args args)
{
    rfg_u32 total = (rfg_u32)args.m * args.row_chunks;
    rfg_u32 step = ONCE ? total : (rfg_u32)rfg_groups_x(THREADS) * (THREADS * UNROLL);
    float inverse = 1.0f;
    rfg_start_next();
    rfg_await_previous();
    if (SCALE == RFG_SCALE_STATIC)
        inverse = 1.0f / rfg_load_float(args.scale, 0, RFG_F32);
    for (rfg_u32 base = (rfg_u32)rfg_group_x() * (THREADS * UNROLL); base < total; base += step) {
        struct raw raw[UNROLL];
        rfg_u32 row[UNROLL];
        int chunk[UNROLL], left[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            rfg_u32 at = base + (rfg_u32)(u * THREADS + (UNIFORM ? rfg_wave() * RFG_WAVE : rfg_thread()));
            row[u] = (rfg_u32)((rfg_u64)(at * 2u) * args.mul >> 32) >> args.shift;
            chunk[u] = (int)(at - row[u] * args.row_chunks) + (UNIFORM ? rfg_lane() : 0);
            left[u] = at >= total ? 0 : UNIFORM ? VEC : args.n - chunk[u] * VEC; /* padding has none either */
            if (left[u] > 0)
                raw[u] = load(args, row[u], chunk[u], left[u]);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            float f[VEC];
            if (SCALE == RFG_SCALE_NONE) {
                if (left[u] > 0)
                    store_plain(args, row[u], chunk[u], left[u], compute_plain(raw[u], args));
                continue;
            }
            compute(f, raw[u], args);
            if (RFG_IS_GROUPED(SCALE)) {
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    f[i] = THERE(i, left[u]) ? f[i] : 0.0f;
                inverse = group_inverse(args, row[u], chunk[u], f, left[u] > 0);
            }
            if (left[u] > 0)
                store(args, row[u], chunk[u], left[u], f, inverse);
        }
    }
}
