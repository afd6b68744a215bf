/* SPDX-License-Identifier: MIT
 *
 * For check_waves.c: a hash table of the memory words that synchronise, by address. */
#ifndef RFG_EMU_CHECK_SYNC_H
#define RFG_EMU_CHECK_SYNC_H

#include <stdlib.h>

#include "check_clocks.h"

struct sync {
    uint64_t address; /* 0: free */
    struct clock released;
    struct clock seen; /* who read what the last release put there: r: when */
};
struct syncs {
    struct sync *sync;
    size_t n, room; /* room: a power of two */
};

static inline struct sync *sync_slot(struct sync *table, size_t room, uint64_t address)
{
    size_t at = (address * 0x9E3779B97F4A7C15ull) >> 20 & (room - 1);
    while (table[at].address && table[at].address != address)
        at = (at + 1) & (room - 1);
    return &table[at];
}

/* NULL: there is none, and none is to be made or no memory is left. */
static inline struct sync *sync_at(struct syncs *r, uint64_t address, bool make)
{
    address &= ~3ull;
    struct sync *s = r->room ? sync_slot(r->sync, r->room, address) : NULL;
    if (s && s->address)
        return s;
    if (!make)
        return NULL;
    if (2 * (r->n + 1) > r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        struct sync *table = calloc(room, sizeof(*table));
        if (!table)
            return NULL;
        for (size_t k = 0; k < r->room; k++)
            if (r->sync[k].address)
                *sync_slot(table, room, r->sync[k].address) = r->sync[k];
        free(r->sync);
        r->sync = table;
        r->room = room;
        s = sync_slot(table, room, address);
    }
    s->address = address;
    r->n++;
    return s;
}

static inline void syncs_free(struct syncs *r)
{
    for (size_t k = 0; k < r->room; k++) {
        free(r->sync[k].released.e);
        free(r->sync[k].seen.e);
    }
    free(r->sync);
}

#endif
