/* SPDX-License-Identifier: MIT
 *
 * Finds which bits of an instruction's result are known when some source bits are uninitialised. It executes the
 * instruction several times, with other values for the uninitialised bits. Bits of the result that differ depend on
 * them; the others are known: x & 0, x | 1, x - x, the written half of a register, lanes that only move, a comparison
 * that the known bits decide. This needs no knowledge of the instruction. A bit that depends is missed once in hundreds
 * (it comes out the same TIMES times by chance). A bit that doesn't depend is never reported. */
#include <stdlib.h>
#include <string.h>

#include "check_registers.h"

#define TIMES 8

/* isa_lane.c's, of the host that always is there. */
uint64_t dpp_lanes_portable(const struct emu_wave *w, const struct emu_inst *i);

static unsigned lane_of(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    unsigned lane = e->lane == EMU_READ_FIRST_LANE ? (w->exec ? (unsigned)__builtin_ctzll(w->exec) : 0)
                    : i->reg[2] == EMU_CONST       ? (unsigned)i->k[2]
                    : i->reg[2] < EMU_NULL         ? w->s[i->reg[2]]
                                                   : 0;
    return lane & (w->wave_size - 1u);
}

uint64_t emu_written_lanes(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    if (e->lane == EMU_WRITE_LANE)
        return 1ull << lane_of(w, i, e);
    if (i->op->cls == EMU_MFMA)
        return UINT64_MAX; /* whatever EXEC says */
    return i->mods->dpp ? dpp_lanes_portable(w, i) : w->exec;
}

bool emu_lane_known(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    const struct emu_regs *r = w->checks->regs;
    unsigned from = i->reg[1];
    if (e->lane != EMU_READ_FIRST_LANE && i->reg[2] < EMU_NULL && r->sdef[i->reg[2]] != UINT32_MAX)
        return false;
    if (e->lane == EMU_WRITE_LANE)
        return from >= EMU_SCALARS || r->sdef[from] == UINT32_MAX;
    return from < EMU_VGPR || from >= EMU_NONE || r->vdef[from - EMU_VGPR] >> lane_of(w, i, e) & 1;
}

/* ---- what must be known ------------------------------------------------------------------------------------------ */

/* Whether the operand must be known. Otherwise the mark is passed on to the result. Stored data is checked at the
 * store. */
static bool is_sink(const struct emu_inst *i, const struct emu_range *range)
{
    switch (i->op->cls) {
    case EMU_SMEM:
    case EMU_BRANCH:
    case EMU_VMEM_LOAD:
    case EMU_VMEM_ATOMIC:
    case EMU_FLAT_LOAD:
    case EMU_FLAT_ATOMIC:
    case EMU_SCRATCH_LOAD:
    case EMU_LDS_ATOMIC:
        return true;
    case EMU_FLAT_STORE:
    case EMU_SCRATCH_STORE: /* address, data, base */
        return range->operand != 1;
    case EMU_VMEM_STORE:
        return range->operand != (emu_begins(i->op->name, "buffer_") ? 0 : 1);
    case EMU_LDS:
        return range->operand == 0 || i->role[0] == 'd';
    default:
        return false;
    }
}

/* A branch on VCC: is a bit known to be 1? */
static bool decided(const struct emu_wave *w, const struct emu_inst *i, const struct emu_range *range)
{
    const struct emu_regs *r = w->checks->regs;
    if (i->op->cls != EMU_BRANCH || range->reg != EMU_VCC)
        return false;
    for (int n = 0; n < range->words; n++)
        if (w->s[EMU_VCC + n] & r->sdef[EMU_VCC + n])
            return true;
    return false;
}

bool emu_sinks_known(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    const struct emu_regs *r = w->checks->regs;
    for (int k = 0; k < e->n_reads; k++) {
        const struct emu_range *range = &e->read[k];
        if (!is_sink(i, range) || decided(w, i, range))
            continue;
        for (int n = 0; n < range->words; n++) {
            unsigned reg = range->reg + (unsigned)n;
            bool row = reg >= EMU_VGPR;
            uint64_t unknown = row ? ~r->vdef[reg - EMU_VGPR] & w->exec : (uint64_t)~r->sdef[reg];
            if (!unknown)
                continue;
            emu_say_undefined(w, i, reg, row ? unknown : w->exec ? w->exec : 1);
            return false;
        }
    }
    return true;
}

void emu_say_undefined(struct emu_wave *w, const struct emu_inst *i, unsigned reg, uint64_t lanes)
{
    static const char *const checks[] = { "uninitialised-memory", "uninitialised-lds", "uninitialised-scratch" };
    static const char *const places[] = { "memory", "LDS", "scratch" };
    const struct emu_regs *r = w->checks->regs;
    uint32_t from = (reg >= EMU_VGPR ? r->vfrom[reg - EMU_VGPR] : r->sfrom[reg]) & ~EMU_COMPUTED;
    char name[16], text[128];
    emu_register_name(reg, name);
    if (from) {
        const struct emu_inst *load = &w->prog->inst[(from - 1) / 4];
        unsigned origin = (from - 1) & 3;
        emu_inst_text(w->prog, load, text, sizeof(text));
        emu_report(w, i, checks[origin], lanes, "%s comes from %s that nothing wrote, read by '%s' at 0x%x", name,
                   places[origin], text, load->address);
    } else
        emu_report(w, i, "uninitialised-register", lanes, "%s was never written%s", name,
                   reg >= EMU_VGPR ? " in these lanes" : "");
}

