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
 *
 * Sums are in fp32, in the order of the ranks, and rounded once: the same bits on all ranks, by all kernels here.
 *
 * Waits end after args.timeout: the rank that didn't come goes to the status word of the host, and the window's broken
 * word makes later launches return at once.
 *
 * Macros: OP (comm_args.h), BULK, DTYPE, RANKS, THREADS, UNROLL (chunks of 16 bytes that a thread has of a tile). For
 * tests, BREAK: 1 no release, 2 no acquire, 3 the flag before the data, 4 one window instead of two. */
#include "rfg_device.h"
#include "rfg_peer.h"
#include "comm_args.h"

#ifndef BREAK
#define BREAK 0
#endif
#define VEC    RFG_DTYPE_VEC(DTYPE)
#define SIZE   RFG_DTYPE_BYTES(DTYPE)
#define PARTS  (OP == COMM_ALL_REDUCE_TWO || OP == COMM_REDUCE_SCATTER) /* a rank sends each peer its part of x */
#define PHASES (OP == COMM_ALL_REDUCE_TWO ? 2 : 1)
#define TILE   (THREADS * UNROLL) /* chunks */
#define SLOT   (OP == COMM_ALL_REDUCE ? COMM_BULK : COMM_PART(RANKS))
#define SPIN   64 /* looks between two of the clock */

struct work {
    const struct comm_args *a;
    rfg_u32 epoch;
    long long part; /* elements from a part to the next */
};

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Elements of rank r's part. */
RFG_DEVICE long long part_size(const struct work *w, int r)
{
    if (OP != COMM_ALL_REDUCE_TWO)
        return w->a->n;
    long long left = w->a->n - r * w->part;
    return left < w->part ? left : w->part;
}
RFG_DEVICE long long chunks_of(const struct work *w, int r)
{
    long long n = part_size(w, r);
    return n > 0 ? (n + VEC - 1) / VEC : 0;
}

RFG_DEVICE rfg_u32x4 load_chunk(const struct work *w, const void *base, long long at, long long left)
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

