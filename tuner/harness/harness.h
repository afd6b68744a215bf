/* SPDX-License-Identifier: MIT
 *
 * One case definition for correctness, bitwise repeatability and timing, shared by tests, rfg-bench and rfg-tune.
 * A case owns the tensors of a problem on a context's device (one or several sets of them, so that timing rotates
 * past the last-level cache), guard bytes around each output, and the double-precision oracle's answer. */
#ifndef RFG_TUNER_HARNESS_H
#define RFG_TUNER_HARNESS_H

#include "dispatch/context.h"
#include "dispatch/db/db.h"
#include "ops/oracle.h"

struct rfg_case_params {
    uint64_t seed;
    enum rfg_data data;
    size_t rotate_bytes; /* make as many sets as it takes for their inputs to exceed this; 0: one set */
    int64_t check_rows;  /* rows of each output that the oracle computes: 0 all; else first, last and random ones */
    bool unaligned;      /* offset every tensor by one element from its natural alignment (layout align= size) */
    /* Each tensor, and the workspace of each run of a plan, in memory of its own that ends where it does (fenced.h):
     * who reads or writes outside is seen by the emulator, compute-sanitizer, on cpu a page fault. One set. A plan's
     * run waits for its end, and fails if it doesn't leave its counters zero. */
    bool fenced;
    const struct rfg_op_case *of; /* of an operator that isn't in the registry; NULL: rfg_op_case_of() */
};

/* rotate_bytes that no cache holds, so that a call finds its inputs in memory as an engine's does: four times the last
 * one, on cpu and beyond 1 GiB twice. The case takes fewer sets where they don't fit a quarter of the device's memory,
 * and warns if that is less than twice. */
size_t rfg_rotate_bytes(const struct rfg_device *dev);

struct rfg_case;
rfg_status rfg_case_create(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_case_params *params,
                           struct rfg_case **out);
/* The same for an operator that several devices work on together (struct rfg_op_case, ranks): one case a rank, each
 * with data of its own on ctx[rank], to be checked by itself. Run by rfg_case_run_ranks() alone: not by plans. */
rfg_status rfg_case_create_ranks(rfg_context *const *ctx, int n, const struct rfg_problem *prob,
                                 const struct rfg_case_params *params, struct rfg_case **out /* n */);
void rfg_case_destroy(struct rfg_case **c);
int rfg_case_sets(const struct rfg_case *c);
/* The seconds that copying its data to the device took. */
double rfg_case_upload_s(const struct rfg_case *c);
rfg_context *rfg_case_context(const struct rfg_case *c);
const struct rfg_problem *rfg_case_problem(const struct rfg_case *c);
/* The problem that its calls are dispatched as; rfg_plan_find() finds their plan by it (struct rfg_op_case,
 * as_called). */
const struct rfg_problem *rfg_case_as_called(const struct rfg_case *c);
/* Tensors of a set in the op's order; those absent have data NULL. */
const rfg_tensor *rfg_case_tensors(const struct rfg_case *c, int set);

/* Packs a set's tensors for a launch of a plan. Refuses a plan that relies on more alignment than they have: AMD's GPUs
 * and the emulator take such loads, NVIDIA's don't. */
rfg_status rfg_case_pack(const struct rfg_case *c, const rfg_tensor *tensors, const struct rfg_plan *plan, void *kargs);

/* How a set is run: through the public op function (plan NULL) or by a given plan. */
rfg_status rfg_case_run(struct rfg_case *c, int set, const struct rfg_plan *plan, rfg_stream stream);
/* A set of every rank, by the call that is all ranks' calls; streams NULL: the default ones. */
rfg_status rfg_case_run_ranks(struct rfg_case *const *cases, int n, int set, const rfg_stream *streams);
/* rfg_case_run() to be checked: a plan is asked for all outputs that its variant can give (attention's lse), which the
 * check then looks at, too. Not for timing. */
rfg_status rfg_case_run_checked(struct rfg_case *c, int set, const struct rfg_plan *plan, rfg_stream stream);
/* Fills the outputs of a set with poison (NaN; for integers a large negative number), and their bytes that must stay
 * unchanged with a number. Renews inputs and guards. */
rfg_status rfg_case_poison(struct rfg_case *c, int set);

/* Tolerance. |got - expected| <= bound per element of every output, where expected and allow are the oracle's and bound
 * = allow + half an ulp of the output's dtype at the expected value (the final rounding may go the other way). A
 * quantised output is compared as what it stands for, with the scales that were stored beside it; beyond its largest
 * value times the scale it must be saturated. Of an output by predicate (struct rfg_tensor_spec) a row that is not
 * accepted counts as one wrong element. */
struct rfg_check {
    bool ok;
    double max_ratio; /* max |got - expected| / bound; ok means <= 1 */
    double max_abs, max_rel;
    int64_t wrong; /* elements over the bound */
    int64_t checked;
    bool guard_broken; /* bytes outside the output were written: reported apart from wrong values */
    bool trivial;      /* the expected values are too uniform to prove anything */
    char message[RFG_PROBLEM_STRLEN + 400]; /* problem string, seed, first bad index, got, expected, bound */
};
rfg_status rfg_case_check(struct rfg_case *c, int set, struct rfg_check *out);
/* The same pair for many candidates in a row: large inputs, which only a broken candidate changes, are not renewed, and
 * compared at their ends and in samples between. An error that it finds may be an earlier candidate's: check again
 * after rfg_case_poison(). */
rfg_status rfg_case_poison_quickly(struct rfg_case *c, int set);
rfg_status rfg_case_check_quickly(struct rfg_case *c, int set, struct rfg_check *out);
/* A copy of a set's outputs (malloc'ed; all bytes of the output tensors), for bitwise comparisons. */
rfg_status rfg_case_outputs(struct rfg_case *c, int set, void **bytes, size_t *size);

/* ---- timing ---------------------------------------------------------------------------------------------------- */

struct rfg_times {
    int n;
    double *us; /* per call, sorted ascending; malloc'ed */
};
void rfg_times_free(struct rfg_times *t);
double rfg_times_at(const struct rfg_times *t, double quantile);

/* rounds samples of one call's time. On GPUs whole turns of the sets, dependent launches, are captured and replayed,
 * and each sample is one replay divided by its launches (or the difference of two, where a replay has a tail:
 * replay.h); on cpu each sample is one call, sets rotating. max_s bounds the whole measurement (at least 3 samples are
 * taken). */
rfg_status rfg_case_time(struct rfg_case *c, const struct rfg_plan *plan, int rounds, double max_s,
                         struct rfg_times *out);
/* The same for several plans at once, interleaved round by round, so that drift hits all alike. */
rfg_status rfg_case_race(struct rfg_case *c, const struct rfg_plan *const *plans, int n, int rounds, double max_s,
                         struct rfg_times *out /* n */);

/* The floor for a problem on a device: max(bytes / bandwidth, flops / rate) + launch latency; which says which. On cpu
 * no latency, and the bandwidth of caches unless it is calibrated and the problem larger than they are. */
double rfg_floor_us(const struct rfg_device *dev, const struct rfg_problem *prob, const char **which);

#endif
