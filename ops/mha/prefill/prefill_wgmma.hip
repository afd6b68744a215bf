/* SPDX-License-Identifier: MIT
 *
 * Attention of many queries a sequence on Hopper's asynchronous matrix instructions, as FlashAttention-3 (Shah et al.,
 * 2024) has it: warpgroups of 64 queries each multiply, another one copies keys and values, TILE_KV at a time, into
 * rings of STAGES tiles in LDS. A warpgroup's products for the scores of the next tile and for the output of this one
 * run while it computes the softmax; two warpgroups take turns, so that one's softmax runs under the other's products.
 *
 * Workgroups are persistent: each goes through every grid-th tile of queries, back and forth, so that the tiles with
 * the most keys, which come first, are evenly shared, and the queries and keys of the next tile are under way while
 * this one's output is stored. Or a cluster of PARTS workgroups works on a tile, each on its share of the keys; they
 * combine their partials in LDS.
 *
 * Macros: DTYPE; D (a multiple of 16), DV (a width of wg_values()) and D_REAL, DV_REAL (mha_device.h); GROUPS: warpgroups that multiply (1 to 3); TILE_KV (64, 128); STAGES; Q_STAGES: tiles of
 * queries in LDS (1, 2); PARTS (1 to 16); PACK, MASK, CAP, ALIBI, PAGED: as in prefill_kernel.h. Grid: PARTS 1: any
 * number; else PARTS for each tile. LDS: LDS_BYTES, as prefill_layout.h has it. Pointers, strides: whole multiples of
 * 16 bytes. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/prefill/prefill_layout.h"

#define WAVES      (4 * GROUPS)
#define FRAGS_Q    1
#define WG_COLUMNS DV
#include "mha/prefill/prefill_item.h"
#include "mha/prefill/prefill_softmax.h"
/* Rows that lack a chunk of what the kernel pads them to, and begin in the middle of a sector of 32 bytes: they lie a
 * chunk further on in LDS, so that a sector stays together. */
#define SHIFTS(d, real) ((d) - (real) >= 8)
RFG_DEVICE int columns_before(const struct mha_args *a, const struct work_item *p);
#define SKIPPED(a, p) (SHIFTS(DV, DV_REAL) ? columns_before(a, p) : 0)
#include "mha/prefill/prefill_nvidia.h"
#include "mha/prefill/wgmma_frag.h"

#define COPIERS  128
#define K_BLOCKS MHA_WGMMA_BLOCKS(D)
#define V_BLOCKS MHA_WGMMA_BLOCKS(DV)
#define BLOCK    (TILE_KV * 128) /* bytes: a tile's rows of 64 elements */
#define Q_BLOCK  (64 * 128)

/* LDS in bytes: prefill_layout.h. */
#define Q_BEGIN MHA_WGMMA_Q_BEGIN
#define Q_TILE  MHA_WGMMA_Q_BYTES(GROUPS, D)
#define K_BEGIN (Q_BEGIN + Q_STAGES * Q_TILE)
#define V_BEGIN (K_BEGIN + MHA_WGMMA_RING_BYTES(STAGES, TILE_KV, D))
#define LDS_END (V_BEGIN + MHA_WGMMA_RING_BYTES(STAGES, TILE_KV, DV))
struct barriers {
    rfg_u64 q_full[Q_STAGES], q_empty[Q_STAGES];
    rfg_u64 k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
};
static_assert(sizeof(struct barriers) <= Q_BEGIN, "queries follow the barriers");
static_assert(STAGES * V_BLOCKS * BLOCK == LDS_END - V_BEGIN && GROUPS * K_BLOCKS * Q_BLOCK == Q_TILE,
              "tiles are blocks of 64 columns");

/* The i-th tile of queries that a workgroup goes through. */
RFG_DEVICE int tile_of(int i)
{
    int clusters = rfg_groups_x(0) / PARTS, mine = rfg_group_x() / PARTS;
    return i * clusters + (i & 1 ? clusters - 1 - mine : mine);
}
RFG_DEVICE int tiles_of(const struct mha_args *a)
{
    int group = a->hq / a->hkv;
    long long rows = (long long)a->sq * (PACK ? group : 1);
    return (int)((rows + TILE_Q - 1) / TILE_Q) * a->batch * a->hkv * (PACK ? 1 : group);
}

