/* SPDX-License-Identifier: MIT
 *
 * What rows of AITER's tuned_*.csv and untuned_*.csv multiply: much of it stands in the file's name or the kernel's. */
#ifndef RFG_DISPATCH_SHAPES_AITER_H
#define RFG_DISPATCH_SHAPES_AITER_H

#include "db.h"

/* A row, by its columns' names. field: NULL: there is no such column. */
struct rfg_aiter_row {
    const char *path;
    const char *(*field)(const void *ctx, const char *column);
    const void *ctx;
};

/* What of a product its sizes don't say. */
struct rfg_aiter_product {
    char dtypes[64], attrs[160];
    int64_t batch; /* products of M, N, K each: a grouped one; 0: it is one */
    unsigned notes;
};

/* Of notes: what was taken for granted, or is not as AITER has it. */
enum { RFG_AITER_FP8 = 1, RFG_AITER_BY_ROWS = 2, RFG_AITER_BF16 = 4, RFG_AITER_N_NOTES = 3 };
extern const char *const rfg_aiter_notes[RFG_AITER_N_NOTES];

/* Has any of AITER's files a column of that name? */
bool rfg_aiter_knows(const char *column);

/* False: *column is what is wrong, *why the value and the rule. */
bool rfg_aiter_product(const struct rfg_aiter_row *row, struct rfg_aiter_product *out, const char **column,
                       struct rfg_reason *why);

/* The problems of a mixture of experts, a row with a column token: those of rfg_op_moe() with weights by rows, on every
 * device. Returns how many, 0: as above. */
#define RFG_AITER_PIECES 7
int rfg_aiter_mixture(const struct rfg_aiter_row *row, struct rfg_shape pieces[RFG_AITER_PIECES], unsigned *notes,
                      const char **column, struct rfg_reason *why);

/* What AITER measured, and on what, for *shape; nothing if the row doesn't say. column: us, us1, us2. */
void rfg_aiter_measured(const struct rfg_aiter_row *row, const char *column, struct rfg_shape *shape);

#endif
