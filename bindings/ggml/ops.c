/* SPDX-License-Identifier: MIT
 *
 * ggml counts dimensions from the innermost: ne[0] is rfg's last one. nb[] are strides in bytes. */
#include "ops.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int32_t param_i32(const struct ggml_tensor *op, int i)
{
    return op->op_params[i];
}

static float param_f32(const struct ggml_tensor *op, int i)
{
    float value;
    memcpy(&value, &op->op_params[i], sizeof(value));
    return value;
}

static rfg_dtype dtype_of(enum ggml_type type)
{
    return type == GGML_TYPE_F32    ? RFG_F32
           : type == GGML_TYPE_F16  ? RFG_F16
           : type == GGML_TYPE_BF16 ? RFG_BF16
                                    : RFG_DTYPE_NONE;
}

/* Whether rfg has t's type, the elements of a row are contiguous, and rfg takes its sizes and strides. */
static bool plain(const struct ggml_tensor *t)
{
    if (!t || dtype_of(t->type) == RFG_DTYPE_NONE || t->nb[0] != ggml_type_size(t->type))
        return false;
    for (int i = 0; i < GGML_MAX_DIMS; i++)
        if (t->ne[i] > INT32_MAX || t->nb[i] % t->nb[0] || t->nb[i] / t->nb[0] > INT32_MAX)
            return false;
    return true;
}

/* Whether one step of index i of t passes all inner elements: rows neither overlap nor interleave. */
static bool steps_over(const struct ggml_tensor *t, int i)
{
    return t->ne[i] == 1 || t->nb[i] >= t->nb[i - 1] * (size_t)t->ne[i - 1];
}

static int64_t stride(const struct ggml_tensor *t, int i)
{
    return (int64_t)(t->nb[i] / t->nb[0]);
}

static void *slice(const struct ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3)
{
    return (char *)t->data + (size_t)i1 * t->nb[1] + (size_t)i2 * t->nb[2] + (size_t)i3 * t->nb[3];
}

static rfg_tensor matrix(const struct ggml_tensor *t, int64_t i2, int64_t i3)
{
    return rfg_tensor_2d(slice(t, 0, i2, i3), dtype_of(t->type), t->ne[1], t->ne[0], stride(t, 1));
}

/* [ne2, ne1, ne0] at index i3. */
static rfg_tensor cube(const struct ggml_tensor *t, int64_t i3)
{
    return (rfg_tensor){
        slice(t, 0, 0, i3), dtype_of(t->type), 3, { t->ne[2], t->ne[1], t->ne[0] }, { stride(t, 2), stride(t, 1), 1 }
    };
}

/* [ne3, ne1, ne2, ne0]: q, k and v of attention have heads outside of tokens. */
static rfg_tensor tokens_first(const struct ggml_tensor *t)
{
    return (rfg_tensor){ t->data,
                         dtype_of(t->type),
                         4,
                         { t->ne[3], t->ne[1], t->ne[2], t->ne[0] },
                         { stride(t, 3), stride(t, 1), stride(t, 2), 1 } };
}

static void *scratch(struct worker *w, size_t bytes)
{
    if (bytes > w->scratch_bytes) {
        free(w->scratch);
        w->scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
        w->scratch_bytes = w->scratch ? bytes : 0;
    }
    return w->scratch;
}

/* A row of n elements, rounded to nearest even where `to` has fewer bits. */
static void convert(void *to, enum ggml_type to_type, const void *from, enum ggml_type from_type, int64_t n)
{
    if (from_type == GGML_TYPE_F32 && to_type == GGML_TYPE_F16)
        ggml_fp32_to_fp16_row(from, to, n);
    else if (from_type == GGML_TYPE_F32)
        ggml_fp32_to_bf16_row(from, to, n);
    else if (from_type == GGML_TYPE_F16)
        ggml_fp16_to_fp32_row(from, to, n);
    else
        ggml_bf16_to_fp32_row(from, to, n);
}

/* ---- MUL_MAT: dst[i3,i2] = src1[i3,i2] src0[i3/r3,i2/r2]^T ------------------------------------------------------- */

static bool supports_mul_mat(const struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0], *x = op->src[1];
    if (!plain(w) || !plain(x) || !plain(op) || op->type != GGML_TYPE_F32 || !steps_over(w, 1) || !steps_over(x, 1))
        return false;
    if (param_i32(op, 1) == GGML_HINT_SRC0_IS_HADAMARD) /* ggml has a transform that is faster than any product */
        return false;
    if (x->type == w->type || w->type == GGML_TYPE_F32) /* the latter: x is widened */
        return true;
    /* x is rounded to w's type, as ggml's CPU backend does it, if the graph doesn't ask for more. */
    int32_t least = param_i32(op, 3);
    return x->type == GGML_TYPE_F32 && (least == GGML_PREC_UNDEFINED || least >= GGML_PREC_F16 ||
                                        (least == GGML_PREC_BF16 && w->type == GGML_TYPE_BF16));
}

