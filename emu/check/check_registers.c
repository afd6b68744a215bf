/* SPDX-License-Identifier: MIT
 *
 * What a wave's registers hold: nothing that was ever written, or what is still under way.
 *
 *   uninitialised-register, -lds, -memory   what nothing wrote reaches a store to memory, an address, a branch or a
 *       lane mask that becomes EXEC. Copies and arithmetic carry the mark on, lane by lane; a selection that of its
 *       chosen source.
 *   missing-wait   a register is read, or written, while a load into it is under way that no s_waitcnt waited for.
 *
 * gfx12 counts scalar loads (kmcnt) apart from LDS (dscnt). Vector memory operations return in order, as do LDS's;
 * scalar loads in any, so that only lgkmcnt(0) waits for them. FLAT ones count twice, and before gfx10 return in any
 * order too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch.h"

#define VECTORS 512 /* rows: VGPRs, then AGPRs */
#define SCALARS (EMU_EXECZ + 1)

struct emu_regs {
    uint64_t vdef[VECTORS]; /* lanes that were written */
    uint8_t sdef[SCALARS];
    uint8_t vkind[VECTORS], skind[SCALARS];  /* enum emu_pending */
    uint32_t vseq[VECTORS], sseq[SCALARS];   /* ... and its number */
    uint32_t vlgkm[VECTORS];                 /* of a FLAT one: the other counter's */
    uint32_t vfrom[VECTORS], sfrom[SCALARS]; /* where undefined bytes came from: 0, or 2 * instruction + (LDS) + 1 */
    struct emu_progress at;
    uint32_t unordered; /* lgkm operations that return in any order */
    bool split;         /* gfx12 */
};

struct emu_regs *emu_regs_create(void)
{
    return malloc(sizeof(struct emu_regs));
}

const struct emu_progress *emu_regs_progress(const struct emu_wave *w)
{
    return &w->checks->regs->at;
}

/* What the hardware sets counts as written. */
void emu_regs_begin(struct emu_wave *w)
{
    struct emu_regs *r = w->checks->regs;
    memset(r, 0, sizeof(*r));
    r->split = w->prog->arch->gfx >= 0x1200;
    memset(r->sdef, 1, w->init_sgprs);
    memset(&r->sdef[EMU_TTMP], 1, 16);
    r->sdef[EMU_NULL] = r->sdef[EMU_EXEC] = r->sdef[EMU_EXEC + 1] = r->sdef[EMU_EXECZ] = r->sdef[EMU_VCCZ] = 1;
    if (w->prog->arch->gfx < 0x1000)
        r->sdef[102] = r->sdef[103] = 1; /* FLAT_SCRATCH */
    for (int k = 0; k < w->init_vgprs; k++)
        r->vdef[k] = UINT64_MAX;
}

/* ---- waits ---------------------------------------------------------------------------------------------------- */

static void wait_until(uint32_t issued, uint32_t *done, uint32_t left)
{
    uint32_t upto = issued - left;
    if (left <= issued && (int32_t)(upto - *done) > 0)
        *done = upto;
}

static void waits(struct emu_regs *r, uint32_t wait)
{
    uint32_t vm = wait >> EMU_WAIT_VM & 255, lgkm = wait >> EMU_WAIT_LGKM & 255, vs = wait >> EMU_WAIT_VS & 255;
    if (vm)
        wait_until(r->at.vm_issued, &r->at.vm_done, vm - 1);
    if (vs)
        wait_until(r->at.vs_issued, &r->at.vs_done, vs - 1);
    if (lgkm && (lgkm == 1 || !r->unordered))
        wait_until(r->at.lgkm_issued, &r->at.lgkm_done, lgkm - 1);
    if (lgkm == 1)
        r->unordered = 0;
    if (r->split && (wait >> EMU_WAIT_KM & 255) == 1)
        r->at.km_done = r->at.km_issued;
}