/* Keys that any query of the tile sees, begin at a multiple of TILE_KV. */
struct span {
    int begin, end;
};
RFG_DEVICE struct span span_of(const struct mha_args *a, const struct work_item *p)
{
    int last_row = (p->row0 + TILE_Q < p->rows ? p->row0 + TILE_Q : p->rows) - 1;
    struct seen first = seen_by(a, p, query_of(p, p->row0)), last = seen_by(a, p, query_of(p, last_row));
    struct span s = { first.first / TILE_KV * TILE_KV, last.first + last.count };
    if (first.first + first.count > s.end) /* queries that see nothing have no end */
        s.end = first.first + first.count;
    if (PARTS > 1 && s.begin < s.end) {
        int part = rfg_group_x() % PARTS, tiles = (s.end - s.begin - 1) / TILE_KV + 1;
        int upto = s.begin + rfg_share_begin(tiles, part + 1, PARTS) * TILE_KV;
        s.begin += rfg_share_begin(tiles, part, PARTS) * TILE_KV;
        s.end = s.end < upto ? s.end : upto;
    }
    if (p->skv <= 0)
        s.end = s.begin;
    return s;
}

/* ---- copies ---------------------------------------------------------------------------------------------------- */

/* Neighbouring threads have neighbouring chunks, LANES of a row's first CHUNKS; a wave has rows ROWS * wave +
 * lane / LANES of each PASS. Lane l knows where the l-th of all rows is that the wave has of a tile. The last two chunks
 * of 80 elements come after: copy_rest(). */
#define CHUNKS(d)                                                                                                      \
    ((d) % 64 == 0 || (d) == 96 ? (d) / 8 : (d) < 64 || (d) == 80 ? 8 : (d) < 128 ? 16 : ((d) + 63) / 64 * 8)
#define LANES(chunks) ((chunks) % 32 == 0 ? 32 : (chunks) % 16 == 0 ? 16 : (chunks) % 8 == 0 ? 8 : 4)
#define ROWS(chunks)  (RFG_WAVE / LANES(chunks))
#define PASS(chunks)  (COPIERS / LANES(chunks))

struct source {
    const char *data;       /* row 0 of the sequence's head; paged: of block 0 */
    long long token, block; /* bytes */
};
RFG_DEVICE struct source source_of(const struct mha_args *a, const struct mha_cache *c, const struct work_item *p)
{
    struct source s;
    long long b = PAGED || a->kv_begin ? 0 : p->b;
    s.data = (const char *)c->data + 2 * (b * c->block + p->kv_row * c->token + p->kv_head * c->head);
    s.token = 2 * c->token;
    s.block = 2 * c->block;
    return s;
}

/* Where a row is: keys beyond the last one are that one again: they are masked, and what they hold is a number if the
 * last one's is. */
struct row {
    int block, at; /* not paged: 0 and the key */
};
/* The one that this lane knows of. */
RFG_DEVICE struct row my_row(const struct mha_args *a, const struct work_item *p, int key0, int thread, int chunks)
{
    int lane = thread % RFG_WAVE;
    int key = key0 + lane / ROWS(chunks) * PASS(chunks) + thread / RFG_WAVE * ROWS(chunks) + lane % ROWS(chunks);
    key = key < p->skv ? key : p->skv - 1;
    struct row r = { 0, key };
#if PAGED
    r.block = (int)rfg_load4(a->block_table + p->b * a->table_stride + RFG_PAGE_OF(key, a->page_shift));
    r.at = RFG_PAGE_ROW(key, a->page_shift);
#endif
    return r;
}

/* 1: such rows begin in the middle of a sector. */
RFG_DEVICE int shift_of(const char *data)
{
    return (int)((rfg_u64)data >> 4 & 1);
}

/* Of the output, those that stand for nothing. */
RFG_DEVICE int columns_before(const struct mha_args *a, const struct work_item *p)
{
    return 8 * shift_of(source_of(a, &a->v, p).data);
}

