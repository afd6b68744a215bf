/* SPDX-License-Identifier: MIT
 *
 * Attention of few queries: a stream of keys and values, straight from memory to the registers of matrix instructions.
 *
 * A unit is a sequence, a kv head and up to ROWS rows, a row being a query and a q head of that kv head's group. It is
 * worked on in steps of 16 tokens, by waves: each has its own online softmax and its own sums, so that nothing is shared
 * and nobody waits until the end. UNROLL steps' keys and values are under way in each wave, and asked for again as soon
 * as they are used. Then a workgroup's waves join their sums in LDS.
 *
 * CLUSTER > 0: the waves of groups_y clusters of CLUSTER workgroups take a unit's steps by turns. The workgroups of a cluster
 * (NVIDIA) send their sums to the LDS of those that own a part of the output; clusters meet in memory, where the last to
 * arrive joins them in order. CLUSTER 0: all steps of all units, one behind the other, are divided evenly among the
 * grid's workgroups, whatever the sequences' lengths, and those who have a part of the same unit meet in memory. Who they
 * are follows from the lengths alone, so the bits do not change.
 *
 * Macros: DTYPE (q, out: fp16 or bf16), KV_DTYPE, D, DV, SQ, GROUP (q heads of a kv head), TILES (Q_TILE rows each, of a
 * unit), WAVES, UNROLL, CLUSTER, GROUPS (workgroups a CU), PAGED (0: no table, 1: pages of whole steps, 2: shorter ones), MASK (causal with SQ > 1,
 * or a window), CAP, ALIBI. Needs 16-byte aligned rows. Workspace: see PARTIAL. LDS: LDS_BYTES. */
#include "rfg_device.h"
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/decode/decode_frag.h"

#define THREADS   (WAVES * RFG_WAVE)
#define ROWS      (TILES * Q_TILE)
#define ROW_TILES ((GROUP * SQ + ROWS - 1) / ROWS)
#define SPLITS    (CLUSTER ? CLUSTER : 1)
#define MINUS_INFINITY  rfg_as_float(0xff800000u)
#define NOTHING   -1e30f /* the largest score of no keys: less than any, but a number */
#define SLACK     8.0f   /* scores may exceed what they are taken relative to by so much, in powers of two */
#define K_STEPS   (D / 32)
/* Rows that are joined: nobody asks for the others, if a unit is all there is of a kv head. */
#if RFG_NVIDIA && GROUP * SQ <= ROWS / 2
#define REAL_ROWS (GROUP * SQ <= ROWS / 4 ? ROWS / 4 : ROWS / 2)
#else
#define REAL_ROWS ROWS
#endif
#define QUADS     (REAL_ROWS * DV / 4)
/* Of the output, what a workgroup of a cluster owns. */
#define MINE     (QUADS / SPLITS)
#define OWN_ROWS (REAL_ROWS > SPLITS ? REAL_ROWS / SPLITS : 1)

/* LDS, in floats: the largest scores and sums of weights by row of LEFT waves, their sums; AMD: the queries; in a
 * cluster, an arrival, what the others send of the same; where no cluster is, a flag and the sequences' steps. */
#define ML_AT    0
/* Rows so that a wave's stores hit all banks: NVIDIA's lanes hold pieces of four rows, every other one, by turns with their
 * neighbours'; AMD's of 16 rows. */
#if RFG_NVIDIA
#define ROW_AT(row) ((row)*DV + (row) / 2 % 2 * 4 + (row) / 4 * 16)
#define WAVE_SUMS   (ROWS * DV + ROWS * 4)
#define LEFT        WAVES
#define QUERY_ROW   0
#else
#define ROW_AT(row) ((row) * (DV + 4))
#define WAVE_SUMS   (ROWS * (DV + 4))
#define LEFT        (WAVES / 2) /* the other half of the waves leave theirs first, and these take them up */
#define QUERY_ROW   (D / 2 + (RFG_MFMA ? 8 : 4)) /* lanes that LDS answers together hit all banks */
#endif
#define SUMS_AT    (ML_AT + 2 * LEFT * ROWS)
#define QUERIES_AT (SUMS_AT + LEFT * WAVE_SUMS)
#define SENT_AT    (QUERIES_AT + ROWS * QUERY_ROW)
#define SENT_ML  (SENT_AT + 4)
#define SENT_SUM (SENT_ML + SPLITS * OWN_ROWS * 4)
#define STEPS_AT (SENT_AT + 4)
#define MOST_BATCH 1024 /* where no cluster is */
#define LDS_BYTES (4 * (CLUSTER > 1 ? SENT_SUM + QUADS * 4 : CLUSTER ? SENT_AT : STEPS_AT + MOST_BATCH / 16 * 17))
/* Workspace, in floats: what a workgroup leaves of a unit that isn't its own alone; CLUSTER 0: twice. */
#define PARTIAL (2 * ROWS + 4 * MINE)

