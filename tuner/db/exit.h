/* SPDX-License-Identifier: MIT
 *
 * How rfg-db's commands end. */
#ifndef RFG_TUNER_DB_EXIT_H
#define RFG_TUNER_DB_EXIT_H

#include <stdio.h>

#include "base/error.h"

enum { FINE = 0, PROBLEMS = 1, BAD_USAGE = 2 };

/* Says the library's last error; returns code. */
static inline int complain(int code)
{
    fprintf(stderr, "rfg-db: %s\n", rfg_last_error());
    return code;
}

#endif