RFG_DEVICE void store_chunk(const struct work *w, long long at, long long left, rfg_u32x4 v)
{
    char *p = (char *)w->a->y + at * SIZE;
    const rfg_u32 word[4] = { v.x, v.y, v.z, v.w };
    if (w->a->wide && left >= VEC) {
        rfg_store16(p, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < VEC; i++)
        if (i < left && SIZE == 4)
            rfg_store4(p + i * SIZE, word[i * SIZE / 4]);
        else if (i < left)
            rfg_store2(p + i * SIZE, (rfg_u16)(word[i * SIZE / 4] >> (i % 2 * 16)));
}

/* Chunk c of x that goes to rank r. */
RFG_DEVICE rfg_u32x4 load_x(const struct work *w, int r, long long c)
{
    return load_chunk(w, w->a->x, (PARTS ? r * w->part : 0) + c * VEC, part_size(w, PARTS ? r : 0) - c * VEC);
}
/* Chunk c of rank r's part of y. */
RFG_DEVICE void store_y(const struct work *w, int r, long long c, rfg_u32x4 v)
{
    long long part = OP == COMM_ALL_REDUCE || OP == COMM_REDUCE_SCATTER ? 0 : r * w->part;
    store_chunk(w, part + c * VEC, part_size(w, r) - c * VEC, v);
}

RFG_DEVICE int odd(const struct work *w)
{
    return BREAK == 4 ? 0 : (int)(w->epoch & 1u);
}
/* The packets of chunk c: 16 bytes here, 16 bytes 512 behind, so that neighbours' lie together. */
RFG_DEVICE char *packets_at(const struct work *w, int window, int phase, int from, long long c)
{
    char *slot = (char *)w->a->window[window] + COMM_PACKETS_AT(RANKS) +
                 ((odd(w) * 2 + phase) * RANKS + from) * 2 * COMM_PACKETS;
    return slot + c / 32 * 1024 + c % 32 * 16;
}
RFG_DEVICE char *bulk_at(const struct work *w, int window, int phase, int from, long long c)
{
    return (char *)w->a->window[window] + COMM_BULK_AT(RANKS) + odd(w) * 2 * COMM_BULK + (phase * RANKS + from) * SLOT +
           c * 16;
}
RFG_DEVICE rfg_u32 *flag_at(const struct work *w, int window, int phase, int from, long long tile)
{
    return (rfg_u32 *)((char *)w->a->window[window] + COMM_FLAGS) + (phase * RANKS + from) * COMM_TILES + tile;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

RFG_DEVICE void broken(const struct work *w, int rank)
{
    rfg_peer_signal((rfg_u32 *)((char *)w->a->window[w->a->rank] + COMM_TICKET + 8), 1);
    rfg_peer_signal(w->a->status, 1u + (rfg_u32)rank);
}

struct wait {
    int turns;
    rfg_u64 since;
};
/* Whether to look again. */
RFG_DEVICE bool go_on(const struct work *w, struct wait *t, int missing)
{
    rfg_peer_pause();
    if (++t->turns % SPIN)
        return true;
    rfg_u64 now = rfg_peer_clock();
    if (t->turns == SPIN)
        t->since = now;
    if (now - t->since <= w->a->timeout)
        return true;
    broken(w, missing);
    return false;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

RFG_DEVICE rfg_u32x4 sum(const rfg_u32x4 *v)
{
    float f[VEC];
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
        const rfg_u32 word[4] = { v[r].x, v[r].y, v[r].z, v[r].w };
#pragma unroll
        for (int i = 0; i < VEC; i++) {
            rfg_u32 u = word[i * SIZE / 4];
            float g = DTYPE == RFG_F32 ? rfg_as_float(u) : i % 2 ? rfg_high(u, DTYPE) : rfg_low(u, DTYPE);
            f[i] = r ? f[i] + g : g;
        }
    }
    rfg_u32 word[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        word[i] = DTYPE == RFG_F32 ? rfg_as_u32(f[i]) : rfg_floats_to_16(f[2 * i % VEC], f[(2 * i + 1) % VEC], DTYPE);
    rfg_u32x4 s;
    s.x = word[0];
    s.y = word[1];
    s.z = word[2];
    s.w = word[3];
    return s;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

RFG_DEVICE void send_packets(const struct work *w, int to, int phase, long long c, rfg_u32x4 v)
{
    char *p = packets_at(w, to, phase, w->a->rank, c);
    rfg_u32x4 a, b;
    a.x = v.x;
    a.z = v.y;
    b.x = v.z;
    b.z = v.w;
    a.y = a.w = b.y = b.w = w->epoch;
    rfg_peer_store(p, a);
    rfg_peer_store(p + 512, b);
}

/* Chunk c of each peer that has one. */
RFG_DEVICE bool receive_packets(const struct work *w, int phase, long long c, rfg_u32x4 *v)
{
    struct wait t = { 0, 0 };
    for (;;) {
        int missing = -1;
        rfg_u32x4 a[RANKS], b[RANKS];
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r != w->a->rank) {
                const char *p = packets_at(w, w->a->rank, phase, r, c);
                a[r] = rfg_peer_load(p);
                b[r] = rfg_peer_load(p + 512);
            }
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r != w->a->rank && (!phase || c < chunks_of(w, r))) {
                if (a[r].y != w->epoch || a[r].w != w->epoch || b[r].y != w->epoch || b[r].w != w->epoch)
                    missing = r;
                v[r].x = a[r].x;
                v[r].y = a[r].z;
                v[r].z = b[r].x;
                v[r].w = b[r].z;
            }
        if (missing < 0)
            return true;
        if (!go_on(w, &t, missing))
            return false;
    }
}

/* Ranks begin with the peer behind them, so that no rank is everybody's first. */
RFG_DEVICE int peer(const struct work *w, int i)
{
    int r = w->a->rank + i;
    return r < RANKS ? r : r - RANKS;
}

/* The epoch. False: the communicator is broken. */
RFG_DEVICE bool enter(struct work *w)
{
    const rfg_u32x4 ticket = rfg_peer_load((char *)w->a->window[w->a->rank] + COMM_TICKET);
    w->epoch = (rfg_u32)(((rfg_u64)ticket.y << 32 | ticket.x) >> COMM_TICKET_BITS) + 1;
    return !ticket.z;
}
RFG_DEVICE void end_reading(const struct work *w)
{
    rfg_barrier();
    if (rfg_thread() == 0)
        rfg_peer_add((rfg_u64 *)((char *)w->a->window[w->a->rank] + COMM_TICKET),
                     (1ull << COMM_TICKET_BITS) / (rfg_u64)rfg_groups_x(THREADS));
}

#if !BULK
RFG_DEVICE bool finish_packets(const struct work *w, long long c, rfg_u32x4 own)
{
    rfg_u32x4 v[RANKS];
    const int rank = w->a->rank;
#pragma unroll
    for (int r = 0; r < RANKS; r++)
        if (r == rank)
            v[r] = own;
    if (!receive_packets(w, 0, c, v))
        return false;
    if (OP == COMM_ALL_GATHER) {
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            store_y(w, r, c, v[r]);
        return true;
    }
    own = sum(v);
    store_y(w, rank, c, own);
    if (PHASES == 2)
        for (int i = 1; i < RANKS; i++)
            send_packets(w, peer(w, i), 1, c, own);
    return true;
}

RFG_DEVICE void run(struct work *w)
{
    const int rank = w->a->rank;
    const long long step = (long long)rfg_groups_x(THREADS) * THREADS;
    const long long first = (long long)rfg_group_x() * THREADS + rfg_thread();
    const long long most = chunks_of(w, 0), mine = chunks_of(w, rank);
    rfg_u32x4 own = { 0, 0, 0, 0 };
    if (!PARTS && first < most) /* while the ticket is on its way */
        own = load_x(w, 0, first);
    if (!enter(w))
        return;
    for (long long c = first; c < most; c += step) {
        const rfg_u32x4 v = PARTS || c == first ? own : load_x(w, 0, c);
        for (int i = 1; i < RANKS; i++) {
            int to = peer(w, i);
            if (PARTS && c >= chunks_of(w, to))
                continue;
            send_packets(w, to, 0, c, PARTS ? load_x(w, to, c) : v);
        }
    }
    end_reading(w);
    for (long long c = first; c < mine; c += step)
        if (!finish_packets(w, c, c == first && !PARTS ? own : load_x(w, rank, c)))
            return;
    for (long long c = first; PHASES == 2 && c < most; c += step) {
        rfg_u32x4 v[RANKS];
        if (!receive_packets(w, 1, c, v))
            return;
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r != rank && c < chunks_of(w, r))
                store_y(w, r, c, v[r]);
    }
}

#else
/* ---- bulk -------------------------------------------------------------------------------------------------------- */

/* The tile of the workgroup is written: says so to the peers. */
RFG_DEVICE void signal(const struct work *w, int phase, long long tile)
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
RFG_DEVICE bool await(const struct work *w, int phase, long long tile, int turn)
{
    int from = rfg_thread();
    rfg_u32 *failed = (rfg_u32 *)rfg_lds + turn % 3;
    if (from == 0)
        ((rfg_u32 *)rfg_lds)[(turn + 1) % 3] = 0;
    if (from < RANKS && from != w->a->rank && (!phase || tile * TILE < chunks_of(w, from))) {
        const rfg_u32 *flag = flag_at(w, w->a->rank, phase, from, tile);
        struct wait t = { 0, 0 };
        while ((int)(rfg_peer_look(flag) - w->epoch) < 0)
            if (!go_on(w, &t, from)) {
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

RFG_DEVICE void send_tile(const struct work *w, long long tile)
{
    const long long c0 = tile * TILE + rfg_thread();
    rfg_u32x4 v[UNROLL];
    if (BREAK == 3)
        signal(w, 0, tile);
    for (int i = 1; i < RANKS; i++) {
        const int to = peer(w, i);
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

RFG_DEVICE void finish_tile(const struct work *w, long long tile)
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
        rfg_u32x4 s = sum(v[u]);
        store_y(w, rank, c, s);
        if (PHASES == 2)
            for (int i = 1; i < RANKS; i++)
                rfg_peer_store_data(bulk_at(w, peer(w, i), 1, rank, c), s);
    }
    if (PHASES == 2)
        signal(w, 1, tile);
}

RFG_DEVICE void run(struct work *w)
{
    const int groups = rfg_groups_x(THREADS);
    const long long tiles = (chunks_of(w, 0) + TILE - 1) / TILE, mine = (chunks_of(w, w->a->rank) + TILE - 1) / TILE;
    int turn = 0;
    if (!enter(w))
        return;
    for (long long t = rfg_group_x(); t < tiles; t += groups)
        send_tile(w, t);
    if (rfg_thread() == 0)
        *(rfg_u32 *)rfg_lds = 0;
    end_reading(w);
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
    struct work w = { &a, 0, a.stride };
    if (OP == COMM_ALL_REDUCE_TWO)
        w.part = ((a.n + VEC - 1) / VEC + RANKS - 1) / RANKS * VEC;
    run(&w);
}
