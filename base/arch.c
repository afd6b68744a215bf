/* SPDX-License-Identifier: MIT
 *
 * Peaks are from vendors' data sheets, except sm_90's: an H200 as measured (docs/perf). Latencies of AMD's are guesses
 * that only rank; gfx1100's launch was measured by others (ROCm/rocm-systems, issue 10834: 941 nodes of a graph on a
 * W7900). */
#include "arch.h"

#include <string.h>

#define KIB 1024
#define MIB (1024 * 1024)

#define I8     RFG_ARCH_CODE(RFG_I8)
#define FNUZ   RFG_ARCH_CODE(RFG_E4M3FNUZ)
#define OCP    (RFG_ARCH_CODE(RFG_E4M3) | RFG_ARCH_CODE(RFG_E5M2))
#define E2M1   RFG_ARCH_CODE(RFG_E2M1)
#define AMPERE RFG_FEATURE_ASYNC
#define HOPPER (AMPERE | RFG_FEATURE_CLUSTER | RFG_FEATURE_OVERLAP | RFG_FEATURE_TMA)

#define SM(kib)        .platform = RFG_PLATFORM_NVIDIA, .wave_size = 32, .lds_bytes = (kib)*KIB
#define GFX(wave, kib) .platform = RFG_PLATFORM_AMD, .wave_size = wave, .lds_bytes = (kib)*KIB

/* Kinds: what their archs have in common. */
#define MMA(kind, frag, more) .mma = RFG_MMA_##kind, .frag_registers = frag, .features = RFG_FEATURE_MMA | more
#define GFX9                  GFX(64, 64)
#define CDNA1                 GFX(64, 64), MMA(CDNA1, 4, 0), .codes = I8, .flushes_f16 = true
#define CDNA2                 GFX(64, 64), MMA(CDNA2, 4, 0), .codes = I8, .flushes_f16 = true
#define CDNA3                 GFX(64, 64), MMA(CDNA3, 4, 0), .codes = I8 | FNUZ
#define CDNA4                 GFX(64, 160), MMA(CDNA4, 4, 0), .codes = I8 | OCP | E2M1, .wide = OCP | E2M1, .new_clang = true
#define RDNA                  GFX(32, 64), .wgps = true
#define RDNA3                 RDNA, MMA(RDNA3, 16, 0), .codes = I8
#define RDNA4                 RDNA, MMA(RDNA4, 8, 0)

/* PEAKS(transfers, cus, mma_tflops, fma_tflops, latency_us, sync_us, load_us, cache_gbps) */
#define PEAKS(memory, n, mma, fma, latency, sync, load, cache)                                                         \
    .transfers = RFG_##memory, .cus = n, .mma_tflops = mma, .fma_tflops = fma, .latency_us = latency, .sync_us = sync, \
    .load_us = load, .cache_gbps = cache
#define PEAKS_GFX94  PEAKS(HBM3, 304, 1307, 163, 2.0, 0.9, 0.9, 10000)
#define PEAKS_GFX103 PEAKS(GDDR6, 80, 0, 20, 2.5, 1.5, 0.7, 1800)
#define PEAKS_GFX110 PEAKS(GDDR6, 96, 122, 61, 3.85, 1.5, 0.7, 3000)
#define PEAKS_GFX115 PEAKS(LPDDR5, 40, 59, 30, 2.0, 1.5, 0.9, 1000)
#define PEAKS_GFX120 PEAKS(GDDR6, 64, 195, 48, 2.0, 1.5, 0.7, 2500)