/* NVIDIA's compiler is told how many workgroups a CU is to hold: registers follow from that. AMD's, that a SIMD is to
 * hold two waves: else it keeps sums in AGPRs, and copies them around each matrix instruction. Where keys, values,
 * queries and sums leave too few of the 256 registers for the rest, copies are better than spills. */
#define HELD ((UNROLL * STEP * (D + DV) * KV_BYTES + ROWS * D * 2 + ROWS * DV * 4) / (4 * RFG_WAVE))
#if RFG_MFMA && !defined(__gfx908__) && HELD < (__clang_major__ < 17 ? 128 : 160)
#define DECODE_KERNEL RFG_KERNEL(THREADS) __attribute__((amdgpu_waves_per_eu(2)))
#elif !RFG_NVIDIA
#define DECODE_KERNEL RFG_KERNEL(THREADS)
#elif CLUSTER > 1
#define DECODE_KERNEL extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, GROUPS)
#else
#define DECODE_KERNEL extern "C" __global__ void __launch_bounds__(THREADS, GROUPS)
#endif

/* Where pages are whole steps, all rows of a step can be read, those beyond the length too; what of values is not there
 * is then zeroed. So a lane's rows are at constant distances. The largest heads leave no registers for that. */
#define WHOLE_STEPS (RFG_NVIDIA && PAGED == 1 && D + DV <= 384)
/* Scores are nothing but products: scaled, and relative to the largest, in one instruction. */
#define PLAIN (RFG_NVIDIA && !CAP && !ALIBI)

struct stage {
    key_piece k[K_STEPS / KEY_STEPS][RFG_FRAG_AB];
    value_piece v[PV_TOKENS][PIECES];
};

/* A tile of them. */
struct queries {
    rfg_frag_x x[K_STEPS];
#if MMA_DTYPE != DTYPE
    float up[LANE_QUERIES]; /* what this lane's queries were divided by; PLAIN: times the scores' scale */
#endif
};

struct sums {
    float m[TILES][LANE_QUERIES], l[TILES][LANE_QUERIES];
    float o[TILES][BLOCKS][O_FLOATS];
};

/* MFMA, pages of whole steps: the bytes from a step's first row, which is all lanes', to this lane's of each of its
 * rows. */
#define PLACES (RFG_MFMA && PAGED != 2)
struct places {
    rfg_u32 k[RFG_FRAG_AB], v[PV_TOKENS];
};

/* A unit, and this lane's part in it. */
struct unit {
    const char *k, *v; /* of the kv head, this lane's bytes of a row; PLACES: its first */
#if PLACES
    struct places at;
#endif
    const int *table;
    int block; /* without a table */
    int len;
    int b, head, row0;
    float scale;
};

RFG_DEVICE long long row_bytes(long long stride)
{
    return stride * KV_BYTES;
}

/* Of pages of whole steps, the step's block. */
RFG_DEVICE int block_of(const struct mha_args *a, const struct unit *u, int step)
{
    const int *entry = u->table + (step * STEP >> a->page_shift);
    return PAGED != 1 ? u->block : RFG_AMD ? (int)load_uniform(entry) : load_entry(entry);
}

