/* SPDX-License-Identifier: MIT
 *
 * The database targets' initial rows, and the conditions that every row read must meet. */
#ifndef RFG_TESTS_FUZZ_ROWS_H
#define RFG_TESTS_FUZZ_ROWS_H

#include "dispatch/db/db_internal.h"
#include "fuzz.h"

/* A database with a few rows in fuzz_dir(), sealed. Returns its path. */
const char *fuzz_database(void);
/* What is read of a database may be implausible (rfg-db verify finds that), of a CSV not. */
void fuzz_check_row(const struct rfg_row *row, bool plausible);

#endif
