/* SPDX-License-Identifier: MIT
 *
 * gemm for many rows of X on Hopper: tiles of TILE_M x TILE_N of Y, a workgroup on each CU going from one to the next.
 * One thread asks for tiles of X and W (rfg_tma.h), into a ring of STAGES steps of 128 bytes of k in LDS; two
 * warpgroups multiply 64 rows of X each, or, with TILE_M 64, half of the columns. The ring goes on from a tile to the
 * next, whose first steps are multiplied while sums are stored.
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
 * With EXPERTS a tile's rows are one expert's, and X's are copied by all waves that copy (tile_wgmma_experts.h). A
 * prepacked W of mxfp4 is decoded on its way to LDS, by twice as many (tile_wgmma_w4.h).
 *
 * Budget of a step: (TILE_M + TILE_N) * 128 bytes to LDS, W's fetched once a cluster; for a warpgroup 4 * PIECES
 * instructions of 64 x PIECE_N, and with PARTS an addition or fma for each of its sums. What binds is arithmetic.
 *
 * Macros: those of load.h and epilogue.h (X and W fp16, bf16, e4m3, e5m2 or i8; or bf16 and e2m1, PREPACKED), TILE_M
 * (64, 128), TILE_N (a multiple of 16 up to 256), PIECE_N (columns of an instruction: a warpgroup's, or with PARTS a
 * share of them), SETS (1, with PARTS also 2), CLUSTER (1, 2), STAGES, Y_TILES (1: rows of Y are whole pieces of 16
 * bytes, and the kernel has a parameter for it). Grid: whole clusters, any number. Needs rows of X and W aligned to 16
 * bytes.
 */
#include "rfg_device.h"
#include "rfg_tma.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/experts.h"
#include "gemm/gpu/nvidia/tile_wgmma_layout.h"
#include "gemm/gpu/nvidia/wgmma_wide.h"

#define W4            W_IS_4_BITS
#define STEP_K        (TILE_WIDTH / X_BYTES)
#define STEP_BYTES    TILE_STEP_BYTES(TILE_M, TILE_N)
#define X_STEP_BYTES  (TILE_M * TILE_WIDTH)
#define W_ROWS        (TILE_N / CLUSTER)      /* that a workgroup asks for */
#define GROUP_N       (TILE_N * TILE_M / 128) /* columns of a warpgroup */
#define SUMS          (GROUP_N / 2) /* of a thread: rows l / 4 and l / 4 + 8, columns 8 j + 2 (l % 4) and one more */
#define BLOCKS        (SCALES == GEMM_SCALES_BLOCKS)
#define SCALE_THREADS (3 * RFG_WAVE)
#define PARTS         (BLOCKS || (RFG_IS_CODE(IN_DTYPE) && IN_DTYPE != RFG_I8)) /* sums of steps are added in fp32 */

static_assert(W_ROWS % 8 == 0 && TILE_N % 16 == 0, "a share of W is not whole groups of 8 rows");
static_assert(STAGES <= TILE_MAX_STAGES && 16 * (TILE_MAX_STAGES + 1) <= TILE_FEW_AT, "arrivals reach into scales");
static_assert(2 * TILE_REGISTERS(EXPERTS, W4) + (1 + W4) * TILE_FEWER(EXPERTS, W4) <= TILE_LAUNCHED(W4),
              "more registers than a launch has");
static_assert(!W4 || CLUSTER == 1, "a cluster would share what each of its workgroups decodes");
static_assert(!EXPERTS || TILE_M == 128, "tiles of experts have 128 rows");
static_assert(!BLOCKS || STEP_K == GEMM_SCALE_BLOCK, "a step is not a block of scales");

/* Of PARTS a step's columns are multiplied in PIECES, as registers have no room for all sums twice, and those of a turn
 * of the loop, one step or two, in SETS of registers by turns. Else a step is a turn. LATER: a tile's sums are stored
 * while the next is multiplied, unless they are an expert's, whose place and arguments need registers. */
