/* SPDX-License-Identifier: MIT
 *
 * Words of gfx11 and gfx12 as newer compilers make them: halves of registers, fields that mean nothing; gfx12's
 * transposing loads. */
#include "emu/isa/llvm.h"
#include "emu/isa/words.h"
#include "emu_isa.h"

enum { END = 0xbfb00000 };
static const struct {
    int gfx;
    const char *text;
    int n;
    uint32_t word[4];
} words[] = {
#define WORDS(gfx, text, ...) { gfx, text, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, { __VA_ARGS__ } },
#include "gfx11_words.def"
#undef WORDS
};
static int arch_of(int gfx)
{
    return gfx == 12 ? 6 : 3;
}
static void decode(struct emu_program *p, int arch, const uint32_t *code, size_t n)
{
    char error[512];
    ck_assert_msg(emu_decode(p, &tested[arch].arch, tested[arch].wave_size, code, 4 * n, (uint64_t)(uintptr_t)code,
                             false, error, sizeof(error)),
                  "%s", error);
}

/* What LLVM 22 assembles is read as what it was assembled from. */
START_TEST(newer)
{
    int n = 0;
    for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
        struct emu_program p;
        char text[256];
        uint32_t code[5] = { 0 };
        memcpy(code, words[k].word, sizeof(words[k].word));
        code[words[k].n] = END;
        decode(&p, arch_of(words[k].gfx), code, (size_t)words[k].n + 1);
        emu_inst_text(&p, &p.inst[0], text, sizeof(text));
        ck_assert_str_eq(text, words[k].text);
        ck_assert_int_eq(p.inst[0].size, 4 * words[k].n);
        emu_program_free(&p);
        n++;
    }
    printf("%d words of LLVM 22 are read as they were written\n", n);
}
END_TEST

/* Random words of the vector encodings: what LLVM 19 knows keeps its text, with op_sel behind it where LLVM 19 leaves
 * it out; fields of sources that an instruction hasn't change nothing. */
