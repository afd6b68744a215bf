/* SPDX-License-Identifier: MIT
 *
 * The emulator's memory and scheduler, with instructions written in C in place of an instruction set. */
#include "emu/run/front.h"
#include "tests/suite.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static struct emu_memory memory = { .limit = 1 << 30 };

static void expect_text(uint64_t address, const char *text)
{
    char buf[256];
    emu_memory_describe(&memory, address, buf, sizeof(buf));
    ck_assert_msg(strstr(buf, text) != NULL, "expected '%s' in '%s'", text, buf);
}

START_TEST(allocations)
{
    struct emu_block *b[100];
    char why[256];
    for (int i = 0; i < 100; i++) {
        size_t size = 1 + (size_t)i * 37;
        b[i] = emu_memory_alloc(&memory, size);
        ck_assert_ptr_nonnull(b[i]);
        ck_assert_uint_eq(b[i]->lo % 256, 0);
        ck_assert_uint_eq(b[i]->hi - b[i]->lo, size);
        ck_assert_uint_eq(*(uint8_t *)(uintptr_t)b[i]->lo, 0xFF);
    }
    for (int i = 0; i < 100; i++) {
        void *p = (void *)(uintptr_t)b[i]->lo;
        size_t size = b[i]->hi - b[i]->lo;
        ck_assert_ptr_eq(emu_memory_find(&memory, b[i]->lo), b[i]);
        ck_assert_ptr_eq(emu_memory_find(&memory, b[i]->hi - 1), b[i]);
        ck_assert(emu_memory_check(&memory, p, size, true, why, sizeof(why)));
        ck_assert(!emu_memory_check(&memory, p, size + 1, true, why, sizeof(why)));
        ck_assert(!emu_memory_check(&memory, (char *)p - 1, 1, true, why, sizeof(why)));
        for (int j = 0; j < i; j++) /* red zones between any two */
            ck_assert(b[i]->lo >= b[j]->hi + EMU_RED_ZONE || b[j]->lo >= b[i]->hi + EMU_RED_ZONE);
    }
    expect_text(b[7]->lo + 5, "byte 5 of allocation 8 (260 bytes");
    expect_text(b[7]->hi + 4, "4 bytes past the end of allocation 8 (260 bytes");
    expect_text(b[7]->lo - 16, "16 bytes before allocation 8 (260 bytes");
    expect_text(64, "nothing within");
    ck_assert_ptr_null(emu_memory_alloc(&memory, (size_t)1 << 30)); /* a little is taken already */
    emu_memory_destroy(&memory);
}
END_TEST

START_TEST(freeing)
{
    bool freed;
    struct emu_block *b = emu_memory_alloc(&memory, 1000), *c = emu_memory_alloc(&memory, 1000);
    void *p = (void *)(uintptr_t)b->lo;
    char why[256];
    ck_assert(!emu_memory_free(&memory, (char *)p + 16, &freed));
    ck_assert(!freed);
    ck_assert(emu_memory_free(&memory, p, &freed));
    ck_assert(!emu_memory_free(&memory, p, &freed));
    ck_assert(freed);
    ck_assert(!emu_memory_check(&memory, p, 1, false, why, sizeof(why)));
    ck_assert_msg(strstr(why, "freed allocation") != NULL, "%s", why);
    ck_assert_uint_eq(memory.allocated, 1000);
    /* Its addresses are not given out again soon; what quarantine costs is bounded. */
    for (int i = 0; i < 3000; i++) {
        struct emu_block *d = emu_memory_alloc(&memory, 5000);
        if (i < 500)
            ck_assert_uint_ne(d->lo, (uint64_t)(uintptr_t)p);
        ck_assert(emu_memory_free(&memory, (void *)(uintptr_t)d->lo, &freed));
    }
    ck_assert_int_lt(memory.n, 1100);
    ck_assert_int_eq(emu_reports(NULL), 0);
    ((char *)(uintptr_t)c->hi)[3] = 1; /* the host strays */
    ck_assert(emu_memory_free(&memory, (void *)(uintptr_t)c->lo, &freed));
    ck_assert_int_eq(emu_reports("red-zone-overwritten"), 1);
    emu_memory_destroy(&memory);
}
END_TEST

/* ---- a machine of C functions ------------------------------------------------------------------------------------ */

enum { MOST = 8, GROUPS = 1000 };

static struct machine {
    uint32_t text[MOST];
    struct emu_inst inst[MOST];
    int32_t at[MOST];
    struct emu_op op;
    struct emu_code code;
    struct emu_kernel kernel;
    struct emu_launch l;
    uint8_t kernarg[64];
} m;
static struct emu_mods no_mods;

