/* SPDX-License-Identifier: MIT
 *
 * The gemm variants that are kernels of ours: what each can do, how it is launched, and how long it should take. */
#include "ops/asm.h"
#include "gpu.h"
#include "splitk_layout.h"

/* ---- gemm_portable -------------------------------------------------------------------------------------------- */

enum { PORTABLE_TILE_M };
#define PORTABLE_THREADS 256
#define PORTABLE_TILE_N  64
#define PORTABLE_TILE_K  16

static const struct rfg_param portable_params[] = {
    [PORTABLE_TILE_M] = { "tile_m", 2, { 16, 64 } },
};

static const struct gemm_takes portable_takes = { .rows = GEMM_READ_ALL,
                                                  .prepacked = GEMM_READ_ALL,
                                                  .ends = GEMM_ENDS_ALL | GEMM_END_IDS };

static bool portable_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return is_gpu(dev, why) && gemm_takes(prob, &portable_takes, why);
}

static int64_t portable_tiles(const struct rfg_problem *prob, const int *p)
{
    return gemm_most_tiles(prob, p[PORTABLE_TILE_M]) * ceil_div(prob->v[GEMM_N], PORTABLE_TILE_N);
}

static bool portable_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_reason *why)
{
    (void)dev;
    return !prob->v[GEMM_EXPERTS] ||
           (grid_fits(portable_tiles(prob, p), 1, PORTABLE_THREADS, why) &&
            counters_fit(prob->v[GEMM_SLOTS] ? ceil_div(prob->v[GEMM_N], PORTABLE_TILE_N) : 0, why));
}

static size_t portable_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev, (void)p;
    return gemm_slot_bytes(prob);
}

static double portable_predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], tile_m = p[PORTABLE_TILE_M];
    double x_row = (double)rfg_format_bytes(prob->dtype[0], prob->v[GEMM_K]), w_row = (double)gemm_w_row_bytes(prob);
    double steps = (double)ceil_div(prob->v[GEMM_K], PORTABLE_TILE_K),
           step = tile_m * PORTABLE_TILE_N * PORTABLE_TILE_K;
    struct gemm_flow f = { .groups = (double)portable_tiles(prob, p), .per_cu = 4, .cluster = 1 };
    f.memory = m * x_row + n * w_row;
    f.bytes = MIN(m, tile_m) * x_row + MIN(n, PORTABLE_TILE_N) * w_row;
    f.in_flight = f.bytes / steps;
    /* Nothing hides the loads of a step but other workgroups; element-wise loads keep the FMA units far from full. */
    f.issue = steps * step * 2 / (0.15e6 * dev->fma_tflops / dev->cu_count);
    f.chain = steps * (dev->load_us + 0.2);
    return gemm_flow_us(dev, &f) + slots_us(dev, grouped);
}

static void portable_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                            struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/gpu/any/portable.hip";
    k->entry = "gemm_portable";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_M", p[PORTABLE_TILE_M]);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
}

static void portable_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                            struct rfg_launch *l)
{
    (void)dev;
    uint32_t groups = (uint32_t)MIN(portable_tiles(prob, p), prob->v[GEMM_EXPERTS] ? INT64_MAX : MAX_GROUPS);
    *l = (struct rfg_launch){ { groups, 1, (uint32_t)gemm_products(prob) }, { PORTABLE_THREADS, 1, 1 }, 0 };
}

static bool portable_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                           struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)p, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_portable");
    return true;
}

const struct rfg_variant gemm_portable = {
    .name = "gemm_portable",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(portable_params),
    .params = portable_params,
    .supports = portable_supports,
    .valid = portable_valid,
    .predict = portable_predict,
    .workspace = portable_workspace,
    .order = portable_order,
    .kernel = portable_kernel,
    .launch = portable_launch,
};

/* ---- gemm_skinny ---------------------------------------------------------------------------------------------- */

enum { SKINNY_M_TILE, SKINNY_ROWS, SKINNY_WAVES, SKINNY_UNROLL, SKINNY_SPLIT_K };
#define SKINNY_MAX_M 16

