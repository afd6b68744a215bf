/* SPDX-License-Identifier: MIT
 *
 * A workgroup a token, for more experts than a wave's registers hold (route_choose.h). Each wave picks the largest of its
 * own; they lie in LDS from the largest down. The first wave, of which a lane goes through a wave's list each, merges
 * them. What groups have is found by waves, or parts of them, and put together by all.
 *
 * A workgroup always has 1 << ROUTE_GROUP_BITS threads, so that a row's sums don't depend on T.
 *
 * Macros: those of route_choose.h. */
#include "moe/route_device.h"

#define LANE_BITS              ROUTE_GROUP_BITS
#define ROW_LANE               rfg_thread()
#define ROW_REDUCE(v, largest) row_reduce(v, largest)
RFG_DEVICE float row_reduce(float v, bool largest)
{
    RFG_SHARED float parts[2][WAVES]; /* one of the largest, one of sums: read before the row's last barrier */
    return rfg_group_reduce(v, parts[largest], WAVES, rfg_wave(), largest);
}
#include "moe/route_choose.h"

RFG_DEVICE void choose_groups(const struct route_args *a, const struct share *s, rfg_u32 *key)
{
    int wave_bits = RFG_WAVE == 64 ? 6 : 5, bits = s->bits < wave_bits ? s->bits : wave_bits;
    RFG_SHARED struct two twos[ROUTE_MAX_GROUPS > WAVES ? ROUTE_MAX_GROUPS : WAVES];
    int parts_each = 1 << (s->bits - bits);
    struct two t = largest_two(key, bits);
    if ((rfg_thread() & ((1 << bits) - 1)) == 0)
        twos[rfg_thread() >> bits] = t;
    rfg_barrier_lds();
    rfg_u32 own = 0u;
    int better = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int g = turn ? 0 : s->group; g < (turn ? a->groups : s->group + 1); g++) {
            struct two of = twos[g * parts_each];
            for (int i = 1; i < parts_each; i++)
                of = add_two(of, twos[g * parts_each + i]);
            rfg_u32 other = group_key(a, of);
            own = turn ? own : other;
            better += other > own || (other == own && g < s->group);
        }
    keep_group(a, key, better);
}

/* The first of all lists, `top` times. */
RFG_DEVICE struct rfg_pick merge(const struct route_args *a, struct rfg_pick (*lists)[ROUTE_MAX_TOP])
{
    struct rfg_pick own = { 0u, 0u }, none = { 0u, 0u };
    int at = 0, list = rfg_lane() < WAVES ? rfg_lane() : 0;
#pragma unroll 1
    for (int slot = 0; slot < a->top; slot++) {
        struct rfg_pick mine = rfg_lane() < WAVES ? lists[list][at] : none;
        rfg_u32 key = rfg_wave_max_u32(mine.key);
        int from = rfg_first_lane(rfg_ballot(mine.key == key));
        rfg_u32 id = rfg_of_any_lane(mine.id, from);
        own.key = rfg_lane() == slot ? key : own.key;
        own.id = rfg_lane() == slot ? id : own.id;
        at += rfg_lane() == from && at < ROUTE_MAX_TOP - 1;
    }
    return own;
}

RFG_DEVICE void route(const struct route_args *a, const struct share *s, rfg_u32 row)
{
    RFG_SHARED struct rfg_pick lists[WAVES][ROUTE_MAX_TOP];
    rfg_u32 key[CHUNKS];
    float largest = 0.0f, inverse = 1.0f;
    read_row(a, s, row, key, &largest, &inverse);
    if (GROUPED)
        choose_groups(a, s, key);
    struct rfg_pick own = pick_in_wave(a, s, key);
    if (rfg_lane() < a->top)
        lists[rfg_wave()][rfg_lane()] = own;
    rfg_barrier_lds();
    if (rfg_wave() == 0)
        (void)finish(a, row, merge(a, lists), largest, inverse);
    rfg_barrier_lds(); /* lists are read */
}

RFG_KERNEL(THREADS) moe_route_group(struct route_args a)
{
    struct share s = share_of(&a);
    rfg_start_next();
    rfg_await_previous();
    rfg_u32 limit = rows_that_count(&a);
    for (rfg_u32 row = (rfg_u32)rfg_group_x(); row < (rfg_u32)a.t; row += (rfg_u32)rfg_groups_x(THREADS))
        if (row < limit)
            route(&a, &s, row);
        else if (rfg_wave() == 0)
            store(&a, row, false, 0u, 0.0f);
}
