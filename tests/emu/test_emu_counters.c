/* SPDX-License-Identifier: MIT
 *
 * The emulator's counters: small kernels of which every number is known by hand, on each architecture; the events for a
 * timing model. (What the programs print of it: test_emu_programs.c.) */
#include <jansson.h>

#include "dispatch/context.h"
#include "emu/count/counters.h"
#include "emu/count/events.h"
#include "emu/count/footprint.h"
#include "emu_counters_case.h"
#include "emu_counters_kernel.h"
#include "emu_kernel.h"
#include "tests/op_cases.h"
#include "tests/program.h"

START_TEST(classes_and_totals)
{
    setup(_i);
    addresses(0, 4);
    uint64_t before = emu_executed(), waves = 2 * 128 / WAVE, sum = 0;
    struct emu_counters c = count(NOTHING, 2, 128);
    for (int k = 0; k < EMU_CLASSES; k++)
        sum += c.by_class[k];
    EQ(c.launches, 1);
    EQ(c.workgroups, 2);
    EQ(c.waves, waves);
    EQ(c.instructions, sum);
    EQ(c.instructions, emu_executed() - before);
    EQ(c.by_class[EMU_VMEM_LOAD], waves);
    EQ(c.by_class[EMU_VMEM_STORE] + c.by_class[EMU_LDS] + c.by_class[EMU_MFMA] + c.by_class[EMU_TRANS], 0);
    EQ(c.barriers + c.sleeps + c.matrix + c.spin_iterations + c.lds_requests, 0);
    static const struct {
        int n;
        enum emu_class cls;
        int times;
    } cases[] = { { LOAD, EMU_VMEM_LOAD, 1 },     { STORE, EMU_VMEM_STORE, 1 }, { ATOMIC, EMU_VMEM_ATOMIC, 1 },
                  { SCALAR, EMU_SMEM, 1 },        { LDS_READ, EMU_LDS, 1 },     { LDS_WRITE, EMU_LDS, 1 },
                  { LDS_ADD, EMU_LDS_ATOMIC, 1 }, { TRANS, EMU_TRANS, 10 },     { MATRIX, EMU_MFMA, 3 },
                  { WALK, EMU_VMEM_LOAD, 10 } };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        c = own(cases[k].n, 2, 128);
        ck_assert_msg(c.by_class[cases[k].cls] == waves * (uint64_t)cases[k].times, "%s case %d: %s: %lld",
                      archs[arch].name, cases[k].n, emu_class_name(cases[k].cls), (long long)c.by_class[cases[k].cls]);
    }
    c = own(WAITS, 2, 128);
    EQ(c.sleeps, 3 * waves);
    EQ(c.barriers, 2 * waves);
    EQ(c.waitcnts, waves);
    /* Nothing is counted after the end, and the sums stay. */
    struct emu_counters kept, again;
    rfg_emu_count(&kept);
    launch(LOAD, 1, 64);
    rfg_emu_count(&again);
    ck_assert_mem_eq(&kept, &again, sizeof(kept));
}
END_TEST

START_TEST(lanes)
{
    setup(_i);
    struct emu_counters c = own(TRANS, 1, 64);
    EQ(c.by_class[EMU_TRANS], 10 * 64 / WAVE);
    EQ(c.active_lanes, c.vector * WAVE);
    EQ(c.vector_lanes, c.vector * WAVE);
    struct emu_counters some = count(TRANS_3_LANES, 1, (unsigned)WAVE), none = count(TRANS_3_LANES, 1, 0 + 1);
    EQ(some.by_class[EMU_TRANS], 10);
    EQ(none.by_class[EMU_TRANS], 10);
    /* A workgroup of one lane: all but the 10 in both have all lanes that there are. */
    EQ(some.active_lanes, (some.vector - 10) * WAVE + 30);
    EQ(none.active_lanes, none.vector);
    EQ(none.vector_lanes, none.vector * WAVE);
}
END_TEST

