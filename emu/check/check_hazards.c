/* SPDX-License-Identifier: MIT
 *
 *   hazard   an instruction comes too soon after another one: the hardware doesn't look after this dependence, the
 * program has to (s_nop, independent instructions, s_waitcnt_depctr)
 *
 * Followed along the path that is executed, branches and calls included. The rules' sources, by the tags in the tables:
 *   nops    "Manually Inserted Wait States (NOPs)" of AMD's ISA guides for MI200 (CDNA2) and MI300 (CDNA3)
 *   mfma    "Dependency Resolution: Required Independent Instructions" of the same guides
 *   llvm    what LLVM 19's GCNHazardRecognizer keeps apart; for gfx11, whose guide has no such tables, all there is
 * gfx950: chapters 4.5 and 7.6 of the CDNA4 guide; llvm: LLVM 22's.
 * The guides were not at hand: where LLVM has a rule too, its counts are the ones here, and tests take LLVM's s_nops
 * for expectation; the rest (vccz, execz, s_setvskip, MODE.vskip) is from memory. docs/emulator.md has all of it in
 * words.
 *
 * gfx90a, gfx942, gfx950: time is counted in wait states. An instruction is one, s_nop N is N + 1. So that what is sure
 * to take longer isn't reported: an MFMA is issued once the one before it is through its passes, a branch that is taken
 * is 4 (LLVM inserts its s_nops before it turns branches round). gfx11: time is counted in vector ALU instructions.
 *
 * The rules marked STRICT are LLVM's, but AMD's own hand-written gfx942 kernels break them everywhere: only with
 * RFG_EMU_CHECKS=+strict. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_hazards.h"

const struct emu_hazard_rule emu_hazard_rules[] = {
#define ALL(n)                                                                                                         \
    {                                                                                                                  \
        n, n, n, n                                                                                                     \
    }
#define PASSES(a, b, c)                                                                                                \
    {                                                                                                                  \
        a, a, b, c                                                                                                     \
    } /* gfx90a has none of 4 passes but the fp64 one */
    { LANE_SELECT, G9, VALU_SGPR, ALL(4), "a VALU instruction wrote the lane select" },                     /* nops */
    { DIV_FMAS, G9, VALU_SGPR, ALL(4), "a VALU instruction wrote VCC, which v_div_fmas reads" },            /* nops */
    { MEM_SGPR, G9, VALU_SGPR, ALL(5), "a VALU instruction wrote an SGPR that vector memory reads" },       /* nops */
    { DPP_VGPR, G9, VALU_VGPR, ALL(2), "a VALU instruction wrote a VGPR that DPP reads" },                  /* nops */
    { DPP_ANY, G9, VALU_EXEC, ALL(5), "a VALU instruction wrote EXEC before DPP" },                         /* nops */
    { VCCZ, G9, VALU_SGPR, ALL(5), "a VALU instruction wrote VCC, vccz is read as data" },                  /* nops */
    { EXECZ, G9, VALU_EXEC, ALL(5), "a VALU instruction wrote EXEC, execz is read as data" },               /* nops */
    { M0_USER, G9, SALU_M0, ALL(1), "a SALU instruction wrote M0, which this reads" },                      /* nops */
    { M0_LDS_DMA, G9 | STRICT, SALU_M0, ALL(1), "a SALU instruction wrote M0, which a load to LDS reads" }, /* llvm */
    { WRITES_VGPR, G90A, WIDE_STORE, ALL(1), "overwrites the data of a store of more than 64 bits" },       /* nops */
    { WRITES_VGPR, G94, WIDE_STORE, ALL(2), "overwrites the data of a store of more than 64 bits" },        /* nops */
    { HWREG, G9 | HW_REGISTER, SETREG, ALL(2), "s_setreg wrote the same hardware register" },               /* nops */
    { GETREG_MODE, G9, SETVSKIP, ALL(2), "s_setvskip changed MODE" },                                       /* nops */
    { VECTOR, G9, SET_MODE_VSKIP, ALL(2), "s_setreg wrote MODE.vskip before a vector instruction" },        /* nops */
    { VALU_READS_VGPR, G94, PART, ALL(1), "a part of a VGPR was written by SDWA or op_sel" },           /* nops, llvm */
    { VALU_READS_VGPR, G9 | NOT_SAME_DOT, DOT, ALL(3), "a dot instruction wrote a VGPR that is read" }, /* mfma, llvm */
    { VALU_READS_VGPR, G90A, XDL, PASSES(5, 11, 19), "an MFMA wrote a VGPR that a VALU instruction reads" }, /* mfma */
    { VALU_READS_VGPR, G942, XDL, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that a VALU instruction reads" },  /* mfma */
    { VALU_READS_VGPR, G950, XDL, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that a VALU instruction reads" },  /* mfma */
    { VALU_READS_VGPR, G94, SGEMM, { 4, 6, 10, 18 }, "an MFMA wrote a VGPR that a VALU instruction reads" }, /* mfma */
    { VALU_READS_VGPR, G9, DGEMM4, ALL(6), "an fp64 MFMA wrote a VGPR that a VALU instruction reads" },      /* mfma */
    { VALU_READS_VGPR, G90A | G942, DGEMM16, ALL(11),
      "an fp64 MFMA wrote a VGPR that a VALU instruction reads" },                                          /* mfma */
    { VALU_READS_VGPR, G950, DGEMM16, ALL(19), "an fp64 MFMA wrote a VGPR that a VALU instruction reads" }, /* mfma */
    { NOT_TRANS_READS_VGPR, G94, TRANS, ALL(1), "a transcendental wrote a VGPR that is read" },             /* nops */
    { VALU_READS_SGPR, G94 | STRICT, VALU_SGPR, ALL(2),
      "a VALU instruction wrote an SGPR or VCC that is read" }, /* llvm */
    { VALU_WRITES_VGPR, G9 | NOT_SAME_DOT, DOT, ALL(3),
      "a dot instruction wrote a VGPR that is overwritten" },                                             /* llvm */
    { VALU_WRITES_VGPR, G90A, XDL, PASSES(5, 11, 19), "an MFMA wrote a VGPR that is overwritten" },       /* mfma */
    { VALU_WRITES_VGPR, G942, XDL, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that is overwritten" },        /* mfma */
    { VALU_WRITES_VGPR, G950, XDL, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that is overwritten" },        /* mfma */
    { VALU_WRITES_VGPR, G94, SGEMM, { 4, 6, 10, 18 }, "an MFMA wrote a VGPR that is overwritten" },       /* mfma */
    { VALU_WRITES_VGPR, G9, DGEMM4, ALL(6), "an fp64 MFMA wrote a VGPR that is overwritten" },            /* mfma */
    { VALU_WRITES_VGPR, G90A | G942, DGEMM16, ALL(11), "an fp64 MFMA wrote a VGPR that is overwritten" }, /* mfma */
    { VALU_WRITES_VGPR, G950, DGEMM16, ALL(19), "an fp64 MFMA wrote a VGPR that is overwritten" },        /* mfma */
    { VALU_WRITES_VGPR, G9 | READ_AS_C, XDL, { 1, 3, 7, 15 }, "overwrites an MFMA's operand C" },         /* mfma */
    { READLANE, G94, VALU_VGPR, ALL(1), "a VALU instruction wrote the VGPR that v_readlane reads" },      /* nops */
    { RWLANE, G94, VALU_EXEC, ALL(4), "a VALU instruction wrote EXEC before a lane is read or written" }, /* nops */
    { MEM_VGPR, G9 | NOT_SAME_DOT, DOT, ALL(3), "a dot instruction wrote a VGPR that is read" },          /* llvm */
    { MEM_VGPR, G90A | DGEMM_SINCE, VALU_VGPR, ALL(2),
      "a VALU instruction wrote a VGPR that memory reads, an fp64 "
      "MFMA between" },                                                                                       /* llvm */
    { MEM_VGPR, G90A, XDL, PASSES(5, 11, 19), "an MFMA wrote a VGPR that memory reads" },                     /* mfma */
    { MEM_VGPR, G942, XDL, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that memory reads" },                      /* mfma */
    { MEM_VGPR, G950, XDL, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that memory reads" },                      /* mfma */
    { MEM_VGPR, G94, SGEMM, { 4, 6, 10, 18 }, "an MFMA wrote a VGPR that memory reads" },                     /* mfma */
    { MEM_VGPR, G9, DGEMM4, ALL(9), "an fp64 MFMA wrote a VGPR that memory reads" },                          /* mfma */
    { MEM_VGPR, G9, DGEMM16, ALL(18), "an fp64 MFMA wrote a VGPR that memory reads" },                        /* mfma */
    { MFMA_ANY, G9, VALU_EXEC, ALL(4), "a VALU instruction wrote EXEC before an MFMA" },                      /* nops */
    { MFMA_VGPR, G9, VALU_NO_DOT, ALL(2), "a VALU instruction wrote a VGPR that an MFMA reads" },             /* nops */
    { MFMA_AB, G90A, XDL, PASSES(5, 11, 19), "an MFMA wrote a VGPR that an MFMA reads as A or B" },           /* mfma */
    { MFMA_AB, G942, XDL, { 5, 7, 11, 19 }, "an MFMA wrote a VGPR that an MFMA reads as A or B" },            /* mfma */
    { MFMA_AB, G950, XDL, { 5, 8, 12, 20 }, "an MFMA wrote a VGPR that an MFMA reads as A or B" },            /* mfma */
    { MFMA_AB, G94, SGEMM, { 4, 6, 10, 18 }, "an MFMA wrote a VGPR that an MFMA reads as A or B" },           /* mfma */
    { MFMA_AB, G9, DGEMM4, ALL(6), "an fp64 MFMA wrote a VGPR that an MFMA reads as A or B" },                /* mfma */
    { MFMA_AB, G90A | G942, DGEMM16, ALL(11), "an fp64 MFMA wrote a VGPR that an MFMA reads as A or B" },     /* mfma */
    { MFMA_AB, G950, DGEMM16, ALL(19), "an fp64 MFMA wrote a VGPR that an MFMA reads as A or B" },            /* mfma */
    { XDL_C, G90A | OVERLAP, XDL, PASSES(2, 8, 16), "an MFMA wrote a part of what an MFMA reads as C" },      /* mfma */
    { XDL_C, G942 | OVERLAP, XDL, { 3, 5, 9, 17 }, "an MFMA wrote a part of what an MFMA reads as C" },       /* mfma */
    { XDL_C, G950 | OVERLAP, XDL, { 3, 6, 10, 18 }, "an MFMA wrote a part of what an MFMA reads as C" },      /* mfma */
    { XDL_C, G94 | EXACT, XDL | SGEMM, { 2, 0, 0, 0 }, "an MFMA of 2 passes wrote what an MFMA reads as C" }, /* mfma */
    { SGEMM_C, G942 | OVERLAP, XDL, { 3, 5, 9, 17 }, "an MFMA wrote a part of what an MFMA reads as C" },     /* mfma */
    { SGEMM_C, G950 | OVERLAP, XDL, { 3, 6, 10, 18 }, "an MFMA wrote a part of what an MFMA reads as C" },    /* mfma */
    { SGEMM_C, G94 | OVERLAP, SGEMM, { 2, 4, 8, 16 }, "an MFMA wrote a part of what an MFMA reads as C" },    /* mfma */
    { SGEMM_C, G94 | EXACT, XDL | SGEMM, { 2, 0, 0, 0 }, "an MFMA of 2 passes wrote what an MFMA reads as C" },
    { SGEMM_C, G94 | OVERLAP, DGEMM4, ALL(4), "an fp64 MFMA wrote a part of what an MFMA reads as C" },    /* mfma */
    { SGEMM_C, G942 | OVERLAP, DGEMM16, ALL(9), "an fp64 MFMA wrote a part of what an MFMA reads as C" },  /* mfma */
    { SGEMM_C, G950 | OVERLAP, DGEMM16, ALL(17), "an fp64 MFMA wrote a part of what an MFMA reads as C" }, /* mfma */
    { DGEMM_C, G90A | OVERLAP, XDL, PASSES(3, 9, 17),
      "an MFMA wrote a part of what an fp64 MFMA reads as C" }, /* mfma */
    { DGEMM_C,
      G942 | OVERLAP,
      XDL,
      { 3, 5, 9, 17 },
      "an MFMA wrote a part of what an fp64 MFMA reads as C" }, /* mfma */
    { DGEMM_C,
      G950 | OVERLAP,
      XDL,
      { 3, 6, 10, 18 },
      "an MFMA wrote a part of what an fp64 MFMA reads as C" }, /* mfma */
    { DGEMM_C,
      G94 | OVERLAP,
      SGEMM,
      { 2, 4, 8, 16 },
      "an MFMA wrote a part of what an fp64 MFMA reads as C" },                         /* mfma */
    { DGEMM_C, G9, DGEMM4, ALL(4), "an fp64 MFMA wrote what an fp64 MFMA reads as C" }, /* mfma */
    { DGEMM_C, G90A | G942 | OVERLAP, DGEMM16, ALL(9),
      "an fp64 MFMA wrote a part of what an fp64 MFMA reads as C" }, /* mfma */
    { DGEMM_C, G950 | OVERLAP, DGEMM16, ALL(17),
      "an fp64 MFMA wrote a part of what an fp64 MFMA reads as C" },       /* mfma */
    { FMA64, G9, DGEMM, ALL(2), "an fp64 MFMA is followed by v_fma_f64" }, /* mfma */
    { SWAP_VGPR, G950, VALU_VGPR, ALL(2),
      "a VALU instruction wrote a VGPR that v_permlane*_swap exchanges" },                          /* llvm */
    { SWAP_ANY, G950, VALU_EXEC, ALL(4), "a VALU instruction wrote EXEC before v_permlane*_swap" }, /* llvm */
};
#define N_RULES (int)(sizeof(emu_hazard_rules) / sizeof(emu_hazard_rules[0]))
const int emu_n_hazard_rules = N_RULES;
#define LONGEST 20
#define TAKEN   4 /* wait states of a branch that is taken */

/* ---- classes: once for each instruction -------------------------------------------------------------------------- */

static bool is_m0(const struct emu_range *r)
{
    return r->reg == EMU_M0;
}

/* Of 4x4x4 ... 32x32x16: 0: 2 passes, 1: 4, 2: 8, 3: 16. The guides' tables of matrix instructions. */
static uint8_t passes_of(const struct emu_inst *i, int gfx)
{
    const char *name = i->op->name;
    int m = 16, n = 16, k = 4;
    bool f64 = emu_begins(name, "v_mfma_f64"), smfmac = emu_begins(name, "v_smfmac");
    for (const char *c = name; *c; c++)
        if (*c == '_' && sscanf(c, "_%dx%dx%d", &m, &n, &k) == 3)
            break;
    bool quick = gfx >= 0x942 && (k >= 8 || smfmac || strstr(name, "xf32"));
    if (m == 4)
        return f64;
    if (gfx == 0x950 && f64)
        return 3;
    if (strstr(name, "f8f6f4")) /* twice as long with an 8-bit one */
        return (uint8_t)((m == 16 ? 1 : 2) + (i->mods->cbsz < 2 || i->mods->blgp < 2));
    if (m == 16)
        return quick && !f64 ? 1 : 2;
    return quick ? 2 : 3;
}

static unsigned hwreg(const struct emu_inst *i)
{
    return emu_begins(i->op->name, "s_getreg") ? i->k[1] & 0xffff : i->k[0] & 0xffff;
}

/* A store, or a compare-and-swap, of more than 64 bits, whose data the unit reads late. Buffer ones with an SGPR as
 * offset leave it the time. */
static const struct emu_range *wide_data(const struct emu_effect *e, const struct emu_inst *i)
{
    enum emu_class c = i->op->cls;
    if (c != EMU_VMEM_STORE && c != EMU_VMEM_ATOMIC && c != EMU_FLAT_STORE && c != EMU_FLAT_ATOMIC &&
        c != EMU_SCRATCH_STORE)
        return NULL;
    if (strstr(i->op->name, "buffer_") && i->n && i->reg[i->n - 1] < EMU_EXEC)
        return NULL;
    for (int k = 0; k < e->n_reads; k++)
        if (vector(&e->read[k]) && e->read[k].words > 2)
            return &e->read[k];
    return NULL;
}

/* gfx950: conversions to one byte, the lowest of fp8 excepted. */
static bool writes_byte(const struct emu_inst *i)
{
    const char *name = i->op->name;
    if (!emu_begins(name, "v_cvt_scalef32_"))
        return false;
    return emu_begins(name + 15, "pk_fp4_") || emu_begins(name + 15, "sr_pk_fp4_") ||
           (emu_begins(name + 15, "sr_") && i->mods->op_sel & 12);
}

static uint32_t gfx9_makes(const struct emu_effect *e, const struct emu_inst *i, int gfx)
{
    const char *name = i->op->name;
    uint32_t makes = 0;
    if (i->op->cls == EMU_MFMA) {
        if (emu_begins(name, "v_mfma_f64"))
            return strstr(name, "_4x4x") ? DGEMM4 : DGEMM16;
        return gfx >= 0x942 && emu_begins(name, "v_mfma_f32") && !strcmp(name + strlen(name) - 4, "_f32") ? SGEMM : XDL;
    }
    if (is_valu(i)) {
        bool dot = emu_begins(name, "v_dot");
        if (writes(e, vector)) {
            makes |= VALU_VGPR | (dot ? DOT : VALU_NO_DOT);
            if (i->op->cls == EMU_TRANS)
                makes |= TRANS;
            if (i->mods->sdwa ? i->mods->sdwa_dst != 6 : i->mods->op_sel & 8 || writes_byte(i))
                makes |= PART;
        }
        if (writes(e, scalar))
            makes |= VALU_SGPR;
        if (writes(e, is_exec))
            makes |= VALU_EXEC;
    }
    if (i->op->cls == EMU_SALU && writes(e, is_m0))
        makes |= SALU_M0;
    if (wide_data(e, i))
        makes |= WIDE_STORE;
    if (emu_begins(name, "s_setreg")) {
        unsigned at = hwreg(i) >> 6 & 31, bits = (hwreg(i) >> 11) + 1;
        makes |= SETREG;
        if ((hwreg(i) & 63) == 1 && at <= 28 && at + bits > 28)
            makes |= SET_MODE_VSKIP;
    }
    if (!strcmp(name, "s_setvskip"))
        makes |= SETVSKIP;
    return makes;
}

static uint32_t gfx9_minds(const struct emu_effect *e, const struct emu_inst *i)
{
    const char *name = i->op->name;
    uint32_t minds = 0;
    bool vgpr_in = false, scalar_in = false, valu = is_valu(i), memory = is_flat_or_vmem(i);
#define NEED(x) (minds |= 1u << (x))
    for (int k = 0; k < e->n_reads; k++) {
        vgpr_in |= vector(&e->read[k]);
        scalar_in |= scalar(&e->read[k]);
        if (valu && e->read[k].reg == EMU_VCCZ)
            NEED(VCCZ);
        if (valu && e->read[k].reg == EMU_EXECZ)
            NEED(EXECZ);
    }
    if (e->vector)
        NEED(VECTOR);
    if (valu && writes(e, vector))
        NEED(WRITES_VGPR);
    if (i->op->cls == EMU_MFMA) {
        NEED(MFMA_ANY);
        NEED(MFMA_VGPR);
        NEED(MFMA_AB);
        NEED(e->makes & DGEMM ? DGEMM_C : e->makes & SGEMM ? SGEMM_C : XDL_C);
        return minds;
    }
    if (memory && scalar_in)
        NEED(MEM_SGPR);
    if ((memory || is_lds(i)) && vgpr_in)
        NEED(MEM_VGPR);
    if (i->mods->dpp) {
        NEED(DPP_VGPR);
        NEED(DPP_ANY);
    }
    if (emu_begins(name, "v_div_fmas"))
        NEED(DIV_FMAS);
    bool read = emu_begins(name, "v_readlane"), first = emu_begins(name, "v_readfirstlane"),
         write = emu_begins(name, "v_writelane");
    if (read || write)
        NEED(LANE_SELECT);
    if (read || first)
        NEED(READLANE);
    if (read || first || write)
        NEED(RWLANE);
    if (valu) {
        if (vgpr_in)
            NEED(VALU_READS_VGPR);
        if (vgpr_in && i->op->cls != EMU_TRANS)
            NEED(NOT_TRANS_READS_VGPR);
        if (scalar_in)
            NEED(VALU_READS_SGPR);
        if (writes(e, vector))
            NEED(VALU_WRITES_VGPR);
        if (emu_begins(name, "v_fma_f64") || emu_begins(name, "v_fmac_f64"))
            NEED(FMA64);
    }
    if (emu_begins(name, "v_permlane") && strstr(name, "_swap")) {
        NEED(SWAP_VGPR);
        NEED(SWAP_ANY);
    }
    if (emu_begins(name, "s_movrel") || emu_begins(name, "s_sendmsg") || emu_begins(name, "s_ttracedata") ||
        emu_begins(name, "ds_gws") || strstr(name, "addtid") || i->mods->gds)
        NEED(M0_USER);
    if (memory && (i->mods->lds || strstr(name, "_lds_")))
        NEED(M0_LDS_DMA);
    if (emu_begins(name, "s_getreg") || emu_begins(name, "s_setreg"))
        NEED(HWREG);
    if (emu_begins(name, "s_getreg") && (hwreg(i) & 63) == 1)
        NEED(GETREG_MODE);
#undef NEED
    return minds;
}

static int arch_of(int gfx)
{
    return gfx == 0x90a ? G90A : gfx == 0x942 ? G942 : gfx == 0x950 ? G950 : 0;
}

void emu_hazard_classes(struct emu_effect *e, const struct emu_program *prog, const struct emu_inst *i)
{
    int gfx = prog->arch->gfx, arch = arch_of(gfx);
    e->states = !strcmp(i->op->name, "s_nop") ? (uint8_t)((i->k[0] & 15) + 1) : 1;
    if (gfx >= 0x1000)
        emu_hazard_classes_gfx11(e, prog, i);
    if (!arch)
        return;
    if (i->op->cls == EMU_MFMA)
        e->passes = passes_of(i, gfx);
    e->makes = gfx9_makes(e, i, gfx);
    e->minds = gfx9_minds(e, i);
    for (int r = 0; r < N_RULES; r++)
        if ((emu_hazard_rules[r].how & arch) && (e->minds >> emu_hazard_rules[r].need & 1))
            e->awaits |= emu_hazard_rules[r].makes;
}

/* ---- a wave ------------------------------------------------------------------------------------------------------ */

struct emu_hazards *emu_hazards_create(void)
{
    return malloc(sizeof(struct emu_hazards));
}

void emu_hazards_begin(struct emu_wave *w)
{
    memset(w->checks->hazards, 0, sizeof(struct emu_hazards));
}

/* Whether the register range counts for this need. */
static bool counts(enum emu_hazard_need need, const struct emu_inst *i, const struct emu_range *r)
{
    bool sparse = i->n && i->role[0] == 'b'; /* D is C, what follows B is the index */
    switch (need) {
    case LANE_SELECT:
        return scalar(r) && r->operand == 2;
    case DIV_FMAS:
        return r->reg == EMU_VCC && r->operand == EMU_IMPLICIT;
    case MEM_SGPR:
    case VALU_READS_SGPR:
        return scalar(r);
    case READLANE:
    case DPP_VGPR: /* source 0 is what DPP moves */
        return vector(r) && r->operand == 1;
    case MFMA_AB:
        return vector(r) && r->operand != (sparse ? 0 : 3);
    case XDL_C:
    case SGEMM_C:
    case DGEMM_C:
        return vector(r) && r->operand == (sparse ? 0 : 3);
    default:
        return vector(r);
    }
}

static bool needs_no_register(enum emu_hazard_need need)
{
    return need == DPP_ANY || need == EXECZ || need == M0_USER || need == M0_LDS_DMA || need == HWREG ||
           need == GETREG_MODE || need == VECTOR || need == RWLANE || need == MFMA_ANY || need == FMA64 ||
           need == SWAP_ANY;
}

/* The earlier instruction's registers that this rule is about, against one of the later one's. */
static bool touches(const struct emu_hazard_rule *r, const struct emu_inst *p, const struct emu_effect *pe,
                    const struct emu_range *with, bool *exact)
{
    *exact = false;
    if (r->makes & WIDE_STORE) {
        const struct emu_range *data = wide_data(pe, p);
        return data && overlap(data, with);
    }
    if (r->how & READ_AS_C) {
        for (int k = 0; k < pe->n_reads; k++)
            if (counts(XDL_C, p, &pe->read[k]) && overlap(&pe->read[k], with))
                return true;
        return false;
    }
    for (int k = 0; k < pe->n_writes; k++)
        if (overlap(&pe->write[k], with)) {
            *exact = pe->write[k].reg == with->reg && pe->write[k].words == with->words;
            return true;
        }
    return false;
}

static bool same_dot(const struct emu_hazard_rule *r, const struct emu_inst *p, const struct emu_inst *i,
                     const struct emu_range *range)
{
    unsigned c = i->role[0] == 'b' ? 0 : 3;
    return !strcmp(p->op->name, i->op->name) && (r->need == VALU_WRITES_VGPR || range->operand == c);
}

struct finding {
    const struct emu_hazard_rule *rule;
    const struct emu_inst *earlier;
    uint32_t need, had;
};

/* The nearest earlier instruction that the rule is about, and that touches this range. As LLVM does, of the MFMAs the
 * nearest of any sort. */
static void look_back(const struct emu_wave *w, const struct emu_inst *i, const struct emu_hazard_rule *r,
                      const struct emu_range *range, struct finding *f)
{
    const struct emu_hazards *h = w->checks->hazards;
    uint32_t group = r->makes & MFMA && !(r->how & READ_AS_C) && range ? (uint32_t)MFMA : r->makes;
    bool dgemm = false, exact = false;
    for (uint32_t k = 0; k < events(h); k++) {
        const struct event *p = event_before(h, k);
        const struct emu_effect *pe = effect_of(w, p->inst);
        uint32_t had = h->now - p->at;
        if (had >= LONGEST)
            return;
        if (!(pe->makes & group) || (range && !touches(r, p->inst, pe, range, &exact)) ||
            (r->how & HW_REGISTER && (hwreg(p->inst) ^ hwreg(i)) & 63)) {
            dgemm |= (pe->makes & DGEMM) != 0;
            continue;
        }
        uint32_t need = r->wait[pe->makes & MFMA ? pe->passes : 0];
        bool applies = pe->makes & r->makes && had < need && (!(r->how & EXACT) || exact) &&
                       (!(r->how & OVERLAP) || !exact) && (!(r->how & DGEMM_SINCE) || dgemm) &&
                       (!(r->how & NOT_SAME_DOT) || !same_dot(r, p->inst, i, range));
        if (applies && need - had > f->need - f->had)
            *f = (struct finding){ r, p->inst, need, had };
        return;
    }
}

static void check_rule(const struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e,
                       const struct emu_hazard_rule *r, struct finding *f)
{
    static const struct emu_range vcc = { EMU_VCC, 2, EMU_IMPLICIT };
    bool write = r->need == WRITES_VGPR || r->need == VALU_WRITES_VGPR;
    if (needs_no_register(r->need))
        look_back(w, i, r, NULL, f);
    else if (r->need == VCCZ)
        look_back(w, i, r, &vcc, f);
    else
        for (int k = 0; k < (write ? e->n_writes : e->n_reads); k++) {
            const struct emu_range *range = write ? &e->write[k] : &e->read[k];
            if (counts(r->need, i, range))
                look_back(w, i, r, range, f);
        }
}

/* Nothing in the last wait states can cause a hazard: done. */
static uint32_t live(const struct emu_wave *w)
{
    const struct emu_hazards *h = w->checks->hazards;
    uint32_t bits = 0;
    for (uint32_t k = 0; k < events(h) && h->now - event_before(h, k)->at < LONGEST; k++)
        bits |= effect_of(w, event_before(h, k)->inst)->makes;
    return bits;
}

static void gfx9_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_hazards *h = w->checks->hazards;
    if (h->last && i != h->last + 1)
        h->now += TAKEN - 1;
    h->last = i;
    if (e->makes & MFMA) { /* is issued when the one before is through */
        if ((int32_t)(h->mfma_free - h->now) > 0)
            h->now = h->mfma_free;
        h->mfma_free = h->now + (2u << e->passes);
    }
    if (e->awaits & h->live && e->awaits & (h->live = live(w))) {
        struct finding f = { 0 };
        int arch = arch_of(w->prog->arch->gfx);
        int without = w->checks->groups & EMU_CHECK_STRICT ? 0 : STRICT;
        for (const struct emu_hazard_rule *r = emu_hazard_rules; r < emu_hazard_rules + N_RULES; r++)
            if (r->how & arch && !(r->how & without) && r->makes & h->live && e->minds >> r->need & 1)
                check_rule(w, i, e, r, &f);
        if (f.rule) {
            char needs[80];
            snprintf(needs, sizeof(needs), "%u wait states are needed, there are %u", f.need, f.had);
            hazard_report(w, i, f.earlier, f.rule->text, needs);
        }
    }
    h->now += e->states;
    if (e->makes) {
        remember(h, i);
        h->live |= e->makes;
    }
}

void emu_hazards_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    int gfx = w->prog->arch->gfx;
    if (gfx < 0x1000)
        gfx9_before(w, i, e);
    else
        emu_hazards_gfx11(w, i, e);
}
