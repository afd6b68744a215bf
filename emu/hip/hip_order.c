/* SPDX-License-Identifier: MIT
 *
 * Races between streams (hip_impl.h). */
#include "hip_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "emu/check/watch.h"

#define QUEUES   (EMU_MAX_DEVICES + 192) /* default streams first */
#define MOST     4096                    /* runs of bytes of an operation */
#define NAME_LEN 160

/* How many of each queue's operations are over. */
struct emu_order {
    uint64_t at[QUEUES];
};
struct queue {
    struct emu_order clock; /* what is over before its next operation */
    uint64_t n;             /* its operations so far */
    bool used;
};
/* Bytes that an operation touched. */
struct record {
    uint64_t lo, hi, n;
    int queue;
    unsigned how; /* enum emu_touch */
    int name;
};
/* Host memory of a copy that the host doesn't know to be over. */
struct pinned {
    const void *p;
    size_t size;
    uint64_t sum, n;
    int queue, name;
};

static struct queue queues[QUEUES];
static struct emu_order host;
static struct record *records;
static struct pinned *pinned;
static char (*names)[NAME_LEN];
static int n_records, record_room, n_pinned, pinned_room, n_names, name_room;

/* The operation under way. */
static struct {
    struct emu_order clock;
    int queue, name, first; /* its first record */
    bool on, told;
} op;

