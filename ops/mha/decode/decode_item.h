/* SPDX-License-Identifier: MIT
 *
 * Decode's work item: which rows of queries against which keys, where its keys and values are, and its scores. Included
 * by decode_amd.hip and decode_nvidia.hip after decode_pieces.h; they define LDS_WAVES, QUERY_ROW, REAL_ROWS, ROW_AT,
 * LOADS_LATE, ROW_OFFSETS, WHOLE_STEPS, SCALE_FMA and ALWAYS_LOADS before.
 *
 * A work item is a sequence, a kv head and up to ROWS rows, a row being a query and a q head of that kv head's group.
 */
#define THREADS        (WAVES * RFG_WAVE)
#define ROWS           (TILES * RFG_FRAG_X_ROWS)
#define ROW_TILES      ((GROUP * SQ + ROWS - 1) / ROWS)
#define SPLITS         (CLUSTER ? CLUSTER : 1)
#define MINUS_INFINITY rfg_as_float(0xff800000u)
#define LOWEST         -1e30f /* the maximum over no keys: below any score, but finite, so that differences are */
#define SLACK          8.0f   /* powers of two by which scores may exceed the maximum that was subtracted */
#define K_STEPS        (D_PART / 32)
#define PADDED         (D_REAL < D || DV_REAL < DV)
#define QUADS          (REAL_ROWS * DV / 4) /* of a work item's output: four neighbouring elements each */
#define OWNED_QUADS    (QUADS / SPLITS)     /* by each workgroup of a cluster */
#define OWNED_ROWS     MHA_DECODE_OWNED_ROWS(REAL_ROWS, SPLITS)

/* LDS, in floats: decode_layout.h. */
#define ML_AT        0
#define OUTPUTS_AT   MHA_DECODE_OUTPUTS_AT(LDS_WAVES, ROWS)
#define WAVE_OUTPUTS (ROWS * (DV + 4))
#define QUERIES_AT   MHA_DECODE_QUERIES_AT(LDS_WAVES, ROWS, DV)
#define STAGE_BYTES  MHA_DECODE_STAGE_BYTES(D_PART, DV_PART, KV_BITS, TOKEN_SCALES)
#define RING_FLOATS  MHA_DECODE_RING_FLOATS(RING, WAVES, STAGE_BYTES)
#define TAIL_AT      MHA_DECODE_TAIL_AT(LDS_WAVES, ROWS, DV, QUERY_ROW)
#define SENT_AT      (RING_FLOATS > TAIL_AT ? RING_FLOATS : TAIL_AT)
#define SENT_ML      (SENT_AT + 4)
#define SENT_OUTPUTS (SENT_ML + SPLITS * OWNED_ROWS * 4)
#define STEPS_AT     (SENT_AT + 4)
#define PARTIAL      MHA_DECODE_PARTIAL_FLOATS(ROWS, REAL_ROWS, DV, CLUSTER)
#ifdef SEGMENTED
#define RUNNING_AT     SENT_AT
#define RUNNING_FLOATS MHA_DECODE_RUNNING_FLOATS(REAL_ROWS, DV)
static_assert(RUNNING_AT % 4 == 0 && RUNNING_FLOATS == QUADS * 6, "quads' sums so far are aligned, and all there");
#else
#define RUNNING_FLOATS 0
#endif
static_assert(LDS_BYTES == 4 * (MHA_DECODE_LDS_FLOATS(SENT_AT, CLUSTER, REAL_ROWS, DV) + RUNNING_FLOATS),
              "LDS_BYTES must be what decode_layout.h says of this kernel's macros");
static_assert(OUTPUTS_AT + LDS_WAVES * WAVE_OUTPUTS == QUERIES_AT, "queries follow the waves' outputs");
static_assert(ROW_AT(ROWS - 1) + DV <= WAVE_OUTPUTS, "a wave's last row ends within its outputs");
static_assert(4 * (CLUSTER > 1 ? SENT_OUTPUTS + QUADS * 4
                   : CLUSTER   ? SENT_AT + RUNNING_FLOATS
                               : STEPS_AT + MHA_DECODE_MAX_BATCH / 16 * 17) ==
                  LDS_BYTES,
              "the last thing in LDS ends where LDS does");

