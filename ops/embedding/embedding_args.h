/* SPDX-License-Identifier: MIT
 *
 * What every kernel of embedding is given, by value; the host and the kernels read this same text. The last two members
 * are struct rfg_kargs_head. */
#ifndef RFG_EMBEDDING_ARGS_H
#define RFG_EMBEDDING_ARGS_H

struct embedding_args {
    const void *table, *ids;
    void *y;
    int m, n;
    /* Chunks of 16 bytes of the table in a row; what divides by it is as in struct act_args. */
    unsigned int row_chunks, mul, shift;
    float scale;
    long long v, first;
    long long ldt, ldy; /* row strides in elements; only read if the rows don't follow each other */
    void *workspace;
    unsigned int *counters;
};

#endif