START_TEST(random_words)
{
    static const uint32_t top[] = { 0x7e000000, 0x7c000000, 0x00000000, 0xd4000000, 0xd4000000, 0xd4000000 };
    static const uint32_t mask[] = { 0x01ffffff, 0x01ffffff, 0x7fffffff, 0x03ffffff, 0x03ffffff, 0x01ffffff };
    static const uint16_t constants[] = { 0xff, 0xfa, 0xe9, 0x81, 0xf2, 2, 106, 0x7c };
    static const char *const cpus[] = { "gfx1100", "gfx1201" };
    char error[256];
    const char *more = getenv("RFG_TEST_RANDOM");
    int repeats = more ? atoi(more) : 100000;
    for (int g = 0; g < 2; g++) {
        int gfx = g ? 0x1200 : 0x1100, known = 0, longer = 0, ignored = 0;
        /* the second is told of an older one: it reads words as they are */
        struct emu_disasm *d = emu_disasm_open(cpus[g], gfx, 32, error, sizeof(error)),
                          *raw = emu_disasm_open(cpus[g], 0x1000, 32, error, sizeof(error));
        ck_assert_msg(d && raw, "%s", error);
        rnd_seed((uint64_t)g);
        for (int repeat = 0; repeat < repeats; repeat++) {
            int kind = repeat % 6;
            uint32_t w[4] = { ((uint32_t)rnd() & mask[kind]) | top[kind], (uint32_t)rnd(), (uint32_t)rnd(),
                              (uint32_t)rnd() };
            char was[256] = "", is[256] = "", expected[300];
            struct emu_canonical c;
            if (kind < 3 && rnd() % 2)
                w[0] = (w[0] & ~0x1ffu) | constants[rnd() % 8];
            if (kind >= 3) {
                for (int s = 0; s < 27; s += 9) /* registers, mostly: reserved sources would leave little */
                    w[1] =
                        rnd() % 4 ? w[1] | 0x100u << s : (w[1] & ~(0x1ffu << s)) | (uint32_t)constants[rnd() % 8] << s;
                if (rnd() % 2)
                    w[1] &= rnd() % 2 ? ~(0x1ffu << 18) : ~(0x3ffffu << 9);
            }
            size_t old = emu_disasm_one(raw, w, sizeof(w), 0, was, sizeof(was)),
                   now = emu_disasm_one(d, w, sizeof(w), 0, is, sizeof(is));
            emu_canonical(gfx, w, 4, &c);
            /* LLVM 19 takes bit 7 of v_cvt_pk_f32_fp8's source for one of the number's; LLVM 22 the
             * upper half of v33 */
            bool narrow = c.grown && strstr(was, "v_cvt_pk_f32_");
            bool invalid = strstr(was, "Invalid") != NULL; /* an upper half, which LLVM 19 takes for v128 and up */
            if (old && !invalid && !narrow && !(c.name && !now)) { /* sext() of v_mov_b16, says LLVM 19 */
                char *sel = c.op_sel[0] ? strstr(was, " op_sel:") : NULL, *end = sel ? strchr(sel, ']') : NULL;
                if (end) /* LLVM has it in another place */
                    memmove(sel, end + 1, strlen(end));
                snprintf(expected, sizeof(expected), "%s%s", was, c.op_sel);
                known++;
                longer += c.op_sel[0] && !sel;
                ASSERT_LANE(now == old && (c.name || !strcmp(is, expected)), "%s: %08x %08x: '%s', LLVM has '%s'",
                            cpus[g], w[0], w[1], is, was);
            }
            uint32_t other[4] = { w[0], w[1], w[2], w[3] };
            char again[256] = "";
            unsigned op = w[0] >> 16 & 0x3ff;
            if (kind >= 3 && now && (op < 0x101 || (op >= 0x180 && op < 0x200) || op >= 0x300)) {
                other[1] = (w[1] & ~(0x1ffu << 18)) | (uint32_t)(rnd() & 0x1ff) << 18;
                if (op >= 0x180 && op < 0x200)
                    other[1] = (other[1] & ~(0x1ffu << 9)) | (uint32_t)(rnd() & 0x1ff) << 9;
                ASSERT_LANE(emu_disasm_one(d, other, sizeof(w), 0, again, sizeof(again)) == now && !strcmp(again, is),
                            "%08x %08x: '%s', then '%s'", w[0], w[1], is, again);
                ignored++;
            }
        }
        printf(
            "%s: of %d random words LLVM 19 knows %d, which keep their text, %d with op_sel behind it; a field without "
            "a meaning changes none of %d\n",
            cpus[g], repeats, known, longer, ignored);
        ck_assert_int_gt(known, repeats / 8);
        ck_assert_int_gt(ignored, repeats / 200);
        emu_disasm_close(d);
        emu_disasm_close(raw);
    }
}
END_TEST

/* Of an instruction on v1, v2, v3: with halves named by the short encoding, against the lower halves of registers that
 * hold them. */
enum { VOPC, VOP2, VOP1 };
static const struct {
    int enc, first, last;
    const char *halves;
    int gfx;
} named[] = {
    { VOP1, 0x0a, 0x0a, "D", 0 },    { VOP1, 0x0b, 0x0b, "A", 0 },   { VOP1, 0x1c, 0x1c, "DA", 0 },
    { VOP1, 0x50, 0x61, "DA", 0 },   { VOP1, 0x62, 0x62, "D", 0 },   { VOP1, 0x63, 0x64, "DA", 0 },
    { VOP1, 0x69, 0x69, "DA", 0 },   { VOP1, 0x6a, 0x6b, "A", 0 },   { VOP1, 0x6e, 0x6f, "A", 12 },
    { VOP2, 0x30, 0x31, "DAB", 12 }, { VOP2, 0x32, 0x38, "DAB", 0 }, { VOP2, 0x39, 0x3a, "DAB", 11 },
    { VOP2, 0x3b, 0x3b, "DAB", 0 },  { VOPC, 0x01, 0x06, "AB", 0 },  { VOPC, 0x31, 0x36, "AB", 0 },
    { VOPC, 0x39, 0x3e, "AB", 0 },   { VOPC, 0x7d, 0x7d, "AB", 0 },  { VOPC, 0x81, 0x8e, "AB", 0 },
    { VOPC, 0xb1, 0xb6, "AB", 0 },   { VOPC, 0xb9, 0xbe, "AB", 0 },
};
static uint32_t turned(uint32_t x)
{
    return x << 16 | x >> 16;
}

