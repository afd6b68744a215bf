/* SPDX-License-Identifier: MIT
 *
 * A whole mixture of experts, called and in double precision: for the test of rfg_op_moe. */
#include "moe_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int n_tokens = 6, n_slots = 3;

/* How far off sums may be, in what their errors' squares add up to. Each error is taken for the largest that it may be,
 * so 3 is what one of ten million sums would exceed; of random problems there are more sums than that. */
double most_off = 3;

const struct form forms[] = {
    { "f32", RFG_F32, RFG_F32, 0, 0, 0, RFG_ACT_SILU, .experts = 5, .hidden = 40, .inner = 24 },
    { "bf16", RFG_BF16, RFG_BF16, 0, 0, 0, RFG_ACT_SILU, .halves = true, .experts = 8, .hidden = 64, .inner = 48 },
    { "a shared expert, a map, a bound", RFG_BF16, RFG_BF16, 0, 0, 0, RFG_ACT_GELU, .halves = true, .mapped = true,
      .residual = true, .bounded = true, .experts = 4, .hidden = 64, .inner = 32 },
    { "weights first, one expert", RFG_F16, RFG_F16, 0, 0, 0, RFG_ACT_SILU, .halves = true, .weights_first = true,
      .experts = 1, .hidden = 64, .inner = 32 },
    { "gpt-oss", RFG_BF16, RFG_E2M1, RFG_E8M0, 0, 32, RFG_ACT_SWIGLUOAI, .bias = true, .experts = 6, .hidden = 64,
      .inner = 64 },
    { "int4", RFG_F16, RFG_I4, RFG_F16, 0, 32, RFG_ACT_SILU, .limit = 2, .experts = 6, .hidden = 64, .inner = 32 },
    { "fp8 blocks", RFG_BF16, RFG_E4M3, RFG_F32, RFG_GEMM_SCALE_BLOCK, 0, RFG_ACT_SILU, .halves = true, .experts = 4,
      .hidden = 208, .inner = 128, .eps = 0x1p-4 },
    { "fp8 blocks, x as it is", RFG_BF16, RFG_E4M3, RFG_F32, RFG_GEMM_SCALE_BLOCK, 0, RFG_ACT_SILU, .halves = true,
      .bounded = true, .experts = 4, .hidden = 208, .inner = 128, .codes = RFG_BF16 },
    { "int8 rows, x as it is", RFG_F16, RFG_I8, RFG_F32, RFG_GEMM_SCALE_ROW, 0, RFG_ACT_SILU, .bias = true,
      .experts = 4, .hidden = 64, .inner = 32, .codes = RFG_F16 },
    { "fp8 rows", RFG_BF16, RFG_E4M3, RFG_F32, RFG_GEMM_SCALE_ROW, 0, RFG_ACT_SILU, .bias = true, .experts = 4,
      .hidden = 128, .inner = 64, .eps = 0x1p-4 },
    { "fp8 tensors, scales given", RFG_BF16, RFG_E4M3, RFG_F32, RFG_GEMM_SCALE_TENSOR, 0, RFG_ACT_SILU, .experts = 4,
      .hidden = 64, .inner = 32, .eps = 0x1p-4 },
    { "int8 rows", RFG_F16, RFG_I8, RFG_F32, RFG_GEMM_SCALE_ROW, 0, RFG_ACT_SILU, .halves = true, .experts = 4,
      .hidden = 64, .inner = 32, .eps = 0x1p-6 },
    { "mxfp4 by mxfp8", RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 32, RFG_ACT_SWIGLUOAI, .bias = true,
      .experts = 6, .hidden = 96, .inner = 64, .eps = 0x1p-4, .codes = RFG_E4M3 },
    { "the same, prepacked", RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 32, RFG_ACT_SWIGLUOAI, .experts = 4,
      .hidden = 96, .inner = 160, .eps = 0x1p-4, .codes = RFG_E4M3, .packed = 3 },
    { "the same, w1 prepacked", RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 32, RFG_ACT_SILU, .experts = 4,
      .hidden = 96, .inner = 160, .eps = 0x1p-4, .codes = RFG_E4M3, .packed = 1 },
    { "the same, w2 prepacked", RFG_BF16, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 32, RFG_ACT_SILU, .experts = 4,
      .hidden = 96, .inner = 160, .eps = 0x1p-4, .codes = RFG_E4M3, .packed = 2 },
    { "gpt-oss, w1 prepacked", RFG_BF16, RFG_E2M1, RFG_E8M0, 0, 32, RFG_ACT_SWIGLUOAI, .bias = true, .experts = 3,
      .hidden = 96, .inner = 64, .packed = 1 },
    { "bf16, w2 prepacked", RFG_BF16, RFG_BF16, 0, 0, 0, RFG_ACT_SILU, .experts = 3, .hidden = 96, .inner = 128,
      .packed = 2 },
    { "mxfp4 by mxfp4", RFG_F16, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 32, RFG_ACT_SILU, .experts = 4, .hidden = 64,
      .inner = 96, .eps = 0x1p-2, .rounding = RFG_SCALE_EVEN },
    { "mxfp4 by mxfp4, prepacked", RFG_E2M1, RFG_E2M1, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 32, RFG_ACT_SILU, .experts = 4,
      .hidden = 224, .inner = 128, .eps = 0x1p-2, .packed = 3 },
    { "SiTU, identities", RFG_F32, RFG_F32, 0, 0, 0, RFG_ACT_SITU, .halves = true, .experts = 5, .hidden = 40,
      .inner = 24, .identity = 3 },
    { "LongCat: identities, a map, a bound", RFG_BF16, RFG_BF16, 0, 0, 0, RFG_ACT_SILU, .halves = true, .mapped = true,
      .residual = true, .bounded = true, .experts = 4, .hidden = 64, .inner = 32, .limit = 10, .identity = 8,
      .own = true },
    { "Kimi K3: SiTU with a limit", RFG_BF16, RFG_E2M1, RFG_E8M0, 0, 32, RFG_ACT_SITU, .halves = true, .experts = 6,
      .hidden = 64, .inner = 64, .limit = 7 },
    { "more than 1024", RFG_BF16, RFG_BF16, 0, 0, 0, RFG_ACT_SILU, .experts = 1100, .hidden = 16, .inner = 8 },
    { "nvfp4", RFG_BF16, RFG_E2M1, RFG_E4M3, 0, 16, RFG_ACT_SILU, .halves = true, .global = true, .experts = 6,
      .hidden = 96, .inner = 48 },
    { "nvfp4, prepacked", RFG_F16, RFG_E2M1, RFG_E4M3, 0, 16, RFG_ACT_SWIGLUOAI, .bias = true, .experts = 4,
      .hidden = 160, .inner = 64, .global = true, .packed = 3 },
    { "mxfp8 by mxfp8, x of codes", RFG_E4M3, RFG_E4M3, RFG_E8M0, RFG_GEMM_SCALE_GROUP, 32, RFG_ACT_SILU,
      .halves = true, .experts = 4, .hidden = 64, .inner = 32, .eps = 0x1p-4 },
};
const int n_forms = COUNT(forms);

