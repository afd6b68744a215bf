/* SPDX-License-Identifier: MIT
 *
 * Attention of many queries a sequence on matrix cores, as FlashAttention-2 (Dao, 2023) has it: a workgroup keeps TILE_Q
 * queries of a head and goes through the keys and values, TILE_KV at a time out of LDS, with a running maximum and sum.
 * Of 16-bit dtypes; out has q's.
 *
 * Each wave has 16 FRAGS_Q queries for itself: no wave waits for another's scores. Scores become weights in the
 * registers that matrix instructions left them in, and go into the next ones as they are:
 *
 *   NVIDIA  C = Q K^T has queries as rows; two neighbouring 16x8 pieces of it are an A of 16 keys. V's rows are keys
 *           in LDS, and ldmatrix turns them.
 *   AMD     C = K Q^T has queries as columns, one a lane, so that maxima and sums hardly leave the lane. A lane's
 *           elements of C belong to 8 consecutive keys, because keys lie in LDS in the order of place(): which is what
 *           a lane of B holds of 8 consecutive k (RDNA 3: with the other half wave's beside it). V is turned on its way
 *           into LDS, its rows d in the order of place(), too, so that a lane ends with 8 consecutive d.
 *
 * The maximum is let lag: sums and output are scaled anew only when a score is more than SLACK powers of two above it,
 * which after the first few tiles is rare. Weights are then at most 2^SLACK rather than 1, and as precise.
 *
 * Macros: DTYPE; D, DV (multiples of 32); WAVES; FRAGS_Q (1, 2); TILE_KV (32 on NVIDIA, 64, 128); STAGES: tiles of K and
 * V in LDS (AMD 1 or 2; there more are in registers, one tile ahead). STAGES 1 on NVIDIA: one of each, V of this tile
 * and K of the next are copied by turns; Q_LDS: Q is in LDS, not in registers; PACK: a tile has all query heads of a kv
 * head, side by side; MASK (1: causal, window_right; 3: window_left,
 * too), CAP, ALIBI, PAGED: what there is of these; DIVIDED: there are parts.
 * Grid: x: tiles x heads x batch (see find_place()); y: parts that the keys are divided into (DIVIDED), evenly by the length that
 * the device finds; each leaves its sums in the workspace, and the last to arrive joins them in order. Pointers, strides: whole multiples of 16 bytes. */
#include "rfg_device.h"
#include "rfg_attention.h"
#if RFG_AMD
#include "rfg_amd_stream.h"
#endif
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/prefill/prefill_place.h"
#include "mha/prefill/prefill_tiles.h"
#include "mha/prefill/prefill_softmax.h"

/* ---- scores ---------------------------------------------------------------------------------------------------- */

/* Q's fragments, where they are. In LDS a lane reads what it wrote itself, so that nobody waits. */
struct queries {
#if Q_LDS
    rfg_u32x4 *at;
#else
    rfg_frag_ab f[FRAGS_Q][STEPS];
#endif
};

#if RFG_NVIDIA
RFG_DEVICE rfg_u32 query_word(const struct mha_args *a, const struct place *p, int row, int word)
{
    row += rfg_lane() / 4;
    return rfg_load4(element_of(a, &a->q, p, row < p->rows ? row : p->rows - 1) + 2 * (word + rfg_lane() % 4));
}
#endif

RFG_DEVICE void load_queries(const struct mha_args *a, const struct place *p, struct queries *q, int row0)
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
#if RFG_NVIDIA
            /* A of the instruction as it has it, twice: rows l / 4 and 8 more, words l % 4 and 4 more. */
#pragma unroll
            for (int i = 0; i < 2; i++)
                to.v[i] = make_uint4(query_word(a, p, row0 + 16 * f, 16 * k + 8 * i),
                                     query_word(a, p, row0 + 16 * f + 8, 16 * k + 8 * i),
                                     query_word(a, p, row0 + 16 * f, 16 * k + 8 * i + 4),
                                     query_word(a, p, row0 + 16 * f + 8, 16 * k + 8 * i + 4));
#else
#pragma unroll
            for (int i = 0; i < RFG_FRAG_AB; i++) {
                int row = row0 + 16 * f + rfg_frag_row(i);
                const rfg_u16 *from = element_of(a, &a->q, p, row < p->rows ? row : p->rows - 1);
                to.v[i] = rfg_load16(from + 32 * k + 8 * rfg_frag_chunk(i));
            }
#endif
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

/* Piece i of a fragment: NVIDIA, a step of 16; AMD, a chunk. */
RFG_DEVICE rfg_u32x4 query_piece(const struct queries *q, int f, int k, int i)
{
#if Q_LDS
    return q->at[((f * STEPS + k) * RFG_FRAG_AB + i) * RFG_WAVE];
#else
    return q->f[f][k].v[i];
#endif
}

