/* SPDX-License-Identifier: MIT
 *
 * Communicators and their collectives, on ranks of the cpu and of the devices of $RFG_TEST_DEVICES: sums against double
 * precision, the same bits on all ranks and by all kernels, sizes, alignment, in place, graphs, ranks that don't come.
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/tempdir.h"
#include "base/util.h"
#include "dispatch/comm.h"
#include "dispatch/db/db.h"
#include "comm_world.h"
#include "emu/run/front.h"
#include "tests/op_cases.h"
#include "tests/suite.h"
#include "tuner/harness/harness.h"

#define PERIOD 100003 /* elements, after which x repeats itself */

/* ---- a collective on all ranks ----------------------------------------------------------------------------------- */

struct job {
    enum comm_op op;
    rfg_dtype dtype;
    int64_t n;      /* elements of a part, or of all */
    int x_at, y_at; /* elements by which x and y are off an alignment of 256 bytes */
    bool in_place;
    int calls, replays; /* replays 0: without a graph */
    const struct comm_way *way;
    const struct rfg_variant *var;
};

struct rank {
    pthread_t thread;
    struct world *w;
    const struct job *job;
    int rank;
    char *x, *y; /* the host's; x of each call, one behind the other */
    rfg_status status;
    char error[300];
};

static int64_t elements(const struct job *j, int ranks, bool output)
{
    return j->n * (j->op == (output ? COMM_OP_GATHER : COMM_OP_SCATTER) ? ranks : 1);
}

static rfg_status call(struct rank *k, const rfg_tensor *y, const rfg_tensor *x)
{
    static rfg_status (*const ops[])(rfg_comm *, const rfg_tensor *, const rfg_tensor *,
                                     rfg_stream) = { rfg_op_all_reduce, rfg_op_reduce_scatter, rfg_op_all_gather };
    rfg_status st = RFG_OK;
    rfg_tensor own = *x;
    for (int i = 0; i < k->job->calls && st == RFG_OK; i++) {
        st = ops[k->job->op](k->w->comm[k->rank], y, &own, k->w->stream[k->rank]);
        own.data = (char *)own.data + rfg_dtype_bytes(own.dtype, own.shape[0]);
    }
    return st;
}

static rfg_status run_captured(struct rank *k, const rfg_tensor *y, const rfg_tensor *x)
{
    rfg_context *ctx = k->w->ctx[k->rank];
    rfg_stream s = k->w->stream[k->rank];
    rfg_graph *graph;
    rfg_status st = RFG_OK;
    if (st == RFG_OK && (st = rfg_stream_begin_capture(ctx, s)) == RFG_OK) {
        st = call(k, y, x);
        rfg_status end = rfg_stream_end_capture(ctx, s, &graph);
        st = st == RFG_OK ? end : st;
        for (int i = 0; i < k->job->replays && st == RFG_OK; i++)
            st = rfg_graph_replay(ctx, graph, s);
        if (end == RFG_OK && st == RFG_OK)
            st = rfg_stream_sync(ctx, s);
        if (end == RFG_OK)
            rfg_graph_destroy(ctx, &graph);
    }
    return st;
}

