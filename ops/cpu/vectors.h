/* SPDX-License-Identifier: MIT
 *
 * The compilers' vector types for the cpu variants, and arithmetic on them that operators share. The includer defines
 * LANES (4, 8, 16). */
#ifndef RFG_CPU_VECTORS_H
#define RFG_CPU_VECTORS_H

#include <stdint.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint64_t vq __attribute__((vector_size(LANES * 8)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));
typedef uint16_t vh2 __attribute__((vector_size(LANES * 4)));
typedef uint8_t vb __attribute__((vector_size(LANES)));
typedef uint8_t vb2 __attribute__((vector_size(LANES * 2)));

#define INLINE    static inline __attribute__((always_inline))
#define SPLAT(x)  ((vf){ 0 } + (x))
#define SPLATU(x) ((vu){ 0 } + (uint32_t)(x))

/* The smaller, the larger one; b if either is a NaN. */
#if LANES == 16
#define smaller(a, b) ((vf)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define larger(a, b)  ((vf)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define fewer(a, b)   ((vu)_mm512_min_epu32((__m512i)(a), (__m512i)(b)))
#elif LANES == 8
#define smaller(a, b) ((vf)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define larger(a, b)  ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define fewer(a, b)   ((vu)_mm256_min_epu32((__m256i)(a), (__m256i)(b)))
#else
#define smaller(a, b) choose((a) < (b), a, b)
#define larger(a, b)  choose((a) > (b), a, b)
#define fewer(a, b)   chooseu((vi)((a) < (b)), a, b)
#endif

/* a * b + c, fused or not, but always the same: of an expression the compiler may fuse one copy and not another. */
#if LANES == 16
#define multiply_add(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif LANES == 8
#define multiply_add(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#else
#define multiply_add(a, b, c) ((a) * (b) + (c))
#endif

INLINE vf choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}
INLINE vu chooseu(vi mask, vu a, vu b)
{
    return ((vu)mask & a) | (~(vu)mask & b);
}
INLINE vf magnitude(vf v)
{
    return (vf)((vu)v & 0x7fffffff);
}

/* ---- formats ---------------------------------------------------------------------------------------------------- */

/* To nearest even, in the upper half. Only for what was made of bf16 numbers: a NaN's lower half is then zero and the
 * rounding can't turn it into infinity. */
INLINE vu to_bf16(vf f)
{
    vu u = (vu)f;
    return u + 0x7fff + (u >> 16 & 1);
}
INLINE vf from_f16(vh h)
{
#if defined(__F16C__) && LANES == 8
    return (vf)_mm256_cvtph_ps((__m128i)h);
#elif defined(__AVX512F__) && LANES == 16
    return (vf)_mm512_cvtph_ps((__m256i)h);
#else
    /* Exponent and fraction moved into place and rescaled by 2^112, which is exact and normalises denormals; infinity
     * and NaN get their exponent back by hand. */
    vu wide = __builtin_convertvector(h, vu), m = wide & 0x7fff;
    vu v = (vu)((vf)(m << 13) * 0x1p112f) | ((vu)(m > 0x7bff) & 0x7f800000);
    return (vf)(v | (wide & 0x8000) << 16);
#endif
}
INLINE vh to_f16(vf f)
{
#if defined(__F16C__) && LANES == 8
    return (vh)_mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX512F__) && LANES == 16
    return (vh)_mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT);
#else
    vu u = (vu)f, sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    vu denormal = (vu)((vf)a + 0.5f) - 0x3f000000; /* the addition rounds to a multiple of 2^-24 */
    vu normal = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
    vu r = chooseu((vi)(a < SPLATU(0x38800000)), denormal, normal);
    r = chooseu((vi)(a >= SPLATU(0x477ff000)), SPLATU(0x7c00), r); /* 65520 and more round to infinity */
    r = chooseu((vi)(a > SPLATU(0x7f800000)), SPLATU(0x7e00), r);
    return __builtin_convertvector(r | sign, vh);
#endif
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

/* 2^v: whole and fractional part; the fraction by a minimax polynomial, good to 2^-22. */
INLINE vf exp2_of(vf v)
{
#if LANES == 16
    vf f = (vf)_mm512_reduce_ps((__m512)v, _MM_FROUND_TO_NEAREST_INT), whole = v - f; /* infinity's fraction is 0 */
#else
    v = larger(SPLAT(-151.0f), smaller(SPLAT(128.5f), v));
    vf shifted = v + 0x1.8p23f, whole = shifted - 0x1.8p23f, f = v - whole;
#endif
    vf f2 = f * f;
    /* Not Horner's scheme: what bounds an activation is the latency of its chain. */
    vf p = (f * 6.9314718e-1f + 1.0f) +
           f2 * ((f * 5.5503812e-2f + 2.4022350e-1f) + f2 * (f * 1.3381302e-3f + 9.6663684e-3f));
#if LANES == 16
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)whole);
#else
    vi n = (vi)shifted - 0x4b400000, half = n >> 1, rest = n - half; /* two factors: 2^n may be beyond a float */
    return p * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
#endif
}

#endif
