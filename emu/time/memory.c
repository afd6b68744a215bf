/* SPDX-License-Identifier: MIT
 *
 * Vector and scalar memory of an XCD: each CU's L1 and its port to the L2, the L2's tags and bandwidth, and the XCD's
 * share of the last cache and of memory. A CU's own resources are times from which on they are free. Those of the XCD
 * are asked by CUs whose requests come a little out of order, so they have a calendar: what comes earlier finds the room
 * that is left before. A line that is under way is in the cache already, with the time of its arrival. */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

#define LINE         128
#define WAYS         16
#define HALVES       1024
#define HALF_CYCLES  200 /* in which the other half of 256 bytes comes with a line */
#define SCALAR_LINES 128 /* 16 KiB of 128 bytes, of two CUs */

struct entry {
    uint64_t line; /* + 1; 0: empty */
    uint32_t used, arrival;
};

struct cache {
    struct entry *entry;
    uint64_t sets;
    uint32_t turn;
};

/* A bandwidth: what is taken of each stretch of time. */
#define STRETCH  32u        /* cycles */
#define CALENDAR (1u << 15) /* stretches that are remembered, a power of 2 */
struct stretch {
    uint32_t number, taken; /* fine cycles */
    uint32_t next;          /* the first that may have room, from this one on */
};
struct server {
    struct stretch *stretch;
};

struct unit {
    struct cache l1;
    uint64_t address; /* free at; fine */
    uint64_t port;
    uint64_t *miss; /* when the last ones arrive: a ring */
    uint32_t n_misses;
};

struct emu_time_memory {
    struct emu_time_memory_shape s;
    struct unit *unit;
    struct cache *scalar; /* by pairs of units */
    struct cache l2;
    struct server l2_server, fabric, hbm, atomic, writes;
    uint64_t flushed; /* fine */
    struct half {
        uint64_t pair, at; /* fine */
    } half[HALVES];        /* lines fetched from memory lately */
    uint64_t l2_line, fabric_line, hbm_line, write_line, atomic_line, port_line, l1_fine64;
    uint64_t l1_latency, l2_latency, mall_latency, hbm_latency, scalar_latency;
    uint32_t miss_most;
    struct emu_time_traffic traffic;
    size_t block; /* the last one found */
};

/* ---- caches ------------------------------------------------------------------------------------------------------ */

static bool cache_open(struct cache *c, uint64_t lines)
{
    c->sets = lines / WAYS ? lines / WAYS : 1;
    c->entry = calloc(c->sets * WAYS, sizeof(*c->entry));
    return c->entry;
}

/* The line's entry; NULL: it wasn't there, and *place is its own now. */
static struct entry *find(struct cache *c, uint64_t line, struct entry **place)
{
    struct entry *e = &c->entry[(line * 0x9E3779B97F4A7C15ull >> 32) % c->sets * WAYS], *oldest = e;
    for (int i = 0; i < WAYS; i++) {
        if (e[i].line == line + 1) {
            e[i].used = ++c->turn;
            return &e[i];
        }
        if (e[i].used < oldest->used)
            oldest = &e[i];
    }
    oldest->line = line + 1;
    oldest->used = ++c->turn;
    *place = oldest;
    return NULL;
}

/* ---- bandwidths -------------------------------------------------------------------------------------------------- */

static bool server_open(struct server *s)
{
    s->stretch = calloc(CALENDAR, sizeof(*s->stretch));
    for (uint32_t i = 0; s->stretch && i < CALENDAR; i++)
        s->stretch[i] = (struct stretch){ .number = i, .next = i };
    return s->stretch;
}

static struct stretch *stretch_of(struct server *s, uint32_t number)
{
    struct stretch *e = &s->stretch[number % CALENDAR];
    if (e->number != number)
        *e = (struct stretch){ .number = number, .next = number };
    return e;
}

/* The first stretch from this one on that has room; those on the way learn it. */
static uint32_t with_room(struct server *s, uint32_t number)
{
    uint32_t found = number;
    while (stretch_of(s, found)->next != found)
        found = stretch_of(s, found)->next;
    while (number != found) {
        struct stretch *e = stretch_of(s, number);
        number = e->next;
        e->next = found;
    }
    return found;
}

/* Takes `cost` from `at` on or from when there is room (fine cycles): when it is done. */
static uint64_t serve(struct server *s, uint64_t at, uint64_t cost)
{
    const uint64_t all = STRETCH * EMU_FINE;
    uint32_t number = with_room(s, (uint32_t)(at / all));
    uint64_t begin = at, done = at + cost;
    for (bool first = true; cost; first = false) {
        struct stretch *e = stretch_of(s, number);
        uint64_t part = cost < all - e->taken ? cost : all - e->taken, from = number * all + e->taken;
        begin = first && from < at ? at : from;
        e->taken += (uint32_t)part;
        cost -= part;
        done = begin + part;
        if (e->taken == all)
            e->next = number + 1;
        if (cost)
            number = with_room(s, number);
    }
    return done;
}

/* ---- the shape --------------------------------------------------------------------------------------------------- */

