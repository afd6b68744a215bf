/* SPDX-License-Identifier: MIT
 *
 * gemm for every GPU and every problem: any shape, stride and alignment, K = 0, W prepacked or not, fp32 FMA. Simple and right.
 *
 * Macros: IN_DTYPE (X, W, bias), OUT_DTYPE (Y), TILE_M (16 or 64), PREPACKED (W is). A workgroup of 256 threads computes tiles of TILE_M x
 * 64, each thread TILE_M / 16 rows by 4 columns; tiles beyond the grid are taken in strides of the grid. */
#include "rfg_device.h"
#include "rfg_gemm_args.h"

#define THREADS 256
#define TILE_N  64
#define TILE_K  16
#define MY_M    (TILE_M / 16)
#define MY_N    (TILE_N / 16)

/* Element k of a row of a matrix; packed: as rfg_gemm_prepack() leaves it, with ld columns. */
RFG_DEVICE long long place(long long row, int k, long long ld, int packed)
{
    return packed ? row / 16 * 16 * ld + k / 32 * 512 + k % 32 / 8 * 128 + row % 16 * 8 + k % 8 : row * ld + k;
}

/* rows x TILE_K elements from row0, k0 of a matrix to LDS, k-major; zeroes outside. */
RFG_DEVICE void load_tile(float *lds, int rows, const void *base, long long ld, int row0, int n_rows, int k0, int k,
                          int packed)
{
    for (int i = rfg_thread(); i < rows * TILE_K; i += THREADS) {
        int row = i / TILE_K, kk = i % TILE_K;
        bool in = row < n_rows - row0 && kk < k - k0;
        lds[kk * (rows + 1) + row] =
            in ? rfg_load_float(base, place(row0 + (long long)row, k0 + kk, ld, packed), IN_DTYPE) : 0.0f;
    }
}

RFG_KERNEL(THREADS) gemm_portable(struct gemm_args a)
{
    RFG_SHARED float xs[TILE_K * (TILE_M + 1)];
    RFG_SHARED float ws[TILE_K * (TILE_N + 1)];
    int tx = rfg_thread() % 16, ty = rfg_thread() / 16;
    int tiles_m = (a.m - 1) / TILE_M + 1, tiles_n = (a.n - 1) / TILE_N + 1;
    long long tiles = (long long)tiles_m * tiles_n;

    rfg_start_next();
    rfg_await_previous();
    for (long long tile = rfg_group_x(); tile < tiles; tile += rfg_groups_x(THREADS)) {
        int m0 = (int)(tile % tiles_m) * TILE_M, n0 = (int)(tile / tiles_m) * TILE_N;
        float acc[MY_M][MY_N];
#pragma unroll
        for (int i = 0; i < MY_M; i++)
#pragma unroll
            for (int j = 0; j < MY_N; j++)
                acc[i][j] = 0.0f;

        /* k0 stays below k, so that k0 += TILE_K can't overflow before it is compared. */
        for (int left = a.k, k0 = 0; left > 0; left -= TILE_K, k0 += TILE_K) {
            load_tile(xs, TILE_M, a.x, a.ldx, m0, a.m, k0, a.k, 0);
            load_tile(ws, TILE_N, a.w, a.ldw, n0, a.n, k0, a.k, PREPACKED);
            rfg_barrier();
#pragma unroll
            for (int kk = 0; kk < TILE_K; kk++) {
#pragma unroll
                for (int i = 0; i < MY_M; i++)
#pragma unroll
                    for (int j = 0; j < MY_N; j++)
                        acc[i][j] = rfg_fma(xs[kk * (TILE_M + 1) + ty + 16 * i], ws[kk * (TILE_N + 1) + tx + 16 * j],
                                            acc[i][j]);
            }
            rfg_barrier();
        }

#pragma unroll
        for (int j = 0; j < MY_N; j++) {
            int dn = tx + 16 * j;
            if (dn >= a.n - n0)
                continue;
            float bias = a.bias ? rfg_load_float(a.bias, n0 + dn, IN_DTYPE) : 0.0f;
#pragma unroll
            for (int i = 0; i < MY_M; i++) {
                int dm = ty + 16 * i;
                if (dm < a.m - m0)
                    rfg_store_float(a.y, (m0 + (long long)dm) * a.ldy + n0 + dn, acc[i][j] + bias, OUT_DTYPE);
            }
        }
    }
}
