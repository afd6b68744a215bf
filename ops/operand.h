/* SPDX-License-Identifier: MIT
 *
 * The checks of tensors on every call of a public function: shape, strides, pointer, extent, overlap. */
#ifndef RFG_OPS_OPERAND_H
#define RFG_OPS_OPERAND_H

#include "op.h"

#define RFG_MAX_SIZE INT32_MAX
/* Of a row stride, in elements: times rows and bytes of an element it still fits 64 bits. */
#define RFG_MAX_STRIDE INT32_MAX

/* A tensor as rows of `cols` elements: row r begins at element (r / inner) * ld + (r % inner) * ld_inner. */
struct rfg_operand {
    const char *name;
    const rfg_tensor *t;
    int64_t rows, cols;
    int64_t inner;        /* 1 unless the tensor has three dimensions that don't fold into two */
    int64_t ld, ld_inner; /* row strides; packed ones where there is one row only */
    uintptr_t begin, end; /* bytes touched; begin == end if empty */
    uintptr_t bits;       /* its lowest set bit is the alignment of every row */
};

/* Fills *o from t, of min_dims to max_dims (at most 3) dimensions, the last one of unit stride, rows that don't
 * overlap. Refuses, naming function fn, the argument, the value and the rule. */
rfg_status rfg_check_operand(struct rfg_operand *o, const char *fn, const char *name, const rfg_tensor *t, int min_dims,
                             int max_dims);

/* Of a checked operand; rule: what stands before the dtype. */
rfg_status rfg_check_operand_dtype(const struct rfg_operand *o, const char *fn, rfg_dtype dtype, const char *rule);

/* RFG_OK, or a refusal because output `out` overlaps `in`. If same_is_fine, they may be one: the same elements at the
 * same places. */
rfg_status rfg_check_overlap(const char *fn, const struct rfg_operand *out, const struct rfg_operand *in,
                             bool same_is_fine);
bool rfg_operand_same(const struct rfg_operand *a, const struct rfg_operand *b);

/* RFG_OK, or a refusal in the words of the operator's rules (struct rfg_op, valid). */
rfg_status rfg_check_problem(const char *fn, const struct rfg_problem *prob);

/* A matrix of more than one row and column that lies by columns (strides 1 and more): *turned is the same by rows, and
 * true is returned. Of others it is a copy. */
bool rfg_turn_columns(rfg_tensor *turned, const rfg_tensor *t);

/* The row stride as a key says it: 0 if rows follow one another, or there are none. */
static inline int64_t rfg_ld_key(const struct rfg_operand *o)
{
    return !o->t || o->ld == o->cols ? 0 : o->ld;
}
static inline void *rfg_data(const struct rfg_operand *o)
{
    return o->t ? o->t->data : NULL;
}

/* The alignment that all the ORed bits have: 1, 2, 4, 8 or 16. */
static inline int64_t rfg_alignment(uintptr_t bits)
{
    bits |= 16;
    return (int64_t)(bits & -bits);
}

#endif
