/* SPDX-License-Identifier: MIT */
#ifndef RFG_TESTS_SUITE_H
#define RFG_TESTS_SUITE_H

#include <check.h>

/* Runs the suite as the environment says (CK_VERBOSITY, CK_RUN_CASE...); main()'s return value. */
static inline int run_suite(Suite *s)
{
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}

#endif
