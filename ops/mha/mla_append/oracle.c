/* SPDX-License-Identifier: MIT
 *
 * The oracle of mla_append, by the formulas of rfg/mla.h: a row's elements in double, and what a cache makes of them.
 * Of V32 and V4 a predicate reads the row's bytes back: more than one scale is right where the largest of a group lies
 * as close to a power of two as sums may be off. */
#include <math.h>
#include <string.h>

#include "append_case.h"
#include "ops/oracle.h"

#define ULP 0x1p-24 /* half an ulp of fp32, relative */

struct value {
    double v, off; /* how far off it may be */
};

/* The row of a token: latent, then k_rope. */
struct row {
    struct value at[MLA_MAX_D];
};

static double load(const rfg_tensor *t, int64_t row, int64_t i)
{
    return rfg_load(t->data, t->dtype, row * t->strides[0] + i);
}

/* R elements, rotated; *kept: as they were. */
static void rotate(const struct rfg_problem *prob, const struct append_views *w, int64_t token, struct value *x)
{
    const rfg_tensor *p = &w->t[APPEND_T_POSITIONS], *table = &w->t[APPEND_T_TABLE];
    int64_t r = prob->v[APPEND_R], half = r / 2;
    int64_t at = p->dtype == RFG_I64 ? ((const int64_t *)p->data)[token] : ((const int32_t *)p->data)[token];
    bool there = at >= 0 && at < table->shape[0], gptj = prob->v[APPEND_ROPE] == APPEND_ROPE_GPTJ;
    for (int64_t i = 0; i < half; i++) {
        struct value *a = &x[gptj ? 2 * i : i], *b = &x[gptj ? 2 * i + 1 : i + half], u = *a, v = *b;
        double c = there ? load(table, at, i) : NAN, s = there ? load(table, at, half + i) : NAN;
        double slack = 3 * ULP * (fabs(u.v * c) + fabs(v.v * s)) + 0x1p-126;
        *a = (struct value){ u.v * c - v.v * s, fabs(c) * u.off + fabs(s) * v.off + slack };
        slack = 3 * ULP * (fabs(v.v * c) + fabs(u.v * s)) + 0x1p-126;
        *b = (struct value){ v.v * c + u.v * s, fabs(c) * v.off + fabs(s) * u.off + slack };
    }
    for (int64_t i = 0; i < r; i++)
        if (!isfinite(x[i].v))
            x[i].off = 0;
}

static void expect_row(const struct rfg_problem *prob, const struct append_views *w, int64_t token, struct row *row)
{
    int64_t c = append_latent(prob), d = prob->v[APPEND_D], n = append_normed(prob);
    const rfg_tensor *weight = &w->t[APPEND_T_NORM];
    double sum = 0;
    for (int64_t i = 0; i < d; i++) {
        double x = i < c ? load(&w->t[APPEND_T_LATENT], token, i) : load(&w->t[APPEND_T_K_ROPE], token, i - c);
        row->at[i] = (struct value){ x, 0 };
        sum += i < n ? x * x : 0;
    }
    if (prob->v[APPEND_NORM]) {
        double scaling = 1 / sqrt(sum / (double)n + (double)APPEND_CASE_EPS);
        for (int64_t i = 0; i < n; i++) {
            struct value *x = &row->at[i];
            x->v *= scaling * rfg_load(weight->data, weight->dtype, i);
            /* The sum's roundings count by half; the reciprocal root, two products. */
            x->off = isfinite(x->v) ? fabs(x->v) * ULP * ((double)n / 2 + 10) : 0;
        }
    }
    if (prob->v[APPEND_ROPE])
        rotate(prob, w, token, row->at + c);
}

/* What a plain cache holds: in 8 bits, a code. */
static struct value cached(const struct rfg_problem *prob, const struct append_views *w, struct value x)
{
    if (prob->dtype[1] == prob->dtype[0])
        return x;
    double most = rfg_largest((rfg_dtype)prob->dtype[1]);
    if (prob->v[APPEND_SCALE]) {
        double scale = rfg_load(w->t[APPEND_T_SCALE].data, RFG_F32, 0);
        x.v /= scale;
        x.off = x.off / scale + 3 * ULP * fabs(x.v);
    }
    if (isfinite(x.v) && fabs(x.v) <= most)
        return x;
    return (struct value){ isnan(x.v) ? x.v : copysign(most, x.v), isfinite(x.off) ? x.off : 0 };
}

/* The token of a slot; -1: none. */
static int64_t token_of(const struct rfg_problem *prob, const rfg_tensor *host, int64_t slot)
{
    const int64_t *slots = host[APPEND_T_SLOTS].data;
    for (int64_t i = 0; i < prob->v[APPEND_T]; i++)
        if (slots[i] == slot)
            return i;
    return -1;
}

static void fill_cache(const struct rfg_problem *prob, const struct append_views *w, const rfg_tensor *host,
                       const struct rfg_expected *e)
{
    int64_t d = prob->v[APPEND_D];
    for (int64_t i = 0; e->value && i < e->n_rows; i++) {
        int64_t token = token_of(prob, host, e->rows[i]);
        struct row row;
        if (token >= 0)
            expect_row(prob, w, token, &row);
        for (int64_t n = 0; n < d; n++) {
            struct value x = token < 0 ? (struct value){ 0, -1 } : cached(prob, w, row.at[n]);
            e->value[i * d + n] = x.v;
            e->allow[i * d + n] = x.off;
        }
    }
}

