/* SPDX-License-Identifier: MIT */
#ifndef RFG_TESTS_SUITE_H
#define RFG_TESTS_SUITE_H

/* What every test takes of C. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A test case of the suite, whose tests have this fixture (NULL: none) and a minute each. */
static inline TCase *test_case(Suite *s, const char *name, void (*setup)(void), void (*teardown)(void))
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    suite_add_tcase(s, tc);
    return tc;
}

/* Adds tests to a case: once each, or n times each with _i from 0 on. */
#define ADD_TESTS(tc, ...)    ADD_LOOPS(tc, 1, __VA_ARGS__)
#define ADD_LOOPS(tc, n, ...) add_tests((tc), (int)(n), (const TTest *const[]){ __VA_ARGS__, NULL })
static inline void add_tests(TCase *tc, int n, const TTest *const *tests)
{
    for (; *tests; tests++)
        tcase_add_loop_test(tc, *tests, 0, n);
}

/* A test case for tests that take long: tests/suites.py names its tag in SLOW, and `./dev test` leaves
 * it to a sweep. */
static inline TCase *slow_case(Suite *s, const char *name, const char *tag, void (*setup)(void), void (*teardown)(void))
{
    TCase *tc = test_case(s, name, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_set_tags(tc, tag);
    return tc;
}

/* Runs the suite as the environment says (CK_VERBOSITY, CK_RUN_CASE...); main()'s return value. */
static inline int run_suite(Suite *s)
{
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr), ran = srunner_ntests_run(sr);
    srunner_free(sr);
    if (!ran)
        fprintf(stderr, "no test ran: $CK_RUN_CASE, $CK_INCLUDE_TAGS or $CK_EXCLUDE_TAGS leaves none\n");
    return failed != 0 || !ran;
}

#endif
