/* SPDX-License-Identifier: MIT
 *
 * The scheduler. All workgroups that the GPU would hold at a time make progress together. Those that wait for no other
 * run to their end at once, so that few are really in memory. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "hostcall.h"
#include "slot.h"

#define BUDGET_LEAST     64 /* instructions of a wave in its turn: from EMU_BUDGET down to this, if it only waits */
#define ROUNDS           64 /* of a workgroup that gets somewhere, in its turn */
#define QUIET_ROUNDS     5  /* of one that may be waiting for others, without saying so by s_sleep */
#define SLEEP            64 /* what a yield counts as */
#define MAX_SPIN         100000000
#define MAX_INSTRUCTIONS (1ull << 40) /* of a launch: hours */
#define MAX_THREADS      256
#define SCRATCH_MOST     (3ull << 30) /* of a launch: its offsets have 32 bits */

struct sched {
    struct emu_launch *l;
    struct emu_settings set;
    _Atomic uint64_t next; /* the next workgroup to start */
    _Atomic int live;      /* workgroups started and not ended */
    _Atomic int slots;
    _Atomic uint64_t executed;
    _Atomic uint64_t quiet; /* instructions since anything was stored or a wave ended */
    _Atomic bool no_memory;
    _Atomic uint32_t grid_turn, grid_arrived; /* barriers of the grid so far; waves at the next */
};

static _Atomic uint64_t executed_in_all;

uint64_t emu_executed(void)
{
    return atomic_load(&executed_in_all);
}

struct worker {
    struct sched *s;
    struct emu_slot **live;
    int n_live, capacity;
    struct emu_slot *unused;
    uint64_t executed, random;
    pthread_t thread;
};

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static bool number(const char *name, uint64_t lo, uint64_t hi, uint64_t *out)
{
    const char *text = rfg_env(name);
    char *end;
    if (!text)
        return false;
    unsigned long long v = strtoull(text, &end, 0);
    if (*end || text[0] == '-' || v < lo || v > hi) {
        rfg_warn("%s='%s': must be a number from %llu to %llu; it is ignored", name, text, (unsigned long long)lo,
                 (unsigned long long)hi);
        return false;
    }
    *out = v;
    return true;
}

