/* SPDX-License-Identifier: MIT
 *
 * mla_decode: the algorithm of all GPU kernels. Included by tile_mma.hip (matrix cores) and portable.hip (FMA), which
 * define, before: ACC (sums of a thread), and after what is declared below: multiply_keys(), add_values(), acc_row(),
 * store_out(), struct queries and load_queries().
 *
 * A work item is a sequence and ROWS rows, a row being a query and a head: all heads share the keys. A step is KEYS
 * keys. Their rows are copied to LDS once, and are both keys (all D elements) and values (the first DV):
 *
 *   1. scores[part][row][key], by waves that divide keys and D among them
 *   2. softmax: KEYS / 2 threads a row, two keys a thread; weights, and what older sums are scaled down by
 *   3. each wave adds its share of the values' elements, for all rows and keys
 *
 * A sequence's steps make segments by its length alone (mla_layout.h). Each segment has sums of its own, which are
 * combined in the order of the segments: by the workgroup that goes through all of them (groups_y 1), or out of the
 * workspace by the last of groups_y workgroups to arrive. The bits are the same. Nor do they depend on ROWS: all that
 * is done to a row depends on that row alone.
 *
 * Bytes bind up to about 16 rows on Hopper (32 B a ns and CU; a step of 64 keys is 74 KB and 2.3 us of memory's time, 0.5
 * us of mma.sync's) and 64 on MI300X (17 B a ns; 32 keys are 2.1 us, MFMA 0.26 us for 16 rows). So loads of the next
 * steps are always under way: STAGES tiles by asynchronous copies, or (STAGES 0) one tile, and the next one in registers.
 * Rows of codes (RAW) are copied as they are, and decoded from there to the one tile.
 *
 * Macros: DTYPE (q, out), KV_DTYPE, FORMAT, D, DV, ROWS, KEYS, WAVES, STAGES, PARTS_OF_D, Q_ROWS (rows of queries in
 * LDS, or 0), WIDE (q and rows of kv are aligned to 16 bytes), CAP, POSITIONS, SINK_DTYPE (if not f32), ACC, LDS_BYTES. */
#include "mha/mla/mla_format.h"
#include "mha/mla/mla_item.h"
#define SCALED 0 /* scores and sums are scaled instead */
#include "mha/mla/mla_rows.h"

#define THREADS    (WAVES * RFG_WAVE)
#define ROW_CHUNKS MLA_ROW_CHUNKS(D)
#define LANES      (KEYS / 2)        /* threads of a row in softmax */
#define AT_ONCE    (THREADS / LANES) /* rows */
#define PASSES     (ROWS / AT_ONCE)
#define SCORE_ROW  MLA_SCORE_ROW(KEYS)
#define WEIGHT_ROW MLA_WEIGHT_ROW(KEYS)
#define RAW        (STAGES && RFG_DTYPE_BYTES(KV_DTYPE) == 1) /* rows are decoded out of LDS */
#define RAW_ROW    MLA_RAW_PIECES(FORMAT, D)
#define TILES      MLA_TILES(STAGES, RAW)
#define SCORES_AT  MLA_SCORES_AT(TILES, KEYS, D, Q_ROWS)
#define WEIGHTS_AT MLA_WEIGHTS_AT(TILES, KEYS, D, Q_ROWS, PARTS_OF_D, ROWS)
#define FACTORS_AT MLA_FACTORS_AT(TILES, KEYS, D, Q_ROWS, PARTS_OF_D, ROWS, SCALAR)
#define RAW_AT     (FACTORS_AT + ROWS * 4)
#define COPY_ROWS  (KEYS * 8 / THREADS) /* rows of a step that a thread copies an eighth of */
static_assert(LDS_BYTES ==
                  4 * MLA_LDS_FLOATS(TILES, KEYS, D, Q_ROWS, PARTS_OF_D, ROWS, SCALAR, RAW ? STAGES *KEYS *RAW_ROW : 0),
              "mla_layout.h");
