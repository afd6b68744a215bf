/* SPDX-License-Identifier: MIT
 *
 * A call by the clock of emulated GPUs (emu/time): how long its launches would take. */
#ifndef RFG_TUNER_HARNESS_CLOCK_H
#define RFG_TUNER_HARNESS_CLOCK_H

#include "emu/time/time.h"
#include "harness.h"

#define RFG_CLOCK_LAUNCHES 64 /* of a call; further ones are an error */

struct rfg_clocked {
    struct rfg_clocked_launch {
        char kernel[256];
        struct emu_time_result r;
    } launch[RFG_CLOCK_LAUNCHES];
    int n;
    double us; /* their sum */
};

/* Did published times of kernels on that architecture ("gfx950") judge the clock? */
bool rfg_clock_is_judged(const char *arch);

/* Runs the call on the case's first set of inputs, which must be on an emulated GPU. plan NULL: the dispatcher's
 * choice. Its outputs are not right afterwards. */
rfg_status rfg_case_clock(struct rfg_case *c, const struct rfg_plan *plan, struct rfg_clocked *out);

#endif