START_TEST(lines)
{
    setup(_i);
    static const struct {
        int n, first, stride;
        uint64_t bytes, lines64[2], lines128[2], unique64, unique128; /* [1]: for two waves of 32 */
    } cases[] = {
        { LOAD, 0, 4, 256, { 4, 4 }, { 2, 2 }, 4, 2 },
        { LOAD, 252, -4, 256, { 4, 4 }, { 2, 2 }, 4, 2 },
        { LOAD, 0, 8, 256, { 8, 8 }, { 4, 4 }, 8, 4 },
        { LOAD, 0, 64, 256, { 64, 64 }, { 32, 32 }, 64, 32 },
        { LOAD, 0, 128, 256, { 64, 64 }, { 64, 64 }, 64, 64 },
        { LOAD, 8, 0, 256, { 1, 2 }, { 1, 2 }, 1, 1 },
        { LOAD_X4, 0, 16, 1024, { 16, 16 }, { 8, 8 }, 16, 8 },
        { LOAD_X4, 4, 16, 1024, { 17, 18 }, { 9, 10 }, 17, 9 }, /* the last lane of each fourth line crosses */
        { STORE, 0, 4, 256, { 4, 4 }, { 2, 2 }, 4, 2 },
        { STORE, 64, 4, 256, { 4, 4 }, { 3, 4 }, 4, 3 },
        { ATOMIC, 0, 8, 256, { 8, 8 }, { 4, 4 }, 8, 4 },
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        addresses(cases[k].first, cases[k].stride);
        int w = WAVE == 32;
        struct emu_counters c = count(cases[k].n, 1, 64), none = count(NOTHING, 1, 64);
        struct emu_traffic *t = cases[k].n == STORE ? &c.stores : cases[k].n == ATOMIC ? &c.atomics : &c.loads;
        struct emu_traffic *base = cases[k].n == STORE    ? &none.stores
                                   : cases[k].n == ATOMIC ? &none.atomics
                                                          : &none.loads;
        ck_assert_msg(t->requests - base->requests == 64 / WAVE && t->bytes - base->bytes == cases[k].bytes &&
                          t->lines64 - base->lines64 == cases[k].lines64[w] &&
                          t->lines128 - base->lines128 == cases[k].lines128[w] &&
                          t->unique64 - base->unique64 == cases[k].unique64 &&
                          t->unique128 - base->unique128 == cases[k].unique128,
                      "%s, case %zu: requests %lld, bytes %lld, lines %lld %lld, unique %lld %lld", archs[arch].name, k,
                      (long long)(t->requests - base->requests), (long long)(t->bytes - base->bytes),
                      (long long)(t->lines64 - base->lines64), (long long)(t->lines128 - base->lines128),
                      (long long)(t->unique64 - base->unique64), (long long)(t->unique128 - base->unique128));
        EQ(c.unique64 - none.unique64, cases[k].unique64);
        EQ(c.unique128 - none.unique128, cases[k].unique128);
    }
    for (int l = 0; l < 64; l++) /* the order of the lanes is no matter */
        buffer[l] = 4 * (l * 29 % 64);
    struct emu_counters mixed = own(LOAD, 1, (unsigned)WAVE);
    EQ(mixed.loads.lines64, 4);
    EQ(mixed.loads.lines128, 2);
    EQ(mixed.loads.unique64, 4);
    /* Two workgroups load the same; two launches are two footprints. */
    addresses(0, 4);
    struct emu_counters c = own(LOAD, 2, 64);
    EQ(c.loads.lines64, 8);
    EQ(c.loads.unique64, 4);
    rfg_emu_count(NULL);
    launch(LOAD, 1, 64);
    launch(LOAD, 1, 64);
    rfg_emu_count(&c);
    EQ(c.launches, 2);
    EQ(c.loads.unique64, 2 * (4 + 4)); /* addresses, data */
    /* What is loaded and stored is one line of each kind, and one of any. */
    c = count(LOAD_STORE, 1, 64);
    EQ(c.loads.unique64, 8);
    EQ(c.stores.unique64, 4);
    EQ(c.unique64, c.loads.unique64 + c.scalar.unique64);
    c = own(SCALAR, 1, 64);
    EQ(c.scalar.requests, 64 / WAVE);
    EQ(c.scalar.bytes, 16 * 64 / WAVE);
    EQ(c.scalar.unique64, 1);
    EQ(c.unique64, 0); /* lanes load it too */
}
END_TEST

START_TEST(scratch)
{
    setup(_i);
    struct emu_counters c = own(SCRATCH, 1, 64);
    EQ(c.scratch_store_bytes, 256);
    EQ(c.scratch_load_bytes, 256);
    EQ(c.loads.bytes + c.stores.bytes + c.unique64, 0);
}
END_TEST

