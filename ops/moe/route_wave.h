/* SPDX-License-Identifier: MIT
 *
 * Experts of a row by one wave, in its lanes' registers (route_choose.h). What groups have is found by lanes side by
 * side. A pick costs one search through the wave, and through the registers of the lane it was found in.
 *
 * Macros: those of route_choose.h. */
#include "moe/route_device.h"

#define LANE_BITS              (RFG_WAVE == 64 ? 6 : 5)
#define ROW_LANE               rfg_lane()
#define ROW_REDUCE(v, largest) rfg_reduce_lanes(v, RFG_WAVE, largest)
#include "moe/route_choose.h"

RFG_DEVICE void choose_groups(const struct route_args *a, const struct share *s, rfg_u32 *key)
{
    rfg_u32 own = group_key(a, largest_two(key, s->bits));
    int better = 0;
    for (int g = 0; g < a->groups; g++) {
        rfg_u32 other = rfg_of_any_lane(own, g << s->bits);
        better += other > own || (other == own && g < s->group);
    }
    keep_group(a, key, better);
}

/* What is stored, of a slot a lane. */
RFG_DEVICE struct chosen route(const struct route_args *a, const struct share *s, rfg_u32 row)
{
    rfg_u32 key[CHUNKS];
    float largest = 0.0f, inverse = 1.0f;
    read_row(a, s, row, key, &largest, &inverse);
    if (GROUPED)
        choose_groups(a, s, key);
    return finish(a, row, pick_in_wave(a, s, key), largest, inverse);
}
