/* SPDX-License-Identifier: MIT */
#ifndef RFG_MOE_H
#define RFG_MOE_H

#include "rfg/act.h"
#include "rfg/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of what these operators have. (The grouped product takes more: rfg/gemm.h.) */
#define RFG_MOE_MAX_EXPERTS 8192
#define RFG_MOE_IDENTITY    (-2) /* a place: not a row, but the token itself */

/* ---- choosing a token's experts ---------------------------------------------------------------------------------- */

/* What an expert's score is made of: l, its logit as fp32. */
typedef enum rfg_moe_scoring {
    RFG_MOE_SOFTMAX = 0,      /* exp(l) / the sum of all experts' exp(l) (Mixtral, Qwen, DeepSeek V2) */
    RFG_MOE_TOPK_SOFTMAX = 1, /* l chooses; the weights are a softmax over those chosen (gpt-oss) */
    RFG_MOE_SIGMOID = 2,      /* 1 / (1 + exp(-l)) (DeepSeek V3, Llama 4) */
    RFG_MOE_SQRT_SOFTPLUS = 3 /* sqrt(log(1 + exp(l))) */
} rfg_moe_scoring;

typedef struct rfg_moe_route_params {
    size_t size; /* sizeof(rfg_moe_route_params): see rfg/core.h. All other members may be zero */
    rfg_moe_scoring scoring;
    int32_t renormalise;      /* 1: a row's weights are divided by their sum */
    const rfg_tensor *bias;   /* [E], f32 or x's dtype, unit stride: added where experts are chosen; NULL: none */
    int64_t groups;           /* G equal groups of neighbouring experts: 1, 2, 4, 8, 16 or 32, which divides E; 0: 1 */
    int64_t topk_groups;      /* only experts of so many groups may be chosen, from 1 to G; 0: G */
    int64_t shared;           /* n: experts behind those of x that every token has, from 0 to 32 */
    const rfg_tensor *tokens; /* [1] i32, read by the device: only the first min(T, tokens) rows count; NULL: all */
    float scale;              /* what weights are multiplied by, after that; 0: 1 */
    float shared_weight;      /* the weight of shared experts, as it is; 0: 1 */
    /* Experts that the caller says (hash routing; DeepSeek V4's tid2eid, vLLM's hash_indices_table), or NULL: */
    const rfg_tensor *table; /* [V,k] i32, row stride >= k, unit column stride; goes without bias and groups */
    const rfg_tensor
        *token_ids; /* [T] i32 or i64, unit stride: a token's row of the table. NULL: token t's is t, V = T */
} rfg_moe_route_params;
#define RFG_MOE_ROUTE_PARAMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(rfg_moe_route_params), RFG_MOE_SOFTMAX, 0, NULL, 0, 0, 0, NULL, 0, 0, NULL, NULL                        \
    }

