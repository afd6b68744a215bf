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
    ROUTE_TABLE,     /* rows of the table; 0: there is none */
    ROUTE_TOKEN_IDS, /* their dtype; 0: there are none */
    ROUTE_LDX,       /* row strides in elements; 0: packed */
    ROUTE_LDI,
    ROUTE_LDW,
    ROUTE_LDT,
    ROUTE_OVERLAP,
    ROUTE_NKEYS
};

/* dtype[0] = x, dtype[1] = weights. */

_Static_assert(ROUTE_MAX_E == RFG_MOE_MAX_EXPERTS, "experts that the header promises");

extern const struct rfg_op rfg_op_moe_route_desc;

/* All of them but pointers and strides. */
struct route_args route_args_of(const struct rfg_problem *prob);
static inline int route_bias_dtype(const struct rfg_problem *prob)
{
    return prob->v[ROUTE_BTYPE] ? (int)prob->v[ROUTE_BTYPE] : prob->dtype[0];
}

/* route_call.c: what a call says of the choice. fn: for errors. */
rfg_status route_check_params(const char *fn, const rfg_moe_route_params *p);
/* ids' columns: those that are chosen, and the shared experts'. */
rfg_status route_check_slots(const char *fn, int64_t slots, int64_t shared);
extern const char *const route_score_names[], *const route_btype_names[]; /* of keys */

/* route_gpu.c, route_cpu.c */
/* Experts of one of so many threads: groups share them out. */
int route_experts_each(const struct rfg_problem *prob, int threads);
/* Those of a kernel that chooses, but CHUNKS. */
void route_macros(const struct rfg_problem *prob, struct rfg_kernel *k);
extern const struct rfg_variant moe_route_wave, moe_route_group, moe_route_table, moe_route_cpu;

#endif
