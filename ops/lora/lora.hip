/* SPDX-License-Identifier: MIT
 *
 * Both steps of a LoRA in one launch. A workgroup has a tile: up to ROWS rows of the same adapter, and one of PARTS
 * ranges of y's columns. It multiplies its rows of x by all of a (the shrink: h[ROWS,rank], kept in LDS as fp32), then h
 * by its rows of b (the expand). The shrink is so done PARTS times, from the caches: cheaper than a second launch as
 * long as rank * K is small. With CLUSTER > 1 that many neighbours share one shrink and send each other their sums.
 *
 * Rows of an adapter are found among LORA_WINDOW neighbouring rows: each lane has their ids, and ballots find who has
 * the same. A window's tiles are numbered by the first row of their adapter. The launch's size says how many
 * workgroups there are for a window and a part: they go through its tiles in turn.
 *
 * The order of a row's sums never changes. K has CHAINS chains of blocks of 64 columns, block i in chain i % CHAINS. A
 * wave has DEPTH neighbouring chains. Chains are added as a balanced tree, first in the wave, then in LDS, so that
 * waves and clusters only move the line between the two. The expand adds from rank 0 up.
 *
 * Macros: IN_DTYPE (x, a, b), OUT_DTYPE (y), WIDTH, WIDTH_A, WIDTH_B, WIDTH_Y (bytes of an access), WAVES, ROWS, PARTS,
 * CLUSTER, EACH (rows of a thread in the expand), RANKS (of a pass of the shrink). */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_ballot.h"
#include "rfg_frag_any.h"
#include "lora/lora_args.h"

#define THREADS (WAVES * RFG_WAVE)
#define CHAINS  32
#define NODES   (WAVES * CLUSTER)
#define DEPTH   (CHAINS / NODES)
#define BLOCK   64 /* columns */
#define ROUND   (CHAINS * BLOCK)
#define IDS     (LORA_WINDOW / RFG_WAVE) /* of a lane */
#define GRAIN   128                      /* columns: parts are whole ones */

#define RT (RANKS / 16)
#define XT (ROWS / RFG_WX_ROWS)
/* Chains whose blocks a wave has in flight, as far as its registers hold them; levels of the tree above them. */
#define HELD   (8 * (RT * RFG_WX_W_PIECES + XT * RFG_WX_X * RFG_WX_X_PIECES))
#define MOST   (HELD <= 24 ? 4 : HELD <= 32 ? 2 : 1)
#define AHEAD  (MOST < DEPTH ? MOST : DEPTH)
#define LEVELS 6
#define EARLY  (ROWS <= 16)                             /* registers hold a thread's part of y and b, too */
#define WORDS  (RT * XT * (RFG_WX_SUMS / 4) * RFG_WAVE) /* of 16 bytes: a node */

struct tile {
    int adapter, rows, rank;
    float scale;
};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The adapter of a row, or -1. */
RFG_DEVICE int id_of(const struct lora_args *a, int row)
{
    int at = row;
    if (row >= a->m)
        return -1;
    if (a->indptr) {
        int to = a->segments;
        at = 0;
        while (at < to) { /* the first segment that ends behind it */
            int mid = (at + to) / 2;
            if ((int)rfg_load4(a->indptr + mid + 1) <= row)
                at = mid + 1;
            else
                to = mid;
        }
        if (at == a->segments || (int)rfg_load4(a->indptr + at) > row)
            return -1;
    }
    int id = (int)rfg_load4(a->ids + at);
    return id < a->adapters ? id : -1;
}

/* A lane's rows of a window. place: of a row among those of its adapter; tiles begin where it is a multiple of ROWS. */
struct window {
    int id[IDS], place[IDS], tiles;
    rfg_lanes begins[IDS];
};

