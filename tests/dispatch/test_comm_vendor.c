/* SPDX-License-Identifier: MIT
 *
 * NCCL and RCCL by a mock library, on two mock GPUs: which messages they get, what they are told, their errors, and what
 * is said where there is none. */
#include <dlfcn.h>

#include "dispatch/comm.h"
#include "fakehip.h"
#include "mock_nccl.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

enum { RANKS = 2, N = 1024 /* elements of a rank's part */, KIB = 4 };

static struct mock_nccl *mock;
static rfg_context *ctx[RANKS];
static rfg_comm *comm[RANKS];
static rfg_stream stream[RANKS];
static void *memory[RANKS];

static void open_contexts(void)
{
    for (int r = 0; r < RANKS; r++) {
        rfg_context_params p = {
            .size = sizeof(p), .device = r ? "amd:1" : "amd:0", .user_db = "", .system_db = "", .cache_dir = "cache"
        };
        ck_assert_msg(rfg_context_create(&ctx[r], &p) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_stream_create(ctx[r], &stream[r]), RFG_OK);
        ck_assert_int_eq(rfg_device_alloc(ctx[r], &memory[r], RANKS * 3 * N * 4), RFG_OK);
    }
}

static void close_contexts(void)
{
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(rfg_device_free(ctx[r], memory[r]), RFG_OK);
        ck_assert_int_eq(rfg_stream_destroy(ctx[r], &stream[r]), RFG_OK);
        rfg_context_destroy(&ctx[r]);
    }
}

static rfg_status create(int r)
{
    rfg_comm_params p = { .size = sizeof(p), .vendor_from = KIB };
    return rfg_comm_create(&comm[r], ctx[r], r, RANKS, &p);
}

static void make(void)
{
    rfg_comm_handle handle[RANKS];
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg(create(r) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_comm_get_handle(comm[r], &handle[r]), RFG_OK);
    }
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(rfg_comm_connect(comm[r], handle) == RFG_OK, "%s", rfg_last_error());
}

static void drop(void)
{
    for (int r = 0; r < RANKS; r++)
        rfg_comm_destroy(&comm[r]);
    ck_assert_int_eq(mock->alive, 0);
}

static void fails(rfg_status st, rfg_status want, const char *says)
{
    ck_assert_msg(st == want && strstr(rfg_last_error(), says), "%s: %s", rfg_status_name(st), rfg_last_error());
}

