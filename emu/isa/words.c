/* SPDX-License-Identifier: MIT
 *
 * LLVM 19's disassembler doesn't know gfx950: its code is disassembled as gfx942's, and what is new comes from the
 * table words_gfx950.def, in LLVM's syntax. Many of the new instructions have the very operands of an older one: their
 * text is made by LLVM too, of words with the older opcode. */
#include "words.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum format { F_LIKE, F_NONE, F_VOP3, F_BITOP3, F_SWAP, F_MAI };
struct row {
    uint8_t format, d, a, b, c, op_sel;
    uint32_t mask, value, known;
    const char *name;
};
static const struct row rows[] = {
#define LIKE(m, v, k, n)            { .format = F_LIKE, .mask = (m), .value = (v), .known = (k), .name = n },
#define NONE(m, v)                  { .format = F_NONE, .mask = (m), .value = (v) },
#define VOP3_ROW(f, op, n, ...)     { f, __VA_ARGS__, 0xffff0000, 0xd0000000u | (op) << 16, 0, n },
#define VOP3(op, n, d, a, b, c, s)  VOP3_ROW(F_VOP3, op, n, d, a, b, c, s)
#define BITOP3(op, n, s)            VOP3_ROW(F_BITOP3, op, n, 1, 1, 1, 1, s)
#define SWAP(op, n)                 VOP3_ROW(F_SWAP, op, n, 1, 1, 0, 0, 0)
#define MAI(op, n, d, a, b, sparse) { F_MAI, d, a, b, sparse, 0, 0xffff0000, 0xd3800000u | (op) << 16, 0, n },
#include "words_gfx950.def"
};

struct out {
    char *at, *end;
};
__attribute__((format(printf, 2, 3))) static void say(struct out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(o->at, (size_t)(o->end - o->at), fmt, ap);
    va_end(ap);
    o->at += n < o->end - o->at ? n : o->end - o->at - 1;
}
static void say_registers(struct out *o, char file, unsigned first, unsigned words)
{
    if (words == 1)
        say(o, "%c%u", file, first);
    else
        say(o, "%c[%u:%u]", file, first, first + words - 1);
}
/* Nine bits of a source. False: a reserved value, or a literal, which VOP3 has not on gfx9. */
static bool say_source(struct out *o, unsigned src, unsigned words, bool acc)
{
    static const char *const names[] = { "vcc_lo", "vcc_hi" }, *const floats[] = { "0.5",  "-0.5", "1.0",
                                                                                   "-1.0", "2.0",  "-2.0",
                                                                                   "4.0",  "-4.0", "0.15915494" };
    if (src >= 256)
        say_registers(o, acc ? 'a' : 'v', src - 256, words);
    else if (src <= 101)
        say_registers(o, 's', src, words);
    else if (src == 106 || src == 107)
        say(o, "%s", words == 1 ? names[src - 106] : "vcc");
    else if (src >= 108 && src <= 123 && words == 1)
        say(o, "ttmp%u", src - 108);
    else if (src == 124)
        say(o, "m0");
    else if (src == 126 || src == 127)
        say(o, "%s", words > 1 ? "exec" : src == 126 ? "exec_lo" : "exec_hi");
    else if (src >= 128 && src <= 192)
        say(o, "%u", src - 128);
    else if (src >= 193 && src <= 208)
        say(o, "-%u", src - 192);
    else if (src >= 240 && src <= 248)
        say(o, "%s", floats[src - 240]);
    else if (src == 253)
        say(o, "src_scc");
    else
        return false;
    return true;
}
static void say_bits(struct out *o, const char *name, unsigned bits, int n)
{
    say(o, " %s:[", name);
    for (int k = 0; k < n; k++)
        say(o, "%s%u", k ? "," : "", bits >> k & 1);
    say(o, "]");
}

