/* SPDX-License-Identifier: MIT
 *
 * mla_decode on Hopper's asynchronous matrix instructions for few rows (queries times heads) of a sequence. Keys take
 * the instruction's 64 rows, and queries its columns, of which there may be 16: S^T = K Q^T, then O^T = V^T P^T, in
 * which a tile of keys is both K and, read the other way, V^T. One warpgroup multiplies; two copy, or decode codes of
 * 8 bits on the way from memory to the tile, so that what multiplies is the same for any cache.
 *
 * Budget, D=576 Dv=512, a tile of 64 keys: 74 KB of bf16 are 2.2 us of a CU's share of the memory's speed, 42 KB of
 * codes 1.3 us. Matrix instructions take 16 cycles each, in which they read 2 KB of LDS: 68 of them 1090 cycles, 0.6
 * us; with 32 columns 24. Decoding: 32768 codes, five to ten instructions for two, are 700 to 1400 cycles of each
 * scheduler, beside it.
 *
 * Macros: DTYPE, KV_DTYPE, FORMAT; D and DV (multiples of 64), CAP, POSITIONS, SINK_DTYPE as mla_tile.h has them; ROWS
 * (16 or 32); PARTS (1 to 16: a cluster's workgroups share a sequence's keys); CLUSTERS (that do, above 1 with PARTS
 * above 1); LDS_BYTES. Rows of 16-byte chunks. Grid: CLUSTERS times PARTS for each ROWS rows of each sequence. */
#include "rfg_device.h"
#include "rfg_quant.h"
#include "rfg_attention.h"
#include "rfg_tma.h"
#include "mha/mla/mla_args.h"
#include "mha/mla/mla_format.h"
#include "mha/mla/mla_layout.h"

#define TILE_KV MLA_WG_KEYS
#include "mha/mla/mla_item.h"
#define WIDE   1
#define SCALED 0 /* scores and sums are scaled instead */
#include "mha/mla/mla_rows.h"
#include "mha/prefill/wgmma_frag.h"

#define MULTIPLIERS 128
#define COPIERS     256
#define WAVES       (MULTIPLIERS / 32)
#define BLOCKS      (D / 64)        /* of a tile's columns */
#define V_BLOCKS    (DV / 64)       /* of them values */
#define BLOCK       (TILE_KV * 128) /* bytes */
#define TILE        (BLOCKS * BLOCK)
#define STAGES      2
#define PIECE       ((BLOCKS + 2) / 3) /* blocks that are waited for together, and all of a tile in */
#define PIECES      ((BLOCKS - 1) / PIECE + 1)
#define FRAGS       (ROWS / 16) /* of 16 rows */
#define HEADS       (ROWS / 4)  /* rows of which a thread has scores: see head_of() */
#define PAIRS       (HEADS / 2)
#define DECODES     (KV_BYTES == 1)

#define Q_AT       MLA_FEW_Q_AT
#define WEIGHTS_AT MLA_FEW_WEIGHTS_AT(D, ROWS)
#define KV_AT      MLA_FEW_KV_AT(D, ROWS)
#define APART      MLA_FEW_APART(D, DV, ROWS, PARTS)
struct barriers {
    rfg_u64 empty[STAGES];
    rfg_u64 tiled[STAGES][PIECES]; /* of a tile that TMA copies */
    rfg_u64 copied[STAGES];        /* of one that threads copy */
    rfg_u32 flag;
    int end[ROWS];              /* of the keys that a row sees */
    float of_wave[WAVES][ROWS]; /* maxima, at the end sums of weights */
};
#include "mha/mla/mla_wgmma.h"
static_assert(sizeof(struct barriers) <= Q_AT, "queries follow the barriers");
static_assert(LDS_BYTES == MLA_FEW_LDS_BYTES(D, DV, ROWS, PARTS), "mla_layout.h");
static_assert(D % 64 == 0 && DV % 64 == 0 && DV <= D, "blocks of 64 columns");

/* ---- copies ------------------------------------------------------------------------------------------------------ */

#define MY_ROWS (TILE_KV * 8 / COPIERS) /* of a tile, whose chunks eight threads have */
#define BETWEEN (COPIERS / 8)

