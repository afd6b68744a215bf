/* SPDX-License-Identifier: MIT
 *
 * What every operator's test is made of: a table of cases, run on each device that the machine or the caller names,
 * through the public function and by every variant, on the harness that the tuner and rfg-bench use too. */
#ifndef RFG_TESTS_OP_CASES_H
#define RFG_TESTS_OP_CASES_H

#include <check.h>

#include "../tuner/harness.h"

struct op_case {
    const char *problem;
    enum rfg_data data;
    bool unaligned;
};

/* The devices to test: "cpu" and those of $RFG_TEST_DEVICES (comma-separated: "nvidia:0,emu:gfx942:8"). */
const char *op_device(int i);

/* main() of an operator's test: runs those of the first list with _i for each device, those of the second once. */
int op_main(const char *name, const TTest *const *each, const TTest *const *once);
#define OP_TESTS(...) ((const TTest *const[]){ __VA_ARGS__, NULL })

/* Runs the cases on a device and fails the Check test at the first wrong one, naming problem, data, seed and variant.
 * For each: the public function twice, bit for bit the same; then a sample of each variant's parameter sets
 * ($RFG_TEST_CONFIGS of each, default 6; 0: all), those with integer data bit for bit as the public function's. Outputs
 * are poisoned before each run, guards are checked after it. $RFG_TEST_SEED sets the data's seed; $RFG_TEST_PROBLEM
 * (with $RFG_TEST_DATA, $RFG_TEST_UNALIGNED=1) is run in place of the table. Appends one JSON line with the counts to
 * $RFG_VERIFIED_FILE. `group` names the table in it. */
void op_cases_run(const char *device, const char *group, const struct op_case *cases, int n);

/* A test that runs a table on the _i-th device. */
#define OP_CASES(name, table, group)                                                                                   \
    START_TEST(name)                                                                                                   \
    {                                                                                                                  \
        op_cases_run(op_device(_i), group, table, (int)(sizeof(table) / sizeof(table[0])));                            \
    }                                                                                                                  \
    END_TEST

/* A context without databases, with a code cache that the process shares; fails the test on an error. */
rfg_context *op_context(const char *device);

/* 20260101 or $RFG_TEST_SEED */
uint64_t op_seed(void);

#endif
