/* SPDX-License-Identifier: MIT
 *
 * gemm of a W of 8-bit codes and few rows of X on Hopper: W goes straight from memory to registers, X to LDS, once.
 *
 * A wave has FRAGS_N x 16 rows of W, mma.sync's A, and a part of k. AHEAD steps of 64 columns are in flight in its
 * registers, and a step is asked for again as soon as it is used, so that W passes no LDS, no ring and no barrier. All
 * of the workgroup's columns of X come to LDS by bulk copies, in pieces of DIRECT_PIECE steps, each with an arrival: W
 * is in flight before X may be read, and the first waves begin when the first piece is there. X is the instruction's B.
 *
 * k is split across K_WAVES sets of waves and a cluster of SPLIT workgroups. Sums are added as in gemm_w4_mma: each
 * workgroup owns some blocks of the tile, waves send it theirs, and it adds them in the order of ranks and sets.
 *
 * Budget of a wave's step, for each 16 rows of W: 2 loads of 512 bytes, 64 instructions that decode e4m3 to bf16, 2 x
 * TILE_M / 8 loads of X from LDS (for all FRAGS_N), 4 x TILE_M / 8 mma of 16x8x16. A CU's memory gives 1 KB in about
 * 55 clocks, in which it issues 220 instructions. What binds is memory, and latency at the start and the end.
 *
 * Macros: those of load.h and epilogue.h (X f16 or bf16, W of 8 bits), TILE_M (8, 16), FRAGS_N, N_WAVES, K_WAVES, SPLIT
 * (1 to 16), AHEAD, FETCH (steps behind these that are brought into L2 at the start), X_FIRST (X is asked for before W;
 * 0 where the launch overlaps the previous one, which writes X), EXACT (all waves have the same number of steps, a
 * multiple of AHEAD), TAIL (K % 64 != 0), PREPACKED. Grid: SPLIT neighbours for each tile, tiles along m first. LDS:
 * DIRECT_LDS_BYTES. Needs rows of X and W aligned to 16 bytes, K % 16 = 0. */
#include "rfg_device.h"
#include "rfg_decode8.h"
#include "rfg_tma.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/nvidia/cluster_sums.h"
#include "gemm/gpu/nvidia/direct_layout.h"

#define THREADS  (N_WAVES * K_WAVES * RFG_WAVE)
#define BLOCKS_N (N_WAVES * FRAGS_N)
#define TILE_N   (BLOCKS_N * 16)
#define FRAGS_M  (TILE_M / 8)
#define BLOCKS   (BLOCKS_N * FRAGS_M)
#define PARTS    (SPLIT * K_WAVES)
#define OWN      DIRECT_OWNED(BLOCKS, SPLIT)
#define X_AT     DIRECT_X_AT(BLOCKS, K_WAVES, SPLIT)

static_assert((1 + DIRECT_PIECES) * sizeof(rfg_u64) <= DIRECT_PARTIALS_AT, "arrivals reach into the partial sums");
static_assert(DIRECT_STEP == PREPACK8_COLS, "a step is not a fragment of W");

/* ---- W ----------------------------------------------------------------------------------------------------------- */

struct step {
    rfg_u32x4 w[FRAGS_N][2]; /* rows lane / 4 and lane / 4 + 8 of each block */
#if SCALES == GEMM_SCALES_BLOCKS
    float scale[FRAGS_N][2];
#endif
};

/* The lane's place in the wave's first step. */
struct place {
    const char *w[FRAGS_N][2];
    int left; /* chunks of 16 columns from there to the end of a row */
#if SCALES == GEMM_SCALES_BLOCKS
    const struct gemm_args *a;
    int n, first;
#endif
};

/* Rows that don't exist are copies of the last. */
RFG_DEVICE struct place place_of(const struct gemm_args *a, int n0, int first)
{
    struct place p;
    int chunk = rfg_lane() % 4;
    p.left = a->k / W_VEC - first * 4 - chunk;
#pragma unroll
    for (int i = 0; i < FRAGS_N * 2; i++) {
        int n = n0 + i * 8 + rfg_lane() / 4;
        p.w[i / 2][i % 2] = W_FRAG_AT(a, n < a->n ? n : a->n - 1, chunk) + (long long)first * W_FRAG_STEP;
    }
#if SCALES == GEMM_SCALES_BLOCKS
    p.a = a;
    p.n = n0 + rfg_lane() / 4;
    p.first = first;
#endif
    return p;
}