struct places {
    const char *row[MY_ROWS];
#if FORMAT == MLA_V4
    const char *scales[MY_ROWS];
#endif
};
RFG_DEVICE void find_rows(const struct mla_args *a, const struct work_item *it, int key0, int thread, struct places *p)
{
#pragma unroll
    for (int i = 0; i < MY_ROWS; i++) {
        int key = key0 + thread / 8 + i * BETWEEN, block = block_of(a, it, &key);
        const char *first = (const char *)a->kv + block * a->kv_block * KV_BYTES;
        p->row[i] = first + key * a->kv_row * KV_BYTES;
#if FORMAT == MLA_V4
        p->scales[i] = first + a->scales_at + key * MLA_V4_SCALE_BYTES;
#endif
    }
}

#if DECODES
RFG_DEVICE void load_rows(struct row_pieces *r, const struct places *p, int thread)
{
#pragma unroll
    for (int i = 0; i < MY_ROWS; i++)
#if FORMAT == MLA_V4
        load_row(&r[i], p->row[i], p->scales[i], thread % 8);
#else
        load_row(&r[i], p->row[i], p->row[i] + MLA_V32_SCALES_AT, thread % 8);
#endif
}
/* Conversions between formats take Hopper 50 cycles a key. So e4m3 becomes bf16 by its bits: with the exponent in place
 * they are 2^-120 times the number, subnormal ones too, which a product puts right. */
#define QUICK (KV_DTYPE == RFG_E4M3 && DTYPE == RFG_BF16)
RFG_DEVICE float quick_factor(const struct row_pieces *r, int k, int lane)
{
#if FORMAT == MLA_PLAIN
    (void)r, (void)k, (void)lane;
    return 0x1p120f;
#else
    return scale_of_piece(r->scales, k, lane) * 0x1p120f;
#endif
}
/* Two codes, in the upper bytes of u's halves. */
RFG_DEVICE rfg_u32 quick_pair(rfg_u32 u, float by)
{
    rfg_u32 v = (u >> 4 & 0x07f007f0u) | (u & 0x80008000u);
#if FORMAT != MLA_PLAIN
    return rfg_pack_bf16(rfg_as_float(v << 16) * by, rfg_as_float(v & 0xffff0000u) * by);
#else
    (void)by;
    asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(v) : "r"(0x7b807b80u)); /* exact */
    return v;
#endif
}
RFG_DEVICE rfg_u32x4 quick_chunk(rfg_u32 lo, rfg_u32 hi, float by)
{
    return make_uint4(quick_pair(rfg_byte_perm(lo, 0, 0x1404), by), quick_pair(rfg_byte_perm(lo, 0, 0x3424), by),
                      quick_pair(rfg_byte_perm(hi, 0, 0x1404), by), quick_pair(rfg_byte_perm(hi, 0, 0x3424), by));
}
/* Whether that holds for all of a thread's pieces: factors are finite, and no code is all ones, a NaN. */
RFG_DEVICE bool is_quick(const struct row_pieces *r, int lane)
{
    const rfg_u32 low = 0x7f7f7f7fu, one = 0x01010101u;
    rfg_u32 ones = 0;
    bool finite = true;
#pragma unroll
    for (int k = 0; k < COPY_CHUNKS; k++) {
        if (!has_piece(k, lane))
            continue;
        rfg_u32x4 v = r->v[k];
        ones |= ((v.x & low) + one) | ((v.y & low) + one) | ((v.z & low) + one) | ((v.w & low) + one);
        float by = quick_factor(r, k, lane);
        finite = finite && rfg_max(by, -by) < 0x1p127f;
    }
    return QUICK && finite && !(ones & 0x80808080u);
}

RFG_DEVICE void decode_row(const struct row_pieces *r, char *to, int row, int lane, int turn, bool quick)
{
#pragma unroll
    for (int g = 0; g < GIVEN; g++) {
        int c = given_chunk(g, lane), k = g / 2;
        if (c < 0)
            continue;
        bool code = k < COPY_CHUNKS;
        if (code)
            c ^= turn;
        rfg_u32x4 v;
        if (code && quick)
            v = quick_chunk(g % 2 ? r->v[k].z : r->v[k].x, g % 2 ? r->v[k].w : r->v[k].y, quick_factor(r, k, lane));
        else
            v = give_chunk(r, g, lane, 1.0f);
        *(rfg_u32x4 *)(to + c / 8 * BLOCK + rfg_wg_at(row, c % 8)) = v;
    }
}
/* Halves of a thread's pieces take turns, so that eight threads write to all banks of LDS. */
RFG_DEVICE void decode_rows(struct row_pieces *r, char *to, int thread)
{
    int lane = thread % 8, turn = lane / 4;
#pragma unroll
    for (int i = 0; i < MY_ROWS; i++) {
        int row = thread / 8 + i * BETWEEN;
#pragma unroll
        for (int k = 0; k < COPY_CHUNKS; k++) {
            rfg_u32x4 v = r[i].v[k];
            r[i].v[k] = turn ? make_uint4(v.z, v.w, v.x, v.y) : v;
        }
        if (rfg_any_lane(!is_quick(&r[i], lane)))
            decode_row(&r[i], to, row, lane, turn, false);
        else
            decode_row(&r[i], to, row, lane, turn, true);
    }
}

