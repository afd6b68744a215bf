/* SPDX-License-Identifier: MIT
 *
 * The interface of a context for the tuner, the bench and the tests, beyond the public headers. */
#ifndef RFG_DISPATCH_CONTEXT_H
#define RFG_DISPATCH_CONTEXT_H

#include "dispatch.h"
#include "ops/op.h"
#include "base/log.h"
#include "dispatch/db/db.h"
#include "dispatch/hip/hip.h"
#include "dispatch/jit/jit.h"

/* A context of a GPU that isn't there: "gfx942", "gfx942:228", "emu:gfx942:4". It only answers what the ladder would
 * choose (rfg_choose(), rfg_explain()). product: whose rows come first; NULL: no product's. */
rfg_status rfg_context_imagine(rfg_context **ctx, const rfg_context_params *params, const char *product);
/* NULL on cpu. */
const struct rfg_hip *rfg_context_hip(const rfg_context *ctx);
int rfg_context_ordinal(const rfg_context *ctx);
/* The list that restricts operators' variants (rfg_variant_listed()), NULL: none does. */
const char *rfg_context_variants(const rfg_context *ctx);
struct rfg_cache *rfg_context_cache(rfg_context *ctx);
/* Makes the models use these numbers. Call it before other threads use the context. */
struct rfg_calibration;
void rfg_context_calibrate(rfg_context *ctx, const struct rfg_calibration *c);
/* A stream of the context's own, for measurements; made when it is first asked for. Not on cpu. */
rfg_status rfg_context_stream(rfg_context *ctx, hipStream_t *stream);
/* "amd:0: hipMalloc failed: hipErrorOutOfMemory (2)" as the thread's error; returns its status. */
rfg_status rfg_hip_fail(const rfg_context *ctx, const char *what, hipError_t error);
/* The runtime's version, e.g. "CUDA 13.0"; "" on cpu. */
const char *rfg_context_driver(const rfg_context *ctx);
/* The product's name, "NVIDIA H200"; the arch where the runtime has none. */
const char *rfg_context_product(const rfg_context *ctx);
/* The same; "" where the runtime has none. */
const char *rfg_context_named(const rfg_context *ctx);
/* The i-th product whose rows for as many CUs its databases have; NULL: no more. Rows of unknown devices don't
 * count. */
const char *rfg_context_measured_on(const rfg_context *ctx, int i);

/* A variant with fixed parameters, made ready for a problem on a context. */
struct rfg_plan;

enum rfg_rung {
    RFG_RUNG_FORCED = 0,  /* the caller chose the variant */
    RFG_RUNG_EXACT = 1,   /* a tuned row for this very problem */
    RFG_RUNG_NEAREST = 2, /* same N, K, attrs; nearest M */
    RFG_RUNG_OTHER_CUS = 3,
    RFG_RUNG_MODEL = 4,    /* the analytical model's pick */
    RFG_RUNG_PORTABLE = 5, /* the portable variant */
};

struct rfg_choice {
    const struct rfg_variant *variant;
    int params[RFG_MAX_PARAMS];
    enum rfg_rung rung;
    double predicted_us;       /* rung 4: the model's estimate */
    const struct rfg_row *row; /* rungs 1-3 */
    bool overlap;              /* the launch may begin before the one before it has ended */
};

/* The order in which all rows of an invariant=1 problem are summed, whatever their number: rfg_order_find() with the
 * device's tables and the context's variants. No database and no measurement changes it. */
bool rfg_context_order(rfg_context *ctx, const struct rfg_problem *prob, struct rfg_order *order,
                       struct rfg_reason *why);

/* The tuned row of this very problem, arch and CU count, valid or not; NULL: there is none. */
const struct rfg_row *rfg_context_row(const rfg_context *ctx, const struct rfg_problem *prob);

/* Walks the ladder from `from` on; compiles and loads nothing. skip: bits of variants, by their place in the operator's
 * list, that turned out not to work; rungs 4 and 5 leave them out. UNSUPPORTED if nothing serves the problem. say (may
 * be NULL) is called with each step: "rung 1: no row for ...". */
