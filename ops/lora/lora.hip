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
#include "rfg_ballot.h"
#include "lora/lora_args.h"

#define THREADS (WAVES * RFG_WAVE)
#define CHAINS  32
#define NODES   (WAVES * CLUSTER)
#define DEPTH   (CHAINS / NODES)
#define BLOCK   64 /* columns */
#define ROUND   (CHAINS * BLOCK)
#define IDS     (LORA_WINDOW / RFG_WAVE) /* of a lane */
#define GRAIN   128                      /* columns: parts are whole ones */

/* A product of 16 ranks by X_ROWS rows, 32 columns at a time. A lane has W_POINTERS rows of a, X_POINTERS of x. */
#if RFG_HAS_MMA
#define X_ROWS     RFG_FRAG_X_ROWS
#define X_POINTERS 1
#define W_POINTERS (RFG_NVIDIA ? 2 : 1)
#define W_PIECES   RFG_FRAG_AB
#define X_PIECES   RFG_FRAG_X
#define SUMS       RFG_FRAG_WX
typedef rfg_frag_wx sums;
#else
#define X_ROWS     (RFG_WAVE / 4)
#define X_POINTERS 4
#define W_POINTERS 1
#define W_PIECES   4
#define X_PIECES   4
#define SUMS       4
typedef struct sums {
    float v[SUMS];
} sums;
#endif
#define RT    (RANKS / 16)
#define XT    (ROWS / X_ROWS)
/* Chains whose blocks a wave has in flight, as far as its registers hold them; levels of the tree above them. */
#define HELD (8 * (RT * W_PIECES + XT * X_POINTERS * X_PIECES))
#define MOST   (HELD <= 24 ? 4 : HELD <= 32 ? 2 : 1)
#define AHEAD  (MOST < DEPTH ? MOST : DEPTH)
#define LEVELS 6
#define WORDS (RT * XT * (SUMS / 4) * RFG_WAVE) /* of 16 bytes: a node */

struct tile {
    int adapter, rows, rank;
    float scale;
};

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

