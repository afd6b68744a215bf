/* SPDX-License-Identifier: MIT
 *
 * The vendors' AMD libraries in contexts, streams and captures: mock libraries that do what hipBLASLt and rocBLAS do in
 * the runtime, on a runtime of the host's memory. The mock records calls that would end or hang the process there. */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/db/db.h"
#include "emu/rocm/mock_blas.h"
#include "ops/gemm/gemm.h"
#include "rfg/rfg.h"
#include "tests/dispatch/fakehip.h"
#include "tests/dispatch/faulty.h"
#include "tests/suite.h"

#define SPARES  4 /* dispatch/vendor.c's */
#define OK(...) ck_assert_msg((__VA_ARGS__) == RFG_OK, "%s", rfg_last_error())
#define PROBLEM "gemm f16,f16->f16 M=2 N=8 K=8"

static struct mock_blas *mock;
static const struct rfg_hip *hip;
static int tries;
static bool survives = true;

static int allocate(void **memory, size_t bytes)
{
    return (int)hip->hipMalloc(memory, bytes);
}

static int write_memory(void *memory, void *host, size_t bytes)
{
    return (int)hip->hipMemcpyHtoD((hipDeviceptr_t)memory, host, bytes);
}

static int release(void *memory)
{
    return (int)hip->hipFree(memory);
}

static int ask(void *stream)
{
    hipStreamCaptureStatus status;
    return hip->hipStreamIsCapturing(stream, &status) || status != hipStreamCaptureStatusNone;
}

static bool tried(const rfg_context *ctx, const struct rfg_variant *var, struct rfg_reason *why)
{
    (void)ctx;
    (void)var;
    tries++;
    return survives || rfg_refuse(why, "rfg-compile was killed by SIGABRT");
}

static void setup(void)
{
    const char *path = getenv("RFG_MOCK_BLAS");
    char dir[] = "/tmp/rfg-rocblas-XXXXXX", file[100];
    ck_assert_msg(path != NULL, "RFG_MOCK_BLAS must name a mock library");
    setenv("RFG_LIBHIPBLASLT", path, 1);
    setenv("RFG_LIBROCBLAS", path, 1);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    mock = dlsym(lib, "mock_blas");
    hip = fakehip();
    mock->hip = (struct mock_hip){ .allocate = allocate, .write = write_memory, .release = release, .ask = ask };
    mock->gentle = true;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof(file), "%s/TensileLibrary_lazy_gfx90a.dat", dir);
    FILE *f = fopen(file, "w");
    ck_assert(f && !fclose(f));
    setenv("ROCBLAS_TENSILE_LIBPATH", dir, 1);
    rfg_hip_override(RFG_PLATFORM_AMD, hip);
    rfg_vendor_override_try(tried);
}

static rfg_context *context(const char *db)
{
    rfg_context *ctx = NULL;
    rfg_context_params p = { .size = sizeof(p), .device = "amd:0", .user_db = db, .system_db = "" };
    OK(rfg_context_create(&ctx, &p));
    return ctx;
}

static struct rfg_problem parse(const char *text)
{
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s: %s", text, why.text);
    return p;
}

static struct rfg_plan *plan_of(rfg_context *ctx, const struct rfg_variant *var)
{
    struct rfg_problem prob = parse(PROBLEM);
    int p[RFG_MAX_PARAMS] = { 0 };
    struct rfg_plan *plan = NULL;
    ck_assert_msg(rfg_plan_create(ctx, &prob, var, p, &plan) == RFG_OK, "%s", rfg_last_error());
    return plan;
}

/* Ones: y is 8 everywhere. */
static uint16_t x[2 * 8], w[8 * 8], y[2 * 8];

static rfg_status launch(rfg_context *ctx, struct rfg_plan *plan, rfg_stream stream)
{
    struct gemm_args a = { .x = x, .w = w, .y = y };
    a.m = 2;
    a.n = a.k = 8;
    a.ldx = a.ldw = a.ldy = 8;
    for (int i = 0; i < 64; i++)
        w[i] = x[i % 16] = 0x3c00;
    memset(y, 0x77, sizeof(y));
    rfg_status st = rfg_plan_launch(ctx, plan, &a, stream);
    for (int i = 0; i < 16 && st == RFG_OK; i++)
        ck_assert_msg(y[i] == 0x4800, "y[%d] is %04x", i, y[i]);
    return st;
}

/* Nothing ended or hung, nothing forbidden was asked of the runtime. */
static void expect_quiet(void)
{
    ck_assert_msg(!mock->end, "%s", mock->end);
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
}

