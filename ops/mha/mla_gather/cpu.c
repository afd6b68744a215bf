/* SPDX-License-Identifier: MIT
 *
 * mla_gather on the cpu: rows shared out among threads. */
#include <string.h>

#include "gather.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/rows.h"
#include "ops/mha/mla/rows.h"

struct job {
    const struct gather_args *a;
    const struct rfg_problem *prob;
    struct mla_reader reader;
};

static int64_t within(int64_t n, int64_t least, int64_t most)
{
    return n > most ? most : n < least ? least : n;
}

/* The sequence of row r; -1: none. */
static int sequence_of(const struct gather_args *a, int64_t r)
{
    int low = 0, high = a->batch;
    if (r < a->cu_seqlens[0] || r >= a->cu_seqlens[a->batch])
        return -1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (a->cu_seqlens[middle] <= r)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void run_row(void *ctx, int64_t r, int place, void *scratch)
{
    const struct job *j = ctx;
    const struct gather_args *a = j->a;
    const int *table = a->table;
    int b = sequence_of(a, r), kv = j->prob->dtype[0], x = j->prob->dtype[1], d = (int)j->prob->v[GATHER_D];
    int64_t held = a->held, block = b;
    float *row = scratch, scale = a->kv_scale ? *a->kv_scale : 1;
    (void)place;
    if (b < 0)
        return;
    if (a->indptr) {
        int64_t first = within(a->indptr[b], 0, a->entries);
        table += first;
        held = (within(a->indptr[b + 1], first, a->entries) - first) << a->page_shift;
    } else if (table) {
        table += b * a->table_stride;
    }
    if (held == 0)
        return;
    int64_t key = within(r - a->cu_seqlens[b] + (a->first ? a->first[b] : 0), 0, held - 1), t = key;
    if (table) {
        block = within(table[key >> a->page_shift], 0, a->blocks - 1);
        t = key & (((int64_t)1 << a->page_shift) - 1);
    }
    const char *at = (const char *)a->kv + block * a->kv_block * rfg_format_bytes(kv, 1);
    if (kv == x) { /* bits are copied, NaN's too */
        memcpy((char *)a->rows + r * a->row * 2, at + t * a->kv_row * 2, (size_t)d * 2);
        return;
    }
    mla_read_row(&j->reader, at, t, row);
    for (int i = 0; i < d; i++)
        rfg_float_put(a->rows, x, r * a->row + i, row[i] * scale);
}

static size_t workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none)
{
    (void)prob, (void)none;
    return (size_t)(dev->cu_count > 1 ? dev->cu_count : 1) * MLA_MAX_D * sizeof(float);
}

static void run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *none, const void *kargs,
                struct rfg_cpu_pool *pool)
{
    const struct gather_args *a = kargs;
    struct job j = { a, prob,
                     mla_reader_of((int)prob->v[GATHER_FORMAT], prob->dtype[0], (int)prob->v[GATHER_D], a->kv_row,
                                   a->scales_at) };
    double bytes, flops;
    (void)none;
    prob->op->cost(prob, &bytes, &flops);
    if (a->n)
        rfg_cpu_rows_run(dev, pool, a->n, bytes / a->n, a->workspace, MLA_MAX_D * sizeof(float), run_row, &j);
}

const struct rfg_variant mla_gather_cpu = {
    .name = "mla_gather_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .workspace = workspace,
    .run = run,
};
