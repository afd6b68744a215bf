/* SPDX-License-Identifier: MIT */
#ifndef RFG_QUANT_H
#define RFG_QUANT_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Operators that offer it quantise their output: q = round(y / scale), so that q * scale is about y. y is the
 * operator's result in fp32, before any rounding to a 16-bit dtype.
 *
 * Rounding is to nearest, ties to even, bit for bit as the formats define it. Values beyond the dtype's largest,
 * infinities too, saturate, so q is never infinite. The largest is 448 for e4m3, 240 for e4m3fnuz, 57344 for e5m2, -128
 * and 127 for i8. A NaN becomes a NaN (which code is not said; in i8 it becomes 0). -0 keeps its sign where the dtype
 * has one.
 *
 * Scales of tokens and groups are max(largest |y| / largest of the dtype, 1 / (512 * largest of the dtype)), as in
 * vLLM's dynamic quantisation, so they are never 0. For i8 the largest is 127. NaNs don't count. An infinity makes the
 * scale infinite; its own code is NaN, and the others that share the scale are 0.
 *
 * Scales of the mx formats are powers of two, by `rounding`. q and scale have the bits that rfg_op_quantize() makes of
 * y in f32 with group_cols 32, that rounding and nothing else. An infinity makes the scale e8m0's NaN, 255. All codes
 * that share it are then NaN; e2m1 has none, there they are 6, as of any NaN.
 *
 * These names are not rfg_gemm_scale's: a group has 128 columns here, as in scale=group, and 32 there. */
typedef enum rfg_scale_kind {
    RFG_SCALE_STATIC = 1, /* scale: one number, read */
    RFG_SCALE_TOKEN,      /* scale: one a row, written */
    RFG_SCALE_GROUP,      /* scale: one for each 128 columns of a row (the last group may be shorter), written */
    RFG_SCALE_MX          /* scale: one of e8m0 for each 32 columns of a row, written; N is a multiple of 32 */
} rfg_scale_kind;

/* How a scale follows from the largest magnitude of what shares it. All but EXACT make powers of two, from 2^-127 to
 * 2^127, in e8m0 or f32. Below, e is the exponent of the dtype's largest value, m its bits of mantissa:
 *
 *        e4m3  e4m3fnuz  e5m2  i8  e2m1  i4
 *   e    8     7         15    6   2     2
 *   m    3     3         2     6   1     2 */
typedef enum rfg_scale_rounding {
    RFG_SCALE_EXACT = 0, /* largest / max; f32 only */
    RFG_SCALE_UP,        /* the least power of two >= largest / max */
    RFG_SCALE_DOWN,      /* the greatest power of two <= largest, by 2^e */
    RFG_SCALE_EVEN, /* the same of largest + half a place of a value with m bits of mantissa: 2^(22-m) to its bits */
    RFG_SCALE_CEIL  /* the least power of two >= largest, by 2^e */
} rfg_scale_rounding;

/* The quantised output, which is written besides the plain one or in place of it.
 *
 *   q      the plain output's shape, unit stride in its last dimension; e4m3, e4m3fnuz, e5m2 or i8. Of mx e4m3 or e2m1:
 *          e2m1 is two in a byte, the even column in the low four bits, with even row strides
 *   scale  f32, of mx e8m0, in the same memory as the tensors (device memory on GPUs).
 *          static: [1]
 *          token:  [M] or [M,1], packed (M: rows of the output, all its dimensions but the last)
 *          group:  [M,G], G = ceil(N / 128): row-major (strides >= G, 1) or column-major (strides 1, >= M)
 *          mx:     [M,G], G = N / 32, the same
 *
 * Neither may overlap any other tensor of the call. */
typedef struct rfg_quant {
    size_t size; /* sizeof(rfg_quant): it grows as the params structs do, see rfg/core.h */
    rfg_scale_kind kind;
    rfg_scale_rounding rounding; /* of mx UP, DOWN, EVEN or CEIL; else 0 */
    const rfg_tensor *q, *scale;
} rfg_quant;

#ifdef __cplusplus
}
#endif
#endif
