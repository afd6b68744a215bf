/* SPDX-License-Identifier: MIT
 *
 * gfx11's hazards, by LLVM 19's GCNHazardRecognizer, since AMD's guide has no tables of them. Time is counted in vector
 * ALU instructions. gfx10.3 has one of the rules, gfx11.5 all but VALUTransUse, gfx12 two. */
#include <stdio.h>
#include <string.h>

#include "check_hazards.h"

/* emu_effect.makes on gfx11. */
enum {
    G11_VALU = 1 << 0,
    G11_TRANS = 1 << 1,
    G11_DONE = 1 << 2, /* vector ALU results are waited for: va_vdst 0; memory instructions do */
    G11_WMMA = 1 << 3,
    G11_CMPX = 1 << 4,
    G11_PERMLANE = 1 << 5,
    G11_V_NOP = 1 << 6,
    G11_SALU = 1 << 7,
    G11_SALU_EXEC = 1 << 8,
    G11_SALU_DONE = 1 << 9, /* s_waitcnt_depctr sa_sdst 0 */
    G11_MASK = 1 << 10,     /* reads a lane mask in SGPRs: minds is the operand's register */
    G11_SCALAR = 1 << 11,   /* a VALU instruction that reads SGPRs, VCC or a literal */
    G11_S_NOP = 1 << 12,
    G11_DEALLOC = 1 << 13,
};

/* The operand that is a lane mask read by a VALU instruction; EMU_NONE: none. */
static unsigned mask_operand(const struct emu_inst *i)
{
    if (emu_begins(i->op->name, "v_div_fmas"))
        return EMU_VCC;
    if (!emu_begins(i->op->name, "v_cndmask") && !emu_begins(i->op->name, "v_add_co_ci") &&
        !emu_begins(i->op->name, "v_sub_co_ci") && !emu_begins(i->op->name, "v_subrev_co_ci"))
        return EMU_NONE;
    unsigned last = i->n ? i->reg[i->n - 1] : EMU_NONE;
    return last < EMU_NULL && i->role[i->n - 1] == 'n' ? last : EMU_VCC;
}

/* Whether a literal constant follows the instruction's one or two words. */
static bool has_literal(const struct emu_program *prog, const struct emu_inst *i)
{
    uint32_t word;
    if (i->mods->dpp || i->size < 8)
        return false;
    memcpy(&word, (const void *)(uintptr_t)(prog->base + i->address), 4);
    return i->size == 12 || word >> 28 < 12;
}

void emu_hazard_classes_gfx11(struct emu_effect *e, const struct emu_program *prog, const struct emu_inst *i)
{
    const char *name = i->op->name;
    uint32_t m = 0;
    unsigned depctr = emu_begins(name, "s_waitcnt_depctr") ? (unsigned)i->k[0] : 0xffff;
    if (is_valu(i)) {
        m = G11_VALU;
        m |= i->op->cls == EMU_TRANS ? G11_TRANS : 0;
        m |= i->op->cls == EMU_MFMA ? G11_WMMA : 0;
        m |= emu_begins(name, "v_cmpx") ? G11_CMPX : 0;
        m |= emu_begins(name, "v_permlane") ? G11_PERMLANE : 0;
        m |= !strcmp(name, "v_nop") ? G11_V_NOP : 0;
        m |= has_literal(prog, i) ? G11_SCALAR : 0;
        for (int k = 0; k < e->n_reads; k++)
            m |= scalar(&e->read[k]) ? G11_SCALAR : 0;
        if (mask_operand(i) != EMU_NONE) {
            m |= G11_MASK;
            e->minds = mask_operand(i);
        }
    }
    if (i->op->cls == EMU_SALU || i->op->cls == EMU_BRANCH)
        m |= G11_SALU | (writes(e, is_exec) ? G11_SALU_EXEC : 0);
    /* buffer_gl0_inv and buffer_gl1_inv are MUBUF: isVMEM() in fixVALUTransUseHazard() */
    if (is_flat_or_vmem(i) || is_lds(i) || !(depctr >> 12) || emu_begins(name, "buffer_gl"))
        m |= G11_DONE;
    if (!(depctr & 1))
        m |= G11_SALU_DONE;
    if (!strcmp(name, "s_nop"))
        m |= G11_S_NOP;
    if (!strcmp(name, "s_sendmsg") && (i->k[0] & 0xff) == 3)
        m |= G11_DEALLOC;
    if (prog->arch->gfx < 0x1100)
        m &= G11_VALU | G11_CMPX | G11_PERMLANE | G11_V_NOP;
    else if (prog->arch->gfx >= 0x1150 && prog->arch->gfx < 0x1200)
        m &= ~(uint32_t)G11_TRANS; /* gfx11.5 forwards it rightly */
    else if (prog->arch->gfx >= 0x1200)
        m &= G11_VALU | G11_WMMA | G11_V_NOP | G11_S_NOP | G11_DEALLOC;
    e->makes = m;
}

