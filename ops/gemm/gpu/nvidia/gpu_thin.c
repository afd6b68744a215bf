/* SPDX-License-Identifier: MIT
 *
 * gemm_thin_mma, and of a short k gemm_short_mma: what they can do, how they are launched, and how long they should
 * take. */
#include "ops/gemm/gpu/any/gpu.h"
#include "thin_layout.h"

enum { P_TILE_M, P_FRAGS_N, P_K_WAVES, P_UNROLL, P_SPLIT_K };
#define FRAG_N 8

static const struct rfg_param params[] = {
    [P_TILE_M] = { "tile_m", 3, { 8, 16, 32 } },
    [P_FRAGS_N] = { "frags_n", 3, { 1, 2, 4 } },
    [P_K_WAVES] = { "k_waves", 6, { 4, 5, 7, 8, 14, 16 } },
    [P_UNROLL] = { "unroll", 10, { 1, 2, 3, 4, 5, 6, 7, 8, 10, 14 } },
    [P_SPLIT_K] = { "split_k", 8, { 1, 2, 4, 6, 7, 8, 14, 16 } },
};
#define MOST_UNROLL 14

/* What thin.hip derives from its macros. */
struct shape {
    int threads, tile_n;
    int pieces;    /* loads of a step that a lane has under way, of 16 bytes */
    int registers; /* an estimate */
    int lds;       /* bytes */
    int sent;      /* of a block of sums, to its owner */
    int64_t tiles_m, tiles_n, steps;
    int64_t longest; /* steps of the wave that has most */
};

/* A residual, an activation or a y of codes takes a few that the compiler has before the sums are ready. */
static int most_registers(const struct rfg_device *dev, const struct rfg_problem *prob, int threads)
{
    int decoding = gemm_w_has_per(prob) && !(dev->features & RFG_FEATURE_CLUSTER) ? 48 : 0; /* without instructions */
    bool plain = !gemm_ends_asked(prob);
    return register_limit(dev, threads) - (plain ? 0 : 8) - decoding;
}

static int pieces_of(const struct rfg_problem *prob, const int *p)
{
    return p[P_FRAGS_N] + p[P_TILE_M] / 8 * step_frags(prob);
}

static int registers_of(const struct rfg_problem *prob, const int *p, int unroll)
{
    int blocks = THIN_BLOCKS(p[P_TILE_M], p[P_FRAGS_N]), pieces = pieces_of(prob, p);
    int of_w = gemm_halves(prob) ? 2 : 1;
    int scales = gemm_scales(prob) == GEMM_SCALES_BLOCKS ? unroll * (of_w + p[P_TILE_M] / 8) + 8 : 0;
    if (scales && (prob->v[GEMM_EXPERTS] || gemm_halves(prob))) /* addresses that nvcc makes ahead */
        scales += (prob->v[GEMM_EXPERTS] > FEW_EXPERTS ? 9 : prob->v[GEMM_EXPERTS] ? 4 : 2) * unroll;
    int codes = gemm_is_codes(prob) ? 8 * pieces : 0; /* as fp16, and a step's sums */
    if (gemm_w_is_8_bits(prob)) {
        int rows = prob->v[GEMM_W_GROUP] ? 2 * p[P_FRAGS_N] : of_w;
        codes = 28 + 16 * p[P_FRAGS_N] + 4 * unroll; /* and what nvcc decodes ahead, */
        if (prob->v[GEMM_EXPERTS] > FEW_EXPERTS && gemm_scales(prob) == GEMM_SCALES_BLOCKS) /* not of these */
            codes = 28 + 6 * p[P_FRAGS_N];
        scales = gemm_scales(prob) == GEMM_SCALES_BLOCKS ? 2 * unroll * rows + 8 : 0;
    }
    if (gemm_w_is_4_bits(prob)) {
        int words = prob->v[GEMM_W_SCALE] == RFG_F32 ? 2 : 1;
        scales = unroll * p[P_FRAGS_N] * step_groups(prob) * (words + (prob->v[GEMM_W_ZERO] ? 1 : 0));
        codes =
            84 + 4 * THIN_FRAGS_M(p[P_TILE_M]) + 4 * p[P_FRAGS_N]; /* sums of a group, and what nvcc decodes ahead */
        if (gemm_is_mx(prob)) { /* whose codes are shorter, have scales, and are decoded, too */
            scales -= unroll * p[P_TILE_M] / 8 * (4 * (4 - x_words(prob)) - 1);
            codes += 3 * (unroll - 1);
        }
    }
    return unroll * 4 * pieces + 4 * blocks + 3 * (p[P_FRAGS_N] + p[P_TILE_M] / 8) + 34 + scales + codes;
}

