/* SPDX-License-Identifier: MIT
 *
 * rfg_op_all_reduce, rfg_op_reduce_scatter, rfg_op_all_gather: what their tensors must be. */
#include <inttypes.h>

#include "dispatch/dispatch.h"
#include "ops/operand.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

/* A packed tensor. */
struct flat {
    const char *name;
    const rfg_tensor *t;
    int64_t n;
    uintptr_t begin, end;
};

static rfg_status check_packed(const char *fn, const struct flat *f)
{
    int64_t stride = 1;
    for (int d = f->t->ndim; d > 0; d--) {
        if (f->t->shape[d - 1] > 1 && f->t->strides[d - 1] != stride)
            return BAD("%s: %s.strides[%d] is %" PRId64 ": must be %" PRId64 " (packed)", fn, f->name, d - 1,
                       f->t->strides[d - 1], stride);
        stride *= f->t->shape[d - 1];
    }
    return RFG_OK;
}

static rfg_status check_flat(const char *fn, struct flat *f)
{
    const rfg_tensor *t = f->t;
    if (!t)
        return BAD("%s: %s is NULL: must be a tensor", fn, f->name);
    if (!rfg_dtype_is_float((int)t->dtype))
        return BAD("%s: %s.dtype is %s: must be bf16, f16 or f32", fn, f->name, rfg_dtype_name(t->dtype));
    if (t->ndim < 1 || t->ndim > RFG_MAX_DIMS)
        return BAD("%s: %s.ndim is %" PRId32 ": must be from 1 to %d", fn, f->name, t->ndim, RFG_MAX_DIMS);
    f->n = 1;
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] < 0)
            return BAD("%s: %s.shape[%d] is %" PRId64 ": must be at least 0", fn, f->name, d, t->shape[d]);
        if (__builtin_mul_overflow(f->n, t->shape[d], &f->n) || rfg_format_bytes((int)t->dtype, f->n) < f->n)
            return BAD("%s: %s.shape: has more elements than 64 bits count", fn, f->name);
    }
    rfg_status st = check_packed(fn, f);
    if (st != RFG_OK || !f->n)
        return st;
    const uintptr_t size = (uintptr_t)rfg_format_bytes((int)t->dtype, 1);
    f->begin = (uintptr_t)t->data;
    f->end = f->begin + (uintptr_t)f->n * size;
    if (!t->data)
        return BAD("%s: %s.data is NULL: must be memory of the device", fn, f->name);
    if (f->begin % size)
        return BAD("%s: %s.data is %p: must be aligned to %d bytes", fn, f->name, t->data, (int)size);
    return RFG_OK;
}

/* one: of whose elements the other has `ranks` times as many. */
static rfg_status call(rfg_comm *comm, const char *fn, enum comm_op op, const rfg_tensor *y, const rfg_tensor *x,
                       rfg_stream stream)
{
    struct flat fx = { .name = "x", .t = x }, fy = { .name = "y", .t = y };
    rfg_status st = rfg_comm_ready(comm, fn);
    if (st != RFG_OK || (st = check_flat(fn, &fy)) != RFG_OK || (st = check_flat(fn, &fx)) != RFG_OK)
        return st;
    const int ranks = rfg_comm_ranks(comm), size = (int)rfg_format_bytes((int)x->dtype, 1);
    if (y->dtype != x->dtype)
        return BAD("%s: y.dtype is %s: must be %s, as x's", fn, rfg_dtype_name(y->dtype), rfg_dtype_name(x->dtype));
    const struct flat *part = op == COMM_OP_GATHER ? &fx : &fy, *all = op == COMM_OP_GATHER ? &fy : &fx;
    const int parts = op == COMM_OP_REDUCE ? 1 : ranks;
    if (all->n % parts || all->n / parts != part->n)
        return BAD("%s: %s has %" PRId64 " elements: must be %d times as many as %s, which has %" PRId64, fn, all->name,
                   all->n, parts, part->name, part->n);
    if (!part->n)
        return RFG_OK;
    const uintptr_t own = all->begin + (parts > 1 ? (uintptr_t)(rfg_comm_rank(comm) * part->n * size) : 0);
    if (fy.begin < fx.end && fx.begin < fy.end && part->begin != own)
        return BAD("%s: y overlaps x: must be %s, or apart", fn,
                   op == COMM_OP_REDUCE    ? "x"
                   : op == COMM_OP_SCATTER ? "this rank's part of x"
                                           : "around x as this rank's part");
    if (rfg_comm_describes(comm))
        return RFG_OK;
    struct comm_args a = { .x = x->data, .y = y->data, .n = part->n, .stride = part->n };
    a.wide = !((fx.begin | fy.begin | (parts > 1 ? (uintptr_t)(part->n * size) : 0)) % 16);
    return rfg_comm_run(comm, fn, op, (int)x->dtype, &a, stream);
}

rfg_status rfg_op_all_reduce(rfg_comm *comm, const rfg_tensor *y, const rfg_tensor *x, rfg_stream stream)
{
    return call(comm, "rfg_op_all_reduce", COMM_OP_REDUCE, y, x, stream);
}

rfg_status rfg_op_reduce_scatter(rfg_comm *comm, const rfg_tensor *y, const rfg_tensor *x, rfg_stream stream)
{
    return call(comm, "rfg_op_reduce_scatter", COMM_OP_SCATTER, y, x, stream);
}

rfg_status rfg_op_all_gather(rfg_comm *comm, const rfg_tensor *y, const rfg_tensor *x, rfg_stream stream)
{
    return call(comm, "rfg_op_all_gather", COMM_OP_GATHER, y, x, stream);
}
