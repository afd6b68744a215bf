/* SPDX-License-Identifier: MIT
 *
 * Between decode.c (a text section into instructions) and parse.c (one instruction's text). */
#ifndef RFG_EMU_DECODE_H
#define RFG_EMU_DECODE_H

#include "emu/emu.h"

/* emu_op.sig, taken apart. */
struct emu_sig {
    uint8_t n, min; /* operands; those that must be there */
    bool any;       /* "*": whatever follows the mnemonic is not read */
    uint8_t role[EMU_MAX_OPERANDS], words[EMU_MAX_OPERANDS], type[EMU_MAX_OPERANDS];
};
void emu_sig_parse(const char *sig, struct emu_sig *s);

/* An operand as the text has it. */
struct emu_operand {
    uint16_t reg;
    uint8_t words, mods;
    bool number, hex, real; /* a constant; written in hex (a literal) or with a point */
    bool special;           /* hwreg(...) and the like */
    uint8_t half;           /* v0.l: 1, v0.h: 2 */
    int64_t i;
    double f;
};

struct emu_text {
    char name[64]; /* without its suffix */
    bool dpp, sdwa, e64;
    int n;
    struct emu_operand operand[8];
    const char *rest; /* after the mnemonic */
    struct emu_mods mods;
    bool has_mods;
    int op_sels; /* how many bits op_sel had */
};
/* One instruction (no "::"). False: why. */
bool emu_text_parse(const char *text, struct emu_text *t, char *why, size_t why_size);
/* s_waitcnt...: emu_inst.wait. */
uint32_t emu_text_wait(const char *name, const char *rest);
/* A constant, as wide as its operand. */
uint64_t emu_widen(const struct emu_operand *o, int type, int words);

#endif