static struct shape shape_of(const struct rfg_problem *prob, const int *p)
{
    struct shape s = { .threads = p[P_K_WAVES] * 32, .tile_n = p[P_FRAGS_N] * FRAG_N };
    int blocks = THIN_BLOCKS(p[P_TILE_M], p[P_FRAGS_N]), split = p[P_SPLIT_K];
    s.pieces = pieces_of(prob, p);
    s.registers = registers_of(prob, p, p[P_UNROLL]);
    s.sent = THIN_SENT(blocks, p[P_K_WAVES], split);
    s.lds = THIN_LDS_BYTES(blocks, THIN_FLOATS(p[P_TILE_M]), p[P_K_WAVES], split);
    s.tiles_m = gemm_most_tiles(prob, p[P_TILE_M]);
    s.tiles_n = ceil_div(prob->v[GEMM_N], s.tile_n);
    s.steps = ceil_div(prob->v[GEMM_K], gemm_step_k(prob));
    s.longest = ceil_div(ceil_div(s.steps, split), p[P_K_WAVES]);
    return s;
}

static const struct gemm_takes takes = { .rows = GEMM_READ_FRAGMENTS | GEMM_READ_W8,
                                         .prepacked = GEMM_READ_HALF | GEMM_READ_GROUPS | GEMM_READ_MX4 | GEMM_READ_W8,
                                         .chunks = true,
                                         .steps = true,
                                         .ends = GEMM_ENDS_EPILOGUE | GEMM_END_BATCH | GEMM_END_IDS };

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (dev->platform != RFG_PLATFORM_NVIDIA)
        return rfg_refuse(why, "arch is %s: must be NVIDIA's, its tiles are mma.sync's", dev->arch);
    if (prob->dtype[0] == RFG_F16 && prob->dtype[1] == RFG_E5M2) /* two instructions for four, so nvcc does it early */
        return rfg_refuse(why, "w is e5m2: must not be with x of f16, decoding w takes registers that then spill");
    if (gemm_is_mx(prob) && gemm_w_is_padded(prob))
        return rfg_refuse(why, "K=%" PRId64 ": must be a multiple of %d with x_per=group", prob->v[GEMM_K],
                          PREPACK4_COLS);
    struct rfg_problem plain = gemm_as_plain(prob);
    return takes_mma(dev, prob, &takes, why) && few_rows(&plain, 128, why) && halves_in_blocks(prob, why) &&
           scales_steps(prob, why);
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(prob, p);
    if (p[P_SPLIT_K] > 1 && !(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "split_k=%d: must be 1, %s has no clusters", p[P_SPLIT_K], dev->arch);
    int most = most_registers(dev, prob, s.threads);
    if (s.registers > most)
        return rfg_refuse(why, "about %d registers: must be at most %d", s.registers, most);
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    if (p[P_SPLIT_K] > s.steps)
        return rfg_refuse(why, "split_k=%d: K=%" PRId64 " has %" PRId64 " steps of %d", p[P_SPLIT_K], prob->v[GEMM_K],
                          s.steps, gemm_step_k(prob));
    return grid_fits(s.tiles_m * s.tiles_n * p[P_SPLIT_K], 1, s.threads, why);
}

/* The unroll that keeps most under way: all steps of a wave, or else an even share of them. */
static int best_unroll(const struct rfg_device *dev, const struct rfg_problem *prob, const struct shape *s,
                       const int *p)
{
    int most = MOST_UNROLL;
    while (most > 1 && registers_of(prob, p, most) > most_registers(dev, prob, s->threads))
        most--;
    if (s->longest <= most)
        most = (int)s->longest;
    else
        for (int u = most; u >= 2 && u * 2 > most; u--)
            if (s->longest % u == 0) {
                most = u;
                break;
            }
    const struct rfg_param *unroll = &params[P_UNROLL];
    for (int i = unroll->n; i-- > 0;)
        if (unroll->values[i] <= most)
            return unroll->values[i];
    return 1;
}

