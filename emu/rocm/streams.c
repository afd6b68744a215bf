/* SPDX-License-Identifier: MIT
 *
 * HIP's other calls for streams, events and graphs. Work is done when it is queued, so there is nothing to wait for. */
#include "rocm.h"

hipError_t hipStreamCreate(hipStream_t *stream)
{
    return hipStreamCreateWithFlags(stream, hipStreamDefault);
}

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    return hipStreamCreateWithFlags(stream, flags);
}

hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least)
        *least = 1;
    if (greatest)
        *greatest = -1;
    return rocm_end(hipSuccess);
}

/* The stream (NULL: the default one), or the error of a handle that is none. */
static hipError_t find(hipStream_t stream, struct stream **s)
{
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    *s = (struct stream *)stream;
    return hipSuccess;
}

hipError_t hipStreamQuery(hipStream_t stream)
{
    return hipStreamSynchronize(stream);
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags)
{
    struct stream *s = NULL;
    rocm_start();
    LOCKED;
    hipError_t e = flags && stream ? find(stream, &s) : hipErrorInvalidValue;
    if (e == hipSuccess)
        *flags = s ? s->flags : 0;
    return rocm_end(e);
}

hipError_t hipStreamGetPriority(hipStream_t stream, int *priority)
{
    struct stream *s = NULL;
    rocm_start();
    LOCKED;
    hipError_t e = priority ? find(stream, &s) : hipErrorInvalidValue;
    if (e == hipSuccess)
        *priority = 0;
    return rocm_end(e);
}

hipError_t of_stream(hipStream_t stream, int *device) __asm__("hipStreamGetDevice");
hipError_t of_stream(hipStream_t stream, int *device)
{
    struct stream *s = NULL;
    rocm_start();
    LOCKED;
    hipError_t e = device ? find(stream, &s) : hipErrorInvalidValue;
    if (e == hipSuccess)
        *device = (int)((s ? s->device : emu_here()) - emu_devices);
    return rocm_end(e);
}

/* What would make another stream part of a capture is refused. */
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    struct stream *s = NULL;
    rocm_start();
    LOCKED;
    hipError_t e = find(stream, &s);
    if (e == hipSuccess && (flags || !emu_is(event, EVENT)))
        e = flags ? hipErrorInvalidValue : hipErrorInvalidHandle;
    if (e != hipSuccess)
        return rocm_end(e);
    if (((struct event *)event)->captured)
        return rocm_refuse("hipStreamWaitEvent of a captured event");
    if (s && s->capture != hipStreamCaptureStatusNone) {
        s->capture = hipStreamCaptureStatusInvalidated;
        return rocm_end(hipErrorStreamCaptureIsolation);
    }
    emu_order_wait((hipStream_t)s, (struct event *)event);
    return rocm_end(emu_late_wait((hipStream_t)s, (struct event *)event));
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t fn, void *data, unsigned flags)
{
    if (!fn || flags)
        return rocm_end(hipErrorInvalidValue);
    hipError_t e = hipStreamSynchronize(stream);
    if (e == hipSuccess)
        fn(stream, hipSuccess, data);
    return e;
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *data)
{
    rocm_start();
    return rocm_end(emu_hipLaunchHostFunc(stream, fn, data));
}

hipError_t hipEventCreate(hipEvent_t *event)
{
    return hipEventCreateWithFlags(event, hipEventDefault);
}

hipError_t hipEventQuery(hipEvent_t event)
{
    return hipEventSynchronize(event);
}

hipError_t instantiate(hipGraphExec_t *exec, hipGraph_t graph,
                       unsigned long long flags) __asm__("hipGraphInstantiateWithFlags");
hipError_t instantiate(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags)
{
    (void)flags;
    return hipGraphInstantiate(exec, graph, NULL, NULL, 0);
}

hipError_t upload(hipGraphExec_t exec, hipStream_t stream) __asm__("hipGraphUpload");
hipError_t upload(hipGraphExec_t exec, hipStream_t stream)
{
    struct stream *s = NULL;
    rocm_start();
    LOCKED;
    return rocm_end(emu_is(exec, GRAPH_EXEC) ? find(stream, &s) : hipErrorInvalidValue);
}

/* Count alone: nodes have no handles. */
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    rocm_start();
    LOCKED;
    if (!count || !emu_is(graph, GRAPH))
        return rocm_end(hipErrorInvalidValue);
    if (nodes)
        return rocm_refuse("hipGraphGetNodes with an array of nodes");
    *count = 0;
    for (const struct node *n = ((struct graph *)graph)->first; n; n = n->next)
        ++*count;
    return rocm_end(hipSuccess);
}
