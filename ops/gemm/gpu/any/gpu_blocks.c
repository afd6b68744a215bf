/* SPDX-License-Identifier: MIT
 *
 * gemm_blocks_dot: a W whose blocks hold their scales and few rows of X, by dot products of bytes (blocks.hip). */
#include "ops/format_blocks.h"
#include "gpu.h"
#include "blocks_layout.h"

enum { M_TILE, ROWS, WAVES, K_WAVES, UNROLL, STAGES, PER_CU };

static const struct rfg_param params[] = {
    [M_TILE] = { "m_tile", 4, { 1, 2, 4, 8 } }, [ROWS] = { "rows", 3, { 1, 2, 4 } },
    [WAVES] = { "waves", 3, { 4, 8, 16 } },     [K_WAVES] = { "k_waves", 4, { 1, 2, 4, 8 } },
    [UNROLL] = { "unroll", 3, { 1, 2, 4 } },    [STAGES] = { "stages", 4, { 0, 2, 4, 8 } },
    [PER_CU] = { "per_cu", 4, { 1, 2, 4, 8 } },
};

/* What blocks.hip derives from its macros. */
struct shape {
    int threads, unit, slot_bytes, step; /* step: rows of W that a workgroup's number of is a multiple of */
    int64_t tiles_m, groups, rows, chunks, lds;
};

static bool is_nvidia(const struct rfg_device *dev)
{
    return dev->platform == RFG_PLATFORM_NVIDIA;
}

/* As blocks_unit.h has it. */
static int unit_of(const struct rfg_problem *prob)
{
    int w = prob->dtype[1];
    return (w >= RFG_Q2_K && w <= RFG_Q6_K) || w == RFG_NVFP4 ? 64 : 32;
}

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    const struct rfg_format *w = rfg_format(prob->dtype[1]);
    int64_t n = MAX(prob->v[GEMM_N], 1), k = prob->v[GEMM_K], scale = w->blocks->part == 32 ? 8 : 16;
    struct shape s = { .threads = p[WAVES] * dev->wave_size, .unit = unit_of(prob), .step = MAX(p[ROWS], 2) };
    int chunk = p[UNROLL] * dev->wave_size;
    s.tiles_m = ceil_div(prob->v[GEMM_M], p[M_TILE]);
    s.groups = MIN((int64_t)dev->cu_count * p[PER_CU], ceil_div(n, s.step));
    s.rows = BLOCKS_ROWS(n, s.groups, s.step);
    s.groups = ceil_div(n, s.rows);
    s.chunks = ceil_div(k / s.unit, chunk);
    s.slot_bytes = chunk * s.unit / w->elements * w->bytes * p[ROWS];
    int64_t slots = (int64_t)p[STAGES] * p[WAVES];
    int64_t at = BLOCKS_SCALES_AT(BLOCKS_X_AT(slots, s.slot_bytes), p[M_TILE], k);
    s.lds = BLOCKS_LDS_BYTES(BLOCKS_SUMS_AT(at, p[M_TILE], k, scale), s.rows, p[M_TILE], p[K_WAVES]);
    return s;
}