/* Rows of a step. */
struct rows {
    const char *first;
    int last; /* of the sequence: rows beyond it repeat it, their weight is 0 */
    rfg_u32 stride;
};
RFG_DEVICE struct rows rows_of(const struct mha_args *a, const struct unit *u, const struct mha_cache *c, const char *base,
                               int block, int step)
{
    struct rows r;
    r.last = u->len - 1 - step * STEP;
    r.stride = (rfg_u32)c->token * KV_BYTES;
    r.first = base;
    if (PAGED != 2) {
        int t = PAGED ? step * STEP & ((1 << a->page_shift) - 1) : step * STEP;
        r.first += block * row_bytes(c->block) + (rfg_u64)(rfg_u32)t * r.stride;
    }
    r.first = fixed(r.first);
    return r;
}
RFG_DEVICE const char *row_at(const struct mha_args *a, const struct unit *u, const struct mha_cache *c,
                              const struct rows *r, int step, int row, bool on)
{
    row = row < r->last ? row : r->last;
    if (PAGED == 2) {
        int t = step * STEP + row, block = on ? load_entry(u->table + (t >> a->page_shift)) : 0;
        return fixed(r->first + block * row_bytes(c->block) + (rfg_u64)(rfg_u32)(t & ((1 << a->page_shift) - 1)) * r->stride);
    }
    return fixed(r->first + (rfg_u64)(rfg_u32)row * r->stride);
}

#if PLACES
/* The same for every step but a sequence's last, whose rows beyond its end repeat its last one. */
RFG_DEVICE void find_places(const struct mha_args *a, struct places *p, int last)
{
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++) {
        int row = rfg_frag_row(i);
        p->k[i] = (rfg_u32)(row < last ? row : last) * ((rfg_u32)a->k.token * KV_BYTES) +
                  (rfg_u32)rfg_frag_chunk(i) * (8 * KV_BYTES);
    }
#pragma unroll
    for (int i = 0; i < PV_TOKENS; i++) {
        int row = pv_token(i);
        p->v[i] = (rfg_u32)(row < last ? row : last) * ((rfg_u32)a->v.token * KV_BYTES) +
                  (rfg_u32)pv_lane() * (PIECE * KV_BYTES);
    }
}
RFG_DEVICE const char *first_row(const struct mha_args *a, const struct mha_cache *c, const char *base, int block,
                                 int step)
{
    int t = PAGED ? step * STEP & ((1 << a->page_shift) - 1) : step * STEP;
    return rfg_uniform((char *)base + (rfg_u64)(rfg_u32)block * (rfg_u64)row_bytes(c->block) +
                       (rfg_u64)(rfg_u32)t * ((rfg_u32)c->token * KV_BYTES));
}
/* Loads of steps come in order, a step's keys before its values. */
RFG_DEVICE void load_keys(const struct mha_args *a, struct unit *u, struct stage *s, int block, int step, bool on)
{
    if (!on)
        return;
    if ((step + 1) * STEP > u->len) {
        asm volatile(""); /* a branch, seldom taken */
        find_places(a, &u->at, u->len - 1 - step * STEP);
    }
    const char *first = first_row(a, &a->k, u->k, block, step);
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
            load_key(&s->k[k][i], first + u->at.k[i] + k * (32 * KV_BYTES), true);
}
RFG_DEVICE void load_values(const struct mha_args *a, struct unit *u, struct stage *s, int block, int step, bool on)
{
    if (!on)
        return;
    const char *first = first_row(a, &a->v, u->v, block, step);
#pragma unroll
    for (int i = 0; i < PV_TOKENS; i++)
        load_value(s->v[i], first + u->at.v[i], true);
}
#elif WHOLE_STEPS
/* The step's part of this lane's first row, which base is of. */
RFG_DEVICE const char *step_at(const struct mha_args *a, const struct mha_cache *c, const char *base, int block,
                               int step)
{
    rfg_u32 t = (rfg_u32)(step * STEP & ((1 << a->page_shift) - 1));
    base += (rfg_u64)(rfg_u32)block * (rfg_u64)row_bytes(c->block);
    return fixed(base + (rfg_u64)t * ((rfg_u32)c->token * KV_BYTES));
}
RFG_DEVICE void load_keys(const struct mha_args *a, const struct unit *u, struct stage *s, int block, int step, bool on)
{
    const char *p = step_at(a, &a->k, u->k, block, step);
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++) {
#pragma unroll
        for (int k = 0; k < K_STEPS / KEY_STEPS; k++)
            load_key(&s->k[k][i], p + k * (32 * KEY_STEPS * KV_BYTES), on);
        p = fixed(p + (rfg_u32)(8 * KV_BYTES) * (rfg_u32)a->k.token);
    }
}
RFG_DEVICE void load_values(const struct mha_args *a, const struct unit *u, struct stage *s, int block, int step,
                            bool on)
{
    const char *p = step_at(a, &a->v, u->v, block, step);
    rfg_u32 stride = (rfg_u32)a->v.token * KV_BYTES;
#pragma unroll
    for (int i = 0; i < PV_TOKENS; i += 2) {
        load_value(s->v[i], p, on);
        load_value(s->v[i + 1], fixed(p + stride), on);
        p = fixed(p + 8 * stride);
    }
}
/* Values of tokens that the sequence doesn't have, of which there are `left`, may be anything. */
RFG_DEVICE void clear_values(struct stage *s, int left)
{
#pragma unroll
    for (int i = 0; i < PV_TOKENS; i++)
#pragma unroll
        for (int w = 0; w < V_LOADED; w++)
            if (pv_token(i) >= left)
                VALUE_WORD(s->v[i], w) = 0;
}
#else
/* If on. */
RFG_DEVICE void load_keys(const struct mha_args *a, const struct unit *u, struct stage *s, int block, int step, bool on)
{
    if (!RFG_NVIDIA && !on)
        return;
    struct rows r = rows_of(a, u, &a->k, u->k, block, step);
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++) {
        const char *p = row_at(a, u, &a->k, &r, step, rfg_frag_row(i), on) +
                        (rfg_frag_chunk(i) - rfg_frag_chunk(0)) * (8 * KEY_STEPS * KV_BYTES);
#pragma unroll
        for (int k = 0; k < K_STEPS / KEY_STEPS; k++)
            load_key(&s->k[k][i], p + k * (32 * KEY_STEPS * KV_BYTES), on);
    }
}
RFG_DEVICE void load_values(const struct mha_args *a, const struct unit *u, struct stage *s, int block, int step,
                            bool on)
{
    if (!RFG_NVIDIA && !on)
        return;
    struct rows r = rows_of(a, u, &a->v, u->v, block, step);
#pragma unroll
    for (int i = 0; i < PV_TOKENS; i++)
        load_value(s->v[i], row_at(a, u, &a->v, &r, step, pv_token(i), on), on);
}
#endif

