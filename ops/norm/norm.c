/* SPDX-License-Identifier: MIT
 *
 * The operators rmsnorm, add_rmsnorm, layernorm and add_layernorm: their keys, rules and tables. The public
 * functions are in call.c. */
#include "norm.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/params.h"

static const char *const weight_names[] = { "w", "1+w", "none" };
static const char *const type_names[] = { "x", "f32" };

static const struct rfg_key norm_keys[NORM_NKEYS] = {
    [NORM_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [NORM_N] = { "N", RFG_KEY_SIZE, 0, 0, NORM_MAX_N, NULL, "columns" },
    [NORM_WEIGHT] = { "weight", RFG_KEY_ATTR, NORM_WEIGHT_W, NORM_WEIGHT_W, NORM_WEIGHT_NONE, weight_names,
                      "what the weight is" },
    [NORM_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: layernorms' bias" },
    [NORM_RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, 1, type_names,
                        "dtype of the residuals: x's, or f32 with a 16-bit x" },
    [NORM_WTYPE] = { "wtype", RFG_KEY_ATTR, 0, 0, 1, type_names,
                     "dtype of weight and bias: x's, or f32 with a 16-bit x" },
    [NORM_SCALE] = { "scale", RFG_KEY_ATTR, 0, 0, RFG_SCALE_MX, RFG_SCALE_NAMES, "the quantised output's scales" },
    [NORM_ROUNDING] = RFG_KEY_ROUNDING("with scale=mx, how a scale follows from the largest"),
    [NORM_PLAIN] = { "plain", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: with a scale, the plain output too" },
    [NORM_HEADS] = { "heads", RFG_KEY_LAYOUT, 1, 1, RFG_MAX_SIZE, NULL,
                     "H of tensors [T,H,N] that don't fold into two dimensions" },
    [NORM_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "row stride of x in elements; 0: packed (with heads: stride of T)" },
    [NORM_LDR] = { "ldr", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "row stride of the residuals in elements; 0: packed" },
    [NORM_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of y and q in elements; 0: packed" },
    [NORM_SCALE_COLUMNS] = { "scale_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: scales of groups are column-major" },
    [NORM_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 3, NULL, "1: y is x; 2: residual_out is residual; 3: both" },
    [NORM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                     "bytes, up to 16, of which pointers and row strides of the inputs are multiples" },
    [NORM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and row strides of the outputs are multiples" },
    [NORM_INVARIANT] = RFG_KEY_INVARIANT,
    [NORM_OVERLAP] = RFG_KEY_OVERLAP,
};

static bool norm_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t heads = v[NORM_HEADS] < 1 ? 1 : v[NORM_HEADS];
    struct rfg_outputs_keys outputs = { v[NORM_N],        v[NORM_LDY],   v[NORM_SCALE],
                                        v[NORM_ROUNDING], v[NORM_PLAIN], v[NORM_SCALE_COLUMNS] };
    if (!rfg_outputs_valid(prob, &outputs, why))
        return false;
    if (v[NORM_BIAS] && !norm_is_layer(prob))
        return rfg_refuse(why, "bias=1: %s has none", prob->op->name);
    if (v[NORM_RESIDUAL] && !norm_adds(prob))
        return rfg_refuse(why, "residual=f32: %s has none", prob->op->name);
    if (v[NORM_WTYPE] && v[NORM_WEIGHT] == NORM_WEIGHT_NONE && !v[NORM_BIAS])
        return rfg_refuse(why, "wtype=f32: there is neither weight nor bias");
    if ((v[NORM_RESIDUAL] || v[NORM_WTYPE]) && prob->dtype[0] == RFG_F32)
        return rfg_refuse(why, "%s=f32: is what it is without, x is f32", v[NORM_WTYPE] ? "wtype" : "residual");
    if (v[NORM_M] % heads)
        return rfg_refuse(why, "heads=%" PRId64 ": must divide M=%" PRId64, heads, v[NORM_M]);
    for (int i = NORM_LDX; i <= NORM_LDY; i++)
        if (v[i] && v[i] / heads < v[NORM_N])
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least %" PRId64 " x N=%" PRId64, norm_keys[i].name, v[i],
                              heads, v[NORM_N]);
    if (v[NORM_LDR] && !norm_adds(prob))
        return rfg_refuse(why, "ldr=%" PRId64 ": %s has no residual", v[NORM_LDR], prob->op->name);
    if (v[NORM_INPLACE] & 1 && (!norm_is_plain(prob) || v[NORM_LDX] != v[NORM_LDY]))
        return rfg_refuse(why, "inplace=%" PRId64 ": needs a plain output and ldy=ldx", v[NORM_INPLACE]);
    if (v[NORM_INPLACE] & 2 && !norm_adds(prob))
        return rfg_refuse(why, "inplace=%" PRId64 ": %s has no residual", v[NORM_INPLACE], prob->op->name);
    for (int i = NORM_ALIGN; i <= NORM_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", norm_keys[i].name, v[i]);
    return true;
}

static void norm_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double m = (double)v[NORM_M], elements = m * (double)v[NORM_N];
    double row = (double)rfg_format_bytes(prob->dtype[0], v[NORM_N]);
    double residual = (double)rfg_format_bytes(norm_residual_dtype(prob), v[NORM_N]);
    double weight = (double)rfg_format_bytes(norm_weight_dtype(prob), v[NORM_N]);
    *bytes = m * row + (norm_adds(prob) ? 2 * m * residual : 0) +
             weight * ((v[NORM_WEIGHT] != NORM_WEIGHT_NONE) + (v[NORM_BIAS] != 0)) +
             rfg_outputs_bytes(prob, v[NORM_M], v[NORM_N], v[NORM_SCALE], v[NORM_PLAIN]);
    *flops = elements * (norm_is_layer(prob) ? 8 : 5);
}

/* A batch of decode, and a chunk of prefill. */
static void norm_at_size(struct rfg_problem *prob, bool large)
{
    prob->v[NORM_M] = large ? 4096 : 16;
}

void norm_fill_packed(struct norm_args *a)
{
    a->packed.x = a->x.data;
    a->packed.residual = a->residual.data;
    a->packed.residual_out = a->residual_out.data;
    a->packed.y = a->y.data;
    a->packed.weight = a->weight;
    a->packed.n = a->n;
    a->packed.eps = a->eps;
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

/* The list's output is q's; without q it says y's, which is x's. */
static const struct rfg_op_operand norm_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },    { "q", true, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_AS, 0, 0 },         { "scale", true, RFG_FORMAT_OF_SCALE, NORM_SCALE, 0 },
    { "residual", false, RFG_FORMAT_AS, 0, 0 }, { "residual_out", true, RFG_FORMAT_AS, 0, 0 },
    { "weight", false, RFG_FORMAT_AS, 0, 0 },   { "bias", false, RFG_FORMAT_AS, 0, 0 },
};

#define DESC(op_name, op_id)                                                                                           \
    const struct rfg_op rfg_op_##op_name##_desc = { .name = #op_name,                                                  \
                                                    .id = op_id,                                                       \
                                                    .n_in = 1,                                                         \
                                                    .n_out = 1,                                                        \
                                                    RFG_OPERANDS(norm_operands),                                       \
                                                    .n_keys = NORM_NKEYS,                                              \
                                                    .keys = norm_keys,                                                 \
                                                    .column_key = { "M", "N", NULL },                                  \
                                                    RFG_KARGS(struct norm_args),                                       \
                                                    .at_size = norm_at_size,                                           \
                                                    .valid = norm_valid,                                               \
                                                    .cost = norm_cost }
DESC(rmsnorm, 4);
DESC(add_rmsnorm, 5);
DESC(layernorm, 6);
DESC(add_layernorm, 7);
