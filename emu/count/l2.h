/* SPDX-License-Identifier: MIT
 *
 * A launch's traffic between its XCDs' L2 caches and what is behind them. The emulator runs workgroups one after the
 * other, so what they touch is written down by wave while they run, and goes through the caches when the launch is
 * over, in the order in which a GPU full of them would ask: docs/emulator.md, "The model of the L2". */
#ifndef RFG_EMU_L2_H
#define RFG_EMU_L2_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_L2_LINE 128 /* bytes */

struct emu_l2;
struct emu_l2_wave;

struct emu_l2_shape {
    uint64_t bytes;      /* of each cache */
    int xcds;            /* caches: workgroup w uses cache w % xcds */
    int resident;        /* workgroups that one XCD holds */
    uint64_t workgroups; /* of the launch */
    int waves;           /* of a workgroup */
};

/* NULL: no memory. */
struct emu_l2 *emu_l2_create(const struct emu_l2_shape *shape);
void emu_l2_destroy(struct emu_l2 *l);
struct emu_l2_wave *emu_l2_wave(struct emu_l2 *l, uint64_t workgroup, int wave);
/* One instruction of the wave. line: address / 64, ascending, each once; n > 0. fetch: a line that isn't in the cache
 * comes from behind it (loads, atomics); else it is only put there (stores). Waves of different workgroups may be on
 * different threads. */
void emu_l2_record(struct emu_l2 *l, struct emu_l2_wave *w, const uint64_t *line, int n, bool fetch);
/* After the launch: lines that the instructions asked the caches for, and those of them that were fetched. False: some
 * are missing, for lack of memory. */
bool emu_l2_count(const struct emu_l2 *l, uint64_t *asked, uint64_t *fetched);

#endif