RFG_DEVICE void find_window(const struct lora_args *a, int number, struct window *w)
{
    rfg_lanes same[IDS][IDS];
    w->tiles = 0;
#pragma unroll
    for (int j = 0; j < IDS; j++)
        w->id[j] = id_of(a, number * LORA_WINDOW + j * RFG_WAVE + rfg_lane());
#pragma unroll
    for (int k = 0; k < IDS; k++) {
        rfg_lanes there = rfg_ballot(w->id[k] >= 0);
#pragma unroll
        for (int j = 0; j < IDS; j++)
            same[j][k] = there;
    }
    for (rfg_u32 bit = 1; bit < (rfg_u32)a->adapters; bit *= 2)
#pragma unroll
        for (int k = 0; k < IDS; k++) {
            rfg_lanes ones = rfg_ballot(((rfg_u32)w->id[k] & bit) != 0);
#pragma unroll
            for (int j = 0; j < IDS; j++)
                same[j][k] &= (rfg_u32)w->id[j] & bit ? ones : ~ones;
        }
#pragma unroll
    for (int j = 0; j < IDS; j++) {
        w->place[j] = (int)rfg_lanes_below(same[j][j]);
#pragma unroll
        for (int k = 0; k < j; k++)
            w->place[j] += (int)rfg_count_lanes(same[j][k]);
        w->begins[j] = rfg_ballot(w->id[j] >= 0 && w->place[j] % ROWS == 0);
        w->tiles += (int)rfg_count_lanes(w->begins[j]);
    }
}

/* A tile of the window: its adapter, and its rows, which the first wave writes to LDS. */
RFG_DEVICE void find_tile(const struct window *w, int window, int number, struct tile *t, int *rows)
{
    int first = 0, before = 0;
    t->rows = t->adapter = 0;
#pragma unroll
    for (int j = 0; j < IDS; j++) {
        bool begins = w->id[j] >= 0 && w->place[j] % ROWS == 0;
        rfg_lanes found = rfg_ballot(begins && before + (int)rfg_lanes_below(w->begins[j]) == number);
        if (found) {
            t->adapter = rfg_uniform_int((int)rfg_shuffle_u32((rfg_u32)w->id[j], rfg_first_lane(found)));
            first = (int)rfg_shuffle_u32((rfg_u32)w->place[j], rfg_first_lane(found));
        }
        before += (int)rfg_count_lanes(w->begins[j]);
    }
#pragma unroll
    for (int j = 0; j < IDS; j++) {
        int place = w->place[j] - first;
        bool one = w->id[j] == t->adapter && place >= 0 && place < ROWS;
        if (one && rfg_wave() == 0)
            rows[place] = window * LORA_WINDOW + j * RFG_WAVE + rfg_lane();
        t->rows += (int)rfg_count_lanes(rfg_ballot(one));
    }
}

/* ---- the shrink -------------------------------------------------------------------------------------------------- */

struct pointers {
    const char *w[RT][RFG_WX_W], *x[XT][RFG_WX_X];
};

/* The chunk of a row from a column on; 0 behind the row's end, which whole: isn't near. */
RFG_DEVICE rfg_u32x4 load(const char *row, int col, int k, int width, bool whole)
{
    rfg_u32x4 v;
    v.x = v.y = v.z = v.w = 0;
    if (!whole) /* or the masks of other rows' loads are kept for this one's */
        col = (int)rfg_anew((rfg_u32)col);
    if (whole || col < k)
        v = rfg_load_chunk(row, (rfg_u32)col * 2u, whole ? RFG_MAX_VEC : k - col, IN_DTYPE, width, false);
    if (!whole) /* or the masks of all loads are kept in scalar registers */
        rfg_keep_order();
    return v;
}

/* The block at a column, of all ranks and rows. */
RFG_DEVICE void add_block(rfg_wx (*c)[XT], const struct pointers *p, int col, int k, bool whole)
{
#pragma unroll
    for (int half = 0; half < BLOCK; half += 32) {
        rfg_u32x4 w[RT][RFG_WX_W_PIECES], x[XT][RFG_WX_X][RFG_WX_X_PIECES];
#pragma unroll
        for (int r = 0; r < RT; r++)
#pragma unroll
            for (int i = 0; i < RFG_WX_W_PIECES; i++)
                w[r][i] = load(p->w[r][RFG_WX_W > 1 ? i : 0], col + half + 8 * rfg_wx_chunk(i), k, WIDTH_A, whole);
#pragma unroll
        for (int m = 0; m < XT; m++)
#pragma unroll
            for (int n = 0; n < RFG_WX_X; n++)
#pragma unroll
                for (int i = 0; i < RFG_WX_X_PIECES; i++)
                    x[m][n][i] = load(p->x[m][n], col + half + 8 * rfg_wx_chunk(i), k, WIDTH, whole);
#pragma unroll
        for (int r = 0; r < RT; r++)
#pragma unroll
            for (int m = 0; m < XT; m++) {
                rfg_wx_product(&c[r][m], w[r], x[m], IN_DTYPE);
                if (!whole)
                    rfg_wx_settle(&c[r][m]);
            }
    }
}

