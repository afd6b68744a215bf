/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests of the harness: harness_case.c. */
#ifndef RFG_TESTS_HARNESS_CASE_H
#define RFG_TESTS_HARNESS_CASE_H

#include "ops/cpu/pool.h"
#include "tuner/harness/harness.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

void begin_with(const char *text, struct rfg_case_params params);
void begin(const char *text, enum rfg_data data);
void end(void);
struct rfg_check checked(void);
extern rfg_context *ctx;
extern struct rfg_case *c;

#endif
