/* SPDX-License-Identifier: MIT
 *
 * Escapes text for people to read, some of which comes from files that others wrote. */
#ifndef RFG_TEXT_H
#define RFG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Makes text (in a buffer of `size`) harmless to print. Control characters (terminals' escape sequences among them) and
 * invalid UTF-8 become \n, \t, \x1b and the like. Text that no longer fits is cut off. Every error, reason, warning,
 * log line and listing of a file goes through it. */
void rfg_escape(char *text, size_t size);

/* Whether nothing in it needs escaping. */
bool rfg_is_printable(const char *text);

#endif
