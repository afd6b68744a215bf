/* SPDX-License-Identifier: MIT
 *
 * gemm_w4_mma: a prepacked W of 4 bits, or a W of 8 bits, on Hopper, through LDS (w4.hip). */
#include "ops/gemm/gpu/any/gpu.h"
#include "w4_layout.h"

enum { WGMMA, TILE_M, TILE_N, FRAGS_N, K_WAVES, SPLIT, PER_CU };

/* A launch's LDS carries per_cu, so that it costs no compile. */
static const struct rfg_param params[] = {
    [WGMMA] = { "wgmma", 2, { 0, 1 } },
    [TILE_M] = { "tile_m", 5, { 8, 16, 32, 64, 128 } },
    [TILE_N] = { "tile_n", 8, { 32, 64, 96, 128, 160, 192, 224, 256 } },
    [FRAGS_N] = { "frags_n", 2, { 1, 2 } },
    [K_WAVES] = { "k_waves", 3, { 1, 2, 4 } },
    [SPLIT] = { "split", 12, { 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16 } },
    [PER_CU] = { "per_cu", 2, { 1, 2 } }, /* workgroups that a CU's LDS has room for */
};

/* What w4.hip derives from its macros. */
struct shape {
    int waves, threads; /* waves: that multiply */
    int registers;      /* an estimate */
    int stages, lds;    /* lds: bytes */
    int64_t tiles_m, tiles_n, groups, steps;
    int64_t longest; /* steps of the workgroup that has most */
};

/* Groups of a step, whose sums are scaled. */
static int groups_of(const struct rfg_problem *prob)
{
    if (gemm_w_is_4_bits(prob))
        return gemm_w_is_nvfp4(prob) ? 0 : step_groups(prob);
    return gemm_scales(prob) != GEMM_SCALES_BLOCKS ? 0 : gemm_w_group(prob) == 64 ? 2 : 1;
}

/* About what nvcc takes. */
static int registers_of(const struct rfg_problem *prob, const int *p)
{
    int frags_m = p[TILE_M] / 8;
    if (gemm_w_is_nvfp4(prob))
        return 56 + p[FRAGS_N] * (16 + 4 * frags_m) + 4 * frags_m;
    if (gemm_w_is_8_bits(prob))
        return 60 + p[FRAGS_N] * (16 + (groups_of(prob) ? 8 : 4) * frags_m) + 4 * frags_m +
               8 * groups_of(prob) * p[FRAGS_N];
    return 44 + p[FRAGS_N] * (16 + 8 * frags_m) + 4 * frags_m + 6 * step_groups(prob) + (prob->v[GEMM_W_ZERO] ? 8 : 0);
}

/* What it has for that: a quarter of the waves share 512 a lane. */
static int most_registers(int threads)
{
    return MIN(512 / (int)ceil_div(threads, 128) / 8 * 8, 248);
}

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .waves = W4_N_WAVES(p[TILE_N], p[FRAGS_N]) * p[K_WAVES] };
    s.threads = W4_THREADS(s.waves, p[TILE_M], p[WGMMA]);
    s.registers = p[WGMMA] ? W4_LAUNCHED(s.threads / 128) : registers_of(prob, p);
    s.tiles_m = gemm_most_tiles(prob, p[TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], p[TILE_N]);
    s.groups = s.tiles_m * s.tiles_n * p[SPLIT];
    s.steps = ceil_div(prob->v[GEMM_K], PREPACK4_COLS);
    s.longest = ceil_div(s.steps, p[SPLIT]);
    bool w8 = gemm_w_is_8_bits(prob);
    int64_t scales = w8 ? 0 : rfg_format_bytes((int)prob->v[GEMM_W_SCALE], step_groups(prob) * PREPACK_ROWS);
    int zeros = prob->v[GEMM_W_ZERO] ? step_groups(prob) * PREPACK_ROWS : 0;
    int step = W4_STEP_BYTES(p[TILE_M], p[TILE_N], w8 ? 128 : 64, (int)scales, zeros, p[WGMMA]);
    int ring = W4_RING_AT(p[TILE_M], p[TILE_N], p[SPLIT], p[SPLIT] * p[K_WAVES], p[WGMMA]);
    int most = (dev->lds_bytes + 1024) / p[PER_CU] - 1024; /* 1024 are the system's */
    s.stages = most > ring ? MIN((most - ring) / step, W4_MAX_STAGES) : 0;
    if (s.stages >= s.longest)
        s.stages = (int)s.longest;
    else /* which are used more than once: w4.hip, copies */
        s.stages -= s.stages % p[K_WAVES];
    s.lds = ring + s.stages * step;
    return s;
}

