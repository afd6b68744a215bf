/* SPDX-License-Identifier: MIT
 *
 * The analytical model's constants, and how long a grid of workgroups takes. */
#include "model.h"

#include <string.h>

#include "gpu.h"

/* Fitted to what rfg-tune measured on an H200 (bench/gemm_model.c --fit). */
static const struct gemm_model h200 = { .burst = 1.77,
                                        .queue = 1.54,
                                        .blend = 4.41,
                                        .hidden = 0.233,
                                        .waves_full = 11,
                                        .cluster = 0.594,
                                        .last_kb = 0.0162,
                                        .skinny_x = 66.4,
                                        .skinny_batch = 0.534,
                                        .skinny_tail = 0.101,
                                        .thin_load = 0.004,
                                        .thin_step = 0.01,
                                        .thin_tail = 0.15,
                                        .thin_sent = 0.002,
                                        .thin_cluster = 0.25,
                                        .wgmma_fill = 0.0769,
                                        .wgmma_held = 1.38,
                                        .wgmma_copy = 0.00276,
                                        .wgmma_step = 0.238,
                                        .wgmma_mma = 0.00185,
                                        .wgmma_quad = 0.00395,
                                        .splitk_step = 0.0685,
                                        .splitk_mma = 0.0299,
                                        .splitk_tail = 0.84,
                                        .vendor_tail = 4.8,
                                        .vendor_hide = 12.6,
                                        .vendor_rate = 0.988 };

/* AMD's, all guesses: nothing of ours was timed there. A CU takes half of its 64 bytes a cycle; what overlaps is hidden
 * altogether, as a larger exponent has it; the rest is as on the H200 at one time. */
static const struct gemm_model amd = { .burst = 2,
                                       .queue = 1.54,
                                       .blend = 12,
                                       .hidden = 0.233,
                                       .waves_full = 11,
                                       .last_kb = 0.0162,
                                       .skinny_x = 66.4,
                                       .skinny_batch = 0.534,
                                       .skinny_tail = 0.101,
                                       .splitk_step = 0.0685,
                                       .splitk_mma = 0.0299,
                                       .splitk_tail = 0.84,
                                       .vendor_tail = 4.8,
                                       .vendor_hide = 12.6,
                                       .vendor_rate = 0.988 };

static const struct {
    const char *target; /* begins with this; "": all others */
    const struct gemm_model *m;
} models[] = {
    { "sm_90", &h200 }, { "gfx90a", &amd }, { "gfx942", &amd },
    { "gfx950", &amd }, { "", &h200 }, /* a guess: nothing of ours was measured elsewhere; the devices' own numbers make
                                          the difference */
};

const struct gemm_model *gemm_model_trial;

const struct gemm_model *gemm_model(const struct rfg_device *dev)
{
    if (gemm_model_trial)
        return gemm_model_trial;
    size_t i = 0;
    while (strncmp(models[i].target, dev->target, strlen(models[i].target))) /* arch says whether it is emulated, too */
        i++;
    return models[i].m;
}

double gemm_resident(const struct rfg_device *dev, int threads, int registers, int lds)
{
    /* 64Ki registers a CU on NVIDIA, given out by eights; 128Ki on AMD, for waves of 64 (of 32: as many a lane). */
    double all = dev->platform == RFG_PLATFORM_NVIDIA ? 65536 : 131072;
    double fits = MIN(all / ((registers + 7) / 8 * 8 * threads), 2048 / threads);
    if (lds > 0)
        fits = MIN(fits, dev->lds_bytes / (lds + 1024));
    return MAX(floor(fits), 1);
}

/* Workgroups in clusters of `cluster` that run at once, `per_cu` on a CU. A cluster lies within a GPC. */
static double at_once(const struct rfg_device *dev, int cluster, double per_cu)
{
    /* An H200's 132 SMs in GPCs, as it would explain what was measured with one workgroup an SM: clusters of 10, 12 or
     * 14 take one round up to 7, of 7 or 8 up to 14, of 5 or 6 up to 22; 29 of 4 and 44 of 3. */
    static const double gpc[] = { 18, 18, 18, 18, 18, 18, 18, 6 };
    double n = 0;
    if (cluster <= 1)
        return dev->cu_count * per_cu;
    for (int i = 0; i < COUNT(gpc); i++)
        n += floor(floor(gpc[i] * dev->cu_count / 132) * per_cu / cluster) * cluster;
    return MAX(n, cluster);
}

double gemm_flow_us(const struct rfg_device *dev, const struct gemm_flow *f)
{
    const struct gemm_model *c = gemm_model(dev);
    double slots = at_once(dev, f->cluster, f->per_cu), rounds = 1;
    double shared = ceil(f->groups / at_once(dev, f->cluster, 1)); /* workgroups on the busiest CU */
    shared = MIN(shared, f->per_cu);
    if (f->groups > slots) {
        /* With few rounds the last, partly filled one counts in full; with many, workgroups drift apart. */
        shared = f->per_cu;
        rounds = f->groups / slots;
        rounds = rounds < 8 ? ceil(rounds) : rounds;
    }
    double cache = 1e3 * dev->cache_gbps, memory = 1e3 * dev->mem_gbps; /* bytes per us */
    double move = MAX(MAX(f->memory / memory, f->groups * f->bytes / cache),
                      rounds * shared * f->bytes / (c->burst * cache / dev->cu_count));
    double wait = rounds * dev->load_us * c->queue *
                  (f->bytes / f->in_flight - 1); /* for bytes that could not be asked for at once */
    double limits[] = { move, wait, rounds * shared * f->issue, rounds * f->chain };
    double sum = 0;
    for (int i = 0; i < COUNT(limits); i++)
        sum += pow(limits[i], c->blend);
    double more = (rounds - 1) * (shared > 1 ? 1 - c->hidden : 1);
    return dev->latency_us + pow(sum, 1 / c->blend) + (1 + more) * (dev->load_us + f->latency);
}

double gemm_reduce_us(const struct rfg_device *dev, int split, double partial_bytes)
{
    return split > 1 ? dev->sync_us + (split + 1) * partial_bytes / 1024 * gemm_model(dev)->last_kb : 0;
}