static rfg_status run_rank(struct rank *k)
{
    const struct job *j = k->job;
    rfg_context *ctx = k->w->ctx[k->rank];
    rfg_stream s = k->w->stream[k->rank];
    const int64_t size = (int64_t)rfg_dtype_bytes(j->dtype, 1), nx = elements(j, k->w->ranks, false),
                  ny = elements(j, k->w->ranks, true);
    const bool y_in_x = j->in_place && j->op != COMM_OP_GATHER;
    char *memory[2] = { 0 }; /* x's, y's */
    const int64_t offset[] = { j->x_at * size, (j->in_place ? j->x_at : j->y_at) * size };
    rfg_status st = RFG_OK;
    for (int i = 0; i < 2 && st == RFG_OK; i++)
        st = rfg_device_alloc(ctx, (void **)&memory[i], (size_t)(offset[i] + (i ? ny : nx * j->calls) * size));
    char *x = memory[0] + offset[0], *y = memory[1] + offset[1];
    if (y_in_x)
        y = x + (j->op == COMM_OP_SCATTER ? k->rank * j->n * size : 0);
    else if (j->in_place)
        x = y + k->rank * j->n * size;
    if (st == RFG_OK && !y_in_x)
        st = rfg_device_memset(ctx, y, 0x5a, (size_t)(ny * size), s);
    if (st == RFG_OK)
        st = rfg_device_copy(ctx, x, k->x, (size_t)(nx * j->calls * size), RFG_HOST_TO_DEVICE, s);
    if (st == RFG_OK)
        st = rfg_stream_sync(ctx, s);
    if (st == RFG_OK && (st = rfg_comm_load(k->w->comm[k->rank], j->op, (int)j->dtype, j->n)) != RFG_OK)
        snprintf(k->error, sizeof(k->error), "%s", rfg_last_error());
    pthread_barrier_wait(&k->w->loaded); /* loading and allocating may wait for a GPU whose kernel waits for us */
    rfg_tensor tx = rfg_tensor_1d(x, j->dtype, nx), ty = rfg_tensor_1d(y, j->dtype, ny);
    if (st == RFG_OK)
        st = j->replays ? run_captured(k, &ty, &tx) : call(k, &ty, &tx);
    rfg_status sync = rfg_stream_sync(ctx, s);
    st = st == RFG_OK ? sync : st;
    if (st == RFG_OK)
        st = rfg_comm_check(k->w->comm[k->rank]);
    if (st == RFG_OK && (st = rfg_device_copy(ctx, k->y, y, (size_t)(ny * size), RFG_DEVICE_TO_HOST, s)) == RFG_OK)
        st = rfg_stream_sync(ctx, s);
    snprintf(k->error, sizeof(k->error), "%s", rfg_last_error());
    pthread_barrier_wait(&k->w->done);
    for (int i = 0; i < 2; i++)
        (void)rfg_device_free(ctx, memory[i]);
    return st;
}

static void *rank_thread(void *arg)
{
    struct rank *k = arg;
    k->status = run_rank(k);
    return NULL;
}

static void make_x(const struct job *j, int64_t nx, uint64_t seed, char *x)
{
    const int64_t size = (int64_t)rfg_dtype_bytes(j->dtype, 1);
    for (int64_t i = 0; i < nx; i++) {
        if (i >= PERIOD) {
            memcpy(x + i * size, x + (i - PERIOD) * size, (size_t)size);
            continue;
        }
        uint64_t u = rfg_random(&seed);
        double v = (double)(int64_t)(u >> 11) * 0x1p-52 - 1;
        rfg_store(x, j->dtype, i, u % 16 == 0 ? v * 100 : v);
    }
    if (nx > 3)
        rfg_store(x, j->dtype, 3, -0.0);
}

/* Half an ulp of y, and what fp32 sums lose. */
static void check_sums(const struct job *j, struct rank *k, int ranks, int64_t ny)
{
    const int bits = j->dtype == RFG_F32 ? 24 : j->dtype == RFG_F16 ? 11 : 8;
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < ny; i += 1 + ny / 100000) {
            const int64_t at = j->op == COMM_OP_SCATTER ? r * j->n + i : i;
            double sum = 0, all = 0, got = rfg_load(k[r].y, j->dtype, i);
            for (int from = 0; from < ranks; from++) {
                double v = rfg_load(k[from].x, j->dtype, at);
                sum += v;
                all += fabs(v);
            }
            double allow = fabs(sum) * ldexp(1, -bits) * 1.001 + all * ranks * 0x1p-24 + 0x1p-25;
            ck_assert_msg(fabs(got - sum) <= allow, "rank %d element %ld: %.9g, must be %.9g", r, (long)i, got, sum);
        }
}

