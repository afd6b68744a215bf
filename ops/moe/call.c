/* SPDX-License-Identifier: MIT
 *
 * A mixture of experts, of the operators that it is made of: pairs sorted by expert, two grouped products, their sum
 * over slots; of codes, x and what is between the products are quantised on the way. */
#include "rfg/moe.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/util.h"
#include "ops/gemm_sum.h"
#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "rfg/quantize.h"

#define FN       "rfg_op_moe"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_moe_params, places);

enum { BLOCK = 128, GROUP = 32 }; /* columns of RFG_GEMM_SCALE_BLOCK and _GROUP */

/* A call, and where in the workspace its pieces are. */
struct moe {
    rfg_moe_params p;
    const rfg_tensor *y, *x, *w1, *w2, *ids, *weights;
    const rfg_tensor *own; /* the rows that identities add, or NULL */
    struct rfg_tensors t;
    rfg_tensor flat[2];                                 /* w1 and w2 as rows, where they are prepacked */
    int64_t tokens, top, pairs, experts, hidden, inner; /* T, k, T k, E, H, I */
    bool quantise_x, quantise_h;
    rfg_dtype codes; /* to which */
    size_t bytes;
    rfg_tensor offsets, rows, sorted, places; /* see rfg_op_moe_align() */
    rfg_tensor xq, xs, h, hq, hs, out;
};

/* clang-format off */
enum {
    Y, X, IDS, WEIGHTS, W1, W2, W1_BIAS, W2_BIAS, W1_SCALE, W2_SCALE, W1_ZERO, W2_ZERO, X_SCALE, H_SCALE, MAP,
    IDENTITY_X, W1_GLOBAL, W2_GLOBAL, ROWS, OFFSETS, SORTED, PLACES, TENSORS
};
/* clang-format on */
_Static_assert(TENSORS <= RFG_MAX_GIVEN, "there is no room for all tensors");

enum { T = 1, H, K, ROWS1, ROWS2, COLS1, COLS2 };
static const struct rfg_axis axes[] = {
    [T] = { "tokens", 0, 0 },
    [H] = { "columns", 0, 0 },
    [K] = { "experts of a token", 1, 32 },
    [ROWS1] = { "rows", 0, 0 },
    [ROWS2] = { "w1's experts times x's columns", 0, 0 },
    [COLS1] = { "x's columns, of a prepacked w1 whole blocks", 0, 0 },
    [COLS2] = { "half of an expert's rows of w1, of a prepacked w2 whole blocks", 0, 0 },
};

enum { DEEP1 = 1, DEEP2 = 2 }; /* w1, w2 are [E,N,K] */
#define ANY   ((1u << RFG_DTYPE_COUNT) - 2)
#define OTHER RFG_VIEW | RFG_ANY_LAST | RFG_OPTIONAL, 0, { 0 }, ANY

/* In the order in which they say how large the others are. */
static const struct rfg_tensor_rule of_tokens[] = {
    { "x", X, 0, 2, { T, H }, ANY },
    { "y", Y, RFG_OUT, 2, { T, H }, RFG_FLOAT_FORMATS },
    { "ids", IDS, 0, 2, { T, K }, RFG_DTYPE(I32) },
    { "weights", WEIGHTS, 0, 2, { T, K }, RFG_DTYPE(F32) },
}, of_w1[] = {
    { "w1", W1, 0, 2, { ROWS1, COLS1 }, ANY, .if_clear = DEEP1 },
    { "w1", W1, 0, 3, { ROWS1, COLS1 }, ANY, .if_set = DEEP1 },
}, of_w2[] = {
    { "w2", W2, 0, 2, { ROWS2, COLS2 }, ANY, .if_clear = DEEP2 },
    { "w2", W2, 0, 3, { ROWS2, COLS2 }, ANY, .if_set = DEEP2 },
}, others[] = { /* what they must be is for those to say that take them */
    { "w1_bias", W1_BIAS, OTHER }, { "w2_bias", W2_BIAS, OTHER }, { "w1_scale", W1_SCALE, OTHER },
    { "w2_scale", W2_SCALE, OTHER }, { "w1_zero", W1_ZERO, OTHER }, { "w2_zero", W2_ZERO, OTHER },
    { "x_scale", X_SCALE, OTHER }, { "h_scale", H_SCALE, OTHER }, { "expert_map", MAP, OTHER },
    { "identity_x", IDENTITY_X, OTHER }, { "w1_global", W1_GLOBAL, OTHER }, { "w2_global", W2_GLOBAL, OTHER },
    { "rows", ROWS, OTHER }, { "offsets", OFFSETS, OTHER }, { "sorted", SORTED, OTHER }, { "places", PLACES, OTHER },
};

