/* SPDX-License-Identifier: MIT
 *
 * rfg-db verify. */
#ifndef RFG_TUNER_DB_VERIFY_H
#define RFG_TUNER_DB_VERIFY_H

/* Prints the errors of a database or a pack; returns the exit code. arch NULL: rows of all. */
int rfg_db_verify(const char *path, const char *arch);

#endif
