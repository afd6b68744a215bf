/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU's instructions: each against plain C. --bench measures them. */
#include "emu_isa.h"
#include "tests/suite.h"

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench"))
        return emu_bench();
    covered_init();
    Suite *s = suite_create("emu_isa");
    emu_case_lanes(s);
    emu_case_compare(s);
    emu_case_scalar(s);
    emu_case_matrix(s);
    emu_case_memory(s);
    emu_case_decode(s);
    emu_case_gfx950(s);
    emu_case_words(s);
    emu_case_covered(s); /* the last */
    return run_suite(s);
}
