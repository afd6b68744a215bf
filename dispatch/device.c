/* SPDX-License-Identifier: MIT
 *
 * What is known of devices without asking one: the table of GPU architectures, and the cpu. The figures are what
 * kernels reach rather than what data sheets say; they rank variants and are never shown as measurements. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "context.h"
#include "hip.h"
#include "util.h"

/* ---- GPUs --------------------------------------------------------------------------------------------------- */

#define MIB   (1 << 20)
#define MMA   RFG_FEATURE_MMA
#define ASYNC RFG_FEATURE_ASYNC

static const struct arch {
    const char *arch, *target;
    enum rfg_platform platform;
    int cu_count, wave_size, lds_bytes;
    unsigned features;
    double mem_gbps, mma_tflops, fma_tflops, latency_us, sync_us;
    int64_t cache_bytes;
} archs[] = {
    { "gfx908", "gfx908", RFG_PLATFORM_AMD, 120, 64, 65536, MMA, 1000, 80, 20, 3, 2.5, 8 * MIB },
    { "gfx90a", "gfx90a", RFG_PLATFORM_AMD, 104, 64, 65536, MMA, 1350, 150, 22, 3, 2.5, 8 * MIB },
    { "gfx942", "gfx942", RFG_PLATFORM_AMD, 304, 64, 65536, MMA, 4300, 700, 100, 2.5, 2.5, 256 * MIB },
    { "gfx950", "gfx950", RFG_PLATFORM_AMD, 256, 64, 163840, MMA, 6500, 1500, 110, 2.5, 2.5, 256 * MIB },
    { "gfx1030", "gfx1030", RFG_PLATFORM_AMD, 80, 32, 65536, 0, 430, 18, 18, 3, 2, 128 * MIB },
    { "gfx1100", "gfx1100", RFG_PLATFORM_AMD, 96, 32, 65536, MMA, 800, 90, 35, 2.5, 2, 96 * MIB },
    { "gfx1201", "gfx1201", RFG_PLATFORM_AMD, 64, 32, 65536, MMA, 540, 140, 30, 2.5, 2, 64 * MIB },
    { "sm_80", "sm_80", RFG_PLATFORM_NVIDIA, 108, 32, 166912, MMA | ASYNC, 1600, 260, 18, 1.5, 1.2, 40 * MIB },
    { "sm_90", "sm_90a", RFG_PLATFORM_NVIDIA, 132, 32, 232448, MMA | ASYNC, 4300, 790, 60, 1.25, 1.0, 60 * MIB },
    { "sm_100", "sm_100a", RFG_PLATFORM_NVIDIA, 148, 32, 232448, MMA | ASYNC, 6900, 1600, 70, 1.25, 1.0, 126 * MIB },
};

static const struct arch *arch_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        if (strlen(archs[i].arch) == len && memcmp(archs[i].arch, name, len) == 0)
            return &archs[i];
    }
    return NULL;
}

void rfg_device_peaks(struct rfg_device *dev)
{
    const struct arch *a = arch_find(dev->arch, strlen(dev->arch));
    if (!a) { /* a modest GPU, where the platform didn't say better */
        if (dev->mem_gbps <= 0)
            dev->mem_gbps = 500;
        if (dev->fma_tflops <= 0)
            dev->fma_tflops = 0.2 * (dev->cu_count > 0 ? dev->cu_count : 64);
        if (dev->mma_tflops <= 0)
            dev->mma_tflops = dev->fma_tflops * (dev->features & MMA ? 4 : 1);
        if (dev->latency_us <= 0)
            dev->latency_us = 3;
        if (dev->sync_us <= 0)
            dev->sync_us = 2;
        if (dev->cache_bytes <= 0)
            dev->cache_bytes = 4 * MIB;
        return;
    }
    /* Cut-down parts of an arch lose compute units, and rarely memory. */
    double share = dev->cu_count > 0 ? (double)dev->cu_count / a->cu_count : 1;
    dev->features = a->features;
    dev->mem_gbps = a->mem_gbps;
    dev->mma_tflops = a->mma_tflops * share;
    dev->fma_tflops = a->fma_tflops * share;
    dev->latency_us = a->latency_us;
    dev->sync_us = a->sync_us;
    dev->cache_bytes = a->cache_bytes;
}