/* A call of rank r; bytes: of the larger tensor. */
static void expect(int r, int op, rfg_dtype dtype, int64_t bytes, bool vendors)
{
    static rfg_status (*const ops[])(rfg_comm *, const rfg_tensor *, const rfg_tensor *,
                                     rfg_stream) = { rfg_op_all_reduce, rfg_op_reduce_scatter, rfg_op_all_gather };
    static const char *const names[] = { "AllReduce", "ReduceScatter", "AllGather" };
    static const int numbers[] = { [RFG_F32] = 7, [RFG_F16] = 6, [RFG_BF16] = 9 };
    int64_t all = bytes / (int64_t)rfg_dtype_bytes(dtype, 1), part = op ? all / RANKS : all;
    char *x = memory[r], *y = x + RANKS * N * 4;
    rfg_tensor tx = rfg_tensor_1d(x, dtype, op == 2 ? part : all), ty = rfg_tensor_1d(y, dtype, op == 1 ? part : all);
    int launches = fakehip_launches();
    mock->last = NULL;
    ck_assert_msg(ops[op](comm[r], &ty, &tx, stream[r]) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(fakehip_launches(), launches + !vendors);
    ck_assert_int_eq(mock->last != NULL, vendors);
    if (!vendors)
        return;
    ck_assert_str_eq(mock->last, names[op]);
    ck_assert(mock->send == x && mock->receive == y && mock->stream == stream[r]);
    ck_assert_uint_eq(mock->count, (size_t)part);
    ck_assert_int_eq(mock->dtype, numbers[dtype]);
    ck_assert_int_eq(mock->op, op == 2 ? -1 : 0);
    ck_assert_int_eq(mock->rank, r);
    ck_assert_int_eq(mock->ranks, RANKS);
}

START_TEST(gets_large_messages)
{
    static const rfg_dtype dtypes[] = { RFG_F32, RFG_F16, RFG_BF16 };
    open_contexts();
    make();
    ck_assert_int_eq(mock->alive, RANKS);
    for (int i = 0; i < 128; i++) /* rank 0's id came to the others */
        ck_assert_int_eq(mock->id[i], (char)(i + 1));
    for (int r = 0; r < RANKS; r++)
        for (int op = 0; op < 3; op++)
            for (int d = 0; d < 3; d++) {
                expect(r, op, dtypes[d], KIB << 10, true);
                expect(r, op, dtypes[d], (KIB << 10) - 8, false);
            }
    ck_assert_int_eq(rfg_comm_check(comm[0]), RFG_OK);
    drop();
    ck_assert_int_eq(mock->aborted, 0);
    close_contexts();
}
END_TEST

START_TEST(errors_are_told)
{
    rfg_comm_handle handle[RANKS];
    open_contexts();
    mock->fail_at = mock->calls + 1;
    fails(create(0), RFG_ERROR_DEVICE, "ncclGetUniqueId: a mock error");
    ck_assert_ptr_null(comm[0]);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(create(r), RFG_OK);
        ck_assert_int_eq(rfg_comm_get_handle(comm[r], &handle[r]), RFG_OK);
    }
    mock->fail_at = mock->calls + 1;
    fails(rfg_comm_connect(comm[0], handle), RFG_ERROR_DEVICE, "rfg_comm_connect: ncclCommInitRank: a mock error");
    ck_assert_int_eq(rfg_comm_connect(comm[0], handle), RFG_OK); /* it is as it was */
    rfg_tensor t = rfg_tensor_1d(memory[0], RFG_F32, KIB << 8);
    mock->fail_at = mock->calls + 1;
    fails(rfg_op_all_reduce(comm[0], &t, &t, stream[0]), RFG_ERROR_DEVICE,
          "rfg_op_all_reduce: ncclAllReduce: a mock error");
    mock->async = 6;
    fails(rfg_comm_check(comm[0]), RFG_ERROR_DEVICE, "rfg_comm_check: RCCL: a remote process exited");
    mock->async = 0;
    ck_assert_int_eq(rfg_comm_check(comm[0]), RFG_OK);
    drop();
    close_contexts();
}
END_TEST

/* What is looked for once a process: each in one of its own (Check forks). */
START_TEST(no_library)
{
    open_contexts();
    setenv("RFG_LIBRCCL", "/no/such/librccl.so", 1);
    fails(create(0), RFG_ERROR_UNSUPPORTED, "vendor_from: RCCL: RFG_LIBRCCL: /no/such/librccl.so");
    ck_assert_ptr_null(comm[0]);
    close_contexts();
}
END_TEST

START_TEST(older_library)
{
    open_contexts();
    setenv("RFG_LIBRCCL", getenv("RFG_MOCK_NCCL_OLD"), 1);
    fails(create(0), RFG_ERROR_UNSUPPORTED, "mock-nccl-old.so lacks ncclAllGather");
    close_contexts();
}
END_TEST

static void setup(void)
{
    const char *path = getenv("RFG_MOCK_NCCL");
    program_setup();
    rfg_hip_override(RFG_PLATFORM_AMD, fakehip());
    setenv("RFG_VENDOR", "0", 1);
    setenv("RFG_LIBRCCL", path, 1);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    mock = dlsym(lib, "mock_nccl");
    ck_assert_ptr_nonnull(mock);
}

int main(void)
{
    Suite *s = suite_create("comm_vendor");
    TCase *tc = test_case(s, "vendor", setup, program_teardown);
    ADD_TESTS(tc, gets_large_messages, errors_are_told, no_library, older_library);
    return run_suite(s);
}
