/* SPDX-License-Identifier: MIT
 *
 * The vendors' BLAS variants against pretended libraries: what they are told is the product that was asked for, and
 * what they refuse is said. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/hip.h"
#include "../ops/gemm/gemm.h"
#include "../ops/gemm/vendor.h"
#include "../tuner/harness.h"
#include "mock_blas.h"
#include "rfg/rfg.h"

#define PRINTS(where, text) ck_assert_msg(strstr(where, text) != NULL, "'%s' does not say '%s'", where, text)

static const struct library {
    const struct rfg_variant *var;
    const char *env, *arch, *first, *title, *symbol;
    int ranks;
    bool bias;
} libraries[] = {
    { &gemm_cublaslt, "RFG_LIBCUBLASLT", "sm_90", "libcublasLt.so.13", "cublasLt", "cublasLtCreate", 5, true },
    { &gemm_hipblaslt, "RFG_LIBHIPBLASLT", "gfx942", "libhipblaslt.so.1", "hipBLASLt", "hipblasLtCreate", 5, true },
    { &gemm_rocblas, "RFG_LIBROCBLAS", "gfx90a", "librocblas.so.5", "rocBLAS", "rocblas_create_handle", 1, false },
};
#define N_LIBRARIES (int)(sizeof(libraries) / sizeof(libraries[0]))

static struct mock_blas *mock;
static struct rfg_device dev;

static const struct library *use(int i)
{
    const char *path = getenv("RFG_MOCK_BLAS");
    ck_assert_msg(path != NULL, "RFG_MOCK_BLAS must name the mock library");
    setenv(libraries[i].env, path, 1);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    mock = dlsym(lib, "mock_blas");
    ck_assert_ptr_nonnull(mock);
    ck_assert(rfg_device_imagine(&dev, libraries[i].arch));
    return &libraries[i];
}

static struct rfg_problem parse(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s: %s", text, why.text);
    return p;
}

/* ---- products -----------------------------------------------------------------------------------------------------
 */

struct product {
    struct rfg_problem prob;
    struct gemm_args a;
    char *x, *w, *y, *bias;
    int64_t ldx, ldw, ldy;
    size_t y_bytes;
};

enum { GUARD = 64 };

static void make(struct product *t, const char *text)
{
    t->prob = parse(text);
    const int64_t *v = t->prob.v;
    rfg_dtype in = (rfg_dtype)t->prob.dtype[0], out = (rfg_dtype)t->prob.dtype[2];
    t->ldx = v[GEMM_LDX] ? v[GEMM_LDX] : v[GEMM_K];
    t->ldw = v[GEMM_LDW] ? v[GEMM_LDW] : v[GEMM_K];
    t->ldy = v[GEMM_LDY] ? v[GEMM_LDY] : v[GEMM_N];
    t->x = calloc((size_t)(v[GEMM_M] * t->ldx), 4);
    t->w = calloc((size_t)(v[GEMM_N] * t->ldw), 4);
    t->bias = calloc((size_t)v[GEMM_N], 4);
    t->y_bytes = (size_t)(v[GEMM_M] * t->ldy) * rfg_dtype_size(out) + 2 * GUARD;
    t->y = malloc(t->y_bytes);
    memset(t->y, 0x77, t->y_bytes);
    for (int64_t i = 0; i < v[GEMM_M] * t->ldx; i++)
        rfg_store(t->x, in, i, (double)(i % 5 - 2));
    for (int64_t i = 0; i < v[GEMM_N] * t->ldw; i++)
        rfg_store(t->w, in, i, (double)(i % 3 - 1));
    for (int64_t i = 0; i < v[GEMM_N]; i++)
        rfg_store(t->bias, in, i, (double)(i % 4));
    t->a = (struct gemm_args){ .y = t->y + GUARD,
                               .x = t->x,
                               .w = t->w,
                               .bias = v[GEMM_BIAS] ? t->bias : NULL,
                               .ldx = t->ldx,
                               .ldw = t->ldw,
                               .ldy = t->ldy,
                               .m = (int32_t)v[GEMM_M],
                               .n = (int32_t)v[GEMM_N],
                               .k = (int32_t)v[GEMM_K] };
}

static void expect_right(const struct product *t, const char *where)
{
    const int64_t *v = t->prob.v;
    rfg_dtype in = (rfg_dtype)t->prob.dtype[0], out = (rfg_dtype)t->prob.dtype[2];
    size_t size = rfg_dtype_size(out);
    for (size_t at = 0; at < t->y_bytes; at++) {
        int64_t e = ((int64_t)at - GUARD) / (int64_t)size;
        bool output = at >= GUARD && at < t->y_bytes - GUARD && e % t->ldy < v[GEMM_N];
        ck_assert_msg(output || t->y[at] == 0x77, "%s: wrote outside y, at byte %zu", where, at);
    }
    for (int64_t m = 0; m < v[GEMM_M]; m++)
        for (int64_t n = 0; n < v[GEMM_N]; n++) {
            double sum = v[GEMM_BIAS] ? rfg_load(t->bias, in, n) : 0;
            for (int64_t k = 0; k < v[GEMM_K]; k++)
                sum += rfg_load(t->x, in, m * t->ldx + k) * rfg_load(t->w, in, n * t->ldw + k);
            double got = rfg_load(t->y + GUARD, out, m * t->ldy + n);
            ck_assert_msg(got == sum, "%s: y[%d,%d] is %g, must be %g", where, (int)m, (int)n, got, sum);
        }
}

