/* SPDX-License-Identifier: MIT
 *
 * Scratch memory of a stream: data that operators which are made of others keep between these. It is separate from the
 * workspace that their kernels use. It is allocated when a call needs more than there is. Smaller pieces stay until the
 * stream is destroyed, because graphs may use them. */
#include <stdlib.h>

#include "context_impl.h"
#include "rfg/device.h"

/* The newest of a stream comes first, and is the largest. */
struct scratch {
    struct scratch *next;
    rfg_stream stream;
    void *memory;
    size_t bytes;
    bool given; /* by rfg_stream_set_workspace() */
};

static struct scratch *find(const rfg_context *ctx, rfg_stream stream)
{
    struct scratch *s = ctx->scratches;
    while (s && s->stream != stream)
        s = s->next;
    return s;
}

static rfg_status add(rfg_context *ctx, const char *fn, rfg_stream stream, void *memory, size_t bytes, bool given)
{
    struct scratch *s = malloc(sizeof(*s));
    if (!s)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a workspace's entry", fn);
    *s = (struct scratch){ ctx->scratches, stream, memory, bytes, given };
    ctx->scratches = s;
    return RFG_OK;
}

static rfg_status refuse_growth(rfg_context *ctx, const char *fn, rfg_stream stream, const struct scratch *s,
                                size_t bytes)
{
    int previous;
    bool captured;
    if (s && s->given)
        return rfg_fail(
            RFG_ERROR_INVALID_ARGUMENT,
            "%s: rfg_stream_set_workspace() gave stream %p %zu bytes beyond rfg_workspace_size(): must be at "
            "least %zu without a workspace in params",
            fn, stream, s->bytes, bytes);
    rfg_status st = rfg_device_enter(ctx, &previous);
    if (st != RFG_OK)
        return st;
    st = rfg_stream_captured(ctx, fn, stream, &captured);
    rfg_device_leave(ctx, previous);
    if (st == RFG_OK && captured)
        st = rfg_fail(
            RFG_ERROR_NOT_READY,
            "%s: stream %p, which is being captured, has %zu bytes for it: must have %zu without a workspace in "
            "params: call it with as many rows before the capture",
            fn, stream, s ? s->bytes : 0, bytes);
    return st;
}

/* At least twice as large as before, so that all pieces together are less than twice the largest. Zeroed, because rows
 * of no expert are quantised too and must not depend on old contents. */
static rfg_status grow(rfg_context *ctx, const char *fn, rfg_stream stream, const struct scratch *s, size_t bytes)
{
    void *memory;
    rfg_status st = refuse_growth(ctx, fn, stream, s, bytes);
    if (st == RFG_OK && s && bytes < 2 * s->bytes)
        bytes = 2 * s->bytes;
    if (st != RFG_OK || (st = rfg_device_alloc(ctx, &memory, bytes)) != RFG_OK)
        return st;
    if ((st = rfg_device_memset(ctx, memory, 0, bytes, stream)) != RFG_OK ||
        (st = add(ctx, fn, stream, memory, bytes, false)) != RFG_OK)
        (void)rfg_device_free(ctx, memory);
    return st;
}

rfg_status rfg_scratch_begin(rfg_context *ctx, const char *fn, rfg_stream stream, size_t bytes, void **memory)
{
    rfg_status st = RFG_OK;
    *memory = (void *)(uintptr_t)256; /* of a call that is only described: not looked at */
    if (rfg_context_describes(ctx))
        return RFG_OK;
    if (rfg_stream_is_special(ctx, stream))
        return rfg_stream_refuse_special(fn, stream);
    pthread_mutex_lock(&ctx->scratch_lock);
    const struct scratch *s = find(ctx, stream);
    if ((!s || s->bytes < bytes) && (st = grow(ctx, fn, stream, s, bytes)) != RFG_OK)
        pthread_mutex_unlock(&ctx->scratch_lock);
    else
        *memory = find(ctx, stream)->memory;
    return st;
}

void rfg_scratch_end(rfg_context *ctx)
{
    if (!rfg_context_describes(ctx))
        pthread_mutex_unlock(&ctx->scratch_lock);
}

rfg_status rfg_scratch_give(rfg_context *ctx, rfg_stream stream, void *memory, size_t bytes)
{
    rfg_scratch_drop(ctx, stream);
    pthread_mutex_lock(&ctx->scratch_lock);
    rfg_status st = memory ? add(ctx, "rfg_stream_set_workspace", stream, memory, bytes, true) : RFG_OK;
    pthread_mutex_unlock(&ctx->scratch_lock);
    return st;
}

static void drop_first(rfg_context *ctx, struct scratch **at)
{
    struct scratch *s = *at;
    *at = s->next;
    if (!s->given && ctx->hip)
        (void)ctx->hip->hipFree(s->memory);
    else if (!s->given)
        free(s->memory);
    free(s);
}

void rfg_scratch_drop(rfg_context *ctx, rfg_stream stream)
{
    pthread_mutex_lock(&ctx->scratch_lock);
    for (struct scratch **at = &ctx->scratches; *at;)
        if ((*at)->stream == stream)
            drop_first(ctx, at);
        else
            at = &(*at)->next;
    pthread_mutex_unlock(&ctx->scratch_lock);
}

void rfg_scratch_free_all(rfg_context *ctx)
{
    while (ctx->scratches)
        drop_first(ctx, &ctx->scratches);
}
