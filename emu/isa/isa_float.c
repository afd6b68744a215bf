/* SPDX-License-Identifier: MIT
 *
 * Floating-point VALU: ops_float.def, division's helpers, packed f32. */
#include "isa_math.h"

static inline float cube_ma(float a, float b, float c)
{
    float x = fabsf(a), y = fabsf(b), z = fabsf(c);
    return z >= x && z >= y ? 2 * c : y >= x ? 2 * b : 2 * a;
}

/* +x, -x, +y, -y, +z, -z */
static inline int cube_face(float a, float b, float c)
{
    float x = fabsf(a), y = fabsf(b), z = fabsf(c);
    return z >= x && z >= y ? 4 + (c < 0) : y >= x ? 2 + (b < 0) : (a < 0);
}
static inline float cube_sc(float a, float b, float c)
{
    int face = cube_face(a, b, c);
    return face == 4 ? a : face == 5 ? -a : face >= 2 ? a : face == 0 ? -c : c;
}
static inline float cube_tc(float a, float b, float c)
{
    int face = cube_face(a, b, c);
    return face == 2 ? c : face == 3 ? -c : -b;
}

#define IEEE       ieee
#define F1(n, e)   OP(n, rowf, ROW_F(a, 1), LANE1, e, putf)
#define F2(n, e)   OP(n, rowf, ROW_F(a, 1) ROW_F(b, 2), LANE2, e, putf)
#define F3(n, e)   OP(n, rowf, ROW_F(a, 1) ROW_F(b, 2) ROW_F(c, 3), LANE3, e, putf)
#define FACC(n, e) OP(n, rowf, ROW_F(a, 1) ROW_F(b, 2) ROW_ACC(c), LANE3, e, putf)
#define FU1(n, e)  OP(n, row32, ROW_F(a, 1), LANE1, e, put)
#define UF1(n, e)  OP(n, rowf, ROW_U(a, 1), LANE1, e, putf)
#define F2I(n, e)  OP(n, rowf, ROW_F(a, 1) ROW_U(b, 2), LANE2, e, putf)
#define T1(n, e)   OP(n, rowf, ROW_U(a, 1), float a = as_f32(flush32(a_[l]));, flushf(e), putf)
#define D1(n, e)   OP(n, rowd, ROW_D(a, 1), LANE1, e, EMU_N(putd))
#define D2(n, e)   OP(n, rowd, ROW_D(a, 1) ROW_D(b, 2), LANE2, e, EMU_N(putd))
#define D3(n, e)   OP(n, rowd, ROW_D(a, 1) ROW_D(b, 2) ROW_D(c, 3), LANE3, e, EMU_N(putd))
#define DACC(n, e) OP(n, rowd, ROW_D(a, 1) ROW_D(b, 2) ROW_D(c, 0), LANE3, e, EMU_N(putd))
#define DU1(n, e)  OP(n, row32, ROW_D(a, 1), LANE1, e, put)
#define UD1(n, e)  OP(n, rowd, ROW_U(a, 1), LANE1, e, EMU_N(putd))
#define UD1F(n, e) OP(n, rowd, ROW_F(a, 1), uint32_t a = as_u32(a_[l]);, e, EMU_N(putd))
#define D2I(n, e)  OP(n, rowd, ROW_D(a, 1) ROW_U(b, 2), LANE2, e, EMU_N(putd))
#define H1(n, e)   OP(n, row32, ROW_H(a, 1), LANE1, d2h(e), EMU_N(puth))
#define H2(n, e)   OP(n, row32, ROW_H(a, 1) ROW_H(b, 2), LANE2, d2h(e), EMU_N(puth))
#define H3(n, e)   OP(n, row32, ROW_H(a, 1) ROW_H(b, 2) ROW_H(c, 3), LANE3, d2h(e), EMU_N(puth))
#define HACC(n, e) OP(n, row32, ROW_H(a, 1) ROW_H(b, 2) ROW_H(c, 0), LANE3, d2h(e), EMU_N(puth))
#define TH1        H1
#define TD1        D1
#define A(n, f, s)
#define AK(n, f, s)
#define TA(n, f, s)
#include "ops_float.def"
#undef TH1
#undef TD1
#undef TA
#undef F1
#undef F2
#undef F3
#undef FACC
#undef FU1
#undef UF1
#undef F2I
#undef T1
#undef D1
#undef D2
#undef D3
#undef DACC
#undef DU1
#undef UD1
#undef UD1F
#undef D2I
#undef H1
#undef H2
#undef H3
#undef HACC
#undef A
#undef AK