static bool reads_result(const struct emu_effect *e, const struct emu_effect *pe,
                         bool (*sort)(const struct emu_range *))
{
    for (int k = 0; k < e->n_reads; k++)
        for (int n = 0; n < pe->n_writes; n++)
            if (sort(&e->read[k]) && e->read[k].operand != EMU_IMPLICIT && overlap(&e->read[k], &pe->write[n]))
                return true;
    return false;
}

/* VALUTransUse: the result is forwarded wrongly to one of the 5 VALU instructions after it, unless two transcendentals
 * come between. */
static void trans_use(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    const struct emu_hazards *h = w->checks->hazards;
    char needs[160];
    for (uint32_t k = 0; k < events(h); k++) {
        const struct event *p = event_before(h, k);
        const struct emu_effect *pe = effect_of(w, p->inst);
        uint32_t between = h->now - p->at;
        if (between > 5 || h->transes - p->transes > 1)
            return;
        if (!(pe->makes & G11_TRANS) || !reads_result(e, pe, vector))
            continue;
        snprintf(needs, sizeof(needs),
                 "6 VALU instructions (or 2 transcendentals, or s_waitcnt_depctr va_vdst 0) are needed, there are %u",
                 between);
        hazard_report(w, i, p->inst, "reads a transcendental's result", needs);
        return;
    }
}

/* VALUPartialForwarding, wave64: of two VGPRs that an instruction reads one was written before and one after a SALU
 * write of EXEC, each a short time ago. */
static void partial_forwarding(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    const struct emu_hazards *h = w->checks->hazards;
    const struct emu_inst *newer = NULL;
    uint32_t exec_at = 0, after = 0;
    uint32_t found = 0; /* reads whose writer was seen */
    bool exec = false;
    for (uint32_t k = 0; k < events(h); k++) {
        const struct event *p = event_before(h, k);
        const struct emu_effect *pe = effect_of(w, p->inst);
        uint32_t between = h->now - p->at;
        if (between > 8 || (between > 4 && !newer))
            return;
        if (pe->makes & G11_SALU_EXEC) {
            if (newer && !exec) {
                exec = true;
                exec_at = between;
            }
            continue;
        }
        if (!(pe->makes & G11_VALU))
            continue;
        for (int r = 0; r < e->n_reads; r++) {
            if (!vector(&e->read[r]) || found >> r & 1)
                continue;
            for (int n = 0; n < pe->n_writes; n++)
                if (overlap(&e->read[r], &pe->write[n]))
                    found |= 1u << r;
            if (!(found >> r & 1))
                continue;
            if (!exec) {
                if (!newer) {
                    newer = p->inst;
                    after = between;
                }
                continue;
            }
            /* VALU instructions between the older writer and the newer one, which isn't counted itself */
            if (after <= 4 && between - after - 1 <= 2 && exec_at > after) {
                char needs[120];
                snprintf(needs, sizeof(needs),
                         "and a write of EXEC s_waitcnt_depctr va_vdst 0 is needed (%u VALU "
                         "instructions between)",
                         between);
                hazard_report(w, i, p->inst, "reads one VGPR from before and one from after a SALU write of EXEC",
                              needs);
            }
            return;
        }
    }
}

