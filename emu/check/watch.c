/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "emu/run/touched.h"

static const struct {
    const char *name;
    unsigned bits;
} groups[] = {
    { "registers", EMU_CHECK_REGISTERS },
    { "waits", EMU_CHECK_WAITS },
    { "lds", EMU_CHECK_LDS },
    { "races", EMU_CHECK_RACES },
    { "hazards", EMU_CHECK_HAZARDS },
    { "barriers", EMU_CHECK_BARRIERS },
    { "nan", EMU_CHECK_NAN },
    { "strict", EMU_CHECK_HAZARDS | EMU_CHECK_STRICT },
    { "notes", EMU_CHECK_NOTES },
    { "streams", EMU_CHECK_STREAMS },
    { "usual", EMU_CHECK_USUAL },
    { "all", EMU_CHECK_USUAL | EMU_CHECK_NAN | EMU_CHECK_STRICT | EMU_CHECK_NOTES | EMU_CHECK_STREAMS },
    { "1", EMU_CHECK_USUAL },
    { "none", 0 },
    { "0", 0 },
};

unsigned emu_checks_wanted(void)
{
    const char *text = rfg_env("RFG_EMU_CHECKS");
    unsigned bits = 0;
    if (!text)
        return EMU_CHECK_USUAL;
    if (*text == '+') {
        bits = EMU_CHECK_USUAL;
        text++;
    }
    for (size_t n; *text; text += n + (text[n] == ',')) {
        size_t k = 0, count = sizeof(groups) / sizeof(groups[0]);
        n = strcspn(text, ",");
        while (k < count && (strlen(groups[k].name) != n || strncmp(groups[k].name, text, n)))
            k++;
        if (k == count) {
            rfg_warn("RFG_EMU_CHECKS: '%.*s': must be registers, waits, lds, races, hazards, barriers, nan, strict, "
                     "notes, streams, usual, all or none; the usual ones run",
                     (int)n, text);
            return EMU_CHECK_USUAL;
        }
        bits |= groups[k].bits;
    }
    return bits;
}

/* ---- launches --------------------------------------------------------------------------------------------------- */

static void launch_begin(struct emu_launch *l)
{
    struct emu_launch_watch *watch = calloc(1, sizeof(*watch));
    l->watch = watch;
    if (!watch)
        return;
    bool one_thread, counting = emu_counts_wanted(&one_thread);
    watch->groups = emu_checks_wanted() & ~EMU_CHECK_STREAMS;
    if (watch->groups || counting)
        watch->effects = emu_effects(l->prog);
    if (!watch->effects)
        watch->groups = 0;
    if (counting)
        watch->counts = emu_counts_begin(l, watch->effects);
    l->skips = emu_counts_skips(watch->counts);
    if (watch->groups & EMU_CHECK_RACES)
        watch->races = emu_races_create(l);
    if (!(watch->groups & EMU_CHECK_REGISTERS))
        emu_memory_trust(l->memory); /* nobody sees what it writes */
    if (watch->groups & (EMU_CHECK_REGISTERS | EMU_CHECK_RACES))
        one_thread = true; /* their shadows of memory belong to one thread; and reports are the same each time */
    l->one_thread = one_thread || l->touched;
}

static void launch_end(struct emu_launch *l)
{
    if (!l->watch)
        return;
    emu_counts_end(l->watch->counts, l);
    emu_races_destroy(l->watch->races);
    free(l->watch);
    l->watch = NULL;
}

/* ---- workgroups and waves ---------------------------------------------------------------------------------------- */

static void group_begin(struct emu_launch *l, struct emu_workgroup *wg)
{
    const struct emu_launch_watch *watch = l->watch;
    if (!watch || !watch->groups)
        return;
    if (!wg->shadow)
        wg->shadow = emu_lds_create(wg->lds_bytes, wg->n_waves);
    if (wg->shadow)
        emu_lds_begin(wg);
}

static void checks_free(struct emu_checks *c)
{
    if (!c)
        return;
    emu_regs_destroy(c->regs);
    free(c->scratch);
    free(c->hazards);
    free(c->nans);
    emu_clocks_destroy(c->clocks);
    free(c);
}

static struct emu_checks *checks_create(const struct emu_launch *l)
{
    const struct emu_launch_watch *watch = l->watch;
    bool scratch = l->scratch && watch->groups & EMU_CHECK_REGISTERS;
    struct emu_checks *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->groups = watch->groups;
    c->effects = watch->effects;
    c->regs = emu_regs_create();
    c->scratch = scratch ? emu_scratch_create(l->scratch_per_wave) : NULL;
    c->clocks = watch->races ? emu_clocks_create() : NULL;
    c->hazards = c->groups & EMU_CHECK_HAZARDS ? emu_hazards_create() : NULL;
    c->nans = c->groups & EMU_CHECK_NAN ? emu_nans_create() : NULL;
    if (c->regs && (c->scratch || !scratch) && (c->clocks || !watch->races) &&
        (c->hazards || !(c->groups & EMU_CHECK_HAZARDS)) && (c->nans || !(c->groups & EMU_CHECK_NAN)))
        return c;
    checks_free(c);
    return NULL;
}

