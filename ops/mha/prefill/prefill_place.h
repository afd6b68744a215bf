/* SPDX-License-Identifier: MIT
 *
 * Of prefill.hip and prefill_wgmma.hip: what its macros come to, which element is which, and what a workgroup works at.
 */
#define THREADS  (WAVES * RFG_WAVE)
#define WAVE_Q   (16 * FRAGS_Q)
#define TILE_Q   (WAVES * WAVE_Q)
#define BLOCKS   (TILE_KV / 16)
#define D_BLOCKS (DV / 16)
#define STEPS    (D / RFG_FRAG_K)
#define SLACK    8.0f
#define LOWEST   -1e30f /* rather than -inf, of which differences are NaN */

/* Rows of K and V in LDS: whole 128 bytes. On AMD V's are rows of TILE_KV keys. */
#define K_CHUNKS  ((D / 8 + 7) / 8 * 8)
#define KV_CHUNKS (TILE_KV / 8)
#if RFG_NVIDIA
#define V_CHUNKS ((DV / 8 + 7) / 8 * 8)
#define V_TILE   (TILE_KV * V_CHUNKS)
#define HALVES   2 /* queries of a lane in a fragment of scores */
#else
#define V_TILE (DV * KV_CHUNKS)
#define HALVES 1
#endif
#define K_TILE (TILE_KV * K_CHUNKS)
#define STAGE  (K_TILE + V_TILE)
#define Q_AT   (STAGES * STAGE)
#if RFG_MFMA
#define SUMS 2 /* of a query's weights, of every other one each: added to each other at the end */
#else
#define SUMS 1
#endif

/* What a workgroup works at. */
struct place {
    int b, kv_head, head;    /* PACK: the first head */
    int group;               /* query heads of a kv head */
    int sq, skv;             /* of the sequence */
    int row0, rows;          /* first row of the tile; rows of the sequence: queries, PACK: times heads */
    long long q_row, kv_row; /* first rows of the sequence */
};

/* ---- which is which -------------------------------------------------------------------------------------------- */

/* The row, of a wave's, that element half of a lane's is. */
RFG_DEVICE int lane_row(int lane, int frag, int half)
{
#if RFG_NVIDIA
    return 16 * frag + lane / 4 + 8 * half;
#else
    (void)half;
    return 16 * frag + lane % 16;
#endif
}
RFG_DEVICE int half_of(int e)
{
#if RFG_NVIDIA
    return e / 2 % 2;
#else
    (void)e;
    return 0;
#endif
}
/* The key, of a tile's, that element e of a lane's fragment `block` is: a part that depends on the lane, and one that
 * doesn't. AMD, with d for key: what it is of the output. */
RFG_DEVICE int lane_key(int lane)
{
#if RFG_NVIDIA
    return 2 * (lane % 4);
#else
    return 8 * (lane / 16);
#endif
}
RFG_DEVICE int element_key(int block, int e)
{
#if RFG_NVIDIA
    return 16 * block + e % 2 + 8 * (e / 4);
#elif RFG_MFMA
    return 32 * (block / 2) + 4 * (block % 2) + e;
#else
    return 16 * block + e;
#endif
}

/* v, but what is found by it is found where it is needed, and not kept in registers through the loop. */
RFG_DEVICE int anew(int v)
{
#if RFG_NVIDIA
    asm volatile("" : "+r"(v));
#elif RFG_WAVE == 32
    asm volatile("" : "+v"(v));
#endif
    return v;
}
RFG_DEVICE int part_anew(void)
{
#if RFG_NVIDIA
    int part;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(part));
    return part;
#else
    return rfg_group_y();
#endif
}
RFG_DEVICE int parts_anew(void)
{
#if RFG_NVIDIA
    int parts;
    asm volatile("mov.u32 %0, %%nctaid.y;" : "=r"(parts));
    return parts;
#else
    return rfg_groups_y();
#endif
}
RFG_DEVICE int group_anew(void)
{
    return RFG_NVIDIA ? anew(rfg_group_x()) : rfg_group_x();
}
RFG_DEVICE int lane_anew(void)
{
#if RFG_NVIDIA
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread % RFG_WAVE;
#else
    return anew(rfg_lane());
#endif
}

/* The tile-th place. Tiles come heaviest first (causal: the last queries), over all heads whose keys and values fit
 * into the caches, then those of the next heads. Neighbours have different kv heads, which on an MI300 keeps a head to
 * one of eight dies. */
#define CACHE_BYTES (32ll << 20)
RFG_DEVICE bool find_place(const struct mha_args *a, struct place *p, int tile)
{
    p->group = a->hq / a->hkv;
    int per_kv = PACK ? 1 : p->group, of_head = PACK ? p->group : 1;
    int tiles = (int)(((long long)a->sq * of_head + TILE_Q - 1) / TILE_Q);
    long long bytes = (long long)a->skv * (2 * (D + DV));
    int share = 1, kvs = a->batch * a->hkv;
    while (share < kvs && share * 2 * bytes <= CACHE_BYTES)
        share *= 2;
    rfg_u32 x = (rfg_u32)tile, section_groups = (rfg_u32)(share * per_kv) * (rfg_u32)tiles;
    int section = (int)(x / section_groups), rest = (int)(x - (rfg_u32)section * section_groups);
    int here = kvs - section * share < share ? kvs - section * share : share;
    if (here < 1)
        return false;
    int rank = rest / (here * per_kv);
    rest -= rank * here * per_kv;
    int kv = section * share + rest % here;
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
                begin; /* what the last keys belong to, though no more than a->sq are answered */
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

RFG_DEVICE int query_of(const struct place *p, int row)
{
    return PACK ? row / p->group : row;
}
RFG_DEVICE int head_of(const struct place *p, int row)
{
    return PACK ? p->head + row % p->group : p->head;
}
/* Of element 0. */
RFG_DEVICE rfg_u16 *element_of(const struct mha_args *a, const struct mha_rows *t, const struct place *p, int row)
{
    long long b = a->q_begin ? 0 : p->b;
    return (rfg_u16 *)t->data + b * t->batch + (p->q_row + query_of(p, row)) * t->token + head_of(p, row) * t->head;
}
