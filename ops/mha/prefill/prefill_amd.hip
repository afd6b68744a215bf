/* SPDX-License-Identifier: MIT
 *
 * Prefill attention on AMD's matrix cores: mha_prefill_mma and mha_decode_tile_mma there. See prefill_kernel.h for the
 * algorithm and the macros. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_amd_stream.h"
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/prefill/prefill_layout.h"
#include "mha/prefill/prefill_item.h"

/* Rows of K in LDS are whole 128 bytes; V is transposed: rows of TILE_KV keys. */
#define K_CHUNKS  MHA_PREFILL_ROW_CHUNKS(D)
#define KV_CHUNKS (TILE_KV / 8)
#define V_TILE    (DV * KV_CHUNKS)

struct source_own {
#if PAGED
    char none;
#else
    rfg_buffer buffer; /* of all rows */
    int even_end;      /* the last whole tile's first key, if its offsets fit into 31 bits; else less than any */
#endif
};
#if PAGED
#define START_SOURCE(s, chunks)
#else
#define START_SOURCE(s, chunks)                                                                                        \
    rfg_u64 bytes = (rfg_u64)s.last * (rfg_u64)s.token + 16u * (rfg_u32)chunks;                                        \
    s.own.even_end = (rfg_u64)s.token < 1u << 24 && bytes < 1ull << 31 ? s.last - (TILE_KV - 1) : -1;                  \
    s.own.buffer = rfg_buffer_of(s.data, (int)bytes)
#endif
#include "mha/prefill/prefill_tiles.h"
#include "mha/prefill/prefill_softmax.h"
#include "mha/prefill/prefill_stages.h"

/* ---- tiles into LDS, and fragments out of it --------------------------------------------------------------------- */

/* Chunk c of row r is at r * chunks + (c ^ swizzle(r)): 8 neighbouring rows' chunk c are in different banks, and so is
 * what 16 lanes write of V: 4 chunks of 4 times 4 keys. */
RFG_DEVICE int swizzle(int row)
{
    return (row & 7) ^ (row >> 2 & 2);
}

/* V is transposed in blocks of 4 keys by 8 d. Of 16 neighbouring lanes 4 have chunks side by side, times 4 blocks of
 * keys. */
#define V_LANES         (DV / 32 % 8 == 0 ? 8 : DV / 32 % 4 == 0 ? 4 : DV / 32 % 2 == 0 ? 2 : 1) /* times 4 chunks */
#define V_PARTS         (DV / 32 / V_LANES)
#define V_BLOCKS_A_PASS (THREADS / (4 * V_LANES)) /* of keys, in a pass */
#define V_PASSES        (V_PARTS * ((TILE_KV / 4 + V_BLOCKS_A_PASS - 1) / V_BLOCKS_A_PASS))

struct staged {
    rfg_u32x4 k[ITEMS(D / 8)];
    rfg_u32x4 v[V_PASSES][4];
};

RFG_DEVICE int block_chunk(int thread, int i)
{
    return thread % 4 + 4 * (thread / 16 % V_LANES) + i % V_PARTS * (4 * V_LANES);
}
RFG_DEVICE int block_keys(int thread, int i)
{
    return thread / 4 % 4 + thread / (16 * V_LANES) * 4 + i / V_PARTS * V_BLOCKS_A_PASS;
}
RFG_DEVICE bool block_exists(int thread, int i)
{
    return TILE_KV / 4 % V_BLOCKS_A_PASS == 0 || block_keys(thread, i) < TILE_KV / 4;
}
/* Items and blocks exist for whole waves: the wave's first thread asks block_exists() and item_exists(), for a branch
 * that is the same in all lanes. */
RFG_DEVICE int first_of_wave(void)
{
    return rfg_wave() * RFG_WAVE;
}

/* Whole tiles of rows at one distance: offsets are one that all lanes have, and one of the lane that is the same for
 * all of its rows and all tiles. */