static void end(rfg_context **ctx)
{
    char live[200];
    rfg_context_destroy(ctx);
    expect_quiet();
    ck_assert_int_eq(mock->destroyed, mock->handles);
    ck_assert_str_eq(fakehip_live(live, sizeof(live)), "");
}

static const struct rfg_variant *const variants[] = { &gemm_hipblaslt, &gemm_rocblas };

START_TEST(a_handle_a_stream)
{
    const struct rfg_variant *var = variants[_i];
    rfg_context *ctx = context("");
    ck_assert_int_eq(mock->handles, 1 + SPARES); /* hipBLASLt's; rocBLAS is not used before it was tried */
    ck_assert_int_eq(tries, 0);
    struct rfg_plan *plan = plan_of(ctx, var);
    ck_assert_int_eq(tries, var->first_run);
    int before = mock->handles;
    rfg_stream stream[SPARES + 3];
    for (int i = 0; i < SPARES + 3; i++) {
        OK(rfg_stream_create(ctx, &stream[i]));
        OK(rfg_prepare_stream(ctx, stream[i]));
    }
    ck_assert_int_eq(mock->handles, before + (var->first_run ? 2 : 1) * 3);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SPARES + 3; i++)
            OK(launch(ctx, plan, stream[i]));
    OK(launch(ctx, plan, NULL));
    expect_quiet();
    ck_assert_int_eq(mock->atomics, 0);
    /* Another workspace is another's matter than the handle's. */
    void *given;
    int made = mock->handles;
    OK(rfg_device_alloc(ctx, &given, rfg_workspace_size(ctx)));
    OK(rfg_stream_set_workspace(ctx, stream[1], given, rfg_workspace_size(ctx)));
    OK(launch(ctx, plan, stream[1]));
    ck_assert_ptr_eq(mock->workspace, given);
    ck_assert_int_eq(mock->handles, made);
    OK(rfg_stream_set_workspace(ctx, stream[1], NULL, 0));
    OK(rfg_device_free(ctx, given));
    OK(launch(ctx, plan, stream[1]));
    /* Those of a stream that is gone are nobody's. */
    int gone = mock->destroyed;
    OK(rfg_stream_destroy(ctx, &stream[0]));
    ck_assert_int_gt(mock->destroyed, gone);
    OK(rfg_stream_create(ctx, &stream[0]));
    OK(launch(ctx, plan, stream[0]));
    rfg_plan_destroy(ctx, &plan);
    end(&ctx);
}
END_TEST

/* Streams that were there before the plan have handles too: they may be captured next. */
START_TEST(products_in_captures)
{
    const struct rfg_variant *var = variants[_i];
    rfg_context *ctx = context("");
    rfg_stream stream[2];
    rfg_graph *graph;
    struct rfg_plan *plan;
    for (int i = 0; i < 2; i++) {
        OK(rfg_stream_create(ctx, &stream[i]));
        if (i == 0) {
            OK(rfg_prepare_stream(ctx, stream[i]));
            plan = plan_of(ctx, var);
        }
    }
    for (int i = 0; i < 2; i++) {
        OK(rfg_stream_begin_capture(ctx, stream[i]));
        OK(launch(ctx, plan, stream[i]));
        OK(rfg_stream_end_capture(ctx, stream[i], &graph));
        OK(rfg_graph_destroy(ctx, &graph));
    }
    rfg_plan_destroy(ctx, &plan);
    end(&ctx);
}
END_TEST

static rfg_context *other_ctx;
static rfg_stream other_stream;
static pthread_barrier_t barrier;

static void *capture(void *arg)
{
    rfg_graph *graph;
    OK(rfg_stream_begin_capture(other_ctx, other_stream));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    OK(rfg_stream_end_capture(other_ctx, other_stream, &graph));
    OK(rfg_graph_destroy(other_ctx, &graph));
    return arg;
}