/* No room for the next step's keys and values: RDNA 3's lanes hold all of a step's twice over. */
#define LATE (RFG_WMMA11 || RFG_WMMA12 || (RFG_NVIDIA && D + DV > 384))

#include "mha/decode/decode_weights.h"

/* One step: S = K Q^T, weights, O += V^T P^T. Loads for step `next` (below `end`) take the places of what is used. */
RFG_DEVICE void one_step(const struct mha_args *a, struct unit *u, const struct queries *q, struct stage *st,
                         struct sums *acc, int step, int next, int end, int block, int next_block)
{
#if LATE
    load_keys(a, u, st, block, step, true);
#endif
    rfg_frag_wx s[TILES], odd[TILES]; /* NVIDIA: sums of every other part of D: half the chain */
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            s[t].v[i] = odd[t].v[i] = 0.0f;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        rfg_frag_ab keys;
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++)
            keys.v[i] = key_of(st->k[k / KEY_STEPS][i], k);
#pragma unroll
        for (int t = 0; t < TILES; t++)
            rfg_frag_mma_wx(RFG_NVIDIA && k % 2 ? &odd[t] : &s[t], &keys, &q[t].x[k], MMA_DTYPE);
    }
#pragma unroll
    for (int t = 0; t < TILES && RFG_NVIDIA; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            s[t].v[i] = (s[t].v[i] + odd[t].v[i])
#if MMA_DTYPE != DTYPE && !PLAIN
                        * q[t].up[i % LANE_QUERIES]
#endif
                ;
#if RFG_AMD
    struct relative r;
    relate(a, u, q, acc, s, &r, step * STEP);
#endif
#if LATE
    load_values(a, u, st, block, step, true);
#else
    load_keys(a, u, st, next_block, next, next < end);
#endif

    int first = step * STEP, at = u->len - SQ;
    bool masks = first + STEP > u->len || (MASK && (first + STEP - 1 - at > a->window_right ||
                                                    at + SQ - 1 - first > a->window_left));
    rfg_u32 p[TILES][P_WORDS];
#if RFG_AMD
    weigh(a, u, acc, s, &r, first, masks);
#else
    weigh(a, u, q, acc, s, first, masks);
#endif
#pragma unroll
    for (int t = 0; t < TILES; t++)
        pv_weights(p[t], s[t].v);

#if WHOLE_STEPS
    if (first + STEP > u->len)
        clear_values(st, u->len - first);
#endif
    struct values v;
    values_of(&v, st->v);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            pv_multiply(acc->o[t], &v, p[t], b);
#if !LATE
    load_values(a, u, st, next_block, next, next < end);
#endif
}