/* Codes of x, and of what is between the products; RFG_DTYPE_NONE: they are none. */
static rfg_dtype codes_of(const struct form *f)
{
    return f->codes                                                      ? f->codes
           : f->per == RFG_GEMM_SCALE_GROUP && !rfg_dtype_is_float(f->x) ? f->x
           : f->per == RFG_GEMM_SCALE_GROUP || rfg_dtype_is_code(f->w)   ? f->w
                                                                         : RFG_DTYPE_NONE;
}

void *zeroed(size_t bytes)
{
    void *p = calloc(1, bytes + 64);
    ck_assert_ptr_nonnull(p);
    return p;
}

void upload(rfg_context *ctx, const struct matrix *m)
{
    ck_assert_msg(rfg_device_copy(ctx, m->t.data, m->host, m->bytes, RFG_HOST_TO_DEVICE, NULL) == RFG_OK, "%s",
                  rfg_last_error());
    ck_assert_msg(rfg_stream_sync(ctx, NULL) == RFG_OK, "%s", rfg_last_error());
}

void download(rfg_context *ctx, struct matrix *m)
{
    ck_assert_msg(rfg_device_copy(ctx, m->host, m->t.data, m->bytes, RFG_DEVICE_TO_HOST, NULL) == RFG_OK &&
                      rfg_stream_sync(ctx, NULL) == RFG_OK,
                  "%s", rfg_last_error());
}

