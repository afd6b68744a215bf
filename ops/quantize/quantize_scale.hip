/* SPDX-License-Identifier: MIT
 *
 * quantize_scale, all chunks of 16 bytes of all rows as one list, which the workgroups go through in strides of the
 * grid, UNROLL chunks of a thread in flight. Each leaves its largest magnitude in the workspace; the last one to arrive
 * puts them together.
 *
 * Macros: those of scale_device.h, IN_DTYPE, WIDTH (bytes of a load), THREADS (whole waves), UNROLL. */
#include "rfg_device.h"
#include "quantize/quantize_args.h"
#include "quantize/scale_device.h"

#define VEC   RFG_DTYPE_VEC(IN_DTYPE)
#define WAVES (THREADS / RFG_WAVE)

RFG_KERNEL(THREADS) quantize_scale_rows(struct quantize_scale_args args)
{
    RFG_SHARED float part[2][WAVES];
    RFG_SHARED rfg_u32 flag;
    rfg_u32 total = (rfg_u32)args.m * args.row_chunks, groups = (rfg_u32)rfg_groups_x(THREADS);
    float largest = 0.0f, *all = (float *)args.workspace;
    rfg_start_next();
    rfg_await_previous();
    for (rfg_u32 base = (rfg_u32)rfg_group_x() * (THREADS * UNROLL); base < total;
         base += groups * (THREADS * UNROLL)) {
        rfg_u32x4 raw[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            rfg_u32 at = base + (rfg_u32)(u * THREADS + rfg_thread());
            rfg_u32 row = (rfg_u32)((rfg_u64)(at * 2u) * args.mul >> 32) >> args.shift,
                    chunk = at - row * args.row_chunks;
            raw[u].x = raw[u].y = raw[u].z = raw[u].w = 0u;
            if (at < total)
                raw[u] = rfg_load_chunk((const char *)args.x + row * args.ldx * RFG_DTYPE_BYTES(IN_DTYPE), chunk * 16u,
                                        args.n - (int)chunk * VEC, IN_DTYPE, WIDTH, false);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            float f[VEC];
            rfg_unpack(f, raw[u], IN_DTYPE);
            largest = rfg_max(largest, rfg_chunk_max(f, IN_DTYPE));
        }
    }
    largest = rfg_group_reduce(largest, part[0], WAVES, rfg_wave(), true);
    if (rfg_thread() == 0)
        rfg_store_float(all, rfg_group_x(), largest, RFG_F32);
    if (!rfg_last_to_arrive(args.counters, (int)groups, &flag))
        return;
    largest = 0.0f;
    for (rfg_u32 i = (rfg_u32)rfg_thread(); i < groups; i += THREADS)
        largest = rfg_max(largest, rfg_load_float(all, i, RFG_F32));
    largest = rfg_group_reduce(largest, part[1], WAVES, rfg_wave(), true);
    if (rfg_thread() == 0)
        store_scale(args.scale, 0, scale_of(largest, args.rule, false));
}
