/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <inttypes.h>

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

static rfg_status check_extent(struct rfg_view *v, const char *fn)
{
    const rfg_tensor *t = v->t;
    int64_t size = rfg_format_bytes((int)t->dtype, 1), last = 1, part;
    bool over = false;
    v->bits = (uintptr_t)t->data;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1) {
            over |= __builtin_mul_overflow(t->shape[i] - 1, t->strides[i], &part);
            over |= !over && __builtin_add_overflow(last, part, &last);
            v->bits |= t->strides[i] > 1 ? (uintptr_t)t->strides[i] * (uintptr_t)size : 0;
        }
    over |= !over && __builtin_mul_overflow(last, size, &last);
    if (over || (uintptr_t)t->data + (uintptr_t)last < (uintptr_t)t->data)
        return BAD("%s: %s at %p: its strides reach past the address space", fn, v->name, t->data);
    v->begin = (uintptr_t)t->data;
    v->end = v->begin + (uintptr_t)last;
    return RFG_OK;
}

rfg_status rfg_check_view(struct rfg_view *v, const char *fn, const char *name, const rfg_tensor *t, int dims,
                          bool unit_last)
{
    *v = (struct rfg_view){ .name = name, .t = t };
    if (!t)
        return BAD("%s: %s is NULL: must be a tensor", fn, name);
    const struct rfg_format *f = rfg_format((int)t->dtype);
    if (!f)
        return BAD("%s: %s has dtype %d: must be one of enum rfg_dtype", fn, name, (int)t->dtype);
    if (f->elements > 1)
        return BAD("%s: %s is %s: must be of a format with one element a block", fn, name, f->name);
    size_t size = (size_t)f->bytes;
    if (t->ndim != dims)
        return BAD("%s: %s has %d dimensions: must have %d", fn, name, (int)t->ndim, dims);
    bool empty = false;
    for (int i = 0; i < dims; i++) {
        if (t->shape[i] < 0 || t->shape[i] > RFG_MAX_SIZE)
            return BAD("%s: %s has %" PRId64 " in dimension %d: must be from 0 to %d", fn, name, t->shape[i], i,
                       RFG_MAX_SIZE);
        empty |= t->shape[i] == 0;
    }
    if (empty)
        return RFG_OK;
    for (int i = 0; i < dims; i++)
        if (t->shape[i] > 1 && t->strides[i] <= 0)
            return BAD("%s: %s has stride %" PRId64 " in dimension %d: must be above 0", fn, name, t->strides[i], i);
    if (unit_last && t->shape[dims - 1] > 1 && t->strides[dims - 1] != 1)
        return BAD("%s: %s has stride %" PRId64 " in its last dimension: must be 1", fn, name, t->strides[dims - 1]);
    if (!t->data)
        return BAD("%s: %s's data is NULL: must point to its elements", fn, name);
    if ((uintptr_t)t->data % size)
        return BAD("%s: %s's data is %p: must be aligned to its element, %zu bytes", fn, name, t->data, size);
    return check_extent(v, fn);
}

/* From the smallest stride up, each must step over all below. */
rfg_status rfg_check_distinct(const struct rfg_view *v, const char *fn)
{
    const rfg_tensor *t = v->t;
    int64_t span = 1, below = 0;
    for (int n = 0; n < t->ndim && v->begin != v->end; n++) {
        int next = -1;
        for (int i = 0; i < t->ndim; i++)
            if (t->shape[i] > 1 && t->strides[i] > below && (next < 0 || t->strides[i] < t->strides[next]))
                next = i;
        for (int i = 0; next >= 0 && i < t->ndim; i++)
            if (i != next && t->shape[i] > 1 && t->strides[i] == t->strides[next])
                span = INT64_MAX; /* two alike */
        if (next < 0)
            break;
        if (t->strides[next] < span)
            return BAD("%s: %s has stride %" PRId64 " in dimension %d: its elements would overlap one another", fn,
                       v->name, t->strides[next], next);
        span += (t->shape[next] - 1) * t->strides[next];
        below = t->strides[next];
    }
    return RFG_OK;
}

