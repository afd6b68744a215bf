/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_QUANTIZE_H
#define RFG_OPS_QUANTIZE_H

#include "ops/operand.h"
#include "quantize_args.h"
#include "rfg/quant.h"
#include "rfg/quantize.h"

/* Indices of quantize's keys, */
enum {
    QUANTIZE_M,
    QUANTIZE_N,
    QUANTIZE_GROUP_ROWS, /* 0: the tensor's scale, which is read */
    QUANTIZE_GROUP_COLS,
    QUANTIZE_SMOOTH, /* the factors' dtype; 0: there are none */
    QUANTIZE_GLOBAL, /* 1: scales of nvfp4 are divided by one */
    QUANTIZE_ROUNDING,
    QUANTIZE_RECIPROCAL,
    QUANTIZE_MAX, /* 0: the dtype's largest, without clamping */
    QUANTIZE_FLOOR_AMAX,
    QUANTIZE_FLOOR_SCALE,
    QUANTIZE_ZERO_SCALE,
    QUANTIZE_SCALE_COLUMNS, /* 1: they are column-major */
    QUANTIZE_LDX,           /* row strides in elements; 0: packed */
    QUANTIZE_LDQ,
    QUANTIZE_ALIGN,   /* as gemm's, of x */
    QUANTIZE_ALIGN_Q, /* of q */
    QUANTIZE_OVERLAP,
    QUANTIZE_NKEYS
};
/* dtype[0] = x, dtype[1] = q, dtype[2] = scale. */

/* and of quantize_scale's. */
enum {
    QSCALE_M,
    QSCALE_N,
    QSCALE_CODES,
    QSCALE_ROUNDING,
    QSCALE_RECIPROCAL,
    QSCALE_MAX,
    QSCALE_FLOOR_AMAX,
    QSCALE_FLOOR_SCALE,
    QSCALE_ZERO_SCALE,
    QSCALE_LDX,
    QSCALE_ALIGN,
    QSCALE_OVERLAP,
    QSCALE_NKEYS
};
/* dtype[0] = x, dtype[1] = scale. */

#define NVFP4_MOST     2688               /* 6 x 448: what an nvfp4 code times its scale is at most */
#define QUANTIZE_MAX_N (RFG_MAX_SIZE / 2) /* of which 32 bits count the bytes */

/* What shares a scale. */
static inline rfg_scale_kind quantize_kind(const struct rfg_problem *prob)
{
    return !prob->v[QUANTIZE_GROUP_ROWS]   ? RFG_SCALE_STATIC
           : !prob->v[QUANTIZE_GROUP_COLS] ? RFG_SCALE_TOKEN
                                           : RFG_SCALE_GROUP;
}

/* What params and problems say of scales that are written. */
bool quantize_rule_valid(int64_t rounding, int64_t reciprocal, int scale, struct rfg_reason *why);

/* The rule that params say, for codes of a dtype and scales of one. */
struct quantize_rule quantize_rule_of(const rfg_quantize_params *p, int codes, int scale);
/* Fills in what follows from the problem. */
void quantize_scale_set_chunks(struct quantize_scale_args *a, const struct rfg_problem *prob);

extern const struct rfg_op rfg_op_quantize_desc, rfg_op_quantize_scale_desc;

/* quantize_gpu.c, quantize_scale_gpu.c, quantize_cpu.c */
extern const struct rfg_variant quantize_rows, quantize_portable, quantize_cpu;
extern const struct rfg_variant quantize_scale_rows, quantize_scale_portable, quantize_scale_cpu;

#endif
