/* SPDX-License-Identifier: MIT
 *
 * The analytical model's constants, and how long a grid of workgroups takes. */
#include "model.h"

#include "ops/gpu.h"

/* Fitted to what rfg-tune measured on an H100, nearly all candidates, and on an H200, winners and libraries
 * (bench/gemm_model.c --fit; last_kb is older: nothing of these splits through memory). */
static const struct gemm_model hopper = { .burst = 1.37,
                                          .twice = 0.381,
                                          .queue = 1.65,
                                          .blend = 4.8,
                                          .hidden = 1.5,
                                          .waves_full = 4.15,
                                          .last_kb = 0.0152,
                                          .skinny_x = 29.1,
                                          .skinny_batch = 0.885,
                                          .skinny_wave = 0.0483,
                                          .skinny_tail = 0.441,
                                          .thin_load = 0.00262,
                                          .thin_mma = 0.00427,
                                          .thin_decode = 0.0485,
                                          .thin_step = 0.0364,
                                          .thin_uneven = 0.0982,
                                          .thin_sum = 0.0288,
                                          .wgmma_fill = 1.18,
                                          .wgmma_held = 1.37,
                                          .wgmma_lds = 0.00586,
                                          .wgmma_step = 0.119,
                                          .wgmma_add = 0.00297,
                                          .wgmma_again = 0.282,
                                          .narrow = 0.154,
                                          .wgmma_sent = 0.0533,
                                          .wgmma_store = 0.0716,
                                          .wgmma_scale = 0.0964,
                                          .tile_mma = 1.25,
                                          .tile_store = 0.006,
                                          .splitk_step = 0,
                                          .splitk_mma = 0.0294,
                                          .splitk_tail = 2.23,
                                          .vendor_tail = 1.37,
                                          .vendor_split = 2.88,
                                          .vendor_rate = 0.903,
                                          .vendor_burst = 2.11,
                                          .vendor_mma = 0.968 };

/* AMD's: nothing of ours was timed there. burst is fitted to the clock of emu/time, of 488 problems on gfx942 and gfx950
 * (docs/perf/amd_time.md); the rest is guessed. What overlaps is hidden altogether, as a larger exponent has it; else it
 * is as on the H200 at one time. */
static const struct gemm_model amd = { .burst = 1.13,
                                       .queue = 1.54,
                                       .blend = 24,
                                       .hidden = 0.2,
                                       .waves_full = 11,
                                       .last_kb = 0.0162,
                                       .skinny_x = 66.4,
                                       .skinny_batch = 0.534,
                                       .skinny_tail = 0.101,
                                       .splitk_step = 0.0685,
                                       .splitk_mma = 0.0299,
                                       .splitk_tail = 0.84,
                                       .vendor_tail = 4.8,
                                       .vendor_split = 0,
                                       .vendor_rate = 1,
                                       .vendor_burst = 2,
                                       .vendor_mma = 0.8 };

const struct gemm_model *gemm_model_trial;

const struct gemm_model *gemm_model(const struct rfg_device *dev)
{
    if (gemm_model_trial)
        return gemm_model_trial;
    /* Of other NVIDIA's a guess, too: the devices' own numbers make the difference. */
    return dev->hw->platform == RFG_PLATFORM_AMD ? &amd : &hopper;
}

/* Of NVIDIA's the table has what a copy moves; H100 and H200 read faster, as a calibration measures it. */
#define READ 1.06

double gemm_memory(const struct rfg_device *dev)
{
    return 1e3 * dev->mem_gbps * (dev->calibrated || dev->platform != RFG_PLATFORM_NVIDIA ? 1 : READ);
}

double gemm_resident(const struct rfg_device *dev, int threads, int registers, int lds)
{
    /* 128Ki registers a CU on AMD, for waves of 64 (of 32: as many a lane); 64Ki on NVIDIA, a quarter of them for each
     * quarter of its waves. Given out by eights. */
    int each = (registers + 7) / 8 * 8;
    double fits =
        dev->platform == RFG_PLATFORM_NVIDIA ? 4 * (512 / each) * 32.0 / threads : 131072.0 / (each * threads);
    fits = MIN(fits, 2048 / threads);
    if (lds > 0)
        fits = MIN(fits, dev->lds_bytes / (lds + 1024));
    return MAX(floor(fits), 1);
}

double gemm_at_once(const struct rfg_device *dev, int cluster, double per_cu)
{
    /* An H200's 132 SMs in GPCs, as it explains what was measured with one workgroup an SM (another H200 took more):
     * clusters of 10 to 16 take one round up to 7, of 7 or 8 up to 14 (16 take two), of 6 up to 17 (18), of 5 up to 21
     * (24), of 4 up to 28 (32), of 3 up to 38 (40). Two to an SM: 32 of 7, not 64 of
     * 4. The other 10 SMs are in places that differ; only pairs find them. */
    static const double gpc[] = { 18, 18, 18, 16, 16, 16, 16, 4 };
    double n = 0;
    if (cluster <= 2)
        return dev->cu_count * per_cu;
    per_cu = MIN(per_cu, 2); /* 23 of 12 took two rounds, though LDS had room for more */
    for (int i = 0; i < COUNT(gpc); i++)
        n += floor(floor(gpc[i] * dev->cu_count / 132) * per_cu / cluster) * cluster;
    return MAX(n, cluster);
}

double gemm_flow_us(const struct rfg_device *dev, const struct gemm_flow *f)
{
    const struct gemm_model *c = gemm_model(dev);
    double slots = gemm_at_once(dev, f->cluster, f->per_cu), rounds = 1, shared = 1; /* workgroups on the busiest CU */
    while (shared < f->per_cu && gemm_at_once(dev, f->cluster, shared) < f->groups)
        shared++;
    if (f->groups > slots) {
        /* With few rounds the last, partly filled one counts in full; with many, workgroups drift apart. */
        shared = f->per_cu;
        rounds = f->groups / slots;
        rounds = rounds < 8 ? ceil(rounds) : rounds;
    }
    double cache = 1e3 * dev->cache_gbps, memory = gemm_memory(dev); /* bytes per us */
    double wait = rounds * dev->load_us * c->queue *
                  (f->bytes / f->in_flight - 1); /* for bytes that could not be asked for at once */
    double cu = MAX(f->bytes / (c->burst * cache / dev->cu_count), f->issue);
    double limits[] = { f->memory / memory, MAX(f->groups * f->bytes / cache, rounds * shared * cu), wait,
                        rounds * f->chain };
    double sum = 0;
    for (int i = 0; i < COUNT(limits); i++)
        sum += pow(limits[i], c->blend);
    double more = (rounds - 1) * pow(shared, -c->hidden);
    double start = dev->latency_us * (1 - c->twice);
    if (f->overlaps) { /* Large clusters only find a place when both launches fit. */
        double room = MIN(MAX(slots / f->groups - 1, 0), 1);
        start -= (f->cluster <= 4 ? 1 : room) * start + room * f->early;
    }
    return start + pow(sum, 1 / c->blend) + (1 + more) * (dev->load_us + f->latency);
}

double gemm_reduce_us(const struct rfg_device *dev, int split, double partial_bytes)
{
    return split > 1 ? dev->sync_us + (split + 1) * partial_bytes / 1024 * gemm_model(dev)->last_kb : 0;
}
