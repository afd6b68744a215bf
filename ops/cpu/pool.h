/* SPDX-License-Identifier: MIT
 *
 * A small pool of threads for the cpu variants. One parallel region runs at a time; a second caller waits. */
#ifndef RFG_OPS_CPU_POOL_H
#define RFG_OPS_CPU_POOL_H

#include <stddef.h>

struct rfg_cpu_pool;

/* threads >= 1, the caller's included (1 makes no thread). NULL if threads can't be made. */
struct rfg_cpu_pool *rfg_cpu_pool_create(int threads);
void rfg_cpu_pool_destroy(struct rfg_cpu_pool **pool);
/* In the child of a fork() during which no region ran: the workers are the parent's; new ones start with the next
 * region, as many as can be had. Only the thread that forked may be in the pool. */
void rfg_cpu_pool_forked(struct rfg_cpu_pool *pool);
int rfg_cpu_pool_threads(const struct rfg_cpu_pool *pool);

/* A worker's own memory for the length of a task: RFG_CPU_SCRATCH bytes, 64 bytes aligned. What is large goes there,
 * since the caller's thread is a worker, and its stack may be small. */
#define RFG_CPU_SCRATCH ((size_t)512 << 10)
void *rfg_cpu_pool_scratch(const struct rfg_cpu_pool *pool, int worker);

/* Calls fn(ctx, task, worker) for task 0..n-1, spread over the threads; returns when all are done. worker is in
 * 0..threads-1 and no two tasks run on one worker at a time. Tasks are handed out dynamically: results must not
 * depend on which worker runs what. */
void rfg_cpu_pool_run(struct rfg_cpu_pool *pool, int n, void (*fn)(void *ctx, int task, int worker), void *ctx);

#endif
