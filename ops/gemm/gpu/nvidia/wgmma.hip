/* SPDX-License-Identifier: MIT
 *
 * gemm on Hopper's asynchronous matrix instructions, for decode's few rows of X: loads of W are issued as early and as
 * many as possible, and little is left to do after the last of them.
 *
 * An instruction takes 64 rows of one operand, A, and 8 to 128 of the other, B. With SWAP, for small M, A is of W and B
 * of X. Without, for small N, A is of X; if X has less than 64 rows, the rows that follow in LDS are multiplied as
 * well, and their sums are not stored. One warpgroup multiplies for each 64 rows of A. Other waves copy W, and others
 * X, so that copies of W wait neither for X nor for the previous launch. Copies go to a ring of steps of TILE_K in LDS,
 * as many as the launch gives LDS for. Each step has two arrivals: one counts the threads that copy, the other the
 * waves that have used it.
 *
 * k is split across a cluster of SPLIT workgroups. Each owns some blocks of the tile of Y; all send their partial sums
 * of a block from registers to the owner's LDS, and the owner adds them in the order of the ranks. The reduction uses
 * no global memory and no counters, and its result doesn't depend on the order of arrival. A block is what a wave holds
 * of eight columns of B: four registers of each lane, 512 contiguous bytes in LDS, so that there are no bank conflicts.
 *
 * The matrix unit's sums of fp8 have about 14 bits, so of codes it sums GEMM_SCALE_BLOCK columns, which are multiplied
 * by their scales, if these are of blocks, and added in fp32. A step's scales are copied to LDS with it.
 *
 * Budget of a step: (TILE_M + TILE_N) * WIDTH bytes to LDS, 16 a thread and copy; WIDTH / 32 instructions for each
 * warpgroup that multiplies. W is read once for each tile along m. What binds is memory.
 *
 * Macros: those of load.h and epilogue.h (X and W fp16, bf16, e4m3, e5m2 or i8; scales of blocks fp32), SWAP, TILE_M,
 * TILE_N (A's: 64 or 128, B's: 8 to 128; A's TILE_M may be 8, 16, 32 if M isn't more), TILE_K (128 or 256 bytes), SPLIT
 * (1 to 16). Grid: tiles along m, fastest, times tiles along n, times SPLIT, neighbours. LDS: RING_AT, 2 to MAX_STAGES
 * steps, BEYOND. Needs rows of X and W aligned to 16 bytes, whole chunks of them, and at least SPLIT steps, the last of
 * which may be cut short. */
#include "rfg_device.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/nvidia/cluster_sums.h"
#include "gemm/gpu/nvidia/wgmma_layout.h"

#if SWAP
#define ROWS_A TILE_N
#define ROWS_B TILE_M
#else
#define ROWS_A TILE_M
#define ROWS_B TILE_N
#endif
#define WIDTH       (TILE_K * X_BYTES)
#define CHUNKS      (WIDTH / 16)
#define STEP_BLOCKS (WIDTH / 128) /* of the swizzle; of codes, of 128 columns */
#define MMA_THREADS (128 * WGMMA_GROUPS(ROWS_A))
#define W_THREADS   WGMMA_COPIERS(TILE_N, WIDTH)
#define X_THREADS   WGMMA_COPIERS(TILE_M, WIDTH)
#define THREADS     WGMMA_THREADS(ROWS_A, TILE_M, TILE_N, WIDTH)
#define WAVES       (THREADS / RFG_WAVE)

