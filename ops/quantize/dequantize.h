/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_DEQUANTIZE_H
#define RFG_OPS_DEQUANTIZE_H

#include "dequantize_args.h"
#include "ops/tensors.h"
#include "rfg/quantize.h"

/* Indices of the keys. */
enum {
    DEQUANTIZE_M,
    DEQUANTIZE_N,
    DEQUANTIZE_GROUP_ROWS,
    DEQUANTIZE_GROUP_COLS,
    DEQUANTIZE_SCALE_COLUMNS, /* 1: they are column-major */
    DEQUANTIZE_LDQ,           /* row strides in elements; 0: packed */
    DEQUANTIZE_LDY,
    DEQUANTIZE_ALIGN,   /* as gemm's, of q */
    DEQUANTIZE_ALIGN_Y, /* of y */
    DEQUANTIZE_OVERLAP,
    DEQUANTIZE_NKEYS
};

#define DEQUANTIZE_CHUNK 8 /* codes that a thread has at once, of one scale */

/* dtype[0] = q, dtype[1] = scale, dtype[2] = y. */

/* What dequantize takes and quantize makes. */
static inline bool dequantize_is_code(int dtype)
{
    return rfg_dtype_is_code(dtype) || rfg_dtype_is_4_bits(dtype);
}

/* Blocks that hold their scales, whose values the scale is multiplied with besides. */
static inline bool dequantize_is_blocks(int dtype)
{
    const struct rfg_format *f = rfg_format(dtype);
    return f && f->kind == RFG_FORMAT_BLOCK;
}

#define DEQUANTIZE_BLOCKS (2 * RFG_DTYPE(NVFP4) - RFG_DTYPE(Q4_0))
#define DEQUANTIZE_CODES  (RFG_8_BIT_FLOATS | RFG_DTYPE(I8) | RFG_DTYPE(E2M1) | RFG_DTYPE(I4))

/* Fills in what follows from the problem. */
void dequantize_set_chunks(struct dequantize_args *a, const struct rfg_problem *prob);
/* Whole bytes in rows of codes, of which ldq is the stride or 0. */
bool dequantize_blocks_valid(int dtype, int64_t n, int64_t ldq, struct rfg_reason *why);
/* Strides, keys first_ld on, of at least N (the second key), and alignments, first_align on, that are powers of two. */
bool dequantize_layout_valid(const struct rfg_problem *prob, int first_ld, int first_align, struct rfg_reason *why);
/* Rows and columns of the scales. */
int64_t dequantize_scales(int64_t size, int64_t group);

/* Of scales, of this operator or of quantize. */
#define DEQUANTIZE_SCALES (RFG_DTYPE(F32) | RFG_DTYPE(E8M0))
/* Has a call as many of them as m x n elements have groups? If not, the problem's rules say first what groups may be. */
rfg_status dequantize_check_scales(const struct rfg_tensors *t, int slot, const struct rfg_problem *prob, int64_t m,
                                   int64_t n, int64_t group_rows, int64_t group_cols);

extern const struct rfg_op rfg_op_dequantize_desc;

/* gpu.c, cpu.c */
extern const struct rfg_variant dequantize_rows, dequantize_portable, dequantize_cpu;

#endif
