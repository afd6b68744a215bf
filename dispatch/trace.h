/* SPDX-License-Identifier: MIT
 *
 * $RFG_TRACE: which operators a program calls, for profilers (ranges around launches, in the library that the profiler
 * listens to) or as a file that Chrome's about:tracing and Perfetto draw. A context without it has no struct rfg_trace:
 * a call then costs one test of a pointer. */
#ifndef RFG_DISPATCH_TRACE_H
#define RFG_DISPATCH_TRACE_H

#include "context.h"

struct rfg_trace;

/* The trace of a new context as $RFG_TRACE asks for it, NULL: none. What can't be had is a warning. The device needn't
 * be current. */
struct rfg_trace *rfg_trace_open(rfg_context *ctx);
/* Before and after a launch, by one thread, the device current. launched: false if it failed, recorded: true if it was
 * only put down for a replay. */
struct rfg_traced;
struct rfg_traced *rfg_trace_begin(struct rfg_trace *t, const struct rfg_plan *plan, rfg_stream stream);
void rfg_trace_end(struct rfg_trace *t, struct rfg_traced *call, bool launched, bool recorded);
/* The context's work has ended; the device is current, if it has one. */
void rfg_trace_close(struct rfg_trace **t);

#endif