static bool vop3(struct out *o, const struct row *r, uint32_t w0, uint32_t w1)
{
    static const char *const omods[] = { "", " mul:2", " mul:4", " div:2" };
    unsigned src[3] = { w1 & 0x1ff, w1 >> 9 & 0x1ff, w1 >> 18 & 0x1ff }, words[3] = { r->a, r->b, r->c };
    unsigned abs = w0 >> 8 & 7, neg = w1 >> 29, omod = w1 >> 27 & 3, op_sel = w0 >> 11 & 15;
    bool bitop3 = r->format == F_BITOP3, swap = r->format == F_SWAP, mods = !bitop3 && !swap;
    say(o, "%s%s ", r->name, swap ? "_e64" : "");
    say_registers(o, 'v', w0 & 255, r->d);
    for (int k = 0; k < 3 && words[k]; k++) {
        bool a = mods && abs >> k & 1;
        say(o, ", %s%s", mods && neg >> k & 1 ? "-" : "", a ? "|" : "");
        if (!say_source(o, src[k], words[k], false))
            return false;
        say(o, "%s", a ? "|" : "");
    }
    if (swap) /* FI and BOUND_CTRL */
        say(o, "%s%s", op_sel & 2 ? " bound_ctrl:1" : "", op_sel & 1 ? " fi:1" : "");
    else if (op_sel && r->op_sel == 3)
        say_bits(o, "op_sel", (op_sel & 3) | (op_sel & 8) >> 1, 3);
    else if (op_sel && r->op_sel == 4)
        say_bits(o, "op_sel", op_sel, 4);
    if (bitop3 && (omod << 6 | abs << 3 | neg))
        say(o, " bitop3:0x%x", omod << 6 | abs << 3 | neg);
    else if (mods)
        say(o, "%s%s", w0 >> 15 & 1 ? " clamp" : "", omods[omod]);
    return true;
}

/* Registers of A or B by their format: fp8, bf8, fp6, bf6, fp4. */
static unsigned narrow_words(unsigned format)
{
    return format < 2 ? 8 : format < 4 ? 6 : format == 4 ? 4 : 0;
}
/* scale: the two words before a scaled one, or NULL. */
static bool mai(struct out *o, const struct row *r, uint32_t w0, uint32_t w1, const uint32_t *scale)
{
    unsigned cbsz = w0 >> 8 & 7, abid = w0 >> 11 & 15, blgp = w1 >> 29, acc = w1 >> 27 & 3;
    char d = w0 >> 15 & 1 ? 'a' : 'v';
    bool narrow = !r->a, sparse = r->c;
    unsigned a = narrow ? narrow_words(cbsz) : r->a, b = narrow ? narrow_words(blgp) : r->b, c = w1 >> 18 & 0x1ff;
    if (!a || !b || (narrow && abid != (scale ? 1u : 0u)) || (w1 & 0x100) == 0 || (w1 >> 9 & 0x100) == 0)
        return false;
    say(o, "%s%s ", !narrow ? "" : scale ? "v_mfma_scale_" : "v_mfma_", r->name);
    say_registers(o, d, w0 & 255, r->d);
    say(o, ", ");
    say_source(o, w1 & 0x1ff, a, acc & 1);
    say(o, ", ");
    say_source(o, w1 >> 9 & 0x1ff, b, acc & 2);
    say(o, ", ");
    if ((sparse && c < 256) || !say_source(o, c, sparse ? 1 : r->d, !sparse && d == 'a'))
        return false;
    if (scale) {
        unsigned op_sel = scale[0] >> 11 & 3, op_sel_hi = scale[1] >> 27 & 3;
        for (int k = 0; k < 2; k++) {
            say(o, ", ");
            if (!say_source(o, scale[1] >> 9 * k & 0x1ff, 1, false))
                return false;
        }
        if (op_sel)
            say_bits(o, "op_sel", op_sel, 3);
        say_bits(o, "op_sel_hi", op_sel_hi, 3);
    }
    if (cbsz)
        say(o, " cbsz:%u", cbsz);
    if (abid && !scale)
        say(o, " abid:%u", abid);
    if (blgp)
        say(o, " blgp:%u", blgp);
    return true;
}

enum emu_words emu_words_gfx950(const uint32_t *word, size_t n_words, struct emu_words_found *f)
{
    struct out o = { f->text, f->text + sizeof(f->text) };
    const uint32_t *scale = NULL, *w = word;
    if (n_words && word[0] >> 16 == 0xd3ac) { /* V_MFMA_LD_SCALE_B32: the first half of a scaled MFMA */
        if (n_words < 4)
            return EMU_WORDS_NONE;
        scale = word;
        w = word + 2;
    }
    for (size_t k = 0; n_words && k < sizeof(rows) / sizeof(rows[0]); k++) {
        const struct row *r = &rows[k];
        if ((w[0] & r->mask) != r->value || (scale && (r->format != F_MAI || r->a)))
            continue;
        if (r->format == F_NONE)
            return EMU_WORDS_NONE;
        if (r->format == F_LIKE) {
            f->like = (w[0] & ~r->mask) | r->known;
            f->name = r->name;
            return EMU_WORDS_LIKE;
        }
        f->size = scale ? 16 : 8;
        if (f->size / 4 > n_words)
            return EMU_WORDS_NONE;
        bool ok = r->format == F_MAI ? mai(&o, r, w[0], w[1], scale) : vop3(&o, r, w[0], w[1]);
        return ok ? EMU_WORDS_TEXT : EMU_WORDS_NONE;
    }
    return scale ? EMU_WORDS_NONE : EMU_WORDS_OTHER;
}