static bool arrived(const struct emu_regs *r, uint8_t kind, uint32_t seq, uint32_t lgkm)
{
    bool vm = (int32_t)(r->at.vm_done - seq) >= 0;
    switch (kind) {
    case EMU_PENDING_LOAD:
        return vm;
    case EMU_PENDING_FLAT:
        return vm && (int32_t)(r->at.lgkm_done - lgkm) >= 0;
    case EMU_PENDING_SMEM:
        return (int32_t)((r->split ? r->at.km_done : r->at.lgkm_done) - seq) >= 0;
    default:
        return (int32_t)(r->at.lgkm_done - seq) >= 0;
    }
}

static bool touch(struct emu_wave *w, const struct emu_inst *i, unsigned reg, bool write)
{
    struct emu_regs *r = w->checks->regs;
    bool vector = reg >= EMU_VGPR;
    uint8_t *kind = vector ? &r->vkind[reg - EMU_VGPR] : &r->skind[reg];
    if (!*kind)
        return true;
    char name[16];
    uint8_t was = *kind;
    bool there =
        arrived(r, was, vector ? r->vseq[reg - EMU_VGPR] : r->sseq[reg], vector ? r->vlgkm[reg - EMU_VGPR] : 0);
    *kind = EMU_NOTHING_PENDING;
    if (there || !(w->checks->groups & EMU_CHECK_WAITS))
        return true;
    emu_report(w, i, "missing-wait", w->exec, "%s %s while a %s into it is under way: no %s %s waited for it",
               write ? "writes" : "reads", emu_register_name(reg, name),
               was == EMU_PENDING_LOAD   ? "vector load"
               : was == EMU_PENDING_LDS  ? "load from LDS"
               : was == EMU_PENDING_FLAT ? "FLAT load"
                                         : "scalar load",
               r->split ? "s_wait of" : "s_waitcnt",
               was == EMU_PENDING_LOAD   ? r->split ? "loadcnt" : "vmcnt"
               : was == EMU_PENDING_FLAT ? r->split ? "loadcnt and dscnt" : "vmcnt and lgkmcnt"
               : !r->split               ? "lgkmcnt"
               : was == EMU_PENDING_SMEM ? "kmcnt"
                                         : "dscnt");
    return false;
}

/* An operation leaves: its number among its kind's. */
static void issue(struct emu_wave *w, const struct emu_effect *e)
{
    struct emu_regs *r = w->checks->regs;
    bool apart = w->prog->arch->gfx >= 0x1000;
    switch (e->pending) {
    case EMU_PENDING_FLAT:
        r->at.lgkm_issued++;
        r->unordered += !apart;
        if (apart && !e->n_writes)
            r->at.vs_issued++;
        else
            r->at.vm_issued++;
        break;
    case EMU_PENDING_LOAD:
        r->at.vm_issued++;
        break;
    case EMU_PENDING_STORE:
        if (apart)
            r->at.vs_issued++;
        else
            r->at.vm_issued++;
        break;
    case EMU_PENDING_SMEM:
        if (r->split) {
            r->at.km_issued++;
            break;
        }
        r->unordered++;
        r->at.lgkm_issued++;
        break;
    case EMU_PENDING_LDS:
        r->at.lgkm_issued++;
        break;
    default:
        break;
    }
}

/* ---- definedness ------------------------------------------------------------------------------------------------ */

/* Must what the operand says be defined? Else the mark travels on. */
static bool is_sink(const struct emu_inst *i, const struct emu_range *range)
{
    bool data;
    switch (i->op->cls) {
    case EMU_SMEM:
    case EMU_BRANCH:
    case EMU_VMEM_LOAD:
    case EMU_VMEM_STORE:
    case EMU_VMEM_ATOMIC:
    case EMU_FLAT_LOAD:
    case EMU_FLAT_STORE:
    case EMU_FLAT_ATOMIC:
    case EMU_SCRATCH_LOAD:
        return true;
    case EMU_SCRATCH_STORE:
        data = range->operand == 1;
        return !data;
    case EMU_LDS: /* what is stored may be garbage that nobody reads */
        return range->operand == 0 || i->role[0] == 'd';
    case EMU_LDS_ATOMIC:
        return true;
    default:
        return false;
    }
}

