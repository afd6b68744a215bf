/* SPDX-License-Identifier: MIT
 *
 * Replays the waves of an XCD's workgroups on its CUs. The waves are in a heap by the time at which each could issue its
 * next instruction: operands ready, counters waited for, code fetched. The earliest issues, and takes what it needs of
 * its SIMD and CU from then on, or from when that is free. */
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#define REGISTERS  (512 + 256)
#define RING       64   /* of accesses under way: a counter's most */
#define CODE_LINES 8192 /* of 128 bytes, that are told apart */
#define MAX_SIMDS  4

const char *const emu_time_stall_names[EMU_STALLS] = { "issue", "operand", "pipe", "vmem", "lds", "barrier", "fetch" };

struct wave {
    const struct emu_time_path *path;
    const struct emu_time_wave *of;
    uint64_t now; /* when its next instruction could issue */
    uint64_t born;
    uint32_t run, at;                        /* where it is */
    uint32_t accesses;                       /* made */
    uint64_t vm[RING], lgkm[RING], vs[RING]; /* when they are done, in order */
    uint32_t n_vm, n_lgkm, n_vs;
    uint64_t scalar; /* the last scalar load is done */
    uint32_t unit, simd, group;
    uint32_t code; /* line + 1 that it executes from */
    uint8_t why;   /* what its next instruction waits for */
    bool waiting;  /* at a barrier */
    uint32_t ready[REGISTERS];
};

struct simd {
    uint64_t valu, matrix, other;
    uint32_t waves;
};
struct unit {
    struct simd simd[MAX_SIMDS];
    uint64_t lds, lds_half[MAX_SIMDS];
    uint32_t groups;
};
struct group {
    uint32_t first; /* wave */
    uint32_t left, arrived, unit;
    uint64_t latest;
};

/* In the heap. */
struct place {
    uint64_t now;
    uint32_t wave;
};

struct sim {
    struct emu_time_run_shape s;
    const struct emu_time_params *p;
    struct emu_time_memory *memory;
    struct wave *wave; /* places, for what is resident */
    struct place *heap;
    uint32_t n_heap;
    struct unit *unit;
    struct group *group; /* places too */
    uint32_t n_places, *free_place, n_free;
    uint64_t *code; /* by pair of units and line: when it is there */
    size_t next;    /* group of the trace */
    uint64_t dispatch, end;
    uint32_t issue, valu_latency, salu_latency, trans, forward, tail, branch, wait, barrier, lds_latency, lds_ports;
    uint32_t fetch, ahead, queue, scales;
    struct emu_time_outcome *out;
};

/* ---- the heap ---------------------------------------------------------------------------------------------------- */

static bool earlier(const struct place *a, const struct place *b)
{
    return a->now < b->now || (a->now == b->now && a->wave < b->wave);
}

static void push(struct sim *m, uint32_t w)
{
    struct place p = { m->wave[w].now, w };
    uint32_t at = m->n_heap++;
    for (; at && earlier(&p, &m->heap[(at - 1) / 2]); at = (at - 1) / 2)
        m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = p;
}

/* Puts p where the first one was. */
static void sink(struct sim *m, struct place p)
{
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= m->n_heap)
            break;
        child += child + 1 < m->n_heap && earlier(&m->heap[child + 1], &m->heap[child]);
        if (!earlier(&m->heap[child], &p))
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = p;
}

static void pop(struct sim *m)
{
    struct place last = m->heap[--m->n_heap];
    if (m->n_heap)
        sink(m, last);
}

/* ---- when a wave's next instruction could issue ------------------------------------------------------------------ */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int index_of(unsigned reg)
{
    return reg < 256 ? (int)reg : reg < 768 ? (int)reg : -1;
}

static const struct emu_time_inst *current(const struct sim *m, const struct wave *w)
{
    return &m->s.t->inst[m->s.t->run[w->path->first + w->run].first + w->at];
}

static uint64_t operands(const struct sim *m, const struct wave *w, const struct emu_time_inst *i)
{
    uint64_t t = 0;
    for (int k = 0; k < i->n_reads; k++) {
        int first = index_of(i->read[k].reg);
        for (int r = first; first >= 0 && r < first + i->read[k].words && r < REGISTERS; r++) {
            uint64_t ready = w->ready[r];
            if (i->read[k].is_c && ready > m->tail - m->forward)
                ready -= m->tail - m->forward;
            t = later(t, ready);
        }
    }
    return t;
}

