/* SPDX-License-Identifier: MIT
 *
 * The order between waves, for check_races.c: which operations each wave knows to be before it. */
#ifndef RFG_EMU_CHECK_WAVES_H
#define RFG_EMU_CHECK_WAVES_H

#include "check_clocks.h"
#include "check_sync.h"
#include "watch.h"

/* Flags of an epoch (wave, instruction, time). ATOMIC: an atomic, or a store that may be one; SURELY: an atomic, or a
 * store that says so. */
enum { ATOMIC = 1, THROUGH = 2, SURELY = 4 };

static inline uint64_t pack(uint32_t wave, uint32_t inst, uint32_t clock, unsigned flags)
{
    return (uint64_t)(wave + 1) << 42 | (uint64_t)(inst & 0xffff) << 26 | (uint64_t)(clock & 0x7fffff) << 3 | flags;
}
static inline uint32_t wave_of(uint64_t e)
{
    return (uint32_t)(e >> 42) - 1;
}
static inline uint32_t inst_of(uint64_t e)
{
    return e >> 26 & 0xffff;
}
static inline uint32_t clock_of(uint64_t e)
{
    return e >> 3 & 0x7fffff;
}

/* Of a wave. */
struct emu_clocks {
    uint32_t id;
    struct clock known;    /* ordered before this wave, as its CU sees it */
    struct clock out;      /* ... and as others do, if this wave releases: waited for since */
    bool more;             /* known has more than out */
    struct clock cached;   /* ... and what its plain loads find fresh */
    struct clock near;     /* ... if its own cache (gfx10+: L0) held nothing */
    struct clock acquired; /* by operations that have not been waited for */
    uint32_t acquired_at;
    struct clock written_back; /* by a buffer_wbl2 that has not been waited for */
    uint32_t writing_back, own_wb;
    uint32_t told;  /* its writes up to there it gave to others: by its last release or barrier */
    uint32_t fresh; /* its atomics up to there were done when its caches were last invalidated */
    bool wb_pending;
    bool at_grid; /* at a barrier of the grid */
};

struct maybe;
/* Of a launch. */
struct emu_races {
    struct syncs syncs;
    uint32_t generation;
    struct maybe *maybe; /* check_races.c */
    size_t n_maybe, maybe_room;
    uint8_t *ended; /* a bit for each wave */
};

static inline int gfx_of(const struct emu_wave *w)
{
    return w->prog->arch->gfx;
}

/* A release by an atomic or a store to the word (or its key): saves what this wave knows, for waves that acquire it. */
void emu_clocks_release(struct emu_wave *w, uint64_t address);
void emu_clocks_acquire(struct emu_wave *w, uint64_t address);
/* Whether the last release's value was read there, before this wave's current operation. Then it has arrived, waited
 * for or not. */
bool emu_clocks_seen(const struct emu_wave *w, uint64_t address);

enum order { ORDERED, UNORDERED, NOT_WAITED, NOT_WRITTEN_BACK, STALE };

/* Whether `at`, a write or a read, is ordered before this wave's current operation. cached: a plain load. */
enum order emu_clocks_order(const struct emu_wave *w, uint64_t at, bool was_write, bool cached);

#endif