static_assert(PASSES * AT_ONCE == ROWS && LANES <= RFG_WAVE, "softmax has a thread for each pair of keys");
static_assert(COPY_ROWS * THREADS == KEYS * 8, "eight threads copy a row");
static_assert(PARTS_OF_D * ROWS * SCORE_ROW >= MLA_SEGMENTS * ROWS * 2, "scores leave room for all segments' factors");

/* What a thread knows of its rows: each of a row's LANES threads the same but l, the sum of its own keys' weights. */
struct softmax {
    float m[PASSES], l[PASSES];
};

struct sums {
    float o[ACC];
};

/* ---- what tile_mma.hip and portable.hip have ---------------------------------------------------------------------- */

struct queries;
RFG_DEVICE void load_queries(const struct mla_args *a, const struct work_item *it, float *lds, struct queries *q);
RFG_DEVICE void multiply_keys(const struct work_item *it, const struct queries *q, const rfg_u32x4 *tile, float *lds);
RFG_DEVICE void add_values(const struct work_item *it, struct sums *acc, const rfg_u32x4 *tile, const float *lds);
RFG_DEVICE int acc_row(int i);
RFG_DEVICE void store_out(const struct mla_args *a, const struct work_item *it, const struct sums *acc,
                          const float *lds);

/* ---- the work item ------------------------------------------------------------------------------------------------ */

/* The item's segments. */
RFG_DEVICE void divide_item(struct work_item *it)
{
    it->steps = (it->len - 1) / KEYS + 1;
    if (it->len == 0)
        it->steps = 0;
    it->each = MLA_EACH(it->steps, KEYS);
    it->segments = it->steps ? (it->steps - 1) / it->each + 1 : 1; /* none: a row of zeroes is still stored */
}

/* Chunk c, of 8 elements, of row r of queries; zeroes where there is none. */
RFG_DEVICE rfg_u32x4 query_chunk(const struct mla_args *a, const struct work_item *it, int r, int c)
{
    rfg_u32x4 v = { 0, 0, 0, 0 };
    if (it->row0 + r >= it->rows || c >= D / 8)
        return v;
    const struct mla_rows *t = c < DV / 8 ? &a->q : &a->q_rope;
    const rfg_u16 *p = (const rfg_u16 *)t->data + row_at(a, it, t, r) + (c < DV / 8 ? c : c - DV / 8) * 8;
    if (WIDE)
        return rfg_load16(p);
    rfg_u32 w[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = rfg_load2(p + 2 * i) | (rfg_u32)rfg_load2(p + 2 * i + 1) << 16;
    v.x = w[0];
    v.y = w[1];
    v.z = w[2];
    v.w = w[3];
    return v;
}

/* ---- copying a step's rows to LDS --------------------------------------------------------------------------------- */

/* Where chunk c of a row of keys (or queries) is: so that eights are a distance, which instructions hold. */
RFG_DEVICE int chunk_at(int row, int c)
{
    return row * ROW_CHUNKS + ((c & 7) ^ rfg_latent_swizzle(row)) + (c & ~7);
}

/* The n-th step that a workgroup goes through: those of segments part, part + parts, ... */
struct cursor {
    int step, left; /* left: of the segment */
};
RFG_DEVICE void advance(struct cursor *c, const struct work_item *it, int parts)
{
    c->step++;
    if (--c->left == 0) {
        c->step += (parts - 1) * it->each;
        c->left = it->each;
    }
}

/* This thread's rows of a step, and the blocks that hold them. Rows past the sequence's end repeat its last one. */
RFG_DEVICE int copied_key(const struct work_item *it, int step, int i)
{
    int key = step * KEYS + i * (THREADS / 8) + rfg_thread() / 8;
    return key < it->len ? key : it->len - 1;
}
RFG_DEVICE void find_blocks(const struct mla_args *a, const struct work_item *it, int step, int *block)
{
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++) {
        block[i] = it->b;
        if (a->table && step < it->steps)
            block[i] =
                within_i32((int)rfg_load4(it->table + (copied_key(it, step, i) >> a->page_shift)), 0, a->blocks - 1);
    }
}
RFG_DEVICE int row_of_block(const struct mla_args *a, const struct work_item *it, int step, int i)
{
    int key = copied_key(it, step, i);
    return a->table ? key & ((1 << a->page_shift) - 1) : key;
}
RFG_DEVICE const char *copied_row(const struct mla_args *a, const struct work_item *it, int step, int i, int block)
{
    return (const char *)a->kv + (block * a->kv_block + row_of_block(a, it, step, i) * a->kv_row) * KV_BYTES;
}
RFG_DEVICE const char *scales_of_row(const struct mla_args *a, const struct work_item *it, int step, int i, int block,
                                     const char *row)
{
    return FORMAT == MLA_V4 ? (const char *)a->kv + block * a->kv_block + a->scales_at +
                                  row_of_block(a, it, step, i) * MLA_V4_SCALE_BYTES
                            : row + MLA_V32_SCALES_AT;
}

