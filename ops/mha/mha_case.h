/* SPDX-License-Identifier: MIT
 *
 * Shared by the case and the oracle of attention. */
#ifndef RFG_MHA_CASE_H
#define RFG_MHA_CASE_H

#include "ops/op_case.h"
#include "mha_call.h"

/* The tensors' places in the lists of call() and pack(). */
enum {
    MHA_T_OUT,
    MHA_T_LSE,
    MHA_T_Q,
    MHA_T_K,
    MHA_T_V,
    MHA_T_SINKS,
    MHA_T_ALIBI,
    MHA_T_K_SCALE,
    MHA_T_V_SCALE,
    MHA_T_CU_Q,
    MHA_T_CU_K,
    MHA_T_TABLE,
    MHA_T_LENS,
    MHA_T_COUNT
};

/* The call that a problem with the harness' tensors stands for: there the tensors are rows of memory, here they are
 * the views that the problem's form makes of them. */
struct mha_views {
    rfg_tensor t[MHA_T_COUNT];
    struct mha_call call;
};
void mha_views(const struct rfg_problem *prob, const rfg_tensor *t, struct mha_views *views);

/* What the oracle says of a call: expected[MHA_T_OUT] and, with values, expected[MHA_T_LSE]. */
rfg_status mha_expect(const struct rfg_problem *prob, const struct mha_call *call, struct rfg_expected *expected);

#endif
