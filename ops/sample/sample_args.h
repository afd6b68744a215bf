/* SPDX-License-Identifier: MIT
 *
 * What every kernel of sample is given, by value; the host and the kernels read this same text. The last two members
 * are struct rfg_kargs_head. */
#ifndef RFG_SAMPLE_ARGS_H
#define RFG_SAMPLE_ARGS_H

#define SAMPLE_MAX_V (1 << 20) /* so that sums of weights, of which each is at most 2^40, are below 2^61 */

struct sample_args {
    const void *logits;
    void *y;
    const long long *seed, *offset;
    /* Of a row each; NULL where the problem has none, as those of a token below. */
    const float *temperature, *top_p, *min_p, *repetition, *frequency, *presence;
    const int *top_k;
    const float *bias;
    const int *counts;
    const signed char *prompt;
    int b, v, joint;
    long long ldx, ld_bias, ld_counts, ld_prompt; /* row strides in elements */
    void *workspace;
    unsigned int *counters;
};

#endif
