/* SPDX-License-Identifier: MIT
 *
 * A call of an operator: finds or makes its plan, and launches it. */
#include "context_impl.h"

static rfg_status record_call(struct rfg_graph *record, const struct rfg_plan *plan, const void *kargs)
{
    return rfg_graph_add(record, &(struct rfg_record){ .plan = plan }, kargs, plan->prob.op->kargs_size);
}

rfg_status rfg_dispatch(rfg_context *ctx, const struct rfg_problem *prob, void *kargs, rfg_stream stream)
{
    struct rfg_problem own;
    if (ctx->overlap || ctx->invariant) {
        own = rfg_problem_of_call(ctx, prob);
        prob = &own;
    }
    struct rfg_graph *record = NULL;
    int previous = -1;
    rfg_status st = RFG_OK;
    if (rfg_stream_is_special(ctx, stream))
        return rfg_stream_refuse_special(prob->op->name, stream);
    if (!ctx->hip && stream && (st = rfg_stream_record(ctx, prob->op->name, stream, &record)) != RFG_OK)
        return st;
    if (atomic_load_explicit(&ctx->describing, memory_order_relaxed) && rfg_context_describes(ctx))
        return rfg_describe_call(prob);
    if (ctx->hip && (st = rfg_device_enter(ctx, &previous)) != RFG_OK)
        return st;
    uint64_t hash = rfg_problem_hash(prob);
    struct rfg_plan *plan = rfg_plans_find(ctx, prob, hash);
    if (!plan)
        st = rfg_plan_make(ctx, prob, hash, &stream, &plan);
    struct rfg_traced *traced = ctx->trace && st == RFG_OK ? rfg_trace_begin(ctx->trace, plan, stream) : NULL;
    if (st == RFG_OK)
        st = record ? record_call(record, plan, kargs) : rfg_plan_launch(ctx, plan, kargs, stream);
    if (st == RFG_ERROR_NOT_READY && plan && plan->replaced) /* captured on a stream that the old plan was ready for */
        st = rfg_plan_launch(ctx, plan->replaced, kargs, stream);
    if (traced)
        rfg_trace_end(ctx->trace, traced, st == RFG_OK, record != NULL);
    if (st == RFG_OK) {
        atomic_fetch_add_explicit(&plan->calls, 1, memory_order_relaxed);
        if (rfg_log_on(RFG_LOG_CALLS)) {
            char text[RFG_PROBLEM_STRLEN];
            rfg_log(RFG_LOG_CALLS, "%s", rfg_problem_format(prob, text, sizeof(text)));
        }
        if (ctx->online && plan->choice.rung != RFG_RUNG_EXACT)
            rfg_online_tick(ctx, stream);
    }
    if (ctx->hip)
        rfg_device_leave(ctx, previous);
    return st;
}