/* Cycles for 64 lanes; a wave of 32 is half of it. */
START_TEST(bank_conflicts)
{
    setup(_i);
    static const struct {
        int n, stride;
        uint64_t ideal, conflicts;
    } cases[] = {
        { LDS_READ, 4, 2, 0 },         { LDS_READ, 8, 2, 2 },       { LDS_READ, 128, 2, 62 },
        { LDS_READ, 132, 2, 0 },       { LDS_READ, 0, 2, 0 },       { LDS_READ, 64, 2, 30 },
        { LDS_WRITE, 4, 2, 0 },        { LDS_WRITE, 128, 2, 62 },   { LDS_WRITE, 132, 2, 0 },
        { LDS_READ_B64, 8, 4, 0 },     { LDS_READ_B64, 16, 4, 4 },  { LDS_READ_B128, 16, 8, 0 },
        { LDS_READ_B128, 64, 8, 24 },  { LDS_READ_B128, 80, 8, 0 }, { LDS_WRITE_B128, 16, 8, 0 },
        { LDS_WRITE_B128, 64, 8, 24 }, { LDS_ADD, 4, 2, 0 },        { LDS_ADD, 0, 2, 62 },
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        addresses(0, cases[k].stride);
        struct emu_counters c = own(cases[k].n, 1, (unsigned)WAVE);
        uint64_t bytes = c.lds_load_bytes + c.lds_store_bytes + c.lds_atomic_bytes;
        uint64_t each = cases[k].n == LDS_READ_B64                                    ? 8
                        : cases[k].n == LDS_READ_B128 || cases[k].n == LDS_WRITE_B128 ? 16
                                                                                      : 4;
        ck_assert_msg(c.lds_requests == 1 && bytes == each * WAVE && c.lds_ideal_cycles == cases[k].ideal * WAVE / 64 &&
                          c.lds_conflict_cycles == cases[k].conflicts * WAVE / 64,
                      "%s, case %d of stride %d: %lld bytes, %lld + %lld cycles", archs[arch].name, cases[k].n,
                      cases[k].stride, (long long)bytes, (long long)c.lds_ideal_cycles,
                      (long long)c.lds_conflict_cycles);
    }
    EQ(own(LDS_READ, 1, 64).lds_load_bytes, 256);
    EQ(own(LDS_WRITE, 1, 64).lds_store_bytes, 256);
    EQ(own(LDS_ADD, 1, 64).lds_atomic_bytes, 256);
    /* Each four lanes have a row of 128 bytes: its lower half for the first 16 lanes, the upper one for the others. So
     * lanes 0..3 and 20..23 don't conflict, 0..3 and 4..7 do. */
    for (int l = 0; l < 64; l++)
        buffer[l] = l / 4 * 128 + (l & 16 ? 64 : 0) + l % 4 * 16;
    EQ(own(LDS_READ_B128, 1, (unsigned)WAVE).lds_conflict_cycles, WAVE == 64 ? 0 : 4);
    EQ(own(LDS_WRITE_B128, 1, (unsigned)WAVE).lds_conflict_cycles, WAVE / 8);
    /* Few lanes: groups with none on are free. */
    addresses(0, 128);
    struct emu_counters c = own(LDS_READ, 1, 5);
    EQ(c.lds_ideal_cycles, 1);
    EQ(c.lds_conflict_cycles, 4);
}
END_TEST

/* Instructions that are more than one access. */
START_TEST(several_in_one)
{
    setup(_i);
    addresses(0, 8);
    struct emu_counters c = own(FLAT, 1, (unsigned)WAVE);
    EQ(c.by_class[EMU_FLAT_LOAD], 1);
    EQ(c.loads.requests, 1);
    EQ(c.loads.bytes, 4 * WAVE);
    EQ(c.loads.lines64, 8 * WAVE / 64);
    EQ(c.lds_requests, 0);
    c = own(LDS_READ2, 1, (unsigned)WAVE);
    EQ(c.by_class[EMU_LDS], 1);
    EQ(c.lds_requests, 2);
    EQ(c.lds_load_bytes, 8 * WAVE);
    EQ(c.lds_ideal_cycles, 2 * WAVE / 32);
    EQ(c.lds_conflict_cycles, 2 * WAVE / 32);
    c = own(LOAD_TO_LDS, 1, (unsigned)WAVE);
    EQ(c.loads.bytes, _i == 1 ? 256 : 0);
    EQ(c.loads.lines64, _i == 1 ? 8 : 0);
    EQ(c.lds_store_bytes, _i == 1 ? 256 : 0);
    EQ(c.lds_ideal_cycles, _i == 1 ? 2 : 0);
    EQ(c.lds_conflict_cycles, 0);
}
END_TEST

START_TEST(matrices)
{
    static const struct {
        const char *shape;
        unsigned cycles;
    } expected[N_ARCHS] = { { "mfma_f32_32x32x8f16", 64 },
                            { "mfma_f32_32x32x8_f16", 32 },
                            { "wmma_f32_16x16x16_f16", 32 } };
    setup(_i);
    struct emu_counters c = own(MATRIX, 2, 64);
    EQ(c.matrix, 2 * 3 * 64 / WAVE);
    EQ(c.matrix_cycles, c.matrix * expected[_i].cycles);
    for (int row = 0; emu_matrix_name(row); row++)
        EQ(c.by_matrix[row], strcmp(emu_matrix_name(row), expected[_i].shape) ? 0 : c.matrix);
}
END_TEST