RFG_DEVICE bool is_even(const struct source *k, const struct source *v, int key0)
{
#if PAGED
    (void)k, (void)v, (void)key0;
    return false;
#else
    return key0 <= (k->own.even_end < v->own.even_end ? k->own.even_end : v->own.even_end);
#endif
}
/* Chunks that memory lacks are a row's last one. */
RFG_DEVICE rfg_u32x4 load_chunk(const struct source *s, bool even, int key0, int base, int row, int chunk, int real,
                                int chunks)
{
    chunk = real == chunks || chunk < real ? chunk : real - 1;
#if !PAGED
    if (even)
        return rfg_buffer_load16(s->own.buffer, (rfg_u32)row * (rfg_u32)s->token + chunk * 16u,
                                 (key0 + base) * (int)s->token);
#endif
    return rfg_load16(key_address(s, key0 + base + row) + chunk * 16);
}

/* An undefined value: rather than what the registers held before, which would have to be kept and copied where branches
 * merge. */
RFG_DEVICE rfg_u32x4 nothing(void)
{
    rfg_u32x4 v;
    asm volatile("" : "=v"(v));
    return v;
}

RFG_DEVICE void load_rows(const struct source *k, const struct source *v, struct staged *s, int key0, bool even)
{
    int thread = rfg_recompute(rfg_thread()), first = first_of_wave();
#pragma unroll
    for (int i = 0; i < ITEMS(D / 8); i++)
        s->k[i] = item_exists(first, i, D / 8) ? load_chunk(k, even, key0, item_base(i, D / 8), item_row(thread, D / 8),
                                                            item_chunk(thread, i, D / 8), D_REAL / 8, D / 8)
                                               : nothing();
#pragma unroll
    for (int i = 0; i < V_PASSES; i++) {
        if (block_exists(first, i))
#pragma unroll
            for (int j = 0; j < 4; j++)
                s->v[i][j] = load_chunk(v, even, key0, j, 4 * block_keys(thread, i), block_chunk(thread, i),
                                        DV_REAL / 8, DV / 8);
        else
#pragma unroll
            for (int j = 0; j < 4; j++)
                s->v[i][j] = nothing();
    }
}
RFG_DEVICE void load_tile(const struct source *k, const struct source *v, struct staged *s, int key0)
{
    if (is_even(k, v, key0))
        load_rows(k, v, s, key0, true);
    else
        load_rows(k, v, s, key0, false);
}

RFG_DEVICE void store_tile(const struct staged *s, rfg_u32x4 *k_tile, rfg_u32x4 *v_tile)
{
    int thread = rfg_recompute(rfg_thread()), first = first_of_wave();
#pragma unroll
    for (int i = 0; i < ITEMS(D / 8); i++) {
        int at = rfg_s_place(item_base(i, D / 8) + item_row(thread, D / 8));
        int chunk = item_chunk(thread, i, D / 8);
        if (item_exists(first, i, D / 8))
            k_tile[at * K_CHUNKS + (chunk ^ swizzle(at))] =
                D_REAL == D || chunk < D_REAL / 8 ? s->k[i] : (rfg_u32x4){ 0, 0, 0, 0 };
    }
#pragma unroll
    for (int i = 0; i < V_PASSES; i++)
        if (block_exists(first, i)) {
            int keys = block_keys(thread, i), d0 = 8 * block_chunk(thread, i);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                int at = rfg_s_place(d0 + e);
                rfg_u32x2 w;
                w.x = rfg_halves(s->v[i][0][e / 2], s->v[i][1][e / 2], e % 2);
                w.y = rfg_halves(s->v[i][2][e / 2], s->v[i][3][e / 2], e % 2);
                ((rfg_u32x2 *)(v_tile + at * KV_CHUNKS + (keys / 2 ^ swizzle(at))))[keys % 2] = w;
            }
        }
}

RFG_DEVICE void load_fragment(rfg_frag_ab *f, const rfg_u32x4 *tile, int chunks, int row0, int chunk0, int lane)
{
    int row = row0 + lane % 16;
    const rfg_u32x4 *p = tile + row * chunks;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++)
        f->v[i] = p[(chunk0 + rfg_frag_lane_chunk(lane, i)) ^ swizzle(row)];
}

