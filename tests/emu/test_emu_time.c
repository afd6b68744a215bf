/* SPDX-License-Identifier: MIT
 *
 * The model of time (emu/time) on programs of a few instructions, whose cycles are worked out by hand; and on a kernel
 * that the emulator runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emu/time/simulate.h"
#include "emu_kernel.h"
#include "tests/suite.h"

/* One CU of four SIMDs, one XCD. Parameters that don't matter to a case are 0 or 1. */
#define MOST 512
static struct emu_time_inst inst[MOST];
static struct emu_time_run run[4];
static struct emu_time_path path[4];
static struct emu_time_wave wave[64];
static struct emu_time_group group[16];
static struct emu_time_access access_[MOST];
static uint64_t line[MOST];
static struct emu_time_block block = { 0, UINT64_MAX, 1 };
static struct emu_time_trace t;
static struct emu_time_params p;

static void begin(void)
{
    memset(inst, 0, sizeof(inst));
    memset(access_, 0, sizeof(access_));
    t = (struct emu_time_trace){ .gfx = 0x942,
                                 .cu_count = 1,
                                 .xcds = 1,
                                 .simds = 4,
                                 .wave_size = 64,
                                 .waves = 1,
                                 .units = 1,
                                 .groups_a_unit = 8,
                                 .n_workgroups = 1,
                                 .on_xcd = 1,
                                 .inst = inst,
                                 .run = run,
                                 .path = path,
                                 .wave = wave,
                                 .group = group,
                                 .access = access_,
                                 .line = line,
                                 .block = &block,
                                 .n_runs = 1,
                                 .n_paths = 1,
                                 .n_waves = 1,
                                 .n_groups = 1,
                                 .n_blocks = 1 };
    emu_time_defaults(0x942, 304, &p);
    p.dispatch_cycles = p.wave_start_cycles = p.barrier_cycles = p.launch_us = 0;
    p.fetch_cycles = 1; /* the least: of the first instruction, cycle 1 */
    p.clock_mhz = p.matrix_clock_mhz = 1000;
    p.mall_ns = 300;
    p.hbm_half = 1;
    p.hbm_ns = 500;
}

static struct emu_time_inst *add(enum emu_time_class cls, int cycles)
{
    struct emu_time_inst *i = &inst[t.n_inst];
    *i = (struct emu_time_inst){ .cls = (uint8_t)cls, .cycles = (uint16_t)cycles, .address = 0 };
    t.n_inst++;
    return i;
}

static void reads(struct emu_time_inst *i, unsigned reg, unsigned words, bool c)
{
    i->read[i->n_reads++] = (struct emu_time_range){ (uint16_t)reg, (uint8_t)words, c };
}

static void writes(struct emu_time_inst *i, unsigned reg, unsigned words)
{
    i->write[i->n_writes++] = (struct emu_time_range){ (uint16_t)reg, (uint8_t)words, 0 };
}

/* An instruction that accesses memory: n lines from `first` on. */
static void touches(enum emu_time_class cls, uint64_t first, unsigned n, unsigned lds_cycles)
{
    add(cls, 0);
    line[t.n_accesses] = first << 8 | n;
    access_[t.n_accesses] =
        (struct emu_time_access){ (uint8_t)lds_cycles, (uint8_t)(2 * n), n > 0, (uint32_t)t.n_accesses };
    t.n_accesses++;
}

static void waits(unsigned vm, unsigned lgkm)
{
    add(EMU_TIME_WAIT, 0)->wait = vm << EMU_WAIT_VM | lgkm << EMU_WAIT_LGKM;
}

/* groups workgroups of `waves` waves, each the whole program once. */
static struct emu_time_outcome simulate(int groups, int waves, bool cold)
{
    struct emu_time_outcome out;
    run[0] = (struct emu_time_run){ 0, (uint32_t)t.n_inst };
    path[0] = (struct emu_time_path){ 0, 1, 0 };
    t.waves = waves;
    t.n_groups = t.n_workgroups = t.on_xcd = (size_t)groups;
    t.n_waves = (size_t)(groups * waves);
    for (int i = 0; i < groups * waves; i++)
        wave[i] = (struct emu_time_wave){ 0, (uint32_t)t.n_accesses, 0 };
    for (int g = 0; g < groups; g++)
        group[g] = (struct emu_time_group){ (uint64_t)g, (size_t)(g * waves) };
    ck_assert(emu_time_simulate(
        &(struct emu_time_run_shape){ .t = &t, .p = &p, .mhz = p.clock_mhz, .cold = cold, .groups = t.n_groups },
        &out));
    return out;
}

