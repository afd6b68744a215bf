/* SPDX-License-Identifier: MIT
 *
 * The order between waves; check_races.c describes its rules. */
#include "check_waves.h"

#include <stdlib.h>
#include <string.h>

struct emu_clocks *emu_clocks_create(void)
{
    return calloc(1, sizeof(struct emu_clocks));
}

void emu_clocks_destroy(struct emu_clocks *c)
{
    if (!c)
        return;
    free(c->known.e);
    free(c->out.e);
    free(c->cached.e);
    free(c->near.e);
    free(c->acquired.e);
    free(c->written_back.e);
    free(c);
}

void emu_clocks_begin(struct emu_wave *w)
{
    struct emu_clocks *c = w->checks->clocks;
    c->id = (uint32_t)(w->wg->number * (uint64_t)w->launch->waves + (uint64_t)w->index);
    c->known.n = c->out.n = c->cached.n = c->near.n = c->acquired.n = c->written_back.n = 0;
    c->own_wb = c->acquired_at = c->told = c->fresh = 0;
    c->wb_pending = c->more = c->at_grid = false;
}

static bool many_l2(const struct emu_wave *w)
{
    return w->prog->arch->xcds > 1;
}
/* Workgroups over two CUs with an L0 each. */
static bool two_cus(const struct emu_wave *w)
{
    return gfx_of(w) >= 0x1000 && (w->launch->kernel->rsrc1 >> 29 & 1);
}

/* The wave's own clock entry, as other waves see it. */
static struct entry own(const struct emu_wave *w, bool finished)
{
    const struct emu_clocks *c = w->checks->clocks;
    const struct emu_progress *p = emu_regs_progress(w);
    bool apart = gfx_of(w) >= 0x1000;
    struct entry e = { .wave = c->id, .wb = c->own_wb };
    e.r = finished ? p->vm_done : p->vm_issued;
    e.w = !apart ? e.r : finished ? p->vs_done : p->vs_issued;
    if (!many_l2(w))
        e.wb = e.w;
    return e;
}

void emu_clocks_release(struct emu_wave *w, uint64_t address)
{
    struct sync *s = sync_at(&w->launch->watch->races->syncs, address, true);
    struct entry me = own(w, true);
    if (!s)
        return;
    join(&s->released, &w->checks->clocks->out);
    join_entries(&s->released, &me, 1);
    s->seen.n = 0;
    w->checks->clocks->told = me.w;
}

/* The key of the grid's barrier in the table of synchronising words. */
#define GRID_KEY (1ull << 62)

/* Who comes out of a barrier of the grid knows what those who went in had released. Its workgroup's waves, which wait
 * for it, had their caches invalidated before it went in (ockl's grid.sync() has its one fence there), and have not
 * loaded since: they are fresh. */
static void leave_grid(struct emu_wave *w)
{
    const struct sync *s = sync_at(&w->launch->watch->races->syncs, GRID_KEY, false);
    struct emu_clocks *c = w->checks->clocks;
    if (!s)
        return;
    join(&c->known, &s->released);
    join(&c->out, &s->released);
    for (int k = 0; k < w->wg->n_waves; k++) {
        struct emu_clocks *o = w->wg->wave[k].checks->clocks;
        join(&o->cached, &s->released);
        join(&o->near, &s->released);
    }
}

void emu_clocks_acquire(struct emu_wave *w, uint64_t address)
{
    struct sync *s = sync_at(&w->launch->watch->races->syncs, address, false);
    struct emu_clocks *c = w->checks->clocks;
    if (!s)
        return;
    c->acquired_at = emu_regs_progress(w)->vm_issued;
    join(&c->acquired, &s->released);
    join_entries(&s->seen, &(struct entry){ .wave = c->id, .r = c->acquired_at }, 1);
}

bool emu_clocks_seen(const struct emu_wave *w, uint64_t address)
{
    const struct sync *s = sync_at(&w->launch->watch->races->syncs, address, false);
    const struct emu_clocks *c = w->checks->clocks;
    for (int k = 0; s && k < s->seen.n; k++) {
        const struct entry *reader = &s->seen.e[k], *known = find(&c->known, reader->wave);
        if (reader->wave == c->id ? (int32_t)(emu_regs_progress(w)->vm_done - reader->r) >= 0
                                  : known && known->r >= reader->r)
            return true;
    }
    return false;
}

/* ---- instructions
 * -------------------------------------------------------------------------------------------------------- */

static bool is_named(const struct emu_inst *i, const char *name)
{
    return !strcmp(i->op->name, name);
}

/* From now on its plain loads find no older data than that. */
static void fetch_anew(struct emu_wave *w, const struct clock *than)
{
    struct emu_clocks *c = w->checks->clocks;
    if (than == &c->known) /* all of it */
        copy(&c->cached, than);
    else
        join(&c->cached, than);
    c->fresh = emu_regs_progress(w)->vm_done;
}

