/* SPDX-License-Identifier: MIT */
#ifndef RFG_TESTS_SUITE_H
#define RFG_TESTS_SUITE_H

#include <check.h>
#include <stdio.h>

/* A test case for tests that take long: tests/suites.py names its tag in SLOW, and `./dev test` leaves it to a sweep.
 */
static inline TCase *slow_case(Suite *s, const char *name, const char *tag, void (*setup)(void), void (*teardown)(void))
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 600);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_tags(tc, tag);
    suite_add_tcase(s, tc);
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
