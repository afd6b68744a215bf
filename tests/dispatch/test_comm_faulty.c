/* SPDX-License-Identifier: MIT
 *
 * Communicators of two mock GPUs: each call of the HIP table fails once at every place, is told by the call that it hits,
 * and the second time that works; what devices can't do is said; nothing leaks. Results are test_comm.c's matter: here
 * kernels do nothing. */
#include "dispatch/comm.h"
#include "fakehip.h"
#include "faulty.h"
#include "ops/comm_args.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

#define RANKS 2
#define N     64
#define ERROR hipErrorLaunchFailure
/* Where a handle has them (struct handle of dispatch/comm.c). */
#define PROCESS 24
#define WINDOW  48

static const struct rfg_hip *fake;
static rfg_context *ctx[RANKS];
static rfg_comm *comm[RANKS];
static rfg_comm_handle handle[RANKS];
static rfg_stream stream[RANKS];
static char where[120];
static bool told;

/* A public call that the failure may hit: it names it, and works when it is made again. */
#define MUST_RECOVER(call)                                                                                             \
    do {                                                                                                               \
        rfg_status st_ = (call);                                                                                       \
        if (st_ != RFG_OK) {                                                                                           \
            is_told(st_, #call);                                                                                       \
            st_ = (call);                                                                                              \
        }                                                                                                              \
        ck_assert_msg(st_ == RFG_OK, "%s: %s: %s", where, #call, rfg_last_error());                                    \
    } while (0)

static void is_told(rfg_status st, const char *call)
{
    bool named = false;
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        named |= faulty_fired_in(e) && strstr(rfg_last_error(), faulty_name(e));
    ck_assert_msg(st == RFG_ERROR_DEVICE && named && !told, "%s: %s: %s: %s", where, call, rfg_status_name(st),
                  rfg_last_error());
    told = true;
}

/* Kernels look into a window from the first call on: it is cleared by now. */
static void expect_cleared(int r)
{
    const unsigned char *window;
    memcpy(&window, &handle[r].bytes[WINDOW], sizeof(window));
    ck_assert_msg(!window[0] && !memcmp(window, window + 1, (size_t)COMM_BULK_AT(RANKS) - 1), "%s: rank %d's window",
                  where, r);
}

static void make(void)
{
    for (int r = 0; r < RANKS; r++) {
        MUST_RECOVER(rfg_comm_create(&comm[r], ctx[r], r, RANKS, NULL));
        ck_assert_int_eq(rfg_comm_get_handle(comm[r], &handle[r]), RFG_OK);
        expect_cleared(r);
    }
}

static void drop(void)
{
    for (int r = 0; r < RANKS; r++) {
        rfg_comm_destroy(&comm[r]);
        ck_assert_ptr_null(comm[r]);
    }
}

static rfg_status reduce(int r, void *data)
{
    rfg_tensor t = rfg_tensor_1d(data, RFG_BF16, N);
    return rfg_op_all_reduce(comm[r], &t, &t, stream[r]);
}

/* The contexts' own calls aren't counted: test_faulty.c has them fail. */
static void open_contexts(void *memory[RANKS])
{
    for (int r = 0; r < RANKS; r++) {
        rfg_context_params p = {
            .size = sizeof(p), .device = r ? "amd:1" : "amd:0", .user_db = "", .system_db = "", .cache_dir = "cache"
        };
        ck_assert_msg(rfg_context_create(&ctx[r], &p) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_stream_create(ctx[r], &stream[r]), RFG_OK);
        ck_assert_int_eq(rfg_device_alloc(ctx[r], &memory[r], N * 2), RFG_OK);
    }
}

static void close_contexts(void *memory[RANKS])
{
    char live[200];
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(rfg_device_free(ctx[r], memory[r]), RFG_OK);
        ck_assert_int_eq(rfg_stream_destroy(ctx[r], &stream[r]), RFG_OK);
        rfg_context_destroy(&ctx[r]);
    }
    ck_assert_msg(!fakehip_misuse(), "%s: %s", where, fakehip_misuse());
    ck_assert_msg(!*fakehip_live(live, sizeof(live)), "%s: left behind: %s", where, live);
}

/* Until the communicators go, where no call tells anything. */
static void play(enum faulty_entry entry, int n, int calls[FAULTY_ENTRIES])
{
    void *memory[RANKS];
    told = false;
    open_contexts(memory);
    fakehip_peers(&(struct fakehip_peers){ true, true, true });
    faulty_arm(entry, n, ERROR);
    make();
    for (int r = 0; r < RANKS; r++)
        MUST_RECOVER(rfg_comm_connect(comm[r], handle));
    for (int r = 0; r < RANKS; r++) {
        int before = fakehip_launches();
        MUST_RECOVER(reduce(r, memory[r])); /* compiles and loads its kernel */
        ck_assert_msg(fakehip_launches() == before + 1, "%s: rank %d", where, r);
        ck_assert_int_eq(rfg_comm_check(comm[r]), RFG_OK);
    }
    for (int e = 0; calls && e < FAULTY_ENTRIES; e++)
        calls[e] = faulty_calls(e);
    /* A device that gives no memory to other processes is none the worse here; going back to the caller's device is no
     * reason to fail. */
    bool minor = entry == FAULTY_hipIpcGetMemHandle || entry == FAULTY_hipSetDevice;
    ck_assert_msg(faulty_fired() == (n > 0) && (told || !n || minor), "%s: nobody said so", where);
    drop();
    faulty_arm(0, 0, hipSuccess);
    ck_assert_int_eq(fake->hipSetDevice(0), hipSuccess);
    close_contexts(memory);
}

START_TEST(every_call_fails_once)
{
    int total[FAULTY_ENTRIES], failures = 0;
    snprintf(where, sizeof(where), "nothing fails");
    play(0, 0, NULL);
    play(0, 0, total); /* all is compiled: the same calls from here on */
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        for (int n = 1; n <= total[e]; n++, failures++) {
            snprintf(where, sizeof(where), "call %d of %d of %s fails", n, total[e], faulty_name(e));
            play(e, n, NULL);
        }
    printf("communicators: %d failures\n", failures);
    ck_assert_int_gt(failures, 20);
}
END_TEST

/* ---- what devices can't do --------------------------------------------------------------------------------------- */

static void refused(const char *says)
{
    rfg_status st = rfg_comm_connect(comm[0], handle);
    ck_assert_msg(st == RFG_ERROR_UNSUPPORTED && strstr(rfg_last_error(), says), "%s: %s", rfg_status_name(st),
                  rfg_last_error());
    drop();
}

START_TEST(says_what_devices_cannot)
{
    void *memory[RANKS];
    open_contexts(memory);
    snprintf(where, sizeof(where), "peers");
    /* Memory of an older ROCm, which has no uncached one. */
    fakehip_peers(&(struct fakehip_peers){ false, true, true });
    make();
    ck_assert_msg(rfg_comm_connect(comm[0], handle) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_comm_connect(comm[1], handle) == RFG_OK, "%s", rfg_last_error());
    drop();
    /* Peer access that is there already. */
    make();
    ck_assert_msg(rfg_comm_connect(comm[0], handle) == RFG_OK, "%s", rfg_last_error());
    drop();
    fakehip_peers(&(struct fakehip_peers){ true, false, true });
    make();
    refused("rank 1 is amd:1: amd:0 can't reach its memory");
    make();
    handle[1].bytes[PROCESS] ^= 1;
    refused("rank 1 is amd:1: amd:0 can't reach its memory");
    fakehip_peers(&(struct fakehip_peers){ true, true, false });
    make();
    handle[1].bytes[PROCESS] ^= 1;
    refused("rank 1 is in another process, to which amd:1 gives no memory");
    /* Another process' memory is opened, and closed. */
    fakehip_peers(&(struct fakehip_peers){ true, true, true });
    make();
    handle[1].bytes[PROCESS] ^= 1;
    ck_assert_msg(rfg_comm_connect(comm[0], handle) == RFG_OK, "%s", rfg_last_error());
    drop();
    close_contexts(memory);
}
END_TEST

START_TEST(nothing_in_a_capture)
{
    void *memory[RANKS];
    rfg_graph *graph;
    open_contexts(memory);
    make();
    ck_assert_int_eq(rfg_comm_connect(comm[0], handle), RFG_OK);
    ck_assert_int_eq(rfg_stream_begin_capture(ctx[0], stream[0]), RFG_OK);
    ck_assert_int_eq(reduce(0, memory[0]), RFG_ERROR_NOT_READY);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "call rfg_comm_prepare() before"));
    ck_assert_int_eq(rfg_comm_prepare(comm[0], RFG_BF16), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "must come after rfg_stream_end_capture()"));
    ck_assert_int_eq(rfg_stream_end_capture(ctx[0], stream[0], &graph), RFG_OK);
    ck_assert_int_eq(rfg_graph_destroy(ctx[0], &graph), RFG_OK);
    ck_assert_msg(reduce(0, memory[0]) == RFG_OK, "%s", rfg_last_error());
    drop();
    close_contexts(memory);
}
END_TEST

static void setup(void)
{
    program_setup();
    fake = fakehip();
    rfg_hip_override(RFG_PLATFORM_AMD, faulty(fake));
    setenv("RFG_VENDOR", "0", 1);
}

int main(void)
{
    Suite *su = suite_create("comm_faulty");
    TCase *tc = tcase_create("comm_faulty");
    tcase_add_checked_fixture(tc, setup, program_teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, every_call_fails_once, says_what_devices_cannot, nothing_in_a_capture);
    suite_add_tcase(su, tc);
    return run_suite(su);
}