/* Prepacked weights, those of all experts, as rows. What else they must be is rfg_op_gemm()'s to say. */
static rfg_status flatten(struct moe *m, int slot, const char *name)
{
    const rfg_tensor *w = m->t.o[slot].t;
    if (!w || w->ndim != 5) {
        m->t.facts |= !w || w->ndim != 3 ? 0 : slot == W1 ? DEEP1 : DEEP2;
        return RFG_OK;
    }
    const int64_t *shape = w->shape;
    if (shape[0] < 0 || shape[0] > RFG_MAX_SIZE || shape[1] < 0 || shape[1] > RFG_MAX_SIZE || shape[2] != 4 ||
        shape[3] != 16 || (shape[4] != 8 && shape[4] != 32))
        return BAD("%s is %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                   ": with 5 dimensions it must be prepacked, [E N/16, K/32, 4, 16, 8] or [E N/16, K/128, 4, 16, 32]",
                   name, shape[0], shape[1], shape[2], shape[3], shape[4]);
    int64_t cols = shape[1] * 4 * shape[4];
    m->flat[slot == W2] = rfg_tensor_2d(w->data, w->dtype, shape[0] * 16, cols, cols);
    m->t.o[slot].t = &m->flat[slot == W2];
    return RFG_OK;
}

/* Columns that weights of `cols` have as they are stored: prepacked ones are whole blocks. */
static int64_t stored_cols(const rfg_tensor *w, int64_t cols)
{
    int64_t block = w->ndim == 5 ? 4 * w->shape[4] : 1;
    return ceil_div(cols, block) * block;
}

/* The next piece of the workspace. */
static rfg_tensor piece(struct moe *m, rfg_dtype dtype, int64_t rows, int64_t cols)
{
    char *base = m->p.workspace;
    rfg_tensor t = rfg_tensor_2d(base ? base + m->bytes : NULL, dtype, rows, cols, cols);
    m->bytes += (rfg_dtype_bytes(dtype, rows * cols) + 255) / 256 * 256;
    return t;
}
static rfg_tensor list(struct moe *m, rfg_dtype dtype, int64_t n)
{
    rfg_tensor t = piece(m, dtype, 1, n);
    return rfg_tensor_1d(t.data, dtype, n);
}

/* Columns that share a scale; 0: all. */
static int64_t columns_per(const struct moe *m)
{
    return m->p.x_per == RFG_GEMM_SCALE_BLOCK ? BLOCK : m->p.x_per == RFG_GEMM_SCALE_GROUP ? GROUP : 0;
}

/* Codes of `rows` rows, and their scales. */
static void quantised(struct moe *m, rfg_tensor *q, rfg_tensor *s, int64_t rows, int64_t cols)
{
    int64_t per = columns_per(m);
    *q = piece(m, m->codes, rows, cols);
    if (m->p.x_per == RFG_GEMM_SCALE_TENSOR) /* it is the caller's */
        return;
    int64_t groups = per ? ceil_div(cols, per) : 1;
    /* Beside a prepacked w of mx formats kernels read four at once. */
    *s = piece(m, m->p.w1_scale->dtype, rows, per == GROUP ? ceil_div(groups, 4) * 4 : groups);
    s->shape[1] = groups;
}

