/* SPDX-License-Identifier: MIT
 *
 * The collectives on the cpu. A rank puts its x into its own window and raises its flag; its peers read it there. Epochs
 * and the two windows by turns are comm.hip's. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "ops/comm.h"
#include "ops/cpu/pool.h"

#define CHUNK 4096 /* elements of a task */

struct job {
    const struct comm_args *a;
    const char *from[COMM_MAX_RANKS]; /* what each rank put into its window */
    int ranks, dtype;
    enum comm_op op;
};

static _Atomic uint64_t *ticket_of(const struct comm_args *a, int rank)
{
    return (_Atomic uint64_t *)((char *)a->window[rank] + COMM_TICKET);
}
static char *bulk_of(const struct comm_args *a, int rank, int ranks, uint64_t epoch)
{
    return (char *)a->window[rank] + COMM_BULK_AT(ranks) + (epoch & 1) * 2 * COMM_BULK;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool await_peers(const struct comm_args *a, int ranks, uint64_t epoch)
{
    uint64_t begin = now();
    for (int r = 0; r < ranks; r++)
        for (int turn = 0; atomic_load_explicit(ticket_of(a, r), memory_order_acquire) < epoch; turn++) {
            if (turn >= 100)
                sched_yield();
            if (now() - begin > a->timeout) {
                __atomic_store_n(a->status, 1u + (unsigned)r, __ATOMIC_RELEASE);
                return false;
            }
        }
    return true;
}

static void run_chunk(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    const struct comm_args *a = j->a;
    const int64_t begin = (int64_t)task * CHUNK, end = begin + CHUNK < a->n ? begin + CHUNK : a->n;
    const int64_t size = rfg_format_bytes(j->dtype, 1);
    (void)worker;
    if (j->op == COMM_OP_GATHER) {
        for (int r = 0; r < j->ranks; r++)
            memcpy((char *)a->y + (r * a->stride + begin) * size, j->from[r] + begin * size,
                   (size_t)((end - begin) * size));
        return;
    }
    const int64_t part = j->op == COMM_OP_SCATTER ? a->rank * a->n : 0;
    for (int64_t i = begin; i < end; i++) {
        float sum = rfg_float_get(j->from[0], j->dtype, part + i);
        for (int r = 1; r < j->ranks; r++)
            sum += rfg_float_get(j->from[r], j->dtype, part + i);
        rfg_float_put(a->y, j->dtype, i, sum);
    }
}

static void run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                struct rfg_cpu_pool *pool)
{
    const struct comm_args *a = kargs;
    (void)dev, (void)p;
    struct job j = { .a = a, .ranks = (int)prob->v[COMM_RANKS], .dtype = prob->dtype[0] };
    while (comm_ops[j.op] != prob->op)
        j.op++;
    if (__atomic_load_n(a->status, __ATOMIC_ACQUIRE))
        return;
    const int64_t bytes = a->n * rfg_format_bytes(j.dtype, 1), stride = a->stride * rfg_format_bytes(j.dtype, 1);
    uint64_t epoch = atomic_load_explicit(ticket_of(a, a->rank), memory_order_relaxed) + 1;
    char *own = bulk_of(a, a->rank, j.ranks, epoch);
    for (int r = 0; r < (j.op == COMM_OP_SCATTER ? j.ranks : 1); r++)
        memcpy(own + r * bytes, (const char *)a->x + r * stride, (size_t)bytes);
    atomic_store_explicit(ticket_of(a, a->rank), epoch, memory_order_release);
    if (!await_peers(a, j.ranks, epoch))
        return;
    for (int r = 0; r < j.ranks; r++)
        j.from[r] = bulk_of(a, r, j.ranks, epoch);
    rfg_cpu_pool_run(pool, (int)((a->n + CHUNK - 1) / CHUNK), run_chunk, &j);
}

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return dev->platform == RFG_PLATFORM_CPU || rfg_refuse(why, "device is %s: must be cpu", dev->name);
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)prob, (void)p;
    return dev->latency_us;
}

const struct rfg_variant comm_cpu = {
    .name = "comm_cpu", .kind = RFG_VARIANT_HOST, .supports = supports, .predict = predict, .run = run
};
