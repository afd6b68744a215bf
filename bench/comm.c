/* SPDX-License-Identifier: MIT
 *
 * Times the collectives of one process' ranks, one GPU each:
 *   comm [--ranks N] [--device NAME] [--sweep] [--norm] [BYTES...]
 *
 * A graph of CALLS calls for each rank, replayed; rank 0's events around it. What the communicator chooses, or
 * --sweep: each kernel, and workgroups of several sizes. --norm: all_reduce_add_rmsnorm of rows of 8192 (or one shorter
 * row) beside its two calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dispatch/comm.h"
#include "ops/norm/norm.h"
#include "rfg/rfg.h"

#define COLUMNS 8192 /* of --norm */
#define CALLS   50
#define REPLAYS 6
#define MOST    RFG_COMM_MAX_RANKS

static int ranks = 2;
static rfg_context *ctx[MOST];
static rfg_comm *comm[MOST];
static rfg_stream stream[MOST];
static void *memory[4][MOST]; /* x, y, residual, weight */

static void check(rfg_status st)
{
    if (st == RFG_OK)
        return;
    fprintf(stderr, "comm: %s\n", rfg_last_error());
    exit(1);
}

static void open_all(const char *platform, size_t bytes)
{
    rfg_comm_handle handles[MOST];
    for (int r = 0; r < ranks; r++) {
        char name[40];
        snprintf(name, sizeof(name), "%s:%d", platform, r);
        rfg_context_params p = { .size = sizeof(p), .device = name };
        check(rfg_context_create(&ctx[r], &p));
        rfg_comm_params c = { .size = sizeof(c), .timeout_ms = 20000 }; /* a rank compiles while another waits */
        check(rfg_comm_create(&comm[r], ctx[r], r, ranks, &c));
        check(rfg_comm_get_handle(comm[r], &handles[r]));
        check(rfg_stream_create(ctx[r], &stream[r]));
        for (int i = 0; i < 4; i++) {
            check(rfg_device_alloc(ctx[r], &memory[i][r], bytes));
            check(rfg_device_memset(ctx[r], memory[i][r], 0, bytes, stream[r]));
        }
    }
    for (int r = 0; r < ranks; r++)
        check(rfg_comm_connect(comm[r], handles));
}

/* What is timed in place of what the communicator chooses; NULL: nothing is. */
static void force(const struct comm_way *way, const struct rfg_variant *var)
{
    for (int r = 0; r < ranks; r++)
        rfg_comm_force(comm[r], way, var);
}

typedef void (*caller)(int rank, int64_t bytes, int what);

static void collective(int r, int64_t bytes, int op)
{
    static rfg_status (*const ops[])(rfg_comm *, const rfg_tensor *, const rfg_tensor *,
                                     rfg_stream) = { rfg_op_all_reduce, rfg_op_reduce_scatter, rfg_op_all_gather };
    const int64_t n = bytes / 2, part = n / ranks;
    rfg_tensor x = rfg_tensor_1d(memory[0][r], RFG_BF16, op == COMM_OP_GATHER ? part : n);
    rfg_tensor y = rfg_tensor_1d(memory[1][r], RFG_BF16, op == COMM_OP_SCATTER ? part : n);
    check(ops[op](comm[r], &y, &x, stream[r]));
}

/* calls: 1 or 2; 0: the norm alone. */
static void norm(int r, int64_t bytes, int calls)
{
    const int64_t n = bytes / 2 < COLUMNS ? bytes / 2 : COLUMNS, m = bytes / 2 / n;
    rfg_tensor x = rfg_tensor_2d(memory[0][r], RFG_BF16, m, n, n), y = rfg_tensor_2d(memory[1][r], RFG_BF16, m, n, n),
               residual = rfg_tensor_2d(memory[2][r], RFG_BF16, m, n, n), w = rfg_tensor_1d(memory[3][r], RFG_BF16, n);
    if (calls == 1)
        check(rfg_op_all_reduce_add_rmsnorm(comm[r], &y, &residual, &x, &residual, &w, NULL, stream[r]));
    else {
        if (calls == 2)
            check(rfg_op_all_reduce(comm[r], &y, &x, stream[r]));
        check(rfg_op_add_rmsnorm(ctx[r], &y, &residual, &y, &residual, &w, NULL, stream[r]));
    }
}

/* Microseconds of a call; the median of the replays. */
static double time_calls(caller call, int64_t bytes, int what)
{
    rfg_graph *graph[MOST];
    double us[REPLAYS];
    for (int r = 0; r < ranks && call == norm; r++) /* not to be loaded behind a kernel that waits for the others */
        norm(r, bytes, 0);
    for (int r = 0; r < ranks; r++)
        call(r, bytes, what);
    for (int r = 0; r < ranks; r++) {
        check(rfg_stream_sync(ctx[r], stream[r]));
        check(rfg_stream_begin_capture(ctx[r], stream[r]));
        for (int i = 0; i < CALLS; i++)
            call(r, bytes, what);
        check(rfg_stream_end_capture(ctx[r], stream[r], &graph[r]));
    }
    const struct rfg_hip *hip = rfg_context_hip(ctx[0]);
    hipEvent_t event[2];
    for (int i = 0; i < 2; i++)
        if (hip->hipSetDevice(rfg_context_ordinal(ctx[0])) || hip->hipEventCreateWithFlags(&event[i], 0))
            exit(1);
    for (int k = 0; k < REPLAYS; k++) {
        /* One graph more before and after, so that the ranks are in step within the events. */
        for (int g = 0; g < 3; g++)
            for (int r = 0; r < ranks; r++) {
                (void)hip->hipSetDevice(rfg_context_ordinal(ctx[r]));
                if (r == 0 && g == 1)
                    (void)hip->hipEventRecord(event[0], (hipStream_t)stream[0]);
                check(rfg_graph_replay(ctx[r], graph[r], stream[r]));
                if (r == 0 && g == 1)
                    (void)hip->hipEventRecord(event[1], (hipStream_t)stream[0]);
            }
        for (int r = 0; r < ranks; r++)
            check(rfg_stream_sync(ctx[r], stream[r]));
        float ms = 0;
        (void)hip->hipSetDevice(rfg_context_ordinal(ctx[0]));
        (void)hip->hipEventElapsedTime(&ms, event[0], event[1]);
        us[k] = ms * 1e3 / CALLS;
    }
    for (int r = 0; r < ranks; r++) {
        check(rfg_comm_check(comm[r]));
        check(rfg_graph_destroy(ctx[r], &graph[r]));
    }
    return rfg_median(us, REPLAYS);
}