START_TEST(every_matrix_instruction_has_cycles)
{
    int n = 0, rows = 0;
    for (const struct emu_op *op = emu_op_next(NULL); op; op = emu_op_next(op)) {
        if (op->cls != EMU_MFMA)
            continue;
        int row = emu_matrix_find(op->name, 0x1100);
        row = row < 0 ? emu_matrix_find(op->name, 0x1200) : row;
        n++;
        ck_assert_msg(row >= 0, "%s isn't in the table of matrix_cycles.c", op->name);
        ck_assert_str_eq(emu_matrix_name(row), op->name + 2);
        ck_assert_msg(emu_matrix_cycles(row) >= 8 && emu_matrix_cycles(row) <= 64 && emu_matrix_cycles(row) % 4 == 0,
                      "%s: %u cycles", op->name, emu_matrix_cycles(row));
    }
    ck_assert_int_ge(n, 60);
    for (; emu_matrix_name(rows); rows++) {
        char name[80];
        snprintf(name, sizeof(name), "v_%s", emu_matrix_name(rows));
        name[strlen(name) - (strstr(name, "_gfx12") ? 6 : 0)] = 0;
        ck_assert(emu_matrix_find(name, 0x1100) == rows || emu_matrix_find(name, 0x1200) == rows); /* each once */
        name[strcspn(name, " ")] = 0; /* "with 8 bits", "of gfx950" */
        ck_assert_msg(emu_op_find(name) != NULL, "%s is no instruction", name);
    }
    ck_assert_int_eq(emu_matrix_find("v_add_f32", 0x1200), -1);
    ck_assert_uint_eq(emu_matrix_cycles(rows), 0);
}
END_TEST

START_TEST(branches_and_spins)
{
    setup(_i);
    addresses(0, 4);
    uint64_t waves = 128 / WAVE;
    static const int loops[] = { LOOP, SPIN, WALK };
    for (int k = 0; k < 3; k++) {
        buffer[DATA - 1] = 10;
        struct emu_counters few = count(loops[k], 1, 128);
        buffer[DATA - 1] = 35;
        struct emu_counters more = count(loops[k], 1, 128);
        EQ(more.branches_taken - few.branches_taken, 25 * waves);
        EQ(few.spin_iterations, loops[k] == SPIN ? 9 * waves : 0); /* WALK's address moves */
        EQ(more.spin_iterations, loops[k] == SPIN ? 34 * waves : 0);
    }
    /* The first workgroup waits for the second, in one thread: it spins until its turn is over. */
    setenv("RFG_EMU_THREADS", "1", 1);
    buffer[1500] = 0;
    struct emu_counters c = own(FLAG, 2, 64);
    ck_assert_uint_gt(c.spin_iterations, 0);
    ck_assert_uint_ge(c.branches_taken, c.spin_iterations);
    EQ(own(FLAG, 2, 64).spin_iterations, 0); /* the flag is there */
    c = own(DUAL, 2, 64);
    EQ(c.dual_issued, _i == 2 ? 5 * 4 : 0);
    EQ(c.by_class[EMU_VALU], _i == 2 ? 10 * 4 : 0);
}
END_TEST

/* ---- occupancy --------------------------------------------------------------------------------------------------- */