static void lay_out(struct moe *m)
{
    rfg_dtype between = rfg_dtype_is_float(m->x->dtype) ? m->x->dtype : m->y->dtype;
    m->bytes = 0;
    m->offsets = list(m, RFG_I32, m->experts + 1);
    m->rows = list(m, RFG_I32, m->pairs);
    m->sorted = list(m, RFG_F32, m->pairs);
    m->places = piece(m, RFG_I32, m->tokens, m->top);
    if (m->p.rows) { /* the caller's; there is room for them all the same, so that all calls need as much */
        m->offsets = *m->p.offsets;
        m->rows = *m->p.rows;
        m->sorted = *m->p.sorted;
        m->places = *m->p.places;
    }
    if (m->quantise_x)
        quantised(m, &m->xq, &m->xs, m->tokens, m->hidden);
    m->h = piece(m, between, m->pairs, m->inner);
    if (m->quantise_h)
        quantised(m, &m->hq, &m->hs, m->pairs, m->inner);
    m->out = piece(m, m->y->dtype, m->pairs, m->hidden);
}

/* Are x, and the rows between the products, of 16 bits beside a w of 8? */
static bool is_w8a16(const struct moe *m)
{
    return rfg_dtype_is_code(m->w1->dtype) && m->p.x_codes == m->x->dtype && RFG_HALF_FORMATS >> m->x->dtype & 1;
}

/* What of codes must be said, or not. */
static rfg_status check_codes(struct moe *m)
{
    const rfg_moe_params *p = &m->p;
    rfg_dtype w = m->w1->dtype;
    bool mx = p->x_per == RFG_GEMM_SCALE_GROUP, as_it_is = is_w8a16(m),
         codes = (rfg_dtype_is_code(w) && !as_it_is) || mx;
    if (w != m->w2->dtype)
        return BAD("w1 is %s, w2 %s: must be of one dtype", rfg_dtype_name(w), rfg_dtype_name(m->w2->dtype));
    m->quantise_x = codes && rfg_dtype_is_float(m->x->dtype);
    m->codes = p->x_codes ? p->x_codes : m->quantise_x ? w : m->x->dtype;
    if (mx && ((w != RFG_E2M1 && w != RFG_E4M3) || (m->codes != w && m->codes != RFG_E4M3)))
        return BAD("w1 is %s, x %s, x_codes %s: must be of e2m1 or e4m3, codes of w1's or e4m3, with x_per group",
                   rfg_dtype_name(w), rfg_dtype_name(m->x->dtype), rfg_dtype_name(p->x_codes));
    if (!mx && p->x_codes && !as_it_is)
        return BAD("x_codes is %s: must be 0, x_per is not group, or x's dtype with w1 of 8 bits",
                   rfg_dtype_name(p->x_codes));
    if (as_it_is && p->x_per != RFG_GEMM_SCALE_TENSOR)
        return BAD("x_per is %d: must be RFG_GEMM_SCALE_TENSOR, x_codes is x's dtype, %s", (int)p->x_per,
                   rfg_dtype_name(p->x_codes));
    if ((int)p->rounding < 0 || (int)p->rounding > RFG_SCALE_CEIL)
        return BAD("rounding is %d: must be RFG_SCALE_UP, DOWN, EVEN or CEIL, or 0", (int)p->rounding);
    if (p->rounding && (!p->w1_scale || p->w1_scale->dtype != RFG_E8M0 || !codes))
        return BAD("rounding is %d: must be 0, nothing is quantised to scales of e8m0", (int)p->rounding);
    m->quantise_h = codes;
    if (!codes)
        return p->h_scale || p->x_scale ? BAD("%s is given: must be NULL, %s is %s", p->h_scale ? "h_scale" : "x_scale",
                                              as_it_is ? "x_codes" : "w1", rfg_dtype_name(as_it_is ? p->x_codes : w))
                                        : RFG_OK;
    if (p->x_per == RFG_GEMM_SCALE_TENSOR) /* quantised with scales that are given */
        return p->x_scale && p->h_scale ? RFG_OK
                                        : BAD("%s is NULL: must be given with x_per tensor, w1 is %s",
                                              p->x_scale ? "h_scale" : "x_scale", rfg_dtype_name(w));
    if (p->h_scale)
        return BAD("h_scale is given: must be NULL, x_per is not tensor");
    if (!p->w1_scale)
        return BAD("w1_scale is NULL: must be given, w1 is %s", rfg_dtype_name(w));
    if (mx && p->w1_scale->dtype != RFG_E8M0)
        return BAD("w1_scale is %s: must be e8m0 with x_per group", rfg_dtype_name(p->w1_scale->dtype));
    if (m->quantise_x == (p->x_scale != NULL))
        return BAD("x_scale is %s: must be %s, x is %s", p->x_scale ? "given" : "NULL", p->x_scale ? "NULL" : "given",
                   rfg_dtype_name(m->x->dtype));
    return RFG_OK;
}

