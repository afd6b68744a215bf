/* SPDX-License-Identifier: MIT
 *
 * Output of rfg's programs: files are written whole or stay unchanged, and errors of stdout are noticed. Messages begin
 * with the program's name. */
#ifndef RFG_TUNER_OUTPUT_H
#define RFG_TUNER_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* First in main(): makes sure that no file opened later gets the number of a closed stdin, stdout or stderr. */
void rfg_program_begin(void);

/* Last in main(): code, or failed with a message if what was printed didn't reach stdout. */
int rfg_program_end(const char *program, int code, int failed);

/* Checks before the work that a file can be written at path, without changing it. False with a message that names the
 * option. NULL is fine: no file. */
bool rfg_output_check(const char *program, const char *option, const char *path);

/* A file that is written under a temporary name and renamed when it is complete. Devices, pipes, and files in
 * directories that can't be written are written directly. */
struct rfg_output {
    FILE *f; /* NULL: could not be opened */
    const char *program, *option, *path;
    char *tmp;
};
/* False with a message. */
bool rfg_output_open(struct rfg_output *o, const char *program, const char *option, const char *path);
/* Gives the file its name if it is whole and all of it arrived; else drops it: false with a message. */
bool rfg_output_close(struct rfg_output *o, bool whole);

/* A JSON string of any bytes: those that aren't ASCII become "?" where the text isn't UTF-8. */
json_t *rfg_json_text(const char *s);

#endif
