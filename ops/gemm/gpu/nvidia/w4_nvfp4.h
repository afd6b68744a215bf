/* SPDX-License-Identifier: MIT
 *
 * gemm_w4_mma's step of nvfp4: codes are multiplied by their scales as they become fragments, exactly, and fragments add
 * up to sums that need no scale. A word of a lane is eight columns of one group. */

/* Fragment h of two rows, of which the lane has chunk lane % 4, of block n. */
RFG_DEVICE void decode_rows(rfg_u32x4 *rows, const rfg_u32x4 *w, const char *stage, int n, int h)
{
    const char *at = stage + SCALES_AT + n * GROUP_SCALES + rfg_lane() / 4 +
                     (W_GROUP_IN(h) + W_GROUP_OF_CHUNK(rfg_lane() % 4)) * PREPACK_ROWS;
#pragma unroll
    for (int i = 0; i < 2; i++)
        rows[i] = w_decode_by(w_word(w[i], h), w_scale_at(at, i * 8));
}

RFG_DEVICE void load_rows(rfg_u32x4 *w, const char *stage, int n)
{
    int row = rfg_lane() / 4, chunk = rfg_lane() % 4;
    const char *at = stage + n * 1024 + chunk * 256 + (row * 16 ^ chunk * 32);
    w[0] = *(const rfg_u32x4 *)at;
    w[1] = *(const rfg_u32x4 *)(at + 128); /* eight rows on: the same bits otherwise */
}

#if WGMMA
/* Adds a step of block n. */
RFG_DEVICE void multiply_block(float (*d)[4], const char *stage, int n)
{
    rfg_u32x4 w[2];
    rfg_u32 v[W_STEPS][2][4];
    load_rows(w, stage, n);
#pragma unroll
    for (int h = 0; h < W_STEPS; h++) {
        rfg_u32x4 rows[2];
        decode_rows(rows, w, stage, n, h);
        v[h][0][0] = rows[0].x;
        v[h][0][1] = rows[1].x;
        v[h][0][2] = rows[0].y;
        v[h][0][3] = rows[1].y;
        v[h][1][0] = rows[0].z;
        v[h][1][1] = rows[1].z;
        v[h][1][2] = rows[0].w;
        v[h][1][3] = rows[1].w;
    }
    rfg_u64 x = rfg_wg_rows(stage + X_AT);
    rfg_wg_fence();
#pragma unroll
    for (int h = 0; h < W_STEPS; h++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            rfg_wg_mma_a(TILE_M, &d[0][0], v[h][i], x + h / 2 * (TILE_M * 8) + (h % 2 * 2 + i) * 2, true, IN_DTYPE);
    rfg_wg_commit();
    rfg_wg_wait(0);
    rfg_wg_settle(&d[0][0], FRAGS_M * 4);
}
#else
/* Adds a step. n: the wave's first block. */
RFG_DEVICE void multiply(float (*d)[FRAGS_M][4], const char *stage, int n)
{
    int row = rfg_lane() / 4, chunk = rfg_lane() % 4;
    const char *x_at = stage + X_AT + row * 256;
    rfg_u32x4 w[FRAGS_N][2];
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        load_rows(w[j], stage, n + j);
#pragma unroll
    for (int h = 0; h < W_STEPS; h++) {
        rfg_u32x4 x[FRAGS_M];
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
            x[i] = *(const rfg_u32x4 *)(x_at + i * 2048 + ((h * 4 + chunk) ^ row % 2 * 4) * 16);
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) {
            rfg_u32x4 rows[2];
            decode_rows(rows, w[j], stage, n + j, h);
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
                rfg_mma_16x8(d[j][i], rows, x[i], IN_DTYPE);
        }
    }
}
#endif
