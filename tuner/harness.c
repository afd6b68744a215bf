/* SPDX-License-Identifier: MIT
 *
 * Cases: tensors with guards, checks against the oracle.
 *
 * All sets of a case hold the same data at different addresses: rotation is about caches, and one answer of the oracle
 * serves every set. */
#include "base/util.h"
#include "case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNTOUCHED 0x5a       /* what of an output must stay: a number */
#define LARGE     (4 << 20)  /* bytes of an input that a quick check samples: */
#define EDGE      (64 << 10) /* bytes at its ends, */
#define PIECE     (16 << 10) /* and of each piece between */
#define PIECES    16

const struct rfg_problem *rfg_case_problem(const struct rfg_case *c)
{
    return &c->prob;
}

const struct rfg_problem *rfg_case_posed(const struct rfg_case *c)
{
    return &c->posed;
}

rfg_context *rfg_case_context(const struct rfg_case *c)
{
    return c->ctx;
}

int rfg_case_sets(const struct rfg_case *c)
{
    return c->n_sets;
}

const rfg_tensor *rfg_case_tensors(const struct rfg_case *c, int set)
{
    return c->tensors[set];
}

/* The case's device becomes the thread's current one, and stays it. */
static rfg_status make_current(const struct rfg_case *c)
{
    hipError_t e = c->hip ? c->hip->hipSetDevice(rfg_context_ordinal(c->ctx)) : hipSuccess;
    return e == hipSuccess ? RFG_OK : rfg_hip_fail(c->ctx, "hipSetDevice", e);
}

/* ---- making a case
 * --------------------------------------------------------------------------------------------------- */

static size_t align_up(size_t n, size_t a)
{
    return (n + a - 1) & ~(a - 1);
}

static void measure(struct place *p)
{
    const struct rfg_tensor_spec *s = &p->spec;
    int d = (int)s->dtype;
    int64_t inner = s->ndim == 3 ? s->shape[1] : 1;
    p->cols = s->shape[s->ndim - 1];
    p->rows = s->ndim == 1 ? 1 : s->shape[0] * inner;
    p->segs = s->ndim == 1 ? 1 : s->column_major ? p->cols : s->shape[0];
    p->seg = (size_t)rfg_format_bytes(d, s->column_major ? p->rows : inner * p->cols);
    p->stride = s->ndim == 1 || s->column_major ? p->seg : (size_t)rfg_format_bytes(d, s->row_stride);
    p->extent = p->segs && p->seg ? (size_t)(p->segs - 1) * p->stride + p->seg : 0;
}

/* Bytes from a tensor's first element to the one in row r and column i. */
static size_t place_of(const struct place *p, int64_t r, int64_t i)
{
    size_t size = (size_t)rfg_format_bytes((int)p->spec.dtype, 1);
    if (p->spec.column_major)
        return (size_t)i * p->stride + (size_t)r * size;
    int64_t inner = p->spec.ndim == 3 ? p->spec.shape[1] : 1;
    return (size_t)(r / inner) * p->stride + (size_t)(r % inner * p->cols + i) * size;
}

static rfg_tensor tensor_at(const struct place *p, char *data)
{
    const struct rfg_tensor_spec *s = &p->spec;
    rfg_tensor t = { data, s->dtype, s->ndim, { 0 }, { 0 } };
    memcpy(t.shape, s->shape, sizeof(t.shape));
    t.strides[s->ndim - 1] = s->column_major ? s->shape[0] : 1;
    if (s->ndim == 3)
        t.strides[1] = s->shape[2];
    if (s->ndim > 1)
        t.strides[0] = s->column_major ? 1 : s->row_stride;
    return t;
}

/* Do the tensors' bytes fit an address space, so that they can be counted in 64 bits? */
static bool countable(const struct rfg_problem *prob)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    double bytes = 0;
    for (int i = prob->op->tensors(prob, spec) - 1; i >= 0; i--) {
        const struct rfg_tensor_spec *s = &spec[i];
        double rows = 1, row = (double)s->shape[s->ndim - 1];
        for (int d = 0; d + 1 < s->ndim; d++)
            rows *= (double)s->shape[d];
        if (s->ndim > 1 && !s->column_major)
            bytes += s->absent ? 0 : (double)s->shape[0] * (double)s->row_stride * 8;
        bytes += s->absent ? 0 : rows * row * 8;
    }
    return bytes < 0x1p47;
}

