/* SPDX-License-Identifier: MIT
 *
 * The emulator's checks: each finds its bad kernel and reports nothing for the good one beside it; split-K under many
 * schedules. Kernels are compiled here, by hipRTC for gfx90a and gfx1030 and by clang for gfx942, gfx1100 and
 * gfx1201. */
#include "dispatch/context.h"
#include "emu/run/front.h"
#include "tuner/harness/harness.h"
#include "emu_kernel.h"
#include "tests/op_cases.h"
#include "tests/program.h"

static const char *const archs[] = { "gfx90a", "gfx942", "gfx1100" };
#define N_ARCHS 3

static const char prelude[] =
    "#ifndef __global__\n"
    "#define __global__ __attribute__((global))\n"
    "#define __device__ __attribute__((device))\n"
    "#define __shared__ __attribute__((shared))\n"
    "#endif\n"
    "#define TID __builtin_amdgcn_workitem_id_x()\n"
    "#define GROUP __builtin_amdgcn_workgroup_id_x()\n"
    "#define ME (GROUP * 128 + TID)\n"
    "#define STORE(p, v, o) __hip_atomic_store(p, v, o, __HIP_MEMORY_SCOPE_AGENT)\n"
    "#define LOADA(p, o) __hip_atomic_load(p, o, __HIP_MEMORY_SCOPE_AGENT)\n"
    "#define ADD(p, v, o) __hip_atomic_fetch_add(p, v, o, __HIP_MEMORY_SCOPE_AGENT)\n"
    "#define BARRIER __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier(); "
    "__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\")\n"
    "extern \"C\" __global__ void k(int *p, int n)\n";

/* What compilers make of C, mostly of its memory model; instruction by instruction: emu_rules. Bodies: n is 1 for the
 * bad kernel and 0 for the good one, or BAD is defined for the bad one. Groups of 128 threads, two groups, p has 256
 * ints, all 5. */
enum { GFX90A = 1, GFX942 = 2, GFX1100 = 4, EVERY = 7 };
static const struct check {
    const char *name, *body;
    int archs;        /* where the bad one is bad */
    const char *says; /* NULL: whatever */
} checks[] = {
    { "uninitialised-lds",
      "{ __shared__ int s[128]; if (TID < (n ? 64u : 128u)) s[TID] = 1; BARRIER; p[ME] = s[127 - TID]; }", EVERY,
      NULL },
    { "lds-race",
      "{ __shared__ int s[128]; s[TID] = 0; BARRIER; s[TID] = TID; if (!n) { BARRIER; } else asm "
      "volatile(\"\" ::: \"memory\"); p[ME] = s[127 - TID]; }",
      EVERY, "with no barrier between" },
    /* The good one writes a register by halves. */
    { "uninitialised-register",
      "{ int v;\n#ifdef BAD\nasm volatile(\"\" : \"=v\"(v));\n#else\nasm volatile(\"v_fma_mixlo_f16 %0, %1, %1, "
      "0\\n\\tv_fma_mixhi_f16 %0, %1, %1, 0\" : \"=&v\"(v) : \"v\"(1.0f));\n#endif\np[ME] = v; }",
      EVERY, NULL },
    { "uninitialised-memory", "{ if (GROUP == 0) p[128 + TID] = p[TID] + n; }", EVERY, NULL },
    { "global-race", "{ p[TID + (n ? 0 : GROUP * 128)] = GROUP; }", EVERY, "nothing orders the two" },
    { "global-race", "{ p[ME] = 1; p[ME] = p[n ? 255 - ME : ME ^ 1]; }", EVERY, "nothing orders the two" },
    /* Group 0 gives p[0...127] to group 1, by a flag. */
    { "global-race",
      "{ if (GROUP == 0) { if (TID < 32) p[TID] = n; if (TID == 0) STORE(p + 255, 9, n ? __ATOMIC_RELAXED : "
      "__ATOMIC_RELEASE); } else { while (LOADA(p + 255, __ATOMIC_ACQUIRE) == 5) __builtin_amdgcn_s_sleep(1); if (TID "
      "< "
      "32) p[128 + TID] = p[TID]; } }",
      EVERY, "it had not been waited for" },
    { "global-race",
      "{ if (GROUP == 0) { p[TID] = n; BARRIER; if (TID == 0) {\n#ifdef BAD\nasm volatile(\"s_waitcnt vmcnt(0)\" ::: "
      "\"memory\"); STORE(p + 255, 9, __ATOMIC_RELAXED);\n#else\nSTORE(p + 255, 9, __ATOMIC_RELEASE);\n#endif\n} } "
      "else { while (LOADA(p + 255, __ATOMIC_ACQUIRE) == 5) __builtin_amdgcn_s_sleep(1); if (TID < 100) p[128 + TID] = "
      "p[TID]; } }",
      GFX942, "was not written back (buffer_wbl2 sc1" },
    { "global-race",
      "{ if (GROUP == 0) { p[TID] = n; BARRIER; if (TID == 0) STORE(p + 255, 9, __ATOMIC_RELEASE); } "
      "else { while (LOADA(p + 255, n ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE) == 5) __builtin_amdgcn_s_sleep(1); if "
      "(TID < "
      "100) p[128 + TID] = p[TID]; } }",
      EVERY, "no invalidate since the acquire" },
    /* Who comes last adds up: split-K in one launch. p[255] counts from 5. */
    { "global-race",
      "{ __shared__ int last; if (TID < 64) p[GROUP * 64 + TID] = TID; BARRIER; if (TID == 0) last = ADD(p + 255, 1, n "
      "? "
      "__ATOMIC_RELAXED : __ATOMIC_ACQ_REL) == 6; BARRIER; if (last && TID < 64) p[128 + TID] = p[TID] + p[64 + TID]; "
      "}",
      EVERY, NULL },
};
#define N_CHECKS (int)(sizeof(checks) / sizeof(checks[0]))

