/* SPDX-License-Identifier: MIT
 *
 * What the tensors of a call must be, as data: a row for each tensor, in the order in which they are checked, and one
 * function that checks them. A refusal names the function, the tensor, its value and the rule. */
#ifndef RFG_OPS_TENSORS_H
#define RFG_OPS_TENSORS_H

#include "operand.h"

#define RFG_MAX_AXES  16
#define RFG_MAX_GIVEN 22

/* A size that dimensions share. The first tensor that has it says how large it is, and the others must agree. */
struct rfg_axis {
    const char *name; /* "heads"; "" where min and max are one number */
    int64_t min, max; /* max 0: RFG_MAX_SIZE */
};
/* Beside an axis of a row: the dimension is one larger; it may be 1 instead. */
#define RFG_PLUS_ONE 0x40
#define RFG_OR_ONE   0x80
#define RFG_IF_KNOWN 0x20 /* only where a tensor before said it */

/* Of a tensor. One that is no view is rows (operand.h). */
enum rfg_tensor_flags {
    RFG_OPTIONAL = 1,
    RFG_OUT = 2,         /* written: no element is another one, or in another tensor */
    RFG_VIEW = 4,        /* any strides above 0, but 1 in the last dimension */
    RFG_ANY_LAST = 8,    /* a view with any stride in the last dimension, too */
    RFG_PACKED = 16,     /* rows follow one another */
    RFG_LIKE_ALONE = 32, /* where `like` is there, `dtypes` are not taken */
    RFG_EITHER_WAY = 64, /* a matrix that may lie by columns: its operand is then the transpose */
    RFG_FOLDED = 128, /* 1 to 3 dimensions, all but the last one counted as rows: axes of rows, columns, the second */
};

struct rfg_tensor_rule {
    const char *name;
    uint8_t slot; /* in struct rfg_tensors, o */
    uint8_t flags;
    uint8_t dims;               /* 0: a view of any */
    uint8_t axis[RFG_MAX_DIMS]; /* of each dimension; 0: any size */
    uint32_t dtypes;            /* 1 << rfg_dtype of those that are taken */
    uint8_t like;               /* slot + 1 of a tensor whose dtype is taken, too */
    uint8_t same;               /* slot + 1 of the input that an output may be: the same elements at the same places */
    uint8_t with;               /* slot + 1 of the tensor that it is given with */
    uint8_t reach;              /* dimension + 1 whose first and last element kernels count in 32 bits between */
    unsigned if_set, if_clear;  /* bits of `facts` with which the row is one of the call's */
};
#define RFG_DTYPE(name)   (1u << RFG_##name)
#define RFG_8_BIT_FLOATS  (RFG_DTYPE(E4M3) | RFG_DTYPE(E4M3FNUZ) | RFG_DTYPE(E5M2))
#define RFG_INDEX_FORMATS (RFG_DTYPE(I32) | RFG_DTYPE(I64))

struct rfg_tensors {
    const char *fn;
    const struct rfg_axis *axes; /* from 1 on; or NULL */
    unsigned facts;
    bool interleaved;                /* tensors may lie in one buffer, in turns, by strides that they share */
    unsigned known;                  /* 1 << axis of those that have a size */
    const char *whose[RFG_MAX_AXES]; /* who said it; "": the call */
    int64_t sizes[RFG_MAX_AXES];
    unsigned turned;         /* 1 << slot of what lies by columns */
    rfg_tensor transpose[2]; /* of them */
    int n_given;             /* tensors that are there: their rows, and from where to where they are */
    unsigned outs;           /* 1 << i of those that are outputs */
    const struct rfg_tensor_rule *given[RFG_MAX_GIVEN];
    uintptr_t begin[RFG_MAX_GIVEN], end[RFG_MAX_GIVEN];
    struct rfg_operand o[RFG_MAX_GIVEN]; /* by slot; of one that isn't there `t` is NULL; begin, bits, cols and ld 0 */
};

/* t: the tensors, by slot; NULL: not there. (What isn't read isn't zeroed: every call does this.) */
static inline void rfg_tensors_begin(struct rfg_tensors *c, const char *fn, const struct rfg_axis *axes,
                                     const rfg_tensor *const *t, int n)
{
    c->fn = fn;
    c->axes = axes;
    c->facts = c->known = c->outs = c->turned = 0;
    c->interleaved = false;
    c->n_given = 0;
    for (int i = 0; i < n; i++) {
        struct rfg_operand *o = &c->o[i];
        o->t = t[i];
        o->cols = o->ld = 0;
        o->begin = o->bits = 0;
    }
}

/* Each tensor of the rows, which may be a part of a call's. */
rfg_status rfg_check_tensors(struct rfg_tensors *c, const struct rfg_tensor_rule *rules, int n);
/* Of a checked view: no element is another one, too. */
rfg_status rfg_check_distinct(const struct rfg_operand *o, const char *fn);
/* A tensor that was checked otherwise, for rfg_check_overlaps(). */
void rfg_tensors_add(struct rfg_tensors *c, const struct rfg_tensor_rule *r);
/* Outputs against all others. (Some that are apart by strides that they don't share are refused.) */
rfg_status rfg_check_overlaps(const struct rfg_tensors *c);

/* The call itself says how large an axis is: "whose's name", or "name" alone. */
static inline void rfg_set_axis_of(struct rfg_tensors *c, int axis, const char *whose, int64_t size)
{
    c->known |= 1u << axis;
    c->whose[axis] = whose;
    c->sizes[axis] = size;
}
static inline void rfg_set_axis(struct rfg_tensors *c, int axis, int64_t size)
{
    rfg_set_axis_of(c, axis, "", size);
}
/* 0: no tensor that is there has it. */
static inline int64_t rfg_size(const struct rfg_tensors *c, int axis)
{
    return c->known >> axis & 1 ? c->sizes[axis] : 0;
}
/* From a row, and a column, to the next: in elements, of a matrix that may lie either way. */
static inline int64_t rfg_row_stride(const struct rfg_tensors *c, int slot)
{
    return c->turned >> slot & 1 ? 1 : c->o[slot].ld;
}
static inline int64_t rfg_col_stride(const struct rfg_tensors *c, int slot)
{
    return c->turned >> slot & 1 ? c->o[slot].ld : 1;
}
/* Of how many rows an array is. */
#define RFG_RULES(rules) (int)(sizeof(rules) / sizeof((rules)[0]))

#endif
