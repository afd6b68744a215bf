/* SPDX-License-Identifier: MIT
 *
 * Multi-head latent attention: writing the cache, reading it back as rows, and decode. */
#ifndef RFG_MLA_H
#define RFG_MLA_H

#include "rfg/core.h"
#include "rfg/rope.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RFG_MLA_MAX_HEADS   128
#define RFG_MLA_MAX_QUERIES 8 /* of a sequence */

/* ---- the cache ---------------------------------------------------------------------------------------------------

 * A token has one row of D elements, which all heads share: the latent (C of them, after its norm), then the key's
 * rotated part (R). kv is [blocks,page,D] or [blocks,page,1,D], or, where a row is more than its elements, [..,bytes of
 * a row] of dtype e4m3. page is a power of two. */
typedef enum rfg_mla_format {
    /* D elements: bf16, fp16, or e4m3, e4m3fnuz, e5m2 with one scale for all. Any strides, unit in the last dimension. */
    RFG_MLA_PLAIN = 0,
    /* DeepSeek V3.2 (vLLM's fp8_ds_mla, FlashMLA): D = 576. 656 bytes a row: 512 e4m3 codes, 4 f32 scales of 128 codes
     * each, 64 bf16. [blocks,page,656], any strides that are whole multiples of 16. */
    RFG_MLA_V32,
    /* DeepSeek V4 (FlashMLA's MODEL1): D = 512. 584 bytes a row, in a block: first page rows of 576 bytes (448 e4m3
     * codes, 64 bf16), then page groups of 8 bytes (7 e8m0 scales of 64 codes each, and a byte that isn't read and is
     * written as 0). [blocks,page,584] with a row stride of 584, and a block stride that is a whole multiple of 16
     * (FlashMLA: of 576). */
    RFG_MLA_V4
} rfg_mla_format;

typedef struct rfg_mla_append_params {
    size_t size; /* sizeof(rfg_mla_append_params): see rfg/core.h. All other members may be zero */
    /* Weight of the RMSNorm: [C] of the latent, or [D] of the latent with k_rope (DeepSeek V4). latent's dtype or f32;
     * NULL: no norm. */
    const rfg_tensor *norm;
    const rfg_tensor *cos_sin; /* [maxpos,R] f32 or latent's dtype: rfg_rope_table(); NULL: k_rope is rotated already */
    const rfg_tensor *positions; /* [T] int32 or int64, with cos_sin */
    const rfg_tensor *q, *q_out; /* [T,Hq,R], with cos_sin, both or neither: q_out = q rotated. q_out may be q */
    const rfg_tensor
        *kv_scale; /* [1] f32, with a plain kv of 8 bits: what a code times the scale stands for; NULL: 1 */
    float eps;     /* of the norm: at least 2^-126, finite; 0: 1e-6 */
    int32_t gptj;  /* pairs of rotated elements: 0: (i, i + R/2); not 0: (2i, 2i + 1), DeepSeek's */
    rfg_mla_format format;
    int32_t reserved; /* 0 */
} rfg_mla_append_params;
#define RFG_MLA_APPEND_PARAMS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(rfg_mla_append_params), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, RFG_MLA_PLAIN, 0                      \
    }

