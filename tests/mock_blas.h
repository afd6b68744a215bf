/* SPDX-License-Identifier: MIT
 *
 * The controls of tests/mock_blas.c: the test finds them with dlsym. */
#ifndef RFG_TESTS_MOCK_BLAS_H
#define RFG_TESTS_MOCK_BLAS_H

#include <stddef.h>

#define MOCK_API __attribute__((visibility("default")))

struct mock_blas {
    int offers;  /* algorithms that the heuristic knows */
    int fail_at; /* this call fails with status 13; 0: none */
    int calls;   /* that could have failed, so far */
    int live;    /* descriptors, layouts, preferences not destroyed */
    int algo;    /* the rank that the last product was asked for */
    void *stream;
};
extern MOCK_API struct mock_blas mock_blas;

#endif
