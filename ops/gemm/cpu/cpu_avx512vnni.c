/* SPDX-License-Identifier: MIT
 *
 * The inner kernel of int8 for AVX-512 F, BW, VL, DQ and VNNI. Compiled with those options: nothing but the table may
 * be used before cpuid was asked. */
#include <immintrin.h>
#include <stdint.h>

#define ISA_TABLE  rfg_cpu_isa_avx512vnni
#define ROWS_TABLE rfg_cpu_rows_avx512
#define LANES      16
#define MAX_REGS   24

typedef __m512i vec;
#define vec_load(p)      _mm512_loadu_si512(p)
#define vec_store(p, v)  _mm512_storeu_si512(p, v)
#define flip(v)          _mm512_xor_si512(v, _mm512_set1_epi8(-128))
#define dot_4(acc, u, s) _mm512_dpbusd_epi32(acc, u, s)

#include "cpu_i8.h"
