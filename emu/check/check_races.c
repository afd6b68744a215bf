/* SPDX-License-Identifier: MIT
 *
 * Races in global memory, by happens-before between waves, with the caches' part in it.
 *
 *   global-race   two waves touch the same bytes, one of them writing, not both by atomics, and nothing orders them
 *
 * What orders: a barrier, within its workgroup; and a release by one wave that another acquires. A release is an
 * atomic, or a store of one or few lanes (a flag), after the stores were waited for (vmcnt, vscnt) and, on gfx942,
 * whose XCDs have an L2 each, were written back by buffer_wbl2 sc1 or went through as sc1 stores. An acquire is an
 * atomic that returns, or a load that passes the caches by (glc; sc1 on gfx942), of the same word, waited for; what
 * plain loads then find is fresh only after the invalidate (buffer_wbinvl1_vol, buffer_inv sc1, buffer_gl1_inv and
 * buffer_gl0_inv). The rules are those of LLVM's AMDGPU memory models for agent scope.
 *
 * Each wave has a vector clock whose time is its count of memory operations (the counters of s_waitcnt), so that what a
 * wait covers needs no other book. Memory's side is kept by granules of 16 bytes, the last writer and the last reader
 * of each; a page's become granules of 4 bytes, then of one, where one writer is no longer enough. Of several readers
 * the last counts. Atomics aren't ordered by being atomic: who looks plainly at what several waves changed by them must
 * come after each, so that before the last one those of another wave and of another workgroup are kept (struct former).
 *
 * No race: waves that store the same (who reads then needs no order with any of them); the plain load that a
 * compare-and-swap loop begins with, if the swap follows. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "check_waves.h"
#include "check_pages.h"

#define MAX_WAVE ((1u << 22) - 2)
/* Lanes of an atomic or a store that may be for synchronisation, where nothing else says it. A GPU has flags for 7 peers. */
#define FEW 7

/* ---- a launch's -------------------------------------------------------------------------------------------------- */

/* A plain load and another wave's atomic: right if the loading wave's compare-and-swap follows. */
struct maybe {
    uint64_t address, lanes, other;
    const struct emu_inst *inst;
    uint32_t reader;
    uint8_t order;
    bool wrote; /* the other is a write */
};
static uint32_t generations; /* launches so far; one at a time runs checks that share pages */

struct emu_races *emu_races_create(struct emu_launch *l)
{
    if (l->n_workgroups * (uint64_t)l->waves > MAX_WAVE) {
        rfg_warn("emu: %llu waves: races are looked for among at most %u",
                 (unsigned long long)(l->n_workgroups * (uint64_t)l->waves), MAX_WAVE);
        return NULL;
    }
    struct emu_races *r = calloc(1, sizeof(*r));
    if (r && !(r->ended = calloc(l->n_workgroups * (uint64_t)l->waves / 8 + 1, 1))) {
        free(r);
        return NULL;
    }
    if (r)
        r->generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
    return r;
}

void emu_races_destroy(struct emu_races *r)
{
    if (!r)
        return;
    syncs_free(&r->syncs);
    free(r->maybe);
    free(r->ended);
    free(r);
}

/* ---- memory
 * ------------------------------------------------------------------------------------------------------------------ */

/* How an instruction touches memory. */
struct touch {
    const struct emu_inst *inst;
    const struct emu_access *access;
    bool reads, writes, atomic, surely, bypass, through, sync, swaps;
    bool wide;         /* a store of more than a few lanes that may release: its scope says so */
    bool seen;         /* what was there had been read */
    uint32_t returned; /* of an atomic that returns: its number; else 0 */
    uint64_t epoch_w, epoch_r;
    bool reported;
};

static enum order order_of(const struct emu_wave *w, uint64_t at, bool was_write, const struct touch *t)
{
    return emu_clocks_order(w, at, was_write, t->reads && !t->writes && !t->bypass);
}

