/* SPDX-License-Identifier: MIT
 *
 * Both steps of a LoRA in one launch. A workgroup has a tile: up to ROWS rows of the same adapter, and one of PARTS
 * ranges of y's columns. It multiplies its rows of x by all of a (the shrink: h[ROWS,rank], kept in LDS as fp32), then h
 * by its rows of b (the expand). The shrink is so done PARTS times, from the caches: cheaper than a second launch as
 * long as rank * K is small. With CLUSTER > 1 that many neighbours share one shrink and send each other their sums: of
 * parts of K, or, with SHARE, of RANKS ranks each and all of K, which are h.
 *
 * Rows of an adapter are found among LORA_WINDOW neighbouring rows: each lane has their ids, and ballots find who has
 * the same. A window's tiles are numbered by the first row of their adapter. The launch's size says how many
 * workgroups there are for a window and a part: they go through its tiles in turn.
 *
 * The order of a row's sums never changes. K has CHAINS chains of blocks of 64 columns, block i in chain i % CHAINS. A
 * wave has DEPTH neighbouring chains. Chains are added as a balanced tree, first in the wave, then in LDS, then in the
 * cluster, so that these only move the lines between the three. The expand adds from rank 0 up.
 *
 * What takes time is latency: ids, then x and a, then LDS, then y. So b and y are loaded beside x and a, as many blocks
 * of K are in flight as registers hold, and with FETCH all tensors are brought into L2 while ids are on their way.
 *
 * Macros: IN_DTYPE (x, a, b), OUT_DTYPE (y), WIDTH, WIDTH_A, WIDTH_B, WIDTH_Y (bytes of an access), WAVES, ROWS, PARTS,
 * CLUSTER, EACH (rows of a thread in the expand), RANKS (of a workgroup in a pass of the shrink), SHARE, FETCH, HOPPER (there are
 * clusters). */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_ballot.h"
#include "rfg_frag_any.h"
#include "lora/lora_args.h"

#define THREADS (WAVES * RFG_WAVE)
#define CHAINS  32
#define DEPTH   (CHAINS / (WAVES * (SHARE ? 1 : CLUSTER)))
#define BLOCK   64 /* columns */
#define ROUND   (CHAINS * BLOCK)
#define IDS     (LORA_WINDOW / RFG_WAVE) /* of a lane */
#define GRAIN   128                      /* columns: parts are whole ones */

#define RT (RANKS / 16)
#define XT (ROWS / RFG_WX_ROWS)
/* Chains whose blocks a wave has in flight, as far as its registers hold them; levels of the tree above them. */
#define HELD   (8 * (RT * RFG_WX_W_PIECES + XT * RFG_WX_X * RFG_WX_X_PIECES))
#define MOST   (HELD <= 24 ? 4 : HELD <= (HOPPER && DEPTH == 1 ? 48 : 32) ? 2 : 1)
#define AHEAD  (MOST < DEPTH ? MOST : DEPTH)
#define ROUNDS (MOST / AHEAD) /* of the chains, in flight */
#define LEVELS 6
#define EARLY  (ROWS <= 16)   /* registers hold a thread's part of y and b, too */
#define NODE   (RANKS * ROWS) /* floats: [RANKS][ROWS], a wave's or a workgroup's sums */
/* LDS: the tile's rows, in a cluster an arrival (16 bytes), nodes, h. */
#define NODES_AT (LORA_WINDOW / 4 + (CLUSTER > 1))
#define PASS     (SHARE ? CLUSTER * RANKS : RANKS) /* ranks */

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

/* ---- ahead of all ------------------------------------------------------------------------------------------------ */

#if FETCH
/* Each step-th cache line of a row, from one on. */
RFG_DEVICE void fetch_row(const char *row, int bytes, int first, int step)
{
    for (int at = first * 128; at < bytes; at += step * 128)
        rfg_prefetch(row + at);
}

