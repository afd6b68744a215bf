/* SPDX-License-Identifier: MIT
 *
 * What every kernel of rope, kv_append and rope_append is given, by value; the host and the kernels read this same
 * text. Strides are in elements. The last two members are struct rfg_kargs_head.
 *
 * A kernel on NVIDIA has the first 48 bytes by the time it runs; each 64 that follow are a trip to the L2, made when
 * the first of them is needed. So what comes first is what comes first in a kernel: what its loads need, then the
 * weights and q_out, then the caches. Behind those four lines is what few need. */
#ifndef RFG_ROPE_ARGS_H
#define RFG_ROPE_ARGS_H

/* Head h of token t begins at element t * token + h * head. */
struct rope_heads {
    void *data;
    long long token, head;
};

/* Head h of slot s begins at element (s / page) * block + s % page * row + h * head (rfg_pages.h). In vLLM's older
 * form its element d is at d / x * chunk + d % x for k (x = 16 / size), at d * chunk for v; else at d. Strides of i4 are
 * in bytes. A scale of each token and head is element (s / page) * scale_step[0] + s % page * scale_step[1] + h *
 * scale_stride of k_scale (no form has both these and chunk). */
struct rope_cache {
    void *data;
    long long block, row, head;
};

struct rope_args {
    const void *positions, *slots;
    int hq, hkv;
    struct rope_heads q;

    struct rope_heads k, v;
    const void *cos_sin;
    int table_stride, page_shift;

    long long table_rows, n_slots;
    const void *q_norm, *k_norm;
    struct rope_heads q_out;
    float eps;
    float weight_offset; /* weights of the norm are this + w */

    struct rope_cache k_cache, v_cache;

    const float *k_scale, *v_scale;     /* or NULL: 1; written with a scale a token */
    int k_scale_stride, v_scale_stride; /* from one head to the next: 0 or 1, or any with a scale a token */
    int tokens, d, dv;
    int r, rotated; /* elements that are rotated, and the first of them */
    float inverse_d;
    float sin_sign;        /* -1: backward */
    int sections[4], axes; /* axes 0: one row of positions */
    long long axis_stride; /* of positions, from an axis to the next */
    union {
        long long k_chunk;
        int k_scale_step[2]; /* from a block, and from a row, to the next */
    };
    union {
        long long v_chunk;
        int v_scale_step[2];
    };
    struct rope_heads k_out; /* of rope, which has no v */
    void *workspace;
    unsigned int *counters;
};

#endif
