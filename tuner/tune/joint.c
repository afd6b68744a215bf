/* SPDX-License-Identifier: MIT
 *
 * What measures collectives, for measure.c: all ranks of a communicator, in one process, each on a GPU of its own if
 * there are so many, else on one. Each has a thread, since on cpu and emulated GPUs a call waits for the other ranks'.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dispatch/comm.h"
#include "rfg/device.h"
#include "tune.h"

#define CALLS   40 /* of a graph */
#define TIMEOUT 10000
#define MOST    16 /* candidates of a race */

#define MAX(a, b) ((a) > (b) ? (a) : (b))

struct tune_joint {
    enum comm_op op;
    int ranks;
    int64_t n; /* elements of an all-reduce, of a rank's part else */
    rfg_context *ctx[COMM_MAX_RANKS];
    bool own[COMM_MAX_RANKS]; /* contexts made here */
    rfg_comm *comm[COMM_MAX_RANKS];
    rfg_stream stream[COMM_MAX_RANKS];
    void *x[COMM_MAX_RANKS], *y[COMM_MAX_RANKS];
    bool events; /* of the runtime; else the host's clock */
    /* a race */
    pthread_barrier_t step;
    const struct rfg_choice *c;
    int n_c, rounds;
    double until;
    bool over;
    struct rfg_times *out;
    rfg_status status;
    char error[300];
    pthread_mutex_t lock;
};

struct rank {
    struct tune_joint *j;
    int rank;
};

static int64_t elements(const struct tune_joint *j, bool output)
{
    return j->n * (j->op == (output ? COMM_OP_GATHER : COMM_OP_SCATTER) ? j->ranks : 1);
}

/* ---- the ranks --------------------------------------------------------------------------------------------------- */

/* "nvidia:1" behind "nvidia:0", if there is one. */
static rfg_status open_rank(struct tune_joint *j, int rank, const char *cache)
{
    char name[40];
    const struct rfg_device *dev = rfg_context_info(j->ctx[0]);
    rfg_context_params p = {
        .size = sizeof(p), .device = name, .user_db = "", .system_db = "", .cache_dir = cache, .misses = -1, .pack = ""
    };
    snprintf(name, sizeof(name), "%s", dev->name);
    char *colon = strrchr(name, ':');
    if (dev->platform != RFG_PLATFORM_EMU && colon) {
        int first = atoi(colon + 1);
        snprintf(colon + 1, (size_t)(name + sizeof(name) - colon - 1), "%d", first + rank);
    }
    if (rfg_context_create(&j->ctx[rank], &p) != RFG_OK) {
        snprintf(name, sizeof(name), "%s", dev->name);
        rfg_status st = rfg_context_create(&j->ctx[rank], &p);
        if (st != RFG_OK)
            return st;
    }
    j->own[rank] = true;
    return RFG_OK;
}

/* Small whole numbers, whose sums bf16 has. */
static double value(int rank, int64_t i)
{
    return (double)((i * 7 + rank * 3) % 17) - 8;
}

static rfg_status fill(struct tune_joint *j, int rank)
{
    const int64_t nx = elements(j, false), ny = elements(j, true);
    uint16_t *x = malloc((size_t)nx * 2);
    rfg_context *ctx = j->ctx[rank];
    if (!x)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a rank's data");
    for (int64_t i = 0; i < nx; i++)
        rfg_store(x, RFG_BF16, i, value(rank, i));
    rfg_status st = rfg_device_alloc(ctx, &j->x[rank], (size_t)nx * 2);
    if (st == RFG_OK)
        st = rfg_device_alloc(ctx, &j->y[rank], (size_t)ny * 2);
    if (st == RFG_OK)
        st = rfg_device_copy(ctx, j->x[rank], x, (size_t)nx * 2, RFG_HOST_TO_DEVICE, j->stream[rank]);
    if (st == RFG_OK)
        st = rfg_stream_sync(ctx, j->stream[rank]);
    free(x);
    return st;
}

