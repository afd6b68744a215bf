/* SPDX-License-Identifier: MIT
 *
 * rfg_op_rope, rfg_op_kv_append and rfg_op_rope_append: what their tensors must be, and the problem of a call, whose
 * rules are rope.c's. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "rope.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum { Q, K, V, Q_OUT, K_OUT, COS_SIN, POSITIONS, Q_NORM, K_NORM, K_CACHE, V_CACHE, SLOTS, K_SCALE, V_SCALE, TENSORS };
#define HEADS TENSORS /* q, or else k */

enum { TOKENS = 1, HQ, HKV, D, DV, R, AXES, BLOCKS, PAGE, CHUNKS, CHUNK };
static const struct rfg_axis axes[] = {
    [TOKENS] = { "tokens", 0, 0 },
    [HQ] = { "heads", 0, 0 },
    [HKV] = { "heads", 0, 0 },
    [D] = { "elements of a head", 1, ROPE_MAX_D },
    [DV] = { "elements of a head", 1, ROPE_MAX_D },
    [R] = { "rotated elements of a head", 2, ROPE_MAX_D },
    [AXES] = { "axes", 2, 4 },
    [BLOCKS] = { "blocks", 0, 0 },
    [PAGE] = { "page", 1, ROPE_MAX_PAGE },
    [CHUNKS] = { "D / x", 0, 0 },
    [CHUNK] = { "16 bytes' worth", 0, 0 },
};

enum { ROTATES = 1, APPENDS = 2, BY_AXES = 4, OLDER_VLLM = 8, EACH_TOKEN = 16 };
#define HALVES RFG_HALF_FORMATS
#define CODES  (RFG_8_BIT_FLOATS | RFG_DTYPE(I8) | RFG_DTYPE(I4))
#define SCALES (RFG_VIEW | RFG_ANY_LAST | RFG_OUT)

/* clang-format off */
static const struct rfg_tensor_rule rules[] = {
    { "q", Q, RFG_VIEW, 3, { TOKENS, HQ, D }, HALVES, .reach = 2, .if_set = ROTATES | APPENDS },
    { "q", Q, RFG_VIEW | RFG_OPTIONAL, 3, { TOKENS, HQ, D }, RFG_FLOAT_FORMATS, .reach = 2, .if_set = ROTATES,
      .if_clear = APPENDS },
    { "k", K, RFG_VIEW | RFG_LIKE_ALONE, 3, { TOKENS, HKV, D }, HALVES, Q + 1, .reach = 2, .if_set = APPENDS },
    { "k", K, RFG_VIEW | RFG_LIKE_ALONE | RFG_OPTIONAL, 3, { TOKENS, HKV, D }, RFG_FLOAT_FORMATS, Q + 1, .reach = 2,
      .if_clear = APPENDS },
    { "v", V, RFG_VIEW, 3, { TOKENS, HKV, DV }, 0, K + 1, .reach = 2, .if_set = APPENDS },
    { "q_out", Q_OUT, RFG_VIEW | RFG_OUT | RFG_OPTIONAL, 3, { TOKENS, HQ, D }, 0, Q + 1, .same = Q + 1, .with = Q + 1,
      .reach = 2, .if_set = ROTATES },
    { "k_out", K_OUT, RFG_VIEW | RFG_OUT | RFG_OPTIONAL, 3, { TOKENS, HKV, D }, 0, K + 1, .same = K + 1,
      .with = K + 1, .reach = 2, .if_clear = APPENDS },
    { "cos_sin", COS_SIN, 0, 2, { 0, R }, RFG_DTYPE(F32), HEADS + 1, .if_set = ROTATES },
    { "positions", POSITIONS, 0, 1, { TOKENS }, RFG_INDEX_FORMATS, .if_set = ROTATES,
      .if_clear = BY_AXES },
    { "positions", POSITIONS, 0, 2, { AXES, TOKENS }, RFG_INDEX_FORMATS, .if_set = ROTATES | BY_AXES },
    { "q_norm", Q_NORM, RFG_OPTIONAL, 1, { D }, RFG_DTYPE(F32), Q + 1, .with = K_NORM + 1 },
    { "k_norm", K_NORM, RFG_OPTIONAL, 1, { D }, 0, Q_NORM + 1 },
    { "k_cache", K_CACHE, RFG_VIEW | RFG_OUT, 4, { BLOCKS, PAGE, HKV, D }, CODES, K + 1, .reach = 3,
      .if_set = APPENDS, .if_clear = OLDER_VLLM },
    { "k_cache", K_CACHE, RFG_VIEW | RFG_OUT, 5, { BLOCKS, HKV, CHUNKS, PAGE, CHUNK }, CODES, K + 1, .reach = 2,
      .if_set = APPENDS | OLDER_VLLM },
    { "v_cache", V_CACHE, RFG_VIEW | RFG_OUT, 4, { BLOCKS, PAGE, HKV, DV }, 0, K_CACHE + 1, .reach = 3,
      .if_set = APPENDS, .if_clear = OLDER_VLLM },
    { "v_cache", V_CACHE, RFG_VIEW | RFG_OUT, 4, { BLOCKS, HKV, DV, PAGE }, 0, K_CACHE + 1, .reach = 2,
      .if_set = APPENDS | OLDER_VLLM },
    { "slots", SLOTS, 0, 1, { TOKENS }, RFG_DTYPE(I64), .if_set = APPENDS },
    { "k_scale", K_SCALE, RFG_OPTIONAL, 1, { HKV | RFG_OR_ONE }, RFG_DTYPE(F32), .if_set = APPENDS,
      .if_clear = EACH_TOKEN },
    { "v_scale", V_SCALE, RFG_OPTIONAL, 1, { HKV | RFG_OR_ONE }, RFG_DTYPE(F32), .if_set = APPENDS,
      .if_clear = EACH_TOKEN },
    { "k_scale", K_SCALE, SCALES, 3, { BLOCKS, PAGE, HKV }, RFG_DTYPE(F32), .if_set = APPENDS | EACH_TOKEN },
    { "v_scale", V_SCALE, SCALES, 3, { BLOCKS, PAGE, HKV }, RFG_DTYPE(F32), .if_set = APPENDS | EACH_TOKEN },
};
/* clang-format on */

