/* SPDX-License-Identifier: MIT
 *
 * mha_decode_stream_mma: what it can do, how it is launched, and how long it should take. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/model/model.h"
#include "ops/gpu.h"
#include "ops/mha/mha.h"
#include "decode_layout.h"

enum { P_TILES, P_WAVES, P_UNROLL, P_CLUSTER, P_PARTS, P_GROUPS };

static const struct rfg_param params[] = {
    [P_TILES] = { "tiles", 2, { 1, 2 } },                  /* of the matrix instruction's queries, a work item */
    [P_WAVES] = { "waves", 6, { 2, 4, 6, 8, 12, 16 } },    /* that share an item's keys */
    [P_UNROLL] = { "unroll", 5, { 1, 2, 3, 4, 6 } },       /* steps under way in each: two in registers, more in LDS */
    [P_CLUSTER] = { "cluster", 6, { 0, 1, 2, 4, 8, 16 } }, /* workgroups to a cluster; 0: all steps shared out evenly */
    [P_PARTS] = { "parts", 13, { 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64 } }, /* clusters a work item */
    [P_GROUPS] = { "groups", 6, { 1, 2, 3, 4, 6, 8 } }, /* workgroups a CU: as many as cluster=0 has, and
                                                        NVIDIA's compiler makes room for */
};
#define STEP MHA_DECODE_STEP

/* What the kernel derives from its macros. */
struct shape {
    int rows, real_rows, row_tiles, threads;
    int lds;           /* bytes */
    int registers;     /* of a lane: a guess */
    double step_bytes; /* of keys and values */
    int64_t items, steps, groups;
    int64_t each, segments; /* steps of a segment; segments */
};

static bool is_small(const struct rfg_problem *prob)
{
    return mha_kv_dtype(prob) != prob->dtype[0];
}
static bool is_i4(const struct rfg_problem *prob)
{
    return mha_kv_dtype(prob) == RFG_I4;
}
/* Rows are read 4 bytes at a time: vLLM lays a token's scale behind its codes, and codes of any head are whole words. */
static bool is_narrow(const struct rfg_problem *prob)
{
    int whole = 128 / mha_kv_bits(prob);
    return mha_token_scales(prob) && (prob->v[MHA_ALIGN] < 16 || prob->v[MHA_D] % whole || mha_dv(prob) % whole);
}
/* Waves that share a step, each with a part of the heads: where one wave's registers don't hold them. */
static int split_of(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return dev->platform == RFG_PLATFORM_NVIDIA && !is_small(prob) && prob->v[MHA_D] + mha_dv(prob) > 512 ? 2 : 1;
}
/* Elements of a head as the kernel pads them: k's 32 a step; v's a word of a lane (of AMD's all of a block's rows), four
 * where they are padded anyway. */
static int padded_d(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    return mha_padded(prob->v[MHA_D], 32 * split_of(dev, prob));
}
static int padded_dv(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    if (is_i4(prob) && dev->platform != RFG_PLATFORM_NVIDIA)
        return mha_padded(mha_dv(prob), 128);
    return mha_padded(mha_dv(prob), is_small(prob) || mha_dv(prob) % 32 ? 64 : 32 * split_of(dev, prob));
}

static int q_tile(const struct rfg_device *dev)
{
    return dev->platform == RFG_PLATFORM_NVIDIA ? 8 : 16;
}

static bool is_rdna(const struct rfg_device *dev)
{
    return dev->platform != RFG_PLATFORM_NVIDIA && dev->wave_size == 32;
}

static bool loads_late(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    int split = split_of(dev, prob);
    return MHA_DECODE_LOADS_LATE(dev->platform == RFG_PLATFORM_NVIDIA, dev->wave_size, padded_d(dev, prob) / split,
                                 padded_dv(dev, prob) / split);
}

static int query_rows(const struct rfg_problem *prob)
{
    return (int)(prob->v[MHA_HQ] / prob->v[MHA_HKV] * prob->v[MHA_SQ]);
}

/* With invariant=1, unless a cluster shares an item. */
static bool segmented(const struct rfg_problem *prob, const int *p)
{
    return prob->v[MHA_INVARIANT] && p[P_CLUSTER] == 1;
}