void tune_joint_destroy(struct tune_joint **joint)
{
    struct tune_joint *j = *joint;
    *joint = NULL;
    if (!j)
        return;
    for (int r = 0; r < j->ranks; r++)
        if (j->ctx[r] && j->stream[r] && rfg_stream_sync(j->ctx[r], j->stream[r]) != RFG_OK)
            return; /* the process ends, too */
    for (int r = 0; r < j->ranks && j->ctx[r]; r++) {
        (void)rfg_device_free(j->ctx[r], j->x[r]);
        (void)rfg_device_free(j->ctx[r], j->y[r]);
        rfg_comm_destroy(&j->comm[r]);
        rfg_stream_destroy(j->ctx[r], &j->stream[r]);
        if (j->own[r])
            rfg_context_destroy(&j->ctx[r]);
    }
    pthread_mutex_destroy(&j->lock);
    free(j);
}

rfg_status tune_joint_create(struct tune_joint **joint, rfg_context *ctx, const char *cache,
                             const struct rfg_problem *prob)
{
    rfg_comm_handle handles[COMM_MAX_RANKS];
    rfg_comm_params p = { .size = sizeof(p), .timeout_ms = TIMEOUT };
    struct tune_joint *j = calloc(1, sizeof(*j));
    rfg_status st = RFG_OK;
    *joint = j;
    if (!j)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a communicator");
    pthread_mutex_init(&j->lock, NULL);
    while (comm_ops[j->op] != prob->op)
        j->op++;
    j->ranks = (int)prob->v[COMM_RANKS];
    j->n = MAX(prob->v[COMM_BYTES] / 2, 1);
    j->ctx[0] = ctx;
    const enum rfg_platform platform = rfg_context_info(ctx)->platform;
    j->events = platform == RFG_PLATFORM_NVIDIA || platform == RFG_PLATFORM_AMD;
    for (int r = 0; r < j->ranks && st == RFG_OK; r++) {
        st = r ? open_rank(j, r, cache) : RFG_OK;
        if (st == RFG_OK && (st = rfg_comm_create(&j->comm[r], j->ctx[r], r, j->ranks, &p)) == RFG_OK)
            st = rfg_comm_get_handle(j->comm[r], &handles[r]);
        if (st == RFG_OK && (st = rfg_stream_create(j->ctx[r], &j->stream[r])) == RFG_OK)
            st = fill(j, r);
    }
    for (int r = 0; r < j->ranks && st == RFG_OK; r++)
        st = rfg_comm_connect(j->comm[r], handles);
    return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void fail(struct tune_joint *j, rfg_status st)
{
    pthread_mutex_lock(&j->lock);
    if (st != RFG_OK && j->status == RFG_OK) {
        j->status = st;
        snprintf(j->error, sizeof(j->error), "%s", rfg_last_error());
    }
    pthread_mutex_unlock(&j->lock);
}

static rfg_status call(const struct tune_joint *j, int rank)
{
    static rfg_status (*const ops[])(rfg_comm *, const rfg_tensor *, const rfg_tensor *,
                                     rfg_stream) = { rfg_op_all_reduce, rfg_op_reduce_scatter, rfg_op_all_gather };
    rfg_tensor x = rfg_tensor_1d(j->x[rank], RFG_BF16, elements(j, false)),
               y = rfg_tensor_1d(j->y[rank], RFG_BF16, elements(j, true));
    return ops[j->op](j->comm[rank], &y, &x, j->stream[rank]);
}

static void force(const struct tune_joint *j, int rank, const struct rfg_choice *c)
{
    struct comm_way way = { .groups = 0 };
    memcpy(way.p, c->params, sizeof(way.p));
    rfg_comm_force(j->comm[rank], &way, NULL);
}

/* Loading may wait for a GPU, whose kernel may wait for us: all load before any calls. */
static bool load(struct rank *k, const struct rfg_choice *c)
{
    struct tune_joint *j = k->j;
    force(j, k->rank, c);
    fail(j, rfg_comm_load(j->comm[k->rank], j->op, RFG_BF16, j->n));
    pthread_barrier_wait(&j->step);
    bool ready = j->status == RFG_OK;
    pthread_barrier_wait(&j->step); /* all have looked */
    return ready;
}

/* ---- a check ----------------------------------------------------------------------------------------------------- */

static void *check_rank(void *arg)
{
    struct rank *k = arg;
    struct tune_joint *j = k->j;
    rfg_context *ctx = j->ctx[k->rank];
    if (load(k, j->c)) {
        rfg_status st = call(j, k->rank), sync = rfg_stream_sync(ctx, j->stream[k->rank]);
        fail(j, st == RFG_OK ? sync : st);
        fail(j, rfg_comm_check(j->comm[k->rank]));
    }
    return NULL;
}

static double expected(const struct tune_joint *j, int rank, int64_t i)
{
    double sum = 0;
    if (j->op == COMM_OP_GATHER)
        return value((int)(i / j->n), i % j->n);
    for (int r = 0; r < j->ranks; r++)
        sum += value(r, i + (j->op == COMM_OP_SCATTER ? rank * j->n : 0));
    return sum;
}

static rfg_status compare(const struct tune_joint *j, int rank, char *wrong, size_t size)
{
    const int64_t n = elements(j, true), step = 1 + n / 1000000;
    uint16_t *y = malloc((size_t)n * 2);
    if (!y)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a rank's results");
    rfg_status st = rfg_device_copy(j->ctx[rank], y, j->y[rank], (size_t)n * 2, RFG_DEVICE_TO_HOST, j->stream[rank]);
    if (st == RFG_OK)
        st = rfg_stream_sync(j->ctx[rank], j->stream[rank]);
    for (int64_t i = 0; st == RFG_OK && i < n && !*wrong; i += step)
        if (rfg_load(y, RFG_BF16, i) != expected(j, rank, i))
            snprintf(wrong, size, "rank %d element %lld: %g, must be %g", rank, (long long)i, rfg_load(y, RFG_BF16, i),
                     expected(j, rank, i));
    free(y);
    return st;
}

/* Runs f on all ranks, a thread each. */
static rfg_status on_all(struct tune_joint *j, void *(*f)(void *))
{
    pthread_t thread[COMM_MAX_RANKS];
    struct rank k[COMM_MAX_RANKS];
    j->status = RFG_OK;
    pthread_barrier_init(&j->step, NULL, (unsigned)j->ranks);
    for (int r = 0; r < j->ranks; r++) {
        k[r] = (struct rank){ j, r };
        if (pthread_create(&thread[r], NULL, f, &k[r]))
            abort(); /* the others would wait for it; our parent goes on */
    }
    for (int r = 0; r < j->ranks; r++)
        pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&j->step);
    return j->status == RFG_OK ? RFG_OK : rfg_fail(j->status, "%s", j->error);
}

