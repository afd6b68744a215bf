/* SPDX-License-Identifier: MIT
 *
 * Prefill's work item, of prefill_amd.hip, prefill_nvidia.hip and prefill_wgmma.hip: a tile of queries of a sequence
 * and a head, and what follows from the kernels' macros. */
#include "rfg_xcd.h"

/* Waves that have the same queries: each has its part of the output's columns, and makes all scores. */
#ifndef D_SPLIT
#define D_SPLIT 1
#endif
#define THREADS  (WAVES * RFG_WAVE)
#define WAVE_Q   (16 * FRAGS_Q)
#define TILE_Q   (WAVES / D_SPLIT * WAVE_Q)
#define BLOCKS   (TILE_KV / 16)
#define D_BLOCKS (DV / D_SPLIT / 16) /* of output, in a wave */
#define STEPS    (D / RFG_FRAG_K)
#define SLACK    8.0f   /* powers of two by which scores may exceed the maximum that was subtracted */
#define LOWEST   -1e30f /* rather than -inf, whose differences are NaN */

struct work_item {
    int b, kv_head, head;    /* PACK: the first head */
    int group;               /* query heads of a kv head */
    int sq, skv;             /* of the sequence */
    int row0, rows;          /* first row of the tile; rows of the sequence: queries, PACK: times heads */
    long long q_row, kv_row; /* first rows of the sequence */
};

/* The tile-th work item; false: it has no queries. Tiles with the most keys come first (causal: the last queries), of
 * all heads whose keys and values fit into the caches together, then those of the next heads. Neighbours have different
 * kv heads, so that on a GPU of several dies a head stays on one of them, or on as few as it takes to keep all busy. */
#define CACHE_BYTES (32ll << 20)
RFG_DEVICE bool find_item(const struct mha_args *a, struct work_item *p, int tile)
{
    p->group = a->hq / a->hkv;
    int per_kv = PACK ? 1 : p->group, of_head = PACK ? p->group : 1;
    int tiles = (int)(((long long)a->sq * of_head + TILE_Q - 1) / TILE_Q);
    long long bytes = (long long)a->skv * (2 * (D + DV));
    int share = 1, kvs = a->batch * a->hkv;
    while (share < kvs && share * 2 * bytes <= CACHE_BYTES)
        share *= 2;
    if (XCDS > 1) {
        share = share < XCDS ? XCDS : share;
        share = rfg_xcd_turns(share < kvs ? share : kvs);
    }
    rfg_u32 x = (rfg_u32)tile, section_groups = (rfg_u32)(share * per_kv) * (rfg_u32)tiles;
    int section = (int)(x / section_groups), rest = (int)(x - (rfg_u32)section * section_groups);
    int here = kvs - section * share < share ? kvs - section * share : share;
    if (here < 1)
        return false;
    int first = section * share;
    if (XCDS > 1 && here < share) { /* the last ones */
        int few = rfg_xcd_turns(here);
        while (rest >= few * per_kv * tiles) {
            rest -= few * per_kv * tiles;
            first += few;
            here -= few;
            if (here < 1)
                return false;
            few = rfg_xcd_turns(here);
        }
        here = few;
    }
    int rank = rest / (here * per_kv);
    rest -= rank * here * per_kv;
    int kv = first + rest % here;
    p->b = kv / a->hkv;
    p->kv_head = kv - p->b * a->hkv;
    p->head = p->kv_head * p->group + (PACK ? 0 : rest / here);
    p->row0 = (tiles - 1 - rank) * TILE_Q;
    p->sq = a->sq;
    p->skv = a->skv;
    p->q_row = p->kv_row = 0;
    if (a->q_begin) {
        int begin = within((int)rfg_load4(a->q_begin + p->b), 0, a->tokens);
        p->sq = within((int)rfg_load4(a->q_begin + p->b + 1), begin, a->tokens) -
                begin; /* the last query sees the last key, though no more than a->sq queries are computed */
        p->q_row = begin;
    }
    if (a->kv_begin) {
        int begin = within((int)rfg_load4(a->kv_begin + p->b), 0, a->skv);
        p->skv = within((int)rfg_load4(a->kv_begin + p->b + 1), begin, a->skv) - begin;
        p->kv_row = begin;
    }
    if (a->kv_lens)
        p->skv = within((int)rfg_load4(a->kv_lens + p->b), 0, a->skv);
    p->rows = (p->sq < a->sq ? p->sq : a->sq) * of_head;
    return p->row0 < p->rows;
}

RFG_DEVICE int query_of(const struct work_item *p, int row)
{
    return PACK ? row / p->group : row;
}
RFG_DEVICE int head_of(const struct work_item *p, int row)
{
    return PACK ? p->head + row % p->group : p->head;
}
/* Of element 0. */
RFG_DEVICE rfg_u16 *element_of(const struct mha_args *a, const struct mha_rows *t, const struct work_item *p, int row)
{
    long long b = a->q_begin ? 0 : p->b;
    return (rfg_u16 *)t->data + b * t->batch + (p->q_row + query_of(p, row)) * t->token + head_of(p, row) * t->head;
}
