/* SPDX-License-Identifier: MIT
 *
 * --predict: rows from the analytical model alone, for a device that isn't there. */
#include <math.h>
#include <string.h>

#include "dispatch/jit/jit.h"
#include "base/util.h"
#include "tuner/harness/loads.h"
#include "tune.h"

/* The model's first. A vendor's library has no model, and can't be asked. */
static const struct tune_candidate *best_of(const struct tune_shape *s)
{
    const struct tune_candidate *best = NULL;
    for (int i = 0; i < s->n; i++)
        if (s->c[i].var->kind == RFG_VARIANT_KERNEL && isfinite(s->c[i].predicted_us) &&
            (!best || s->c[i].predicted_us < best->predicted_us))
            best = &s->c[i];
    return best;
}

void tune_predict_shape(struct tune *t, struct tune_shape *s)
{
    const struct tune_candidate *c = best_of(s);
    if (rfg_db_get(t->db, &s->problem, t->dev.arch, t->dev.cu_count, tune_product(t), &s->row) == 1 &&
        s->row.how > RFG_SOURCE_PREDICTED) { /* what was measured once, if with other sources, says more */
        s->state = SHAPE_CURRENT;
        return;
    }
    if (!c) {
        s->state = SHAPE_FAILED;
        snprintf(s->why, sizeof(s->why), "no kernel of ours has a model for it on this device");
        return;
    }
    struct rfg_row *row = &s->row;
    struct rfg_kernel kernel = { 0 };
    *row = (struct rfg_row){
        .problem = s->problem, .cu_count = t->dev.cu_count, .median_us = c->predicted_us, .how = RFG_SOURCE_PREDICTED
    };
    snprintf(row->arch, sizeof(row->arch), "%s", t->dev.arch);
    rfg_row_set_config(row, c->var, c->p, true);
    if (rfg_problem_is_recorded(&row->problem))
        rfg_row_set_loads(row, gemm_loads_name());
    c->var->kernel(&t->dev, &s->problem, c->p, &kernel);
    rfg_jit_source_hash(kernel.source, row->source_hash);
    snprintf(row->version, sizeof(row->version), "%s", rfg_version());
    snprintf(row->device, sizeof(row->device), "%s", t->ctx ? tune_product(t) : "");
    rfg_date(row->date);
    if (rfg_db_put(t->db, row) == RFG_OK) {
        s->state = SHAPE_TUNED;
    } else {
        s->state = SHAPE_FAILED;
        snprintf(s->why, sizeof(s->why), "the row can't be written: %s", rfg_last_error());
    }
}