/* Nobody knows them before the kernel is compiled, and the tuner prunes by them so that
 * it need not compile what spills. A stage of keys and values, Q and O are counted (RDNA 3's lanes hold what is
 * multiplied twice); the rest is fitted to what hipRTC of ROCm 5.2, clang 19 and NVRTC 13 compile. */
int mha_decode_registers(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    int rows = p[P_TILES] * q_tile(dev);
    int split = split_of(dev, prob), dv = padded_dv(dev, prob) / split, d = padded_d(dev, prob) / split,
        bits = mha_kv_bits(prob);
    bool nvidia = dev->platform == RFG_PLATFORM_NVIDIA, twice = dev->hw->mma == RFG_MMA_RDNA3;
    int stage = MHA_DECODE_RING(p[P_UNROLL]) /* read from LDS as they are multiplied */
                    ? STEP * MIN(d, dv) * bits / 8
                    : p[P_UNROLL] * STEP * (twice ? 2 : 1) * (loads_late(dev, prob) ? MAX(d, dv) : d + dv) * bits / 8;
    /* Rows of i4 at constant distances, one step under way: 16 waves have the registers for heads of 128. */
    bool whole = prob->v[MHA_PAGE] && prob->v[MHA_PAGE] % STEP == 0;
    bool short_i4 = is_i4(prob) && whole && p[P_CLUSTER] && p[P_UNROLL] == 1;
    int n = (stage + rows * d * (twice ? 4 : 2)) / dev->wave_size / 4 + rows * dv / dev->wave_size;
    n += nvidia ? 56 : is_rdna(dev) ? 74 : 44;
    if (twice && bits <= 8)
        n += dv / 4;
    if (dev->wave_size == 64 && p[P_UNROLL] > 1) /* addresses and blocks of the second step */
        n += 80;
    if (segmented(prob, p) && dev->wave_size == 64) /* the loop around it all */
        n += 24;
    if (!nvidia && mha_token_scales(prob))
        n += !is_rdna(dev) ? 16 : is_i4(prob) && !p[P_CLUSTER] ? 40 : 24;
    if (nvidia)
        n += (mha_token_scales(prob) ? (short_i4 ? 8 : 12)
              : bits == 8            ? p[P_CLUSTER] ? -8 : -4
                                     : 0) +
             (prob->v[MHA_CAP] || prob->v[MHA_ALIBI] ? 12 : 0) + (p[P_UNROLL] == 2 ? 6 : 0) +
             (d > 192 && !(dev->features & RFG_FEATURE_CLUSTER) ? 32 : 0);
    return n;
}

static struct shape shape_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    int dv = padded_dv(dev, prob), d = padded_d(dev, prob);
    struct shape s = { .rows = p[P_TILES] * q_tile(dev), .threads = p[P_WAVES] * dev->wave_size };
    s.row_tiles = (query_rows(prob) + s.rows - 1) / s.rows;
    bool nvidia = dev->platform == RFG_PLATFORM_NVIDIA;
    s.real_rows = nvidia ? MHA_DECODE_REAL_ROWS(query_rows(prob), s.rows) : s.rows;
    int tail = MHA_DECODE_TAIL_AT(nvidia ? p[P_WAVES] / split_of(dev, prob) : p[P_WAVES] / 2, s.rows, dv,
                                  nvidia ? 0 : MHA_DECODE_QUERY_ROW(d, dev->wave_size));
    int ring = MHA_DECODE_RING_FLOATS(p[P_UNROLL], p[P_WAVES],
                                      MHA_DECODE_STAGE_BYTES(d, dv, mha_kv_bits(prob), mha_token_scales(prob)));
    tail = MAX(tail, ring);
    s.lds = 4 * MHA_DECODE_LDS_FLOATS(tail, p[P_CLUSTER], s.real_rows, dv);
    if (segmented(prob, p))
        s.lds += 4 * MHA_DECODE_RUNNING_FLOATS(s.real_rows, dv);
    s.registers = mha_decode_registers(dev, prob, p);
    s.step_bytes = STEP * (double)(prob->v[MHA_D] + mha_dv(prob)) * mha_kv_bits(prob) / 8;
    s.items = prob->v[MHA_B] * prob->v[MHA_HKV] * s.row_tiles;
    s.steps = (prob->v[MHA_S] + STEP - 1) / STEP;
    s.each = MHA_DECODE_SEGMENT_STEPS(s.steps);
    s.segments = ceil_div(s.steps, s.each);
    s.groups = p[P_CLUSTER] ? s.items * p[P_CLUSTER] * p[P_PARTS]
                            : MIN((int64_t)p[P_GROUPS] * dev->cu_count, s.items * MAX(s.steps, 1));
    return s;
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    int d = (int)prob->v[MHA_D], dv = mha_dv(prob), whole = 128 / mha_kv_bits(prob);
    if (!is_gpu(dev, why) || !mha_is_half(prob, why))
        return false;
    if (!(dev->features & RFG_FEATURE_MMA) || dev->hw->mma == RFG_MMA_CDNA1)
        return rfg_refuse(why, "arch is %s: must have matrix instructions of 16 by 16 by 16", dev->arch);
    bool narrow = is_narrow(prob);
    if (prob->v[MHA_ALIGN] < (narrow ? 4 : 16))
        return rfg_refuse(why, "align=%" PRId64 ": must be %d", prob->v[MHA_ALIGN], narrow ? 4 : 16);
    if (prob->v[MHA_FORM] == MHA_FORM_VLLM)
        return rfg_refuse(why, "form=vllm: must have rows of D elements");
    if (!narrow && (d % whole || dv % whole))
        return rfg_refuse(why, "D=%d, Dv=%d: must be multiples of %d, whole chunks of 16 bytes", d, dv, whole);
    return true;
}