static void check(const struct job *j, struct rank *k, int ranks)
{
    const int64_t nx = elements(j, ranks, false), ny = elements(j, ranks, true),
                  size = (int64_t)rfg_dtype_bytes(j->dtype, 1);
    for (int r = 0; r < ranks; r++)
        k[r].x += (j->calls - 1) * nx * size; /* y is the last call's */
    for (int r = 0; r < ranks; r++) {
        if (j->op == COMM_OP_GATHER)
            for (int from = 0; from < ranks; from++)
                ck_assert_msg(!memcmp(k[r].y + from * nx * size, k[from].x, (size_t)(nx * size)),
                              "rank %d: rank %d's part", r, from);
        else if (j->op == COMM_OP_REDUCE)
            ck_assert_msg(!memcmp(k[r].y, k[0].y, (size_t)(ny * size)), "rank %d has other bits than rank 0", r);
    }
    if (j->op != COMM_OP_GATHER)
        check_sums(j, k, ranks, ny);
    for (int r = 0; r < ranks; r++)
        k[r].x -= (j->calls - 1) * nx * size;
}

static void start(struct world *w, const struct job *j, struct rank k[WORLD_MOST], int from)
{
    for (int r = 0; r < w->ranks; r++) {
        const int64_t nx = elements(j, w->ranks, false), ny = elements(j, w->ranks, true);
        k[r] = (struct rank){
            .w = w, .job = j, .rank = r, .x = malloc((size_t)(nx * j->calls) * 4 + 4), .y = malloc((size_t)ny * 4 + 4)
        };
        ck_assert(k[r].x && k[r].y);
        for (int i = 0; i < j->calls; i++)
            make_x(j, nx, (uint64_t)(r * 77 + i * 1000 + j->n),
                   k[r].x + i * nx * (int64_t)rfg_dtype_bytes(j->dtype, 1));
        rfg_comm_force(w->comm[r], j->way, j->var);
    }
    pthread_barrier_init(&w->loaded, NULL, (unsigned)(w->ranks - from));
    pthread_barrier_init(&w->done, NULL, (unsigned)(w->ranks - from));
    for (int r = from; r < w->ranks; r++)
        ck_assert(!pthread_create(&k[r].thread, NULL, rank_thread, &k[r]));
}

static void finish(struct world *w, struct rank k[WORLD_MOST], int from)
{
    for (int r = from; r < w->ranks; r++)
        pthread_join(k[r].thread, NULL);
    for (int r = 0; r < w->ranks; r++)
        rfg_comm_force(w->comm[r], NULL, NULL);
}

static void free_ranks(struct world *w, struct rank k[WORLD_MOST])
{
    for (int r = 0; r < w->ranks; r++) {
        free(k[r].x);
        free(k[r].y);
    }
}

static const char *const names[] = { "all_reduce", "reduce_scatter", "all_gather" };

