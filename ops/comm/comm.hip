/* SPDX-License-Identifier: MIT
 *
 * Collectives of the GPUs of one host. A rank writes to its peers' windows and reads its own: stores to a peer are
 * posted, a load from one takes two ways over the link.
 *
 * Epochs. The n-th collective of a communicator has epoch n on all ranks. It stands in the rank's own memory: a graph
 * that is replayed counts on. Each workgroup adds its share to the ticket once all of its threads have read it; so it
 * is the next epoch's when all workgroups have, and nobody resets anything.
 *
 * Two windows by turns, of even and odd epochs. A rank that is in epoch e + 2 had data of all peers in epoch e + 1, to
 * which they came by ending epoch e: nobody reads what it overwrites. So no barrier ends a collective. (Launches of a
 * communicator don't overlap.)
 *
 * BULK 0, packets: 4 bytes of data and the epoch in one word of 8 bytes. Who sees the epoch has the data; there is no
 * fence and no flag, and the link carries twice the data.
 * BULK 1: plain data, and a flag for each tile, behind a fence.
 * BULK 2, lines: lines.h, on NVIDIA's GPUs.
 *
 * Sums are in fp32, in the order of the ranks, and rounded once: the same bits on all ranks, by all kernels here.
 *
 * Waits end after args.timeout: the rank that didn't come goes to the status word of the host, and the window's broken
 * word makes later launches return at once.
 *
 * Macros: OP (comm_args.h), BULK, DTYPE, RANKS, THREADS, UNROLL (chunks of 16 bytes that a thread has of a tile). For
 * tests, BREAK: 1 no release, 2 no acquire, 3 the flag before the data, 4 one window instead of two, 5 an older flag will do. */
#include "rfg_device.h"
#include "rfg_peer.h"
#include "comm_args.h"
#include "rfg_packets.h"

#define VEC    RFG_DTYPE_VEC(DTYPE)
#define SIZE   RFG_DTYPE_BYTES(DTYPE)
#define PARTS  (OP == COMM_ALL_REDUCE_TWO || OP == COMM_REDUCE_SCATTER) /* a rank sends each peer its part of x */
#define PHASES (OP == COMM_ALL_REDUCE_TWO ? 2 : 1)
#define TILE   (THREADS * UNROLL) /* chunks */
#define SLOT   (OP == COMM_ALL_REDUCE ? COMM_BULK : COMM_PART(RANKS))

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Elements of rank r's part. */
RFG_DEVICE long long part_size(const struct comm_work *w, int r)
{
    if (OP != COMM_ALL_REDUCE_TWO)
        return w->a->n;
    long long left = w->a->n - r * w->part;
    return left < w->part ? left : w->part;
}
RFG_DEVICE long long chunks_of(const struct comm_work *w, int r)
{
    long long n = part_size(w, r);
    return n > 0 ? (n + VEC - 1) / VEC : 0;
}

RFG_DEVICE bool comm_sends(const struct comm_work *w, int r, int phase, long long c)
{
    return !phase || c < chunks_of(w, r);
}

RFG_DEVICE rfg_u32x4 load_chunk(const struct comm_work *w, const void *base, long long at, long long left)
{
    const char *p = (const char *)base + at * SIZE;
    rfg_u32 word[4] = { 0, 0, 0, 0 };
    if (w->a->wide && left >= VEC)
        return rfg_load16(p);
#pragma unroll
    for (int i = 0; i < VEC; i++)
        if (i < left)
            word[i * SIZE / 4] |=
                SIZE == 4 ? rfg_load4(p + i * SIZE) : (rfg_u32)rfg_load2(p + i * SIZE) << (i % 2 * 16);
    rfg_u32x4 v;
    v.x = word[0];
    v.y = word[1];
    v.z = word[2];
    v.w = word[3];
    return v;
}

RFG_DEVICE void store_chunk(const struct comm_work *w, long long at, long long left, rfg_u32x4 v)
{
    char *p = (char *)w->a->y + at * SIZE;
    const rfg_u32 word[4] = { v.x, v.y, v.z, v.w };
    if (w->a->wide && left >= VEC) {
        rfg_store16(p, v);
        return;
    }
#if BULK == 2 /* half a chunk */
    if (w->a->wide && left == VEC / 2) {
        rfg_u32x2 two;
        two.x = v.x;
        two.y = v.y;
        rfg_store8(p, two);
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < VEC; i++)
        if (i < left && SIZE == 4)
            rfg_store4(p + i * SIZE, word[i * SIZE / 4]);
        else if (i < left)
            rfg_store2(p + i * SIZE, (rfg_u16)(word[i * SIZE / 4] >> (i % 2 * 16)));
}

