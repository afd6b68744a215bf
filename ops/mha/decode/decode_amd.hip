/* SPDX-License-Identifier: MIT
 *
 * Decode attention on AMD's matrix cores: mha_decode_stream_mma there. See decode_kernel.h for the algorithm and the
 * macros, and decode_nvidia.hip for the other half. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_ballot.h"
#include "rfg_cache.h"
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/decode/decode_layout.h"

#define LDS_WAVES                                                                                                      \
    (WAVES / 2) /* one half of the waves writes its partials to LDS, the other combines its own with them */
#define QUERY_ROW     MHA_DECODE_QUERY_ROW(D, RFG_WAVE)
#define REAL_ROWS     ROWS
#define ROW_AT(row)   ((row) * (DV + 4)) /* of a wave's outputs: so that its stores, of 16 rows, hit all banks */
#define LOADS_LATE    MHA_DECODE_LOADS_LATE(0, RFG_WAVE, D, DV)
#define ROW_OFFSETS   (RFG_WAVE == 64 && PAGED != 2)
#define WHOLE_STEPS   0
#define SCALE_FMA     0
#define KEY_STEPS     (KV_ALIGN < 16 ? 1 : KV_I4 && D % 128 == 0 ? 4 : KV_INTS && D % 64 == 0 ? 2 : 1)
#define PAIRED_VALUES KV_INTS
#define SUBNORMALS    0
#define PADDED_LOADS  0
#define ALWAYS_LOADS  0 /* callers branch: loads are under `if (on)` */

RFG_DEVICE void load16_if(rfg_u32x4 *v, const char *p, bool on)
{
    (void)on;
    *v = rfg_load16_stream(p);
}
RFG_DEVICE void load8_if(rfg_u32x2 *v, const char *p, bool on)
{
    (void)on;
    *v = rfg_load8(p);
}
RFG_DEVICE void load4_if(rfg_u32 *v, const char *p, bool on)
{
    (void)on;
    *v = rfg_load4(p);
}
RFG_DEVICE int load_block(const int *entry)
{
    return (int)rfg_load4_uniform(entry);
}
#include "mha/decode/decode_pieces.h"
#include "mha/decode/decode_item.h"

/* Two waves a SIMD, unless keys, values, queries and outputs leave too few of the 256 registers for the rest. */
#define DATA_REGISTERS ((UNROLL * BYTES_OF(MHA_DECODE_STEP * (D + DV)) + ROWS * D * 2 + ROWS * DV * 4) / (4 * RFG_WAVE))
#if DATA_REGISTERS < RFG_TWO_WAVES_LIMIT
#define DECODE_KERNEL RFG_KERNEL(THREADS) RFG_TWO_WAVES
#else
#define DECODE_KERNEL RFG_KERNEL(THREADS)
#endif

#if ROW_OFFSETS
/* The same for every step but a sequence's last, whose rows beyond its end repeat its last one. */
RFG_DEVICE void find_offsets(const struct mha_args *a, struct offsets *p, int last)
{
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++) {
        int row = rfg_frag_row(i);
        p->k[i] = (rfg_u32)(row < last ? row : last) * ((rfg_u32)a->k.token * KV_BYTES) +
                  (rfg_u32)rfg_frag_chunk(i) * BYTES_OF(8 * KEY_STEPS);
    }
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i++) {
        int row = rfg_pv_token(i);
        p->v[i] = (rfg_u32)(row < last ? row : last) * ((rfg_u32)a->v.token * KV_BYTES) +
                  (rfg_u32)rfg_pv_lane() * BYTES_OF(PIECE);
    }
}
RFG_DEVICE const char *first_row(const struct mha_args *a, const struct mha_cache *c, const char *base, int block,
                                 int step)
{
    int t = PAGED ? RFG_PAGE_ROW(step * MHA_DECODE_STEP, a->page_shift) : step * MHA_DECODE_STEP;
    return rfg_uniform((char *)base + (rfg_u64)(rfg_u32)block * (rfg_u64)row_bytes(c->block) +
                       (rfg_u64)(rfg_u32)t * ((rfg_u32)c->token * KV_BYTES));
}
/* Loads of steps come in order, a step's keys before its values. */
RFG_DEVICE void load_keys(const struct mha_args *a, struct work_item *it, struct stage *s, int block, int step, bool on)
{
    if (!on)
        return;
    if ((step + 1) * MHA_DECODE_STEP > it->len) {
        asm volatile(""); /* a branch, seldom taken */
        find_offsets(a, &it->at, it->len - 1 - step * MHA_DECODE_STEP);
    }
    const char *first = first_row(a, &a->k, it->k, block, step);
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS / KEY_STEPS; k++)
#if D_REAL < D
            load_key(&s->k[k][i], first + (it->at.k[i] + (rfg_u32)key_at(k, i)), true);
#else
            load_key(&s->k[k][i], first + it->at.k[i] + k * BYTES_OF(32 * KEY_STEPS), true);
