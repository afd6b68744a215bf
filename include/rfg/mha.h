/* SPDX-License-Identifier: MIT */
#ifndef RFG_MHA_H
#define RFG_MHA_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value of rfg_mha_params' window: window_left and window_right say what a query sees. */
#define RFG_MHA_WINDOW_SIDES (-1)

/* Attention. Head h of Hq uses the keys and values of head h / (Hq / Hkv) of Hkv (multi-head attention: Hq = Hkv;
 * grouped-query; multi-query: Hkv = 1). For query i of a sequence's Sq and key j of its Skv, with at = i + Skv - Sq:
 *
 *   s[i,j]  = scale q[i] . k[j]
 *   s[i,j]  = soft_cap tanh(s[i,j] / soft_cap)           if soft_cap > 0 (Gemma 2)
 *   s[i,j] -= alibi[h] |at - j|                          if alibi (Press et al., as FlashAttention has it)
 *   key j is masked if causal and j > at, or with a window of n keys if j <= at - n,
 *     or with one of sides if j < at - window_left or j > at + window_right
 *   lse[i]  = log(sum_j exp(s[i,j]) + exp(sink[h]))      the last term if sinks (gpt-oss)
 *   out[i]  = sum_j exp(s[i,j] - lse[i]) v[j]            over the keys that aren't masked
 *
 * So causal is aligned to the bottom right: where there are fewer queries than keys, the queries are the newest tokens
 * (chunked prefill, speculative decoding). A query with no key left gives 0, and lse -inf (with a sink: the sink).
 * Scores, exponentials and sums are fp32; weights are rounded to q's dtype, if it has 16 bits, before they are
 * multiplied with V. */
typedef struct rfg_mha_params {
    size_t size;    /* sizeof(rfg_mha_params): see rfg/core.h. All other members may be zero */
    float scale;    /* 0: 1 / sqrt(D) */
    float soft_cap; /* 0: none; else > 0 */
    int32_t causal;
    /* 0: none. n > 0: a query sees n keys, its own the last of them, as models' configs count (sliding_window 128: from
     * at - 127 to at). Later keys are not masked by it, so it needs causal, or rfg_op_mha_decode() with one query a
     * sequence. RFG_MHA_WINDOW_SIDES: the next two members say it; without it they must be 0. */
    int32_t window;
    int32_t window_left, window_right; /* keys before and after its own that a query sees; -1: all. Causal: right
                                        * counts as 0 */
    const rfg_tensor *sinks;           /* [Hq] f32 or q's dtype, or NULL */
    const rfg_tensor *alibi;           /* [Hq] f32, or NULL */
    const rfg_tensor *lse;             /* output, f32, natural logarithm: see the functions; or NULL */
    /* With k and v of codes: what a code times the scale stands for. [1] f32, or [Hkv] for a scale a head; NULL: 1. Or a
     * scale for each token and head, as rfg_op_kv_append() writes them: k's dimensions but the last one ([blocks,page,
     * Hkv]; [B,S,Hkv]; with cu_seqlens_k [Tk,Hkv]), both, any strides. i8 and i4 need those. */
    const rfg_tensor *k_scale, *v_scale;
    /* rfg_op_mha only: sequences of different lengths, one after the other in a tensor without a batch dimension.
     * int32 [B+1]: sequence b has rows cu_seqlens[b] to cu_seqlens[b+1] - 1. The device reads them, not the host.
     * Values outside of the tensors count as their beginning or end. */
    const rfg_tensor *cu_seqlens_q, *cu_seqlens_k;
    int32_t max_seqlen_q; /* with cu_seqlens_q: the most queries of a sequence. Further ones are left out */
    /* A hint: an upper bound of the kv lengths. It decides the kernel and how the work is divided. Longer sequences, up
     * to what the tensors hold, still give right results. 0: what the tensors hold. */
    int32_t max_seqlen_k;
    /* rfg_op_mha_decode only, a hint: the mean number of keys of a sequence. 0: not known. From three quarters of the
     * most keys on, a kernel for equal lengths is chosen. Otherwise a kernel for ragged lengths is chosen, which is a
     * few percent slower where lengths are equal. */
    int32_t mean_seqlen_k;
    /* A paged cache, int32: see rfg_op_mha_decode(). rfg_op_mha() takes both or neither; k and v are then as there. */
    const rfg_tensor *block_table; /* [B, blocks of a sequence], unit column stride */
    const rfg_tensor *kv_lens;     /* [B] */
} rfg_mha_params;
#define RFG_MHA_PARAMS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(rfg_mha_params), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL        \
    }

