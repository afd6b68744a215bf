/* SPDX-License-Identifier: MIT
 *
 * The streams' workspaces. Each is one piece of memory: the kernels' workspace, then the counters. The counters are
 * zeroed once; every launch leaves them zero. */
#include "context_impl.h"
#include "rfg/device.h"

#define COUNTER_BYTES (RFG_COUNTERS * sizeof(uint32_t))
#define ALIGNMENT     256

size_t rfg_workspace_size(const rfg_context *ctx)
{
    if (!ctx)
        (void)rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_workspace_size: ctx is NULL: must be a context");
    return ctx && ctx->hip ? rfg_workspace_bytes(&ctx->dev) + COUNTER_BYTES : 0;
}

static struct stream_space *find_space(rfg_context *ctx, rfg_stream stream)
{
    int n = atomic_load_explicit(&ctx->n_streams, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (atomic_load_explicit(&ctx->streams[i].stream, memory_order_acquire) == stream)
            return &ctx->streams[i];
    return NULL;
}

/* Under ctx->lock: an entry that is free, NULL: there is none. */
static struct stream_space *free_entry(rfg_context *ctx)
{
    struct stream_space *space = find_space(ctx, RFG_NO_STREAM);
    int n = atomic_load(&ctx->n_streams);
    if (space || n == RFG_MAX_STREAMS)
        return space;
    atomic_store(&ctx->streams[n].stream, RFG_NO_STREAM);
    atomic_store_explicit(&ctx->n_streams, n + 1, memory_order_release);
    return &ctx->streams[n];
}

/* Under ctx->lock, the device is current. memory NULL: it is allocated. */
static rfg_status set_space(rfg_context *ctx, rfg_stream stream, void *memory, struct stream_space **out)
{
    const struct rfg_hip *hip = ctx->hip;
    void *mem = memory;
    struct stream_space *space = free_entry(ctx);
    if (!space)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY,
                        "%s: stream %p would be number %d: a context serves at most %d streams", ctx->dev.name, stream,
                        RFG_MAX_STREAMS + 1, RFG_MAX_STREAMS);
    hipError_t e = mem ? hipSuccess : hip->hipMalloc(&mem, rfg_workspace_size(ctx));
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "hipMalloc", e);
    uint32_t *counters = (uint32_t *)((char *)mem + rfg_workspace_bytes(&ctx->dev));
    e = hip->hipMemsetD8Async((hipDeviceptr_t)counters, 0, COUNTER_BYTES, (hipStream_t)stream);
    if (e != hipSuccess) {
        if (!memory)
            (void)hip->hipFree(mem);
        return rfg_hip_fail(ctx, "hipMemsetD8Async", e);
    }
    space->workspace = mem;
    space->counters = counters;
    space->given = memory != NULL;
    atomic_store(&space->settled, false);
    atomic_store_explicit(&space->stream, stream, memory_order_release);
    *out = space;
    rfg_vendor_stream(ctx, stream);
    return RFG_OK;
}

hipError_t rfg_workspace_drop(rfg_context *ctx, rfg_stream stream)
{
    struct stream_space *space = stream == RFG_NO_STREAM ? NULL : find_space(ctx, stream);
    if (!space)
        return hipSuccess;
    atomic_store(&space->stream, RFG_NO_STREAM);
    return space->given ? hipSuccess : ctx->hip->hipFree(space->workspace);
}

void rfg_workspace_free_all(rfg_context *ctx)
{
    for (int i = 0; i < atomic_load(&ctx->n_streams); i++)
        (void)rfg_workspace_drop(ctx, atomic_load(&ctx->streams[i].stream));
}

rfg_status rfg_workspace_of(rfg_context *ctx, rfg_stream stream, const struct stream_space **out)
{
    struct stream_space *space = find_space(ctx, stream);
    bool captured = false;
    rfg_status st = RFG_OK;
    if (!space) {
        pthread_mutex_lock(&ctx->lock);
        if ((space = find_space(ctx, stream)))
            ;
        else if ((st = rfg_stream_captured(ctx, "rfg_prepare_stream", stream, &captured)) == RFG_OK)
            st = captured ? rfg_fail(RFG_ERROR_NOT_READY,
                                     "stream %p has no workspace yet and is being captured: call rfg_prepare_stream() "
                                     "before the capture",
                                     stream)
                          : set_space(ctx, stream, NULL, &space);
        pthread_mutex_unlock(&ctx->lock);
    }
    *out = space;
    return st;
}

