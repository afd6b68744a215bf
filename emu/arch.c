/* SPDX-License-Identifier: MIT
 *
 * The emulated architectures, and those that are only recognised: facts that base/arch.h doesn't have. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/arch.h"
#include "emu.h"

#define SIMD(n, waves, vgprs, granule)                                                                                 \
    .simds = n, .waves_per_simd = waves, .vgprs_per_simd = vgprs, .vgpr_granule = granule
#define NEWER                    .packed_tid = true, .architected_scratch = true
#define CDNA3                    .gfx = 0x942, SIMD(4, 8, 512, 8), .l2_kib = 4096, .unified_agprs = true, NEWER, .emulated = true
#define RDNA(vgprs, granule, l2) SIMD(2, 16, vgprs, granule), .l2_kib = l2, NEWER, .emulated = true

static struct emu_arch archs[] = {
    { .name = "gfx908", .gfx = 0x908, SIMD(4, 10, 256, 4), .l2_kib = 8192, .emulated = true },
    { .name = "gfx90a",
      .gfx = 0x90a,
      SIMD(4, 8, 512, 8),
      .l2_kib = 8192,
      .unified_agprs = true,
      .packed_tid = true,
      .emulated = true },
    { .name = "gfx940", CDNA3 },
    { .name = "gfx941", CDNA3 },
    { .name = "gfx942", CDNA3 },
    { .name = "gfx950",
      .gfx = 0x950,
      SIMD(4, 8, 512, 8),
      .l2_kib = 4096,
      .unified_agprs = true,
      NEWER,
      .emulated = true },
    { .name = "gfx1030", .gfx = 0x1030, SIMD(2, 16, 1024, 16), .l2_kib = 4096, .emulated = true },
    { .name = "gfx1100", .gfx = 0x1100, RDNA(1536, 24, 6144) },
    { .name = "gfx1101", .gfx = 0x1100, RDNA(1536, 24, 4096) },
    { .name = "gfx1102", .gfx = 0x1100, RDNA(1024, 16, 2048) },
    { .name = "gfx1103", .gfx = 0x1100, RDNA(1024, 16, 2048) },
    { .name = "gfx1150", .gfx = 0x1150, RDNA(1024, 16, 2048) },
    { .name = "gfx1151", .gfx = 0x1150, RDNA(1536, 24, 2048) },
    /* There are no such devices; its code runs on the others. */
    { .name = "gfx11-generic", .gfx = 0x1100, SIMD(2, 16, 1024, 16), .l2_kib = 6144, NEWER },
    { .name = "gfx1200", .gfx = 0x1200, RDNA(1536, 24, 4096) },
    { .name = "gfx1201", .gfx = 0x1200, RDNA(1536, 24, 8192) },
};
#define N_ARCHS (sizeof(archs) / sizeof(archs[0]))

const char *emu_arch_sold(const struct emu_arch *a)
{
    return a->gfx == 0x942 ? "gfx942" : a->emulated ? a->name : "gfx1100";
}

/* What base/arch.h says. */
static void fill(void)
{
    for (struct emu_arch *a = archs; a < archs + N_ARCHS; a++) {
        const struct rfg_arch *is = rfg_arch_of(a->name);
        const char *sold = emu_arch_sold(a);
        const struct rfg_product *p = rfg_product_usual(sold, strlen(sold));
        a->mach = (int)is->mach;
        a->wave_size = is->wave_size;
        a->lds_bytes = is->lds_bytes;
        a->fnuz = is->codes & RFG_ARCH_CODE(RFG_E4M3FNUZ);
        a->cu_count = p->cus;
        a->xcds = p->xcds;
    }
}

static const struct emu_arch *all(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    return archs;
}

const struct emu_arch *emu_arch_find(const char *name)
{
    const struct emu_arch *a = all();
    for (size_t i = 0; i < N_ARCHS; i++)
        if (!strcmp(a[i].name, name))
            return &a[i];
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
    const struct emu_arch *a = all();
    for (size_t i = 0; i < N_ARCHS; i++)
        if ((unsigned)a[i].mach == mach)
            return &a[i];
    return NULL;
}

int emu_xcds(const struct emu_arch *arch, int cu_count)
{
    const char *sold = emu_arch_sold(arch);
    for (const struct rfg_product *p = rfg_products; p->arch; p++) {
        int one = p->cus / p->xcds;
        if (!strcmp(p->arch, sold) && cu_count % one == 0 && cu_count / one <= p->xcds)
            return cu_count / one;
    }
    return arch->xcds;
}
