/* SPDX-License-Identifier: MIT
 *
 * gemm for many rows of X on Hopper: tiles of TILE_ROWS x TILE_N of Y, a workgroup on each CU going from one to the
 * next. One thread asks for tiles of X and W (rfg_tma.h), into a ring of STAGES steps of 128 bytes of k in LDS; two
 * warpgroups multiply 64 rows of X each. The ring goes on from a tile to the next, so that the next one's steps are
 * copied while sums are stored.
 *
 * CLUSTER neighbours have tiles one below the other, and so the same of W: each asks for its share of it, for all of
 * them. A stage is then free when the waves of all of them have used it.
 *
 * The matrix unit's sums of fp8 have about 14 bits, so each step's, 128 columns, are added in fp32; those of scales of
 * blocks are multiplied by their scales then.
 *
 * Each wave stores its own 16 rows through LDS, 128 bytes of each at once: with Y_TILES by TMA, which the wave doesn't
 * wait for; else, and what is left of TILE_N, in pieces of 16 bytes.
 *
 * With EXPERTS a tile's rows are one expert's, and X's are copied by all waves that copy (tile_wgmma_experts.h).
 *
 * Macros: those of load.h and epilogue.h (X and W fp16, bf16, e4m3, e5m2 or i8), TILE_N (a multiple of 16 up to 256),
 * CLUSTER (1, 2), STAGES, Y_TILES (1: rows of Y
 * are aligned to 16 bytes, and the kernel has a parameter for it). Grid: whole clusters, any number. Needs rows of X
 * and W aligned to 16 bytes. */
#include "rfg_device.h"
#include "rfg_tma.h"
#include "gemm/gpu/load.h"
#include "gemm/gpu/epilogue.h"
#include "gemm/gpu/experts.h"
#include "gemm/gpu/tile_wgmma_layout.h"
#include "gemm/gpu/wgmma_wide.h"

#define STEP_K       (TILE_WIDTH / X_BYTES)
#define STEP_BYTES   TILE_STEP_BYTES(TILE_N)
#define X_STEP_BYTES (TILE_ROWS * TILE_WIDTH)
#define W_ROWS       (TILE_N / CLUSTER) /* that a workgroup asks for */
#define SUMS         (TILE_N / 2) /* of a thread: rows l / 4 and l / 4 + 8, columns 8 j + 2 (l % 4) and one more */
#define BLOCKS       (SCALES == GEMM_SCALES_BLOCKS)
#define PARTS        (BLOCKS || (RFG_IS_CODE(IN_DTYPE) && IN_DTYPE != RFG_I8)) /* sums of steps are added in fp32 */

static_assert(TILE_N % (8 * CLUSTER) == 0 && TILE_N % 16 == 0, "a share of W is not whole groups of 8 rows");
static_assert(STAGES <= TILE_MAX_STAGES && TILE_LIST_AT <= TILE_RING_AT(0), "arrivals reach into the ring");
static_assert(2 * TILE_REGISTERS + TILE_FEWER <= 3 * 168, "more registers than a launch has");
static_assert(!BLOCKS || STEP_K == GEMM_SCALE_BLOCK, "a step is not a block of scales");

#if IN_DTYPE == RFG_I8
typedef int matrix_sum;
#define multiply_16(d, rows_a, rows_b, add) rfg_wg_mma_i8(TILE_N, d, rows_a, rows_b, add)
#define as_float(d)                         rfg_wg_read_i8(d)
#else
typedef float matrix_sum;
#define multiply_16(d, rows_a, rows_b, add) rfg_wg_mma(TILE_N, d, rows_a, rows_b, add, IN_DTYPE)
#define as_float(d)                         rfg_wg_read(d)
#endif

/* Asks for the rank-th workgroup's share of a step of W, from row n on of those that kernels number, of an expert whose
 * rows begin with row w0 of the map: for all of the cluster, or for this one alone. */
