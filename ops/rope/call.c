/* SPDX-License-Identifier: MIT
 *
 * rfg_op_rope, rfg_op_kv_append and rfg_op_rope_append: what they refuse, and the problem of a call. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/view.h"
#include "rope.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

/* Everything about a call that its checks found out. */
struct facts {
    struct rfg_view q_out, k_out, k_cache, v_cache, q, k, v, cos_sin, positions, slots, q_norm, k_norm, k_scale,
        v_scale;
    int64_t tokens, hq, hkv, d, dv, r, page;
    bool older_vllm, in_place;
};

static bool is_older_vllm(const struct rope_call *c)
{
    return c->k_cache && c->k_cache->ndim == 5;
}

/* ---- heads ------------------------------------------------------------------------------------------------------ */

#define RULE 32
static const char *of(char *buf, const struct rfg_view *v, const char *what)
{
    snprintf(buf, RULE, "%s's %s", v->name, what);
    return buf;
}

/* From a head to the last, kernels count in 32 bits. */
static rfg_status check_reach(const struct rfg_view *v, const char *fn, int dim)
{
    int64_t n = v->begin == v->end ? 0 : v->t->shape[dim] - 1, stride = v->t->strides[dim];
    return n <= 0 || stride <= RFG_MAX_STRIDE / n
               ? RFG_OK
               : BAD("%s: %s has stride %" PRId64
                     " in dimension %d: from its first head to the last must be at most %d",
                     fn, v->name, stride, dim, RFG_MAX_STRIDE);
}

/* q, k or v; the first of them says what the others' dtype, tokens and elements must be. */
static rfg_status check_heads(struct rfg_view *v, const struct rope_call *c, const char *name, const rfg_tensor *t,
                              const struct rfg_view *first, bool same_d)
{
    char rule[RULE];
    rfg_status st;
    if ((st = rfg_check_view(v, c->fn, name, t, 3, true)))
        return st;
    if (first) {
        if ((st = rfg_check_dtype(v, c->fn, first->t->dtype, of(rule, first, "dtype, "))) ||
            (st = rfg_check_size(v, c->fn, 0, first->t->shape[0], of(rule, first, "tokens"))))
            return st;
    } else if (t->dtype != RFG_BF16 && t->dtype != RFG_F16) {
        return BAD("%s: %s is %s: must be bf16 or f16", c->fn, name, rfg_dtype_name(t->dtype));
    }
    if (first && same_d && (st = rfg_check_size(v, c->fn, 2, first->t->shape[2], of(rule, first, "elements"))))
        return st;
    if ((st = check_reach(v, c->fn, 1)))
        return st;
    if (t->shape[2] < 1 || t->shape[2] > ROPE_MAX_D)
        return BAD("%s: %s has heads of %" PRId64 " elements: must be from 1 to %d", c->fn, name, t->shape[2],
                   ROPE_MAX_D);
    return RFG_OK;
}

/* An output of the shape and dtype of its input. */
static rfg_status check_rotated(struct rfg_view *v, const struct rope_call *c, const char *name, const rfg_tensor *t,
                                const struct rfg_view *in)
{
    char rule[RULE];
    rfg_status st;
    if ((st = rfg_check_view(v, c->fn, name, t, 3, true)) ||
        (st = rfg_check_dtype(v, c->fn, in->t->dtype, of(rule, in, "dtype, "))))
        return st;
    for (int i = 0; i < 3; i++)
        if ((st = rfg_check_size(v, c->fn, i, in->t->shape[i], of(rule, in, "size"))))
            return st;
    return (st = check_reach(v, c->fn, 1)) ? st : rfg_check_distinct(v, c->fn);
}

