/* SPDX-License-Identifier: MIT
 *
 * The state of a wave's registers: uninitialised, or still to be filled by a load.
 *
 *   uninitialised-register, -lds, -scratch, -memory   what nothing wrote reaches a store to memory, an address, a
 *       branch or a lane mask that becomes EXEC. Copies and arithmetic carry the mark on: check_defined.c. What is only
 *       copied from memory to memory, or is padding beside what was written, takes its mark along instead.
 *   missing-wait   a register is read, or written, while a load into it is under way that no s_waitcnt waited for.
 *
 * gfx12 counts scalar loads (kmcnt) apart from LDS (dscnt). Vector memory operations return in order, as do LDS's;
 * scalar loads in any, so that only lgkmcnt(0) waits for them. FLAT ones count twice, and before gfx10 return in any
 * order too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_registers.h"

struct emu_regs *emu_regs_create(void)
{
    return calloc(1, sizeof(struct emu_regs));
}

void emu_regs_destroy(struct emu_regs *r)
{
    if (r)
        free(r->partial);
    free(r);
}

const struct emu_progress *emu_regs_progress(const struct emu_wave *w)
{
    return &w->checks->regs->at;
}

/* What the hardware sets counts as written. */
void emu_regs_begin(struct emu_wave *w)
{
    struct emu_regs *r = w->checks->regs;
    free(r->partial);
    memset(r, 0, sizeof(*r));
    r->split = w->prog->arch->gfx >= 0x1200;
    memset(r->sdef, 0xff, w->init_sgprs * sizeof(r->sdef[0]));
    memset(&r->sdef[EMU_TTMP], 0xff, 16 * sizeof(r->sdef[0]));
    memset(&r->sdef[EMU_NULL], 0xff, 3 * sizeof(r->sdef[0])); /* and EXEC */
    r->sdef[EMU_EXECZ] = r->sdef[EMU_VCCZ] = UINT32_MAX;
    if (w->prog->arch->gfx < 0x1000)
        r->sdef[102] = r->sdef[103] = UINT32_MAX; /* FLAT_SCRATCH */
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

static bool touch_pending(struct emu_wave *w, const struct emu_inst *i, unsigned reg, bool write)
{
    struct emu_regs *r = w->checks->regs;
    bool vector = reg >= EMU_VGPR;
    uint8_t *kind = vector ? &r->vkind[reg - EMU_VGPR] : &r->skind[reg];
    char name[16];
    uint8_t was = *kind;
    bool there =
        arrived(r, was, vector ? r->vseq[reg - EMU_VGPR] : r->sseq[reg], vector ? r->vlgkm[reg - EMU_VGPR] : 0);
    *kind = EMU_NOTHING_PENDING;
    if (there || !(w->checks->groups & EMU_CHECK_WAITS))
        return true;
    static const char *const into[] = { "it", "its lower half", "its upper half", "each of its halves" };
    emu_report(w, i, "missing-wait", w->exec, "%s %s while a %s into %s is under way: no %s %s waited for it",
               write ? "writes" : "reads", emu_register_name(reg, name),
               was == EMU_PENDING_LOAD   ? "vector load"
               : was == EMU_PENDING_LDS  ? "load from LDS"
               : was == EMU_PENDING_FLAT ? "FLAT load"
                                         : "scalar load",
               into[vector ? r->vhalf[reg - EMU_VGPR] : 0], r->split ? "s_wait of" : "s_waitcnt",
               was == EMU_PENDING_LOAD   ? r->split ? "loadcnt" : "vmcnt"
               : was == EMU_PENDING_FLAT ? r->split ? "loadcnt and dscnt" : "vmcnt and lgkmcnt"
               : !r->split               ? "lgkmcnt"
               : was == EMU_PENDING_SMEM ? "kmcnt"
                                         : "dscnt");
    return false;
}

static inline bool touch(struct emu_wave *w, const struct emu_inst *i, unsigned reg, bool write)
{
    const struct emu_regs *r = w->checks->regs;
    return !(reg >= EMU_VGPR ? r->vkind[reg - EMU_VGPR] : r->skind[reg]) || touch_pending(w, i, reg, write);
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

/* ---- what is known ---------------------------------------------------------------------------------------------- */

/* Whether all bits of this register that the instruction reads are known. */
static inline bool all_known(const struct emu_wave *w, const struct emu_effect *e, unsigned reg)
{
    const struct emu_regs *r = w->checks->regs;
    if (reg >= EMU_VGPR)
        return !(~r->vdef[reg - EMU_VGPR] & (e->cross ? emu_wave_lanes(w) : w->exec));
    return r->sdef[reg] == UINT32_MAX;
}

/* An unknown lane keeps the bits that don't differ. */
static inline void set_row(struct emu_regs *r, unsigned v, uint64_t lanes, const uint32_t *differs)
{
    r->vdef[v] |= lanes;
    for (int l = 0; differs && l < 64; l++)
        if (differs[l] && lanes >> l & 1) {
            r->vdef[v] &= ~(1ull << l);
            r->partial->bits[v][l] = ~differs[l];
        }
}

/* differs: bits of the row's lanes, NULL: none; known: of a scalar. */
static inline void set_known(const struct emu_wave *w, unsigned reg, uint64_t lanes, const uint32_t *differs,
                             uint32_t known, uint32_t from, uint8_t kind, uint8_t half)
{
    struct emu_regs *r = w->checks->regs;
    if (reg >= EMU_VGPR) {
        unsigned v = reg - EMU_VGPR;
        set_row(r, v, lanes, differs);
        r->vfrom[v] = from;
        if (kind) {
            r->vhalf[v] = r->vkind[v] == kind && r->vhalf[v] ? r->vhalf[v] | half : half;
            r->vkind[v] = kind;
            r->vseq[v] = kind == EMU_PENDING_LDS ? r->at.lgkm_issued : r->at.vm_issued;
            r->vlgkm[v] = r->at.lgkm_issued;
        }
        return;
    }
    r->sdef[reg] = known;
    r->sfrom[reg] = from;
    if (kind) {
        r->skind[reg] = kind;
        r->sseq[reg] = r->split ? r->at.km_issued : r->at.lgkm_issued;
    }
}

/* EXEC, which decides the rest of the program. */
static void exec_known(struct emu_wave *w, const struct emu_inst *i, unsigned reg)
{
    struct emu_regs *r = w->checks->regs;
    uint32_t unknown = ~r->sdef[reg] & (uint32_t)(emu_wave_lanes(w) >> (reg == EMU_EXEC ? 0 : 32));
    if (unknown && (w->checks->groups & EMU_CHECK_REGISTERS))
        emu_say_undefined(w, i, reg, (uint64_t)unknown << (reg == EMU_EXEC ? 0 : 32));
    r->sdef[reg] = UINT32_MAX;
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
                r->sdef[reg] = UINT32_MAX;
            else if (reg + shift < EMU_VGPR + EMU_VECTORS)
                r->vdef[reg + shift - EMU_VGPR] |= w->exec;
        }
}

/* Whether the instruction computes its results from other registers. */
static bool is_computed(const struct emu_inst *i)
{
    enum emu_class c = i->op->cls;
    return c == EMU_SALU || c == EMU_VALU || c == EMU_TRANS || c == EMU_MFMA || c == EMU_CROSS;
}

/* A load from memory, in a register that a FLAT one is under way to, of which all is waited for that may come from LDS:
 * what is left comes in memory's order. */
static bool follows_flat(const struct emu_regs *r, unsigned v, uint8_t kind)
{
    return kind == EMU_PENDING_LOAD && r->vkind[v] == EMU_PENDING_FLAT && (int32_t)(r->at.lgkm_done - r->vlgkm[v]) >= 0;
}

void emu_regs_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_regs *r = w->checks->regs;
    bool known = true;
    if (i->wait)
        waits(r, i->wait);
    if (w->gpr_index && e->vector && !e->pending) {
        indexed(w, r, e);
        return;
    }
    for (int k = 0; k < e->n_reads; k++) {
        unsigned first = emu_first_register(w, e, &e->read[k], false);
        for (unsigned reg = first; reg < first + e->read[k].words; reg++) {
            if (!touch(w, i, reg, false))
                return;
            known &= all_known(w, e, reg);
        }
    }
    uint32_t from = 0;
    if (!known && !(w->checks->groups & EMU_CHECK_REGISTERS))
        known = true;
    if (!known && e->lane && emu_lane_known(w, i, e))
        known = true;
    if (!known && !is_computed(i)) {
        if (!emu_sinks_known(w, i, e))
            return;
        known = true; /* what is loaded memory says */
    }
    if (!known && !emu_find_dependence(w, i, e, &from))
        known = true;
    if (!known && !e->moves)
        from |= EMU_COMPUTED;
    issue(w, e);
    uint8_t kind = pending_kind(e);
    bool usual = !i->mods->dpp && !e->lane && i->op->cls != EMU_MFMA;
    uint64_t lanes = usual ? w->exec : emu_written_lanes(w, i, e);
    int row = 0;
    for (int k = 0; k < e->n_writes; k++) {
        unsigned first = emu_first_register(w, e, &e->write[k], true);
        for (unsigned reg = first; reg < first + e->write[k].words; reg++) {
            /* Loads of one kind return in order: one may follow another into the same register, say in the other
             * branch. */
            bool follows = kind && kind != EMU_PENDING_SMEM && kind != EMU_PENDING_FLAT && reg >= EMU_VGPR &&
                           (r->vkind[reg - EMU_VGPR] == kind || follows_flat(r, reg - EMU_VGPR, kind));
            if (!follows && !touch(w, i, reg, true))
                return;
            const uint32_t *differs = !known && reg >= EMU_VGPR ? r->partial->differs[row++] : NULL;
            set_known(w, reg, lanes, differs, known || reg >= EMU_VGPR ? UINT32_MAX : ~r->partial->scalar_differs[reg],
                      from, e->write[k].operand == EMU_IMPLICIT ? 0 : kind, e->half);
            if ((reg == EMU_EXEC || reg == EMU_EXEC + 1) && r->sdef[reg] != UINT32_MAX)
                exec_known(w, i, reg);
        }
    }
}