static bool exact(const struct shape *s, const int *p)
{
    return s->steps % ((int64_t)p[P_SPLIT_K] * p[P_K_WAVES] * p[P_UNROLL]) == 0;
}

/* As nvcc has it, or a few more or less. Codes that have no scales of blocks it decodes as early as it can, if all
 * waves have as many steps: all of them at once. */
static int compiled_registers(const struct rfg_problem *prob, const struct shape *s, const int *p)
{
    int ring = p[P_UNROLL] * s->pieces * 4, blocks = THIN_BLOCKS(p[P_TILE_M], p[P_FRAGS_N]);
    bool scales = gemm_scales(prob) == GEMM_SCALES_BLOCKS;
    if (!gemm_is_fp8(prob))
        return s->registers + s->pieces - (exact(s, p) ? 18 : 0);
    if (exact(s, p) && !scales)
        return MAX(3 * ring + 24, 104);
    if (scales)
        return ring + 4 * blocks + 8 * p[P_FRAGS_N] + 28 + p[P_UNROLL] * (1 + p[P_TILE_M] / 8);
    return ring + 4 * blocks + 2 * s->pieces + 28;
}

static double resident(const struct rfg_device *dev, const struct rfg_problem *prob, const struct shape *s,
                       const int *p)
{
    int registers = compiled_registers(prob, s, p);
    return gemm_resident(dev, s->threads, MIN(registers, register_limit(dev, s->threads)), s->lds);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p, struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    struct shape s = shape_of(prob, p);
    int64_t m = prob->v[GEMM_M], n = prob->v[GEMM_N], groups = s.tiles_m * s.tiles_n * p[P_SPLIT_K];
    if (p[P_TILE_M] > 8 && p[P_TILE_M] / 2 >= m)
        return rfg_refuse(why, "tile_m=%d: less is enough for M=%" PRId64, p[P_TILE_M], m);
    if (p[P_TILE_M] < m && p[P_TILE_M] < 32)
        return rfg_refuse(why, "tile_m=%d: reads W %" PRId64 " times", p[P_TILE_M], s.tiles_m);
    if (s.tile_n > FRAG_N && s.tile_n / 2 >= n)
        return rfg_refuse(why, "tile of %d columns: N=%" PRId64, s.tile_n, n);
    int best = best_unroll(dev, grouped, &s, p);
    if (p[P_UNROLL] != best)
        return rfg_refuse(why, "unroll=%d: %d is better for %" PRId64 " steps", p[P_UNROLL], best, s.longest);
    /* Steps shared out evenly, unless CUs are idle anyway. */
    int64_t all = s.longest * p[P_K_WAVES] * p[P_SPLIT_K];
    bool idle = groups * 2 < dev->cu_count;
    if (all * 85 > s.steps * 100 && s.longest > 1 && !idle)
        return rfg_refuse(why, "split_k=%d, k_waves=%d: uneven for %" PRId64 " steps", p[P_SPLIT_K], p[P_K_WAVES],
                          s.steps);
    /* A cluster of 10 and more needs a GPC to itself, of which there are 7. */
    if (p[P_SPLIT_K] > 1 && groups > (p[P_SPLIT_K] >= 10 ? 7 * p[P_SPLIT_K] : 2 * (int64_t)dev->cu_count + 8))
        return rfg_refuse(why, "split_k=%d: %" PRId64 " workgroups on %d CUs", p[P_SPLIT_K], groups, dev->cu_count);
    if (p[P_SPLIT_K] > 1 && (double)groups > gemm_at_once(dev, p[P_SPLIT_K], resident(dev, prob, &s, p)))
        return rfg_refuse(why, "split_k=%d: %" PRId64 " clusters don't run at once on %d CUs", p[P_SPLIT_K],
                          groups / p[P_SPLIT_K], dev->cu_count);
    if (idle && p[P_SPLIT_K] < 8 && s.steps >= 16 * p[P_SPLIT_K] && dev->features & RFG_FEATURE_CLUSTER)
        return rfg_refuse(why, "split_k=%d: only %" PRId64 " workgroups on %d CUs", p[P_SPLIT_K], groups,
                          dev->cu_count);
    return true;
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    const struct gemm_model *c = gemm_model(dev);
    struct shape s = shape_of(prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], k = (double)prob->v[GEMM_K];
    double waves = p[P_K_WAVES], longest = (double)s.longest;
    int split = p[P_SPLIT_K], blocks = THIN_BLOCKS(p[P_TILE_M], p[P_FRAGS_N]);
    struct down down = tiles_down(grouped, prob, p[P_TILE_M], s.tiles_m);
    s.registers = registers_of(grouped, p, p[P_UNROLL]);
    struct gemm_flow f = { .groups = down.tiles * (double)s.tiles_n * split, .cluster = split };
    f.per_cu = resident(dev, prob, &s, p);
    double w_row = (double)gemm_w_row_bytes(prob);
    f.memory = m * k * x_bytes(prob) + n * w_row * down.reads;
    f.bytes =
        (MIN(n, s.tile_n) * w_row / k + MIN(m, p[P_TILE_M]) * x_bytes(prob)) * gemm_step_k(prob) * waves * longest;
    /* A step is asked for again as soon as it is used. */
    f.in_flight = f.bytes * MIN((double)p[P_UNROLL] / longest, 1);
    double loads = s.pieces + (gemm_scales(prob) == GEMM_SCALES_BLOCKS ? 1 + p[P_TILE_M] / 8 : 0);
    f.issue = waves * longest * (loads * c->thin_load + blocks * step_frags(prob) * c->thin_mma);
    if (gemm_w_is_4_bits(prob)) /* 60 and 100 instructions for 8 rows and a step, half as fast as a CU can */
        f.issue += waves * longest * p[P_FRAGS_N] * (prob->dtype[1] == RFG_I4 ? 0.018 : 0.03);
    f.chain = gemm_is_fp8(prob)        ? longest * s.pieces * c->thin_decode
              : gemm_w_is_8_bits(prob) ? longest * p[P_FRAGS_N] * 2 * c->thin_decode
                                       : 0;
    /* Loads are issued one after the other. */
    double first = (double)MIN(p[P_UNROLL], s.longest);
    f.latency = first * loads * c->thin_step + s.lds / 1024.0 * c->thin_sum + find_us(grouped);
    f.overlaps = rfg_problem_overlaps(prob);
    if (!exact(&s, p))
        f.latency += longest * c->thin_uneven;
    return gemm_flow_us(dev, &f);
}

