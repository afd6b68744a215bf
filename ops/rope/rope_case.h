/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of rope, kv_append and rope_append share. */
#ifndef RFG_OPS_ROPE_CASE_H
#define RFG_OPS_ROPE_CASE_H

#include "rope.h"

/* Of the harness' tensors. Fused and in place q_out is all of the buffer, packed k_cache holds both caches. */
enum {
    ROPE_T_Q_OUT,
    ROPE_T_K_OUT,
    ROPE_T_K_CACHE,
    ROPE_T_V_CACHE,
    ROPE_T_Q,
    ROPE_T_K,
    ROPE_T_V,
    ROPE_T_TABLE,
    ROPE_T_POSITIONS,
    ROPE_T_SLOTS,
    ROPE_T_Q_NORM,
    ROPE_T_K_NORM,
    ROPE_T_K_SCALE,
    ROPE_T_V_SCALE,
    ROPE_T_COUNT
};

#define ROPE_CASE_EPS 1e-6f

/* A call with the harness' tensors. */
struct rope_views {
    rfg_tensor t[ROPE_T_COUNT];
    rfg_rope_params rope;
    struct rope_call call;
};
void rope_views(const struct rfg_problem *prob, const rfg_tensor *t, struct rope_views *views);

/* What element (row, column) of one of the harness' outputs is. part: 0 q, 1 k, 2 v, -1: it is nobody's. at: the token,
 * or of caches the slot. */
struct rope_element {
    int part;
    int64_t at, head, d;
};
struct rope_element rope_element_of(const struct rfg_problem *prob, int tensor, int64_t row, int64_t col);

#endif