static void fill_queries(const struct rfg_problem *prob, const struct append_views *w, const struct rfg_expected *e)
{
    int64_t r = prob->v[APPEND_R], hq = prob->v[APPEND_HQ];
    for (int64_t i = 0; e->value && i < e->n_rows; i++)
        for (int64_t h = 0; h < hq; h++) {
            struct value x[64];
            for (int64_t n = 0; n < r; n++)
                x[n] = (struct value){ load(&w->t[APPEND_T_Q], e->rows[i], h * r + n), 0 };
            rotate(prob, w, e->rows[i], x);
            for (int64_t n = 0; n < r; n++) {
                e->value[(i * hq + h) * r + n] = x[n].v;
                e->allow[(i * hq + h) * r + n] = x[n].off;
            }
        }
}

rfg_status rfg_oracle_mla_append(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    struct append_views w;
    append_views(prob, host, &w);
    fill_cache(prob, &w, host, &expected[APPEND_T_KV]);
    fill_queries(prob, &w, &expected[APPEND_T_Q_OUT]);
    return RFG_OK;
}

/* ---- V32 and V4 -------------------------------------------------------------------------------------------------- */

/* Is a value that was rounded to a step right? */
static bool close(double got, struct value want, double step)
{
    if (isnan(want.v) || isnan(got))
        return isnan(want.v) && isnan(got);
    return got == want.v || fabs(got - want.v) <= want.off + step / 2 * (1 + 0x1p-20);
}

/* The least power of two by which `largest`, at least 1e-4, is at most 448. */
static double scale_for(double largest)
{
    double scale = 0x1p-40;
    while (fmax(largest, (double)1e-4f) > 448 * scale)
        scale *= 2;
    return scale;
}

static bool accept_group(const struct value *want, const uint8_t *codes, double scale, int n, struct rfg_reason *why)
{
    double largest = 0, off = 0;
    bool infinite = false;
    for (int i = 0; i < n; i++) {
        largest = isnan(want[i].v) ? largest : fmax(largest, fabs(want[i].v));
        off = fmax(off, want[i].off);
        infinite |= isinf(want[i].v);
    }
    if (!infinite && scale != scale_for(largest) && scale != scale_for(largest - off) &&
        scale != scale_for(largest + off))
        return rfg_refuse(why, "scale %g of a group up to %g: must be %g", scale, largest, scale_for(largest));
    for (int i = 0; i < n; i++) {
        double code = rfg_load(codes, RFG_E4M3, i);
        bool right = close(code * scale, want[i], rfg_ulp(RFG_E4M3, fmin(fabs(want[i].v / scale), 448)) * scale);
        if (infinite)
            right = isinf(want[i].v) ? code == copysign(448, want[i].v) : isnan(want[i].v) ? isnan(code) : code == 0;
        if (!right)
            return rfg_refuse(why, "code %d of a group is %g, times %g: expected %.9g", i, code, scale, want[i].v);
    }
    return true;
}

/* A slot's row at `row` and its scales; the same before the call. */
static bool accept_slot(const struct rfg_problem *prob, const struct append_views *w, int64_t token, const char *row,
                        const char *scales, struct rfg_reason *why)
{
    int format = (int)prob->v[APPEND_FORMAT], group = MLA_GROUP(format), codes = MLA_CODES(format);
    struct row want;
    expect_row(prob, w, token, &want);
    for (int g = 0; g < MLA_SCALES(format); g++) {
        double scale = rfg_load(scales, format == MLA_V4 ? RFG_E8M0 : RFG_F32, g);
        if (!accept_group(want.at + g * group, (const uint8_t *)row + g * group, scale, group, why))
            return false;
    }
    if (format == MLA_V4 && scales[7])
        return rfg_refuse(why, "the byte after the scales is %d: must be 0", scales[7]);
    for (int i = 0; i < MLA_ROTATED; i++) {
        double got = rfg_load(row + MLA_ROTATED_AT(format), RFG_BF16, i), v = want.at[codes + i].v;
        if (!close(got, want.at[codes + i], isfinite(v) ? rfg_ulp(RFG_BF16, v) : 0))
            return rfg_refuse(why, "rotated element %d is %g: expected %.9g", i, got, v);
    }
    return true;
}

static bool same_bytes(const char *got, const char *before, size_t n, struct rfg_reason *why)
{
    return !memcmp(got, before, n) || rfg_refuse(why, "bytes of no slot were written");
}

bool append_accept(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                   int64_t row, struct rfg_reason *why)
{
    const rfg_tensor *kv = &got[tensor];
    struct append_views w;
    int64_t page = prob->v[APPEND_PAGE], v4_row = MLA_ROW_BYTES(MLA_V4);
    const char *at = (const char *)kv->data + row * kv->strides[0];
    const char *before = (const char *)host[tensor].data + row * kv->strides[0];
    append_views(prob, host, &w);
    if (prob->v[APPEND_FORMAT] == MLA_V32) {
        int64_t token = token_of(prob, host, row);
        return token < 0 ? same_bytes(at, before, MLA_ROW_BYTES(MLA_V32), why)
                         : accept_slot(prob, &w, token, at, at + MLA_V32_SCALES_AT, why);
    }
    for (int64_t i = 0; i < page; i++) {
        int64_t token = token_of(prob, host, row * page + i), scales = MLA_V4_SCALES_AT(page) + i * MLA_V4_SCALE_BYTES;
        bool right = token < 0 ? same_bytes(at + i * v4_row, before + i * v4_row, (size_t)v4_row, why) &&
                                     same_bytes(at + scales, before + scales, MLA_V4_SCALE_BYTES, why)
                               : accept_slot(prob, &w, token, at + i * v4_row, at + scales, why);
        if (!right)
            return false;
    }
    return true;
}
