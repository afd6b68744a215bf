/* SPDX-License-Identifier: MIT
 *
 * The variants <op>_cpu_<instruction set> of row-wise operators. For the one cpu.c of a folder, which defines
 * workspace() and run() and says ROWS_VARIANTS for each of its operators. */
#ifndef RFG_OPS_CPU_ROWS_VARIANTS_H
#define RFG_OPS_CPU_ROWS_VARIANTS_H

#include <stdio.h>

#include "pool.h"
#include "rows.h"

enum { P_STREAM };

static const struct rfg_param cpu_params[] = {
    [P_STREAM] = { "stream", 2, { 0, 1 } }, /* results past the caches */
};

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p);
static void run(const struct rfg_cpu_rows *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                const int *p, const void *kargs, struct rfg_cpu_pool *pool);

#define ROWS_FUNCTIONS(isa_name)                                                                                       \
    static bool isa_name##_supports(const struct rfg_device *dev, const struct rfg_problem *prob,                      \
                                    struct rfg_reason *why)                                                            \
    {                                                                                                                  \
        (void)prob;                                                                                                    \
        return rfg_cpu_supports(dev, &rfg_cpu_rows_##isa_name, why);                                                   \
    }                                                                                                                  \
    static double isa_name##_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)       \
    {                                                                                                                  \
        return rfg_cpu_predict(dev, prob, &rfg_cpu_rows_##isa_name, p[P_STREAM]);                                      \
    }                                                                                                                  \
    static bool isa_name##_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,           \
                                 struct rfg_order *order, struct rfg_reason *why)                                      \
    {                                                                                                                  \
        (void)dev, (void)prob, (void)p, (void)why;                                                                     \
        snprintf(order->words, sizeof(order->words), "cpu_" #isa_name);                                                \
        return true;                                                                                                   \
    }                                                                                                                  \
    static void isa_name##_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,             \
                               const void *kargs, struct rfg_cpu_pool *pool)                                           \
    {                                                                                                                  \
        run(&rfg_cpu_rows_##isa_name, dev, prob, p, kargs, pool);                                                      \
    }

#define ROWS_VARIANT(op, isa_name)                                                                                     \
    const struct rfg_variant op##_cpu_##isa_name = {                                                                   \
        .name = #op "_cpu_" #isa_name,                                                                                 \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .n_params = 1,                                                                                                 \
        .params = cpu_params,                                                                                          \
        .supports = isa_name##_supports,                                                                               \
        .predict = isa_name##_predict,                                                                                 \
        .workspace = workspace,                                                                                        \
        .order = isa_name##_order,                                                                                     \
        .run = isa_name##_run,                                                                                         \
    }

ROWS_FUNCTIONS(portable)
#if defined(__x86_64__)
ROWS_FUNCTIONS(avx2)
ROWS_FUNCTIONS(avx512)
#define X86_VARIANT(op, isa_name) ROWS_VARIANT(op, isa_name)
#else
static bool no_x86(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)dev, (void)prob;
    return rfg_refuse(why, "built for another processor than x86-64");
}
#define X86_VARIANT(op, isa_name)                                                                                      \
    const struct rfg_variant op##_cpu_##isa_name = {                                                                   \
        .name = #op "_cpu_" #isa_name,                                                                                 \
        .kind = RFG_VARIANT_HOST,                                                                                      \
        .supports = no_x86,                                                                                            \
    }
#endif

#define ROWS_VARIANTS(op)                                                                                              \
    ROWS_VARIANT(op, portable);                                                                                        \
    X86_VARIANT(op, avx2);                                                                                             \
    X86_VARIANT(op, avx512)

#endif
