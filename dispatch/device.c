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

#define AMD    RFG_PLATFORM_AMD
#define NVIDIA RFG_PLATFORM_NVIDIA
#define MMA    RFG_FEATURE_MMA
#define ASYNC  RFG_FEATURE_ASYNC
#define HOPPER (MMA | ASYNC | RFG_FEATURE_CLUSTER | RFG_FEATURE_OVERLAP | RFG_FEATURE_TMA)
#define KIB    1024
#define MIB    (1024 * 1024)

/* Transfers of a pin in one clock of the memory, as amdgpu counts clocks: HIP's memoryClockRate is the highest state of
 * pp_dpm_mclk in kHz (clr 6.2, rocdevice.cpp: HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY; Linux 6.8, amdgpu_amdkfd:
 * mem_clk_max). MI210 says 1600 MHz for 3.2 Gbit/s, MI300X 1300 for 5.2, RX 7900 XTX 1249 for 20, Strix Halo 1000
 * for 8. */
#define HBM2   2
#define HBM3   4
#define GDDR6  16
#define LPDDR5 8
#define DDR5   2
/* LPDDR5X's fastest grade: 10.7 Gbit/s. The same chips with DDR5 say 2400 MHz and more. */
#define LPDDR5_MOST_KHZ 1400000

/* An architecture, or several of one kind: what its CUs can do. Peaks from vendors' data sheets, except sm_90: an H200
 * as measured (docs/perf). Latencies of AMD's are guesses that only rank; gfx1100's launch was measured by others
 * (ROCm/rocm-systems, issue 10834: 941 nodes of a graph on a W7900). */
static const struct family {
    const char *name; /* what the names of its archs begin with; the first that fits counts */
    enum rfg_platform platform;
    int cus; /* that have these peaks; others have their share */
    int wave, lds;
    unsigned features;
    int transfers; /* of each pin of the memory in a clock as HIP counts them; 0: the platform knows */
    double mma_tflops, fma_tflops, latency_us, sync_us, load_us, cache_gbps;
} families[] = {
    { "gfx908", AMD, 120, 64, 64 * KIB, MMA, HBM2, 92, 23, 2.5, 1.5, 1, 3000 },
    { "gfx90a", AMD, 104, 64, 64 * KIB, MMA, HBM2, 181, 23, 2.5, 1.5, 1, 3500 },
    { "gfx94", AMD, 304, 64, 64 * KIB, MMA, HBM3, 1307, 163, 2.0, 0.9, 0.9, 10000 },
    { "gfx950", AMD, 256, 64, 160 * KIB, MMA, HBM3, 2500, 157, 2.0, 0.9, 0.9, 12000 },
    { "gfx103", AMD, 80, 32, 64 * KIB, 0, GDDR6, 0, 20, 2.5, 1.5, 0.7, 1800 },
    { "gfx1101", AMD, 60, 32, 64 * KIB, MMA, GDDR6, 75, 37, 2.0, 1.5, 0.7, 2000 },
    { "gfx1102", AMD, 32, 32, 64 * KIB, MMA, GDDR6, 43, 21, 2.0, 1.5, 0.7, 1000 },
    { "gfx1103", AMD, 12, 32, 64 * KIB, MMA, LPDDR5, 17, 8, 2.0, 1.5, 0.9, 400 },
    { "gfx110", AMD, 96, 32, 64 * KIB, MMA, GDDR6, 122, 61, 3.85, 1.5, 0.7, 3000 },
    { "gfx115", AMD, 40, 32, 64 * KIB, MMA, LPDDR5, 59, 30, 2.0, 1.5, 0.9, 1000 },
    { "gfx1200", AMD, 32, 32, 64 * KIB, MMA, GDDR6, 103, 26, 2.0, 1.5, 0.7, 1250 },
    { "gfx120", AMD, 64, 32, 64 * KIB, MMA, GDDR6, 195, 48, 2.0, 1.5, 0.7, 2500 },
    { "sm_80", NVIDIA, 108, 32, 163 * KIB, MMA | ASYNC, 0, 312, 19, 1.5, 1.2, 0.7, 4500 },
    { "sm_90", NVIDIA, 132, 32, 227 * KIB, HOPPER, 0, 790, 60, 1.25, 1.4, 0.6, 8400 },
    { "sm_100", NVIDIA, 148, 32, 227 * KIB, HOPPER, 0, 2250, 75, 1.25, 1.0, 0.6, 9000 },
};