/* A wave's steps follow one another. Who adds the waves' sums depends on the blocks of a tile. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    int blocks = THIN_BLOCKS(p[P_TILE_M], p[P_FRAGS_N]), split = p[P_SPLIT_K];
    (void)dev, (void)prob, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_thin_mma k_waves=%d split=%d combines=%d shares=%d",
             p[P_K_WAVES], split, THIN_COMBINES(blocks, split), THIN_SHARES(blocks, split));
    return true;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    struct shape s = shape_of(prob, p);
    (void)dev;
    k->source = "gemm/gpu/nvidia/thin.hip";
    k->entry = "gemm_thin_mma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_M", p[P_TILE_M]);
    rfg_kernel_macro(k, "FRAGS_N", p[P_FRAGS_N]);
    rfg_kernel_macro(k, "K_WAVES", p[P_K_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "SPLIT", p[P_SPLIT_K]);
    /* Of many experts W comes first: X waits for where its rows are. */
    rfg_kernel_macro(k, "X_FIRST", !rfg_problem_overlaps(prob) && prob->v[GEMM_EXPERTS] <= FEW_EXPERTS);
    /* Not of K but of how the waves divide it: fewer tests. */
    rfg_kernel_macro(k, "EXACT", exact(&s, p));
    rfg_kernel_macro(k, "TAIL", prob->v[GEMM_K] % gemm_step_k(prob) != 0);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(prob, p);
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)(s.tiles_m * s.tiles_n * p[P_SPLIT_K]), 1, (uint32_t)gemm_products(prob) },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant gemm_thin_mma = {
    .name = "gemm_thin_mma",
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

/* ---- gemm_short_mma --------------------------------------------------------------------------------------------- */

enum { S_TILE_M, S_FRAGS_N, S_WAVES, S_STEPS, S_ALONG };
#define SHORT_STEPS 8

static const struct rfg_param short_params[] = {
    [S_TILE_M] = { "tile_m", 3, { 8, 16, 32 } },
    [S_FRAGS_N] = { "frags_n", 3, { 1, 2, 4 } },
    [S_WAVES] = { "waves", 3, { 2, 4, 8 } },
    [S_STEPS] = { "steps", 8, { 1, 2, 3, 4, 5, 6, 7, 8 } }, /* K's */
    [S_ALONG] = { "along", 7, { 2, 4, 7, 8, 14, 16, 28 } }, /* tiles of a wave */
};

/* As gemm_thin_mma, whose waves have all of k. */
struct short_shape {
    struct shape s;
    int64_t span, groups_n; /* columns of a workgroup */
};

/* As nvcc has it, or a few more. */
static int short_registers(const struct rfg_problem *prob, const int *p)
{
    int frags_n = p[S_FRAGS_N], pieces = frags_n + p[S_TILE_M] / 8 * step_frags(prob);
    int rest = !gemm_w_has_per(prob) ? 40 + 8 * frags_n : 60 + 20 * frags_n + (gemm_is_codes(prob) ? 16 : 0);
    return 4 * p[S_STEPS] * pieces + 4 * (THIN_BLOCKS(p[S_TILE_M], frags_n) - frags_n) + rest;
}

static struct short_shape short_shape(const struct rfg_problem *prob, const int *p)
{
    const int as_thin[] = { p[S_TILE_M], p[S_FRAGS_N], p[S_WAVES], p[S_STEPS], 1 };
    struct short_shape s = { .s = shape_of(prob, as_thin) };
    s.s.lds = 0;
    s.s.registers = short_registers(prob, p);
    s.span = (int64_t)s.s.tile_n * p[S_WAVES] * p[S_ALONG];
    s.groups_n = ceil_div(prob->v[GEMM_N], s.span);
    return s;
}

static const struct gemm_takes short_takes = { .rows = GEMM_READ_FRAGMENTS | GEMM_READ_W8,
                                               .prepacked = GEMM_READ_HALF | GEMM_READ_W8,
                                               .chunks = true,
                                               .steps = true,
                                               .ends = GEMM_ENDS_EPILOGUE | GEMM_END_BATCH | GEMM_END_IDS };

static bool short_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (dev->platform != RFG_PLATFORM_NVIDIA)
        return rfg_refuse(why, "arch is %s: must be NVIDIA's, its tiles are mma.sync's", dev->arch);
    if (prob->dtype[0] == RFG_F16 && prob->dtype[1] == RFG_E5M2)
        return rfg_refuse(why, "w is e5m2: must not be with x of f16, decoding w takes registers that then spill");
    struct rfg_problem plain = gemm_as_plain(prob);
    if (!takes_mma(dev, prob, &short_takes, why) || !few_rows(&plain, 128, why) || !halves_in_blocks(prob, why) ||
        !scales_steps(prob, why))
        return false;
    int64_t step = gemm_step_k(prob);
    return (prob->v[GEMM_K] % step == 0 && prob->v[GEMM_K] <= SHORT_STEPS * step) ||
           rfg_refuse(why, "K=%" PRId64 ": must be a multiple of %" PRId64 ", at most %d of them", prob->v[GEMM_K],
                      step, SHORT_STEPS);
}

