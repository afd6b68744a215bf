/* SPDX-License-Identifier: MIT
 *
 * rfg/device.h: memory, streams, captures and graphs. On GPUs they are the runtime's. On cpu a stream is where a
 * capture records calls, with their arguments by value, and a graph is such a record. */
#include <stdlib.h>
#include <string.h>

#include "context_impl.h"
#include "rfg/device.h"

#define ALIGNMENT 256

/* On cpu: one call. */
struct record {
    struct record *next;
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
    struct record *first, **end;
};

/* ---- what every call begins with ----------------------------------------------------------------------------- */

struct made_stream *rfg_stream_made(rfg_context *ctx, rfg_stream stream)
{
    struct made_stream *s = ctx->made_streams;
    while (s && s->stream != stream)
        s = s->next;
    return s;
}

/* Makes the device current; the pair of leave(). */
static rfg_status enter(rfg_context *ctx, const char *fn, int *previous)
{
    *previous = -1;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: ctx is NULL: must be a context", fn);
    return ctx->hip ? rfg_device_enter(ctx, previous) : RFG_OK;
}

static void leave(const rfg_context *ctx, int previous)
{
    if (ctx->hip)
        rfg_device_leave(ctx, previous);
}

/* As enter(), for what a thread that captures may not do. */
static rfg_status enter_outside_captures(rfg_context *ctx, const char *fn, int *previous)
{
    rfg_status st = enter(ctx, fn, previous);
    if (st != RFG_OK)
        return st;
    pthread_mutex_lock(&ctx->streams_lock);
    for (struct made_stream *s = ctx->made_streams; s && st == RFG_OK; s = s->next)
        if (s->capturing && pthread_equal(s->captor, pthread_self()))
            st =
                rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                         "%s: this thread captures stream %p: must come after rfg_stream_end_capture()", fn, s->stream);
    pthread_mutex_unlock(&ctx->streams_lock);
    if (st != RFG_OK)
        leave(ctx, *previous);
    return st;
}

rfg_status rfg_stream_record(rfg_context *ctx, const char *fn, rfg_stream stream, struct rfg_graph **record)
{
    *record = NULL;
    if (!stream)
        return RFG_OK;
    pthread_mutex_lock(&ctx->streams_lock);
    const struct made_stream *s = rfg_stream_made(ctx, stream);
    if (s)
        *record = s->record;
    pthread_mutex_unlock(&ctx->streams_lock);
    return s ? RFG_OK
             : rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: stream is %p: must be NULL on cpu, or one of rfg_stream_create()", fn, stream);
}

/* ROCm/clr, hipamd/src/hip_stream.cpp, isValid(): 2 becomes a stream of the calling thread; 1 is the default stream
 * since 2024, and to 6.2.2 no stream at all. */
rfg_status rfg_stream_refuse_special(const char *fn, rfg_stream stream)
{
    return (uintptr_t)stream == 1
               ? rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                          "%s: stream is %p, the runtime's name for the default stream: must be NULL for that one", fn,
                          stream)
               : rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                          "%s: stream is %p, which means another stream in each thread: must be one stream, which has "
                          "one workspace",
                          fn, stream);
}

rfg_status rfg_stream_captured(rfg_context *ctx, const char *fn, rfg_stream stream, bool *captured)
{
    struct rfg_graph *record = NULL;
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    *captured = false;
    if (rfg_stream_is_special(ctx, stream))
        return rfg_stream_refuse_special(fn, stream);
    rfg_status st = ctx->hip ? RFG_OK : rfg_stream_record(ctx, fn, stream, &record);
    hipError_t e = ctx->hip ? ctx->hip->hipStreamIsCapturing((hipStream_t)stream, &status) : hipSuccess;
    *captured = record || status != hipStreamCaptureStatusNone;
    return e == hipSuccess ? st : rfg_hip_fail(ctx, "hipStreamIsCapturing", e);
}

/* ---- records (cpu) ------------------------------------------------------------------------------------------- */