RFG_DEVICE void find_scores(rfg_frag_c (*s)[BLOCKS], const struct queries *q, const rfg_u32x4 *k_tile)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int j = 0; j < BLOCKS; j++)
            rfg_frag_zero(&s[f][j]);
#if RFG_NVIDIA
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
            rfg_u32x4 b = load_matrices((at ^ (rfg_u32)(k % 4 * 32)) + (rfg_u32)(k / 4 * 128 + j * (16 * K_CHUNKS * 16)));
#pragma unroll
            for (int f = 0; f < FRAGS_Q; f++) {
                mma_16x8(s[f][j].v, qf[f], b.x, b.y);
                mma_16x8(s[f][j].v + 4, qf[f], b.z, b.w);
            }
        }
    }
#else
    int lane = lane_anew();
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
#endif
}

/* ---- output ---------------------------------------------------------------------------------------------------- */

#if RFG_NVIDIA

RFG_DEVICE void add_values(struct state *w, rfg_frag_c (*s)[BLOCKS], const rfg_u32x4 *v_tile)
{
    int lane = rfg_lane(), row = lane & 15;
    /* Matrices 0 to 3 of ldmatrix: keys 0 to 7 and 8 to 15 of a chunk, then of the next one. An address is
     * at ^ ((chunk & 6) << 4), plus what is constant. */
    rfg_u32 at = (rfg_u32)__cvta_generic_to_shared(v_tile + row * V_CHUNKS + ((lane / 16) ^ (row & 7)));
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
        rfg_u32x4 p[FRAGS_Q];
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++) {
            const float *v = s[f][j].v;
            p[f] = make_uint4(pack_weights(v[0], v[1]), pack_weights(v[2], v[3]), pack_weights(v[4], v[5]),
                              pack_weights(v[6], v[7]));
        }
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++) {
            rfg_u32x4 b = load_turned((at ^ (rfg_u32)(d % 4 * 32)) + (rfg_u32)(d / 4 * 128 + j * (16 * V_CHUNKS * 16)));
#pragma unroll
            for (int f = 0; f < FRAGS_Q; f++) {
                mma_16x8(w->o[f][d].v, p[f], b.x, b.y);
                mma_16x8(w->o[f][d].v + 4, p[f], b.z, b.w);
            }
        }
    }
}

#else

/* The weights of 32 keys as B. */
RFG_DEVICE void weight_fragment(rfg_frag_ab *to, const rfg_frag_c *s)
{
#if RFG_MFMA
    to->v[0].x = pack_weights(s[0].v[0], s[0].v[1]);
    to->v[0].y = pack_weights(s[0].v[2], s[0].v[3]);
    to->v[0].z = pack_weights(s[1].v[0], s[1].v[1]);
    to->v[0].w = pack_weights(s[1].v[2], s[1].v[3]);
#else
#pragma unroll
    for (int j = 0; j < 2; j++) {
        rfg_u32x4 mine;
        mine.x = pack_weights(s[j].v[0], s[j].v[1]);
        mine.y = pack_weights(s[j].v[2], s[j].v[3]);
        mine.z = pack_weights(s[j].v[4], s[j].v[5]);
        mine.w = pack_weights(s[j].v[6], s[j].v[7]);
#if RFG_WMMA12
        to->v[j] = mine;
#else
        bool upper = rfg_lane() >= 16;
        rfg_u32x4 other;
        other.x = rfg_as_u32(rfg_other_row(rfg_as_float(mine.x)));
        other.y = rfg_as_u32(rfg_other_row(rfg_as_float(mine.y)));
        other.z = rfg_as_u32(rfg_other_row(rfg_as_float(mine.z)));
        other.w = rfg_as_u32(rfg_other_row(rfg_as_float(mine.w)));
        to->v[2 * j] = upper ? other : mine;
        to->v[2 * j + 1] = upper ? mine : other;
#endif
    }
#endif
}

