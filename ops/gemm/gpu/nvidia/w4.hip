/* SPDX-License-Identifier: MIT
 *
 * gemm of a prepacked W of 4 bits, or of one of 8 (w8.h), for few rows of X on NVIDIA's mma.sync from Hopper on. A row
 * of W has a quarter or a half of a row of X's bytes, so a tile has many rows of W, or reading X would take longer than reading W; and what is under way
 * is in LDS, for there are not registers enough to hold it.
 *
 * Some waves copy W with its scales, others X, so that copies of W wait neither for X nor for the previous launch.
 * Copies go to a ring of steps of 128 columns in LDS, as many as the launch gives LDS for. Each step has two arrivals:
 * one counts the threads that copy, the other the waves that have used it. Of the waves that multiply K_WAVES sets take
 * steps in turn. A wave has FRAGS_N x 16 rows of W, the instruction's A, and all TILE_M rows of X, 8 of which are its
 * B. W becomes fragments of X's format exactly, in registers; the sums of a group are multiplied by their rows' scales,
 * in fp32, which takes an instruction for each sum, where scaling W would take one for each element and a rounding.
 * Groups of 16 columns: w4_fine.h; nvfp4: w4_nvfp4.h.
 *
 * WGMMA, for more rows: a warpgroup has 64 rows of W in registers, the asynchronous instruction's A; its B is X in LDS.
 * Of a chunk of W a lane has 8 columns, but of 16 the instruction wants two and the two 8 further on in each of four
 * lanes. So X's columns are written to LDS in W's order, by waves that have them in registers on the way: of each 32
 * columns, 4 chunks of 4 words, word p of chunk c comes to word c of chunk p.
 *
 * k is split across a cluster of SPLIT workgroups. Each owns some blocks of the tile of Y; all waves send their sums of
 * a block from registers to the owner's LDS, and the owner adds them in the order of ranks and sets. The reduction uses
 * no global memory and no counters, and its result doesn't depend on the order of arrival.
 *
 * In LDS chunk c (of 8 columns in each 32) of row r of 16 is at c * 256 + (r * 16 ^ c * 32), chunk c of row m of X at m
 * * 256 + (c ^ m % 2 * 4) * 16: eight lanes that read at one time have other banks each.
 *
 * Budget of a step of 128 columns: 64 bytes for each row of W, 256 for each of X, and the scales. A wave decodes 8
 * words of W a lane for each of its FRAGS_N, for 8 FRAGS_N FRAGS_M mma of 16x8x16 (with WGMMA for 8 FRAGS_N
 * instructions of 64 x TILE_M x 16 a warpgroup). What binds is memory for few rows, instructions for many.
 *
 * Macros: those of load.h and epilogue.h (X fp16 or bf16, W prepacked i4 or e2m1, or of 8 bits), WGMMA, TILE_M (8, 16, 32,
 * 64; with
 * WGMMA 16 to 128), TILE_N (a multiple of 32; with WGMMA of 64 FRAGS_N), FRAGS_N, K_WAVES, SPLIT (1 to 16). Grid:
 * SPLIT neighbours for each tile, tiles along m first; of grouped products, along n first. LDS: RING_AT and the stages,
 * as W4_STAGES has them. Needs rows of X aligned to 16 bytes, K % 8 = 0, and at least SPLIT steps. */
#include "rfg_device.h"
#include "rfg_tma.h"
#include "rfg_wgmma_a.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/experts.h"
#include "gemm/gpu/nvidia/cluster_sums.h"
#include "gemm/gpu/nvidia/w4_layout.h"

#define N_WAVES   W4_N_WAVES(TILE_N, FRAGS_N)
#define MMA_WAVES (N_WAVES * K_WAVES)
#define W_THREADS (W4_W_WAVES * RFG_WAVE)
#define X_THREADS (W4_X_WAVES(TILE_M, WGMMA) * RFG_WAVE)
#define THREADS   W4_THREADS(MMA_WAVES, TILE_M, WGMMA)

