/* SPDX-License-Identifier: MIT
 *
 * The GPU variants of dequantize: dequantize_rows, and dequantize_portable, which is rows with the one set of
 * parameters that any problem takes. */
#include "dequantize.h"
#include "ops/gpu_rows.h"

enum { P_THREADS, P_UNROLL };

static const struct rfg_param rows_params[] = {
    [P_THREADS] = { "threads", 3, { 64, 128, 256 } },
    [P_UNROLL] = { "unroll", 3, { 1, 2, 4 } },
};

static void portable_params_of(const struct rfg_problem *prob, int *p)
{
    (void)prob;
    p[P_THREADS] = 256;
    p[P_UNROLL] = 1;
}

static int64_t chunks_of(const struct rfg_problem *prob)
{
    return prob->v[DEQUANTIZE_M] * ceil_div(prob->v[DEQUANTIZE_N], DEQUANTIZE_CHUNK);
}

static int64_t rows_groups(const struct rfg_problem *prob, const int *p)
{
    return MIN(ceil_div(chunks_of(prob), (int64_t)p[P_THREADS] * p[P_UNROLL]), MAX_GROUPS);
}

VALID_IF_THREADS_FIT(rows, P_THREADS)

static bool rows_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    int64_t groups = rows_groups(prob, p);
    if ((p[P_UNROLL] > 1 && groups < dev->cu_count) || (p[P_THREADS] > 64 && groups * 2 < dev->cu_count))
        return rfg_refuse(why, "threads=%d, unroll=%d: leaves CUs idle", p[P_THREADS], p[P_UNROLL]);
    return true;
}

/* A scale and the codes are asked for together. */
static double rows_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops, groups = (double)rows_groups(prob, p);
    prob->op->cost(prob, &bytes, &flops);
    double at_once = MIN(groups, MIN(2048.0 / p[P_THREADS], 32) * dev->cu_count);
    double in_flight = at_once * p[P_THREADS] * p[P_UNROLL] * DEQUANTIZE_CHUNK;
    double rate = MIN(1e3 * dev->mem_gbps, 3 * in_flight / LOAD_US);
    return dev->latency_us + dev->load_us + MAX(bytes / MAX(rate, 1), 0.15 * groups / dev->cu_count);
}

static void rows_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)rows_groups(prob, p), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

static void rows_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    int64_t chunk = rfg_format_bytes(prob->dtype[0], DEQUANTIZE_CHUNK);
    bool whole = v[DEQUANTIZE_N] % DEQUANTIZE_CHUNK == 0 && v[DEQUANTIZE_ALIGN] >= chunk;
    (void)dev;
    k->source = "quantize/dequantize.hip";
    k->entry = "dequantize_rows";
    rfg_kernel_macro(k, "Q_DTYPE", prob->dtype[0]);
    rfg_kernel_macro(k, "SCALE_DTYPE", prob->dtype[1]);
    rfg_kernel_macro(k, "OUT_DTYPE", prob->dtype[2]);
    rfg_kernel_macro(k, "WHOLE", whole);
    rfg_kernel_macro(k, "WIDTH_Y", access_width(prob->dtype[2], v[DEQUANTIZE_N], v[DEQUANTIZE_ALIGN_Y], 16));
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
}

/* Blocks that hold their scales are the cpu's. */
static bool codes_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return rows_supports(dev, prob, why) &&
           (dequantize_is_code(prob->dtype[0]) ||
            rfg_refuse(why, "q is %s: must have no scales of its own", rfg_dtype_name((rfg_dtype)prob->dtype[0])));
}

const struct rfg_variant dequantize_rows = { .name = "dequantize_rows",
                                             .kind = RFG_VARIANT_KERNEL,
                                             .n_params = COUNT(rows_params),
                                             .params = rows_params,
                                             .supports = codes_supports,
                                             .valid = rows_valid,
                                             .worth = rows_worth,
                                             .predict = rows_predict,
                                             .kernel = rows_kernel,
                                             .launch = rows_launch };
const struct rfg_variant dequantize_portable = { .name = "dequantize_portable",
                                                 .kind = RFG_VARIANT_KERNEL,
                                                 .supports = codes_supports,
                                                 .predict = portable_predict,
                                                 .kernel = portable_kernel,
                                                 .launch = portable_launch };
