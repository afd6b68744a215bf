/* SPDX-License-Identifier: MIT
 *
 * gemm for few rows of X on NVIDIA's mma.sync, W and X straight from memory to registers. X is the instruction's A (16
 * rows), W its B (8 rows), so that there are tiles of 8 rows of W for as many workgroups as possible. A wave takes
 * FRAGS_N x 8 rows of W and its own range of k: its first UNROLL steps of 32 are under way before anything is waited
 * for, and each is asked for again as soon as it is used. At best all of a problem's weights are in flight at once.
 *
 * k is split across K_WAVES waves and a cluster of SPLIT workgroups. Partial sums are reduced in blocks of 16 x 8,
 * which a wave holds in two or four registers of each lane. Each workgroup of the cluster owns some blocks, or some
 * lanes of a block, and is sent the partial sums of these, which it adds in the order of ranks and waves. If a tile is
 * one block, every wave sends its sums from registers to the owner's LDS; if it has more, the waves of a workgroup
 * first add theirs in LDS, which costs a barrier and saves traffic. The reduction uses no global memory and no
 * counters, and its result doesn't depend on the order of arrival.
 *
 * X_FIRST: X is loaded before W. 0 where the launch overlaps the previous one, which writes X.
 *
 * Codes of 8 bits have steps of 64. With scales of blocks a step's sums are multiplied by theirs before they are added.
 * W of 4 bits, prepacked, is loaded in the same pieces, each of four steps of 32 columns, and decoded and scaled as
 * gemm_stream_mma does it, with X of mx formats, too, and so is W of 8 bits beside X of 16: see there.
 *
 * ALONG, gemm_short_mma: of a short k a wave takes all UNROLL steps, and so many tiles along n, whose W it asks for in
 * the same ring, a tile ahead: X stays where it is, and no wave waits for another.
 *
 * Budget of a wave's step of 32 columns of 16 bits: FRAGS_N loads of W and TILE_M / 8 of X, 512 bytes each; two mma of
 * 16x8x16 for each of the BLOCKS blocks. W is read once for each tile along m. What binds is memory: its latency if k
 * is short, its bandwidth otherwise. Under way are at most UNROLL * K_WAVES * FRAGS_N * 512 bytes of W a workgroup.
 *
 * Macros: those of load.h and epilogue.h (X fp16 or bf16 and W the same or of 4 or 8 bits; or both codes), TILE_M (8, 16,
 * 32), FRAGS_N (1, 2, 4), K_WAVES, UNROLL (in steps), SPLIT (1 to 16), X_FIRST, EXACT (all waves have the same number
 * of steps, a multiple of UNROLL), ALONG (0, or with EXACT, UNROLL all steps and SPLIT 1), TAIL (K % 32 != 0; of W of 8 bits % 64, of 4 bits % 128), PREPACKED (W is). Grid:
 * SPLIT neighbours for each tile, tiles along m first; of grouped products, along n first. LDS: THIN_LDS_BYTES. Needs
 * rows of X and W aligned to 16 bytes and K % 8 = 0 (of W of 8 bits % 16). */
#include "rfg_device.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/experts.h"
#include "gemm/gpu/nvidia/thin_layout.h"
#if SPLIT > 1
#include "gemm/gpu/nvidia/cluster_sums.h"
#endif

#define THREADS    (K_WAVES * RFG_WAVE)
#define TILE_N     (FRAGS_N * 8)
#define PIECES_X   (TILE_M / 8)         /* 8 rows each */
#define FRAGS_M    THIN_FRAGS_M(TILE_M) /* A's 16 rows */
#define BLOCKS     THIN_BLOCKS(TILE_M, FRAGS_N)
#define FLOATS     THIN_FLOATS(TILE_M)
#define COMBINE    THIN_COMBINES(BLOCKS, SPLIT)
#define SHARES     THIN_SHARES(BLOCKS, SPLIT)
#define LANES      THIN_LANES(BLOCKS, SPLIT)
#define OWN        THIN_OWNED(BLOCKS, SPLIT)
#define SENT       THIN_SENT(BLOCKS, K_WAVES, SPLIT)
#define COMBINE_AT THIN_COMBINE_AT(BLOCKS, FLOATS, K_WAVES, SPLIT)

