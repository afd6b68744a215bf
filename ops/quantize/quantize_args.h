/* SPDX-License-Identifier: MIT
 *
 * What every kernel of quantize and of quantize_scale is given, by value; the host and the kernels read this same text.
 * The last two members are struct rfg_kargs_head. */
#ifndef RFG_QUANTIZE_ARGS_H
#define RFG_QUANTIZE_ARGS_H

/* How a scale follows from the largest magnitude (rfg/quantize.h). */
struct quantize_rule {
    float max, inverse_max;
    float floor_amax, floor_scale, zero_scale;
    float near; /* the largest magnitude of a group whose scale is surely near 1, as quotient.h has it */
};

struct quantize_args {
    const void *x;
    void *q, *scale;         /* the scale is read if it is the tensor's */
    union {                  /* no call has both */
        const void *smooth;  /* factors of the columns */
        const float *global; /* what nvfp4's scales are divided by; NULL: 1 */
    };
    int m, n;
    struct quantize_rule rule;
    long long ldx, ldq, scale_row, scale_col; /* strides in elements */
    void *workspace;
    unsigned int *counters;
};

struct quantize_scale_args {
    const void *x;
    void *scale;
    int m, n;
    struct quantize_rule rule;
    /* Chunks of 16 bytes in a row; what divides by it is as in struct act_args. */
    unsigned int row_chunks, mul, shift, pad;
    long long ldx;
    void *workspace; /* a float for each workgroup */
    unsigned int *counters;
};

#endif
