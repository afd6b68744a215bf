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
    int n = 0;
    for (const struct emu_op *op = emu_op_next(NULL); used && op && n < MOST; op = emu_op_next(op), n++)
        for (int k = 0; k < prog->n && !used[n]; k++)
            used[n] = prog->inst[k].op == op;
}

/* Tested by what is said. */
static const struct {
    const char *name, *where;
} elsewhere[] = {
    { "s_sethalt", "halts for a debugger: does nothing here" },
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

TCase *emu_case_covered(void)
{
    TCase *c = tcase_create("covered");
    tcase_add_test(c, every_row);
    return c;
}
