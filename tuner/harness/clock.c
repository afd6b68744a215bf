/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include <stdio.h>

#define ROUNDS 3 /* of workgroups that are emulated; the rest by likeness */

bool rfg_clock_is_judged(const char *arch)
{
    const struct emu_arch *found = emu_arch_find(arch);
    return found && emu_time_is_judged(found->gfx);
}

struct clock {
    struct rfg_clocked *out;
    int launches;
    bool no_memory;
};

static void launched(void *to, struct emu_time_trace *t)
{
    struct clock *k = to;
    struct emu_time_params p;
    if (k->launches++ < RFG_CLOCK_LAUNCHES) {
        struct rfg_clocked_launch *l = &k->out->launch[k->out->n++];
        snprintf(l->kernel, sizeof(l->kernel), "%s", t->kernel);
        emu_time_defaults(t->gfx, t->cu_count, &p);
        k->no_memory |= !emu_time_estimate(t, &p, EMU_TIME_ROTATED, NULL, &l->r);
        k->out->us += l->r.us;
    }
    emu_time_trace_free(t);
}

/* Launches may run as late as they may (RFG_EMU_LATE=1): waits for them. */
static rfg_status run_whole(struct rfg_case *c, const struct rfg_plan *plan)
{
    rfg_context *ctx = rfg_case_context(c);
    rfg_status st = rfg_case_run(c, 0, plan, NULL);
    hipError_t e = st == RFG_OK ? rfg_context_hip(ctx)->hipStreamSynchronize(NULL) : hipSuccess;
    return e == hipSuccess ? st : rfg_hip_fail(ctx, "the clock: hipStreamSynchronize", e);
}

rfg_status rfg_case_clock(struct rfg_case *c, const struct rfg_plan *plan, struct rfg_clocked *out)
{
    struct clock k = { .out = out };
    rfg_status st = RFG_OK;
    for (int turn = 0; turn < 2 && st == RFG_OK; turn++) {
        k.launches = out->n = 0;
        out->us = 0;
        emu_time_record(ROUNDS, launched, &k);
        st = run_whole(c, plan);
        emu_time_record_end();
        /* the ways of later launches may depend on results of those before, which a timed launch doesn't have all of */
        if (st != RFG_OK || turn || out->n < 2)
            break;
        st = run_whole(c, plan);
    }
    if (st == RFG_OK && k.no_memory)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "the clock: no memory");
    if (st == RFG_OK && (k.launches < 1 || k.launches > RFG_CLOCK_LAUNCHES))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "the clock: %d launches: must be 1 to %d", k.launches,
                        RFG_CLOCK_LAUNCHES);
    return st;
}
