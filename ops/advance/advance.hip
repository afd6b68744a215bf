/* SPDX-License-Identifier: MIT
 *
 * One workgroup goes through the sequences, a thread each: what is taken from the list of spare blocks is a sum over
 * those before. Indices from memory are compared unsigned: a negative one is a large one.
 *
 * Budget, of a sequence: 8 bytes of kv_lens, 4 of each other list, 4 or 8 of a position, 8 of a slot, 4 of each block
 * that the step touches: kilobytes in all. What binds it is the launch and a chain of loads, from the length to the
 * table to the list. An H200: 1.5 us for one sequence, 5.7 for 1024, 8.4 with a list.
 *
 * Macros: POSITION_DTYPE (i32 or i64), THREADS. */
#include "rfg_device.h"
#include "rfg_pages.h"
#include "rfg_select.h"
#include "advance/advance_args.h"

#if POSITION_DTYPE != RFG_I32 && POSITION_DTYPE != RFG_I64
#error "POSITION_DTYPE: must be i32 or i64"
#endif

#define WAVES    (THREADS / RFG_WAVE)
#define NEGATIVE 0x80000000u

/* What a sequence's next step is. */
struct next {
    bool goes;
    rfg_u32 len, first; /* its keys; the position of the step's first token */
    rfg_u32 held, need; /* blocks in its row of the table; those that it takes from the list */
};

RFG_DEVICE rfg_u32 block_of(const struct advance_args *a, rfg_u32 b, rfg_u32 i)
{
    return rfg_load4(a->table + (long long)b * a->ldb + i);
}

RFG_DEVICE struct next next_of(const struct advance_args *a, rfg_u32 b)
{
    struct next n = { false, 0, 0, 0, 0 };
    rfg_u32 sq = (rfg_u32)a->sq, shift = (rfg_u32)a->page_shift;
    if (b >= (rfg_u32)a->b)
        return n;
    rfg_u32 old = rfg_load4(a->kv_lens + b), more = a->accepted ? rfg_load4(a->accepted + b) : sq;
    if (old >= NEGATIVE || more > sq || (a->active && !rfg_load4(a->active + b)))
        return n;
    n.len = old + more;
    if (n.len < sq || n.len >= NEGATIVE)
        return n;
    n.first = n.len - sq;
    if (a->table) {
        rfg_u32 end = RFG_PAGE_OF(n.len - 1u, shift) + 1u; /* blocks of the next step */
        if (end > (rfg_u32)a->blocks)
            return n;
        n.held = a->spare ? RFG_PAGE_OF(old + RFG_PAGE_SIZE(shift) - 1u, shift) : end;
        for (rfg_u32 i = RFG_PAGE_OF(n.first, shift); i < n.held; i++)
            if (block_of(a, b, i) >= NEGATIVE)
                return n;
        n.need = end - n.held;
    }
    n.goes = true;
    return n;
}

RFG_DEVICE void store_long(long long *to, rfg_u64 v)
{
    rfg_u32x2 two = { (rfg_u32)v, (rfg_u32)(v >> 32) };
    rfg_store8(to, two);
}

/* top: blocks on the list for it and those after it. */
RFG_DEVICE void write_next(const struct advance_args *a, rfg_u32 b, struct next n, rfg_u32 top)
{
    rfg_u32 sq = (rfg_u32)a->sq, shift = (rfg_u32)a->page_shift;
    for (rfg_u32 i = 0; n.goes && i < n.need; i++)
        n.goes = rfg_load4(a->spare + (top - 1u - i)) < NEGATIVE;
    if (n.goes) {
        rfg_store4(a->kv_lens + b, n.len);
        for (rfg_u32 i = 0; i < n.need; i++)
            rfg_store4(a->table + (long long)b * a->ldb + n.held + i, rfg_load4(a->spare + (top - 1u - i)));
    }
    for (rfg_u32 j = 0; j < sq; j++) {
        rfg_u32 p = n.goes ? n.first + j : 0u, i = RFG_PAGE_OF(p, shift);
        long long at = (long long)b * sq + j;
        if (POSITION_DTYPE == RFG_I32)
            rfg_store4((int *)a->positions + at, p);
        else
            store_long((long long *)a->positions + at, p);
        if (!a->slots)
            continue;
        rfg_u64 slot = ~(rfg_u64)0;
        if (n.goes) {
            rfg_u32 block = i < n.held ? block_of(a, b, i) : rfg_load4(a->spare + (top - 1u - (i - n.held)));
            slot = RFG_PAGE_FIRST(block, shift) + RFG_PAGE_ROW(p, shift);
        }
        store_long(a->slots + at, slot);
    }
}

RFG_KERNEL(THREADS) advance_group(struct advance_args args)
{
    RFG_SHARED rfg_u64 totals[WAVES];
    const struct advance_args *a = &args;
    rfg_u32 room = 0; /* blocks on the list */
    rfg_u64 wanted = 0;
    rfg_start_next();
    rfg_await_previous();
    if (a->spare) {
        rfg_u32 said = rfg_load4(a->spare_count);
        room = said >= NEGATIVE ? 0u : said < (rfg_u32)a->n_spare ? said : (rfg_u32)a->n_spare;
        rfg_barrier(); /* all have read it */
    }
    for (rfg_u32 base = 0; base < (rfg_u32)a->b; base += THREADS) {
        rfg_u32 b = base + (rfg_u32)rfg_thread();
        struct next n = next_of(a, b);
        rfg_u64 before = wanted, all = 0;
        if (a->spare)
            before += rfg_group_sum_before(n.need, totals, WAVES, &all);
        wanted += all;
        if (n.need && before + n.need > room) {
            n.goes = false;
            if (before <= room) /* the first one that waits */
                rfg_store4(a->spare_count, room - (rfg_u32)before);
        }
        if (b < (rfg_u32)a->b)
            write_next(a, b, n, room - (rfg_u32)before);
    }
    if (a->spare && wanted <= room && rfg_thread() == 0)
        rfg_store4(a->spare_count, room - (rfg_u32)wanted);
}