/* ---- memory's part ----------------------------------------------------------------------------------------------- */

void emu_regs_undefined(struct emu_wave *w, unsigned reg, uint64_t lanes, const uint32_t *known,
                        const struct emu_inst *load, enum emu_origin origin)
{
    struct emu_regs *r = w->checks->regs;
    uint32_t from = (uint32_t)(load - w->prog->inst) * 4 + origin + 1;
    if (reg >= EMU_VGPR && reg < EMU_NONE) {
        if (!r->partial)
            r->partial = calloc(1, sizeof(*r->partial));
        r->vdef[reg - EMU_VGPR] &= ~lanes;
        r->vfrom[reg - EMU_VGPR] = from;
        for (int l = 0; r->partial && l < 64; l++)
            if (lanes >> l & 1)
                r->partial->bits[reg - EMU_VGPR][l] = known ? known[l] : 0;
    } else if (reg < EMU_NULL) {
        r->sdef[reg] = 0;
        r->sfrom[reg] = from;
    }
}

uint64_t emu_regs_defined(const struct emu_wave *w, unsigned reg)
{
    const struct emu_regs *r = w->checks->regs;
    return reg >= EMU_VGPR && reg < EMU_NONE    ? r->vdef[reg - EMU_VGPR]
           : reg < EMU_SCALARS && ~r->sdef[reg] ? 0
                                                : UINT64_MAX;
}