/* Lays the tensors of a set out, each as its alignment key wants it, and says in the problem what came of it (a row
 * stride may allow less). */
static void lay_out(struct rfg_case *c)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    uintptr_t bits[RFG_MAX_KEYS] = { 0 };
    c->n_tensors = c->prob.op->tensors(&c->prob, spec);
    for (int i = 0; i < c->n_tensors; i++) {
        struct place *p = &c->place[i];
        int key = spec[i].align_key;
        size_t size = (size_t)rfg_format((int)spec[i].dtype)->bytes, align = key >= 0 ? (size_t)c->prob.v[key] : 16;
        p->spec = spec[i];
        if (spec[i].absent)
            continue;
        measure(p);
        if (!spec[i].same_as) {
            size_t shift = c->params.unaligned ? size : align < 16 ? (align > size ? align : size) : 0;
            p->offset = align_up(c->set_bytes + GUARD, 256) + shift;
            c->set_bytes = p->offset + p->extent + GUARD;
        }
    }
    for (int i = 0; i < c->n_tensors; i++) {
        struct place *p = &c->place[i];
        if (spec[i].absent)
            continue;
        if (spec[i].same_as)
            p->offset = c->place[spec[i].same_as - 1].offset;
        if (p->extent && spec[i].align_key >= 0)
            bits[spec[i].align_key] |= 16 | p->offset | (p->segs > 1 ? p->stride : 0) |
                                       (spec[i].ndim == 3 ? (size_t)rfg_format_bytes((int)spec[i].dtype, p->cols) : 0);
    }
    c->set_bytes = align_up(c->set_bytes, 4096);
    for (int k = 0; k < c->prob.op->n_keys; k++)
        if (bits[k])
            c->prob.v[k] = (int64_t)(bits[k] & -bits[k]);
}

/* A byte of a set that is on the device. */
static char *at(const struct rfg_case *c, int set, size_t offset)
{
    const struct piece *p = c->piece;
    while (offset < p->begin || offset > p->end)
        p++;
    return p->at + (size_t)set * c->set_bytes + (offset - p->begin);
}

/* Copies the bytes [from, to) of a set that are on the device to it from `bytes`, or back. */
static rfg_status copy(const struct rfg_case *c, int set, char *bytes, size_t from, size_t to, bool back)
{
    hipError_t e = hipSuccess;
    for (int i = 0; i < c->n_pieces && e == hipSuccess; i++) {
        const struct piece *p = &c->piece[i];
        size_t lo = from > p->begin ? from : p->begin, hi = to < p->end ? to : p->end;
        if (lo >= hi)
            continue;
        char *there = at(c, set, lo);
        if (!c->hip)
            memcpy(back ? bytes + lo : there, back ? there : bytes + lo, hi - lo);
        else if (back)
            e = c->hip->hipMemcpyDtoH(bytes + lo, (hipDeviceptr_t)there, hi - lo);
        else
            e = c->hip->hipMemcpyHtoD((hipDeviceptr_t)there, bytes + lo, hi - lo);
    }
    return e == hipSuccess ? RFG_OK : rfg_hip_fail(c->ctx, back ? "hipMemcpyDtoH" : "hipMemcpyHtoD", e);
}

static rfg_status upload(struct rfg_case *c, int set)
{
    return copy(c, set, c->host, 0, c->set_bytes, false);
}

static rfg_status fence(struct rfg_case *c)
{
    for (int i = 0; i < c->n_tensors; i++) {
        const struct place *p = &c->place[i];
        struct rfg_fenced *f = &c->fenced[i];
        if (p->spec.absent || p->spec.same_as)
            continue;
        rfg_status st = rfg_fenced_alloc(c->ctx, p->extent, 16, p->offset % 16, f);
        if (st != RFG_OK)
            return st;
        c->piece[c->n_pieces++] =
            (struct piece){ p->offset - f->before, p->offset + p->extent + f->after, f->data - f->before };
    }
    return RFG_OK;
}

