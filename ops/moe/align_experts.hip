/* SPDX-License-Identifier: MIT
 *
 * A workgroup an expert, and one more for pairs that have none here: each goes through all ids. A wave has a stretch of
 * the pairs, and counts its own ones in it; what the waves before it have is where its first one goes. A second look,
 * at what few pairs leave in registers, ranks them by ballots. Where the segment begins is how many pairs have a
 * smaller expert, or, if segments are padded, follows from a histogram of all (additions, whose order doesn't matter).
 *
 * Macros: FORMAT (ALIGN_PLAIN, ...), THREADS, KEEP (pairs that a lane looks at at a time), ROOM (experts, at least; may
 * be missing: 1024). */
#ifndef ROOM
#define ROOM 1024
#endif
#include "rfg_device.h"
#include "rfg_ballot.h"
#include "rfg_select.h"
#include "moe/align_args.h"
#include "moe/align_device.h"

#define WAVES (THREADS / RFG_WAVE)
#define STEP  (KEEP * RFG_WAVE)

RFG_KERNEL(THREADS) moe_align_experts(struct moe_align_args args)
{
    RFG_SHARED rfg_u32 own[WAVES], smaller[WAVES];
#if PADS
    RFG_SHARED rfg_u32 counts[ROOM];
    RFG_SHARED rfg_u64 totals[WAVES];
#endif
    const struct moe_align_args *a = &args;
    rfg_u32 e = (rfg_u32)rfg_group_x(), experts = (rfg_u32)a->experts, kept[KEEP];
    int wave = rfg_wave(), lane = rfg_lane(), thread = rfg_thread();
    rfg_start_next();
#if PADS
    for (rfg_u32 i = (rfg_u32)thread; i < experts; i += THREADS)
        counts[i] = 0;
    rfg_barrier_lds();
#endif
    rfg_await_previous();
    rfg_u32 tokens = (rfg_u32)tokens_of(a), pairs = tokens * (rfg_u32)a->top;
    /* Those of no expert are all that are left, also of tokens that don't count. */
    rfg_u32 n = e == experts && a->places ? (rfg_u32)(a->t * a->top) : pairs;
    rfg_u32 stretch = (n + THREADS - 1u) / THREADS * RFG_WAVE, first = (rfg_u32)wave * stretch, end = first + stretch;
    rfg_u32 mine = 0, below = 0;
    end = end < n ? end : n;
    for (rfg_u32 i = first; i < end; i += STEP) {
        load_experts(a, kept, KEEP, i + (rfg_u32)lane, RFG_WAVE, pairs);
#pragma unroll
        for (int u = 0; u < KEEP; u++) {
            bool there = i + (rfg_u32)(u * RFG_WAVE + lane) < end;
            mine += rfg_count_lanes(rfg_ballot(there && kept[u] == e));
#if PADS
            if (there && kept[u] < experts)
                (void)rfg_lds_add(counts + kept[u], 1u);
#else
            below += FORMAT == ALIGN_PLAIN ? rfg_count_lanes(rfg_ballot(there && kept[u] < e)) : 0u;
#endif
        }
    }
    if (lane == 0) {
        own[wave] = mine;
        smaller[wave] = below;
    }
    rfg_barrier_lds();
    rfg_u32 rank = 0, all = 0, begin = 0, total;
    for (int w = 0; w < WAVES; w++) {
        rank += w < wave ? own[w] : 0u;
        all += own[w];
        begin += smaller[w];
    }
    total = begin; /* of the last workgroup, whose it is to say */
#if PADS
    rfg_u64 sums = 0, both; /* upper half: of all experts, lower: of smaller ones */
    for (rfg_u32 i = (rfg_u32)thread; i < experts; i += THREADS) {
        rfg_u32 rows = padded(a, counts[i]);
        sums += (rfg_u64)rows << 32 | (i < e ? rows : 0u);
    }
    (void)rfg_group_sum_before(sums, totals, WAVES, &both);
    begin = (rfg_u32)both;
    total = (rfg_u32)(both >> 32);
#endif
    if (FORMAT == ALIGN_MASKED)
        begin = e * (rfg_u32)a->n_rows;
    for (rfg_u32 i = first; i < end; i += STEP) {
        if (stretch > STEP)
            load_experts(a, kept, KEEP, i + (rfg_u32)lane, RFG_WAVE, pairs);
#pragma unroll
        for (int u = 0; u < KEEP; u++) {
            rfg_u32 pair = i + (rfg_u32)(u * RFG_WAVE + lane);
            bool is_own = pair < end && kept[u] == e;
            rfg_lanes set = rfg_ballot(is_own);
            if (is_own)
                place_pair(a, pair, pairs, e, begin, rank + rfg_lanes_below(set));
            rank += rfg_count_lanes(set);
        }
    }
    if (e < experts)
        say_segment(a, e, begin, all, (rfg_u32)thread, THREADS);
    say_rest(a, tokens, total, (int)e, (int)experts + 1);
}