START_TEST(occupancy)
{
    static const struct {
        const char *arch;
        int threads, wave, vgprs, agprs, sgprs;
        uint32_t lds;
        bool wgp;
        int groups, waves;
        unsigned limits;
    } cases[] = {
        { "gfx90a", 64, 64, 32, 0, 32, 0, false, 32, 32, EMU_LIMIT_WAVES },
        { "gfx90a", 256, 64, 64, 0, 32, 0, false, 8, 32, EMU_LIMIT_WAVES | EMU_LIMIT_VGPRS },
        { "gfx90a", 256, 64, 72, 0, 32, 0, false, 7, 28, EMU_LIMIT_VGPRS },
        { "gfx90a", 256, 64, 128, 128, 32, 0, false, 2, 8, EMU_LIMIT_VGPRS },
        { "gfx90a", 256, 64, 256, 256, 32, 0, false, 1, 4, EMU_LIMIT_VGPRS },
        { "gfx90a", 64, 64, 200, 0, 32, 0, false, 8, 8, EMU_LIMIT_VGPRS },
        { "gfx90a", 256, 64, 32, 0, 112, 0, false, 7, 28, EMU_LIMIT_SGPRS },
        { "gfx90a", 128, 64, 32, 0, 32, 0, false, 16, 32, EMU_LIMIT_WAVES | EMU_LIMIT_BARRIERS },
        { "gfx942", 256, 64, 64, 0, 32, 16384, false, 4, 16, EMU_LIMIT_LDS },
        { "gfx942", 256, 64, 64, 0, 32, 16385, false, 3, 12, EMU_LIMIT_LDS },
        { "gfx942", 256, 64, 128, 0, 32, 16384, false, 4, 16, EMU_LIMIT_LDS | EMU_LIMIT_VGPRS },
        { "gfx942", 1024, 64, 256, 0, 32, 0, false, 0, 0, EMU_LIMIT_VGPRS },
        { "gfx1100", 128, 32, 96, 0, 106, 0, false, 8, 32, EMU_LIMIT_WAVES | EMU_LIMIT_VGPRS },
        { "gfx1100", 128, 32, 97, 0, 106, 0, true, 12, 48, EMU_LIMIT_VGPRS },
        { "gfx1100", 128, 32, 96, 0, 106, 16384, true, 8, 32, EMU_LIMIT_LDS },
        { "gfx1100", 32, 32, 24, 0, 106, 0, false, 32, 32, EMU_LIMIT_WAVES },
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct emu_kernel kernel = { .wave_size = cases[k].wave,
                                     .n_vgprs = cases[k].vgprs,
                                     .n_agprs = cases[k].agprs,
                                     .n_sgprs = cases[k].sgprs,
                                     .rsrc1 = (uint32_t)cases[k].wgp << 29 };
        struct emu_residency r;
        emu_residency(emu_arch_find(cases[k].arch), &kernel, cases[k].threads, cases[k].lds, &r);
        ck_assert_msg(r.groups == cases[k].groups && r.waves == cases[k].waves && r.limits == cases[k].limits &&
                          r.wgp == cases[k].wgp && r.simds == (cases[k].arch[3] == '9' || r.wgp ? 4 : 2),
                      "case %zu: %d groups, %d waves, %d SIMDs, limits 0x%x", k, r.groups, r.waves, r.simds, r.limits);
    }
}
END_TEST

START_TEST(kernels_are_listed)
{
    const struct emu_kernel_use *list;
    struct emu_counters c;
    setup(_i);
    rfg_emu_count(NULL);
    launch(NOTHING, 3, 128);
    launch(NOTHING, 2, 128);
    launch(NOTHING, 1, 64);
    rfg_emu_count(&c);
    ck_assert_int_eq(rfg_emu_count_kernels(&list), 2);
    ck_assert_str_eq(list[0].name, "k");
    EQ(list[0].launches, 2);
    EQ(list[0].workgroups, 5);
    EQ(list[1].workgroups, 1);
    EQ(list[0].threads, 128);
    EQ(list[0].waves, 128 / WAVE);
    EQ(list[0].static_lds, 0);
    EQ(list[0].dynamic_lds, 32768);
    ck_assert_int_ge((int)list[0].scratch, 16);
    EQ(list[0].at.groups, _i == 2 && list[0].at.wgp ? 4 : 2); /* by LDS */
    EQ(list[0].at.limits, EMU_LIMIT_LDS);
    rfg_emu_count(NULL);
    rfg_emu_count(&c);
    ck_assert_int_eq(rfg_emu_count_kernels(&list), 0);
}
END_TEST

static void *touch(void *arg)
{
    struct emu_footprint_page *last = NULL;
    for (uint64_t k = 0; k < 20000; k++) {
        emu_footprint_touch(arg, &last, EMU_TOUCH_LOAD, 7 * k % 5000);         /* 5000 lines */
        emu_footprint_touch(arg, &last, EMU_TOUCH_STORE, 1 << 30 | k / 2 * 2); /* each other one of 20000 */
        emu_footprint_touch(arg, &last, EMU_TOUCH_ATOMIC, k << 34);            /* pages of one bucket, or nearly */
    }
    return NULL;
}

START_TEST(footprints)
{
    struct emu_footprint *f = emu_footprint_create();
    uint64_t lines64[EMU_TOUCHES + 1], lines128[EMU_TOUCHES + 1];
    pthread_t thread[4];
    ck_assert_ptr_nonnull(f);
    for (int k = 0; k < 4; k++)
        ck_assert_int_eq(pthread_create(&thread[k], NULL, touch, f), 0);
    for (int k = 0; k < 4; k++)
        pthread_join(thread[k], NULL);
    ck_assert(emu_footprint_sum(f, lines64, lines128));
    EQ(lines64[EMU_TOUCH_LOAD], 5000);
    EQ(lines128[EMU_TOUCH_LOAD], 2500);
    EQ(lines64[EMU_TOUCH_STORE], 10000);
    EQ(lines128[EMU_TOUCH_STORE], 10000);
    EQ(lines64[EMU_TOUCH_ATOMIC], 20000);
    EQ(lines64[EMU_TOUCH_SCALAR], 0);
    EQ(lines64[EMU_TOUCHES], 5000 + 10000 + 20000 - 1); /* line 0 by two kinds */
    emu_footprint_destroy(f);
}
END_TEST

