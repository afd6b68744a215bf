/* SPDX-License-Identifier: MIT */
#ifndef RFG_GEMM_H
#define RFG_GEMM_H

#include "rfg/act.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which elements of x and of w share a scale, where they are codes. (rfg/quant.h's groups have 128 columns.) */
typedef enum rfg_gemm_scale {
    RFG_GEMM_SCALE_TENSOR, /* all of it */
    RFG_GEMM_SCALE_ROW,    /* a row: a token of x, an output channel of w */
    RFG_GEMM_SCALE_BLOCK,  /* 1 x 128 of x, 128 x 128 of w (DeepSeek); a row's or column's last may be shorter */
    RFG_GEMM_SCALE_GROUP   /* 1 x 32 of both (OCP's MX formats); of an 8-bit w beside a 16-bit x as w_scale says */
} rfg_gemm_scale;

typedef struct rfg_gemm_params {
    size_t size;                /* sizeof(rfg_gemm_params): see rfg/core.h */
    const rfg_tensor *bias;     /* or NULL: none */
    const rfg_tensor *w_scale;  /* of an 8-bit or 4-bit w, or NULL: none */
    const rfg_tensor *residual; /* added to the product, or NULL: none */
    int32_t gated;              /* not 0: w has gate's and up's rows, and y is act(gate) * up */
    rfg_act act;                /* if gated: any but RFG_ACT_NONE; else 0 */
    const rfg_tensor *x_scale;  /* of an x of codes, or NULL: none */
    const rfg_tensor *w_zero;   /* of a w of i4: its zero points, or NULL: they are 0 */
    rfg_gemm_scale x_per;       /* which elements of x share a scale */
    rfg_gemm_scale w_per;       /* which elements of w do, of 8 bits or with an x of codes */
    int32_t fast_accum;         /* not 0, with fp8 x and w, or a w of GGUF's blocks: less exact, see rfg_op_gemm() */
    rfg_gates gates;            /* if gated: how w's rows lie; else 0 */
    const rfg_tensor *offsets;  /* of a grouped product: see below; or NULL */
    const rfg_tensor *rows;     /* the same */
    const rfg_tensor *weights;  /* the same */
    float limit;                /* if gated, as of rfg_act_params: gate is at most that, up within it */
    float alpha;                /* of swigluoai, as of rfg_act_params */
    const rfg_tensor *y_scale;  /* of a y of codes; NULL otherwise */
    float situ_beta;            /* of situ, as of rfg_act_params */
    float situ_linear_beta;     /* the same */
    const rfg_tensor *w_global; /* of nvfp4: what all of w_scale is multiplied by; or NULL: 1 */
    int64_t w_group;            /* columns of w that share a scale; 0: w_scale divides them evenly, and says it */
} rfg_gemm_params;
#define RFG_GEMM_PARAMS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(rfg_gemm_params), NULL, NULL, NULL, 0, RFG_ACT_SILU, NULL, NULL, RFG_GEMM_SCALE_TENSOR,                 \
            RFG_GEMM_SCALE_TENSOR, 0, RFG_GATES_HALVES, NULL, NULL, NULL, 0, 0, NULL, 0, 0, NULL, 0                    \
    }