#if RAW
/* Asynchronous copies of rows as they are. A row's scales are copied by one thread. */
RFG_DEVICE void copy_step(const struct mla_args *a, const struct work_item *it, rfg_u32x4 *raw, int step,
                          const int *block)
{
    int lane = rfg_thread() % 8;
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++) {
        const char *row = copied_row(a, it, step, i, block[i]);
        rfg_u32x4 *to = raw + (i * (THREADS / 8) + rfg_thread() / 8) * RAW_ROW;
#pragma unroll
        for (int k = 0; k < COPY_CHUNKS; k++)
            if (has_piece(k, lane))
                rfg_async_copy16(to + k * 8 + lane, row + (k * 8 + lane) * 16, true);
#if FORMAT != MLA_PLAIN
        const char *scales = scales_of_row(a, it, step, i, block[i], row);
        rfg_async_copy16(to + ROW_PIECES + lane, row + MLA_ROTATED_AT(FORMAT) + lane * 16, true);
        rfg_u32x4 *scales_to = to + ROW_PIECES + MLA_ROTATED / 8;
        if (FORMAT == MLA_V32 && lane == 0)
            rfg_async_copy16(scales_to, scales, true);
        if (FORMAT == MLA_V4 && lane < 2)
            rfg_async_copy4_at(rfg_lds_address((rfg_u32 *)scales_to + lane), scales + lane * 4, true);
#endif
    }
}
RFG_DEVICE void decode_step(const rfg_u32x4 *raw, rfg_u32x4 *tile)
{
    int lane = rfg_thread() % 8;
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++) {
        int row = i * (THREADS / 8) + rfg_thread() / 8;
        const rfg_u32x4 *from = raw + row * RAW_ROW;
        struct row_pieces pieces;
#pragma unroll
        for (int k = 0; k < COPY_CHUNKS; k++)
            if (has_piece(k, lane))
                pieces.v[k] = from[k * 8 + lane];
#if FORMAT != MLA_PLAIN
        pieces.rotated = from[ROW_PIECES + lane];
        pieces.scales = from[ROW_PIECES + MLA_ROTATED / 8];
#endif
#pragma unroll
        for (int n = 0; n < GIVEN; n++) {
            int c = given_chunk(n, lane);
            if (c >= 0)
                tile[chunk_at(row, c)] = give_chunk(&pieces, n, lane, 1.0f);
        }
    }
}
#elif STAGES
/* Asynchronous copies to tile `at`. */
RFG_DEVICE void copy_step(const struct mla_args *a, const struct work_item *it, rfg_u32x4 *tile, int step,
                          const int *block)
{
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++) {
        const char *row = copied_row(a, it, step, i, block[i]);
#pragma unroll
        for (int k = 0; k < COPY_CHUNKS; k++) {
            int c = k * 8 + rfg_thread() % 8;
            if (has_piece(k, rfg_thread() % 8))
                rfg_async_copy16(tile + chunk_at(i * (THREADS / 8) + rfg_thread() / 8, c), row + c * 16, true);
        }
    }
}
#else
struct staged {
    struct row_pieces v[COPY_ROWS];
};
RFG_DEVICE void load_step(const struct mla_args *a, const struct work_item *it, struct staged *s, int step,
                          const int *block)
{
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++) {
        const char *row = copied_row(a, it, step, i, block[i]);
        load_row(&s->v[i], row, scales_of_row(a, it, step, i, block[i], row), rfg_thread() % 8);
    }
}
RFG_DEVICE void write_step(const struct staged *s, rfg_u32x4 *tile)
{
    int lane = rfg_thread() % 8;
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++)
#pragma unroll
        for (int n = 0; n < GIVEN; n++) {
            int c = given_chunk(n, lane);
            if (c >= 0)
                tile[chunk_at(i * (THREADS / 8) + rfg_thread() / 8, c)] = give_chunk(&s->v[i], n, lane, 1.0f);
        }
}
#endif

