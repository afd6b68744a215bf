/* SPDX-License-Identifier: MIT
 *
 * Between the cpu variants (cpu.c: blocking, threads, rounding) and their inner kernels, which are one text
 * (cpu_micro.h; of int8 sums cpu_i8.h) compiled for three instruction sets. */
#ifndef RFG_OPS_GEMM_CPU_KERNELS_H
#define RFG_OPS_GEMM_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define CPU_MAX_ROWS 8 /* rows of W in one register block: 1, 2, 4 or 8 */
#define CPU_MAX_COLS 8 /* rows of X in one register block: 1..8 */

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* What the inner kernel reads and how it multiplies. */
enum cpu_kind {
    CPU_F32,
    CPU_F16,
    CPU_BF16,
    CPU_BF16_DOT,   /* pairs by vdpbf16ps, which flushes denormals: only where none can occur, see cpu.c */
    CPU_BF16_EXACT, /* X packed as for CPU_BF16_DOT, multiplied as for CPU_BF16 */
    CPU_I8_DOT, /* int8 by int8, sums of int32: those of (w + 128) x, from which cpu_run.c has taken 128 times x's */
    CPU_KINDS
};

/* What a kernel prefetches at each step: the groups of as many rows as it has, or of a half or a quarter of them (where
 * W is read several times, so that the memory is asked evenly). */
enum cpu_pace {
    CPU_PACE_NONE,
    CPU_PACE_FULL,
    CPU_PACE_HALF,
    CPU_PACE_QUARTER,
};

/* acc[r][c] += w[r][k] * x[c][k] over a range of k, for one register block. An accumulator is a vector (of
 * cpu_isa.lanes floats): lane i sums the elements k = i modulo its length, in their order, whatever the shape of the
 * register block and wherever the ranges of k end. Of CPU_I8_DOT a lane is an int32, modulo 2^32. */
struct cpu_block {
    const char *w;   /* row 0 of W at the first k of the range */
    size_t w_stride; /* bytes between rows */
    const char *x;   /* packed: for each group of k, each row's group */
    int64_t k;       /* of the range: a multiple of the group size unless it is the last one */
    enum cpu_pace pace;
    const char *ahead;   /* what to prefetch first; moved on */
    size_t ahead_stride; /* bytes between the groups of one step */
    size_t ahead_step;   /* bytes from one step to the next */
    float *acc;
    size_t acc_stride; /* floats between acc[r][c] and acc[r + 1][c] */
    uint16_t min_w;    /* CPU_BF16_DOT: lowered to (magnitude of the smallest nonzero bf16 of W, shifted left) - 1 */
};

/* Codes of 4 bits: they stand for (values[code] - zero) * scale. Eight are in a word, shifted by shift[]; `words` of
 * them share a scale and a zero point. */
struct cpu_codes_4 {
    float values[16];
    int32_t shift[8];
    int64_t words;
    const float *scale, *zero;
};

struct cpu_isa {
    int group;    /* elements of k that one step takes: two vectors of fp32, one of int8 */
    int lanes;    /* of an accumulator */
    int max_regs; /* rows * cols of a register block is at most this */
    /* By kind, log2(rows), cols - 1; NULL where there is none. */
    void (*kernel[CPU_KINDS][4][CPU_MAX_COLS])(struct cpu_block *b);
    /* Packs `cols` rows of X (x_stride bytes apart) for one panel, the last group filled up with zeros. Returns the
     * smallest nonzero magnitude as in cpu_block.min_w for CPU_BF16_DOT, else 0. */
    uint16_t (*pack[CPU_KINDS])(char *to, const char *x, size_t x_stride, int cols, int64_t k);
    /* The sum of the lanes of each of n accumulators; of int32 rounded to fp32. */
    void (*sum)(float *sums, const float *acc, int64_t n);
    /* To fp32: n numbers of bf16 or fp16; n codes of 8 bits, whose values are given, times a scale; n words of eight
     * codes of 4 bits, the results of each `step` floats further. */
    void (*widen)(float *to, const char *from, int64_t n, int dtype);
    void (*decode_8)(float *to, const uint8_t *codes, int64_t n, float scale, const float *values, int dtype);
    void (*decode_4)(float *to, const char *words, int64_t n, int64_t step, const struct cpu_codes_4 *codes);
    const struct rfg_cpu_rows *rows; /* its activations */
};

extern const struct cpu_isa rfg_cpu_isa_portable;
extern const struct cpu_isa rfg_cpu_isa_avx2, rfg_cpu_isa_avx512; /* x86-64 only */
extern const struct cpu_isa rfg_cpu_isa_avx512vnni;               /* x86-64 only; CPU_I8_DOT alone: no decoding */

#endif