static rfg_status check_inputs(const struct rope_call *c, struct facts *f)
{
    bool append = c->op != &rfg_op_rope_desc, rotate = c->op != &rfg_op_kv_append_desc;
    const char *fn = c->fn;
    rfg_status st;
    if (!append && !c->q && !c->k)
        return BAD("%s: q is NULL, and k: there must be one of them", fn);
    if (!append && !c->q != !c->q_out)
        return BAD("%s: %s is NULL: q and q_out go together", fn, c->q ? "q_out" : "q");
    if (!append && !c->k != !c->k_out)
        return BAD("%s: %s is NULL: k and k_out go together", fn, c->k ? "k_out" : "k");
    const struct rfg_view *first = rotate && (append || c->q) ? &f->q : NULL;
    if (first && (st = check_heads(&f->q, c, "q", c->q, NULL, false)))
        return st;
    if ((append || c->k) && (st = check_heads(&f->k, c, "k", c->k, first, true)))
        return st;
    if (append && (st = check_heads(&f->v, c, "v", c->v, &f->k, false)))
        return st;
    if (append && (st = rfg_check_size(&f->v, fn, 1, c->k->shape[1], "k's heads")))
        return st;
    if (first && (st = check_rotated(&f->q_out, c, "q_out", c->q_out, &f->q)))
        return st;
    if (!append && c->k && (st = check_rotated(&f->k_out, c, "k_out", c->k_out, &f->k)))
        return st;
    const rfg_tensor *any = c->k ? c->k : c->q;
    f->tokens = any->shape[0];
    f->d = any->shape[2];
    f->hq = first ? c->q->shape[1] : 0;
    f->hkv = c->k ? c->k->shape[1] : 0;
    f->dv = append ? c->v->shape[2] : f->d;
    double rows = (double)f->hq + (append ? 2 : 1) * (double)f->hkv, d = (double)(f->d > f->dv ? f->d : f->dv);
    if (rows * (double)f->tokens > RFG_MAX_SIZE || rows * d > RFG_MAX_STRIDE)
        return BAD("%s: %s has %" PRId64
                   " tokens, all %.0f heads: tokens times heads, and heads times elements, must be "
                   "at most %d",
                   fn, c->k ? "k" : "q", f->tokens, rows, RFG_MAX_SIZE);
    return RFG_OK;
}

/* ---- angles ----------------------------------------------------------------------------------------------------- */

static rfg_status check_sections(const struct rope_call *c, const struct facts *f, int64_t axes)
{
    int64_t sum = 0;
    for (int i = 0; i < axes; i++) {
        if (c->rope.sections[i] < 0)
            return BAD("%s: sections[%d] is %" PRId32 ": must be 0 or above", c->fn, i, c->rope.sections[i]);
        sum += c->rope.sections[i];
    }
    if (sum != f->r / 2)
        return BAD("%s: sections sum to %" PRId64 ": with positions of %" PRId64 " axes they must sum to R/2, %" PRId64,
                   c->fn, sum, axes, f->r / 2);
    return RFG_OK;
}

