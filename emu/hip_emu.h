/* SPDX-License-Identifier: MIT
 *
 * The emulated AMD GPU as a platform of the HIP table. */
#ifndef RFG_EMU_HIP_EMU_H
#define RFG_EMU_HIP_EMU_H

#include "../dispatch/hip.h"

/* The table; never NULL. */
const struct rfg_hip *rfg_hip_emu(struct rfg_platform_report *report);

/* The ordinal of "gfx942:304" or "gfx90a" (the arch's usual number of CUs); made when it is first named. Negative: why
 * says what is wrong with it. */
int rfg_emu_device(const char *spec, struct rfg_reason *why);

/* Findings since the process began, and the text of the last one ("" if none): for tests. */
int rfg_emu_findings(char *last, size_t size);

struct emu_counters;
/* NULL: begins to count what launches do, from zero. Else: ends it and gives the sums. */
void rfg_emu_count(struct emu_counters *sums);

#endif
