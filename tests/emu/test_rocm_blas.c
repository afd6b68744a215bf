/* SPDX-License-Identifier: MIT
 *
 * hipBLASLt and rocBLAS beside an emulated ROCm release, by rfg's own way to them: they deadlock, exit and abort as the
 * real ones do, and the process that uses rfg must not. */
#include "rocm_library.h"
#include "rfg/rfg.h"
#include "dispatch/context.h"
#include "tests/suite.h"

#undef OK
#define OK(...) ck_assert_msg((__VA_ARGS__) == RFG_OK, "%s", rfg_last_error())
#define SIDE    32
#define PROBLEM "gemm f16,f16->f16 M=32 N=32 K=32"

static const char *const variants[] = { "gemm_hipblaslt", "gemm_rocblas" };
static const char *const gpus[] = { "MI210:4", "MI300X:4", "RX7900XTX:4" };
enum { N_CASES = 6 };

/* hipBLASLt of ROCm 5 numbers types in its own way, and is refused: then another variant serves the problem. */
static bool served(int i)
{
    return i % 2 || release->number >= 60000;
}

static rfg_context *context(const char *gpu, const char *variant)
{
    rfg_context *ctx = NULL;
    rfg_context_params p = {
        .size = sizeof(p), .device = "amd:0", .variants = variant, .user_db = "", .system_db = ""
    };
    rocm_open(gpu);
    OK(rfg_context_create(&ctx, &p));
    return ctx;
}

struct product {
    rfg_context *ctx;
    rfg_stream stream;
    void *x, *w, *y;
};

static void make(struct product *t, rfg_context *ctx, rfg_stream stream)
{
    uint16_t ones[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        ones[i] = 0x3c00;
    *t = (struct product){ .ctx = ctx, .stream = stream };
    OK(rfg_device_alloc(ctx, &t->x, sizeof(ones)));
    OK(rfg_device_alloc(ctx, &t->w, sizeof(ones)));
    OK(rfg_device_alloc(ctx, &t->y, sizeof(ones)));
    OK(rfg_device_copy(ctx, t->x, ones, sizeof(ones), RFG_HOST_TO_DEVICE, stream));
    OK(rfg_device_copy(ctx, t->w, ones, sizeof(ones), RFG_HOST_TO_DEVICE, stream));
    OK(rfg_device_memset(ctx, t->y, 0, sizeof(ones), stream));
    OK(rfg_stream_sync(ctx, stream));
}

static rfg_status call(const struct product *t)
{
    rfg_tensor x = rfg_tensor_2d(t->x, RFG_F16, SIDE, SIDE, SIDE), w = rfg_tensor_2d(t->w, RFG_F16, SIDE, SIDE, SIDE);
    rfg_tensor y = rfg_tensor_2d(t->y, RFG_F16, SIDE, SIDE, SIDE);
    return rfg_op_gemm(t->ctx, &y, &x, &w, NULL, t->stream);
}

static void expect(const struct product *t, bool done)
{
    uint16_t y[SIDE * SIDE];
    OK(rfg_device_copy(t->ctx, y, t->y, sizeof(y), RFG_DEVICE_TO_HOST, t->stream));
    OK(rfg_stream_sync(t->ctx, t->stream));
    for (int i = 0; i < SIDE * SIDE; i++)
        ck_assert_msg(y[i] == (done ? 0x5000 : 0), "y[%d] is %04x", i, y[i]); /* 32 */
    OK(rfg_device_memset(t->ctx, t->y, 0, sizeof(y), t->stream));
    OK(rfg_stream_sync(t->ctx, t->stream));
}

static void drop(struct product *t)
{
    OK(rfg_device_free(t->ctx, t->x));
    OK(rfg_device_free(t->ctx, t->w));
    OK(rfg_device_free(t->ctx, t->y));
}

START_TEST(streams_and_captures)
{
    enum { STREAMS = 7 };
    if (!rocm_is_there())
        return;
    rfg_context *ctx = context(gpus[_i / 2], variants[_i % 2]);
    rfg_stream stream[STREAMS];
    struct product t[STREAMS];
    rfg_graph *graph;
    OK(rfg_prepare(ctx, PROBLEM));
    for (int i = 0; i < STREAMS; i++) {
        OK(rfg_stream_create(ctx, &stream[i]));
        OK(rfg_prepare_stream(ctx, stream[i]));
        make(&t[i], ctx, stream[i]);
        OK(call(&t[i]));
        expect(&t[i], true);
    }
    for (int i = 0; i < 2; i++) {
        OK(rfg_stream_begin_capture(ctx, stream[i]));
        OK(call(&t[i]));
        OK(rfg_stream_end_capture(ctx, stream[i], &graph));
        expect(&t[i], false);
        for (int round = 0; round < 2; round++) {
            OK(rfg_graph_replay(ctx, graph, stream[i]));
            expect(&t[i], true);
        }
        OK(rfg_graph_destroy(ctx, &graph));
    }
    for (int i = 0; i < STREAMS; i++) {
        drop(&t[i]);
        OK(rfg_stream_destroy(ctx, &stream[i]));
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* A context and its first product while an engine captures, in the mode that forbids allocations to all. */
START_TEST(beside_a_capture)
{
    hipError_t (*create)(hipStream_t *, unsigned), (*begin)(hipStream_t, hipStreamCaptureMode);
    hipError_t (*end)(hipStream_t, hipGraph_t *);
    hipStream_t foreign;
    hipGraph_t graph;
    if (!rocm_is_there())
        return;
    rocm_open("MI300X:4");
    *(void **)&create = dlsym(rocm, "hipStreamCreateWithFlags");
    *(void **)&begin = dlsym(rocm, "hipStreamBeginCapture");
    *(void **)&end = dlsym(rocm, "hipStreamEndCapture");
    ck_assert_int_eq(create(&foreign, hipStreamNonBlocking), hipSuccess);
    ck_assert_int_eq(begin(foreign, hipStreamCaptureModeGlobal), hipSuccess);
    rfg_context *ctx = context("MI300X:4", variants[_i]);
    (void)end(foreign, &graph);
    if (served(_i))
        OK(rfg_prepare(ctx, PROBLEM));
    rfg_context_destroy(&ctx);
}
END_TEST

/* The file that rfg asks for is there, and not the one that rocBLAS needs: the process that tries it aborts. */
START_TEST(rocblas_aborts_elsewhere)
{
    char dir[] = "/tmp/rfg-rocblas-XXXXXX", file[100];
    if (!rocm_is_there())
        return;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof(file), "%s/TensileLibrary_fallback_gfx942.dat", dir);
    FILE *f = fopen(file, "w");
    ck_assert(f && !fclose(f));
    setenv("ROCBLAS_TENSILE_LIBPATH", dir, 1);
    rfg_context *ctx = context("MI300X:4", "gemm_rocblas");
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_ERROR_UNSUPPORTED);
    rfg_context_destroy(&ctx);
    ctx = context("MI300X:4", NULL);
    OK(rfg_prepare(ctx, PROBLEM)); /* something else serves it */
    rfg_context_destroy(&ctx);
    unlink(file);
    rmdir(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rocm_blas");
    TCase *tc = tcase_create("rocm_blas");
    tcase_set_timeout(tc, 120);
    bool is_there = rocm_is_there();
    for (int i = 0; i < N_CASES; i++)
        if (!is_there || served(i))
            tcase_add_loop_test(tc, streams_and_captures, i, i + 1);
    ADD_TESTS(tc, rocblas_aborts_elsewhere);
    ADD_LOOPS(tc, 2, beside_a_capture);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
