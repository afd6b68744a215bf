/* SPDX-License-Identifier: MIT
 *
 * The controls of tests/ops/mock_blas.c: the test finds them with dlsym. */
#ifndef RFG_TESTS_MOCK_BLAS_H
#define RFG_TESTS_MOCK_BLAS_H

#include <stddef.h>
#include <stdint.h>

#define MOCK_API __attribute__((visibility("default")))

enum { MOCK_FAILED = 13, MOCK_INVALID = 7 }; /* the statuses of an injected failure, and of a wrong argument */

struct mock_blas {
    /* what it does */
    int offers;   /* algorithms that the heuristic knows */
    size_t needs; /* workspace bytes that each says it needs */
    int state;    /* each result's status */
    int fail_at;  /* this call fails with MOCK_FAILED; 0: none */
    /* what was done */
    int calls;                    /* that could have failed, so far */
    const char *last;             /* the name of the one that failed */
    int live;                     /* descriptors, layouts, preferences not destroyed */
    int handles;                  /* made */
    int algo;                     /* the rank that the last product was asked for */
    void *stream;                 /* of the last product */
    size_t told;                  /* its workspace's size */
    uint32_t reduction, align[4]; /* the last heuristic's preferences */
};
extern MOCK_API struct mock_blas mock_blas;

#endif
