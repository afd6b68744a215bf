/* SPDX-License-Identifier: MIT */
#include "l2.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The record of an instruction: runs of neighbouring lines, 64 bits each. */
#define RUN_LINES     64u         /* at most: 0 to 63 in bits 0 to 5 */
#define RUN_FETCH     (1ull << 6) /* not a store */
#define RUN_LAST      (1ull << 7) /* of the instruction */
#define RUN_OF(first) ((first) << 8)

struct emu_l2_wave {
    uint64_t *run;
    uint32_t n, capacity;
};

struct emu_l2 {
    struct emu_l2_shape shape;
    _Atomic bool incomplete;
    struct emu_l2_wave wave[]; /* by workgroup, then by wave */
};

struct emu_l2 *emu_l2_create(const struct emu_l2_shape *shape)
{
    size_t waves = (size_t)shape->workgroups * (size_t)shape->waves;
    struct emu_l2 *l = calloc(1, sizeof(*l) + waves * sizeof(l->wave[0]));
    if (l)
        l->shape = *shape;
    return l;
}

void emu_l2_destroy(struct emu_l2 *l)
{
    size_t waves = l ? (size_t)l->shape.workgroups * (size_t)l->shape.waves : 0;
    for (size_t i = 0; i < waves; i++)
        free(l->wave[i].run);
    free(l);
}

struct emu_l2_wave *emu_l2_wave(struct emu_l2 *l, uint64_t workgroup, int wave)
{
    return &l->wave[workgroup * (uint64_t)l->shape.waves + (uint64_t)wave];
}

static void append(struct emu_l2 *l, struct emu_l2_wave *w, uint64_t run)
{
    if (w->n == w->capacity) {
        uint32_t capacity = w->capacity ? w->capacity + w->capacity / 2 : 32;
        uint64_t *grown = realloc(w->run, capacity * sizeof(*grown));
        if (!grown) {
            atomic_store(&l->incomplete, true);
            return;
        }
        w->run = grown;
        w->capacity = capacity;
    }
    w->run[w->n++] = run;
}

void emu_l2_record(struct emu_l2 *l, struct emu_l2_wave *w, const uint64_t *line, int n, bool fetch)
{
    uint64_t kind = fetch ? RUN_FETCH : 0, first = line[0] / 2, count = 1;
    for (int i = 1; i < n; i++) {
        uint64_t next = line[i] / 2;
        if (next == first + count - 1)
            continue;
        if (next == first + count && count < RUN_LINES) {
            count++;
            continue;
        }
        append(l, w, RUN_OF(first) | kind | (count - 1));
        first = next;
        count = 1;
    }
    append(l, w, RUN_OF(first) | kind | RUN_LAST | (count - 1));
}

/* ---- a cache: least recently used, any line anywhere ------------------------------------------------------------- */

#define NOWHERE UINT32_MAX

struct entry {
    uint64_t line;
    uint32_t newer, older; /* in the order of use */
    uint32_t next;         /* in its bucket */
};

struct cache {
    struct entry *entry;
    uint32_t *bucket;
    uint32_t n, capacity, newest, oldest;
    int bits; /* log2 of the buckets */
};

static bool cache_open(struct cache *c, uint64_t bytes)
{
    *c = (struct cache){ .capacity = (uint32_t)(bytes / EMU_L2_LINE), .newest = NOWHERE, .oldest = NOWHERE };
    c->capacity = c->capacity ? c->capacity : 1;
    while (1u << c->bits < c->capacity)
        c->bits++;
    c->entry = calloc(c->capacity, sizeof(*c->entry));
    c->bucket = malloc(sizeof(*c->bucket) << c->bits);
    for (uint32_t i = 0; c->bucket && i < 1u << c->bits; i++)
        c->bucket[i] = NOWHERE;
    return c->entry && c->bucket;
}

static void cache_close(struct cache *c)
{
    free(c->entry);
    free(c->bucket);
}

static uint32_t *bucket_of(struct cache *c, uint64_t line)
{
    return &c->bucket[c->bits ? line * 0x9E3779B97F4A7C15ull >> (64 - c->bits) : 0];
}