static void sweep_way(enum comm_op op, int64_t bytes, struct comm_way way)
{
    const struct rfg_device *dev = rfg_context_info(ctx[0]);
    const int64_t n = bytes / 2 / (op == COMM_OP_REDUCE ? 1 : ranks);
    struct rfg_problem prob = { .op = comm_ops[op], .v = { [COMM_RANKS] = ranks } };
    struct rfg_reason why;
    if (!rfg_variant_check(&comm_push, dev, &prob, way.p, &why) || n > comm_most(op, ranks, RFG_BF16, way.p))
        return;
    const int most = comm_groups(dev, op, ranks, RFG_BF16, n, way.p, false);
    for (int down = 1; down <= 4 && most / down; down *= 2) {
        way.groups = most / down;
        force(&way, NULL);
        printf("%s %8lld two=%d bulk=%d threads=%4d unroll=%d groups=%3d  %7.2f us\n", comm_ops[op]->name,
               (long long)bytes, way.p[COMM_P_TWO], way.p[COMM_P_BULK], way.p[COMM_P_THREADS], way.p[COMM_P_UNROLL],
               way.groups, time_calls(collective, bytes, op));
        fflush(stdout);
    }
}

/* Packets carry the double, and tiles cost a fence: neither is tried where it is far from the best. */
static void sweep(enum comm_op op, int64_t bytes)
{
    for (int two = 0; two < (op == COMM_OP_REDUCE && ranks > 2 ? 2 : 1); two++)
        for (int threads = 128; threads <= 1024; threads *= 2) {
            if (bytes <= 1 << 20)
                sweep_way(op, bytes, (struct comm_way){ { two, COMM_BY_PACKETS, threads, 1 }, 0 });
            for (int unroll = 1; unroll <= 4; unroll *= 2) {
                if (bytes > 1 << 18)
                    sweep_way(op, bytes, (struct comm_way){ { two, COMM_BY_TILES, threads, unroll }, 0 });
                if (bytes > 1 << 13)
                    sweep_way(op, bytes, (struct comm_way){ { two, COMM_BY_LINES, threads, unroll }, 0 });
            }
        }
    force(NULL, NULL);
}

static void sweep_norm(int64_t bytes)
{
    for (int threads = 64; threads <= 1024; threads *= 2)
        for (int chunks = 1; chunks <= 8; chunks *= 2)
            for (int split = 1; split <= 8; split *= 2) {
                struct comm_way way = { { ranks, threads, chunks, split }, 0 };
                if (threads * chunks * split != (bytes / 2 < COLUMNS ? bytes / 2 : COLUMNS) / 8)
                    continue;
                force(&way, &add_rmsnorm_joint);
                printf("norm %8lld threads=%4d chunks=%d split=%d  %7.2f us\n", (long long)bytes, threads, chunks,
                       split, time_calls(norm, bytes, 1));
                fflush(stdout);
            }
    force(NULL, NULL);
}

static void compare_norm(int64_t bytes)
{
    double one = time_calls(norm, bytes, 1), two = time_calls(norm, bytes, 2), alone = time_calls(norm, bytes, 0);
    printf("all_reduce_add_rmsnorm %8lld bytes: one call %7.2f us, two %7.2f us (the norm %.2f): %.2fx\n",
           (long long)bytes, one, two, alone, two / one);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int64_t sizes[32] = { 8 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20 };
    int n = 5, given = 0;
    bool sweeps = false, norms = false;
    const char *platform = "nvidia";
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--ranks") && i + 1 < argc)
            ranks = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            platform = argv[++i];
        else if (!strcmp(argv[i], "--sweep"))
            sweeps = true;
        else if (!strcmp(argv[i], "--norm"))
            norms = true;
        else if (given < 32)
            sizes[given++] = atoll(argv[i]);
    n = given ? given : n;
    if (ranks < 1 || ranks > MOST)
        return 2;
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        most = sizes[i] > most ? sizes[i] : most;
    open_all(platform, (size_t)most);
    for (int i = 0; i < n; i++)
        if (sweeps && norms)
            sweep_norm(sizes[i]);
        else if (sweeps)
            sweep(COMM_OP_REDUCE, sizes[i]);
        else if (norms)
            compare_norm(sizes[i]);
        else
            for (int op = 0; op < COMM_OPS; op++)
                printf("%-14s %8lld bytes %7.2f us\n", comm_ops[op]->name, (long long)sizes[i],
                       time_calls(collective, sizes[i], op)),
                    fflush(stdout);
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < 4; i++)
            (void)rfg_device_free(ctx[r], memory[i][r]);
        rfg_comm_destroy(&comm[r]);
        rfg_context_destroy(&ctx[r]);
    }
    return 0;
}