#define CYCLES(groups, waves, expected)                                                                                \
    do {                                                                                                               \
        struct emu_time_outcome out_ = simulate(groups, waves, false), again_ = simulate(groups, waves, false);        \
        ck_assert_uint_eq(out_.cycles, expected);                                                                      \
        ck_assert_mem_eq(&out_, &again_, sizeof(out_));                                                                \
    } while (0)

/* A wave's instructions of a SIMD: 4 cycles each, 8 to one that depends on it. The first issues at cycle 1. */
START_TEST(valu)
{
    begin();
    for (int k = 0; k < 10; k++)
        writes(add(EMU_TIME_VALU, 0), EMU_VGPR + (unsigned)k, 1);
    CYCLES(1, 1, 1 + 10 * 4);
    for (int k = 1; k < 10; k++)
        reads(&inst[k], EMU_VGPR + (unsigned)k - 1, 1, false);
    CYCLES(1, 1, 1 + 9 * 8 + 4);
    CYCLES(1, 2, 1 + 9 * 8 + 4); /* on another SIMD */
    CYCLES(1, 4, 1 + 9 * 8 + 4);
    CYCLES(1, 8, 1 + 9 * 8 + 4 + 4); /* two on each SIMD: each in the other's gaps */
    for (int k = 1; k < 10; k++)
        inst[k].n_reads = 0;
    CYCLES(1, 8, 1 + 20 * 4);
    inst[5].cls = EMU_TIME_TRANS;
    CYCLES(1, 1, 1 + 9 * 4 + 16);
}
END_TEST

/* Matrix instructions: the core is busy with each; one that adds to the sum of the one before waits `forward` more, one
 * that multiplies it `tail`. What else the wave does fits between. */
START_TEST(matrix)
{
    begin();
    p.matrix_forward = 2;
    p.matrix_tail = 12;
    for (int k = 0; k < 8; k++)
        writes(add(EMU_TIME_MATRIX, 16), EMU_AGPR + 4 * (unsigned)k, 4);
    CYCLES(1, 1, 1 + 7 * 16 + 4);
    ck_assert_uint_eq(simulate(1, 1, false).matrix_cycles, 8 * 16);
    for (int k = 1; k < 8; k++)
        reads(&inst[k], EMU_AGPR + 4 * (unsigned)k - 4, 4, true);
    CYCLES(1, 1, 1 + 7 * 18 + 4);
    for (int k = 1; k < 8; k++)
        inst[k].read[0].is_c = false;
    CYCLES(1, 1, 1 + 7 * 28 + 4);
    begin();
    for (int k = 0; k < 8; k++) {
        add(EMU_TIME_MATRIX, 16);
        for (int i = 0; i < 3; i++)
            add(EMU_TIME_VALU, 0);
    }
    CYCLES(1, 1, 1 + 8 * 16);
    begin();
    p.scale_cycles = 4;
    for (int k = 0; k < 8; k++)
        add(EMU_TIME_MATRIX, 4)->address = 16 * (uint32_t)k; /* the last one's size isn't known */
    CYCLES(1, 1, 1 + 7 * 8 + 4);
}
END_TEST

/* LDS: 8 cycles of the CU, 16 of a SIMD pair's half, 48 more to the data; conflicts are cycles. */
START_TEST(lds)
{
    begin();
    p.lds_latency = 48;
    touches(EMU_TIME_LDS, 0, 0, 8);
    waits(0, 1);
    CYCLES(1, 1, 1 + 16 + 48 + 4);
    access_[0].lds_cycles = 64;
    CYCLES(1, 1, 1 + 128 + 48 + 4);
    access_[0].lds_cycles = 8;
    inst[1].wait = 0;
    for (int k = 0; k < 3; k++)
        touches(EMU_TIME_LDS, 0, 0, 8);
    waits(0, 2); /* all but the last */
    CYCLES(1, 1, 1 + 3 * 16 + 48 + 4);
    inst[5].wait = 1 << EMU_WAIT_LGKM;
    CYCLES(1, 1, 1 + 4 * 16 + 48 + 4);
    CYCLES(1, 2, 1 + 4 * 16 + 8 + 48 + 4); /* SIMDs 0 and 1 take turns at the LDS, and share no half */
    CYCLES(2, 1, 1 + 4 * 16 + 8 + 48 + 4);
}
END_TEST

