/* SPDX-License-Identifier: MIT
 *
 * Writes down what the waves of one XCD execute. Workgroups go to XCDs by turns, so the last one's XCD has the most of them and is
 * the one whose time counts. Waves that took the same way share it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/log.h"
#include "emu/check/effects.h"
#include "emu/check/watch.h"
#include "emu/count/events.h"
#include "time.h"

#define RETURNS_MOST 4096 /* workgroups of a launch with atomics that return, to run all of it */
#define PATHS_SEARCH 256
#define PAGE_LINES   (1u << 14) /* 2 MiB: allocations begin at multiples of it */

/* A place of the emulator for a wave. */
struct builder {
    const struct emu_wave *wave;
    bool records;
    struct emu_time_run *run;
    struct emu_time_access *access;
    uint64_t *line;
    size_t n_runs, n_accesses, n_lines, run_capacity, access_capacity, line_capacity;
    uint32_t next; /* instruction after the last one */
};

struct recorder {
    int rounds;
    void (*done)(void *to, struct emu_time_trace *t);
    void *to;
    struct emu_time_trace *t;
    struct builder *builder; /* hash table */
    size_t n_builders, builder_capacity, last;
    uint64_t **touched, **half; /* bits by block: of all groups, of the first half */
    size_t run_capacity, path_capacity, access_capacity, line_capacity;
    uint8_t *spins;  /* by instruction: the branch back of a loop that only waits */
    emu_exec_fn *fn; /* by instruction: what matrix instructions do */
    bool whole, failed;
};
static struct recorder rec;

/* Room for n more. */
static bool room(void *array, size_t *capacity, size_t have, size_t more, size_t size)
{
    void **p = array;
    if (have + more <= *capacity)
        return true;
    size_t wanted = *capacity + *capacity / 2 + more + 64;
    void *grown = realloc(*p, wanted * size);
    if (!grown) {
        rec.failed = true;
        return false;
    }
    *p = grown;
    *capacity = wanted;
    return true;
}
#define ROOM(array, capacity, have, more) room(&(array), &(capacity), have, more, sizeof(*(array)))

void emu_time_trace_free(struct emu_time_trace *t)
{
    if (!t)
        return;
    free(t->inst);
    free(t->run);
    free(t->path);
    free(t->wave);
    free(t->group);
    free(t->access);
    free(t->line);
    free(t->block);
    free(t);
}

/* ---- builders ---------------------------------------------------------------------------------------------------- */

static size_t place(const struct emu_wave *w, const struct builder *table, size_t capacity)
{
    size_t at = (size_t)((uintptr_t)w * 0x9E3779B97F4A7C15ull >> 20) & (capacity - 1);
    while (table[at].wave && table[at].wave != w)
        at = (at + 1) & (capacity - 1);
    return at;
}

static bool grow_builders(void)
{
    size_t capacity = rec.builder_capacity ? 2 * rec.builder_capacity : 256;
    struct builder *table = calloc(capacity, sizeof(*table));
    if (!table) {
        rec.failed = true;
        return false;
    }
    for (size_t i = 0; i < rec.builder_capacity; i++)
        if (rec.builder[i].wave)
            table[place(rec.builder[i].wave, table, capacity)] = rec.builder[i];
    free(rec.builder);
    rec.builder = table;
    rec.builder_capacity = capacity;
    return true;
}

static struct builder *builder_of(const struct emu_wave *w)
{
    if (rec.builder_capacity && rec.builder[rec.last].wave == w)
        return &rec.builder[rec.last];
    if (2 * rec.n_builders >= rec.builder_capacity && !grow_builders())
        return NULL;
    rec.last = place(w, rec.builder, rec.builder_capacity);
    struct builder *b = &rec.builder[rec.last];
    rec.n_builders += !b->wave;
    b->wave = w;
    return b;
}