static const struct rfg_param skinny_params[] = {
    [SKINNY_M_TILE] = { "m_tile", 5, { 1, 2, 4, 8, 16 } }, [SKINNY_ROWS] = { "rows", 3, { 1, 2, 4 } },
    [SKINNY_WAVES] = { "waves", 4, { 1, 2, 4, 8 } },       [SKINNY_UNROLL] = { "unroll", 4, { 2, 4, 7, 8 } },
    [SKINNY_SPLIT_K] = { "split_k", 4, { 1, 2, 4, 8 } },
};

static const struct gemm_takes skinny_takes = {
    .rows = GEMM_READ_F32 | GEMM_READ_HALF | GEMM_READ_GROUPS | GEMM_READ_MX4 | GEMM_READ_W8 | GEMM_READ_PARTS |
            GEMM_READ_NVFP4 | GEMM_READ_FINE,
    .chunks = true,
    .ends = GEMM_ENDS_EPILOGUE | GEMM_END_BATCH | GEMM_END_IDS,
};

static bool skinny_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_gpu(dev, why) || !gemm_takes(prob, &skinny_takes, why))
        return false;
    int64_t rows = gemm_as_plain(prob).v[GEMM_M];
    if (rows > SKINNY_MAX_M)
        return rfg_refuse(why, "M=%" PRId64 ": must be at most %d", rows, SKINNY_MAX_M);
    return true;
}

/* Chunks in a row of W. */
static int64_t skinny_chunks(const struct rfg_problem *prob)
{
    return prob->v[GEMM_K] / gemm_w_vec(prob);
}

static int64_t skinny_groups(const struct rfg_problem *prob, const int *p)
{
    return ceil_div(prob->v[GEMM_N], p[SKINNY_ROWS]) * gemm_most_tiles(prob, p[SKINNY_M_TILE]);
}

static size_t skinny_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev;
    if (p[SKINNY_SPLIT_K] == 1)
        return 0;
    return (size_t)(skinny_groups(prob, p) * p[SKINNY_SPLIT_K] * p[SKINNY_ROWS] * p[SKINNY_M_TILE]) * sizeof(float);
}

static bool skinny_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_reason *why)
{
    int m_tile = p[SKINNY_M_TILE], rows = p[SKINNY_ROWS], waves = p[SKINNY_WAVES], split = p[SKINNY_SPLIT_K];
    int threads = waves * dev->wave_size;
    if (m_tile < prob->v[GEMM_M] && !prob->v[GEMM_EXPERTS])
        return rfg_refuse(why, "m_tile=%d: must be at least M=%" PRId64, m_tile, prob->v[GEMM_M]);
    if (prob->v[GEMM_GATED] && rows % 2)
        return rfg_refuse(why, "rows=%d: must be even, gate's and up's rows are neighbours", rows);
    /* These spill, and LLVM 19 then spills wrongly: what holds scalar registers is loaded over a live register. */
    if (m_tile == 16 && gemm_is_mx(prob))
        return rfg_refuse(why, "m_tile=16: must be at most 8 with x_per=group, addresses of 16 rows and scales spill");
    if (m_tile * rows > 32)
        return rfg_refuse(why, "m_tile=%d, rows=%d: must make at most 32 sums a lane", m_tile, rows);
    if (threads > dev->max_threads)
        return rfg_refuse(why, "waves=%d: must make at most %d threads", waves, dev->max_threads);
    return split_fits_batch(prob, split, why) && grid_fits(skinny_groups(prob, p), split, threads, why);
}

