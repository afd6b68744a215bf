/* SPDX-License-Identifier: MIT
 *
 * Late streams (RFG_EMU_LATE=1): work stays in its stream until the host waits for it, or work of another stream that is
 * waited for comes after it. A wait that a program forgot then shows in its results. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/util.h"
#include "hip_impl.h"

static struct emu_line default_lines[EMU_MAX_DEVICES];

bool emu_late(void)
{
    static _Atomic bool said;
    const char *text = rfg_env("RFG_EMU_LATE");
    bool late = text && !strcmp(text, "1");
    if (text && !late && strcmp(text, "0") != 0 && !atomic_exchange(&said, true))
        rfg_warn("RFG_EMU_LATE='%s': must be 0 or 1; it is ignored", text);
    if (late && emu_order_wanted() && !atomic_exchange(&said, true))
        rfg_warn("RFG_EMU_LATE=1: is ignored, RFG_EMU_CHECKS has streams");
    return late && !emu_order_wanted();
}

static struct emu_line *line_of(hipStream_t stream)
{
    return stream ? &((struct stream *)stream)->line : &default_lines[emu_here() ? emu_here() - emu_devices : 0];
}

static void append(struct emu_line *line, struct node *n)
{
    if (!line->first)
        line->end = &line->first;
    n->next = NULL;
    *line->end = n;
    line->end = &n->next;
    line->queued++;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Runs the line's work up to its number `until`. The first error; what follows it runs all the same. */
static hipError_t run_until(struct emu_line *line, uint64_t until)
{
    hipError_t first = hipSuccess;
    while (line->first && line->done < until) {
        struct node *n = line->first;
        hipError_t e = emu_fault;
        line->first = n->next;
        line->done++;
        if (e == hipSuccess)
            e = n->run(line->stream, n, n->replayed);
        emu_free_node(n);
        first = first != hipSuccess ? first : e;
    }
    return first;
}

static hipError_t run_wait(hipStream_t stream, const struct node *n, bool replayed)
{
    (void)stream, (void)replayed;
    return n->dst ? run_until(n->dst, n->size) : hipSuccess;
}

static hipError_t run_record(hipStream_t stream, const struct node *n, bool replayed)
{
    (void)stream, (void)replayed;
    struct event *e = n->dst;
    if (e && e->line && e->number == n->size)
        emu_late_forget(e);
    if (e)
        e->time = rfg_now();
    return hipSuccess;
}

/* The streams whose work the default stream of this device waits for, one after another. */
static struct stream *next_blocking(struct object *from, const struct device *d)
{
    for (struct object *o = from; o; o = o->next) {
        struct stream *s = (struct stream *)o;
        if (o->kind == STREAM && s->device == d && !(s->flags & hipStreamNonBlocking))
            return s;
    }
    return NULL;
}
#define EACH_BLOCKING(s, d) (struct stream *s = next_blocking(emu_objects, d); s; s = next_blocking(s->o.next, d))

hipError_t emu_finish_stream(hipStream_t stream)
{
    struct emu_line *line = line_of(stream);
    hipError_t e = run_until(line, UINT64_MAX);
    for
        EACH_BLOCKING(s, stream ? NULL : emu_here())
        {
            hipError_t other = run_until(&s->line, UINT64_MAX);
            e = e != hipSuccess ? e : other;
        }
    return e;
}

hipError_t emu_finish_event(struct event *v)
{
    return v->line ? run_until(v->line, v->number) : hipSuccess;
}

hipError_t emu_finish_all(void)
{
    hipError_t e = hipSuccess;
    for (int i = 0; i < emu_n_devices; i++) {
        hipError_t one = run_until(&default_lines[i], UINT64_MAX);
        e = e != hipSuccess ? e : one;
    }
    for (struct object *o = emu_objects; o; o = o->next)
        if (o->kind == STREAM) {
            hipError_t one = run_until(&((struct stream *)o)->line, UINT64_MAX);
            e = e != hipSuccess ? e : one;
        }
    return e;
}

/* ---- queueing ---------------------------------------------------------------------------------------------------- */

static hipError_t wait_for(struct emu_line *line, struct emu_line *other, uint64_t number)
{
    if (line == other || other->done >= number)
        return hipSuccess;
    struct node *n = calloc(1, sizeof(*n));
    if (!n)
        return hipErrorOutOfMemory;
    *n = (struct node){ .run = run_wait, .dst = other, .size = number };
    append(line, n);
    return hipSuccess;
}

/* Blocking streams and the default stream wait for one another. */
static hipError_t wait_implicitly(hipStream_t stream, struct emu_line *line)
{
    struct stream *own = (struct stream *)stream;
    hipError_t e = hipSuccess;
    if (own && !(own->flags & hipStreamNonBlocking)) {
        struct emu_line *d = &default_lines[own->device - emu_devices];
        e = wait_for(line, d, d->queued);
    }
    for
        EACH_BLOCKING(s, own ? NULL : emu_here())
    if (e == hipSuccess)
        e = wait_for(line, &s->line, s->line.queued);
    return e;
}

hipError_t emu_keep(hipStream_t stream, struct node *n)
{
    struct emu_line *line = line_of(stream);
    line->stream = stream;
    hipError_t e = wait_implicitly(stream, line);
    if (e == hipSuccess)
        append(line, n);
    else
        emu_free_node(n);
    return e;
}

hipError_t emu_late_record(struct event *v, hipStream_t stream)
{
    struct node *n = calloc(1, sizeof(*n));
    if (!n)
        return hipErrorOutOfMemory;
    n->run = run_record;
    n->dst = v;
    hipError_t e = emu_keep(stream, n);
    if (e == hipSuccess) {
        v->line = line_of(stream);
        v->number = n->size = v->line->queued;
    }
    return e;
}

hipError_t emu_late_wait(hipStream_t stream, const struct event *v)
{
    struct emu_line *line = line_of(stream);
    line->stream = stream;
    return v->line ? wait_for(line, v->line, v->number) : hipSuccess;
}

void emu_late_forget(struct event *v)
{
    v->line = NULL;
}

/* ---- what goes away ---------------------------------------------------------------------------------------------- */

static void forget_in(struct emu_line *line, const void *what)
{
    for (struct node *n = line->first; n; n = n->next)
        if ((n->run == run_wait || n->run == run_record) && n->dst == what)
            n->dst = NULL;
}

static void forget_everywhere(const void *what)
{
    for (int i = 0; i < emu_n_devices; i++)
        forget_in(&default_lines[i], what);
    for (struct object *o = emu_objects; o; o = o->next)
        if (o->kind == STREAM)
            forget_in(&((struct stream *)o)->line, what);
}

void emu_late_event_gone(struct event *v)
{
    forget_everywhere(v);
}

void emu_late_stream_gone(struct stream *s)
{
    (void)run_until(&s->line, UINT64_MAX); /* it is done in its time, and nobody hears how */
    forget_everywhere(&s->line);
    for (struct object *o = emu_objects; o; o = o->next)
        if (o->kind == EVENT && ((struct event *)o)->line == &s->line)
            ((struct event *)o)->line = NULL;
}
