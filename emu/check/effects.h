/* SPDX-License-Identifier: MIT
 *
 * What each instruction of a program reads, writes and leaves pending: computed once from the table's rows, for the
 * checks and the counters. */
#ifndef RFG_EMU_EFFECTS_H
#define RFG_EMU_EFFECTS_H

#include <string.h>

#include "emu/emu.h"

#define EMU_MAX_READS  9
#define EMU_MAX_WRITES 5
#define EMU_IMPLICIT   0xff /* emu_range.operand: not in the text */

/* `words` registers from `reg` on: rows of the vector file, AGPRs, or scalars (with EMU_VCC, EMU_EXEC, EMU_M0,
 * EMU_SCC). */
struct emu_range {
    uint16_t reg;
    uint8_t words, operand;
};

static inline bool emu_begins(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

/* The counter to wait for before the result may be used. */
enum emu_pending {
    EMU_NOTHING_PENDING,
    EMU_PENDING_LOAD,  /* vmcnt: also atomics that return, and loads to LDS */
    EMU_PENDING_STORE, /* vmcnt on gfx9, vscnt from gfx10 on */
    EMU_PENDING_LDS,   /* lgkmcnt, in order */
    EMU_PENDING_SMEM,  /* lgkmcnt, in no order */
    EMU_PENDING_FLAT,  /* both vmcnt and lgkmcnt */
};

/* Instructions that read or write a single lane. */
enum emu_lane_op { EMU_NO_LANE, EMU_READ_FIRST_LANE, EMU_READ_LANE, EMU_WRITE_LANE };

/* Registers that M0 shifts. */
enum emu_relative { EMU_NOT_RELATIVE, EMU_RELATIVE_SOURCE, EMU_RELATIVE_RESULT };

struct emu_effect {
    struct emu_range read[EMU_MAX_READS], write[EMU_MAX_WRITES];
    uint8_t n_reads, n_writes;
    uint8_t pending;  /* enum emu_pending */
    bool vector;      /* a lane that EXEC switches off is neither read nor written */
    bool cross;       /* reads other lanes than it writes */
    bool moves;       /* its result has bits of its sources, it computes none */
    bool select;      /* of sources 1 and 2 the one that the mask (or SCC) chooses counts */
    uint8_t relative; /* enum emu_relative */
    uint8_t lane;     /* enum emu_lane_op */
    bool returns;     /* an atomic with a result */
    uint8_t half;     /* of its register that a load fills: 1 the lower, 2 the upper; 0: all of it */
    /* check_hazards.c's */
    uint32_t makes, minds, awaits;
    uint8_t passes; /* of an MFMA: 0: 2, 1: 4, 2: 8, 3: 16 */
    uint8_t states; /* wait states that it is */
};

void emu_hazard_classes(struct emu_effect *e, const struct emu_program *prog, const struct emu_inst *i);

/* By instruction index; lives as long as the program. NULL: no memory. Thread-safe. */
const struct emu_effect *emu_effects(const struct emu_program *prog);

/* "v3", "a0", "s7", "vcc_lo", "exec_hi", "m0", "scc" */
const char *emu_register_name(unsigned reg, char buf[16]);

#endif