static bool skinny_worth(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p,
                         struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    int m_tile = p[SKINNY_M_TILE], rows = p[SKINNY_ROWS], waves = p[SKINNY_WAVES], unroll = p[SKINNY_UNROLL];
    int split = p[SKINNY_SPLIT_K], threads = waves * dev->wave_size;
    int64_t groups = skinny_groups(prob, p), chunks = skinny_chunks(prob);
    if (m_tile != next_pow2(prob->v[GEMM_M]))
        return rfg_refuse(why, "m_tile=%d: less is enough for M=%" PRId64, m_tile, prob->v[GEMM_M]);
    int loads = MIN(MIN(8 / rows, 4), 32 / m_tile); /* 8 in flight, unless X then fills the registers */
    bool more = prob->v[GEMM_IDS] && unroll > loads && unroll * rows <= 16; /* of few rows nothing else hides a wait */
    if (unroll != loads && !more)
        return rfg_refuse(why, "unroll=%d: %d is better with m_tile=%d, rows=%d", unroll, loads, m_tile, rows);
    /* As compiled; prepacked, such a W is for matrix cores. */
    if (rfg_format(prob->dtype[1])->elements > 1 &&
        (dev->platform == RFG_PLATFORM_NVIDIA ? m_tile == 16 : m_tile * rows == 32 && rows == 4))
        return rfg_refuse(why, "m_tile=%d, rows=%d: decoding w takes registers that then spill", m_tile, rows);
    if (is_cdna(dev) && gemm_w_is_8_bits(prob) && m_tile == 16)
        return rfg_refuse(why, "m_tile=16: decoding w takes registers that then spill");
    if (dev->hw->mma == RFG_MMA_CDNA4 && gemm_w_is_nvfp4(prob) && m_tile == 4 && rows == 1)
        return rfg_refuse(why, "m_tile=4, rows=1: decoding w takes registers that then spill");
    if (is_cdna(dev) && grouped->v[GEMM_BATCH] && m_tile == 16)
        return rfg_refuse(why, "m_tile=16: 16 addresses of a batch spill");
    if (m_tile == 16 && rows == 1)
        return rfg_refuse(why, "m_tile=16, rows=1: reads 16 rows of X for one of W, and 16 addresses spill");
    if (rows > prob->v[GEMM_N] && rows > 2)
        return rfg_refuse(why, "rows=%d: more than N=%" PRId64, rows, prob->v[GEMM_N]);
    if (waves == 1 && groups < 4 * (int64_t)dev->cu_count && chunks >= dev->wave_size)
        return rfg_refuse(why, "waves=1: %" PRId64 " workgroups leave %d CUs idle", groups, dev->cu_count);
    /* Waves and splits beyond what k feeds only add work. */
    if (split > chunks || (waves > 1 && chunks < (int64_t)split * threads / 2))
        return rfg_refuse(why, "waves=%d, split_k=%d: K=%" PRId64 " does not feed them", waves, split, prob->v[GEMM_K]);
    if (split > 1 && groups * split > 4 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "split_k=%d: %" PRId64 " workgroups fill %d CUs without", split, groups, dev->cu_count);
    return true;
}

static int skinny_registers(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    /* As nvcc 13 has it, of a W of 16 bits, by m_tile and rows. */
    static const int compiled[][3] = {
        { 54, 72, 74 }, { 72, 103, 93 }, { 115, 138, 141 }, { 164, 183, 189 }, { 184, 201, 255 }
    };
    int rows = p[SKINNY_ROWS], m_tile = p[SKINNY_M_TILE];
    if (dev->platform == RFG_PLATFORM_NVIDIA && gemm_w_vec(prob) == 8)
        return compiled[__builtin_ctz((unsigned)m_tile)][__builtin_ctz((unsigned)rows)];
    /* W's chunks, sums, and the rows of X that the compiler loads ahead: within a few. */
    return 26 + 4 * p[SKINNY_UNROLL] * rows + rows * m_tile + MIN(16 * m_tile, 64) + MIN(MAX(m_tile - 4, 0) * 11, 60);
}

static double skinny_predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    const struct gemm_model *c = gemm_model(dev);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N];
    double x_row = (double)rfg_format_bytes(prob->dtype[0], prob->v[GEMM_K]), w_row = (double)gemm_w_row_bytes(prob);
    int rows = p[SKINNY_ROWS], m_tile = p[SKINNY_M_TILE], unroll = p[SKINNY_UNROLL], split = p[SKINNY_SPLIT_K];
    int threads = p[SKINNY_WAVES] * dev->wave_size;
    int registers = skinny_registers(dev, prob, p);
    int64_t chunks = ceil_div(skinny_chunks(prob), split), steps = ceil_div(chunks, (int64_t)threads * unroll);
    struct gemm_flow f = { .groups = (double)skinny_groups(prob, p) * split, .cluster = 1 };
    struct down down = tiles_down(grouped, prob, m_tile, 1);
    f.per_cu = gemm_resident(dev, threads, MIN(registers, register_limit(dev, threads)), 0);
    f.memory = m * x_row + n * w_row * (grouped->v[GEMM_EXPERTS] > FEW_EXPERTS ? down.reads : 1);
    f.bytes = (double)(rows * chunks * 16);
    f.in_flight = MIN((double)(rows * unroll * 16 * threads), f.bytes);
    /* Lane operations of a chunk: unpacking, FMAs, and X, which the caches send for each row of W again. */
    double elements = (double)MAX(gemm_w_vec(prob), 8);
    double ops = elements * (rows * (m_tile + 1) + m_tile * c->skinny_x / 8);
    double waves = p[SKINNY_WAVES] * MIN(f.per_cu, ceil(f.groups / dev->cu_count));
    f.issue = (double)chunks * ops / (0.5e6 * dev->fma_tflops / dev->cu_count) * MAX(1, c->waves_full / waves) +
              p[SKINNY_WAVES] * c->skinny_wave;
    /* Up to four rows of X are asked for with all chunks of a step at once, more four by four (rfg_keep_order()). */
    double batches = m_tile > 4 ? (double)ceil_div(chunks, threads) * m_tile / 4 : (double)steps;
    f.chain = (double)(steps - 1) * dev->load_us + batches * c->skinny_batch;
    f.latency = c->skinny_tail + find_us(grouped);
    return gemm_flow_us(dev, &f) + gemm_reduce_us(dev, split, rows * m_tile * 4.0) + CDNA_DOT_US(dev) +
           amd_again_us(dev, m * x_row * f.groups / split, 0);
}