struct matrix new_matrix(rfg_context *ctx, rfg_dtype dtype, int64_t rows, int64_t cols)
{
    struct matrix m = { .rows = rows, .cols = cols, .bytes = rfg_dtype_bytes(dtype, rows * cols) };
    void *data;
    m.host = zeroed(m.bytes);
    m.value = zeroed((size_t)(rows * cols) * sizeof(double));
    ck_assert_msg(rfg_device_alloc(ctx, &data, m.bytes) == RFG_OK, "%s", rfg_last_error());
    m.t = rfg_tensor_2d(data, dtype, rows, cols, cols);
    return m;
}

static double uniform(uint64_t *seed)
{
    return (double)(rfg_random(seed) >> 11) * 0x1p-52 - 1; /* from -1 to 1 */
}

/* Elements about `most` at most, as the dtype has them. */
static void fill(rfg_context *ctx, struct matrix *m, double most, uint64_t *seed)
{
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        rfg_store(m->host, m->t.dtype, i, uniform(seed) * most);
        m->value[i] = rfg_load(m->host, m->t.dtype, i);
    }
    upload(ctx, m);
}

/* Scales of w, rows of an expert of which there are `rows`, and w's values with them. */
static struct matrix scaled(rfg_context *ctx, const struct form *f, struct matrix *w, int64_t rows, uint64_t *seed)
{
    int64_t block_rows = f->group ? 1 : f->per == RFG_GEMM_SCALE_BLOCK ? 128 : f->per == RFG_GEMM_SCALE_ROW ? 1 : rows;
    int64_t block_cols = f->group ? f->group : f->per == RFG_GEMM_SCALE_BLOCK ? 128 : w->cols;
    int64_t a_expert = (rows + block_rows - 1) / block_rows, cols = (w->cols + block_cols - 1) / block_cols;
    struct matrix s = new_matrix(ctx, f->scale, f->experts * a_expert, cols);
    for (int64_t i = 0; i < s.rows * s.cols; i++) {
        rfg_store(s.host, f->scale, i, ldexp(1, (int)(rfg_random(seed) % 3) - 5));
        s.value[i] = rfg_load(s.host, f->scale, i);
    }
    upload(ctx, &s);
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t c = 0; c < w->cols; c++)
            w->value[r * w->cols + c] *= s.value[(r / rows * a_expert + r % rows / block_rows) * cols + c / block_cols];
    if (!f->group && f->per != RFG_GEMM_SCALE_BLOCK)
        s.t = rfg_tensor_1d(s.t.data, f->scale, s.rows);
    return s;
}

/* What multiplies all scales of an expert, and w's values with it. */
static struct matrix globals(rfg_context *ctx, const struct form *f, struct matrix *w, uint64_t *seed)
{
    struct matrix g = new_matrix(ctx, RFG_F32, 1, f->experts);
    for (int64_t e = 0; e < f->experts; e++)
        g.value[e] = ((float *)g.host)[e] = (float)(0.75 + 0.5 * uniform(seed));
    upload(ctx, &g);
    for (int64_t i = 0; i < w->rows * w->cols; i++)
        w->value[i] *= g.value[i / (w->rows / f->experts * w->cols)];
    g.t = rfg_tensor_1d(g.t.data, RFG_F32, f->experts);
    return g;
}