static void tell(struct emu_wave *w, struct touch *t, uint64_t address, uint64_t lanes, uint64_t other, bool was_write,
                 enum order order)
{
    static const char *const why[] = {
        [UNORDERED] = "nothing orders the two",
        [NOT_WAITED] = "it had not been waited for (s_waitcnt) when that wave released",
        [NOT_WRITTEN_BACK] = "it was not written back (buffer_wbl2 sc1, s_waitcnt vmcnt(0)) before that wave released",
        [STALE] = "no invalidate since the acquire: a cache may still hold the old bytes",
    };
    const struct emu_launch *l = w->launch;
    const uint32_t id = wave_of(other), waves = (uint32_t)l->waves, ranks = (uint32_t)l->ranks;
    const uint32_t rank = id / waves % ranks, group = id / waves / ranks;
    char by[400] = "?", where[300], of[40] = "";
    if (t->reported)
        return;
    t->reported = true;
    if (inst_of(other) < (uint32_t)w->prog->n)
        emu_report_place(l, &w->prog->inst[inst_of(other)], by, sizeof(by));
    emu_memory_describe(l->memory, address, where, sizeof(where));
    if (ranks > 1)
        snprintf(of, sizeof(of), " of rank %u (this is %d)", rank, w->wg->rank);
    emu_report(w, t->inst, "global-race", lanes, "%s %s, which wave %u of workgroup (%u,%u,%u)%s %s by %s: %s",
               t->writes ? "writes" : "reads", where, id % waves, group % l->grid[0], group / l->grid[0] % l->grid[1],
               group / l->grid[0] / l->grid[1], of, was_write ? "wrote" : "read", by, why[order]);
}

/* Waves that read by a plain load what another wave's atomic changes: a compare-and-swap may follow. */
static void may_be_right(struct emu_wave *w, struct touch *t, uint64_t address, uint64_t lanes, uint64_t other,
                         bool was_write, enum order order)
{
    struct emu_races *r = w->launch->watch->races;
    struct maybe m = { .address = address & ~3ull,
                       .lanes = lanes,
                       .other = other,
                       .inst = w->checks->current,
                       .reader = w->checks->clocks->id,
                       .order = (uint8_t)order,
                       .wrote = true };
    if (!was_write) {
        m.reader = wave_of(other);
        m.inst = inst_of(other) < (uint32_t)w->prog->n ? &w->prog->inst[inst_of(other)] : t->inst;
        m.other = t->epoch_w;
    }
    if (r->n_maybe == r->maybe_room) {
        size_t room = 2 * r->maybe_room + 64;
        struct maybe *grown = realloc(r->maybe, room * sizeof(*grown));
        if (!grown)
            return;
        r->maybe = grown;
        r->maybe_room = room;
    }
    if (r->ended[m.reader / 8] >> m.reader % 8 & 1)
        tell(w, t, address, lanes, other, was_write, order);
    else
        r->maybe[r->n_maybe++] = m;
}

static void compare_and_swap(struct emu_races *r, uint32_t wave, uint64_t address, unsigned bytes)
{
    size_t n = 0;
    for (size_t k = 0; k < r->n_maybe; k++)
        if (r->maybe[k].reader != wave || r->maybe[k].address - address >= bytes)
            r->maybe[n++] = r->maybe[k];
    r->n_maybe = n;
}

void emu_races_wave_end(struct emu_wave *w)
{
    struct emu_races *r = w->launch->watch->races;
    uint32_t me = w->checks->clocks->id;
    size_t n = 0;
    r->ended[me / 8] |= (uint8_t)(1u << me % 8);
    for (size_t k = 0; k < r->n_maybe; k++) {
        struct maybe *m = &r->maybe[k];
        struct touch t = { .inst = m->inst, .reads = true };
        if (m->reader == me)
            tell(w, &t, m->address, m->lanes, m->other, true, (enum order)m->order);
        else
            r->maybe[n++] = *m;
    }
    r->n_maybe = n;
}

/* Whether memory already holds what these lanes store. */
static bool same_there(const struct emu_wave *w, const struct touch *t, uint64_t from, unsigned size, uint64_t lanes)
{
    const struct emu_access *a = t->access;
    uint8_t bytes[64];
    if (a->kind != EMU_STORE || a->data == EMU_NONE || a->bytes > 16)
        return false;
    for (uint64_t m = lanes; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        emu_stored_bytes(w, t->inst, a, l, bytes);
        for (unsigned b = 0; b < a->bytes; b++) {
            uint64_t at = a->addr[l] + b;
            if (at >= from && at < from + size && *(const uint8_t *)(uintptr_t)at != bytes[b])
                return false;
        }
    }
    return true;
}

/* A plain load of a word that an atomic changed: whether the atomics before that one are ordered before the load too.
 * After an atomic of its own that returned a value, with no older data in its caches, a wave is ordered after all of
 * them. */
static void look_behind(struct emu_wave *w, struct touch *t, const struct former *f, uint64_t last, uint64_t at,
                        uint64_t lanes)
{
    const struct emu_clocks *c = w->checks->clocks;
    if (wave_of(last) == c->id && f->returned && (int32_t)(c->fresh - f->returned) >= 0)
        return;
    for (int k = 0; k < 2; k++) {
        uint64_t other = k ? f->group : f->wave;
        enum order order = other && wave_of(other) != c->id ? order_of(w, other, true, t) : ORDERED;
        if (order != ORDERED) {
            may_be_right(w, t, at, lanes, other, true, order);
            return;
        }
    }
}

