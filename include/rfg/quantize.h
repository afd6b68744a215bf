/* SPDX-License-Identifier: MIT */
#ifndef RFG_QUANTIZE_H
#define RFG_QUANTIZE_H

#include "rfg/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags: multiply by a reciprocal in place of a division. */
typedef enum rfg_reciprocal {
    RFG_RECIPROCAL_OF_MAX = 1,  /* largest * (1 / max) */
    RFG_RECIPROCAL_OF_SCALE = 2 /* x * (1 / scale) */
} rfg_reciprocal;

typedef struct rfg_quantize_params {
    size_t size; /* sizeof(rfg_quantize_params): see rfg/core.h. All other members may be zero */
    /* What shares a scale, as in rfg_dequantize_params: (0, 0) the tensor, (1, 0) a row ("token"), (1, G) G columns of
     * it, G 32, 64 or 128, of nvfp4 16, too (the last group may be shorter). */
    int64_t group_rows, group_cols;
    int32_t scale_given; /* 1, with (0, 0): the scale is read, not written ("static") */
    rfg_scale_rounding rounding;
    int32_t reciprocal; /* flags: rfg_reciprocal, or both of them */
    rfg_dtype codes;    /* rfg_op_quantize_scale(): the dtype that codes will have; 0 for rfg_op_quantize() */
    float max;        /* from 1 to the dtype's largest value: see below; 0: that (i8: 127, i4: 7), and it doesn't clamp;
                * rfg_op_quantize_scale() of e2m1: up to 2688, for nvfp4's global */
    float floor_amax; /* the largest magnitude counts as this at least; 0: none */
    float floor_scale; /* and amax / max as this; 0: none */
    float zero_scale;  /* with RFG_SCALE_EXACT, what a scale of 0 becomes; 0: 0, of which codes are NaN. With this and
                        * both floors 0: floor_scale is 1 / (512 max) */
    const rfg_tensor *smooth; /* [N], f32 or x's dtype: x's columns are multiplied with it first (SmoothQuant); of
                               * tokens' and groups' scales, or NULL: rfg_op_quantize_scale() and one scale for the
                               * tensor take none */
    const rfg_tensor *global; /* [1] f32, of nvfp4: what scales are divided by before they are rounded; NULL: 1 */
} rfg_quantize_params;
#define RFG_QUANTIZE_PARAMS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(rfg_quantize_params), 0, 0, 0, RFG_SCALE_EXACT, 0, RFG_DTYPE_NONE, 0, 0, 0, 0, NULL, NULL               \
    }

