/* SPDX-License-Identifier: MIT
 *
 * Text for people to read, some of it out of files that others wrote. */
#ifndef RFG_TEXT_H
#define RFG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Makes text (in a buffer of `size`) harmless to print: control characters, terminals' escape sequences among them, and
 * what isn't UTF-8 become \n, \t or \x1b and the like. What no longer fits is cut off. Every error, reason, warning and
 * log line goes through it; listings of what is in files do so too. */
void rfg_escape(char *text, size_t size);

/* Is there nothing in it to be escaped? */
bool rfg_is_printable(const char *text);

#endif
