/* SPDX-License-Identifier: MIT
 *
 * Wrong arguments of the functions that are no operators. */
#include <check.h>
#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "args.h"
#include "rfg/dlpack.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

rfg_context *open_cpu(void)
{
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 2
    };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    return ctx;
}

/* The last call was refused, by name. */
static void refused(rfg_status st, rfg_status want, const char *fn, const char *named)
{
    const char *error = rfg_last_error();
    ck_assert_msg(st == want, "%s: %s: %s, '%s'", fn, named, rfg_status_name(st), error);
    ck_assert_msg(strstr(error, fn), "'%s' lacks '%s'", error, fn);
    ck_assert_msg(strstr(error, named), "'%s' lacks '%s'", error, named);
}

#define INVALID RFG_ERROR_INVALID_ARGUMENT

static void status_names(void)
{
    for (int i = -1; i < 20; i++)
        ck_assert_ptr_nonnull(rfg_status_name((rfg_status)i));
    ck_assert_str_eq(rfg_status_name((rfg_status)INT_MIN), "RFG_ERROR_?");
}

static void last_error(void)
{
    ck_assert_ptr_nonnull(rfg_last_error());
}

static void version(void)
{
    ck_assert_str_eq(rfg_version(), RFG_VERSION);
}

static void dtypes(void)
{
    static const int beyond[] = { INT_MIN, -1, RFG_DTYPE_COUNT, INT_MAX };
    for (int i = 0; i < COUNT(beyond); i++) {
        ck_assert_str_eq(rfg_dtype_name((rfg_dtype)beyond[i]), "?");
        ck_assert_uint_eq(rfg_dtype_bytes((rfg_dtype)beyond[i], 16), 0);
    }
}

/* Views of nonsense are nonsense, and made without a crash. */
static void views(void)
{
    static const int64_t n[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
    for (int i = 0; i < COUNT(n); i++) {
        rfg_tensor a = rfg_tensor_1d(NULL, (rfg_dtype)-1, n[i]), b = rfg_tensor_2d(NULL, RFG_F32, n[i], n[i], n[i]);
        rfg_tensor c = rfg_tensor_prepacked(NULL, RFG_BF16, n[i], n[i]);
        rfg_tensor d = rfg_tensor_prepacked_groups(NULL, RFG_I8, n[i], n[i]);
        ck_assert(a.shape[0] == n[i] && b.shape[1] == n[i] && c.shape[0] == n[i] / 16 && d.shape[0] == n[i] / 16);
        rfg_tensor e = rfg_tensor_nd(NULL, RFG_F32, 6, (const int64_t[]){ n[i], n[i], n[i], n[i], n[i] });
        ck_assert(e.ndim == 6 && e.shape[4] == n[i] && e.strides[3] == n[i]);
    }
    ck_assert_int_eq(rfg_tensor_nd(NULL, RFG_F32, INT32_MIN, NULL).ndim, INT32_MIN);
}

static void context_create(void)
{
    static const char *const devices[] = { "",
                                           "gpu",
                                           "amd:",
                                           "amd:-1",
                                           "nvidia:x",
                                           "cpu ",
                                           "amd:1024",
                                           "emu:",
                                           "emu:gfx1:2",
                                           "emu:gfx942:0",
                                           "emu:gfx942:99999999999",
                                           "nvidia:99999999999999999999" };
    static const int threads[] = { INT_MIN, -1, 1025, 65536, INT_MAX }, misses[] = { -2, 2, INT_MIN, INT_MAX };
    static const size_t sizes[] = { 0, 4, 20, sizeof(rfg_context_params) + 32, 4104, SIZE_MAX };
    rfg_context *ctx = (rfg_context *)&ctx;
    refused(rfg_context_create(NULL, NULL), INVALID, "rfg_context_create", "ctx");
    for (int i = 0; i < COUNT(devices); i++) {
        ctx = (rfg_context *)&ctx;
        refused(
            rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = devices[i] }),
            INVALID, "device", devices[i]);
        ck_assert_ptr_null(ctx);
    }
    for (int i = 0; i < COUNT(sizes); i++) {
        struct {
            rfg_context_params p;
            size_t newer[4];
        } s = { { .size = sizes[i], .device = "cpu" }, { [3] = 1 } };
        ctx = (rfg_context *)&ctx;
        refused(rfg_context_create(&ctx, &s.p), INVALID, "rfg_context_create", "params has size ");
        ck_assert_ptr_null(ctx);
    }
    for (int i = 0; i < COUNT(misses); i++)
        refused(rfg_context_create(
                    &ctx,
                    &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = "cpu", .misses = misses[i] }),
                INVALID, "rfg_context_create", "misses is ");
    for (int i = 0; i < COUNT(threads); i++) {
        ctx = (rfg_context *)&ctx;
        refused(rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params),
                                                                .device = "cpu",
                                                                .threads = threads[i] }),
                INVALID, "rfg_context_create", "threads is ");
        ck_assert_ptr_null(ctx);
    }
}