static void skinny_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/gpu/any/skinny.hip";
    k->entry = "gemm_skinny";
    common_macros(prob, k);
    rfg_kernel_macro(k, "M_TILE", p[SKINNY_M_TILE]);
    rfg_kernel_macro(k, "ROWS", p[SKINNY_ROWS]);
    rfg_kernel_macro(k, "WAVES", p[SKINNY_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[SKINNY_UNROLL]);
    if (prob->v[GEMM_IDS] && gemm_w_is_8_bits(prob) && gemm_scales(prob) == GEMM_SCALES_BLOCKS)
        rfg_kernel_macro(k, "W_LATE", 1);
}

static void skinny_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_launch *l)
{
    *l = (struct rfg_launch){ { (uint32_t)skinny_groups(prob, p), (uint32_t)p[SKINNY_SPLIT_K],
                                (uint32_t)gemm_products(prob) },
                              { (uint32_t)(p[SKINNY_WAVES] * dev->wave_size), 1, 1 },
                              0 };
}

const struct rfg_variant gemm_skinny = {
    .name = "gemm_skinny",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(skinny_params),
    .params = skinny_params,
    .supports = skinny_supports,
    .valid = skinny_valid,
    .worth = skinny_worth,
    .predict = skinny_predict,
    .workspace = skinny_workspace,
    .kernel = skinny_kernel,
    .launch = skinny_launch,
};

/* ---- gemm_skinny_mma_asm ---------------------------------------------------------------------------------------- */

enum { SKINNY_ASM_M_TILE, SKINNY_ASM_ROWS, SKINNY_ASM_WAVES, SKINNY_ASM_UNROLL };

/* What asm/manifest.ini and asm/gemm_skinny.inc say in their words. */
static const struct rfg_param skinny_asm_params[] = {
    [SKINNY_ASM_M_TILE] = { "m_tile", 5, { 1, 2, 4, 8, 16 } },
    [SKINNY_ASM_ROWS] = { "rows", 3, { 4, 8, 16 } },
    [SKINNY_ASM_WAVES] = { "waves", 4, { 1, 2, 4, 8 } },
    [SKINNY_ASM_UNROLL] = { "unroll", 3, { 2, 4, 8 } },
};

/* But for experts the manifest says it. */
static const struct gemm_takes skinny_asm_takes = { .rows = GEMM_READ_ALL,
                                                    .prepacked = GEMM_READ_ALL,
                                                    .ends = GEMM_END_RESIDUAL | GEMM_END_ACT | GEMM_END_HALVES |
                                                            GEMM_END_CODES };

static bool skinny_asm_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return gemm_takes(prob, &skinny_asm_takes, why) && rfg_asm_supports(&gemm_skinny_mma_asm, dev, prob, why);
}

/* Matrix instructions take four rows of W and four of X. */
static int skinny_asm_groups(const int *p)
{
    return p[SKINNY_ASM_ROWS] / 4;
}

static int skinny_asm_columns(const int *p)
{
    return MAX(p[SKINNY_ASM_M_TILE] / 4, 1);
}