static_assert(THIN_LANES_OF_WAVE == RFG_WAVE, "the layout's waves are not this machine's");
static_assert(COMBINE_AT % 16 == 0 && (SPLIT == 1 || THIN_SENT_AT + OWN * SENT * LANES * FLOATS * 4 == COMBINE_AT),
              "what is sent does not end where the waves' sums begin");

#define MX (SCALES == GEMM_SCALES_GROUPS)
#if MX
#define STEP_K PREPACK4_COLS
#else
#define STEP_K (32 * W_STEPS * 2 / X_BYTES)
#endif
#define CHUNK_K                                                                                                        \
    (MX ? 8 : W_IS_8_BITS ? W_VEC : X_VEC) /* columns of a lane's piece of X, or of two that are neighbours */
#define BLOCK_STEPS (GEMM_SCALE_BLOCK / STEP_K)
/* Of W of 8 bits with groups each row has a scale of its own. */
#define ROW_SCALES (SCALES == GEMM_SCALES_BLOCKS && W_IS_8_BITS && W_GROUP)
/* From the lane's piece of X in a step's first fragment to that of another, in bytes, and chunks up to it. */
#define X_AT(step, h)     (W_IS_8_BITS ? (step)*128 + (h)*16 : ((step)*W_STEPS + (h)) * 64)
#define X_CHUNKS(step, h) (W_IS_8_BITS ? (step)*4 : ((step)*W_STEPS + (h)) * 4)
static_assert(SCALES != GEMM_SCALES_BLOCKS || GEMM_SCALE_BLOCK % TILE_N == 0, "a tile has several scales of W");

#if W_IS_4_BITS
/* Of each group of a step: the scales of the lane's two columns of a block, as they lie in memory, and its row of W's
 * zero point. */
struct groups {
    rfg_u32 scale[W_GROUPS][W_SCALE_BYTES == 4 ? 2 : 1];
#if W_ZERO
    int zero[W_GROUPS];
#endif
};
#endif

struct step {
    rfg_u32x4 w[FRAGS_N];
#if MX
    x_codes x[W_STEPS][PIECES_X];
    rfg_u32 x_scale[PIECES_X]; /* of the step's four groups */
#else
    rfg_u32x4 x[W_STEPS][PIECES_X];
#endif
#if ROW_SCALES
    float w_scale[FRAGS_N][2]; /* of the lane's two columns of a block */
#elif SCALES == GEMM_SCALES_BLOCKS
    float w_scale[1 + HALVES], x_scale[PIECES_X]; /* of W gate's and up's, which are the lane's columns of a block */
#endif
#if W_IS_4_BITS
    struct groups g[FRAGS_N];
#endif
};

/* The lane's pieces of the wave's next step. */
struct place {
    const char *w[FRAGS_N], *x[PIECES_X];
#if MX
    const char *x_scale[PIECES_X];
#endif
    int left; /* chunks of 16 bytes from there to the end of the rows */
#if SCALES == GEMM_SCALES_BLOCKS
    const struct gemm_args *a;
    int n, m[PIECES_X]; /* rows of W and of X whose scales these are */
#endif
#if W_IS_4_BITS
    const char *scale[FRAGS_N], *zero[FRAGS_N]; /* of the rows' first group */
#endif
#if SCALES == GEMM_SCALES_BLOCKS || W_IS_4_BITS
    int first; /* the wave's first step */
#endif
};

RFG_DEVICE rfg_u32x4 zero16(void)
{
    rfg_u32x4 v;
    v.x = v.y = v.z = v.w = 0;
    return v;
}