/* All steps between the projections and rfg_op_mla_decode(), in one launch: the latent is normalised, k_rope and q are
 * rotated, the row is quantised as the cache has it and written to its slot.
 *
 *   n = x / sqrt(mean(x^2) + eps) * norm              of the latent, or of latent and k_rope together
 *   kv[slot] = quantised(n(latent), rope(k_rope)),  q_out = rope(q)      rope: rfg/rope.h
 *
 *   kv      the cache: above
 *   latent  [T,C]       bf16 or fp16; unit stride in the last dimension: so a view of what the projection gave
 *   k_rope  [T,R]       the same; NULL: R = 0, and there is no rotation
 *   slots   [T] int64   token t's row: block slots[t] / page, row slots[t] % page of it; -1, and any other that is no row
 *                       of the cache: nothing is written for the token but its q_out. Read by the device, not by the host
 *   params  or NULL
 *
 * C is a multiple of 64, up to 512; R is 0, 32 or 64; D = C + R. RFG_MLA_V32 and V4 take bf16 alone, with R = 64.
 *
 * From loading x to storing results all is fp32: one rounding, to nearest even. Codes of a plain kv are x / kv_scale (by
 * the scale's reciprocal), saturating. RFG_MLA_V32 and V4 have a scale for each 128 or 64 elements: the least power of
 * two by which max(1e-4, |elements|) is at most 448, as DeepSeek's kernels have it. A NaN becomes the code of NaN; of a
 * group with an infinity the finite elements become 0.
 * A position that isn't a row of the table: what it rotates becomes NaN. Two tokens with one slot: its row is then one's
 * or the other's, or a mixture. Bytes of no slot are not touched. T = 0 does nothing. T (Hq / 8 + 1) <= 2^31 - 1.
 * Aliasing: q_out may be q itself; no element of kv or q_out may lie anywhere else in another tensor of the call.
 * Pointers and strides that are whole multiples of 16 bytes are fast. Asynchronous, legal in captured graphs whose
 * positions and slots change between replays, bitwise reproducible, a token's bits the same in any batch; errors,
 * warm-up: as rfg_op_gemm().
 *
 * Problem string: "mla_append bf16->bf16 T=32 D=576 R=64 Hq=16 page=64 norm=latent" (latent -> kv). Its keys:
 *   T=, D=, R=        tokens, elements of a row, of them elements of k_rope
 *   Hq=               heads of q
 *   page=             rows of a block
 *   format=           v32, v4
 *   norm=             latent, all: what the norm is of
 *   wtype=f32         dtype of its weight, if it is not latent's
 *   rope=             neox, gptj: the pairs, if there is a rotation
 *   table=f32         dtype of cos_sin, if it is not latent's
 *   pos=i32           dtype of positions, if it is not i64
 *   scale=1           kv_scale
 *   inplace=1         layout: q_out is q
 *   align=            layout: alignment of pointers and strides
 *   form=             layout: how tests lay the tensors out
 *   overlap=1         see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_mla_append(rfg_context *ctx, const rfg_tensor *kv, const rfg_tensor *latent,
                                                   const rfg_tensor *k_rope, const rfg_tensor *slots,
                                                   const rfg_mla_append_params *params, rfg_stream stream);

typedef struct rfg_mla_gather_params {
    size_t size;                   /* sizeof(rfg_mla_gather_params): see rfg/core.h. All other members may be zero */
    const rfg_tensor *block_table; /* [B,n] int32, unit column stride; or NULL */
    /* The other form of a table: int32 [B+1] and [n]. Both or neither; not with block_table. */
    const rfg_tensor *kv_indptr, *kv_indices;
    const rfg_tensor *first; /* [B] int32: the key of each sequence's first row; NULL: 0 */
    const rfg_tensor
        *kv_scale; /* [1] f32, with a plain kv of 8 bits: what a code times the scale stands for; NULL: 1 */
    rfg_mla_format format;
    int32_t reserved; /* 0 */
} rfg_mla_gather_params;
#define RFG_MLA_GATHER_PARAMS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(rfg_mla_gather_params), NULL, NULL, NULL, NULL, NULL, RFG_MLA_PLAIN, 0                                  \
    }

/* Reads rows back from the cache, one after another: for the prefill of a chunk, which attends to the keys before it
 * unabsorbed (vLLM's gather_and_maybe_dequant_cache).
 *
 *   rows        [N,D]        bf16 or fp16; unit stride in the last dimension
 *   kv          the cache: above. Its dtype is rows', or 8 bits; without a table block b is all of sequence b
 *   cu_seqlens  [B+1] int32  rows cu_seqlens[b] to cu_seqlens[b+1] - 1 are sequence b's keys first[b], first[b] + 1, ...
 *                            Rising; read by the device
 *   params      or NULL: no table, plain
 *
 * Tables are as rfg_op_mla_decode() has them. Bits are copied without a change of dtype. Else an element is its code
 * times its scale in fp32, rounded to nearest even. RFG_MLA_V32 and V4 give bf16. D is a multiple of 32.
 * What the device reads is kept within the tensors: a key below 0 or beyond what the sequence's blocks hold counts as the
 * nearest that they hold, kv_indptr's values and block numbers too. Rows of no sequence, and those of one without blocks,
 * are not written.
 * Aliasing: rows may not overlap anything else. Pointers and strides that are whole multiples of 16 bytes are fast.
 * Asynchronous, legal in captured graphs whose tables and cu_seqlens change between replays; errors, warm-up: as
 * rfg_op_gemm().
 *
 * Problem string: "mla_gather e4m3->bf16 N=8192 D=576 B=4 page=64 format=v32" (kv -> rows). Its keys:
 *   N=, D=, B=   rows, elements of a row, sequences
 *   page=        keys of a block; 0: no table
 *   format=      v32, v4
 *   scale=1      kv_scale
 *   first=1      first
 *   table=       layout: block or indices
 *   align=       layout: alignment of pointers and strides
 *   form=        layout: how tests lay the tensors out
 *   overlap=1    see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_mla_gather(rfg_context *ctx, const rfg_tensor *rows, const rfg_tensor *kv,
                                                   const rfg_tensor *cu_seqlens, const rfg_mla_gather_params *params,
                                                   rfg_stream stream);

/* ---- decode ------------------------------------------------------------------------------------------------------ */