RFG_DEVICE void add_values(struct state *w, rfg_frag_c (*s)[BLOCKS], const rfg_u32x4 *v_tile)
{
    int lane = lane_anew();
    struct batch next;
#pragma unroll
    for (int k = 0; k < TILE_KV / 32; k++) {
        rfg_frag_ab p[FRAGS_Q];
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++)
            weight_fragment(&p[f], &s[f][2 * k]);
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

#endif

#if DIVIDED
/* ---- parts of the keys ------------------------------------------------------------------------------------------ */

/* Workspace, of a part: for each wave and number that a lane has of its rows, the lanes side by side. */
#define PART_FLOATS (FRAGS_Q * (D_BLOCKS * RFG_FRAG_C + 2 * HALVES))
#define PART        (PART_FLOATS * THREADS)

/* Leaves this part's sums; in the last workgroup to arrive w becomes that of all parts. */
RFG_DEVICE bool join_parts(const struct mha_args *a, struct state *w, float factor, int part, int parts)
{
    float *all = (float *)a->workspace + (long long)rfg_group_x() * parts * PART +
                 (rfg_wave() * (PART_FLOATS * RFG_WAVE) + rfg_lane());
    rfg_u32 *flag = (rfg_u32 *)rfg_lds;
    float *mine = all + (long long)part * PART;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            rfg_store4(mine + (f * HALVES + h) * 2 * RFG_WAVE, rfg_as_u32(w->top[f][h]));
            rfg_store4(mine + ((f * HALVES + h) * 2 + 1) * RFG_WAVE, rfg_as_u32(whole_sum(w, f, h)));
        }
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++)
                rfg_store4(mine + (2 * FRAGS_Q * HALVES + (f * D_BLOCKS + d) * RFG_FRAG_C + e) * RFG_WAVE,
                           rfg_as_u32(w->o[f][d].v[e]));
    }
    if (!rfg_last_to_arrive(a->counters + rfg_group_x(), parts, flag))
        return false;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            w->top[f][h] = LOWEST;
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                w->sum[f][h][i] = 0.0f;
        }
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
            rfg_frag_zero(&w->o[f][d]);
    }
#pragma unroll 1
    for (int i = 0; i < parts; i++) {
        const float *its = all + (long long)i * PART;
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++) {
            float down[HALVES], up[HALVES];
#pragma unroll
            for (int h = 0; h < HALVES; h++) {
                float top = rfg_as_float(rfg_load4(its + (f * HALVES + h) * 2 * RFG_WAVE));
                float sum = rfg_as_float(rfg_load4(its + ((f * HALVES + h) * 2 + 1) * RFG_WAVE));
                float most = rfg_max(w->top[f][h], top);
                down[h] = rfg_exp2(factor * (w->top[f][h] - most));
                up[h] = rfg_exp2(factor * (top - most));
                w->sum[f][h][0] = w->sum[f][h][0] * down[h] + sum * up[h];
                w->top[f][h] = most;
            }
#pragma unroll
            for (int d = 0; d < D_BLOCKS; d++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++) {
                    float o = rfg_as_float(
                        rfg_load4(its + (2 * FRAGS_Q * HALVES + (f * D_BLOCKS + d) * RFG_FRAG_C + e) * RFG_WAVE));
                    w->o[f][d].v[e] = w->o[f][d].v[e] * down[half_of(e)] + o * up[half_of(e)];
                }
        }
    }
    return true;
}
#endif

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

/* Two waves a SIMD: one has its scores weighed while the other multiplies. */
#if RFG_MFMA && !defined(__gfx908__)
#define RESIDENT __attribute__((amdgpu_waves_per_eu(2)))
#else
#define RESIDENT
#endif

RFG_KERNEL(THREADS) RESIDENT mha_prefill_mma(struct mha_args a)
{
    struct place p;
    rfg_start_next();
    rfg_await_previous();
    if (!find_place(&a, &p, group_anew()))
        return;

    struct state w;
    w.row0 = p.row0 + rfg_wave() * WAVE_Q;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
            rfg_frag_zero(&w.o[f][d]);
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            w.top[f][h] = LOWEST;
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                w.sum[f][h][i] = 0.0f;
#if ALIBI
            int row = w.row0 + lane_row(rfg_lane(), f, h);
            w.slope[f][h] =
                LOG2_E * rfg_as_float(rfg_load4(a.alibi + head_of(&p, row < p.rows ? row : p.rows - 1)));
#endif
        }
    }
    float factor = factor_of(&a), slack = rfg_min(SLACK * rfg_rcp(factor), 1e30f);

    /* Keys that any query of the tile sees, in tiles; those that any, and that every query of the wave sees. */
    int last_row = (p.row0 + TILE_Q < p.rows ? p.row0 + TILE_Q : p.rows) - 1;
    int wave_last = w.row0 + WAVE_Q - 1 < last_row ? w.row0 + WAVE_Q - 1 : last_row;
    struct seen first = seen_by(&a, &p, query_of(&p, p.row0)), last = seen_by(&a, &p, query_of(&p, last_row));
    int begin = first.first / TILE_KV * TILE_KV, end = last.first + last.count;
    if (first.first + first.count > end) /* queries that see nothing have no end */
        end = first.first + first.count;
    first = seen_by(&a, &p, query_of(&p, w.row0));
    last = seen_by(&a, &p, query_of(&p, wave_last));
    bool idle = w.row0 > last_row; /* no rows, or none of them sees a key */
    int wave_begin = first.first, wave_end = last.first + last.count;
    int all_begin = last.first, all_end = first.first + first.count;

