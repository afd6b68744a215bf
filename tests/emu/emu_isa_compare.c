/* SPDX-License-Identifier: MIT
 *
 * v_cmp_* and v_cmpx_*: every condition of every type, against plain C. */
#include "emu_isa.h"

static const char *const types[] = { "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64" };
/* The last is gfx9's name of t for floats. */
static const char *const conditions[] = { "f", "lt",  "eq",  "le",  "gt",  "ne",  "lg",  "ge", "o",
                                          "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "t",  "tru" };
enum { TYPES = 9, CONDITIONS = 18, KINDS = 2, FORMS = TYPES * CONDITIONS * KINDS + 6 };

/* -1, 0, 1: a < b, a == b, a > b; 2: not comparable. */
static int order(const char *type, uint64_t a, uint64_t b)
{
    double x, y;
    if (type[0] == 'i') {
        int shift = 64 - atoi(type + 1);
        int64_t p = (int64_t)(a << shift), q = (int64_t)(b << shift);
        return p < q ? -1 : p > q;
    }
    if (type[0] == 'u') {
        int shift = 64 - atoi(type + 1);
        a <<= shift;
        b <<= shift;
        return a < b ? -1 : a > b;
    }
    x = type[1] == '6' ? f64(a) : type[1] == '3' ? (double)f32((uint32_t)a) : (double)f16((uint32_t)a);
    y = type[1] == '6' ? f64(b) : type[1] == '3' ? (double)f32((uint32_t)b) : (double)f16((uint32_t)b);
    return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
}
static bool holds(const char *c, int o)
{
    if (*c == 'n' && strcmp(c, "ne"))
        return !holds(c + 1, o);
    return !strcmp(c, "f")    ? false
           : *c == 't'        ? true
           : !strcmp(c, "lt") ? o == -1
           : !strcmp(c, "eq") ? o == 0
           : !strcmp(c, "le") ? o == -1 || o == 0
           : !strcmp(c, "gt") ? o == 1
           : !strcmp(c, "ne") ? o != 0
           : !strcmp(c, "lg") ? o == -1 || o == 1
           : !strcmp(c, "ge") ? o == 0 || o == 1
           : !strcmp(c, "o")  ? o != 2
                              : o == 2;
}
/* The bit of v_cmp_class's mask: signalling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, ... */
static int class_of(const char *type, uint64_t a)
{
    int bits = atoi(type + 1), mantissa = bits == 16 ? 10 : bits == 32 ? 23 : 52;
    uint64_t fraction = a & ((1ull << mantissa) - 1), exponent = a << (64 - bits) << 1 >> (65 - bits + mantissa);
    bool minus = a >> (bits - 1) & 1;
    if (exponent == (1ull << (bits - 1 - mantissa)) - 1)
        return fraction ? (fraction >> (mantissa - 1) ? 1 : 0) : minus ? 2 : 9;
    return exponent ? (minus ? 3 : 8) : fraction ? (minus ? 4 : 7) : minus ? 5 : 6;
}

static void operand(struct bare *b, int r, int l, const char *type)
{
    uint64_t x = type[1] == '6' ? rnd64() : type[1] == '1' ? rnd_half2() : rnd32();
    b->v[r][l] = (uint32_t)x;
    b->v[r + 1][l] = (uint32_t)(x >> 32);
}

START_TEST(compare)
{
    static char buffer[FORMS][64];
    static bool ok[FORMS];
    const char *text[FORMS], *type[FORMS], *condition[FORMS];
    bool x[FORMS];
    int arch = _i + 1, n = 0, kept = 0, wave = tested[arch].wave_size;
    struct snippets s;
    for (int t = 0; t < TYPES; t++)
        for (int c = 0; c <= CONDITIONS; c++)
            for (int kind = 0; kind < KINDS; kind++) {
                bool wide = types[t][1] == '6', class = c == CONDITIONS;
                if (class && types[t][0] != 'f')
                    continue;
                ck_assert_int_lt(n, FORMS);
                snprintf(buffer[n], sizeof(buffer[n]), "v_cmp%s_%s_%s %s%s, %s", kind ? "x" : "",
                         class ? "class" : conditions[c], types[t], kind && arch >= 3 ? "" : "vcc, ",
                         wide ? "v[0:1]" : "v0", wide && !class ? "v[2:3]" : "v2");
                text[n] = buffer[n];
                type[n] = types[t];
                condition[n] = class ? "class" : conditions[c];
                x[n++] = kind;
            }
    snippets_known(arch, text, n, ok);
    for (int k = 0; k < n; k++)
        if (ok[k]) {
            text[kept] = text[k];
            type[kept] = type[k];
            condition[kept] = condition[k];
            x[kept++] = x[k];
        }
    struct bare *b = snippets_build(&s, arch, text, kept);
    for (int k = 0; k < kept; k++)
        for (int repeat = 0; repeat < 1024 / wave; repeat++) {
            uint64_t want = 0, all = wave == 64 ? ~0ull : 0xffffffff;
            bool class = !strcmp(condition[k], "class");
            rnd_seed((uint64_t)(100 * k + repeat));
            bare_randomize(b);
            for (int l = 0; l < 64; l++) {
                operand(b, 0, l, type[k]);
                operand(b, 2, l, class ? "u32" : type[k]);
                if (rnd() % 4 == 0 && !class)
                    b->v[2][l] = b->v[0][l], b->v[3][l] = b->v[1][l];
                uint64_t p = b->v[0][l] | (uint64_t)b->v[1][l] << 32, q = b->v[2][l] | (uint64_t)b->v[3][l] << 32;
                bool r = class ? q >> class_of(type[k], p) & 1 : holds(condition[k], order(type[k], p, q));
                want |= (uint64_t)r << l;
            }
            uint64_t old = b->w.s[EMU_VCC] | (uint64_t)b->w.s[EMU_VCC + 1] << 32, exec = b->w.exec;
            ck_assert_int_eq(bare_run(b, s.start[k]), EMU_END);
            uint64_t got = b->w.s[EMU_VCC] | (uint64_t)b->w.s[EMU_VCC + 1] << 32;
            want &= exec;
            ASSERT_LANE(b->w.exec == (x[k] ? want : exec), "%s %s: exec %llx, expected %llx", tested[arch].arch.name,
                        text[k], (unsigned long long)b->w.exec, (unsigned long long)want);
            ASSERT_LANE((x[k] && arch >= 3 ? got == old : (got & all) == want) && (got & ~all) == (old & ~all),
                        "%s %s: vcc %llx, expected %llx", tested[arch].arch.name, text[k], (unsigned long long)got,
                        (unsigned long long)want);
        }
    printf("%s: %d comparisons\n", tested[arch].arch.name, kept);
    ck_assert_int_gt(kept, 190);
    snippets_free(&s);
}
END_TEST

void emu_case_compare(Suite *s)
{
    TCase *c = test_case(s, "compare", NULL, NULL);
    ADD_LOOPS(c, 3, compare);
}
