/* SPDX-License-Identifier: MIT
 *
 * Ordinary sources by hipRTC beside the emulated libamdhip64 ($EMULATED_ROCM): HIP's header and device library, headers
 * from memory, templates by name, logs. */
#include "rocm_library.h"
#include "tests/suite.h"

static const char *const source = "#include <hip/hip_runtime.h>\n"
                                  "#include \"mine/scale.h\"\n"
                                  "namespace my {\n"
                                  "template <typename T, int N> __global__ void add(T *y, const T *x, int n)\n"
                                  "{\n"
                                  "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                  "    if (i < n)\n"
                                  "        y[i] = SCALE * x[i] + N * cosf(0.f);\n"
                                  "}\n"
                                  "}\n"
                                  "__device__ int counter;\n";
static const char *const without_include = "extern \"C\" __global__ void k(int *p) { p[threadIdx.x] = __popc(7); }\n";

static void *hiprtc;

/* A function of libhiprtc with these parameters. */
#define RTC(name, ...) ((int (*)(__VA_ARGS__))hiprtc_symbol(#name))

static void *hiprtc_symbol(const char *name)
{
    void *p = dlsym(hiprtc, name);
    ck_assert_msg(p != NULL, "no %s", name);
    return p;
}

static void *create(const char *text, const char *const *headers, const char *const *names, int n)
{
    void *p = NULL;
    rocm_open("MI300X:4");
    ck_assert_ptr_nonnull(dlopen("libamdhip64.so", RTLD_NOW | RTLD_GLOBAL)); /* hipRTC asks it for the device */
    hiprtc = dlopen("libhiprtc.so", RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(hiprtc != NULL, "%s", dlerror());
    ck_assert_int_eq(RTC(hiprtcCreateProgram, void **, const char *, const char *, int, const char *const *,
                         const char *const *)(&p, text, "some/where.cu", n, headers, names),
                     0);
    return p;
}

/* What it returned; the log in log. */
static int compile(void *p, const char *option, char log[4096])
{
    const char *options[] = { option };
    size_t n = 0;
    int e = RTC(hiprtcCompileProgram, void *, int, const char *const *)(p, option ? 1 : 0, options);
    ck_assert_int_eq(RTC(hiprtcGetProgramLogSize, void *, size_t *)(p, &n), 0);
    ck_assert_uint_lt(n, 4096);
    *log = 0;
    ck_assert_int_eq(RTC(hiprtcGetProgramLog, void *, char *)(p, log), 0);
    return e;
}

static hipModule_t load(void *p)
{
    hipModule_t m;
    size_t n = 0;
    ck_assert_int_eq(RTC(hiprtcGetCodeSize, void *, size_t *)(p, &n), 0);
    char *code = malloc(n);
    ck_assert_int_eq(RTC(hiprtcGetCode, void *, char *)(p, code), 0);
    OK(CALL(hipModuleLoadData, hipModule_t *, const void *)(&m, code));
    free(code);
    return m;
}

static void run(hipModule_t m, const char *kernel, void **args)
{
    hipFunction_t f;
    OK(CALL(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)(&f, m, kernel));
    OK(CALL(hipModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
            hipStream_t, void **, void **)(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
}

static void *memory(void)
{
    void *x;
    OK(CALL(hipMalloc, void **, size_t)(&x, 256));
    OK(CALL(hipMemset, void *, int, size_t)(x, 0, 256));
    return x;
}

START_TEST(templates_by_name)
{
    const char *const headers[] = { "#define SCALE 2\n" }, *const names[] = { "mine/scale.h" };
    const char *lowered = NULL, *counter = NULL;
    char log[4096];
    float got[64];
    void *at;
    size_t size;
    int n = 64;
    void *p = create(source, headers, names, 1);
    int (*add)(void *, const char *) = RTC(hiprtcAddNameExpression, void *, const char *);
    int (*name)(void *, const char *, const char **) = RTC(hiprtcGetLoweredName, void *, const char *, const char **);
    ck_assert_int_eq(add(p, "my::add<float, 3>"), 0);
    ck_assert_int_eq(add(p, "&counter"), 0);
    ck_assert_int_eq(name(p, "&counter", &counter), 9 /* NO_LOWERED_NAMES_BEFORE_COMPILATION */);
    int e = compile(p, NULL, log); /* for the device that is there */
    ck_assert_msg(e == 0, "%s", log);
    ck_assert_int_eq(add(p, "my::add<int, 3>"), 8 /* NO_NAME_EXPRESSIONS_AFTER_COMPILATION */);
    ck_assert_int_eq(name(p, "my::add<int, 3>", &lowered), 10 /* NAME_EXPRESSION_NOT_VALID */);
    ck_assert_int_eq(name(p, "my::add<float, 3>", &lowered), 0);
    ck_assert_int_eq(name(p, "&counter", &counter), 0);
    ck_assert_str_eq(lowered, "_ZN2my3addIfLi3EEEvPT_PKS1_i");
    hipModule_t m = load(p);
    void *x = memory(), *args[] = { &x, &x, &n };
    run(m, lowered, args);
    OK(CALL(hipMemcpy, void *, const void *, size_t, int)(got, x, sizeof(got), hipMemcpyDeviceToHost));
    ck_assert_float_eq(got[63], 3);
    OK(CALL(hipModuleGetGlobal, void **, size_t *, hipModule_t, const char *)(&at, &size, m, counter));
    ck_assert_uint_eq(size, 4);
    ck_assert_int_eq(RTC(hiprtcDestroyProgram, void **)(&p), 0);
}
END_TEST

START_TEST(the_header_is_built_in)
{
    char log[4096];
    int got = 0;
    void *p = create(without_include, NULL, NULL, 0);
    int e = compile(p, "--offload-arch=gfx942:sramecc+:xnack-", log);
    ck_assert_msg(e == 0, "%s", log);
    void *x = memory(), *args[] = { &x };
    run(load(p), "k", args);
    OK(CALL(hipMemcpy, void *, const void *, size_t, int)(&got, x, sizeof(got), hipMemcpyDeviceToHost));
    ck_assert_int_eq(got, 3);
}
END_TEST

START_TEST(logs_say_where)
{
    char log[4096];
    void *p = create("extern \"C\" __global__ void k(int *p)\n{\n    *p = wrong;\n}\n", NULL, NULL, 0);
    ck_assert_int_eq(compile(p, NULL, log), 6);
    char *at = strstr(log, "where.cu:3:10: error: use of undeclared identifier 'wrong'");
    ck_assert_msg(at && (at == log || at[-1] == '\n'), "%s", log);
    p = create(without_include, NULL, NULL, 0);
    ck_assert_int_eq(RTC(hiprtcAddNameExpression, void *, const char *)(p, "nobody<int>"), 0);
    ck_assert_int_eq(compile(p, NULL, log), 6);
    ck_assert_msg(strstr(log, "name expression 'nobody<int>':1:"), "%s", log);
}
END_TEST

int main(void)
{
    if (!rocm_is_there() || !rocm_has_bitcode())
        return 77;
    Suite *s = suite_create("rocm_hiprtc");
    TCase *tc = test_case(s, "sources", NULL, NULL);
    ADD_TESTS(tc, templates_by_name, the_header_is_built_in, logs_say_where);
    return run_suite(s);
}