RFG_DEVICE void copy_w(rfg_u32 to, const rfg_tile_map *w, int step, int w0, int n, int rank, rfg_u64 *arrival,
                       bool alone)
{
    int row = w0 + (HALVES ? n / 2 + rank * (W_ROWS / 2) : n + rank * W_ROWS);
    to += (rfg_u32)(rank * W_ROWS * TILE_WIDTH);
    if ((CLUSTER == 1 || alone) && HALVES)
        rfg_tile_load_turns(to, w, step * TILE_WIDTH, row, arrival);
    else if (CLUSTER == 1 || alone)
        rfg_tile_load(to, w, step * TILE_WIDTH, row, arrival);
    else if (HALVES)
        rfg_tile_load_turns_to(to, w, step * TILE_WIDTH, row, arrival, (1u << CLUSTER) - 1u);
    else
        rfg_tile_load_to(to, w, step * TILE_WIDTH, row, arrival, (1u << CLUSTER) - 1u);
}

#if !EXPERTS
#define FULL_ARRIVALS (BLOCKS ? 4 : 1) /* of a stage: tiles, and scales by three waves */

/* Where a workgroup is: the tile from row m0 and column n0 on. */
struct place {
    int m0, n0;
};
RFG_DEVICE struct place place_of(const struct gemm_args *a, int tile, int rank)
{
    int down = (a->m - 1) / (TILE_ROWS * CLUSTER) + 1, along = (a->n - 1) / TILE_N + 1;
    int in_band = TILE_BAND / CLUSTER * along, band = tile / in_band, i = tile % in_band;
    int first = band * (TILE_BAND / CLUSTER);
    int rows = down - first < TILE_BAND / CLUSTER ? down - first : TILE_BAND / CLUSTER;
    struct place p = { ((first + i % rows) * CLUSTER + rank) * TILE_ROWS, i / rows * TILE_N };
    return p;
}
RFG_DEVICE int tiles_of(const struct gemm_args *a)
{
    return ((a->m - 1) / (TILE_ROWS * CLUSTER) + 1) * ((a->n - 1) / TILE_N + 1);
}

/* All steps of a tile. */
RFG_DEVICE void copy_tile(struct place p, int rank, int steps, rfg_u32 ring, struct rfg_stage *s, int *round,
                          rfg_u64 *full, rfg_u64 *empty, const rfg_tile_map *x, const rfg_tile_map *w)
{
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        if (*round)
            rfg_arrival_wait(empty + s->at, s->odd ^ 1);
        rfg_u64 *arrival = full + s->at;
        rfg_u32 to = ring + (rfg_u32)(s->at * STEP_BYTES);
        rfg_arrive_expect(arrival, STEP_BYTES);
        rfg_tile_load(to, x, step * TILE_WIDTH, p.m0, arrival);
        copy_w(to + X_STEP_BYTES, w, step, 0, p.n0, rank, arrival, false);
        rfg_next_stage(s, STAGES);
        *round |= s->at == 0;
    }
}
#endif

/* This wave has used a stage. */
RFG_DEVICE void leave_stage(rfg_u64 *empty, int stage)
{
    if (rfg_lane() < CLUSTER)
        rfg_arrive_at(empty + stage, rfg_lane());
}

/* Begins with a step. */
RFG_DEVICE void multiply_step(matrix_sum *d, rfg_u64 rows_a, rfg_u64 rows_b, int stage, int first)
{
    rfg_u32 offset = (rfg_u32)stage * (STEP_BYTES / 16);
    if (EXPERTS) /* X's copies are no TMA's */
        rfg_wg_see();
    rfg_wg_fence();
#pragma unroll
    for (int i = 0; i < 4; i++)
        multiply_16(d, rows_a + offset + i * 2, rows_b + offset + i * 2, !first || i > 0);
    rfg_wg_commit();
}

/* Of scales of blocks: those of W that a tile reaches into; with halves it does into gate's, and as many of up's. */
#define W_SPAN   (TILE_N / (HALVES ? 2 : 1))
#define W_BLOCKS (GEMM_SCALE_BLOCK % W_SPAN == 0 ? 1 : (W_SPAN - 2) / GEMM_SCALE_BLOCK + 2)
#define W_SCALED (W_BLOCKS * (HALVES ? 2 : 1))
static_assert(W_SCALED <= TILE_W_SCALES, "a step has room for fewer scales of W");

#if BLOCKS
#define SCALE_BYTES  (SCALE_DTYPE == RFG_F32 ? 4 : 1)
#define SCALES_AHEAD 4 /* steps' scales that a thread has under way: memory answers later than a step is multiplied */