/* Rows that aren't there are others' again: nobody looks at what becomes of them. */
RFG_DEVICE void find_rows(const struct lora_args *a, const struct tile *t, const int *rows, int rank0,
                          struct pointers *p)
{
    const char *w = (const char *)a->a + t->adapter * a->a_adapter * 2;
#pragma unroll
    for (int r = 0; r < RT; r++)
#pragma unroll
        for (int i = 0; i < RFG_WX_W; i++) {
            int rank = rank0 + r * 16 + rfg_wx_w_row(i);
            p->w[r][i] = w + (rank < t->rank ? rank : t->rank - 1) * a->a_row * 2;
        }
#pragma unroll
    for (int m = 0; m < XT; m++)
#pragma unroll
        for (int i = 0; i < RFG_WX_X; i++) {
            int row = m * RFG_WX_ROWS + rfg_wx_x_row(i);
            p->x[m][i] = (const char *)a->x + rows[row < t->rows ? row : 0] * a->ldx * 2;
        }
}

/* c += of neighbouring chains, from chain `first` on. */
RFG_DEVICE void add_chains(const struct lora_args *a, const struct pointers *p, int first, rfg_wx (*c)[RT][XT])
{
    int base = first * BLOCK;
#pragma unroll
    for (int d = 0; d < AHEAD; d++)
#pragma unroll
        for (int i = 0; i < RT * XT * RFG_WX_SUMS; i++)
            c[d][i / RFG_WX_SUMS / XT][i / RFG_WX_SUMS % XT].v[i % RFG_WX_SUMS] = 0.0f;
#pragma unroll 1
    for (; base + AHEAD * BLOCK <= a->k; base += ROUND)
#pragma unroll
        for (int d = 0; d < AHEAD; d++)
            add_block(c[d], p, base + d * BLOCK, a->k, true);
    if (base < a->k)
#pragma unroll
        for (int d = 0; d < AHEAD; d++)
            add_block(c[d], p, base + d * BLOCK, a->k, false);
}

/* to = a + b, of all sums. */
RFG_DEVICE void add_sums(rfg_wx (*to)[XT], rfg_wx (*a)[XT], rfg_wx (*b)[XT])
{
#pragma unroll
    for (int i = 0; i < RT * XT * RFG_WX_SUMS; i++) {
        int r = i / RFG_WX_SUMS / XT, m = i / RFG_WX_SUMS % XT;
        to[r][m].v[i % RFG_WX_SUMS] = a[r][m].v[i % RFG_WX_SUMS] + b[r][m].v[i % RFG_WX_SUMS];
    }
}

/* The tree of the wave's chains, AHEAD of them at a time. level[i] waits for another sum of as many chains. */
RFG_DEVICE void shrink(const struct lora_args *a, const struct pointers *p, int node, rfg_wx (*sum)[XT])
{
    rfg_wx level[LEVELS][RT][XT];
#pragma unroll
    for (int g = 0; g < DEPTH / AHEAD; g++) {
        rfg_wx c[AHEAD][RT][XT];
        int l = 0;
        add_chains(a, p, node * DEPTH + g * AHEAD, c);
#pragma unroll
        for (int by = 1; by < AHEAD; by *= 2)
#pragma unroll
            for (int d = 0; d < AHEAD; d += 2 * by)
                add_sums(c[d], c[d], c[d + by]);
#pragma unroll
        for (int bit = 1; bit < DEPTH / AHEAD; bit *= 2)
            if ((g & (2 * bit - 1)) == 2 * bit - 1) {
                add_sums(c[0], level[l], c[0]);
                l++;
            }
#pragma unroll
        for (int i = 0; i < RT * XT; i++) {
            level[l][i / XT][i % XT] = c[0][i / XT][i % XT];
            sum[i / XT][i % XT] = c[0][i / XT][i % XT];
        }
    }
}

