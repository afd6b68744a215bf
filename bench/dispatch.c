/* SPDX-License-Identifier: MIT
 *
 * The library's cost on the host: the lookup, and a whole op call compared with its bare launch. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"

#define BATCHES 201
#define BATCH   64 /* launches between waits: the queue never fills */

struct raw {
    const struct rfg_hip *hip;
    hipFunction_t fn;
    struct rfg_launch l;
    bool overlap;
};

static hipError_t raw_launch(const struct raw *r, void **params, hipStream_t stream)
{
    if (r->overlap)
        return r->hip->launch_overlapped(r->fn, &r->l, stream, params);
    return r->hip->hipModuleLaunchKernel(r->fn, r->l.grid[0], r->l.grid[1], r->l.grid[2], r->l.block[0], r->l.block[1],
                                         r->l.block[2], r->l.lds, stream, params, NULL);
}

rfg_status bench_dispatch(rfg_context *ctx, const struct rfg_problem *prob, bool json)
{
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    struct rfg_case_params params = { .seed = 1, .check_rows = 1 };
    struct rfg_case *c;
    struct raw raw = { .hip = hip };
    double lookup[BATCHES], call[BATCHES], bare[BATCHES];
    char text[RFG_PROBLEM_STRLEN];
    hipStream_t stream = NULL;
    rfg_status st = rfg_case_create(ctx, prob, &params, &c);
    if (st != RFG_OK)
        return st;
    if (hip && hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking) != hipSuccess)
        st = rfg_fail(RFG_ERROR_DEVICE, "hipStreamCreateWithFlags failed");
    if (st == RFG_OK)
        st = rfg_case_run(c, 0, NULL, stream); /* makes the plan */
    const struct rfg_plan *plan = st == RFG_OK ? rfg_plan_find(ctx, rfg_case_as_called(c)) : NULL;
    struct rfg_plan_params kparams;
    void *kargs = calloc(1, prob->op->kargs_size);
    if (st == RFG_OK && (!plan || !kargs))
        st = rfg_fail(RFG_ERROR_INTERNAL, "no plan to measure");
    bool have_raw = false;
    if (st == RFG_OK) {
        rfg_op_case_of(prob->op)->pack(rfg_case_problem(c), rfg_case_tensors(c, 0), kargs);
        st = rfg_plan_launch(ctx, plan, kargs, stream); /* completes kargs */
        have_raw = hip && rfg_plan_raw(plan, &raw.fn, &raw.l);
        raw.overlap = rfg_plan_choice(plan)->overlap;
        st = st == RFG_OK ? rfg_plan_params(ctx, plan, kargs, &kparams) : st;
    }
    uintptr_t sum = 0;
    for (int b = 0; st == RFG_OK && b < BATCHES; b++) {
        double t0 = rfg_now();
        for (int i = 0; i < 1000; i++)
            sum += (uintptr_t)rfg_plan_find(ctx, rfg_case_as_called(c));
        double t1 = rfg_now();
        for (int i = 0; st == RFG_OK && i < BATCH; i++)
            st = rfg_case_run(c, 0, NULL, stream);
        double t2 = rfg_now();
        if (hip)
            (void)hip->hipStreamSynchronize(stream);
        double t3 = rfg_now();
        for (int i = 0; have_raw && st == RFG_OK && i < BATCH; i++)
            if (raw_launch(&raw, kparams.list, stream) != hipSuccess)
                st = rfg_fail(RFG_ERROR_DEVICE, "raw launch failed");
        double t4 = rfg_now();
        if (hip)
            (void)hip->hipStreamSynchronize(stream);
        lookup[b] = (t1 - t0) * 1e6; /* ns of one in 1000 */
        call[b] = (t2 - t1) * 1e9 / BATCH;
        bare[b] = (t4 - t3) * 1e9 / BATCH;
    }
    if (st == RFG_OK && sum) {
        double l = rfg_median(lookup, BATCHES), a = rfg_median(call, BATCHES),
               r = have_raw ? rfg_median(bare, BATCHES) : 0;
        char config[RFG_CONFIG_STRLEN];
        const struct rfg_choice *choice = rfg_plan_choice(plan);
        rfg_problem_format(prob, text, sizeof(text));
        rfg_config_format(choice->variant, choice->params, config, sizeof(config));
        if (json)
            printf("{\"problem\": \"%s\", \"variant\": \"%s\", \"lookup_ns\": %.1f, \"call_ns\": %.1f, "
                   "\"raw_launch_ns\": %.1f}\n",
                   text, config, l, a, r);
        else if (have_raw)
            printf("%s on %s, %s\n  lookup %.0f ns; op call %.0f ns; raw launch of the same kernel %.0f ns; "
                   "difference %.0f ns\n",
                   text, rfg_context_device(ctx), config, l, a, r, a - r);
        else
            printf(
                "%s on %s, %s\n  lookup %.0f ns; whole call, work included, %.0f ns (no raw kernel launch to compare "
                "with)\n",
                text, rfg_context_device(ctx), config, l, a);
    }
    free(kargs);
    rfg_case_destroy(&c);
    return st;
}
