/* SPDX-License-Identifier: MIT
 *
 * VALU instructions, lane by lane, against plain C: emu_isa_lanes.def. */
#include "emu_isa.h"
#include "emu_isa_plain.h"

enum operands { I, Hf, Dw };
/* What is compared: 32 or 64 bits, with VCC too (C); 16 bits with the upper half 0 on gfx9 and kept from gfx10 on,
 * always kept (K), in the upper half (H); floats: any NaN is any other; N: or within a rounding or two; U1: one
 * ulp. */
enum result {
    R32,
    R32C,
    R64,
    R64C,
    R16,
    R16K,
    R16H,
    F32,
    BF16U1,
    F32Z,
    F32N,
    F64,
    F64N,
    F16,
    F16K,
    F16HI,
    F16MIXLO,
    F16P,
    F16U1,
    F8PK,
    U1,
    MASK,
    EXEC
};

/* ---- the table
 * -------------------------------------------------------------------------------------------------------- */

struct lane {
    uint32_t a, b, c, d, s;
    uint64_t A, B, C, D, S;
    bool cin, co, kept;
    int l;
    const struct bare *before;
};
static uint64_t from_lane(struct lane *x, int n, bool zero)
{
    if (n >= 0 && (x->before->w.exec >> n & 1))
        return x->before->v[0][n];
    x->kept = !zero;
    return 0;
}
#define dpp(n)      from_lane(x, n, false)
#define dpp0(n)     from_lane(x, n, true)
#define V0(n)       x->before->v[0][n]
#define V6(n)       x->before->v[6][n]
#define ON(n)       (x->before->w.exec >> (n)&1)
#define close(v, f) (isnan(f) ? close_(NAN) : close_(v))

#define X(archs, operands, result, text, expr)                                                                         \
    static uint64_t EXPECT(struct lane *x)                                                                             \
    {                                                                                                                  \
        uint32_t a = x->a, b = x->b, c = x->c, d = x->d, s = x->s;                                                     \
        uint64_t A = x->A, B = x->B, C = x->C, D = x->D, S = x->S;                                                     \
        float fa = f32(a), fb = f32(b), fc = f32(c);                                                                   \
        float ha = (float)f16(a), hb = (float)f16(b), hc = (float)f16(c);                                              \
        double da = f64(A), db = f64(B), dc = f64(C);                                                                  \
        int l = x->l, e = 0;                                                                                           \
        bool cin = x->cin, co = false, kept = x->kept;                                                                 \
        (void)a, (void)b, (void)c, (void)d, (void)s, (void)A, (void)B, (void)C, (void)D, (void)S, (void)fa, (void)fb;  \
        (void)fc, (void)ha, (void)hb, (void)hc, (void)da, (void)db, (void)dc, (void)l, (void)e, (void)cin;             \
        uint64_t r = (uint64_t)(expr);                                                                                 \
        x->co = co;                                                                                                    \
        x->kept |= kept;                                                                                               \
        return r;                                                                                                      \
    }
