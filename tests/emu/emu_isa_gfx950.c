/* SPDX-License-Identifier: MIT
 *
 * gfx950's instructions that gfx942 lacks and that emu_isa_lanes.def and emu_isa_matrix.c can't express: narrow floats
 * with scales, scaled MFMA, transposed loads, swaps. Expectations by the formulas and tables of AMD's "CDNA4
 * Instruction Set Architecture" (7.1.5, 7.2, 7.3, 11.4, 12), in double. */
#include "emu_isa.h"

enum { ARCH = 8 };
enum narrow { FP8, BF8, FP6, BF6, FP4 };
static const struct {
    const char *name;
    int bits, mantissa, bias;
} formats[] = { { "fp8", 8, 3, 7 }, { "bf8", 8, 2, 15 }, { "fp6", 6, 3, 1 }, { "bf6", 6, 2, 3 }, { "fp4", 4, 1, 1 } };

static double value_of(uint32_t x, enum narrow t)
{
    int bits = formats[t].bits, m = formats[t].mantissa;
    uint32_t sign = x >> (bits - 1) & 1, e = (x & ((1u << (bits - 1)) - 1)) >> m;
    double f = (double)(x & ((1u << m) - 1)) / (1 << m);
    if ((t == FP8 && (x & 127) == 127) || (t == BF8 && e == 31 && f != 0))
        return (double)NAN;
    double v = t == BF8 && e == 31 ? (double)INFINITY
               : e                 ? ldexp(1 + f, (int)e - formats[t].bias)
                                   : ldexp(f, 1 - formats[t].bias);
    return sign ? -v : v;
}
static uint32_t largest_of(enum narrow t)
{
    uint32_t x = (1u << (formats[t].bits - 1)) - 1;
    while (!isfinite(value_of(x, t)))
        x--;
    return x;
}
/* Of all values the nearest, ties to the even code; random (or -1): that much of a step more, cut off. */
static uint32_t nearest(double v, enum narrow t, int64_t random)
{
    uint32_t sign = signbit(v) ? 1u << (formats[t].bits - 1) : 0, last = largest_of(t), r = 0;
    uint32_t over = sign | (t == FP8 ? 0x7f : t == BF8 ? 0x7c : last);
    double a = fabs(v), top = value_of(last, t), step = top - value_of(last - 1, t);
    if (isnan(v))
        return sign | (t <= BF8 ? 0x7f : last);
    if (a >= 2 * top + 2 * step)
        return over;
    while (r < last && value_of(r + 1, t) <= a)
        r++;
    double more = (a - value_of(r, t)) / (r < last ? value_of(r + 1, t) - value_of(r, t) : step);
    if (random >= 0)
        r += (uint32_t)floor(more + ldexp((double)random, -32));
    else
        r += more > 0.5 || (more == 0.5 && r & 1);
    return r > last ? over : sign | r;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Without _e32 and _e64, which the assembler takes or leaves. */
static void plain(const char *from, char *to)
{
    for (; *from; from++)
        if (!strncmp(from, "_e32", 4) || !strncmp(from, "_e64", 4))
            from += 3;
        else
            *to++ = *from;
    *to = 0;
}

START_TEST(words)
{
    struct emu_program prog;
    char error[512], text[256], got[256], want[256];
    for (int k = 0; k < gfx950_n_words; k++) {
        const struct gfx950_words *w = &gfx950_words[k];
        size_t size = 4 * (size_t)w->n;
        ck_assert_msg(emu_decode(&prog, &tested[ARCH].arch, 64, w->word, size, (uint64_t)(uintptr_t)w->word, false,
                                 error, sizeof(error)),
                      "%s: %s", w->text, error);
        emu_inst_text(&prog, prog.inst, text, sizeof(text));
        plain(text, got);
        plain(w->text, want);
        ck_assert_str_eq(got, want);
        ck_assert_uint_eq(prog.inst[0].size, size);
        emu_program_free(&prog);
        /* Cut short, it is no instruction. */
        if (size > 4) {
            ck_assert(emu_decode(&prog, &tested[ARCH].arch, 64, w->word, size - 4, (uint64_t)(uintptr_t)w->word, true,
                                 error, sizeof(error)));
            ck_assert_str_eq(prog.inst[0].op ? prog.inst[0].op->name : ".long", ".long");
            emu_program_free(&prog);
        }
    }
    printf("gfx950: %d texts of instructions that LLVM 19 doesn't know\n", gfx950_n_words);
}
END_TEST

/* gfx942's, and reserved values. */
START_TEST(no_instruction)
{
    static const uint32_t none[][4] = {
        { 0xd3be0004, 0x04121508 },                         /* v_mfma_f32_16x16x8_xf32 */
        { 0xd3bf0004, 0x044e2d14 },                         /* v_mfma_f32_32x32x4_xf32 */
        { 0xd3ad0504, 0x0602c140 },                         /* f8f6f4, CBSZ 5 */
        { 0xd3ad0004, 0xa602c140 },                         /* BLGP 5 */
        { 0xd3ad0804, 0x0602c140 },                         /* scaled, without scales */
        { 0xd3ac0000, 0x000393c8, 0xd3ad0204, 0x8602c140 }, /* scales, not scaled */
        { 0xd3ac0000, 0x000393c8, 0xd3d40004, 0x0602c140 }, /* scales of another one */
        { 0xd2340204, 0xd30412ff },                         /* v_bitop3_b32 with a literal */
    };
    char error[512];
    struct emu_program prog;
    for (size_t k = 0; k < sizeof(none) / sizeof(none[0]); k++) {
        ck_assert(
            emu_decode(&prog, &tested[ARCH].arch, 64, none[k], none[k][2] ? 16 : 8, 0, false, error, sizeof(error)));
        ck_assert_msg(!strcmp(prog.inst[0].op->name, ".long"), "%zu: %s", k, prog.inst[0].op->name);
        emu_program_free(&prog);
    }
}
END_TEST

/* ---- conversions ------------------------------------------------------------------------------------------------- */

static uint32_t bits_of(const struct bare *b, int reg, int l, int at, int n)
{
    uint64_t x = b->v[reg + at / 32][l];
    if (at % 32 + n > 32)
        x |= (uint64_t)b->v[reg + at / 32 + 1][l] << 32;
    return (uint32_t)(x >> at % 32 & ((1ull << n) - 1));
}
static double wide_value(const struct bare *b, int reg, int j, int l, const char *type)
{
    uint32_t x = bits_of(b, reg, l, (strcmp(type, "f32") ? 16 : 32) * j, strcmp(type, "f32") ? 16 : 32);
    return !strcmp(type, "f32") ? (double)f32(x) : !strcmp(type, "f16") ? (double)f16(x) : (double)f32(x << 16);
}
static uint32_t wide_bits(double v, const char *type)
{
    uint32_t x = u32((float)v);
    if (!strcmp(type, "f16"))
        return u16((_Float16)v);
    return strcmp(type, "bf16") || isnan(v) ? (strcmp(type, "bf16") ? x : x >> 16) : (x + 0x7fff + (x >> 16 & 1)) >> 16;
}
static bool same_wide(uint32_t x, uint32_t y, const char *type)
{
    bool nans = !strcmp(type, "f32")   ? isnan(f32(x)) && isnan(f32(y))
                : !strcmp(type, "f16") ? isnan((float)f16(x)) && isnan((float)f16(y))
                                       : isnan(f32(x << 16)) && isnan(f32(y << 16));
    return x == y || nans;
}
static int format_of(const char *name)
{
    for (int t = 0; t < 5; t++)
        if (!strcmp(name, formats[t].name))
            return t;
    return -1;
}
static uint32_t prng(uint32_t x)
{
    return (x & 0x7fffffff) * 2 ^ (x & 0x80000000 ? 197 : 0);
}

/* v_cvt[_scalef32][_sr][_pk|_pk32|_2xpk16]_TO_FROM; v_cvt_*_f32 of gfx942 have no scale. */
struct conversion {
    char to[8], from[8];
    bool sr, scaled, apart;
    int n, op_sel;
};
static bool conversion_of(const char *text, struct conversion *c)
{
    char name[64], *part, *save, *parts[8];
    int n = 0;
    memset(c, 0, sizeof(*c));
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " "), text);
    for (part = strtok_r(name, "_", &save); part && n < 8; part = strtok_r(NULL, "_", &save))
        parts[n++] = part;
    if (n < 4 || strcmp(parts[1], "cvt"))
        return false;
    c->n = 1;
    for (int k = 2; k < n - 2; k++) {
        c->scaled |= !strcmp(parts[k], "scalef32");
        c->sr |= !strcmp(parts[k], "sr");
        c->n = !strcmp(parts[k], "pk") ? 2 : strchr(parts[k], '3') && strcmp(parts[k], "scalef32") ? 32 : c->n;
        if (!strcmp(parts[k], "2xpk16"))
            c->n = 32, c->apart = true;
    }
    snprintf(c->to, sizeof(c->to), "%s", parts[n - 2]);
    snprintf(c->from, sizeof(c->from), "%s", parts[n - 1]);
    if (format_of(c->to) < 0 && format_of(c->from) < 0)
        return false;
    c->apart |= c->n == 2 && !c->sr && !strcmp(c->from, "f32");
    int b[4] = { 0 };
    const char *sel = strstr(text, "op_sel:[");
    int got = sel ? sscanf(sel, "op_sel:[%d,%d,%d,%d]", &b[0], &b[1], &b[2], &b[3]) : 0;
    if (got == 3) /* the last is the destination's */
        b[3] = b[2], b[2] = 0;
    c->op_sel = b[0] | b[1] << 1 | b[2] << 2 | b[3] << 3;
    return true;
}