/* A wave's sums, a word for each lane and four of them. */
RFG_DEVICE void send(rfg_u32x4 *nodes, int node, rfg_wx (*c)[XT])
{
#pragma unroll
    for (int q = 0; q < WORDS / RFG_WAVE; q++) {
        const float *v = c[q / (RFG_WX_SUMS / 4) / XT][q / (RFG_WX_SUMS / 4) % XT].v + q % (RFG_WX_SUMS / 4) * 4;
        float *to = (float *)(nodes + node * WORDS + q * RFG_WAVE + rfg_lane());
        rfg_f32x4 f;
        f.x = v[0];
        f.y = v[1];
        f.z = v[2];
        f.w = v[3];
#if CLUSTER > 1
#pragma unroll
        for (int rank = 0; rank < CLUSTER; rank++)
            rfg_cluster_store16(to, rank, f);
#else
        *(rfg_f32x4 *)to = f;
#endif
    }
}

/* h of a pass: the sum of all nodes, as a tree, times the scale. Ranks that the adapter lacks are 0. */
RFG_DEVICE void combine(const rfg_u32x4 *nodes, const struct tile *t, float *h, int stride, int rank0)
{
    for (int word = rfg_thread(); word < WORDS; word += THREADS) {
        rfg_f32x4 level[6], v;
#pragma unroll
        for (int i = 0; i < NODES; i++) {
            v = *(const rfg_f32x4 *)(nodes + i * WORDS + word);
            int l = 0;
#pragma unroll
            for (int bit = 1; bit < NODES; bit *= 2) {
                if ((i & (2 * bit - 1)) != 2 * bit - 1)
                    continue;
                v = rfg_add_f32x4(level[l], v);
                l++;
            }
            level[l] = v;
        }
        float f[4] = { v.x, v.y, v.z, v.w };
        int q = word / RFG_WAVE, tile = q / (RFG_WX_SUMS / 4);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int i = q % (RFG_WX_SUMS / 4) * 4 + j, rank = rank0 + tile / XT * 16 + rfg_wx_sum_w(i);
            h[(tile % XT * RFG_WX_ROWS + rfg_wx_sum_x(i)) * stride + rank] = rank < t->rank ? f[j] * t->scale : 0.0f;
        }
    }
}

/* ---- the expand -------------------------------------------------------------------------------------------------- */

#define Y_BYTES RFG_DTYPE_BYTES(OUT_DTYPE)

/* Two neighbours of y; only the first if !both. */
RFG_DEVICE rfg_u32x2 load_y(const char *p, bool both)
{
    rfg_u32x2 v;
    v.x = v.y = 0;
    if (OUT_DTYPE == RFG_F32) {
        if (WIDTH_Y == 8)
            return rfg_load8(p);
        v.x = rfg_load4(p);
        if (both)
            v.y = rfg_load4(p + 4);
    } else if (WIDTH_Y == 4) {
        v.x = rfg_load4(p);
    } else {
        v.x = rfg_load2(p);
        if (both)
            v.x |= (rfg_u32)rfg_load2(p + 2) << 16;
    }
    return v;
}

/* A NaN of a scale may be any: see rfg_pack_bf16(). */
RFG_DEVICE float quiet(float f)
{
    return OUT_DTYPE != RFG_BF16 || f == f ? f : rfg_as_float(0x7fc00000u);
}

RFG_DEVICE void store_y(char *p, rfg_u32x2 v, rfg_f32x2 add, bool both)
{
    if (OUT_DTYPE == RFG_F32) {
        v.x = rfg_as_u32(rfg_as_float(v.x) + add.x);
        v.y = rfg_as_u32(rfg_as_float(v.y) + add.y);
        if (WIDTH_Y == 8) {
            rfg_store8(p, v);
            return;
        }
        rfg_store4(p, v.x);
        if (both)
            rfg_store4(p + 4, v.y);
        return;
    }
    float lo = quiet(rfg_low(v.x, OUT_DTYPE) + add.x), hi = quiet(rfg_high(v.x, OUT_DTYPE) + add.y);
    rfg_u32 two = OUT_DTYPE == RFG_F16 ? rfg_pack_f16(lo, hi) : rfg_pack_bf16(lo, hi);
    if (WIDTH_Y == 4) {
        rfg_store4(p, two);
        return;
    }
    rfg_store2(p, (rfg_u16)two);
    if (both)
        rfg_store2(p + 2, (rfg_u16)(two >> 16));
}