#if RFG_AMD
/* A workgroup's waves read them from memory together, and all of them from LDS. */
#define QUERY_PIECES ((ROWS * D / 8 + THREADS - 1) / THREADS)
struct query_pieces {
    rfg_u32x4 v[QUERY_PIECES];
};
RFG_DEVICE void fetch_queries(const struct mha_args *a, const struct unit *u, struct query_pieces *pieces)
{
#pragma unroll
    for (int i = 0; i < QUERY_PIECES; i++) {
        int n = i * THREADS + rfg_thread(), row = u->row0 + n / (D / 8);
        pieces->v[i] = (rfg_u32x4){ 0, 0, 0, 0 }; /* rows that there aren't: nobody asks for their results */
        if (row < GROUP * SQ && n < ROWS * D / 8)
            pieces->v[i] = rfg_load16((const rfg_u16 *)a->q.data + u->b * a->q.batch + row / GROUP * a->q.token +
                                      (u->head * GROUP + row % GROUP) * a->q.head + n % (D / 8) * 8);
    }
}
RFG_DEVICE void share_queries(float *lds, const struct query_pieces *pieces)
{
#pragma unroll
    for (int i = 0; i < QUERY_PIECES; i++) {
        int n = i * THREADS + rfg_thread();
        if (n < ROWS * D / 8)
            *(rfg_u32x4 *)(lds + QUERIES_AT + n / (D / 8) * QUERY_ROW + n % (D / 8) * 4) = pieces->v[i];
    }
    rfg_barrier_lds();
}
#endif
/* The tile that begins at row row0. */
RFG_DEVICE void load_queries(const struct mha_args *a, const struct unit *u, const float *lds, struct queries *q,
                             int row0)
{
    int row = row0 + o_row();
#if RFG_AMD
    const float *p = lds + QUERIES_AT + (row - u->row0) * QUERY_ROW;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
            q->x[k].v[i] = *(const rfg_u32x4 *)(p + k * 16 + rfg_frag_chunk(i) * 4);
#else
    bool real = row < GROUP * SQ; /* others are zeroes: nobody asks for their results */
    const rfg_u16 *p = (const rfg_u16 *)a->q.data + u->b * a->q.batch + row / GROUP * a->q.token +
                       (u->head * GROUP + row % GROUP) * a->q.head;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
            if (real)
                q->x[k].v[i] = rfg_load16(p + k / KEY_STEPS * (32 * KEY_STEPS) +
                                          (rfg_frag_chunk(i) * KEY_STEPS + k % KEY_STEPS) * 8);
            else
                q->x[k].v[i].x = q->x[k].v[i].y = q->x[k].v[i].z = q->x[k].v[i].w = 0;
#endif
}
RFG_DEVICE void convert_queries(const struct unit *u, struct queries *q)
{
#if MMA_DTYPE != DTYPE
    /* fp16 has all of bf16's digits, but not its range: a power of two brings a row's largest to 1...2, and its scores
     * back. What is 2^-24 of the largest and less is lost. */
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++) {
            float f[8];
            rfg_unpack(f, q->x[k].v[i], DTYPE);
#pragma unroll
            for (int e = 0; e < 8; e++)
                largest = rfg_max(largest, rfg_as_float(rfg_as_u32(f[e]) & 0x7fffffffu));
        }
    largest = over_row(largest);
    rfg_u32 exponent = rfg_as_u32(largest) >> 23;
    exponent = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;
    float down = rfg_as_float((254 - exponent) << 23);
    of_queries(q->up, rfg_as_float(exponent << 23) * (PLAIN ? u->scale : 1.0f));
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++) {
            float f[8];
            rfg_unpack(f, q->x[k].v[i], DTYPE);
            q->x[k].v[i].x = pack_two(f[0] * down, f[1] * down);
            q->x[k].v[i].y = pack_two(f[2] * down, f[3] * down);
            q->x[k].v[i].z = pack_two(f[4] * down, f[5] * down);
            q->x[k].v[i].w = pack_two(f[6] * down, f[7] * down);
        }
