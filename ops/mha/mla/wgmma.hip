/* SPDX-License-Identifier: MIT
 *
 * mla_decode on Hopper's asynchronous matrix instructions. A workgroup has 64 rows (queries times heads) of a sequence,
 * and goes through its keys two tiles of 64 at a time, A and B. Two warpgroups multiply and have half of the output's
 * columns each; a third one copies. A step of theirs:
 *
 *   first:  scores of A | weights of A | A's values, left half  | B's values, left half
 *   second: scores of B | weights of B | A's values, right half | B's values, right half
 *
 * Weights go through LDS to the same thread of the other warpgroup: both have the same rows and keys in the same lanes.
 * What they are relative to may differ, which is put right where it does. With 64 rows of queries in LDS there is no room
 * for a third tile: both add A's values first, so that A's next keys come while B's are multiplied.
 *
 * Budget: a step of 128 keys is 147 KB and 4352 cycles of matrix instructions a CU, 34 bytes a cycle, at D=576 Dv=512:
 * with 64 rows matrix instructions bind, as long as L2 yields the same keys to all of a sequence's workgroups. Few
 * sequences: a cluster of PARTS workgroups shares a sequence's keys, and combines in LDS, each workgroup some of the
 * columns; or CLUSTERS of them do, and of those who have the same columns the last one to arrive combines their sums.
 *
 * Macros: DTYPE; D (a multiple of 64), DV (128, 256 or 512), CAP, POSITIONS, SINK_DTYPE as mla_tile.h has them; PARTS (1 to 16);
 * CLUSTERS (above 1 with PARTS above 1); LDS_BYTES. Rows of 16-byte chunks. Grid: CLUSTERS times PARTS for each 64 rows of each
 * sequence. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_tma.h"
#include "mha/mla/mla_args.h"
#include "mha/mla/mla_layout.h"

#define ROWS       MLA_WG_ROWS
#define TILE_KV    MLA_WG_KEYS
#define HALF       (DV / 2)
#define WG_COLUMNS HALF
#include "mha/mla/mla_item.h"
#include "mha/prefill/wgmma_frag.h"

#define GROUP       128 /* threads of a warpgroup */
#define COPIERS     GROUP
#define MULTIPLIERS (2 * GROUP)
#define BLOCKS      (D / 64)   /* of a tile's columns */
#define V_HALF      (DV / 128) /* blocks of half of the values' columns */
#define BLOCK       (64 * 128) /* bytes */
#define TILE        (BLOCKS * BLOCK)
#define O_PARTS     (HALF / 16)

#define Q_AT  MLA_WG_Q_AT
#define KV_AT (Q_AT + TILE)
#define WEIGHTS_AT                                                                                                     \
    (D >= DV + 64 ? KV_AT + TILE - BLOCK : KV_AT + 2 * TILE) /* of A; in place of keys that aren't values */
#define WEIGHTS_BY (D >= DV + 64 ? TILE : BLOCK)             /* from A's to B's */
struct barriers {
    rfg_u64 empty[2][2];      /* [tile][half] */
    rfg_u64 tiled[2][BLOCKS]; /* of a tile that TMA copies: a block each */
    rfg_u64 copied[2][2];     /* of one that threads copy: what is refilled at a time */
    float m[2][GROUP][2], l[GROUP][2];
};
#include "mha/mla/mla_wgmma.h"
static_assert(sizeof(struct barriers) <= Q_AT, "queries follow the barriers");
static_assert(LDS_BYTES == MLA_WG_LDS_BYTES(D, DV), "mla_layout.h");
static_assert(D % 64 == 0 && DV % 128 == 0 && DV <= D, "blocks of 64 columns");

/* ---- copies ------------------------------------------------------------------------------------------------------- */

#define MY_ROWS (TILE_KV * 8 / COPIERS) /* of a tile: a thread copies one chunk of each block */
#define APART   (COPIERS / 8)

