/* SPDX-License-Identifier: MIT
 *
 * What every kernel of argmax is given, by value, and what its workgroups pass on; the host and the kernels read this
 * same text. The last two members are struct rfg_kargs_head. */
#ifndef RFG_ARGMAX_ARGS_H
#define RFG_ARGMAX_ARGS_H

struct argmax_args {
    const void *x;
    void *y;
    int m, v;
    long long ldx;          /* row stride in elements */
    void *workspace;        /* split rows: ARGMAX_PART bytes for each of a row's workgroups, row by row */
    unsigned int *counters; /* split rows: one each */
};

/* A workgroup's largest element: 4 bytes that are in order of what they stand for, then its column. */
#define ARGMAX_PART 8

#endif