void emu_settings_read(struct emu_settings *s)
{
    uint64_t n = 0;
    cpu_set_t set;
    *s = (struct emu_settings){ .max_spin = MAX_SPIN, .max_instructions = MAX_INSTRUCTIONS, .turn = EMU_BUDGET };
    number("RFG_EMU_MAX_INSTRUCTIONS", 1, UINT64_MAX, &s->max_instructions);
    number("RFG_EMU_MAX_SPIN", 1, UINT64_MAX, &s->max_spin);
    number("RFG_EMU_TURN", 1, EMU_BUDGET, &s->turn);
    s->shuffle = number("RFG_EMU_SCHEDULE", 0, UINT64_MAX, &s->seed);
    if (number("RFG_EMU_THREADS", 1, MAX_THREADS, &n))
        s->threads = (int)n;
    else
        s->threads = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    if (s->shuffle)
        s->threads = 1;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static void free_slot(struct emu_slot *s)
{
    if (emu_hooks->group_free)
        emu_hooks->group_free(&s->wg);
    free(s->registers);
    free(s->wg.lds);
    free(s->wg.wave);
    free(s);
}

static struct emu_slot *new_slot(struct sched *s)
{
    struct emu_launch *l = s->l;
    int v = l->kernel->n_vgprs, a = l->kernel->n_agprs, waves = l->waves;
    size_t rows = (size_t)(v + a), size = rows * (size_t)waves * sizeof(uint32_t[64]);
    size_t lds = ((size_t)l->lds_bytes + 127) & ~(size_t)63;
    struct emu_slot *slot = calloc(1, sizeof(*slot));
    if (!slot)
        return NULL;
    slot->registers = aligned_alloc(64, size);
    slot->wg.lds = aligned_alloc(64, lds);
    slot->wg.wave = calloc((size_t)waves, sizeof(*slot->wg.wave));
    if (!slot->registers || !slot->wg.lds || !slot->wg.wave) {
        free_slot(slot);
        return NULL;
    }
    memset(slot->registers, 0xFF, size); /* NaN */
    memset(slot->wg.lds, 0xFF, lds);
    slot->wg.n_waves = waves;
    slot->wg.lds_bytes = l->lds_bytes;
    slot->index = atomic_fetch_add(&s->slots, 1);
    for (int i = 0; i < waves; i++) {
        slot->wg.wave[i].v = slot->registers + rows * (size_t)i;
        slot->wg.wave[i].a = slot->wg.wave[i].v + v;
        slot->wg.wave[i].n_vgprs = v;
        slot->wg.wave[i].n_agprs = a;
    }
    return slot;
}

/* UINT64_MAX: there is none. */
static uint64_t next_workgroup(struct sched *s)
{
    const struct emu_launch *l = s->l;
    uint64_t n = UINT64_MAX;
    do
        n = atomic_load(&s->next) < l->n_workgroups ? atomic_fetch_add(&s->next, 1) : UINT64_MAX;
    while (n < l->n_workgroups && l->skips && l->skips(l, n));
    return n;
}

/* Starts the next workgroup if the GPU would hold one more. */
static bool start_next(struct worker *k)
{
    struct sched *s = k->s;
    if (atomic_fetch_add(&s->live, 1) >= s->l->resident) {
        atomic_fetch_sub(&s->live, 1);
        return false;
    }
    uint64_t n = next_workgroup(s);
    if (n >= s->l->n_workgroups) {
        atomic_fetch_sub(&s->live, 1);
        return false;
    }
    if (k->n_live == k->capacity) {
        int capacity = k->capacity ? 2 * k->capacity : 16;
        struct emu_slot **grown = realloc(k->live, (size_t)capacity * sizeof(*grown));
        if (grown) {
            k->live = grown;
            k->capacity = capacity;
        }
    }
    struct emu_slot *slot = k->unused;
    if (slot)
        k->unused = slot->next;
    else
        slot = k->n_live < k->capacity ? new_slot(s) : NULL;
    if (!slot) {
        atomic_store(&s->no_memory, true);
        atomic_store(&s->l->stop, true);
        return false;
    }
    emu_slot_start(s->l, slot, n);
    k->live[k->n_live++] = slot;
    return true;
}

static void end_group(struct worker *k, int at)
{
    struct emu_slot *slot = k->live[at];
    memmove(&k->live[at], &k->live[at + 1], (size_t)(--k->n_live - at) * sizeof(*k->live));
    slot->next = k->unused;
    k->unused = slot;
    atomic_fetch_sub(&k->s->live, 1);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static bool stopped(const struct sched *s)
{
    return atomic_load_explicit(&s->l->stop, memory_order_relaxed);
}

static void maybe_release(struct emu_workgroup *wg)
{
    if (!wg->at_barrier || wg->at_barrier + wg->ended < wg->n_waves)
        return;
    if (emu_hooks->barrier)
        emu_hooks->barrier(wg);
    for (int i = 0; i < wg->n_waves; i++)
        if (wg->wave[i].stop == EMU_BARRIER)
            wg->wave[i].stop = EMU_RUNNING;
    wg->at_barrier = 0;
}

static bool can_run(const struct emu_wave *w)
{
    return w->stop != EMU_END && w->stop != EMU_BARRIER;
}

/* Something moved. */
static void not_quiet(struct sched *s)
{
    if (atomic_load_explicit(&s->quiet, memory_order_relaxed))
        atomic_store_explicit(&s->quiet, 0, memory_order_relaxed);
}

/* Instructions without any progress that can't be a coincidence: the user's limit, and enough for every wave that is
 * there to have had turns, were they all one thread's. */
static uint64_t patience(const struct sched *s)
{
    uint64_t waves = (uint64_t)atomic_load_explicit(&s->live, memory_order_relaxed) * (uint64_t)s->l->waves;
    return s->set.max_spin + waves * (uint64_t)s->set.threads * QUIET_ROUNDS * EMU_BUDGET;
}

static void give_up(struct sched *s, const char *why)
{
    if (!atomic_exchange(&s->l->stop, true))
        atomic_store(&s->l->why, why);
}

/* Nothing that others can see, worth so many instructions. */
static void stay_quiet(struct sched *s, uint64_t worth)
{
    if (atomic_fetch_add_explicit(&s->quiet, worth, memory_order_relaxed) > patience(s))
        give_up(s, "deadlock");
}

/* A wave comes to a barrier of the grid; the last one opens it. */
static void arrive(struct sched *s, struct emu_wave *w)
{
    if (!s->l->cooperative)
        give_up(s, "deadlock");
    w->grid_turn = atomic_load(&s->grid_turn);
    if (atomic_fetch_add(&s->grid_arrived, 1) + 1 == w->grid_waves) {
        atomic_store(&s->grid_arrived, 0);
        atomic_fetch_add(&s->grid_turn, 1);
        not_quiet(s);
    }
}

/* One wave for at most budget instructions. True if it got somewhere that others can see. */
static bool run_wave(struct worker *k, struct emu_wave *w, int64_t budget)
{
    struct sched *s = k->s;
    struct emu_workgroup *wg = w->wg;
    uint64_t before = w->executed, stores = w->stores, lds = w->lds_stores;
    if (w->stop == EMU_GRID && w->grid_turn == atomic_load(&s->grid_turn)) {
        stay_quiet(s, SLEEP);
        return false;
    }
    w->stop = EMU_RUNNING;
    enum emu_stop why = emu_run(w, budget);
    uint64_t executed = w->executed - before;
    bool progress = w->stores != stores || why == EMU_END;
    w->stop = (uint8_t)why;
    k->executed += executed;
    if (atomic_fetch_add_explicit(&s->executed, executed, memory_order_relaxed) + executed > s->set.max_instructions)
        give_up(s, "instruction-limit");
    if (why == EMU_END) {
        wg->ended++;
        if (emu_hooks->wave_end)
            emu_hooks->wave_end(w);
    } else if (why == EMU_BARRIER)
        wg->at_barrier++;
    else if (why == EMU_GRID)
        arrive(s, w);
    if (s->l->hostcall && emu_hostcall_serve(s->l))
        progress = true;
    maybe_release(wg);
    if (progress)
        not_quiet(s);
    else
        stay_quiet(s, executed + (why == EMU_YIELD ? SLEEP : 0));
    return progress || w->lds_stores != lds;
}

/* A workgroup's turn lasts while it makes progress, up to a limit. Without progress its turns get shorter, so that many
 * spinning workgroups don't delay the one that they wait for. */
static void turn(struct worker *k, struct emu_slot *slot)
{
    struct emu_workgroup *wg = &slot->wg;
    const uint64_t most = k->s->set.turn;
    int quiet = 0;
    for (int round = 0; round < ROUNDS; round++) {
        bool progress = false, ready = false, ran = false;
        for (int i = 0; i < wg->n_waves && !stopped(k->s); i++)
            if (can_run(&wg->wave[i])) {
                ran = true;
                progress |= run_wave(k, &wg->wave[i], (uint64_t)slot->budget < most ? slot->budget : (int64_t)most);
            }
        if (!ran && !stopped(k->s)) /* at a barrier that nobody can complete */
            give_up(k->s, "deadlock");
        for (int i = 0; i < wg->n_waves; i++)
            ready |= wg->wave[i].stop == EMU_RUNNING;
        if (stopped(k->s) || wg->ended == wg->n_waves || (!progress && !ready))
            return;
        if (progress) {
            slot->budget = EMU_BUDGET;
            quiet = 0;
        } else if (++quiet == QUIET_ROUNDS || slot->budget < EMU_BUDGET) {
            slot->budget = slot->budget / 4 > BUDGET_LEAST ? slot->budget / 4 : BUDGET_LEAST;
            return;
        }
    }
}

/* Up and down the list: a chain of workgroups that wait for each other gets done in few passes, whichever
 * way it goes. */
static void run_in_order(struct worker *k)
{
    int at = 0, step = 1;
    while (!stopped(k->s)) {
        if (start_next(k)) {
            at = k->n_live - 1;
            not_quiet(k->s);
        } else if (!k->n_live) {
            if (atomic_load(&k->s->next) >= k->s->l->n_workgroups)
                return;
            usleep(50); /* the others have all that is resident */
            continue;
        } else if (at < 0 || at >= k->n_live) {
            step = at < 0 ? 1 : -1;
            at = at < 0 ? 0 : k->n_live - 1;
        }
        struct emu_slot *slot = k->live[at];
        turn(k, slot);
        if (slot->wg.ended == slot->wg.n_waves) {
            end_group(k, at);
            at -= step < 0;
        } else
            at += step;
    }
}

/* One wave of one workgroup at a time, for a few instructions. Workgroups start in order, as on the hardware, but
 * when is chance too. */
static void run_shuffled(struct worker *k)
{
    while (!stopped(k->s)) {
        int n = k->n_live, at = (int)(rfg_random(&k->random) % (uint64_t)(n + 1));
        if (at == n && start_next(k))
            not_quiet(k->s);
        else if (at == n && !n)
            return;
        else if (at == n)
            at = (int)(rfg_random(&k->random) % (uint64_t)n);
        struct emu_workgroup *wg = &k->live[at]->wg;
        int i = (int)(rfg_random(&k->random) % (uint64_t)wg->n_waves);
        for (int n_waves = wg->n_waves; n_waves && !can_run(&wg->wave[i]); n_waves--)
            i = (i + 1) % wg->n_waves;
        if (!can_run(&wg->wave[i])) {
            give_up(k->s, "deadlock"); /* at a barrier that nobody can complete */
            return;
        }
        run_wave(k, &wg->wave[i], 1 + (int64_t)(rfg_random(&k->random) % (1ull << rfg_random(&k->random) % 12)));
        if (wg->ended == wg->n_waves)
            end_group(k, at);
    }
}

static void *work(void *arg)
{
    struct worker *k = arg;
    if (k->s->set.shuffle)
        run_shuffled(k);
    else
        run_in_order(k);
    return NULL;
}

/* ---- deadlock ---------------------------------------------------------------------------------------------------- */

struct position {
    const struct emu_inst *inst;
    uint8_t stop;
    uint32_t id[3];
    int wave;
};

static int by_place(const void *a, const void *b)
{
    const struct position *x = a, *y = b;
    if (x->inst != y->inst)
        return x->inst < y->inst ? -1 : 1;
    for (int d = 2; d >= 0; d--)
        if (x->id[d] != y->id[d])
            return x->id[d] < y->id[d] ? -1 : 1;
    return x->wave - y->wave;
}

/* Waves at one instruction share lines. */
static void print_positions(const struct emu_launch *l, const struct position *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        char text[128], line[1000];
        size_t end = i;
        emu_inst_text(l->prog, p[i].inst, text, sizeof(text));
        int at = snprintf(line, sizeof(line), "%s '%s' at 0x%x:",
                          p[i].stop == EMU_BARRIER || p[i].stop == EMU_GRID ? "after the barrier, before" : "before",
                          text, p[i].inst->address);
        for (; end < n && p[end].inst == p[i].inst && at < (int)sizeof(line) - 60; end++)
            at += snprintf(line + at, sizeof(line) - (size_t)at, " (%u,%u,%u)/%d", p[end].id[0], p[end].id[1],
                           p[end].id[2], p[end].wave);
        rfg_warn_each("emu:   %s", line);
        i = end;
    }
}

static void report_deadlock(struct emu_launch *l, const struct worker *workers, int n_workers)
{
    size_t n = 0, groups = 0, most = 0;
    for (int i = 0; i < n_workers; i++)
        most += (size_t)workers[i].n_live * (size_t)l->waves;
    struct position *p = calloc(most + 1, sizeof(*p));
    char first[200] = "", text[128];
    bool at_grid = false;
    for (int i = 0; i < n_workers; i++)
        for (int g = 0; g < workers[i].n_live; g++) {
            const struct emu_workgroup *wg = &workers[i].live[g]->wg;
            groups++;
            for (int w = 0; p && w < wg->n_waves; w++)
                at_grid |= wg->wave[w].stop == EMU_GRID;
            for (int w = 0; p && w < wg->n_waves; w++)
                if (wg->wave[w].stop != EMU_END)
                    p[n++] =
                        (struct position){ wg->wave[w].pc, wg->wave[w].stop, { wg->id[0], wg->id[1], wg->id[2] }, w };
        }
    qsort(p, n, sizeof(*p), by_place);
    if (n) {
        emu_inst_text(l->prog, p[0].inst, text, sizeof(text));
        snprintf(first, sizeof(first), "; workgroup (%u,%u,%u) wave %d is before '%s' at 0x%x", p[0].id[0], p[0].id[1],
                 p[0].id[2], p[0].wave, text, p[0].inst->address);
    }
    int before = emu_reports("deadlock");
    emu_report_launch(
        l, "deadlock",
        "no wave stored anything or ended for %llu instructions; %zu waves of %zu workgroups are left, of "
        "%llu in the grid, %d resident%s%s",
        (unsigned long long)atomic_load(&((struct sched *)workers[0].s)->quiet), n, groups,
        (unsigned long long)l->n_workgroups, l->resident, first,
        at_grid && !l->cooperative
            ? "; a barrier of the grid, but the launch is not cooperative (hipLaunchCooperativeKernel)"
            : "");
    if (p && emu_reports("deadlock") > before)
        print_positions(l, p, n);
    free(p);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* Registers a launch's memory, and removes it again. */
struct surroundings {
    struct emu_block *kernarg[EMU_MAX_RANKS], *packet, *queue, *scratch;
    struct emu_packet packet_data;
    uint8_t queue_data[256];
    size_t scratch_size;
};

static bool surround(struct emu_launch *l, struct surroundings *u)
{
    uint32_t shared = EMU_SHARED_BASE >> 32, private = EMU_PRIVATE_BASE >> 32;
    const char *name = l->kernel->name;
    memcpy(u->queue_data + 0x40, &shared, 4); /* amd_queue_t's apertures */
    memcpy(u->queue_data + 0x44, &private, 4);
    l->packet = &u->packet_data;
    l->queue = u->queue_data;
    u->packet_data.header = 2; /* kernel dispatch */
    u->packet_data.setup = l->grid[2] * l->block[2] > 1 ? 3 : l->grid[1] * l->block[1] > 1 ? 2 : 1;
    for (int d = 0; d < 3; d++) {
        u->packet_data.workgroup_size[d] = (uint16_t)l->block[d];
        u->packet_data.grid_size[d] = l->grid[d] * l->block[d];
    }
    u->packet_data.private_segment_size = l->kernel->scratch_bytes;
    u->packet_data.group_segment_size = l->lds_bytes;
    u->packet_data.kernel_object = (uint64_t)(uintptr_t)(l->code->image + l->kernel->descriptor);
    u->packet_data.kernarg_address = (uint64_t)(uintptr_t)l->kernarg;
    u->packet = emu_memory_add(l->memory, EMU_BLOCK_KERNARG, &u->packet_data, sizeof(u->packet_data), false, name);
    u->queue = emu_memory_add(l->memory, EMU_BLOCK_KERNARG, u->queue_data, sizeof(u->queue_data), false, name);
    if (!u->packet || !u->queue)
        return false;
    for (int r = 0; l->kernel->kernarg_bytes && r < l->ranks; r++) {
        u->kernarg[r] = emu_memory_add(l->memory, EMU_BLOCK_KERNARG, l->kernargs ? l->kernargs[r] : l->kernarg,
                                       EMU_KERNARG_SIZE(l->kernel->kernarg_bytes), false, name);
        if (!u->kernarg[r])
            return false;
    }
    const struct emu_arg *buffer = emu_kernel_hidden(l->kernel, EMU_ARG_HIDDEN_HOSTCALL_BUFFER);
    if (buffer && buffer->size == sizeof(uint64_t)) {
        uint64_t groups = l->n_workgroups < (uint64_t)l->resident ? l->n_workgroups : (uint64_t)l->resident;
        if (!(l->hostcall = emu_hostcall_open(l->memory, groups * (uint64_t)l->waves, name)))
            return false;
        uint64_t address = emu_hostcall_address(l->hostcall);
        memcpy(l->kernarg + buffer->offset, &address, sizeof(address));
    }
    /* The size of a dynamic stack is unknown: the runtime's default is 1 KiB, and more on demand. */
    size_t lane = l->kernel->scratch_bytes + (l->kernel->dynamic_stack ? 16384u : 0);
    lane = (lane + 15) & ~(size_t)15;
    l->scratch_per_wave = lane * (size_t)l->kernel->wave_size;
    if (!lane)
        return true;
    size_t per_group = l->scratch_per_wave * (size_t)l->waves;
    if ((uint64_t)l->resident * per_group > SCRATCH_MOST)
        l->resident = SCRATCH_MOST / per_group > 1 ? (int)(SCRATCH_MOST / per_group) : 1;
    uint64_t groups = l->n_workgroups < (uint64_t)l->resident ? l->n_workgroups : (uint64_t)l->resident;
    u->scratch_size = (groups * per_group + 4095) & ~4095ull;
    void *p = mmap(NULL, u->scratch_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    l->scratch = p;
    u->scratch = emu_memory_add(l->memory, EMU_BLOCK_SCRATCH, p, u->scratch_size, true, name);
    return u->scratch;
}

static void unsurround(struct emu_launch *l, struct surroundings *u)
{
    for (int r = 0; r < l->ranks; r++)
        emu_memory_remove(l->memory, u->kernarg[r]);
    emu_memory_remove(l->memory, u->packet);
    emu_memory_remove(l->memory, u->queue);
    emu_memory_remove(l->memory, u->scratch);
    if (l->scratch)
        munmap(l->scratch, u->scratch_size);
    l->scratch = NULL;
    emu_hostcall_close(l->memory, &l->hostcall);
    l->packet = NULL;
    l->queue = NULL;
}

static void run_workers(struct emu_launch *l, struct sched *s)
{
    static struct worker none;
    int wanted = s->set.threads, started = 1;
    if ((uint64_t)wanted > l->n_workgroups)
        wanted = (int)l->n_workgroups;
    struct worker *workers = calloc((size_t)wanted, sizeof(*workers));
    if (!workers) {
        atomic_store(&s->no_memory, true);
        return;
    }
    for (int i = 0; i < wanted; i++) {
        workers[i] = none;
        workers[i].s = s;
        workers[i].random = s->set.seed;
    }
    for (int i = 1; i < wanted && pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0; i++)
        started++;
    work(&workers[0]);
    for (int i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    const char *why = atomic_load(&l->why);
    if (why && !strcmp(why, "deadlock"))
        report_deadlock(l, workers, started);
    if (why && !strcmp(why, "instruction-limit"))
        emu_report_launch(l, why, "it was stopped after RFG_EMU_MAX_INSTRUCTIONS, %llu wave-instructions",
                          (unsigned long long)s->set.max_instructions);
    for (int i = 0; i < wanted; i++) {
        struct worker *k = &workers[i];
        l->executed += k->executed;
        for (int g = 0; g < k->n_live; g++)
            free_slot(k->live[g]);
        for (struct emu_slot *slot = k->unused, *next; slot; slot = next) {
            next = slot->next;
            free_slot(slot);
        }
        free(k->live);
    }
    free(workers);
}

enum emu_result emu_launch_run(struct emu_launch *l)
{
    struct sched s = { .l = l };
    struct surroundings u = { 0 };
    uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    emu_settings_read(&s.set);
    l->watch = NULL;
    l->one_thread = false;
    l->skips = NULL;
    l->prog = emu_code_program(l->code, l->kernel);
    l->lds_bytes = l->kernel->lds_bytes + l->dynamic_lds;
    l->waves = (int)((threads + (uint32_t)l->kernel->wave_size - 1) / (uint32_t)l->kernel->wave_size);
    l->xcds = emu_xcds(l->arch, l->cu_count);
    if (!l->ranks)
        l->ranks = 1;
    l->resident = l->ranks * emu_occupancy(l->arch, l->kernel, l->cu_count, (int)threads, l->lds_bytes);
    l->n_workgroups = (uint64_t)l->ranks * l->grid[0] * l->grid[1] * l->grid[2];
    l->executed = 0;
    l->hostcall = NULL;
    atomic_store(&l->stop, false);
    atomic_store(&l->why, NULL);
    if (surround(l, &u)) {
        emu_memory_arguments(l->memory, l->kernel, l->kernarg);
        if (emu_hooks->launch_begin)
            emu_hooks->launch_begin(l);
        if (l->one_thread)
            s.set.threads = 1;
        run_workers(l, &s);
        if (emu_hooks->launch_end)
            emu_hooks->launch_end(l);
    } else
        atomic_store(&s.no_memory, true);
    unsurround(l, &u);
    atomic_fetch_add(&executed_in_all, l->executed);
    return atomic_load(&s.no_memory) ? EMU_NO_MEMORY : atomic_load(&l->why) ? EMU_FAILED : EMU_DONE;
}