RFG_DEVICE void load_w(struct step *s, const struct place *p, int step)
{
#pragma unroll
    for (int i = 0; i < FRAGS_N * 2; i++) {
        if (!TAIL || step * 4 < p->left)
            s->w[i / 2][i % 2] = rfg_load16_stream(p->w[i / 2][i % 2] + step * W_FRAG_STEP);
        else
            s->w[i / 2][i % 2].x = s->w[i / 2][i % 2].y = s->w[i / 2][i % 2].z = s->w[i / 2][i % 2].w = 0;
#if SCALES == GEMM_SCALES_BLOCKS
        int n = p->n + i * 8, column = (p->first + step) * DIRECT_STEP;
        s->scale[i / 2][i % 2] = w_scale_of(p->a, n < p->a->n ? n : p->a->n - 1, column / SCALE_COLUMNS);
#endif
    }
}

/* The first steps. */
RFG_DEVICE void begin_w(struct step *ring, const struct place *p, int steps)
{
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (EXACT || u < steps)
            load_w(&ring[u], p, u);
}

/* Into L2: the wave's next FETCH steps, or as many as there are. A lane asks for a row's, of prepacked W for 16 rows'. */
RFG_DEVICE void fetch_w(const struct gemm_args *a, int n0, int first, int steps)
{
    int ahead = steps - AHEAD < FETCH ? steps - AHEAD : FETCH, lane = rfg_lane() * (PREPACKED ? PREPACK_ROWS : 1);
    int columns = a->k - (first + AHEAD) * DIRECT_STEP;
    columns = columns < ahead * DIRECT_STEP ? columns : ahead * DIRECT_STEP;
    if (lane < FRAGS_N * 16 && n0 + lane < a->n && columns > 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(W_FRAG_AT(a, n0 + lane, 0) +
                                                                        (long long)(first + AHEAD) * W_FRAG_STEP),
                     "r"(columns * (PREPACKED ? PREPACK_ROWS : 1))
                     : "memory");
}

/* ---- X ----------------------------------------------------------------------------------------------------------- */

/* What X needs: where it is, and a set's steps in the workgroup's, which begin at step `first` of all. */
struct x_copier {
    const char *from; /* the lane's row */
    rfg_u32 to;
    rfg_u64 *full; /* the set's arrivals */
    int columns, rows, begin, steps;
};

/* row: that of the lane. Rows that don't exist are left as they are: they only reach rows of Y that don't exist. */
RFG_DEVICE struct x_copier x_copier_of(const struct gemm_args *a, char *x, rfg_u64 *full, int m0, int first, int mine,
                                       int begin, int steps)
{
    struct x_copier c;
    int row = rfg_lane();
    c.rows = a->m - m0 < TILE_M ? a->m - m0 : TILE_M;
    c.columns = a->k - (first + begin) * DIRECT_STEP;
    c.begin = begin;
    c.steps = steps;
    c.full = full;
    c.to = rfg_lds_address(x) + (rfg_u32)(row * DIRECT_ROW(mine) + begin * (DIRECT_STEP * 2));
    c.from =
        (const char *)a->x + ((m0 + (row < c.rows ? row : 0)) * GEMM_LDX(a) + (first + begin) * DIRECT_STEP) * X_BYTES;
    return c;
}

/* A wave asks for the set's i-th piece, if there is one. */
RFG_DEVICE void copy_piece(const struct x_copier *c, int i)
{
    int at = i * DIRECT_PIECE, n = c->steps - at < DIRECT_PIECE ? c->steps - at : DIRECT_PIECE;
    if (n <= 0)
        return;
    int left = c->columns - at * DIRECT_STEP, columns = left < n * DIRECT_STEP ? left : n * DIRECT_STEP;
    if (rfg_lane() == 0)
        rfg_arrive_expect(c->full + i, (rfg_u32)(c->rows * columns * 2));
    __syncwarp();
    if (rfg_lane() < c->rows)
        rfg_bulk_load(c->to + (rfg_u32)(at * (DIRECT_STEP * 2)), c->from + at * (DIRECT_STEP * 2),
                      (rfg_u32)(columns * 2), c->full + i);
}