/* Y[M,N] = X[M,K] * W[N,K]^T (+ bias[N]), the linear layer of every LLM (torch.nn.functional.linear; AITER's
 * gemm_a16w16, gemm_a8w8 and gemm_a8w8_blockscale; DeepGEMM's fp8_gemm_nt). The sum over k, the bias and the residual
 * are added in fp32 and rounded once, to nearest even, to Y's dtype. With 4-bit weights (W4A16: AWQ, GPTQ,
 * compressed-tensors, mxfp4, nvfp4) W[n][k] = (w[n][k] - zero[n][k / group]) * scale[n][k / group] * global, also in
 * fp32: nothing is rounded to 16 bits on the way. The same holds for 8-bit weights (W8A16), which have no zero points.
 *
 *   x     [M,K]  bf16, fp16 or fp32, or codes: e4m3, e4m3fnuz, e5m2, i8 or e2m1; row stride >= K, unit column stride
 *   w     [N,K]  the same dtype as x; row stride >= K, unit column stride; or prepacked: see rfg_gemm_prepack().
 *                With x of bf16 or fp16 also i4 (-8 to 7) or e2m1 (mxfp4, nvfp4): two in a byte, the even column in the low
 *                four bits, K and the row stride (in elements) even; or e4m3, e4m3fnuz, e5m2 or i8. Mx formats (OCP Microscaling Formats 1.0):
 *                e4m3 (mxfp8) or e2m1 (mxfp4) with x of e4m3, e2m1 with x of e2m1, by x_per and w_per of groups
 *                With x of bf16, fp16 or fp32 also GGUF's blocks as files have them, q4_0 to nvfp4 (rfg/core.h): K and the
 *                row stride are whole blocks. They hold their scales: there is no w_scale, and w is not prepacked
 *   y     [M,N]  bf16, fp16 or fp32, or codes: e4m3, e4m3fnuz, e5m2 or i8; row stride >= N, unit column stride;
 *                gaps between rows are not written
 *   params  or NULL: no bias, no residual, not gated
 *   bias  [N]    of params: x's dtype (with x of codes y's, if that is no code), or fp32, unit stride
 *   y_scale [1]  of params, fp32. A y of codes must have it, other dtypes must not. It is the next product's x_scale:
 *                y is round(v / y_scale), where v is what would be rounded to another dtype: see rfg/quant.h
 *                (torch._scaled_mm's scale_result). There is no residual then
 *   x_scale  of params, with codes only, and
 *   w_scale  of codes: fp32 or e8m0, both of one dtype. A code stands for its value times its scale, or without
 *            scales for its value. By x_per and w_per:
 *            tensor  [1]
 *            row     x_scale [M] or [M,1], w_scale [N] or [N,1], of any stride
 *            block   both, and both are given: x_scale [M,ceil(K/128)], w_scale [ceil(N/128),ceil(K/128)],
 *                    each row-major (strides >= columns, 1) or column-major (strides 1, >= rows)
 *            group   both, of mx formats, e8m0: x_scale [M,K/32], w_scale [N,K/32], as those of blocks; K % 32 = 0.
 *                    rfg_op_quantize() makes such an x and x_scale. With a prepacked w of e2m1 w_scale is prepacked,
 *                    too, and x_scale row-major, its pointer and row stride multiples of 4, and as wide as w: columns
 *                    that stand for those from K on may hold anything
 *   w_scale of an 8-bit w beside an x of bf16 or fp16, or NULL: none. bf16, fp16, fp32 or e8m0, by w_per:
 *            tensor  [1]
 *            row     [N] or [N,1], of any stride
 *            block   [ceil(N/128),ceil(K/128)], row-major or column-major, as above
 *            group   [N,K/group], in the same way; it says what the group is: a multiple of 32 that divides K. Kernels
 *                    of matrix cores take 64 and multiples of 128
 *            It is not prepacked. There is no x_scale
 *   w_scale [N,ceil(K/group)] of w of 4 bits, packed: bf16, fp16 or fp32, with e2m1 also e8m0 (mxfp4) or e4m3
 *                (nvfp4). A group is a multiple of 16 columns (mxfp4: 32), or all K: 16 of nvfp4, 32 of mxfp4 and Kimi
 *                K2, 128 of most AWQ and GPTQ. The last of a row may be shorter: then w_group says the length, which
 *                w_scale says where groups divide K. Kernels of matrix cores take groups of 32, 64 and multiples of 128
 *                that divide K (prepacked, K padded); prepacked, for few rows, and of nvfp4 16, too. They multiply a
 *                group's sum by its scale, but nvfp4's codes. So an infinite scale may give NaN where the formula gives
 *                infinity, or the other way round
 *   w_global [1] of params, fp32, of nvfp4 (ModelOpt's weight_scale_2, one over compressed-tensors'
 *                weight_global_scale); of a grouped product [E]. NULL: 1
 *   w_zero [N,K/group] of params, packed i8, or NULL: all 0; only with w of i4. A checkpoint's unsigned q and z (0 to
 *                15) are q - 8 and z - 8 here
 *   residual [M,N] of params: y's dtype; row stride >= N, unit column stride; may be y itself: Y += X W^T
 *   gated        of params: y is [M,N/2], y[m][j] = act(g) * u, where g and u are columns j and N/2 + j of the product
 *                with its bias. They are not rounded before the act (rfg_op_act_and_mul() reads rounded ones). There is
 *                no residual. gates says how w's rows lie (and bias, and scales). Halves: all of gate's, then up's.
 *                Interleaved: rows 2j gate's, rows 2j+1 up's (rfg_pack_gate_up()), which more kernels take, and which a
 *                prepacked w must be. Activations and their numbers are those of rfg/act.h, with g for a and u for b
 *
 * Zero sizes as in BLAS: M = 0 or N = 0 does nothing, K = 0 gives Y = bias (0 without one). Data of an empty tensor may
 * be NULL. The stride of a dimension of size 1 is ignored. Pointers must be aligned to their element's size. M, N, K
 * and strides <= 2^31 - 1.
 *
 * Aliasing: y may not overlap x, w, scales, w_zero or bias (refused). It may be the residual as a whole, and overlap it
 * in no other way (refused). The others may overlap.
 *
 * NaN and infinity propagate as IEEE arithmetic in fp32 does. (The matrix instructions of MI100 and MI200 take
 * subnormal fp16 and bf16 inputs for 0, so there an infinity times one of them is NaN.) Results are bitwise
 * reproducible for the same problem, variant and device.
 *
 * Scales multiply codes, or sums of codes that share them, in fp32; which of the two is the variant's choice. A code
 * times its scale, or a product of two scales, may count as 0 where it is below 2^-126. A NaN among codes and scales
 * gives a NaN, an infinite scale an infinity or a NaN. A w of 8 bits is not prepacked with an x of codes. An e2m1 w beside an x of
 * codes is fast by rows on gfx950, and prepacked on all others.
 *
 * Grouped products (torch.nn.functional.grouped_mm, DeepGEMM's m_grouped; a mixture of experts has two of them): each
 * of E experts has N rows of w, one expert's after the other's. Rows of y are sorted by expert, and each is a product
 * with its expert's rows of w.
 *   offsets  [E+1] of params, i32: rows offsets[e] to offsets[e+1] - 1 of y are expert e's. Ascending, from 0 to M.
 *            What lies in front of the first and behind the last is not written. They are read when the kernel runs,
 *            so a captured graph serves any load up to M
 *   w        [E N,K] or [E,N,K], packed (or prepacked, of E N rows); so have bias, w_scale, w_zero: N (and blocks of
 *            128 of them, the last of an expert maybe shorter) an expert; w_scale of tensors is [E], packed
 *   rows     [M] of params, i32, or NULL: row i of y is a product of row rows[i] of x (and of x_scale), which has any
 *            number of rows. NULL: of row i
 *   weights  [M] of params, f32, or NULL: row i, its bias included, is multiplied by weights[i], before an act. A sum
 *            that is below 2^-126 on the way may lose up to K 2^-149 (on MI100 and MI200 K 2^-126), times the weight
 * There is no residual, and scales of blocks of w are row-major. Nothing is read or written out of bounds: offsets
 * below 0 count as 0, those above M as M, and rows that x doesn't have (negative ones, too) as its last row.
 *
 * Batched products (torch.bmm with w transposed; the absorption of DeepSeek's MLA, q W_UK and o W_UV, where the batch are
 * heads): y has three dimensions, and y[:,b] = x[:,b] w[b]^T.
 *   y  [M,batch,N]  bf16, fp16 or fp32
 *   x  [M,batch,K]  bf16, fp16 or fp32
 *   w  [batch,N,K]  x's dtype
 * The last dimension has unit stride, the others any above 0; that of rows (M; of w N) is at least the columns and at
 * most 2^31 - 1. So x and y may also be views of [batch,M,..], and w one of a larger weight. No two elements of y are
 * one. batch is at most 65535. There are no params then, and a w of 8 or 4 bits, or prepacked, is refused.
 *
 * fast_accum (torch._scaled_mm's use_fast_accum) allows variants that sum up to 128 columns of e4m3 or e5m2 on Hopper's
 * fp8 matrix unit. That unit adds 32 products and the sum before them at a time, and cuts off what is below 2^-13 of
 * the largest of these (DeepSeek-V3's report, 3.5.2). Such sums are then multiplied by their scales and added in fp32.
 * Devices and variants without this unit are not changed by it.
 *
 * With a w of GGUF's blocks fast_accum allows variants that round x, as llama.cpp does (q8_1): each 32 columns of a row
 * to int8, times a scale of fp32, their largest magnitude / 127. Such products are several times faster. What they make
 * of rows of x, or of w, that aren't all finite is not said. Without it x is taken as it is.
 *
 * Asynchronous on `stream`; on "cpu" the result is there on return. The first call of a problem may compile
 * (rfg_prepare() does that ahead); later ones allocate nothing and never synchronise.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED, COMPILE, IO, DEVICE, OUT_OF_MEMORY, NOT_READY (first call of a problem under
 * stream capture). On an error nothing was launched.
 *
 * Problem strings (x, w -> y):
 *   "gemm bf16,bf16->bf16 M=8 N=2112 K=7168"
 *   "gemm f16,f16->f32 M=33 N=1024 K=128 bias=1 ldw=136"
 *   "gemm e4m3,e4m3->bf16 M=8 N=2112 K=7168 w_scale=f32 x_scale=f32 x_per=block w_per=block"
 *   "gemm e4m3,e2m1->bf16 M=8 N=2112 K=7168 w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group"
 *   "gemm bf16,e4m3->bf16 M=8 N=2112 K=7168 w_scale=f32 w_per=row"
 *   "gemm f16,i8->f16 M=8 N=2112 K=7168 w_scale=bf16 w_group=128 w_per=group packed=1"
 *   "gemm bf16,i4->bf16 M=8 N=2112 K=7168 w_scale=f16 w_group=128"
 *   "gemm f16,e2m1->f16 M=1 N=4096 K=4096 w_scale=e8m0 w_group=32"
 *   "gemm bf16,e2m1->bf16 M=1 N=4096 K=4096 w_scale=e4m3 w_group=16 w_global=1"
 *   "gemm bf16,e2m1->bf16 M=1 N=4096 K=4096 w_scale=bf16 w_group=128 packed=1"
 *   "gemm bf16,bf16->bf16 M=512 N=4096 K=7168 act=silu experts=256 top=8"
 *   "gemm bf16,bf16->bf16 M=32 N=512 K=128 batch=16"
 *   "gemm bf16,q4_k->bf16 M=1 N=4096 K=4096 fast=1"
 * Keys:
 *   N=                   rows of w; of a grouped product, an expert's
 *   batch=               a batched product of so many; ldx= and ldy= are then strides of M, and left out where all of a
 *                        row's elements follow those of the row before; ldw= is the stride of N
 *   bias=1, residual=1   the member is given
 *   btype=               dtype of the bias: f32 with a 16-bit x; with codes always said
 *   act=                 gated: as of act_and_mul, but none
 *   gates=               halves (left out), interleaved
 *   limit=               params' limit, rounded up
 *   x_scale=, w_scale=   dtype of the scales
 *   x_per=, w_per=       with codes: tensor (left out), row, block, group
 *   w_group=             columns that share a scale: of 4-bit w, and of 8-bit w with w_per=group
 *   w_global=1           of nvfp4: the member is given
 *   w_zero=i8            4-bit w: there are zero points
 *   packed=1             w is prepacked
 *   fast=1               fast_accum
 *   experts=             a grouped product of so many experts
 *   top=                 its x has M / top rows, by params' rows; 0 (left out): rows is NULL
 *   weights=1            its rows have weights
 *   routing=             for tuning and timing: the experts' loads are zipf, one or recorded (docs/shipping.md). Calls
 *                        don't say it, and take rows tuned with any but one
 *   ids=1                rfg_op_moe()'s products of few tokens: rows of y are not sorted, of each its expert is said, and
 *                        row i is of x's row i / top
 *   slots=               rfg_op_moe()'s second product, whose launch also sums so many rows to one of y, which has
 *                        M / slots rows, and adds the residual
 *   ldx=, ldw=, ldy=, ldr=    layout: row strides of x, w, y and the residual
 *   x_columns=1, w_columns=1  layout: scales of blocks are column-major
 *   inplace=1                 layout: y is the residual
 *   tokens=1                  layout: with slots=, device memory says how many rows of y count
 *   x_rows=                   layout: with top=, rows of an x of 2 GiB or more (as 16-bit elements), rounded up to a
 *                             power of two: rows are gathered from farther than 32 bits reach. Left out: x is smaller
 *   align=, align_y=          layout: alignment of x and w; of y and bias
 *   invariant=1, overlap=1    see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                             const rfg_tensor *w, const rfg_gemm_params *params, rfg_stream stream);

/* ---- prepacked weights -------------------------------------------------------------------------------------- */