/* The k experts of each token, and their weights, from the router's logits.
 *
 *   ids      [T,k+n]  i32, row stride >= k + n, unit column stride
 *   weights  [T,k+n]  f32, row stride >= k + n, unit column stride
 *   x        [T,E]    bf16, fp16 or fp32; row stride >= E, unit column stride; E from 1 to
 *                     RFG_MOE_MAX_EXPERTS
 *   params   or NULL: RFG_MOE_SOFTMAX, without anything else
 *
 * k is what ids have besides the n shared experts: from 1 to 32, at most E topk_groups / G.
 *
 *   score    s[e], of the logit l[e], by `scoring`
 *   choice   c[e] = s[e] + bias[e]; RFG_MOE_TOPK_SOFTMAX: l[e] + bias[e]
 *   groups   a group's is its largest c; with a bias the sum of its two largest (of groups of one: the largest);
 *            only experts of the topk_groups largest groups can be chosen
 *   ids      of the k largest c, from the largest down
 *   weights  s[id], without the bias; RFG_MOE_TOPK_SOFTMAX: exp(c[id]) / the sum of those k, with it
 *   then     / their sum, if `renormalise`; x scale
 *   shared   slots k to k + n - 1: ids E to E + n - 1 of weight shared_weight
 *   table    ids[t,j] = table[token_ids[t],j], whatever their logits; only the weights are those of the logits, as
 *            above. An id that is no expert, from 0 to E - 1, comes out as -1 with a weight of 0, which no sum counts;
 *            so do all k of a token id that is no row of the table
 *
 * Of equal c, and of equal groups, those of the lower index come first. Scores rise with their logits, so without a
 * bias the logits choose, exactly, whatever scores are rounded to. Sums and scores are fp32's; weights are within 1e-4
 * of the formula, relatively. Scores below 2^-126 count as 0. A row's results depend on nothing but the row: they are
 * the same bits every time and for any T.
 *
 * A NaN logit counts as -infinity, and its c is -infinity, too, like a c that bias makes a NaN. An infinite logit gives
 * what the formula tends to. In a softmax several +infinities have equal shares, and so has each expert in a row of
 * -infinities. Of the other scores -infinity gives 0, +infinity 1 (sigmoid) and +infinity (sqrt_softplus). Nothing is
 * divided by a sum that is 0 or infinite: the largest of the weights then share 1 equally, and the others are 0. So a
 * row of NaN alone gives ids 0 to k - 1.
 *
 * Rows from `tokens` on (all, if it is negative) get ids of -1 and weights of 0 in all slots, shared ones too. So a
 * captured graph serves any number of tokens up to T.
 *
 * T = 0 does nothing. Pointers must be aligned to their element's size; T and strides <= 2^31 - 1. Aliasing: neither
 * output may overlap any other tensor (refused). Asynchronous, errors, warm-up: as rfg_op_gemm().
 * Sources: DeepSeek-AI, DeepSeek-V3 Technical Report (2024), section 2.1.2, and its inference code's Gate; OpenAI's
 * gpt-oss reference code (MLPBlock); vLLM's grouped_topk().
 *
 * Problem string: "moe_route bf16->f32 T=8 E=256 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1 shared=1".
 *   score=              softmax, topk_softmax, sigmoid, sqrt_softplus
 *   bias=1, tokens=1    the member is given
 *   btype=f32           dtype of the bias, if it is not x's
 *   table=              V, with a table
 *   token_ids=          i32, i64: their dtype
 *   ldx=, ldi=, ldw=, ldt=  layout: row strides of x, ids, weights and the table
 *   overlap=1           see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe_route(rfg_context *ctx, const rfg_tensor *ids, const rfg_tensor *weights,
                                                  const rfg_tensor *x, const rfg_moe_route_params *params,
                                                  rfg_stream stream);

/* ---- sorting tokens by expert ------------------------------------------------------------------------------------ */

/* What rfg_op_moe_align() writes, and for whom. E: experts, B: block, a pair: a token t and its slot j of k. */
typedef enum rfg_moe_format {
    /* This library's grouped products: offsets [E+1]; rows: tokens. Segments follow one another. */
    RFG_MOE_PLAIN = 0,
    /* vLLM's and SGLang's moe_align_block_size. rows (sorted_token_ids): t k + j, padding T k; block_experts
     * (expert_ids); count (num_tokens_post_padded) [1]. */
    RFG_MOE_VLLM = 1,
    /* AITER's moe_sorting. rows (sorted_ids): j << 24 | t, padding k << 24 | T; block_experts (sorted_expert_ids);
     * count (num_valid_ids) [2]: padded rows, tokens. weights_out (sorted_weights). */
    RFG_MOE_AITER = 2,
    /* DeepGEMM's contiguous layout. rows: tokens, padding -1; block_experts (m_indices): of each row, padding -1. */
    RFG_MOE_CONTIGUOUS = 3,
    /* DeepGEMM's masked layout. rows [E,C]: tokens; count (masked_m) [E]: how many rows of each expert there are. */
    RFG_MOE_MASKED = 4,
} rfg_moe_format;

