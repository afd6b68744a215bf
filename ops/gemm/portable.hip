/* SPDX-License-Identifier: MIT
 *
 * gemm_portable: any size, stride and alignment, on anything. 256 threads compute a TILE x TILE block of Y from slices of X
 * and W that LDS holds as fp32. Macros: DT_IN, DT_OUT, TILE (16, 32 or 64). */
#include "rfg_device.h"
#include "rfg_gemm_args.h"

#define THREADS 256
#define SLICE   16            /* of k in LDS */
#define PER     (TILE / 16)   /* outputs a thread, in each direction */
#define LD      (TILE + 1)    /* one column of padding: reads down a column hit all banks */

RFG_FN void fill(float *lds, const void *src, long long ld, int row0, int rows, int k0, int k)
{
    for (int i = rfg_tid(); i < TILE * SLICE; i += THREADS) {
        int r = i / SLICE, c = i % SLICE;
        bool in = row0 + r < rows && k0 + c < k;
        lds[c * LD + r] = in ? rfg_get(src, (long long)(row0 + r) * ld + k0 + c, DT_IN) : 0.0f;
    }
}

RFG_KERNEL(THREADS) gemm_portable(struct gemm_args a)
{
    float *xs = (float *)rfg_lds, *ws = xs + SLICE * LD;
    int n0 = rfg_group_x() * TILE, m0 = rfg_group_y() * TILE;
    int tn = rfg_tid() % 16, tm = rfg_tid() / 16;
    float acc[PER][PER];
#pragma unroll
    for (int i = 0; i < PER; i++)
#pragma unroll
        for (int j = 0; j < PER; j++)
            acc[i][j] = 0;

    for (int k0 = 0; k0 < a.k; k0 += SLICE) {
        rfg_barrier();
        fill(xs, a.x, a.ldx, m0, a.m, k0, a.k);
        fill(ws, a.w, a.ldw, n0, a.n, k0, a.k);
        rfg_barrier();
#pragma unroll
        for (int c = 0; c < SLICE; c++)
#pragma unroll
            for (int i = 0; i < PER; i++)
#pragma unroll
                for (int j = 0; j < PER; j++)
                    acc[i][j] = rfg_fma(xs[c * LD + tm + 16 * i], ws[c * LD + tn + 16 * j], acc[i][j]);
    }

#pragma unroll
    for (int i = 0; i < PER; i++)
#pragma unroll
        for (int j = 0; j < PER; j++) {
            int m = m0 + tm + 16 * i, n = n0 + tn + 16 * j;
            if (m < a.m && n < a.n)
                rfg_put(a.y, m * a.ldy + n, acc[i][j] + (a.bias ? rfg_get(a.bias, n, DT_IN) : 0.0f), DT_OUT);
        }
}
