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

/* Those that say an option, a format or a kind of data for the first time, in order (malloc'ed). */
struct op_case *op_few_cases(const struct op_case *cases, int *n);

/* Keeps one set of each case, of another variant from case to case: the one that had fewest so far, and of its sets the
 * one that is compiled soonest; of those whose workgroups have several waves, if there are: one wave needs no barrier. */
void op_keep_few(const struct rfg_device *dev, const struct rfg_problem *probs, struct configs *configs, int n);

/* A database, in a directory that it makes, in which the first set of each case is its problem's winner: the public
 * function runs it then, and nothing else need be compiled. Returns its path. */
char *op_few_rows(struct rfg_tempdir *dir, rfg_context *ctx, const struct rfg_problem *probs,
                  const struct configs *configs, int n);

bool op_is_config(const struct rfg_choice *choice, const struct config *c);

#endif