typedef struct rfg_moe_align_params {
    size_t size; /* sizeof(rfg_moe_align_params): see rfg/core.h */
    rfg_moe_format format;
    int32_t block;   /* rows that an expert's segment is a multiple of, of the formats that pad; 0: 1 */
    int64_t experts; /* E, from 1 to RFG_MOE_MAX_EXPERTS: of expert_map's values, else of the ids; 0: 1 */
    /* Outputs, as below. */
    const rfg_tensor *offsets, *block_experts, *count, *weights_out, *places;
    /* Inputs, as below. */
    const rfg_tensor *weights, *expert_map, *tokens;
    int64_t identity; /* Z: ids behind the experts' that stand for the token itself, as below; from 0 to 65536 */
} rfg_moe_align_params;
#define RFG_MOE_ALIGN_PARAMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(rfg_moe_align_params), RFG_MOE_PLAIN, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0           \
    }

/* Sorts the pairs of tokens and experts that routing chose by expert, stably: an expert's rows are in the order of
 * t k + j. The order doesn't depend on which thread comes first, so results are the same every time.
 *
 *   rows           [R]    i32, unit stride: what stands for each sorted row, by format; MASKED: [E,C], packed
 *   ids            [T,k]  i32, k from 1 to 32, row stride >= k, unit column stride; read by the device
 *   params:
 *   offsets        [E+1]  i32; PLAIN only, which must have it: rows offsets[e] to offsets[e+1] - 1 are expert e's;
 *                         offsets[0] is 0
 *   block_experts  i32; VLLM, AITER: [ceil(R / B)], the expert of each block of rows, -1 behind the last one;
 *                         CONTIGUOUS: [R]; these must have it, the others have none
 *   count          i32; VLLM [1], AITER [2], MASKED [E] must have it, the others have none
 *   weights_out    f32, rows' shape: the weight of each row, 0 of padding
 *   weights        [T,k]  f32, row stride >= k, unit column stride; goes with weights_out
 *   places         [T,k]  i32, row stride >= k, unit column stride: the row of each pair (MASKED: e C + its place), -1
 *                         of those that have none; or NULL
 *   expert_map     [G]    i32: an id is an index to it, what stands there the expert (vLLM's expert_map, AITER's mask
 *                         renumbered), -1 one of another rank. NULL: ids are experts
 *   tokens         [1]    i32: only the first min(T, tokens) rows of ids count (none if it is negative). NULL: all
 *
 * A pair whose id, or its expert, is out of range (also padding of -1) is not local: it has no row. Its place is -1, as
 * is that of pairs of tokens that don't count.
 * Ids from E (with a map G) to that + Z - 1 are zero-computation experts (LongCat-Flash: E 512, Z 256), which have no
 * row either. Their place is RFG_MOE_IDENTITY; there must be places. Identity is the only zero_expert_type of LongCat's
 * configs and of vLLM. Zero experts (MoE++) are ids behind those. Its constant experts, which nobody serves, are left
 * out.
 * R >= L, the most rows that there may be: T k, with B > 1 T k + min(E, T k) (B - 1), down to a multiple of B. All of
 * AITER's, DeepGEMM's and vLLM's own sizes are at least that. VLLM, AITER and CONTIGUOUS write all of rows, weights_out
 * and block_experts: padding, 0 and -1 behind the last segment. PLAIN and MASKED write nothing behind the rows that
 * there are. MASKED: of an expert with more than C rows the first C.
 * AITER's count[1] is the number of tokens that count.
 *
 * T = 0 writes what no rows give. AITER: T < 2^24. T k, R and E C <= 2^31 - 1; pointers must be aligned to their
 * element's size. Aliasing: no output may overlap any other tensor (refused). Asynchronous, errors, warm-up: as
 * rfg_op_gemm().
 * Sources of the layouts: vLLM's moe_align_block_size, AITER's moe_sorting and its tests, DeepGEMM's README.
 *
 * Problem string: "moe_align i32->i32 T=64 top=8 E=256" (ids -> rows). Its keys:
 *   map=                            G, with an expert_map
 *   tokens=1, weights=1, places=1   the member is given
 *   identity=                       Z
 *   format=                         vllm, aiter, contiguous, masked; block=: of the formats that pad
 *   rows=                           layout: R if it is not L (MASKED: C if it is not T)
 *   ldi=, ldw=, ldp=                layout: row strides of ids, weights and places
 *   overlap=1                       see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe_align(rfg_context *ctx, const rfg_tensor *rows, const rfg_tensor *ids,
                                                  const rfg_moe_align_params *params, rfg_stream stream);

/* ---- norm, router, choice and order, at once --------------------------------------------------------------------- */

