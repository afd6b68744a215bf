/* SPDX-License-Identifier: MIT
 *
 * What the tests of trust stand on: trust_case.c. */
#ifndef RFG_TESTS_TRUST_CASE_H
#define RFG_TESTS_TRUST_CASE_H

#include "dispatch/context.h"
#include "base/tempdir.h"
#include "base/trust.h"
#include "base/util.h"
#include "cache_case.h"
#include "tests/suite.h"

#define NOBODY 65534

void setup(void);
void use_cache(void);
bool is_root(const char *what);
void write_text(const char *path, mode_t mode, const char *text);
void make_old(const char *path);
extern char file[700], target[600];

#endif