#define PIECES     (GROUP_N / PIECE_N)
#define PIECE_SUMS (PIECE_N / 2)
#define TURN       (SETS > PIECES ? SETS : PIECES) /* pieces */
#define TURN_STEPS (TURN / PIECES)
#define LATER      (!EXPERTS && SUMS + SETS * PIECE_SUMS <= TILE_MOST_SUMS(W4))
/* HELD: until then as Y has them, which takes half of the registers. */
#define HELD (!EXPERTS && !W4 && !LATER && Y_BYTES == 2 && !GATED)
static_assert(PIECES * PIECE_N == GROUP_N && GROUP_N % 8 == 0 && (PARTS || PIECES == 1),
              "pieces are no step, or sums of more than one");

#if IN_DTYPE == RFG_I8
typedef int matrix_sum;
#define multiply_16(d, rows_a, rows_b, add) rfg_wg_mma_i8(PIECE_N, d, rows_a, rows_b, add)
#define as_float(d)                         rfg_wg_read_i8(d)
#else
typedef float matrix_sum;
#define multiply_16(d, rows_a, rows_b, add) rfg_wg_mma(PIECE_N, d, rows_a, rows_b, add, IN_DTYPE)
#define as_float(d)                         rfg_wg_read(d)
#endif

/* Of the tile, where this wave's sums begin. */
#define WAVE_M (TILE_M == 128 ? rfg_wave() * 16 : rfg_wave() % 4 * 16)
#define WAVE_N (TILE_M == 128 ? 0 : rfg_wave() / 4 * GROUP_N)

/* Asks for the rank-th workgroup's share of a step of W, from row n on of those that kernels number, of an expert whose
 * rows begin with row w0 of the map: for all of the cluster, or for this one alone. */