/* What is sold with an arch: its memory, and the last cache before it. The first of an arch is what its name alone
 * stands for. */
static const struct product {
    const char *arch;
    const char *name; /* part of the one that the runtime tells */
    int cus, xcds;    /* as one device; a partition has some of the XCDs */
    double gbps;
    int64_t cache;
} products[] = {
    { "gfx908", "MI100", 120, 1, 1228, 8 * MIB },       { "gfx90a", "MI210", 104, 1, 1638, 8 * MIB },
    { "gfx90a", "MI250", 104, 1, 1638, 8 * MIB }, /* each of its two dies is a device */
    { "gfx90a", "MI250X", 110, 1, 1638, 8 * MIB },      { "gfx942", "MI300X", 304, 8, 5300, 256 * MIB },
    { "gfx942", "MI325X", 304, 8, 6000, 256 * MIB },    { "gfx942", "MI300A", 228, 6, 5300, 256 * MIB },
    { "gfx942", "MI308X", 80, 4, 5300, 256 * MIB },     { "gfx950", "MI355X", 256, 8, 8000, 256 * MIB },
    { "gfx950", "MI350X", 256, 8, 8000, 256 * MIB },    { "gfx1030", "RX 6900 XT", 80, 1, 512, 128 * MIB },
    { "gfx1030", "RX 6950 XT", 80, 1, 576, 128 * MIB }, { "gfx1030", "RX 6800 XT", 72, 1, 512, 128 * MIB },
    { "gfx1030", "RX 6800", 60, 1, 512, 128 * MIB },    { "gfx1100", "RX 7900 XTX", 96, 1, 960, 96 * MIB },
    { "gfx1100", "W7900", 96, 1, 864, 96 * MIB },       { "gfx1100", "RX 7900 XT", 84, 1, 800, 80 * MIB },
    { "gfx1100", "RX 7900 GRE", 80, 1, 576, 64 * MIB }, { "gfx1100", "W7800", 70, 1, 576, 64 * MIB },
    { "gfx1101", "RX 7800 XT", 60, 1, 624, 64 * MIB },  { "gfx1101", "RX 7700 XT", 54, 1, 432, 48 * MIB },
    { "gfx1101", "W7700", 48, 1, 576, 64 * MIB },       { "gfx1102", "RX 7600", 32, 1, 288, 32 * MIB },
    { "gfx1103", "780M", 12, 1, 120, 2 * MIB },         { "gfx1150", "890M", 16, 1, 120, 2 * MIB },
    { "gfx1151", "8060S", 40, 1, 256, 32 * MIB },       { "gfx1152", "860M", 8, 1, 120, 2 * MIB },
    { "gfx1153", "840M", 4, 1, 120, 2 * MIB },          { "gfx1200", "RX 9060 XT", 32, 1, 320, 32 * MIB },
    { "gfx1201", "RX 9070 XT", 64, 1, 640, 64 * MIB },  { "gfx1201", "RX 9070", 56, 1, 640, 64 * MIB },
    { "gfx1201", "RX 9070 GRE", 48, 1, 432, 48 * MIB }, { "sm_80", "A100", 108, 1, 2039, 40 * MIB },
    { "sm_90", "H200", 132, 1, 4300, 60 * MIB },        { "sm_90", "H100", 132, 1, 2950, 50 * MIB },
    { "sm_100", "B200", 148, 1, 8000, 126 * MIB },
};

static const struct family *family_of(const char *arch)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (!strncmp(families[i].name, arch, strlen(families[i].name)))
            return &families[i];
    return NULL;
}

/* XCDs of a device that has `cus` of the product's CUs; 0: that is no partition of it. AMD's modes give every one of
 * the partitions as many. */
static int xcds_of(const struct product *p, int cus)
{
    int64_t part = (int64_t)cus * p->xcds;
    int n = (int)(part / p->cus);
    return part % p->cus || n < 1 || p->xcds % n ? 0 : n;
}

/* By its name and CUs, as more than one name may be in the runtime's ("RX 9070", "RX 9070 XT"); else by its name (cut
 * down, or a partition); by its CUs; as a partition by them. */
