/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_EMBEDDING_H
#define RFG_OPS_EMBEDDING_H

#include "embedding_args.h"
#include "ops/op.h"
#include "rfg/embedding.h"

/* Indices of the keys. */
enum {
    EMBEDDING_M,
    EMBEDDING_N,
    EMBEDDING_V,
    EMBEDDING_SCALED,
    EMBEDDING_LDT, /* row strides in elements; 0: packed */
    EMBEDDING_LDY,
    EMBEDDING_ALIGN,   /* as gemm's, of the table */
    EMBEDDING_ALIGN_Y, /* of y */
    EMBEDDING_OVERLAP,
    EMBEDDING_NKEYS
};

/* dtype[0] = ids, dtype[1] = table, dtype[2] = y. */

/* Fills in what follows from the sizes. */
void embedding_set_chunks(struct embedding_args *a, const struct rfg_problem *prob);

extern const struct rfg_op rfg_op_embedding_desc;

/* gpu.c, cpu.c */
extern const struct rfg_variant embedding_rows, embedding_portable, embedding_cpu;

#endif