typedef struct rfg_mla_params {
    size_t size; /* sizeof(rfg_mla_params): see rfg/core.h. All members but scale may be zero */
    /* Must be given. It is 1 / sqrt(elements of an unabsorbed head), 192 for DeepSeek V3, times what the model's YaRN has
     * (mscale squared). rfg can't know it: it is not 1 / sqrt(D). */
    float scale;
    float soft_cap; /* 0: none; else > 0 */
    int32_t causal;
    /* A hint: an upper bound of the kv lengths. It decides how many workgroups share a sequence. Longer
     * sequences, up to what the tensors hold, still give right results. 0: what the tensors hold. */
    int32_t max_seqlen_k;
    const rfg_tensor *q_rope;      /* the rope part of q, if it is a tensor apart: see rfg_op_mla_decode() */
    const rfg_tensor *block_table; /* [B,n] int32, unit column stride; or NULL */
    /* The other form of a table: int32 [B+1] and [n]. Both or neither; not with block_table. */
    const rfg_tensor *kv_indptr, *kv_indices;
    const rfg_tensor *kv_lens; /* [B] int32, or NULL */
    const rfg_tensor *sinks;   /* [Hq] f32 or q's dtype, or NULL */
    const rfg_tensor *lse;     /* output, f32, natural logarithm; or NULL */
    const rfg_tensor
        *kv_scale; /* [1] f32, with a plain kv of 8 bits: what a code times the scale stands for; NULL: 1 */
    /* [B] int32, with causal: the position of each sequence's first query; NULL: its queries are its last keys. */
    const rfg_tensor *q_positions;
    rfg_mla_format format;
    /* Context parallelism, with q_positions: key j is the sequence's key (j / L) n L + rank L + j % L, with n = cp_size
     * ranks that take turns of L = cp_interleave keys. 0 and 1 are the same: key j is the sequence's key j. */
    int32_t cp_size, cp_rank, cp_interleave;
} rfg_mla_params;
#define RFG_MLA_PARAMS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(rfg_mla_params), 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, RFG_MLA_PLAIN, 0, 0, \
            0                                                                                                          \
    }

/* Multi-head latent attention, decode: 1 to 8 queries a sequence against a cache with one row a key, which all heads
 * share (DeepSeek V2 to V3.2, Kimi K2, GLM-5, LongCat). This is the absorbed form: q is multiplied by W_UK before the
 * call, and out by W_UV after it. The first Dv elements of a row are both a part of the key and the value; the other
 * D - Dv are the key's rotated part. For query i of a sequence's Sq and key j of its Skv, with at = i + Skv - Sq:
 *
 *   s[i,j] = scale q[i] . kv[j]                       over all D elements
 *   s[i,j] = soft_cap tanh(s[i,j] / soft_cap)         if soft_cap > 0
 *   key j is masked if causal and j > at              with q_positions: if its place in the sequence > q_positions[b] + i
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
 *   kv           the cache, as above: q's dtype, or 8 bits. Without a table: block b is all of sequence b, [B,S,D]
 *   block_table  [B,n] int32 (of params)      key j of sequence b is row j % page of block block_table[b, j / page]
 *   kv_indptr, kv_indices (of params)         the blocks of sequence b are kv_indices[kv_indptr[b]] to
 *                                             kv_indices[kv_indptr[b+1] - 1]
 *   kv_lens      [B] int32 (of params)        keys of each sequence, its queries' own included; NULL: all rows of its
 *                                             blocks
 *   q_positions  [B] int32 (of params)        INT32_MAX - 64 at most; more counts as that
 *   lse          [B,Hq,Sq] f32, any strides   ([B,Hq] without Sq)
 *
 * Of RFG_MLA_V32 and V4 (q of bf16) an element is its code times its scale in fp32, rounded to bf16. V4's value is all of a row (Dv = 512), or its first 448.
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
 * A kernel divides a sequence's keys by its length alone, and combines the parts in their order. So the bits of a query's
 * out and lse depend on its q, its position, the keys that it sees, the params, and the kernel. They don't depend on other
 * sequences, heads or queries. Which kernel (and with how many parts) the device uses may depend on B, max_seqlen_k and
 * what the tensors hold: batch_invariant of rfg_context_params fixes it for these dtypes, sizes and alignments.
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
 *   format=            v32, v4, with kv=e4m3
 *   positions=1        q_positions
 *   table=, q=         layout: block or indices; whole or apart
 *   align=             layout: alignment of pointers and strides
 *   form=, lens=, cp=  layout: how tests lay kv out, draw lengths, share keys among ranks
 *   invariant=1, overlap=1  see rfg/core.h
 * In columns of shapes files and tuned rows M is B, N is S and K is Hq. */
RFG_API RFG_NODISCARD rfg_status rfg_op_mla_decode(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *q,
                                                   const rfg_tensor *kv, const rfg_mla_params *params,
                                                   rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