static rfg_status add_record(struct rfg_graph *g, const struct record *call, const void *kargs, size_t kargs_size)
{
    struct record *r = malloc(sizeof(*r) + kargs_size);
    if (!r)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a captured call");
    *r = *call;
    if (kargs_size)
        memcpy(r->kargs, kargs, kargs_size);
    *g->end = r;
    g->end = &r->next;
    return RFG_OK;
}

rfg_status rfg_graph_add_launch(struct rfg_graph *g, const struct rfg_plan *plan, const void *kargs)
{
    return add_record(g, &(struct record){ .plan = plan }, kargs, plan->prob.op->kargs_size);
}

static void move_bytes(const struct record *r)
{
    if (r->from)
        memcpy(r->to, r->from, r->bytes);
    else
        memset(r->to, r->value, r->bytes);
}

static rfg_status replay_records(rfg_context *ctx, const struct rfg_graph *g)
{
    rfg_status st = RFG_OK;
    for (struct record *r = g->first; r && st == RFG_OK; r = r->next)
        if (r->plan)
            st = rfg_plan_launch(ctx, r->plan, r->kargs, NULL); /* writes the head only, as every launch does */
        else
            move_bytes(r);
    return st;
}

static void free_graph(struct rfg_graph *g)
{
    for (struct record *r = g ? g->first : NULL, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(g);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

rfg_status rfg_device_alloc(rfg_context *ctx, void **memory, size_t bytes)
{
    int previous;
    void *mem = NULL;
    if (memory)
        *memory = NULL;
    rfg_status st = enter_outside_captures(ctx, "rfg_device_alloc", &previous);
    if (st != RFG_OK)
        return st;
    if (!memory)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_device_alloc: memory is NULL: must be where the address goes");
    else if (bytes > PTRDIFF_MAX - ALIGNMENT)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_device_alloc: bytes is %zu: no device has as much", bytes);
    else if (bytes && ctx->hip) {
        hipError_t e = ctx->hip->hipMalloc(&mem, bytes);
        if (e == hipSuccess)
            *memory = mem;
        else
            st = rfg_hip_fail(ctx, "hipMalloc", e);
    } else if (bytes && !(*memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1))))
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_device_alloc: bytes is %zu: the host has no such memory", bytes);
    leave(ctx, previous);
    return st;
}

rfg_status rfg_device_free(rfg_context *ctx, void *memory)
{
    int previous;
    rfg_status st = enter_outside_captures(ctx, "rfg_device_free", &previous);
    if (st != RFG_OK)
        return st;
    if (!ctx->hip)
        free(memory);
    else if (memory) {
        hipError_t e = ctx->hip->hipFree(memory);
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipFree", e);
    }
    leave(ctx, previous);
    return st;
}

/* Records or does a copy or a memset on cpu, queues it on a GPU. */
static rfg_status queue_bytes(rfg_context *ctx, const char *fn, const struct record *r, rfg_copy_kind kind,
                              rfg_stream stream)
{
    static const hipMemcpyKind kinds[] = { [RFG_HOST_TO_DEVICE] = hipMemcpyHostToDevice,
                                           [RFG_DEVICE_TO_HOST] = hipMemcpyDeviceToHost,
                                           [RFG_DEVICE_TO_DEVICE] = hipMemcpyDeviceToDevice };
    bool captured;
    int previous;
    rfg_status st = enter(ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    st = rfg_stream_captured(ctx, fn, stream, &captured);
    if (st != RFG_OK || !r->bytes)
        ;
    else if (captured && kind != RFG_DEVICE_TO_DEVICE)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                      "%s: kind is %d and stream %p is being captured: must be RFG_DEVICE_TO_DEVICE in a capture", fn,
                      (int)kind, stream);
    else if (ctx->hip) {
        hipError_t e = r->from ? ctx->hip->hipMemcpyAsync(r->to, r->from, r->bytes, kinds[kind], (hipStream_t)stream)
                               : ctx->hip->hipMemsetD8Async((hipDeviceptr_t)r->to, (unsigned char)r->value, r->bytes,
                                                            (hipStream_t)stream);
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, r->from ? "hipMemcpyAsync" : "hipMemsetD8Async", e);
    } else {
        struct rfg_graph *record;
        st = rfg_stream_record(ctx, fn, stream, &record);
        if (record)
            st = add_record(record, r, NULL, 0);
        else
            move_bytes(r);
    }
    leave(ctx, previous);
    return st;
}