/* The next tile's loads are under way while a tile is decoded. */
RFG_DEVICE void copy_all(const struct mla_args *a, const rfg_tile_map *map, const struct work_item *it, struct span s,
                         struct barriers *b, char *lds, int thread)
{
    struct row_pieces r[MY_ROWS], next[MY_ROWS];
    struct places p;
    int stage = 0, odd = 1;
    if (s.begin == s.end)
        return;
    (void)map;
    find_rows(a, it, s.begin * TILE_KV, thread, &p);
    load_rows(next, &p, thread);
    if (s.begin + 1 < s.end)
        find_rows(a, it, (s.begin + 1) * TILE_KV, thread, &p);
#pragma unroll 1
    for (int t = s.begin; t < s.end; t++) {
#pragma unroll
        for (int i = 0; i < MY_ROWS; i++)
            r[i] = next[i];
        if (t + 1 < s.end)
            load_rows(next, &p, thread);
        if (t + 2 < s.end)
            find_rows(a, it, (t + 2) * TILE_KV, thread, &p);
        rfg_arrival_wait(&b->empty[stage], odd);
        decode_rows(r, lds + KV_AT + stage * TILE, thread);
        rfg_arrive(&b->copied[stage]);
        odd ^= stage;
        stage ^= 1;
    }
}
#else
RFG_DEVICE void copy_by_threads(const struct places *p, rfg_u32 to, int thread)
{
#pragma unroll
    for (int k = 0; k < BLOCKS; k++)
#pragma unroll
        for (int i = 0; i < MY_ROWS; i++)
            rfg_async_copy16_at(to + (rfg_u32)(k * BLOCK) + rfg_wg_at(thread / 8 + i * BETWEEN, thread % 8),
                                p->row[i] + k * 128 + thread % 8 * 16, true, false);
}

RFG_DEVICE void copy_all(const struct mla_args *a, const rfg_tile_map *map, const struct work_item *it, struct span s,
                         struct barriers *b, char *lds, int thread)
{
    bool tiles = has_tiles(a);
    int rows = MLA_WG_TMA_ROWS(a->table != 0, a->page_shift), next = 0, stage = 0, odd = 1;
    bool mine = tiles && thread < TILE_KV / rows;
    struct places p;
    if (mine && s.begin < s.end)
        next = tiled_row(a, it, s.begin * TILE_KV, rows, thread);
#pragma unroll 1
    for (int t = s.begin; t < s.end; t++) {
        rfg_u32 to = rfg_lds_address(lds) + KV_AT + (rfg_u32)(stage * TILE);
        bool tiled = is_tiled(it, tiles, t * TILE_KV);
        int row = next;
        if (mine && t + 1 < s.end)
            next = tiled_row(a, it, (t + 1) * TILE_KV, rows, thread);
        if (!tiled)
            find_rows(a, it, t * TILE_KV, thread, &p);
        rfg_arrival_wait(&b->empty[stage], odd);
        if (!tiled) {
            copy_by_threads(&p, to, thread);
            rfg_arrive_copies(&b->copied[stage]);
        } else if (thread < TILE_KV / rows) {
#pragma unroll
            for (int k = 0; k < BLOCKS; k++) {
                rfg_u64 *piece = &b->tiled[stage][k / PIECE];
                if (thread == 0 && k % PIECE == 0)
                    rfg_arrive_expect(piece, (k + PIECE < BLOCKS ? PIECE : BLOCKS - k) * BLOCK);
                rfg_tile_load(to + (rfg_u32)(k * BLOCK + thread * rows * 128), map, k * 128, row, piece);
            }
        }
        odd ^= stage;
        stage ^= 1;
    }
    rfg_async_wait_all();
}
#endif