static rfg_status mul_mat(struct worker *w, struct ggml_tensor *op)
{
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    int64_t k = b->ne[0], m = b->ne[1];
    bool converted = a->type != b->type;
    size_t row = ggml_row_size(a->type, k);
    if (converted && !scratch(w, row * (size_t)m))
        return RFG_ERROR_OUT_OF_MEMORY;
    for (int64_t i3 = 0; i3 < b->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < b->ne[2]; i2++) {
            rfg_tensor x = matrix(b, i2, i3), y = matrix(op, i2, i3);
            rfg_tensor weights = matrix(a, i2 / (b->ne[2] / a->ne[2]), i3 / (b->ne[3] / a->ne[3]));
            if (converted) {
                for (int64_t i1 = 0; i1 < m; i1++)
                    convert((char *)w->scratch + (size_t)i1 * row, a->type, slice(b, i1, i2, i3), b->type, k);
                x = rfg_tensor_2d(w->scratch, dtype_of(a->type), m, k, k);
            }
            rfg_status status = rfg_op_gemm(w->ctx, &y, &x, &weights, NULL, NULL);
            if (status != RFG_OK)
                return status;
        }
    return RFG_OK;
}

/* ---- RMS_NORM ---------------------------------------------------------------------------------------------------- */

static bool supports_rms_norm(const struct ggml_tensor *op)
{
    const struct ggml_tensor *x = op->src[0];
    float eps = param_f32(op, 0);
    return plain(x) && plain(op) && x->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32 && steps_over(x, 1) &&
           steps_over(x, 2) && eps >= 0 && isfinite(eps) && x->ne[0] < 1 << 30;
}

static rfg_status rms_norm(struct worker *w, struct ggml_tensor *op)
{
    rfg_norm_params params = { .size = sizeof(params), .eps = param_f32(op, 0) };
    rfg_status status = RFG_OK;
    for (int64_t i3 = 0; i3 < op->ne[3] && status == RFG_OK; i3++) {
        rfg_tensor x = cube(op->src[0], i3), y = cube(op, i3);
        status = rfg_op_rmsnorm(w->ctx, &y, &x, NULL, &params, NULL);
    }
    return status;
}

/* ---- GLU --------------------------------------------------------------------------------------------------------- */

static bool act_of(const struct ggml_tensor *op, rfg_act_params *params)
{
    *params = (rfg_act_params){ .size = sizeof(*params) };
    switch (ggml_get_glu_op(op)) {
    case GGML_GLU_OP_REGLU:
        params->act = RFG_ACT_RELU;
        return true;
    case GGML_GLU_OP_GEGLU:
        params->act = RFG_ACT_GELU_TANH;
        return true;
    case GGML_GLU_OP_GEGLU_ERF:
        params->act = RFG_ACT_GELU;
        return true;
    case GGML_GLU_OP_SWIGLU:
        params->act = RFG_ACT_SILU;
        return true;
    case GGML_GLU_OP_SWIGLU_OAI:
        params->act = RFG_ACT_SWIGLUOAI;
        params->alpha = param_f32(op, 2);
        params->limit = param_f32(op, 3);
        return isfinite(params->alpha) && params->alpha != 0 && isfinite(params->limit) && params->limit > 0;
    default:
        return false;
    }
}

static bool supports_glu(const struct ggml_tensor *op)
{
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    rfg_act_params params;
    return plain(a) && plain(op) && op->type == a->type && (!b || (plain(b) && b->type == a->type)) &&
           act_of(op, &params) && ggml_is_contiguous_1(a) && ggml_is_contiguous_1(op) &&
           (!b || ggml_is_contiguous_1(b)) && ggml_nrows(op) <= INT32_MAX && op->ne[0] < 1 << 30;
}

