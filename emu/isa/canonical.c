/* SPDX-License-Identifier: MIT
 *
 * LLVM 19's disassembler wants fields that mean nothing to be 0, and takes no notice of the halves of registers that
 * 16-bit instructions of gfx11 and gfx12 may name; newer compilers put something into the former and name the latter.
 * So each word is brought into a form that any LLVM reads alike: short encodings that name an upper half become VOP3,
 * fields of sources that an instruction hasn't become 0, and op_sel is taken out and written behind the text. */
#include <stdio.h>

#include "words.h"

enum { D = 1, A = 2, B = 4, C = 8 };
static const struct {
    uint16_t first, last;
    uint8_t n;
} sources[] = {
#define SOURCES(first, last, n) { first, last, n },
#define HALVES(gfx, first, last, operands)
#define RENAMED(opcode, known, name)
#include "words_gfx11.def"
};
static const struct {
    uint8_t gfx, operands;
    uint16_t first, last;
} halves[] = {
#undef SOURCES
#undef HALVES
#define SOURCES(first, last, n)
#define HALVES(gfx, first, last, operands) { gfx, operands, first, last },
#include "words_gfx11.def"
};
static const struct {
    uint16_t opcode, known;
    const char *name;
} renamed[] = {
#undef HALVES
#undef RENAMED
#define HALVES(gfx, first, last, operands)
#define RENAMED(opcode, known, name) { opcode, known, name },
#include "words_gfx11.def"
};

static unsigned sources_of(unsigned op)
{
    for (size_t k = 0; k < sizeof(sources) / sizeof(sources[0]); k++)
        if (op >= sources[k].first && op <= sources[k].last)
            return sources[k].n;
    return 3;
}
static unsigned halves_of(int gfx, unsigned op)
{
    unsigned generation = gfx >= 0x1200 ? 12 : 11;
    for (size_t k = 0; k < sizeof(halves) / sizeof(halves[0]); k++)
        if (op >= halves[k].first && op <= halves[k].last && (!halves[k].gfx || halves[k].gfx == generation))
            return halves[k].operands;
    return 0;
}

/* VOP3's opcode of a word in a short encoding; 0xffff: it is in none. */
static unsigned short_opcode(uint32_t w)
{
    if (w >> 25 == 0x3f)
        return 0x180 + (w >> 9 & 0x7f);
    if (w >> 25 == 0x3e)
        return w >> 17 & 0xff;
    return w >> 31 ? 0xffff : 0x100 + (w >> 25);
}

enum { LITERAL = 0xff, DPP8 = 0xe9, DPP8_FI = 0xea, DPP16 = 0xfa, V_FMA_F16 = 0x248 };

/* The short encodings' words with halves as VOP3's; false: none is named. */
static bool widen(int gfx, const uint32_t *w, size_t n, struct emu_canonical *c)
{
    unsigned op = short_opcode(w[0]), which = op == 0xffff ? 0 : halves_of(gfx, op), src = w[0] & 0x1ff, sel = 0;
    bool vop1 = op >= 0x180, vopc = op < 0x100, dpp = src == DPP16 || src == DPP8 || src == DPP8_FI,
         k = op == 0x137 || op == 0x138;
    unsigned d = vopc ? (op < 0x80 ? 106 : 126) : w[0] >> 17 & 0xff, s1 = vop1 ? 0 : w[0] >> 9 & 0xff;
    uint32_t second = n > 1 ? w[1] : 0, a = dpp ? 256 + (second & 0xff) : src;
    if (!which || ((dpp || src == LITERAL || k) && n < 2))
        return false;
    if (which & A && a >= 256 && a & 0x80)
        sel |= 1, a &= ~0x80u;
    if (which & B && s1 & 0x80)
        sel |= 2, s1 &= 0x7f;
    if (which & D && d & 0x80)
        sel |= 8, d &= 0x7f;
    if (!sel)
        return false;
    unsigned abs = 0, neg = 0;
    if (src == DPP16) {
        neg = (second >> 20 & 1) | (second >> 22 & 1) << 1;
        abs = (second >> 21 & 1) | (second >> 23 & 1) << 1;
        second &= ~0x00f00000u;
    }
    s1 += vop1 ? 0 : 256;
    unsigned s[3] = { dpp ? src : a, s1, 0 };
    if (k) { /* A * K + B, A * B + K: v_fma_f16 */
        bool mk = op == 0x137;
        s[1] = mk ? LITERAL : s1;
        s[2] = mk ? s1 : LITERAL;
        sel = (sel & 9) | (sel & 2) << mk;
        op = V_FMA_F16;
    }
    c->word[0] = 0xd4000000 | op << 16 | sel << 11 | abs << 8 | d;
    c->word[1] = s[0] | s[1] << 9 | s[2] << 18 | neg << 29;
    c->word[2] = dpp ? (second & ~0xffu) | (src == DPP16 ? a & 0xff : 0) : second;
    if (src == DPP8 || src == DPP8_FI)
        c->word[2] = (second & ~0xffu) | (a & 0xff);
    for (size_t at = 2; at < n && at < 7; at++)
        c->word[at + 1] = w[at];
    c->grown = 1;
    return true;
}

void emu_canonical(int gfx, const uint32_t *w, size_t n, struct emu_canonical *c)
{
    *c = (struct emu_canonical){ .n = n < 7 ? n : 7 };
    for (size_t k = 0; k < c->n; k++)
        c->word[k] = w[k];
    if (gfx < 0x1100 || !n)
        return;
    if (widen(gfx, w, n, c))
        c->n++;
    unsigned op = short_opcode(c->word[0]);
    bool vop3 = c->word[0] >> 26 == 0x35 && c->n > 1;
    if (vop3)
        op = c->word[0] >> 16 & 0x3ff;
    for (size_t k = 0; k < sizeof(renamed) / sizeof(renamed[0]); k++)
        if (op == renamed[k].opcode) {
            c->name = renamed[k].name;
            c->word[0] += vop3 ? (uint32_t)(renamed[k].known - op) << 16 : (uint32_t)(renamed[k].known - op) << 9;
        }
    if (!vop3)
        return;
    unsigned which = halves_of(gfx, op), has = sources_of(op), sel = c->word[0] >> 11 & 15;
    if (has < 3)
        c->word[1] &= ~(0x1ffu << 18);
    if (has < 2)
        c->word[1] &= ~(0x1ffu << 9);
    if (!which || !sel)
        return;
    /* what is written: a bit for each source, then the destination's */
    unsigned at = 0;
    bool vopc = op < 0x100;
    int len = snprintf(c->op_sel, sizeof(c->op_sel), " op_sel:[");
    for (; at < has; at++)
        len += snprintf(c->op_sel + len, sizeof(c->op_sel) - (size_t)len, "%s%u", at ? "," : "", sel >> at & 1);
    if (!vopc)
        len += snprintf(c->op_sel + len, sizeof(c->op_sel) - (size_t)len, ",%u", sel >> 3);
    snprintf(c->op_sel + len, sizeof(c->op_sel) - (size_t)len, "]");
    c->word[0] &= ~(15u << 11);
}