/* Floats near what the scale makes representable; some edges. */
static void prepare(struct bare *b, const struct conversion *c)
{
    bare_randomize(b);
    for (int l = 0; l < 64; l++) {
        uint64_t r = rnd();
        int e = r % 16 == 0 ? 0 : r % 16 == 1 ? 254 : r % 16 == 2 && c->n < 32 ? 255 : 117 + (int)(r >> 8 & 15);
        b->v[40][l] = (uint32_t)(e << 23) | ((uint32_t)rnd() & 0x807fffff);
        b->v[32][l] = (uint32_t)rnd();
        for (int k = 0; k < 32; k++) {
            uint32_t x[2];
            for (int h = 0; h < 2; h++) {
                double v = ldexp(1 + (double)(rnd() % 64) / 64, e - 127 + (int)(rnd() % 26) - 17);
                v = rnd() % 4 ? ldexp((double)(rnd() % 32), e - 127 + (int)(rnd() % 6) - 3) : v;
                v = rnd() & 1 ? -v : v;
                uint32_t edge = rnd32();
                x[h] = !strcmp(c->from, "f32")   ? (rnd() % 8 ? u32((float)v) : edge)
                       : !strcmp(c->from, "f16") ? (rnd() % 8 ? u16((_Float16)v) : rnd_half2() & 0xffff)
                                                 : (rnd() % 8 ? u32((float)v) : edge) >> 16;
            }
            if (format_of(c->from) >= 0)
                b->v[k][l] = (uint32_t)rnd();
            else
                b->v[k][l] = strcmp(c->from, "f32") ? x[0] | x[1] << 16 : x[0];
        }
        if (c->apart && c->n == 2)
            b->v[32][l] = b->v[1][l];
    }
}