/* Keys and values of a step of MHA_DECODE_STEP tokens. */
struct stage {
    key_piece k[K_STEPS / KEY_STEPS][RFG_FRAG_AB];
    value_piece v[RFG_PV_TOKENS][PIECES];
#if TOKEN_SCALES
    rfg_u32 scales; /* a word of this lane's: decode_scales.h */
#endif
};

/* Where they are loaded to. */
#if RING
struct place {
    key_piece k[K_STEPS / KEY_STEPS][RFG_FRAG_AB] OF_LANES;
    value_place v[RFG_PV_TOKENS][PIECES];
#if TOKEN_SCALES
    rfg_u32 scales OF_LANES;
#endif
};
static_assert(D_SPLIT == 1 && !LOADS_LATE, "pairs of waves have other things in LDS");
static_assert(sizeof(struct place) == RFG_WAVE * STAGE_BYTES, "decode_layout.h says what a lane has of a step");
#else
#define place stage
#endif

/* A tile of queries. */
struct queries {
    rfg_frag_x x[K_STEPS];
#if SCALED_QUERIES
    float up[RFG_FRAG_WX_COLS]; /* what this lane's queries were divided by; SCALE_FMA: times the scores' scale */
#endif
#if SUBNORMALS
    float less[RFG_FRAG_WX_COLS]; /* what a zero of 1 takes from a score, negative */
#endif
};

/* A wave's partials: maxima, sums of probabilities (of this lane's tokens) and outputs. */
struct sums {
    float m[TILES][RFG_FRAG_WX_COLS], l[TILES][RFG_FRAG_WX_COLS];
    float o[TILES][BLOCKS][RFG_PV_O];
#if TOKEN_SCALES
    float v_top, v_down; /* the power of two that values' scales were divided by, and its reciprocal; 0: none yet */
#endif
};

#if ROW_OFFSETS
/* Pages of whole steps: the bytes from a step's first row, which is the same for all lanes, to each of this lane's
 * rows. */
struct offsets {
    rfg_u32 k[RFG_FRAG_AB], v[RFG_PV_TOKENS];
};
#endif

struct work_item {
    const char *k, *v; /* of the kv head: this lane's bytes of a row; ROW_OFFSETS: the row's first */
#if ROW_OFFSETS
    struct offsets at;
#endif
    const int *table;
    int block; /* without a table */
    int len;
    int b, head, row0;
    float scale;
#if D_SPLIT > 1
    int turn;
#endif
#if TOKEN_SCALES
    const char *scales; /* of the kv head, keys' or values' */
    int scale_stride[2];
#endif
};

/* Does memory have this lane's chunk of a key's k-th part? Where it does not, loads leave the stage as it is, zeroes
 * (PADDED_LOADS), or read the row's first chunk in its place. */
RFG_DEVICE bool is_key(int k, int i)
{
    return D_REAL == D || part_of() * D_PART + (4 * k + rfg_frag_chunk(i)) * (8 * KEY_STEPS) < D_REAL;
}
/* From this lane's chunk of the first part, in bytes. */
RFG_DEVICE int key_at(int k, int i)
{
    return PADDED_LOADS || is_key(k, i) ? k * BYTES_OF(32 * KEY_STEPS) : -(rfg_frag_chunk(i) * BYTES_OF(8 * KEY_STEPS));
}

RFG_DEVICE long long row_bytes(long long stride)
{
    return stride * KV_BYTES;
}

/* The block of a step; pages are whole steps. */
RFG_DEVICE int block_of(const struct mha_args *a, const struct work_item *it, int step)
{
    const int *entry = it->table + (RFG_PAGE_OF(step * MHA_DECODE_STEP, a->page_shift));
    return PAGED != 1 ? it->block : load_block(entry);
}

