/* SPDX-License-Identifier: MIT
 *
 * gemm of a prepacked W of 4 bits for few rows of X on NVIDIA's mma.sync from Hopper on. A row of W has a quarter of a
 * row of X's bytes, so a tile has many rows of W, or reading X would take longer than reading W; and what is under way
 * is in LDS, for there are not registers enough to hold it.
 *
 * Some waves copy W with its scales, others X, so that copies of W wait neither for X nor for the previous launch.
 * Copies go to a ring of steps of 128 columns in LDS, as many as the launch gives LDS for. Each step has two arrivals:
 * one counts the threads that copy, the other the waves that have used it. Of the waves that multiply K_WAVES sets take
 * steps in turn. A wave has FRAGS_N x 16 rows of W, the instruction's A, and all TILE_M rows of X, 8 of which are its
 * B. W becomes fragments of X's format exactly, in registers; the sums of a group are multiplied by their rows' scales,
 * in fp32, which takes an instruction for each sum, where scaling W would take one for each element and a rounding.
 *
 * k is split across a cluster of SPLIT workgroups. Each owns some blocks of the tile of Y; all waves send their sums of
 * a block from registers to the owner's LDS, and the owner adds them in the order of ranks and sets. The reduction uses
 * no global memory and no counters, and its result doesn't depend on the order of arrival.
 *
 * In LDS chunk c (of 8 columns in each 32) of row r of 16 is at c * 256 + (r * 16 ^ c * 32), chunk c of row m of X at m
 * * 256 + (c ^ m % 2 * 4) * 16: eight lanes that read at one time have other banks each.
 *
 * Macros: those of load.h and epilogue.h (X fp16 or bf16, W prepacked i4 or e2m1), TILE_M (8, 16, 32, 64), TILE_N (a
 * multiple of 32), FRAGS_N, K_WAVES, SPLIT (1 to 16). Grid: SPLIT neighbours for each tile, tiles along m first; of
 * grouped products, along n first. LDS: RING_AT, K_WAVES or more steps. Needs rows of X aligned to 16 bytes, K % 8 = 0,
 * and at least SPLIT steps. */
#include "rfg_device.h"
#include "gemm/gpu/load.h"
#include "gemm/gpu/epilogue.h"
#include "gemm/gpu/experts.h"
#include "gemm/gpu/w4_layout.h"

#define N_WAVES   W4_N_WAVES(TILE_N, FRAGS_N)
#define MMA_WAVES (N_WAVES * K_WAVES)
#define W_THREADS (W4_W_WAVES * RFG_WAVE)
#define X_THREADS (W4_X_WAVES(TILE_M) * RFG_WAVE)
#define THREADS   W4_THREADS(TILE_M, TILE_N, FRAGS_N, K_WAVES)
#define WAVES     (THREADS / RFG_WAVE)

#define BLOCKS_N (TILE_N / 16)
#define FRAGS_M  (TILE_M / 8)
#define OWN      W4_OWNED(TILE_M, TILE_N, SPLIT)
#define PARTS    (SPLIT * K_WAVES)
#define RING_AT  W4_RING_AT(TILE_M, TILE_N, K_WAVES, SPLIT)

#define SCALE_BYTES (W_GROUPS * PREPACK_ROWS * W_SCALE_BYTES) /* of 16 rows, in a step */
#define ZERO_BYTES  (W_ZERO ? W_GROUPS * PREPACK_ROWS : 0)
#define STEP_BYTES  W4_STEP_BYTES(TILE_M, TILE_N, SCALE_BYTES, ZERO_BYTES)
#define X_AT        (TILE_N * 64)
#define SCALES_AT   (X_AT + TILE_M * 256)
#define ZEROS_AT    (SCALES_AT + BLOCKS_N * SCALE_BYTES)