/* y of rank 0 goes to keep, if that isn't NULL. */
static void run_job(struct world *w, const struct job *j, char *keep)
{
    struct rank k[WORLD_MOST];
    start(w, j, k, 0);
    finish(w, k, 0);
    for (int r = 0; r < w->ranks; r++)
        ck_assert_msg(k[r].status == RFG_OK, "%s %s n=%ld ranks=%d, rank %d: %s", names[j->op],
                      rfg_dtype_name(j->dtype), (long)j->n, w->ranks, r, k[r].error);
    check(j, k, w->ranks);
    if (keep)
        memcpy(keep, k[0].y, (size_t)elements(j, w->ranks, true) * rfg_dtype_bytes(j->dtype, 1));
    free_ranks(w, k);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const rfg_dtype dtypes[] = { RFG_BF16, RFG_F16, RFG_F32 };

/* Sizes around a chunk, a workgroup and more; alignments; in place. */
START_TEST(right_sizes)
{
    static const int64_t sizes[] = { 1, 2, 7, 8, 9, 250, 256, 4096, 4099, 20000 };
    const char *device = world_device[_i];
    const bool nvidia = !strncmp(device, "nvidia", 6);
    for (int ranks = nvidia ? 2 : 1; ranks <= (nvidia ? 2 : world_is_emulated(device) ? 3 : 4); ranks++) {
        struct world w;
        world_open(&w, device, ranks, 20000);
        for (int s = 0; s < (int)(sizeof(sizes) / sizeof(sizes[0])); s++)
            for (int op = 0; op < COMM_OPS; op++) {
                if (world_is_emulated(device) && (s + op + ranks) % 3)
                    continue;
                struct job j = { .op = (enum comm_op)op,
                                 .dtype = dtypes[(s + op) % 3],
                                 .n = sizes[s],
                                 .calls = 1 + s % 3,
                                 .x_at = s % 2 ? s : 0,
                                 .y_at = s % 4 == 3 ? 1 : 0,
                                 .in_place = s % 4 == 2 };
                if (j.in_place)
                    j.calls = 1;
                run_job(&w, &j, NULL);
            }
        world_close(&w);
    }
}
END_TEST

/* Each kernel, and all of them the same bits. */
START_TEST(right_ways)
{
    const char *device = world_device[_i];
    const int64_t n = strncmp(device, "nvidia", 6) ? 5000 : 100003;
    for (int ranks = 2; ranks <= (strcmp(device, "cpu") ? 3 : 4); ranks++) {
        struct world w;
        world_open(&w, device, ranks, 20000);
        for (int op = 0; op < COMM_OPS; op++) {
            char *kept[2] = { malloc((size_t)n * 16), malloc((size_t)n * 16) };
            for (int i = 0, some = 0; i < 6; i++) {
                struct comm_way way = { { i & 1, i >> 1, 256, 2 }, 0 };
                struct rfg_problem prob = { .op = comm_ops[op], .v = { [COMM_RANKS] = ranks } };
                struct rfg_reason why;
                if (strcmp(device, "cpu") &&
                    !rfg_variant_check(&comm_push, rfg_context_info(w.ctx[0]), &prob, way.p, &why))
                    continue;
                struct job j = { (enum comm_op)op, RFG_BF16, n, 0, i == 3, false, 2, 0, &way, NULL };
                run_job(&w, &j, kept[some != 0]);
                ck_assert_msg(!some++ || !memcmp(kept[0], kept[1], (size_t)n * 2), "%s %d of %d ranks: other bits",
                              names[op], i, ranks);
            }
            free(kept[0]);
            free(kept[1]);
        }
        world_close(&w);
    }
}
END_TEST

/* Four ranks and eight, by each kernel: parts that not all ranks have, and more than a tile of them. */
START_TEST(right_many)
{
    const char *device = world_device[_i];
    if (!strncmp(device, "nvidia", 6))
        return;
    for (int ranks = 4; ranks <= 8; ranks *= 2) {
        struct world w;
        world_open(&w, device, ranks, 20000);
        for (int op = 0; op < COMM_OPS; op++)
            for (int i = 0; i < 4; i++) {
                struct comm_way way = { { i & 1, i >> 1, 128, 1 }, 0 };
                struct rfg_problem prob = { .op = comm_ops[op], .v = { [COMM_RANKS] = ranks } };
                struct rfg_reason why;
                if (!strcmp(device, "cpu")
                        ? i
                        : !rfg_variant_check(&comm_push, rfg_context_info(w.ctx[0]), &prob, way.p, &why))
                    continue;
                const int64_t n = op == COMM_OP_REDUCE ? i == 3 ? ranks * 1024 + 9 : 8 * (ranks - 1) : 300;
                struct job j = { (enum comm_op)op, dtypes[(op + i) % 3], n, i, 0, false, 2, 0, &way, NULL };
                run_job(&w, &j, NULL);
            }
        world_close(&w);
    }
}
END_TEST

/* The kernels that are chosen for some size, as they are chosen: a message of a tile and more. */
START_TEST(right_choices)
{
    const char *device = world_device[_i];
    struct comm_way way;
    if (!strcmp(device, "cpu"))
        return;
    for (int ranks = 2; ranks <= 3; ranks++) {
        struct world w;
        world_open(&w, device, ranks, 20000);
        for (int op = 0; op < COMM_OPS; op++)
            for (int size = 0, last = -1; size < COMM_SIZES; size++) {
                const struct rfg_problem prob = comm_problem((enum comm_op)op, ranks, size);
                const int was = last;
                comm_choose(rfg_context_info(w.ctx[0]), &prob, &way);
                last = (int)XXH32(way.p, sizeof(way.p), 0);
                if (last == was)
                    continue;
                struct job j = {
                    (enum comm_op)op, RFG_BF16, way.p[COMM_P_BULK] ? 40007 : 3001, 0, 0, false, 2, 0, &way, NULL
                };
                run_job(&w, &j, NULL);
            }
        world_close(&w);
    }
}
END_TEST

/* More than one launch takes. */
START_TEST(right_large)
{
    struct world w;
    if (world_is_emulated(world_device[_i]) || !strcmp(world_device[_i], "cpu"))
        return;
    world_open(&w, world_device[_i], 2, 20000);
    for (int op = 0; op < COMM_OPS; op++) {
        struct job j = {
            (enum comm_op)op, RFG_BF16, (COMM_BULK / 2 + 1000) / (op ? 2 : 1) + 1, 0, 0, false, 1, 0, NULL, NULL
        };
        run_job(&w, &j, NULL);
    }
    world_close(&w);
}
END_TEST

START_TEST(right_graphs)
{
    const char *device = world_device[_i];
    struct world w;
    const bool nvidia = !strncmp(device, "nvidia", 6);
    world_open(&w, device, 2, 20000);
    static const int64_t sizes[] = { 61, 4099, 300000 };
    for (int s = 0; s < (nvidia ? 3 : 2); s++)
        for (int op = 0; op < COMM_OPS; op++) {
            if (world_is_emulated(device) && op != s)
                continue;
            struct job j = {
                (enum comm_op)op, RFG_BF16, sizes[s], 0, 0, false, 3, world_is_emulated(device) ? 2 : 100, NULL, NULL
            };
            run_job(&w, &j, NULL);
        }
    world_close(&w);
}
END_TEST

/* Rank 0 never comes. */
START_TEST(says_who_did_not_come)
{
    struct world w;
    struct rank k[WORLD_MOST];
    struct job j = { COMM_OP_REDUCE, RFG_BF16, 300, 0, 0, false, 1, 0, NULL, NULL };
    for (int large = 0; large < 2; large++) {
        j.n = large ? 400000 : 300;
        if (large && world_is_emulated(world_device[_i]))
            break;
        world_open(&w, world_device[_i], 2, 100);
        double begin = rfg_now();
        start(&w, &j, k, 1);
        finish(&w, k, 1);
        ck_assert_int_eq(k[1].status, RFG_ERROR_DEVICE);
        ck_assert_msg(strstr(k[1].error, "rank 0 did not come within 100 ms to a call of rank 1"), "%s", k[1].error);
        ck_assert_msg(rfg_now() - begin < 30, "%g s", rfg_now() - begin);
        rfg_tensor t = rfg_tensor_1d(k[1].y, RFG_BF16, 8);
        ck_assert_int_eq(rfg_op_all_reduce(w.comm[1], &t, &t, NULL), RFG_ERROR_DEVICE);
        ck_assert(strstr(rfg_last_error(), "rfg_op_all_reduce: the communicator is broken: rank 0"));
        ck_assert_int_eq(rfg_comm_check(w.comm[0]), RFG_OK);
        free_ranks(&w, k);
        world_close(&w);
    }
    world_open(&w, world_device[_i], 2, 20000);
    run_job(&w, &j, NULL);
    world_close(&w);
}
END_TEST

/* ---- which kernel ------------------------------------------------------------------------------------------------ */

/* A database with one row: messages of 4 KiB by packets of so many threads. */
static void write_row(const char *path, const struct rfg_device *dev, int threads)
{
    const int p[] = { 0, COMM_BY_PACKETS, threads, 1 };
    struct rfg_row row = { .problem = comm_problem(COMM_OP_REDUCE, 2, 2),
                           .cu_count = dev->cu_count,
                           .median_us = 1,
                           .samples = 3,
                           .error_bound = 1,
                           .how = RFG_SOURCE_MEASURED };
    struct rfg_db *db;
    ck_assert_int_eq(row.problem.v[COMM_BYTES], 4096);
    snprintf(row.arch, sizeof(row.arch), "%s", dev->arch);
    rfg_row_set_config(&row, &comm_push, p, false);
    rfg_date(row.date);
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_put(db, &row) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

/* Rows choose where all ranks have the same; else the model does, on all of them. */
START_TEST(rows_choose)
{
    static const int threads[][2] = { { 512, 512 }, { 512, 256 } };
    for (int i = 0; i < 2; i++) {
        struct rfg_tempdir dir;
        rfg_comm_handle handles[2];
        rfg_context *ctx[2];
        rfg_comm *comm[2];
        struct comm_way model;
        char path[300];
        ck_assert(rfg_tempdir_make(&dir, "comm"));
        for (int r = 0; r < 2; r++) {
            rfg_context_params p = { .size = sizeof(p), .device = "emu:gfx942:4", .user_db = path, .system_db = "" };
            struct rfg_device dev;
            snprintf(path, sizeof(path), "%s/%d.db", dir.path, r);
            ck_assert(rfg_device_imagine(&dev, "gfx942:4"));
            snprintf(dev.arch, sizeof(dev.arch), "emu-gfx942");
            write_row(path, &dev, threads[i][r]);
            ck_assert_msg(rfg_context_create(&ctx[r], &p) == RFG_OK, "%s", rfg_last_error());
            ck_assert_int_eq(rfg_comm_create(&comm[r], ctx[r], r, 2, NULL), RFG_OK);
            ck_assert_int_eq(rfg_comm_way(comm[r], COMM_OP_REDUCE, 3000)->p[COMM_P_THREADS], threads[i][r]);
            ck_assert_int_eq(rfg_comm_get_handle(comm[r], &handles[r]), RFG_OK);
        }
        const struct rfg_problem prob = comm_problem(COMM_OP_REDUCE, 2, comm_size_of(3000));
        comm_choose(rfg_context_info(ctx[0]), &prob, &model);
        for (int r = 0; r < 2; r++) {
            ck_assert_msg(rfg_comm_connect(comm[r], handles) == RFG_OK, "%s", rfg_last_error());
            ck_assert_int_eq(rfg_comm_way(comm[r], COMM_OP_REDUCE, 3000)->p[COMM_P_THREADS],
                             i ? model.p[COMM_P_THREADS] : 512);
        }
        ck_assert_int_eq(rfg_prepare(ctx[0], "all_reduce bf16->bf16 bytes=4096 ranks=2"), RFG_ERROR_INVALID_ARGUMENT);
        ck_assert_msg(strstr(rfg_last_error(), "is of several devices"), "%s", rfg_last_error());
        for (int r = 0; r < 2; r++) {
            rfg_comm_destroy(&comm[r]);
            rfg_context_destroy(&ctx[r]);
        }
        rfg_tempdir_remove(&dir);
    }
}
END_TEST

START_TEST(sizes_of_messages)
{
    ck_assert_int_eq(comm_size_of(1), 0);
    ck_assert_int_eq(comm_size_of(COMM_LEAST), 0);
    ck_assert_int_eq(comm_size_of(COMM_LEAST + 1), 1);
    ck_assert_int_eq(comm_size_of(4 * COMM_LEAST), 2);
    ck_assert_int_eq(comm_size_of(INT64_MAX), COMM_SIZES - 1);
}
END_TEST

/* ---- broken twins ------------------------------------------------------------------------------------------------ */

/* comm.hip's BREAK: no release, no acquire, the flag before the data, data before its flag. (4, one window instead of two, isn't seen: the
 * emulator's joint launches end together.) */
static int broken_how;
static void broken_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          struct rfg_kernel *k)
{
    comm_push.kernel(dev, prob, p, k);
    rfg_kernel_macro(k, "BREAK", broken_how);
}

static const struct {
    const char *device;
    int how;
    const char *says; /* of the report */
} twins[] = {
    { "emu:gfx942:4", 2, "no invalidate since the acquire" }, { "emu:gfx942:4", 3, "it had not been waited for" },
    { "emu:gfx90a:4", 3, "it had not been waited for" },      { "emu:gfx1100:4", 1, "it had not been waited for" },
    { "emu:gfx1100:4", 3, "it had not been waited for" },     { "emu:gfx942:4", 5, "nothing orders the two" },
    { "emu:gfx1100:4", 5, "nothing orders the two" },
};

START_TEST(broken_twins)
{
    struct rfg_variant twin = comm_push;
    struct world w;
    struct rank k[WORLD_MOST];
    char last[600];
    twin.kernel = broken_kernel;
    for (int op = 0; op < COMM_OPS; op++) {
        struct comm_way way = { { op == COMM_OP_REDUCE, 1, 128, 1 }, 0 };
        struct job j = { (enum comm_op)op, RFG_BF16, 5000, 0, 0, false, 1, 0, &way, &comm_push };
        world_open(&w, twins[_i].device, 2, 1000);
        emu_reports_clear();
        run_job(&w, &j, NULL);
        ck_assert_int_eq(emu_reports(NULL), 0);
        broken_how = twins[_i].how;
        j.var = &twin;
        start(&w, &j, k, 0);
        finish(&w, k, 0);
        emu_reports_last(last, sizeof(last));
        ck_assert_msg(emu_reports("global-race") > 0, "%s BREAK=%d of %s: not seen", twins[_i].device, broken_how,
                      names[op]);
        ck_assert_msg(strstr(last, " of rank ") && strstr(last, twins[_i].says), "BREAK=%d: %s", broken_how, last);
        emu_reports_clear();
        free_ranks(&w, k);
        world_close(&w);
    }
}
END_TEST

/* Every kernel that a communicator chooses, for each kind of architecture that this machine compiles for. */
static const char *const archs[] = { "gfx90a", "gfx942", "gfx1100", "gfx1201", "sm_90" };

START_TEST(compiles)
{
    struct rfg_device dev;
    struct comm_way way;
    struct rfg_reason why;
    int n = 0;
    ck_assert(rfg_device_imagine(&dev, archs[_i]));
    const struct rfg_jit_provider *prov = rfg_jit_provider_for(dev.target);
    if (!prov) {
        printf("SKIPPED: nothing compiles for %s\n", dev.target);
        return;
    }
    for (int ranks = 2; ranks <= 8; ranks *= 2)
        for (int op = 0; op < COMM_OPS; op++) {
            struct rfg_problem prob = { .op = comm_ops[op], .v = { [COMM_RANKS] = ranks } };
            for (int size = 0, last = -1; size < COMM_SIZES; size++) {
                const struct rfg_problem message = comm_problem((enum comm_op)op, ranks, size);
                const int was = last;
                comm_choose(&dev, &message, &way);
                last = (int)XXH32(way.p, sizeof(way.p), 0);
                if (last == was)
                    continue;
                n++;
                prob.dtype[0] = prob.dtype[1] = (uint8_t)dtypes[n % 3];
                world_compile(&dev, prov, &prob, &comm_push, way.p);
            }
            for (int two = 0; two < 2; two++)
                for (int unroll = 1; unroll <= 8 / ranks; unroll *= 2) {
                    const int p[] = { two, COMM_BY_LINES, 512, unroll };
                    if (rfg_variant_check(&comm_push, &dev, &prob, p, &why))
                        world_compile(&dev, prov, &prob, &comm_push, p);
                }
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("comm");
    world_read_devices();
    TCase *tc = test_case(s, "right_sizes", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, right_sizes);
    tc = test_case(s, "right_ways", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, right_ways);
    tc = test_case(s, "right_many", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, right_many);
    tc = test_case(s, "right_choices", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, right_choices);
    tc = test_case(s, "right_large", NULL, NULL);
    ADD_LOOPS(tc, world_devices, right_large);
    tc = test_case(s, "right_graphs", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, right_graphs);
    tc = test_case(s, "says_who_did_not_come", NULL, NULL);
    ADD_LOOPS(tc, world_devices, says_who_did_not_come);
    tc = test_case(s, "rows_choose", NULL, NULL);
    ADD_TESTS(tc, rows_choose, sizes_of_messages);
    tc = test_case(s, "broken_twins", NULL, NULL);
    for (int i = 0; i < world_devices; i++)
        if (world_is_emulated(world_device[i])) {
            ADD_LOOPS(tc, sizeof(twins) / sizeof(twins[0]), broken_twins);
            break;
        }
    tc = slow_case(s, "compiles", "compile", NULL, NULL);
    ADD_LOOPS(tc, sizeof(archs) / sizeof(archs[0]), compiles);
    return run_suite(s);
}