static void half_program(struct bare *b, const uint32_t *code, int arch, unsigned hi)
{
    struct emu_program p;
    uint32_t(*v)[64] = b->v;
    decode(&p, arch, code, 5);
    covered_mark(&p);
    b->w.prog = &p;
    for (int r = 1; r <= 3; r++)
        for (int l = 0; l < 32 && !(code[4] & 1) && hi >> r & 1; l++)
            v[r][l] = turned(v[r][l]); /* the reference: halves brought down */
    ck_assert_int_eq(bare_run(b, p.inst), EMU_END);
    for (int l = 0; l < 32 && !(code[4] & 1) && hi >> 1 & 1; l++)
        v[1][l] = turned(v[1][l]);
    emu_program_free(&p);
}

START_TEST(named_halves)
{
    int arch = arch_of(_i ? 12 : 11), n = 0;
    struct emu_program empty = { .arch = &tested[arch].arch, .wave_size = 32 };
    struct bare *a = bare_new(arch, &empty), *b = bare_new(arch, &empty);
    static uint32_t same[4][64];
    for (size_t k = 0; k < sizeof(named) / sizeof(named[0]); k++)
        for (int op = named[k].first; op <= named[k].last && (!named[k].gfx || named[k].gfx == (_i ? 12 : 11)); op++) {
            int enc = named[k].enc;
            bool literal = enc == VOP2 && (op == 0x37 || op == 0x38);
            for (unsigned hi = 2; hi < 16; hi += 2) { /* bit 1: D, 2: A, 3: B */
                if ((hi & 2 && !strchr(named[k].halves, 'D')) || (hi & 4 && !strchr(named[k].halves, 'A')) ||
                    (hi & 8 && !strchr(named[k].halves, 'B')))
                    continue;
                uint32_t plain = enc == VOP1   ? 0x7e000000u | 1u << 17 | (unsigned)op << 9 | 0x102
                                 : enc == VOP2 ? (unsigned)op << 25 | 1u << 17 | 3u << 9 | 0x102
                                               : 0x7c000000u | (unsigned)op << 17 | 3u << 9 | 0x102;
                uint32_t high = plain | (hi & 2 ? 0x80u << 17 : 0) | (hi & 4 ? 0x80 : 0) | (hi & 8 ? 0x80u << 9 : 0);
                uint32_t second = literal ? 0x3555 : END;
                const uint32_t reference[5] = { plain, second, END, END, 0 }, halves[5] = { high, second, END, END, 1 };
                char text[128];
                struct emu_program p;
                decode(&p, arch, halves, 4);
                emu_inst_text(&p, p.inst, text, sizeof(text));
                emu_program_free(&p);
                for (int repeat = 0; repeat < 8; repeat++) {
                    rnd_seed((uint64_t)(1000 * op + repeat));
                    bare_randomize(a);
                    for (int r = 1; r <= 3; r++)
                        for (int l = 0; l < 64; l++)
                            a->v[r][l] = rnd_half2();
                    memcpy(b->v, a->v, sizeof(b->v));
                    memcpy(b->w.s, a->w.s, sizeof(b->w.s));
                    b->w.exec = a->w.exec;
                    b->w.mode = a->w.mode;
                    half_program(a, reference, arch, hi);
                    half_program(b, halves, arch, hi);
                    memcpy(same, a->v, sizeof(same));
                    for (int l = 0; l < 32; l++)
                        ASSERT_LANE(a->v[1][l] == b->v[1][l] || (isnan(f32(a->v[1][l])) && isnan(f32(b->v[1][l]))),
                                    "%s: lane %d: %08x, expected %08x", text, l, b->v[1][l], a->v[1][l]);
                    ASSERT_LANE(a->w.exec == b->w.exec && a->w.s[EMU_VCC] == b->w.s[EMU_VCC], "%s: the mask", text);
                }
                n++;
            }
        }
    free(a);
    free(b);
    printf("%s: %d instructions on named halves\n", tested[arch].arch.name, n);
}
END_TEST

