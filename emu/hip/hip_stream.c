/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU's streams, captures, graphs and events. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "hip_impl.h"

/* ---- capture ----------------------------------------------------------------------------------------------------- */

hipError_t emu_not_while_capturing(void)
{
    hipError_t e = hipSuccess;
    for (struct object *o = emu_objects; o; o = o->next) {
        struct stream *s = (struct stream *)o;
        if (o->kind != STREAM || s->capture == hipStreamCaptureStatusNone || s->mode == hipStreamCaptureModeRelaxed)
            continue;
        if (s->mode == hipStreamCaptureModeGlobal || pthread_equal(s->owner, pthread_self())) {
            if (emu_rules.capture_breaks)
                s->capture = hipStreamCaptureStatusInvalidated;
            e = hipErrorStreamCaptureUnsupported;
        }
    }
    return e;
}

hipError_t emu_blocking_ok(void)
{
    if (!emu_rules.implicit_copies) {
        hipError_t e = emu_not_while_capturing();
        return e != hipSuccess ? e : emu_implicit_ok(NULL);
    }
    hipError_t e = hipSuccess;
    for (struct object *o = emu_objects; o; o = o->next) {
        struct stream *s = (struct stream *)o;
        if (o->kind != STREAM || s->capture == hipStreamCaptureStatusNone)
            continue;
        if (emu_rules.capture_breaks)
            s->capture = hipStreamCaptureStatusInvalidated;
        else if (s->mode != hipStreamCaptureModeGlobal)
            continue;
        e = hipErrorStreamCaptureImplicit;
    }
    return e;
}

/* The calling thread's stream of its device, made when it is first named. */
static struct stream *per_thread(void)
{
    static _Thread_local struct stream *own[EMU_MAX_DEVICES];
    struct device *d = emu_here();
    struct stream **s = d ? &own[d - emu_devices] : NULL;
    if (s && !*s && (*s = emu_make(STREAM, sizeof(**s))))
        (*s)->device = d;
    return s ? *s : NULL;
}

bool emu_stream_ok(hipStream_t *stream)
{
    if (*stream == (hipStream_t)1 && emu_rules.legacy_handle)
        *stream = NULL;
    if (!*stream)
        return emu_here() != NULL;
    if (*stream == hipStreamPerThread && (*stream = (hipStream_t)per_thread()))
        return true;
    return *stream && emu_is(*stream, STREAM);
}

hipError_t emu_implicit_ok(hipStream_t stream)
{
    for (struct object *o = emu_objects; o && !stream; o = o->next) {
        struct stream *s = (struct stream *)o;
        if (o->kind == STREAM && s->capture != hipStreamCaptureStatusNone && !(s->flags & hipStreamNonBlocking)) {
            if (emu_rules.capture_breaks)
                s->capture = hipStreamCaptureStatusInvalidated;
            return hipErrorStreamCaptureImplicit;
        }
    }
    return hipSuccess;
}

static hipError_t run_host(hipStream_t stream, const struct node *n, bool replayed)
{
    (void)replayed;
    n->host(n->dst);
    emu_order_host_function(stream);
    return hipSuccess;
}

hipError_t emu_submit(hipStream_t stream, struct node *n)
{
    struct stream *s = (struct stream *)stream;
    hipError_t e = emu_fault;
    if (e == hipSuccess)
        e = emu_implicit_ok(stream);
    if (e == hipSuccess && s && s->capture == hipStreamCaptureStatusInvalidated)
        e = hipErrorStreamCaptureInvalidated;
    else if (e == hipSuccess && s && s->capture == hipStreamCaptureStatusActive) {
        *s->graph->end = n;
        s->graph->end = &n->next;
        return hipSuccess;
    } else if (e == hipSuccess && emu_late() && !n->joint)
        return emu_keep(stream, n);
    else if (e == hipSuccess && emu_late() && (e = emu_finish_stream(stream)) != hipSuccess)
        ;
    else if (e == hipSuccess)
        e = n->run(stream, n, false);
    emu_free_node(n);
    return e;
}

hipError_t emu_hipLaunchHostFunc(hipStream_t stream, void (*fn)(void *data), void *data)
{
    LOCKED;
    if (!fn)
        return hipErrorInvalidValue;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    struct node *n = calloc(1, sizeof(*n));
    if (!n)
        return hipErrorOutOfMemory;
    n->run = run_host;
    n->host = fn;
    n->dst = data;
    return emu_submit(stream, n);
}

/* ---- streams and graphs ------------------------------------------------------------------------------------------ */

hipError_t emu_hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    LOCKED;
    if (!stream || (flags != hipStreamDefault && flags != hipStreamNonBlocking))
        return hipErrorInvalidValue;
    if (!emu_here())
        return hipErrorNoDevice;
    struct stream *s = emu_make(STREAM, sizeof(*s));
    if (!s)
        return hipErrorOutOfMemory;
    s->device = emu_here();
    s->flags = flags;
    *stream = (hipStream_t)s;
    return hipSuccess;
}