/* Fragments are read BATCH at a time, and with MFMA a batch ahead of what is multiplied and waited for once a batch:
 * the compiler waits before an instruction for all that it reads, and here this one, of no code, reads them all. (LLVM
 * 15 would spill registers, and so would larger heads with 4.) */
#define BATCH (!RFG_FRAG_AHEAD ? 1 : D > 128 || DV % 64 ? 2 : 4)
struct batch {
    rfg_frag_ab f[BATCH];
};
/* The 4 chunks of step k of 16 BATCH rows, from 16 block on. */
RFG_DEVICE void load_batch(struct batch *b, const rfg_u32x4 *tile, int chunks, int block, int k, int lane)
{
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        load_fragment(&b->f[i], tile, chunks, 16 * (block + i), k * RFG_FRAG_CHUNKS, lane);
}
/* The same of a tile of blocks times steps, in which `next` is what comes after it: blocks of a step, then steps. */
RFG_DEVICE void take_batch(struct batch *b, struct batch *next, const rfg_u32x4 *tile, int chunks, int block,
                           int blocks, int k, int steps, int lane)
{
    if (RFG_FRAG_AHEAD && block + k > 0)
        *b = *next;
    else
        load_batch(b, tile, chunks, block, k, lane);
#if RFG_FRAG_AHEAD
    if (true) {
        bool same = block + BATCH < blocks;
        if (same || k + 1 < steps)
            load_batch(next, tile, chunks, same ? block + BATCH : 0, same ? k : k + 1, lane);
        if (BATCH == 2)
            asm volatile("" : "+v"(b->f[0].v[0]), "+v"(b->f[1 % BATCH].v[0])::"memory");
        else
            asm volatile(""
                         : "+v"(b->f[0].v[0]), "+v"(b->f[1 % BATCH].v[0]), "+v"(b->f[2 % BATCH].v[0]),
                           "+v"(b->f[3 % BATCH].v[0])::"memory");
    }
#endif
}

/* ---- scores ---------------------------------------------------------------------------------------------------- */

RFG_DEVICE void load_queries(const struct mha_args *a, const struct work_item *p, struct queries *q, int row0)
{
    rfg_u32 flip = a->scale < 0.0f ? 0x80008000u : 0u; /* so that the largest score is the largest product */
#if Q_LDS
    q->at = rfg_lds + Q_AT + rfg_wave() * (FRAGS_Q * STEPS * RFG_FRAG_AB * RFG_WAVE) + rfg_lane();
#endif
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            rfg_frag_ab to;
#pragma unroll
            for (int i = 0; i < RFG_FRAG_AB; i++) {
                int row = row0 + 16 * f + rfg_frag_row(i);
                const rfg_u16 *from = element_of(a, &a->q, p, row < p->rows ? row : p->rows - 1);
                to.v[i] = (rfg_u32x4){ 0, 0, 0, 0 };
                if (D_REAL == D || 32 * k + 8 * rfg_frag_chunk(i) < D_REAL)
                    to.v[i] = rfg_load16(from + 32 * k + 8 * rfg_frag_chunk(i));
            }
#pragma unroll
            for (int i = 0; i < RFG_FRAG_AB; i++) {
                to.v[i].x ^= flip;
                to.v[i].y ^= flip;
                to.v[i].z ^= flip;
                to.v[i].w ^= flip;
#if Q_LDS
                q->at[((f * STEPS + k) * RFG_FRAG_AB + i) * RFG_WAVE] = to.v[i];
#else
                q->f[f][k].v[i] = to.v[i];
#endif
            }
        }
}

RFG_DEVICE void find_scores(rfg_frag_c (*s)[BLOCKS], const struct queries *q, const rfg_u32x4 *k_tile)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int j = 0; j < BLOCKS; j++)
            rfg_frag_zero(&s[f][j]);
    int lane = rfg_recompute_lane();
    struct batch next;
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        rfg_frag_ab qf[FRAGS_Q];
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_AB; i++)
                qf[f].v[i] = query_piece(q, f, k, i);
