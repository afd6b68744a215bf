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

/* What a stream's launches share. An entry is free while its stream is RFG_NO_STREAM; whoever changes one makes it so
 * first. Readers take no lock: those of other streams pass it over, and its own stream has nobody that calls. */
struct stream_space {
    _Atomic(rfg_stream) stream;
    void *workspace;
    uint32_t *counters;
    bool given; /* by rfg_stream_set_workspace(): not ours to free */
};
#define RFG_NO_STREAM ((rfg_stream)UINTPTR_MAX)

/* One of rfg_stream_create(). */
struct made_stream {
    struct made_stream *next;
    rfg_stream stream; /* the runtime's; on cpu the address of this */
    int graphs;        /* that were captured from it and live */
    bool capturing;
    pthread_t captor;
    struct rfg_graph *record; /* on cpu: of the capture */
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
    _Atomic int n_streams;  /* entries that are, or were, in use */
    hipStream_t own_stream; /* NULL until it is asked for */
    double save_misses_at;  /* the next attempt */
    int misses_failed;      /* attempts in a row */

    pthread_mutex_t streams_lock; /* of made_streams and what is in it; no other lock is taken under it */
    struct made_stream *made_streams;

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
/* context.c. Makes the plan that op calls of the problem use, if there is none. */
rfg_status rfg_plan_prepare(rfg_context *ctx, const struct rfg_problem *prob);

/* workspace.c. The stream's, allocated now if it has none; the device is current. */
rfg_status rfg_workspace_of(rfg_context *ctx, rfg_stream stream, const struct stream_space **out);
/* Frees the stream's, if it has one that is ours, and forgets it. Under ctx->lock, the device is current. */
hipError_t rfg_workspace_drop(rfg_context *ctx, rfg_stream stream);
void rfg_workspace_free_all(rfg_context *ctx);

/* streams.c. Is the stream captured? fn: whose argument it is. */
rfg_status rfg_stream_captured(rfg_context *ctx, const char *fn, rfg_stream stream, bool *captured);
/* On cpu: the capture's record that calls in the stream go to, NULL: they are done. */
rfg_status rfg_stream_record(rfg_context *ctx, const char *fn, rfg_stream stream, struct rfg_graph **record);
rfg_status rfg_graph_add_launch(struct rfg_graph *g, const struct rfg_plan *plan, const void *kargs);
/* The stream, if it is one of rfg_stream_create(). Under streams_lock. */
struct made_stream *rfg_stream_made(rfg_context *ctx, rfg_stream stream);
void rfg_stream_destroy_all(rfg_context *ctx);

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
