/* SPDX-License-Identifier: MIT
 *
 * advance on the cpu, by one thread: one sequence after the other. */
#include "advance.h"
#include "ops/cpu/rows.h"

/* The step's first position, or -1: the sequence stands still. *need: blocks that it takes, the first of which is its
 * held-th. */
static int64_t first_position(const struct advance_args *a, int64_t page, int64_t b, int64_t *held, int64_t *need)
{
    int64_t old = a->kv_lens[b], more = a->accepted ? a->accepted[b] : a->sq, len = old + more;
    *held = *need = 0;
    if (old < 0 || more < 0 || more > a->sq || (a->active && !a->active[b]) || len < a->sq || len > INT32_MAX)
        return -1;
    if (!a->table)
        return len - a->sq;
    int64_t end = (len - 1) / page + 1;
    if (end > a->blocks)
        return -1;
    *held = a->spare ? (old + page - 1) / page : end;
    for (int64_t i = (len - a->sq) / page; i < *held; i++)
        if (a->table[b * a->ldb + i] < 0)
            return -1;
    *need = end - *held;
    return len - a->sq;
}

/* Moves `need` blocks from the list's end to the sequence's row. */
static bool take(const struct advance_args *a, int64_t b, int64_t held, int64_t need, int64_t *left)
{
    bool numbers = true;
    *left -= need;
    for (int64_t i = 0; i < need; i++)
        numbers &= a->spare[*left + i] >= 0;
    for (int64_t i = 0; numbers && i < need; i++)
        a->table[b * a->ldb + held + i] = a->spare[*left + need - 1 - i];
    return numbers;
}

static void write_step(const struct advance_args *a, int64_t page, bool wide, int64_t b, int64_t first)
{
    for (int64_t j = 0; j < a->sq; j++) {
        int64_t at = b * a->sq + j, p = first < 0 ? 0 : first + j;
        if (wide)
            ((int64_t *)a->positions)[at] = p;
        else
            ((int32_t *)a->positions)[at] = (int32_t)p;
        if (!a->slots)
            continue;
        a->slots[at] = first < 0 ? -1 : a->table[b * a->ldb + p / page] * page + p % page;
    }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct advance_args *a = kargs;
    int64_t left = a->spare ? *a->spare_count : 0, page = prob->v[ADVANCE_PAGE];
    bool waiting = false; /* one waits for blocks: those after it that need some wait, too */
    (void)dev, (void)p, (void)pool;
    left = left < 0 ? 0 : left > a->n_spare ? a->n_spare : left;
    for (int64_t b = 0; b < a->b; b++) {
        int64_t held, need, first = first_position(a, page, b, &held, &need);
        if (first >= 0 && need) {
            waiting |= need > left;
            first = !waiting && take(a, b, held, need, &left) ? first : -1;
        }
        if (first >= 0)
            a->kv_lens[b] = (int)(first + a->sq);
        write_step(a, page, prob->dtype[1] == RFG_I64, b, first);
    }
    if (a->spare)
        *a->spare_count = (int)left;
}

const struct rfg_variant advance_cpu = {
    .name = "advance_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = rfg_cpu_plain_supports,
    .predict = rfg_cpu_plain_predict,
    .run = cpu_run,
};
