/* SPDX-License-Identifier: MIT
 *
 * A context's statistics, and writing its misses to the user database. */
#include "base/util.h"
#include "context_impl.h"
#include "ops/params.h"

RFG_PARAMS_END(rfg_stats, tuned);

#define SAVE_EVERY  5.0   /* seconds between attempts to write the misses down, */
#define SAVE_SELDOM 300.0 /* and after many that failed */

void rfg_misses_save(rfg_context *ctx, enum rfg_db_mode mode)
{
    struct rfg_plan *plan;
    struct rfg_db *db = NULL;
    bool failed = false;
    for (size_t i = 0; ctx->save_misses && (plan = rfg_plans_next(ctx, &i));) {
        uint64_t calls = atomic_load_explicit(&plan->calls, memory_order_relaxed);
        if (plan->choice.rung == RFG_RUNG_EXACT || calls == plan->calls_saved)
            continue;
        struct rfg_problem key = rfg_problem_key(&plan->prob);
        failed = (!db && rfg_db_open(&db, ctx->user_db, mode)) ||
                 rfg_db_add_misses(db, &key, ctx->dev.arch, ctx->dev.cu_count, (int)plan->choice.rung,
                                   calls - plan->calls_saved);
        if (failed) {
            if (!ctx->misses_failed || mode != RFG_DB_NOTE)
                rfg_warn("misses are not recorded%s: %s", mode == RFG_DB_NOTE ? " now, tried again later" : "",
                         rfg_last_error());
            break;
        }
        plan->calls_saved = calls;
    }
    rfg_db_close(&db);
    ctx->misses_failed = failed ? ctx->misses_failed + 1 : 0;
    ctx->save_misses_at = rfg_now() + (ctx->misses_failed > 5 ? SAVE_SELDOM : SAVE_EVERY);
}

bool rfg_misses_note(rfg_context *ctx)
{
    if (ctx->misses_failed && rfg_now() < ctx->save_misses_at)
        return false;
    rfg_misses_save(ctx, RFG_DB_NOTE);
    return !ctx->misses_failed;
}

static void count(rfg_context *ctx, rfg_stats *stats)
{
    struct rfg_cache_stats cache;
    pthread_mutex_lock(&ctx->lock);
    rfg_cache_get_stats(ctx->cache, &cache); /* under the lock, which fork() waits for */
    stats->compiles = cache.compiles;
    stats->cache_hits = cache.memory_hits + cache.disk_hits;
    const struct rfg_plan *plan;
    for (size_t i = 0; (plan = rfg_plans_next(ctx, &i));) {
        stats->plans++;
        for (; plan; plan = plan->replaced) {
            uint64_t calls = atomic_load_explicit(&plan->calls, memory_order_relaxed);
            stats->calls += calls;
            stats->misses += plan->choice.rung != RFG_RUNG_EXACT ? calls : 0;
        }
    }
    stats->tuned = ctx->tuned;
    pthread_mutex_unlock(&ctx->lock);
}

void rfg_context_stats(rfg_context *ctx, rfg_stats *stats)
{
    rfg_stats own = RFG_STATS_INIT;
    if (!ctx || !stats)
        (void)rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_stats: %s is NULL: must be %s", ctx ? "stats" : "ctx",
                       ctx ? "where they go" : "a context");
    else if (rfg_context_forked(ctx))
        (void)rfg_fork_refuse(ctx);
    else
        count(ctx, &own);
    if (stats) /* a wrong size has the last word */
        (void)RFG_GIVE_STRUCT("rfg_context_stats", "stats", rfg_stats, stats, &own);
}
