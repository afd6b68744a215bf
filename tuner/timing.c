/* SPDX-License-Identifier: MIT
 *
 * Timing: on GPUs the replay of a captured graph of dependent launches, on cpu single calls; several plans interleaved.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "harness.h"

#define MIN_LAUNCHES 20 /* in a graph: its edges and the events around it are shared by so many */

void rfg_times_free(struct rfg_times *t)
{
    free(t->us);
    *t = (struct rfg_times){ 0 };
}

double rfg_times_at(const struct rfg_times *t, double q)
{
    return t->n ? t->us[(int)(q * (t->n - 1) + 0.5)] : 0;
}

struct runner {
    const struct rfg_plan *plan;
    hipGraphExec_t exec;
    int launches;
};

struct race {
    struct rfg_case *c;
    const struct rfg_hip *hip;
    hipStream_t stream;
    hipEvent_t start, stop;
    int next_set; /* cpu */
};

/* Calls an entry of the table unless something failed before; says what failed. */
#define TRY(r, st, entry, ...)                                                                                         \
    do {                                                                                                               \
        hipError_t e_ = *(st) == RFG_OK ? (r)->hip->entry(__VA_ARGS__) : hipSuccess;                                   \
        if (e_ != hipSuccess)                                                                                          \
            *(st) = rfg_hip_fail(rfg_case_context((r)->c), "timing: " #entry, e_);                                     \
    } while (0)

/* Runs each set once outside the capture (everything is loaded, workspaces exist), then captures. */
static rfg_status capture(struct race *r, struct runner *run)
{
    hipGraph_t graph = NULL;
    hipGraphExec_t exec;
    int sets = rfg_case_sets(r->c);
    rfg_status st = rfg_case_run(r->c, 0, run->plan, r->stream);
    TRY(r, &st, hipStreamSynchronize, r->stream);
    TRY(r, &st, hipStreamBeginCapture, r->stream, hipStreamCaptureModeThreadLocal);
    if (st != RFG_OK)
        return st;
    run->launches = sets * ((MIN_LAUNCHES + sets - 1) / sets);
    for (int i = 0; st == RFG_OK && i < run->launches; i++)
        st = rfg_case_run(r->c, i % sets, run->plan, r->stream);
    /* The capture is ended whatever happened; what happened first is told. */
    hipError_t e = r->hip->hipStreamEndCapture(r->stream, &graph);
    if (e != hipSuccess)
        graph = NULL;
    if (st == RFG_OK && e != hipSuccess)
        st = rfg_hip_fail(rfg_case_context(r->c), "timing: hipStreamEndCapture", e);
    TRY(r, &st, hipGraphInstantiate, &exec, graph, NULL, NULL, 0);
    if (st == RFG_OK)
        run->exec = exec;
    if (graph)
        (void)r->hip->hipGraphDestroy(graph);
    TRY(r, &st, hipGraphLaunch, run->exec, r->stream);
    TRY(r, &st, hipStreamSynchronize, r->stream);
    return st;
}

static rfg_status sample(struct race *r, struct runner *run, double *us)
{
    if (!r->hip) {
        double t = rfg_now();
        rfg_status st = rfg_case_run(r->c, r->next_set++ % rfg_case_sets(r->c), run->plan, NULL);
        *us = 1e6 * (rfg_now() - t);
        return st;
    }
    float ms = 0;
    rfg_status st = RFG_OK;
    TRY(r, &st, hipEventRecord, r->start, r->stream);
    TRY(r, &st, hipGraphLaunch, run->exec, r->stream);
    TRY(r, &st, hipEventRecord, r->stop, r->stream);
    TRY(r, &st, hipEventSynchronize, r->stop);
    TRY(r, &st, hipEventElapsedTime, &ms, r->start, r->stop);
    *us = 1e3 * (double)ms / run->launches;
    return st;
}

static rfg_status open_race(struct race *r, struct runner *run, int n)
{
    rfg_status st = RFG_OK;
    if (r->hip) {
        hipEvent_t event[2];
        rfg_context *ctx = rfg_case_context(r->c);
        /* One stream for all timing of a context: it keeps a workspace for every stream it has ever seen. */
        st = rfg_context_stream(ctx, &r->stream);
        TRY(r, &st, hipSetDevice, rfg_context_ordinal(ctx));
        TRY(r, &st, hipEventCreateWithFlags, &event[0], hipEventDefault);
        if (st == RFG_OK)
            r->start = event[0];
        TRY(r, &st, hipEventCreateWithFlags, &event[1], hipEventDefault);
        if (st == RFG_OK)
            r->stop = event[1];
    }
    for (int i = 0; st == RFG_OK && i < n; i++) {
        double us;
        st = r->hip ? capture(r, &run[i]) : sample(r, &run[i], &us); /* the first call is a warm-up */
    }
    return st;
}

static void close_race(struct race *r, struct runner *run, int n)
{
    for (int i = 0; i < n; i++)
        if (run[i].exec)
            (void)r->hip->hipGraphExecDestroy(run[i].exec);
    if (r->start)
        (void)r->hip->hipEventDestroy(r->start);
    if (r->stop)
        (void)r->hip->hipEventDestroy(r->stop);
}

rfg_status rfg_case_race(struct rfg_case *c, const struct rfg_plan *const *plans, int n, int rounds, double max_s,
                         struct rfg_times *out)
{
    struct race r = { .c = c, .hip = rfg_context_hip(rfg_case_context(c)) };
    struct runner *run = calloc((size_t)n, sizeof(*run));
    rfg_status st = run ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "timing: no memory");
    memset(out, 0, (size_t)n * sizeof(*out));
    for (int i = 0; st == RFG_OK && i < n; i++) {
        run[i].plan = plans[i];
        if (!(out[i].us = calloc((size_t)rounds, sizeof(double))))
            st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "timing: no memory for %d samples", rounds);
    }
    if (st == RFG_OK)
        st = open_race(&r, run, n);
    double start = rfg_now();
    for (int round = 0; st == RFG_OK && round < rounds && (round < 3 || rfg_now() - start < max_s); round++)
        for (int i = 0; st == RFG_OK && i < n; i++) /* the order turns, so that nobody always follows the same one */
            st = sample(&r, &run[(i + round) % n], &out[(i + round) % n].us[out[(i + round) % n].n++]);
    if (run)
        close_race(&r, run, n);
    free(run);
    for (int i = 0; i < n; i++) {
        if (st != RFG_OK)
            rfg_times_free(&out[i]);
        else
            rfg_sort(out[i].us, out[i].n);
    }
    return st;
}