/* By the threads that multiply, before the sequence's length is known. Rows that there aren't are zeroes. */
RFG_DEVICE void copy_queries(const struct mla_args *a, const struct work_item *it, rfg_u32 to)
{
#pragma unroll
    for (int i = 0; i < FRAGS; i++) {
        int r = rfg_thread() / 8 + i * 16, c = rfg_thread() % 8;
        const rfg_u16 *q = (const rfg_u16 *)a->q.data + row_at(a, it, &a->q, r) + c * 8;
        const rfg_u16 *rope = (const rfg_u16 *)a->q_rope.data + row_at(a, it, &a->q_rope, r) + c * 8;
#pragma unroll
        for (int k = 0; k < BLOCKS; k++)
            rfg_async_copy16_at(to + (rfg_u32)(k * ROWS * 128) + rfg_wg_at(r, c),
                                k < V_BLOCKS ? q + k * 64 : rope + (k - V_BLOCKS) * 64, it->row0 + r < it->rows, false);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

#define KEY_OF(row) (row)
#include "mha/mla/mla_few.h"

#define WG_R8  RFG_WG_R8
#define WG_R16 RFG_WG_R16
/* c = (add ? c : 0) + keys' rows times queries'. */
RFG_DEVICE void wg_keys(rfg_frag_c *c, rfg_u64 rows_a, rfg_u64 rows_b, int add)
{
#if ROWS == 16
    WG_BOTH("16", 8, "8", "9", "10", "0");
#else
    WG_BOTH("32", 16, "16", "17", "18", "0");
#endif
}
/* c += values' columns times weights. */
RFG_DEVICE void wg_columns(rfg_frag_c *c, rfg_u64 rows_a, rfg_u64 rows_b, int add)
{
#if ROWS == 16
    WG_BOTH("16", 8, "8", "9", "10", "1");
#else
    WG_BOTH("32", 16, "16", "17", "18", "1");
#endif
}

/* A piece of the tile in a stage has come, or all that is not of tiles. */
RFG_DEVICE void await_piece(struct barriers *b, int stage, int piece, bool tiled, int odd)
{
    if (DECODES && piece > 0)
        return;
    rfg_arrival_wait(tiled ? &b->tiled[stage][piece] : &b->copied[stage], odd);
    if (!tiled) /* what threads wrote */
        rfg_wg_see();
}

/* Scores of the tile in a stage: under way. `first`: none are, nor values; pieces are waited for one after another.
 * (Else ptxas would have the matrix instructions wait for each other.) */
RFG_DEVICE void multiply_keys(rfg_frag_c *s, struct barriers *b, rfg_u64 q, rfg_u64 kv, int stage, bool tiled, int odd,
                              bool first)
{
    asm volatile("" : "+l"(q)); /* or each of its sums has a register during the loop */
    kv += (rfg_u32)(stage * (TILE / 16));
#pragma unroll
    for (int i = 0; i < PIECES && !first; i++)
        await_piece(b, stage, i, tiled, odd);
    rfg_wg_fence();
#pragma unroll
    for (int k = 0; k < BLOCKS; k++) {
        if (first && k % PIECE == 0)
            await_piece(b, stage, k / PIECE, tiled, odd);
#pragma unroll
        for (int i = 0; i < 4; i++)
            wg_keys(s, kv + (rfg_u32)(k * (BLOCK / 16) + 2 * i), q + (rfg_u32)(k * (ROWS * 8) + 2 * i), k + i > 0);
    }
    rfg_wg_commit();
}
/* Adds its values: under way. */
RFG_DEVICE void multiply_values(struct state *w, rfg_u64 weights, rfg_u64 v)
{
    asm volatile("" : "+l"(weights));
    rfg_wg_fence();
#pragma unroll
    for (int d = 0; d < V_BLOCKS; d++)
#pragma unroll
        for (int i = 0; i < TILE_KV / 16; i++)
            wg_columns(w->o[d], v + (rfg_u32)(d * (BLOCK / 16) + i * 128), weights + (rfg_u32)(2 * i), 1);
    rfg_wg_commit();
}

RFG_DEVICE void settle(struct state *w, rfg_frag_c *s)
{
    wg_settle(s, FRAGS);
    settle_sums(w);
}

/* The next tile's scores follow a tile's values at once. */
RFG_DEVICE void attend(const struct mla_args *a, const struct work_item *it, struct span span, char *lds,
                       struct state *w)
{
    struct barriers *b = (struct barriers *)lds;
    rfg_u64 q = rfg_wg_rows(lds + Q_AT), kv = rfg_wg_rows(lds + KV_AT), p = rfg_wg_rows(lds + WEIGHTS_AT);
    rfg_u64 v = wg_rows_transposed(lds + KV_AT, BLOCK);
    int stage = 0, odd = 0, unmasked = b->end[0];
    bool tiles = !DECODES && has_tiles(a), tiled = is_tiled(it, tiles, span.begin * TILE_KV);
    rfg_frag_c s[FRAGS];
    const float unscaled[2] = { 1.0f, 1.0f };
    multiply_keys(s, b, q, kv, 0, tiled, 0, true);
    rfg_wg_wait(0);
    settle(w, s);
#pragma unroll 1
    for (int t = span.begin; t < span.end; t++) {
        rfg_wg_wait(1);
        if (t > span.begin)
            rfg_arrive_wave(&b->empty[stage ^ 1]);
        rfg_wg_wait(0);
        settle(w, s);
        weigh_scores(a, it, b->end, b->of_wave, w, s, t * TILE_KV, unmasked);
        store_weights(rfg_lds_address(lds) + WEIGHTS_AT, s, unscaled);
        rfg_wg_see();
        meet();
        multiply_values(w, p, v + (rfg_u32)(stage * (TILE / 16)));
        odd ^= stage;
        stage ^= 1;
        if (t + 1 < span.end) {
            tiled = is_tiled(it, tiles, (t + 1) * TILE_KV);
            multiply_keys(s, b, q, kv, stage, tiled, tiled || !tiles ? odd : 0, false);
        }
    }
    rfg_wg_wait(0);
    settle(w, s);
}

#include "mha/mla/wgmma_few_out.h"

RFG_DEVICE void multiply_all(const struct mla_args *a, const struct work_item *it, struct span span, char *lds)
{
    struct barriers *b = (struct barriers *)lds;
    struct state w;
    begin_rows(a, it, &w, b->end);
    rfg_async_wait_all();
    rfg_wg_see();
    meet();
    if (span.begin < span.end)
        attend(a, it, span, lds, &w);
    add_sums(b->of_wave, &w);
#if PARTS > 1
    start_sending();
    send_sums(&w, lds, rfg_group_x() % PARTS);
    combine(a, it, lds);
#else
    store_rows(a, it, &w);
#endif
}

/* Of 65536: warpgroups that copy give some back for the one that multiplies. */
#define COPY_REGISTERS     (ROWS == 16 ? 144 : 136)
#define MULTIPLY_REGISTERS (ROWS == 16 ? 216 : 232)

#if PARTS > 1
RFG_KERNEL_CLUSTER((MULTIPLIERS + COPIERS), PARTS)
#else
RFG_KERNEL((MULTIPLIERS + COPIERS))
#endif
mla_decode_wgmma_few(struct mla_args a, const __grid_constant__ rfg_tile_map map)
{
    char *lds = (char *)rfg_wg_lds;
    struct barriers *b = (struct barriers *)lds;
    rfg_start_next();
    if (rfg_thread() == 0) {
        if (!DECODES)
            rfg_tile_expect(&map);
        for (int stage = 0; stage < STAGES; stage++) {
            rfg_arrival_init(&b->empty[stage], WAVES);
            rfg_arrival_init(&b->copied[stage], COPIERS);
            for (int i = 0; i < PIECES; i++)
                rfg_arrival_init(&b->tiled[stage][i], 1);
        }
    }
    rfg_barrier_lds();
#if PARTS > 1 && APART
    rfg_cluster_arrive(); /* others may send from here on */
#endif
    rfg_await_previous();
    struct work_item it;
    place_item(&a, &it, own_item(), items_each(&a));
    if (rfg_thread() >= MULTIPLIERS)
        expect_table(&a, it.b, rfg_thread() - MULTIPLIERS);
    else
        copy_queries(&a, &it, rfg_lds_address(lds) + Q_AT);
    open_item(&a, &it, own_item(), items_each(&a));
    struct span span = span_of(&it);
    if (rfg_thread() >= MULTIPLIERS) {
        rfg_fewer_registers(COPY_REGISTERS);
        copy_all(&a, &map, &it, span, b, lds, rfg_thread() - MULTIPLIERS);
#if PARTS > 1
        start_sending();
        combine(&a, &it, lds);
#endif
    } else {
        rfg_more_registers(MULTIPLY_REGISTERS);
        multiply_all(&a, &it, span, lds);
    }
}
