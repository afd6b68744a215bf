/* SPDX-License-Identifier: MIT
 *
 * Collectives in a graph that is replayed again and again beside a stream that keeps the GPU busy: the same bits after
 * 10^5 replays on GPUs, after some on the others. Each call's sum is the next one's summand, and after four calls the
 * sum is the first again: one value that came late, or was left from an earlier call, stays wrong. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/util.h"
#include "comm_world.h"
#include "dispatch/context.h"
#include "tests/op_cases.h"
#include "tests/suite.h"

#define CALLS   4
#define COLUMNS 1024 /* of the norm */
#define ROWS    1024 /* of the neighbour's work, of 8192 */

struct busy {
    struct world *w;
    rfg_stream stream[2];
    rfg_graph *graph[2];
    void *memory[2];
    pthread_t thread;
    int stop;
};

/* What the ranks have: the sum, and what they add to it. */
enum { RUN, RUN_OUT, ADDED, TENSORS = ADDED + CALLS };
struct rank {
    char *memory[TENSORS];
};

static void must(rfg_status st)
{
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
}

/* ---- the neighbour ----------------------------------------------------------------------------------------------- */

static void *keep_busy(void *arg)
{
    struct busy *b = arg;
    while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE))
        for (int r = 0; r < 2; r++)
            if (rfg_graph_replay(b->w->ctx[r], b->graph[r], b->stream[r]) != RFG_OK ||
                rfg_stream_sync(b->w->ctx[r], b->stream[r]) != RFG_OK)
                return "failed";
    return NULL;
}

static void start_busy(struct busy *b, struct world *w)
{
    *b = (struct busy){ .w = w };
    for (int r = 0; r < 2; r++) {
        must(rfg_stream_create(w->ctx[r], &b->stream[r]));
        must(rfg_device_alloc(w->ctx[r], &b->memory[r], (size_t)ROWS * 8192 * 2));
        must(rfg_device_memset(w->ctx[r], b->memory[r], 0, (size_t)ROWS * 8192 * 2, b->stream[r]));
        rfg_tensor x = rfg_tensor_2d(b->memory[r], RFG_BF16, ROWS, 8192, 8192);
        must(rfg_op_rmsnorm(w->ctx[r], &x, &x, NULL, NULL, b->stream[r]));
        must(rfg_stream_begin_capture(w->ctx[r], b->stream[r]));
        for (int i = 0; i < 10; i++)
            must(rfg_op_rmsnorm(w->ctx[r], &x, &x, NULL, NULL, b->stream[r]));
        must(rfg_stream_end_capture(w->ctx[r], b->stream[r], &b->graph[r]));
    }
    ck_assert(!pthread_create(&b->thread, NULL, keep_busy, b));
}

