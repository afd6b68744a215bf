/* SPDX-License-Identifier: MIT
 *
 * What tuner/calibrate.c times to learn a device's numbers. All in workgroups of THREADS; one compile. */
#include "rfg_device.h"
#include "calibrate/calibrate_args.h"

#define THREADS  CALIBRATE_THREADS
#define UNROLL   CALIBRATE_UNROLL
#define COUNTERS CALIBRATE_COUNTERS

/* A launch, a load of what the launch before has stored, a store. */
RFG_KERNEL(THREADS) calibrate_empty(struct calibrate_args a)
{
    rfg_start_next();
    rfg_await_previous();
    rfg_u32 *p = a.out + (long long)rfg_group_x() * THREADS + rfg_thread();
    rfg_store4(p, rfg_load4(p) + 1);
}

/* Each workgroup reads `times` slices, every time those of others: nothing is in its CU's own cache. */
RFG_KERNEL(THREADS) calibrate_read(struct calibrate_args a)
{
    rfg_u32 sum = 0;
    rfg_start_next();
    rfg_await_previous();
    for (int t = 0; t < a.times; t++) {
        int slice = (rfg_group_x() + t * 17) % a.groups;
        const char *p = a.data + ((long long)slice * a.n + rfg_thread()) * 16;
        for (int c = 0; c < a.n; c += UNROLL * THREADS) {
            rfg_u32x4 v[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                v[u] = rfg_load16(p + ((long long)c + u * THREADS) * 16);
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                sum |= v[u].x | v[u].y | v[u].z | v[u].w;
        }
    }
    if (sum) /* never: but who compiles doesn't know */
        rfg_store4(a.out + rfg_thread(), sum);
}

/* Loads that each wait for the one before: where to is only known with its data (always 0). A launch goes on where the
 * last one stopped, or it would find its lines in the cache. */
RFG_KERNEL(THREADS) calibrate_chase(struct calibrate_args a)
{
    rfg_start_next();
    rfg_await_previous();
    if (rfg_thread() == 0) {
        rfg_u32 *state = a.counters + COUNTERS - 1;
        rfg_u32 at = rfg_load4(state), sum = 0;
        for (int i = 0; i < a.n; i++) {
            rfg_u32 v = rfg_load4(a.data + (at & a.mask & ~127u));
            at = at * 1664525u + 1013904223u + v;
            at ^= at >> 13;
            sum |= v;
        }
        rfg_store4(state, at + sum);
    }
}

/* calibrate_empty with a cross-workgroup reduction in it: `times` workgroups write a partial sum each, the last to
 * arrive adds them. */
RFG_KERNEL(THREADS) calibrate_reduce(struct calibrate_args a)
{
    RFG_SHARED rfg_u32 flag;
    rfg_start_next();
    rfg_await_previous();
    int tile = rfg_group_x() / a.times, part = rfg_group_x() % a.times;
    rfg_u32 *parts = a.out + (long long)tile * a.times * THREADS + rfg_thread();
    rfg_store4(parts + part * THREADS, rfg_load4(parts + part * THREADS) + 1);
    if (!rfg_last_to_arrive(a.counters + tile, a.times, &flag))
        return;
    rfg_u32 sum = 0;
    for (int i = 0; i < a.times; i++)
        sum += rfg_load4(parts + i * THREADS);
    rfg_store4(parts, sum);
}