#endif
}
RFG_DEVICE void load_values(const struct mha_args *a, struct work_item *it, struct stage *s, int block, int step,
                            bool on)
{
    if (!on)
        return;
    const char *first = first_row(a, &a->v, it->v, block, step);
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i++)
        load_value(s->v[i], first + it->at.v[i], true);
}
#endif

#if KV_I4
/* Lanes have keys of token lane % 16. */
RFG_DEVICE void find_zeros(struct step_scales *to, const rfg_u32 *k, const rfg_u32 *v, rfg_u32 word)
{
    rfg_u32 mine = TWICE(kv_zero(word_of(word, rfg_lane() % 16, false)));
    (void)k, (void)v;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++)
        to->k_zero[i] = mine;
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS / 2; i++)
        to->v_zero[i] = kv_zero(word_of(word, rfg_pv_token(2 * i), true)) |
                        kv_zero(word_of(word, rfg_pv_token(2 * i + 1), true)) << 16;
}
#endif

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

/* Scores to weights by few instructions for each. First, what scores are above acc->m, by an FMA. It follows the matrix
 * instructions without a branch between: of several ways from there to here LLVM, up to 19 at least, looks at one alone
 * for how long to wait. */
struct shifted {
    float w[TILES][RFG_FRAG_WX], factor[TILES];
};
RFG_DEVICE void subtract_max(const struct mha_args *a, const struct work_item *it, const struct queries *q,
                             const struct sums *acc, rfg_frag_wx *s, STEP_SCALES struct shifted *r, int first)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float up = 1.0f;
#if MMA_DTYPE != DTYPE
        up = q[t].up[0];
#else
        (void)q;
#endif
        r->factor[t] = CAP || ALIBI ? 1.0f : it->scale * LOG2_E * up;
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
#if TOKEN_SCALES
            s[t].v[i] *= scales->k[i];
#endif
            if (CAP || ALIBI)
                s[t].v[i] = score(a, it, s[t].v[i] * up, first + rfg_frag_c_row(i),
                                  it->row0 + t * RFG_FRAG_X_ROWS + rfg_frag_c_col(i), false);
            r->w[t][i] = rfg_fma(s[t].v[i], r->factor[t], -acc->m[t][0]);
            asm volatile("" : "+v"(r->w[t][i]));
        }
    }
}
/* Then masks and a new m, by branches that are seldom taken. */
RFG_DEVICE void softmax_step(const struct mha_args *a, const struct work_item *it, struct sums *acc, rfg_frag_wx *s,
                             STEP_SCALES struct shifted *r, int first, bool masks)
{
    float(*w)[RFG_FRAG_WX] = r->w;
    bool raise = V_EXCEEDS(acc, scales);
    if (masks) {
        asm volatile("");
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                if (is_masked(a, it, first + rfg_frag_c_row(i), it->row0 + t * RFG_FRAG_X_ROWS + rfg_frag_c_col(i)))
                    w[t][i] = MINUS_INFINITY;
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            raise |= w[t][i] > SLACK;
    /* What weights are relative to need not be the largest score, only near it. */
    if (rfg_any_lane(raise)) {
#if TOKEN_SCALES
        float v_down = raise_v_top(acc, scales);
#endif
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float m = acc->m[t][0];
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++) {
                s[t].v[i] = w[t][i] == MINUS_INFINITY ? MINUS_INFINITY : s[t].v[i] * r->factor[t];
                m = rfg_max(m, s[t].v[i]);
            }
            m = rfg_frag_wx_reduce(m, true);
            float down = rfg_exp2(acc->m[t][0] - m);
            acc->m[t][0] = m;
            acc->l[t][0] *= down;
#if TOKEN_SCALES
            down *= v_down;
#endif
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                w[t][i] = s[t].v[i] - m;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                for (int i = 0; i < RFG_PV_O; i++)
                    acc->o[t][b][i] *= down;
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
            s[t].v[i] = rfg_exp2(w[t][i]);
            acc->l[t][0] += s[t].v[i];
        }
}

/* One step: S = K Q^T, P, O += V^T P^T. Loads for step `next` (below `end`) go to the registers of what has been used.
 */
RFG_DEVICE void one_step(const struct mha_args *a, struct work_item *it, const struct queries *q, struct stage *st,
                         struct sums *acc, int step, int next, int end, int block, int next_block)
{
#if LOADS_LATE
    load_keys(a, it, st, block, step, true);
    load_scales(a, it, st, block, step, true);
#endif
#if TOKEN_SCALES
    struct step_scales scales;
    scales_of_step(&scales, st->scales);
#endif
    rfg_frag_wx s[TILES];
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            s[t].v[i] = 0.0f;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        rfg_frag_ab keys;
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++)
            keys.v[i] = is_key(k / KEY_STEPS, i) ? KEY_OF(st->k[k / KEY_STEPS][i], k, i) : (rfg_u32x4){ 0, 0, 0, 0 };
#pragma unroll
        for (int t = 0; t < TILES; t++)
            rfg_frag_mma_wx(&s[t], &keys, &q[t].x[k], MMA_DTYPE);
    }
    struct shifted r;
    subtract_max(a, it, q, acc, s, PASS_SCALES(&scales) & r, step * MHA_DECODE_STEP);
