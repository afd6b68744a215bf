/* SPDX-License-Identifier: MIT
 *
 * The inner kernels in plain C with the compilers' vector types: four lanes, which any machine has or gets emulated. */
#include <stdint.h>
#include <string.h>

#define ISA_TABLE  rfg_cpu_isa_portable
#define ROWS_TABLE rfg_cpu_rows_portable
#define LANES      4
#define MAX_REGS   8

typedef float vec __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint16_t u16x4 __attribute__((vector_size(8)));

#define vec_zero()       ((vec){ 0, 0, 0, 0 })
#define vec_fma(a, b, c) ((a) * (b) + (c))
#define vec_sum(v)       (((v)[0] + (v)[2]) + ((v)[1] + (v)[3]))
#define vec_load(p)      (*(const vec_unaligned *)(const void *)(p))
#define vec_store(p, v)  (*(vec_unaligned *)(void *)(p) = (v))

typedef vec vec_unaligned __attribute__((aligned(4), may_alias));

static inline vec load_f32(const char *p, int half)
{
    vec v;
    memcpy(&v, p + 16 * half, sizeof(v));
    return v;
}

static inline u32x4 load_u16(const char *p, int half)
{
    u16x4 v;
    memcpy(&v, p + 8 * half, sizeof(v));
    return __builtin_convertvector(v, u32x4);
}

static inline vec load_bf16(const char *p, int half)
{
    return (vec)(load_u16(p, half) << 16);
}

/* Exponent and fraction moved into place and rescaled by 2^112, which is exact and normalises denormals; infinity and
 * NaN get their exponent back by hand. */
static inline vec load_f16(const char *p, int half)
{
    u32x4 h = load_u16(p, half), magnitude = h & 0x7fff;
    vec v = (vec)(magnitude << 13) * 0x1p112f;
    u32x4 special = (u32x4)(magnitude > 0x7bff) & 0x7f800000;
    return (vec)((u32x4)v | special | (h & 0x8000) << 16);
}

#include "cpu_micro.h"
