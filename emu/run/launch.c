/* SPDX-License-Identifier: MIT
 *
 * A kernel's initial state: arguments and registers, by the AMDGPU backend's guide; and the number of workgroups that
 * the GPU would hold. */
#include <limits.h>
#include <string.h>

#include "slot.h"

#define JUNK 0xFFFFDEADu /* in registers that nothing initialises: a NaN, and no address */

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static uint64_t hidden_value(const struct emu_launch *l, enum emu_arg_kind kind)
{
    switch (kind) {
    case EMU_ARG_HIDDEN_BLOCK_COUNT_X:
    case EMU_ARG_HIDDEN_BLOCK_COUNT_Y:
    case EMU_ARG_HIDDEN_BLOCK_COUNT_Z:
        return l->grid[kind - EMU_ARG_HIDDEN_BLOCK_COUNT_X];
    case EMU_ARG_HIDDEN_GROUP_SIZE_X:
    case EMU_ARG_HIDDEN_GROUP_SIZE_Y:
    case EMU_ARG_HIDDEN_GROUP_SIZE_Z:
        return l->block[kind - EMU_ARG_HIDDEN_GROUP_SIZE_X];
    case EMU_ARG_HIDDEN_GRID_DIMS:
        return l->grid[2] * l->block[2] > 1 ? 3 : l->grid[1] * l->block[1] > 1 ? 2 : 1;
    case EMU_ARG_HIDDEN_DYNAMIC_LDS_SIZE:
        return l->dynamic_lds;
    case EMU_ARG_HIDDEN_PRIVATE_BASE:
        return EMU_PRIVATE_BASE >> 32;
    case EMU_ARG_HIDDEN_SHARED_BASE:
        return EMU_SHARED_BASE >> 32;
    case EMU_ARG_HIDDEN_QUEUE_PTR:
        return (uint64_t)(uintptr_t)l->queue;
    case EMU_ARG_HIDDEN_MULTIGRID_SYNC_ARG:
        return l->cooperative;
    default: /* remainders: hipModuleLaunchKernel()'s grids are whole workgroups */
        return 0;
    }
}

void emu_kernarg_fill(struct emu_launch *l, void *const *params, const void *packed, size_t packed_size)
{
    const struct emu_kernel *k = l->kernel;
    memset(l->kernarg, 0, EMU_KERNARG_SIZE(k->kernarg_bytes));
    if (packed)
        memcpy(l->kernarg, packed, packed_size < k->kernarg_bytes ? packed_size : k->kernarg_bytes);
    for (int i = 0; params && i < k->n_explicit; i++)
        memcpy(l->kernarg + k->arg[i].offset, params[i], k->arg[i].size);
    for (int i = k->n_explicit; i < k->n_args; i++) {
        uint64_t value = hidden_value(l, k->arg[i].kind);
        uint32_t size = k->arg[i].size;
        memset(l->kernarg + k->arg[i].offset, 0, size);
        memcpy(l->kernarg + k->arg[i].offset, &value, size < sizeof(value) ? size : sizeof(value));
    }
}

/* ---- occupancy --------------------------------------------------------------------------------------------------- */

static int round_up(int n, int to)
{
    return (n + to - 1) / to * to;
}

void emu_residency(const struct emu_arch *arch, const struct emu_kernel *k, int threads, uint32_t lds_bytes,
                   struct emu_residency *r)
{
    bool rdna = arch->gfx >= 0x1000, wgp = rdna && (k->rsrc1 >> 29 & 1);
    int simds = wgp ? 2 * arch->simds : arch->simds;
    int lds = wgp ? 2 * arch->lds_bytes : arch->lds_bytes;
    int waves = (threads + k->wave_size - 1) / k->wave_size, rows;
    if (rdna && k->wave_size == 64)
        rows = 2 * round_up(k->n_vgprs, arch->vgpr_granule / 2);
    else
        rows = round_up(arch->unified_agprs ? k->n_vgprs + k->n_agprs : k->n_vgprs, arch->vgpr_granule);
    int most[5] = { simds * arch->waves_per_simd / waves, simds * (arch->vgprs_per_simd / rows) / waves, INT_MAX,
                    INT_MAX, INT_MAX }; /* by bit of enum emu_limit */
    if (!rdna)                          /* gfx9: 800 SGPRs a SIMD, vcc and its kin among them */
        most[2] = simds * (800 / round_up(k->n_sgprs, 16)) / waves;
    if (lds_bytes)
        most[3] = lds / round_up((int)lds_bytes, 512);
    if (waves > 1)
        most[4] = rdna ? 32 : 16;
    r->groups = INT_MAX;
    for (int i = 0; i < 5; i++)
        r->groups = most[i] < r->groups ? most[i] : r->groups;
    r->limits = 0;
    for (int i = 0; i < 5; i++)
        r->limits |= most[i] == r->groups ? 1u << i : 0;
    r->waves = r->groups * waves;
    r->simds = simds;
    r->wgp = wgp;
}