/* ---- softmax ------------------------------------------------------------------------------------------------------ */

/* The row of a pass that this thread is one of LANES of, and its keys of a step: 2 key() and the next. */
RFG_DEVICE int softmax_row(int pass)
{
    return pass * AT_ONCE + rfg_thread() / LANES;
}
RFG_DEVICE int softmax_pair(void)
{
    return rfg_thread() % LANES;
}

RFG_DEVICE float score(const struct mla_args *a, const struct work_item *it, float s, bool seen)
{
    s *= it->scale;
    if (CAP) /* by tanh x = 1 - 2 / (1 + exp 2x) */
        s = a->soft_cap * LOG2_E * (1.0f - 2.0f * rfg_rcp(1.0f + rfg_exp2(s / a->soft_cap * (2 * LOG2_E))));
    return seen ? s : MINUS_INFINITY;
}

/* The weights of the step that begins at key `first`, and factors[row]: what the rows' sums are scaled down by. */
RFG_DEVICE void softmax_step(const struct mla_args *a, const struct work_item *it, struct softmax *st, float *lds,
                             int first)
{
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
        int r = softmax_row(p), key = first + 2 * softmax_pair();
        float *s = lds + SCORES_AT + r * SCORE_ROW + 2 * softmax_pair();
        float s0 = s[0], s1 = s[1];
#pragma unroll
        for (int i = 1; i < PARTS_OF_D; i++) {
            s0 += s[i * ROWS * SCORE_ROW];
            s1 += s[i * ROWS * SCORE_ROW + 1];
        }
        int end = it->len;
        if (a->causal)
            end = keys_seen(a, it, row_of(it, r) / a->hq);
        s0 = score(a, it, s0, key < end);
        s1 = score(a, it, s1, key + 1 < end);
        float most = rfg_reduce_lanes(rfg_max(s0, s1), LANES, true), m = st->m[p];
        m = most > m + SLACK ? most : m; /* what weights are relative to need not be the largest score, only near it */
        float down = rfg_exp2(st->m[p] - m), w0 = rfg_exp2(s0 - m), w1 = rfg_exp2(s1 - m);
        st->m[p] = m;
        st->l[p] = rfg_fma(st->l[p], down, w0 + w1);
        if (SCALAR) {
            s[0] = w0;
            s[1] = w1;
        } else {
            lds[WEIGHTS_AT + r * WEIGHT_ROW + softmax_pair()] = rfg_as_float(rfg_pack_operand(w0, w1, DTYPE));
        }
        if (softmax_pair() == 0)
            lds[FACTORS_AT + r] = down;
    }
}

/* ---- segments ----------------------------------------------------------------------------------------------------- */

RFG_DEVICE void begin_rows(struct softmax *st)
{
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
        st->m[p] = LOWEST;
        st->l[p] = 0.0f;
    }
}
RFG_DEVICE void begin_sums(struct sums *acc)
{
#pragma unroll
    for (int i = 0; i < ACC; i++)
        acc->o[i] = 0.0f;
}

/* A row of a segment (m, l) added to those before it: what the sums of both are multiplied by. */
RFG_DEVICE void combine_row(float *all_m, float *all_l, float m, float l, float *factors)
{
    float top = rfg_max(*all_m, m), before = rfg_exp2(*all_m - top), mine = rfg_exp2(m - top);
    *all_l = rfg_fma(*all_l, before, l * mine);
    *all_m = top;
    factors[0] = before;
    factors[1] = mine;
}
RFG_DEVICE void combine_sums(struct sums *all, const float *o, const float *factors)
{
#pragma unroll
    for (int i = 0; i < ACC; i++) {
        const float *f = factors + acc_row(i) * 2;
        all->o[i] = rfg_fma(all->o[i], f[0], o[i] * f[1]);
    }
}