static int skinny_asm_registers(const int *p)
{
    int groups = skinny_asm_groups(p), columns = skinny_asm_columns(p);
    int sums = groups * columns * (groups * columns < 4 ? 2 : 1);
    return 16 + 4 * (sums + p[SKINNY_ASM_UNROLL] * (groups + columns));
}

static bool skinny_asm_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                             struct rfg_reason *why)
{
    int loads = p[SKINNY_ASM_UNROLL] * (skinny_asm_groups(p) + skinny_asm_columns(p));
    if (p[SKINNY_ASM_M_TILE] < prob->v[GEMM_M])
        return rfg_refuse(why, "m_tile=%d: must be at least M=%" PRId64, p[SKINNY_ASM_M_TILE], prob->v[GEMM_M]);
    if (loads > 63 || skinny_asm_registers(p) > 256)
        return rfg_refuse(why, "unroll=%d: %d loads in flight into %d registers: must be at most 63, 256",
                          p[SKINNY_ASM_UNROLL], loads, skinny_asm_registers(p));
    return rfg_asm_valid(&gemm_skinny_mma_asm, dev, prob, p, why);
}

static bool skinny_asm_worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                             struct rfg_reason *why)
{
    int m_tile = p[SKINNY_ASM_M_TILE], rows = p[SKINNY_ASM_ROWS], waves = p[SKINNY_ASM_WAVES];
    int unroll = p[SKINNY_ASM_UNROLL];
    int64_t groups = ceil_div(prob->v[GEMM_N], rows), steps = ceil_div(prob->v[GEMM_K], 128);
    if (m_tile != next_pow2(prob->v[GEMM_M]))
        return rfg_refuse(why, "m_tile=%d: less is enough for M=%" PRId64, m_tile, prob->v[GEMM_M]);
    int loads = MIN(32 / rows, m_tile == 16 ? 4 : 8); /* 8 loads of W in flight, unless X then fills the registers */
    if (unroll != loads)
        return rfg_refuse(why, "unroll=%d: %d is better with m_tile=%d, rows=%d", unroll, loads, m_tile, rows);
    if (rows > 4 && (rows > prob->v[GEMM_N] || groups < dev->cu_count))
        return rfg_refuse(why, "rows=%d: %" PRId64 " workgroups leave %d CUs idle", rows, groups, dev->cu_count);
    if (waves > 1 && waves > steps)
        return rfg_refuse(why, "waves=%d: K=%" PRId64 " has %" PRId64 " steps", waves, prob->v[GEMM_K], steps);
    if (waves < 4 && waves * 2 <= steps && groups * waves < 4 * (int64_t)dev->cu_count)
        return rfg_refuse(why, "waves=%d: %" PRId64 " workgroups leave %d CUs idle", waves, groups, dev->cu_count);
    return true;
}

static double skinny_asm_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    int rows = p[SKINNY_ASM_ROWS], waves = p[SKINNY_ASM_WAVES], unroll = p[SKINNY_ASM_UNROLL];
    double steps = (double)ceil_div(prob->v[GEMM_K], 128), longest = (double)ceil_div((int64_t)steps, waves);
    double trips = (double)ceil_div((int64_t)longest, unroll) + (prob->v[GEMM_K] % 128 != 0);
    struct gemm_flow f = { .groups = (double)ceil_div(prob->v[GEMM_N], rows), .cluster = 1 };
    f.per_cu = MAX(4 * MIN(512 / skinny_asm_registers(p), 8) / waves, 1);
    f.memory = (n + m) * k * 2;
    f.bytes = rows * k * 2; /* X: see amd_again_us() */
    f.in_flight = rows * 256.0 * waves * MIN(unroll, longest);
    /* Four columns are multiplied whatever M is; 4x4 instructions reach a half of the peak on CDNA 3. */
    f.issue = 2.0 * rows * k * 4 * skinny_asm_columns(p) / (0.2e6 * dev->mma_tflops / dev->cu_count) *
              MAX(1, 8 / (waves * f.per_cu));
    f.chain = (trips - 1) * dev->load_us;
    f.latency =
        0.5 * gemm_model(dev)->skinny_tail; /* sums go by DPP and LDS once, where the compiled kernel shuffles */
    return gemm_flow_us(dev, &f) + CDNA_DOT_US(dev) + amd_again_us(dev, m * k * 2 * f.groups, 0);
}