/* Fine cycles of one line at so many bytes a cycle. */
static uint64_t a_line(double bytes_a_cycle)
{
    double cycles = bytes_a_cycle > 0 ? LINE / bytes_a_cycle : 0;
    return (uint64_t)(cycles * EMU_FINE + 0.5);
}

static void take_shape(struct emu_time_memory *m)
{
    const struct emu_time_params *p = m->s.p;
    const struct emu_time_trace *t = m->s.t;
    double active = t->n_workgroups < (uint64_t)t->xcds ? (double)t->n_workgroups : (double)t->xcds;
    double ns = m->s.mhz * 1e-3, gbps = 1e3 / m->s.mhz / active; /* cycles a ns; GB/s in bytes a cycle of the XCD */
    m->l2_line = a_line(p->l2_bytes);
    m->fabric_line = a_line(p->mall_gbps * gbps);
    m->hbm_line = a_line(p->hbm_gbps * gbps);
    m->write_line = a_line(p->write_gbps * gbps);
    m->atomic_line = p->atomic_lines > 0 ? (uint64_t)(EMU_FINE / p->atomic_lines) : 0;
    m->port_line = a_line(p->port_bytes);
    m->l1_fine64 = a_line(p->l1_bytes) / 2;
    m->l1_latency = (uint64_t)p->l1_latency;
    m->l2_latency = (uint64_t)p->l2_latency;
    m->mall_latency = p->mall_ns > 0 ? (uint64_t)(p->mall_ns * ns) : (uint64_t)(p->hbm_ns * ns);
    m->hbm_latency = (uint64_t)(p->hbm_ns * ns);
    m->scalar_latency = (uint64_t)p->scalar_cycles;
    m->miss_most = p->miss_lines >= 1 ? (uint32_t)p->miss_lines : 1;
}

struct emu_time_memory *emu_time_memory_create(const struct emu_time_memory_shape *s)
{
    struct emu_time_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->s = *s;
    take_shape(m);
    m->unit = calloc((size_t)s->units, sizeof(*m->unit));
    m->scalar = calloc((size_t)s->units / 2 + 1, sizeof(*m->scalar));
    bool ok = m->unit && m->scalar && cache_open(&m->l2, (uint64_t)s->p->l2_kib * 1024 / LINE) &&
              server_open(&m->l2_server) && server_open(&m->fabric) && server_open(&m->hbm) &&
              server_open(&m->atomic) && server_open(&m->writes);
    for (int i = 0; ok && i < s->units; i++) {
        m->unit[i].miss = calloc(m->miss_most, sizeof(*m->unit[i].miss));
        ok = m->unit[i].miss && cache_open(&m->unit[i].l1, (uint64_t)s->p->l1_kib * 1024 / LINE) &&
             (i % 2 || cache_open(&m->scalar[i / 2], SCALAR_LINES));
    }
    if (ok)
        return m;
    emu_time_memory_free(m);
    return NULL;
}

void emu_time_memory_free(struct emu_time_memory *m)
{
    if (!m)
        return;
    for (int i = 0; m->unit && i < m->s.units; i++) {
        free(m->unit[i].l1.entry);
        free(m->unit[i].miss);
    }
    for (int i = 0; m->scalar && i < m->s.units / 2 + 1; i++)
        free(m->scalar[i].entry);
    free(m->unit);
    free(m->scalar);
    free(m->l2.entry);
    free(m->l2_server.stretch);
    free(m->fabric.stretch);
    free(m->hbm.stretch);
    free(m->atomic.stretch);
    free(m->writes.stretch);
    free(m);
}

/* ---- behind the L1 ----------------------------------------------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static double share_of(struct emu_time_memory *m, uint64_t line)
{
    const struct emu_time_trace *t = m->s.t;
    if (m->block >= t->n_blocks || line < t->block[m->block].lo || line >= t->block[m->block].hi)
        m->block = emu_time_block_of(t, line);
    return m->block < t->n_blocks ? t->block[m->block].share : 1;
}

/* What a line costs of the memory's bandwidth: more if it is fetched without the other half of its 256 bytes, which lie in
 * one channel, and as much less if that came just before. */
static double half_cost(struct emu_time_memory *m, uint64_t line, uint64_t at)
{
    struct half *h = &m->half[(line / 2) % HALVES];
    bool second = h->pair == line / 2 + 1 && at - h->at < HALF_CYCLES * EMU_FINE;
    *h = (struct half){ second ? 0 : line / 2 + 1, at };
    return second ? 2 - m->s.p->hbm_half : m->s.p->hbm_half;
}

/* A line asked of the L2 at `at` (fine): when it is there (cycles). */
static uint64_t from_l2(struct emu_time_memory *m, uint64_t line, uint64_t at)
{
    struct entry *place, *e;
    uint64_t begin = serve(&m->l2_server, at, m->l2_line);
    m->traffic.l2_bytes += LINE;
    e = find(&m->l2, line, &place);
    if (e)
        return later(begin / EMU_FINE + m->l2_latency, e->arrival);
    begin = serve(&m->fabric, begin, m->fabric_line);
    m->traffic.fabric_bytes += LINE;
    m->traffic.fabric_cycles += (double)m->fabric_line / EMU_FINE;
    uint64_t arrival = begin / EMU_FINE + m->mall_latency;
    if (m->s.cold) {
        double share = share_of(m, line);
        uint64_t cost = (uint64_t)((double)m->hbm_line * half_cost(m, line, begin) / share);
        begin = serve(&m->hbm, begin, cost);
        m->traffic.hbm_bytes += LINE / share;
        m->traffic.hbm_cycles += (double)cost / EMU_FINE;
        arrival = begin / EMU_FINE + m->hbm_latency;
    }
    place->arrival = (uint32_t)arrival;
    return arrival;
}

