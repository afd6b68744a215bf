/* SPDX-License-Identifier: MIT
 *
 * What every kernel of act_and_mul and act is given, by value; the host and the kernels read this same text. The last
 * two members are struct rfg_kargs_head. First comes what packed rows take: the first 48 bytes of arguments are in the
 * cache line that a kernel on NVIDIA has read by then, and another line is a trip to the L2 of a short kernel's life.
 */
#ifndef RFG_ACT_ARGS_H
#define RFG_ACT_ARGS_H

struct act_args {
    const void *x;
    void *y; /* the plain output, NULL: none */
    int m, n;
    /* Chunks a row, in whole groups if those have scales; and what divides by it: i / row_chunks is the upper half of
     * 2 i * mul, shifted right, for i < 2^31. */
    unsigned int row_chunks, mul, shift;
    float alpha, limit; /* struct rfg_gate */
    int linear_beta;
    void *q;     /* codes, NULL: none */
    void *scale; /* read if static */
    long long ldx, ldy, ldq, scale_row, scale_col;
    void *workspace;
    unsigned int *counters;
};

#endif
