/* SPDX-License-Identifier: MIT
 *
 * The decoder: messages for unknown instructions, branches and waits, garbage. */
#include "emu_isa.h"

START_TEST(unknown_is_named)
{
    char error[512];
    decode_error(3, "s_nop 0\nv_add_nc_u32 v1, v2, v3\nimage_load v[0:3], v[4:5], s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D",
                 error, sizeof(error));
    ck_assert_msg(strstr(error, "gfx1100") && strstr(error, "0x8") && strstr(error, "image_load") &&
                      strstr(error, "not implemented") && strstr(error, "bytes"),
                  "%s", error);
}
END_TEST

/* Rounding modes that aren't emulated are found where the text says them, and only then. */
START_TEST(rounding_is_refused)
{
    char error[512];
    decode_error(2, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", error, sizeof(error));
    ck_assert_msg(strstr(error, "rounding mode") != NULL, "%s", error);
    decode_error(2, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 1", error, sizeof(error));
    ck_assert_msg(strstr(error, "rounding mode") != NULL, "%s", error);
    decode_error(3, "s_round_mode 0xc", error, sizeof(error));
    ck_assert_msg(strstr(error, "rounding mode") != NULL, "%s", error);
    decode_error(2, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0",
                 error, sizeof(error));
    ck_assert_str_eq(error, "");
    decode_error(3, "s_round_mode 0", error, sizeof(error));
    ck_assert_str_eq(error, "");
    decode_error(3, "s_round_mode 0x10", error, sizeof(error)); /* four bits count */
    ck_assert_str_eq(error, "");
}
END_TEST

/* Each that isn't emulated, by its number. */
START_TEST(hardware_registers_are_refused)
{
    static const int readable[] = { 1, 2, 3, 4, 15, 20, 23, 24, 29 }, unwritten[] = { 0, 2, 4, 7, 20, 29 };
    char error[512], text[800] = "", says[40];
    size_t at = 0, k = 0;
    for (int reg = 0; reg < 32; reg++) {
        snprintf(says, sizeof(says), "hardware register %d", reg);
        if (k < sizeof(readable) / sizeof(readable[0]) && readable[k] == reg) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "s_getreg_b32 s0, hwreg(%d)\n", reg);
            k++;
            continue;
        }
        char one[60];
        snprintf(one, sizeof(one), "s_getreg_b32 s0, hwreg(%d)", reg);
        decode_error(2, one, error, sizeof(error));
        ck_assert_msg(strstr(error, says) != NULL, "%s: '%s'", one, error);
    }
    decode_error(2, text, error, sizeof(error));
    ck_assert_str_eq(error, "");
    for (size_t i = 0; i < sizeof(unwritten) / sizeof(unwritten[0]); i++) {
        snprintf(text, sizeof(text), "s_setreg_b32 hwreg(%d), s0", unwritten[i]);
        snprintf(says, sizeof(says), "hardware register %d", unwritten[i]);
        decode_error(2, text, error, sizeof(error));
        ck_assert_msg(strstr(error, says) != NULL, "%s: '%s'", text, error);
    }
    decode_error(2, "s_setreg_b32 hwreg(1, 4, 4), s0\ns_setreg_b32 hwreg(3), s0", error, sizeof(error));
    ck_assert_str_eq(error, "");
}
END_TEST

static const struct {
    int arch;
    const char *text;
    uint32_t wait;
} waits[] = {
    { 2, "s_waitcnt vmcnt(0)", 1 << EMU_WAIT_VM },
    { 2, "s_waitcnt vmcnt(62) lgkmcnt(3)", 63 << EMU_WAIT_VM | 4 << EMU_WAIT_LGKM },
    { 2, "s_waitcnt vmcnt(1) expcnt(2) lgkmcnt(0)", 2 << EMU_WAIT_VM | 3 << EMU_WAIT_EXP | 1 << EMU_WAIT_LGKM },
    { 3, "s_waitcnt_vscnt null, 0x2", 3 << EMU_WAIT_VS },
    { 3, "s_waitcnt lgkmcnt(1)", 2 << EMU_WAIT_LGKM },
    { 6, "s_wait_loadcnt 0x3f", 64 << EMU_WAIT_VM },
    { 6, "s_wait_storecnt 0x0", 1 << EMU_WAIT_VS },
    { 6, "s_wait_dscnt 0x2", 3 << EMU_WAIT_LGKM },
    { 6, "s_wait_kmcnt 0x0", 1 << EMU_WAIT_KM },
    { 6, "s_wait_loadcnt_dscnt 0x102", 2 << EMU_WAIT_VM | 3 << EMU_WAIT_LGKM },
    { 6, "s_wait_storecnt_dscnt 0x201", 3 << EMU_WAIT_VS | 2 << EMU_WAIT_LGKM },
    { 6, "s_wait_idle", 0x01010101 },
    { 6, "s_wait_bvhcnt 0x0", 0 },
};

