/* SPDX-License-Identifier: MIT */
#ifndef RFG_SAMPLE_H
#define RFG_SAMPLE_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Y[m] = the column of the largest element of row m of X: greedy decoding's next token (torch.argmax, but for NaN).
 *
 *   y  [M]    i32 or i64, unit stride
 *   x  [M,V]  bf16, fp16 or fp32; row stride >= V, unit column stride
 *
 * Of equal elements the first one's column; -0 equals +0. A NaN counts as -infinity, so a row that holds nothing else
 * gives 0.
 * M = 0 does nothing, V = 0 is refused. Pointers must be aligned to their element's size; M, V and the stride <= 2^31 -
 * 1. Aliasing: y may not overlap x (refused).
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "argmax f32->i64 M=32 V=128256" (x -> y). ldx=, align=: layout, row stride and alignment of x;
 * overlap=1: see rfg/core.h. */
RFG_API RFG_NODISCARD rfg_status rfg_op_argmax(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                               rfg_stream stream);

/* What top-p takes its share of. */
typedef enum rfg_sample_order {
    RFG_SAMPLE_TOP_K_FIRST = 0, /* of what min-p and top-k left (vLLM, FlashInfer's top_k_first) */
    RFG_SAMPLE_JOINT = 1,       /* of all tokens (AITER, FlashInfer's joint) */
} rfg_sample_order;

typedef struct rfg_sample_params {
    size_t size; /* sizeof(rfg_sample_params): see rfg/core.h. All other members may be zero */
    /* One value a row, [B], unit stride, read by the device; NULL: as if all were the value in brackets. */
    const rfg_tensor *temperature; /* f32 [1] */
    const rfg_tensor *top_k;       /* i32 [0: off] */
    const rfg_tensor *top_p;       /* f32 [1: off] */
    const rfg_tensor *min_p;       /* f32 [0: off] */
    const rfg_tensor *repetition;  /* f32 [1: off] */
    const rfg_tensor *frequency;   /* f32 [0: off] */
    const rfg_tensor *presence;    /* f32 [0: off] */
    /* One value a token, [B,V], row stride >= V, unit column stride; NULL: all 0. */
    const rfg_tensor *bias;   /* f32: added to the logits; -infinity forbids a token */
    const rfg_tensor *counts; /* i32: how often the token is in what the row has generated */
    const rfg_tensor *prompt; /* i8: not 0 where the token is in the row's prompt */
    rfg_sample_order order;
    int32_t reserved; /* 0 */
} rfg_sample_params;
#define RFG_SAMPLE_PARAMS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(rfg_sample_params), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, RFG_SAMPLE_TOP_K_FIRST, 0                             \
    }

/* Y[b] = a token drawn from row b of the logits, in this order (vLLM's):
 *
 *   l       the logit as fp32, plus bias
 *   l       l > 0 ? l / repetition : l repetition, of tokens in the prompt or generated (CTRL, Keskar et al. 2019)
 *   l       l - frequency count - (count > 0 ? presence : 0) (OpenAI's API)
 *   weight  exp((l - largest l) / temperature)
 *   min-p   leaves tokens of weight >= min_p
 *   top-k   leaves the k largest l; of equal ones those of the smallest ids
 *   top-p   leaves the fewest of the largest (of equal ones those of the smallest ids) that have top_p of the weight of
 *           what the filters before left, or, RFG_SAMPLE_JOINT, of the whole row's
 *   draw    of what is left, each token by its share of the weight
 *
 *   y             [B]    i32 or i64, unit stride
 *   logits        [B,V]  bf16, fp16 or fp32; row stride >= V, unit column stride; V <= 2^20
 *   seed, offset  [B]    i64, unit stride: what the row's draw is made from; each draw takes another offset
 *   params        or NULL: by the logits alone
 *
 * The draw depends on nothing but the row's own values and parameters, its seed and its offset. So it is the same in
 * any batch, by every variant and on every device. To that end weights are integers: exp() rounded down to a multiple
 * of 2^-40, computed by fp32 operations of which each is rounded once. Their sums are exact. Tokens whose weight rounds
 * to 0 are never drawn.
 *
 * The generator is Philox 4x32-10 (Salmon et al. 2011), with the seed as key and the offset as counter. u is its first
 * two words / 2^64, the first word being the lower half. The tokens left are taken in the order of their l, the largest
 * first, equal ones by their ids, the smallest first, and their weights are added up. The first token with which this
 * sum is above u times the sum of all is drawn.
 *
 * A temperature below 1e-5, or a NaN, takes the largest l, of equal ones the one of the smallest id (greedy). One above
 * 2^20 counts as 2^20. top_k <= 0 or >= V, top_p >= 1 or NaN, min_p <= 0 or NaN are off; top_p <= 0 and top_k = 1 leave
 * one token. min_p is rounded down to a multiple of 2^-24; above 1 it counts as 1, which leaves the largest l, all that
 * are as large. A repetition that isn't between 2^-100 and 2^100 is off. A NaN among the l counts as -infinity;
 * +infinities share the draw; where all are -infinity the result is 0.
 *
 * B = 0 does nothing, V = 0 is refused. Pointers must be aligned to their element's size; B and strides <= 2^31 - 1.
 * Aliasing: y may not overlap any other tensor (refused). Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "sample f32->i64 B=32 V=128256 temperature=1 top_k=1 top_p=1" (logits -> y). Its keys:
 *   temperature=1, top_k=1, top_p=1, min_p=1, repetition=1, frequency=1, presence=1, bias=1, counts=1, prompt=1
 *                 the tensor is given
 *   joint=1       RFG_SAMPLE_JOINT
 *   ldx=, align=  layout: row stride and alignment of the logits
 *   overlap=1     see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_sample(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *logits,
                                               const rfg_tensor *seed, const rfg_tensor *offset,
                                               const rfg_sample_params *params, rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