/* Two neighbouring columns and EACH of the tile's rows: where they are, y, and b's first 16 ranks. */
struct item {
    int first, col;
    rfg_u32x2 was[EACH];
    rfg_u32x4 f[2], g[2];
};
struct part {
    int from, pairs, items;
};

RFG_DEVICE rfg_u32x4 load_b(const struct lora_args *a, const struct tile *t, int col, int rank)
{
    const char *b = (const char *)a->b + (t->adapter * a->b_adapter + col * a->b_row) * 2;
    rfg_u32x4 v;
    v.x = v.y = v.z = v.w = 0;
    if (rank < t->rank)
        v = rfg_load_chunk(b, (rfg_u32)rank * 2u, a->rank - rank, IN_DTYPE, WIDTH_B, false);
    if (WIDTH_B < 16)
        rfg_keep_order();
    return v;
}

RFG_DEVICE int second_col(const struct lora_args *a, int col)
{
    return col + 1 < a->n ? col + 1 : col;
}

RFG_DEVICE void load_item(const struct lora_args *a, const struct tile *t, const struct part *p, const int *rows, int i,
                          struct item *e)
{
    int group = (int)((rfg_u32)i / (rfg_u32)p->pairs);
    e->first = group * EACH;
    e->col = i < p->items ? p->from + 2 * (i - group * p->pairs) : a->n;
    if (e->col >= a->n)
        return;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        e->f[c] = load_b(a, t, e->col, c * RFG_MAX_VEC);
        e->g[c] = load_b(a, t, second_col(a, e->col), c * RFG_MAX_VEC);
    }
#pragma unroll
    for (int m = 0; m < EACH; m++) {
        e->was[m].x = e->was[m].y = 0;
        if (e->first + m < t->rows)
            e->was[m] = load_y((char *)a->y + (rows[e->first + m] * a->ldy + e->col) * Y_BYTES, e->col + 1 < a->n);
        if (WIDTH_Y < 4 || OUT_DTYPE == RFG_F32)
            rfg_keep_order();
    }
}

/* b's ranks behind the adapter's are 0. */
RFG_DEVICE void unpack_b(float *f, rfg_u32x4 v, int left)
{
    rfg_unpack(f, v, IN_DTYPE);
    if (left < RFG_MAX_VEC)
#pragma unroll
        for (int i = 0; i < RFG_MAX_VEC; i++)
            f[i] = i < left ? f[i] : 0.0f;
}

/* sum += eight ranks of both columns by those of h. */
RFG_DEVICE void add_ranks(rfg_f32x2 *sum, rfg_u32x4 b0, rfg_u32x4 b1, const float *h, int stride, int left)
{
    float f[RFG_MAX_VEC], g[RFG_MAX_VEC];
    unpack_b(f, b0, left);
    unpack_b(g, b1, left);
#pragma unroll
    for (int m = 0; m < EACH; m++)
#pragma unroll
        for (int i = 0; i < RFG_MAX_VEC; i += 4) {
            rfg_f32x4 v = *(const rfg_f32x4 *)(h + m * stride + i);
            sum[m] = rfg_fma2(rfg_pair(f[i], g[i]), rfg_pair(v.x, v.x), sum[m]);
            sum[m] = rfg_fma2(rfg_pair(f[i + 1], g[i + 1]), rfg_pair(v.y, v.y), sum[m]);
            sum[m] = rfg_fma2(rfg_pair(f[i + 2], g[i + 2]), rfg_pair(v.z, v.z), sum[m]);
            sum[m] = rfg_fma2(rfg_pair(f[i + 3], g[i + 3]), rfg_pair(v.w, v.w), sum[m]);
        }
}

RFG_DEVICE void expand(const struct lora_args *a, const struct tile *t, const int *rows, const float *h, int stride,
                       const struct item *e)
{
    rfg_f32x2 sum[EACH];
    h += e->first * stride;
#pragma unroll
    for (int m = 0; m < EACH; m++)
        sum[m] = rfg_pair(0.0f, 0.0f);
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (c * RFG_MAX_VEC < t->rank)
            add_ranks(sum, e->f[c], e->g[c], h + c * RFG_MAX_VEC, stride, t->rank - c * RFG_MAX_VEC);
#pragma unroll 1
    for (int r = 2 * RFG_MAX_VEC; r < t->rank; r += RFG_MAX_VEC)
        add_ranks(sum, load_b(a, t, e->col, r), load_b(a, t, second_col(a, e->col), r), h + r, stride, t->rank - r);
#pragma unroll
    for (int m = 0; m < EACH; m++)
        if (e->first + m < t->rows)
            store_y((char *)a->y + (rows[e->first + m] * a->ldy + e->col) * Y_BYTES, e->was[m], sum[m],
                    e->col + 1 < a->n);
}

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

