/* SPDX-License-Identifier: MIT
 *
 * What kernels of several ranks share: the epoch, waiting for a peer, packets, sums. comm.hip explains them.
 * The including file includes comm_args.h and rfg_peer.h before, and defines DTYPE, RANKS and comm_sends(). */
#ifndef BREAK
#define BREAK 0
#endif
#define COMM_VEC  RFG_DTYPE_VEC(DTYPE)
#define COMM_SIZE RFG_DTYPE_BYTES(DTYPE)
#define COMM_SPIN 64 /* looks between two of the clock */

struct comm_work {
    const struct comm_args *a;
    rfg_u32 epoch;
    long long part; /* elements from a part to the next */
};

/* Whether rank r sends chunk c in a phase; of the including file. */
RFG_DEVICE bool comm_sends(const struct comm_work *w, int r, int phase, long long c);

RFG_DEVICE int comm_odd(const struct comm_work *w)
{
    return BREAK == 4 ? 0 : (int)(w->epoch & 1u);
}
/* The packets of chunk c: 16 bytes here, 16 bytes 512 behind, so that neighbours' lie together. */
RFG_DEVICE char *comm_packets_at(const struct comm_work *w, int window, int phase, int from, long long c)
{
    char *slot = (char *)w->a->window[window] + COMM_PACKETS_AT(RANKS) +
                 ((comm_odd(w) * 2 + phase) * RANKS + from) * 2 * COMM_PACKETS;
    return slot + c / 32 * 1024 + c % 32 * 16;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

RFG_DEVICE void comm_broken(const struct comm_work *w, int rank)
{
    rfg_peer_signal((rfg_u32 *)((char *)w->a->window[w->a->rank] + COMM_TICKET + 8), 1);
    rfg_peer_signal(w->a->status, 1u + (rfg_u32)rank);
}

struct comm_wait {
    int turns;
    rfg_u64 since;
};
/* Whether to look again. */
RFG_DEVICE bool comm_go_on(const struct comm_work *w, struct comm_wait *t, int missing)
{
    rfg_peer_pause();
    if (++t->turns % COMM_SPIN)
        return true;
    rfg_u64 now = rfg_peer_clock();
    if (t->turns == COMM_SPIN)
        t->since = now;
    if (now - t->since <= w->a->timeout)
        return true;
    comm_broken(w, missing);
    return false;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

RFG_DEVICE rfg_u32x4 comm_sum(const rfg_u32x4 *v)
{
    float f[COMM_VEC];
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
        const rfg_u32 word[4] = { v[r].x, v[r].y, v[r].z, v[r].w };
#pragma unroll
        for (int i = 0; i < COMM_VEC; i++) {
            rfg_u32 u = word[i * COMM_SIZE / 4];
            float g = DTYPE == RFG_F32 ? rfg_as_float(u) : i % 2 ? rfg_high(u, DTYPE) : rfg_low(u, DTYPE);
            f[i] = r ? f[i] + g : g;
        }
    }
    rfg_u32 word[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        word[i] = DTYPE == RFG_F32 ? rfg_as_u32(f[i])
                                   : rfg_floats_to_16(f[2 * i % COMM_VEC], f[(2 * i + 1) % COMM_VEC], DTYPE);
    rfg_u32x4 s;
    s.x = word[0];
    s.y = word[1];
    s.z = word[2];
    s.w = word[3];
    return s;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

RFG_DEVICE void comm_send(const struct comm_work *w, int to, int phase, long long c, rfg_u32x4 v)
{
    char *p = comm_packets_at(w, to, phase, w->a->rank, c);
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
RFG_DEVICE bool comm_receive(const struct comm_work *w, int phase, long long c, rfg_u32x4 *v)
{
    struct comm_wait t = { 0, 0 };
    for (;;) {
        int missing = -1;
        rfg_u32x4 a[RANKS], b[RANKS];
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r != w->a->rank) {
                const char *p = comm_packets_at(w, w->a->rank, phase, r, c);
                a[r] = rfg_peer_load(p);
                b[r] = rfg_peer_load(p + 512);
            }
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r != w->a->rank && comm_sends(w, r, phase, c)) {
                if (a[r].y != w->epoch || a[r].w != w->epoch || b[r].y != w->epoch || b[r].w != w->epoch)
                    missing = r;
                v[r].x = a[r].x;
                v[r].y = a[r].z;
                v[r].z = b[r].x;
                v[r].w = b[r].z;
            }
        if (missing < 0)
            return true;
        if (!comm_go_on(w, &t, missing))
            return false;
    }
}

/* Ranks begin with the peer behind them, so that no rank is everybody's first. */
RFG_DEVICE int comm_peer(const struct comm_work *w, int i)
{
    int r = w->a->rank + i;
    return r < RANKS ? r : r - RANKS;
}

/* The epoch. False: the communicator is broken. */
RFG_DEVICE bool comm_enter(struct comm_work *w)
{
    const rfg_u32x4 ticket = rfg_peer_load((char *)w->a->window[w->a->rank] + COMM_TICKET);
    w->epoch = (rfg_u32)(((rfg_u64)ticket.y << 32 | ticket.x) >> COMM_TICKET_BITS) + 1;
    return !ticket.z;
}
/* groups: of the launch, at most 1 << COMM_TICKET_BITS. */
RFG_DEVICE void comm_end_reading(const struct comm_work *w, int groups)
{
    const rfg_u32 whole = 1u << COMM_TICKET_BITS, share = whole / (rfg_u32)groups;
    rfg_barrier();
    if (rfg_thread() == 0)
        rfg_peer_add((rfg_u64 *)((char *)w->a->window[w->a->rank] + COMM_TICKET),
                     share + (rfg_group_x() ? 0 : whole % (rfg_u32)groups));
}