#define MAX_STAGES   WGMMA_MAX_STAGES
#define A_WAVES      WGMMA_A_WAVES(ROWS_A)
#define BLOCKS       WGMMA_BLOCKS(ROWS_A, ROWS_B)
#define OWN          WGMMA_OWNED(ROWS_A, ROWS_B, SPLIT)
#define BLOCK_BYTES  WGMMA_BLOCK_BYTES
#define RING_AT      WGMMA_RING_AT(ROWS_A, ROWS_B, SPLIT)
#define STEP_BYTES   WGMMA_STEP_BYTES(TILE_M, TILE_N, WIDTH)
#define X_STEP_BYTES (TILE_M * WIDTH)
#define BEYOND       WGMMA_BEYOND(ROWS_A)
#define SCALE_BYTES  (SCALES == GEMM_SCALES_BLOCKS ? WGMMA_SCALE_BYTES(TILE_M, WIDTH) : 0)

static_assert(WIDTH == 128 || WIDTH == 256, "a step is not one or two blocks of the swizzle");
static_assert(THREADS == MMA_THREADS + W_THREADS + X_THREADS, "threads of the workgroup that have nothing to do");
static_assert((1 + 2 * MAX_STAGES) * sizeof(rfg_u64) <= WGMMA_PARTIALS_AT, "arrivals reach into the partial sums");
static_assert(BLOCK_BYTES == RFG_WAVE * sizeof(rfg_f32x4), "a block is not four floats of each lane");
static_assert(SPLIT == 1 || WGMMA_PARTIALS_AT + OWN * SPLIT * BLOCK_BYTES <= RING_AT,
              "partial sums reach into the ring");

/* What a thread copies of a tile: one chunk of every PASS_ROWS-th row. */
struct copier {
    const char *from; /* the first of these chunks, in the step that comes next */
    long long pass;   /* bytes to the next one */
    rfg_u32 to;       /* where it goes in stage 0 */
    int rows;         /* how many of them exist */
    int left;         /* chunks left of the row; 0 or less: beyond K */
};
#define PASS_ROWS(threads)    ((threads) / CHUNKS)
#define PASSES(rows, threads) ((rows) / PASS_ROWS(threads))

/* t: this thread among those who copy; rows: of the matrix; ld: elements from row to row; tile: in stage 0. */
RFG_DEVICE void copier_init(struct copier *c, int t, int threads, const void *base, int rows, long long ld, int k,
                            int row0, int first_step, rfg_u32 tile, int tile_rows)
{
    int row = t / CHUNKS, chunk = t % CHUNKS, at = first_step * CHUNKS + chunk;
    int exist = rows - row0 < tile_rows ? rows - row0 : tile_rows;
    c->from = (const char *)base + ((row0 + row) * ld + at * (long long)X_VEC) * X_BYTES;
    c->pass = PASS_ROWS(threads) * ld * X_BYTES;
    c->to = tile + (rfg_u32)(chunk / 8 * (tile_rows * 128)) + rfg_wg_at(row, chunk % 8);
    c->rows = exist > row ? (exist - row - 1) / PASS_ROWS(threads) + 1 : 0;
    c->left = k / X_VEC - at;
}

/* Rows that don't exist are left as they are: they only reach rows or columns of Y that don't exist. Chunks beyond K
 * must be zero. */
RFG_DEVICE void copy_step(struct copier *c, int stage, int tile_rows, int threads, bool once)
{
    bool in = c->left > 0;
    rfg_u32 to = c->to + (rfg_u32)stage * STEP_BYTES;
    if (c->rows == PASSES(tile_rows, threads)) {
#pragma unroll
        for (int i = 0; i < PASSES(tile_rows, threads); i++)
            rfg_async_copy16_at(to + (rfg_u32)(i * PASS_ROWS(threads) * 128), c->from + i * c->pass, in, once);
    } else {
        const char *from = c->from;
#pragma unroll 1
        for (int i = 0; i < c->rows; i++) {
            rfg_async_copy16_at(to, from, in, once);
            to += PASS_ROWS(threads) * 128; /* a multiple of 8 rows, or one pass is all */
            from += c->pass;
        }
    }
    c->from += WIDTH;
    c->left -= CHUNKS;
}

