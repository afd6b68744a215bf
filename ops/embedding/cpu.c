/* SPDX-License-Identifier: MIT
 *
 * embedding on the cpu: rows are distributed among threads. */
#include <string.h>

#include "embedding.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"

struct job {
    const struct embedding_args *a;
    const struct rfg_problem *prob;
};

static void run_row(void *ctx, int64_t row, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct embedding_args *a = j->a;
    const uint8_t *d = j->prob->dtype;
    int64_t id = d[0] == RFG_I64 ? ((const int64_t *)a->ids)[row] : ((const int32_t *)a->ids)[row];
    char *y = (char *)a->y + rfg_format_bytes(d[2], 1) * row * a->ldy;
    (void)place, (void)scratch;
    uint64_t at = (uint64_t)id - (uint64_t)a->first; /* right where id >= first, whatever they are */
    if (id < a->first || at >= (uint64_t)a->v) {
        memset(y, 0, (size_t)rfg_format_bytes(d[2], a->n));
        return;
    }
    const char *from = (const char *)a->table + rfg_format_bytes(d[1], 1) * (int64_t)at * a->ldt;
    bool scaled = j->prob->v[EMBEDDING_SCALED];
    if (!scaled && d[1] == d[2]) {
        memcpy(y, from, (size_t)rfg_format_bytes(d[1], a->n));
        return;
    }
    for (int64_t i = 0; i < a->n; i++) {
        float f = rfg_float_get(from, d[1], i);
        rfg_float_put(y, d[2], i, scaled ? f * a->scale : f);
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    struct job j = { kargs, prob };
    double bytes, flops;
    (void)p;
    prob->op->cost(prob, &bytes, &flops);
    if (j.a->m && j.a->n)
        rfg_cpu_rows_run(dev, pool, j.a->m, bytes / j.a->m, NULL, 0, run_row, &j);
}

const struct rfg_variant embedding_cpu = {
    .name = "embedding_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