static bool valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    bool nvidia = dev->platform == RFG_PLATFORM_NVIDIA;
    /* Each quarter of an NVIDIA CU has waves and registers of its own, given out eight at a time. */
    int limit = nvidia                                    ? MIN(255, 512 / ((p[P_WAVES] * p[P_GROUPS] + 3) / 4) / 8 * 8)
                : dev->wave_size == 64 && s.threads > 512 ? 128
                                                          : 256;
    if (!nvidia && p[P_WAVES] > 8)
        return rfg_refuse(why, "waves=%d: must be at most 8 on %s, or registers spill", p[P_WAVES], dev->arch);
    if (!nvidia && p[P_WAVES] == 6)
        return rfg_refuse(why, "waves=6: must be a power of two on %s, or registers spill", dev->arch);
    if (segmented(prob, p) && split_of(dev, prob) > 1)
        return rfg_refuse(why, "cluster=1: must be above 1 with invariant=1 and heads that two waves share: not tried");
    if (p[P_CLUSTER] > 1 && !(dev->features & RFG_FEATURE_CLUSTER))
        return rfg_refuse(why, "cluster=%d: must be 0 or 1, %s has no clusters", p[P_CLUSTER], dev->arch);
    if (p[P_UNROLL] > 2 && (!nvidia || split_of(dev, prob) > 1 || is_narrow(prob)))
        return rfg_refuse(why, "unroll=%d: must be at most 2 %s", p[P_UNROLL],
                          !nvidia ? "without copies to LDS" : "with rows of words and heads that two waves share");
    if (p[P_UNROLL] > 2 && padded_dv(dev, prob) != mha_dv(prob))
        return rfg_refuse(why, "unroll=%d: must be at most 2 with rows of %d elements of %d: not tried", p[P_UNROLL],
                          (int)mha_dv(prob), padded_dv(dev, prob));
    if (loads_late(dev, prob) && p[P_UNROLL] != 1)
        return rfg_refuse(why, "unroll=%d: must be 1 with D=%" PRId64 " on %s", p[P_UNROLL], prob->v[MHA_D], dev->arch);
    if (!p[P_CLUSTER] && p[P_PARTS] != 1)
        return rfg_refuse(why, "parts=%d: must be 1, cluster=0 has none", p[P_PARTS]);
    if (p[P_CLUSTER] && !nvidia && p[P_GROUPS] != 1)
        return rfg_refuse(why, "groups=%d: must be 1 unless cluster=0", p[P_GROUPS]);
    if (p[P_PARTS] > 1 && s.items * p[P_CLUSTER] > RFG_COUNTERS)
        return rfg_refuse(why, "parts=%d: %" PRId64 " results, must be at most %d, the number of counters", p[P_PARTS],
                          s.items * p[P_CLUSTER], RFG_COUNTERS);
    if (!p[P_CLUSTER] && prob->v[MHA_B] > MHA_DECODE_MAX_BATCH)
        return rfg_refuse(why, "cluster=0: B=%" PRId64 " must be at most %d", prob->v[MHA_B], MHA_DECODE_MAX_BATCH);
    if (!p[P_CLUSTER] && s.items * MAX(s.steps, 1) > INT32_MAX)
        return rfg_refuse(why, "cluster=0: %" PRId64 " work items of %" PRId64 " steps, must be fewer than 2^31",
                          s.items, s.steps);
    if (s.registers > limit)
        return rfg_refuse(why, "about %d registers: must be at most %d", s.registers, limit);
    if (s.lds > dev->lds_bytes)
        return rfg_refuse(why, "%d bytes of LDS: must be at most %d", s.lds, dev->lds_bytes);
    if (s.groups * s.threads > UINT32_MAX || s.groups > INT32_MAX)
        return rfg_refuse(why, "%" PRId64 " workgroups: more than a launch takes", s.groups);
    return true;
}