/* What a thread copies of the scales of blocks: one of each block of a step, or none. */
struct scale_copier {
    const float *from; /* of the block that comes next */
    int next;          /* to the one after it */
    int left;          /* blocks left of the row; 0 or less: beyond K, or there is nothing to copy */
    rfg_u32 to;        /* where it goes in stage 0 */
};

#if SCALES == GEMM_SCALES_BLOCKS
/* row: of the scales; place: in those of a block. */
RFG_DEVICE void scale_copier_init(struct scale_copier *c, bool mine, const void *base, long long row, int next, int k,
                                  int first_step, rfg_u32 scales, int place)
{
    int block = first_step * STEP_BLOCKS;
    c->from = (const float *)base + row + block * (long long)next;
    c->next = next;
    c->left = mine ? (k - 1) / GEMM_SCALE_BLOCK + 1 - block : 0;
    c->to = scales + (rfg_u32)place * 4;
}

/* Of blocks beyond K they are zero, as the codes are. */
RFG_DEVICE void copy_scales(struct scale_copier *c, int stage)
{
    if (c->left <= 0)
        return;
#pragma unroll
    for (int b = 0; b < STEP_BLOCKS; b++)
        rfg_async_copy4_at(c->to + (rfg_u32)(stage * SCALE_BYTES + b * (WGMMA_SCALES(TILE_M) * 4)),
                           b < c->left ? c->from + b * (long long)c->next : c->from, b < c->left);
    c->from += STEP_BLOCKS * (long long)c->next;
    c->left -= STEP_BLOCKS;
}
#else
RFG_DEVICE void copy_scales(struct scale_copier *c, int stage)
{
    (void)c, (void)stage;
}
#endif

/* All steps of a tile, as far as there is room. */
RFG_DEVICE void copy_all(struct copier *c, struct scale_copier *scale, int steps, int stages, rfg_u64 *full,
                         rfg_u64 *empty, int tile_rows, int threads, bool once)
{
    struct rfg_stage s = { 0, 0 };
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        if (step >= stages)
            rfg_arrival_wait(empty + s.at, s.odd ^ 1);
        copy_step(c, s.at, tile_rows, threads, once);
        copy_scales(scale, s.at);
        rfg_arrive_copies(full + s.at);
        rfg_next_stage(&s, stages);
    }
}

#if RFG_IS_CODE(IN_DTYPE)
#define PARTS WGMMA_PARTS(ROWS_A, ROWS_B, WIDTH)
#if IN_DTYPE == RFG_I8
typedef int part_sum;
#define multiply_part(d, rows_a, rows_b, add) rfg_wg_mma_i8(ROWS_B, d, rows_a, rows_b, add)
#define read_part(d)                          rfg_wg_read_i8(d)
#else
typedef float part_sum;
#define multiply_part(d, rows_a, rows_b, add) rfg_wg_mma(ROWS_B, d, rows_a, rows_b, add, IN_DTYPE)
#define read_part(d)                          rfg_wg_read(d)
#endif

/* Adds sums of 128 columns, multiplied by their scales. */
RFG_DEVICE void add_part(float *d, part_sum *part, const float *scales)
{
#if SCALES == GEMM_SCALES_BLOCKS
    float w = scales[TILE_M], s[4];
#if !SWAP
    int row = rfg_wave() * 16 + rfg_lane() / 4; /* rows beyond TILE_M are not stored */
    s[0] = s[1] = w * scales[row % TILE_M];
    s[2] = s[3] = w * scales[(row + 8) % TILE_M];
#endif
#pragma unroll
    for (int j = 0; j < ROWS_B / 8; j++) {
#if SWAP
        rfg_f32x2 x = *(const rfg_f32x2 *)(scales + j * 8 + rfg_lane() % 4 * 2);
        s[0] = s[2] = w * x.x;
        s[1] = s[3] = w * x.y;
#endif
#pragma unroll
        for (int i = 0; i < 4; i++)
            d[4 * j + i] = rfg_fma(read_part(part[4 * j + i]), s[i], d[4 * j + i]);
    }
#else
    (void)scales;
#pragma unroll
    for (int i = 0; i < ROWS_B / 2; i++)
        d[i] += read_part(part[i]);
#endif
}

