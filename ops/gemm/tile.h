/* SPDX-License-Identifier: MIT
 *
 * A workgroup's tile of Y where k is split across K_WAVES waves of a workgroup and SPLIT workgroups: its shape, and the
 * way from the waves' accumulators to Y. Macros: see direct.hip. */
#define THREADS (N_WAVES * K_WAVES * RFG_WAVE) /* that multiply */
#define TILE_N  (N_WAVES * FRAGS_N * 16)
#define FRAGS_M ((TILE_M + RFG_FRAG_X_ROWS - 1) / RFG_FRAG_X_ROWS)
#define QUADS   (TILE_M * TILE_N / 4)
/* Sums in LDS: K_WAVES times TILE_M rows, padded against bank conflicts. */
#define SUM_STRIDE (TILE_N + 4)
/* 4 quads in a row, 32 or 64 bytes of Y, belong to one workgroup of a cluster. */
#define OWN_QUADS ((QUADS / 4 + SPLIT - 1) / SPLIT * 4)

/* A wave's accumulators to LDS, as rows of Y. */
RFG_DEVICE void put_sums(float *sums, rfg_frag_wx (*acc)[FRAGS_M], int n_wave, int k_wave)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_WX; e++) {
                int row = i * RFG_FRAG_X_ROWS + rfg_frag_c_col(e);
                int col = (n_wave * FRAGS_N + j) * 16 + rfg_frag_c_row(e);
                if (TILE_M % RFG_FRAG_X_ROWS == 0 || row < TILE_M)
                    sums[(k_wave * TILE_M + row) * SUM_STRIDE + col] = acc[j][i].v[e];
            }
}

/* Adds the waves' sums and those of the other splits, in their order, and stores the tile from row m0 and column n0 of
 * Y on. own_lds: SPLIT * OWN_QUADS quads of LDS that a cluster's workgroups write to at any time. Called by THREADS
 * threads (t of them) which see all sums; in a cluster, after rfg_cluster_wait(). */
RFG_DEVICE void finish_tile(const struct gemm_args *a, float *sums, float *own_lds, int tile, int split, int m0, int n0,
                            int t)
{
    int rows = a->m - m0 < TILE_M ? a->m - m0 : TILE_M;
    int quads = rows * (TILE_N / 4); /* rows that don't exist are not worth a trip */
    float *parts = (float *)a->workspace + (long long)tile * SPLIT * (TILE_M * TILE_N);
    rfg_f32x4 *own = (rfg_f32x4 *)own_lds;
    (void)parts, (void)own, (void)split;
#pragma unroll 1
    for (int q = t; q < quads; q += THREADS) {
        int row = q / (TILE_N / 4), col = q % (TILE_N / 4) * 4;
        rfg_f32x4 sum = *(const rfg_f32x4 *)(sums + row * SUM_STRIDE + col);
#pragma unroll
        for (int w = 1; w < K_WAVES; w++)
            sum = rfg_add_f32x4(sum, *(const rfg_f32x4 *)(sums + (w * TILE_M + row) * SUM_STRIDE + col));
#if CLUSTER
        rfg_cluster_store16(own + split * OWN_QUADS + q / (4 * SPLIT) * 4 + q % 4, q / 4 % SPLIT, sum);
#else
        if (SPLIT > 1)
            rfg_store_f32x4(parts + (long long)split * (TILE_M * TILE_N) + q * 4, sum);
        else if (col < a->n - n0)
            store_quad(a, (long long)m0 + row, n0 + col, sum);
#endif
    }
#if CLUSTER
    rfg_cluster_arrive();
    rfg_cluster_wait();
#pragma unroll 1
    for (int l = t; l < OWN_QUADS; l += THREADS) {
        int q = (l / 4 * SPLIT + split) * 4 + l % 4;
        int row = q / (TILE_N / 4), col = q % (TILE_N / 4) * 4;
        if (q >= quads || col >= a->n - n0)
            continue;
        rfg_f32x4 sum = own[l];
#pragma unroll
        for (int s = 1; s < SPLIT; s++)
            sum = rfg_add_f32x4(sum, own[s * OWN_QUADS + l]);
        store_quad(a, (long long)m0 + row, n0 + col, sum);
    }
#else
    /* The flag takes the place of sums[0]: everybody has passed the barrier inside before it is written. */
    if (SPLIT > 1 && rfg_last_to_arrive(a->counters + tile, SPLIT, (rfg_u32 *)sums))
        store_parts(a, parts, SPLIT, TILE_M * TILE_N, quads, THREADS, TILE_N, m0, n0);
#endif
}