static void drop(struct product *t)
{
    free(t->x);
    free(t->w);
    free(t->y);
    free(t->bias);
}

static rfg_status run_once(const struct library *lib, struct product *t, int rank, rfg_stream stream)
{
    static _Alignas(256) char workspace[4096];
    struct rfg_vendor_env env = { .device = 3, .stream = stream };
    void *plan = NULL;
    int p[RFG_MAX_PARAMS] = { rank };
    rfg_status st = lib->var->vendor_prepare(&dev, &t->prob, p, &env, &plan);
    ck_assert((st == RFG_OK) == (plan != NULL));
    if (st == RFG_OK) {
        env.workspace = workspace;
        st = lib->var->vendor_run(plan, &t->a, &env);
        lib->var->vendor_release(plan);
    }
    return st;
}

START_TEST(products)
{
    static const char *const shapes[] = {
        "M=1 N=1 K=1",
        "M=1 N=7 K=5",
        "M=4 N=6 K=8 bias=1",
        "M=5 N=3 K=16",
        "M=3 N=4 K=6 ldx=8 ldw=9 ldy=11",
        "M=2 N=9 K=4 ldx=4 ldw=13 ldy=10 bias=1",
        "M=16 N=2 K=10",
        "M=7 N=5 K=3 ldy=16 bias=1",
    };
    static const char *const dtypes[] = { "bf16,bf16->bf16", "bf16,bf16->f32", "f16,f16->f16", "f16,f16->f32",
                                          "f32,f32->f32" };
    const struct library *lib = use(_i);
    int done = 0;
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
            char text[200];
            struct product t;
            struct rfg_reason why = { "" };
            snprintf(text, sizeof(text), "gemm %s %s", dtypes[d], shapes[s]);
            make(&t, text);
            bool can = lib->var->supports(&dev, &t.prob, &why);
            ck_assert_msg(can || (!lib->bias && t.prob.v[GEMM_BIAS]), "%s: %s", text, why.text);
            for (int rank = 0; can && rank < lib->ranks; rank += 2) {
                memset(t.y, 0x77, t.y_bytes);
                ck_assert_msg(run_once(lib, &t, rank, (rfg_stream)0x1234) == RFG_OK, "%s: %s", text, rfg_last_error());
                expect_right(&t, text);
                ck_assert_ptr_eq(mock->stream, (void *)0x1234);
                ck_assert(lib->ranks == 1 || mock->algo == rank);
                done++;
            }
            drop(&t);
        }
    ck_assert_int_ge(done, 20);
    ck_assert_int_eq(mock->live, 0);
}
END_TEST

START_TEST(every_call_fails_once)
{
    const struct library *lib = use(_i);
    struct product t;
    make(&t, lib->bias ? "gemm bf16,bf16->f32 M=2 N=3 K=4 bias=1" : "gemm bf16,bf16->f32 M=2 N=3 K=4");
    ck_assert(lib->var->supports(&dev, &t.prob, NULL));
    int failed = 0;
    for (int n = 1, rounds = 0; rounds < 2; n++) { /* the second round finds the handle already made */
        mock->calls = 0;
        mock->fail_at = n;
        memset(t.y, 0x77, t.y_bytes);
        rfg_status st = run_once(lib, &t, 0, NULL);
        bool reached = mock->calls >= n;
        mock->fail_at = 0;
        if (!reached) {
            n = 0;
            rounds++;
            continue;
        }
        ck_assert_int_eq(mock->live, 0);
        if (st == RFG_OK) /* a preference that could not be set costs nothing but choice */
            expect_right(&t, "without it");
        else {
            failed++;
            ck_assert(st == RFG_ERROR_UNSUPPORTED || st == RFG_ERROR_DEVICE);
            PRINTS(rfg_last_error(), lib->title);
            PRINTS(rfg_last_error(), "13");
        }
        ck_assert_msg(run_once(lib, &t, 0, NULL) == RFG_OK, "the call after: %s", rfg_last_error());
        expect_right(&t, "the call after");
        ck_assert_int_eq(mock->live, 0);
    }
    ck_assert_int_ge(failed, lib->ranks == 1 ? 4 : 9);
    drop(&t);
}
END_TEST