static void say_undefined(struct emu_wave *w, const struct emu_inst *i, unsigned reg, uint64_t lanes)
{
    struct emu_regs *r = w->checks->regs;
    uint32_t from = reg >= EMU_VGPR ? r->vfrom[reg - EMU_VGPR] : r->sfrom[reg];
    char name[16], text[128];
    emu_register_name(reg, name);
    if (from) {
        const struct emu_inst *load = &w->prog->inst[(from - 1) / 2];
        bool lds = (from - 1) & 1;
        emu_inst_text(w->prog, load, text, sizeof(text));
        emu_report(w, i, lds ? "uninitialised-lds" : "uninitialised-memory", lanes,
                   "%s comes from %s that nothing wrote, read by '%s' at 0x%x", name, lds ? "LDS" : "memory", text,
                   load->address);
    } else
        emu_report(w, i, "uninitialised-register", lanes, "%s was never written%s", name,
                   reg >= EMU_VGPR ? " in these lanes" : "");
}

/* What is known of an instruction's result, while its sources are looked at. */
struct result {
    uint64_t low, high; /* its first word; its others */
    uint32_t from;
};

static void weaken(struct result *res, uint64_t def, uint32_t from, bool low, bool high)
{
    if (low)
        res->low &= def;
    if (high)
        res->high &= def;
    if (~def && from)
        res->from = from;
}

/* Which of the sources a selection takes, in each lane. */
static uint64_t not_chosen(const struct emu_wave *w, const struct emu_inst *i, unsigned operand)
{
    uint64_t second;
    if (i->op->cls == EMU_SALU)
        second = w->scc ? 0 : UINT64_MAX;
    else if (i->n < 4 || i->reg[3] >= EMU_SCC)
        second = w->s[EMU_VCC] | (uint64_t)w->s[EMU_VCC + 1] << 32;
    else
        second = w->s[i->reg[3]] | (uint64_t)w->s[i->reg[3] + (w->wave_size == 64)] << 32;
    return operand == 1 ? second : operand == 2 ? ~second : 0;
}

/* Does the other source of scalar logic alone make word n of the result known? A mask of the lanes that count, and'ed
 * with what others hold: 0. */
static bool absorbed(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e, unsigned operand,
                     int n)
{
    if (!e->absorbs || (operand != 1 && operand != 2))
        return false;
    int other = operand == 1 ? 2 : 1;
    bool ones = e->absorbs == EMU_ONES || e->absorbs == (other == 1 ? EMU_ONES_ZEROES : EMU_ZEROES_ONES);
    unsigned reg = i->reg[other] + (unsigned)n;
    uint32_t value = i->reg[other] == EMU_CONST ? (uint32_t)(i->k[other] >> 32 * n) : reg < EMU_NULL ? w->s[reg] : ~0u;
    bool known = i->reg[other] == EMU_CONST || (reg < EMU_NULL && w->checks->regs->sdef[reg]);
    return known && value == (ones ? UINT32_MAX : 0);
}

