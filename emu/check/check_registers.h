/* SPDX-License-Identifier: MIT
 *
 * Between check_registers.c (what waits for what, the marks of what was written) and check_defined.c (what of an
 * instruction's result is known where its sources are not). */
#ifndef RFG_EMU_CHECK_REGISTERS_H
#define RFG_EMU_CHECK_REGISTERS_H

#include "watch.h"

#define EMU_VECTORS  512 /* rows: VGPRs, then AGPRs */
#define EMU_SCALARS  (EMU_EXECZ + 1)
#define EMU_ROWS     96         /* of one instruction, at most */
#define EMU_COMPUTED (1u << 31) /* what came was not only moved since */

typedef uint32_t emu_row[64];

/* For what is known in part. */
struct emu_partial {
    emu_row bits[EMU_VECTORS]; /* known ones, of lanes that vdef doesn't have */
    /* of an instruction that is done over and over: its rows as they are, its results the first time, and which of
     * their bits weren't always the same */
    emu_row keep[EMU_ROWS], first[EMU_ROWS], differs[EMU_ROWS];
    uint64_t exec_differs;
    uint32_t scalar_first[EMU_SCALARS], scalar_differs[EMU_SCALARS];
};

struct emu_regs {
    uint64_t vdef[EMU_VECTORS];                      /* lanes of which every bit was written */
    uint32_t sdef[EMU_SCALARS];                      /* bits that were */
    uint8_t vkind[EMU_VECTORS], skind[EMU_SCALARS];  /* enum emu_pending */
    uint32_t vseq[EMU_VECTORS], sseq[EMU_SCALARS];   /* ... and its number */
    uint8_t vhalf[EMU_VECTORS];                      /* ... and emu_effect.half, of all that are under way to it */
    uint32_t vlgkm[EMU_VECTORS];                     /* of a FLAT one: the other counter's */
    uint32_t vfrom[EMU_VECTORS], sfrom[EMU_SCALARS]; /* where undefined bytes came from: 0, or 4 * instruction +
                                                        enum emu_origin + 1; and EMU_COMPUTED */
    struct emu_progress at;
    uint32_t unordered;          /* lgkm operations that return in any order */
    bool split;                  /* gfx12: counters apart */
    struct emu_partial *partial; /* NULL: every lane is known or it isn't */
};

static inline uint64_t emu_wave_lanes(const struct emu_wave *w)
{
    return w->wave_size == 64 ? UINT64_MAX : 0xffffffff;
}

/* The first register of an operand; M0 shifts some. */
static inline unsigned emu_first_register(const struct emu_wave *w, const struct emu_effect *e,
                                          const struct emu_range *range, bool write)
{
    bool shifted = e->relative == (write ? EMU_RELATIVE_RESULT : EMU_RELATIVE_SOURCE) && range->operand == !write;
    unsigned reg = range->reg + (shifted ? w->s[EMU_M0] : 0), most = range->reg >= EMU_VGPR ? EMU_AGPR : EMU_NULL;
    return shifted && reg + range->words > most ? range->reg : reg;
}

/* The lanes of a row that it writes. */
uint64_t emu_written_lanes(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);
/* For v_readlane and similar instructions: whether the lane that they read, or the scalar that they write, is known. */
bool emu_lane_known(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);
/* False: an operand that must be known isn't; that was reported. */
bool emu_sinks_known(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);
/* Finds out what of the results depends on what isn't known: partial->differs by row of the results (in the order of
 * e->write), scalar_differs by register. False: there is no memory. *from: where what isn't known came from. */
bool emu_find_dependence(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e, uint32_t *from);
/* Reports that an uninitialised value reaches this instruction. */
void emu_say_undefined(struct emu_wave *w, const struct emu_inst *i, unsigned reg, uint64_t lanes);

#endif
