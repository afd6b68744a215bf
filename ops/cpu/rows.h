/* SPDX-License-Identifier: MIT
 *
 * What the cpu variants of row-wise operators are made of: blocks of a row as fp32 in the L1 cache. One text
 * (rows_micro.h) compiled for three instruction sets. */
#ifndef RFG_OPS_CPU_ROWS_H
#define RFG_OPS_CPU_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "../op.h"

#define RFG_BLOCK 512 /* elements; whole groups of scales */

/* A block's floats: aligned, with room to round its length up to whole vectors. */
typedef float rfg_block[RFG_BLOCK] __attribute__((aligned(64)));

struct rfg_cpu_rows {
    /* n elements of dtype (f32, f16, bf16) as floats, zeroes up to the next whole vector. */
    void (*load)(float *out, const void *in, int dtype, int n);
    /* Back, to nearest even. stream: past the caches, where the instruction set has that. */
    void (*store)(void *out, const float *in, int dtype, int n, bool stream);
    /* Codes (e4m3 ... i8) of in[i] * inverse. */
    void (*codes)(uint8_t *out, const float *in, float inverse, int dtype, int n, bool stream);
    float (*largest)(const float *in, int n); /* magnitude; NaNs don't count */
    /* h = a + b, rounded to dtype. */
    void (*add)(float *h, const float *a, const float *b, int dtype, int n);
    float (*sum)(const float *in, int n);
    float (*sum_squares)(const float *in, float minus, int n); /* of in[i] - minus */
    /* y = (h - minus) * scale * (w + offset) + bias; w, bias may be NULL: 1 (offset is then not added), 0 */
    void (*normalise)(float *y, const float *h, float minus, float scale, const float *w, float offset,
                      const float *bias, int n);
    /* y = act(a) * b by enum rfg_act; b may be NULL: 1. */
    void (*act)(float *y, const float *a, const float *b, int act, float alpha, float limit, int n);
};

extern const struct rfg_cpu_rows rfg_cpu_rows_portable;
extern const struct rfg_cpu_rows rfg_cpu_rows_avx2, rfg_cpu_rows_avx512; /* x86-64 only */

/* One task's share of `rows` rows; see rfg_cpu_rows_split(). */
struct rfg_cpu_split {
    int64_t each;
    int tasks;
};
struct rfg_cpu_split rfg_cpu_rows_split(int64_t rows, double row_bytes, int threads);

/* Writes a block of results: plain, codes or both, with the group's scales if those are wanted. */
struct rfg_cpu_out {
    const struct rfg_cpu_rows *isa;
    char *y;      /* row of the plain output, or NULL */
    uint8_t *q;   /* row of codes, or NULL */
    float *scale; /* first scale of the row, if there are groups */
    int64_t scale_col;
    float inverse; /* unless there are groups */
    int in_dtype, out_dtype;
    bool groups, stream;
};
void rfg_cpu_write(const struct rfg_cpu_out *o, int64_t col, const float *f, int n);
/* rfg/quant.h's formula. */
float rfg_cpu_scale(float largest, int dtype);

/* Does the cpu have what the table is compiled for? */
bool rfg_cpu_supports(const struct rfg_device *dev, const struct rfg_cpu_rows *isa, struct rfg_reason *why);
/* Microseconds for the problem's bytes and `flops_factor` times its operations. */
double rfg_cpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const struct rfg_cpu_rows *isa,
                       bool stream);

#endif
