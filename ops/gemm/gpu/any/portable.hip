/* SPDX-License-Identifier: MIT
 *
 * gemm for every GPU and every problem: any shape, stride and alignment, K = 0, W prepacked or not, fp32 FMA. Simple
 * and right.
 *
 * Macros: those of load.h and epilogue.h, TILE_M (16 or 64), PREPACKED (W is). A workgroup of 256 threads computes
 * tiles of TILE_M x 64, each thread TILE_M / 16 rows by 4 columns; tiles beyond the grid are taken in strides of the
 * grid; not of grouped products, whose grid has all. With SLOTS the last workgroup of a column of tiles sums its rows
 * by token: slots.h. */
#include "rfg_device.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/experts.h"
#include "gemm/gpu/any/slots.h"

#define THREADS 256
#define TILE_N  64
#define TILE_K  16
#define MY_M    (TILE_M / 16)
#define MY_N    (TILE_N / 16)

/* rows x TILE_K elements from row0, k0 of X or W, which has n_rows rows, to LDS, k-major; zeroes outside. */
RFG_DEVICE void load_tile(float *lds, int rows, const struct gemm_args *a, bool of_w, int row0, int n_rows, int k0)
{
    for (int i = rfg_thread(); i < rows * TILE_K; i += THREADS) {
        int row = i / TILE_K, kk = i % TILE_K;
        bool in = row < n_rows - row0 && kk < a->k - k0;
        lds[kk * (rows + 1) + row] = !in    ? 0.0f
                                     : of_w ? w_element(a, row0 + (long long)row, k0 + kk, PREPACKED)
                                            : x_element(a, row0 + (long long)row, k0 + kk);
    }
}

/* Of the tile: column j of the thread's. A gated activation wants neighbours in one thread. */
#define COLUMN(j) (GATED ? (j) / 2 * 32 + tx * 2 + (j) % 2 : tx + 16 * (j))

RFG_KERNEL(THREADS) gemm_portable(struct gemm_args given)
{
    struct gemm_args a = given; /* NVRTC 13.0 takes a copy of what is changed later for the same */
#if BATCH
    take_batch(&a);
#endif
#if SLOTS
    a.y = a.workspace; /* where rows of the product stay */
#endif
    RFG_SHARED float xs[TILE_K * (TILE_M + 1)];
    RFG_SHARED float ws[TILE_K * (TILE_N + 1)];
    int tx = rfg_thread() % 16, ty = rfg_thread() / 16;
    int tiles_m = (a.m - 1) / TILE_M + 1, tiles_n = (a.n - 1) / TILE_N + 1;
    long long first = rfg_group_x(), tiles, step;

    rfg_start_next();
    rfg_await_previous();
#if EXPERTS /* one tile of its expert's */
    bool there = take_tile(&a, TILE_M, (int)(first / tiles_n));
    if (!SLOTS && !there)
        return;
    first %= tiles_n;
    tiles_m = 1;
    step = tiles_n;
    tiles = SLOTS && !there ? 0 : tiles_n;
#else
    tiles = (long long)tiles_m * tiles_n;
    step = rfg_groups_x(THREADS);
#endif
    for (long long tile = first; tile < tiles; tile += step) {
        int m0 = (int)(tile % tiles_m) * TILE_M, n0 = (int)(tile / tiles_m) * TILE_N;
        float acc[MY_M][MY_N];
#pragma unroll
        for (int i = 0; i < MY_M; i++)
#pragma unroll
            for (int j = 0; j < MY_N; j++)
                acc[i][j] = 0.0f;

        /* k0 stays below k, so that k0 += TILE_K can't overflow before it is compared. */
        for (int left = a.k, k0 = 0; left > 0; left -= TILE_K, k0 += TILE_K) {
            load_tile(xs, TILE_M, &a, false, m0, a.m, k0);
            load_tile(ws, TILE_N, &a, true, n0, a.n, k0);
            rfg_barrier();
#pragma unroll
            for (int kk = 0; kk < TILE_K; kk++) {
#pragma unroll
                for (int i = 0; i < MY_M; i++)
#pragma unroll
                    for (int j = 0; j < MY_N; j++)
                        acc[i][j] =
                            rfg_fma(xs[kk * (TILE_M + 1) + ty + 16 * i], ws[kk * (TILE_N + 1) + COLUMN(j)], acc[i][j]);
            }
            rfg_barrier();
        }

#pragma unroll
        for (int j = 0; j < MY_N; j++) {
            int dn = COLUMN(j);
            if (dn >= a.n - n0)
                continue;
            if (GATED) {
#pragma unroll
                for (int i = 0; i < MY_M; i++)
                    if (j % 2 == 0 && ty + 16 * i < a.m - m0)
                        store_gated(&a, (long long)m0 + ty + 16 * i, n0 + dn, acc[i][j], acc[i][(j + 1) % MY_N]);
                continue;
            }
            float bias = finishes(&a) ? column_bias(&a, n0 + dn) : 0.0f;
#pragma unroll
            for (int i = 0; i < MY_M; i++) {
                int dm = ty + 16 * i;
                if (dm < a.m - m0)
                    store_y(&a, (m0 + (long long)dm) * (SLOTS ? GEMM_LDY(&a) : a.ldy) + n0 + dn,
                            finish_with(&a, m0 + (long long)dm, n0 + (long long)dn, acc[i][j], bias));
            }
        }
    }
#if SLOTS /* a tile that no expert has arrives, too: their number is the grid's */
    RFG_SHARED rfg_u32 flag;
    if (rfg_last_to_arrive(given.counters + first, rfg_groups_x(THREADS) / tiles_n, &flag))
        sum_columns(&given, (int)first * TILE_N, TILE_N, rfg_thread(), THREADS);
#endif
}