static rfg_status make_arena(struct rfg_case *c)
{
    size_t bytes = (size_t)c->n_sets * c->set_bytes;
    if (c->hip) {
        void *mem;
        hipError_t e = c->hip->hipMalloc(&mem, bytes);
        if (e != hipSuccess)
            return rfg_hip_fail(c->ctx, "hipMalloc", e);
        c->arena = mem;
    } else if (!(c->arena = aligned_alloc(4096, bytes)))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %d sets of %zu bytes", c->n_sets,
                        c->set_bytes);
    c->piece[c->n_pieces++] = (struct piece){ 0, c->set_bytes, c->arena };
    return RFG_OK;
}

static rfg_status make_sets(struct rfg_case *c)
{
    size_t in = 0;
    for (int i = 0; i < c->n_tensors; i++)
        in += c->place[i].spec.output ? 0 : c->place[i].extent;
    c->n_sets = 1;
    /* Small problems take many; not on the emulator, which has no cache and all the time in the world. */
    size_t most = rfg_context_info(c->ctx)->platform == RFG_PLATFORM_EMU ? 256 : 2048;
    if (c->params.rotate_bytes && in && !c->params.fenced)
        c->n_sets = (int)(c->params.rotate_bytes / in < most ? c->params.rotate_bytes / in + 1 : most);
    c->tensors = calloc((size_t)c->n_sets, sizeof(*c->tensors));
    if (!c->tensors)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %d sets", c->n_sets);
    rfg_status st = c->params.fenced ? fence(c) : make_arena(c);
    for (int s = 0; st == RFG_OK && s < c->n_sets; s++) {
        for (int i = 0; i < c->n_tensors; i++)
            if (!c->place[i].spec.absent && !c->place[i].spec.on_request)
                c->tensors[s][i] = tensor_at(&c->place[i], at(c, s, c->place[i].offset));
        st = upload(c, s);
    }
    return st;
}

/* Does the oracle know it; and does the harness compare the last run's with that? */
static bool is_output(const struct place *p)
{
    return p->spec.output && !p->spec.absent;
}
static bool is_asked(const struct rfg_case *c, const struct place *p)
{
    return is_output(p) && (!p->spec.on_request || c->asked);
}

static rfg_status ask_oracle(struct rfg_case *c)
{
    int64_t all = 0;
    bool empty = false;
    uint64_t seed = c->params.seed ^ 0x5eed;
    for (int i = 0; i < c->n_tensors; i++)
        if (is_output(&c->place[i])) {
            all = c->place[i].rows;
            empty |= !c->place[i].extent;
        }
    if (empty) /* the public functions do nothing then: nothing is written */
        all = 0;
    c->n_rows = c->params.check_rows && c->params.check_rows < all ? c->params.check_rows : all;
    c->rows = malloc((size_t)(c->n_rows + 1) * sizeof(*c->rows));
    bool room = c->rows != NULL;
    for (int i = 0; room && i < c->n_tensors; i++)
        if (is_output(&c->place[i])) {
            size_t n = (size_t)(c->n_rows * c->place[i].cols + 1);
            c->expected[i].value = malloc(n * sizeof(double));
            c->expected[i].allow = malloc(n * sizeof(double));
            room = c->expected[i].value && c->expected[i].allow;
        }
    if (!room)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for the oracle's answer");
    for (int64_t i = 0; i < c->n_rows; i++) /* all; or the first, the last, and random ones between */
        c->rows[i] = c->n_rows == all ? i
                     : i == 0         ? 0
                     : i == 1         ? all - 1
                                      : (int64_t)(rfg_random(&seed) % (uint64_t)all);
    for (int i = 0; i < c->n_tensors; i++)
        if (!c->place[i].spec.absent)
            c->host_tensors[i] = tensor_at(&c->place[i], c->host + c->place[i].offset);
    return c->n_rows ? rfg_oracle(&c->prob, c->host_tensors, c->rows, c->n_rows, c->expected) : RFG_OK;
}

/* What must stay as it is, is a number: a NaN would be taken for what a kernel made of one. */
static void mark_untouched(struct rfg_case *c)
{
    for (int t = 0; t < c->n_tensors; t++) {
        const struct place *p = &c->place[t];
        for (int64_t i = 0; is_output(p) && i < c->n_rows * p->cols; i++)
            if (c->expected[t].allow[i] < 0)
                memset(c->host + p->offset + place_of(p, c->rows[i / p->cols], i % p->cols), UNTOUCHED,
                       (size_t)rfg_format_bytes((int)p->spec.dtype, 1));
    }
}