static bool is_older_vllm(const struct rope_call *c)
{
    return c->k_cache && c->k_cache->ndim == 5;
}

static rfg_status check_tensors(const struct rope_call *c, struct rfg_tensors *t)
{
    bool older = is_older_vllm(c);
    t->facts = (c->op != &rfg_op_kv_append_desc ? ROTATES : 0) | (c->op != &rfg_op_rope_desc ? APPENDS : 0) |
               (c->positions && c->positions->ndim == 2 ? BY_AXES : 0) | (older ? OLDER_VLLM : 0);
    const rfg_tensor *scale = c->p.k_scale ? c->p.k_scale : c->p.v_scale;
    t->facts |= scale && scale->ndim > 1 ? EACH_TOKEN : 0;
    if (!c->q && !c->k && !(t->facts & APPENDS))
        return BAD("%s: q is NULL, and k: there must be one of them", c->fn);
    if (older && c->k && c->k->ndim == 3) {
        int64_t x = rfg_format_elements((int)c->k_cache->dtype, 16);
        rfg_set_axis(t, CHUNKS, x ? c->k->shape[2] / x : 0);
        rfg_set_axis(t, CHUNK, x);
    }
    rfg_status st = rfg_check_tensors(t, rules, RFG_RULES(rules));
    for (int i = K_SCALE; !st && t->facts & EACH_TOKEN && t->facts & APPENDS && i <= V_SCALE; i++)
        for (int n = 0; n < 3; n++)
            if (t->o[i].t->shape[n] > 1 && t->o[i].t->strides[n] > INT32_MAX)
                return BAD("%s: %s has stride %" PRId64 " in dimension %d: must be at most %d", c->fn, t->o[i].name,
                           t->o[i].t->strides[n], n, INT32_MAX);
    return st ? st : rfg_check_overlaps(t);
}