/* Columns beyond K of the last step are zero, or W's zeros would meet NaNs. */
RFG_DEVICE void clear_tail(const struct gemm_args *a, char *x, int first, int mine)
{
#if TAIL
    int there = a->k - first * DIRECT_STEP, words = (mine * DIRECT_STEP - there) / 2;
    for (int i = rfg_thread(); i < TILE_M * words; i += THREADS)
        *(rfg_u32 *)(x + i / words * DIRECT_ROW(mine) + (there + i % words * 2) * 2) = 0;
#else
    (void)a, (void)x, (void)first, (void)mine;
#endif
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Adds a step. x: the lane's row and chunk in it. */
RFG_DEVICE void multiply(float (*d)[FRAGS_M][4], struct step *s, const char *x_at, int row_bytes)
{
#if SCALES == GEMM_SCALES_BLOCKS
    float part[FRAGS_N][FRAGS_M][4];
#pragma unroll
    for (int i = 0; i < FRAGS_N * FRAGS_M * 4; i++)
        part[i / 4 / FRAGS_M][i / 4 % FRAGS_M][i % 4] = 0.0f;
#else
    float(*part)[FRAGS_M][4] = d;
#endif
#pragma unroll
    for (int i = 0; i < FRAGS_N * 2; i++) /* decoded here: nvcc would do it for all steps as soon as they are loaded */
        asm volatile(""
                     : "+r"(s->w[i / 2][i % 2].x), "+r"(s->w[i / 2][i % 2].y), "+r"(s->w[i / 2][i % 2].z),
                       "+r"(s->w[i / 2][i % 2].w));
#pragma unroll
    for (int p = 0; p < 2; p++) {
        rfg_u32x4 x[FRAGS_M];
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
            x[i] = *(const rfg_u32x4 *)(x_at + i * 8 * row_bytes + p * 16);
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++) {
            rfg_u32x4 rows[2] = { w_decode8(s->w[j][0], p), w_decode8(s->w[j][1], p) };
#pragma unroll
            for (int i = 0; i < FRAGS_M; i++)
                rfg_mma_16x8(part[j][i], rows, x[i], IN_DTYPE);
        }
    }
#if SCALES == GEMM_SCALES_BLOCKS
#pragma unroll
    for (int i = 0; i < FRAGS_N * FRAGS_M * 4; i++) {
        int j = i / 4 / FRAGS_M, m = i / 4 % FRAGS_M, e = i % 4;
        d[j][m][e] = rfg_fma(part[j][m][e], s->scale[j][e / 2], d[j][m][e]);
    }
#endif
}

/* All of the wave's steps. copies: it asks for X, too, DIRECT_AHEAD pieces ahead. */
RFG_DEVICE void multiply_all(float (*d)[FRAGS_M][4], struct step *ring, const struct place *p, const char *x,
                             const struct x_copier *c, int mine, bool copies)
{
    int row_bytes = DIRECT_ROW(mine), steps = c->steps;
    const char *x_at = x + rfg_lane() / 4 * row_bytes + c->begin * (DIRECT_STEP * 2) + rfg_lane() % 4 * 32;
#pragma unroll
    for (int i = 0; i < FRAGS_N * FRAGS_M * 4; i++)
        d[i / 4 / FRAGS_M][i / 4 % FRAGS_M][i % 4] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; step += AHEAD) {
        bool more = step + AHEAD < steps;
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int at = step + u;
            if (!EXACT && at >= steps)
                break;
            if (at % DIRECT_PIECE == 0) {
                if (copies)
                    copy_piece(c, at / DIRECT_PIECE + DIRECT_AHEAD);
                rfg_arrival_wait(c->full + at / DIRECT_PIECE, 0);
            }
            multiply(d, &ring[u], x_at + at * (DIRECT_STEP * 2), row_bytes);
            if (EXACT ? more : at + AHEAD < steps)
                load_w(&ring[u], p, at + AHEAD);
        }
    }
}

/* The wave's sums of a block to their owner, or, if there are no others, to Y. */
RFG_DEVICE void give_block(const struct gemm_args *a, char *lds, int m0, int n0, int block, int part, const float *d)
{
    char *to = lds + DIRECT_PARTIALS_AT + (block % OWN * PARTS + part) * DIRECT_BLOCK_BYTES + rfg_lane() * 16;
    rfg_f32x4 v;
    v.x = d[0];
    v.y = d[1];
    v.z = d[2];
    v.w = d[3];
    if (SPLIT > 1)
        send_4(to, (rfg_u64 *)lds, block / OWN, v.x, v.y, v.z, v.w);
    else if (PARTS > 1)
        *(rfg_f32x4 *)to = v;
    else
        store_8x16(a, m0, n0, block, BLOCKS_N, v);
}

