/* SPDX-License-Identifier: MIT
 *
 * What every kernel of lora is given, by value; the host and the kernels read this same text. The last two members are
 * struct rfg_kargs_head. */
#ifndef RFG_LORA_ARGS_H
#define RFG_LORA_ARGS_H

#define LORA_WINDOW 64 /* neighbouring rows, among which those of an adapter are found */

struct lora_args {
    void *y;
    const void *x, *a, *b;
    const int *ids, *indptr; /* indptr NULL: an id a row */
    const float *scales;     /* or NULL */
    const int *ranks;        /* or NULL */
    /* In elements. */
    long long ldy, ldx, a_adapter, a_row, b_adapter, b_row;
    int m, n, k, rank, adapters, segments;
    float scale;
    void *workspace;
    unsigned int *counters;
};

#endif
