/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_ROUTE_H
#define RFG_OPS_ROUTE_H

#include "ops/op.h"
#include "rfg/moe.h"
#include "route_args.h"

/* Indices of the keys. */
enum {
    ROUTE_T,
    ROUTE_E,
    ROUTE_TOP,
    ROUTE_SCORE, /* enum rfg_moe_scoring */
    ROUTE_BIAS,
    ROUTE_BTYPE, /* 0: x's */
    ROUTE_GROUPS,
    ROUTE_TOP_GROUPS,
    ROUTE_RENORM,
    ROUTE_SHARED,
    ROUTE_TOKENS,
    ROUTE_LDX, /* row strides in elements; 0: packed */
    ROUTE_LDI,
    ROUTE_LDW,
    ROUTE_OVERLAP,
    ROUTE_NKEYS
};

/* dtype[0] = x, dtype[1] = weights. */

extern const struct rfg_op rfg_op_moe_route_desc;

/* All of them but pointers and strides. */
struct route_args route_args_of(const struct rfg_problem *prob);
static inline int route_bias_dtype(const struct rfg_problem *prob)
{
    return prob->v[ROUTE_BTYPE] ? (int)prob->v[ROUTE_BTYPE] : prob->dtype[0];
}

/* route_gpu.c, route_cpu.c */
extern const struct rfg_variant moe_route_wave, moe_route_cpu;

#endif