static bool short_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_reason *why)
{
    struct short_shape s = short_shape(prob, p);
    int most = most_registers(dev, prob, s.s.threads);
    if (p[S_STEPS] != s.s.steps)
        return rfg_refuse(why, "steps=%d: must be %" PRId64 ", K=%" PRId64, p[S_STEPS], s.s.steps, prob->v[GEMM_K]);
    if (s.s.registers > most)
        return rfg_refuse(why, "about %d registers: must be at most %d", s.s.registers, most);
    return grid_fits(s.s.tiles_m * s.groups_n, 1, s.s.threads, why);
}

static bool short_worth(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p,
                        struct rfg_reason *why)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    int64_t m = prob->v[GEMM_M], each = ceil_div(grouped->v[GEMM_N], short_shape(prob, p).span);
    double groups = (double)prob->v[GEMM_N] / (double)grouped->v[GEMM_N] * (double)each;
    if (p[S_TILE_M] > 8 && p[S_TILE_M] / 2 >= m)
        return rfg_refuse(why, "tile_m=%d: less is enough for M=%" PRId64, p[S_TILE_M], m);
    if (p[S_TILE_M] < m && p[S_TILE_M] < 32)
        return rfg_refuse(why, "tile_m=%d: reads W again for M=%" PRId64, p[S_TILE_M], m);
    if (p[S_ALONG] > 4 && groups * 3 < dev->cu_count * 2)
        return rfg_refuse(why, "along=%d: only %.0f workgroups on %d CUs", p[S_ALONG], groups, dev->cu_count);
    if (p[S_ALONG] < 7 && groups > 16.0 * dev->cu_count)
        return rfg_refuse(why, "along=%d: %.0f workgroups on %d CUs", p[S_ALONG], groups, dev->cu_count);
    return true;
}