static void free_builders(void)
{
    for (size_t i = 0; i < rec.builder_capacity; i++) {
        free(rec.builder[i].run);
        free(rec.builder[i].access);
        free(rec.builder[i].line);
    }
    free(rec.builder);
    rec.builder = NULL;
    rec.n_builders = rec.builder_capacity = rec.last = 0;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static uint64_t number_of(const struct emu_launch *l, const uint32_t id[3])
{
    return id[0] + (uint64_t)l->grid[0] * (id[1] + (uint64_t)l->grid[1] * id[2]);
}

/* May its workgroups wait for each other? Then all of them must run. */
static bool waits_for_others(const struct emu_launch *l, const struct emu_effect *effects)
{
    const struct emu_program *p = l->prog;
    bool returns = false, spins = false;
    for (int k = 0; k < p->n; k++) {
        const struct emu_inst *i = &p->inst[k];
        if (!i->op)
            continue;
        returns |= effects[k].returns && i->op->cls != EMU_LDS_ATOMIC;
        if (i->op->cls == EMU_BRANCH && i->target >= 0 && i->target <= k &&
            emu_only_waits(p, effects, i->target, k, false))
            rec.spins[k] = 1, spins = true;
    }
    return spins || l->cooperative || (returns && l->n_workgroups <= RETURNS_MOST);
}

static struct emu_time_trace *new_trace(const struct emu_launch *l)
{
    struct emu_time_trace *t = calloc(1, sizeof(*t));
    struct emu_residency at;
    if (!t)
        return NULL;
    emu_residency(l->arch, l->kernel, (int)(l->block[0] * l->block[1] * l->block[2]), l->lds_bytes, &at);
    int cus = (l->cu_count + l->xcds - 1) / l->xcds;
    snprintf(t->kernel, sizeof(t->kernel), "%s", l->kernel->name);
    t->gfx = l->arch->gfx;
    t->cu_count = l->cu_count;
    t->xcds = l->xcds;
    t->simds = at.simds;
    t->wave_size = l->kernel->wave_size;
    t->waves = l->waves;
    t->groups_a_unit = at.groups;
    t->units = at.wgp ? (cus + 1) / 2 : cus;
    t->n_workgroups = l->n_workgroups;
    t->xcd = l->n_workgroups ? (int)((l->n_workgroups - 1) % (uint64_t)l->xcds) : 0;
    t->on_xcd = (l->n_workgroups + (uint64_t)l->xcds - 1) / (uint64_t)l->xcds;
    uint64_t round = (uint64_t)t->units * (uint64_t)t->groups_a_unit, n = t->on_xcd;
    if (n > (uint64_t)rec.rounds * round) /* the same last round as the launch's */
        n = (uint64_t)(rec.rounds - 1) * round + (n - 1) % round + 1;
    t->n_groups = n;
    t->n_waves = n * (uint64_t)l->waves;
    t->n_inst = (size_t)l->prog->n;
    t->inst = calloc(t->n_inst, sizeof(*t->inst));
    t->group = calloc(t->n_groups, sizeof(*t->group));
    t->wave = calloc(t->n_waves, sizeof(*t->wave));
    t->n_blocks = (size_t)l->memory->n;
    t->block = calloc(t->n_blocks, sizeof(*t->block));
    if (t->inst && t->group && t->wave && t->block)
        return t;
    emu_time_trace_free(t);
    return NULL;
}

static void nothing(struct emu_wave *w, const struct emu_inst *i)
{
    (void)w;
    (void)i;
}

/* Matrix instructions take most of the emulator's time, and nothing that a wave does depends on their results: while a
 * launch is traced they compute none. */
static void still_matrices(const struct emu_launch *l, bool still)
{
    struct emu_program *p = (struct emu_program *)l->prog;
    if (still && !(rec.fn = calloc((size_t)p->n, sizeof(*rec.fn))))
        return;
    for (int k = 0; k < p->n && rec.fn; k++) {
        struct emu_inst *i = &p->inst[k];
        if (!i->op || i->op->cls != EMU_MFMA)
            continue;
        if (still)
            rec.fn[k] = i->fn;
        i->fn = still ? nothing : rec.fn[k];
    }
    if (still)
        return;
    free(rec.fn);
    rec.fn = NULL;
}

static void launch_begin(const struct emu_launch *l)
{
    const struct emu_effect *effects = emu_effects(l->prog);
    rec.t = effects ? new_trace(l) : NULL;
    rec.spins = calloc((size_t)l->prog->n, 1);
    rec.touched = calloc((size_t)l->memory->n, sizeof(*rec.touched));
    rec.half = calloc((size_t)l->memory->n, sizeof(*rec.half));
    rec.failed = !rec.t || !rec.spins || !rec.touched || !rec.half;
    rec.run_capacity = rec.path_capacity = rec.access_capacity = rec.line_capacity = 0;
    if (rec.failed)
        return;
    for (int k = 0; k < l->prog->n; k++)
        emu_time_describe(&rec.t->inst[k], l->prog, &l->prog->inst[k], &effects[k]);
    for (int k = 0; k < l->memory->n; k++) {
        const struct emu_block *b = l->memory->block[k];
        rec.t->block[k] = (struct emu_time_block){ b->lo / 128, (b->hi + 127) / 128, 1 };
    }
    for (size_t g = 0; g < rec.t->n_groups; g++)
        rec.t->group[g] = (struct emu_time_group){ g * (uint64_t)l->xcds + (uint64_t)rec.t->xcd, g * (size_t)l->waves };
    rec.whole = waits_for_others(l, effects);
    still_matrices(l, true);
}

/* Is the launch's workgroup n in the trace? */
static bool records(const struct emu_time_trace *t, uint64_t n)
{
    return n % (uint64_t)t->xcds == (uint64_t)t->xcd && n / (uint64_t)t->xcds < t->n_groups;
}

static bool skips(void *to, const struct emu_launch *l, uint64_t n)
{
    (void)to;
    (void)l;
    return !rec.failed && !rec.whole && !records(rec.t, n);
}

static uint64_t bits_set(const uint64_t *bits, uint64_t lines)
{
    uint64_t n = 0;
    for (uint64_t i = 0; bits && i < lines / 64 + 1; i++)
        n += (uint64_t)__builtin_popcountll(bits[i]);
    return n;
}

/* How many of the XCDs' fetches of a line one access to memory serves. That all XCDs together touch no more of an
 * allocation than there is of it says it: of a matrix that each reads whole, all of them share. */
static void share_blocks(struct emu_time_trace *t)
{
    double xcds = t->n_workgroups < (uint64_t)t->xcds ? (double)t->n_workgroups : (double)t->xcds;
    size_t half = t->n_groups / 2;
    double more = half ? (double)(t->on_xcd - t->n_groups) / (double)(t->n_groups - half) : 0;
    double unique = 0;
    for (size_t k = 0; k < t->n_blocks; k++) {
        struct emu_time_block *b = &t->block[k];
        double size = (double)(b->hi - b->lo), n = (double)bits_set(rec.touched[k], b->hi - b->lo);
        double all = n + (n - (double)bits_set(rec.half[k], b->hi - b->lo)) * more;
        if (all > size)
            all = size;
        double whole = all * xcds < size ? all * xcds : size;
        b->share = whole > 0 ? all * xcds / whole : 1;
        unique += whole;
    }
    t->unique = (uint64_t)unique;
}

size_t emu_time_block_of(const struct emu_time_trace *t, uint64_t line)
{
    size_t lo = 0, hi = t->n_blocks;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (t->block[mid].hi <= line)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_blocks && line >= t->block[lo].lo ? lo : t->n_blocks;
}

/* Moves allocations to one after the other, in the order of their first use: where the host's memory has put them would
 * change the caches' sets, and so the answer, from run to run. */
static void move_blocks(struct emu_time_trace *t)
{
    struct emu_time_block *moved = calloc(t->n_blocks + 1, sizeof(*moved));
    uint64_t *base = calloc(t->n_blocks + 1, sizeof(*base)), next = PAGE_LINES;
    size_t n = 0, k = 0;
    rec.failed |= !moved || !base;
    for (size_t i = 0; i < t->n_lines && !rec.failed; i++) {
        uint64_t line = t->line[i] >> 8;
        if (k >= t->n_blocks || line < t->block[k].lo || line >= t->block[k].hi)
            k = emu_time_block_of(t, line);
        const struct emu_time_block *b = &t->block[k];
        if (k < t->n_blocks && !base[k]) {
            base[k] = next;
            moved[n++] = (struct emu_time_block){ next, next + b->hi - b->lo, b->share };
            next += (b->hi - b->lo + PAGE_LINES) / PAGE_LINES * PAGE_LINES;
        }
        line = k < t->n_blocks ? line - b->lo + base[k] : line % PAGE_LINES;
        t->line[i] = line << 8 | (t->line[i] & 255);
    }
    free(base);
    if (rec.failed) {
        free(moved);
        return;
    }
    free(t->block);
    t->block = moved;
    t->n_blocks = n;
}

static void launch_end(const struct emu_launch *l)
{
    struct emu_time_trace *t = rec.t;
    still_matrices(l, false);
    if (!rec.failed)
        share_blocks(t);
    if (!rec.failed)
        move_blocks(t);
    for (int k = 0; k < l->memory->n && rec.touched && rec.half; k++) {
        free(rec.touched[k]);
        free(rec.half[k]);
    }
    free(rec.touched);
    free(rec.half);
    free(rec.spins);
    free_builders();
    rec.t = NULL;
    if (rec.failed || atomic_load(&((struct emu_launch *)l)->stop)) {
        if (rec.failed)
            rfg_warn("emu: time: no memory: a launch of '%s' is not timed", l->kernel->name);
        emu_time_trace_free(t);
    } else
        rec.done(rec.to, t);
}

/* ---- waves ------------------------------------------------------------------------------------------------------- */

static void wave_begin(const struct emu_event *e)
{
    uint64_t n = number_of(e->launch, e->wg->id);
    struct builder *b = builder_of(e->wave);
    if (!b)
        return;
    b->records = records(rec.t, n);
    b->n_runs = b->n_accesses = b->n_lines = 0;
    b->next = UINT32_MAX;
}

/* The number of the path, added if none before was the same. */
static uint32_t path_of(const struct builder *b)
{
    struct emu_time_trace *t = rec.t;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < b->n_runs; i++) {
        hash = (hash ^ b->run[i].first) * 0x100000001b3ull;
        hash = (hash ^ b->run[i].count) * 0x100000001b3ull;
    }
    for (size_t i = t->n_paths; i-- > 0 && t->n_paths - i < PATHS_SEARCH;)
        if (t->path[i].hash == hash && t->path[i].n == b->n_runs &&
            !memcmp(&t->run[t->path[i].first], b->run, b->n_runs * sizeof(*b->run)))
            return (uint32_t)i;
    if (!ROOM(t->path, rec.path_capacity, t->n_paths, 1) || !ROOM(t->run, rec.run_capacity, t->n_runs, b->n_runs))
        return 0;
    if (b->n_runs)
        memcpy(&t->run[t->n_runs], b->run, b->n_runs * sizeof(*b->run));
    t->path[t->n_paths] = (struct emu_time_path){ (uint32_t)t->n_runs, (uint32_t)b->n_runs, hash };
    t->n_runs += b->n_runs;
    return (uint32_t)t->n_paths++;
}