static const struct gemm_takes takes = {
    .rows = GEMM_READ_W8,
    .prepacked = GEMM_READ_GROUPS | GEMM_READ_FINE | GEMM_READ_NVFP4 | GEMM_READ_W8,
    .chunks = true,
    .steps = true,
    .ends = GEMM_ENDS_EPILOGUE,
};

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    return has_wgmma(dev, why) && takes_mma(dev, prob, &takes, why) && scales_steps(prob, why);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    if (p[TILE_N] / 16 % p[FRAGS_N])
        return rfg_refuse(why, "frags_n=%d: tile_n=%d must be so many times 16", p[FRAGS_N], p[TILE_N]);
    if (p[WGMMA] ? p[TILE_N] / 16 / p[FRAGS_N] % 4 || p[TILE_M] < 16 : p[TILE_M] > 64)
        return rfg_refuse(why,
                          "tile_m=%d, tile_n=%d: with wgmma=1 tile_m must be at least 16, tile_n a multiple of "
                          "64 frags_n; without, tile_m at most 64",
                          p[TILE_M], p[TILE_N]);
    if (p[WGMMA] && p[FRAGS_N] > 1 && p[TILE_M] > 32)
        return rfg_refuse(why, "frags_n=%d: with wgmma=1 must be 1 for tile_m=%d, whose sums take the registers",
                          p[FRAGS_N], p[TILE_M]);
    if (p[WGMMA] && s.waves != 4 && s.waves != 8)
        return rfg_refuse(why, "wgmma=1: %d waves multiply: must be 4 or 8, or there are too few registers", s.waves);
    if (p[WGMMA] && gemm_halves(prob))
        return rfg_refuse(why, "wgmma=1: must be 0 with gates=halves, addresses of W's rows spill");
    bool more = gemm_w_is_8_bits(prob) || (prob->v[GEMM_W_ZERO] && gemm_w_group(prob) < 32);
    if (p[WGMMA] && more && p[TILE_M] == 128 && s.waves > 4)
        return rfg_refuse(why, "tile_m=128: 4 waves must multiply, w is %s, w_group=%" PRId64 ", or sums spill",
                          rfg_dtype_name((rfg_dtype)prob->dtype[1]), gemm_w_group(prob));
    if (s.registers > most_registers(s.threads))
        return rfg_refuse(why, "about %d registers: must be at most %d", s.registers, most_registers(s.threads));
    if (s.stages < MIN(s.longest, W4_LEAST_STAGES))
        return rfg_refuse(why, "per_cu=%d: LDS has room for %d steps: must be at least %d, or all %" PRId64, p[PER_CU],
                          s.stages, W4_LEAST_STAGES, s.longest);
    if (p[SPLIT] > s.steps)
        return rfg_refuse(why, "split=%d: K=%" PRId64 " has %" PRId64 " steps of %d", p[SPLIT], prob->v[GEMM_K],
                          s.steps, PREPACK4_COLS);
    return grid_fits(s.groups, 1, s.threads, why);
}

