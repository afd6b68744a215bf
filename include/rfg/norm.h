/* SPDX-License-Identifier: MIT */
#ifndef RFG_NORM_H
#define RFG_NORM_H

#include "rfg/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* eps is an argument of the call and no part of the problem: it changes neither speed nor code. So models that differ
 * in it share tuned rows and code objects. */
typedef struct rfg_norm_params {
    size_t size;             /* sizeof(rfg_norm_params): see rfg/core.h */
    float eps;               /* at least 2^-126, finite; 0: 1e-6. (For no eps, pass 1e-30.) */
    int32_t one_plus_weight; /* not 0: the weight is 1 + w (Gemma); there must be one */
    const rfg_quant *quant;  /* quantised output: see rfg/quant.h; or NULL */
    const rfg_tensor *bias;  /* layernorms only; or NULL: 0 */
} rfg_norm_params;
#define RFG_NORM_PARAMS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(rfg_norm_params), 0, 0, NULL, NULL                                                                      \
    }

/* Y = X / sqrt(mean(X^2) + eps) * weight, row by row: RMSNorm (Zhang and Sennrich 2019; torch.nn.functional.rms_norm,
 * vLLM's rms_norm, AITER's rms_norm). Computed in fp32 and rounded once, to nearest even, to Y's dtype. (vLLM's kernel
 * rounds before the product with the weight as well; results can differ by an ulp.)
 *
 *   y       [M,N]  x's dtype, or NULL if only the quantised output is wanted; row stride >= N, unit column stride;
 *                  gaps between rows are not written
 *   x       [M,N]  bf16, fp16 or fp32; row stride >= N, unit column stride
 *   weight  [N]    x's dtype or f32, unit stride; or NULL: 1
 *   params  or NULL: eps 1e-6, the weight as it is, not quantised
 *
 * Tensors may have one dimension (M = 1), or three: [T,H,N] with any strides >= N and >= H rows, so that the queries or
 * keys inside a fused QKV buffer are normalised per head (QK-norm) where they lie: M = T H. x, y, q (and the residuals)
 * may have different strides, but the same T and H.
 * M = 0 or N = 0 does nothing; data of an empty tensor may be NULL. The stride of a dimension of size 1 is ignored.
 * Pointers must be aligned to their element's size. M and strides <= 2^31 - 1, N <= 2^30 - 1.
 * Aliasing: y may be x itself (same address, shape, strides). Every other overlap of an output with another tensor is
 * refused, because a row could be overwritten before it is read.
 * NaN and infinity propagate as IEEE arithmetic in fp32 does. The sum of squares is an fp32 number: it overflows for
 * elements of about 1e19, and the row becomes 0. The reciprocal square root is the device's, good to two ulps. What is
 * multiplied with the weight is an fp32 number: where it is below 2^-126 the result may be off by 2^-149 |weight|, and
 * a result below 2^-126 by 2^-149. Results are bitwise reproducible for the same problem, variant and device.
 *
 * Asynchronous on `stream`; on "cpu" the result is there on return. The first call of a problem may compile
 * (rfg_prepare() does that ahead); later ones allocate nothing and never synchronise.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED, COMPILE, IO, DEVICE, OUT_OF_MEMORY, NOT_READY (first call of a problem under
 * stream capture). On an error nothing was launched.
 *
 * Problem strings (x -> q, or y): "rmsnorm bf16->bf16 M=16 N=4096",
 * "rmsnorm bf16->e4m3 M=8 N=7168 weight=1+w scale=group plain=1",
 * "rmsnorm bf16->e2m1 M=8 N=7168 scale=mx rounding=even",
 * "rmsnorm bf16->bf16 M=256 N=128 heads=32 ldx=6144" (QK-norm). Keys:
 *   weight=          w (left out), 1+w, none
 *   bias=1           layernorms: there is a bias
 *   wtype=f32        the weight and the bias are fp32 and x is 16-bit
 *   residual=f32     the residuals are fp32 and x is 16-bit
 *   scale=           static, token, group, mx: the output is quantised, to the dtype behind the arrow
 *   rounding=        up, down, even, ceil: with scale=mx
 *   plain=1          the plain output is written too
 *   heads=           layout: H of tensors [T,H,N] that don't fold into two dimensions
 *   ldx=, ldr=, ldy= layout: row strides of x, of the residuals, of y and q; with heads=, the strides over T
 *   scale_columns=1  layout: column-major scales
 *   inplace=         layout: 1: y is x; 2: residual_out is residual; 3: both
 *   align=, align_y= layout: alignment of the inputs, and of the outputs
 *   invariant=1, overlap=1  see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_rmsnorm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                                const rfg_tensor *weight, const rfg_norm_params *params,
                                                rfg_stream stream);

/* residual_out = X + residual, rounded to their dtype; Y = rmsnorm(residual_out). Every decoder does this between its
 * layers (vLLM's fused_add_rms_norm, AITER's rmsnorm2d_fwd_with_add).
 *
 * Y is computed from the rounded sum, as residual_out holds it (vLLM's kernel does the same). So the result equals an
 * add followed by a norm, and the next layer's residual and norm start from the same numbers.
 *
 *   residual      [M,N]  x's dtype or f32; row stride >= N, unit column stride
 *   residual_out  [M,N]  residual's dtype; may be residual itself (same address, shape, strides): in place
 *
 * All else as above. Problem string: "add_rmsnorm bf16->bf16 M=16 N=4096". */
RFG_API RFG_NODISCARD rfg_status rfg_op_add_rmsnorm(rfg_context *ctx, const rfg_tensor *y,
                                                    const rfg_tensor *residual_out, const rfg_tensor *x,
                                                    const rfg_tensor *residual, const rfg_tensor *weight,
                                                    const rfg_norm_params *params, rfg_stream stream);

/* Y = (X - mean(X)) / sqrt(var(X) + eps) * weight + bias, row by row, with the biased variance, computed from the
 * differences to the mean (torch.nn.functional.layer_norm).
 *
 *   bias  [N]  of params: x's dtype or f32, but the weight's if there is one; unit stride; or NULL: 0
 *
 * All else as for rfg_op_rmsnorm(). Problem string: "layernorm bf16->bf16 M=16 N=4096 bias=1". */
RFG_API RFG_NODISCARD rfg_status rfg_op_layernorm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                                  const rfg_tensor *weight, const rfg_norm_params *params,
                                                  rfg_stream stream);

/* The same of X + residual; see rfg_op_add_rmsnorm(). */
RFG_API RFG_NODISCARD rfg_status rfg_op_add_layernorm(rfg_context *ctx, const rfg_tensor *y,
                                                      const rfg_tensor *residual_out, const rfg_tensor *x,
                                                      const rfg_tensor *residual, const rfg_tensor *weight,
                                                      const rfg_norm_params *params, rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