/* Of a counter that may be at `limit` at most. */
static uint64_t counter(const uint64_t ring[RING], uint32_t n, uint32_t limit)
{
    return n > limit && limit < RING ? ring[(n - limit - 1) % RING] : 0;
}

static uint64_t waits(const struct wave *w, const struct emu_time_inst *i, uint64_t t, uint8_t *why)
{
    unsigned vm = i->wait >> EMU_WAIT_VM & 255, lgkm = i->wait >> EMU_WAIT_LGKM & 255,
             vs = i->wait >> EMU_WAIT_VS & 255, km = i->wait >> EMU_WAIT_KM & 255;
    uint64_t until = 0;
    if (vm && (until = counter(w->vm, w->n_vm, vm - 1)) > t)
        t = until, *why = EMU_STALL_VMEM;
    if (vs && (until = counter(w->vs, w->n_vs, vs - 1)) > t)
        t = until, *why = EMU_STALL_VMEM;
    if (lgkm && (until = counter(w->lgkm, w->n_lgkm, lgkm - 1)) > t)
        t = until, *why = EMU_STALL_LDS;
    /* scalar loads come back in any order: only 0 is sure, and nobody waits for more */
    if ((lgkm == 1 || km == 1) && w->scalar > t)
        t = w->scalar, *why = EMU_STALL_LDS;
    return t;
}

/* The code's line is there: a miss fetches the next ones too. */
static uint64_t fetched(struct sim *m, struct wave *w, uint32_t address, uint64_t now)
{
    uint32_t line = address / 128 % CODE_LINES;
    if (w->code == line + 1)
        return now;
    w->code = line + 1;
    uint64_t *code = m->code + (size_t)(w->unit / 2) * CODE_LINES;
    for (uint32_t k = 0; k <= m->ahead && !code[line]; k++) {
        uint64_t *ahead = &code[(line + m->ahead - k) % CODE_LINES];
        if (!*ahead)
            *ahead = now + m->fetch;
    }
    return later(now, code[line]);
}

static void add_segment(struct sim *m, const struct wave *w, uint64_t from, uint64_t to, const char *what)
{
    struct emu_time_timeline *tl = m->s.timeline;
    if (!tl || w->unit >= tl->units || from >= to)
        return;
    if (tl->n == tl->capacity) {
        size_t capacity = tl->capacity ? 2 * tl->capacity : 4096;
        struct emu_time_segment *grown = realloc(tl->segment, capacity * sizeof(*grown));
        if (!grown)
            return;
        tl->segment = grown;
        tl->capacity = capacity;
    }
    tl->segment[tl->n++] =
        (struct emu_time_segment){ w->unit, w->simd, (uint32_t)(w->of - m->s.t->wave), from, to, what };
}