static void context_destroy(void)
{
    rfg_context *ctx = NULL;
    rfg_context_destroy(NULL);
    rfg_context_destroy(&ctx);
}

static void context_device(void)
{
    ck_assert_str_eq(rfg_context_device(NULL), "");
    refused(INVALID, INVALID, "rfg_context_device", "ctx");
}

static void prepare_stream(void)
{
    rfg_context *ctx = open_cpu();
    refused(rfg_prepare_stream(NULL, NULL), INVALID, "rfg_prepare_stream", "ctx");
    refused(rfg_prepare_stream(ctx, ctx), INVALID, "rfg_prepare_stream", "stream");
    rfg_context_destroy(&ctx);
}

static const char *const bad_problems[] = {
    "",
    "gem bf16,bf16->bf16 M=1 N=1 K=1",
    "gemm",
    "gemm bf16,bf16->bf16 M=1 N=1",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldx=9223372036854775807",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldx=2147483648",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldw=4294967296",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldy=-1",
    "gemm_prepack bf16->bf16 N=16 K=32 ld=9223372036854775792",
    "gemm_prepack i4->i4 N=16 K=16",
    "act bf16->bf16 M=1 N=1 ldx=9223372036854775807",
    "rmsnorm bf16->bf16 M=4 N=1 heads=4 ldx=9223372036854775807",
    "mha bf16->bf16 B=1 Hq=1 Hkv=1 D=65 Sq=1 S=1",
};

static void prepare(void)
{
    rfg_context *ctx = open_cpu();
    refused(rfg_prepare(NULL, "gemm bf16,bf16->bf16 M=1 N=1 K=1"), INVALID, "rfg_prepare", "ctx");
    refused(rfg_prepare(ctx, NULL), INVALID, "rfg_prepare", "problem");
    for (int i = 0; i < COUNT(bad_problems); i++)
        refused(rfg_prepare(ctx, bad_problems[i]), INVALID, "rfg_prepare", "");
    rfg_stats stats = RFG_STATS_INIT;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 0);
    rfg_context_destroy(&ctx);
}

static void prepare_from_csv(void)
{
    rfg_context *ctx = open_cpu();
    refused(rfg_prepare_from_csv(NULL, "/dev/null"), INVALID, "rfg_prepare_from_csv", "ctx");
    refused(rfg_prepare_from_csv(ctx, NULL), INVALID, "rfg_prepare_from_csv", "path");
    refused(rfg_prepare_from_csv(ctx, "/nope/shapes.csv"), RFG_ERROR_IO, "/nope/shapes.csv", "");
    refused(rfg_prepare_from_csv(ctx, ""), RFG_ERROR_IO, "", "");
    rfg_context_destroy(&ctx);
}

static void explain(void)
{
    const char *problem = "gemm bf16,bf16->bf16 M=1 N=1 K=1";
    rfg_context *ctx = open_cpu();
    char buf[64] = "as it was";
    refused(rfg_explain(NULL, problem, buf, sizeof(buf)), INVALID, "rfg_explain", "ctx");
    refused(rfg_explain(ctx, problem, NULL, sizeof(buf)), INVALID, "rfg_explain", "buf");
    refused(rfg_explain(ctx, problem, buf, 0), INVALID, "rfg_explain", "size");
    ck_assert_str_eq(buf, "as it was");
    refused(rfg_explain(ctx, NULL, buf, sizeof(buf)), INVALID, "rfg_explain", "problem");
    ck_assert_str_eq(buf, "");
    for (int i = 0; i < COUNT(bad_problems); i++) {
        refused(rfg_explain(ctx, bad_problems[i], buf, sizeof(buf)), INVALID, "rfg_explain", "");
        ck_assert_str_eq(buf, "");
    }
    for (size_t size = 1; size < sizeof(buf); size++) { /* never past its end */
        memset(buf, 'x', sizeof(buf));
        refused(rfg_explain(ctx, problem, buf, size), INVALID, "rfg_explain", "size");
        ck_assert(memchr(buf, 0, size) && buf[size] == 'x');
    }
    rfg_context_destroy(&ctx);
}