/* Scales that lie `next` elements apart from step to step; NULL: they are of rows that don't exist. */
struct scale_row {
    const char *from;
    int next;
};
RFG_DEVICE struct scale_row scale_row_of(const void *scale, long long at, int next, bool there)
{
    struct scale_row r = { there ? (const char *)scale + at * SCALE_BYTES : 0, next };
    return r;
}
RFG_DEVICE float scale_at(struct scale_row r, int step)
{
    return r.from ? rfg_load_scale(r.from, step * (long long)r.next, SCALE_DTYPE) : 0.0f;
}

/* Which block of W's rows a tile's i-th scale of W is of. */
RFG_DEVICE int w_block_of(const struct gemm_args *a, int n0, int i)
{
    return HALVES ? n0 / 2 / GEMM_SCALE_BLOCK + i % W_BLOCKS + i / W_BLOCKS * (a->n / 2 / GEMM_SCALE_BLOCK)
                  : n0 / GEMM_SCALE_BLOCK + i;
}

#if !EXPERTS
/* All steps of a tile, by the three waves beside the one that copies tiles: a thread of the first two has two rows of
 * X, one of the third a block of W. */
RFG_DEVICE void copy_scales(const struct gemm_args *a, struct place p, int steps, float *scales, struct rfg_stage *s,
                            int *round, rfg_u64 *full, rfg_u64 *empty)
{
    int t = rfg_thread() - (TILE_WAVES + 1) * RFG_WAVE, block = t - TILE_ROWS / 2, m = p.m0 + t;
    int n = w_block_of(a, p.n0, block);
    struct scale_row row[2];
    float v[SCALES_AHEAD][2];
    row[0] = block < 0 ? scale_row_of(a->x_scale, m * (long long)a->x_scale_row, a->x_scale_col, m < a->m)
                       : scale_row_of(a->w_scale, n * (long long)a->w_scale_row, a->w_scale_col,
                                      block < W_SCALED && n * GEMM_SCALE_BLOCK < a->n);
    m += TILE_ROWS / 2;
    row[1] = scale_row_of(a->x_scale, m * (long long)a->x_scale_row, a->x_scale_col, block < 0 && m < a->m);
#pragma unroll
    for (int u = 0; u < SCALES_AHEAD; u++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            v[u][i] = scale_at(row[i], u < steps ? u : 0);
#pragma unroll 1
    for (int first = 0; first < steps; first += SCALES_AHEAD) {
#pragma unroll
        for (int u = 0; u < SCALES_AHEAD; u++) {
            int step = first + u, next = step + SCALES_AHEAD;
            float now[2] = { v[u][0], v[u][1] };
            if (step >= steps)
                break;
#pragma unroll
            for (int i = 0; i < 2; i++)
                v[u][i] = scale_at(row[i], next < steps ? next : 0);
            if (*round)
                rfg_arrival_wait(empty + s->at, s->odd ^ 1);
            float *to = scales + s->at * TILE_SCALES;
            if (block < W_SCALED)
                to[block < 0 ? t : TILE_ROWS + block] = now[0];
            if (block < 0)
                to[t + TILE_ROWS / 2] = now[1];
            __syncwarp();
            if (rfg_lane() == 0)
                rfg_arrive(full + s->at);
            rfg_next_stage(s, STAGES);
            *round |= s->at == 0;
        }
    }
}
#endif
#endif

#if EXPERTS
#include "gemm/gpu/tile_wgmma_experts.h"
#endif

/* The scales of a step in LDS: of the lane's two rows of X, and of W. */
struct step_scales {
    float x[2], w[W_SCALED];
};
RFG_DEVICE struct step_scales scales_of(const float *scales, int stage)
{
    struct step_scales s;
#if BLOCKS
    const float *of = scales + stage * TILE_SCALES;
    int row = rfg_wave() * 16 + rfg_lane() / 4;
    s.x[0] = of[row];
    s.x[1] = of[row + 8];
#pragma unroll
    for (int i = 0; i < W_SCALED; i++)
        s.w[i] = of[TILE_ROWS + i];
#else
    (void)scales, (void)stage;
#endif
    return s;
}

#if PARTS
#define SETS (TILE_N <= 128 ? 2 : 1) /* of a step's sums that registers have room for */

#define BLOCK_EIGHTS (GEMM_SCALE_BLOCK / (HALVES ? 4 : 8)) /* eights of columns of sums of a block of W's scales */

/* Adds a step's sums. whole: columns of the tile, in eights, of the first block of W's scales. */
RFG_DEVICE void add_part(float *d, const matrix_sum *part, const struct step_scales *s, int whole)
{
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j++) {
#if BLOCKS
        float w = s->w[0];
#pragma unroll
        for (int b = 1; b < W_BLOCKS; b++)
            w = j < whole + (b - 1) * BLOCK_EIGHTS ? w : s->w[b];
#if HALVES
        float up = s->w[W_BLOCKS];
#pragma unroll
        for (int b = 1; b < W_BLOCKS; b++)
            up = j < whole + (b - 1) * BLOCK_EIGHTS ? up : s->w[W_BLOCKS + b];
#pragma unroll
        for (int i = 0; i < 4; i++)
            d[4 * j + i] = rfg_fma(as_float(part[4 * j + i]), s->x[i / 2] * (i % 2 ? up : w), d[4 * j + i]);
#else
#pragma unroll
        for (int i = 0; i < 4; i++)
            d[4 * j + i] = rfg_fma(as_float(part[4 * j + i]), s->x[i / 2] * w, d[4 * j + i]);
#endif
#else
#pragma unroll
        for (int i = 0; i < 4; i++)
            d[4 * j + i] += as_float(part[4 * j + i]);
#endif
    }
    (void)s, (void)whole;
}

