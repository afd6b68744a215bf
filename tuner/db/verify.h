/* SPDX-License-Identifier: MIT
 *
 * rfg-db verify. */
#ifndef RFG_TUNER_DB_VERIFY_H
#define RFG_TUNER_DB_VERIFY_H

/* Looks at a database or a pack and says what is wrong with it; the exit code. arch NULL: rows of all. */
int rfg_db_verify(const char *path, const char *arch);

#endif