static rfg_status check_tensors(struct moe *m)
{
    const rfg_moe_params *p = &m->p;
    const rfg_tensor *const all[] = { m->y,       m->x,       m->ids,        m->weights,    m->w1,        m->w2,
                                      p->w1_bias, p->w2_bias, p->w1_scale,   p->w2_scale,   p->w1_zero,   p->w2_zero,
                                      p->x_scale, p->h_scale, p->expert_map, p->identity_x, p->w1_global, p->w2_global,
                                      p->rows,    p->offsets, p->sorted,     p->places };
    struct rfg_tensors *t = &m->t;
    rfg_status st;
    rfg_tensors_begin(t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(t, of_tokens, RFG_RULES(of_tokens))) || (st = flatten(m, W1, "w1")) ||
        (st = flatten(m, W2, "w2")))
        return st;
    m->tokens = rfg_size(t, T);
    m->hidden = rfg_size(t, H);
    m->top = rfg_size(t, K);
    m->pairs = m->tokens * m->top;
    if (m->w1)
        rfg_set_axis(t, COLS1, stored_cols(m->w1, m->hidden));
    if ((st = rfg_check_tensors(t, of_w1, RFG_RULES(of_w1))))
        return st;
    m->experts = p->experts ? p->experts : m->w1->ndim == 3 ? m->w1->shape[0] : 0;
    if (m->experts < 1 || m->experts > RFG_MOE_MAX_EXPERTS)
        return BAD("experts is %" PRId64 ", w1 has %d dimensions: must be from 1 to %d, or 0 of three dimensions",
                   p->experts, m->w1->ndim, RFG_MOE_MAX_EXPERTS);
    if (rfg_size(t, ROWS1) % (2 * m->experts))
        return BAD("w1 has %" PRId64 " rows: must be 2 I of each of %" PRId64 " experts", rfg_size(t, ROWS1),
                   m->experts);
    m->inner = rfg_size(t, ROWS1) / m->experts / 2;
    rfg_set_axis(t, ROWS2, m->experts * m->hidden);
    if (m->w2)
        rfg_set_axis(t, COLS2, stored_cols(m->w2, m->inner));
    return rfg_check_tensors(t, of_w2, RFG_RULES(of_w2));
}

/* Ids that stand for the token itself: which rows those are, of y's dtype, which the sum reads. */
static rfg_status check_identity(struct moe *m)
{
    const rfg_moe_params *p = &m->p;
    if (!p->identity)
        return p->identity_x ? BAD("identity_x is given: must be NULL, identity is 0") : RFG_OK;
    m->own = p->identity_x ? p->identity_x : m->x;
    if (p->identity < 0 || m->own->dtype == m->y->dtype)
        return RFG_OK; /* what is wrong with the number is rfg_op_moe_align()'s to say */
    return BAD("%s is %s: must be y's dtype, %s, with identity%s", p->identity_x ? "identity_x" : "x",
               rfg_dtype_name(m->own->dtype), rfg_dtype_name(m->y->dtype),
               p->identity_x ? "" : ", or identity_x be given");
}

