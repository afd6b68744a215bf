/* SPDX-License-Identifier: MIT
 *
 * What the memory handlers share: moving lanes' bytes, and atomics. Rows describe themselves in emu_op.info. */
#ifndef RFG_EMU_ISA_MEM_H
#define RFG_EMU_ISA_MEM_H

#include "isa.h"

enum {
    MEM_BYTES = 0xff,
    MEM_SIGNED = 0x100,    /* of 1 or 2 bytes */
    MEM_D16 = 0x200,       /* into the low half */
    MEM_D16_HI = 0x400,    /* into or from the high half */
    MEM_TWO = 0x800,       /* ds_*2: two addresses */
    MEM_ST64 = 0x1000,     /* ... 64 elements apart */
    MEM_LDS = 0x2000,      /* to LDS, not to registers */
    MEM_CMP_LAST = 0x4000, /* gfx11's ds_cmpstore: the comparand is the second one */
    MEM_OP = 16            /* shift of enum mem_op */
};
enum mem_op {
    OP_SWAP = 1,
    OP_CMPSWAP,
    OP_ADD,
    OP_SUB,
    OP_RSUB,
    OP_SMIN,
    OP_UMIN,
    OP_SMAX,
    OP_UMAX,
    OP_AND,
    OP_OR,
    OP_XOR,
    OP_INC,
    OP_DEC,
    OP_MSKOR,
    OP_FADD,
    OP_FMIN,
    OP_FMAX,
    OP_PK_F16,
    OP_PK_BF16,
    OP_CSUB,
    OP_FCMPSWAP,
    OP_COND_SUB
};

typedef struct emu_access access_t;

/* Where lane l's bytes are; scratch is in words that are not adjacent. */
static inline uint8_t *lane_ptr(struct emu_wave *w, const access_t *a, int l, uint32_t more)
{
    if (a->space == EMU_LDS_SPACE)
        return w->wg->lds + (uint32_t)(a->addr[l] + more);
    if (a->space == EMU_SCRATCH)
        return emu_scratch(w, l, (uint32_t)a->addr[l] + more);
    return (uint8_t *)(uintptr_t)(a->addr[l] + more);
}

/* The register file's rows that a data operand names; loads go to operand k, words rows. */
void EMU_N(mem_load)(struct emu_wave *w, const struct emu_inst *i, int k, access_t *a, uint32_t info, uint64_t zero);
/* Operand 0 gets it, transposed. */
void EMU_N(mem_load_tr)(struct emu_wave *w, const struct emu_inst *i, access_t *a, uint32_t info);
void EMU_N(mem_store)(struct emu_wave *w, const struct emu_inst *i, int k, access_t *a, uint32_t info);
/* Operand kd gets what was there (-1: nobody wants it), kv is the first data operand, kc cmpswap's other one or -1:
 * both in kv, the new value first. */
void EMU_N(mem_atomic)(struct emu_wave *w, const struct emu_inst *i, int kd, int kv, int kc, access_t *a,
                       uint32_t info);
/* What an atomic makes of memory m with its operand v; c: what cmpswap compares with. */
uint32_t EMU_N(mem_apply32)(int op, uint32_t m, uint32_t v, uint32_t c);
uint64_t EMU_N(mem_apply64)(int op, uint64_t m, uint64_t v, uint64_t c);
/* Loads from memory to LDS: lane l's dword (or short, byte) goes to LDS base M0 + offset + 4 l. */
void EMU_N(mem_to_lds)(struct emu_wave *w, const struct emu_inst *i, access_t *a, uint32_t info, uint64_t zero);

#endif