#define IN_MEMORY(chunk) (real == padded || (rfg_u32)((chunk)-shift) < (rfg_u32)real)
/* The chunks of rows from `first` on, of `padded`. known: my_row()'s. */
RFG_DEVICE void copy_rest(const struct source *s, rfg_u32 to, int key0, int thread, int first, int padded, int real,
                          int shift, bool whole, const char *known)
{
    int rest = padded - first, lanes = rest % 4 ? 2 : 4, rows = RFG_WAVE / lanes, lane = thread % RFG_WAVE;
    int at = lane / lanes, c = first + lane % lanes;
    int row = at / ROWS(first) * PASS(first) + thread / RFG_WAVE * ROWS(first) + at % ROWS(first);
    const char *from = s->data + (key0 + row) * s->token - shift * 16;
#pragma unroll
    for (int i = 0; i < TILE_KV / 4 / rows; i++) {
        if (!whole)
            from = (const char *)__shfl_sync(0xffffffffu, (rfg_u64)known, i * rows + at);
#pragma unroll
        for (int part = 0; part < rest / lanes; part++) {
            int chunk = c + part * lanes;
            rfg_async_copy16_at(to + (rfg_u32)(chunk / 8 * BLOCK) + rfg_wg_at(row + i * (4 * rows), chunk % 8),
                                from + chunk * 16, IN_MEMORY(chunk), false);
        }
        if (whole)
            from += 4 * rows * s->token;
    }
}

/* Rows of `padded` chunks, of which memory has `real`: what it lacks is copied as 0. */
RFG_DEVICE void copy_rows(const struct source *s, const struct work_item *p, rfg_u32 to, int key0, int thread,
                          int chunks, int padded, int real, struct row mine)
{
    int lane = thread % RFG_WAVE, row = thread / LANES(chunks), c = thread % LANES(chunks);
    int shift = SHIFTS(8 * padded, 8 * real) ? shift_of(s->data) : 0;
    if (padded < LANES(chunks)) /* the others copy the last one, too */
        c = c < padded ? c : padded - 1;
    bool whole = !PAGED && key0 + TILE_KV <= p->skv;
    const char *first = s->data + (key0 + row) * s->token + (c - shift) * 16;
    const char *known = s->data + mine.block * s->block + mine.at * s->token - shift * 16;
    if (padded > chunks)
        copy_rest(s, to, key0, thread, chunks, padded, real, shift, whole, known);
    if (whole) {
#pragma unroll
        for (int i = 0; i < TILE_KV / PASS(chunks); i++) {
#pragma unroll
            for (int part = 0; part < chunks / LANES(chunks); part++) {
                int chunk = c + part * LANES(chunks);
                if (padded >= chunks || padded < LANES(chunks) || chunk < padded)
                    rfg_async_copy16_at(to + (rfg_u32)(chunk / 8 * BLOCK) +
                                            rfg_wg_at(row + i * PASS(chunks), chunk % 8),
                                        first + part * LANES(chunks) * 16, IN_MEMORY(chunk), false);
            }
            first += PASS(chunks) * s->token;
        }
    } else {
#pragma unroll
        for (int i = 0; i < TILE_KV / PASS(chunks); i++) {
            const char *from =
                (const char *)__shfl_sync(0xffffffffu, (rfg_u64)known, i * ROWS(chunks) + lane / LANES(chunks));
#pragma unroll
            for (int part = 0; part < chunks / LANES(chunks); part++) {
                int chunk = c + part * LANES(chunks);
                if (padded >= chunks || padded < LANES(chunks) || chunk < padded)
                    rfg_async_copy16_at(to + (rfg_u32)(chunk / 8 * BLOCK) +
                                            rfg_wg_at(row + i * PASS(chunks), chunk % 8),
                                        from + chunk * 16, IN_MEMORY(chunk), false);
            }
        }
    }
}

/* shift: as the keys'. */
RFG_DEVICE void copy_queries(const struct mha_args *a, const struct work_item *p, rfg_u32 to, int thread, int shift)
{
#pragma unroll 1
    for (int i = thread; i < TILE_Q * (D / 8); i += COPIERS) {
        int row = i / (D / 8), c = i % (D / 8), at = p->row0 + row;
        rfg_async_copy16_at(to + (rfg_u32)((row / 64 * K_BLOCKS + c / 8) * Q_BLOCK) + rfg_wg_at(row % 64, c % 8),
                            element_of(a, &a->q, p, at < p->rows ? at : p->rows - 1) + (c - shift) * 8,
                            D_REAL == D || (rfg_u32)(c - shift) < D_REAL / 8, false);
    }
}