/* Into L2, by all workgroups together: rows of x and y, and the adapters, as if the window's tiles had one each. */
RFG_DEVICE void fetch(const struct lora_args *a, int part, int slot, int slots)
{
    for (int adapter = slot; adapter < a->adapters; adapter += slots) {
        const char *of_a = (const char *)a->a + adapter * a->a_adapter * 2;
        for (int rank = part * WAVES + rfg_wave(); rank < a->rank; rank += PARTS * WAVES)
            fetch_row(of_a + rank * a->a_row * 2, a->k * 2, rfg_lane(), RFG_WAVE);
        if (a->b_row == a->rank)
            fetch_row((const char *)a->b + adapter * a->b_adapter * 2, a->n * a->rank * 2,
                      part * THREADS + rfg_thread(), PARTS * THREADS);
    }
    for (int row = rfg_group_x() * WAVES + rfg_wave(); row < 2 * a->m; row += rfg_groups_x(THREADS) * WAVES)
        if (row < a->m)
            fetch_row((const char *)a->x + row * a->ldx * 2, a->k * 2, rfg_lane(), RFG_WAVE);
        else
            fetch_row((const char *)a->y + (row - a->m) * a->ldy * RFG_DTYPE_BYTES(OUT_DTYPE),
                      a->n * RFG_DTYPE_BYTES(OUT_DTYPE), rfg_lane(), RFG_WAVE);
}
#endif

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
#if ROUNDS > 1
#pragma unroll 1
    for (; base + (ROUNDS - 1) * ROUND + AHEAD * BLOCK <= a->k; base += ROUNDS * ROUND)
#pragma unroll
        for (int i = 0; i < ROUNDS * AHEAD; i++)
            add_block(c[i % AHEAD], p, base + i / AHEAD * ROUND + i % AHEAD * BLOCK, a->k, true);
#endif
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

/* A wave's sums, to a node. */
RFG_DEVICE void put_sums(float *node, rfg_wx (*c)[XT])
{
#pragma unroll
    for (int i = 0; i < RT * XT * RFG_WX_SUMS; i++) {
        int r = i / RFG_WX_SUMS / XT, m = i / RFG_WX_SUMS % XT, e = i % RFG_WX_SUMS;
        node[(r * 16 + rfg_wx_sum_w(e)) * ROWS + m * RFG_WX_ROWS + rfg_wx_sum_x(e)] = c[r][m].v[e];
    }
}

/* Float i of n nodes, a power of two, as a tree. */
RFG_DEVICE float add_nodes(const float *nodes, int i, int n)
{
    float level[LEVELS], v = 0.0f;
#pragma unroll
    for (int k = 0; k < n; k++) {
        int l = 0;
        v = nodes[k * NODE + i];
#pragma unroll
        for (int bit = 1; bit < n; bit *= 2) {
            if ((k & (2 * bit - 1)) != 2 * bit - 1)
                continue;
            v = level[l] + v;
            l++;
        }
        level[l] = v;
    }
    return v;
}

/* Scales float i of a node and returns its place in h. Ranks that the adapter lacks are 0. */
RFG_DEVICE int place_in_h(float *v, int i, const struct tile *t, int stride, int rank0)
{
    int rank = rank0 + i / ROWS;
    *v = rank < t->rank ? *v * t->scale : 0.0f;
    return i % ROWS * stride + rank;
}

#if CLUSTER > 1
/* Four bytes, as rfg_cluster_send16(). */
RFG_DEVICE void rfg_cluster_send4(void *p, rfg_u64 *arrival, int rank, float v)
{
    rfg_u32 at, count;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(rfg_lds_address(p)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(count) : "r"(rfg_lds_address(arrival)), "r"(rank));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(at),
                 "r"(rfg_as_u32(v)), "r"(count)
                 : "memory");
}

#define SENT (CLUSTER * NODE * 4) /* bytes that a workgroup is sent in a pass */

/* The workgroup's sums, to all of its cluster, whose arrivals count them; if it has them of all of K, as h. */
RFG_DEVICE void send(const float *nodes, float *peers, rfg_u64 *arrival, const struct tile *t, int stride, int rank0)
{
    for (int i = rfg_thread(); i < NODE; i += THREADS) {
        float v = add_nodes(nodes, i, WAVES), *to = peers + rfg_cluster_rank() * NODE + i;
        if (SHARE)
            to = peers + place_in_h(&v, i, t, stride, rank0);
#pragma unroll
        for (int peer = 0; peer < CLUSTER; peer++)
            rfg_cluster_send4(to, arrival, peer, v);
    }
}
#endif

