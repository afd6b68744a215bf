/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of moe_gate share: its tensors, in this order. Factors are those of route_case.h. */
#ifndef RFG_OPS_GATE_CASE_H
#define RFG_OPS_GATE_CASE_H

#include "gate.h"
#include "ops/oracle.h"

enum {
    CASE_IDS,
    CASE_WEIGHTS,
    CASE_NORMED,
    CASE_ROWS,
    CASE_OFFSETS,
    CASE_SORTED,
    CASE_PLACES,
    CASE_X,
    CASE_W,
    CASE_NORM,
    CASE_W_BIAS,
    CASE_BIAS,
    CASE_LIMIT,
    CASE_TENSORS
};

#define GATE_EPS 1e-6f

/* gate_oracle.c */
bool gate_accept(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor, int64_t row,
                 struct rfg_reason *why);

#endif
