/* SPDX-License-Identifier: MIT
 *
 * What every attention kernel is given, by value; the host and the kernels read this same text. Strides are in
 * elements. The last two members are struct rfg_kargs_head. */
#ifndef RFG_MHA_ARGS_H
#define RFG_MHA_ARGS_H

/* Query i of sequence b, head h: element b * batch + i * token + h * head; with q_begin b is 0 and i is q_begin[b] + i.
 */
struct mha_rows {
    void *data;
    long long batch, token, head;
};

/* Key j of sequence b, head h: block n = block_table[b * table_stride + (j >> page_shift)], row t = j & ((1 <<
 * page_shift) - 1), or j / page and j % page where page is no power of two; without a table n is b, t is j; with
 * kv_begin n is 0, t is kv_begin[b] + j. Its element d is n * block + t * token + h * head + d; in vLLM's older form
 * d / x * chunk + d % x for k (x = 16 / size), d * chunk for v. Strides of i4 are in bytes.
 *
 * A scale of each token and head is element n * scale_stride[0] + t * scale_stride[1] + h * k_scale_stride of k_scale.
 * (No form has both these and chunk.)
 */
struct mha_cache {
    const void *data;
    long long block, token, head;
    union {
        long long chunk;
        int scale_stride[2]; /* from a block, and from a token, to the next */
    };
};

struct mha_args {
    struct mha_rows q, out;
    struct mha_cache k, v;
    const int *block_table;         /* or NULL */
    const int *q_begin, *kv_begin;  /* cu_seqlens, or NULL */
    const int *kv_lens;             /* or NULL: skv for all, or what kv_begin says */
    const void *sinks;              /* or NULL */
    const float *alibi;             /* or NULL */
    const float *k_scale, *v_scale; /* or NULL: 1 */
    float *lse;                     /* or NULL */
    long long table_stride;
    long long lse_batch, lse_head, lse_token; /* as mha_rows */
    float scale, soft_cap;                    /* soft_cap 0: none */
    int batch, sq, skv; /* sq: with q_begin the most of any sequence; skv: the most that the tensors hold */
    int hq, hkv;
    int page_shift;
    int k_scale_stride, v_scale_stride; /* from one kv head to the next: 0 or 1, or any with a scale a token */
    int window_left, window_right;      /* as large as can be where there is none; causal: window_right 0 */
    int tokens;                         /* with q_begin: queries of all sequences, as many as the tensors hold */
    void *workspace;
    unsigned int *counters;
};

#endif
