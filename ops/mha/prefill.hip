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
#if RFG_AMD
#include "rfg_amd_stream.h"
#endif
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/prefill_place.h"
#include "mha/prefill_tiles.h"

/* What a wave knows of its queries. */
struct state {
    rfg_frag_c o[FRAGS_Q][D_BLOCKS];
    float top[FRAGS_Q][HALVES]; /* the lagging maximum of scores */
    float sum[FRAGS_Q][HALVES][SUMS]; /* of this lane's weights */
#if ALIBI
    float slope[FRAGS_Q][HALVES];
#endif
    int row0; /* the wave's first row */
};


RFG_DEVICE float absolute(float f)
{
    return rfg_as_float(rfg_as_u32(f) & 0x7fffffffu);
}

/* Over the lanes that share a query. */
RFG_DEVICE float join_lanes(float v, bool largest)
{
#if RFG_NVIDIA
    v = rfg_join(v, rfg_shuffle_xor(v, 1), largest);
    v = rfg_join(v, rfg_shuffle_xor(v, 2), largest);
#else
    v = rfg_join(v, rfg_other_row(v), largest);
#if RFG_WAVE == 64
    v = rfg_join(v, rfg_shuffle_xor(v, 32), largest);
#endif
#endif
    return v;
}

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

/* What a score is multiplied by to be a power of two's exponent. */
RFG_DEVICE float factor_of(const struct mha_args *a)
{
    return CAP || ALIBI ? 1.0f : absolute(a->scale) * LOG2_E;
}

/* Scores to exponents, where a factor does not do it. */
#if CAP || ALIBI
RFG_DEVICE void change_scores(const struct mha_args *a, const struct place *p, const struct state *w,
                              rfg_frag_c (*s)[BLOCKS], int key0)
{
    float scale = absolute(a->scale);
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#if ALIBI
        float ahead[HALVES]; /* how far the query is ahead of the lane's first key */
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            ahead[h] = (float)(query_of(p, w->row0 + lane_row(rfg_lane(), f, h)) + p->skv - p->sq - key0 - lane_key(rfg_lane()));
#endif
#pragma unroll
        for (int j = 0; j < BLOCKS; j++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++) {
                float v = s[f][j].v[e];
#if CAP
                /* tanh(x) = 1 - 2 / (exp(2 x) + 1) */
                v = rfg_exp2(v * (2.0f * LOG2_E * scale / a->soft_cap)) + 1.0f;
                v = rfg_fma(-2.0f * LOG2_E * a->soft_cap, rfg_rcp(v), LOG2_E * a->soft_cap);
#else
                v *= scale * LOG2_E;
#endif
#if ALIBI
                v = rfg_fma(-w->slope[f][half_of(e)], absolute(ahead[half_of(e)] - (float)element_key(j, e)), v);
#endif
                s[f][j].v[e] = v;
            }
    }
}
#endif

/* A query sees keys first ... first + count - 1. */
struct seen {
    int first, count;
};
RFG_DEVICE struct seen seen_by(const struct mha_args *a, const struct place *p, int query)
{
    struct seen s = { 0, p->skv };
    int far = 1 << 30, at = query + p->skv - p->sq; /* lengths are less than that */
    if (MASK & 2) {
        int left = a->window_left < far ? a->window_left : far;
        s.first = at - left > 0 ? at - left : 0;
    }
    if (MASK) {
        int right = a->window_right < far ? a->window_right : far;
        int end = at + right + 1 < p->skv ? at + right + 1 : p->skv;
        s.count = end > s.first ? end - s.first : 0;
    }
    return s;
}

RFG_DEVICE void mask_scores(const struct mha_args *a, const struct place *p, const struct state *w,
                            rfg_frag_c (*s)[BLOCKS], int key0)
{
    int row0 = anew(w->row0), lane = lane_anew();
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            struct seen seen = seen_by(a, p, query_of(p, row0 + lane_row(lane, f, h)));
            int from = key0 + lane_key(lane) - seen.first;
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++)
                    if (half_of(e) == h)
                        s[f][j].v[e] = (rfg_u32)(from + element_key(j, e)) < (rfg_u32)seen.count
                                           ? s[f][j].v[e]
                                           : rfg_as_float(0xff800000u);
        }
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

