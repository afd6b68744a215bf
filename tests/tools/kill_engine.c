/* SPDX-License-Identifier: MIT
 *
 * A small engine for tests/tools/kills.py: kill-engine DEVICE CONTEXTS. Over and over it opens a context, runs a few
 * problems without a row (on devices other than cpu: compiles them), closes it, and prints how many misses $RFG_DB now
 * has. */
#include <rfg/rfg.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 8, K = 64, MOST = 5 };

int main(int argc, char **argv)
{
    static float x[MOST * K], w[N * K], y[MOST * N];
    rfg_context_params params = {
        .size = sizeof(params), .device = argc > 1 ? argv[1] : "cpu", .threads = 1, .misses = 1
    };
    bool cpu = !strcmp(params.device, "cpu");
    long calls = 0;
    for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 1); i++) {
        rfg_context *ctx;
        rfg_status st = rfg_context_create(&ctx, &params);
        for (int m = 1; st == RFG_OK && m <= MOST; m++) {
            rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, m, N, N), tx = rfg_tensor_2d(x, RFG_F32, m, K, K);
            rfg_tensor tw = rfg_tensor_2d(w, RFG_F32, N, K, K);
            char text[80];
            snprintf(text, sizeof(text), "gemm %s M=%d N=%d K=%d", i % 2 ? "bf16,bf16->f32" : "f32,f32->f32", m, N, K);
            st = cpu ? rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, NULL) : rfg_prepare(ctx, text);
        }
        if (st != RFG_OK) {
            fprintf(stderr, "kill-engine: %s\n", rfg_last_error());
            return 1;
        }
        rfg_context_destroy(&ctx);
        calls += cpu ? MOST : 0;
        printf("%ld\n", calls);
        fflush(stdout);
    }
    return 0;
}