/* An atomic, or any other write, takes the place of the granule's writer. */
static void remember(const struct emu_wave *w, const struct touch *t, struct page *p, const struct granule *g,
                     uint16_t bytes)
{
    uint32_t me = w->checks->clocks->id, waves = (uint32_t)w->launch->waves, other = wave_of(g->writer);
    bool atomic = t->reads && t->surely, met = atomic && g->writer & SURELY && g->written & bytes && other != me;
    if (met && !p->former)
        p->former = calloc(PAGE >> p->shift, sizeof(*p->former));
    if (!p->former)
        return;
    struct former *f = &p->former[g - p->granule];
    if (!atomic)
        f->wave = f->group = 0;
    if (met)
        f->wave = g->writer;
    if (met && other / waves != me / waves)
        f->group = g->writer;
    f->returned = t->returned;
}

/* Whether information about other bytes of the granule would be lost. */
static bool crowded(const struct emu_wave *w, const struct touch *t, const struct granule *g, uint16_t bytes)
{
    const struct emu_clocks *c = w->checks->clocks;
    if (t->writes && g->writer && (g->written & ~bytes))
        return wave_of(g->writer) != c->id || ((g->writer ^ t->epoch_w) & (ATOMIC | THROUGH | SURELY)) ||
               clock_of(g->writer) <= c->told;
    return !t->writes && g->writer && g->reader && (g->read & ~bytes) && g->reader != t->epoch_r;
}

/* Two readers suffice, of any number: the writing wave can be only one of them. */
static inline void read_by(struct granule *g, uint64_t epoch, uint16_t bytes)
{
    if (g->reader && wave_of(g->reader) != wave_of(epoch)) {
        g->before = g->reader;
        g->read_before = g->read;
    }
    g->read = g->reader == epoch ? g->read | bytes : bytes;
    g->reader = epoch;
}

/* lanes: those that touch it. address: the granule's. */
static void touch_granule(struct emu_wave *w, struct touch *t, struct page *p, struct granule *g, uint64_t address,
                          unsigned size, uint16_t bytes, uint64_t lanes)
{
    uint32_t me = w->checks->clocks->id;
    uint64_t at = address + (unsigned)__builtin_ctz(bytes);
    bool both = t->atomic && (g->writer & ATOMIC) && (t->reads || t->surely || t->seen || (g->writer & SURELY));
    bool same = false;
    enum order order;
    if (g->writer && (g->written & bytes) && wave_of(g->writer) != me && !both &&
        (order = order_of(w, g->writer, true, t)) != ORDERED) {
        if (t->writes && !t->reads && !(g->writer & SURELY) && same_there(w, t, address, size, lanes)) {
            same = true;
            if (w->checks->groups & EMU_CHECK_NOTES)
                emu_note(w, t->inst, "equal-stores", lanes, "stores what wave %u of workgroup number %u stored there",
                         wave_of(g->writer) % (uint32_t)w->launch->waves,
                         wave_of(g->writer) / (uint32_t)w->launch->waves);
        } else if (t->reads && !t->writes && !t->atomic && (g->writer & SURELY))
            may_be_right(w, t, at, lanes, g->writer, true, order);
        else if (!(t->reads && !t->writes && g->same))
            tell(w, t, at, lanes, g->writer, true, order);
    }
    if (p->former && t->reads && !t->atomic && g->writer & SURELY && g->written & bytes)
        look_behind(w, t, &p->former[g - p->granule], g->writer, at, lanes);
    for (int k = 0; k < 2 && t->writes && !same; k++) {
        uint64_t reader = k ? g->before : g->reader;
        if (!reader || !((k ? g->read_before : g->read) & bytes) || wave_of(reader) == me ||
            (t->atomic && (reader & ATOMIC)) || (order = order_of(w, reader, false, t)) == ORDERED)
            continue;
        if (t->reads && t->surely && !(reader & ATOMIC))
            may_be_right(w, t, at, lanes, reader, false, order);
        else
            tell(w, t, at, lanes, reader, false, order);
    }
    if (t->writes && !same) {
        bool more = g->writer && wave_of(g->writer) == me;
        if (p->former || (t->reads && g->writer))
            remember(w, t, p, g, bytes);
        g->written = more && !crowded(w, t, g, bytes) ? g->written | bytes : bytes;
        g->writer = t->epoch_w;
        g->same = false;
    } else if (!t->writes)
        read_by(g, t->epoch_r, bytes);
    g->same |= same;
    if (t->swaps && wave_of(g->reader) == me)
        g->reader = g->read = 0;
    if (t->swaps && wave_of(g->before) == me)
        g->before = g->read_before = 0;
}

