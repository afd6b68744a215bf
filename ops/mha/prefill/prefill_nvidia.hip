/* SPDX-License-Identifier: MIT
 *
 * Prefill attention on NVIDIA's tensor cores by mma.sync: mha_prefill_mma and mha_decode_tile_mma there. See
 * prefill_kernel.h for the algorithm and the macros. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/prefill/prefill_layout.h"
#include "mha/prefill/prefill_item.h"

/* Rows of K and of V in LDS are whole 128 bytes. */
#define K_CHUNKS MHA_PREFILL_ROW_CHUNKS(D)
#define V_CHUNKS MHA_PREFILL_ROW_CHUNKS(DV)
#define V_TILE   (TILE_KV * V_CHUNKS)

struct source_own {
    const char *lane; /* not paged: this lane's first chunk of the next tile */
};
#define START_SOURCE(s, chunks)
#include "mha/prefill/prefill_tiles.h"
#include "mha/prefill/prefill_softmax.h"
#include "mha/prefill/prefill_nvidia.h"
#include "mha/prefill/prefill_stages.h"

/* ---- tiles into LDS ------------------------------------------------------------------------------------------------
 */

/* Chunk c of a row is at c ^ (row & 7), so that ldmatrix finds 8 rows' in different banks. Those that memory lacks are
 * zeroes. Tiles are copied in order. */
RFG_DEVICE void copy_rows(struct source *s, rfg_u32x4 *tile, int key0, int chunks, int real, int stride)
{
    rfg_u32 to = (rfg_u32)__cvta_generic_to_shared(tile);
    int thread = rfg_thread(), part = item_row(thread, chunks);
    if (!PAGED && key0 + TILE_KV - 1 <= s->last) {
#pragma unroll
        for (int i = 0; i < ITEMS(chunks); i++) {
            int c = item_chunk(thread, i, chunks), row = item_base(i, chunks) + part;
            if (item_exists(thread, i, chunks))
                rfg_async_copy16_at(to + 16 * (row * stride + (c ^ (row & 7))),
                                    s->own.lane + 16 * LANES_OF(chunks) * (i % PARTS(chunks)),
                                    real == chunks || c < real, false);
            if (i % PARTS(chunks) == PARTS(chunks) - 1 && TILE_KV > ROWS_A_PASS(chunks))
                s->own.lane += ROWS_A_PASS(chunks) * s->token;
        }
        if (TILE_KV <= ROWS_A_PASS(chunks))
            s->own.lane += TILE_KV * s->token;
    } else {
#pragma unroll 1 /* or the compiler makes one of both */
        for (int i = 0; i < ITEMS(chunks); i++) {
            int row = item_base(i, chunks) + part, c = item_chunk(thread, i, chunks);
            if (item_exists(thread, i, chunks))
                rfg_async_copy16_at(to + 16 * (row * stride + (c ^ (row & 7))),
                                    PAGED ? key_address(s, key0 + row) + c * 16
                                          : s->own.lane +
                                                (row < s->last - key0 ? row - part : s->last - key0 - part) * s->token +
                                                16 * LANES_OF(chunks) * (i % PARTS(chunks)),
                                    real == chunks || c < real, false);
        }
    }
}
RFG_DEVICE void copy_k(struct source *s, rfg_u32x4 *tile, int key0)
{
    copy_rows(s, tile, key0, D / 8, D_REAL / 8, K_CHUNKS);
}
RFG_DEVICE void copy_v(struct source *s, rfg_u32x4 *tile, int key0)
{
    copy_rows(s, tile, key0, DV / 8, DV_REAL / 8, V_CHUNKS);
}

/* Four 8x8 matrices: as they are, or transposed. */
RFG_DEVICE rfg_u32x4 load_matrices(rfg_u32 at)
{
    rfg_u32x4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}