/* Of an x of codes, and its values with them. */
static struct matrix x_scales(rfg_context *ctx, struct matrix *x, bool packed, uint64_t *seed)
{
    int64_t groups = x->cols / 32;
    struct matrix s = new_matrix(ctx, RFG_E8M0, x->rows, (groups + 3) / 4 * 4);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        rfg_store(s.host, RFG_E8M0, i, i % s.cols < groups ? ldexp(1, (int)(rfg_random(seed) % 3) - 1) : NAN);
    for (int64_t i = 0; i < x->rows * x->cols; i++)
        x->value[i] *= rfg_load(s.host, RFG_E8M0, i / x->cols * s.cols + i % x->cols / 32);
    upload(ctx, &s);
    s.t.shape[1] = packed ? s.cols : groups;
    return s;
}

/* Lays w, or its scales, out anew. */
static void prepack(rfg_context *ctx, rfg_tensor *t, bool scales, int64_t group)
{
    void *data;
    int64_t rows = t->shape[0], cols = t->shape[1], block = group ? 128 / group : 1;
    int64_t groups = (cols + block - 1) / block * block;
    rfg_tensor dst = scales ? rfg_tensor_prepacked_groups(NULL, t->dtype, rows, groups)
                            : rfg_tensor_prepacked(NULL, t->dtype, rows, (cols + 127) / 128 * 128);
    ck_assert(rfg_device_alloc(ctx, &data, rfg_dtype_bytes(t->dtype, rows * (cols + 127))) == RFG_OK);
    dst.data = data;
    ck_assert_msg(rfg_gemm_prepack(ctx, &dst, t, NULL) == RFG_OK, "%s", rfg_last_error());
    *t = dst;
}

