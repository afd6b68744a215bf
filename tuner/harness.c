/* SPDX-License-Identifier: MIT
 *
 * Cases: tensors with guards, data from a seed, checks against the oracle.
 *
 * All sets of a case hold the same data at different addresses: rotation is about caches, and one answer of the oracle
 * serves every set. */
#include "../dispatch/util.h"
#include "harness.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD      256 /* bytes before and after each tensor */
#define GUARD_BYTE 0xa5
#define POISON     0xff /* NaN in every float format here */

struct place {
    struct rfg_tensor_spec spec;
    size_t offset;      /* of the data in a set, from the guard before it */
    size_t extent;      /* bytes from the first to the last element */
    size_t row, stride; /* bytes */
    int64_t rows;
};

struct rfg_case {
    rfg_context *ctx;
    const struct rfg_hip *hip;
    struct rfg_problem prob;
    struct rfg_case_params params;
    int n_tensors, n_sets;
    struct place place[RFG_MAX_TENSORS];
    size_t set_bytes;
    char *host; /* one set as it is before a run: inputs, poisoned outputs, guards */
    char **set; /* n_sets device (or host, on cpu) copies */
    rfg_tensor (*tensors)[RFG_MAX_TENSORS];
    rfg_tensor host_tensors[RFG_MAX_TENSORS];
    int64_t *rows, n_rows; /* of the output, that the oracle computes */
    double *expected, *magnitude;
    void *kargs;
};

const struct rfg_problem *rfg_case_problem(const struct rfg_case *c)
{
    return &c->prob;
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

/* ---- data ----------------------------------------------------------------------------------------------------------
 */

static void fill_random(struct rfg_case *c, const struct place *p, uint64_t *seed)
{
    /* Elements are drawn from a table: filling is a load and a store, whatever the format. */
    size_t size = rfg_dtype_size(p->spec.dtype);
    char *table = malloc(65536 * size);
    if (!table)
        abort();
    for (int i = 0; i < 65536; i++) {
        double v = (double)(int64_t)rfg_random(seed) * 0x1p-63;
        if (c->params.data == RFG_DATA_INTS)
            v = (double)(rfg_random(seed) % 7) - 3;
        else if (c->params.data == RFG_DATA_CANCEL)
            v *= 64;
        rfg_store(table, p->spec.dtype, i, v);
    }
    int64_t cols = (int64_t)(p->row / size);
    for (int64_t r = 0; r < p->rows; r++) {
        char *row = c->host + p->offset + (size_t)r * p->stride;
        uint64_t bits = 0;
        for (int64_t i = 0; i < cols; i++, bits >>= 16) {
            if (i % 4 == 0)
                bits = rfg_random(seed);
            if (size == 2)
                ((uint16_t *)row)[i] = ((const uint16_t *)table)[bits & 65535];
            else
                ((uint32_t *)row)[i] = ((const uint32_t *)table)[bits & 65535];
        }
    }
    free(table);
}

/* Neighbouring products cancel almost entirely, so that the result is far below its terms. */
static void make_cancelling(struct rfg_case *c, const struct place *p, bool negate)
{
    rfg_dtype d = p->spec.dtype;
    int64_t cols = (int64_t)(p->row / rfg_dtype_size(d));
    for (int64_t r = 0; r < p->rows; r++) {
        char *row = c->host + p->offset + (size_t)r * p->stride;
        for (int64_t i = 1; i < cols; i += 2)
            if (i % 32 != 1)
                rfg_store(row, d, i, (negate ? -1 : 1) * rfg_load(row, d, i - 1));
    }
}

static void sprinkle_special(struct rfg_case *c, const struct place *p, uint64_t *seed)
{
    const double values[] = {
        NAN, INFINITY, -INFINITY, -0.0, rfg_ulp(p->spec.dtype, 0), -3 * rfg_ulp(p->spec.dtype, 0)
    };
    int64_t cols = (int64_t)(p->row / rfg_dtype_size(p->spec.dtype)), n = p->rows * cols;
    for (int64_t i = 0; i < 2 + p->rows / 4 && n; i++) { /* few rows: others stay finite and are checked as ever */
        int64_t at = (int64_t)(rfg_random(seed) % (uint64_t)n);
        rfg_store(c->host + p->offset + (size_t)(at / cols) * p->stride, p->spec.dtype, at % cols,
                  values[rfg_random(seed) % 6]);
    }
}

static void make_data(struct rfg_case *c)
{
    uint64_t seed = c->params.seed;
    memset(c->host, GUARD_BYTE, c->set_bytes);
    for (int i = 0; i < c->n_tensors; i++) {
        const struct place *p = &c->place[i];
        if (p->spec.absent)
            continue;
        if (p->spec.output) {
            for (int64_t r = 0; r < p->rows; r++)
                memset(c->host + p->offset + (size_t)r * p->stride, POISON, p->row);
            continue;
        }
        fill_random(c, p, &seed);
        if (c->params.data == RFG_DATA_CANCEL)
            make_cancelling(c, p, i % 2 == 1);
        if (c->params.data == RFG_DATA_SPECIAL)
            sprinkle_special(c, p, &seed);
    }
}

/* ---- making a case
 * --------------------------------------------------------------------------------------------------- */

static size_t align_up(size_t n, size_t a)
{
    return (n + a - 1) & ~(a - 1);
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
        size_t size = rfg_dtype_size(spec[i].dtype), align = (size_t)c->prob.v[spec[i].align_key];
        p->spec = spec[i];
        if (spec[i].absent)
            continue;
        p->rows = spec[i].ndim == 1 ? 1 : spec[i].shape[0];
        p->row = (size_t)spec[i].shape[spec[i].ndim - 1] * size;
        p->stride = spec[i].ndim == 1 ? p->row : (size_t)spec[i].row_stride * size;
        p->extent = p->rows && p->row ? (size_t)(p->rows - 1) * p->stride + p->row : 0;
        size_t shift = c->params.unaligned ? size : align < 16 ? (align > size ? align : size) : 0;
        p->offset = align_up(c->set_bytes + GUARD, 256) + shift;
        c->set_bytes = p->offset + p->extent + GUARD;
        if (p->extent)
            bits[spec[i].align_key] |= p->offset | (p->rows > 1 ? p->stride : 0);
    }
    c->set_bytes = align_up(c->set_bytes, 4096);
    for (int i = 0; i < c->n_tensors; i++) {
        uintptr_t b = bits[spec[i].align_key] | 16;
        c->prob.v[spec[i].align_key] = (int64_t)(b & -b);
    }
}