bool emu_order_wanted(void)
{
    return emu_checks_wanted() & EMU_CHECK_STREAMS;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static void join(struct emu_order *to, const struct emu_order *from)
{
    for (int q = 0; q < QUEUES; q++)
        to->at[q] = to->at[q] > from->at[q] ? to->at[q] : from->at[q];
}

static int default_queue(const struct device *d)
{
    return d ? (int)(d - emu_devices) : 0;
}

static int queue_of(hipStream_t stream)
{
    struct stream *s = (struct stream *)stream;
    if (!s)
        return default_queue(emu_here());
    if (s->queue)
        return s->queue;
    int q = EMU_MAX_DEVICES;
    while (q < QUEUES - 1 && queues[q].used)
        q++;
    queues[q].used = true; /* the last one is shared by those for whom there is none: ordered, where they may not be */
    return s->queue = q;
}

/* What is over before the stream's next operation. The default stream waits for blocking streams, and these for it. */
static void clock_of(hipStream_t stream, struct emu_order *clock)
{
    const struct stream *s = (const struct stream *)stream;
    int q = queue_of(stream);
    *clock = queues[q].clock;
    join(clock, &host);
    if (s && !(s->flags & hipStreamNonBlocking))
        join(clock, &queues[default_queue(s->device)].clock);
    for (struct object *o = emu_objects; o && !s; o = o->next) {
        struct stream *other = (struct stream *)o;
        if (o->kind == STREAM && !(other->flags & hipStreamNonBlocking) && default_queue(other->device) == q)
            join(clock, &queues[queue_of((hipStream_t)other)].clock);
    }
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static const char *name_of(int name)
{
    return name < n_names ? names[name] : "an operation";
}

static const char *did(unsigned how)
{
    return how & EMU_TOUCH_WRITE ? "writes" : how & EMU_TOUCH_ATOMIC ? "changes by atomics" : "reads";
}

static void report_race(const struct record *a, const struct record *b)
{
    uint64_t lo = a->lo > b->lo ? a->lo : b->lo, hi = a->hi < b->hi ? a->hi : b->hi;
    char where[200] = "host memory";
    const struct emu_block *block = emu_find_block((void *)(uintptr_t)lo);
    if (block)
        snprintf(where, sizeof(where), "bytes %llu to %llu of allocation %llu", (unsigned long long)(lo - block->lo),
                 (unsigned long long)(hi - 1 - block->lo), (unsigned long long)block->number);
    emu_report_launch(NULL, "stream-race", "%s %s %s, which %s %s: no event, synchronisation or stream orders them",
                      name_of(b->name), did(b->how), where, name_of(a->name), did(a->how));
    op.told = true;
}

/* ---- who touched what -------------------------------------------------------------------------------------------- */

static void *room_for(void *list, int n, int *room, size_t size)
{
    if (n < *room)
        return list;
    int more = *room ? 2 * *room : 256;
    void *grown = realloc(list, (size_t)more * size);
    if (grown)
        *room = more;
    return grown ? grown : list;
}

/* Drops operations that no later one can be concurrent with. */
static void forget_what_is_over(void)
{
    int n = 0;
    for (int i = 0; i < n_records; i++)
        if (records[i].n > host.at[records[i].queue])
            records[n++] = records[i];
    n_records = n;
    if (!n_records && !n_pinned)
        n_names = 0;
}

static bool conflict(unsigned a, unsigned b)
{
    return (a | b) & EMU_TOUCH_WRITE || (a != b && (a | b) & EMU_TOUCH_ATOMIC);
}

/* Host memory of copies whose bytes an operation of a stream changes is no longer judged. */
static void drop_pinned(uint64_t lo, uint64_t hi)
{
    int n = 0;
    for (int i = 0; i < n_pinned; i++) {
        uint64_t from = (uint64_t)(uintptr_t)pinned[i].p;
        if (from >= hi || from + pinned[i].size <= lo)
            pinned[n++] = pinned[i];
    }
    n_pinned = n;
}

static void touch(void *arg, uint64_t lo, uint64_t hi, enum emu_touch how)
{
    struct record now = { lo, hi, queues[op.queue].n, op.queue, how, op.name };
    const int first = op.first;
    int n = 0;
    (void)arg;
    if (!op.on || n_records - op.first >= MOST)
        return;
    for (int i = 0; i < n_records; i++) {
        struct record *r = &records[i];
        bool meets = r->lo < hi && lo < r->hi;
        if (meets && conflict(r->how, how) && r->n > op.clock.at[r->queue] && !op.told)
            report_race(r, &now);
        /* Operations ordered with this one are ordered with that one too. */
        bool covered = r->queue == now.queue && r->n < now.n && lo <= r->lo && r->hi <= hi &&
                       (how == EMU_TOUCH_WRITE || how == (enum emu_touch)r->how);
        if (!covered)
            records[n++] = *r;
        else if (i < first)
            op.first--;
    }
    n_records = n;
    if (how != EMU_TOUCH_READ)
        drop_pinned(lo, hi);
    records = room_for(records, n_records, &record_room, sizeof(*records));
    if (n_records < record_room)
        records[n_records++] = now;
}

void emu_order_begin(hipStream_t stream, const char *fmt, ...)
{
    va_list ap;
    op.on = emu_order_wanted();
    if (!op.on)
        return;
    names = room_for(names, n_names, &name_room, sizeof(*names));
    op.name = n_names;
    if (n_names < name_room) {
        char what[96], on[40] = "the default stream";
        va_start(ap, fmt);
        vsnprintf(what, sizeof(what), fmt, ap);
        va_end(ap);
        if (stream)
            snprintf(on, sizeof(on), "stream %p", (void *)stream);
        snprintf(names[n_names++], NAME_LEN, "%s on %s", what, on);
    }
    clock_of(stream, &op.clock);
    op.queue = queue_of(stream);
    op.clock.at[op.queue] = ++queues[op.queue].n;
    op.first = n_records;
    op.told = false;
}

void emu_order_host_function(hipStream_t stream)
{
    emu_order_begin(stream, "a function of the host");
    if (op.on)
        drop_pinned(0, UINT64_MAX); /* it may change what it likes */
    emu_order_end(NULL, 0);
}

void emu_order_touch(const void *p, size_t size, enum emu_touch how)
{
    touch(NULL, (uint64_t)(uintptr_t)p, (uint64_t)(uintptr_t)p + size, how);
}

void emu_order_touched(const struct emu_touched *t)
{
    if (op.on && t && !emu_touched_each(t, touch, NULL))
        rfg_warn("emu: races between streams: no memory for all that a kernel touched");
}

/* ---- host memory ------------------------------------------------------------------------------------------------- */

bool emu_order_end(const void *p, size_t size)
{
    if (!op.on)
        return true;
    queues[op.queue].clock = op.clock;
    op.on = false;
    pinned = room_for(pinned, n_pinned, &pinned_room, sizeof(*pinned));
    if (p && n_pinned < pinned_room)
        pinned[n_pinned++] = (struct pinned){ p, size, XXH3_64bits(p, size), queues[op.queue].n, op.queue, op.name };
    return !op.told;
}

/* The host learns which operations are over. Until now it must not have changed their bytes. */
static void host_learns(const struct emu_order *of)
{
    int n = 0;
    join(&host, of);
    for (int i = 0; i < n_pinned; i++) {
        const struct pinned *m = &pinned[i];
        if (m->n > host.at[m->queue])
            pinned[n++] = *m;
        else if (XXH3_64bits(m->p, m->size) != m->sum)
            emu_report_launch(NULL, "host-race", "the host changed bytes of the %zu at %p before it waited for %s",
                              m->size, m->p, name_of(m->name));
    }
    n_pinned = n;
    forget_what_is_over();
}

void emu_order_host_gone(const void *p, size_t size, const char *call)
{
    uint64_t lo = (uint64_t)(uintptr_t)p;
    for (int i = 0; i < n_records && emu_order_wanted(); i++)
        if (records[i].lo < lo + size && lo < records[i].hi && records[i].n > host.at[records[i].queue])
            emu_report_launch(NULL, "host-race", "%s of %zu bytes at %p, which %s %s: the host didn't wait for it",
                              call, size, p, name_of(records[i].name), did(records[i].how));
    drop_pinned(lo, lo + size);
}

/* ---- what orders ------------------------------------------------------------------------------------------------- */

void emu_order_record(struct event *e, hipStream_t stream)
{
    if (!emu_order_wanted() || (!e->order && !(e->order = malloc(sizeof(*e->order)))))
        return;
    clock_of(stream, e->order);
    queues[queue_of(stream)].clock = *e->order;
}

void emu_order_wait(hipStream_t stream, const struct event *e)
{
    struct emu_order clock;
    if (!emu_order_wanted() || !e->order)
        return;
    clock_of(stream, &clock);
    join(&clock, e->order);
    queues[queue_of(stream)].clock = clock;
}

void emu_order_forget(struct event *e)
{
    free(e->order);
    e->order = NULL;
}

void emu_order_host_stream(hipStream_t stream)
{
    struct emu_order clock;
    if (!emu_order_wanted())
        return;
    clock_of(stream, &clock);
    host_learns(&clock);
}

void emu_order_host_event(const struct event *e)
{
    if (emu_order_wanted() && e->order)
        host_learns(e->order);
}

void emu_order_host_all(void)
{
    struct emu_order all;
    if (!emu_order_wanted())
        return;
    for (int q = 0; q < QUEUES; q++)
        all.at[q] = queues[q].n;
    host_learns(&all);
}

void emu_order_destroy(struct stream *s)
{
    if (s->queue)
        queues[s->queue].used = false;
}
