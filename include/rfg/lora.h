/* SPDX-License-Identifier: MIT */
#ifndef RFG_LORA_H
#define RFG_LORA_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RFG_LORA_MAX_RANK 512

typedef struct rfg_lora_params {
    size_t size;              /* sizeof(rfg_lora_params): see rfg/core.h. All other members may be zero */
    const rfg_tensor *indptr; /* [S+1] i32, S from 1 on: rows come in segments; NULL: each row has an id */
    const rfg_tensor *scales; /* [L] f32: a factor of each adapter; NULL: 1 */
    const rfg_tensor *ranks;  /* [L] i32: each adapter's rank; NULL: all have `rank` */
    float scale;              /* a factor of all; 0: 1 */
    int32_t reserved;         /* 0 */
} rfg_lora_params;
#define RFG_LORA_PARAMS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(rfg_lora_params), NULL, NULL, NULL, 0, 0                                                                \
    }

/* Adds low-rank adapters (LoRA) to a product's rows. Each row has an adapter of its own, out of L:
 *
 *   y[m] += scale * scales[i] * (x[m] a[i]^T) b[i]^T    i: the adapter of row m
 *
 * It is what vLLM's punica kernels lora_shrink and lora_expand do, and SGLang's and S-LoRA's for segments. One launch
 * does both steps. Rows may be in any order; rows of the same adapter share its loads.
 *
 *   y       [M,N]       bf16, fp16 or fp32: input and output
 *   x       [M,K]       bf16 or fp16
 *   a       [L,rank,K]  x's dtype; rank from 1 to RFG_LORA_MAX_RANK
 *   b       [L,N,rank]  x's dtype
 *   ids     [M] i32     the adapter of each row; with indptr [S]: of each segment
 *   params  or NULL
 *
 * With indptr, segment s has rows indptr[s] to indptr[s+1] - 1. indptr must not fall. Its values are not checked: rows
 * before the first and behind the last segment have no adapter, and values beyond M do no harm.
 *
 * A row without an adapter is neither read nor written. Its id is negative, or L or more. So are the rows of an adapter
 * whose entry in ranks is 0 or less. An entry above `rank` counts as `rank`. Of an adapter whose rank is smaller only
 * a's first rows and b's first columns are read; the rest may hold anything.
 *
 * y's, x's, a's and b's last dimension has unit stride. The others may have any strides, so slices work: for q, k and v
 * in one y [M,Nq+Nk+Nv], call once for each, with a view of y. ids, indptr, scales and ranks are packed. Pointers and
 * strides of whole multiples of 16 bytes are fast. Pointers must be aligned to their element's size.
 * M = 0, N = 0 or L = 0 does nothing.
 *
 * Products and sums are fp32. x[m] a[i]^T stays fp32 (vLLM rounds it to 16 bits). The factors are applied to it. The
 * result is added to y and rounded once, to nearest even. Results are bitwise reproducible. A row's bits depend on
 * nothing but that row, its adapter, K, rank and the device's instruction set: not on M, the other rows, the tuned
 * parameters, or the form in which ids are given.
 *
 * ids, indptr, scales and ranks are read on the device only: they may change between replays of a captured graph.
 *
 * Aliasing: y may overlap no other tensor (refused).
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "lora bf16->bf16 M=64 N=4096 K=4096 rank=16 adapters=8" (x -> y). Its keys:
 *   segments=4        there is indptr, of so many segments; 0: an id a row
 *   scales=1          layout: there are scales
 *   ranks=1           layout: there are ranks
 *   align=, align_a=, align_b=, align_y=
 *                     layout: alignment of x, a, b and y
 *   form=             layout: how tests lay out the tensors
 *   overlap=1         see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_lora(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x,
                                             const rfg_tensor *a, const rfg_tensor *b, const rfg_tensor *ids,
                                             const rfg_lora_params *params, rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