void new_call(struct call *c, const struct form *f, rfg_context *ctx, uint64_t seed)
{
    int64_t e = f->experts, h = f->hidden, n = f->inner;
    bool codes = rfg_dtype_is_code(f->w);
    double most = f->group ? 6 : codes ? 8 : 1 / sqrt((double)h / 8);
    *c = (struct call){ .f = f, .p = RFG_MOE_PARAMS_INIT };
    c->x = new_matrix(ctx, f->x, n_tokens, h);
    fill(ctx, &c->x, 1, &seed);
    c->w1 = new_matrix(ctx, f->w, e * 2 * n, h);
    c->w2 = new_matrix(ctx, f->w, e * h, n);
    fill(ctx, &c->w1, most, &seed);
    fill(ctx, &c->w2, most, &seed);
    if (f->scale) {
        c->s1 = scaled(ctx, f, &c->w1, 2 * n, &seed);
        c->s2 = scaled(ctx, f, &c->w2, h, &seed);
        c->p.w1_scale = &c->s1.t;
        c->p.w2_scale = &c->s2.t;
        c->p.w_per = f->per;
        c->p.x_per = rfg_dtype_is_float(f->codes) ? RFG_GEMM_SCALE_TENSOR : f->per;
    }
    if (f->global) {
        c->g1 = globals(ctx, f, &c->w1, &seed);
        c->g2 = globals(ctx, f, &c->w2, &seed);
        c->p.w1_global = &c->g1.t;
        c->p.w2_global = &c->g2.t;
    }
    if (f->per == RFG_GEMM_SCALE_GROUP && !rfg_dtype_is_float(f->x)) {
        c->sx = x_scales(ctx, &c->x, f->packed & 1, &seed);
        c->p.x_scale = &c->sx.t;
    }
    if (f->bias) {
        c->b1 = new_matrix(ctx, RFG_F32, e, 2 * n);
        c->b2 = new_matrix(ctx, RFG_F32, e, h);
        fill(ctx, &c->b1, 1, &seed);
        fill(ctx, &c->b2, 1, &seed);
        c->p.w1_bias = &c->b1.t;
        c->p.w2_bias = &c->b2.t;
    }
    if (codes && f->per == RFG_GEMM_SCALE_TENSOR) {
        struct matrix *s[] = { &c->sx, &c->sh };
        for (int i = 0; i < 2; i++) {
            *s[i] = new_matrix(ctx, RFG_F32, 1, 1);
            *(float *)s[i]->host = i ? 1.0f : 0x1p-8f;
            upload(ctx, s[i]);
            s[i]->t = rfg_tensor_1d(s[i]->t.data, RFG_F32, 1);
        }
        c->p.x_scale = &c->sx.t;
        c->p.h_scale = &c->sh.t;
    }
    /* Of a map every other expert is another rank's. Some ids are no expert's. */
    int64_t global = f->mapped ? 2 * e : e;
    c->ids = new_matrix(ctx, RFG_I32, n_tokens, n_slots);
    c->weights = new_matrix(ctx, RFG_F32, n_tokens, n_slots);
    fill(ctx, &c->weights, 1, &seed);
    for (int i = 0; i < n_tokens * n_slots; i++)
        ((int32_t *)c->ids.host)[i] =
            (int32_t)(i == 4   ? -1
                      : i == 5 ? global + f->identity
                               : (int64_t)(rfg_random(&seed) % (uint64_t)(global + f->identity)));
    upload(ctx, &c->ids);
    if (f->mapped) {
        c->map = new_matrix(ctx, RFG_I32, 1, global);
        for (int i = 0; i < global; i++)
            ((int32_t *)c->map.host)[i] = i % 2 ? i / 2 : -1;
        upload(ctx, &c->map);
        c->map.t = rfg_tensor_1d(c->map.t.data, RFG_I32, global);
        c->p.expert_map = &c->map.t;
    }
    if (f->bounded) {
        c->tokens = new_matrix(ctx, RFG_I32, 1, 1);
        *(int32_t *)c->tokens.host = n_tokens - 2;
        upload(ctx, &c->tokens);
        c->tokens.t = rfg_tensor_1d(c->tokens.t.data, RFG_I32, 1);
        c->p.tokens = &c->tokens.t;
    }
    c->y = new_matrix(ctx, RFG_F32, n_tokens, h);
    if (f->own) {
        c->own = new_matrix(ctx, RFG_F32, n_tokens, h);
        fill(ctx, &c->own, 1, &seed);
        c->p.identity_x = &c->own.t;
    }
    c->p.identity = f->identity;
    if (f->residual) {
        c->residual = new_matrix(ctx, RFG_F32, n_tokens, h);
        fill(ctx, &c->residual, 1, &seed);
        c->p.residual = &c->residual.t;
    }
    c->w1.t = rfg_tensor_nd(c->w1.t.data, f->w, 3, (const int64_t[]){ e, 2 * n, h });
    c->w2.t = rfg_tensor_nd(c->w2.t.data, f->w, 3, (const int64_t[]){ e, h, n });
    if (f->packed) {
        struct matrix *m[] = { &c->w1, &c->w2, &c->s1, &c->s2 };
        for (int i = 0; i < 4; i++) {
            if (!(f->packed >> i % 2 & 1) || !m[i]->t.data)
                continue;
            m[i]->t = rfg_tensor_2d(m[i]->t.data, m[i]->t.dtype, m[i]->rows, m[i]->cols, m[i]->cols);
            c->plain[i] = m[i]->t.data;
            prepack(ctx, &m[i]->t, i > 1, f->group);
        }
        c->p.experts = e;
    }
    c->p.x_codes = f->codes;
    c->p.rounding = f->rounding;
    c->p.act = f->act;
    c->p.gates = f->halves ? RFG_GATES_HALVES : RFG_GATES_INTERLEAVED;
    c->p.limit = f->limit;
    c->p.weights_first = f->weights_first;
    ck_assert_msg(rfg_moe_workspace_bytes(&c->y.t, &c->x.t, &c->w1.t, &c->w2.t, &c->ids.t, &c->weights.t, &c->p,
                                          &c->p.workspace_bytes) == RFG_OK,
                  "%s: %s", f->what, rfg_last_error());
    ck_assert_msg(rfg_device_alloc(ctx, &c->p.workspace, c->p.workspace_bytes) == RFG_OK, "%s", rfg_last_error());
}