static rfg_status check_angles(const struct rope_call *c, struct facts *f)
{
    const rfg_tensor *p = c->positions, *like = c->q ? c->q : c->k;
    const char *fn = c->fn;
    rfg_status st;
    if ((st = rfg_check_view(&f->cos_sin, fn, "cos_sin", c->cos_sin, 2, true)))
        return st;
    if (c->cos_sin->dtype != RFG_F32 &&
        (st = rfg_check_dtype(&f->cos_sin, fn, like->dtype, "f32 or the heads' dtype, ")))
        return st;
    f->r = c->cos_sin->shape[1];
    if (f->r < 2 || f->r % 2 || f->r > f->d)
        return BAD("%s: cos_sin has %" PRId64 " columns: must be even, from 2 to the heads' %" PRId64 " elements", fn,
                   f->r, f->d);
    if (c->cos_sin->shape[0] > 1 && (c->cos_sin->strides[0] < f->r || c->cos_sin->strides[0] > RFG_MAX_STRIDE))
        return BAD("%s: cos_sin has row stride %" PRId64 ": must be at least its %" PRId64 " columns and at most %d",
                   fn, c->cos_sin->strides[0], f->r, RFG_MAX_STRIDE);
    int dims = p && p->ndim == 2 ? 2 : 1;
    if ((st = rfg_check_view(&f->positions, fn, "positions", p, dims, true)))
        return st;
    if (p->dtype != RFG_I32 && p->dtype != RFG_I64)
        return BAD("%s: positions is %s: must be i32 or i64", fn, rfg_dtype_name(p->dtype));
    if ((st = rfg_check_size(&f->positions, fn, dims - 1, f->tokens, "the heads' tokens")))
        return st;
    if (dims == 2 && (p->shape[0] < 2 || p->shape[0] > 4))
        return BAD("%s: positions has %" PRId64 " axes: must be 2 to 4, or have one dimension", fn, p->shape[0]);
    if (dims == 2 && (p->strides[0] < f->tokens || p->strides[0] > RFG_MAX_STRIDE))
        return BAD("%s: positions has row stride %" PRId64 ": must be at least its %" PRId64 " columns and at most %d",
                   fn, p->strides[0], f->tokens, RFG_MAX_STRIDE);
    if (dims == 1 && c->rope.mrope_interleaved)
        return BAD("%s: mrope_interleaved is %d: must be 0, positions has one dimension", fn,
                   (int)c->rope.mrope_interleaved);
    if (dims == 2 && c->rope.mrope_interleaved && p->shape[0] != 3)
        return BAD("%s: positions has %" PRId64 " axes: with mrope_interleaved must be 3", fn, p->shape[0]);
    return dims == 2 ? check_sections(c, f, p->shape[0]) : RFG_OK;
}