rfg_status rfg_choose(rfg_context *ctx, const struct rfg_problem *prob, enum rfg_rung from, uint32_t skip,
                      struct rfg_choice *out, void (*say)(void *arg, const char *line), void *arg);

/* Compiles (cache) and loads. var must support prob and p be valid for it; launches overlap if prob says overlap=1. */
rfg_status rfg_plan_create(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                           const int *p, struct rfg_plan **plan);
void rfg_plan_destroy(rfg_context *ctx, struct rfg_plan **plan);
/* Launches without overlap from now on, even if the problem says overlap=1. */
void rfg_plan_launch_plainly(struct rfg_plan *plan);
/* kargs: op->kargs_size bytes, packed but for the head, which is filled here. */
rfg_status rfg_plan_launch(rfg_context *ctx, const struct rfg_plan *plan, void *kargs, rfg_stream stream);
/* The same with a workspace and counters of the caller's: rfg_plan_workspace() bytes and RFG_COUNTERS zeroes (NULL on
 * cpu), neither needed if those bytes are 0. */
size_t rfg_plan_workspace(const struct rfg_plan *plan);
rfg_status rfg_plan_launch_with(rfg_context *ctx, const struct rfg_plan *plan, void *kargs,
                                const struct rfg_kargs_head *own, rfg_stream stream);
/* Hex SHA-256 of the code object that it launches; "" for other kinds than kernels. */
void rfg_plan_code_hash(const struct rfg_plan *plan, char hex[65]);
/* For rfg-bench --dispatch: the raw function and launch of a kernel plan; false for other kinds. */
bool rfg_plan_raw(const struct rfg_plan *plan, hipFunction_t *fn, struct rfg_launch *launch);
/* The parameters of such a launch for these (complete) kargs: `list`, which points into the others. */
struct rfg_plan_params {
    void *list[1 + RFG_MAX_TILE_MAPS];
    struct rfg_encoded_tile_map maps[RFG_MAX_TILE_MAPS];
};
rfg_status rfg_plan_params(rfg_context *ctx, const struct rfg_plan *plan, void *kargs, struct rfg_plan_params *params);
/* The problem that it was made for. */
const struct rfg_problem *rfg_plan_problem(const struct rfg_plan *plan);

/* The problem of a call in this context: overlap=1 with launch_overlap, invariant=1 with batch_invariant. Refuses such
 * problems without. */
rfg_status rfg_context_problem(const rfg_context *ctx, const struct rfg_problem *prob, struct rfg_problem *own);

/* The plan that an op call of prob uses now, NULL if it wasn't called or prepared (the hot path's hash probe). */
const struct rfg_plan *rfg_plan_find(rfg_context *ctx, const struct rfg_problem *prob);
const struct rfg_choice *rfg_plan_choice(const struct rfg_plan *plan);

/* The request for a variant's code object (source is malloc'ed: free(req->source)). */
rfg_status rfg_variant_request(const struct rfg_device *dev, const struct rfg_problem *prob,
                               const struct rfg_variant *var, const int *p, struct rfg_jit_request *req,
                               char name[RFG_CONFIG_STRLEN], struct rfg_kernel *kernel);

/* Variants whose first use may end the process are tried in a child process first: by fn from now on (tests; NULL: by
 * the child again), or not at all (what the child calls). */
typedef bool (*rfg_vendor_try_fn)(const rfg_context *ctx, const struct rfg_variant *var, struct rfg_reason *why);
void rfg_vendor_override_try(rfg_vendor_try_fn fn);
void rfg_vendor_alone(void);

/* Tests: sets how often contexts that are made from now on check online tuning; 0: the default. */
void rfg_online_override_pace(double seconds);

/* "hiprtc 5.2..." for kernels, the C compiler for host variants, the library for vendors: tuned row columns. */
void rfg_variant_provenance(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                            char source_hash[65], char *compiler, size_t size);

#endif