/* AMD rows without a mach are prefixes: they serve archs with no row of their own. */
static const struct rfg_arch archs[] = {
    { "gfx900", GFX9, .mach = 0x2c },
    { "gfx906", GFX9, .mach = 0x2f },
    { "gfx908", CDNA1, .mach = 0x30, PEAKS(HBM2, 120, 92, 23, 2.5, 1.5, 1, 3000) },
    { "gfx90a", CDNA2, .mach = 0x3f, PEAKS(HBM2, 104, 181, 23, 2.5, 1.5, 1, 3500) },
    { "gfx940", CDNA3, .mach = 0x40, PEAKS_GFX94 },
    { "gfx941", CDNA3, .mach = 0x4b, PEAKS_GFX94 },
    { "gfx942", CDNA3, .mach = 0x4c, PEAKS_GFX94 },
    { "gfx94", CDNA3, PEAKS_GFX94 },
    { "gfx950", CDNA4, .mach = 0x4f, PEAKS(HBM3, 256, 2500, 157, 2.0, 0.9, 0.9, 12000) },
    { "gfx9", GFX9 },
    { "gfx1010", RDNA, .mach = 0x33 },
    { "gfx1030", RDNA, .mach = 0x36, PEAKS_GFX103 },
    { "gfx1031", RDNA, .mach = 0x37, PEAKS_GFX103 },
    { "gfx1032", RDNA, .mach = 0x38, PEAKS_GFX103 },
    { "gfx1033", RDNA, .mach = 0x39, PEAKS_GFX103 },
    { "gfx1034", RDNA, .mach = 0x3e, PEAKS_GFX103 },
    { "gfx1035", RDNA, .mach = 0x3d, PEAKS_GFX103 },
    { "gfx1036", RDNA, .mach = 0x45, PEAKS_GFX103 },
    { "gfx103", RDNA, PEAKS_GFX103 },
    { "gfx10", RDNA },
    { "gfx1100", RDNA3, .mach = 0x41, PEAKS_GFX110 },
    { "gfx1101", RDNA3, .mach = 0x46, PEAKS(GDDR6, 60, 75, 37, 2.0, 1.5, 0.7, 2000) },
    { "gfx1102", RDNA3, .mach = 0x47, PEAKS(GDDR6, 32, 43, 21, 2.0, 1.5, 0.7, 1000) },
    { "gfx1103", RDNA3, .mach = 0x44, PEAKS(LPDDR5, 12, 17, 8, 2.0, 1.5, 0.9, 400) },
    { "gfx110", RDNA3, PEAKS_GFX110 },
    { "gfx1150", RDNA3, .mach = 0x43, PEAKS_GFX115 },
    { "gfx1151", RDNA3, .mach = 0x4a, PEAKS_GFX115 },
    { "gfx1152", RDNA3, .mach = 0x55, PEAKS_GFX115 },
    { "gfx1153", RDNA3, .mach = 0x58, PEAKS_GFX115 },
    { "gfx115", RDNA3, PEAKS_GFX115 },
    { "gfx11-generic", RDNA, .mach = 0x54 },
    { "gfx11", RDNA },
    { "gfx1200", RDNA4, .mach = 0x48, PEAKS(GDDR6, 32, 103, 26, 2.0, 1.5, 0.7, 1250) },
    { "gfx1201", RDNA4, .mach = 0x4e, PEAKS_GFX120 },
    { "gfx120", RDNA4, PEAKS_GFX120 },
    /* All guesses: nobody has timed one. */
    { "gfx1250", GFX(32, 320), MMA(RDNA4, 8, 0), .mach = 0x49, .new_clang = true,
      PEAKS(HBM3, 256, 10000, 157, 2.0, 0.9, 0.9, 20000) },
    { "gfx", GFX(32, 64) },
    { "sm_80", SM(163), MMA(SYNC, 8, AMPERE), PEAKS(BY_PLATFORM, 108, 312, 19, 1.5, 1.2, 0.7, 4500) },
    { "sm_90", SM(227), MMA(WGMMA, 8, HOPPER), PEAKS(BY_PLATFORM, 132, 790, 60, 1.25, 1.4, 0.6, 8400) },
    { "sm_100", SM(227), MMA(SYNC, 8, HOPPER), PEAKS(BY_PLATFORM, 148, 2250, 75, 1.25, 1.0, 0.6, 9000) },
    { "sm_5", SM(48) },
    { "sm_6", SM(48) },
    { "sm_7", SM(48) },
    { "sm_", SM(48), MMA(SYNC, 8, AMPERE) },
    { "", .platform = RFG_PLATFORM_CPU, .wave_size = 1 },
};

