/* SPDX-License-Identifier: MIT */
#ifndef RFG_MOE_H
#define RFG_MOE_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    size_t size;     /* sizeof(rfg_moe_align_params): see rfg/core.h */
    int32_t format;  /* rfg_moe_format */
    int32_t block;   /* rows that an expert's segment is a multiple of, of the formats that pad; 0: 1 */
    int64_t experts; /* E, from 1 to 1024: of expert_map's values, else of the ids; 0: 1 */
    /* Outputs, as below. */
    const rfg_tensor *offsets, *block_experts, *count, *weights_out, *places;
    /* Inputs, as below. */
    const rfg_tensor *weights, *expert_map, *tokens;
} rfg_moe_align_params;
#define RFG_MOE_ALIGN_PARAMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(rfg_moe_align_params), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                  \
    }

/* Sorts the pairs of tokens and experts that routing chose by expert, stably: an expert's rows are in the order of
 * t k + j. The order is by rank, not by who comes first, so results are the same every time.
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
 * Problem string: "moe_align i32->i32 T=64 top=8 E=256", and map=G: there is an expert_map of G; tokens=1, weights=1,
 * places=1: there are these; format=vllm (aiter, contiguous, masked) with block=64. Of the layout, which tuned rows
 * don't go by: rows=: R (MASKED: C) where it is not L (MASKED: T); ldi=, ldw=, ldp=: row strides of ids, weights and
 * places where rows don't follow one another. overlap=1: as for rfg_op_gemm(). */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe_align(rfg_context *ctx, const rfg_tensor *rows, const rfg_tensor *ids,
                                                  const rfg_moe_align_params *params, rfg_stream stream);

/* ---- summing a token's experts ----------------------------------------------------------------------------------- */

typedef struct rfg_moe_sum_params {
    size_t size;                /* sizeof(rfg_moe_sum_params): see rfg/core.h. All other members may be zero */
    const rfg_tensor *weights;  /* [T,k] f32, row stride >= k, unit column stride; NULL: 1 */
    const rfg_tensor *residual; /* [T,N], y's dtype, row stride >= N, unit column stride; may be y itself; NULL: none */
    const rfg_tensor *tokens;   /* [1] i32: only the first min(T, tokens) rows of y are written; NULL: all */
} rfg_moe_sum_params;
#define RFG_MOE_SUM_PARAMS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(rfg_moe_sum_params), 0, 0, 0                                                                            \
    }

/* Y[t] = the sum over slots j of weights[t,j] X[places[t,j]], plus residual[t]: what the experts made of each token.
 *
 *   y       [T,N]  bf16, fp16 or fp32; row stride >= N, unit column stride; what lies between the rows is not touched
 *   x       [R,N]  bf16, fp16 or fp32; row stride >= N, unit column stride
 *   places  [T,k]  i32, k from 1 to 32, row stride >= k, unit column stride: rows of x, as rfg_op_moe_align() gives
 * them params  or NULL
 *
 * A place that is no row of x (below 0, or from R on) counts as not there; nothing outside of x is read, and its weight
 * doesn't matter. The sum is fp32's, from 0 in the order of the slots, then the residual; a product may be fused with
 * its sum. It is rounded once, to nearest even. No atomics: the same bits every time.
 * T = 0 or N = 0 does nothing, R = 0 gives the residual, or zeros. Pointers must be aligned to their element's size; T,
 * N, R, T k and strides <= 2^31 - 1, T times the chunks of 16 bytes in a row of x < 2^31 - 4096. Aliasing: y may not
 * overlap any other tensor (refused) but be the residual: the same elements at the same places. Asynchronous, errors,
 * warm-up: as rfg_op_gemm().
 * Problem string: "moe_sum bf16->bf16 T=8 N=7168 top=8", and weights=1, residual=1, tokens=1: there are these;
 * inplace=1: the residual is y. Of the layout, which tuned rows don't go by: R=: rows of x, where they are not T top
 * (-1: none); ldx=, ldy=, ldr=, ldp=, ldw=: row strides of x, y, residual, places and weights in elements, where rows
 * don't follow one another; align=, align_y=: where x's, and y's and the residual's pointers and row strides are
 * multiples of fewer than 16 bytes. overlap=1: as for rfg_op_gemm(). */
RFG_API RFG_NODISCARD rfg_status rfg_op_moe_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                                const rfg_tensor *places, const rfg_moe_sum_params *params,
                                                rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