typedef struct rfg_moe_gate_params {
    size_t size; /* sizeof(rfg_moe_gate_params): see rfg/core.h */
    /* Of the choice, as of rfg_moe_route_params. */
    rfg_moe_scoring scoring;
    int32_t renormalise;
    const rfg_tensor *bias;
    int64_t groups, topk_groups, shared;
    const rfg_tensor *tokens;
    float scale, shared_weight;
    /* Of the norm, as of rfg_op_rmsnorm(): */
    const rfg_tensor *norm;   /* [H], x's dtype: its weights; NULL: there is none */
    const rfg_tensor *normed; /* [T,H], x's dtype, packed: an output, what rfg_op_moe() reads; goes with norm */
    float eps;                /* 0 without a norm */
    int32_t one_plus_weight;  /* 1: the weights are 1 + norm */
    const rfg_tensor *w_bias; /* [E], x's dtype: added to the logits; NULL: none */
    /* Outputs, as RFG_MOE_PLAIN of rfg_op_moe_align() has them, of E + n experts. All must be given, packed. */
    const rfg_tensor *rows;    /* [T (k+n)] i32 */
    const rfg_tensor *offsets; /* [E+n+1] i32 */
    const rfg_tensor *sorted;  /* [T (k+n)] f32: the weight of each row */
    const rfg_tensor *places;  /* [T,k+n] i32 */
} rfg_moe_gate_params;
#define RFG_MOE_GATE_PARAMS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(rfg_moe_gate_params), RFG_MOE_SOFTMAX, 0, NULL, 0, 0, 0, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL,      \
            NULL, NULL, NULL                                                                                           \
    }

/* What a mixture of experts does before its products, for few tokens, in one launch: rfg_op_rmsnorm(), the router's
 * rfg_op_gemm(), rfg_op_moe_route() and rfg_op_moe_align(), which are four.
 *
 *   ids      [T,k+n]  i32, and
 *   weights  [T,k+n]  f32: as of rfg_op_moe_route(), packed
 *   x        [T,H]    bf16 or fp16, packed: T from 0 to 64, H a multiple of 8 up to 8192
 *   w        [E,H]    x's dtype, packed: the router's weights; E from 1 to 1024
 *   params   rows, offsets, sorted and places must be given
 *
 *   normed   x[t] rsqrt(mean(x[t]^2) + eps) norm (or (1 + norm)), rounded once to x's dtype; without a norm x itself
 *   logits   l[t,e] = the sum over h of normed[t,h] w[e,h], in fp32, plus w_bias[e]; they aren't rounded
 *   then     as rfg_op_moe_route() and rfg_op_moe_align()
 *
 * T (k + n) is at most 1024. Rows from `tokens` on: normed isn't written, ids are -1, weights 0, and no row is theirs.
 * rows and sorted behind the last pair that has an expert are not written. A token's sums are added in an order that
 * depends on the device alone: its results are the same bits every time and for any T.
 * T = 0 does nothing. x, w, norm and normed must be aligned to 16 bytes, the others to their element's size. Aliasing:
 * no output may overlap any other tensor (refused). Asynchronous, errors, warm-up: as rfg_op_gemm().
 * Sources: as of rfg_op_moe_route(); one launch for all of it: AITER's and TensorRT-LLM's fused routers.
 *
 * Problem string: "moe_gate bf16->f32 T=1 E=256 K=7168 top=8 norm=w score=sigmoid bias=1 btype=f32 groups=8 top_groups=4
 * renorm=1 shared=1". K is H; its keys, besides those of moe_route of the same names:
 *   norm=w, 1+w         there is a norm, by norm or 1 + norm
 *   wbias=1             there is a w_bias
 *   overlap=1           see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe_gate(rfg_context *ctx, const rfg_tensor *ids, const rfg_tensor *weights,
                                                 const rfg_tensor *x, const rfg_tensor *w,
                                                 const rfg_moe_gate_params *params, rfg_stream stream);

/* ---- summing a token's experts ----------------------------------------------------------------------------------- */