/* Begins with block b of 128 columns of a stage. */
RFG_DEVICE void begin_part(part_sum *part, rfg_u64 rows_a, rfg_u64 rows_b, int stage, int b)
{
    rfg_u32 offset = (rfg_u32)stage * (STEP_BYTES / 16);
    rfg_wg_fence();
#pragma unroll
    for (int i = 0; i < 4; i++)
        multiply_part(part, rows_a + offset + b * (ROWS_A * 8) + i * 2, rows_b + offset + b * (ROWS_B * 8) + i * 2,
                      i > 0);
    rfg_wg_commit();
}

/* All lanes of the wave have read a stage, its scales too. */
RFG_DEVICE void leave_stage(rfg_u64 *empty, int stage)
{
    __syncwarp();
    if (rfg_lane() == 0)
        rfg_arrive(empty + stage);
}

/* The sums of `steps` steps that a thread has. rows_a, rows_b, scales: of the first stage. */
RFG_DEVICE void multiply(float *d, rfg_u64 rows_a, rfg_u64 rows_b, const char *scales, int steps, int stages,
                         rfg_u64 *full, rfg_u64 *empty)
{
#define SCALES_OF(stage, b) (const float *)(scales + (stage)*SCALE_BYTES + (b) * (WGMMA_SCALES(TILE_M) * 4))
    struct rfg_stage s = { 0, 0 };
    int step = 0;
    /* Of two one is added while the other is multiplied. (None is under way from step to step: the compiler would then
     * wait after each instruction.) */
    part_sum part[PARTS][ROWS_B / 2];
#pragma unroll
    for (int i = 0; i < PARTS * ROWS_B / 2; i++)
        part[i / (ROWS_B / 2)][i % (ROWS_B / 2)] = 0;
    do {
        rfg_arrival_wait(full + s.at, s.odd);
        rfg_wg_see();
#pragma unroll
        for (int b = 0; b < STEP_BLOCKS; b += PARTS) {
            begin_part(part[0], rows_a, rows_b, s.at, b);
            if (PARTS > 1) {
                begin_part(part[PARTS - 1], rows_a, rows_b, s.at, b + 1);
                rfg_wg_wait(1);
                add_part(d, part[0], SCALES_OF(s.at, b));
            }
            rfg_wg_wait(0);
            add_part(d, part[PARTS - 1], SCALES_OF(s.at, b + PARTS - 1));
        }
        leave_stage(empty, s.at);
        rfg_next_stage(&s, stages);
    } while (++step < steps);
#undef SCALES_OF
}
#endif

RFG_DEVICE void store_one(const struct gemm_args *a, int m, int n, float x)
{
    if (GATED) { /* lanes that differ by 4 have neighbouring columns */
        store_lanes(a, m, n, 0, x, 4, m < a->m && n < a->n);
        return;
    }
    if (m >= a->m || n >= a->n)
        return;
    store_1(a, m, n, 0, x);
}

/* Stores a block: number `wave of those that multiply` + A_WAVES * `eight columns of B`. */
RFG_DEVICE void store_block(const struct gemm_args *a, int m0, int n0, int block, rfg_f32x4 v)
{
    int row = block % A_WAVES * 16 + rfg_lane() / 4, col = block / A_WAVES * 8 + rfg_lane() % 4 * 2;
    if (SWAP) {
        store_one(a, m0 + col, n0 + row, v.x);
        store_one(a, m0 + col + 1, n0 + row, v.y);
        store_one(a, m0 + col, n0 + row + 8, v.z);
        store_one(a, m0 + col + 1, n0 + row + 8, v.w);
    } else {
        store_2(a, m0 + row, n0 + col, v.x, v.y);
        store_2(a, m0 + row + 8, n0 + col, v.z, v.w);
    }
}

