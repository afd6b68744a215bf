/* SPDX-License-Identifier: MIT
 *
 * What an instruction is to the model of time. */
#include <stdlib.h>
#include <string.h>

#include "emu/check/effects.h"
#include "emu/count/counters.h"
#include "time.h"

const char *const emu_time_class_names[EMU_TIME_CLASSES] = { "VALU",        "transcendental", "matrix",  "SALU",
                                                             "branch",      "s_waitcnt",      "barrier", "s_nop",
                                                             "LDS",         "load",           "store",   "atomic",
                                                             "scalar load", "other" };

static bool named(const struct emu_inst *i, const char *begins)
{
    return emu_begins(i->op->name, begins);
}

static enum emu_time_class wait_class(const struct emu_inst *i)
{
    return named(i, "s_barrier") && !named(i, "s_barrier_signal") ? EMU_TIME_BARRIER
           : named(i, "s_wait") || named(i, "s_wait_")            ? EMU_TIME_WAIT
           : named(i, "s_nop") || named(i, "s_sleep")             ? EMU_TIME_NOP
                                                                  : EMU_TIME_OTHER;
}

static enum emu_time_class class_of(const struct emu_inst *i)
{
    switch (i->op->cls) {
    case EMU_SALU:
        return named(i, "s_nop") ? EMU_TIME_NOP : EMU_TIME_SALU;
    case EMU_SMEM:
        return EMU_TIME_SCALAR;
    case EMU_BRANCH:
        return EMU_TIME_BRANCH;
    case EMU_WAIT:
        return wait_class(i);
    case EMU_VALU:
        return EMU_TIME_VALU;
    case EMU_TRANS:
        return EMU_TIME_TRANS;
    case EMU_MFMA:
        return EMU_TIME_MATRIX;
    case EMU_VMEM_LOAD:
    case EMU_FLAT_LOAD:
    case EMU_SCRATCH_LOAD:
        return EMU_TIME_LOAD;
    case EMU_VMEM_STORE:
    case EMU_FLAT_STORE:
    case EMU_SCRATCH_STORE:
        return EMU_TIME_STORE;
    case EMU_VMEM_ATOMIC:
    case EMU_FLAT_ATOMIC:
        return EMU_TIME_ATOMIC;
    case EMU_LDS:
    case EMU_LDS_ATOMIC:
        return EMU_TIME_LDS;
    case EMU_CROSS:
        return *i->op->name == 'd' ? EMU_TIME_LDS : *i->op->name == 's' ? EMU_TIME_SALU : EMU_TIME_VALU;
    default:
        return EMU_TIME_OTHER;
    }
}

static uint16_t cycles_of(const struct emu_program *p, const struct emu_inst *i, enum emu_time_class cls)
{
    if (cls == EMU_TIME_MATRIX)
        return (uint16_t)emu_matrix_cycles(emu_matrix_row(p->arch, i));
    if (cls != EMU_TIME_NOP)
        return 0;
    return named(i, "s_sleep") ? (uint16_t)(16 * (i->k[0] & 127)) : (uint16_t)((i->k[0] & 15) + 1);
}

void emu_time_describe(struct emu_time_inst *out, const struct emu_program *p, const struct emu_inst *i,
                       const struct emu_effect *e)
{
    *out = (struct emu_time_inst){ .cls = EMU_TIME_OTHER, .address = i->address };
    if (!i->op)
        return;
    out->cls = (uint8_t)class_of(i);
    out->flat = e->pending == EMU_PENDING_FLAT;
    out->returns = e->returns;
    out->wait = i->wait;
    out->cycles = cycles_of(p, i, (enum emu_time_class)out->cls);
    for (int k = 0; k < e->n_reads && out->n_reads < 7; k++)
        if (e->read[k].reg != EMU_EXEC && e->read[k].reg != EMU_M0) /* which wait for nothing in practice */
            out->read[out->n_reads++] =
                (struct emu_time_range){ e->read[k].reg, e->read[k].words,
                                         out->cls == EMU_TIME_MATRIX && e->read[k].operand == 3 };
    for (int k = 0; k < e->n_writes && out->n_writes < 3; k++)
        out->write[out->n_writes++] = (struct emu_time_range){ e->write[k].reg, e->write[k].words, 0 };
}
