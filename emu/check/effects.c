/* SPDX-License-Identifier: MIT */
#include "effects.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(struct emu_range *list, uint8_t *n, int room, unsigned reg, unsigned words, unsigned operand)
{
    if (*n < room)
        list[(*n)++] = (struct emu_range){ (uint16_t)reg, (uint8_t)words, (uint8_t)operand };
}

static void reads(struct emu_effect *e, unsigned reg, unsigned words, unsigned operand)
{
    add(e->read, &e->n_reads, EMU_MAX_READS, reg, words, operand);
}

static void writes(struct emu_effect *e, unsigned reg, unsigned words, unsigned operand)
{
    add(e->write, &e->n_writes, EMU_MAX_WRITES, reg, words, operand);
}

/* Constants, apertures, "off" and null are nobody's. */
static bool is_register(unsigned reg)
{
    return reg < EMU_NULL || (reg >= EMU_EXEC && reg <= EMU_EXECZ) || (reg >= EMU_VGPR && reg < EMU_NONE);
}

static uint8_t pending_of(const struct emu_inst *i, const struct emu_effect *e)
{
    switch (i->op->cls) {
    case EMU_CACHE: /* gfx12's are counted, an invalidate with the loads, a write-back with the stores */
        return !strcmp(i->op->name, "global_inv")     ? EMU_PENDING_LOAD
               : emu_begins(i->op->name, "global_wb") ? EMU_PENDING_STORE
                                                      : EMU_NOTHING_PENDING;
    case EMU_VMEM_LOAD:
    case EMU_SCRATCH_LOAD:
        return EMU_PENDING_LOAD;
    case EMU_VMEM_STORE:
    case EMU_SCRATCH_STORE:
        return EMU_PENDING_STORE;
    case EMU_VMEM_ATOMIC:
        return e->returns ? EMU_PENDING_LOAD : EMU_PENDING_STORE;
    case EMU_FLAT_LOAD:
    case EMU_FLAT_STORE:
    case EMU_FLAT_ATOMIC:
        return EMU_PENDING_FLAT;
    case EMU_LDS:
    case EMU_LDS_ATOMIC:
        return EMU_PENDING_LDS;
    case EMU_CROSS:
        return emu_begins(i->op->name, "ds_") ? EMU_PENDING_LDS : EMU_NOTHING_PENDING;
    case EMU_SMEM:
        return EMU_PENDING_SMEM;
    default:
        return EMU_NOTHING_PENDING;
    }
}

static void implicit(struct emu_effect *e, const char *sig, unsigned mask_words)
{
    for (const char *c = strchr(sig, '|'); c && *c; c++)
        switch (*c) {
        case 'V':
            reads(e, EMU_VCC, mask_words, EMU_IMPLICIT);
            break;
        case 'v':
            writes(e, EMU_VCC, mask_words, EMU_IMPLICIT);
            break;
        case 'S':
            reads(e, EMU_SCC, 1, EMU_IMPLICIT);
            break;
        case 's':
            writes(e, EMU_SCC, 1, EMU_IMPLICIT);
            break;
        case 'E':
            reads(e, EMU_EXEC, mask_words, EMU_IMPLICIT);
            break;
        case 'e':
            writes(e, EMU_EXEC, mask_words, EMU_IMPLICIT);
            break;
        case 'M':
            reads(e, EMU_M0, 1, EMU_IMPLICIT);
            break;
        case 'm':
            writes(e, EMU_M0, 1, EMU_IMPLICIT);
            break;
        default:
            break;
        }
}

/* What copies of a struct are made of. */
static bool moves(const struct emu_inst *i)
{
    static const char *const names[] = { "mov_",      "accvgpr",  "swap",    "perm",    "alignb",   "lshl",
                                         "lshr",      "ashr",     "and_",    "or_",     "or3_",     "bfe_",
                                         "bfi_",      "pack_",    "cndmask", "cselect", "readlane", "readfirstlane",
                                         "writelane", "bpermute", "swizzle" };
    const char *name = strchr(i->op->name, '_');
    for (size_t k = 0; name && !strstr(name, "_add") && k < sizeof(names) / sizeof(names[0]); k++)
        if (emu_begins(name + 1, names[k]))
            return true;
    return false;
}