/* Sums of all steps. A step is multiplied while the one before it is added: both begin and end in one turn of the loop,
 * or the compiler would wait after each instruction. */
RFG_DEVICE void multiply_tile(float *d, int n0, rfg_u64 rows_a, rfg_u64 rows_b, const float *scales, int steps,
                              struct rfg_stage *s, rfg_u64 *full, rfg_u64 *empty)
{
    matrix_sum part[SETS][SUMS];
    int whole =
        HALVES ? (GEMM_SCALE_BLOCK - n0 / 2 % GEMM_SCALE_BLOCK) / 4 : (GEMM_SCALE_BLOCK - n0 % GEMM_SCALE_BLOCK) / 8;
    int step = 0;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        d[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < SETS * SUMS; i++)
        part[i / SUMS][i % SUMS] = 0;
#pragma unroll 1
    for (; step + SETS <= steps; step += SETS) {
        struct step_scales of[SETS];
        int stage[SETS];
#pragma unroll
        for (int i = 0; i < SETS; i++) {
            stage[i] = s->at;
            rfg_arrival_wait(full + s->at, s->odd);
            multiply_step(part[i], rows_a, rows_b, s->at, 1);
            of[i] = scales_of(scales, s->at);
            rfg_next_stage(s, STAGES);
        }
        if (SETS > 1) {
            rfg_wg_wait(1);
            leave_stage(empty, stage[0]);
            add_part(d, part[0], &of[0], whole);
        }
        rfg_wg_wait(0);
        leave_stage(empty, stage[SETS - 1]);
        add_part(d, part[SETS - 1], &of[SETS - 1], whole);
    }
    if (SETS > 1 && step < steps) {
        rfg_arrival_wait(full + s->at, s->odd);
        multiply_step(part[0], rows_a, rows_b, s->at, 1);
        struct step_scales of = scales_of(scales, s->at);
        rfg_wg_wait(0);
        leave_stage(empty, s->at);
        rfg_next_stage(s, STAGES);
        add_part(d, part[0], &of, whole);
    }
}
#else
RFG_DEVICE void multiply_tile(float *d, int n0, rfg_u64 rows_a, rfg_u64 rows_b, const float *scales, int steps,
                              struct rfg_stage *s, rfg_u64 *full, rfg_u64 *empty)
{
    matrix_sum sums[SUMS];
    int step = 0, before = 0;
    (void)n0, (void)scales;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        sums[i] = 0;
    do {
        rfg_arrival_wait(full + s->at, s->odd);
        multiply_step(sums, rows_a, rows_b, s->at, 0);
        rfg_wg_wait(1);
        if (step > 0)
            leave_stage(empty, before);
        before = s->at;
        rfg_next_stage(s, STAGES);
    } while (++step < steps);
    rfg_wg_wait(0);
    leave_stage(empty, before);
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        d[i] = as_float(sums[i]);
}
#endif