/* ---- the L2 ------------------------------------------------------------------------------------------------------ */

/* 256 bytes that each workgroup loads: once for each XCD that has one. */
START_TEST(l2_of_a_launch)
{
    static const struct {
        unsigned groups;
        int lines[N_ARCHS];
    } cases[] = { { 1, { 2, 2, 1 } }, { 5, { 2, 10, 1 } }, { 8, { 2, 16, 1 } }, { 40, { 2, 16, 1 } } };
    setup(_i);
    addresses(0, 4);
    EQ(own(LOAD, 8, 64).l2_asked, 0);
    setenv("RFG_EMU_L2", "on", 1);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct emu_counters c = own(LOAD, cases[k].groups, archs[_i].wave);
        EQ(c.l2_asked, cases[k].groups * WAVE * 4 / 128);
        EQ(c.l2_fetched, cases[k].lines[_i]);
    }
    static const char *const bad[] = { "0", "-1", "4M", "", "1048577" };
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        setenv("RFG_EMU_L2", bad[k], 1);
        EQ(count(LOAD, 1, 64).l2_asked, 0);
    }
    unsetenv("RFG_EMU_L2");
}
END_TEST

/* ---- whoever runs it, and what it leaves ------------------------------------------------------------------------- */

START_TEST(the_same_however_it_runs)
{
    setup(_i);
    addresses(0, 4);
    static const int cases[] = { LOAD, STORE, LDS_READ, TRANS_3_LANES, WALK, WAITS, SCRATCH, LOAD_STORE };
    setenv("RFG_EMU_L2", "1", 1);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        setenv("RFG_EMU_THREADS", "1", 1);
        struct emu_counters one = count(cases[k], 40, 128);
        setenv("RFG_EMU_THREADS", "8", 1);
        struct emu_counters eight = count(cases[k], 40, 128);
        setenv("RFG_EMU_SCHEDULE", "7", 1);
        struct emu_counters shuffled = count(cases[k], 40, 128);
        unsetenv("RFG_EMU_SCHEDULE");
        ck_assert_msg(!memcmp(&one, &eight, sizeof(one)), "%s, case %d: threads", archs[arch].name, cases[k]);
        ck_assert_msg(!memcmp(&one, &shuffled, sizeof(one)), "%s, case %d: schedule", archs[arch].name, cases[k]);
        if (cases[k] == LOAD_STORE || cases[k] == STORE)
            continue; /* races */
        setenv("RFG_EMU_CHECKS", "usual", 1);
        struct emu_counters checked = count(cases[k], 40, 128);
        setenv("RFG_EMU_CHECKS", "0", 1);
        ck_assert_msg(!memcmp(&one, &checked, sizeof(one)), "%s, case %d: checks", archs[arch].name, cases[k]);
    }
    unsetenv("RFG_EMU_L2");
    EQ(emu_reports(NULL), 0);
    /* One workgroup's own: 64 lanes add 1 each, counted or not. */
    memset(buffer + DATA, 0, 1024);
    launch(LOAD_STORE, 1, 64);
    ck_assert_int_eq(buffer[DATA + 63], 1);
    count(LOAD_STORE, 1, 64);
    ck_assert_int_eq(buffer[DATA + 63], 2);
    ck_assert_int_eq(buffer[DATA + 64], 0);
}
END_TEST

/* A launch that ends badly is counted as far as it came. */
START_TEST(a_fault_is_counted)
{
    setup(_i);
    struct emu_counters c;
    void *p = buffer, *params[] = { &p, &(int){ LOAD } };
    addresses(1 << 28, 4);
    rfg_emu_count(NULL);
    ck_assert_int_ne(hip->hipModuleLaunchKernel(fn, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL), hipSuccess);
    rfg_emu_count(&c);
    EQ(c.launches, 1);
    EQ(c.waves, 64 / WAVE);      /* those that began */
    EQ(c.loads.bytes, WAVE * 4); /* of the first wave: the addresses */
    ck_assert_uint_gt(c.instructions, 0);
}
END_TEST

/* ---- events ------------------------------------------------------------------------------------------------------ */

static struct seen {
    struct emu_event e;
    uint32_t address, group;
    int wave;
    uint64_t line;
} seen[4000];
static int n_seen;