rfg_status rfg_case_create(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_case_params *params,
                           struct rfg_case **out)
{
    char text[RFG_PROBLEM_STRLEN];
    *out = NULL;
    if (!countable(prob))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: %s: its tensors are too large for any memory",
                        rfg_problem_format(prob, text, sizeof(text)));
    struct rfg_case *c = calloc(1, sizeof(*c));
    if (!c)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory");
    c->ctx = ctx;
    c->hip = rfg_context_hip(ctx);
    c->prob = *prob;
    c->params = *params;
    lay_out(c);
    c->posed = c->prob;
    if (prob->op->posed)
        prob->op->posed(&c->posed);
    rfg_status st = RFG_OK;
    c->kargs = calloc(1, prob->op->kargs_size);
    c->host = aligned_alloc(4096, c->set_bytes);
    if (!c->host || !c->kargs)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    else if ((st = make_current(c)) == RFG_OK) {
        rfg_case_make_data(c);
        if ((st = ask_oracle(c)) == RFG_OK) {
            mark_untouched(c);
            st = make_sets(c);
        }
    }
    if (st != RFG_OK)
        rfg_case_destroy(&c);
    *out = c;
    return st;
}

void rfg_case_destroy(struct rfg_case **pc)
{
    struct rfg_case *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    if (c->hip && c->arena)
        (void)c->hip->hipFree(c->arena);
    else
        free(c->arena);
    for (int i = 0; i < RFG_MAX_TENSORS; i++)
        rfg_fenced_free(c->ctx, &c->fenced[i]);
    rfg_fenced_free(c->ctx, &c->counters);
    free(c->tensors);
    free(c->host);
    free(c->got);
    free(c->rows);
    for (int i = 0; i < RFG_MAX_TENSORS; i++) {
        free(c->expected[i].value);
        free(c->expected[i].allow);
    }
    free(c->kargs);
    free(c);
}

/* ---- running and checking
 * ---------------------------------------------------------------------------------------------- */

static rfg_status settle(const struct rfg_case *c)
{
    rfg_status st = c->hip ? make_current(c) : RFG_OK;
    hipError_t e = c->hip && st == RFG_OK ? c->hip->hipDeviceSynchronize() : hipSuccess;
    return e == hipSuccess ? st : rfg_hip_fail(c->ctx, "hipDeviceSynchronize", e); /* of what ran, rather */
}

/* Zeroes, once; every run must leave them so. */
static rfg_status counters(struct rfg_case *c)
{
    size_t bytes = RFG_COUNTERS * sizeof(uint32_t);
    uint32_t *now;
    rfg_status st = RFG_OK;
    if (c->counters.data) {
        if (!(now = malloc(bytes)))
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for counters");
        hipError_t e = c->hip->hipMemcpyDtoH(now, (hipDeviceptr_t)c->counters.data, bytes);
        if (e != hipSuccess)
            st = rfg_hip_fail(c->ctx, "hipMemcpyDtoH", e);
        for (int i = 0; st == RFG_OK && i < RFG_COUNTERS; i++)
            if (now[i])
                st = rfg_fail(RFG_ERROR_INTERNAL, "counter %d is %u after the launch: must be 0", i, now[i]);
        free(now);
        return st;
    }
    if ((st = rfg_fenced_alloc(c->ctx, bytes, 256, 0, &c->counters)) != RFG_OK)
        return st;
    hipError_t e = c->hip->hipMemsetD8Async((hipDeviceptr_t)c->counters.data, 0, bytes, NULL);
    return e == hipSuccess ? settle(c) : rfg_hip_fail(c->ctx, "hipMemsetD8Async", e);
}