#endif
}

/* This wave's share of the unit's steps: first, first + by, ... below end. */
RFG_DEVICE void attend(const struct mha_args *a, struct unit *u, float *lds, struct sums *acc, int first, int by,
                       int end)
{
    struct stage ring[UNROLL];
    int block[UNROLL], next_block[UNROLL];
#if RFG_AMD
    struct query_pieces pieces;
    fetch_queries(a, u, &pieces);
#endif
#if PLACES
    find_places(a, &u->at, STEP);
#endif
#pragma unroll
    for (int i = 0; i < UNROLL; i++) {
        /* Without a look at the length, which is still on its way. */
        int step = first + i * by, last = (a->skv - 1) / STEP;
        block[i] = PAGED == 1 && a->skv < 1 ? 0 : block_of(a, u, step < last ? step : last);
    }
    struct queries q[TILES];
#if RFG_NVIDIA /* before the keys, which wait for the table */
#pragma unroll
    for (int t = 0; t < TILES; t++)
        load_queries(a, u, lds, &q[t], u->row0 + t * Q_TILE);
    __syncwarp(); /* so that they are not moved behind */
#endif
#pragma unroll
    for (int i = 0; i < UNROLL && !LATE; i++) {
        load_keys(a, u, &ring[i], block[i], first + i * by, first + i * by < end);
        load_values(a, u, &ring[i], block[i], first + i * by, first + i * by < end);
    }
#pragma unroll
    for (int i = 0; i < UNROLL; i++)
        if (first + (UNROLL + i) * by < end)
            next_block[i] = block_of(a, u, first + (UNROLL + i) * by);

#if RFG_AMD
    share_queries(lds, &pieces);
#endif
#if CLUSTER > 1
    __syncwarp();
    rfg_cluster_wait(); /* for all to have begun: while loads are under way */
#endif
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#if !RFG_NVIDIA
        load_queries(a, u, lds, &q[t], u->row0 + t * Q_TILE);
#endif
        convert_queries(u, &q[t]);
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int j = 0; j < LANE_QUERIES; j++) {
            acc->m[t][j] = NOTHING;
            acc->l[t][j] = 0.0f;
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int i = 0; i < O_FLOATS; i++)
                acc->o[t][b][i] = 0.0f;
    }
#pragma unroll 1
    for (int step = first; step < end; step += UNROLL * by) {
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            int now = step + i * by, next = now + UNROLL * by;
            if (now < end) {
                one_step(a, u, q, &ring[i], acc, now, next, end, block[i], next_block[i]);
                block[i] = next_block[i];
                if (next + UNROLL * by < end)
                    next_block[i] = block_of(a, u, next + UNROLL * by);
            }
        }
    }
}

#include "mha/decode/decode_join.h"

RFG_DEVICE void open_unit(const struct mha_args *a, struct unit *u, int b, int inner)
{
    u->b = b;
    u->head = inner / ROW_TILES;
    u->row0 = inner % ROW_TILES * ROWS;
    u->block = b;
    u->table = a->block_table + b * a->table_stride;
    u->k = (const char *)a->k.data + row_bytes(u->head * a->k.head) + (PLACES ? 0 : rfg_frag_chunk(0) * (8 * KEY_STEPS * KV_BYTES));
    u->v = (const char *)a->v.data + row_bytes(u->head * a->v.head) + (PLACES ? 0 : pv_lane() * (PIECE * KV_BYTES));
#if WHOLE_STEPS
    u->k += (rfg_u64)(rfg_u32)rfg_frag_row(0) * ((rfg_u32)a->k.token * KV_BYTES);
    u->v += (rfg_u64)(rfg_u32)pv_token(0) * ((rfg_u32)a->v.token * KV_BYTES);
    u->k = fixed(u->k);
    u->v = fixed(u->v);
    u->table = (const int *)fixed((const char *)u->table);
#endif
    u->scale = a->scale * (a->k_scale ? rfg_as_float(rfg_load4(a->k_scale + u->head * a->k_scale_stride)) : 1.0f) *
               (PLAIN ? LOG2_E : 1.0f);
}

