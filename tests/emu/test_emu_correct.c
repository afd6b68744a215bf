/* SPDX-License-Identifier: MIT
 *
 * Correct kernels (tests/emu/correct) as clang makes them at O0 to O3 and as hipRTC does: right, and nothing reported
 * by the usual checks. RFG_TEST_CORRECT=all has all of it, else a part is run. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "emu/run/front.h"
#include "emu_compile.h"
#include "emu_kernel.h"
#include "tests/suite.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wsometimes-uninitialized"
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "correct/words.h"

#include "correct/loops.hip"
#include "correct/matrix.hip"
#include "correct/memory.hip"

#define N 1027 /* the kernels' n */

/* As the files have them. */
static const struct {
    const char *file, *name;
    void (*host)(const unsigned *in, unsigned *out, int n);
} kernels[] = {
#define LOOPS(name)                                                                                                    \
    {                                                                                                                  \
        "loops", #name, name                                                                                           \
    }
#define MEMORY(name)                                                                                                   \
    {                                                                                                                  \
        "memory", #name, name                                                                                          \
    }
#define MATRIX(name)                                                                                                   \
    {                                                                                                                  \
        "matrix", #name, name                                                                                          \
    }
    LOOPS(loop_break),     LOOPS(loop_continue),   LOOPS(loop_nested),
    LOOPS(loop_while),     LOOPS(loop_two_breaks), LOOPS(loop_return),
    LOOPS(loop_switch),    LOOPS(loop_do_while),   LOOPS(loop_search),
    LOOPS(loop_halving),   LOOPS(loop_gcd),        LOOPS(loop_conditions),
    LOOPS(loop_flag),      LOOPS(loop_of_three),   LOOPS(value_of_a_branch),
    LOOPS(calls),          LOOPS(calls_itself),    LOOPS(calls_by_pointer),
    LOOPS(array_small),    LOOPS(array_sorted),    LOOPS(array_filled_by_and_by),
    LOOPS(array_of_bytes), LOOPS(structs),         LOOPS(many_scalars),
    LOOPS(few_registers),  LOOPS(divisions),       LOOPS(floats),
    LOOPS(halves),         MEMORY(histogram),      MEMORY(cas_loops),
    MEMORY(cas_by_hand),   MEMORY(equal_values),   MEMORY(specialised_waves),
    MEMORY(unaligned),     MEMORY(tree_of_sums),   MEMORY(scan),
    MEMORY(transposition), MEMORY(lane_to_lane),   MEMORY(last_adds_up),
    MEMORY(chain),         MEMORY(guarded),        MEMORY(early_leave),
    MEMORY(waterfall),     MEMORY(tickets),        MATRIX(matrix_16),
    MATRIX(matrix_32),     MATRIX(fp8_pairs),      MATRIX(transcendentals),
};
#define N_KERNELS (int)(sizeof(kernels) / sizeof(kernels[0]))

static const char *const files[] = { "loops", "memory", "matrix" };

/* level < 0: by hipRTC. few: also without RFG_TEST_CORRECT=all. */
static const struct {
    const char *arch;
    int level;
    bool few;
} builds[] = {
    { "gfx90a", -1, true }, { "gfx90a", 0, false }, { "gfx90a", 1, true },   { "gfx90a", 2, false },
    { "gfx90a", 3, false }, { "gfx942", 0, true },  { "gfx942", 1, false },  { "gfx942", 2, true },
    { "gfx942", 3, false }, { "gfx1100", 0, true }, { "gfx1100", 1, false }, { "gfx1100", 2, false },
    { "gfx1100", 3, true },
};
#define N_BUILDS (int)(sizeof(builds) / sizeof(builds[0]))

static unsigned in[ITEMS], out[OUTS], want[OUTS];