/* Pairs that are sorted. What they must be besides is for the products and the sum to say. */
static rfg_status check_sorted(const struct moe *m)
{
    const rfg_moe_params *p = &m->p;
    static const char *const names[] = { "rows", "offsets", "sorted", "places" };
    const rfg_tensor *const all[] = { p->rows, p->offsets, p->sorted, p->places };
    const int64_t size[] = { m->pairs, m->experts + 1, m->pairs, m->top };
    for (int i = 0; i < 4; i++) {
        const rfg_tensor *t = all[i];
        int dims = i == 3 ? 2 : 1;
        if (!t != !p->rows)
            return BAD("%s is %s: must be as rows, offsets, sorted and places go together", names[i],
                       t ? "given" : "NULL");
        if (t && (t->ndim != dims || t->shape[dims - 1] != size[i] || t->strides[dims - 1] != 1 ||
                  (dims == 2 && (t->shape[0] != m->tokens || (t->strides[0] != m->top && m->tokens > 1)))))
            return BAD("%s has %d dimensions, the last one of %" PRId64 ": must be packed, %s%" PRId64 "]", names[i],
                       t->ndim, t->ndim > 0 && t->ndim <= RFG_MAX_DIMS ? t->shape[t->ndim - 1] : 0,
                       dims == 2 ? "[T," : "[", size[i]);
    }
    return p->rows && (p->expert_map || p->identity)
               ? BAD("rows is given: must be NULL with %s", p->identity ? "identity" : "expert_map")
               : RFG_OK;
}

/* Fills *m. Everything but what the operators will say of the weights, scales and biases. */
static rfg_status check(struct moe *m, const rfg_moe_params *params)
{
    rfg_status st;
    if ((st = RFG_TAKE_PARAMS(FN, rfg_moe_params, &m->p, params)) || (st = check_tensors(m)))
        return st;
    if (m->pairs > RFG_MAX_SIZE)
        return BAD("ids is %" PRId64 " x %" PRId64 ": must be [T,k], T k at most %d", m->tokens, m->top, RFG_MAX_SIZE);
    if ((double)m->pairs * (double)(m->hidden + m->inner) > 0x1p56)
        return BAD("ids is %" PRId64 " x %" PRId64 ", H %" PRId64 ", I %" PRId64 ": T k (H + I) must be at most 2^56",
                   m->tokens, m->top, m->hidden, m->inner);
    if ((int)m->p.x_per < 0 || m->p.x_per > RFG_GEMM_SCALE_GROUP)
        return BAD("x_per is %d: must be RFG_GEMM_SCALE_TENSOR, ROW, BLOCK or GROUP", (int)m->p.x_per);
    if (m->p.x_per == RFG_GEMM_SCALE_GROUP && (m->hidden % GROUP || m->inner % GROUP))
        return BAD("H is %" PRId64 ", I %" PRId64 ": must be multiples of %d with x_per group", m->hidden, m->inner,
                   GROUP);
    if ((st = check_codes(m)) || (st = check_identity(m)) || (st = check_sorted(m)))
        return st;
    if ((uintptr_t)m->p.workspace % 256)
        return BAD("workspace is at %p: must be aligned to 256 bytes", m->p.workspace);
    lay_out(m);
    return RFG_OK;
}