static void free_graph(struct graph *g)
{
    for (struct node *n = g->first, *next; n; n = next) {
        next = n->next;
        emu_free_node(n);
    }
    emu_forget(g);
}

hipError_t emu_hipStreamDestroy(hipStream_t stream)
{
    LOCKED;
    if (!stream || stream == hipStreamPerThread)
        return hipErrorInvalidHandle;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    struct stream *s = (struct stream *)stream;
    if (s->graph)
        free_graph(s->graph);
    emu_late_stream_gone(s);
    emu_order_destroy(s);
    emu_forget(s);
    return hipSuccess;
}

hipError_t emu_hipStreamSynchronize(hipStream_t stream)
{
    LOCKED;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    struct stream *s = (struct stream *)stream;
    if (s && s->capture != hipStreamCaptureStatusNone) {
        s->capture = hipStreamCaptureStatusInvalidated;
        return hipErrorStreamCaptureUnsupported;
    }
    hipError_t e = emu_not_while_capturing();
    if (e == hipSuccess) {
        e = emu_finish_stream(stream);
        emu_order_host_stream(stream);
    }
    return e;
}

hipError_t emu_hipDeviceSynchronize(void)
{
    LOCKED;
    if (!emu_here())
        return hipErrorNoDevice;
    hipError_t e = emu_rules.sync_breaks ? emu_not_while_capturing() : hipSuccess;
    if (e == hipSuccess) {
        e = emu_finish_all();
        emu_order_host_all();
    }
    return e;
}

hipError_t emu_hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    LOCKED;
    if (!status)
        return hipErrorInvalidValue;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    *status = hipStreamCaptureStatusNone;
    hipError_t e = emu_implicit_ok(stream);
    if (e == hipSuccess && stream)
        *status = ((struct stream *)stream)->capture;
    return e;
}

hipError_t emu_hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    LOCKED;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    if (!stream)
        return hipErrorStreamCaptureUnsupported;
    struct stream *s = (struct stream *)stream;
    if (mode != hipStreamCaptureModeGlobal && mode != hipStreamCaptureModeThreadLocal &&
        mode != hipStreamCaptureModeRelaxed)
        return hipErrorInvalidValue;
    if (s->capture != hipStreamCaptureStatusNone)
        return hipErrorIllegalState;
    s->graph = emu_make(GRAPH, sizeof(*s->graph));
    if (!s->graph)
        return hipErrorOutOfMemory;
    s->graph->end = &s->graph->first;
    s->capture = hipStreamCaptureStatusActive;
    s->mode = mode;
    s->owner = pthread_self();
    return hipSuccess;
}

hipError_t emu_hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    LOCKED;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    struct stream *s = (struct stream *)stream;
    if (!stream)
        return hipErrorInvalidHandle;
    if (!graph)
        return hipErrorInvalidValue;
    *graph = NULL;
    if (s->capture == hipStreamCaptureStatusNone)
        return hipErrorIllegalState;
    if (s->mode != hipStreamCaptureModeRelaxed && !pthread_equal(s->owner, pthread_self()))
        return hipErrorStreamCaptureWrongThread;
    bool broken = s->capture == hipStreamCaptureStatusInvalidated;
    s->capture = hipStreamCaptureStatusNone;
    if (broken)
        free_graph(s->graph);
    else
        *graph = (hipGraph_t)s->graph;
    s->graph = NULL;
    return broken ? hipErrorStreamCaptureInvalidated : hipSuccess;
}

static struct node *copy_node(const struct node *n)
{
    struct node *copy = malloc(sizeof(*copy));
    size_t size = n->fn ? EMU_KERNARG_SIZE(n->fn->kernel->kernarg_bytes) : 0;
    if (!copy)
        return NULL;
    *copy = *n;
    copy->next = NULL;
    copy->kernarg = n->fn ? aligned_alloc(64, size ? size : 64) : NULL;
    if (n->fn && !copy->kernarg) {
        free(copy);
        return NULL;
    }
    if (size)
        memcpy(copy->kernarg, n->kernarg, size);
    return copy;
}

hipError_t emu_hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *error_node, char *log,
                                   size_t log_size)
{
    LOCKED;
    if (error_node)
        *error_node = NULL;
    if (log && log_size)
        log[0] = 0;
    if (!exec || !emu_is(graph, GRAPH))
        return hipErrorInvalidValue;
    struct graph *x = emu_make(GRAPH_EXEC, sizeof(*x));
    if (!x)
        return hipErrorOutOfMemory;
    x->end = &x->first;
    for (const struct node *n = ((struct graph *)graph)->first; n; n = n->next) {
        struct node *copy = copy_node(n);
        if (!copy) {
            free_graph(x);
            return hipErrorOutOfMemory;
        }
        *x->end = copy;
        x->end = &copy->next;
    }
    *exec = (hipGraphExec_t)x;
    return hipSuccess;
}

