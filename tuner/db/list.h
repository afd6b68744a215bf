/* SPDX-License-Identifier: MIT
 *
 * rfg-db list and show: print a database. The exit codes. */
#ifndef RFG_TUNER_DB_LIST_H
#define RFG_TUNER_DB_LIST_H

#include <stdbool.h>

/* arch NULL: of all. */
int rfg_db_list(const char *path, const char *arch, bool json);
int rfg_db_show(const char *path, const char *arch, const char *problem);

#endif