/* Chunk c of x that goes to rank r. */
RFG_DEVICE rfg_u32x4 load_x(const struct comm_work *w, int r, long long c)
{
    return load_chunk(w, w->a->x, (PARTS ? r * w->part : 0) + c * VEC, part_size(w, PARTS ? r : 0) - c * VEC);
}
/* Chunk c of rank r's part of y. */
RFG_DEVICE void store_y(const struct comm_work *w, int r, long long c, rfg_u32x4 v)
{
    long long part = OP == COMM_ALL_REDUCE || OP == COMM_REDUCE_SCATTER ? 0 : r * w->part;
    store_chunk(w, part + c * VEC, part_size(w, r) - c * VEC, v);
}

RFG_DEVICE char *bulk_at(const struct comm_work *w, int window, int phase, int from, long long c)
{
    return (char *)w->a->window[window] + COMM_BULK_AT(RANKS) + comm_odd(w) * 2 * COMM_BULK +
           (phase * RANKS + from) * SLOT + c * 16;
}
RFG_DEVICE rfg_u32 *flag_at(const struct comm_work *w, int window, int phase, int from, long long tile)
{
    return (rfg_u32 *)((char *)w->a->window[window] + COMM_FLAGS) + (phase * RANKS + from) * COMM_TILES + tile;
}

#if !BULK
RFG_DEVICE bool finish_packets(const struct comm_work *w, long long c, rfg_u32x4 own)
{
    rfg_u32x4 v[RANKS];
    const int rank = w->a->rank;
#pragma unroll
    for (int r = 0; r < RANKS; r++)
        if (r == rank)
            v[r] = own;
    if (!comm_receive(w, 0, c, v))
        return false;
    if (OP == COMM_ALL_GATHER) {
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            store_y(w, r, c, v[r]);
        return true;
    }
    own = comm_sum(v);
    store_y(w, rank, c, own);
    if (PHASES == 2)
        for (int i = 1; i < RANKS; i++)
            comm_send(w, comm_peer(w, i), 1, c, own);
    return true;
}

RFG_DEVICE void run(struct comm_work *w)
{
    const int rank = w->a->rank;
    const long long step = (long long)rfg_groups_x(THREADS) * THREADS;
    const long long first = (long long)rfg_group_x() * THREADS + rfg_thread();
    const long long most = chunks_of(w, 0), mine = chunks_of(w, rank);
    rfg_u32x4 own = { 0, 0, 0, 0 };
    if (!PARTS && first < most) /* while the ticket is on its way */
        own = load_x(w, 0, first);
    if (!comm_enter(w))
        return;
    for (long long c = first; c < most; c += step) {
        const rfg_u32x4 v = PARTS || c == first ? own : load_x(w, 0, c);
        for (int i = 1; i < RANKS; i++) {
            int to = comm_peer(w, i);
            if (PARTS && c >= chunks_of(w, to))
                continue;
            comm_send(w, to, 0, c, PARTS ? load_x(w, to, c) : v);
        }
    }
    comm_end_reading(w, rfg_groups_x(THREADS));
    for (long long c = first; c < mine; c += step)
        if (!finish_packets(w, c, c == first && !PARTS ? own : load_x(w, rank, c)))
            return;
    for (long long c = first; PHASES == 2 && c < most; c += step) {
        rfg_u32x4 v[RANKS];
        if (!comm_receive(w, 1, c, v))
            return;
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r != rank && c < chunks_of(w, r))
                store_y(w, r, c, v[r]);
    }
}

#elif BULK == 2
#include "comm/lines.h"

#else
/* ---- bulk -------------------------------------------------------------------------------------------------------- */

/* The tile of the workgroup is written: says so to the peers. */
RFG_DEVICE void signal(const struct comm_work *w, int phase, long long tile)
{
    if (BREAK != 1) {
        rfg_peer_settle();
        rfg_barrier();
    } else
        rfg_barrier_lds();
    int to = rfg_thread();
    if (to < RANKS && to != w->a->rank) {
        if (BREAK != 1)
            rfg_peer_release();
        rfg_peer_signal(flag_at(w, to, phase, w->a->rank, tile), w->epoch);
    }
}

/* The peers' tile is there, of those that have one. False for all threads: one didn't come. turn: how many waits were
 * before this one. Three words say it by turns: the one that is cleared here was last read before the last barrier. */
