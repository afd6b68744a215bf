/* SPDX-License-Identifier: MIT
 *
 * What every gemm kernel, on GPU and CPU, is given, by value; the host and the kernels read this same text.
 * workspace and counters are struct rfg_kargs_head. */
#ifndef RFG_GEMM_ARGS_H
#define RFG_GEMM_ARGS_H

/* A kernel is given them up to the last part that it reads, GEMM_ARGS (load.h); the host has all. The offsets are the
 * same. (All of them would do, but NVRTC 13.0 makes other code of more than 128 bytes: it takes their address.) */
#define GEMM_ARGS_PLAIN    0
#define GEMM_ARGS_W_SCALE  1
#define GEMM_ARGS_RESIDUAL 2
#define GEMM_ARGS_SCALES   3
#define GEMM_ARGS_W_ZERO   4
#define GEMM_ARGS_LIMITED  5
#define GEMM_ARGS_EXPERTS  6
#define GEMM_ARGS_Y_CODES  7
#define GEMM_ARGS_SLOTS    8
#define GEMM_ARGS_BATCH    9
#ifndef GEMM_ARGS
#define GEMM_ARGS GEMM_ARGS_BATCH
#endif

struct gemm_args {
    /* The first 48 bytes: all that packed operands take without a workspace (see act_args.h). */
    void *y;
    const void *x, *w, *bias; /* bias NULL: none */
    int m, n, k;              /* n: rows of W */
    int linear_beta;          /* with LIMITED: of struct rfg_gate, as alpha and limit */
    long long ldx, ldw, ldy;  /* row strides in elements; only read if the rows don't follow each other */
    void *workspace;          /* fp32 partials */
    unsigned int *counters;   /* one a tile */
#if GEMM_ARGS >= GEMM_ARGS_W_SCALE
    const void *w_scale; /* of formats with groups: [n][k / group], packed; of a prepacked w see prepack_layout.h */
#endif
#if GEMM_ARGS >= GEMM_ARGS_RESIDUAL
    const void *residual;
    long long ldr;
#endif
#if GEMM_ARGS >= GEMM_ARGS_SCALES
    const void *x_scale; /* NULL, as w_scale: none */
    /* Elements from the scale of a row (w of blocks: of 128 rows), or of 128 columns (of groups: 32), to the next; 0:
     * they share it. */
    int x_scale_row, x_scale_col, w_scale_row, w_scale_col;
#endif
#if GEMM_ARGS >= GEMM_ARGS_W_ZERO
    union {                    /* no W has both */
        const void *w_zero;    /* as w_scale */
        const float *w_global; /* what all scales are multiplied by; of experts one each. NULL: none */
    };
#endif
#if GEMM_ARGS >= GEMM_ARGS_LIMITED
    float alpha, limit;
#endif
#if GEMM_ARGS >= GEMM_ARGS_EXPERTS
    /* [experts + 1]: rows of y from offsets[e] on are products with expert e's rows of w; with EXPERT_IDS [m]: of each
     * row of y its expert. */
    const int *offsets;
    const int *rows;      /* with GATHER: the rows of x that y's are products of */
    const float *weights; /* with WEIGHTED: what rows of y are multiplied by */
    int experts, x_rows;  /* x_rows: rows of x */
    int w_expert_scales;  /* scales of codes from an expert's to the next one's */
    int x_each;           /* with EXPERT_IDS: rows of y that a row of x has, 1 or more */
#endif
#if GEMM_ARGS >= GEMM_ARGS_Y_CODES
    const float *y_scale; /* of codes: what they are multiplied by */
#endif
#if GEMM_ARGS >= GEMM_ARGS_SLOTS
    const int *places; /* [m / top][top]: rows of the product that are summed to one of y, and of the residual */
    const int *tokens; /* how many rows of y count; NULL: all */
    int top;
    int reserved_slots;
#endif
#if GEMM_ARGS >= GEMM_ARGS_BATCH
    long long x_batch, w_batch, y_batch; /* of a batch: elements from one product's matrix to the next one's */
#endif
};

/* With SLOTS rows of the product go to the workspace, before partial sums: elements from one to the next, and bytes of
 * all. A row is whole chunks of 16 bytes. */
#define GEMM_SLOT_LD(n)             (((n) + 15) / 16 * 16)
#define GEMM_SLOT_BYTES(m, n, each) (((long long)(m)*GEMM_SLOT_LD(n) * (each) + 255) / 256 * 256)

/* SCALES: how scales of codes go into the sum. */
#define GEMM_SCALES_NONE   0
#define GEMM_SCALES_ROWS   1 /* they multiply it: of rows or of tensors */
#define GEMM_SCALES_BLOCKS 2 /* they multiply its part of each GEMM_SCALE_BLOCK columns */
#define GEMM_SCALES_GROUPS 3 /* they multiply its part of each GEMM_SCALE_GROUP columns */
#define GEMM_SCALE_BLOCK   128
#define GEMM_SCALE_GROUP   32

#define GEMM_ARGS_BYTES 88 /* of GEMM_ARGS_PLAIN; gemm.h asserts it */

#endif
