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

static const struct rfg_key gemm_keys[GEMM_NKEYS] = {
    [GEMM_M] = { "M", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "rows of x and y" },
    [GEMM_N] = { "N", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "columns of y, rows of w" },
    [GEMM_K] = { "K", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "columns of x and w" },
    [GEMM_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there is a bias" },
    [GEMM_PREPACKED] = { "packed", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: w is prepacked" },
    [GEMM_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of x to the next; 0: they follow one another" },
    [GEMM_LDW] = { "ldw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of w to the next; 0: they follow one another" },
    [GEMM_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of y to the next; 0: they follow one another" },
    [GEMM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                     "bytes, up to 16, of which pointers and row strides of x and w are multiples" },
    [GEMM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and row strides of y and bias are multiples" },
    [GEMM_OVERLAP] = RFG_KEY_OVERLAP,
};

static bool gemm_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    for (int i = 0; i < 3; i++)
        if (!rfg_dtype_is_float(prob->dtype[i]))
            return rfg_refuse(why, "dtype %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)prob->dtype[i]));
    if (prob->dtype[0] != prob->dtype[1])
        return rfg_refuse(why, "dtype of w is %s: must be x's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]),
                          rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if ((v[GEMM_LDX] && v[GEMM_LDX] < v[GEMM_K]) || (v[GEMM_LDW] && v[GEMM_LDW] < v[GEMM_K]))
        return rfg_refuse(why, "ldx=%" PRId64 ", ldw=%" PRId64 ": must be at least K=%" PRId64, v[GEMM_LDX],
                          v[GEMM_LDW], v[GEMM_K]);
    if (v[GEMM_PREPACKED] && v[GEMM_LDW])
        return rfg_refuse(why, "ldw=%" PRId64 ": must be 0 with packed=1", v[GEMM_LDW]);
    if (v[GEMM_PREPACKED] && !prepack_valid(v[GEMM_N], v[GEMM_K], prob->dtype[1], why))
        return false;
    if (v[GEMM_LDY] && v[GEMM_LDY] < v[GEMM_N])
        return rfg_refuse(why, "ldy=%" PRId64 ": must be at least N=%" PRId64, v[GEMM_LDY], v[GEMM_N]);
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
    *bytes = m * (double)rfg_format_bytes(d[0], v[GEMM_K]) + n * (double)rfg_format_bytes(d[1], v[GEMM_K]) +
             m * (double)rfg_format_bytes(d[2], v[GEMM_N]) +
             (v[GEMM_BIAS] ? (double)rfg_format_bytes(d[1], v[GEMM_N]) : 0);
    *flops = 2 * m * n * k;
}

/* ---- the public function ------------------------------------------------------------------------------------ */

#define FN "rfg_op_gemm"
RFG_PARAMS_END(rfg_gemm_params, bias);

/* Tensors of the right kind and a dtype that gemm computes with. */
static rfg_status check(struct rfg_operand *o, const char *name, const rfg_tensor *t, int ndim)
{
    rfg_status st = ndim == 5 ? prepack_operand(o, FN, name, t) : rfg_check_operand(o, FN, name, t, ndim, ndim);
    if (st == RFG_OK && !rfg_dtype_is_float((int)t->dtype))
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": %s is %s: must be bf16, f16 or f32", name,
                      rfg_dtype_name(t->dtype));
    return st;
}

rfg_status rfg_op_gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                       const rfg_gemm_params *params, rfg_stream stream)
{
    struct rfg_operand oy, ox, ow, ob = { 0 };
    rfg_gemm_params p = RFG_GEMM_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_op_gemm: ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_gemm_params, &p, params)))
        return st;
    const rfg_tensor *bias = p.bias;
    bool prepacked = w && w->ndim == 5;
    if ((st = check(&oy, "y", y, 2)) || (st = check(&ox, "x", x, 2)) || (st = check(&ow, "w", w, prepacked ? 5 : 2)) ||
        (bias && (st = check(&ob, "bias", bias, 1))))
        return st;
    if (ox.rows != oy.rows || ow.rows != oy.cols || ow.cols != ox.cols || (bias && ob.cols != oy.cols))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "rfg_op_gemm: y is %" PRId64 " x %" PRId64 ", x %" PRId64 " x %" PRId64 ", w %" PRId64
                        " x %" PRId64 ", bias %" PRId64 ": must be [M,N], [M,K], [N,K], "
                        "[N]",
                        oy.rows, oy.cols, ox.rows, ox.cols, ow.rows, ow.cols, bias ? ob.cols : oy.cols);
    if (w->dtype != x->dtype || (bias && bias->dtype != w->dtype))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_op_gemm: x is %s, w %s%s%s: must be of one dtype",
                        rfg_dtype_name(x->dtype), rfg_dtype_name(w->dtype), bias ? ", bias " : "",
                        bias ? rfg_dtype_name(bias->dtype) : "");
    if (oy.rows == 0 || oy.cols == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN, &oy, &ox, false)) || (st = rfg_check_overlap(FN, &oy, &ow, false)) ||
        (bias && (st = rfg_check_overlap(FN, &oy, &ob, false))))
        return st;

    struct rfg_problem prob = { .op = &rfg_op_gemm_desc,
                                .dtype = { (uint8_t)x->dtype, (uint8_t)w->dtype, (uint8_t)y->dtype } };
    prob.v[GEMM_M] = oy.rows;
    prob.v[GEMM_N] = oy.cols;
    prob.v[GEMM_K] = ox.cols;
    prob.v[GEMM_BIAS] = bias != NULL;
    prob.v[GEMM_PREPACKED] = prepacked;
    prob.v[GEMM_LDX] = ox.ld == ox.cols ? 0 : ox.ld;
    prob.v[GEMM_LDW] = ow.ld == ow.cols ? 0 : ow.ld;
    prob.v[GEMM_LDY] = oy.ld == oy.cols ? 0 : oy.ld;
    prob.v[GEMM_ALIGN] = rfg_alignment(ox.bits | ow.bits);
    prob.v[GEMM_ALIGN_Y] = rfg_alignment(oy.bits | ob.bits);

    struct gemm_args a = { .y = y->data,
                           .x = x->data,
                           .w = w->data,
                           .bias = bias ? bias->data : NULL,
                           .ldx = ox.ld,
                           .ldw = ow.ld,
                           .ldy = oy.ld,
                           .m = (int32_t)oy.rows,
                           .n = (int32_t)oy.cols,
                           .k = (int32_t)ox.cols };
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
    .n_keys = GEMM_NKEYS,
    .keys = gemm_keys,
    .column_key = { "M", "N", "K" },
    .n_variants = sizeof(gemm_variants) / sizeof(gemm_variants[0]),
    .variants = gemm_variants,
    .kargs_size = sizeof(struct gemm_args),
    .head = offsetof(struct gemm_args, head),
    .valid = gemm_valid,
    .cost = gemm_cost,
};
