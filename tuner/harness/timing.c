/* SPDX-License-Identifier: MIT
 *
 * Timing: on GPUs replays of dependent launches (replay.h), on cpu single calls; several plans interleaved. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "harness.h"
#include "replay.h"

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
    struct rfg_case *c;
    const struct rfg_plan *plan;
    struct rfg_replay replay;
    int next_set; /* cpu */
};

static rfg_status launch(void *arg, const struct rfg_stopwatch *w, int i)
{
    const struct runner *run = arg;
    return rfg_case_run(run->c, i % rfg_case_sets(run->c), run->plan, w->stream);
}

/* Runs the plan outside the capture (everything is loaded, workspaces exist), then captures. */
static rfg_status capture(const struct rfg_stopwatch *w, struct runner *run)
{
    rfg_status st = launch(run, w, 0);
    hipError_t e = st == RFG_OK ? w->hip->hipStreamSynchronize(w->stream) : hipSuccess;
    if (e != hipSuccess)
        st = rfg_hip_fail(w->ctx, "timing: hipStreamSynchronize", e);
    return st == RFG_OK ? rfg_replay_capture(w, launch, run, rfg_case_sets(run->c), MIN_LAUNCHES, &run->replay) : st;
}

/* w NULL: on cpu. */
static rfg_status sample(const struct rfg_stopwatch *w, struct runner *run, double *us)
{
    if (w)
        return rfg_replay_time(w, &run->replay, us);
    double t = rfg_now();
    rfg_status st = rfg_case_run(run->c, run->next_set++ % rfg_case_sets(run->c), run->plan, NULL);
    *us = 1e6 * (rfg_now() - t);
    return st;
}

static rfg_status get_ready(struct rfg_stopwatch *w, struct runner *run, int n)
{
    double us;
    rfg_status st = w ? rfg_stopwatch_open(w) : RFG_OK;
    for (int i = 0; st == RFG_OK && i < n; i++)
        st = w ? capture(w, &run[i]) : sample(NULL, &run[i], &us); /* the first call is a warm-up */
    double until = rfg_now() + 1e-3 * (w ? w->hip->warm_up_ms : 0);
    for (int i = 0; st == RFG_OK && rfg_now() < until; i++)
        st = sample(w, &run[i % n], &us);
    return st;
}

rfg_status rfg_case_race(struct rfg_case *c, const struct rfg_plan *const *plans, int n, int rounds, double max_s,
                         struct rfg_times *out)
{
    struct rfg_stopwatch watch = { .ctx = rfg_case_context(c), .what = "timing" };
    struct rfg_stopwatch *w = rfg_context_hip(watch.ctx) ? &watch : NULL;
    struct runner *run = calloc((size_t)n, sizeof(*run));
    rfg_status st = run ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "timing: no memory");
    memset(out, 0, (size_t)n * sizeof(*out));
    for (int i = 0; st == RFG_OK && i < n; i++) {
        run[i].c = c;
        run[i].plan = plans[i];
        if (!(out[i].us = calloc((size_t)rounds, sizeof(double))))
            st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "timing: no memory for %d samples", rounds);
    }
    if (st == RFG_OK)
        st = get_ready(w, run, n);
    double start = rfg_now();
    for (int round = 0; st == RFG_OK && round < rounds && (round < 3 || rfg_now() - start < max_s); round++)
        for (int i = 0; st == RFG_OK && i < n; i++) /* the order turns, so that nobody always follows the same one */
            st = sample(w, &run[(i + round) % n], &out[(i + round) % n].us[out[(i + round) % n].n++]);
    for (int i = 0; w && run && i < n; i++)
        rfg_replay_free(w, &run[i].replay);
    if (w)
        rfg_stopwatch_close(w);
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

/* Matrix cores multiply codes of 8 bits at most twice as fast as 16-bit elements; gfx950's those of 4 bits twice as
 * fast again. */
static double products_a_cycle(const struct rfg_device *dev, const struct rfg_problem *prob)
{
    const uint8_t *d = prob->dtype;
    if (prob->op->n_in < 2 || rfg_dtype_is_float(d[0]) || rfg_dtype_is_float(d[1]))
        return 1;
    return d[0] == RFG_E2M1 && d[1] == RFG_E2M1 && dev->hw->wide & RFG_ARCH_CODE(RFG_E2M1) ? 4 : 2;
}

double rfg_floor_us(const struct rfg_device *device, const struct rfg_problem *prob, const char **which)
{
    struct rfg_device copy = *device, *dev = &copy;
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    if (dev->platform == RFG_PLATFORM_CPU)
        set_cpu_limits(dev, bytes);
    bool half = prob->dtype[0] != RFG_F32;
    double rate = half && dev->mma_tflops > 0 ? dev->mma_tflops * products_a_cycle(dev, prob) : dev->fma_tflops;
    double by_bytes = dev->mem_gbps > 0 ? bytes / (dev->mem_gbps * 1e3) : 0;
    double by_flops = rate > 0 ? flops / (rate * 1e6) : 0;
    if (which)
        *which = by_bytes >= by_flops ? "bytes" : "flops";
    return (by_bytes > by_flops ? by_bytes : by_flops) + dev->latency_us;
}
