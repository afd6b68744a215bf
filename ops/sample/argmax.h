/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_ARGMAX_H
#define RFG_OPS_ARGMAX_H

#include "argmax_args.h"
#include "ops/op.h"
#include "rfg/sample.h"

/* Indices of the keys. */
enum {
    ARGMAX_M,
    ARGMAX_V,
    ARGMAX_LDX,   /* row stride in elements; 0: packed */
    ARGMAX_ALIGN, /* as gemm's, of x */
    ARGMAX_OVERLAP,
    ARGMAX_NKEYS
};

/* dtype[0] = x, dtype[1] = y. */

extern const struct rfg_op rfg_op_argmax_desc;

/* argmax_gpu.c, argmax_cpu.c */
extern const struct rfg_variant argmax_rows, argmax_cluster, argmax_portable, argmax_cpu;

#endif
