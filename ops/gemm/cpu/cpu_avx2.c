/* SPDX-License-Identifier: MIT
 *
 * The inner kernels for AVX2 + FMA + F16C. Compiled with those options: nothing but the table may be used before cpuid
 * was asked. */
#include <immintrin.h>

#define ISA_TABLE  rfg_cpu_isa_avx2
#define ROWS_TABLE rfg_cpu_rows_avx2
#define LANES      8
#define MAX_REGS   8

typedef __m256 vec;
#define vec_zero()        _mm256_setzero_ps()
#define vec_fma(a, b, c)  _mm256_fmadd_ps(a, b, c)
#define vec_load(p)       _mm256_loadu_ps(p)
#define vec_store(p, v)   _mm256_storeu_ps(p, v)
#define load_f32(p, half) _mm256_loadu_ps((const float *)(const void *)(p) + 8 * (half))
#define load_f16(p, half)                                                                                              \
    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)((const char *)(p) + 16 * (half))))

/* Even elements are half 0, odd ones half 1: a shift or a mask makes fp32 of them, exactly. */
static inline __m256 load_bf16(const char *p, int half)
{
    __m256i v = _mm256_loadu_si256((const __m256i_u *)(const void *)p);
    return _mm256_castsi256_ps(half ? _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000))
                                    : _mm256_slli_epi32(v, 16));
}

static inline float vec_sum(__m256 v)
{
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    q = _mm_add_ss(q, _mm_movehdup_ps(q));
    return _mm_cvtss_f32(q);
}

#include "cpu_micro.h"
