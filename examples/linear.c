/* SPDX-License-Identifier: MIT
 *
 * y = x w^T + bias on the cpu device. With rfg installed:
 *   cc -std=c17 linear.c $(pkg-config --cflags --libs rfg) -o linear && ./linear
 * On "amd:0" or "nvidia:0" the pointers are device memory and the stream is the engine's own. */
#include <rfg/rfg.h>

#include <stdio.h>

enum { M = 2, N = 3, K = 4 };

int main(void)
{
    float x[M * K] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    float w[N * K] = { 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1 };
    float bias[N] = { 0.5f, 0.25f, 0 }, y[M * N];

    rfg_context *ctx;
    rfg_context_params params = { .size = sizeof(params), .device = "cpu" };
    if (rfg_context_create(&ctx, &params) != RFG_OK) {
        fprintf(stderr, "rfg_context_create: %s\n", rfg_last_error());
        return 1;
    }
    rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, M, K, K);
    rfg_tensor tw = rfg_tensor_2d(w, RFG_F32, N, K, K);
    rfg_tensor tb = rfg_tensor_1d(bias, RFG_F32, N);
    rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, M, N, N);
    rfg_gemm_params p = RFG_GEMM_PARAMS_INIT;
    p.bias = &tb;
    rfg_status st = rfg_op_gemm(ctx, &ty, &tx, &tw, &p, NULL);
    if (st != RFG_OK)
        fprintf(stderr, "rfg_op_gemm: %s\n", rfg_last_error());
    for (int m = 0; st == RFG_OK && m < M; m++)
        printf("%g %g %g\n", y[m * N], y[m * N + 1], y[m * N + 2]);
    rfg_context_destroy(&ctx);
    return st != RFG_OK;
}