/* A load: from the last cache, from memory; again from the L1, by another CU from the L2. */
START_TEST(memory)
{
    begin();
    p.l1_latency = 100;
    p.l2_latency = 200;
    p.l1_bytes = p.port_bytes = 64;
    p.l2_bytes = 128;
    p.mall_gbps = p.hbm_gbps = 128; /* a line a cycle */
    touches(EMU_TIME_LOAD, 1000, 1, 0);
    waits(1, 0);
    /* port 2, L2 1, fabric 1, then 300 ns */
    ck_assert_uint_eq(simulate(1, 1, false).cycles, 1 + 2 + 1 + 1 + 300 + 4);
    struct emu_time_outcome o = simulate(1, 1, true);
    ck_assert_uint_eq(o.cycles, 1 + 2 + 1 + 1 + 1 + 500 + 4);
    ck_assert(o.traffic.hbm_bytes == 128 && o.traffic.fabric_bytes == 128 && o.traffic.l2_bytes == 128);
    block.share = 8; /* seven other XCDs want it too */
    ck_assert(simulate(1, 1, true).traffic.hbm_bytes == 16);
    block.share = 1;
    touches(EMU_TIME_LOAD, 1000, 1, 0);
    waits(1, 0);
    ck_assert_uint_eq(simulate(1, 1, false).cycles, (1 + 2 + 1 + 1 + 300 + 4) + 4 + 100 + 4);
    ck_assert(simulate(1, 1, false).traffic.l2_bytes == 128);
    begin();
    p.l2_latency = 200;
    p.mall_gbps = 128;
    t.units = 2;
    t.groups_a_unit = 1;
    touches(EMU_TIME_LOAD, 1000, 1, 0);
    waits(1, 0);
    o = simulate(2, 1, false); /* both ask for it at once: it is fetched once */
    ck_assert(o.traffic.l2_bytes == 256 && o.traffic.fabric_bytes == 128);
}
END_TEST

/* Bandwidth: many lines take as long as the narrowest way needs for them. */
START_TEST(bandwidth)
{
    begin();
    p.hbm_gbps = 32; /* 4 cycles a line */
    for (int k = 0; k < 100; k++)
        touches(EMU_TIME_LOAD, 1000 + 8 * (uint64_t)k, 8, 0);
    waits(1, 0);
    struct emu_time_outcome o = simulate(1, 1, true);
    ck_assert_uint_ge(o.cycles, 800 * 4 + 500);
    ck_assert_uint_le(o.cycles, 800 * 4 + 500 + 40);
    p.hbm_half = 1.5; /* both halves of each 256 bytes: the same; one of them alone: more */
    ck_assert_uint_eq(simulate(1, 1, true).cycles, o.cycles);
    for (int k = 0; k < 100; k++)
        line[k] = (1000 + 2 * (uint64_t)k) << 8 | 1, access_[k].lines64 = 2;
    o = simulate(1, 1, true);
    ck_assert_uint_ge(o.cycles, 100 * 6 + 500);
    ck_assert_uint_le(o.cycles, 100 * 6 + 500 + 150); /* 64 loads under way at most */
    for (int k = 0; k < 100; k++)
        line[k] = (1000 + 8 * (uint64_t)k) << 8 | 8, access_[k].lines64 = 16;
    p.hbm_gbps = 1e6;
    p.mall_gbps = 1e6;
    p.miss_lines = 50; /* 50 lines under way at a time: 16 times 500 cycles */
    o = simulate(1, 1, true);
    ck_assert_uint_ge(o.cycles, 16 * 500);
    ck_assert_uint_le(o.cycles, 16 * 500 + 16 * 120);
}
END_TEST

/* A counter that waits for all but the n youngest, of more than it remembers. */
START_TEST(counters)
{
    begin();
    p.l1_latency = 1000;
    p.miss_lines = 1000;
    for (int k = 0; k < 100; k++)
        touches(EMU_TIME_LOAD, 7, 1, 0); /* at most 64 under way */
    struct emu_time_outcome all;
    waits(1, 0);
    all = simulate(1, 1, false);
    inst[100].wait = 21 << EMU_WAIT_VM;
    struct emu_time_outcome some = simulate(1, 1, false);
    ck_assert_uint_eq(all.cycles, some.cycles + 4); /* the launch ends with the last load, or the wait for it */
    ck_assert_uint_gt(all.stall[EMU_STALL_VMEM], some.stall[EMU_STALL_VMEM]);
    ck_assert_uint_eq(all.stall[EMU_STALL_VMEM] - some.stall[EMU_STALL_VMEM], 20 * 4);
}
END_TEST