typedef struct rfg_moe_sum_params {
    size_t size;                /* sizeof(rfg_moe_sum_params): see rfg/core.h. All other members may be zero */
    const rfg_tensor *weights;  /* [T,k] f32, row stride >= k, unit column stride; NULL: 1 */
    const rfg_tensor *residual; /* [T,N], y's dtype, row stride >= N, unit column stride; may be y itself; NULL: none */
    const rfg_tensor *tokens;   /* [1] i32: only the first min(T, tokens) rows of y are written; NULL: all */
    /* What places of RFG_MOE_IDENTITY add, or NULL, both: */
    const rfg_tensor *identity;         /* [T,N], x's dtype, row stride >= N, unit column stride */
    const rfg_tensor *identity_weights; /* [T,k] f32, row stride >= k, unit column stride */
} rfg_moe_sum_params;
#define RFG_MOE_SUM_PARAMS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(rfg_moe_sum_params), 0, 0, 0, 0, 0                                                                      \
    }

/* Sums each token's expert outputs: Y[t] = the sum over slots j of weights[t,j] X[places[t,j]], plus residual[t].
 *
 *   y       [T,N]  bf16, fp16 or fp32; row stride >= N, unit column stride; gaps between rows are not written
 *   x       [R,N]  bf16, fp16 or fp32; row stride >= N, unit column stride
 *   places  [T,k]  i32, k from 1 to 32, row stride >= k, unit column stride: rows of x, of rfg_op_moe_align()
 *   params  or NULL
 *
 * A place of RFG_MOE_IDENTITY adds identity_weights[t,j] identity[t], in its slot's turn, if these are given. Any other
 * place outside of x (below 0, or R and above) adds nothing, whatever its weight; nothing outside of x is read. The
 * sum is in fp32, from 0 in the order of the slots, then the residual; multiply and add may be fused. It is rounded
 * once, to nearest even. There are no atomics: the bits are the same every time.
 * T = 0 or N = 0 does nothing, R = 0 gives the residual, or zeros. Pointers must be aligned to their element's size; T,
 * N, R, T k and strides <= 2^31 - 1, T times the chunks of 16 bytes in a row of x < 2^31 - 4096. Aliasing: y may not
 * overlap any other tensor (refused) but be the residual: the same elements at the same places. Asynchronous, errors,
 * warm-up: as rfg_op_gemm().
 *
 * Problem string: "moe_sum bf16->bf16 T=8 N=7168 top=8" (x -> y). Its keys:
 *   weights=1, residual=1, tokens=1  the member is given
 *   identity=1                       both members are
 *   inplace=1                        the residual is y
 *   R=                               layout: rows of x, if they are not T top (-1: none)
 *   ldx=, ldy=, ldr=, ldp=, ldw=     layout: row strides of x, y, residual, places and weights
 *   ldi=, ldiw=                      layout: of identity and identity_weights
 *   align=, align_y=                 layout: alignment of x and identity; of y and the residual
 *   overlap=1                        see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                                const rfg_tensor *places, const rfg_moe_sum_params *params,
                                                rfg_stream stream);

/* ---- a mixture of experts ---------------------------------------------------------------------------------------- */

