/* SPDX-License-Identifier: MIT */
#include "counters.h"

#include <pthread.h>
#include <stdlib.h>

#include "watch.h"

struct emu_counts {
    struct emu_counters n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_counters sums;
static bool counting;

void rfg_emu_count(struct emu_counters *out)
{
    pthread_mutex_lock(&lock);
    if (out)
        *out = sums;
    else
        sums = (struct emu_counters){ 0 };
    counting = !out;
    pthread_mutex_unlock(&lock);
}

bool emu_counts_wanted(void)
{
    pthread_mutex_lock(&lock);
    bool wanted = counting;
    pthread_mutex_unlock(&lock);
    return wanted;
}

struct emu_counts *emu_counts_create(void)
{
    return calloc(1, sizeof(struct emu_counts));
}

/* Into the sums: when its wave ends. */
void emu_counts_end(struct emu_counts *c)
{
    const uint64_t *from = (const uint64_t *)&c->n;
    uint64_t *to = (uint64_t *)&sums;
    c->n.waves = 1;
    pthread_mutex_lock(&lock);
    for (size_t k = 0; k < sizeof(sums) / sizeof(*to); k++)
        to[k] += from[k];
    pthread_mutex_unlock(&lock);
    c->n = (struct emu_counters){ 0 };
}

void emu_counts_launch(void)
{
    pthread_mutex_lock(&lock);
    sums.launches++;
    pthread_mutex_unlock(&lock);
}

void emu_counts_before(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_counters *n = &w->counts->n;
    n->instructions++;
    n->by_class[i->op->cls]++;
    if (i->op->cls == EMU_VALU || i->op->cls == EMU_TRANS) {
        n->vector++;
        n->active_lanes += (uint64_t)__builtin_popcountll(w->exec);
    }
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void emu_counts_access(struct emu_wave *w, const struct emu_access *a)
{
    struct emu_counters *n = &w->counts->n;
    uint64_t lines[64 * 2], bytes = (uint64_t)__builtin_popcountll(a->lanes) * a->bytes;
    int count = 0;
    if (a->space == EMU_LDS_SPACE)
        n->lds_bytes += bytes;
    if (a->space != EMU_GLOBAL)
        return;
    if (a->kind == EMU_LOAD)
        n->load_bytes += bytes;
    else
        n->store_bytes += bytes;
    for (uint64_t m = a->lanes; m; m &= m - 1) {
        uint64_t from = a->addr[__builtin_ctzll(m)], to = from + a->bytes - 1;
        for (uint64_t line = from / 64; line <= to / 64 && count < 128; line++)
            if (!count || lines[count - 1] != line)
                lines[count++] = line;
    }
    qsort(lines, (size_t)count, sizeof(*lines), ascending);
    for (int k = 0; k < count; k++) {
        n->lines64 += !k || lines[k] != lines[k - 1];
        n->lines128 += !k || lines[k] / 2 != lines[k - 1] / 2;
    }
}

void emu_counts_barrier(struct emu_workgroup *wg)
{
    for (int k = 0; k < wg->n_waves; k++)
        if (wg->wave[k].stop == EMU_BARRIER && wg->wave[k].counts)
            wg->wave[k].counts->n.barriers++;
}
