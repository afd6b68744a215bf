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
    suite_add_tcase(s, emu_case_lanes());
    suite_add_tcase(s, emu_case_compare());
    suite_add_tcase(s, emu_case_scalar());
    suite_add_tcase(s, emu_case_matrix());
    suite_add_tcase(s, emu_case_memory());
    suite_add_tcase(s, emu_case_decode());
    suite_add_tcase(s, emu_case_gfx950());
    suite_add_tcase(s, emu_case_words());
    suite_add_tcase(s, emu_case_covered()); /* the last */
    return run_suite(s);
}
