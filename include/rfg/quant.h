/* SPDX-License-Identifier: MIT */
#ifndef RFG_QUANT_H
#define RFG_QUANT_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Quantising on the way out, for operators that offer it: q = round(y / scale), so that q * scale is about y. y is the
 * operator's result in fp32, before any rounding to a 16-bit dtype.
 *
 * Rounding is to nearest, ties to even, bit for bit as the formats define it. Values beyond the dtype's largest (448
 * for e4m3, 240 for e4m3fnuz, 57344 for e5m2, -128 and 127 for i8), infinities among them, saturate: q is never
 * infinite. A NaN becomes a NaN (which code is not said; i8: 0). -0 keeps its sign where the dtype has one.
 *
 * Where the scale is dynamic it is max(largest |y| / largest of the dtype, 1 / (512 * largest of the dtype)), as
 * vLLM's dynamic quantisation has it (so that it is never 0; for i8 the largest is 127); NaNs don't count. An infinity
 * makes the scale infinite, its own code NaN and the others 0. */
typedef enum rfg_scale_kind {
    RFG_SCALE_STATIC = 1, /* scale: one number, read */
    RFG_SCALE_TOKEN,      /* scale: one a row, written */
    RFG_SCALE_GROUP       /* scale: one for each 128 columns of a row (the last group may be shorter), written */
} rfg_scale_kind;

/* What is written besides, or in place of, the plain output.
 *
 *   q      the plain output's shape, e4m3, e4m3fnuz, e5m2 or i8; unit stride in its last dimension
 *   scale  f32, in the same memory as the tensors (device memory on GPUs).
 *          static: [1]
 *          token:  [M] or [M,1], packed (M: rows of the output, all its dimensions but the last)
 *          group:  [M,G], G = ceil(N / 128): row-major (strides >= G, 1) or column-major (strides 1, >= M)
 *
 * Neither may overlap any other tensor of the call. */
typedef struct rfg_quant {
    size_t size; /* sizeof(rfg_quant): it grows as the params structs do, see rfg/core.h */
    rfg_scale_kind kind;
    const rfg_tensor *q, *scale;
} rfg_quant;

#ifdef __cplusplus
}
#endif
#endif
