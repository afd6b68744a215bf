/* SPDX-License-Identifier: MIT
 *
 * What every kernel of advance is given, by value; the host and the kernels read this same text. The last two members
 * are struct rfg_kargs_head. */
#ifndef RFG_ADVANCE_ARGS_H
#define RFG_ADVANCE_ARGS_H

struct advance_args {
    int *kv_lens;
    void *positions;
    long long *slots;                     /* or NULL */
    int *table;                           /* or NULL; written with spare only */
    const int *accepted, *active, *spare; /* or NULL */
    int *spare_count;                     /* with spare */
    long long ldb;                        /* elements from a row of the table to the next */
    int b, sq, blocks, page_shift, n_spare;
    void *workspace;
    unsigned int *counters;
};

#endif
