/* SPDX-License-Identifier: MIT
 *
 * What the instruction handlers share: reading sources, writing destinations. A row is a VGPR: 64 lanes of 32 bits. */
#ifndef RFG_EMU_ISA_H
#define RFG_EMU_ISA_H

#include <string.h>

#include "emu.h"

const struct emu_op *emu_op_find(const char *name);
/* Tables, each ended by a row without a name. */
extern const struct emu_op emu_salu_ops[], emu_memory_ops[];
/* i and i[1] are halves of one VOPD instruction. */
void emu_make_dual(struct emu_inst *i);
/* What is executed where there is no instruction. */
void emu_make_sentinel(struct emu_inst *i);

typedef struct emu_wave W;
typedef const struct emu_inst I;

#define LANES for (int l = 0; l < 64; l++)

static inline uint32_t *emu_row(W *w, uint16_t reg)
{
    return w->v[reg - EMU_VGPR];
}

/* ---- scalars ------------------------------------------------------------------------------------------------------
 */

uint64_t emu_special(const W *w, uint16_t reg);

static inline uint32_t emu_s32(const W *w, I *i, int k)
{
    uint16_t r = i->reg[k];
    if (r < EMU_NULL)
        return w->s[r];
    if (r == EMU_CONST)
        return (uint32_t)i->k[k];
    return (uint32_t)emu_special(w, r);
}

static inline uint64_t emu_s64(const W *w, I *i, int k)
{
    uint16_t r = i->reg[k];
    if (r < EMU_NULL)
        return w->s[r] | (uint64_t)w->s[r + 1] << 32;
    if (r == EMU_CONST)
        return i->k[k];
    return emu_special(w, r);
}

static inline void emu_put_s32(W *w, I *i, int k, uint32_t v)
{
    uint16_t r = i->reg[k];
    if (r < EMU_NULL)
        w->s[r] = v;
    else if (r == EMU_EXEC)
        w->exec = w->lanes == 32 ? v : (w->exec & ~(uint64_t)UINT32_MAX) | v;
    else if (r == EMU_EXEC + 1)
        w->exec = (w->exec & UINT32_MAX) | (uint64_t)v << 32;
}

static inline void emu_put_s64(W *w, I *i, int k, uint64_t v)
{
    uint16_t r = i->reg[k];
    if (r < EMU_NULL) {
        w->s[r] = (uint32_t)v;
        w->s[r + 1] = (uint32_t)(v >> 32);
    } else if (r == EMU_EXEC)
        w->exec = v;
}

/* Lane masks: as many SGPRs as the wave has lanes for. */
static inline uint64_t emu_mask(const W *w, I *i, int k)
{
    return w->lanes == 32 ? emu_s32(w, i, k) : emu_s64(w, i, k);
}

static inline void emu_put_mask(W *w, I *i, int k, uint64_t v)
{
    if (w->lanes == 32)
        emu_put_s32(w, i, k, (uint32_t)v);
    else
        emu_put_s64(w, i, k, v);
}

#endif