static void unlink_use(struct cache *c, uint32_t i)
{
    struct entry *e = &c->entry[i];
    *(e->newer == NOWHERE ? &c->newest : &c->entry[e->newer].older) = e->older;
    *(e->older == NOWHERE ? &c->oldest : &c->entry[e->older].newer) = e->newer;
}

static void link_newest(struct cache *c, uint32_t i)
{
    c->entry[i].newer = NOWHERE;
    c->entry[i].older = c->newest;
    *(c->newest == NOWHERE ? &c->oldest : &c->entry[c->newest].newer) = i;
    c->newest = i;
}

/* Uses the line. True: it was there. */
static bool cache_use(struct cache *c, uint64_t line)
{
    uint32_t *bucket = bucket_of(c, line), i = *bucket;
    while (i != NOWHERE && c->entry[i].line != line)
        i = c->entry[i].next;
    bool there = i != NOWHERE;
    if (there) {
        unlink_use(c, i);
    } else {
        if (c->n < c->capacity) {
            i = c->n++;
        } else {
            i = c->oldest;
            unlink_use(c, i);
            uint32_t *at = bucket_of(c, c->entry[i].line);
            while (*at != i)
                at = &c->entry[*at].next;
            *at = c->entry[i].next;
        }
        c->entry[i].line = line;
        c->entry[i].next = *bucket;
        *bucket = i;
    }
    link_newest(c, i);
    return there;
}

/* ---- an XCD's workgroups ----------------------------------------------------------------------------------------- */

/* A place for a workgroup, and how far its waves are. */
struct place {
    uint64_t workgroup;
    uint32_t *at; /* by wave */
};

/* One instruction of the wave. False: it has no more. */
static bool step(const struct emu_l2_wave *w, uint32_t *at, struct cache *c, uint64_t *asked, uint64_t *fetched)
{
    uint64_t run = 0;
    if (*at == w->n)
        return false;
    do {
        run = w->run[(*at)++];
        uint64_t first = run >> 8, n = run % RUN_LINES + 1;
        *asked += n;
        for (uint64_t i = 0; i < n; i++)
            if (!cache_use(c, first + i) && run & RUN_FETCH)
                ++*fetched;
    } while (!(run & RUN_LAST) && *at < w->n);
    return true;
}

/* All workgroups that the XCD holds take turns, in which each of their waves does an instruction. One that is done
 * makes place for the XCD's next. */
static bool count_xcd(const struct emu_l2 *l, int xcd, uint64_t *asked, uint64_t *fetched)
{
    const struct emu_l2_shape *s = &l->shape;
    struct cache c;
    struct place *place = calloc((size_t)s->resident, sizeof(*place));
    uint32_t *at = calloc((size_t)s->resident * (size_t)s->waves, sizeof(*at));
    bool ok = cache_open(&c, s->bytes) && place && at;
    uint64_t next = (uint64_t)xcd;
    int n = 0;
    for (; ok && n < s->resident && next < s->workgroups; n++, next += (uint64_t)s->xcds)
        place[n] = (struct place){ next, at + (size_t)n * (size_t)s->waves };
    while (ok && n) {
        for (int i = 0; i < n; i++) {
            bool ran = false;
            for (int w = 0; w < s->waves; w++)
                ran |= step(&l->wave[place[i].workgroup * (uint64_t)s->waves + (uint64_t)w], &place[i].at[w], &c, asked,
                            fetched);
            if (ran)
                continue;
            if (next < s->workgroups) { /* its turn is now: its predecessor's end took none */
                for (int w = 0; w < s->waves; w++)
                    place[i].at[w] = 0;
                place[i].workgroup = next;
                next += (uint64_t)s->xcds;
            } else {
                place[i] = place[--n];
            }
            i--;
        }
    }
    cache_close(&c);
    free(place);
    free(at);
    return ok;
}

bool emu_l2_count(const struct emu_l2 *l, uint64_t *asked, uint64_t *fetched)
{
    bool complete = !atomic_load(&l->incomplete);
    *asked = *fetched = 0;
    for (int xcd = 0; xcd < l->shape.xcds; xcd++)
        complete &= count_xcd(l, xcd, asked, fetched);
    return complete;
}
