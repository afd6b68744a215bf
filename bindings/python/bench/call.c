/* SPDX-License-Identifier: MIT
 *
 * The cost of the C call of overhead.py's gemm: prints nanoseconds, the least of 200 means of 500 calls. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rfg/rfg.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    enum { M = 1, N = 16, K = 16, CALLS = 500 };
    static float x[M * K], w[N * K], y[M * N];
    rfg_context *ctx;
    if (rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = "cpu" })) {
        fprintf(stderr, "%s\n", rfg_last_error());
        return 1;
    }
    int m = argc > 1 ? atoi(argv[1]) : M; /* 0: the arguments are checked, nothing is launched */
    rfg_tensor xt = rfg_tensor_2d(x, RFG_F32, m, K, K), wt = rfg_tensor_2d(w, RFG_F32, N, K, K);
    rfg_tensor yt = rfg_tensor_2d(y, RFG_F32, m, N, N);
    double best = 1e30;
    for (int round = 0; round < 200; round++) {
        double start = now();
        for (int i = 0; i < CALLS; i++)
            if (rfg_op_gemm(ctx, &yt, &xt, &wt, NULL, NULL))
                return 1;
        double each = (now() - start) / CALLS;
        best = each < best ? each : best;
    }
    printf("%.0f\n", best);
    rfg_context_destroy(&ctx);
    return 0;
}
