/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_GEMM_H
#define RFG_OPS_GEMM_H

#include "ops/op.h"
#include "ops/operand.h"
#include "gemm_args.h"
#include "prepack_layout.h"

/* Indices of the problem's keys, in the order of gemm_keys. */
enum {
    GEMM_M,
    GEMM_N,
    GEMM_K,
    GEMM_BIAS,
    GEMM_PREPACKED, /* "packed": W is as rfg_gemm_prepack() leaves it */
    GEMM_LDX,       /* row strides in elements; 0: rows follow each other (K, K, N) */
    GEMM_LDW,
    GEMM_LDY,
    GEMM_ALIGN,   /* 1, 2, 4, 8, 16: what x's and w's pointers and row strides, in bytes, are multiples of */
    GEMM_ALIGN_Y, /* the same for y and bias */
    GEMM_OVERLAP,
    GEMM_NKEYS
};

/* dtype[0] = X, dtype[1] = W (and bias), dtype[2] = Y. */

/* What variants without a loader for more take: x, w and y of f32, f16 or bf16, x and w of one. Says why not. */
bool gemm_is_plain(const struct rfg_problem *prob, struct rfg_reason *why);

_Static_assert(sizeof(struct gemm_args) == GEMM_ARGS_BYTES &&
                   offsetof(struct gemm_args, counters) ==
                       offsetof(struct gemm_args, workspace) + offsetof(struct rfg_kargs_head, counters),
               "arguments must be the kernels', and end with struct rfg_kargs_head");

extern const struct rfg_op rfg_op_gemm_desc;

/* The rearranging of W (prepack.c). dtype[0] = source, dtype[1] = destination: the same. */
enum { PREPACK_N, PREPACK_K, PREPACK_LD, PREPACK_OVERLAP, PREPACK_NKEYS };

/* Where element k of row n is in a prepacked W of K columns. */
static inline int64_t prepacked_at(int64_t n, int64_t k, int64_t cols)
{
    return PREPACKED_AT(n, k, cols);
}

/* Can N x K elements of this dtype be prepacked? Says why not. */
bool prepack_valid(int64_t n, int64_t k, int dtype, struct rfg_reason *why);
/* A prepacked view of rows and columns as an operand; refuses what is not laid out as one. */
rfg_status prepack_operand(struct rfg_operand *o, const char *fn, const char *name, const rfg_tensor *t);

extern const struct rfg_op rfg_op_gemm_prepack_desc;

/* ops/gemm/cpu/cpu.c, ops/gemm/gpu/gpu.c, ops/gemm/vendor/vendor.c */
extern const struct rfg_variant gemm_cpu_avx512, gemm_cpu_avx2, gemm_cpu_portable;
extern const struct rfg_variant gemm_skinny, gemm_skinny_mma_asm, gemm_splitk_mma, gemm_portable;
extern const struct rfg_variant gemm_stream_mma;           /* ops/gemm/gpu/gpu_stream.c */
extern const struct rfg_variant gemm_thin_mma, gemm_wgmma; /* ops/gemm/gpu/gpu_thin.c, gpu_wgmma.c */
extern const struct rfg_variant gemm_cublaslt, gemm_hipblaslt, gemm_rocblas;

#endif
