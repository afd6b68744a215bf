/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"

/* Until the instruction set is there: every word is s_endpgm. */
static void end(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    w->stop = EMU_END;
}
static const struct emu_op op = { "s_endpgm", end, "", EMU_BRANCH, 0 };

bool emu_decode(struct emu_program *prog, const struct emu_arch *arch, int wave_size, const void *text, size_t size,
                uint64_t base, bool allow_unknown, char *error, size_t error_size)
{
    (void)wave_size, (void)text, (void)allow_unknown, (void)error, (void)error_size;
    prog->arch = arch;
    prog->n = (int)(size / 4);
    prog->inst = calloc(size / 4 + 1, sizeof(*prog->inst));
    prog->at = calloc(size / 4 + 1, sizeof(*prog->at));
    prog->base = base;
    prog->size = size;
    for (int i = 0; i < prog->n; i++) {
        prog->inst[i] = (struct emu_inst){ .fn = end, .op = &op, .address = 4 * (uint32_t)i, .size = 4 };
        prog->at[i] = i;
    }
    return true;
}

void emu_program_free(struct emu_program *prog)
{
    free(prog->inst);
    free(prog->at);
    memset(prog, 0, sizeof(*prog));
}

void emu_inst_text(const struct emu_program *prog, const struct emu_inst *i, char *buf, size_t size)
{
    (void)prog;
    snprintf(buf, size, "%s", i->op->name);
}

enum emu_stop emu_run(struct emu_wave *w, int64_t budget)
{
    for (; budget > 0 && !w->stop; budget--) {
        const struct emu_inst *i = w->pc++;
        w->executed++;
        i->fn(w, i);
    }
    return w->stop;
}