/* Q[m,n] = round(X[m,n] / scale[m / group_rows, n / group_cols]), and the scales, so that Q scale is about X.
 *
 *   q       [M,N]   e4m3, e4m3fnuz, e5m2, i8, or e2m1 or i4 (-8 to 7): two in a byte, the even column in the low four
 *                   bits, N and the row stride even; row stride >= N, unit column stride
 *   scale   [R,C]   f32 or e8m0, of nvfp4 e4m3; R = ceil(M / group_rows), C = ceil(N / group_cols) (0: one): row-major
 *                   (strides >= C, 1) or column-major (strides 1, >= R); written, or with scale_given read
 *   x       [M,N]   bf16, fp16 or fp32; row stride >= N, unit column stride
 *   params  or NULL: one scale for the tensor, by rfg/quant.h's rule
 *
 * The arithmetic is fp32's, each step rounded to nearest even, denormals kept; the bits are the same on every device.
 * Below x is X[m,n]; with smooth it is the product X[m,n] smooth[n], rounded:
 *   1. amax = max(largest |x|, floor_amax). NaNs don't count.
 *   2. EXACT, UP: s = max(amax / max, floor_scale), with RFG_RECIPROCAL_OF_MAX max(amax * r, floor_scale), r = 1 / max.
 *      EXACT: that is the scale, zero_scale where it is 0. UP: rounded up. DOWN, EVEN, CEIL: of amax; max and
 *      floor_scale must be 0. Where amax is infinite so is a scale of f32; one of e8m0 is its NaN, 255.
 *   3. v = x / scale, with RFG_RECIPROCAL_OF_SCALE x * r, r = 1 / scale (the same for powers of two). With an infinite
 *      scale an infinity becomes a NaN and all else 0; with a scale of NaN all becomes NaN.
 *   4. Where max is given, v is clamped to [-max, max].
 *   5. The code is v rounded to nearest, ties to even. As in rfg/quant.h: what is beyond the dtype's range saturates, a
 *      NaN becomes a NaN (which code is not said; i8, i4: 0; e2m1: 6), -0 keeps its sign where the dtype has one.
 * nvfp4: q of e2m1, scales of e4m3 of (1, G), EXACT, without max, floors, zero_scale and smooth. Its scale is s / global,
 * rounded to nearest, at most 448; in 3 and 4 that code times global stands for it, and where the code is 0 codes are 0.
 * rfg_op_gemm() takes these as w, w_scale and w_global. For a whole tensor global is its largest magnitude / 2688, 6 x
 * 448: what rfg_op_quantize_scale() makes with codes e2m1 and max 2688 (ModelOpt's weight_scale_2; one over vLLM's global
 * scale; vLLM multiplies by reciprocals, both flags, by its hardware's approximations).
 * A scale that is given is taken as it is: 0, negative ones and NaN make of x what 3 to 5 say.
 *
 * Rules of other projects, in these parameters (S: f32 scales, E: e8m0):
 *   S  rfg/quant.h, and vLLM's of a token of fp8   all 0; max = 224 for vLLM's e4m3fnuz
 *   S  vLLM, fp8 with a static scale               scale_given, RFG_RECIPROCAL_OF_SCALE
 *   S  vLLM and SGLang, a group                    floor_amax = 1e-10; ue8m0: UP
 *   S  DeepGEMM                                    floor_amax = 1e-4; ue8m0: UP
 *   S  AITER's kernels, a token or a group         floor_amax = 1e-10, both reciprocals (its 1 / scale is the
 *                                                  hardware's, up to an ulp from this one)
 *   S  AITER's smooth_per_token_scaled_quant       the same of tokens, with smooth (smoothquant_fwd: its x_scale)
 *   S  AITER's reference in PyTorch                zero_scale = 1
 *   E  torchao RCEIL, DeepSeek V4, FlashInfer: mx  UP (AITER's RoundUp); mxfp8 with e4m3, mxfp4 with e2m1, groups of 32
 *   E  OCP Microscaling Formats 1.0: mx            DOWN (AITER's RoundDown); AITER's Even, Ceil: EVEN, CEIL
 * i4 with f32 scales of (1, G) is what rfg_op_gemm() takes as w and w_scale, symmetric: no zero points.
 * Sources: vLLM csrc/quantization; AITER csrc/kernels/quant_kernels.cu and aiter.utility.fp4_utils; DeepGEMM
 * deep_gemm.utils.math. UP is exact, where those who take 2^ceil(log2 s) depend on their logarithm next to powers of
 * two; an infinity, of which DeepGEMM makes 2^127, is infinite here. SmoothQuant (Xiao et al., 2022) divides x by s:
 * smooth is 1 / s, as AITER has it.
 *
 * M = 0 or N = 0 does nothing, and writes no scale; data of an empty tensor may be NULL. Pointers must be aligned to
 * their element's size; M and strides <= 2^31 - 1, N <= 2^30 - 1. Aliasing: no two tensors may overlap (refused).
 * One scale for the tensor that isn't given is rfg_op_quantize_scale() and then this with it given: two launches.
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "quantize bf16->e4m3,f32 M=64 N=7168 group_rows=1 group_cols=128" (x -> q, scale). Its keys:
 *   group_rows=, group_cols=   as in params. group_rows=0, the default: the tensor's one scale, which is given
 *   smooth=                    dtype of smooth
 *   global=1                   the member is given
 *   rounding=                  up, down, even, ceil
 *   reciprocal=                the flags, 1 to 3
 *   scale_columns=1            layout: column-major scales
 *   ldx=, ldq=                 layout: row strides of x and q
 *   align=, align_q=           layout: alignment of x and smooth; of q
 *   max=                       layout: params' max, rounded down
 *   floor_amax=, floor_scale=, zero_scale=   layout, for tests: 10 to the minus that
 *   overlap=1                  see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_quantize(rfg_context *ctx, const rfg_tensor *q, const rfg_tensor *scale,
                                                 const rfg_tensor *x, const rfg_quantize_params *params,
                                                 rfg_stream stream);

/* The one scale of a tensor of which codes of a dtype are to be made: 1 and 2 above.
 *
 *   scale   [1,1]   f32 or e8m0, written
 *   x       [M,N]   as above; M * ceil(N * bytes / 16) < 2^31 - 4096
 *   params  as above, but with codes: e4m3, e4m3fnuz, e5m2, i8, e2m1 or i4; group_rows, group_cols and scale_given 0,
 *           smooth NULL
 *
 * M = 0 or N = 0 does nothing, and writes no scale. Aliasing: the scale may not overlap x (refused). Asynchronous,
 * errors, warm-up: as rfg_op_gemm(). The last workgroup to finish puts the parts' largest magnitudes together. Their
 * order doesn't matter for a largest one, so the bits are always the same.
 * Problem string: "quantize_scale bf16->f32 M=64 N=7168 codes=e4m3"; the other keys as above. */
RFG_API RFG_NODISCARD rfg_status rfg_op_quantize_scale(rfg_context *ctx, const rfg_tensor *scale, const rfg_tensor *x,
                                                       const rfg_quantize_params *params, rfg_stream stream);

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
 *   y       [M,N]   bf16, fp16 or fp32; row stride >= N, unit column stride; gaps between rows are not written
 *   q       [M,N]   e4m3, e4m3fnuz, e5m2, i8, e2m1 or i4, as of rfg_op_quantize(); row stride >= N, unit column stride.
 *                   Or, on "cpu", a GGUF type's blocks, whose values are rounded to fp32 first
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
 *
 * Problem string: "dequantize e4m3,f32->bf16 M=64 N=7168 group_rows=1 group_cols=128" (q, scale -> y). Its keys:
 *   scale_columns=1   layout: column-major scales
 *   ldq=, ldy=        layout: row strides of q and y
 *   align=, align_y=  layout: alignment of q, and of y
 *   overlap=1         see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_dequantize(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *q,
                                                   const rfg_tensor *scale, const rfg_dequantize_params *params,
                                                   rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