RFG_DEVICE void find_rows(const struct mla_args *a, const struct work_item *it, int key0, int thread, const char **row)
{
#pragma unroll
    for (int i = 0; i < MY_ROWS; i++) {
        int key = key0 + thread / 8 + i * APART, block = block_of(a, it, &key);
        row[i] = (const char *)a->kv + 2 * (block * a->kv_block + key * a->kv_row) + thread % 8 * 16;
    }
}

/* By the threads that multiply, meanwhile. */
RFG_DEVICE void copy_queries(const struct mla_args *a, const struct work_item *it, rfg_u32 to)
{
#pragma unroll
    for (int i = 0; i < ROWS * 8 / (2 * GROUP); i++) {
        int r = rfg_thread() / 8 + i * (2 * GROUP / 8), c = rfg_thread() % 8;
        const rfg_u16 *q = (const rfg_u16 *)a->q.data + row_at(a, it, &a->q, r) + c * 8;
        const rfg_u16 *rope = (const rfg_u16 *)a->q_rope.data + row_at(a, it, &a->q_rope, r) + c * 8;
#pragma unroll
        for (int k = 0; k < BLOCKS; k++)
            rfg_async_copy16_at(to + (rfg_u32)(k * BLOCK) + rfg_wg_at(r, c),
                                k * 64 < DV ? q + k * 64 : rope + (k * 64 - DV), it->row0 + r < it->rows, false);
    }
    rfg_async_wait_all();
    rfg_wg_see();
    meet();
}

/* Blocks are copied, and keys multiplied, in two groups: first the half of the values that is done with first, A's left
 * one and B's right one. Which block is the n-th. */
RFG_DEVICE int nth_block(int tile, int n)
{
    return tile == 0 || n >= 2 * V_HALF ? n : n < V_HALF ? n + V_HALF : n - V_HALF;
}

/* Group `later` of a tile. */
RFG_DEVICE void copy_by_threads(struct barriers *b, rfg_u32 to, const char *const *row, int tile, int later, int thread)
{
#pragma unroll
    for (int n = later * V_HALF; n < (later ? BLOCKS : V_HALF); n++) {
        int k = nth_block(tile, n);
#pragma unroll
        for (int i = 0; i < MY_ROWS; i++)
            rfg_async_copy16_at(to + (rfg_u32)(k * BLOCK) + rfg_wg_at(thread / 8 + i * APART, thread % 8),
                                row[i] + k * 128, true, false);
    }
    rfg_arrive_copies(&b->copied[tile][later]);
}
RFG_DEVICE void copy_by_tma(struct barriers *b, rfg_u32 to, const rfg_tile_map *map, int row, int rows, int tile,
                            int later, int thread)
{
#pragma unroll
    for (int n = later * V_HALF; n < (later ? BLOCKS : V_HALF); n++) {
        int k = nth_block(tile, n);
        if (thread == 0)
            rfg_arrive_expect(&b->tiled[tile][k], BLOCK);
        if (thread < TILE_KV / rows)
            rfg_tile_load(to + (rfg_u32)(k * BLOCK + thread * rows * 128), map, k * 128, row, &b->tiled[tile][k]);
    }
}