RFG_DEVICE void ask_w(rfg_u32 to, const rfg_tile_map *w, int step, int w0, int n, int rank, rfg_u64 *arrival,
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
#define FULL_ARRIVALS                                                                                                  \
    (1 + (BLOCKS ? SCALE_THREADS : 0) + (W4 ? TILE_COPIERS(1) / RFG_WAVE : 0)) /* of a stage: tiles, scales, W */

/* Where a workgroup is: the tile from row m0 and column n0 on. */
#define BAND (TILE_BAND_ROWS / (TILE_M * CLUSTER))
struct place {
    int m0, n0;
};
RFG_DEVICE struct place place_of(const struct gemm_args *a, int tile, int rank)
{
    int down = (a->m - 1) / (TILE_M * CLUSTER) + 1, along = (a->n - 1) / TILE_N + 1;
    int in_band = BAND * along, band = tile / in_band, i = tile % in_band;
    int first = band * BAND;
    int rows = down - first < BAND ? down - first : BAND;
    struct place p = { ((first + i % rows) * CLUSTER + rank) * TILE_M, i / rows * TILE_N };
    return p;
}
RFG_DEVICE int tiles_of(const struct gemm_args *a)
{
    return ((a->m - 1) / (TILE_M * CLUSTER) + 1) * ((a->n - 1) / TILE_N + 1);
}

/* Of a step's tile X, or the share of W that this workgroup asks for, and all bytes that it will have. */
RFG_DEVICE void copy_x(struct place p, int step, rfg_u32 to, const rfg_tile_map *x, rfg_u64 *arrival)
{
    rfg_tile_load(to, x, step * TILE_WIDTH, p.m0, arrival);
}
RFG_DEVICE void copy_w(struct place p, int rank, int step, rfg_u32 to, const rfg_tile_map *w, rfg_u64 *arrival)
{
    rfg_arrive_expect(arrival, STEP_BYTES);
    ask_w(to + X_STEP_BYTES, w, step, 0, p.n0, rank, arrival, false);
}

/* Steps of a tile from step `step` on. */
RFG_DEVICE void copy_tile(struct place p, int rank, int step, int steps, rfg_u32 ring, struct rfg_stage *s, int *round,
                          rfg_u64 *full, rfg_u64 *empty, const rfg_tile_map *x, const rfg_tile_map *w)
{
#pragma unroll 1
    for (; step < steps; step++) {
        if (*round)
            rfg_arrival_wait(empty + s->at, s->odd ^ 1);
        rfg_u32 to = ring + (rfg_u32)(s->at * STEP_BYTES);
        copy_w(p, rank, step, to, w, full + s->at);
        copy_x(p, step, to, x, full + s->at);
        rfg_next_stage(s, STAGES);
        *round |= s->at == 0;
    }
}

#endif

/* This wave has used a stage, its scales too. */
RFG_DEVICE void leave_stage(rfg_u64 *empty, int stage)
{
    if (BLOCKS) /* all lanes have read them */
        __syncwarp();
    if (rfg_lane() < CLUSTER)
        rfg_arrive_at(empty + stage, rfg_lane());
}

/* Begins with a piece of a step. */
RFG_DEVICE void multiply_piece(matrix_sum *d, rfg_u64 rows_a, rfg_u64 rows_b, int stage, int piece)
{
    rfg_u32 offset = (rfg_u32)stage * (STEP_BYTES / 16);
    rows_b += (rfg_u32)(piece * (PIECE_N * TILE_WIDTH / 16));
    rfg_wg_fence();
#pragma unroll
    for (int i = 0; i < 4; i++)
        multiply_16(d, rows_a + offset + i * 2, rows_b + offset + i * 2, !PARTS || i > 0);
    rfg_wg_commit();
}

/* Of scales of blocks: those of W that a tile reaches into; with halves it does into gate's, and as many of up's. */
#define W_HALVES     (HALVES ? 2 : 1)
#define W_SPAN       (TILE_N / W_HALVES)
#define N_STEP       (W_SPAN % GEMM_SCALE_BLOCK == 0 ? GEMM_SCALE_BLOCK : W_SPAN & -W_SPAN) /* of first rows */
#define W_BLOCKS     ((GEMM_SCALE_BLOCK - N_STEP + W_SPAN - 1) / GEMM_SCALE_BLOCK + 1)
#define W_SCALED     (W_BLOCKS * W_HALVES)
#define BLOCK_EIGHTS (GEMM_SCALE_BLOCK * W_HALVES / 8)           /* eights of columns of sums of a block */
#define ALIKE        (TILE_M == 128 ? N_STEP * W_HALVES / 8 : 1) /* those of a warpgroup whose scale is the same */
static_assert(W_SCALED <= TILE_W_SCALES, "a step has room for fewer scales of W");

#if BLOCKS
/* Which block of W's rows a tile's i-th scale of W is of. */
RFG_DEVICE int w_block_of(const struct gemm_args *a, int n0, int i)
{
    return HALVES ? n0 / 2 / GEMM_SCALE_BLOCK + i % W_BLOCKS + i / W_BLOCKS * (a->n / 2 / GEMM_SCALE_BLOCK)
                  : n0 / GEMM_SCALE_BLOCK + i;
}

#if !EXPERTS
/* Scales of a row of X, or of a block of W, from step to step; NULL: there is no such row. */
struct scale_row {
    const char *from;
    int next; /* bytes */
    float *to;
};
RFG_DEVICE struct scale_row scale_row_of(const void *scale, long long at, int next, float *to, bool there)
{
    struct scale_row r = { there ? (const char *)scale + at * SCALE_BYTES : 0, next * SCALE_BYTES, to };
    return r;
}

/* All steps of a tile, by the SCALE_THREADS of the three waves beside the one that copies tiles: of the first two
 * waves, or with TILE_M 64 of the first, a thread has two rows of X, of the next some have a block of W. */
RFG_DEVICE void copy_scales(const struct gemm_args *a, struct place p, int steps, float *x_scales, float *w_scales,
                            struct rfg_stage *s, int *round, rfg_u64 *full, rfg_u64 *empty)
{
    int t = rfg_thread() - (TILE_WAVES + 1) * RFG_WAVE, block = t - TILE_M / 2, blocks = (a->k - 1) / STEP_K + 1;
    bool is_x = block < 0;
    int row = is_x ? p.m0 + t : w_block_of(a, p.n0, block), lower = row + TILE_M / 2;
    int each = is_x ? TILE_M : TILE_W_SCALES; /* of a stage */
    struct scale_row of[2];
    of[0] = is_x ? scale_row_of(a->x_scale, row * (long long)a->x_scale_row, a->x_scale_col, x_scales + t, row < a->m)
                 : scale_row_of(a->w_scale, row * (long long)a->w_scale_row, a->w_scale_col, w_scales + block,
                                row * GEMM_SCALE_BLOCK < a->n);
    of[1] = scale_row_of(a->x_scale, lower * (long long)a->x_scale_row, a->x_scale_col, x_scales + t + TILE_M / 2,
                         lower < a->m);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        bool there = step < blocks;
#if SCALE_DTYPE == RFG_F32
        if (*round)
            rfg_arrival_wait(empty + s->at, s->odd ^ 1);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (is_x || (i == 0 && block < W_SCALED))
                rfg_async_copy4_at(rfg_lds_address(of[i].to + s->at * each), of[i].from + step * (long long)of[i].next,
                                   there && of[i].from);
        rfg_arrive_copies(full + s->at);
#else
        float v[2]; /* asked for before there is room for them */
#pragma unroll
        for (int i = 0; i < 2; i++)
            v[i] = there && of[i].from && (is_x || (i == 0 && block < W_SCALED))
                       ? rfg_load_scale(of[i].from, step * (long long)of[i].next, SCALE_DTYPE)
                       : 0.0f;
        if (*round)
            rfg_arrival_wait(empty + s->at, s->odd ^ 1);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (is_x || (i == 0 && block < W_SCALED))
                of[i].to[s->at * each] = v[i];
        rfg_arrive(full + s->at);
#endif
        rfg_next_stage(s, STAGES);
        *round |= s->at == 0;
    }
}
#endif
#endif

