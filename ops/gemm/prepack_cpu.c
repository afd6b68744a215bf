/* SPDX-License-Identifier: MIT
 *
 * gemm_prepack on the cpu. */
#include <string.h>

#include "ops/cpu/pool.h"
#include "ops/gpu.h"
#include "ops/model/model.h"
#include "gemm.h"
#include "prepack_args.h"

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops;
    (void)p;
    prepack_cost(prob, &bytes, &flops);
    return 1 + bytes / (1e3 * MAX(dev->mem_gbps, 1));
}

struct job {
    const struct prepack_args *a;
    size_t ld;     /* bytes from a row of src to the next */
    size_t chunk;  /* bytes of src that stay together, */
    size_t chunks; /* and how many a row of src and */
    size_t padded; /* of dst has */
};

/* 16 rows. */
static void task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    char *to = (char *)j->a->dst + (size_t)task * PREPACK_ROWS * j->padded * j->chunk;
    const char *from = (const char *)j->a->src + (size_t)task * PREPACK_ROWS * j->ld;
    (void)worker;
    for (size_t i = 0; i < j->chunks; i++)
        for (int r = 0; r < PREPACK_ROWS; r++, to += j->chunk)
            memcpy(to, from + (size_t)r * j->ld + i * j->chunk, j->chunk);
    memset(to, 0, (j->padded - j->chunks) * PREPACK_ROWS * j->chunk);
}

/* The same of 4 bits. */
static void task4(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    const char *from = (const char *)j->a->src + (size_t)task * PREPACK_ROWS * j->ld;
    char *to = (char *)j->a->dst + (size_t)task * PREPACK_ROWS * j->padded * j->chunk;
    (void)worker;
    for (size_t i = 0; i < j->padded; i++) /* the i-th in a row of dst: its words are 16 bytes apart in src */
        for (int r = 0; r < PREPACK_ROWS; r++)
            for (int part = 0; part < 4; part++, to += 4) {
                uint32_t w = 0;
                if (i / 4 * 4 + (size_t)part < j->chunks)
                    memcpy(&w, from + (size_t)r * j->ld + i / 4 * 64 + i % 4 * 4 + part * 16, 4);
                w = PREPACK4_WORD(w);
                memcpy(to, &w, 4);
            }
}

static void run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                struct rfg_cpu_pool *pool)
{
    const struct prepack_args *a = kargs;
    int dtype = prob->dtype[0], in_chunk = prob->v[PREPACK_GROUPS] ? 1 : prepack_chunk(dtype);
    struct job j = { .a = a,
                     .ld = (size_t)rfg_format_bytes(dtype, a->ld),
                     .chunk = (size_t)rfg_format_bytes(dtype, in_chunk),
                     .chunks = (size_t)(a->k / in_chunk),
                     .padded = (size_t)(prepack_dst_cols(prob) / in_chunk) };
    (void)dev, (void)p;
    rfg_cpu_pool_run(pool, a->n / PREPACK_ROWS, in_chunk == PREPACK4_CHUNK ? task4 : task, &j);
}

const struct rfg_variant gemm_prepack_cpu = {
    .name = "gemm_prepack_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_only,
    .predict = predict,
    .run = run,
};