static void skinny_asm_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                              struct rfg_kernel *k)
{
    rfg_asm_kernel(&gemm_skinny_mma_asm, dev, prob, p, k);
}

static void skinny_asm_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                              struct rfg_launch *l)
{
    rfg_asm_launch(&gemm_skinny_mma_asm, dev, prob, p, l);
}

const struct rfg_variant gemm_skinny_mma_asm = {
    .name = "gemm_skinny_mma_asm",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(skinny_asm_params),
    .params = skinny_asm_params,
    .supports = skinny_asm_supports,
    .valid = skinny_asm_valid,
    .worth = skinny_asm_worth,
    .predict = skinny_asm_predict,
    .kernel = skinny_asm_kernel,
    .launch = skinny_asm_launch,
};

/* ---- gemm_splitk_mma ------------------------------------------------------------------------------------------ */

enum { MMA_TILE_M, MMA_TILE_N, MMA_TILE_K, MMA_K_WAVES, MMA_STAGES, MMA_SPLIT_K };

/* The grid carries split_k, so that it costs no compile. */
static const struct rfg_param mma_params[] = {
    [MMA_TILE_M] = { "tile_m", 4, { 16, 32, 64, 128 } },
    [MMA_TILE_N] = { "tile_n", 4, { 16, 32, 64, 128 } },
    [MMA_TILE_K] = { "tile_k", 3, { 64, 128, 256 } },
    [MMA_K_WAVES] = { "k_waves", 4, { 1, 2, 4, 8 } },
    [MMA_STAGES] = { "stages", 4, { 2, 3, 4, 6 } },
    [MMA_SPLIT_K] = { "split_k", 12, { 1, 2, 3, 4, 6, 7, 8, 10, 14, 16, 20, 28 } },
};

static const struct gemm_takes mma_takes = { .rows = GEMM_READ_HALF,
                                             .chunks = true,
                                             .ends = (GEMM_ENDS_EPILOGUE & ~(GEMM_END_EXPERTS | GEMM_END_HALVES)) |
                                                     GEMM_END_BATCH };

static bool mma_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return takes_mma(dev, prob, &mma_takes, why);
}

/* What splitk_mma.hip derives from its macros. */
struct mma_shape {
    int waves, threads;
    int frags_m, frags_n; /* of a wave */
    int copies;           /* 16-byte chunks that a thread copies a step */
    int lds;              /* bytes */
    int registers;        /* an estimate, 32-bit ones a lane */
    int64_t tiles_m, tiles_n, steps;
};

static struct mma_shape mma_shape(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    bool async = dev->features & RFG_FEATURE_ASYNC, rdna = !async && dev->wave_size == 32;
    int tile_m = p[MMA_TILE_M], tile_n = p[MMA_TILE_N], tile_k = p[MMA_TILE_K];
    struct mma_shape s = { .waves = SPLITK_WAVES(tile_m, tile_n, p[MMA_K_WAVES]),
                           .frags_m = tile_m / SPLITK_WAVES_M(tile_m) / 16,
                           .frags_n = tile_n / SPLITK_WAVES_N(tile_n) / 16 };
    s.threads = s.waves * dev->wave_size;
    int rows_a_pass = MAX(s.threads / (tile_k / 8), 1);
    s.copies = (int)(ceil_div(tile_m, rows_a_pass) + ceil_div(tile_n, rows_a_pass));
    int ring = (async ? p[MMA_STAGES] : 2) * SPLITK_STEP_CHUNKS(tile_m, tile_n, tile_k) * 16;
    s.lds = MAX(ring, SPLITK_SUMS(tile_m, tile_n, p[MMA_K_WAVES]) * (int)sizeof(float));
    int c = dev->wave_size == 64 ? 4 : 8, ab = dev->wave_size == 64 ? 4 : rdna ? 16 : 8;
    s.registers = s.frags_m * s.frags_n * c + (s.frags_m + s.frags_n) * ab +
                  (async ? 0 : (p[MMA_STAGES] - 1) * s.copies * 4) + 64;
    s.tiles_m = ceil_div(prob->v[GEMM_M], tile_m);
    s.tiles_n = ceil_div(prob->v[GEMM_N], tile_n);
    s.steps = ceil_div(prob->v[GEMM_K], tile_k);
    return s;
}