RFG_DEVICE void raise_top(struct state *w, const float (*top)[HALVES], float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
        float scale[HALVES];
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            float old = w->top[f][h], now = rfg_max(old, join_lanes(top[f][h], true));
            scale[h] = rfg_exp2((old - now) * factor);
            w->top[f][h] = now;
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                w->sum[f][h][i] *= scale[h];
        }
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++)
                w->o[f][d].v[e] *= scale[half_of(e)];
    }
}

RFG_DEVICE float whole_sum(const struct state *w, int f, int h)
{
    return SUMS == 2 ? w->sum[f][h][0] + w->sum[f][h][SUMS - 1] : w->sum[f][h][0];
}

/* Scores to weights. */
RFG_DEVICE void weigh(struct state *w, rfg_frag_c (*s)[BLOCKS], float factor, float slack)
{
    float top[FRAGS_Q][HALVES];
    bool above = false;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            float t = rfg_as_float(0xff800000u);
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++)
                    if (half_of(e) == h)
                        t = rfg_max(t, s[f][j].v[e]);
            top[f][h] = t;
            above |= t > w->top[f][h] + slack;
        }
    if (any_lane(above))
        raise_top(w, top, factor);
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            float *sums = w->sum[f][h];
            rfg_f32x2 sum = SUMS == 2 ? rfg_pair(sums[0], sums[SUMS - 1]) : rfg_pair(0.0f, 0.0f);
            rfg_f32x2 by = rfg_pair(factor, factor);
            float shift = -factor * w->top[f][h];
            rfg_f32x2 minus = rfg_pair(shift, shift);
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e += 2)
                    if (half_of(e) == h) {
                        rfg_f32x2 x = rfg_fma2(rfg_pair(s[f][j].v[e], s[f][j].v[e + 1]), by, minus);
                        x = rfg_pair(rfg_exp2(x.x), rfg_exp2(x.y));
                        sum = rfg_add2(sum, x);
                        s[f][j].v[e] = x.x;
                        s[f][j].v[e + 1] = x.y;
                    }
            sums[0] = SUMS == 2 ? sum.x : sums[0] + (sum.x + sum.y);
            if (SUMS == 2)
                sums[SUMS - 1] = sum.y;
        }
}

/* Two weights, which are neither negative nor infinite. */
RFG_DEVICE rfg_u32 pack_weights(float lo, float hi)
{
#if RFG_NVIDIA
    return DTYPE == RFG_F16 ? rfg_pack_f16(lo, hi) : rfg_pack_bf16(lo, hi);
#elif defined(__gfx950__)
    if (DTYPE == RFG_BF16) {
        typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
        bf16x2 v = { (__bf16)lo, (__bf16)hi };
        return __builtin_bit_cast(rfg_u32, v);
    }
#endif
#if RFG_AMD
    /* What has just been written by a transcendental instruction must not go into assembly: see rfg_amd.h. */
    if (DTYPE == RFG_F16) {
        rfg_f16x2 v = { (_Float16)lo, (_Float16)hi };
        return __builtin_bit_cast(rfg_u32, v);
    }
    /* Ties away from zero, which saves an instruction a weight. */
#if defined(__gfx942__)
    /* Both by one addition of 64 bits: the lower one doesn't overflow. */
    rfg_u64 both = ((rfg_u64)rfg_as_u32(hi) << 32 | rfg_as_u32(lo)) + 0x0000800000008000ull;
    return halves_of((rfg_u32)both, (rfg_u32)(both >> 32), true);
#endif
    return halves_of(rfg_as_u32(lo) + 0x8000u, rfg_as_u32(hi) + 0x8000u, true);
#endif
}

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

/* ---- the end ---------------------------------------------------------------------------------------------------- */

