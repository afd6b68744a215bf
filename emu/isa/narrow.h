/* SPDX-License-Identifier: MIT
 *
 * OCP's narrow floats, as gfx950 has them: fp8 (E4M3), bf8 (E5M2), fp6 (E2M3), bf6 (E3M2), fp4 (E2M1), and E8M0 scales.
 * In the order of CBSZ and BLGP. */
#ifndef RFG_EMU_NARROW_H
#define RFG_EMU_NARROW_H

#include "isa.h"

enum narrow { N_FP8, N_BF8, N_FP6, N_BF6, N_FP4 };

static inline int narrow_bits(enum narrow t)
{
    return t <= N_BF8 ? 8 : t <= N_BF6 ? 6 : 4;
}
static inline int narrow_mantissa(enum narrow t)
{
    static const uint8_t m[] = { 3, 2, 3, 2, 1 };
    return m[t];
}
static inline int narrow_bias(enum narrow t)
{
    static const uint8_t b[] = { 7, 15, 1, 3, 1 };
    return b[t];
}
/* The largest finite number's bits. */
static inline uint32_t narrow_largest(enum narrow t)
{
    static const uint8_t x[] = { 0x7e, 0x7b, 0x1f, 0x1f, 7 };
    return x[t];
}
static inline double pow2(int e)
{
    return as_f64((uint64_t)(e + 1023) << 52);
}
static inline double narrow_value(uint32_t x, enum narrow t)
{
    int m = narrow_mantissa(t), bits = narrow_bits(t);
    uint32_t magnitude = x & ((1u << (bits - 1)) - 1), e = magnitude >> m, f = magnitude & ((1u << m) - 1);
    double v = e ? (double)(f | 1u << m) * pow2((int)e - narrow_bias(t) - m) : (double)f * pow2(1 - narrow_bias(t) - m);
    if (t == N_FP8 && magnitude == 0x7f)
        v = (double)NAN;
    if (t == N_BF8 && e == 31)
        v = f ? (double)NAN : (double)INFINITY;
    return x >> (bits - 1) & 1 ? -v : v;
}
static inline double narrow_scale(uint32_t e)
{
    return e == 255 ? (double)NAN : pow2((int)e - 127);
}
/* To nearest even; stochastic: random / 2^32 of a step is added and the rest cut off. saturate: of fp8 and bf8, what is
 * too large becomes the largest; the others always do so. */
static inline uint32_t narrow_round(double v, enum narrow t, bool saturate, bool stochastic, uint32_t random)
{
    int m = narrow_mantissa(t), bias = narrow_bias(t), e = 0;
    uint32_t sign = (uint32_t)(as_u64(v) >> 63) << (narrow_bits(t) - 1), largest = narrow_largest(t);
    double a = fabs(v);
    if (v != v)
        return sign | (t <= N_BF8 ? 0x7f : largest);
    uint32_t over = t == N_FP8 && !saturate ? 0x7f : t == N_BF8 && !saturate ? 0x7c : largest;
    if (isinf(v))
        return sign | over;
    e = a == 0 ? 1 - bias : ilogb(a);
    if (e < 1 - bias)
        e = 1 - bias;
    double n = ldexp(a, m - e); /* in steps */
    n = stochastic ? floor(n + ldexp((double)random, -32)) : rint(n);
    if (ldexp(n, e - m) > narrow_value(largest, t))
        return sign | over;
    uint32_t q = (uint32_t)n; /* with the hidden bit */
    return sign | (q >= 1u << m ? ((uint32_t)(e + bias) << m) + q - (1u << m) : q);
}
/* f32 to f16 or bf16, random / 2^32 of a step added and the rest cut off. */
static inline uint32_t wide_random(float f, bool bf16, uint32_t random)
{
    int m = bf16 ? 7 : 10, lowest = bf16 ? -126 : -14;
    uint32_t sign = as_u32(f) >> 16 & 0x8000;
    double a = fabs((double)f);
    if (f != f || isinf(f) || a == 0)
        return bf16 ? f2bf(f) : f2h(f);
    int e = ilogb(a) < lowest ? lowest : ilogb(a);
    float v = (float)ldexp(floor(ldexp(a, m - e) + ldexp((double)random, -32)), e - m);
    return sign | (bf16 ? f2bf(v) : f2h(v));
}

#endif
