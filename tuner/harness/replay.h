/* SPDX-License-Identifier: MIT
 *
 * Times of launches: captured into graphs, which are replayed between two events. */
#ifndef RFG_TUNER_REPLAY_H
#define RFG_TUNER_REPLAY_H

#include "dispatch/context.h"
#include "dispatch/hip/hip.h"

/* A stream and two events of a GPU's context. */
struct rfg_stopwatch {
    rfg_context *ctx;
    const struct rfg_hip *hip;
    hipStream_t stream;
    hipEvent_t start, stop;
    const char *what; /* begins messages: "timing" */
};
/* ctx and what are set; on an error, too, rfg_stopwatch_close() is to be called. */
rfg_status rfg_stopwatch_open(struct rfg_stopwatch *w);
void rfg_stopwatch_close(struct rfg_stopwatch *w);

/* Queues launch number i on the stopwatch's stream. */
typedef rfg_status (*rfg_launch_fn)(void *arg, const struct rfg_stopwatch *w, int i);

/* A graph of launches. Where the runtime ends a replay with work of its own (struct rfg_hip, graph_tail), a second one
 * of more launches: their difference has no tail, no start, and no events in it. */
struct rfg_replay {
    hipGraphExec_t exec, longer;
    int launches; /* that a replay's time is of: of exec's, or those that longer has more */
};

/* Captures them, in whole multiples of `unit` launches; at least `least`, where there is no tail exactly as many. Each
 * graph is replayed once. What is launched must have run before: nothing may be loaded in a capture. On an error, too,
 * rfg_replay_free() is to be called. */
rfg_status rfg_replay_capture(const struct rfg_stopwatch *w, rfg_launch_fn launch, void *arg, int unit, int least,
                              struct rfg_replay *out);
void rfg_replay_free(const struct rfg_stopwatch *w, struct rfg_replay *r);

/* Microseconds of one launch, of one replay. */
rfg_status rfg_replay_time(const struct rfg_stopwatch *w, const struct rfg_replay *r, double *us);

#endif
