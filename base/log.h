/* SPDX-License-Identifier: MIT
 *
 * Output besides results: the log, warnings, and text of files in messages. */
#ifndef RFG_BASE_LOG_H
#define RFG_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

#include "rfg/core.h"

/* RFG_LOG=dispatch|calls|jit|all (comma-separated), to stderr or to the function of rfg_set_log_callback(). */
bool rfg_log_on(rfg_log_topic topic);
__attribute__((format(printf, 2, 3))) void rfg_log(rfg_log_topic topic, const char *fmt, ...);
/* "rfg: warning: ...". Of one kind (one place in the source) the first few, then the 10th, 100th, 1000th
 * ..., counted. */
#define RFG_WARNINGS_OF_A_KIND 5
__attribute__((format(printf, 1, 2))) void rfg_warn(const char *fmt, ...);
/* The same without that limit, for findings of the emulator. */
__attribute__((format(printf, 1, 2))) void rfg_warn_each(const char *fmt, ...);
/* Makes fork() wait for the callback. fork() runs handlers installed later first. So code that logs while it holds a
 * lock must install its handler after this one. */
void rfg_log_watch_forks(void);
/* fprintf() of a line, or a part of one, that holds text of files: escaped by rfg_escape(), except newlines at its
 * end. */
__attribute__((format(printf, 2, 3))) void rfg_print(FILE *f, const char *fmt, ...);

#endif
