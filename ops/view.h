/* SPDX-License-Identifier: MIT
 *
 * What public functions check of tensors with strides of their own in every dimension (rows: operand.h). All refuse by
 * the function's name, the argument, the value and the rule. */
#ifndef RFG_OPS_VIEW_H
#define RFG_OPS_VIEW_H

#include "operand.h"

/* A checked tensor: the bytes from its first to its last element; begin == end if it is empty or not there. */
struct rfg_view {
    const char *name;
    const rfg_tensor *t;
    uintptr_t begin, end;
    uintptr_t bits; /* the lowest set one is the alignment of the pointer and all strides */
};

/* Fills *v from t, of so many dimensions, of a format whose blocks are one element. */
rfg_status rfg_check_view(struct rfg_view *v, const char *fn, const char *name, const rfg_tensor *t, int dims,
                          bool unit_last);
/* An optional vector of n elements; NULL is fine. */
rfg_status rfg_check_vector(struct rfg_view *v, const char *fn, const char *name, const rfg_tensor *t, rfg_dtype dtype,
                            int64_t n, const char *what);

/* rule: what stands before the dtype; what: what stands before the size. */
rfg_status rfg_check_dtype(const struct rfg_view *v, const char *fn, rfg_dtype dtype, const char *rule);
rfg_status rfg_check_size(const struct rfg_view *v, const char *fn, int dim, int64_t size, const char *what);

/* No element of an output may be another one, too. */
rfg_status rfg_check_distinct(const struct rfg_view *v, const char *fn);

/* No element of an output may lie in another tensor; both may lie in one buffer, interleaved by strides that they
 * share. (Some that are apart otherwise are refused.) same_is_fine: they may be one, the same elements at the same
 * places. */
rfg_status rfg_check_apart(const struct rfg_view *out, const char *fn, const struct rfg_view *other, bool same_is_fine);
/* Are they? */
bool rfg_view_same(const struct rfg_view *a, const struct rfg_view *b);

#endif