#define BLOCKS_N (TILE_N / 16)
#define FRAGS_M  (TILE_M / 8)
#define OWN      W4_OWNED(TILE_M, TILE_N, SPLIT)
#define PARTS    (SPLIT * K_WAVES)
#define RING_AT  W4_RING_AT(TILE_M, TILE_N, SPLIT, PARTS, WGMMA)

#if W_IS_8_BITS
#define GROUP_SCALES 0
#define W_STEP       128 /* bytes of a row in a step */
#define X_SWIZZLE    1
#else
#define GROUP_SCALES (W_GROUPS * PREPACK_ROWS * W_SCALE_BYTES) /* bytes of 16 rows, in a step */
#define W_STEP       64
#define X_SWIZZLE    (FINE ? 2 : 4)
#endif
#define FINE       (W_IS_4_BITS && !W_IS_NVFP4 && W_GROUP < 32) /* w4_fine.h */
#define ZERO_BYTES (W_ZERO ? W_GROUPS * PREPACK_ROWS : 0)
#define STEP_BYTES W4_STEP_BYTES(TILE_M, TILE_N, W_STEP, GROUP_SCALES, ZERO_BYTES, WGMMA)
#define X_AT       (TILE_N * W_STEP)
#define SCALES_AT  (X_AT + TILE_M * 256)
#define ZEROS_AT   (SCALES_AT + BLOCKS_N * GROUP_SCALES)

static_assert(TILE_N % 32 == 0 && BLOCKS_N % FRAGS_N == 0, "a tile's rows are not shared out evenly");
static_assert((1 + 2 * W4_MAX_STAGES) * sizeof(rfg_u64) <= W4_PARTIALS_AT, "arrivals reach into the partial sums");
static_assert(W4_BLOCK_BYTES == RFG_WAVE * sizeof(rfg_f32x4), "a block is not four floats of each lane");

#if W_IS_8_BITS
#include "gemm/gpu/nvidia/w8.h"
#endif

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* A wave copies every W4_W_WAVES-th step of W: a step takes it longer than the others do to use it. A wait tells a
 * round from the next one, not from the one after that. So a ring that is used more than once has W4_LEAST_STAGES or
 * more stages, or a wave could come round to a stage that others have still to fill for the round before; and a
 * multiple of K_WAVES, so that a stage is always the same set's. */
#if !W_IS_8_BITS
struct w_copier {
    const char *from, *scales,
        *zeros;                /* the tile's first 16 rows, in the workgroup's first step; scales, zeros: of all */
    int first, groups, blocks; /* blocks: of 16 rows that there are */
};

/* `bytes` of each 16 rows, which lie `row` apart, in chunks of 16. */
RFG_DEVICE void copy_groups(rfg_u32 to, const char *from, long long row, int bytes, int blocks)
{
#pragma unroll
    for (int i = 0; i < (bytes / 16 * BLOCKS_N + RFG_WAVE - 1) / RFG_WAVE; i++) {
        int chunk = rfg_lane() + i * RFG_WAVE, block = chunk / (bytes / 16), in = chunk % (bytes / 16) * 16;
        if (block < blocks)
            rfg_async_copy16_at(to + (rfg_u32)(block * bytes + in), from + block * row + in, true, true);
    }
}