#define Y_COLS    (GATED ? 4 : 8)          /* of eight columns of sums */
#define PASS_COLS (TILE_Y_WIDTH / Y_BYTES) /* of Y, that LDS takes at once */
#define PASS      (PASS_COLS / Y_COLS)     /* eights of columns of sums */
#define PIECE     (16 / Y_BYTES)           /* columns of Y in 16 bytes */

/* What two neighbouring columns' sums of a row and the one eight rows below it are multiplied with, and what is added.
 */
struct ending {
    rfg_f32x2 w_scale, more[2];
};
RFG_DEVICE struct ending ending_of(const struct gemm_args *a, int m, int n)
{
    struct ending e;
    rfg_f32x2 bias = rfg_pair(0.0f, 0.0f);
    if (a->bias) {
        bias.x = n < a->n ? rfg_load_float(a->bias, w_row_at(a, n), BIAS_DTYPE) : 0.0f;
        bias.y = n + 1 < a->n ? rfg_load_float(a->bias, w_row_at(a, n + 1), BIAS_DTYPE) : 0.0f;
    }
#if SCALES == GEMM_SCALES_ROWS
    e.w_scale.x = n < a->n ? w_scale_of(a, n, 0) : 0.0f;
    e.w_scale.y = n + 1 < a->n ? w_scale_of(a, n + 1, 0) : 0.0f;
#else
    e.w_scale = rfg_pair(1.0f, 1.0f);
#endif
#pragma unroll
    for (int h = 0; h < 2; h++) {
        e.more[h] = bias;
#if RESIDUAL
        if (m + h * 8 < a->m && n < a->n)
            e.more[h].x += rfg_load_float(a->residual, (m + h * 8) * a->ldr + n, OUT_DTYPE);
        if (m + h * 8 < a->m && n + 1 < a->n)
            e.more[h].y += rfg_load_float(a->residual, (m + h * 8) * a->ldr + n + 1, OUT_DTYPE);
#else
        (void)m;
#endif
    }
    return e;
}

/* To LDS, as Y has them: from byte `byte` of row `row` on. */
RFG_DEVICE void put_2(const struct gemm_args *a, char *tile, int row, int byte, rfg_f32x2 v)
{
    char *at = tile + rfg_wg_at(row, byte / 16) + byte % 16;
#if GATED
    float f = gated_of(a, v.x, v.y);
    if (OUT_DTYPE == RFG_F32)
        *(float *)at = f;
    else
        *(rfg_u16 *)at = (rfg_u16)(OUT_DTYPE == RFG_F16 ? rfg_pack_f16(f, 0.0f) : rfg_pack_bf16(f, 0.0f));
#else
    (void)a;
    if (OUT_DTYPE == RFG_F32)
        *(rfg_f32x2 *)at = v;
    else
        *(rfg_u32 *)at = OUT_DTYPE == RFG_F16 ? rfg_pack_f16(v.x, v.y) : rfg_pack_bf16(v.x, v.y);
#endif
}

/* Stores a tile in LDS in pieces of 16 bytes, where they are aligned so: `cols` columns from column `col` of Y on, as
 * far as there are any. */
RFG_DEVICE void store_pieces(const struct gemm_args *a, const char *tile, int m0, int col, int cols)
{
    bool whole = Y_TILES || (((rfg_u64)a->y | (rfg_u64)GEMM_LDY(a) * Y_BYTES) & 15) == 0;
    int n = GATED ? a->n / 2 : a->n, c = rfg_lane() % 8 * PIECE;
    int left = (cols < n - col ? cols : n - col) - c;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = i * 4 + rfg_lane() / 8;
        const char *from = tile + rfg_wg_at(row, rfg_lane() % 8);
        char *to = (char *)a->y + ((m0 + row) * GEMM_LDY(a) + col + c) * Y_BYTES;
        if (m0 + row >= a->m || left <= 0)
            continue;
        if (whole && left >= PIECE) {
            rfg_store16(to, *(const rfg_u32x4 *)from);
        } else {
#pragma unroll
            for (int e = 0; e < PIECE; e++)
                if (e < left) {
                    if (Y_BYTES == 4)
                        rfg_store4(to + e * 4, *(const rfg_u32 *)(from + e * 4));
                    else
                        rfg_store2(to + e * 2, *(const rfg_u16 *)(from + e * 2));
                }
        }
    }
}

