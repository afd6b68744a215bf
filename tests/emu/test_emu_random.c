/* SPDX-License-Identifier: MIT
 *
 * Random kernels (tests/emu/random/random_kernels.py) by clang for every target at O0 to O3: bit for bit what the host
 * makes of them, and nothing reported by the usual checks.
 *   RFG_TEST_SEEDS=FIRST:COUNT   which (here one level of each target); =FIRST:COUNT:all on all levels
 *   RFG_TEST_ARCH=gfx942         one target
 *   RFG_TEST_KEEP=DIR            keeps the source, and the code as ARCH-ON.co
 *   RFG_TEST_FILE=FILE           that source of as many kernels, perhaps made smaller by hand */
#include "base/tempdir.h"
#include "base/util.h"
#include "emu/emu.h"
#include "emu/run/front.h"
#include "emu_compile.h"
#include "emu_kernel.h"
#include "emu_random.h"
#include "tests/suite.h"

#define IN    EMU_RANDOM_IN
#define BATCH 20 /* kernels of a code object */

static int first_seed = 1, n_seeds = 10, runs, wrong, reported, crashes;
static bool all_levels;

static void run(hipModule_t m, const struct random_kernel *k, unsigned *in, const char *build)
{
    char name[40], last[1200];
    unsigned *out = calloc(k->words, sizeof(*out)), *want = calloc(k->words, sizeof(*want));
    hipFunction_t fn;
    void *device_in, *device_out;
    int n = k->seed % 5 + 1;
    ck_assert(out && want);
    snprintf(name, sizeof(name), "seed_%d", k->seed);
    k->run(in, want, n);
    ck_assert_int_eq(hip->hipMalloc(&device_in, IN * sizeof(*in)), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc(&device_out, k->words * sizeof(*out)), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyHtoD(device_in, in, IN * sizeof(*in)), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyHtoD(device_out, out, k->words * sizeof(*out)), hipSuccess);
    ck_assert_int_eq(hip->hipModuleGetFunction(&fn, m, name), hipSuccess);
    void *params[] = { &device_in, &device_out, &n };
    emu_reports_clear();
    hipError_t e = hip->hipModuleLaunchKernel(fn, k->groups, 1, 1, k->size, 1, 1, 0, NULL, params, NULL);
    int found = emu_reports(NULL);
    emu_reports_last(last, sizeof(last));
    ck_assert_int_eq(hip->hipMemcpyDtoH(out, device_out, k->words * sizeof(*out)), hipSuccess);
    runs++;
    if (e != hipSuccess || found) {
        reported++;
        printf("%s %s: %d reports, error %d: %s\n", build, name, found, e, last);
    } else if (memcmp(out, want, k->words * sizeof(*out))) {
        unsigned w = 0, differ = 0;
        for (unsigned i = k->words; i-- > 0;)
            if (out[i] != want[i]) {
                w = i;
                differ++;
            }
        wrong++;
        printf("%s %s: %u of %u words differ; word %u is 0x%x, not 0x%x\n", build, name, differ, k->words, w, out[w],
               want[w]);
    }
    ck_assert_int_eq(hip->hipFree(device_in), hipSuccess);
    ck_assert_int_eq(hip->hipFree(device_out), hipSuccess);
    free(out);
    free(want);
    fflush(stdout);
}

/* Of what the compiler crashes on, the rest. */
static void run_range(const char *dir, const char *arch, int level, int first, int n, unsigned *in)
{
    void (*wave)(unsigned);
    char build[40], *code;
    size_t size;
    hipModule_t m;
    const struct random_kernel *kernels = emu_random_host(dir, first, n, &wave);
    wave((unsigned)emu_arch_find(arch)->wave_size);
    snprintf(build, sizeof(build), "%s O%d", arch, level);
    code = emu_random_code(dir, arch, level, &size);
    if (!code && n > 1) {
        run_range(dir, arch, level, first, n / 2, in);
        run_range(dir, arch, level, first + n / 2, n - n / 2, in);
        return;
    }
    if (!code) {
        printf("%s seed_%d: the compiler crashes\n", build, first);
        crashes++;
        return;
    }
    ck_assert_msg(hip->hipModuleLoadData(&m, code) == hipSuccess, "%s, seeds %d to %d", build, first, first + n - 1);
    for (int k = 0; k < n; k++)
        run(m, &kernels[k], in, build);
    ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    free(code);
}

START_TEST(same_as_host)
{
    const char *arch = emu_random_archs[_i], *only = getenv("RFG_TEST_ARCH"), *keep = getenv("RFG_TEST_KEEP");
    static unsigned in[IN];
    uint64_t random = 12345;
    if (only && strcmp(only, arch))
        return;
    if (!strcmp(arch, "gfx950") && !getenv("RFG_ZIGLANG_PYTHON")) {
        printf("SKIPPED: gfx950: RFG_ZIGLANG_PYTHON names no Python with ziglang\n");
        return;
    }
    for (int i = 0; i < IN; i++)
        in[i] = (unsigned)(rfg_random(&random) >> 16);
    emu_open_device(arch);
    struct rfg_tempdir tmp;
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    const char *dir = keep ? keep : tmp.path;
    for (int first = first_seed; first < first_seed + n_seeds; first += BATCH)
        for (int level = 0; level < 4; level++)
            if (all_levels || level == (_i + first / BATCH) % 4) {
                int left = first_seed + n_seeds - first;
                run_range(dir, arch, level, first, left < BATCH ? left : BATCH, in);
            }
    rfg_context_destroy(&ctx);
    rfg_tempdir_remove(&tmp);
    printf("%s: seeds %d to %d: %d kernels run, %d differ from the host, %d reported, %d not compiled\n", arch,
           first_seed, first_seed + n_seeds - 1, runs, wrong, reported, crashes);
    fflush(stdout);
    ck_assert_int_eq(wrong + reported, 0);
    ck_assert_int_gt(runs, 0);
}
END_TEST

int main(void)
{
    const char *seeds = getenv("RFG_TEST_SEEDS");
    char word[8] = "";
    if (!emu_is_there() || !emu_can_compile())
        return 77;
    if (seeds && sscanf(seeds, "%d:%d:%7s", &first_seed, &n_seeds, word) < 2) {
        printf("RFG_TEST_SEEDS=%s: must be FIRST:COUNT or FIRST:COUNT:all\n", seeds);
        return 1;
    }
    all_levels = !strcmp(word, "all");
    Suite *s = suite_create("emu_random");
    TCase *tc = test_case(s, "emu", NULL, NULL);
    tcase_set_timeout(tc, 100000);
    ADD_LOOPS(tc, EMU_RANDOM_ARCHS, same_as_host);
    return run_suite(s);
}