static void end_busy(struct busy *b)
{
    void *failed;
    __atomic_store_n(&b->stop, 1, __ATOMIC_RELEASE);
    pthread_join(b->thread, &failed);
    ck_assert_ptr_null(failed);
    for (int r = 0; r < 2; r++) {
        must(rfg_graph_destroy(b->w->ctx[r], &b->graph[r]));
        must(rfg_device_free(b->w->ctx[r], b->memory[r]));
        rfg_stream_destroy(b->w->ctx[r], &b->stream[r]);
    }
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */

struct job {
    struct world *w;
    struct rank rank[2];
    int64_t n;
    bool norm;
    int replays;
    uint16_t *host[2][TENSORS];
};

/* Whole numbers, which bf16 adds exactly. The third call takes back what the first one added, the fourth the second. */
static void fill(struct job *j, int rank)
{
    uint64_t seed = (uint64_t)rank + 5;
    for (int t = 0; t < TENSORS; t++)
        ck_assert((j->host[rank][t] = malloc((size_t)j->n * 2)) != NULL);
    for (int64_t i = 0; i < j->n; i++) {
        uint64_t same = (uint64_t)i; /* all ranks begin with the same */
        rfg_store(j->host[rank][RUN], RFG_BF16, i, (double)(rfg_random(&same) % 17) - 8);
        rfg_store(j->host[rank][RUN_OUT], RFG_BF16, i, 0);
        for (int c = 0; c < 2; c++) {
            double v = (double)(rfg_random(&seed) % 8) + 1;
            rfg_store(j->host[rank][ADDED + c], RFG_BF16, i, v);
            rfg_store(j->host[rank][ADDED + c + 2], RFG_BF16, i, -v);
        }
    }
    /* By turns a rank adds, and the other has the sum: what either sends changes from call to call. */
    for (int c = 0; c < CALLS && !j->norm; c++)
        for (int64_t i = 0; i < j->n; i++) {
            uint64_t both = (uint64_t)(i * 2 + c % 2);
            double v = (double)(rfg_random(&both) % 8) + 1;
            rfg_store(j->host[rank][ADDED + c], RFG_BF16, i, c < 2 ? v : -v);
        }
}

static rfg_status calls(struct job *j, int rank)
{
    struct world *w = j->w;
    const int64_t rows = j->n / COLUMNS;
    rfg_tensor t[TENSORS];
    rfg_status st = RFG_OK;
    for (int i = 0; i < TENSORS; i++)
        t[i] = j->norm ? rfg_tensor_2d(j->rank[rank].memory[i], RFG_BF16, rows, COLUMNS, COLUMNS)
                       : rfg_tensor_1d(j->rank[rank].memory[i], RFG_BF16, j->n);
    for (int c = 0; c < CALLS && st == RFG_OK; c++)
        st = j->norm
                 ? rfg_op_all_reduce_add_rmsnorm(w->comm[rank], &t[RUN_OUT], &t[RUN], &t[ADDED + c], &t[RUN], NULL,
                                                 NULL, w->stream[rank])
                 : rfg_op_all_reduce(w->comm[rank], &t[RUN], c % 2 == rank ? &t[RUN] : &t[ADDED + c], w->stream[rank]);
    return st;
}

struct call_once {
    struct job *j;
    int rank, replays;
    rfg_graph *graph;
    rfg_status status;
    char error[300];
};

/* On cpu and emulated GPUs a call waits for the other rank's. */
static void *run_rank(void *arg)
{
    struct call_once *o = arg;
    struct world *w = o->j->w;
    rfg_context *ctx = w->ctx[o->rank];
    rfg_stream s = w->stream[o->rank];
    rfg_status st = rfg_stream_begin_capture(ctx, s);
    if (st == RFG_OK) {
        st = calls(o->j, o->rank);
        rfg_status end = rfg_stream_end_capture(ctx, s, &o->graph);
        st = st == RFG_OK ? end : st;
    }
    for (int i = 0; i < o->replays && st == RFG_OK; i++) {
        st = rfg_graph_replay(ctx, o->graph, s);
        if (st == RFG_OK && i % 1000 == 999)
            st = rfg_stream_sync(ctx, s);
    }
    rfg_status sync = rfg_stream_sync(ctx, s);
    st = st == RFG_OK ? sync : st;
    st = st == RFG_OK ? rfg_comm_check(w->comm[o->rank]) : st;
    snprintf(o->error, sizeof(o->error), "%s", rfg_last_error());
    o->status = st;
    return NULL;
}

static void run_both(struct job *j, int replays)
{
    struct call_once once[2];
    pthread_t thread[2];
    for (int r = 0; r < 2; r++) {
        once[r] = (struct call_once){ .j = j, .rank = r, .replays = replays };
        ck_assert(!pthread_create(&thread[r], NULL, run_rank, &once[r]));
    }
    for (int r = 0; r < 2; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < 2; r++) {
        ck_assert_msg(once[r].status == RFG_OK, "rank %d: %s", r, once[r].error);
        must(rfg_graph_destroy(j->w->ctx[r], &once[r].graph));
    }
}

static void read_back(struct job *j, int t, uint16_t *got[2])
{
    for (int r = 0; r < 2; r++) {
        ck_assert((got[r] = malloc((size_t)j->n * 2)) != NULL);
        must(rfg_device_copy(j->w->ctx[r], got[r], j->rank[r].memory[t], (size_t)j->n * 2, RFG_DEVICE_TO_HOST,
                             j->w->stream[r]));
        must(rfg_stream_sync(j->w->ctx[r], j->w->stream[r]));
    }
}

/* The kernels are loaded before a capture; on GPUs no call waits for the other rank's. */
static void *load_rank(void *arg)
{
    struct call_once *o = arg;
    o->status = calls(o->j, o->rank);
    snprintf(o->error, sizeof(o->error), "%s", rfg_last_error());
    return NULL;
}

static void load(struct job *j)
{
    struct call_once once[2];
    pthread_t thread[2];
    for (int r = 0; r < 2; r++) {
        once[r] = (struct call_once){ .j = j, .rank = r };
        ck_assert(!pthread_create(&thread[r], NULL, load_rank, &once[r]));
    }
    for (int r = 0; r < 2; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < 2; r++) {
        ck_assert_msg(once[r].status == RFG_OK, "rank %d: %s", r, once[r].error);
        must(rfg_stream_sync(j->w->ctx[r], j->w->stream[r]));
    }
}

static void check(struct job *j, uint16_t *first[2], const char *what)
{
    uint16_t *run[2], *out[2];
    read_back(j, RUN, run);
    read_back(j, RUN_OUT, out);
    for (int r = 0; r < 2; r++)
        for (int64_t i = 0; i < j->n; i++) {
            ck_assert_msg(run[r][i] == j->host[r][RUN][i], "%s rank %d element %ld: %g, must be %g", what, r, (long)i,
                          rfg_load(run[r], RFG_BF16, i), rfg_load(j->host[r][RUN], RFG_BF16, i));
            ck_assert_msg(out[r][i] == first[r][i] && out[r][i] == out[0][i], "%s rank %d result %ld: %g, was %g", what,
                          r, (long)i, rfg_load(out[r], RFG_BF16, i), rfg_load(first[r], RFG_BF16, i));
        }
    for (int r = 0; r < 2; r++) {
        free(run[r]);
        free(out[r]);
    }
}

static void run_job(struct job *j, const char *what, bool neighbour)
{
    uint16_t *first[2];
    struct busy busy;
    for (int r = 0; r < 2; r++) {
        fill(j, r);
        for (int t = 0; t < TENSORS; t++) {
            must(rfg_device_alloc(j->w->ctx[r], (void **)&j->rank[r].memory[t], (size_t)j->n * 2));
            must(rfg_device_copy(j->w->ctx[r], j->rank[r].memory[t], j->host[r][t], (size_t)j->n * 2,
                                 RFG_HOST_TO_DEVICE, j->w->stream[r]));
        }
        must(rfg_stream_sync(j->w->ctx[r], j->w->stream[r]));
    }
    load(j);
    read_back(j, RUN_OUT, first);
    if (neighbour)
        start_busy(&busy, j->w);
    double begin = rfg_now();
    run_both(j, j->replays);
    printf("%s, %d replays of %d calls, %ld bytes: %.2f s\n", what, j->replays, CALLS, (long)j->n * 2,
           rfg_now() - begin);
    if (neighbour)
        end_busy(&busy);
    check(j, first, what);
    for (int r = 0; r < 2; r++) {
        free(first[r]);
        for (int t = 0; t < TENSORS; t++) {
            free(j->host[r][t]);
            must(rfg_device_free(j->w->ctx[r], j->rank[r].memory[t]));
        }
    }
}

START_TEST(same_bits)
{
    const char *device = world_device[_i];
    const bool gpu = !strncmp(device, "nvidia", 6) || !strncmp(device, "amd", 3);
    const int replays = gpu ? 100000 : world_is_emulated(device) ? 2 : 1000;
    struct world w;
    world_open(&w, device, 2, 20000);
    if (gpu && rfg_context_ordinal(w.ctx[0]) == rfg_context_ordinal(w.ctx[1])) {
        printf("SKIPPED: one GPU: a kernel may not be loaded there behind one that waits\n");
        world_close(&w);
        return;
    }
    struct job jobs[] = { { &w, .n = 4096, .replays = replays },
                          { &w, .n = 4 * COLUMNS, .norm = true, .replays = replays },
                          { &w, .n = gpu ? 1 << 19 : 60000, .replays = replays > 10 ? replays / 10 : 1 } };
    for (int i = 0; i < 3; i++)
        run_job(&jobs[i], jobs[i].norm ? "all_reduce_add_rmsnorm" : "all_reduce", gpu);
    world_close(&w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("comm_long");
    world_read_devices();
    TCase *tc = test_case(s, "same_bits", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, same_bits);
    return run_suite(s);
}
