/* SPDX-License-Identifier: MIT
 *
 * The inside of a context: for the files of dispatch/ itself only. */
#ifndef RFG_DISPATCH_CONTEXT_IMPL_H
#define RFG_DISPATCH_CONTEXT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ops/cpu/pool.h"
#include "context.h"

#define RFG_MAX_STREAMS 256

struct rfg_plan {
    struct rfg_problem prob;
    uint64_t hash;
    struct rfg_choice choice;
    size_t workspace;
    struct rfg_launch launch;
    hipFunction_t fn;
    struct module *module; /* shared by the plans that run the same code object */
    void *vendor;
    _Atomic uint64_t calls;
    uint64_t calls_saved; /* of them, already in the misses table; under the context's lock */
};

/* Open addressing, never more than half full. Readers take no lock: a table is only ever added to, and one that
 * became too small stays readable until the context is destroyed. */
struct plan_table {
    struct plan_table *older;
    size_t mask, used;
    _Atomic(struct rfg_plan *) slot[];
};

/* What a stream's launches share. Entries are added, never changed. */
struct stream_space {
    rfg_stream stream;
    void *workspace;
    uint32_t *counters;
};

struct rfg_context {
    rfg_context *next; /* of fork.c's list */
    unsigned forks;    /* rfg_fork_count() when it was made */
    struct rfg_device dev;
    bool overlap;                            /* all problems are overlap=1 */
    _Atomic int describing;                  /* threads between rfg_describe_begin() and _end() */
    const struct rfg_hip_platform *platform; /* NULL on cpu, and so is the next */
    const struct rfg_hip *hip;
    int ordinal;
    char driver[64];
    char product[64]; /* "NVIDIA H200"; on cpu its arch */
    char *user_db, *variants;
    bool save_misses;
    struct rfg_cache *cache;
    struct rfg_snapshot *snap;
    struct rfg_cpu_pool *pool;

    pthread_mutex_t lock; /* everything below but the atomics */
    _Atomic(struct plan_table *) table;
    struct stream_space streams[RFG_MAX_STREAMS];
    _Atomic int n_streams;
    hipStream_t own_stream; /* NULL until it is asked for */
    double save_misses_at;  /* the next attempt */
    int misses_failed;      /* attempts in a row */

    pthread_mutex_t module_lock;
    struct module *modules;

    pthread_mutex_t warn_lock;
    const void **warned; /* rows that were skipped with a warning, variants whose library is missing */
    size_t n_warned;

    pthread_mutex_t cpu_lock; /* held while a host variant runs: it has the workspace and the pool to itself */
    void *cpu_workspace;
    size_t cpu_workspace_size;
};

/* open.c: the device of a new context; NULL: the default one. */
rfg_status rfg_open_device(rfg_context *ctx, const char *name, int threads);
/* Does $RFG_HIP_DISABLE name platforms that there are? */
rfg_status rfg_check_disabled(void);

/* Makes the context's device current on this thread; *previous is for rfg_device_leave(). */
rfg_status rfg_device_enter(const rfg_context *ctx, int *previous);
void rfg_device_leave(const rfg_context *ctx, int previous);

void rfg_plan_free_all(rfg_context *ctx);

/* fork.c. A cpu context that is made is watched until it is destroyed. */
void rfg_fork_watch(rfg_context *ctx);
void rfg_fork_unwatch(rfg_context *ctx);
/* How often this process and those it comes from were forked off: what a new context's `forks` is. */
extern atomic_uint rfg_forks;
unsigned rfg_fork_count(void);
/* Is the context the parent's, of a device that only the parent can use? (Never true of a cpu context.) */
static inline bool rfg_context_forked(const rfg_context *ctx)
{
    return ctx->forks != atomic_load_explicit(&rfg_forks, memory_order_relaxed);
}
/* The refusal of such a context. */
rfg_status rfg_fork_refuse(const rfg_context *ctx);

#endif
