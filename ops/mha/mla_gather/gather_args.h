/* SPDX-License-Identifier: MIT
 *
 * What every kernel of mla_gather is given, by value; the host and the kernels read this same text. Strides are in
 * elements. The last two members are struct rfg_kargs_head. */
#ifndef RFG_MLA_GATHER_ARGS_H
#define RFG_MLA_GATHER_ARGS_H

/* Blocks of sequence b: as struct mla_args has them. */
struct gather_args {
    void *rows;
    long long row;
    const int *cu_seqlens, *first; /* first: or NULL */
    const void *kv;
    long long kv_block, kv_row, scales_at;
    const int *table, *indptr; /* or NULL */
    const float *kv_scale;     /* or NULL */
    long long table_stride;
    int n, batch;
    int held;    /* keys of a sequence's blocks, but with indptr */
    int entries; /* with indptr: of the table */
    int blocks, page_shift;
    void *workspace;
    unsigned int *counters;
};

#endif