static double short_predict(const struct rfg_device *dev, const struct rfg_problem *grouped, const int *p)
{
    struct rfg_problem plain = gemm_as_plain(grouped), *prob = &plain;
    const struct gemm_model *c = gemm_model(dev);
    struct short_shape s = short_shape(prob, p);
    double m = (double)prob->v[GEMM_M], n = (double)prob->v[GEMM_N], w_row = (double)gemm_w_row_bytes(prob);
    double of_x = (double)prob->v[GEMM_K] * x_bytes(prob), waves = p[S_WAVES];
    int blocks = THIN_BLOCKS(p[S_TILE_M], p[S_FRAGS_N]);
    struct down down = tiles_down(grouped, prob, p[S_TILE_M], s.s.tiles_m);
    double products = n / (double)grouped->v[GEMM_N]; /* experts', or a batch's, side by side */
    double tiles = MIN((double)p[S_ALONG], ceil((double)grouped->v[GEMM_N] / (s.s.tile_n * waves))); /* of a wave */
    struct gemm_flow f = { .groups = down.tiles * products * (double)ceil_div(grouped->v[GEMM_N], s.span),
                           .cluster = 1 };
    f.per_cu = gemm_resident(dev, s.s.threads, MIN(s.s.registers, register_limit(dev, s.s.threads)), 0);
    f.memory = m * of_x + n * w_row * down.reads;
    f.in_flight = waves * s.s.tile_n * w_row;
    f.bytes = f.in_flight * tiles + MIN(m, p[S_TILE_M]) * of_x;
    double step = (p[S_FRAGS_N] * c->thin_load + blocks * step_frags(prob) * c->thin_mma) * p[S_STEPS];
    f.issue = waves * tiles * step;
    f.chain = tiles * (step + p[S_FRAGS_N] * p[S_STEPS] * 2 * c->thin_decode);
    f.latency = p[S_STEPS] * s.s.pieces * c->thin_step + find_us(grouped);
    f.overlaps = rfg_problem_overlaps(prob) && !grouped->v[GEMM_EXPERTS];
    return gemm_flow_us(dev, &f);
}

/* All steps follow one another. */
static bool short_order(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev, (void)prob, (void)p, (void)why;
    snprintf(order->words, sizeof(order->words), "gemm_short_mma");
    return true;
}

static void short_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/gpu/nvidia/thin.hip";
    k->entry = "gemm_short_mma";
    common_macros(prob, k);
    rfg_kernel_macro(k, "TILE_M", p[S_TILE_M]);
    rfg_kernel_macro(k, "FRAGS_N", p[S_FRAGS_N]);
    rfg_kernel_macro(k, "K_WAVES", p[S_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[S_STEPS]);
    rfg_kernel_macro(k, "ALONG", p[S_ALONG]);
    rfg_kernel_macro(k, "SPLIT", 1);
    rfg_kernel_macro(k, "X_FIRST", 0);
    rfg_kernel_macro(k, "EXACT", 1);
    rfg_kernel_macro(k, "TAIL", 0);
    rfg_kernel_macro(k, "PREPACKED", (int)prob->v[GEMM_PREPACKED]);
}

static void short_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                         struct rfg_launch *l)
{
    struct short_shape s = short_shape(prob, p);
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)(s.s.tiles_m * s.groups_n), 1, (uint32_t)gemm_products(prob) },
                              { (uint32_t)s.s.threads, 1, 1 },
                              0 };
}

const struct rfg_variant gemm_short_mma = {
    .name = "gemm_short_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(short_params),
    .params = short_params,
    .supports = short_supports,
    .valid = short_valid,
    .worth = short_worth,
    .predict = short_predict,
    .order = short_order,
    .kernel = short_kernel,
    .launch = short_launch,
};
