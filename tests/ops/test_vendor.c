/* SPDX-License-Identifier: MIT
 *
 * The vendors' BLAS variants on mock libraries: the calls describe the requested product, and refusals are reported. */
#include <dlfcn.h>
#include <math.h>

#include "dispatch/hip/hip.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/vendor/vendor.h"
#include "tuner/harness/harness.h"
#include "emu/rocm/mock_blas.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define PRINTS(where, text) ck_assert_msg(strstr(where, text) != NULL, "'%s' does not say '%s'", where, text)

static const struct library {
    const struct rfg_variant *var;
    const char *env, *arch, *title;
    const char *first, *last; /* entry points */
    bool lt, nvidia;          /* lt: with algorithms to choose from, and a bias */
    int fallible;             /* calls that a product with its first handle makes, */
    int opening;              /* those of them that make the handle */
} libraries[] = {
    { &gemm_cublaslt, "RFG_LIBCUBLASLT", "sm_90", "cublasLt", "cublasLtCreate", "cublasLtMatmul", true, true, 19, 1 },
    { &gemm_hipblaslt, "RFG_LIBHIPBLASLT", "gfx942", "hipBLASLt", "hipblasLtCreate", "hipblasLtMatmul", true, false, 14,
      1 },
    { &gemm_rocblas, "RFG_LIBROCBLAS", "gfx90a", "rocBLAS", "rocblas_create_handle", "rocblas_gemm_ex", false, false, 9,
      4 },
};
#define N_LIBRARIES (int)(sizeof(libraries) / sizeof(libraries[0]))
enum { N_NVIDIA = 1, N_LT = 2 }; /* they come first: with attributes of a heuristic, and before them NVIDIA's */

static struct mock_blas *mock;
static struct rfg_device dev;

static const char *path_in(const char *variable)
{
    const char *path = getenv(variable);
    ck_assert_msg(path != NULL, "%s must name a mock library", variable);
    return path;
}

/* rocBLAS's file of kernels for the architecture, where it looks. */
static void kernels_for(const char *arch)
{
    char dir[] = "/tmp/rfg-rocblas-XXXXXX", path[100];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/TensileLibrary_lazy_%s.dat", dir, arch);
    FILE *f = fopen(path, "w");
    ck_assert(f && !fclose(f));
    setenv("ROCBLAS_TENSILE_LIBPATH", dir, 1);
}