static void check_conversion(const char *text, const struct conversion *c, const struct bare *before,
                             const struct bare *b)
{
    int to = format_of(c->to), from = format_of(c->from);
    for (int l = 0; l < 64; l++) {
        bool on = before->w.exec >> l & 1;
        uint32_t exponent = before->v[40][l] >> 23 & 255, random = before->v[32][l];
        double scale = !c->scaled ? 1 : exponent == 255 ? (double)NAN : ldexp(1, (int)exponent - 127);
        uint32_t want[32];
        memset(want, 0, sizeof(want));
        int size = to >= 0 ? formats[to].bits : strcmp(c->to, "f32") ? 16 : 32, total = size * c->n, shift = 0;
        if (to >= 0 && c->n <= 2)
            shift = total == 16 ? 16 * (c->op_sel >> 3) : 8 * (c->op_sel >> 2);
        else if (!strcmp(c->to, "f16") && c->n == 1)
            shift = 16 * (c->op_sel >> 3);
        for (int k = 0; k < 32; k++)
            want[k] = before->v[64 + k][l];
        for (int j = 0; on && j < c->n; j++) {
            uint32_t x, y;
            if (to >= 0) {
                int second = c->n == 2 ? 32 : 16;
                double v = c->apart ? wide_value(before, j % 2 ? second : 0, j / 2, l, c->from)
                                    : wide_value(before, 0, j, l, c->from);
                x = nearest(copysign(v / scale, v), (enum narrow)to, c->sr ? (int64_t)random : -1);
                random = prng(random);
            } else {
                int bits = formats[from].bits, base = c->n == 32          ? 0
                                                      : c->n * bits == 16 ? 16 * (c->op_sel & 1)
                                                                          : 8 * (c->op_sel & 3);
                x = wide_bits(value_of(bits_of(before, 0, l, base + j * bits, bits), (enum narrow)from) * scale, c->to);
            }
            int at = shift + j * size;
            y = bits_of(b, 64, l, at, size);
            bool nan = to >= 0 && isnan(value_of(x, (enum narrow)to)) && isnan(value_of(y, (enum narrow)to));
            if (nan || (to < 0 && same_wide(x, y, c->to)))
                x = y; /* any NaN */
            for (int bit = 0; bit < size; bit++) {
                uint32_t *w = &want[(at + bit) / 32], mask = 1u << (at + bit) % 32;
                *w = x >> bit & 1 ? *w | mask : *w & ~mask;
            }
        }
        for (int k = 0; k < 32; k++)
            ASSERT_LANE(b->v[64 + k][l] == want[k],
                        "%s: lane %d (%s), a %08x %08x scale %08x random %08x: word %d is %08x, expected %08x", text, l,
                        on ? "on" : "off", before->v[0][l], before->v[1][l], before->v[40][l], before->v[32][l], k,
                        b->v[64 + k][l], want[k]);
    }
}