uint32_t emu_regs_bits(const struct emu_wave *w, unsigned reg, int lane)
{
    const struct emu_regs *r = w->checks->regs;
    if (reg < EMU_VGPR || reg >= EMU_NONE)
        return reg < EMU_SCALARS ? r->sdef[reg] : UINT32_MAX;
    return r->vdef[reg - EMU_VGPR] >> lane & 1 ? UINT32_MAX : r->partial ? r->partial->bits[reg - EMU_VGPR][lane] : 0;
}

unsigned emu_regs_bytes(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, unsigned word,
                        int lane)
{
    uint32_t bits = emu_regs_bits(w, a->data + word, lane);
    unsigned bytes = 0;
    if (a->bytes < 4 && strstr(i->op->name, "d16_hi"))
        bits >>= 16;
    for (unsigned b = 0; b < 4; b++)
        bytes |= (unsigned)((bits >> 8 * b & 0xff) == 0xff) << b;
    return bytes;
}

void emu_stored_bytes(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, int lane,
                      uint8_t *bytes)
{
    for (unsigned d = 0; d < (a->bytes + 3u) / 4; d++) {
        unsigned reg = a->data + d;
        uint32_t x = reg < EMU_VGPR    ? w->s[reg]
                     : reg >= EMU_AGPR ? w->a[reg - EMU_AGPR][lane]
                                       : w->v[reg - EMU_VGPR][lane];
        if (a->bytes < 4 && strstr(i->op->name, "d16_hi"))
            x >>= 16;
        memcpy(bytes + 4 * d, &x, a->bytes < 4 ? a->bytes : 4);
    }
}

