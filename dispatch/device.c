/* SPDX-License-Identifier: MIT
 *
 * What is known of devices without asking them: a table by arch, and the cpu by cpuid. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "dispatch/hip/hip.h"
#include "base/util.h"

#define MMA    RFG_FEATURE_MMA
#define ASYNC  RFG_FEATURE_ASYNC
#define HOPPER (MMA | ASYNC | RFG_FEATURE_CLUSTER | RFG_FEATURE_OVERLAP)
#define KIB    1024
#define MIB    (1024 * 1024)

/* Peaks from vendors' data sheets, except sm_90: an H200 as measured (docs/perf). Latencies of the AMD rows are guesses
 * that only rank. */
static const struct known {
    const char *arch, *target;
    enum rfg_platform platform;
    int cus, wave, lds;
    unsigned features;
    double gbps, mma_tflops, fma_tflops, latency_us, sync_us, load_us, cache_gbps;
    int64_t cache;
} table[] = {
    { "gfx908", "gfx908", RFG_PLATFORM_AMD, 120, 64, 64 * KIB, MMA, 1228, 92, 23, 2.5, 1.5, 1, 3000, 8 * MIB },
    { "gfx90a", "gfx90a", RFG_PLATFORM_AMD, 104, 64, 64 * KIB, MMA, 1638, 181, 23, 2.5, 1.5, 1, 3500, 8 * MIB },
    { "gfx942", "gfx942", RFG_PLATFORM_AMD, 304, 64, 64 * KIB, MMA, 5300, 1307, 163, 2.0, 0.9, 0.9, 10000, 256 * MIB },
    { "gfx950", "gfx950", RFG_PLATFORM_AMD, 256, 64, 160 * KIB, MMA, 8000, 2500, 157, 2.0, 0.9, 0.9, 12000, 256 * MIB },
    { "gfx1030", "gfx1030", RFG_PLATFORM_AMD, 80, 32, 64 * KIB, 0, 512, 0, 20, 2.5, 1.5, 0.7, 1800, 128 * MIB },
    { "gfx1100", "gfx1100", RFG_PLATFORM_AMD, 96, 32, 64 * KIB, MMA, 960, 122, 61, 2.0, 1.5, 0.7, 3000, 96 * MIB },
    { "gfx1201", "gfx1201", RFG_PLATFORM_AMD, 64, 32, 64 * KIB, MMA, 640, 195, 48, 2.0, 1.5, 0.7, 2500, 64 * MIB },
    { "sm_80", "sm_80", RFG_PLATFORM_NVIDIA, 108, 32, 163 * KIB, MMA | ASYNC, 2039, 312, 19, 1.5, 1.2, 0.7, 4500,
      40 * MIB },
    { "sm_90", "sm_90a", RFG_PLATFORM_NVIDIA, 132, 32, 227 * KIB, HOPPER, 4300, 790, 60, 1.25, 1.4, 0.6, 8400,
      60 * MIB },
    { "sm_100", "sm_100a", RFG_PLATFORM_NVIDIA, 148, 32, 227 * KIB, HOPPER, 8000, 2250, 75, 1.25, 1.0, 0.6, 9000,
      126 * MIB },
};

static const struct known *find(const char *arch, size_t len)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strlen(table[i].arch) == len && !strncmp(table[i].arch, arch, len))
            return &table[i];
    return NULL;
}

void rfg_device_peaks(struct rfg_device *dev)
{
    const struct known *k = find(dev->arch, strlen(dev->arch));
    if (k) {
        dev->features |= k->features;
        dev->mem_gbps = k->gbps;
        dev->mma_tflops = k->mma_tflops * dev->cu_count / k->cus;
        dev->fma_tflops = k->fma_tflops * dev->cu_count / k->cus;
        dev->latency_us = k->latency_us;
        dev->sync_us = k->sync_us;
        dev->load_us = k->load_us;
        dev->cache_gbps = k->cache_gbps;
        if (!dev->cache_bytes)
            dev->cache_bytes = k->cache;
        return;
    }
    /* An arch nobody has written down: middling numbers, and only what every GPU can do. */
    if (dev->platform == RFG_PLATFORM_NVIDIA && !strncmp(dev->arch, "sm_", 3) && atoi(dev->arch + 3) >= 80)
        dev->features |= MMA | ASYNC;
    if (dev->mem_gbps <= 0)
        dev->mem_gbps = 8.0 * dev->cu_count;
    dev->mma_tflops = 1.0 * dev->cu_count;
    dev->fma_tflops = 0.25 * dev->cu_count;
    dev->latency_us = 2;
    dev->sync_us = 1.5;
    dev->load_us = 0.9;
    dev->cache_gbps = 2.5 * dev->mem_gbps;
    if (!dev->cache_bytes)
        dev->cache_bytes = 64 * MIB;
}

