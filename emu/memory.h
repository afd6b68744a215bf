/* SPDX-License-Identifier: MIT */
#ifndef RFG_EMU_MEMORY_H
#define RFG_EMU_MEMORY_H

#include "emu.h"

/* Sets MODE and what follows from it. */
void emu_set_mode(struct emu_wave *w, uint32_t mode);

/* ---- checks: called for each instruction when they are on ----------------------------------------------------------
 */

struct emu_checks *emu_checks_create(struct emu_wave *w);
void emu_checks_reset(struct emu_checks *c, struct emu_wave *w);
void emu_checks_destroy(struct emu_checks *c);
/* Registers that the hardware sets up before a wave starts. */
void emu_checks_define(struct emu_checks *c, uint16_t reg, int n);
struct emu_lds_shadow *emu_lds_shadow_create(uint32_t bytes);
void emu_check_before(struct emu_wave *w, const struct emu_inst *i);
/* LDS of a workgroup: which bytes were written, by whom; a barrier orders. NULL if checks are off. */
void emu_check_lds(struct emu_wave *w, const struct emu_inst *i, enum emu_kind kind, const uint32_t *offset,
                   uint64_t lanes, unsigned bytes);
void emu_check_barrier(struct emu_workgroup *wg);

#endif
