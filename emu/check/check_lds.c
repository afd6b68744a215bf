/* SPDX-License-Identifier: MIT
 *
 * A workgroup's LDS, by words of four bytes; by bytes from the first store of less than a word on, in a program that
 * has such stores from the first load of less:
 *
 *   lds-race   two waves touch the same bytes of LDS, one of them writing, not both atomically, with no barrier
 *       between; or with one that the writer reached before its store had been waited for. Not: waves that store the
 *       same; the plain load that a compare-and-swap loop begins with; what a flag hands over
 *   missing-wait   a wave reads what its own load from memory to LDS still has under way
 *
 * and which bytes were written at all (check_registers.c says where those that weren't end up). */
#include <stdlib.h>
#include <string.h>

#include "watch.h"

enum { BY_STORE, BY_LOAD, BY_ATOMIC };

/* The last writer, the readers since, their bytes, and the epoch (barriers so far). Two of them fill a cache line. */
struct cell {
    uint32_t write_epoch, read_epoch;
    uint32_t seq;              /* of the writer's operation: lgkm, or vm if by a load to LDS */
    uint32_t writers, readers; /* waves; several writers: atomics, or stores of the same */
    uint8_t writer;            /* the last one + 1 */
    uint8_t by, written, read, defined;
    uint16_t write_inst, read_inst; /* of the last ones: the program's instruction, UINT16_MAX: one further on */
    uint16_t read_seq;              /* of the last reader's operation */
};

/* A plain load and another wave's atomic: right if the loading wave's compare-and-swap follows. */
struct maybe {
    const struct emu_inst *inst;
    uint32_t at;
    const struct emu_inst *others; /* NULL: not known */
    int reader, lane, other;
    bool wrote; /* the other had written, else it does now */
};
#define MAYBES 64

struct emu_lds_shadow {
    uint32_t epoch, first; /* first: of this workgroup; what is older is another's */
    uint32_t bytes;
    unsigned shift;                  /* of a cell: 2: words, 0: bytes */
    struct emu_progress *at_barrier; /* of each wave */
    uint32_t *seen; /* [wave][other]: the other's LDS operations up to there come before the wave's next */
    struct maybe maybe[MAYBES];
    int n_maybe;
    struct cell *cell;
};

struct emu_lds_shadow *emu_lds_create(uint32_t bytes, int waves)
{
    size_t n = (size_t)waves;
    struct emu_lds_shadow *s = calloc(1, sizeof(*s) + n * sizeof(*s->at_barrier) + n * n * sizeof(*s->seen));
    if (!s)
        return NULL;
    s->at_barrier = (struct emu_progress *)(s + 1);
    s->seen = (uint32_t *)(s->at_barrier + n);
    s->bytes = bytes;
    s->shift = 2;
    s->cell = calloc(bytes / 4 + 5, sizeof(*s->cell));
    if (s->cell)
        return s;
    free(s);
    return NULL;
}

void emu_lds_destroy(struct emu_lds_shadow *s)
{
    if (s)
        free(s->cell);
    free(s);
}

void emu_lds_begin(struct emu_workgroup *wg)
{
    struct emu_lds_shadow *s = wg->shadow;
    memset(s->at_barrier, 0, (size_t)wg->n_waves * sizeof(*s->at_barrier));
    memset(s->seen, 0, (size_t)(wg->n_waves * wg->n_waves) * sizeof(*s->seen));
    s->first = ++s->epoch;
    s->n_maybe = 0;
}

/* From words to bytes. */
static void split(struct emu_lds_shadow *s)
{
    struct cell *cell = calloc((size_t)s->bytes + 20, sizeof(*cell));
    if (!cell)
        return;
    for (uint32_t k = 0; k < s->bytes + 16; k++) {
        const struct cell *from = &s->cell[k / 4];
        cell[k] = *from;
        cell[k].written = from->written >> (k & 3) & 1;
        cell[k].read = from->read >> (k & 3) & 1;
        cell[k].defined = from->defined >> (k & 3) & 1;
    }
    free(s->cell);
    s->cell = cell;
    s->shift = 0;
}

static struct cell *cell_at(struct emu_lds_shadow *s, uint32_t at)
{
    struct cell *c = &s->cell[at];
    if (c->write_epoch < s->first && c->read_epoch < s->first)
        *c = (struct cell){ 0 };
    return c;
}

