/* SPDX-License-Identifier: MIT
 *
 * argmax on the cpu: pieces of rows shared out among threads 32 rows at a time, so that one long row keeps all busy. */
#include <math.h>
#include <string.h>

#include "argmax.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"

#define ROWS   32 /* of a turn */
#define PIECES 32 /* of a row, at most */
#define LANES  16

struct found {
    float largest;
    int64_t column;
};

struct job {
    const struct argmax_args *a;
    int dtype;
    int64_t first, pieces, size; /* of a piece, in elements */
    struct found found[ROWS * PIECES];
};

/* The first of the largest of n elements from column `from` on; column 0 if none is above -infinity. Blocks are looked
 * through for their largest value, of which only a new one's place matters. */
static struct found search(const char *x, int dtype, int64_t from, int64_t n)
{
    struct found best = { -INFINITY, 0 };
    for (int64_t at = from; at < from + n; at += 256) {
        float f[256], most[LANES];
        int count = from + n - at < 256 ? (int)(from + n - at) : 256;
        for (int i = 0; i < count; i++)
            f[i] = rfg_float_get(x, dtype, at + i);
        for (int i = count; i < 256; i++)
            f[i] = -INFINITY;
        for (int k = 0; k < LANES; k++)
            most[k] = -INFINITY;
        for (int i = 0; i < 256; i += LANES)
            for (int k = 0; k < LANES; k++)
                most[k] = f[i + k] > most[k] ? f[i + k] : most[k];
        for (int k = 1; k < LANES; k++)
            most[0] = most[k] > most[0] ? most[k] : most[0];
        if (!(most[0] > best.largest))
            continue;
        int i = 0;
        while (f[i] != most[0])
            i++;
        best = (struct found){ most[0], at + i };
    }
    return best;
}

static void run_piece(void *ctx, int task, int worker)
{
    struct job *j = ctx;
    int64_t row = j->first + task / j->pieces, from = task % j->pieces * j->size;
    int64_t n = j->a->v - from < j->size ? j->a->v - from : j->size;
    const char *x = (const char *)j->a->x + rfg_format_bytes(j->dtype, 1) * row * j->a->ldx;
    (void)worker;
    j->found[task] = search(x, j->dtype, from, n);
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct argmax_args *a = kargs;
    struct job j = { .a = a, .dtype = prob->dtype[0] };
    (void)dev, (void)p;
    /* Pieces of at least 16384 elements: smaller ones cost more to share out than to search. */
    j.pieces = ceil_div(a->v, 16384);
    j.pieces = j.pieces > PIECES ? PIECES : j.pieces;
    j.size = ceil_div(a->v, j.pieces);
    j.pieces = ceil_div(a->v, j.size);
    for (j.first = 0; j.first < a->m; j.first += ROWS) {
        int rows = a->m - j.first < ROWS ? (int)(a->m - j.first) : ROWS;
        rfg_cpu_pool_run(pool, rows * (int)j.pieces, run_piece, &j);
        for (int r = 0; r < rows; r++) {
            struct found *f = &j.found[r * j.pieces], best = f[0];
            for (int64_t i = 1; i < j.pieces; i++)
                best = f[i].largest > best.largest ? f[i] : best;
            if (prob->dtype[1] == RFG_I64)
                ((int64_t *)a->y)[j.first + r] = best.column;
            else
                ((int32_t *)a->y)[j.first + r] = (int32_t)best.column;
        }
    }
}

const struct rfg_variant argmax_cpu = {
    .name = "argmax_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