static void record(void *to, const struct emu_event *e)
{
    ck_assert_ptr_eq(to, &n_seen);
    ck_assert_int_lt(n_seen, 4000);
    seen[n_seen] = (struct seen){ *e, e->inst ? e->inst->address : 0, e->wg ? e->wg->id[0] : 0,
                                  e->wave ? e->wave->index : -1, e->n_lines ? e->lines[0] : 0 };
    if (e->kind == EMU_EVENT_ISSUE)
        ck_assert(e->effect != NULL && e->inst->op != NULL);
    n_seen++;
}

static void same_thread(void *to, const struct emu_event *e)
{
    (void)e;
    ck_assert(pthread_equal(*(pthread_t *)to, pthread_self()));
}

/* The wave's events from `from` on; -1: none left. */
static int next_of(int from, uint32_t group, int wave)
{
    while (from < n_seen && (seen[from].group != group || seen[from].wave != wave))
        from++;
    return from < n_seen ? from : -1;
}

static void check_wave(uint32_t group, int wave, bool stores)
{
    int at = next_of(0, group, wave), issued = 0, memory = 0, last = -1;
    ck_assert_int_eq(seen[at].e.kind, EMU_EVENT_WAVE_BEGIN);
    for (at = next_of(at + 1, group, wave); at >= 0; last = at, at = next_of(at + 1, group, wave)) {
        const struct emu_event *e = &seen[at].e;
        if (e->kind == EMU_EVENT_WAVE_END) {
            ck_assert_str_eq(seen[last].e.inst->op->name, "s_endpgm");
            break;
        }
        if (e->kind == EMU_EVENT_MEMORY) { /* right after its instruction, with nothing of any other wave between */
            memory++;
            ck_assert_int_eq(seen[at - 1].e.kind, EMU_EVENT_ISSUE);
            ck_assert_ptr_eq(seen[at - 1].e.inst, e->inst);
            ck_assert_int_eq(seen[at - 1].wave, wave);
            ck_assert_uint_eq(seen[at - 1].group, group);
            continue;
        }
        ck_assert_int_eq(e->kind, EMU_EVENT_ISSUE);
        if (issued++ && seen[last].e.kind == EMU_EVENT_ISSUE && seen[last].e.inst->op->cls != EMU_BRANCH)
            ck_assert_ptr_eq(e->inst, seen[last].e.inst + 1);
    }
    ck_assert_int_ge(at, 0);
    ck_assert_int_eq(next_of(at + 1, group, wave), -1);
    int expected = 0;
    for (int k = 0; k < n_seen; k++) /* those of the class */
        expected += seen[k].e.kind == EMU_EVENT_ISSUE && seen[k].group == group && seen[k].wave == wave &&
                    (seen[k].e.inst->op->cls == EMU_SMEM || seen[k].e.inst->op->cls == EMU_VMEM_LOAD ||
                     seen[k].e.inst->op->cls == EMU_VMEM_STORE);
    ck_assert_int_eq(memory, expected);
    ck_assert(memory >= 2 + stores);
}

