/* SPDX-License-Identifier: MIT
 *
 * What a sanitizer says of a wave's registers and of a workgroup's LDS:
 *
 *   uninitialised-register  a VGPR lane or an SGPR is read that nothing wrote, by an instruction whose result can be
 * seen: it stores, forms an address, branches or feeds a scalar. Copies and arithmetic carry the mark on. missing-wait
 * a register is read, or written, while a load into it is under way that no s_waitcnt waited for, or overwritten while
 * a store still reads it (gfx10+ counts stores apart) lds-uninitialised       bytes of LDS are read that nothing wrote
 *   lds-race                two waves touch the same bytes of LDS, one of them writing, without a barrier between
 *
 * Memory operations of one kind return in order (VMEM loads by vmcnt, LDS by lgkmcnt); scalar loads may return in any,
 * so that only lgkmcnt(0) waits for them. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"

enum { NO_WAIT, VM, LGKM, SMEM };

struct emu_checks {
    uint64_t vdef[512]; /* lanes of a VGPR row that were written */
    uint8_t sdef[128], scc_undefined;
    uint8_t vkind[512], skind[128]; /* what the register waits for */
    uint32_t vseq[512], sseq[128];
    uint32_t vm_issued, vm_done, lgkm_issued, lgkm_done, smem_pending;
};

/* Per word of LDS: who wrote last and who read since, which of its bytes; by epoch (barriers so far). */
struct lds_word {
    uint32_t write_epoch, read_epoch;
    uint8_t writer, reader, written, read, defined, many_readers;
};

struct emu_lds_shadow {
    uint32_t epoch;
    struct lds_word word[];
};

struct emu_checks *emu_checks_create(struct emu_wave *w)
{
    struct emu_checks *c = calloc(1, sizeof(*c));
    if (!c)
        abort();
    emu_checks_reset(c, w);
    return c;
}

/* What the hardware sets up (launch.c) counts as written; launch.c marks it by emu_checks_define(). */
void emu_checks_reset(struct emu_checks *c, struct emu_wave *w)
{
    (void)w;
    memset(c, 0, sizeof(*c));
    c->sdef[EMU_NULL] = c->sdef[EMU_EXEC] = c->sdef[EMU_EXEC + 1] = 1;
}

void emu_checks_define(struct emu_checks *c, uint16_t reg, int n)
{
    for (int k = 0; c && k < n; k++)
        if (reg + k >= EMU_VGPR)
            c->vdef[reg + k - EMU_VGPR] = UINT64_MAX;
        else
            c->sdef[reg + k] = 1;
}

void emu_checks_destroy(struct emu_checks *c)
{
    free(c);
}

/* ---- waits
 * ------------------------------------------------------------------------------------------------------------ */

static void wait_until(uint32_t issued, uint32_t *done, int left)
{
    uint32_t upto = issued - (uint32_t)left;
    if (left <= (int)issued && (int32_t)(upto - *done) > 0)
        *done = upto;
}

static bool arrived(const struct emu_checks *c, uint8_t kind, uint32_t seq)
{
    return kind == NO_WAIT || (kind == VM ? (int32_t)(c->vm_done - seq) >= 0 : (int32_t)(c->lgkm_done - seq) >= 0);
}

static const char *register_name(uint16_t reg, char buf[16])
{
    if (reg >= EMU_AGPR)
        snprintf(buf, 16, "a%d", reg - EMU_AGPR);
    else if (reg >= EMU_VGPR)
        snprintf(buf, 16, "v%d", reg - EMU_VGPR);
    else if (reg == EMU_VCC || reg == EMU_VCC + 1)
        snprintf(buf, 16, "vcc_%s", reg == EMU_VCC ? "lo" : "hi");
    else
        snprintf(buf, 16, reg == EMU_M0 ? "m0" : "s%d", reg);
    return buf;
}

static bool touch(struct emu_wave *w, const struct emu_inst *i, uint16_t reg, bool write)
{
    struct emu_checks *c = w->checks;
    bool vector = reg >= EMU_VGPR;
    uint8_t *kind = vector ? &c->vkind[reg - EMU_VGPR] : &c->skind[reg];
    uint32_t seq = vector ? c->vseq[reg - EMU_VGPR] : c->sseq[reg];
    if (*kind == NO_WAIT)
        return true;
    if (arrived(c, *kind, seq)) {
        *kind = NO_WAIT;
        return true;
    }
    char name[16];
    emu_report(w, i, "missing-wait", true, w->exec,
               "%s %s while a %s into it is under way: no s_waitcnt %s waited for it", write ? "writes" : "reads",
               register_name(reg, name),
               *kind == VM     ? "vector load"
               : *kind == LGKM ? "load from LDS"
                               : "scalar load",
               *kind == VM ? "vmcnt" : "lgkmcnt");
    return false;
}

/* ---- registers
 * ----------------------------------------------------------------------------------------------------------- */

