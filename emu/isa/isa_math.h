/* SPDX-License-Identifier: MIT
 *
 * The maths of single lanes, branch-free where it can be, for the vectoriser. */
#ifndef RFG_EMU_ISA_MATH_H
#define RFG_EMU_ISA_MATH_H

#include "isa.h"

static inline float quiet(float a)
{
    return as_f32(as_u32(a) | 0x400000);
}
static inline int is_snan(float a)
{
    return a != a && !(as_u32(a) & 0x400000);
}
/* With IEEE set a signalling NaN comes out, quieted; else a NaN loses against a number. +0 is above -0. */
static inline float fmin_(float a, float b, int ieee)
{
    uint32_t zero = as_u32(a) | as_u32(b);
    float r = a < b ? a : a == b ? (a == 0 ? as_f32(zero) : a) : b;
    r = a != a ? b : b != b ? a : r;
    r = ieee && is_snan(b) ? quiet(b) : r;
    return ieee && is_snan(a) ? quiet(a) : r;
}
static inline float fmax_(float a, float b, int ieee)
{
    uint32_t zero = as_u32(a) & as_u32(b);
    float r = a > b ? a : a == b ? (a == 0 ? as_f32(zero) : a) : b;
    r = a != a ? b : b != b ? a : r;
    r = ieee && is_snan(b) ? quiet(b) : r;
    return ieee && is_snan(a) ? quiet(a) : r;
}
static inline float fmed3_(float a, float b, float c, int ieee)
{
    float lo = fmin_(fmin_(a, b, ieee), c, ieee);
    float mid = fmax_(fmin_(a, b, ieee), fmin_(fmax_(a, b, ieee), c, ieee), ieee);
    return a != a || b != b || c != c ? lo : mid;
}
/* IEEE 754-2019 minimum and maximum (gfx12): a NaN wins. */
static inline float fminimum_(float a, float b)
{
    float r = fmin_(a, b, 0);
    return a != a ? quiet(a) : b != b ? quiet(b) : r;
}
static inline float fmaximum_(float a, float b)
{
    float r = fmax_(a, b, 0);
    return a != a ? quiet(a) : b != b ? quiet(b) : r;
}
static inline double dquiet(double a)
{
    return as_f64(as_u64(a) | 1ull << 51);
}
static inline int is_dsnan(double a)
{
    return a != a && !(as_u64(a) >> 51 & 1);
}
static inline double dmin_(double a, double b, int ieee)
{
    double r = a < b ? a : a == b ? (a == 0 ? as_f64(as_u64(a) | as_u64(b)) : a) : b;
    r = a != a ? b : b != b ? a : r;
    r = ieee && is_dsnan(b) ? dquiet(b) : r;
    return ieee && is_dsnan(a) ? dquiet(a) : r;
}
static inline double dmax_(double a, double b, int ieee)
{
    double r = a > b ? a : a == b ? (a == 0 ? as_f64(as_u64(a) & as_u64(b)) : a) : b;
    r = a != a ? b : b != b ? a : r;
    r = ieee && is_dsnan(b) ? dquiet(b) : r;
    return ieee && is_dsnan(a) ? dquiet(a) : r;
}
static inline double dminimum_(double a, double b)
{
    double r = dmin_(a, b, 0);
    return a != a ? dquiet(a) : b != b ? dquiet(b) : r;
}
static inline double dmaximum_(double a, double b)
{
    double r = dmax_(a, b, 0);
    return a != a ? dquiet(a) : b != b ? dquiet(b) : r;
}

static inline float flushf(float a)
{
    return as_f32(flush32(as_u32(a)));
}
/* x - floor(x), below 1; infinities give 0 on no hardware: NaN. */
static inline float fract32(float a)
{
    float r = a - floorf(a);
    return r >= 1.0f ? 0x1.fffffep-1f : r;
}
static inline float fract16(float a)
{
    float r = a - floorf(a);
    return r > 0x1.ffcp-1f ? 0x1.ffcp-1f : r;
}
static inline double fract64(double a)
{
    double r = a - floor(a);
    return r >= 1.0 ? 0x1.fffffffffffffp-1 : r;
}
static inline float frexp_mant32(float a)
{
    int e;
    return a == 0 || isinf(a) || a != a ? a : frexpf(a, &e);
}
static inline uint32_t frexp_exp32(float a)
{
    int e = 0;
    if (a == 0 || isinf(a) || a != a)
        return 0;
    frexpf(a, &e);
    return (uint32_t)e;
}
static inline double frexp_mant64(double a)
{
    int e;
    return a == 0 || isinf(a) || a != a ? a : frexp(a, &e);
}
static inline uint32_t frexp_exp64(double a)
{
    int e = 0;
    if (a == 0 || isinf(a) || a != a)
        return 0;
    frexp(a, &e);
    return (uint32_t)e;
}
static inline float ldexp_(float a, int32_t n)
{
    n = n > 400 ? 400 : n < -400 ? -400 : n;
    return ldexpf(a, n);
}
static inline double ldexpd_(double a, int32_t n)
{
    n = n > 4000 ? 4000 : n < -4000 ? -4000 : n;
    return ldexp(a, n);
}
static inline uint32_t cvt_i32(float a)
{
    return a >= 2147483648.0f ? 0x7fffffff : a >= -2147483648.0f ? (uint32_t)(int32_t)a : a != a ? 0 : 0x80000000;
}
static inline uint32_t cvt_i32d(double a)
{
    return a >= 2147483647.0 ? 0x7fffffff : a > -2147483649.0 ? (uint32_t)(int32_t)a : a != a ? 0 : 0x80000000;
}

