/* SPDX-License-Identifier: MIT
 *
 * Running the project's programs from a test, in a directory of its own. */
#ifndef RFG_TESTS_PROGRAM_H
#define RFG_TESTS_PROGRAM_H

/* What the last program wrote to stdout and stderr. */
extern char *out, *err;

/* Check fixtures: a fresh current directory, removed afterwards. */
void program_setup(void);
void program_teardown(void);

/* Runs a program of $RFG_BINDIR with shell-quoted arguments; returns its exit code. A signal fails the test. */
__attribute__((format(printf, 2, 3))) int run_program(const char *name, const char *fmt, ...);
/* The same with stdout elsewhere: "> out", "> /dev/full", ">&-". */
__attribute__((format(printf, 3, 4))) int run_program_to(const char *where, const char *name, const char *fmt, ...);

/* A run that ends with this code, and prints the text there. */
#define RUNS(run, code, where, text)                                                                                   \
    do {                                                                                                               \
        ck_assert_int_eq(run, code);                                                                                   \
        PRINTS(where, text);                                                                                           \
    } while (0)
#define PRINTS(where, text) ck_assert_msg(strstr(where, text) != NULL, "'%s' does not say '%s'", where, text)

#endif
