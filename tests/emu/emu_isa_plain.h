/* SPDX-License-Identifier: MIT
 *
 * For emu_isa_lanes.c: what instructions compute, in plain C, apart from the emulator's. */
#ifndef RFG_TESTS_EMU_ISA_PLAIN_H
#define RFG_TESTS_EMU_ISA_PLAIN_H

#include "emu_isa.h"

static uint32_t bits_reversed(uint32_t a)
{
    uint32_t r = 0;
    for (int k = 0; k < 32; k++)
        r |= (a >> k & 1u) << (31 - k);
    return r;
}
static uint32_t top_bit(uint32_t a)
{
    uint32_t k = 31;
    while (!(a >> k & 1))
        k--;
    return k;
}
static uint32_t sign_run(uint32_t a)
{
    uint32_t n = 1;
    while (n < 32 && (a >> (31 - n) & 1) == a >> 31)
        n++;
    return n;
}
static uint32_t ones(uint32_t a)
{
    uint32_t n = 0;
    for (; a; a >>= 1)
        n += a & 1;
    return n;
}
static uint64_t below(int l)
{
    return ((uint64_t)1 << l) - 1;
}
static uint32_t clamp_i32(int64_t x)
{
    return (uint32_t)(x > 2147483647 ? 2147483647 : x < -2147483648ll ? -2147483648ll : x);
}
static int64_t i24(uint32_t a)
{
    int64_t x = a & 0xffffff;
    return x >= 0x800000 ? x - 0x1000000 : x;
}
static uint32_t field(uint32_t a, uint32_t at, uint32_t n)
{
    return (uint32_t)((uint64_t)a >> at & (((uint64_t)1 << n) - 1));
}
static uint32_t signed_field(uint32_t a, uint32_t at, uint32_t n)
{
    int64_t x = (int64_t)(int32_t)a >> at & (((int64_t)1 << n) - 1);
    return (uint32_t)(n && x >> (n - 1) & 1 ? x - ((int64_t)1 << n) : x);
}
static uint32_t bytes_chosen(uint32_t a, uint32_t b, uint32_t c)
{
    uint8_t from[8], out[4];
    uint32_t r;
    memcpy(from, &b, 4);
    memcpy(from + 4, &a, 4);
    for (int k = 0; k < 4; k++) {
        uint32_t s = c >> 8 * k & 255;
        out[k] = s < 8 ? from[s] : s < 12 ? (from[2 * (s - 8) + 1] >= 128 ? 255 : 0) : s == 12 ? 0 : 255;
    }
    memcpy(&r, out, 4);
    return r;
}
static uint32_t sum_abs(uint32_t a, uint32_t b, int n, int bits)
{
    uint32_t s = 0;
    for (int k = 0; k < n; k++) {
        int64_t x = (int64_t)((uint64_t)a >> bits * k) & ((1ll << bits) - 1),
                y = (int64_t)((uint64_t)b >> bits * k) & ((1ll << bits) - 1);
        s += (uint32_t)llabs(x - y);
    }
    return s;
}
static uint32_t nth_i32(uint32_t a, uint32_t b, uint32_t c, int n)
{
    int64_t x[3] = { (int32_t)a, (int32_t)b, (int32_t)c };
    for (int p = 0; p < 2; p++)
        for (int k = 0; k < 2; k++)
            if (x[k] > x[k + 1]) {
                int64_t t = x[k];
                x[k] = x[k + 1];
                x[k + 1] = t;
            }
    return (uint32_t)x[n];
}
static uint32_t nth_u32(uint32_t a, uint32_t b, uint32_t c, int n)
{
    return nth_i32(a ^ 0x80000000, b ^ 0x80000000, c ^ 0x80000000, n) ^ 0x80000000;
}
static int64_t dot_bits(uint32_t a, uint32_t b, int bits, bool sa, bool sb)
{
    int64_t s = 0;
    for (int k = 0; k < 32; k += bits) {
        int64_t x = a >> k & ((1u << bits) - 1), y = b >> k & ((1u << bits) - 1);
        if (sa && x >> (bits - 1))
            x -= 1ll << bits;
        if (sb && y >> (bits - 1))
            y -= 1ll << bits;
        s += x * y;
    }
    return s;
}
static uint32_t pair(uint32_t lo, uint32_t hi)
{
    return (lo & 0xffff) | hi << 16;
}
static uint64_t both(float lo, float hi)
{
    return u32(lo) | (uint64_t)u32(hi) << 32;
}
static float unit(float x)
{
    return isnan(x) ? 0 : x < 0 ? 0 : x > 1 ? 1 : x == 0 ? 0 : x;
}
static bool signalling(uint32_t a)
{
    return isnan(f32(a)) && !(a & 0x400000);
}
static bool signals(uint64_t a)
{
    return isnan(f64(a)) && !(a >> 51 & 1);
}
static uint64_t minimum(uint32_t a, uint32_t b, bool ieee)
{
    if (ieee && (signalling(a) || signalling(b)))
        return 0x7fc00000;
    if (isnan(f32(a)) || isnan(f32(b)))
        return isnan(f32(a)) ? b : a;
    if (f32(a) == f32(b))
        return a >> 31 ? a : b;
    return f32(a) < f32(b) ? a : b;
}
static uint64_t maximum(uint32_t a, uint32_t b, bool ieee)
{
    if (ieee && (signalling(a) || signalling(b)))
        return 0x7fc00000;
    if (isnan(f32(a)) || isnan(f32(b)))
        return isnan(f32(a)) ? b : a;
    if (f32(a) == f32(b))
        return a >> 31 ? b : a;
    return f32(a) < f32(b) ? b : a;
}
static uint64_t median(uint32_t a, uint32_t b, uint32_t c)
{
    if (isnan(f32(a)) || isnan(f32(b)) || isnan(f32(c)))
        return minimum((uint32_t)minimum(a, b, true), c, true);
    uint64_t low = minimum(a, b, true), high = maximum(a, b, true);
    return maximum((uint32_t)low, (uint32_t)minimum((uint32_t)high, c, true), true);
}
static float roundevenf_(float x)
{
    float f = floorf(x), d = x - f;
    if (!isfinite(x) || d == 0)
        return x;
    float r = d > 0.5f ? f + 1 : d < 0.5f ? f : fmodf(f, 2) == 0 ? f : f + 1;
    return copysignf(r, x);
}
static long double scaled(float x, int32_t n)
{
    return scalbnl((long double)x, n > 600 ? 600 : n < -600 ? -600 : n);
}
static float tiny(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}
static long double turns(float x, bool cosine)
{
    long double t = (long double)tiny(x) - rintl((long double)tiny(x)), pi = 3.14159265358979323846264338327950288L;
    if (tiny(x) == 0)
        return cosine ? 1 : tiny(x);
    if (cosine)
        return fabsl(t) == 0.25L ? 0 : cosl(2 * pi * t);
    return fabsl(t) == 0.5L || t == 0 ? 0 : sinl(2 * pi * t);
}
/* Compared within one ulp, results flushed: kept aside, since 64 bits don't hold it. */
static long double exact_value;
static uint64_t close_(long double x)
{
    exact_value = x;
    return 0;
}
static uint32_t toward_zero(float x)
{
    _Float16 h = (_Float16)x;
    uint32_t r = u16(h);
    if (isnan(x))
        return 0x7e00 | (u32(x) >> 16 & 0x8000) | (u32(x) >> 13 & 0x3ff);
    if (isinf(x))
        return r;
    return fabsf((float)h) > fabsf(x) ? r - 1 : r;
}
static float fp8_fnuz(uint32_t x, int exponent_bits, int mantissa_bits)
{
    int bias = 1 << (exponent_bits - 1), e = (int)(x >> mantissa_bits & ((1u << exponent_bits) - 1));
    float m = (float)(x & ((1u << mantissa_bits) - 1)) / (float)(1 << mantissa_bits);
    if (x == 0x80)
        return NAN;
    return (x & 0x80 ? -1.0f : 1.0f) * (e ? (1 + m) * exp2f((float)(e - bias)) : m * exp2f((float)(1 - bias)));
}
/* The nearest of all 256, ties to the even encoding; too large, or not a number: NaN. */
static uint32_t to_fp8(float x, int exponent_bits, int mantissa_bits)
{
    double best = INFINITY, largest = (double)fp8_fnuz(0x7f, exponent_bits, mantissa_bits);
    double ulp = largest - (double)fp8_fnuz(0x7e, exponent_bits, mantissa_bits);
    uint32_t r = 0x80;
    if (isnan(x) || fabs((double)x) >= largest + ulp / 2)
        return 0x80;
    for (uint32_t k = 0; k < 0x80; k++) {
        double far = fabs((double)fp8_fnuz(k, exponent_bits, mantissa_bits) - fabs((double)x));
        if (far < best || (far == best && k % 2 == 0))
            best = far, r = k;
    }
    return r && signbit(x) ? r | 0x80 : r;
}
/* The bits below the mantissa get random's top ones added and are cut off. */
static uint32_t to_fp8_random(float x, uint32_t random, int exponent_bits, int mantissa_bits)
{
    double a = fabs((double)x), largest = (double)fp8_fnuz(0x7f, exponent_bits, mantissa_bits);
    uint32_t r = 0;
    if (isnan(x) || isinf(x))
        return 0x80;
    while (r < 0x7f && (double)fp8_fnuz(r + 1, exponent_bits, mantissa_bits) <= a)
        r++;
    double low = (double)fp8_fnuz(r, exponent_bits, mantissa_bits),
           step = r == 0x7f ? largest - (double)fp8_fnuz(0x7e, exponent_bits, mantissa_bits)
                            : (double)fp8_fnuz(r + 1, exponent_bits, mantissa_bits) - low;
    double steps = (a - low) / step + ldexp((double)random, -32);
    if (steps >= 1)
        r++;
    if (r > 0x7f || steps >= 2)
        return 0x80;
    return r && signbit(x) ? r | 0x80 : r;
}
static uint32_t clamp_i16(int64_t x)
{
    return (uint32_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);
}
static uint32_t clamp_u8(int32_t x)
{
    return (uint32_t)(x > 255 ? 255 : x < 0 ? 0 : x);
}
static uint32_t masked_sad(uint32_t a, uint32_t b)
{
    uint32_t s = 0;
    for (int k = 0; k < 32; k += 8)
        if (b >> k & 255)
            s += sum_abs(a >> k & 255, b >> k & 255, 1, 8);
    return s;
}
static uint32_t averages(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (int k = 0; k < 32; k += 8)
        r |= ((a >> k & 255) + (b >> k & 255) + (c >> k & 1)) / 2 << k;
    return r;
}
/* -1..1 or 0..1 to 16 bits. */
static uint32_t normal16(float x, bool is_signed)
{
    double v = isnan(x) ? 0 : fmin(1, fmax(is_signed ? -1 : 0, (double)x));
    return (uint32_t)(int32_t)nearbyint((double)((float)v * (is_signed ? 32767.0f : 65535.0f)));
}
struct cube {
    int face;
    float s, t;
};
static struct cube cube(float x, float y, float z)
{
    if (fabsf(z) >= fabsf(x) && fabsf(z) >= fabsf(y))
        return z < 0 ? (struct cube){ 5, -x, -y } : (struct cube){ 4, x, -y };
    if (fabsf(y) >= fabsf(x))
        return y < 0 ? (struct cube){ 3, x, -z } : (struct cube){ 2, x, z };
    return x < 0 ? (struct cube){ 1, z, -y } : (struct cube){ 0, -z, -y };
}
static bool signalling16(uint32_t a)
{
    return (a & 0x7c00) == 0x7c00 && (a & 0x3ff) && !(a & 0x200);
}
static uint32_t half_of(uint64_t float_bits, bool nan)
{
    return nan ? 0x7e00 : u16((_Float16)f32((uint32_t)float_bits));
}
static uint32_t two_halves(uint32_t a, uint32_t b, bool max)
{
    uint32_t x = u32((float)f16(a)), y = u32((float)f16(b));
    return half_of(max ? maximum(x, y, false) : minimum(x, y, false), signalling16(a) || signalling16(b));
}
static uint32_t three_halves(uint32_t a, uint32_t b, uint32_t c, int n)
{
    if (n == 1 && (isnan((float)f16(a)) || isnan((float)f16(b)) || isnan((float)f16(c))))
        n = 0;
    if (n == 1) {
        uint32_t low = two_halves(a, b, false), high = two_halves(a, b, true);
        return two_halves(low, two_halves(high, c, false), true);
    }
    return two_halves(two_halves(a, b, n == 2), c, n == 2);
}
/* gfx950's minimum3, maximum3: a NaN comes out, -0 is below 0. */
static float least(float x, float y, float z)
{
    float v[] = { x, y, z }, r = x;
    for (int k = 0; k < 3; k++) {
        if (isnan(v[k]))
            return NAN;
        if (v[k] < r || (v[k] == r && signbit(v[k])))
            r = v[k];
    }
    return r;
}
static uint32_t least_halves(uint32_t a, uint32_t b, uint32_t c, float sign)
{
    uint32_t r = 0;
    for (int h = 0; h < 32; h += 16)
        r |= (uint32_t)u16(
                 (_Float16)(sign * least(sign * (float)f16(a >> h & 0xffff), sign * (float)f16(b >> h & 0xffff),
                                         sign * (float)f16(c >> h & 0xffff))))
             << h;
    return r;
}
/* The nearer of the two next to it, ties to even; in steps of bf16. */
static uint32_t to_bf16(uint32_t a)
{
    double x = (double)f32(a & 0x7fffffff), low = (double)f32(a & 0x7fff0000),
           high = (double)f32((a & 0x7fff0000) + 0x10000);
    if (isnan(x))
        return a >> 16 | 0x40;
    if (isinf(high))
        high = 0x1p128;
    bool up = isfinite(x) && (x - low > high - x || (x - low == high - x && a >> 16 & 1));
    return (a >> 16) + up;
}
/* Random's bits are added below what f16 keeps. */
static uint32_t half_random(float x, uint32_t random)
{
    double a = fabs((double)x), step = a < 0x1p-14 ? 0x1p-24 : exp2(floor(log2(a)) - 10);
    if (isnan(x) || isinf(x) || x == 0)
        return u16((_Float16)x);
    double r = floor(a / step + (double)random * 0x1p-32) * step;
    return u16((_Float16)copysign(r, (double)x));
}
static uint32_t clamped(int32_t x, int32_t lo, int32_t hi)
{
    return (uint32_t)(x < lo ? lo : x > hi ? hi : x) & 255;
}
static int ilog(double x)
{
    return (int)(u64(x) >> 52 & 2047);
}
/* v_div_fixup: quotient, denominator, numerator. A quotient that is no number, of numbers, overflowed on its way. */
static double fixed(double q, double d, double n, bool tiny_quotient)
{
    double sign = signbit(d) != signbit(n) ? -1 : 1;
    if (isnan(n) || isnan(d) || (n == 0 && d == 0) || (isinf(n) && isinf(d)))
        return NAN;
    if (d == 0 || isinf(n))
        return sign * INFINITY;
    if (isinf(d) || n == 0 || tiny_quotient)
        return sign * 0.0;
    return isnan(q) ? sign * INFINITY : copysign(q, sign);
}
static int class_of(uint32_t a)
{
    float x = f32(a);
    int minus = a >> 31;
    switch (fpclassify(x)) {
    case FP_NAN:
        return signalling(a) ? 0 : 1;
    case FP_INFINITE:
        return minus ? 2 : 9;
    case FP_NORMAL:
        return minus ? 3 : 8;
    case FP_SUBNORMAL:
        return minus ? 4 : 7;
    default:
        return minus ? 5 : 6;
    }
}

