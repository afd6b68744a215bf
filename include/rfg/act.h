/* SPDX-License-Identifier: MIT */
#ifndef RFG_ACT_H
#define RFG_ACT_H

#include "rfg/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Phi: the normal distribution's cumulative function, (1 + erf(v / sqrt(2))) / 2. sigmoid(v) = 1 / (1 + exp(-v)). */
typedef enum rfg_act {
    RFG_ACT_SILU = 0,  /* v sigmoid(v) */
    RFG_ACT_GELU,      /* v Phi(v); torch.nn.GELU() */
    RFG_ACT_GELU_TANH, /* v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3))) / 2; torch.nn.GELU("tanh") */
    RFG_ACT_RELU,      /* max(v, 0) */
    RFG_ACT_RELU2,     /* max(v, 0)^2; Primer, Nemotron */
    RFG_ACT_SWIGLUOAI, /* of gates only, gpt-oss and MiniMax M3: a sigmoid(alpha a) (b + 1) */
    RFG_ACT_SITU, /* of gates only, Kimi K3's SiTU: beta tanh(a / beta) sigmoid(a) linear_beta tanh(b / linear_beta) */
    RFG_ACT_SWIGLUSTEP, /* of gates only, Step 3.5: min(a sigmoid(a), limit) b, where limit doesn't clamp a before */
    RFG_ACT_NONE        /* v: the product alone; alone, a copy, or a quantisation */
} rfg_act;

/* How gate's and up's rows of weights lie, or the columns of their product. */
typedef enum rfg_gates {
    RFG_GATES_HALVES = 0,     /* gate's, then up's, as most checkpoints have them */
    RFG_GATES_INTERLEAVED = 1 /* in turn, gate first, as gpt-oss has them */
} rfg_gates;

/* All members but size may be zero. */
typedef struct rfg_act_params {
    size_t size; /* sizeof(rfg_act_params): see rfg/core.h */
    rfg_act act;
    /* act_and_mul: halves: a row of x is [a, b], each of N columns (vLLM's and AITER's *_and_mul). Interleaved: a0 b0
     * a1 b1 ... (vLLM's swigluoai_and_mul). */
    rfg_gates gates;
    float alpha; /* swigluoai; 0: 1.702. Of other acts: must be 0 */
    /* act_and_mul: first a becomes min(a, limit), and b clamp(b, -limit, limit); at most 10000. 0: swigluoai and
     * swiglustep 7, others not (DeepSeek V4's and Hunyuan's clamped silu has 10; AITER's and vLLM's swiglu_limit). */
    float limit;
    const rfg_quant *quant; /* quantised output: see rfg/quant.h; or NULL */
    float situ_beta;        /* situ's beta; 0: 4. Of other acts: must be 0 */
    float situ_linear_beta; /* its linear_beta; 0: 25; INFINITY: b stays as it is. Of other acts: must be 0 */
} rfg_act_params;
#define RFG_ACT_PARAMS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(rfg_act_params), RFG_ACT_SILU, RFG_GATES_HALVES, 0, 0, NULL, 0, 0                                       \
    }

/* Y[M,N] = act(A) * B with X = [A, B] of [M,2N]: the gated activations of LLMs' MLPs (vLLM's and AITER's silu_and_mul,
 * gelu_and_mul, gelu_tanh_and_mul). Computed in fp32 and rounded once, to nearest even, to Y's dtype. (vLLM rounds
 * act(A) to the 16-bit dtype first; results can differ by an ulp.)
 *
 *   y       [M,N]   x's dtype, or NULL if only the quantised output is wanted; row stride >= N, unit column stride;
 *                   gaps between rows are not written
 *   x       [M,2N]  bf16, fp16 or fp32; row stride >= 2N, unit column stride
 *   params  or NULL: silu, not quantised
 *
 * Tensors may have one dimension (M = 1) or three ([.., .., N]) whose first two fold into one by their strides.
 * M = 0 or N = 0 does nothing; data of an empty tensor may be NULL. The stride of a dimension of size 1 is ignored.
 * Pointers must be aligned to their element's size. M and strides <= 2^31 - 1, N <= 2^30 - 1.
 * Aliasing: no output may overlap x or another output (refused: a workgroup would overwrite what another has yet to
 * read).
 * NaN and infinity propagate as IEEE arithmetic in fp32 does in the formula as it stands above, so the act of -inf is
 * NaN but for relu and relu2. Exponentials and reciprocals are the device's: good to a few ulps of fp32. Results
 * smaller than 2^-116 may come as 0. Results are bitwise reproducible for the same problem, variant and device.
 *
 * Asynchronous on `stream`; on "cpu" the result is there on return. The first call of a problem may compile
 * (rfg_prepare() does that ahead); later ones allocate nothing and never synchronise.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED, COMPILE, IO, DEVICE, OUT_OF_MEMORY, NOT_READY (first call of a problem under
 * stream capture). On an error nothing was launched.
 *
 * Problem strings (x -> q, or y):
 * "act_and_mul bf16->bf16 M=64 N=14336 act=gelu_tanh",
 * "act_and_mul bf16->e4m3 M=8 N=2880 act=swigluoai gates=interleaved scale=group plain=1". Keys:
 *   act=             silu (left out), gelu, gelu_tanh, relu, relu2, swigluoai, situ, swiglustep, none
 *   limit=           params' limit, rounded up
 *   gates=           halves (left out), interleaved
 *   scale=           static, token, group, mx: the output is quantised, to the dtype behind the arrow
 *   rounding=        up, down, even, ceil: with scale=mx
 *   plain=1          the plain output is written too
 *   ldx=, ldy=       layout: row strides of x, and of y and q
 *   scale_columns=1  layout: column-major scales
 *   inplace=1        layout: y is x (rfg_op_act() only)
 *   align=, align_y= layout: alignment of x, and of the outputs
 *   overlap=1        see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_act_and_mul(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                                    const rfg_act_params *params, rfg_stream stream);

/* Y[M,N] = act(X): the activation without the product. With RFG_ACT_NONE and a quant it only quantises (vLLM's
 * scaled_fp8_quant and scaled_int8_quant). All is as above, but:
 *
 *   x       [M,N]
 *
 * y may be x itself (same address, shape, strides). gates and limit must be 0, act none of
 * gates only.
 * Problem string: "act bf16->bf16 M=64 N=14336 act=relu2", "act bf16->e4m3 M=64 N=4096 act=none scale=token". */
RFG_API RFG_NODISCARD rfg_status rfg_op_act(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                            const rfg_act_params *params, rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
