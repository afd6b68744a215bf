/* SPDX-License-Identifier: MIT
 *
 * gemm for few rows of X on matrix cores, with W and X straight from memory to registers: no LDS, no barrier until all is
 * multiplied. A wave takes FRAGS_N x 16 rows of W, and every K_WAVES-th step of 32 along k of its workgroup's range; its
 * first UNROLL steps are under way before anything is waited for, and each is asked for again as soon as it is used. At
 * best all of a problem's weights are in flight at once.
 *
 * k is split across K_WAVES waves, whose sums meet in LDS, and across SPLIT workgroups:
 *   CLUSTER = 1  a cluster: each writes its sums into the LDS of the workgroup that a quad of Y belongs to
 *   CLUSTER = 0  through the workspace; the last to arrive adds them
 * always in the order of the splits: the same bits whoever is last.
 *
 * Macros: IN_DTYPE (X, W, bias: fp16 or bf16), OUT_DTYPE (Y), TILE_M (8, 16, 32, 64), FRAGS_N, N_WAVES, K_WAVES, UNROLL,
 * SPLIT, CLUSTER, EXACT (all waves have the same number of steps, a multiple of UNROLL), TAIL (K % 32 != 0), PREPACKED (W is).
 * Grid: SPLIT neighbours for each tile, tiles along m first. Needs rows of X and W aligned to 16 bytes and K % 8 = 0. */
#include "rfg_device.h"
#include "rfg_gemm_args.h"
#include "gemm/epilogue.h"
#include "gemm/tile.h"


/* One step of a wave. */
struct step {
    rfg_frag_ab w[FRAGS_N];
    rfg_frag_x x[FRAGS_M];
};

/* The lane's pieces of step 0. */
struct place {
    const char *w[FRAGS_N][RFG_FRAG_AB], *x[FRAGS_M][RFG_FRAG_X];
    int chunks; /* of 16 bytes in a row */
};

RFG_DEVICE bool there(const struct place *p, int step, int i)
{
    return !TAIL || step * RFG_FRAG_CHUNKS + rfg_frag_chunk(i) < p->chunks;
}

RFG_DEVICE void load_w(struct step *s, const struct place *p, int step)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++) {
            if (TAIL)
                s->w[j].v[i].x = s->w[j].v[i].y = s->w[j].v[i].z = s->w[j].v[i].w = 0;
            if (there(p, step, i))
                s->w[j].v[i] = rfg_load16_stream(p->w[j][i] + (long long)step * GEMM_W_STEP);
        }
}

RFG_DEVICE void load_x(struct step *s, const struct place *p, int step)
{
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_X; i++) {
            if (TAIL)
                s->x[j].v[i].x = s->x[j].v[i].y = s->x[j].v[i].z = s->x[j].v[i].w = 0;
            if (there(p, step, i))
                s->x[j].v[i] = rfg_load16(p->x[j][i] + (long long)step * (RFG_FRAG_K * 2));
        }
}

#if CLUSTER
RFG_KERNEL_CLUSTER(THREADS, SPLIT)
#else
RFG_KERNEL(THREADS)
#endif
gemm_direct_mma(struct gemm_args a)
{
    rfg_start_next();
#if CLUSTER
    rfg_cluster_arrive();
#endif
    int wave = rfg_wave(), n_wave = wave % N_WAVES, k_wave = wave / N_WAVES;
    int split = SPLIT == 1 ? 0 : rfg_group_x() % SPLIT, tile = rfg_group_x() / SPLIT;
    int tiles_m = (a.m - 1) / TILE_M + 1;
    int m0 = tile % tiles_m * TILE_M, n0 = tile / tiles_m * TILE_N;
    int all = (a.k - 1) / RFG_FRAG_K + 1;
    int step = rfg_share_begin(all, split, SPLIT) + k_wave, end = rfg_share_begin(all, split + 1, SPLIT);

    /* Rows beyond the matrices repeat the last one: harmless, and their sums are not stored. */
    struct place p;
    p.chunks = a.k / 8;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++) {
            int n = n0 + (n_wave * FRAGS_N + j) * 16 + rfg_frag_row(i);
            p.w[j][i] = GEMM_W_CHUNK(&a, n < a.n ? n : a.n - 1, rfg_frag_chunk(i));
        }
#pragma unroll
    for (int j = 0; j < FRAGS_M; j++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_X; i++) {
            int m = m0 + j * RFG_FRAG_X_ROWS + rfg_frag_row(i);
            p.x[j][i] = (const char *)a.x + (m < a.m ? m : a.m - 1) * GEMM_LDX(&a) * 2 + rfg_frag_chunk(i) * 16;
        }

    struct step ring[UNROLL];
    rfg_frag_wx acc[FRAGS_N][FRAGS_M];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (EXACT || step + u * K_WAVES < end)
            load_w(&ring[u], &p, step + u * K_WAVES);
    rfg_await_previous();
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (EXACT || step + u * K_WAVES < end)
            load_x(&ring[u], &p, step + u * K_WAVES);
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++)
                acc[j][i].v[e] = 0.0f;
#pragma unroll 1
    for (; step < end; step += UNROLL * K_WAVES) {
        bool more = step + UNROLL * K_WAVES < end;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (EXACT || step + u * K_WAVES < end) {
#pragma unroll
                for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
                    for (int i = 0; i < FRAGS_M; i++)
                        rfg_frag_mma_wx(&acc[j][i], &ring[u].w[j], &ring[u].x[i], IN_DTYPE);
            }
            int next = step + (u + UNROLL) * K_WAVES;
            if (EXACT ? more : next < end) {
                load_w(&ring[u], &p, next);
                load_x(&ring[u], &p, next);
            }
        }
    }

    float *sums = (float *)rfg_lds;
    put_sums(sums, acc, n_wave, k_wave);
    rfg_barrier();
#if CLUSTER
    rfg_cluster_wait();
#endif
    finish_tile(&a, sums, sums + K_WAVES * TILE_M * SUM_STRIDE, tile, split, m0, n0, rfg_thread());
}
