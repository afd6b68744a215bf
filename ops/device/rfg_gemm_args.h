/* SPDX-License-Identifier: MIT
 *
 * The device's view of struct gemm_args (ops/gemm/gemm.h): same bytes; a test compares the offsets. */
struct gemm_args {
    void *workspace;
    unsigned int *counters;
    void *y;
    const void *x, *w, *bias;
    long long ldx, ldw, ldy;
    int m, n, k;
    int pad;
};