#if W4
#include "gemm/gpu/nvidia/tile_wgmma_w4.h"
#endif
#if EXPERTS
#include "gemm/gpu/nvidia/tile_wgmma_experts.h"
#endif

/* The scales of a step in LDS: of the lane's two rows of X, times W's. */
struct step_scales {
    float of[W_SCALED][2];
};
RFG_DEVICE struct step_scales scales_of(const float *x_scales, const float *w_scales, int stage)
{
    struct step_scales s;
#if BLOCKS
    const float *x = x_scales + stage * TILE_M + WAVE_M + rfg_lane() / 4;
    const float *w = w_scales + stage * TILE_W_SCALES;
#pragma unroll
    for (int b = 0; b < W_SCALED; b++) {
        s.of[b][0] = x[0] * w[b];
        s.of[b][1] = x[8] * w[b];
    }
#else
    (void)x_scales, (void)w_scales, (void)stage;
#endif
    return s;
}

#if PARTS
/* Adds a piece's sums. whole: columns of the warpgroup, in eights, of the first block of W's scales, which may end in
 * front of them. */
RFG_DEVICE void add_piece(float *d, const matrix_sum *part, int piece, const struct step_scales *s, int whole)
{
#pragma unroll
    for (int j = 0; j < PIECE_N / 8; j++) {
        float *to = d + piece * PIECE_SUMS + 4 * j;
#if BLOCKS
        float of[W_HALVES][2]; /* gate's columns, or all; up's */
#pragma unroll
        for (int h = 0; h < W_HALVES; h++) {
            of[h][0] = s->of[h * W_BLOCKS][0];
            of[h][1] = s->of[h * W_BLOCKS][1];
#pragma unroll
            for (int b = 1; b < W_BLOCKS; b++)
                if ((piece * (PIECE_N / 8) + j) / ALIKE * ALIKE >= whole + (b - 1) * BLOCK_EIGHTS) {
                    of[h][0] = s->of[h * W_BLOCKS + b][0];
                    of[h][1] = s->of[h * W_BLOCKS + b][1];
                }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i] = rfg_fma(as_float(part[4 * j + i]), of[i % W_HALVES][i / 2], to[i]);
#else
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i] += as_float(part[4 * j + i]);
#endif
    }
    (void)s, (void)whole;
}
#endif

/* Steps of a turn of the loop. */
struct turn {
    int stage[TURN_STEPS];
    struct step_scales of[TURN_STEPS];
};

/* What a wave that multiplies goes by. */
struct multiplier {
    rfg_u64 rows_a, rows_b;           /* of its first step */
    const float *x_scales, *w_scales; /* of steps, in LDS */
    struct rfg_stage s;               /* which comes next */
    rfg_u64 *full, *empty;
};