/* Prefill: many queries a sequence.
 *
 *   out  [B,Sq,Hq,Dv]              q's dtype
 *   q    [B,Sq,Hq,D]               bf16, fp16 or f32 (the portable kernels: slow)
 *   k, v [B,Skv,Hkv,D], [..,Dv]    q's dtype; or e4m3, e4m3fnuz, e5m2; or, with a scale a token and head, i8, i4
 *   lse  [B,Hq,Sq]                 f32, any strides
 *
 * With cu_seqlens_q: out and q [T,Hq,D], lse [Hq,T]; with cu_seqlens_k (only together): k and v [Tk,Hkv,D]. With
 * block_table and kv_lens: k and v are a paged cache (chunked prefill: kv_lens[b] counts the chunk's own keys, too).
 * D and Dv are multiples of 8, from 8 to 512. Unit stride in the last dimension, any others; pointers and strides that
 * are whole multiples of 16 bytes are fast. Kernels pad heads in registers and LDS: they read and write no more than D
 * and Dv elements of a head. On AMD many heads above 256 have the portable kernel alone.
 * The matrix instructions of MI100 and MI200 take subnormal fp16 for 0: there an fp16 weight below 2^-14 counts as 0.
 * Fast variants may take NaN codes of 8-bit k and v for numbers (480 in e4m3, 0 in e4m3fnuz). Scales of tokens multiply
 * scores and weights, in fp32. What of a weight times its scale is below 2^-25 of the largest weight times the largest
 * scale may count as 0. Codes of i4 are numbers from 0 to 15 (rfg/rope.h). Prefill has only portable kernels for these.
 * Hq must be a multiple of Hkv. Sizes of 0 do nothing, Skv = 0 gives zeros.
 * Aliasing: out and lse may not overlap anything else (refused, by the extents of the views). Gaps between their
 * elements are not written.
 * Asynchronous, errors, warm-up: as rfg_op_gemm(). Lengths and tables are read when the kernel runs. Negative lengths
 * count as 0, and lengths beyond what the tensors hold count as what they hold. Block numbers of a table are not
 * checked: the caller must keep them in range.
 *
 * Problem string: "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1" (q -> out). Its keys:
 *   B=, Hq=, Hkv=, D=   sequences, heads, elements of a head
 *   Sq=                 queries of a sequence; with cu_seqlens max_seqlen_q
 *   S=                  the most keys that a sequence may have: what the tensors hold (all of k with cu_seqlens_k; the
 *                       table's columns times page), or max_seqlen_k rounded up to a power of two, if that is less
 *   Dv=                 elements of a head of v, if not D
 *   causal=1, alibi=1   as in params
 *   window=             keys that a query sees, its own included (causal, or one query)
 *   window_left=, window_right=  other windows
 *   cap=                soft_cap, rounded up
 *   sink=1, stype=      there are sinks; their dtype, if it is not f32
 *   lse=1               lse is written
 *   varlen=1            cu_seqlens are given
 *   page=               keys of a block of the cache
 *   kv=                 dtype of k and v, if not q's: e4m3, e4m3fnuz, e5m2, i8, i4
 *   scales=             of k and v of codes: tensor, head, token (each token and head)
 *   align=              layout: alignment of pointers and strides
 *   form=, lens=        layout: how k and v are laid out; how tests draw lengths
 *   invariant=1, overlap=1  see rfg/core.h
 * In columns of shapes files and tuned rows M is B, N is S and K is Hq.
 *
 * With batch_invariant (rfg_context_params) the bits of a query's out and lse depend only on its q, its position, the
 * keys and values that it sees, the params and the layout. They do not depend on B, on other sequences, on the other
 * queries of its sequence, on max_seqlen_q or max_seqlen_k, or on the capacity of the tensors. (v must be finite where
 * any query of the same sequence in the call sees it.) */
RFG_API RFG_NODISCARD rfg_status rfg_op_mha(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *q,
                                            const rfg_tensor *k, const rfg_tensor *v, const rfg_mha_params *params,
                                            rfg_stream stream);

/* Decode: 1 to 8 queries a sequence, against a cache of pages.
 *
 *   out          [B,Hq,Dv] or [B,Sq,Hq,Dv]    q's dtype; Sq <= 8
 *   q            [B,Hq,D]  or [B,Sq,Hq,D]     bf16, fp16 or f32
 *   k, v         [blocks,page,Hkv,D] (Dv)     q's dtype, or e4m3, e4m3fnuz, e5m2, i8, i4; any strides, unit in the
 *                                             last dimension: vLLM's [blocks,Hkv,page,D] is this view with its strides.
 *                                             Or vLLM's older form, with x = 16 bytes' worth of elements:
 *                                             k [blocks,Hkv,D/x,page,x], v [blocks,Hkv,D,page]
 *   block_table  [B,n] int32 (of params)      key j of sequence b is row j % page of block block_table[b, j / page];
 *                                             NULL: block b is all of sequence b ([B,S,Hkv,D])
 *   kv_lens      [B] int32 (of params)        keys of each sequence, its queries' own included, 0 to n page (others
 *                                             count as the nearest of these); NULL: all there are
 *   lse          [B,Hq,Sq] f32, any strides   ([B,Hq] without Sq)
 *
 * Rows of the cache past a sequence's length may hold anything, NaN included; entries of the table past its last block
 * must be numbers of blocks, no matter which.
 * page: any number of keys; each that is no power of two has kernels of its own. In vLLM's older form x divides D.
 * cu_seqlens of params are not looked at; causal matters with Sq > 1.
 * It is legal in a captured graph whose lengths and tables change between replays: the host reads neither. It is one
 * launch. The device divides the work among workgroups by the lengths that it finds, and combines partial results in an
 * order that depends on the lengths alone, so results are bitwise reproducible.
 * All else as rfg_op_mha(), but for these keys of the problem string:
 *   Sq=        left out if it is 1
 *   lens=log   sequences may be of any lengths: there are kv_lens, B > 1, and mean_seqlen_k is less than 3/4 of S
 *   form=vllm  k and v are in vLLM's older form
 * A call without params is "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 lens=log". With a mean_seqlen_k
 * of 3072 or more it is "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16".
 *
 * With batch_invariant: as rfg_op_mha(), of calls with the same Sq, and for a sequence's queries together. */
RFG_API RFG_NODISCARD rfg_status rfg_op_mha_decode(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *q,
                                                   const rfg_tensor *k, const rfg_tensor *v,
                                                   const rfg_mha_params *params, rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
