/* SPDX-License-Identifier: MIT */
#ifndef RFG_MOE_H
#define RFG_MOE_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- choosing a token's experts ---------------------------------------------------------------------------------- */

/* What an expert's score is made of: l, its logit as fp32. */
typedef enum rfg_moe_scoring {
    RFG_MOE_SOFTMAX = 0,      /* exp(l) / the sum of all experts' exp(l) (Mixtral, Qwen, DeepSeek V2) */
    RFG_MOE_TOPK_SOFTMAX = 1, /* l chooses; the weights are a softmax over those chosen (gpt-oss) */
    RFG_MOE_SIGMOID = 2,      /* 1 / (1 + exp(-l)) (DeepSeek V3, Llama 4) */
    RFG_MOE_SQRT_SOFTPLUS = 3 /* sqrt(log(1 + exp(l))) */
} rfg_moe_scoring;

typedef struct rfg_moe_route_params {
    size_t size;              /* sizeof(rfg_moe_route_params): see rfg/core.h. All other members may be zero */
    int64_t scoring;          /* enum rfg_moe_scoring */
    const rfg_tensor *bias;   /* [E], f32 or x's dtype, unit stride: added where experts are chosen; NULL: none */
    int64_t groups;           /* G equal groups of neighbouring experts, from 1 to 32, which divides E; 0: 1 */
    int64_t topk_groups;      /* only experts of so many groups may be chosen, from 1 to G; 0: G */
    int64_t renormalise;      /* 1: a row's weights are divided by their sum */
    int64_t shared;           /* n: experts behind those of x that every token has, from 0 to 32 */
    const rfg_tensor *tokens; /* [1] i32, read by the device: only the first min(T, tokens) rows count; NULL: all */
    float scale;              /* what weights are multiplied by, after that; 0: 1 */
    float shared_weight;      /* the weight of shared experts, as it is; 0: 1 */
} rfg_moe_route_params;
#define RFG_MOE_ROUTE_PARAMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(rfg_moe_route_params), 0, 0, 0, 0, 0, 0, 0, 0, 0                                                        \
    }

/* The k experts of each token, and their weights, from the router's logits.
 *
 *   ids      [T,k+n]  i32, row stride >= k + n, unit column stride
 *   weights  [T,k+n]  f32, row stride >= k + n, unit column stride
 *   x        [T,E]    bf16, fp16 or fp32; row stride >= E, unit column stride; E from 1 to 1024
 *   params   or NULL: RFG_MOE_SOFTMAX, without anything else
 *
 * k is what ids have besides the n shared experts: from 1 to 32, at most E topk_groups / G.
 *
 *   score    s[e], of the logit l[e], by `scoring`
 *   choice   c[e] = s[e] + bias[e]; RFG_MOE_TOPK_SOFTMAX: l[e] + bias[e]
 *   groups   a group's is its largest c; with a bias the sum of its two largest (of groups of one: the largest).
 * Experts of any but the topk_groups largest groups can't be chosen ids      of the k largest c, from the largest down
 *   weights  s[id], without the bias; RFG_MOE_TOPK_SOFTMAX: exp(c[id]) / the sum of those k, with it
 *   then     / their sum, if `renormalise`; x scale
 *   shared   slots k to k + n - 1: ids E to E + n - 1 of weight shared_weight
 *
 * Of equal c, and of equal groups, those of the lower index come first. Scores rise with their logits, so without a
 * bias the logits choose, exactly, whatever scores are rounded to. Sums and scores are fp32's; weights are within 1e-4
 * of the formula, relatively. Scores below 2^-126 count as 0. A row's results depend on nothing but the row: they are
 * the same bits every time and for any T.
 *
 * A NaN logit counts as -infinity, and its c, like one that bias makes a NaN, is -infinity, too. An infinite logit is
 * what the formula tends to: of several +infinities each has an equal share of a softmax, as each expert has in a row
 * of -infinities; other scores of -infinity are 0, of +infinity 1 and +infinity. A sum that is 0 or infinite is no
 * divisor: the largest of the weights then share 1 equally, and the others are 0. So a row of NaN alone gives ids 0 to
 * k - 1.
 *
 * Rows from `tokens` on (all, if it is negative) get ids of -1 and weights of 0 in all slots, shared ones too: a
 * captured graph serves any number of tokens up to T.
 *
 * T = 0 does nothing. Pointers must be aligned to their element's size; T and strides <= 2^31 - 1. Aliasing: neither
 * output may overlap any other tensor (refused). Asynchronous, errors, warm-up: as rfg_op_gemm().
 * Sources: DeepSeek-AI, DeepSeek-V3 Technical Report (2024), section 2.1.2, and its inference code's Gate; OpenAI's
 * gpt-oss reference code (MLPBlock); vLLM's grouped_topk().
 *
 * Problem string: "moe_route bf16->f32 T=8 E=256 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1 shared=1".
 * score: softmax, topk_softmax, sigmoid or sqrt_softplus; btype=f32: the bias' dtype, where x's is another; tokens=1:
 * there is such a tensor. Of the layout, which tuned rows don't go by: ldx=, ldi=, ldw=: row strides of x, ids and
 * weights in elements, where rows don't follow one another. overlap=1: as for rfg_op_gemm(). */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe_route(rfg_context *ctx, const rfg_tensor *ids, const rfg_tensor *weights,
                                                  const rfg_tensor *x, const rfg_moe_route_params *params,
                                                  rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