typedef struct rfg_moe_params {
    size_t size; /* sizeof(rfg_moe_params): see rfg/core.h. All other members may be zero */
    /* E; 0: w1 has three dimensions. From 1 to RFG_MOE_MAX_EXPERTS; with an expert_map those of this rank. */
    int64_t experts;
    rfg_act act;     /* any but RFG_ACT_NONE */
    rfg_gates gates; /* how the rows of an expert's w1 lie: its first I are gate's, the others up's, or interleaved */
    float limit;     /* of act, as of rfg_gemm_params */
    float alpha;     /* the same */
    int32_t weights_first; /* not 0: weights multiply before the activation (Llama 4; AITER's doweight_stage1) */
    int32_t fast_accum;    /* as of rfg_gemm_params */
    rfg_gemm_scale x_per;  /* with w1 and w2 of 8 bits, or of mx formats: what shares a scale in x and in the rows */
    rfg_gemm_scale w_per;  /* between the products, and what in w1 and w2 */
    /* As bias, w_scale and w_zero of a grouped product, or NULL. */
    const rfg_tensor *w1_bias, *w2_bias, *w1_scale, *w2_scale, *w1_zero, *w2_zero;
    const rfg_tensor *x_scale;    /* of codes: below; or NULL */
    const rfg_tensor *h_scale;    /* the same */
    const rfg_tensor *expert_map; /* as of rfg_op_moe_align(), or NULL */
    const rfg_tensor *tokens;     /* the same */
    const rfg_tensor *residual;   /* [T,H], y's dtype, added (that of a shared expert); may be y itself; or NULL */
    void *workspace;              /* device memory, aligned to 256 bytes; contents undefined, before and after; or NULL:
                                   * the stream's, see rfg_op_moe() */
    size_t workspace_bytes;       /* at least what rfg_moe_workspace_bytes() says; of NULL 0 */
    /* With x_per group: the dtype to which an x of floats, and the rows between the products, are quantised: e4m3, or
     * e2m1 with w1 of e2m1. 0: x's if x is of codes, otherwise w1's. With w1 of 8 bits: x's dtype, bf16 or fp16, leaves
     * both as they are (W8A16), with x_per tensor. */
    rfg_dtype x_codes;
    rfg_scale_rounding rounding; /* of their e8m0 scales; 0: RFG_SCALE_UP */
    float situ_beta;             /* of act, as of rfg_act_params */
    float situ_linear_beta;      /* the same */
    /* Z, zero-computation experts (LongCat-Flash): ids as of rfg_op_moe_align(), each of which adds the token itself,
     * times its weight. (Of several ranks only one should say it.) Ids behind these add nothing. */
    int64_t identity;
    const rfg_tensor *identity_x;            /* [T,H], y's dtype: what those add; NULL: x, which is then of y's dtype */
    const rfg_tensor *w1_global, *w2_global; /* [E] f32, as w_global of a grouped product (nvfp4), or NULL */
    /* What rfg_op_moe_gate(), or rfg_op_moe_align() with weights_out, made of ids and weights, packed: then they aren't
     * sorted again. All or none; without expert_map and identity. */
    const rfg_tensor *rows, *offsets, *sorted, *places;
} rfg_moe_params;
#define RFG_MOE_PARAMS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(rfg_moe_params), 0, RFG_ACT_SILU, RFG_GATES_HALVES, 0, 0, 0, 0, RFG_GEMM_SCALE_TENSOR,                  \
            RFG_GEMM_SCALE_TENSOR, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0,          \
            RFG_DTYPE_NONE, RFG_SCALE_EXACT, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL                         \
    }