#if SPLIT > 1
RFG_KERNEL_CLUSTER(THREADS, SPLIT)
#else /* a cluster of one would cost 0.1 us a launch */
RFG_KERNEL(THREADS)
#endif
gemm_wgmma(struct gemm_args a)
{
    char *lds = (char *)rfg_wg_lds, *ring = lds + RING_AT;
    rfg_u64 *arrival = (rfg_u64 *)lds, *full = arrival + 1, *empty = full + MAX_STAGES;
    int stages = (int)((rfg_lds_bytes() - RING_AT - BEYOND) / (STEP_BYTES + SCALE_BYTES));
    char *scales = ring + stages * STEP_BYTES + BEYOND;
    int tid = rfg_thread(), rank = rfg_group_x() % SPLIT, tile = rfg_group_x() / SPLIT;
    int tiles_m = (a.m - 1) / TILE_M + 1;
    int m0 = tile % tiles_m * TILE_M, n0 = tile / tiles_m * TILE_N;
    int all_steps = (a.k - 1) / TILE_K + 1;
    int first = rfg_share_begin(all_steps, rank, SPLIT);
    int steps = rfg_share_begin(all_steps, rank + 1, SPLIT) - first;
    int owned = BLOCKS - rank * OWN < OWN ? BLOCKS - rank * OWN : OWN; /* blocks; 0 or less: none */
    struct copier c;
    struct scale_copier scale = { 0 };

    rfg_start_next();
    if (tid == 0) { /* all by one thread: lanes with an arrival each would take turns, 50 clocks each */
        for (int i = 0; i < stages; i++) {
            rfg_arrival_init(full + i, W_THREADS + X_THREADS);
            rfg_arrival_init(empty + i, MMA_THREADS / RFG_WAVE);
        }
        if (SPLIT > 1)
            expect_blocks(arrival, owned, SPLIT * BLOCK_BYTES);
    }
    if (SPLIT > 1)
        rfg_cluster_arrive_first();
    rfg_barrier_lds();

    if (tid >= MMA_THREADS + W_THREADS) {
        rfg_await_previous();
        copier_init(&c, tid - (MMA_THREADS + W_THREADS), X_THREADS, a.x, a.m, GEMM_LDX(&a), a.k, m0, first,
                    rfg_lds_address(ring), TILE_M);
#if SCALES == GEMM_SCALES_BLOCKS
        int row = tid - (MMA_THREADS + W_THREADS);
        static_assert(X_THREADS >= TILE_M, "not all scales of X are copied");
        scale_copier_init(&scale, row < TILE_M && m0 + row < a.m, a.x_scale, (m0 + row) * (long long)a.x_scale_row,
                          a.x_scale_col, a.k, first, rfg_lds_address(scales), row);
#endif
        copy_all(&c, &scale, steps, stages, full, empty, TILE_M, X_THREADS, false);
        rfg_async_wait_all();
    } else if (tid >= MMA_THREADS) {
        copier_init(&c, tid - MMA_THREADS, W_THREADS, a.w, a.n, GEMM_LDW(&a), a.k, n0, first,
                    rfg_lds_address(ring) + X_STEP_BYTES, TILE_N);
#if SCALES == GEMM_SCALES_BLOCKS
        static_assert(GEMM_SCALE_BLOCK % TILE_N == 0, "a tile has several scales of W");
        scale_copier_init(&scale, tid == MMA_THREADS, a.w_scale, n0 / GEMM_SCALE_BLOCK * (long long)a.w_scale_row,
                          a.w_scale_col, a.k, first, rfg_lds_address(scales), TILE_M);
#endif
        copy_all(&c, &scale, steps, stages, full, empty, TILE_N, W_THREADS, true);
        rfg_await_previous();
        rfg_async_wait_all();
    } else {
#if !RFG_IS_CODE(IN_DTYPE)
        struct rfg_stage s = { 0, 0 };
        int before = 0, step = 0; /* before: the stage of the step before */
#endif
        float d[ROWS_B / 2];
#pragma unroll
        for (int i = 0; i < ROWS_B / 2; i++)
            d[i] = 0.0f;
        rfg_u64 rows_a = rfg_wg_rows(ring + (SWAP ? X_STEP_BYTES : 0) + tid / 128 * (64 * 128));
        rfg_u64 rows_b = rfg_wg_rows(ring + (SWAP ? 0 : X_STEP_BYTES));
        rfg_await_previous();
#if SCALES == GEMM_SCALES_ROWS
        if (tid < TILE_N)
            expect_w_scale(&a, n0 + (long long)tid);
        if (tid < TILE_M)
            expect_x_scale(&a, m0 + (long long)tid);
#endif
#if RFG_IS_CODE(IN_DTYPE)
        multiply(d, rows_a, rows_b, scales, steps, stages, full, empty);
#else
        (void)scales;
        do { /* there is one, always; if the compiler had to think of none, it would wait after each instruction */
            rfg_arrival_wait(full + s.at, s.odd);
            rfg_wg_see();
            rfg_wg_fence();
#pragma unroll
            for (int i = 0; i < TILE_K / 16; i++) {
                rfg_u32 offset = (rfg_u32)s.at * (STEP_BYTES / 16) + i % 4 * 2;
                rfg_wg_mma(ROWS_B, d, rows_a + offset + i / 4 * (ROWS_A * 8), rows_b + offset + i / 4 * (ROWS_B * 8), 1,
                           IN_DTYPE);
            }
            rfg_wg_commit();
            rfg_wg_wait(1);
            if (step > 0 && rfg_lane() == 0)
                rfg_arrive(empty + before);
            before = s.at;
            rfg_next_stage(&s, stages);
        } while (++step < steps);
        rfg_wg_wait(0);
        rfg_wg_settle(d, ROWS_B / 2);
#endif

        if (SPLIT > 1)
            rfg_cluster_wait(); /* since the beginning: the others are there, and expect something */
#pragma unroll
        for (int j = 0; j < ROWS_B / 8; j++) {
            int block = j * A_WAVES + rfg_wave();
            rfg_f32x4 v;
            v.x = d[4 * j];
            v.y = d[4 * j + 1];
            v.z = d[4 * j + 2];
            v.w = d[4 * j + 3];
            if (ROWS_A % 64 && rfg_wave() >= A_WAVES) {
                /* nothing of the tile */
            } else if (SPLIT > 1) {
                char *to = lds + WGMMA_PARTIALS_AT + (block % OWN * SPLIT + rank) * BLOCK_BYTES + rfg_lane() * 16;
                send_4(to, arrival, block / OWN, v.x, v.y, v.z, v.w);
            } else {
                store_block(&a, m0, n0, block, v);
            }
        }
    }
    if (SPLIT > 1 && tid >= MMA_THREADS)
        rfg_cluster_wait();
    if (SPLIT == 1 || owned <= 0)
        return;

    rfg_arrival_wait(arrival, 0);
#pragma unroll 1
    for (int own = rfg_wave(); own < owned; own += WAVES) {
        const rfg_f32x4 *parts = (const rfg_f32x4 *)(lds + WGMMA_PARTIALS_AT + own * SPLIT * BLOCK_BYTES) + rfg_lane();
        rfg_f32x4 part[SPLIT];
#pragma unroll
        for (int i = 0; i < SPLIT; i++)
            part[i] = parts[i * (BLOCK_BYTES / 16)];
#pragma unroll
        for (int i = 1; i < SPLIT; i++)
            part[0] = rfg_add_f32x4(part[0], part[i]);
        store_block(&a, m0, n0, rank * OWN + own, part[0]);
    }
}