/* One register that is read. False: reported. */
static bool read_one(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e,
                     const struct emu_range *range, int n, struct result *res)
{
    struct emu_regs *r = w->checks->regs;
    unsigned reg = range->reg + (unsigned)n, k = range->operand;
    int low_word = 0, high_word = 1;
    if (e->packed32 && k != EMU_IMPLICIT && k) {
        low_word = i->mods->op_sel >> (k - 1) & 1;
        high_word = i->mods->op_sel_hi >> (k - 1) & 1;
        if (e->pk_mov)
            high_word = low_word;
        if (range->words == 2 && n != low_word && n != high_word)
            return true; /* this word isn't read */
    }
    if (!touch(w, i, reg, false))
        return false;
    if (!(w->checks->groups & EMU_CHECK_REGISTERS))
        return true;
    if (e->half && k == 0)
        return true; /* marks are of whole registers: the half that is written defines it */
    bool vector = reg >= EMU_VGPR;
    uint64_t def = vector ? r->vdef[reg - EMU_VGPR] : r->sdef[reg] ? UINT64_MAX : 0;
    uint64_t lanes = vector ? w->exec : UINT64_MAX;
    if ((def & lanes) == lanes)
        return true;
    if (is_sink(i, range)) {
        say_undefined(w, i, reg, ~def & (vector ? w->exec : w->exec ? w->exec : 1));
        return false;
    }
    if (e->select && k <= 2)
        def |= not_chosen(w, i, k);
    if (absorbed(w, i, e, k, n))
        def = UINT64_MAX;
    if (e->cross && vector) /* whose lanes these are is the instruction's business: all or nothing */
        def = r->vdef[reg - EMU_VGPR] ? UINT64_MAX : 0;
    uint32_t from = vector ? r->vfrom[reg - EMU_VGPR] : r->sfrom[reg];
    if (e->pk_mov)
        weaken(res, def, from, k == 1, k == 2);
    else if (e->packed32 && range->words == 2)
        weaken(res, def, from, n == low_word, n == high_word);
    else if (e->wordwise)
        weaken(res, def, from, n == 0, n > 0);
    else
        weaken(res, def, from, !(n > 0 && e->low_first), true);
    return true;
}

static uint64_t written_lanes(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    if (i->op->cls == EMU_MFMA || e->lane == EMU_WRITE_LANE)
        return UINT64_MAX; /* whatever EXEC says */
    return w->exec;
}

static void set_defined(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e, unsigned reg,
                        bool low, const struct result *res, uint8_t kind)
{
    struct emu_regs *r = w->checks->regs;
    uint64_t def = low ? res->low : res->high;
    /* Of what comes from memory emu_regs_undefined() says what isn't; permutes through LDS move registers. */
    bool loaded = kind != EMU_NOTHING_PENDING && i->op->cls != EMU_CROSS;
    if (reg >= EMU_VGPR) {
        unsigned v = reg - EMU_VGPR;
        uint64_t lanes = written_lanes(w, i, e);
        r->vdef[v] = (r->vdef[v] & ~lanes) | ((loaded ? UINT64_MAX : def) & lanes);
        r->vfrom[v] = res->from;
        if (kind) {
            r->vkind[v] = kind;
            r->vseq[v] = kind == EMU_PENDING_LDS ? r->at.lgkm_issued : r->at.vm_issued;
            r->vlgkm[v] = r->at.lgkm_issued;
        }
        return;
    }
    /* A mask of lanes, of which some are known, is known. */
    bool mask = e->vector && i->op->cls != EMU_CROSS;
    r->sdef[reg] = loaded || (mask ? !w->exec || (def & w->exec) : def != 0 && !~def);
    r->sfrom[reg] = res->from;
    if (kind) {
        r->skind[reg] = kind;
        r->sseq[reg] = r->split ? r->at.km_issued : r->at.lgkm_issued;
    }
}

/* v_readlane, v_readfirstlane, v_writelane: that lane's alone (compilers keep scalars in lanes). */
static void of_one_lane(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e,
                        struct result *res)
{
    const struct emu_regs *r = w->checks->regs;
    bool first = e->lane == EMU_READ_FIRST_LANE, write = e->lane == EMU_WRITE_LANE;
    unsigned row = i->reg[write ? 0 : 1];
    if (row < EMU_VGPR || row >= EMU_NONE)
        return;
    unsigned lane = first                    ? (w->exec ? (unsigned)__builtin_ctzll(w->exec) : 0)
                    : i->reg[2] == EMU_CONST ? (unsigned)i->k[2]
                    : i->reg[2] < EMU_NULL   ? w->s[i->reg[2]]
                                             : 0;
    uint64_t bit = 1ull << (lane & (w->wave_size - 1u)), old = r->vdef[row - EMU_VGPR];
    if (write)
        res->low = i->reg[1] < EMU_NULL && !r->sdef[i->reg[1]] ? old & ~bit : old | bit;
    else
        res->low = res->high = old & bit ? UINT64_MAX : 0;
    res->from = r->vfrom[row - EMU_VGPR];
}

