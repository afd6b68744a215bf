/* SPDX-License-Identifier: MIT
 *
 * The dispatcher's interface for public functions (ops/<op>/call.c). */
#ifndef RFG_DISPATCH_DISPATCH_H
#define RFG_DISPATCH_DISPATCH_H

#include "ops/comm.h"
#include "ops/op.h"

/* Runs a problem: finds or makes its plan, completes the head of kargs and launches. A problem without a plan is first
 * checked by its operator's rules: INVALID_ARGUMENT, "rfg_op_<name>: ..." */
rfg_status rfg_dispatch(rfg_context *ctx, const struct rfg_problem *prob, void *kargs, rfg_stream stream);

/* Whether a call of the problem may get this variant: it is allowed in the context and takes the problem, in the
 * context's order of summation. */
bool rfg_dispatch_offers(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var);

/* What the context's calls run on. */
const struct rfg_device *rfg_context_info(const rfg_context *ctx);

/* For operators that are made of others: until rfg_describe_end() the thread's calls with ctx only check their
 * arguments. False: the thread describes calls already; then don't end it. */
bool rfg_checks_begin(rfg_context *ctx);

/* Scratch memory of the stream for data that such an operator keeps between its parts, aligned to 256 bytes, separate
 * from the parts' workspace. It belongs to this call until rfg_scratch_end(); other threads that want some wait until
 * then. If the thread describes its calls, don't access it. Errors: NOT_READY (more than the stream has, in a capture),
 * INVALID_ARGUMENT (the stream; more than rfg_stream_set_workspace() gave), OUT_OF_MEMORY, DEVICE. After an error don't
 * call rfg_scratch_end(). */
rfg_status rfg_scratch_begin(rfg_context *ctx, const char *fn, rfg_stream stream, size_t bytes, void **memory);
void rfg_scratch_end(rfg_context *ctx);

/* ---- comm.c ---------------------------------------------------------------------------------------------------- */

/* Queues a collective of x, y, n, stride and wide, in as many launches as it takes. fn: for messages. */
rfg_status rfg_comm_run(rfg_comm *comm, const char *fn, enum comm_op op, int dtype, const struct comm_args *call,
                        rfg_stream stream);
/* Queues one launch of an operator's kernel that is of all ranks. It takes kargs and struct comm_args, of which this fills
 * in all but x, y, n, stride and wide. */
rfg_status rfg_comm_launch(rfg_comm *comm, const char *fn, const struct rfg_problem *prob,
                           const struct rfg_variant *var, const int *p, void *kargs, rfg_stream stream);
/* Whether an operator that begins with an all-reduce of n elements is fastest as one launch, of packets that each rank
 * sums all of. */
bool rfg_comm_takes_packets(const rfg_comm *comm, int dtype, int64_t n);
/* The parameters that rfg_comm_force() gave this variant, or NULL. */
const int *rfg_comm_forced(const rfg_comm *comm, const struct rfg_variant *var);
rfg_context *rfg_comm_context(const rfg_comm *comm);
int rfg_comm_ranks(const rfg_comm *comm);
int rfg_comm_rank(const rfg_comm *comm);
/* RFG_OK if calls may be made. */
rfg_status rfg_comm_ready(const rfg_comm *comm, const char *fn);
/* Whether the thread only describes its calls. */
bool rfg_comm_describes(const rfg_comm *comm);

#endif