static size_t mma_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct mma_shape s = mma_shape(dev, prob, p);
    if (p[MMA_SPLIT_K] == 1)
        return 0;
    return (size_t)(s.tiles_m * s.tiles_n * p[MMA_SPLIT_K] * SPLITK_PARTIALS(p[MMA_TILE_M], p[MMA_TILE_N])) *
           sizeof(float);
}

static bool mma_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                      struct rfg_reason *why)
{
    struct mma_shape s = mma_shape(dev, prob, p);
    int tile_k = p[MMA_TILE_K], split = p[MMA_SPLIT_K];
    if (p[MMA_K_WAVES] * 32 > tile_k)
        return rfg_refuse(why, "k_waves=%d: tile_k=%d must give each at least 32", p[MMA_K_WAVES], tile_k);
    if (s.threads > dev->max_threads)
        return rfg_refuse(why, "%d threads: must be at most %d", s.threads, dev->max_threads);
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    if (s.registers > register_limit(dev, s.threads))
        return rfg_refuse(why, "about %d registers: must be at most %d", s.registers, register_limit(dev, s.threads));
    if (!(dev->features & RFG_FEATURE_ASYNC) && s.copies > 12) /* each row's address is two scalar registers of ~100 */
        return rfg_refuse(why, "%d copies a thread and step: must be at most 12, or addresses spill", s.copies);
    if (split > s.steps)
        return rfg_refuse(why, "split_k=%d: K=%" PRId64 " has %" PRId64 " steps of tile_k=%d", split, prob->v[GEMM_K],
                          s.steps, tile_k);
    return split_fits_batch(prob, split, why) && grid_fits(s.tiles_m * s.tiles_n, split, s.threads, why);
}

/* Does it share out the steps evenly, in no more than about two workgroups a CU? */
static bool split_fits(const struct rfg_device *dev, const struct mma_shape *s, int split)
{
    if (split == 1)
        return true;
    return split <= s->steps && s->steps * 100 >= ceil_div(s->steps, split) * split * 94 &&
           s->tiles_m * s->tiles_n * split <= 2 * (int64_t)dev->cu_count + dev->cu_count / 8;
}

static bool mma_worth(const struct rfg_device *dev, const struct rfg_problem *batched, const int *p,
                      struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(batched), *prob = &plain;
    struct mma_shape s = mma_shape(dev, prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], k = prob->v[GEMM_K];
    int tile_m = p[MMA_TILE_M], tile_n = p[MMA_TILE_N], tile_k = p[MMA_TILE_K], split = p[MMA_SPLIT_K];

    /* Tiles much larger or smaller than the problem, ... */
    int64_t fit_m = MIN(MAX(next_pow2(m), 16), 128), fit_n = MIN(MAX(next_pow2(n), 16), 128);
    if (tile_m > fit_m || tile_m * (fit_m == 128 ? 4 : 2) < fit_m)
        return rfg_refuse(why, "tile_m=%d: too far from M=%" PRId64, tile_m, m);
    if (tile_n > fit_n || tile_n * 2 < MIN(tile_m, fit_n) || (tile_m < fit_m && tile_n > 64))
        return rfg_refuse(why, "tile_n=%d: too far from N=%" PRId64 " or tile_m=%d", tile_n, n, tile_m);
    if (tile_k > 128 && tile_k >= 2 * k)
        return rfg_refuse(why, "tile_k=%d: too far from K=%" PRId64, tile_k, k);
    /* ... too few or too many waves, ... */
    if (s.waves != 4 && s.waves != 8)
        return rfg_refuse(why, "%d waves: must be 4 or 8", s.waves);
    /* ... rings that keep too little in flight, or more than helps, ... */
    int ring = p[MMA_STAGES] * tile_k;
    if (ring < 384 || ring > 512)
        return rfg_refuse(why, "stages=%d of tile_k=%d: must span 384 to 512", p[MMA_STAGES], tile_k);
    /* ... splits where clusters make them cheaper (gemm_wgmma, gemm_thin_mma), ... */
    bool clusters = dev->features & RFG_FEATURE_CLUSTER && m <= 128;
    if (split > 1 && clusters)
        return rfg_refuse(why, "split_k=%d: %s splits within a cluster", split, dev->arch);
    /* ... and splits that are uneven, crowd the CUs, or leave them idle where a larger one would not. */
    int64_t tiles = s.tiles_m * s.tiles_n;
    if (!split_fits(dev, &s, split))
        return rfg_refuse(why, "split_k=%d: uneven for %" PRId64 " steps, or too much for %" PRId64 " tiles on %d CUs",
                          split, s.steps, tiles, dev->cu_count);
    const struct rfg_param *splits = &mma_params[MMA_SPLIT_K];
    for (int i = 0; !clusters && tiles * split * 2 < dev->cu_count && i < splits->n; i++)
        if (splits->values[i] > split && split_fits(dev, &s, splits->values[i]))
            return rfg_refuse(why, "split_k=%d: only %" PRId64 " workgroups on %d CUs", split, tiles * split,
                              dev->cu_count);
    return true;
}