RFG_DEVICE void copy_all(const struct mha_args *a, struct barriers *m, char *lds, int thread)
{
    struct rfg_stage s = { 0, 0 }, sq = { 0, 0 };
    rfg_u32 base = rfg_lds_address(lds);
    int tiles = tiles_of(a);
#pragma unroll 1
    for (int i = 0, tile; (tile = tile_of(i)) < tiles; i++) {
        struct work_item p;
        if (!find_item(a, &p, tile))
            continue;
        struct span span = span_of(a, &p);
        if (span.begin >= span.end)
            continue;
        struct source k = source_of(a, &a->k, &p), v = source_of(a, &a->v, &p);
        struct row next_k = my_row(a, &p, span.begin, thread, CHUNKS(D)),
                   next_v = my_row(a, &p, span.begin, thread, CHUNKS(DV));
        rfg_arrival_wait(m->q_empty + sq.at, sq.odd ^ 1);
        copy_queries(a, &p, base + Q_BEGIN + (rfg_u32)(sq.at * Q_TILE), thread,
                     SHIFTS(D, D_REAL) ? shift_of(k.data) : 0);
        rfg_arrive_copies(m->q_full + sq.at);
        rfg_next_stage(&sq, Q_STAGES);
#pragma unroll 1
        for (int key0 = span.begin; key0 < span.end; key0 += TILE_KV) {
            struct row k_row = next_k, v_row = next_v;
            next_k = my_row(a, &p, key0 + TILE_KV, thread, CHUNKS(D)); /* ahead, as it takes a while */
            next_v = D == DV ? next_k : my_row(a, &p, key0 + TILE_KV, thread, CHUNKS(DV));
            rfg_arrival_wait(m->k_empty + s.at, s.odd ^ 1);
            copy_rows(&k, &p, base + K_BEGIN + (rfg_u32)(s.at * (K_BLOCKS * BLOCK)), key0, thread, CHUNKS(D), D / 8,
                      D_REAL / 8, k_row);
            rfg_arrive_copies(m->k_full + s.at);
            rfg_arrival_wait(m->v_empty + s.at, s.odd ^ 1);
            copy_rows(&v, &p, base + V_BEGIN + (rfg_u32)(s.at * (V_BLOCKS * BLOCK)), key0, thread, CHUNKS(DV), DV / 8,
                      DV_REAL / 8, v_row);
            rfg_arrive_copies(m->v_full + s.at);
            rfg_next_stage(&s, STAGES);
        }
    }
    rfg_async_wait_all();
}

/* ---- products -------------------------------------------------------------------------------------------------- */

/* Warpgroups take turns with the matrix cores. */
RFG_DEVICE void await_turn(int group)
{
#if GROUPS > 1
    asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
#endif
}
RFG_DEVICE void give_turn(int group)
{
#if GROUPS == 2
    asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
#elif GROUPS == 3
    asm volatile("bar.arrive %0, 256;" ::"r"((group + 1) % 3 + 1) : "memory");
#endif
}

RFG_DEVICE void multiply_keys(rfg_frag_c *s, rfg_u64 q, rfg_u64 k)
{
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        wg_scores(s, q + (rfg_u32)(i / 4 * (Q_BLOCK / 16) + i % 4 * 2), k + (rfg_u32)(i / 4 * (BLOCK / 16) + i % 4 * 2),
                  i > 0);
    rfg_wg_commit();
}
RFG_DEVICE void multiply_values(rfg_frag_c *o, const rfg_u32x4 *weights, rfg_u64 v)
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        wg_values(o, weights[i], v + (rfg_u32)(i * 128));
    rfg_wg_commit();
}

RFG_DEVICE void pack_all(rfg_u32x4 *to, rfg_frag_c *s)
{
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
        const float *v = s[j].v;
        to[j] = make_uint4(
            rfg_pack_probabilities(v[0], v[1], DTYPE, true), rfg_pack_probabilities(v[2], v[3], DTYPE, true),
            rfg_pack_probabilities(v[4], v[5], DTYPE, true), rfg_pack_probabilities(v[6], v[7], DTYPE, true));
    }
}

