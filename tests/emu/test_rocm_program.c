/* SPDX-License-Identifier: MIT
 *
 * A HIP program that clang compiles from one source, host and kernels, linked with the emulated libamdhip64 of a
 * release ($EMULATED_ROCM) as it would be with the real one. */
#include <sys/wait.h>

#include "emu_compile.h"
#include "rocm_library.h"
#include "tests/suite.h"

static const struct {
    const char *arch, *gpu;
} gpus[] = { { "gfx90a", "MI210:4" }, { "gfx942", "MI300X:4" }, { "gfx1100", "RX7900XTX:4" } };

START_TEST(program)
{
    const char *libraries = getenv("EMULATED_ROCM_DIR"), *root = getenv("RFG_SOURCE_ROOT");
    char dir[] = "/tmp/rfg-rocm-XXXXXX", cmd[4096], line[512] = "";
    ck_assert(libraries && root);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(cmd, sizeof(cmd),
             "clang++-19 -x hip --offload-arch=%s -nogpuinc -nogpulib -O2 -w -D__HIP_PLATFORM_AMD__=1 "
             "'%s/tests/emu/rocm_program.hip' -o %s/program -L'%s' -lamdhip64 2>&1",
             gpus[_i].arch, root, dir, libraries);
    ck_assert_msg(system(cmd) == 0, "failed: %s", cmd);
    snprintf(cmd, sizeof(cmd), "EMULATED_ROCM_GPUS=%s LD_LIBRARY_PATH='%s' %s/program 2>/dev/null", gpus[_i].gpu,
             libraries, dir);
    FILE *f = popen(cmd, "r");
    ck_assert_ptr_nonnull(f);
    char *got = fgets(line, sizeof(line), f);
    int status = pclose(f);
    ck_assert_msg(got && !strcmp(line, "right\n") && status == 0, "%s: %sstatus %d", gpus[_i].arch, line, status);
    snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

int main(void)
{
    if (!rocm_is_there())
        return 77;
    if (system("clang++-19 --version >/dev/null 2>&1") != 0) {
        printf("SKIPPED: clang++-19 is not there\n");
        return 77;
    }
    Suite *s = suite_create("rocm_program");
    TCase *tc = tcase_create("program");
    /* For time's sake one GPU a release: the code is the same. */
    int i = release->number < 60000 ? 0 : release->number < 70000 ? 1 : 2;
    tcase_add_loop_test(tc, program, i, i + 1);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