static uint32_t *out; /* device memory of GROUPS words */

static void i_end(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    w->stop = EMU_END;
}

static void i_barrier(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    w->stop = EMU_BARRIER;
}

static void set_up(const char *arch, uint32_t groups, uint32_t threads, const emu_exec_fn *fns)
{
    m.op = (struct emu_op){ .name = "c_function", .sig = "", .cls = EMU_SALU };
    int n = 0;
    for (; fns[n]; n++) {
        m.text[n] = 0xBF800000; /* what a report shows: s_nop 0 */
        m.at[n] = n;
        m.inst[n] = (struct emu_inst){
            .fn = fns[n], .op = &m.op, .address = 4 * (uint32_t)n, .size = 4, .mods = &no_mods, .target = -1
        };
    }
    m.code.arch = emu_arch_find(arch);
    m.code.text_size = 4 * (uint64_t)n;
    m.code.program[0] = m.code.program[1] = (struct emu_program){ .arch = m.code.arch,
                                                                  .inst = m.inst,
                                                                  .n = n,
                                                                  .base = (uint64_t)(uintptr_t)m.text,
                                                                  .size = 4 * (size_t)n,
                                                                  .at = m.at };
    m.kernel.name = (char *)(uintptr_t) "test_kernel";
    m.kernel.wave_size = m.code.arch->wave_size;
    m.kernel.n_vgprs = 8;
    m.kernel.n_sgprs = 16;
    m.kernel.kernarg_bytes = 16;
    m.kernel.rsrc2 = 1 << 7;
    m.l.arch = m.code.arch;
    m.l.cu_count = 4;
    m.l.memory = &memory;
    m.l.code = &m.code;
    m.l.kernel = &m.kernel;
    m.l.kernarg = m.kernarg;
    for (int d = 0; d < 3; d++)
        m.l.grid[d] = m.l.block[d] = 1;
    m.l.grid[0] = groups;
    m.l.block[0] = threads;
    m.l.dynamic_lds = 256;
    out = (uint32_t *)(uintptr_t)emu_memory_alloc(&memory, GROUPS * sizeof(*out))->lo;
    memset(out, 0, GROUPS * sizeof(*out));
}

/* What a store of one lane goes through. */
static bool gate(struct emu_wave *w, const struct emu_inst *i, void *p, int bytes, enum emu_access_kind kind)
{
    struct emu_access a = {
        .space = EMU_GLOBAL, .kind = (uint8_t)kind, .bytes = (uint8_t)bytes, .align = 4, .lanes = 1
    };
    a.addr[0] = (uint64_t)(uintptr_t)p;
    return emu_access(w, i, &a) == 1;
}

static void i_mark(struct emu_wave *w, const struct emu_inst *i)
{
    if (gate(w, i, &out[w->wg->id[0]], 4, EMU_ATOMIC))
        __atomic_fetch_add(&out[w->wg->id[0]], 1, __ATOMIC_SEQ_CST);
}

static const char *threads_of[] = { "1", "2", "5" };

START_TEST(every_wave_of_every_group_runs)
{
    static const emu_exec_fn fns[] = { i_mark, i_barrier, i_mark, i_end, NULL };
    setenv("RFG_EMU_THREADS", threads_of[_i], 1);
    set_up("gfx90a", GROUPS, 3 * 64 + 1, fns);
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
    for (int g = 0; g < GROUPS; g++)
        ck_assert_uint_eq(out[g], 8);
    ck_assert_uint_eq(m.l.executed, 4 * 4 * GROUPS);
}
END_TEST

/* Workgroup g waits for g + 1: all must be there at once. */
static void wait_for_next(struct emu_wave *w, const struct emu_inst *i, bool sleep)
{
    uint32_t g = w->wg->id[0];
    if (g + 1 == w->launch->grid[0] || __atomic_load_n(&out[g + 1], __ATOMIC_SEQ_CST))
        return;
    w->pc = i;
    if (sleep)
        w->stop = EMU_YIELD;
}
static void i_wait(struct emu_wave *w, const struct emu_inst *i)
{
    wait_for_next(w, i, false);
}
static void i_wait_asleep(struct emu_wave *w, const struct emu_inst *i)
{
    wait_for_next(w, i, true);
}
static void i_store(struct emu_wave *w, const struct emu_inst *i)
{
    if (gate(w, i, &out[w->wg->id[0]], 4, EMU_STORE))
        __atomic_store_n(&out[w->wg->id[0]], 1, __ATOMIC_SEQ_CST);
}

