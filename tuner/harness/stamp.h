/* SPDX-License-Identifier: MIT
 *
 * Whether this library still makes the code that a tuned row measured. If the kernel's text (source_hash) hasn't
 * changed, it does. Otherwise the kernel is compiled by the row's compiler, and the code objects are compared
 * (code_hash). */
#ifndef RFG_TUNER_STAMP_H
#define RFG_TUNER_STAMP_H

#include "dispatch/db/db.h"
#include "dispatch/jit/jit.h"

enum rfg_stamp_state {
    RFG_STAMP_CURRENT,
    RFG_STAMP_CHANGED, /* the text is another: only a compile can tell whether the code is */
    RFG_STAMP_STALE,
    RFG_STAMP_UNKNOWN, /* it can't be told here: the row's compiler or device is missing */
    RFG_STAMP_REFUSED, /* the row names nothing that this version can run or compile */
};

struct rfg_stamp_check {
    struct rfg_stamp stamp; /* what a CURRENT row should say; a STALE one too, if source_hash is "": its text alone
                               would pass for current */
    enum rfg_stamp_state state;
    char why[240]; /* STALE, UNKNOWN, REFUSED */
    bool compile;  /* rfg_stamp_compile() compiles it: set for CHANGED; callers may set it for CURRENT ones */
    bool is_kernel;
    struct rfg_device dev;
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    int job;
};

/* The row's state as far as it is known without compiling. dev NULL: an imagined device of the row's arch. The row must
 * outlive the check. */
void rfg_stamp_look(struct rfg_stamp_check *c, const struct rfg_row *row, const struct rfg_device *dev);

/* Compiles what the checks ask for, each code object once, in `workers` processes (0: one a core), and decides. A row
 * without a code_hash gets it if its text is the one that was measured; a predicted one without a compiler also that.
 * progress (may be NULL) is called one at a time. False: no memory. */
bool rfg_stamp_compile(struct rfg_stamp_check *c, size_t n, struct rfg_cache *cache, int workers,
                       void (*progress)(int done, int all));

/* Whether the stamp differs from the row's. */
bool rfg_stamp_differs(const struct rfg_stamp *s);

/* The problem of a call with packed tensors: rows of an odd length are aligned to less than the key's default,
 * and a variant that needs more must not become the row. The harness lays its tensors out like this. */
struct rfg_problem rfg_packed_call(const struct rfg_problem *key);

#endif
