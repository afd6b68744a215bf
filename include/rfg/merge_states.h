/* SPDX-License-Identifier: MIT */
#ifndef RFG_MERGE_STATES_H
#define RFG_MERGE_STATES_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RFG_MERGE_MAX_STATES 1024

typedef struct rfg_merge_states_params {
    size_t size;               /* sizeof(rfg_merge_states_params): see rfg/core.h. All other members may be zero */
    const rfg_tensor *lse_out; /* output, [T,H] f32, any strides; or NULL */
    int32_t base2;             /* 0: lse and lse_out are natural logarithms; not 0: to base 2, as FlashInfer has them */
    int32_t reserved;          /* 0 */
} rfg_merge_states_params;
#define RFG_MERGE_STATES_PARAMS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(rfg_merge_states_params), NULL, 0, 0                                                                    \
    }

/* Merges n attention states. A state is what attention over some of the keys gives for a query and a head: its output o
 * and lse, the logarithm of its sum of exponentials. The n states are over disjoint sets of keys. Merged, they are what
 * attention over all of these keys would give:
 *
 *   lse_out = log(sum_i exp(lse_i))
 *   out     = sum_i exp(lse_i - lse_out) o_i
 *
 * Context parallelism, cascades (a shared prefix and each sequence's rest) and chunked prefill need it: FlashInfer's
 * merge_state() and merge_states(), vLLM's merge_attn_states(). rfg_op_mha() and rfg_op_mha_decode() make states.
 *
 *   out     [T,H,D]    bf16, fp16 or fp32
 *   o       [n,T,H,D]  bf16, fp16 or fp32; n from 1 to RFG_MERGE_MAX_STATES, D from 1 on
 *   lse     [n,T,H]    f32, any strides
 *   params  or NULL
 *
 * out and o have unit stride in the last dimension and any strides in the others, as long as no two elements of a
 * tensor are one: states in FlashInfer's [T,n,H,D] are a view with o's shape, and rfg_op_mha()'s lse of [H,T] or
 * FlashInfer's of [T,H] are views with lse's. Pointers and strides of out and o that are whole multiples of 16 bytes are
 * fast. Pointers must be aligned to their element's size; D, T H <= 2^31 - 1.
 * T = 0 or H = 0 does nothing. Gaps between elements of outputs are not written.
 *
 * A state whose lse is -infinity has no keys. So has one whose lse is +infinity, which is what some kernels of
 * FlashAttention say of no keys (vLLM takes it so, too). A state whose weight exp(lse_i - max_i lse_i) is below 2^-126
 * counts as one without keys. The o of states without keys does not matter, even if it is NaN. If no state has keys,
 * out is 0 and lse_out is -infinity. A NaN in lse makes out and lse_out NaN; NaN and infinity in the o of states with
 * keys propagate as the formula has it.
 *
 * Weights and sums are fp32, added in the order of the states, and rounded once, to nearest even, to out's dtype.
 * Exponentials and logarithms are the device's: good to a few ulps of fp32. With n = 1 out is o. Results are bitwise
 * reproducible; those of a token and head depend on nothing but its states, the variant and the device, whatever else
 * the call has.
 *
 * Aliasing: out may be one of the states (the same elements at the same places: address, strides, dtype), which is then
 * replaced. Otherwise no output may overlap another tensor (refused). lse_out may not be a part of lse: it is written
 * while other threads read that.
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "merge_states bf16->bf16 T=128 H=128 D=512 n=8" (o -> out). Its keys:
 *   lse=1             layout: there is lse_out
 *   base2=1           layout: as in params
 *   align=, align_y=  layout: alignment of o, and of out
 *   form=             layout: how tests lay out the tensors
 *   overlap=1         see rfg/core.h
 * In columns of shapes files and tuned rows M is T, N is H and K is D. */
RFG_API RFG_NODISCARD rfg_status rfg_op_merge_states(rfg_context *ctx, const rfg_tensor *out, const rfg_tensor *o,
                                                     const rfg_tensor *lse, const rfg_merge_states_params *params,
                                                     rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
