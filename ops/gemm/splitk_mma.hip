/* SPDX-License-Identifier: MIT
 *
 * gemm_splitk_mma: matrix cores and three layers of parallelism along k. A workgroup computes a TILE_M x TILE_N block of Y
 * over its share of k (grid z shares it out in whole tiles of TILE_K); K_WAVES groups of N_WAVES waves share each tile of k;
 * a ring of STAGES tiles in LDS is filled while earlier ones are multiplied. Partial sums are added in fp32 in a fixed
 * order: across the waves through LDS, across workgroups through the workspace by the last to arrive.
 *
 * D = W X^T block by block: the rows of a fragment product are rows of W, its columns rows of X.
 *
 * Macros: DT_IN (16-bit), DT_OUT, TILE_M, TILE_N (multiples of 16; TILE_N of 16 * N_WAVES), TILE_K (multiple of
 * RFG_KSTEP * K_WAVES), N_WAVES, K_WAVES, STAGES >= 2. K % 8 == 0, 16-byte alignment of X and W. */
#include "rfg_device.h"
#include "rfg_gemm_args.h"

#define WAVES   (N_WAVES * K_WAVES)
#define THREADS (WAVES * RFG_WAVE)
#define STRIDE  (TILE_K * 2 + (TILE_K * 2 % 128 == 0 || RFG_LDS_PAD == 16 ? RFG_LDS_PAD : 0)) /* bytes a row of LDS */
#define STAGE   ((TILE_M + TILE_N) * STRIDE)                        /* X's rows, then W's */
#define PIECES  (TILE_K / 8)                                        /* 16-byte pieces of a row */
#define AT_ONCE (THREADS / PIECES)                                  /* rows that the workgroup copies in one step */
#define COPY_X  ((TILE_M + AT_ONCE - 1) / AT_ONCE)                  /* steps for X's part of a tile, and for W's */
#define COPY_W  ((TILE_N + AT_ONCE - 1) / AT_ONCE)
#define FRAGS_M (TILE_M / 16)
#define FRAGS_N (TILE_N / N_WAVES / 16)
#define SUMS    (FRAGS_N * FRAGS_M * RFG_ACC)                       /* accumulators a lane */

/* One operand's part of the copy of a tile: rows [row, row + AT_ONCE, ...) of `rows`, this thread's piece of each. */
struct part {
    const char *from; /* the first of its rows, at the first tile of k */
    long long step;   /* bytes between its rows */
    int row, left;    /* its first row, and how many rows the matrix has from the tile's first */
};

RFG_FN struct part make_part(const void *base, long long ld, int row0, int rows, int row, int piece, int tile)
{
    struct part p;
    p.from = (const char *)base + ((row0 + row) * ld + (long long)tile * TILE_K + piece * 8) * 2;
    p.step = AT_ONCE * ld * 2;
    p.row = row;
    p.left = rows - row0;
    return p;
}

