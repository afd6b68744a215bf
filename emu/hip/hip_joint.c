/* SPDX-License-Identifier: MIT
 *
 * Joint launches: kernels of several emulated GPUs that wait for each other. The emulator runs one launch at a time, so
 * the ranks' are gathered, and run as one whose workgroups are all ranks' in turn. The checks then see what one rank's
 * waves do to another's. Each rank is launched by a thread of its own, which waits here for the others.
 *
 * Not told to the check of streams (hip_order.c): these kernels' memory is ordered by flags, not by events. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "hip_impl.h"

struct gathering {
    struct gathering *next;
    struct rfg_joint who;
    const struct node *node[EMU_MAX_RANKS];
    int arrived, left; /* threads that wait, and that have their answer yet to fetch */
    bool done;
    hipError_t error;
};
static struct gathering *gatherings;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int by_address(const void *a, const void *b)
{
    const struct emu_block *x = *(struct emu_block *const *)a, *y = *(struct emu_block *const *)b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* All devices' memory as one, that of a rank that didn't come too. False: no memory. */
static bool join_memory(struct emu_memory *all)
{
    for (int d = 0; d < emu_n_devices; d++) {
        const struct emu_memory *m = &emu_devices[d].memory;
        struct emu_block **grown = realloc(all->block, (size_t)(all->n + m->n + 64) * sizeof(*grown));
        if (!grown)
            return false;
        if (m->n)
            memcpy(grown + all->n, m->block, (size_t)m->n * sizeof(*grown));
        all->block = grown;
        all->n += m->n;
        all->capacity = all->n + 64;
        all->numbers += m->numbers;
    }
    if (all->n)
        qsort(all->block, (size_t)all->n, sizeof(all->block[0]), by_address);
    return true;
}

/* Those that came. The kernel is the same, and was loaded by each device. */
static hipError_t run(const struct gathering *g)
{
    uint8_t *kernargs[EMU_MAX_RANKS];
    const struct node *first = NULL;
    struct emu_memory memory = { 0 };
    int ranks = 0;
    for (int r = 0; r < g->who.ranks; r++)
        if (g->node[r]) {
            first = first ? first : g->node[r];
            if (strcmp(g->node[r]->fn->kernel->name, first->fn->kernel->name) ||
                memcmp(g->node[r]->grid, first->grid, sizeof(first->grid)) ||
                memcmp(g->node[r]->block, first->block, sizeof(first->block)))
                return hipErrorInvalidValue;
            kernargs[ranks++] = g->node[r]->kernarg;
        }
    if (!join_memory(&memory)) {
        free(memory.block);
        return hipErrorOutOfMemory;
    }
    struct module *m = first->fn->module;
    struct emu_launch l = { .arch = m->device->arch,
                            .cu_count = m->device->cu_count,
                            .memory = &memory,
                            .code = m->code,
                            .kernel = first->fn->kernel,
                            .kernarg = first->kernarg,
                            .ranks = ranks,
                            .kernargs = kernargs,
                            .dynamic_lds = first->lds };
    memcpy(l.grid, first->grid, sizeof(l.grid));
    memcpy(l.block, first->block, sizeof(l.block));
    enum emu_result result = emu_launch_run(&l);
    free(memory.block);
    return emu_launched(&l, result);
}

static struct gathering *find(const struct rfg_joint *who)
{
    for (struct gathering *g = gatherings; g; g = g->next)
        if (g->who.group == who->group && !g->done && !g->node[who->rank])
            return g;
    struct gathering *g = calloc(1, sizeof(*g));
    if (g) {
        g->who = *who;
        g->next = gatherings;
        gatherings = g;
    }
    return g;
}

static void end(struct gathering *g)
{
    struct gathering **at = &gatherings;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    free(g);
}

hipError_t emu_run_joint(hipStream_t stream, const struct node *n, bool replayed)
{
    (void)stream, (void)replayed;
    const double until = rfg_now() + n->who.seconds;
    struct gathering *g = find(&n->who);
    if (!g)
        return hipErrorOutOfMemory;
    g->node[n->who.rank] = n;
    g->arrived++;
    g->left++;
    while (!g->done && g->arrived < g->who.ranks && emu_hip_wait(&changed, until))
        ;
    if (!g->done) { /* the last to come, or the first to lose its patience */
        g->error = run(g);
        g->done = true;
        pthread_cond_broadcast(&changed);
    }
    hipError_t e = g->error;
    if (--g->left == 0)
        end(g);
    return e;
}