rfg_status rfg_case_time(struct rfg_case *c, const struct rfg_plan *plan, int rounds, double max_s,
                         struct rfg_times *out)
{
    return rfg_case_race(c, &plan, 1, rounds, max_s, out);
}

/* The models' numbers of a cpu are guesses in the middle, and what fits its caches needs no memory: these are what no
 * core exceeds. Launches are calls. */
static void set_cpu_limits(struct rfg_device *dev, double bytes)
{
    if (!dev->calibrated || bytes <= (double)dev->cache_bytes)
        dev->mem_gbps = 768.0 * dev->cu_count; /* two loads of 64 bytes a cycle, at 6 GHz */
    dev->fma_tflops *= 2;                      /* from 3 GHz to 6 */
    dev->mma_tflops *= 2;
    dev->latency_us = 0;
}

double rfg_floor_us(const struct rfg_device *device, const struct rfg_problem *prob, const char **which)
{
    struct rfg_device copy = *device, *dev = &copy;
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    if (dev->platform == RFG_PLATFORM_CPU)
        set_cpu_limits(dev, bytes);
    bool half = prob->dtype[0] != RFG_F32;
    double rate = half && dev->mma_tflops > 0 ? dev->mma_tflops : dev->fma_tflops;
    double by_bytes = dev->mem_gbps > 0 ? bytes / (dev->mem_gbps * 1e3) : 0;
    double by_flops = rate > 0 ? flops / (rate * 1e6) : 0;
    if (which)
        *which = by_bytes >= by_flops ? "bytes" : "flops";
    return (by_bytes > by_flops ? by_bytes : by_flops) + dev->latency_us;
}