rfg_status tune_joint_check(struct tune_joint *j, const struct rfg_choice *c, char *wrong, size_t size)
{
    rfg_status st = RFG_OK;
    *wrong = 0;
    for (int r = 0; r < j->ranks && st == RFG_OK; r++)
        st = rfg_device_memset(j->ctx[r], j->y[r], 0x5a, (size_t)elements(j, true) * 2, j->stream[r]);
    for (int r = 0; r < j->ranks && st == RFG_OK; r++)
        st = rfg_stream_sync(j->ctx[r], j->stream[r]);
    j->c = c;
    if (st == RFG_OK)
        st = on_all(j, check_rank);
    for (int r = 0; r < j->ranks && st == RFG_OK; r++)
        st = compare(j, r, wrong, size);
    return st;
}

/* ---- a race ------------------------------------------------------------------------------------------------------ */

static rfg_status capture(struct rank *k, rfg_graph **graph)
{
    struct tune_joint *j = k->j;
    rfg_context *ctx = j->ctx[k->rank];
    rfg_status st = rfg_stream_begin_capture(ctx, j->stream[k->rank]);
    if (st != RFG_OK)
        return st;
    for (int i = 0; i < CALLS && st == RFG_OK; i++)
        st = call(j, k->rank);
    rfg_status end = rfg_stream_end_capture(ctx, j->stream[k->rank], graph);
    return st == RFG_OK ? end : st;
}

