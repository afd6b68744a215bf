/* SPDX-License-Identifier: MIT
 *
 * Compares the results of a case's run with the oracle, or checks them by the operator's predicate. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "case.h"

#define LARGE  (4 << 20)  /* bytes of an input that a quick check samples: */
#define EDGE   (64 << 10) /* bytes at its ends, */
#define PIECE  (16 << 10) /* and of each piece between */
#define PIECES 16

/* Bytes [from, to) of a set, after rfg_case_settle(); those that aren't on the device as they were. */
static rfg_status fetch(const struct rfg_case *c, int set, char *bytes, size_t from, size_t to)
{
    if (c->params.fenced)
        memcpy(bytes + from, c->host + from, to - from);
    return rfg_case_copy(c, set, bytes, from, to, true);
}

static rfg_status download(struct rfg_case *c, int set, char **bytes)
{
    if (!(*bytes = malloc(c->set_bytes)))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    rfg_status st = rfg_case_settle(c);
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
        if (rfg_case_is_asked(c, &c->place[i])) {
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
    return rfg_case_copy(c, *(const int *)arg, c->host, from, to, false);
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

/* Every byte of a set except the outputs' elements must be unchanged: guards, gaps between rows, inputs. */
static bool only_outputs_changed(struct rfg_case *c, bool quick)
{
    bool same = true;
    for (int i = 0; i < c->n_tensors; i++) {
        const struct place *p = &c->place[i];
        for (int64_t r = 0; rfg_case_is_asked(c, p) && p->extent && r < p->segs; r++)
            memcpy(c->got + p->offset + (size_t)r * p->stride, c->host + p->offset + (size_t)r * p->stride, p->seg);
    }
    (void)each_stretch(c, quick, compare_stretch, &same);
    return same;
}

/* |got - expected| / bound; infinity for errors that rounding can't explain. */
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
    if (dtype == RFG_E8M0) /* half a place would take the next power of two for right */
        return fabs(got - expected) <= allow ? 0 : INFINITY;
    if (fabs(expected) > max) /* should have overflowed, unless it is close */
        return fabs(got - copysign(max, expected)) <= *bound && fabs(expected) - *bound <= max ? 0 : INFINITY;
    return fabs(got - expected) / *bound;
}

/* The same for a code `got` and its scale. Dividing by the scale takes a reciprocal and a product: four more roundings
 * to fp32. *real is what they stand for. */
static double quantised_ratio(rfg_dtype dtype, double got, double scale, double expected, double allow, double *bound,
                              double *real)
{
    double most = rfg_largest(dtype), least = dtype == RFG_I8 ? -128 : -most;
    /* As much of a NaN as the dtype can say. */
    bool is_nan = isnan(got) || (dtype == RFG_I8 && got == 0) || (dtype == RFG_E2M1 && got == most);
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

/* The same of spec.from_zero. Of the range the code that stands for 0 may cut off half a step at an end. */
static double from_zero_ratio(double got, float scale, double expected, double allow, double *bound, double *real)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof(bits));
    int code = (int)got & 15, zero = (int)(bits & 15);
    bits &= ~15u;
    memcpy(&scale, &bits, sizeof(bits));
    double step = (double)scale;
    *real = (code - zero) * step;
    if (isnan(expected) || isnan(allow) || isinf(step))
        return code == zero ? 0 : INFINITY;
    *bound = allow + 4 * 0x1p-24 * fabs(expected) + (code % 15 ? 0.5 : 1) * step;
    return fabs(*real - expected) / *bound;
}

static double rounded(rfg_dtype dtype, double v)
{
    char bytes[8];
    rfg_store(bytes, dtype, 0, v);
    return rfg_load(bytes, dtype, 0);
}

static bool same_number(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && (a != 0 || !signbit(a) == !signbit(b));
}

struct tally {
    double first_value;
    int64_t values;
    bool varied;
};

