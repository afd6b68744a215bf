/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of row-wise operators: <op>_rows, and <op>_portable, which is rows with the one set of parameters
 * that any problem takes. For the one gpu.c of a folder, which defines what is declared here, rows_params, rows_valid()
 * and rows_worth(), and says KERNEL_VARIANT and PORTABLE_VARIANT for each of its operators. */
#ifndef RFG_OPS_GPU_ROWS_H
#define RFG_OPS_GPU_ROWS_H

#include "gpu.h"

enum { KEEP_NOTHING, KEEP_REGISTERS, KEEP_LDS };

static void portable_params_of(const struct rfg_problem *prob, int *p);
static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p);
static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k);
static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l);

static bool rows_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    int p[RFG_MAX_PARAMS];
    (void)none;
    portable_params_of(prob, p);
    return 4 * rows_predict(dev, prob, p);
}

static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_kernel *k)
{
    int p[RFG_MAX_PARAMS];
    (void)none;
    portable_params_of(prob, p);
    rows_kernel(dev, prob, p, k);
}

static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none,
                            struct rfg_launch *l)
{
    int p[RFG_MAX_PARAMS];
    (void)none;
    portable_params_of(prob, p);
    rows_launch(dev, prob, p, l);
}

/* order_: how it sums (struct rfg_variant), NULL: it sums nothing. */
#define KERNEL_VARIANT(op, kind_, order_)                                                                              \
    const struct rfg_variant op##_##kind_ = {                                                                          \
        .name = #op "_" #kind_,                                                                                        \
        .kind = RFG_VARIANT_KERNEL,                                                                                    \
        .n_params = COUNT(kind_##_params),                                                                             \
        .params = kind_##_params,                                                                                      \
        .supports = kind_##_supports,                                                                                  \
        .valid = kind_##_valid,                                                                                        \
        .worth = kind_##_worth,                                                                                        \
        .predict = kind_##_predict,                                                                                    \
        .order = order_,                                                                                               \
        .kernel = kind_##_kernel,                                                                                      \
        .launch = kind_##_launch,                                                                                      \
    }
#define PORTABLE_VARIANT(op, order_)                                                                                   \
    const struct rfg_variant op##_portable = {                                                                         \
        .name = #op "_portable",                                                                                       \
        .kind = RFG_VARIANT_KERNEL,                                                                                    \
        .supports = rows_supports,                                                                                     \
        .predict = portable_predict,                                                                                   \
        .order = order_,                                                                                               \
        .kernel = portable_kernel,                                                                                     \
        .launch = portable_launch,                                                                                     \
    }

#endif
