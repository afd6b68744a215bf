/* SPDX-License-Identifier: MIT
 *
 * The functions of the cpu variants of row-wise operators. They take whole rows from memory to memory, in as few passes
 * as the maths allows. One text (rows_micro.h) is compiled for three instruction sets. */
#ifndef RFG_OPS_CPU_ROWS_H
#define RFG_OPS_CPU_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/op.h"

#define RFG_CPU_CHUNK 64 /* elements; scratch rows are whole ones of these */

/* Where a row's results go. */
struct rfg_cpu_out {
    int64_t n;
    int dtype;      /* of inputs and plain output */
    char *y;        /* plain, or NULL */
    uint8_t *q;     /* codes, or NULL */
    int q_dtype;    /* theirs */
    int scale_kind; /* enum rfg_scale_kind, with codes */
    int rounding;   /* of mx scales: enum rfg_scale_rounding */
    void *scale;    /* the row's first; read if static, else written */
    int64_t scale_col;
    float *row;  /* scratch of rfg_cpu_row_bytes(): what a later pass reads, as fp32 */
    bool stream; /* past the caches, where the instruction set and the alignment allow it */
};

/* A norm's input: x, or x + residual rounded to their dtype, which goes to residual_out. row: scratch. */
struct rfg_cpu_input {
    const char *x, *residual; /* residual NULL: none */
    char *residual_out;
    float *row;
};

struct rfg_cpu_norm {
    struct rfg_cpu_out out;
    struct rfg_cpu_input in, next; /* next: the row of the next call, to be read ahead; x NULL: none */
    bool arrived;                  /* in was the last call's next */
    float *sums;                   /* RFG_CPU_CHUNK floats of scratch, kept from call to call */
    int residual_dtype;            /* of residual and residual_out: out.dtype or f32 */
    int weight_dtype;              /* so of weight and bias */
    const char *weight, *bias;     /* NULL: none */
    bool layer, one_plus;          /* the weight is 1 + w */
    float eps, inverse_n;
};

/* act(a) * b by enum rfg_act; with limits, by struct rfg_gate. */
struct rfg_cpu_act {
    struct rfg_cpu_out out;
    const char *a, *b; /* b NULL: 1 */
    bool interleaved;  /* a0 b0 a1 b1 ... at a */
    int act;
    float alpha, limit, linear_beta; /* limit 0: as infinity */
};

/* One text compiled for an instruction set. */
struct rfg_cpu_rows {
    int lanes;         /* floats of a vector */
    unsigned feature;  /* RFG_FEATURE_... that the cpu must have; 0: none */
    const char *needs; /* the same in words */
    void (*norm)(const struct rfg_cpu_norm *r);
    void (*act)(const struct rfg_cpu_act *r);
};

extern const struct rfg_cpu_rows rfg_cpu_rows_portable;
extern const struct rfg_cpu_rows rfg_cpu_rows_avx2, rfg_cpu_rows_avx512; /* x86-64 only */

/* Scratch for a row of n, and for one a thread. */
size_t rfg_cpu_row_bytes(int64_t n);
enum { RFG_CPU_FIRST = 1, RFG_CPU_LAST = 2 };
/* Runs fn(ctx, row, place, scratch) for rows 0..rows-1 of about row_bytes of traffic each, neighbours on one thread:
 * the first and last ones of a run of them have that place. scratch: a row's for each of the device's
 * threads, or NULL. */
void rfg_cpu_rows_run(const struct rfg_device *dev, struct rfg_cpu_pool *pool, int64_t rows, double row_bytes,
                      void *scratch, size_t scratch_bytes, void (*fn)(void *ctx, int64_t row, int place, void *scratch),
                      void *ctx);
/* rfg/quant.h's formula. */
float rfg_cpu_scale(float largest, int dtype);
/* rfg/quantize.h's: the power of two that v, the largest magnitude, is rounded to as a scale for codes of a dtype; of
 * RFG_SCALE_UP v is that by the dtype's largest. An infinity stays one. */
float rfg_cpu_power_scale(float v, int rounding, int dtype);
/* Stores a scale as e8m0 and returns what it is then: of an infinity NaN. */
float rfg_cpu_store_e8m0(uint8_t *to, float scale);

/* Whether the cpu has the instructions that the table is compiled for. */
bool rfg_cpu_supports(const struct rfg_device *dev, const struct rfg_cpu_rows *isa, struct rfg_reason *why);
/* Microseconds. */
double rfg_cpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const struct rfg_cpu_rows *isa,
                       bool stream);
/* The same for a variant in plain C: supports() and predict() of its description. */
bool rfg_cpu_plain_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why);
double rfg_cpu_plain_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p);

#endif