static void vector_gfx11(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_hazards *h = w->checks->hazards;
    if (h->live & G11_TRANS)
        trans_use(w, i, e);
    if (w->wave_size == 64 && h->live & G11_SALU_EXEC)
        partial_forwarding(w, i, e);
    if (e->makes & G11_WMMA && h->last_valu) {
        const struct emu_effect *pe = effect_of(w, h->last_valu);
        for (int k = 0; pe->makes & G11_WMMA && k < e->n_reads; k++)
            /* C isn't minded; a sparse one's is D's operand, and the index comes last */
            if (vector(&e->read[k]) && e->read[k].operand != (i->role[0] == 'b' ? 0 : 3) &&
                overlap(&e->read[k], &pe->write[0])) {
                hazard_report(w, i, h->last_valu, "reads a WMMA's result as A or B",
                              "1 VALU instruction (v_nop will do) is needed, there are 0");
                break;
            }
    }
    if (e->makes & G11_PERMLANE && h->last_real_valu && effect_of(w, h->last_real_valu)->makes & G11_CMPX)
        hazard_report(w, i, h->last_real_valu, "v_cmpx wrote EXEC before v_permlane",
                      "1 VALU instruction other than v_nop is needed, there are 0");
    if (i->size) /* else the second of a pair */
        h->now++;
    h->transes += e->makes & G11_TRANS ? 1 : 0;
    h->last_valu = i;
    if (!(e->makes & G11_V_NOP))
        h->last_real_valu = i;
    if (writes(e, vector)) {
        remember(h, i);
        h->live |= e->makes;
    }
}

/* VALUMaskWrite, wave64: a VALU instruction reads SGPRs as a lane mask, a SALU one writes them, and who reads them
 * then may get the old ones. */
static void mask_write(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_hazards *h = w->checks->hazards;
    struct emu_range mask = { h->mask_reg, 2, 0 }, written = { h->written_reg, 1, 0 };
    if (e->makes & G11_SALU_DONE)
        h->mask_reader = h->mask_writer = NULL;
    for (int k = 0; h->mask_writer && (e->makes & (G11_SALU | G11_VALU)) && k < e->n_reads; k++)
        if (overlap(&e->read[k], &written)) {
            hazard_report(w, i, h->mask_writer,
                          "reads an SGPR that a SALU instruction wrote after a VALU one read it as a lane mask",
                          "s_waitcnt_depctr sa_sdst 0 is needed");
            h->mask_writer = NULL;
        }
    for (int k = 0; k < e->n_writes; k++) {
        if (!scalar(&e->write[k]) || e->write[k].reg == EMU_M0)
            continue;
        if (h->mask_writer && overlap(&e->write[k], &written))
            h->mask_writer = NULL;
        if (h->mask_reader && e->makes & G11_SALU && overlap(&e->write[k], &mask)) {
            h->mask_writer = i;
            h->written_reg = e->write[k].reg > mask.reg ? e->write[k].reg : mask.reg;
        }
    }
    if (e->makes & G11_SCALAR)
        h->mask_reader = NULL;
    if (e->makes & G11_MASK) {
        h->mask_reader = i;
        h->mask_reg = (uint16_t)e->minds;
    }
}

void emu_hazards_gfx11(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_hazards *h = w->checks->hazards;
    if (e->makes & G11_DONE)
        h->n = h->live = 0;
    if (e->makes & G11_VALU)
        vector_gfx11(w, i, e);
    if (e->makes & G11_SALU_EXEC && w->wave_size == 64) {
        remember(h, i);
        h->live |= G11_SALU_EXEC;
    }
    if (w->wave_size == 64)
        mask_write(w, i, e);
    if (e->makes & G11_DEALLOC && h->last && !(effect_of(w, h->last)->makes & G11_S_NOP))
        hazard_report(w, i, h->last, "gives the VGPRs back", "an s_nop is needed");
    h->last = i;
}