static void wave_begin(struct emu_wave *w)
{
    const struct emu_launch_watch *watch = w->launch->watch;
    if (!watch)
        return;
    if (watch->groups && !w->checks)
        w->checks = checks_create(w->launch);
    if (w->checks) {
        emu_regs_begin(w);
        w->checks->barriers = 0;
        if (w->checks->scratch)
            emu_scratch_begin(w->checks->scratch);
        if (w->checks->clocks)
            emu_clocks_begin(w);
        if (w->checks->hazards)
            emu_hazards_begin(w);
        if (w->checks->nans) {
            emu_nans_begin(w);
            w->watch |= EMU_WATCH_AFTER;
        }
        w->watch |= EMU_WATCH_BEFORE | EMU_WATCH_ACCESS;
    }
    if (w->launch->touched)
        w->watch |= EMU_WATCH_ACCESS;
    if (watch->counts && !w->counts)
        w->counts = emu_counts_create(watch->counts);
    if (w->counts) {
        w->watch |= EMU_WATCH_BEFORE | EMU_WATCH_ACCESS;
        emu_counts_wave(w, true);
    }
}

static void wave_end(struct emu_wave *w)
{
    if (w->checks && w->wg->shadow)
        emu_lds_wave_end(w);
    if (w->checks && w->checks->clocks)
        emu_races_wave_end(w);
    if (w->counts)
        emu_counts_wave(w, false);
}

static void group_free(struct emu_workgroup *wg)
{
    emu_lds_destroy(wg->shadow);
    for (int k = 0; k < wg->n_waves; k++) {
        checks_free(wg->wave[k].checks);
        emu_counts_destroy(wg->wave[k].counts);
    }
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

/* All remaining waves have arrived at a barrier. Checks that no wave ended that was at an earlier one. (Ending before
 * the first, as a whole wave, is usual.) The hardware only counts arrivals, so specialised waves may have barrier
 * instructions of their own. */
static void same_barrier(struct emu_workgroup *wg)
{
    struct emu_wave *first = NULL;
    for (int k = 0; k < wg->n_waves; k++) {
        struct emu_wave *w = &wg->wave[k];
        if (w->stop == EMU_BARRIER && !first)
            first = w;
        else if (w->stop == EMU_BARRIER && w->pc != first->pc && w->checks->groups & EMU_CHECK_NOTES)
            emu_note(w, w->pc - 1, "divergent-barrier", 0, "waits here while wave %d waits at 0x%x", first->index,
                     first->pc[-1].address);
    }
    for (int k = 0; first && k < wg->n_waves; k++)
        if (wg->wave[k].stop == EMU_END && wg->wave[k].checks->barriers) {
            emu_report(first, first->pc - 1, "divergent-barrier", 0, "waits here, wave %d has ended after %u barriers",
                       wg->wave[k].index, wg->wave[k].checks->barriers);
            return;
        }
    for (int k = 0; k < wg->n_waves; k++)
        wg->wave[k].checks->barriers += wg->wave[k].stop == EMU_BARRIER;
}

static void barrier(struct emu_workgroup *wg)
{
    const struct emu_checks *c = wg->wave[0].checks;
    const struct emu_launch_watch *watch = wg->wave[0].launch->watch;
    if (watch && watch->counts)
        emu_counts_barrier(watch->counts, wg);
    if (!c)
        return;
    if (c->groups & EMU_CHECK_BARRIERS)
        same_barrier(wg);
    if (wg->shadow)
        emu_lds_barrier(wg);
    if (c->clocks)
        emu_clocks_barrier(wg);
}

/* ---- instructions and memory ------------------------------------------------------------------------------------- */

static void before(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_checks *c = w->checks;
    if (w->counts)
        emu_counts_before(w, i);
    if (!c)
        return;
    const struct emu_effect *e = &c->effects[i - w->prog->inst];
    c->current = i;
    if (c->hazards)
        emu_hazards_before(w, i, e);
    emu_regs_before(w, i, e);
    if (c->clocks && !w->stop)
        emu_clocks_before(w, i);
    if (c->nans && !w->stop)
        emu_nans_before(w, i, e);
}

static void after(struct emu_wave *w, const struct emu_inst *i)
{
    emu_nans_after(w, i, &w->checks->effects[i - w->prog->inst]);
}

static uint64_t on_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                          const struct emu_block *b)
{
    const struct emu_checks *c = w->checks;
    if (w->counts)
        emu_counts_access(w, i, a, b);
    if (w->launch->touched && a->space == EMU_GLOBAL)
        emu_touched_add(w->launch->touched, w->launch->memory, a);
    if (c && a->space == EMU_LDS_SPACE && w->wg->shadow)
        emu_lds_access(w, i, a);
    bool scratch = a->space == EMU_SCRATCH || (b && b->kind == EMU_BLOCK_SCRATCH);
    if (c && scratch && c->scratch)
        emu_scratch_access(w, i, a);
    if (c && a->space == EMU_GLOBAL && !scratch && (c->groups & EMU_CHECK_REGISTERS)) {
        uint64_t copied = a->kind == EMU_STORE ? emu_regs_stored(w, i, a) : 0;
        emu_memory_access(w, i, a, b, copied);
    }
    if (c && c->clocks && a->space == EMU_GLOBAL && !scratch)
        emu_races_access(w, i, a, b);
    return w->stop == EMU_FAULT ? 0 : a->lanes;
}

static const struct emu_hooks hooks = {
    .launch_begin = launch_begin,
    .launch_end = launch_end,
    .group_begin = group_begin,
    .wave_begin = wave_begin,
    .wave_end = wave_end,
    .group_free = group_free,
    .barrier = barrier,
    .access = on_access,
    .block_begin = emu_memory_begin,
    .block_end = emu_memory_end,
    .host_write = emu_memory_host_write,
};

void emu_watch(void)
{
    emu_before = before;
    emu_after = after;
    emu_hooks = &hooks;
}