/* Must all of what the instruction reads be defined? Else the mark travels to its destinations. */
static bool is_sink(const struct emu_inst *i, int k)
{
    switch (i->op->cls) {
    case EMU_SMEM:
    case EMU_LOAD:
    case EMU_STORE:
    case EMU_ATOMIC:
    case EMU_BRANCH:
        return true;
    case EMU_LDS_OP: /* addresses; data may be garbage that nobody reads */
        return k == 0 || i->role[0] == 'd';
    default:
        return false;
    }
}

static int words_of(const struct emu_wave *w, const struct emu_inst *i, int k)
{
    if (i->role[k] == 'm' || i->role[k] == 'n')
        return w->lanes / 32;
    return i->words[k];
}

void emu_check_before(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_checks *c = w->checks;
    uint64_t defined[2] = { UINT64_MAX, UINT64_MAX }, exec = w->exec; /* of the result's first word, of the others */
    char name[16];
    if (!i->op)
        return;
    if (i->wait_vm)
        wait_until(c->vm_issued, &c->vm_done, i->wait_vm - 1);
    if (i->wait_lgkm) {
        if (i->wait_lgkm == 1 || !c->smem_pending)
            wait_until(c->lgkm_issued, &c->lgkm_done, i->wait_lgkm - 1);
        if (i->wait_lgkm == 1)
            c->smem_pending = 0;
    }
    /* Of a selection only what is chosen counts. */
    uint64_t chosen[3] = { 0, UINT64_MAX, UINT64_MAX };
    if (i->select) {
        bool vector = i->op->cls == EMU_VALU;
        uint64_t second = !vector                 ? (w->scc ? 0 : UINT64_MAX)
                          : i->reg[3] == EMU_NONE ? (w->s[EMU_VCC] | (uint64_t)w->s[EMU_VCC + 1] << 32)
                                                  : emu_mask(w, i, 3);
        chosen[1] = ~second;
        chosen[2] = second;
    }
    /* readers: a lane that is off is not read, but for what looks at other lanes */
    for (int k = 0; k < EMU_OPERANDS && i->role[k]; k++) {
        char role = i->role[k];
        uint16_t reg = i->reg[k];
        if (role == 'd' || role == 'm' || role == 'i' || reg == EMU_NONE || reg == EMU_CONST ||
            (reg >= EMU_NULL && reg < EMU_VGPR))
            continue;
        int words = words_of(w, i, k), low = k ? i->m.op_sel >> (k - 1) & 1 : 0,
            high = k ? i->m.op_sel_hi >> (k - 1) & 1 : 0;
        for (int n = 0; n < words; n++) {
            uint16_t r = (uint16_t)(reg + n);
            if (i->packed32 && n != low && (i->pk_mov || n != high))
                continue; /* the other word isn't read */
            if (!touch(w, i, r, false))
                return;
            uint64_t def = r >= EMU_VGPR ? c->vdef[r - EMU_VGPR] : c->sdef[r] ? UINT64_MAX : 0;
            if (r >= EMU_VGPR && is_sink(i, k) && ~def & exec) {
                emu_report(w, i, "uninitialised-register", true, ~def & exec,
                           "%s is read but was never written in these lanes", register_name(r, name));
                return;
            }
            if (r < EMU_VGPR && !def && is_sink(i, k)) {
                emu_report(w, i, "uninitialised-register", true, exec, "%s is read but was never written",
                           register_name(r, name));
                return;
            }
            if (i->select && k <= 2)
                def |= ~chosen[k];
            bool second = n > 0 && (i->wordwise || i->low_first);
            if (i->pk_mov ? k == 1 : i->packed32 ? n == low : !second)
                defined[0] &= def;
            if (i->pk_mov ? k == 2 : i->packed32 ? n == high : !i->wordwise || n > 0)
                defined[1] &= def;
        }
    }
    if (i->sets_scc)
        c->scc_undefined = !(defined[0] & defined[1]);
    if ((i->on_scc && c->scc_undefined) || (i->on_vcc && !c->sdef[EMU_VCC])) {
        emu_report(w, i, "uninitialised-register", true, exec,
                   "branches on %s, which comes from a register that was never written", i->on_scc ? "scc" : "vcc");
        return;
    }
    if (i->cross)
        defined[0] = defined[1] = UINT64_MAX; /* whose lanes these are is the instruction's business: no false alarms */
    /* writers */
    uint8_t kind = i->op->cls == EMU_LOAD || (i->op->cls == EMU_ATOMIC && i->m.ret) ? VM
                   : i->op->cls == EMU_LDS_OP                                       ? LGKM
                   : i->op->cls == EMU_SMEM                                         ? SMEM
                                                                                    : NO_WAIT;
    bool stores = i->op->cls == EMU_STORE || (i->op->cls == EMU_ATOMIC && !i->m.ret);
    if (kind == VM || (stores && w->prog->arch->gfx < 0x1000))
        c->vm_issued++;
    if (kind == LGKM || kind == SMEM)
        c->lgkm_issued++;
    if (kind == SMEM)
        c->smem_pending++;
    bool scalar_result = i->op->cls == EMU_SALU || i->op->cls == EMU_SMEM;
    for (int k = 0; k < EMU_OPERANDS && i->role[k]; k++) {
        char role = i->role[k];
        uint16_t reg = i->reg[k];
        if ((role != 'd' && role != 'b' && role != 'm') || reg == EMU_NONE || reg == EMU_CONST ||
            (reg >= EMU_NULL && reg < EMU_VGPR))
            continue;
        int words = words_of(w, i, k);
        for (int n = 0; n < words; n++) {
            uint16_t r = (uint16_t)(reg + n);
            /* Loads of one kind return in order: one may follow another into the same register, say in the other
             * branch. */
            if ((kind == NO_WAIT || kind == SMEM || r < EMU_VGPR || c->vkind[r - EMU_VGPR] != kind) &&
                !touch(w, i, r, true))
                return;
            if (r >= EMU_VGPR) {
                uint64_t *d = &c->vdef[r - EMU_VGPR];
                bool all = i->op->cls == EMU_MMA; /* ignores EXEC */
                *d = all ? UINT64_MAX : (*d & ~exec) | (defined[n > 0] & exec);
                if (kind) {
                    c->vkind[r - EMU_VGPR] = kind;
                    c->vseq[r - EMU_VGPR] = kind == VM ? c->vm_issued : c->lgkm_issued;
                }
            } else {
                c->sdef[r] = scalar_result || role == 'm' ? (defined[0] & defined[1]) != 0 : 1;
                if (kind == SMEM) {
                    c->sdef[r] = 1;
                    c->skind[r] = SMEM;
                    c->sseq[r] = c->lgkm_issued;
                }
            }
        }
    }
}