START_TEST(rank_out_of_range)
{
    const struct library *lib = use(_i);
    struct product t;
    make(&t, "gemm bf16,bf16->f32 M=2 N=3 K=4");
    ck_assert(lib->var->supports(&dev, &t.prob, NULL));
    if (lib->ranks > 1) {
        ck_assert_int_eq(run_once(lib, &t, 5, NULL), RFG_ERROR_UNSUPPORTED);
        PRINTS(rfg_last_error(), "algo=5: the heuristic offers 5");
        mock->offers = 0;
        ck_assert_int_eq(run_once(lib, &t, 0, NULL), RFG_ERROR_UNSUPPORTED);
        PRINTS(rfg_last_error(), "offers 0");
    }
    ck_assert_int_eq(mock->live, 0);
    drop(&t);
}
END_TEST

START_TEST(refusals)
{
    const struct library *lib = use(_i);
    static const struct {
        const char *problem, *says;
    } bad[] = {
        { "gemm bf16,bf16->f16 M=2 N=8 K=8", "y is f16" },
        { "gemm f32,f32->bf16 M=2 N=8 K=8", "y is bf16" },
        { "gemm bf16,bf16->bf16 M=2 N=8 K=0", "is 0" },
        { "gemm bf16,bf16->bf16 M=0 N=8 K=8", "is 0" },
        { "gemm bf16,bf16->bf16 M=2 N=8 K=8 bias=1 align_y=2", "aligned to 2 bytes: must be 16" },
    };
    struct rfg_reason why;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rfg_problem p = parse(bad[i].problem);
        ck_assert_msg(!lib->var->supports(&dev, &p, &why), "%s is not refused", bad[i].problem);
        PRINTS(why.text, bad[i].says);
    }
    struct rfg_problem p = parse("gemm bf16,bf16->bf16 M=2 N=8 K=8");
    struct rfg_device cpu;
    rfg_device_cpu(&cpu, 2);
    ck_assert(!lib->var->supports(&cpu, &p, &why));
    PRINTS(why.text, "GPU");
    setenv("RFG_VENDOR", "0", 1);
    ck_assert(!lib->var->supports(&dev, &p, &why));
    PRINTS(why.text, "RFG_VENDOR=0");
}
END_TEST

START_TEST(missing_library)
{
    const struct library *lib = &libraries[_i];
    struct rfg_problem p = parse("gemm bf16,bf16->bf16 M=2 N=8 K=8");
    struct rfg_reason why;
    ck_assert(rfg_device_imagine(&dev, lib->arch));
    setenv(lib->env, "/nowhere/libblas.so", 1);
    ck_assert(!lib->var->supports(&dev, &p, &why));
    PRINTS(why.text, "/nowhere/libblas.so not found");
    ck_assert_str_eq(lib->var->vendor_version(&dev), "");
}
END_TEST

START_TEST(missing_symbol)
{
    const struct library *lib = &libraries[_i];
    struct rfg_problem p = parse("gemm bf16,bf16->bf16 M=2 N=8 K=8");
    struct rfg_reason why;
    ck_assert(rfg_device_imagine(&dev, lib->arch));
    setenv(lib->env, "libm.so.6", 1); /* a library, but another */
    ck_assert(!lib->var->supports(&dev, &p, &why));
    PRINTS(why.text, "lacks ");
    PRINTS(why.text, lib->symbol);
    ck_assert_str_eq(lib->var->vendor_version(&dev), "");
}
END_TEST

START_TEST(versions_and_estimates)
{
    const struct library *lib = use(_i);
    struct rfg_problem p = parse("gemm bf16,bf16->bf16 M=64 N=4096 K=4096");
    const char *version = lib->var->vendor_version(&dev);
    PRINTS(version, lib->title);
    if (lib->var == &gemm_cublaslt)
        ck_assert_str_eq(version, "cublasLt 13.1.2");
    int params[RFG_MAX_PARAMS] = { 0 };
    double us = lib->var->predict(&dev, &p, params);
    ck_assert(us > 1 && us < 1e4);
    ck_assert(rfg_device_imagine(&dev, "gfx1030")); /* has no matrix instructions */
    us = lib->var->predict(&dev, &p, params);
    ck_assert_msg(us > 1 && us < 1e6, "predicts %g us for an arch without matrix instructions", us);
    ck_assert_uint_le(lib->var->workspace(&dev, &p, params), (size_t)32 << 20);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vendor");
    TCase *tc = tcase_create("vendor");
    tcase_add_loop_test(tc, products, 0, N_LIBRARIES);
    tcase_add_loop_test(tc, every_call_fails_once, 0, N_LIBRARIES);
    tcase_add_loop_test(tc, rank_out_of_range, 0, N_LIBRARIES);
    tcase_add_loop_test(tc, refusals, 0, N_LIBRARIES);
    tcase_add_loop_test(tc, missing_library, 0, N_LIBRARIES);
    tcase_add_loop_test(tc, missing_symbol, 0, N_LIBRARIES);
    tcase_add_loop_test(tc, versions_and_estimates, 0, N_LIBRARIES);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