static rfg_status glu(struct worker *w, struct ggml_tensor *op)
{
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    int64_t m = ggml_nrows(op), n = op->ne[0];
    bool swapped = !b && param_i32(op, 1);
    rfg_act_params params;
    (void)act_of(op, &params);
    rfg_tensor y = rfg_tensor_2d(op->data, dtype_of(op->type), m, n, stride(op, 1));
    rfg_tensor x = rfg_tensor_2d(a->data, dtype_of(a->type), m, 2 * n, stride(a, 1));
    if (b || swapped) { /* rfg has gate and up in one row, gate first: they are brought together */
        size_t half = ggml_row_size(a->type, n);
        char *to = scratch(w, 2 * half * (size_t)m);
        if (!to)
            return RFG_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < (size_t)m; i++, to += 2 * half) {
            const char *row = (const char *)a->data + i * a->nb[1];
            memcpy(to, swapped ? row + half : row, half);
            memcpy(to + half, swapped ? row : (const char *)b->data + i * b->nb[1], half);
        }
        x = rfg_tensor_2d(w->scratch, dtype_of(a->type), m, 2 * n, 2 * n);
    }
    return rfg_op_act_and_mul(w->ctx, &y, &x, &params, NULL);
}

/* ---- ROPE -------------------------------------------------------------------------------------------------------- */

static bool supports_rope(const struct ggml_tensor *op)
{
    const struct ggml_tensor *x = op->src[0], *positions = op->src[1], *factors = op->src[2];
    int32_t n_dims = param_i32(op, 1), mode = param_i32(op, 2), first = param_i32(op, 15);
    return plain(x) && plain(op) && x->type == op->type && x->type != GGML_TYPE_F32 && steps_over(op, 1) &&
           steps_over(op, 2) && (mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX) && n_dims >= 2 &&
           n_dims % 2 == 0 && n_dims <= x->ne[0] && x->ne[0] <= 8192 && first == 0 &&
           positions->type == GGML_TYPE_I32 && positions->nb[0] == sizeof(int32_t) &&
           (!factors || (factors->type == GGML_TYPE_F32 && factors->nb[0] == sizeof(float))) &&
           stride(x, 2) * x->ne[2] <= INT32_MAX && stride(op, 2) * op->ne[2] <= INT32_MAX;
}

/* Row t is of the token's position: table's cosines, then its sines, by ggml's parameters (YaRN as ggml has it). */
static void angles(const struct ggml_tensor *op, float *table)
{
    const struct ggml_tensor *positions = op->src[1], *factors = op->src[2];
    int32_t n_dims = param_i32(op, 1), half = n_dims / 2;
    double base = param_f32(op, 5), scale = param_f32(op, 6), extrapolated = param_f32(op, 7), m = param_f32(op, 8);
    float between[2];
    ggml_rope_yarn_corr_dims(n_dims, param_i32(op, 4), param_f32(op, 5), param_f32(op, 9), param_f32(op, 10), between);
    if (extrapolated != 0)
        m *= 1 - 0.1 * log(scale);
    for (int32_t i = 0; i < half; i++) {
        double f = pow(base, -2.0 * i / n_dims) / (factors ? ((const float *)factors->data)[i] : 1), mix = 0;
        if (extrapolated != 0)
            mix = (1 - fmin(1, fmax(0, (i - between[0]) / fmax(0.001, between[1] - between[0])))) * extrapolated;
        f *= scale * (1 - mix) + mix;
        for (int64_t t = 0; t < op->ne[2]; t++) {
            double angle = ((const int32_t *)positions->data)[t] * f;
            table[t * n_dims + i] = (float)(m * cos(angle));
            table[t * n_dims + half + i] = (float)(m * sin(angle));
        }
    }
}

static rfg_status rope(struct worker *w, struct ggml_tensor *op)
{
    int64_t tokens = op->ne[2], n_dims = param_i32(op, 1);
    size_t table_bytes = (size_t)(tokens * n_dims) * sizeof(float);
    float *table = scratch(w, table_bytes + (size_t)tokens * sizeof(int32_t));
    if (!table)
        return RFG_ERROR_OUT_OF_MEMORY;
    angles(op, table);
    int32_t *rows = (int32_t *)((char *)table + table_bytes);
    for (int64_t t = 0; t < tokens; t++)
        rows[t] = (int32_t)t;
    rfg_tensor cos_sin = rfg_tensor_2d(table, RFG_F32, tokens, n_dims, n_dims);
    rfg_tensor at = rfg_tensor_1d(rows, RFG_I32, tokens);
    rfg_rope_params params = { .size = sizeof(params), .gptj = param_i32(op, 2) == GGML_ROPE_TYPE_NORMAL };
    rfg_status status = RFG_OK;
    for (int64_t i3 = 0; i3 < op->ne[3] && status == RFG_OK; i3++) {
        rfg_tensor x = cube(op->src[0], i3), y = cube(op, i3);
        status = rfg_op_rope(w->ctx, &y, NULL, &x, NULL, &cos_sin, &at, &params, NULL);
    }
    return status;
}