RFG_DEVICE bool await(const struct comm_work *w, int phase, long long tile, int turn)
{
    int from = rfg_thread();
    rfg_u32 *failed = (rfg_u32 *)rfg_lds + turn % 3;
    if (from == 0)
        ((rfg_u32 *)rfg_lds)[(turn + 1) % 3] = 0;
    if (from < RANKS && from != w->a->rank && (!phase || tile * TILE < chunks_of(w, from))) {
        const rfg_u32 *flag = flag_at(w, w->a->rank, phase, from, tile);
        struct comm_wait t = { 0, 0 };
        while ((int)(rfg_peer_look(flag) - w->epoch) < (BREAK == 5 ? -1 : 0))
            if (!comm_go_on(w, &t, from)) {
                *failed = 1;
                break;
            }
        if (BREAK != 2)
            rfg_peer_acquire();
    }
    rfg_barrier();
    if (BREAK != 2)
        rfg_peer_acquire_group();
    return !*failed;
}

RFG_DEVICE void send_tile(const struct comm_work *w, long long tile)
{
    const long long c0 = tile * TILE + rfg_thread();
    rfg_u32x4 v[UNROLL];
    if (BREAK == 3)
        signal(w, 0, tile);
    for (int i = 1; i < RANKS; i++) {
        const int to = comm_peer(w, i);
        const long long end = chunks_of(w, PARTS ? to : 0);
        if (PARTS || i == 1) {
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (c0 + u * THREADS < end)
                    v[u] = load_x(w, to, c0 + u * THREADS);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (c0 + u * THREADS < end)
                rfg_peer_store_data(bulk_at(w, to, 0, w->a->rank, c0 + u * THREADS), v[u]);
    }
    if (BREAK != 3)
        signal(w, 0, tile);
}

RFG_DEVICE void finish_tile(const struct comm_work *w, long long tile)
{
    const int rank = w->a->rank;
    const long long c0 = tile * TILE + rfg_thread(), end = chunks_of(w, rank);
    rfg_u32x4 v[UNROLL][RANKS];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (c0 + u * THREADS < end)
                v[u][r] = r == rank ? load_x(w, rank, c0 + u * THREADS)
                                    : rfg_load16(bulk_at(w, rank, 0, r, c0 + u * THREADS));
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const long long c = c0 + u * THREADS;
        if (c >= end)
            break;
        if (OP == COMM_ALL_GATHER) {
#pragma unroll
            for (int r = 0; r < RANKS; r++)
                store_y(w, r, c, v[u][r]);
            continue;
        }
        rfg_u32x4 s = comm_sum(v[u]);
        store_y(w, rank, c, s);
        if (PHASES == 2)
            for (int i = 1; i < RANKS; i++)
                rfg_peer_store_data(bulk_at(w, comm_peer(w, i), 1, rank, c), s);
    }
    if (PHASES == 2)
        signal(w, 1, tile);
}

RFG_DEVICE void run(struct comm_work *w)
{
    const int groups = rfg_groups_x(THREADS);
    const long long tiles = (chunks_of(w, 0) + TILE - 1) / TILE, mine = (chunks_of(w, w->a->rank) + TILE - 1) / TILE;
    int turn = 0;
    if (!comm_enter(w))
        return;
    for (long long t = rfg_group_x(); t < tiles; t += groups)
        send_tile(w, t);
    if (rfg_thread() == 0)
        *(rfg_u32 *)rfg_lds = 0;
    comm_end_reading(w, rfg_groups_x(THREADS));
    for (long long t = rfg_group_x(); t < mine; t += groups) {
        if (!await(w, 0, t, turn++))
            return;
        finish_tile(w, t);
    }
    for (long long t = rfg_group_x(); PHASES == 2 && t < tiles; t += groups) {
        if (!await(w, 1, t, turn++))
            return;
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            for (int r = 0; r < RANKS; r++) {
                const long long c = t * TILE + u * THREADS + rfg_thread();
                if (r != w->a->rank && c < chunks_of(w, r))
                    store_y(w, r, c, rfg_load16(bulk_at(w, w->a->rank, 1, r, c)));
            }
    }
}
#endif

RFG_KERNEL(THREADS) comm(struct comm_args a)
{
    struct comm_work w = { &a, 0, a.stride };
    if (OP == COMM_ALL_REDUCE_TWO)
        w.part = ((a.n + VEC - 1) / VEC + RANKS - 1) / RANKS * VEC;
    run(&w);
}