static void describe(void)
{
    rfg_context *ctx = open_cpu();
    char buf[RFG_PROBLEM_MAX] = "as it was";
    refused(rfg_describe_begin(NULL, buf, sizeof(buf)), INVALID, "rfg_describe_begin", "ctx");
    refused(rfg_describe_begin(ctx, NULL, sizeof(buf)), INVALID, "rfg_describe_begin", "buf");
    refused(rfg_describe_begin(ctx, buf, sizeof(buf) - 1), INVALID, "rfg_describe_begin", "size");
    ck_assert_str_eq(buf, "as it was");
    rfg_describe_end(NULL);
    rfg_describe_end(ctx);
    rfg_context_destroy(&ctx);
}

/* Joined weights: tests/ops/test_pack.c has the rest. */
static void packs(void)
{
    rfg_context *ctx = open_cpu();
    uint16_t to[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, from[8] = { 0 };
    rfg_tensor dst = rfg_tensor_2d(to, RFG_BF16, 2, 4, 4), all = rfg_tensor_2d(from, RFG_BF16, 2, 4, 4);
    rfg_tensor one = rfg_tensor_2d(from, RFG_BF16, 1, 4, 4), none = rfg_tensor_2d(from, RFG_BF16, 0, 4, 4);
    refused(rfg_pack_qkv(NULL, &dst, &one, &one, &none, NULL), INVALID, "rfg_pack_qkv", "ctx");
    refused(rfg_pack_qkv(ctx, NULL, &one, &one, &none, NULL), INVALID, "rfg_pack_qkv", "dst");
    refused(rfg_pack_qkv(ctx, &dst, &one, &one, &one, NULL), INVALID, "rfg_pack_qkv", "dst");
    refused(rfg_pack_qkv(ctx, &dst, &one, &one, &none, ctx), INVALID, "", "stream");
    refused(rfg_pack_gate_up(NULL, &dst, &one, &one, RFG_GATES_HALVES, NULL), INVALID, "rfg_pack_gate_up", "ctx");
    refused(rfg_pack_gate_up(ctx, &dst, &all, &one, RFG_GATES_HALVES, NULL), INVALID, "rfg_pack_gate_up", "dst");
    refused(rfg_pack_gate_up(ctx, &dst, &all, &none, RFG_GATES_INTERLEAVED, NULL), INVALID, "rfg_pack_gate_up", "gate");
    refused(rfg_pack_gate_up(ctx, &dst, &one, &one, (rfg_gates)-1, NULL), INVALID, "rfg_pack_gate_up", "gates");
    refused(rfg_pack_fnuz(NULL, &dst, &all, NULL, NULL, NULL), INVALID, "rfg_pack_fnuz", "ctx");
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(to[i], i + 1);
    rfg_context_destroy(&ctx);
}

static void log_callback(void)
{
    rfg_set_log_callback(NULL, NULL, ~0u);
    ck_assert(!rfg_log_on(RFG_LOG_CALLS));
}

/* Of rfg/device.h: tests/dispatch/test_device.c has what depends on a stream's state. */
static void device(void)
{
    rfg_context *ctx = open_cpu();
    rfg_stream stream = ctx, none;
    rfg_graph *graph = (rfg_graph *)ctx;
    void *memory = ctx;
    char a[16] = "as it was", b[16] = "other";
    refused(rfg_device_alloc(NULL, &memory, 1), INVALID, "rfg_device_alloc", "ctx");
    ck_assert_ptr_null(memory);
    refused(rfg_device_alloc(ctx, NULL, 1), INVALID, "rfg_device_alloc", "memory");
    refused(rfg_device_free(NULL, NULL), INVALID, "rfg_device_free", "ctx");
    refused(rfg_device_copy(NULL, a, b, 1, RFG_DEVICE_TO_DEVICE, NULL), INVALID, "rfg_device_copy", "ctx");
    refused(rfg_device_copy(ctx, NULL, b, 1, RFG_DEVICE_TO_DEVICE, NULL), INVALID, "rfg_device_copy", "to");
    refused(rfg_device_copy(ctx, a, NULL, 1, RFG_DEVICE_TO_DEVICE, NULL), INVALID, "rfg_device_copy", "from");
    refused(rfg_device_copy(ctx, a, b, 1, (rfg_copy_kind)-1, NULL), INVALID, "rfg_device_copy", "kind");
    refused(rfg_device_copy(ctx, a, b, 1, RFG_DEVICE_TO_DEVICE, ctx), INVALID, "rfg_device_copy", "stream");
    refused(rfg_device_memset(NULL, a, 0, 1, NULL), INVALID, "rfg_device_memset", "ctx");
    refused(rfg_device_memset(ctx, NULL, 0, 1, NULL), INVALID, "rfg_device_memset", "memory");
    refused(rfg_device_memset(ctx, a, INT_MIN, 1, NULL), INVALID, "rfg_device_memset", "value");
    refused(rfg_device_memset(ctx, a, 0, 1, ctx), INVALID, "rfg_device_memset", "stream");
    ck_assert(!strcmp(a, "as it was") && !strcmp(b, "other"));
    refused(rfg_stream_create(NULL, &stream), INVALID, "rfg_stream_create", "ctx");
    ck_assert_ptr_null(stream);
    refused(rfg_stream_create(ctx, NULL), INVALID, "rfg_stream_create", "stream");
    refused(rfg_stream_sync(NULL, NULL), INVALID, "rfg_stream_sync", "ctx");
    refused(rfg_stream_sync(ctx, ctx), INVALID, "rfg_stream_sync", "stream");
    none = ctx;
    refused(rfg_stream_destroy(NULL, &none), INVALID, "rfg_stream_destroy", "ctx");
    refused(rfg_stream_destroy(ctx, &none), INVALID, "rfg_stream_destroy", "stream");
    ck_assert_ptr_eq(none, ctx);
    ck_assert_uint_eq(rfg_workspace_size(NULL), 0);
    refused(INVALID, INVALID, "rfg_workspace_size", "ctx");
    refused(rfg_stream_set_workspace(NULL, NULL, NULL, 0), INVALID, "rfg_stream_set_workspace", "ctx");
    refused(rfg_stream_set_workspace(ctx, ctx, NULL, 0), INVALID, "rfg_stream_set_workspace", "stream");
    refused(rfg_stream_set_workspace(ctx, NULL, NULL, 1), INVALID, "rfg_stream_set_workspace", "memory");
    refused(rfg_stream_begin_capture(NULL, NULL), INVALID, "rfg_stream_begin_capture", "ctx");
    refused(rfg_stream_begin_capture(ctx, NULL), INVALID, "rfg_stream_begin_capture", "stream");
    refused(rfg_stream_end_capture(NULL, NULL, &graph), INVALID, "rfg_stream_end_capture", "ctx");
    ck_assert_ptr_null(graph);
    refused(rfg_stream_end_capture(ctx, ctx, &graph), INVALID, "rfg_stream_end_capture", "stream");
    refused(rfg_stream_end_capture(ctx, ctx, NULL), INVALID, "rfg_stream_end_capture", "graph");
    refused(rfg_graph_replay(NULL, NULL, NULL), INVALID, "rfg_graph_replay", "ctx");
    refused(rfg_graph_replay(ctx, NULL, NULL), INVALID, "rfg_graph_replay", "graph");
    refused(rfg_graph_destroy(NULL, &graph), INVALID, "rfg_graph_destroy", "ctx");
    rfg_context_destroy(&ctx);
}

/* Older callers get what they have room for, newer ones zeroes in what the library doesn't know. */
static void stats_of_sizes(rfg_context *ctx)
{
    const size_t wrong[] = { 0, 4, 12, 4104, SIZE_MAX }, right[] = { 8, 16, sizeof(rfg_stats), sizeof(rfg_stats) + 24 };
    unsigned char buf[sizeof(rfg_stats) + 64];
    for (int i = 0; i < COUNT(wrong) + COUNT(right); i++) {
        bool is_right = i >= COUNT(wrong);
        size_t size = is_right ? right[i - COUNT(wrong)] : wrong[i];
        memset(buf, 0xff, sizeof(buf));
        memcpy(buf, &size, sizeof(size));
        rfg_context_stats(ctx, (rfg_stats *)(void *)buf);
        if (!is_right)
            refused(INVALID, INVALID, "rfg_context_stats", "stats has size ");
        for (size_t b = sizeof(size); b < sizeof(buf); b++)
            ck_assert_int_eq(buf[b], is_right && b < size ? 0 : 0xff);
        ck_assert(!memcmp(buf, &size, sizeof(size)));
    }
}

static void context_stats(void)
{
    rfg_context *ctx = open_cpu();
    rfg_stats stats = RFG_STATS_INIT;
    memset(&stats, 0xff, sizeof(stats));
    stats.size = sizeof(stats);
    rfg_context_stats(NULL, &stats);
    refused(INVALID, INVALID, "rfg_context_stats", "ctx");
    ck_assert(!stats.calls && !stats.misses && !stats.plans && !stats.compiles && !stats.cache_hits);
    rfg_context_stats(ctx, NULL);
    refused(INVALID, INVALID, "rfg_context_stats", "stats");
    rfg_context_stats(NULL, NULL);
    stats_of_sizes(ctx);
    rfg_context_destroy(&ctx);
}

static void dlpack(void)
{
    static char data[64];
    static int64_t shape[] = { 2, 3, 4 }, negative[] = { 2, -3, 4 }, large[] = { INT64_MAX, 3, 4 };
    const DLTensor right = {
        .data = data, .device = { kDLCPU, 0 }, .ndim = 3, .dtype = { kDLFloat, 16, 1 }, .shape = shape
    };
    DLTensor wrong[20];
    int n = 0;
#define WRONG wrong[n] = right, wrong[n++]
    WRONG.shape = NULL;
    WRONG.shape = negative;
    WRONG.shape = large;
    WRONG.ndim = -1;
    WRONG.ndim = RFG_MAX_DIMS + 1;
    WRONG.dtype.lanes = 0;
    WRONG.dtype.lanes = 2;
    WRONG.dtype.bits = 64;
    WRONG.dtype.bits = 8;
    WRONG.dtype.code = kDLComplex;
    WRONG.dtype.code = 255;
    WRONG.byte_offset = UINT64_MAX;
    WRONG.byte_offset = (uint64_t)PTRDIFF_MAX + 1;
    WRONG.byte_offset = UINT64_MAX - (uintptr_t)data + 1;
    wrong[n] = right, wrong[n].data = NULL, wrong[n++].byte_offset = 2;
    WRONG.device.device_type = kDLOpenCL;
    WRONG.device.device_type = kDLMetal;
    WRONG.device.device_type = (DLDeviceType)0;
    ck_assert_int_le(n, COUNT(wrong));

    rfg_context *ctx = open_cpu();
    rfg_tensor t, was;
    memset(&was, 0xee, sizeof(was));
    t = was;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(rfg_tensor_from_dlpack(&t, &wrong[i]) == -1, "%d", i);
        ck_assert_msg(rfg_tensor_from_dlpack_for(ctx, &t, &wrong[i]) == -1, "%d", i);
    }
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, NULL), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack(NULL, &right), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, NULL), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, NULL, &right), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(NULL, &t, &right), -1);
    DLTensor other = right;
    other.device = (DLDevice){ kDLCUDA, 0 };
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, &other), -1);
    ck_assert(!memcmp(&t, &was, sizeof(t)));
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &other), 0); /* some context may have it */
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, &right), 0);
    ck_assert(t.data == data && t.strides[0] == 12 && t.strides[1] == 4 && t.strides[2] == 1);
    other = (DLTensor){ .device = { kDLCUDAHost, 0 }, .ndim = 0, .dtype = { kDLFloat, 32, 1 } };
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, &other), 0); /* no dimension: no shape */
    rfg_context_destroy(&ctx);
}