#if W_IS_4_BITS
/* In the order written, as rfg_load16(): a load that the compiler puts off leaves it an address to keep. */
RFG_DEVICE rfg_u32 load_few(const char *p, int bytes)
{
    rfg_u32 v;
    if (bytes == 4)
        asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    else if (bytes == 2)
        asm volatile("{\n.reg .u16 h;\nld.global.nc.u16 h, [%1];\ncvt.u32.u16 %0, h;\n}" : "=r"(v) : "l"(p));
    else
        asm volatile("ld.global.nc.s8 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

RFG_DEVICE void load_groups(struct groups *g, const struct place *p, int step, int frag)
{
    int first = W_GROUP_OF(p->first + step) * PREPACK_ROWS;
    const char *scale = p->scale[frag] + first * W_SCALE_BYTES;
#pragma unroll
    for (int i = 0; i < W_GROUPS; i++) {
        g->scale[i][0] = load_few(scale + i * (PREPACK_ROWS * W_SCALE_BYTES), W_SCALE_BYTES == 1 ? 2 : 4);
        if (W_SCALE_BYTES == 4)
            g->scale[i][W_SCALE_BYTES == 4] = load_few(scale + i * (PREPACK_ROWS * W_SCALE_BYTES) + 4, 4);
#if W_ZERO
        g->zero[i] = (int)load_few(p->zero[frag] + first + i * PREPACK_ROWS, 1);
#endif
    }
}
#endif

#if SCALES == GEMM_SCALES_BLOCKS
RFG_DEVICE int scale_block(const struct place *p, int step)
{
    int block = W_IS_8_BITS ? (p->first + step) * STEP_K / SCALE_COLUMNS : (p->first + step) / BLOCK_STEPS;
#if EXPERTS /* pointers aren't the launch's own, and nvcc would make the addresses of all steps' scales ahead */
    asm volatile("" : "+r"(block));
#endif
    return block;
}
#endif

RFG_DEVICE void load_w(struct step *s, const struct place *p, int step)
{
#if W_IS_4_BITS
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        load_groups(&s->g[j], p, step, j);
#endif
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++)
        s->w[j] =
            !TAIL || W_IS_4_BITS || step * 4 < p->left ? rfg_load16_stream(p->w[j] + step * W_FRAG_STEP) : zero16();
#if ROW_SCALES
#pragma unroll
    for (int j = 0; j < FRAGS_N * 2; j++) {
        int n = p->n + j / 2 * 8 + rfg_lane() % 4 * 2 + j % 2;
        s->w_scale[j / 2][j % 2] = w_scale_of(p->a, n < p->a->n ? n : p->a->n - 1, scale_block(p, step));
    }
#elif SCALES == GEMM_SCALES_BLOCKS
#pragma unroll
    for (int h = 0; h < 1 + HALVES; h++)
        s->w_scale[h] = w_scale_of(p->a, p->n + h, scale_block(p, step));
#endif
}

RFG_DEVICE void load_x(struct step *s, const struct place *p, int step)
{
#if MX
#pragma unroll
    for (int i = 0; i < PIECES_X; i++)
        s->x_scale[i] = rfg_load4(p->x_scale[i] + step * W_STEPS);
#pragma unroll
    for (int h = 0; h < W_STEPS; h++)
#pragma unroll
        for (int i = 0; i < PIECES_X; i++)
#if IN_DTYPE == RFG_E2M1
            s->x[h][i] = rfg_load4(p->x[i] + (step * W_STEPS + h) * 16);
#else
            s->x[h][i] = rfg_load8(p->x[i] + (step * W_STEPS + h) * 32);
#endif
#else
#pragma unroll
    for (int h = 0; h < W_STEPS; h++)
#pragma unroll
        for (int i = 0; i < PIECES_X; i++)
            s->x[h][i] = !TAIL || X_CHUNKS(step, h) < p->left ? rfg_load16(p->x[i] + X_AT(step, h)) : zero16();
#endif
#if SCALES == GEMM_SCALES_BLOCKS && !ROW_SCALES
#pragma unroll
    for (int i = 0; i < PIECES_X; i++)
        s->x_scale[i] = x_scale_at(p->a, p->m[i], scale_block(p, step));
#endif
}

#if RFG_IS_CODE(IN_DTYPE) && !MX
#include "gemm/gpu/nvidia/thin_codes.h"
#else
/* d += the product of 16 rows of X, the i-th of a tile, and a fragment of W. */
RFG_DEVICE void multiply_16x8(float *d, const rfg_u32x4 *pieces, int i, rfg_u32x4 w)
{
    rfg_u32x4 x[2];
    x[0] = pieces[2 * i];
    x[1] = TILE_M == 8 ? zero16() : pieces[TILE_M == 8 ? 0 : 2 * i + 1];
    rfg_mma_16x8(d, x, w, X_AS);
}

#if MX
#include "gemm/gpu/nvidia/thin_mx.h"
#elif W_IS_4_BITS
#include "gemm/gpu/nvidia/thin_w4.h"
#elif W_IS_8_BITS
#include "gemm/gpu/nvidia/thin_w8.h"
#else
RFG_DEVICE void multiply(float (*d)[4], const struct step *s)
{
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGS_N; j++)
            multiply_16x8(d[j * FRAGS_M + i], s->x[0], i, s->w[j]);
}
#endif
#endif

