/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_MOE_SUM_H
#define RFG_OPS_MOE_SUM_H

#include "ops/op.h"
#include "rfg/moe.h"
#include "sum_args.h"

/* Indices of the keys. */
enum {
    SUM_T,
    SUM_N,
    SUM_TOP,
    SUM_WEIGHTS,
    SUM_RESIDUAL,
    SUM_TOKENS,
    SUM_IDENTITY,
    SUM_INPLACE,
    SUM_R,   /* rows of x; 0: T top */
    SUM_LDX, /* row strides in elements; 0: packed */
    SUM_LDY,
    SUM_LDR,
    SUM_LDP,
    SUM_LDW,
    SUM_LDI,
    SUM_LDIW,
    SUM_ALIGN,   /* as gemm's, of x and identity */
    SUM_ALIGN_Y, /* of y and the residual */
    SUM_OVERLAP,
    SUM_NKEYS
};

/* dtype[0] = x, dtype[1] = y. */

int64_t sum_x_rows(const struct rfg_problem *prob);

/* Fills in what follows from the sizes. */
void sum_set_sizes(struct moe_sum_args *a, const struct rfg_problem *prob);

extern const struct rfg_op rfg_op_moe_sum_desc;

/* sum_gpu.c, sum_cpu.c */
extern const struct rfg_variant moe_sum_rows, moe_sum_portable, moe_sum_cpu;

#endif
