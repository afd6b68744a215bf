/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_MOE_ALIGN_H
#define RFG_OPS_MOE_ALIGN_H

#include "align_args.h"
#include "ops/op.h"
#include "rfg/moe.h"

/* Indices of the keys. */
enum {
    ALIGN_T,
    ALIGN_TOP,
    ALIGN_E,
    ALIGN_MAP, /* entries of the map; 0: none */
    ALIGN_TOKENS,
    ALIGN_WEIGHTS,
    ALIGN_PLACES,
    ALIGN_IDENTITIES, /* ids behind the experts' that stand for the token itself */
    ALIGN_FORMAT,
    ALIGN_BLOCK,
    ALIGN_ROWS, /* of rows, of a masked expert's; 0: align_least_rows() */
    ALIGN_LDI,  /* row strides in elements; 0: packed */
    ALIGN_LDW,
    ALIGN_LDP,
    ALIGN_OVERLAP,
    ALIGN_NKEYS
};

/* dtype[0] = ids, dtype[1] = rows. */

/* How many rows there must be; of a masked expert, how many are the default. */
int64_t align_least_rows(const struct rfg_problem *prob);
int64_t align_rows(const struct rfg_problem *prob);
/* Elements of block_experts, of count; 0: the format has none. */
int64_t align_blocks(const struct rfg_problem *prob);
int64_t align_counts(const struct rfg_problem *prob);

/* Fills in what follows from the sizes. */
void align_set_sizes(struct moe_align_args *a, const struct rfg_problem *prob);

#define ALIGN_MAX_BLOCK    (1 << 16)
#define ALIGN_MAX_IDENTITY (1 << 16)
_Static_assert(ALIGN_MAX_EXPERTS == RFG_MOE_MAX_EXPERTS && ALIGN_IDENTITY == RFG_MOE_IDENTITY, "as the header has it");
extern const char *const align_format_names[];

extern const struct rfg_op rfg_op_moe_align_desc;

/* align_gpu.c, align_cpu.c */
extern const struct rfg_variant moe_align_experts, moe_align_chunks, moe_align_cpu;

#endif