bool rfg_device_imagine(struct rfg_device *dev, const char *text)
{
    size_t len = strcspn(text, ":");
    const struct arch *a = arch_find(text, len);
    if (!a || strlen(text) >= sizeof(dev->name))
        return false;
    int cus = a->cu_count;
    if (text[len] == ':') {
        const char *digits = text + len + 1;
        size_t n = strspn(digits, "0123456789");
        if (n < 1 || n > 4 || digits[n])
            return false;
        cus = atoi(digits);
        if (cus < 1)
            return false;
    }
    *dev = (struct rfg_device){
        .platform = a->platform,
        .cu_count = cus,
        .wave_size = a->wave_size,
        .lds_bytes = a->lds_bytes,
        .max_threads = 1024,
    };
    snprintf(dev->name, sizeof(dev->name), "%s", text);
    snprintf(dev->arch, sizeof(dev->arch), "%s", a->arch);
    snprintf(dev->target, sizeof(dev->target), "%s", a->target);
    rfg_device_peaks(dev);
    return true;
}

/* ---- the cpu ------------------------------------------------------------------------------------------------ */

static unsigned cpu_features(void)
{
    unsigned have = 0;
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c = 0, d;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 29);
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c)
        have |= RFG_FEATURE_AVX2;
    if (have && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        have |= RFG_FEATURE_AVX512;
    if ((have & RFG_FEATURE_AVX512) && __builtin_cpu_supports("avx512bf16"))
        have |= RFG_FEATURE_AVX512BF16;
#endif
    return have;
}

/* $RFG_CPU_ISA can only take features away. */
static unsigned cpu_allowed(void)
{
    static const struct {
        const char *name;
        unsigned features;
    } levels[] = {
        { "portable", 0 },
        { "avx2", RFG_FEATURE_AVX2 },
        { "avx512", RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 },
        { "avx512bf16", RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 | RFG_FEATURE_AVX512BF16 },
    };
    const char *isa = rfg_env("RFG_CPU_ISA");
    if (!isa)
        return ~0u;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(isa, levels[i].name) == 0)
            return levels[i].features;
    }
    rfg_warn("RFG_CPU_ISA=%s: must be portable, avx2, avx512 or avx512bf16; ignored", isa);
    return ~0u;
}

static int cpu_count(void)
{
    /* A machine with more CPUs than cpu_set_t holds needs a larger set. */
    for (int n = CPU_SETSIZE; n <= 1 << 16; n *= 4) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set)
            break;
        size_t size = CPU_ALLOC_SIZE(n);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

void rfg_device_cpu(struct rfg_device *dev, int threads)
{
    *dev = (struct rfg_device){
        .name = "cpu",
        .platform = RFG_PLATFORM_CPU,
        .cu_count = threads > 0 ? threads : cpu_count(),
        .wave_size = 1,
        .max_threads = 1,
        .features = cpu_features() & cpu_allowed(),
        .latency_us = 2,
        .sync_us = 2,
    };
    const char *isa = "base";
    int lanes = 4;
    if (dev->features & RFG_FEATURE_AVX512) {
        isa = dev->features & RFG_FEATURE_AVX512BF16 ? "avx512bf16" : "avx512";
        lanes = 16;
    } else if (dev->features & RFG_FEATURE_AVX2) {
        isa = "avx2";
        lanes = 8;
    }
    snprintf(dev->arch, sizeof(dev->arch), "cpu-%s", isa);
    dev->mem_gbps = 10.0 * dev->cu_count;                         /* 20 GB/s a core of two threads */
    dev->fma_tflops = dev->cu_count * lanes * 2 * 2 * 3e9 / 1e12; /* two FMA pipes at 3 GHz */
    dev->mma_tflops = dev->fma_tflops * (dev->features & RFG_FEATURE_AVX512BF16 ? 2 : 1);
    long l3 = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
    l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    dev->cache_bytes = l3 > 0 ? l3 : 32 * MIB;
}

/* ---- tests' function tables --------------------------------------------------------------------------------- */

static _Atomic(const struct rfg_hip *) overrides[RFG_PLATFORM_EMU + 1];

void rfg_hip_override(enum rfg_platform p, const struct rfg_hip *hip)
{
    atomic_store(&overrides[p], hip);
}

const struct rfg_hip *rfg_hip_overridden(enum rfg_platform p, struct rfg_platform_report *report)
{
    const struct rfg_hip *hip = atomic_load(&overrides[p]);
    if (hip && report) {
        *report = (struct rfg_platform_report){
            .platform = p == RFG_PLATFORM_AMD ? "AMD" : "NVIDIA",
            .found = true,
            .library = "rfg_hip_override()",
        };
        hipError_t e = hip->hipGetDeviceCount(&report->devices);
        if (e != hipSuccess) {
            report->devices = 0;
            snprintf(report->problem, sizeof(report->problem), "hipGetDeviceCount: %s", hip->error_name(e));
        }
    }
    return hip;
}