static double resident(const struct rfg_device *dev, const struct shape *s)
{
    return gemm_resident(dev, s->threads, s->registers, s->lds);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p, struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    struct shape s = shape_of(dev, prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], cus = dev->cu_count;
    bool experts = grouped->v[GEMM_EXPERTS]; /* of which some have more rows than others */
    if (p[TILE_M] > 8 && p[TILE_M] / 2 >= (experts ? 2 * m : m))
        return rfg_refuse(why, "tile_m=%d: less is enough for M=%" PRId64, p[TILE_M], m);
    if (p[TILE_M] < m && p[TILE_M] < (p[WGMMA] ? 128 : 64))
        return rfg_refuse(why, "tile_m=%d: reads W %" PRId64 " times", p[TILE_M], s.tiles_m);
    if (p[WGMMA] ? m <= (experts ? 8 : 16) : m > 128)
        return rfg_refuse(why, "wgmma=%d: M=%" PRId64, p[WGMMA], m);
    int64_t n_each = grouped->v[GEMM_N];
    if (experts && n_each % 32 == 0 && (n_each % p[TILE_N] || (n_each % 128 == 0 && (p[TILE_N] & (p[TILE_N] - 1)))))
        return rfg_refuse(why, "tile_n=%d: of experts with N=%" PRId64 " a power of two, or what divides it, is faster",
                          p[TILE_N], n_each);
    if (p[TILE_N] > 32 && p[TILE_N] / 2 >= n)
        return rfg_refuse(why, "tile_n=%d: less is enough for N=%" PRId64, p[TILE_N], n);
    if (!p[WGMMA] && p[TILE_M] == 32 && p[FRAGS_N] == 1)
        return rfg_refuse(why, "frags_n=1: reads X from LDS more often than 2");
    if (s.waves < 4 || s.waves > 16)
        return rfg_refuse(why, "%d waves multiply: 4 to 16 are better", s.waves);
    if (p[K_WAVES] > 1 && p[K_WAVES] * 2 > s.longest)
        return rfg_refuse(why, "k_waves=%d: a workgroup has %" PRId64 " steps", p[K_WAVES], s.longest);
    /* Steps shared out evenly, and about as many workgroups as CUs. */
    if (p[SPLIT] > 1 && s.longest * p[SPLIT] * 85 > s.steps * 100)
        return rfg_refuse(why, "split=%d: uneven for %" PRId64 " steps", p[SPLIT], s.steps);
    if (p[SPLIT] > 1 && s.groups > cus + cus / 8 && (double)s.groups > gemm_at_once(dev, p[SPLIT], resident(dev, &s)))
        return rfg_refuse(why, "split=%d: %" PRId64 " workgroups on %d CUs", p[SPLIT], s.groups, dev->cu_count);
    if (s.groups * 3 < cus * 2 && p[SPLIT] < 16 && s.steps >= 4 * p[SPLIT])
        return rfg_refuse(why, "split=%d: only %" PRId64 " workgroups on %d CUs", p[SPLIT], s.groups, dev->cu_count);
    if (s.groups > 2 * cus && p[TILE_N] < 128)
        return rfg_refuse(why, "tile_n=%d: reads X again and again for N=%" PRId64, p[TILE_N], n);
    if (p[WGMMA] && p[PER_CU] > 1)
        return rfg_refuse(why, "per_cu=%d: wgmma=1 takes all registers of a CU", p[PER_CU]);
    if (p[PER_CU] == 1 && !p[WGMMA] ? s.groups > cus + cus / 8 && p[SPLIT] == 1 && s.groups < 4 * cus
                                    : p[PER_CU] > 1 && s.groups <= cus)
        return rfg_refuse(why, "per_cu=%d: %" PRId64 " workgroups on %d CUs", p[PER_CU], s.groups, dev->cu_count);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(dev, prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double w_row = (double)gemm_w_row_bytes(prob), longest = (double)s.longest;
    struct down down = tiles_down(grouped, prob, p[TILE_M], s.tiles_m);
    struct gemm_flow f = { .groups = down.tiles * (double)s.tiles_n * p[SPLIT], .cluster = p[SPLIT] };
    f.per_cu = resident(dev, &s);
    /* By rows, 128 bytes of each at a time, W comes at 0.6 of the rate (H200). */
    f.memory = m * k * x_bytes(prob) + n * w_row * down.reads * (prob->v[GEMM_PREPACKED] ? 1 : 1.6);
    f.bytes = (MIN(n, p[TILE_N]) * w_row / k + MIN(m, p[TILE_M]) * x_bytes(prob)) * PREPACK4_COLS * longest;
    f.in_flight = f.bytes * MIN(s.stages / longest, 1);
    /* Instructions of a block of 16 rows and a step: a quarter of the waves' at a time, 1.7 GHz. Of those that wait for
     * one another a wave does one in two clocks or so. */
    double per_group = 6.0 * p[TILE_M] / 8 + 8, decode = gemm_w_is_8_bits(prob) ? 160
                                                         : prob->dtype[1] == RFG_I4
                                                             ? 100
                                                             : 150 + (gemm_w_is_nvfp4(prob) ? 80 : 0);
    double block = decode + 10.0 * p[TILE_M] / 8 + per_group * groups_of(prob) + 6.0 * p[TILE_M] / 8 / p[FRAGS_N];
    if (p[WGMMA]) /* and matrix cores, all four of them */
        block = decode + per_group * groups_of(prob) + p[TILE_M] * 4;
    f.issue = longest * p[TILE_N] / 16 * block / 4 / 1700;
    f.chain = ceil(longest / p[K_WAVES]) * (p[FRAGS_N] * block * 2 / 1700 + c->wgmma_step);
    f.overlaps = rfg_problem_overlaps(prob);
    f.early = c->wgmma_fill / 2;
    f.latency = c->wgmma_fill + find_us(grouped);
    if (p[SPLIT] > 1)
        f.latency += p[TILE_N] * p[TILE_M] * 4 / 1024.0 * c->wgmma_sent;
    return gemm_flow_us(dev, &f);
}

/* Steps follow one another in each set of waves, then come the sets and the workgroups. Whether wgmma's order depends
 * on its shape isn't written anywhere. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_w4_mma wgmma=%d k_waves=%d split=%d", p[WGMMA] ? p[TILE_M] : 0,
             p[K_WAVES], p[SPLIT]);
    return true;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/gpu/nvidia/w4.hip";
    k->entry = "gemm_w4_mma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "WGMMA", p[WGMMA]);
    rfg_kernel_macro(k, "TILE_M", p[TILE_M]);
    rfg_kernel_macro(k, "TILE_N", p[TILE_N]);
    rfg_kernel_macro(k, "FRAGS_N", p[FRAGS_N]);
    rfg_kernel_macro(k, "K_WAVES", p[K_WAVES]);
    rfg_kernel_macro(k, "SPLIT", p[SPLIT]);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)s.groups, 1, 1 }, { (uint32_t)s.threads, 1, 1 }, (uint32_t)s.lds };
}

const struct rfg_variant gemm_w4_mma = {
    .name = "gemm_w4_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .valid = valid,
    .worth = worth,
    .predict = predict,
    .order = order_of,
    .kernel = kernel,
    .launch = launch,
};
