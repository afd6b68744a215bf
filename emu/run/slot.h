/* SPDX-License-Identifier: MIT
 *
 * Between launch.c (a wave's first state) and sched.c (who runs when). */
#ifndef RFG_EMU_SLOT_H
#define RFG_EMU_SLOT_H

#include "front.h"

#define EMU_BUDGET 4096

/* A place for a resident workgroup: its waves' registers, LDS and scratch. Reused, and not cleared: as on the
 * hardware, a wave finds in its registers what the one before left there. */
struct emu_slot {
    struct emu_workgroup wg;
    int index;  /* in the scratch pool */
    int budget; /* instructions of a wave in its turn: less and less while the group only waits */
    uint32_t (*registers)[64];
    struct emu_slot *next;
};

/* Registers and ids of all waves of workgroup `number` (x fastest). */
void emu_slot_start(struct emu_launch *l, struct emu_slot *s, uint64_t number);

#endif