RFG_DEVICE rfg_u32x4 load_transposed(rfg_u32 at)
{
    rfg_u32x4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

RFG_DEVICE void mma_16x8(float *c, rfg_u32x4 a, rfg_u32 b0, rfg_u32 b1)
{
    if (DTYPE == RFG_F16)
        RFG_MMA_SYNC("f16", c, a.x, a.y, a.z, a.w, b0, b1);
    else
        RFG_MMA_SYNC("bf16", c, a.x, a.y, a.z, a.w, b0, b1);
}

/* ---- scores ---------------------------------------------------------------------------------------------------- */

RFG_DEVICE rfg_u32 query_word(const struct mha_args *a, const struct work_item *p, int row, int word)
{
    row += rfg_lane() / 4;
#if D_REAL < D
    if (2 * word >= D_REAL)
        return 0u;
#endif
    return rfg_load4(element_of(a, &a->q, p, row < p->rows ? row : p->rows - 1) + 2 * (word + rfg_lane() % 4));
}

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
            /* A of the instruction as it has it, twice: rows l / 4 and 8 more, words l % 4 and 4 more. */
#pragma unroll
            for (int i = 0; i < 2; i++)
                to.v[i] = make_uint4(query_word(a, p, row0 + 16 * f, 16 * k + 8 * i),
                                     query_word(a, p, row0 + 16 * f + 8, 16 * k + 8 * i),
                                     query_word(a, p, row0 + 16 * f, 16 * k + 8 * i + 4),
                                     query_word(a, p, row0 + 16 * f + 8, 16 * k + 8 * i + 4));
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
    /* Matrices 0 to 3 of ldmatrix: two chunks of keys 0 to 7, then of 8 to 15. */
    int lane = rfg_lane(), row = (lane & 7) + lane / 16 * 8;
    rfg_u32 at = (rfg_u32)__cvta_generic_to_shared(k_tile + row * K_CHUNKS + ((lane / 8 & 1) ^ (row & 7)));
#pragma unroll
    for (int k = 0; k < 2 * STEPS; k++) {
        rfg_u32x4 qf[FRAGS_Q];
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++)
            qf[f] = query_piece(q, f, k / 2, k % 2);
#pragma unroll
        for (int j = 0; j < BLOCKS; j++) {
            rfg_u32x4 b =
                load_matrices((at ^ (rfg_u32)(k % 4 * 32)) + (rfg_u32)(k / 4 * 128 + j * (16 * K_CHUNKS * 16)));
#pragma unroll
            for (int f = 0; f < FRAGS_Q; f++) {
                mma_16x8(s[f][j].v, qf[f], b.x, b.y);
                mma_16x8(s[f][j].v + 4, qf[f], b.z, b.w);
            }
        }
    }
}

/* ---- output ---------------------------------------------------------------------------------------------------- */

RFG_DEVICE void add_values(struct state *w, rfg_frag_c (*s)[BLOCKS], const rfg_u32x4 *v_tile)
{
    int lane = rfg_lane(), row = lane & 15;
    /* Matrices 0 to 3 of ldmatrix: keys 0 to 7 and 8 to 15 of a chunk, then of the next one. An address is
     * at ^ ((chunk & 6) << 4), plus what is constant. */
    rfg_u32 at = (rfg_u32)__cvta_generic_to_shared(v_tile + row * V_CHUNKS + ((lane / 16) ^ (row & 7)));
    if (D_SPLIT > 1)
        at += (rfg_u32)(rfg_wave() % D_SPLIT * (DV / D_SPLIT * 2));
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
        rfg_u32x4 p[FRAGS_Q];
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++) {
            const float *v = s[f][j].v;
            p[f] = make_uint4(
                rfg_pack_probabilities(v[0], v[1], DTYPE, true), rfg_pack_probabilities(v[2], v[3], DTYPE, true),
                rfg_pack_probabilities(v[4], v[5], DTYPE, true), rfg_pack_probabilities(v[6], v[7], DTYPE, true));
        }
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++) {
            rfg_u32x4 b =
                load_transposed((at ^ (rfg_u32)(d % 4 * 32)) + (rfg_u32)(d / 4 * 128 + j * (16 * V_CHUNKS * 16)));
#pragma unroll
            for (int f = 0; f < FRAGS_Q; f++) {
                mma_16x8(w->o[f][d].v, p[f], b.x, b.y);
                mma_16x8(w->o[f][d].v + 4, p[f], b.z, b.w);
            }
        }
    }
}

