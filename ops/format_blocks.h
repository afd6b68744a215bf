/* SPDX-License-Identifier: MIT
 *
 * Formats whose blocks hold their scales: those of GGUF files. Where their bits are is a table, which kernels' macros
 * repeat (ops/gemm/gpu/any/load_blocks.h).
 *
 * An element's code is cut into one or two fields. A field's bits are those of `run` bytes at a time: first the lowest
 * bits of all of them, then the next ones. The value is d * scale * (code - bias) - min. */
#ifndef RFG_OPS_FORMAT_BLOCKS_H
#define RFG_OPS_FORMAT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "rfg/core.h"

#define RFG_BLOCK_MAX_SUBS 16

struct rfg_block_field {
    int at, bits, run; /* its first byte in the block; bits of an element (0: there is no such field); bytes of a run */
};

struct rfg_block_scales {
    double d, min;                                           /* the block's fp16 numbers; 1 and 0 if it has none */
    double scale[RFG_BLOCK_MAX_SUBS], m[RFG_BLOCK_MAX_SUBS]; /* of each of its parts, times d and min */
};

struct rfg_blocks {
    struct rfg_block_field low, high;
    int bias;             /* subtracted from codes */
    const int8_t *values; /* in place of codes, 16 of them; NULL: codes are numbers */
    int part;             /* elements that share a scale */
    int d, min;           /* where the block's fp16 numbers are; -1: there is none */
    /* Reads, or writes, the scales of parts. NULL: there is one part, of scale 1, and the min is added. */
    void (*get)(const uint8_t *block, struct rfg_block_scales *s);
    void (*put)(uint8_t *block, const struct rfg_block_scales *s);
    int most_scale, most_min; /* whole numbers that put() takes; 0: it takes any, and rounds them */
};

/* Of a block of so many elements. */
void rfg_blocks_decode(const struct rfg_blocks *b, int elements, const void *block, double *values);
/* With the least scales that reach each part's largest numbers, which is close to the best. Numbers that aren't finite
 * count as 0. */
void rfg_blocks_encode(const struct rfg_blocks *b, int elements, void *block, const double *values);

/* Rows of formats[] (format.c). */
extern const struct rfg_blocks rfg_blocks_q4_0, rfg_blocks_q4_1, rfg_blocks_q5_0, rfg_blocks_q5_1, rfg_blocks_q8_0,
    rfg_blocks_q2_k, rfg_blocks_q3_k, rfg_blocks_q4_k, rfg_blocks_q5_k, rfg_blocks_q6_k, rfg_blocks_iq4_nl,
    rfg_blocks_iq4_xs, rfg_blocks_mxfp4, rfg_blocks_nvfp4;

#endif