START_TEST(groups_may_wait_for_each_other)
{
    static const emu_exec_fn busy[] = { i_wait, i_store, i_end, NULL },
                             asleep[] = { i_wait_asleep, i_store, i_end, NULL };
    setenv("RFG_EMU_THREADS", threads_of[_i % 3], 1);
    if (_i >= 6)
        setenv("RFG_EMU_SCHEDULE", "77", 1);
    set_up("gfx90a", 64, 256, _i % 6 < 3 ? asleep : busy); /* 4 CUs hold 8 of 4 waves each: just 32 */
    ck_assert_int_eq(emu_occupancy(m.l.arch, &m.kernel, 4, 256, 256), 32);
    m.l.grid[0] = 32;
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
    for (int g = 0; g < 32; g++)
        ck_assert_uint_eq(out[g], 1);
    ck_assert_int_eq(emu_reports(NULL), 0);
}
END_TEST

START_TEST(deadlock_is_reported)
{
    static const emu_exec_fn busy[] = { i_wait, i_store, i_end, NULL },
                             asleep[] = { i_wait_asleep, i_store, i_end, NULL };
    char text[1200];
    setenv("RFG_EMU_THREADS", threads_of[_i % 3], 1);
    setenv("RFG_EMU_MAX_SPIN", "1000000", 1);
    if (_i >= 6)
        setenv("RFG_EMU_SCHEDULE", "77", 1);
    set_up("gfx90a", 33, 256, _i % 6 < 3 ? asleep : busy); /* one more than the GPU holds */
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_FAILED);
    ck_assert_str_eq(atomic_load(&m.l.why), "deadlock");
    ck_assert_int_eq(emu_reports("deadlock"), 1);
    emu_reports_last(text, sizeof(text));
    ck_assert_msg(strstr(text, "128 waves of 32 workgroups") && strstr(text, "33 in the grid") &&
                      strstr(text, "test_kernel"),
                  "%s", text);
    /* The next launch is not the worse for it. */
    unsetenv("RFG_EMU_MAX_SPIN");
    m.l.grid[0] = 32;
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
}
END_TEST

/* Waves exchange data through LDS: wave 0 writes after a while, the others read behind the barrier. */
static void i_write_lds(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    if (w->index == 0)
        memcpy(w->wg->lds + 128, &w->wg->id[0], 4);
}
static void i_read_lds(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t v;
    memcpy(&v, w->wg->lds + 128, 4);
    if (v == w->wg->id[0])
        i_mark(w, i);
}
static void i_end_if_last(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    if (w->index == 3)
        w->stop = EMU_END;
}

START_TEST(barriers)
{
    /* The last wave ends early: the barrier is for those that are left. */
    static const emu_exec_fn fns[] = { i_write_lds, i_end_if_last, i_barrier, i_read_lds, i_barrier, i_end, NULL };
    if (_i) {
        char seed[8];
        snprintf(seed, sizeof(seed), "%d", _i);
        setenv("RFG_EMU_SCHEDULE", seed, 1);
    }
    set_up("gfx1100", 200, 128, fns);
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
    for (int g = 0; g < 200; g++)
        ck_assert_uint_eq(out[g], 3);
}
END_TEST

static uint32_t order[4096];
static int n_order;
static void i_order(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    order[n_order++] = w->wg->id[0] * 16 + (uint32_t)w->index;
}

START_TEST(seeds)
{
    static const emu_exec_fn fns[] = { i_order, i_order, i_order, i_barrier, i_order, i_end, NULL };
    static uint32_t first[4096], in_order[4096];
    setenv("RFG_EMU_THREADS", "1", 1);
    set_up("gfx90a", 100, 256, fns);
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
    ck_assert_int_eq(n_order, 1600);
    memcpy(in_order, order, sizeof(order));
    for (int seed = 0; seed < 5; seed++) {
        char text[8];
        snprintf(text, sizeof(text), "%d", seed);
        setenv("RFG_EMU_SCHEDULE", text, 1);
        for (int again = 0; again < 2; again++) {
            n_order = 0;
            ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
            ck_assert_int_eq(n_order, 1600);
            ck_assert_msg(!again == (memcmp(first, order, sizeof(order)) != 0), "seed %d, run %d", seed, again);
            ck_assert(memcmp(in_order, order, sizeof(order)) != 0);
            memcpy(first, order, sizeof(order));
        }
    }
}
END_TEST