/* While a thread captures, no handle is made, and its capture comes to no harm. */
START_TEST(beside_our_capture)
{
    const struct rfg_variant *var = variants[_i];
    rfg_context *ctx = other_ctx = context(""), *late;
    rfg_stream stream[SPARES + 2];
    struct rfg_plan *plan = plan_of(ctx, var), *late_plan = NULL;
    pthread_t thread;
    OK(rfg_stream_create(ctx, &other_stream));
    OK(rfg_prepare_stream(ctx, other_stream));
    int before = mock->handles;
    pthread_barrier_init(&barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, capture, NULL), 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < SPARES + 2; i++) {
        OK(rfg_stream_create(ctx, &stream[i]));
        OK(rfg_prepare_stream(ctx, stream[i]));
        rfg_status st = launch(ctx, plan, stream[i]);
        ck_assert_int_eq(st, i < SPARES - 1 ? RFG_OK : RFG_ERROR_NOT_READY);
        if (st)
            ck_assert_msg(strstr(rfg_last_error(), "a stream is being captured"), "%s", rfg_last_error());
    }
    late = context("");
    struct rfg_problem prob = parse(PROBLEM);
    int p[RFG_MAX_PARAMS] = { 0 };
    ck_assert_int_eq(rfg_plan_create(late, &prob, var, p, &late_plan), RFG_ERROR_UNSUPPORTED);
    ck_assert_int_eq(mock->handles, before);
    pthread_barrier_wait(&barrier);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    expect_quiet();
    for (int i = 0; i < SPARES + 2; i++)
        OK(launch(ctx, plan, stream[i]));
    late_plan = plan_of(late, var);
    OK(launch(late, late_plan, NULL));
    rfg_plan_destroy(late, &late_plan);
    rfg_plan_destroy(ctx, &plan);
    rfg_context_destroy(&late);
    end(&ctx);
}
END_TEST

/* An engine captures as it likes, in the mode that forbids allocations to all threads: the process must live on. */
START_TEST(beside_a_foreign_capture)
{
    hipStream_t foreign;
    hipGraph_t graph;
    ck_assert_int_eq(hip->hipStreamCreateWithFlags(&foreign, hipStreamNonBlocking), hipSuccess);
    ck_assert_int_eq(hip->hipStreamBeginCapture(foreign, hipStreamCaptureModeGlobal), hipSuccess);
    rfg_context *ctx = context("");
    ck_assert_int_eq(mock->handles, 0);
    ck_assert_msg(!mock->end, "%s", mock->end);
    (void)hip->hipStreamEndCapture(foreign, &graph);
    fakehip_forgive(); /* the capture's end: nobody can tell that it was there but by asking */
    struct rfg_plan *plan = plan_of(ctx, variants[_i]);
    OK(launch(ctx, plan, NULL));
    rfg_plan_destroy(ctx, &plan);
    ck_assert_int_eq(hip->hipStreamDestroy(foreign), hipSuccess);
    end(&ctx);
}
END_TEST

START_TEST(rocblas_is_tried_apart)
{
    struct rfg_problem prob = parse(PROBLEM);
    int p[RFG_MAX_PARAMS] = { 0 };
    struct rfg_plan *plan = NULL;
    struct rfg_reason why;
    survives = false;
    mock->no_kernels = true; /* the file is there, and not what it should be */
    rfg_context *ctx = context("");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rfg_plan_create(ctx, &prob, &gemm_rocblas, p, &plan), RFG_ERROR_UNSUPPORTED);
        ck_assert_msg(strstr(rfg_last_error(), "killed by SIGABRT"), "%s", rfg_last_error());
    }
    ck_assert_int_eq(tries, 1);
    struct rfg_device dev;
    ck_assert(rfg_device_imagine(&dev, "gfx1030")); /* without a file */
    ck_assert(!gemm_rocblas.supports(&dev, &prob, &why));
    ck_assert_msg(strstr(why.text, "no TensileLibrary file for gfx1030"), "%s", why.text);
    ck_assert(!gemm_rocblas.vendor_opens(&dev));
    end(&ctx);
}
END_TEST

