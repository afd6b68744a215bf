/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_GATE_H
#define RFG_OPS_GATE_H

#include "route.h"
#include "gate_args.h"

/* Indices of the keys. */
enum {
    GATE_T,
    GATE_E,
    GATE_K,
    GATE_TOP,
    GATE_NORM, /* enum gate_norm */
    GATE_W_BIAS,
    GATE_SCORE, /* enum rfg_moe_scoring */
    GATE_BIAS,
    GATE_BTYPE, /* 0: x's */
    GATE_GROUPS,
    GATE_TOP_GROUPS,
    GATE_RENORM,
    GATE_SHARED,
    GATE_TOKENS,
    GATE_OVERLAP,
    GATE_NKEYS
};

enum gate_norm { GATE_NORM_NONE, GATE_NORM_W, GATE_NORM_1W };

/* dtype[0] = x, w, norm and y, dtype[1] = weights. */

extern const struct rfg_op rfg_op_moe_gate_desc;

/* Its choice alone, of logits of f32. */
struct rfg_problem gate_route(const struct rfg_problem *prob);
/* All of them but pointers, and what no problem says. */
struct gate_args gate_args_of(const struct rfg_problem *prob);

/* Of the logits, of every variant. */
size_t gate_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p);

/* gate_gpu.c, gate_cpu.c */
extern const struct rfg_variant moe_gate_arrive, moe_gate_cpu;

#endif