static void work_out(struct emu_effect *e, const struct emu_inst *i, int wave_size)
{
    const char *name = i->op->name;
    enum emu_class cls = i->op->cls;
    bool buffer_atomic = cls == EMU_VMEM_ATOMIC && emu_begins(name, "buffer_");
    e->vector = cls >= EMU_VALU && cls < EMU_CACHE;
    e->returns = buffer_atomic ? i->mods->glc || i->mods->sc0
                               : (cls == EMU_VMEM_ATOMIC || cls == EMU_FLAT_ATOMIC || cls == EMU_LDS_ATOMIC) && i->n &&
                                     (i->role[0] == 'd' || i->role[0] == 'b');
    for (int k = 0; k < i->n; k++) {
        unsigned words = i->words[k] ? i->words[k] : 1;
        char role = (char)i->role[k];
        if (role == 'i' || !is_register(i->reg[k]))
            continue;
        if (role == 's' || role == 'n' || role == 'b')
            reads(e, i->reg[k], words, (unsigned)k);
        if (role == 'd' || role == 'm' || (role == 'b' && (!buffer_atomic || e->returns))) {
            /* A returning buffer compare-and-swap has twice the data that it gives back. */
            unsigned back = buffer_atomic && strstr(name, "cmpswap") ? words / 2 : words;
            writes(e, i->reg[k], back, (unsigned)k);
        }
    }
    implicit(e, i->op->sig, (unsigned)wave_size / 32);
    e->pending = pending_of(i, e);
    e->cross = i->mods->dpp || cls == EMU_CROSS || cls == EMU_MFMA;
    e->moves = moves(i);
    e->half = strstr(name, "d16_hi") ? 2 : strstr(name, "d16") ? 1 : 0;
    e->select = emu_begins(name, "v_cndmask_b32") || emu_begins(name, "s_cselect");
    e->relative = strstr(name, "_movrels_")   ? EMU_RELATIVE_SOURCE
                  : strstr(name, "_movreld_") ? EMU_RELATIVE_RESULT
                                              : EMU_NOT_RELATIVE;
    e->lane = !strcmp(name, "v_readfirstlane_b32") ? EMU_READ_FIRST_LANE
              : emu_begins(name, "v_readlane")     ? EMU_READ_LANE
              : emu_begins(name, "v_writelane")    ? EMU_WRITE_LANE
                                                   : EMU_NO_LANE;
}

/* A store to LDS, or by FLAT perhaps, of a byte or two. */
static bool stores_part(const struct emu_inst *i)
{
    const char *name = i->op->name;
    bool small = strstr(name, "_b8") || strstr(name, "_b16") || strstr(name, "_byte") || strstr(name, "_short");
    return small && (emu_begins(name, "ds_write") || emu_begins(name, "ds_store") || i->op->cls == EMU_FLAT_STORE);
}

const struct emu_effect *emu_effects(const struct emu_program *prog)
{
    struct emu_program *p = (struct emu_program *)prog; /* the table is a cache of its own */
    pthread_mutex_lock(&lock);
    if (!p->effects && (p->effects = calloc((size_t)p->n, sizeof(*p->effects))))
        for (int k = 0; k < p->n; k++)
            if (p->inst[k].op) {
                work_out(&p->effects[k], &p->inst[k], p->wave_size);
                emu_hazard_classes(&p->effects[k], p, &p->inst[k]);
                p->lds_parts |= stores_part(&p->inst[k]);
            }
    pthread_mutex_unlock(&lock);
    return p->effects;
}

const char *emu_register_name(unsigned reg, char buf[16])
{
    if (reg >= EMU_AGPR)
        snprintf(buf, 16, "a%u", reg - EMU_AGPR);
    else if (reg >= EMU_VGPR)
        snprintf(buf, 16, "v%u", reg - EMU_VGPR);
    else if (reg == EMU_VCC || reg == EMU_VCC + 1)
        snprintf(buf, 16, "vcc_%s", reg == EMU_VCC ? "lo" : "hi");
    else if (reg == EMU_EXEC || reg == EMU_EXEC + 1)
        snprintf(buf, 16, "exec_%s", reg == EMU_EXEC ? "lo" : "hi");
    else if (reg == EMU_M0)
        snprintf(buf, 16, "m0");
    else if (reg == EMU_SCC)
        snprintf(buf, 16, "scc");
    else if (reg >= EMU_TTMP && reg < EMU_M0)
        snprintf(buf, 16, "ttmp%u", reg - EMU_TTMP);
    else
        snprintf(buf, 16, "s%u", reg);
    return buf;
}
