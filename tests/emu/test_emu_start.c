/* SPDX-License-Identifier: MIT
 *
 * A kernel's initial registers, and the number of workgroups that fit a CU. */
#include "emu/run/front.h"
#include "emu/run/slot.h"
#include "tuner/harness/harness.h"
#include "emu_compile.h"
#include "tests/suite.h"

static struct emu_inst end_inst;
static int32_t at_zero;

/* A workgroup of a made-up kernel. */
struct stage {
    struct emu_code code;
    struct emu_kernel kernel;
    struct emu_program prog;
    struct emu_launch l;
    struct emu_slot slot;
    struct emu_wave wave[16];
    uint32_t v[16][3][64];
    uint8_t kernarg[512];
    struct emu_packet packet;
    uint8_t queue[256], scratch[65536];
};

static struct stage *stage(const char *arch, uint32_t rsrc2, uint16_t properties)
{
    struct stage *t = calloc(1, sizeof(*t));
    t->l.arch = emu_arch_find(arch);
    t->kernel.wave_size = t->l.arch->wave_size;
    t->kernel.rsrc2 = rsrc2;
    t->kernel.properties = properties;
    t->prog.inst = &end_inst;
    t->prog.at = &at_zero;
    t->l.code = &t->code;
    t->l.kernel = &t->kernel;
    t->l.prog = &t->prog;
    t->l.kernarg = t->kernarg;
    t->l.packet = &t->packet;
    t->l.queue = t->queue;
    t->l.xcds = t->l.ranks = 1;
    for (int d = 0; d < 3; d++)
        t->l.grid[d] = t->l.block[d] = 1;
    t->slot.wg.wave = t->wave;
    for (int i = 0; i < 16; i++)
        t->wave[i].v = t->v[i];
    return t;
}

static uint64_t pair(const uint32_t *s)
{
    return s[0] | (uint64_t)s[1] << 32;
}

#define USER(n) ((uint32_t)(n) << 1)
#define IDS(n)  ((uint32_t)(n) << 11)
#define WG_XYZ  (7u << 7)
#define WG_INFO (1u << 10)
#define PRIVATE 1u
#define ALL_USER                                                                                                       \
    (EMU_KERNEL_PRIVATE_SEGMENT_BUFFER | EMU_KERNEL_DISPATCH_PTR | EMU_KERNEL_QUEUE_PTR | EMU_KERNEL_KERNARG_PTR |     \
     EMU_KERNEL_DISPATCH_ID | EMU_KERNEL_FLAT_SCRATCH_INIT | EMU_KERNEL_PRIVATE_SEGMENT_SIZE)

START_TEST(scalar_registers)
{
    struct stage *t = stage("gfx90a", USER(15) | WG_XYZ | WG_INFO | PRIVATE, ALL_USER);
    t->slot.wg.n_waves = 2;
    t->slot.index = 3;
    t->l.block[0] = 128;
    t->l.grid[0] = 5;
    t->l.grid[1] = 7;
    t->l.grid[2] = 2;
    t->l.scratch = t->scratch;
    t->l.scratch_per_wave = 64 * 16;
    t->kernel.rsrc1 = 0xF0u << 12 | 1u << 23 | 1u << 21;
    emu_slot_start(&t->l, &t->slot, 5 * 7 + 2 * 5 + 4);
    for (int w = 0; w < 2; w++) {
        const uint32_t *s = t->wave[w].s;
        uint32_t offset = (3 * 2 + (uint32_t)w) * 1024;
        ck_assert_uint_eq(pair(s) & 0xffffffffffff, (uint64_t)(uintptr_t)t->scratch);
        ck_assert_uint_eq(s[1] >> 31, 1); /* swizzled */
        ck_assert_uint_eq(s[2], UINT32_MAX);
        ck_assert_uint_eq(s[3], 0x00ea7fac); /* elements of 4 bytes, index stride 64, the lane's number is added */
        ck_assert_uint_eq(pair(s + 4), (uint64_t)(uintptr_t)&t->packet);
        ck_assert_uint_eq(pair(s + 6), (uint64_t)(uintptr_t)t->queue);
        ck_assert_uint_eq(pair(s + 8), (uint64_t)(uintptr_t)t->kernarg);
        ck_assert_uint_eq(pair(s + 12), (uint64_t)(uintptr_t)t->scratch);
        ck_assert_uint_eq(s[14], 16);
        ck_assert_uint_eq(s[15], 4);
        ck_assert_uint_eq(s[16], 2);
        ck_assert_uint_eq(s[17], 1);
        ck_assert_uint_eq(s[18], w ? 2 : 0x80000002);
        ck_assert_uint_eq(s[19], offset);
        ck_assert_ptr_eq(t->wave[w].scratch, t->scratch + offset);
        ck_assert_uint_eq(t->wave[w].mode, 0x3F0);
        ck_assert_uint_eq(t->wave[w].exec, ~0ull);
    }
    free(t);
}
END_TEST

/* gfx10's have other fields, and waves of 32 or 64. */
START_TEST(scratch_buffer)
{
    struct stage *t = stage("gfx1030", USER(4) | PRIVATE, EMU_KERNEL_PRIVATE_SEGMENT_BUFFER);
    t->kernel.wave_size = _i ? 64 : 32;
    t->slot.wg.n_waves = 1;
    t->l.scratch = t->scratch;
    t->l.scratch_per_wave = 64 * 16;
    emu_slot_start(&t->l, &t->slot, 0);
    const uint32_t *s = t->wave[0].s;
    ck_assert_uint_eq(pair(s) & 0xffffffffffff, (uint64_t)(uintptr_t)t->scratch);
    ck_assert_uint_eq(s[1] >> 30, 2); /* swizzled */
    ck_assert_uint_eq(s[2], UINT32_MAX);
    ck_assert_uint_eq(s[3], _i ? 0x20e16fac : 0x20c16fac);
    free(t);
}
END_TEST

