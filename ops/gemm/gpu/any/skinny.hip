/* SPDX-License-Identifier: MIT
 *
 * gemm for few rows of X (M <= M_TILE <= 16): dot products. The weights are read once, 16 bytes a lane, ROWS rows of W
 * and UNROLL chunks in flight; X comes from the caches. Each wave of a workgroup works on the same ROWS rows of W and
 * on its share of k; the grid is (N / ROWS, split), and if split > 1 the last workgroup of a group of rows to arrive
 * adds the others' sums, in order.
 *
 * A grouped product's tiles of M_TILE rows are each such a product; the grid has those along n of one after the other.
 *
 * Budget of a lane's chunk: 16 bytes of each of ROWS rows of W, M_TILE chunks of X from the caches, W_VEC * ROWS * M_TILE
 * fma and the conversions. What binds is memory while M_TILE is small.
 *
 * Macros: those of load.h and epilogue.h, M_TILE (1, 2, 4, 8, 16), ROWS (1, 2, 4), WAVES, UNROLL, W_LATE (may be
 * missing: 0; scales of blocks multiply a chunk's sums, not its elements). ROWS * M_TILE <= 32.
 * Needs rows of X and W aligned to 16 bytes and K a multiple of W_VEC. */
#if W_LATE
#define SCALE_LATE 1
#endif
#include "rfg_device.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/experts.h"

#define THREADS (WAVES * RFG_WAVE)
#define X_PART  (SCALES == GEMM_SCALES_GROUPS ? 8 : X_VEC)
#define PARTS   (W_VEC / X_PART) /* chunks of X, of 16 bytes or 8 codes, that a chunk of W is multiplied with */
#define SUMS    (ROWS * M_TILE)
static_assert(PARTS * X_PART == W_VEC, "a chunk of W must be whole chunks of X");

/* Chunk c of the rows: loads first, then arithmetic. UNROLL chunks THREADS apart, those from `end` on count as zero. */
RFG_DEVICE void dot(const struct gemm_args *a, float *acc, const char *const *xp, const w_row *wp, int c, int end,
                    bool guarded)
{
    (void)a;
    w_chunk w[UNROLL][ROWS];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        int at = c + u * THREADS;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!guarded || at < end)
                w[u][r] = w_load(wp[r], at);
        }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        int at = c + u * THREADS;
        if (guarded && at >= end)
            continue;
#if SCALES == GEMM_SCALES_GROUPS
        float x_scale[M_TILE];
#pragma unroll
        for (int m = 0; m < M_TILE; m++)
            x_scale[m] = x_scale_of(a, m < a->m ? m : a->m - 1, at);
#endif
#if SCALE_LATE
        float sum[SUMS];
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            sum[i] = 0.0f;
#else
        float *sum = acc;
#endif
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            float wf[ROWS][X_PART];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                w_unpack(wf[r], w[u][r], part);
#pragma unroll
            for (int m = 0; m < M_TILE; m++) {
                if (m && m % 4 == 0)
                    rfg_keep_order(); /* or all of X would be loaded first, into registers that there aren't */
                float xf[X_PART];
                x_vector(xf, xp[m], at * PARTS + part);
#if SCALES == GEMM_SCALES_GROUPS
#pragma unroll
                for (int i = 0; i < X_PART; i++)
                    xf[i] *= x_scale[m];
#endif
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int i = 0; i < X_PART; i++)
                        sum[r * M_TILE + m] = rfg_fma(wf[r][i], xf[i], sum[r * M_TILE + m]);
            }
        }
#if SCALE_LATE
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            acc[i] = rfg_fma(sum[i], W_CHUNK_SCALE(w[u][i / M_TILE]), acc[i]);
#endif
    }
}

RFG_KERNEL(THREADS) gemm_skinny(struct gemm_args a)
{
    RFG_SHARED float part[WAVES][SUMS];
    RFG_SHARED rfg_u32 flag;
    int n0 = rfg_group_x() * ROWS;
    int splits = rfg_groups_y(), split = rfg_group_y();
    int chunks = a.k / W_VEC;
    int begin = rfg_share_begin(chunks, split, splits);
    int end = rfg_share_begin(chunks, split + 1, splits);

    rfg_start_next();
    rfg_await_previous();
#if BATCH
    take_batch(&a);
#endif
#if EXPERTS
    int groups_n = (a.n - 1) / ROWS + 1;
    if (!take_tile(&a, M_TILE, rfg_group_x() / groups_n))
        return;
    n0 = rfg_group_x() % groups_n * ROWS;
#endif
    /* Rows beyond the matrices repeat the last one: harmless, and their sums are not stored. */
    const char *xp[M_TILE];
    w_row wp[ROWS];
#pragma unroll
    for (int m = 0; m < M_TILE; m++)
        xp[m] = x_row(&a, m < a.m ? m : a.m - 1);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        wp[r] = w_row_of(&a, r < a.n - n0 ? n0 + r : a.n - 1);

    float acc[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        acc[i] = 0.0f;
    /* c counts this thread's first chunk; whole steps of the workgroup need no test. */
    int base = begin;
    for (; end - base >= UNROLL * THREADS; base += UNROLL * THREADS)
        dot(&a, acc, xp, wp, base + rfg_thread(), end, false);
    if (base < end)
        dot(&a, acc, xp, wp, base + rfg_thread(), end, true);

    float sum = rfg_wave_sum_scatter(acc, SUMS);
    if (rfg_lane() % (RFG_WAVE / SUMS) == 0)
        part[rfg_wave()][rfg_lane() / (RFG_WAVE / SUMS)] = sum;
    rfg_barrier();

    int i = rfg_thread(); /* from here on threads 0..SUMS-1 own one sum each */
    if (i < SUMS) {
        sum = part[0][i];
        for (int w = 1; w < WAVES; w++)
            sum += part[w][i];
    }
    if (splits > 1) {
        float *parts = (float *)a.workspace + (long long)rfg_group_x() * splits * SUMS;
        if (i < SUMS)
            rfg_store_float(parts, split * SUMS + i, sum, RFG_F32);
        if (!rfg_last_to_arrive(a.counters + rfg_group_x(), splits, &flag))
            return;
        if (i < SUMS) {
            sum = rfg_load_float(parts, i, RFG_F32);
            for (int s = 1; s < splits; s++)
                sum += rfg_load_float(parts, s * SUMS + i, RFG_F32);
        }
    }
    int r = i / M_TILE, m = i % M_TILE;
    store_lanes(&a, m, n0, r, sum, M_TILE, i < SUMS && m < a.m && r < a.n - n0);
}
