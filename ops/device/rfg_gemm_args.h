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

/* A chunk of 16 bytes in row n's first 32 columns of W, and bytes from there to the one 32 columns on. Macro: PREPACKED
 * (W is [N/16][K/32][4][16][8], see rfg_gemm_prepack()). */
#if PREPACKED
#define GEMM_W_CHUNK(a, n, chunk) ((const char *)(a)->w + (n) / 16 * (long long)(a)->k * 32 + (chunk) * 256 + (n) % 16 * 16)
#define GEMM_W_STEP               1024
#else
#define GEMM_W_CHUNK(a, n, chunk) ((const char *)(a)->w + (n) * GEMM_LDW(a) * 2 + (chunk) * 16)
#define GEMM_W_STEP               64
#endif
