/* SPDX-License-Identifier: MIT
 *
 * What launches did. */
#ifndef RFG_EMU_COUNTERS_H
#define RFG_EMU_COUNTERS_H

#include "emu.h"

struct emu_counters {
    uint64_t launches, waves, instructions, by_class[EMU_CLASSES];
    uint64_t vector, active_lanes; /* VALU instructions, and the lanes that were on in them */
    uint64_t load_bytes, store_bytes, lines64, lines128, lds_bytes, barriers;
};

/* NULL: begins to count what launches do, from zero. Else: ends it and gives the sums. */
void rfg_emu_count(struct emu_counters *sums);

#endif
