/* SPDX-License-Identifier: MIT
 *
 * Cases: tensors with guards, and their runs. (case_data.c fills them, case_check.c checks results.)
 *
 * All sets of a case hold the same data at different addresses: rotation is for the caches only, and one answer of the
 * oracle serves every set. */
#include "base/util.h"
#include "case.h"

#include <stdlib.h>
#include <string.h>

#define UNTOUCHED 0x5a /* what of an output must stay: a number */

const struct rfg_problem *rfg_case_problem(const struct rfg_case *c)
{
    return &c->prob;
}

const struct rfg_problem *rfg_case_as_called(const struct rfg_case *c)
{
    return &c->as_called;
}

rfg_context *rfg_case_context(const struct rfg_case *c)
{
    return c->ctx;
}

int rfg_case_sets(const struct rfg_case *c)
{
    return c->n_sets;
}

double rfg_case_upload_s(const struct rfg_case *c)
{
    return c->upload_s;
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

/* ---- making a case ----------------------------------------------------------------------------------------------- */

static size_t align_up(size_t n, size_t a)
{
    return (n + a - 1) & ~(a - 1);
}

static void measure(struct place *p)
{
    const struct rfg_tensor_spec *s = &p->spec;
    int d = (int)s->dtype;
    int64_t inner = s->ndim == 3 ? s->shape[1] : 1;
    p->cols = s->ndim == 1 ? 1 : s->shape[s->ndim - 1];
    p->rows = s->shape[0] * inner;
    p->segs = s->ndim == 1 ? 1 : s->column_major ? p->cols : s->shape[0];
    p->seg = (size_t)rfg_format_bytes(d, s->column_major || s->ndim == 1 ? p->rows : inner * p->cols);
    p->stride = s->ndim == 1 || s->column_major ? p->seg : (size_t)rfg_format_bytes(d, s->row_stride);
    p->extent = p->segs && p->seg ? (size_t)(p->segs - 1) * p->stride + p->seg : 0;
}

/* Bytes from a tensor's first element to the one in row r and column i, or to its block. */
size_t rfg_case_place_of(const struct place *p, int64_t r, int64_t i)
{
    const struct rfg_format *f = rfg_format((int)p->spec.dtype);
    if (p->spec.column_major)
        return (size_t)i * p->stride + (size_t)(r / f->elements * f->bytes);
    int64_t inner = p->spec.ndim == 3 ? p->spec.shape[1] : p->spec.ndim == 1 ? p->rows : 1;
    return (size_t)(r / inner) * p->stride + (size_t)((r % inner * p->cols + i) / f->elements * f->bytes);
}

/* Whether the tensors' bytes fit an address space, so that 64 bits can count them. */
static bool countable(const struct rfg_op_case *of, const struct rfg_problem *prob)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    double bytes = 0;
    for (int i = of->tensors(prob, spec) - 1; i >= 0; i--) {
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

/* Lays out the tensors of a set, each by its alignment key, and writes the resulting alignment to the problem (a row
 * stride may allow less). */
static void lay_out(struct rfg_case *c)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    uintptr_t bits[RFG_MAX_KEYS] = { 0 };
    c->n_tensors = c->of->tensors(&c->prob, spec);
    for (int i = 0; i < c->n_tensors; i++) {
        struct place *p = &c->place[i];
        int key = spec[i].align_key;
        p->spec = spec[i];
        if (spec[i].absent) /* of no format, maybe */
            continue;
        size_t size = (size_t)rfg_format((int)spec[i].dtype)->bytes, align = key >= 0 ? (size_t)c->prob.v[key] : 16;
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
rfg_status rfg_case_copy(const struct rfg_case *c, int set, char *bytes, size_t from, size_t to, bool back)
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
    return rfg_case_copy(c, set, c->host, 0, c->set_bytes, false);
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

size_t rfg_rotate_bytes(const struct rfg_device *dev)
{
    size_t cache = (size_t)dev->cache_bytes, twice = 2 * cache,
           most = twice > (size_t)1 << 30 ? twice : (size_t)1 << 30;
    return dev->platform == RFG_PLATFORM_CPU ? twice : 2 * twice < most ? 2 * twice : most;
}

/* Keeps as many sets as fit a quarter of the device's memory: the rest is for other programs and the context itself. */
static rfg_status limit_sets(struct rfg_case *c, size_t in)
{
    const struct rfg_device *dev = rfg_context_info(c->ctx);
    size_t total = 0;
    hipError_t e = c->hip ? c->hip->hipDeviceTotalMem(&total, rfg_context_ordinal(c->ctx)) : hipSuccess;
    if (e != hipSuccess)
        return rfg_hip_fail(c->ctx, "hipDeviceTotalMem", e);
    size_t fit = total / 4 / c->set_bytes;
    if (!c->hip || (size_t)c->n_sets <= fit)
        return RFG_OK;
    fit = fit ? fit : 1;
    if (fit * in < 2 * (size_t)dev->cache_bytes)
        rfg_warn(
            "%s: %zu MiB of memory have room for %zu MiB of inputs to go round: less than twice its cache of %zu MiB, "
            "which may hold some of them while they are timed",
            dev->name, total >> 20, fit * in >> 20, (size_t)dev->cache_bytes >> 20);
    c->n_sets = (int)fit;
    return RFG_OK;
}

static rfg_status make_sets(struct rfg_case *c)
{
    size_t in = 0;
    for (int i = 0; i < c->n_tensors; i++)
        in += c->place[i].spec.output ? 0 : c->place[i].extent;
    c->n_sets = 1;
    /* The number of sets. Small problems need many, except on the emulator, which has no cache. Inputs so small that
     * 2048 sets of them fit a cache are in the cache in an engine too: the kernel that wrote them left them there. */
    size_t most = rfg_context_info(c->ctx)->platform == RFG_PLATFORM_EMU ? 256 : 2048;
    if (c->params.rotate_bytes && in && !c->params.fenced) {
        c->n_sets = (int)(c->params.rotate_bytes / in < most ? c->params.rotate_bytes / in + 1 : most);
        rfg_status st = limit_sets(c, in);
        if (st != RFG_OK)
            return st;
    }
    c->tensors = calloc((size_t)c->n_sets, sizeof(*c->tensors));
    if (!c->tensors)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %d sets", c->n_sets);
    rfg_status st = c->params.fenced ? fence(c) : make_arena(c);
    for (int s = 0; st == RFG_OK && s < c->n_sets; s++) {
        for (int i = 0; i < c->n_tensors; i++)
            if (!c->place[i].spec.absent && !c->place[i].spec.on_request)
                c->tensors[s][i] = rfg_case_tensor_at(&c->place[i], at(c, s, c->place[i].offset));
        st = upload(c, s);
    }
    return st;
}

/* Whether the oracle computes this output, and whether the harness compares the last run's with it. */
static bool is_output(const struct place *p)
{
    return p->spec.output && !p->spec.absent;
}
bool rfg_case_is_asked(const struct rfg_case *c, const struct place *p)
{
    return is_output(p) && (!p->spec.on_request || c->asked);
}

/* Which rows of output t are asked for: all; or the first, the last, and random ones between; of outputs with equally
 * many rows the same. */
static bool choose_rows(struct rfg_case *c, int t, uint64_t *seed)
{
    struct rfg_expected *e = &c->expected[t];
    int64_t all = c->place[t].rows, asked = c->params.check_rows;
    for (int i = 0; i < t; i++)
        if (is_output(&c->place[i]) && c->place[i].rows == all) {
            e->rows = c->expected[i].rows;
            e->n_rows = c->expected[i].n_rows;
            return true;
        }
    int64_t n = asked && asked < all ? asked : all, *rows = c->rows[t] = malloc((size_t)(n + 1) * sizeof(*rows));
    for (int64_t i = 0; rows && i < n; i++)
        rows[i] = n == all ? i : i == 0 ? 0 : i == 1 ? all - 1 : (int64_t)(rfg_random(seed) % (uint64_t)all);
    e->rows = rows;
    e->n_rows = n;
    return rows != NULL;
}

/* Allocates the oracle's answer; *empty: some output has no element, so there is none. */
static rfg_status expect(struct rfg_case *c, bool *empty)
{
    bool room = true;
    uint64_t seed = c->params.seed ^ 0x5eed;
    for (int i = 0; i < c->n_tensors; i++) {
        if (!c->place[i].spec.absent)
            c->host_tensors[i] = rfg_case_tensor_at(&c->place[i], c->host + c->place[i].offset);
        *empty |= is_output(&c->place[i]) && !c->place[i].extent;
    }
    for (int i = 0; !*empty && room && i < c->n_tensors; i++) {
        struct rfg_expected *e = &c->expected[i];
        if (!is_output(&c->place[i]))
            continue;
        room = choose_rows(c, i, &seed);
        if (c->place[i].spec.by_predicate)
            continue;
        size_t n = (size_t)(e->n_rows * c->place[i].cols + 1);
        e->value = malloc(n * sizeof(double));
        e->allow = malloc(n * sizeof(double));
        room &= e->value && e->allow;
    }
    return room ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for the oracle's answer");
}

/* Once for all ranks. */
static rfg_status ask_oracle(struct rfg_case *const *cases, int n)
{
    rfg_tensor(*host)[RFG_MAX_TENSORS] = calloc((size_t)n, sizeof(*host));
    struct rfg_expected(*expected)[RFG_MAX_TENSORS] = calloc((size_t)n, sizeof(*expected));
    bool empty = false;
    rfg_status st = RFG_OK;
    if (!host || !expected)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %d ranks", n);
    for (int r = 0; r < n && st == RFG_OK; r++) {
        st = expect(cases[r], &empty);
        memcpy(host[r], cases[r]->host_tensors, sizeof(*host));
        memcpy(expected[r], cases[r]->expected, sizeof(*expected));
    }
    /* Empty outputs: the public functions do nothing then, and nothing is written. */
    if (st == RFG_OK && !empty)
        st = cases[0]->of->oracle(&cases[0]->prob, host[0], expected[0]);
    free(host);
    free(expected);
    return st;
}

/* Bytes that must stay unchanged hold a number: a NaN could be mistaken for a kernel's result. (In place they are the
 * input's.) */
static void mark_untouched(struct rfg_case *c)
{
    for (int t = 0; t < c->n_tensors; t++) {
        const struct place *p = &c->place[t];
        const struct rfg_expected *e = &c->expected[t];
        for (int64_t i = 0; e->allow && !p->spec.same_as && i < e->n_rows * p->cols; i++)
            if (e->allow[i] < 0)
                memset(c->host + p->offset + rfg_case_place_of(p, e->rows[i / p->cols], i % p->cols), UNTOUCHED,
                       (size_t)rfg_format_bytes((int)p->spec.dtype, 1));
    }
}

/* A rank's case with its data, without the oracle's answer. */
static rfg_status begin(rfg_context *ctx, int rank, const struct rfg_op_case *of, const struct rfg_problem *prob,
                        const struct rfg_case_params *params, struct rfg_case **out)
{
    struct rfg_case *c = *out = calloc(1, sizeof(*c));
    if (!c)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory");
    c->ctx = ctx;
    c->hip = rfg_context_hip(ctx);
    c->rank = rank;
    c->prob = *prob;
    c->of = of;
    c->params = *params;
    lay_out(c);
    c->as_called = c->prob;
    if (c->of->as_called)
        c->of->as_called(&c->as_called);
    c->kargs = calloc(1, prob->op->kargs_size);
    c->host = aligned_alloc(4096, c->set_bytes);
    if (!c->host || !c->kargs || !rfg_case_make_data(c))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    return RFG_OK;
}

rfg_status rfg_case_create_ranks(rfg_context *const *ctx, int n, const struct rfg_problem *prob,
                                 const struct rfg_case_params *params, struct rfg_case **out)
{
    char text[RFG_PROBLEM_STRLEN];
    const struct rfg_op_case *of = params->of ? params->of : rfg_op_case_of(prob->op);
    rfg_status st = RFG_OK;
    memset(out, 0, (size_t)n * sizeof(struct rfg_case *));
    if (!of)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "harness: %s is not in the registry", prob->op->name);
    int ranks = of->ranks ? of->ranks(prob) : 1;
    if (n != ranks)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "harness: %s: %d contexts: must be %d",
                        rfg_problem_format(prob, text, sizeof(text)), n, ranks);
    struct rfg_reason why;
    if (of->can_make && !of->can_make(prob, &why))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "harness: %s", why.text);
    if (!countable(of, prob))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: %s: its tensors are too large for any memory",
                        rfg_problem_format(prob, text, sizeof(text)));
    for (int r = 0; r < n && st == RFG_OK; r++)
        st = begin(ctx[r], r, of, prob, params, &out[r]);
    if (st == RFG_OK)
        st = ask_oracle(out, n);
    for (int r = 0; r < n && st == RFG_OK; r++)
        if ((st = make_current(out[r])) == RFG_OK) {
            mark_untouched(out[r]);
            double start = rfg_now();
            st = make_sets(out[r]);
            out[r]->upload_s = rfg_now() - start;
        }
    for (int r = 0; r < n && st != RFG_OK; r++)
        rfg_case_destroy(&out[r]);
    return st;
}