/* Begins with piece i of a turn. */
RFG_DEVICE void begin_piece(struct multiplier *w, struct turn *t, int i, matrix_sum *part)
{
    int step = i / PIECES;
    if (i % PIECES == 0) {
        t->stage[step] = w->s.at;
        rfg_arrival_wait(w->full + w->s.at, w->s.odd);
        if (EXPERTS || W4) /* X's copies, or W's, are no TMA's */
            rfg_wg_see();
        rfg_next_stage(&w->s, STAGES);
    }
    multiply_piece(part, w->rows_a, w->rows_b, t->stage[step], i % PIECES);
    if (i % PIECES == 0)
        t->of[step] = scales_of(w->x_scales, w->w_scales, t->stage[step]);
}
RFG_DEVICE void begin_turn(struct multiplier *w, struct turn *t, matrix_sum (*part)[PIECE_SUMS])
{
#pragma unroll
    for (int i = 0; i < SETS; i++)
        begin_piece(w, t, i, part[i]);
}

#if PARTS
/* The rest of it. A piece is multiplied while the one before it is added. */
RFG_DEVICE void end_turn(struct multiplier *w, struct turn *t, float *d, matrix_sum (*part)[PIECE_SUMS], int whole)
{
#pragma unroll
    for (int i = 0; i < TURN; i++) {
        if (i + 1 < TURN && SETS > 1)
            rfg_wg_wait(1);
        else
            rfg_wg_wait(0);
        if (i % PIECES == PIECES - 1)
            leave_stage(w->empty, t->stage[i / PIECES]);
        add_piece(d, part[i % SETS], i % PIECES, &t->of[i / PIECES], whole);
        if (i + SETS < TURN)
            begin_piece(w, t, i + SETS, part[i % SETS]);
    }
}
#endif

/* Sums of a tile, whose first turn has begun. What begins in a turn ends in it, or the compiler would wait after each
 * instruction. */
RFG_DEVICE void multiply_tile(float *d, matrix_sum (*part)[PIECE_SUMS], struct turn *t, int n0, int steps,
                              struct multiplier *w)
{
#if PARTS
    int in_block = W_SPAN % GEMM_SCALE_BLOCK == 0 ? 0 : n0 / W_HALVES % GEMM_SCALE_BLOCK;
    int whole = ((GEMM_SCALE_BLOCK - in_block) * W_HALVES - WAVE_N) / 8;
    int step;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        d[i] = 0.0f;
    end_turn(w, t, d, part, whole);
#pragma unroll 1
    for (step = TURN_STEPS; step + TURN_STEPS <= steps; step += TURN_STEPS) {
        begin_turn(w, t, part);
        end_turn(w, t, d, part, whole);
    }
    if (TURN_STEPS > 1 && step < steps) {
        begin_piece(w, t, 0, part[0]);
        rfg_wg_wait(0);
        leave_stage(w->empty, t->stage[0]);
        add_piece(d, part[0], 0, &t->of[0], whole);
    }
#else
    int before = t->stage[0];
#pragma unroll 1
    for (int step = 1; step < steps; step++) {
        begin_turn(w, t, part);
        rfg_wg_wait(1);
        leave_stage(w->empty, before);
        before = t->stage[0];
    }
    rfg_wg_wait(0);
    leave_stage(w->empty, before);
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
        d[i] = as_float(part[0][i]);
        part[0][i] = 0;
    }
    (void)n0;
#endif
}

#include "gemm/gpu/nvidia/tile_wgmma_store.h"

/* One thread prepares all arrivals; meet() shows them to the others, of the whole cluster. */
RFG_DEVICE void init_arrivals(rfg_u64 *full, rfg_u64 *empty, rfg_u64 *ending_full, rfg_u64 *ending_empty)
{
    for (int i = 0; i < STAGES; i++) {
        rfg_arrival_init(full + i, FULL_ARRIVALS);
        rfg_arrival_init(empty + i, CLUSTER * TILE_WAVES);
    }
    rfg_arrival_init(ending_full, 3);
    rfg_arrival_init(ending_empty, TILE_WAVES);
}

RFG_DEVICE void meet(void)
{
    if (CLUSTER > 1) {
        rfg_cluster_arrive_first();
        rfg_cluster_wait();
    } else {
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        rfg_barrier_lds();
    }
}

#if !EXPERTS && !W4
/* One thread asks for all tiles of the workgroup. W isn't what the previous launch writes: of the first steps it is
 * asked for ahead. */