RFG_DEVICE void copy_w_step(const struct gemm_args *a, const struct w_copier *c, rfg_u32 stage, int step)
{
    int chunk = rfg_lane() / 16, row = rfg_lane() % 16;
    long long apart = (long long)W_COLS(a) * (PREPACK_ROWS / 2);
    rfg_u32 at = (rfg_u32)(chunk * 256 + (row * 16 ^ chunk * 32)); /* a stage begins at a multiple of 16 bytes only */
    rfg_u32 to = stage + at, on = stage + (at ^ 64u) + 512;        /* two chunks on */
    const char *from = c->from + (long long)step * W_FRAG_STEP;
#pragma unroll
    for (int i = 0; i < BLOCKS_N; i++) {
        if (i < c->blocks) {
            rfg_async_copy16_at(to + (rfg_u32)i * 1024, from, true, true);
            rfg_async_copy16_at(on + (rfg_u32)i * 1024, from + 512, true, true);
        }
        from += apart;
    }
    int group = W_GROUP_OF(c->first + step) * PREPACK_ROWS;
    copy_groups(stage + SCALES_AT, c->scales + group * W_SCALE_BYTES,
                (long long)c->groups * (PREPACK_ROWS * W_SCALE_BYTES), GROUP_SCALES, c->blocks);
    if (W_ZERO)
        copy_groups(stage + ZEROS_AT, c->zeros + group, (long long)c->groups * PREPACK_ROWS, ZERO_BYTES, c->blocks);
}

RFG_DEVICE struct w_copier w_copier_of(const struct gemm_args *a, int n0, int first)
{
    int there = (a->n - n0) / PREPACK_ROWS;
    long long block0 = n0 / PREPACK_ROWS;
    struct w_copier c;
    c.first = first;
    c.groups = W_COLS(a) / W_GROUP;
    c.blocks = there < BLOCKS_N ? there : BLOCKS_N;
    c.from = W_CODES_AT(a) + block0 * W_COLS(a) * (PREPACK_ROWS / 2) + (long long)first * W_FRAG_STEP + rfg_lane() * 16;
    c.scales = (const char *)a->w_scale + block0 * c.groups * (PREPACK_ROWS * W_SCALE_BYTES);
    c.zeros = (const char *)W_ZEROS(a) + block0 * c.groups * PREPACK_ROWS;
    return c;
}
#endif

/* The stage `by` steps on. */
RFG_DEVICE void skip_stages(struct rfg_stage *s, int by, int stages)
{
    for (s->at += by; s->at >= stages; s->at -= stages)
        s->odd ^= 1;
}

/* All steps of the tile's W, as far as there is room. The first is asked for before the workgroup meets, which arrivals
 * have to be ready for. */
RFG_DEVICE void copy_w(const struct gemm_args *a, rfg_u32 ring, rfg_u64 *full, rfg_u64 *empty, int stages, int n0,
                       int first, int steps, int wave)
{
    struct w_copier c = w_copier_of(a, n0, first);
    struct rfg_stage s = { 0, 0 };
    skip_stages(&s, wave, stages);
    if (wave < steps && wave < stages)
        copy_w_step(a, &c, ring + (rfg_u32)(wave * STEP_BYTES), wave);
    rfg_barrier_lds();
#pragma unroll 1
    for (int step = wave; step < steps; step += W4_W_WAVES) {
        if (step >= stages)
            rfg_arrival_wait(empty + s.at, s.odd ^ 1);
        if (step >= stages || step > wave)
            copy_w_step(a, &c, ring + (rfg_u32)(s.at * STEP_BYTES), step);
        rfg_arrive_copies(full + s.at);
        skip_stages(&s, W4_W_WAVES, stages);
    }
}

#if WGMMA
static_assert(W4_W_REGISTERS(TILE_M) + W4_X_REGISTERS(TILE_M) +
                      (THREADS / 128 - 2) * W4_MMA_REGISTERS(TILE_M, THREADS / 128) <=
                  THREADS / 128 * W4_LAUNCHED(THREADS / 128),
              "more registers than a launch has");
static_assert(N_WAVES % 4 == 0 && TILE_M % 16 == 0, "a tile is not whole warpgroups' or passes'");

/* And of X, in W's order. Rows that don't exist are copies of the last. Columns beyond K are zero. So many steps are
 * under way at a time: */