START_TEST(conversions)
{
    static const char *const ocp[] = { "v_cvt_pk_fp8_f32 v64, v0, v32",
                                       "v_cvt_pk_bf8_f32 v64, v0, v32 op_sel:[0,0,1]",
                                       "v_cvt_sr_fp8_f32 v64, v0, v32 op_sel:[0,0,1,0]",
                                       "v_cvt_sr_bf8_f32 v64, v0, v32",
                                       "v_cvt_pk_f32_fp8 v[64:65], v0",
                                       "v_cvt_pk_f32_bf8 v[64:65], v0",
                                       "v_cvt_f32_fp8 v64, v0",
                                       "v_cvt_f32_bf8 v64, v0" };
    static const char *text[1024];
    static struct bare before;
    struct conversion c;
    struct snippets s;
    int n = 0;
    for (size_t k = 0; k < sizeof(ocp) / sizeof(ocp[0]); k++)
        text[n++] = ocp[k];
    for (int k = 0; k < gfx950_n_words && n < 1024; k++)
        if (!strncmp(strchr(gfx950_words[k].text, ' '), " v64,", 5) ||
            !strncmp(strchr(gfx950_words[k].text, ' '), " v[64:", 6))
            if (conversion_of(gfx950_words[k].text, &c))
                text[n++] = gfx950_words[k].text;
    struct bare *b = snippets_build(&s, ARCH, text, n);
    for (int k = 0; k < n; k++)
        for (int repeat = 0; repeat < 16; repeat++) {
            ck_assert(conversion_of(text[k], &c));
            rnd_seed((uint64_t)(1000 * k + repeat));
            prepare(b, &c);
            memcpy(&before, b, sizeof(before));
            ck_assert_int_eq(bare_run(b, s.start[k]), EMU_END);
            check_conversion(text[k], &c, &before, b);
        }
    ck_assert_int_ge(n, 130);
    printf("gfx950: %d conversions of narrow floats\n", n);
    snippets_free(&s);
}
END_TEST

/* ---- scaled MFMA ------------------------------------------------------------------------------------------------- */

