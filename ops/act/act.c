/* SPDX-License-Identifier: MIT
 *
 * The operators act_and_mul and act: their keys, rules and tables. The public functions are in call.c. */
#include "act.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/gates.h"
#include "ops/params.h"

static const char *const act_names[] = { RFG_ACT_NAMES, "none" };

static const struct rfg_key act_keys[ACT_NKEYS] = {
    [ACT_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows" },
    [ACT_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE / 2, NULL,
                "columns of y" }, /* x may have twice as many columns */
    [ACT_ACT] = { "act", RFG_KEY_ATTR, RFG_ACT_SILU, RFG_ACT_SILU, RFG_ACT_NONE, act_names, "the activation" },
    [ACT_LIMIT] = RFG_KEY_LIMIT,
    [ACT_GATES] = RFG_KEY_GATES("how a and b lie in a row of x"),
    [ACT_SCALE] = { "scale", RFG_KEY_ATTR, 0, 0, RFG_SCALE_MX, RFG_SCALE_NAMES, "the quantised output's scales" },
    [ACT_ROUNDING] = RFG_KEY_ROUNDING("with scale=mx, how a scale follows from the largest"),
    [ACT_PLAIN] = { "plain", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: with a scale, the plain output too" },
    [ACT_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of x in elements; 0: packed" },
    [ACT_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of y and q in elements; 0: packed" },
    [ACT_SCALE_COLUMNS] = { "scale_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: scales of groups are column-major" },
    [ACT_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: y is x" },
    [ACT_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                    "bytes, up to 16, of which pointers and row strides of x are multiples" },
    [ACT_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                      "bytes, up to 16, of which pointers and row strides of the outputs are multiples" },
    [ACT_OVERLAP] = RFG_KEY_OVERLAP,
};

/* The list's output is q's; without q it says y's, which is x's. */
static const struct rfg_op_operand act_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "q", true, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_AS, 0, 0 },
    { "scale", true, RFG_FORMAT_OF_SCALE, ACT_SCALE, 0 },
};

static bool act_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    struct rfg_outputs_keys outputs = { v[ACT_N],        v[ACT_LDY],   v[ACT_SCALE],
                                        v[ACT_ROUNDING], v[ACT_PLAIN], v[ACT_SCALE_COLUMNS] };
    if (!rfg_outputs_valid(prob, &outputs, why))
        return false;
    if (!act_multiplies(prob) && (v[ACT_GATES] || v[ACT_LIMIT] || rfg_act_is_of_gates(v[ACT_ACT])))
        return rfg_refuse(why, "act=%s, limit=%" PRId64 ", gates=%s: only of act_and_mul", act_names[v[ACT_ACT]],
                          v[ACT_LIMIT], RFG_GATES_NAMES[v[ACT_GATES]]);
    if (v[ACT_INPLACE] && (act_multiplies(prob) || !act_is_plain(prob) || v[ACT_LDX] != v[ACT_LDY]))
        return rfg_refuse(why, "inplace=1: only of act with a plain output and ldy=ldx");
    if (v[ACT_LDX] && v[ACT_LDX] < act_x_cols(prob))
        return rfg_refuse(why, "ldx=%" PRId64 ": must be at least %" PRId64, v[ACT_LDX], act_x_cols(prob));
    if (v[ACT_LDY] && v[ACT_LDY] < v[ACT_N])
        return rfg_refuse(why, "ldy=%" PRId64 ": must be at least N=%" PRId64, v[ACT_LDY], v[ACT_N]);
    for (int i = ACT_ALIGN; i <= ACT_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", act_keys[i].name, v[i]);
    return true;
}

static void act_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double m = (double)v[ACT_M], row = (double)rfg_format_bytes(prob->dtype[0], act_x_cols(prob));
    *bytes = m * row + rfg_outputs_bytes(prob, v[ACT_M], v[ACT_N], v[ACT_SCALE], v[ACT_PLAIN]);
    *flops = 10 * m * (double)v[ACT_N];
}

void act_set_chunks(struct act_args *a, const struct rfg_problem *prob)
{
    unsigned vec = (unsigned)rfg_format_elements(prob->dtype[0], 16), d = (unsigned)(a->n - 1) / vec + 1;
    unsigned group = RFG_SCALE_COLUMNS / vec;
    if (prob->v[ACT_SCALE] == RFG_SCALE_GROUP)
        d = (d + group - 1) / group * group;
    a->row_chunks = d;
    rfg_divisor(d, &a->mul, &a->shift);
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

#define DESC(op_name, op_id)                                                                                           \
    const struct rfg_op rfg_op_##op_name##_desc = { .name = #op_name,                                                  \
                                                    .id = op_id,                                                       \
                                                    .n_in = 1,                                                         \
                                                    .n_out = 1,                                                        \
                                                    RFG_OPERANDS(act_operands),                                        \
                                                    .n_keys = ACT_NKEYS,                                               \
                                                    .keys = act_keys,                                                  \
                                                    .column_key = { "M", "N", NULL },                                  \
                                                    RFG_KARGS(struct act_args),                                        \
                                                    .valid = act_valid,                                                \
                                                    .cost = act_cost }
DESC(act_and_mul, 2);
DESC(act, 3);