START_TEST(swapped_halves)
{
    static const uint32_t code[2] = { 0x7e00cc00 | (1 | 0x80) << 17 | 0x102,
                                      END }; /* of v1 the upper, of v2 the lower */
    struct emu_program p;
    char text[64];
    int arch = arch_of(_i ? 12 : 11);
    decode(&p, arch, code, 2);
    covered_mark(&p);
    emu_inst_text(&p, p.inst, text, sizeof(text));
    struct bare *b = bare_new(arch, &p);
    bare_randomize(b);
    b->w.exec = 0xfffffff7;
    b->v[1][3] = b->v[1][5] = 0x11112222;
    b->v[2][3] = b->v[2][5] = 0x33334444;
    ck_assert_int_eq(bare_run(b, p.inst), EMU_END);
    ck_assert_msg(b->v[1][5] == 0x44442222 && b->v[2][5] == 0x33331111, "%s: %08x %08x", text, b->v[1][5], b->v[2][5]);
    ck_assert(b->v[1][3] == 0x11112222 && b->v[2][3] == 0x33334444);
    free(b);
    emu_program_free(&p);
}
END_TEST

/* A 16x16 matrix by rows: each lane asks for 8 elements of a row; a lane gets 8 rows of its column, as WMMA takes B. */
START_TEST(load_tr)
{
    const char *text[] = { "global_load_tr_b128 v[4:7], v[0:1], off offset:16",
                           "global_load_tr_b64 v[4:5], v[0:1], off offset:16" };
    struct snippets s;
    struct bare *b = snippets_build(&s, 6, text, 2);
    for (int k = 0; k < 2; k++)
        for (int repeat = 0; repeat < 40; repeat++) {
            int bytes = k ? 1 : 2, stride = 16 * bytes * (1 + repeat % 5);
            rnd_seed((uint64_t)(100 * k + repeat));
            bare_randomize(b);
            b->w.exec = 0xffffffff;
            for (int x = 0; x < MEMORY; x++)
                memory[x] = (uint8_t)rnd();
            for (int l = 0; l < 32; l++) {
                /* 16 bits: lanes 0..7 rows 0..7 of the left half, 8..15 of the right, 16..31 the rows below. 8 bits:
                 * lanes 0..3 rows 0..3 of the left half, 4..7 of the right, 8..15 rows 4..7 ... */
                int row = k ? l / 8 * 4 + l % 4 : l / 16 * 8 + l % 8, right = k ? l / 4 % 2 : l / 8 % 2;
                uint64_t at = (uint64_t)(uintptr_t)memory + (uint64_t)(row * stride + right * 8 * bytes);
                b->v[0][l] = (uint32_t)at;
                b->v[1][l] = (uint32_t)(at >> 32);
            }
            ck_assert_int_eq(bare_run(b, s.start[k]), EMU_END);
            for (int l = 0; l < 32; l++)
                for (int e = 0; e < 8; e++) {
                    const uint8_t *p = memory + 16 + (l / 16 * 8 + e) * stride + l % 16 * bytes;
                    unsigned want = k ? *p : (unsigned)(p[0] | p[1] << 8),
                             got = b->v[4 + e * bytes / 4][l] >> 8 * (e * bytes % 4) & (k ? 0xff : 0xffff);
                    ASSERT_LANE(got == want, "%s: lane %d, element %d: %x, expected %x", text[k], l, e, got, want);
                }
        }
    ck_assert_int_eq(stray, 0);
    snippets_free(&s);
}
END_TEST

void emu_case_words(Suite *s)
{
    TCase *c = test_case(s, "words", NULL, NULL);
    ADD_TESTS(c, newer, random_words, load_tr);
    ADD_LOOPS(c, 2, named_halves, swapped_halves);
}