RFG_DEVICE void copy_tiles(const struct gemm_args *a, int rank, int tiles, int stride, int steps, rfg_u32 ring,
                           struct rfg_stage *s, int *round, rfg_u64 *full, rfg_u64 *empty, const rfg_tile_map *x,
                           const rfg_tile_map *w)
{
    int tile = rfg_group_x() / CLUSTER, ahead = tile >= tiles ? 0 : steps < STAGES ? steps : STAGES;
    struct place p = place_of(a, tile, rank);
    for (int i = 0; i < ahead; i++)
        copy_w(p, rank, i, ring + (rfg_u32)(i * STEP_BYTES), w, full + i);
    rfg_await_previous();
    for (int i = 0; i < ahead; i++)
        copy_x(p, i, ring + (rfg_u32)(i * STEP_BYTES), x, full + i);
    s->at = ahead % STAGES;
    s->odd = *round = ahead == STAGES;
#pragma unroll 1
    for (; tile < tiles; tile += stride, ahead = 0)
        copy_tile(place_of(a, tile, rank), rank, ahead, steps, ring, s, round, full, empty, x, w);
}

/* The three waves beside it copy scales of blocks, or what sums end with. */
RFG_DEVICE void copy_factors(const struct gemm_args *a, int rank, int tiles, int stride, int steps, float *behind,
                             float *few, struct rfg_stage *s, int *round, rfg_u64 *full, rfg_u64 *empty,
                             rfg_u64 *ending_full, rfg_u64 *ending_empty)
{
    int turn = 0;
#pragma unroll 1
    for (int tile = rfg_group_x() / CLUSTER; tile < tiles; tile += stride, turn++) {
#if BLOCKS
        copy_scales(a, place_of(a, tile, rank), steps, behind, few, s, round, full, empty);
#else
        if (has_ending(a))
            copy_ending(a, place_of(a, tile, rank), behind, few, turn, ending_full, ending_empty);
#endif
    }
}
#endif