/* ---- over and over ----------------------------------------------------------------------------------------------- */

static uint32_t *row_of(const struct emu_wave *w, unsigned reg)
{
    return reg >= EMU_AGPR ? w->a[reg - EMU_AGPR] : w->v[reg - EMU_VGPR];
}

static bool is_row(unsigned reg)
{
    return reg >= EMU_VGPR && reg < EMU_NONE;
}

/* The values for uninitialised bits: zeros, ones, then random. */
static uint32_t pattern(int time, unsigned reg, int lane)
{
    if (time < 2)
        return time ? UINT32_MAX : 0;
    uint32_t x = ((uint32_t)time * 0x9E3779B1u) ^ (reg * 0x85EBCA6Bu) ^ ((uint32_t)lane * 0xC2B2AE35u);
    x = (x ^ x >> 15) * 0x2C1B3C6Du;
    x = (x ^ x >> 12) * 0x297A2D39u;
    return x ^ x >> 15;
}

static void fill_row(const struct emu_wave *w, unsigned reg, int time)
{
    const struct emu_regs *r = w->checks->regs;
    uint32_t *row = row_of(w, reg);
    for (uint64_t unknown = ~r->vdef[reg - EMU_VGPR] & emu_wave_lanes(w); unknown; unknown &= unknown - 1) {
        int l = __builtin_ctzll(unknown);
        uint32_t known = r->partial->bits[reg - EMU_VGPR][l];
        row[l] = (row[l] & known) | (pattern(time, reg, l) & ~known);
    }
}

/* Rows that the instruction reads or writes are kept, or put back. */
static int rows(struct emu_wave *w, const struct emu_effect *e, bool back)
{
    struct emu_partial *p = w->checks->regs->partial;
    int at = 0;
    for (int k = 0; k < e->n_writes + e->n_reads; k++) {
        bool write = k < e->n_writes;
        const struct emu_range *range = write ? &e->write[k] : &e->read[k - e->n_writes];
        unsigned first = emu_first_register(w, e, range, write);
        for (unsigned reg = first; is_row(first) && reg < first + range->words; reg++, at++) {
            if (at == EMU_ROWS)
                return -1;
            if (back)
                memcpy(row_of(w, reg), p->keep[at], sizeof(emu_row));
            else
                memcpy(p->keep[at], row_of(w, reg), sizeof(emu_row));
        }
    }
    return at;
}

static void compare(const struct emu_wave *w, const struct emu_wave *after, const struct emu_effect *e, int time)
{
    struct emu_partial *p = w->checks->regs->partial;
    int at = 0;
    for (int k = 0; k < e->n_writes; k++) {
        unsigned first = emu_first_register(w, e, &e->write[k], true);
        for (unsigned reg = first; reg < first + e->write[k].words; reg++) {
            if (is_row(reg)) {
                const uint32_t *row = row_of(w, reg);
                for (int l = 0; l < 64; l++)
                    p->differs[at][l] = time ? p->differs[at][l] | (row[l] ^ p->first[at][l]) : 0;
                if (!time)
                    memcpy(p->first[at], row, sizeof(emu_row));
                at++;
                continue;
            }
            uint32_t now = reg == EMU_SCC        ? (after->scc ? UINT32_MAX : 0)
                           : reg == EMU_EXEC     ? (uint32_t)after->exec
                           : reg == EMU_EXEC + 1 ? (uint32_t)(after->exec >> 32)
                           : reg < EMU_EXEC      ? after->s[reg]
                                                 : 0;
            p->scalar_differs[reg] = time ? p->scalar_differs[reg] | (now ^ p->scalar_first[reg]) : 0;
            if (!time)
                p->scalar_first[reg] = now;
        }
    }
}

bool emu_find_dependence(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e, uint32_t *from)
{
    struct emu_regs *r = w->checks->regs;
    if (!r->partial)
        r->partial = calloc(1, sizeof(*r->partial));
    if (!r->partial || rows(w, e, false) < 0)
        return false;
    for (int time = 0; time < TIMES; time++) {
        struct emu_wave again = *w;
        again.watch = 0;
        for (int k = 0; k < e->n_reads; k++) {
            unsigned first = emu_first_register(w, e, &e->read[k], false);
            for (unsigned reg = first; reg < first + e->read[k].words; reg++)
                if (is_row(reg)) {
                    fill_row(w, reg, time);
                    if (~r->vdef[reg - EMU_VGPR] & emu_wave_lanes(w) && r->vfrom[reg - EMU_VGPR])
                        *from = r->vfrom[reg - EMU_VGPR];
                } else if (r->sdef[reg] != UINT32_MAX) {
                    uint32_t x = pattern(time, reg, 64);
                    if (reg == EMU_SCC)
                        again.scc = time & 1;
                    else if (reg < EMU_NULL)
                        again.s[reg] = (w->s[reg] & r->sdef[reg]) | (x & ~r->sdef[reg]);
                    *from = r->sfrom[reg] ? r->sfrom[reg] : *from;
                }
        }
        i->op->fn(&again, i);
        compare(w, &again, e, time);
        rows(w, e, true);
    }
    return true;
}