const struct rfg_arch *rfg_arch_of(const char *target)
{
    const struct rfg_arch *a = archs;
    while (strncmp(a->name, target, strlen(a->name)))
        a++;
    return a;
}

/* An arch's first product is its usual one. */
const struct rfg_product rfg_products[] = {
    { "gfx908", "MI100", 120, 1, 1228, 8 * MIB },
    { "gfx90a", "MI210", 104, 1, 1638, 8 * MIB },
    { "gfx90a", "MI250", 104, 1, 1638, 8 * MIB }, /* each of its two dies is a device */
    { "gfx90a", "MI250X", 110, 1, 1638, 8 * MIB },
    { "gfx942", "MI300X", 304, 8, 5300, 256 * MIB },
    { "gfx942", "MI325X", 304, 8, 6000, 256 * MIB },
    { "gfx942", "MI300A", 228, 6, 5300, 256 * MIB },
    { "gfx942", "MI308X", 80, 4, 5300, 256 * MIB },
    { "gfx950", "MI355X", 256, 8, 8000, 256 * MIB },
    { "gfx950", "MI350X", 256, 8, 8000, 256 * MIB },
    { "gfx1030", "RX 6900 XT", 80, 1, 512, 128 * MIB },
    { "gfx1030", "RX 6950 XT", 80, 1, 576, 128 * MIB },
    { "gfx1030", "RX 6800 XT", 72, 1, 512, 128 * MIB },
    { "gfx1030", "RX 6800", 60, 1, 512, 128 * MIB },
    { "gfx1100", "RX 7900 XTX", 96, 1, 960, 96 * MIB },
    { "gfx1100", "W7900", 96, 1, 864, 96 * MIB },
    { "gfx1100", "RX 7900 XT", 84, 1, 800, 80 * MIB },
    { "gfx1100", "RX 7900 GRE", 80, 1, 576, 64 * MIB },
    { "gfx1100", "W7800", 70, 1, 576, 64 * MIB },
    { "gfx1101", "RX 7800 XT", 60, 1, 624, 64 * MIB },
    { "gfx1101", "RX 7700 XT", 54, 1, 432, 48 * MIB },
    { "gfx1101", "W7700", 48, 1, 576, 64 * MIB },
    { "gfx1102", "RX 7600", 32, 1, 288, 32 * MIB },
    { "gfx1103", "780M", 12, 1, 120, 2 * MIB },
    { "gfx1150", "890M", 16, 1, 120, 2 * MIB },
    { "gfx1151", "8060S", 40, 1, 256, 32 * MIB },
    { "gfx1152", "860M", 8, 1, 120, 2 * MIB },
    { "gfx1153", "840M", 4, 1, 120, 2 * MIB },
    { "gfx1200", "RX 9060 XT", 32, 1, 320, 32 * MIB },
    { "gfx1201", "RX 9070 XT", 64, 1, 640, 64 * MIB },
    { "gfx1201", "RX 9070", 56, 1, 640, 64 * MIB },
    { "gfx1201", "RX 9070 GRE", 48, 1, 432, 48 * MIB },
    { "sm_80", "A100", 108, 1, 2039, 40 * MIB },
    { "sm_90", "H200", 132, 1, 4300, 60 * MIB },
    { "sm_90", "H100", 132, 1, 2950, 50 * MIB },
    { "gfx1250", "MI455X", 256, 8, 19600, 256 * MIB },
    { "sm_100", "B200", 148, 1, 8000, 126 * MIB },
    { .arch = NULL },
};

const struct rfg_product *rfg_product_usual(const char *arch, size_t len)
{
    for (const struct rfg_product *p = rfg_products; p->arch; p++)
        if (strlen(p->arch) == len && !strncmp(p->arch, arch, len))
            return p;
    return NULL;
}