START_TEST(turns)
{
    static const emu_exec_fn fns[] = { i_order, i_order, i_end, NULL };
    static const uint32_t whole[8] = { 0, 0, 1, 1, 2, 2, 3, 3 }, each[8] = { 0, 1, 2, 3, 0, 1, 2, 3 };
    setenv("RFG_EMU_THREADS", "1", 1);
    if (_i)
        setenv("RFG_EMU_TURN", "1", 1);
    set_up("gfx90a", 1, 256, fns);
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
    ck_assert_int_eq(n_order, 8);
    ck_assert_mem_eq(order, _i ? each : whole, sizeof(each));
}
END_TEST

/* ---- the gate ---------------------------------------------------------------------------------------------------- */

static uint64_t wanted_lanes, got_lanes;
static struct emu_access request;

static void i_access(struct emu_wave *w, const struct emu_inst *i)
{
    if (w->wg->id[0])
        return;
    struct emu_access a = request;
    got_lanes = emu_access(w, i, &a);
}

/* out has 4000 bytes. base is where lane 0's access begins; the others follow by stride. */
static const struct {
    const char *check; /* NULL: nothing wrong */
    const char *word;
    uint8_t space, kind, bytes, align;
    bool scalar, freed;
    int64_t base, stride;
    uint64_t lanes, good;
} accesses[] = {
    { NULL, "", EMU_GLOBAL, EMU_LOAD, 16, 16, false, false, 0, 48, ~0ull, ~0ull },
    { NULL, "", EMU_GLOBAL, EMU_STORE, 4, 4, false, false, 3996, -4, ~0ull, ~0ull },
    { NULL, "", EMU_GLOBAL, EMU_LOAD, 16, 4, true, false, 3984, 0, 1, 1 },
    { NULL, "", EMU_GLOBAL, EMU_STORE, 4, 4, false, false, 3996, 4, 1, 1 }, /* lanes that are off don't count */
    { NULL, "", EMU_LDS_SPACE, EMU_STORE, 4, 4, false, false, 252, -4, ~0ull, ~0ull },
    { NULL, "", EMU_SCRATCH, EMU_STORE, 4, 4, false, false, 12, 0, ~0ull, ~0ull },
    { "global-out-of-bounds", "0 bytes past the end of allocation", EMU_GLOBAL, EMU_STORE, 4, 4, false, false, 3996, 4,
      3, 1 },
    { "global-out-of-bounds", "0 bytes past the end of allocation", EMU_GLOBAL, EMU_LOAD, 16, 4, false, false, 3988, 0,
      1, 0 },
    { "global-out-of-bounds", "4 bytes before allocation", EMU_GLOBAL, EMU_LOAD, 4, 4, false, false, -4, 4, ~0ull,
      ~1ull },
    { "global-out-of-bounds", "past the end", EMU_GLOBAL, EMU_LOAD, 64, 4, true, false, 3940, 0, 1, 0 },
    { "use-after-free", "byte 8 of freed allocation", EMU_GLOBAL, EMU_LOAD, 4, 4, false, true, 8, 0, 7, 0 },
    { "misaligned", "must be 8-byte aligned", EMU_GLOBAL, EMU_ATOMIC, 8, 8, false, false, 16, 4, 15, 5 },
    { "lds-out-of-bounds", "offset 0x100", EMU_LDS_SPACE, EMU_LOAD, 4, 4, false, false, 252, 4, 3, 1 },
    { "lds-out-of-bounds", "256 bytes", EMU_LDS_SPACE, EMU_STORE, 8, 4, false, false, 252, 0, 1, 0 },
    { "scratch-out-of-bounds", "16 bytes", EMU_SCRATCH, EMU_STORE, 4, 4, false, false, 16, 0, ~0ull, 0 },
};

START_TEST(the_gate)
{
    static const emu_exec_fn fns[] = { i_access, i_end, NULL };
    char text[1200];
    bool freed;
    set_up("gfx90a", 2, 64, fns);
    m.kernel.scratch_bytes = 16;
    uint64_t base = accesses[_i].space == EMU_GLOBAL ? (uint64_t)(uintptr_t)out : 0;
    request = (struct emu_access){ .space = accesses[_i].space,
                                   .kind = accesses[_i].kind,
                                   .bytes = accesses[_i].bytes,
                                   .align = accesses[_i].align,
                                   .scalar = accesses[_i].scalar,
                                   .lanes = accesses[_i].lanes };
    for (int l = 0; l < 64; l++)
        request.addr[l] = base + (uint64_t)(accesses[_i].base + l * accesses[_i].stride);
    if (accesses[_i].freed)
        ck_assert(emu_memory_free(&memory, out, &freed));
    enum emu_result r = emu_launch_run(&m.l);
    ck_assert_uint_eq(got_lanes, accesses[_i].good);
    if (!accesses[_i].check) {
        ck_assert_int_eq(r, EMU_DONE);
        ck_assert_int_eq(emu_reports(NULL), 0);
        return;
    }
    ck_assert_int_eq(r, EMU_FAILED);
    ck_assert_int_eq(emu_reports(NULL), 1);
    ck_assert_int_eq(emu_reports(accesses[_i].check), 1);
    emu_reports_last(text, sizeof(text));
    ck_assert_msg(strstr(text, accesses[_i].word) && strstr(text, "kernel test_kernel") &&
                      strstr(text, "workgroup (0,0,0), wave 0"),
                  "'%s' in %s", accesses[_i].word, text);
}
END_TEST

