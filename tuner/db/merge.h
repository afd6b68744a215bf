/* SPDX-License-Identifier: MIT
 *
 * rfg-db merge, and reading all rows of a file. */
#ifndef RFG_TUNER_DB_MERGE_H
#define RFG_TUNER_DB_MERGE_H

#include "dispatch/db/db_internal.h"

/* All rows of a database. Rows that this version doesn't understand are reported on stderr. False with the error
 * set. */
bool rfg_db_load(const char *path, const char *arch, struct rfg_row **rows, size_t *n);

/* The rows of out, if it is there, and of the paths (databases, and their CSVs) into out. Of several rows for one
 * problem, arch, CU count and device the better `how` stays; then the faster, of the equally fast the newer (newest:
 * the newer, of one date the faster); then the first by variant, parameters and seed. The files' order doesn't matter.
 * Returns rfg-db's exit code. */
int rfg_db_merge(const char *const *paths, int n_paths, const char *out, bool newest);

#endif
