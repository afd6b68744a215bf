/* SPDX-License-Identifier: MIT
 *
 * gemm for few rows of X on matrix cores, with W and X brought to LDS by bulk copies: a wave of its own asks for whole
 * pieces of rows (PIECE elements along k), as many ahead as the ring holds, and the other waves multiply what has come. No
 * register and no load instruction is spent on bytes in flight, which are most of LDS.
 *
 * k is split as in direct.hip. SPLIT = 1: the grid may be smaller than the number of tiles; each workgroup then goes
 * through tiles in strides of the grid, and the ring runs on from one to the next.
 *
 * Macros: IN_DTYPE (X, W, bias: fp16 or bf16), OUT_DTYPE (Y), TILE_M (8, 16, 32, 64, 128), FRAGS_N, N_WAVES, K_WAVES,
 * PIECE (a multiple of 32 K_WAVES), STAGES, SPLIT, CLUSTER, PERSIST (several tiles a workgroup).
 * Grid: SPLIT neighbours for each tile, tiles along m first. Needs rows of X and W aligned to 16 bytes and K % 32 = 0. */
#include "rfg_device.h"
#include "rfg_gemm_args.h"
#include "gemm/epilogue.h"
#include "gemm/tile.h"

#define WAVES (N_WAVES * K_WAVES)
#define ROWS  (TILE_N + TILE_M)
/* Rows lie 16 bytes further in the banks than the row before: 8 rows of a chunk meet no conflict. */
#define PITCH      (PIECE / 8 + 1) /* chunks */
#define SLOT       (ROWS * PITCH)
#define RING       (STAGES * SLOT)
#define SUM_CHUNKS (K_WAVES * TILE_M * SUM_STRIDE / 4)
/* Sums take the ring's place when it has done its work. */
#define SUMS_AT (PERSIST ? RING : 0)
#define OWN_AT  (PERSIST || RING > SUM_CHUNKS ? RING : SUM_CHUNKS)

/* The workgroup's tile and range of k, in steps of 32. */
struct range {
    int tile, m0, n0, begin, end;
};

RFG_DEVICE struct range range_of(const struct gemm_args *a, int tile, int split)
{
    struct range r;
    int tiles_m = (a->m - 1) / TILE_M + 1, all = a->k / RFG_FRAG_K;
    r.tile = tile;
    r.m0 = tile % tiles_m * TILE_M;
    r.n0 = tile / tiles_m * TILE_N;
    r.begin = rfg_share_begin(all, split, SPLIT);
    r.end = rfg_share_begin(all, split + 1, SPLIT);
    return r;
}

#define PIECE_STEPS (PIECE / RFG_FRAG_K)

/* Rows of `bytes` from step `at` on, a lane each; to `rows` of a slot. */
RFG_DEVICE void copy_rows(rfg_u32x4 *slot, const void *base, long long ld, int row0, int rows, int at, int bytes,
                          rfg_u64 *full, bool once)
{
    for (int r = rfg_lane(); r < rows; r += RFG_WAVE)
        rfg_bulk_copy(slot + r * PITCH, (const char *)base + ((row0 + r) * ld + (long long)at * RFG_FRAG_K) * 2, bytes,
                      full, once);
}

RFG_DEVICE int min_of(int a, int b)
{
    return a < b ? a : b;
}

RFG_DEVICE void copy_all(const struct gemm_args *a, rfg_u64 *full, rfg_u64 *empty, int tile, int tiles, int step,
                         int split)
{
    int slot = 0, phase = 1; /* of `empty`: a slot that was never used is free */
    bool first = true;
    for (; tile < tiles; tile += step) {
        struct range r = range_of(a, tile, split);
        int rows_n = min_of(TILE_N, a->n - r.n0), rows_m = min_of(TILE_M, a->m - r.m0);
        for (int at = r.begin; at < r.end;) {
            /* Before the first wait for what kernels write, all of the ring's W is asked for. */
            int burst = first ? STAGES : 1, slot0 = slot, at0 = at;
            for (int i = 0; i < burst && at < r.end; i++, at += PIECE_STEPS) {
                int bytes = min_of(PIECE_STEPS, r.end - at) * (RFG_FRAG_K * 2);
                if (!first)
                    rfg_mbarrier_wait(empty + slot, phase);
                if (rfg_lane() == 0)
                    rfg_mbarrier_expect(full + slot, (rows_n + rows_m) * bytes);
                rfg_wave_sync();
                copy_rows(rfg_lds + slot * SLOT, a->w, a->ldw, r.n0, rows_n, at, bytes, full + slot, true);
                if (!first)
                    copy_rows(rfg_lds + slot * SLOT + TILE_N * PITCH, a->x, a->ldx, r.m0, rows_m, at, bytes,
                              full + slot, false);
                if (++slot == STAGES) {
                    slot = 0;
                    phase ^= 1;
                }
            }
            if (first) {
                rfg_await_previous();
                for (int s = slot0; at0 < at; at0 += PIECE_STEPS, s++) {
                    int bytes = min_of(PIECE_STEPS, r.end - at0) * (RFG_FRAG_K * 2);
                    copy_rows(rfg_lds + s * SLOT + TILE_N * PITCH, a->x, a->ldx, r.m0, rows_m, at0, bytes, full + s,
                              false);
                }
                first = false;
            }
        }
    }
}

