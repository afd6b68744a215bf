/* SPDX-License-Identifier: MIT
 *
 * gemm_w4_mma's W of 8-bit codes, prepacked or by rows. A step's 128 columns are two halves of 64, in each of which a
 * lane has 16 bytes of a row: of X, whose columns these are, two chunks of 8. In LDS chunk c (of 16 columns) of half h
 * of row r of 16 is at h * 1024 + c * 256 + (r * 16 ^ c * 32 ^ h * 16): eight lanes that write, or read, at one time
 * have other banks each. Scales of rows are the epilogue's; those of blocks come from memory a step ahead, and multiply
 * the block's sums. */
#include "rfg_decode8.h"

#if SCALES == GEMM_SCALES_BLOCKS
static_assert(SCALE_COLUMNS == 64 || SCALE_COLUMNS % 128 == 0, "a half of a step has several scales");
#define W_GROUPS (SCALE_COLUMNS == 64 ? 2 : 1) /* of a step */
#else
#define W_GROUPS 1
#endif

RFG_DEVICE rfg_u32 chunk_at(int chunk, int row)
{
    return (rfg_u32)(chunk * 256 + (row * 16 ^ chunk % 4 * 32 ^ chunk / 4 * 16));
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

struct w_copier {
    const struct gemm_args *a;
    const char *from;              /* of the lane, in the workgroup's first step */
    int n0, there, chunks, at, to; /* there: rows of W from n0 on; chunks: of a row; at: the lane's; to: its in LDS */
};

RFG_DEVICE struct w_copier w_copier_of(const struct gemm_args *a, int n0, int first)
{
    struct w_copier c;
    int lane = rfg_lane(), chunk = PREPACKED ? lane / 16 : lane % 8, row = PREPACKED ? lane % 16 : lane / 8;
    c.a = a;
    c.n0 = n0;
    c.there = a->n - n0;
    c.chunks = a->k / 16;
    c.at = first * 8 + chunk;
    c.to = (int)chunk_at(chunk, row);
#if PREPACKED
    c.from = (const char *)a->w + (long long)n0 * a->k + c.at * 256ll + row * 16;
#else
    c.from = (const char *)a->w + (n0 + row) * GEMM_LDW(a) + c.at * 16ll;
#endif
    return c;
}

/* What lies beyond K is zero; rows that don't exist are left as they are, and reach columns of Y that don't exist. */
RFG_DEVICE void copy_w_step(const struct gemm_args *a, const struct w_copier *c, rfg_u32 stage, int step)
{
    int at = c->at + step * 8;
#if PREPACKED
    const char *from = c->from + step * (8 * 256ll);
#pragma unroll
    for (int b = 0; b < BLOCKS_N; b++, from += a->k * 16ll)
#pragma unroll
        for (int i = 0; i < 8; i += 2) /* chunks: of a half they lie 256 apart; what differs by two, and by halves */
            if (b * 16 < c->there) {
                bool in = at + i < c->chunks;
                rfg_u32 to = ((rfg_u32)c->to ^ (i % 4 * 32) ^ (i / 4 * 16)) + (rfg_u32)(b * 2048 + i * 256);
                rfg_async_copy16_at(stage + to, in ? from + i * 256 : (const char *)a->w, in, true);
            }
#else
    bool in = at < c->chunks;
    const char *from = in ? c->from + step * 128ll : (const char *)a->w;
    long long apart = in ? 4 * GEMM_LDW(a) : 0;
    int row = rfg_lane() / 8;
#pragma unroll
    for (int i = 0; i < TILE_N / 4; i++, from += apart) {
        asm volatile("" : "+l"(from)); /* or nvcc keeps each row's distance in registers */
        if (row + i * 4 < c->there) {
            const char *p = from;
            if (HALVES && in)
                p = (const char *)a->w + w_row_at(a, c->n0 + row + i * 4) * GEMM_LDW(a) + at * 16ll;
            rfg_async_copy16_at(stage + ((rfg_u32)c->to ^ (i % 4 * 64)) + (rfg_u32)(i / 4 * 2048), p, in, true);
        }
    }
#endif
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Of each block of 16 rows the lane's two rows' scales of a step. */
struct scales {
    float v[FRAGS_N][W_GROUPS][2];
};

/* n: the wave's first block's first row. */
RFG_DEVICE void load_scales(struct scales *s, const struct gemm_args *a, int n, int step)
{
#if SCALES == GEMM_SCALES_BLOCKS
    int last = (a->k - 1) / SCALE_COLUMNS;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int g = 0; g < W_GROUPS; g++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int row = n + j * 16 + rfg_lane() / 4 + i * 8, group = step * 128 / SCALE_COLUMNS + g;
                s->v[j][g][i] = w_scale_of(a, row < a->n ? row : a->n - 1, group < last ? group : last);
            }
#else
    (void)s, (void)a, (void)n, (void)step;
#endif
}

/* The lane's 16 bytes of half h of rows lane / 4 and lane / 4 + 8. */
RFG_DEVICE void load_rows(rfg_u32x4 *w, const char *block, int h)
{
    const char *at = block + chunk_at(h * 4 + rfg_lane() % 4, rfg_lane() / 4);
    w[0] = *(const rfg_u32x4 *)at;
    w[1] = *(const rfg_u32x4 *)(at + 128); /* eight rows on: the same bits otherwise */
}

#if WGMMA
/* A step is decoded at once, or by halves: groups, or where sums of 128 rows leave too few registers. */
#define TURNS (TILE_M == 128 || W_GROUPS == 2 ? 2 : 1)

/* Adds a step of block n. */
RFG_DEVICE void multiply_block(float (*d)[4], const char *stage, int n, float (*scale)[2])
{
    float part[FRAGS_M * 4], *sums = SCALES == GEMM_SCALES_BLOCKS ? part : &d[0][0];
#pragma unroll
    for (int i = 0; i < FRAGS_M * 4 && SCALES == GEMM_SCALES_BLOCKS; i++)
        part[i] = 0.0f;
    rfg_u64 x = rfg_wg_rows(stage + X_AT);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        rfg_u32 v[8 / TURNS][4]; /* of 16 columns each */
#pragma unroll
        for (int h = 0; h < 4 / TURNS; h++) {
            int part32 = turn * (4 / TURNS) + h;
            rfg_u32x4 w[2];
            load_rows(w, stage + n * 2048, part32 / 2);
            rfg_u32x4 lo = w_decode8(w[0], part32 % 2), hi = w_decode8(w[1], part32 % 2);
            v[2 * h][0] = lo.x;
            v[2 * h][1] = hi.x;
            v[2 * h][2] = lo.y;
            v[2 * h][3] = hi.y;
            v[2 * h + 1][0] = lo.z;
            v[2 * h + 1][1] = hi.z;
            v[2 * h + 1][2] = lo.w;
            v[2 * h + 1][3] = hi.w;
        }
        bool begins = turn == 0 || W_GROUPS == 2, ends = turn == TURNS - 1 || W_GROUPS == 2; /* a group */
        rfg_wg_fence();
#pragma unroll
        for (int h = 0; h < 8 / TURNS; h++) {
            int part16 = turn * (8 / TURNS) + h;
            rfg_wg_mma_a(TILE_M, sums, v[h], x + part16 / 4 * (TILE_M * 8) + part16 % 4 * 2,
                         SCALES != GEMM_SCALES_BLOCKS || !begins || h > 0, IN_DTYPE);
        }
        rfg_wg_commit();
        rfg_wg_wait(0);
        rfg_wg_settle(sums, FRAGS_M * 4);
#pragma unroll
        for (int i = 0; i < FRAGS_M * 4 && SCALES == GEMM_SCALES_BLOCKS && ends; i++)
            d[i / 4][i % 4] = rfg_fma(part[i], scale[W_GROUPS == 2 ? turn : 0][i / 2 % 2], d[i / 4][i % 4]);
    }
}
/* And of the wave's blocks, from n on. */
RFG_DEVICE void multiply(float (*d)[FRAGS_M][4], const char *stage, int n, struct scales *s)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        multiply_block(d[j], stage, n + j, s->v[j]);
}
#else
/* Adds a step. n: the wave's first block. */
RFG_DEVICE void multiply(float (*d)[FRAGS_M][4], const char *stage, int n, struct scales *s)
{
    int row = rfg_lane() / 4, chunk = rfg_lane() % 4;
    const char *x_at = stage + X_AT + row * 256;
    float part[FRAGS_N][FRAGS_M][4];
    float(*sums)[FRAGS_M][4] = SCALES == GEMM_SCALES_BLOCKS ? part : d;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        rfg_u32x4 w[FRAGS_N][2];
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
            load_rows(w[j], stage + (n + j) * 2048, h);
#pragma unroll
        for (int i = 0; i < FRAGS_N * FRAGS_M * 4; i++)
            if (SCALES == GEMM_SCALES_BLOCKS && (h == 0 || W_GROUPS == 2))
                part[i / 4 / FRAGS_M][i / 4 % FRAGS_M][i % 4] = 0.0f;
#pragma unroll
        for (int p = 0; p < 2; p++) {
            rfg_u32x4 x[FRAGS_M];
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
                x[i] = *(const rfg_u32x4 *)(x_at + i * 2048 + ((h * 8 + chunk * 2 + p) ^ row % 2) * 16);
#pragma unroll
            for (int j = 0; j < FRAGS_N; j++) {
                rfg_u32x4 rows[2];
                rows[0] = w_decode8(w[j][0], p);
                rows[1] = w_decode8(w[j][1], p);
#pragma unroll
                for (int i = 0; i < FRAGS_M; i++)
                    rfg_mma_16x8(sums[j][i], rows, x[i], IN_DTYPE);
            }
        }
#pragma unroll
        for (int i = 0; i < FRAGS_N * FRAGS_M * 4; i++)
            if (SCALES == GEMM_SCALES_BLOCKS && (h == 1 || W_GROUPS == 2)) {
                float *to = &d[i / 4 / FRAGS_M][i / 4 % FRAGS_M][i % 4];
                *to = rfg_fma(part[i / 4 / FRAGS_M][i / 4 % FRAGS_M][i % 4],
                              s->v[i / 4 / FRAGS_M][W_GROUPS == 2 ? h : 0][i / 2 % 2], *to);
            }
    }
}
#endif