#if CLUSTER > 1
RFG_KERNEL_CLUSTER(TILE_THREADS(W4), CLUSTER)
#else
RFG_KERNEL(TILE_THREADS(W4))
#endif
gemm_tile_wgmma(struct gemm_args a
#if !EXPERTS
                ,
                const __grid_constant__ rfg_tile_map x
#endif
#if !W4
                ,
                const __grid_constant__ rfg_tile_map w
#endif
#if Y_TILES
                ,
                const __grid_constant__ rfg_tile_map y
#endif
)
{
#if W4
    const rfg_tile_map *w_map = 0;
#else
    const rfg_tile_map *w_map = &w;
#endif
    char *lds = (char *)rfg_wg_lds, *ring = lds + TILE_RING_AT(N_EXPERTS(&a));
    rfg_u64 *full = (rfg_u64 *)lds, *empty = full + TILE_MAX_STAGES;
    rfg_u64 *ending_full = empty + TILE_MAX_STAGES, *ending_empty = ending_full + 1;
    float *few = (float *)(lds + TILE_FEW_AT); /* with scales of rows X's; of blocks steps' of W */
    int rank = CLUSTER > 1 ? rfg_cluster_rank() : 0, steps = (a.k - 1) / STEP_K + 1;
#if EXPERTS
    int tiles;
#else
    int tiles = tiles_of(&a);
#endif
    int stride = rfg_groups_x(TILE_THREADS(W4)) / CLUSTER;
    steps = steps > TURN_STEPS ? steps : TURN_STEPS; /* beyond K is zero */
    float *behind = (float *)(ring + STAGES * STEP_BYTES + TILE_WAVES * TILE_Y_BUFFERS * TILE_Y_BYTES);
    struct rfg_stage s = { 0, 0 };

    rfg_start_next();
    if (rfg_thread() == 0) {
#if !EXPERTS
        rfg_tile_expect(&x);
#endif
        if (!W4)
            rfg_tile_expect(w_map);
        init_arrivals(full, empty, ending_full, ending_empty);
    }
    meet();
#if EXPERTS
    struct tile_list *list = (struct tile_list *)(lds + TILE_LIST_AT);
    rfg_await_previous();
    if (rfg_wave() == 0)
        list_tiles(list, &a);
    rfg_barrier_lds();
    tiles = tiles_of(&a, list);
#endif

    if (rfg_wave() >= TILE_WAVES) {
        rfg_fewer_registers(TILE_FEWER(EXPERTS, W4));
        int round = 0;
#if EXPERTS
#pragma unroll 1
        for (int tile = rfg_group_x() / CLUSTER; tile < tiles; tile += stride) {
            struct place p = place_of(&a, list, tile, rank);
            copy_tile(&a, &p, rfg_thread() - TILE_WAVES * RFG_WAVE, rank, steps, ring, behind, few, &s, &round, full,
                      empty, w_map);
        }
        rfg_async_wait_all();
#elif W4
#pragma unroll 1
        for (int tile = rfg_group_x(); tile < tiles; tile += stride)
            w4_copy_tile(&a, place_of(&a, tile, rank), steps, ring, (char *)behind, &s, &round, full, empty, &x);
#else
        if (rfg_thread() == TILE_WAVES * RFG_WAVE)
            copy_tiles(&a, rank, tiles, stride, steps, rfg_lds_address(ring), &s, &round, full, empty, &x, w_map);
        rfg_await_previous();
        if (rfg_wave() > TILE_WAVES)
            copy_factors(&a, rank, tiles, stride, steps, behind, few, &s, &round, full, empty, ending_full,
                         ending_empty);
#endif
        __syncwarp();
    } else {
        rfg_more_registers(TILE_REGISTERS(EXPERTS, W4));
        rfg_await_previous();
        int wave = __shfl_sync(0xffffffffu, rfg_wave(), 0); /* the compiler then knows that lanes have the same */
        struct multiplier w = { rfg_wg_rows(ring + wave / 4 * 64 % TILE_M * TILE_WIDTH),
                                rfg_wg_rows(ring + X_STEP_BYTES + wave / 4 * 64 / TILE_M * GROUP_N * TILE_WIDTH),
                                behind,
                                few,
                                { 0, 0 },
                                full,
                                empty };
        struct storer to = {
            behind, few, ending_full, ending_empty, ring + STAGES * STEP_BYTES + wave * (TILE_Y_BUFFERS * TILE_Y_BYTES),
            0
        };
#if Y_TILES
        to.y_map = &y;
#endif
        matrix_sum part[SETS][PIECE_SUMS];
        float d[SUMS];
        rfg_u32 held[HELD ? SUMS / 2 : 1];
        struct place before; /* of the sums in d, or held */
        int turn = 0;
#pragma unroll
        for (int i = 0; i < SETS * PIECE_SUMS; i++)
            part[i / PIECE_SUMS][i % PIECE_SUMS] = 0;
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            d[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < (HELD ? SUMS / 2 : 1); i++)
            held[i] = 0;
#pragma unroll 1
        for (int tile = rfg_group_x() / CLUSTER; tile < tiles; tile += stride, turn++) {
#if EXPERTS
            struct place p = place_of(&a, list, tile, rank);
            if (p.m0 + wave / 4 * 64 >= p.x.rows) {
                pass_tile(steps, &w.s, full, empty);
                continue;
            }
#else
            struct place p = place_of(&a, tile, rank);
#endif
            struct turn first;
            begin_turn(&w, &first, part);
            if ((LATER || HELD) && turn > 0)
                store_tile(&a, d, held, before, turn - 1, &to);
            multiply_tile(d, part, &first, p.n0, steps, &w);
#if EXPERTS
            asm volatile("" : "+r"(tile)); /* to find it again takes no registers meanwhile */
            p = place_of(&a, list, tile, rank);
#endif
            if (HELD)
                hold_tile(&a, held, d, p, turn, &to);
            else if (!LATER)
                store_tile(&a, d, held, p, turn, &to);
            before = p;
        }
        if ((LATER || HELD) && turn > 0)
            store_tile(&a, d, held, before, turn - 1, &to);
        if (rfg_lane() == 0)
            rfg_tile_stores_done(0);
    }
    if (CLUSTER > 1) { /* others' copies to this one's LDS, and arrivals, may be under way */
        rfg_cluster_arrive();
        rfg_cluster_wait();
    }
}
