/* SPDX-License-Identifier: MIT
 *
 * What every kernel of mla_append is given, by value; the host and the kernels read this same text. Strides are in
 * elements, kv's in those of its dtype. The last two members are struct rfg_kargs_head. */
#ifndef RFG_MLA_APPEND_ARGS_H
#define RFG_MLA_APPEND_ARGS_H

struct append_args {
    const void *slots, *positions;
    const void *latent, *k_rope;
    long long latent_token, k_rope_token;
    const void *cos_sin, *norm;
    long long table_rows, table_stride;

    /* Slot s: row s & (page - 1) of block s >> page_shift. */
    void *kv;
    long long kv_block, kv_row, n_slots;
    const float *kv_scale; /* or NULL */
    int tokens, hq, page_shift;
    float eps;

    const void *q;
    void *q_out;
    long long q_token, q_head, q_out_token, q_out_head;
    void *workspace;
    unsigned int *counters;
};

#endif