START_TEST(events)
{
    setup(_i);
    addresses(0, 4);
    struct emu_event_sink sink = { record, &n_seen };
    setenv("RFG_EMU_THREADS", "4", 1);
    rfg_emu_events(&sink);
    struct emu_counters c = count(STORE, 2, 64);
    rfg_emu_events(NULL);
    int waves = 64 / (int)WAVE, issues = 0, stores = 0, all = n_seen;
    ck_assert_int_eq(seen[0].e.kind, EMU_EVENT_LAUNCH_BEGIN);
    ck_assert_int_eq(seen[n_seen - 1].e.kind, EMU_EVENT_LAUNCH_END);
    for (uint32_t g = 0; g < 2; g++)
        for (int w = 0; w < waves; w++)
            check_wave(g, w, true);
    for (int k = 0; k < n_seen; k++) {
        issues += seen[k].e.kind == EMU_EVENT_ISSUE;
        if (seen[k].e.kind == EMU_EVENT_MEMORY && seen[k].e.inst->op->cls == EMU_VMEM_STORE) {
            stores++;
            ck_assert_uint_eq(seen[k].e.n_lines, WAVE * 4 / 64);
            ck_assert_uint_eq(seen[k].line,
                              ((uint64_t)(uintptr_t)(buffer + DATA) + 4 * WAVE * (uint64_t)seen[k].wave) / 64);
        }
    }
    EQ(c.instructions, issues);
    EQ(2 * waves, stores);
    launch(STORE, 1, 64);
    ck_assert_int_eq(n_seen, all); /* nobody listens */
    /* Waits, matrix cycles, LDS cycles and barriers; without any count. The order is the same again. */
    n_seen = 0;
    rfg_emu_events(&sink);
    launch(WAITS, 1, 128);
    int barriers = 0, between = 0, waits = 0;
    for (int k = 0; k < n_seen; k++) {
        barriers += seen[k].e.kind == EMU_EVENT_BARRIER;
        if (seen[k].e.kind == EMU_EVENT_ISSUE && !strcmp(seen[k].e.inst->op->name, "s_barrier")) {
            between++;
            ck_assert_int_eq(barriers, (between - 1) / (128 / (int)WAVE)); /* all waves come before it is passed */
        }
        waits += seen[k].e.kind == EMU_EVENT_ISSUE && (seen[k].e.inst->wait >> EMU_WAIT_VM & 255) == 1;
    }
    ck_assert_int_eq(barriers, 2);
    ck_assert_int_ge(waits, 128 / (int)WAVE);
    n_seen = 0;
    addresses(0, 128);
    launch(LDS_READ, 1, (unsigned)WAVE);
    launch(MATRIX, 1, (unsigned)WAVE);
    rfg_emu_events(NULL);
    unsigned lds = 0, conflicts = 0, matrix = 0;
    for (int k = 0; k < n_seen; k++) {
        lds += seen[k].e.lds_cycles;
        conflicts += seen[k].e.lds_conflicts;
        matrix += seen[k].e.matrix_cycles;
    }
    pthread_t self = pthread_self();
    rfg_emu_events(&(struct emu_event_sink){ same_thread, &self });
    launch(LOOP, 200, 128);
    rfg_emu_events(NULL);
    EQ(lds, WAVE);
    EQ(conflicts, WAVE - WAVE / 32);
    EQ(matrix, _i == 0 ? 192 : 96);
}
END_TEST

/* ---- JSON and text ----------------------------------------------------------------------------------------------- */

/* Every member has a number of its own, which must be in both. */
START_TEST(all_counters_are_printed)
{
    struct emu_counters c;
    uint64_t *n = (uint64_t *)&c;
    char *text = NULL, number[40];
    size_t size, members = sizeof(c) / sizeof(*n);
    for (size_t k = 0; k < members; k++)
        n[k] = 7000001 + 3 * k;
    struct emu_kernel_use use = { "the_kernel", 8000001, 8000002, 8000003, 8000004,
                                  8000005,      8000006, 8000007, 8000008, 8000009,
                                  8000010,      8000011, 8000012, 8000013, { 8000014, 24, 4, false, 31 } };
    json_t *j = emu_counters_json(&c, &use, 1);
    char *json = json_dumps(j, 0);
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    emu_counters_print(f, &c, &use, 1);
    fclose(f);
    for (size_t k = 0; k < members; k++) {
        size_t row = k - offsetof(struct emu_counters, by_matrix) / sizeof(*n);
        if (k >= offsetof(struct emu_counters, by_matrix) / sizeof(*n) && row < EMU_MATRIX_ROWS &&
            !emu_matrix_name((int)row))
            continue; /* room in the table */
        snprintf(number, sizeof(number), "%llu", (unsigned long long)n[k]);
        ck_assert_msg(strstr(json, number) != NULL, "member %zu isn't in the JSON", k);
        ck_assert_msg(strstr(text, number) != NULL, "member %zu isn't in the text", k);
    }
    for (int k = 8000001; k <= 8000014; k++) {
        snprintf(number, sizeof(number), "%d", k);
        ck_assert_msg(strstr(json, number) && strstr(text, number), "%s of the kernel isn't printed", number);
    }
    static const char *const words[] = { "the_kernel", "waves", "vgprs", "sgprs", "lds", "barriers" };
    for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
        ck_assert_msg(strstr(json, words[k]) && strstr(text, words[k]), "%s", words[k]);
    ck_assert_uint_eq(json_array_size(json_object_get(j, "kernels")), 1);
    json_t *per_simd = json_object_get(json_array_get(json_object_get(j, "kernels"), 0), "waves_per_simd");
    ck_assert(json_real_value(per_simd) == 6.0);
    PRINTS(text, "6 waves per SIMD");
    free(text);
    free(json);
    json_decref(j);
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    Suite *s = suite_create("emu_counters");
    TCase *tc = test_case(s, "emu", NULL, NULL);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, every_matrix_instruction_has_cycles, occupancy, footprints, all_counters_are_printed);
    ADD_LOOPS(tc, N_ARCHS, classes_and_totals, lanes, lines, scratch, bank_conflicts, several_in_one, matrices,
              branches_and_spins, kernels_are_listed, l2_of_a_launch, the_same_however_it_runs, a_fault_is_counted,
              events);
    return run_suite(s);
}