/* A segment's sums are added to `all`. */
RFG_DEVICE void close_segment(float *lds, struct softmax *all_rows, struct sums *all, const struct softmax *st,
                              const struct sums *acc)
{
    float *factors = lds + SCORES_AT;
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
        float f[2], l = rfg_reduce_lanes(st->l[p], LANES, false);
        combine_row(&all_rows->m[p], &all_rows->l[p], st->m[p], l, f);
        if (softmax_pair() < 2)
            factors[softmax_row(p) * 2 + softmax_pair()] = softmax_pair() ? f[1] : f[0];
    }
    rfg_barrier_lds();
    combine_sums(all, acc->o, factors);
}

/* Or written to its place in the workspace. */
RFG_DEVICE void write_segment(float *slot, const struct softmax *st, const struct sums *acc)
{
#pragma unroll
    for (int i = 0; i < ACC; i += 4) {
        rfg_f32x4 v = { acc->o[i], acc->o[i + 1], acc->o[i + 2], acc->o[i + 3] };
        rfg_store_f32x4(slot + (i / 4 * THREADS + rfg_thread()) * 4, v);
    }
    slot += THREADS * ACC;
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
        float l = rfg_reduce_lanes(st->l[p], LANES, false);
        if (softmax_pair() == 0) {
            rfg_store4(slot + softmax_row(p) * 2, rfg_as_u32(st->m[p]));
            rfg_store4(slot + softmax_row(p) * 2 + 1, rfg_as_u32(l));
        }
    }
}

/* All segments, out of the workspace, in their order. */
#define SLOTS_AT_ONCE (ACC <= 32 ? 2 : 1)
RFG_DEVICE void combine_segments(float *lds, const float *slots, int n, struct softmax *all_rows, struct sums *all)
{
    float *factors = lds + SCORES_AT;
    const int slot = MLA_SLOT_FLOATS(THREADS, ACC, ROWS);
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
        int r = softmax_row(p);
#pragma unroll 4
        for (int s = 0; s < n; s++) {
            const float *ml = slots + (long long)s * slot + THREADS * ACC + r * 2;
            float f[2], m = rfg_as_float(rfg_load4(ml)), l = rfg_as_float(rfg_load4(ml + 1));
            combine_row(&all_rows->m[p], &all_rows->l[p], m, l, f);
            if (softmax_pair() < 2)
                factors[(s * ROWS + r) * 2 + softmax_pair()] = softmax_pair() ? f[1] : f[0];
        }
    }
    rfg_barrier_lds();
#pragma unroll 1
    for (int s = 0; s < n; s += SLOTS_AT_ONCE) {
        float o[SLOTS_AT_ONCE][ACC];
#pragma unroll
        for (int k = 0; k < SLOTS_AT_ONCE; k++)
#pragma unroll
            for (int i = 0; i < ACC; i += 4) {
                int at = s + k < n ? s + k : n - 1;
                rfg_f32x4 v = rfg_load_f32x4(slots + (long long)at * slot + (i / 4 * THREADS + rfg_thread()) * 4);
                o[k][i] = v.x;
                o[k][i + 1] = v.y;
                o[k][i + 2] = v.z;
                o[k][i + 3] = v.w;
            }
#pragma unroll
        for (int k = 0; k < SLOTS_AT_ONCE; k++)
            if (s + k < n)
                combine_sums(all, o[k], factors + (s + k) * ROWS * 2);
    }
}

/* lse, and factors[row]: what the row's sums are multiplied by to be the output. */
RFG_DEVICE void finish_rows(const struct mla_args *a, const struct work_item *it, float *lds, const struct softmax *all)
{
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
        int r = softmax_row(p);
        float factor = finish_row(a, it, r, all->m[p], all->l[p], softmax_pair() == 0);
        if (softmax_pair() == 0)
            lds[FACTORS_AT + r] = factor;
    }
    rfg_barrier_lds();
}
