/* SPDX-License-Identifier: MIT
 *
 * The oracle of rope, kv_append and rope_append, by the formulas of rfg/rope.h: element by element, from the inputs. */
#include <math.h>
#include <stdlib.h>

#include "ops/oracle.h"
#include "rope_case.h"

#define ULP 0x1p-24 /* half an ulp of fp32, relative */

struct oracle {
    const struct rfg_problem *prob;
    struct rope_views w;
    int64_t *token_of; /* the token of each slot, -1: none */
    double *scaling;   /* 1 / root mean square of each head of q, then of k, by token */
};

struct value {
    double v, off; /* how far off it may be */
};

static double load(const rfg_tensor *t, int64_t token, int64_t head, int64_t d)
{
    return rfg_load(t->data, t->dtype, token * t->strides[0] + head * t->strides[1] + d);
}

/* Element d of a head of q (part 0) or k (1), normalised if the problem says so. */
static struct value element(const struct oracle *o, int part, int64_t token, int64_t head, int64_t d)
{
    const int64_t *v = o->prob->v;
    const rfg_tensor *w = &o->w.t[part ? ROPE_T_K_NORM : ROPE_T_Q_NORM];
    struct value r = { load(&o->w.t[part ? ROPE_T_K : ROPE_T_Q], token, head, d), 0 };
    if (!v[ROPE_NORM])
        return r;
    double weight = rfg_load(w->data, w->dtype, d) + (v[ROPE_NORM] == ROPE_NORM_1W ? 1 : 0);
    r.v *= o->scaling[token * (v[ROPE_HQ] + v[ROPE_HKV]) + (part ? v[ROPE_HQ] : 0) + head] * weight;
    /* The sum's roundings count by half; the reciprocal root, two products, 1 + w. */
    r.off = fabs(r.v) * ULP * ((double)v[ROPE_D] / 2 + 10);
    return r;
}

/* The row of the table that pair i of a token goes by; -1: none. */
static int64_t row_of_pair(const struct oracle *o, int64_t token, int64_t i)
{
    const rfg_tensor *p = &o->w.t[ROPE_T_POSITIONS];
    const int32_t *sections = o->w.rope.sections;
    int64_t axes = o->prob->v[ROPE_AXES], axis = 0;
    if (o->prob->v[ROPE_MROPE]) {
        axis = i % 3;
        if (i >= 3 * sections[axis])
            axis = 0;
    } else {
        for (int64_t left = i; axes && left >= sections[axis]; axis++)
            left -= sections[axis];
    }
    int64_t at = axis * (axes ? p->strides[0] : 0) + token;
    int64_t row = p->dtype == RFG_I64 ? ((const int64_t *)p->data)[at] : ((const int32_t *)p->data)[at];
    return row >= 0 && row < o->w.t[ROPE_T_TABLE].shape[0] ? row : -1;
}

/* Element d of a head of q or k after the rotation. *kept: it isn't rotated, nor normalised. */
static struct value rotated(const struct oracle *o, int part, int64_t token, int64_t head, int64_t d, bool *kept)
{
    const int64_t *v = o->prob->v;
    int64_t r = rope_r(o->prob), half = r / 2, first = v[ROPE_LAST] ? v[ROPE_D] - r : v[ROPE_OFFSET], at = d - first;
    const rfg_tensor *table = &o->w.t[ROPE_T_TABLE];
    struct value x = element(o, part, token, head, d);
    *kept = (at < 0 || at >= r) && !v[ROPE_NORM];
    if (at < 0 || at >= r)
        return x;
    bool gptj = v[ROPE_PAIRS], second = gptj ? at % 2 : at >= half;
    int64_t pair = gptj ? at / 2 : at % half, other = gptj ? at ^ 1 : (at + half) % r;
    struct value y = element(o, part, token, head, first + other);
    int64_t row = row_of_pair(o, token, pair);
    double c = row < 0 ? NAN : rfg_element(table, row, pair), s = row < 0 ? NAN : rfg_element(table, row, half + pair);
    if (v[ROPE_BACKWARD])
        s = -s;
    double a = x.v * c, b = (second ? 1 : -1) * y.v * s;
    double off = fabs(c) * x.off + fabs(s) * y.off + 3 * ULP * (fabs(a) + fabs(b)) + 0x1p-126;
    return (struct value){ a + b, isfinite(a + b) ? off : 0 }; /* an infinity times an error of 0 is none */
}

/* What a cache holds: in 8 bits, a code. */
static struct value cached(const struct oracle *o, int part, int64_t head, struct value x)
{
    const rfg_tensor *scales = &o->w.t[part == 1 ? ROPE_T_K_SCALE : ROPE_T_V_SCALE];
    rfg_dtype dtype = (rfg_dtype)rope_cache_dtype(o->prob);
    if (dtype == (rfg_dtype)rope_dtype(o->prob))
        return x;
    double most = rfg_largest(dtype);
    if (rope_token_scales(o->prob))
        return x;
    if (o->prob->v[ROPE_SCALES]) {
        double scale = rfg_load(scales->data, RFG_F32, scales->shape[0] > 1 ? head : 0);
        x.v /= scale;
        x.off = x.off / scale + 3 * ULP * fabs(x.v);
    }
    if (isfinite(x.v) && fabs(x.v) <= most)
        return x;
    return (struct value){ isnan(x.v) ? x.v : copysign(most, x.v), isfinite(x.off) ? x.off : 0 };
}

