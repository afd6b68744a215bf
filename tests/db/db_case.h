/* SPDX-License-Identifier: MIT
 *
 * Helpers of the database's tests: a directory for each test, rows, and access to files from outside. */
#ifndef RFG_TESTS_DB_CASE_H
#define RFG_TESTS_DB_CASE_H

#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/suite.h"

extern char dir[24], path[64]; /* the test's directory, and the database that it may make there */

#define OK(call) ck_assert_msg((call) == RFG_OK, "%s: %s", #call, rfg_last_error())
#define SAYS(text)                                                                                                     \
    ck_assert_msg(strstr(rfg_last_error(), text) != NULL, "'%s' does not say '%s'", rfg_last_error(), text)

void setup(void);
void teardown(void);
/* The exit status, or -1. */
__attribute__((format(printf, 1, 2))) int shell(const char *fmt, ...);
struct rfg_problem problem(const char *text);
struct rfg_problem gemm(int m, int n);
/* A row with something in every field; us tells rows apart. */
struct rfg_row make(struct rfg_problem prob, const char *arch, int cus, double us, enum rfg_source how);
struct rfg_db *open_db(const char *p, enum rfg_db_mode mode);
void put(const char *p, struct rfg_row r);
size_t count_all(struct rfg_db *db);
size_t count(const char *p);
void sql(const char *p, const char *text);
/* rfg_db_integrity() finds nothing. */
void assert_sound(const char *p);
/* For rfg_db_each_miss(): appends a line to the text at ctx. */
bool see_miss(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung, uint64_t calls,
              const char *last);

/* A database that is damaged in one of n_damages ways; DIR/damaged is a copy. */
extern const int n_damages;
void make_damaged(int kind);

#endif