/* But for operators, whose calls are in args_ops.c. */
const struct function functions[] = {
    { "rfg_status_name", status_names },
    { "rfg_last_error", last_error },
    { "rfg_version", version },
    { "rfg_dtype_name", dtypes },
    { "rfg_dtype_bytes", dtypes },
    { "rfg_tensor_1d", views },
    { "rfg_tensor_2d", views },
    { "rfg_tensor_nd", views },
    { "rfg_tensor_prepacked", views },
    { "rfg_tensor_prepacked_groups", views },
    { "rfg_context_create", context_create },
    { "rfg_context_destroy", context_destroy },
    { "rfg_context_device", context_device },
    { "rfg_prepare_stream", prepare_stream },
    { "rfg_prepare", prepare },
    { "rfg_prepare_from_csv", prepare_from_csv },
    { "rfg_explain", explain },
    { "rfg_context_stats", context_stats },
    { "rfg_describe_begin", describe },
    { "rfg_describe_end", describe },
    { "rfg_set_log_callback", log_callback },
    { "rfg_device_alloc", device },
    { "rfg_device_copy", device },
    { "rfg_device_free", device },
    { "rfg_device_memset", device },
    { "rfg_stream_begin_capture", device },
    { "rfg_stream_create", device },
    { "rfg_stream_destroy", device },
    { "rfg_stream_end_capture", device },
    { "rfg_stream_set_workspace", device },
    { "rfg_stream_sync", device },
    { "rfg_workspace_size", device },
    { "rfg_graph_destroy", device },
    { "rfg_graph_replay", device },
    LIKE_OPERATORS,
    { "rfg_pack_qkv", packs },
    { "rfg_pack_gate_up", packs },
    { "rfg_pack_fnuz", packs },
    { "rfg_dtype_from_dlpack", dlpack },
    { "rfg_tensor_from_dlpack", dlpack },
    { "rfg_tensor_from_dlpack_for", dlpack },
};
const int n_functions = COUNT(functions);