rfg_status rfg_moe_workspace_bytes(const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w1, const rfg_tensor *w2,
                                   const rfg_tensor *ids, const rfg_tensor *weights, const rfg_moe_params *params,
                                   size_t *bytes)
{
    const rfg_tensor *t[] = { y, x, w1, w2, ids, weights };
    rfg_tensor there[6];
    rfg_status st;
    if (!bytes)
        return BAD("bytes is NULL: must be a place for a number");
    for (int i = 0; i < 6; i++)
        if (t[i]) {
            there[i] = *t[i];
            there[i].data = (void *)256; /* not looked at, but there */
            t[i] = &there[i];
        }
    struct moe m = { RFG_MOE_PARAMS_INIT, .y = t[0], .x = t[1], .w1 = t[2], .w2 = t[3], .ids = t[4], .weights = t[5] };
    if ((st = check(&m, params)))
        return st;
    *bytes = m.bytes;
    return RFG_OK;
}

static rfg_status quantise(rfg_context *ctx, const struct moe *m, const rfg_tensor *q, const rfg_tensor *s,
                           const rfg_tensor *given, const rfg_tensor *x, rfg_stream stream)
{
    rfg_quantize_params p = RFG_QUANTIZE_PARAMS_INIT;
    rfg_tensor one;
    if (m->p.x_per == RFG_GEMM_SCALE_TENSOR) {
        one = rfg_tensor_2d(given->data, given->dtype, 1, 1, 1);
        p.scale_given = 1;
        return rfg_op_quantize(ctx, q, &one, x, &p, stream);
    }
    p.group_rows = 1;
    p.group_cols = columns_per(m);
    p.rounding = s->dtype != RFG_E8M0 ? RFG_SCALE_EXACT : m->p.rounding ? m->p.rounding : RFG_SCALE_UP;
    return rfg_op_quantize(ctx, q, s, x, &p, stream);
}

/* The scales of q as the product with w wants them. */
static const rfg_tensor *scales_of(const struct moe *m, rfg_tensor *column, const rfg_tensor *s,
                                   const rfg_tensor *given, const rfg_tensor *w)
{
    if (m->p.x_per == RFG_GEMM_SCALE_TENSOR)
        return given;
    *column = *s;
    if (m->p.x_per == RFG_GEMM_SCALE_ROW)
        *column = rfg_tensor_1d(s->data, s->dtype, s->shape[0]);
    else if (w->ndim == 5)
        column->shape[1] = s->strides[0];
    return column;
}

/* An error of one of the operators, with the arguments of ours that it may be about. */
static rfg_status about(const char *arguments, rfg_status st)
{
    char text[512];
    if (st == RFG_OK)
        return st;
    snprintf(text, sizeof(text), "%s", rfg_last_error());
    return rfg_fail(st, FN ": of %s: %s", arguments, text);
}

/* Arguments that errors of the products may be about; of the second one with the sum. */
#define OF_X "x, w1, w1_scale, w1_zero, w1_global, w1_bias, x_scale, act"
#define OF_H "w2, w2_scale, w2_zero, w2_global, w2_bias, h_scale, y, residual, tokens"

/* What both products have. */
static rfg_gemm_params product_params(const struct moe *m, const rfg_tensor *x_scale, bool first)
{
    const rfg_moe_params *p = &m->p;
    rfg_gemm_params g = RFG_GEMM_PARAMS_INIT;
    g.bias = first ? p->w1_bias : p->w2_bias;
    g.w_scale = first ? p->w1_scale : p->w2_scale;
    g.w_zero = first ? p->w1_zero : p->w2_zero;
    g.w_global = first ? p->w1_global : p->w2_global;
    g.x_scale = x_scale;
    g.x_per = p->x_per;
    g.w_per = p->w_per;
    g.fast_accum = p->fast_accum;
    g.offsets = &m->offsets;
    g.weights = first == (p->weights_first != 0) ? &m->sorted : NULL;
    if (first) {
        g.gated = 1;
        g.act = p->act;
        g.gates = p->gates;
        g.limit = p->limit;
        g.alpha = p->alpha;
        g.situ_beta = p->situ_beta;
        g.situ_linear_beta = p->situ_linear_beta;
        g.rows = &m->rows;
    }
    return g;
}