/* Lane and element of A[i][k] (B[k][i]). */
static void narrow_place(int m, int depth, int bits, int i, int k, int *lane, int *element)
{
    if (bits == 8) {
        *lane = i + m * (k % (depth / 2) / 16);
        *element = k % 16 + (k >= depth / 2 ? 16 : 0);
    } else {
        *lane = i + m * (k / 32);
        *element = k % 32;
    }
}
static void put_bits(struct bare *b, int reg, int l, int at, int n, uint32_t x)
{
    for (int bit = 0; bit < n; bit++) {
        uint32_t *w = &b->v[reg + (at + bit) / 32][l], mask = 1u << (at + bit) % 32;
        *w = x >> bit & 1 ? *w | mask : *w & ~mask;
    }
}

static void check_scaled(const char *text, struct bare *b, const struct emu_inst *at)
{
    static double A[32][128], B[32][128], C[32][32];
    int m = strstr(text, "16x16") ? 16 : 32, depth = m == 16 ? 128 : 64, ta = 0, tb = 0, lo[2] = { 0, 0 },
        hi[2] = { 0, 0 };
    bool scaled = strstr(text, "_scale_");
    const char *p;
    if ((p = strstr(text, "cbsz:")))
        ta = p[5] - '0';
    if ((p = strstr(text, "blgp:")))
        tb = p[5] - '0';
    if ((p = strstr(text, "op_sel:[")))
        sscanf(p, "op_sel:[%d,%d", &lo[0], &lo[1]);
    if ((p = strstr(text, "op_sel_hi:[")))
        sscanf(p, "op_sel_hi:[%d,%d", &hi[0], &hi[1]);
    bare_randomize(b);
    for (int l = 0; l < 64; l++)
        for (int k = 0; k < 8; k++) /* each byte a scale of its own */
            put_bits(b, 40 + k / 4, l, 8 * (k % 4), 8, 120 + (uint32_t)(rnd() % 15));
    for (int i = 0; i < m; i++)
        for (int k = 0; k < depth; k++)
            for (int which = 0; which < 2; which++) {
                enum narrow t = (enum narrow)(which ? tb : ta);
                int l, e;
                uint32_t x;
                do
                    x = (uint32_t)rnd() & ((1u << formats[t].bits) - 1);
                while (!isfinite(value_of(x, t)) || fabs(value_of(x, t)) > 64);
                narrow_place(m, depth, formats[t].bits, i, k, &l, &e);
                put_bits(b, which ? 8 : 0, l, e * formats[t].bits, formats[t].bits, x);
                uint32_t scale = b->v[40 + which][i + m * (k / 32)] >> 8 * (lo[which] + 2 * hi[which]) & 255;
                (which ? B : A)[i][k] = value_of(x, t) * (scaled ? ldexp(1, (int)scale - 127) : 1);
            }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            int reg = m == 32 ? 4 * (i / 8) + i % 4 : i % 4, lane = j + (m == 32 ? 32 * (i / 4 % 2) : 16 * (i / 4));
            float v = ((float)(rnd() % 20001) - 10000) / 100;
            b->v[16 + reg][lane] = u32(v);
            C[i][j] = (double)v;
        }
    ck_assert_int_eq(bare_run(b, at), EMU_END);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            int reg = m == 32 ? 4 * (i / 8) + i % 4 : i % 4, lane = j + (m == 32 ? 32 * (i / 4 % 2) : 16 * (i / 4));
            double want = C[i][j], size = fabs(want), got = (double)f32(b->v[64 + reg][lane]);
            for (int k = 0; k < depth; k++) {
                want += A[i][k] * B[j][k];
                size += fabs(A[i][k] * B[j][k]);
            }
            ASSERT_LANE(fabs(got - want) <= size * 5e-7, "%s: D[%d][%d]: got %.9g, expected %.9g", text, i, j, got,
                        want);
        }
}

