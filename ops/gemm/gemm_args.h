/* SPDX-License-Identifier: MIT
 *
 * What every gemm kernel, on GPU and CPU, is given, by value; the host and the kernels read this same text.
 * workspace and counters are struct rfg_kargs_head. */
#ifndef RFG_GEMM_ARGS_H
#define RFG_GEMM_ARGS_H

struct gemm_args {
    /* The first 48 bytes: all that packed operands take without a workspace (see act_args.h). */
    void *y;
    const void *x, *w, *bias; /* bias NULL: none */
    int m, n, k;              /* n: rows of W */
    int pad;
    long long ldx, ldw, ldy; /* row strides in elements; only read if the rows don't follow each other */
    void *workspace;         /* fp32 partials */
    unsigned int *counters;  /* one a tile */
/* The rest is the host's, and kernels' that need it. */
#if !defined(RFG_DEVICE) || W_SCALE_DTYPE || RESIDUAL
    const void *w_scale; /* [n][k / group], packed; of a prepacked w see prepack_layout.h */
#endif
#if !defined(RFG_DEVICE) || W_ZERO || RESIDUAL
    const void *residual;
    long long ldr;
#endif
#if !defined(RFG_DEVICE) || W_ZERO
    const void *w_zero; /* as w_scale */
#endif
};

#define GEMM_ARGS_BYTES 88 /* without the rest; gemm.h and load.h assert it */

#endif
