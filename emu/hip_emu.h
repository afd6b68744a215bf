/* SPDX-License-Identifier: MIT
 *
 * The emulated GPUs' names. (The table itself: rfg_hip_emu() in dispatch/hip.h.) */
#ifndef RFG_EMU_HIP_EMU_H
#define RFG_EMU_HIP_EMU_H

#include <stddef.h>

/* Tuned rows' arch is "emu-gfx942": a time measured here says nothing about the GPU. */
#define RFG_EMU_PREFIX "emu-"

/* The ordinal of the emulated device "gfx942" or "gfx942:304", made when it is first named; -1 with the reason, to
 * follow "device 'emu:...': ". */
int rfg_emu_open(const char *name, char *error, size_t size);

#endif