rfg_status rfg_device_copy(rfg_context *ctx, void *to, const void *from, size_t bytes, rfg_copy_kind kind,
                           rfg_stream stream)
{
    static const char *const fn = "rfg_device_copy";
    uintptr_t t = (uintptr_t)to, f = (uintptr_t)from;
    if ((unsigned)kind > RFG_DEVICE_TO_DEVICE)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: kind is %d: must be one of rfg_copy_kind", fn, (int)kind);
    if (bytes && (!to || !from))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s is NULL: must be %zu bytes", fn, to ? "from" : "to", bytes);
    if (bytes && (t < f ? f - t : t - f) < bytes)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: from is %p, less than %zu bytes from to, %p: must not overlap",
                        fn, from, bytes, to);
    return queue_bytes(ctx, fn, &(struct record){ .to = to, .from = from, .bytes = bytes }, kind, stream);
}

rfg_status rfg_device_memset(rfg_context *ctx, void *memory, int value, size_t bytes, rfg_stream stream)
{
    static const char *const fn = "rfg_device_memset";
    if (value < 0 || value > 255)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: value is %d: must be from 0 to 255", fn, value);
    if (bytes && !memory)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: memory is NULL: must be %zu bytes", fn, bytes);
    return queue_bytes(ctx, fn, &(struct record){ .to = memory, .value = value, .bytes = bytes }, RFG_DEVICE_TO_DEVICE,
                       stream);
}

/* ---- streams ------------------------------------------------------------------------------------------------- */

rfg_status rfg_stream_create(rfg_context *ctx, rfg_stream *stream)
{
    int previous;
    if (stream)
        *stream = NULL;
    rfg_status st = enter_outside_captures(ctx, "rfg_stream_create", &previous);
    if (st != RFG_OK)
        return st;
    struct made_stream *s = calloc(1, sizeof(*s));
    hipStream_t made = NULL;
    hipError_t e = hipSuccess;
    if (!stream)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_stream_create: stream is NULL: must be where the stream goes");
    else if (!s)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_stream_create: no memory for a stream");
    else if (ctx->hip && (e = ctx->hip->hipStreamCreateWithFlags(&made, hipStreamNonBlocking)) != hipSuccess)
        st = rfg_hip_fail(ctx, "hipStreamCreateWithFlags", e);
    if (st == RFG_OK) {
        *stream = s->stream = ctx->hip ? (rfg_stream)made : (rfg_stream)s;
        pthread_mutex_lock(&ctx->streams_lock);
        s->next = ctx->made_streams;
        ctx->made_streams = s;
        pthread_mutex_unlock(&ctx->streams_lock);
    } else
        free(s);
    leave(ctx, previous);
    return st;
}

rfg_status rfg_stream_sync(rfg_context *ctx, rfg_stream stream)
{
    static const char *const fn = "rfg_stream_sync";
    int previous;
    bool captured;
    rfg_status st = enter_outside_captures(ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    st = rfg_stream_captured(ctx, fn, stream, &captured);
    if (st == RFG_OK && captured)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p, which is being captured: must not be", fn, stream);
    hipError_t e = st == RFG_OK && ctx->hip ? ctx->hip->hipStreamSynchronize((hipStream_t)stream) : hipSuccess;
    if (e != hipSuccess)
        st = rfg_hip_fail(ctx, "hipStreamSynchronize", e);
    leave(ctx, previous);
    return st;
}

/* Takes the stream out of the context's list. */
static rfg_status take_out(rfg_context *ctx, rfg_stream stream, struct made_stream **out)
{
    static const char *const fn = "rfg_stream_destroy";
    rfg_status st = RFG_OK;
    pthread_mutex_lock(&ctx->streams_lock);
    struct made_stream *s = rfg_stream_made(ctx, stream), **at = &ctx->made_streams;
    if (!s)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p: must be one of rfg_stream_create()", fn, stream);
    else if (s->capturing)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p, which is being captured: must not be", fn, stream);
    else if (s->graphs)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                      "%s: stream is %p, from which %d graphs were captured: they must be destroyed first", fn, stream,
                      s->graphs);
    for (; st == RFG_OK && *at != s; at = &(*at)->next)
        ;
    if (st == RFG_OK)
        *at = s->next;
    pthread_mutex_unlock(&ctx->streams_lock);
    *out = s;
    return st;
}