static const struct product *product_of(const char *arch, int cus, const char *name)
{
    const struct product *best = NULL;
    int most = 0;
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        const struct product *p = &products[i];
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
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        const struct product *p = &products[i];
        bool any = !strcmp(arch, "gfx") && !strncmp(p->arch, "gfx", 3);
        if (!any && strcmp(p->arch, arch))
            continue;
        known = true;
        has |= p->cus == cus || (cus > 0 && xcds_of(p, cus) > 0);
    }
    return has || !known;
}

static const struct product *usual_product(const char *arch, size_t len)
{
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
        if (strlen(products[i].arch) == len && !strncmp(products[i].arch, arch, len))
            return &products[i];
    return NULL;
}

/* What the clock and the width say; 0: nothing. */
static double clocked_gbps(const struct family *f, const struct rfg_memory *m)
{
    int transfers = f ? f->transfers : HBM2;
    if (transfers == LPDDR5 && m->clock_khz > LPDDR5_MOST_KHZ)
        transfers = DDR5;
    return 1e-6 * m->clock_khz * transfers * m->bus_bits / 8;
}

/* Bandwidth of the whole of which the device may be a partition. The clock knows about siblings that no table has, and
 * about half a laptop's memory; of a known product it isn't believed if it is far off: amdkfd says 100 MHz where clocks
 * aren't managed, a virtual function may say nothing. */
static double whole_gbps(const struct rfg_device *dev, const struct family *f, const struct product *p,
                         const struct rfg_memory *m)
{
    double gbps = clocked_gbps(f, m);
    if (p)
        return gbps > p->gbps / 4 && gbps < p->gbps * 4 ? gbps : p->gbps;
    return gbps >= 1 ? gbps : dev->mem_gbps > 0 ? dev->mem_gbps : 8.0 * dev->cu_count;
}

void rfg_device_peaks(struct rfg_device *dev, const struct rfg_memory *memory)
{
    static const struct rfg_memory unsaid = { "", 0, 0, 0 };
    const struct rfg_memory *m = memory ? memory : &unsaid;
    const struct family *f = family_of(dev->arch);
    const struct product *p = product_of(dev->arch, dev->cu_count, m->product);
    if (!p && f)
        p = usual_product(dev->arch, strlen(dev->arch));
    /* A partition is told the clock and width of the whole, and has it to itself only while the others rest. */
    int xcds = !p ? 0 : m->xcds > 0 ? m->xcds : xcds_of(p, dev->cu_count), all = p ? p->xcds : 1;
    double share = xcds > 0 && xcds < all ? (double)xcds / all : 1;
    dev->xcds = xcds > 0 ? xcds : all;
    dev->mem_gbps = share * whole_gbps(dev, f, p, m);
    if (p && p->cache > dev->cache_bytes)
        dev->cache_bytes = p->cache;
    if (!dev->cache_bytes)
        dev->cache_bytes = 64 * MIB;
    if (f) {
        dev->features |= f->features;
        dev->mma_tflops = f->mma_tflops * dev->cu_count / f->cus;
        dev->fma_tflops = f->fma_tflops * dev->cu_count / f->cus;
        dev->latency_us = f->latency_us;
        dev->sync_us = f->sync_us;
        dev->load_us = f->load_us;
        dev->cache_gbps = share * f->cache_gbps;
        return;
    }
    /* An arch nobody has written down: middling numbers, and only what every GPU can do. */
    if (dev->platform == RFG_PLATFORM_NVIDIA && !strncmp(dev->arch, "sm_", 3) && atoi(dev->arch + 3) >= 80)
        dev->features |= MMA | ASYNC;
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
    const struct product *p = usual_product(arch, len);
    long cus = p ? p->cus : 0;
    if (p && arch[len]) {
        char *end;
        cus = strtol(arch + len + 1, &end, 10);
        if (end == arch + len + 1 || *end || cus < 1 || cus > 65535)
            return false;
    }
    if (!p)
        return false;
    const struct family *f = family_of(p->arch);
    *dev = (struct rfg_device){
        .platform = f->platform, .cu_count = (int)cus, .wave_size = f->wave, .lds_bytes = f->lds, .max_threads = 1024
    };
    snprintf(dev->name, sizeof(dev->name), "%s:%ld", p->arch, cus);
    snprintf(dev->arch, sizeof(dev->arch), "%s", p->arch);
    /* wgmma, clusters and their kin exist only in the arch-specific targets. */
    snprintf(dev->target, sizeof(dev->target), "%s%s", p->arch, f->features & RFG_FEATURE_CLUSTER ? "a" : "");
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