static void wave_end(const struct emu_event *e)
{
    struct builder *b = builder_of(e->wave);
    struct emu_time_trace *t = rec.t;
    if (!b || !b->records)
        return;
    size_t g = (size_t)(number_of(e->launch, e->wg->id) / (uint64_t)t->xcds);
    if (!ROOM(t->access, rec.access_capacity, t->n_accesses, b->n_accesses) ||
        !ROOM(t->line, rec.line_capacity, t->n_lines, b->n_lines))
        return;
    for (size_t i = 0; i < b->n_accesses; i++) {
        t->access[t->n_accesses + i] = b->access[i];
        t->access[t->n_accesses + i].first += (uint32_t)t->n_lines;
    }
    if (b->n_lines)
        memcpy(&t->line[t->n_lines], b->line, b->n_lines * sizeof(*b->line));
    t->wave[t->group[g].wave + (size_t)e->wave->index] =
        (struct emu_time_wave){ path_of(b), (uint32_t)b->n_accesses, t->n_accesses };
    t->n_accesses += b->n_accesses;
    t->n_lines += b->n_lines;
    b->records = false;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static bool accesses(const struct emu_time_inst *i)
{
    return i->cls >= EMU_TIME_LDS && i->cls <= EMU_TIME_SCALAR;
}

/* A loop that only waited began again: its last turn is forgotten, all but one. */
static void forget_turn(struct builder *b, uint32_t from, uint32_t to)
{
    while (b->n_runs && b->run[b->n_runs - 1].first >= from && b->run[b->n_runs - 1].first <= to) {
        const struct emu_time_run *r = &b->run[--b->n_runs];
        for (uint32_t k = r->first; k < r->first + r->count; k++)
            if (accesses(&rec.t->inst[k]) && b->n_accesses)
                b->n_accesses--;
    }
}

static void issue(const struct emu_event *e)
{
    struct builder *b = builder_of(e->wave);
    if (!b || !b->records)
        return;
    uint32_t at = (uint32_t)(e->inst - e->launch->prog->inst);
    if (b->next != UINT32_MAX && at < b->next && rec.spins[b->next - 1])
        forget_turn(b, at, b->next - 1);
    if (at == b->next && b->n_runs) {
        b->run[b->n_runs - 1].count++;
    } else {
        if (!ROOM(b->run, b->run_capacity, b->n_runs, 1))
            return;
        b->run[b->n_runs++] = (struct emu_time_run){ at, 1 };
    }
    b->next = at + 1;
    if (accesses(&rec.t->inst[at])) {
        if (!ROOM(b->access, b->access_capacity, b->n_accesses, 1))
            return;
        b->access[b->n_accesses++] = (struct emu_time_access){ .first = (uint32_t)b->n_lines };
    }
}

static int block_of(const struct emu_launch *l, uint64_t address)
{
    int lo = 0, hi = l->memory->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (l->memory->block[mid]->lo <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo - 1;
}

static void touch(uint64_t **bits, int block, uint64_t first, uint64_t n)
{
    const struct emu_time_block *b = &rec.t->block[block];
    if (!bits[block] && !(bits[block] = calloc((b->hi - b->lo) / 64 + 1, sizeof(uint64_t)))) {
        rec.failed = true;
        return;
    }
    for (uint64_t i = first; i < first + n && i < b->hi; i++)
        bits[block][(i - b->lo) / 64] |= 1ull << (i - b->lo) % 64;
}

static void add_lines(const struct emu_event *e, struct builder *b, struct emu_time_access *a)
{
    size_t group = (size_t)(number_of(e->launch, e->wg->id) / (uint64_t)rec.t->xcds);
    int block = e->n_lines ? block_of(e->launch, e->lines[0] * 64) : -1;
    for (int k = 0; k < e->n_lines;) {
        uint64_t first = e->lines[k] / 2, n = 1;
        for (k++; k < e->n_lines && e->lines[k] / 2 <= first + n && n < 200; k++)
            n += e->lines[k] / 2 == first + n;
        if (!ROOM(b->line, b->line_capacity, b->n_lines, 1))
            return;
        b->line[b->n_lines++] = first << 8 | n;
        a->n++;
        if (block >= 0 && (first + n) * 128 > rec.t->block[block].hi * 128)
            block = block_of(e->launch, first * 128);
        if (block < 0)
            continue;
        touch(rec.touched, block, first < rec.t->block[block].lo ? rec.t->block[block].lo : first, n);
        if (group < rec.t->n_groups / 2)
            touch(rec.half, block, first < rec.t->block[block].lo ? rec.t->block[block].lo : first, n);
    }
    a->lines64 = (uint8_t)(a->lines64 + e->n_lines > 255 ? 255 : a->lines64 + e->n_lines);
}

static void memory(const struct emu_event *e)
{
    struct builder *b = builder_of(e->wave);
    if (!b || !b->records || !b->n_accesses)
        return;
    struct emu_time_access *a = &b->access[b->n_accesses - 1];
    if (e->n_lines)
        add_lines(e, b, a);
    unsigned lds = a->lds_cycles + e->lds_cycles;
    a->lds_cycles = (uint8_t)(lds > 255 ? 255 : lds);
}

static void event(void *to, const struct emu_event *e)
{
    (void)to;
    if (e->kind == EMU_EVENT_LAUNCH_BEGIN)
        launch_begin(e->launch);
    else if (e->kind == EMU_EVENT_LAUNCH_END)
        launch_end(e->launch);
    else if (rec.failed)
        return;
    else if (e->kind == EMU_EVENT_ISSUE)
        issue(e);
    else if (e->kind == EMU_EVENT_MEMORY)
        memory(e);
    else if (e->kind == EMU_EVENT_WAVE_BEGIN)
        wave_begin(e);
    else if (e->kind == EMU_EVENT_WAVE_END)
        wave_end(e);
}

void emu_time_record(int rounds, void (*done)(void *to, struct emu_time_trace *t), void *to)
{
    rec = (struct recorder){ .rounds = rounds < 2 ? 2 : rounds, .done = done, .to = to };
    rfg_emu_events(&(struct emu_event_sink){ .event = event, .skips = skips });
}

void emu_time_record_end(void)
{
    rfg_emu_events(NULL);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

#define MAGIC "rfg-emu trace 1\n"

/* A file being read or written. sum: of all that went through, so that a damaged file is not replayed. */
struct file {
    FILE *f;
    bool reads;
    uint64_t sum;
};

static bool bytes(struct file *f, void *p, size_t n)
{
    bool ok = (f->reads ? fread(p, 1, n, f->f) : fwrite(p, 1, n, f->f)) == n;
    f->sum = ok ? XXH3_64bits_withSeed(p, n, f->sum) : 0;
    return ok;
}

static bool part(struct file *f, void *array, size_t n, size_t size)
{
    void **p = array, *place = *p;
    if (f->reads)
        *p = place = n < SIZE_MAX / size ? malloc(n * size + 1) : NULL;
    return place ? bytes(f, place, n * size) : n == 0;
}

static bool parts(struct file *f, struct emu_time_trace *t)
{
    return part(f, &t->inst, t->n_inst, sizeof(*t->inst)) && part(f, &t->run, t->n_runs, sizeof(*t->run)) &&
           part(f, &t->path, t->n_paths, sizeof(*t->path)) && part(f, &t->wave, t->n_waves, sizeof(*t->wave)) &&
           part(f, &t->group, t->n_groups, sizeof(*t->group)) &&
           part(f, &t->access, t->n_accesses, sizeof(*t->access)) && part(f, &t->line, t->n_lines, sizeof(*t->line)) &&
           part(f, &t->block, t->n_blocks, sizeof(*t->block));
}

bool emu_time_trace_write(const struct emu_time_trace *t, FILE *f)
{
    struct emu_time_trace copy = *t;
    struct file file = { .f = f };
    return fwrite(MAGIC, 1, 16, f) == 16 && bytes(&file, &copy, sizeof(copy)) && parts(&file, &copy) &&
           fwrite(&file.sum, sizeof(file.sum), 1, f) == 1;
}

struct emu_time_trace *emu_time_trace_read(FILE *f)
{
    char magic[16];
    struct emu_time_trace *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    struct file file = { .f = f, .reads = true };
    bool ok = fread(magic, 1, 16, f) == 16 && !memcmp(magic, MAGIC, 16) && bytes(&file, t, sizeof(*t));
    t->inst = NULL, t->run = NULL, t->path = NULL, t->wave = NULL, t->group = NULL, t->access = NULL, t->line = NULL,
    t->block = NULL;
    uint64_t sum = 0;
    if (ok && parts(&file, t) && fread(&sum, sizeof(sum), 1, f) == 1 && sum == file.sum)
        return t;
    emu_time_trace_free(t);
    errno = EINVAL;
    return NULL;
}
