/* SPDX-License-Identifier: MIT
 *
 * HIP programs with HIP's own headers and device library, compiled by clang and linked with the emulated libamdhip64 of
 * a release ($EMULATED_ROCM): printf and assert in kernels, cooperative launches. */
#include <sys/wait.h>

#include "rocm_library.h"
#include "tests/suite.h"

static const struct {
    const char *arch, *gpu;
} gpus[] = { { "gfx90a", "MI210:4" }, { "gfx942", "MI300X:4" }, { "gfx1100", "RX7900XTX:4" } };
#define N_GPUS (int)(sizeof(gpus) / sizeof(gpus[0]))

#define GROUPS 20 /* rocm_printf.hip's */
static char output[1 << 18];

static char dir[] = "/tmp/rfg-rocm-XXXXXX";

/* Compiles tests/emu/NAME to dir/program. */
static void build(const char *name, int gpu, const char *options)
{
    const char *libraries = getenv("EMULATED_ROCM_DIR"), *root = getenv("RFG_SOURCE_ROOT");
    char cmd[4096];
    ck_assert(libraries && root);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(cmd, sizeof(cmd),
             "clang++-19 -x hip --offload-arch=%s --rocm-device-lib-path='%s/../bitcode' -w %s '%s/tests/emu/%s' -o "
             "%s/program -L'%s' -lamdhip64 2>&1",
             gpus[gpu].arch, libraries, options, root, name, dir, libraries);
    ck_assert_msg(system(cmd) == 0, "failed: %s", cmd);
}

/* Runs it with the argument; what it says on stdout and stderr is in output[]. Returns its wait status. */
static int run(int gpu, const char *argument, const char *settings)
{
    char cmd[4096];
    snprintf(cmd, sizeof(cmd), "EMULATED_ROCM_GPUS=%s LD_LIBRARY_PATH='%s' %s %s/program %s 2>&1", gpus[gpu].gpu,
             getenv("EMULATED_ROCM_DIR"), settings, dir, argument);
    FILE *f = popen(cmd, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(output, 1, sizeof(output) - 1, f);
    output[n] = 0;
    return pclose(f);
}

static void clean(void)
{
    char cmd[64];
    snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static void is_line(char **at, const char *want)
{
    char *end = strchr(*at, '\n');
    ck_assert_msg(end != NULL, "'%s' is missing", want);
    *end = 0;
    ck_assert_str_eq(*at, want);
    *at = end + 1;
}

START_TEST(prints_in_lane_order)
{
    static const char *const first[] = {
        "before",
        " 0|42  |1099511627776|0000beef|   7|3.14|1e+10|text of more than eight bytes|z|%|5|-3||",
        " 2|42  |1099511627776|0000beef|   7|3.14|1e+10|text of more than eight bytes|z|%|5|-3||",
        " 4|42  |1099511627776|0000beef|   7|3.14|1e+10|text of more than eight bytes|z|%|5|-3||",
        "lane 0: 88",
        "lane 1: 0",
    };
    char *at = output, seen[GROUPS][256] = { { 0 } };
    int next[GROUPS][8] = { { 0 } };
    build("rocm_printf.hip", _i, "-O2");
    int status = run(_i, "", "RFG_EMU_THREADS=4 RFG_EMU_CHECKS=none");
    ck_assert_msg(status == 0, "status %d: %.2000s", status, output);
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        is_line(&at, first[i]);
    int per_wave = !strcmp(gpus[_i].arch, "gfx1100") ? 32 : 64;
    for (int i = 0; i < GROUPS * 256; i++) {
        char *end;
        long group = strtol(at, &end, 10), lane = strtol(end, &end, 10);
        ck_assert_msg(*end == '\n' && group >= 0 && group < GROUPS && lane >= 0 && lane < 256, "line %d: %.80s", i, at);
        ck_assert_msg(!seen[group][lane], "twice: %ld %ld", group, lane);
        seen[group][lane] = 1;
        ck_assert_msg(lane % per_wave == next[group][lane / per_wave]++, "%ld %ld is out of turn", group, lane);
        at = end + 1;
    }
    is_line(&at, "after: hipSuccess");
    ck_assert_str_eq(at, "");
    clean();
}
END_TEST

/* With the checks: nothing in the device library's own code is reported. */
START_TEST(asserts_and_aborts)
{
    build("rocm_printf.hip", _i, "-O0");
    int status = run(_i, "fail", "");
    ck_assert_int_ne(status, 0);
    ck_assert_msg(strstr(output, "rocm_printf.hip:25: void asserts(const int *): Device-side assertion `p != nullptr' "
                                 "failed.") != NULL,
                  "%.2000s", output);
    char *report = strstr(output, "warning: emu: ");
    ck_assert_msg(report && !strncmp(report, "warning: emu: trap: ", 20), "%.500s", report ? report : "no report");
    ck_assert_ptr_null(strstr(report + 1, "warning: emu: "));
    clean();
}
END_TEST

START_TEST(synchronises_the_grid)
{
    static const char *const settings[] = { "", "RFG_EMU_SCHEDULE=3", "RFG_EMU_THREADS=3 RFG_EMU_CHECKS=none" };
    build("rocm_grid.hip", _i, "-O2");
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        int status = run(_i, "", settings[i]);
        ck_assert_msg(status == 0, "%s: %.2000s", settings[i], output);
        ck_assert_ptr_null(strstr(output, "race"));
        ck_assert_ptr_nonnull(strstr(output, "a cooperative launch of 100000 workgroups: the device holds "));
    }
    int status = run(_i, "plain", "EMULATED_ROCM_ON_FAULT=continue");
    ck_assert_msg(status == 0, "%.2000s", output);
    ck_assert_ptr_nonnull(strstr(output, "a barrier of the grid, but the launch is not cooperative"));
    clean();
}
END_TEST

int main(void)
{
    if (!rocm_is_there() || !rocm_has_bitcode())
        return 77;
    if (system("clang++-19 --version >/dev/null 2>&1") != 0) {
        printf("SKIPPED: clang++-19 is not there\n");
        return 77;
    }
    Suite *s = suite_create("rocm_headers");
    TCase *tc = tcase_create("programs");
    ADD_LOOPS(tc, N_GPUS, prints_in_lane_order);
    tcase_add_loop_test(tc, asserts_and_aborts, 1, 2);         /* the same code on all */
    tcase_add_loop_test(tc, synchronises_the_grid, 1, N_GPUS); /* gfx90a's is gfx942's, with one L2 */
    tcase_set_timeout(tc, 120);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