static double mma_predict(const struct rfg_device *dev, const struct rfg_problem *batched, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(batched), *prob = &plain;
    const struct gemm_model *c = gemm_model(dev);
    struct mma_shape s = mma_shape(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    int tile_m = p[MMA_TILE_M], tile_n = p[MMA_TILE_N], tile_k = p[MMA_TILE_K], split = p[MMA_SPLIT_K];
    double rows_m = MIN(m, tile_m), rows = rows_m + MIN(n, tile_n), longest = (double)ceil_div(s.steps, split);
    struct gemm_flow f = { .groups = (double)(s.tiles_m * s.tiles_n) * split, .cluster = 1 };
    f.per_cu = gemm_resident(dev, s.threads, s.registers, s.lds);
    f.memory = (m + n) * k * 2 * (1 + (tile_k == 64 ? c->narrow : 0));
    f.bytes = rows * tile_k * 2 * longest;
    f.in_flight = f.bytes * MIN(p[MMA_STAGES] - 1, longest) / longest;
    /* Of a wave and step: fragments out of LDS, matrix instructions. */
    double mma = (double)(tile_k / FRAG_K / p[MMA_K_WAVES]) * (s.frags_m + s.frags_n + s.frags_m * s.frags_n);
    double busy = mma * c->splitk_mma;
    f.issue = longest * busy * s.waves / c->waves_full;
    f.chain = longest * (c->splitk_step + busy);
    f.latency = c->splitk_tail;
    return gemm_flow_us(dev, &f) + gemm_reduce_us(dev, split, rows_m * tile_n * 4) +
           amd_again_us(dev, m * (double)s.tiles_n * k * 2, (double)(s.tiles_m - 1) * n * k * 2);
}

/* Within a step, and from step to step, fragments of k follow one another. */
static bool mma_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                      struct rfg_order *order, struct rfg_reason *why)
{
    int k_waves = p[MMA_K_WAVES];
    (void)dev, (void)prob;
    snprintf(order->words, sizeof(order->words), "gemm_splitk_mma k_waves=%d tile_k=%d", k_waves,
             k_waves > 1 ? p[MMA_TILE_K] : 0);
    return p[MMA_SPLIT_K] == 1 || rfg_refuse(why, "split_k=%d: has a workspace for few rows only", p[MMA_SPLIT_K]);
}

static void mma_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    k->source = "gemm/gpu/any/splitk_mma.hip";
    k->entry = "gemm_splitk_mma";
    common_macros(prob, k);
    xcd_macro(dev, k);
    rfg_kernel_macro(k, "TILE_M", p[MMA_TILE_M]);
    rfg_kernel_macro(k, "TILE_N", p[MMA_TILE_N]);
    rfg_kernel_macro(k, "TILE_K", p[MMA_TILE_K]);
    rfg_kernel_macro(k, "K_WAVES", p[MMA_K_WAVES]);
    rfg_kernel_macro(k, "STAGES", p[MMA_STAGES]);
}

static void mma_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct mma_shape s = mma_shape(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)(s.tiles_m * s.tiles_n), (uint32_t)p[MMA_SPLIT_K],
                                (uint32_t)gemm_products(prob) },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant gemm_splitk_mma = {
    .name = "gemm_splitk_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(mma_params),
    .params = mma_params,
    .supports = mma_supports,
    .valid = mma_valid,
    .worth = mma_worth,
    .predict = mma_predict,
    .workspace = mma_workspace,
    .order = mma_order,
    .kernel = mma_kernel,
    .launch = mma_launch,
};
