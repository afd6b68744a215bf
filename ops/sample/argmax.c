/* SPDX-License-Identifier: MIT
 *
 * The operator argmax: its keys, rules and table. The public function is in argmax_call.c. */
#include "argmax.h"

#include <inttypes.h>

#include "ops/operand.h"

static const struct rfg_key argmax_keys[ARGMAX_NKEYS] = {
    [ARGMAX_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of x" },
    [ARGMAX_V] = { "V", RFG_KEY_SIZE, 0, 1, RFG_MAX_SIZE, NULL, "columns of x" },
    [ARGMAX_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of x in elements; 0: packed" },
    [ARGMAX_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which x's pointer and row stride are multiples" },
    [ARGMAX_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand argmax_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "y", true, RFG_FORMAT_LISTED, 1, 0 },
};

static bool dtypes_valid(const uint8_t *d, struct rfg_reason *why)
{
    if (!rfg_dtype_is_float(d[0]))
        return rfg_refuse(why, "dtype of x is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)d[0]));
    return d[1] == RFG_I32 || d[1] == RFG_I64 ||
           rfg_refuse(why, "dtype of y is %s: must be i32 or i64", rfg_dtype_name((rfg_dtype)d[1]));
}

static bool argmax_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!dtypes_valid(prob->dtype, why))
        return false;
    if (v[ARGMAX_LDX] && v[ARGMAX_LDX] < v[ARGMAX_V])
        return rfg_refuse(why, "ldx=%" PRId64 ": must be at least V=%" PRId64, v[ARGMAX_LDX], v[ARGMAX_V]);
    return !(v[ARGMAX_ALIGN] & (v[ARGMAX_ALIGN] - 1)) ||
           rfg_refuse(why, "align=%" PRId64 ": must be a power of two", v[ARGMAX_ALIGN]);
}

static void argmax_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    double m = (double)prob->v[ARGMAX_M], v = (double)prob->v[ARGMAX_V];
    *bytes = m * (v * (double)rfg_format_bytes(prob->dtype[0], 1) + (double)rfg_format_bytes(prob->dtype[1], 1));
    *flops = m * v; /* comparisons */
}

const struct rfg_op rfg_op_argmax_desc = {
    .name = "argmax",
    .id = 15,
    .n_in = 1,
    .n_out = 1,
    RFG_OPERANDS(argmax_operands),
    .n_keys = ARGMAX_NKEYS,
    .keys = argmax_keys,
    .column_key = { "M", "V", NULL },
    RFG_KARGS(struct argmax_args),
    .valid = argmax_valid,
    .cost = argmax_cost,
};