RFG_DEVICE void copy_all(const struct mla_args *a, const rfg_tile_map *map, const struct work_item *it, struct span s,
                         struct barriers *b, rfg_u32 lds, int thread)
{
    bool tiles = has_tiles(a);
    int rows = MLA_WG_TMA_ROWS(a->table != 0, a->page_shift), odd = 1, next[2] = { 0, 0 };
    bool mine = tiles && thread < TILE_KV / rows;
#pragma unroll
    for (int tile = 0; tile < 2; tile++)
        if (mine && s.begin + tile < s.end)
            next[tile] = tiled_row(a, it, (s.begin + tile) * TILE_KV, rows, thread);
#pragma unroll 1
    for (int t = s.begin; t < s.end; t += 2, odd ^= 1) {
        const char *row[2][MY_ROWS];
        int at[2] = { next[0], next[1] };
#pragma unroll
        for (int tile = 0; tile < 2; tile++) {
            if (mine && t + 2 + tile < s.end)
                next[tile] = tiled_row(a, it, (t + 2 + tile) * TILE_KV, rows, thread);
            if (t + tile < s.end && !is_tiled(it, tiles, (t + tile) * TILE_KV))
                find_rows(a, it, (t + tile) * TILE_KV, thread, row[tile]);
        }
#pragma unroll
        for (int n = 0; n < 4; n++) {
            int tile = n / 2, later = n % 2;
            rfg_u32 to = lds + KV_AT + (rfg_u32)(tile * TILE);
            if (t + tile >= s.end)
                continue;
            rfg_arrival_wait(&b->empty[tile][later], odd);
            if (is_tiled(it, tiles, (t + tile) * TILE_KV))
                copy_by_tma(b, to, map, at[tile], rows, tile, later, thread);
            else
                copy_by_threads(b, to, row[tile], tile, later, thread);
        }
    }
    rfg_async_wait_all();
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

/* What a thread has of its two rows, l / 4 and l / 4 + 8 of its wave's 16: half of the output's columns, the maximum that
 * is subtracted, the sum of its own keys' weights. */
struct state {
    rfg_frag_c o[O_PARTS];
    float m[2], l[2];
};

/* Scores of tile `tile`: under way. */
RFG_DEVICE void multiply_keys(rfg_frag_c *s, struct barriers *b, rfg_u64 q, rfg_u64 kv, int tile, bool tiled, int odd)
{
    rfg_wg_fence();
#pragma unroll
    for (int n = 0; n < BLOCKS; n++) {
        int k = nth_block(tile, n);
        if (tiled) {
            rfg_arrival_wait(&b->tiled[tile][k], odd);
        } else if (n == 0 || n == V_HALF) {
            rfg_arrival_wait(&b->copied[tile][n > 0], odd);
            rfg_wg_see(); /* what threads wrote */
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            wg_scores(s, q + (rfg_u32)(k * (BLOCK / 16) + 2 * i),
                      kv + (rfg_u32)(tile * (TILE / 16) + k * (BLOCK / 16) + 2 * i), n + i > 0);
    }
    rfg_wg_commit();
}

/* Adds a tile's values, of this warpgroup's columns (v: where they begin in tile A): under way. */
RFG_DEVICE void multiply_values(struct state *w, const rfg_u32x4 *weights, rfg_u64 v, int tile)
{
    rfg_wg_fence();
#pragma unroll
    for (int i = 0; i < TILE_KV / 16; i++)
        wg_values(w->o, weights[i], v + (rfg_u32)(tile * (TILE / 16) + i * 128));
    rfg_wg_commit();
}

RFG_DEVICE void mask_scores(rfg_frag_c *s, int key0, const int *end)
{
#pragma unroll
    for (int j = 0; j < TILE_KV / 16; j++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            if (key0 + rfg_s_lane_key(rfg_lane()) + rfg_s_key(j, e) >= end[rfg_s_half(e)])
                s[j].v[e] = MINUS_INFINITY;
}
/* w->m, which is raised where it must be: by the row's own scores alone. `scale`: of scores to be powers of two's
 * exponents. `down`: by what older sums are to be multiplied. Returns whether any row's is not 1. */
RFG_DEVICE bool find_most(struct state *w, const rfg_frag_c *s, float scale, float *down)
{
    float most[2] = { MINUS_INFINITY, MINUS_INFINITY };
#pragma unroll
    for (int j = 0; j < TILE_KV / 16; j++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            most[rfg_s_half(e)] = rfg_max(most[rfg_s_half(e)], s[j].v[e]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = rfg_s_reduce(most[h], true) * scale;
        float m = top > w->m[h] + SLACK ? top : w->m[h];
        down[h] = rfg_exp2(w->m[h] - m);
        w->m[h] = m;
    }
    return rfg_any_lane(down[0] != 1.0f || down[1] != 1.0f);
}
/* Scores become weights relative to w->m. */
RFG_DEVICE void weigh(struct state *w, rfg_frag_c *s, float scale, const float *down)
{
    float sum[2] = { 0, 0 };
#pragma unroll
    for (int j = 0; j < TILE_KV / 16; j++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            int h = rfg_s_half(e);
            s[j].v[e] = rfg_exp2(rfg_fma(s[j].v[e], scale, -w->m[h]));
            sum[h] += s[j].v[e];
        }
#pragma unroll
    for (int h = 0; h < 2; h++)
        w->l[h] = rfg_fma(w->l[h], down[h], sum[h]);
}
RFG_DEVICE void pack(rfg_u32x4 *weights, const rfg_frag_c *s)
{
#pragma unroll
    for (int j = 0; j < TILE_KV / 16; j++) {
        const float *v = s[j].v;
        weights[j] = make_uint4(rfg_floats_to_16(v[0], v[1], DTYPE), rfg_floats_to_16(v[2], v[3], DTYPE),
                                rfg_floats_to_16(v[4], v[5], DTYPE), rfg_floats_to_16(v[6], v[7], DTYPE));
    }
}
RFG_DEVICE void scale_down(struct state *w, const float *down)
{
#pragma unroll
    for (int d = 0; d < O_PARTS; d++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            w->o[d].v[e] *= down[rfg_s_half(e)];
}

/* Weights of a tile, and what they are relative to, for the other warpgroup's same thread. */
RFG_DEVICE void give_weights(char *lds, int tile, const rfg_u32x4 *weights, const struct state *w, int thread)
{
    rfg_u32x4 *to = (rfg_u32x4 *)(lds + WEIGHTS_AT + tile * WEIGHTS_BY);
    float *m = ((struct barriers *)lds)->m[tile][thread];
#pragma unroll
    for (int i = 0; i < TILE_KV / 16; i++)
        to[i * GROUP + thread] = weights[i];
    m[0] = w->m[0];
    m[1] = w->m[1];
    asm volatile("bar.arrive %0, 256;" ::"r"(tile + 1) : "memory");
}
/* Takes them. Returns whether what they are relative to is not this warpgroup's: then sums and weights change. */
RFG_DEVICE bool take_weights(const char *lds, int tile, rfg_u32x4 *weights, float *m, const struct state *w, int thread)
{
    asm volatile("bar.sync %0, 256;" ::"r"(tile + 1) : "memory");
    const rfg_u32x4 *from = (const rfg_u32x4 *)(lds + WEIGHTS_AT + tile * WEIGHTS_BY);
    const float *its = ((const struct barriers *)lds)->m[tile][thread];
    m[0] = its[0];
    m[1] = its[1];
#pragma unroll
    for (int i = 0; i < TILE_KV / 16; i++)
        weights[i] = from[i * GROUP + thread];
    return rfg_any_lane(m[0] != w->m[0] || m[1] != w->m[1]);
}
RFG_DEVICE rfg_u32 scale_word(rfg_u32 v, float by)
{
    return rfg_floats_to_16(rfg_low(v, DTYPE) * by, rfg_high(v, DTYPE) * by, DTYPE);
}
RFG_DEVICE void scale_weights(rfg_u32x4 *weights, const float *by)
{
#pragma unroll
    for (int i = 0; i < TILE_KV / 16; i++)
        weights[i] = make_uint4(scale_word(weights[i].x, by[0]), scale_word(weights[i].y, by[1]),
                                scale_word(weights[i].z, by[0]), scale_word(weights[i].w, by[1]));
}
/* All relative to the larger maximum: weights that are to `m`, and own ones that are not added yet. Few steps come here:
 * see SLACK. */
RFG_DEVICE void agree(struct state *w, rfg_u32x4 *weights, const float *m, rfg_u32x4 *own)
{
    float mine[2], its[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = rfg_max(w->m[h], m[h]);
        mine[h] = rfg_exp2(w->m[h] - top);
        its[h] = rfg_exp2(m[h] - top);
        w->m[h] = top;
        w->l[h] *= mine[h];
    }
    scale_down(w, mine);
    scale_weights(weights, its);
    if (own)
        scale_weights(own, mine);
}

/* Scores of a tile become weights, which the other warpgroup is given. Returns whether older sums are to be multiplied
 * by down. */
RFG_DEVICE bool weigh_tile(const struct mla_args *a, const struct work_item *it, char *lds, const int *end,
                           struct state *w, rfg_frag_c *s, rfg_u32x4 *weights, float *down, int key0, int tile,
                           int thread)
{
    rfg_wg_wait(0);
    wg_settle(s, TILE_KV / 16);
    float scale = change_scores(a, it, s, TILE_KV / 16);
    if (key0 > (end[0] < end[1] ? end[0] : end[1]) - TILE_KV)
        mask_scores(s, key0, end);
    bool raised = find_most(w, s, scale, down);
    weigh(w, s, scale, down);
    pack(weights, s);
    give_weights(lds, tile, weights, w, thread);
    return raised;
}

/* The last tile, alone: `first` has its scores. */
RFG_DEVICE void attend_last(const struct mla_args *a, const struct work_item *it, char *lds, const int *end,
                            struct state *w, int key0, rfg_u64 v, bool tiled, int odd, bool first, int thread)
{
    rfg_u32x4 weights[TILE_KV / 16];
    float down[2], m[2];
    if (first) {
        rfg_frag_c s[TILE_KV / 16];
        multiply_keys(s, (struct barriers *)lds, rfg_wg_rows(lds + Q_AT), rfg_wg_rows(lds + KV_AT), 0, tiled, odd);
        if (weigh_tile(a, it, lds, end, w, s, weights, down, key0, 0, thread))
            scale_down(w, down);
    } else {
        if (take_weights(lds, 0, weights, m, w, thread))
            agree(w, weights, m, 0);
        rfg_wg_see();
    }
    multiply_values(w, weights, v, 0);
    rfg_wg_wait(0);
    wg_settle(w->o, O_PARTS);
}

/* `first`: this warpgroup has tile A's scores and the left half of the output; else B's and the right half. */
RFG_DEVICE void attend(const struct mla_args *a, const struct work_item *it, struct span span, char *lds,
                       const int *end, struct state *w, bool first, int thread)
{
    struct barriers *b = (struct barriers *)lds;
    rfg_u64 q = rfg_wg_rows(lds + Q_AT), kv = rfg_wg_rows(lds + KV_AT),
            v = wg_rows_transposed(lds + KV_AT + (first ? 0 : V_HALF * BLOCK), BLOCK);
    int odd = 0, tile = first ? 0 : 1, t = span.begin;
    bool tiles = has_tiles(a);
#pragma unroll 1
    for (; t + 1 < span.end; t += 2, odd ^= 1) {
        rfg_frag_c s[TILE_KV / 16];
        rfg_u32x4 mine[TILE_KV / 16], its[TILE_KV / 16];
        float down[2], m[2];
        int key0 = (t + tile) * TILE_KV;
        bool tiled = is_tiled(it, tiles, key0);
        multiply_keys(s, b, q, kv, tile, tiled, tiled || !tiles ? odd : 0);
        bool raised = weigh_tile(a, it, lds, end, w, s, mine, down, key0, tile, thread);
        if (raised)
            scale_down(w, down);
        if (first)
            multiply_values(w, mine, v, 0);
        if (take_weights(lds, 1 - tile, its, m, w, thread)) {
            rfg_wg_wait(0);
            wg_settle(w->o, O_PARTS);
            agree(w, its, m, first ? 0 : mine);
        }
        multiply_values(w, its, v, 1 - tile);
        if (!first)
            multiply_values(w, mine, v, 1);
        rfg_wg_wait(1);
        rfg_arrive_wave(&b->empty[0][tile]);
        rfg_wg_wait(0);
        wg_settle(w->o, O_PARTS);
        rfg_arrive_wave(&b->empty[1][1 - tile]);
    }
    if (t < span.end) {
        bool tiled = is_tiled(it, tiles, t * TILE_KV);
        attend_last(a, it, lds, end, w, t * TILE_KV, v, tiled, tiled || !tiles ? odd : 0, first, thread);
    }
}

#include "mha/mla/wgmma_out.h"

RFG_DEVICE void multiply_all(const struct mla_args *a, const struct work_item *it, struct span span, char *lds)
{
    struct state w;
    int group = __shfl_sync(0xffffffffu, rfg_wave() / 4, 0), thread = rfg_thread() % GROUP;
    int row = rfg_wave() % 4 * 16 + rfg_lane() / 4, end[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        w.m[h] = LOWEST;
        w.l[h] = 0.0f;
        end[h] = a->causal ? keys_seen(a, it, row_of(it, row + 8 * h) / a->hq) : it->len;
    }
#pragma unroll
    for (int d = 0; d < O_PARTS; d++)
        rfg_frag_zero(&w.o[d]);
    if (span.begin < span.end) {
        copy_queries(a, it, rfg_lds_address(lds) + Q_AT);
        if (group == 0)
            attend(a, it, span, lds, end, &w, true, thread);
        else
            attend(a, it, span, lds, end, &w, false, thread);
    }
    add_sums((struct barriers *)lds, &w, group == 0, thread);
#if PARTS > 1
    combine_parts(a, it, &w, lds);
    rfg_cluster_arrive(); /* what others read stays until they have */
#else
    store_rows(a, it, &w, row, group * HALF + 2 * (rfg_lane() % 4));
#endif
#if CLUSTERS > 1
    if (is_last(a, (rfg_u32 *)((struct barriers *)lds)->l))
        combine_clusters(a, it);
#endif
#if PARTS > 1
    rfg_cluster_wait();
#endif
}

/* Of 65536: warpgroups that multiply take what the copying one gives back. */
#define COPY_REGISTERS     72
#define MULTIPLY_REGISTERS 216

#if PARTS > 1
RFG_KERNEL_CLUSTER((3 * GROUP), PARTS)
#else
RFG_KERNEL((3 * GROUP))
#endif
mla_decode_wgmma(struct mla_args a, const __grid_constant__ rfg_tile_map map)
{
    char *lds = (char *)rfg_wg_lds;
    struct barriers *b = (struct barriers *)lds;
    rfg_start_next();
    if (rfg_thread() == 0) {
        rfg_tile_expect(&map);
        for (int tile = 0; tile < 2; tile++) {
            for (int k = 0; k < BLOCKS; k++)
                rfg_arrival_init(&b->tiled[tile][k], 1);
            for (int half = 0; half < 2; half++) {
                rfg_arrival_init(&b->copied[tile][half], COPIERS);
                rfg_arrival_init(&b->empty[tile][half], 4);
            }
        }
    }
    rfg_barrier_lds();
    rfg_await_previous();
    struct work_item it;
    int tiles = (a.sq * a.hq + ROWS - 1) / ROWS, item = rfg_group_x() / (PARTS * CLUSTERS);
    if (rfg_thread() >= 2 * GROUP)
        expect_table(&a, item / tiles, rfg_thread() - 2 * GROUP);
    open_item(&a, &it, item, tiles);
    struct span span = span_of(&it);
    if (rfg_thread() >= 2 * GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COPY_REGISTERS));
        copy_all(&a, &map, &it, span, b, rfg_lds_address(lds), rfg_thread() - 2 * GROUP);
#if PARTS > 1
        rfg_cluster_arrive();
        rfg_cluster_wait();
        rfg_cluster_arrive();
        rfg_cluster_wait();
#endif
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MULTIPLY_REGISTERS));
        multiply_all(&a, &it, span, lds);
    }
}