/* ---- division: v_div_scale, v_div_fmas, v_div_fixup -------------------------------------------------------------- */

static int exponent32(float a)
{
    return (int)(as_u32(a) >> 23 & 255);
}
static int exponent64(double a)
{
    return (int)(as_u64(a) >> 52 & 2047);
}

/* d, vcc, s0 (what is scaled), s1 denominator, s2 numerator. */
H(v_div_scale_f32)
{
    rowf r;
    row32 t0, t1, t2;
    uint8_t out[64];
    const float *s0 = srcf(w, i, 2, t0), *s1 = srcf(w, i, 3, t1), *s2 = srcf(w, i, 4, t2);
    LANES
    {
        float a = s0[l], d = s1[l], n = s2[l], x = a;
        bool vcc = false, denominator = as_u32(a) == as_u32(d);
        bool d_tiny = exponent32(d) == 0, n_tiny = exponent32(n) <= 23;
        float inverse = 1.0f / d, quotient = n / d;
        if (n == 0 || d == 0) {
            x = NAN;
        } else if (exponent32(n) - exponent32(d) >= 96) {
            vcc = true;
            if (denominator)
                x = ldexpf(a, 64);
        } else if (d_tiny) {
            x = ldexpf(a, 64);
        } else if (exponent32(inverse) == 0 && exponent32(quotient) == 0) {
            vcc = true; /* d is huge: it can only be scaled down */
            if (denominator)
                x = ldexpf(a, -64);
        } else if (exponent32(inverse) == 0) {
            x = ldexpf(a, -64);
        } else if (exponent32(quotient) == 0) {
            vcc = true;
            if (as_u32(a) == as_u32(n))
                x = ldexpf(a, 64);
        } else if (n_tiny) {
            x = ldexpf(a, 64);
        }
        r[l] = x;
        out[l] = vcc;
    }
    put_mask(w, i, 1, pack_mask(out));
    putf(w, i, r);
}
H(v_div_scale_f64)
{
    rowd r, s0, s1, s2;
    uint8_t out[64];
    srcd(w, i, 2, s0);
    srcd(w, i, 3, s1);
    srcd(w, i, 4, s2);
    LANES
    {
        double a = s0[l], d = s1[l], n = s2[l], x = a;
        bool vcc = false, denominator = as_u64(a) == as_u64(d);
        double inverse = 1.0 / d, quotient = n / d;
        if (n == 0 || d == 0) {
            x = NAN;
        } else if (exponent64(n) - exponent64(d) >= 768) {
            vcc = true;
            if (denominator)
                x = ldexp(a, 128);
        } else if (exponent64(d) == 0) {
            x = ldexp(a, 128);
        } else if (exponent64(inverse) == 0 && exponent64(quotient) == 0) {
            vcc = true;
            if (denominator)
                x = ldexp(a, -128);
        } else if (exponent64(inverse) == 0) {
            x = ldexp(a, -128);
        } else if (exponent64(quotient) == 0) {
            vcc = true;
            if (as_u64(a) == as_u64(n))
                x = ldexp(a, 128);
        } else if (exponent64(n) <= 53) {
            x = ldexp(a, 128);
        }
        r[l] = x;
        out[l] = vcc;
    }
    put_mask(w, i, 1, pack_mask(out));
    EMU_N(putd)(w, i, r);
}
#ifdef __SIZEOF_FLOAT128__
typedef __float128 wide;
#else
typedef long double wide;
#endif
H(v_div_fmas_f32)
{
    rowf r;
    row32 ta, tb, tc;
    uint64_t vcc = read_vcc(w);
    const float *a = srcf(w, i, 1, ta), *b = srcf(w, i, 2, tb), *c = srcf(w, i, 3, tc);
    LANES
    {
        /* 2^64 or 2^-64, as the addend's size tells; rounded once, so that subnormal quotients come out right, and
         * those that lie next to the middle of two floats. */
        double scale = exponent32(c[l]) > 127 ? 0x1p64 : 0x1p-64;
        r[l] = vcc >> l & 1 ? (float)(((wide)a[l] * b[l] + c[l]) * scale) : __builtin_fmaf(a[l], b[l], c[l]);
    }
    putf(w, i, r);
}
H(v_div_fmas_f64)
{
    rowd r, a, b, c;
    uint64_t vcc = read_vcc(w);
    srcd(w, i, 1, a);
    srcd(w, i, 2, b);
    srcd(w, i, 3, c);
    LANES
    {
        /* Rounded once here too: 113 bits hold the product and, where the quotient is near, the sum. */
        if (vcc >> l & 1)
            r[l] = (double)(((wide)a[l] * (wide)b[l] + (wide)c[l]) * (exponent64(c[l]) > 1023 ? 0x1p128 : 0x1p-128));
        else
            r[l] = __builtin_fma(a[l], b[l], c[l]);
    }
    EMU_N(putd)(w, i, r);
}
/* d, quotient, denominator, numerator */
static inline float div_fixup(float q, float d, float n)
{
    float sign = as_f32(((as_u32(d) ^ as_u32(n)) & 0x80000000) | 0x3f800000);
    if (n != n)
        return quiet(n);
    if (d != d)
        return quiet(d);
    if ((d == 0 && n == 0) || (isinf(d) && isinf(n)))
        return as_f32(0xffc00000);
    if (d == 0 || isinf(n))
        return copysignf(INFINITY, sign);
    if (isinf(d) || n == 0)
        return copysignf(0, sign);
    if (exponent32(n) - exponent32(d) < -150)
        return copysignf(0, sign);
    if (q != q) /* of finite, non-zero numbers: the scaled quotient overflowed on the way */
        return copysignf(INFINITY, sign);
    return copysignf(fabsf(q), sign);
}
OP(v_div_fixup_f32, rowf, ROW_F(a, 1) ROW_F(b, 2) ROW_F(c, 3), LANE3, div_fixup(a, b, c), putf)
OP(v_div_fixup_f16, row32, ROW_H(a, 1) ROW_H(b, 2) ROW_H(c, 3), LANE3, f2h(div_fixup(a, b, c)), EMU_N(puth))
H(v_div_fixup_f64)
{
    rowd r, q, d, n;
    srcd(w, i, 1, q);
    srcd(w, i, 2, d);
    srcd(w, i, 3, n);
    LANES
    {
        double s = as_f64(((as_u64(d[l]) ^ as_u64(n[l])) & 0x8000000000000000ull) | 0x3ff0000000000000ull), x;
        if (n[l] != n[l] || d[l] != d[l])
            x = n[l] != n[l] ? n[l] : d[l];
        else if ((d[l] == 0 && n[l] == 0) || (isinf(d[l]) && isinf(n[l])))
            x = -NAN;
        else if (d[l] == 0 || isinf(n[l]))
            x = copysign(INFINITY, s);
        else if (isinf(d[l]) || n[l] == 0 || exponent64(n[l]) - exponent64(d[l]) < -1075)
            x = copysign(0, s);
        else
            x = copysign(q[l] != q[l] ? (double)INFINITY : fabs(q[l]), s);
        r[l] = x;
    }
    EMU_N(putd)(w, i, r);
}