int emu_occupancy(const struct emu_arch *arch, const struct emu_kernel *k, int cu_count, int threads,
                  uint32_t lds_bytes)
{
    struct emu_residency r;
    emu_residency(arch, k, threads, lds_bytes, &r);
    return r.groups * (r.wgp ? (cu_count + 1) / 2 : cu_count);
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

static int put64(uint32_t *s, int at, uint64_t value)
{
    s[at] = (uint32_t)value;
    s[at + 1] = (uint32_t)(value >> 32);
    return at + 2;
}

/* The V# of scratch memory for code without scratch instructions: swizzled, 4-byte elements, indexed by the lane. With
 * fewer indices than the index stride, the stride itself doesn't matter. */
static int put_scratch_buffer(const struct emu_launch *l, uint32_t *s, int at)
{
    bool wave32 = l->kernel->wave_size == 32;
    put64(s, at, (uint64_t)(uintptr_t)l->scratch);
    s[at + 1] |= 1u << 31 | 4u << 16;
    s[at + 2] = 0xFFFFFFFFu;
    if (l->arch->gfx >= 0x1000)
        s[at + 3] = 2u << 28 /* no bounds */ | (wave32 ? 2u : 3u) << 21 | 1u << 23 | 22u << 12 | 0xFACu;
    else
        s[at + 3] = 3u << 21 | 1u << 23 | 1u << 19 | 0x27FACu;
    return at + 4;
}

static void set_sgprs(struct emu_launch *l, struct emu_wave *w, uint64_t scratch_offset)
{
    const struct emu_kernel *k = l->kernel;
    const struct emu_workgroup *wg = w->wg;
    const uint8_t *kernarg = l->kernargs ? l->kernargs[wg->rank] : l->kernarg;
    uint32_t *s = w->s;
    int at = 0, user = (int)(k->rsrc2 >> 1 & 31);
    for (int i = 0; i < EMU_SCC; i++)
        s[i] = JUNK;
    if (k->properties & EMU_KERNEL_PRIVATE_SEGMENT_BUFFER)
        at = put_scratch_buffer(l, s, at);
    if (k->properties & EMU_KERNEL_DISPATCH_PTR)
        at = put64(s, at, (uint64_t)(uintptr_t)l->packet);
    if (k->properties & EMU_KERNEL_QUEUE_PTR)
        at = put64(s, at, (uint64_t)(uintptr_t)l->queue);
    if (k->properties & EMU_KERNEL_KERNARG_PTR)
        at = put64(s, at, (uint64_t)(uintptr_t)kernarg);
    if (k->properties & EMU_KERNEL_DISPATCH_ID)
        at = put64(s, at, 1);
    if (k->properties & EMU_KERNEL_FLAT_SCRATCH_INIT)
        at = put64(s, at, (uint64_t)(uintptr_t)l->scratch);
    if (k->properties & EMU_KERNEL_PRIVATE_SEGMENT_SIZE)
        s[at++] = w->scratch_bytes;
    for (int i = 0; i < k->preload_length && at < user && at < 102; i++)
        memcpy(&s[at++], kernarg + 4 * (k->preload_offset + i), 4);
    at = user;
    bool in_ttmp = l->arch->gfx >= 0x1200; /* where the workgroup's number is; the descriptor's bits say nothing */
    for (int d = 0; d < 3 && !in_ttmp; d++)
        if (k->rsrc2 >> (7 + d) & 1)
            s[at++] = wg->id[d];
    if (k->rsrc2 >> 10 & 1)
        s[at++] = (uint32_t)wg->n_waves | (w->index == 0 ? 1u << 31 : 0);
    if ((k->rsrc2 & 1) && !l->arch->architected_scratch)
        s[at++] = (uint32_t)scratch_offset;
    w->init_sgprs = (uint8_t)at;
    if (l->arch->gfx < 0x1000)
        put64(s, 102, l->arch->architected_scratch ? (uint64_t)(uintptr_t)w->scratch : 0);
    for (int i = 0; i < 16; i++)
        s[EMU_TTMP + i] = 0;
    if (in_ttmp) {
        s[EMU_TTMP + 9] = wg->id[0];
        s[EMU_TTMP + 7] = (wg->id[1] & 0xffff) | wg->id[2] << 16;
        s[EMU_TTMP + 8] = (uint32_t)w->index << 25;
    }
    s[EMU_NULL] = 0;
}

static void set_vgprs(const struct emu_launch *l, struct emu_wave *w)
{
    const struct emu_kernel *k = l->kernel;
    int ids = (int)(k->rsrc2 >> 11 & 3); /* 0: x, 1: x and y, 2: all */
    uint32_t bx = l->block[0], by = l->block[1], threads = bx * by * l->block[2];
    uint32_t first = (uint32_t)(w->index * w->wave_size);
    uint32_t n = threads - first < w->wave_size ? threads - first : w->wave_size;
    w->exec = n == 64 ? ~0ull : (1ull << n) - 1;
    w->init_vgprs = (uint8_t)(l->arch->packed_tid ? 1 : ids + 1);
    uint32_t x = first % bx, y = first / bx % by, z = first / bx / by;
    for (uint32_t lane = 0; lane < n; lane++) {
        if (l->arch->packed_tid)
            w->v[0][lane] = x | (ids >= 1 ? y << 10 : 0) | (ids >= 2 ? z << 20 : 0);
        else {
            w->v[0][lane] = x;
            if (ids >= 1)
                w->v[1][lane] = y;
            if (ids >= 2)
                w->v[2][lane] = z;
        }
        if (++x == bx) {
            x = 0;
            if (++y == by) {
                y = 0;
                z++;
            }
        }
    }
}

/* MODE from the descriptor: rounding and denormals (12..19), DX10_CLAMP (21), IEEE (23), FP16_OVFL (26). gfx12 has the
 * former two no more: it clamps NaN to 0, and a number wins against any NaN. */
static uint32_t mode_of(const struct emu_arch *arch, uint32_t rsrc1)
{
    if (arch->gfx >= 0x1200)
        return (rsrc1 >> 12 & 0xff) | 1 << 8 | (rsrc1 >> 26 & 1) << 23;
    return (rsrc1 >> 12 & 0xff) | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9 | (rsrc1 >> 26 & 1) << 23;
}

void emu_slot_start(struct emu_launch *l, struct emu_slot *slot, uint64_t number)
{
    const struct emu_kernel *k = l->kernel;
    struct emu_workgroup *wg = &slot->wg;
    const struct emu_inst *entry = &l->prog->inst[l->prog->at[(k->entry - l->code->text) / 4]];
    wg->number = number;
    wg->rank = (int)(number % (uint64_t)l->ranks);
    number /= (uint64_t)l->ranks;
    wg->id[0] = (uint32_t)(number % l->grid[0]);
    wg->id[1] = (uint32_t)(number / l->grid[0] % l->grid[1]);
    wg->id[2] = (uint32_t)(number / l->grid[0] / l->grid[1]);
    wg->xcd = (int)(number % (uint64_t)l->xcds);
    wg->at_barrier = wg->ended = 0;
    slot->budget = EMU_BUDGET;
    if (emu_hooks->group_begin)
        emu_hooks->group_begin(l, wg);
    for (int i = 0; i < wg->n_waves; i++) {
        struct emu_wave *w = &wg->wave[i];
        struct emu_wave fresh = { .pc = entry,
                                  .wave_size = (uint8_t)k->wave_size,
                                  .mode = mode_of(l->arch, k->rsrc1),
                                  .n_vgprs = w->n_vgprs,
                                  .n_agprs = w->n_agprs,
                                  .v = w->v,
                                  .a = w->a,
                                  .scratch_bytes = k->scratch_bytes,
                                  .wg = wg,
                                  .launch = l,
                                  .prog = l->prog,
                                  .index = i,
                                  .checks = w->checks,
                                  .counts = w->counts };
        uint64_t offset = ((uint64_t)slot->index * (uint64_t)wg->n_waves + (uint64_t)i) * l->scratch_per_wave;
        *w = fresh;
        w->scratch_bytes = (uint32_t)(l->scratch_per_wave / (size_t)k->wave_size);
        w->scratch = l->scratch ? l->scratch + offset : NULL;
        set_sgprs(l, w, offset);
        set_vgprs(l, w);
        if (emu_hooks->wave_begin)
            emu_hooks->wave_begin(w);
    }
}
