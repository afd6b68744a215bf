/* SPDX-License-Identifier: MIT
 *
 * Between check_hazards.c (the wave's book, gfx90a, gfx942, gfx950) and check_hazards_gfx11.c. */
#ifndef RFG_EMU_CHECK_HAZARDS_H
#define RFG_EMU_CHECK_HAZARDS_H

#include <string.h>

#include "watch.h"

/* ---- gfx90a, gfx942, gfx950: the rules --------------------------------------------------------------------------- */

/* emu_effect.makes on gfx9: what it does that a later instruction may come too soon after. */
enum {
    VALU_VGPR = 1 << 0, /* a VALU instruction, no MFMA, writes VGPRs */
    VALU_NO_DOT = 1 << 1,
    VALU_SGPR = 1 << 2, /* ... SGPRs or VCC */
    VALU_EXEC = 1 << 3,
    TRANS = 1 << 4,
    PART = 1 << 5, /* half or a byte of a VGPR, by SDWA or op_sel */
    DOT = 1 << 6,
    SALU_M0 = 1 << 7,
    WIDE_STORE = 1 << 8, /* of more than 64 bits */
    SETREG = 1 << 9,
    SETVSKIP = 1 << 10,
    SET_MODE_VSKIP = 1 << 11,
    XDL = 1 << 12,
    SGEMM = 1 << 13, /* gfx942: fp32 inputs, not done by the XDL unit */
    DGEMM4 = 1 << 14,
    DGEMM16 = 1 << 15,
    DGEMM = DGEMM4 | DGEMM16,
    MFMA = XDL | SGEMM | DGEMM,
};

/* The bits of emu_effect.minds on gfx9: what about it may come too soon. */
enum emu_hazard_need {
    LANE_SELECT,
    DIV_FMAS,
    MEM_SGPR,
    DPP_VGPR,
    DPP_ANY,
    VCCZ,
    EXECZ,
    M0_USER,
    M0_LDS_DMA,
    WRITES_VGPR, /* any VALU instruction */
    HWREG,       /* s_getreg, s_setreg */
    GETREG_MODE,
    VECTOR,
    VALU_READS_VGPR, /* not an MFMA, here and below */
    NOT_TRANS_READS_VGPR,
    VALU_READS_SGPR,
    VALU_WRITES_VGPR,
    READLANE,
    RWLANE,
    MEM_VGPR,
    MFMA_ANY,
    MFMA_VGPR,
    MFMA_AB,
    XDL_C,
    SGEMM_C,
    DGEMM_C,
    FMA64,
    SWAP_VGPR, /* v_permlane*_swap */
    SWAP_ANY,
    NEEDS
};

enum {
    G90A = 1,
    G942 = 2,
    G950 = 512,
    G94 = G942 | G950,
    G9 = G90A | G94,
    EXACT = 4,         /* only if the earlier one's whole result is the operand: it is forwarded */
    OVERLAP = 8,       /* only if it isn't */
    READ_AS_C = 16,    /* what counts is the earlier one's operand C */
    DGEMM_SINCE = 32,  /* only with a DGEMM between */
    NOT_SAME_DOT = 64, /* a chain of one dot instruction forwards its sum */
    HW_REGISTER = 128, /* the same one */
    STRICT = 256,      /* only if asked for: see the group's name */
};

/* emu_hazard_rules: what must not follow what too soon. */
struct emu_hazard_rule {
    uint8_t need;        /* enum emu_hazard_need; the table is in this order */
    uint16_t how, makes; /* above */
    uint8_t wait[4];     /* [0]; of an MFMA by its passes: 2, 4, 8, 16 */
    const char *text;
};
extern const struct emu_hazard_rule emu_hazard_rules[];
extern const int emu_n_hazard_rules;

/* ---- waves ----------------------------------------------------------------------------------------------------- */

#define RING 32 /* more than the longest wait */

static inline bool is_valu(const struct emu_inst *i)
{
    enum emu_class c = i->op->cls;
    return c == EMU_VALU || c == EMU_TRANS || c == EMU_MFMA || (c == EMU_CROSS && *i->op->name == 'v');
}

static inline bool is_flat_or_vmem(const struct emu_inst *i)
{
    return i->op->cls >= EMU_VMEM_LOAD && i->op->cls <= EMU_SCRATCH_STORE;
}

static inline bool is_lds(const struct emu_inst *i)
{
    return i->op->cls == EMU_LDS || i->op->cls == EMU_LDS_ATOMIC || (i->op->cls == EMU_CROSS && *i->op->name == 'd');
}

static inline bool vector(const struct emu_range *r)
{
    return r->reg >= EMU_VGPR;
}

static inline bool scalar(const struct emu_range *r)
{
    return r->reg < EMU_NULL;
}

static inline bool writes(const struct emu_effect *e, bool (*sort)(const struct emu_range *r))
{
    for (int k = 0; k < e->n_writes; k++)
        if (sort(&e->write[k]))
            return true;
    return false;
}

static inline bool is_exec(const struct emu_range *r)
{
    return r->reg == EMU_EXEC || r->reg == EMU_EXEC + 1;
}

struct event {
    uint32_t at;      /* the wave's time after it */
    uint32_t transes; /* gfx11: so far */
    const struct emu_inst *inst;
};

struct emu_hazards {
    uint32_t now;       /* wait states so far; on gfx11: VALU instructions */
    uint32_t live;      /* emu_effect.makes of the last LONGEST wait states, or more */
    uint32_t mfma_free; /* when the next MFMA can be issued */
    uint32_t n;         /* events so far */
    struct event ring[RING];
    const struct emu_inst *last;
    /* gfx11 */
    uint32_t transes;
    const struct emu_inst *last_valu, *last_real_valu; /* real: no v_nop */
    const struct emu_inst *mask_reader, *mask_writer;
    uint16_t mask_reg, written_reg;
};

static inline const struct emu_effect *effect_of(const struct emu_wave *w, const struct emu_inst *i)
{
    return &w->checks->effects[i - w->prog->inst];
}

static inline const struct event *event_before(const struct emu_hazards *h, uint32_t back)
{
    return &h->ring[(h->n - 1 - back) % RING];
}

static inline uint32_t events(const struct emu_hazards *h)
{
    return h->n < RING ? h->n : RING;
}

static inline void remember(struct emu_hazards *h, const struct emu_inst *i)
{
    h->ring[h->n++ % RING] = (struct event){ h->now, h->transes, i };
}

static inline bool overlap(const struct emu_range *a, const struct emu_range *b)
{
    return a->reg < b->reg + b->words && b->reg < a->reg + a->words;
}

static inline void hazard_report(struct emu_wave *w, const struct emu_inst *i, const struct emu_inst *earlier,
                                 const char *text, const char *needs)
{
    char inst[160];
    emu_inst_text(w->prog, earlier, inst, sizeof(inst));
    emu_report(w, i, "hazard", 0, "%s: after '%s' at 0x%x %s", text, inst, earlier->address, needs);
}

/* gfx11's part of emu_hazard_classes() and emu_hazards_before(). */
void emu_hazard_classes_gfx11(struct emu_effect *e, const struct emu_program *prog, const struct emu_inst *i);
void emu_hazards_gfx11(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e);

#endif