static_assert(TILE_N % 32 == 0 && BLOCKS_N % FRAGS_N == 0, "a tile's rows are not shared out evenly");
static_assert((1 + 2 * W4_MAX_STAGES) * sizeof(rfg_u64) <= W4_PARTIALS_AT, "arrivals reach into the partial sums");
static_assert(W4_BLOCK_BYTES == RFG_WAVE * sizeof(rfg_f32x4), "a block is not four floats of each lane");

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* What a thread copies of each 16 rows of a tile: `bytes` of a step in chunks of 16, which follow one another. */
#define CHUNKS_OF(bytes) ((bytes) / 16 * BLOCKS_N)

/* Chunks first, first + W_THREADS, ... of all BLOCKS_N in a step. from: the tile's first 16 rows, in this step; row: to
 * the next 16. */
RFG_DEVICE void copy_groups(rfg_u32 to, const char *from, long long row, int bytes, int blocks, int t)
{
#pragma unroll
    for (int i = 0; i < (CHUNKS_OF(bytes) + W_THREADS - 1) / W_THREADS; i++) {
        int chunk = t + i * W_THREADS, block = chunk / (bytes / 16), in = chunk % (bytes / 16) * 16;
        if (block < blocks)
            rfg_async_copy16_at(to + (rfg_u32)(block * bytes + in), from + block * row + in, true, true);
    }
}

/* All steps of the tile's W, as far as there is room. */
RFG_DEVICE void copy_w(const struct gemm_args *a, rfg_u32 ring, rfg_u64 *full, rfg_u64 *empty, int stages, int n0,
                       int first, int steps, int t)
{
    int blocks = (a->n - n0) / PREPACK_ROWS < BLOCKS_N ? (a->n - n0) / PREPACK_ROWS : BLOCKS_N,
        groups = W_COLS(a) / W_GROUP;
    int chunk = t % 64;
    long long row = (long long)W_COLS(a) * (PREPACK_ROWS / 2), block0 = n0 / PREPACK_ROWS;
    const char *from = W_CODES_AT(a) + (block0 + t / 64) * row + (long long)first * W_FRAG_STEP + chunk * 16;
    const char *scales = (const char *)a->w_scale + block0 * groups * (PREPACK_ROWS * W_SCALE_BYTES);
    const char *zeros = (const char *)W_ZEROS(a) + block0 * groups * PREPACK_ROWS;
    rfg_u32 to = ring + (rfg_u32)(t / 64 * 1024 + chunk / 16 * 256 + (chunk % 16 * 16 ^ chunk / 16 * 32));
    struct rfg_stage s = { 0, 0 };
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        if (step >= stages)
            rfg_arrival_wait(empty + s.at, s.odd ^ 1);
        rfg_u32 stage = (rfg_u32)(s.at * STEP_BYTES);
#pragma unroll
        for (int i = 0; i < BLOCKS_N / 2; i++)
            if (i * 2 + t / 64 < blocks)
                rfg_async_copy16_at(to + stage + (rfg_u32)i * 2048, from + i * 2 * row, true, true);
        int group = W_GROUP_OF(first + step) * PREPACK_ROWS;
        copy_groups(ring + stage + SCALES_AT, scales + group * W_SCALE_BYTES,
                    (long long)groups * (PREPACK_ROWS * W_SCALE_BYTES), SCALE_BYTES, blocks, t);
        if (W_ZERO)
            copy_groups(ring + stage + ZEROS_AT, zeros + group, (long long)groups * PREPACK_ROWS, ZERO_BYTES, blocks,
                        t);
        rfg_arrive_copies(full + s.at);
        from += W_FRAG_STEP;
        rfg_next_stage(&s, stages);
    }
}

/* And of X. Rows that don't exist are left as they are: they only reach rows of Y that don't exist. Columns beyond K
 * are zero. */