RFG_DEVICE int w_row(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_row(i);
#else
    (void)i;
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int x_row(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_row(i);
#else
    return 4 * (rfg_lane() / 16) + i;
#endif
}
RFG_DEVICE int chunk_of(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_chunk(i);
#else
    return i;
#endif
}
/* Element i of a lane's sums: its rank and row. */
RFG_DEVICE int sum_rank(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_c_row(i);
#else
    (void)i;
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int sum_row(int i)
{
#if RFG_HAS_MMA
    return rfg_frag_c_col(i);
#else
    return x_row(i);
#endif
}

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

/* The window's tile number `wanted`: its adapter, and its rows, which the first wave writes to LDS. False: there are
 * fewer. */
RFG_DEVICE bool find_tile(int window, const int *id, int wanted, struct tile *t, int *rows)
{
    rfg_lanes left[IDS], same[IDS];
    int before = 0, count, tiles, at = 0;
#pragma unroll
    for (int j = 0; j < IDS; j++)
        left[j] = rfg_ballot(id[j] >= 0);
    for (;;) {
        if (IDS == 2 && !left[0] ? !left[IDS - 1] : !left[0])
            return false;
        t->adapter = IDS == 2 && !left[0] ? (int)rfg_shuffle_u32((rfg_u32)id[IDS - 1], rfg_first_lane(left[IDS - 1]))
                                          : (int)rfg_shuffle_u32((rfg_u32)id[0], rfg_first_lane(left[0]));
        count = 0;
#pragma unroll
        for (int j = 0; j < IDS; j++) {
            same[j] = rfg_ballot(id[j] == t->adapter);
            left[j] &= ~same[j];
            count += (int)rfg_count_lanes(same[j]);
        }
        tiles = (count + ROWS - 1) / ROWS;
        if (wanted < before + tiles)
            break;
        before += tiles;
    }
    int first = (wanted - before) * ROWS;
    t->rows = count - first < ROWS ? count - first : ROWS;
#pragma unroll
    for (int j = 0; j < IDS; j++) {
        int place = at + (int)rfg_lanes_below(same[j]) - first;
        if (rfg_wave() == 0 && id[j] == t->adapter && place >= 0 && place < ROWS)
            rows[place] = window * LORA_WINDOW + j * RFG_WAVE + rfg_lane();
        at += (int)rfg_count_lanes(same[j]);
    }
    return true;
}

/* ---- the shrink -------------------------------------------------------------------------------------------------- */

struct pointers {
    const char *w[RT][W_POINTERS], *x[XT][X_POINTERS];
};

/* The chunk of a row from a column on; 0 behind the row's end, which whole: isn't near. */
RFG_DEVICE rfg_u32x4 load(const char *row, int col, int k, int width, bool whole)
{
    rfg_u32x4 v;
    v.x = v.y = v.z = v.w = 0;
    if (whole || col < k)
        v = rfg_load_chunk(row, (rfg_u32)col * 2u, whole ? RFG_MAX_VEC : k - col, IN_DTYPE, width, false);
    return v;
}

/* c += a x^T over 32 columns. */
RFG_DEVICE void product(sums *c, const rfg_u32x4 *w, const rfg_u32x4 (*x)[X_PIECES])
{
#if RFG_HAS_MMA
    rfg_frag_ab fw;
    rfg_frag_x fx;
#pragma unroll
    for (int i = 0; i < W_PIECES; i++)
        fw.v[i] = w[i];
#pragma unroll
    for (int i = 0; i < X_PIECES; i++)
        fx.v[i] = x[0][i];
    rfg_frag_mma_wx(c, &fw, &fx, IN_DTYPE);
#else
#pragma unroll
    for (int p = 0; p < 4; p++) {
        float f[RFG_MAX_VEC], g[RFG_MAX_VEC];
        rfg_unpack(f, w[p], IN_DTYPE);
#pragma unroll
        for (int i = 0; i < X_POINTERS; i++) {
            rfg_unpack(g, x[i][p], IN_DTYPE);
#pragma unroll
            for (int k = 0; k < RFG_MAX_VEC; k++)
                c->v[i] = rfg_fma(f[k], g[k], c->v[i]);
        }
    }
#endif
}

/* The block at a column, of all ranks and rows. */
RFG_DEVICE void add_block(sums (*c)[XT], const struct pointers *p, int col, int k, bool whole)
{
#pragma unroll
    for (int half = 0; half < BLOCK; half += 32) {
        rfg_u32x4 w[RT][W_PIECES], x[XT][X_POINTERS][X_PIECES];
#pragma unroll
        for (int r = 0; r < RT; r++)
#pragma unroll
            for (int i = 0; i < W_PIECES; i++)
                w[r][i] = load(p->w[r][W_POINTERS > 1 ? i : 0], col + half + 8 * chunk_of(i), k, WIDTH_A, whole);
#pragma unroll
        for (int m = 0; m < XT; m++)
#pragma unroll
            for (int n = 0; n < X_POINTERS; n++)
#pragma unroll
                for (int i = 0; i < X_PIECES; i++)
                    x[m][n][i] = load(p->x[m][n], col + half + 8 * chunk_of(i), k, WIDTH, whole);
#pragma unroll
        for (int r = 0; r < RT; r++)
#pragma unroll
            for (int m = 0; m < XT; m++)
                product(&c[r][m], w[r], x[m]);
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
        for (int i = 0; i < W_POINTERS; i++) {
            int rank = rank0 + r * 16 + w_row(i);
            p->w[r][i] = w + (rank < t->rank ? rank : t->rank - 1) * a->a_row * 2;
        }
#pragma unroll
    for (int m = 0; m < XT; m++)
#pragma unroll
        for (int i = 0; i < X_POINTERS; i++) {
            int row = m * X_ROWS + x_row(i);
            p->x[m][i] = (const char *)a->x + rows[row < t->rows ? row : 0] * a->ldx * 2;
        }
}

/* c += of neighbouring chains, from chain `first` on. */
RFG_DEVICE void add_chains(const struct lora_args *a, const struct pointers *p, int first, sums (*c)[RT][XT])
{
    int base = first * BLOCK;
#pragma unroll
    for (int d = 0; d < AHEAD; d++)
#pragma unroll
        for (int i = 0; i < RT * XT * SUMS; i++)
            c[d][i / SUMS / XT][i / SUMS % XT].v[i % SUMS] = 0.0f;
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
RFG_DEVICE void add_sums(sums (*to)[XT], sums (*a)[XT], sums (*b)[XT])
{
#pragma unroll
    for (int i = 0; i < RT * XT * SUMS; i++) {
        int r = i / SUMS / XT, m = i / SUMS % XT;
        to[r][m].v[i % SUMS] = a[r][m].v[i % SUMS] + b[r][m].v[i % SUMS];
    }
}

/* The tree of the wave's chains, AHEAD of them at a time. level[i] waits for another sum of as many chains. */
RFG_DEVICE void shrink(const struct lora_args *a, const struct pointers *p, int node, sums (*sum)[XT])
{
    sums level[LEVELS][RT][XT];
#pragma unroll
    for (int g = 0; g < DEPTH / AHEAD; g++) {
        sums c[AHEAD][RT][XT];
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
RFG_DEVICE void send(rfg_u32x4 *nodes, int node, sums (*c)[XT])
{
#pragma unroll
    for (int q = 0; q < WORDS / RFG_WAVE; q++) {
        const float *v = c[q / (SUMS / 4) / XT][q / (SUMS / 4) % XT].v + q % (SUMS / 4) * 4;
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
        int q = word / RFG_WAVE, tile = q / (SUMS / 4);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int i = q % (SUMS / 4) * 4 + j, rank = rank0 + tile / XT * 16 + sum_rank(i);
            h[(tile % XT * X_ROWS + sum_row(i)) * stride + rank] = rank < t->rank ? f[j] * t->scale : 0.0f;
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

/* Eight of b's columns, of which `left` are the adapter's; the others are 0. */
RFG_DEVICE void load_b(float *f, const char *row, int rank, int total, int left)
{
    rfg_unpack(f, rfg_load_chunk(row, (rfg_u32)rank * 2u, total - rank, IN_DTYPE, WIDTH_B, false), IN_DTYPE);
    if (left < RFG_MAX_VEC)
#pragma unroll
        for (int i = 0; i < RFG_MAX_VEC; i++)
            f[i] = i < left ? f[i] : 0.0f;
}

/* y of two neighbouring columns and EACH of the tile's rows. */
RFG_DEVICE void expand(const struct lora_args *a, const struct tile *t, const int *rows, const float *h, int stride,
                       int first, int col)
{
    bool both = col + 1 < a->n;
    const char *b = (const char *)a->b + (t->adapter * a->b_adapter + col * a->b_row) * 2;
    char *y = (char *)a->y + (long long)col * Y_BYTES;
    rfg_u32x2 was[EACH];
    rfg_f32x2 sum[EACH];
#pragma unroll
    for (int m = 0; m < EACH; m++) {
        was[m].x = was[m].y = 0;
        sum[m] = rfg_pair(0.0f, 0.0f);
        if (first + m < t->rows)
            was[m] = load_y(y + rows[first + m] * a->ldy * Y_BYTES, both);
    }
#pragma unroll 1
    for (int r = 0; r < t->rank; r += RFG_MAX_VEC) {
        float f[RFG_MAX_VEC], g[RFG_MAX_VEC];
        load_b(f, b, r, a->rank, t->rank - r);
        load_b(g, b + (both ? a->b_row * 2 : 0), r, a->rank, t->rank - r);
#pragma unroll
        for (int m = 0; m < EACH; m++)
#pragma unroll
            for (int i = 0; i < RFG_MAX_VEC; i += 4) {
                rfg_f32x4 v = *(const rfg_f32x4 *)(h + (first + m) * stride + r + i);
                sum[m] = rfg_fma2(rfg_pair(f[i], g[i]), rfg_pair(v.x, v.x), sum[m]);
                sum[m] = rfg_fma2(rfg_pair(f[i + 1], g[i + 1]), rfg_pair(v.y, v.y), sum[m]);
                sum[m] = rfg_fma2(rfg_pair(f[i + 2], g[i + 2]), rfg_pair(v.z, v.z), sum[m]);
                sum[m] = rfg_fma2(rfg_pair(f[i + 3], g[i + 3]), rfg_pair(v.w, v.w), sum[m]);
            }
    }
#pragma unroll
    for (int m = 0; m < EACH; m++)
        if (first + m < t->rows)
            store_y(y + rows[first + m] * a->ldy * Y_BYTES, was[m], sum[m], both);
}

RFG_DEVICE void expand_part(const struct lora_args *a, const struct tile *t, const int *rows, const float *h,
                            int stride, int part)
{
    int grains = (a->n + GRAIN - 1) / GRAIN, each = (grains + PARTS - 1) / PARTS * GRAIN;
    int from = part * each, pairs = each / 2, items = (t->rows + EACH - 1) / EACH * pairs;
    for (int i = rfg_thread(); i < items; i += THREADS) {
        int group = (int)((rfg_u32)i / (rfg_u32)pairs), col = from + 2 * (i - group * pairs);
        if (col < a->n)
            expand(a, t, rows, h, stride, group * EACH, col);
    }
}

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

RFG_DEVICE void run_tile(const struct lora_args *a, const struct tile *t, const int *rows, int part)
{
    int stride = (a->rank + RANKS - 1) / RANKS * RANKS, node = rfg_wave();
    rfg_u32x4 *nodes = rfg_lds + LORA_WINDOW / 4;
    float *h = (float *)(nodes + NODES * WORDS);
#if CLUSTER > 1
    node += rfg_cluster_rank() * WAVES;
#endif
#pragma unroll 1
    for (int rank0 = 0; rank0 < t->rank; rank0 += RANKS) {
        struct pointers p;
        sums c[RT][XT];
        find_rows(a, t, rows, rank0, &p);
        shrink(a, &p, node, c);
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
    rfg_barrier_lds();
    expand_part(a, t, rows, h, stride, part);
}

#if CLUSTER > 1
RFG_KERNEL_CLUSTER(THREADS, CLUSTER)
#else
RFG_KERNEL(THREADS)
#endif
lora_rows(struct lora_args args)
{
    int part = rfg_group_x() % PARTS, groups = rfg_groups_x(THREADS) / PARTS, windows = (args.m - 1) / LORA_WINDOW + 1;
    int slots = groups > windows ? groups / windows : 1, slot = rfg_group_x() / PARTS % slots;
    int id[IDS], *rows = (int *)rfg_lds;
    const struct lora_args *a = &args;
    rfg_start_next();
    rfg_await_previous();
#if CLUSTER > 1
    rfg_cluster_arrive();
#endif
    for (int w = rfg_group_x() / PARTS / slots; w < windows; w += groups / slots) {
        struct tile t;
#pragma unroll
        for (int j = 0; j < IDS; j++)
            id[j] = id_of(a, w * LORA_WINDOW + j * RFG_WAVE + rfg_lane());
        for (int number = slot; find_tile(w, id, number, &t, rows); number += slots) {
            rfg_barrier_lds();
            t.rank = a->ranks ? (int)rfg_load4(a->ranks + t.adapter) : a->rank;
            t.rank = t.rank < a->rank ? t.rank : a->rank;
            t.scale = a->scales ? a->scale * rfg_load_float(a->scales, t.adapter, RFG_F32) : a->scale;
            if (t.rank > 0)
                run_tile(a, &t, rows, part);
            rfg_barrier_lds();
        }
    }
#if CLUSTER > 1
    rfg_cluster_wait();
#endif
}
