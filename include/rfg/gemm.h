/* SPDX-License-Identifier: MIT */
#ifndef RFG_GEMM_H
#define RFG_GEMM_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Y[M,N] = X[M,K] * W[N,K]^T (+ bias[N]), the linear layer of every LLM (torch.nn.functional.linear; AITER's
 * gemm_a16w16). The sum over k and the bias are accumulated in fp32 and rounded once, to nearest even, to Y's dtype.
 *
 *   x     [M,K]  bf16, fp16 or fp32; row stride >= K, unit column stride
 *   w     [N,K]  the same dtype as x; row stride >= K, unit column stride
 *   bias  [N]    the same dtype as w, unit stride; or NULL
 *   y     [M,N]  bf16, fp16 or fp32; row stride >= N, unit column stride; what lies between the rows is not touched
 *
 * Zero sizes as in BLAS: M = 0 or N = 0 does nothing, K = 0 gives Y = bias (0 without one); data of an empty tensor
 * may be NULL. The stride of a dimension of size 1 is ignored. Pointers must be aligned to their element's size.
 * M, N, K <= 2^31 - 1.
 * Aliasing: y may not overlap x, w or bias (refused); x, w and bias may overlap each other.
 * NaN and infinity propagate as IEEE arithmetic in fp32 does. (MI200's matrix instructions take subnormal fp16 and
 * bf16 inputs for 0, so there an infinity times one of them is NaN.) Results are bitwise reproducible for the same
 * problem, variant and device.
 *
 * Asynchronous on `stream`; on "cpu" the result is there on return and stream must be NULL. The first call of a
 * problem may compile (rfg_prepare() does that ahead); later ones allocate nothing and never synchronise.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED, COMPILE, DEVICE, OUT_OF_MEMORY, NOT_READY (first call of a problem under
 * stream capture). On an error nothing was launched. */
RFG_API RFG_NODISCARD rfg_status rfg_op_gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                             const rfg_tensor *w, const rfg_tensor *bias, rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