#if !ROW_OFFSETS && !WHOLE_STEPS
/* Rows of a step. */
struct rows {
    const char *first;
    int last; /* of the sequence: rows beyond it repeat it, their weight is 0 */
    rfg_u32 stride;
};
RFG_DEVICE struct rows rows_of(const struct mha_args *a, const struct work_item *it, const struct mha_cache *c,
                               const char *base, int block, int step)
{
    struct rows r;
    r.last = it->len - 1 - step * MHA_DECODE_STEP;
    r.stride = (rfg_u32)c->token * KV_BYTES;
    r.first = base;
    if (PAGED != 2) {
        int t = PAGED ? RFG_PAGE_ROW(step * MHA_DECODE_STEP, a->page_shift) : step * MHA_DECODE_STEP;
        r.first += block * row_bytes(c->block) + (rfg_u64)(rfg_u32)t * r.stride;
    }
    r.first = rfg_opaque_pointer(r.first);
    return r;
}
RFG_DEVICE const char *row_at(const struct mha_args *a, const struct work_item *it, const struct mha_cache *c,
                              const struct rows *r, int step, int row, bool on)
{
    row = row < r->last ? row : r->last;
    if (PAGED == 2) {
        int t = step * MHA_DECODE_STEP + row,
            block = on ? rfg_load4_global(it->table + RFG_PAGE_OF(t, a->page_shift)) : 0;
        return rfg_opaque_pointer(r->first + block * row_bytes(c->block) +
                                  (rfg_u64)(rfg_u32)RFG_PAGE_ROW(t, a->page_shift) * r->stride);
    }
    return rfg_opaque_pointer(r->first + (rfg_u64)(rfg_u32)row * r->stride);
}

/* A step's keys, if `on`. */
RFG_DEVICE void load_keys(const struct mha_args *a, const struct work_item *it, struct place *s, int block, int step,
                          bool on)
{
    if (!ALWAYS_LOADS && !on)
        return;
    struct rows r = rows_of(a, it, &a->k, it->k, block, step);
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++) {
        const char *p = row_at(a, it, &a->k, &r, step, rfg_frag_row(i), on) +
                        (rfg_frag_chunk(i) - rfg_frag_chunk(0)) * BYTES_OF(8 * KEY_STEPS);
#pragma unroll
        for (int k = 0; k < K_STEPS / KEY_STEPS; k++)
            load_key(&s->k[k][i] MINE, p + key_at(k, i), on && (!PADDED_LOADS || is_key(k, i)));
    }
}
RFG_DEVICE void load_values(const struct mha_args *a, const struct work_item *it, struct place *s, int block, int step,
                            bool on)
{
    if (!ALWAYS_LOADS && !on)
        return;
    struct rows r = rows_of(a, it, &a->v, it->v, block, step);
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i++)
        load_value(s->v[i], row_at(a, it, &a->v, &r, step, rfg_pv_token(i), on), on);
}
#endif

RFG_DEVICE bool is_masked(const struct mha_args *a, const struct work_item *it, int token, int row)
{
    int at = it->len - SQ + row / GROUP;
    return token >= it->len || (MASK && (token - at > a->window_right || at - token > a->window_left));
}
/* A score as a power of two's exponent: capped, with its slope, masked. */
RFG_DEVICE float score(const struct mha_args *a, const struct work_item *it, float s, int token, int row, bool masks)
{
    int query = row / GROUP, at = it->len - SQ + query, head = it->head * GROUP + row % GROUP;
    if (CAP) {
        float x = s * it->scale / a->soft_cap; /* tanh */
        s = a->soft_cap * LOG2_E * (1.0f - 2.0f * rfg_rcp(1.0f + rfg_exp2(x * (2 * LOG2_E))));
    } else {
        s *= it->scale * LOG2_E;
    }
    if (ALIBI) {
        int far = at > token ? at - token : token - at;
        s -= rfg_as_float(rfg_load4(a->alibi + (head < a->hq ? head : 0))) * LOG2_E * (float)far;
    }
    if (masks && is_masked(a, it, token, row))
        s = MINUS_INFINITY;
    return s;
}
/* What a product is multiplied by to be a score; SCALE_FMA. */
#if SCALED_QUERIES
#define UP(t, i) q[t].up[(i) % RFG_FRAG_WX_COLS]
#else
#define UP(t, i) it->scale
#endif

