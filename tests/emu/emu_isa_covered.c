/* SPDX-License-Identifier: MIT
 *
 * Every row of the instruction table is run by some test. */
#include "emu_isa.h"

#include <sys/mman.h>

enum { MOST = 4096 };
static uint8_t *used; /* shared by the tests' processes */

void covered_init(void)
{
    used = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (used == MAP_FAILED)
        used = NULL;
}

void covered_mark(const struct emu_program *prog)
{
    static const struct emu_op *rows[MOST];
    static int n;
    for (const struct emu_op *op = emu_op_next(n ? rows[n - 1] : NULL); op && n < MOST; op = emu_op_next(op))
        rows[n++] = op;
    for (int r = 0; used && r < n; r++)
        for (int k = 0; k < prog->n && !used[r]; k++)
            used[r] = prog->inst[k].op == rows[r];
}

/* Tested by what is said. */
static const struct {
    const char *name, *where;
} elsewhere[] = {
    { "s_trap", "test_emu_checks: a report" },
    { "s_sendmsg_rtn_b32", "a fault: no message is answered" },
    { "s_sendmsg_rtn_b64", "a fault" },
    { "s_sleep_var", "s_sleep's handler" },
    { "v_mov_b16_", "v_mov_b16's handler" },
    { "v_cvt_i32_i16_", "v_cvt_i32_i16's handler" },
    { "v_cvt_u32_u16_", "v_cvt_u32_u16's handler" },
    /* names of gfx10 and gfx12 that share a handler with one that is tested */
    { "s_inst_prefetch", "gfx10" },
    { "s_andn1_saveexec_b32", "gfx10" },
    { "s_andn2_saveexec_b32", "gfx10" },
    { "s_orn1_saveexec_b32", "gfx10" },
    { "s_orn2_saveexec_b32", "gfx10" },
    { "v_cmpx_tru_f16", "gfx10" },
    { "v_cmpx_tru_f32", "gfx10" },
    { "v_cmpx_tru_f64", "gfx10" },
    { "v_cmpx_t_f16", "gfx11, with a result: none" },
    { "v_cmpx_t_f32", "gfx11, with a result: none" },
    { "v_cmpx_t_f64", "gfx11, with a result: none" },
    { "v_cmpx_f_i16", "gfx10" },
    { "v_cmpx_f_u16", "gfx10" },
    { "v_cmpx_t_i16", "gfx10" },
    { "v_cmpx_t_u16", "gfx10" },
    { "v_fma_legacy_f32", "gfx10: v_fma_dx9_zero_f32" },
    { "v_fmac_legacy_f32", "gfx10: v_fmac_dx9_zero_f32" },
};

START_TEST(every_row)
{
    int n = 0, missing = 0;
    if (!used || getenv("CK_RUN_CASE")) {
        printf("skipped: not all tests ran\n");
        return;
    }
    for (const struct emu_op *op = emu_op_next(NULL); op; op = emu_op_next(op), n++) {
        bool ok = n < MOST && used[n];
        for (size_t k = 0; k < sizeof(elsewhere) / sizeof(elsewhere[0]); k++)
            ok |= !strcmp(elsewhere[k].name, op->name);
        if (!ok)
            fprintf(stderr, "no test runs %s (%s)\n", op->name, op->sig);
        missing += !ok;
    }
    ck_assert_msg(!missing, "%d of %d rows of the instruction table are run by no test", missing, n);
    printf("%d rows of the instruction table are run by tests\n", n);
}
END_TEST

void emu_case_covered(Suite *s)
{
    TCase *c = test_case(s, "covered", NULL, NULL);
    ADD_TESTS(c, every_row);
}