void end_call(struct call *c, rfg_context *ctx)
{
    struct matrix *all[] = { &c->x,   &c->w1,      &c->w2,  &c->s1,     &c->s2,       &c->b1, &c->b2,  &c->sx, &c->sh,
                             &c->ids, &c->weights, &c->map, &c->tokens, &c->residual, &c->y,  &c->own, &c->g1, &c->g2 };
    for (int i = 0; i < COUNT(all); i++) {
        free(all[i]->host);
        free(all[i]->value);
        ck_assert(rfg_device_free(ctx, all[i]->t.data) == RFG_OK);
    }
    for (int i = 0; i < 4; i++)
        ck_assert(rfg_device_free(ctx, c->plain[i]) == RFG_OK);
    ck_assert(rfg_device_free(ctx, c->p.workspace) == RFG_OK);
}

void run(struct call *c, rfg_context *ctx, rfg_stream stream)
{
    ck_assert_msg(rfg_op_moe(ctx, &c->y.t, &c->x.t, &c->w1.t, &c->w2.t, &c->ids.t, &c->weights.t, &c->p, stream) ==
                      RFG_OK,
                  "%s: %s", c->f->what, rfg_last_error());
}

/* How far off an element of v is whatever its size, as it is multiplied: half of the least step of its code, whose
 * scale is 1 / (512 max) at least (rfg/quantize.h), of h in f16 of that, too. */
static double least_step(const struct form *f, const struct value *v, int64_t n, bool h)
{
    double most = 1.0 / 512, half = h && f->x == RFG_F16 ? 0x1p-25 : 0;
    if (rfg_dtype_is_float(f->codes)) /* no codes */
        return half;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(v[i].v));
    if (f->per == RFG_GEMM_SCALE_GROUP) /* a power of two, up to twice the least that would do */
        return half + (codes_of(f) == RFG_E2M1 ? most / 6 * 2 * 0.25 : most / 448 * 2 * 0x1p-10);
    if (f->w == RFG_I8)
        return half + most / 254;
    if (f->w == RFG_E4M3)
        return half + (f->per != RFG_GEMM_SCALE_TENSOR ? most / 448 : h ? 1 : 0x1p-8) * 0x1p-10;
    return half;
}

/* Row r of w times v. Each element of v is off by eps of itself, and by step, besides. */
static struct value dot(const struct matrix *w, int64_t r, const struct value *v, double eps, double step)
{
    struct value sum = { 0, 0 };
    for (int64_t i = 0; i < w->cols; i++) {
        double a = w->value[r * w->cols + i], e = fabs(v[i].v) * eps + step;
        sum.v += a * v[i].v;
        sum.square += a * a * (v[i].square + e * e);
    }
    return sum;
}