/* Element d of a head of q, k or v (part 0, 1, 2) as it is written. *kept: as it was read, but by v's. */
static struct value written(const struct oracle *o, int part, int64_t token, int64_t head, int64_t d, bool *kept)
{
    if (part == 2)
        return (struct value){ load(&o->w.t[ROPE_T_V], token, head, d), 0 };
    return rope_rotates(o->prob) ? rotated(o, part, token, head, d, kept) : element(o, part, token, head, d);
}

/* The scale of a head of a token. Of i4 its last four bits, 2^-19 of it, say another thing. */
static struct value scale_of(const struct oracle *o, int part, int64_t token, int64_t head)
{
    rfg_dtype dtype = (rfg_dtype)rope_cache_dtype(o->prob);
    double above = 0, below = 0, off = 0, scale;
    int64_t n = part == 2 ? rope_dv(o->prob) : o->prob->v[ROPE_D];
    bool kept;
    for (int64_t d = 0; d < n; d++) {
        struct value x = written(o, part, token, head, d, &kept);
        if (isnan(x.v))
            continue;
        above = fmax(above, x.v);
        below = fmax(below, -x.v);
        off = fmax(off, x.off);
    }
    scale = dtype == RFG_I4 ? (above + below) / 15 : fmax(above, below) / rfg_largest(dtype);
    scale = fmax(scale, (double)1e-6f);
    return (struct value){ scale, dtype == RFG_I4 ? 2 * off / 15 + scale * 0x1p-18
                                                  : off / rfg_largest(dtype) + 2 * ULP * scale };
}

static void fill_scales(const struct oracle *o, int tensor, const struct rfg_expected *e, int64_t cols)
{
    bool is_v = tensor == ROPE_T_V_SCALE;
    int64_t d = is_v ? rope_dv(o->prob) : o->prob->v[ROPE_D];
    for (int64_t r = 0; e->value && r < e->n_rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            struct rope_element at =
                rope_element_of(o->prob, is_v ? ROPE_T_V_CACHE : ROPE_T_K_CACHE, e->rows[r], c * d);
            int64_t token = o->token_of[at.at];
            struct value x = { 0, -1 };
            if (token >= 0)
                x = scale_of(o, at.part, token, at.head);
            e->value[r * cols + c] = x.v;
            e->allow[r * cols + c] = isfinite(x.v) ? x.off : 0;
        }
}

static void fill(const struct oracle *o, int tensor, const struct rfg_expected *e, int64_t cols)
{
    for (int64_t r = 0; e->value && r < e->n_rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            struct rope_element at = rope_element_of(o->prob, tensor, e->rows[r], c);
            bool cache = tensor == ROPE_T_K_CACHE || tensor == ROPE_T_V_CACHE, kept = true;
            int64_t token = cache ? o->token_of[at.at] : at.at;
            struct value x = { 0, -1 };
            if (at.part >= 0 && token >= 0)
                x = written(o, at.part, token, at.head, at.d, &kept);
            if (cache && token >= 0)
                x = cached(o, at.part, at.head, x);
            else if (kept && o->prob->v[ROPE_INPLACE])
                x.off = -1;
            if (x.off >= 0 && !isfinite(x.v))
                x.off = 0;
            e->value[r * cols + c] = x.v;
            e->allow[r * cols + c] = x.off;
        }
}

static void scale_heads(struct oracle *o)
{
    const int64_t *v = o->prob->v;
    int64_t heads = v[ROPE_HQ] + v[ROPE_HKV];
    for (int64_t i = 0; i < v[ROPE_T] * heads; i++) {
        int64_t h = i % heads;
        const rfg_tensor *x = &o->w.t[h < v[ROPE_HQ] ? ROPE_T_Q : ROPE_T_K];
        double sum = 0;
        for (int64_t d = 0; d < v[ROPE_D]; d++) {
            double f = load(x, i / heads, h < v[ROPE_HQ] ? h : h - v[ROPE_HQ], d);
            sum += f * f;
        }
        o->scaling[i] = 1 / sqrt(sum / (double)v[ROPE_D] + (double)ROPE_CASE_EPS);
    }
}

rfg_status rfg_oracle_rope(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    const int64_t *v = prob->v;
    struct oracle o = { .prob = prob };
    rope_views(prob, host, &o.w);
    int64_t slots = !rope_appends(prob) ? 0 : o.w.t[ROPE_T_SLOTS].shape[0], rows = 0;
    if (rope_appends(prob)) {
        const rfg_tensor *k = &o.w.t[ROPE_T_K_CACHE];
        rows = k->shape[0] * v[ROPE_PAGE];
    }
    o.token_of = malloc((size_t)(rows + 1) * sizeof(*o.token_of));
    o.scaling = malloc((size_t)(v[ROPE_T] * (v[ROPE_HQ] + v[ROPE_HKV]) + 1) * sizeof(*o.scaling));
    if (!o.token_of || !o.scaling) {
        free(o.token_of);
        free(o.scaling);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "oracle: no memory for %s", prob->op->name);
    }
    for (int64_t i = 0; i < rows; i++)
        o.token_of[i] = -1;
    for (int64_t i = 0; i < slots; i++) {
        int64_t slot = ((const int64_t *)host[ROPE_T_SLOTS].data)[i];
        if (slot >= 0 && slot < rows)
            o.token_of[slot] = i;
    }
    if (v[ROPE_NORM])
        scale_heads(&o);
    for (int t = ROPE_T_Q_OUT; t <= ROPE_T_V_CACHE; t++)
        fill(&o, t, &expected[t], host[t].shape[1]);
    for (int t = ROPE_T_K_SCALE; rope_token_scales(prob) && t <= ROPE_T_V_SCALE; t++)
        fill_scales(&o, t, &expected[t], host[t].shape[1]);
    free(o.token_of);
    free(o.scaling);
    return RFG_OK;
}