/* With a workspace of just the bytes that the variant asked for. */
static rfg_status run_fenced(struct rfg_case *c, const struct rfg_plan *plan, rfg_stream stream)
{
    size_t bytes = rfg_plan_workspace(plan);
    struct rfg_fenced space;
    rfg_status st = make_current(c);
    if (st == RFG_OK)
        st = rfg_fenced_alloc(c->ctx, bytes, 256, 0, &space);
    if (st != RFG_OK)
        return st;
    if (c->hip)
        st = counters(c);
    struct rfg_kargs_head own = { bytes ? space.data : NULL, bytes ? (uint32_t *)(void *)c->counters.data : NULL };
    if (st == RFG_OK)
        st = rfg_plan_launch_with(c->ctx, plan, c->kargs, &own, stream);
    if (st == RFG_OK)
        st = settle(c);
    if (st == RFG_OK && c->hip)
        st = counters(c);
    rfg_fenced_free(c->ctx, &space);
    return st;
}

static rfg_status run(struct rfg_case *c, const rfg_tensor *tensors, const struct rfg_plan *plan, rfg_stream stream)
{
    c->prob.op->pack(&c->prob, tensors, c->kargs);
    return c->params.fenced ? run_fenced(c, plan, stream) : rfg_plan_launch(c->ctx, plan, c->kargs, stream);
}

rfg_status rfg_case_run(struct rfg_case *c, int set, const struct rfg_plan *plan, rfg_stream stream)
{
    c->asked = false;
    return plan ? run(c, c->tensors[set], plan, stream) : c->prob.op->call(c->ctx, &c->prob, c->tensors[set], stream);
}

rfg_status rfg_case_run_checked(struct rfg_case *c, int set, const struct rfg_plan *plan, rfg_stream stream)
{
    rfg_tensor tensors[RFG_MAX_TENSORS];
    if (!plan)
        return rfg_case_run(c, set, plan, stream);
    memcpy(tensors, c->tensors[set], sizeof(tensors));
    for (int i = 0; i < c->n_tensors; i++)
        if (is_output(&c->place[i]))
            tensors[i] = tensor_at(&c->place[i], at(c, set, c->place[i].offset));
    c->asked = true;
    return run(c, tensors, plan, stream);
}

rfg_status rfg_case_poison(struct rfg_case *c, int set)
{
    return upload(c, set);
}

/* Bytes [from, to) of a set, after settle(); those that aren't on the device as they were. */
static rfg_status fetch(const struct rfg_case *c, int set, char *bytes, size_t from, size_t to)
{
    if (c->params.fenced)
        memcpy(bytes + from, c->host + from, to - from);
    return copy(c, set, bytes, from, to, true);
}