START_TEST(scaled_mfma)
{
    static const char *text[128];
    struct snippets s;
    int n = 0;
    for (int k = 0; k < gfx950_n_words && n < 128; k++)
        if (strstr(gfx950_words[k].text, "f8f6f4 v[64:"))
            text[n++] = gfx950_words[k].text;
    ck_assert_int_eq(n, 100); /* 25 pairs of formats, two shapes, with scales and without */
    struct bare *b = snippets_build(&s, ARCH, text, n);
    for (int k = 0; k < n; k++)
        for (int repeat = 0; repeat < 3; repeat++) {
            rnd_seed((uint64_t)(100 * k + repeat));
            check_scaled(text[k], b, s.start[k]);
        }
    printf("gfx950: %d MFMAs of fp8, fp6, fp4\n", n);
    snippets_free(&s);
}
END_TEST

/* A scale of 255 and a NaN in A make NaNs of one row; fp4 has none. */
START_TEST(scaled_nan)
{
    static const char *text[] = {
        "v_mfma_scale_f32_16x16x128_f8f6f4 v[64:67], v[0:7], v[8:15], v[16:19], v40, v41 op_sel_hi:[0,0,0]"
    };
    struct snippets s;
    struct bare *b = snippets_build(&s, ARCH, text, 1);
    for (int with = 0; with < 2; with++) {
        for (int r = 0; r < 48; r++)
            for (int l = 0; l < 64; l++)
                b->v[r][l] = r >= 40 ? 127 : r >= 16 ? 0 : 0x38383838; /* ones */
        if (with)
            b->v[40][35] = 255; /* row 3, k 64..95 */
        else
            b->v[2][35] = 0x387f3838; /* row 3, k 42 */
        ck_assert_int_eq(bare_run(b, s.start[0]), EMU_END);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 16; j++) {
                float d = f32(b->v[64 + i % 4][16 * (i / 4) + j]);
                ck_assert_msg(i == 3 ? isnan(d) : d == 128, "D[%d][%d]: %g", i, j, (double)d);
            }
    }
    snippets_free(&s);
}
END_TEST

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

/* 16 lanes read the rows of a matrix of 16 columns, from wherever each one's address is; lane c gets column c. */
START_TEST(transposed)
{
    static const struct {
        const char *text;
        int bits, words, at;
    } reads[] = { { "ds_read_b64_tr_b16 v[64:65], v0 offset:48", 16, 2, 64 },
                  { "ds_read_b64_tr_b8 v[64:65], v0 offset:48", 8, 2, 64 },
                  { "ds_read_b64_tr_b4 v[64:65], v0 offset:48", 4, 2, 64 },
                  { "ds_read_b96_tr_b6 v[64:66], v0 offset:48", 6, 3, 64 },
                  { "ds_read_b64_tr_b16 v[0:1], v0 offset:48", 16, 2, 0 } };
    enum { N = sizeof(reads) / sizeof(reads[0]) };
    const char *text[N];
    struct snippets s;
    for (int k = 0; k < N; k++)
        text[k] = reads[k].text;
    struct bare *b = snippets_build(&s, ARCH, text, N);
    for (int k = 0; k < N; k++)
        for (int repeat = 0; repeat < 20; repeat++) {
            int bits = reads[k].bits, rows = 32 * reads[k].words / bits, bytes = 4 * reads[k].words;
            uint32_t from[64], element[4][32][16];
            rnd_seed((uint64_t)(100 * k + repeat));
            bare_randomize(b);
            b->w.exec = ~0ull;
            for (size_t x = 0; x < sizeof(b->lds); x++)
                b->lds[x] = (uint8_t)rnd();
            for (int l = 0; l < 64; l++)
                b->v[0][l] = from[l] = 16 * (uint32_t)(rnd() % 4000);
            for (int l = 0; l < 64; l++)
                for (int e = 0; e < rows; e++) {
                    uint32_t x = 0;
                    for (int bit = 0; bit < bits; bit++)
                        x |= (uint32_t)(b->lds[from[l] + 48 + (uint32_t)(e * bits + bit) / 8] >> (e * bits + bit) % 8 &
                                        1)
                             << bit;
                    int number = l % 16 * rows + e; /* in its group of lanes */
                    element[l / 16][number / 16][number % 16] = x;
                }
            ck_assert_int_eq(bare_run(b, s.start[k]), EMU_END);
            for (int l = 0; l < 64; l++)
                for (int row = 0; row < rows; row++)
                    ASSERT_LANE(bits_of(b, reads[k].at, l, row * bits, bits) == element[l / 16][row][l % 16],
                                "%s: lane %d, element %d of %d bytes", text[k], l, row, bytes);
        }
    snippets_free(&s);
}
END_TEST