#define X_AHEAD  (TILE_M <= 64 ? 2 : 1)
#define X_PASSES (TILE_M / 16) /* of 16 rows by 64 columns, and as many of the other 64 */
RFG_DEVICE void load_x(rfg_u32x4 *v, const char *const *from, int step, int left)
{
#pragma unroll
    for (int i = 0; i < 2 * X_PASSES; i++) {
        int in = step * 256 + i / X_PASSES * 128;
        if (left > in / 16)
            v[i] = rfg_load16(from[i % X_PASSES] + in);
        else
            v[i].x = v[i].y = v[i].z = v[i].w = 0;
    }
}
/* To word c of chunk p, where lane c of the instruction has them: of 4 bits c is the chunk in 32 columns, of 8 the pair
 * of chunks in 64; FINE: of each 16 columns, w4_fine.h's lanes. */
#define X_CHUNK(chunk, p)                                                                                              \
    (FINE ? (chunk) / 2 * 2 + (p) % 2 : W_IS_8_BITS ? (chunk) % 2 * 4 + (p) : (chunk) / 4 * 4 + (p))
#define X_WORD(chunk, p) (FINE ? ((chunk) % 2 + (p) / 2 * 2) * 4 : W_IS_8_BITS ? (chunk) / 2 * 4 : (chunk) % 4 * 4)
RFG_DEVICE rfg_u32 x_word(rfg_u32x4 v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
RFG_DEVICE void store_x(char *to, int row, int chunk, const rfg_u32x4 *v)
{
#pragma unroll
    for (int i = 0; i < 2 * X_PASSES; i++)
#pragma unroll
        for (int p = 0; p < 4; p++)
            *(rfg_u32 *)(to + i / X_PASSES * (TILE_M * 128) + i % X_PASSES * 2048 + rfg_wg_at(row, X_CHUNK(chunk, p)) +
                         X_WORD(chunk, p)) = x_word(v[i], p);
}

RFG_DEVICE void copy_x(const struct gemm_args *a, char *ring, rfg_u64 *full, rfg_u64 *empty, int stages, int m0,
                       int first, int steps, int t)
{
    int row = t / 8, chunk = t % 8, left = a->k / X_VEC - first * 16 - chunk;
    const char *from[X_PASSES];
#pragma unroll
    for (int i = 0; i < X_PASSES; i++) {
        int m = m0 + row + i * 16;
        from[i] = x_row(a, m < a->m ? m : a->m - 1) + (first * 16 + chunk) * 16;
    }
    struct rfg_stage s = { 0, 0 };
    rfg_u32x4 v[X_AHEAD][2 * X_PASSES];
#pragma unroll
    for (int u = 0; u < X_AHEAD; u++)
        if (u < steps)
            load_x(v[u], from, u, left);
#pragma unroll 1
    for (int step = 0; step < steps; step += X_AHEAD)
#pragma unroll
        for (int u = 0; u < X_AHEAD; u++) {
            if (step + u >= steps)
                break;
            if (step + u >= stages)
                rfg_arrival_wait(empty + s.at, s.odd ^ 1);
            store_x(ring + s.at * STEP_BYTES + X_AT, row, chunk, v[u]);
            rfg_arrive(full + s.at);
            if (step + u + X_AHEAD < steps)
                load_x(v[u], from, step + u + X_AHEAD, left);
            rfg_next_stage(&s, stages);
        }
}
#else
/* And of X, each wave every W4_X_WAVES-th step. Rows that don't exist are left as they are: they only reach rows of Y
 * that don't exist. Columns beyond K are zero. */
RFG_DEVICE void copy_x(const struct gemm_args *a, char *lds_ring, rfg_u64 *full, rfg_u64 *empty, int stages, int m0,
                       int first, int steps, int t)
{
    int row = t % RFG_WAVE / 16, chunk = t % 16, wave = t / RFG_WAVE;
    long long apart = GEMM_LDX(a) * (2 * X_BYTES);
    rfg_u32 at = (rfg_u32)(row * 256 + (chunk ^ row * X_SWIZZLE) * 16);
    rfg_u32 to = rfg_lds_address(lds_ring) + X_AT + at,
            on = FINE ? to - at + (at ^ 64u) : to; /* on: every other two rows */
    struct rfg_stage s = { 0, 0 };
    skip_stages(&s, wave, stages);
#pragma unroll 1
    for (int step = wave; step < steps; step += W4_X_WAVES(TILE_M, 0)) {
        bool in = (first + step) * 16 + chunk < a->k / X_VEC;
        if (step >= stages)
            rfg_arrival_wait(empty + s.at, s.odd ^ 1);
        const char *from = (const char *)a->x + (m0 + row) * GEMM_LDX(a) * X_BYTES;
#pragma unroll
        for (int i = 0; i < TILE_M / 2; i++, from += apart)
            if (m0 + row + i * 2 < a->m) {
                const char *p = GATHER ? x_row(a, m0 + row + i * 2) : from;
                rfg_async_copy16_at((i % 2 ? on : to) + (rfg_u32)(s.at * STEP_BYTES + i * 512),
                                    in ? p + ((first + step) * 16 + chunk) * 16 : (const char *)a->x, in, false);
            }
        rfg_arrive_copies(full + s.at);
        skip_stages(&s, W4_X_WAVES(TILE_M, 0), stages);
    }
    rfg_async_wait_all();
}
#endif

/* ---- sums ------------------------------------------------------------------------------------------------------- */

#if W_IS_NVFP4
#include "gemm/gpu/nvidia/w4_nvfp4.h"
#elif !W_IS_8_BITS
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

#if W_ZERO
#define OFFSET_OF(stage, n, group, i)                                                                                  \
    w_offset_of(                                                                                                       \
        *(const signed char *)((stage) + ZEROS_AT + (n)*ZERO_BYTES + (group)*PREPACK_ROWS + rfg_lane() / 4 + (i)*8))
#else
#define OFFSET_OF(stage, n, group, i) w_offset_of(0)
#endif

#if WGMMA
/* Adds a group's sums, once the instructions that make them are through. */
RFG_DEVICE void add_group(float (*d)[4], float *sum, const struct scales *scales, int g)
{
    rfg_wg_commit();
    float scale[2] = { scale_of(scales, g, 0), scale_of(scales, g, 1) };
    rfg_wg_wait(0);
    rfg_wg_settle(sum, FRAGS_M * 4);
#pragma unroll
    for (int i = 0; i < FRAGS_M * 4; i++)
        d[i / 4][i % 4] = rfg_fma(sum[i], scale[i / 2 % 2], d[i / 4][i % 4]);
}
#endif

#if FINE
#include "gemm/gpu/nvidia/w4_fine.h"
#elif WGMMA
/* Adds a step of block n. */
RFG_DEVICE void multiply_block(float (*d)[4], const char *stage, int n)
{
    int row = rfg_lane() / 4, chunk = rfg_lane() % 4;
    const char *w_at = stage + n * 1024 + chunk * 256 + (row * 16 ^ chunk * 32);
    rfg_u32x4 w[2];
    rfg_u32 v[W_STEPS][2][4];
    float sum[FRAGS_M * 4];
    struct scales scales;
    w[0] = *(const rfg_u32x4 *)w_at;
    w[1] = *(const rfg_u32x4 *)(w_at + 128); /* eight rows on: the same bits otherwise */
    read_scales(&scales, stage + SCALES_AT + n * GROUP_SCALES);
#pragma unroll
    for (int h = 0; h < W_STEPS; h++) {
        rfg_u32x4 lo = w_decode(w_word(w[0], h), OFFSET_OF(stage, n, h / W_GROUP_STEPS, 0));
        rfg_u32x4 hi = w_decode(w_word(w[1], h), OFFSET_OF(stage, n, h / W_GROUP_STEPS, 1));
        v[h][0][0] = lo.x;
        v[h][0][1] = hi.x;
        v[h][0][2] = lo.y;
        v[h][0][3] = hi.y;
        v[h][1][0] = lo.z;
        v[h][1][1] = hi.z;
        v[h][1][2] = lo.w;
        v[h][1][3] = hi.w;
    }
#pragma unroll
    for (int i = 0; i < FRAGS_M * 4; i++)
        sum[i] = 0.0f;
    rfg_u64 x = rfg_wg_rows(stage + X_AT);
#pragma unroll
    for (int g = 0; g < W_GROUPS; g++) {
        rfg_wg_fence();
#pragma unroll
        for (int h = g * W_GROUP_STEPS; h < (g + 1) * W_GROUP_STEPS; h++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                rfg_wg_mma_a(TILE_M, sum, v[h][i], x + h / 2 * (TILE_M * 8) + (h % 2 * 2 + i) * 2,
                             h > g * W_GROUP_STEPS || i > 0, IN_DTYPE);
        add_group(d, sum, &scales, g);
    }
}
#else
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
        read_scales(&scales[j], stage + SCALES_AT + (n + j) * GROUP_SCALES);
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
                for (int i = 0; i < 2; i++)
                    rows[i] = w_decode(w_word(w[j][i], part), OFFSET_OF(stage, n + j, g, i));
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
#endif
#endif

#if WGMMA && !W_IS_8_BITS
/* And of the wave's blocks, from n on. */
RFG_DEVICE void multiply(float (*d)[FRAGS_M][4], const char *stage, int n)
{
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        multiply_block(d[j], stage, n + j);
}
#endif

/* Before sums are sent to other workgroups: these are there, and expect something. Or after they were written to LDS.
 */
RFG_DEVICE void meet(void)
{
    if (SPLIT > 1)
        rfg_cluster_wait();
    else if (PARTS > 1)
        rfg_barrier_lds();
}

#if SPLIT > 1
RFG_KERNEL_CLUSTER(THREADS, SPLIT)
#else /* a cluster of one would cost 0.1 us a launch */
RFG_KERNEL(THREADS)
#endif
gemm_w4_mma(struct gemm_args a)
{
    char *lds = WGMMA ? (char *)rfg_wg_lds : (char *)rfg_lds, *ring = lds + RING_AT;
    rfg_u64 *arrival = (rfg_u64 *)lds, *full = arrival + 1, *empty = full + W4_MAX_STAGES;
    int stages = (int)((rfg_lds_bytes() - RING_AT) / STEP_BYTES);
    stages = stages < W4_MAX_STAGES ? stages : W4_MAX_STAGES;
    int tid = rfg_thread(), rank = SPLIT == 1 ? 0 : rfg_group_x() % SPLIT, tile = rfg_group_x() / SPLIT;
    rfg_start_next();
#if EXPERTS
    int tiles_n = (a.n - 1) / TILE_N + 1;
    int m0 = 0, n0 = tile % tiles_n * TILE_N;
    rfg_await_previous(); /* which may have sorted the rows */
    if (!take_tile(&a, TILE_M, tile / tiles_n))
        return;
#else
    int tiles_m = (a.m - 1) / TILE_M + 1, m0 = tile % tiles_m * TILE_M, n0 = tile / tiles_m * TILE_N;
#endif
    int all = (a.k - 1) / PREPACK4_COLS + 1, first = rfg_share_begin(all, rank, SPLIT);
    int steps = rfg_share_begin(all, rank + 1, SPLIT) - first;
    int owned = W4_BLOCKS(TILE_M, TILE_N) - rank * OWN < OWN ? W4_BLOCKS(TILE_M, TILE_N) - rank * OWN : OWN;

    if (tid == 0) { /* one that doesn't copy; those of stages that are used */
        for (int i = 0; i < stages && i < steps; i++) {
            rfg_arrival_init(full + i, RFG_WAVE + (WGMMA ? X_THREADS : RFG_WAVE));
            rfg_arrival_init(empty + i, N_WAVES);
        }
        if (SPLIT > 1)
            expect_blocks(arrival, owned, PARTS * W4_BLOCK_BYTES);
    }
    if (SPLIT > 1)
        rfg_cluster_arrive_first();

    if (tid >= MMA_WAVES * RFG_WAVE + W_THREADS) {
#if WGMMA
        rfg_fewer_registers(W4_X_REGISTERS(TILE_M));
#endif
        rfg_barrier_lds();
        rfg_await_previous();
        copy_x(&a, ring, full, empty, stages, m0, first, steps, tid - (MMA_WAVES * RFG_WAVE + W_THREADS));
        meet();
        return;
    }
    if (tid >= MMA_WAVES * RFG_WAVE) {
#if WGMMA
        rfg_fewer_registers(W4_W_REGISTERS(TILE_M));
#endif
        copy_w(&a, rfg_lds_address(ring), full, empty, stages, n0, first, steps, rfg_wave() - MMA_WAVES);
        rfg_await_previous();
        rfg_async_wait_all();
        meet();
        return;
    }
#if WGMMA
    rfg_more_registers(W4_MMA_REGISTERS(TILE_M, THREADS / 128));
#endif
    rfg_barrier_lds();
    int set = rfg_wave() / N_WAVES, n = rfg_wave() % N_WAVES * FRAGS_N;
    float d[FRAGS_N][FRAGS_M][4];
#pragma unroll
    for (int i = 0; i < FRAGS_N * FRAGS_M * 4; i++)
        d[i / 4 / FRAGS_M][i / 4 % FRAGS_M][i % 4] = 0.0f;
    rfg_await_previous();
    struct rfg_stage s = { 0, 0 };
    skip_stages(&s, set, stages);
#if W_IS_8_BITS
    struct scales scales, ahead;
    load_scales(&scales, &a, n0 + n * 16, first + set);
#endif
#pragma unroll 1
    for (int step = set; step < steps; step += K_WAVES) {
#if W_IS_8_BITS
        load_scales(&ahead, &a, n0 + n * 16, first + step + K_WAVES);
#endif
        rfg_arrival_wait(full + s.at, s.odd);
#if WGMMA
        rfg_wg_see();
#endif
#if W_IS_8_BITS
        multiply(d, ring + s.at * STEP_BYTES, n, &scales);
        scales = ahead;
#else
        multiply(d, ring + s.at * STEP_BYTES, n);
#endif
        __syncwarp();
        if (rfg_lane() == 0)
            rfg_arrive(empty + s.at);
        skip_stages(&s, K_WAVES, stages);
    }
    if (SPLIT > 1)
        meet();
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
            if (SPLIT > 1)
                send_4(to, arrival, block / OWN, v.x, v.y, v.z, v.w);
            else if (PARTS > 1)
                *(rfg_f32x4 *)to = v;
            else
                store_8x16(&a, m0, n0, block, BLOCKS_N, v);
        }
#if PARTS > 1
    if (SPLIT == 1)
        meet();
    else if (owned > 0)
        rfg_arrival_wait(arrival, 0);
#pragma unroll 1
    for (int own = rfg_wave(); own < owned; own += MMA_WAVES) {
        const rfg_f32x4 *parts = (const rfg_f32x4 *)(lds + W4_PARTIALS_AT + own * PARTS * W4_BLOCK_BYTES) + rfg_lane();
        rfg_f32x4 sum = parts[0];
#pragma unroll 8
        for (int i = 1; i < PARTS; i++)
            sum = rfg_add_f32x4(sum, parts[i * (W4_BLOCK_BYTES / 16)]);
        store_8x16(&a, m0, n0, rank * OWN + own, BLOCKS_N, sum);
    }
#endif
}
