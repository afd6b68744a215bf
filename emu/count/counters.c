/* SPDX-License-Identifier: MIT */
#include "counters.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "events.h"
#include "footprint.h"
#include "l2.h"
#include "emu/check/watch.h"

#define MAX_KERNELS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_counters sums;
static struct emu_kernel_use kernels[MAX_KERNELS];
static int n_kernels;
static bool counting;
static struct emu_event_sink sink;

/* What an instruction of the program is to the counters. */
enum { WAITCNT = 1, BARRIER = 2, SLEEP = 4, SPIN = 8 /* the branch back of a loop that only waits */, DUAL = 16 };
struct note {
    uint8_t is;
    uint8_t matrix; /* row + 1, 0: none */
};

struct emu_count_launch {
    const struct emu_launch *l;
    const struct emu_effect *effects; /* NULL: no memory */
    struct note *note;                /* by instruction */
    struct emu_footprint *footprint;
    struct emu_l2 *l2;          /* NULL: not asked for */
    struct emu_event_sink sink; /* .event NULL: none */
    bool counting;              /* else for events only */
    struct emu_counters n;      /* under lock */
};

/* Of a wave; kept by its place from one workgroup to the next. */
struct emu_counts {
    struct emu_counters n;
    struct emu_count_launch *launch;
    const struct emu_inst *branch; /* the instruction before, if it was one */
    struct emu_footprint_page *page;
    struct emu_l2_wave *l2; /* NULL: not asked for */
};

static void add(struct emu_counters *to, const struct emu_counters *from)
{
    uint64_t *t = (uint64_t *)to;
    const uint64_t *f = (const uint64_t *)from;
    for (size_t k = 0; k < sizeof(*to) / sizeof(*t); k++)
        t[k] += f[k];
}

void rfg_emu_count(struct emu_counters *out)
{
    pthread_mutex_lock(&lock);
    if (out)
        *out = sums;
    else {
        sums = (struct emu_counters){ 0 };
        n_kernels = 0;
    }
    counting = !out;
    pthread_mutex_unlock(&lock);
}

int rfg_emu_count_kernels(const struct emu_kernel_use **list)
{
    *list = kernels;
    return n_kernels;
}

void rfg_emu_events(const struct emu_event_sink *to)
{
    pthread_mutex_lock(&lock);
    sink = to ? *to : (struct emu_event_sink){ 0 };
    pthread_mutex_unlock(&lock);
}

