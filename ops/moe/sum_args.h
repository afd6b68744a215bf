/* SPDX-License-Identifier: MIT
 *
 * What every kernel of moe_sum is given, by value; the host and the kernels read this same text. The last two members
 * are struct rfg_kargs_head. */
#ifndef RFG_MOE_SUM_ARGS_H
#define RFG_MOE_SUM_ARGS_H

#define SUM_MAX_TOP 32

struct moe_sum_args {
    const void *x, *residual; /* residual, weights, tokens: or NULL */
    void *y;
    const int *places, *tokens;
    const float *weights;
    int t, n, top, x_rows;
    /* Chunks of 16 bytes of x in a row; what divides by it is as in struct act_args. */
    unsigned int row_chunks, mul, shift;
    long long ldx, ldy, ldr, ldp, ldw; /* row strides in elements */
    const void *identity;              /* rows of tokens that places of RFG_MOE_IDENTITY stand for, or NULL */
    const float *identity_weights;     /* theirs, by slot */
    long long ld_identity, ld_identity_weights;
    void *workspace;
    unsigned int *counters;
};

#endif