#define PASTE2(p, q) p##q
#define PASTE(p, q)  PASTE2(p, q)
#define EXPECT       PASTE(expect_, __LINE__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#include "emu_isa_lanes.def"
#pragma GCC diagnostic pop
#undef X
#define X(archs, operands, result, text, expr) { archs, operands, result, text, PASTE(expect_, __LINE__) },
static const struct {
    int archs, operands, result;
    const char *text;
    uint64_t (*expect)(struct lane *x);
} cases[] = {
#include "emu_isa_lanes.def"
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static bool same_f16(uint32_t x, uint32_t y)
{
    return (x & 0xffff) == (y & 0xffff) || ((x & 0x7fff) > 0x7c00 && (y & 0x7fff) > 0x7c00);
}
static bool near_f16(uint32_t x, uint32_t y)
{
    int32_t p = (int16_t)(x & 0x8000 ? 0x8000 - (x & 0xffff) : x),
            q = (int16_t)(y & 0x8000 ? 0x8000 - (y & 0xffff) : y);
    return same_f16(x, y) || abs(p - q) <= 1;
}
static bool same_f32(uint32_t x, uint32_t y)
{
    return x == y || (isnan(f32(x)) && isnan(f32(y)));
}
/* One unit in the last place of what is exact; results below the normal range come out as 0. */
static bool within_ulp(float x, long double exact)
{
    if (isnan(exact))
        return isnan(x);
    if (isinf((float)exact) || isinf(x))
        return x == (float)exact || fabsl(exact) >= 3.4028235e38L;
    if (fabsl(exact) < 1.17549435e-38L)
        return x == 0 || fabsf(x) <= 1.17549435e-38f;
    int e;
    frexpl(exact, &e);
    return fabsl((long double)x - exact) <= ldexpl(1, e - 24);
}

static void randomize(struct bare *b, int operands)
{
    bare_randomize(b);
    for (int l = 0; l < 64; l++)
        for (int r = 0; r < 8; r += operands == Dw ? 2 : 1) {
            if (operands == Hf && !(r & 1))
                b->v[r][l] = rnd_half2();
            if (operands == Dw) {
                uint64_t x = rnd64();
                b->v[r][l] = (uint32_t)x;
                b->v[r + 1][l] = (uint32_t)(x >> 32);
            }
        }
}

static uint64_t word64(const struct bare *b, int r, int l)
{
    return b->v[r][l] | (uint64_t)b->v[r + 1][l] << 32;
}
static bool mask_bit(const struct bare *b, int l)
{
    return b->w.s[EMU_VCC + l / 32] >> l % 32 & 1;
}

/* False, after saying what is wrong. */
/* Is what an instruction left of a lane's v6 and v7, `got`, what is expected? */
static bool is_right(enum result result, const struct lane *x, uint64_t want, uint64_t got, int arch,
                     const struct bare *after)
{
    uint32_t lo = (uint32_t)got, old = x->d, high = tested[arch].arch.gfx >= 0x1000 ? old >> 16 : 0;
    int l = x->l;
    switch (result) {
    case R32:
        return lo == (uint32_t)want;
    case R32C:
        return lo == (uint32_t)want && mask_bit(after, l) == x->co;
    case R64:
    case F8PK:
        return same_f32(lo, (uint32_t)want) && same_f32((uint32_t)(got >> 32), (uint32_t)(want >> 32));
    case R64C:
        return got == want && mask_bit(after, l) == x->co;
    case R16:
        return (lo & 0xffff) == (want & 0xffff) && lo >> 16 == high;
    case R16K:
        return (lo & 0xffff) == (want & 0xffff) && lo >> 16 == old >> 16;
    case R16H:
        return lo >> 16 == (want & 0xffff) && (lo & 0xffff) == (old & 0xffff);
    case F32:
        return same_f32(lo, (uint32_t)want);
    case F32Z: /* of zeroes, any sign */
        return same_f32(lo, (uint32_t)want) || (f32(lo) == 0 && f32((uint32_t)want) == 0);
    case BF16U1: /* within one unit of bf16's last place, or of what cancels */
        return (same_f32(lo << 16, (uint32_t)want) ||
                fabsf(f32(lo << 16) - f32((uint32_t)want)) <= 0x1p-7f * fabsf(f32((uint32_t)want))) &&
               (lo >> 16 == high || isnan(f32((uint32_t)want)));
    case F32N:
        return same_f32(lo, (uint32_t)want) ||
               fabsf(f32(lo) - f32((uint32_t)want)) <= 1e-6f * fabsf(f32((uint32_t)want));
    case F64:
        return got == want || (isnan(f64(got)) && isnan(f64(want)));
    case F64N:
        return got == want || (isnan(f64(got)) && isnan(f64(want))) ||
               fabs(f64(got) - f64(want)) <= 3e-16 * fabs(f64(want));
    case F16:
        return same_f16(lo, (uint32_t)want) && lo >> 16 == high;
    case F16U1:
        return near_f16(lo, (uint32_t)want) && lo >> 16 == high;
    case F16K:
    case F16MIXLO:
        return same_f16(lo, (uint32_t)want) && lo >> 16 == old >> 16;
    case F16HI:
        return same_f16(lo >> 16, (uint32_t)want) && (lo & 0xffff) == (old & 0xffff);
    case F16P:
        return same_f16(lo, (uint32_t)want) && same_f16(lo >> 16, (uint32_t)want >> 16);
    case U1:
        return within_ulp(f32(lo), exact_value);
    case MASK:
        return mask_bit(after, l) == want;
    default:
        return (after->w.exec >> l & 1) == want;
    }
}

static bool check_lane(int k, int arch, int l, const struct bare *before, const struct bare *after)
{
    struct lane x = { .a = before->v[0][l],
                      .b = before->v[2][l],
                      .c = before->v[4][l],
                      .d = before->v[6][l],
                      .A = word64(before, 0, l),
                      .B = word64(before, 2, l),
                      .C = word64(before, 4, l),
                      .D = word64(before, 6, l),
                      .s = before->w.s[20],
                      .S = before->w.s[22] | (uint64_t)before->w.s[23] << 32,
                      .cin = mask_bit(before, l),
                      .l = l,
                      .before = before };
    bool on = before->w.exec >> l & 1;
    uint64_t want = cases[k].expect(&x), got = word64(after, 6, l);
    bool ok;
    if (!on || x.kept) {
        ok = got == x.D && (cases[k].result != MASK || !mask_bit(after, l));
        if (cases[k].result == EXEC)
            ok = !(after->w.exec >> l & 1);
        want = x.D;
    } else
        ok = is_right(cases[k].result, &x, want, got, arch, after);
    if (!ok)
        fprintf(stderr,
                "%s %s: lane %d (%s): a %08x:%08x b %08x:%08x c %08x:%08x d %08x:%08x vcc %d\n  got %08x:%08x vcc %d, "
                "expected %08x:%08x vcc %d (exact %Lg)\n",
                tested[arch].arch.name, cases[k].text, l, on ? "on" : "off", before->v[1][l], x.a, before->v[3][l], x.b,
                before->v[5][l], x.c, before->v[7][l], x.d, x.cin, (unsigned)(got >> 32), (unsigned)got,
                mask_bit(after, l), (unsigned)(want >> 32), (unsigned)want, x.co, exact_value);
    return ok;
}

static int cases_of(int arch, const char **text, int *index)
{
    static bool known[CASES];
    int n = 0, kept = 0;
    for (int k = 0; k < CASES; k++)
        if (arch == 4 ? cases[k].archs & G11 : runs_on(arch, cases[k].archs, cases[k].text)) {
            text[n] = cases[k].text;
            index[n++] = k;
        }
    if (arch < 5)
        return n;
    snippets_known(arch, text, n, known);
    for (int k = 0; k < n; k++)
        if (known[k]) {
            text[kept] = text[k];
            index[kept++] = index[k];
        }
    return kept;
}

START_TEST(lanes)
{
    const char *text[CASES];
    int index[CASES], arch = _i, n = cases_of(arch, text, index);
    struct snippets s;
    static struct bare before;
    struct bare *b = snippets_build(&s, arch, text, n);
    int wrong = 0;
    for (int k = 0; k < n; k++) {
        bool ok = true;
        for (int repeat = 0; repeat < (arch < 5 ? 2048 : 1024) / tested[arch].wave_size && ok; repeat++) {
            rnd_seed((uint64_t)(1000 * index[k] + repeat));
            randomize(b, cases[index[k]].operands);
            memcpy(&before, b, sizeof(before));
            ck_assert_int_eq(bare_run(b, s.start[k]), EMU_END);
            for (int l = 0; l < tested[arch].wave_size && ok; l++)
                ok = check_lane(index[k], arch, l, &before, b);
            for (int r = 0; r < 6; r++)
                ASSERT_LANE(!memcmp(before.v[r], b->v[r], (size_t)tested[arch].wave_size * 4), "%s changed v%d",
                            text[k], r);
        }
        wrong += !ok;
    }
    ck_assert_msg(!wrong, "%s: %d of %d forms are wrong", tested[arch].arch.name, wrong, n);
    printf("%s, wave%d: %d VALU forms\n", tested[arch].arch.name, tested[arch].wave_size, n);
    snippets_free(&s);
}
END_TEST

void emu_case_lanes(Suite *s)
{
    TCase *c = test_case(s, "lanes", NULL, NULL);
    tcase_set_timeout(c, 120);
    ADD_LOOPS(c, EMU_TESTED, lanes);
}
