/* SPDX-License-Identifier: MIT
 *
 * Removes each wait (s_waitcnt, s_waitcnt_vscnt, s_wait_*) and each s_nop of correct kernels (tests/emu/correct) in
 * turn. A check must report each that was needed; emu_exposed.h decides which were. RFG_TEST_CORRECT=all takes all
 * kernels of all builds, else some; RFG_TEST_KERNEL=name one; RFG_TEST_VERBOSE=1 tells of each s_nop that no rule is
 * for. */
#include <fcntl.h>
#include <unistd.h>

#include "emu/check/effects.h"
#include "emu/hip/hip_impl.h"
#include "emu_corpus.h"
#include "emu_exposed.h"
#include "tests/suite.h"

static const struct corpus_build builds[] = {
    { "gfx90a", BY_CLANG, 2, true, ":xnack-" }, /* with it s_nops part loads that may be done again */
    { "gfx1100", BY_CLANG, 2, false },          { "gfx942", BY_CLANG, 2, false }, { "gfx950", BY_ZIGLANG, 2, false },
    { "gfx1201", BY_CLANG, 2, false },          { "gfx942", BY_CLANG, 0, false },
};
#define N_BUILDS (int)(sizeof(builds) / sizeof(builds[0]))
#define FEW      20 /* without RFG_TEST_CORRECT=all: each such kernel */
#define FEW_O0   5  /* ... of all builds that of O0, which has the most waits */

static void *device_in, *device_out;

/* Reports of one launch. */
static int launch(hipFunction_t fn)
{
    static int null = -1;
    int n = CORPUS_N;
    void *params[] = { &device_in, &device_out, &n };
    memset(corpus_out, 0, sizeof(corpus_out));
    ck_assert_int_eq(hip->hipMemcpyHtoD(device_out, corpus_out, sizeof(corpus_out)), hipSuccess);
    emu_reports_clear();
    if (null < 0)
        null = open("/dev/null", O_WRONLY);
    fflush(stderr);
    int keep = dup(2);
    ck_assert(null >= 0 && keep >= 0 && dup2(null, 2) == 2);
    hip->hipModuleLaunchKernel(fn, GROUPS, 1, 1, SIZE, 1, 1, 0, NULL, params, NULL);
    fflush(stderr);
    ck_assert_int_eq(dup2(keep, 2), 2);
    close(keep);
    return emu_reports(NULL);
}

static struct {
    int waits, caught, agreed, idle, scratch, later, silent;
    int nops, nops_caught, nops_strict;
} sum;

static void without_wait(const char *kernel, hipFunction_t fn, const struct emu_program *prog, struct emu_inst *inst)
{
    char text[128];
    const char *why;
    uint32_t wait = inst->wait;
    inst->wait = 0;
    exposed_begin(prog, inst, wait);
    int found = launch(fn);
    inst->wait = wait;
    const char *needed = exposed_needed(&why);
    sum.waits++;
    sum.caught += found > 0;
    sum.agreed += found > 0 && needed != NULL;
    if (found)
        return;
    sum.silent += needed != NULL;
    sum.idle += !needed && *why == 'n';
    sum.scratch += !needed && *why == 's';
    sum.later += !needed && *why == 'w';
    emu_inst_text(prog, inst, text, sizeof(text));
    if (needed)
        printf("  %s: '%s' at 0x%x isn't missed: %s\n", kernel, text, inst->address, needed);
}

/* What keeps instructions apart. */
static bool is_nop(const struct emu_inst *i)
{
    return i->op && (!strcmp(i->op->name, "s_nop") || !strcmp(i->op->name, "s_waitcnt_depctr"));
}

