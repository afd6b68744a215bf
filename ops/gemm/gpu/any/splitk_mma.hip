/* SPDX-License-Identifier: MIT
 *
 * gemm on matrix cores, with k split three ways: across the workgroups of grid.y, each of which takes a range of whole
 * TILE_K steps; across K_WAVES groups of waves, each of which takes a slice of every step; and in time, through a ring
 * of tiles in LDS (STAGES of them) that keeps loads in flight while the matrix cores work.
 *
 * The K_WAVES groups of waves add their sums in LDS. The workgroups of a tile write fp32 partial sums to the workspace,
 * [tile][split][row][column]; the last one to arrive adds them in the order of the splits, so that the result doesn't
 * depend on which one that is.
 *
 * Without asynchronous copies (AMD) the ring is in registers, STAGES - 1 steps deep, and LDS holds two steps.
 *
 * Budget of a step: (TILE_M + TILE_N) * TILE_K * 2 bytes to LDS; of a wave STEPS * (FRAGS_M + FRAGS_N) fragments from
 * LDS for STEPS * FRAGS_M * FRAGS_N products, and a barrier. What binds for few rows is memory.
 *
 * Macros: those of load.h and epilogue.h (X and W fp16 or bf16), TILE_M, TILE_N (16, 32, 64, 128), TILE_K (64, 128,
 * 256), K_WAVES (K_WAVES * RFG_FRAG_K <= TILE_K), STAGES >= 2. Grid: (tiles along m, fastest, times tiles along n;
 * split), in rfg_xcd_tile()'s order on several dies. Needs rows of X and W aligned to 16 bytes and K % 8 = 0. */
#include "rfg_device.h"
#include "rfg_xcd.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/splitk_layout.h"

#define WAVES_M SPLITK_WAVES_M(TILE_M)
#define WAVES_N SPLITK_WAVES_N(TILE_N)
#define WAVES   SPLITK_WAVES(TILE_M, TILE_N, K_WAVES)
#define THREADS (WAVES * RFG_WAVE)
#define FRAGS_M (TILE_M / WAVES_M / 16)
#define FRAGS_N (TILE_N / WAVES_N / 16)
#define CHUNKS  (TILE_K / 8)
#define STEPS   (TILE_K / RFG_FRAG_K / K_WAVES) /* fragments along k of one wave's slice */

/* One step in LDS: TILE_M rows of X, then TILE_N rows of W. */
#define STEP_CHUNKS SPLITK_STEP_CHUNKS(TILE_M, TILE_N, TILE_K)
static_assert(STEP_CHUNKS == (TILE_M + TILE_N) * CHUNKS, "a step in LDS is not the rows of a tile");
/* A thread copies chunk tid % CHUNKS of every ROWS_A_PASS-th row. */
#define ROWS_A_PASS (THREADS / CHUNKS)
#define X_COPIES    ((TILE_M + ROWS_A_PASS - 1) / ROWS_A_PASS)
#define W_COPIES    ((TILE_N + ROWS_A_PASS - 1) / ROWS_A_PASS)

/* The epilogue's view of LDS: K_WAVES sums of TILE_M rows, padded against bank conflicts. */
#define SUM_STRIDE SPLITK_SUM_STRIDE(TILE_N)
#define QUADS_ROW  (TILE_N / 4)

/* What a thread copies: where it is in the tile, and its first addresses. */
struct copier {
    const char *x, *w;        /* chunk 0 of its first rows, at k = 0 */
    long long x_pass, w_pass; /* bytes from one of its rows to the next */
    int x_rows, w_rows;       /* rows of the tile that exist */
    int row, chunk;
    int k_chunks; /* of the whole problem */
};

RFG_DEVICE int lds_at(int row, int chunk)
{
    return row * CHUNKS + (chunk ^ rfg_swizzle(row));
}

#if RFG_HAS_ASYNC /* copies go from memory to LDS by themselves; else through registers: other state and other loops   \
                   */

/* Rows that don't exist are left as they are: they only reach rows or columns of Y that don't exist. Chunks beyond K
 * must be zero. */
