/* SPDX-License-Identifier: MIT
 *
 * What every kernel of rope, kv_append and rope_append is given, by value; the host and the kernels read this same
 * text. Strides are in elements. The last two members are struct rfg_kargs_head. */
#ifndef RFG_ROPE_ARGS_H
#define RFG_ROPE_ARGS_H

/* Head h of token t begins at element t * token + h * head. */
struct rope_heads {
    void *data;
    long long token, head;
};

/* Head h of slot s begins at element (s >> page_shift) * block + (s & (page - 1)) * row + h * head. In vLLM's older
 * form its element d is at d / x * chunk + d % x for k (x = 16 / size), at d * chunk for v; else at d. */
struct rope_cache {
    void *data;
    long long block, row, head, chunk;
};

struct rope_args {
    struct rope_heads q, k, v, q_out, k_out; /* k_out: of rope, which has no v */
    struct rope_cache k_cache, v_cache;
    const void *cos_sin, *positions;
    const void *slots;
    const void *q_norm, *k_norm;
    const float *k_scale, *v_scale; /* or NULL: 1 */
    long long table_rows, table_stride;
    long long axis_stride; /* of positions, from an axis to the next */
    long long n_slots;
    int tokens, hq, hkv, d, dv;
    int r, rotated;        /* elements that are rotated, and the first of them */
    int sections[4], axes; /* axes 0: one row of positions */
    int page_shift;
    int k_scale_stride, v_scale_stride; /* 0 or 1, from one head to the next */
    float eps, inverse_d;
    float weight_offset; /* weights of the norm are this + w */
    float sin_sign;      /* -1: backward */
    void *workspace;
    unsigned int *counters;
};

#endif