/* A prepacked W is W[N,K] stored as [N/16][K/32][4][16][8] (AITER's weight preshuffle (16,16)): of each 16 rows and 32
 * columns first the rows' first 8 elements (16 bytes), then their next 8, ... Such a block of 1024 bytes is what a wave
 * loads for one step on matrix cores. The view has these five dimensions, packed; that is how rfg_op_gemm() knows it.
 * In PyTorch: w.view(N // 16, 16, K // 32, 4, 8).permute(0, 2, 3, 1, 4).contiguous(). N % 16 = 0, K % 32 = 0.
 * A W of 8 bits is stored as [N/16][K/64][4][16][16], in the same way (the bytes of AITER's shuffle again). K % 64 = 0.
 *
 * A W of 4 bits is stored as [N/16][K/128][4][16][32], 16 bytes in the last dimension: of each 16 rows and 128 columns,
 * element (c, r, 8 i + p) is row r's column 32 i + 8 c + (2 p) % 8 + p / 4, for i and c below 4, p below 8. N % 16 = 0,
 * K % 128 = 0. Its w_scale and w_zero are then [N/16, K/group, 16], packed (rfg_tensor_prepacked_groups()), at
 * multiples of 16 bytes. This is what kernels of matrix cores read; they take groups of 32, 64, or a multiple of 128.
 * (From 16 rows on AMD's also take w by rows, and any group.)
 * With groups that divide the next multiple of 128, PK, K may be any multiple of 32 (2880 of gpt-oss): W is then stored,
 * and its view says so, as with PK columns, and w_scale and w_zero as with PK/group groups. Codes beyond K are 0 and scales there finite,
 * as rfg_gemm_prepack() makes them. x has K columns; nothing beyond is read. */
