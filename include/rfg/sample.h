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
 * Problem string: "argmax f32->i64 M=32 V=128256". Of the layout, which tuned rows don't go by: ldx=: row stride of x
 * in elements, where rows don't follow one another; align=: where its pointer and row stride are multiples of fewer
 * than 16 bytes. overlap=1: as for rfg_op_gemm(). */
RFG_API RFG_NODISCARD rfg_status rfg_op_argmax(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                               rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