/* Adds the blocks that this workgroup owns, and stores them. */
RFG_DEVICE void add_parts(const struct gemm_args *a, char *lds, int m0, int n0, int rank, int owned)
{
#pragma unroll 1
    for (int own = rfg_wave(); own < owned; own += N_WAVES * K_WAVES) {
        const rfg_f32x4 *parts = (const rfg_f32x4 *)(lds + DIRECT_PARTIALS_AT + own * PARTS * DIRECT_BLOCK_BYTES);
        rfg_f32x4 sum = parts[rfg_lane()];
#pragma unroll 8
        for (int i = 1; i < PARTS; i++)
            sum = rfg_add_f32x4(sum, parts[i * (DIRECT_BLOCK_BYTES / 16) + rfg_lane()]);
        store_8x16(a, m0, n0, rank * OWN + own, BLOCKS_N, sum);
    }
}

#if SPLIT > 1
RFG_KERNEL_CLUSTER(THREADS, SPLIT)
#else
RFG_KERNEL(THREADS)
#endif
gemm_direct_mma(struct gemm_args a)
{
    rfg_start_next();
    char *lds = (char *)rfg_lds, *x = lds + X_AT;
    rfg_u64 *arrival = (rfg_u64 *)lds, *full = arrival + 1;
    int rank = SPLIT == 1 ? 0 : rfg_group_x() % SPLIT, tile = rfg_group_x() / SPLIT;
    int tiles_m = (a.m - 1) / TILE_M + 1, m0 = tile % tiles_m * TILE_M, n0 = tile / tiles_m * TILE_N;
    int all = (a.k - 1) / DIRECT_STEP + 1, first = rfg_share_begin(all, rank, SPLIT);
    int mine = rfg_share_begin(all, rank + 1, SPLIT) - first, set = rfg_wave() / N_WAVES;
    int begin = rfg_share_begin(mine, set, K_WAVES), steps = rfg_share_begin(mine, set + 1, K_WAVES) - begin;
    int n = rfg_wave() % N_WAVES * FRAGS_N, owned = BLOCKS - rank * OWN < OWN ? BLOCKS - rank * OWN : OWN;

    struct place p = place_of(&a, n0 + n * 16, first + begin);
    struct x_copier c =
        x_copier_of(&a, x, full + set * DIRECT_SET_PIECES(mine, K_WAVES), m0, first, mine, begin, steps);
    struct step ring[AHEAD];
    bool copies = rfg_wave() % N_WAVES == 0;
    if (!X_FIRST) {
        begin_w(ring, &p, steps);
        if (FETCH)
            fetch_w(&a, n0 + n * 16, first + begin, steps);
    }
    if (rfg_thread() == 0) {
        for (int i = 0; i < K_WAVES * DIRECT_SET_PIECES(mine, K_WAVES); i++)
            rfg_arrival_init(full + i, 1);
        if (SPLIT > 1)
            expect_blocks(arrival, owned, PARTS * DIRECT_BLOCK_BYTES);
    }
    if (SPLIT > 1)
        rfg_cluster_arrive_first();
    else
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (TAIL && rank == SPLIT - 1)
        clear_tail(&a, x, first, mine);
    rfg_barrier_lds();
    rfg_await_previous();
    if (copies)
        for (int i = 0; i < DIRECT_AHEAD; i++)
            copy_piece(&c, i);
    if (X_FIRST) {
        begin_w(ring, &p, steps);
        if (FETCH)
            fetch_w(&a, n0 + n * 16, first + begin, steps);
    }
#if SCALES == GEMM_SCALES_ROWS
    if (rfg_thread() < TILE_N)
        expect_w_scale(&a, n0 + (long long)rfg_thread());
#endif
    float d[FRAGS_N][FRAGS_M][4];
    multiply_all(d, ring, &p, x, &c, mine, copies);
    if (SPLIT > 1)
        rfg_cluster_wait();
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
#pragma unroll
        for (int i = 0; i < FRAGS_M; i++)
            give_block(&a, lds, m0, n0, n + j + BLOCKS_N * i, rank * K_WAVES + set, d[j][i]);
    if (PARTS == 1)
        return;
    if (SPLIT == 1)
        rfg_barrier_lds();
    else if (owned > 0)
        rfg_arrival_wait(arrival, 0);
    add_parts(&a, lds, m0, n0, rank, owned);
}