/* All of it, whatever goes wrong; the first error. */
static rfg_status destroy_stream(rfg_context *ctx, struct made_stream *s)
{
    rfg_status st = RFG_OK;
    if (ctx->hip) {
        hipError_t e = ctx->hip->hipStreamSynchronize((hipStream_t)s->stream);
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipStreamSynchronize", e);
        rfg_vendor_leave(ctx, s->stream);
        if (s->capturing)
            rfg_capture_forget();
        pthread_mutex_lock(&ctx->lock);
        e = rfg_workspace_drop(ctx, s->stream);
        pthread_mutex_unlock(&ctx->lock);
        if (e != hipSuccess && st == RFG_OK)
            st = rfg_hip_fail(ctx, "hipFree", e);
        e = ctx->hip->hipStreamDestroy((hipStream_t)s->stream);
        if (e != hipSuccess && st == RFG_OK)
            st = rfg_hip_fail(ctx, "hipStreamDestroy", e);
    }
    rfg_scratch_drop(ctx, s->stream);
    free_graph(s->record);
    free(s);
    return st;
}

rfg_status rfg_stream_destroy(rfg_context *ctx, rfg_stream *stream)
{
    int previous;
    struct made_stream *s;
    rfg_status st = enter_outside_captures(ctx, "rfg_stream_destroy", &previous);
    if (st != RFG_OK)
        return st;
    if (stream && *stream && (st = take_out(ctx, *stream, &s)) == RFG_OK) {
        st = destroy_stream(ctx, s);
        *stream = NULL;
    }
    leave(ctx, previous);
    return st;
}

void rfg_stream_destroy_all(rfg_context *ctx)
{
    for (struct made_stream *s; (s = ctx->made_streams);) {
        ctx->made_streams = s->next;
        (void)destroy_stream(ctx, s);
    }
}

/* ---- graphs -------------------------------------------------------------------------------------------------- */

static struct rfg_graph *new_graph(struct made_stream *s)
{
    struct rfg_graph *g = calloc(1, sizeof(*g));
    if (g) {
        g->stream = s;
        g->end = &g->first;
    } else
        (void)rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for a graph");
    return g;
}

/* The stream of this context that a capture is begun or ended on, by this thread. */
static rfg_status find_made(rfg_context *ctx, const char *fn, rfg_stream stream, bool capturing,
                            struct made_stream **out)
{
    rfg_status st = RFG_OK;
    pthread_mutex_lock(&ctx->streams_lock);
    struct made_stream *s = *out = rfg_stream_made(ctx, stream);
    if (!s)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p: must be one of rfg_stream_create()", fn, stream);
    else if (s->capturing != capturing)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p, which is %s being captured", fn, stream,
                      capturing ? "not" : "already");
    else if (capturing && !pthread_equal(s->captor, pthread_self()))
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                      "%s: stream is %p, whose capture another thread began: must be ended by that thread", fn, stream);
    pthread_mutex_unlock(&ctx->streams_lock);
    return st;
}

static void set_capturing(rfg_context *ctx, struct made_stream *s, bool capturing, struct rfg_graph *record)
{
    pthread_mutex_lock(&ctx->streams_lock);
    s->capturing = capturing;
    s->captor = pthread_self();
    s->record = record;
    pthread_mutex_unlock(&ctx->streams_lock);
}

