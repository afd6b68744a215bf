/* SPDX-License-Identifier: MIT
 *
 * moe_gate on the cpu: rows are normed and multiplied side by side, then moe_route and moe_align run. */
#include <math.h>

#include "align.h"
#include "gate.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"

struct job {
    const struct gate_args *a;
    const struct rfg_problem *prob;
};

static void norm_row(const struct job *j, const char *x, char *y)
{
    const struct gate_args *a = j->a;
    int dtype = j->prob->dtype[0];
    float sum = 0;
    for (int i = 0; i < a->k; i++)
        sum += rfg_float_get(x, dtype, i) * rfg_float_get(x, dtype, i);
    float rstd = 1 / sqrtf(sum / (float)a->k + a->eps);
    for (int i = 0; i < a->k; i++) {
        float w = rfg_float_get(a->norm, dtype, i) + (j->prob->v[GATE_NORM] == GATE_NORM_1W ? 1.0f : 0.0f);
        rfg_float_put(y, dtype, i, rfg_float_get(x, dtype, i) * rstd * w);
    }
}

static void run_row(void *ctx, int t, int worker)
{
    const struct job *j = ctx;
    const struct gate_args *a = j->a;
    int dtype = j->prob->dtype[0];
    int64_t at = (int64_t)t * a->k * 2;
    const char *x = (const char *)a->x + at;
    float *logits = (float *)a->workspace + (int64_t)t * a->route.e;
    (void)worker;
    if (a->norm) {
        norm_row(j, x, (char *)a->y + at);
        x = (char *)a->y + at;
    }
    for (int e = 0; e < a->route.e; e++) {
        const char *w = (const char *)a->w + (int64_t)e * a->k * 2;
        float sum = 0;
        for (int i = 0; i < a->k; i++)
            sum += rfg_float_get(x, dtype, i) * rfg_float_get(w, dtype, i);
        logits[e] = sum + (a->w_bias ? rfg_float_get(a->w_bias, dtype, e) : 0);
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct gate_args *a = kargs;
    struct job j = { a, prob };
    struct rfg_problem route = gate_route(prob), align = { .op = &rfg_op_moe_align_desc };
    struct route_args r = a->route;
    int limit = r.tokens && *r.tokens < r.t ? *r.tokens : r.t, slots = r.top + r.shared;
    if (limit > 0)
        rfg_cpu_pool_run(pool, limit, run_row, &j);
    r.x = a->workspace;
    moe_route_cpu.run(dev, &route, p, &r, pool);
    align.v[ALIGN_T] = r.t;
    align.v[ALIGN_TOP] = slots;
    align.v[ALIGN_E] = r.e + r.shared;
    align.v[ALIGN_BLOCK] = 1;
    struct moe_align_args s = { .ids = r.ids,
                                .tokens = r.tokens,
                                .weights = r.weights,
                                .rows = a->rows,
                                .offsets = a->offsets,
                                .weights_out = a->sorted,
                                .places = a->places,
                                .ldi = slots,
                                .ldw = slots,
                                .ldp = slots };
    align_set_sizes(&s, &align);
    moe_align_cpu.run(dev, &align, p, &s, pool);
}

const struct rfg_variant moe_gate_cpu = {
    .name = "moe_gate_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .workspace = gate_workspace,
    .run = cpu_run,
};