static inline rfg_tensor rfg_tensor_prepacked(void *data, rfg_dtype dtype, int64_t n, int64_t k)
{
    int64_t chunk = dtype == RFG_I4 || dtype == RFG_E2M1 ? 32 : dtype == RFG_BF16 || dtype == RFG_F16 ? 8 : 16;
    if (chunk == 32 && k >= 0)
        k = (int64_t)(((uint64_t)k + 127) / 128 * 128);
    rfg_tensor t = { data,
                     dtype,
                     5,
                     { n / 16, k / (4 * chunk), 4, 16, chunk },
                     { (int64_t)((uint64_t)k * 16), 64 * chunk, 16 * chunk, chunk, 1 } };
    return t;
}

/* Of its scales or zero points, `groups` of them in a row of W (of a padded one PK/32). */
static inline rfg_tensor rfg_tensor_prepacked_groups(void *data, rfg_dtype dtype, int64_t n, int64_t groups)
{
    rfg_tensor t = { data, dtype, 3, { n / 16, groups, 16 }, { (int64_t)((uint64_t)groups * 16), 16, 1 } };
    return t;
}

/* Rearranges src, a W of rfg_op_gemm() or a 4-bit W's scales or zero points, into dst, once and ahead of time:
 *
 *   void *packed;                                   // n * k * 2 bytes of device memory, from hipMalloc, say
 *   rfg_tensor w = rfg_tensor_2d(weights, RFG_BF16, n, k, k);
 *   rfg_tensor p = rfg_tensor_prepacked(packed, RFG_BF16, n, k);
 *   if (rfg_gemm_prepack(ctx, &p, &w, stream) != RFG_OK)
 *       die(rfg_last_error());
 *   ...                                             // weights may be freed once the stream has got there
 *   rfg_tensor x = rfg_tensor_2d(act, RFG_BF16, m, k, k), y = rfg_tensor_2d(out, RFG_BF16, m, n, n);
 *   if (rfg_op_gemm(ctx, &y, &x, &p, NULL, stream) != RFG_OK)
 *       die(rfg_last_error());
 *
 *   dst  [N/16, K/32, 4, 16, 8]     of bf16 or fp16, packed,
 *        [N/16, K/64, 4, 16, 16]    of e4m3, e4m3fnuz, e5m2 or i8, packed,
 *        [N/16, K/128, 4, 16, 32]   of i4 or e2m1, packed: see rfg_tensor_prepacked()
 *        [N/16, K/group, 16]        packed: see rfg_tensor_prepacked_groups(); then src is scales or zero points
 *   src  [N,K]        dst's dtype; row stride >= K, unit column stride; N % 16 = 0, K % 32 = 0 (of 8 bits 64)
 *        [N,K/group]  bf16, fp16, fp32, e8m0, e4m3 or i8, dst's dtype; row stride >= K/group, unit column stride; N % 16 = 0
 *
 * Of 4 bits dst is padded to K % 128 = 0, and a dst of scales or zero points may have up to 7 groups more than src;
 * zeros are written there.
 *
 * dst's number of dimensions says which. Pointers, and the row stride of a src that is a W in bytes, must be multiples
 * of 16; a src of scales or zero points has to be aligned to its elements only. N = 0 or no columns does nothing.
 * Aliasing: dst may not overlap src (refused). Elements are copied bit for bit.
 * A product of a prepacked W has the bits of the plain one's where the same variant with the same parameters serves
 * both. Variants that read rows refuse it; gemm_portable and the cpu's take every problem. Prepacking is a write of
 * weights: with launch_overlap (rfg_context_params) it must have ended before the stream's first overlapped call.
 *
 * Asynchronous on `stream`; on "cpu" the result is there on return. The first call of a size
 * may compile (rfg_prepare() does that ahead); it is legal under stream capture after that. Errors: as for
 * rfg_op_gemm(). On an error nothing was written.
 *
 * Problem strings (src -> dst): "gemm_prepack bf16->bf16 N=1024 K=7168", "gemm_prepack i4->i4 N=1024 K=7168", and of
 * scales or zero points, with K their columns, "gemm_prepack f16->f16 N=1024 K=56 groups=1". Keys:
 *   pad=  groups of zeros behind each row's scales
 *   ld=   layout: src's row stride
 * The product is then "gemm bf16,bf16->bf16 M=8 N=1024 K=7168 packed=1". */