static const struct gemm_takes takes = {
    .rows = GEMM_READ_SCALED,
    .chunks = true,
    .ends = GEMM_END_RESIDUAL | GEMM_END_ACT | GEMM_END_HALVES | GEMM_END_CODES,
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why) || !gemm_takes(prob, &takes, why))
        return false;
    if (!prob->v[GEMM_FAST])
        return rfg_refuse(why, "fast=0: must be 1, it rounds x to q8_1");
    if (is_nvidia(dev) && !has_wgmma(dev, why))
        return false;
    int64_t row = rfg_format_bytes(prob->dtype[1], prob->v[GEMM_K]);
    return !is_nvidia(dev) || row % 16 == 0 ||
           rfg_refuse(why, "K=%" PRId64 ": rows of w must be whole 16 bytes, not %" PRId64, prob->v[GEMM_K], row);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    if (is_nvidia(dev) ? !p[STAGES] : p[STAGES] != 0)
        return rfg_refuse(why, "stages=%d: must %sbe 0 on this device", p[STAGES], is_nvidia(dev) ? "not " : "");
    if (p[WAVES] % p[K_WAVES])
        return rfg_refuse(why, "waves=%d: must be a multiple of k_waves=%d", p[WAVES], p[K_WAVES]);
    if (p[M_TILE] * p[ROWS] > 32)
        return rfg_refuse(why, "m_tile=%d, rows=%d: must make at most 32 sums", p[M_TILE], p[ROWS]);
    if (s.threads > dev->max_threads)
        return rfg_refuse(why, "waves=%d: must make at most %d threads", p[WAVES], dev->max_threads);
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%" PRId64 " bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    return s.groups <= MAX_GRID_Y && grid_fits(s.tiles_m, 1, s.threads, why);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int64_t m = prob->v[GEMM_M], units = prob->v[GEMM_K] / s.unit;
    if (p[M_TILE] > next_pow2(m))
        return rfg_refuse(why, "m_tile=%d: less is enough for M=%" PRId64, p[M_TILE], m);
    if (p[ROWS] * 2 < p[M_TILE] || p[ROWS] * p[UNROLL] > 4)
        return rfg_refuse(why, "m_tile=%d, rows=%d, unroll=%d: loads of x bind, or registers", p[M_TILE], p[ROWS],
                          p[UNROLL]);
    if (p[UNROLL] > 1 && units < (int64_t)p[UNROLL] * dev->wave_size)
        return rfg_refuse(why, "unroll=%d: K=%" PRId64 " has %" PRId64 " units", p[UNROLL], prob->v[GEMM_K], units);
    if (p[K_WAVES] > s.chunks)
        return rfg_refuse(why, "k_waves=%d: K=%" PRId64 " has %" PRId64 " chunks", p[K_WAVES], prob->v[GEMM_K],
                          s.chunks);
    int resident = gemm_resident(dev, s.threads, 128, (int)s.lds);
    return p[PER_CU] <= MAX(resident, 1) || rfg_refuse(why, "per_cu=%d: a CU holds %d workgroups", p[PER_CU], resident);
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double w_row = (double)gemm_w_row_bytes(prob), tile = p[M_TILE];
    struct gemm_flow f = { .groups = (double)(s.groups * s.tiles_m), .cluster = 1, .per_cu = p[PER_CU] };
    /* The wave that has most steps of a workgroup's rows, over what an even share would be. */
    double waves = (double)p[WAVES] / p[K_WAVES], steps = (double)ceil_div(s.rows, p[ROWS]);
    double uneven = ceil(steps / waves) * waves / steps, turns = (double)s.chunks / p[K_WAVES];
    uneven *= ceil(turns) / turns;
    f.memory = m * k * x_bytes(prob) + n * w_row * (double)s.tiles_m;
    f.bytes = (double)s.rows * w_row * uneven;
    f.in_flight =
        MIN(f.bytes, is_nvidia(dev) ? (double)p[WAVES] * p[STAGES] * s.slot_bytes : (double)p[WAVES] * s.slot_bytes);
    /* Lane operations: of W's decoding, of each row of X, and of X's rounding. */
    double ops = k * ((double)s.rows * (0.75 + tile * (0.4 + 0.25 / p[ROWS])) * uneven + tile * 3);
    f.issue = ops / (0.5e6 * dev->fma_tflops / dev->cu_count);
    f.chain = dev->load_us;
    f.latency = 1;
    f.overlaps = rfg_problem_overlaps(prob);
    return gemm_flow_us(dev, &f);
}

/* A lane's units follow one another in its waves' chunks; then come lanes and waves. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_blocks_dot k_waves=%d unroll=%d", p[K_WAVES],
             p[K_WAVES] > 1 ? p[UNROLL] : 1);
    return true;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(dev, prob, p);
    k->source = "gemm/gpu/any/blocks.hip";
    k->entry = "gemm_blocks_dot";
    common_macros(prob, k);
    rfg_kernel_macro(k, "PREPACKED", 0);
    rfg_kernel_macro(k, "M_TILE", p[M_TILE]);
    rfg_kernel_macro(k, "ROWS", p[ROWS]);
    rfg_kernel_macro(k, "WAVES", p[WAVES]);
    rfg_kernel_macro(k, "K_WAVES", p[K_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[UNROLL]);
    rfg_kernel_macro(k, "STAGES", p[STAGES]);
    rfg_kernel_macro(k, "ROWS_STEP", s.step);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)s.tiles_m, (uint32_t)s.groups, 1 },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant gemm_blocks_dot = {
    .name = "gemm_blocks_dot",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .order = order_of,
    .valid = valid,
    .worth = worth,
    .predict = predict,
    .kernel = kernel,
    .launch = launch,
};
