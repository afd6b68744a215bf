/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_ADVANCE_H
#define RFG_OPS_ADVANCE_H

#include "advance_args.h"
#include "ops/op.h"
#include "rfg/advance.h"

#define ADVANCE_MAX_TOKENS 8
#define ADVANCE_MAX_PAGE   (1 << 20)

/* Indices of the keys. */
enum {
    ADVANCE_B,
    ADVANCE_SQ,
    ADVANCE_BLOCKS,
    ADVANCE_PAGE, /* 0: there is no table */
    ADVANCE_SLOTS,
    ADVANCE_ACCEPTED,
    ADVANCE_ACTIVE,
    ADVANCE_SPARE, /* 0: there is no list */
    ADVANCE_LDB,   /* 0: packed */
    ADVANCE_OVERLAP,
    ADVANCE_NKEYS
};

/* dtype[0] = kv_lens, dtype[1] = positions. */

/* Fills in what follows from the problem. table: or NULL. */
void advance_set_sizes(struct advance_args *a, const struct rfg_problem *prob, const rfg_tensor *table);

extern const struct rfg_op rfg_op_advance_desc;

/* gpu.c, cpu.c */
extern const struct rfg_variant advance_group, advance_cpu;

#endif
