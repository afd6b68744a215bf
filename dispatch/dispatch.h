/* SPDX-License-Identifier: MIT
 *
 * What public functions (ops/<op>/call.c) ask of the dispatcher. */
#ifndef RFG_DISPATCH_DISPATCH_H
#define RFG_DISPATCH_DISPATCH_H

#include "ops/op.h"

/* Runs a problem: finds or makes its plan, completes the head of kargs and launches. A problem without a plan is judged
 * by its operator's rules first: INVALID_ARGUMENT, "rfg_op_<name>: ..." */
rfg_status rfg_dispatch(rfg_context *ctx, const struct rfg_problem *prob, void *kargs, rfg_stream stream);

/* Might a call of the problem get this variant: is it allowed in the context, and does it take the problem, in the
 * order in which the context's sums are made? */
bool rfg_dispatch_offers(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var);

/* What the context's calls run on. */
const struct rfg_device *rfg_context_info(const rfg_context *ctx);

/* For an operator that is made of others: until rfg_describe_end() the thread's calls with ctx only check their
 * arguments. False: the thread describes calls already, and there is nothing to end. */
bool rfg_checks_begin(rfg_context *ctx);

/* Memory of the stream's for what such an operator keeps between them, aligned to 256 bytes, apart from what their
 * kernels work in: this call's until rfg_scratch_end(), which other threads that want some wait for. Nothing to look at
 * if the thread describes its calls. Errors: NOT_READY (more than the stream has, in a capture), INVALID_ARGUMENT (the
 * stream; more than rfg_stream_set_workspace() gave), OUT_OF_MEMORY, DEVICE: then there is nothing to end. */
rfg_status rfg_scratch_begin(rfg_context *ctx, rfg_stream stream, size_t bytes, void **memory);
void rfg_scratch_end(rfg_context *ctx);

#endif