bool rfg_device_imagine(struct rfg_device *dev, const char *arch)
{
    size_t len = strcspn(arch, ":");
    const struct known *k = find(arch, len);
    long cus = k ? k->cus : 0;
    if (k && arch[len]) {
        char *end;
        cus = strtol(arch + len + 1, &end, 10);
        if (end == arch + len + 1 || *end || cus < 1 || cus > 65535)
            return false;
    }
    if (!k)
        return false;
    *dev = (struct rfg_device){ .platform = k->platform,
                                .cu_count = (int)cus,
                                .wave_size = k->wave,
                                .lds_bytes = k->lds,
                                .max_threads = 1024,
                                .cache_bytes = k->cache };
    snprintf(dev->name, sizeof(dev->name), "%s:%ld", k->arch, cus);
    snprintf(dev->arch, sizeof(dev->arch), "%s", k->arch);
    snprintf(dev->target, sizeof(dev->target), "%s", k->target);
    rfg_device_peaks(dev);
    return true;
}

/* ---- cpu ----------------------------------------------------------------------------------------------------------
 */

/* Each level includes those before it. */
static const struct level {
    const char *name, *arch;
    unsigned features;
    int lanes;
} levels[] = {
    { "portable", "cpu-base", 0, 4 },
    { "avx2", "cpu-avx2", RFG_FEATURE_AVX2, 8 },
    { "avx512", "cpu-avx512", RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512, 16 },
    { "avx512bf16", "cpu-avx512bf16", RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 | RFG_FEATURE_AVX512BF16, 16 },
};
#define N_LEVELS (sizeof(levels) / sizeof(levels[0]))

static size_t cpu_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
        return 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return 1;
    return __builtin_cpu_supports("avx512bf16") ? 3 : 2;
#else
    return 0;
#endif
}

static size_t wanted_level(size_t have)
{
    const char *env = rfg_env("RFG_CPU_ISA");
    if (!env)
        return have;
    for (size_t i = 0; i < N_LEVELS; i++)
        if (!strcmp(env, levels[i].name)) {
            if (i > have)
                rfg_warn("RFG_CPU_ISA=%s: this cpu has %s", env, levels[have].name);
            return i < have ? i : have;
        }
    rfg_warn("RFG_CPU_ISA='%s': must be portable, avx2, avx512 or avx512bf16; using %s", env, levels[have].name);
    return have;
}

void rfg_device_cpu(struct rfg_device *dev, int threads)
{
    const struct level *l = &levels[wanted_level(cpu_level())];
    cpu_set_t set;
    long l3 = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
    l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (threads <= 0)
        threads = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (threads <= 0)
        threads = 1;
    double fma = 1.0 * threads * l->lanes * 2 * 2 * 3.0e9 * 1e-12; /* two pipes, at 3 GHz */
    *dev = (struct rfg_device){ .name = "cpu",
                                .platform = RFG_PLATFORM_CPU,
                                .cu_count = threads,
                                .wave_size = 1,
                                .max_threads = 1,
                                .features = l->features,
                                .mem_gbps = 22.0 * (threads < 16 ? threads : 16),
                                .mma_tflops = l->features & RFG_FEATURE_AVX512BF16 ? 2 * fma : fma,
                                .fma_tflops = fma,
                                .latency_us = 2,
                                .sync_us = 2,
                                .load_us = 0.1,
                                .cache_gbps = 100.0 * threads,
                                .cache_bytes = l3 > 0 ? l3 : 32 * MIB };
    snprintf(dev->arch, sizeof(dev->arch), "%s", l->arch);
}
