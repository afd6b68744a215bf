/* SPDX-License-Identifier: MIT
 *
 * A workgroup a row, which it goes through once for its largest and once for each digit of each place
 * (sample_device.h, which says the macros). */
#include "rfg_device.h"
#include "rfg_select.h"
#include "sample/sample_args.h"
#include "sample/sample_device.h"

RFG_KERNEL(THREADS) sample_rows(struct sample_args a)
{
    RFG_SHARED struct lds s;
    rfg_start_next();
    if (rfg_thread() == 0)
        s.args = a;
    rfg_barrier_lds();
    rfg_await_previous();
    for (int r = rfg_group_x(); r < a.b; r += rfg_groups_x(THREADS)) {
        struct row w = row_at(&s.args, r);
        read_rules(&w);
#if EXTRAS
        w.orders = (rfg_u32 *)a.workspace + rfg_group_x() * SAMPLE_ORDERS(a.v);
        for (int at = rfg_thread(); at < SAMPLE_ORDERS(a.v); at += THREADS)
            rfg_store4(w.orders + at, order_of(&w, at));
        rfg_barrier();
#endif
        rfg_u32 id = draw(&s, &w, false);
        if (rfg_thread() == 0)
            store(w.a, r, id);
    }
}