rfg_status rfg_case_create(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_case_params *params,
                           struct rfg_case **out)
{
    return rfg_case_create_ranks(&ctx, 1, prob, params, out);
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
    for (int i = 0; i < RFG_MAX_TENSORS; i++)
        free(c->rows[i]);
    for (int i = 0; i < RFG_MAX_TENSORS; i++) {
        free(c->expected[i].value);
        free(c->expected[i].allow);
    }
    free(c->kargs);
    free(c);
}

/* ---- running and checking ---------------------------------------------------------------------------------------- */

rfg_status rfg_case_settle(const struct rfg_case *c)
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
    return e == hipSuccess ? rfg_case_settle(c) : rfg_hip_fail(c->ctx, "hipMemsetD8Async", e);
}

/* Runs with a workspace of exactly the bytes that the variant asked for. */
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
        st = rfg_case_settle(c);
    if (st == RFG_OK && c->hip)
        st = counters(c);
    rfg_fenced_free(c->ctx, &space);
    return st;
}

rfg_status rfg_case_pack(const struct rfg_case *c, const rfg_tensor *tensors, const struct rfg_plan *plan, void *kargs)
{
    const struct rfg_problem *prob = rfg_plan_problem(plan);
    for (int i = 0; i < c->n_tensors; i++) {
        int key = c->place[i].spec.align_key;
        if (!c->place[i].spec.absent && key >= 0 && prob->v[key] > c->prob.v[key])
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "harness: %s=%d of the plan: %s has %d",
                            c->prob.op->keys[key].name, (int)prob->v[key], c->place[i].spec.name, (int)c->prob.v[key]);
    }
    c->of->pack(&c->prob, tensors, kargs);
    return RFG_OK;
}

