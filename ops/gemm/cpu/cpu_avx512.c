/* SPDX-License-Identifier: MIT
 *
 * The inner kernels for AVX-512 F, BW, VL, DQ; the CPU_BF16_DOT ones need AVX512_BF16 besides. Compiled with those
 * options: nothing but the table may be used before cpuid was asked. */
#include <immintrin.h>
#include <stdint.h>

#define ISA_TABLE  rfg_cpu_isa_avx512
#define ROWS_TABLE rfg_cpu_rows_avx512
#define LANES      16
#define MAX_REGS   24
#define HAVE_DOT   1

typedef __m512 vec;
#define vec_zero()        _mm512_setzero_ps()
#define vec_fma(a, b, c)  _mm512_fmadd_ps(a, b, c)
#define vec_sum(v)        _mm512_reduce_add_ps(v)
#define vec_load(p)       _mm512_loadu_ps(p)
#define vec_store(p, v)   _mm512_storeu_ps(p, v)
#define load_f32(p, half) _mm512_loadu_ps((const float *)(const void *)(p) + 16 * (half))
#define load_f16(p, half)                                                                                              \
    _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)((const char *)(p) + 32 * (half))))

/* Even elements are half 0, odd ones half 1: a shift or a mask makes fp32 of them, exactly. */
static inline __m512 load_bf16(const char *p, int half)
{
    __m512i v = _mm512_loadu_si512(p);
    return _mm512_castsi512_ps(half ? _mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000))
                                    : _mm512_slli_epi32(v, 16));
}

/* The smallest nonzero magnitude: the sign is shifted out, and the decrement makes zero the largest. */
typedef __m512i dot_vec;
#define dot_all_ones()     _mm512_set1_epi16(-1)
#define dot_load(p)        _mm512_loadu_si512(p)
#define dot_smallest(m, v) _mm512_min_epu16(m, _mm512_add_epi16(_mm512_add_epi16(v, v), _mm512_set1_epi16(-1)))
#define dot_add(acc, a, b) _mm512_dpbf16_ps(acc, (__m512bh)(a), (__m512bh)(b))

static inline uint16_t dot_reduce(__m512i m)
{
    __m256i h = _mm256_min_epu16(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
    __m128i q = _mm_min_epu16(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    return (uint16_t)_mm_cvtsi128_si32(_mm_minpos_epu16(q));
}

#include "cpu_micro.h"