/* Bytes [from, to) of one granule of the page, or of several once it is split. */
static void touch_bytes(struct emu_wave *w, struct touch *t, struct page *p, uint64_t from, uint64_t to, uint64_t lanes)
{
    unsigned size = 1u << p->shift;
    while (from < to) {
        uint64_t base = from & ~(uint64_t)(size - 1), end = to < base + size ? to : base + size;
        uint16_t bytes = (uint16_t)((1u << (end - base)) - (1u << (from - base)));
        struct granule *g = &p->granule[(base & (PAGE - 1)) >> p->shift];
        if (p->shift && crowded(w, t, g, bytes) && split(p, p->shift == 4 ? 2 : 0)) {
            size = 1u << p->shift;
            continue;
        }
        touch_granule(w, t, p, g, base, size, bytes, lanes);
        from = end;
    }
}

static struct touch how(const struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a)
{
    const struct emu_inst *inst = w->checks->current;
    const struct emu_progress *p = emu_regs_progress(w);
    bool gfx940 = gfx_of(w) >= 0x940 && gfx_of(w) < 0x1000, apart = gfx_of(w) >= 0x1000;
    bool few = __builtin_popcountll(a->lanes) <= FEW;
    uint32_t number = (uint32_t)(inst - w->prog->inst);
    struct touch t = { .inst = i, .access = a, .reads = a->kind != EMU_STORE, .writes = a->kind != EMU_LOAD };
    if (a->kind == EMU_ATOMIC) {
        t.atomic = t.surely = t.bypass = t.through = true;
        t.sync = few;
        t.swaps = strstr(i->op->name, "cmpswap");
    } else if (a->kind == EMU_STORE) {
        t.through = gfx940 ? inst->mods->sc1 : true;
        bool scoped = gfx940 ? inst->mods->sc1 : inst->mods->scope >= 2;
        t.surely = scoped;
        t.sync = !a->scalar && (gfx940 && !scoped ? (a->lanes & (a->lanes - 1)) == 0 : few);
        t.wide = scoped && !t.sync && !a->scalar;
        /* What ranks store for each other may be packets, which hold their own flag. Loads past the caches may look at
         * them; plain loads of data may not. No bit of the store says which it is. */
        bool packet = w->launch->ranks > 1 && !gfx940 && gfx_of(w) < 0x1200 && !a->scalar;
        t.atomic = t.sync || t.wide || packet;
    } else
        t.bypass = t.atomic = t.sync = !a->scalar && (gfx940                ? inst->mods->sc1
                                                      : gfx_of(w) >= 0x1200 ? inst->mods->scope > 0
                                                                            : inst->mods->glc);
    uint32_t clock_w = apart ? p->vs_issued : p->vm_issued;
    if (a->kind == EMU_ATOMIC && apart && w->checks->effects[number].returns)
        clock_w = p->vs_done; /* counted by vmcnt: its own wait is the acquire's */
    t.returned = a->kind == EMU_ATOMIC && w->checks->effects[number].returns ? p->vm_issued : 0;
    t.epoch_w = pack(w->checks->clocks->id, number, clock_w,
                     (t.atomic ? ATOMIC : 0) | (t.through ? THROUGH : 0) | (t.surely ? SURELY : 0));
    t.epoch_r = pack(w->checks->clocks->id, number, p->vm_issued, t.atomic ? ATOMIC : 0);
    return t;
}

/* Whether all active lanes touch neighbouring bytes in one block. */
static bool in_a_row(const struct emu_access *a, const struct emu_block *b)
{
    uint64_t off = 0;
    if (a->lanes != UINT64_MAX && a->lanes != UINT32_MAX)
        return false;
    int n = a->lanes == UINT64_MAX ? 64 : 32;
    for (int l = 0; l < n; l++)
        off |= a->addr[l] ^ (a->addr[0] + (uint64_t)l * a->bytes);
    return !off && a->addr[0] >= b->lo && a->addr[n - 1] < b->hi && !(a->addr[0] & 3) && !(a->bytes & 3);
}

