/* SPDX-License-Identifier: MIT
 *
 * Correct kernels (tests/emu/correct) as clang makes them at O0 to O3, hipRTC and clang 22: right, and nothing
 * reported by the usual checks. RFG_TEST_CORRECT=all has all builds, else a part is run; RFG_TEST_KERNEL=name one
 * kernel. Counts kernels that are compiled into different bytes. */
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "emu/code/code.h"
#include "emu/run/front.h"
#include "emu_corpus.h"
#include "tests/suite.h"

/* Shared by the tests' processes. */
static struct {
    int n_builds, n_runs, n_distinct;
    uint64_t hash[1 << 14];
} * counts;

static void count(const struct corpus_build *b, const struct emu_code *code, const char *name)
{
    for (size_t k = 0; k < code->n_symbols; k++) {
        const struct emu_symbol *s = &code->symbol[k];
        if (strcmp(s->name, name) || s->type != 2)
            continue;
        uint64_t hash = XXH3_64bits_withSeed(code->image + s->value, s->size, XXH3_64bits(b->arch, strlen(b->arch)));
        for (int i = 0; i < counts->n_distinct; i++)
            if (counts->hash[i] == hash)
                return;
        if (counts->n_distinct < 1 << 14)
            counts->hash[counts->n_distinct++] = hash;
        return;
    }
}

/* What is wrong with it: nothing, or a line at the end of text. */
static void run(hipModule_t m, const struct corpus_kernel *k, void *device_in, void *device_out, char *text,
                size_t room)
{
    hipFunction_t fn;
    int n = CORPUS_N;
    char last[1200];
    size_t at = strlen(text);
    memset(corpus_want, 0, sizeof(corpus_want));
    k->host(corpus_in, corpus_want, n);
    void *params[] = { &device_in, &device_out, &n };
    memset(corpus_out, 0, sizeof(corpus_out));
    ck_assert_int_eq(hip->hipMemcpyHtoD(device_out, corpus_out, sizeof(corpus_out)), hipSuccess);
    ck_assert_int_eq(hip->hipModuleGetFunction(&fn, m, k->name), hipSuccess);
    emu_reports_clear();
    hipError_t e = hip->hipModuleLaunchKernel(fn, GROUPS, 1, 1, SIZE, 1, 1, 0, NULL, params, NULL);
    int found = emu_reports(NULL);
    emu_reports_last(last, sizeof(last));
    ck_assert_int_eq(hip->hipMemcpyDtoH(corpus_out, device_out, sizeof(corpus_out)), hipSuccess);
    if (e != hipSuccess || found)
        snprintf(text + at, room - at, "  %s: %d reports: %s\n", k->name, found, last);
    else if (memcmp(corpus_out, corpus_want, sizeof(corpus_out))) {
        int w = 0;
        while (corpus_out[w] == corpus_want[w])
            w++;
        snprintf(text + at, room - at, "  %s: word %d is 0x%x, not 0x%x\n", k->name, w, corpus_out[w], corpus_want[w]);
    }
}

START_TEST(right_and_silent)
{
    const char *only = getenv("RFG_TEST_KERNEL");
    const struct corpus_build *b = &corpus_builds[_i];
    static char wrong[1 << 16];
    char why[200];
    void *device_in, *device_out;
    size_t size;
    struct emu_code *code;
    hipModule_t m;
    if (!corpus_begin(b))
        return;
    char *object = corpus_load(b, &m, &size, &device_in, &device_out);
    ck_assert_msg(emu_code_load(&code, object, size, emu_arch_find(b->arch), why, sizeof(why)), "%s", why);
    for (int k = 0; k < corpus_n_kernels; k++)
        if (!only || !strcmp(only, corpus_kernels[k].name)) {
            run(m, &corpus_kernels[k], device_in, device_out, wrong, sizeof(wrong));
            count(b, code, corpus_kernels[k].name);
            counts->n_runs++;
        }
    counts->n_builds++;
    emu_code_free(&code);
    ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    free(object);
    rfg_context_destroy(&ctx);
    printf("%s", wrong);
    fflush(stdout);
    ck_assert_msg(!*wrong, "%s by %s -O%d: kernels are wrong, or are reported", b->arch, corpus_compiler_name(b),
                  b->level);
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 1;
    Suite *s = suite_create("emu_correct");
    TCase *tc = tcase_create("emu");
    tcase_set_timeout(tc, 240);
    for (int i = 0; i < corpus_n_builds; i++)
        if (corpus_wanted(&corpus_builds[i]))
            tcase_add_loop_test(tc, right_and_silent, i, i + 1);
    suite_add_tcase(s, tc);
    int failed = run_suite(s);
    printf("%d kernels, %d builds: %d runs of %d distinct compiled kernels\n", corpus_n_kernels, counts->n_builds,
           counts->n_runs, counts->n_distinct);
    return failed;
}
