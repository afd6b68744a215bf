/* SPDX-License-Identifier: MIT
 *
 * The last writers and readers of memory's bytes, by pages, for check_races.c; check_memory.c keeps the pages with the
 * block. */
#ifndef RFG_EMU_CHECK_PAGES_H
#define RFG_EMU_CHECK_PAGES_H

#include <stdlib.h>
#include <string.h>

#include "watch.h"

#define PAGE 4096

struct granule {
    uint64_t writer, reader, before;     /* before: the last reader of another wave than reader's */
    uint16_t written, read, read_before; /* bytes */
    bool same;                           /* more than one wave stored the same */
};
/* Atomics before the last one on a granule: of another wave than its, of another workgroup than its. */
struct former {
    uint64_t wave, group;
    uint32_t returned; /* the last one's number among its wave's operations if it returns a value, else 0 */
};
struct page {
    uint32_t generation;
    unsigned shift; /* of a granule's size: 4, 2, 0 */
    struct granule *granule;
    struct former *former; /* by granule; NULL: no two waves' atomics met */
};
struct emu_pages {
    size_t n;
    struct page page[];
};

/* NULL: there is no memory, or it isn't watched. */
static inline struct page *page_at(uint32_t generation, const struct emu_block *b, uint64_t address)
{
    struct emu_pages **pages = emu_memory_pages(b);
    uint64_t base = b->lo & ~(uint64_t)(PAGE - 1);
    if (!pages)
        return NULL;
    if (!*pages) {
        size_t n = (b->hi - 1 - base) / PAGE + 1;
        *pages = calloc(1, sizeof(**pages) + n * sizeof(struct page));
        if (!*pages)
            return NULL;
        (*pages)->n = n;
    }
    struct page *p = &(*pages)->page[(address - base) / PAGE];
    if (p->granule && p->generation != generation) {
        free(p->former);
        p->former = NULL;
        if (p->shift != 4) {
            free(p->granule);
            p->granule = NULL;
        } else
            memset(p->granule, 0, (PAGE >> 4) * sizeof(struct granule));
    }
    if (!p->granule) {
        p->shift = 4;
        p->granule = calloc(PAGE >> 4, sizeof(struct granule));
    }
    p->generation = generation;
    return p->granule ? p : NULL;
}

/* Each granule becomes four; or sixteen, of one byte. False: there is no memory. */
static inline bool split(struct page *p, unsigned shift)
{
    struct granule *finer = calloc(PAGE >> shift, sizeof(*finer));
    struct former *former = p->former ? calloc(PAGE >> shift, sizeof(*former)) : NULL;
    if (!finer || (p->former && !former)) {
        free(finer);
        return false;
    }
    for (size_t k = 0; k < (size_t)PAGE >> shift; k++) {
        const struct granule *from = &p->granule[k << shift >> p->shift];
        unsigned at = (unsigned)(k << shift) & ((1u << p->shift) - 1), mask = (1u << (1u << shift)) - 1;
        finer[k].written = from->written >> at & mask;
        finer[k].read = from->read >> at & mask;
        finer[k].writer = finer[k].written ? from->writer : 0;
        finer[k].reader = finer[k].read ? from->reader : 0;
        finer[k].read_before = from->read_before >> at & mask;
        finer[k].before = finer[k].read_before ? from->before : 0;
        finer[k].same = from->same;
        if (former && finer[k].written)
            former[k] = p->former[k << shift >> p->shift];
    }
    free(p->former);
    p->former = former;
    free(p->granule);
    p->granule = finer;
    p->shift = shift;
    return true;
}

static inline void forget_pages(struct emu_pages **pages)
{
    for (size_t k = 0; *pages && k < (*pages)->n; k++) {
        free((*pages)->page[k].granule);
        free((*pages)->page[k].former);
    }
    free(*pages);
    *pages = NULL;
}

#endif
