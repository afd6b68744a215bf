/* SPDX-License-Identifier: MIT
 *
 * A grouped product and the sum of a token's rows in one launch, for operators that are made of others. */
#ifndef RFG_OPS_GEMM_SUM_H
#define RFG_OPS_GEMM_SUM_H

#include <stdbool.h>

#include "rfg/gemm.h"

#define GEMM_MAX_SLOTS     32   /* k, of places */
#define GEMM_MAX_SLOT_ROWS 1024 /* T k: it is for few rows */

/* Up to so many pairs of token and expert rfg_op_moe()'s second product sums over slots, too, on AMD GPUs: a launch
 * more costs them more than it saves to have the sum on all CUs. (A guess; no such GPU was measured. NVIDIA's launches
 * overlap.) */
#define RFG_MOE_FEW_PAIRS 64

/* Up to so many pairs it looks at no order of theirs: each pair reads its expert's weights, found by its id, and a
 * token's rows are summed as they are made. Two launches less; pairs of one expert read its weights twice. */
#define RFG_MOE_PAIRS_BY_ID 16

/* As rfg_moe_sum_params' and rfg_op_moe_sum()'s of these names; places must be packed. */
struct rfg_gemm_sum {
    const rfg_tensor *places, *residual, *tokens; /* residual, tokens: or NULL */
    /* In place of places, and of params' offsets and rows: [T k], of row t k + j of the product its expert, one of
     * `experts`; others have none. top: k. summed: y is as above; else [T k,N], without the rows that have no expert, and
     * x [T,K]. */
    const rfg_tensor *ids;
    int64_t experts, top;
    bool summed;
};

/* sum NULL: rfg_op_gemm(). Else it, whose rows are of y's dtype and stay in the workspace, and rfg_op_moe_sum() of them
 * to y [T,N]: the same bits as these two (with ids rows aren't rounded before they are summed). params must have
 * offsets, or sum ids, and, if rows are summed, no activation. taken: NULL, or it is said whether the kernel that does
 * it in few instructions takes the problem; if not, nothing is launched. */
rfg_status rfg_gemm_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                        const rfg_gemm_params *params, const struct rfg_gemm_sum *sum, bool *taken, rfg_stream stream);
/* Says that alone. */
rfg_status rfg_gemm_sum_takes(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                              const rfg_gemm_params *params, const struct rfg_gemm_sum *sum, bool *taken);

#endif
