/* SPDX-License-Identifier: MIT
 *
 * The gemm operator: its public function, its argument rules and its table. Variants are in cpu.c, gpu.c, vendor.c. */
#include "gemm.h"

#include <inttypes.h>
#include <string.h>

#include "ops/operand.h"
#include "ops/params.h"
#include "rfg/gemm.h"

#define MAX_SIZE RFG_MAX_SIZE

static const char *const btype_names[] = { "x" }, *const none[] = { "none" };
static const char *const act_names[] = { "none", "silu", "gelu", "gelu_tanh", "relu", "relu2" }; /* as rfg_act + 1 */
#define GATED_LAST (RFG_ACT_RELU2 + 1)
#define ANY_HALF   (1u << RFG_F16 | 1u << RFG_BF16)
#define ANY_FLOAT  (1u << RFG_F32 | ANY_HALF)

static const struct rfg_key gemm_keys[GEMM_NKEYS] = {
    [GEMM_M] = { "M", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "rows of x and y" },
    [GEMM_N] = { "N", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "rows of w; columns of y, twice those with an act" },
    [GEMM_K] = { "K", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "columns of x and w" },
    [GEMM_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there is a bias" },
    [GEMM_BTYPE] = { "btype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, btype_names,
                     "dtype of the bias: x's, or f32 with a 16-bit x", 1u << RFG_F32 },
    [GEMM_RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a residual, of y's dtype, is added" },
    [GEMM_GATED] = { "act", RFG_KEY_ATTR, 0, 0, GATED_LAST, act_names,
                     "rows of w are gate's and up's in turn, y is act(gate) up" },
    [GEMM_W_SCALE] = { "w_scale", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                       "dtype of w's scales, of a w that has any", ANY_FLOAT | 1u << RFG_E8M0 },
    [GEMM_W_ZERO] = { "w_zero", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                      "dtype of w's zero points, of a w that may have any", 1u << RFG_I8 },
    [GEMM_W_GROUP] = { "w_group", RFG_KEY_ATTR, 0, 0, MAX_SIZE, NULL,
                       "columns of w that share a scale and a zero point" },
    [GEMM_PREPACKED] = { "packed", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: w is prepacked" },
    [GEMM_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of x to the next; 0: they follow one another" },
    [GEMM_LDW] = { "ldw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of w to the next; 0: they follow one another" },
    [GEMM_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of y to the next; 0: they follow one another" },
    [GEMM_LDR] = { "ldr", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of the residual to the next; 0: they follow one another" },
    [GEMM_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: y is the residual" },
    [GEMM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                     "bytes, up to 16, of which pointers and row strides of x and w are multiples" },
    [GEMM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and row strides of y and bias are multiples" },
    [GEMM_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand gemm_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "w", false, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_LISTED, 2, 0 },
    { "bias", false, RFG_FORMAT_KEYED, GEMM_BTYPE, 1 },
    { "w_scale", false, RFG_FORMAT_KEYED, GEMM_W_SCALE, 0 },
    { "w_zero", false, RFG_FORMAT_KEYED, GEMM_W_ZERO, 0 },
    { "residual", false, RFG_FORMAT_AS, 2, 0 },
};

/* Ends with one of no format. */
static const struct gemm_w_format w_formats[] = {
    { RFG_I4, ANY_HALF, ANY_FLOAT, true, 32 },
    { RFG_E2M1, ANY_HALF, 1u << RFG_E8M0, false, 32 },
    { RFG_DTYPE_NONE, 0, 0, false, 0 },
};

const struct gemm_w_format *gemm_w_format(const struct rfg_problem *prob)
{
    const struct gemm_w_format *f = w_formats;
    while (f->w && (f->w != prob->dtype[1] || !(f->x >> prob->dtype[0] & 1)))
        f++;
    return f->w ? f : NULL;
}

int64_t gemm_w_row_bytes(const struct rfg_problem *prob)
{
    int64_t k = prob->v[GEMM_K], group = prob->v[GEMM_W_GROUP];
    return rfg_format_bytes(prob->dtype[1], k) + (group ? rfg_format_bytes((int)prob->v[GEMM_W_SCALE], k / group) +
                                                              rfg_format_bytes((int)prob->v[GEMM_W_ZERO], k / group)
                                                        : 0);
}

static bool is_float(const struct rfg_problem *prob, int i, struct rfg_reason *why)
{
    return rfg_dtype_is_float(prob->dtype[i]) ||
           rfg_refuse(why, "dtype of %s is %s: must be bf16, f16 or f32", prob->op->operands[i].name,
                      rfg_dtype_name((rfg_dtype)prob->dtype[i]));
}

bool gemm_is_plain(const struct rfg_problem *prob, struct rfg_reason *why)
{
    for (int i = 0; i < 3; i++)
        if (!is_float(prob, i, why))
            return false;
    return prob->dtype[0] == prob->dtype[1] ||
           rfg_refuse(why, "dtype of w is %s: must be x's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]),
                      rfg_dtype_name((rfg_dtype)prob->dtype[0]));
}

bool gemm_has_loader(const struct rfg_problem *prob, struct rfg_reason *why)
{
    return gemm_w_format(prob) ? is_float(prob, 2, why) : gemm_is_plain(prob, why);
}

bool gemm_ends_plain(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (prob->v[GEMM_RESIDUAL])
        return rfg_refuse(why, "residual=1: it adds none");
    return !prob->v[GEMM_GATED] || rfg_refuse(why, "act=%s: it has none", act_names[prob->v[GEMM_GATED]]);
}

/* The scales and columns that W's format asks for. */
static bool w_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const struct gemm_w_format *f = gemm_w_format(prob);
    rfg_dtype w = (rfg_dtype)prob->dtype[1], scale = (rfg_dtype)prob->v[GEMM_W_SCALE];
    uint32_t scales = f && f->w_scale ? f->w_scale : 1u << RFG_DTYPE_NONE;
    if (!(scales >> scale & 1))
        return rfg_refuse(why, "w_scale=%s: must be %s, w is %s", rfg_dtype_name(scale),
                          scales == ANY_FLOAT ? "f32, f16 or bf16" : rfg_dtype_name((rfg_dtype)__builtin_ctz(scales)),
                          rfg_dtype_name(w));
    if (prob->v[GEMM_W_ZERO] && !(f && f->zeros))
        return rfg_refuse(why, "w_zero=%s: must be none, w is %s", rfg_dtype_name((rfg_dtype)prob->v[GEMM_W_ZERO]),
                          rfg_dtype_name(w));
    int64_t k = prob->v[GEMM_K], group = prob->v[GEMM_W_GROUP], ldw = prob->v[GEMM_LDW];
    int least = f ? f->group : 0, block = rfg_format((int)w)->elements;
    if (least ? group < least || group % least || k % group : group != 0)
        return least ? rfg_refuse(why,
                                  "w_group=%" PRId64 ": must be a multiple of %d that divides K=%" PRId64 ", w is %s",
                                  group, least, k, rfg_dtype_name(w))
                     : rfg_refuse(why, "w_group=%" PRId64 ": must be 0, w has no scales", group);
    if (k % block || ldw % block)
        return rfg_refuse(why, "K=%" PRId64 ", ldw=%" PRId64 ": must be whole blocks of %s, %d elements", k, ldw,
                          rfg_dtype_name(w), block);
    return true;
}

static bool gemm_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!gemm_has_loader(prob, why) || !w_valid(prob, why))
        return false;
    if (v[GEMM_BTYPE] && (!v[GEMM_BIAS] || prob->dtype[0] == RFG_F32))
        return rfg_refuse(why,
                          v[GEMM_BIAS] ? "btype=f32: is what it is without, x is f32" : "btype=f32: there is no bias");
    if ((v[GEMM_LDX] && v[GEMM_LDX] < v[GEMM_K]) || (v[GEMM_LDW] && v[GEMM_LDW] < v[GEMM_K]))
        return rfg_refuse(why, "ldx=%" PRId64 ", ldw=%" PRId64 ": must be at least K=%" PRId64, v[GEMM_LDX],
                          v[GEMM_LDW], v[GEMM_K]);
    if (v[GEMM_PREPACKED] && v[GEMM_LDW])
        return rfg_refuse(why, "ldw=%" PRId64 ": must be 0 with packed=1", v[GEMM_LDW]);
    if (v[GEMM_PREPACKED] && !prepack_valid(v[GEMM_N], v[GEMM_K], prob->dtype[1], why))
        return false;
    if (v[GEMM_GATED] && v[GEMM_N] % 2)
        return rfg_refuse(why, "N=%" PRId64 ": must be even with act=%s", v[GEMM_N], act_names[v[GEMM_GATED]]);
    if (v[GEMM_GATED] && v[GEMM_RESIDUAL])
        return rfg_refuse(why, "act=%s: has no residual", act_names[v[GEMM_GATED]]);
    int64_t cols = gemm_y_cols(prob);
    if ((v[GEMM_LDY] && v[GEMM_LDY] < cols) || (v[GEMM_LDR] && v[GEMM_LDR] < cols))
        return rfg_refuse(why, "ldy=%" PRId64 ", ldr=%" PRId64 ": must be at least y's columns, %" PRId64, v[GEMM_LDY],
                          v[GEMM_LDR], cols);
    if ((v[GEMM_LDR] || v[GEMM_INPLACE]) && !v[GEMM_RESIDUAL])
        return rfg_refuse(why, "ldr=%" PRId64 ", inplace=%" PRId64 ": there is no residual", v[GEMM_LDR],
                          v[GEMM_INPLACE]);
    if (v[GEMM_INPLACE] && v[GEMM_LDR] != v[GEMM_LDY])
        return rfg_refuse(why, "inplace=1: needs ldr=ldy");
    for (int i = GEMM_ALIGN; i <= GEMM_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", gemm_keys[i].name, v[i]);
    return true;
}

static void gemm_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const uint8_t *d = prob->dtype;
    const int64_t *v = prob->v;
    double m = (double)v[GEMM_M], n = (double)v[GEMM_N], k = (double)v[GEMM_K];
    *bytes = m * (double)rfg_format_bytes(d[0], v[GEMM_K]) + n * (double)gemm_w_row_bytes(prob) +
             m * (double)rfg_format_bytes(d[2], gemm_y_cols(prob)) * (v[GEMM_RESIDUAL] ? 2 : 1) +
             (v[GEMM_BIAS] ? (double)rfg_format_bytes(gemm_bias_dtype(prob), v[GEMM_N]) : 0);
    *flops = 2 * m * n * k;
}

/* ---- the public function ------------------------------------------------------------------------------------ */

#define FN "rfg_op_gemm"
RFG_PARAMS_END(rfg_gemm_params, act);

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

/* Scales, or zero points, of W: one for each group. A prepacked W's have three dimensions. */
static rfg_status check_groups(const struct rfg_operand *o, const struct rfg_operand *w, int64_t group)
{
    const int64_t *s = o->t->shape;
    if (w->t->ndim == 5)
        return s[0] == w->rows / PREPACK_ROWS && s[1] * group == w->cols && s[2] == PREPACK_ROWS &&
                       (o->rows == 0 || (o->ld == o->cols && o->inner == 1))
                   ? RFG_OK
                   : BAD("%s is %" PRId64 " x %" PRId64 " x %" PRId64
                         ": must be [N/16,K/group,16], packed, w is prepacked, %" PRId64 " x %" PRId64,
                         o->name, s[0], s[1], s[2], w->rows, w->cols);
    return o->rows == w->rows && o->cols * group == w->cols && o->ld == o->cols
               ? RFG_OK
               : BAD("%s is %" PRId64 " x %" PRId64 ", rows %" PRId64
                     " apart: must be [N,K/group], packed, w is %" PRId64 " x %" PRId64,
                     o->name, o->rows, o->cols, o->ld, w->rows, w->cols);
}

/* W, its scales and zero points, if its format has any, go with each other and with x. Fills in how they are grouped.
 */
static rfg_status check_w(struct rfg_problem *prob, const struct rfg_operand *w, const rfg_tensor *w_scale,
                          struct rfg_operand *os, const rfg_tensor *w_zero, struct rfg_operand *oz)
{
    const struct gemm_w_format *f = gemm_w_format(prob);
    struct rfg_reason why;
    rfg_status st;
    if (prob->dtype[1] != prob->dtype[0] && !f)
        return BAD("x is %s, w %s: must be of one dtype", rfg_dtype_name((rfg_dtype)prob->dtype[0]),
                   rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    int dims = w->t->ndim == 5 ? 3 : 2;
    if ((w_scale && (st = rfg_check_operand(os, FN, "w_scale", w_scale, dims, dims))) ||
        (w_zero && (st = rfg_check_operand(oz, FN, "w_zero", w_zero, dims, dims))))
        return st;
    if (w_scale)
        prob->v[GEMM_W_GROUP] = w_scale->shape[1] ? w->cols / w_scale->shape[1] : f ? f->group : 0;
    if (!w_valid(prob, &why))
        return BAD("%s", why.text);
    if (w_zero && w_zero->dtype != RFG_I8)
        return BAD("w_zero is %s: must be i8", rfg_dtype_name(w_zero->dtype));
    if ((w_scale && (st = check_groups(os, w, prob->v[GEMM_W_GROUP]))) ||
        (w_zero && (st = check_groups(oz, w, prob->v[GEMM_W_GROUP]))))
        return st;
    return RFG_OK;
}

rfg_status rfg_op_gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                       const rfg_gemm_params *params, rfg_stream stream)
{
    struct rfg_operand oy, ox, ow, ob = { 0 }, os = { 0 }, oz = { 0 }, or = { 0 };
    rfg_gemm_params p = RFG_GEMM_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_op_gemm: ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_gemm_params, &p, params)))
        return st;
    const rfg_tensor *bias = p.bias, *w_scale = p.w_scale, *w_zero = p.w_zero, *residual = p.residual;
    bool prepacked = w && w->ndim == 5;
    if ((st = rfg_check_float_operand(&oy, FN, "y", y, 2, 2)) ||
        (st = rfg_check_float_operand(&ox, FN, "x", x, 2, 2)) ||
        (st = prepacked ? prepack_operand(&ow, FN, "w", w) : rfg_check_operand(&ow, FN, "w", w, 2, 2)) ||
        (bias && (st = rfg_check_float_operand(&ob, FN, "bias", bias, 1, 1))) ||
        (residual && (st = rfg_check_float_operand(& or, FN, "residual", residual, 2, 2))))
        return st;
    int halves = p.gated ? 2 : 1; /* W's rows a column of Y */
    if (ox.rows != oy.rows || ow.rows != oy.cols * halves || ow.cols != ox.cols || (bias && ob.cols != ow.rows))
        return BAD("y is %" PRId64 " x %" PRId64 ", x %" PRId64 " x %" PRId64 ", w %" PRId64 " x %" PRId64
                   ", bias %" PRId64 ": must be %s, [M,K], [N,K], [N]",
                   oy.rows, oy.cols, ox.rows, ox.cols, ow.rows, ow.cols, bias ? ob.cols : ow.rows,
                   p.gated ? "[M,N/2] (gated)" : "[M,N]");
    if (residual && (or.rows != oy.rows || or.cols != oy.cols || residual->dtype != y->dtype))
        return BAD("residual is %s, %" PRId64 " x %" PRId64 ": must be as y, %s, %" PRId64 " x %" PRId64,
                   rfg_dtype_name(residual->dtype), or.rows, or.cols, rfg_dtype_name(y->dtype), oy.rows, oy.cols);
    if (p.gated && ((int)p.act < 0 || (int)p.act >= GATED_LAST))
        return BAD("act is %d: must be silu, gelu, gelu_tanh, relu or relu2", (int)p.act);
    if (p.gated && residual)
        return BAD("gated, with a residual: must be one of them");
    if (bias && bias->dtype != x->dtype && bias->dtype != RFG_F32)
        return BAD("bias is %s: must be x's dtype, %s, or f32", rfg_dtype_name(bias->dtype), rfg_dtype_name(x->dtype));
    struct rfg_problem prob = { .op = &rfg_op_gemm_desc,
                                .dtype = { (uint8_t)x->dtype, (uint8_t)w->dtype, (uint8_t)y->dtype } };
    prob.v[GEMM_M] = oy.rows;
    prob.v[GEMM_N] = ow.rows;
    prob.v[GEMM_K] = ox.cols;
    prob.v[GEMM_W_SCALE] = w_scale ? w_scale->dtype : RFG_DTYPE_NONE;
    prob.v[GEMM_W_ZERO] = w_zero ? w_zero->dtype : RFG_DTYPE_NONE;
    if ((w->dtype != x->dtype || w_scale || w_zero) && (st = check_w(&prob, &ow, w_scale, &os, w_zero, &oz)))
        return st;
    if (oy.rows == 0 || oy.cols == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN, &oy, &ox, false)) || (st = rfg_check_overlap(FN, &oy, &ow, false)) ||
        (bias && (st = rfg_check_overlap(FN, &oy, &ob, false))) ||
        (w_scale && (st = rfg_check_overlap(FN, &oy, &os, false))) ||
        (w_zero && (st = rfg_check_overlap(FN, &oy, &oz, false))) ||
        (residual && (st = rfg_check_overlap(FN, &oy, & or, true))))
        return st;

    prob.v[GEMM_BIAS] = bias != NULL;
    prob.v[GEMM_BTYPE] = bias && bias->dtype != x->dtype ? bias->dtype : RFG_DTYPE_NONE;
    prob.v[GEMM_RESIDUAL] = residual != NULL;
    prob.v[GEMM_GATED] = p.gated ? (int)p.act + 1 : 0;
    prob.v[GEMM_LDR] = or.ld == or.cols ? 0 : or.ld;
    prob.v[GEMM_INPLACE] = residual && or.begin == oy.begin;
    prob.v[GEMM_PREPACKED] = prepacked;
    prob.v[GEMM_LDX] = ox.ld == ox.cols ? 0 : ox.ld;
    prob.v[GEMM_LDW] = ow.ld == ow.cols ? 0 : ow.ld;
    prob.v[GEMM_LDY] = oy.ld == oy.cols ? 0 : oy.ld;
    prob.v[GEMM_ALIGN] = rfg_alignment(ox.bits | ow.bits | (prepacked ? os.bits | oz.bits : 0));
    prob.v[GEMM_ALIGN_Y] = rfg_alignment(oy.bits | ob.bits);

    struct gemm_args a = { .y = y->data,
                           .x = x->data,
                           .w = w->data,
                           .bias = bias ? bias->data : NULL,
                           .ldx = ox.ld,
                           .ldw = ow.ld,
                           .ldy = oy.ld,
                           .m = (int32_t)oy.rows,
                           .n = (int32_t)ow.rows,
                           .k = (int32_t)ox.cols,
                           .w_scale = w_scale ? w_scale->data : NULL,
                           .residual = residual ? residual->data : NULL,
                           .ldr = or.ld,
                           .w_zero = w_zero ? w_zero->data : NULL };
    return rfg_dispatch(ctx, &prob, &a, stream);
}

/* Ties in the model go to the earlier one; the portable ones come last. */
static const struct rfg_variant *const gemm_variants[] = {
    &gemm_stream_mma, &gemm_thin_mma, &gemm_wgmma,        &gemm_skinny_mma_asm, &gemm_skinny,
    &gemm_splitk_mma, &gemm_cublaslt, &gemm_hipblaslt,    &gemm_rocblas,        &gemm_portable,
    &gemm_cpu_avx512, &gemm_cpu_avx2, &gemm_cpu_portable,
};

const struct rfg_op rfg_op_gemm_desc = {
    .name = "gemm",
    .id = 1,
    .n_in = 2,
    .n_out = 1,
    .n_operands = sizeof(gemm_operands) / sizeof(gemm_operands[0]),
    .operands = gemm_operands,
    .n_keys = GEMM_NKEYS,
    .keys = gemm_keys,
    .column_key = { "M", "N", "K" },
    .n_variants = sizeof(gemm_variants) / sizeof(gemm_variants[0]),
    .variants = gemm_variants,
    .kargs_size = sizeof(struct gemm_args),
    .head = offsetof(struct gemm_args, workspace),
    .valid = gemm_valid,
    .cost = gemm_cost,
};
