/* SPDX-License-Identifier: MIT
 *
 * The architectures that the emulator knows, and those that it only recognises. */
#include <stdio.h>
#include <string.h>

#include "emu.h"

static const struct emu_arch archs[] = {
    { .name = "gfx908",
      .gfx = 0x908,
      .mach = 0x030,
      .wave_size = 64,
      .lds_bytes = 65536,
      .cu_count = 120,
      .simds = 4,
      .waves_per_simd = 10,
      .vgprs_per_simd = 256,
      .vgpr_granule = 4,
      .xcds = 1,
      .l2_kib = 8192,
      .emulated = true },
    { .name = "gfx90a",
      .gfx = 0x90a,
      .mach = 0x03f,
      .wave_size = 64,
      .lds_bytes = 65536,
      .cu_count = 104,
      .simds = 4,
      .waves_per_simd = 8,
      .vgprs_per_simd = 512,
      .vgpr_granule = 8,
      .xcds = 1,
      .l2_kib = 8192,
      .unified_agprs = true,
      .packed_tid = true,
      .emulated = true },
#define CDNA3(name_, mach_)                                                                                            \
    {                                                                                                                  \
        .name = name_, .gfx = 0x942, .mach = mach_, .wave_size = 64, .lds_bytes = 65536, .cu_count = 304, .simds = 4,  \
        .waves_per_simd = 8, .vgprs_per_simd = 512, .vgpr_granule = 8, .xcds = 8, .l2_kib = 4096,                      \
        .unified_agprs = true, .fnuz = true, .packed_tid = true, .architected_scratch = true, .emulated = true         \
    }
    CDNA3("gfx940", 0x040),
    CDNA3("gfx941", 0x04b),
    CDNA3("gfx942", 0x04c),
#undef CDNA3
    { .name = "gfx950",
      .gfx = 0x950,
      .mach = 0x04f,
      .wave_size = 64,
      .lds_bytes = 163840,
      .cu_count = 256,
      .simds = 4,
      .waves_per_simd = 8,
      .vgprs_per_simd = 512,
      .vgpr_granule = 8,
      .xcds = 8,
      .l2_kib = 4096,
      .unified_agprs = true,
      .packed_tid = true,
      .architected_scratch = true,
      .emulated = true },
    { .name = "gfx1030",
      .gfx = 0x1030,
      .mach = 0x036,
      .wave_size = 32,
      .lds_bytes = 65536,
      .cu_count = 80,
      .simds = 2,
      .waves_per_simd = 16,
      .vgprs_per_simd = 1024,
      .vgpr_granule = 16,
      .xcds = 1,
      .l2_kib = 4096,
      .emulated = true },
/* The last: whether there are such devices; a generic code object runs on them. */
#define RDNA(name_, gfx_, mach_, cus, vgprs, granule, l2, device)                                                      \
    {                                                                                                                  \
        .name = name_, .gfx = gfx_, .mach = mach_, .wave_size = 32, .lds_bytes = 65536, .cu_count = cus, .simds = 2,   \
        .waves_per_simd = 16, .vgprs_per_simd = vgprs, .vgpr_granule = granule, .xcds = 1, .l2_kib = l2,               \
        .packed_tid = true, .architected_scratch = true, .emulated = device                                            \
    }
    RDNA("gfx1100", 0x1100, 0x041, 96, 1536, 24, 6144, true),
    RDNA("gfx1101", 0x1100, 0x046, 60, 1536, 24, 4096, true),
    RDNA("gfx1102", 0x1100, 0x047, 32, 1024, 16, 2048, true),
    RDNA("gfx1103", 0x1100, 0x044, 12, 1024, 16, 2048, true),
    RDNA("gfx1150", 0x1150, 0x043, 16, 1024, 16, 2048, true),
    RDNA("gfx1151", 0x1150, 0x04a, 40, 1536, 24, 2048, true),
    RDNA("gfx11-generic", 0x1100, 0x054, 96, 1024, 16, 6144, false),
    RDNA("gfx1200", 0x1200, 0x048, 32, 1536, 24, 4096, true),
    RDNA("gfx1201", 0x1200, 0x04e, 64, 1536, 24, 8192, true),
#undef RDNA
};
#define N_ARCHS (sizeof(archs) / sizeof(archs[0]))

const struct emu_arch *emu_arch_find(const char *name)
{
    for (size_t i = 0; i < N_ARCHS; i++)
        if (!strcmp(archs[i].name, name))
            return &archs[i];
    return NULL;
}

void emu_arch_names(char *buf, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < N_ARCHS && n < size; i++)
        if (archs[i].emulated)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? ", " : "", archs[i].name);
}

const struct emu_arch *emu_arch_of_mach(unsigned mach)
{
    for (size_t i = 0; i < N_ARCHS; i++)
        if ((unsigned)archs[i].mach == mach)
            return &archs[i];
    return NULL;
}

/* CUs of one XCD, of products whose XCDs have so many. */
int emu_xcds(const struct emu_arch *arch, int cu_count)
{
    static const struct {
        int gfx, cus, most;
    } xcd[] = {
        { 0x942, 38, 8 }, /* MI300X, MI325X: 8; MI300A: 6; their partitions */
        { 0x942, 20, 4 }, /* MI308X */
        { 0x950, 32, 8 }, /* MI350X, MI355X */
    };
    for (size_t i = 0; i < sizeof(xcd) / sizeof(xcd[0]); i++)
        if (arch->gfx == xcd[i].gfx && cu_count % xcd[i].cus == 0 && cu_count / xcd[i].cus <= xcd[i].most)
            return cu_count / xcd[i].cus;
    return arch->xcds;
}
