/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_GEMM_H
#define RFG_OPS_GEMM_H

#include "../op.h"

/* Indices of the problem's keys, in the order of gemm_keys. */
enum {
    GEMM_M,
    GEMM_N,
    GEMM_K,
    GEMM_BIAS,
    GEMM_LDX, /* row strides in elements; 0: packed (K, K, N) */
    GEMM_LDW,
    GEMM_LDY,
    GEMM_ALIGN,   /* 1, 2, 4, 8, 16: what x's and w's pointers and row strides, in bytes, are multiples of */
    GEMM_ALIGN_Y, /* the same for y and bias */
    GEMM_NKEYS
};

/* dtype[0] = X, dtype[1] = W (and bias), dtype[2] = Y. */

/* What every gemm kernel, on GPU and CPU, is given (by value, as its only parameter). ops/device/gemm_args.h is
 * the kernels' view of the same bytes. */
struct gemm_args {
    /* The first 48 bytes: all that packed operands take without a workspace (see act_args.h). */
    void *y;
    const void *x, *w, *bias; /* bias NULL: none */
    int32_t m, n, k;
    int32_t pad;
    int64_t ldx, ldw, ldy;
    struct rfg_kargs_head head; /* workspace: fp32 partials; counters: one a tile */
};

extern const struct rfg_op rfg_op_gemm_desc;

/* ops/gemm/cpu.c, ops/gemm/gpu.c, ops/gemm/vendor.c */
extern const struct rfg_variant gemm_cpu_avx512, gemm_cpu_avx2, gemm_cpu_portable;
extern const struct rfg_variant gemm_skinny, gemm_skinny_mma_asm, gemm_splitk_mma, gemm_direct_mma, gemm_portable;
extern const struct rfg_variant gemm_stream_mma; /* ops/gemm/gpu_stream.c */
extern const struct rfg_variant gemm_wgmma; /* ops/gemm/gpu_wgmma.c */
extern const struct rfg_variant gemm_cublaslt, gemm_hipblaslt, gemm_rocblas;

#endif