RFG_DEVICE void copy_step(const struct copier *c, rfg_u32x4 *lds, int step)
{
    int at = step * CHUNKS + c->chunk;
    bool in = at < c->k_chunks;
    long long offset = in ? (long long)at * 16 : 0;
#pragma unroll
    for (int i = 0; i < W_COPIES; i++) {
        int row = c->row + i * ROWS_A_PASS;
        if (row < c->w_rows)
            rfg_async_copy16(lds + TILE_M * CHUNKS + lds_at(row, c->chunk), c->w + i * c->w_pass + offset, in);
    }
#pragma unroll
    for (int i = 0; i < X_COPIES; i++) {
        int row = c->row + i * ROWS_A_PASS;
        if (row < c->x_rows)
            rfg_async_copy16(lds + lds_at(row, c->chunk), c->x + i * c->x_pass + offset, in);
    }
}

#else

struct staged {
    rfg_u32x4 x[X_COPIES], w[W_COPIES];
};

/* The same in two halves: global memory to registers, and registers to LDS when they are needed. */
RFG_DEVICE void load_step(const struct copier *c, struct staged *s, int step)
{
    int at = step * CHUNKS + c->chunk;
    bool in = at < c->k_chunks;
    long long offset = (long long)at * 16;
    const rfg_u32x4 zero = { 0, 0, 0, 0 };
#pragma unroll
    for (int i = 0; i < W_COPIES; i++) {
        s->w[i] = zero;
        if (in && c->row + i * ROWS_A_PASS < c->w_rows)
            s->w[i] = rfg_load16(c->w + i * c->w_pass + offset);
    }
#pragma unroll
    for (int i = 0; i < X_COPIES; i++) {
        s->x[i] = zero;
        if (in && c->row + i * ROWS_A_PASS < c->x_rows)
            s->x[i] = rfg_load16(c->x + i * c->x_pass + offset);
    }
}

RFG_DEVICE void put_step(const struct copier *c, const struct staged *s, rfg_u32x4 *lds)
{
#pragma unroll
    for (int i = 0; i < W_COPIES; i++) {
        int row = c->row + i * ROWS_A_PASS;
        if (row < TILE_N)
            lds[TILE_M * CHUNKS + lds_at(row, c->chunk)] = s->w[i];
    }
#pragma unroll
    for (int i = 0; i < X_COPIES; i++) {
        int row = c->row + i * ROWS_A_PASS;
        if (row < TILE_M)
            lds[lds_at(row, c->chunk)] = s->x[i];
    }
}

#endif

/* Where the wave works: its fragments' first rows of X and W, and its slice of k. */
struct place {
    int row_m, row_n, k_wave;
};

RFG_DEVICE void multiply_step(rfg_frag_c (*acc)[FRAGS_N], const struct place *p, const rfg_u32x4 *lds)
{
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int chunk = (p->k_wave * STEPS + s) * RFG_FRAG_CHUNKS;
        rfg_frag_ab x[FRAGS_M], w[FRAGS_N];
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
            rfg_frag_load(&x[i], lds, CHUNKS, p->row_m + 16 * i, chunk);
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
            rfg_frag_load(&w[j], lds + TILE_M * CHUNKS, CHUNKS, p->row_n + 16 * j, chunk);
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
            for (int j = 0; j < FRAGS_N; j++)
                rfg_frag_mma(&acc[i][j], &x[i], &w[j], IN_DTYPE);
    }
}