#if DIVIDED
    if (begin < end) {
        int part = part_anew(), parts = parts_anew();
        int tiles = (end - begin - 1) / TILE_KV + 1, upto = begin + rfg_share_begin(tiles, part + 1, parts) * TILE_KV;
        begin += rfg_share_begin(tiles, part, parts) * TILE_KV;
        end = end < upto ? end : upto;
    }
#endif
    if (begin < end && p.skv > 0) {
        struct source k = source_of(&a, &a.k, &p, D / 8), v = source_of(&a, &a.v, &p, DV / 8);
        struct queries q;
#if RFG_NVIDIA
        k.lane = k.data + (begin + item_row(rfg_thread(), D / 8)) * k.token + item_chunk(rfg_thread(), 0, D / 8) * 16;
        v.lane = v.data + (begin + item_row(rfg_thread(), DV / 8)) * v.token + item_chunk(rfg_thread(), 0, DV / 8) * 16;
#endif
        load_queries(&a, &p, &q, w.row0);

#if RFG_NVIDIA && STAGES == 1
        copy_k(&k, rfg_lds, begin);
        rfg_async_commit();
#elif RFG_NVIDIA
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            if (begin + i * TILE_KV < end) {
                copy_k(&k, rfg_lds + i * STAGE, begin + i * TILE_KV);
                copy_v(&v, rfg_lds + i * STAGE + K_TILE, begin + i * TILE_KV);
            }
            rfg_async_commit();
        }
#else
        struct staged staged;
        load_tile(&k, &v, &staged, begin);
#endif
        int stage = 0;
#pragma unroll 1
        for (int key0 = begin; key0 < end; key0 += TILE_KV) {
            rfg_u32x4 *tile = rfg_lds + stage * STAGE;
#if RFG_NVIDIA && STAGES == 1
            rfg_async_wait(0);
            rfg_barrier_lds(); /* K is there, and all are done with V */
            copy_v(&v, tile + K_TILE, key0);
            rfg_async_commit();
#elif RFG_NVIDIA
            rfg_async_wait(STAGES - 2);
            rfg_barrier_lds(); /* all threads' copies of this tile are there; all are done with the one before */
            if (key0 + (STAGES - 1) * TILE_KV < end) {
                int ahead = stage ? stage - 1 : STAGES - 1;
                copy_k(&k, rfg_lds + ahead * STAGE, key0 + (STAGES - 1) * TILE_KV);
                copy_v(&v, rfg_lds + ahead * STAGE + K_TILE, key0 + (STAGES - 1) * TILE_KV);
            }
            rfg_async_commit();
#else
            if (STAGES == 1)
                rfg_barrier_lds(); /* all are done with the tile before */
            put_tile(&staged, tile, tile + K_TILE);
            if (key0 + TILE_KV < end)
                load_tile(&k, &v, &staged, key0 + TILE_KV);
            rfg_barrier_lds();
#endif
            bool any = !idle && key0 < wave_end && key0 + TILE_KV > wave_begin;
            rfg_frag_c s[FRAGS_Q][BLOCKS];
            if (any) {
                find_scores(s, &q, tile);
#if CAP || ALIBI
                change_scores(&a, &p, &w, s, key0);
#endif
                if (key0 < all_begin || key0 + TILE_KV > all_end)
                    mask_scores(&a, &p, &w, s, key0);
                float top[FRAGS_Q][HALVES], scale[FRAGS_Q][HALVES];
                if (find_top(&w, s, top, slack)) {
                    raise_top(&w, top, scale, factor);
                    scale_output(&w, scale);
                }
                weigh(&w, s, factor);
            }
#if RFG_NVIDIA && STAGES == 1
            rfg_async_wait(0);
            rfg_barrier_lds(); /* V is there, and all are done with K */
            if (key0 + TILE_KV < end)
                copy_k(&k, tile, key0 + TILE_KV);
            rfg_async_commit();
#endif
            if (any)
                add_values(&w, s, tile + K_TILE);
            stage = stage + 1 >= STAGES ? 0 : stage + 1;
        }
    }
    /* Rather than in registers through the loop. */
    struct mha_args end_args = reread_args(&a);
#if DIVIDED
    if (!join_parts(&end_args, &w, factor_of(&end_args), part_anew(), parts_anew()))
        return;
#endif
    if (find_place(&end_args, &p, group_anew()))
        store_rows(&end_args, &p, &w, factor);
}
