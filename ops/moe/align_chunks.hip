/* SPDX-License-Identifier: MIT
 *
 * A workgroup a chunk of pairs, for many pairs. Each counts all pairs by expert: those before its chunk, and all, from
 * which follows where each segment begins; of its own chunk, a stretch of it a wave, those of each wave. Then each wave
 * places its stretch, a pair a lane: equal experts of a wave are ranked by ballots, their first lane takes places for
 * all of them. Histograms are additions, whose order doesn't matter; a wave's row of them is its own.
 *
 * Macros: FORMAT (ALIGN_PLAIN, ...), THREADS, CHUNK (pairs of a workgroup). LDS: ALIGN_CHUNKS_WORDS(). */
#include "rfg_device.h"
#include "rfg_ballot.h"
#include "rfg_select.h"
#include "moe/align_args.h"
#include "moe/align_device.h"

#define WAVES   (THREADS / RFG_WAVE)
#define STRETCH (CHUNK / WAVES) /* whole waves */
#define UNROLL  4

/* Before the chunk, behind it, and in each wave's stretch. */
RFG_DEVICE void count_pairs(const struct moe_align_args *a, rfg_u32 pairs, rfg_u32 chunk, rfg_u32 *before,
                            rfg_u32 *behind, rfg_u32 *in_waves)
{
    rfg_u32 experts = (rfg_u32)a->experts;
    for (rfg_u32 i = (rfg_u32)rfg_thread(); i < pairs; i += UNROLL * THREADS) {
        rfg_u32 e[UNROLL];
        load_experts(a, e, UNROLL, i, THREADS, pairs);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            rfg_u32 at = i + (rfg_u32)u * THREADS;
            if (e[u] == experts)
                continue;
            rfg_u32 *counts = at < chunk           ? before
                              : at - chunk < CHUNK ? in_waves + (at - chunk) / STRETCH * experts
                                                   : behind;
            (void)rfg_lds_add(counts + e[u], 1u);
        }
    }
}

RFG_KERNEL(THREADS) moe_align_chunks(struct moe_align_args args)
{
    RFG_SHARED rfg_u64 totals[WAVES];
    const struct moe_align_args *a = &args;
    rfg_u32 experts = (rfg_u32)a->experts, thread = (rfg_u32)rfg_thread(), wave = (rfg_u32)rfg_wave();
    rfg_u32 *before = (rfg_u32 *)rfg_lds, *behind = before + experts, *in_waves = behind + experts;
    int group = rfg_group_x(), groups = rfg_groups_x(THREADS);
    rfg_start_next();
    for (rfg_u32 i = thread; i < ALIGN_CHUNKS_WORDS(experts, WAVES); i += THREADS)
        before[i] = 0;
    rfg_barrier_lds();
    rfg_await_previous();
    rfg_u32 tokens = (rfg_u32)tokens_of(a), pairs = tokens * (rfg_u32)a->top, all = (rfg_u32)(a->t * a->top);
    rfg_u32 chunk = (rfg_u32)group * CHUNK;
    count_pairs(a, pairs, chunk, before, behind, in_waves);
    rfg_barrier_lds();

    /* Of each expert: from counts to ranks, and where its segment begins; before is that, behind how many it has. */
    rfg_u32 total = 0;
    for (rfg_u32 i = 0; i < experts; i += THREADS) {
        rfg_u32 e = i + thread, n = 0;
        if (e < experts) {
            n = before[e];
            for (rfg_u32 w = 0; w < WAVES; w++) {
                rfg_u32 here = in_waves[w * experts + e];
                in_waves[w * experts + e] = n;
                n += here;
            }
            n += behind[e];
        }
        rfg_u64 sum, rows = padded(a, n), at = rfg_group_sum_before(rows, totals, WAVES, &sum);
        if (e < experts) {
            before[e] = FORMAT == ALIGN_MASKED ? e * (rfg_u32)a->n_rows : total + (rfg_u32)at;
            behind[e] = n;
        }
        total += (rfg_u32)sum;
    }
    rfg_barrier_lds();

    for (rfg_u32 k = 0; k < STRETCH; k += RFG_WAVE) {
        rfg_u32 i = chunk + wave * STRETCH + k + (rfg_u32)rfg_lane(), e, at = 0;
        load_experts(a, &e, 1, i, 0, pairs);
        rfg_lanes alike = rfg_alike(e, a->bits);
        rfg_u32 rank = rfg_lanes_below(alike);
        if (rank == 0 && e < experts)
            at = rfg_lds_add(in_waves + wave * experts + e, rfg_count_lanes(alike));
        at = rfg_shuffle_u32(at, rfg_first_lane(alike));
        if (i < all)
            place_pair(a, i, pairs, e, e < experts ? before[e] : 0u, at + rank);
    }
    /* Segments are shared out among the workgroups, theirs among the waves. */
    for (int e = rfg_share_begin((int)experts, group, groups) + (int)wave;
         e < rfg_share_begin((int)experts, group + 1, groups); e += WAVES)
        say_segment(a, (rfg_u32)e, before[e], behind[e], (rfg_u32)rfg_lane(), RFG_WAVE);
    say_rest(a, tokens, total, group, groups);
}