rfg_status rfg_check_dtype(const struct rfg_view *v, const char *fn, rfg_dtype dtype, const char *rule)
{
    return rfg_check_operand_dtype(&(struct rfg_operand){ .name = v->name, .t = v->t }, fn, dtype, rule);
}

rfg_status rfg_check_size(const struct rfg_view *v, const char *fn, int dim, int64_t size, const char *what)
{
    return v->t->shape[dim] == size ? RFG_OK
                                    : BAD("%s: %s has %" PRId64 " in dimension %d: must be %s, %" PRId64, fn, v->name,
                                          v->t->shape[dim], dim, what, size);
}

rfg_status rfg_check_vector(struct rfg_view *v, const char *fn, const char *name, const rfg_tensor *t, rfg_dtype dtype,
                            int64_t n, const char *what)
{
    rfg_status st;
    *v = (struct rfg_view){ .name = name };
    if (!t)
        return RFG_OK;
    if ((st = rfg_check_view(v, fn, name, t, 1, true)) || (st = rfg_check_dtype(v, fn, dtype, "")))
        return st;
    return rfg_check_size(v, fn, 0, n, what);
}

/* ---- two tensors ------------------------------------------------------------------------------------------------- */

/* A tensor's dimensions of more than one element, from the largest stride (in bytes) down; reach[i]: bytes from the
 * first to the end of the last element of dimensions i on. */
struct steps {
    int n;
    int64_t stride[RFG_MAX_DIMS + 1], reach[RFG_MAX_DIMS + 1];
};

static struct steps steps_of(const rfg_tensor *t)
{
    struct steps s = { 0 };
    int64_t size = rfg_format_bytes((int)t->dtype, 1), n[RFG_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++) {
        int at = s.n;
        if (t->shape[i] == 1)
            continue;
        for (; at > 0 && s.stride[at - 1] < t->strides[i] * size; at--) {
            s.stride[at] = s.stride[at - 1];
            n[at] = n[at - 1];
        }
        s.stride[at] = t->strides[i] * size;
        n[at] = t->shape[i];
        s.n++;
    }
    s.reach[s.n] = size;
    for (int i = s.n - 1; i >= 0; i--)
        s.reach[i] = s.reach[i + 1] + (n[i] - 1) * s.stride[i];
    return s;
}

/* Of a's dimensions from i on and b's from k on, which begin `ahead` bytes behind a's. With a stride in common each of
 * a's steps has at most two of b's beside it: the one behind and the one before. */
static bool interleaved(const struct steps *a, int i, const struct steps *b, int k, int64_t ahead)
{
    if (ahead >= a->reach[i] || -ahead >= b->reach[k])
        return true;
    if (i == a->n || k == b->n || a->stride[i] != b->stride[k])
        return false;
    int64_t stride = a->stride[i];
    if (a->reach[i + 1] > stride || b->reach[k + 1] > stride)
        return false;
    ahead = (ahead % stride + stride) % stride;
    return interleaved(a, i + 1, b, k + 1, ahead) && interleaved(a, i + 1, b, k + 1, ahead - stride);
}

bool rfg_view_same(const struct rfg_view *a, const struct rfg_view *b)
{
    bool same = a->begin == b->begin && a->t->dtype == b->t->dtype && a->t->ndim == b->t->ndim;
    for (int i = 0; same && i < a->t->ndim; i++)
        same = a->t->shape[i] == b->t->shape[i] && (a->t->shape[i] == 1 || a->t->strides[i] == b->t->strides[i]);
    return same;
}

rfg_status rfg_check_apart(const struct rfg_view *out, const char *fn, const struct rfg_view *other, bool same_is_fine)
{
    if (out->begin >= other->end || other->begin >= out->end || (same_is_fine && rfg_view_same(out, other)))
        return RFG_OK;
    struct steps a = steps_of(out->t), b = steps_of(other->t);
    if (interleaved(&a, 0, &b, 0, (int64_t)(other->begin - out->begin)))
        return RFG_OK;
    return BAD("%s: %s [%p, %p) overlaps %s [%p, %p): no element of the output may lie in another tensor%s", fn,
               out->name, (void *)out->begin, (void *)out->end, other->name, (void *)other->begin, (void *)other->end,
               same_is_fine ? ", unless they are one: same address, shape, strides and dtype" : "");
}
