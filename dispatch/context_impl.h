/* SPDX-License-Identifier: MIT
 *
 * The inside of a context: for the files of dispatch/ itself only. */
#ifndef RFG_DISPATCH_CONTEXT_IMPL_H
#define RFG_DISPATCH_CONTEXT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ops/cpu/pool.h"
#include "context.h"
#include "pack/pack.h"

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
    bool asked_for;       /* a tuner was started for it; under the lock */
    /* The plan that this one replaced, with a row that was tuned since. Running calls and graphs may still use it. */
    struct rfg_plan *replaced;
};

/* A row that was tuned since the context was made; none is ever taken out. */
struct learned_row {
    struct learned_row *next;
    struct rfg_row row;
};

/* What rfg_order_find() said; none is ever taken out. */
struct known_order {
    struct known_order *next;
    struct rfg_problem prob; /* at_size() few */
    struct rfg_order order;
};

/* What a stream's launches share. An entry is free while its stream is RFG_NO_STREAM. To change an entry, set that
 * first. Readers take no lock: readers of other streams skip the entry, and nobody may be calling on its own stream. */
struct stream_space {
    _Atomic(rfg_stream) stream;
    void *workspace;
    uint32_t *counters;
    bool given;           /* by rfg_stream_set_workspace(): not ours to free */
    _Atomic bool settled; /* the counters are zero for all streams, not only for what follows on this one */
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

/* On cpu: one call of a capture. */
struct rfg_record {
    struct rfg_record *next;
    const struct rfg_plan *plan; /* NULL: a copy or a memset */
    void *to;
    const void *from; /* NULL: a memset */
    int value;
    size_t bytes;
    _Alignas(16) char kargs[];
};

struct rfg_graph {
    struct made_stream *stream; /* that it was captured from */
    hipGraphExec_t exec;        /* on GPUs */
    struct rfg_record *first, **end;
};

struct rfg_context {
    rfg_context *next; /* of fork.c's list */
    unsigned forks;    /* rfg_fork_count() when it was made */
    struct rfg_device dev;
    struct rfg_device uncalibrated;          /* dev, as the tables have it */
    bool overlap;                            /* all problems are overlap=1 */
    bool invariant;                          /* those that have the key are invariant=1 */
    _Atomic int describing;                  /* threads between rfg_describe_begin() and _end() */
    const struct rfg_hip_platform *platform; /* NULL on cpu, and so is the next */
    const struct rfg_hip *hip;
    int ordinal;
    char driver[64];
    char product[64];     /* "NVIDIA H200"; on cpu its arch */
    double measured_gbps; /* of its memory, by its calibration; 0: it has none */
    char *user_db, *variants;
    bool save_misses;
    struct rfg_cache *cache;
    struct rfg_pack *pack; /* NULL: none; else nothing is compiled */
    struct rfg_snapshot *snap;
    struct rfg_cpu_pool *pool;
    struct rfg_trace *trace;               /* NULL: not asked for */
    struct rfg_online *online;             /* the same, or it can't be */
    _Atomic(struct learned_row *) learned; /* the newest first: before the snapshot's */

    pthread_mutex_t lock; /* everything below but the atomics */
    _Atomic(struct plan_table *) table;
    struct making *making; /* problems whose plans threads make, without the lock */
    pthread_cond_t made;   /* one less */
    struct stream_space streams[RFG_MAX_STREAMS];
    _Atomic int n_streams;  /* entries that are, or were, in use */
    hipStream_t own_stream; /* NULL until it is asked for */
    double save_misses_at;  /* the next attempt */
    int misses_failed;      /* attempts in a row */
    uint64_t tuned;         /* plans that took up such a row */

    pthread_mutex_t streams_lock; /* of made_streams and what is in it; no other lock is taken under it */
    struct made_stream *made_streams;

    pthread_mutex_t scratch_lock; /* held by whoever uses one of them; the other locks are taken under it */
    struct scratch *scratches;