/* The steps of a sequence that count: those before the window don't. */
RFG_DEVICE int first_step(const struct mha_args *a, int len)
{
    int before = MASK && len - SQ > a->window_left ? len - SQ - a->window_left : 0;
    return before / STEP;
}
RFG_DEVICE int length_of(const struct mha_args *a, int b) /* all lanes' b, or each its own */
{
    return a->kv_lens ? within((int)load_uniform(a->kv_lens + b), 0, a->skv) : a->skv;
}

#if CLUSTER

DECODE_KERNEL mha_decode(struct mha_args a)
{
    float *lds = (float *)rfg_lds;
    int rank = CLUSTER == 1 ? 0 : rfg_group_x() % CLUSTER, unit = rfg_group_x() / CLUSTER;
    int part = rfg_group_y(), parts = rfg_groups_y(), inner = a.hkv * ROW_TILES;
    struct unit u;
    struct sums acc;
#if CLUSTER > 1
    rfg_u64 *arrival = (rfg_u64 *)(lds + SENT_AT);
    if (rfg_thread() == 0)
        rfg_arrival_init(arrival, 1);
    rfg_cluster_arrive_first();
#endif
    rfg_await_previous();
    int b = 0;
    if (a.batch > 1) /* divisions are slow */
        b = unit / inner;
    open_unit(&a, &u, b, unit - b * inner);
    u.len = length_of(&a, u.b);
    attend(&a, &u, lds, &acc, first_step(&a, u.len) + (part * CLUSTER + rank) * WAVES + rfg_wave(),
           parts * CLUSTER * WAVES, (u.len + STEP - 1) / STEP);
    rfg_start_next(); /* not before: what would come then has nothing to do but to wait, in places that others need */
    leave(lds, &acc);
#if CLUSTER > 1
    if (rfg_thread() == 0) /* the round can't end before this, whatever came already */
        rfg_arrive_expect(arrival, CLUSTER * (OWN_ROWS + MINE) * 16);
    send_sums(lds, arrival, rank);
    rfg_arrival_wait(arrival, 0);
#define OWNED(i) join_sent(lds, i)
#else
#define OWNED(i) join_waves(lds, i)
#endif
    if (parts == 1) {
#pragma unroll 1
        for (int i = rfg_thread(); i < MINE; i += THREADS)
            store_quad(&a, &u, rank * MINE + i, OWNED(i));
        return;
    }
    float *all = (float *)a.workspace + (long long)rfg_group_x() * parts * PARTIAL;
#pragma unroll 1
    for (int i = rfg_thread(); i < MINE; i += THREADS) {
        int quad = rank * MINE + i;
        if (is_asked(&u, quad))
            leave_quad(all + (long long)part * PARTIAL, i, quad / (DV / 4), i == 0 || quad % (DV / 4) == 0, OWNED(i));
    }
    if (last_to_arrive(a.counters + rfg_group_x(), parts, (rfg_u32 *)lds)) {
#pragma unroll 1
        for (int i = rfg_thread(); i < MINE; i += THREADS) {
            int quad = rank * MINE + i;
            if (is_asked(&u, quad))
                store_quad(&a, &u, quad, join_parts(all, all + PARTIAL, PARTIAL, parts, i, quad / (DV / 4)));
        }
    }
}

#else /* a stream of all units' steps */

/* Of a sequence. Its zeros must be stored even if there are none. */
RFG_DEVICE int steps_of(const struct mha_args *a, int b)
{
    int len = length_of(a, b), n = (len + STEP - 1) / STEP - first_step(a, len);
    return n > 0 ? n : 1;
}