/* Workgroups of a CU at once. */
static double resident(const struct rfg_device *dev, const struct shape *s, const int *p)
{
    double fits =
        dev->platform == RFG_PLATFORM_NVIDIA ? p[P_GROUPS] : 131072.0 / (MIN(s->registers + 20, 256) * s->threads);
    fits = MIN(fits, 2048 / s->threads);
    return MAX(floor(MIN(fits, dev->lds_bytes / (s->lds + 1024.0))), 1);
}

static bool worth(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why)
{
    struct shape s = shape_of(dev, prob, p);
    int rows = query_rows(prob), tile = q_tile(dev);
    if (p[P_TILES] > 1 && p[P_TILES] / 2 * tile >= rows)
        return rfg_refuse(why, "tiles=%d: less is enough for %d rows", p[P_TILES], rows);
    if (p[P_TILES] < 2 && rows > tile && s.registers < 150)
        return rfg_refuse(why, "tiles=%d: %d rows read the keys %d times", p[P_TILES], rows, s.row_tiles);
    if (p[P_UNROLL] > 1 && s.steps <= (int64_t)p[P_WAVES] * MAX(p[P_CLUSTER], 1) * MAX(p[P_UNROLL] - 2, 1))
        return rfg_refuse(why, "unroll=%d: no more steps a wave", p[P_UNROLL]);
    if (p[P_UNROLL] > 2 && p[P_GROUPS] > resident(dev, &s, p))
        return rfg_refuse(why, "groups=%d: not at once, LDS has too little room", p[P_GROUPS]);
    bool enough =
        s.items * s.steps >= 2 * (int64_t)dev->cu_count && prob->v[MHA_B] <= MHA_DECODE_MAX_BATCH; /* for cluster=0 */
    if (prob->v[MHA_LENS] && p[P_CLUSTER] && enough && !prob->v[MHA_INVARIANT])
        return rfg_refuse(why, "cluster=%d: the sequences differ", p[P_CLUSTER]);
    if (!p[P_CLUSTER]) {
        if (p[P_GROUPS] > resident(dev, &s, p))
            return rfg_refuse(why, "groups=%d: not at once", p[P_GROUPS]);
        return s.items * s.steps >= 2 * s.groups || rfg_refuse(why, "groups=%d: too little for each", p[P_GROUPS]);
    }
    double at_once = resident(dev, &s, p) * dev->cu_count;
    int split = p[P_CLUSTER] * p[P_PARTS];
    if (split > 1 && ((double)s.groups > at_once || (int64_t)(split - 1) * p[P_WAVES] >= s.steps))
        return rfg_refuse(why, "cluster=%d, parts=%d: %" PRId64 " workgroups", p[P_CLUSTER], p[P_PARTS], s.groups);
    if (segmented(prob, p) && p[P_PARTS] > 1 && p[P_PARTS] > s.segments)
        return rfg_refuse(why, "parts=%d: %" PRId64 " segments", p[P_PARTS], s.segments);
    /* Nearly as many as there is room for, or for which there are steps. */
    return segmented(prob, p) || (double)s.groups * 2.5 >= at_once || (int64_t)split * p[P_WAVES] * 2 > s.steps ||
           rfg_refuse(why, "cluster=%d, parts=%d: only %" PRId64 " workgroups", p[P_CLUSTER], p[P_PARTS], s.groups);
}