/* h of a pass: the sums of n nodes. */
RFG_DEVICE void combine(const float *nodes, int n, const struct tile *t, float *h, int stride, int rank0)
{
    for (int i = rfg_thread(); i < NODE; i += THREADS) {
        float v = add_nodes(nodes, i, n);
        int at = place_in_h(&v, i, t, stride, rank0);
        h[at] = v;
    }
}

#include "lora/lora_expand.h"

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

/* odd: of the round of what the cluster sends. */
RFG_DEVICE void run_tile(const struct lora_args *given, const struct tile *t, const int *rows, int number, int *odd)
{
    struct lora_args args = *given;
    const struct lora_args *a = &args;
    int stride = (a->rank + PASS - 1) / PASS * PASS, node = rfg_wave();
    float *nodes = (float *)(rfg_lds + NODES_AT), *h = nodes + WAVES * NODE;
    int grains = (a->n + GRAIN - 1) / GRAIN, columns = (grains + PARTS - 1) / PARTS * GRAIN;
    struct part p = { number * columns, columns, columns / 2, (t->rows + EACH - 1) / EACH * (columns / 2) };
    struct item e;
#if CLUSTER > 1
    float *peers = h;
    rfg_u64 *arrival = (rfg_u64 *)(rfg_lds + LORA_WINDOW / 4);
    if (!SHARE) {
        h += CLUSTER * NODE;
        node += rfg_cluster_rank() * WAVES;
    }
#endif
    int first = rfg_thread(), step = THREADS;
    if (EARLY) /* in flight beside the shrink's loads */
        load_item(a, t, &p, rows, first, &e);
#pragma unroll 1
    for (int pass = 0; pass < t->rank; pass += PASS) {
        struct pointers at;
        rfg_wx c[RT][XT];
        int rank0 = pass;
#if SHARE
        rank0 += rfg_cluster_rank() * RANKS;
#endif
        RFG_REREAD_ARGS(args, given); /* rather than keep them all in scalar registers: so below */
        find_rows(a, t, rows, rank0, &at);
        shrink(a, &at, node, c);
        if (CLUSTER == 1 && rank0)
            rfg_barrier_lds();
        put_sums(nodes + rfg_wave() * NODE, c);
        rfg_barrier_lds();
#if CLUSTER > 1
        rfg_cluster_wait(); /* all have read what they were sent before */
        send(nodes, peers, arrival, t, stride, rank0);
        rfg_arrival_wait(arrival, *odd);
        *odd ^= 1;
        if (rfg_thread() == 0)
            rfg_arrive_expect(arrival, SENT); /* in the next pass, if there is one */
        if (!SHARE)
            combine(peers, CLUSTER, t, h, stride, rank0);
        if (!SHARE || pass + PASS < t->rank)
            rfg_cluster_arrive();
#else
        combine(nodes, WAVES, t, h, stride, rank0);
#endif
    }
    RFG_REREAD_ARGS(args, given);
    if (!EARLY)
        load_item(a, t, &p, rows, first, &e);
    rfg_barrier_lds();
    for (int i = first; i < p.items; i += step) {
        if (e.col < a->n)
            expand(a, t, rows, h, stride, &e);
        load_item(a, t, &p, rows, i + step, &e);
    }
#if SHARE
    __syncwarp();
    rfg_cluster_arrive(); /* of the last pass, whose h all sent to all */
#endif
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
#if FETCH
    fetch(a, part, slot, slots); /* L2 is what the previous kernel writes to: nothing is read too early */
#endif
    rfg_await_previous();
#if CLUSTER > 1
    if (rfg_thread() == 0) {
        rfg_arrival_init((rfg_u64 *)(rfg_lds + LORA_WINDOW / 4), 1);
        rfg_arrive_expect((rfg_u64 *)(rfg_lds + LORA_WINDOW / 4), SENT);
    }
    rfg_cluster_arrive_first();
#endif
    int odd = 0;
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
                run_tile(&given, &t, rows, part, &odd);
            rfg_barrier_lds();
        }
    }
#if CLUSTER > 1
    rfg_cluster_wait();
#endif
}