RFG_DEVICE void copy_x(const struct gemm_args *a, rfg_u32 ring, rfg_u64 *full, rfg_u64 *empty, int stages, int m0,
                       int first, int steps, int t)
{
#define ROWS_A_PASS (X_THREADS / 16)
    static_assert(ROWS_A_PASS % 2 == 0, "a thread's rows are even and odd ones");
    int row = t / 16, chunk = t % 16, left = a->k / X_VEC - first * 16 - chunk;
    const char *from[TILE_M / ROWS_A_PASS];
#pragma unroll
    for (int i = 0; i < TILE_M / ROWS_A_PASS; i++) {
        int m = m0 + row + i * ROWS_A_PASS;
        from[i] = x_row(a, m < a->m ? m : a->m - 1) + (first * 16 + chunk) * 16;
    }
    rfg_u32 to = ring + X_AT + (rfg_u32)(row * 256 + (chunk ^ row % 2 * 4) * 16);
    struct rfg_stage s = { 0, 0 };
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        if (step >= stages)
            rfg_arrival_wait(empty + s.at, s.odd ^ 1);
#pragma unroll
        for (int i = 0; i < TILE_M / ROWS_A_PASS; i++) {
            if (m0 + row + i * ROWS_A_PASS < a->m)
                rfg_async_copy16_at(to + (rfg_u32)(s.at * STEP_BYTES + i * ROWS_A_PASS * 256),
                                    left > 0 ? from[i] : (const char *)a->x, left > 0, false);
            from[i] += 256;
        }
        left -= 16;
        rfg_arrive_copies(full + s.at);
        rfg_next_stage(&s, stages);
    }
}

/* ---- sums ------------------------------------------------------------------------------------------------------- */

/* The scales of the lane's two rows of 16, of each group of a step. If those are four, each of the four lanes that have
 * these rows reads one. */
#define SHARE_SCALES (W_SCALE_DTYPE == RFG_E8M0 && W_GROUPS == 4)
struct scales {
    float v[SHARE_SCALES ? 1 : W_GROUPS][2];
};
RFG_DEVICE void read_scales(struct scales *s, const char *at)
{
    int row = rfg_lane() / 4;
#pragma unroll
    for (int g = 0; g < (SHARE_SCALES ? 1 : W_GROUPS); g++) {
        int group = SHARE_SCALES ? rfg_lane() % 4 : g;
        s->v[g][0] = w_scale_at(at, group * PREPACK_ROWS + row);
        s->v[g][1] = w_scale_at(at, group * PREPACK_ROWS + row + 8);
    }
}
RFG_DEVICE float scale_of(const struct scales *s, int group, int i)
{
#if SHARE_SCALES
    return __shfl_sync(0xffffffffu, s->v[0][i], group, 4);
#else
    return s->v[group][i];
#endif
}

/* Adds a step. n: the wave's first block. */
RFG_DEVICE void multiply(float (*d)[FRAGS_M][4], const char *stage, int n)
{
    int row = rfg_lane() / 4, chunk = rfg_lane() % 4;
    const char *w_at = stage + n * 1024 + chunk * 256 + (row * 16 ^ chunk * 32), *x_at = stage + X_AT + row * 256;
    rfg_u32x4 w[FRAGS_N][2];
    struct scales scales[FRAGS_N];
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
        w[j][0] = *(const rfg_u32x4 *)(w_at + j * 1024);
        w[j][1] = *(const rfg_u32x4 *)(w_at + j * 1024 + 128); /* eight rows on: the same bits otherwise */
        read_scales(&scales[j], stage + SCALES_AT + (n + j) * SCALE_BYTES);
    }
