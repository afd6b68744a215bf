/* SPDX-License-Identifier: MIT
 *
 * Twins (tests/emu/twins): each kernel as it is right, of which nothing may be reported, and with one mistake, which
 * must be reported, by the check that the source names (at O0 what nothing wrote comes by way of scratch; "nothing":
 * none finds it yet). RFG_TEST_CORRECT=all has all builds, else a part is run; RFG_TEST_KERNEL=name one pair. */
#include "base/util.h"
#include "emu/run/front.h"
#include "emu_corpus.h"
#include "tests/suite.h"

static const char *const files[] = { "correct/words.h", "twins/twins.h", "twins/lds.hip", "twins/memory.hip",
                                     "twins/registers.hip" };

static const struct {
    struct corpus_build build;
    int pairs; /* at least: some are of other architectures */
} builds[] = {
    { { "gfx90a", BY_HIPRTC, 3, true }, 100 },   { { "gfx942", BY_CLANG, 2, true }, 100 },
    { { "gfx942", BY_CLANG, 0, false }, 100 },   { { "gfx1100", BY_CLANG, 2, true }, 100 },
    { { "gfx950", BY_ZIGLANG, 2, false }, 100 },
};
#define N_BUILDS (int)(sizeof(builds) / sizeof(builds[0]))

/* TWIN(name, check) of the source. */
#define MAX_PAIRS 200
static struct {
    char name[48], check[32];
} pairs[MAX_PAIRS];

static int find_pairs(const char *source)
{
    int n = 0;
    for (const char *c = source; (c = strstr(c, "\nTWIN(")) && n < MAX_PAIRS; n++) {
        ck_assert_int_eq(sscanf(++c, "TWIN(%47[a-z0-9_], %31[a-z_])", pairs[n].name, pairs[n].check), 2);
        for (char *d = pairs[n].check; *d; d++)
            *d = *d == '_' ? '-' : *d;
    }
    return n;
}

static void *buffer(size_t size, void *bytes)
{
    void *p;
    ck_assert_int_eq(hip->hipMalloc(&p, size), hipSuccess);
    if (bytes)
        ck_assert_int_eq(hip->hipMemcpyHtoD(p, bytes, size), hipSuccess);
    return p;
}

/* The reports of one launch, of that check and of others. */
static int run(hipFunction_t fn, const char *check, char *last, size_t room, int *others)
{
    int n = CORPUS_N;
    memset(corpus_out, 0, sizeof(corpus_out));
    void *in = buffer(sizeof(corpus_in), corpus_in), *out = buffer(sizeof(corpus_out), corpus_out);
    void *fresh = buffer(sizeof(corpus_in), NULL), *gone = buffer(sizeof(corpus_in), corpus_in);
    ck_assert_int_eq(hip->hipFree(gone), hipSuccess);
    void *params[] = { &in, &out, &fresh, &gone, &n };
    emu_reports_clear();
    hipError_t e = hip->hipModuleLaunchKernel(fn, GROUPS, 1, 1, SIZE, 1, 1, 0, NULL, params, NULL);
    int found = emu_reports(check);
    *others = emu_reports(NULL) - found;
    ck_assert_int_eq(e != hipSuccess, found + *others > 0);
    emu_reports_last(last, room);
    ck_assert_int_eq(hip->hipFree(in), hipSuccess);
    ck_assert_int_eq(hip->hipFree(out), hipSuccess);
    ck_assert_int_eq(hip->hipFree(fresh), hipSuccess);
    return found;
}

START_TEST(right_and_broken)
{
    const struct corpus_build *b = &builds[_i].build;
    const char *only = getenv("RFG_TEST_KERNEL");
    char last[1200];
    hipModule_t m[2];
    if (!corpus_begin(b))
        return;
    setenv("RFG_EMU_MAX_SPIN", "200000", 1);
    char *source = corpus_text(files, sizeof(files) / sizeof(files[0]));
    int n = find_pairs(source), had = 0, reported = 0, caught = 0, otherwise = 0, not_yet = 0;
    for (int broken = 0; broken <= 1; broken++) {
        size_t size;
        char *text = rfg_asprintf("%s%s", broken ? "#define BROKEN\n" : "", source);
        char *object = corpus_compile(b, pairs[0].name, text, &size);
        ck_assert_int_eq(hip->hipModuleLoadData(&m[broken], object), hipSuccess);
        free(object);
        free(text);
    }
    for (int k = 0; k < n; k++) {
        hipFunction_t right, broken;
        int others;
        if (only && strcmp(only, pairs[k].name))
            continue;
        if (hip->hipModuleGetFunction(&right, m[0], pairs[k].name) != hipSuccess)
            continue; /* has nothing to break on this architecture */
        had++;
        ck_assert_int_eq(hip->hipModuleGetFunction(&broken, m[1], pairs[k].name), hipSuccess);
        if (run(right, pairs[k].check, last, sizeof(last), &others) || others) {
            reported++;
            printf("%s by %s -O%d: %s is right and reported: %s\n", b->arch, corpus_compiler_name(b), b->level,
                   pairs[k].name, last);
        }
        int found = run(broken, pairs[k].check, last, sizeof(last), &others);
        caught += found > 0;
        not_yet += !found && !others && !strcmp(pairs[k].check, "nothing");
        otherwise += !found && others;
        if (!found && (only || !others))
            printf("%s by %s -O%d: %s isn't reported as %s: %s\n", b->arch, corpus_compiler_name(b), b->level,
                   pairs[k].name, pairs[k].check, others ? last : "nothing");
    }
    printf("%s by %s -O%d: %d pairs: %d right ones reported, %d broken ones caught (%d of them as something else)\n",
           b->arch, corpus_compiler_name(b), b->level, had, reported, caught + otherwise, otherwise);
    fflush(stdout);
    free(source);
    for (int k = 0; k < 2; k++)
        ck_assert_int_eq(hip->hipModuleUnload(m[k]), hipSuccess);
    rfg_context_destroy(&ctx);
    ck_assert(only || had >= builds[_i].pairs);
    ck_assert_int_eq(reported, 0);
    ck_assert_int_eq(caught + otherwise + not_yet, had);
    ck_assert_int_le(not_yet, 2);
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    Suite *s = suite_create("emu_twins");
    TCase *tc = tcase_create("emu");
    tcase_set_timeout(tc, 240);
    for (int i = 0; i < N_BUILDS; i++)
        if (corpus_wanted(&builds[i].build))
            tcase_add_loop_test(tc, right_and_broken, i, i + 1);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