START_TEST(waiting)
{
    struct snippets s;
    snippets_build(&s, waits[_i].arch, &waits[_i].text, 1);
    uint32_t got = s.start[0]->wait, want = waits[_i].wait;
    ck_assert_msg(got == want, "%s: 0x%x, expected 0x%x", waits[_i].text, got, want);
    snippets_free(&s);
}
END_TEST

/* Operands, roles and text of an instruction, as the checks read them. */
START_TEST(operands)
{
    const char *text[] = { "global_load_dwordx4 v[4:7], v2, s[8:9] offset:-16 sc0 nt",
                           "v_mfma_f32_16x16x16_bf16 a[4:7], v[0:1], a[2:3], a[4:7]", "v_cmp_lt_u32 vcc, v3, v4",
                           "s_cbranch_scc0 1f\ns_nop 0\n1: s_barrier" };
    struct snippets s;
    char line[128];
    snippets_build(&s, 2, text, 4);
    const struct emu_inst *i = s.start[0];
    ck_assert_str_eq(i->op->name, "global_load_dwordx4");
    ck_assert(i->n == 3 && i->role[0] == 'd' && i->words[0] == 4 && i->reg[0] == EMU_VGPR + 4 && i->words[1] == 1 &&
              i->reg[2] == 8 && i->words[2] == 2);
    ck_assert(i->mods->offset == -16 && i->mods->sc0 && i->mods->nt && !i->mods->sc1);
    ck_assert_int_eq(i->need_v, 8);
    emu_inst_text(&s.prog, i, line, sizeof(line));
    ck_assert_str_eq(line, "global_load_dwordx4 v[4:7], v2, s[8:9] offset:-16 sc0 nt");
    i = s.start[1];
    ck_assert(i->reg[0] == EMU_AGPR + 4 && i->reg[1] == EMU_VGPR && i->reg[2] == EMU_AGPR + 2 && i->need_a == 8 &&
              i->op->cls == EMU_MFMA);
    ck_assert(s.start[2]->role[0] == 'm' && s.start[2]->reg[0] == EMU_VCC && s.start[2]->words[0] == 2);
    ck_assert_str_eq(s.prog.inst[s.start[3]->target].op->name, "s_barrier");
    snippets_free(&s);
}
END_TEST

/* A wave that lacks a register, a jump into nowhere, bytes that are no instruction: a report, and the end. */
START_TEST(faults)
{
    const char *text[] = { "v_mov_b32 v200, 0", "s_mov_b64 s[0:1], 64\ns_setpc_b64 s[0:1]", ".long 0xffffffff",
                           "s_mov_b32 s0, 3\ns_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s0", "v_accvgpr_write_b32 a9, v0" };
    static const char *const says[] = { "register-range", "illegal-branch", "illegal-instruction", "not-implemented",
                                        "register-range" };
    struct snippets s;
    struct bare *b = snippets_build(&s, 2, text, 5);
    b->w.n_vgprs = 128;
    b->w.n_agprs = 8;
    for (int k = 0; k < 5; k++) {
        reported[0] = 0;
        ck_assert_int_eq(bare_run(b, s.start[k]), EMU_FAULT);
        ck_assert_msg(!strncmp(reported, says[k], strlen(says[k])), "%s: '%s'", text[k], reported);
    }
    snippets_free(&s);
}
END_TEST

/* Stops: a barrier, a sleep, the budget; and where the wave goes on. */
START_TEST(stops)
{
    const char *text = "s_mov_b32 s0, 1\ns_barrier\ns_mov_b32 s0, 2\ns_sleep 1\ns_mov_b32 s0, 3\ns_mov_b32 s0, 4";
    struct snippets s;
    struct bare *b = snippets_build(&s, 2, &text, 1);
    b->w.pc = s.start[0];
    ck_assert_int_eq(emu_run(&b->w, 100), EMU_BARRIER);
    ck_assert_uint_eq(b->w.s[0], 1);
    ck_assert_int_eq(emu_run(&b->w, 100), EMU_YIELD);
    ck_assert_uint_eq(b->w.s[0], 2);
    ck_assert_int_eq(emu_run(&b->w, 1), EMU_RUNNING);
    ck_assert_uint_eq(b->w.s[0], 3);
    ck_assert_int_eq(emu_run(&b->w, 100), EMU_END);
    ck_assert_uint_eq(b->w.s[0], 4);
    ck_assert_uint_eq(b->w.executed, 7);
    snippets_free(&s);
}
END_TEST

/* How many waves it waits for, the register says less one. */
START_TEST(barrier_of_the_grid)
{
    const char *text = "v_mov_b32 v2, 7\ns_mov_b32 s0, 1\nds_gws_barrier v2 gds\ns_mov_b32 s0, 2";
    struct snippets s;
    struct bare *b = snippets_build(&s, 2, &text, 1);
    b->w.pc = s.start[0];
    b->w.exec = 1;
    ck_assert_int_eq(emu_run(&b->w, 100), EMU_GRID);
    ck_assert_uint_eq(b->w.s[0], 1);
    ck_assert_uint_eq(b->w.grid_waves, 8);
    ck_assert_int_eq(emu_run(&b->w, 100), EMU_END);
    ck_assert_uint_eq(b->w.s[0], 2);
    snippets_free(&s);
}
END_TEST