bool emu_counts_wanted(bool *one_thread)
{
    pthread_mutex_lock(&lock);
    *one_thread = sink.event;
    bool wanted = counting || sink.event;
    pthread_mutex_unlock(&lock);
    return wanted;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

#define SPIN_MOST 64 /* instructions of a loop that only waits */

static bool writes(const struct emu_effect *e, unsigned reg, unsigned words)
{
    for (int k = 0; k < e->n_writes; k++)
        if (e->write[k].reg < reg + words && reg < e->write[k].reg + e->write[k].words)
            return true;
    return false;
}

/* Does the loop write what this load's address is made of? */
static bool address_moves(const struct emu_effect *e, const struct emu_effect *begin, const struct emu_effect *end)
{
    for (int k = 0; k < e->n_reads; k++) {
        const struct emu_range *r = &e->read[k];
        if (r->operand == EMU_IMPLICIT)
            continue;
        for (const struct emu_effect *other = begin; other < end; other++)
            if (writes(other, r->reg, r->words))
                return true;
    }
    return false;
}

bool emu_only_waits(const struct emu_program *p, const struct emu_effect *effects, int from, int to, bool lds)
{
    bool looks = false;
    if (to - from >= SPIN_MOST)
        return false;
    for (int k = from; k < to; k++) {
        const struct emu_effect *e = &effects[k];
        if (!p->inst[k].op)
            return false;
        switch (p->inst[k].op->cls) {
        case EMU_LDS:
            if (!lds || !e->n_writes)
                return false;
            /* fall through */
        case EMU_SMEM:
        case EMU_VMEM_LOAD:
        case EMU_FLAT_LOAD:
            if (address_moves(e, effects + from, effects + to))
                return false;
            looks = true;
            break;
        case EMU_VMEM_ATOMIC:
        case EMU_FLAT_ATOMIC:
            if (!e->returns)
                return false;
            looks = true;
            break;
        case EMU_SALU:
        case EMU_VALU:
        case EMU_CROSS:
        case EMU_WAIT:
        case EMU_MESSAGE:
        case EMU_CACHE:
        case EMU_BRANCH:
            if (!strcmp(p->inst[k].op->name, "s_barrier"))
                return false;
            break;
        default:
            return false;
        }
    }
    return looks;
}

static void take_notes(struct note *note, const struct emu_program *p, const struct emu_effect *effects)
{
    for (int k = 0; k < p->n; k++) {
        const struct emu_inst *i = &p->inst[k];
        if (!i->op)
            continue;
        const char *name = i->op->name;
        if (i->op->cls == EMU_MFMA)
            note[k].matrix = (uint8_t)(emu_matrix_row(p->arch, i) + 1);
        else if (i->op->cls == EMU_WAIT)
            note[k].is = !strncmp(name, "s_wait", 6)                                     ? WAITCNT
                         : !strcmp(name, "s_barrier") || !strcmp(name, "s_barrier_wait") ? BARRIER
                         : !strncmp(name, "s_sleep", 7)                                  ? SLEEP
                                                                                         : 0;
        else if (i->op->cls == EMU_BRANCH && i->target >= 0 && i->target <= k && effects &&
                 emu_only_waits(p, effects, i->target, k, false))
            note[k].is = SPIN;
        if (k + 1 < p->n && i[1].address == i->address)
            note[k].is |= DUAL;
    }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* Under lock. */
static void add_kernel(const struct emu_launch *l)
{
    const struct emu_kernel *k = l->kernel;
    int threads = (int)(l->block[0] * l->block[1] * l->block[2]), n = 0;
    struct emu_kernel_use use = { .threads = threads,
                                  .waves = l->waves,
                                  .wave_size = k->wave_size,
                                  .vgprs = k->n_vgprs,
                                  .agprs = k->n_agprs,
                                  .sgprs = k->n_sgprs,
                                  .spilled_vgprs = k->spilled_vgprs,
                                  .spilled_sgprs = k->spilled_sgprs,
                                  .static_lds = k->lds_bytes,
                                  .dynamic_lds = l->dynamic_lds,
                                  .scratch = k->scratch_bytes };
    snprintf(use.name, sizeof(use.name), "%s", k->name);
    while (n < n_kernels && (strcmp(kernels[n].name, use.name) || kernels[n].threads != threads ||
                             kernels[n].dynamic_lds != l->dynamic_lds || kernels[n].static_lds != k->lds_bytes))
        n++;
    if (n == MAX_KERNELS) {
        rfg_warn("emu: counters: more than %d kernels: the resources of '%s' are not listed", MAX_KERNELS, k->name);
        return;
    }
    if (n == n_kernels) {
        emu_residency(l->arch, k, threads, l->lds_bytes, &use.at);
        kernels[n_kernels++] = use;
    }
    kernels[n].launches++;
    kernels[n].workgroups += l->n_workgroups;
}

static void emit(const struct emu_count_launch *c, const struct emu_event *e)
{
    if (c->sink.event)
        c->sink.event(c->sink.to, e);
}

static void launch_free(struct emu_count_launch *c)
{
    emu_footprint_destroy(c->footprint);
    emu_l2_destroy(c->l2);
    free(c->note);
    free(c);
}

/* RFG_EMU_L2: "on", or an L2's size in KiB. 0: not asked for. */
static uint64_t l2_bytes(const struct emu_arch *arch)
{
    const char *text = rfg_env("RFG_EMU_L2");
    char *end;
    if (!text || !strcmp(text, "off"))
        return 0;
    if (!strcmp(text, "on"))
        return (uint64_t)arch->l2_kib << 10;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || text[0] == '-' || n < 1 || n > 1 << 20) {
        rfg_warn("RFG_EMU_L2='%s': must be on, off or a number of KiB from 1 to 1048576; it is ignored", text);
        return 0;
    }
    return (uint64_t)n << 10;
}

static struct emu_l2 *l2_begin(const struct emu_launch *l, uint64_t bytes)
{
    struct emu_residency at;
    emu_residency(l->arch, l->kernel, (int)(l->block[0] * l->block[1] * l->block[2]), l->lds_bytes, &at);
    int cus = (l->cu_count + l->xcds - 1) / l->xcds, places = at.groups * (at.wgp ? (cus + 1) / 2 : cus);
    struct emu_l2 *l2 = emu_l2_create(&(struct emu_l2_shape){
        .bytes = bytes, .xcds = l->xcds, .resident = places, .workgroups = l->n_workgroups, .waves = l->waves });
    if (!l2)
        rfg_warn("emu: counters: no memory: the L2 traffic of '%s' is not counted", l->kernel->name);
    return l2;
}

static bool skips(const struct emu_launch *l, uint64_t workgroup)
{
    const struct emu_event_sink *to = &l->watch->counts->sink;
    return to->skips(to->to, l, workgroup);
}

bool (*emu_counts_skips(const struct emu_count_launch *c))(const struct emu_launch *l, uint64_t workgroup)
{
    return c && c->sink.skips ? skips : NULL;
}

struct emu_count_launch *emu_counts_begin(const struct emu_launch *l, const struct emu_effect *effects)
{
    struct emu_count_launch *c = calloc(1, sizeof(*c));
    if (c) {
        c->note = calloc((size_t)l->prog->n, sizeof(*c->note));
        c->footprint = emu_footprint_create();
    }
    if (!c || !c->note || !c->footprint) {
        rfg_warn("emu: counters: no memory: a launch of '%s' is not counted", l->kernel->name);
        if (c)
            launch_free(c);
        return NULL;
    }
    c->l = l;
    c->effects = effects;
    take_notes(c->note, l->prog, effects);
    pthread_mutex_lock(&lock);
    c->sink = sink;
    c->counting = counting;
    if (counting)
        add_kernel(l);
    pthread_mutex_unlock(&lock);
    uint64_t l2 = c->counting ? l2_bytes(l->arch) : 0;
    c->l2 = l2 ? l2_begin(l, l2) : NULL;
    c->n.launches = 1;
    c->n.workgroups = l->n_workgroups;
    emit(c, &(struct emu_event){ .kind = EMU_EVENT_LAUNCH_BEGIN, .launch = l });
    return c;
}

/* Its waves' counts are destroyed already. */
void emu_counts_end(struct emu_count_launch *c, const struct emu_launch *l)
{
    uint64_t lines64[EMU_TOUCHES + 1], lines128[EMU_TOUCHES + 1];
    if (!c)
        return;
    struct emu_traffic *kind[EMU_TOUCHES] = { [EMU_TOUCH_LOAD] = &c->n.loads,
                                              [EMU_TOUCH_STORE] = &c->n.stores,
                                              [EMU_TOUCH_ATOMIC] = &c->n.atomics,
                                              [EMU_TOUCH_SCALAR] = &c->n.scalar };
    emit(c, &(struct emu_event){ .kind = EMU_EVENT_LAUNCH_END, .launch = l });
    if (!emu_footprint_sum(c->footprint, lines64, lines128))
        rfg_warn("emu: counters: no memory: '%s' touched more distinct lines than were counted", l->kernel->name);
    for (int k = 0; k < EMU_TOUCHES; k++) {
        kind[k]->unique64 = lines64[k];
        kind[k]->unique128 = lines128[k];
    }
    c->n.unique64 = lines64[EMU_TOUCHES];
    c->n.unique128 = lines128[EMU_TOUCHES];
    if (c->l2 && !emu_l2_count(c->l2, &c->n.l2_asked, &c->n.l2_fetched))
        rfg_warn("emu: counters: no memory: the L2 traffic of '%s' is more than was counted", l->kernel->name);
    pthread_mutex_lock(&lock);
    if (c->counting)
        add(&sums, &c->n);
    pthread_mutex_unlock(&lock);
    launch_free(c);
}

/* ---- waves ------------------------------------------------------------------------------------------------------- */

struct emu_counts *emu_counts_create(struct emu_count_launch *launch)
{
    struct emu_counts *c = calloc(1, sizeof(*c));
    if (c)
        c->launch = launch;
    else
        rfg_warn("emu: counters: no memory: a wave is not counted");
    return c;
}

void emu_counts_destroy(struct emu_counts *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    add(&c->launch->n, &c->n);
    pthread_mutex_unlock(&lock);
    free(c);
}

void emu_counts_wave(struct emu_wave *w, bool begins)
{
    struct emu_counts *c = w->counts;
    c->n.waves += begins;
    if (begins && c->launch->l2) {
        const struct emu_launch *l = w->launch;
        const uint32_t *id = w->wg->id;
        c->l2 =
            emu_l2_wave(c->launch->l2, id[0] + (uint64_t)l->grid[0] * (id[1] + (uint64_t)l->grid[1] * id[2]), w->index);
    }
    c->branch = NULL;
    emit(c->launch,
         &(struct emu_event){
             .kind = begins ? EMU_EVENT_WAVE_BEGIN : EMU_EVENT_WAVE_END, .launch = w->launch, .wg = w->wg, .wave = w });
}

static void count_wait(struct emu_counters *n, unsigned is)
{
    n->waitcnts += is == WAITCNT;
    n->barriers += is == BARRIER;
    n->sleeps += is == SLEEP;
}

void emu_counts_before(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_counts *c = w->counts;
    struct emu_counters *n = &c->n;
    ptrdiff_t at = i - w->prog->inst;
    struct note note = c->launch->note[at];
    unsigned cls = i->op->cls, cycles = 0;
    if (c->branch) {
        if (i != c->branch + 1) {
            n->branches_taken++;
            n->spin_iterations += (c->launch->note[c->branch - w->prog->inst].is & SPIN) && i <= c->branch;
        }
        c->branch = NULL;
    }
    n->instructions++;
    n->by_class[cls]++;
    switch (cls) {
    case EMU_VALU:
    case EMU_TRANS:
        n->vector++;
        n->active_lanes += (uint64_t)__builtin_popcountll(w->exec);
        n->vector_lanes += w->wave_size;
        n->dual_issued += (note.is & DUAL) != 0;
        break;
    case EMU_MFMA:
        n->matrix++;
        if (note.matrix) {
            cycles = emu_matrix_cycles(note.matrix - 1);
            n->by_matrix[note.matrix - 1]++;
            n->matrix_cycles += cycles;
        }
        break;
    case EMU_WAIT:
        count_wait(n, note.is);
        break;
    case EMU_BRANCH:
        c->branch = i;
        break;
    default:
        break;
    }
    if (c->launch->sink.event)
        emit(c->launch, &(struct emu_event){ .kind = EMU_EVENT_ISSUE,
                                             .launch = w->launch,
                                             .wg = w->wg,
                                             .wave = w,
                                             .inst = i,
                                             .effect = c->launch->effects ? &c->launch->effects[at] : NULL,
                                             .lanes = w->exec,
                                             .matrix_cycles = cycles });
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Lines of 64 bytes, ascending, each once. Lanes mostly ascend themselves. */
static int lines_of(const struct emu_access *a, uint64_t line[128])
{
    int n = 0;
    for (uint64_t m = a->lanes; m; m &= m - 1) {
        uint64_t from = a->addr[__builtin_ctzll(m)], to = from + a->bytes - 1;
        for (uint64_t x = from / 64; x <= to / 64; x++) {
            int at = n;
            while (at && line[at - 1] > x)
                at--;
            if (at && line[at - 1] == x)
                continue;
            memmove(&line[at + 1], &line[at], (size_t)(n++ - at) * sizeof(*line));
            line[at] = x;
        }
    }
    return n;
}

static void count_global(struct emu_counts *c, const struct emu_access *a, const uint64_t *line, int n_lines)
{
    struct emu_counters *n = &c->n;
    enum emu_footprint_kind kind = a->kind == EMU_ATOMIC  ? EMU_TOUCH_ATOMIC
                                   : a->kind == EMU_STORE ? EMU_TOUCH_STORE
                                   : a->scalar            ? EMU_TOUCH_SCALAR
                                                          : EMU_TOUCH_LOAD;
    struct emu_traffic *t = kind == EMU_TOUCH_ATOMIC  ? &n->atomics
                            : kind == EMU_TOUCH_STORE ? &n->stores
                            : a->scalar               ? &n->scalar
                                                      : &n->loads;
    t->requests++;
    t->bytes += (uint64_t)__builtin_popcountll(a->lanes) * a->bytes;
    t->lines64 += (uint64_t)n_lines;
    for (int k = 0; k < n_lines; k++) {
        t->lines128 += !k || line[k] / 2 != line[k - 1] / 2;
        emu_footprint_touch(c->launch->footprint, &c->page, kind, line[k]);
    }
    if (c->l2 && n_lines)
        emu_l2_record(c->launch->l2, c->l2, line, n_lines, kind != EMU_TOUCH_STORE);
}

static void count_lds(struct emu_counters *n, const struct emu_access *a, unsigned ideal, unsigned conflicts)
{
    uint64_t bytes = (uint64_t)__builtin_popcountll(a->lanes) * a->bytes;
    n->lds_requests++;
    n->lds_load_bytes += a->kind == EMU_LOAD ? bytes : 0;
    n->lds_store_bytes += a->kind == EMU_STORE ? bytes : 0;
    n->lds_atomic_bytes += a->kind == EMU_ATOMIC ? bytes : 0;
    n->lds_ideal_cycles += ideal;
    n->lds_conflict_cycles += conflicts;
}

void emu_counts_access(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a,
                       const struct emu_block *b)
{
    struct emu_counts *c = w->counts;
    uint64_t lines[128];
    int n_lines = 0;
    unsigned ideal = 0, conflicts = 0;
    /* gfx90a's scratch is global memory through a buffer descriptor. */
    if (a->space == EMU_SCRATCH || (a->space == EMU_GLOBAL && b && b->kind == EMU_BLOCK_SCRATCH)) {
        uint64_t bytes = (uint64_t)__builtin_popcountll(a->lanes) * a->bytes;
        c->n.scratch_load_bytes += a->kind == EMU_LOAD ? bytes : 0;
        c->n.scratch_store_bytes += a->kind != EMU_LOAD ? bytes : 0;
    } else if (a->space == EMU_GLOBAL) {
        n_lines = lines_of(a, lines);
        count_global(c, a, lines, n_lines);
    } else {
        emu_lds_cycles(w->launch->arch, a, &ideal, &conflicts);
        count_lds(&c->n, a, ideal, conflicts);
    }
    if (c->launch->sink.event)
        emit(c->launch, &(struct emu_event){ .kind = EMU_EVENT_MEMORY,
                                             .launch = w->launch,
                                             .wg = w->wg,
                                             .wave = w,
                                             .inst = i,
                                             .lanes = a->lanes,
                                             .access = a,
                                             .lines = n_lines ? lines : NULL,
                                             .n_lines = n_lines,
                                             .lds_cycles = ideal + conflicts,
                                             .lds_conflicts = conflicts });
}

void emu_counts_barrier(struct emu_count_launch *c, const struct emu_workgroup *wg)
{
    emit(c, &(struct emu_event){ .kind = EMU_EVENT_BARRIER, .launch = c->l, .wg = wg });
}
