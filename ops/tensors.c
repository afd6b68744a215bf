/* SPDX-License-Identifier: MIT */
#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

/* Is the row one of this call's? */
static bool applies(const struct rfg_tensors *c, const struct rfg_tensor_rule *r)
{
    return (c->facts & r->if_set) == r->if_set && !(c->facts & r->if_clear);
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */

/* "bf16, f16 or f32": those first, and the others in their order. */
static const char *list_of(uint32_t dtypes, char *buf, size_t size)
{
    static const uint8_t first[] = { RFG_BF16, RFG_F16, RFG_F32 };
    int left = __builtin_popcount(dtypes), all = left;
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i + 1 < RFG_DTYPE_COUNT && at < size; i++) {
        int d = i < 3 ? first[i] : i + 1;
        if (dtypes >> d & 1)
            at += (size_t)snprintf(buf + at, size - at, "%s%s",
                                   left == all ? ""
                                   : left == 1 ? " or "
                                               : ", ",
                                   rfg_dtype_name((rfg_dtype)d)),
                left--;
    }
    return buf;
}

static rfg_status check_dtype(const struct rfg_tensors *c, const struct rfg_tensor_rule *r, const rfg_tensor *t)
{
    const struct rfg_operand *like = r->like && c->o[r->like - 1].t ? &c->o[r->like - 1] : NULL;
    unsigned dtype = (unsigned)t->dtype;
    uint32_t dtypes = like && r->flags & RFG_LIKE_ALONE ? 0 : r->dtypes;
    if (dtype < RFG_DTYPE_COUNT && (dtypes >> dtype & 1 || (like && t->dtype == like->t->dtype)))
        return RFG_OK;
    char list[RFG_FORMAT_NAMES], is[40], as[60] = "";
    if (dtype && dtype < RFG_DTYPE_COUNT)
        snprintf(is, sizeof(is), "is %s", rfg_dtype_name(t->dtype));
    else
        snprintf(is, sizeof(is), "has dtype %d", (int)t->dtype);
    if (like)
        snprintf(as, sizeof(as), "%s's dtype, %s%s", like->name, rfg_dtype_name(like->t->dtype), dtypes ? ", or " : "");
    return BAD("%s: %s %s: must be %s%s", c->fn, r->name, is, as, list_of(dtypes, list, sizeof(list)));
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* A view that counts blocks in place of elements, where those are two: t itself or, in `room`, another. */
static const rfg_tensor *in_blocks(const rfg_tensor *t, rfg_tensor *room)
{
    int n = rfg_format((int)t->dtype)->elements, last = t->ndim - 1;
    if (n == 1)
        return t;
    *room = *t;
    room->shape[last] /= n;
    for (int i = 0; i < last; i++)
        room->strides[i] /= n;
    return room;
}

static rfg_status check_blocks(const rfg_tensor *t, const char *fn, const char *name)
{
    const struct rfg_format *f = rfg_format((int)t->dtype);
    int last = t->ndim - 1;
    if (f->elements > 1 && (t->shape[last] % f->elements || t->strides[last] != 1))
        return BAD("%s: %s has %" PRId64 " elements of %s in its last dimension, %" PRId64
                   " apart: must be whole blocks of %d",
                   fn, name, t->shape[last], f->name, t->strides[last], f->elements);
    for (int i = 0; i < last; i++)
        if (t->shape[i] > 1 && t->strides[i] % f->elements)
            return BAD("%s: %s has stride %" PRId64 " of %s in dimension %d: must be whole blocks of %d", fn, name,
                       t->strides[i], f->name, i, f->elements);
    return RFG_OK;
}

static rfg_status check_extent(struct rfg_operand *o, const char *fn, int64_t size)
{
    rfg_tensor room;
    const rfg_tensor *t = in_blocks(o->t, &room);
    int64_t last = 1, part;
    bool over = false;
    o->begin = o->bits = (uintptr_t)t->data;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1) {
            over |= __builtin_mul_overflow(t->shape[i] - 1, t->strides[i], &part);
            over |= !over && __builtin_add_overflow(last, part, &last);
            o->bits |= t->strides[i] > 1 ? (uintptr_t)t->strides[i] * (uintptr_t)size : 0;
        }
    over |= !over && __builtin_mul_overflow(last, size, &last);
    o->end = o->begin + (uintptr_t)last;
    return over || o->end < o->begin
               ? BAD("%s: %s at %p: its strides reach past the address space", fn, o->name, t->data)
               : RFG_OK;
}