/* ---- LDS
 * ---------------------------------------------------------------------------------------------------------------------
 */

struct emu_lds_shadow *emu_lds_shadow_create(uint32_t bytes)
{
    struct emu_lds_shadow *s = calloc(1, sizeof(*s) + (bytes / 4 + 1) * sizeof(s->word[0]));
    if (!s)
        abort();
    s->epoch = 1;
    return s;
}

static void lds_load(struct emu_wave *w, const struct emu_inst *i, uint32_t at, uint8_t bytes, int lane)
{
    struct emu_lds_shadow *s = w->wg->shadow;
    struct lds_word *b = &s->word[at];
    uint8_t me = (uint8_t)(w->index + 1);
    uint64_t bit = UINT64_C(1) << lane;
    if (bytes & ~b->defined)
        emu_report(w, i, "lds-uninitialised", true, bit, "reads LDS at offset %u, which nothing wrote", at * 4);
    else if (b->write_epoch == s->epoch && b->writer != me && (b->written & bytes))
        emu_report(w, i, "lds-race", true, bit, "reads LDS at offset %u, which wave %d wrote with no barrier between",
                   at * 4, b->writer - 1);
    if (b->read_epoch != s->epoch) {
        b->read_epoch = s->epoch;
        b->reader = me;
        b->read = bytes;
        b->many_readers = 0;
    } else {
        b->read |= bytes;
        b->many_readers |= b->reader != me;
    }
}

static void lds_store(struct emu_wave *w, const struct emu_inst *i, uint32_t at, uint8_t bytes, int lane)
{
    struct emu_lds_shadow *s = w->wg->shadow;
    struct lds_word *b = &s->word[at];
    uint8_t me = (uint8_t)(w->index + 1);
    uint64_t bit = UINT64_C(1) << lane;
    bool current = b->write_epoch == s->epoch;
    if (current && b->writer != me && (b->written & bytes))
        emu_report(w, i, "lds-race", true, bit, "writes LDS at offset %u, which wave %d wrote with no barrier between",
                   at * 4, b->writer - 1);
    else if (b->read_epoch == s->epoch && (b->reader != me || b->many_readers) && (b->read & bytes))
        emu_report(w, i, "lds-race", true, bit, "writes LDS at offset %u, which wave %d read with no barrier between",
                   at * 4, b->reader - 1);
    b->written = current && b->writer == me ? b->written | bytes : bytes;
    b->write_epoch = s->epoch;
    b->writer = me;
    b->defined |= bytes;
}

void emu_check_lds(struct emu_wave *w, const struct emu_inst *i, enum emu_kind kind, const uint32_t *offset,
                   uint64_t lanes, unsigned bytes)
{
    for (uint64_t m = lanes; m && w->stop != EMU_FAULT; m &= m - 1) {
        int l = __builtin_ctzll(m);
        uint32_t from = offset[l], to = from + bytes;
        for (uint32_t at = from / 4; at * 4 < to; at++) {
            uint32_t lo = from > at * 4 ? from - at * 4 : 0, hi = to < at * 4 + 4 ? to - at * 4 : 4;
            uint8_t part = (uint8_t)((1u << hi) - (1u << lo));
            if (kind == EMU_IS_LOAD)
                lds_load(w, i, at, part, l);
            else if (kind == EMU_IS_STORE)
                lds_store(w, i, at, part, l);
            else
                w->wg->shadow->word[at].defined |= part; /* atomics order themselves */
        }
    }
}

void emu_check_barrier(struct emu_workgroup *wg)
{
    if (wg->shadow)
        wg->shadow->epoch++;
}