/* gfx12's: _num: a number wins against any NaN; the others: a NaN wins. */
static uint64_t lesser(uint32_t a, uint32_t b, bool max, bool nan_wins)
{
    if (nan_wins && (isnan(f32(a)) || isnan(f32(b))))
        return 0x7fc00000;
    return max ? maximum(a, b, false) : minimum(a, b, false);
}
static uint32_t lesser16(uint32_t a, uint32_t b, bool max, bool nan_wins)
{
    return half_of(lesser(u32((float)f16(a)), u32((float)f16(b)), max, nan_wins), false);
}
static uint64_t lesser64(uint64_t a, uint64_t b, bool max, bool nan_wins)
{
    double x = f64(a), y = f64(b);
    if (isnan(x) || isnan(y))
        return nan_wins ? 0x7ff8000000000000 : isnan(x) ? b : a;
    bool first = max ? x > y || (x == y && !(a >> 63)) : x < y || (x == y && a >> 63);
    return first ? a : b;
}
static uint64_t middle(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t low = (uint32_t)lesser(a, b, false, false), high = (uint32_t)lesser(a, b, true, false);
    if (isnan(f32(a)) || isnan(f32(b)) || isnan(f32(c)))
        return lesser(low, c, false, false);
    return lesser(low, (uint32_t)lesser(high, c, false, false), true, false);
}
/* OCP's: a bias of 7 or 15, infinities in the latter. */
static float fp8_ocp(uint32_t x, int exponent_bits, int mantissa_bits)
{
    uint32_t top = (1u << exponent_bits) - 1, e = x >> mantissa_bits & top, m = x & ((1u << mantissa_bits) - 1);
    if (e == top && (exponent_bits == 5 || m == 7))
        return m ? NAN : x & 0x80 ? -INFINITY : INFINITY;
    float f = (float)m / (float)(1 << mantissa_bits);
    int bias = (1 << (exponent_bits - 1)) - 1;
    return (x & 0x80 ? -1.0f : 1.0f) * (e ? (1 + f) * exp2f((float)((int)e - bias)) : f * exp2f((float)(1 - bias)));
}
static float dot_fp8(uint32_t a, uint32_t b, float c, int ea, int eb)
{
    double sum = (double)c;
    for (int k = 0; k < 32; k += 8)
        sum += (double)fp8_ocp(a >> k & 255, ea, 7 - ea) * (double)fp8_ocp(b >> k & 255, eb, 7 - eb);
    return (float)sum;
}

#endif
