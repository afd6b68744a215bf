/* SPDX-License-Identifier: MIT
 *
 * What every kernel of mla_decode is given, by value; the host and the kernels read this same text. Strides are in
 * elements. The last two members are struct rfg_kargs_head. */
#ifndef RFG_MLA_ARGS_H
#define RFG_MLA_ARGS_H

/* Query i of sequence b, head h: element b * batch + i * token + h * head. */
struct mla_rows {
    void *data;
    long long batch, token, head;
};

/* Key j of sequence b: row j & ((1 << page_shift) - 1) of block table[first + (j >> page_shift)], with first = b *
 * table_stride, or indptr[b]. Without a table: row j of block b. */
struct mla_args {
    struct mla_rows q, q_rope, out; /* q_rope: what follows q's first Dv elements, wherever it lies */
    const void *kv;
    long long kv_block, kv_row;
    const int *table;   /* or NULL */
    const int *indptr;  /* or NULL */
    const int *kv_lens; /* or NULL */
    const void *sinks;  /* or NULL */
    const float *kv_scale;
    float *lse; /* or NULL */
    long long table_stride;
    long long lse_batch, lse_head, lse_token;
    float scale, soft_cap; /* soft_cap 0: none */
    int batch, sq, hq;
    int skv;     /* the most keys that a sequence's blocks hold */
    int entries; /* with indptr: of the table */
    int blocks;
    int page_shift;
    int causal;
    const int *positions; /* or NULL */
    /* Positions of this rank's keys: runs of cp_run, the first at cp_first, one every cp_period. */
    int cp_run, cp_first, cp_period;
    int reserved;
    long long scales_at; /* V4: bytes from a block's beginning */
    void *workspace;
    unsigned int *counters;
};

#endif
