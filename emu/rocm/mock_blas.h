/* SPDX-License-Identifier: MIT
 *
 * The controls of emu/rocm/mock_blas.c: the test finds them with dlsym, emu/rocm/blas_stub.c sets them. */
#ifndef RFG_TESTS_MOCK_BLAS_H
#define RFG_TESTS_MOCK_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOCK_API __attribute__((visibility("default")))

enum { MOCK_FAILED = 13, MOCK_INVALID = 7 }; /* the statuses of an injected failure, and of a wrong argument */

/* The runtime that the AMD libraries allocate from; all return 0 on success. allocate NULL: they have none, and what
 * they do in one is left out. */
struct mock_hip {
    int (*allocate)(void **memory, size_t bytes);
    int (*write)(void *memory, void *host, size_t bytes); /* and wait */
    int (*release)(void *memory);
    int (*ask)(void *stream);                                        /* may be NULL: hipStreamQuery() */
    int (*launch)(void *stream, void (*fn)(void *data), void *data); /* NULL: what is launched is done at once */
};

struct mock_blas {
    /* what it does */
    struct mock_hip hip;
    int rocm;        /* 60400: as ROCm 6.4 does it */
    bool no_kernels; /* rocBLAS: as on a GPU that it has no file for */
    bool gentle;     /* what would end or hang the process is noted in `end`, and fails */
    int offers;      /* algorithms that the heuristic knows */
    size_t needs;    /* workspace bytes that each says it needs */
    int state;       /* each result's status */
    int fail_at;     /* this call fails with MOCK_FAILED; 0: none */
    /* what was done */
    int calls;                    /* that could have failed, so far */
    const char *last;             /* the name of the one that failed */
    int live;                     /* descriptors, layouts, preferences not destroyed */
    int handles;                  /* made, */
    int destroyed;                /* of them */
    const char *end;              /* what ended or hung the process */
    int atomics;                  /* rocBLAS: 1, allowed, in the last product */
    int algo;                     /* the rank that the last product was asked for */
    void *stream;                 /* of the last product */
    void *workspace;              /* and its workspace, */
    size_t told;                  /* its workspace's size */
    uint32_t reduction, align[4]; /* the last heuristic's preferences */
};
extern MOCK_API struct mock_blas mock_blas;

#endif