/* ---- transcendentals: in double, right to far better than an f32's last place ------------------------------------ */

static inline float exp2_(float a)
{
    double x = a, t = x > 1100.0 ? 1100.0 : x < -1100.0 ? -1100.0 : x;
    t = x != x ? 0.0 : t;
    double magic = 0x1.8p52, n = t + magic - magic;
    double f = (t - n) * 0.693147180559945309417; /* |f| <= 0.35 */
    double p = 1.0 / 39916800;
    p = p * f + 1.0 / 3628800;
    p = p * f + 1.0 / 362880;
    p = p * f + 1.0 / 40320;
    p = p * f + 1.0 / 5040;
    p = p * f + 1.0 / 720;
    p = p * f + 1.0 / 120;
    p = p * f + 1.0 / 24;
    p = p * f + 1.0 / 6;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    double scale = as_f64((as_u64(n + magic) + 1023) << 52); /* |n| <= 1100: wraps harmlessly, see below */
    double r = p * scale;
    r = t > 1000.0 ? (double)INFINITY : t < -1000.0 ? 0.0 : r;
    float y = (float)r;
    return x != x ? quiet(a) : y;
}

static inline float log2_(float a)
{
    double x = a;
    uint64_t bits = as_u64(x);
    /* x = m * 2^e, m in [sqrt(1/2), sqrt(2)) */
    uint64_t shifted = bits - 0x3fe6a09e667f3bcdull;
    double m = as_f64(bits - (shifted & 0xfff0000000000000ull));
    double e = (double)(int32_t)((int64_t)shifted >> 52);
    double s = (m - 1.0) / (m + 1.0), z = s * s; /* |s| <= 0.1716 */
    double p = 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z + 1.0;
    double r = e + 2.0 * s * p * 1.44269504088896340736;
    float y = (float)r;
    y = a == 0 ? -INFINITY : a < 0 ? NAN : a == INFINITY ? INFINITY : y;
    return a != a ? quiet(a) : y;
}

/* sin(2 pi x) and cos(2 pi x): the argument is in turns. */
static inline double sin_poly(double f) /* |f| <= pi/4 */
{
    double z = f * f, p = -1.0 / 39916800 / 156;
    p = -p; /* 1/13! */
    p = p * z - 1.0 / 39916800;
    p = p * z + 1.0 / 362880;
    p = p * z - 1.0 / 5040;
    p = p * z + 1.0 / 120;
    p = p * z - 1.0 / 6;
    return f + f * z * p;
}
static inline double cos_poly(double f)
{
    double z = f * f, p = 1.0 / 479001600;
    p = p * z - 1.0 / 3628800;
    p = p * z + 1.0 / 40320;
    p = p * z - 1.0 / 720;
    p = p * z + 1.0 / 24;
    p = p * z - 0.5;
    return 1.0 + z * p;
}
static inline double turn_(double x, int shift)
{
    double r = x - rint(x); /* exact */
    double q = rint(4.0 * r);
    double f = (r - 0.25 * q) * 6.28318530717958647693;
    int n = ((int)q + shift) & 3;
    double s = sin_poly(f), c = cos_poly(f);
    double v = n & 1 ? c : s;
    return n & 2 ? -v : v;
}
static inline float sin2pi_(float a)
{
    return isinf(a) || a != a ? NAN : a == 0 ? a : (float)turn_(a, 0);
}
static inline float cos2pi_(float a)
{
    return isinf(a) || a != a ? NAN : (float)turn_(a, 1);
}

/* f32 -> f16 towards zero: the f16 below or at the value's magnitude. */
static inline uint32_t f2h_rtz(float f)
{
    uint32_t a = as_u32(f) & 0x7fffffff, sign = as_u32(f) >> 16 & 0x8000;
    uint32_t h = f2h(as_f32(a));
    if (a > 0x7f800000)
        return h | sign;
    if (a == 0x7f800000)
        return 0x7c00 | sign;
    if (h == 0x7c00 || h2f(h) > as_f32(a))
        h--;
    return h | sign;
}

/* fp8 to f32, exact: e4m3 (m 3) or e5m2 (m 2), fnuz or OCP. */
static inline float fp8(uint32_t x, int m, bool fnuz)
{
    int bias = (m == 3 ? 7 : 15) + fnuz;
    uint32_t em = x & 0x7f, sign = x << 24 & 0x80000000;
    float normal = as_f32((em << (23 - m)) + ((uint32_t)(127 - bias) << 23));
    float sub = (float)(int32_t)em * as_f32((uint32_t)(127 + 1 - bias - m) << 23);
    float v = em >> m ? normal : sub;
    uint32_t r = as_u32(v) | sign;
    if (fnuz)
        r = x == 0x80 ? 0x7fc00000 : r;
    else if (m == 3)
        r = em == 0x7f ? 0x7fc00000 : r;
    else
        r = em > 0x7c ? 0x7fc00000 : em == 0x7c ? 0x7f800000 | sign : r;
    return as_f32(r);
}

#endif