RFG_API RFG_NODISCARD rfg_status rfg_gemm_prepack(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *src,
                                                  rfg_stream stream);

/* ---- joined weights --------------------------------------------------------------------------------------------- */

/* Joins three weights that are multiplied with the same activations, once and ahead of time, so that one product serves
 * all three. dst has the rows of q, then those of k, then those of v (as vLLM's QKVParallelLinear). A row of
 * Y = X dst^T is then [q, k, v], and norms, RoPE, cache writes and attention find their parts in it by strides.
 *
 *   dst      [Nq+Nk+Nv,K]  f32, f16 or bf16; row stride >= K, unit column stride. Or prepacked, as
 *                          rfg_tensor_prepacked() of all the rows: then it is bf16 or f16, Nq, Nk and Nv are multiples
 *                          of 16, K of 32, and pointers and row strides of q, k and v are multiples of 16 bytes
 *   q, k, v  [N.,K]        dst's dtype; row stride >= K, unit column stride
 *
 * A part may have no rows. Elements are copied bit for bit. Aliasing: dst may not overlap a part (refused).
 * Asynchronous on `stream`: it queues copies, or rfg_gemm_prepack()s. Where rows are apart it copies a row at a time,
 * so it is for loading, not for serving. With launch_overlap it is a write of weights, as prepacking is. Plain copies
 * are made even between rfg_describe_begin() and rfg_describe_end(). Errors: as rfg_gemm_prepack(). If arguments are
 * wrong nothing was written. */