rfg_status rfg_stream_begin_capture(rfg_context *ctx, rfg_stream stream)
{
    static const char *const fn = "rfg_stream_begin_capture";
    int previous;
    struct made_stream *s;
    struct rfg_graph *record = NULL;
    rfg_status st = enter_outside_captures(ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    st = find_made(ctx, fn, stream, false, &s);
    if (st == RFG_OK && ctx->hip)
        st = rfg_workspace_settle(ctx, fn, stream);
    if (st == RFG_OK && ctx->hip) {
        hipError_t e = rfg_capture_begin(ctx, stream);
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipStreamBeginCapture", e);
    } else if (st == RFG_OK && !(record = new_graph(s)))
        st = RFG_ERROR_OUT_OF_MEMORY;
    if (st == RFG_OK)
        set_capturing(ctx, s, true, record);
    leave(ctx, previous);
    return st;
}

/* What the runtime captured, ready to be replayed. */
static rfg_status end_on_gpu(rfg_context *ctx, struct made_stream *s, struct rfg_graph **out)
{
    hipGraph_t captured = NULL;
    hipGraphExec_t exec;
    struct rfg_graph *g = NULL;
    hipError_t e = rfg_capture_end(ctx, s->stream, &captured);
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "hipStreamEndCapture", e);
    e = ctx->hip->hipGraphInstantiate(&exec, captured, NULL, NULL, 0);
    rfg_status st = e == hipSuccess ? RFG_OK : rfg_hip_fail(ctx, "hipGraphInstantiate", e);
    (void)ctx->hip->hipGraphDestroy(captured);
    if (st == RFG_OK && !(g = new_graph(s))) {
        (void)ctx->hip->hipGraphExecDestroy(exec);
        st = RFG_ERROR_OUT_OF_MEMORY;
    }
    if (g)
        g->exec = exec;
    *out = g;
    return st;
}

rfg_status rfg_stream_end_capture(rfg_context *ctx, rfg_stream stream, rfg_graph **graph)
{
    static const char *const fn = "rfg_stream_end_capture";
    int previous;
    struct made_stream *s;
    struct rfg_graph *g = NULL;
    if (graph)
        *graph = NULL;
    rfg_status st = enter(ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    if (!graph)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: graph is NULL: must be where the graph goes", fn);
    else if ((st = find_made(ctx, fn, stream, true, &s)) == RFG_OK) {
        if (ctx->hip)
            st = end_on_gpu(ctx, s, &g);
        else
            g = s->record;
        set_capturing(ctx, s, false, NULL); /* it is over, graph or not */
        if (g) {
            pthread_mutex_lock(&ctx->streams_lock);
            s->graphs++;
            pthread_mutex_unlock(&ctx->streams_lock);
        }
        *graph = g;
    }
    leave(ctx, previous);
    return st;
}

rfg_status rfg_graph_replay(rfg_context *ctx, rfg_graph *graph, rfg_stream stream)
{
    static const char *const fn = "rfg_graph_replay";
    int previous;
    bool captured;
    rfg_status st = enter_outside_captures(ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    if (!graph)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: graph is NULL: must be one of rfg_stream_end_capture()", fn);
    else if ((st = rfg_stream_captured(ctx, fn, stream, &captured)) == RFG_OK && captured)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p, which is being captured: must not be", fn, stream);
    if (st == RFG_OK && ctx->hip) {
        hipError_t e = ctx->hip->hipGraphLaunch(graph->exec, (hipStream_t)stream);
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipGraphLaunch", e);
    } else if (st == RFG_OK)
        st = replay_records(ctx, graph);
    leave(ctx, previous);
    return st;
}

rfg_status rfg_graph_destroy(rfg_context *ctx, rfg_graph **graph)
{
    int previous;
    rfg_status st = enter_outside_captures(ctx, "rfg_graph_destroy", &previous);
    if (st != RFG_OK)
        return st;
    if (graph && *graph) {
        hipError_t e = ctx->hip ? ctx->hip->hipGraphExecDestroy((*graph)->exec) : hipSuccess;
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipGraphExecDestroy", e);
        pthread_mutex_lock(&ctx->streams_lock);
        (*graph)->stream->graphs--;
        pthread_mutex_unlock(&ctx->streams_lock);
        free_graph(*graph);
        *graph = NULL;
    }
    leave(ctx, previous);
    return st;
}