RFG_KERNEL(THREADS) gemm_splitk_mma(struct gemm_args a)
{
    char *lds = (char *)rfg_lds;
    int split = rfg_groups_z(), z = rfg_group_z();
    int tile = rfg_group_y() * rfg_groups_x() + rfg_group_x();
    int n0 = rfg_group_x() * TILE_N, m0 = rfg_group_y() * TILE_M;
    int wave = rfg_wave(), lane = rfg_lane(), tid = rfg_tid();
    int wave_n = wave % N_WAVES, wave_k = wave / N_WAVES;
    int tiles = (a.k + TILE_K - 1) / TILE_K;
    int first = (int)((long long)tiles * z / split), last = (int)((long long)tiles * (z + 1) / split);

    int piece = tid % PIECES, row = tid / PIECES;
    struct part px = make_part(a.x, a.ldx, m0, a.m, row, piece, first);
    struct part pw = make_part(a.w, a.ldw, n0, a.n, row, piece, first);
    rfg_u32x4 held[COPY_X + COPY_W];

/* The copies of tile t, which is `ahead` tiles after the one that the parts point to. What lies outside is zero. */
#define EACH(copies, part, tile_rows, first_row, body)                                                                 \
    _Pragma("unroll") for (int c = 0; c < copies; c++)                                                                 \
    {                                                                                                                  \
        int r_ = part.row + c * AT_ONCE;                                                                               \
        if (tile_rows % AT_ONCE == 0 || r_ < tile_rows) {                                                              \
            char *to_ = stage_ + (first_row + r_) * STRIDE + piece * 16;                                               \
            body;                                                                                                      \
        }                                                                                                              \
    }
#define ISSUE(t, ahead)                                                                                                \
    do {                                                                                                               \
        char *stage_ = lds + ((t)-first) % STAGES * STAGE;                                                             \
        if ((t) < last) {                                                                                              \
            bool k_ok = (t)*TILE_K + piece * 8 < a.k;                                                                  \
            EACH(COPY_X, px, TILE_M, 0, bool ok = k_ok && r_ < px.left;                                                \
                 rfg_copy_issue(&held[c], to_, ok ? px.from + c * px.step + (ahead)*TILE_K * 2 : (const char *)a.x, ok)) \
            EACH(COPY_W, pw, TILE_N, TILE_M, bool ok = k_ok && r_ < pw.left; rfg_copy_issue(                           \
                     &held[COPY_X + c], to_, ok ? pw.from + c * pw.step + (ahead)*TILE_K * 2 : (const char *)a.w, ok)) \
        }                                                                                                              \
    } while (0)
#define LAND(t)                                                                                                        \
    do {                                                                                                               \
        char *stage_ = lds + ((t)-first) % STAGES * STAGE;                                                             \
        if ((t) < last) {                                                                                              \
            EACH(COPY_X, px, TILE_M, 0, rfg_copy_land(&held[c], to_))                                                  \
            EACH(COPY_W, pw, TILE_N, TILE_M, rfg_copy_land(&held[COPY_X + c], to_))                                    \
        }                                                                                                              \
        rfg_copy_commit();                                                                                             \
    } while (0)

    float acc[FRAGS_N][FRAGS_M][RFG_ACC];
#pragma unroll
    for (int n = 0; n < FRAGS_N; n++)
#pragma unroll
        for (int m = 0; m < FRAGS_M; m++)
#pragma unroll
            for (int i = 0; i < RFG_ACC; i++)
                acc[n][m][i] = 0;

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        ISSUE(first + s, s);
        LAND(first + s);
    }
    for (int t = first; t < last; t++) {
        rfg_copy_wait(STAGES - 2);
        rfg_barrier(); /* tile t is there for all; the stage that is filled next was read by all */
        ISSUE(t + STAGES - 1, STAGES - 1);
        const char *stage = lds + (t - first) % STAGES * STAGE;
#pragma unroll
        for (int s = 0; s < TILE_K / RFG_KSTEP / K_WAVES; s++) {
            int at = (s * K_WAVES + wave_k) * RFG_KSTEP * 2;
            struct rfg_frag x[FRAGS_M];
#pragma unroll
            for (int m = 0; m < FRAGS_M; m++)
                x[m] = rfg_frag_load(stage + m * 16 * STRIDE + at, STRIDE);
#pragma unroll
            for (int n = 0; n < FRAGS_N; n++) {
                struct rfg_frag w = rfg_frag_load(stage + (TILE_M + (wave_n * FRAGS_N + n) * 16) * STRIDE + at, STRIDE);
#pragma unroll
                for (int m = 0; m < FRAGS_M; m++)
                    rfg_mma(acc[n][m], &w, &x[m]);
            }
        }
        LAND(t + STAGES - 1);
        px.from += TILE_K * 2;
        pw.from += TILE_K * 2;
    }
    rfg_copy_wait(0);

    /* Across the waves that shared each tile of k. */
    float *sums = &acc[0][0][0];
    if (K_WAVES > 1) {
        float *red = (float *)lds;
        rfg_barrier();
        if (wave_k > 0)
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                red[(((wave_k - 1) * N_WAVES + wave_n) * SUMS + i) * RFG_WAVE + lane] = sums[i];
        rfg_barrier();
        if (wave_k == 0)
#pragma unroll
            for (int i = 0; i < SUMS; i++)
#pragma unroll
                for (int v = 1; v < K_WAVES; v++)
                    sums[i] += red[(((v - 1) * N_WAVES + wave_n) * SUMS + i) * RFG_WAVE + lane];
    }

    /* Across the workgroups that shared k. */
    if (split > 1) {
        float *part = (float *)a.workspace + ((long long)tile * split * N_WAVES + wave_n) * SUMS * RFG_WAVE + lane;
        const int next = N_WAVES * SUMS * RFG_WAVE;
        if (wave_k == 0)
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                part[(long long)z * next + i * RFG_WAVE] = sums[i];
        rfg_barrier(); /* the word below may lie in what was just read */
        if (!rfg_last_group(a.counters + tile, split, (rfg_u32 *)lds))
            return;
        if (wave_k == 0) {
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                sums[i] = 0;
            for (int v = 0; v < split; v++)
#pragma unroll
                for (int i = 0; i < SUMS; i++)
                    sums[i] += part[(long long)v * next + i * RFG_WAVE];
        }
    }
    if (wave_k > 0)
        return;
#pragma unroll
    for (int n = 0; n < FRAGS_N; n++)
#pragma unroll
        for (int m = 0; m < FRAGS_M; m++)
#pragma unroll
            for (int i = 0; i < RFG_ACC; i++) {
                int row = n0 + (wave_n * FRAGS_N + n) * 16 + rfg_acc_row(i), col = m0 + m * 16 + rfg_acc_col(i);
                if (row < a.n && col < a.m)
                    rfg_put(a.y, (long long)col * a.ldy + row,
                            acc[n][m][i] + (a.bias ? rfg_get(a.bias, row, DT_IN) : 0.0f), DT_OUT);
            }
}