/* ---- the pipeline --------------------------------------------------------------------------------------------------
 */

/* Copies are asynchronous, and arrive in order. These are macros, because functions change which registers compilers
 * spill: BEGIN_TILES: the first copies. AWAIT_KEYS: waits for a tile's keys (STAGES > 1: and its values), and has the
 * next one copied. AWAIT_VALUES: waits for its values (STAGES 1: K of the next tile is copied while this one's V is
 * multiplied). */
#if STAGES == 1
#define BEGIN_TILES(k, v, begin, end)                                                                                  \
    copy_k(&k, rfg_lds, begin);                                                                                        \
    rfg_async_commit()
/* First K is there, and all are done with V; then V is there, and all are done with K. */
#define AWAIT_KEYS(k, v, tile, stage, key0, end)                                                                       \
    rfg_async_wait(0);                                                                                                 \
    rfg_barrier_lds();                                                                                                 \
    copy_v(&v, tile + K_TILE, key0);                                                                                   \
    rfg_async_commit()
#define AWAIT_VALUES(k, tile, key0, end)                                                                               \
    rfg_async_wait(0);                                                                                                 \
    rfg_barrier_lds();                                                                                                 \
    if (key0 + TILE_KV < end)                                                                                          \
        copy_k(&k, tile, key0 + TILE_KV);                                                                              \
    rfg_async_commit()
#else
#define BEGIN_TILES(k, v, begin, end)                                                                                  \
    _Pragma("unroll") for (int i = 0; i < STAGES - 1; i++)                                                             \
    {                                                                                                                  \
        if (begin + i * TILE_KV < end) {                                                                               \
            copy_k(&k, rfg_lds + i * STAGE, begin + i * TILE_KV);                                                      \
            copy_v(&v, rfg_lds + i * STAGE + K_TILE, begin + i * TILE_KV);                                             \
        }                                                                                                              \
        rfg_async_commit();                                                                                            \
    }
/* All threads' copies of this tile are there; all are done with the one before. */
#define AWAIT_KEYS(k, v, tile, stage, key0, end)                                                                       \
    rfg_async_wait(STAGES - 2);                                                                                        \
    rfg_barrier_lds();                                                                                                 \
    if (key0 + (STAGES - 1) * TILE_KV < end) {                                                                         \
        int ahead = stage ? stage - 1 : STAGES - 1;                                                                    \
        copy_k(&k, rfg_lds + ahead * STAGE, key0 + (STAGES - 1) * TILE_KV);                                            \
        copy_v(&v, rfg_lds + ahead * STAGE + K_TILE, key0 + (STAGES - 1) * TILE_KV);                                   \
    }                                                                                                                  \
    rfg_async_commit()
#define AWAIT_VALUES(k, tile, key0, end) ((void)0)
#endif

/* Where a lane's copies begin. */
#define START_LANES(k, v, begin)                                                                                       \
    k.own.lane = k.data + (begin + item_row(rfg_thread(), D / 8)) * k.token + item_chunk(rfg_thread(), 0, D / 8) * 16; \
    v.own.lane = v.data + (begin + item_row(rfg_thread(), DV / 8)) * v.token + item_chunk(rfg_thread(), 0, DV / 8) * 16
#define PREFILL_KERNEL RFG_KERNEL(THREADS)
#include "mha/prefill/prefill_kernel.h"
