/* SPDX-License-Identifier: MIT
 *
 * What is said to people besides results: the log, warnings, text of files in messages. */
#ifndef RFG_BASE_LOG_H
#define RFG_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

#include "rfg/core.h"

/* RFG_LOG=dispatch|calls|jit|all (comma-separated), to stderr or to whom rfg_set_log_callback() named. */
bool rfg_log_on(rfg_log_topic topic);
__attribute__((format(printf, 2, 3))) void rfg_log(rfg_log_topic topic, const char *fmt, ...);
/* "rfg: warning: ...". Of one kind (one place in the source) the first few, then the 10th, 100th, 1000th
 * ..., counted. */
#define RFG_WARNINGS_OF_A_KIND 5
__attribute__((format(printf, 1, 2))) void rfg_warn(const char *fmt, ...);
/* The same, always: what the emulator was asked to find. */
__attribute__((format(printf, 1, 2))) void rfg_warn_each(const char *fmt, ...);
/* Has fork() wait for the callback. fork() takes the locks of handlers that are installed later first: those must be of
 * code that logs while it holds them. */
void rfg_log_watch_forks(void);
/* fprintf() of one line, or a part of one, with what is in files: see rfg_escape(). Newlines at its end stay. */
__attribute__((format(printf, 2, 3))) void rfg_print(FILE *f, const char *fmt, ...);

#endif