static void touch_row(struct emu_wave *w, struct touch *t, const struct emu_block *b)
{
    const struct emu_races *r = w->launch->watch->races;
    const struct emu_access *a = t->access;
    uint64_t first = a->addr[0], end = first + (uint64_t)a->bytes * (a->lanes == UINT64_MAX ? 64 : 32);
    struct page *page = NULL;
    for (uint64_t x = first; x < end;) {
        uint64_t to = (x & ~15ull) + 16 < end ? (x & ~15ull) + 16 : end;
        if (!page || !(x & (PAGE - 1)))
            page = page_at(r->generation, b, x);
        if (!page)
            return;
        struct granule *g = &page->granule[(x & (PAGE - 1)) >> 4];
        if (page->shift == 4 && !g->writer && to - x == 16 && (!t->writes || !g->reader)) { /* nobody's, so far */
            if (t->writes) {
                g->writer = t->epoch_w;
                g->written = 0xffff;
            } else
                read_by(g, t->epoch_r, 0xffff);
            x = to;
            continue;
        }
        unsigned from_lane = (unsigned)((x - first) / a->bytes), to_lane = (unsigned)((to - 1 - first) / a->bytes);
        uint64_t lanes = (to_lane == 63 ? UINT64_MAX : (1ull << (to_lane + 1)) - 1) & ~((1ull << from_lane) - 1);
        touch_bytes(w, t, page, x, to, lanes);
        x = to;
    }
}

/* The key of a store of many lanes in the table of synchronising words: an address that no memory has. */
static uint64_t key_of(uint64_t epoch)
{
    return 1ull << 63 | ((uint64_t)wave_of(epoch) << 23 | clock_of(epoch)) << 2;
}

/* A release by a store of many lanes is one for all of them. Where more than a few operations are under way no fence
 * came before it: it stores data. */
static void release_wide(struct emu_wave *w, const struct touch *t)
{
    const struct emu_progress *p = emu_regs_progress(w);
    uint32_t left = gfx_of(w) >= 0x1000 ? p->vs_issued - p->vs_done : p->vm_issued - p->vm_done;
    if (left <= FEW)
        emu_clocks_release(w, key_of(t->epoch_w));
}

void emu_races_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                      const struct emu_block *b)
{
    struct emu_races *r = w->launch->watch->races;
    struct touch t = how(w, i, a);
    struct page *page = NULL;
    uint64_t page_number = 0, from16 = 0, lanes = 0, released = 0; /* by a store of many lanes: the last one's epoch */
    uint32_t bytes = 0;
    if (t.wide)
        release_wide(w, &t);
    if ((!t.atomic || t.wide) && !a->scalar && in_a_row(a, b)) {
        touch_row(w, &t, b);
        return;
    }
#define FLUSH()                                                                                                        \
    for (; bytes; bytes &= bytes + (bytes & -bytes)) { /* runs of bytes */                                             \
        unsigned lo = (unsigned)__builtin_ctz(bytes), hi = lo + (unsigned)__builtin_ctz(~(bytes >> lo));               \
        touch_bytes(w, &t, page, from16 + lo, from16 + hi, lanes);                                                     \
    }                                                                                                                  \
    lanes = 0
    /* Neighbouring lanes share granules: those are looked at once. */
    for (uint64_t m = a->lanes; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        uint64_t from = a->addr[l], to = from + a->bytes;
        if (from < b->lo || from >= b->hi) {
            FLUSH();
            b = emu_memory_find(w->launch->memory, from);
            page = NULL;
            if (!b)
                return;
        }
        for (uint64_t x = from; x < to; x = (x & ~15ull) + 16) {
            if (bytes && (x & ~15ull) != from16) {
                FLUSH();
            }
            if (!page || page_number != x / PAGE) {
                page = page_at(r->generation, b, x);
                page_number = x / PAGE;
            }
            if (!page)
                continue;
            unsigned lo = x & 15, hi = to < (x & ~15ull) + 16 ? (unsigned)(to & 15) : 16;
            from16 = x & ~15ull;
            bytes |= (1u << hi) - (1u << lo);
            lanes |= 1ull << l;
        }
        uint64_t writer = t.sync && t.reads && page ? page->granule[(from & (PAGE - 1)) >> page->shift].writer : 0;
        if (writer & ATOMIC)
            emu_clocks_acquire(w, from);
        if (writer & SURELY && writer != released) {
            emu_clocks_acquire(w, key_of(writer));
            released = writer;
        }
        if (t.swaps)
            compare_and_swap(r, w->checks->clocks->id, from, a->bytes);
        if (t.sync && t.writes) {
            t.seen = (t.seen || m == a->lanes) && emu_clocks_seen(w, from);
            emu_clocks_release(w, from);
        }
    }
    FLUSH();
#undef FLUSH
}
