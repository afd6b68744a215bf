/* SPDX-License-Identifier: MIT
 *
 * gemm_slots: rows of which each has an expert by its id, summed by token as they are made: what it can do, how it is
 * launched, and how long it should take. */
#include "gpu.h"

enum { P_ROWS, P_WAVES, P_UNROLL };

static const struct rfg_param params[] = {
    [P_ROWS] = { "rows", 3, { 1, 2, 4 } },
    [P_WAVES] = { "waves", 4, { 1, 2, 4, 8 } },
    [P_UNROLL] = { "unroll", 4, { 1, 2, 4, 8 } },
};

static const struct gemm_takes takes = {
    .rows = GEMM_READ_F32 | GEMM_READ_HALF | GEMM_READ_GROUPS | GEMM_READ_W8 | GEMM_READ_PARTS | GEMM_READ_FINE,
    .chunks = true,
    .ends = GEMM_END_EXPERTS | GEMM_END_SLOTS | GEMM_END_IDS | GEMM_END_RESIDUAL,
};

static bool slots_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why) || !gemm_takes(prob, &takes, why))
        return false;
    if (!prob->v[GEMM_IDS] || !prob->v[GEMM_SLOTS])
        return rfg_refuse(why, "ids=%" PRId64 ", slots=%" PRId64 ": must both be said", prob->v[GEMM_IDS],
                          prob->v[GEMM_SLOTS]);
    return gemm_scales(prob) != GEMM_SCALES_ROWS ||
           rfg_refuse(why, "w_per=%s: must be block or group", gemm_per_name(prob->v[GEMM_W_PER]));
}

static int64_t chunks_of(const struct rfg_problem *prob)
{
    return prob->v[GEMM_SLOTS] * (prob->v[GEMM_K] / gemm_w_vec(prob));
}

static int64_t groups_of(const struct rfg_problem *prob, const int *p)
{
    return ceil_div(prob->v[GEMM_N], p[P_ROWS]);
}

static int registers_of(const struct rfg_problem *prob, const int *p)
{
    int scales = gemm_scales(prob) != GEMM_SCALES_NONE, vec = (int)gemm_w_vec(prob);
    int of_x = 4 * vec / (int)rfg_format_elements(prob->dtype[0], 16);
    return 40 + ((4 + scales) * p[P_ROWS] + of_x + 6) * p[P_UNROLL];
}

static bool slots_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    int threads = p[P_WAVES] * dev->wave_size, registers = registers_of(prob, p);
    if (registers > 200)
        return rfg_refuse(why, "rows=%d, unroll=%d: about %d registers, must be at most 200", p[P_ROWS], p[P_UNROLL],
                          registers);
    return grid_fits(groups_of(prob, p) * gemm_y_rows(prob), 1, threads, why) &&
           (gemm_y_rows(prob) <= MAX_GRID_Y ||
            rfg_refuse(why, "M=%" PRId64 ": must be at most %d tokens", prob->v[GEMM_M], MAX_GRID_Y));
}

static bool slots_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    int64_t chunks = chunks_of(prob), threads = p[P_WAVES] * (int64_t)dev->wave_size;
    if (p[P_WAVES] > 1 && chunks < threads)
        return rfg_refuse(why, "waves=%d: K=%" PRId64 " does not feed them", p[P_WAVES], prob->v[GEMM_K]);
    return p[P_UNROLL] == 1 || chunks > threads * (p[P_UNROLL] / 2) ||
           rfg_refuse(why, "unroll=%d: half as many are all there are", p[P_UNROLL]);
}

static double slots_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const struct gemm_model *c = gemm_model(dev);
    int rows = p[P_ROWS], threads = p[P_WAVES] * dev->wave_size;
    int64_t chunks = chunks_of(prob), steps = ceil_div(chunks, (int64_t)threads * p[P_UNROLL]);
    struct gemm_flow f = { .groups = (double)(groups_of(prob, p) * gemm_y_rows(prob)), .cluster = 1 };
    f.per_cu = gemm_resident(dev, threads, MIN(registers_of(prob, p), register_limit(dev, threads)), 0);
    f.memory = (double)prob->v[GEMM_M] * (double)prob->v[GEMM_N] * (double)gemm_w_row_bytes(prob);
    f.bytes = (double)(rows * chunks * 16);
    f.in_flight = MIN((double)(rows * p[P_UNROLL] * 16 * threads), f.bytes);
    double elements = (double)MAX(gemm_w_vec(prob), 8), ops = elements * (rows * 2 + c->skinny_x / 8);
    double on_cu = MIN(f.per_cu, ceil(f.groups / dev->cu_count)), waves = p[P_WAVES] * on_cu;
    f.issue = (double)chunks * ops / (0.5e6 * dev->fma_tflops / dev->cu_count) * MAX(1, c->waves_full / waves) +
              p[P_WAVES] * c->skinny_wave;
    /* A step waits for ids, then for W: other workgroups hide it. (Measured on an H200: many waves of few chunks.) */
    f.chain = (double)(steps - 1) * dev->load_us / on_cu + 0.1 * p[P_UNROLL];
    f.latency = c->skinny_tail + find_us(prob);
    return gemm_flow_us(dev, &f) + CDNA_DOT_US(dev);
}

static void slots_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/gpu/any/by_token.hip";
    k->entry = "gemm_slots";
    common_macros(prob, k);
    rfg_kernel_macro(k, "ROWS", p[P_ROWS]);
    rfg_kernel_macro(k, "WAVES", p[P_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
}

static void slots_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)groups_of(prob, p), (uint32_t)gemm_y_rows(prob), 1 },
                              { (uint32_t)(p[P_WAVES] * dev->wave_size), 1, 1 },
                              0 };
}

const struct rfg_variant gemm_slots = {
    .name = "gemm_slots",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = slots_supports,
    .valid = slots_valid,
    .worth = slots_worth,
    .predict = slots_predict,
    .kernel = slots_kernel,
    .launch = slots_launch,
};