/* What expert e makes of `in`, added to row `out` with weight. */
static void add_expert(const struct call *c, int64_t e, const struct value *in, double weight, struct value *out)
{
    const struct form *f = c->f;
    int64_t n = f->inner, h = f->hidden;
    double half = f->x == RFG_BF16 ? 0x1p-8 : f->x == RFG_F16 ? 0x1p-11 : 0x1p-22, steep;
    double eps = half + f->eps, limit = f->limit > 0 ? (double)f->limit : f->act == RFG_ACT_SWIGLUOAI ? 7 : INFINITY;
    bool exact = f->per == RFG_GEMM_SCALE_GROUP && !rfg_dtype_is_float(f->x);
    double step = exact ? 0 : least_step(f, in, h, false), x_eps = exact ? 0 : f->eps;
    struct value *between = zeroed((size_t)n * sizeof(*between));
    for (int64_t i = 0; i < n; i++) {
        int64_t g = f->halves ? i : 2 * i, u = f->halves ? n + i : 2 * i + 1;
        struct value gate = dot(&c->w1, e * 2 * n + g, in, x_eps, step);
        struct value up = dot(&c->w1, e * 2 * n + u, in, x_eps, step);
        gate.v += f->bias ? c->b1.value[e * 2 * n + g] : 0;
        up.v += f->bias ? c->b1.value[e * 2 * n + u] : 0;
        if (f->weights_first) {
            gate = (struct value){ gate.v * weight, gate.square * weight * weight };
            up = (struct value){ up.v * weight, up.square * weight * weight };
        }
        gate.v = fmin(gate.v, limit);
        up.v = fmax(fmin(up.v, limit), -limit);
        double a = f->act == RFG_ACT_SWIGLUOAI ? gate.v / (1 + exp(-1.702 * gate.v))
                   : f->act == RFG_ACT_SITU    ? 4 * tanh(gate.v / 4) / (1 + exp(-gate.v))
                                               : rfg_oracle_activate(f->act, gate.v, &steep);
        up.v = f->act == RFG_ACT_SWIGLUOAI ? up.v + 1 : f->act == RFG_ACT_SITU ? 25 * tanh(up.v / 25) : up.v;
        between[i] = (struct value){ a * up.v, 1.3 * up.v * up.v * gate.square + a * a * up.square };
    }
    step = least_step(f, between, n, true);
    for (int64_t i = 0; i < h; i++) {
        struct value s = dot(&c->w2, e * h + i, between, eps, step);
        double w = f->weights_first ? 1 : weight;
        s.v += f->bias ? c->b2.value[e * h + i] : 0;
        out[i].v += w * s.v;
        out[i].square += w * w * (s.square + s.v * s.v * 0x1p-40);
    }
    free(between);
}

/* y is right, by what host memory has: rows that count, and the others as they were. */
void expect(struct call *c, const float *before)
{
    const struct form *f = c->f;
    int64_t h = f->hidden, tokens = f->bounded ? *(int32_t *)c->tokens.host : n_tokens;
    struct value in[256], *out = zeroed((size_t)h * sizeof(*out));
    double worst = 0;
    for (int64_t t = 0; t < n_tokens; t++) {
        for (int64_t i = 0; i < h; i++) {
            in[i] = (struct value){ c->x.value[t * h + i], 0 };
            out[i] = (struct value){ f->residual ? c->residual.value[t * h + i] : 0, 0 };
        }
        for (int j = 0; j < n_slots; j++) {
            int32_t id = ((int32_t *)c->ids.host)[t * n_slots + j];
            int64_t end = f->mapped ? c->map.cols : f->experts;
            int64_t e = id < 0 || id >= end ? -1 : f->mapped ? ((int32_t *)c->map.host)[id] : id;
            double weight = c->weights.value[t * n_slots + j];
            if (e >= 0)
                add_expert(c, e, in, weight, out);
            for (int64_t i = 0; id >= end && id < end + f->identity && i < h; i++)
                out[i].v += weight * (f->own ? c->own.value[t * h + i] : in[i].v);
        }
        for (int64_t i = 0; i < h; i++) {
            double got = (double)((float *)c->y.host)[t * h + i], off = fabs(got - out[i].v);
            if (t >= tokens) {
                ck_assert_msg(!memcmp((float *)c->y.host + t * h + i, before + t * h + i, 4), "%s: row %d is written",
                              f->what, (int)t);
                continue;
            }
            double allow = most_off * sqrt(out[i].square) + 1e-6;
            worst = fmax(worst, off / allow);
            ck_assert_msg(off <= allow, "%s: y[%d,%d] is %g, expected %g, allowed +-%g", f->what, (int)t, (int)i, got,
                          out[i].v, allow);
        }
    }
    free(out);
    if (getenv("RFG_TEST_WORST"))
        printf("%s: %.3f of what is allowed\n", f->what, worst);
}
