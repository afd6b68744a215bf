/* SPDX-License-Identifier: MIT
 *
 * Graphs of launches, and the time of one of their launches.
 *
 * What a replay takes besides its launches, on AMD (ROCm/clr, hipamd/src/hip_graph_internal.cpp, GraphExec::Run()): to
 * 6.1 each node is a command of its own that the host enqueues as the replay is asked for
 * (DEBUG_CLR_GRAPH_PACKET_CAPTURE is off in rocclr/utils/flags.hpp); 6.2 writes packets prepared before, and an
 * accumulate command behind them; since f9f995c6d (October 2024) two markers follow, the second of which blocks the
 * stream until a callback on the host has run. Some 30 us between our events: 1.5 us a launch, of 20 that
 * take 3 each. */
#include "replay.h"

#include "base/util.h"

#define MOST_MORE 200    /* launches of difference: what of a tail varies is shared by so many */
#define MORE_US   4000.0 /* fewer, if so many take longer, */
#define MORE_S    0.1    /* or as long of the host's time: an emulated GPU's events may count another */

/* Calls an entry of the table unless something failed before; says what failed. */
#define TRY(w, st, entry, ...)                                                                                         \
    do {                                                                                                               \
        hipError_t e_ = *(st) == RFG_OK ? (w)->hip->entry(__VA_ARGS__) : hipSuccess;                                   \
        if (e_ != hipSuccess)                                                                                          \
            *(st) = failed(w, #entry, e_);                                                                             \
    } while (0)

static rfg_status failed(const struct rfg_stopwatch *w, const char *entry, hipError_t e)
{
    char what[80];
    snprintf(what, sizeof(what), "%s: %s", w->what, entry);
    return rfg_hip_fail(w->ctx, what, e);
}

rfg_status rfg_stopwatch_open(struct rfg_stopwatch *w)
{
    hipEvent_t event[2];
    w->hip = rfg_context_hip(w->ctx);
    /* One stream for all timing of a context: it keeps a workspace for every stream it has ever seen. */
    rfg_status st = rfg_context_stream(w->ctx, &w->stream);
    TRY(w, &st, hipSetDevice, rfg_context_ordinal(w->ctx));
    TRY(w, &st, hipEventCreateWithFlags, &event[0], hipEventDefault);
    if (st == RFG_OK)
        w->start = event[0];
    TRY(w, &st, hipEventCreateWithFlags, &event[1], hipEventDefault);
    if (st == RFG_OK)
        w->stop = event[1];
    return st;
}

void rfg_stopwatch_close(struct rfg_stopwatch *w)
{
    if (w->start)
        (void)w->hip->hipEventDestroy(w->start);
    if (w->stop)
        (void)w->hip->hipEventDestroy(w->stop);
    w->start = w->stop = NULL;
}

static rfg_status capture(const struct rfg_stopwatch *w, rfg_launch_fn launch, void *arg, int launches,
                          hipGraphExec_t *out)
{
    hipGraph_t graph = NULL;
    hipGraphExec_t exec;
    rfg_status st = RFG_OK;
    TRY(w, &st, hipStreamBeginCapture, w->stream, hipStreamCaptureModeThreadLocal);
    if (st != RFG_OK)
        return st;
    for (int i = 0; st == RFG_OK && i < launches; i++)
        st = launch(arg, w, i);
    /* Ends the capture in any case; returns the first error. */
    hipError_t e = w->hip->hipStreamEndCapture(w->stream, &graph);
    if (e != hipSuccess)
        graph = NULL;
    if (st == RFG_OK && e != hipSuccess)
        st = failed(w, "hipStreamEndCapture", e);
    TRY(w, &st, hipGraphInstantiate, &exec, graph, NULL, NULL, 0);
    if (st == RFG_OK)
        *out = exec;
    if (graph)
        (void)w->hip->hipGraphDestroy(graph);
    TRY(w, &st, hipGraphLaunch, *out, w->stream);
    TRY(w, &st, hipStreamSynchronize, w->stream);
    return st;
}

/* Between the events. */
static rfg_status time_graph(const struct rfg_stopwatch *w, hipGraphExec_t exec, double *us)
{
    float ms = 0;
    rfg_status st = RFG_OK;
    TRY(w, &st, hipEventRecord, w->start, w->stream);
    TRY(w, &st, hipGraphLaunch, exec, w->stream);
    TRY(w, &st, hipEventRecord, w->stop, w->stream);
    TRY(w, &st, hipEventSynchronize, w->stop);
    TRY(w, &st, hipEventElapsedTime, &ms, w->start, w->stop);
    *us = 1e3 * (double)ms;
    return st;
}

static int round_up(double n, int unit)
{
    return unit * (((int)n + unit - 1) / unit);
}

rfg_status rfg_replay_capture(const struct rfg_stopwatch *w, rfg_launch_fn launch, void *arg, int unit, int least,
                              struct rfg_replay *out)
{
    double us = 0;
    bool tail = w->hip->graph_tail;
    int n = tail ? unit : round_up(least, unit);
    *out = (struct rfg_replay){ .launches = n };
    rfg_status st = capture(w, launch, arg, n, &out->exec);
    if (!tail || st != RFG_OK)
        return st;
    double start = rfg_now();
    st = time_graph(w, out->exec, &us);
    double share = us / MORE_US, of_host = (rfg_now() - start) / MORE_S; /* of what n more launches may take */
    share = share > of_host ? share : of_host;
    double more = share * MOST_MORE > n ? n / share : MOST_MORE;
    out->launches = round_up(more > least ? more : least, unit);
    return st == RFG_OK ? capture(w, launch, arg, n + out->launches, &out->longer) : st;
}

void rfg_replay_free(const struct rfg_stopwatch *w, struct rfg_replay *r)
{
    if (r->exec)
        (void)w->hip->hipGraphExecDestroy(r->exec);
    if (r->longer)
        (void)w->hip->hipGraphExecDestroy(r->longer);
    *r = (struct rfg_replay){ 0 };
}

rfg_status rfg_replay_time(const struct rfg_stopwatch *w, const struct rfg_replay *r, double *us)
{
    double shorter = 0, longer;
    rfg_status st = r->longer ? time_graph(w, r->exec, &shorter) : RFG_OK;
    if (st == RFG_OK)
        st = time_graph(w, r->longer ? r->longer : r->exec, &longer);
    *us = st == RFG_OK ? (longer - shorter) / r->launches : 0;
    return st;
}
