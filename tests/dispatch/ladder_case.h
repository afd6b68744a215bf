/* SPDX-License-Identifier: MIT
 *
 * Helpers of the test of the ladder: ladder_case.c. */
#ifndef RFG_TESTS_LADDER_CASE_H
#define RFG_TESTS_LADDER_CASE_H

#include "dispatch/context_impl.h"
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"

struct pick {
    struct rfg_device dev;
    struct rfg_problem prob;
    int p[RFG_MAX_PARAMS];
};

void setup(void);
void teardown(void);
rfg_context *open_ctx(const char *variants);
void put_row(const char *path, const char *text, int cu_offset, double us);
void damage_row(const char *sql);
struct rfg_choice choose(rfg_context *ctx, const char *text);
enum rfg_rung run(rfg_context *ctx, int m, int n, int k);
extern char dir[64], user_db[96], system_db[96];

#endif