/* The wave's rows from row m0 on, columns from n0 on of the sums; lds: the wave's buffers; begin: rows of the map
 * before those of a. */
RFG_DEVICE void store_rows(const struct gemm_args *a, const float *d, int m0, int n0, char *lds,
                           const rfg_tile_map *y_map, int begin)
{
    int lane = rfg_lane(), row = lane / 4, y0 = GATED ? n0 / 2 : n0;
    float x_scale[2] = { 1.0f, 1.0f };
#if SCALES == GEMM_SCALES_ROWS
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (m0 + row + h * 8 < a->m)
            x_scale[h] = x_scale_of(a, m0 + row + h * 8, 0);
#endif
#if WEIGHTED
    float weight[2] = { 0.0f, 0.0f };
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (m0 + row + h * 8 < a->m)
            weight[h] = rfg_load_float(a->weights, m0 + row + h * 8, RFG_F32);
#endif
#pragma unroll
    for (int j0 = 0; j0 < TILE_N / 8; j0 += PASS) {
        int eights = TILE_N / 8 - j0 < PASS ? TILE_N / 8 - j0 : PASS;
        char *tile = lds + j0 / PASS % TILE_Y_BUFFERS * TILE_Y_BYTES;
        if (lane == 0)
            rfg_tile_stores_read(TILE_Y_BUFFERS - 1);
        __syncwarp();
        struct ending end[PASS]; /* all are asked for before the first is used: what is put to LDS might be theirs */
#pragma unroll
        for (int j = 0; j < eights; j++)
            end[j] = ending_of(a, m0 + row, n0 + (j0 + j) * 8 + lane % 4 * 2);
#pragma unroll
        for (int j = 0; j < eights; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float *sum = d + 4 * (j0 + j) + 2 * h;
                rfg_f32x2 v = rfg_pair(sum[0], sum[1]);
                if (SCALES == GEMM_SCALES_ROWS)
                    v = rfg_mul2(v, rfg_pair(x_scale[h] * end[j].w_scale.x, x_scale[h] * end[j].w_scale.y));
                v = rfg_add2(v, end[j].more[h]);
#if WEIGHTED
                v = rfg_mul2(v, rfg_pair(weight[h], weight[h]));
#endif
                put_2(a, tile, row + h * 8, (j * Y_COLS + lane % 4 * (Y_COLS / 4)) * Y_BYTES, v);
            }
        if (Y_TILES && eights == PASS && (!EXPERTS || m0 + TILE_Y_ROWS <= a->m)) {
            rfg_tile_written();
            __syncwarp();
            if (lane == 0)
                rfg_tile_store(y_map, (y0 + j0 * Y_COLS) * Y_BYTES, begin + m0, rfg_lds_address(tile));
        } else {
            __syncwarp();
            store_pieces(a, tile, m0, y0 + j0 * Y_COLS, eights * Y_COLS);
        }
    }
}