/* 8 elements of a query. */
#if KV_ALIGN < 16
RFG_DEVICE rfg_u32x4 load_query(const rfg_u16 *p)
{
    rfg_u32x4 v;
    v.x = rfg_load4(p);
    v.y = rfg_load4(p + 2);
    v.z = rfg_load4(p + 4);
    v.w = rfg_load4(p + 6);
    return v;
}
#else
#define load_query rfg_load16
#endif

RFG_DEVICE void convert_queries(const struct work_item *it, struct queries *q)
{
#if SCALED_QUERIES
    /* fp16 has all of bf16's digits, but not its range: the queries of a row are divided by the power of two that
     * brings their largest to 1...2, and its scores are multiplied by it. What is less than 2^-24 of the largest is
     * lost. */
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
    largest = rfg_frag_x_max(largest);
    rfg_u32 exponent = rfg_as_u32(largest) >> 23;
    exponent = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;
    float down = rfg_as_float((254 - exponent) << 23);
    rfg_frag_x_to_cols(q->up, rfg_as_float(exponent << 23) * (SCALE_FMA ? it->scale : 1.0f));
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++) {
            float f[8];
            rfg_unpack(f, q->x[k].v[i], DTYPE);
            q->x[k].v[i].x = rfg_pack_operand(f[0] * down, f[1] * down, MMA_DTYPE);
            q->x[k].v[i].y = rfg_pack_operand(f[2] * down, f[3] * down, MMA_DTYPE);
            q->x[k].v[i].z = rfg_pack_operand(f[4] * down, f[5] * down, MMA_DTYPE);
            q->x[k].v[i].w = rfg_pack_operand(f[6] * down, f[7] * down, MMA_DTYPE);
        }
#endif
#if SUBNORMALS
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        float f[8];
        rfg_unpack(f, q->x[k].v[0], MMA_DTYPE);
#pragma unroll
        for (int e = 0; e < 8; e++)
            sum += f[e];
    }
    rfg_frag_x_to_cols(q->less, -rfg_frag_x_sum(sum));
#endif
#if KV_I4
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
            q->x[k].v[i] = as_i4_keys(q->x[k].v[i]);
#endif
#if !KV_I4 && !SCALED_QUERIES
    (void)it, (void)q;
#endif
}

#if TOKEN_SCALES
#include "mha/decode/decode_scales.h"
#define STEP_SCALES            const struct step_scales *scales,
#define PASS_SCALES(scales)    scales,
#define V_EXCEEDS(acc, scales) v_exceeds(acc, scales)
#else
#define STEP_SCALES
#define PASS_SCALES(scales)
#define V_EXCEEDS(acc, scales)                 false
#define load_scales(a, it, s, block, step, on) ((void)0)
#endif
#if SUBNORMALS
#define KEY_OF(k, step, i) key_of(k, step, 0)
#define VALUES_OF(v, in)   values_of(v, in, scales.v_zero)
#elif KV_I4
#define KEY_OF(k, step, i) key_of(k, step, scales.k_zero[i])
#define VALUES_OF(v, in)   values_of(v, in, scales.v_zero)
#elif KV_INTS
#define KEY_OF(k, step, i) key_of(k, step, 0)
#define VALUES_OF(v, in)   values_of(v, in)
#else
#define KEY_OF(k, step, i) key_of(k, step)
#define VALUES_OF(v, in)   values_of(v, in)
#endif
