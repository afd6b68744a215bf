/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests of rfg-tune, which run it by its command line, on the cpu device with tiny problems, in a
 * directory of the test's own. */
#ifndef RFG_TESTS_TUNE_CASE_H
#define RFG_TESTS_TUNE_CASE_H

#include <sys/types.h>

#include "dispatch/context.h"
#include "tests/suite.h"

extern char dir[256], db_path[300], csv_path[300];
extern struct rfg_device dev;
extern char *out, *err; /* of the last run */

/* How candidates misbehave (tuner/tune/measure.c). Times are steady unless it says "noisy": this machine may be busy.
 */
void misbehave(const char *how);
void setup(void);
void teardown(void);
/* Starts rfg-tune; what it prints goes to files, which finish() reads. */
pid_t start(const char *const *args);
/* The exit status, or -signal. */
int finish(pid_t pid);
void write_file(const char *path, const char *text);
void nap(double s);
struct rfg_problem problem(const char *text);
struct rfg_db *open_db(enum rfg_db_mode mode);
/* 1: it is there. */
int get_row(const char *text, struct rfg_row *row);
/* All problem strings, in the order of the database. */
char *all_keys(char keys[8192]);
void check_integrity(void);
int count_failures(void);

#define run(...) finish(start((const char *const[]){ "--db", db_path, __VA_ARGS__, NULL }))

#define assert_exit(code, wanted)                                                                                      \
    do {                                                                                                               \
        int got = (code);                                                                                              \
        ck_assert_msg(got == (wanted), "exit code %d, not %d\nstdout:\n%s\nstderr:\n%s", got, (wanted), out, err);     \
    } while (0)
#define assert_in(text, part)     ck_assert_msg(strstr(text, part) != NULL, "no '%s' in:\n%s", part, text)
#define assert_not_in(text, part) ck_assert_msg(strstr(text, part) == NULL, "'%s' in:\n%s", part, text)

#define P1 "gemm bf16,bf16->bf16 M=1 N=48 K=256"
#define P2 "gemm bf16,bf16->f32 M=3 N=20 K=128 bias=1"
#define P3 "gemm f32,f32->f32 M=5 N=17 K=33"

#endif