START_TEST(swaps)
{
    static const char *const mods[] = { "", "_e64", "_e64" }, *const ends[] = { "", " bound_ctrl:1", " fi:1" };
    char buffer[6][64];
    const char *text[6];
    struct snippets s;
    static struct bare before;
    for (int k = 0; k < 6; k++) {
        snprintf(buffer[k], sizeof(buffer[k]), "v_permlane%d_swap_b32%s v64, v65%s", k < 3 ? 16 : 32, mods[k % 3],
                 ends[k % 3]);
        text[k] = buffer[k];
    }
    struct bare *b = snippets_build(&s, ARCH, text, 6);
    for (int k = 0; k < 6; k++)
        for (int repeat = 0; repeat < 20; repeat++) {
            int far = k < 3 ? 16 : 32;
            rnd_seed((uint64_t)(100 * k + repeat));
            bare_randomize(b);
            for (int l = 0; l < 64; l++)
                b->v[64][l] = (uint32_t)rnd(), b->v[65][l] = (uint32_t)rnd();
            memcpy(&before, b, sizeof(before));
            ck_assert_int_eq(bare_run(b, s.start[k]), EMU_END);
            for (int l = 0; l < 64; l++)
                for (int r = 64; r < 66; r++) {
                    bool moves = (l & far) == (r == 64 ? far : 0);
                    int other = l ^ far;
                    uint32_t want = before.v[r][l];
                    if (moves && before.w.exec >> l & 1) {
                        uint32_t there = before.v[r ^ 1][other];
                        bool live = before.w.exec >> other & 1;
                        want = live || k % 3 == 2 ? there : k % 3 == 1 ? 0 : want;
                    }
                    ASSERT_LANE(b->v[r][l] == want, "%s: v%d of lane %d", text[k], r, l);
                }
        }
    snippets_free(&s);
}
END_TEST

/* Two bf16 added, each rounded to nearest even. */
START_TEST(buffer_atomic)
{
    static const char *text[] = { "buffer_atomic_pk_add_bf16 v1, v0, s[4:7], 0 offen offset:8" };
    struct snippets s;
    static uint32_t was[64];
    uint64_t base = (uint64_t)(uintptr_t)memory;
    struct bare *b = snippets_build(&s, ARCH, text, 1);
    for (int repeat = 0; repeat < 20; repeat++) {
        rnd_seed((uint64_t)repeat);
        bare_randomize(b);
        b->w.s[4] = (uint32_t)base;
        b->w.s[5] = (uint32_t)(base >> 32) & 0xffff;
        b->w.s[6] = MEMORY;
        b->w.s[7] = 0x00027000;
        for (int l = 0; l < 64; l++) {
            uint32_t x[4];
            for (int k = 0; k < 4; k++)
                x[k] = u32(((float)(rnd() % 20001) - 10000) / 300) >> 16;
            was[l] = x[0] | x[1] << 16;
            b->v[1][l] = x[2] | x[3] << 16;
            b->v[0][l] = 16 * (uint32_t)l;
            memcpy(memory + 16 * l + 8, &was[l], 4);
        }
        ck_assert_int_eq(bare_run(b, s.start[0]), EMU_END);
        for (int l = 0; l < 64; l++) {
            uint32_t got, want = was[l];
            memcpy(&got, memory + 16 * l + 8, 4);
            if (b->w.exec >> l & 1)
                want = wide_bits((double)(f32(was[l] << 16) + f32(b->v[1][l] << 16)), "bf16") |
                       wide_bits((double)(f32(was[l] & 0xffff0000) + f32(b->v[1][l] & 0xffff0000)), "bf16") << 16;
            ck_assert_uint_eq(got, want);
        }
    }
    snippets_free(&s);
}
END_TEST

void emu_case_gfx950(Suite *s)
{
    TCase *c = test_case(s, "gfx950", NULL, NULL);
    ADD_TESTS(c, words, no_instruction, conversions, scaled_mfma, scaled_nan, transposed, swaps, buffer_atomic);
}