#if CLUSTER > 1
RFG_KERNEL_CLUSTER(TILE_THREADS, CLUSTER)
#else
RFG_KERNEL(TILE_THREADS)
#endif
gemm_tile_wgmma(struct gemm_args a,
#if !EXPERTS
                const __grid_constant__ rfg_tile_map x,
#endif
                const __grid_constant__ rfg_tile_map w
#if Y_TILES
                ,
                const __grid_constant__ rfg_tile_map y
#endif
)
{
    char *lds = (char *)rfg_wg_lds, *ring = lds + TILE_RING_AT(N_EXPERTS(&a));
    rfg_u64 *full = (rfg_u64 *)lds, *empty = full + TILE_MAX_STAGES;
    int rank = CLUSTER > 1 ? rfg_cluster_rank() : 0, steps = (a.k - 1) / STEP_K + 1;
    int stride = rfg_groups_x(TILE_THREADS) / CLUSTER;
    float *scales = (float *)(ring + STAGES * STEP_BYTES + TILE_WAVES * TILE_Y_BUFFERS * TILE_Y_BYTES);
    struct rfg_stage s = { 0, 0 };
#if !EXPERTS
    int tiles = tiles_of(&a);
#endif

    rfg_start_next();
    if (rfg_thread() == 0) {
#if !EXPERTS
        rfg_tile_expect(&x);
#endif
        rfg_tile_expect(&w);
        for (int i = 0; i < STAGES; i++) {
            rfg_arrival_init(full + i, FULL_ARRIVALS);
            rfg_arrival_init(empty + i, CLUSTER * TILE_WAVES);
        }
    }
    if (CLUSTER > 1) {
        rfg_cluster_arrive_first();
        rfg_cluster_wait();
    } else {
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        rfg_barrier_lds();
    }
    rfg_await_previous();
#if EXPERTS
    struct tile_list *list = (struct tile_list *)(lds + TILE_LIST_AT);
    if (rfg_wave() == 0)
        list_tiles(list, &a);
    rfg_barrier_lds();
    int tiles = tiles_of(&a, list);
#endif

    if (rfg_wave() >= TILE_WAVES) {
        rfg_fewer_registers(TILE_FEWER);
#if EXPERTS
        int round = 0;
#pragma unroll 1
        for (int tile = rfg_group_x() / CLUSTER; tile < tiles; tile += stride) {
            struct place p = place_of(&a, list, tile, rank);
            copy_tile(&a, &p, rfg_thread() - TILE_WAVES * RFG_WAVE, rank, steps, rfg_lds_address(ring), scales, &s,
                      &round, full, empty, &w);
        }
        rfg_async_wait_all();
#else
        int round = 0;
        if (rfg_thread() == TILE_WAVES * RFG_WAVE) {
#pragma unroll 1
            for (int tile = rfg_group_x() / CLUSTER; tile < tiles; tile += stride)
                copy_tile(place_of(&a, tile, rank), rank, steps, rfg_lds_address(ring), &s, &round, full, empty, &x,
                          &w);
        }
#if BLOCKS
        if (rfg_wave() > TILE_WAVES) {
#pragma unroll 1
            for (int tile = rfg_group_x() / CLUSTER; tile < tiles; tile += stride)
                copy_scales(&a, place_of(&a, tile, rank), steps, scales, &s, &round, full, empty);
        }
#endif
#endif
        __syncwarp();
    } else {
        rfg_more_registers(TILE_REGISTERS);
        int wave = __shfl_sync(0xffffffffu, rfg_wave(), 0); /* the compiler then knows that lanes have the same */
        int rows = wave * 16;                               /* of the wave, from the tile's first on */
        rfg_u64 rows_a = rfg_wg_rows(ring + wave / 4 * (64 * TILE_WIDTH)), rows_b = rfg_wg_rows(ring + X_STEP_BYTES);
        char *buffers = ring + STAGES * STEP_BYTES + wave * (TILE_Y_BUFFERS * TILE_Y_BYTES);
#if Y_TILES
        const rfg_tile_map *y_map = &y;
#else
        const rfg_tile_map *y_map = 0;
#endif
#pragma unroll 1
        for (int tile = rfg_group_x() / CLUSTER; tile < tiles; tile += stride) {
            float d[SUMS];
#if EXPERTS
            struct place p = place_of(&a, list, tile, rank);
            if (p.m0 + rows / 64 * 64 >= p.x.rows) {
                pass_tile(steps, &s, full, empty);
                continue;
            }
            multiply_tile(d, p.n0, rows_a, rows_b, scales, steps, &s, full, empty);
            asm volatile("" : "+r"(tile)); /* to find it again takes no registers meanwhile */
            p = place_of(&a, list, tile, rank);
            struct gemm_args of = args_of(&a, &p.x, 0, p.x.rows);
            if (p.m0 + rows < p.x.rows)
                store_rows(&of, d, p.m0 + rows, p.n0, buffers, y_map, p.x.begin);
#else
            struct place p = place_of(&a, tile, rank);
#if SCALES == GEMM_SCALES_ROWS
            if (rfg_thread() < TILE_N)
                expect_w_scale(&a, p.n0 + (long long)rfg_thread());
            if (rfg_thread() < TILE_ROWS)
                expect_x_scale(&a, p.m0 + (long long)rfg_thread());
#endif
            multiply_tile(d, p.n0, rows_a, rows_b, scales, steps, &s, full, empty);
            store_rows(&a, d, p.m0 + rows, p.n0, buffers, y_map, 0);
#endif
        }
        if (rfg_lane() == 0)
            rfg_tile_stores_done(0);
    }
    if (CLUSTER > 1) { /* others' copies to this one's LDS, and arrivals, may be under way */
        rfg_cluster_arrive();
        rfg_cluster_wait();
    }
}
