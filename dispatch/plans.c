/* SPDX-License-Identifier: MIT
 *
 * The table of plans: open addressing, at most half full. Readers take no lock: entries are only added, and a table
 * that became too small stays readable until the context is destroyed. */
#include <stdlib.h>

#include "context_impl.h"

struct plan_table {
    struct plan_table *older;
    size_t mask, used;
    _Atomic(struct rfg_plan *) slot[];
};

struct rfg_plan *rfg_plans_find(rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash)
{
    struct plan_table *t = atomic_load_explicit(&ctx->table, memory_order_acquire);
    for (size_t i = hash; t; i++) {
        struct rfg_plan *plan = atomic_load_explicit(&t->slot[i & t->mask], memory_order_acquire);
        if (!plan || (plan->hash == hash && rfg_problem_equal(&plan->prob, prob)))
            return plan;
    }
    return NULL;
}

static void put(struct plan_table *t, struct rfg_plan *plan)
{
    size_t i = plan->hash;
    while (atomic_load_explicit(&t->slot[i & t->mask], memory_order_relaxed))
        i++;
    atomic_store_explicit(&t->slot[i & t->mask], plan, memory_order_release);
    t->used++;
}

rfg_status rfg_plans_insert(rfg_context *ctx, struct rfg_plan *plan)
{
    struct plan_table *t = atomic_load(&ctx->table);
    if (!t || 2 * (t->used + 1) > t->mask + 1) {
        size_t size = t ? 2 * (t->mask + 1) : 64;
        struct plan_table *grown = calloc(1, sizeof(*grown) + size * sizeof(grown->slot[0]));
        if (!grown)
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for %zu plans", size);
        grown->mask = size - 1;
        grown->older = t;
        for (size_t i = 0; t && i <= t->mask; i++)
            if (atomic_load(&t->slot[i]))
                put(grown, atomic_load(&t->slot[i]));
        put(grown, plan);
        atomic_store_explicit(&ctx->table, grown, memory_order_release);
        return RFG_OK;
    }
    put(t, plan);
    return RFG_OK;
}

void rfg_plans_replace(rfg_context *ctx, struct rfg_plan *old, struct rfg_plan *plan)
{
    struct plan_table *t = atomic_load(&ctx->table);
    size_t i = old->hash;
    plan->hash = old->hash;
    plan->replaced = old;
    while (atomic_load_explicit(&t->slot[i & t->mask], memory_order_relaxed) != old)
        i++;
    atomic_store_explicit(&t->slot[i & t->mask], plan, memory_order_release);
}

struct rfg_plan *rfg_plans_next(const rfg_context *ctx, size_t *i)
{
    struct plan_table *t = atomic_load(&ctx->table);
    struct rfg_plan *plan = NULL;
    while (!plan && t && *i <= t->mask)
        plan = atomic_load(&t->slot[(*i)++]);
    return plan;
}

void rfg_plans_free(rfg_context *ctx)
{
    struct rfg_plan *plan, *next;
    for (size_t i = 0; (plan = rfg_plans_next(ctx, &i));)
        for (; plan; plan = next) {
            next = plan->replaced;
            rfg_plan_destroy(ctx, &plan);
        }
    for (struct plan_table *t = atomic_load(&ctx->table), *older; t; t = older) {
        older = t->older;
        free(t);
    }
    atomic_store(&ctx->table, NULL);
}

const struct rfg_plan *rfg_plan_find(rfg_context *ctx, const struct rfg_problem *prob)
{
    struct rfg_problem own;
    if (ctx->overlap || ctx->invariant) {
        own = rfg_problem_of_call(ctx, prob);
        prob = &own;
    }
    return rfg_plans_find(ctx, prob, rfg_problem_hash(prob));
}
