/* SPDX-License-Identifier: MIT
 *
 * BULK 2, lines: 120 bytes of data and 8 of the epoch. A warp stores, and loads, four whole lines of 128 bytes by one
 * instruction; on NVLink a line comes whole (NCCL's LL128 builds on the same). So there is no fence and no flag, as with
 * packets, but the link carries a 15th more and not the double.
 *
 * Four lines are a tile of 30 chunks. 28 lanes have one each, which is their 16 bytes of a line. The last lane of a line
 * has half a chunk, of the last two, and the epoch: lanes 7 and 15 the first one's halves, 23 and 31 the second one's.
 * They load all of it, and sum it with rubbish in place of the other half.
 *
 * A warp goes by batches of UNROLL tiles. It sends batch b + 1 before it waits for batch b, so that the link and the
 * sums don't take turns. */
#include "comm/lines_layout.h"

#define LINE_TILE 30

/* The largest of the warp's. (Here: tuned rows' source hashes cover rfg_peer.h.) */
RFG_DEVICE int warp_most(int v)
{
    int most;
    asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(v));
    return most;
}

/* Where rank `from` writes to rank `window`: there is no slot for a rank itself. */
RFG_DEVICE char *line_at(const struct comm_work *w, int window, int phase, int from, long long tile)
{
    const int slot = (from - window + RANKS) % RANKS - 1;
    return (char *)w->a->window[window] + COMM_BULK_AT(RANKS) + comm_odd(w) * 2 * COMM_BULK +
           (phase * (RANKS - 1) + slot) * COMM_LINE_SLOT(PHASES, RANKS) + tile * 512 + rfg_lane() * 16;
}

/* Has the lane a whole chunk? If not, which half of one. */
RFG_DEVICE bool has_whole(void)
{
    return rfg_lane() % 8 < 7;
}
RFG_DEVICE int half_of(void)
{
    return rfg_lane() / 8 % 2;
}
RFG_DEVICE long long chunk_of(long long tile)
{
    return tile * LINE_TILE + (has_whole() ? rfg_lane() / 8 * 7 + rfg_lane() % 8 : 28 + rfg_lane() / 16);
}
RFG_DEVICE long long tiles_of(const struct comm_work *w, int r)
{
    return (chunks_of(w, r) + LINE_TILE - 1) / LINE_TILE;
}

RFG_DEVICE void send_line(const struct comm_work *w, int to, int phase, long long tile, rfg_u32x4 v)
{
    if (!has_whole()) {
        v.x = half_of() ? v.z : v.x;
        v.y = half_of() ? v.w : v.y;
        v.z = v.w = w->epoch;
    }
    rfg_peer_store(line_at(w, to, phase, w->a->rank, tile), v);
}

/* Tiles first, first + step... of all peers that have them, to v; this rank's v stays. All lanes give the same answer. */
RFG_DEVICE bool receive_lines(const struct comm_work *w, int phase, long long first, long long step,
                              rfg_u32x4 (*v)[RANKS])
{
    struct comm_wait t = { 0, 0 };
    for (;;) {
        int missing = -1;
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
#pragma unroll
            for (int r = 0; r < RANKS; r++)
                if (r != w->a->rank && first + u * step < tiles_of(w, phase ? r : w->a->rank))
                    v[u][r] = rfg_peer_load(line_at(w, w->a->rank, phase, r, first + u * step));
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
#pragma unroll
            for (int r = 0; r < RANKS; r++)
                if (r != w->a->rank && first + u * step < tiles_of(w, phase ? r : w->a->rank) && !has_whole() &&
                    v[u][r].w != w->epoch)
                    missing = r;
        missing = warp_most(missing);
        if (missing < 0)
            break;
        if (warp_most(!comm_go_on(w, &t, missing)))
            return false;
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r != w->a->rank && !has_whole() && half_of()) { /* to where it was */
                v[u][r].z = v[u][r].x;
                v[u][r].w = v[u][r].y;
            }
    return true;
}

/* Chunk c of rank r's part of y, or the half of it that the lane has. */
RFG_DEVICE void store_lane(const struct comm_work *w, int r, long long c, rfg_u32x4 v)
{
    long long at = (OP == COMM_ALL_REDUCE || OP == COMM_REDUCE_SCATTER ? 0 : r * w->part) + c * VEC;
    long long left = part_size(w, r) - c * VEC;
    if (!has_whole()) {
        at += half_of() * VEC / 2;
        left -= half_of() * VEC / 2;
        left = left < VEC / 2 ? left : VEC / 2;
        v.x = half_of() ? v.z : v.x;
        v.y = half_of() ? v.w : v.y;
    }
    store_chunk(w, at, left, v);
}

RFG_DEVICE void send_lines(const struct comm_work *w, long long first, long long step)
{
    rfg_u32x4 v[UNROLL];
    for (int i = 1; i < RANKS; i++) {
        const int to = comm_peer(w, i);
        if (PARTS || i == 1) {
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                v[u] = load_x(w, to, chunk_of(first + u * step));
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (first + u * step < tiles_of(w, PARTS ? to : 0))
                send_line(w, to, 0, first + u * step, v[u]);
    }
}

RFG_DEVICE bool sum_lines(const struct comm_work *w, long long first, long long step)
{
    const int rank = w->a->rank;
    rfg_u32x4 v[UNROLL][RANKS];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r == rank)
                v[u][r] = load_x(w, rank, chunk_of(first + u * step));
    if (!receive_lines(w, 0, first, step, v))
        return false;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const long long tile = first + u * step, c = chunk_of(tile);
        const bool mine = c < chunks_of(w, rank);
        if (OP == COMM_ALL_GATHER) {
#pragma unroll
            for (int r = 0; r < RANKS; r++)
                if (mine)
                    store_lane(w, r, c, v[u][r]);
            continue;
        }
        const rfg_u32x4 s = comm_sum(v[u]);
        if (mine)
            store_lane(w, rank, c, s);
        for (int i = 1; PHASES == 2 && i < RANKS; i++)
            if (tile < tiles_of(w, rank))
                send_line(w, comm_peer(w, i), 1, tile, s);
    }
    return true;
}

RFG_DEVICE bool collect_lines(const struct comm_work *w, long long first, long long step)
{
    rfg_u32x4 v[UNROLL][RANKS];
    if (!receive_lines(w, 1, first, step, v))
        return false;
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int r = 0; r < RANKS; r++) {
            const long long c = chunk_of(first + u * step);
            if (r != w->a->rank && c < chunks_of(w, r))
                store_lane(w, r, c, v[u][r]);
        }
    return true;
}

RFG_DEVICE void run(struct comm_work *w)
{
    const long long step = (long long)rfg_groups_x(THREADS) * (THREADS / RFG_WAVE), batch = step * UNROLL;
    const long long first = (long long)rfg_group_x() * (THREADS / RFG_WAVE) + rfg_wave();
    const long long tiles = tiles_of(w, 0);
    if (!comm_enter(w))
        return;
    for (long long t = first; t < tiles + PHASES * batch || t == first; t += batch) {
        if (t < tiles)
            send_lines(w, t, step);
        if (t == first)
            comm_end_reading(w, rfg_groups_x(THREADS));
        if (t - batch >= 0 && t - batch < tiles && !sum_lines(w, t - batch, step))
            return;
        if (PHASES == 2 && t - 2 * batch >= 0 && t - 2 * batch < tiles && !collect_lines(w, t - 2 * batch, step))
            return;
    }
}