/* A mixture of experts: Y[t] = the sum over slots j of weights[t,j] W2[e] (act(G[e] x[t]) * U[e] x[t]), e = ids[t,j],
 * plus residual[t]. G and U are gate's and up's rows of W1 (vLLM's fused_experts, AITER's fused_moe). A slot whose id
 * is one of `identity` adds weights[t,j] x[t] in their place.
 *
 *   y        [T,H]   bf16, fp16 or fp32; row stride >= H, unit column stride
 *   x        [T,H]   as x of rfg_op_gemm()
 *   w1       [E,2I,H], and
 *   w2       [E,H,I] as w of a grouped product of rfg_op_gemm(), or as [E 2I,H], [E H,I], or prepacked; of one dtype
 *   ids      [T,k]   i32, of rfg_op_moe_route(); ids out of range and those of other ranks' experts are skipped
 *   weights  [T,k]   f32
 *
 * It is made of four operators: rfg_op_moe_align(), a grouped and gated rfg_op_gemm(), a grouped rfg_op_gemm(), and
 * rfg_op_moe_sum(), each by its own tuned rows. See them for arithmetic and limits. On AMD GPUs, up to T k = 64, the
 * last two may be one launch, with the same bits (without `identity`). With `rows` and its like the first one is left
 * out. On GPUs, up to T k = 16, it may be two launches: rows are not sorted, the products find experts by their ids, and
 * the second one sums. (Packed ids and weights, x of floats that isn't quantised, neither expert_map nor identity, no
 * batch_invariant.) The rows between the products are of x's dtype, or of y's if x is of codes. The second product's
 * rows are of y's dtype before they are summed, in the order of the slots; with two launches they are not rounded, and
 * are summed in another order. The bits are the same every time.
 *
 * With w1 and w2 of 8 bits an x of floats, and the rows between the products, are quantised by rfg_op_quantize(),
 * unless x_codes is x's dtype. That is two launches less, and faster for few tokens:
 *   x_per row, block  a scale for each row, or for each 1 x 128, of w1_scale's dtype: exact in f32, by `rounding` in
 *                     e8m0
 *   x_per tensor      by x_scale and h_scale [1], which must be given
 *   x_per group       with w_per group, mx formats, w1 and w2 of e2m1 or e4m3: a scale for each 1 x 32, to x_codes
 * An x of codes has its x_scale, as for rfg_op_gemm().
 *
 * T = 0 or H = 0 does nothing. E, k, I and H as rfg_op_moe_align() and rfg_op_gemm() have them, T k (H + I) <= 2^56.
 * Rows of y from tokens on are not written. Aliasing: y may be residual, and may not overlap anything else; the
 * workspace may overlap nothing. Asynchronous, errors, warm-up: as rfg_op_gemm(). On an error y is not written; the
 * workspace may be.
 *
 * workspace NULL: it works in memory of the stream's, beside its operators' own workspace. The context allocates that
 * memory when a call needs more than there is; in a capture such a call is NOT_READY, so call it first with the most
 * tokens. It is freed with the stream, with the context, or in rfg_stream_set_workspace(). A stream that was given its
 * workspace by that function uses what was given beyond rfg_workspace_size(); there a call that needs more is
 * INVALID_ARGUMENT. Graphs use this memory as they use the stream's workspace. */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                            const rfg_tensor *w1, const rfg_tensor *w2, const rfg_tensor *ids,
                                            const rfg_tensor *weights, const rfg_moe_params *params, rfg_stream stream);

/* The bytes of workspace that this call of rfg_op_moe() needs. Only the tensors' dtypes and shapes matter; their data
 * may be NULL. */
RFG_API RFG_NODISCARD rfg_status rfg_moe_workspace_bytes(const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w1,
                                                         const rfg_tensor *w2, const rfg_tensor *ids,
                                                         const rfg_tensor *weights, const rfg_moe_params *params,
                                                         size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
