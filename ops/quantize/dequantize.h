/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_DEQUANTIZE_H
#define RFG_OPS_DEQUANTIZE_H

#include "dequantize_args.h"
#include "ops/operand.h"
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

/* Fills in what follows from the problem. */
void dequantize_set_chunks(struct dequantize_args *a, const struct rfg_problem *prob);
/* Whole bytes in rows of codes, of which ldq is the stride or 0. */
bool dequantize_blocks_valid(int dtype, int64_t n, int64_t ldq, struct rfg_reason *why);
/* Strides, keys first_ld on, of at least N (the second key), and alignments, first_align on, that are powers of two. */
bool dequantize_layout_valid(const struct rfg_problem *prob, int first_ld, int first_align, struct rfg_reason *why);
/* What goes for problems and calls, before the layout is known. */
bool dequantize_rules(const struct rfg_problem *prob, struct rfg_reason *why);
/* Rows and columns of the scales. */
int64_t dequantize_scales(int64_t size, int64_t group);

/* A call's scales, of this operator or of quantize. */
struct dequantize_scale {
    bool columns; /* column-major: what `o` is checked as is turned round */
    rfg_tensor turned;
    struct rfg_operand o;
    int64_t row, col; /* strides in elements */
};
rfg_status dequantize_check_scale(struct dequantize_scale *s, const char *fn, const rfg_tensor *t);
/* Are there as many as go with an operand? */
rfg_status dequantize_check_scales(const struct dequantize_scale *s, const char *fn, const struct rfg_operand *of,
                                   int64_t group_rows, int64_t group_cols);

extern const struct rfg_op rfg_op_dequantize_desc;

/* gpu.c, cpu.c */
extern const struct rfg_variant dequantize_rows, dequantize_portable, dequantize_cpu;

#endif