#if LOADS_LATE
    load_values(a, it, st, block, step, true);
#else
    load_keys(a, it, st, next_block, next, next < end);
    load_scales(a, it, st, next_block, next, next < end);
#endif

    int first = step * MHA_DECODE_STEP, at = it->len - SQ;
    bool masks = first + MHA_DECODE_STEP > it->len ||
                 (MASK && (first + MHA_DECODE_STEP - 1 - at > a->window_right || at + SQ - 1 - first > a->window_left));
    rfg_u32 p[TILES][P_WORDS];
    softmax_step(a, it, acc, s, PASS_SCALES(&scales) & r, first, masks);
#if TOKEN_SCALES
    scale_weights(acc, s, &scales);
#endif
#pragma unroll
    for (int t = 0; t < TILES; t++)
        rfg_pv_probabilities(p[t], s[t].v, MMA_DTYPE);

    struct values v;
    VALUES_OF(&v, st->v);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            multiply_values(acc->o[t], &v, p[t], b);
#if !LOADS_LATE
    load_values(a, it, st, next_block, next, next < end);
#endif
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

/* A workgroup's waves read the queries from memory together, and each reads all of them from LDS. */
#define QUERY_PIECES ((ROWS * D / 8 + THREADS - 1) / THREADS)
struct query_pieces {
    rfg_u32x4 v[QUERY_PIECES];
};
/* attend() calls this first. */
RFG_DEVICE void begin_queries(const struct mha_args *a, struct work_item *it, struct query_pieces *pieces)
{
#pragma unroll
    for (int i = 0; i < QUERY_PIECES; i++) {
        int n = i * THREADS + rfg_thread(), row = it->row0 + n / (D / 8);
        pieces->v[i] = (rfg_u32x4){ 0, 0, 0, 0 }; /* rows that there aren't: nobody asks for their results */
        if (row < GROUP * SQ && n < ROWS * D / 8 && n % (D / 8) * 8 < D_REAL)
            pieces->v[i] = load_query((const rfg_u16 *)a->q.data + it->b * a->q.batch + row / GROUP * a->q.token +
                                      (it->head * GROUP + row % GROUP) * a->q.head + n % (D / 8) * 8);
    }
}
/* Then, before and after the first loads of keys and values: */
#define queries_before_keys(a, it, q) ((void)0)
RFG_DEVICE void queries_after_keys(float *lds, const struct query_pieces *pieces)
{
#pragma unroll
    for (int i = 0; i < QUERY_PIECES; i++) {
        int n = i * THREADS + rfg_thread();
        if (n < ROWS * D / 8)
            *(rfg_u32x4 *)(lds + QUERIES_AT + n / (D / 8) * QUERY_ROW + n % (D / 8) * 4) = pieces->v[i];
    }
    rfg_barrier_lds();
}
/* The tile that begins at row row0. */
RFG_DEVICE void read_queries(const struct work_item *it, const float *lds, struct queries *q, int row0)
{
    int row = row0 + rfg_frag_row(0);
    const float *p = lds + QUERIES_AT + (row - it->row0) * QUERY_ROW;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
            q->x[k].v[i] =
                *(const rfg_u32x4 *)(p + (k / KEY_STEPS * 4 + rfg_frag_chunk(i)) * (4 * KEY_STEPS) + k % KEY_STEPS * 4);
}

/* ---- partials ---------------------------------------------------------------------------------------------------- */

#define last_to_arrive rfg_last_to_arrive
#include "mha/decode/decode_combine.h"

/* All waves' partials, combined to those of LDS_WAVES. */
RFG_DEVICE void write_waves(float *lds, struct sums *acc)
{
    int wave = rfg_wave();
    if (wave >= LDS_WAVES)
        write_wave(lds, acc, wave - LDS_WAVES, true);
    rfg_barrier_lds();
    if (wave < LDS_WAVES)
        write_wave(lds, acc, wave, false);
    rfg_barrier_lds();
}

/* Partials from, from + 1, ... of n. Eight lanes have the same row, and each reads the maximum and the sum of one of
 * them. */
RFG_DEVICE void load_partials(struct partials *p, const float *first, const float *others, int stride, int from, int n,
                              int i, int row)
{
    int mine = from + rfg_lane() % AT_ONCE;
    rfg_u32x2 its = rfg_load8(PART(mine < n ? mine : n - 1) + row * 2);
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
        p->o[k] = (rfg_f32x4){ 0, 0, 0, 0 };
        if (from + k < n)
            p->o[k] = rfg_load_f32x4(PART(from + k) + 2 * ROWS + i * 4);
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
        int lane = rfg_lane() / AT_ONCE * AT_ONCE + k;
        p->ml[k].x = (rfg_u32)__builtin_amdgcn_ds_bpermute(lane * 4, (int)its.x);
        p->ml[k].y = (rfg_u32)__builtin_amdgcn_ds_bpermute(lane * 4, (int)its.y);
    }
}

#include "mha/decode/decode_kernel.h"