static void cache_op(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_clocks *c = w->checks->clocks;
    bool sc1 = i->k[0] >> 15 & 1; /* MUBUF, gfx940 */
    if (is_named(i, "buffer_wbl2")) {
        if (!many_l2(w) || !sc1)
            return;
        copy(&c->written_back, &c->known);
        c->writing_back = emu_regs_progress(w)->vm_issued;
        c->wb_pending = true;
    } else if (!strncmp(i->op->name, "global_inv", 10) || is_named(i, "global_wbinv")) {
        if (i->k[0] >= 2) /* scope DEV or SYS; SE: what the workgroup's two CUs see of each other */
            join(&c->near, &c->known);
        if (i->k[0] >= 1)
            fetch_anew(w, &c->near);
    } else if (is_named(i, "buffer_gl1_inv")) {
        join(&c->near, &c->known);
        /* gfx10's compilers before LLVM 17 put them the other way round: what another wave fetches in between isn't
         * looked at. */
        if (gfx_of(w) < 0x1100 && i > w->prog->inst && is_named(i - 1, "buffer_gl0_inv"))
            fetch_anew(w, &c->near);
    } else if (is_named(i, "buffer_gl0_inv"))
        fetch_anew(w, &c->near);
    else if (is_named(i, "buffer_inv") ? sc1 : !strncmp(i->op->name, "buffer_wbinvl1", 14))
        fetch_anew(w, &c->known);
}

void emu_clocks_before(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_clocks *c = w->checks->clocks;
    bool all = (i->wait >> (gfx_of(w) >= 0x1000 ? EMU_WAIT_VS : EMU_WAIT_VM) & 255) == 1; /* no store is left */
    if (all && c->more) {
        join(&c->out, &c->known);
        c->more = false;
    }
    if (all && c->wb_pending) {
        for (int k = 0; k < c->written_back.n; k++)
            c->written_back.e[k].wb = c->written_back.e[k].w;
        join(&c->known, &c->written_back);
        join(&c->out, &c->written_back);
        c->own_wb = c->writing_back;
        c->wb_pending = false;
    }
    if (c->acquired.n && (int32_t)(emu_regs_progress(w)->vm_done - c->acquired_at) >= 0) {
        join(&c->known, &c->acquired);
        join(&c->out, &c->acquired);
        c->acquired.n = 0;
    }
    if (c->at_grid)
        leave_grid(w);
    if ((c->at_grid = is_named(i, "ds_gws_barrier")))
        emu_clocks_release(w, GRID_KEY);
    if (i->op->cls == EMU_CACHE)
        cache_op(w, i);
}

void emu_clocks_barrier(struct emu_workgroup *wg)
{
    struct emu_wave *first = &wg->wave[0];
    struct emu_clocks *c = first->checks->clocks;
    bool apart = two_cus(first);
    for (int k = 0; k < wg->n_waves; k++) {
        struct emu_wave *w = &wg->wave[k];
        struct emu_clocks *o = w->checks->clocks;
        /* One L1 keeps a CU's operations in order, waited for or not; two L0s don't. */
        struct entry me = own(w, apart), finished = own(w, true);
        if (o != c) {
            join(&c->known, &o->known);
            join(&c->out, &o->out);
            join(&c->cached, &o->cached);
        }
        join_entries(&c->known, &me, 1);
        join_entries(&c->out, &finished, 1);
        o->told = me.w;
        if (!apart)
            join_entries(&c->cached, &me, 1);
    }
    c->more = true;
    copy(&c->near, &c->cached);
    for (int k = 0; apart && k < wg->n_waves; k++) {
        struct entry me = own(&wg->wave[k], true);
        join_entries(&c->near, &me, 1);
    }
    for (int k = 1; k < wg->n_waves; k++) {
        struct emu_clocks *o = wg->wave[k].checks->clocks;
        copy(&o->known, &c->known);
        copy(&o->out, &c->out);
        o->more = true;
        if (!apart)
            copy(&o->cached, &c->cached);
        copy(&o->near, &c->near);
    }
}

enum order emu_clocks_order(const struct emu_wave *w, uint64_t at, bool was_write, bool cached)
{
    const struct emu_clocks *c = w->checks->clocks;
    uint32_t other = wave_of(at), clock = clock_of(at);
    uint32_t waves = (uint32_t)w->launch->waves;
    bool near = other / waves == c->id / waves;
    const struct entry *e = find(&c->known, other);
    if (!e)
        return UNORDERED;
    if (!was_write)
        return e->r >= clock ? ORDERED : UNORDERED;
    if (e->w < clock)
        return near ? UNORDERED : NOT_WAITED;
    if (!near && many_l2(w) && !(at & THROUGH) && e->wb < clock)
        return NOT_WRITTEN_BACK;
    if (!cached)
        return ORDERED;
    const struct entry *f = find(&c->cached, other);
    return f && f->w >= clock ? ORDERED : STALE;
}
