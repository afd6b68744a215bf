/* SPDX-License-Identifier: MIT
 *
 * The first call of a problem, or its preparation: down the ladder until a rung's variant can be made ready. */
#include <stdio.h>

#include "base/util.h"
#include "context_impl.h"

static void say_to_log(void *arg, const char *line)
{
    (void)arg;
    rfg_log(RFG_LOG_DISPATCH, "%s", line);
}

/* Goes down the ladder until a rung's variant can be made ready: a compiler that refuses one variant costs speed, not
 * the op. A tuned row that fails costs its rung; of the model's ranking only the variant that failed goes. If nothing
 * is left, the first thing that the compiler said is why. */
static rfg_status make_plan(rfg_context *ctx, const struct rfg_problem *prob, struct rfg_plan **out)
{
    enum rfg_rung from = RFG_RUNG_EXACT;
    uint32_t skip = 0;
    rfg_status failed = RFG_OK; /* the first compile that did, what of, and why */
    char what[RFG_CONFIG_STRLEN] = "", why[700] = "";
    for (;;) {
        struct rfg_choice choice;
        char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
        rfg_status st =
            rfg_choose(ctx, prob, from, skip, &choice, rfg_log_on(RFG_LOG_DISPATCH) ? say_to_log : NULL, NULL);
        rfg_problem_format(prob, text, sizeof(text));
        if (failed && (st == RFG_ERROR_UNSUPPORTED || st == RFG_ERROR_COMPILE)) /* COMPILE: the pack has no other */
            return rfg_fail(failed, "%s: %s", text, why);
        if (st != RFG_OK)
            return st;
        rfg_config_format(choice.variant, choice.params, config, sizeof(config));
        st = rfg_plan_create(ctx, prob, choice.variant, choice.params, out);
        if (st == RFG_OK) {
            (*out)->choice = choice;
            if (failed)
                rfg_warn("%s: %s can't be used (%s); %s serves it", text, what, why, config);
            return RFG_OK;
        }
        if (st == RFG_ERROR_COMPILE || st == RFG_ERROR_IO) {
            rfg_log(RFG_LOG_DISPATCH, "%s: %s can't be used: %s", text, config, rfg_last_error());
            if (!failed) {
                failed = st;
                snprintf(what, sizeof(what), "%s", config);
                snprintf(why, sizeof(why), "%s", rfg_last_error());
            }
        } else if (st != RFG_ERROR_UNSUPPORTED || (choice.rung == RFG_RUNG_PORTABLE && !failed)) {
            return st;
        } else if (choice.rung == RFG_RUNG_MODEL) {
            /* A library says what it supports only when it is asked. So a refusal is no warning, ... */
            rfg_log(RFG_LOG_DISPATCH, "%s: %s declines: %s", text, config, rfg_last_error());
        } else { /* ... unless a row promised it */
            rfg_warn("%s: %s can't be used (%s); going on without it", text, config, rfg_last_error());
        }
        from = choice.rung < RFG_RUNG_MODEL ? choice.rung + 1 : RFG_RUNG_MODEL;
        skip |= rfg_variant_bit(prob->op, choice.variant);
    }
}

bool rfg_plan_renew(rfg_context *ctx, struct rfg_plan *old)
{
    struct rfg_plan *plan;
    if (make_plan(ctx, &old->prob, &plan) != RFG_OK)
        return false;
    if (plan->choice.rung != RFG_RUNG_EXACT) {
        rfg_plan_destroy(ctx, &plan);
        return false;
    }
    rfg_plans_replace(ctx, old, plan);
    return true;
}

/* A problem whose plan a thread is making; it is on that thread's stack. */
struct making {
    struct making *next;
    const struct rfg_problem *prob;
    uint64_t hash;
};

/* Under ctx->lock, as the next two. */
static bool is_in_the_making(const rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash)
{
    const struct making *m = ctx->making;
    while (m && !(m->hash == hash && rfg_problem_equal(m->prob, prob)))
        m = m->next;
    return m;
}

/* Makes the plan without the lock: a compile takes seconds. (On cpu nothing is compiled, and fork() waits for the
 * lock.) */
static rfg_status make_unlocked(rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash, struct rfg_plan **out)
{
    struct making mine = { ctx->making, prob, hash };
    ctx->making = &mine;
    if (ctx->hip)
        pthread_mutex_unlock(&ctx->lock);
    rfg_status st = make_plan(ctx, prob, out);
    if (ctx->hip)
        pthread_mutex_lock(&ctx->lock);
    struct making **at = &ctx->making;
    while (*at != &mine)
        at = &(*at)->next;
    *at = mine.next;
    pthread_cond_broadcast(&ctx->made);
    return st;
}

static rfg_status refuse_captured(rfg_context *ctx, const struct rfg_problem *prob, const rfg_stream *stream)
{
    bool captured = false;
    char text[RFG_PROBLEM_STRLEN];
    rfg_status st = stream ? rfg_stream_captured(ctx, prob->op->name, *stream, &captured) : RFG_OK;
    return st == RFG_OK && captured ? rfg_fail(RFG_ERROR_NOT_READY,
                                               "%s: first call while the stream is being captured: call rfg_prepare() "
                                               "before the capture",
                                               rfg_problem_format(prob, text, sizeof(text)))
                                    : st;
}

rfg_status rfg_plan_make(rfg_context *ctx, const struct rfg_problem *prob, uint64_t hash, const rfg_stream *stream,
                         struct rfg_plan **out)
{
    rfg_status st = RFG_OK;
    struct rfg_plan *plan;
    pthread_mutex_lock(&ctx->lock);
    while (!(plan = rfg_plans_find(ctx, prob, hash)) && is_in_the_making(ctx, prob, hash))
        pthread_cond_wait(&ctx->made, &ctx->lock);
    if (!plan && (st = rfg_problem_judge(prob)) == RFG_OK && (st = refuse_captured(ctx, prob, stream)) == RFG_OK &&
        (st = make_unlocked(ctx, prob, hash, &plan)) == RFG_OK) {
        plan->hash = hash;
        st = rfg_plans_insert(ctx, plan);
        if (st != RFG_OK)
            rfg_plan_destroy(ctx, &plan);
        else if (ctx->save_misses && rfg_now() > ctx->save_misses_at)
            rfg_misses_save(ctx, RFG_DB_NOTE);
    }
    pthread_mutex_unlock(&ctx->lock);
    *out = plan;
    return st;
}

rfg_status rfg_plan_prepare(rfg_context *ctx, const struct rfg_problem *prob)
{
    int previous = -1;
    struct rfg_problem own, call = rfg_problem_as_called(prob);
    rfg_status st = rfg_context_problem(ctx, &call, &own);
    if (st != RFG_OK || (st = rfg_device_enter(ctx, &previous)) != RFG_OK)
        return st;
    uint64_t hash = rfg_problem_hash(&own);
    struct rfg_plan *plan = rfg_plans_find(ctx, &own, hash);
    if (!plan)
        st = rfg_plan_make(ctx, &own, hash, NULL, &plan);
    rfg_device_leave(ctx, previous);
    return st;
}
