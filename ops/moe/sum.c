/* SPDX-License-Identifier: MIT
 *
 * The operator moe_sum: its keys, rules and table. The public function is in sum_call.c. */
#include "sum.h"

#include <inttypes.h>

#include "ops/operand.h"
#include "ops/params.h"

#define MAX_CHUNKS (INT32_MAX - 4096) /* of 16 bytes: kernels count them in 32 bits */

static const struct rfg_key sum_keys[SUM_NKEYS] = {
    [SUM_T] = { "T", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "tokens: rows of y" },
    [SUM_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of x and y" },
    [SUM_TOP] = { "top", RFG_KEY_SIZE, 0, 1, SUM_MAX_TOP, NULL, "k, places of a token" },
    [SUM_WEIGHTS] = { "weights", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there are weights" },
    [SUM_RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there is a residual" },
    [SUM_TOKENS] = { "tokens", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: device memory says how many tokens count" },
    [SUM_IDENTITY] = { "identity", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: places may stand for the token's own row" },
    [SUM_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: the residual is y" },
    [SUM_R] = { "R", RFG_KEY_LAYOUT, 0, -1, RFG_MAX_SIZE, NULL, "rows of x; 0: T top, -1: none" },
    [SUM_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of x in elements; 0: packed" },
    [SUM_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of y in elements; 0: packed" },
    [SUM_LDR] = { "ldr", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                  "row stride of the residual in elements; 0: packed" },
    [SUM_LDP] = { "ldp", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of places in elements; 0: packed" },
    [SUM_LDW] = { "ldw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of weights in elements; 0: packed" },
    [SUM_LDI] = { "ldi", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of identity in elements; 0: packed" },
    [SUM_LDIW] = { "ldiw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "row stride of identity_weights in elements; 0: packed" },
    [SUM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                    "bytes, up to 16, of which pointers and row strides of x and identity are multiples" },
    [SUM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                      "bytes, up to 16, of which y's and the residual's pointers and row strides are multiples" },
    [SUM_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand sum_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "y", true, RFG_FORMAT_LISTED, 1, 0 },
    { "places", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "weights", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "residual", false, RFG_FORMAT_AS, 1, 0 },
    { "tokens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "identity", false, RFG_FORMAT_AS, 0, 0 },
    { "identity_weights", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};

static bool sum_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    for (int i = 0; i < 2; i++)
        if (!rfg_dtype_is_float(prob->dtype[i]))
            return rfg_refuse(why, "dtype of %s is %s: must be bf16, f16 or f32", sum_operands[i].name,
                              rfg_dtype_name((rfg_dtype)prob->dtype[i]));
    if (v[SUM_INPLACE] && !v[SUM_RESIDUAL])
        return rfg_refuse(why, "inplace=1: there must be a residual");
    if (v[SUM_INPLACE] && v[SUM_LDR] != v[SUM_LDY])
        return rfg_refuse(why, "ldr=%" PRId64 ": must be ldy=%" PRId64 " with inplace=1", v[SUM_LDR], v[SUM_LDY]);
    if (v[SUM_T] * v[SUM_TOP] > RFG_MAX_SIZE)
        return rfg_refuse(why, "T=%" PRId64 " top=%" PRId64 ": places must be at most %d", v[SUM_T], v[SUM_TOP],
                          RFG_MAX_SIZE);
    int64_t row_chunks = ceil_div(v[SUM_N], rfg_format_elements(prob->dtype[0], 16));
    if (v[SUM_T] * row_chunks > MAX_CHUNKS)
        return rfg_refuse(why,
                          "T=%" PRId64 " N=%" PRId64 ": 16 bytes of x at a time are %" PRId64 ", must be at most %d",
                          v[SUM_T], v[SUM_N], v[SUM_T] * row_chunks, MAX_CHUNKS);
    if (!v[SUM_IDENTITY] && (v[SUM_LDI] || v[SUM_LDIW]))
        return rfg_refuse(why, "ldi=%" PRId64 ", ldiw=%" PRId64 ": must be left out without identity", v[SUM_LDI],
                          v[SUM_LDIW]);
    for (int i = SUM_LDX; i <= SUM_LDIW; i++) {
        int cols = i < SUM_LDP || i == SUM_LDI ? SUM_N : SUM_TOP;
        if (v[i] && v[i] < v[cols])
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least %s=%" PRId64, sum_keys[i].name, v[i],
                              sum_keys[cols].name, v[cols]);
    }
    for (int i = SUM_ALIGN; i <= SUM_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", sum_keys[i].name, v[i]);
    return true;
}

static void sum_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double t = (double)v[SUM_T], top = (double)v[SUM_TOP];
    *bytes = t * (top * (double)rfg_format_bytes(prob->dtype[0], v[SUM_N]) +
                  (v[SUM_RESIDUAL] ? 2 : 1) * (double)rfg_format_bytes(prob->dtype[1], v[SUM_N]) +
                  top * ((v[SUM_WEIGHTS] ? 8 : 4) + (v[SUM_IDENTITY] ? 4 : 0)));
    *flops = t * (double)v[SUM_N] * (top * (v[SUM_WEIGHTS] ? 2 : 1) + (v[SUM_RESIDUAL] ? 1 : 0));
}

int64_t sum_x_rows(const struct rfg_problem *prob)
{
    int64_t r = prob->v[SUM_R];
    return r < 0 ? 0 : r ? r : prob->v[SUM_T] * prob->v[SUM_TOP];
}

void sum_set_sizes(struct moe_sum_args *a, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    unsigned chunks = (unsigned)ceil_div(v[SUM_N], rfg_format_elements(prob->dtype[0], 16));
    a->t = (int)v[SUM_T];
    a->n = (int)v[SUM_N];
    a->top = (int)v[SUM_TOP];
    a->x_rows = (int)sum_x_rows(prob);
    a->row_chunks = chunks;
    rfg_divisor(chunks, &a->mul, &a->shift);
}

const struct rfg_op rfg_op_moe_sum_desc = {
    .name = "moe_sum",
    .id = 33,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(sum_operands),
    .n_keys = SUM_NKEYS,
    .keys = sum_keys,
    .column_key = { "T", "N", "top" },
    RFG_KARGS(struct moe_sum_args),
    .valid = sum_valid,
    .cost = sum_cost,
};
