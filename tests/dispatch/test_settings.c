/* SPDX-License-Identifier: MIT
 *
 * Meaningless settings are refused; others restrict only what they name. And a call's message when there is no
 * compiler, or none accepts the kernels. */
#include "dispatch/context.h"
#include "base/util.h"
#include "tests/emu/emu_kernel.h"
#include "tests/op_cases.h"
#include "tests/program.h"
#include "rfg/rfg.h"

#define EMU "emu:gfx942:2"

static void setup(void)
{
    static const char *const names[] = { "RFG_VARIANTS", "RFG_LAUNCH_OVERLAP", "RFG_KERNEL_DIR",   "RFG_JIT",
                                         "RFG_VENDOR",   "RFG_HIP_DISABLE",    "RFG_DEVICE",       "RFG_MISSES",
                                         "RFG_THREADS",  "RFG_CPU_ISA",        "RFG_CACHE_MAX_MIB" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

static rfg_status create(const char *device, const char *variants, int overlap)
{
    rfg_context_params p = { .size = sizeof(p),
                             .device = device,
                             .user_db = "",
                             .system_db = "",
                             .cache_dir = "",
                             .threads = 1,
                             .variants = variants,
                             .launch_overlap = overlap };
    return rfg_context_create(&ctx, &p);
}

static void must_create(const char *device, const char *variants)
{
    ck_assert_msg(create(device, variants, 0) == RFG_OK, "%s", rfg_last_error());
}

static const struct rfg_variant *choice_of(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    struct rfg_choice c;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s", why.text);
    ck_assert_msg(rfg_choose(ctx, &p, RFG_RUNG_EXACT, 0, &c, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    return c.variant;
}

/* ---- variants ---------------------------------------------------------------------------------------------------- */

#define GEMM "gemm bf16,bf16->bf16 M=8 N=64 K=512"
#define ACT  "act bf16->bf16 M=8 N=64"
#define NORM "rmsnorm bf16->bf16 M=8 N=64"

START_TEST(variants_restrict_their_operators)
{
    must_create("cpu", NULL);
    const struct rfg_variant *gemm = choice_of(GEMM), *act = choice_of(ACT), *norm = choice_of(NORM);
    rfg_context_destroy(&ctx);
    for (int by_env = 0; by_env < 2; by_env++) {
        if (by_env)
            setenv("RFG_VARIANTS", "act_cpu_portable", 1);
        must_create("cpu", by_env ? NULL : "act_cpu_portable");
        ck_assert_str_eq(choice_of(ACT)->name, "act_cpu_portable");
        ck_assert_ptr_eq(choice_of(GEMM), gemm);
        ck_assert_ptr_eq(choice_of(NORM), norm);
        rfg_context_destroy(&ctx);
    }
    must_create("cpu", ",gemm_cpu_portable,,rmsnorm_cpu_portable,"); /* the parameter before the environment */
    ck_assert_str_eq(choice_of(GEMM)->name, "gemm_cpu_portable");
    ck_assert_str_eq(choice_of(NORM)->name, "rmsnorm_cpu_portable");
    ck_assert_ptr_eq(choice_of(ACT), act);
    rfg_context_destroy(&ctx);
}
END_TEST

static const struct {
    const char *list, *says;
} unknown[] = {
    { "bogus", "'bogus': no variant has this name" },
    { "gemm_cpu_portable,bogus", "'bogus'" },
    { "gemm_cpu_portabl", "'gemm_cpu_portabl'" },
    { "gemm_cpu_portable2", "'gemm_cpu_portable2'" },
    { "gemm_cpu_portable gemm_cpu_avx2", "'gemm_cpu_portable gemm_cpu_avx2'" },
    { "all", "'all'" },
};

START_TEST(unknown_variants)
{
    ck_assert_int_eq(create("cpu", unknown[_i].list, 0), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_ptr_null(ctx);
    PRINTS(rfg_last_error(), unknown[_i].says);
    PRINTS(rfg_last_error(), ": variants: ");
    setenv("RFG_VARIANTS", unknown[_i].list, 1);
    ck_assert_int_eq(create("cpu", NULL, 0), RFG_ERROR_INVALID_ARGUMENT);
    PRINTS(rfg_last_error(), unknown[_i].says);
    PRINTS(rfg_last_error(), ": RFG_VARIANTS: ");
    must_create("cpu", "");
    rfg_context_destroy(&ctx);
}
END_TEST

/* The operators' tests run each variant by its name: only those that are left. */
START_TEST(tests_heed_variants)
{
    static const struct op_case cases[] = { { "gemm bf16,bf16->bf16 M=3 N=16 K=64", RFG_DATA_RANDOM, false } };
    setenv("RFG_VARIANTS", "gemm_cpu_portable", 1);
    setenv("RFG_VERIFIED_FILE", "verified", 1);
    op_cases_run("cpu", "variants", cases, 1);
    char *line = rfg_read_file("verified", NULL);
    ck_assert_ptr_nonnull(line);
    PRINTS(line, "\"variants\":{\"gemm_cpu_portable\":");
    ck_assert_msg(!strstr(line, "gemm_cpu_avx"), "%s", line);
    free(line);
}
END_TEST

/* ---- overlap ----------------------------------------------------------------------------------------------------- */

START_TEST(overlap_is_0_or_1)
{
    static const char *const bad[] = { "yes", "true", "2", "on", "no", " 1", "1 ", "01" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char says[60];
        setenv("RFG_LAUNCH_OVERLAP", bad[i], 1);
        ck_assert_int_eq(create("cpu", NULL, 0), RFG_ERROR_INVALID_ARGUMENT);
        snprintf(says, sizeof(says), "RFG_LAUNCH_OVERLAP='%s': must be 0 or 1", bad[i]);
        PRINTS(rfg_last_error(), says);
        ck_assert_int_eq(create("cpu", NULL, 1), RFG_OK); /* it doesn't count then */
        rfg_context_destroy(&ctx);
    }
    for (int i = 0; i < 3; i++) {
        setenv("RFG_LAUNCH_OVERLAP", i == 0 ? "" : i == 1 ? "0" : "1", 1);
        must_create("cpu", NULL);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

static const char *const switches[] = { "RFG_VENDOR", "RFG_MISSES" };

START_TEST(switches_are_0_or_1)
{
    static const char *const bad[] = { "no", "off", "false", "00" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv(switches[_i], bad[i], 1);
        ck_assert_int_eq(create("cpu", NULL, 0), RFG_ERROR_INVALID_ARGUMENT);
        PRINTS(rfg_last_error(), switches[_i]);
        PRINTS(rfg_last_error(), bad[i]);
    }
    for (int i = 0; i < 2; i++) {
        setenv(switches[_i], i ? "1" : "0", 1);
        must_create("cpu", NULL);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* Others are passed over, with a warning that names the value and the rule; says NULL: without one. */
static const struct {
    const char *name, *value, *says;
    int threads; /* that the context has then; 0: those of the machine */
} passed_over[] = {
    { "RFG_THREADS", "0", "RFG_THREADS='0': must be a number from 1 to", 0 },
    { "RFG_THREADS", "2x", "RFG_THREADS='2x': must be a number from 1 to", 0 },
    { "RFG_THREADS", "65536", "RFG_THREADS='65536': must be a number from 1 to", 0 },
    { "RFG_THREADS", "1", NULL, 1 },
    { "RFG_THREADS", "3", NULL, 3 },
    { "RFG_CACHE_MAX_MIB", "0", "RFG_CACHE_MAX_MIB=0: must be a whole number of MiB, at least 1; 1024 is used", 0 },
    { "RFG_CACHE_MAX_MIB", "-5", "RFG_CACHE_MAX_MIB=-5: must be a whole number of MiB", 0 },
    { "RFG_CACHE_MAX_MIB", "5G", "RFG_CACHE_MAX_MIB=5G: must be a whole number of MiB", 0 },
    { "RFG_CACHE_MAX_MIB", "5", NULL, 0 },
    { "RFG_CPU_ISA", "sse", "RFG_CPU_ISA='sse': must be portable, avx2, avx512, avx512vnni or avx512bf16", 0 },
    { "RFG_CPU_ISA", "portable", NULL, 0 },
};
static char warned[1000];

static void hear(void *user, rfg_log_topic topic, const char *line)
{
    (void)user;
    if (topic == RFG_LOG_WARNING)
        snprintf(warned + strlen(warned), sizeof(warned) - strlen(warned), "%s\n", line);
}

START_TEST(meaningless_values_are_passed_over)
{
    rfg_context_params p = { .size = sizeof(p), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "" };
    setenv(passed_over[_i].name, passed_over[_i].value, 1);
    rfg_set_log_callback(hear, NULL, 0);
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    if (passed_over[_i].says)
        PRINTS(warned, passed_over[_i].says);
    else
        ck_assert_str_eq(warned, "");
    int threads = rfg_context_info(ctx)->cu_count;
    ck_assert_msg(!passed_over[_i].threads || threads == passed_over[_i].threads, "%d threads", threads);
    rfg_context_destroy(&ctx);
    rfg_set_log_callback(NULL, NULL, 0);
}
END_TEST

static const struct {
    const char *list, *says; /* NULL: nothing */
} disabled[] = {
    { "amd", NULL },
    { "nvidia", NULL },
    { "amd,nvidia", NULL },
    { ",nvidia,,amd,", NULL },
    { "nvida", "'nvida'" },
    { "amd,cuda", "'cuda'" },
    { "all", "'all'" },
    { "am", "'am'" },
    { "amd nvidia", "'amd nvidia'" },
    { "nvidia,amd2", "'amd2'" },
    { "AMD", "'AMD'" },
};

START_TEST(disabled_platforms)
{
    setenv("RFG_HIP_DISABLE", disabled[_i].list, 1);
    ck_assert_int_eq(create("cpu", NULL, 0), disabled[_i].says ? RFG_ERROR_INVALID_ARGUMENT : RFG_OK);
    if (disabled[_i].says)
        PRINTS(rfg_last_error(), disabled[_i].says);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* What is said to stderr from here on. */
static void catch_stderr(void)
{
    ck_assert_ptr_nonnull(freopen("said", "w", stderr));
}
static int warnings_so_far(const char *says)
{
    int n = 0;
    fflush(stderr);
    char *text = rfg_read_file("said", NULL);
    ck_assert_ptr_nonnull(text);
    for (char *s = text; (s = strstr(s, "warning: ")); s++, n++) {
        s[strcspn(s, "\n")] = 0;
        PRINTS(s, says);
        s += strlen(s);
    }
    free(text);
    return n;
}

static void put_kernel(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(directories_without_kernels)
{
    put_kernel("file", "");
    ck_assert_int_eq(system("mkdir empty"), 0);
    static const char *const bad[] = { "/nope", "file", "empty" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("RFG_KERNEL_DIR", bad[i], 1);
        ck_assert_int_eq(create(EMU, NULL, 0), RFG_ERROR_INVALID_ARGUMENT);
        PRINTS(rfg_last_error(), "RFG_KERNEL_DIR=");
        PRINTS(rfg_last_error(), bad[i]);
        PRINTS(rfg_last_error(), "must have kernel sources");
        must_create("cpu", NULL); /* which compiles none */
        rfg_context_destroy(&ctx);
    }
    ck_assert_int_eq(system("mkdir -p some/gemm/gpu/any"), 0);
    put_kernel("some/gemm/gpu/any/skinny.hip", "");
    setenv("RFG_KERNEL_DIR", "some", 1);
    must_create(EMU, NULL);
    rfg_context_destroy(&ctx);
}
END_TEST

/* A product of ones on the device, or the status. */
static rfg_status multiply(void)
{
    enum { M = 4, N = 16, K = 64 };
    const struct rfg_hip *h = rfg_context_hip(ctx);
    static uint16_t one[N * K], y[M * N];
    void *mem;
    for (int i = 0; i < N * K; i++)
        one[i] = 0x3f80;
    ck_assert_int_eq(h->hipMalloc(&mem, sizeof(one) + sizeof(y)), hipSuccess);
    ck_assert_int_eq(h->hipMemcpyHtoD((hipDeviceptr_t)mem, one, sizeof(one)), hipSuccess);
    rfg_tensor tx = rfg_tensor_2d(mem, RFG_BF16, M, K, K), tw = rfg_tensor_2d(mem, RFG_BF16, N, K, K);
    rfg_tensor ty = rfg_tensor_2d((char *)mem + sizeof(one), RFG_BF16, M, N, N);
    rfg_status st = rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, NULL);
    if (st == RFG_OK) {
        ck_assert_int_eq(h->hipDeviceSynchronize(), hipSuccess);
        ck_assert_int_eq(h->hipMemcpyDtoH(y, (hipDeviceptr_t)((char *)mem + sizeof(one)), sizeof(y)), hipSuccess);
        for (int i = 0; i < M * N; i++)
            ck_assert_int_eq(y[i], 0x4280); /* 64 */
    }
    ck_assert_int_eq(h->hipFree(mem), hipSuccess);
    return st;
}

/* The call, rfg_prepare() and a shapes file fail with COMPILE, and say so. */
static void expect_compile_error(const char *says)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(multiply(), RFG_ERROR_COMPILE);
        PRINTS(rfg_last_error(), says);
        PRINTS(rfg_last_error(), "gemm bf16,bf16->bf16 M=4 N=16 K=64");
        ck_assert_int_eq(rfg_prepare(ctx, ACT), RFG_ERROR_COMPILE);
        PRINTS(rfg_last_error(), says);
    }
    put_kernel("shapes.csv", "op,dtype,M,N\nrmsnorm,bf16,3,64\n");
    ck_assert_int_eq(rfg_prepare_from_csv(ctx, "shapes.csv"), RFG_ERROR_COMPILE);
    PRINTS(rfg_last_error(), says);
}

START_TEST(no_compiler)
{
    setenv("RFG_JIT", "nvrtc", 1);
    catch_stderr();
    must_create(EMU, NULL);
    expect_compile_error("no compiler for gfx942 with RFG_JIT=nvrtc");
    rfg_context_destroy(&ctx);
    must_create(EMU, "gemm_portable"); /* rung 5 */
    ck_assert_int_eq(multiply(), RFG_ERROR_COMPILE);
    PRINTS(rfg_last_error(), "no compiler for gfx942");
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(warnings_so_far(""), 0); /* the error says it */
}
END_TEST

/* What the machine did to the compiler is no verdict on the kernel, nor is it "unsupported". */
START_TEST(compiler_without_a_directory)
{
    setenv("TMPDIR", "/nope", 1);
    must_create(EMU, "gemm_portable,gemm_skinny");
    ck_assert_int_eq(multiply(), RFG_ERROR_IO);
    PRINTS(rfg_last_error(), "no temporary directory can be made");
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(no_kernel_compiles)
{
    ck_assert_int_eq(system("mkdir device"), 0);
    put_kernel("device/rfg_device.h", "#error broken on purpose\n");
    setenv("RFG_KERNEL_DIR", ".", 1);
    must_create(EMU, "gemm_portable,gemm_skinny,gemm_splitk_mma,act_portable,rmsnorm_portable");
    const char *first = choice_of("gemm bf16,bf16->bf16 M=4 N=16 K=64")->name;
    expect_compile_error("broken on purpose");
    PRINTS(rfg_last_error(), "rfg_device.h");
    ck_assert_int_eq(multiply(), RFG_ERROR_COMPILE);
    PRINTS(rfg_last_error(), first); /* the first that failed, not the last */
    rfg_context_destroy(&ctx);
}
END_TEST

/* One that does not compile costs speed alone. */
START_TEST(one_kernel_does_not_compile)
{
    must_create(EMU, "gemm_portable,gemm_skinny");
    ck_assert_str_eq(choice_of("gemm bf16,bf16->bf16 M=4 N=16 K=64")->name, "gemm_skinny");
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(system("mkdir -p gemm/gpu/any"), 0);
    put_kernel("gemm/gpu/any/skinny.hip", "#error broken on purpose\n");
    setenv("RFG_KERNEL_DIR", ".", 1);
    catch_stderr();
    must_create(EMU, "gemm_portable,gemm_skinny");
    for (int i = 0; i < 3; i++)
        ck_assert_msg(multiply() == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(warnings_so_far("gemm bf16,bf16->bf16 M=4 N=16 K=64: gemm_skinny{"), 1);
    ck_assert_int_eq(warnings_so_far("broken on purpose"), 1);
    ck_assert_int_eq(warnings_so_far("gemm_portable{tile_m=16} serves it"), 1);
    rfg_context_destroy(&ctx);
    must_create(EMU, "gemm_skinny");
    ck_assert_int_eq(multiply(), RFG_ERROR_COMPILE);
    PRINTS(rfg_last_error(), "broken on purpose");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("settings");
    TCase *tc = tcase_create("settings"), *emu = tcase_create("compile");
    if (!emu_is_there())
        return 77;
    tcase_add_checked_fixture(tc, setup, NULL);
    ADD_TESTS(tc, variants_restrict_their_operators, overlap_is_0_or_1);
    ADD_LOOPS(tc, 2, switches_are_0_or_1);
    ADD_LOOPS(tc, sizeof(passed_over) / sizeof(passed_over[0]), meaningless_values_are_passed_over);
    ADD_LOOPS(tc, sizeof(unknown) / sizeof(unknown[0]), unknown_variants);
    ADD_LOOPS(tc, sizeof(disabled) / sizeof(disabled[0]), disabled_platforms);
    suite_add_tcase(s, tc);
    tcase_set_timeout(emu, 60);
    tcase_add_checked_fixture(emu, setup, NULL);
    tcase_add_checked_fixture(emu, program_setup, program_teardown);
    ADD_TESTS(emu, tests_heed_variants, directories_without_kernels, no_compiler, compiler_without_a_directory,
              no_kernel_compiles, one_kernel_does_not_compile);
    suite_add_tcase(s, emu);
    return run_suite(s);
}
