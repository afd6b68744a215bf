/* SPDX-License-Identifier: MIT
 *
 * rfg/device.h: streams, captures and graphs. On GPUs they are the runtime's. On cpu a stream is where a capture
 * records calls, and a graph is such a record. */
#include <stdlib.h>

#include "context_impl.h"
#include "rfg/device.h"

static rfg_status replay_records(rfg_context *ctx, const struct rfg_graph *g)
{
    rfg_status st = RFG_OK;
    for (struct rfg_record *r = g->first; r && st == RFG_OK; r = r->next)
        if (r->plan)
            st = rfg_plan_launch(ctx, r->plan, r->kargs, NULL); /* writes the head only, as every launch does */
        else
            rfg_record_move(r);
    return st;
}

/* ---- streams ------------------------------------------------------------------------------------------------- */

rfg_status rfg_stream_create(rfg_context *ctx, rfg_stream *stream)
{
    int previous;
    if (stream)
        *stream = NULL;
    rfg_status st = rfg_call_enter_outside_captures(ctx, "rfg_stream_create", &previous);
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
    rfg_device_leave(ctx, previous);
    return st;
}

rfg_status rfg_stream_sync(rfg_context *ctx, rfg_stream stream)
{
    static const char *const fn = "rfg_stream_sync";
    int previous;
    bool captured;
    rfg_status st = rfg_call_enter_outside_captures(ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    st = rfg_stream_captured(ctx, fn, stream, &captured);
    if (st == RFG_OK && captured)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p, which is being captured: must not be", fn, stream);
    hipError_t e = st == RFG_OK && ctx->hip ? ctx->hip->hipStreamSynchronize((hipStream_t)stream) : hipSuccess;
    if (e != hipSuccess)
        st = rfg_hip_fail(ctx, "hipStreamSynchronize", e);
    rfg_device_leave(ctx, previous);
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
    rfg_graph_free(s->record);
    free(s);
    return st;
}

rfg_status rfg_stream_destroy(rfg_context *ctx, rfg_stream *stream)
{
    int previous;
    struct made_stream *s;
    rfg_status st = rfg_call_enter_outside_captures(ctx, "rfg_stream_destroy", &previous);
    if (st != RFG_OK)
        return st;
    if (stream && *stream && (st = take_out(ctx, *stream, &s)) == RFG_OK) {
        st = destroy_stream(ctx, s);
        *stream = NULL;
    }
    rfg_device_leave(ctx, previous);
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
    rfg_status st = rfg_call_enter_outside_captures(ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    st = find_made(ctx, fn, stream, false, &s);
    if (st == RFG_OK && ctx->hip)
        st = rfg_workspace_settle(ctx, fn, stream);
    if (st == RFG_OK && ctx->hip) {
        hipError_t e = rfg_capture_begin(ctx, stream);
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipStreamBeginCapture", e);
    } else if (st == RFG_OK && !(record = rfg_graph_new(s)))
        st = RFG_ERROR_OUT_OF_MEMORY;
    if (st == RFG_OK)
        set_capturing(ctx, s, true, record);
    rfg_device_leave(ctx, previous);
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
    if (st == RFG_OK && !(g = rfg_graph_new(s))) {
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
    rfg_status st = rfg_call_enter(ctx, fn, &previous);
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
    rfg_device_leave(ctx, previous);
    return st;
}

rfg_status rfg_graph_replay(rfg_context *ctx, rfg_graph *graph, rfg_stream stream)
{
    static const char *const fn = "rfg_graph_replay";
    int previous;
    bool captured;
    rfg_status st = rfg_call_enter_outside_captures(ctx, fn, &previous);
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
    rfg_device_leave(ctx, previous);
    return st;
}

rfg_status rfg_graph_destroy(rfg_context *ctx, rfg_graph **graph)
{
    int previous;
    rfg_status st = rfg_call_enter_outside_captures(ctx, "rfg_graph_destroy", &previous);
    if (st != RFG_OK)
        return st;
    if (graph && *graph) {
        hipError_t e = ctx->hip ? ctx->hip->hipGraphExecDestroy((*graph)->exec) : hipSuccess;
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipGraphExecDestroy", e);
        pthread_mutex_lock(&ctx->streams_lock);
        (*graph)->stream->graphs--;
        pthread_mutex_unlock(&ctx->streams_lock);
        rfg_graph_free(*graph);
        *graph = NULL;
    }
    rfg_device_leave(ctx, previous);
    return st;
}

rfg_status rfg_context_stream(rfg_context *ctx, hipStream_t *stream)
{
    int previous;
    rfg_status st = rfg_device_enter(ctx, &previous);
    if (st != RFG_OK)
        return st;
    pthread_mutex_lock(&ctx->lock);
    hipStream_t made;
    hipError_t e = ctx->own_stream ? hipSuccess : ctx->hip->hipStreamCreateWithFlags(&made, hipStreamNonBlocking);
    if (e != hipSuccess)
        st = rfg_hip_fail(ctx, "hipStreamCreateWithFlags", e);
    else if (!ctx->own_stream)
        ctx->own_stream = made;
    *stream = ctx->own_stream;
    pthread_mutex_unlock(&ctx->lock);
    rfg_device_leave(ctx, previous);
    return st;
}