static bool done(const struct cell *c, const struct emu_progress *p)
{
    return (int32_t)((c->by == BY_LOAD ? p->vm_done : p->lgkm_done) - c->seq) >= 0;
}

/* The instruction under way, as cells remember it. */
static inline uint16_t current(const struct emu_wave *w)
{
    ptrdiff_t n = w->checks->current - w->prog->inst;
    return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}

/* The instruction by which that wave wrote or read there; NULL if others did too. */
static const struct emu_inst *wrote_by(const struct emu_wave *w, const struct cell *c, int other)
{
    return c->writer != other + 1 || c->write_inst == UINT16_MAX ? NULL : &w->prog->inst[c->write_inst];
}
static const struct emu_inst *read_by(const struct emu_wave *w, const struct cell *c, int other)
{
    return c->readers != 1u << other || c->read_inst == UINT16_MAX ? NULL : &w->prog->inst[c->read_inst];
}

static void race(struct emu_wave *w, const struct emu_inst *i, int lane, const char *does, uint32_t at, const char *did,
                 int other, const char *why, const struct emu_inst *others)
{
    char by[400] = "";
    if (!(w->checks->groups & EMU_CHECK_LDS))
        return;
    if (others)
        emu_report_place(w->launch, others, by, sizeof(by));
    emu_report(w, i, "lds-race", 1ull << lane, "%s LDS at offset %u, which wave %d %s %s%s%s", does, at, other, did,
               why, others ? ": " : "", by);
}

static int other_of(uint32_t waves, uint32_t me)
{
    return __builtin_ctz(waves & ~me);
}

/* ---- compare-and-swap loops -------------------------------------------------------------------------------------- */

static void may_be_right(struct emu_workgroup *wg, const struct maybe *m)
{
    struct emu_lds_shadow *s = wg->shadow;
    if (s->n_maybe < MAYBES)
        s->maybe[s->n_maybe++] = *m;
}

static void compare_and_swap(struct emu_workgroup *wg, uint32_t at, int wave)
{
    struct emu_lds_shadow *s = wg->shadow;
    int n = 0;
    for (int k = 0; k < s->n_maybe; k++)
        if (s->maybe[k].at != at || s->maybe[k].reader != wave)
            s->maybe[n++] = s->maybe[k];
    s->n_maybe = n;
}

/* Reports loads that no compare-and-swap followed; wave < 0: of all waves. */
static void tell_maybes(struct emu_workgroup *wg, int wave)
{
    struct emu_lds_shadow *s = wg->shadow;
    int n = 0;
    for (int k = 0; k < s->n_maybe; k++) {
        const struct maybe *m = &s->maybe[k];
        if (wave >= 0 && m->reader != wave)
            s->maybe[n++] = *m;
        else
            race(&wg->wave[m->reader], m->inst, m->lane, "reads", m->at, m->wrote ? "wrote" : "writes", m->other,
                 "by an atomic, with no barrier between", m->others);
    }
    s->n_maybe = n;
}

void emu_lds_wave_end(struct emu_wave *w)
{
    if (w->wg->shadow->n_maybe)
        tell_maybes(w->wg, w->index);
}

/* ---- flags ------------------------------------------------------------------------------------------------------- */

/* Whether it makes a scalar of the register, as a branch's condition needs. */
static bool decides(const struct emu_effect *e, unsigned reg)
{
    bool reads = false, scalar = false;
    for (int k = 0; k < e->n_reads; k++)
        reads |= e->read[k].reg <= reg && reg < e->read[k].reg + e->read[k].words;
    for (int k = 0; k < e->n_writes; k++)
        scalar |= e->write[k].reg < EMU_VGPR;
    return reads && scalar;
}

/* LDS does a wave's operations in their order (not what comes from memory to LDS). So who sees a wave's store in a loop
 * that only waits for it has all before it, too; or in the look before such a loop, by which a branch skips it. A
 * single look may have come too soon: it orders nothing. */
