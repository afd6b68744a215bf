/* SPDX-License-Identifier: MIT */
#ifndef RFG_QUANTIZE_H
#define RFG_QUANTIZE_H

#include "rfg/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rfg_dequantize_params {
    size_t size; /* sizeof(rfg_dequantize_params): see rfg/core.h. All other members may be zero */
    /* Rows and columns that share a scale: 0 for all, or a power of two, of columns at least 8. (0, 0): one scale for
     * the tensor; (1, 0): one a token; (1, 128): groups of 128; (1, 32): the mx formats; (128, 128): DeepSeek's W. */
    int64_t group_rows, group_cols;
} rfg_dequantize_params;
#define RFG_DEQUANTIZE_PARAMS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(rfg_dequantize_params), 0, 0                                                                            \
    }

/* Y[m,n] = Q[m,n] scale[m / group_rows, n / group_cols]: what codes stand for (rfg/quant.h; vLLM's and DeepGEMM's
 * scales, and the OCP Microscaling Formats 1.0 with e8m0).
 *
 *   y       [M,N]   bf16, fp16 or fp32; row stride >= N, unit column stride; what lies between the rows is not touched
 *   q       [M,N]   e4m3, e4m3fnuz, e5m2 or i8; row stride >= N, unit column stride
 *   scale   [R,C]   f32 or e8m0, R = ceil(M / group_rows), C = ceil(N / group_cols): row-major (strides >= C, 1) or
 *                   column-major (strides 1, >= R)
 *   params  or NULL: one scale for the tensor
 *
 * The product is fp32's, to nearest even; then it is rounded, to nearest even again, to y's dtype. Both bit for bit,
 * but for products below 2^-126, which may come as 0. A NaN, of q or of the scale (e8m0: 255), gives a NaN; e5m2's
 * infinities and those of the scale are what IEEE arithmetic makes of them.
 * M = 0 or N = 0 does nothing; data of an empty tensor may be NULL. Pointers must be aligned to their element's size;
 * M, N and strides <= 2^31 - 1, M * ceil(N / 8) < 2^31 - 4096. Aliasing: y may not overlap q or the scale (refused).
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 * Problem string: "dequantize e4m3,f32->bf16 M=64 N=7168 group_rows=1 group_cols=128". Of the layout, which tuned
 * rows don't go by: scale_columns=1: column-major scales; ldq=, ldy=: row strides of q and y in elements, where rows
 * don't follow one another; align=, align_y=: where q's and y's pointers and row strides are multiples of fewer than 16
 * bytes. overlap=1: as for rfg_op_gemm(). */
RFG_API RFG_NODISCARD rfg_status rfg_op_dequantize(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *q,
                                                   const rfg_tensor *scale, const rfg_dequantize_params *params,
                                                   rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