static void check_tensor(const struct rfg_case *c, int index, const char *bytes, const char *text, struct tally *t,
                         struct rfg_check *out)
{
    const struct place *p = &c->place[index];
    const struct rfg_expected *want = &c->expected[index];
    const struct place *sp = p->spec.scaled_by ? &c->place[p->spec.scaled_by - 1] : NULL;
    for (int64_t i = 0; i < want->n_rows; i++)
        for (int64_t n = 0; n < p->cols; n++) {
            int64_t r = want->rows[i];
            double e = want->value[i * p->cols + n], allow = want->allow[i * p->cols + n], bound = 0, ratio;
            size_t place = p->offset + rfg_case_place_of(p, r, n),
                   size = (size_t)rfg_format_bytes((int)p->spec.dtype, 1);
            double got = rfg_load(bytes + place, p->spec.dtype, n % rfg_format((int)p->spec.dtype)->elements);
            if (allow == -INFINITY) {
                ratio = 0; /* not said */
            } else if (allow < 0) {
                ratio = memcmp(bytes + place, c->host + place, size) ? INFINITY : 0;
            } else if (sp) {
                size_t at = rfg_case_place_of(sp, sp->rows == 1 ? 0 : r, n / p->spec.scale_group);
                double scale = rfg_load(bytes + sp->offset + at, sp->spec.dtype, 0);
                ratio = p->spec.from_zero ? from_zero_ratio(got, (float)scale, e, allow, &bound, &got)
                                          : quantised_ratio(p->spec.dtype, got, scale, e, allow, &bound, &got);
            } else {
                ratio = ratio_of(p->spec.dtype, got, e, allow, &bound);
            }
            if (p->spec.exact)
                ratio = same_number(got, rounded(p->spec.dtype, e)) ? 0 : INFINITY;
            if (c->params.data == RFG_DATA_EXACT)
                ratio = got == rounded(p->spec.dtype, e) ? 0 : INFINITY;
            out->checked++;
            t->varied |= t->values++ > 0 && isfinite(e) && e != t->first_value;
            t->first_value = e;
            if (isfinite(got) && isfinite(e)) {
                out->max_abs = fmax(out->max_abs, fabs(got - e));
                out->max_rel = fmax(out->max_rel, e != 0 ? fabs((got - e) / e) : 0);
            }
            out->max_ratio = fmax(out->max_ratio, ratio);
            if (!(ratio <= 1) && out->wrong++ == 0) {
                char column[24] = "";
                if (p->spec.ndim > 1)
                    snprintf(column, sizeof(column), ",%" PRId64, n);
                snprintf(out->message, sizeof(out->message),
                         "%s seed=%" PRIu64 ": %s[%" PRId64 "%s] is %.9g, expected %.9g, allowed +-%.3g", text,
                         c->params.seed, p->spec.name, r, column, got, e, bound);
            }
        }
}

/* By the operator's predicate, row by row. */
static void check_rows(const struct rfg_case *c, int index, const rfg_tensor *got, const char *text,
                       struct rfg_check *out)
{
    const struct rfg_expected *asked = &c->expected[index];
    for (int64_t i = 0; i < asked->n_rows; i++) {
        struct rfg_reason why = { "" };
        bool right = c->of->accept(&c->prob, c->host_tensors, got, index, asked->rows[i], &why);
        out->checked += c->place[index].cols;
        if (right)
            continue;
        out->max_ratio = INFINITY;
        if (out->wrong++ == 0)
            snprintf(out->message, sizeof(out->message), "%s seed=%" PRIu64 ": %s[%" PRId64 "]: %s", text,
                     c->params.seed, c->place[index].spec.name, asked->rows[i], why.text);
    }
}

static rfg_status check(struct rfg_case *c, int set, bool quick, struct rfg_check *out)
{
    char text[RFG_PROBLEM_STRLEN];
    *out = (struct rfg_check){ .ok = true };
    if (!c->got && !(c->got = malloc(c->set_bytes)))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "harness: no memory for %zu bytes", c->set_bytes);
    rfg_status st = rfg_case_settle(c);
    if (st == RFG_OK)
        st = each_stretch(c, quick, get_stretch, &set);
    if (st != RFG_OK)
        return st;
    struct tally tally = { NAN, 0, false };
    rfg_tensor got[RFG_MAX_TENSORS] = { { 0 } };
    rfg_problem_format(&c->prob, text, sizeof(text));
    for (int i = 0; i < c->n_tensors; i++)
        if (!c->place[i].spec.absent)
            got[i] = rfg_case_tensor_at(&c->place[i], c->got + c->place[i].offset);
    for (int i = 0; i < c->n_tensors; i++)
        if (rfg_case_is_asked(c, &c->place[i]) && c->expected[i].rows) {
            if (c->place[i].spec.by_predicate)
                check_rows(c, i, got, text, out);
            else
                check_tensor(c, i, c->got, text, &tally, out);
        }
    out->trivial = tally.values > 4 && !tally.varied;
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