static const struct library *use(int i)
{
    const char *path = path_in("RFG_MOCK_BLAS");
    setenv(libraries[i].env, path, 1);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    mock = dlsym(lib, "mock_blas");
    ck_assert_ptr_nonnull(mock);
    ck_assert(rfg_device_imagine(&dev, libraries[i].arch));
    if (!libraries[i].lt)
        kernels_for(libraries[i].arch);
    return &libraries[i];
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

struct product {
    struct rfg_problem prob;
    struct gemm_args a;
    char *x, *w, *y, *bias;
    int64_t ldx, ldw, ldy;
    size_t y_bytes;
};

enum { GUARD = 64 };

/* n values of -limit to limit, in memory of exactly that size. */
static char *random_ints(int64_t n, rfg_dtype dtype, int limit, uint32_t *seed)
{
    char *p = malloc(rfg_dtype_bytes(dtype, n));
    ck_assert_ptr_nonnull(p);
    for (int64_t i = 0; i < n; i++) {
        *seed = *seed * 1664525 + 1013904223;
        rfg_store(p, dtype, i, (double)((int)(*seed >> 16) % (2 * limit + 1) - limit));
    }
    return p;
}

/* Sums of up to 24 products of values up to 3: exact in every dtype, in any order. */
static void make(struct product *t, const char *text)
{
    uint32_t seed = 12345;
    t->prob = op_problem(text);
    const int64_t *v = t->prob.v;
    rfg_dtype in = (rfg_dtype)t->prob.dtype[0], out = (rfg_dtype)t->prob.dtype[2];
    ck_assert_int_le(v[GEMM_K], 24);
    t->ldx = v[GEMM_LDX] ? v[GEMM_LDX] : v[GEMM_K];
    t->ldw = v[GEMM_LDW] ? v[GEMM_LDW] : v[GEMM_K];
    t->ldy = v[GEMM_LDY] ? v[GEMM_LDY] : v[GEMM_N];
    t->x = random_ints((v[GEMM_M] - 1) * t->ldx + v[GEMM_K], in, 3, &seed);
    t->w = random_ints((v[GEMM_N] - 1) * t->ldw + v[GEMM_K], in, 3, &seed);
    t->bias = v[GEMM_BIAS] ? random_ints(v[GEMM_N], in, 16, &seed) : NULL;
    t->y_bytes = rfg_dtype_bytes(out, (v[GEMM_M] - 1) * t->ldy + v[GEMM_N]) + 2 * GUARD;
    t->y = malloc(t->y_bytes);
    ck_assert_ptr_nonnull(t->y);
    memset(t->y, 0x77, t->y_bytes);
    t->a = (struct gemm_args){ .y = t->y + GUARD,
                               .x = t->x,
                               .w = t->w,
                               .bias = t->bias,
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
    size_t size = rfg_dtype_bytes(out, 1);
    for (size_t at = 0; at < t->y_bytes; at++) {
        int64_t e = ((int64_t)at - GUARD) / (int64_t)size;
        bool output = at >= GUARD && at < t->y_bytes - GUARD && e % t->ldy < v[GEMM_N];
        ck_assert_msg(output || t->y[at] == 0x77, "%s: wrote outside y, at byte %zu", where, at);
    }
    for (int64_t m = 0; m < v[GEMM_M]; m++)
        for (int64_t n = 0; n < v[GEMM_N]; n++) {
            double sum = t->bias ? rfg_load(t->bias, in, n) : 0;
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

/* As the dispatcher does it: a handle a stream of a device, for libraries that have handles. */
static rfg_status handle_for(const struct library *lib, struct rfg_vendor_env *env)
{
    static struct {
        int device;
        rfg_stream stream;
        void *handle;
    } made[80];
    static int n;
    if (!lib->var->vendor_open || env->device < 0 || env->device > 63)
        return RFG_OK;
    for (int i = 0; i < n && !env->handle; i++)
        if (made[i].device == env->device && made[i].stream == env->stream)
            env->handle = made[i].handle;
    if (env->handle)
        return RFG_OK;
    ck_assert(lib->var->vendor_opens(&dev));
    rfg_status st = lib->var->vendor_open(&dev, env, &env->handle);
    if (st == RFG_OK && lib->var->vendor_bind && (st = lib->var->vendor_bind(env->handle, env)) != RFG_OK)
        lib->var->vendor_close(env->handle);
    ck_assert_int_lt(n, 80);
    if (st == RFG_OK) {
        made[n].device = env->device;
        made[n].stream = env->stream;
        made[n++].handle = env->handle;
    }
    return st;
}

/* On a poisoned y, with a workspace of just the size that the variant asks for. */
static rfg_status run_once(const struct library *lib, struct product *t, int rank, int device, rfg_stream stream)
{
    static char *workspace, first[RFG_FIRST_RUN_BYTES];
    static size_t size;
    struct rfg_vendor_env env = { .device = device, .stream = stream };
    void *plan = NULL;
    int p[RFG_MAX_PARAMS] = { rank };
    if (!workspace) {
        size = lib->var->workspace(&dev, &t->prob, p);
        ck_assert_ptr_nonnull(workspace = malloc(size));
    }
    memset(t->y, 0x77, t->y_bytes);
    rfg_status st = handle_for(lib, &env);
    env.workspace = lib->var->first_run ? first : NULL;
    if (st == RFG_OK)
        st = lib->var->vendor_prepare(&dev, &t->prob, p, &env, &plan);
    ck_assert((st == RFG_OK) == (plan != NULL));
    if (st == RFG_OK) {
        env.workspace = workspace;
        st = lib->var->vendor_run(plan, &t->a, &env);
        lib->var->vendor_release(plan);
        ck_assert(st != RFG_OK || mock->told == size);
    }
    ck_assert_int_eq(mock->live, 0);
    return st;
}

START_TEST(products)
{
    static const char *const shapes[] = {
        "M=1 N=1 K=1",
        "M=1 N=7 K=5",
        "M=7 N=1 K=3",
        "M=5 N=3 K=1",
        "M=6 N=6 K=6",
        "M=4 N=8 K=8 bias=1",
        "M=1 N=8 K=16 bias=1",
        "M=13 N=11 K=17",
        "M=3 N=4 K=6 ldx=8",
        "M=3 N=4 K=6 ldw=9",
        "M=3 N=4 K=6 ldy=11",
        "M=6 N=24 K=16 ldx=24 ldw=32 ldy=40 bias=1",
        "M=2 N=16 K=8 ldx=8 ldw=24 ldy=32 bias=1",
        "M=16 N=2 K=24",
        "M=7 N=8 K=24 ldx=40 ldw=48 ldy=16 bias=1",
    };
    static const rfg_dtype dtypes[] = { RFG_BF16, RFG_F16, RFG_F32 };
    const struct library *lib = use(_i);
    int done = 0, offered = 0;
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int d = 0; d < 9; d++) {
            const char *in = rfg_dtype_name(dtypes[d / 3]), *out = rfg_dtype_name(dtypes[d % 3]);
            char text[200];
            struct product t;
            struct rfg_reason why = { "" };
            snprintf(text, sizeof(text), "gemm %s,%s->%s %s", in, in, out, shapes[s]);
            make(&t, text);
            bool claimed = (d / 3 == d % 3 || dtypes[d % 3] == RFG_F32) && (lib->lt || !t.bias);
            bool can = lib->var->supports(&dev, &t.prob, &why);
            ck_assert_msg(can == claimed, "%s: %s: %s", text, can ? "claimed" : "refused", why.text);
            for (int rank = 0; can && rank < (lib->lt ? mock->offers : 1); rank += 2) {
                ck_assert_msg(run_once(lib, &t, rank, 3, (rfg_stream)0x1234) == RFG_OK, "%s: %s", text,
                              rfg_last_error());
                expect_right(&t, text);
                ck_assert_ptr_eq(mock->stream, (void *)0x1234);
                ck_assert(!lib->lt || mock->algo == rank);
                done++;
            }
            offered += can;
            drop(&t);
        }
    ck_assert_int_eq(offered, 5 * (lib->lt ? 15 : 10));
    ck_assert_int_eq(done, offered * (lib->lt ? 3 : 1));
    ck_assert_int_eq(mock->handles, 1);
}
END_TEST

START_TEST(one_handle_a_device)
{
    const struct library *lib = use(_i);
    struct product t;
    make(&t, "gemm f16,f16->f16 M=2 N=3 K=4");
    ck_assert(lib->var->supports(&dev, &t.prob, NULL));
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(run_once(lib, &t, 0, i % 2 ? 63 : 0, NULL), RFG_OK);
        expect_right(&t, "two devices");
    }
    ck_assert_int_eq(mock->handles, 2);
    ck_assert_int_eq(run_once(lib, &t, 0, 64, NULL), RFG_ERROR_UNSUPPORTED);
    const char *says = lib->var->vendor_open ? "there is no handle" : "must be below 64";
    PRINTS(rfg_last_error(), says);
    ck_assert_int_eq(run_once(lib, &t, 0, -1, NULL), RFG_ERROR_UNSUPPORTED);
    PRINTS(rfg_last_error(), says);
    ck_assert_int_eq(mock->handles, 2);
    drop(&t);
}
END_TEST

/* Each call of a first product on a device, which makes the handle, fails once; then each of a later one's. */
START_TEST(every_call_fails_once)
{
    const struct library *lib = use(_i);
    struct product t;
    make(&t, lib->lt ? "gemm bf16,bf16->f32 M=2 N=8 K=8 bias=1" : "gemm bf16,bf16->f32 M=2 N=3 K=4");
    ck_assert(lib->var->supports(&dev, &t.prob, NULL));
    for (int round = 0; round < 2; round++)
        for (int n = 1;; n++) {
            int device = round ? 63 : n;
            mock->calls = 0;
            mock->fail_at = n;
            rfg_status st = run_once(lib, &t, 0, device, NULL);
            mock->fail_at = 0;
            if (mock->calls < n) {
                ck_assert_int_eq(st, RFG_OK);
                ck_assert_int_eq(n - 1, lib->fallible - round * lib->opening);
                break;
            }
            ck_assert_msg(st == RFG_ERROR_UNSUPPORTED || st == RFG_ERROR_DEVICE, "call %d, %s, fails: status %d", n,
                          mock->last, st);
            PRINTS(rfg_last_error(), lib->title);
            PRINTS(rfg_last_error(), "failed with status 13");
            char call[100];
            snprintf(call, sizeof(call), ": %s ", mock->last);
            PRINTS(rfg_last_error(), call);
            int handles = mock->handles;
            for (size_t at = 0; at < t.y_bytes; at++)
                ck_assert_msg(t.y[at] == 0x77, "call %d, %s, fails: y is written", n, mock->last);
            ck_assert_msg(run_once(lib, &t, 0, device, NULL) == RFG_OK, "after %s: %s", mock->last, rfg_last_error());
            expect_right(&t, "the call after");
            ck_assert_int_eq(mock->handles, handles + (round ? n == 1 : n <= lib->opening));
        }
    drop(&t);
}
END_TEST

START_TEST(heuristic_declines)
{
    const struct library *lib = use(_i);
    struct product t;
    make(&t, "gemm bf16,bf16->f32 M=2 N=3 K=4");
    ck_assert(lib->var->supports(&dev, &t.prob, NULL));
    ck_assert_int_eq(run_once(lib, &t, 4, 0, NULL), RFG_OK);
    ck_assert_int_eq(run_once(lib, &t, 5, 0, NULL), RFG_ERROR_UNSUPPORTED);
    PRINTS(rfg_last_error(), lib->title);
    PRINTS(rfg_last_error(), "algo=5: the heuristic offers 5");
    mock->offers = 0;
    ck_assert_int_eq(run_once(lib, &t, 0, 0, NULL), RFG_ERROR_UNSUPPORTED);
    PRINTS(rfg_last_error(), "algo=0: the heuristic offers 0");
    mock->offers = 100; /* more than it is asked for */
    ck_assert_int_eq(run_once(lib, &t, GEMM_LT_ALGOS - 1, 0, NULL), RFG_OK);
    mock->state = 15;
    ck_assert_int_eq(run_once(lib, &t, 2, 0, NULL), RFG_ERROR_UNSUPPORTED);
    PRINTS(rfg_last_error(), "algo=2: the heuristic gives it status 15");
    mock->state = 0;
    mock->needs = rfg_workspace_bytes(&dev);
    ck_assert_uint_eq(mock->needs, lib->nvidia ? (size_t)32 << 20 : (size_t)96 << 20);
    ck_assert_int_eq(run_once(lib, &t, 2, 0, NULL), RFG_OK);
    mock->needs++;
    ck_assert_int_eq(run_once(lib, &t, 2, 0, NULL), RFG_ERROR_UNSUPPORTED);
    PRINTS(rfg_last_error(), lib->nvidia ? "algo=2: wants a workspace of 33554433 bytes: must be at most 33554432"
                                         : "algo=2: wants a workspace of 100663297 bytes: must be at most 100663296");
    drop(&t);
}
END_TEST

/* What cuBLASLt is told of alignments (of A and B: x and w; of C and D: y), and that sums be kept in fp32. hipBLASLt
 * has no such attributes: the mock answers any with a status. */
START_TEST(preferences)
{
    const struct library *lib = use(_i);
    struct product t;
    make(&t, "gemm bf16,bf16->bf16 M=2 N=3 K=4 align=2 align_y=8");
    ck_assert(lib->var->supports(&dev, &t.prob, NULL));
    ck_assert_int_eq(run_once(lib, &t, 0, 0, NULL), RFG_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(mock->align[i], !lib->nvidia ? 0 : i < 2 ? 2 : 8);
    ck_assert_uint_eq(mock->reduction, lib->nvidia ? 2 : 0);
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
        { "gemm bf16,bf16->bf16 M=2 N=8 K=8 bias=1 btype=f32", "btype=f32: must be x's dtype" },
    };
    struct rfg_reason why;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rfg_problem p = op_problem(bad[i].problem);
        ck_assert_msg(!lib->var->supports(&dev, &p, &why), "%s is not refused", bad[i].problem);
        PRINTS(why.text, bad[i].says);
    }
    struct rfg_problem p = op_problem("gemm bf16,bf16->bf16 M=2 N=8 K=8");
    static const char *const rules[] = { "x is i4: must be bf16, f16 or f32", "w is i4: must be x's, bf16",
                                         "y is i4: must be x's dtype or f32" };
    for (int i = 0; i < 3; i++) { /* of formats that there are no numbers for */
        struct rfg_problem other = p;
        other.dtype[i] = RFG_I4;
        ck_assert(!lib->var->supports(&dev, &other, &why));
        PRINTS(why.text, rules[i]);
    }
    struct rfg_device cpu;
    rfg_device_cpu(&cpu, 2);
    ck_assert(!lib->var->supports(&cpu, &p, &why));
    PRINTS(why.text, "GPU");
    setenv("RFG_VENDOR", "0", 1);
    ck_assert(!lib->var->supports(&dev, &p, &why));
    PRINTS(why.text, "RFG_VENDOR=0");
}
END_TEST

/* Refused for that reason, without a version, and not to be prepared all the same. */
static void expect_absent(const struct library *lib, const char *says, const char *too)
{
    struct rfg_problem p = op_problem("gemm bf16,bf16->bf16 M=2 N=8 K=8");
    struct rfg_reason why;
    ck_assert(rfg_device_imagine(&dev, lib->arch));
    for (int i = 0; i < 2; i++) { /* the second time it remembers */
        ck_assert(!lib->var->supports(&dev, &p, &why));
        PRINTS(why.text, says);
        PRINTS(why.text, too);
        ck_assert_str_eq(lib->var->vendor_version(&dev), "");
    }
    int params[RFG_MAX_PARAMS] = { 0 };
    struct rfg_vendor_env env = { .device = 0 };
    void *plan = NULL;
    ck_assert_int_eq(lib->var->vendor_prepare(&dev, &p, params, &env, &plan), RFG_ERROR_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    PRINTS(rfg_last_error(), lib->title);
    PRINTS(rfg_last_error(), too);
}

START_TEST(missing_library)
{
    setenv(libraries[_i].env, "/nowhere/libblas.so", 1);
    expect_absent(&libraries[_i], libraries[_i].env, "/nowhere/libblas.so");
}
END_TEST

START_TEST(missing_symbol) /* of another library altogether: the first */
{
    setenv(libraries[_i].env, "libm.so.6", 1);
    char says[100];
    snprintf(says, sizeof(says), "libm.so.6 lacks %s", libraries[_i].first);
    expect_absent(&libraries[_i], "libm.so.6", says);
}
END_TEST

START_TEST(missing_last_symbol)
{
    setenv(libraries[_i].env, path_in("RFG_MOCK_BLAS_OLD"), 1);
    char says[100];
    snprintf(says, sizeof(says), " lacks %s", libraries[_i].last);
    expect_absent(&libraries[_i], "mock-blas-old", says);
}
END_TEST

/* Without the environment: which names were tried, in order, and what to do. */
START_TEST(names_tried)
{
    static const char *const none[] = { "librfg-none.so.2", "librfg-none.so.1", "librfg-none.so", "/nowhere/lib/x.so",
                                        NULL };
    static const char *const second[] = { "librfg-none.so.2", "libm.so.6", NULL };
    static const char *const symbols[] = { "cos", "sin", NULL }, *const lacking[] = { "cos", "rfg_none", NULL };
    void *slots[2], *lib;
    struct rfg_reason why = { "" };
    unsetenv("RFG_LIBNONE");
    ck_assert_ptr_null(gemm_vendor_load("RFG_LIBNONE", none, symbols, slots, &why));
    ck_assert_str_eq(why.text,
                     "librfg-none.so.2, .1, librfg-none.so, /nowhere/lib/x.so not found (or set RFG_LIBNONE)");
    setenv("RFG_LIBNONE", "", 1); /* as if it were not set */
    ck_assert_ptr_nonnull(lib = gemm_vendor_load("RFG_LIBNONE", second, symbols, slots, &why));
    ck_assert_ptr_eq(slots[1], dlsym(lib, "sin"));
    dlclose(lib);
    ck_assert_ptr_null(gemm_vendor_load("RFG_LIBNONE", second, lacking, slots, &why));
    ck_assert_str_eq(why.text, "libm.so.6 lacks rfg_none");
    setenv("RFG_LIBNONE", "/nowhere/y.so", 1); /* named, it is the only one */
    ck_assert_ptr_null(gemm_vendor_load("RFG_LIBNONE", second, symbols, slots, NULL));
}
END_TEST

START_TEST(versions_and_estimates)
{
    const struct library *lib = use(_i);
    struct rfg_problem p = op_problem("gemm bf16,bf16->bf16 M=64 N=4096 K=4096");
    const char *version = lib->var->vendor_version(&dev);
    PRINTS(version, lib->title);
    if (lib->nvidia)
        ck_assert_str_eq(version, "cublasLt 13.1.2");
    else if (!lib->lt)
        ck_assert_str_eq(version, "rocBLAS 4.4.0.mock");
    int params[RFG_MAX_PARAMS] = { 0 };
    double us = lib->var->predict(&dev, &p, params);
    ck_assert(us > 1 && us < 1e4);
    ck_assert(rfg_device_imagine(&dev, "gfx1030")); /* has no matrix instructions */
    ck_assert_double_eq(dev.mma_tflops, 0);
    double vector_us = lib->var->predict(&dev, &p, params);
    ck_assert_msg(vector_us > us && vector_us < 1e6, "predicts %g us for an arch without matrix instructions",
                  vector_us);
    ck_assert_uint_le(lib->var->workspace(&dev, &p, params), rfg_workspace_bytes(&dev));
}
END_TEST

struct fastest {
    const struct rfg_variant *var;
    const struct rfg_problem *prob;
    double us;
};

static bool consider(void *arg, const int *p)
{
    struct fastest *f = arg;
    double us = f->var->predict(&dev, f->prob, p);
    f->us = us < f->us ? us : f->us;
    return true;
}

/* What cuBLASLt took on an H200, within a sixth: with a short K as well, of few tiles with K split, of many rows by the
 * matrix cores. For M=2 N=2880 K=512 the library was picked, a third slower than gemm_thin_mma. */
START_TEST(estimates_of_an_h200)
{
    static const struct {
        const char *problem;
        double us;
    } measured[] = { { "gemm bf16,bf16->bf16 M=1 N=5120 K=640", 4.93 },
                     { "gemm bf16,bf16->bf16 M=16 N=800 K=5120", 7.54 },
                     { "gemm bf16,bf16->bf16 M=64 N=5120 K=5120", 16.19 },
                     { "gemm bf16,bf16->bf16 M=128 N=12800 K=5120", 36.95 } };
    int params[RFG_MAX_PARAMS] = { 0 };
    ck_assert(rfg_device_imagine(&dev, "sm_90"));
    for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
        struct rfg_problem p = op_problem(measured[i].problem);
        double us = gemm_cublaslt.predict(&dev, &p, params);
        ck_assert_msg(us > measured[i].us * 5 / 6 && us < measured[i].us * 7 / 6, "%s: %.2f us, measured %.2f",
                      measured[i].problem, us, measured[i].us);
    }
    struct rfg_problem short_k = op_problem("gemm bf16,bf16->bf16 M=2 N=2880 K=512");
    struct fastest thin = { &gemm_thin_mma, &short_k, 1e9 };
    rfg_variant_each(thin.var, &dev, &short_k, consider, &thin);
    double us = gemm_cublaslt.predict(&dev, &short_k, params);
    ck_assert_msg(thin.us * 1.2 < us, "thin %.2f us, the library %.2f", thin.us, us);
}
END_TEST

static bool no_child(const rfg_context *ctx, const struct rfg_variant *var, struct rfg_reason *why)
{
    (void)ctx;
    (void)var;
    (void)why;
    return true;
}

/* The whole way, on the emulator's memory, which is the host's: rfg_plan_launch() with a library that adds a bias to
 * what it has rounded where operands are not aligned to 16 bytes, as cuBLASLt does. Sums are exact in fp32, and must be
 * rounded once: such problems are refused. */
START_TEST(bias_is_rounded_once)
{
    static const char *const shapes[] = { "M=33 N=40 K=128 ldw=131",  "M=8 N=48 K=256",
                                          "M=5 N=7 K=13 ldy=9",       "M=300 N=16 K=24 align=2 align_y=2",
                                          "M=19 N=2051 K=8 ldy=2055", "M=12 N=24 K=64 ldw=68",
                                          "M=20 N=71 K=256 ldy=72",   "M=4 N=16 K=20 ldx=24 ldw=24" };
    static const char *const dtypes[] = { "bf16,bf16->bf16", "f16,f16->f16", "bf16,bf16->f32", "f32,f32->f32" };
    const struct library *lib = use(_i);
    char name[40];
    rfg_vendor_override_try(no_child);
    snprintf(name, sizeof(name), "emu:%s:4", lib->arch);
    rfg_context *ctx = op_context(name);
    ((struct rfg_device *)rfg_context_info(ctx))->platform = RFG_PLATFORM_AMD;
    int served = 0; /* with a bias */
    for (int i = 0; i < 64; i++) {
        char text[RFG_PROBLEM_STRLEN];
        struct rfg_case_params params = { .seed = 7, .data = RFG_DATA_EXACT };
        struct rfg_case *c;
        struct rfg_check check;
        struct rfg_plan *plan;
        int p[RFG_MAX_PARAMS] = { 0 };
        snprintf(text, sizeof(text), "gemm %s %s%s", dtypes[i / 8 % 4], shapes[i % 8], i < 32 ? " bias=1" : "");
        struct rfg_problem prob = op_problem(text);
        ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s: %s", text, rfg_last_error());
        if (!lib->var->supports(rfg_context_info(ctx), rfg_case_problem(c), NULL)) {
            ck_assert_msg(i < 32, "%s: refused without a bias", text);
            rfg_case_destroy(&c);
            continue;
        }
        served += i < 32;
        ck_assert_msg(rfg_plan_create(ctx, rfg_case_problem(c), lib->var, p, &plan) == RFG_OK, "%s: %s", text,
                      rfg_last_error());
        for (int round = 0; round < 2; round++) {
            ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
            ck_assert_msg(rfg_case_run(c, 0, plan, NULL) == RFG_OK, "%s: %s", text, rfg_last_error());
            ck_assert_int_eq(rfg_case_check(c, 0, &check), RFG_OK);
            ck_assert_msg(check.ok, "%s: %s", text, check.message);
        }
        rfg_plan_destroy(ctx, &plan);
        rfg_case_destroy(&c);
    }
    ck_assert_msg(!mock->end, "%s", mock->end);
    ck_assert_int_eq(served, lib->lt ? 6 : 0); /* M=8 in each dtype, M=12 and M=4 in fp32 */
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vendor");
    TCase *tc = test_case(s, "vendor", NULL, NULL);
    ADD_TESTS(tc, names_tried, estimates_of_an_h200);
    ADD_LOOPS(tc, N_LIBRARIES, products, one_handle_a_device, every_call_fails_once);
    tcase_add_loop_test(tc, bias_is_rounded_once, N_NVIDIA, N_LIBRARIES); /* emulated devices are AMD's */
    ADD_LOOPS(tc, N_LT, heuristic_declines, preferences);                 /* rocBLAS chooses by itself */
    ADD_LOOPS(tc, N_LIBRARIES, refusals, missing_library, missing_symbol, missing_last_symbol, versions_and_estimates);
    return run_suite(s);
}
