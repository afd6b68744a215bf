/* SPDX-License-Identifier: MIT */
#ifndef RFG_EMBEDDING_H
#define RFG_EMBEDDING_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rfg_embedding_params {
    size_t size;   /* sizeof(rfg_embedding_params): see rfg/core.h. All other members may be zero */
    float scale;   /* factor of the rows (Gemma: sqrt(N)); 0: 1 */
    int64_t first; /* id of the table's first row, if each rank holds a share of the vocabulary */
} rfg_embedding_params;
#define RFG_EMBEDDING_PARAMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(rfg_embedding_params), 0, 0                                                                             \
    }

/* Looks up token ids in an embedding table: Y[m] = scale table[ids[m] - first] (torch.nn.Embedding; Megatron-LM's
 * VocabParallelEmbedding, whose ranks sum their results).
 *
 *   y       [M,N]   the table's dtype, or f32; row stride >= N, unit column stride; gaps between rows are not written
 *   ids     [M]     i32 or i64, unit stride; read by the device, not by the host
 *   table   [V,N]   bf16, fp16 or fp32; row stride >= N, unit column stride
 *   params  or NULL
 *
 * An id outside of the table (below first, or first + V and above) gives a row of zeros; nothing outside of the table
 * is read. Without a scale, rows are copied bit for bit. With one, they are multiplied in fp32 and rounded once, to
 * nearest even.
 * M = 0 or N = 0 does nothing. V = 0 gives zeros. Pointers must be aligned to their element's size. M, N, V and strides
 * <= 2^31 - 1. Aliasing: y may not overlap ids or the table (refused).
 * Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "embedding i32,bf16->bf16 M=64 N=4096 V=128256" (ids, table -> y). Its keys:
 *   scaled=1         there is a scale
 *   ldt=, ldy=       layout: row strides of the table and y
 *   align=, align_y= layout: alignment of the table's, and of y's pointer and row stride
 *   overlap=1        see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_embedding(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *ids,
                                                  const rfg_tensor *table, const rfg_embedding_params *params,
                                                  rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
