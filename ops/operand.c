/* SPDX-License-Identifier: MIT */
#include "operand.h"

#include <inttypes.h>

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

static rfg_status check_stride(const char *fn, const struct rfg_operand *o, const struct rfg_format *f, int64_t ld,
                               int64_t least)
{
    if (ld < least || ld > RFG_MAX_STRIDE)
        return BAD("%s: %s has row stride %" PRId64 ": must be at least its %" PRId64 " columns and at most %d", fn,
                   o->name, ld, least, RFG_MAX_STRIDE);
    if (ld & (f->elements - 1))
        return BAD("%s: %s has row stride %" PRId64 " of %s: must be whole blocks of %d", fn, o->name, ld, f->name,
                   f->elements);
    return RFG_OK;
}

/* As rfg_format_bytes(), of a number that is whole blocks. 0: beyond 64 bits. */
static inline uintptr_t bytes_of(const struct rfg_format *f, int64_t elements)
{
    int64_t bytes;
    return __builtin_mul_overflow(f->elements == 1 ? elements : elements / f->elements, f->bytes, &bytes)
               ? 0
               : (uintptr_t)bytes;
}

/* Three dimensions become two where the strides allow. */
static rfg_status fold(struct rfg_operand *o, const char *fn, const struct rfg_format *f)
{
    const rfg_tensor *t = o->t;
    int64_t outer = t->shape[0], inner = t->shape[1];
    o->ld_inner = inner > 1 ? t->strides[1] : o->cols;
    rfg_status st = check_stride(fn, o, f, o->ld_inner, o->cols);
    if (st != RFG_OK)
        return st;
    int64_t span = inner > 0 ? (inner - 1) * o->ld_inner + o->cols : 0;
    o->ld = outer > 1 ? t->strides[0] : inner * o->ld_inner;
    if (outer > 1 && (st = check_stride(fn, o, f, o->ld, span)) != RFG_OK)
        return st;
    o->inner = inner;
    if (outer <= 1 || inner <= 1 || o->ld == inner * o->ld_inner) {
        o->ld = inner > 1 ? o->ld_inner : o->ld;
        o->ld_inner = o->cols;
        o->inner = 1;
    }
    return RFG_OK;
}

rfg_status rfg_check_operand(struct rfg_operand *o, const char *fn, const char *name, const rfg_tensor *t, int min_dims,
                             int max_dims)
{
    o->name = name;
    o->t = t;
    if (!t)
        return BAD("%s: %s is NULL: must be a tensor", fn, name);
    const struct rfg_format *f = rfg_format((int)t->dtype);
    char formats[RFG_FORMAT_NAMES];
    if (!f)
        return BAD("%s: %s has dtype %d: must be one of %s", fn, name, (int)t->dtype,
                   rfg_format_names(formats, sizeof(formats)));
    int n = t->ndim;
    if (n < min_dims || n > max_dims)
        return min_dims == max_dims
                   ? BAD("%s: %s has %d dimensions: must have %d", fn, name, n, min_dims)
                   : BAD("%s: %s has %d dimensions: must have %d to %d", fn, name, n, min_dims, max_dims);
    o->rows = 1;
    for (int i = 0; i < n; i++)
        if (t->shape[i] < 0 || t->shape[i] > RFG_MAX_SIZE || (i + 1 < n && (o->rows *= t->shape[i]) > RFG_MAX_SIZE))
            return n == 2 ? BAD("%s: %s is %" PRId64 " x %" PRId64 ": sizes must be from 0 to %d", fn, name,
                                t->shape[0], t->shape[1], RFG_MAX_SIZE)
                          : BAD("%s: %s has a dimension of %" PRId64 ": sizes, and rows in all, must be from 0 to %d",
                                fn, name, t->shape[i], RFG_MAX_SIZE);
    o->cols = t->shape[n - 1];
    if (o->cols > 1 && t->strides[n - 1] != 1)
        return BAD("%s: %s has stride %" PRId64 " in its last dimension: must be 1", fn, name, t->strides[n - 1]);
    if (o->cols & (f->elements - 1))
        return BAD("%s: %s has %" PRId64 " columns of %s: must be whole blocks of %d", fn, name, o->cols, f->name,
                   f->elements);
    o->inner = 1;
    o->ld_inner = o->cols;
    o->ld = n == 2 && o->rows > 1 ? t->strides[0] : o->cols;
    rfg_status st = n == 3 ? fold(o, fn, f) : check_stride(fn, o, f, o->ld, o->cols);
    if (st != RFG_OK)
        return st;
    o->begin = o->end = (uintptr_t)t->data;
    o->bits = 0;
    if (o->rows == 0 || o->cols == 0)
        return RFG_OK;
    if (!t->data)
        return BAD("%s: %s's data is NULL: must point to %" PRId64 " x %" PRId64 " elements", fn, name, o->rows,
                   o->cols);
    int aligned = f->bytes & -f->bytes;
    if (o->begin % (uintptr_t)aligned)
        return BAD("%s: %s's data is %p: must be aligned to its element, %d bytes", fn, name, t->data, aligned);
    int64_t last = (o->rows / o->inner - 1) * o->ld + (o->inner - 1) * o->ld_inner;
    uintptr_t extent = bytes_of(f, last + o->cols);
    if (!extent || o->begin + extent < o->begin)
        return BAD("%s: %s at %p wraps around the address space", fn, name, t->data);
    o->end = o->begin + extent;
    o->bits = o->begin | (o->rows > o->inner ? bytes_of(f, o->ld) : 0) | (o->inner > 1 ? bytes_of(f, o->ld_inner) : 0);
    return RFG_OK;
}

bool rfg_operand_same(const struct rfg_operand *a, const struct rfg_operand *b)
{
    return a->begin == b->begin && a->t->dtype == b->t->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->inner == b->inner && a->ld == b->ld && a->ld_inner == b->ld_inner;
}

rfg_status rfg_check_operand_dtype(const struct rfg_operand *o, const char *fn, rfg_dtype dtype, const char *rule)
{
    return o->t->dtype == dtype ? RFG_OK
                                : BAD("%s: %s is %s: must be %s%s", fn, o->name, rfg_dtype_name(o->t->dtype), rule,
                                      rfg_dtype_name(dtype));
}

rfg_status rfg_check_overlap(const char *fn, const struct rfg_operand *out, const struct rfg_operand *in,
                             bool same_is_fine)
{
    if (out->begin >= in->end || in->begin >= out->end || (same_is_fine && rfg_operand_same(out, in)))
        return RFG_OK;
    return BAD("%s: %s [%p, %p) overlaps %s [%p, %p): the output may not alias an input%s", fn, out->name,
               (void *)out->begin, (void *)out->end, in->name, (void *)in->begin, (void *)in->end,
               same_is_fine ? " unless they are one: same address, shape, strides and dtype" : "");
}

rfg_status rfg_check_problem(const char *fn, const struct rfg_problem *prob)
{
    struct rfg_reason why;
    return prob->op->valid(prob, &why) ? RFG_OK : BAD("%s: %s", fn, why.text);
}

bool rfg_turn_columns(rfg_tensor *turned, const rfg_tensor *t)
{
    *turned = *t;
    if (t->ndim != 2 || t->shape[0] < 2 || t->shape[1] < 2 || t->strides[0] != 1 || t->strides[1] == 1)
        return false;
    turned->shape[0] = t->shape[1];
    turned->shape[1] = t->shape[0];
    turned->strides[0] = t->strides[1];
    turned->strides[1] = 1;
    return true;
}