/* Where share i of `parts` of n steps begins; and whose share step x is. */
RFG_DEVICE int share_of(int n, int x, int parts)
{
    rfg_u32 each = (rfg_u32)n / (rfg_u32)parts, more = (rfg_u32)n - each * (rfg_u32)parts, head = more * (each + 1);
    return (int)((rfg_u32)x < head ? (rfg_u32)x / (each + 1) : more + ((rfg_u32)x - head) / each);
}

/* What AMD's compiler doesn't know to be all lanes'. */
RFG_DEVICE int same(int n)
{
#if RFG_AMD
    n = __builtin_amdgcn_readfirstlane(n);
#endif
    return n;
}

/* Where there are enough workgroups, a sequence's units go side by side, each in a stream of its own: a token's heads, which
 * are neighbours in memory, are then read at about one time. */
RFG_DEVICE int streams_of(const struct mha_args *a)
{
    int inner = a->hkv * ROW_TILES;
    return rfg_groups_x(THREADS) >= 8 * inner ? inner : 1;
}

DECODE_KERNEL mha_decode(struct mha_args a)
{
    float *lds = (float *)rfg_lds;
    int inner = a.hkv * ROW_TILES, groups = rfg_groups_x(THREADS), streams = streams_of(&a);
    int stream = rfg_group_x() % streams, group = rfg_group_x() / streams;
    groups /= streams;
    inner /= streams;
    rfg_await_previous();
    if (group >= groups)
        return;
    /* Steps of every sequence, and sums of 16 of them. */
    int *steps = (int *)(lds + STEPS_AT), *sums = steps + MOST_BATCH;
    for (int i = rfg_thread(); i < (a.batch + 15) / 16 * 16; i += THREADS)
        steps[i] = i < a.batch ? steps_of(&a, i) : 0;
    rfg_barrier_lds();
    for (int i = rfg_thread(); i < (a.batch + 15) / 16; i += THREADS) {
        int sum = 0;
#pragma unroll
        for (int k = 0; k < 16; k++)
            sum += steps[i * 16 + k];
        sums[i] = sum;
    }
    rfg_barrier_lds();
    int total = 0;
    for (int i = 0; i < (a.batch + 15) / 16; i++)
        total += sums[i];
    total = same(total) * inner;
    int x = rfg_share_begin(total, group, groups), end = rfg_share_begin(total, group + 1, groups);
    if (x == end)
        return;

    /* The sequence of step x. */
    int b = 0, before = 0;
    while (before + sums[b / 16] * inner <= x) {
        before += sums[b / 16] * inner;
        b += 16;
    }
    while (before + steps[b] * inner <= x)
        before += steps[b++] * inner;
    b = same(b);
    before = same(before);
    int n = same(steps[b]);
#pragma unroll 1
    while (x < end) {
        struct unit u;
        struct sums acc;
        int which = (x - before) / n, from = x - before - which * n;
        int to = from + (end - x) < n ? from + (end - x) : n;
        struct mha_args now = args_anew(&a);
#if RFG_AMD
        streams = streams_of(&now); /* rather than in a register all the time */
        stream = rfg_group_x() % streams;
#endif
        open_unit(&now, &u, b, which + stream);
        u.len = length_of(&now, b);
        int skip = first_step(&now, u.len), last = (u.len + STEP - 1) / STEP;
        attend(&now, &u, lds, &acc, skip + from + rfg_wave(), WAVES, skip + to < last ? skip + to : last);
        if (x + to - from >= end)
            rfg_start_next();
        leave(lds, &acc);
        now = args_anew(&a);
#if RFG_AMD
        streams = streams_of(&now);
#endif
        if (from == 0 && to == n) {
#pragma unroll 1
            for (int quad = rfg_thread(); quad < QUADS; quad += THREADS)
                store_quad(&now, &u, quad, join_waves(lds, quad));
        } else {
            int begin = before + which * n;
            meet(&now, &u, lds, share_of(total, begin, groups), share_of(total, begin + n - 1, groups), streams, from == 0);
        }
        rfg_barrier_lds();
        x += to - from;
        if (x >= before + n * inner) {
            before += n * inner;
            b++;
            n = same(b < a.batch ? steps[b] : 1);
        }
    }
}
#endif
