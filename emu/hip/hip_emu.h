/* SPDX-License-Identifier: MIT
 *
 * The emulated AMD GPU as a platform of the HIP table. */
#ifndef RFG_EMU_HIP_EMU_H
#define RFG_EMU_HIP_EMU_H

#include "dispatch/hip/hip.h"

/* The ordinal of the emulated device "gfx942" or "gfx942:304", made when it is first named; -1 with the reason, to
 * follow "device 'emu:...': ". */
int rfg_emu_open(const char *name, char *error, size_t size);

/* The table; never NULL. Its devices are those that rfg_emu_open() made. */
const struct rfg_hip *rfg_hip_emu(struct rfg_platform_report *report);

#endif