/* ---- a CU's accesses --------------------------------------------------------------------------------------------- */

/* Until when the address unit and the L1's data path are taken: 16 lanes a cycle at best. */
static uint64_t take_address(struct emu_time_memory *m, struct unit *u, uint64_t now, const struct emu_time_access *a,
                             uint64_t *taken)
{
    uint64_t cost = (uint64_t)a->lines64 * m->l1_fine64, begin = later(now * EMU_FINE, u->address);
    if (cost < 4 * EMU_FINE)
        cost = 4 * EMU_FINE;
    u->address = begin + cost;
    m->traffic.l1_cycles += (double)cost / EMU_FINE;
    *taken = u->address / EMU_FINE;
    return begin;
}

uint64_t emu_time_address_free(const struct emu_time_memory *m, int unit)
{
    return m->unit[unit].address / EMU_FINE;
}

uint64_t emu_time_load(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a,
                       uint64_t *taken)
{
    struct unit *u = &m->unit[unit];
    uint64_t begin = take_address(m, u, now, a, taken), done = *taken + m->l1_latency;
    for (uint32_t k = 0; k < a->n; k++) {
        uint64_t run = m->s.t->line[a->first + k], first = run >> 8, n = run & 255;
        for (uint64_t line = first; line < first + n; line++) {
            struct entry *place, *e = find(&u->l1, line, &place);
            if (e) {
                done = later(done, e->arrival);
                continue;
            }
            uint64_t slot = u->miss[u->n_misses % m->miss_most] * EMU_FINE;
            begin = u->port = later(later(begin, slot), u->port) + m->port_line;
            uint64_t arrival = from_l2(m, line, begin);
            u->miss[u->n_misses++ % m->miss_most] = arrival;
            place->arrival = (uint32_t)arrival;
            done = later(done, arrival);
        }
    }
    return done;
}

uint64_t emu_time_store(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a,
                        uint64_t *taken)
{
    struct unit *u = &m->unit[unit];
    uint64_t begin = take_address(m, u, now, a, taken);
    for (uint32_t k = 0; k < a->n; k++) {
        uint64_t run = m->s.t->line[a->first + k], first = run >> 8, n = run & 255;
        for (uint64_t line = first; line < first + n; line++) {
            struct entry *place = NULL, *e = find(&m->l2, line, &place);
            begin = u->port = later(begin, u->port) + m->port_line;
            begin = serve(&m->l2_server, begin, m->l2_line);
            m->traffic.l2_bytes += LINE;
            if (e)
                continue; /* another part of a line that is on its way out */
            place->arrival = (uint32_t)(begin / EMU_FINE);
            m->flushed = later(m->flushed, serve(&m->writes, begin, m->write_line));
            m->traffic.write_bytes += LINE;
        }
    }
    return begin / EMU_FINE + m->l2_latency;
}

/* Of lines that several XCDs may want: done behind the L2. */
uint64_t emu_time_atomic(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a,
                         uint64_t *taken)
{
    struct unit *u = &m->unit[unit];
    uint64_t begin = take_address(m, u, now, a, taken);
    for (uint32_t k = 0; k < a->n; k++)
        for (uint64_t n = m->s.t->line[a->first + k] & 255; n; n--) {
            begin = u->port = later(begin, u->port) + m->port_line;
            begin = serve(&m->atomic, begin, m->atomic_line);
            m->flushed = later(m->flushed, serve(&m->fabric, begin, m->fabric_line));
            m->traffic.fabric_bytes += LINE;
            m->traffic.fabric_cycles += (double)m->fabric_line / EMU_FINE;
        }
    return begin / EMU_FINE + m->mall_latency;
}

uint64_t emu_time_scalar(struct emu_time_memory *m, int unit, uint64_t now, const struct emu_time_access *a)
{
    uint64_t done = now + m->scalar_latency;
    for (uint32_t k = 0; k < a->n; k++) {
        uint64_t run = m->s.t->line[a->first + k], first = run >> 8, n = run & 255;
        for (uint64_t line = first; line < first + n; line++) {
            struct entry *place, *e = find(&m->scalar[unit / 2], line, &place);
            if (!e)
                place->arrival = (uint32_t)from_l2(m, line, now * EMU_FINE);
            done = later(done, e ? e->arrival : place->arrival);
        }
    }
    return done;
}

uint64_t emu_time_flush(const struct emu_time_memory *m)
{
    return m->flushed / EMU_FINE;
}

void emu_time_traffic(const struct emu_time_memory *m, struct emu_time_traffic *out)
{
    *out = m->traffic;
}