static uint8_t pending_kind(const struct emu_effect *e)
{
    return e->pending == EMU_PENDING_STORE ? (uint8_t)EMU_NOTHING_PENDING : e->pending;
}

/* Under s_set_gpr_idx_on M0 shifts the rows: what is read isn't followed, what is written counts as written. */
static void indexed(const struct emu_wave *w, struct emu_regs *r, const struct emu_effect *e)
{
    unsigned shift = w->gpr_index & 8 ? w->s[EMU_M0] & 255 : 0;
    for (int k = 0; k < e->n_writes; k++)
        for (int n = 0; n < e->write[k].words; n++) {
            unsigned reg = e->write[k].reg + (unsigned)n;
            if (reg < EMU_VGPR)
                r->sdef[reg] = 1;
            else if (reg + shift < EMU_VGPR + VECTORS)
                r->vdef[reg + shift - EMU_VGPR] |= w->exec;
        }
}

void emu_regs_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_regs *r = w->checks->regs;
    struct result res = { UINT64_MAX, UINT64_MAX, 0 };
    if (i->wait)
        waits(r, i->wait);
    if (w->gpr_index && e->vector && !e->pending) {
        indexed(w, r, e);
        return;
    }
    for (int k = 0; k < e->n_reads; k++)
        for (int n = 0; n < e->read[k].words; n++)
            if (!read_one(w, i, e, &e->read[k], n, &res))
                return;
    issue(w, e);
    if (e->lane)
        of_one_lane(w, i, e, &res);
    uint8_t kind = pending_kind(e);
    for (int k = 0; k < e->n_writes; k++)
        for (int n = 0; n < e->write[k].words; n++) {
            unsigned reg = e->write[k].reg + (unsigned)n;
            /* Loads of one kind return in order: one may follow another into the same register, say in the other
             * branch. */
            bool follows = kind && kind != EMU_PENDING_SMEM && kind != EMU_PENDING_FLAT && reg >= EMU_VGPR &&
                           r->vkind[reg - EMU_VGPR] == kind;
            if (!follows && !touch(w, i, reg, true))
                return;
            set_defined(w, i, e, reg, n == 0, &res, e->write[k].operand == EMU_IMPLICIT ? 0 : kind);
            if ((reg == EMU_EXEC || reg == EMU_EXEC + 1) && !r->sdef[reg]) {
                if (w->checks->groups & EMU_CHECK_REGISTERS)
                    say_undefined(w, i, reg, w->exec);
                r->sdef[reg] = 1;
            }
        }
}

/* ---- memory's part ------------------------------------------------------------------------------------------------
 */

void emu_regs_undefined(struct emu_wave *w, unsigned reg, uint64_t lanes, const struct emu_inst *load, bool lds)
{
    struct emu_regs *r = w->checks->regs;
    uint32_t from = (uint32_t)(load - w->prog->inst) * 2 + lds + 1;
    if (reg >= EMU_VGPR && reg < EMU_NONE) {
        r->vdef[reg - EMU_VGPR] &= ~lanes;
        r->vfrom[reg - EMU_VGPR] = from;
    } else if (reg < EMU_NULL) {
        r->sdef[reg] = 0;
        r->sfrom[reg] = from;
    }
}

uint64_t emu_regs_defined(const struct emu_wave *w, unsigned reg)
{
    const struct emu_regs *r = w->checks->regs;
    return reg >= EMU_VGPR && reg < EMU_NONE ? r->vdef[reg - EMU_VGPR]
           : reg < SCALARS && !r->sdef[reg]  ? 0
                                             : UINT64_MAX;
}
