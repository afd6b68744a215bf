/* SPDX-License-Identifier: MIT
 *
 * gemm_w4_mma's step of groups of 16 columns, whose sums are scaled as those of longer ones are. An instruction has 16
 * columns, four in a lane; so lanes c and c + 2 share a chunk of W, of 8 columns: lane c has its first half if c < 2.
 * Of a fragment of 32 columns a lane puts its halves of two groups together into a word, bytes 0 and 2 of the first
 * group, 1 and 3 of the second, which w_decode() makes the words of the first and of the second instruction of. */

/* The words of two rows of block n: word h is of groups 2 h and 2 h + 1. */
RFG_DEVICE void load_halves(rfg_u32x4 *w, const char *stage, int n)
{
    int row = rfg_lane() / 4, chunk = rfg_lane() % 2;
    rfg_u32 half = rfg_lane() % 4 < 2 ? 0x6240u : 0x7351u;
    const char *at = stage + n * 1024 + chunk * 256 + (row * 16 ^ chunk * 32);
    const char *on = stage + n * 1024 + (chunk + 2) * 256 + (row * 16 ^ (chunk + 2) * 32);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rfg_u32x4 first = *(const rfg_u32x4 *)(at + i * 128), second = *(const rfg_u32x4 *)(on + i * 128);
        w[i].x = rfg_byte_perm(first.x, second.x, half);
        w[i].y = rfg_byte_perm(first.y, second.y, half);
        w[i].z = rfg_byte_perm(first.z, second.z, half);
        w[i].w = rfg_byte_perm(first.w, second.w, half);
    }
}

/* Words x and y of the first group, z and w of the second: each has a zero point of its own. */
RFG_DEVICE rfg_u32x4 decode_halves(rfg_u32 codes, w_offset first, w_offset second)
{
    rfg_u32x4 v = w_decode(codes, first), more = w_decode(codes, second);
    v.z = more.z;
    v.w = more.w;
    return v;
}

#if WGMMA
/* Adds a step of block n. */
RFG_DEVICE void multiply_block(float (*d)[4], const char *stage, int n)
{
    rfg_u32x4 w[2], rows[W_STEPS][2];
    float sum[FRAGS_M * 4] = { 0.0f };
    struct scales scales;
    load_halves(w, stage, n);
    read_scales(&scales, stage + SCALES_AT + n * GROUP_SCALES);
#pragma unroll
    for (int h = 0; h < W_STEPS; h++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            rows[h][i] =
                decode_halves(w_word(w[i], h), OFFSET_OF(stage, n, 2 * h, i), OFFSET_OF(stage, n, 2 * h + 1, i));
    rfg_u64 x = rfg_wg_rows(stage + X_AT);
#pragma unroll
    for (int g = 0; g < W_GROUPS; g++) {
        const rfg_u32x4 *lo = &rows[g / 2][0], *hi = &rows[g / 2][1];
        rfg_u32 v[4] = { g % 2 ? lo->z : lo->x, g % 2 ? hi->z : hi->x, g % 2 ? lo->w : lo->y, g % 2 ? hi->w : hi->y };
        rfg_wg_fence();
        rfg_wg_mma_a(TILE_M, sum, v, x + g / 4 * (TILE_M * 8) + g % 4 * 2, false, IN_DTYPE);
        add_group(d, sum, &scales, g);
    }
}
#else
/* Adds a group's sums of 16 rows by 8. rows: the lane's word of each half of the rows, twice. */
RFG_DEVICE void multiply_group(float *d, rfg_u32 a0, rfg_u32 a1, rfg_u32 a2, rfg_u32 a3, rfg_u32x2 x,
                               const float *scale)
{
    float sum[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    if (IN_DTYPE == RFG_F16)
        RFG_MMA_SYNC("f16", sum, a0, a1, a2, a3, x.x, x.y);
    else
        RFG_MMA_SYNC("bf16", sum, a0, a1, a2, a3, x.x, x.y);
#pragma unroll
    for (int e = 0; e < 4; e++)
        d[e] = rfg_fma(sum[e], scale[e / 2], d[e]);
}

/* Adds a step. n: the wave's first block. */
RFG_DEVICE void multiply(float (*d)[FRAGS_M][4], const char *stage, int n)
{
    int row = rfg_lane() / 4, chunk = rfg_lane() % 2;
    const char *x_at = stage + X_AT + row * 256 + rfg_lane() % 4 / 2 * 8;
    rfg_u32x4 w[FRAGS_N][2];
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        load_halves(w[j], stage, n + j);
#pragma unroll
    for (int h = 0; h < W_STEPS; h++) {
        rfg_u32x2 x[FRAGS_M][2];
#pragma unroll
        for (int i = 0; i < FRAGS_M * 2; i++)
            x[i / 2][i % 2] =
                *(const rfg_u32x2 *)(x_at + i / 2 * 2048 + ((h * 4 + i % 2 * 2 + chunk) ^ row % 4 * X_SWIZZLE) * 16);
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) {
            const char *scales = stage + SCALES_AT + (n + j) * GROUP_SCALES;
            rfg_u32x4 rows[2];
            float scale[2][2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                rows[i] = decode_halves(w_word(w[j][i], h), OFFSET_OF(stage, n + j, 2 * h, i),
                                        OFFSET_OF(stage, n + j, 2 * h + 1, i));
                scale[0][i] = w_scale_at(scales, 2 * h * PREPACK_ROWS + row + i * 8);
                scale[1][i] = w_scale_at(scales, (2 * h + 1) * PREPACK_ROWS + row + i * 8);
            }
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++) {
                multiply_group(d[j][i], rows[0].x, rows[1].x, rows[0].y, rows[1].y, x[i][0], scale[0]);
                multiply_group(d[j][i], rows[0].z, rows[1].z, rows[0].w, rows[1].w, x[i][1], scale[1]);
            }
        }
    }
}
#endif