static rfg_status run(struct rfg_case *c, const rfg_tensor *tensors, const struct rfg_plan *plan, rfg_stream stream)
{
    rfg_status st = rfg_case_pack(c, tensors, plan, c->kargs);
    if (st != RFG_OK)
        return st;
    return c->params.fenced ? run_fenced(c, plan, stream) : rfg_plan_launch(c->ctx, plan, c->kargs, stream);
}

rfg_status rfg_case_run(struct rfg_case *c, int set, const struct rfg_plan *plan, rfg_stream stream)
{
    c->asked = false;
    return plan ? run(c, c->tensors[set], plan, stream) : c->of->call(c->ctx, &c->prob, c->tensors[set], stream);
}

rfg_status rfg_case_run_ranks(struct rfg_case *const *cases, int n, int set, const rfg_stream *streams)
{
    rfg_tensor(*t)[RFG_MAX_TENSORS] = calloc((size_t)n, sizeof(*t));
    rfg_context **ctx = calloc((size_t)n, sizeof(*ctx));
    rfg_status st = RFG_OK;
    if (!t || !ctx)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %d ranks", n);
    for (int r = 0; r < n && st == RFG_OK; r++) {
        cases[r]->asked = false;
        ctx[r] = cases[r]->ctx;
        memcpy(t[r], cases[r]->tensors[set], sizeof(*t));
    }
    if (st == RFG_OK)
        st = cases[0]->of->call_ranks(ctx, &cases[0]->prob, t[0], streams);
    free(t);
    free(ctx);
    return st;
}

rfg_status rfg_case_run_checked(struct rfg_case *c, int set, const struct rfg_plan *plan, rfg_stream stream)
{
    rfg_tensor tensors[RFG_MAX_TENSORS];
    if (!plan)
        return rfg_case_run(c, set, plan, stream);
    memcpy(tensors, c->tensors[set], sizeof(tensors));
    for (int i = 0; i < c->n_tensors; i++)
        if (is_output(&c->place[i]))
            tensors[i] = rfg_case_tensor_at(&c->place[i], at(c, set, c->place[i].offset));
    c->asked = true;
    return run(c, tensors, plan, stream);
}

rfg_status rfg_case_poison(struct rfg_case *c, int set)
{
    return upload(c, set);
}