/* As an H200 has it: a step takes some 1.3 us from its loads to their
 * next turn, a second one under way gives a third more, a CU takes in 50 bytes a ns however
 * many it asks for, and a step keeps a wave's quarter of the CU busy for 0.1 us, itself for 0.35. */
#define LOADED_US 1.3
#define CU_GBPS   50
#define CHAIN_US  0.35
#define BUSY_US   0.1

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    double bytes, flops, per_cu = resident(dev, &s, p), waves = p[P_WAVES] / split_of(dev, prob),
                         groups = (double)s.groups;
    prob->op->cost(prob, &bytes, &flops);
    /* Of the largest clusters there is one to a GPC, however much room. */
    double at_once = gemm_at_once(dev, MAX(p[P_CLUSTER], 1), p[P_CLUSTER] > 8 ? 1 : per_cu),
           rounds = ceil(groups / at_once);
    double active = MIN(groups, at_once), cus = MIN(active, dev->cu_count), all = (double)(s.items * s.steps);
    /* Where sequences differ, or a window leaves most keys out. */
    all *= MIN(1, bytes / MAX((double)(prob->v[MHA_B] * prob->v[MHA_HKV] * s.steps) * s.step_bytes, 1));
    int split = p[P_CLUSTER] * p[P_PARTS];
    double longest = split ? ceil((double)s.steps / (waves * split)) : ceil(all / groups / waves) + 0.5;
    double own = (double)ceil_div(s.segments, p[P_PARTS]); /* segments of a workgroup */
    if (segmented(prob, p))
        longest = own * (double)ceil_div(MIN(s.each, s.steps), p[P_WAVES]);
    double tiles = p[P_TILES], crowd = active / cus * waves / 4;
    /* Where memory and the CUs come near to each other, they get in each other's way. */
    double cu_rate = cus * CU_GBPS * 1e3, mem_rate = 1e3 * dev->mem_gbps;
    double ahead = p[P_UNROLL] > 2 ? 1.45 : 1 + 0.3 * (p[P_UNROLL] - 1);
    double rate =
        MIN(active * waves * ahead * s.step_bytes / LOADED_US, pow(pow(cu_rate, -6) + pow(mem_rate, -6), -1.0 / 6));
    /* What the last steps leave idle. */
    double uneven = longest * waves * groups / MAX(all, 1);
    double data = MAX(bytes / rate, all * s.step_bytes / MIN(1e3 * dev->cache_gbps, cus * CU_GBPS * 1e3));
    double chain = rounds * longest * MAX(CHAIN_US * tiles, crowd * BUSY_US * (1 + tiles) / 2);
    data *= split ? 1 + (MIN(uneven, 3) - 1) * 0.3 : 1;
    double combine = 0.5 + 0.005 * s.lds / 1024 * active / cus + (p[P_CLUSTER] > 1 ? 0.48 + 0.02 * p[P_CLUSTER] : 0) +
                     (p[P_PARTS] > 1 ? dev->sync_us + 0.3 + 0.03 * p[P_PARTS] : 0) + (split ? 0 : 1 + 2 * dev->sync_us);
    /* The last to arrive reads all parts of what it owns, alone. */
    if (p[P_PARTS] > 1)
        combine += p[P_PARTS] * 4.0 * s.real_rows * padded_dv(dev, prob) / MAX(p[P_CLUSTER], 1) / 60e3;
    /* A workgroup with parts of several items starts anew with each; meanwhile a CU's other workgroups go on. */
    if (segmented(prob, p))
        combine += (own - 1) * (2 * dev->load_us + CHAIN_US + 0.5) / (active / cus);
    if (!split)
        combine += (double)s.items / groups * (2 * dev->load_us + CHAIN_US + 1) / (active / cus);
    return dev->latency_us + 2 * dev->load_us + MAX(data, chain) + CHAIN_US + rounds * combine +
           (rounds - 1) * 2 * dev->load_us;
}

