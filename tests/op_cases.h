/* SPDX-License-Identifier: MIT
 *
 * The basis of every operator's test: a table of cases, run on each device that the machine or the caller names,
 * through the public function and by every variant, on the harness that the tuner and rfg-bench use too. */
#ifndef RFG_TESTS_OP_CASES_H
#define RFG_TESTS_OP_CASES_H

#include "op_few.h"
#include "tests/suite.h"

/* The devices to test: those of $RFG_TEST_DEVICES ("cpu,nvidia:0,emu:gfx942:8"; default: cpu). */
const char *op_device(int i);

/* main() of an operator's test: runs those of the first list with _i for each device; those of the second once, where
 * cpu is the only device or $CK_RUN_CASE names them. */
int op_main(const char *name, const TTest *const *each, const TTest *const *once);
/* And those of a third list with _i for each device that isn't cpu. */
int op_main_gpus(const char *name, const TTest *const *each, const TTest *const *once, const TTest *const *gpus);
#define OP_TESTS(...) ((const TTest *const[]){ __VA_ARGS__, NULL })

/* Runs the cases on a device and fails the Check test at the first wrong one, naming problem, data, seed and variant.
 * For each: the public function twice, bit for bit the same; then a sample of each variant's parameter sets
 * ($RFG_TEST_CONFIGS of each, default 6; 0: all),
 * those with integer data bit for bit as the public function's. Outputs are poisoned before each run, guards are
 * checked after it; on cpu and the emulator ($RFG_TEST_FENCED: on all) each tensor and workspace is fenced. The
 * emulator runs the second round under another schedule. $RFG_TEST_SEED sets the data's seed; $RFG_TEST_PROBLEM (with
 * $RFG_TEST_DATA, $RFG_TEST_UNALIGNED=1) is run in place of the table. Appends one JSON line with the counts to
 * $RFG_VERIFIED_FILE, in which `group` names the table. With $RFG_TEST_FEW only cases are run that are the first of the
 * process to run enough that is new (op_few.h), by the first of one or two parameter sets as a database's row for the
 * public function. */
void op_cases_run(const char *device, const char *group, const struct op_case *cases, int n);

/* Launches a kernel in fewer workgroups than the problem has tiles or rows: the limit of a launch (MAX_GROUPS) is far
 * beyond what tests can wait for. Of GPUs: see op_main_gpus(). Where the device lacks the variant a line that begins
 * with "SKIPPED:" says so. */
void op_few_groups(const char *device, const char *problem, const char *config, unsigned groups);

/* A test that runs a table on the _i-th device. */
#define OP_CASES(name, table, group)                                                                                   \
    START_TEST(name)                                                                                                   \
    {                                                                                                                  \
        op_cases_run(op_device(_i), group, table, (int)(sizeof(table) / sizeof(table[0])));                            \
    }                                                                                                                  \
    END_TEST

/* Runs a plan of each variant's parameter sets, of those that take the problem: of $RFG_TEST_CONFIGS each (default:
 * `wanted`; 0: all), with their names. Returns how many. */
int op_each_plan(rfg_context *ctx, const struct rfg_problem *prob, int wanted,
                 void (*run)(void *arg, const struct rfg_plan *plan, const char *name), void *arg);

/* A context without databases, with a code cache that the process shares; fails the test on an error. */
rfg_context *op_context(const char *device);
/* And with one. */
rfg_context *op_context_of_rows(const char *device, const char *db);

/* Of tests of random problems: how many ($RFG_TEST_RANDOM; 300 if nobody says); a number below n, and one of a list, of
 * the test's `seed`. */
int op_random_problems(void);
#define BELOW(n)  (int)(rfg_random(&seed) % (uint64_t)(n))
#define ONE_OF(a) a[BELOW(sizeof(a) / sizeof((a)[0]))]

/* Adds to a problem string, of RFG_PROBLEM_STRLEN bytes. */
void op_say(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One problem by the public function, with fences: fails the test if it is wrong. */
void op_case_right(rfg_context *ctx, const char *problem, enum rfg_data data, uint64_t seed);

/* A call was refused as one with wrong arguments, and rfg_last_error() has these words. */
void op_refused(rfg_status got, const char *words);

/* The problem that a string says; fails the test if it says none. */
struct rfg_problem op_problem(const char *text);
/* It says none, for a reason that has these words. */
void op_problem_refused(const char *text, const char *words);
/* So do all of a table of { problem, words }, whose problems begin with `begin`. */
void op_problems_refused(const char *begin, const char *const (*bad)[2], int n);
#define OP_PROBLEMS_REFUSED(begin, bad) op_problems_refused(begin, bad, (int)(sizeof(bad) / sizeof((bad)[0])))
/* Whether the variant of a configuration ("gemm_skinny{...}") takes the problem with it on an imagined device: it must
 * refuse in these words, or, if they are NULL, take it. */
void op_config_taken(const char *arch, const char *problem, const char *config, const char *words);

/* 20260101 or $RFG_TEST_SEED */
uint64_t op_seed(void);

#endif