/* ---- packed f32 -------------------------------------------------------------------------------------------------- */

/* op 0: a + b, 1: a * b, 2: fma. op_sel: which word the low result takes, op_sel_hi: the high one. */
static inline void pk_f32(struct emu_wave *w, const struct emu_inst *i, int op)
{
    const struct emu_mods *m = i->mods;
    row32 t[3], out[2];
    bool ftz = ftz_in32(w), ftz_out = ftz_out32(w);
    for (int h = 0; h < 2; h++) {
        const uint32_t *s[3];
        unsigned sel = h ? m->op_sel_hi : m->op_sel, neg = h ? m->neg_hi : m->neg_lo;
        for (int k = 0; k < 3; k++) {
            if (k == 2 && op != 2) {
                s[2] = s[0];
                break;
            }
            s[k] = src_word(w, i, k + 1, sel >> k & 1, t[k]);
            if (neg >> k & 1 || unlikely(ftz)) {
                uint32_t flip = neg >> k & 1 ? 0x80000000 : 0;
                if (ftz)
                    LANES t[k][l] = flush32(s[k][l]) ^ flip;
                else
                    LANES t[k][l] = s[k][l] ^ flip;
                s[k] = t[k];
            }
        }
        const float *a = (const float *)s[0], *b = (const float *)s[1], *c = (const float *)s[2];
        float *r = (float *)out[h];
        if (op == 0)
            LANES r[l] = a[l] + b[l];
        else if (op == 1)
            LANES r[l] = a[l] * b[l];
        else
            LANES r[l] = __builtin_fmaf(a[l], b[l], c[l]);
        if (unlikely(ftz_out))
            LANES out[h][l] = flush32(out[h][l]);
        if (unlikely(m->clamp))
            LANES r[l] = r[l] != r[l] ? 0 : r[l] > 0 ? (r[l] < 1 ? r[l] : 1) : 0;
    }
    blend(vrow(w, i->reg[0]), out[0], w->exec);
    blend(vrow(w, i->reg[0] + 1u), out[1], w->exec);
}
H(v_pk_add_f32)
{
    pk_f32(w, i, 0);
}
H(v_pk_mul_f32)
{
    pk_f32(w, i, 1);
}
H(v_pk_fma_f32)
{
    pk_f32(w, i, 2);
}

