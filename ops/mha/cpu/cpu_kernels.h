/* SPDX-License-Identifier: MIT
 *
 * The kernels of the vectorised cpu variants of attention: a block of keys and values for a few rows (queries of heads
 * of a group) at a time. One text (cpu_micro.h) compiled for each instruction set.
 *
 * Q and O are fp32 here, in the order that the dtype of k and v is unpacked in: bf16's even elements of each 2 * lanes,
 * then the odd ones; the others' as they are. */
#ifndef RFG_MHA_CPU_KERNELS_H
#define RFG_MHA_CPU_KERNELS_H

#include <stdint.h>

#include "rfg/core.h"

#define MHA_CPU_BLOCK 64 /* keys */
#define MHA_CPU_ROWS  4  /* at most, of a call */

/* Rows of keys and values: at[i] + offset. */
struct mha_cpu_rows {
    const char *const *k, *const *v;
    int64_t k_offset, v_offset;
};

struct mha_cpu_block {
    int kv_dtype, d, dv;
    int rows;                  /* 1 to isa->rows, a power of two */
    int n;                     /* keys, 1 to MHA_CPU_BLOCK */
    struct mha_cpu_rows at;    /* theirs */
    int n_ahead;               /* keys to fetch to the cache meanwhile */
    struct mha_cpu_rows ahead; /* theirs */
    const float *q;            /* rows x d */
    float *o, *m, *l;          /* rows x dv; of each row: the largest score, the sum of weights */
    float scale, cap;          /* scores are powers of two: scale has log2(e); cap: 0 or in the same units */
    int from[MHA_CPU_ROWS], to[MHA_CPU_ROWS]; /* the keys from *from to *to - 1 are seen; any numbers */
    float slope[MHA_CPU_ROWS];                /* alibi, per key, in the same units */
    float place[MHA_CPU_ROWS];                /* the row's own, in keys from the block's first, with a slope */
};

struct mha_cpu_isa {
    int rows;  /* of a call of block() */
    int group; /* d and dv are multiples of it */
    void (*pack)(float *to, const uint16_t *row, int d, int q_dtype, int kv_dtype);
    void (*block)(const struct mha_cpu_block *b);
    /* o times factor, rounded. */
    void (*store)(uint16_t *row, const float *o, float factor, int dv, int q_dtype, int kv_dtype);
};
/* The exact factor that the kernels' k and v lack; their scales include it. */
static inline float mha_cpu_code_scale(int kv_dtype)
{
    return kv_dtype == RFG_E4M3 ? 256.0f : kv_dtype == RFG_E4M3FNUZ ? 128.0f : 1.0f;
}

extern const struct mha_cpu_isa mha_cpu_isa_avx2, mha_cpu_isa_avx512; /* x86-64 only */

#endif
