/* SPDX-License-Identifier: MIT
 *
 * Requests of waves to the host while their kernel runs: device printf. */
#ifndef RFG_EMU_HOSTCALL_H
#define RFG_EMU_HOSTCALL_H

#include "front.h"

/* A buffer for a launch of which so many waves are resident. NULL: no memory. */
struct emu_hostcall *emu_hostcall_open(struct emu_memory *memory, uint64_t waves, const char *kernel);
void emu_hostcall_close(struct emu_memory *memory, struct emu_hostcall **hostcall);
/* What the kernel's hidden argument is. */
uint64_t emu_hostcall_address(const struct emu_hostcall *h);
/* Answers the waves that ask, the first that asked first, each wave's lanes in order. False: nobody asked. */
bool emu_hostcall_serve(struct emu_launch *l);

#endif