/* Stores the sums of a block that lane `lane` holds, in the order of rfg_mma_16x8(). */
RFG_DEVICE void store_lane(const struct gemm_args *a, int m0, int n0, int block, int lane, const float *v)
{
    int m = m0 + block % FRAGS_M * 16 + lane / 4, n = n0 + block / FRAGS_M * 8 + lane % 4 * 2;
    store_2(a, m, n, v[0], v[1]);
    if (FLOATS == 4)
        store_2(a, m + 8, n, v[2], v[3]);
}

#if SPLIT > 1
/* Sends this lane's sums of a block to the block's owner, as number `from` of those that it is sent. */
RFG_DEVICE void send(char *lds, int block, int from, const float *v)
{
    char *to = lds + THIN_SENT_AT + ((block % OWN * SENT + from) * LANES + rfg_lane() % LANES) * (FLOATS * 4);
    int rank = block / OWN * SHARES + rfg_lane() / LANES;
    if (FLOATS == 4)
        send_4(to, (rfg_u64 *)lds, rank, v[0], v[1], v[2], v[3]);
    else
        send_2(to, (rfg_u64 *)lds, rank, v[0], v[1]);
}

/* Expects what this workgroup will be sent; the number of its blocks. (The wait for others that do so comes when all is
 * multiplied: earlier, it would wait for the loads.) */
RFG_DEVICE int expect_sums(char *lds, int split)
{
    int owned = BLOCKS - split / SHARES * OWN; /* some of the last workgroups may have none */
    owned = owned > OWN ? OWN : owned;
    if (rfg_thread() == 0)
        expect_blocks((rfg_u64 *)lds, owned, SENT * LANES * FLOATS * 4);
    rfg_cluster_arrive_first();
    return owned;
}

/* Adds the partial sums that this workgroup was sent, and stores the results. If workgroups own lanes of a block,
 * SHARES groups of a wave's lanes each add a part. */
RFG_DEVICE void reduce_sent(const struct gemm_args *a, const char *lds, int m0, int n0, int split, int owned)
{
    int group = rfg_lane() / LANES, lane = rfg_lane() % LANES;
#pragma unroll 1
    for (int own = rfg_wave(); own < owned; own += K_WAVES) {
        const float *p =
            (const float *)(lds + THIN_SENT_AT) + ((own * SENT + group * (SENT / SHARES)) * LANES + lane) * FLOATS;
        float sum[4] = { 0, 0, 0, 0 };
#pragma unroll
        for (int i = 0; i < SENT / SHARES; i++)
#pragma unroll
            for (int e = 0; e < FLOATS; e++)
                sum[e] += p[i * LANES * FLOATS + e];
#pragma unroll
        for (int mask = LANES; mask < RFG_WAVE; mask *= 2)
#pragma unroll
            for (int e = 0; e < FLOATS; e++)
                sum[e] += rfg_shuffle_xor(sum[e], mask);
        if (group == 0)
            store_lane(a, m0, n0, split / SHARES * OWN + own, split % SHARES * LANES + lane, sum);
    }
}
#endif

/* A wave's steps of all. */
struct range {
    int first, steps;
};
RFG_DEVICE struct range wave_range(int all, int split, int wave)
{
    struct range r;
    if (EXACT) {
        r.steps = all / (SPLIT * K_WAVES);
        r.first = (split * K_WAVES + wave) * r.steps;
    } else {
        int begin = rfg_share_begin(all, split, SPLIT), mine = rfg_share_begin(all, split + 1, SPLIT) - begin;
        r.first = begin + rfg_share_begin(mine, wave, K_WAVES);
        r.steps = begin + rfg_share_begin(mine, wave + 1, K_WAVES) - r.first;
    }
    return r;
}

/* Where W begins, of the tile from row n0 on. Rows beyond the matrix repeat the last one: harmless, and their sums are
 * not stored. */