static rfg_status multiply_x(rfg_context *ctx, const struct moe *m, const rfg_tensor *x, const rfg_tensor *x_scale,
                             rfg_stream stream)
{
    rfg_gemm_params g = product_params(m, x_scale, true);
    return about(OF_X, rfg_op_gemm(ctx, &m->h, x, m->w1, &g, stream));
}

/* The second product and the sum over slots, in one launch or two. */
static rfg_status multiply_h(rfg_context *ctx, const struct moe *m, const rfg_tensor *h, const rfg_tensor *h_scale,
                             rfg_stream stream)
{
    enum rfg_platform platform = rfg_context_info(ctx)->platform;
    rfg_gemm_params g = product_params(m, h_scale, false);
    bool summed = false;
    rfg_status st;
    if (m->pairs <= RFG_MOE_FEW_PAIRS && !m->own && (platform == RFG_PLATFORM_AMD || platform == RFG_PLATFORM_EMU)) {
        struct rfg_gemm_sum of = { &m->places, m->p.residual, m->p.tokens };
        st = about(OF_H, rfg_gemm_sum(ctx, m->y, h, m->w2, &g, &of, &summed, stream));
        if (st || summed)
            return st;
    }
    if ((st = about("w2, w2_scale, w2_zero, w2_global, w2_bias, h_scale",
                    rfg_op_gemm(ctx, &m->out, h, m->w2, &g, stream))))
        return st;
    rfg_moe_sum_params sum = RFG_MOE_SUM_PARAMS_INIT;
    sum.residual = m->p.residual;
    sum.tokens = m->p.tokens;
    sum.identity = m->own;
    sum.identity_weights = m->own ? m->weights : NULL;
    return about("y, residual, tokens, x or identity_x", rfg_op_moe_sum(ctx, m->y, &m->out, &m->places, &sum, stream));
}

static rfg_status sort_pairs(rfg_context *ctx, const struct moe *m, rfg_stream stream)
{
    rfg_moe_align_params align = RFG_MOE_ALIGN_PARAMS_INIT;
    align.experts = m->experts;
    align.offsets = &m->offsets;
    align.weights = m->weights;
    align.weights_out = &m->sorted;
    align.places = &m->places;
    align.expert_map = m->p.expert_map;
    align.tokens = m->p.tokens;
    align.identity = m->p.identity;
    return about("ids, weights, expert_map, tokens, identity", rfg_op_moe_align(ctx, &m->rows, m->ids, &align, stream));
}

/* Of few pairs, both products, which find experts by their ids; the second one sums. *taken: there are kernels for it;
 * else nothing was launched. */
static rfg_status multiply_by_id(rfg_context *ctx, const struct moe *m, bool *taken, rfg_stream stream)
{
    const rfg_moe_params *p = &m->p;
    rfg_tensor ids = rfg_tensor_1d(m->ids->data, m->ids->dtype, m->pairs);
    rfg_tensor weights = rfg_tensor_1d(m->weights->data, m->weights->dtype, m->pairs);
    struct rfg_gemm_sum of_x = { .ids = &ids, .experts = m->experts, .top = m->top }, of_h = of_x;
    rfg_gemm_params g1 = product_params(m, NULL, true), g2 = product_params(m, NULL, false);
    rfg_status st;
    of_h.summed = true;
    of_h.residual = p->residual;
    of_h.tokens = p->tokens;
    g1.offsets = g1.rows = g2.offsets = NULL;
    g1.weights = p->weights_first ? &weights : NULL;
    g2.weights = p->weights_first ? NULL : &weights;
    if ((st = about(OF_H, rfg_gemm_sum_takes(ctx, m->y, &m->h, m->w2, &g2, &of_h, taken))) || !*taken ||
        (st = about(OF_X, rfg_gemm_sum(ctx, &m->h, m->x, m->w1, &g1, &of_x, taken, stream))) || !*taken)
        return st;
    return about(OF_H, rfg_gemm_sum(ctx, m->y, &m->h, m->w2, &g2, &of_h, NULL, stream));
}

