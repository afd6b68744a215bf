/* SPDX-License-Identifier: MIT
 *
 * How functions fail: a status for the caller, a sentence for people. */
#ifndef RFG_BASE_ERROR_H
#define RFG_BASE_ERROR_H

#include <stdbool.h>

#include "rfg/core.h"

/* Sets the thread's error message (rfg_last_error()) and returns status. */
__attribute__((format(printf, 2, 3))) rfg_status rfg_fail(rfg_status status, const char *fmt, ...);

/* A reason in words, filled by the function that refuses. */
struct rfg_reason {
    char text[160];
};

/* Writes the sentence (why may be NULL) and returns false, so that `return rfg_refuse(why, ...)` reads well. */
__attribute__((format(printf, 2, 3))) bool rfg_refuse(struct rfg_reason *why, const char *fmt, ...);

#endif