static rfg_status download(struct rfg_case *c, int set, char **bytes)
{
    if (!(*bytes = malloc(c->set_bytes)))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    rfg_status st = settle(c);
    if (st == RFG_OK)
        st = fetch(c, set, *bytes, 0, c->set_bytes);
    if (st != RFG_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return st;
}

rfg_status rfg_case_outputs(struct rfg_case *c, int set, void **out, size_t *size)
{
    char *bytes;
    size_t n = 0;
    *out = NULL;
    rfg_status st = download(c, set, &bytes);
    if (st != RFG_OK)
        return st;
    char *copy = malloc(c->set_bytes);
    for (int i = 0; copy && i < c->n_tensors; i++)
        if (is_asked(c, &c->place[i])) {
            memcpy(copy + n, bytes + c->place[i].offset, c->place[i].extent);
            n += c->place[i].extent;
        }
    free(bytes);
    if (!copy)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    bytes = copy;
    *out = bytes;
    *size = n;
    return RFG_OK;
}

/* ---- what of a set is looked at: all of it, or, quickly, all but the inside of large inputs, of which there are
 * samples --------------------------------------------------------------------------------------------------------- */

/* Calls fn for each stretch [from, to) of a set, in order. */
static rfg_status each_stretch(struct rfg_case *c, bool quick,
                               rfg_status (*fn)(struct rfg_case *c, void *arg, size_t from, size_t to), void *arg)
{
    size_t from = 0; /* what lies between the last stretch and here is to be looked at */
    uint64_t seed = c->params.seed ^ 0x5a3b1e;
    rfg_status st = RFG_OK;
    for (int i = 0; quick && st == RFG_OK && i < c->n_tensors; i++) {
        const struct place *p = &c->place[i];
        if (p->spec.absent || p->spec.output || p->spec.same_as || p->extent < LARGE)
            continue;
        size_t inside = p->offset + EDGE, end = p->offset + p->extent - EDGE, part = (end - inside) / PIECES;
        st = fn(c, arg, from, inside);
        for (int k = 0; st == RFG_OK && k < PIECES; k++) {
            size_t at = inside + (size_t)k * part + (size_t)(rfg_random(&seed) % (part - PIECE));
            st = fn(c, arg, at, at + PIECE);
        }
        from = end;
    }
    return st == RFG_OK ? fn(c, arg, from, c->set_bytes) : st;
}

static rfg_status put_stretch(struct rfg_case *c, void *arg, size_t from, size_t to)
{
    return copy(c, *(const int *)arg, c->host, from, to, false);
}

static rfg_status get_stretch(struct rfg_case *c, void *arg, size_t from, size_t to)
{
    return fetch(c, *(const int *)arg, c->got, from, to);
}

static rfg_status compare_stretch(struct rfg_case *c, void *arg, size_t from, size_t to)
{
    bool *same = arg;
    *same = *same && !memcmp(c->got + from, c->host + from, to - from);
    return RFG_OK;
}

rfg_status rfg_case_poison_quickly(struct rfg_case *c, int set)
{
    return each_stretch(c, true, put_stretch, &set);
}

/* Every byte of a set but the outputs' elements must be as it was: guards, gaps between rows, inputs too. */
static bool only_outputs_changed(struct rfg_case *c, bool quick)
{
    bool same = true;
    for (int i = 0; i < c->n_tensors; i++) {
        const struct place *p = &c->place[i];
        for (int64_t r = 0; is_asked(c, p) && p->extent && r < p->segs; r++)
            memcpy(c->got + p->offset + (size_t)r * p->stride, c->host + p->offset + (size_t)r * p->stride, p->seg);
    }
    (void)each_stretch(c, quick, compare_stretch, &same);
    return same;
}

/* |got - expected| / bound; infinity for what no rounding explains. */
static double ratio_of(rfg_dtype dtype, double got, double expected, double allow, double *bound)
{
    double max = rfg_largest(dtype);
    if (isnan(expected) || isnan(allow))
        return isnan(got) ? 0 : INFINITY;
    if (isinf(expected))
        return got == expected ? 0 : INFINITY;
    *bound = allow + 0.5 * rfg_ulp(dtype, fabs(expected) + allow);
    if (isinf(got)) /* rounding to infinity begins half an ulp above the largest number */
        return signbit(got) == signbit(expected) && fabs(expected) + *bound > max ? 0 : INFINITY;
    if (isnan(got))
        return INFINITY;
    if (fabs(expected) > max) /* should have overflowed, unless it is close */
        return fabs(got - copysign(max, expected)) <= *bound && fabs(expected) - *bound <= max ? 0 : INFINITY;
    return fabs(got - expected) / *bound;
}

/* The same for a code `got` and its scale. Dividing by the scale takes a reciprocal and a product: four more roundings
 * to fp32. *real is what they stand for. */
static double quantised_ratio(rfg_dtype dtype, double got, double scale, double expected, double allow, double *bound,
                              double *real)
{
    bool is_nan = isnan(got) || (dtype == RFG_I8 && got == 0); /* as much of a NaN as the dtype can say */
    double most = rfg_largest(dtype), least = dtype == RFG_I8 ? -128 : -most;
    *real = got * scale;
    if (isnan(expected) || isnan(allow) || isnan(scale))
        return is_nan ? 0 : INFINITY;
    if (isinf(scale)) /* of a row with an infinity */
        return isinf(expected) ? (is_nan ? 0 : INFINITY) : got == 0 ? 0 : INFINITY;
    if (isinf(expected))
        return got == (expected > 0 ? most : least) ? 0 : INFINITY;
    double e = fmin(fmax(expected, least * scale), most * scale);
    *bound = allow + 4 * 0x1p-24 * fabs(e) + 0.5 * rfg_ulp(dtype, (fabs(e) + allow) / scale) * scale;
    return isfinite(got) ? fabs(*real - e) / *bound : INFINITY;
}

static double rounded(rfg_dtype dtype, double v)
{
    char bytes[8];
    rfg_store(bytes, dtype, 0, v);
    return rfg_load(bytes, dtype, 0);
}

struct tally {
    double first_value;
    bool varied;
};

static void check_tensor(const struct rfg_case *c, int index, const char *bytes, const char *text, struct tally *t,
                         struct rfg_check *out)
{
    const struct place *p = &c->place[index];
    const struct rfg_expected *want = &c->expected[index];
    const struct place *sp = p->spec.scaled_by ? &c->place[p->spec.scaled_by - 1] : NULL;
    for (int64_t i = 0; i < c->n_rows; i++)
        for (int64_t n = 0; n < p->cols; n++) {
            int64_t r = c->rows[i];
            double e = want->value[i * p->cols + n], allow = want->allow[i * p->cols + n], bound = 0, ratio;
            size_t place = p->offset + place_of(p, r, n), size = (size_t)rfg_format_bytes((int)p->spec.dtype, 1);
            double got = rfg_load(bytes + place, p->spec.dtype, 0);
            if (allow < 0) {
                ratio = memcmp(bytes + place, c->host + place, size) ? INFINITY : 0;
            } else if (sp) {
                size_t at = place_of(sp, sp->rows == 1 ? 0 : r, sp->rows == 1 ? 0 : n / p->spec.scale_group);
                double scale = rfg_load(bytes + sp->offset + at, sp->spec.dtype, 0);
                ratio = quantised_ratio(p->spec.dtype, got, scale, e, allow, &bound, &got);
            } else {
                ratio = ratio_of(p->spec.dtype, got, e, allow, &bound);
            }
            if (c->params.data == RFG_DATA_EXACT)
                ratio = got == rounded(p->spec.dtype, e) ? 0 : INFINITY;
            out->checked++;
            t->varied |= out->checked > 1 && isfinite(e) && e != t->first_value;
            t->first_value = e;
            if (isfinite(got) && isfinite(e)) {
                out->max_abs = fmax(out->max_abs, fabs(got - e));
                out->max_rel = fmax(out->max_rel, e != 0 ? fabs((got - e) / e) : 0);
            }
            out->max_ratio = fmax(out->max_ratio, ratio);
            if (!(ratio <= 1) && out->wrong++ == 0)
                snprintf(out->message, sizeof(out->message),
                         "%s seed=%" PRIu64 ": %s[%" PRId64 ",%" PRId64 "] is %.9g, expected %.9g, allowed +-%.3g",
                         text, c->params.seed, p->spec.name, r, n, got, e, bound);
        }
}

static rfg_status check(struct rfg_case *c, int set, bool quick, struct rfg_check *out)
{
    char text[RFG_PROBLEM_STRLEN];
    *out = (struct rfg_check){ .ok = true };
    if (!c->got && !(c->got = malloc(c->set_bytes)))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    rfg_status st = settle(c);
    if (st == RFG_OK)
        st = each_stretch(c, quick, get_stretch, &set);
    if (st != RFG_OK)
        return st;
    struct tally tally = { NAN, false };
    rfg_problem_format(&c->prob, text, sizeof(text));
    for (int i = 0; i < c->n_tensors; i++)
        if (is_asked(c, &c->place[i]) && c->place[i].extent)
            check_tensor(c, i, c->got, text, &tally, out);
    out->trivial = out->checked > 4 && !tally.varied;
    out->guard_broken = !only_outputs_changed(c, quick);
    out->ok = !out->wrong && !out->guard_broken && !out->trivial;
    size_t at = strlen(out->message);
    if (out->wrong)
        snprintf(out->message + at, sizeof(out->message) - at, " (%" PRId64 " of %" PRId64 " wrong)", out->wrong,
                 out->checked);
    at = strlen(out->message);
    if (out->guard_broken)
        snprintf(out->message + at, sizeof(out->message) - at,
                 "%s%s seed=%" PRIu64 ": bytes outside the output were "
                 "written",
                 at ? "; " : "", text, c->params.seed);
    at = strlen(out->message);
    if (out->trivial)
        snprintf(out->message + at, sizeof(out->message) - at, "%s%s: all expected values are alike: proves nothing",
                 at ? "; " : "", text);
    return RFG_OK;
}

rfg_status rfg_case_check(struct rfg_case *c, int set, struct rfg_check *out)
{
    return check(c, set, false, out);
}

rfg_status rfg_case_check_quickly(struct rfg_case *c, int set, struct rfg_check *out)
{
    return check(c, set, true, out);
}