/* From the smallest stride up, each steps over all below. */
rfg_status rfg_check_distinct(const struct rfg_operand *o, const char *fn)
{
    const rfg_tensor *t = o->t;
    int64_t span = 1, below = 0;
    for (int n = 0; n < t->ndim && o->begin != o->end; n++) {
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
                       o->name, t->strides[next], next);
        span += (t->shape[next] - 1) * t->strides[next];
        below = t->strides[next];
    }
    return RFG_OK;
}

static rfg_status check_view(struct rfg_operand *o, const char *fn, const struct rfg_tensor_rule *r)
{
    const rfg_tensor *t = o->t;
    int dims = t->ndim, reach = r->reach - 1;
    bool empty = false;
    o->begin = o->end = o->bits = 0;
    for (int i = 0; i < dims; i++) {
        if (t->shape[i] < 0 || t->shape[i] > RFG_MAX_SIZE)
            return BAD("%s: %s has %" PRId64 " in dimension %d: must be from 0 to %d", fn, r->name, t->shape[i], i,
                       RFG_MAX_SIZE);
        empty |= t->shape[i] == 0;
    }
    if (empty)
        return RFG_OK;
    for (int i = 0; i < dims; i++)
        if (t->shape[i] > 1 && t->strides[i] <= 0)
            return BAD("%s: %s has stride %" PRId64 " in dimension %d: must be above 0", fn, r->name, t->strides[i], i);
    if (!(r->flags & RFG_ANY_LAST) && t->shape[dims - 1] > 1 && t->strides[dims - 1] != 1)
        return BAD("%s: %s has stride %" PRId64 " in its last dimension: must be 1", fn, r->name, t->strides[dims - 1]);
    if (!t->data)
        return BAD("%s: %s's data is NULL: must point to its elements", fn, r->name);
    size_t size = (size_t)rfg_format((int)t->dtype)->bytes;
    if ((uintptr_t)t->data & (size - 1))
        return BAD("%s: %s's data is %p: must be aligned to its element, %zu bytes", fn, r->name, t->data, size);
    if (reach >= 0 && t->shape[reach] > 1 && t->strides[reach] > RFG_MAX_STRIDE / (t->shape[reach] - 1))
        return BAD("%s: %s has stride %" PRId64 " in dimension %d: from the first to the last of its %" PRId64
                   " must be at most %d elements",
                   fn, r->name, t->strides[reach], reach, t->shape[reach], RFG_MAX_STRIDE);
    rfg_status st = check_blocks(t, fn, r->name);
    if (!st)
        st = check_extent(o, fn, (int64_t)size);
    return st || !(r->flags & RFG_OUT) ? st : rfg_check_distinct(o, fn);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* "3 rows", "3 columns", "3 elements", "3 in dimension 2" */
static const char *size_in_words(const struct rfg_tensor_rule *r, int dim, int64_t n, char *buf, size_t size)
{
    if (r->flags & RFG_VIEW)
        snprintf(buf, size, "%" PRId64 " in dimension %d", n, dim);
    else
        snprintf(buf, size, "%" PRId64 " %s", n,
                 r->dims == 1 ? "elements"
                 : dim == 2   ? "in dimension 1"
                 : dim        ? "columns"
                              : "rows");
    return buf;
}

/* Of the first tensor that has the axis. */
static rfg_status refuse_range(const struct rfg_tensors *c, const struct rfg_tensor_rule *r, int dim, int axis,
                               int64_t n)
{
    const struct rfg_axis *a = &c->axes[axis];
    int64_t max = a->max ? a->max : RFG_MAX_SIZE, one_more = r->axis[dim] & RFG_PLUS_ONE ? 1 : 0;
    char is[60];
    size_in_words(r, dim, n, is, sizeof(is));
    if (a->min == max)
        return BAD("%s: %s has %s: must be %" PRId64, c->fn, r->name, is, max);
    return BAD("%s: %s has %s, %s%s: must be from %" PRId64 " to %" PRId64, c->fn, r->name, is, a->name,
               one_more ? " + 1" : "", a->min + one_more, max + one_more);
}

static rfg_status refuse_size(const struct rfg_tensors *c, const struct rfg_tensor_rule *r, int dim, int axis,
                              int64_t n)
{
    const char *whose = c->whose[axis];
    int one_more = r->axis[dim] & RFG_PLUS_ONE ? 1 : 0;
    char is[60];
    return BAD("%s: %s has %s: must be %s%s%s%s%s, %" PRId64, c->fn, r->name, size_in_words(r, dim, n, is, sizeof(is)),
               r->axis[dim] & RFG_OR_ONE ? "1 or " : "", whose, *whose ? "'s " : "", c->axes[axis].name,
               one_more ? " + 1" : "", c->sizes[axis] + one_more);
}

static inline rfg_status check_axis(struct rfg_tensors *c, const struct rfg_tensor_rule *r, int dim, int64_t n)
{
    int how = r->axis[dim], axis = how & (RFG_IF_KNOWN - 1);
    int64_t size = n - (how & RFG_PLUS_ONE ? 1 : 0);
    if (!axis)
        return RFG_OK;
    const struct rfg_axis *a = &c->axes[axis];
    if (c->known >> axis & 1)
        return size == c->sizes[axis] || (how & RFG_OR_ONE && n == 1) ? RFG_OK : refuse_size(c, r, dim, axis, n);
    if (how & RFG_IF_KNOWN)
        return RFG_OK;
    if (size < a->min || size > (a->max ? a->max : RFG_MAX_SIZE))
        return refuse_range(c, r, dim, axis, n);
    c->known |= 1u << axis;
    c->whose[axis] = r->name;
    c->sizes[axis] = size;
    return RFG_OK;
}

/* Rows of rows count as one dimension. */
static rfg_status check_rows(struct rfg_tensors *c, const struct rfg_tensor_rule *r, struct rfg_operand *o)
{
    rfg_tensor *transpose = &c->transpose[c->turned != 0];
    bool turned = r->flags & RFG_EITHER_WAY && rfg_turn_columns(transpose, o->t);
    if (turned) {
        o->t = transpose;
        c->turned |= 1u << r->slot;
    }
    rfg_status st = rfg_check_operand(o, c->fn, r->name, o->t, r->flags & RFG_FOLDED ? 1 : r->dims, r->dims);
    if (st || (r->flags & RFG_FOLDED && o->t->ndim == 3 && (st = check_axis(c, r, 2, o->t->shape[1]))))
        return st;
    if (r->flags & RFG_PACKED && o->rows && o->ld != o->cols)
        return BAD("%s: %s has row stride %" PRId64 ": must be its columns, %" PRId64, c->fn, r->name, o->ld, o->cols);
    if (r->dims == 1)
        return check_axis(c, r, 0, o->cols);
    st = check_axis(c, r, turned, o->rows);
    return st ? st : check_axis(c, r, !turned, o->cols);
}

/* ---- all of a call ----------------------------------------------------------------------------------------------- */

static rfg_status check_there(const struct rfg_tensors *c, const struct rfg_tensor_rule *rules, int n,
                              const struct rfg_tensor_rule *r)
{
    const rfg_tensor *t = c->o[r->slot].t;
    if (!t && !(r->flags & RFG_OPTIONAL))
        return BAD("%s: %s is NULL: must be a tensor", c->fn, r->name);
    if (!r->with || !t == !c->o[r->with - 1].t)
        return RFG_OK;
    const char *with = "";
    for (int i = 0; i < n; i++)
        if (rules[i].slot == r->with - 1)
            with = rules[i].name;
    return BAD("%s: %s is NULL: %s and %s go together", c->fn, t ? with : r->name, r->name, with);
}

static rfg_status check_one(struct rfg_tensors *c, const struct rfg_tensor_rule *r, struct rfg_operand *o)
{
    const rfg_tensor *t = o->t;
    rfg_status st = check_dtype(c, r, t);
    if (st || !(r->flags & RFG_VIEW))
        return st ? st : check_rows(c, r, o);
    if (r->dims ? t->ndim != r->dims : t->ndim < 1 || t->ndim > RFG_MAX_DIMS)
        return BAD("%s: %s has %d dimensions: must have %s%d", c->fn, r->name, (int)t->ndim, r->dims ? "" : "1 to ",
                   r->dims ? r->dims : RFG_MAX_DIMS);
    st = check_view(o, c->fn, r);
    for (int i = 0; i < r->dims && !st; i++)
        st = check_axis(c, r, i, t->shape[i]);
    return st;
}

void rfg_tensors_add(struct rfg_tensors *c, const struct rfg_tensor_rule *r)
{
    int i = c->n_given++;
    c->given[i] = r;
    c->begin[i] = c->o[r->slot].begin;
    c->end[i] = c->o[r->slot].end;
    c->outs |= r->flags & RFG_OUT ? 1u << i : 0;
}

rfg_status rfg_check_tensors(struct rfg_tensors *c, const struct rfg_tensor_rule *rules, int n)
{
    for (const struct rfg_tensor_rule *r = rules; r < rules + n; r++) {
        struct rfg_operand *o = &c->o[r->slot];
        rfg_status st;
        if ((!o->t && r->flags & RFG_OPTIONAL && !r->with) || !applies(c, r))
            continue;
        if ((!o->t || r->with) && (st = check_there(c, rules, n, r)))
            return st;
        if (!o->t)
            continue;
        o->name = r->name;
        if ((st = check_one(c, r, o)))
            return st;
        rfg_tensors_add(c, r);
    }
    return RFG_OK;
}

/* ---- two tensors ------------------------------------------------------------------------------------------------- */

/* A tensor's dimensions of more than one element, from the largest stride (in bytes) down; reach[i]: bytes from the
 * first to the end of the last element of dimensions i on. */
struct steps {
    int n;
    int64_t stride[RFG_MAX_DIMS + 1], reach[RFG_MAX_DIMS + 1];
};

static struct steps steps_of(const rfg_tensor *view)
{
    struct steps s = { 0 };
    rfg_tensor room;
    const rfg_tensor *t = in_blocks(view, &room);
    int64_t size = rfg_format((int)t->dtype)->bytes, n[RFG_MAX_DIMS];
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

static bool is_same(const struct rfg_operand *a, const struct rfg_operand *b)
{
    bool same = a->begin == b->begin && a->t->dtype == b->t->dtype && a->t->ndim == b->t->ndim;
    for (int i = 0; same && i < a->t->ndim; i++)
        same = a->t->shape[i] == b->t->shape[i] && (a->t->shape[i] == 1 || a->t->strides[i] == b->t->strides[i]);
    return same;
}

/* Of tensors whose bytes, from the first to the last, have some in common. */
static rfg_status check_pair(const struct rfg_tensors *c, const struct rfg_operand *out,
                             const struct rfg_operand *other, bool may_be_same, bool both_out)
{
    if (may_be_same && is_same(out, other))
        return RFG_OK;
    if (c->interleaved) {
        struct steps a = steps_of(out->t), b = steps_of(other->t);
        if (interleaved(&a, 0, &b, 0, (int64_t)(other->begin - out->begin)))
            return RFG_OK;
    }
    return BAD("%s: %s [%p, %p) overlaps %s [%p, %p): %s%s", c->fn, out->name, (void *)out->begin, (void *)out->end,
               other->name, (void *)other->begin, (void *)other->end,
               both_out ? "outputs may not overlap" : "the output may not alias an input",
               may_be_same ? " unless they are one: same address, shape, strides and dtype" : "");
}

rfg_status rfg_check_overlaps(const struct rfg_tensors *c)
{
    int n = c->n_given;
    for (unsigned left = c->outs; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uintptr_t begin = c->begin[i], end = c->end[i];
        for (int k = 0; k < n; k++) {
            const struct rfg_tensor_rule *r = c->given[i], *q = c->given[k];
            rfg_status st;
            if (begin < c->end[k] && c->begin[k] < end && begin != end && k != i &&
                (st = check_pair(c, &c->o[r->slot], &c->o[q->slot], r->same == q->slot + 1, q->flags & RFG_OUT)))
                return st;
        }
    }
    return RFG_OK;
}
