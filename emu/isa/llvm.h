/* SPDX-License-Identifier: MIT
 *
 * LLVM's disassembler, loaded when it is first needed: nothing here depends on LLVM to be built or linked. */
#ifndef RFG_EMU_LLVM_H
#define RFG_EMU_LLVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_disasm;

/* Is LLVM there? Else why says what is missing. */
bool emu_disasm_ready(char *why, size_t size);

/* For a processor ("gfx942"); wave_size matters from gfx10 on. NULL: error says why. Thread-safe. */
struct emu_disasm *emu_disasm_open(const char *cpu, int gfx, int wave_size, char *error, size_t error_size);
void emu_disasm_close(struct emu_disasm *d);
/* Disassembles one instruction; its size in bytes, 0: these bytes are none. */
size_t emu_disasm_one(struct emu_disasm *d, const void *code, size_t size, uint64_t pc, char *text, size_t text_size);

#endif