static bool polls(const struct emu_wave *w, unsigned look)
{
    const struct emu_program *p = w->prog;
    const struct emu_effect *e = w->checks->effects;
    int from = (int)look, next = 0, skip = 0; /* next: the first memory instruction behind it */
    bool decided = false;
    for (int k = from; look < UINT16_MAX && k < p->n && k <= from + 64; k++) {
        const struct emu_inst *i = &p->inst[k];
        if (!i->op || (i->op->cls == EMU_BRANCH && i->target < 0))
            return false;
        if (i->op->cls == EMU_BRANCH && i->target <= k)
            return (i->target <= from || (skip > k && i->target <= next && p->inst[next].op == p->inst[from].op)) &&
                   emu_only_waits(p, e, i->target, k, true);
        if (i->op->cls == EMU_BRANCH && decided && i->target > skip)
            skip = i->target;
        if (k > from && !next && e[k].pending)
            next = k;
        decided |= !next && e[from].n_writes && decides(&e[k], e[from].write[0].reg);
    }
    return false;
}

static uint32_t *seen(const struct emu_wave *w, int other)
{
    return &w->wg->shadow->seen[w->index * w->wg->n_waves + other];
}

/* Whether the cell's store is ordered before the wave's current access. Reading a flag can order it. */
static bool handed_over(const struct emu_wave *w, const struct cell *c, bool loads)
{
    uint32_t *upto = seen(w, c->writer - 1);
    if (c->by == BY_LOAD || (c->writers & ~(1u << (c->writer - 1) | 1u << w->index)))
        return false;
    if (loads && (int32_t)(c->seq - *upto) > 0 && polls(w, current(w)))
        *upto = c->seq;
    return (int32_t)(*upto - c->seq) >= 0;
}