#if CLUSTER
RFG_KERNEL_CLUSTER(THREADS + RFG_WAVE, SPLIT)
#else
RFG_KERNEL(THREADS + RFG_WAVE)
#endif
gemm_bulk_mma(struct gemm_args a)
{
    RFG_SHARED rfg_u64 full[STAGES], empty[STAGES];
    rfg_start_next();
    if (rfg_thread() == 0) {
        for (int i = 0; i < STAGES; i++) {
            rfg_mbarrier_init(full + i, 1);
            rfg_mbarrier_init(empty + i, WAVES);
        }
        rfg_mbarrier_init_done();
    }
    rfg_barrier();
#if CLUSTER
    rfg_cluster_arrive();
#endif
    int split = SPLIT == 1 ? 0 : rfg_group_x() % SPLIT, tile = rfg_group_x() / SPLIT;
    int tiles = ((a.m - 1) / TILE_M + 1) * ((a.n - 1) / TILE_N + 1);
    int step = PERSIST ? rfg_groups_x(THREADS + RFG_WAVE) : tiles;
    int wave = rfg_wave(), n_wave = wave % N_WAVES, k_wave = wave / N_WAVES;
    if (wave == WAVES) {
        copy_all(&a, full, empty, tile, tiles, step, split);
#if CLUSTER /* the barriers below are all threads' */
        rfg_cluster_wait();
        rfg_cluster_arrive();
        rfg_cluster_wait();
#endif
        return;
    }

    /* This lane's rows and chunk of 8x8 matrices: of W two below each other, then the next chunk's; of X four chunks. */
    int lane = rfg_lane();
    int w_at = (n_wave * FRAGS_N * 16 + lane % 16) * PITCH + lane / 16;
    int x_at = (TILE_N + lane % 8) * PITCH + lane / 8;
    int slot = 0, phase = 0;
    for (; tile < tiles; tile += step) {
        struct range r = range_of(&a, tile, split);
        rfg_frag_wx acc[FRAGS_N][FRAGS_M];
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_WX; e++)
                    acc[j][i].v[e] = 0.0f;
#pragma unroll 1
        for (int at = r.begin; at < r.end; at += PIECE_STEPS) {
            const rfg_u32x4 *lds = rfg_lds + slot * SLOT;
            rfg_mbarrier_wait(full + slot, phase);
#pragma unroll
            for (int s = 0; s < PIECE_STEPS / K_WAVES; s++) {
                int k = s * K_WAVES + k_wave;
                if (at + k < r.end) {
                    rfg_u32x4 x[FRAGS_M], w[FRAGS_N][2];
#pragma unroll
                    for (int i = 0; i < FRAGS_M; i++)
                        x[i] = rfg_load_matrices(lds + x_at + i * 8 * PITCH + k * 4);
#pragma unroll
                    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
                        for (int h = 0; h < 2; h++)
                            w[j][h] = rfg_load_matrices(lds + w_at + j * 16 * PITCH + k * 4 + h * 2);
#pragma unroll
                    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
                        for (int i = 0; i < FRAGS_M; i++) {
                            rfg_mma_16x8x16(acc[j][i].v, w[j][0], x[i].x, x[i].y, IN_DTYPE);
                            rfg_mma_16x8x16(acc[j][i].v, w[j][1], x[i].z, x[i].w, IN_DTYPE);
                        }
                }
            }
            rfg_wave_sync();
            if (lane == 0)
                rfg_mbarrier_arrive(empty + slot);
            if (++slot == STAGES) {
                slot = 0;
                phase ^= 1;
            }
        }

        float *sums = (float *)(rfg_lds + SUMS_AT);
        rfg_barrier_some(1, THREADS); /* all have read the ring, or the last tile's sums */
        put_sums(sums, acc, n_wave, k_wave);
        rfg_barrier_some(1, THREADS);
#if CLUSTER
        rfg_cluster_wait();
#endif
        finish_tile(&a, sums, (float *)(rfg_lds + OWN_AT), tile, split, r.m0, r.n0, rfg_thread());
    }
}
