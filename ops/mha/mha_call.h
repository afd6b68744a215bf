/* SPDX-License-Identifier: MIT
 *
 * Shared by the operators' tables and public functions: a call with its arguments. */
#ifndef RFG_MHA_CALL_H
#define RFG_MHA_CALL_H

#include "mha.h"

#define MHA_MAX_CAP (1 << 24) /* of the key: whole numbers that a float is */

struct mha_call {
    const char *fn;
    const struct rfg_op *op;
    const rfg_tensor *out, *q, *k, *v;
    rfg_mha_params p;
};

/* Columns of the block table of a problem; 0 without pages. */
int64_t mha_table_columns(const struct rfg_problem *prob);

/* The most keys that a sequence of the call's tensors can have. */
int64_t mha_held(const struct mha_call *c);

/* The key S of a call with max_seqlen_k = most. An engine's may grow by one with every token: a power of two above it
 * serves many calls. (Of sequences one behind the other what the tensors hold says nothing.) */
int64_t mha_called_keys(int64_t most, int64_t held, bool varlen);

/* The kernel arguments of a call that was checked. */
void mha_fill_args(const struct mha_call *c, struct mha_args *a);

/* Queries (or keys) of sequence b in tests: what the problem's keys say, drawn from the problem alone, so that cost()
 * knows it. */
int64_t mha_test_length(const struct rfg_problem *prob, bool of_queries, int64_t b);

#endif