static rfg_status check_norm(const struct rope_call *c, struct facts *f)
{
    const rfg_tensor *wq = c->p.q_norm, *wk = c->p.k_norm;
    rfg_dtype dtype = wq && wq->dtype == RFG_F32 ? RFG_F32 : c->q ? c->q->dtype : RFG_DTYPE_NONE;
    rfg_status st;
    if (!wq != !wk)
        return BAD("%s: %s is NULL: q_norm and k_norm go together", c->fn, wq ? "k_norm" : "q_norm");
    if ((st = rfg_check_vector(&f->q_norm, c->fn, "q_norm", wq, dtype, f->d, "the heads' elements")) ||
        (st = rfg_check_vector(&f->k_norm, c->fn, "k_norm", wk, wk ? wk->dtype : RFG_DTYPE_NONE, f->d,
                               "the heads' elements")) ||
        (st = wk ? rfg_check_dtype(&f->k_norm, c->fn, dtype, "q_norm's dtype, ") : RFG_OK))
        return st;
    if (!isfinite(c->p.eps) || (c->p.eps != 0 && c->p.eps < FLT_MIN))
        return BAD("%s: eps is %g: must be finite and at least 2^-126, or 0: 1e-6", c->fn, (double)c->p.eps);
    if (!wq && (c->p.eps > 0 || c->p.one_plus_weight))
        return BAD("%s: eps is %g, one_plus_weight %d: must be 0, q_norm and k_norm are NULL", c->fn, (double)c->p.eps,
                   (int)c->p.one_plus_weight);
    return RFG_OK;
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

static rfg_status check_scale(struct rfg_view *v, const struct rope_call *c, const struct facts *f, const char *name,
                              const rfg_tensor *t)
{
    bool heads = t && t->ndim == 1 && t->shape[0] != 1;
    rfg_status st = rfg_check_vector(v, c->fn, name, t, RFG_F32, heads ? f->hkv : 1, "1 or k's heads");
    if (st == RFG_OK && t && rfg_format_bytes((int)c->k_cache->dtype, 1) != 1)
        return BAD("%s: %s is given, and k_cache is %s: only 8-bit caches have scales", c->fn, name,
                   rfg_dtype_name(c->k_cache->dtype));
    return st;
}

/* k [blocks,Hkv,D/x,page,x], v [blocks,Hkv,Dv,page]. */
static rfg_status check_older_vllm(const struct rope_call *c, struct facts *f)
{
    const char *fn = c->fn;
    int64_t x = rfg_format_elements((int)c->k_cache->dtype, 16);
    rfg_status st;
    f->page = c->k_cache->shape[3];
    if (f->d % x)
        return BAD("%s: k has heads of %" PRId64 " elements: k_cache of 5 dimensions needs a multiple of %" PRId64, fn,
                   f->d, x);
    if ((st = rfg_check_size(&f->k_cache, fn, 1, f->hkv, "k's heads")) ||
        (st = rfg_check_size(&f->k_cache, fn, 2, f->d / x, "D / x")) ||
        (st = rfg_check_size(&f->k_cache, fn, 4, x, "16 bytes' worth")) ||
        (st = rfg_check_size(&f->v_cache, fn, 0, c->k_cache->shape[0], "k_cache's blocks")) ||
        (st = rfg_check_size(&f->v_cache, fn, 1, f->hkv, "k's heads")) ||
        (st = rfg_check_size(&f->v_cache, fn, 2, f->dv, "v's elements")))
        return st;
    return rfg_check_size(&f->v_cache, fn, 3, f->page, "k_cache's page");
}

static rfg_status check_caches(const struct rope_call *c, struct facts *f)
{
    const char *fn = c->fn;
    rfg_status st;
    f->older_vllm = is_older_vllm(c);
    if ((st = rfg_check_view(&f->k_cache, fn, "k_cache", c->k_cache, f->older_vllm ? 5 : 4, true)) ||
        (st = rfg_check_view(&f->v_cache, fn, "v_cache", c->v_cache, 4, true)))
        return st;
    rfg_dtype dtype = c->k_cache->dtype;
    if (dtype != c->k->dtype && dtype != RFG_E4M3 && dtype != RFG_E4M3FNUZ && dtype != RFG_E5M2)
        return BAD("%s: k_cache is %s: must be k's dtype, %s, or e4m3, e4m3fnuz or e5m2", fn, rfg_dtype_name(dtype),
                   rfg_dtype_name(c->k->dtype));
    if ((st = rfg_check_dtype(&f->v_cache, fn, dtype, "k_cache's dtype, ")))
        return st;
    if (f->older_vllm) {
        if ((st = check_older_vllm(c, f)))
            return st;
    } else {
        f->page = c->k_cache->shape[1];
        if ((st = rfg_check_size(&f->k_cache, fn, 2, f->hkv, "k's heads")) ||
            (st = rfg_check_size(&f->k_cache, fn, 3, f->d, "k's elements")) ||
            (st = rfg_check_size(&f->v_cache, fn, 0, c->k_cache->shape[0], "k_cache's blocks")) ||
            (st = rfg_check_size(&f->v_cache, fn, 1, f->page, "k_cache's page")) ||
            (st = rfg_check_size(&f->v_cache, fn, 2, f->hkv, "k's heads")) ||
            (st = rfg_check_size(&f->v_cache, fn, 3, f->dv, "v's elements")))
            return st;
    }
    if (f->page < 1 || f->page > ROPE_MAX_PAGE || f->page & (f->page - 1))
        return BAD("%s: k_cache has pages of %" PRId64 " rows: must be a power of two, at most %d", fn, f->page,
                   ROPE_MAX_PAGE);
    int heads = f->older_vllm ? 1 : 2;
    if ((st = check_reach(&f->k_cache, fn, heads)) || (st = check_reach(&f->v_cache, fn, heads)) ||
        (st = rfg_check_distinct(&f->k_cache, fn)) || (st = rfg_check_distinct(&f->v_cache, fn)) ||
        (st = rfg_check_view(&f->slots, fn, "slots", c->slots, 1, true)) ||
        (st = rfg_check_dtype(&f->slots, fn, RFG_I64, "")) ||
        (st = rfg_check_size(&f->slots, fn, 0, f->tokens, "k's tokens")) ||
        (st = check_scale(&f->k_scale, c, f, "k_scale", c->p.k_scale)))
        return st;
    return check_scale(&f->v_scale, c, f, "v_scale", c->p.v_scale);
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

static rfg_status check_apart(const struct rope_call *c, const struct facts *f)
{
    const struct rfg_view *out[] = { &f->q_out, &f->k_out, &f->k_cache, &f->v_cache };
    const struct rfg_view *all[] = { &f->q,     &f->k,      &f->v,       &f->cos_sin, &f->positions,
                                     &f->slots, &f->q_norm, &f->k_norm,  &f->k_scale, &f->v_scale,
                                     &f->q_out, &f->k_out,  &f->k_cache, &f->v_cache };
    const struct rfg_view *own[] = { &f->q, &f->k, NULL, NULL };
    for (int o = 0; o < 4; o++)
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
            rfg_status st = all[i] == out[o] ? RFG_OK : rfg_check_apart(out[o], c->fn, all[i], all[i] == own[o]);
            if (st)
                return st;
        }
    return RFG_OK;
}

/* What pointers and strides are multiples of, as the widest access of 16 bytes of q sees it: of 8-bit caches as many
 * elements are half as many bytes. */
static int64_t alignment(const struct facts *f, bool codes)
{
    uintptr_t bits = f->q.bits | f->k.bits | f->v.bits | f->q_out.bits | f->k_out.bits | f->cos_sin.bits |
                     f->q_norm.bits | f->k_norm.bits,
              cache = f->k_cache.bits | (f->older_vllm ? 0 : f->v_cache.bits);
    return rfg_alignment(bits | (codes ? 2 * cache : cache));
}

static void problem_of(const struct rope_call *c, const struct facts *f, struct rfg_problem *prob)
{
    const rfg_rope_append_params *p = &c->p;
    bool append = c->op != &rfg_op_rope_desc, rotate = c->op != &rfg_op_kv_append_desc;
    bool codes = append && rfg_format_bytes((int)c->k_cache->dtype, 1) == 1;
    int64_t *v = prob->v;
    *prob = (struct rfg_problem){ .op = c->op };
    prob->dtype[0] = (uint8_t)(c->q ? c->q : c->k)->dtype;
    if (rotate)
        prob->dtype[1] = (uint8_t)c->positions->dtype;
    prob->dtype[rotate ? 2 : 1] = append ? (uint8_t)c->k_cache->dtype : prob->dtype[0];
    v[ROPE_T] = f->tokens;
    v[ROPE_D] = f->d;
    v[ROPE_HQ] = f->hq;
    v[ROPE_HKV] = f->hkv;
    v[ROPE_ALIGN] = alignment(f, codes);
    if (append) {
        bool heads = (p->k_scale && p->k_scale->shape[0] > 1) || (p->v_scale && p->v_scale->shape[0] > 1);
        v[ROPE_DV] = f->dv == f->d ? 0 : f->dv;
        v[ROPE_PAGE] = f->page;
        v[ROPE_SCALES] = heads ? ROPE_SCALES_HEAD : p->k_scale || p->v_scale ? ROPE_SCALES_TENSOR : ROPE_SCALES_NONE;
        v[ROPE_FORM] = f->older_vllm ? ROPE_FORM_VLLM : ROPE_FORM_NHD;
    }
    if (!rotate)
        return;
    v[ROPE_R] = f->r == f->d ? 0 : f->r;
    v[ROPE_PAIRS] = c->rope.gptj != 0;
    v[ROPE_LAST] = c->rope.last && f->r < f->d;
    v[ROPE_AXES] = c->positions->ndim == 2 ? c->positions->shape[0] : 0;
    v[ROPE_MROPE] = v[ROPE_AXES] && c->rope.mrope_interleaved;
    v[ROPE_TABLE] = c->cos_sin->dtype == prob->dtype[0] ? 0 : (int64_t)c->cos_sin->dtype;
    v[ROPE_BACKWARD] = c->rope.backward != 0;
    v[ROPE_INPLACE] =
        (!c->q || rfg_view_same(&f->q_out, &f->q)) && (append || !c->k || rfg_view_same(&f->k_out, &f->k));
    if (!p->q_norm)
        return;
    v[ROPE_NORM] = p->one_plus_weight ? ROPE_NORM_1W : ROPE_NORM_W;
    v[ROPE_WTYPE] = p->q_norm->dtype == prob->dtype[0] ? 0 : (int64_t)p->q_norm->dtype;
}

static struct rope_heads heads_of(const rfg_tensor *t)
{
    return t ? (struct rope_heads){ t->data, t->shape[0] > 1 ? t->strides[0] : 0, t->shape[1] > 1 ? t->strides[1] : 0 }
             : (struct rope_heads){ 0 };
}

static struct rope_cache cache_of(const rfg_tensor *t, bool older_vllm)
{
    /* Which dimensions are row and head; v's rows are the last one. */
    int row = older_vllm ? t->ndim - (t->ndim == 5 ? 2 : 1) : 1, head = older_vllm ? 1 : 2;
    return (struct rope_cache){ t->data, t->strides[0], t->strides[row], t->strides[head] };
}

void rope_fill_args(const struct rope_call *c, struct rope_args *a)
{
    const rfg_tensor *any = c->k ? c->k : c->q, *p = c->positions;
    const rfg_rope_append_params *ap = &c->p;
    *a = (struct rope_args){ .q = heads_of(c->q),
                             .k = heads_of(c->k),
                             .v = heads_of(c->v),
                             .q_out = heads_of(c->q_out),
                             .k_out = heads_of(c->k_out),
                             .tokens = (int)any->shape[0],
                             .hq = c->q ? (int)c->q->shape[1] : 0,
                             .hkv = c->k ? (int)c->k->shape[1] : 0,
                             .d = (int)any->shape[2],
                             .dv = c->v ? (int)c->v->shape[2] : 0 };
    if (c->k_cache) {
        bool older = is_older_vllm(c);
        int64_t page = c->k_cache->shape[older ? 3 : 1];
        a->k_cache = cache_of(c->k_cache, older);
        a->v_cache = cache_of(c->v_cache, older);
        a->k_chunk = older ? c->k_cache->strides[2] : 1;
        a->v_chunk = older ? c->v_cache->strides[2] : 1;
        a->slots = c->slots->data;
        a->n_slots = c->k_cache->shape[0] * page;
        a->page_shift = __builtin_ctzll((unsigned long long)page);
        a->k_scale = ap->k_scale ? ap->k_scale->data : NULL;
        a->v_scale = ap->v_scale ? ap->v_scale->data : NULL;
        a->k_scale_stride = ap->k_scale && ap->k_scale->shape[0] > 1;
        a->v_scale_stride = ap->v_scale && ap->v_scale->shape[0] > 1;
    }
    if (!p)
        return;
    a->cos_sin = c->cos_sin->data;
    a->table_rows = c->cos_sin->shape[0];
    a->table_stride = c->cos_sin->shape[0] > 1 ? (int)c->cos_sin->strides[0] : 0;
    a->r = (int)c->cos_sin->shape[1];
    a->rotated = c->rope.last ? a->d - a->r : 0;
    a->sin_sign = c->rope.backward ? -1.0f : 1.0f;
    a->positions = p->data;
    a->axes = p->ndim == 2 ? (int)p->shape[0] : 0;
    a->axis_stride = p->ndim == 2 ? p->strides[0] : 0;
    for (int i = 0; i < 4; i++)
        a->sections[i] = i < a->axes ? c->rope.sections[i] : 0;
    a->q_norm = ap->q_norm ? ap->q_norm->data : NULL;
    a->k_norm = ap->k_norm ? ap->k_norm->data : NULL;
    a->eps = ap->eps > 0 ? ap->eps : 1e-6f;
    a->inverse_d = 1.0f / (float)a->d;
    a->weight_offset = ap->one_plus_weight ? 1.0f : 0.0f;
}

static rfg_status run(rfg_context *ctx, const struct rope_call *c, rfg_stream stream)
{
    struct facts f = { 0 };
    struct rfg_problem prob;
    struct rope_args a;
    rfg_status st;
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", c->fn);
    if ((st = check_inputs(c, &f)))
        return st;
    if (c->op != &rfg_op_kv_append_desc && ((st = check_angles(c, &f)) || (st = check_norm(c, &f))))
        return st;
    if (c->op != &rfg_op_rope_desc && (st = check_caches(c, &f)))
        return st;
    if ((st = check_apart(c, &f)))
        return st;
    if (f.tokens == 0 || f.hq + f.hkv == 0)
        return RFG_OK;
    problem_of(c, &f, &prob);
    rope_fill_args(c, &a);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

/* ---- the public functions --------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_rope_params, sections);
RFG_PARAMS_END(rfg_kv_append_params, v_scale);
RFG_PARAMS_END(rfg_rope_append_params, v_scale);

rfg_status rfg_op_rope(rfg_context *ctx, const rfg_tensor *q_out, const rfg_tensor *k_out, const rfg_tensor *q,
                       const rfg_tensor *k, const rfg_tensor *cos_sin, const rfg_tensor *positions,
                       const rfg_rope_params *params, rfg_stream stream)
{
    struct rope_call c = { .fn = "rfg_op_rope",
                           .op = &rfg_op_rope_desc,
                           .q_out = q_out,
                           .k_out = k_out,
                           .q = q,
                           .k = k,
                           .cos_sin = cos_sin,
                           .positions = positions };
    rfg_status st = RFG_TAKE_PARAMS(c.fn, rfg_rope_params, &c.rope, params);
    return st ? st : run(ctx, &c, stream);
}

rfg_status rfg_op_kv_append(rfg_context *ctx, const rfg_tensor *k_cache, const rfg_tensor *v_cache, const rfg_tensor *k,
                            const rfg_tensor *v, const rfg_tensor *slots, const rfg_kv_append_params *params,
                            rfg_stream stream)
{
    struct rope_call c = { .fn = "rfg_op_kv_append",
                           .op = &rfg_op_kv_append_desc,
                           .k_cache = k_cache,
                           .v_cache = v_cache,
                           .k = k,
                           .v = v,
                           .slots = slots };
    rfg_kv_append_params p = { 0 };
    rfg_status st = RFG_TAKE_PARAMS(c.fn, rfg_kv_append_params, &p, params);
    c.p.k_scale = p.k_scale;
    c.p.v_scale = p.v_scale;
    return st ? st : run(ctx, &c, stream);
}

rfg_status rfg_op_rope_append(rfg_context *ctx, const rfg_tensor *q_out, const rfg_tensor *k_cache,
                              const rfg_tensor *v_cache, const rfg_tensor *q, const rfg_tensor *k, const rfg_tensor *v,
                              const rfg_tensor *cos_sin, const rfg_tensor *positions, const rfg_tensor *slots,
                              const rfg_rope_append_params *params, rfg_stream stream)
{
    struct rope_call c = { .fn = "rfg_op_rope_append",
                           .op = &rfg_op_rope_append_desc,
                           .q_out = q_out,
                           .k_cache = k_cache,
                           .v_cache = v_cache,
                           .q = q,
                           .k = k,
                           .v = v,
                           .cos_sin = cos_sin,
                           .positions = positions,
                           .slots = slots };
    rfg_status st = RFG_TAKE_PARAMS(c.fn, rfg_rope_append_params, &c.p, params);
    if (!st)
        st = RFG_TAKE_STRUCT(c.fn, "rope", rfg_rope_params, &c.rope, c.p.rope);
    return st ? st : run(ctx, &c, stream);
}