#pragma unroll
    for (int g = 0; g < W_GROUPS; g++) {
        float sum[FRAGS_N][FRAGS_M][4];
#pragma unroll
        for (int h = 0; h < W_GROUP_STEPS; h++) {
            int part = g * W_GROUP_STEPS + h;
            rfg_u32x4 x[FRAGS_M];
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
                x[i] = *(const rfg_u32x4 *)(x_at + i * 2048 + ((part * 4 + chunk) ^ row % 2 * 4) * 16);
#pragma unroll
            for (int j = 0; j < FRAGS_N; j++) {
                rfg_u32x4 rows[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
#if W_ZERO
                    const char *zero = stage + ZEROS_AT + (n + j) * ZERO_BYTES + g * PREPACK_ROWS + row + i * 8;
                    w_offset offset = w_offset_of(*(const signed char *)zero);
#else
                    w_offset offset = w_offset_of(0);
#endif
                    rows[i] = w_decode(w_word(w[j][i], part), offset);
                }
#pragma unroll
                for (int i = 0; i < FRAGS_M; i++) {
                    if (h == 0)
                        sum[j][i][0] = sum[j][i][1] = sum[j][i][2] = sum[j][i][3] = 0.0f;
                    rfg_mma_16x8(sum[j][i], rows, x[i], IN_DTYPE);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) {
            float scale[2] = { scale_of(&scales[j], g, 0), scale_of(&scales[j], g, 1) };
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    d[j][i][e] = rfg_fma(sum[j][i][e], scale[e / 2], d[j][i][e]);
        }
    }
}

RFG_DEVICE void store_one(const struct gemm_args *a, int m, int n, float x)
{
    if (GATED) /* lanes that differ by 4 have neighbouring columns */
        store_lanes(a, m, n, 0, x, 4, m < a->m && n < a->n);
    else if (m < a->m && n < a->n)
        store_1(a, m, n, 0, x);
}

/* Stores a block: number `16 rows of W` + BLOCKS_N * `8 rows of X`. */
RFG_DEVICE void store_block(const struct gemm_args *a, int m0, int n0, int block, rfg_f32x4 v)
{
    int n = n0 + block % BLOCKS_N * 16 + rfg_lane() / 4, m = m0 + block / BLOCKS_N * 8 + rfg_lane() % 4 * 2;
    store_one(a, m, n, v.x);
    store_one(a, m + 1, n, v.y);
    store_one(a, m, n + 8, v.z);
    store_one(a, m + 1, n + 8, v.w);
}

#if SPLIT > 1
RFG_KERNEL_CLUSTER(THREADS, SPLIT)
#else /* a cluster of one would cost 0.1 us a launch */
RFG_KERNEL(THREADS)
#endif
gemm_w4_mma(struct gemm_args a)
{
    char *lds = (char *)rfg_lds, *ring = lds + RING_AT;
    rfg_u64 *arrival = (rfg_u64 *)lds, *full = arrival + 1, *empty = full + W4_MAX_STAGES;
    int stages = (int)((rfg_lds_bytes() - RING_AT) / STEP_BYTES);
    stages = stages < W4_MAX_STAGES ? stages : W4_MAX_STAGES;
    int tid = rfg_thread(), rank = SPLIT == 1 ? 0 : rfg_group_x() % SPLIT, tile = rfg_group_x() / SPLIT;
    rfg_start_next();
#if EXPERTS
    int tiles_n = (a.n - 1) / TILE_N + 1, m0 = 0, n0 = tile % tiles_n * TILE_N;
    rfg_await_previous(); /* which may have sorted the rows */
    if (!take_tile(&a, TILE_M, tile / tiles_n))
        return;
#else
    int tiles_m = (a.m - 1) / TILE_M + 1, m0 = tile % tiles_m * TILE_M, n0 = tile / tiles_m * TILE_N;
#endif
    int all = (a.k - 1) / PREPACK4_COLS + 1, first = rfg_share_begin(all, rank, SPLIT);
    int steps = rfg_share_begin(all, rank + 1, SPLIT) - first;
    int owned = W4_BLOCKS(TILE_M, TILE_N) - rank * OWN < OWN ? W4_BLOCKS(TILE_M, TILE_N) - rank * OWN : OWN;

    if (tid == 0) {
        for (int i = 0; i < stages; i++) {
            rfg_arrival_init(full + i, W_THREADS + X_THREADS);
            rfg_arrival_init(empty + i, N_WAVES);
        }
        if (SPLIT > 1) {
            rfg_arrival_init(arrival, 1);
            rfg_arrive_expect(arrival, owned > 0 ? (rfg_u32)owned * (PARTS * W4_BLOCK_BYTES) : 0);
        }
    }
    if (SPLIT > 1)
        rfg_cluster_arrive_first();
    rfg_barrier_lds();

    if (tid >= MMA_WAVES * RFG_WAVE + W_THREADS) {
        rfg_await_previous();
        copy_x(&a, rfg_lds_address(ring), full, empty, stages, m0, first, steps,
               tid - (MMA_WAVES * RFG_WAVE + W_THREADS));
        rfg_async_wait_all();
    } else if (tid >= MMA_WAVES * RFG_WAVE) {
        copy_w(&a, rfg_lds_address(ring), full, empty, stages, n0, first, steps, tid - MMA_WAVES * RFG_WAVE);
        rfg_await_previous();
        rfg_async_wait_all();
    } else {
        int set = rfg_wave() / N_WAVES, n = rfg_wave() % N_WAVES * FRAGS_N;
        struct rfg_stage s = { set, 0 };
        float d[FRAGS_N][FRAGS_M][4];
#pragma unroll
        for (int i = 0; i < FRAGS_N * FRAGS_M * 4; i++)
            d[i / 4 / FRAGS_M][i / 4 % FRAGS_M][i % 4] = 0.0f;
        rfg_await_previous();
#pragma unroll 1
        for (int step = set; step < steps; step += K_WAVES) {
            rfg_arrival_wait(full + s.at, s.odd);
            multiply(d, ring + s.at * STEP_BYTES, n);
            __syncwarp();
            if (rfg_lane() == 0)
                rfg_arrive(empty + s.at);
            s.at += K_WAVES;
            if (s.at >= stages) {
                s.at -= stages;
                s.odd ^= 1;
            }
        }
        if (SPLIT > 1)
            rfg_cluster_wait(); /* since the beginning: the others are there, and expect something */
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++) {
                int block = n + j + BLOCKS_N * i, part = rank * K_WAVES + set;
                rfg_f32x4 v;
                v.x = d[j][i][0];
                v.y = d[j][i][1];
                v.z = d[j][i][2];
                v.w = d[j][i][3];
                char *to = lds + W4_PARTIALS_AT + (block % OWN * PARTS + part) * W4_BLOCK_BYTES + rfg_lane() * 16;
                if (SPLIT > 1) {
                    rfg_u32x4 u;
                    u.x = rfg_as_u32(v.x);
                    u.y = rfg_as_u32(v.y);
                    u.z = rfg_as_u32(v.z);
                    u.w = rfg_as_u32(v.w);
                    rfg_cluster_send16(to, arrival, block / OWN, u);
                } else if (PARTS > 1) {
                    *(rfg_f32x4 *)to = v;
                } else {
                    store_block(&a, m0, n0, block, v);
                }
            }
    }
#if PARTS > 1
    if (SPLIT > 1 && tid >= MMA_WAVES * RFG_WAVE)
        rfg_cluster_wait();
    if (SPLIT == 1)
        rfg_barrier_lds();
    else if (owned > 0)
        rfg_arrival_wait(arrival, 0);
#pragma unroll 1
    for (int own = rfg_wave(); own < owned; own += WAVES) {
        const rfg_f32x4 *parts = (const rfg_f32x4 *)(lds + W4_PARTIALS_AT + own * PARTS * W4_BLOCK_BYTES) + rfg_lane();
        rfg_f32x4 sum = parts[0];
#pragma unroll 8
        for (int i = 1; i < PARTS; i++)
            sum = rfg_add_f32x4(sum, parts[i * (W4_BLOCK_BYTES / 16)]);
        store_block(&a, m0, n0, rank * OWN + own, sum);
    }
#endif
}
