/* SPDX-License-Identifier: MIT
 *
 * The device's view of struct gemm_args (ops/gemm/gemm.h): same bytes; a test compares the offsets. */
struct gemm_args {
    void *y;
    const void *x, *w, *bias;
    int m, n, k;
    int pad;
    long long ldx, ldw, ldy;
    void *workspace;
    unsigned int *counters;
};

/* Row strides in elements. Macro: PACKED (rows of X, W and Y follow each other). */
#define GEMM_LDX(a) (PACKED ? (long long)(a)->k : (a)->ldx)
#define GEMM_LDW(a) (PACKED ? (long long)(a)->k : (a)->ldw)
#define GEMM_LDY(a) (PACKED ? (long long)(a)->n : (a)->ldy)