/* Preloaded arguments follow the other user SGPRs; workgroup ids follow all that rsrc2 counts. */
START_TEST(preloaded_arguments)
{
    struct stage *t = stage("gfx942", USER(7) | 1u << 8, EMU_KERNEL_KERNARG_PTR);
    for (uint32_t i = 0; i < 16; i++)
        memcpy(t->kernarg + 4 * i, &i, 4);
    t->slot.wg.n_waves = 1;
    t->kernel.preload_offset = 1;
    t->kernel.preload_length = 5;
    t->l.grid[1] = 9;
    emu_slot_start(&t->l, &t->slot, 6);
    const uint32_t *s = t->wave[0].s;
    ck_assert_uint_eq(pair(s), (uint64_t)(uintptr_t)t->kernarg);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(s[2 + i], 1 + i);
    ck_assert_uint_eq(s[7], 6); /* only y is asked for */
    free(t);
}
END_TEST

START_TEST(vector_registers)
{
    static const struct {
        const char *arch;
        int ids;
    } cases[] = { { "gfx908", 0 }, { "gfx908", 2 },  { "gfx90a", 0 }, { "gfx90a", 1 },
                  { "gfx942", 2 }, { "gfx1030", 1 }, { "gfx1100", 2 } };
    struct stage *t = stage(cases[_i].arch, IDS(cases[_i].ids), 0);
    uint32_t bx = 7, by = 5, bz = 4, n = bx * by * bz;
    uint32_t ws = (uint32_t)t->kernel.wave_size;
    t->l.block[0] = bx;
    t->l.block[1] = by;
    t->l.block[2] = bz;
    t->slot.wg.n_waves = (int)((n + ws - 1) / ws);
    emu_slot_start(&t->l, &t->slot, 0);
    for (uint32_t i = 0; i < n; i++) {
        const struct emu_wave *w = &t->wave[i / ws];
        uint32_t l = i % ws, x = i % bx, y = i / bx % by, z = i / bx / by;
        ck_assert_uint_eq(w->exec >> l & 1, 1);
        if (t->l.arch->packed_tid)
            ck_assert_uint_eq(w->v[0][l], x | (cases[_i].ids >= 1 ? y << 10 : 0) | (cases[_i].ids >= 2 ? z << 20 : 0));
        else {
            ck_assert_uint_eq(w->v[0][l], x);
            ck_assert_uint_eq(w->v[1][l], cases[_i].ids >= 1 ? y : 0);
            ck_assert_uint_eq(w->v[2][l], cases[_i].ids >= 2 ? z : 0);
        }
    }
    /* 140 work-items: what is left of the last wave is off */
    ck_assert_uint_eq(t->wave[n / ws].exec, (1ull << n % ws) - 1);
    free(t);
}
END_TEST

/* Figures of the architectures' guides. */
START_TEST(occupancy)
{
    static const struct {
        const char *arch;
        int vgprs, sgprs, wave, threads;
        uint32_t lds, rsrc1;
        int cus, groups;
    } cases[] = {
        { "gfx90a", 64, 32, 64, 64, 0, 0, 1, 32 },      /* 8 waves a SIMD */
        { "gfx90a", 65, 32, 64, 256, 0, 0, 1, 7 },      /* 72 registers: 7 */
        { "gfx942", 512, 32, 64, 256, 0, 0, 304, 304 }, /* one wave a SIMD */
        { "gfx942", 128, 32, 64, 256, 32768, 0, 304, 608 },
        { "gfx90a", 24, 102, 64, 64, 0, 0, 1, 28 },  /* 800 SGPRs a SIMD, in 16s: 7 waves */
        { "gfx942", 24, 16, 64, 128, 0, 0, 1, 16 },  /* 16 barriers a CU */
        { "gfx942", 256, 16, 64, 1024, 0, 0, 1, 0 }, /* 16 waves of 256 registers are too many */
        { "gfx1100", 96, 106, 32, 32, 0, 0, 1, 32 }, /* 16 waves a SIMD */
        { "gfx1100", 256, 106, 32, 256, 0, 0, 1, 1 },
        { "gfx1100", 96, 106, 32, 256, 65536, 1u << 29, 96, 96 }, /* WGP mode: 128 KiB for two CUs */
    };
    struct emu_kernel k = {
        .n_vgprs = cases[_i].vgprs, .n_sgprs = cases[_i].sgprs, .wave_size = cases[_i].wave, .rsrc1 = cases[_i].rsrc1
    };
    if (k.n_vgprs > 256) {
        k.n_agprs = k.n_vgprs - 256;
        k.n_vgprs = 256;
    }
    ck_assert_int_eq(emu_occupancy(emu_arch_find(cases[_i].arch), &k, cases[_i].cus, cases[_i].threads, cases[_i].lds),
                     cases[_i].groups);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_start");
    TCase *tc = test_case(s, "start", NULL, NULL);
    ADD_TESTS(tc, scalar_registers, preloaded_arguments);
    ADD_LOOPS(tc, 2, scratch_buffer);
    ADD_LOOPS(tc, 7, vector_registers);
    ADD_LOOPS(tc, 10, occupancy);
    return run_suite(s);
}
