/* SPDX-License-Identifier: MIT
 *
 * What every kernel of dequantize is given, by value; the host and the kernels read this same text. The last two
 * members are struct rfg_kargs_head. */
#ifndef RFG_DEQUANTIZE_ARGS_H
#define RFG_DEQUANTIZE_ARGS_H

struct dequantize_args {
    const void *q, *scale;
    void *y;
    int m, n;
    /* Chunks of 8 codes in a row; what divides by it is as in struct act_args. */
    unsigned int row_chunks, mul, shift;
    unsigned int row_shift, col_shift; /* of a group's rows and columns; 31: all share a scale */
    unsigned int pad;
    long long ldq, ldy, scale_row, scale_col; /* strides in elements */
    void *workspace;
    unsigned int *counters;
};

#endif
