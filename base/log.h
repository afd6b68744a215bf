/* SPDX-License-Identifier: MIT
 *
 * What is said to people besides results: the log, warnings, text of files in messages. */
#ifndef RFG_BASE_LOG_H
#define RFG_BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

/* RFG_LOG=dispatch|calls|jit|all (comma-separated), to stderr. */
enum rfg_log_topic { RFG_LOG_DISPATCH = 1, RFG_LOG_CALLS = 2, RFG_LOG_JIT = 4 };
bool rfg_log_on(enum rfg_log_topic topic);
__attribute__((format(printf, 2, 3))) void rfg_log(enum rfg_log_topic topic, const char *fmt, ...);
/* "rfg: warning: ...". Of one kind (one place in the source) the first few, then the 10th, 100th, 1000th ..., counted.
 */
#define RFG_WARNINGS_OF_A_KIND 5
__attribute__((format(printf, 1, 2))) void rfg_warn(const char *fmt, ...);
/* The same, always: what the emulator was asked to find. */
__attribute__((format(printf, 1, 2))) void rfg_warn_each(const char *fmt, ...);
/* fprintf() of one line, or a part of one, with what is in files: see rfg_escape(). Newlines at its end stay. */
__attribute__((format(printf, 2, 3))) void rfg_print(FILE *f, const char *fmt, ...);

#endif
