/* SPDX-License-Identifier: MIT
 *
 * A table's cases (op_cases.h), and those that $RFG_TEST_FEW leaves. */
#ifndef RFG_TESTS_OP_FEW_H
#define RFG_TESTS_OP_FEW_H

#include "base/tempdir.h"
#include "dispatch/context.h"
#include "tuner/harness/harness.h"

struct op_case {
    const char *problem;
    enum rfg_data data;
    bool unaligned;
    const char *config; /* "gemm_skinny{m_tile=4,...}" in place of the sample, on devices that have the variant */
};

/* Parameter sets that a case is run by. */
struct config {
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
};

struct configs {
    struct config *list;
    int n, size;
    const struct rfg_variant *var;
    int every, at; /* of those offered, take one in `every`, beginning with the at-th */
};

/* Keeps, in order, the first case and those that are the first of the process to run enough (words of a problem, values
 * of a kernel's macros, kinds of data and of sizes; op_few.c says how much), each with the set by which most is new, or
 * with two of much. Sets whose workgroups have several waves come first: one wave needs no barrier. Returns how many. */
int op_keep_few(const struct rfg_device *dev, struct op_case *cases, struct rfg_problem *probs, struct configs *configs,
                int n);

/* A database, in a directory that it makes, in which the first set of each case is its problem's winner: the public
 * function runs it then, and nothing else need be compiled. Returns its path. */
char *op_few_rows(struct rfg_tempdir *dir, rfg_context *ctx, const struct rfg_problem *probs,
                  const struct configs *configs, int n);

bool op_is_config(const struct rfg_choice *choice, const struct config *c);

#endif
