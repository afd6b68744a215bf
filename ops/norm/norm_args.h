/* SPDX-License-Identifier: MIT
 *
 * What every norm kernel is given, by value; the host and the kernels read this same text. The last two members are
 * struct rfg_kargs_head. */
#ifndef RFG_NORM_ARGS_H
#define RFG_NORM_ARGS_H

/* Row r begins at element (r / heads) * ld + (r % heads) * ld_inner. */
struct norm_rows {
    void *data;
    long long ld, ld_inner;
};

struct norm_args {
    /* What packed rows take, once more: see act_args.h. */
    struct {
        void *x, *residual, *residual_out, *y;
        const void *weight;
        int n;
        float eps;
    } packed;
    struct norm_rows x, residual, residual_out, y, q; /* data NULL: not there */
    const void *weight, *bias;
    void *scale; /* read if static */
    long long scale_row, scale_col;
    int m, n, heads;
    float eps, inverse_n;
    int pad;
    void *workspace;
    unsigned int *counters;
};

#endif