/* us of a call. On GPUs one replay more before and after, so that the ranks are in step between the events. */
static rfg_status sample(struct rank *k, rfg_graph *graph, hipEvent_t *event, double *us)
{
    struct tune_joint *j = k->j;
    rfg_context *ctx = j->ctx[k->rank];
    hipStream_t s = (hipStream_t)j->stream[k->rank];
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    const bool timed = j->events && k->rank == 0;
    rfg_status st = RFG_OK;
    double begin = rfg_now();
    for (int g = j->events ? 0 : 1; g < (j->events ? 3 : 2) && st == RFG_OK; g++) {
        if (timed && g == 1)
            (void)hip->hipEventRecord(event[0], s);
        st = rfg_graph_replay(ctx, graph, j->stream[k->rank]);
        if (timed && g == 1)
            (void)hip->hipEventRecord(event[1], s);
    }
    rfg_status sync = rfg_stream_sync(ctx, j->stream[k->rank]);
    float ms = (float)((rfg_now() - begin) * 1e3);
    if (timed)
        (void)hip->hipEventElapsedTime(&ms, event[0], event[1]);
    *us = (double)ms * 1e3 / CALLS;
    return st == RFG_OK ? sync : st;
}

/* Rank 0 says when it is over, between two barriers. */
static void take_samples(struct rank *k, rfg_graph **graph, hipEvent_t *event)
{
    struct tune_joint *j = k->j;
    for (int round = 0;; round++) {
        pthread_barrier_wait(&j->step);
        if (k->rank == 0)
            j->over = j->status != RFG_OK || round >= j->rounds || (round >= 3 && rfg_now() > j->until);
        pthread_barrier_wait(&j->step);
        if (j->over)
            return;
        for (int i = 0; i < j->n_c; i++) {
            double us;
            fail(j, sample(k, graph[i], event, &us));
            if (k->rank == 0)
                j->out[i].us[j->out[i].n++] = us;
        }
    }
}

static void *race_rank(void *arg)
{
    struct rank *k = arg;
    struct tune_joint *j = k->j;
    rfg_context *ctx = j->ctx[k->rank];
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    rfg_graph *graph[MOST] = { NULL };
    hipEvent_t event[2] = { NULL, NULL };
    bool ready = true;
    if (j->events && k->rank == 0 &&
        (hip->hipSetDevice(rfg_context_ordinal(ctx)) || hip->hipEventCreateWithFlags(&event[0], 0) ||
         hip->hipEventCreateWithFlags(&event[1], 0)))
        fail(j, rfg_fail(RFG_ERROR_DEVICE, "hipEventCreate failed"));
    for (int i = 0; i < j->n_c && ready; i++)
        if ((ready = load(k, &j->c[i])))
            fail(j, capture(k, &graph[i]));
    if (ready)
        take_samples(k, graph, event);
    fail(j, rfg_comm_check(j->comm[k->rank]));
    for (int i = 0; i < j->n_c; i++)
        if (graph[i])
            (void)rfg_graph_destroy(ctx, &graph[i]);
    for (int i = 0; i < 2; i++)
        if (event[i])
            (void)hip->hipEventDestroy(event[i]);
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

rfg_status tune_joint_race(struct tune_joint *j, const struct rfg_choice *c, int n, int rounds, double max_s,
                           struct rfg_times *out)
{
    j->c = c;
    j->n_c = n;
    j->rounds = MAX(rounds, 3);
    j->until = rfg_now() + max_s;
    j->over = false;
    j->out = out;
    rfg_status st = n <= MOST ? RFG_OK : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "a race of %d: must be %d", n, MOST);
    for (int i = 0; i < n && st == RFG_OK; i++) {
        out[i] = (struct rfg_times){ .us = malloc((size_t)j->rounds * sizeof(double)) };
        if (!out[i].us)
            st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for times");
    }
    if (st == RFG_OK)
        st = on_all(j, race_rank);
    for (int i = 0; i < n && st == RFG_OK; i++)
        qsort(out[i].us, (size_t)out[i].n, sizeof(double), ascending);
    for (int i = 0; i < n && st != RFG_OK; i++)
        rfg_times_free(&out[i]);
    return st;
}