/* Waves take turns with a sequence's (or a segment's) steps, and rows of a tile have their maximum raised together: of
 * one sequence and one kv head all are there, always. */
static bool order_of(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                     struct rfg_order *order, struct rfg_reason *why)
{
    (void)dev;
    snprintf(order->words, sizeof(order->words), "mha_decode_stream_mma tiles=%d waves=%d cluster=%d%s", p[P_TILES],
             p[P_WAVES], p[P_CLUSTER], segmented(prob, p) ? ", segments" : "");
    if (!p[P_CLUSTER])
        return rfg_refuse(why, "cluster=0: the steps of all sequences are shared out");
    return p[P_PARTS] == 1 || segmented(prob, p) ||
           rfg_refuse(why, "parts=%d: has a workspace for few sequences only", p[P_PARTS]);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct shape s = shape_of(dev, prob, p);
    if (segmented(prob, p))
        return p[P_PARTS] > 1 ? (size_t)(s.items * MHA_DECODE_SEGMENTS) * sizeof(float) *
                                    (size_t)MHA_DECODE_PARTIAL_FLOATS(s.rows, s.real_rows, padded_dv(dev, prob), 1)
                              : 0;
    size_t each = (size_t)MHA_DECODE_PARTIAL_FLOATS(s.rows, s.real_rows, padded_dv(dev, prob), p[P_CLUSTER]);
    return p[P_PARTS] > 1 || !p[P_CLUSTER] ? (size_t)s.groups * (p[P_CLUSTER] ? 1 : 2) * each * sizeof(float) : 0;
}

static void kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    const int64_t *v = prob->v;
    k->source = dev->platform == RFG_PLATFORM_NVIDIA ? "mha/decode/decode_nvidia.hip" : "mha/decode/decode_amd.hip";
    k->entry = "mha_decode";
    rfg_kernel_macro(k, "DTYPE", prob->dtype[0]);
    mha_kv_macros(prob, k);
    mha_sink_macro(prob, k);
    mha_head_macros(prob, k, padded_d(dev, prob), padded_dv(dev, prob));
    rfg_kernel_macro(k, "SQ", (int)v[MHA_SQ]);
    rfg_kernel_macro(k, "GROUP", (int)(v[MHA_HQ] / v[MHA_HKV]));
    rfg_kernel_macro(k, "TILES", p[P_TILES]);
    rfg_kernel_macro(k, "WAVES", p[P_WAVES]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "CLUSTER", p[P_CLUSTER]);
    rfg_kernel_macro(k, "GROUPS", p[P_GROUPS]);
    rfg_kernel_macro(k, "PAGED", v[MHA_PAGE] == 0 ? 0 : v[MHA_PAGE] % STEP ? 2 : 1);
    rfg_kernel_macro(k, "MASK", (v[MHA_CAUSAL] && v[MHA_SQ] > 1) || mha_left(prob) >= 0 || v[MHA_RIGHT] >= 0);
    rfg_kernel_macro(k, "CAP", v[MHA_CAP] != 0);
    rfg_kernel_macro(k, "ALIBI", v[MHA_ALIBI] != 0);
    page_macro(k, prob->v[MHA_PAGE]);
    if (segmented(prob, p))
        rfg_kernel_macro(k, "SEGMENTED", 1);
    if (split_of(dev, prob) > 1)
        rfg_kernel_macro(k, "D_SPLIT", split_of(dev, prob));
    if (is_narrow(prob))
        rfg_kernel_macro(k, "KV_ALIGN", 4);
    rfg_kernel_macro(k, "LDS_BYTES", shape_of(dev, prob, p).lds);
}

static void launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    struct shape s = shape_of(dev, prob, p);
    *l = (struct rfg_launch){ { (uint32_t)(s.groups / p[P_PARTS]), (uint32_t)p[P_PARTS], 1 },
                              { (uint32_t)s.threads, 1, 1 },
                              (uint32_t)s.lds };
}

const struct rfg_variant mha_decode_stream_mma = {
    .name = "mha_decode_stream_mma",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(params),
    .params = params,
    .supports = supports,
    .valid = valid,
    .worth = worth,
    .predict = predict,
    .workspace = workspace,
    .order = order_of,
    .kernel = kernel,
    .launch = launch,
};