static rfg_status upload(struct rfg_case *c, int set)
{
    if (!c->hip) {
        memcpy(c->set[set], c->host, c->set_bytes);
        return RFG_OK;
    }
    hipError_t e = c->hip->hipMemcpyHtoD((hipDeviceptr_t)c->set[set], c->host, c->set_bytes);
    return e == hipSuccess ? RFG_OK : rfg_hip_fail(c->ctx, "hipMemcpyHtoD", e);
}

static rfg_status make_sets(struct rfg_case *c)
{
    size_t in = 0;
    for (int i = 0; i < c->n_tensors; i++)
        in += c->place[i].spec.output ? 0 : c->place[i].extent;
    c->n_sets = 1;
    if (c->params.rotate_bytes && in)
        c->n_sets = (int)(c->params.rotate_bytes / in < 255 ? c->params.rotate_bytes / in + 1 : 256);
    c->set = calloc((size_t)c->n_sets, sizeof(*c->set));
    c->tensors = calloc((size_t)c->n_sets, sizeof(*c->tensors));
    if (!c->set || !c->tensors)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %d sets", c->n_sets);
    for (int s = 0; s < c->n_sets; s++) {
        if (c->hip) {
            void *mem;
            hipError_t e = c->hip->hipMalloc(&mem, c->set_bytes);
            if (e != hipSuccess)
                return rfg_hip_fail(c->ctx, "hipMalloc", e);
            c->set[s] = mem;
        } else if (!(c->set[s] = aligned_alloc(4096, c->set_bytes)))
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for set %d of %zu bytes", s, c->set_bytes);
        for (int i = 0; i < c->n_tensors; i++) {
            const struct place *p = &c->place[i];
            rfg_tensor *t = &c->tensors[s][i];
            if (p->spec.absent)
                continue;
            *t = p->spec.ndim == 1 ? rfg_tensor_1d(c->set[s] + p->offset, p->spec.dtype, p->spec.shape[0])
                                   : rfg_tensor_2d(c->set[s] + p->offset, p->spec.dtype, p->spec.shape[0],
                                                   p->spec.shape[1], p->spec.row_stride);
            c->host_tensors[i] = *t;
            c->host_tensors[i].data = c->host + p->offset;
        }
        rfg_status st = upload(c, s);
        if (st != RFG_OK)
            return st;
    }
    return RFG_OK;
}