/* ---- FLASH_ATTN_EXT ---------------------------------------------------------------------------------------------- */

static bool supports_attention(const struct ggml_tensor *op)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
    float scale = param_f32(op, 0), max_bias = param_f32(op, 1), soft_cap = param_f32(op, 2);
    /* ggml's mask is a tensor of any numbers, rfg's masks are rules (causal, windows). The tensor's contents aren't
     * known here. */
    if (mask || max_bias != 0 || param_i32(op, 4) != 0)
        return false;
    if (!plain(q) || !plain(k) || !plain(v) || !plain(op) || q->type != GGML_TYPE_F32 || op->type != GGML_TYPE_F32 ||
        k->type != v->type || k->type == GGML_TYPE_F32 || !ggml_is_contiguous(op))
        return false;
    int64_t d = k->ne[0], dv = v->ne[0], heads = k->ne[2];
    bool sizes = d % 8 == 0 && dv % 8 == 0 && d <= 512 && dv <= 512;
    return sizes && q->ne[2] % heads == 0 && v->ne[2] == heads && v->ne[1] == k->ne[1] && k->ne[3] == q->ne[3] &&
           v->ne[3] == q->ne[3] && isfinite(scale) && scale > 0 && isfinite(soft_cap) && soft_cap >= 0 &&
           (!sinks || (sinks->type == GGML_TYPE_F32 && sinks->nb[0] == sizeof(float)));
}

/* q is rounded to k's type and so is the result, before it goes to fp32: rfg's attention is of 16-bit tensors. */
static rfg_status attention(struct worker *w, struct ggml_tensor *op)
{
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *sinks = op->src[4];
    enum ggml_type type = k->type;
    int64_t d = q->ne[0], n = q->ne[1], heads = q->ne[2], batch = q->ne[3], dv = op->ne[0];
    size_t row = ggml_row_size(type, d), q_bytes = row * (size_t)(batch * n * heads);
    q_bytes = (q_bytes + 63) / 64 * 64;
    char *to = scratch(w, q_bytes + ggml_row_size(type, batch * n * heads * dv));
    if (!to)
        return RFG_ERROR_OUT_OF_MEMORY;
    rfg_tensor q16 = { to, dtype_of(type), 4, { batch, n, heads, d }, { n * heads * d, heads * d, d, 1 } };
    rfg_tensor out16 = {
        to + q_bytes, dtype_of(type), 4, { batch, n, heads, dv }, { n * heads * dv, heads * dv, dv, 1 }
    };
    for (int64_t i3 = 0; i3 < batch; i3++)
        for (int64_t i1 = 0; i1 < n; i1++)
            for (int64_t i2 = 0; i2 < heads; i2++, to += row)
                convert(to, type, slice(q, i1, i2, i3), GGML_TYPE_F32, d);
    rfg_tensor keys = tokens_first(k), values = tokens_first(op->src[2]), sink;
    rfg_mha_params params = { .size = sizeof(params), .scale = param_f32(op, 0), .soft_cap = param_f32(op, 2) };
    if (sinks) {
        sink = rfg_tensor_1d(sinks->data, RFG_F32, heads);
        params.sinks = &sink;
    }
    rfg_status status = rfg_op_mha(w->ctx, &out16, &q16, &keys, &values, &params, NULL);
    if (status == RFG_OK)
        convert(op->data, GGML_TYPE_F32, out16.data, type, batch * n * heads * dv);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

bool rfg_ggml_supports(const struct ggml_tensor *op)
{
    switch (op->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: /* these only name memory */
        return true;
    case GGML_OP_MUL_MAT:
        return supports_mul_mat(op);
    case GGML_OP_RMS_NORM:
        return supports_rms_norm(op);
    case GGML_OP_GLU:
        return supports_glu(op);
    case GGML_OP_ROPE:
        return supports_rope(op);
    case GGML_OP_FLASH_ATTN_EXT:
        return supports_attention(op);
    default:
        return false;
    }
}

rfg_status rfg_ggml_compute(struct worker *w, struct ggml_tensor *op)
{
    if (ggml_is_empty(op))
        return RFG_OK;
    switch (op->op) {
    case GGML_OP_MUL_MAT:
        return mul_mat(w, op);
    case GGML_OP_RMS_NORM:
        return rms_norm(w, op);
    case GGML_OP_GLU:
        return glu(w, op);
    case GGML_OP_ROPE:
        return rope(w, op);
    case GGML_OP_FLASH_ATTN_EXT:
        return attention(w, op);
    default:
        return RFG_OK;
    }
}
