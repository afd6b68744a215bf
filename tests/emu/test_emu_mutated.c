/* SPDX-License-Identifier: MIT
 *
 * Kernels with bytes of their code changed: whatever they do, the emulator reports it or stops it, and goes on.
 *   RFG_TEST_MUTANTS=COUNT         launches for each target; a mutant's number makes it the same again
 *   RFG_TEST_MUTANTS=FIRST:COUNT
 *   RFG_TEST_ARCH=gfx942           one target */
#include <signal.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "base/util.h"
#include "emu/code/code.h"
#include "emu/run/front.h"
#include "emu_compile.h"
#include "emu_kernel.h"
#include "emu_random.h"
#include "tests/suite.h"

#define OUT     (1 << 16) /* bytes */
#define KERNELS 3
#define ROUND   200 /* mutants of a code object */

static int first_mutant = 1, n_mutants = 50;
static volatile int current;

static void say_which(int sig)
{
    char text[60];
    int n = snprintf(text, sizeof(text), "mutant %d: signal %d\n", current, sig);
    ssize_t written = write(STDOUT_FILENO, text, (size_t)n);
    (void)written;
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Bytes of text: bits, bytes, words from elsewhere of it. */
static void mutate(char *text, size_t size, uint64_t *random)
{
    for (unsigned k = 0, n = 1 + rfg_random(random) % 4; k < n; k++) {
        size_t at = rfg_random(random) % size, word = at & ~(size_t)3, other = rfg_random(random) % size & ~(size_t)3;
        switch (rfg_random(random) % 4) {
        case 0:
            text[at] ^= (char)(1 << rfg_random(random) % 8);
            break;
        case 1:
            text[at] = (char)rfg_random(random);
            break;
        case 2:
            memmove(text + word, text + other, 4);
            break;
        default: { /* an instruction away: those behind it move up */
            size_t left = size - word < 256 ? size - word : 256;
            memmove(text + word, text + word + 4, left - 4);
        }
        }
    }
}

static bool launch(hipModule_t m, const char *kernel, void *in, void *out)
{
    hipFunction_t fn;
    int n = 2;
    void *params[] = { &in, &out, &n };
    if (hip->hipModuleGetFunction(&fn, m, kernel) != hipSuccess)
        return false;
    emu_reports_clear();
    (void)hip->hipModuleLaunchKernel(fn, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL);
    return true;
}

START_TEST(nothing_crashes)
{
    const char *arch = emu_random_archs[_i], *only = getenv("RFG_TEST_ARCH");
    struct rfg_tempdir tmp;
    char error[256], name[40];
    void *in, *out;
    int refused = 0, launches = 0, failed = 0;
    if (only && strcmp(only, arch))
        return;
    if (!strcmp(arch, "gfx950") && !getenv("RFG_ZIGLANG_PYTHON")) {
        printf("SKIPPED: gfx950: RFG_ZIGLANG_PYTHON names no Python with ziglang\n");
        return;
    }
    signal(SIGSEGV, say_which);
    signal(SIGBUS, say_which);
    signal(SIGFPE, say_which);
    signal(SIGABRT, say_which);
    setenv("RFG_EMU_MAX_INSTRUCTIONS", "50000", 1);
    setenv("RFG_EMU_MAX_SPIN", "5000", 1);
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    emu_open_device(arch);
    ck_assert_int_eq(hip->hipMalloc(&in, EMU_RANDOM_IN * 4), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc(&out, OUT), hipSuccess);
    ck_assert_int_eq(hip->hipMemsetD8Async(in, 1, EMU_RANDOM_IN * 4, NULL), hipSuccess);
    ck_assert_int_eq(hip->hipMemsetD8Async(out, 0, OUT, NULL), hipSuccess);
    for (int first = first_mutant; first < first_mutant + n_mutants; first += ROUND) {
        size_t size, text = 0, text_size = 0;
        struct emu_code *code;
        emu_random_source(tmp.path, first, KERNELS);
        char *file = emu_random_code(tmp.path, arch, 1 + first / ROUND % 3, &size);
        if (!file)
            continue;
        ck_assert_msg(emu_code_load(&code, file, size, NULL, error, sizeof(error)), "%s", error);
        char *found = memmem(file, size, code->image + code->text, code->text_size);
        text = (size_t)(found - file);
        text_size = code->text_size;
        emu_code_free(&code);
        ck_assert_ptr_nonnull(found);
        /* As many as are asked for that can be launched. */
        for (current = first; current < first + ROUND && current < first_mutant + n_mutants; current++)
            for (int k = 0; k < 100; k++) {
                uint64_t random = (uint64_t)current * 1000 + (uint64_t)k;
                char *mutant = malloc(size);
                hipModule_t m;
                ck_assert_ptr_nonnull(mutant);
                memcpy(mutant, file, size);
                mutate(mutant + text, text_size, &random);
                bool ok = hip->hipModuleLoadData(&m, mutant) == hipSuccess;
                free(mutant);
                if (!ok) {
                    refused++;
                    continue;
                }
                for (int seed = first; seed < first + KERNELS; seed++) {
                    snprintf(name, sizeof(name), "seed_%d", seed);
                    launches += launch(m, name, in, out);
                    failed += emu_reports(NULL) > 0;
                }
                ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
                break;
            }
        free(file);
    }
    ck_assert_int_eq(hip->hipFree(in), hipSuccess);
    ck_assert_int_eq(hip->hipFree(out), hipSuccess);
    rfg_context_destroy(&ctx);
    rfg_tempdir_remove(&tmp);
    printf("%s: mutants %d to %d: %d refused, %d launches, %d of them reported\n", arch, first_mutant,
           first_mutant + n_mutants - 1, refused, launches, failed);
    ck_assert_int_ge(launches, n_mutants);
}
END_TEST

int main(void)
{
    const char *mutants = getenv("RFG_TEST_MUTANTS");
    if (!emu_is_there() || !emu_can_compile())
        return 77;
    if (mutants && sscanf(mutants, "%d:%d", &first_mutant, &n_mutants) < 2)
        first_mutant = 1, n_mutants = atoi(mutants);
    Suite *s = suite_create("emu_mutated");
    TCase *tc = test_case(s, "emu", NULL, NULL);
    tcase_set_timeout(tc, 100000);
    ADD_LOOPS(tc, EMU_RANDOM_ARCHS, nothing_crashes);
    return run_suite(s);
}