/* Time that events see. */
static void spend(double seconds)
{
    for (double end = rfg_now() + seconds; seconds > 0 && rfg_now() < end;)
        ;
}

/* Runs a node of a graph, or adds a copy of it to the late stream. */
static hipError_t replay(hipStream_t stream, const struct node *n)
{
    hipError_t e = emu_late() && n->joint ? emu_finish_stream(stream) : hipSuccess;
    if (e != hipSuccess || !emu_late() || n->joint)
        return e != hipSuccess ? e : n->run(stream, n, true);
    struct node *copy = copy_node(n);
    if (!copy)
        return hipErrorOutOfMemory;
    copy->replayed = true;
    return emu_keep(stream, copy);
}

hipError_t emu_hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    LOCKED;
    if (!emu_is(exec, GRAPH_EXEC))
        return hipErrorInvalidValue;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    hipError_t e = emu_fault;
    if (e == hipSuccess)
        e = emu_implicit_ok(stream);
    if (e == hipSuccess && stream && ((struct stream *)stream)->capture != hipStreamCaptureStatusNone) {
        ((struct stream *)stream)->capture = hipStreamCaptureStatusInvalidated;
        e = hipErrorStreamCaptureUnsupported; /* child graphs: not offered */
    }
    for (const struct node *n = ((struct graph *)exec)->first; n && e == hipSuccess; n = n->next) {
        if (n->fn && !emu_is(n->fn, FUNCTION))
            return hipErrorInvalidHandle; /* its module was unloaded */
        e = replay(stream, n);
        spend(emu_rules.node_seconds);
    }
    spend(emu_rules.tail_seconds);
    return e;
}

hipError_t emu_hipGraphExecDestroy(hipGraphExec_t exec)
{
    LOCKED;
    if (!emu_is(exec, GRAPH_EXEC))
        return hipErrorInvalidValue;
    free_graph((struct graph *)exec);
    return hipSuccess;
}

hipError_t emu_hipGraphDestroy(hipGraph_t graph)
{
    LOCKED;
    if (!emu_is(graph, GRAPH))
        return hipErrorInvalidValue;
    free_graph((struct graph *)graph);
    return hipSuccess;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

hipError_t emu_hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    LOCKED;
    if (!event || (flags & ~(unsigned)(hipEventBlockingSync | hipEventDisableTiming)))
        return hipErrorInvalidValue;
    struct event *e = emu_make(EVENT, sizeof(*e));
    if (!e)
        return hipErrorOutOfMemory;
    e->flags = flags;
    *event = (hipEvent_t)e;
    return hipSuccess;
}

hipError_t emu_hipEventDestroy(hipEvent_t event)
{
    LOCKED;
    if (!emu_is(event, EVENT))
        return hipErrorInvalidHandle;
    emu_late_event_gone((struct event *)event);
    emu_order_forget((struct event *)event);
    emu_forget(event);
    return hipSuccess;
}

hipError_t emu_hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    LOCKED;
    struct event *v = (struct event *)event;
    if (!emu_is(event, EVENT))
        return hipErrorInvalidHandle;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_stream;
    struct stream *s = (struct stream *)stream;
    hipError_t e = emu_implicit_ok(stream);
    if (e != hipSuccess)
        return e;
    if (s && s->capture == hipStreamCaptureStatusInvalidated)
        return hipErrorStreamCaptureInvalidated;
    v->captured = s && s->capture == hipStreamCaptureStatusActive;
    v->recorded = !v->captured;
    v->time = rfg_now(); /* everything before it is done */
    emu_late_forget(v);
    if (v->recorded && emu_late())
        return emu_late_record(v, stream);
    if (v->recorded)
        emu_order_record(v, stream);
    return hipSuccess;
}

hipError_t emu_hipEventSynchronize(hipEvent_t event)
{
    LOCKED;
    if (!emu_is(event, EVENT))
        return hipErrorInvalidHandle;
    hipError_t e = ((struct event *)event)->captured ? hipErrorCapturedEvent : emu_not_while_capturing();
    if (e == hipSuccess) {
        e = emu_finish_event((struct event *)event);
        emu_order_host_event((struct event *)event);
    }
    return e;
}

hipError_t emu_hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
    LOCKED;
    const struct event *a = (struct event *)start, *b = (struct event *)stop;
    if (!ms)
        return hipErrorInvalidValue;
    if (!emu_is(start, EVENT) || !emu_is(stop, EVENT) || (a->flags | b->flags) & hipEventDisableTiming ||
        !a->recorded || !b->recorded)
        return hipErrorInvalidHandle;
    if (a->line || b->line)
        return hipErrorNotReady;
    *ms = (float)((b->time - a->time) * 1e3);
    return hipSuccess;
}
