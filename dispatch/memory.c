/* SPDX-License-Identifier: MIT
 *
 * rfg/device.h: memory. */
#include <stdlib.h>

#include "context_impl.h"
#include "rfg/device.h"

#define ALIGNMENT 256

rfg_status rfg_device_alloc(rfg_context *ctx, void **memory, size_t bytes)
{
    int previous;
    void *mem = NULL;
    if (memory)
        *memory = NULL;
    rfg_status st = rfg_call_enter_outside_captures(ctx, "rfg_device_alloc", &previous);
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
    rfg_device_leave(ctx, previous);
    return st;
}

rfg_status rfg_device_free(rfg_context *ctx, void *memory)
{
    int previous;
    rfg_status st = rfg_call_enter_outside_captures(ctx, "rfg_device_free", &previous);
    if (st != RFG_OK)
        return st;
    if (!ctx->hip)
        free(memory);
    else if (memory) {
        hipError_t e = ctx->hip->hipFree(memory);
        if (e != hipSuccess)
            st = rfg_hip_fail(ctx, "hipFree", e);
    }
    rfg_device_leave(ctx, previous);
    return st;
}

/* Records or does a copy or a memset on cpu, queues it on a GPU. */
static rfg_status queue_bytes(rfg_context *ctx, const char *fn, const struct rfg_record *r, rfg_copy_kind kind,
                              rfg_stream stream)
{
    static const hipMemcpyKind kinds[] = { [RFG_HOST_TO_DEVICE] = hipMemcpyHostToDevice,
                                           [RFG_DEVICE_TO_HOST] = hipMemcpyDeviceToHost,
                                           [RFG_DEVICE_TO_DEVICE] = hipMemcpyDeviceToDevice };
    bool captured;
    int previous;
    rfg_status st = rfg_call_enter(ctx, fn, &previous);
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
            st = rfg_graph_add(record, r, NULL, 0);
        else
            rfg_record_move(r);
    }
    rfg_device_leave(ctx, previous);
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
    return queue_bytes(ctx, fn, &(struct rfg_record){ .to = to, .from = from, .bytes = bytes }, kind, stream);
}

rfg_status rfg_device_memset(rfg_context *ctx, void *memory, int value, size_t bytes, rfg_stream stream)
{
    static const char *const fn = "rfg_device_memset";
    if (value < 0 || value > 255)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: value is %d: must be from 0 to 255", fn, value);
    if (bytes && !memory)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: memory is NULL: must be %zu bytes", fn, bytes);
    return queue_bytes(ctx, fn, &(struct rfg_record){ .to = memory, .value = value, .bytes = bytes },
                       RFG_DEVICE_TO_DEVICE, stream);
}