/* One row of them has no stride. */
static bool is_packed(const rfg_tensor *t, int64_t columns)
{
    return t->shape[0] == 1 || t->strides[0] == columns;
}

static bool by_id(const rfg_context *ctx, const struct moe *m)
{
    return m->pairs <= RFG_MOE_PAIRS_BY_ID && rfg_context_info(ctx)->platform != RFG_PLATFORM_CPU && !m->own &&
           !m->p.expert_map && !m->quantise_x && !m->quantise_h && rfg_dtype_is_float(m->x->dtype) &&
           is_packed(m->ids, m->top) && is_packed(m->weights, m->top);
}

/* The operators, one after the other. */
static rfg_status compose(rfg_context *ctx, const struct moe *m, rfg_stream stream)
{
    const rfg_moe_params *p = &m->p;
    const rfg_tensor *x = m->quantise_x ? &m->xq : m->x, *h = m->quantise_h ? &m->hq : &m->h;
    rfg_tensor column;
    bool done = false;
    rfg_status st;
    if (by_id(ctx, m) && ((st = multiply_by_id(ctx, m, &done, stream)) || done))
        return st;
    if (!p->rows && (st = sort_pairs(ctx, m, stream)))
        return st;
    if (m->quantise_x &&
        (st = about("x, x_scale, w1_scale", quantise(ctx, m, &m->xq, &m->xs, p->x_scale, m->x, stream))))
        return st;
    const rfg_tensor *xs = m->quantise_x ? scales_of(m, &column, &m->xs, p->x_scale, m->w1) : p->x_scale;
    if ((st = multiply_x(ctx, m, x, xs, stream)))
        return st;
    if (m->quantise_h && (st = about("h_scale, w1_scale", quantise(ctx, m, &m->hq, &m->hs, p->h_scale, &m->h, stream))))
        return st;
    const rfg_tensor *hs = m->quantise_h ? scales_of(m, &column, &m->hs, p->h_scale, m->w2) : NULL;
    return multiply_h(ctx, m, h, hs, stream);
}

/* In the caller's workspace, or the stream's. */
static rfg_status compose_in_workspace(rfg_context *ctx, struct moe *m, rfg_stream stream)
{
    if (m->p.workspace)
        return compose(ctx, m, stream);
    rfg_status st = rfg_scratch_begin(ctx, FN, stream, m->bytes, &m->p.workspace);
    if (st == RFG_OK) {
        lay_out(m);
        st = compose(ctx, m, stream);
        rfg_scratch_end(ctx);
    }
    m->p.workspace = NULL;
    return st;
}

rfg_status rfg_op_moe(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w1,
                      const rfg_tensor *w2, const rfg_tensor *ids, const rfg_tensor *weights,
                      const rfg_moe_params *params, rfg_stream stream)
{
    struct moe m = { RFG_MOE_PARAMS_INIT, .y = y, .x = x, .w1 = w1, .w2 = w2, .ids = ids, .weights = weights };
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = check(&m, params)))
        return st;
    if (m.pairs == 0 || m.hidden == 0)
        return RFG_OK;
    if (m.p.workspace ? m.p.workspace_bytes < m.bytes : m.p.workspace_bytes != 0)
        return BAD("workspace is %p, workspace_bytes %zu: must be at least %zu, or NULL and 0", m.p.workspace,
                   m.p.workspace_bytes, m.bytes);
    /* What any of them refuses is refused before one of them runs. */
    if (rfg_checks_begin(ctx)) {
        st = compose_in_workspace(ctx, &m, stream);
        rfg_describe_end(ctx);
        if (st)
            return st;
    }
    /* y overlaps nothing but the residual, which rfg_op_moe_sum() looks after. */
    if ((st = rfg_check_tensors(&m.t, others, RFG_RULES(others))) || (st = rfg_check_overlaps(&m.t)))
        return st;
    return compose_in_workspace(ctx, &m, stream);
}
