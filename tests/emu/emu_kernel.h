/* SPDX-License-Identifier: MIT
 *
 * For the emulator's tests: an emulated device, and kernels compiled for it by the project's own compilers. */
#ifndef RFG_TESTS_EMU_KERNEL_H
#define RFG_TESTS_EMU_KERNEL_H

#include "dispatch/context.h"

extern rfg_context *ctx;
extern const struct rfg_hip *hip;

/* ctx and hip: of four CUs of that architecture. */
void emu_open_device(const char *arch);

/* Loaded; code (may be NULL) gets the code object, which stays as long as the process' cache. */
hipModule_t emu_build(const char *arch, const char *entry, const char *source, const struct rfg_blob **code);

/* Can the emulator be used? Else says as a skipped test does what is missing: main() is to return 77. */
bool emu_is_there(void);

#endif
