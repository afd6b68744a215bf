/* SPDX-License-Identifier: MIT
 *
 * Launches: the state that waves begin with (LLVM's "User Guide for AMDGPU Backend", "Initial kernel execution state"),
 * and turns. All workgroups that the device would hold at once are resident and make progress together, so that one may
 * wait for what another writes. One host thread runs a launch: it is reproducible, and a seed gives another order. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"

#include "memory.h"

#define TURN 4000 /* instructions */

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static uint64_t next_random(uint64_t *s)
{
    uint64_t z = *s += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- reports --------------------------------------------------------------------------------------------------------
 */

void emu_report(struct emu_wave *w, const struct emu_inst *i, const char *check, bool fatal, uint64_t lanes,
                const char *fmt, ...)
{
    struct emu_launch *launch = w->launch;
    if (fatal) {
        w->stop = EMU_FAULT;
        launch->failed = true;
    }
    if (launch->findings++)
        return;
    char what[300], text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    emu_text_of(w->prog, i, text, sizeof(text));
    const uint32_t *id = w->wg->id;
    snprintf(launch->first, sizeof(launch->first), "%s: %s: %s; at +0x%x: %s; workgroup %u,%u,%u wave %d lanes 0x%llx",
             check, launch->kernel ? launch->kernel->name : "?", what,
             i->address - (launch->kernel ? launch->kernel->entry : 0), text, id[0], id[1], id[2], w->index,
             (unsigned long long)lanes);
}

/* ---- the start of a wave
 * ----------------------------------------------------------------------------------------------- */

/* Words from SGPR *at on; they count as written. */
static void give(struct emu_wave *w, int *at, const void *words, int n)
{
    memcpy(&w->s[*at], words, (size_t)n * 4);
    emu_checks_define(w->checks, (uint16_t)*at, n);
    *at += n;
}

static void start_wave(struct emu_wave *w, struct emu_launch *launch, const struct emu_program *prog,
                       struct emu_workgroup *wg, int index)
{
    const struct emu_kernel *k = launch->kernel;
    const uint8_t *d = k->descriptor;
    uint32_t rsrc1 = u32_at(d + 48), rsrc2 = u32_at(d + 52), props = u32_at(d + 56) & 0xffff,
             preload = u32_at(d + 56) >> 16;
    uint32_t(*v)[64] = w->v;
    struct emu_checks *checks = w->checks;
    uint8_t *scratch = w->scratch;
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    int at = 0;

    *w = (struct emu_wave){ .v = v,
                            .checks = checks,
                            .scratch = scratch,
                            .scratch_bytes = k->scratch,
                            .wg = wg,
                            .launch = launch,
                            .prog = prog,
                            .index = index,
                            .lanes = (uint8_t)k->wave_size };
    w->n_vgprs = k->vgprs;
    w->pc = prog->inst + prog->at[k->entry / 4];
    if (checks)
        emu_checks_reset(checks, w);
    emu_set_mode(w, (rsrc1 >> 12 & 255) | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9);

    uint64_t kernarg = (uint64_t)(uintptr_t)launch->kernarg, zero[2] = { 0, 0 };
    static const uint32_t scratch_buffer[4] = { 0, UINT32_C(1) << 31, UINT32_MAX,
                                                0 }; /* swizzled: see buffer_scratch() */
    if (props & 1)
        give(w, &at, scratch_buffer, 4);
    uint64_t packet = (uint64_t)(uintptr_t)launch->packet;
    if (props & 2)
        give(w, &at, &packet, 2);
    if (props & 4)
        give(w, &at, zero, 2);
    if (props & 8)
        give(w, &at, &kernarg, 2);
    if (props & 16)
        give(w, &at, zero, 2);
    if (props & 32)
        give(w, &at, zero, 2);
    if (props & 64)
        give(w, &at, &k->scratch, 1);
    int user = (int)(rsrc2 >> 1 & 31), length = (int)(preload & 127), offset = (int)(preload >> 7);
    for (int n = 0; n < length && at < user; n++) {
        uint32_t word = 0;
        if ((uint32_t)(offset + n) * 4 + 4 <= k->kernarg_size)
            memcpy(&word, (char *)launch->kernarg + 4 * (offset + n), 4);
        give(w, &at, &word, 1);
    }
    at = user > at ? user : at;
    for (int n = 0; n < 3; n++)
        if (rsrc2 >> (7 + n) & 1)
            give(w, &at, &wg->id[n], 1);
    if (rsrc2 >> 10 & 1)
        give(w, &at, zero, 1);
    if (rsrc2 & 1 && prog->arch->gfx < 0x942)
        give(w, &at, zero, 1); /* the wave's offset in scratch */

    uint32_t first = (uint32_t)(index * k->wave_size), left = threads - first;
    w->exec =
        left >= (uint32_t)k->wave_size ? (k->wave_size == 32 ? UINT32_MAX : UINT64_MAX) : (UINT64_C(1) << left) - 1;
    for (int l = 0; l < 64; l++) {
        uint32_t t = first + (uint32_t)l, x = t % launch->block[0], y = t / launch->block[0] % launch->block[1],
                 z = t / launch->block[0] / launch->block[1];
        v[0][l] = x | y << 10 | z << 20;
    }
    emu_checks_define(checks, EMU_VGPR, 1);
    /* Where anything goes, nothing should be 0 by luck. */
    if (!checks)
        for (int r = 1; r < k->vgprs && r < 256; r++)
            memset(v[r], 0, sizeof(v[r]));
}

/* ---- workgroups
 * ---------------------------------------------------------------------------------------------------------- */

static uint32_t round_up(uint32_t v, uint32_t to)
{
    return (v + to - 1) / to * to;
}

/* Workgroups that a CU holds, by registers, waves and LDS. */
static int resident_per_cu(const struct emu_launch *l, int waves, uint32_t lds)
{
    const struct emu_arch *a = l->arch;
    uint32_t regs = (uint32_t)l->kernel->vgprs; /* metadata counts AGPRs in on unified files */
    int by_regs = (int)((uint32_t)a->vgprs / round_up(regs ? regs : 1, (uint32_t)a->granule));
    int per_simd = by_regs < a->waves ? by_regs : a->waves;
    int n = (per_simd > 0 ? per_simd : 1) * a->simds / waves;
    if (lds && (int)(65536 / lds) < n)
        n = (int)(65536 / lds);
    return n > 0 ? n : 1;
}

struct machine {
    struct emu_launch *launch;
    const struct emu_program *prog;
    struct emu_workgroup *slot;
    int slots, waves, running;
    uint64_t next, total, seed, step; /* step: 0, or what takes the workgroups in another order */
    uint32_t lds;
};

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void start_group(struct machine *m, struct emu_workgroup *g)
{
    const uint32_t *grid = m->launch->grid;
    uint64_t n = m->next++;
    if (m->step)
        n = (n * m->step + m->launch->seed) % m->total;
    g->id[0] = (uint32_t)(n % grid[0]);
    g->id[1] = (uint32_t)(n / grid[0] % grid[1]);
    g->id[2] = (uint32_t)(n / grid[0] / grid[1]);
    g->n_waves = m->waves;
    g->waiting = g->ended = 0;
    g->lds_bytes = m->lds;
    if (m->launch->checks) {
        free(g->shadow);
        g->shadow = m->lds ? emu_lds_shadow_create(m->lds) : NULL;
        memset(g->lds, 0xa5, m->lds);
    }
    for (int k = 0; k < m->waves; k++)
        start_wave(&g->wave[k], m->launch, m->prog, g, k);
    m->running++;
}

static bool prepare(struct machine *m)
{
    struct emu_launch *l = m->launch;
    uint64_t want = (uint64_t)l->cu_count * (uint64_t)resident_per_cu(l, m->waves, m->lds);
    m->slots = (int)(want < m->total ? want : m->total);
    m->slot = calloc((size_t)m->slots, sizeof(*m->slot));
    bool ok = m->slot != NULL;
    for (int s = 0; ok && s < m->slots; s++) {
        struct emu_workgroup *g = &m->slot[s];
        g->wave = calloc((size_t)m->waves, sizeof(*g->wave));
        g->lds = aligned_alloc(64, round_up(m->lds + 64, 64));
        ok = g->wave && g->lds;
        for (int k = 0; ok && k < m->waves; k++) {
            struct emu_wave *w = &g->wave[k];
            w->v = malloc(512 * sizeof(*w->v)); /* rows that the kernel doesn't have are never touched */
            w->scratch = l->kernel->scratch ? malloc((size_t)l->kernel->scratch * 64) : NULL;
            w->checks = l->checks ? emu_checks_create(w) : NULL;
            ok = w->v && (w->scratch || !l->kernel->scratch);
        }
    }
    return ok;
}

static void clean_up(struct machine *m)
{
    for (int s = 0; m->slot && s < m->slots; s++) {
        struct emu_workgroup *g = &m->slot[s];
        for (int k = 0; g->wave && k < m->waves; k++) {
            free(g->wave[k].v);
            free(g->wave[k].scratch);
            emu_checks_destroy(g->wave[k].checks);
        }
        free(g->wave);
        free(g->lds);
        free(g->shadow);
    }
    free(m->slot);
}

/* Gives each wave of the group that can run a turn. */
static void turn(struct machine *m, struct emu_workgroup *g, bool *progress)
{
    struct emu_counters *c = &m->launch->counters;
    int first = m->seed ? (int)(next_random(&m->seed) % (uint64_t)m->waves) : 0;
    for (int n = 0; n < m->waves && !m->launch->failed; n++) {
        struct emu_wave *w = &g->wave[(first + n) % m->waves];
        if (w->stop == EMU_END || w->stop == EMU_BARRIER)
            continue;
        uint64_t before = w->executed;
        enum emu_stop why = emu_run(w, m->seed ? (int64_t)(next_random(&m->seed) % 400 + 1) : TURN);
        *progress |= w->executed > before;
        c->instructions += w->executed - before;
        if (why == EMU_END)
            g->ended++;
        else if (why == EMU_BARRIER)
            g->waiting++;
    }
    if (g->waiting && g->waiting + g->ended == m->waves) {
        if (m->launch->checks && g->ended)
            for (int k = 0; k < m->waves; k++)
                if (g->wave[k].stop == EMU_BARRIER) {
                    emu_report(&g->wave[k], g->wave[k].pc - 1, "divergent-barrier", true, g->wave[k].exec,
                               "%d of %d waves have ended without it", g->ended, m->waves);
                    return;
                }
        for (int k = 0; k < m->waves; k++)
            if (g->wave[k].stop == EMU_BARRIER)
                g->wave[k].stop = EMU_RUNNING;
        g->waiting = 0;
        c->barriers++;
        emu_check_barrier(g);
        *progress = true;
    }
}

static uint64_t spin_limit(void)
{
    const char *env = getenv("RFG_EMU_MAX_SPIN");
    return env ? strtoull(env, NULL, 0) : UINT64_C(20000000000);
}

static bool set_up(struct emu_launch *l, struct machine *m)
{
    char error[400];
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    m->prog = emu_module_program(l->module, l->kernel->wave_size, error, sizeof(error));
    if (!m->prog) {
        snprintf(l->first, sizeof(l->first), "%s", error);
        return false;
    }
    if (m->prog->at[l->kernel->entry / 4] < 0) {
        snprintf(l->first, sizeof(l->first), "%s: its entry is no instruction", l->kernel->name);
        return false;
    }
    m->waves = (int)((threads + (uint64_t)l->kernel->wave_size - 1) / (uint64_t)l->kernel->wave_size);
    m->total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    m->lds = l->kernel->lds + l->dynamic_lds;
    m->seed = l->seed;
    if (m->seed) /* with no divisor in common, its multiples go through all numbers */
        for (m->step = m->seed % m->total + 1; common_divisor(m->step, m->total) != 1;)
            m->step++;
    if (!prepare(m)) {
        snprintf(l->first, sizeof(l->first), "%s: no memory for %d workgroups of %d waves", l->kernel->name, m->slots,
                 m->waves);
        return false;
    }
    return true;
}

/* The AQL packet that the launch would have come by (HSA runtime specification, hsa_kernel_dispatch_packet_t): kernels
 * read sizes from it. */
static void *make_packet(const struct emu_launch *l)
{
    uint8_t *p = emu_alloc(64, "the dispatch packet");
    uint16_t size[3];
    uint32_t grid[3], segments[2] = { l->kernel->scratch, l->kernel->lds + l->dynamic_lds };
    uint64_t kernarg = (uint64_t)(uintptr_t)l->kernarg;
    if (!p)
        return NULL;
    for (int d = 0; d < 3; d++) {
        size[d] = (uint16_t)l->block[d];
        grid[d] = l->grid[d] * l->block[d];
    }
    memcpy(p + 4, size, sizeof(size));
    memcpy(p + 12, grid, sizeof(grid));
    memcpy(p + 24, segments, sizeof(segments));
    memcpy(p + 40, &kernarg, sizeof(kernarg));
    return p;
}

bool emu_launch_run(struct emu_launch *l)
{
    struct machine m = { .launch = l };
    if (!set_up(l, &m) || !(l->packet = make_packet(l))) {
        l->failed = true;
        l->findings++;
        clean_up(&m);
        return false;
    }
    uint64_t limit = spin_limit(), ended_at = 0;
    for (int s = 0; s < m.slots; s++)
        start_group(&m, &m.slot[s]);
    l->counters.waves = m.total * (uint64_t)m.waves;
    while (m.running && !l->failed) {
        bool progress = false;
        for (int s = 0; s < m.slots && !l->failed; s++) {
            struct emu_workgroup *g = &m.slot[s];
            if (g->ended == m.waves)
                continue;
            turn(&m, g, &progress);
            if (g->ended == m.waves) {
                m.running--;
                ended_at = l->counters.instructions;
                if (m.next < m.total)
                    start_group(&m, g);
            }
        }
        if (!l->failed && m.running && (!progress || l->counters.instructions - ended_at > limit))
            for (int s = 0; s < m.slots && !l->failed; s++)
                for (int k = 0; k < m.waves && !l->failed; k++)
                    if (m.slot[s].wave[k].stop != EMU_END && m.slot[s].ended < m.waves)
                        emu_report(&m.slot[s].wave[k], m.slot[s].wave[k].pc, "deadlock", true, m.slot[s].wave[k].exec,
                                   "no workgroup came to an end in %llu instructions",
                                   (unsigned long long)(l->counters.instructions - ended_at));
    }
    clean_up(&m);
    emu_free(l->packet);
    return !l->failed;
}