/* A load of a byte or two into a whole register. */
static bool widens(const char *load)
{
    static const char *const sizes[] = { "byte", "short", "_u8", "_i8", "_u16", "_i16" };
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
        if (strstr(load, sizes[k]))
            return true;
    return false;
}

/* Whether the lane's store is a copy: of memory, or of LDS or scratch with known bytes beside it, such as a struct's
 * padding. */
static bool copies(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, unsigned word,
                   int lane)
{
    const struct emu_regs *r = w->checks->regs;
    unsigned reg = a->data + word, known = 0;
    uint32_t from = reg >= EMU_VGPR ? r->vfrom[reg - EMU_VGPR] : r->sfrom[reg];
    if (!from || from & EMU_COMPUTED)
        return false;
    if (a->bytes >= 4 && widens(w->prog->inst[(from - 1) / 4].op->name))
        return false;
    for (unsigned d = 0; d < (a->bytes + 3u) / 4; d++)
        known |= emu_regs_bytes(w, i, a, d, lane) & (a->bytes < 4 ? (1u << a->bytes) - 1 : 15);
    return ((from - 1) & 3) == EMU_FROM_MEMORY || known;
}

uint64_t emu_regs_stored(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a)
{
    unsigned words = a->bytes < 4 ? 1 : a->bytes / 4u, want = a->bytes < 4 ? (1u << a->bytes) - 1 : 15;
    uint64_t copied = 0;
    for (unsigned d = 0; d < words && a->data != EMU_NONE && !a->scalar; d++) {
        uint64_t unknown = 0;
        for (uint64_t m = a->lanes & ~emu_regs_defined(w, a->data + d); m; m &= m - 1) {
            int l = __builtin_ctzll(m);
            if ((emu_regs_bytes(w, i, a, d, l) & want) == want)
                continue;
            if (copies(w, i, a, d, l))
                copied |= m & -m;
            else
                unknown |= m & -m;
        }
        if (unknown) {
            emu_say_undefined(w, i, a->data + d, unknown);
            return 0;
        }
    }
    if (copied && w->checks->groups & EMU_CHECK_NOTES)
        emu_note(w, i, "copies-unwritten", copied, "copies what nothing wrote, or padding");
    return copied;
}
