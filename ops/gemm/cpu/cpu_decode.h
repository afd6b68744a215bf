/* SPDX-License-Identifier: MIT
 *
 * Numbers of 16, 8 and 4 bits as fp32, for the inner kernels. Compiled once for each instruction set, like cpu_micro.h;
 * the includer defines LANES. A result is the code's value, exactly, multiplied once in fp32, so that all instruction
 * sets give the same bits. */
#include <string.h>

#include "cpu_kernels.h"
#include "ops/cpu/vectors.h"
#include "ops/format.h"

#define PAIR (2 * LANES) /* codes that are decoded at once */

/* Numbers of 16 bits, PAIR codes and LANES integers of 8 bits, wider. (gcc 12 would convert a vector of bytes one by
 * one.) */
#if LANES == 16
INLINE vu widen_16(const char *p)
{
    return (vu)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(const void *)p));
}
INLINE vh2 widen_codes(const uint8_t *p)
{
    return (vh2)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i_u *)(const void *)p));
}
INLINE vf widen_i8(const uint8_t *p)
{
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)p)));
}
#elif LANES == 8
INLINE vu widen_16(const char *p)
{
    return (vu)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)p));
}
INLINE vh2 widen_codes(const uint8_t *p)
{
    return (vh2)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i_u *)(const void *)p));
}
INLINE vf widen_i8(const uint8_t *p)
{
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)p)));
}
#else
INLINE vu widen_16(const char *p)
{
    vh h;
    memcpy(&h, p, sizeof(h));
    return __builtin_convertvector(h, vu);
}
INLINE vh2 widen_codes(const uint8_t *p)
{
    vb2 c;
    memcpy(&c, p, sizeof(c));
    return __builtin_convertvector(c, vh2);
}
INLINE vf widen_i8(const uint8_t *p)
{
    vf f;
    for (int i = 0; i < LANES; i++)
        f[i] = (float)(int8_t)p[i];
    return f;
}
#endif

static void widen(float *to, const char *from, int64_t n, int dtype)
{
    int64_t at = 0;
    for (; at + LANES <= n; at += LANES) {
        vh h;
        memcpy(&h, from + 2 * at, sizeof(h));
        vf f = dtype == RFG_F16 ? from_f16(h) : (vf)(widen_16(from + 2 * at) << 16);
        memcpy(to + at, &f, sizeof(f));
    }
    for (; at < n; at++)
        to[at] = rfg_float_get(from, dtype, at);
}

/* The codes as fp16, with the exponent's bits where fp16 has them: values are too small by 2^(15 - bias). */
INLINE vh2 code_as_f16(vh2 c, const int dtype)
{
    if (dtype == RFG_E5M2)
        return c << 8;
    vh2 nan = dtype == RFG_E4M3 ? (vh2)((c & 0x7f) == 0x7f) : (vh2)(c == 0x80);
    return (c & 0x7f) << 7 | (c & 0x80) << 8 | (nan & 0x7e00);
}

INLINE void decode_as(float *to, const uint8_t *codes, int64_t n, float scale, const float *values, const int dtype)
{
    const float bias = dtype == RFG_E4M3 ? 0x1p8f : dtype == RFG_E4M3FNUZ ? 0x1p7f : 1.0f;
    int64_t at = 0;
    for (; at + PAIR <= n; at += PAIR) {
        vf f[2];
        if (dtype == RFG_I8) {
            for (int i = 0; i < 2; i++)
                f[i] = widen_i8(codes + at + i * LANES);
        } else {
            vh2 wide = code_as_f16(widen_codes(codes + at), dtype);
            vh half[2];
            memcpy(half, &wide, sizeof(half));
            for (int i = 0; i < 2; i++)
                f[i] = from_f16(half[i]) * bias;
        }
        for (int i = 0; i < 2; i++)
            f[i] *= scale;
        memcpy(to + at, f, sizeof(f));
    }
    for (; at < n; at++)
        to[at] = values[codes[at]] * scale;
}

static void decode_8(float *to, const uint8_t *codes, int64_t n, float scale, const float *values, int dtype)
{
    switch (dtype) {
    case RFG_E4M3:
        decode_as(to, codes, n, scale, values, RFG_E4M3);
        break;
    case RFG_E4M3FNUZ:
        decode_as(to, codes, n, scale, values, RFG_E4M3FNUZ);
        break;
    case RFG_E5M2:
        decode_as(to, codes, n, scale, values, RFG_E5M2);
        break;
    default:
        decode_as(to, codes, n, scale, values, RFG_I8);
    }
}

/* Each lane shifts its code to the lowest bits; what the codes stand for is two registers. */
static void decode_4(float *to, const char *words, int64_t n, int64_t step, const struct cpu_codes_4 *c)
{
#if LANES > 4
    __m256i shift = _mm256_loadu_si256((const __m256i_u *)(const void *)c->shift);
    __m256 low = _mm256_loadu_ps(c->values), high = _mm256_loadu_ps(c->values + 8);
#endif
    for (int64_t i = 0, g = 0; i < n; g++) {
        int64_t end = n - i < c->words ? n : i + c->words;
#if LANES > 4
        __m256 zero = _mm256_set1_ps(c->zero[g]), scale = _mm256_set1_ps(c->scale[g]);
        __m256 a = _mm256_mul_ps(_mm256_sub_ps(low, zero), scale), b = _mm256_mul_ps(_mm256_sub_ps(high, zero), scale);
#else
        float of[16];
        for (int v = 0; v < 16; v++)
            of[v] = (c->values[v] - c->zero[g]) * c->scale[g];
#endif
        for (; i < end; i++, to += step) {
            int word;
            memcpy(&word, words + 4 * i, sizeof(word));
#if LANES > 4
            __m256i code = _mm256_srlv_epi32(_mm256_set1_epi32(word), shift);
#if LANES == 16
            _mm256_storeu_ps(to, _mm256_permutex2var_ps(a, code, b));
#else
            __m256 of_b = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)); /* its sign: bit 3 */
            _mm256_storeu_ps(
                to, _mm256_blendv_ps(_mm256_permutevar8x32_ps(a, code), _mm256_permutevar8x32_ps(b, code), of_b));
#endif
#else
            for (int e = 0; e < 8; e++)
                to[e] = of[(uint32_t)word >> c->shift[e] & 15];
#endif
        }
    }
}
