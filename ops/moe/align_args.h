/* SPDX-License-Identifier: MIT
 *
 * What every kernel of moe_align is given, by value; the host and the kernels read this same text. The last two members
 * are struct rfg_kargs_head. */
#ifndef RFG_MOE_ALIGN_ARGS_H
#define RFG_MOE_ALIGN_ARGS_H

/* enum rfg_moe_format. */
#define ALIGN_PLAIN      0
#define ALIGN_VLLM       1
#define ALIGN_AITER      2
#define ALIGN_CONTIGUOUS 3
#define ALIGN_MASKED     4
/* Segments are whole blocks, and what lies behind the last one is written, too. */
#define ALIGN_PADS(format) ((format) >= ALIGN_VLLM && (format) <= ALIGN_CONTIGUOUS)

#define ALIGN_MAX_EXPERTS 8192 /* RFG_MOE_MAX_EXPERTS */
#define ALIGN_MAX_TOP     32
#define ALIGN_IDENTITY    (-2) /* RFG_MOE_IDENTITY */

/* Words of LDS that a workgroup of moe_align_chunks counts in. */
#define ALIGN_CHUNKS_WORDS(experts, waves) ((experts) * (2u + (waves)))

struct moe_align_args {
    const int *ids, *map, *tokens; /* map, tokens: NULL if there is none */
    const float *weights;          /* NULL, or weights_out is there, too */
    int *rows;
    int *offsets, *block_experts, *count; /* those that the format has */
    float *weights_out;
    int *places;                  /* or NULL */
    long long ldi, ldw, ldp;      /* row strides in elements, of ids, weights, places */
    int t, top, experts, ids_end; /* ids_end: G, without a map experts */
    int block, n_rows, n_blocks;  /* n_rows: of rows; of a masked expert's */
    int bits;                     /* of a number up to experts */
    int identity;                 /* ids from ids_end on that stand for the token itself */
    /* What divides by top and by block, as rfg_divisor() has it. */
    unsigned int top_mul, top_shift, block_mul, block_shift;
    void *workspace;
    unsigned int *counters;
};

#endif