#if RFG_AMD
RFG_DEVICE void store_chunk(rfg_u16 *p, const float *f)
{
    rfg_u32x4 v;
    v.x = DTYPE == RFG_F16 ? rfg_pack_f16(f[0], f[1]) : rfg_pack_bf16(f[0], f[1]);
    v.y = DTYPE == RFG_F16 ? rfg_pack_f16(f[2], f[3]) : rfg_pack_bf16(f[2], f[3]);
    v.z = DTYPE == RFG_F16 ? rfg_pack_f16(f[4], f[5]) : rfg_pack_bf16(f[4], f[5]);
    v.w = DTYPE == RFG_F16 ? rfg_pack_f16(f[6], f[7]) : rfg_pack_bf16(f[6], f[7]);
    rfg_store16(p, v);
}
#endif

RFG_DEVICE void store_rows(const struct mha_args *a, const struct place *p, struct state *w, float factor)
{
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++)
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            int row = w->row0 + lane_row(rfg_lane(), f, h);
            bool in = row < p->rows;
            int at = in ? row : p->rows - 1;
            float sum = join_lanes(whole_sum(w, f, h), false);
            float scale = sum > 0.0f ? rfg_rcp(sum) : sum * 0.0f; /* no key: 0; a NaN stays one */
            float lse = sum > 0.0f ? factor * w->top[f][h] + log2_of(sum) : sum == 0.0f ? rfg_as_float(0xff800000u) : sum;
            if (a->sinks) {
                float sink = LOG2_E * rfg_as_float(rfg_load4(a->sinks + head_of(p, at)));
                float top = rfg_max(lse, sink);
                if (top > rfg_as_float(0xff800000u)) {
                    float all = top + log2_of(rfg_exp2(lse - top) + rfg_exp2(sink - top));
                    scale = sum > 0.0f ? scale * rfg_exp2(lse - all) : scale;
                    lse = sum == sum ? all : sum;
                }
            }
            if (a->lse && in && lane_key(rfg_lane()) == 0) {
                long long b = a->q_begin ? 0 : p->b;
                rfg_store4(a->lse + b * a->lse_batch + (p->q_row + query_of(p, at)) * a->lse_token +
                               head_of(p, at) * a->lse_head,
                           rfg_as_u32(lse * LN_2));
            }
            rfg_u16 *to = element_of(a, &a->out, p, at);
#if RFG_NVIDIA
            /* Of 4 neighbouring lanes each has a word of each of 4 chunks; lane t gets all of chunk t. */
            int t = rfg_lane() % 4;
#pragma unroll
            for (int d = 0; d < D_BLOCKS; d += 2) { /* 4 chunks, a word of each */
                rfg_u32 c[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float *v = w->o[f][d + i / 2].v + 4 * (i % 2) + 2 * h;
                    c[i] = DTYPE == RFG_F16 ? rfg_pack_f16(v[0] * scale, v[1] * scale)
                                            : rfg_pack_bf16(v[0] * scale, v[1] * scale);
                }
                /* A 4x4 transpose: first between lanes whose numbers differ in bit 1, then bit 0. */
#pragma unroll
                for (int bit = 2; bit; bit /= 2)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (!(i & bit)) {
                            rfg_u32 lo = c[i], hi = c[i + bit];
                            rfg_u32 got = __shfl_xor_sync(0xffffffffu, t & bit ? lo : hi, bit);
                            c[i] = t & bit ? got : lo;
                            c[i + bit] = t & bit ? hi : got;
                        }
                if (in)
                    rfg_store16(to + 16 * d + 8 * t, make_uint4(c[0], c[1], c[2], c[3]));
            }
#else
            if (in)
#pragma unroll
                for (int d = 0; d < D_BLOCKS * RFG_FRAG_C / 8; d++) {
                    float v[8];
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        v[e] = w->o[f][(8 * d + e) / RFG_FRAG_C].v[e % RFG_FRAG_C] * scale;
                    store_chunk(to + element_key(8 * d / RFG_FRAG_C, 0) + lane_key(rfg_lane()), v);
                }
#endif
        }
}

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
    if (!find_place(&a, &p))
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
                weigh(&w, s, factor, slack);
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
    struct mha_args end_args = args_anew(&a);
#if DIVIDED
    if (!join_parts(&end_args, &w, factor_of(&end_args), part_anew(), parts_anew()))
        return;
#endif
    if (find_place(&end_args, &p))
        store_rows(&end_args, &p, &w, factor);
}