/* A rank is a place in one version's list. */
START_TEST(rank_of_another_version)
{
    static const struct {
        int rocm;
        const char *version;
    } of[] = { { 60100, "hipBLASLt 0.7.0" }, { 60400, "hipBLASLt 0.12.0" }, { 70000, "hipBLASLt 1.0.0" } };
    char dir[] = "/tmp/rfg-vendor-XXXXXX", path[100], hash[65], compiler[96], text[4000];
    int p[RFG_MAX_PARAMS] = { 3 };
    struct rfg_db *db;
    mock->rocm = of[_i].rocm;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/rows.db", dir);
    rfg_context *ctx = context("");
    struct rfg_row row = { .problem = parse(PROBLEM),
                           .median_us = 1,
                           .samples = 3,
                           .how = RFG_SOURCE_MEASURED,
                           .cu_count = rfg_context_info(ctx)->cu_count };
    rfg_variant_provenance(ctx, &row.problem, &gemm_hipblaslt, hash, compiler, sizeof(compiler));
    ck_assert_str_eq(hash, of[_i].version);
    rfg_context_destroy(&ctx);
    row.problem = rfg_problem_key(&row.problem);
    snprintf(row.arch, sizeof(row.arch), "gfx90a");
    snprintf(row.variant, sizeof(row.variant), "gemm_hipblaslt");
    snprintf(row.source_hash, sizeof(row.source_hash), "hipBLASLt 0.12.0");
    snprintf(row.compiler, sizeof(row.compiler), "hipBLASLt 0.12.0");
    snprintf(row.date, sizeof(row.date), "2026-11-22T20:00:00Z");
    snprintf(row.version, sizeof(row.version), "%s", rfg_version());
    rfg_params_json(&gemm_hipblaslt, p, row.params, sizeof(row.params));
    OK(rfg_db_open(&db, path, RFG_DB_WRITE));
    OK(rfg_db_put(db, &row));
    rfg_db_close(&db);
    ctx = context(path);
    OK(rfg_explain(ctx, PROBLEM, text, sizeof(text)));
    bool same = !strcmp(of[_i].version, "hipBLASLt 0.12.0");
    ck_assert_msg((strstr(text, "chosen: gemm_hipblaslt{algo=3} by rung 1") != NULL) == same, "%s", text);
    char says[200];
    snprintf(says, sizeof(says), "measured with hipBLASLt 0.12.0, and this is %s", of[_i].version);
    ck_assert_msg((strstr(text, says) != NULL) == !same, "%s", text);
    end(&ctx);
}
END_TEST

START_TEST(workspaces)
{
    static const struct {
        const char *device;
        int mib;
    } of[] = { { "gfx942:304", 96 }, { "gfx942:228", 64 }, { "gfx942:80", 32 }, { "gfx942:38", 32 },
               { "gfx90a:104", 32 }, { "gfx1100:96", 32 }, { "sm_90:132", 32 }, { "sm_90:400", 32 } };
    struct rfg_problem prob = parse(PROBLEM);
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct rfg_device dev;
        ck_assert(rfg_device_imagine(&dev, of[i].device));
        ck_assert_msg(rfg_workspace_bytes(&dev) == (size_t)of[i].mib << 20, "%s: %zu", of[i].device,
                      rfg_workspace_bytes(&dev));
        ck_assert_uint_eq(gemm_hipblaslt.workspace(&dev, &prob, NULL), rfg_workspace_bytes(&dev));
    }
    rfg_context *ctx = context("");
    struct rfg_plan *plan = plan_of(ctx, &gemm_hipblaslt);
    ck_assert_uint_eq(rfg_plan_workspace(plan), rfg_workspace_bytes(rfg_context_info(ctx)));
    OK(launch(ctx, plan, NULL));
    ck_assert_uint_eq(mock->told, rfg_plan_workspace(plan));
    rfg_plan_destroy(ctx, &plan);
    end(&ctx);
}
END_TEST

/* A library's own work in a stream: what it may still use goes after it, and what it did wrong is said. */
START_TEST(what_runs_is_waited_for)
{
    struct rfg_problem prob = parse(PROBLEM);
    int p[RFG_MAX_PARAMS] = { 0 };
    struct rfg_plan *plan = NULL;
    rfg_stream stream;
    rfg_hip_override(RFG_PLATFORM_AMD, faulty(hip));
    rfg_context *ctx = context("");
    faulty_arm(FAULTY_hipStreamSynchronize, 1, hipErrorUnknown);
    ck_assert_int_ne(rfg_plan_create(ctx, &prob, &gemm_rocblas, p, &plan), RFG_OK);
    ck_assert_msg(strstr(rfg_last_error(), "hipStreamSynchronize") && !plan, "%s", rfg_last_error());
    faulty_arm(0, 0, hipSuccess);
    plan = plan_of(ctx, &gemm_rocblas);
    OK(rfg_stream_create(ctx, &stream));
    OK(launch(ctx, plan, stream));
    faulty_arm(0, 0, hipSuccess);
    OK(rfg_stream_set_workspace(ctx, stream, NULL, 0));
    ck_assert_int_ge(faulty_calls(FAULTY_hipStreamSynchronize), 1);
    OK(rfg_stream_destroy(ctx, &stream));
    rfg_plan_destroy(ctx, &plan);
    end(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vendor_streams");
    TCase *tc = test_case(s, "vendor_streams", setup, NULL);
    ADD_TESTS(tc, rocblas_is_tried_apart, workspaces, what_runs_is_waited_for);
    ADD_LOOPS(tc, 2, a_handle_a_stream, products_in_captures, beside_our_capture, beside_a_foreign_capture);
    ADD_LOOPS(tc, 3, rank_of_another_version);
    return run_suite(s);
}
