/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_MERGE_H
#define RFG_OPS_MERGE_H

#include "merge_args.h"
#include "ops/op.h"
#include "rfg/merge_states.h"

/* Indices of the keys. */
enum {
    MERGE_T,
    MERGE_H,
    MERGE_D,
    MERGE_N,
    MERGE_LSE,     /* lse_out */
    MERGE_BASE2,   /* of lse and lse_out */
    MERGE_FORM,    /* enum merge_form */
    MERGE_ALIGN,   /* as gemm's, of o */
    MERGE_ALIGN_Y, /* of out */
    MERGE_OVERLAP,
    MERGE_NKEYS
};

/* How tests lay tensors out: o and lse by state, token, head; by token, state, head; by state, head, token, and so the
 * outputs; as attention has them, o and out with gaps between their rows, lse and lse_out by head, token. Calls say the
 * first. */
enum merge_form { MERGE_NTH, MERGE_TNH, MERGE_NHT, MERGE_MHA };

/* dtype[0] = o, dtype[1] = out. */

/* Fills in what follows from the problem. */
void merge_set_sizes(struct merge_args *a, const struct rfg_problem *prob);

extern const struct rfg_op rfg_op_merge_states_desc;

/* gpu.c, cpu.c */
extern const struct rfg_variant merge_states_rows, merge_states_portable, merge_states_cpu;

#endif