RFG_DEVICE void start(const struct mha_args *a, const struct work_item *p, struct state *w)
{
    w->row0 = p->row0 + rfg_wave() * WAVE_Q;
#pragma unroll
    for (int d = 0; d < D_BLOCKS; d++)
        rfg_frag_zero(&w->o[0][d]);
#pragma unroll
    for (int h = 0; h < RFG_S_ROWS; h++) {
        w->top[0][h] = LOWEST;
        w->sum[0][h][0] = 0.0f;
#if ALIBI
        int row = w->row0 + rfg_s_query(rfg_lane(), 0, h);
        w->slope[0][h] = LOG2_E * rfg_as_float(rfg_load4(a->alibi + head_of(p, row < p->rows ? row : p->rows - 1)));
#endif
    }
}

/* A warpgroup's queries change their sign, so that with a negative scale the largest score is the largest product. */
RFG_DEVICE void negate(char *q, int group)
{
    for (int i = rfg_thread() % 128; i < K_BLOCKS * Q_BLOCK / 4; i += 128)
        ((rfg_u32 *)q)[i] ^= 0x80008000u;
    rfg_wg_see();
    asm volatile("bar.sync %0, 128;" ::"r"(group + 4) : "memory");
}

#if PARTS > 1
/* ---- parts of the keys, a workgroup of the cluster each -----------------------------------------------------------
 */

/* LDS, in place of queries and tiles: of each half of a wave's rows, for each thread, the maximum and the sum; 4 floats
 * of each 16 columns of the output. */
#define ENDS_BYTES    (8 * THREADS)
#define O_BYTES       (16 * THREADS)
#define COMBINE_BYTES (RFG_S_ROWS * (ENDS_BYTES + D_BLOCKS * O_BYTES))
static_assert(COMBINE_BYTES == MHA_WGMMA_COMBINE_BYTES(GROUPS, DV), "what is combined is what prefill_layout.h says");
static_assert(LDS_BYTES == (Q_BEGIN + COMBINE_BYTES > LDS_END ? Q_BEGIN + COMBINE_BYTES : LDS_END),
              "LDS_BYTES: see prefill_layout.h");

RFG_DEVICE rfg_u32x2 load_ends_of(rfg_u32 at, int rank)
{
    rfg_u32x2 v;
    rfg_u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(there) : "memory");
    return v;
}

/* The cross-workgroup reduction: each workgroup of the cluster combines all parts of some rows' columns, in order, and
 * stores them. */
RFG_DEVICE void combine_parts(const struct mha_args *a, const struct work_item *p, struct state *w, float factor,
                              char *lds)
{
    int tid = rfg_thread();
    char *o = lds + RFG_S_ROWS * ENDS_BYTES;
    asm volatile("bar.sync 7, %0;" ::"n"(THREADS) : "memory"); /* all are done with tiles */
#pragma unroll
    for (int h = 0; h < RFG_S_ROWS; h++) {
        ((rfg_f32x2 *)(lds + h * ENDS_BYTES))[tid] = rfg_pair(w->top[0][h], w->sum[0][h][0]);
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++) {
            const float *v = w->o[0][d].v + 2 * h;
            ((rfg_f32x4 *)(o + (d * RFG_S_ROWS + h) * O_BYTES))[tid] = make_float4(v[0], v[1], v[4], v[5]);
        }
    }
    rfg_cluster_arrive();
    rfg_cluster_wait();
#pragma unroll 1
    for (int i = rfg_group_x() % PARTS; i < (D_BLOCKS + 1) / 2 * RFG_S_ROWS; i += PARTS) {
        int h = i % RFG_S_ROWS, d = i / RFG_S_ROWS * 2;
        rfg_u32 ends = rfg_lds_address(lds + h * ENDS_BYTES) + 8 * tid;
        rfg_u32 from = rfg_lds_address(o + (d * RFG_S_ROWS + h) * O_BYTES) + 16 * tid;
        rfg_u32x2 end[PARTS];
        rfg_u32x4 its[PARTS][2];
        float top = LOWEST, sum = 0.0f, v[2][8];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            end[part] = load_ends_of(ends, part);
            its[part][0] = rfg_cluster_load16(from, part);
            its[part][1] =
                rfg_cluster_load16(from + (d + 1 < D_BLOCKS || D_BLOCKS % 2 == 0 ? RFG_S_ROWS * O_BYTES : 0), part);
        }
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            top = rfg_max(top, rfg_as_float(end[part].x));
#pragma unroll
        for (int j = 0; j < 2; j++)
            v[j][0] = v[j][1] = v[j][4] = v[j][5] = 0.0f;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            float by = rfg_exp2(factor * (rfg_as_float(end[part].x) - top));
            sum = rfg_fma(rfg_as_float(end[part].y), by, sum);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                v[j][0] = rfg_fma(rfg_as_float(its[part][j].x), by, v[j][0]);
                v[j][1] = rfg_fma(rfg_as_float(its[part][j].y), by, v[j][1]);
                v[j][4] = rfg_fma(rfg_as_float(its[part][j].z), by, v[j][4]);
                v[j][5] = rfg_fma(rfg_as_float(its[part][j].w), by, v[j][5]);
            }
        }
        struct row_end r =
            end_row(a, p, w->row0 + rfg_lane() / 4 + 8 * h, top, rfg_s_reduce(sum, false), factor, d == 0);
        store_chunks(&r, v[0], v[1], 16 * d - SKIPPED(a, p));
    }
    rfg_cluster_arrive(); /* what others read stays until they have */
    rfg_cluster_wait();
}
#endif