RFG_DEVICE void place_w(struct place *p, const struct gemm_args *a, int n0, int first)
{
    int lane = rfg_lane();
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
        int n = n0 + j * 8 + lane / 4;
        p->w[j] = W_FRAG_AT(a, n < a->n ? n : a->n - 1, lane % 4) + (long long)first * W_FRAG_STEP;
#if W_IS_4_BITS
        int groups = W_COLS(a) / W_GROUP, column = n0 + j * 8 + lane % 4 * 2;
        p->scale[j] = (const char *)a->w_scale +
                      PREPACKED4_GROUP_AT(column < a->n ? column : a->n - 2, 0, (long long)groups) * W_SCALE_BYTES;
        p->zero[j] = (const char *)W_ZEROS(a) + PREPACKED4_GROUP_AT(n < a->n ? n : a->n - 1, 0, (long long)groups);
#endif
    }
#if SCALES == GEMM_SCALES_BLOCKS
    p->a = a;
    p->n = n0;
    p->first = first;
#endif
}

/* Where the wave begins. Rows of X beyond the matrix are as W's. */
RFG_DEVICE void place_wave(struct place *p, const struct gemm_args *a, int m0, int n0, int first)
{
    int lane = rfg_lane();
    p->left = W_IS_8_BITS ? a->k / W_VEC - first * 4 - lane % 4 : a->k / X_VEC - first * (4 * W_STEPS) - lane % 4;
#if W_IS_4_BITS
    p->first = first;
#endif
    place_w(p, a, n0, first);
#pragma unroll
    for (int i = 0; i < PIECES_X; i++) {
        int m = m0 + i * 8 + lane / 4;
#if GATHER
        m = (int)x_row_at(a, m < a->m ? m : a->m - 1);
        p->x[i] = (const char *)a->x + X_BYTES_OF(m * GEMM_LDX(a) + first * STEP_K + lane % 4 * CHUNK_K);
#else
        p->x[i] = (const char *)a->x +
                  X_BYTES_OF((m < a->m ? m : a->m - 1) * GEMM_LDX(a) + first * STEP_K + lane % 4 * CHUNK_K);
#endif
#if MX
        p->x_scale[i] = (const char *)a->x_scale + (GATHER || m < a->m ? m : a->m - 1) * (long long)a->x_scale_row +
                        first * W_STEPS;
#endif
#if SCALES == GEMM_SCALES_BLOCKS
        p->m[i] = GATHER || m < a->m ? m : a->m - 1;
#endif
    }
}

/* Asks for X of the first steps. */
RFG_DEVICE void begin_x(struct step *ring, const struct place *p, int steps)
{
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (EXACT || u < steps)
            load_x(&ring[u], p, u);
}

/* The wave's sums. A step of the ring is asked for again as soon as it is used. */
RFG_DEVICE void multiply_all(float (*d)[4], struct step *ring, const struct place *p, int steps)
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; step += UNROLL) {
        bool more = step + UNROLL < steps;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (EXACT || step + u < steps)
                multiply(d, &ring[u]);
            if (EXACT ? more : step + UNROLL + u < steps) {
                load_w(&ring[u], p, step + UNROLL + u);
                load_x(&ring[u], p, step + UNROLL + u);
            }
        }
    }
}

#if ALONG
/* A wave's tiles from row n0 on, K_WAVES apart. The ring has all of the first one's steps. */
RFG_DEVICE void multiply_along(const struct gemm_args *a, struct step *ring, struct place *p, int m0, int n0)
{
#pragma unroll 1
    for (int i = 0; i < ALONG && n0 < a->n; i++) {
        float d[BLOCKS][4];
        int next = n0 + K_WAVES * TILE_N;
        bool more = i + 1 < ALONG && next < a->n;
        place_w(p, a, next, 0);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            d[b][0] = d[b][1] = d[b][2] = d[b][3] = 0.0f;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            multiply(d, &ring[u]);
            if (more)
                load_w(&ring[u], p, u);
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            store_lane(a, m0, n0, b, rfg_lane(), d[b]);
        n0 = next;
    }
}