    pthread_mutex_t vendor_lock; /* held to add handles and to give them to streams; captures are held under it */
    _Atomic(struct vendor_handle *) vendor_handles; /* only added to: readers take no lock */

    pthread_mutex_t vendor_prepare_lock; /* held while a library makes a plan; the one above is taken under it */

    pthread_mutex_t module_lock;
    struct module *modules;

    pthread_mutex_t warn_lock;
    const void **warned; /* rows that were skipped with a warning, variants whose library is missing */
    size_t n_warned;
    struct known_order *orders; /* under warn_lock, too */

    pthread_mutex_t cpu_lock; /* held while a host variant runs: it has the workspace and the pool to itself */
    void *cpu_workspace;
    size_t cpu_workspace_size;
};

/* The files, lowest first: each knows those above it here. */

/* ---- enter.c --------------------------------------------------------------------------------------------------- */

/* Makes the context's device current on this thread; *previous is for rfg_device_leave(). On cpu it does nothing. */
rfg_status rfg_device_enter(const rfg_context *ctx, int *previous);
void rfg_device_leave(const rfg_context *ctx, int previous);
/* The same for a public function's ctx, which may be NULL. */
rfg_status rfg_call_enter(const rfg_context *ctx, const char *fn, int *previous);
/* The number of forks that led to this process; a new context stores it in `forks`. */
extern atomic_uint rfg_forks;
/* Whether the context is the parent's, of a device that only the parent can use. (Never true of a cpu context.) */
static inline bool rfg_context_forked(const rfg_context *ctx)
{
    return ctx->forks != atomic_load_explicit(&rfg_forks, memory_order_relaxed);
}
/* The refusal of such a context. */
rfg_status rfg_fork_refuse(const rfg_context *ctx);

/* ---- describe.c ------------------------------------------------------------------------------------------------ */

/* Whether the thread only describes its calls with ctx. */
bool rfg_context_describes(const rfg_context *ctx);
/* Adds a call's problem to the list, if one was asked for. */
rfg_status rfg_describe_call(const struct rfg_problem *prob);

/* ---- problems.c ------------------------------------------------------------------------------------------------ */

/* Adds the keys that the context adds to all problems. */
struct rfg_problem rfg_problem_of_call(const rfg_context *ctx, const struct rfg_problem *prob);
/* Checks the operator's rules. The message is worded as a call's. */
rfg_status rfg_problem_judge(const struct rfg_problem *prob);
/* The problems of a string of lines, each with a range or none; at most RFG_PREPARE_MAX. */
rfg_status rfg_problems_parse(const char *text, struct rfg_problem **probs, size_t *n, struct rfg_reason *why);

/* ---- record.c -------------------------------------------------------------------------------------------------- */

/* NULL with the error set. */
struct rfg_graph *rfg_graph_new(struct made_stream *s);
void rfg_graph_free(struct rfg_graph *g);
rfg_status rfg_graph_add(struct rfg_graph *g, const struct rfg_record *call, const void *kargs, size_t kargs_size);
/* Does the copy or the memset. */
void rfg_record_move(const struct rfg_record *r);

/* ---- capture.c ------------------------------------------------------------------------------------------------- */

/* hipStreamLegacy and hipStreamPerThread, or CUDA's, which have the same values. */
static inline bool rfg_stream_is_special(const rfg_context *ctx, rfg_stream stream)
{
    return ctx->hip && (uintptr_t)stream - 1 < 2;
}
rfg_status rfg_stream_refuse_special(const char *fn, rfg_stream stream);
/* The stream, if it is one of rfg_stream_create(). Under streams_lock. */
struct made_stream *rfg_stream_made(rfg_context *ctx, rfg_stream stream);
/* On cpu: the capture's record that calls in the stream go to, NULL: they are done. */
rfg_status rfg_stream_record(rfg_context *ctx, const char *fn, rfg_stream stream, struct rfg_graph **record);
/* Whether the stream is captured. fn: the function whose argument it is, for messages. */
rfg_status rfg_stream_captured(rfg_context *ctx, const char *fn, rfg_stream stream, bool *captured);
/* As rfg_call_enter(), for functions that a capturing thread may not call. */
rfg_status rfg_call_enter_outside_captures(rfg_context *ctx, const char *fn, int *previous);
/* Captures of this library. forget: for a stream that is destroyed during its capture. */
hipError_t rfg_capture_begin(const rfg_context *ctx, rfg_stream stream);
hipError_t rfg_capture_end(const rfg_context *ctx, rfg_stream stream, hipGraph_t *graph);
void rfg_capture_forget(void);
/* Whether a capture is running or about to begin. Doesn't wait. */
bool rfg_capture_goes_on(void);
/* Until rfg_capture_release(), which must always follow, no capture begins or ends. Error: a capture is running, so a
 * library that allocates now would be refused. (If the capture isn't ours, the question itself breaks it, as any
 * allocation does.) */
rfg_status rfg_capture_hold(const rfg_context *ctx);
void rfg_capture_release(void);
void rfg_capture_before_fork(void);
void rfg_capture_after_fork(bool child);

/* ---- scratch.c ------------------------------------------------------------------------------------------------- */

/* Gives the stream this memory in place of what was allocated for it; NULL: nothing. The device is current, as in the
 * next two. */
rfg_status rfg_scratch_give(rfg_context *ctx, rfg_stream stream, void *memory, size_t bytes);
void rfg_scratch_drop(rfg_context *ctx, rfg_stream stream);
void rfg_scratch_free_all(rfg_context *ctx);

/* ---- vendor.c -------------------------------------------------------------------------------------------------- */

/* Handles of the libraries that can be used at once, when the context is made. */
void rfg_vendor_begin(rfg_context *ctx);
/* Gives a new stream a handle of each library in use, if possible. The device is current. */
void rfg_vendor_stream(rfg_context *ctx, rfg_stream stream);
/* The stream's; NULL: the variant has none. The device is current. NOT_READY: there is none, and none can
 * be made now. */
rfg_status rfg_vendor_handle(rfg_context *ctx, const struct rfg_variant *var, rfg_stream stream, void **handle);
/* Closes the handles of a stream that is idle and gone. No other stream may use them: its last kernels would share
 * them. */
void rfg_vendor_leave(rfg_context *ctx, rfg_stream stream);
bool rfg_vendor_serves(const rfg_context *ctx, rfg_stream stream);
void rfg_vendor_end(rfg_context *ctx);
rfg_status rfg_vendor_prepare(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                              const int *p, void **plan);

/* ---- workspace.c ----------------------------------------------------------------------------------------------- */

/* The stream's, allocated now if it has none; the device is current. */
rfg_status rfg_workspace_of(rfg_context *ctx, rfg_stream stream, const struct stream_space **out);
/* The same, and waits until its counters are zero whatever stream they are used from: a graph of this stream's launches
 * may be replayed on another. (But not if the stream is being captured: then it is too late.) */
rfg_status rfg_workspace_settle(rfg_context *ctx, const char *fn, rfg_stream stream);
/* Frees the stream's, if it has one that is ours, and forgets it. Under ctx->lock, the device is current. */
hipError_t rfg_workspace_drop(rfg_context *ctx, rfg_stream stream);
void rfg_workspace_free_all(rfg_context *ctx);

/* ---- plans.c --------------------------------------------------------------------------------------------------- */

/* The problem's; NULL: it has none. Takes no lock. prob: as rfg_problem_of_call() has it. */
struct rfg_plan *rfg_plans_find(rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash);
/* Under ctx->lock, as the next two; plan->hash is set. */
rfg_status rfg_plans_insert(rfg_context *ctx, struct rfg_plan *plan);
/* The plan replaces the old one, and keeps a pointer to it. */
void rfg_plans_replace(rfg_context *ctx, struct rfg_plan *old, struct rfg_plan *plan);
/* The next plan that wasn't replaced; *i: 0 at first. NULL: no more. */
struct rfg_plan *rfg_plans_next(const rfg_context *ctx, size_t *i);
void rfg_plans_free(rfg_context *ctx);

/* ---- streams.c ------------------------------------------------------------------------------------------------- */

void rfg_stream_destroy_all(rfg_context *ctx);

/* ---- misses.c -------------------------------------------------------------------------------------------------- */

/* Adds the calls and misses since the last time to the user database. Under ctx->lock. During an op call it waits for
 * no lock of others: what can't be written now is written at the next attempt, or at the end. */
void rfg_misses_save(rfg_context *ctx, enum rfg_db_mode mode);
/* The same, unless that failed a moment ago. False: not all of it is in the database. */
bool rfg_misses_note(rfg_context *ctx);

/* ---- make.c ---------------------------------------------------------------------------------------------------- */

/* The plan of a problem that has none yet, unless another thread was faster. The device is current. stream: the call's,
 * which must not be captured; NULL: it is prepared. */
rfg_status rfg_plan_make(rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash, const rfg_stream *stream,
                         struct rfg_plan **out);
/* Makes the plan that op calls of the problem use, if there is none. */
rfg_status rfg_plan_prepare(rfg_context *ctx, const struct rfg_problem *prob);
/* Makes the problem's plan again, and replaces the old one if a row of the very problem serves it now. Under ctx->lock,
 * the device is current. */
bool rfg_plan_renew(rfg_context *ctx, struct rfg_plan *old);

/* ---- online.c -------------------------------------------------------------------------------------------------- */

/* RFG_TUNE, or the parameter in its place, and the budget; 0: off. */
rfg_status rfg_online_read(const char *param, int *budget_ms);
/* budget_ms 0: nothing is tuned. no_misses: they may not be written. cache_dir: the context's parameter. */
void rfg_online_begin(rfg_context *ctx, int budget_ms, bool no_misses, const char *cache_dir);
/* Checks the tuner and its rows now and then, in a call without an exact row that was launched on the stream. The
 * device is current, no lock is held. Never fails, never waits. */
void rfg_online_tick(rfg_context *ctx, rfg_stream stream);
/* In the child of a fork: the tuner is the parent's. */
void rfg_online_forked(rfg_context *ctx);
/* Ends the tuner, if one runs, within seconds. */
void rfg_online_end(rfg_context *ctx);

/* ---- trace.c --------------------------------------------------------------------------------------------------- */

/* The trace of a new context, by $RFG_TRACE; NULL: none. A trace that can't be opened is a warning. The device needn't
 * be current. */
struct rfg_trace *rfg_trace_open(rfg_context *ctx);
/* Before and after a launch, by one thread, the device current. launched: false if it failed, recorded: true if it was
 * only put down for a replay. */
struct rfg_traced;
struct rfg_traced *rfg_trace_begin(struct rfg_trace *t, const struct rfg_plan *plan, rfg_stream stream);
void rfg_trace_end(struct rfg_trace *t, struct rfg_traced *call, bool launched, bool recorded);
/* The context's work has ended; the device is current, if it has one. */
void rfg_trace_close(struct rfg_trace **t);

/* ---- fork.c ---------------------------------------------------------------------------------------------------- */

/* A cpu context that is made is watched until it is destroyed. */
void rfg_fork_watch(rfg_context *ctx);
void rfg_fork_unwatch(rfg_context *ctx);
/* rfg_forks, and forks are counted from now on. */
unsigned rfg_fork_count(void);

/* ---- open.c ---------------------------------------------------------------------------------------------------- */

/* The device of a new context; NULL: the default one. */
rfg_status rfg_open_device(rfg_context *ctx, const char *name, int threads);
/* The same for a GPU that isn't there. */
rfg_status rfg_open_imagined(rfg_context *ctx, const char *name, int threads);
/* Whether $RFG_HIP_DISABLE names known platforms only. */
rfg_status rfg_check_disabled(void);

#endif