/* This wave is done with a stage, which others wait to write. */
RFG_DEVICE void leave(rfg_u64 *empty, struct rfg_stage *stage, int stages)
{
    rfg_arrive_wave(empty + stage->at);
    rfg_next_stage(stage, stages);
}

/* Scores of the next tile: under way. */
RFG_DEVICE void begin_keys(struct barriers *m, rfg_frag_c *s, rfg_u64 q, rfg_u64 k_rows, const struct rfg_stage *stage,
                           int group)
{
    rfg_arrival_wait(m->k_full + stage->at, stage->odd);
    rfg_wg_see();
    await_turn(group);
    rfg_wg_fence();
    multiply_keys(s, q, k_rows + (rfg_u32)(stage->at * (K_BLOCKS * BLOCK / 16)));
}

/* Scores of the tile at key0 are what is weighed. The maximum is raised where it must be, and with it w's sums, but the
 * output: by `scale`. Returns whether it is. */
RFG_DEVICE bool mask_and_raise(const struct mha_args *a, const struct work_item *p, struct state *w,
                               rfg_frag_c (*s)[BLOCKS], int key0, int all_begin, int all_end,
                               float (*scale)[RFG_S_ROWS], float factor, float slack)
{
    float top[1][RFG_S_ROWS];
#if CAP || ALIBI
    change_scores(a, p, w, s, key0);
#endif
    if (key0 < all_begin || key0 + TILE_KV > all_end)
        mask_scores(a, p, w, s, key0);
    bool raised = find_top(w, s, top, slack);
    if (raised)
        raise_top(w, top, scale, factor);
    return raised;
}