RFG_API RFG_NODISCARD rfg_status rfg_pack_qkv(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *q,
                                              const rfg_tensor *k, const rfg_tensor *v, rfg_stream stream);

/* Joins the two weights of a gated MLP in the same way. Halves: gate's rows, then up's. Interleaved: in turn, and both
 * have as many rows. Give the same gates in rfg_gemm_params or rfg_act_params to what uses the product with dst.
 * Interleaved weights can't be prepacked in the same call. */
RFG_API RFG_NODISCARD rfg_status rfg_pack_gate_up(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *gate,
                                                  const rfg_tensor *up, rfg_gates gates, rfg_stream stream);

/* ---- e4m3 weights on e4m3fnuz hardware ----------------------------------------------------------------------- */

/* Converts e4m3 (e4m3fn) weights to e4m3fnuz, once and ahead of time, for MI300 (gfx942), whose fp8 matrix instructions
 * take only that. The same bits are half the value in e4m3fnuz, so scales are doubled and nothing is rounded. -0 (0x80,
 * which is e4m3fnuz's NaN) becomes 0, a NaN (0x7f, 0xff) a NaN. (vLLM's normalize_e4m3fn_to_e4m3fnuz does the same, but
 * makes 240 and -240 of NaNs.) Activations, made by rfg_op_quantize() in e4m3fnuz, have scales of their own.
 *
 *   dst        e4m3fnuz, of one to three dimensions; unit column stride
 *   src        e4m3, of dst's size; may be the same memory as dst, rows at the same distance: in place
 *   dst_scale  f32 or e8m0, or NULL with src_scale; unit column stride. Written: 2 src_scale. e8m0's 254 (2^127)
 *              becomes its NaN; without scales the caller doubles what it multiplies by
 *   src_scale  dst_scale's dtype and size; may be the same memory
 *
 * Aliasing: but for that no two tensors may overlap (refused). The host does it, a megabyte at a time, and waits for
 * the stream: it is for loading, not for serving, can't be captured, and on return it is done. Errors:
 * INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE. If arguments are wrong nothing was written. */
RFG_API RFG_NODISCARD rfg_status rfg_pack_fnuz(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *src,
                                               const rfg_tensor *dst_scale, const rfg_tensor *src_scale,
                                               rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