static hipModule_t build(const char *arch, const char *body, bool bad, hipFunction_t *fn)
{
    size_t size = strlen(prelude) + strlen(body) + 40;
    char *source = malloc(size);
    ck_assert_ptr_nonnull(source);
    snprintf(source, size, "%s%s%s\n", bad ? "#define BAD\n" : "", prelude, body);
    hipModule_t m = emu_build(arch, "k", source, NULL);
    ck_assert_int_eq(hip->hipModuleGetFunction(fn, m, "k"), hipSuccess);
    free(source);
    return m;
}

static hipError_t launch(hipFunction_t fn, void *p, int n)
{
    void *params[] = { &p, &n };
    return hip->hipModuleLaunchKernel(fn, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
}

static int *buffer(void)
{
    int *p, fives[256];
    for (int i = 0; i < 256; i++)
        fives[i] = 5;
    ck_assert_int_eq(hip->hipMalloc((void **)&p, sizeof(fives)), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyHtoD(p, fives, sizeof(fives)), hipSuccess);
    return p;
}

START_TEST(checks_find_what_is_wrong)
{
    const char *arch = archs[_i / N_CHECKS];
    const struct check *c = &checks[_i % N_CHECKS];
    bool is_bad = c->archs >> _i / N_CHECKS & 1;
    char last[1200];
    emu_open_device(arch);
    for (int bad = 0; bad <= 1; bad++) {
        hipFunction_t fn;
        hipModule_t m = build(arch, c->body, bad, &fn);
        int *p = buffer();
        if (bad && !strcmp(c->name, "uninitialised-memory")) {
            ck_assert_int_eq(hip->hipFree(p), hipSuccess);
            ck_assert_int_eq(hip->hipMalloc((void **)&p, 1024), hipSuccess);
        }
        emu_reports_clear();
        hipError_t e = launch(fn, p, bad);
        int found = emu_reports(NULL);
        emu_reports_last(last, sizeof(last));
        if (!bad || !is_bad)
            ck_assert_msg(e == hipSuccess && !found, "%s: the good kernel of %s is reported: %s", arch, c->name, last);
        else {
            ck_assert_msg(e != hipSuccess && found, "%s: the bad kernel of %s passes", arch, c->name);
            ck_assert_msg(emu_reports(c->name) == found, "%s: not %s but: %s", arch, c->name, last);
            PRINTS(last, "workgroup (");
            PRINTS(last, "kernel k");
            if (c->says)
                PRINTS(last, c->says);
        }
        /* The device goes on after a finding. */
        ck_assert_int_eq(hip->hipMemcpyHtoD(p, &bad, sizeof(bad)), hipSuccess);
        ck_assert_int_eq(hip->hipFree(p), hipSuccess);
        ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(memory_that_was_freed)
{
    char last[1200];
    hipFunction_t fn;
    emu_open_device(archs[_i]);
    hipModule_t m = build(archs[_i], "{ p[ME] = n; }", false, &fn);
    int *p = buffer();
    ck_assert_int_eq(launch(fn, p, 1), hipSuccess);
    ck_assert_int_eq(p[127], 1);
    ck_assert_int_eq(hip->hipFree(p), hipSuccess);
    ck_assert_int_ne(launch(fn, p, 1), hipSuccess);
    emu_reports_last(last, sizeof(last));
    PRINTS(last, "use-after-free");
    PRINTS(last, "(1024 bytes at ");
    ck_assert_int_eq(hip->hipFree(p), hipErrorInvalidValue);
    ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    rfg_context_destroy(&ctx);
}
END_TEST

/* It stores, and so is no deadlock, but doesn't end. */
START_TEST(endless_loop)
{
    char last[1200];
    hipFunction_t fn;
    emu_open_device(archs[_i]);
    hipModule_t m = build(archs[_i], "{ for (;;) ((volatile int *)p)[ME] = n; }", false, &fn);
    int *p = buffer();
    setenv("RFG_EMU_MAX_INSTRUCTIONS", "100000", 1);
    ck_assert_int_ne(launch(fn, p, 1), hipSuccess);
    unsetenv("RFG_EMU_MAX_INSTRUCTIONS");
    emu_reports_last(last, sizeof(last));
    PRINTS(last, "instruction-limit: it was stopped after RFG_EMU_MAX_INSTRUCTIONS, 100000 wave-instructions");
    ck_assert_int_eq(hip->hipFree(p), hipSuccess);
    ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Split-K reduces inside of the launch: whoever comes last adds up, whatever the order; the sum is the same, bit by
 * bit. */
START_TEST(split_k_under_many_schedules)
{
    static const struct {
        const char *problem, *config;
    } splits[] = {
        { "gemm bf16,bf16->bf16 M=3 N=40 K=1024", "gemm_skinny{m_tile=4,rows=2,waves=2,unroll=2,split_k=4}" },
        { "gemm bf16,bf16->f32 M=20 N=48 K=1024",
          "gemm_splitk_mma{tile_m=32,tile_n=16,tile_k=128,k_waves=2,stages=3,split_k=4}" },
    };
    for (int s = 0; s < 2; s++) {
        struct rfg_problem prob;
        struct rfg_reason why;
        struct rfg_case_params params = { .seed = 3 };
        struct rfg_case *c;
        struct rfg_plan *plan;
        struct rfg_check check;
        const struct rfg_variant *var;
        int p[RFG_MAX_PARAMS];
        void *first = NULL, *bytes;
        size_t n;
        emu_open_device(archs[_i]);
        ck_assert(rfg_problem_parse(&prob, splits[s].problem, NULL));
        ck_assert_msg(rfg_config_parse(prob.op, splits[s].config, &var, p, &why), "%s", why.text);
        ck_assert_int_eq(rfg_case_create(ctx, &prob, &params, &c), RFG_OK);
        ck_assert_msg(rfg_plan_create(ctx, rfg_case_problem(c), var, p, &plan) == RFG_OK, "%s", rfg_last_error());
        for (int seed = 0; seed <= 20; seed++) {
            char text[20];
            snprintf(text, sizeof(text), "%d", seed);
            setenv("RFG_EMU_SCHEDULE", text, 1);
            ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
            ck_assert_msg(rfg_case_run_checked(c, 0, plan, NULL) == RFG_OK, "%s schedule %d: %s", archs[_i], seed,
                          rfg_last_error());
            ck_assert_int_eq(rfg_case_check(c, 0, &check), RFG_OK);
            ck_assert_msg(check.ok, "%s schedule %d: %s", archs[_i], seed, check.message);
            ck_assert_int_eq(rfg_case_outputs(c, 0, &bytes, &n), RFG_OK);
            if (first)
                ck_assert_msg(!memcmp(first, bytes, n), "%s schedule %d: other bits", archs[_i], seed);
            free(first ? bytes : NULL);
            first = first ? first : bytes;
        }
        free(first);
        unsetenv("RFG_EMU_SCHEDULE");
        rfg_plan_destroy(ctx, &plan);
        rfg_case_destroy(&c);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    Suite *s = suite_create("emu_checks");
    TCase *tc = test_case(s, "emu", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, N_ARCHS * N_CHECKS, checks_find_what_is_wrong);
    ADD_LOOPS(tc, N_ARCHS, memory_that_was_freed, endless_loop, split_k_under_many_schedules);
    return run_suite(s);
}