RFG_DEVICE void multiply_all(const struct mha_args *a, struct barriers *m, char *lds)
{
    struct rfg_stage sk = { 0, 0 }, sv = { 0, 0 }, sq = { 0, 0 };
    int tiles = tiles_of(a);
    int group = __shfl_sync(0xffffffffu, rfg_wave() / 4, 0); /* the compiler is to know that it is one of all lanes' */
    rfg_u64 q_rows = rfg_wg_rows(lds + Q_BEGIN + group * (K_BLOCKS * Q_BLOCK));
    rfg_u64 k_rows = rfg_wg_rows(lds + K_BEGIN), v_rows = wg_rows_transposed(lds + V_BEGIN, BLOCK);
    float factor = factor_of(a), slack = rfg_min(SLACK * rfg_rcp(factor), 1e30f);
    if (group == 0)
        give_turn(GROUPS - 1);
#pragma unroll 1
    for (int i = 0, tile; (tile = tile_of(i)) < tiles; i++) {
        struct work_item p;
        struct state w;
        if (!find_item(a, &p, tile))
            continue;
        struct span span = span_of(a, &p);
        start(a, &p, &w);
        if (span.begin < span.end) {
            int wave_last = w.row0 + WAVE_Q < p.rows ? w.row0 + WAVE_Q - 1 : p.rows - 1;
            struct seen first = seen_by(a, &p, query_of(&p, w.row0 < p.rows ? w.row0 : p.rows - 1));
            struct seen last = seen_by(a, &p, query_of(&p, wave_last));
            int all_begin = last.first, all_end = first.first + first.count;
            rfg_frag_c s[1][BLOCKS];
            rfg_u32x4 weights[BLOCKS];
            float scale[1][RFG_S_ROWS];
            int key0 = span.begin;

            rfg_arrival_wait(m->q_full + sq.at, sq.odd);
            rfg_u64 q = q_rows + (rfg_u32)(sq.at * (Q_TILE / 16));
            if (a->scale < 0.0f)
                negate(lds + Q_BEGIN + sq.at * Q_TILE + group * (K_BLOCKS * Q_BLOCK), group);
            begin_keys(m, s[0], q, k_rows, &sk, group);
            give_turn(group);
            rfg_wg_wait(0);
            wg_settle(s[0], BLOCKS);
            leave(m->k_empty, &sk, STAGES);
            mask_and_raise(a, &p, &w, s, key0, all_begin, all_end, scale, factor, slack);
            softmax_step(&w, s, factor);
            pack_all(weights, s[0]);
#pragma unroll 1
            for (key0 += TILE_KV; key0 < span.end; key0 += TILE_KV) {
                begin_keys(m, s[0], q, k_rows, &sk, group);
                rfg_arrival_wait(m->v_full + sv.at, sv.odd);
                rfg_wg_see();
                rfg_wg_fence();
                multiply_values(w.o[0], weights, v_rows + (rfg_u32)(sv.at * (V_BLOCKS * BLOCK / 16)));
                give_turn(group);
                rfg_wg_wait(1);
                wg_settle(s[0], BLOCKS);
                leave(m->k_empty, &sk, STAGES);
                bool raised = mask_and_raise(a, &p, &w, s, key0, all_begin, all_end, scale, factor, slack);
                softmax_step(&w, s, factor);
                rfg_wg_wait(0);
                wg_settle(w.o[0], D_BLOCKS);
                leave(m->v_empty, &sv, STAGES);
                if (raised)
                    scale_output(&w, scale);
                pack_all(weights, s[0]);
            }
            leave(m->q_empty, &sq, Q_STAGES);
            rfg_arrival_wait(m->v_full + sv.at, sv.odd);
            rfg_wg_see();
            await_turn(group);
            rfg_wg_fence();
            multiply_values(w.o[0], weights, v_rows + (rfg_u32)(sv.at * (V_BLOCKS * BLOCK / 16)));
            give_turn(group);
            rfg_wg_wait(0);
            wg_settle(w.o[0], D_BLOCKS);
            leave(m->v_empty, &sv, STAGES);
        }
#if PARTS > 1
        combine_parts(a, &p, &w, factor, lds + Q_BEGIN);
#else
        store_rows(a, &p, &w, factor);
#endif
    }
    if (group == 0)
        await_turn(group); /* the others' last arrival */
}

/* Of 65536: warpgroups that multiply take what the copying one gives back. */
#define COPY_REGISTERS     (GROUPS == 3 ? 56 : D > 128 ? 88 : D % 64 && D != 96 ? 88 : 72)
#define MULTIPLY_REGISTERS ((65536 / (THREADS + COPIERS) / 8 * 8 * (GROUPS + 1) - COPY_REGISTERS) / GROUPS)

#if PARTS > 1
RFG_KERNEL_CLUSTER((THREADS + COPIERS), PARTS)
#else
RFG_KERNEL((THREADS + COPIERS))
#endif
mha_prefill_wgmma(struct mha_args a)
{
    char *lds = (char *)rfg_wg_lds;
    struct barriers *m = (struct barriers *)lds;
    rfg_start_next();
    if (rfg_thread() == 0) {
        for (int i = 0; i < Q_STAGES; i++) {
            rfg_arrival_init(m->q_full + i, COPIERS);
            rfg_arrival_init(m->q_empty + i, WAVES);
        }
        for (int i = 0; i < STAGES; i++) {
            rfg_arrival_init(m->k_full + i, COPIERS);
            rfg_arrival_init(m->v_full + i, COPIERS);
            rfg_arrival_init(m->k_empty + i, WAVES);
            rfg_arrival_init(m->v_empty + i, WAVES);
        }
    }
    rfg_barrier_lds();
    rfg_await_previous();
    if (rfg_thread() >= THREADS) {
#if GROUPS > 1
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COPY_REGISTERS));
#endif
        copy_all(&a, m, lds, rfg_thread() - THREADS);
    } else {
#if GROUPS > 1
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MULTIPLY_REGISTERS));
#endif
        multiply_all(&a, m, lds);
    }
}
