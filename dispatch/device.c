/* SPDX-License-Identifier: MIT
 *
 * Facts about devices that need no runtime: by arch (base/arch.h), and the cpu by cpuid. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "dispatch/hip/hip.h"
#include "base/util.h"

#define MIB (1024 * 1024)

/* LPDDR5X's fastest grade: 10.7 Gbit/s. The same chips with DDR5 say 2400 MHz and more. */
#define LPDDR5_MOST_KHZ 1400000

/* XCDs of a device that has `cus` of the product's CUs; 0: that is no partition of it. AMD's modes give every one of
 * the partitions as many. */
static int xcds_of(const struct rfg_product *p, int cus)
{
    int64_t part = (int64_t)cus * p->xcds;
    int n = (int)(part / p->cus);
    return part % p->cus || n < 1 || p->xcds % n ? 0 : n;
}

/* By its name and CUs, as more than one name may be in the runtime's ("RX 9070", "RX 9070 XT"); else by its name (cut
 * down, or a partition); by its CUs; as a partition by them. */
static const struct rfg_product *product_of(const char *arch, int cus, const char *name)
{
    const struct rfg_product *best = NULL;
    int most = 0;
    for (const struct rfg_product *p = rfg_products; p->arch; p++) {
        if (strcmp(p->arch, arch))
            continue;
        int fits = 4 * (strstr(name, p->name) != NULL) + 2 * (p->cus == cus) + (xcds_of(p, cus) > 0);
        if (fits > most) {
            most = fits;
            best = p;
        }
    }
    return best;
}

bool rfg_device_has_cus(const char *arch, int cus)
{
    bool known = false, has = false;
    for (const struct rfg_product *p = rfg_products; p->arch; p++) {
        bool any = !strcmp(arch, "gfx") && !strncmp(p->arch, "gfx", 3);
        if (!any && strcmp(p->arch, arch))
            continue;
        known = true;
        has |= p->cus == cus || (cus > 0 && xcds_of(p, cus) > 0);
    }
    return has || !known;
}

/* The bandwidth by clock and width; 0: unknown. */
static double clocked_gbps(const struct rfg_arch *a, const struct rfg_memory *m)
{
    int transfers = a->cus ? a->transfers : RFG_HBM2;
    if (transfers == RFG_LPDDR5 && m->clock_khz > LPDDR5_MOST_KHZ)
        transfers = RFG_DDR5;
    return 1e-6 * m->clock_khz * transfers * m->bus_bits / 8;
}

/* Bandwidth of the whole GPU, of which the device may be a partition. The clock also covers siblings that no table has,
 * and a laptop with half its memory. For a known product it is ignored if it is far off: amdkfd reports 100 MHz where
 * clocks aren't managed, and a virtual function may report nothing. */
static double whole_gbps(const struct rfg_device *dev, const struct rfg_product *p, const struct rfg_memory *m)
{
    double gbps = clocked_gbps(dev->hw, m);
    if (p)
        return gbps > p->gbps / 4 && gbps < p->gbps * 4 ? gbps : p->gbps;
    return gbps >= 1 ? gbps : dev->mem_gbps > 0 ? dev->mem_gbps : 8.0 * dev->cu_count;
}

void rfg_device_peaks(struct rfg_device *dev, const struct rfg_memory *memory)
{
    static const struct rfg_memory unsaid = { "", 0, 0, 0 };
    const struct rfg_memory *m = memory ? memory : &unsaid;
    const struct rfg_arch *a = dev->hw = rfg_arch_of(dev->arch);
    const struct rfg_product *p = product_of(dev->arch, dev->cu_count, m->product);
    if (!p && a->cus)
        p = rfg_product_usual(dev->arch, strlen(dev->arch));
    /* A partition reports the clock and width of the whole GPU, but shares them with the other partitions. */
    int xcds = !p ? 0 : m->xcds > 0 ? m->xcds : xcds_of(p, dev->cu_count), all = p ? p->xcds : 1;
    double share = xcds > 0 && xcds < all ? (double)xcds / all : 1;
    dev->xcds = xcds > 0 ? xcds : all;
    dev->mem_gbps = share * whole_gbps(dev, p, m);
    if (p && p->cache > dev->cache_bytes)
        dev->cache_bytes = p->cache;
    if (!dev->cache_bytes)
        dev->cache_bytes = 64 * MIB;
    dev->features |= a->features;
    if (a->cus) {
        dev->mma_tflops = a->mma_tflops * dev->cu_count / a->cus;
        dev->fma_tflops = a->fma_tflops * dev->cu_count / a->cus;
        dev->latency_us = a->latency_us;
        dev->sync_us = a->sync_us;
        dev->load_us = a->load_us;
        dev->cache_gbps = share * a->cache_gbps;
        return;
    }
    /* An arch without peaks in the table: middling numbers. */
    dev->mma_tflops = 1.0 * dev->cu_count;
    dev->fma_tflops = 0.25 * dev->cu_count;
    dev->latency_us = 2;
    dev->sync_us = 1.5;
    dev->load_us = 0.9;
    dev->cache_gbps = 2.5 * dev->mem_gbps;
}

bool rfg_device_imagine(struct rfg_device *dev, const char *arch)
{
    size_t len = strcspn(arch, ":");
    const struct rfg_product *p = rfg_product_usual(arch, len);
    long cus = p ? p->cus : 0;
    if (p && arch[len]) {
        char *end;
        cus = strtol(arch + len + 1, &end, 10);
        if (end == arch + len + 1 || *end || cus < 1 || cus > 65535)
            return false;
    }
    if (!p)
        return false;
    const struct rfg_arch *a = rfg_arch_of(p->arch);
    *dev = (struct rfg_device){ .platform = a->platform,
                                .cu_count = (int)cus,
                                .wave_size = a->wave_size,
                                .lds_bytes = a->lds_bytes,
                                .max_threads = 1024 };
    snprintf(dev->name, sizeof(dev->name), "%s:%ld", p->arch, cus);
    snprintf(dev->arch, sizeof(dev->arch), "%s", p->arch);
    /* wgmma, clusters and similar features exist only in the arch-specific targets. */
    snprintf(dev->target, sizeof(dev->target), "%s%s", p->arch, a->features & RFG_FEATURE_CLUSTER ? "a" : "");
    rfg_device_peaks(dev, NULL);
    return true;
}

/* ---- cpu --------------------------------------------------------------------------------------------------------- */

/* Each level includes those before it. */
static const struct level {
    const char *name, *arch;
    unsigned features;
    int lanes;
} levels[] = {
    { "portable", "cpu-base", 0, 4 },
    { "avx2", "cpu-avx2", RFG_FEATURE_AVX2, 8 },
    { "avx512", "cpu-avx512", RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512, 16 },
    { "avx512vnni", "cpu-avx512vnni", RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 | RFG_FEATURE_AVX512VNNI, 16 },
    { "avx512bf16", "cpu-avx512bf16",
      RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512 | RFG_FEATURE_AVX512VNNI | RFG_FEATURE_AVX512BF16, 16 },
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
    if (!__builtin_cpu_supports("avx512vnni"))
        return 2;
    return __builtin_cpu_supports("avx512bf16") ? 4 : 3;
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
    rfg_warn("RFG_CPU_ISA='%s': must be portable, avx2, avx512, avx512vnni or avx512bf16; using %s", env,
             levels[have].name);
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
                                .hw = rfg_arch_of(""),
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