RFG_DEVICE void run_tile(const struct lora_args *given, const struct tile *t, const int *rows, int number)
{
    struct lora_args args = *given;
    const struct lora_args *a = &args;
    int stride = (a->rank + RANKS - 1) / RANKS * RANKS, node = rfg_wave();
    rfg_u32x4 *nodes = rfg_lds + LORA_WINDOW / 4;
    float *h = (float *)(nodes + NODES * WORDS);
    int grains = (a->n + GRAIN - 1) / GRAIN, columns = (grains + PARTS - 1) / PARTS * GRAIN;
    struct part p = { number * columns, columns / 2, (t->rows + EACH - 1) / EACH * (columns / 2) };
    struct item e;
#if CLUSTER > 1
    node += rfg_cluster_rank() * WAVES;
#endif
    if (EARLY) /* in flight beside the shrink's loads */
        load_item(a, t, &p, rows, rfg_thread(), &e);
#pragma unroll 1
    for (int rank0 = 0; rank0 < t->rank; rank0 += RANKS) {
        struct pointers at;
        rfg_wx c[RT][XT];
        RFG_REREAD_ARGS(args, given); /* rather than keep them all in scalar registers: so below */
        find_rows(a, t, rows, rank0, &at);
        shrink(a, &at, node, c);
#if CLUSTER > 1
        rfg_cluster_wait(); /* all have read the nodes before */
        send(nodes, node, c);
        rfg_cluster_arrive();
        rfg_cluster_wait();
        combine(nodes, t, h, stride, rank0);
        rfg_cluster_arrive();
#else
        if (rank0)
            rfg_barrier_lds();
        send(nodes, node, c);
        rfg_barrier_lds();
        combine(nodes, t, h, stride, rank0);
#endif
    }
    RFG_REREAD_ARGS(args, given);
    if (!EARLY)
        load_item(a, t, &p, rows, rfg_thread(), &e);
    rfg_barrier_lds();
    for (int i = rfg_thread(); i < p.items; i += THREADS) {
        if (e.col < a->n)
            expand(a, t, rows, h, stride, &e);
        load_item(a, t, &p, rows, i + THREADS, &e);
    }
}

#if CLUSTER > 1
RFG_KERNEL_CLUSTER(THREADS, CLUSTER)
#else
RFG_KERNEL(THREADS)
#endif
lora_rows(struct lora_args given)
{
    struct lora_args args = given;
    int part = rfg_group_x() % PARTS, groups = rfg_groups_x(THREADS) / PARTS, windows = (args.m - 1) / LORA_WINDOW + 1;
    int slots = groups > windows ? groups / windows : 1, slot = rfg_group_x() / PARTS % slots;
    int *rows = (int *)rfg_lds;
    const struct lora_args *a = &args;
    rfg_start_next();
    rfg_await_previous();
#if CLUSTER > 1
    rfg_cluster_arrive();
#endif
    for (int w = rfg_group_x() / PARTS / slots; w < windows; w += groups / slots) {
        struct window window;
        RFG_REREAD_ARGS(args, &given);
        find_window(a, w, &window);
        for (int number = slot; number < window.tiles; number += slots) {
            struct tile t;
            find_tile(&window, w, number, &t, rows);
            rfg_barrier_lds();
            RFG_REREAD_ARGS(args, &given);
            t.rank = a->ranks ? rfg_uniform_int((int)rfg_load4(a->ranks + t.adapter)) : a->rank;
            t.rank = t.rank < a->rank ? t.rank : a->rank;
            t.scale = a->scales ? a->scale * rfg_load_float(a->scales, t.adapter, RFG_F32) : a->scale;
            if (t.rank > 0)
                run_tile(&given, &t, rows, part);
            rfg_barrier_lds();
        }
    }
#if CLUSTER > 1
    rfg_cluster_wait();
#endif
}