/* Do the loads of the cell, or were they looks at a flag? */
static bool read_before(const struct emu_wave *w, const struct cell *c)
{
    uint32_t others = c->readers & ~(1u << w->index);
    if (polls(w, c->read_inst))
        return true;
    return others == c->readers && !(others & (others - 1)) &&
           (int16_t)((uint16_t)*seen(w, __builtin_ctz(others)) - c->read_seq) >= 0;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

/* Returns the bytes that nothing wrote. */
static inline uint8_t load(struct emu_wave *w, const struct emu_inst *i, uint32_t at, uint8_t bytes, int lane)
{
    struct emu_lds_shadow *s = w->wg->shadow;
    struct cell *c = cell_at(s, at);
    uint32_t me = 1u << w->index;
    if (c->read_epoch == s->epoch && c->readers & me && !(bytes & ~c->read) && c->write_epoch < s->epoch &&
        c->by == BY_STORE) { /* looked at, since the barrier */
        c->read_seq = (uint16_t)emu_regs_progress(w)->lgkm_issued;
        return bytes & (uint8_t)~c->defined;
    }
    if (c->writer && (c->written & bytes)) {
        bool now = c->write_epoch == s->epoch;
        if (now && (c->by == BY_ATOMIC ? c->writers & ~me : !(c->writers & me)) && !handed_over(w, c, true)) {
            int other = other_of(c->writers, me);
            if (c->by == BY_ATOMIC)
                may_be_right(w->wg, &(struct maybe){ w->checks->current, at << s->shift, wrote_by(w, c, other),
                                                     w->index, lane, other, true });
            else
                race(w, i, lane, "reads", at << s->shift, "wrote", other, "with no barrier between",
                     wrote_by(w, c, other));
        } else if (!now && c->writer != w->index + 1 && !done(c, &s->at_barrier[c->writer - 1]))
            race(w, i, lane, "reads", at << s->shift, "wrote", c->writer - 1,
                 "and reached the barrier without waiting for it", wrote_by(w, c, c->writer - 1));
        else if (c->writer == w->index + 1 && c->by == BY_LOAD && !done(c, emu_regs_progress(w)) &&
                 (w->checks->groups & EMU_CHECK_WAITS))
            emu_report(w, i, "missing-wait", 1ull << lane,
                       "reads LDS at offset %u while a load from memory to it is under way: no s_waitcnt vmcnt waited "
                       "for it",
                       at << s->shift);
    }
    if (c->read_epoch != s->epoch) {
        c->read_epoch = s->epoch;
        c->readers = c->read = 0;
    }
    c->readers |= me;
    c->read |= bytes;
    c->read_inst = current(w);
    c->read_seq = (uint16_t)emu_regs_progress(w)->lgkm_issued;
    return bytes & (uint8_t)~c->defined;
}

/* Whether LDS already holds the value that the lane stores. */
static bool same_there(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, int lane,
                       uint32_t from, uint32_t to)
{
    uint8_t bytes[16];
    if (a->data == EMU_NONE)
        return false;
    emu_stored_bytes(w, i, a, lane, bytes);
    for (uint32_t b = from; b < to; b++)
        if (w->wg->lds[b] != bytes[b - a->addr[lane]])
            return false;
    return true;
}

static void written(const struct emu_wave *w, struct cell *c, uint8_t bytes, uint8_t by, bool together)
{
    const struct emu_lds_shadow *s = w->wg->shadow;
    const struct emu_progress *p = emu_regs_progress(w);
    bool more = c->write_epoch == s->epoch && (together || c->writer == w->index + 1);
    c->written = more ? c->written | bytes : bytes;
    c->writers = (more && together ? c->writers : 0) | 1u << w->index;
    c->write_epoch = s->epoch;
    c->writer = (uint8_t)(w->index + 1);
    c->by = by;
    c->write_inst = current(w);
    c->seq = by == BY_LOAD ? p->vm_issued : p->lgkm_issued;
}

static void store(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, uint32_t at, uint8_t bytes,
                  int lane, uint8_t defined)
{
    struct emu_lds_shadow *s = w->wg->shadow;
    struct cell *c = cell_at(s, at);
    uint32_t me = 1u << w->index, lo = (at << s->shift) + (uint32_t)__builtin_ctz(bytes);
    bool together = false;
    if (c->write_epoch == s->epoch && (c->written & bytes) && (c->writers & ~me) && !handed_over(w, c, false)) {
        together = c->by == BY_STORE && same_there(w, i, a, lane, lo, lo + (uint32_t)__builtin_popcount(bytes));
        if (!together)
            race(w, i, lane, "writes", at << s->shift, "wrote", other_of(c->writers, me), "with no barrier between",
                 wrote_by(w, c, other_of(c->writers, me)));
        else if (w->checks->groups & EMU_CHECK_NOTES)
            emu_note(w, i, "equal-stores", 1ull << lane, "stores to LDS at offset %u what wave %d stored there",
                     at << s->shift, other_of(c->writers, me));
    } else if (c->read_epoch == s->epoch && (c->read & bytes) && (c->readers & ~me) && !read_before(w, c))
        race(w, i, lane, "writes", at << s->shift, "read", other_of(c->readers, me), "with no barrier between",
             read_by(w, c, other_of(c->readers, me)));
    written(w, c, bytes, a->indirect ? BY_LOAD : BY_STORE, together);
    c->defined = (c->defined & (uint8_t)~bytes) | (defined & bytes);
}

/* Returns the bytes that nothing wrote. */
static uint8_t atomic(struct emu_wave *w, const struct emu_inst *i, uint32_t at, uint8_t bytes, int lane)
{
    struct emu_lds_shadow *s = w->wg->shadow;
    struct cell *c = cell_at(s, at);
    uint32_t me = 1u << w->index, place = at << s->shift;
    uint8_t unknown = bytes & (uint8_t)~c->defined;
    if (c->write_epoch == s->epoch && (c->written & bytes) && c->by != BY_ATOMIC && (c->writers & ~me))
        race(w, i, lane, "writes", place, "wrote", other_of(c->writers, me), "with no barrier between",
             wrote_by(w, c, other_of(c->writers, me)));
    else if (c->writer && c->write_epoch != s->epoch && (c->written & bytes) && c->writer != w->index + 1 &&
             !done(c, &s->at_barrier[c->writer - 1]))
        race(w, i, lane, "writes", place, "wrote", c->writer - 1, "and reached the barrier without waiting for it",
             wrote_by(w, c, c->writer - 1));
    if (strstr(i->op->name, "cmps")) {
        c->readers &= ~me;
        compare_and_swap(w->wg, place, w->index);
    }
    if (c->read_epoch == s->epoch && (c->read & bytes) && !polls(w, c->read_inst))
        for (uint32_t readers = c->readers & ~me; readers; readers &= readers - 1) {
            int reader = __builtin_ctz(readers);
            const struct emu_inst *by = read_by(w, c, reader);
            if (w->wg->wave[reader].stop == EMU_END)
                race(w, i, lane, "writes", place, "read", reader, "with no barrier between", by);
            else
                may_be_right(w->wg, &(struct maybe){ by ? by : w->checks->current, place,
                                                     by ? w->checks->current : NULL, reader, lane, w->index, false });
        }
    /* After a store of its own the wave's atomic doesn't make that one. */
    bool stored = c->write_epoch == s->epoch && c->by == BY_STORE && c->writers == me;
    written(w, c, bytes, stored ? BY_STORE : BY_ATOMIC, c->by == BY_ATOMIC);
    c->defined |= bytes;
    return unknown;
}

/* Fast path for whole words: loads of words that were stored and waited for before the last barrier, and stores to
 * words that no other wave touched since. False: nothing or a part was done; call touch(). */
struct usual {
    const struct emu_lds_shadow *s;
    uint32_t me, seq, upto; /* upto: a writer's stores are waited for up to there */
    int index, writer;      /* me; that writer */
    uint16_t inst;
};

static inline bool usual_load(struct usual *u, struct cell *c, uint32_t words)
{
    uint32_t epoch = u->s->epoch, first = u->s->first;
    for (uint32_t d = 0; d < words; c++, d++) {
        if (c->write_epoch - first >= epoch - first) /* of this epoch, or of another workgroup */
            return false;
        if (c->writer != u->writer) {
            u->writer = c->writer;
            u->upto = u->s->at_barrier[u->writer - 1].lgkm_done;
        }
        if (c->by != BY_STORE || (c->written & c->defined) != 15 || (int32_t)(u->upto - c->seq) < 0)
            return false;
        c->readers = (c->read_epoch == epoch ? c->readers : 0) | u->me;
        c->read_epoch = epoch;
        c->read_inst = u->inst;
        c->read_seq = (uint16_t)u->seq;
        c->read = 15;
    }
    return true;
}

static inline bool usual_store(const struct usual *u, struct cell *c, uint32_t words)
{
    uint32_t epoch = u->s->epoch;
    for (uint32_t d = 0; d < words; c++, d++) {
        bool alone = c->write_epoch != epoch || c->writers == u->me;
        if (!alone || (c->read_epoch == epoch && c->readers & ~u->me))
            return false;
        c->write_epoch = epoch;
        c->seq = u->seq;
        c->writers = u->me;
        c->writer = (uint8_t)(u->index + 1);
        c->by = BY_STORE;
        c->write_inst = u->inst;
        c->written = c->defined = 15;
    }
    return true;
}

/* Returns the lanes that are left. */
static uint64_t usual(const struct emu_wave *w, const struct emu_access *a)
{
    struct usual u = { .s = w->wg->shadow,
                       .me = 1u << w->index,
                       .seq = emu_regs_progress(w)->lgkm_issued,
                       .index = w->index,
                       .inst = current(w) };
    uint32_t words = a->bytes / 4u;
    uint64_t left = 0;
    for (uint64_t m = a->lanes; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        struct cell *c = &u.s->cell[a->addr[l] / 4];
        bool whole = !(a->addr[l] & 3);
        if (!whole || !(a->kind == EMU_LOAD ? usual_load(&u, c, words) : usual_store(&u, c, words)))
            left |= m & -m;
    }
    return left;
}

/* Byte by byte: which were written. stored: of what goes there, those that are known. */
static uint16_t touch(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, int l, uint16_t stored)
{
    unsigned shift = w->wg->shadow->shift, size = 1u << shift;
    uint32_t from = (uint32_t)a->addr[l], to = from + a->bytes;
    uint16_t known = UINT16_MAX;
    if (shift == 2 && !(from & 3) && !(a->bytes & 3) && a->kind != EMU_ATOMIC) { /* whole words */
        uint16_t unknown = 0;
        for (uint32_t at = from / 4, d = 0; at * 4 < to; at++, d += 4)
            if (a->kind == EMU_LOAD)
                unknown |= (uint16_t)(load(w, i, at, 15, l) << d);
            else
                store(w, i, a, at, 15, l, stored >> d & 15);
        return (uint16_t)~unknown;
    }
    for (uint32_t at = from >> shift; at << shift < to && w->stop != EMU_FAULT; at++) {
        uint32_t base = at << shift, lo = from > base ? from - base : 0, hi = to < base + size ? to - base : size;
        uint8_t part = (uint8_t)((1u << hi) - (1u << lo)), unknown = 0;
        uint32_t first = base + lo - from; /* of the access' bytes */
        if (a->kind == EMU_LOAD)
            unknown = load(w, i, at, part, l);
        else if (a->kind == EMU_STORE)
            store(w, i, a, at, part, l, (uint8_t)(stored >> first << lo));
        else
            unknown = atomic(w, i, at, part, l);
        known &= (uint16_t) ~(unknown >> lo << first);
    }
    return known;
}

/* The bytes that a lane stores of which all is known. */
static uint16_t known_stored(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a, int lane)
{
    uint16_t known = 0;
    for (unsigned d = 0; d < (a->bytes + 3u) / 4; d++)
        known |= (uint16_t)(emu_regs_bytes(w, i, a, d, lane) << 4 * d);
    return known;
}

void emu_lds_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a)
{
    uint16_t known[64];
    uint64_t bad = 0, partly = 0;
    unsigned words = (a->bytes + 3u) / 4, want = a->bytes < 4 ? (1u << a->bytes) - 1 : 15;
    bool small = a->bytes < 4;
    /* A word's cell doesn't say who read which of its bytes: that must be known before one is stored. */
    bool parts = a->kind != EMU_LOAD || w->prog->lds_parts;
    if (w->wg->shadow->shift)
        for (uint64_t m = parts ? a->lanes : 0; m; m &= m - 1)
            small |= a->addr[__builtin_ctzll(m)] & 3;
    if (small && parts && w->wg->shadow->shift)
        split(w->wg->shadow);
    for (unsigned d = 0; d < words && a->kind == EMU_STORE && a->data != EMU_NONE; d++)
        partly |= ~emu_regs_defined(w, a->data + d);
    bool whole = w->wg->shadow->shift && !small && !(a->bytes & 3) && !partly && !a->indirect && a->kind != EMU_ATOMIC;
    uint64_t left = whole ? usual(w, a) : a->lanes;
    for (uint64_t m = left; m && w->stop != EMU_FAULT; m &= m - 1) {
        int l = __builtin_ctzll(m);
        known[l] = touch(w, i, a, l, partly >> l & 1 ? known_stored(w, i, a, l) : UINT16_MAX);
        bad |= (uint64_t)(known[l] != UINT16_MAX) << l;
    }
    if (!bad || !(w->checks->groups & EMU_CHECK_REGISTERS))
        return;
    if (a->kind == EMU_ATOMIC)
        emu_report(w, i, "uninitialised-lds", bad, "an atomic on LDS that nothing wrote, at offset %u",
                   (uint32_t)a->addr[__builtin_ctzll(bad)]);
    if (a->transposed) {
        uint32_t bits[4][64];
        memset(bits, 0xff, sizeof(bits));
        for (uint64_t m = bad; m; m &= m - 1)
            for (unsigned d = 0, l = (unsigned)__builtin_ctzll(m); d < words; d++)
                bits[d][l] = emu_bits_of_bytes(known[l] >> 4 * d & 15);
        emu_regs_transposed(w, i, a, bits, EMU_FROM_LDS);
        return;
    }
    for (unsigned d = 0; d < words && a->kind == EMU_LOAD && a->data != EMU_NONE; d++) {
        uint64_t lanes = 0;
        uint32_t bits[64] = { 0 };
        for (uint64_t m = bad; m; m &= m - 1) {
            int l = __builtin_ctzll(m);
            unsigned bytes = known[l] >> 4 * d & 15;
            bits[l] = emu_bits_of_bytes(bytes);
            lanes |= (uint64_t)((bytes & want) != want) << l;
        }
        if (lanes)
            emu_regs_loaded(w, i, a, d, lanes, bits, EMU_FROM_LDS);
    }
}

void emu_lds_barrier(struct emu_workgroup *wg)
{
    struct emu_lds_shadow *s = wg->shadow;
    if (s->n_maybe)
        tell_maybes(wg, -1);
    s->epoch++;
    for (int k = 0; k < wg->n_waves; k++)
        s->at_barrier[k] = *emu_regs_progress(&wg->wave[k]);
}
