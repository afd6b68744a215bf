/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_ACT_H
#define RFG_OPS_ACT_H

#include "ops/quant.h"
#include "act_args.h"
#include "rfg/act.h"

/* Indices of the keys, of both operators. */
enum {
    ACT_M,
    ACT_N,
    ACT_ACT,
    ACT_LIMIT, /* rfg_gate_limit_key() */
    ACT_GATES, /* rfg_gates */
    ACT_SCALE,
    ACT_ROUNDING, /* of mx scales */
    ACT_PLAIN,    /* the plain output beside the quantised one */
    ACT_LDX,      /* row strides in elements; 0: packed */
    ACT_LDY,
    ACT_SCALE_COLUMNS, /* group scales are column-major */
    ACT_INPLACE,       /* act only: y is x */
    ACT_ALIGN,         /* as gemm's, of x */
    ACT_ALIGN_Y,       /* of y and q */
    ACT_OVERLAP,
    ACT_NKEYS
};

/* dtype[0] = x (and y), dtype[1] = y or q. */

static inline bool act_multiplies(const struct rfg_problem *prob)
{
    return prob->op->name[3] != 0; /* "act_and_mul", not "act" */
}
/* Columns of x. */
static inline int64_t act_x_cols(const struct rfg_problem *prob)
{
    return prob->v[ACT_N] * (act_multiplies(prob) ? 2 : 1);
}
static inline bool act_is_plain(const struct rfg_problem *prob)
{
    return !prob->v[ACT_SCALE] || prob->v[ACT_PLAIN];
}

/* Fills in what follows from the sizes. */
void act_set_chunks(struct act_args *a, const struct rfg_problem *prob);

extern const struct rfg_op rfg_op_act_and_mul_desc, rfg_op_act_desc;

/* gpu.c, cpu.c; one for each operator, which differ by name only. */
extern const struct rfg_variant act_and_mul_flat, act_and_mul_rows, act_and_mul_portable;
extern const struct rfg_variant act_and_mul_cpu_avx512, act_and_mul_cpu_avx2, act_and_mul_cpu_portable;
extern const struct rfg_variant act_flat, act_rows, act_portable;
extern const struct rfg_variant act_cpu_avx512, act_cpu_avx2, act_cpu_portable;

#endif
