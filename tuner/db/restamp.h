/* SPDX-License-Identifier: MIT */
#ifndef RFG_TUNER_DB_RESTAMP_H
#define RFG_TUNER_DB_RESTAMP_H

#include <stdbool.h>

/* rfg-db restamp: databases, and text files (names that end in .csv). Everything is read and compiled before anything
 * is written; a file is written as a whole, and only if a row of it changes. arch NULL: rows of all. Prints what it
 * found; adds the rows that can't be used at all to *problems. False with a message: a file can't be
 * read or written. */
bool rfg_db_restamp_files(const char *const *paths, int n, const char *arch, bool all, int *problems);

#endif
