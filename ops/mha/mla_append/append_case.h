/* SPDX-License-Identifier: MIT
 *
 * Shared by the case and the oracle of mla_append. */
#ifndef RFG_MLA_APPEND_CASE_H
#define RFG_MLA_APPEND_CASE_H

#include "append.h"
#include "ops/op_case.h"

#define APPEND_CASE_EPS 0x1p-17f

/* The tensors' places in the lists of call() and pack(). */
enum {
    APPEND_T_LATENT,
    APPEND_T_K_ROPE,
    APPEND_T_Q,
    APPEND_T_SLOTS,
    APPEND_T_POSITIONS,
    APPEND_T_TABLE,
    APPEND_T_NORM,
    APPEND_T_SCALE,
    APPEND_T_KV,
    APPEND_T_Q_OUT,
    APPEND_T_COUNT
};

/* The call that a problem with the harness' tensors stands for. */
struct append_views {
    rfg_tensor t[APPEND_T_COUNT];
    struct append_call call;
};
void append_views(const struct rfg_problem *prob, const rfg_tensor *t, struct append_views *views);

/* Rows of kv's harness tensor are slots, or blocks (V4). */
bool append_accept(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                   int64_t row, struct rfg_reason *why);

#endif