RFG_KERNEL(THREADS) gemm_splitk_mma(struct gemm_args a)
{
    int tid = rfg_thread(), wave = rfg_wave();
    int tiles_m = (a.m - 1) / TILE_M + 1;
#if BATCH
    take_batch(&a);
#endif
    int splits = rfg_groups_y();
    struct rfg_tile t = { rfg_group_x() % tiles_m, rfg_group_x() / tiles_m, rfg_group_y() };
    if (XCDS > 1 && tiles_m > 1) {
        int tiles_n = (a.n - 1) / TILE_N + 1;
        t = rfg_xcd_tile(rfg_group_x() + rfg_group_y() * (tiles_m * tiles_n), TILE_M, tiles_m, tiles_n, splits);
    }
    int m0 = t.m * TILE_M, n0 = t.n * TILE_N, split = t.split;
    int tile = XCDS > 1 ? t.n * tiles_m + t.m : rfg_group_x();
    int all_steps = (a.k - 1) / TILE_K + 1;
    int first = rfg_share_begin(all_steps, split, splits);
    int steps = rfg_share_begin(all_steps, split + 1, splits) - first;

    rfg_start_next();
    rfg_await_previous();
    struct copier c;
    c.chunk = tid % CHUNKS;
    c.row = tid / CHUNKS;
    c.x_rows = a.m - m0 < TILE_M ? a.m - m0 : TILE_M;
    c.w_rows = a.n - n0 < TILE_N ? a.n - n0 : TILE_N;
    c.x_pass = ROWS_A_PASS * GEMM_LDX(&a) * X_BYTES;
    c.w_pass = ROWS_A_PASS * GEMM_LDW(&a) * W_BYTES;
    c.x = x_row(&a, m0 + c.row);
    c.w = w_row_of(&a, n0 + c.row);
    c.k_chunks = a.k / X_VEC;

    struct place p;
    p.row_m = wave % WAVES_M * (TILE_M / WAVES_M);
    p.row_n = wave / WAVES_M % WAVES_N * (TILE_N / WAVES_N);
    p.k_wave = wave / (WAVES_M * WAVES_N);
    rfg_frag_c acc[FRAGS_M][FRAGS_N];
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
            rfg_frag_zero(&acc[i][j]);

#if RFG_HAS_ASYNC /* as copy_step() */
            /* Groups are committed even when there is nothing left to copy, so that one constant wait serves every
             * step. */
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < steps)
            copy_step(&c, rfg_lds + i * STEP_CHUNKS, first + i);
        rfg_async_commit();
    }
    int at = 0, ahead = STAGES - 1;
    for (int step = 0; step < steps; step++) {
        rfg_async_wait(STAGES - 2);
        rfg_barrier_lds(); /* all threads' copies of this step are there; all are done with the one before */
        if (step + STAGES - 1 < steps)
            copy_step(&c, rfg_lds + ahead * STEP_CHUNKS, first + step + STAGES - 1);
        rfg_async_commit();
        multiply_step(acc, &p, rfg_lds + at * STEP_CHUNKS);
        at = at + 1 == STAGES ? 0 : at + 1;
        ahead = ahead + 1 == STAGES ? 0 : ahead + 1;
    }
    rfg_async_wait(0);
#else
    /* Two buffers and one barrier a step: whoever writes a buffer has passed the barrier of the step before, and so
     * has everybody finished the step before that, which read it. */
    struct staged ring[STAGES - 1];
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        if (i < steps)
            load_step(&c, &ring[i], first + i);
    int buffer = 0;
    for (int base = 0; base < steps; base += STAGES - 1) {
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            int step = base + i;
            if (step < steps) {
                put_step(&c, &ring[i], rfg_lds + buffer * STEP_CHUNKS);
                if (step + STAGES - 1 < steps)
                    load_step(&c, &ring[i], first + step + STAGES - 1);
                rfg_barrier_lds();
                multiply_step(acc, &p, rfg_lds + buffer * STEP_CHUNKS);
                buffer ^= 1;
            }
        }
    }
#endif

    /* The K_WAVES groups' sums to LDS, in rows. */
    float *sums = (float *)rfg_lds;
    rfg_barrier();
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++) {
                int row = p.row_m + 16 * i + rfg_frag_c_row(e), col = p.row_n + 16 * j + rfg_frag_c_col(e);
                sums[(p.k_wave * TILE_M + row) * SUM_STRIDE + col] = acc[i][j].v[e];
            }
    rfg_barrier();

    int quads = c.x_rows * QUADS_ROW; /* rows that don't exist are not worth a trip through memory */
    float *parts = (float *)a.workspace + (long long)tile * splits * SPLITK_PARTIALS(TILE_M, TILE_N);
#pragma unroll 1
    for (int q = tid; q < quads; q += THREADS) {
        int row = q / QUADS_ROW, col = q % QUADS_ROW * 4;
        rfg_f32x4 sum = *(const rfg_f32x4 *)(sums + row * SUM_STRIDE + col);
#pragma unroll
        for (int w = 1; w < K_WAVES; w++)
            sum = rfg_add_f32x4(sum, *(const rfg_f32x4 *)(sums + (w * TILE_M + row) * SUM_STRIDE + col));
        if (splits > 1)
            rfg_store_f32x4(parts + (long long)split * SPLITK_PARTIALS(TILE_M, TILE_N) + q * 4, sum);
        else if (col < a.n - n0)
            store_4(&a, (long long)m0 + row, n0 + col, sum);
    }
    if (splits == 1)
        return;

    /* The flag takes the place of sums[0]: everybody has passed the barrier inside before it is written. */
    if (rfg_last_to_arrive(a.counters + tile, splits, (rfg_u32 *)rfg_lds))
        reduce_partials(&a, parts, splits, SPLITK_PARTIALS(TILE_M, TILE_N), quads, THREADS, TILE_N, m0, n0);
}