/* What was queued on the stream so far, the memset of its counters among it, has ended. */
static rfg_status settle(rfg_context *ctx, rfg_stream stream, struct stream_space *space)
{
    hipError_t e = ctx->hip->hipStreamSynchronize((hipStream_t)stream);
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "hipStreamSynchronize", e);
    atomic_store(&space->settled, true);
    return RFG_OK;
}

rfg_status rfg_workspace_settle(rfg_context *ctx, const char *fn, rfg_stream stream)
{
    const struct stream_space *space;
    bool captured = false;
    rfg_status st = rfg_workspace_of(ctx, stream, &space);
    if (st != RFG_OK || atomic_load(&space->settled))
        return st;
    st = rfg_stream_captured(ctx, fn, stream, &captured);
    return st != RFG_OK || captured ? st : settle(ctx, stream, find_space(ctx, stream));
}

rfg_status rfg_prepare_stream(rfg_context *ctx, rfg_stream stream)
{
    static const char *const fn = "rfg_prepare_stream";
    struct rfg_graph *record;
    int previous;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: ctx is NULL: must be a context", fn);
    if (!ctx->hip)
        return rfg_stream_record(ctx, fn, stream, &record);
    if (rfg_context_forked(ctx))
        return rfg_fork_refuse(ctx);
    const struct stream_space *space = find_space(ctx, stream);
    if (space && atomic_load(&space->settled))
        return RFG_OK;
    rfg_status st = rfg_device_enter(ctx, &previous);
    if (st == RFG_OK) {
        st = rfg_workspace_settle(ctx, fn, stream);
        rfg_device_leave(ctx, previous);
    }
    return st;
}

/* Under ctx->lock, a GPU is current. On cpu there is nothing to replace: streams have no workspaces. */
static rfg_status replace(rfg_context *ctx, rfg_stream stream, void *memory)
{
    static const char *const fn = "rfg_stream_set_workspace";
    struct stream_space *space;
    bool captured;
    rfg_status st = rfg_stream_captured(ctx, fn, stream, &captured);
    if (st != RFG_OK)
        return st;
    if (captured)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: stream is %p, which is being captured: must not be", fn,
                        stream);
    pthread_mutex_lock(&ctx->streams_lock);
    const struct made_stream *made = rfg_stream_made(ctx, stream);
    int graphs = made ? made->graphs : 0;
    pthread_mutex_unlock(&ctx->streams_lock);
    if (graphs)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: stream is %p, from which %d graphs were captured: they must be destroyed first", fn,
                        stream, graphs);
    if (!ctx->hip)
        return RFG_OK;
    if (!memory && rfg_vendor_serves(ctx, stream)) {
        (void)ctx->hip->hipStreamSynchronize((hipStream_t)stream); /* its owner may have destroyed it */
        rfg_vendor_leave(ctx, stream);
    }
    hipError_t e = rfg_workspace_drop(ctx, stream);
    if (e != hipSuccess)
        return rfg_hip_fail(ctx, "hipFree", e);
    st = memory ? set_space(ctx, stream, memory, &space) : RFG_OK;
    return st == RFG_OK && memory ? settle(ctx, stream, space) : st;
}

rfg_status rfg_stream_set_workspace(rfg_context *ctx, rfg_stream stream, void *memory, size_t bytes)
{
    static const char *const fn = "rfg_stream_set_workspace";
    int previous;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: ctx is NULL: must be a context", fn);
    if (!memory && bytes)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: memory is NULL: must be %zu bytes", fn, bytes);
    if (memory && bytes < rfg_workspace_size(ctx))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: bytes is %zu: must be at least rfg_workspace_size(), %zu", fn,
                        bytes, rfg_workspace_size(ctx));
    if ((uintptr_t)memory % ALIGNMENT)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: memory is %p: must be aligned to %d bytes", fn, memory,
                        ALIGNMENT);
    rfg_status st = rfg_device_enter(ctx, &previous);
    if (st != RFG_OK)
        return st;
    pthread_mutex_lock(&ctx->lock);
    st = replace(ctx, stream, memory);
    pthread_mutex_unlock(&ctx->lock);
    size_t size = rfg_workspace_size(ctx);
    if (st == RFG_OK)
        st = rfg_scratch_give(ctx, stream, memory ? (char *)memory + size : NULL, memory ? bytes - size : 0);
    rfg_device_leave(ctx, previous);
    return st;
}
