/* SPDX-License-Identifier: MIT
 *
 * Whether a removed wait was needed, by bookkeeping independent of the checks: each wave's memory operations, numbered
 * by counter. Where the wait is missing, its operations are exposed until a later wait covers them. The wait was needed
 * if meanwhile the wave touches a register that is still to be loaded, or another wave the same bytes. */
#ifndef RFG_TESTS_EMU_EXPOSED_H
#define RFG_TESTS_EMU_EXPOSED_H

#include <stdbool.h>

#include "emu/check/effects.h"
#include "emu/run/front.h"

/* Puts itself between the emulator and its checks; out takes itself away again. */
void exposed_in(void);
void exposed_out(void);

/* Before a launch: which instruction of the program has had its wait (emu_inst.wait) taken out; NULL: none. */
void exposed_begin(const struct emu_program *prog, const struct emu_inst *without, uint32_t wait);
/* After it: did the instruction run? */
bool exposed_ran(const struct emu_inst *i);
/* Why the wait was needed; NULL: it wasn't, and *why says why not. */
const char *exposed_needed(const char **why);

#endif
