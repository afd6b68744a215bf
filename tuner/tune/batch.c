/* SPDX-License-Identifier: MIT
 *
 * rfg-tune: shapes in batches, so that the candidates of a few are in memory. */
#include <stdlib.h>

#include "tune.h"

#define BATCH 256 /* shapes that are planned, compiled for and tuned at a time */

void tune_forget_candidates(const struct tune *t, struct tune_shape *s)
{
    if (tune_results_need(t, s))
        return;
    free(s->c);
    s->c = NULL;
    s->n = 0;
}

/* False: no memory, or no threads. */
static bool do_batch(struct tune *t, struct tune_shape *shapes, int n)
{
    int waiting = 0;
    for (int i = 0; i < n && !tune_is_over(t); i++)
        if (shapes[i].state == SHAPE_WAITING) {
            tune_plan_shape(t, &shapes[i]);
            waiting++;
        }
    bool ok = true;
    if (waiting) {
        t->compiler = tune_compiler_start(t);
        if (!t->child)
            t->child = tune_child_create(t);
        ok = t->compiler && t->child;
        if (ok)
            tune_sweep(t, shapes, n);
        tune_compiler_stop(&t->compiler);
    }
    for (int i = 0; i < n; i++)
        tune_forget_candidates(t, &shapes[i]);
    return ok;
}

bool tune_batches(struct tune *t, int from, int to)
{
    bool ok = true;
    for (int i = from; i < to && ok && !tune_is_over(t) && !t->gave_up; i += BATCH)
        ok = do_batch(t, &t->shapes[i], to - i < BATCH ? to - i : BATCH);
    return ok;
}