/* ---- params ------------------------------------------------------------------------------------------------------ */

static rfg_status check_params(const struct rope_call *c, const struct rfg_tensors *t)
{
    int64_t sum = 0, n = t->facts & BY_AXES ? rfg_size(t, AXES) : 0;
    for (int i = 0; i < n; i++) {
        if (c->rope.sections[i] < 0)
            return BAD("%s: sections[%d] is %" PRId32 ": must be 0 or above", c->fn, i, c->rope.sections[i]);
        sum += c->rope.sections[i];
    }
    if (n && sum != rfg_size(t, R) / 2)
        return BAD("%s: sections sum to %" PRId64 ": with positions of %" PRId64 " axes they must sum to R/2, %" PRId64,
                   c->fn, sum, n, rfg_size(t, R) / 2);
    if (c->rope.reserved)
        return BAD("%s: reserved is %" PRId32 ": must be 0", c->fn, c->rope.reserved);
    if (c->rope.offset && c->rope.last)
        return BAD("%s: offset is %" PRId32 ": must be 0 with last", c->fn, c->rope.offset);
    int64_t rest = rfg_size(t, D) - rfg_size(t, R); /* below 0: refused with the problem */
    if (c->rope.offset < 0 || (rest >= 0 && c->rope.offset > rest))
        return BAD("%s: offset is %" PRId32 ": must be from 0 to %" PRId64 ", D less cos_sin's columns", c->fn,
                   c->rope.offset, rest);
    if (!isfinite(c->p.eps) || (c->p.eps != 0 && c->p.eps < FLT_MIN))
        return BAD("%s: eps is %g: must be finite and at least 2^-126, or 0: 1e-6", c->fn, (double)c->p.eps);
    if (!c->p.q_norm && (c->p.eps > 0 || c->p.one_plus_weight))
        return BAD("%s: eps is %g, one_plus_weight %d: must be 0, q_norm and k_norm are NULL", c->fn, (double)c->p.eps,
                   (int)c->p.one_plus_weight);
    return RFG_OK;
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

/* What pointers and strides are multiples of, as the widest access of 16 bytes of q sees it: of 8-bit caches as many
 * elements are half as many bytes, of i4 a quarter. */
static int64_t alignment(const struct rfg_tensors *t, int shrunk)
{
    const struct rfg_operand *o = t->o;
    uintptr_t bits = o[Q].bits | o[K].bits | o[V].bits | o[Q_OUT].bits | o[K_OUT].bits | o[COS_SIN].bits |
                     o[Q_NORM].bits | o[K_NORM].bits,
              cache = o[K_CACHE].bits | (t->facts & OLDER_VLLM ? 0 : o[V_CACHE].bits);
    return rfg_alignment(bits | (uintptr_t)shrunk * cache);
}

static void problem_of(const struct rope_call *c, const struct rfg_tensors *t, struct rfg_problem *prob)
{
    const rfg_rope_append_params *p = &c->p;
    const struct rfg_operand *o = t->o;
    bool append = t->facts & APPENDS, rotate = t->facts & ROTATES;
    int shrunk = !append ? 1 : (int)(16 / rfg_format_bytes((int)c->k_cache->dtype, 8));
    int64_t *v = prob->v;
    *prob = (struct rfg_problem){ .op = c->op };
    prob->dtype[0] = (uint8_t)o[HEADS].t->dtype;
    if (rotate)
        prob->dtype[1] = (uint8_t)c->positions->dtype;
    prob->dtype[rotate ? 2 : 1] = append ? (uint8_t)c->k_cache->dtype : prob->dtype[0];
    v[ROPE_T] = rfg_size(t, TOKENS);
    v[ROPE_D] = rfg_size(t, D);
    v[ROPE_HQ] = rfg_size(t, HQ);
    v[ROPE_HKV] = rfg_size(t, HKV);
    v[ROPE_ALIGN] = alignment(t, shrunk);
    if (append) {
        bool heads = (p->k_scale && o[K_SCALE].cols > 1) || (p->v_scale && o[V_SCALE].cols > 1);
        v[ROPE_DV] = rfg_size(t, DV) == rfg_size(t, D) ? 0 : rfg_size(t, DV);
        v[ROPE_PAGE] = rfg_size(t, PAGE);
        v[ROPE_SCALES] = t->facts & EACH_TOKEN      ? ROPE_SCALES_TOKEN
                         : heads                    ? ROPE_SCALES_HEAD
                         : p->k_scale || p->v_scale ? ROPE_SCALES_TENSOR
                                                    : ROPE_SCALES_NONE;
        v[ROPE_FORM] = t->facts & OLDER_VLLM ? ROPE_FORM_VLLM : ROPE_FORM_NHD;
    }
    if (!rotate)
        return;
    v[ROPE_R] = rfg_size(t, R) == rfg_size(t, D) ? 0 : rfg_size(t, R);
    v[ROPE_PAIRS] = c->rope.gptj != 0;
    int64_t rest = rfg_size(t, D) - rfg_size(t, R);
    v[ROPE_LAST] = rest > 0 && (c->rope.last || c->rope.offset == rest);
    v[ROPE_OFFSET] = v[ROPE_LAST] ? 0 : c->rope.offset;
    v[ROPE_AXES] = t->facts & BY_AXES ? rfg_size(t, AXES) : 0;
    v[ROPE_MROPE] = c->rope.mrope_interleaved != 0;
    v[ROPE_TABLE] = c->cos_sin->dtype == prob->dtype[0] ? 0 : (int64_t)c->cos_sin->dtype;
    v[ROPE_BACKWARD] = c->rope.backward != 0;
    v[ROPE_INPLACE] = o[Q_OUT].begin == o[Q].begin && (append || o[K_OUT].begin == o[K].begin);
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
    int by = rfg_format((int)t->dtype)->elements; /* in a byte, of i4 */
    return (struct rope_cache){ t->data, t->strides[0] / by, t->strides[row] / by, t->strides[head] / by };
}

/* Strides of scales: a head's is returned; those of a token's, to step. */
static int scale_strides(const rfg_tensor *t, int step[2])
{
    if (!t || t->ndim == 1)
        return t && t->shape[0] > 1;
    for (int i = 0; i < 2; i++)
        step[i] = t->shape[i] > 1 ? (int)t->strides[i] : 0;
    return t->shape[2] > 1 ? (int)t->strides[2] : 0;
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
        a->k_scale_stride = scale_strides(ap->k_scale, a->k_scale_step);
        a->v_scale_stride = scale_strides(ap->v_scale, a->v_scale_step);
    }
    if (!p)
        return;
    a->cos_sin = c->cos_sin->data;
    a->table_rows = c->cos_sin->shape[0];
    a->table_stride = c->cos_sin->shape[0] > 1 ? (int)c->cos_sin->strides[0] : 0;
    a->r = (int)c->cos_sin->shape[1];
    a->rotated = c->rope.last ? a->d - a->r : c->rope.offset;
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
    const rfg_tensor *const all[] = { c->q,       c->k,         c->v,         c->q_out,     c->k_out,
                                      c->cos_sin, c->positions, c->p.q_norm,  c->p.k_norm,  c->k_cache,
                                      c->v_cache, c->slots,     c->p.k_scale, c->p.v_scale, c->q ? c->q : c->k };
    struct rfg_tensors t;
    struct rfg_problem prob;
    struct rope_args a;
    rfg_status st;
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", c->fn);
    rfg_tensors_begin(&t, c->fn, axes, all, HEADS + 1);
    t.interleaved = true;
    t.o[HEADS].name = c->q ? "q" : "k";
    if ((st = check_tensors(c, &t)) || (st = check_params(c, &t)))
        return st;
    problem_of(c, &t, &prob);
    if (prob.v[ROPE_T] == 0 || prob.v[ROPE_HQ] + prob.v[ROPE_HKV] == 0)
        return rfg_check_problem(c->fn, &prob);
    rope_fill_args(c, &a);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

/* ---- the public functions --------------------------------------------------------------------------------------- */

RFG_PARAMS_END(rfg_rope_params, reserved);
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
