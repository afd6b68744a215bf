/* SPDX-License-Identifier: MIT
 *
 * gemm_prepack: its keys, its rules and its table. The public function is in prepack_call.c. */
#include <inttypes.h>

#include "gemm.h"
#include "prepack_args.h"

#define MAX_BLOCKS UINT32_MAX /* of 16 x 32: what the kernel counts with */

static const struct rfg_key prepack_keys[PREPACK_NKEYS] = {
    [PREPACK_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of src" },
    [PREPACK_K] = { "K", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of src" },
    [PREPACK_GROUPS] = { "groups", RFG_KEY_ATTR, 0, 0, 1, NULL,
                         "1: src is scales or zero points of a W of 4 bits, one a group" },
    [PREPACK_PAD] = { "pad", RFG_KEY_ATTR, 0, 0, PREPACK_MOST_PAD, NULL,
                      "of scales or zero points, groups of zeros behind each row's" },
    [PREPACK_LD] = { "ld", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                     "elements from a row of src to the next; 0: they follow one another" },
    [PREPACK_OVERLAP] = RFG_KEY_OVERLAP,
};

bool prepack_valid(int64_t n, int64_t k, int dtype, struct rfg_reason *why)
{
    /* Of 4 bits blocks are filled up, chunk by chunk. */
    int cols = rfg_dtype_is_4_bits(dtype) ? PREPACK4_CHUNK : prepack_cols(dtype);
    if (!cols)
        return rfg_refuse(why, "w is %s: must be bf16, f16 or of 8 or 4 bits to be prepacked",
                          rfg_dtype_name((rfg_dtype)dtype));
    if (n % PREPACK_ROWS)
        return rfg_refuse(why, "N=%" PRId64 ": must be a multiple of %d to be prepacked", n, PREPACK_ROWS);
    if (k % cols)
        return rfg_refuse(why, "K=%" PRId64 ": must be a multiple of %d to be prepacked", k, cols);
    if (n / PREPACK_ROWS * ceil_div(k, prepack_cols(dtype)) > MAX_BLOCKS)
        return rfg_refuse(why, "N=%" PRId64 ", K=%" PRId64 ": more than %" PRIu32 " blocks of %d x %d", n, k,
                          MAX_BLOCKS, PREPACK_ROWS, prepack_cols(dtype));
    return true;
}

rfg_status prepack_rows(rfg_tensor *rows, const char *fn, const char *name, const rfg_tensor *t)
{
    if (!t)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s is NULL: must be a tensor", fn, name);
    int chunk = prepack_chunk((int)t->dtype), cols = 4 * chunk;
    if (!chunk)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s is prepacked %s: must be bf16 or f16, or of 8 or 4 bits",
                        fn, name, rfg_dtype_name(t->dtype));
    const int64_t *s = t->shape;
    if (t->ndim != 5)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s has %d dimensions: must have 5, [N/16, K/%d, 4, 16, %d] (rfg_tensor_prepacked())", fn,
                        name, (int)t->ndim, cols, chunk);
    if (s[0] < 0 || s[0] > RFG_MAX_SIZE / PREPACK_ROWS || s[1] < 0 || s[1] > RFG_MAX_SIZE / cols || s[2] != 4 ||
        s[3] != PREPACK_ROWS || s[4] != chunk)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s is %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                        ": with 5 dimensions it must be [N/16, K/%d, 4, 16, %d], N and K at most %d",
                        fn, name, s[0], s[1], s[2], s[3], s[4], cols, chunk, RFG_MAX_SIZE);
    int64_t packed = 1;
    for (int i = 4; i >= 0; packed *= s[i--])
        if (s[i] > 1 && s[0] && s[1] && t->strides[i] != packed)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                            "%s: %s has stride %" PRId64 " in dimension %d: prepacked, it must be %" PRId64, fn, name,
                            t->strides[i], i, packed);
    int64_t n = s[0] * PREPACK_ROWS, k = s[1] * cols;
    struct rfg_reason why;
    *rows = rfg_tensor_2d(t->data, t->dtype, n, k, k);
    return prepack_valid(n, k, (int)t->dtype, &why)
               ? RFG_OK
               : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s: %s", fn, name, why.text);
}

bool prepack_groups_valid(int64_t n, int64_t k, int dtype, struct rfg_reason *why)
{
    if (!rfg_dtype_is_float(dtype) && dtype != RFG_E8M0 && dtype != RFG_E4M3 && dtype != RFG_I8)
        return rfg_refuse(why, "scales or zero points of %s: must be bf16, f16, f32, e8m0, e4m3 or i8",
                          rfg_dtype_name((rfg_dtype)dtype));
    if (n % PREPACK_ROWS)
        return rfg_refuse(why, "N=%" PRId64 ": must be a multiple of %d to be prepacked", n, PREPACK_ROWS);
    if (n / PREPACK_ROWS * k > MAX_BLOCKS)
        return rfg_refuse(why, "N=%" PRId64 ", K=%" PRId64 ": more than %" PRIu32 " groups of %d rows", n, k,
                          MAX_BLOCKS, PREPACK_ROWS);
    return true;
}

static bool problem_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (prob->dtype[0] != prob->dtype[1])
        return rfg_refuse(why, "dtypes %s->%s: must be alike", rfg_dtype_name((rfg_dtype)prob->dtype[0]),
                          rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    if (v[PREPACK_GROUPS] ? !prepack_groups_valid(v[PREPACK_N], v[PREPACK_K], prob->dtype[0], why)
                          : !prepack_valid(v[PREPACK_N], v[PREPACK_K], prob->dtype[0], why))
        return false;
    if (v[PREPACK_PAD] && !v[PREPACK_GROUPS])
        return rfg_refuse(why, "pad=%" PRId64 ": must be 0, or of scales or zero points", v[PREPACK_PAD]);
    int whole = v[PREPACK_GROUPS] ? 1 : prepack_chunk(prob->dtype[0]);
    if (v[PREPACK_LD] && (v[PREPACK_LD] < v[PREPACK_K] || v[PREPACK_LD] % whole))
        return rfg_refuse(why, "ld=%" PRId64 ": must be at least K=%" PRId64 " and a multiple of %d", v[PREPACK_LD],
                          v[PREPACK_K], whole);
    return true;
}

void prepack_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    *bytes = (double)prob->v[PREPACK_N] * (double)(rfg_format_bytes(prob->dtype[0], prob->v[PREPACK_K]) +
                                                   rfg_format_bytes(prob->dtype[0], prepack_dst_cols(prob)));
    *flops = (double)prob->v[PREPACK_N] * (double)prob->v[PREPACK_K]; /* moves: 0 would mean nothing to do */
}

static const struct rfg_op_operand prepack_operands[] = {
    { "src", false, RFG_FORMAT_LISTED, 0, 0 },
    { "dst", true, RFG_FORMAT_LISTED, 1, 0 },
};

const struct rfg_op rfg_op_gemm_prepack_desc = {
    .name = "gemm_prepack",
    .id = 8,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(prepack_operands),
    .n_keys = PREPACK_NKEYS,
    .keys = prepack_keys,
    .column_key = { NULL, "N", "K" },
    RFG_KARGS(struct prepack_args),
    .valid = problem_valid,
    .cost = prepack_cost,
};