/* The faster wave waits for the slower; waves of another workgroup don't. */
START_TEST(barrier)
{
    begin();
    p.barrier_cycles = 10;
    for (int k = 0; k < 10; k++)
        add(EMU_TIME_VALU, 0);
    add(EMU_TIME_BARRIER, 0);
    add(EMU_TIME_VALU, 0);
    CYCLES(1, 4, 1 + 10 * 4 + 4 + 10 + 4);
    CYCLES(1, 5, 1 + 20 * 4 + 4 + 10 + 8); /* the fifth is on a SIMD that has one: its first ten come in turns */
    struct emu_time_outcome o = simulate(1, 5, false);
    ck_assert_uint_gt(o.stall[EMU_STALL_BARRIER], 3 * 36);
}
END_TEST

/* Workgroups beyond what a CU holds come when one ends. */
START_TEST(rounds)
{
    begin();
    t.groups_a_unit = 2;
    for (int k = 0; k < 100; k++)
        writes(add(EMU_TIME_VALU, 0), EMU_VGPR, 1);
    for (int k = 1; k < 100; k++)
        reads(&inst[k], EMU_VGPR, 1, false);
    uint64_t one = simulate(1, 4, false).cycles, two = simulate(2, 4, false).cycles,
             three = simulate(3, 4, false).cycles;
    ck_assert_uint_le(two, one + 4); /* in the gaps */
    ck_assert_uint_ge(three, one + 99 * 8);
    /* the same by likeness: a launch of 7 rounds, of which 3 are in the trace */
    struct emu_time_result whole, alike;
    (void)simulate(14, 4, false);
    ck_assert(emu_time_estimate(&t, &p, EMU_TIME_WARM, NULL, &whole));
    (void)simulate(6, 4, false);
    t.n_workgroups = t.on_xcd = 14;
    ck_assert(emu_time_estimate(&t, &p, EMU_TIME_WARM, NULL, &alike));
    ck_assert_msg(fabs(whole.us - alike.us) < 0.01 * whole.us, "%g %g", whole.us, alike.us);
}
END_TEST

/* Code comes by lines: what lies behind is fetched with it. */
START_TEST(fetch)
{
    begin();
    p.fetch_cycles = 300;
    p.fetch_ahead = 1;
    for (int k = 0; k < 128; k++) /* 4 lines of 128 bytes */
        add(EMU_TIME_OTHER, 0)->address = 4 * (uint32_t)k;
    CYCLES(1, 1, 2 * 300 + 128 * 4);
    CYCLES(1, 4, 2 * 300 + 128 * 4); /* one fetch for all */
}
END_TEST

START_TEST(parameters)
{
    char error[200];
    emu_time_defaults(0x942, 80, &p);
    ck_assert(p.clock_mhz == 1420); /* MI308X */
    emu_time_defaults(0x950, 256, &p);
    ck_assert(p.clock_mhz == 2400);
    ck_assert(emu_time_set(&p, "clock_mhz=2000", error, sizeof(error)) && p.clock_mhz == 2000);
    ck_assert(!emu_time_set(&p, "clock=2000", error, sizeof(error)) && strstr(error, "no parameter 'clock'"));
    ck_assert(!emu_time_set(&p, "clock_mhz=fast", error, sizeof(error)) && strstr(error, "clock_mhz=NUMBER"));
    ck_assert(!emu_time_set(&p, "clock_mhz", error, sizeof(error)));
    ck_assert(!emu_time_set(&p, "clock_mhz=-1", error, sizeof(error)));
}
END_TEST

/* ---- a kernel that the emulator runs -------------------------------------------------------------------------------- */

static const char source[] = "extern \"C\" __attribute__((global)) void k(float *x, int n, unsigned from)\n"
                             "{\n"
                             "    int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();\n"
                             "    float a = x[i];\n"
                             "    for (int j = 0; j < n && __builtin_amdgcn_workgroup_id_x() >= from; j++)\n"
                             "        a = __builtin_fmaf(a, a, 1.0f);\n"
                             "    x[i] = a;\n"
                             "}\n";

static struct emu_time_trace *kept;
static void keep(void *to, struct emu_time_trace *trace)
{
    (void)to;
    emu_time_trace_free(kept);
    kept = trace;
}

