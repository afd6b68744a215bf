/* SPDX-License-Identifier: MIT
 *
 * What fakehip.c's kernels do and take. */
#ifndef RFG_TESTS_FAKEHIP_KERNELS_H
#define RFG_TESTS_FAKEHIP_KERNELS_H

#include <stdlib.h>
#include <string.h>

#include "ops/calibrate/calibrate_args.h"
#include "ops/gemm/gemm.h"
#include "tuner/harness/harness.h"

static void gemm(const struct gemm_args *a, rfg_dtype in_dtype, rfg_dtype out_dtype)
{
    size_t k_size = (size_t)a->k;
    double *x = malloc(((size_t)a->m + 1) * k_size * sizeof(double) + 1), *w = x + (size_t)a->m * k_size;
    if (!x)
        abort();
    for (int64_t i = 0; i < (int64_t)a->m * a->k; i++)
        x[i] = rfg_load(a->x, in_dtype, i / a->k * a->ldx + i % a->k);
    for (int64_t n = 0; n < a->n; n++) {
        for (int64_t k = 0; k < a->k; k++)
            w[k] = rfg_load(a->w, in_dtype, n * a->ldw + k);
        for (int64_t m = 0; m < a->m; m++) {
            double sum = a->bias ? rfg_load(a->bias, in_dtype, n) : 0;
            for (int64_t k = 0; k < a->k; k++)
                sum += x[m * a->k + k] * w[k];
            rfg_store(a->y, out_dtype, m * a->ldy + n, sum);
        }
    }
    free(x);
}

/* Reads of memory are those of all, once; further ones find their bytes in the cache. */
static double calibrate_us(const struct rfg_calibration *speed, const char *kernel, const struct calibrate_args *a)
{
    double us = speed->latency_us, bytes = 16.0 * a->n * a->groups;
    if (strstr(kernel, "_read"))
        us += a->times == 1 ? 1e-3 * bytes / speed->mem_gbps : 1e-3 * bytes * a->times / speed->cache_gbps;
    else if (strstr(kernel, "_chase"))
        us += a->n * speed->load_us;
    else if (strstr(kernel, "_reduce"))
        us += speed->sync_us;
    return us;
}

static bool calibrates(const char *kernel)
{
    return !strncmp(kernel, "calibrate_", 10);
}

#endif