/* clang-format off */
static const struct emu_op rows[] = {
#define ROW(n, s, cls) { #n, h_##n, s, cls, 0 },
#define F1(n, e)       { #n, h_##n, "d1 s1f", EMU_VALU, 0 },
#define F2(n, e)       { #n, h_##n, "d1 s1f s1f", EMU_VALU, 0 },
#define F3(n, e)       { #n, h_##n, "d1 s1f s1f s1f", EMU_VALU, 0 },
#define FACC(n, e)     { #n, h_##n, "b1f s1f s1f", EMU_VALU, 0 },
#define FU1(n, e)      { #n, h_##n, "d1 s1f", EMU_VALU, 0 },
#define UF1(n, e)      { #n, h_##n, "d1 s1", EMU_VALU, 0 },
#define F2I(n, e)      { #n, h_##n, "d1 s1f s1", EMU_VALU, 0 },
#define T1(n, e)       { #n, h_##n, "d1 s1f", EMU_TRANS, 0 },
#define TD1(n, e)      { #n, h_##n, "d2 s2d", EMU_TRANS, 0 },
#define TH1(n, e)      { #n, h_##n, "d1 s1h", EMU_TRANS, 0 },
#define TA(n, f, s)    { #n, h_##f, s, EMU_TRANS, 0 },
#define D1(n, e)       { #n, h_##n, "d2 s2d", EMU_VALU, 0 },
#define D2(n, e)       { #n, h_##n, "d2 s2d s2d", EMU_VALU, 0 },
#define D3(n, e)       { #n, h_##n, "d2 s2d s2d s2d", EMU_VALU, 0 },
#define DACC(n, e)     { #n, h_##n, "b2d s2d s2d", EMU_VALU, 0 },
#define DU1(n, e)      { #n, h_##n, "d1 s2d", EMU_VALU, 0 },
#define UD1(n, e)      { #n, h_##n, "d2 s1", EMU_VALU, 0 },
#define UD1F(n, e)     { #n, h_##n, "d2 s1f", EMU_VALU, 0 },
#define D2I(n, e)      { #n, h_##n, "d2 s2d s1", EMU_VALU, 0 },
#define H1(n, e)       { #n, h_##n, "d1 s1h", EMU_VALU, 0 },
#define H2(n, e)       { #n, h_##n, "d1 s1h s1h", EMU_VALU, 0 },
#define H3(n, e)       { #n, h_##n, "d1 s1h s1h s1h", EMU_VALU, EMU_KEEPS_HI },
#define HACC(n, e)     { #n, h_##n, "b1h s1h s1h", EMU_VALU, EMU_KEEPS_HI },
#define A(n, f, s)     { #n, h_##f, s, EMU_VALU, 0 },
#define AK(n, f, s)    { #n, h_##f, s, EMU_VALU, EMU_KEEPS_HI },
#include "ops_float.def"
    ROW(v_div_scale_f32, "d1 m s1f s1f s1f", EMU_VALU)
    ROW(v_div_scale_f64, "d2 m s2d s2d s2d", EMU_VALU)
    ROW(v_div_fmas_f32, "d1 s1f s1f s1f|V", EMU_VALU)
    ROW(v_div_fmas_f64, "d2 s2d s2d s2d|V", EMU_VALU)
    ROW(v_div_fixup_f32, "d1 s1f s1f s1f", EMU_VALU)
    ROW(v_div_fixup_f64, "d2 s2d s2d s2d", EMU_VALU)
    { "v_div_fixup_legacy_f16", h_v_div_fixup_f16, "d1 s1h s1h s1h", EMU_VALU, 0 },
    { "v_div_fixup_f16", h_v_div_fixup_f16, "d1 s1h s1h s1h", EMU_VALU, EMU_KEEPS_HI },
    ROW(v_pk_add_f32, "d2 s2p s2p", EMU_VALU)
    ROW(v_pk_mul_f32, "d2 s2p s2p", EMU_VALU)
    ROW(v_pk_fma_f32, "d2 s2p s2p s2p", EMU_VALU)
};
/* clang-format on */
const struct emu_ops EMU_N(ops_float) = { rows, COUNT(rows) };