static hipFunction_t fn;
static void launch(void *x, int n, unsigned groups, unsigned from)
{
    void *params[] = { &x, &n, &from };
    emu_time_record(3, keep, NULL);
    ck_assert_int_eq(hip->hipModuleLaunchKernel(fn, groups, 1, 1, 256, 1, 1, 0, NULL, params, NULL), hipSuccess);
    emu_time_record_end();
    ck_assert_ptr_nonnull(kept);
}

START_TEST(of_a_kernel)
{
    struct emu_time_result short_one, long_one, again;
    void *x;
    setenv("RFG_EMU_CHECKS", "0", 1); /* of what matrix instructions leave, checks would have much to say */
    emu_open_device("gfx942");
    ck_assert_int_eq(hip->hipModuleGetFunction(&fn, emu_build("gfx942", "k", source, NULL), "k"), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc(&x, 64 * 1024), hipSuccess);
    memset(x, 0, 64 * 1024);
    emu_time_defaults(0x942, 304, &p);
    launch(x, 100, 8, 0);
    ck_assert_uint_eq(kept->n_workgroups, 8);
    ck_assert_uint_eq(kept->n_paths, 1);                /* all waves go the same way */
    ck_assert_uint_ge(kept->unique, 8 * 256 * 4 / 128); /* and arguments */
    ck_assert_uint_le(kept->unique, 8 * 256 * 4 / 128 + 8);
    ck_assert(emu_time_estimate(kept, &p, EMU_TIME_COLD, NULL, &short_one));
    launch(x, 2100, 8, 0);
    ck_assert(emu_time_estimate(kept, &p, EMU_TIME_COLD, NULL, &long_one));
    ck_assert(emu_time_estimate(kept, &p, EMU_TIME_COLD, NULL, &again));
    ck_assert_mem_eq(&long_one, &again, sizeof(again));
    /* 2000 turns more of a dependent FMA and the loop's own three; one wave on each SIMD */
    ck_assert_msg(long_one.cycles - short_one.cycles >= 2000 * 8 && long_one.cycles - short_one.cycles < 2000 * 40,
                  "%g %g", short_one.cycles, long_one.cycles);
    /* Of several XCDs the last workgroup's counts: of split-K it adds what the others left. */
    launch(x, 2100, 13, 12);
    ck_assert(kept->xcds > 1 && emu_time_estimate(kept, &p, EMU_TIME_COLD, NULL, &again));
    ck_assert_msg(again.cycles - short_one.cycles >= 1500 * 8, "%g %g", short_one.cycles, again.cycles);
    launch(x, 2100, 8, 0);
    /* by a file */
    FILE *f = tmpfile();
    ck_assert(f && emu_time_trace_write(kept, f));
    rewind(f);
    struct emu_time_trace *read = emu_time_trace_read(f);
    ck_assert(read && emu_time_estimate(read, &p, EMU_TIME_COLD, NULL, &again));
    ck_assert_mem_eq(&long_one, &again, sizeof(again));
    emu_time_trace_free(read);
    /* a byte of any part is another one */
    for (long at = 0, end = ftell(f); at < end; at += end / 16) {
        ck_assert(!fseek(f, at, SEEK_SET));
        int c = fgetc(f);
        ck_assert(!fseek(f, at, SEEK_SET) && fputc(c ^ 4, f) == (c ^ 4));
        rewind(f);
        ck_assert_ptr_null(emu_time_trace_read(f));
        ck_assert(!fseek(f, at, SEEK_SET) && fputc(c, f) == c);
    }
    fclose(f);
    /* results are right again, of all workgroups, once nothing is recorded */
    int n = 1, from = 0;
    void *params[] = { &x, &n, &from };
    for (int i = 0; i < 64 * 256; i++)
        ((float *)x)[i] = 2;
    ck_assert_int_eq(hip->hipModuleLaunchKernel(fn, 64, 1, 1, 256, 1, 1, 0, NULL, params, NULL), hipSuccess);
    for (int i = 0; i < 64 * 256; i++)
        ck_assert(((float *)x)[i] == 5);
    keep(NULL, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_time");
    TCase *tc = test_case(s, "by_hand", NULL, NULL);
    ADD_TESTS(tc, valu, matrix, lds, memory, bandwidth, counters, barrier, rounds, fetch, parameters);
    if (!emu_is_there())
        return 77;
    tc = test_case(s, "kernel", NULL, NULL);
    ADD_TESTS(tc, of_a_kernel);
    return run_suite(s);
}
