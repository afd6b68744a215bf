/* SPDX-License-Identifier: MIT
 *
 * What every kernel of sample is given, by value; the host and the kernels read this same text. The last two members
 * are struct rfg_kargs_head. */
#ifndef RFG_SAMPLE_ARGS_H
#define RFG_SAMPLE_ARGS_H

#define SAMPLE_MAX_V (1 << 20) /* so that sums of weights, of which each is at most 2^40, are below 2^61 */

/* sample_split: tokens of all of a row's lists, 8 bytes each, in LDS. In the workspace each part has a list, whose
 * first 8 bytes say how many tokens follow and what bounds them from below; or the sums of SAMPLE_BINS bins. */
#define SAMPLE_LIST            4096
#define SAMPLE_BINS            1024
#define SAMPLE_ROOM(split)     (SAMPLE_LIST / (split))
#define SAMPLE_PART(split)     (SAMPLE_ROOM(split) + 2 > SAMPLE_BINS ? SAMPLE_ROOM(split) + 2 : SAMPLE_BINS)
#define SAMPLE_PARTS(b, split) ((long long)(b) * (split)*SAMPLE_PART(split) * 8)

/* Words of a row's orders in the workspace, where a bias or penalties change the logits: whole chunks. */
#define SAMPLE_ORDERS(v) (((v) + 7ll) / 8 * 8)

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