#pragma unroll
        for (int j = 0; j < BLOCKS; j += BATCH) {
            struct batch kf;
            take_batch(&kf, &next, k_tile, K_CHUNKS, j, BLOCKS, k, STEPS, lane);
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
                for (int f = 0; f < FRAGS_Q; f++)
                    rfg_frag_mma(&s[f][j + i], &kf.f[i], &qf[f], DTYPE);
        }
    }
}

/* ---- output ---------------------------------------------------------------------------------------------------- */

RFG_DEVICE void add_values(struct state *w, rfg_frag_c (*s)[BLOCKS], const rfg_u32x4 *v_tile)
{
    int lane = rfg_recompute_lane();
    struct batch next;
#pragma unroll
    for (int k = 0; k < TILE_KV / 32; k++) {
        rfg_frag_ab p[FRAGS_Q];
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++)
            rfg_s_probabilities(&p[f], &s[f][2 * k], DTYPE);
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d += BATCH) {
            struct batch v;
            take_batch(&v, &next, v_tile, KV_CHUNKS, d, D_BLOCKS, k, TILE_KV / 32, lane);
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
                for (int f = 0; f < FRAGS_Q; f++)
                    rfg_frag_mma(&w->o[f][d + i], &v.f[i], &p[f], DTYPE);
        }
    }
}

RFG_DEVICE void store_chunk(rfg_u16 *p, const float *f)
{
    rfg_u32x4 v;
    v.x = DTYPE == RFG_F16 ? rfg_pack_f16(f[0], f[1]) : rfg_pack_bf16(f[0], f[1]);
    v.y = DTYPE == RFG_F16 ? rfg_pack_f16(f[2], f[3]) : rfg_pack_bf16(f[2], f[3]);
    v.z = DTYPE == RFG_F16 ? rfg_pack_f16(f[4], f[5]) : rfg_pack_bf16(f[4], f[5]);
    v.w = DTYPE == RFG_F16 ? rfg_pack_f16(f[6], f[7]) : rfg_pack_bf16(f[6], f[7]);
    rfg_store16(p, v);
}
/* Divides each row by its sum and stores it. */
RFG_DEVICE void store_rows(const struct mha_args *a, const struct work_item *p, struct state *w, float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            struct row_end r = end_row(a, p, w->row0 + rfg_s_query(rfg_lane(), f, h), w->top[f][h],
                                       rfg_s_reduce(whole_sum(w, f, h), false), factor, true);
            if (r.in)
#pragma unroll
                for (int d = 0; d < D_BLOCKS * RFG_FRAG_C / 8; d++) {
                    float v[8];
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        v[e] = w->o[f][(8 * d + e) / RFG_FRAG_C].v[e % RFG_FRAG_C] * r.scale;
                    int at = rfg_s_key(8 * d / RFG_FRAG_C, 0) + rfg_s_lane_key(rfg_lane());
                    if (DV_REAL == DV || at < DV_REAL)
                        store_chunk(r.to + at, v);
                }
        }
}

/* ---- the pipeline --------------------------------------------------------------------------------------------------
 */

/* The next tile is loaded into registers while this one, in LDS, is multiplied. (Macros: see prefill_nvidia.hip.) */
#define BEGIN_TILES(k, v, begin, end)                                                                                  \
    struct staged staged;                                                                                              \
    load_tile(&k, &v, &staged, begin)
/* With STAGES 1 all must be done with the tile before. */
#define AWAIT_KEYS(k, v, tile, stage, key0, end)                                                                       \
    if (STAGES == 1)                                                                                                   \
        rfg_barrier_lds();                                                                                             \
    store_tile(&staged, tile, tile + K_TILE);                                                                          \
    if (key0 + TILE_KV < end)                                                                                          \
        load_tile(&k, &v, &staged, key0 + TILE_KV);                                                                    \
    rfg_barrier_lds()
#define AWAIT_VALUES(k, tile, key0, end) ((void)0) /* they came with the keys */

/* Two waves a SIMD: one computes its softmax while the other multiplies. */
#define START_LANES(k, v, begin)
#define PREFILL_KERNEL RFG_KERNEL(THREADS) RFG_TWO_WAVES
#include "mha/prefill/prefill_kernel.h"