/* `from`: when it could at the earliest, by itself. */
static void look_ahead(struct sim *m, struct wave *w, uint64_t from)
{
    const struct emu_time_inst *i = current(m, w);
    uint64_t t = from, until;
    w->why = EMU_STALL_NONE;
    if ((until = operands(m, w, i)) > t)
        t = until, w->why = EMU_STALL_OPERAND;
    if (i->cls == EMU_TIME_WAIT)
        t = waits(w, i, t, &w->why);
    /* counters have room for so many */
    if (i->cls >= EMU_TIME_LOAD && i->cls <= EMU_TIME_ATOMIC && (until = counter(w->vm, w->n_vm, RING - 1)) > t)
        t = until, w->why = EMU_STALL_VMEM;
    if (i->cls == EMU_TIME_LDS && (until = counter(w->lgkm, w->n_lgkm, 15)) > t)
        t = until, w->why = EMU_STALL_LDS;
    if ((until = fetched(m, w, i->address, t)) > t)
        t = until, w->why = EMU_STALL_FETCH;
    m->out->stall[w->why] += t - from;
    if (t > from)
        add_segment(m, w, from, t, emu_time_stall_names[w->why]);
    if (m->s.hot)
        m->s.hot[i - m->s.t->inst] += t - from;
    w->now = t;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static void write_at(struct wave *w, const struct emu_time_inst *i, uint64_t t)
{
    for (int k = 0; k < i->n_writes; k++) {
        int first = index_of(i->write[k].reg);
        for (int r = first; first >= 0 && r < first + i->write[k].words && r < REGISTERS; r++)
            w->ready[r] = (uint32_t)t;
    }
}

static void enqueue(uint64_t ring[RING], uint32_t *n, uint64_t done)
{
    uint64_t before = *n ? ring[(*n - 1) % RING] : 0;
    ring[(*n)++ % RING] = later(done, before);
}

/* Waits for a pipe: counted as such. */
static uint64_t take(struct sim *m, uint64_t now, uint64_t free_at)
{
    if (free_at > now)
        m->out->stall[EMU_STALL_PIPE] += free_at - now;
    return later(now, free_at);
}

static uint64_t do_lds(struct sim *m, struct wave *w, struct unit *u, const struct emu_time_access *a, uint64_t now)
{
    uint64_t cycles = a->lds_cycles > 1 ? a->lds_cycles : 1;
    uint64_t *half = &u->lds_half[w->simd % m->lds_ports], begin = later(now, later(u->lds, *half));
    u->lds = begin + cycles;
    *half = begin + cycles * m->lds_ports;
    m->out->lds_cycles += cycles;
    return begin + cycles * m->lds_ports + m->lds_latency;
}

static uint64_t do_memory(struct sim *m, struct wave *w, struct unit *u, const struct emu_time_inst *i, uint64_t now)
{
    const struct emu_time_access *a = &m->s.t->access[w->of->access + w->accesses++];
    struct simd *s = &u->simd[w->simd];
    uint64_t taken = now, done;
    if (i->cls == EMU_TIME_SCALAR) {
        now = take(m, now, s->other);
        s->other = now + m->issue;
        w->scalar = later(w->scalar, emu_time_scalar(m->memory, (int)w->unit, now, a));
        return now + m->issue;
    }
    if (i->cls == EMU_TIME_LDS) {
        now = take(m, now, u->lds > m->queue ? u->lds - m->queue : 0);
        enqueue(w->lgkm, &w->n_lgkm, do_lds(m, w, u, a, now));
        return now + m->issue;
    }
    uint64_t address = emu_time_address_free(m->memory, (int)w->unit);
    now = take(m, now, address > m->queue ? address - m->queue : 0);
    if (i->cls == EMU_TIME_LOAD)
        done = emu_time_load(m->memory, (int)w->unit, now, a, &taken);
    else if (i->cls == EMU_TIME_STORE)
        done = emu_time_store(m->memory, (int)w->unit, now, a, &taken);
    else
        done = emu_time_atomic(m->memory, (int)w->unit, now, a, &taken);
    if (a->lds_cycles) { /* a load to LDS, or FLAT */
        u->lds += a->lds_cycles;
        m->out->lds_cycles += a->lds_cycles;
        done += a->lds_cycles;
    }
    bool apart = m->s.t->gfx >= 0x1000 && (i->cls == EMU_TIME_STORE || (i->cls == EMU_TIME_ATOMIC && !i->returns));
    enqueue(apart ? w->vs : w->vm, apart ? &w->n_vs : &w->n_vm, done);
    if (i->flat)
        enqueue(w->lgkm, &w->n_lgkm, done);
    m->end = later(m->end, done);
    return now + m->issue;
}

/* A prefix of 8 bytes loads the scales of a matrix instruction: it is an instruction of its own to the hardware. */
static bool has_scales(const struct sim *m, const struct emu_time_inst *i)
{
    size_t at = (size_t)(i - m->s.t->inst);
    return at + 1 < m->s.t->n_inst && i[1].address - i->address >= 16;
}

static uint64_t do_valu(struct sim *m, struct wave *w, struct simd *s, const struct emu_time_inst *i, uint64_t now)
{
    uint64_t busy = i->cls == EMU_TIME_TRANS ? m->trans : m->issue;
    if (i->cls == EMU_TIME_MATRIX) {
        now = take(m, now, s->valu) + (has_scales(m, i) ? m->scales : 0);
        now = take(m, now, s->matrix);
        s->matrix = now + i->cycles;
        m->out->matrix_cycles += i->cycles;
        write_at(w, i, now + i->cycles + m->tail);
    } else {
        now = take(m, now, s->valu);
        write_at(w, i, now + busy - m->issue + m->valu_latency);
    }
    s->valu = now + busy;
    return now + m->issue;
}

static void release(struct sim *m, struct group *g)
{
    for (uint32_t k = g->first; k < g->first + (uint32_t)m->s.t->waves; k++) {
        struct wave *w = &m->wave[k];
        if (!w->waiting)
            continue;
        w->waiting = false;
        m->out->stall[EMU_STALL_BARRIER] += g->latest - w->now;
        add_segment(m, w, w->now, g->latest, emu_time_stall_names[EMU_STALL_BARRIER]);
        look_ahead(m, w, g->latest + m->barrier);
        push(m, k);
    }
    g->arrived = 0;
}

/* The next instruction, or the wave's end. False: it has none. */
static bool advance(struct sim *m, struct wave *w)
{
    if (++w->at == m->s.t->run[w->path->first + w->run].count) {
        w->at = 0;
        w->run++;
    }
    return w->run < w->path->n;
}

static bool start_groups(struct sim *m);

static void end_wave(struct sim *m, uint32_t k, uint64_t now)
{
    struct wave *w = &m->wave[k];
    struct group *g = &m->group[w->group];
    m->out->life += now - w->born;
    m->end = later(m->end, now);
    m->unit[w->unit].simd[w->simd].waves--;
    if (--g->left) {
        if (g->arrived && g->arrived == g->left)
            release(m, g);
        return;
    }
    m->unit[g->unit].groups--;
    m->free_place[m->n_free++] = w->group;
    m->dispatch = later(m->dispatch, now);
    (void)start_groups(m);
}

/* One instruction of the first wave of the heap. */
static void step(struct sim *m)
{
    uint32_t k = m->heap[0].wave;
    struct wave *w = &m->wave[k];
    struct unit *u = &m->unit[w->unit];
    struct simd *s = &u->simd[w->simd];
    const struct emu_time_inst *i = current(m, w);
    uint64_t now = w->now, next;
    uint32_t at = m->s.t->run[w->path->first + w->run].first + w->at;
    m->out->instructions++;
    switch (i->cls) {
    case EMU_TIME_VALU:
    case EMU_TIME_TRANS:
    case EMU_TIME_MATRIX:
        next = do_valu(m, w, s, i, now);
        break;
    case EMU_TIME_LDS:
    case EMU_TIME_LOAD:
    case EMU_TIME_STORE:
    case EMU_TIME_ATOMIC:
    case EMU_TIME_SCALAR:
        next = do_memory(m, w, u, i, now);
        break;
    case EMU_TIME_SALU:
        now = take(m, now, s->other);
        s->other = now + m->issue;
        write_at(w, i, now + m->salu_latency);
        next = now + m->issue;
        break;
    case EMU_TIME_WAIT:
        next = now + m->wait;
        break;
    case EMU_TIME_NOP:
        next = now + (uint64_t)i->cycles * m->issue;
        break;
    default:
        next = now + m->issue;
    }
    if (m->s.hot)
        m->s.hot[i - m->s.t->inst] += next - w->now;
    bool more = advance(m, w);
    if (i->cls == EMU_TIME_BRANCH && more && m->s.t->run[w->path->first + w->run].first + w->at != at + 1)
        next += m->branch - m->issue;
    if (i->cls != EMU_TIME_WAIT && i->cls != EMU_TIME_NOP)
        add_segment(m, w, now, next,
                    i->cls == EMU_TIME_MATRIX  ? "matrix"
                    : i->cls <= EMU_TIME_TRANS ? "valu"
                                               : "issue");
    if (!more) {
        pop(m);
        end_wave(m, k, next);
        return;
    }
    if (i->cls == EMU_TIME_BARRIER) {
        struct group *g = &m->group[w->group];
        pop(m);
        w->now = next;
        w->waiting = true;
        g->latest = g->arrived++ ? later(g->latest, next) : next;
        if (g->arrived == g->left)
            release(m, g);
        return;
    }
    look_ahead(m, w, next);
    sink(m, (struct place){ w->now, k });
}

/* ---- workgroups -------------------------------------------------------------------------------------------------- */

static void start_wave(struct sim *m, uint32_t place, int index, const struct emu_time_wave *of, uint64_t now)
{
    uint32_t k = m->group[place].first + (uint32_t)index;
    struct wave *w = &m->wave[k];
    struct unit *u = &m->unit[m->group[place].unit];
    uint32_t simd = (uint32_t)index % (uint32_t)m->s.t->simds;
    for (int i = 0; i < m->s.t->simds; i++)
        if (u->simd[i].waves < u->simd[simd].waves)
            simd = (uint32_t)i;
    u->simd[simd].waves++;
    memset(w->ready, 0, sizeof(w->ready));
    w->of = of;
    w->path = &m->s.t->path[of->path];
    w->run = w->at = w->accesses = w->n_vm = w->n_lgkm = w->n_vs = w->code = 0;
    w->scalar = 0;
    w->waiting = false;
    w->unit = m->group[place].unit;
    w->simd = simd;
    w->group = place;
    w->born = now;
    look_ahead(m, w, now);
    push(m, k);
}

/* Workgroups as long as there is a place for the next: each goes to the CU that has the fewest. */
static bool start_groups(struct sim *m)
{
    const struct emu_time_trace *t = m->s.t;
    while (m->next < m->s.groups && m->n_free) {
        uint32_t best = 0, place = m->free_place[--m->n_free];
        for (uint32_t u = 1; u < (uint32_t)t->units; u++)
            if (m->unit[u].groups < m->unit[best].groups)
                best = u;
        const struct emu_time_group *of = &t->group[m->next++];
        m->group[place] =
            (struct group){ .first = place * (uint32_t)t->waves, .left = (uint32_t)t->waves, .unit = best };
        m->unit[best].groups++;
        m->dispatch += (uint64_t)m->p->dispatch_cycles;
        for (int i = 0; i < t->waves; i++)
            start_wave(m, place, i, &t->wave[of->wave + (size_t)i], m->dispatch + (uint64_t)m->p->wave_start_cycles);
    }
    return true;
}

static bool allocate(struct sim *m)
{
    const struct emu_time_trace *t = m->s.t;
    uint64_t places = (uint64_t)t->units * (uint64_t)(t->groups_a_unit > 0 ? t->groups_a_unit : 1);
    m->n_places = (uint32_t)(places < m->s.groups ? places : m->s.groups);
    size_t waves = (size_t)m->n_places * (size_t)t->waves;
    m->wave = calloc(waves, sizeof(*m->wave));
    m->heap = calloc(waves, sizeof(*m->heap));
    m->unit = calloc((size_t)t->units, sizeof(*m->unit));
    m->group = calloc(m->n_places, sizeof(*m->group));
    m->free_place = calloc(m->n_places, sizeof(*m->free_place));
    m->code = calloc((size_t)(t->units / 2 + 1) * CODE_LINES, sizeof(*m->code));
    m->memory = emu_time_memory_create(&(struct emu_time_memory_shape){ m->p, t, m->s.mhz, t->units, m->s.cold });
    return m->wave && m->heap && m->unit && m->group && m->free_place && m->code && m->memory;
}

static uint32_t whole(double value, double least)
{
    return (uint32_t)(value < least ? least : value);
}

static void take_params(struct sim *m)
{
    const struct emu_time_params *p = m->p;
    m->issue = whole(p->issue_cycles, 1);
    m->valu_latency = whole(p->valu_latency, 1);
    m->salu_latency = whole(p->salu_latency, 1);
    m->trans = whole(p->trans_cycles, 1);
    m->scales = whole(p->scale_cycles, 0);
    m->forward = whole(p->matrix_forward, 0);
    m->tail = whole(p->matrix_tail, p->matrix_forward);
    m->branch = whole(p->branch_cycles, p->issue_cycles);
    m->wait = whole(p->wait_cycles, 1);
    m->barrier = whole(p->barrier_cycles, 0);
    m->lds_latency = whole(p->lds_latency, 0);
    m->lds_ports = whole(p->lds_ports, 1) > MAX_SIMDS ? MAX_SIMDS : whole(p->lds_ports, 1);
    m->fetch = whole(p->fetch_cycles, 1);
    m->ahead = whole(p->fetch_ahead, 0);
    m->queue = whole(p->vmem_queue, 0);
}

bool emu_time_simulate(const struct emu_time_run_shape *s, struct emu_time_outcome *out)
{
    struct sim m = { .s = *s, .p = s->p, .out = out };
    *out = (struct emu_time_outcome){ 0 };
    take_params(&m);
    bool ok = allocate(&m);
    for (uint32_t i = m.n_places; ok && i-- > 0;)
        m.free_place[m.n_free++] = i;
    if (ok && start_groups(&m))
        while (m.n_heap)
            step(&m);
    if (ok) {
        out->cycles = later(m.end, emu_time_flush(m.memory));
        emu_time_traffic(m.memory, &out->traffic);
    }
    free(m.wave);
    free(m.heap);
    free(m.unit);
    free(m.group);
    free(m.free_place);
    free(m.code);
    emu_time_memory_free(m.memory);
    return ok;
}
