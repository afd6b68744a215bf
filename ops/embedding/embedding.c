/* SPDX-License-Identifier: MIT
 *
 * The operator embedding: its keys, rules and table. The public function is in call.c. */
#include "embedding.h"

#include <inttypes.h>
#include <math.h>

#include "ops/operand.h"
#include "ops/params.h"

static const struct rfg_key embedding_keys[EMBEDDING_NKEYS] = {
    [EMBEDDING_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "ids, rows of y" },
    [EMBEDDING_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of y and the table" },
    [EMBEDDING_V] = { "V", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of the table" },
    [EMBEDDING_SCALED] = { "scaled", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: rows are multiplied with a scale" },
    [EMBEDDING_LDT] = { "ldt", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                        "row stride of the table in elements; 0: packed" },
    [EMBEDDING_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL, "row stride of y in elements; 0: packed" },
    [EMBEDDING_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                          "bytes, up to 16, of which the table's pointer and row stride are multiples" },
    [EMBEDDING_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                            "bytes, up to 16, of which y's pointer and row stride are multiples" },
    [EMBEDDING_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand embedding_operands[] = {
    { "ids", false, RFG_FORMAT_LISTED, 0, 0 },
    { "table", false, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_LISTED, 2, 0 },
};

static bool dtypes_valid(const uint8_t *d, struct rfg_reason *why)
{
    if (d[0] != RFG_I32 && d[0] != RFG_I64)
        return rfg_refuse(why, "dtype of ids is %s: must be i32 or i64", rfg_dtype_name((rfg_dtype)d[0]));
    if (!rfg_dtype_is_float(d[1]))
        return rfg_refuse(why, "dtype of table is %s: must be bf16, f16 or f32", rfg_dtype_name((rfg_dtype)d[1]));
    return d[2] == d[1] || d[2] == RFG_F32 ||
           rfg_refuse(why, "dtype of y is %s: must be the table's, %s, or f32", rfg_dtype_name((rfg_dtype)d[2]),
                      rfg_dtype_name((rfg_dtype)d[1]));
}

static bool embedding_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!dtypes_valid(prob->dtype, why))
        return false;
    for (int i = EMBEDDING_LDT; i <= EMBEDDING_LDY; i++)
        if (v[i] && v[i] < v[EMBEDDING_N])
            return rfg_refuse(why, "%s=%" PRId64 ": must be at least N=%" PRId64, embedding_keys[i].name, v[i],
                              v[EMBEDDING_N]);
    for (int i = EMBEDDING_ALIGN; i <= EMBEDDING_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", embedding_keys[i].name, v[i]);
    return true;
}

static void embedding_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    const int64_t *v = prob->v;
    double m = (double)v[EMBEDDING_M];
    *bytes = m * (double)(rfg_format_bytes(prob->dtype[0], 1) + rfg_format_bytes(prob->dtype[1], v[EMBEDDING_N]) +
                          rfg_format_bytes(prob->dtype[2], v[EMBEDDING_N]));
    *flops = m * (double)v[EMBEDDING_N]; /* moves: 0 would mean nothing to do */
}

void embedding_set_chunks(struct embedding_args *a, const struct rfg_problem *prob)
{
    unsigned d = (unsigned)ceil_div(prob->v[EMBEDDING_N], rfg_format_elements(prob->dtype[1], 16));
    a->row_chunks = d;
    rfg_divisor(d, &a->mul, &a->shift);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const struct rfg_op rfg_op_embedding_desc = {
    .name = "embedding",
    .id = 11,
    .n_in = 2,
    .n_out = 1,
    RFG_OPERANDS(embedding_operands),
    .n_keys = EMBEDDING_NKEYS,
    .keys = embedding_keys,
    .column_key = { "M", "N", "V" },
    RFG_KARGS(struct embedding_args),
    .valid = embedding_valid,
    .cost = embedding_cost,
};
