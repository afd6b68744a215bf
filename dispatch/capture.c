/* SPDX-License-Identifier: MIT
 *
 * Which streams are captured, and which calls are refused during a capture.
 *
 * A library that allocates and clears memory beside a capture breaks it, or ends the process. (HIP refuses both calls
 * while any stream of the process is captured, in some releases whatever the capture's mode: CHECK_STREAM_CAPTURING in
 * ROCm/clr hipamd/src/hip_internal.hpp.) Our own captures begin and end under a lock. Code that lets a library allocate
 * holds it too. */
#include "context_impl.h"

struct made_stream *rfg_stream_made(rfg_context *ctx, rfg_stream stream)
{
    struct made_stream *s = ctx->made_streams;
    while (s && s->stream != stream)
        s = s->next;
    return s;
}

rfg_status rfg_call_enter_outside_captures(rfg_context *ctx, const char *fn, int *previous)
{
    rfg_status st = rfg_call_enter(ctx, fn, previous);
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
        rfg_device_leave(ctx, *previous);
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

/* ---- captures of this library ---------------------------------------------------------------------------------- */

static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static int captures; /* of all contexts */

hipError_t rfg_capture_begin(const rfg_context *ctx, rfg_stream stream)
{
    pthread_mutex_lock(&capture_lock);
    hipError_t e = ctx->hip->hipStreamBeginCapture((hipStream_t)stream, hipStreamCaptureModeThreadLocal);
    captures += e == hipSuccess;
    pthread_mutex_unlock(&capture_lock);
    return e;
}

hipError_t rfg_capture_end(const rfg_context *ctx, rfg_stream stream, hipGraph_t *graph)
{
    pthread_mutex_lock(&capture_lock);
    hipError_t e = ctx->hip->hipStreamEndCapture((hipStream_t)stream, graph);
    captures--;
    pthread_mutex_unlock(&capture_lock);
    return e;
}

void rfg_capture_forget(void)
{
    pthread_mutex_lock(&capture_lock);
    captures--;
    pthread_mutex_unlock(&capture_lock);
}

bool rfg_capture_goes_on(void)
{
    if (pthread_mutex_trylock(&capture_lock))
        return true;
    bool any = captures > 0;
    pthread_mutex_unlock(&capture_lock);
    return any;
}

rfg_status rfg_capture_hold(const rfg_context *ctx)
{
    uint32_t zero = 0;
    void *mem = NULL;
    pthread_mutex_lock(&capture_lock);
    if (captures)
        return rfg_fail(RFG_ERROR_NOT_READY, "a stream is being captured: nothing can be allocated");
    hipError_t e = ctx->hip->hipMalloc(&mem, sizeof(zero));
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "hipMalloc", e);
    e = ctx->hip->hipMemcpyHtoD((hipDeviceptr_t)mem, &zero, sizeof(zero));
    (void)ctx->hip->hipFree(mem);
    return e == hipSuccess ? RFG_OK : rfg_hip_fail(ctx, "hipMemcpyHtoD", e);
}

void rfg_capture_release(void)
{
    pthread_mutex_unlock(&capture_lock);
}

void rfg_capture_before_fork(void)
{
    pthread_mutex_lock(&capture_lock);
}

void rfg_capture_after_fork(bool child)
{
    if (child)
        captures = 0; /* the parent's */
    pthread_mutex_unlock(&capture_lock);
}
