/* SPDX-License-Identifier: MIT
 *
 * A wave a token (route_wave.h).
 *
 * Macros: those of route_choose.h. */
#include "moe/route_wave.h"

RFG_KERNEL(THREADS) moe_route_wave(struct route_args a)
{
    struct share s = share_of(&a);
    rfg_start_next();
    rfg_await_previous();
    EACH_ROW_OF_A_WAVE(&a, (void)route(&a, &s, row));
}
