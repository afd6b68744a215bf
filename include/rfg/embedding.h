/* SPDX-License-Identifier: MIT */
#ifndef RFG_EMBEDDING_H
#define RFG_EMBEDDING_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rfg_embedding_params {
    size_t size;   /* sizeof(rfg_embedding_params): see rfg/core.h. All other members may be zero */
    float scale;   /* what rows are multiplied with (Gemma: sqrt(N)); 0: 1 */
    int64_t first; /* the id of the table's first row: vocabulary-parallel ranks hold a share of the rows each */
} rfg_embedding_params;
#define RFG_EMBEDDING_PARAMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(rfg_embedding_params), 0, 0                                                                             \
    }

/* Y[m] = scale table[ids[m] - first]: the rows of the embedding table that tokens stand for (torch.nn.Embedding;
 * Megatron-LM's VocabParallelEmbedding, whose ranks sum their results).
 *
 *   y       [M,N]   the table's dtype, or f32; row stride >= N, unit column stride; what lies between the rows is not
 *                   touched
 *   ids     [M]     i32 or i64, unit stride; read by the device, not by the host
 *   table   [V,N]   bf16, fp16 or fp32; row stride >= N, unit column stride
 *   params  or NULL
 *
 * An id that isn't one of the table's rows (below first, or from first + V on) gives a row of zeros; nothing outside of
 * the table is read. Without a scale rows are copied, whatever bits they hold; with one they are multiplied in fp32 and
 * rounded once, to nearest even.
 * M = 0 or N = 0 does nothing, V = 0 gives zeros. Pointers must be aligned to their element's size; M, N, V and strides
 * <= 2^31 - 1. Aliasing: y may not overlap ids or the table (refused).
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 * Problem string: "embedding i32,bf16->bf16 M=64 N=4096 V=128256"; scaled=1: there is a scale. Of the layout, which
 * tuned rows don't go by: ldt=, ldy=: row strides of the table and y in elements, where rows don't follow one another;
 * align=, align_y=: where pointers and row strides are multiples of fewer than 16 bytes. overlap=1: as for
 * rfg_op_gemm(). */
RFG_API RFG_NODISCARD rfg_status rfg_op_embedding(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *ids,
                                                  const rfg_tensor *table, const rfg_embedding_params *params,
                                                  rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