/* gfx12's barrier: signalled, then waited for; only the workgroup's is known. */
START_TEST(barrier_in_two_steps)
{
    const char *text[] = { "s_barrier_signal -1\ns_mov_b32 s0, 1\ns_barrier_wait -1\ns_mov_b32 s0, 2",
                           "s_barrier_wait -1" };
    static const char *const unknown[] = { "s_barrier_signal m0", "s_barrier_signal -2", "s_barrier_wait 0xfffe" };
    struct snippets s;
    struct bare *b = snippets_build(&s, 6, text, 2);
    b->w.pc = s.start[0];
    ck_assert_int_eq(emu_run(&b->w, 100), EMU_BARRIER);
    ck_assert_uint_eq(b->w.s[0], 1);
    ck_assert_int_eq(emu_run(&b->w, 100), EMU_END);
    ck_assert_uint_eq(b->w.s[0], 2);
    ck_assert_int_eq(bare_run(b, s.start[1]), EMU_FAULT);
    ck_assert_msg(strstr(reported, "without s_barrier_signal") != NULL, "%s", reported);
    snippets_free(&s);
    for (size_t k = 0; k < sizeof(unknown) / sizeof(unknown[0]); k++) {
        char error[512];
        decode_error(6, unknown[k], error, sizeof(error));
        ck_assert_msg(strstr(error, "not implemented: a barrier") != NULL, "%s: %s", unknown[k], error);
    }
}
END_TEST

static int seen;
static void count(struct emu_wave *w, const struct emu_inst *i)
{
    (void)w, (void)i;
    seen++;
}
START_TEST(hook)
{
    const char *text = "s_mov_b32 s0, 1\nv_mov_b32 v0, 2\ns_nop 0";
    struct snippets s;
    struct bare *b = snippets_build(&s, 2, &text, 1);
    b->w.watch = EMU_WATCH_BEFORE;
    emu_before = count;
    ck_assert_int_eq(bare_run(b, s.start[0]), EMU_END);
    ck_assert_int_eq(seen, 4);
    emu_before = NULL;
    snippets_free(&s);
}
END_TEST

/* Random bytes decode to something or are refused, and what decodes runs without touching what is not the wave's. */
START_TEST(garbage)
{
    int arch = _i < 3 ? 1 + _i : 2 + _i, accepted = 0, instructions = 0;
    static uint8_t code[256] __attribute__((aligned(4)));
    for (int repeat = 0; repeat < 4000; repeat++) {
        struct emu_program prog;
        char error[512];
        rnd_seed((uint64_t)repeat);
        for (size_t k = 0; k < sizeof(code); k += 8) {
            uint64_t x = rnd();
            memcpy(code + k, &x, 8);
        }
        bool ok = emu_decode(&prog, &tested[arch].arch, tested[arch].wave_size, code, sizeof(code) - (size_t)repeat % 5,
                             (uint64_t)(uintptr_t)code, true, error, sizeof(error));
        if (!ok)
            continue;
        accepted++;
        bool whole = true;
        for (int k = 0; k < prog.n; k++) {
            instructions += prog.inst[k].fn != NULL;
            whole &= prog.inst[k].fn != NULL;
        }
        if (whole) {
            struct bare *b = bare_new(arch, &prog);
            bare_randomize(b);
            b->w.pc = prog.inst;
            emu_run(&b->w, 1000);
            free(b);
        }
        emu_program_free(&prog);
    }
    printf("%s: %d of 4000 texts of garbage, %d instructions in them\n", tested[arch].arch.name, accepted,
           instructions);
    ck_assert_int_gt(instructions, 10000);
}
END_TEST

/* One row of the table for each name and number of operands, and nothing without a handler. */
START_TEST(table)
{
    int n = 0;
    for (const struct emu_op *op = emu_op_next(NULL); op; op = emu_op_next(op), n++) {
        ck_assert(op->fn != NULL && op->cls < EMU_CLASSES);
        ck_assert_ptr_nonnull(emu_op_find(op->name));
    }
    printf("%d rows in the instruction table, handlers for %s\n", n, emu_host());
    ck_assert_int_gt(n, 1000);
    ck_assert_ptr_null(emu_op_find("v_no_such_thing"));
}
END_TEST

void emu_case_decode(Suite *s)
{
    TCase *c = test_case(s, "decode", NULL, NULL);
    ADD_TESTS(c, unknown_is_named, rounding_is_refused, hardware_registers_are_refused, operands, faults, stops,
              barrier_of_the_grid, barrier_in_two_steps, hook, table);
    ADD_LOOPS(c, sizeof(waits) / sizeof(waits[0]), waiting);
    ADD_LOOPS(c, 6, garbage);
}
