/* SPDX-License-Identifier: MIT
 *
 * Shared by the case and the oracle of mla_decode. */
#ifndef RFG_MLA_CASE_H
#define RFG_MLA_CASE_H

#include "mla.h"
#include "ops/op_case.h"

/* The tensors' places in the lists of call() and pack(). */
enum {
    MLA_T_OUT,
    MLA_T_LSE,
    MLA_T_Q,
    MLA_T_Q_ROPE,
    MLA_T_KV,
    MLA_T_SINKS,
    MLA_T_SCALE,
    MLA_T_TABLE,
    MLA_T_INDICES, /* in place of the table */
    MLA_T_INDPTR,
    MLA_T_LENS,
    MLA_T_POSITIONS,
    MLA_T_COUNT
};

/* The call that a problem with the harness' tensors stands for: there the tensors are rows of memory, here they are
 * the views that the problem's form makes of them. */
struct mla_views {
    rfg_tensor t[MLA_T_COUNT];
    struct mla_call call;
};
/* Context parallelism of tests: this rank and how many keys it has in turn. */
#define MLA_CASE_RANK(prob)       ((prob)->v[MLA_CP] > 1 ? (prob)->v[MLA_CP] / 2 : 0)
#define MLA_CASE_INTERLEAVE(prob) ((prob)->v[MLA_CP] > 2 ? 4 : 0)
void mla_views(const struct rfg_problem *prob, const rfg_tensor *t, struct mla_views *views);

/* V32's and V4's bytes of a harness tensor, and a row of them as bf16. */
void mla_fill_format(int format, int64_t page, const rfg_tensor *t, enum rfg_data data, uint64_t seed);
void mla_decode_row(int format, const char *row, const char *scales, uint16_t *to);

#endif
