/* SPDX-License-Identifier: MIT */
#ifndef RFG_MLA_H
#define RFG_MLA_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RFG_MLA_MAX_HEADS   128
#define RFG_MLA_MAX_QUERIES 8 /* of a sequence */

typedef struct rfg_mla_params {
    size_t size; /* sizeof(rfg_mla_params): see rfg/core.h. All members but scale may be zero */
    /* Must be given. It is 1 / sqrt(elements of an unabsorbed head), 192 for DeepSeek V3, times what the model's YaRN has
     * (mscale squared). rfg can't know it: it is not 1 / sqrt(D). */
    float scale;
    float soft_cap; /* 0: none; else > 0 */
    int32_t causal;
    /* A hint: an upper bound of the kv lengths. It decides how many workgroups share a sequence, and no bit of a result.
     * Longer sequences, up to what the tensors hold, still give right results. 0: what the tensors hold. */
    int32_t max_seqlen_k;
    const rfg_tensor *q_rope;      /* the rope part of q, if it is a tensor apart: see rfg_op_mla_decode() */
    const rfg_tensor *block_table; /* [B,n] int32, unit column stride; or NULL */
    /* The other form of a table: int32 [B+1] and [n]. Both or neither; not with block_table. */
    const rfg_tensor *kv_indptr, *kv_indices;
    const rfg_tensor *kv_lens;  /* [B] int32, or NULL */
    const rfg_tensor *sinks;    /* [Hq] f32 or q's dtype, or NULL */
    const rfg_tensor *lse;      /* output, f32, natural logarithm; or NULL */
    const rfg_tensor *kv_scale; /* [1] f32, with an 8-bit kv: what a code times the scale stands for; NULL: 1 */
} rfg_mla_params;
#define RFG_MLA_PARAMS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(rfg_mla_params), 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                             \
    }

/* Multi-head latent attention, decode: 1 to 8 queries a sequence against a cache with one row a key, which all heads
 * share (DeepSeek V2 to V3.2, Kimi K2, GLM-5, LongCat). This is the absorbed form: q is multiplied by W_UK before the
 * call, and out by W_UV after it. The first Dv elements of a row are both a part of the key and the value; the other
 * D - Dv are the key's rotated part. For query i of a sequence's Sq and key j of its Skv, with at = i + Skv - Sq:
 *
 *   s[i,j] = scale q[i] . kv[j]                       over all D elements
 *   s[i,j] = soft_cap tanh(s[i,j] / soft_cap)         if soft_cap > 0
 *   key j is masked if causal and j > at
 *   lse[i] = log(sum_j exp(s[i,j]))                   without the sink
 *   out[i] = sum_j exp(s[i,j] - lse[i]) kv[j,0..Dv-1] over the keys that aren't masked
 *   out[i] = out[i] / (1 + exp(sink[h] - lse[i]))     if sinks
 *
 * So lse with out undone by the sink is a state for rfg_op_merge_states(). To base 2 it is lse / log(2).
 * A query with no key left gives 0, and lse -inf.
 *
 *   out          [B,Hq,Dv] or [B,Sq,Hq,Dv]    q's dtype; Hq from 1 to 128, Sq from 1 to 8
 *   q            [B,Hq,D]  or [B,Sq,Hq,D]     bf16 or fp16. With q_rope: its first Dv elements, [B,(Sq,)Hq,Dv]
 *   q_rope       [B,(Sq,)Hq,D-Dv] (of params) q's dtype
 *   kv           [blocks,page,D] or [blocks,page,1,D], unit stride in the last dimension, any others: q's dtype, or
 *                e4m3, e4m3fnuz, e5m2 with one scale. Without a table: block b is all of sequence b, [B,S,D]
 *   block_table  [B,n] int32 (of params)      key j of sequence b is row j % page of block block_table[b, j / page]
 *   kv_indptr, kv_indices (of params)         the blocks of sequence b are kv_indices[kv_indptr[b]] to
 *                                             kv_indices[kv_indptr[b+1] - 1]
 *   kv_lens      [B] int32 (of params)        keys of each sequence, its queries' own included; NULL: all rows of its
 *                                             blocks
 *   lse          [B,Hq,Sq] f32, any strides   ([B,Hq] without Sq)
 *
 * Dv is a multiple of 64, up to 512; D - Dv is 0, 32 or 64: 576 and 512 of DeepSeek V3, 512 and 512, 512 and 448, 288
 * and 256. Pointers and strides that are whole multiples of 16 bytes are fast. page is a power of two, from 1 on.
 *
 * Rows of the cache past a sequence's length may hold anything, NaN included. A NaN or infinity in a row that some query
 * of a sequence sees may reach the sequence's other queries.
 * What the device reads is kept within the tensors: a length below 0 counts as 0, one beyond what the sequence's blocks
 * hold as what they hold; kv_indptr's values are clamped to 0..n, and a block number to 0..blocks - 1.
 * It is one launch, legal in a captured graph whose lengths and tables change between replays: the host reads none of
 * them.
 *
 * A sequence's keys are divided into at most 16 segments, by its length alone. A segment's sums, and the order in which
 * the segments' results are combined, depend on nothing else. So the bits of a query's out and lse depend on its q, its
 * position, the keys that it sees, the params, and the kernel that the device uses for these dtypes, sizes and
 * alignments. They don't depend on B, on other sequences, heads or queries, on max_seqlen_k or the tensors' capacity.
 * (batch_invariant of rfg_context_params also fixes the kernel.)
 * Scores, exponentials and sums are fp32. Weights are rounded to q's dtype before they are multiplied by values.
 * Aliasing: out and lse may not overlap anything else. Gaps between their elements are not written.
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "mla_decode bf16->bf16 B=32 Hq=16 D=576 S=4096 Dv=512 page=64" (q -> out). Its keys:
 *   B=, Hq=, D=        sequences, heads, elements of a row of kv
 *   Dv=                elements of a value, if not D
 *   S=                 the most keys that a sequence may have: what the tensors hold (with kv_indices, all of them), or
 *                      max_seqlen_k rounded up to a power of two, if that is less
 *   Sq=                queries of a sequence, if not 1
 *   causal=1, lse=1    as in params (causal with Sq > 1)
 *   cap=               soft_cap, rounded up
 *   sink=1, stype=     there are sinks; their dtype, if it is not f32
 *   page=              keys of a block; 0: no table
 *   kv=, scale=1       dtype of an 8-bit kv; kv_scale
 *   table=, q=         layout: block or indices; whole or apart
 *   align=             layout: alignment of pointers and strides
 *   form=, lens=       layout: how tests lay kv out, and draw lengths
 *   invariant=1, overlap=1  see rfg/core.h
 * In columns of shapes files and tuned rows M is B, N is S and K is Hq. */
RFG_API RFG_NODISCARD rfg_status rfg_op_mla_decode(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *q,
                                                   const rfg_tensor *kv, const rfg_mla_params *params,
                                                   rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