static rfg_status ask_oracle(struct rfg_case *c)
{
    const struct place *y = &c->place[0];
    int64_t all = y->rows, cols = (int64_t)(y->row / rfg_dtype_size(y->spec.dtype));
    uint64_t seed = c->params.seed ^ 0x5eed;
    c->n_rows = c->params.check_rows && c->params.check_rows < all ? c->params.check_rows : all;
    c->rows = malloc((size_t)(c->n_rows + 1) * sizeof(*c->rows));
    c->expected = malloc((size_t)(c->n_rows * cols + 1) * sizeof(double));
    c->magnitude = malloc((size_t)(c->n_rows * cols + 1) * sizeof(double));
    if (!c->rows || !c->expected || !c->magnitude)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for the oracle's answer");
    for (int64_t i = 0; i < c->n_rows; i++) /* all; or the first, the last, and random ones between */
        c->rows[i] = c->n_rows == all ? i
                     : i == 0         ? 0
                     : i == 1         ? all - 1
                                      : (int64_t)(rfg_random(&seed) % (uint64_t)all);
    if (c->n_rows == 0 || cols == 0)
        return RFG_OK;
    return rfg_oracle(&c->prob, c->host_tensors, c->rows, c->n_rows, c->expected, c->magnitude);
}

rfg_status rfg_case_create(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_case_params *params,
                           struct rfg_case **out)
{
    *out = NULL;
    struct rfg_case *c = calloc(1, sizeof(*c));
    if (!c)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory");
    c->ctx = ctx;
    c->hip = rfg_context_hip(ctx);
    c->prob = *prob;
    c->params = *params;
    lay_out(c);
    rfg_status st = RFG_OK;
    c->kargs = calloc(1, prob->op->kargs_size);
    c->host = aligned_alloc(4096, c->set_bytes);
    if (!c->host || !c->kargs)
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    else if ((st = make_current(c)) == RFG_OK) {
        make_data(c);
        if ((st = make_sets(c)) == RFG_OK)
            st = ask_oracle(c);
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
    for (int s = 0; c->set && s < c->n_sets; s++) {
        if (c->hip && c->set[s])
            (void)c->hip->hipFree(c->set[s]);
        else if (!c->hip)
            free(c->set[s]);
    }
    free(c->set);
    free(c->tensors);
    free(c->host);
    free(c->rows);
    free(c->expected);
    free(c->magnitude);
    free(c->kargs);
    free(c);
}

/* ---- running and checking
 * ---------------------------------------------------------------------------------------------- */

rfg_status rfg_case_run(struct rfg_case *c, int set, const struct rfg_plan *plan, rfg_stream stream)
{
    if (!plan)
        return c->prob.op->call(c->ctx, &c->prob, c->tensors[set], stream);
    c->prob.op->pack(&c->prob, c->tensors[set], c->kargs);
    return rfg_plan_launch(c->ctx, plan, c->kargs, stream);
}

rfg_status rfg_case_poison(struct rfg_case *c, int set)
{
    return upload(c, set);
}

static rfg_status download(struct rfg_case *c, int set, char **bytes)
{
    if (!(*bytes = malloc(c->set_bytes)))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    if (!c->hip) {
        memcpy(*bytes, c->set[set], c->set_bytes);
        return RFG_OK;
    }
    rfg_status st = make_current(c);
    hipError_t e = st == RFG_OK ? c->hip->hipDeviceSynchronize() : hipSuccess;
    if (e != hipSuccess) /* of what ran, rather */
        st = rfg_hip_fail(c->ctx, "hipDeviceSynchronize", e);
    if (st == RFG_OK && (e = c->hip->hipMemcpyDtoH(*bytes, (hipDeviceptr_t)c->set[set], c->set_bytes)) != hipSuccess)
        st = rfg_hip_fail(c->ctx, "hipMemcpyDtoH", e);
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
    for (int i = 0; i < c->n_tensors; i++)
        if (c->place[i].spec.output) { /* in place: outputs come first in the buffer that is returned */
            memmove(bytes + n, bytes + c->place[i].offset, c->place[i].extent);
            n += c->place[i].extent;
        }
    *out = bytes;
    *size = n;
    return RFG_OK;
}

/* Every byte of a set but the outputs' elements must be as it was: guards, gaps between rows, inputs too. */
static bool only_outputs_changed(const struct rfg_case *c, char *got)
{
    for (int i = 0; i < c->n_tensors; i++) {
        const struct place *p = &c->place[i];
        for (int64_t r = 0; p->spec.output && p->extent && r < p->rows; r++)
            memcpy(got + p->offset + (size_t)r * p->stride, c->host + p->offset + (size_t)r * p->stride, p->row);
    }
    return !memcmp(got, c->host, c->set_bytes);
}

/* What one element may differ by. The kernel sums fp32 products in some order: the error of a sum of K terms is at most
 * (K-1) eps sum|terms|; with rounding errors of random sign it grows like sqrt(K), and sqrt(K) + 4 (the bias, the
 * split-K partials, a few ulps of bad luck) is what is allowed: a 16-bit accumulator is far outside it. Then one
 * rounding to the output dtype: half an ulp, taken where the unrounded fp32 value may lie. fp32 denormals may be
 * flushed. */
static double bound_of(const struct rfg_case *c, double expected, double magnitude, double *acc)
{
    int k = rfg_op_key(c->prob.op, "K");
    double terms = k >= 0 ? (double)c->prob.v[k] : 1;
    *acc = (sqrt(terms) + 4) * 0x1p-24 * magnitude + 0x1p-126;
    return *acc + 0.5 * rfg_ulp(c->place[0].spec.dtype, fabs(expected) + *acc);
}

static double largest(rfg_dtype d)
{
    return d == RFG_F16 ? 65504.0 : d == RFG_BF16 ? 0x1.fep127 : (double)FLT_MAX;
}

/* |got - expected| / bound; infinity for what no rounding explains. */
static double ratio_of(const struct rfg_case *c, double got, double expected, double magnitude, double *bound)
{
    double acc, max = largest(c->place[0].spec.dtype);
    if (isnan(expected) || isnan(magnitude))
        return isnan(got) ? 0 : INFINITY;
    if (isinf(expected))
        return got == expected ? 0 : INFINITY;
    *bound = bound_of(c, expected, magnitude, &acc);
    if (isinf(got)) /* rounding to infinity begins half an ulp above the largest number */
        return signbit(got) == signbit(expected) && fabs(expected) + *bound > max ? 0 : INFINITY;
    if (isnan(got))
        return INFINITY;
    if (fabs(expected) > max) /* should have overflowed, unless it is close */
        return fabs(got - copysign(max, expected)) <= *bound && fabs(expected) - *bound <= max ? 0 : INFINITY;
    return fabs(got - expected) / *bound;
}

rfg_status rfg_case_check(struct rfg_case *c, int set, struct rfg_check *out)
{
    const struct place *y = &c->place[0];
    rfg_dtype d = y->spec.dtype;
    int64_t cols = (int64_t)(y->row / rfg_dtype_size(d));
    char text[RFG_PROBLEM_STRLEN], *bytes;
    *out = (struct rfg_check){ .ok = true };
    rfg_status st = download(c, set, &bytes);
    if (st != RFG_OK)
        return st;
    double first_value = NAN;
    bool varied = false;
    rfg_problem_format(&c->prob, text, sizeof(text));
    for (int64_t i = 0; i < c->n_rows; i++)
        for (int64_t n = 0; n < cols; n++) {
            double e = c->expected[i * cols + n], bound = 0;
            double got = rfg_load(bytes + y->offset + (size_t)c->rows[i] * y->stride, d, n);
            double ratio = ratio_of(c, got, e, c->magnitude[i * cols + n], &bound);
            out->checked++;
            varied |= out->checked > 1 && isfinite(e) && e != first_value;
            first_value = e;
            if (isfinite(got) && isfinite(e)) {
                out->max_abs = fmax(out->max_abs, fabs(got - e));
                out->max_rel = fmax(out->max_rel, e != 0 ? fabs((got - e) / e) : 0);
            }
            out->max_ratio = fmax(out->max_ratio, ratio);
            if (!(ratio <= 1) && out->wrong++ == 0)
                snprintf(out->message, sizeof(out->message),
                         "%s seed=%" PRIu64 ": y[%" PRId64 ",%" PRId64 "] is %.9g, expected %.9g, allowed +-%.3g", text,
                         c->params.seed, c->rows[i], n, got, e, bound);
        }
    out->trivial = out->checked > 4 && !varied;
    out->guard_broken = !only_outputs_changed(c, bytes);
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
    free(bytes);
    return RFG_OK;
}
