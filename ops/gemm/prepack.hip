/* SPDX-License-Identifier: MIT
 *
 * W[N,K], 16-bit elements, rearranged to [N/16][K/32][4][16][8]. Each thread moves UNROLL chunks of 16 bytes, THREADS
 * apart, in the order in which they are stored: writes are whole lines, reads are 64 bytes of each of 16 rows. The grid
 * may be smaller than that: it is gone through in strides of the grid.
 *
 * It does not let the next launch begin early: what it writes are weights, which kernels may fetch before they wait.
 *
 * Macros: THREADS, UNROLL. */
#include "rfg_device.h"
#include "gemm/prepack_args.h"

#define BLOCK_CHUNKS 64 /* 16 rows x 4 */

RFG_KERNEL(THREADS) gemm_prepack(struct prepack_args a)
{
    rfg_u32 across = (rfg_u32)a.k / 32;
    long long total = (long long)a.n / 16 * across * BLOCK_CHUNKS;
    long long step = (long long)rfg_groups_x(THREADS) * (THREADS * UNROLL);
    rfg_await_previous();
    for (long long base = (long long)rfg_group_x() * (THREADS * UNROLL); base < total; base += step) {
        rfg_u32x4 v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            long long at = base + u * THREADS + rfg_thread();
            rfg_u32 block = (rfg_u32)(at / BLOCK_CHUNKS), in = (rfg_u32)(at % BLOCK_CHUNKS);
            rfg_u32 down = block / across, column = (block - down * across) * 32 + in / 16 * 8;
            if (at < total)
                v[u] = rfg_load16_stream((const char *)a.src + ((down * 16ll + in % 16) * a.ld + column) * 2);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            long long at = base + u * THREADS + rfg_thread();
            if (at < total)
                rfg_store16((char *)a.dst + at * 16, v[u]);
        }
    }
}
