/* SPDX-License-Identifier: MIT
 *
 * The architectures that the emulator knows, and those that it only recognises. */
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
      .l2_kib = 8192 },
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
    { .name = "gfx942",
      .gfx = 0x942,
      .mach = 0x04c,
      .wave_size = 64,
      .lds_bytes = 65536,
      .cu_count = 304,
      .simds = 4,
      .waves_per_simd = 8,
      .vgprs_per_simd = 512,
      .vgpr_granule = 8,
      .xcds = 8,
      .l2_kib = 4096,
      .unified_agprs = true,
      .fnuz = true,
      .packed_tid = true,
      .architected_scratch = true,
      .emulated = true },
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
      .l2_kib = 4096 },
    { .name = "gfx1100",
      .gfx = 0x1100,
      .mach = 0x041,
      .wave_size = 32,
      .lds_bytes = 65536,
      .cu_count = 96,
      .simds = 2,
      .waves_per_simd = 16,
      .vgprs_per_simd = 1536,
      .vgpr_granule = 24,
      .xcds = 1,
      .l2_kib = 6144,
      .packed_tid = true,
      .architected_scratch = true,
      .emulated = true },
    { .name = "gfx1201",
      .gfx = 0x1201,
      .mach = 0x04e,
      .wave_size = 32,
      .lds_bytes = 65536,
      .cu_count = 64,
      .simds = 2,
      .waves_per_simd = 16,
      .vgprs_per_simd = 1536,
      .vgpr_granule = 24,
      .xcds = 1,
      .l2_kib = 8192,
      .packed_tid = true,
      .architected_scratch = true },
};
#define N_ARCHS (sizeof(archs) / sizeof(archs[0]))

const struct emu_arch *emu_arch_find(const char *name)
{
    for (size_t i = 0; i < N_ARCHS; i++)
        if (!strcmp(archs[i].name, name))
            return &archs[i];
    return NULL;
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