/* Kernel arguments may be read, not written; constants neither. */
static void i_kernarg(struct emu_wave *w, const struct emu_inst *i)
{
    got_lanes = gate(w, i, m.kernarg, 4, EMU_LOAD) && gate(w, i, m.kernarg + 60, 4, EMU_LOAD);
    wanted_lanes = gate(w, i, m.kernarg, 4, EMU_STORE);
}

START_TEST(arguments_are_read_only)
{
    static const emu_exec_fn fns[] = { i_kernarg, i_end, NULL };
    set_up("gfx942", 1, 64, fns);
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_FAILED);
    ck_assert_uint_eq(got_lanes, 1);
    ck_assert_uint_eq(wanted_lanes, 0);
    ck_assert_int_eq(emu_reports("write-to-read-only"), 1);
}
END_TEST

/* A wave's scratch through a buffer's address, too, is its own. */
static void i_scratch(struct emu_wave *w, const struct emu_inst *i)
{
    if (w->index != 1)
        return;
    got_lanes = gate(w, i, w->scratch, 4, EMU_STORE) && gate(w, i, w->scratch + 16 * 64 - 4, 4, EMU_STORE);
    ck_assert_ptr_eq(emu_scratch(w, 5, 6), w->scratch + 4 * 64 + 5 * 4 + 2);
    wanted_lanes = gate(w, i, w->scratch - 4, 4, EMU_STORE);
}

START_TEST(scratch_is_a_wave_s_own)
{
    static const emu_exec_fn fns[] = { i_scratch, i_end, NULL };
    set_up("gfx90a", 1, 128, fns);
    m.kernel.scratch_bytes = 16;
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_FAILED);
    ck_assert_uint_eq(got_lanes, 1);
    ck_assert_uint_eq(wanted_lanes, 0);
}
END_TEST

static void i_scratch_write(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    memset(w->scratch, w->index + 1, 16 * 64);
}
static void i_scratch_read(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    for (int at = 0; at < 16 * 64; at++)
        got_lanes += w->scratch[at] == w->index + 1;
}

START_TEST(waves_scratch_is_apart)
{
    static const emu_exec_fn fns[] = { i_scratch_write, i_barrier, i_scratch_read, i_end, NULL };
    got_lanes = 0;
    set_up("gfx90a", 1, 3 * 64, fns);
    m.kernel.scratch_bytes = 16;
    ck_assert_int_eq(emu_launch_run(&m.l), EMU_DONE);
    ck_assert_uint_eq(got_lanes, 3 * 16 * 64);
}
END_TEST

START_TEST(bad_settings_are_told_and_ignored)
{
    struct emu_settings s;
    setenv("RFG_EMU_THREADS", "many", 1);
    setenv("RFG_EMU_SCHEDULE", "-1", 1);
    setenv("RFG_EMU_MAX_SPIN", "0", 1);
    setenv("RFG_EMU_TURN", "0", 1);
    emu_settings_read(&s);
    ck_assert_int_ge(s.threads, 1);
    ck_assert(!s.shuffle);
    ck_assert_uint_gt(s.max_spin, 1000000);
    ck_assert_uint_gt(s.turn, 1000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_front");
    TCase *tc = test_case(s, "memory", NULL, NULL);
    ADD_TESTS(tc, allocations, freeing);
    tc = test_case(s, "scheduler", NULL, NULL);
    ADD_TESTS(tc, seeds);
    ADD_LOOPS(tc, 3, every_wave_of_every_group_runs);
    ADD_LOOPS(tc, 2, turns);
    ADD_LOOPS(tc, 8, groups_may_wait_for_each_other, deadlock_is_reported);
    ADD_LOOPS(tc, 5, barriers);
    tc = test_case(s, "gate", NULL, NULL);
    ADD_TESTS(tc, arguments_are_read_only, scratch_is_a_wave_s_own, waves_scratch_is_apart,
              bad_settings_are_told_and_ignored);
    ADD_LOOPS(tc, sizeof(accesses) / sizeof(accesses[0]), the_gate);
    return run_suite(s);
}