static char *source_of(const char *file)
{
    char path[400], *text[2];
    size_t size[2];
    const char *root = getenv("RFG_SOURCE_ROOT");
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof(path), "%s/tests/emu/correct/%s", root ? root : RFG_SOURCE_ROOT, k ? file : "words.h");
        if (k)
            strcat(path, ".hip");
        text[k] = rfg_read_file(path, &size[k]);
        ck_assert_msg(text[k], "%s can't be read", path);
    }
    char *both = malloc(size[0] + size[1] + 1);
    ck_assert_ptr_nonnull(both);
    memcpy(both, text[0], size[0]);
    memcpy(both + size[0], text[1], size[1]);
    both[size[0] + size[1]] = 0;
    free(text[0]);
    free(text[1]);
    return both;
}

static hipModule_t build(const char *file, const char *arch, int level)
{
    char options[80], *source = source_of(file);
    hipModule_t m;
    if (level < 0)
        m = emu_build(arch, kernels[0].name, source, NULL);
    else {
        size_t size;
        snprintf(options, sizeof(options), "-O%d -std=c++17 --no-gpu-bundle-output", level);
        char *code = emu_compile(source, arch, options, &size);
        ck_assert_int_eq(hip->hipModuleLoadData(&m, code), hipSuccess);
        free(code);
    }
    free(source);
    return m;
}

/* What is wrong with it: nothing, or a line at the end of text. */
static void run(hipModule_t m, int k, void *device_in, void *device_out, char *text, size_t room)
{
    hipFunction_t fn;
    int n = N;
    char last[1200];
    size_t at = strlen(text);
    const char *only = getenv("RFG_TEST_KERNEL");
    if (only && strcmp(only, kernels[k].name))
        return;
    memset(want, 0, sizeof(want));
    kernels[k].host(in, want, n);
    void *params[] = { &device_in, &device_out, &n };
    memset(out, 0, sizeof(out));
    ck_assert_int_eq(hip->hipMemcpyHtoD(device_out, out, sizeof(out)), hipSuccess);
    ck_assert_int_eq(hip->hipModuleGetFunction(&fn, m, kernels[k].name), hipSuccess);
    emu_reports_clear();
    hipError_t e = hip->hipModuleLaunchKernel(fn, GROUPS, 1, 1, SIZE, 1, 1, 0, NULL, params, NULL);
    int found = emu_reports(NULL);
    emu_reports_last(last, sizeof(last));
    ck_assert_int_eq(hip->hipMemcpyDtoH(out, device_out, sizeof(out)), hipSuccess);
    if (e != hipSuccess || found)
        snprintf(text + at, room - at, "  %s: %d reports: %s\n", kernels[k].name, found, last);
    else if (memcmp(out, want, sizeof(out))) {
        int w = 0;
        while (out[w] == want[w])
            w++;
        snprintf(text + at, room - at, "  %s: word %d is 0x%x, not 0x%x\n", kernels[k].name, w, out[w], want[w]);
    }
}

START_TEST(right_and_silent)
{
    const char *all = getenv("RFG_TEST_CORRECT");
    static char wrong[1 << 16];
    void *device_in, *device_out;
    if (!builds[_i].few && !(all && !strcmp(all, "all")))
        return;
    uint64_t random = 12345;
    for (int i = 0; i < ITEMS; i++)
        in[i] = (unsigned)(rfg_random(&random) >> 16);
    emu_open_device(builds[_i].arch);
    ck_assert_int_eq(hip->hipMalloc(&device_in, sizeof(in)), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc(&device_out, sizeof(out)), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyHtoD(device_in, in, sizeof(in)), hipSuccess);
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        hipModule_t m = build(files[f], builds[_i].arch, builds[_i].level);
        for (int k = 0; k < N_KERNELS; k++)
            if (!strcmp(kernels[k].file, files[f]))
                run(m, k, device_in, device_out, wrong, sizeof(wrong));
        ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    }
    rfg_context_destroy(&ctx);
    printf("%s", wrong);
    fflush(stdout);
    ck_assert_msg(!*wrong, "%s O%d (-1: hipRTC): kernels are wrong, or are reported", builds[_i].arch,
                  builds[_i].level);
}
END_TEST

int main(void)
{
    if (!emu_is_there() || !emu_can_compile())
        return 77;
    Suite *s = suite_create("emu_correct");
    TCase *tc = tcase_create("emu");
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, right_and_silent, 0, N_BUILDS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
