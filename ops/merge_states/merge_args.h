/* SPDX-License-Identifier: MIT
 *
 * What every kernel of merge_states is given, by value; the host and the kernels read this same text. The last two
 * members are struct rfg_kargs_head. */
#ifndef RFG_MERGE_ARGS_H
#define RFG_MERGE_ARGS_H

/* Strides in elements, from a state (of outputs: 0), a token and a head to the next. */
struct merge_strides {
    long long state, token, head;
};

struct merge_args {
    const void *o;
    const float *lse;
    void *out;
    float *lse_out; /* or NULL */
    int n, heads, d;
    unsigned int rows; /* tokens times heads */
    /* Chunks of 16 bytes of o in a row; what divides by it, and by heads, is as in struct act_args. */
    unsigned int row_chunks, mul, shift, head_mul, head_shift;
    float to_log2, from_log2; /* lse times to_log2 is to base 2; and back */
    struct merge_strides by_o, by_lse, by_out, by_lse_out;
    void *workspace;
    unsigned int *counters;
};

#endif