static void without_nop(const char *kernel, hipFunction_t fn, const struct emu_program *prog, const struct emu_inst *i)
{
    struct emu_effect *e = (struct emu_effect *)(uintptr_t)&emu_effects(prog)[i - prog->inst], had = *e;
    memset(e, 0, sizeof(*e)); /* no wait state, nothing that ends a hazard */
    exposed_begin(prog, NULL, 0);
    bool caught = launch(fn) > 0, strictly = false;
    if (!caught) {
        setenv("RFG_EMU_CHECKS", "+strict", 1);
        strictly = launch(fn) > 0;
        unsetenv("RFG_EMU_CHECKS");
    }
    *e = had;
    sum.nops++;
    sum.nops_caught += caught;
    sum.nops_strict += strictly;
    if (!caught && !strictly && getenv("RFG_TEST_VERBOSE")) {
        char text[128], next[128];
        emu_inst_text(prog, i, text, sizeof(text));
        emu_inst_text(prog, i + 1, next, sizeof(next));
        printf("  %s: '%s' at 0x%x before '%s': no rule\n", kernel, text, i->address, next);
    }
}

START_TEST(taken_out)
{
    const struct corpus_build *b = &builds[_i];
    const char *only = getenv("RFG_TEST_KERNEL");
    bool every = corpus_all();
    size_t size;
    hipModule_t m;
    bool *done = NULL;
    if (!corpus_begin(b))
        return;
    setenv("RFG_EMU_MAX_SPIN", "1000000", 1);
    char *object = corpus_load(b, &m, &size, &device_in, &device_out);
    free(object);
    exposed_in();
    for (int k = 0; k < corpus_n_kernels; k += only ? 1 : !every ? FEW : b->level ? 1 : FEW_O0) {
        const char *name = corpus_kernels[k].name;
        hipFunction_t fn;
        if (only && strcmp(only, name))
            continue;
        ck_assert_int_eq(hip->hipModuleGetFunction(&fn, m, name), hipSuccess);
        const struct function *f = (const struct function *)fn;
        const struct emu_program *prog = emu_code_program(f->module->code, f->kernel);
        done = done ? done : calloc((size_t)prog->n, 1);
        ck_assert_ptr_nonnull(done);
        exposed_begin(prog, NULL, 0);
        ck_assert_msg(launch(fn) == 0, "%s is reported", name);
        bool *ran = malloc((size_t)prog->n);
        ck_assert_ptr_nonnull(ran);
        for (int i = 0; i < prog->n; i++)
            ran[i] = exposed_ran(&prog->inst[i]);
        for (int i = 0; i < prog->n; i++) {
            if (!ran[i] || done[i] || (!prog->inst[i].wait && !is_nop(&prog->inst[i])))
                continue;
            done[i] = true;
            if (prog->inst[i].wait)
                without_wait(name, fn, prog, &prog->inst[i]);
            else
                without_nop(name, fn, prog, &prog->inst[i]);
        }
        free(ran);
    }
    printf("%s by %s -O%d: %d waits taken out: %d missed (%d needed by this book), %d not though needed; not needed: "
           "%d that nothing was under way for, %d for stores to own scratch, %d before another\n",
           b->arch, corpus_compiler_name(b), b->level, sum.waits, sum.caught, sum.agreed, sum.silent, sum.idle,
           sum.scratch, sum.later);
    printf("%s by %s -O%d: %d s_nop and s_waitcnt_depctr taken out: %d missed, %d by +strict, %d that no rule is for\n",
           b->arch, corpus_compiler_name(b), b->level, sum.nops, sum.nops_caught, sum.nops_strict,
           sum.nops - sum.nops_caught - sum.nops_strict);
    fflush(stdout);
    exposed_out();
    free(done);
    ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    rfg_context_destroy(&ctx);
    ck_assert(only || sum.waits > 0);
    ck_assert_int_eq(sum.silent, 0);
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    Suite *s = suite_create("emu_removals");
    TCase *tc = tcase_create("emu");
    tcase_set_timeout(tc, 1800);
    for (int i = 0; i < N_BUILDS; i++)
        if (corpus_wanted(&builds[i]))
            tcase_add_loop_test(tc, taken_out, i, i + 1);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