RFG_KERNEL(THREADS)
gemm_short_mma(struct gemm_args a)
{
    rfg_start_next();
#if BATCH
    take_batch(&a);
#endif
    int along = (a.n - 1) / (TILE_N * K_WAVES * ALONG) + 1, m0 = 0;
    int n0 = rfg_group_x() % along * (TILE_N * K_WAVES * ALONG) + rfg_wave() * TILE_N;
#if EXPERTS
    rfg_await_previous(); /* which may have sorted the rows */
    if (!take_tile(&a, TILE_M, rfg_group_x() / along))
        return;
#else
    m0 = rfg_group_x() / along * TILE_M;
#endif
    struct place p;
    place_wave(&p, &a, m0, n0, 0);
    struct step ring[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        load_w(&ring[u], &p, u);
#if !EXPERTS
    rfg_await_previous();
#endif
    begin_x(ring, &p, UNROLL);
    multiply_along(&a, ring, &p, m0, n0);
}
#else
#if SPLIT > 1
RFG_KERNEL_CLUSTER(THREADS, SPLIT)
#else
RFG_KERNEL(THREADS)
#endif
gemm_thin_mma(struct gemm_args a)
{
    rfg_start_next();
    char *lds = (char *)rfg_lds;
    int lane = rfg_lane(), wave = rfg_wave();
    int split = SPLIT == 1 ? 0 : rfg_group_x() % SPLIT, tile = rfg_group_x() / SPLIT;
#if BATCH
    take_batch(&a);
#endif
#if EXPERTS
    int tiles_n = (a.n - 1) / TILE_N + 1, m0 = 0, n0 = tile % tiles_n * TILE_N;
    rfg_await_previous(); /* which may have sorted the rows */
    if (!take_tile(&a, TILE_M, tile / tiles_n))
        return;
#else
    int tiles_m = a.m <= TILE_M ? 1 : (a.m - 1) / TILE_M + 1;
    int m0 = tiles_m == 1 ? 0 : tile % tiles_m * TILE_M, n0 = (tiles_m == 1 ? tile : tile / tiles_m) * TILE_N;
#endif
    struct range k = wave_range((a.k - 1) / STEP_K + 1, split, wave);
    int steps = k.steps;

    struct place p;
    place_wave(&p, &a, m0, n0, k.first);
    struct step ring[UNROLL];
    if (X_FIRST) {
        rfg_await_previous();
        begin_x(ring, &p, steps);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (EXACT || u < steps)
            load_w(&ring[u], &p, u);
#if SPLIT > 1
    int owned = expect_sums(lds, split);
#endif
    if (!X_FIRST) {
        rfg_await_previous();
        begin_x(ring, &p, steps);
    }
#if SCALES == GEMM_SCALES_ROWS
    if (rfg_thread() < TILE_N)
        expect_w_scale(&a, n0 + (long long)rfg_thread());
    if (rfg_thread() < TILE_M)
        expect_x_scale(&a, m0 + (long long)rfg_thread());
#endif
    float d[BLOCKS][4];
    multiply_all(d, ring, &p, steps);
#if COMBINE
    float *sums = (float *)(lds + COMBINE_AT);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int e = 0; e < FLOATS; e++)
            sums[((i * K_WAVES + wave) * RFG_WAVE + lane) * FLOATS + e] = d[i][e];
    rfg_barrier_lds();
#if SPLIT > 1
    rfg_cluster_wait();
#endif
#pragma unroll 1
    for (int i = wave; i < BLOCKS; i += K_WAVES) {
        float sum[4] = { 0, 0, 0, 0 };
#pragma unroll
        for (int w = 0; w < K_WAVES; w++)
#pragma unroll
            for (int e = 0; e < FLOATS; e++)
                sum[e] += sums[((i * K_WAVES + w) * RFG_WAVE + lane) * FLOATS + e];
#if SPLIT > 1
        send(lds, i, split, sum);
#else
        store_lane(&a, m0, n0, i, lane, sum);
#endif
    }
#else
    (void)lane;
    rfg_cluster_wait();
    send(lds, 0, split * K_WAVES + wave, d[0]);
#endif
#if SPLIT > 1
    if (wave >= owned)
        return;
    rfg_arrival_wait((rfg_u64 *)lds, 0);
    reduce_sent(&a, lds, m0, n0, split, owned);
#endif
}
#endif
